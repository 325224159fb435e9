//! Requests, in genai's types.

use std::sync::Arc;

use genai::chat::{
    Binary, ChatMessage, ChatOptions, ChatRequest, ContentPart, JsonSpec, MessageContent,
    ReasoningEffort, Tool, ToolCall, ToolResponse,
};
use serde_json::Value;
use toolwright_module::message::{Part, ReplyPart, Source};
use toolwright_module::message::{file_name, object_of, parts_of};
use toolwright_module::model::{Effort, Settings, ToolChoice};
use toolwright_module::{Message, Request};
use toolwright_provider::order::{Content, Role, Turn, turns};
use toolwright_provider::unread::type_in;
use toolwright_provider::{ProviderError, in_content};
use toolwright_signature::{Dialect, LoweredRequest};

use crate::model::PROVIDER;

type Result<T> = std::result::Result<T, ProviderError>;

/// An empty line between two messages that are sent as one.
const BETWEEN: &str = "\n\n";

/// Converts the messages, in the order that every service accepts. genai sends them as they are, and
/// does not say which order a service accepts.
pub(crate) fn chat_request(request: &Request, dialect: Dialect) -> Result<ChatRequest> {
    let messages = &*request.messages;
    let is_sent = |at: usize| match messages.get(at).map(Arc::as_ref) {
        Some(Message::Assistant { parts }) => !said(parts).is_empty(),
        _ => true,
    };
    let mut chat = ChatRequest::default();
    for Turn { role, of, .. } in turns(messages, is_sent, true) {
        let message = match role {
            Role::System => ChatMessage::system(texts(messages, &of).join(BETWEEN)),
            Role::User => ChatMessage::user(MessageContent::from_parts(shown(messages, &of)?)),
            Role::Assistant => {
                ChatMessage::assistant(MessageContent::from_parts(replied(messages, &of)))
            }
            Role::Tool => results(messages, &of),
        };
        chat = chat.append_message(message);
    }
    let lowered = LoweredRequest::new(dialect, &*request.tools, None)?;
    let tools = request.tools.iter().zip(lowered.tools).map(|(contract, lowered)| {
        let schema = serde_json::from_str(lowered.schema.get()).map_err(ProviderError::unsent)?;
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
    // A service may report an error in a reply of status 200, which genai does not look for.
    options = options.with_capture_raw_body(true);
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
        let schema: Value =
            serde_json::from_str(lowered.schema.get()).map_err(ProviderError::unsent)?;
        options = options.with_response_format(JsonSpec::new(output.name(), schema));
    }
    Ok(options)
}

/// Returns the messages of a turn.
fn messages_of<'a>(
    messages: &'a [Arc<Message>],
    of: &'a [Content],
) -> impl Iterator<Item = &'a Message> {
    of.iter().filter_map(|content| match content {
        Content::Message(at) => messages.get(*at).map(Arc::as_ref),
        _ => None,
    })
}

/// Returns the texts of system messages.
fn texts<'a>(messages: &'a [Arc<Message>], of: &'a [Content]) -> Vec<&'a str> {
    let texts = messages_of(messages, of).filter_map(|message| match message {
        Message::System { text } => Some(&**text),
        _ => None,
    });
    texts.collect()
}

/// Returns the content of a message of the user. It is one text if there is nothing but text, because
/// genai joins texts without anything between them.
fn shown(messages: &[Arc<Message>], of: &[Content]) -> Result<Vec<ContentPart>> {
    let mut parts = Vec::new();
    for content in of {
        match content {
            Content::Added(text) => parts.push(ContentPart::Text((*text).to_owned())),
            Content::Message(at) => match messages.get(*at).map(Arc::as_ref) {
                Some(Message::User { parts: given }) => {
                    for given in given {
                        parts.push(part(given)?);
                    }
                }
                _ => {
                    return Err(ProviderError::unsent(
                        "genai does not send a kind of message in the request",
                    ));
                }
            },
            Content::Shown(at) => {
                for message in messages.get(at.clone()).unwrap_or_default() {
                    let Message::Tool(result) = &**message else { continue };
                    if !result.parts.is_empty() {
                        parts.push(ContentPart::Text(parts_of(&result.id)));
                    }
                    for given in &result.parts {
                        parts.push(part(given)?);
                    }
                }
            }
        }
    }
    let text = |part: &ContentPart| match part {
        ContentPart::Text(text) => Some(text.clone()),
        _ => None,
    };
    let texts: Option<Vec<String>> = parts.iter().map(text).collect();
    Ok(match texts {
        Some(texts) if of.len() > 1 => vec![ContentPart::Text(texts.join(BETWEEN))],
        _ => parts,
    })
}

