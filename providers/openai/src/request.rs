//! The parts of a request's body that both APIs share.
//!
//! The types borrow from the request, so that the history is copied once: into the body.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolwright_module::message::object_of;
use toolwright_module::message::{Part, ReplyPart, Source};
use toolwright_module::model::{Effort, Setting, SettingSet, Settings, ToolChoice};
use toolwright_module::{Message, Request, ToolCall};
use toolwright_provider::unread::{IMAGES, is_of};
use toolwright_provider::{Kept, KeptTools, ProviderError, found_tools, in_content, portable_name};
use toolwright_signature::{Dialect, LoweredRequest};

use crate::Result;
use crate::api::Api;
use crate::rules::Rules;

/// The settings of a model.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) model: String,
    pub(crate) api: Api,
    pub(crate) dialect: Dialect,
    pub(crate) structured_output: bool,
    pub(crate) settings: Option<Settings>,
    pub(crate) encrypted_reasoning: bool,
    pub(crate) reasoning_summaries: bool,
    /// Tools that the server runs itself.
    pub(crate) server_tools: Vec<Value>,
    pub(crate) cache_key: Option<String>,
    pub(crate) background: bool,
    pub(crate) server_state: bool,
    /// Whether found tools are sent behind the result of the search.
    pub(crate) additional_tools: bool,
    pub(crate) rules: Rules,
    /// The name of the service, if the server is a known one.
    pub(crate) service: Option<&'static str>,
    pub(crate) written: Written,
}

impl Options {
    /// Returns the settings that the API has.
    pub(crate) fn supported(&self) -> SettingSet {
        let both = self.rules.settings().without(Setting::Cache);
        match self.api {
            Api::Chat => both,
            Api::Responses => both.without(Setting::Seed).without(Setting::Stop),
        }
    }
}

/// What was written for earlier requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Written {
    messages: Kept<Message, [u8]>,
    tools: KeptTools<WrittenTools>,
    /// The definitions of all tools, by their names.
    definitions: KeptTools<BTreeMap<String, Vec<u8>>>,
}

/// The tools and the output of a request.
#[derive(Debug)]
pub(crate) struct WrittenTools {
    /// The list of tools. Empty if there are none.
    pub(crate) tools: Bytes,
    /// The schema of the answer, in the API's form. Empty if there is none.
    pub(crate) format: Vec<u8>,
    /// The names of the tools that are not in the list, because they stand in the conversation.
    pub(crate) found: BTreeSet<String>,
}

impl Written {
    /// Returns the messages of a request, each written by `write` once. `write` also gets the
    /// messages before.
    pub(crate) fn messages(
        &self,
        request: &Request,
        write: impl Fn(&Message, &[Arc<Message>]) -> serde_json::Result<Vec<u8>>,
    ) -> Result<Vec<Arc<[u8]>>> {
        let written = |at| {
            let (before, rest) = request.messages.split_at(at);
            let write = |message: &Message| {
                Ok(write(message, before).map_err(ProviderError::unsent)?.into())
            };
            rest.first().map(|message| self.messages.get_or_make(message, write))
        };
        (0..request.messages.len()).filter_map(written).collect()
    }

