//! [`Request`], a client's message as far as it can be read.

use std::borrow::Cow;

use rmcp::model::{ErrorCode, ErrorData};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolwright_module::Error;
use toolwright_module::error::Stage;
use toolwright_signature::{check_fields_once, has_lost_half, lost_half, readable_json};

use crate::lines::MessageScanner;

/// The arguments of a call as the client wrote them.
///
/// rmcp gives them as a map of values, in which the last of two equal keys has won and large integers
/// are rounded. The tool reads this text instead, and refuses what it cannot read exactly.
#[derive(Clone)]
pub(crate) struct RawArguments {
    pub(crate) json: Box<RawValue>,
    /// The path of the first string with half of a character, which the client cut.
    half: Option<String>,
}

impl RawArguments {
    /// Checks that no object has a key twice and that no string was cut inside a character. The tool
    /// may read the arguments without a contract.
    ///
    /// # Errors
    ///
    /// An error for the model, as for a tool that reads its arguments with its contract.
    pub(crate) fn check(&self, tool: &str) -> Result<(), Error> {
        let fault = match (check_fields_once(self.json.get().as_bytes(), &[]), &self.half) {
            (Err(error), _) => error.to_string(),
            (Ok(()), Some(path)) => {
                format!("{path}: the text was cut inside a character; send it whole")
            }
            (Ok(()), None) => return Ok(()),
        };
        let text = format!("input of `{tool}` does not fit: {fault}");
        Err(Error::retry(text).at(Stage::Arguments))
    }
}

/// A message of a client.
pub(crate) struct Request<'a> {
    /// The message as text. Text that is not Unicode is replaced.
    pub(crate) text: Cow<'a, str>,
    /// The arguments, if the message has parameters with arguments.
    pub(crate) arguments: Option<RawArguments>,
}

/// The error of a request, and the request's id if it is known.
pub(crate) type Rejected = (ErrorData, Option<Value>);

/// The top level of a message.
#[derive(Deserialize)]
struct Envelope<'a> {
    // Unused fields are read because a second one of the same name is an error.
    #[serde(rename = "jsonrpc")]
    _version: Option<IgnoredAny>,
    #[serde(rename = "id")]
    _id: Option<IgnoredAny>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// The parameters of a call.
#[derive(Deserialize)]
struct Params<'a> {
    #[serde(rename = "name")]
    _name: Option<IgnoredAny>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl<'a> Request<'a> {
    /// Reads a message as far as that is possible without its method.
    ///
    /// # Errors
    ///
    /// A name is there twice, so that it is not known what is meant; a call has its arguments under
    /// another name; or arguments are not UTF-8: with other characters in their place, the call would
    /// be another one. Halves of characters in UTF-16
    /// are an error of the call: see [`RawArguments::check`].
    #[allow(clippy::result_large_err, reason = "a message is rarely rejected")]
    pub(crate) fn read(message: &'a [u8]) -> Result<Self, Rejected> {
        let text = readable_json(message);
        let rejected = |error| (error, MessageScanner::of(text.as_bytes()).id());
        let arguments = arguments(&text).map_err(|error| {
            // The place is that in the parameters, which says nothing to the client.
            let error = error.to_string();
            let fault = error.split(" at line").next().unwrap_or_default();
            let text = format!("the request has a {fault}; give it once");
            rejected(ErrorData::invalid_request(text, None))
        })?;
        if let Some(name) = misnamed_arguments(&text) {
            let text = format!("the call has `{name}` and no arguments; send them as `arguments`");
            return Err(rejected(ErrorData::invalid_params(text, None)));
        }
        if arguments.is_some() && std::str::from_utf8(message).is_err() {
            // What is replaced may be a part of the arguments, or be elsewhere.
            let other = with_mark(message, '?');
            let other = readable_json(other.as_bytes());
            let other = self::arguments(&other).ok().flatten();
            if other.map(RawValue::get) != arguments.map(RawValue::get) {
                let text = "the arguments have bytes that are not UTF-8; send the request as UTF-8";
                return Err(rejected(ErrorData::invalid_params(text, None)));
            }
        }
        let arguments = arguments.map(|arguments| {
            let json = arguments.get();
            // The path needs the whole value.
            let half = has_lost_half(json).then(|| lost_half(json).unwrap_or_default());
            RawArguments { json: arguments.to_owned(), half }
        });
        Ok(Self { text, arguments })
    }
}

