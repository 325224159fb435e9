//! Conversion of near-JSON to JSON.
//!
//! In: a text that is not JSON. Out: JSON with the same meaning, and a [`Repair`] for each kind
//! of mistake; or a [`NotJson`] with the reason why the text has no certain meaning.
//!
//! ```text
//! Sure! {'a': True,}   →   {"a":true}    notes: other quotes, a word of another language,
//!                                               a trailing comma, text around the value
//! {"a": [1, 2          →   EndsEarly     the end would be a guess, even for a single bracket
//! {"a": "say "hi""}    →   Unclear       a quote inside a text would cut the text short
//! ```
//!
//! Begin with [`document`]. It tries, in this order:
//!
//! 1. the whole text, or the inside of a code fence, as one value ([`parser`]),
//! 2. the text with a layer of escapes removed: `{\"a\": 1}`,
//! 3. the only value among words ([`among_words()`]).

pub(crate) mod among_words;
mod parser;

use crate::reading::policy::Repair;
use crate::reading::tape::Tape;
use crate::reading::thoughts::Thoughts;
use among_words::among_words;
use parser::LenientParser;

/// The reason why a text has no meaning, or more than one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotJson {
    /// The text was cut off.
    EndsEarly,
    /// There is an unexpected character, at an offset in bytes.
    Unclear { at: usize, what: &'static str },
    /// There are several different values.
    Several,
    /// The text nests too deeply.
    TooDeep,
    /// There is no JSON.
    Nothing,
}

/// The value as JSON, and its repairs.
type Repaired = (String, Vec<Repair>);

/// Parses a text that is one value.
pub(super) fn value(text: &str) -> Result<Repaired, NotJson> {
    LenientParser::new(text, 0).whole()
}

/// Facts about the schema that decide which text around a value belongs to it.
pub(super) struct Asked<'a> {
    /// Whether the value may be a list; otherwise a list beside an object is ignored.
    pub(super) lists: bool,
    /// Whether there is a field of a given name.
    pub(super) field: &'a dyn Fn(&str) -> bool,
}

/// Parses the value inside a text, which may have other text around it.
pub(super) fn document(text: &str, asked: &Asked<'_>) -> Result<Repaired, NotJson> {
    if let Some(at) = text.find('\0') {
        return Err(NotJson::Unclear { at, what: "a NUL cannot be part of a text" });
    }
    let mut thoughts = Thoughts::default();
    thoughts.scan(text);
    // Drafts are not answers, and without an end everything after `<think>` is a draft.
    if thoughts.is_open() {
        return Err(NotJson::EndsEarly);
    }
    let answer = text.get(thoughts.end()..).unwrap_or_default();
    if thoughts.end() == 0 {
        return answer_in(text, asked);
    }
    match answer_in(answer, asked) {
        Ok(found) => Ok(noted(found, "left out the thoughts before the value")),
        Err(NotJson::Unclear { at, what }) => {
            Err(NotJson::Unclear { at: at + text.len() - answer.len(), what })
        }
        refused => refused,
    }
}

/// Adds a repair of the whole text before the others.
fn noted((json, mut notes): Repaired, what: &str) -> Repaired {
    notes.insert(0, Repair::new("$", what));
    (json, notes)
}

/// Reads an answer without thoughts: one value, alone, in a code fence, or among words.
///
/// A text that begins like JSON and ends early is not searched for values among words: the value
/// inside it would be only a part.
fn answer_in(text: &str, asked: &Asked<'_>) -> Result<Repaired, NotJson> {
    let inner = fenced(text).unwrap_or(text);
    let refused = match value(inner) {
        Ok(found) if inner.len() < text.len() => {
            return Ok(noted(found, "took the value out of a code fence"));
        }
        Ok(found) => return Ok(found),
        Err(refused) => refused,
    };
    let cut_off = matches!(refused, NotJson::EndsEarly | NotJson::TooDeep);
    if cut_off && inner.trim().starts_with(['{', '[', '"']) {
        return Err(refused);
    }
    if let Some(json) = escaped_once_more(inner.trim()) {
        return Ok(noted((json, Vec::new()), "took away a second layer of escapes"));
    }
    let found = among_words(text, asked, refused)?;
    Ok(noted(found, "took the value out of the text around it"))
}

/// Returns the inside of a code fence, if the whole text is one code fence.
fn fenced(text: &str) -> Option<&str> {
    let rest = text.trim().strip_prefix("```")?;
    let rest = rest.strip_suffix("```")?;
    if rest.contains("```") {
        return None;
    }
    let (language, body) = rest.split_once('\n').unwrap_or(("", rest));
    let word = |c: char| c.is_ascii_alphanumeric() || c.is_whitespace();
    Some(if language.chars().all(word) { body } else { rest })
}

/// Decodes the inside of a text: `{\"a\": 1}`.
fn escaped_once_more(text: &str) -> Option<String> {
    if !text.starts_with(['{', '[']) || !text.contains("\\\"") {
        return None;
    }
    let inner: String = serde_json::from_str(&format!("\"{text}\"")).ok()?;
    Tape::parse(&inner).is_ok().then_some(inner)
}
