//! The format of the file of a run, and the file while it is written.
//!
//! The first line names the format. Each further line is a record:
//!
//! ```text
//! toolwright-journal 1
//! 5d2f00a1 153 {"at":1795430380123,"record":{"started":{…}}}
//! ```
//!
//! It has a checksum, the length of the JSON, and the JSON. The checksum is the CRC-32 of the JSON,
//! which continues that of the line before: a line that is missing or at another place is noticed.
//!
//! [Parts](crate::parts) are in a file of their own, and a line names them.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crc32fast::Hasher;
use serde::{Deserialize, Serialize};
use toolwright_module::__files::{self, Link};
use toolwright_orchestrator::perform::Record;

use crate::error::{JournalError, Result};
use crate::{name, parts};

/// The first line, without its end.
pub(crate) const FORMAT: &str = "toolwright-journal 1";
const FAMILY: &str = "toolwright-journal ";

/// Maximum length of a file, in bytes. A file is read as a whole.
const MAX_BYTES: u64 = 1 << 30;

/// How many bytes are read of a file whose first record is wanted. Most first records are shorter.
const FIRST_READ: usize = 8 * 1024;

/// How many bytes are read of a file whose last record is wanted.
const LAST_READ: u64 = 16 * 1024;

/// Maximum number of levels of a record, which is that of `serde_json`.
const MAX_LEVELS: usize = 127;

/// Length of a checksum in hexadecimal digits, and the longest start of a line: with two spaces and
/// a length of 20 digits.
const CHECKSUM: usize = 8;
const LONGEST_START: usize = CHECKSUM + 1 + 20 + 1;

/// Maximum time to wait for the lock of a run. A drive that was dropped keeps its lock until its last
/// record is on disk.
const LOCK_TIME: Duration = Duration::from_millis(200);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// One line: a record and its time.
#[derive(Serialize, Deserialize)]
pub(crate) struct Line<R> {
    /// Milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) record: R,
}

/// The complete records of a file.
pub(crate) struct Contents<'a> {
    /// The JSON of each record with the place of its line.
    pub(crate) lines: Vec<(u64, &'a str)>,
    /// The end of the last complete record.
    pub(crate) end: u64,
    /// The bytes after it, of a record that was not written to its end.
    pub(crate) torn: u64,
    /// The checksum of the first record, and that of the last one.
    first: u32,
    checksum: u32,
}

impl Contents<'_> {
    /// Returns what the run is recognized by.
    pub(crate) fn mark(&self) -> String {
        mark(self.first)
    }
}

fn mark(checksum: u32) -> String {
    format!("{checksum:08x}")
}

/// Reads a file of the journal. Returns `None` if the file does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match __files::open(OpenOptions::new().read(true), path, Link::Refuse) {
        Ok(file) => read_all(path, &file).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(JournalError::io(path, error)),
    }
}

/// Reads the first record of a file and its mark, and nothing else. Returns `None` for a file without one.
pub(crate) fn first_line(path: &Path) -> Result<Option<(String, String)>> {
    let failed = |error| JournalError::io(path, error);
    let mut file = match __files::open(OpenOptions::new().read(true), path, Link::Refuse) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let (mut bytes, mut wanted) = (Vec::new(), FIRST_READ);
    loop {
        let more = wanted.saturating_sub(bytes.len());
        let read = (&mut file).take(more as u64).read_to_end(&mut bytes).map_err(failed)?;
        let Some(rest) = bytes.strip_prefix(FORMAT.as_bytes()) else { return Ok(None) };
        let Some(rest) = rest.strip_prefix(b"\n") else { return Ok(None) };
        let line = read_line(rest, crc32fast::hash(FORMAT.as_bytes()));
        match (line, start_of(rest)) {
            (Ok((json, checksum, _)), _) => return Ok(Some((json.to_owned(), mark(checksum)))),
            (Err(_), Some((_, length, start))) if read == more => {
                wanted = (FORMAT.len() + 2).saturating_add(start).saturating_add(length);
                if wanted <= bytes.len() || wanted as u64 > MAX_BYTES {
                    return Ok(None);
                }
            }
            _ => return Ok(None),
        }
    }
}

/// Reads the last record of a file, if it is a short one. Its checksum is not checked.
pub(crate) fn last_line(path: &Path) -> Result<Option<String>> {
    let failed = |error| JournalError::io(path, error);
    let mut file = match __files::open(OpenOptions::new().read(true), path, Link::Refuse) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let length = file.metadata().map_err(failed)?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_READ))).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(LAST_READ).read_to_end(&mut bytes).map_err(failed)?;
    // What follows the last end of a line was not written to its end.
    let mut lines = bytes.rsplit(|byte| *byte == b'\n').skip(1);
    let (Some(line), Some(_)) = (lines.next(), lines.next()) else { return Ok(None) };
    let json =
        start_of(line).and_then(|(_, length, start)| line.get(start..start.checked_add(length)?));
    Ok(json.and_then(|json| std::str::from_utf8(json).ok()).map(ToOwned::to_owned))
}

