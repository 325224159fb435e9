//! The values of a streamed text, so that no byte is scanned twice.
//!
//! In: the text so far. Out: look-ups of values, complete or not, by key and by index. Values and keys
//! are [tokens](crate::reading::tokenizer), numbered in the order of their starts, so a value that is
//! incomplete now keeps its number:
//!
//! ```text
//! {"rows": [1, 2], "note": "a b
//!
//! number           0 {   1 rows   2 [   3 1   4 2   5 note   6 "a b
//! children of 0    1 5
//! children of 2    3 4
//! ```
//!
//! Begin with [`Tree::field`], [`Tree::item`] and [`Tree::string`]. Unlike a
//! [tape](crate::reading::tape), it finds an item or a key without a walk over those before it,
//! because a caller may ask after every piece.

use std::collections::HashMap;

use crate::limits::TEXT_DEPTH;
use crate::reading::tokenizer::{Token, TokenKind, Tokenizer, Tokens, decoded};

/// A streamed text, and the places of its values.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    /// All pieces so far.
    pub(super) text: String,
    pub(super) tokens: Tokens,
    /// The strings with escapes, decoded as far as they were received.
    decoded: HashMap<u32, String>,
    /// The number of the first token that is not decoded, or not to its end.
    undecoded: usize,
    /// The offset up to which strings are decoded.
    decoded_to: usize,
}

impl TokenKind {
    /// Returns the kind of value with an article, for faults.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::List => "a list",
            Self::Text | Self::Escaped => "a text",
            Self::Number => "a number",
            Self::True | Self::False => "a boolean",
            Self::Null => "null",
        }
    }
}

impl Tree {
    /// Parses the text that was received since the last call; returns whether the value is complete.
    pub(super) fn run(&mut self) -> bool {
        let (tokens, text) = (std::mem::take(&mut self.tokens), &*self.text);
        let mut tokenizer = Tokenizer { text, tokens, grows: true, deepest: TEXT_DEPTH };
        let is_done = tokenizer.run();
        self.tokens = tokenizer.tokens;
        self.decode();
        is_done
    }

    /// Decodes the strings with escapes that were received since the last call. Half an escape is
    /// left, so that it is never shown.
    fn decode(&mut self) {
        while let Some(token) = self.tokens.list.get(self.undecoded) {
            let is_done = token.is_done();
            if token.kind == TokenKind::Escaped {
                let from = self.decoded_to.max(token.start as usize);
                self.decoded_to = if is_done { token.end as usize } else { self.tokens.at };
                let ahead = self.text.get(from..self.decoded_to).unwrap_or_default();
                self.decoded.entry(self.undecoded as u32).or_default().push_str(&decoded(ahead));
            }
            if !is_done && token.kind.is_text() {
                return;
            }
            self.undecoded += 1;
        }
    }

    /// Returns a value or a key.
    fn token(&self, id: u32) -> Option<&Token> {
        self.tokens.list.get(id as usize)
    }

    /// Returns the whole JSON value, once it has started.
    pub(super) fn root(&self) -> Option<u32> {
        self.token(0).map(|_| 0)
    }

    /// Whether a value is complete.
    pub(super) fn is_done(&self, id: u32) -> bool {
        self.token(id).is_some_and(Token::is_done)
    }

    /// Returns the kind of a value. A string has one kind, with and without escapes.
    pub(super) fn kind(&self, id: u32) -> TokenKind {
        match self.token(id).map_or(TokenKind::Null, |token| token.kind) {
            TokenKind::Escaped => TokenKind::Text,
            kind => kind,
        }
    }

    /// Returns the JSON text of a complete value.
    pub(super) fn slice(&self, id: u32) -> &str {
        self.token(id).map_or("", |token| token.whole(&self.text))
    }

    /// Returns a text or a key, as far as it was received.
    pub(super) fn string(&self, id: u32) -> &str {
        match (self.decoded.get(&id), self.token(id)) {
            (Some(decoded), _) => decoded,
            (None, Some(token)) if token.is_done() => token.raw(&self.text),
            (None, Some(token)) => self.text.get(token.start as usize..).unwrap_or_default(),
            (None, None) => "",
        }
    }

    /// Returns the items of a list or the keys of an object so far.
    pub(super) fn children(&self, id: u32) -> &[u32] {
        self.tokens.children.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Returns the value of a key, once it has started.
    pub(super) fn value(&self, key: u32) -> Option<u32> {
        self.token(key + 1).map(|_| key + 1)
    }

    /// Returns an item of a list, once it has started.
    pub(super) fn item(&self, list: u32, i: usize) -> Option<u32> {
        self.children(list).get(i).copied()
    }

    /// Returns the value of a field, once it has started.
    pub(super) fn field(&self, object: u32, name: &str) -> Option<u32> {
        let is_it = |key: &u32| self.is_done(*key) && self.string(*key) == name;
        let key = match self.tokens.keys.get(&object) {
            Some(keys) => keys.get(name).copied(),
            None => self.children(object).iter().copied().find(is_it),
        };
        key.and_then(|key| self.value(key))
    }

    /// Returns the path of the incomplete value: the place of a fault in the text.
    pub(super) fn path(&self) -> String {
        self.tokens.path(&self.text, TEXT_DEPTH)
    }
}
