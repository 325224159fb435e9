//! The values of a streamed text, so that no byte is scanned twice.
//!
//! In: the tokens of the [tokenizer](crate::reading::tokenizer). Out: look-ups of values, complete or
//! not, by key and by index. Values and keys are numbered in the order of their starts, so a value
//! that is incomplete now keeps its number:
//!
//! ```text
//! {"rows": [1, 2], "note": "a b
//!
//! number     0 {   1 rows   2 [   3 1   4 2   5 note   6 "a b
//! end        –     7        15    ·     ·     ·        –        0: incomplete
//! children of 2 (closed):  3 4      in `children`
//! children of 0 (open):    1 5      in `waiting`
//! ```
//!
//! Begin with [`Tree::field`], [`Tree::item`] and [`Tree::string`]. Unlike a
//! [tape](crate::reading::tape), it finds an item or a key without a walk over those before it,
//! because a caller may ask after every piece.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::ops::Range;

use crate::reading::tokenizer::{Broken, TokenKind, Tokens};

/// A streamed text, and the places of its values.
///
/// Beside the text it uses 16 bytes for each value and each key, and 4 bytes for each one
/// that is in a list or an object.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    /// All pieces so far.
    pub(super) text: String,
    /// All values and keys, in the order of their starts. A key is followed by its value.
    tokens: Vec<Span>,
    /// The open lists and objects, outermost first.
    open: Vec<Open>,
    /// The items or keys of the open lists and objects so far. Each has the part before that of
    /// the next inner one.
    waiting: Vec<u32>,
    /// The items or keys of the closed ones.
    children: Vec<u32>,
    /// The decoded texts that had escapes, concatenated.
    decoded: String,
    /// The keys of large objects, by object and hash.
    keys: HashMap<(u32, u64), u32>,
}

/// Number of keys from which the keys of an object are hashed.
const MANY: usize = 16;

/// The place of a value or a key.
#[derive(Debug, Clone, Copy)]
struct Span {
    /// The first character; the quote of a text.
    start: u32,
    /// Zero while the value is incomplete: no value ends there.
    end: u32,
    /// An offset in `decoded` for a text, in `children` for a list or an object.
    from: u32,
    to: u32,
}

/// The `from` of a text without escapes.
const PLAIN: u32 = u32::MAX;

/// A list or an object that is not closed yet.
#[derive(Debug, Clone, Copy)]
struct Open {
    token: u32,
    /// The start of its children in `waiting`.
    first: usize,
    is_object: bool,
}

/// The kind of a value, which its first character decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    Object,
    List,
    Text,
    Number,
    Boolean,
    Null,
}

impl ValueKind {
    /// Returns the kind with an article, for faults.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::List => "a list",
            Self::Text => "a text",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::Null => "null",
        }
    }
}

/// Texts are shorter than 4 GiB, so every offset fits.
fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl Tokens for Tree {
    const GROWS: bool = true;

    #[inline]
    fn source(&self) -> &str {
        &self.text
    }

    #[inline]
    fn begin(&mut self, at: usize, is_key: bool) {
        let token = self.add(at);
        if is_key || self.innermost() == Some(TokenKind::List) {
            self.waiting.push(token);
        }
    }

    #[inline]
    fn plain(&mut self, run: Range<usize>) {
        if self.tokens.last().is_some_and(|token| token.from != PLAIN) {
            self.decoded.push_str(self.text.get(run).unwrap_or_default());
        }
    }

    /// From the first escape on, a text is kept decoded. A half escape is never shown.
    #[inline]
    fn escape(&mut self, at: usize) {
        if let Some(token) = self.tokens.last_mut()
            && token.from == PLAIN
        {
            token.from = small(self.decoded.len());
            let before = self.text.get(token.start as usize + 1..at);
            self.decoded.push_str(before.unwrap_or_default());
        }
    }

    #[inline]
    fn unescaped(&mut self, c: char) {
        self.decoded.push(c);
    }

    #[inline]
    fn end(&mut self, kind: TokenKind, range: Range<usize>) {
        let quote = usize::from(matches!(kind, TokenKind::Text | TokenKind::Escaped));
        let to = small(self.decoded.len());
        if let Some(token) = self.tokens.last_mut() {
            *token = Span { end: small(range.end + quote), to, ..*token };
        }
    }

    #[inline]
    fn key_ended(&mut self) -> Result<(), Broken> {
        self.note_key().map_err(|key| Broken::Twice { path: self.path(), key })
    }

    fn open(&mut self, kind: TokenKind, at: usize) {
        self.begin(at, false);
        let token = small(self.tokens.len() - 1);
        let is_object = kind == TokenKind::Object;
        self.open.push(Open { token, first: self.waiting.len(), is_object });
    }

    fn close(&mut self, end: usize) -> Result<(), Broken> {
        let Some(closed) = self.open.pop() else {
            return Ok(());
        };
        let from = small(self.children.len());
        self.children.extend(self.waiting.drain(closed.first..));
        let to = small(self.children.len());
        if let Some(token) = self.tokens.get_mut(closed.token as usize) {
            *token = Span { end: small(end), from, to, ..*token };
        }
        Ok(())
    }

    #[inline]
    fn innermost(&self) -> Option<TokenKind> {
        let kind = |open: &Open| if open.is_object { TokenKind::Object } else { TokenKind::List };
        self.open.last().map(kind)
    }

    #[inline]
    fn depth(&self) -> usize {
        self.open.len()
    }
}

