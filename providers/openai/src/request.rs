//! The parts of a request's body that both APIs share.
//!
//! The types borrow from the request, so that the history is copied once: into the body.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use toolwright_module::message::ReplyPart;
use toolwright_module::model::ToolChoice;
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
    pub(crate) temperature: Option<f32>,
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

/// Returns the value of `tool_choice`, unless it is the default `auto`.
pub(crate) fn tool_choice(request: &Request) -> Option<&'static str> {
    match request.tool_choice {
        _ if request.tools.is_empty() => None,
        ToolChoice::None => Some("none"),
        ToolChoice::Required => Some("required"),
        _ => None,
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
            ReplyPart::Text(text) => Some(text.as_str()),
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
