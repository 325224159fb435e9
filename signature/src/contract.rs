//! The [`Contract`]: a signature as a value.
//!
//! Construction is the start of the pipeline. A type or a foreign schema comes in, is checked
//! ([`schema::check`]), rewritten in the words of JSON Schema 2020-12
//! ([`schema::modernise`]) and compiled into what reading needs ([`Readable`]). The
//! submodules are what a contract does afterwards: `lowered` brings it to a dialect, `read`
//! reads texts against it, `compared` compares it with another one, `stored` serializes it.

mod compared;
mod lowered;
mod read;
mod stored;

use std::any::type_name;
use std::borrow::Cow;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

pub(crate) use self::lowered::shortened;
use crate::error::{ContractError, NameFault, Result, SchemaFault, Side};
use crate::limits::SCHEMA_DEPTH;
use crate::lowering::dialect::{Dialect, Lowered};
use crate::lowering::overlap::say_one_of;
use crate::reading::Readable;
use crate::schema::Refusal;
use crate::signature::Signature;
use crate::{name, schema};

/// A signature as a value: name, description and schemas, checked and ready to send.
///
/// Computing one walks the type's schema, so do it once, where a tool or a module is
/// made, and share it. Equal types give equal bytes every time: fields stand in the
/// order of their declaration and nothing depends on time or hashing.
///
/// A contract can also be made at run time, for a tool that some server describes:
/// see [`Contract::dynamic`].
#[derive(Debug, Clone)]
pub struct Contract {
    name: String,
    /// A name for people, where the type gives one.
    title: Option<String>,
    /// The version of JSON Schema that an input from outside says it is written in.
    marker: Option<String>,
    description: String,
    input: Readable,
    /// The input type serialises as `null`; models are asked for `{}`.
    unit_input: bool,
    /// The schema of what serde writes from the input type; made only to be compared.
    input_to_write: Option<fn() -> Value>,
    output: Option<Output>,
    lowered_input: Cache,
    /// The inputs that a request has no room for as strict ones.
    loose_input: Cache,
    lowered_output: Cache,
}

/// What was lowered so far, by dialect. Boxed, because most dialects are never asked for.
type Cache = [OnceLock<Box<Lowered>>; Dialect::ALL.len()];

/// serde and schemars tell what is read from what is written: defaults, skips and
/// renames may differ.
#[derive(Debug, Clone)]
struct Output {
    to_read: Readable,
    /// The schema of what serde writes; `None` if it is the one of what is read.
    to_write: Option<Readable>,
}

impl Output {
    fn new(to_read: Value, to_write: Value, typed: bool) -> Self {
        let to_write = (to_read != to_write).then(|| readable(to_write, typed));
        Self { to_read: readable(to_read, typed), to_write }
    }

    fn written(&self) -> &Readable {
        self.to_write.as_ref().unwrap_or(&self.to_read)
    }
}

impl Contract {
    /// The name of the tool that ends a typed run: no other tool of that run may have it.
    pub const FINISH: &'static str = "finish";

