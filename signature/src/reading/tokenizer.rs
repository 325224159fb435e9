//! The JSON tokenizer of reading and of [`Partial`](crate::Partial).
//!
//! In: a text of JSON, whole or as far as it was received. Out: its [`Tokens`]. Nothing is converted:
//! a token has the place of its value in the text, so that numbers keep all digits. Keys are before
//! their values, and each token knows the first one after its value:
//!
//! ```text
//! {"a": [1, 2], "b": null}
//!
//! token   0 {…}    1 a    2 […]    3 1    4 2    5 b    6 null
//! next    7        2      5        4      5      6      7
//! ```
//!
//! It is exact and iterative, and its time grows linearly with the text. A [`Tape`] has the tokens of
//! a whole text. The text of a [`Partial`](crate::Partial) grows: there the end of the text is a pause,
//! and [`Tokenizer::run`] continues after the next piece.
//!
//! Begin with [`Tokenizer::run`].
//!
//! [`Tape`]: crate::reading::tape::Tape

use std::borrow::Cow;
use std::collections::HashMap;

use crate::error::push_field;

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

impl TokenKind {
    /// Whether it is a string, with or without escapes.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Escaped)
    }
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

/// One value, or one key of an object: keys are before their values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    /// Start in the text; for a string, after the quote.
    pub(crate) start: u32,
    /// End in the text; for a string, before the quote. Zero while the token is incomplete.
    pub(crate) end: u32,
    /// The next token after this value and everything in it.
    pub(crate) next: u32,
    pub(crate) kind: TokenKind,
}

impl Token {
    /// Whether the value was received to its end.
    pub(crate) fn is_done(&self) -> bool {
        self.next != OPEN
    }

    /// Returns the source of the token, without the quotes of a string.
    pub(crate) fn raw<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// Returns the source of the token, with the quotes of a string.
    pub(crate) fn whole<'t>(&self, text: &'t str) -> &'t str {
        let quote = usize::from(self.kind.is_text());
        text.get(self.start as usize - quote..self.end as usize + quote).unwrap_or_default()
    }

    /// Returns the string of the token.
    pub(crate) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.kind {
            TokenKind::Escaped => Cow::Owned(decoded(self.raw(text))),
            _ => Cow::Borrowed(self.raw(text)),
        }
    }
}

/// The `next` of an incomplete token.
const OPEN: u32 = u32::MAX;

/// Decodes the escapes of a string.
pub(crate) fn decoded(raw: &str) -> String {
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

/// A list or an object that is not closed yet.
#[derive(Debug, Clone, Copy)]
struct Open {
    token: u32,
    /// Its last item or key so far.
    newest: u32,
    /// Number of its items or keys.
    count: u32,
    is_list: bool,
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

/// The tokens of a text so far, and the place to continue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tokens {
    /// All tokens, in the order of their starts.
    pub(crate) list: Vec<Token>,
    /// The open lists and objects, outermost first.
    open: Vec<Open>,
    /// The keys of each large object, which are found by their hashes.
    pub(crate) keys: HashMap<u32, HashMap<String, u32>>,
    /// The items or keys of each list or object, if the text grows.
    pub(crate) children: HashMap<u32, Vec<u32>>,
    /// The offset of the next character.
    pub(crate) at: usize,
    /// The start of the current string, number or word.
    start: usize,
    next: Next,
    /// The reason why the text is not JSON; `None` if it has only ended.
    pub(crate) broken: Option<Broken>,
}

/// Number of keys beyond which the keys of an object are hashed. Up to it, comparing them is faster.
const MANY: u32 = 8;

impl Tokens {
    /// Returns the path of the innermost value that is not complete, with steps into at most `depth`
    /// of the open lists and objects.
    ///
    /// ```text
    /// {"rows": [{"name": "A"}, {"name": tru!     →  $.rows[1].name
    /// ```
    pub(crate) fn path(&self, text: &str, depth: usize) -> String {
        let mut path = String::from("$");
        for open in self.open.iter().take(depth) {
            let is_done = |at: u32| self.list.get(at as usize).is_some_and(Token::is_done);
            let newest = self.list.get(open.newest as usize);
            match newest.filter(|_| open.count > 0) {
                Some(item) if open.is_list && !item.is_done() => {
                    path.push_str(&format!("[{}]", open.count - 1));
                }
                Some(key) if !open.is_list && key.is_done() && !is_done(open.newest + 1) => {
                    push_field(&mut path, &key.text(text));
                }
                _ => {}
            }
        }
        path
    }
}

/// A text that is being parsed.
pub(crate) struct Tokenizer<'t> {
    /// The text so far.
    pub(crate) text: &'t str,
    pub(crate) tokens: Tokens,
    /// Whether the text may grow, so that its end is a pause and may be inside a number.
    pub(crate) grows: bool,
    /// Maximum number of nested lists and objects.
    pub(crate) deepest: usize,
}

