//! Reading a text that still grows: [`Partial`] and its [`Field`]s.
//!
//! `scan` reads each new piece into the `tree`, `path` finds a field, and `growing` makes a
//! value of what is there.

mod growing;
mod path;
mod scan;
mod tree;

use std::fmt;

use serde::de::DeserializeOwned;

use crate::error::Fault;
use path::{PathStep, Steps};
use scan::{Scan, ScanFault};
use tree::{Child, Tree, ValueKind};

/// A streaming answer whose fields can be asked for while it still grows.
///
/// It takes the pieces as they come and needs to know no type. A field is asked for by
/// its path, written as [`Fault::path`] writes it: `title`, `$.title`, `rows[2].name`,
/// `$["a.b"]` for a key with dots or brackets, `$` for the whole.
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
/// To show a growing answer, show what came since the last piece:
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
/// # What is given early
///
/// What was [`Field::Done`] stays so, with the same value, and a text only ever grows at
/// its end: half an escape or half a surrogate pair is not shown. Of what is not complete
/// - a text is given as far as it came, to [`text`](Self::text) and to types that ask
///   serde for a `String`. Enums, dates and types that look at any value (`Value`,
///   untagged unions) get it when it is complete: `in` may become `in-progress`.
/// - a list is given with the items so far, and an object with the fields so far, if the
///   type can be made of them: the fields that miss must be options or have a default. The
///   innermost that still grows is among them if its type can be made of what is there.
/// - numbers, booleans and null are given when they are complete: `12` may become `125`.
///
/// # What is read
///
/// JSON, from the first `{` or `[` on to its end; what comes before and after is skipped,
/// such as a sentence or a fence, and after its first word also words in brackets: `[note]`,
/// `{name}`, and `[1]` in a line with others. Any other bracket is taken for that of the
/// JSON. Nothing is repaired or coerced here, and what lowering
/// did to the shape is still there: an output that was wrapped is under `result`, a
/// thoughtful one under `reasoning` and `output`, and in a strict dialect a map is a list of
/// `key` and `value`, a tuple an object of `item_0`, `item_1`. The whole text ([`as_str`](Self::as_str))
/// is for [`Contract::read_output`](crate::Contract::read_output), which also judges it
/// when the stream has ended too early: nobody says so here.
///
/// # Cost
///
/// Each character is looked at once, however small the pieces. A field is found by going
/// down its path; a text that grows is borrowed in no time, and any other value costs what
/// it costs to make it of its own part. Kept are the text, the texts with escapes once more,
/// and about 20 bytes for each value and each key.
#[derive(Clone, Default)]
pub struct Partial {
    tree: Tree,
    scan: Scan,
    fault: Option<Fault>,
}

impl Partial {
    /// Before the first piece.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece of the text; it may end anywhere.
    ///
    /// What is no JSON is told where it matters: by [`fault`](Self::fault), and by each
    /// field that was not done before it.
    pub fn push(&mut self, piece: &str) {
        self.tree.text.push_str(piece);
        if self.fault.is_none()
            && let Err(broken) = self.scan.run(&mut self.tree)
        {
            let ScanFault { expected, got } = broken;
            self.fault = Some(fault(self.tree.path(), expected, &got));
        }
    }

