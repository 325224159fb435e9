//! A JSON text as one flat list of tokens.
//!
//! The parser is exact and iterative; its time and memory grow linearly with the text. Reading,
//! rendering and the fit check all use tapes.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::limits::TEXT_DEPTH;

/// The kind of value that a token starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Null,
    False,
    True,
    Number,
    /// A text without escapes: the bytes between its quotes.
    Text,
    /// A text with escapes.
    Escaped,
    List,
    Object,
}

/// One value, or one key of an object: keys are before their values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    /// Start in the source; for a text, after the quote.
    start: u32,
    /// End in the source; for a text, before the quote.
    end: u32,
    /// The next token after this value and everything in it.
    next: u32,
    pub(super) kind: TokenKind,
}

/// The reason why a text is not JSON; places are offsets in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The text ends inside its value.
    EndsEarly,
    /// There is an unexpected character.
    Unexpected { at: usize, what: &'static str },
    /// The text nests too deeply.
    TooDeep,
    /// More than 4 GB.
    TooLong,
    /// An object has the same key twice, so it is unclear which value is meant.
    Twice { path: String, key: String },
}

/// A text and its tokens.
#[derive(Debug)]
pub(crate) struct Tape<'t> {
    pub(crate) source: &'t str,
    tokens: Vec<Token>,
}

impl<'t> Tape<'t> {
    pub(crate) fn parse(source: &'t str) -> Result<Self, Broken> {
        Self::parse_to(source, TEXT_DEPTH)
    }

    /// Parses a text whose lists and objects nest at most `deepest` levels.
    pub(crate) fn parse_to(source: &'t str, deepest: usize) -> Result<Self, Broken> {
        if u32::try_from(source.len()).is_err() {
            return Err(Broken::TooLong);
        }
        let mut parser = TapeParser {
            source,
            bytes: source.as_bytes(),
            at: 0,
            tokens: Vec::with_capacity(source.len() / 8 + 8),
            open: Vec::new(),
            deepest,
        };
        parser.run()?;
        Ok(Self { source, tokens: parser.tokens })
    }

    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Returns the depth of nested lists and objects.
    pub(crate) fn depth(&self) -> u32 {
        let (mut depth, mut open) = (0, Vec::new());
        for (at, token) in self.tokens.iter().enumerate() {
            while open.last().is_some_and(|end| *end as usize <= at) {
                open.pop();
            }
            if matches!(token.kind, TokenKind::List | TokenKind::Object) {
                open.push(token.next);
                depth = depth.max(open.len() as u32);
            }
        }
        depth
    }

    pub(crate) fn kind(&self, token: usize) -> TokenKind {
        self.tokens.get(token).map_or(TokenKind::Null, |token| token.kind)
    }

    /// Returns the source of a number, or the source of a text between its quotes.
    pub(crate) fn raw(&self, token: usize) -> &'t str {
        let range = self.tokens.get(token).map(|token| token.start as usize..token.end as usize);
        range.and_then(|range| self.source.get(range)).unwrap_or_default()
    }

    /// Returns the source of any value, including quotes.
    pub(crate) fn whole(&self, token: usize) -> &'t str {
        let Some(found) = self.tokens.get(token) else {
            return "";
        };
        let (start, end) = (found.start as usize, found.end as usize);
        let quote = usize::from(matches!(found.kind, TokenKind::Text | TokenKind::Escaped));
        self.source.get(start - quote..end + quote).unwrap_or_default()
    }

    /// Returns the decoded text of a token.
    pub(crate) fn text(&self, token: usize) -> Cow<'t, str> {
        match self.kind(token) {
            TokenKind::Escaped => Cow::Owned(decoded(self.raw(token))),
            _ => Cow::Borrowed(self.raw(token)),
        }
    }

    pub(super) fn is_text(&self, token: usize) -> bool {
        matches!(self.kind(token), TokenKind::Text | TokenKind::Escaped)
    }

    /// Returns the next token after this value and everything in it.
    pub(crate) fn next(&self, token: usize) -> usize {
        self.tokens.get(token).map_or(usize::MAX, |token| token.next as usize)
    }

    /// Returns the items of a list.
    pub(crate) fn items(&self, list: usize) -> impl Iterator<Item = usize> + Clone {
        let end = self.next(list);
        let mut at = list + 1;
        std::iter::from_fn(move || {
            let item = at;
            (item < end).then(|| at = self.next(item))?;
            Some(item)
        })
    }

    /// Returns the keys of an object, each with its value.
    pub(crate) fn entries(&self, object: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
        let end = self.next(object);
        let mut at = object + 1;
        std::iter::from_fn(move || {
            let key = at;
            (key < end).then(|| at = self.next(key + 1))?;
            Some((key, key + 1))
        })
    }
}