/// Returns the arguments in the parameters of a message, as they are written.
///
/// # Errors
///
/// A field is there twice.
fn arguments(message: &str) -> serde_json::Result<Option<&RawValue>> {
    let is_duplicate = |error: &serde_json::Error| error.to_string().starts_with("duplicate field");
    let read = || {
        let params = envelope(message)?.and_then(|envelope| envelope.params);
        match params.filter(|params| is_object(params.get())) {
            Some(params) => Ok(serde_json::from_str::<Params<'_>>(params.get())?.arguments),
            None => Ok(None),
        }
    };
    match read() {
        Err(error) if is_duplicate(&error) => Err(error),
        // rmcp finds other faults.
        read => Ok(read.unwrap_or_default()),
    }
}

/// Returns the top level of a message that is an object. A list would be read as the fields in their
/// order.
fn envelope(message: &str) -> serde_json::Result<Option<Envelope<'_>>> {
    is_object(message).then(|| serde_json::from_str(message)).transpose()
}

fn is_object(json: &str) -> bool {
    json.trim_start().starts_with('{')
}

/// Names of the parameters of a call.
const PARAMS: [&str; 6] = ["name", "arguments", "_meta", "task", "inputResponses", "requestState"];

/// Returns the name of an unknown parameter of a call without arguments, if it may have the
/// arguments. rmcp ignores it, so the call would be made without them.
fn misnamed_arguments(message: &str) -> Option<String> {
    let envelope = envelope(message).ok()??;
    if envelope.method?.get() != r#""tools/call""# {
        return None;
    }
    let params: Map<String, Value> = serde_json::from_str(envelope.params?.get()).ok()?;
    let has_fields = |value: &Value| match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::String(text) => text.trim_start().starts_with('{'),
        _ => false,
    };
    if params.get("arguments").is_some_and(has_fields) {
        return None;
    }
    let mut unknown = params.into_iter().filter(|(name, _)| !PARAMS.contains(&name.as_str()));
    unknown.find(|(_, value)| has_fields(value)).map(|(name, _)| name)
}

/// Returns the bytes as text, with a mark in place of what is not UTF-8.
fn with_mark(bytes: &[u8], mark: char) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push(mark);
        }
    }
    text
}

/// Returns the error for a message that is not JSON.
pub(crate) fn not_json() -> ErrorData {
    let text = "the request is not valid JSON, or has more than 127 levels";
    ErrorData::new(ErrorCode::PARSE_ERROR, text, None)
}

/// Returns the error for a message that cannot be read, and its id, unless it gets no response.
pub(crate) fn unreadable(message: &str) -> Option<Rejected> {
    let invalid = |text: &'static str| ErrorData::invalid_request(text, None);
    let fields = match serde_json::from_str::<Value>(message) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) => return Some((invalid("a request is an object"), None)),
        Err(_) => {
            // Text that is not JSON may be anything. A response to it may cause the next such text.
            let scan = MessageScanner::of(message.as_bytes());
            let id = scan.id().filter(|_| scan.has_method())?;
            return Some((not_json(), Some(id)));
        }
    };
    let id = fields.get("id").filter(|id| id.is_string() || id.is_i64()).cloned();
    let Some(method) = fields.get("method") else {
        return id.is_none().then(|| (invalid("the message has no `method`"), None));
    };
    if !fields.contains_key("id") {
        return None;
    }
    let text = if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        "the field `jsonrpc` must be \"2.0\""
    } else if id.is_none() {
        "the field `id` must be a string or an integer of 64 bits"
    } else if !method.is_string() {
        "the field `method` must be a string"
    } else {
        "the request is malformed"
    };
    Some((invalid(text), id))
}