    /// The field at `path`, as far as it has come.
    ///
    /// An option that the object ended without is `Done(None)`, and so is one whose parent
    /// is null.
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
            Lookup::At(id) if self.tree.is_done(id) => self.read(id, path),
            Lookup::At(id) if self.fault.is_none() => {
                growing::read(&self.tree, id).map_or(Field::Pending, Field::Partial)
            }
            Lookup::At(_) | Lookup::Later => self.later(),
            Lookup::Nowhere => {
                growing::absent().map_or_else(|| Field::Fault(missing(path)), Field::Done)
            }
            Lookup::Fault(fault) => Field::Fault(*fault),
        }
    }

    /// The text at `path`, as far as it has come, borrowed and unescaped.
    ///
    /// ```
    /// # use toolwright_signature::{Field, Partial};
    /// let mut partial = Partial::new();
    /// partial.push(r#"{"rows": [{"name": "A\tB\"#);
    /// assert_eq!(partial.text("rows[0].name"), Field::Partial("A\tB"));
    /// ```
    pub fn text(&self, path: &str) -> Field<&str> {
        match self.find(path) {
            Lookup::At(id) if self.tree.kind(id) != ValueKind::Text => {
                Field::Fault(self.misplaced(path, ValueKind::Text, id))
            }
            Lookup::At(id) if self.tree.is_done(id) => Field::Done(self.tree.string(id)),
            Lookup::At(id) if self.fault.is_none() => Field::Partial(self.tree.string(id)),
            Lookup::At(_) | Lookup::Later => self.later(),
            Lookup::Nowhere => Field::Fault(missing(path)),
            Lookup::Fault(fault) => Field::Fault(*fault),
        }
    }

    /// Whether the JSON is complete.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.tree.root().is_some_and(|root| self.tree.is_done(root))
    }

    /// Why the text is no JSON, if it is none so far; it will not mend.
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

    /// All the pieces, what stands around the JSON included.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.tree.text
    }

    fn find(&self, path: &str) -> Lookup {
        match self.walk(path) {
            Some(Lookup::At(id)) => Lookup::At(id),
            Some(found) if Steps::of(path).all(|step| step.is_some()) => found,
            _ => {
                let expected = "a path such as `title`, `rows[2].name` or `[\"a.b\"]`";
                Lookup::Fault(Box::new(fault(path::from_root(path), expected, "another")))
            }
        }
    }

    /// `None` if a step cannot be parsed.
    fn walk(&self, path: &str) -> Option<Lookup> {
        let Some(mut id) = self.tree.root() else {
            return Some(Lookup::Later);
        };
        for step in Steps::of(path) {
            let step = step?;
            id = match self.step(id, &step) {
                Some(Child::At(child)) => child,
                Some(Child::Missing) if self.tree.is_done(id) => return Some(Lookup::Nowhere),
                Some(Child::Missing) => return Some(Lookup::Later),
                None => {
                    let fault = self.misplaced(path, step.kind(), id);
                    return Some(Lookup::Fault(Box::new(fault)));
                }
            };
        }
        Some(Lookup::At(id))
    }

    /// `None` if it is of the wrong kind for this.
    fn step(&self, id: u32, step: &PathStep<'_>) -> Option<Child> {
        match (step, self.tree.kind(id)) {
            (PathStep::Field(name), ValueKind::Object) => Some(self.tree.field(id, name)),
            (PathStep::Item(i), ValueKind::List) => Some(self.tree.item(id, *i)),
            (_, ValueKind::Null) => Some(Child::Missing),
            _ => None,
        }
    }

    fn read<T: DeserializeOwned>(&self, id: u32, path: &str) -> Field<T> {
        let text = self.tree.slice(id);
        serde_json::from_str(text)
            .map_or_else(|_| Field::Fault(unfit::<T>(text, path)), Field::Done)
    }

    /// What is not there yet: it comes later, or never if the text is broken.
    fn later<T>(&self) -> Field<T> {
        self.fault.clone().map_or(Field::Pending, Field::Fault)
    }

    fn misplaced(&self, path: &str, expected: ValueKind, id: u32) -> Fault {
        fault(path::from_root(path), expected.name(), self.tree.kind(id).name())
    }
}

impl fmt::Debug for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partial")
            .field("text", &self.tree.text)
            .field("is_done", &self.is_done())
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}

/// Where a path leads.
enum Lookup {
    At(u32),
    Later,
    /// What would hold it is complete and does not.
    Nowhere,
    Fault(Box<Fault>),
}

fn fault(path: String, expected: &str, got: &str) -> Fault {
    let message = format!("expected {expected}, got {got}");
    Fault { path, expected: expected.to_owned(), got: got.to_owned(), message }
}

fn missing(path: &str) -> Fault {
    fault(path::from_root(path), "a value", "none")
}

/// Reads once more, to say where it does not fit.
fn unfit<T: DeserializeOwned>(text: &str, path: &str) -> Fault {
    let mut path = path::from_root(path);
    let mut text = serde_json::Deserializer::from_str(text);
    let message = match serde_path_to_error::deserialize::<_, T>(&mut text) {
        Ok(_) => String::new(),
        Err(error) => {
            for segment in error.path() {
                match segment {
                    serde_path_to_error::Segment::Map { key } => path::push_field(&mut path, key),
                    serde_path_to_error::Segment::Seq { index } => {
                        path.push_str(&format!("[{index}]"));
                    }
                    _ => {}
                }
            }
            without_place(&error.into_inner())
        }
    };
    Fault::of_sentence(path, &message)
}

/// The line and the column are those of a part of the text, which nobody sees.
fn without_place(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    message.strip_suffix(&place).map(str::to_owned).unwrap_or(message)
}

/// How far a field of a [`Partial`] has come.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Field<T> {
    /// Nothing of it yet, or nothing that a value can be made of.
    Pending,
    /// What can be said so far; more comes, and may not fit.
    Partial(T),
    /// All of it, for good.
    Done(T),
    /// The text is broken, or what is there does not fit as it is written. Reading the
    /// whole may still put it right.
    Fault(Fault),
}

impl<T> Field<T> {
    /// The value, complete or not.
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
