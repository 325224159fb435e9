//! Replies of Chat Completions, as servers send them.

use std::borrow::Cow;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolwright_provider::TokenCounts;
use toolwright_provider::ending::is_whole;
use toolwright_provider::lenient::{
    Arguments, Count, Piece, Str, Text, Unread, Words, call_fields, fields, if_object, is_set,
    object, or_default, thoughts,
};

/// A whole reply, or one event of a stream. They differ in one field of [`Choice`].
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Completion<'e> {
    #[serde(borrow)]
    pub(super) model: Str<'e>,
    /// `None` if the field is missing, which shows that this is not of the API.
    #[serde(deserialize_with = "choices")]
    pub(super) choices: Option<Vec<Choice<'e>>>,
    #[serde(deserialize_with = "if_object")]
    pub(super) usage: Option<TokenCounts>,
    /// The marks of Azure's filters on the prompt.
    pub(super) prompt_filter_results: Value,
    /// The usage in streams of Groq.
    #[serde(deserialize_with = "object")]
    pub(super) x_groq: Groq,
    pub(super) error: Value,
    // Gateways to Responses may have its fields for a reply that is not whole.
    pub(super) status: Str<'e>,
    pub(super) incomplete_details: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Groq {
    #[serde(deserialize_with = "if_object")]
    pub(super) usage: Option<TokenCounts>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice<'e> {
    pub(super) index: Count,
    /// The message of a whole reply. Some servers also end a stream with it.
    #[serde(borrow, deserialize_with = "message")]
    pub(super) message: Option<Box<Message<'e>>>,
    /// A piece of the message, in a stream.
    #[serde(deserialize_with = "message")]
    pub(super) delta: Option<Box<Message<'e>>>,
    /// The text in the older Completions API.
    pub(super) text: Words<'e>,
    pub(super) error: Value,
    pub(super) finish_reason: Str<'e>,
    /// The reason in an older form: an object with `type`.
    #[serde(deserialize_with = "object")]
    pub(super) finish_details: Details<'e>,
    /// The word of the model's own server, behind a gateway that has its own words.
    pub(super) native_finish_reason: Str<'e>,
    /// The stop text that ended the reply, as vLLM names it. A number is a token at a normal end.
    pub(super) stop_reason: Value,
    /// The same, as SGLang names it.
    pub(super) matched_stop: Value,
    /// The marks of Azure's filters.
    pub(super) content_filter_results: Value,
    /// The usage in streams of Moonshot.
    #[serde(deserialize_with = "if_object")]
    pub(super) usage: Option<TokenCounts>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Details<'e> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Str<'e>,
}

fn choices<'de: 'e, 'e, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<Choice<'e>>>, D::Error> {
    or_default(deserializer).map(Some)
}

/// Deserializes a message into a box: it is large, and a choice would move it several times.
fn message<'de: 'e, 'e, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<Message<'e>>>, D::Error> {
    fields(deserializer).map(Some)
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Message<'e> {
    #[serde(borrow)]
    pub(super) content: Content<'e>,
    pub(super) refusal: Words<'e>,
    #[serde(deserialize_with = "thoughts")]
    pub(super) reasoning_content: Words<'e>,
    /// The same under another name. Some servers send both.
    #[serde(deserialize_with = "thoughts")]
    pub(super) reasoning: Words<'e>,
    /// The reasoning with signatures, in OpenRouter's form.
    #[serde(deserialize_with = "details")]
    pub(super) reasoning_details: Vec<Map<String, Value>>,
    /// Google's data of a message, such as a signature.
    pub(super) extra_content: Value,
    #[serde(deserialize_with = "calls")]
    pub(super) tool_calls: Vec<Call>,
    /// The only call, in the first form of the API (`functions` instead of `tools`).
    #[serde(deserialize_with = "only_call")]
    pub(super) function_call: Function,
}

/// A call, or a piece of one in a stream.
#[derive(Deserialize)]
#[serde(from = "CallForm<'_>")]
pub(super) struct Call {
    pub(super) index: Option<u64>,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) is_custom: bool,
    /// What stands under unknown names.
    pub(super) unread: Unread,
    /// Whether the server finished it. Most servers leave it out.
    pub(super) status: String,
    /// Whether it has two names, or two sets of arguments.
    pub(super) is_unclear: bool,
    /// Whether its result stands in it, so that the server has made it.
    pub(super) is_made: bool,
    /// Google's data of a call, such as a signature.
    pub(super) extra: Value,
}

