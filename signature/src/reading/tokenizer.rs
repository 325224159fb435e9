//! The JSON tokenizer of reading and of [`Partial`](crate::Partial).
//!
//! In: bytes of JSON, whole or as far as they were received. Out: calls of a [`Tokens`], which
//! keeps the tokens in its own form. For `{"a": [1]}`, these are:
//!
//! ```text
//! open(Object)   begin(key) end(Text 2..3) key_ended   open(List)   begin end(Number 7..8)
//! close          close
//! ```
//!
//! It is exact and iterative, and its time grows linearly with the text. A [`Tape`] gives it a
//! whole text. A tree of [`Partial`](crate::Partial) grows: there the end of the text is a pause,
//! and [`Tokenizer::run`] continues after the next piece. Only the cold path of a pause writes down
//! where to continue, so a whole text does not pay for it.
//!
//! Begin with [`Tokenizer::run`].
//!
//! [`Tape`]: crate::reading::tape::Tape

use std::ops::Range;

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

/// The reason why a text is not JSON; places are offsets in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The text ends inside its value.
    EndsEarly,
    /// There is an unexpected character.
    Unexpected { at: usize, expected: &'static str },
    /// There is more text after the value.
    Trailing { at: usize },
    /// The text nests too deeply.
    TooDeep,
    /// More than 4 GB: the offsets of tokens have 32 bits.
    TooLong,
    /// An object has the same key twice, so it is unclear which value is meant.
    Twice { path: String, key: String },
}

/// The store of tokens that a [`Tokenizer`] fills.
///
/// The defaults are for a store that keeps only ends.
pub(crate) trait Tokens {
    /// Whether the text may grow, so that its end is a pause and may be inside a number.
    const GROWS: bool;

    /// Returns all text so far.
    fn source(&self) -> &str;

    /// Starts a key, a text, a number or a word; `at` is its first character or its quote.
    fn begin(&mut self, _at: usize, _is_key: bool) {}

    /// Adds characters without escapes to the text that has begun.
    fn plain(&mut self, _run: Range<usize>) {}

    /// Notes an escape at `at` in the text that has begun. It may not be complete yet.
    fn escape(&mut self, _at: usize) {}

    /// Adds the character that an escape stands for.
    fn unescaped(&mut self, _c: char) {}

    /// Ends the value or key that has begun. The range is without the quotes of a text.
    fn end(&mut self, kind: TokenKind, range: Range<usize>);

    /// Checks the key that has just ended.
    fn key_ended(&mut self) -> Result<(), Broken> {
        Ok(())
    }

    /// Opens a list or an object at `at`.
    fn open(&mut self, kind: TokenKind, at: usize);

    /// Closes the innermost list or object before `end`.
    fn close(&mut self, end: usize) -> Result<(), Broken>;

    /// Returns the kind of the innermost open list or object.
    fn innermost(&self) -> Option<TokenKind>;

    /// Returns the number of open lists and objects.
    fn depth(&self) -> usize;
}

/// The place to continue after a pause.
#[derive(Debug, Clone, Copy, Default)]
enum Next {
    /// Before a value.
    #[default]
    Value,
    /// After an opening bracket.
    First,
    /// Before a key, after a comma.
    Key,
    /// Inside a key.
    InKey,
    /// Before the colon after a key.
    Colon,
    /// Inside a text.
    InText,
    /// Inside a number.
    InNumber,
    /// Inside `true`, `false` or `null`.
    InWord,
    /// After a value.
    AfterValue,
}

/// The text has ended or is broken: see [`Tokenizer::broken`].
///
/// It is empty, because a pause is as common as a piece of a streamed text, and must not cost more
/// than the piece.
struct Stop;