/// Decodes a valid text.
fn decoded(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        out.push_str(rest.get(..at).unwrap_or_default());
        rest = rest.get(at + 1..).unwrap_or_default();
        let (c, length) = unescaped(rest).unwrap_or(('\u{fffd}', 1));
        out.push(c);
        rest = rest.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// Decodes the escape after a backslash; returns the character and its number of bytes.
fn unescaped(rest: &str) -> Option<(char, usize)> {
    match rest.bytes().next()? {
        b'u' => unescaped_unicode(rest),
        byte => Some((simple_escape(byte)?, 1)),
    }
}

/// Returns the character of a one-letter escape.
pub(crate) fn simple_escape(letter: u8) -> Option<char> {
    Some(match letter {
        b'"' | b'\\' | b'/' => char::from(letter),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        _ => return None,
    })
}

/// Returns the number of bytes before the next quote, backslash or control character. It reads
/// eight bytes at a time, because most of an answer is such text.
pub(crate) fn plain_run(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    let mut at = 0;
    for &eight in bytes.as_chunks::<8>().0 {
        let word = u64::from_le_bytes(eight);
        // The high bit of each byte below `n`. A later byte above it may be marked too, but
        // never the first one.
        let below = |word: u64, n: u64| word.wrapping_sub(ONES * n) & !word & HIGH;
        let quote = word ^ (ONES * u64::from(b'"'));
        let backslash = word ^ (ONES * u64::from(b'\\'));
        let found = below(word, 0x20) | below(quote, 1) | below(backslash, 1);
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    at + rest.iter().position(special).unwrap_or(rest.len())
}

/// Decodes `uXXXX`, or two of them for one character; a lone surrogate is not a character.
pub(super) fn unescaped_unicode(rest: &str) -> Option<(char, usize)> {
    let high = hex(rest.get(1..5)?)?;
    if !(0xd800..0xdc00).contains(&high) {
        return Some((char::from_u32(high)?, 5));
    }
    let low = hex(rest.get(5..11)?.strip_prefix("\\u")?)?;
    if !(0xdc00..0xe000).contains(&low) {
        return None;
    }
    let c = char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00))?;
    Some((c, 11))
}

fn hex(digits: &str) -> Option<u32> {
    // `from_str_radix` would accept a sign.
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
}

struct TapeParser<'t> {
    source: &'t str,
    bytes: &'t [u8],
    at: usize,
    tokens: Vec<Token>,
    /// The lists and objects that are not closed yet.
    open: Vec<u32>,
    deepest: usize,
}

