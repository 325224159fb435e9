//! A JSON scanner that stops at the end of any piece and continues with the next one.
//!
//! It is a state machine, without recursion. The tape of [`reading`](crate::reading) is faster and
//! cannot stop inside a token; both share the rules for text and escapes.

use super::tree::Tree;
use crate::limits::TEXT_DEPTH;
use crate::reading::tape::{plain_run, simple_escape};

/// The longest text whose offsets fit into 32 bits.
const LONGEST: usize = u32::MAX as usize - 1;

/// The state of the scan, and the tokens that it expects.
#[derive(Debug, Clone, Default)]
pub(super) struct Scan {
    at: usize,
    next: Next,
    /// Whether the current text is a key.
    in_key: bool,
}

#[derive(Debug, Clone, Copy, Default)]
enum Next {
    /// Expects the first `{` or `[`.
    #[default]
    Root,
    /// After a bracket that may be part of the words around the JSON, as in `[1]` and `{name}`.
    Aside(usize),
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    /// Inside a text.
    Text,
    /// After a backslash.
    Escape,
    Hex(Hex),
    /// After the first half of a surrogate pair: expects `\`, then `u`.
    Pair(u16),
    PairU(u16),
    Number,
    /// Inside `true`, `false` or `null`.
    Word(&'static str),
    /// After the root: all further text is ignored.
    Nothing,
}

/// Inside `\uXXXX`.
#[derive(Debug, Clone, Copy)]
struct Hex {
    code: u16,
    digits: u8,
    /// The first half of a surrogate pair, if this is the second.
    first: Option<u16>,
}

/// The reason why a text is not JSON.
#[derive(Debug)]
pub(super) struct ScanFault {
    pub(super) expected: &'static str,
    pub(super) got: String,
}

impl Scan {
    /// Scans all text so far.
    pub(super) fn run(&mut self, tree: &mut Tree) -> Result<(), ScanFault> {
        if tree.text.len() > LONGEST {
            return Err(ScanFault { expected: "less than 4 GiB", got: "more".into() });
        }
        while let Some(&byte) = tree.text.as_bytes().get(self.at) {
            self.step(byte, tree)?;
        }
        Ok(())
    }

    fn step(&mut self, byte: u8, tree: &mut Tree) -> Result<(), ScanFault> {
        match self.next {
            Next::Text => self.text(tree),
            Next::Root => self.root(tree),
            Next::Aside(start) => {
                self.aside(start, byte, tree);
                Ok(())
            }
            Next::Nothing => {
                self.at = tree.text.len();
                Ok(())
            }
            Next::Escape => self.escape(byte, tree),
            Next::Hex(hex) => self.hex(hex, byte, tree),
            Next::Pair(first) => self.pair(byte, b'\\', Next::PairU(first), tree),
            Next::PairU(first) => {
                let hex = Hex { code: 0, digits: 0, first: Some(first) };
                self.pair(byte, b'u', Next::Hex(hex), tree)
            }
            Next::Number => self.number(tree),
            Next::Word(rest) => self.word(rest, byte, tree),
            _ if matches!(byte, b' ' | b'\n' | b'\r' | b'\t') => {
                self.at += 1;
                Ok(())
            }
            _ => self.structure(byte, tree),
        }
    }

    /// Scans the characters between texts, numbers and words.
    fn structure(&mut self, byte: u8, tree: &mut Tree) -> Result<(), ScanFault> {
        let in_object = tree.open.last().is_some_and(|open| open.is_object);
        match (self.next, byte) {
            (Next::KeyOrEnd | Next::CommaOrEnd, b'}') if in_object => self.close(tree),
            (Next::ValueOrEnd | Next::CommaOrEnd, b']') if !in_object => self.close(tree),
            (Next::CommaOrEnd, b',') => {
                self.pass(if in_object { Next::Key } else { Next::Value });
            }
            (Next::Colon, b':') => self.pass(Next::Value),
            (Next::Key | Next::KeyOrEnd, b'"') => {
                tree.add_key(self.at);
                self.in_key = true;
                self.pass(Next::Text);
            }
            (Next::Value | Next::ValueOrEnd, _) => return self.begin(byte, tree),
            (next, _) => {
                let expected = match next {
                    Next::Key => "a key in double quotes",
                    Next::KeyOrEnd => "a key in double quotes or `}`",
                    Next::Colon => "`:`",
                    _ if in_object => "`,` or `}`",
                    _ => "`,` or `]`",
                };
                return Err(self.broken(expected, tree));
            }
        }
        Ok(())
    }

