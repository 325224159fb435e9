//! Errors of the crate: names, schemas, lowering, reading, writing.
//!
//! The texts are for people and models; [`SchemaFault`] and [`NameFault`] are for code.

use std::fmt;

use crate::Dialect;

/// The result of everything in this crate that can fail.
pub(crate) type Result<T, E = ContractError> = std::result::Result<T, E>;

/// What can be wrong with a contract, or with a text read against one.
///
/// `{}` is one sentence that names the fix; `{:#}` adds the evidence: the text
/// that was read. A text read may hold a user's data, so log `{:#}` with care.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContractError {
    /// The name cannot be shown to a model.
    #[error("`{}` cannot be a tool's name: {fault}", shown(name))]
    Name {
        /// The name that was refused.
        name: String,
        /// The rule it breaks.
        fault: NameFault,
    },

    /// The schema is no contract in any dialect.
    #[error("the {side} schema of `{contract}` cannot be used at {path}: {reason}")]
    Schema {
        /// The contract's name.
        contract: String,
        /// Which of its schemas.
        side: Side,
        /// What is wrong, for code to match.
        fault: SchemaFault,
        /// Where in the value, from `$`.
        path: String,
        /// What is wrong and what to do.
        reason: String,
    },

    /// The schema says something this dialect has no words for, or more than it takes.
    #[error("`{contract}` does not fit {dialect} at {path}: {advice}")]
    Lowering {
        /// The contract's name.
        contract: String,
        /// The dialect it was lowered to.
        dialect: Dialect,
        /// What is wrong, for code to match.
        fault: SchemaFault,
        /// Where in the value, from `$`.
        path: String,
        /// What is not expressible and what to do instead.
        advice: String,
    },

    /// More tools than the provider takes in one request.
    #[error(
        "{count} tools are more than the {most} that {dialect} takes in one request; leave some out, or give them to agents that are tools of this one"
    )]
    TooManyTools {
        /// The dialect they were lowered to.
        dialect: Dialect,
        /// How many there are.
        count: usize,
        /// Maximum number of tools in one request.
        most: usize,
    },

    /// A text is not a value of the contract's type.
    #[error(fmt = reading)]
    Reading {
        /// The contract's name.
        contract: String,
        /// Which side was read.
        side: Side,
        /// What was found wrong, first fault first; never empty.
        faults: Vec<Fault>,
        /// How many more there are than `faults` tells.
        more: usize,
        /// The text that was read.
        raw: String,
    },

    /// A value did not serialise to JSON.
    #[error(
        "a value of `{contract}` has no JSON form: check its `Serialize`, such as maps with keys that are not strings"
    )]
    Write {
        /// The contract's name.
        contract: String,
        /// What serde_json found.
        source: serde_json::Error,
    },
}

impl ContractError {
    /// What is wrong with a schema; `None` for an error that is not about one.
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

    pub(crate) fn write(contract: String, source: serde_json::Error) -> Self {
        Self::Write { contract, source }
    }
}

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

/// A foreign text as one line that can be read: escaped, and about 100 characters of it.
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

/// Which side of a contract something is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Side {
    /// What goes in: a tool's arguments.
    Input,
    /// What comes back.
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

/// One thing wrong with a text that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// Where in the value, from `$`: `$.filters.year`, `$.tags[2]`.
    pub path: String,
    /// What may stand there.
    pub expected: String,
    /// What did, in at most about 80 characters.
    pub got: String,
    /// Both in a sentence for the model, with what else helps it to do better.
    pub message: String,
}

impl Fault {
    /// A fault in one sentence, which as serde has it ends with what was expected.
    pub(crate) fn of_sentence(path: String, text: &str) -> Self {
        /// Quotes of a value may be as long as a book.
        const LONGEST: usize = 300;
        let (got, expected) = match text.rsplit_once(", expected ") {
            Some((got, expected)) => (cut(got, LONGEST), cut(expected, LONGEST)),
            None => (cut(text, LONGEST), String::new()),
        };
        let message =
            if expected.is_empty() { got.clone() } else { format!("{got}, expected {expected}") };
        Self { path: cut(&path, LONGEST), expected, got: cut(&got, 79), message }
    }
}

fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// What is wrong with a schema, or what a dialect cannot say.
///
/// The error's text names the place and the fix; this is for code that decides what to do.
/// A [`Loss`](crate::Loss) has one where the whole schema was lowered in a weaker form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SchemaFault {
    /// A keyword has a value that JSON Schema does not allow. Fix the schema where it is made.
    Malformed,
    /// A reference leads to no schema. Put the definition under `$defs`.
    Unresolved,
    /// A schema is a part of itself without a step down into the value. Refer to it from a
    /// property or an item.
    Circular,
    /// No value fits, because parts of the schema exclude each other. Change or remove one.
    Contradiction,
    /// It nests deeper than is accepted. Make it flatter.
    TooDeep,
    /// It has more of something than is accepted, or a request has no room left. Split it.
    TooLarge,
    /// An input is not an object. Put the value into a field of a struct.
    NotAnObject,
    /// The contract has no output schema, and one is needed. Give it one when it is made.
    NoOutput,
    /// A field does not allow what was asked for it: see
    /// [`Contract::allowing`](crate::Contract::allowing).
    Field,
    /// The name of a tool or a field is not accepted. Rename it.
    Name,
    /// Something may hold any value, and the dialect wants it described. Give it a type.
    Undescribed,
    /// Two shapes of a value would look alike in the dialect. Give each a field of its own.
    Ambiguous,
    /// The type contains itself, and the dialect has no references. Make it a few levels deep,
    /// or a list of items that name their parent.
    Recursive,
    /// The dialect has no form for it. The error's text says what to use instead.
    Unsupported,
}

/// The rule that a name breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameFault {
    /// There is no name.
    Empty,
    /// Longer than the 64 characters that every provider accepts.
    TooLong(usize),
    /// Holds a character outside `A-Z a-z 0-9 _ -`.
    Character(char),
    /// A generic type that kept the name all its instances share, or computes that
    /// very name: the two cannot be told apart.
    Generic,
    /// Another tool of the same group has it.
    Duplicate,
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => {
                f.write_str("it is empty; give it 1 to 64 characters of A-Z a-z 0-9 _ -")
            }
            Self::TooLong(n) => write!(f, "it has {n} characters, providers accept 64; shorten it"),
            Self::Character(c) => {
                write!(f, "{c:?} is not allowed; use only A-Z a-z 0-9 _ -")
            }
            Self::Generic => f.write_str(
                "all instances of this generic type would share it; override `Signature::name` with a literal, or with another name",
            ),
            Self::Duplicate => {
                f.write_str("another tool of this group has it; give one of them another")
            }
        }
    }
}