/// Methods that build the tree.
impl Tree {
    /// Adds a value or a key that starts at `start`; returns its number.
    fn add(&mut self, start: usize) -> u32 {
        let id = small(self.tokens.len());
        self.tokens.push(Span { start: small(start), end: 0, from: PLAIN, to: 0 });
        id
    }

    /// Records the key that has just ended; returns it if the object has the same key already.
    ///
    /// From a number of keys on they are hashed, so that an object of many keys takes linear time.
    fn note_key(&mut self) -> Result<(), String> {
        let (Some(object), Some(&newest)) = (self.open.last(), self.waiting.last()) else {
            return Ok(());
        };
        let (object, first) = (object.token, object.first);
        let before = self.waiting.len() - 1;
        let known = self.waiting.get(first..before).unwrap_or_default();
        let key = self.string(newest);
        if self.position(object, known, key).is_some() {
            return Err(key.to_owned());
        }
        // From this number on keys are hashed, including the earlier ones.
        let unhashed = match known.len() + 1 {
            ..MANY => before + 1,
            MANY => first,
            _ => before,
        };
        for at in unhashed..=before {
            self.hash(object, at);
        }
        Ok(())
    }

    /// Hashes the key at a place in `waiting`.
    fn hash(&mut self, object: u32, at: usize) {
        if let Some(&key) = self.waiting.get(at) {
            let hash = self.keys.hasher().hash_one(self.string(key));
            self.keys.insert((object, hash), key);
        }
    }
}

/// Methods that read the tree.
impl Tree {
    /// Returns the place of a value.
    fn token(&self, id: u32) -> Option<&Span> {
        self.tokens.get(id as usize)
    }

    /// Returns the whole JSON value, once it has started.
    pub(super) fn root(&self) -> Option<u32> {
        (!self.tokens.is_empty()).then_some(0)
    }

    /// Whether a value is complete.
    pub(super) fn is_done(&self, id: u32) -> bool {
        self.token(id).is_some_and(|token| token.end != 0)
    }

    /// Returns the kind of a value.
    #[inline]
    pub(super) fn kind(&self, id: u32) -> ValueKind {
        let start = self.token(id).map_or(usize::MAX, |token| token.start as usize);
        match self.text.as_bytes().get(start) {
            Some(b'{') => ValueKind::Object,
            Some(b'[') => ValueKind::List,
            Some(b'"') => ValueKind::Text,
            Some(b't' | b'f') => ValueKind::Boolean,
            Some(b'n') => ValueKind::Null,
            _ => ValueKind::Number,
        }
    }

    /// Returns the JSON text of a value, as far as it was received.
    pub(super) fn slice(&self, id: u32) -> &str {
        let Some(token) = self.token(id) else {
            return "";
        };
        let end = if token.end == 0 { self.text.len() } else { token.end as usize };
        self.text.get(token.start as usize..end).unwrap_or_default()
    }

