//! A JSON text as one flat list of tokens.
//!
//! In: a whole text. Out: a [`Tape`] of [tokens](crate::reading::tokenizer), or the reason why the
//! text is not exact JSON. Time and memory grow linearly with the text.
//!
//! Begin with [`Tape::parse`]; walk with [`Tape::items`] and [`Tape::entries`]. A token that does
//! not exist reads as null, so that no look-up can panic. Reading, rendering and the fit check all
//! use tapes.

use std::borrow::Cow;

use crate::limits::TEXT_DEPTH;
pub(crate) use crate::reading::tokenizer::{Broken, TokenKind};
use crate::reading::tokenizer::{Token, Tokenizer, Tokens};

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
        let mut tokens = Tokens::default();
        tokens.list.reserve(source.len() / 8 + 8);
        let mut tokenizer = Tokenizer { text: source, tokens, grows: false, deepest };
        if !tokenizer.run() || !tokenizer.finish() {
            return Err(tokenizer.tokens.broken.unwrap_or(Broken::EndsEarly));
        }
        Ok(Self { source, tokens: tokenizer.tokens.list })
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
        self.tokens.get(token).map_or("", |token| token.raw(self.source))
    }

    /// Returns the source of any value, including quotes.
    pub(crate) fn whole(&self, token: usize) -> &'t str {
        self.tokens.get(token).map_or("", |token| token.whole(self.source))
    }

    /// Returns the decoded text of a token.
    pub(crate) fn text(&self, token: usize) -> Cow<'t, str> {
        self.tokens.get(token).map(|token| token.text(self.source)).unwrap_or_default()
    }

    /// Whether a token is a text, with or without escapes.
    pub(super) fn is_text(&self, token: usize) -> bool {
        self.kind(token).is_text()
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
