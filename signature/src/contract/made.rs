//! Making a contract: of a type, or of the schemas of another program.
//!
//! A schema is checked ([`schema::check`]), rewritten with the keywords of JSON Schema 2020-12
//! ([`schema::modernise`]) and compiled for reading ([`Readable`]).

use std::any::type_name;
use std::borrow::Cow;

use schemars::JsonSchema;
use serde_json::Value;

use super::media::Media;
use super::{Caches, Contract, Output, or_words, refused};
use crate::error::{Checked, ContractError, NameFault, Refusal, Result, SchemaFault, Side, refuse};
use crate::limits::SCHEMA_DEPTH;
use crate::lowering::overlap::say_one_of;
use crate::reading::Readable;
use crate::schema::media::MediaField;
use crate::signature::Signature;
use crate::{name, schema};

impl Contract {
    /// Returns the contract of a signature.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use toolwright_signature::{Contract, Signature};
    /// /// How many entries there are.
    /// #[derive(Serialize, Deserialize, JsonSchema)]
    /// struct Count;
    ///
    /// impl Signature for Count {
    ///     type Output = u64;
    /// }
    ///
    /// let contract = Contract::of::<Count>()?;
    /// // Without fields, the input is an empty object.
    /// assert_eq!(contract.input()["type"], "object");
    /// contract.read::<Count>("{}")?;
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ContractError::Name`] means that providers do not accept the name, or that a generic
    ///   type keeps the name that all its instances share.
    /// - [`ContractError::Schema`] means that the schema is not valid, that the input is not an
    ///   object (such as an enum or a list: put it in a field of a struct), or that an attribute
    ///   cannot be meant: bounds that no value fits, or a default that breaks the rules of its field.
    pub fn of<S: Signature>() -> Result<Self> {
        let own_name = S::name();
        // Only at the end: a type inside an impl has angle brackets in its path. Only computed
        // names: a literal is intended.
        let shared = type_name::<S>().ends_with('>')
            && matches!(&own_name, Cow::Owned(name) if *name == name::of(&S::schema_name(), S::namespace()));
        if shared {
            return Err(generic(own_name.into_owned()));
        }
        name::check(&own_name)?;
        let (to_write, output_media) = schema::to_write::<S::Output>();
        let output = Some((schema::to_read::<S::Output>().0, to_write));
        let (input, typed, input_media) = input_of::<S>();
        let (name, description) = (own_name.into(), S::description().into());
        let mut contract = Self::prepared(name, description, input, typed, output, false)?;
        contract.input.ask::<S>();
        contract.input.check_dropping::<S>(|| schema::to_write::<S>().0);
        if let Some(output) = &mut contract.output {
            output.to_read.ask::<S::Output>();
            output.to_write.ask::<S::Output>();
            output.to_read.check_dropping::<S::Output>(|| schema::to_write::<S::Output>().0);
        }
        let media = Media { input: input_media, output: output_media };
        Ok(Self { title: schema::title_of::<S>(), media, ..contract })
    }

    /// Returns the contract of a type that is only deserialized, without an output schema.
    ///
    /// Use it for the arguments of a tool that returns plain text, or for a value that a model has
    /// to produce. An empty `name` or `description` means the type's own.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::Deserialize;
    /// # use toolwright_signature::Contract;
    /// /// Say hello to somebody.
    /// #[derive(Deserialize, JsonSchema)]
    /// struct SayHello {
    ///     name: String,
    /// }
    ///
    /// let contract = Contract::of_input::<SayHello>("", "")?;
    /// assert_eq!(contract.name(), "say_hello");
    /// assert_eq!(contract.description(), "Say hello to somebody.");
    /// let input: SayHello = contract.read(r#"{"name": "Kate"}"#)?;
    /// assert_eq!(input.name, "Kate");
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The same as those of [`Contract::of`].
    pub fn of_input<T: JsonSchema>(name: &str, description: &str) -> Result<Self> {
        let own_name = Self::name_of::<T>();
        // An explicit name is intended, even if it equals the type's own.
        if type_name::<T>().ends_with('>') && name.is_empty() {
            return Err(generic(own_name));
        }
        let name = if name.is_empty() { own_name } else { name.to_owned() };
        name::check(&name)?;
        let description = match description {
            "" => Self::description_of::<T>().unwrap_or_default(),
            text => text.to_owned(),
        };
        let (input, typed, media) = input_of::<T>();
        let contract = Self::prepared(name, description, input, typed, None, false)?;
        Ok(Self { media: Media { input: media, ..Media::default() }, ..contract })
    }

    /// Makes a contract at run time, from JSON Schemas of another program.
    ///
    /// `output` is one schema for serializing and deserializing, or `None` if the output has no
    /// schema.
    ///
    /// An input with empty `properties` and no other rule has no fields, although JSON Schema would
    /// allow any. Servers describe a tool without arguments like this. [`input`](Self::input)
    /// returns it closed. An input without `properties`, such as `{"type": "object"}`, allows any
    /// fields, and reading keeps all of them.
    ///
    /// Reading validates values against the schema, except for keywords that are rare and costly to
    /// check. The implementation of the tool has to check these:
    ///
    /// - `if`, `then` and `else`, `dependentSchemas`, `unevaluatedItems`
    /// - that only one member of a `oneOf` matches
    /// - bounds beside an `enum`
    ///
    /// Reading also limits its work. It rejects a value if the schema needs too many checks or
    /// follows too long a chain of references.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolwright_signature::Contract;
    ///
    /// let input = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    /// let contract = Contract::dynamic("get-weather", "Say the weather.", input, None)?;
    /// assert_eq!(contract.name(), "get-weather");
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ContractError::Name`] and [`ContractError::Schema`] have the same causes as in
    ///   [`Contract::of`].
    /// - [`ContractError::Schema`] also means that a schema contains itself where it must not, such
    ///   as `{"not": {"$ref": "#"}}`.
    pub fn dynamic(
        name: &str,
        description: &str,
        mut input: Value,
        output: Option<Value>,
    ) -> Result<Self> {
        // Before everything else, because most operations on a schema, including dropping it,
        // take stack for each of its levels.
        let is_deep = |schema: &Value| schema::is_deeper(schema, SCHEMA_DEPTH);
        let deep = match (is_deep(&input), output.as_ref().is_some_and(is_deep)) {
            (true, _) => Some(Side::Input),
            (false, true) => Some(Side::Output),
            (false, false) => None,
        };
        if let Some(side) = deep {
            schema::take_apart([input].into_iter().chain(output));
            name::check(name)?;
            return Err(refused(name, side, Refusal::new(SchemaFault::TooDeep, "$", TOO_DEEP)));
        }
        name::check(name)?;
        schema::close_fieldless(&mut input);
        let output = output.map(|schema| (schema.clone(), schema));
        Self::prepared(name.to_owned(), description.to_owned(), input, None, output, false)
    }

    /// Checks and compiles the schemas of a contract. The title and the description at the root of the
    /// input move to the contract, unless they are those of a stored schema.
    pub(super) fn prepared(
        name: String,
        mut description: String,
        mut input: Value,
        typed: Option<Typed>,
        mut output: Option<(Value, Value)>,
        is_stored: bool,
    ) -> Result<Self> {
        let outputs = output.iter_mut().flat_map(|(to_read, to_write)| [to_read, to_write]);
        let outputs = outputs.map(|schema| (Side::Output, schema));
        for (side, schema) in [(Side::Input, &mut input)].into_iter().chain(outputs) {
            let prepared = prepare(schema, side, typed.is_some());
            prepared.map_err(|refusal| refused(&name, side, refusal))?;
        }
        // A type's `$schema` is always the same version, so it is dropped.
        let marker = input.get("$schema").filter(|_| typed.is_none());
        let marker = marker.and_then(Value::as_str).map(str::to_owned);
        if let (false, Some(root)) = (is_stored, input.as_object_mut()) {
            root.shift_remove("$schema");
            root.shift_remove("title");
            let own = root.shift_remove("description");
            // The description belongs beside the name, where every provider reads it.
            if let (true, Some(Value::String(text))) = (description.is_empty(), own) {
                description = text;
            }
        }
        let input = match typed {
            // The type alone would read `null`, but the model is asked for an object.
            Some(Typed { unit_input: true, .. }) => Readable::checked(input, true),
            _ => Readable::new(input, typed.is_some()),
        };
        let output = output.map(|(read, write)| Output::new(read, write, typed.is_some()));
        let to_read = output.iter().map(|output| (Side::Output, &output.to_read));
        for (side, readable) in [(Side::Input, &input)].into_iter().chain(to_read) {
            if let Some(reference) = readable.circle() {
                let advice = "the reference leads back to itself; refer to it from a property or an item instead";
                let refusal = Refusal::new(SchemaFault::Circular, &reference, advice);
                return Err(refused(&name, side, refusal));
            }
        }
        Ok(Self {
            description: or_words(description, &name),
            name,
            title: None,
            marker,
            input,
            unit_input: typed.is_some_and(|typed| typed.unit_input),
            input_to_write: typed.map(|typed| typed.input_to_write),
            output,
            media: Media::default(),
            lowered: Caches::default(),
        })
    }
}

