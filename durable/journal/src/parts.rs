//! The parts beside the records: large images, documents and sounds of a run, and the whole texts of
//! long results, in a file of their own.
//!
//! In the JSON of a message, the content of a part is a `data:` URL, and a whole text is the string of
//! the field `whole`. In a line of the journal, a long one is a reference to a part of the run's file of
//! parts, and the line lists these parts:
//!
//! ```text
//! {"at":1795430380123,"parts":[{"at":19,"bytes":812345,"sha256":"…","media_type":"image/png"}],"record":{… "part:0" …}}
//! ```
//!
//! In such a line, another string that begins with `part:` begins with `part:=` instead. Lines without
//! parts are as before, so this is about the text of the JSON only: no type has to know it.
//!
//! A text is in the file as it is in the JSON, with its escapes.
//!
//! Records with messages of users and tools have parts: the start, the results of calls, compactions,
//! and the end.
//!
//! The content of a part is on disk before the line that names it. What is in the file after the last
//! named part is of a drive that was killed in between, and the next drive cuts it off.

use std::borrow::Cow;
use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toolwright_module::__files::{self, Link};

use crate::error::{JournalError, Result};
use crate::file;

/// The extension of the file with the parts of a run.
pub(crate) const EXTENSION: &str = "parts";

/// The first line.
const FORMAT: &[u8] = b"toolwright-parts 1\n";

/// The shortest base64 or text that is stored beside the record.
const MIN_LENGTH: usize = 1_024;

/// The start of a reference to a part, and that of another string that begins like one.
const REFERENCE: &str = "part:";
const ESCAPED: &str = "part:=";

/// A part in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stored {
    /// The place of its first byte.
    at: u64,
    bytes: u64,
    sha256: String,
    media_type: String,
    /// Whether it is the text of a JSON string.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_text: bool,
}

/// The media type of a whole text.
const TEXT: &str = "text/plain";

/// Returns the file with the parts of a run.
pub(crate) fn path_of(run: &Path) -> PathBuf {
    run.with_extension(EXTENSION)
}

/// Returns the length of the file with the parts of a run.
pub(crate) fn length(run: &Path) -> u64 {
    fs::symlink_metadata(path_of(run)).map_or(0, |found| found.len())
}

/// Returns the parts that a line names.
pub(crate) fn named(line: &str) -> serde_json::Result<Vec<Stored>> {
    Ok(split(line)?.map(|(_, parts, _)| parts).unwrap_or_default())
}

/// Splits a line that names parts: the text before the list, the list, and the text after it.
fn split(line: &str) -> serde_json::Result<Option<(&str, Vec<Stored>, &str)>> {
    const KEY: &str = "\"parts\":";
    let Some(comma) = line.find(',') else { return Ok(None) };
    let (before, rest) = line.split_at(comma + 1);
    let Some(rest) = rest.strip_prefix(KEY) else { return Ok(None) };
    let mut list = serde_json::Deserializer::from_str(rest).into_iter::<Vec<Stored>>();
    let Some(parts) = list.next().transpose()? else { return Ok(None) };
    let after = rest.get(list.byte_offset()..).and_then(|after| after.strip_prefix(','));
    Ok(after.map(|after| (before, parts, after)))
}

/// Returns a line without the contents of its parts, for a reader that needs only the rest.
pub(crate) fn without(line: &str) -> Cow<'_, str> {
    let Ok(Some((before, _, after))) = split(line) else { return Cow::Borrowed(line) };
    let nothing = |_: &str, _: &mut String| Ok::<_, Infallible>(());
    match restored(before, after, nothing) {
        Ok(text) => Cow::Owned(text),
        Err(never) => match never {},
    }
}

/// Returns a line without its list of parts. `add` adds what a reference stands for.
fn restored<E>(
    before: &str,
    after: &str,
    mut add: impl FnMut(&str, &mut String) -> Result<(), E>,
) -> Result<String, E> {
    let mut whole = String::with_capacity(before.len() + after.len());
    whole.push_str(before);
    let mut copied = 0;
    for string in strings(after.as_bytes()) {
        let text = &after[string.start..string.end];
        let Some(reference) = text.strip_prefix(REFERENCE) else { continue };
        whole.push_str(&after[copied..string.start]);
        copied = string.end;
        match text.strip_prefix(ESCAPED) {
            Some(rest) => {
                whole.push_str(REFERENCE);
                whole.push_str(rest);
            }
            None => add(reference, &mut whole)?,
        }
    }
    whole.push_str(&after[copied..]);
    Ok(whole)
}

