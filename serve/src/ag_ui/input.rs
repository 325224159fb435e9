//! Reading of the requests of AG-UI clients.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use toolwright_module::approval::Decision;
use toolwright_module::message::{Audio, Document, Image, Part, Source};

use crate::protocol::{Answered, Incoming, Place, Said, readable};

/// The beginning of the id that we give to a message of the user that was sent without one.
pub(super) const OURS: &str = "toolwright-message-of-";

/// A request of a client (`RunAgentInput`), as far as the server needs it.
#[derive(Debug, PartialEq, Default)]
pub(crate) struct Input {
    pub(crate) incoming: Incoming,
    /// The id that the client gave to this exchange. The events of the answer carry it.
    pub(crate) run_id: String,
    /// The client's messages up to the last one of the user, as it sent them.
    pub(crate) before: Vec<Value>,
    /// The ids of the reasoning that the client has after them.
    pub(crate) reasoning: Vec<String>,
    /// Whether the client may have a part of the answer. Otherwise it gets all of it.
    pub(crate) has_answer: bool,
    /// Whether the client is older than version 1.0, so that it knows of no stopped runs.
    pub(crate) is_old: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RunAgentInput {
    thread_id: String,
    run_id: String,
    messages: Vec<Value>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    #[serde(default)]
    context: Option<Vec<Context>>,
    #[serde(default)]
    state: Value,
    #[serde(default)]
    forwarded_props: Value,
    #[serde(default)]
    resume: Option<Vec<Resume>>,
    #[serde(default)]
    protocol_version: Option<String>,
}

/// Something that the application wants the model to know.
#[derive(Deserialize)]
struct Context {
    description: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resume {
    interrupt_id: String,
    status: Status,
    // The text, because a `Value` rounds the numbers in the arguments of a person.
    payload: Option<Box<RawValue>>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Status {
    Resolved,
    Cancelled,
}

/// The answer to a question. The writer sends its schema with the question.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Payload {
    approved: Option<bool>,
    reason: Option<String>,
    edited_args: Option<Box<RawValue>>,
    call_again: Option<bool>,
    happened: Option<String>,
}

/// What the protocol has no field for. A client sends it as `forwardedProps.toolwright`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Own {
    /// Whether the user's last message is answered again.
    #[serde(default)]
    again: bool,
    /// Whether the user's last message replaces the one with its id.
    #[serde(default)]
    replaces: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct ForwardedProps {
    #[serde(default)]
    toolwright: Own,
}

/// Reads the body of a request.
///
/// # Errors
///
/// The error says in words what is wrong with the body, or what this server does not support.
pub(crate) fn read(body: &[u8]) -> Result<Input, String> {
    let input: RunAgentInput = serde_json::from_slice(&readable(body))
        .map_err(|error| format!("the body is not a `RunAgentInput` of AG-UI: {error}"))?;
    if input.thread_id.is_empty() {
        return Err("`threadId` is empty; set the id of the conversation".to_owned());
    }
    if input.tools.is_some_and(|tools| !tools.is_empty()) {
        return Err("`tools` is not empty, but this server does not call tools of the client; \
            give the tools to the agent and leave `tools` out"
            .to_owned());
    }
    if !is_empty(&input.state) {
        return Err("`state` is not empty, but this agent shares no state with the client; \
            leave `state` out"
            .to_owned());
    }
    let own = match is_empty(&input.forwarded_props) {
        true => Own::default(),
        false => {
            ForwardedProps::deserialize(&input.forwarded_props)
                .map_err(|error| {
                    format!("`forwardedProps` has something else than `toolwright`: {error}")
                })?
                .toolwright
        }
    };
    let decisions = input.resume.unwrap_or_default().into_iter().map(Resume::into_answer);
    let decisions: Vec<_> = decisions.collect::<Result<_, _>>()?;

    let mut before = input.messages;
    let last = before.iter().rposition(is_of_user);
    let after = before.split_off(last.map_or(0, |last| last + 1));
    let has_answer = !decisions.is_empty() || !after.is_empty();
    let answers_only = !decisions.is_empty() && after.iter().any(|message| !is_reasoning(message));
    let said = match (last, before.last()) {
        (Some(at), Some(message)) if !answers_only => Some((at, message)),
        _ if decisions.is_empty() => {
            return Err("there is no message with the role `user`, and no answer in `resume`; \
                send the user's message as the last one of `messages`"
                .to_owned());
        }
        _ => None,
    };
    let (mut message, mut again) = (None, None);
    if let Some((at, said)) = said {
        let id = said.get("id").and_then(Value::as_str).map(ToOwned::to_owned);
        if (own.again || own.replaces) && id.is_none() {
            return Err(format!("messages[{at}] has no `id`, so it cannot be found again"));
        }
        let is_ours = id.as_ref().is_some_and(|id| id.starts_with(OURS));
        if own.again {
            again = id;
        } else if !is_ours {
            let mut parts = Vec::from_iter(context(input.context.unwrap_or_default()));
            parts.extend(content(said).map_err(|error| format!("messages[{at}].content{error}"))?);
            let earlier = before.split_last().map_or(&[][..], |(_, earlier)| earlier);
            let place =
                Place::After(earlier.iter().rev().find(|&it| is_of_user(it)).and_then(self::id));
            message = Some(Said { id, parts, replaces: own.replaces, place });
        }
    }
    Ok(Input {
        incoming: Incoming {
            conversation: input.thread_id,
            message,
            earlier: before.iter().filter(|message| is_of_user(message)).count().saturating_sub(1),
            decisions,
            again,
        },
        run_id: input.run_id,
        before,
        has_answer,
        // Clients say their version since 1.0.
        is_old: input.protocol_version.is_none(),
        reasoning: after.iter().filter(|message| is_reasoning(message)).filter_map(id).collect(),
    })
}

impl Resume {
    fn into_answer(self) -> Result<Answered, String> {
        let Self { interrupt_id: question, status, payload } = self;
        if status == Status::Cancelled {
            let reason = "The user closed the question without an answer.".to_owned();
            return Ok(Answered { question, decision: Decision::Deny { reason } });
        }
        let wrong = |what: &str| {
            format!(
                "the `payload` for the interrupt `{question}` {what}; send `approved`, with \
                `editedArgs` or `reason` if you like, or for a call that may have taken effect \
                `callAgain` or `happened`"
            )
        };
        let payload: Payload =
            serde_json::from_str(payload.as_deref().map_or("null", RawValue::get))
                .map_err(|error| wrong(&format!("does not fit its schema: {error}")))?;
        let Payload { approved, reason, edited_args, call_again, happened } = payload;
        // Forms send an empty text for a field that nobody filled in.
        let reason = reason.filter(|reason| !reason.trim().is_empty());
        let decision = match (approved, reason, edited_args, call_again, happened) {
            (Some(true), None, None, None, None) => Decision::Approve,
            (Some(true), None, Some(arguments), None, None) => {
                Decision::Edit { arguments: arguments.get().to_owned() }
            }
            (Some(false), reason, None, None, None) => {
                Decision::Deny { reason: reason.unwrap_or_else(|| "The user said no.".to_owned()) }
            }
            (None, None, None, Some(true), None) => Decision::CallAgain,
            (None, None, None, None, Some(result)) => Decision::Happened { result },
            _ => return Err(wrong("has no decision, or more than one")),
        };
        Ok(Answered { question, decision })
    }
}

/// Clients send empty objects for what they do not use.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn is_of_user(message: &Value) -> bool {
    // A message to an agent below is not one of the person.
    message.get("role").and_then(Value::as_str) == Some("user")
        && message.get("subagentRunId").is_none_or(Value::is_null)
}

fn is_reasoning(message: &Value) -> bool {
    message.get("role").and_then(Value::as_str) == Some("reasoning")
}

fn id(message: &Value) -> Option<String> {
    Some(message.get("id")?.as_str()?.to_owned())
}

/// Returns what the application says besides the user's message, as a text before it.
fn context(entries: Vec<Context>) -> Option<Part> {
    let mut text = String::new();
    for Context { description, value } in entries {
        text.push_str(&format!("{description}:\n{value}\n\n"));
    }
    (!text.is_empty()).then(|| Part::Text(format!("The application says:\n\n{}", text.trim_end())))
}

/// Returns the parts of a message. An error continues the name of its place.
fn content(message: &Value) -> Result<Vec<Part>, String> {
    let parts: Vec<Part> = match message.get("content") {
        Some(Value::String(text)) => vec![Part::Text(text.clone())],
        Some(Value::Array(parts)) => parts
            .iter()
            .enumerate()
            .map(|(at, part)| self::part(part).map_err(|error| format!("[{at}]{error}")))
            .collect::<Result<_, _>>()?,
        _ => return Err(" is not a text, and not a list of parts".to_owned()),
    };
    match parts.iter().all(|part| matches!(part, Part::Text(text) if text.trim().is_empty())) {
        true => Err(" is empty; send a text or a file".to_owned()),
        false => Ok(parts),
    }
}

fn part(part: &Value) -> Result<Part, String> {
    let kind = string(part, "type")?;
    let source = |make: fn(Source) -> Part| {
        let source = part.get("source").ok_or(".source is missing")?;
        let source = self::source(source).map_err(|error| format!(".source{error}"))?;
        Ok(source.map_or_else(|why| left_out(kind, why), make))
    };
    match kind {
        "text" => Ok(Part::Text(string(part, "text")?.to_owned())),
        "image" => source(|source| Image::from(source).into()),
        "document" => source(|source| Document::from(source).into()),
        "audio" => source(|source| Audio::from(source).into()),
        "binary" => binary(part),
        // The protocol forbids to fail for a part that the agent cannot use. The model has to know
        // that something is missing.
        other => Ok(left_out(other, "this agent cannot read it")),
    }
}

/// Reads the part for every kind of file, which versions before 1.0 have.
fn binary(part: &Value) -> Result<Part, String> {
    let media_type = string(part, "mimeType")?;
    let source = match (part.get("data"), part.get("url")) {
        (Some(Value::String(data)), _) => {
            Ok(Source::from_base64(media_type, data).ok_or(".data is not base64")?)
        }
        (_, Some(Value::String(url))) => self::url(url).map_err(|error| format!(".url{error}"))?,
        _ => Err("its content is not in the message"),
    };
    Ok(source.map_or_else(
        |why| left_out(media_type, why),
        |source| match media_type.split('/').next() {
            Some("image") => Image::from(source).into(),
            Some("audio") => Audio::from(source).into(),
            _ => Document::from(source).into(),
        },
    ))
}

/// Returns the place of a file, or why it is left out.
fn source(source: &Value) -> Result<Result<Source, &'static str>, String> {
    let value = string(source, "value")?;
    match string(source, "type")? {
        "data" => {
            let media_type = string(source, "mimeType")?;
            Ok(Ok(Source::from_base64(media_type, value).ok_or(".value is not base64")?))
        }
        "url" => self::url(value).map_err(|error| format!(".value{error}")),
        // The id of another user's file would be read with the server's key.
        "file" => Ok(Err("this server takes no files by their id at a provider")),
        _ => Ok(Err("this server does not know the place where it is")),
    }
}

fn url(url: &str) -> Result<Result<Source, &'static str>, String> {
    if url.starts_with("data:") {
        return match Image::url(url).source {
            bytes @ Source::Bytes { .. } => Ok(Ok(bytes)),
            _ => Err(" is not a `data:` URL with base64".to_owned()),
        };
    }
    match url.starts_with("https://") || url.starts_with("http://") {
        true => Ok(Ok(Source::Url(url.to_owned()))),
        false => Ok(Err("its address does not start with `https://`")),
    }
}

/// Returns a text in place of a file.
fn left_out(kind: &str, why: &str) -> Part {
    Part::Text(format!("[Left out, because {why}: {kind}]"))
}

fn string<'a>(value: &'a Value, name: &str) -> Result<&'a str, String> {
    value.get(name).and_then(Value::as_str).ok_or_else(|| format!(".{name} is not a text"))
}
