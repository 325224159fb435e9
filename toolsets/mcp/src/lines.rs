//! [`Lines`], the messages of a stream, one a line, and [`MessageScanner`], which finds the id of a
//! message that cannot be read.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::time::Duration;

use memchr::memmem;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::time::{Instant, timeout_at};

/// Maximum number of bytes of an id or a key that the scanner keeps.
const MAX_TOKEN_BYTES: usize = 300;

/// Time to wait for the next line of a message that was begun on an earlier one.
const NEXT_LINE_TIME: Duration = Duration::from_secs(2);

/// The lines of a stream. A line of more than `max_bytes` bytes is not held in memory.
///
/// The protocol requires one message a line. Programs that print JSON with line breaks, or that
/// forget the break between two messages, are read too.
pub(crate) struct Lines<R> {
    read: BufReader<R>,
    max_bytes: usize,
    /// The part of the current line that was read.
    line: Vec<u8>,
    /// The state of a line that is too long.
    oversized: Option<MessageScanner>,
    /// A message whose first lines were read.
    begun: Option<PartialMessage>,
    /// What is returned next.
    ready: VecDeque<Line>,
}

/// The first lines of a message.
struct PartialMessage {
    text: Vec<u8>,
    scan: MessageScanner,
    /// When the message counts as broken.
    until: Instant,
}

/// A line without its end, or a message of several lines.
pub(crate) enum Line {
    Whole(Vec<u8>),
    /// A line that is too long, with what is known of its message.
    Oversized(MessageScanner),
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(read: R, max_bytes: usize) -> Self {
        Self {
            read: BufReader::new(read),
            max_bytes,
            line: Vec::new(),
            oversized: None,
            begun: None,
            ready: VecDeque::new(),
        }
    }

    /// Returns the next line, or `None` at the end. A last line without its end is not a message.
    ///
    /// Cancel safe: the part that was read is kept for the next call.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Ok(Some(line));
            }
            let until = self.begun.as_ref().map(|begun| begun.until);
            let line = match until {
                None => self.next_line().await?,
                Some(until) => match timeout_at(until, self.next_line()).await {
                    Ok(line) => line?,
                    Err(_) => {
                        let broken = self.begun.take().map(|begun| Line::Whole(begun.text));
                        self.ready.extend(broken);
                        continue;
                    }
                },
            };
            let Some(line) = line else { return Ok(None) };
            self.take(line);
        }
    }

    /// Adds a line to the message that was begun, or takes it for itself.
    fn take(&mut self, line: Line) {
        let Line::Whole(line) = line else {
            let broken = self.begun.take().map(|begun| Line::Whole(begun.text));
            self.ready.extend(broken.into_iter().chain([line]));
            return;
        };
        match self.begun.take() {
            Some(mut begun)
                if begun.text.len() + line.len() < self.max_bytes && !is_message(&line) =>
            {
                begun.add(&line);
                match begun.scan.is_complete() {
                    true => self.ready.push_back(Line::Whole(begun.text)),
                    false => self.begun = Some(begun),
                }
                return;
            }
            // The rest of that message is lost.
            Some(begun) => self.ready.push_back(Line::Whole(begun.text)),
            None => {}
        }
        if begins_message(&line) {
            self.begun = Some(PartialMessage::new(&line));
            return;
        }
        match &messages(&line)[..] {
            [] | [_] => self.ready.push_back(Line::Whole(line)),
            several => {
                let several = several.iter().map(|message| Line::Whole(message.to_vec()));
                self.ready.extend(several);
            }
        }
    }

    async fn next_line(&mut self) -> io::Result<Option<Line>> {
        loop {
            let read = self.read.fill_buf().await?;
            if read.is_empty() {
                return Ok(None);
            }
            let end = memchr::memchr(b'\n', read);
            let part = read.get(..end.unwrap_or(read.len())).unwrap_or_default();
            if self.oversized.is_none() && self.line.len() + part.len() > self.max_bytes {
                let mut scan = MessageScanner::default();
                scan.read(&mem::take(&mut self.line));
                self.oversized = Some(scan);
            }
            match &mut self.oversized {
                Some(scan) => scan.read(part),
                None => self.line.extend_from_slice(part),
            }
            let used = part.len() + usize::from(end.is_some());
            self.read.consume(used);
            if end.is_some() {
                return Ok(Some(match self.oversized.take() {
                    Some(scan) => Line::Oversized(scan),
                    None => Line::Whole(mem::take(&mut self.line)),
                }));
            }
        }
    }
}

impl PartialMessage {
    fn new(line: &[u8]) -> Self {
        let mut begun =
            Self { text: Vec::new(), scan: MessageScanner::default(), until: Instant::now() };
        begun.add(line);
        begun
    }

    fn add(&mut self, line: &[u8]) {
        self.until = Instant::now() + NEXT_LINE_TIME;
        for part in [line, b"\n"] {
            self.scan.read(part);
            self.text.extend_from_slice(part);
        }
    }
}

