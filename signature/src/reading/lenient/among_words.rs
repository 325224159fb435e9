//! The only value among words: `Here it is: {"a": 1} Anything else?`.
//!
//! In: a whole text. Out: its only object or list. The text around the value must not belong to
//! it, and every other value in the text must be equal to it:
//!
//! ```text
//! As [1] says: {"a": 1}           →  {"a":1}    `[1]` is a note
//! {"a": 1} or again {"a": 1}      →  {"a":1}    both mean the same
//! {"a": 1} or {"a": 2}            →  Several
//! {"a": 1}\nb: 2                  →  Unclear    if `b` is a field of the schema
//! {"a": 1}, "b": 2}               →  Unclear    the value was a part of something larger
//! ```
//!
//! Begin with [`among_words`].

use crate::limits::{VAIN_BYTES, VAIN_SCANS};
use crate::reading::lenient::parser::LenientParser;
use crate::reading::lenient::{Asked, NotJson, Repaired, value};
use crate::reading::thoughts::closes;

/// The fault of a text in which too many brackets were tried in vain.
const TOO_MANY: &str = "too many brackets open no value; give the value alone";

/// The values of a text, and the words around them.
struct Scanned {
    /// The values with their offsets in the text.
    found: Vec<(Repaired, usize)>,
    /// The words before, between and after the values, without comments: one more than values.
    words: Vec<String>,
    /// Whether any bracket was found, even one that opens no value.
    brackets: bool,
}

/// Returns the only object or list among words. `refusal` is the reason why the text as a whole is
/// not a value.
pub(super) fn among_words(
    text: &str,
    asked: &Asked<'_>,
    refusal: NotJson,
) -> Result<Repaired, NotJson> {
    let Scanned { found, words, brackets } = scan(text, asked)?;
    let further = words.iter().enumerate().any(|(index, words)| {
        let list = found.get(index).is_some_and(|((json, _), _)| json.starts_with('['));
        names_a_field(words, list, asked)
    });
    if further {
        let at = found.first().map_or(0, |(_, start)| *start);
        return Err(NotJson::Unclear { at, what: "a further field stands outside of it" });
    }
    // `[1]` is a note; a list of objects may be the intended value.
    let drops = !asked.lists && found.iter().any(|((json, _), _)| json.starts_with('{'));
    let mut found = found
        .into_iter()
        .zip(words.iter().skip(1))
        .filter(|(((json, _), _), _)| !drops || json.contains('{'));
    let Some(((value, at), behind)) = found.next() else {
        return Err(if brackets { refusal } else { NotJson::Nothing });
    };
    if found.any(|(((json, _), _), _)| json != value.0) {
        return Err(NotJson::Several);
    }
    let before = words.first().map_or("", String::as_str);
    let after = words.last().map_or("", String::as_str);
    // A further bracket may close a list of lists, whose opening bracket is missing.
    let in_list = value.0.starts_with('[') && after.trim_start().starts_with(']');
    // The thoughts began before the text, or in it: the value belongs to them.
    if closes(after) {
        return Err(NotJson::Unclear {
            at,
            what: "it may be a draft, because thoughts end after it",
        });
    }
    let nested = ends_early(&value.0) && after.contains(['}', ']']) || in_list;
    // A quote at the very end of the value starts a text that continues.
    let quoted = behind.starts_with(['"', '”']);
    if nested || quoted || is_part(before, after) {
        return Err(NotJson::Unclear { at, what: "it may be a part of something larger" });
    }
    Ok(value)
}

