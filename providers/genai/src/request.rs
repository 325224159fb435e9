//! Requests, in genai's types.

use genai::chat::{
    Binary, ChatMessage, ChatOptions, ChatRequest, ContentPart, JsonSpec, MessageContent,
    ReasoningEffort, Tool, ToolCall, ToolResponse,
};
use serde_json::Value;
use toolwright_module::message::{Part, ReplyPart, Source};
use toolwright_module::model::{Effort, Settings, ToolChoice};
use toolwright_module::provider::{ProviderError, in_content, object_of};
use toolwright_module::{Message, Request};
use toolwright_signature::{Dialect, LoweredRequest};

use crate::model::PROVIDER;

type Result<T> = std::result::Result<T, ProviderError>;

pub(crate) fn chat_request(request: &Request, dialect: Dialect) -> Result<ChatRequest> {
    let mut chat = ChatRequest::default();
    for message in &request.messages {
        chat = match &**message {
            Message::System { text } => chat.append_message(ChatMessage::system(text.clone())),
            Message::User { parts } => {
                let parts = parts.iter().map(part).collect::<Result<Vec<_>>>()?;
                chat.append_message(ChatMessage::user(MessageContent::from_parts(parts)))
            }
            Message::Assistant { parts } => {
                let parts: Vec<_> = parts.iter().filter_map(reply_part).collect();
                chat.append_message(ChatMessage::assistant(MessageContent::from_parts(parts)))
            }
            Message::Tool(result) => {
                if !result.parts.is_empty() {
                    return Err(unsent("genai sends no images or files in results"));
                }
                let response = ToolResponse::new(&*result.id, &*result.text);
                chat.append_message(ChatMessage::from(response.with_fn_name(&*result.name)))
            }
            _ => return Err(unsent("genai does not send a kind of message in the request")),
        };
    }
    let lowered = LoweredRequest::new(dialect, &*request.tools, None)?;
    let tools = request.tools.iter().zip(lowered.tools).map(|(contract, lowered)| {
        let schema = serde_json::from_str(lowered.schema.get())
            .map_err(|error| ProviderError::Request { source: error.into() })?;
        let tool = Tool::new(contract.name()).with_description(contract.description());
        Ok(tool.with_schema(schema).with_strict(lowered.strict))
    });
    let tools = tools.collect::<Result<Vec<_>>>()?;
    Ok(if tools.is_empty() { chat } else { chat.with_tools(tools) })
}

pub(crate) fn options(
    request: &Request,
    settings: &Settings,
    dialect: Dialect,
    structured_output: bool,
) -> Result<ChatOptions> {
    let most = u32::try_from(request.max_output_tokens()).unwrap_or(u32::MAX);
    let most =
        settings.max_output_tokens.map_or(most, |most| u32::try_from(most).unwrap_or(u32::MAX));
    let mut options = ChatOptions::default().with_max_tokens(most);
    if let Some(temperature) = settings.temperature {
        options = options.with_temperature(temperature.into());
    }
    if let Some(top_p) = settings.top_p {
        options = options.with_top_p(top_p.into());
    }
    if let Some(seed) = settings.seed {
        options = options.with_seed(seed);
    }
    if let Some(stop) = &settings.stop {
        options = options.with_stop_sequences(stop.clone());
    }
    if let Some(effort) = settings.effort {
        options = options.with_reasoning_effort(match effort {
            Effort::Off => ReasoningEffort::Zero,
            Effort::Minimal => ReasoningEffort::Minimal,
            Effort::Low => ReasoningEffort::Low,
            Effort::High => ReasoningEffort::High,
            Effort::Max => ReasoningEffort::Max,
            _ => ReasoningEffort::Medium,
        });
    }
    if let Some(extra) = settings.extra.get(PROVIDER) {
        options = options.with_extra_body(Value::Object(extra.clone()));
    }
    if !request.tools.is_empty() {
        options = match &request.tool_choice {
            ToolChoice::None => options.with_tool_choice(genai::chat::ToolChoice::None),
            ToolChoice::Required => options.with_tool_choice(genai::chat::ToolChoice::Required),
            ToolChoice::Tool(name) => options.with_tool_choice(genai::chat::ToolChoice::tool(name)),
            _ => options,
        };
    }
    if let Some(output) = request.output.as_ref().filter(|_| structured_output) {
        let lowered = output.lower_output(dialect)?;
        let schema: Value = serde_json::from_str(lowered.schema.get())
            .map_err(|error| ProviderError::Request { source: error.into() })?;
        options = options.with_response_format(JsonSpec::new(output.name(), schema));
    }
    Ok(options)
}

fn part(part: &Part) -> Result<ContentPart> {
    let source = match (part, part.source()) {
        (Part::Text(text), _) => return Ok(ContentPart::Text(text.clone())),
        (_, Some(source)) => source,
        _ => return Err(unsent("genai does not send a kind of part in the request")),
    };
    if let Some(text) = source.text() {
        return Ok(ContentPart::Text(text.to_owned()));
    }
    let binary = match (source.to_base64(), source) {
        (Some((media_type, data)), _) => Binary::from_base64(media_type, &*data, None),
        (None, Source::Url(url)) => Binary::from_url(media_type_of(part), url, None),
        _ => return Err(unsent("genai sends no file by a provider's id; send its bytes")),
    };
    Ok(ContentPart::Binary(binary))
}

/// Returns the type of an address, which genai requires and which only its kind is known of.
fn media_type_of(part: &Part) -> &'static str {
    match part {
        Part::Document(_) => "application/pdf",
        Part::Audio(_) => "audio/wav",
        _ => "image/jpeg",
    }
}

fn reply_part(part: &ReplyPart) -> Option<ContentPart> {
    match part {
        ReplyPart::Text(text) => Some(ContentPart::Text(text.text.clone())),
        ReplyPart::Reasoning(thoughts) => {
            in_content(thoughts, PROVIDER).map(|texts| ContentPart::Text(texts.concat()))
        }
        ReplyPart::Call(call) => {
            let arguments = object_of(&call.arguments);
            let arguments = arguments.as_deref().unwrap_or(&call.arguments);
            Some(ContentPart::ToolCall(ToolCall {
                call_id: call.id.clone(),
                fn_name: call.name.clone(),
                fn_arguments: serde_json::from_str(arguments).unwrap_or_default(),
                thought_signatures: None,
            }))
        }
        _ => None,
    }
}

fn unsent(why: &'static str) -> ProviderError {
    ProviderError::Request { source: why.into() }
}
