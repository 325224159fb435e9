//! Definitions: the name, description and parameters of a tool or of structured output.
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolwright_module::message::CallKind;
use toolwright_module::runner::Arguments;
use toolwright_module::{Effect, Result, Tool};
use toolwright_signature::{Contract, Dialect, Loss, Policy};

use crate::custom::{Format, as_function};
use crate::pretty;

/// The description of a tool, or of structured output, for a request to a model.
///
/// A [`ToolGroup`](crate::ToolGroup) has a definition for each of its tools, and
/// [`Handle::definition`](crate::Handle::definition) returns that of one. [`Definition::output`]
/// makes one from a type without a handler, for structured output. Provider crates convert definitions to their wire
/// format.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use toolwright_group::Definition;
///
/// /// People and places that a text names.
/// #[derive(Deserialize, JsonSchema)]
/// struct Entities {
///     people: Vec<String>,
///     places: Vec<String>,
/// }
///
/// let format = Definition::output::<Entities>()?.with_strict(true);
/// assert_eq!(format.name(), "entities");
///
/// let reply = r#"{"people": ["Kate"], "places": []}"#;
/// assert_eq!(format.read::<Entities>(reply)?.people, ["Kate"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Definition {
    /// For a custom tool: the contract of the equivalent function.
    contract: Arc<Contract>,
    type_name: Cow<'static, str>,
    effect: Effect,
    policy: Policy,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Function { strict: bool, schema: Option<Arc<Schema>> },
    Custom { description: Cow<'static, str>, format: Option<Format> },
}

/// The metadata that a handler declares. Empty texts are replaced by defaults.
pub(crate) struct Said {
    pub(crate) name: Cow<'static, str>,
    pub(crate) generate_name: fn(&str) -> Cow<'static, str>,
    pub(crate) description: Cow<'static, str>,
    pub(crate) effect: Effect,
    pub(crate) policy: Policy,
    pub(crate) kind: SaidKind,
}

pub(crate) enum SaidKind {
    Function { schema: Option<Value>, strict: bool },
    Custom { format: Option<Format> },
}

/// A schema that is sent unchanged, with its serialized form.
#[derive(Debug)]
struct Schema {
    value: Value,
    raw: Box<RawValue>,
}

/// The parameters of a [`Definition`] in one dialect.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Parameters<'a> {
    /// The serialized schema.
    pub schema: &'a RawValue,
    /// Whether to send `strict: true`. A strict dialect does not support every schema.
    pub strict: bool,
    /// The rules of the schema that the dialect cannot express.
    pub losses: &'a [Loss],
}

impl Definition {
    /// Returns the definition of structured output: a type that the model fills in.
    ///
    /// It has the name and the description of the type itself. A tool may override them in
    /// [`Handle`](crate::Handle), and has them in
    /// [`Handle::definition`](crate::Handle::definition).
    ///
    /// # Errors
    ///
    /// The errors of [`Contract::of`].
    pub fn output<T: DeserializeOwned + JsonSchema>()
    -> Result<Self, toolwright_signature::ContractError> {
        Ok(Self::function::<T>(Contract::of_input::<T>("", "")?, Effect::Read))
    }

    /// Returns the definition of `T` from the metadata of its handler. The defaults are those of
    /// [`Handle`](crate::Handle).
    pub(crate) fn said_of<T: JsonSchema>(
        said: Said,
    ) -> Result<Self, toolwright_signature::ContractError> {
        let schema = match &said.kind {
            SaidKind::Function { schema, .. } => schema.as_ref(),
            SaidKind::Custom { .. } => None,
        };
        let name = or(said.name, || default_name::<T>(said.generate_name));
        // An explicit name is kept for every instance of a generic type. A name computed from the
        // type is passed on as empty.
        let own = matches!(&name, Cow::Owned(name) if *name == Contract::name_of::<T>());
        let given = if own { "" } else { &*name };
        let description = or(said.description, || default_description::<T>(schema));
        let (contract, kind) = match said.kind {
            SaidKind::Function { schema: None, strict } => {
                let contract = Contract::of_input::<T>(given, &description)?;
                (contract, Kind::Function { strict, schema: None })
            }
            SaidKind::Function { schema: Some(value), strict } if is_deep(&value) => {
                // The contract rejects a schema this deep. A copy before that would overflow the
                // stack.
                let contract = Contract::dynamic(&name, &description, value, None)?;
                (contract, Kind::Function { strict, schema: None })
            }
            SaidKind::Function { schema: Some(value), strict } => {
                let raw = serde_json::value::to_raw_value(&value).map_err(|source| {
                    toolwright_signature::ContractError::Write {
                        contract: name.to_string(),
                        source,
                    }
                })?;
                let contract = Contract::dynamic(&name, &description, value.clone(), None)?;
                let schema = Some(Arc::new(Schema { value, raw }));
                (contract, Kind::Function { strict, schema })
            }
            SaidKind::Custom { format } => {
                let function = as_function(format.as_ref());
                let contract = Contract::dynamic(&name, &description, function, None)?;
                (contract, Kind::Custom { description, format })
            }
        };
        Ok(Self { kind, policy: said.policy, ..Self::function::<T>(contract, said.effect) })
    }

