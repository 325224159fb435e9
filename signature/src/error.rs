//! Errors of the crate: names, schemas, lowering, reading, writing.
//!
//! The texts are for users and models; [`SchemaFault`] and [`NameFault`] are for code. Steps inside
//! the crate return a [`Refusal`], to which the contract adds its name.
//!
//! This file and the dialects use each other: an error names its dialect, and a loss names a side
//! and a fault.

use std::borrow::Cow;
use std::fmt;

use serde_path_to_error::Segment;

use crate::Dialect;

/// The result of every fallible function in this crate.
pub(crate) type Result<T, E = ContractError> = std::result::Result<T, E>;

/// The error of a contract: a fault in the contract itself, or in a text read with it.
///
/// `{}` is one sentence that names the fix. `{:#}` also prints the text that was read, which may
/// contain a user's data, so log `{:#}` with care.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContractError {
    /// Providers do not accept the name.
    #[error("`{}` cannot be a tool's name: {fault}", shown(name))]
    Name {
        /// The rejected name.
        name: String,
        /// The rule that the name breaks.
        fault: NameFault,
    },

    /// The schema cannot be used in any dialect.
    #[error("the {side} schema of `{contract}` cannot be used at {path}: {reason}")]
    Schema {
        /// The contract's name.
        contract: String,
        /// The side that has the schema.
        side: Side,
        /// The kind of fault, for code to match.
        fault: SchemaFault,
        /// The path in the value, from `$`.
        path: String,
        /// The fault and its fix.
        reason: String,
    },

    /// The dialect cannot express the schema, or the schema exceeds a limit of the dialect.
    #[error("`{contract}` does not fit {dialect} at {path}: {advice}")]
    Lowering {
        /// The contract's name.
        contract: String,
        /// The dialect it was lowered to.
        dialect: Dialect,
        /// The kind of fault, for code to match.
        fault: SchemaFault,
        /// The path in the value, from `$`.
        path: String,
        /// The rule that cannot be expressed, and its replacement.
        advice: String,
    },

    /// The request has more tools than the provider accepts.
    #[error(
        "{count} tools are more than the {most} that {dialect} takes in one request; leave some out, defer some in an agent (`Tool::deferred`), choose some for each request (`Agent::with_filter`), or give them to agents that are tools of this one"
    )]
    TooManyTools {
        /// The dialect of the request.
        dialect: Dialect,
        /// Number of tools in the request.
        count: usize,
        /// Maximum number of tools in one request.
        most: usize,
    },

    /// The text does not fit the contract.
    #[error(fmt = reading)]
    Reading {
        /// The contract's name.
        contract: String,
        /// The side that was read.
        side: Side,
        /// The faults, first fault first; never empty.
        faults: Vec<Fault>,
        /// Number of further faults that are not in `faults`.
        more: usize,
        /// The text that was read.
        raw: String,
    },

    /// A value did not serialize to JSON.
    #[error(
        "a value of `{contract}` has no JSON form: check its `Serialize`, such as maps with keys that are not strings"
    )]
    Write {
        /// The contract's name.
        contract: String,
        /// The error of `serde_json`.
        source: serde_json::Error,
    },

    /// A value has a float that JSON cannot express. `serde_json` would write it as `null`.
    #[error(
        "a value of `{contract}` has no JSON form: {place} is {float}, and JSON has neither NaN nor infinity; use another number, or `None`"
    )]
    NotFinite {
        /// The contract's name.
        contract: String,
        /// The path of the float, such as `$.rates[2]`.
        place: String,
        /// The float.
        float: f64,
    },
}

impl ContractError {
    /// Returns the kind of fault of a schema; `None` if the error is not about a schema.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolwright_signature::{Contract, SchemaFault};
    ///
    /// let input = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}});
    /// let contract = Contract::dynamic("find", "Find something.", input, None)?;
    /// let error = contract.lower(toolwright_signature::Dialect::Mcp).unwrap_err();
    /// match error.schema_fault() {
    ///     // The server left a definition out: skip its tool, keep the others.
    ///     Some(SchemaFault::Unresolved) => {}
    ///     _ => return Err(error),
    /// }
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    #[must_use]
    pub fn schema_fault(&self) -> Option<SchemaFault> {
        match self {
            Self::Schema { fault, .. } | Self::Lowering { fault, .. } => Some(*fault),
            _ => None,
        }
    }

