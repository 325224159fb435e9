//! The parts of a request's body that both APIs share.
//!
//! The types borrow from the request, so that the history is copied once: into the body.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolwright_module::message::{ReplyPart, Source};
use toolwright_module::model::{Effort, SettingSet, Settings, ToolChoice};
use toolwright_module::provider::object_of;
use toolwright_module::{Request, ToolCall};
use toolwright_signature::{Dialect, LoweredRequest};

use crate::error::Result;

/// The settings of a model that its requests need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options<'a> {
    pub(crate) model: &'a str,
    pub(crate) dialect: Dialect,
    pub(crate) structured_output: bool,
    pub(crate) settings: Option<&'a Settings>,
    pub(crate) supported: SettingSet,
    pub(crate) encrypted_reasoning: bool,
    pub(crate) stream: bool,
}

/// The fields of a tool. The APIs wrap them differently.
#[derive(Serialize)]
pub(crate) struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
    // Always sent, because the default of Responses is `true`.
    strict: bool,
}

/// The schemas of a request: one for each tool, and the answer's.
pub(crate) struct Schemas<'a> {
    pub(crate) functions: Vec<Function<'a>>,
    pub(crate) format: Option<Schema<'a>>,
}

/// Lowers the contracts of a request. They are lowered together, because the limits of strict
/// schemas hold for the sum of them.
pub(crate) fn schemas<'a>(request: &'a Request, options: &Options<'a>) -> Result<Schemas<'a>> {
    let output = request.output.as_deref().filter(|_| options.structured_output);
    let lowered = LoweredRequest::new(options.dialect, &*request.tools, output)?;
    let tools = request.tools.iter().zip(lowered.tools);
    let functions = tools.map(|(contract, lowered)| Function {
        name: contract.name(),
        description: contract.description(),
        parameters: &lowered.schema,
        strict: lowered.strict,
    });
    let format = output.zip(lowered.output).map(|(contract, lowered)| Schema {
        name: contract.name(),
        schema: &lowered.schema,
        strict: lowered.strict,
    });
    Ok(Schemas { functions: functions.collect(), format })
}

/// The schema of the answer.
#[derive(Serialize)]
pub(crate) struct Schema<'a> {
    name: &'a str,
    schema: &'a RawValue,
    strict: bool,
}

/// The value of `tool_choice`. `named` is the form for one tool.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Choice<T> {
    Word(&'static str),
    Named(T),
}

impl<T> Choice<T> {
    /// Returns the choice of a request, unless it is the default `auto`.
    pub(crate) fn of<'a>(request: &'a Request, named: impl FnOnce(&'a str) -> T) -> Option<Self> {
        match &request.tool_choice {
            _ if request.tools.is_empty() => None,
            ToolChoice::None => Some(Self::Word("none")),
            ToolChoice::Required => Some(Self::Word("required")),
            ToolChoice::Tool(name) => Some(Self::Named(named(name))),
            _ => None,
        }
    }
}

/// Returns the settings to send: the request's, and the model's where the request has none.
pub(crate) fn settings<'a>(
    request: &'a Request,
    options: &Options<'a>,
) -> Result<Cow<'a, Settings>> {
    let Some(settings) = request.settings_over(options.settings) else {
        return Ok(Cow::Owned(Settings::default()));
    };
    settings.check(options.supported)?;
    Ok(settings)
}

/// Returns the word for an effort. `xhigh` is the highest that the API knows.
pub(crate) fn effort(effort: Effort) -> &'static str {
    match effort {
        Effort::Off => "none",
        Effort::Minimal => "minimal",
        Effort::Low => "low",
        Effort::High => "high",
        Effort::Max => "xhigh",
        _ => "medium",
    }
}

/// Returns the body of a request as JSON, with the extra fields of the settings. They replace
/// fields of the same name.
pub(crate) fn to_json(
    body: &impl Serialize,
    extra: Option<&Map<String, Value>>,
) -> serde_json::Result<Vec<u8>> {
    let json = serde_json::to_vec(body)?;
    let Some(extra) = extra else { return Ok(json) };
    // As raw values, so that numbers and the order of fields stay as they are.
    let mut fields: Vec<(String, Box<RawValue>)> = Vec::new();
    let body: Fields = serde_json::from_slice(&json)?;
    fields.extend(body.0.into_iter().filter(|(name, _)| !extra.contains_key(name)));
    for (name, value) in extra {
        fields.push((name.clone(), serde_json::value::to_raw_value(value)?));
    }
    serde_json::to_vec(&Fields(fields))
}

/// The fields of an object, in order.
struct Fields(Vec<(String, Box<RawValue>)>);

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;

        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(FieldsVisitor)
    }
}

/// Returns the id of a file that was uploaded to OpenAI.
pub(crate) fn file_id<E: serde::ser::Error>(source: &Source) -> Result<Option<&str>, E> {
    match source {
        Source::File { provider, id } if provider == "openai" => Ok(Some(id)),
        Source::File { provider, .. } => Err(E::custom(format_args!(
            "a file of `{provider}` cannot be sent to OpenAI; send its bytes or its address"
        ))),
        _ => Ok(None),
    }
}

/// Returns a call's arguments as the text of a JSON object, which servers require.
pub(crate) fn arguments(call: &ToolCall) -> Cow<'_, str> {
    object_of(&call.arguments).unwrap_or(Cow::Borrowed(&call.arguments))
}

/// All text of a reply. It serializes as one string without building that string first.
pub(crate) struct Texts<'a>(pub(crate) &'a [ReplyPart]);

impl Texts<'_> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            ReplyPart::Text(text) => Some(&**text),
            _ => None,
        })
    }
}

impl fmt::Display for Texts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|text| f.write_str(text))
    }
}

impl Serialize for Texts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut texts = self.iter();
        match (texts.next(), texts.next()) {
            (Some(text), None) => serializer.serialize_str(text),
            _ => serializer.collect_str(self),
        }
    }
}

/// Returns the error for a kind of message that a newer version of the module layer has.
pub(crate) fn unknown<E: serde::ser::Error>() -> E {
    E::custom("this version of toolwright-openai does not support a kind of message in the request")
}