/// A tokenizer with its tokens so far.
#[derive(Debug, Clone)]
pub(crate) struct Tokenizer<S> {
    pub(crate) tokens: S,
    /// The offset of the next character.
    pub(crate) at: usize,
    /// The start of the current text, number or word.
    start: usize,
    next: Next,
    /// The reason why the text is not JSON; `None` if it has only ended.
    pub(crate) broken: Option<Broken>,
    /// Maximum number of nested lists and objects.
    deepest: usize,
}

impl<S: Default> Default for Tokenizer<S> {
    fn default() -> Self {
        Self::new(S::default(), TEXT_DEPTH)
    }
}

impl<S> Tokenizer<S> {
    /// Makes a tokenizer for a value at the start of the text.
    pub(crate) fn new(tokens: S, deepest: usize) -> Self {
        Self { tokens, at: 0, start: 0, next: Next::Value, broken: None, deepest }
    }
}

impl<S: Tokens> Tokenizer<S> {
    /// Parses one value and leaves `at` after it; returns whether the value is complete.
    ///
    /// If it is not, [`broken`](Self::broken) has the fault. Without a fault the text has only
    /// ended: if it grows, call this again when there is more text.
    #[inline]
    pub(crate) fn run(&mut self) -> bool {
        self.parse().is_ok()
    }

    #[inline]
    fn parse(&mut self) -> Result<(), Stop> {
        if self.resume()? {
            self.value()?;
        }
        while !self.close()? {
            self.value()?;
        }
        Ok(())
    }

    /// Whether only white space follows the value.
    pub(crate) fn finish(&mut self) -> bool {
        self.space();
        if self.at < self.bytes().len() {
            self.fail(Broken::Trailing { at: self.at });
            return false;
        }
        true
    }

    /// Finishes what the last pause interrupted; returns whether a value follows.
    #[inline]
    fn resume(&mut self) -> Result<bool, Stop> {
        match self.next {
            Next::Value => Ok(true),
            Next::First => self.first(self.tokens.innermost() == Some(TokenKind::List)),
            Next::Key => self.key().map(|()| true),
            Next::InKey => self.end_key().map(|()| true),
            Next::Colon => self.colon().map(|()| true),
            Next::InText => self.text(Next::InText).map(|()| false),
            Next::InNumber => self.number().map(|()| false),
            Next::InWord => self.word().map(|()| false),
            Next::AfterValue => Ok(false),
        }
    }

