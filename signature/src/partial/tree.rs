//! The values of a streamed text, so that no byte is scanned twice.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::ops::Range;

/// A streamed text, and the places of its values.
///
/// Beside the text it uses 16 bytes for each value and each key, and 4 bytes for each one
/// that is in a list or an object.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    pub(super) text: String,
    /// All values and keys, in the order of their starts. A key is followed by its value.
    tokens: Vec<Span>,
    /// The open lists and objects, outermost first.
    pub(super) open: Vec<Open>,
    /// The items or keys of the open lists and objects so far. Each has the part before that of
    /// the next inner one.
    waiting: Vec<u32>,
    /// The items or keys of the closed ones.
    children: Vec<u32>,
    /// The decoded texts that had escapes, concatenated.
    pub(super) decoded: String,
    /// The keys of large objects, by object and hash.
    keys: HashMap<(u32, u64), u32>,
}

/// Number of keys from which the keys of an object are hashed.
const MANY: usize = 16;

#[derive(Debug, Clone, Copy)]
struct Span {
    start: u32,
    /// Zero while the value is incomplete: no value ends there.
    end: u32,
    /// An offset in `decoded` for a text, in `children` for a list or an object.
    from: u32,
    to: u32,
}

/// The `from` of a text without escapes.
const PLAIN: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
pub(super) struct Open {
    token: u32,
    /// The start of its children in `waiting`.
    first: usize,
    pub(super) is_object: bool,
}

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

/// The result of a look-up by name or index.
pub(super) enum Child {
    At(u32),
    /// Not present yet, or never: the state of the parent decides.
    Missing,
}

/// Texts are shorter than 4 GiB, so every offset fits.
fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Methods that build the tree.
impl Tree {
    /// Starts a value at `start`, in the innermost open container.
    pub(super) fn add(&mut self, start: usize) -> u32 {
        let token = self.add_token(start);
        if self.open.last().is_some_and(|parent| !parent.is_object) {
            self.waiting.push(token);
        }
        token
    }

    /// Starts a key at `start`.
    pub(super) fn add_key(&mut self, start: usize) {
        let key = self.add_token(start);
        self.waiting.push(key);
    }

    fn add_token(&mut self, start: usize) -> u32 {
        let id = small(self.tokens.len());
        self.tokens.push(Span { start: small(start), end: 0, from: PLAIN, to: 0 });
        id
    }

    pub(super) fn open(&mut self, token: u32, is_object: bool) {
        self.open.push(Open { token, first: self.waiting.len(), is_object });
    }

    /// Ends the innermost list or object before `end`.
    pub(super) fn close(&mut self, end: usize) {
        let Some(closed) = self.open.pop() else {
            return;
        };
        let from = small(self.children.len());
        self.children.extend(self.waiting.drain(closed.first..));
        let to = small(self.children.len());
        if let Some(token) = self.tokens.get_mut(closed.token as usize) {
            *token = Span { end: small(end), from, to, ..*token };
        }
    }

    /// Ends the newest text, number or word before `end`.
    pub(super) fn end(&mut self, end: usize) {
        let decoded = small(self.decoded.len());
        if let Some(token) = self.tokens.last_mut() {
            token.end = small(end);
            token.to = decoded;
        }
    }

    /// Notes an escape at `at` in the newest text: from there on the text is kept decoded.
    pub(super) fn decode(&mut self, at: usize) {
        if let Some(token) = self.tokens.last_mut()
            && token.from == PLAIN
        {
            token.from = small(self.decoded.len());
            let before = self.text.get(token.start as usize + 1..at);
            self.decoded.push_str(before.unwrap_or_default());
        }
    }

    /// Adds `run` to the newest text.
    pub(super) fn extend(&mut self, run: Range<usize>) {
        if self.tokens.last().is_some_and(|token| token.from != PLAIN) {
            self.decoded.push_str(self.text.get(run).unwrap_or_default());
        }
    }

    /// Returns the start of the newest value.
    pub(super) fn newest(&self) -> usize {
        self.tokens.last().map_or(0, |token| token.start as usize)
    }

    /// Records the key that has just ended; returns it if the object has the same key already.
    pub(super) fn note_key(&mut self) -> Result<(), String> {
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

    fn hash(&mut self, object: u32, at: usize) {
        if let Some(&key) = self.waiting.get(at) {
            let hash = self.keys.hasher().hash_one(self.string(key));
            self.keys.insert((object, hash), key);
        }
    }
}

/// Methods that read the tree.
impl Tree {
    fn token(&self, id: u32) -> Option<&Span> {
        self.tokens.get(id as usize)
    }

    pub(super) fn root(&self) -> Option<u32> {
        (!self.tokens.is_empty()).then_some(0)
    }

    pub(super) fn is_done(&self, id: u32) -> bool {
        self.token(id).is_some_and(|token| token.end != 0)
    }

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

    pub(super) fn item(&self, list: u32, i: usize) -> Child {
        self.children(list).get(i).map_or(Child::Missing, |&item| Child::At(item))
    }

    #[inline]
    pub(super) fn field(&self, object: u32, name: &str) -> Child {
        let keys = match self.children(object) {
            [ended @ .., growing] if !self.is_done(*growing) => ended,
            keys => keys,
        };
        self.position(object, keys, name)
            .and_then(|key| self.value(key))
            .map_or(Child::Missing, Child::At)
    }

    /// Returns the key `name` of an object that has `keys`, all of them complete.
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