impl TapeParser<'_> {
    fn run(&mut self) -> Result<(), Broken> {
        loop {
            self.space();
            self.value()?;
            if self.close()? {
                break;
            }
        }
        self.space();
        if self.at < self.bytes.len() {
            return Err(self.unexpected("something follows the value"));
        }
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn unexpected(&self, what: &'static str) -> Broken {
        if self.at >= self.bytes.len() {
            return Broken::EndsEarly;
        }
        Broken::Unexpected { at: self.at, what }
    }

    /// Parses a scalar, or a list or an object up to its first scalar.
    #[inline]
    fn value(&mut self) -> Result<(), Broken> {
        loop {
            match self.peek() {
                Some(b'"') => return self.text(),
                Some(b'{') => {
                    self.push_open(TokenKind::Object)?;
                    self.space();
                    if self.peek() == Some(b'}') {
                        return Ok(());
                    }
                    self.key()?;
                }
                Some(b'[') => {
                    self.push_open(TokenKind::List)?;
                    self.space();
                    if self.peek() == Some(b']') {
                        return Ok(());
                    }
                }
                Some(b'-' | b'0'..=b'9') => return self.number(),
                Some(b't') => return self.word("true", TokenKind::True),
                Some(b'f') => return self.word("false", TokenKind::False),
                Some(b'n') => return self.word("null", TokenKind::Null),
                _ => return Err(self.unexpected("a value is expected")),
            }
        }
    }

    /// Parses the text after a value: closing brackets, and the separator of the next value.
    /// Returns true if all containers are closed.
    #[inline]
    fn close(&mut self) -> Result<bool, Broken> {
        loop {
            let Some(&open) = self.open.last() else {
                return Ok(true);
            };
            self.space();
            let is_list = self.tokens.get(open as usize).is_some_and(|t| t.kind == TokenKind::List);
            match (self.peek(), is_list) {
                (Some(b','), true) => {
                    self.at += 1;
                    return Ok(false);
                }
                (Some(b','), false) => {
                    self.at += 1;
                    self.space();
                    self.key()?;
                    return Ok(false);
                }
                (Some(b']'), true) => self.end(open)?,
                (Some(b'}'), false) => {
                    self.unique(open as usize)?;
                    self.end(open)?;
                }
                (_, true) => return Err(self.unexpected("`,` or `]` is expected")),
                (_, false) => return Err(self.unexpected("`,` or `}` is expected")),
            }
        }
    }

    fn push(&mut self, kind: TokenKind, start: usize, end: usize) {
        let next = self.tokens.len() as u32 + 1;
        self.tokens.push(Token { start: start as u32, end: end as u32, next, kind });
    }

    fn push_open(&mut self, kind: TokenKind) -> Result<(), Broken> {
        if self.open.len() >= self.deepest {
            return Err(Broken::TooDeep);
        }
        self.open.push(self.tokens.len() as u32);
        self.push(kind, self.at, self.at);
        self.at += 1;
        Ok(())
    }

    fn end(&mut self, open: u32) -> Result<(), Broken> {
        self.at += 1;
        let next = self.tokens.len() as u32;
        if let Some(token) = self.tokens.get_mut(open as usize) {
            token.end = self.at as u32;
            token.next = next;
        }
        self.open.pop();
        Ok(())
    }

    fn key(&mut self) -> Result<(), Broken> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a name in double quotes is expected"));
        }
        self.text()?;
        self.space();
        if self.peek() != Some(b':') {
            return Err(self.unexpected("`:` is expected"));
        }
        self.at += 1;
        self.space();
        Ok(())
    }

    fn word(&mut self, word: &'static str, kind: TokenKind) -> Result<(), Broken> {
        let start = self.at;
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                return Err(self.unexpected("a value is expected"));
            }
            self.at += 1;
        }
        self.push(kind, start, self.at);
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Broken> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.unexpected("a digit is expected"));
        }
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Broken> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
            if let Some(b'0'..=b'9') = self.peek() {
                return Err(self.unexpected("a number has no leading zero"));
            }
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        self.push(TokenKind::Number, start, self.at);
        Ok(())
    }

    #[inline]
    fn text(&mut self) -> Result<(), Broken> {
        self.at += 1;
        let start = self.at;
        let mut kind = TokenKind::Text;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            self.at += plain_run(rest);
            match self.peek() {
                None => return Err(Broken::EndsEarly),
                Some(b'"') => break,
                Some(b'\\') => {
                    kind = TokenKind::Escaped;
                    let rest = self.source.get(self.at + 1..).unwrap_or_default();
                    let Some((_, length)) = unescaped(rest) else {
                        // Two escapes of six characters may be one character.
                        if rest.len() < 11 && rest.bytes().all(|b| b != b'"') {
                            return Err(Broken::EndsEarly);
                        }
                        return Err(self.unexpected("this escape stands for no character"));
                    };
                    self.at += 1 + length;
                }
                _ => return Err(self.unexpected("a control character has to be escaped")),
            }
        }
        self.push(kind, start, self.at);
        self.at += 1;
        Ok(())
    }

    /// Rejects an object that has the same key twice.
    fn unique(&self, object: usize) -> Result<(), Broken> {
        /// Up to this number, comparing keys with each other is faster than hashing them.
        const FEW: usize = 8;
        let mut few = [""; FEW];
        let mut count = 0;
        let mut at = object + 1;
        while let Some(key) = self.tokens.get(at) {
            let text = self.source.get(key.start as usize..key.end as usize).unwrap_or_default();
            let (seen, _) = few.split_at(count);
            if key.kind == TokenKind::Escaped || count == FEW {
                return self.unique_among_many(object);
            }
            if seen.contains(&text) {
                return Err(self.twice(object, text));
            }
            if let Some(slot) = few.get_mut(count) {
                *slot = text;
            }
            count += 1;
            at = self.tokens.get(at + 1).map_or(usize::MAX, |value| value.next as usize);
        }
        Ok(())
    }

    fn unique_among_many(&self, object: usize) -> Result<(), Broken> {
        let mut seen = HashSet::new();
        let mut at = object + 1;
        while let Some(key) = self.tokens.get(at) {
            let raw = self.source.get(key.start as usize..key.end as usize).unwrap_or_default();
            let text = match key.kind {
                TokenKind::Escaped => Cow::Owned(decoded(raw)),
                _ => Cow::Borrowed(raw),
            };
            if seen.contains(&text) {
                return Err(self.twice(object, &text));
            }
            seen.insert(text);
            at = self.tokens.get(at + 1).map_or(usize::MAX, |value| value.next as usize);
        }
        Ok(())
    }

    fn twice(&self, object: usize, key: &str) -> Broken {
        Broken::Twice { path: self.path(object), key: key.to_owned() }
    }

    /// Returns the path of the current value: all containers around it are still open.
    fn path(&self, object: usize) -> String {
        let mut path = String::from("$");
        for (open, &token) in self.open.iter().enumerate() {
            if token as usize == object {
                break;
            }
            let below = self.open.get(open + 1).map_or(self.tokens.len(), |&t| t as usize);
            self.step(token as usize, below, &mut path);
        }
        path
    }

    fn step(&self, container: usize, below: usize, path: &mut String) {
        let is_list = self.tokens.get(container).is_some_and(|t| t.kind == TokenKind::List);
        if is_list {
            let (mut at, mut index) = (container + 1, 0);
            while at < below {
                at = self.tokens.get(at).map_or(usize::MAX, |t| t.next as usize);
                index += 1;
            }
            path.push_str(&format!("[{index}]"));
        } else if let Some(key) = self.tokens.get(below.wrapping_sub(1)) {
            let raw = self.source.get(key.start as usize..key.end as usize).unwrap_or_default();
            path.push('.');
            path.push_str(raw);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_what_serde_json_takes_and_nothing_else() {
        for text in [
            "null",
            " true ",
            "-0",
            "0.5e-7",
            "1E+5",
            "[]",
            "[1,[2,{}],\"a\"]",
            "{\"a\":{\"b\":[]}}",
            "\"\\u00e4\\ud83d\\ude00\\n\"",
            "",
            "01",
            "1.",
            ".5",
            "+1",
            "[1,]",
            "{,}",
            "{\"a\":1,}",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\\x\"",
            "\"a\tb\"",
            "\"a",
            "[1",
            "{\"a\"",
            "nul",
            "truee",
            "1 2",
            "\u{feff}1",
            "[1}",
            "{\"a\":1]",
            "'a'",
            "\"\\u+123\"",
            "-",
            "1e",
            "\"\\",
            "{\"a\" 1}",
            "{a:1}",
            "[,1]",
            "\0",
        ] {
            let ours = Tape::parse(text).is_ok();
            let theirs = serde_json::from_str::<serde_json::Value>(text).is_ok();
            assert_eq!(ours, theirs, "{text:?}: {:?}", Tape::parse(text));
        }
    }

    #[test]
    fn texts_are_decoded() {
        let text = r#"["a\"b\\\/\b\f\n\r\t\u0041\ud83d\ude00ä"]"#;
        let tape = Tape::parse(text).unwrap();
        assert_eq!(tape.text(1), "a\"b\\/\u{8}\u{c}\n\r\tA😀ä");
    }

    #[test]
    fn a_key_twice_is_found_with_its_path() {
        let twice = |text: &str| match Tape::parse(text).unwrap_err() {
            Broken::Twice { path, key } => format!("{path} {key}"),
            other => format!("{other:?}"),
        };
        assert_eq!(twice(r#"{"a":[0,{"b":1,"b":2}]}"#), "$.a[1] b");
        assert_eq!(twice(r#"{"a":1,"\u0061":2}"#), "$ a");
        let many: String = (0..100_000).map(|i| format!("\"k{i}\":1,")).collect();
        assert!(Tape::parse(&format!("{{{many}\"z\":1}}")).is_ok());
        assert_eq!(twice(&format!("{{{many}\"k7\":1}}")), "$ k7");
    }

    #[test]
    fn nesting_ends_at_the_depth_of_serde_json() {
        for depth in [126, 127, 128, 129, 1_000_000] {
            let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            let theirs = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            assert_eq!(Tape::parse(&text).is_ok(), theirs, "{depth}");
        }
    }
}