/// Divides a text into values and words. A value that looks like JSON and cannot be parsed is a
/// fault, because it may be the intended one.
fn scan(text: &str, asked: &Asked<'_>) -> Result<Scanned, NotJson> {
    let mut scanned = Scanned { found: Vec::new(), words: vec![String::new()], brackets: false };
    let mut left = VAIN_BYTES + text.len().saturating_mul(VAIN_SCANS);
    let mut at = 0;
    while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
        if let Some(end) = comment(text, at) {
            at = end;
            continue;
        }
        if matches!(c, '{' | '[') {
            scanned.brackets = true;
            let mut parser = LenientParser::new(text, at);
            match parser.value() {
                Ok(()) => {
                    let start = std::mem::replace(&mut at, parser.at);
                    scanned.found.push((parser.found(), start));
                    scanned.words.push(String::new());
                    continue;
                }
                Err(refusal)
                    if matches!(refusal, NotJson::EndsEarly | NotJson::TooDeep)
                        || looks_like_json(text.get(at..).unwrap_or_default(), asked) =>
                {
                    return Err(refusal);
                }
                Err(_) => {
                    left = left.saturating_sub(parser.at - at + parser.refused);
                    if left == 0 {
                        return Err(NotJson::Unclear { at, what: TOO_MANY });
                    }
                }
            }
        }
        scanned.words.last_mut().into_iter().for_each(|words| words.push(c));
        at += c.len_utf8();
    }
    Ok(scanned)
}

/// Returns the end of the comment at an offset. The marks are also parts of words, so they
/// count only where a comment is certain: not in `https://` and not in `issue #5`.
///
/// ```text
/// {"a": 1} // was 2     a comment
/// https://a.b, #5       not a comment
/// ```
fn comment(text: &str, at: usize) -> Option<usize> {
    let end = comment_end(text, at)?;
    let inside = at + if text.get(at..)?.starts_with('#') { 1 } else { 2 };
    let found = text.get(inside..).and_then(|rest| rest.find(end));
    // The end of a line is not a part of the comment.
    let length = if end == "\n" { 0 } else { end.len() };
    Some(found.map_or(text.len(), |found| inside + found + length))
}

/// Returns the end of the kind of comment that begins at an offset: `*/`, or the end of the line.
pub(crate) fn comment_end(text: &str, at: usize) -> Option<&'static str> {
    let (before, rest) = text.split_at_checked(at)?;
    if !rest.starts_with(['/', '#']) {
        return None;
    }
    let apart = before.chars().next_back().is_none_or(|c| {
        c.is_whitespace() || matches!(c, '{' | '}' | '[' | ']' | ',' | '/' | '\u{feff}')
    });
    let before = before.trim_end_matches([' ', '\t', '\u{feff}']);
    if rest.starts_with("/*") && apart {
        Some("*/")
    } else if rest.starts_with("//") && apart
        || rest.starts_with('#') && (before.is_empty() || before.ends_with('\n'))
    {
        Some("\n")
    } else {
        None
    }
}

/// Whether words contain a field, which would be lost with them: any name in quotes before a
/// colon, or a declared name before a colon and a value that fills the line.
///
/// ```text
/// "b": 2           →  true: a name in quotes
/// b: 2             →  true, if `b` is a field
/// b: see there     →  false: the rest of the line is not a value
/// ```
fn names_a_field(words: &str, list_follows: bool, asked: &Asked<'_>) -> bool {
    // Names and the text after them may have Markdown marks.
    let is_mark = |c: char| matches!(c, '*' | '`') || c.is_whitespace();
    words.match_indices([':', '=']).any(|(at, sign)| {
        let (before, after) = words.split_at_checked(at).unwrap_or_default();
        let before = before.trim_end_matches(is_mark);
        if before.ends_with(['"', '”']) {
            return sign == ":";
        }
        if let Some(quoted) = before.strip_suffix('\'') {
            // An apostrophe is inside a word or after it, a quote before one.
            let opens = |(at, _): (usize, _)| {
                let before = quoted.get(..at).and_then(|before| before.chars().next_back());
                !before.is_some_and(char::is_alphanumeric)
            };
            return quoted.rmatch_indices('\'').next().is_some_and(opens);
        }
        let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
        let rest = before.trim_end_matches(part);
        let name = before.get(rest.len()..).unwrap_or_default();
        let after = after.get(1..).unwrap_or_default().trim_start_matches(['*', '`', ' ']);
        (asked.field)(name) && (is_value(after) || list_follows && after.trim().is_empty())
    })
}

