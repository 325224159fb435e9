//! [`LimitedLines`], a stream that replaces request lines above the size limit.

use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncRead, BufReader, ReadBuf};

/// The method of the request that replaces one that is too large.
pub(crate) const OVERSIZED: &str = "toolwright/oversized";

/// Maximum number of bytes of an id or a key that the scanner keeps.
const MAX_TOKEN_BYTES: usize = 300;

/// Capacity of the line buffer that is kept for the next line.
const KEPT_CAPACITY: usize = 1 << 16;

/// A stream of lines of at most `max_bytes` bytes.
///
/// A longer request is not held in memory. It is replaced with a small request with the same id
/// and the method [`OVERSIZED`], so that the server can respond to it. Without a response, the
/// client would wait until its timeout.
pub(crate) struct LimitedLines<R> {
    read: BufReader<R>,
    lines: LineBuffer,
}

#[derive(Default)]
struct LineBuffer {
    max_bytes: usize,
    /// The part of the current line that was read.
    line: Vec<u8>,
    /// A complete line. The reader has the bytes before `position`.
    ready: Vec<u8>,
    position: usize,
    /// The state of a line that is too long.
    oversized: Option<RequestScanner>,
}

impl<R: AsyncRead> LimitedLines<R> {
    pub(crate) fn new(read: R, max_bytes: usize) -> Self {
        let lines = LineBuffer { max_bytes, ..LineBuffer::default() };
        Self { read: BufReader::new(read), lines }
    }
}

impl LineBuffer {
    /// Adds bytes to the current line; `ends` says whether they end it.
    fn push(&mut self, bytes: &[u8], ends: bool) {
        if self.oversized.is_none() && self.line.len() + bytes.len() > self.max_bytes {
            let mut scan = RequestScanner::default();
            scan.read(&mem::take(&mut self.line));
            self.oversized = Some(scan);
        }
        match &mut self.oversized {
            Some(scan) => {
                scan.read(bytes);
                if ends {
                    tracing::warn!(
                        max_bytes = self.max_bytes,
                        "a message of a client is too large"
                    );
                    self.ready = scan.replacement();
                    self.position = 0;
                    self.oversized = None;
                }
            }
            None => {
                self.line.extend_from_slice(bytes);
                if ends {
                    self.finish_line();
                }
            }
        }
    }

    fn finish_line(&mut self) {
        mem::swap(&mut self.line, &mut self.ready);
        self.position = 0;
        self.line.clear();
        self.line.shrink_to(KEPT_CAPACITY);
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for LimitedLines<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let lines = &mut this.lines;
            let rest = lines.ready.get(lines.position..).unwrap_or_default();
            if !rest.is_empty() {
                let bytes = rest.get(..buffer.remaining()).unwrap_or(rest);
                buffer.put_slice(bytes);
                lines.position += bytes.len();
                return Poll::Ready(Ok(()));
            }
            let bytes = ready!(Pin::new(&mut this.read).poll_fill_buf(cx))?;
            if bytes.is_empty() {
                // A last line without a newline is not a message.
                return Poll::Ready(Ok(()));
            }
            let end = memchr::memchr(b'\n', bytes);
            let taken = end.map_or(bytes.len(), |end| end + 1);
            lines.push(&bytes[..taken], end.is_some());
            Pin::new(&mut this.read).consume(taken);
        }
    }
}

/// A scanner of a JSON-RPC message that finds its id, and whether it is a request, without
/// holding the message in memory.
#[derive(Default)]
struct RequestScanner {
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

impl RequestScanner {
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

    /// Returns the line that replaces the message.
    fn replacement(&self) -> Vec<u8> {
        let id: Option<Value> = serde_json::from_slice(&self.id).ok();
        let id = id.filter(|id| id.is_string() || id.is_number());
        let line = match id {
            Some(id) if self.has_method => {
                json!({"jsonrpc": "2.0", "id": id, "method": OVERSIZED}).to_string()
            }
            // Notifications and responses get no response.
            None if self.has_method && !self.has_id => return Vec::new(),
            Some(_) => return Vec::new(),
            // An invalid message is replaced with another invalid message.
            None => "{}".to_owned(),
        };
        format!("{line}\n").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    async fn output(input: &str, max_bytes: usize) -> String {
        let mut text = String::new();
        LimitedLines::new(input.as_bytes(), max_bytes).read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn lines_up_to_the_limit_are_unchanged() {
        for input in ["", "\n", "{}\n", "a\r\n\nb\n", "0123456\n", "a\n0123456\nb\n"] {
            assert_eq!(output(input, 8).await, input);
        }
        assert_eq!(output("a\nno end", 8).await, "a\n");
    }

    #[tokio::test]
    async fn an_oversized_request_is_replaced_with_one_with_its_id() {
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
            let expected =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"toolwright/oversized"}}"#);
            assert_eq!(
                output(&format!("a\n{message}\nb\n"), 60).await,
                format!("a\n{expected}\nb\n")
            );
            // One byte decides.
            assert_eq!(
                output(&format!("{message}\n"), message.len()).await,
                format!("{expected}\n")
            );
            let whole = format!("{message}\n");
            assert_eq!(output(&whole, whole.len()).await, whole);
        }
    }

    #[tokio::test]
    async fn oversized_notifications_and_responses_are_dropped_and_others_are_invalid() {
        let long = "x".repeat(100);
        for (message, replacement) in [
            (format!(r#"{{"method":"notifications/x","params":"{long}"}}"#), ""),
            (format!(r#"{{"id":1,"result":"{long}"}}"#), ""),
            (format!(r#"{{"id":[1],"method":"m","params":"{long}"}}"#), "{}\n"),
            (format!(r#"{{"id":"{long}{long}{long}","method":"m"}}"#), "{}\n"),
            (format!(r#"[{{"id":1,"method":"m","params":"{long}"}}]"#), "{}\n"),
            (long.clone(), "{}\n"),
            (format!("\"{long}\""), "{}\n"),
        ] {
            assert_eq!(output(&format!("{message}\n"), 60).await, replacement, "{message}");
        }
    }
}
