//! [`GenAi`]: the model, its replies and its errors.

use std::fmt;

use genai::chat::{ChatResponse, ContentPart, StopReason};
use serde_json::Value;
use toolwright_http::{ErrorKind, HttpError};
use toolwright_module::message::mark_incomplete;
use toolwright_module::message::{Opaque, Reasoning, ReplyPart};
use toolwright_module::model::{
    BoxFuture, Capabilities, Finish, Setting, SettingSet, Settings, Usage,
};
use toolwright_module::{LanguageModel, Reply, Request, Result, ToolCall};
use toolwright_provider::lenient::Unread;
use toolwright_provider::unread::with_notes;
use toolwright_provider::{
    Deltas, ProviderError, ReplyParts, TokenCounts, check_has_call, complete_reply, ending,
    is_result, lenient, mark_lost_halves, takes_fields,
};
use toolwright_signature::Dialect;

use crate::request::{chat_request, options, takes};

/// The name of this provider, in reasoning and in [`Settings::extra`].
pub(crate) const PROVIDER: &str = "genai";

/// The settings that genai has a field for.
const SUPPORTED: SettingSet = SettingSet::NONE
    .with(Setting::Temperature)
    .with(Setting::TopP)
    .with(Setting::Seed)
    .with(Setting::Stop)
    .with(Setting::Effort)
    .with(Setting::MaxOutputTokens);

/// Model of a [`genai::Client`]. See the [crate's page](crate) for what is lost.
///
/// ```
/// use toolwright_genai::{GenAi, genai};
/// use toolwright_module::LanguageModel;
///
/// let model = GenAi::new(genai::Client::new()?, "command-r7b-12-2024");
/// assert_eq!(model.name(), "command-r7b-12-2024");
/// # Ok::<(), genai::Error>(())
/// ```
#[derive(Clone)]
pub struct GenAi {
    client: genai::Client,
    model: String,
    dialect: Dialect,
    structured_output: bool,
    settings: Option<Settings>,
}

impl GenAi {
    /// Creates a model of a client, which decides the service, the key and the address.
    pub fn new(client: genai::Client, model: impl Into<String>) -> Self {
        Self {
            client,
            model: model.into(),
            dialect: Dialect::OpenAiLoose,
            structured_output: false,
            settings: None,
        }
    }

    /// Sets the settings for requests that have none of their own. Default: not sent. The `extra`
    /// fields of `genai` go into the body of the service.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = Some(settings);
        self
    }

    /// Sets the dialect of JSON Schema for tools and answers. Default: [`Dialect::OpenAiLoose`].
    #[must_use]
    pub fn with_dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Sets whether the request contains the schema of the answer. Default: `false`, because not
    /// every service of genai has it.
    #[must_use]
    pub fn with_structured_output(mut self, structured_output: bool) -> Self {
        self.structured_output = structured_output;
        self
    }

    async fn ask(&self, request: &Request) -> Result<Reply, ProviderError> {
        let settings = request.settings_over(self.settings.as_ref()).unwrap_or_default();
        settings.check(SUPPORTED)?;
        let options = options(request, &settings, self.dialect, self.structured_output)?;
        let request = &*with_notes(request, takes);
        let chat = chat_request(request, self.dialect)?;
        match self.client.exec_chat(&*self.model, chat, Some(&options)).await {
            Ok(mut response) => {
                let body = response.captured_raw_body.take().unwrap_or_default();
                if let Some(error) = reported(&body) {
                    return Err(error);
                }
                if !is_first_meant(&body) {
                    let fault = "genai reads the first choice, and another one has the index 0";
                    let (raw, usage) = (body.to_string(), Usage::unknown());
                    return Err(ProviderError::Unclear { fault, raw, usage });
                }
                let mut reply = reply(response, request, &body).map_err(|error| match error {
                    ProviderError::Empty { usage, .. } => {
                        ProviderError::bare_error(&body, usage).unwrap_or(error)
                    }
                    error => error,
                })?;
                // genai replaces bytes that are not UTF-8, so that nothing shows whose U+FFFD this is.
                mark_lost_halves(&mut reply);
                if let Some(reason) = blocked(&body) {
                    reply = reply.with_finish(Finish::Refused);
                    reply.reason = Some(reason);
                }
                Ok(reply)
            }
            Err(genai::Error::ChatResponseGeneration { response_body: body, .. })
                if let Some(reason) = blocked(&body) =>
            {
                let mut reply = Reply::new([]).with_finish(Finish::Refused);
                reply.reason = Some(reason);
                Ok(reply)
            }
            Err(failed) => Err(error(failed)),
        }
    }
}

