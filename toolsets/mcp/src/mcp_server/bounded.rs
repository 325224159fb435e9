use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncRead, BufReader, ReadBuf};

/// The method of the request that stands in the place of one that is too large.
pub(crate) const OVERSIZED: &str = "toolwright/oversized";

/// How much of an id, or of a key, is kept.
const LONGEST: usize = 300;

/// How much of a buffer is kept for the next line.
const KEPT: usize = 1 << 16;

/// A stream of lines of which none is longer than `most` bytes.
///
/// A request that is longer is not kept, but its id is: in its place comes a small request
/// with that id, so that it is answered. Without an answer its client would wait for ever.
pub(crate) struct Bounded<R> {
    read: BufReader<R>,
    lines: Lines,
}

#[derive(Default)]
struct Lines {
    most: usize,
    /// What has come of a line.
    line: Vec<u8>,
    /// What may go on, from `given` on.
    ready: Vec<u8>,
    given: usize,
    /// What is known of a line that is too long.
    oversized: Option<Scan>,
}

impl<R: AsyncRead> Bounded<R> {
    pub(crate) fn new(read: R, most: usize) -> Self {
        Self { read: BufReader::new(read), lines: Lines { most, ..Lines::default() } }
    }
}

impl Lines {
    /// Takes the next bytes, of one line.
    fn take(&mut self, bytes: &[u8], ends: bool) {
        if self.oversized.is_none() && self.line.len() + bytes.len() > self.most {
            let mut scan = Scan::default();
            scan.read(&mem::take(&mut self.line));
            self.oversized = Some(scan);
        }
        match &mut self.oversized {
            Some(scan) => {
                scan.read(bytes);
                if ends {
                    tracing::warn!(most = self.most, "a message of a client is too large");
                    self.ready = scan.stand_in();
                    self.given = 0;
                    self.oversized = None;
                }
            }
            None => {
                self.line.extend_from_slice(bytes);
                if ends {
                    self.pass();
                }
            }
        }
    }

    fn pass(&mut self) {
        mem::swap(&mut self.line, &mut self.ready);
        self.given = 0;
        self.line.clear();
        self.line.shrink_to(KEPT);
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let lines = &mut this.lines;
            let rest = lines.ready.get(lines.given..).unwrap_or_default();
            if !rest.is_empty() {
                let bytes = rest.get(..buffer.remaining()).unwrap_or(rest);
                buffer.put_slice(bytes);
                lines.given += bytes.len();
                return Poll::Ready(Ok(()));
            }
            let bytes = ready!(Pin::new(&mut this.read).poll_fill_buf(cx))?;
            if bytes.is_empty() {
                // A last line without an end is no message, and is not answered.
                return Poll::Ready(Ok(()));
            }
            let end = memchr::memchr(b'\n', bytes);
            let taken = end.map_or(bytes.len(), |end| end + 1);
            lines.take(&bytes[..taken], end.is_some());
            Pin::new(&mut this.read).consume(taken);
        }
    }
}

/// What a message says of itself, found in passing: whether it is a request, and its id.
#[derive(Default)]
struct Scan {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The last key of the message itself, with its quotes.
    key: Vec<u8>,
    in_value: bool,
    part: Vec<u8>,
    id: Vec<u8>,
    has_id: bool,
    has_method: bool,
}

impl Scan {
    fn read(&mut self, bytes: &[u8]) {
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

    /// Keeps keys, and the value of the one that is an id.
    fn keep(&mut self, byte: u8) {
        let wanted = !self.in_value || self.key == b"\"id\"";
        if self.depth == 1 && wanted && self.part.len() < LONGEST {
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

    /// The line that comes in its place.
    fn stand_in(&self) -> Vec<u8> {
        let id: Option<Value> = serde_json::from_slice(&self.id).ok();
        let id = id.filter(|id| id.is_string() || id.is_number());
        let line = match id {
            Some(id) if self.has_method => {
                json!({"jsonrpc": "2.0", "id": id, "method": OVERSIZED}).to_string()
            }
            // Nobody waits for an answer to a notification or to an answer.
            None if self.has_method && !self.has_id => return Vec::new(),
            Some(_) => return Vec::new(),
            // It is no message: it gets the answer to those.
            None => "{}".to_owned(),
        };
        format!("{line}\n").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

    use tokio::io::AsyncReadExt;

    use super::*;

    async fn passed(input: &str, most: usize) -> String {
        let mut text = String::new();
        Bounded::new(input.as_bytes(), most).read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn lines_pass_as_they_are_up_to_the_limit() {
        for input in ["", "\n", "{}\n", "a\r\n\nb\n", "0123456\n", "a\n0123456\nb\n"] {
            assert_eq!(passed(input, 8).await, input);
        }
        assert_eq!(passed("a\nno end", 8).await, "a\n");
    }

    #[tokio::test]
    async fn a_request_that_is_too_long_leaves_its_id() {
        let long = "x".repeat(100);
        let tricky = r#"{\"id\": 7} \\"#;
        for (message, id) in [
            (
                format!(r#"{{"jsonrpc":"2.0","id":5,"method":"tools/call","params":["{long}"]}}"#),
                "5",
            ),
            (
                format!(
                    r#"{{"method":"m","params":{{"id":1,"a":"{tricky}{long}"}}, "id" : "x\"y"}}"#
                ),
                r#""x\"y""#,
            ),
            (
                format!(r#" {{"params":[{{"id":3}},"{long}"],"id":-1,"method":"tools/call"}} "#),
                "-1",
            ),
        ] {
            let wanted =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"toolwright/oversized"}}"#);
            assert_eq!(
                passed(&format!("a\n{message}\nb\n"), 60).await,
                format!("a\n{wanted}\nb\n")
            );
            // It fits by one byte, or does not.
            assert_eq!(passed(&format!("{message}\n"), message.len()).await, format!("{wanted}\n"));
            let whole = format!("{message}\n");
            assert_eq!(passed(&whole, whole.len()).await, whole);
        }
    }

    #[tokio::test]
    async fn what_nobody_waits_for_is_passed_over_and_the_rest_is_told_that_it_is_no_message() {
        let long = "x".repeat(100);
        for (message, stand_in) in [
            (format!(r#"{{"method":"notifications/x","params":"{long}"}}"#), ""),
            (format!(r#"{{"id":1,"result":"{long}"}}"#), ""),
            (format!(r#"{{"id":[1],"method":"m","params":"{long}"}}"#), "{}\n"),
            (format!(r#"{{"id":"{long}{long}{long}","method":"m"}}"#), "{}\n"),
            (format!(r#"[{{"id":1,"method":"m","params":"{long}"}}]"#), "{}\n"),
            (long.clone(), "{}\n"),
            (format!("\"{long}\""), "{}\n"),
        ] {
            assert_eq!(passed(&format!("{message}\n"), 60).await, stand_in, "{message}");
        }
    }
}
