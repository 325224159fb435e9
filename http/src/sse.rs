use std::borrow::Cow;
use std::mem;

use bytes::Bytes;
use memchr::{memchr, memchr2};

use crate::error::{ErrorKind, HttpError, Result};

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A reader of server-sent events that needs no socket.
///
/// It accepts the bytes of a body wherever packets cut them: in a line, between a carriage
/// return and its line feed, in a character, in a byte order mark. It copies the data of
/// an event once, into a buffer that the next event reuses. Its time is linear in the
/// bytes, however they are cut.
///
/// An event with blank data is a keep-alive and is skipped. The field `retry` is ignored.
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
    /// The bytes that came last, of which `at` were read.
    chunk: Bytes,
    at: usize,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    /// Whether the first line was read, which may begin with a byte order mark.
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

/// An event of a stream, borrowed from its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The name in the field `event`; empty if there is none, which means `message`.
    pub name: &'a str,
    /// The lines of the field `data`, with a line feed between them.
    pub data: &'a str,
    /// The last event's id, by which a stream that broke off can be resumed; empty if the
    /// server gave none.
    pub id: &'a str,
}

/// Lines of up to 4 MiB and events of up to 16 MiB.
impl Default for EventReader {
    fn default() -> Self {
        Self::new(4 << 20, 16 << 20)
    }
}

impl EventReader {
    /// A reader with a maximum size of one line and of one event's data, in bytes.
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

    /// Adds bytes. They are not copied if all earlier events were read.
    pub fn push(&mut self, bytes: Bytes) {
        if self.at == self.chunk.len() {
            self.chunk = bytes;
        } else {
            self.chunk = [&self.chunk[self.at..], &bytes].concat().into();
        }
        self.at = 0;
    }

    /// The next event; `None` until more bytes come.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TooLarge`] if a line or an event is longer than allowed, and
    /// [`ErrorKind::Encoding`] if an event is not UTF-8. After `TooLarge` the reader cannot be
    /// used any more; after `Encoding` it goes on with the next event.
    // It lends its buffer, which `Iterator::next` cannot.
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot lend its items")]
    pub fn next(&mut self) -> Result<Option<Event<'_>>> {
        match self.read()? {
            true => self.event().map(Some),
            false => Ok(None),
        }
    }

    /// The event that the end of the body cut off before its empty line, if there is one.
    ///
    /// Call it after [`next`](Self::next) returned `None`.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub fn end(&mut self) -> Result<Option<Event<'_>>> {
        self.push(Bytes::from_static(b"\n\n"));
        self.next()
    }

    /// Reads up to the end of an event; whether there is one.
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
            // Counting a reference is cheaper than copying a line.
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

    /// Takes in a line; whether it ends an event that has data.
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

/// The error for a body that is not UTF-8.
pub(crate) fn not_utf8(body: &[u8]) -> HttpError {
    let what = match is_gzip(body) {
        true => "compressed with gzip",
        false => "in another encoding, such as Latin-1",
    };
    ErrorKind::Encoding { what: Cow::Borrowed(what) }.into()
}

/// Whether a body begins as gzip does.
pub(crate) fn is_gzip(body: &[u8]) -> bool {
    body.starts_with(&[0x1f, 0x8b])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Owned = (String, String, String);

    fn owned(event: Event<'_>) -> Owned {
        (event.name.to_owned(), event.data.to_owned(), event.id.to_owned())
    }

    fn read<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Owned> {
        let mut events = EventReader::default();
        let mut read = Vec::new();
        for chunk in chunks {
            events.push(Bytes::copy_from_slice(chunk));
            while let Some(event) = events.next().unwrap() {
                read.push(owned(event));
            }
        }
        read.extend(events.end().unwrap().map(owned));
        read
    }

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let long = "x".repeat(9000);
        let text = format!(
            "\u{feff}data: one\n\n: ping\n\ndata:\n\ndata: \n\nevent: x\nid: 1\ndata: ä\ndata:two\n\nretry: 5\n\ndata:  {long}\n\ndata\n\nda: x\n\ndata\ndata: after\n\ndata: last"
        );
        let wanted = [
            ("", "one".to_owned(), ""),
            ("x", "ä\ntwo".to_owned(), "1"),
            ("", format!(" {long}"), "1"),
            ("", "\nafter".to_owned(), "1"),
            ("", "last".to_owned(), "1"),
        ];
        let wanted = wanted.map(|(name, data, id)| (name.to_owned(), data, id.to_owned()));
        for end in ["\n", "\r\n", "\r"] {
            let text = text.replace('\n', end);
            for size in [1, 2, 3, 5, 7, 4096, 1 << 20] {
                assert_eq!(read(text.as_bytes().chunks(size)), wanted, "{end:?} {size}");
            }
        }
    }

    #[test]
    fn lines_and_events_have_bounds() {
        let mut events = EventReader::new(100, 150);
        events.push(vec![b'x'; 100].into());
        assert!(events.next().unwrap().is_none());
        events.push("x".into());
        let error = events.next().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TooLarge { max: 100, .. }));

        let mut events = EventReader::new(100, 150);
        let line = format!("data: {}\n", "x".repeat(80));
        events.push(line.repeat(2).into());
        let error = events.next().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TooLarge { max: 150, .. }));
    }

    #[test]
    fn an_event_that_is_not_utf8_is_an_error_and_the_next_one_is_read() {
        let mut events = EventReader::default();
        events.push(Bytes::from_static(b"data: caf\xe9\n\ndata: ok\n\n"));
        let error = events.next().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Encoding { .. }));
        assert_eq!(events.next().unwrap().unwrap().data, "ok");
    }

    #[test]
    fn a_long_line_in_small_pieces_is_read_in_linear_time() {
        let mut events = EventReader::default();
        let started = std::time::Instant::now();
        events.push("data: ".into());
        for _ in 0..(1 << 20) {
            events.push("xyz".into());
            assert!(events.next().unwrap().is_none());
        }
        assert_eq!(events.end().unwrap().unwrap().data.len(), 3 << 20);
        assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    }

    #[test]
    fn bytes_may_be_pushed_before_all_events_are_read() {
        let mut events = EventReader::default();
        events.push("data: 1\n\ndata: 2\r".into());
        assert_eq!(events.next().unwrap().unwrap().data, "1");
        events.push("\n\r\ndata: 3\n\n".into());
        assert_eq!(events.next().unwrap().unwrap().data, "2");
        assert_eq!(events.next().unwrap().unwrap().data, "3");
        assert!(events.end().unwrap().is_none());
    }

    fn pieces() -> impl Strategy<Value = Vec<&'static str>> {
        let piece = prop::sample::select(vec![
            "data: ",
            "data:",
            "data",
            "event: ",
            "id: ",
            "retry: 1",
            ": ",
            "\n",
            "\n\n",
            "\r",
            "\r\n",
            "\u{feff}",
            "ä",
            "🦀",
            "x",
            "{\"a\": 1}",
            " ",
            "\0",
        ]);
        prop::collection::vec(piece, 0..60)
    }

    proptest! {
        #[test]
        fn any_split_of_the_bytes_gives_the_same_events(
            pieces in pieces(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let text = pieces.concat();
            let bytes = text.as_bytes();
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let split = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]);
            let whole = read([bytes]);
            prop_assert_eq!(&read(split), &whole);
            prop_assert_eq!(&read(bytes.chunks(1)), &whole);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut events = EventReader::new(64, 64);
            for chunk in bytes.chunks(3) {
                events.push(Bytes::copy_from_slice(chunk));
                let _ = events.next();
            }
            let _ = events.end();
        }
    }
}
