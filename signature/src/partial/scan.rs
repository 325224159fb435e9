//! Where the JSON begins in a streamed text.
//!
//! In: the text so far, such as `As [1] says: {"a": "b`. Out: its values in a [`Tree`], from the
//! first bracket that is not part of the words before the JSON. From there on, the common
//! [tokenizer](crate::reading::tokenizer) parses the text and pauses at its end. Text after the JSON is ignored.
//!
//! The thoughts before the words, and the comments among them, are skipped as in
//! [`lenient`](crate::reading::lenient), by the same functions.
//!
//! Begin with [`Scan::run`].

use super::tree::Tree;
use crate::reading::lenient::among_words::comment_end;
use crate::reading::number::Decimal;
use crate::reading::thoughts::Thoughts;
use crate::reading::tokenizer::Broken;

/// The longest text whose offsets fit into 32 bits.
const LONGEST: usize = u32::MAX as usize - 1;

/// The parser of a streamed text, with its result.
#[derive(Debug, Clone, Default)]
pub(super) struct Scan {
    pub(super) tree: Tree,
    thoughts: Thoughts,
    place: Place,
}

/// The part of the text that the scan has reached.
#[derive(Debug, Clone, Copy, Default)]
enum Place {
    /// The thoughts before the answer.
    #[default]
    Thoughts,
    /// Words before the JSON.
    Before,
    /// Inside a comment before the JSON, up to this end.
    Comment(&'static str),
    /// After a bracket at this offset that may belong to the words, as in `[1]` and `{name}`.
    Aside(usize),
    /// Inside the JSON.
    Inside,
    /// After the JSON: all further text is ignored.
    After,
}

impl Scan {
    /// Scans the text that was not scanned yet. A fault is in `tree.tokens.broken`, and final:
    /// do not call this again.
    pub(super) fn run(&mut self) {
        if self.tree.text.len() > LONGEST {
            self.tree.tokens.broken = Some(Broken::TooLong);
            return;
        }
        while !matches!(self.place, Place::Inside | Place::After) {
            let Some(found) = self.find_root() else {
                return;
            };
            self.place = found;
        }
        if matches!(self.place, Place::Inside) && self.tree.run() {
            self.place = Place::After;
        }
    }

    /// Scans up to the next decision about a bracket; `None` if that needs more text.
    ///
    /// It stops at the first bracket, and then at the first character inside it that shows whether
    /// it is a word in brackets.
    fn find_root(&mut self) -> Option<Place> {
        let Self { tree: Tree { text, tokens, .. }, thoughts, place } = self;
        let at = &mut tokens.at;
        if let Place::Thoughts = place {
            thoughts.scan(text);
            *at = thoughts.answer()?;
            return Some(Place::Before);
        }
        if let Place::Comment(mark) = *place {
            let ahead = text.get(*at..).unwrap_or_default();
            let Some(end) = ahead.find(mark) else {
                // Half the mark of the end may be there.
                *at = text.len() - usize::from(ahead.ends_with('*'));
                return None;
            };
            *at += end + if mark == "\n" { 0 } else { mark.len() };
            return Some(Place::Before);
        }
        let ahead = text.as_bytes().get(*at..).unwrap_or_default();
        let is_word =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b' ' | 0x80..);
        let found = ahead.iter().position(|&byte| match place {
            Place::Before => matches!(byte, b'{' | b'[' | b'/' | b'#'),
            _ => !is_word(byte),
        });
        *at += found.unwrap_or(ahead.len());
        let found = *ahead.get(found?)?;
        let answer = text.get(thoughts.end()..)?;
        let in_answer = *at - thoughts.end();
        match *place {
            Place::Aside(start) if is_aside(answer, start - thoughts.end(), in_answer) => {
                *at += 1;
                Some(Place::Before)
            }
            Place::Aside(start) => {
                *at = start;
                Some(Place::Inside)
            }
            _ if matches!(found, b'/' | b'#') => {
                if found == b'/' && *at + 1 == text.len() {
                    return None;
                }
                let mark = comment_end(answer, in_answer);
                *at += if found == b'/' && mark.is_some() { 2 } else { 1 };
                Some(mark.map_or(Place::Before, Place::Comment))
            }
            _ if answer.get(..in_answer)?.trim_end_matches(blank).is_empty() => Some(Place::Inside),
            _ if is_quoted(answer.get(..in_answer)?) => Some(Place::After),
            _ => {
                *at += 1;
                Some(Place::Aside(*at - 1))
            }
        }
    }
}

/// Whether the brackets from `start` to `end` belong to the words around the JSON.
///
/// ```text
/// See [1]: {"a": 1}      →  `[1]` is a footnote
/// So:\n[12]              →  `[12]` is the JSON
/// {name}, [the docs]     →  words
/// [], [true], {"         →  the JSON
/// ```
fn is_aside(text: &str, start: usize, end: usize) -> bool {
    let bracket = text.as_bytes().get(end);
    let inside = text.get(start + 1..end).unwrap_or_default().trim();
    let is_list = bracket == Some(&b']');
    // A number between words is a footnote; on its own line it is a list with one item.
    let before = text.get(..start).unwrap_or_default();
    let alone = before.trim_end_matches(' ').ends_with('\n');
    let is_value = match inside {
        "" => true,
        "true" | "false" | "null" => is_list,
        inside => is_list && alone && Decimal::parse(inside).is_some(),
    };
    matches!(bracket, Some(b']' | b'}')) && !is_value
}

/// Whether an answer is a text in quotes, alone or in a code fence. Brackets inside it are its own,
/// as in `'not {"a": 2}'`.
fn is_quoted(before: &str) -> bool {
    let answer = before.trim_start_matches(blank);
    let answer = match answer.strip_prefix("```") {
        Some(fenced) => fenced.split_once('\n').map_or(fenced, |(_, body)| body).trim_start(),
        None => answer,
    };
    answer.starts_with(['"', '\''])
}

/// Whether a character before the JSON does not make it "among words".
fn blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}