/// Returns the error that a service reports in a reply of status 200, whole or in its first choice.
fn reported(body: &Value) -> Option<ProviderError> {
    let errors = [body.get("error"), body.pointer("/choices/0/error")];
    let error = errors.into_iter().flatten().find(|error| lenient::is_set(error))?;
    Some(ProviderError::reported(error, Usage::unknown()))
}

/// Returns whether the first choice or candidate is the one that was asked for, which has the index 0. A
/// server that gives no choice this index means the first one.
fn is_first_meant(body: &Value) -> bool {
    ["choices", "candidates"].iter().filter_map(|name| body[name].as_array()).all(|choices| {
        let index =
            |(place, choice): (usize, &Value)| choice["index"].as_u64().unwrap_or(place as u64);
        choices.iter().enumerate().map(index).position(|index| index == 0).is_none_or(|at| at == 0)
    })
}

/// Returns why Google blocked a prompt, or that Anthropic's model refused. The reply may have content
/// and the usual reason all the same.
fn blocked(body: &Value) -> Option<String> {
    let reason = body.pointer("/promptFeedback/blockReason").and_then(Value::as_str);
    let refusal = body.pointer("/stop_details/type").and_then(Value::as_str);
    let reason = reason.or(refusal.filter(|kind| *kind == "refusal"))?;
    Some(reason.to_owned()).filter(|reason| !reason.is_empty())
}

/// Returns why a reply ended. genai knows fewer spellings of the words than other providers.
fn finish(reason: Option<&StopReason>) -> Finish {
    let Some(reason) = reason else { return Finish::Stop };
    match (ending::finish(reason.raw()), reason) {
        (Finish::Other(word), StopReason::MaxTokens(_)) if !ending::is_window_full(&word) => {
            Finish::Length
        }
        (Finish::Other(_), StopReason::ContentFilter(_)) => Finish::Refused,
        (Finish::Other(word), _) if word.is_empty() => Finish::Other("no reason".to_owned()),
        (finish, _) => finish,
    }
}

/// Returns why a reply is not whole although genai reads it as whole: by its status and details, by the
/// older form of the reason, or by the status of a message or a call.
fn cut_off(body: &Value) -> Option<Finish> {
    let at = |place: &str| body.pointer(place).and_then(Value::as_str).unwrap_or_default();
    let reason = at("/incomplete_details/reason");
    if !reason.is_empty() || ending::is_same(at("/status"), "incomplete") {
        return Some(ending::incomplete(reason));
    }
    let kind = at("/choices/0/finish_details/type");
    if !kind.is_empty() && at("/choices/0/finish_reason").is_empty() {
        return Some(ending::finish(kind)).filter(|finish| *finish != Finish::Stop);
    }
    let is_cut = |item: &Value| {
        let status = item["status"].as_str().unwrap_or("completed");
        let is_part = ["message", "function_call"].iter().any(|kind| item["type"] == **kind);
        is_part && ending::finish(status) != Finish::Stop
    };
    body["output"].as_array()?.iter().any(is_cut).then_some(Finish::Length)
}

/// Returns the refusal of a model in OpenAI's APIs, which genai leaves out.
fn refusal(body: &Value) -> Option<&str> {
    let of_items = body["output"].as_array().into_iter().flatten();
    let of_items = of_items.filter_map(|item| item["content"].as_array()).flatten();
    let refusals = of_items.map(|piece| &piece["refusal"]);
    let of_choice = &body["choices"][0]["message"]["refusal"];
    let mut refusals = [of_choice].into_iter().chain(refusals).filter_map(Value::as_str);
    refusals.find(|refusal| !refusal.is_empty())
}

/// Returns whether a reply may have ended inside a call: by a stop text, which services report in
/// fields of their own, by the word of the model's own server behind a gateway, or because Gemini
/// announced more of the arguments. Without a reason nothing shows the end of a call.
fn may_cut_calls(reason: Option<&StopReason>, body: &Value) -> bool {
    let of_choice = |name: &str| &body["choices"][0][name];
    let native = of_choice("native_finish_reason").as_str().unwrap_or_default();
    let stops = ["stop_reason", "matched_stop"].map(of_choice);
    reason.is_none_or(|reason| ending::may_cut_calls(reason.raw(), native, stops))
        || body.get("stop_sequence").is_some_and(lenient::is_set)
        || body["candidates"][0]["content"]["parts"].as_array().into_iter().flatten().any(|part| {
            let call = &part["functionCall"];
            ["willContinue", "partialArgs"].iter().any(|name| {
                call.get(name).is_some_and(|value| lenient::is_set(value) && *value != false)
            })
        })
}