    /// Returns the error of a value that did not serialize.
    pub(crate) fn write(contract: String, source: serde_json::Error) -> Self {
        Self::Write { contract, source }
    }
}

/// Writes the error of a text that was read: all faults in one line, and the text itself under
/// `{:#}`.
fn reading(
    contract: &str,
    side: &Side,
    faults: &[Fault],
    more: &usize,
    raw: &str,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(f, "{side} of `{contract}` does not fit: ")?;
    for (i, fault) in faults.iter().enumerate() {
        if i > 0 {
            f.write_str("; ")?;
        }
        write!(f, "{fault}")?;
    }
    if *more > 0 {
        write!(f, "; and {more} more")?;
    }
    if f.alternate() {
        write!(f, "\nread from: {raw}")?;
    }
    Ok(())
}

/// Returns a foreign text as one escaped line of about 100 characters.
pub(crate) fn shown(text: &str) -> String {
    const LONGEST: usize = 100;
    let mut line = String::new();
    for c in text.chars() {
        if line.len() >= LONGEST {
            line.push('…');
            break;
        }
        // Quotes stay as they are: nothing here ends at one.
        if matches!(c, '"' | '\'' | '\\') { line.push(c) } else { line.extend(c.escape_debug()) }
    }
    line
}

/// One side of a contract: its input or its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Side {
    /// The input: a tool's arguments.
    Input,
    /// The output: a tool's result.
    Output,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Output => "output",
        })
    }
}

/// One fault in a text that was read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
#[non_exhaustive]
pub struct Fault {
    /// The path in the value, from `$`: `$.filters.year`, `$.tags[2]`.
    pub path: String,
    /// The values that are allowed at the path.
    pub expected: String,
    /// The value that was found, in about 80 characters.
    pub got: String,
    /// Both in one sentence for the model, with advice for a correct value.
    pub message: String,
}

impl Fault {
    /// Makes a fault from a sentence that ends with ", expected …", as serde's errors do.
    pub(crate) fn of_sentence(path: String, text: &str) -> Self {
        /// Maximum number of characters of the path and of each half of the sentence.
        const LONGEST: usize = 300;
        let (got, expected) = text.rsplit_once(", expected ").unwrap_or((text, ""));
        let (got, expected) = (cut(got, LONGEST), cut(expected, LONGEST).into_owned());
        let message = match expected.as_str() {
            "" => got.to_string(),
            expected => format!("{got}, expected {expected}"),
        };
        let [path, got] = [cut(&path, LONGEST), cut(&got, 79)].map(Cow::into_owned);
        Self { path, expected, got, message }
    }

    /// Makes a fault from serde's error, with its path below `path`. It omits the position, because
    /// the text may be a repaired one, or a part.
    pub(crate) fn of_serde(
        mut path: String,
        error: serde_path_to_error::Error<serde_json::Error>,
    ) -> Self {
        for segment in error.path() {
            match segment {
                Segment::Seq { index } => path.push_str(&format!("[{index}]")),
                Segment::Map { key: name } | Segment::Enum { variant: name } => {
                    push_field(&mut path, name);
                }
                Segment::Unknown => {}
            }
        }
        let error = error.into_inner();
        let text = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        Self::of_sentence(path, text.strip_suffix(&place).unwrap_or(&text))
    }
}

/// Returns the first characters of a text, with `…` if it is longer.
pub(crate) fn cut(text: &str, longest: usize) -> Cow<'_, str> {
    match text.char_indices().nth(longest) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

