//! The tool `read_result`, with which a model reads long results of earlier calls.

use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use toolwright_module::message::ToolResult;
use toolwright_module::untrusted::{END, START, clean, fence};
use toolwright_module::{Context, Effect, Error, Message, Result, Tool, ToolOutput};
use toolwright_signature::{Contract, ContractError};

/// Name of the tool.
pub(crate) const READ_RESULT: &str = "read_result";

/// Number of results that the error of an unknown id names.
const MOST_NAMED: usize = 5;

/// Maximum number of bytes of a line that are shown before and after a match.
const BEFORE: usize = 80;
const AFTER: usize = 160;

/// Number of matches that are listed with one part of the text.
const MOST_PLACES: usize = 20;

/// Length of both marks of untrusted text, with their line ends.
const MARKS: usize = START.len() + END.len() + 3;

/// The longest character. A sixth of the least room for a text is longer, and no character gets more than
/// six times as long when it is shown.
const CHARACTER: usize = 4;

#[derive(Deserialize, JsonSchema)]
struct ReadResult {
    /// The id of the call, from the note.
    id: String,
    /// The byte to begin at. Default: 0.
    from: Option<u64>,
    /// Words to search for, in any case. Each match is shown with its place and the text around it.
    search: Option<String>,
}

/// The results that a call can read.
pub(crate) struct Readable {
    /// The conversation of the run.
    pub(crate) said: Arc<[Arc<Message>]>,
    /// Maximum size of the output, in bytes.
    pub(crate) most: usize,
}

impl Readable {
    fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.said.iter().rev().filter_map(|message| match &**message {
            Message::Tool(result) => Some(result),
            _ => None,
        })
    }

    /// Returns the error of an id that no result has.
    fn unknown(&self, id: &str) -> Error {
        let id = quoted(&id[..id.floor_char_boundary(100)]);
        let others = || self.results().filter(|result| result.name != READ_RESULT);
        let (cut, whole) = (
            others().filter(|result| result.whole.is_some()),
            others().filter(|result| result.whole.is_none()),
        );
        let mut text = format!("There is no result of a call {id} in this conversation.");
        let mut title = " These are the last ones:";
        for result in cut.chain(whole).take(MOST_NAMED) {
            let (bytes, id) = (text_of(result).len(), quoted(&result.id));
            // A `String` takes every text.
            let _ = write!(text, "{title} {id} of {} ({bytes} bytes)", result.name);
            title = ",";
        }
        Error::retry(text)
    }
}

/// Returns the tool that reads results.
pub(crate) fn read_result() -> Result<Tool, ContractError> {
    let description = "Read a result of an earlier call, in pieces or by a search. Use it if the note of a result says that it was cut.";
    let contract = Contract::of_input::<ReadResult>(READ_RESULT, description)?;
    Ok(Tool::dynamic(contract, Effect::Read, |arguments, cx: Context| async move {
        let asked: ReadResult = serde_json::from_str(&arguments).map_err(Error::retry)?;
        let readable = cx.get::<Readable>().ok_or_else(|| {
            Error::stop("`read_result` works in runs of the agent that added it only; do not give it to another one")
        })?;
        read(&asked, readable)
    }))
}

/// Returns what the note of a cut result says about the tool.
pub(crate) fn read_more(id: &str) -> String {
    format!("read more with {READ_RESULT} {{\"id\": {}}}", quoted(id))
}

fn read(asked: &ReadResult, readable: &Readable) -> Result<ToolOutput> {
    let found = readable.results().find(|result| result.id == asked.id);
    let result = found.ok_or_else(|| readable.unknown(&asked.id))?;
    let text = text_of(result);
    let from = asked.from.unwrap_or(0);
    let start =
        usize::try_from(from).ok().filter(|start| *start <= text.len()).ok_or_else(|| {
            Error::retry(format!(
                "The result has {} bytes, so there is no byte {from}.",
                text.len()
            ))
        })?;
    let untrusted = result.untrusted;
    let most = readable.most.saturating_sub(if untrusted { MARKS } else { 0 });
    let read = Reading { text, lost: result.lost_bytes, id: &asked.id, most, untrusted };
    let start = text.floor_char_boundary(start);
    match asked.search.as_deref().filter(|words| !words.is_empty()) {
        Some(words) => read.search(words, start).map(ToolOutput::text_only),
        None => {
            // The images and files are at the start, because the text has their numbers.
            let parts = if start == 0 { result.parts.clone() } else { Vec::new() };
            Ok(ToolOutput::text_only(read.page(start)?).with_parts(parts))
        }
    }
}

