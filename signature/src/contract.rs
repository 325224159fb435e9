//! The [`Contract`]: a signature as a value.
//!
//! Construction is the start of the pipeline. The schema of a type or of another program is
//! checked ([`schema::check`]), rewritten with the keywords of JSON Schema 2020-12
//! ([`schema::modernise`]) and compiled for reading ([`Readable`]). The submodules use the result:
//! `lowered` lowers it to a dialect, `read` reads texts with it, `compared` compares it with
//! another contract, and `stored` serializes it. `media` lists the fields that hold images and the
//! like.

mod changes;
mod compared;
mod lowered;
mod media;
mod read;
mod stored;

use std::any::type_name;
use std::borrow::Cow;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

pub use self::changes::{ChangedRule, ContractChange, ContractChangeKind, Dependent};
use self::media::Media;
use crate::error::{
    Checked, ContractError, NameFault, Refusal, Result, SchemaFault, Side, refuse, shortened_path,
};
use crate::limits::SCHEMA_DEPTH;
use crate::lowering::dialect::{Dialect, Lowered};
use crate::lowering::overlap::say_one_of;
use crate::reading::Readable;
use crate::schema::media::MediaField;
use crate::signature::Signature;
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
    /// The schema of serialized outputs; `None` if it equals `to_read`'s.
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

