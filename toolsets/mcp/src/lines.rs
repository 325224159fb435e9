//! [`Lines`], the messages of a stream, one a line, and [`MessageScanner`], which finds the id of a
//! message that cannot be read.

use std::io;
use std::mem;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Maximum number of bytes of an id or a key that the scanner keeps.
const MAX_TOKEN_BYTES: usize = 300;

/// The lines of a stream. A line of more than `max_bytes` bytes is not held in memory.
pub(crate) struct Lines<R> {
    read: BufReader<R>,
    max_bytes: usize,
    /// The part of the current line that was read.
    line: Vec<u8>,
    /// The state of a line that is too long.
    oversized: Option<MessageScanner>,
}

/// A line without its end.
pub(crate) enum Line {
    Whole(Vec<u8>),
    /// A line that is too long, with what is known of its message.
    Oversized(MessageScanner),
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(read: R, max_bytes: usize) -> Self {
        Self { read: BufReader::new(read), max_bytes, line: Vec::new(), oversized: None }
    }

    /// Returns the next line, or `None` at the end. A last line without its end is not a message.
    ///
    /// Cancel safe: the part that was read is kept for the next call.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
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
    pub(crate) fn is_notification(&self) -> bool {
        self.has_method && !self.has_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn output(input: &str, max_bytes: usize) -> Vec<String> {
        let mut lines = Lines::new(input.as_bytes(), max_bytes);
        let mut output = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            output.push(match line {
                Line::Whole(line) => String::from_utf8(line).unwrap(),
                Line::Oversized(scan) => {
                    let id = scan.id().map_or("none".to_owned(), |id| id.to_string());
                    format!("oversized {id} {}", scan.has_method())
                }
            });
        }
        output
    }

    #[tokio::test]
    async fn lines_up_to_the_limit_are_unchanged() {
        let input = "\n{}\na\r\n\nb\n01234567\nno end";
        assert_eq!(output(input, 8).await, ["", "{}", "a\r", "", "b", "01234567"]);
    }

    #[tokio::test]
    async fn the_id_of_an_oversized_message_is_found() {
        let long = "x".repeat(100);
        let tricky = r#"{\"id\": 7} \\"#;
        for (message, expected) in [
            (format!(r#"{{"jsonrpc":"2.0","id":5,"method":"m","params":["{long}"]}}"#), "5 true"),
            (
                format!(
                    r#"{{"method":"m","params":{{"id":1,"a":"{tricky}{long}"}}, "id" : "x\"y"}}"#
                ),
                r#""x\"y" true"#,
            ),
            (format!(r#" {{"params":[{{"id":3}},"{long}"],"id":-1,"method":"m"}} "#), "-1 true"),
            (format!(r#"{{"id":1,"result":"{long}"}}"#), "1 false"),
            (format!(r#"{{"result":"{long}","id":1"#), "1 false"),
            (format!(r#"{{"method":"notifications/x","params":"{long}"}}"#), "none true"),
            (format!(r#"{{"id":[1],"method":"m","params":"{long}"}}"#), "none true"),
            (format!(r#"{{"id":"{long}{long}{long}","method":"m"}}"#), "none true"),
            (format!(r#"[{{"id":1,"method":"m","params":"{long}"}}]"#), "none false"),
            (format!("\"{long}\""), "none false"),
        ] {
            let expected = ["a".to_owned(), format!("oversized {expected}"), "b".to_owned()];
            assert_eq!(output(&format!("a\n{message}\nb\n"), 60).await, expected, "{message}");
        }
    }
}