    /// Returns a text or a key, as far as it was received.
    #[inline]
    pub(super) fn string(&self, id: u32) -> &str {
        let Some(&Span { start, end, from, to }) = self.token(id) else {
            return "";
        };
        let said = match (from, end) {
            (PLAIN, 0) => self.text.get(start as usize + 1..),
            (PLAIN, end) => self.text.get(start as usize + 1..end as usize - 1),
            (from, 0) => self.decoded.get(from as usize..),
            (from, _) => self.decoded.get(from as usize..to as usize),
        };
        said.unwrap_or_default()
    }

    /// Returns the items of a list or the keys of an object so far.
    ///
    /// A closed container has them in `children`. Those of an open one are in `waiting`, between
    /// its own start and that of the next inner one.
    #[inline]
    pub(super) fn children(&self, id: u32) -> &[u32] {
        let Some(token) = self.token(id) else {
            return &[];
        };
        if token.end != 0 {
            return self.children.get(token.from as usize..token.to as usize).unwrap_or_default();
        }
        let Some(depth) = self.open.iter().position(|open| open.token == id) else {
            return &[];
        };
        let begins = |depth: usize| self.open.get(depth).map(|open| open.first);
        let last = begins(depth + 1).unwrap_or(self.waiting.len());
        self.waiting.get(begins(depth).unwrap_or(last)..last).unwrap_or_default()
    }

    /// Returns the value of a key, once it has started.
    pub(super) fn value(&self, key: u32) -> Option<u32> {
        self.token(key + 1).is_some().then_some(key + 1)
    }

    /// Returns an item of a list, once it has started.
    pub(super) fn item(&self, list: u32, i: usize) -> Option<u32> {
        self.children(list).get(i).copied()
    }

    /// Returns the value of a field, once it has started.
    #[inline]
    pub(super) fn field(&self, object: u32, name: &str) -> Option<u32> {
        let keys = match self.children(object) {
            [ended @ .., growing] if !self.is_done(*growing) => ended,
            keys => keys,
        };
        self.position(object, keys, name).and_then(|key| self.value(key))
    }

    /// Returns the key `name` of an object that has `keys`, all of them complete.
    ///
    /// A large object is looked up by hash. Two names may share one, so the key itself decides.
    #[inline]
    fn position(&self, object: u32, keys: &[u32], name: &str) -> Option<u32> {
        let is_it = |key: &u32| self.says(*key, name);
        if keys.len() >= MANY {
            let hash = self.keys.hasher().hash_one(name);
            match self.keys.get(&(object, hash)) {
                None => return None,
                Some(key) if is_it(key) => return Some(*key),
                // Another name with the same hash.
                Some(_) => {}
            }
        }
        keys.iter().copied().find(is_it)
    }

    /// Whether a complete key is `name`: most differ by their length.
    #[inline]
    fn says(&self, key: u32, name: &str) -> bool {
        match self.token(key) {
            Some(&Span { start, end, from: PLAIN, .. }) => {
                (end - start) as usize == name.len() + 2
                    && self.text.as_bytes().get(start as usize + 1..end as usize - 1)
                        == Some(name.as_bytes())
            }
            Some(_) => self.string(key) == name,
            None => false,
        }
    }

    /// Returns the path of the incomplete value: the place of a fault in the text.
    ///
    /// ```text
    /// {"rows": [{"name": "A"}, {"name": tru!     →  $.rows[1].name
    /// ```
    pub(super) fn path(&self) -> String {
        let mut path = String::from("$");
        for (depth, open) in self.open.iter().enumerate() {
            let children = self.children(open.token);
            let Some(&newest) = children.last() else {
                continue;
            };
            let is_inner = self.open.get(depth + 1).is_some();
            if open.is_object && (is_inner || self.grows(newest)) {
                super::path::push_field(&mut path, self.string(newest));
            } else if !open.is_object && (is_inner || !self.is_done(newest)) {
                path.push_str(&format!("[{}]", children.len() - 1));
            }
        }
        path
    }

    /// Whether a key is complete and its value is not.
    fn grows(&self, key: u32) -> bool {
        self.is_done(key) && !self.value(key).is_some_and(|value| self.is_done(value))
    }
}