/// The parts of a run that is read.
pub(crate) struct Reader {
    path: PathBuf,
    file: Option<File>,
}

impl Reader {
    pub(crate) fn new(run: &Path) -> Self {
        Self { path: path_of(run), file: None }
    }

    /// Returns a line with its parts in it.
    pub(crate) fn whole<'a>(&mut self, run: &Path, at: u64, line: &'a str) -> Result<Cow<'a, str>> {
        let damaged = |reason: String| JournalError::damaged(run, at, reason);
        let Some((before, parts, after)) =
            split(line).map_err(|error| damaged(error.to_string()))?
        else {
            return Ok(Cow::Borrowed(line));
        };
        restored(before, after, |reference, whole| {
            let part = reference.parse().ok().and_then(|place: usize| parts.get(place));
            let part =
                part.ok_or_else(|| damaged(format!("it does not list the part {reference:?}")))?;
            let bytes = self.read(part)?;
            if part.is_text {
                let text = std::str::from_utf8(&bytes);
                whole.push_str(text.map_err(|error| damaged(error.to_string()))?);
            } else {
                let _ = write!(whole, "data:{};base64,", part.media_type);
                STANDARD.encode_string(bytes, whole);
            }
            Ok(())
        })
        .map(Cow::Owned)
    }

    fn read(&mut self, part: &Stored) -> Result<Vec<u8>> {
        let damaged = |reason: &str| JournalError::damaged(&self.path, part.at, reason);
        let failed = |error| JournalError::io(&self.path, error);
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let mut options = OpenOptions::new();
                let opened = __files::open(options.read(true), &self.path, Link::Refuse);
                let mut file = match opened {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        return Err(damaged("the file is missing, and the run has parts in it"));
                    }
                    opened => opened.map_err(failed)?,
                };
                let mut format = [0; FORMAT.len()];
                if file.read_exact(&mut format).is_err() || format != FORMAT {
                    return Err(JournalError::damaged(&self.path, 0, "it is not a file of parts"));
                }
                self.file.insert(file)
            }
        };
        let length = file.metadata().map_err(failed)?.len();
        if part.at.checked_add(part.bytes).is_none_or(|end| end > length) {
            return Err(damaged("a part of the run is missing"));
        }
        let mut bytes = Vec::new();
        let found = file.seek(SeekFrom::Start(part.at));
        let read = found.and_then(|_| file.take(part.bytes).read_to_end(&mut bytes));
        read.map_err(failed)?;
        if sha256(&bytes) != part.sha256 {
            return Err(damaged("the hash of a part is wrong"));
        }
        Ok(bytes)
    }
}

/// The file of parts of a run that is driven.
pub(crate) struct Writer {
    path: PathBuf,
    /// The end of the last part that a line names.
    end: u64,
    /// The parts so far, by their hash.
    known: HashMap<String, Stored>,
}

impl Writer {
    pub(crate) fn new(run: &Path) -> Self {
        Self { path: path_of(run), end: 0, known: HashMap::new() }
    }

    /// Goes on after the parts that a line names.
    pub(crate) fn add(&mut self, parts: Vec<Stored>) {
        for part in parts {
            self.end = self.end.max(part.at.saturating_add(part.bytes));
            self.known.insert(part.sha256.clone(), part);
        }
    }

    /// Cuts off what no line names.
    pub(crate) fn cut(&self) -> Result<()> {
        let length = match fs::symlink_metadata(&self.path) {
            Ok(found) => found.len(),
            Err(_) => return Ok(()),
        };
        if length <= self.end {
            return Ok(());
        }
        let mut options = OpenOptions::new();
        let file = __files::open(options.write(true), &self.path, Link::Refuse);
        let cut = file.and_then(|file| file.set_len(self.end));
        cut.map_err(|error| JournalError::io(&self.path, error))
    }

