//! Reading a text while it is streamed: [`Partial`] and its [`Field`]s.
//!
//! In: the pieces of an answer, and the path of a field. Out: the field's value so far.
//!
//! ```text
//! push(piece)       scan      finds the JSON in the text, and continues the tokenizer of reading
//!                   tree      keeps the values so far
//! field(path)       path      parses the path, and the tree is walked down
//!                   serde     deserializes the field's own part, if it is complete
//!                   growing   deserializes it if it is not
//! ```
//!
//! Begin with [`Partial::push`] and [`Partial::field`].

mod growing;
mod path;
mod scan;
mod tree;

use std::fmt;

use serde::de::DeserializeOwned;

use crate::error::{Fault, shown};
use crate::reading::fault_words;
use crate::reading::tokenizer::{Broken, TokenKind};
use path::{PathStep, Steps};
use scan::Scan;
use tree::Tree;

/// A streamed answer whose fields can be read before it is complete.
///
/// It is untyped: the caller asks for a field by its path. A path has the form of [`Fault::path`]:
/// `title`, `$.title`, `rows[2].name`, `$["a.b"]` for a key with dots or brackets, `$` for the
/// whole value.
///
/// ```
/// use toolwright_signature::{Field, Partial};
///
/// let mut partial = Partial::new();
/// assert_eq!(partial.field::<u32>("stars"), Field::Pending);
///
/// partial.push(r#"{"stars": 5, "title": "A tale of "#);
/// assert_eq!(partial.field::<u32>("stars"), Field::Done(5));
/// // Borrowed, not copied: this may be asked after every piece of a long answer.
/// assert_eq!(partial.text("title"), Field::Partial("A tale of "));
///
/// partial.push(r#"two cities"}"#);
/// assert_eq!(partial.text("title"), Field::Done("A tale of two cities"));
/// assert!(partial.is_done());
/// ```
///
/// To show a growing answer, append the text since the last piece:
///
/// ```
/// # use toolwright_signature::Partial;
/// let mut partial = Partial::new();
/// let mut screen = String::new();
/// for piece in ["```json\n{\"te", "xt\": \"It is \\u2", "6c5 today.", " Bye.\"}\n```"] {
///     partial.push(piece);
///     if let Some(text) = partial.text("text").so_far() {
///         screen.push_str(&text[screen.len()..]);
///     }
/// }
/// assert_eq!(screen, "It is \u{26c5} today. Bye.");
/// ```
///
/// # Incomplete values
///
/// A field that is [`Field::Done`] keeps its value. A text only grows at its end: half an escape or
/// half a surrogate pair is not shown. Incomplete values depend on their type:
///
/// - A text is returned as far as it was received, to [`text`](Self::text) and to types that
///   deserialize from a `String`. Enums, dates and types that accept any value (`Value`, untagged
///   unions) are returned when the text is complete: `in` may become `in-progress`.
/// - A list is returned with its items so far, and an object with its fields so far. All missing
///   fields must be options or have a default. The innermost incomplete value is included if its
///   type can be deserialized from it.
/// - Numbers, booleans and null are returned when they are complete: `12` may become `125`.
///
/// # Accepted texts
///
/// The JSON starts at the first `{` or `[`. Text before and after it is skipped, such as a sentence,
/// a comment, a code fence, or the drafts between `<think>` and `</think>` at the beginning
/// ([`Thoughts`](crate::Thoughts)). After the first word, words in brackets are skipped too: `[note]`, `{name}`,
/// and `[1]` in a line with other words. Any other bracket starts the JSON, except inside an answer
/// that begins with a quote: that is a text.
///
/// Nothing is repaired or coerced, and the shape is that of the dialect. A wrapped output is under
/// `result`, and the output of a chain of thought is under `reasoning` and `output`. In a strict
/// dialect, a map is a list of `key` and `value`, and a tuple is an object of `item_0`, `item_1`.
///
/// `Partial` does not report a stream that ended too early. Read the whole text
/// ([`as_str`](Self::as_str)) with [`Contract::read_output`](crate::Contract::read_output), which
/// validates it.
///
/// # Cost
///
/// Each character is parsed once, however small the pieces are. A look-up walks down the path. A
/// text is borrowed, and any other value costs one deserialization of its own part. The memory is
/// the text, a second copy of strings with escapes, about 25 bytes for each value and each key, and
/// about 100 bytes for each list and each object.
#[derive(Clone, Default)]
pub struct Partial {
    scan: Scan,
    fault: Option<Fault>,
}