fn read_all(path: &Path, file: &File) -> Result<Vec<u8>> {
    let failed = |error| JournalError::io(path, error);
    let bytes = file.metadata().map_err(failed)?.len();
    if bytes > MAX_BYTES {
        return Err(JournalError::TooLarge { path: path.to_owned(), bytes, most: MAX_BYTES });
    }
    __files::read_all(file, MAX_BYTES).map_err(failed)
}

/// Reads the records. A record that was not written to its end is cut off, because nothing followed
/// from it. Anything else that is wrong is an error.
pub(crate) fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Result<Contents<'a>> {
    let length = |bytes: &[u8]| bytes.len() as u64;
    let head = FORMAT.len() + 1;
    let checksum = crc32fast::hash(FORMAT.as_bytes());
    let mut contents = Contents { lines: Vec::new(), end: 0, torn: 0, first: checksum, checksum };
    let Some(first_end) = bytes.iter().position(|byte| *byte == b'\n') else {
        if FORMAT.as_bytes().starts_with(bytes) {
            contents.torn = length(bytes);
            return Ok(contents);
        }
        return Err(JournalError::damaged(path, 0, "it is not a journal"));
    };
    if &bytes[..first_end] != FORMAT.as_bytes() {
        let found = String::from_utf8_lossy(&bytes[..first_end.min(64)]);
        return Err(if found.starts_with(FAMILY) {
            JournalError::Version {
                path: path.to_owned(),
                found: found.into_owned(),
                known: FORMAT,
            }
        } else {
            JournalError::damaged(path, 0, "it is not a journal")
        });
    }
    contents.end = head as u64;
    let mut rest = &bytes[head..];
    while !rest.is_empty() {
        match read_line(rest, contents.checksum) {
            Ok((json, checksum, used)) => {
                if contents.lines.is_empty() {
                    contents.first = checksum;
                }
                contents.lines.push((contents.end, json));
                contents.checksum = checksum;
                contents.end += used as u64;
                rest = &rest[used..];
            }
            Err(_) if is_torn(rest) => {
                contents.torn = length(rest);
                break;
            }
            Err(reason) => return Err(JournalError::damaged(path, contents.end, reason)),
        }
    }
    Ok(contents)
}

/// Reads one line. Returns its JSON, the checksum so far, and the length of the line.
fn read_line(bytes: &[u8], before: u32) -> Result<(&str, u32, usize), &'static str> {
    let (expected, length, start) = start_of(bytes).ok_or("a record has no checksum or length")?;
    let end = start.checked_add(length).ok_or("the length of a record is too large")?;
    let json = bytes.get(start..end).ok_or("a record is shorter than its length")?;
    if bytes.get(end) != Some(&b'\n') {
        return Err("a record has another length than it says");
    }
    let checksum = continued(before, json);
    if checksum != expected {
        return Err("the checksum of a record is wrong, or a record before it is missing");
    }
    let json = std::str::from_utf8(json).map_err(|_| "a record is not UTF-8")?;
    Ok((json, checksum, end + 1))
}

/// Returns the checksum and the length that a line names, and the place of its JSON.
fn start_of(bytes: &[u8]) -> Option<(u32, usize, usize)> {
    let start = &bytes[..bytes.len().min(LONGEST_START)];
    let checksum = std::str::from_utf8(start.get(..CHECKSUM)?).ok()?;
    let checksum = u32::from_str_radix(checksum, 16).ok()?;
    let rest = start.get(CHECKSUM..)?.strip_prefix(b" ")?;
    let digits = rest.iter().position(|byte| *byte == b' ')?;
    let length = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    Some((checksum, length, CHECKSUM + 1 + digits + 1))
}

/// Returns whether these bytes are the start of a line that was not written to its end. A complete
/// line with a changed byte is not: either its end is there, or it has its length.
fn is_torn(bytes: &[u8]) -> bool {
    // After a power failure, the end of a file may be zeros.
    let bytes = without_zeros(bytes);
    if bytes.contains(&b'\n') {
        return false;
    }
    match start_of(bytes) {
        Some((_, length, start)) => bytes.len() <= start.saturating_add(length),
        None => bytes.len() < LONGEST_START,
    }
}

fn without_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().rev().take_while(|byte| **byte == 0).count();
    &bytes[..bytes.len() - zeros]
}

