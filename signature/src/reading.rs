//! From the text on the wire to a value of the contract's type.
//!
//! In: a text from a model, the plan of one side of a contract ([`Readable`]), and a
//! [`Policy`]. Out: a [`Reading`] with the value and its repairs, or an error with every fault. The
//! cheapest safe step is tried first:
//!
//! 1. A plain contract is read by serde alone (`strict_serde`), in one pass.
//! 2. Any other contract needs a tape of tokens (`tape`), a check against the
//!    [graph](crate::schema::graph) (`fit_check`), and then serde.
//! 3. A text that fails takes the slow path. `lenient` converts near-JSON to JSON, `document` finds
//!    the value inside its wrappers, and `repair_walk` writes it again, with `object`, `union`,
//!    `restore` and `coerce` for its parts. Values with only one possible meaning are repaired and
//!    listed; everything else is a fault.
//!
//! ```text
//! Sure: {'limit': '5',}   lenient       {"limit":"5"}
//!                         document      no wrapper around it
//!                         repair_walk   {"limit":5}
//!                         serde         Find { limit: 5 }
//! ```
//!
//! | module | content |
//! |---|---|
//! | `tokenizer`, `tape` | exact JSON as tokens, also for [`Partial`](crate::Partial) |
//! | `read_plan`, `strict_serde` | facts about the type, and the fast path |
//! | `fit_check`, `number`, `date`, `pattern`, `cost` | the check without repairs |
//! | `lenient`, `document`, `repair_walk` and its parts | the slow path |
//! | `thoughts` | the thoughts before an answer, also for [`Partial`](crate::Partial) |
//! | `fault_words`, `policy` | what is reported, and what may be repaired |
//!
//! Begin with [`Target::read`].

pub(crate) mod coerce;
mod cost;
pub(crate) mod date;
mod document;
pub(crate) mod fault_words;
pub(crate) mod fit_check;
pub(crate) mod lenient;
pub(crate) mod number;
mod object;
pub(crate) mod pattern;
pub(crate) mod policy;
mod read_plan;
mod repair_walk;
mod restore;
pub(crate) mod strict_serde;
pub(crate) mod tape;
pub(crate) mod thoughts;
pub(crate) mod tokenizer;
mod union;

use std::sync::Arc;

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value};

use crate::error::{ContractError, Fault, Result, Side};
use crate::json_text::differs;
use crate::reading::document::Document;
use crate::reading::fit_check::{FitCheck, Fits};
use crate::reading::policy::{Policy, Reading, Repair};
use crate::reading::read_plan::ReadPlan;
use crate::reading::tape::{Tape, TokenKind};
use crate::schema::keywords::{entries, texts};
use crate::schema::without_noise;
use crate::wire_shapes::RESULT;

/// A schema to validate texts against.
#[derive(Debug, Clone)]
pub(crate) struct Readable {
    /// The public form.
    pub(crate) schema: Arc<Value>,
    /// With Rust's formats of numbers, which only reading needs.
    pub(crate) source: Arc<Value>,
    /// Whether the schema has a Rust type.
    pub(crate) typed: bool,
    plan: Arc<ReadPlan>,
    /// The check for fields that the type drops; only of types that flatten an `Option`.
    dropping: Option<Arc<Dropping>>,
}

/// A check for fields that serde drops without an error.
///
/// serde reads a flattened `Option` as `None` if its fields are incomplete or do not fit. The
/// type then does not serialize them. A field that is in the text but not serialized was dropped.
#[derive(Debug)]
struct Dropping {
    /// The optional fields of the type that it serializes.
    fields: Vec<String>,
    /// Deserializes a text and serializes the value again.
    write: fn(&str) -> Option<Value>,
}

impl Readable {
    /// `typed` means that the schema has a Rust type.
    pub(crate) fn new(source: Value, typed: bool) -> Self {
        let plan = Arc::new(ReadPlan::of(&source, typed));
        let source = Arc::new(source);
        let schema = match typed {
            true => Arc::new(without_noise(Value::clone(&source))),
            false => Arc::clone(&source),
        };
        Self { schema, source, typed, plan, dropping: None }
    }

    /// The same for a schema with rules that the type does not enforce: every text is validated.
    pub(crate) fn checked(source: Value, typed: bool) -> Self {
        let readable = Self::new(source, typed);
        readable.plan.check_always();
        readable
    }