impl Partial {
    /// Returns an empty `Partial`, before the first piece.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the next piece of the text, which may end anywhere.
    ///
    /// A text that is not JSON is reported by [`fault`](Self::fault), and by each field that was
    /// not done before the fault.
    pub fn push(&mut self, piece: &str) {
        self.scan.tree.text.push_str(piece);
        if self.fault.is_none() {
            self.scan.run();
            self.fault =
                self.tree().tokens.broken.as_ref().map(|broken| not_json(self.tree(), broken));
        }
    }

    /// Deserializes the field at `path`, as far as it was received.
    ///
    /// An option is `Done(None)` if the complete object does not contain it, or if its parent is
    /// null.
    ///
    /// ```
    /// # use toolwright_signature::{Field, Partial};
    /// let mut partial = Partial::new();
    /// partial.push(r#"{"tags": ["new", "bl"#);
    /// let tags: Vec<String> = partial.field("tags").so_far().unwrap();
    /// assert_eq!(tags, ["new", "bl"]);
    ///
    /// partial.push(r#"ue"], "count": "none"}"#);
    /// assert_eq!(partial.field::<String>("tags[1]"), Field::Done("blue".into()));
    /// assert_eq!(partial.field::<Option<String>>("note"), Field::Done(None));
    /// let Field::Fault(fault) = partial.field::<u32>("count") else { panic!() };
    /// assert_eq!(fault.path, "$.count");
    /// ```
    pub fn field<T: DeserializeOwned>(&self, path: &str) -> Field<T> {
        match self.find(path) {
            Lookup::At(id) if self.tree().is_done(id) => self.read(id, path),
            Lookup::At(id) if self.fault.is_none() => {
                growing::read(self.tree(), id).map_or(Field::Pending, Field::Partial)
            }
            Lookup::At(_) | Lookup::Later => self.later(),
            Lookup::Nowhere => {
                growing::absent().map_or_else(|| Field::Fault(missing(path)), Field::Done)
            }
            Lookup::Fault(fault) => Field::Fault(*fault),
        }
    }

    /// Returns the text at `path`, as far as it was received, borrowed and unescaped.
    ///
    /// ```
    /// # use toolwright_signature::{Field, Partial};
    /// let mut partial = Partial::new();
    /// partial.push(r#"{"rows": [{"name": "A\tB\"#);
    /// assert_eq!(partial.text("rows[0].name"), Field::Partial("A\tB"));
    /// ```
    pub fn text(&self, path: &str) -> Field<&str> {
        match self.find(path) {
            Lookup::At(id) if self.tree().kind(id) != TokenKind::Text => {
                Field::Fault(self.misplaced(path, TokenKind::Text, id))
            }
            Lookup::At(id) if self.tree().is_done(id) => Field::Done(self.tree().string(id)),
            Lookup::At(id) if self.fault.is_none() => Field::Partial(self.tree().string(id)),
            Lookup::At(_) | Lookup::Later => self.later(),
            Lookup::Nowhere => Field::Fault(missing(path)),
            Lookup::Fault(fault) => Field::Fault(*fault),
        }
    }