/// The kind of fault in a schema, or of a schema that a dialect cannot express.
///
/// The error's text names the place and the fix; the kind is for code that handles the error. A
/// [`Loss`](crate::Loss) has one if the whole schema was lowered in a weaker form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SchemaFault {
    /// A keyword has a value that JSON Schema does not allow. Fix the schema where it is made.
    Malformed,
    /// A reference leads to no schema. Put the definition under `$defs`.
    Unresolved,
    /// A schema contains itself without a step down into the value. Refer to it from a
    /// property or an item.
    Circular,
    /// No value fits, because parts of the schema exclude each other. Change or remove one of them.
    Contradiction,
    /// The schema nests too deeply. Make it flatter.
    TooDeep,
    /// The schema exceeds a limit on numbers or sizes, or a request has no room left. Split it.
    TooLarge,
    /// An input is not an object. Put the value into a field of a struct.
    NotAnObject,
    /// The contract has no output schema, and one is needed. Set it when making the contract.
    NoOutput,
    /// A field does not allow the requested change: see
    /// [`Contract::allowing`](crate::Contract::allowing).
    Field,
    /// A field holds an image, a document or audio where a model has to write it, or the model does
    /// not take its kind. Take a URL as a `String`, or use another model.
    Media,
    /// The name of a tool or a field is not accepted. Rename it.
    Name,
    /// A value has no type, and the dialect requires one. Give it a type.
    Undescribed,
    /// Two forms of a value would look alike in the dialect. Give each form a field of its own.
    Ambiguous,
    /// The type contains itself, and the dialect has no references. Limit the type to a few levels,
    /// or use a list of items that name their parent.
    Recursive,
    /// The dialect has no form for the schema. The error's text names a replacement.
    Unsupported,
}

/// The rule that a name breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameFault {
    /// The name is empty.
    #[error("it is empty; give it 1 to 64 characters of A-Z a-z 0-9 _ -")]
    Empty,
    /// The name is longer than the 64 characters that every provider accepts. Contains its length.
    #[error("it has {0} characters, providers accept 64; shorten it")]
    TooLong(usize),
    /// The name contains a character outside `A-Z a-z 0-9 _ -`.
    #[error("{0:?} is not allowed; use only A-Z a-z 0-9 _ -")]
    Character(char),
    /// A generic type keeps the name that all its instances share, or computes the same name: the
    /// two cases cannot be distinguished.
    #[error(
        "all instances of this generic type would share it; override `Signature::name` with a literal, or with another name"
    )]
    Generic,
    /// Another tool of the same group has the name.
    #[error("another tool of this group has it; give one of them another")]
    Duplicate,
}

/// The reason, the place and the fix for a rejected schema. The contract adds its name later.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The kind of fault, for code to match.
    pub(crate) fault: SchemaFault,
    /// The path in the value, or that of a definition.
    pub(crate) path: String,
    /// The fault and its fix in one line.
    pub(crate) advice: String,
}

impl Refusal {
    /// Returns a refusal that is not an error yet.
    pub(crate) fn new(fault: SchemaFault, path: &str, advice: impl Into<String>) -> Self {
        Self { fault, path: path.to_owned(), advice: advice.into() }
    }
}

/// The result of a step that may reject a schema.
pub(crate) type Checked<T = ()> = Result<T, Refusal>;

/// Returns the error of a rejected schema.
pub(crate) fn refuse<T>(fault: SchemaFault, path: &str, advice: impl Into<String>) -> Checked<T> {
    Err(Refusal::new(fault, path, advice))
}

/// Limits the length of a path and keeps its first character: field names may be of any length.
pub(crate) fn shortened_path(path: String) -> String {
    const LONGEST: usize = 300;
    if path.len() <= LONGEST {
        return path;
    }
    let end = path.ceil_char_boundary(path.len() - LONGEST);
    let (first, end) = (path.chars().take(1), path.get(end..).unwrap_or_default());
    first.chain(['…']).chain(end.chars()).collect()
}

/// Adds a step to a path.
///
/// ```text
/// $ and title  →  $.title      $ and a.b  →  $["a.b"]
/// ```
pub(crate) fn push_field(path: &mut String, name: &str) {
    if name.is_empty() || name.contains(['.', '[', ']', '"']) {
        path.push_str(&format!("[{}]", serde_json::Value::from(name)));
    } else {
        path.push('.');
        path.push_str(name);
    }
}