    /// The contract of a signature.
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
    /// // No fields still is an object to a model, and reads as one.
    /// assert_eq!(contract.input()["type"], "object");
    /// contract.read::<Count>("{}")?;
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ContractError::Name`] if the name cannot be shown to a model, or if a generic type
    /// keeps the name that all its instances share; [`ContractError::Schema`] if the input is
    /// not an object (an enum or a list: put it in a field of a struct).
    pub fn of<S: Signature>() -> Result<Self> {
        let own_name = S::name();
        // Only at the end: a type inside an impl has angle brackets in its path. And
        // only what was computed: a name written down was meant.
        let shared = type_name::<S>().ends_with('>')
            && matches!(&own_name, Cow::Owned(name) if *name == name::of::<S>());
        if shared {
            return Err(ContractError::Name {
                name: own_name.into_owned(),
                fault: NameFault::Generic,
            });
        }
        name::check(&own_name)?;
        let output = (schema::to_read::<S::Output>(), schema::to_write::<S::Output>());
        let (input, typed) = input_of::<S>();
        let mut contract =
            Self::checked(own_name.into(), S::description().into(), input, typed, Some(output))?;
        contract.input.ask::<S>();
        contract.input.check_dropping::<S>(schema::to_write::<S>);
        if let Some(output) = &mut contract.output {
            output.to_read.ask::<S::Output>();
            output.written().ask::<S::Output>();
            output.to_read.check_dropping::<S::Output>(schema::to_write::<S::Output>);
        }
        Ok(Self { title: schema::title_of::<S>(), ..contract })
    }

    /// The contract of a type that is only read: a tool's arguments where the answer is
    /// plain text, or an answer that a model is asked for by itself.
    ///
    /// An empty `name` or `description` stands for the type's own. It says nothing about
    /// an output.
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
    /// As [`Contract::of`].
    pub fn of_input<T: JsonSchema>(name: &str, description: &str) -> Result<Self> {
        let own_name = Self::name_of::<T>();
        // A name that is given was meant, also where it is the type's own.
        if type_name::<T>().ends_with('>') && name.is_empty() {
            return Err(ContractError::Name { name: own_name, fault: NameFault::Generic });
        }
        let name = if name.is_empty() { own_name } else { name.to_owned() };
        name::check(&name)?;
        let description = match description {
            "" => Self::description_of::<T>().unwrap_or_default(),
            text => text.to_owned(),
        };
        let (input, typed) = input_of::<T>();
        Self::checked(name, description, input, typed, None)
    }

    /// The name of a type's contract where none is given: its own in snake case.
    #[must_use]
    pub fn name_of<T: JsonSchema + ?Sized>() -> String {
        name::snake_case(&T::schema_name())
    }

    /// The description of a type's contract where none is given: its doc comment.
    #[must_use]
    pub fn description_of<T: JsonSchema + ?Sized>() -> Option<String> {
        schema::description_of::<T>()
    }

    /// A contract made at run time, from schemas that come from elsewhere.
    ///
    /// `output` is one schema for both directions, or `None` where the other side
    /// does not say what it returns.
    ///
    /// An input with empty `properties` and nothing beside them has no fields, although JSON
    /// Schema would let any in: that is how servers say that a tool takes no arguments.
    /// [`input`](Self::input) shows it closed. An input without `properties`, such as
    /// `{"type": "object"}`, takes any fields, and reading keeps all of them.
    ///
    /// Reading holds values to the schema, but for what is rare and dear: `if`, `then` and
    /// `else`, `dependentSchemas`, `unevaluatedItems`, that no second member of a `oneOf`
    /// fits, bounds beside an `enum`, and all patterns but the first that a name matches.
    /// Whoever runs the tool checks these. A value that a schema asks for too often, or by
    /// too long a chain of references, is refused as one the schema is too involved for.
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
    /// [`ContractError::Name`] and [`ContractError::Schema`], as for [`Contract::of`]; the latter as well
    /// if a schema is part of what it must not be, like `{"not": {"$ref": "#"}}`.
    pub fn dynamic(
        name: &str,
        description: &str,
        mut input: Value,
        output: Option<Value>,
    ) -> Result<Self> {
        // First of all, because most of what can be done with a schema, dropping it
        // included, takes stack for each of its levels.
        let deep = [(Side::Input, Some(&input)), (Side::Output, output.as_ref())].into_iter().find(
            |(_, schema)| schema.is_some_and(|schema| schema::is_deeper(schema, SCHEMA_DEPTH)),
        );
        if let Some((side, _)) = deep {
            schema::take_apart([input].into_iter().chain(output));
            name::check(name)?;
            return Err(too_deep(name, side));
        }
        name::check(name)?;
        schema::close_fieldless(&mut input);
        let output = output.map(|schema| (schema.clone(), schema));
        Self::checked(name.to_owned(), description.to_owned(), input, None, output)
    }

    fn checked(
        name: String,
        mut description: String,
        mut input: Value,
        typed: Option<Typed>,
        mut output: Option<(Value, Value)>,
    ) -> Result<Self> {
        let outputs = output.iter().flat_map(|(to_read, to_write)| [to_read, to_write]);
        for (side, schema) in
            [(Side::Input, &input)].into_iter().chain(outputs.map(|output| (Side::Output, output)))
        {
            if schema::is_deeper(schema, SCHEMA_DEPTH) {
                return Err(too_deep(&name, side));
            }
            schema::check(schema).map_err(|refusal| refused(&name, side, refusal))?;
        }
        schema::root_object(&mut input);
        // Arguments are an object, whatever a generator says of everything it writes.
        if let Some(root) = input.as_object_mut() {
            root.shift_remove("nullable");
        }
        if !schema::is_object(&input) {
            let reason = "it is not an object; put the value in a field of a struct";
            return Err(refused(
                &name,
                Side::Input,
                Refusal::new(SchemaFault::NotAnObject, "$", reason),
            ));
        }
        let outputs = output.iter_mut().flat_map(|(to_read, to_write)| [to_read, to_write]);
        // What a type says of itself is always of one version; so it is dropped.
        let mut marker = None;
        for schema in [&mut input].into_iter().chain(outputs) {
            if typed.is_some() {
                schema::modernise(schema);
            } else {
                schema::modernise_marked(schema);
            }
            schema::plain_definitions(schema);
            if typed.is_some() {
                say_one_of(schema);
            }
        }
        if let (true, Some(Value::String(named))) = (typed.is_none(), input.get("$schema")) {
            marker = Some(named.clone());
        }
        if let Some(root) = input.as_object_mut() {
            for noise in ["$schema", "title"] {
                root.shift_remove(noise);
            }
            let own = root.shift_remove("description");
            // The contract says it once, beside the name, where every provider looks.
            if let (true, Some(Value::String(text))) = (description.is_empty(), own) {
                description = text;
            }
        }
        let input = readable(input, typed.is_some());
        let output =
            output.map(|(to_read, to_write)| Output::new(to_read, to_write, typed.is_some()));
        let sides =
            [(Side::Input, Some(&input)), (Side::Output, output.as_ref().map(|o| &o.to_read))];
        for (side, readable) in sides {
            if let Some(reference) = readable.and_then(Readable::circle) {
                let advice = "the reference leads back to itself; refer to it from a property or an item instead";
                return Err(refused(
                    &name,
                    side,
                    Refusal::new(SchemaFault::Circular, &reference, advice),
                ));
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
            lowered_input: Cache::default(),
            loose_input: Cache::default(),
            lowered_output: Cache::default(),
        })
    }

    /// The same contract under another name.
    ///
    /// # Errors
    ///
    /// [`ContractError::Name`] if the name cannot be shown to a model.
    pub fn named(&self, name: &str) -> Result<Self> {
        name::check(name)?;
        Ok(Self { name: name.to_owned(), ..self.clone() })
    }

    /// The same contract with another description.
    #[must_use]
    pub fn described(&self, description: &str) -> Self {
        Self { description: or_words(description.to_owned(), &self.name), ..self.clone() }
    }

    /// The same contract, whose text `field` takes one of `names` only.
    ///
    /// The names are those that the program has registered by now: of classes, tables,
    /// agents. The type knows only that they are texts. A model is shown them, and reading
    /// refuses any other, so the handler finds what it looks up.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use std::collections::BTreeMap;
    /// # use toolwright_signature::{Contract, Signature};
    /// /// Draw a shape.
    /// #[derive(Debug, Serialize, Deserialize, JsonSchema)]
    /// struct Draw {
    ///     shape: String,
    /// }
    ///
    /// impl Signature for Draw {
    ///     type Output = String;
    /// }
    ///
    /// let corners = BTreeMap::from([("Circle", 0), ("Square", 4)]);
    /// let contract = Contract::of::<Draw>()?.allowing("shape", corners.keys().copied())?;
    ///
    /// let draw: Draw = contract.read(r#"{"shape": "Square"}"#)?;
    /// assert_eq!(corners[&*draw.shape], 4);
    ///
    /// let error = contract.read::<Draw>(r#"{"shape": "Line"}"#).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "input of `draw` does not fit: \
    ///      $.shape: expected one of `Circle`, `Square`, got the string \"Line\""
    /// );
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ContractError::Schema`] if the input has no such field, if the field is not a text (it may
    /// be left out or null), or if there are no names.
    pub fn allowing<'a>(
        &self,
        field: &str,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self> {
        let refused = |reason: &str| {
            let fault = SchemaFault::Field;
            let path = format!("$.{field}");
            refused(&self.name, Side::Input, Refusal::new(fault, &path, reason))
        };
        let mut names: Vec<Value> = names.into_iter().map(Value::from).collect();
        if names.is_empty() {
            return Err(refused("no name is allowed, so no call could fit; give one at least"));
        }
        let mut input = Value::clone(&self.input.source);
        let of_field = input.get_mut("properties").and_then(|fields| fields.get_mut(field));
        let Some(of_field) = of_field.and_then(Value::as_object_mut) else {
            return Err(refused("there is no such field; name one of the input's own fields"));
        };
        let null = Value::from("null");
        match of_field.get("type") {
            Some(Value::String(kind)) if kind == "string" => {}
            Some(Value::Array(kinds)) if *kinds == [Value::from("string"), null] => {
                names.push(Value::Null);
            }
            _ => return Err(refused("it is not a text; name a field of type `String`")),
        }
        of_field.insert("enum".to_owned(), Value::Array(names));
        let typed = self.input.typed;
        let schema = if typed { schema::without_noise(input.clone()) } else { input.clone() };
        Ok(Self {
            // The type takes every text.
            input: Readable::holding(schema, input, typed),
            lowered_input: Cache::default(),
            loose_input: Cache::default(),
            ..self.clone()
        })
    }

    /// The same contract, asking for one more value before its output.
    ///
    /// A model that has to produce the output is asked for `{field, "output"}`: what
    /// it writes first, it can use for what it writes next. Nested, because an output
    /// need not be an object.
    ///
    /// # Errors
    ///
    /// [`ContractError::Schema`] if this contract does not say what it returns.
    pub fn asking_first(&self, field: &str, schema: Value) -> Result<Self> {
        let Some(output) = &self.output else {
            return Err(
                self.no_output("there is no output schema, so nothing can be asked for beside it")
            );
        };
        let both =
            |output: &Value| schema::object([(field, schema.clone()), ("output", output.clone())]);
        let (to_read, to_write) = (both(&output.to_read.source), both(&output.written().source));
        let output = Output::new(to_read, to_write, output.to_read.typed);
        Ok(Self { output: Some(output), lowered_output: Cache::default(), ..self.clone() })
    }

    /// The tool that ends a typed run: its arguments are this contract's output.
    ///
    /// It has the one name that no other tool of the run may have, and its arguments are
    /// read with this contract's [`read_output`](Self::read_output).
    ///
    /// # Errors
    ///
    /// [`ContractError::Schema`] if this contract does not say what it returns.
    pub fn finish(&self) -> Result<Self> {
        let Some(Output { to_read, .. }) = &self.output else {
            return Err(self.no_output("there is no output schema, so a run cannot end with it"));
        };
        let output = Value::clone(&to_read.source);
        let input = if schema::is_object(&output) { output } else { schema::wrap(output) };
        Ok(Self {
            name: Self::FINISH.to_owned(),
            title: None,
            marker: None,
            description: "Give the final answer and end. Call it alone, once you know the answer."
                .to_owned(),
            input: readable(input, to_read.typed),
            unit_input: false,
            input_to_write: None,
            output: None,
            lowered_input: Cache::default(),
            loose_input: Cache::default(),
            lowered_output: Cache::default(),
        })
    }

    /// The schema of the input as it stands inside another one, where `pointer` (a JSON
    /// pointer) leads to it there: what it refers to is found there too.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use serde_json::json;
    /// # use toolwright_signature::{Contract, Signature};
    /// /// Draw a tree.
    /// #[derive(Serialize, Deserialize, JsonSchema)]
    /// struct Draw {
    ///     tree: Tree,
    /// }
    ///
    /// #[derive(Serialize, Deserialize, JsonSchema)]
    /// struct Tree {
    ///     branches: Vec<Tree>,
    /// }
    ///
    /// impl Signature for Draw {
    ///     type Output = String;
    /// }
    ///
    /// let draw = Contract::of::<Draw>()?.input_at("/properties/draw");
    /// assert!(draw.to_string().contains(r##""$ref":"#/properties/draw/"##), "{draw}");
    /// let plan = json!({"type": "object", "properties": {"draw": draw}, "required": ["draw"]});
    /// Contract::dynamic("plan", "Plan a drawing.", plan, None)?;
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    #[must_use]
    pub fn input_at(&self, pointer: &str) -> Value {
        let mut input = self.input().clone();
        schema::redirect(&mut input, &|reference| {
            let below = reference.strip_prefix('#')?;
            (below.is_empty() || below.starts_with('/')).then(|| format!("#{pointer}{below}"))
        });
        input
    }

    /// What a model calls this by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What this is for.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The schema of what goes in: an object at the root.
    #[must_use]
    pub fn input(&self) -> &Value {
        &self.input.schema
    }

    /// The schema of an output that a model has to produce.
    #[must_use]
    pub fn output_to_read(&self) -> Option<&Value> {
        self.output.as_ref().map(|output| &output.to_read.schema)
    }

    /// The schema of an output as a tool gives it.
    #[must_use]
    pub fn output_to_write(&self) -> Option<&Value> {
        self.output.as_ref().map(|output| &output.written().schema)
    }

    /// Whether the schema of an output says more than its type does. A value that serde
    /// wrote may then break the schema, so it is checked before it goes out.
    #[must_use]
    pub fn checks_output(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.written().is_checked())
    }

    /// Whether an output has a float that is never null: serde writes `null` for one that is
    /// not a number, so an output with a `null` in it is checked.
    #[must_use]
    pub fn output_has_floats(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.written().has_floats())
    }

    /// Holds an output, as serde writes it, to [`output_to_write`](Self::output_to_write).
    ///
    /// It costs little where [`checks_output`](Self::checks_output) is false.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use toolwright_signature::{Contract, Signature};
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct Rate {}
    /// #[derive(Serialize, Deserialize, JsonSchema)]
    /// struct Rating {
    ///     #[schemars(range(min = 1, max = 5))]
    ///     stars: u8,
    /// }
    ///
    /// impl Signature for Rate {
    ///     type Output = Rating;
    /// }
    ///
    /// let contract = Contract::of::<Rate>()?;
    /// contract.check_output(r#"{"stars": 5}"#)?;
    /// let error = contract.check_output(r#"{"stars": 9}"#).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "output of `rate` does not fit: $.stars: expected an integer from 1 to 5, got the number 9",
    /// );
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ContractError::Reading`] with everything that does not fit.
    pub fn check_output(&self, json: &str) -> Result<()> {
        let Some(output) = &self.output else {
            return Ok(());
        };
        let written = output.written();
        let may_break = written.is_checked() || written.has_floats() && json.contains("null");
        if may_break { self.check_written(output, json) } else { Ok(()) }
    }

    /// The error of what needs an output schema where the contract has none.
    fn no_output(&self, reason: &str) -> ContractError {
        let (side, fault) = (Side::Output, SchemaFault::NoOutput);
        refused(&self.name, side, Refusal::new(fault, "$", reason))
    }

    /// Writes an input as a model reads it: one line of JSON, `{}` where there are no
    /// fields.
    ///
    /// In the contract's own shape; [`lower_value`](Self::lower_value) brings it to a
    /// dialect's.
    ///
    /// # Errors
    ///
    /// [`ContractError::Write`] if the value has no JSON form.
    pub fn write_input<T: Serialize>(&self, input: &T) -> Result<String> {
        if self.unit_input {
            return Ok("{}".to_owned());
        }
        serde_json::to_string(input)
            .map_err(|source| ContractError::write(self.name.clone(), source))
    }

    /// A short text that changes whenever name, description or a schema changes.
    ///
    /// It is the same on every machine and in every version, so it can be stored and
    /// compared later. It guards against drift, not against an attacker.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        // FNV-1a, 128 bits: the standard library's hashers may change between releases.
        const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        let schemas = [Some(self.input()), self.output_to_read(), self.output_to_write()];
        let texts = [self.name.clone(), self.description.clone()].into_iter().chain(
            schemas.into_iter().map(|schema| schema.map(Value::to_string).unwrap_or_default()),
        );
        let mut hash = OFFSET;
        for text in texts {
            // The separator keeps ("ab", "c") apart from ("a", "bc").
            for byte in text.bytes().chain([0xff]) {
                hash = (hash ^ u128::from(byte)).wrapping_mul(PRIME);
            }
        }
        format!("{hash:032x}")
    }
}

/// What is known of a contract beyond its schemas if a type stands behind it.
#[derive(Clone, Copy)]
struct Typed {
    unit_input: bool,
    input_to_write: fn() -> Value,
}

/// The schema of a type's input, and what is known of the type.
fn input_of<T: JsonSchema>() -> (Value, Option<Typed>) {
    let mut input = schema::to_read::<T>();
    let unit_input = input.get("type").is_some_and(|kind| kind == "null");
    if unit_input {
        input = schema::nothing();
    } else {
        schema::close_empty(&mut input);
    }
    (input, Some(Typed { unit_input, input_to_write: schema::to_write::<T> }))
}

fn readable(source: Value, typed: bool) -> Readable {
    let schema = if typed { schema::without_noise(source.clone()) } else { source.clone() };
    Readable::new(schema, source, typed)
}

fn too_deep(contract: &str, side: Side) -> ContractError {
    refused(
        contract,
        side,
        Refusal::new(SchemaFault::TooDeep, "$", "it nests too deep; make it flatter"),
    )
}

fn refused(contract: &str, side: Side, refusal: Refusal) -> ContractError {
    ContractError::Schema {
        contract: contract.to_owned(),
        side,
        fault: refusal.fault,
        path: lowered::shortened(refusal.path),
        reason: refusal.advice,
    }
}

/// The description, or the name in words where there is none.
fn or_words(description: String, name: &str) -> String {
    if description.trim().is_empty() {
        return name::words(name);
    }
    description
}

/// Two contracts are equal if a model could not tell them apart.
impl PartialEq for Contract {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.description == other.description
            && self.input() == other.input()
            && self.output_to_read() == other.output_to_read()
            && self.output_to_write() == other.output_to_write()
    }
}