    /// Consumes one character.
    fn pass(&mut self, next: Next) {
        self.at += 1;
        self.next = next;
    }

    fn root(&mut self, tree: &mut Tree) -> Result<(), ScanFault> {
        let ahead = tree.text.as_bytes().get(self.at..).unwrap_or_default();
        match ahead.iter().position(|byte| matches!(byte, b'{' | b'[')) {
            None => self.at = tree.text.len(),
            Some(before) => {
                self.at += before;
                let before = tree.text.get(..self.at).unwrap_or_default();
                if before.trim_end_matches(blank).is_empty() {
                    self.next = Next::Value;
                } else {
                    self.pass(Next::Aside(self.at));
                }
            }
        }
        Ok(())
    }

    /// Skips words in brackets; any other content means that the brackets open the root.
    fn aside(&mut self, start: usize, byte: u8, tree: &Tree) {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b' ' | 0x80..) {
            self.at += 1;
            return;
        }
        let (before, inside) = (tree.text.get(..start), tree.text.get(start + 1..self.at));
        let inside = inside.unwrap_or_default().trim();
        let is_list = byte == b']';
        // A number between words is a footnote; on its own line it is a list with one item.
        let alone = before.unwrap_or_default().trim_end_matches(' ').ends_with('\n');
        let is_value = match inside {
            "" => true,
            "true" | "false" | "null" => is_list,
            inside => is_list && alone && is_number(inside.as_bytes()),
        };
        if matches!(byte, b']' | b'}') && !is_value {
            self.pass(Next::Root);
        } else {
            self.at = start;
            self.next = Next::Value;
        }
    }

    /// Scans the first character of a value.
    fn begin(&mut self, byte: u8, tree: &mut Tree) -> Result<(), ScanFault> {
        let next = match byte {
            b'{' => Next::KeyOrEnd,
            b'[' => Next::ValueOrEnd,
            b'"' => Next::Text,
            b'-' | b'0'..=b'9' => Next::Number,
            b't' => Next::Word("rue"),
            b'f' => Next::Word("alse"),
            b'n' => Next::Word("ull"),
            _ => return Err(self.broken("a value", tree)),
        };
        let is_container = matches!(byte, b'{' | b'[');
        if is_container && tree.open.len() >= TEXT_DEPTH {
            return Err(ScanFault { expected: "at most 127 levels", got: "one more".into() });
        }
        let token = tree.add(self.at);
        if is_container {
            tree.open(token, byte == b'{');
        }
        self.pass(next);
        Ok(())
    }

    fn close(&mut self, tree: &mut Tree) {
        tree.close(self.at + 1);
        self.pass(if tree.open.is_empty() { Next::Nothing } else { Next::CommaOrEnd });
    }

    fn text(&mut self, tree: &mut Tree) -> Result<(), ScanFault> {
        let ahead = tree.text.as_bytes().get(self.at..).unwrap_or_default();
        let run = plain_run(ahead);
        let special = ahead.get(run).copied();
        tree.extend(self.at..self.at + run);
        self.at += run;
        match special {
            None => {}
            Some(b'"') => return self.end_text(tree),
            Some(b'\\') => {
                tree.decode(self.at);
                self.pass(Next::Escape);
            }
            Some(_) => return Err(self.broken("control characters to be escaped", tree)),
        }
        Ok(())
    }

    fn end_text(&mut self, tree: &mut Tree) -> Result<(), ScanFault> {
        tree.end(self.at + 1);
        if !std::mem::take(&mut self.in_key) {
            self.pass(Next::CommaOrEnd);
            return Ok(());
        }
        self.pass(Next::Colon);
        let twice = |key: String| {
            let key = crate::error::shown(&key);
            ScanFault { expected: "every field once", got: format!("`{key}` twice") }
        };
        tree.note_key().map_err(twice)
    }