    /// Turns on the check for dropped fields if `T` flattens an `Option`: then a field is optional,
    /// never null and without a default. `writes` is the schema that `T` serializes to.
    pub(crate) fn check_dropping<T: Serialize + DeserializeOwned>(
        &mut self,
        writes: impl Fn() -> Value,
    ) {
        let (Some(root), graph) = (self.source.as_object(), &self.plan.graph) else {
            return;
        };
        let is_optional = |name: &str| texts(root, "required").all(|required| required != name);
        let optional = || entries(root, "properties").filter(|(name, _)| is_optional(name));
        let takes_null = |name: &str| {
            let field = graph.node(graph.root).object.described_field(name);
            field.is_some_and(|field| graph.node(field.node).takes_null())
        };
        let from_option = |(name, schema): (&String, &Value)| {
            schema.get("default").is_none() && !takes_null(name)
        };
        if !optional().any(from_option) || !strict_serde::asks::<T>("{}").buffered.get() {
            return;
        }
        let writes = writes();
        let is_written = |name: &&String| writes["properties"].get(*name).is_some();
        let fields = optional().map(|(name, _)| name).filter(is_written).cloned().collect();
        let write = |json: &str| {
            let value: T = serde_json::from_str(json).ok()?;
            serde_json::to_value(value).ok()
        };
        self.dropping = Some(Arc::new(Dropping { fields, write }));
    }

    /// Returns the first field of a text that its type drops.
    fn dropped(&self, json: &str) -> Option<&str> {
        let dropping = self.dropping.as_ref()?;
        let given: Map<String, Value> = serde_json::from_str(json).ok()?;
        let is_given =
            |name: &&String| given.get(*name).is_some_and(|value| !may_be_left_out(value));
        dropping.fields.iter().find(is_given)?;
        let written = (dropping.write)(json)?;
        let is_dropped =
            |name: &&String| is_given(name) && written.get(*name).is_none_or(Value::is_null);
        dropping.fields.iter().find(is_dropped).map(String::as_str)
    }

    /// Whether a text needs a validation beyond its type.
    pub(crate) fn is_checked(&self) -> bool {
        !self.plan.is_plain()
    }

    /// Whether it contains a float that must not be null.
    pub(crate) fn has_floats(&self) -> bool {
        self.plan.has_floats()
    }

    /// Asks the type for facts that the schema does not contain.
    pub(crate) fn ask<T: DeserializeOwned>(&self) {
        self.plan.ask::<T>();
    }

    /// Returns a reference that leads back to itself without a step down into the value.
    pub(crate) fn circle(&self) -> Option<String> {
        self.plan.graph.circle()
    }
}

/// Whether types often leave out a value when they are serialized, such as null or an empty list.
fn may_be_left_out(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(true) => false,
    }
}

/// The contract's side that a text is read as.
pub(crate) struct Target<'a> {
    pub(crate) contract: &'a str,
    pub(crate) side: Side,
    /// `None` if the value has no schema.
    pub(crate) readable: Option<&'a Readable>,
    /// The type is serialized as `null`, but the model is asked for an object.
    pub(crate) unit: bool,
    /// The model was asked for the value in the field [`RESULT`].
    pub(crate) wrapped: bool,
}

