//! The [`Contract`]: a signature as a value.
//!
//! | file | part |
//! |---|---|
//! | `made` | of a type, or of the schemas of another program |
//! | `derived` | another name, other names for a field, more output |
//! | `lowered` | its schemas and values in a dialect |
//! | `read`, `written`, `finite` | texts of a model, and values of a program |
//! | `compared`, `changes` | the differences of two contracts, and whom they break |
//! | `stored` | its serialized form |
//! | `media` | the fields that hold images and the like |

mod changes;
mod compared;
mod derived;
mod finite;
mod lowered;
mod made;
mod media;
mod read;
mod stored;
mod written;

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde_json::Value;

pub use self::changes::{ChangedRule, ContractChange, ContractChangeKind, Dependent};
use self::media::Media;
use crate::error::{ContractError, Refusal, SchemaFault, Side, shortened_path};
use crate::lowering::dialect::{Dialect, Lowered};
use crate::reading::Readable;
use crate::stable_hash::stable_hash;
use crate::{name, schema};

/// A signature as a value: a name, a description and schemas, validated and ready to send.
///
/// Construction walks the type's schema. Do it once, where a tool or a module is made, and share
/// the contract. Equal types always give equal bytes: fields keep the order of their declaration,
/// and nothing depends on time or hashing.
///
/// [`Contract::dynamic`] makes a contract at run time, for example for the tool of an MCP server.
#[derive(Debug, Clone)]
pub struct Contract {
    name: String,
    /// A display name, if the type has a title.
    title: Option<String>,
    /// The `$schema` of the input of a dynamic contract.
    marker: Option<String>,
    description: String,
    input: Readable,
    /// The input type serializes as `null`; models are asked for `{}`.
    unit_input: bool,
    /// The schema of the input as serde serializes it; computed only for comparisons.
    input_to_write: Option<fn() -> Value>,
    output: Option<Output>,
    media: Media,
    lowered: Caches,
}

/// The lowered schemas so far. A contract with another schema starts with empty caches.
#[derive(Debug, Clone, Default)]
struct Caches {
    input: Cache,
    /// The inputs lowered without `strict`, for requests that have no room for another strict tool.
    loose_input: Cache,
    output: Cache,
}

/// Lowered schemas by dialect. Boxed, because most dialects are never used.
type Cache = [OnceLock<Box<Lowered>>; Dialect::ALL.len()];

/// The two schemas of an output. serde and schemars distinguish deserializing from serializing:
/// defaults, skips and renames may differ.
#[derive(Debug, Clone)]
struct Output {
    to_read: Readable,
    /// The schema of serialized outputs.
    to_write: Readable,
}

impl Output {
    fn new(to_read: Value, to_write: Value, typed: bool) -> Self {
        let other = (to_read != to_write).then(|| Readable::new(to_write, typed));
        let to_read = Readable::new(to_read, typed);
        Self { to_write: other.unwrap_or_else(|| to_read.clone()), to_read }
    }
}

impl AsRef<Self> for Contract {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Contract {
    /// Name of the tool that ends a typed run: no other tool of that run may have it.
    pub const FINISH: &'static str = "finish";

    /// Returns the default name for the contract of a type: the type's name in snake case.
    #[must_use]
    pub fn name_of<T: JsonSchema + ?Sized>() -> String {
        name::snake_case(&T::schema_name())
    }

    /// Returns the default description for the contract of a type: its doc comment.
    #[must_use]
    pub fn description_of<T: JsonSchema + ?Sized>() -> Option<String> {
        schema::description_of::<T>()
    }

    /// Returns the name that the model uses for this contract.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the description that the model reads.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the schema of the input: an object at the root.
    #[must_use]
    pub fn input(&self) -> &Value {
        &self.input.schema
    }

    /// Returns the schema of an output to deserialize, as a model has to produce it.
    #[must_use]
    pub fn output_to_read(&self) -> Option<&Value> {
        self.output.as_ref().map(|output| &*output.to_read.schema)
    }

    /// Returns the schema of a serialized output, as a tool returns it.
    #[must_use]
    pub fn output_to_write(&self) -> Option<&Value> {
        self.output.as_ref().map(|output| &*output.to_write.schema)
    }

    /// The error of an operation that needs an output schema.
    fn no_output(&self, reason: &str) -> ContractError {
        let (side, fault) = (Side::Output, SchemaFault::NoOutput);
        self.refused(side, Refusal::new(fault, "$", reason))
    }

    fn refused(&self, side: Side, refusal: Refusal) -> ContractError {
        refused(&self.name, side, refusal)
    }

    /// Returns a short hash of the name, the description and the schemas.
    ///
    /// It is the same on every machine and in every version, so it can be stored and compared
    /// later. It detects accidental changes; it does not protect against an attacker.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let schemas = [Some(self.input()), self.output_to_read(), self.output_to_write()];
        let schemas = schemas.map(|schema| schema.map(Value::to_string).unwrap_or_default());
        let texts = [&self.name, &self.description].into_iter().chain(&schemas);
        format!("{:032x}", stable_hash(texts.map(String::as_str)))
    }
}

fn refused(contract: &str, side: Side, refusal: Refusal) -> ContractError {
    ContractError::Schema {
        contract: contract.to_owned(),
        side,
        fault: refusal.fault,
        path: shortened_path(refusal.path),
        reason: refusal.advice,
    }
}

/// Returns the description, or the name in words if the description is blank.
fn or_words(description: String, name: &str) -> String {
    if description.trim().is_empty() {
        return name::words(name);
    }
    description
}

/// Two contracts are equal if their names, descriptions and schemas are equal.
impl PartialEq for Contract {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.description == other.description
            && self.input() == other.input()
            && self.output_to_read() == other.output_to_read()
            && self.output_to_write() == other.output_to_write()
    }
}