fn continued(before: u32, json: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(before);
    hasher.update(json);
    hasher.finalize()
}

/// The file of a run while it is driven. The lock ends with it.
pub(crate) struct RunFile {
    path: PathBuf,
    file: File,
    /// The end of the last record on disk.
    end: u64,
    /// The checksum at the end.
    checksum: u32,
    /// The parts beside the records. Only runs have them.
    parts: Option<parts::Writer>,
}

impl RunFile {
    /// Opens and locks the file of a run. Returns its bytes too. A new file is empty.
    pub(crate) fn open(path: &Path, id: &str, create: bool) -> Result<(Self, Vec<u8>)> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create);
        let file = __files::open(&mut options, path, Link::Refuse);
        let file = file.map_err(|error| JournalError::io(path, error))?;
        lock(&file, path, id)?;
        let bytes = read_all(path, &file)?;
        Ok((Self::at_start(path, file, Some(parts::Writer::new(path))), bytes))
    }

    /// Creates a file. One of this name is removed before, because it may be a link to another file.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let failed = |error| JournalError::io(path, error);
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let file = __files::open(options.write(true).create_new(true), path, Link::Refuse);
        Ok(Self::at_start(path, file.map_err(failed)?, None))
    }

    fn at_start(path: &Path, file: File, parts: Option<parts::Writer>) -> Self {
        let checksum = crc32fast::hash(FORMAT.as_bytes());
        Self { path: path.to_owned(), file, end: 0, checksum, parts }
    }

    /// Goes on after the complete records, and cuts off the rest.
    pub(crate) fn continue_after(&mut self, contents: &Contents<'_>) -> Result<()> {
        (self.end, self.checksum) = (contents.end, contents.checksum);
        if let Some(parts) = &mut self.parts {
            for (at, line) in &contents.lines {
                let named = parts::named(line);
                let damaged = |error| JournalError::damaged(&self.path, *at, error);
                parts.add(named.map_err(|error| damaged(error.to_string()))?);
            }
        }
        if contents.torn > 0 {
            self.cut()?;
        }
        Ok(())
    }

    /// Cuts off parts that no record names.
    pub(crate) fn cut_parts(&self) -> Result<()> {
        self.parts.as_ref().map_or(Ok(()), parts::Writer::cut)
    }

    /// Writes lines, and returns when they are on disk. After an error, none of them is in the file.
    pub(crate) fn write(&mut self, jsons: &[Vec<u8>]) -> Result<()> {
        let (mut lines, mut added) = (Vec::with_capacity(jsons.len()), Vec::new());
        for json in jsons {
            let without = match &mut self.parts {
                Some(parts) => parts.take_out(json, &mut added),
                None => None,
            };
            lines.push(without.map_or(Cow::Borrowed(json), Cow::Owned));
        }
        let mut bytes = Vec::with_capacity(lines.iter().map(|json| json.len() + 32).sum());
        if self.end == 0 {
            bytes.extend_from_slice(FORMAT.as_bytes());
            bytes.push(b'\n');
        }
        let mut checksum = self.checksum;
        for json in lines {
            checksum = continued(checksum, &json);
            bytes.extend_from_slice(format!("{checksum:08x} {} ", json.len()).as_bytes());
            bytes.extend_from_slice(&json);
            bytes.push(b'\n');
        }
        let length = self.end + bytes.len() as u64;
        if length > MAX_BYTES {
            let path = self.path.clone();
            return Err(JournalError::TooLarge { path, bytes: length, most: MAX_BYTES });
        }
        // The content of a part is on disk before a line names it.
        if let (Some(parts), false) = (&mut self.parts, added.is_empty()) {
            parts.append(&added)?;
        }
        let place = self.file.seek(SeekFrom::Start(self.end));
        let written = place.and_then(|_| self.file.write_all(&bytes));
        let written = written.and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // What is there of the lines must not be followed by others. If this fails too, the
            // next drive finds a torn or a complete record, and both are true.
            let _ = self.cut();
            return Err(JournalError::io(&self.path, error));
        }
        self.end = length;
        self.checksum = checksum;
        let (records, bytes) = (jsons.len(), bytes.len());
        tracing::debug!(path = %self.path.display(), records, bytes, "wrote to the journal");
        Ok(())
    }

    fn cut(&mut self) -> Result<()> {
        let cut = self.file.set_len(self.end).and_then(|()| self.file.sync_data());
        cut.map_err(|error| JournalError::io(&self.path, error))
    }
}