    pub(crate) fn of_tool(tool: &Tool, type_name: Cow<'static, str>) -> Self {
        let contract = Arc::clone(tool.contract());
        let kind = Kind::Function { strict: false, schema: None };
        Self { contract, type_name, effect: tool.effect(), policy: tool.policy(), kind }
    }

    fn function<T: JsonSchema>(contract: Contract, effect: Effect) -> Self {
        let kind = Kind::Function { strict: false, schema: None };
        let (contract, policy) = (Arc::new(contract), Policy::default());
        Self { contract, type_name: T::schema_name(), effect, policy, kind }
    }

    /// Renames the definition.
    ///
    /// # Errors
    ///
    /// The errors of [`Contract::named`].
    pub fn named(self, name: &str) -> Result<Self, toolwright_signature::ContractError> {
        Ok(Self { contract: Arc::new(self.contract.named(name)?), ..self })
    }

    /// Replaces the description.
    #[must_use]
    pub fn described(mut self, text: &str) -> Self {
        self.contract = Arc::new(self.contract.described(text));
        if let Kind::Custom { description, .. } = &mut self.kind {
            *description = Cow::Owned(text.to_owned());
        }
        self
    }

    /// Sets whether the provider has to guarantee that the arguments fit the schema. It has no
    /// effect on a custom tool, which has a format instead.
    #[must_use]
    pub fn with_strict(mut self, value: bool) -> Self {
        if let Kind::Function { strict, .. } = &mut self.kind {
            *strict = value;
        }
        self
    }

    /// Returns the name by which the model calls the tool.
    #[must_use]
    pub fn name(&self) -> &str {
        self.contract.name()
    }

    /// Returns the description. Empty for a custom tool without one.
    #[must_use]
    pub fn description(&self) -> &str {
        match &self.kind {
            Kind::Function { .. } => self.contract.description(),
            Kind::Custom { description, .. } => description,
        }
    }

    /// Returns whether the tool is a function or a custom tool.
    #[must_use]
    pub fn kind(&self) -> CallKind {
        match &self.kind {
            Kind::Function { .. } => CallKind::Function,
            Kind::Custom { .. } => CallKind::Custom,
        }
    }

    /// Returns whether the provider has to guarantee that the arguments fit the schema.
    #[must_use]
    pub fn strict(&self) -> bool {
        matches!(self.kind, Kind::Function { strict: true, .. })
    }

    /// Returns the format of a custom tool's text, if it has one.
    #[must_use]
    pub fn format(&self) -> Option<&Format> {
        match &self.kind {
            Kind::Function { .. } => None,
            Kind::Custom { format, .. } => format.as_ref(),
        }
    }

    /// Returns the effect of a call.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Sets how far a model's arguments may be repaired. Default: [`Policy::Coerce`].
    #[must_use]
    pub fn with_policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// Returns how far a model's arguments may be repaired.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Returns the contract that reads the model's text. For a custom tool, it is the contract of a
    /// function with the text as its only field, for providers that support functions only.
    #[must_use]
    pub fn contract(&self) -> &Arc<Contract> {
        &self.contract
    }