/// Returns whether a line is the beginning of a message that has more lines. If the line has the id,
/// it is not: the error of that request does not have to wait.
fn begins_message(line: &[u8]) -> bool {
    let line = trimmed(line);
    if line == b"{" || line == b"[" {
        return true;
    }
    if !line.starts_with(b"{") || line.ends_with(b"}") || !has_version(line) {
        return false;
    }
    let scan = MessageScanner::of(line);
    !scan.is_complete() && scan.id().is_none()
}

/// Returns whether a line is a whole message.
fn is_message(line: &[u8]) -> bool {
    let line = trimmed(line);
    line.starts_with(b"{")
        && line.ends_with(b"}")
        && has_version(line)
        && MessageScanner::of(line).is_complete()
}

fn has_version(line: &[u8]) -> bool {
    memmem::find(line, b"\"jsonrpc\"").is_some()
}

/// Returns the messages of a text: itself, unless it has several JSON values, which all are messages.
pub(crate) fn messages(text: &[u8]) -> Vec<&[u8]> {
    let whole = trimmed(text);
    // Between two values of one JSON text there is a comma.
    let is_between = |at: usize| {
        let rest = whole.get(at + 1..).unwrap_or_default();
        rest.trim_ascii_start().starts_with(b"{")
    };
    if !whole.starts_with(b"{") || !memchr::memchr_iter(b'}', whole).any(is_between) {
        return vec![whole];
    }
    let (mut messages, mut start) = (Vec::new(), 0);
    let mut scan = MessageScanner::default();
    for (at, byte) in whole.iter().enumerate() {
        scan.read(&[*byte]);
        if scan.is_complete() && matches!(byte, b'}' | b']') {
            messages.push(whole.get(start..=at).unwrap_or_default().trim_ascii());
            (scan, start) = (MessageScanner::default(), at + 1);
        }
    }
    let is_end = whole.get(start..).unwrap_or_default().trim_ascii().is_empty();
    match is_end && messages.iter().all(|message| has_version(message)) {
        true => messages,
        false => vec![whole],
    }
}

/// Returns the line without a byte order mark and spaces.
pub(crate) fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii()
}

/// A scanner of a JSON-RPC message that finds its id, and whether it is a request, without
/// holding or parsing the message.
#[derive(Default)]
pub(crate) struct MessageScanner {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The last key at the top level of the message, with its quotes.
    key: Vec<u8>,
    in_value: bool,
    part: Vec<u8>,
    id: Vec<u8>,
    has_id: bool,
    has_method: bool,
}

impl MessageScanner {
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.in_string {
                self.keep(byte);
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.end_value();
                    self.depth = self.depth.saturating_sub(1);
                }
                b':' if self.depth == 1 => {
                    self.key = mem::take(&mut self.part);
                    self.in_value = true;
                    self.has_id |= self.key == b"\"id\"";
                    self.has_method |= self.key == b"\"method\"";
                }
                b',' => self.end_value(),
                _ => {
                    self.in_string = byte == b'"';
                    if !byte.is_ascii_whitespace() {
                        self.keep(byte);
                    }
                }
            }
        }
    }

    /// Keeps the bytes of top-level keys and of the value of `id`.
    fn keep(&mut self, byte: u8) {
        let is_kept = !self.in_value || self.key == b"\"id\"";
        if self.depth == 1 && is_kept && self.part.len() < MAX_TOKEN_BYTES {
            self.part.push(byte);
        }
    }

    fn end_value(&mut self) {
        if self.depth == 1 {
            let part = mem::take(&mut self.part);
            if self.in_value && self.key == b"\"id\"" {
                self.id = part;
            }
            self.in_value = false;
        }
    }

    /// Returns a scanner that has read a message.
    pub(crate) fn of(message: &[u8]) -> Self {
        let mut scan = Self::default();
        scan.read(message);
        scan
    }

    /// Returns whether the brackets of the message are closed.
    fn is_complete(&self) -> bool {
        self.depth == 0 && !self.in_string
    }

    /// Returns the id of the message, if it is valid. It may end with the message.
    pub(crate) fn id(&self) -> Option<Value> {
        let is_last = self.in_value && self.key == b"\"id\"";
        let id: Value = serde_json::from_slice(if is_last { &self.part } else { &self.id }).ok()?;
        (id.is_string() || id.is_number()).then_some(id)
    }

    /// Returns whether the message has a method, which responses do not have.
    pub(crate) fn has_method(&self) -> bool {
        self.has_method
    }

    /// Returns whether the message is a notification, which gets no response.
    #[cfg(feature = "server")]
    pub(crate) fn is_notification(&self) -> bool {
        self.has_method && !self.has_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_message_that_does_not_end_is_returned_in_time() {
        let (read, mut write) = tokio::io::duplex(1_000);
        let mut lines = Lines::new(read, 1_000);
        let begin = b"{\n\"jsonrpc\": \"2.0\",\n";
        tokio::io::AsyncWriteExt::write_all(&mut write, begin).await.unwrap();
        let Some(Line::Whole(line)) = lines.next().await.unwrap() else { panic!("not a line") };
        assert_eq!(line, begin);
    }
}