    /// Returns the tools and the output of a request, written by `write` once.
    pub(crate) fn tools(
        &self,
        request: &Request,
        options: &Options,
        write: impl Fn(&Schemas<'_>) -> serde_json::Result<WrittenTools>,
    ) -> Result<Arc<WrittenTools>> {
        let in_conversation = options.additional_tools && options.api == Api::Responses;
        let found = if in_conversation { found_tools(request) } else { BTreeSet::new() };
        let make = |request: &Request| {
            let mut schemas = schemas(request, options)?;
            schemas.functions.retain(|function| !found.contains(function.name));
            let written = write(&schemas).map_err(ProviderError::unsent)?;
            Ok(Arc::new(WrittenTools { found: found.clone(), ..written }))
        };
        let kept = self.tools.get_or_make(request, make)?;
        // The result of a search may have left the conversation.
        if kept.found == found { Ok(kept) } else { make(request) }
    }

    /// Returns the definitions of all tools of a request, each written by `write` once.
    pub(crate) fn definitions(
        &self,
        request: &Request,
        options: &Options,
        write: impl Fn(&Function<'_>) -> serde_json::Result<Vec<u8>>,
    ) -> Result<Arc<BTreeMap<String, Vec<u8>>>> {
        self.definitions.get_or_make(request, |request| {
            let schemas = schemas(request, options)?;
            let written = schemas.functions.iter();
            let written = written.map(|of| Ok((of.name.to_owned(), write(of)?)));
            Ok(Arc::new(written.collect::<serde_json::Result<_>>().map_err(ProviderError::unsent)?))
        })
    }
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
pub(crate) fn schemas<'a>(request: &'a Request, options: &Options) -> Result<Schemas<'a>> {
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
    options: &'a Options,
) -> Result<Cow<'a, Settings>> {
    let settings = request.settings_over(options.settings.as_ref()).unwrap_or_default();
    settings.check(options.supported())?;
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

/// The extra fields of the settings for this provider.
pub(crate) fn extra(settings: &Settings) -> Option<&Map<String, Value>> {
    settings.extra.get("openai")
}

/// Returns the tools as JSON, or nothing if there are none. Those of the server come last.
pub(crate) fn tools(own: &[impl Serialize], server: &[Value]) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Tool<'a, T> {
        Own(&'a T),
        Server(&'a Value),
    }
    let tools = own.iter().map(Tool::Own).chain(server.iter().map(Tool::Server));
    let tools: Vec<_> = tools.collect();
    if tools.is_empty() { Ok(Vec::new()) } else { serde_json::to_vec(&tools) }
}

/// Returns a value as JSON, or nothing if there is none.
pub(crate) fn some(value: Option<impl Serialize>) -> serde_json::Result<Vec<u8>> {
    value.map_or(Ok(Vec::new()), |value| serde_json::to_vec(&value))
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

/// Returns whether a message can have a part, and the API reads it.
pub(crate) fn takes(part: &Part, api: Api) -> bool {
    let is_chat = api == Api::Chat;
    match (part, part.source()) {
        (Part::Text(_), _) => true,
        (Part::Image(_), Some(Source::File { provider, .. })) => !is_chat && provider == "openai",
        (Part::Image(_), Some(source)) => is_of(source, &IMAGES),
        (Part::Document(_), Some(Source::File { provider, .. })) => provider == "openai",
        (Part::Document(_), Some(Source::Url(url))) => !is_chat || url.starts_with("data:"),
        (Part::Document(_), Some(_)) => true,
        (Part::Audio(_), Some(source)) => is_chat && source.to_base64().is_some(),
        _ => false,
    }
}

/// Returns the name of a called tool in the form that the APIs accept.
pub(crate) fn name(call: &ToolCall) -> Cow<'_, str> {
    portable_name(&call.name, 64)
}

/// Returns a call's arguments as the text of a JSON object, which servers require.
pub(crate) fn arguments(call: &ToolCall) -> Cow<'_, str> {
    object_of(&call.arguments).unwrap_or(Cow::Borrowed(&call.arguments))
}

/// Returns all text of a reply, with the thoughts that its server left in it. `origin` is the server
/// that gets its own thoughts back.
pub(crate) fn text_of<'a>(parts: &'a [ReplyPart], origin: &str) -> Option<Cow<'a, str>> {
    let texts = |part: &'a ReplyPart| match part {
        ReplyPart::Text(text) => [&**text, "", ""],
        ReplyPart::Reasoning(thoughts) => in_content(thoughts, origin).unwrap_or_default(),
        _ => [""; 3],
    };
    let mut texts = parts.iter().flat_map(texts).filter(|text| !text.is_empty());
    let first = texts.next()?;
    Some(match texts.next() {
        None => Cow::Borrowed(first),
        Some(second) => Cow::Owned([first, second].into_iter().chain(texts).collect()),
    })
}

/// Returns the error for a kind of message that a newer version of the module layer has.
pub(crate) fn unknown<E: serde::ser::Error>() -> E {
    E::custom("this version of toolwright-openai does not support a kind of message in the request")
}