/// Whether the rest of a line is a JSON scalar.
///
/// ```text
/// 5,   'a   true   →  true
/// see there        →  false
/// ```
fn is_value(text: &str) -> bool {
    /// Enough to decide; a line may be as long as the text.
    const LONGEST: usize = 200;
    let line: String =
        text.chars().take(LONGEST).take_while(|c| !matches!(c, '\n' | '\r')).collect();
    match value(line.trim().trim_end_matches([',', ';', '}', ']'])) {
        Ok(_) => true,
        Err(refusal) => refusal == NotJson::EndsEarly && line.contains(['"', '\'', '“']),
    }
}

/// Whether there is text after a closing bracket. A surplus bracket may be in the wrong place, so
/// that the text after it belongs inside the value.
///
/// ```text
/// {"a": {"b": 1}, "c": 2}   →  true: `}` may be misplaced before `"c"`
/// {"a": 1}                  →  false
/// ```
fn ends_early(json: &str) -> bool {
    let (mut quoted, mut escaped, mut closed) = (false, false, false);
    json.chars().any(|c| {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            _ if quoted || c.is_whitespace() => {}
            ',' if closed => return true,
            _ => closed = matches!(c, '}' | ']'),
        }
        false
    })
}

/// Whether the text around a value shows that it was part of another value.
///
/// ```text
/// x = {"a": 1}    "x": {"a": 1}    {"a": 1}, "b": 2   →  true
/// Here: {"a": 1}. Anything else?                      →  false
/// ```
fn is_part(before: &str, after: &str) -> bool {
    let before = before.trim_end();
    let key = before.strip_suffix(':').map(str::trim_end);
    if before.ends_with([',', '=', '"'])
        || key.is_some_and(|key| key.ends_with(['"', '\'', '`', '”']))
    {
        return true;
    }
    let only_closers = after.chars().all(|c| c.is_whitespace() || matches!(c, '}' | ']'));
    let closers = after.contains(['}', ']']);
    // A surplus bracket at the very end loses nothing.
    let harmless = only_closers && before.is_empty();
    closers && !harmless || after.trim_start().starts_with(':') || goes_on(after)
}

/// Whether a comma is followed by another value, not by words.
///
/// ```text
/// , "b": 2    , 5    , b: 2   →  true
/// , and that is all           →  false
/// ```
fn goes_on(after: &str) -> bool {
    let Some(rest) = after.trim_start().strip_prefix(',') else {
        return false;
    };
    let rest = rest.trim_start();
    let name = rest.trim_start_matches(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-'));
    let marks = ['"', '\'', '{', '[', '“', '-', '+', '.'];
    rest.starts_with(marks)
        || rest.starts_with(|c: char| c.is_ascii_digit())
        || name.trim_start().starts_with([':', '='])
}

/// Whether a bracket in a text was intended to open a value. If the value cannot be parsed, any
/// other value in the text is ambiguous.
///
/// ```text
/// {"a    {a: 1    [1    [true   →  true
/// {name}   [note]               →  false
/// ```
fn looks_like_json(text: &str, asked: &Asked<'_>) -> bool {
    /// Enough to decide; the text may be full of brackets.
    const LONGEST: usize = 200;
    let mut chars = text.chars();
    let open = chars.next();
    let rest = chars.as_str().trim_start();
    let Some(next) = rest.chars().next() else {
        return true;
    };
    if matches!(next, '"' | '\'' | '“' | '{' | '[' | '}' | ']' | '/' | '\\' | ',') {
        return true;
    }
    match open {
        Some('{') => {
            // Words such as a placeholder have neither names nor quotes.
            let inside = rest.chars().take(LONGEST).take_while(|c| !matches!(c, '{' | '}'));
            inside.into_iter().any(|c| matches!(c, ':' | '=' | '"' | '“' | '`'))
        }
        _ => {
            let words = ["true", "false", "null", "True", "False", "None"];
            next.is_ascii_digit()
                || next == '-'
                || next == '`' && asked.lists
                || words.iter().any(|word| rest.starts_with(word))
        }
    }
}