/// Returns whether a call with this name has a status that does not say that it is whole, or may have its
/// arguments where genai does not look for them.
fn is_doubtful(body: &Value, call: &ToolCall) -> bool {
    match body {
        Value::Array(list) => list.iter().any(|item| is_doubtful(item, call)),
        Value::Object(fields) => {
            let is_it = [fields.get("name"), body.pointer("/function/name")]
                .contains(&Some(&Value::from(&*call.name)));
            let is_unread = || Unread::of(fields).may_be_meant(&call.arguments);
            let status = fields.get("status").and_then(Value::as_str).unwrap_or_default();
            match is_it {
                true => is_unread() || !ending::is_whole(status),
                false => fields.values().any(|value| is_doubtful(value, call)),
            }
        }
        _ => false,
    }
}

fn reply(response: ChatResponse, request: &Request, body: &Value) -> Result<Reply, ProviderError> {
    let usage = usage(&response.usage);
    let (refusal, cut_off) = (refusal(body), cut_off(body));
    let finish = match (refusal, cut_off) {
        (Some(_), _) => Finish::Refused,
        (None, Some(finish)) => finish,
        (None, None) => finish(response.stop_reason.as_ref()),
    };
    let reasoning = |text| ReplyPart::Reasoning(Reasoning::new(PROVIDER, text, Value::Null));
    let mut parts: Vec<_> = response.reasoning_content.into_iter().map(reasoning).collect();
    for part in response.content {
        match part {
            ContentPart::Text(text) => {
                let mut content = ReplyParts::default();
                // Only the first text may begin with thoughts.
                if parts.iter().any(|part| matches!(part, ReplyPart::Text(_))) {
                    content.skip_thoughts();
                }
                content.content(PROVIDER, text, &mut Deltas::discarded());
                content.end_content(&mut Deltas::discarded());
                parts.extend(content.take());
            }
            ContentPart::ReasoningContent(text) if parts.is_empty() => parts.push(reasoning(text)),
            ContentPart::ToolCall(call) => {
                // Arguments that are not JSON stay the text that the model wrote.
                let arguments = match call.fn_arguments {
                    Value::String(text) => text,
                    Value::Null => String::new(),
                    value => value.to_string(),
                };
                let mut call = ToolCall::new(call.call_id, call.fn_name, arguments);
                // Only Gemini leaves out arguments that are empty.
                call.incomplete = is_doubtful(body, &call)
                    || call.arguments.trim().is_empty()
                        && body.get("candidates").is_none()
                        && takes_fields(&request.tools, &call.name);
                parts.push(ReplyPart::Call(call));
            }
            _ => {}
        }
    }
    let has_text = parts.iter().any(|part| matches!(part, ReplyPart::Text(_)));
    parts.extend(refusal.filter(|_| !has_text).map(ReplyPart::text));
    if parts.is_empty() && finish == Finish::Stop {
        return Err(ProviderError::Empty { usage, retry_after: None });
    }
    if finish == Finish::Stop
        && response.stop_reason.as_ref().is_some_and(|reason| ending::is_for_calls(reason.raw()))
    {
        check_has_call(&parts, usage)?;
    }
    // genai leaves out the results of calls that a service made itself.
    let items = ["/content", "/output", "/candidates/0/content/parts"];
    let items = items.iter().filter_map(|at| body.pointer(at)?.as_array()).flatten();
    let is_of = |part: &ReplyPart, item: &Value| matches!(part, ReplyPart::Call(call) if is_result(item, call));
    let results = items.filter(|item| {
        let is_call =
            ["function_call", "custom_tool_call"].iter().any(|kind| item["type"] == **kind);
        !is_call && parts.iter().any(|part| is_of(part, item))
    });
    let results: Vec<_> =
        results.map(|item| ReplyPart::Other(Opaque::new(PROVIDER, item.clone()))).collect();
    parts.extend(results);
    let reply = complete_reply(parts, request.messages.len(), finish, usage)?;
    let mut reply = reply.with_model(response.provider_model_iden.model_name.to_string());
    if may_cut_calls(response.stop_reason.as_ref(), body) {
        mark_incomplete(&mut reply.parts);
    }
    if let Some(reason) = response.stop_reason
        && reply.finish == Finish::Refused
    {
        let details = body.pointer("/incomplete_details/reason").and_then(Value::as_str);
        let word = match refusal {
            Some(_) => "refusal",
            None => details.unwrap_or(reason.raw()),
        };
        reply.reason = Some(word.to_owned()).filter(|word| !word.is_empty());
    }
    Ok(reply)
}

