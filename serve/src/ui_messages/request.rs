use serde::Deserialize;
use thiserror::Error;
use toolwright_module::approval::Decision;
use toolwright_module::message::Part;

use crate::error::ServeError;
use crate::protocol::{Answered, Incoming, Said, readable};
use crate::routes::attachment;

/// What the model reads if a person refuses a call without a reason.
const NO_REASON: &str = "The user refused this call.";

/// The body of a request of `DefaultChatTransport`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    id: String,
    #[serde(default)]
    messages: Vec<UiMessage>,
    /// Many pages send only the last message.
    message: Option<UiMessage>,
    #[serde(default)]
    trigger: Trigger,
    message_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Trigger {
    #[default]
    SubmitMessage,
    RegenerateMessage,
}

#[derive(Debug, Deserialize)]
struct UiMessage {
    #[serde(default)]
    id: String,
    role: String,
    #[serde(default)]
    parts: Vec<UiPart>,
}

impl UiMessage {
    fn is_user(&self) -> bool {
        self.role == "user"
    }

    fn is_assistant(&self) -> bool {
        self.role == "assistant"
    }
}

/// The fields that are read of any part.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UiPart {
    r#type: String,
    text: Option<String>,
    media_type: Option<String>,
    url: Option<String>,
    state: Option<String>,
    approval: Option<Approval>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Approval {
    id: String,
    approved: Option<bool>,
    reason: Option<String>,
    /// Nobody was asked.
    #[serde(default)]
    is_automatic: bool,
}

/// Why a request cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum UnreadableRequest {
    #[error(
        "the body is not that of the AI SDK's `DefaultChatTransport`: {0}; send `id`, `messages`, `trigger` and `messageId`"
    )]
    Body(#[from] serde_json::Error),
    #[error("`id` is empty; it names the conversation")]
    NoConversation,
    #[error(
        "`messages` is empty; send the messages of the conversation, or the last one as `message`"
    )]
    NoMessages,
    #[error("`messageId` is `{0}`, and no message has this id")]
    UnknownMessage(String),
    #[error(
        "the last message is of the assistant and answers no question; send a message of the user, or tool parts in the state `approval-responded` (results of tools that run in the page are not supported)"
    )]
    NothingNew,
    #[error("the last message must be of the user when an answer is regenerated")]
    NothingToRegenerate,
    #[error("the last message has no `id`; `useChat` gives each message one")]
    NoMessageId,
    #[error("the last message has neither text nor files")]
    EmptyMessage,
    #[error("the file in part {place} of the last message: {reason}")]
    File { place: usize, reason: String },
}

impl From<UnreadableRequest> for ServeError {
    fn from(error: UnreadableRequest) -> Self {
        Self::request(error.to_string())
    }
}

/// Reads the body of a request.
///
/// A message that is answered again is in `message` as well, for a service that has not received it.
pub(crate) fn read(body: &[u8]) -> Result<Incoming, UnreadableRequest> {
    let mut body: Body = serde_json::from_slice(&readable(body))?;
    if body.messages.is_empty() {
        body.messages.extend(body.message.take());
    }
    let conversation = std::mem::take(&mut body.id);
    if conversation.is_empty() {
        return Err(UnreadableRequest::NoConversation);
    }
    let last = body.messages.last().ok_or(UnreadableRequest::NoMessages)?;
    let named = match body.message_id.as_deref() {
        None | Some("") => None,
        // The answer that is written anew is not among the messages any more.
        Some(_) if body.trigger == Trigger::RegenerateMessage => None,
        Some(id) => {
            let named = body.messages.iter().rfind(|message| message.id == id);
            Some(named.ok_or_else(|| UnreadableRequest::UnknownMessage(id.to_owned()))?)
        }
    };
    let users = body.messages.iter().filter(|message| message.is_user()).count();
    let mut incoming = Incoming { conversation, ..Incoming::default() };

    if body.trigger == Trigger::RegenerateMessage {
        if !last.is_user() {
            return Err(UnreadableRequest::NothingToRegenerate);
        }
        let id = id_of(last)?;
        incoming.earlier = users - 1;
        incoming.again = Some(id.clone());
        // A page does not have the files of a message of before it was opened, but the service does.
        let parts = parts(last).or_else(|error| match error {
            UnreadableRequest::EmptyMessage => Ok(Vec::new()),
            error => Err(error),
        })?;
        incoming.message = Some(Said { id: Some(id), parts, replaces: true, ..Said::default() });
        return Ok(incoming);
    }

    // The client may name an answer before the last one, when the user has answered its questions.
    let answer = named.filter(|message| message.is_assistant());
    if answer.is_none() && last.is_user() {
        incoming.earlier = users - 1;
        let (id, parts) = (Some(id_of(last)?), parts(last)?);
        incoming.message = Some(Said { id, parts, replaces: named.is_some(), ..Said::default() });
        return Ok(incoming);
    }
    incoming.earlier = users;
    incoming.decisions = decisions(answer.unwrap_or(last));
    match incoming.decisions.is_empty() {
        true => Err(UnreadableRequest::NothingNew),
        false => Ok(incoming),
    }
}

fn id_of(message: &UiMessage) -> Result<String, UnreadableRequest> {
    match message.id.as_str() {
        "" => Err(UnreadableRequest::NoMessageId),
        id => Ok(id.to_owned()),
    }
}

/// Returns the answers to the questions of a message.
fn decisions(message: &UiMessage) -> Vec<Answered> {
    let is_tool =
        |part: &&UiPart| part.r#type == "dynamic-tool" || part.r#type.starts_with("tool-");
    let tools = message.parts.iter().filter(is_tool);
    let responded = tools.filter(|part| part.state.as_deref() == Some("approval-responded"));
    let approvals = responded.filter_map(|part| part.approval.as_ref());
    let answered = approvals.filter(|approval| !approval.is_automatic).filter_map(|approval| {
        let decision = match approval.approved? {
            true => Decision::Approve,
            false => {
                let reason = approval.reason.as_deref().filter(|reason| !reason.trim().is_empty());
                Decision::Deny { reason: reason.unwrap_or(NO_REASON).to_owned() }
            }
        };
        Some(Answered { question: approval.id.clone(), decision })
    });
    answered.collect()
}

fn parts(message: &UiMessage) -> Result<Vec<Part>, UnreadableRequest> {
    let mut parts = Vec::new();
    for (place, part) in message.parts.iter().enumerate() {
        match part.r#type.as_str() {
            "text" => match part.text.as_deref() {
                None | Some("") => {}
                Some(text) => parts.push(Part::from(text)),
            },
            "file" => {
                let url = part.url.as_deref().unwrap_or_default();
                let file = attachment(url, part.media_type.as_deref());
                parts.push(file.map_err(|error| UnreadableRequest::File {
                    place: place + 1,
                    reason: error.to_string(),
                })?);
            }
            // Parts of the page, such as `data-…`.
            _ => {}
        }
    }
    match parts.is_empty() {
        true => Err(UnreadableRequest::EmptyMessage),
        false => Ok(parts),
    }
}