/// The wire forms of a [`Call`].
#[derive(Default, Deserialize)]
#[serde(default)]
struct CallForm<'e> {
    index: Count,
    id: Text,
    #[serde(borrow, rename = "type")]
    kind: Str<'e>,
    #[serde(deserialize_with = "fields")]
    function: Function,
    #[serde(deserialize_with = "fields")]
    custom: Custom,
    // Some servers send these fields here and not in `function`.
    name: Text,
    arguments: Arguments,
    args: Arguments,
    parameters: Arguments,
    input: Arguments,
    status: Str<'e>,
    output: Value,
    result: Value,
    extra_content: Value,
}

impl From<CallForm<'_>> for Call {
    fn from(form: CallForm<'_>) -> Self {
        let CallForm {
            index,
            id,
            kind,
            function,
            custom,
            name,
            arguments,
            args,
            parameters,
            input,
            status,
            output,
            result,
            extra_content: extra,
        } = form;
        let is_made = function.is_made() || is_set(&output) || is_set(&result);
        let status = match status.is_empty() {
            true => function.status.0.clone(),
            false => status.0.into_owned(),
        };
        let is_custom = &*kind == "custom" || !custom.name.is_empty();
        let (called, text, is_clear) = function.name_and_arguments();
        let (name, is_one) = Text::one_of([custom.name, called, name]);
        let given = [Arguments(custom.input.0), text, arguments, args, parameters, input];
        let (arguments, is_same) = Arguments::one_of(given);
        Self {
            index: index.0,
            id: id.0,
            name: name.0,
            arguments: arguments.0,
            is_custom,
            unread: Unread::Nothing,
            status,
            is_unclear: !(is_clear && is_one && is_same),
            is_made,
            extra,
        }
    }
}

impl From<Function> for Call {
    fn from(function: Function) -> Self {
        let unread = function.unread;
        let (is_made, status) = (function.is_made(), function.status.0.clone());
        let (name, arguments, is_clear) = function.name_and_arguments();
        Self {
            index: None,
            id: String::new(),
            name: name.0,
            arguments: arguments.0,
            is_custom: false,
            unread,
            status,
            is_unclear: !is_clear,
            is_made,
            extra: Value::Null,
        }
    }
}

impl Call {
    /// Returns whether the piece says anything. Some servers send an empty one in every reply.
    pub(super) fn has_content(&self) -> bool {
        let texts = [&self.id, &self.name, &self.arguments];
        let is_doubtful = self.is_unclear
            || self.is_made
            || self.unread == Unread::Content
            || !is_whole(&self.status);
        is_doubtful || texts.iter().any(|text| !text.is_empty())
    }

    fn of<E: Error>(json: &str) -> Result<Self, E> {
        let mut call: Self = read(json)?;
        if Unread::Content.may_be_meant(&call.arguments) {
            call.unread = Unread::of(&call_fields(json).map_err(E::custom)?);
        }
        Ok(call)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Function {
    pub(super) name: Text,
    pub(super) arguments: Arguments,
    // The arguments under other names.
    pub(super) args: Arguments,
    pub(super) parameters: Arguments,
    pub(super) input: Arguments,
    // Its result.
    pub(super) output: Value,
    pub(super) result: Value,
    /// Whether the server finished it, if it says so here and not beside `function`.
    pub(super) status: Text,
    /// What stands under unknown names.
    #[serde(skip)]
    pub(super) unread: Unread,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Custom {
    name: Text,
    input: Text,
}

/// The content of a message: a string or a list of pieces.
#[derive(Default)]
pub(super) struct Content<'e> {
    pub(super) text: Cow<'e, str>,
    pub(super) refusal: String,
    /// The reasoning, which Mistral sends here.
    pub(super) thinking: String,
    pub(super) calls: Vec<Call>,
}

impl<'de: 'e, 'e> Deserialize<'de> for Content<'e> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?.get();
        let mut content = Content::default();
        match json.as_bytes() {
            [b'[', ..] => {
                for piece in read::<Vec<&RawValue>, _>(json)? {
                    content.add(piece.get())?;
                }
            }
            [b'{', ..] => {
                content.add(json)?;
                let fields: Map<String, Value> =
                    if content.is_empty() { read(json)? } else { Map::new() };
                // The text is not in any known field.
                if !fields.is_empty() && fields.get("text").is_none_or(Value::is_null) {
                    return Err(D::Error::custom("the content is an object without a text"));
                }
            }
            [b'"', ..] => content.text = read::<Str<'de>, _>(json)?.0,
            b"null" => {}
            // A number keeps its digits.
            _ => content.text = json.into(),
        }
        Ok(content)
    }
}