    /// Returns whether the JSON is complete.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.tree().root().is_some_and(|root| self.tree().is_done(root))
    }

    /// Returns the first fault in the JSON syntax, if there is one. It is final.
    ///
    /// ```
    /// # use toolwright_signature::{Field, Partial};
    /// let mut partial = Partial::new();
    /// partial.push(r#"{"a": 1, "b": maybe"#);
    /// assert_eq!(partial.fault().unwrap().to_string(), "$.b: expected a value, got 'm'");
    /// // What was done before is as good as ever.
    /// assert_eq!(partial.field("a"), Field::Done(1));
    /// assert!(matches!(partial.field::<bool>("b"), Field::Fault(_)));
    /// ```
    #[must_use]
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Returns all pieces so far, including the text around the JSON.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.tree().text
    }

    /// Returns the values so far.
    fn tree(&self) -> &Tree {
        &self.scan.tree
    }

    /// Looks a path up. A path that cannot be parsed is a fault, even before the text has begun.
    fn find(&self, path: &str) -> Lookup {
        let mut found = self.tree().root().map_or(Lookup::Later, Lookup::At);
        for step in Steps::of(path) {
            let Some(step) = step else {
                let expected = "a path such as `title`, `rows[2].name` or `[\"a.b\"]`";
                return Lookup::Fault(Box::new(fault(path::from_root(path), expected, "another")));
            };
            if let Lookup::At(id) = found {
                found = self.below(id, &step, path);
            }
        }
        found
    }

    /// Takes one step down.
    fn below(&self, id: u32, step: &PathStep<'_>, path: &str) -> Lookup {
        let tree = self.tree();
        let child = match (step, tree.kind(id)) {
            (PathStep::Field(name), TokenKind::Object) => tree.field(id, name),
            (PathStep::Item(i), TokenKind::List) => tree.item(id, *i),
            (_, TokenKind::Null) => None,
            _ => return Lookup::Fault(Box::new(self.misplaced(path, step.kind(), id))),
        };
        match child {
            Some(child) => Lookup::At(child),
            None if tree.is_done(id) => Lookup::Nowhere,
            None => Lookup::Later,
        }
    }

    /// Deserializes a complete value.
    fn read<T: DeserializeOwned>(&self, id: u32, path: &str) -> Field<T> {
        let text = self.tree().slice(id);
        serde_json::from_str(text)
            .map_or_else(|_| Field::Fault(unfit::<T>(text, path)), Field::Done)
    }

    /// The result for a value that was not received: pending, or a fault if the text is broken.
    fn later<T>(&self) -> Field<T> {
        self.fault.clone().map_or(Field::Pending, Field::Fault)
    }

    /// Makes the fault of a value of the wrong kind.
    fn misplaced(&self, path: &str, expected: TokenKind, id: u32) -> Fault {
        fault(path::from_root(path), expected.name(), self.tree().kind(id).name())
    }
}

impl fmt::Debug for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partial")
            .field("text", &self.tree().text)
            .field("is_done", &self.is_done())
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}

/// The result of a look-up.
enum Lookup {
    /// The value has started.
    At(u32),
    /// The value was not received yet.
    Later,
    /// The parent is complete and does not contain the value.
    Nowhere,
    Fault(Box<Fault>),
}

/// Makes a fault from the expected value and the one found.
fn fault(path: String, expected: &str, got: &str) -> Fault {
    fault_words::fault(path, expected.to_owned(), got.to_owned(), "")
}

/// Makes the fault of a text that is not JSON. Its path is that of the incomplete value.
fn not_json(tree: &Tree, broken: &Broken) -> Fault {
    let (expected, got) = match broken {
        Broken::Unexpected { at, expected } => {
            let found = tree.text.get(*at..).and_then(|ahead| ahead.chars().next());
            (*expected, format!("{:?}", found.unwrap_or_default()))
        }
        Broken::Twice { key, .. } => ("every field once", format!("`{}` twice", shown(key))),
        Broken::TooDeep => ("at most 127 levels", "one more".to_owned()),
        _ => ("less than 4 GiB", "more".to_owned()),
    };
    fault(tree.path(), expected, &got)
}

/// Makes the fault of a value that the complete answer does not contain.
fn missing(path: &str) -> Fault {
    fault(path::from_root(path), "a value", "none")
}

/// Deserializes a second time, to find the path of the fault.
///
/// The first attempt has no path, because tracking it takes time that a fitting value need not pay.
fn unfit<T: DeserializeOwned>(text: &str, path: &str) -> Fault {
    let path = path::from_root(path);
    match serde_path_to_error::deserialize::<_, T>(&mut serde_json::Deserializer::from_str(text)) {
        Ok(_) => Fault::of_sentence(path, ""),
        Err(error) => Fault::of_serde(path, error),
    }
}

/// The state of a field of a [`Partial`].
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Field<T> {
    /// The field was not received yet, or its type cannot be deserialized from an incomplete value.
    Pending,
    /// The incomplete value so far. The complete value may differ, or may be a fault.
    Partial(T),
    /// The complete value. It does not change any more.
    Done(T),
    /// The text is not JSON, or the value does not fit without a repair. Reading the whole text may
    /// still repair it.
    Fault(Fault),
}

impl<T> Field<T> {
    /// Returns the value, complete or not.
    ///
    /// ```
    /// # use toolwright_signature::Field;
    /// assert_eq!(Field::Partial("Ta").so_far(), Some("Ta"));
    /// assert_eq!(Field::Done("Tale").so_far(), Some("Tale"));
    /// assert_eq!(Field::<&str>::Pending.so_far(), None);
    /// ```
    #[must_use]
    pub fn so_far(self) -> Option<T> {
        match self {
            Self::Partial(value) | Self::Done(value) => Some(value),
            Self::Pending | Self::Fault(_) => None,
        }
    }
}
