//! What each generation of models takes.
//!
//! Sources: Anthropic's guides "Thinking", "Effort", "Structured outputs" and "Migration guide",
//! and recorded replies.

use crate::options::Thinking;

/// The abilities of a model that its name shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    /// The form of thinking.
    pub(crate) thinking: Thinking,
    /// Whether `temperature` and `top_p` are accepted.
    pub(crate) sampling: bool,
    /// Whether schemas of tools and answers can be strict.
    pub(crate) strict: bool,
    /// Whether the model can be given tools in the result of a search.
    pub(crate) tool_search: bool,
    /// Whether the model thinks unless a request turns it off.
    pub(crate) thinks_by_itself: bool,
}

impl Rules {
    /// Returns the rules of a model. A name without a number is a new model, and a name of another
    /// vendor is on a compatible server.
    pub(crate) fn of(model: &str) -> Self {
        let Some(version) = version(model) else {
            return Self {
                thinking: Thinking::Budget,
                sampling: true,
                strict: false,
                tool_search: false,
                thinks_by_itself: true,
            };
        };
        Self {
            thinking: if version >= (4, 6) { Thinking::Adaptive } else { Thinking::Budget },
            sampling: version < (4, 7),
            strict: version >= (4, 1),
            tool_search: version >= (4, 5),
            thinks_by_itself: version >= (5, 0),
        }
    }
}

/// Whether a server signs all thinking, and refuses thinking without a signature: Anthropic and the
/// clouds that host its models.
pub(crate) fn signs_thinking(host: &str) -> bool {
    let domains = ["anthropic.com", "amazonaws.com", "api.aws", "azure.com", "googleapis.com"];
    let is_in = |domain: &str| {
        let before = host.strip_suffix(domain);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    domains.into_iter().any(is_in)
}

/// Returns the version in the name of a Claude model: 4.7 for `claude-opus-4-7`, and 4.0 for
/// `claude-sonnet-4-20250514`.
fn version(model: &str) -> Option<(u32, u32)> {
    let lower = model.to_ascii_lowercase();
    let name = &lower[lower.find("claude")?..];
    let mut parts =
        name.split(|c: char| !c.is_ascii_alphanumeric()).skip_while(|part| !is_short(part));
    let Some(major) = parts.next().and_then(|part| part.parse().ok()) else {
        return Some((u32::MAX, 0));
    };
    let minor = parts.next().filter(|part| is_short(part)).and_then(|part| part.parse().ok());
    Some((major, minor.unwrap_or_default()))
}

/// Whether a part of a name is a number of a version, and not a date.
fn is_short(part: &str) -> bool {
    (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_the_name() {
        for (model, expected) in [
            ("claude-opus-4-7", Some((4, 7))),
            ("claude-sonnet-4-5-20250929", Some((4, 5))),
            ("claude-sonnet-4-20250514", Some((4, 0))),
            ("claude-sonnet-4-0", Some((4, 0))),
            ("claude-3-7-sonnet-latest", Some((3, 7))),
            ("claude-fable-5", Some((5, 0))),
            ("claude-fable-5-1", Some((5, 1))),
            ("claude-opus-4-1@20250805", Some((4, 1))),
            ("us.anthropic.claude-opus-4-6-v1:0", Some((4, 6))),
            ("anthropic/claude-4.7-opus", Some((4, 7))),
            ("claude-mythos-preview", Some((u32::MAX, 0))),
            ("smollm2", None),
        ] {
            assert_eq!(version(model), expected, "{model}");
        }
    }
}
