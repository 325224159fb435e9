//! The tool `text_wc`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::limited_call::LimitedCall;
use crate::limits::TextLimits;
use crate::text::Text;

/// Count the lines, words and characters of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextWc {
    /// Text to count.
    pub text: String,
    /// Return only the number of lines.
    #[serde(default)]
    pub lines_only: bool,
    /// Return only the number of words.
    #[serde(default)]
    pub words_only: bool,
    /// Return only the number of characters.
    #[serde(default)]
    pub chars_only: bool,
}

/// The requested counts. The others are null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Number of lines. Text after the last newline counts as a line.
    pub lines: Option<usize>,
    /// Number of words, which are separated by white space.
    pub words: Option<usize>,
    /// Number of Unicode code points, including line ends.
    pub characters: Option<usize>,
}

impl Signature for TextWc {
    type Output = Counts;

    fn render(counts: &Counts) -> Result<String, toolwright_signature::ContractError> {
        let parts =
            [("Lines", counts.lines), ("Words", counts.words), ("Characters", counts.characters)];
        let counts =
            parts.iter().filter_map(|(name, count)| Some(format!("{name}: {}", (*count)?)));
        Ok(counts.collect::<Vec<_>>().join(", "))
    }
}

/// The module of [`TextWc`]. Counts lines, words and characters.
///
/// If several flags are set, the first one in the order of the fields applies.
#[derive(Debug, Clone)]
pub struct TextWcModule {
    limits: TextLimits,
}

impl TextWcModule {
    /// Creates the module with the limits of `text`.
    #[must_use]
    pub fn new(text: &Text) -> Self {
        Self { limits: text.limits() }
    }
}

impl Module for TextWcModule {
    type Signature = TextWc;

    async fn call(&self, input: TextWc, cx: &Context) -> Result<Counts> {
        let TextWc { text, lines_only, words_only, chars_only } = input;
        let call = LimitedCall::start(&text, self.limits, cx)?;
        let (mut lines, mut words, mut characters) = (0, 0, 0);
        call.lines(&text, |line| {
            lines += 1;
            words += line.split_whitespace().count();
            characters += line.chars().count();
            Ok(())
        })?;
        let (lines, words, characters) = (Some(lines), Some(words), Some(characters));
        Ok(match (lines_only, words_only, chars_only) {
            (true, _, _) => Counts { lines, words: None, characters: None },
            (_, true, _) => Counts { lines: None, words, characters: None },
            (_, _, true) => Counts { lines: None, words: None, characters },
            _ => Counts { lines, words, characters },
        })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}