    /// Takes the parts out of a line, and adds their contents to `added`. Returns `None` if it has
    /// none.
    pub(crate) fn take_out(&mut self, json: &[u8], added: &mut Vec<u8>) -> Option<Vec<u8>> {
        let json = std::str::from_utf8(json).ok()?;
        let (before, after) = json.split_at(json.find(',')? + 1);
        if !has_messages(after) {
            return None;
        }
        let mut parts = Vec::new();
        let mut places = Vec::new();
        let mut is_whole = false;
        for string in strings(after.as_bytes()) {
            let text = &after[string.start..string.end];
            let of_whole =
                std::mem::replace(&mut is_whole, text == WHOLE && is_name(after, string));
            let data = match string.is_escaped {
                false => text.strip_prefix("data:").and_then(|data| data.split_once(";base64,")),
                true => None,
            };
            let data = data.filter(|(_, base64)| base64.len() >= MIN_LENGTH);
            // The encoding is canonical, so the same bytes give the same text again.
            let data = data.and_then(|(kind, base64)| Some((kind, STANDARD.decode(base64).ok()?)));
            let part = match data {
                _ if of_whole && text.len() >= MIN_LENGTH => {
                    Some(self.part(TEXT, text.as_bytes(), true, added))
                }
                Some((media_type, bytes)) => Some(self.part(media_type, &bytes, false, added)),
                None => None,
            };
            if let Some(part) = part {
                let place = parts.iter().position(|known| *known == part).unwrap_or_else(|| {
                    parts.push(part);
                    parts.len() - 1
                });
                places.push((string, Some(place)));
            } else if text.starts_with(REFERENCE) {
                places.push((string, None));
            }
        }
        if parts.is_empty() {
            return None;
        }
        let mut line = Vec::with_capacity(before.len() + 1_024);
        line.extend_from_slice(before.as_bytes());
        line.extend_from_slice(b"\"parts\":");
        serde_json::to_writer(&mut line, &parts).ok()?;
        line.push(b',');
        let mut copied = 0;
        for (string, place) in places {
            line.extend_from_slice(&after.as_bytes()[copied..string.start]);
            copied = string.end;
            match place {
                Some(place) => line.extend_from_slice(format!("{REFERENCE}{place}").as_bytes()),
                None => {
                    line.extend_from_slice(ESCAPED.as_bytes());
                    copied = string.start + REFERENCE.len();
                    line.extend_from_slice(&after.as_bytes()[copied..string.end]);
                    copied = string.end;
                }
            }
        }
        line.extend_from_slice(&after.as_bytes()[copied..]);
        Some(line)
    }

    /// Returns the place of a part. The same content is stored once.
    fn part(
        &mut self,
        media_type: &str,
        bytes: &[u8],
        is_text: bool,
        added: &mut Vec<u8>,
    ) -> Stored {
        let sha256 = sha256(bytes);
        if let Some(known) = self.known.get(&sha256) {
            return Stored { media_type: media_type.to_owned(), is_text, ..known.clone() };
        }
        if self.end == 0 && added.is_empty() {
            added.extend_from_slice(FORMAT);
        }
        let at = self.end + added.len() as u64;
        added.extend_from_slice(bytes);
        let media_type = media_type.to_owned();
        let part = Stored { at, bytes: bytes.len() as u64, sha256, media_type, is_text };
        self.known.insert(part.sha256.clone(), part.clone());
        part
    }

    /// Appends the contents of parts, and returns when they are on disk.
    pub(crate) fn append(&mut self, added: &[u8]) -> Result<()> {
        let failed = |error| JournalError::io(&self.path, error);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let mut file = __files::open(&mut options, &self.path, Link::Refuse).map_err(failed)?;
        let written = file
            .set_len(self.end)
            .and_then(|()| file.seek(SeekFrom::Start(self.end)))
            .and_then(|_| file.write_all(added))
            .and_then(|()| file.sync_data());
        if let Err(error) = written {
            // If this fails too, the next drive cuts it off.
            let _ = file.set_len(self.end);
            return Err(failed(error));
        }
        if self.end == 0
            && let Some(folder) = self.path.parent()
        {
            file::sync_folder(folder).map_err(failed)?;
        }
        self.end += added.len() as u64;
        Ok(())
    }
}