fn text_of(result: &ToolResult) -> &str {
    result.whole.as_deref().unwrap_or(&result.text)
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A result that is read.
struct Reading<'a> {
    text: &'a str,
    /// Number of bytes after the text that were not kept.
    lost: u64,
    id: &'a str,
    /// Maximum size of the output, without marks.
    most: usize,
    /// Whether strangers wrote the text.
    untrusted: bool,
}

impl Reading<'_> {
    /// Returns a part of the text as it is shown. That of an untrusted result is between marks.
    fn shown<'a>(&self, part: &'a str) -> Cow<'a, str> {
        if !self.untrusted {
            return Cow::Borrowed(part);
        }
        // The text has marks itself. Places count them, as the note of the cut result does.
        let start = part.strip_prefix(START).map(|part| part.strip_prefix('\n').unwrap_or(part));
        let part = start.unwrap_or(part);
        let end = part.strip_suffix(END).map(|part| part.strip_suffix('\n').unwrap_or(part));
        fence(end.unwrap_or(part))
    }

    /// Returns the length of a part of the text as it is shown, without marks.
    fn length(&self, part: &str) -> usize {
        if self.untrusted { clean(part).len() } else { part.len() }
    }

    /// Returns the length of a start of the text that has room when it is shown. It is at least a
    /// character.
    fn fitting(&self, text: &str, room: usize) -> usize {
        let mut end = text.floor_char_boundary(room.min(text.len()));
        loop {
            let length = self.length(&text[..end]);
            if length <= room {
                return end;
            }
            end = text.floor_char_boundary(end.saturating_mul(room) / length);
        }
    }

    /// Returns the lines of a search as they are shown, before a note.
    fn shown_lines(&self, lines: &str) -> String {
        match lines.strip_suffix('\n') {
            Some(lines) => format!("{}\n", self.shown(lines)),
            None => String::new(),
        }
    }

    /// Returns the text from a byte on, and a note that says how to go on.
    fn page(&self, start: usize) -> Result<String> {
        let Self { text, id, .. } = *self;
        let total = (text.len() as u64).saturating_add(self.lost);
        let note = |end: usize| {
            let next = match (end < text.len(), self.lost) {
                (true, _) => {
                    format!(
                        "; go on with {READ_RESULT} {{\"id\": {}, \"from\": {end}}}",
                        quoted(id)
                    )
                }
                (false, 0) => ": the end".to_owned(),
                (false, _) => {
                    ": the rest was not kept; to see more, make the call again and ask for less"
                        .to_owned()
                }
            };
            format!("\n[bytes {start} to {end} of {total}{next}]")
        };
        let room = self.most.saturating_sub(note(text.len()).len());
        let rest = &text[start..];
        // A long rest is not read.
        let end = if rest.len() <= room && self.length(rest) <= room {
            text.len()
        } else {
            // The note for the final, smaller number is not longer.
            let last = note(text.len()).len();
            let room = self.room(last.max(note(text.len().saturating_sub(1)).len()))?;
            let end = start + self.fitting(rest, room);
            // A page ends with a line, unless that makes it much shorter.
            let least = start + (end - start) / 4 * 3;
            text[start..end]
                .rfind('\n')
                .map(|at| start + at + 1)
                .filter(|at| *at > least)
                .unwrap_or(end)
        };
        Ok(format!("{}{}", self.shown(&text[start..end]), note(end)))
    }

    /// Returns the matches from a byte on, and a note that says how many there are and how to go on.
    fn search(&self, words: &str, start: usize) -> Result<String> {
        let (text, note) =
            (self.text, |shown, all, next| self.found(words, start, shown, all, next));
        let room = self.room(note(text.len(), text.len() + 1, Some(text.len())).len())?;
        let (rest, words) = (Folded::new(&text[start..]), Folded::new(words).text);
        let mut found = rest.text.match_indices(&*words).peekable();
        let place = |(at, found): (usize, &str)| {
            start + rest.before(at)..start + rest.after(at + found.len())
        };
        let (mut shown, mut length, mut count) = (String::new(), 0, 0);
        while let Some(first) = found.next().map(place) {
            let part = around(text, &first, start, room);
            let (mut places, mut here) = (first.start.to_string(), 1);
            while here < MOST_PLACES
                && let Some(other) = found.peek().copied().map(place)
                && other.end <= part.end
            {
                found.next();
                here += 1;
                // A `String` takes every text.
                let _ = write!(places, ", {}", other.start);
            }
            let line = format!("at {places}: {}\n", excerpt(text, &part));
            length += self.length(&line);
            if length > room {
                let all = count + here + found.count();
                if count > 0 {
                    return Ok(self.shown_lines(&shown) + &note(count, all, Some(first.start)));
                }
                // Without its text, so that the next call goes on after it.
                let next = Some(first.end).filter(|_| all > 1);
                return Ok(format!("at {}\n{}", first.start, note(1, all, next)));
            }
            shown.push_str(&line);
            count += here;
        }
        Ok(self.shown_lines(&shown) + &note(count, count, None))
    }

    /// Returns the note of a search: the number of matches that are shown, that of all, and the byte to
    /// go on from.
    fn found(
        &self,
        words: &str,
        start: usize,
        shown: usize,
        all: usize,
        next: Option<usize>,
    ) -> String {
        let total = (self.text.len() as u64).saturating_add(self.lost);
        let matches = match all {
            0 => "no match".to_owned(),
            1 => "1 match".to_owned(),
            _ if shown == all => format!("all {all} matches"),
            _ => format!("{shown} of {all} matches"),
        };
        let kept = match self.lost {
            0 => String::new(),
            _ => format!(", of which {} were kept", self.text.len()),
        };
        let next = next.map_or_else(String::new, |next| {
            let (id, words) = (quoted(self.id), quoted(words));
            format!(
                "; go on with {READ_RESULT} {{\"id\": {id}, \"search\": {words}, \"from\": {next}}}"
            )
        });
        format!("[{matches} from byte {start} on, in {total} bytes{kept}{next}]")
    }

    /// Returns the room beside a note.
    fn room(&self, note: usize) -> Result<usize> {
        let room = self.most.checked_sub(note).filter(|room| *room >= 8 * CHARACTER);
        room.ok_or_else(|| {
            let most = self.most;
            Error::retry(format!(
                "A result may have at most {most} bytes here, which is too few for this. Search for fewer words, or do without."
            ))
        })
    }
}