impl Target<'_> {
    /// Reads a text by the first step that can: see the [module](self).
    #[inline]
    pub(crate) fn read<T: DeserializeOwned>(
        &self,
        wire: &str,
        policy: Policy,
    ) -> Result<Reading<T>> {
        match self.readable.and_then(|readable| readable.plan.read_plain(wire)) {
            Some(value) => Ok(Reading::clean(value)),
            None => self.read_closely(wire, policy),
        }
    }

    /// Reads a text that is not plain, or whose type was not asked yet.
    #[inline(never)]
    fn read_closely<T: DeserializeOwned>(&self, wire: &str, policy: Policy) -> Result<Reading<T>> {
        let Some(readable) = self.readable else {
            return self.read_slowly(&ReadPlan::of(&Value::Bool(true), false), wire, policy);
        };
        let plan = &*readable.plan;
        plan.ask::<T>();
        // The facts about the type are now known for every later text.
        if let Some(value) = plan.read_plain(wire) {
            return Ok(Reading::clean(value));
        }
        match self.read_checked(plan, wire) {
            Some(value) if readable.dropped(wire).is_none() => Ok(Reading::clean(value)),
            _ => self.read_slowly(plan, wire, policy),
        }
    }

    /// Validates a serialized value against its schema. Repairs do not apply: a value either fits
    /// or does not.
    pub(crate) fn check(&self, json: &str) -> Result<()> {
        let Some(readable) = self.readable else {
            return Ok(());
        };
        let plan = &*readable.plan;
        if let Ok(tape) = Tape::parse(json)
            && FitCheck::new(&plan.graph, &tape).fits(&tape, 0, plan.graph.root) != Fits::No
        {
            return Ok(());
        }
        self.read_slowly::<IgnoredAny>(plan, json, Policy::Strict).map(drop)
    }

    /// Reads a text that fits without repairs.
    ///
    /// The value has to fit exactly, and to be cheap enough for its type.
    fn read_checked<T: DeserializeOwned>(&self, plan: &ReadPlan, wire: &str) -> Option<T> {
        if self.unit {
            return None;
        }
        let tape = Tape::parse(wire).ok()?;
        let token = if self.wrapped { wrapped(&tape)? } else { 0 };
        if FitCheck::new(&plan.graph, &tape).fits(&tape, token, plan.graph.root) != Fits::Yes {
            return None;
        }
        if !cost::is_affordable(plan, &tape, token) {
            return None;
        }
        serde_json::from_str(tape.whole(token)).ok()
    }

    /// Reads a text on the slow path: repairs it as far as the policy allows, and lists all faults.
    ///
    /// The value is deserialized last, so that errors of serde have a path as well: a type may have
    /// rules of its own.
    fn read_slowly<T: DeserializeOwned>(
        &self,
        plan: &ReadPlan,
        wire: &str,
        policy: Policy,
    ) -> Result<Reading<T>> {
        let (graph, name, side) = (&plan.graph, self.contract, self.side);
        let root = Document { graph, name, policy, wrapped: self.wrapped, side };
        let found = root.read(wire).map_err(|(faults, more)| self.error(wire, faults, more))?;
        if policy == Policy::Exact {
            let repairs = found.repairs.iter().filter(|repair| !repair.is_null_for_default());
            let faults: Vec<Fault> = repairs.map(of_repair).collect();
            if !faults.is_empty() {
                return Err(self.error(wire, faults, 0));
            }
        }
        let json = if self.unit { "null" } else { &found.json };
        if let Ok(tape) = Tape::parse(json)
            && !cost::is_affordable(plan, &tape, 0)
        {
            let fault = Fault::of_sentence(found.path, cost::TOO_DEEP);
            return Err(self.error(wire, vec![fault], 0));
        }
        if let Some(field) = self.readable.and_then(|readable| readable.dropped(json)) {
            let expected = format!("`{field}` with all that belongs to it");
            let got = "a part of it".to_owned();
            let message = format!(
                "`{field}` would be lost: what belongs to it is missing or does not fit; give all of it, or none"
            );
            let path = format!("{}.{field}", found.path);
            return Err(self.error(wire, vec![Fault { path, expected, got, message }], 0));
        }
        let mut json = serde_json::Deserializer::from_str(json);
        match serde_path_to_error::deserialize(&mut json) {
            Ok(value) => {
                let read = found.clean.unwrap_or(found.json);
                let json = if self.unit { "{}".to_owned() } else { read };
                Ok(Reading::repaired(value, found.repairs, json))
            }
            Err(error) => Err(self.error(wire, vec![Fault::of_serde(found.path, error)], 0)),
        }
    }

    /// Adds to a reading the first string with half of a character, if there is one.
    pub(crate) fn with_lost_half<T>(
        &self,
        mut reading: Reading<T>,
        wire: &str,
        policy: Policy,
    ) -> Result<Reading<T>> {
        let json = reading.json().unwrap_or(wire);
        let value: Value = serde_json::from_str(json).unwrap_or_default();
        let other = value.to_string().replace('\u{fffd}', "");
        let other: Value = serde_json::from_str(&other).unwrap_or_default();
        let mut path = "$".to_owned();
        if differs(&value, &other, &mut path) {
            let repair = Repair::new(path, "kept U+FFFD for a character that was cut in half");
            if policy == Policy::Exact {
                return Err(self.error(wire, vec![of_repair(&repair)], 0));
            }
            reading.repairs.push(repair);
        }
        Ok(reading)
    }

    /// Makes the error of a text with its faults.
    fn error(&self, wire: &str, faults: Vec<Fault>, more: usize) -> ContractError {
        ContractError::Reading {
            contract: self.contract.to_owned(),
            side: self.side,
            faults,
            more,
            raw: wire.to_owned(),
        }
    }
}

/// Returns the value of the field [`RESULT`] of an object that has no other field.
fn wrapped(tape: &Tape<'_>) -> Option<usize> {
    if tape.kind(0) != TokenKind::Object {
        return None;
    }
    tape.field(0, RESULT).filter(|_| tape.entries(0).nth(1).is_none())
}

/// Makes a fault from a repair, for the policy that does not allow repairs.
fn of_repair(Repair { path, what }: &Repair) -> Fault {
    let message = format!(
        "this needs a repair, and none is allowed here ({what}); write it as the schema says"
    );
    let (path, got) = (path.clone(), what.clone());
    Fault { path, expected: "a value that needs no repair".to_owned(), got, message }
}