/// Returns the content of a message of the model.
fn replied(messages: &[Arc<Message>], of: &[Content]) -> Vec<ContentPart> {
    if let [Content::Added(text)] = of {
        return vec![ContentPart::Text((*text).to_owned())];
    }
    let parts = messages_of(messages, of).filter_map(|message| match message {
        Message::Assistant { parts } => Some(said(parts)),
        _ => None,
    });
    parts.flatten().collect()
}

/// Returns the results of calls.
fn results(messages: &[Arc<Message>], of: &[Content]) -> ChatMessage {
    let responses = messages_of(messages, of).filter_map(|message| match message {
        Message::Tool(result) => {
            let response = ToolResponse::new(&*result.id, &*result.text);
            Some(ContentPart::ToolResponse(response.with_fn_name(&*result.name)))
        }
        _ => None,
    });
    ChatMessage::tool(MessageContent::from_parts(responses.collect::<Vec<_>>()))
}

/// Returns whether [`part`] can write a part. No service reads drawings.
pub(crate) fn takes(part: &Part) -> bool {
    match (part, part.source()) {
        (Part::Audio(_), _) | (_, Some(Source::File { .. })) => false,
        (_, Some(source)) => {
            source.media_type().is_none_or(|of| type_in(of, &["image/svg+xml"]).is_none())
        }
        (_, None) => true,
    }
}

fn part(part: &Part) -> Result<ContentPart> {
    let source = match (part, part.source()) {
        (Part::Text(text), _) => return Ok(ContentPart::Text(text.clone())),
        (_, Some(source)) => source,
        _ => {
            return Err(ProviderError::unsent("genai does not send a kind of part in the request"));
        }
    };
    if let Some(text) = source.text() {
        return Ok(ContentPart::Text(text.to_owned()));
    }
    let binary = match (source.to_base64(), source) {
        (Some((media_type, data)), _) => {
            Binary::from_base64(media_type, &*data, Some(file_name(media_type)))
        }
        (None, Source::Url(url)) => Binary::from_url(media_type_of(part), url, None),
        _ => {
            return Err(ProviderError::unsent(
                "genai sends no file by a provider's id; send its bytes",
            ));
        }
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

/// Returns the content of a reply that goes back: texts that are not blank, and calls. The thoughts
/// that were in a text go back with it.
fn said(parts: &[ReplyPart]) -> Vec<ContentPart> {
    let (mut said, mut text) = (Vec::new(), String::new());
    let end = |text: &mut String, said: &mut Vec<ContentPart>| {
        let text = std::mem::take(text);
        said.extend((!text.trim().is_empty()).then_some(ContentPart::Text(text)));
    };
    for part in parts {
        match part {
            ReplyPart::Text(more) => text.push_str(more),
            ReplyPart::Reasoning(thoughts) => {
                text.extend(in_content(thoughts, PROVIDER).unwrap_or_default());
            }
            ReplyPart::Call(call) => {
                end(&mut text, &mut said);
                let arguments = object_of(&call.arguments);
                let arguments = arguments.as_deref().unwrap_or(&call.arguments);
                said.push(ContentPart::ToolCall(ToolCall {
                    call_id: call.id.clone(),
                    fn_name: call.name.clone(),
                    fn_arguments: serde_json::from_str(arguments).unwrap_or_default(),
                    thought_signatures: None,
                }));
            }
            _ => {}
        }
    }
    end(&mut text, &mut said);
    said
}