/// Returns whether a record has messages of users and tools. Replies, questions and decisions stay
/// whole: what a person decides on is compared with them.
fn has_messages(record: &str) -> bool {
    let kinds = ["started", "finished", "stopped"];
    kinds.iter().any(|kind| {
        let rest = record.strip_prefix("\"record\":{\"");
        rest.and_then(|rest| rest.strip_prefix(kind)).is_some_and(|rest| rest.starts_with('"'))
    }) || record.contains("\"outcome\":{\"kind\":{\"called\":")
        || record.contains("\"outcome\":{\"kind\":{\"compacted\":")
}

/// The name of the field with a whole text.
const WHOLE: &str = "whole";

/// Returns whether a string is the name of a field whose value is a string.
fn is_name(json: &str, string: Token) -> bool {
    json[string.end..].starts_with("\":\"")
}

/// A string in a JSON text: its first byte and its end, without the quotes.
#[derive(Debug, Clone, Copy)]
struct Token {
    start: usize,
    end: usize,
    is_escaped: bool,
}

/// Returns the strings of a JSON text, in order. Names of fields are strings, too.
fn strings(json: &[u8]) -> impl Iterator<Item = Token> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + json.get(from..)?.iter().position(|byte| *byte == b'"')? + 1;
        let (mut end, mut is_escaped) = (start, false);
        loop {
            let next = json.get(end..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
            end += next;
            if json[end] == b'"' {
                break;
            }
            is_escaped = true;
            end += 2;
        }
        from = end + 1;
        Some(Token { start, end, is_escaped })
    })
}

fn sha256(bytes: &[u8]) -> String {
    let mut hash = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            ".{0,20}",
            Just("whole".to_owned()),
            ".{1000,1100}",
            Just("a\"b\n\u{1}\u{e4}".repeat(300)),
            "(part:|part:=|part:0|data:image/png;base64,)[a-z0-9=]{0,4}",
            prop::collection::vec(any::<u8>(), 700..1_200)
                .prop_map(|bytes| { format!("data:image/png;base64,{}", STANDARD.encode(bytes)) }),
            // One content under two types, and base64 that is not canonical.
            Just(format!("data:image/png;base64,{}", "A".repeat(2_000))),
            Just(format!("data:audio/wav;x=\u{e4};base64,{}", "A".repeat(2_000))),
            Just(format!("data:a/b;base64,{}", "A".repeat(2_001))),
            Just(format!("data:\";base64,{}", "A".repeat(2_000))),
        ]
    }

    proptest! {
        #[test]
        fn a_line_is_the_same_after_its_parts_were_taken_out(
            lines in prop::collection::vec(prop::collection::vec((text(), text()), 0..5), 1..4),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let run = folder.path().join("run.journal");
            let mut writer = Writer::new(&run);
            let (mut stored, mut originals) = (Vec::new(), Vec::new());
            for fields in lines {
                let record: serde_json::Map<String, Value> =
                    fields.into_iter().map(|(name, text)| {
                        let is_list = name.len() % 2 == 0;
                        (name, if is_list { json!([text]) } else { json!(text) })
                    }).collect();
                let original = json!({"at": 1, "record": {"started": record}}).to_string();
                let mut added = Vec::new();
                let line = writer.take_out(original.as_bytes(), &mut added);
                if !added.is_empty() {
                    writer.append(&added).unwrap();
                }
                stored.push(line.map_or(original.clone(), |line| String::from_utf8(line).unwrap()));
                originals.push(original);
            }
            let mut reader = Reader::new(&run);
            for (line, original) in stored.iter().zip(&originals) {
                prop_assert_eq!(&*reader.whole(&run, 0, line).unwrap(), original);
            }
            // Nothing is stored twice, and nothing else is in the file.
            let mut again = Writer::new(&run);
            for line in &stored {
                again.add(named(line).unwrap());
            }
            let length = fs::metadata(path_of(&run)).map_or(0, |file| file.len());
            prop_assert_eq!((again.end, again.known.len()), (length, writer.known.len()));
        }

        #[test]
        fn any_text_can_be_read(line in ".{0,80}|\\{\"at\":1,\"parts\":.{0,20}") {
            let _ = Reader::new(Path::new("none")).whole(Path::new("none"), 0, &line);
            let _ = Writer::new(Path::new("none")).take_out(line.as_bytes(), &mut Vec::new());
        }
    }
}