/// Returns the JSON of a record for a line.
pub(crate) fn json<K: Serialize>(record: K, id: &str) -> Result<Vec<u8>> {
    let line = Line { at: now(), record };
    let json = serde_json::to_vec(&line)
        .map_err(|source| JournalError::Json { id: id.to_owned(), source })?;
    let levels = levels(&json);
    if levels > MAX_LEVELS {
        return Err(JournalError::TooDeep { id: id.to_owned(), levels, most: MAX_LEVELS });
    }
    Ok(json)
}

/// Reads the JSON of a line. The checksum was right, so a text that is JSON is not damaged, and
/// another version wrote it.
pub(crate) fn record(path: &Path, at: u64, json: &str) -> Result<Line<Record>> {
    serde_json::from_str(json).map_err(|source| match source.is_data() {
        true => JournalError::Json { id: name::id_of_file(path), source },
        false => JournalError::damaged(path, at, source.to_string()),
    })
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time of a line.
pub(crate) fn time(at: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(at)).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Returns the number of objects and lists inside each other.
fn levels(json: &[u8]) -> usize {
    let (mut level, mut most, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => {
                level += 1;
                most = most.max(level);
            }
            b'}' | b']' if !is_text => level = level.saturating_sub(1),
            _ => {}
        }
    }
    most
}

fn lock(file: &File, path: &Path, id: &str) -> Result<()> {
    lock_within(LOCK_TIME, file, File::try_lock).map_err(|error| match error {
        TryLockError::WouldBlock => JournalError::Locked { id: id.to_owned() },
        TryLockError::Error(error) => JournalError::io(path, error),
    })
}

/// Tries to get a lock until this time has passed. A number of tries would take longer on a busy
/// machine.
///
/// # Errors
///
/// That of the last try.
pub(crate) fn lock_within(
    time: Duration,
    file: &File,
    lock: fn(&File) -> Result<(), TryLockError>,
) -> Result<(), TryLockError> {
    let began = Instant::now();
    loop {
        match lock(file) {
            Err(TryLockError::WouldBlock) if began.elapsed() < time => {
                std::thread::sleep(LOCK_PAUSE);
            }
            tried => return tried,
        }
    }
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    // Other systems cannot open a folder, and write names in order.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a file with these records.
    fn written(jsons: &[String]) -> Vec<u8> {
        let mut bytes = format!("{FORMAT}\n").into_bytes();
        let mut checksum = crc32fast::hash(FORMAT.as_bytes());
        for json in jsons {
            checksum = continued(checksum, json.as_bytes());
            bytes.extend_from_slice(format!("{checksum:08x} {} {json}\n", json.len()).as_bytes());
        }
        bytes
    }

    /// Returns the records of a file, unless it is damaged.
    fn read(bytes: &[u8]) -> Option<Vec<String>> {
        let contents = parse(Path::new("run.journal"), bytes).ok()?;
        assert_eq!(contents.end + contents.torn, bytes.len() as u64);
        Some(contents.lines.into_iter().map(|(_, json)| json.to_owned()).collect())
    }

    #[test]
    fn a_record_that_is_written_has_levels_that_can_be_read() {
        for levels in 100..140 {
            let texts = serde_json::json!(["[{[{", "\\\"[[["]);
            let value = (0..levels).fold(texts, |inside, _| serde_json::json!([inside]));
            let read = |json: Vec<u8>| serde_json::from_slice::<Line<serde_json::Value>>(&json);
            let line = serde_json::to_vec(&Line { at: 1, record: &value }).unwrap();
            assert_eq!(json(&value, "run").is_ok(), read(line).is_ok(), "{levels}");
        }
        assert!(json("[", "run").is_ok());
    }

    proptest! {
        #[test]
        fn a_cut_file_has_its_first_records(
            jsons in prop::collection::vec("[^\n]{0,40}", 0..5),
            cut in any::<prop::sample::Index>(),
        ) {
            let bytes = written(&jsons);
            prop_assert_eq!(read(&bytes), Some(jsons.clone()));
            let cut = read(&bytes[..cut.index(bytes.len() + 1)]);
            prop_assert!(jsons.starts_with(&cut.unwrap()));
        }

        #[test]
        fn other_bytes_never_become_a_record(
            jsons in prop::collection::vec("[^\n]{0,40}", 0..5),
            garbage in prop::collection::vec(any::<u8>(), 1..60),
            place in any::<prop::sample::Index>(),
            bit in 0_u8..8,
        ) {
            let bytes = written(&jsons);
            let after = [&bytes[..], &garbage].concat();
            if let Some(read) = read(&after) {
                prop_assert_eq!(&read, &jsons);
            }
            let mut flipped = bytes;
            let place = place.index(flipped.len());
            flipped[place] ^= 1 << bit;
            if let Some(read) = read(&flipped) {
                prop_assert_eq!(&read, &jsons);
            }
            let _ = read(&garbage);
        }
    }
}
