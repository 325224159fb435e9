//! Server-sent events: bytes go in, events come out.
//!
//! The rules are those of the HTML standard, "Server-sent events", "Interpreting an event
//! stream".

use std::borrow::Cow;
use std::mem;

use bytes::Bytes;
use memchr::{memchr, memchr2};

use crate::error::{ErrorKind, HttpError, Result};

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Parser of server-sent events that does not need a socket.
///
/// The bytes of a body may be cut anywhere: in a line, between a carriage return and its line
/// feed, in a character, in a byte order mark. The parser copies the data of an event once,
/// into a buffer that the next event reuses. Its time is linear in the number of bytes.
///
/// An event with blank data is a keep-alive and is skipped. A caller that reconnects sends the
/// last [`Event::id`].
///
/// ```
/// use toolwright_http::EventReader;
///
/// let mut events = EventReader::default();
/// events.push("data: {\"text\"".into());
/// assert!(events.next()?.is_none());
/// events.push(": \"hi\"}\n\nevent: error\ndata: {}\n\n".into());
/// assert_eq!(events.next()?.map(|event| event.data), Some(r#"{"text": "hi"}"#));
/// assert_eq!(events.next()?.map(|event| event.name), Some("error"));
/// assert!(events.next()?.is_none());
/// # Ok::<(), toolwright_http::HttpError>(())
/// ```
#[derive(Debug)]
pub struct EventReader {
    max_line: usize,
    max_event: usize,
    /// The bytes that were pushed last, of which `at` are parsed.
    chunk: Bytes,
    at: usize,
    /// The beginning of a line whose end is not here yet.
    line: Vec<u8>,
    /// Whether the first line is parsed. It may begin with a byte order mark.
    began: bool,
    /// Whether the last line ended with a carriage return, so that a line feed belongs to it.
    after_return: bool,
    data: Vec<u8>,
    has_data: bool,
    name: Vec<u8>,
    id: Vec<u8>,
    /// Whether `data` and `name` belong to an event that was returned.
    is_returned: bool,
}

/// An event of a stream, borrowed from its [`EventReader`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The name in the field `event`; empty if the field is missing, which means `message`.
    pub name: &'a str,
    /// The lines of the field `data`, with a line feed between them.
    pub data: &'a str,
    /// The id of this or the last event that had one; empty if there was no id. A client sends
    /// it as `last-event-id` to resume a stream that broke.
    pub id: &'a str,
}

/// Allows lines of up to 4 MiB and events of up to 16 MiB.
impl Default for EventReader {
    fn default() -> Self {
        Self::new(4 << 20, 16 << 20)
    }
}

impl EventReader {
    /// Creates a parser with a maximum size of one line and of one event's data, in bytes.
    #[must_use]
    pub fn new(max_line: usize, max_event: usize) -> Self {
        Self {
            max_line,
            max_event,
            chunk: Bytes::new(),
            at: 0,
            line: Vec::new(),
            began: false,
            after_return: false,
            data: Vec::new(),
            has_data: false,
            name: Vec::new(),
            id: Vec::new(),
            is_returned: false,
        }
    }

    /// Adds bytes. They are not copied if [`next`](Self::next) returned `None` before.
    pub fn push(&mut self, bytes: Bytes) {
        if self.at == self.chunk.len() {
            self.chunk = bytes;
        } else {
            self.chunk = [&self.chunk[self.at..], &bytes].concat().into();
        }
        self.at = 0;
    }

    /// Returns the next event, or `None` if it needs more bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TooLarge`] if a line or an event is longer than allowed;
    /// [`ErrorKind::Encoding`] if an event is not UTF-8. The reader cannot be used after
    /// `TooLarge`. After `Encoding` it continues with the next event.
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot lend its items")]
    pub fn next(&mut self) -> Result<Option<Event<'_>>> {
        match self.read()? {
            true => self.event().map(Some),
            false => Ok(None),
        }
    }

    /// Returns the event at the end of the body if the empty line after it is missing.
    ///
    /// Call it after [`next`](Self::next) returned `None`. The standard drops such an event;
    /// many servers leave the empty line out.
    ///
    /// # Errors
    ///
    /// The errors of [`next`](Self::next).
    pub fn end(&mut self) -> Result<Option<Event<'_>>> {
        self.push(Bytes::from_static(b"\n\n"));
        self.next()
    }

    /// Reads up to the end of an event, and returns whether there is one.
    fn read(&mut self) -> Result<bool> {
        if mem::take(&mut self.is_returned) {
            self.data.clear();
            self.name.clear();
        }
        loop {
            if mem::take(&mut self.after_return) {
                match self.chunk.get(self.at) {
                    Some(b'\n') => self.at += 1,
                    Some(_) => {}
                    None => {
                        self.after_return = true;
                        return Ok(false);
                    }
                }
            }
            let unread = &self.chunk[self.at..];
            let end = memchr2(b'\n', b'\r', unread);
            if self.line.len() + end.unwrap_or(unread.len()) > self.max_line {
                return Err(too_large("one line of a stream", self.max_line));
            }
            let Some(end) = end else {
                self.line.extend_from_slice(unread);
                self.at = self.chunk.len();
                return Ok(false);
            };
            self.after_return = unread[end] == b'\r';
            // A slice of `Bytes` costs a reference count, which is cheaper than a copy.
            let here = self.chunk.slice(self.at..self.at + end);
            self.at += end + 1;
            let ends_event = if self.line.is_empty() {
                self.take(&here)?
            } else {
                let mut line = mem::take(&mut self.line);
                line.extend_from_slice(&here);
                let ends_event = self.take(&line)?;
                line.clear();
                self.line = line;
                ends_event
            };
            if ends_event {
                return Ok(true);
            }
        }
    }

    /// Parses a line, and returns whether it ends an event that has data.
    fn take(&mut self, line: &[u8]) -> Result<bool> {
        let line = match mem::replace(&mut self.began, true) {
            true => line,
            false => line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line),
        };
        if line.is_empty() {
            self.has_data = false;
            let has_data = !self.data.trim_ascii().is_empty();
            if !has_data {
                self.data.clear();
                self.name.clear();
            }
            return Ok(has_data);
        }
        let colon = memchr(b':', line).unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                if self.data.len() + value.len() + 1 > self.max_event {
                    return Err(too_large("one event of a stream", self.max_event));
                }
                if mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => value.clone_into(&mut self.name),
            b"id" if memchr(0, value).is_none() => value.clone_into(&mut self.id),
            _ => {}
        }
        Ok(false)
    }

    fn event(&mut self) -> Result<Event<'_>> {
        self.is_returned = true;
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| not_utf8(bytes));
        Ok(Event { name: text(&self.name)?, data: text(&self.data)?, id: text(&self.id)? })
    }
}

fn too_large(what: &'static str, max: usize) -> HttpError {
    ErrorKind::TooLarge { what, max }.into()
}

/// Returns the error for a body that is not UTF-8.
pub(crate) fn not_utf8(body: &[u8]) -> HttpError {
    let what = match is_gzip(body) {
        true => "compressed with gzip",
        false => "in another encoding, such as Latin-1",
    };
    ErrorKind::Encoding { what: Cow::Borrowed(what) }.into()
}

/// Returns whether a body begins with the magic number of gzip.
pub(crate) fn is_gzip(body: &[u8]) -> bool {
    body.starts_with(&[0x1f, 0x8b])
}
