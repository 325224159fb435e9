//! A JSON text as one flat list of tokens.
//!
//! In: a whole text. Out: a [`Tape`], or the reason why the text is not exact JSON. Time and memory
//! grow linearly with the text. Nothing is converted: a token has the place of its value in the
//! text, so that numbers keep all digits. Keys are before their values, and each token knows the
//! first one after its value:
//!
//! ```text
//! {"a": [1, 2], "b": null}
//!
//! token   0 {…}    1 a    2 […]    3 1    4 2    5 b    6 null
//! next    7        2      5        4      5      6      7
//! ```
//!
//! Begin with [`Tape::parse`]; walk with [`Tape::items`] and [`Tape::entries`]. A token that does
//! not exist reads as null, so that no look-up can panic. Reading, rendering and the fit check all
//! use tapes.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use crate::limits::TEXT_DEPTH;
pub(crate) use crate::reading::tokenizer::{Broken, TokenKind};
use crate::reading::tokenizer::{Tokenizer, Tokens, unescaped};

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

/// A text and its tokens.
#[derive(Debug)]
pub(crate) struct Tape<'t> {
    pub(crate) source: &'t str,
    tokens: Vec<Token>,
}

impl<'t> Tape<'t> {
    /// Parses a text of the depth that `serde_json` can deserialize.
    pub(crate) fn parse(source: &'t str) -> Result<Self, Broken> {
        Self::parse_to(source, TEXT_DEPTH)
    }

    /// Parses a text whose lists and objects nest at most `deepest` levels.
    pub(crate) fn parse_to(source: &'t str, deepest: usize) -> Result<Self, Broken> {
        if u32::try_from(source.len()).is_err() {
            return Err(Broken::TooLong);
        }
        let tokens = Vec::with_capacity(source.len() / 8 + 8);
        let tape = TapeTokens { tape: Self { source, tokens }, open: Vec::new() };
        let mut tokenizer = Tokenizer::new(tape, deepest);
        if !tokenizer.run() || !tokenizer.finish() {
            return Err(tokenizer.broken.unwrap_or(Broken::EndsEarly));
        }
        Ok(tokenizer.tokens.tape)
    }

    /// Returns the number of tokens.
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

    /// Returns the kind of value at a token.
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

    /// Whether a token is a text, with or without escapes.
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

    /// Returns the value of an object's field.
    pub(crate) fn field(&self, object: usize, name: &str) -> Option<usize> {
        self.entries(object).find(|(key, _)| self.text(*key) == name).map(|(_, value)| value)
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

/// Quotes a text as JSON.
pub(super) fn quoted(text: &str) -> Cow<'static, str> {
    serde_json::to_string(text).map_or(Cow::Borrowed("\"\""), Cow::Owned)
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

/// A tape that is being parsed.
struct TapeTokens<'t> {
    tape: Tape<'t>,
    /// The lists and objects that are not closed yet.
    open: Vec<u32>,
}

impl Tokens for TapeTokens<'_> {
    const GROWS: bool = false;

    #[inline]
    fn source(&self) -> &str {
        self.tape.source
    }

    #[inline]
    fn end(&mut self, kind: TokenKind, range: Range<usize>) {
        let (start, end, next) = (range.start as u32, range.end as u32, self.tape.len() as u32 + 1);
        self.tape.tokens.push(Token { start, end, next, kind });
    }

    #[inline]
    fn open(&mut self, kind: TokenKind, at: usize) {
        self.open.push(self.tape.len() as u32);
        self.end(kind, at..at);
    }

    #[inline]
    fn close(&mut self, end: usize) -> Result<(), Broken> {
        let Some(&open) = self.open.last() else {
            return Ok(());
        };
        if self.innermost() == Some(TokenKind::Object) {
            self.unique(open as usize)?;
        }
        let next = self.tape.len() as u32;
        if let Some(token) = self.tape.tokens.get_mut(open as usize) {
            (token.end, token.next) = (end as u32, next);
        }
        self.open.pop();
        Ok(())
    }

    #[inline]
    fn innermost(&self) -> Option<TokenKind> {
        self.open.last().map(|open| self.tape.kind(*open as usize))
    }

    #[inline]
    fn depth(&self) -> usize {
        self.open.len()
    }
}

impl TapeTokens<'_> {
    /// Returns the keys of an open object.
    #[inline]
    fn keys(&self, object: usize) -> impl Iterator<Item = usize> {
        let mut at = object + 1;
        std::iter::from_fn(move || {
            let key = at;
            (key < self.tape.len()).then(|| at = self.tape.next(key + 1))?;
            Some(key)
        })
    }

    /// Rejects an object that has the same key twice.
    ///
    /// The keys are compared as they are written, because decoding them all would be slow. If one
    /// has an escape, all are decoded.
    fn unique(&self, object: usize) -> Result<(), Broken> {
        /// Up to this number, comparing keys with each other is faster than hashing them.
        const FEW: usize = 8;
        let mut few = [""; FEW];
        for (count, key) in self.keys(object).enumerate() {
            let (text, plain) = (self.tape.raw(key), self.tape.kind(key) == TokenKind::Text);
            let (seen, free) = few.split_at_mut(count);
            let Some(slot) = free.first_mut().filter(|_| plain) else {
                return self.unique_among_many(object);
            };
            if seen.contains(&text) {
                return Err(self.twice(object, text));
            }
            *slot = text;
        }
        Ok(())
    }

    /// Rejects an object that has the same key twice, by hashing the decoded keys.
    fn unique_among_many(&self, object: usize) -> Result<(), Broken> {
        let mut seen = HashSet::new();
        for key in self.keys(object) {
            if let Some(text) = seen.replace(self.tape.text(key)) {
                return Err(self.twice(object, &text));
            }
        }
        Ok(())
    }

    /// Makes the fault of a key that an open object has twice.
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
            let below = self.open.get(open + 1).map_or(self.tape.len(), |&t| t as usize);
            self.step(token as usize, below, &mut path);
        }
        path
    }

    /// Adds one step to a path: from an open container to the value that starts at `below`.
    ///
    /// ```text
    /// [0, {…     →  [1]
    /// {"a": …    →  .a
    /// ```
    fn step(&self, container: usize, below: usize, path: &mut String) {
        if self.tape.kind(container) == TokenKind::List {
            let (mut at, mut index) = (container + 1, 0);
            while at < below {
                at = self.tape.next(at);
                index += 1;
            }
            path.push_str(&format!("[{index}]"));
        } else {
            path.push('.');
            path.push_str(self.tape.raw(below.wrapping_sub(1)));
        }
    }
}