impl AsRef<Self> for Contract {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Contract {
    /// Name of the tool that ends a typed run: no other tool of that run may have it.
    pub const FINISH: &'static str = "finish";

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
            return Err(ContractError::Name {
                name: own_name.into_owned(),
                fault: NameFault::Generic,
            });
        }
        name::check(&own_name)?;
        let (to_write, output_media) = schema::to_write_with_media::<S::Output>();
        let output = (schema::to_read::<S::Output>(), to_write);
        let (input, typed, input_media) = input_of::<S>();
        let mut contract =
            Self::checked(own_name.into(), S::description().into(), input, typed, Some(output))?;
        contract.input.ask::<S>();
        contract.input.check_dropping::<S>(schema::to_write::<S>);
        if let Some(output) = &mut contract.output {
            output.to_read.ask::<S::Output>();
            output.written().ask::<S::Output>();
            output.to_read.check_dropping::<S::Output>(schema::to_write::<S::Output>);
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
            return Err(ContractError::Name { name: own_name, fault: NameFault::Generic });
        }
        let name = if name.is_empty() { own_name } else { name.to_owned() };
        name::check(&name)?;
        let description = match description {
            "" => Self::description_of::<T>().unwrap_or_default(),
            text => text.to_owned(),
        };
        let (input, typed, media) = input_of::<T>();
        let contract = Self::checked(name, description, input, typed, None)?;
        Ok(Self { media: Media { input: media, ..Media::default() }, ..contract })
    }

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
        let deep = [(Side::Input, Some(&input)), (Side::Output, output.as_ref())].into_iter().find(
            |(_, schema)| schema.is_some_and(|schema| schema::is_deeper(schema, SCHEMA_DEPTH)),
        );
        if let Some((side, _)) = deep {
            schema::take_apart([input].into_iter().chain(output));
            name::check(name)?;
            return Err(refused(name, side, Refusal::new(SchemaFault::TooDeep, "$", TOO_DEEP)));
        }
        name::check(name)?;
        schema::close_fieldless(&mut input);
        let output = output.map(|schema| (schema.clone(), schema));
        Self::checked(name.to_owned(), description.to_owned(), input, None, output)
    }

    fn checked(
        name: String,
        description: String,
        input: Value,
        typed: Option<Typed>,
        output: Option<(Value, Value)>,
    ) -> Result<Self> {
        Self::prepared(name, description, input, typed, output, Notes::Moved)
    }

    fn prepared(
        name: String,
        mut description: String,
        mut input: Value,
        typed: Option<Typed>,
        mut output: Option<(Value, Value)>,
        notes: Notes,
    ) -> Result<Self> {
        let outputs = output.iter_mut().flat_map(|(to_read, to_write)| [to_read, to_write]);
        let outputs = outputs.map(|schema| (Side::Output, schema));
        for (side, schema) in [(Side::Input, &mut input)].into_iter().chain(outputs) {
            let prepared = prepare(schema, side, typed.is_some());
            prepared.map_err(|refusal| refused(&name, side, refusal))?;
        }
        // A type's `$schema` is always the same version, so it is dropped.
        let mut marker = None;
        if let (true, Some(Value::String(named))) = (typed.is_none(), input.get("$schema")) {
            marker = Some(named.clone());
        }
        if let (Notes::Moved, Some(root)) = (notes, input.as_object_mut()) {
            for noise in ["$schema", "title"] {
                root.shift_remove(noise);
            }
            let own = root.shift_remove("description");
            // The description belongs beside the name, where every provider reads it.
            if let (true, Some(Value::String(text))) = (description.is_empty(), own) {
                description = text;
            }
        }
        let mut input = readable(input, typed.is_some());
        if typed.is_some_and(|typed| typed.unit_input) {
            // The type alone would read `null`, but the model is asked for an object.
            input = Readable::holding(input.schema, Value::clone(&input.source), true);
        }
        let output =
            output.map(|(to_read, to_write)| Output::new(to_read, to_write, typed.is_some()));
        let sides =
            [(Side::Input, Some(&input)), (Side::Output, output.as_ref().map(|o| &o.to_read))];
        for (side, readable) in sides {
            if let Some(reference) = readable.and_then(Readable::circle) {
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

    /// Returns the contract with another name.
    ///
    /// # Errors
    ///
    /// [`ContractError::Name`] means that providers do not accept the name.
    pub fn named(&self, name: &str) -> Result<Self> {
        name::check(name)?;
        Ok(Self { name: name.to_owned(), ..self.clone() })
    }

    /// Returns the contract with another description.
    #[must_use]
    pub fn described(&self, description: &str) -> Self {
        Self { description: or_words(description.to_owned(), &self.name), ..self.clone() }
    }

    /// Returns the contract with the text field `field` restricted to `names`.
    ///
    /// The field may be the path of a field inside others: `shape.class`. A list on the way, as in
    /// `shapes.class`, restricts the field of each item, and a list of texts each text.
    ///
    /// Use it for names that are known only at run time, such as registered classes, tables or
    /// agents. The model sees the names in the schema, and reading rejects any other name. A
    /// look-up by the field's value then always succeeds.
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
    /// [`ContractError::Schema`] means that the input has no such field, that the field is not a
    /// text (it may be optional or nullable), or that `names` is empty.
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
            return Err(refused("no name is allowed, so no call could fit; give at least one"));
        }
        let mut input = Value::clone(&self.input.source);
        let of_field = match field_at(&mut input, field) {
            Some(Ok(of_field)) => of_field,
            Some(Err(reason)) => return Err(refused(reason)),
            None => {
                return Err(refused("there is no such field; name one of the input's own fields"));
            }
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
            // The type itself accepts every text.
            input: Readable::holding(schema, input, typed),
            lowered: Caches::default(),
            ..self.clone()
        })
    }

    /// Returns the contract with one more value in the output, before the output itself.
    ///
    /// The new output is `{field, "output"}`. A model produces `field` first and can use it for the
    /// output, as in a chain of thought. The original output is nested because it need not be an
    /// object.
    ///
    /// # Errors
    ///
    /// [`ContractError::Schema`] means that this contract has no output schema, or that `schema` is
    /// not valid.
    pub fn asking_first(&self, field: &str, schema: Value) -> Result<Self> {
        let Some(output) = &self.output else {
            return Err(
                self.no_output("there is no output schema, so nothing can be asked for beside it")
            );
        };
        let checked = schema::check(&schema);
        checked.map_err(|refusal| refused(&self.name, Side::Output, refusal))?;
        let both =
            |output: &Value| schema::object([(field, schema.clone()), ("output", output.clone())]);
        let (to_read, to_write) = (both(&output.to_read.source), both(&output.written().source));
        let output = Output::new(to_read, to_write, output.to_read.typed);
        let media = self.media.clone().with_output_below("output");
        Ok(Self { output: Some(output), media, lowered: Caches::default(), ..self.clone() })
    }

    /// Returns the contract of the tool that ends a typed run: its arguments are this contract's
    /// output.
    ///
    /// Its name is [`FINISH`](Self::FINISH). Read its arguments with this contract's
    /// [`read_output`](Self::read_output).
    ///
    /// # Errors
    ///
    /// [`ContractError::Schema`] means that this contract has no output schema.
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
            media: Media { input: self.media.output.clone(), ..Media::default() },
            lowered: Caches::default(),
        })
    }

    /// Returns the input schema for use inside another schema, at the JSON pointer `pointer`.
    ///
    /// Its references then lead to the same definitions inside the other schema.
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
        self.output.as_ref().map(|output| &output.to_read.schema)
    }

    /// Returns the schema of a serialized output, as a tool returns it.
    #[must_use]
    pub fn output_to_write(&self) -> Option<&Value> {
        self.output.as_ref().map(|output| &output.written().schema)
    }

    /// Returns whether the output schema has rules that its type does not enforce. A serialized
    /// value may then break the schema, so it is checked before it is sent.
    #[must_use]
    pub fn checks_output(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.written().is_checked())
    }

    /// Returns whether the output contains a float that must not be null. serde serializes `NaN`
    /// and infinities as `null`, so an output that contains `null` is checked.
    #[must_use]
    pub fn output_has_floats(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.written().has_floats())
    }

    /// Validates a serialized output against [`output_to_write`](Self::output_to_write).
    ///
    /// The check is cheap where [`checks_output`](Self::checks_output) is false.
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
    /// [`ContractError::Reading`] lists every fault.
    pub fn check_output(&self, json: &str) -> Result<()> {
        let Some(output) = &self.output else {
            return Ok(());
        };
        let written = output.written();
        let may_break = written.is_checked() || written.has_floats() && json.contains("null");
        if may_break { self.check_written(output, json) } else { Ok(()) }
    }

    /// The error of an operation that needs an output schema.
    fn no_output(&self, reason: &str) -> ContractError {
        let (side, fault) = (Side::Output, SchemaFault::NoOutput);
        self.refused(side, Refusal::new(fault, "$", reason))
    }

    fn refused(&self, side: Side, refusal: Refusal) -> ContractError {
        refused(&self.name, side, refusal)
    }

    /// Serializes an input for the model as one line of JSON. An input without fields is `{}`.
    ///
    /// The result has the contract's own shape; [`lower_value`](Self::lower_value) converts it to
    /// the shape of a dialect.
    ///
    /// # Errors
    ///
    /// [`ContractError::Write`] means that the value does not serialize to JSON.
    pub fn write_input<T: Serialize>(&self, input: &T) -> Result<String> {
        if self.unit_input {
            return Ok("{}".to_owned());
        }
        serde_json::to_string(input)
            .map_err(|source| ContractError::write(self.name.clone(), source))
    }

    /// Returns a short hash of the name, the description and the schemas.
    ///
    /// It is the same on every machine and in every version, so it can be stored and compared
    /// later. It detects accidental changes; it does not protect against an attacker.
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