/// Returns the part of a text that is shown of a match: its lines, up to some bytes.
fn around(text: &str, found: &Range<usize>, start: usize, room: usize) -> Range<usize> {
    let (before, after) = (BEFORE.min(room / 6), AFTER.min(room / 3));
    let from = text.floor_char_boundary(found.start.saturating_sub(before)).max(start);
    let from = text[from..found.start].rfind('\n').map_or(from, |at| from + at + 1);
    let to = text.ceil_char_boundary((found.end + after).min(text.len()));
    let to = text[found.end..to].find('\n').map_or(to, |at| found.end + at);
    from..to
}

/// Returns a part of a text. `…` says that its line goes on.
fn excerpt(text: &str, part: &Range<usize>) -> String {
    let is_whole = |at: Option<u8>| at.is_none_or(|byte| byte == b'\n');
    let byte = |at: usize| text.as_bytes().get(at).copied();
    let before = if is_whole(part.start.checked_sub(1).and_then(byte)) { "" } else { "…" };
    let after = if is_whole(byte(part.end)) { "" } else { "…" };
    format!("{before}{}{after}", &text[part.clone()])
}

/// A text in lower case, and where its characters were.
struct Folded<'a> {
    original: &'a str,
    text: String,
    /// Pairs of a place in the lower case and the same place in the original, where the distance
    /// between both changes.
    moved: Vec<(usize, usize)>,
}

impl<'a> Folded<'a> {
    fn new(original: &'a str) -> Self {
        let lower = original.to_ascii_lowercase();
        let (mut text, mut moved) = (String::new(), Vec::new());
        // Most texts have few other capitals, so that whole pieces are copied between them.
        let mut copied = 0;
        for (at, character) in lower.char_indices() {
            if character.is_ascii() || character.to_lowercase().eq([character]) {
                continue;
            }
            text.push_str(&lower[copied..at]);
            let before = text.len();
            text.extend(character.to_lowercase());
            copied = at + character.len_utf8();
            if text.len() - before != character.len_utf8() {
                moved.push((text.len(), copied));
            }
        }
        if copied == 0 {
            return Self { original, text: lower, moved };
        }
        text.push_str(&lower[copied..]);
        Self { original, text, moved }
    }

    /// Returns the start of the character that became the one at a place of the lower case.
    fn before(&self, at: usize) -> usize {
        self.original.floor_char_boundary(self.place(at))
    }

    /// Returns the end of the character that became the one that ends at a place of the lower case.
    fn after(&self, at: usize) -> usize {
        self.original.ceil_char_boundary(self.place(at))
    }

    fn place(&self, at: usize) -> usize {
        let next = self.moved.partition_point(|(folded, _)| *folded <= at);
        let known = next.checked_sub(1).and_then(|last| self.moved.get(last));
        let (folded, original) = known.copied().unwrap_or_default();
        (original + (at - folded)).min(self.original.len())
    }
}