    fn escape(&mut self, byte: u8, tree: &mut Tree) -> Result<(), ScanFault> {
        if byte == b'u' {
            self.pass(Next::Hex(Hex { code: 0, digits: 0, first: None }));
            return Ok(());
        }
        let Some(decoded) = simple_escape(byte) else {
            return Err(self.broken("one of \" \\ / b f n r t u after a backslash", tree));
        };
        tree.decoded.push(decoded);
        self.pass(Next::Text);
        Ok(())
    }

    fn hex(&mut self, hex: Hex, byte: u8, tree: &mut Tree) -> Result<(), ScanFault> {
        let digit = char::from(byte).to_digit(16).and_then(|digit| u16::try_from(digit).ok());
        let Some(digit) = digit else {
            return Err(self.broken("four hexadecimal digits", tree));
        };
        let hex = Hex { code: hex.code << 4 | digit, digits: hex.digits + 1, ..hex };
        self.pass(Next::Hex(hex));
        if hex.digits == 4 {
            self.next = decode(hex, tree)?;
        }
        Ok(())
    }

    fn pair(
        &mut self,
        byte: u8,
        expected: u8,
        next: Next,
        tree: &mut Tree,
    ) -> Result<(), ScanFault> {
        if byte != expected {
            return Err(self.broken("the second half of a surrogate pair", tree));
        }
        self.pass(next);
        Ok(())
    }

    fn number(&mut self, tree: &mut Tree) -> Result<(), ScanFault> {
        let ahead = tree.text.as_bytes().get(self.at..).unwrap_or_default();
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let Some(run) = ahead.iter().position(|byte| !is_part(byte)) else {
            self.at = tree.text.len();
            return Ok(());
        };
        self.at += run;
        let said = tree.text.get(tree.newest()..self.at).unwrap_or_default();
        if !is_number(said.as_bytes()) {
            return Err(ScanFault { expected: "a number", got: crate::error::shown(said) });
        }
        tree.end(self.at);
        self.next = Next::CommaOrEnd;
        Ok(())
    }

    fn word(&mut self, rest: &'static str, byte: u8, tree: &mut Tree) -> Result<(), ScanFault> {
        let mut letters = rest.chars();
        if letters.next() != Some(char::from(byte)) {
            return Err(self.broken("`true`, `false` or `null`", tree));
        }
        self.pass(Next::Word(letters.as_str()));
        if letters.as_str().is_empty() {
            tree.end(self.at);
            self.next = Next::CommaOrEnd;
        }
        Ok(())
    }

    fn broken(&self, expected: &'static str, tree: &Tree) -> ScanFault {
        let got = tree.text.get(self.at..).and_then(|ahead| ahead.chars().next());
        ScanFault { expected, got: got.map(|c| format!("{c:?}")).unwrap_or_default() }
    }
}

/// Decodes four hexadecimal digits: a character, or half of a surrogate pair.
fn decode(hex: Hex, tree: &mut Tree) -> Result<Next, ScanFault> {
    let units = hex.first.into_iter().chain([hex.code]);
    match char::decode_utf16(units).next() {
        Some(Ok(decoded)) => {
            tree.decoded.push(decoded);
            Ok(Next::Text)
        }
        // The first half waits for the second, so that half a pair is never shown.
        _ if hex.first.is_none() && matches!(hex.code, 0xD800..=0xDBFF) => Ok(Next::Pair(hex.code)),
        _ => Err(ScanFault {
            expected: "both halves of a surrogate pair",
            got: format!("\\u{:04x} alone", hex.first.unwrap_or(hex.code)),
        }),
    }
}

fn blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

/// Whether the whole text is a JSON number.
fn is_number(number: &[u8]) -> bool {
    let rest = number.strip_prefix(b"-").unwrap_or(number);
    let (whole, rest) = digits(rest);
    if whole.is_empty() || whole.len() > 1 && whole.starts_with(b"0") {
        return false;
    }
    let rest = match rest.strip_prefix(b".").map(digits) {
        Some(([], _)) => return false,
        Some((_, rest)) => rest,
        None => rest,
    };
    let Some(exponent) = rest.strip_prefix(b"e").or_else(|| rest.strip_prefix(b"E")) else {
        return rest.is_empty();
    };
    let exponent =
        exponent.strip_prefix(b"+").or_else(|| exponent.strip_prefix(b"-")).unwrap_or(exponent);
    matches!(digits(exponent), ([_, ..], []))
}

fn digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
    bytes.split_at(end)
}