/// What happens to the title and the description at the root of an input schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notes {
    /// They move to the contract.
    Moved,
    /// They stay, because they are those of a stored schema.
    Kept,
}

/// Facts about the Rust type of a contract that its schemas do not contain.
#[derive(Clone, Copy)]
struct Typed {
    unit_input: bool,
    input_to_write: fn() -> Value,
}

/// Returns the schema of a type's input, the facts about the type, and its media.
fn input_of<T: JsonSchema>() -> (Value, Option<Typed>, Vec<MediaField>) {
    let (mut input, media) = schema::to_read_with_media::<T>();
    let unit_input = input.get("type").is_some_and(|kind| kind == "null");
    if unit_input {
        input = schema::nothing();
    } else {
        schema::close_empty(&mut input);
    }
    (input, Some(Typed { unit_input, input_to_write: schema::to_write::<T> }), media)
}

fn readable(source: Value, typed: bool) -> Readable {
    let schema = if typed { schema::without_noise(source.clone()) } else { source.clone() };
    Readable::new(schema, source, typed)
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
    schema::plain_definitions(schema);
    if typed {
        schema::check_attributes(schema)?;
        say_one_of(schema);
    }
    Ok(())
}

const TOO_DEEP: &str = "it nests too deep; make it flatter";

fn refused(contract: &str, side: Side, refusal: Refusal) -> ContractError {
    ContractError::Schema {
        contract: contract.to_owned(),
        side,
        fault: refusal.fault,
        path: shortened_path(refusal.path),
        reason: refusal.advice,
    }
}

/// Returns the schema of the field at a path of names, such as `shape.class`. Lists and options on the
/// way stand for the values in them. An error is the reason why the path cannot be followed.
fn field_at<'s>(
    schema: &'s mut Value,
    path: &str,
) -> Option<std::result::Result<&'s mut Map<String, Value>, &'static str>> {
    let is_whole = schema.get("properties").is_some_and(|fields| fields.get(path).is_some());
    let mut names = if is_whole { vec![path] } else { path.split('.').collect() };
    names.reverse();
    let mut found = schema;
    while let Some(name) = names.pop() {
        found = inner(found.get_mut("properties")?.get_mut(name)?)?;
        if found.get("$ref").is_some() {
            return Some(Err(
                "it leads through a type that contains itself, whose other uses it would restrict too",
            ));
        }
    }
    found.as_object_mut().map(Ok)
}

/// Returns the schema of the items of a list, and of the value in an option.
fn inner(schema: &mut Value) -> Option<&mut Value> {
    let is_list = match schema.get("type") {
        Some(Value::String(kind)) => kind == "array",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "array"),
        _ => false,
    };
    let is_null = |member: &Value| member.get("type").is_some_and(|kind| kind == "null");
    let members = schema.get("anyOf").and_then(Value::as_array);
    let option = members.and_then(|members| match &members[..] {
        [_, second] if is_null(second) => Some("/anyOf/0"),
        [first, _] if is_null(first) => Some("/anyOf/1"),
        _ => None,
    });
    match option.or((is_list && schema.get("items").is_some()).then_some("/items")) {
        Some(below) => inner(schema.pointer_mut(below)?),
        None => Some(schema),
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