    /// Returns the JSON Schema of the parameters, before it is lowered to a dialect.
    #[must_use]
    pub fn schema(&self) -> &Value {
        self.own_schema().map_or_else(|| self.contract.input(), |schema| &schema.value)
    }

    /// Returns the serialized parameters in a provider's dialect. An explicit schema
    /// ([`Handle::schema`](crate::Handle::schema)) stays unchanged.
    ///
    /// # Errors
    ///
    /// The errors of [`Contract::lower`].
    pub fn parameters(
        &self,
        dialect: Dialect,
    ) -> Result<Parameters<'_>, toolwright_signature::ContractError> {
        if let Some(schema) = self.own_schema() {
            return Ok(Parameters { schema: &schema.raw, strict: self.strict(), losses: &[] });
        }
        let lowered = self.contract.lower(dialect)?;
        Ok(Parameters { schema: &lowered.schema, strict: lowered.strict, losses: &lowered.losses })
    }

    fn own_schema(&self) -> Option<&Schema> {
        match &self.kind {
            Kind::Function { schema, .. } => schema.as_deref(),
            Kind::Custom { .. } => None,
        }
    }

    /// Reads a model's text. It is repaired as far as the [policy](Self::with_policy) allows.
    ///
    /// To get the repairs, use [`Contract::read_with`] on the [contract](Self::contract).
    ///
    /// # Errors
    ///
    /// [`Stage::Arguments`](toolwright_module::error::Stage::Arguments). The error's text for the
    /// model names everything that does not fit.
    pub fn read<T: DeserializeOwned>(&self, text: &str) -> Result<T> {
        let arguments =
            Arguments { contract: &self.contract, text, policy: self.policy, keeps_value: false };
        arguments.read().map(|(value, _)| value)
    }

    fn shown(&self) -> Value {
        match &self.kind {
            Kind::Function { strict, .. } => json!({
                "type": "function",
                "name": self.name(),
                "description": self.description(),
                "strict": strict,
                "json_schema": self.schema(),
            }),
            Kind::Custom { description, format } => {
                let mut shown = json!({"type": "custom", "name": self.name()});
                if !description.is_empty() {
                    shown["description"] = json!(description);
                }
                if let Some(format) = format {
                    shown["format"] = pretty::format(format);
                }
                shown
            }
        }
    }
}

/// A readable form: the type's name around its JSON.
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::Deserialize;
/// # use toolwright_group::Definition;
/// /// Answer pong.
/// #[derive(Deserialize, JsonSchema)]
/// struct Ping {}
///
/// let shown = Definition::output::<Ping>()?.to_string();
/// assert!(shown.starts_with("Ping({\n    \"type\": \"function\",\n    \"name\": \"ping\","));
/// # Ok::<(), toolwright_signature::ContractError>(())
/// ```
impl fmt::Display for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.type_name, pretty::indented(&self.shown()))
    }
}

/// Returns the first text, or the second if the first is empty.
fn or(first: Cow<'static, str>, second: impl FnOnce() -> Cow<'static, str>) -> Cow<'static, str> {
    if first.is_empty() { second() } else { first }
}

/// Returns the generated name, or the type's name in snake case.
pub(crate) fn default_name<T: JsonSchema>(
    generate: impl FnOnce(&str) -> Cow<'static, str>,
) -> Cow<'static, str> {
    or(generate(&T::schema_name()), || Contract::name_of::<T>().into())
}

/// Returns the description in a schema, or the type's doc comment.
pub(crate) fn default_description<T: JsonSchema>(schema: Option<&Value>) -> Cow<'static, str> {
    let own = schema.and_then(|schema| schema.get("description")?.as_str());
    or(own.unwrap_or_default().trim().to_owned().into(), || {
        Contract::description_of::<T>().unwrap_or_default().into()
    })
}

/// Returns whether the schema has more levels than JSON that can be parsed. Copying or serializing
/// it could overflow the stack.
fn is_deep(schema: &Value) -> bool {
    fn exceeds(node: &Value, levels: u8) -> bool {
        let below = |node| levels == 0 || exceeds(node, levels - 1);
        match node {
            Value::Object(map) => map.values().any(below),
            Value::Array(items) => items.iter().any(below),
            _ => false,
        }
    }
    exceeds(schema, 128)
}