fn usage(usage: &genai::chat::Usage) -> Usage {
    let count =
        |tokens: Option<i32>| tokens.map(|tokens| lenient::Count(u64::try_from(tokens).ok()));
    let input = usage.prompt_tokens_details.as_ref();
    let output = usage.completion_tokens_details.as_ref();
    let counts = TokenCounts {
        read: count(usage.prompt_tokens),
        written: count(usage.completion_tokens),
        cached: count(input.and_then(|input| input.cached_tokens)),
        cache_written: count(input.and_then(|input| input.cache_creation_tokens)),
        reasoning: count(output.and_then(|output| output.reasoning_tokens)),
        total: count(usage.total_tokens),
        audio_read: count(input.and_then(|input| input.audio_tokens)),
        audio_written: count(output.and_then(|output| output.audio_tokens)),
        ..TokenCounts::default()
    };
    counts.usage()
}

/// Converts an error of genai. Its own text may contain the whole request.
fn error(error: genai::Error) -> ProviderError {
    if let Some(status) = error.status() {
        let body = match &error {
            genai::Error::HttpError { body, .. } => body.clone(),
            genai::Error::WebModelCall { webc_error, .. }
            | genai::Error::WebAdapterCall { webc_error, .. } => match webc_error {
                genai::webc::Error::ResponseFailedStatus { body, .. } => body.clone(),
                _ => String::new(),
            },
            _ => String::new(),
        };
        let value = serde_json::from_str(&body).unwrap_or(Value::Null);
        let (message, code) = match ProviderError::bare_error(&value, Usage::unknown()) {
            Some(ProviderError::Reported { message, code, .. }) => (message.into(), code),
            _ => (status.canonical_reason().unwrap_or("no reason given").to_owned(), None),
        };
        return ProviderError::Status {
            status: status.as_u16(),
            request_id: None,
            code: code.map(Into::into),
            message,
            retry_after: error.headers().and_then(toolwright_http::retry_after),
            body,
        };
    }
    match error {
        genai::Error::RequiresApiKey { .. } | genai::Error::NoAuthData { .. } => {
            ProviderError::unsent("genai has no API key for the model's service")
        }
        genai::Error::ChatResponseGeneration { cause, response_body: body, .. } => reported(&body)
            .or_else(|| ProviderError::bare_error(&body, Usage::unknown()))
            .unwrap_or_else(|| unclear(cause)),
        genai::Error::WebModelCall {
            webc_error:
                genai::webc::Error::ResponseFailedInvalidJson { body, .. }
                | genai::webc::Error::ResponseFailedNotJson { body, .. },
            ..
        } => unclear(body),
        genai::Error::WebModelCall { webc_error: genai::webc::Error::Reqwest(error), .. } => {
            let kind = match error.is_connect() {
                true => ErrorKind::Connect { server: "the server".to_owned() },
                false => ErrorKind::Transport,
            };
            HttpError::new(kind, error.without_url()).into()
        }
        error => ProviderError::unsent(error.to_string()),
    }
}

fn unclear(raw: String) -> ProviderError {
    ProviderError::Unclear { fault: "genai cannot read it", raw, usage: Usage::unknown() }
}

impl LanguageModel for GenAi {
    fn name(&self) -> &str {
        &self.model
    }

    fn provider(&self) -> &str {
        PROVIDER
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            structured_output: self.structured_output,
            tools: true,
            images: true,
            documents: true,
            settings: SUPPORTED,
            ..Capabilities::new(self.dialect)
        }
    }

    fn settings(&self) -> Option<&Settings> {
        self.settings.as_ref()
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move { self.ask(request).await.map_err(ProviderError::into_error) })
    }
}

/// Shows the settings, and not the client, which may hold a key.
impl fmt::Debug for GenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenAi")
            .field("model", &self.model)
            .field("dialect", &self.dialect)
            .finish_non_exhaustive()
    }
}