    /// Returns all text so far.
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.tokens.source().as_bytes()
    }

    /// Returns the next character, if it is there.
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes().get(self.at).copied()
    }

    /// Skips the white space of JSON.
    #[inline]
    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Stops at an unexpected character, or at the end of the text, to continue with `next`.
    #[cold]
    fn stop(&mut self, next: Next, expected: &'static str) -> Stop {
        if self.at < self.bytes().len() {
            return self.fail(Broken::Unexpected { at: self.at, expected });
        }
        self.next = next;
        Stop
    }

    /// Stops for good.
    #[cold]
    fn fail(&mut self, broken: Broken) -> Stop {
        self.broken = Some(broken);
        Stop
    }

    /// Parses a scalar, or a list or an object up to its first scalar.
    #[inline]
    fn value(&mut self) -> Result<(), Stop> {
        loop {
            self.space();
            match self.peek() {
                Some(b'"') => {
                    self.begin(false);
                    return self.text(Next::InText);
                }
                Some(b'{') => {
                    self.open(TokenKind::Object)?;
                    if !self.first(false)? {
                        return Ok(());
                    }
                }
                Some(b'[') => {
                    self.open(TokenKind::List)?;
                    if !self.first(true)? {
                        return Ok(());
                    }
                }
                Some(b'-' | b'0'..=b'9') => {
                    self.begin(false);
                    return self.number();
                }
                Some(b't' | b'f' | b'n') => {
                    self.begin(false);
                    return self.word();
                }
                _ => return Err(self.stop(Next::Value, "a value")),
            }
        }
    }

    /// Starts a scalar or a key at its first character.
    #[inline]
    fn begin(&mut self, is_key: bool) {
        self.start = self.at;
        self.tokens.begin(self.at, is_key);
        self.at += 1;
    }

    /// Opens a list or an object, unless the text nests too deeply.
    fn open(&mut self, kind: TokenKind) -> Result<(), Stop> {
        if self.tokens.depth() >= self.deepest {
            return Err(self.fail(Broken::TooDeep));
        }
        self.tokens.open(kind, self.at);
        self.at += 1;
        Ok(())
    }

    /// Parses the text after an opening bracket, up to the first value; returns whether there is
    /// a value.
    #[inline]
    fn first(&mut self, is_list: bool) -> Result<bool, Stop> {
        self.space();
        match self.peek() {
            Some(b']') if is_list => Ok(false),
            Some(b'}') if !is_list => Ok(false),
            None => Err(self.stop(Next::First, "")),
            _ if is_list => Ok(true),
            _ => self.key().map(|()| true),
        }
    }

    /// Parses the text after a value: closing brackets, and the separator of the next value.
    /// Returns true if all containers are closed.
    #[inline]
    fn close(&mut self) -> Result<bool, Stop> {
        while let Some(kind) = self.tokens.innermost() {
            self.space();
            let is_list = kind == TokenKind::List;
            match (self.peek(), is_list) {
                (Some(b','), _) => {
                    self.at += 1;
                    if !is_list {
                        self.key()?;
                    }
                    return Ok(false);
                }
                (Some(b']'), true) | (Some(b'}'), false) => {
                    self.at += 1;
                    self.tokens.close(self.at).map_err(|broken| self.fail(broken))?;
                }
                (_, true) => return Err(self.stop(Next::AfterValue, "`,` or `]`")),
                (_, false) => return Err(self.stop(Next::AfterValue, "`,` or `}`")),
            }
        }
        Ok(true)
    }

    /// Parses a key and its colon.
    #[inline]
    fn key(&mut self) -> Result<(), Stop> {
        self.space();
        if self.peek() != Some(b'"') {
            return Err(self.stop(Next::Key, "a name in double quotes"));
        }
        self.begin(true);
        self.end_key()
    }

    /// Parses the rest of a key and its colon.
    #[inline]
    fn end_key(&mut self) -> Result<(), Stop> {
        self.text(Next::InKey)?;
        self.tokens.key_ended().map_err(|broken| self.fail(broken))?;
        self.colon()
    }

    /// Parses the colon after a key.
    #[inline]
    fn colon(&mut self) -> Result<(), Stop> {
        self.space();
        if self.peek() != Some(b':') {
            return Err(self.stop(Next::Colon, "`:`"));
        }
        self.at += 1;
        Ok(())
    }

    /// Parses the rest of `true`, `false` or `null`.
    fn word(&mut self) -> Result<(), Stop> {
        let (word, kind) = match self.bytes().get(self.start) {
            Some(b't') => ("true", TokenKind::True),
            Some(b'f') => ("false", TokenKind::False),
            _ => ("null", TokenKind::Null),
        };
        while let Some(expected) = word.as_bytes().get(self.at - self.start) {
            if self.peek() != Some(*expected) {
                return Err(self.stop(Next::InWord, "a value"));
            }
            self.at += 1;
        }
        self.tokens.end(kind, self.start..self.at);
        Ok(())
    }

    /// Parses a number from its start. A growing one waits for the character after it.
    fn number(&mut self) -> Result<(), Stop> {
        if S::GROWS {
            // `12` may become `125`: it is parsed when the character after it is there.
            let is_part = |b: &u8| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
            let ahead = self.bytes().get(self.at..).unwrap_or_default();
            if ahead.iter().all(is_part) {
                self.at += ahead.len();
                return Err(self.stop(Next::InNumber, ""));
            }
        }
        self.at = self.start;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let first = self.at;
        self.digits()?;
        if self.at > first + 1 && self.bytes().get(first) == Some(&b'0') {
            self.at = first;
            return Err(self.stop(Next::InNumber, "a number without a leading zero"));
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
        self.tokens.end(TokenKind::Number, self.start..self.at);
        Ok(())
    }

    /// Parses one digit or more.
    fn digits(&mut self) -> Result<(), Stop> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.stop(Next::InNumber, "a digit"));
        }
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        Ok(())
    }

    /// Parses the rest of a text or a key; `next` is the place to continue after a pause.
    #[inline]
    fn text(&mut self, next: Next) -> Result<(), Stop> {
        let mut kind = TokenKind::Text;
        // A local variable stays in a register, unlike the field.
        let mut at = self.at;
        loop {
            let run = plain_run(self.bytes().get(at..).unwrap_or_default());
            self.tokens.plain(at..at + run);
            at += run;
            match self.bytes().get(at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    kind = TokenKind::Escaped;
                    self.tokens.escape(at);
                    let (c, length) = self.escape(at, next)?;
                    self.tokens.unescaped(c);
                    at += 1 + length;
                }
                _ => {
                    self.at = at;
                    return Err(self.stop(next, "an escaped control character"));
                }
            }
        }
        self.tokens.end(kind, self.start + 1..at);
        self.at = at + 1;
        Ok(())
    }

    /// Returns the character of an escape, and the number of bytes after the backslash.
    #[inline]
    fn escape(&mut self, at: usize, next: Next) -> Result<(char, usize), Stop> {
        match self.bytes().get(at + 1).and_then(|letter| simple_escape(*letter)) {
            Some(c) => Ok((c, 1)),
            None => self.unicode(at, next),
        }
    }

    /// Decodes an escape of more than one letter. Pauses before it if it is not complete.
    #[cold]
    fn unicode(&mut self, at: usize, next: Next) -> Result<(char, usize), Stop> {
        self.at = at;
        let rest = self.tokens.source().get(self.at + 1..).unwrap_or_default();
        if let Some(found) = unescaped(rest) {
            return Ok(found);
        }
        // Any end of a correct escape and of a correct pair of them.
        let goes_on = rest.is_empty()
            || ["u0000", "ud800\\udc00"].iter().any(|whole| {
                let end = whole.get(rest.len()..).filter(|end| !end.is_empty());
                end.is_some_and(|end| unescaped(&format!("{rest}{end}")).is_some())
            });
        if goes_on {
            self.next = next;
            return Err(Stop);
        }
        // The first wrong character decides, so that pieces and the whole have the same fault.
        let expected = match rest.as_bytes() {
            [b'u', b'd' | b'D', b'c'..=b'f' | b'C'..=b'F', ..] => "both halves of a surrogate pair",
            [b'u', digits @ ..] if digits.iter().take(4).all(u8::is_ascii_hexdigit) => {
                "both halves of a surrogate pair"
            }
            [b'u', ..] => "four hexadecimal digits after `\\u`",
            _ => "one of \" \\ / b f n r t u after a backslash",
        };
        Err(self.fail(Broken::Unexpected { at: self.at + 1, expected }))
    }
}

/// Decodes the escape after a backslash; returns the character and its number of bytes.
pub(super) fn unescaped(rest: &str) -> Option<(char, usize)> {
    match rest.bytes().next()? {
        b'u' => unescaped_unicode(rest),
        byte => Some((simple_escape(byte)?, 1)),
    }
}

/// Returns the character of a one-letter escape.
#[inline]
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
#[inline]
fn plain_run(bytes: &[u8]) -> usize {
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
///
/// ```text
/// u00e9          →  é, 5 bytes
/// ud83d\ude00  →  😀, 11 bytes
/// ud83d          →  nothing
/// ```
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

/// Returns the value of hexadecimal digits.
fn hex(digits: &str) -> Option<u32> {
    // `from_str_radix` would accept a sign.
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
}