impl Content<'_> {
    pub(super) fn is_empty(&self) -> bool {
        let Self { text, refusal, thinking, calls } = self;
        text.is_empty() && refusal.is_empty() && thinking.is_empty() && calls.is_empty()
    }

    /// Adds a piece of a list.
    fn add<E: Error>(&mut self, json: &str) -> Result<(), E> {
        let piece = Piece::read(json).map_err(E::custom)?;
        self.text.to_mut().push_str(&piece.text);
        self.refusal.push_str(&piece.refusal);
        self.thinking.push_str(&piece.thoughts);
        if piece.has_call {
            self.calls.push(Call::of(json)?);
        }
        Ok(())
    }
}

fn read<'t, T: Deserialize<'t>, E: serde::de::Error>(text: &'t str) -> Result<T, E> {
    serde_json::from_str(text).map_err(E::custom)
}

/// Deserializes the entries of `reasoning_details`. Other values than objects have no meaning.
fn details<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Map<String, Value>>, D::Error> {
    let entries = match Value::deserialize(deserializer)? {
        Value::Array(entries) => entries,
        entry => vec![entry],
    };
    let object = |entry| match entry {
        Value::Object(entry) if !entry.is_empty() => Some(entry),
        _ => None,
    };
    Ok(entries.into_iter().filter_map(object).collect())
}

/// Deserializes the calls of a message: a list, a nested list, one call, or any of these as a
/// string of JSON.
fn calls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Call>, D::Error> {
    let mut calls = Vec::new();
    add_calls(<&RawValue>::deserialize(deserializer)?.get(), &mut calls)?;
    Ok(calls)
}

/// Adds the calls of a value to a list.
fn add_calls<E: Error>(json: &str, calls: &mut Vec<Call>) -> Result<(), E> {
    match json.as_bytes() {
        [b'{', ..] => calls.push(Call::of(json)?),
        [b'[', ..] => {
            for call in read::<Vec<&RawValue>, _>(json)? {
                add_calls(call.get(), calls)?;
            }
        }
        [b'"', ..] => {
            let text = read::<Str<'_>, _>(json)?.0;
            let text = text.trim();
            // Some servers send one of these words instead of an empty list.
            let words = ["", "none", "null", "n/a", "false"];
            if words.iter().any(|word| text.eq_ignore_ascii_case(word)) {
                return Ok(());
            }
            if !text.starts_with(['[', '{']) {
                return Err(E::custom("it is not a call"));
            }
            add_calls(read::<&RawValue, _>(text)?.get(), calls)?;
        }
        b"null" | b"false" => {}
        _ => return Err(E::custom("it is not a call")),
    }
    Ok(())
}

/// Deserializes the call of the first form of the API.
fn only_call<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Function, D::Error> {
    let json = <&RawValue>::deserialize(deserializer)?.get();
    if !json.starts_with('{') {
        return Ok(Function::default());
    }
    let unread = Unread::of(&call_fields(json).map_err(D::Error::custom)?);
    Ok(Function { unread, ..read(json)? })
}

impl Function {
    /// Returns whether the result of the call is in it.
    pub(super) fn is_made(&self) -> bool {
        is_set(&self.output) || is_set(&self.result)
    }

    /// Returns the name, the arguments, which have several names, and whether these say the same.
    pub(crate) fn name_and_arguments(self) -> (Text, Arguments, bool) {
        let Self { name, arguments, args, parameters, input, .. } = self;
        let (arguments, is_clear) = Arguments::one_of([arguments, args, parameters, input]);
        (name, arguments, is_clear)
    }
}