/// Facts about the Rust type of a contract that its schemas do not contain.
#[derive(Clone, Copy)]
pub(super) struct Typed {
    unit_input: bool,
    input_to_write: fn() -> Value,
}

/// Returns the schema of a type's input, the facts about the type, and its media.
fn input_of<T: JsonSchema>() -> (Value, Option<Typed>, Vec<MediaField>) {
    let (mut input, media) = schema::to_read::<T>();
    let unit_input = input.get("type").is_some_and(|kind| kind == "null");
    if unit_input {
        input = schema::nothing();
    } else {
        schema::close_empty(&mut input);
    }
    let typed = Typed { unit_input, input_to_write: || schema::to_write::<T>().0 };
    (input, Some(typed), media)
}

/// Returns the error of a generic type that keeps the name which all its instances share.
fn generic(name: String) -> ContractError {
    ContractError::Name { name, fault: NameFault::Generic }
}

/// Checks a schema, and rewrites it with the keywords of JSON Schema 2020-12.
fn prepare(schema: &mut Value, side: Side, typed: bool) -> Checked {
    if schema::is_deeper(schema, SCHEMA_DEPTH) {
        return refuse(SchemaFault::TooDeep, "$", TOO_DEEP);
    }
    schema::check(schema)?;
    if side == Side::Input {
        schema::root_object(schema);
        // Arguments are always an object, even if a generator adds `nullable` to every schema.
        if let Some(root) = schema.as_object_mut() {
            root.shift_remove("nullable");
        }
        if !schema::is_object(schema) {
            let reason = "it is not an object; put the value in a field of a struct";
            return refuse(SchemaFault::NotAnObject, "$", reason);
        }
    }
    if typed {
        schema::modernise(schema)
    } else {
        schema::modernise_marked(schema)
    }
    // References to plain names need no escapes.
    schema::rename_definitions(schema, |_| false);
    if typed {
        schema::check_attributes(schema)?;
        say_one_of(schema);
    }
    Ok(())
}

const TOO_DEEP: &str = "it nests too deep; make it flatter";
