//! What the name of a model says about it, and the form of its thinking.

use serde::Serialize;
use toolwright_module::model::Effort;

/// A family of models, by the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// A model that does not think: Gemini 2.0 and earlier, and Gemma.
    Plain,
    /// A model that thinks up to a number of tokens: Gemini 2.5, and tuned models of unknown base.
    Budget {
        /// Pro cannot turn thinking off.
        is_pro: bool,
    },
    /// A model that thinks at a level: Gemini 3 and later. It signs its calls, and takes images in
    /// the results of calls.
    Level {
        /// Gemini 3 Pro has only the levels `low` and `high`, and later Pro models no `minimal`.
        is_pro: bool,
        /// Whether the model has the level `medium`.
        has_medium: bool,
    },
}

impl Family {
    /// Returns the family of a model such as `gemini-2.5-flash` or `models/gemini-pro-latest`.
    pub(crate) fn of(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or_default();
        let is_pro = name.contains("pro");
        let Some(version) = name.strip_prefix("gemini-") else {
            return match name.starts_with("gemma") {
                true => Self::Plain,
                false => Self::Budget { is_pro },
            };
        };
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (major, rest) = version.split_at(digits(version));
        match (major.parse::<u32>(), rest) {
            (Ok(1), _) => Self::Plain,
            (Ok(2), rest) if rest.starts_with(".5") => Self::Budget { is_pro },
            (Ok(2), _) => Self::Plain,
            (Ok(3), rest) => Self::Level { is_pro, has_medium: !is_pro || rest.starts_with('.') },
            // A later version, or an alias of the latest.
            _ => Self::Level { is_pro, has_medium: true },
        }
    }

    /// Whether calls need a signature, and results may contain images.
    pub(crate) fn is_new(self) -> bool {
        matches!(self, Self::Level { .. })
    }

    pub(crate) fn thinks(self) -> bool {
        self != Self::Plain
    }

    /// Returns the API's value for an effort. A model with fewer levels gets the nearest.
    pub(crate) fn thinking(self, effort: Effort) -> Thinking {
        match self {
            Self::Plain => Thinking::default(),
            Self::Budget { is_pro } => Thinking::budget(match effort {
                Effort::Off if is_pro => 128,
                Effort::Off => 0,
                Effort::Minimal => 512,
                Effort::Low => 1024,
                Effort::High => 16_384,
                Effort::Max if is_pro => 32_768,
                Effort::Max => 24_576,
                _ => 8192,
            }),
            Self::Level { is_pro, has_medium } => Thinking::level(match effort {
                Effort::Off | Effort::Minimal if !is_pro => "minimal",
                Effort::Off | Effort::Minimal | Effort::Low => "low",
                Effort::Medium if has_medium => "medium",
                _ => "high",
            }),
        }
    }
}

/// The API's `ThinkingConfig`.
#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Thinking {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) include_thoughts: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
}

impl Thinking {
    fn budget(tokens: u32) -> Self {
        Self { thinking_budget: Some(tokens), ..Self::default() }
    }

    fn level(level: &'static str) -> Self {
        Self { thinking_level: Some(level), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_the_family() {
        let level = |is_pro, has_medium| Family::Level { is_pro, has_medium };
        for (name, family) in [
            ("gemini-1.5-pro", Family::Plain),
            ("gemini-2.0-flash-lite", Family::Plain),
            ("gemma-3-27b-it", Family::Plain),
            ("gemini-2.5-flash", Family::Budget { is_pro: false }),
            ("models/gemini-2.5-pro", Family::Budget { is_pro: true }),
            ("tunedModels/mine", Family::Budget { is_pro: false }),
            ("gemini-3-pro-preview", level(true, false)),
            ("gemini-3.1-pro-preview", level(true, true)),
            ("gemini-3-flash-preview", level(false, true)),
            ("gemini-flash-latest", level(false, true)),
            ("gemini-10-ultra", level(false, true)),
        ] {
            assert_eq!(Family::of(name), family, "{name}");
        }
    }
}