impl Tokenizer<'_> {
    /// Parses one value and leaves `at` after it; returns whether the value is complete.
    ///
    /// If it is not, [`Tokens::broken`] has the fault. Without a fault the text has only
    /// ended: if it grows, call this again when there is more text.
    pub(crate) fn run(&mut self) -> bool {
        self.parse().is_ok()
    }

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
        let at = self.tokens.at;
        if at < self.text.len() {
            self.fail(Broken::Trailing { at });
        }
        at == self.text.len()
    }

    /// Finishes what the last pause interrupted; returns whether a value follows.
    fn resume(&mut self) -> Result<bool, Stop> {
        match self.tokens.next {
            Next::Value => Ok(true),
            Next::First => self.first(self.in_list() == Some(true)),
            Next::Key => self.key().map(|()| true),
            Next::InKey => self.end_key().map(|()| true),
            Next::Colon => self.colon().map(|()| true),
            Next::InText => self.text(Next::InText).map(|()| false),
            Next::InNumber => self.number().map(|()| false),
            Next::InWord => self.word().map(|()| false),
            Next::AfterValue => Ok(false),
        }
    }

    /// Returns the next character, if it is there.
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.tokens.at).copied()
    }

    /// Skips the white space of JSON.
    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.tokens.at += 1;
        }
    }

    /// Stops at an unexpected character, or at the end of the text, to continue with `next`.
    fn stop(&mut self, next: Next, expected: &'static str) -> Stop {
        if self.tokens.at < self.text.len() {
            return self.fail(Broken::Unexpected { at: self.tokens.at, expected });
        }
        self.tokens.next = next;
        Stop
    }

    /// Stops for good.
    fn fail(&mut self, broken: Broken) -> Stop {
        self.tokens.broken = Some(broken);
        Stop
    }

    /// Parses a scalar, or a list or an object up to its first scalar.
    fn value(&mut self) -> Result<(), Stop> {
        loop {
            self.space();
            match self.peek() {
                Some(b'"') => {
                    self.begin(TokenKind::Text, false);
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
                    self.begin(TokenKind::Number, false);
                    return self.number();
                }
                Some(letter @ (b't' | b'f' | b'n')) => {
                    let kind = match letter {
                        b't' => TokenKind::True,
                        b'f' => TokenKind::False,
                        _ => TokenKind::Null,
                    };
                    self.begin(kind, false);
                    return self.word();
                }
                _ => return Err(self.stop(Next::Value, "a value")),
            }
        }
    }

    /// Starts a key or a value at its first character.
    fn begin(&mut self, kind: TokenKind, is_key: bool) {
        let tokens = &mut self.tokens;
        let token = tokens.list.len() as u32;
        if let Some(open) = tokens.open.last_mut().filter(|open| is_key || open.is_list) {
            open.newest = token;
            open.count += 1;
            if self.grows {
                tokens.children.entry(open.token).or_default().push(token);
            }
        }
        let start = (tokens.at + usize::from(kind.is_text())) as u32;
        tokens.list.push(Token { start, end: 0, next: OPEN, kind });
        tokens.start = tokens.at;
        tokens.at += 1;
    }

    /// Ends the key or the scalar that has begun before `end`.
    fn end(&mut self, end: usize) {
        let next = self.tokens.list.len() as u32;
        if let Some(token) = self.tokens.list.last_mut() {
            (token.end, token.next) = (end as u32, next);
        }
    }

    /// Opens a list or an object, unless the text nests too deeply.
    fn open(&mut self, kind: TokenKind) -> Result<(), Stop> {
        if self.tokens.open.len() >= self.deepest {
            return Err(self.fail(Broken::TooDeep));
        }
        let token = self.tokens.list.len() as u32;
        self.begin(kind, false);
        let is_list = kind == TokenKind::List;
        self.tokens.open.push(Open { token, newest: token, count: 0, is_list });
        Ok(())
    }

    /// Whether the innermost open container is a list. `None` outside of all containers.
    fn in_list(&self) -> Option<bool> {
        self.tokens.open.last().map(|open| open.is_list)
    }

    /// Rejects a key that its object has already.
    fn check_key(&mut self) -> Result<(), Stop> {
        let Some(&Open { token: object, newest, count, .. }) = self.tokens.open.last() else {
            return Ok(());
        };
        let (text, list) = (self.text, &self.tokens.list);
        let name = |key: u32| list.get(key as usize).map(|key| key.text(text)).unwrap_or_default();
        let key = name(newest);
        let mut at = object + 1;
        let mut before = std::iter::from_fn(|| {
            let key = at;
            at = list.get(key as usize + 1).map_or(newest, |value| value.next);
            (key < newest).then_some(key)
        });
        let is_new = if count <= MANY {
            before.all(|known| name(known) != key)
        } else {
            let all = || before.map(|known| (name(known).into_owned(), known)).collect();
            let keys = self.tokens.keys.entry(object).or_insert_with(all);
            keys.insert(key.to_string(), newest).is_none()
        };
        if is_new {
            return Ok(());
        }
        let path = self.tokens.path(text, self.tokens.open.len() - 1);
        Err(self.fail(Broken::Twice { path, key: key.into_owned() }))
    }

    /// Parses the text after an opening bracket, up to the first value; returns whether there is
    /// a value.
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
    fn close(&mut self) -> Result<bool, Stop> {
        while let Some(is_list) = self.in_list() {
            self.space();
            match (self.peek(), is_list) {
                (Some(b','), _) => {
                    self.tokens.at += 1;
                    if !is_list {
                        self.key()?;
                    }
                    return Ok(false);
                }
                (Some(b']'), true) | (Some(b'}'), false) => {
                    self.tokens.at += 1;
                    let (end, next) = (self.tokens.at as u32, self.tokens.list.len() as u32);
                    let open = self.tokens.open.pop();
                    let token = open.and_then(|it| self.tokens.list.get_mut(it.token as usize));
                    token.into_iter().for_each(|token| (token.end, token.next) = (end, next));
                }
                (_, true) => return Err(self.stop(Next::AfterValue, "`,` or `]`")),
                (_, false) => return Err(self.stop(Next::AfterValue, "`,` or `}`")),
            }
        }
        Ok(true)
    }

    /// Parses a key and its colon.
    fn key(&mut self) -> Result<(), Stop> {
        self.space();
        if self.peek() != Some(b'"') {
            return Err(self.stop(Next::Key, "a name in double quotes"));
        }
        self.begin(TokenKind::Text, true);
        self.end_key()
    }

    /// Parses the rest of a key and its colon.
    fn end_key(&mut self) -> Result<(), Stop> {
        self.text(Next::InKey)?;
        self.check_key()?;
        self.colon()
    }

    /// Parses the colon after a key.
    fn colon(&mut self) -> Result<(), Stop> {
        self.space();
        if self.peek() != Some(b':') {
            return Err(self.stop(Next::Colon, "`:`"));
        }
        self.tokens.at += 1;
        Ok(())
    }

    /// Parses the rest of `true`, `false` or `null`.
    fn word(&mut self) -> Result<(), Stop> {
        let word = match self.tokens.list.last().map(|token| token.kind) {
            Some(TokenKind::True) => "true",
            Some(TokenKind::False) => "false",
            _ => "null",
        };
        while let Some(expected) = word.as_bytes().get(self.tokens.at - self.tokens.start) {
            if self.peek() != Some(*expected) {
                return Err(self.stop(Next::InWord, "a value"));
            }
            self.tokens.at += 1;
        }
        self.end(self.tokens.at);
        Ok(())
    }

    /// Parses a number from its start. A growing one waits for the character after it.
    fn number(&mut self) -> Result<(), Stop> {
        if self.grows {
            // `12` may become `125`: it is parsed when the character after it is there.
            let is_part = |b: &u8| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
            let ahead = self.text.as_bytes().get(self.tokens.at..).unwrap_or_default();
            if ahead.iter().all(is_part) {
                self.tokens.at += ahead.len();
                return Err(self.stop(Next::InNumber, ""));
            }
        }
        self.tokens.at = self.tokens.start;
        if self.peek() == Some(b'-') {
            self.tokens.at += 1;
        }
        let first = self.tokens.at;
        self.digits()?;
        if self.tokens.at > first + 1 && self.text.as_bytes().get(first) == Some(&b'0') {
            self.tokens.at = first;
            return Err(self.stop(Next::InNumber, "a number without a leading zero"));
        }
        if self.peek() == Some(b'.') {
            self.tokens.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.tokens.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.tokens.at += 1;
            }
            self.digits()?;
        }
        self.end(self.tokens.at);
        Ok(())
    }

    /// Parses one digit or more.
    fn digits(&mut self) -> Result<(), Stop> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.stop(Next::InNumber, "a digit"));
        }
        while let Some(b'0'..=b'9') = self.peek() {
            self.tokens.at += 1;
        }
        Ok(())
    }

    /// Parses the rest of a text or a key; `next` is the place to continue after a pause.
    fn text(&mut self, next: Next) -> Result<(), Stop> {
        // A local variable stays in a register, unlike the field.
        let mut at = self.tokens.at;
        loop {
            at += plain_run(self.text.as_bytes().get(at..).unwrap_or_default());
            match self.text.as_bytes().get(at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    if let Some(token) = self.tokens.list.last_mut() {
                        token.kind = TokenKind::Escaped;
                    }
                    at += 1 + self.escape(at, next)?;
                }
                _ => {
                    self.tokens.at = at;
                    return Err(self.stop(next, "an escaped control character"));
                }
            }
        }
        self.end(at);
        self.tokens.at = at + 1;
        Ok(())
    }

    /// Returns the number of bytes of the escape after a backslash. Pauses before it if it is not
    /// complete.
    fn escape(&mut self, at: usize, next: Next) -> Result<usize, Stop> {
        let rest = self.text.get(at + 1..).unwrap_or_default();
        if let Some((_, length)) = unescaped(rest) {
            return Ok(length);
        }
        self.tokens.at = at;
        // Any end of a correct escape and of a correct pair of them.
        let goes_on = rest.is_empty()
            || ["u0000", "ud800\\udc00"].iter().any(|whole| {
                let end = whole.get(rest.len()..).filter(|end| !end.is_empty());
                end.is_some_and(|end| unescaped(&format!("{rest}{end}")).is_some())
            });
        if goes_on {
            self.tokens.next = next;
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
        Err(self.fail(Broken::Unexpected { at: self.tokens.at + 1, expected }))
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

/// Returns the number of bytes before the next quote, backslash or control character.
fn plain_run(bytes: &[u8]) -> usize {
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    bytes.iter().position(special).unwrap_or(bytes.len())
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
