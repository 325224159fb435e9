//! Server-sent events out of bytes, wherever packets cut them.

use crate::error::{Error, Result};

/// Maximum length of one line.
const MOST_LINE: usize = 4 << 20;

/// A reader of server-sent events that needs no socket.
///
/// eventsource-stream panics over a byte order mark, and takes an empty `data:` for JSON.
#[derive(Default)]
pub(crate) struct Events {
    held: Vec<u8>,
    /// Up to here `held` was read.
    at: usize,
    /// From `at` to here there is no line end.
    seen: usize,
    /// Whether the byte order mark, if there is one, was read.
    began: bool,
    /// Whether the last line ended with a carriage return, so that a line feed belongs to it.
    after_return: bool,
    data: Vec<u8>,
    is_error: bool,
}

/// The data of one event.
#[derive(Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) data: String,
    /// Whether the event's name is `error`.
    pub(crate) is_error: bool,
}

impl Events {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.at > 0 {
            self.held.drain(..self.at);
            self.seen -= self.at;
            self.at = 0;
        }
        self.held.extend_from_slice(bytes);
    }

    /// The next event that has data; `None` until more bytes come.
    pub(crate) fn next(&mut self) -> Result<Option<Message>> {
        while let Some(line) = self.line() {
            let (from, to) = line?;
            if from == to {
                if let Some(message) = self.dispatch()? {
                    return Ok(Some(message));
                }
                continue;
            }
            let line = &self.held[from..to];
            let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
            let value = line.get(colon + 1..).unwrap_or_default();
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match &line[..colon] {
                b"data" => {
                    if !self.data.is_empty() {
                        self.data.push(b'\n');
                    }
                    self.data.extend_from_slice(value);
                }
                b"event" => self.is_error = value == b"error",
                _ => {}
            }
        }
        Ok(None)
    }

    /// The event that the end of the body cut off before its empty line.
    pub(crate) fn last(&mut self) -> Result<Option<Message>> {
        self.push(b"\n\n");
        self.next()
    }

    /// Where the next line lies, without its end.
    fn line(&mut self) -> Option<Result<(usize, usize)>> {
        if !self.began {
            let mark = "\u{feff}".as_bytes();
            if self.held.len() < mark.len() && mark.starts_with(&self.held) {
                return None;
            }
            self.began = true;
            if self.held.starts_with(mark) {
                self.at = mark.len();
                self.seen = self.at;
            }
        }
        if self.after_return && self.at < self.held.len() {
            self.after_return = false;
            if self.held[self.at] == b'\n' {
                self.at += 1;
                self.seen = self.seen.max(self.at);
            }
        }
        let end = self.held[self.seen..].iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let Some(end) = end.map(|end| self.seen + end) else {
            self.seen = self.held.len();
            let too_long = self.seen - self.at > MOST_LINE;
            return too_long
                .then_some(Err(Error::TooLarge { what: "one line of a stream", most: MOST_LINE }));
        };
        let line = (self.at, end);
        self.after_return = self.held[end] == b'\r';
        (self.at, self.seen) = (end + 1, end + 1);
        Some(Ok(line))
    }

    fn dispatch(&mut self) -> Result<Option<Message>> {
        let data = std::mem::take(&mut self.data);
        let is_error = std::mem::take(&mut self.is_error);
        // What keeps a connection alive has no data.
        if data.trim_ascii().is_empty() {
            return Ok(None);
        }
        match String::from_utf8(data) {
            Ok(data) => Ok(Some(Message { data, is_error })),
            Err(error) => Err(Error::no_utf8(&error.into_bytes())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], size: usize) -> Vec<String> {
        let mut events = Events::default();
        let mut messages = Vec::new();
        for chunk in text.chunks(size) {
            events.push(chunk);
            while let Some(message) = events.next().unwrap() {
                messages.push(message.data);
            }
        }
        messages.extend(events.last().unwrap().map(|message| message.data));
        messages
    }

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let long = "x".repeat(9000);
        let text = format!(
            "\u{feff}data: one\n\n: ping\n\ndata:\n\ndata: \n\nevent: x\nid: 1\ndata: ä\ndata:two\n\nretry: 5\n\ndata:  {long}\n\ndata\n\nda: x\n\ndata: last"
        );
        let wanted = ["one".to_owned(), "ä\ntwo".to_owned(), format!(" {long}"), "last".to_owned()];
        for end in ["\n", "\r\n", "\r"] {
            let text = text.replace('\n', end);
            for size in [1, 2, 3, 5, 7, 4096, 1 << 20] {
                assert_eq!(read(text.as_bytes(), size), wanted, "{end:?} {size}");
            }
        }
    }

    #[test]
    fn a_line_has_a_bound() {
        let mut events = Events::default();
        events.push(&vec![b'x'; MOST_LINE]);
        assert!(events.next().unwrap().is_none());
        events.push(b"x");
        assert!(matches!(events.next(), Err(Error::TooLarge { most: MOST_LINE, .. })));
    }
}
