use serde_json::{Map, Value, json};

use super::chunk::Chunk;
use super::writer::UiMessages;
use crate::update::{Attachment, Update, UpdateKind};

/// Returns the messages of one run as `UIMessage`s: that of the user, and that of the assistant if
/// there is something of it.
///
/// That of the assistant is what a client has that has read all chunks, so that a page that was opened
/// again goes on from it.
pub(crate) fn messages(updates: &[Update], is_waiting: bool) -> Vec<Value> {
    let mut writer = UiMessages::new(true);
    let mut answer = Folded::default();
    for update in updates {
        writer.chunks(update).iter().for_each(|chunk| answer.add(chunk));
    }
    let is_stopped = updates.last().is_some_and(|update| {
        update.path.is_empty() && matches!(update.kind, UpdateKind::Stopped { .. })
    });
    if is_stopped || is_waiting {
        writer.end().iter().for_each(|chunk| answer.add(chunk));
    }
    let mut messages: Vec<_> = updates.first().and_then(user).into_iter().collect();
    if answer.has_content() {
        messages.push(answer.into_json());
    }
    messages
}

/// Returns the message of the user that began a run.
fn user(started: &Update) -> Option<Value> {
    let UpdateKind::Started { run, message, text, attachments } = &started.kind else {
        return None;
    };
    let mut parts: Vec<_> = attachments.iter().map(attachment).collect();
    if !text.is_empty() {
        parts.push(json!({ "type": "text", "text": text }));
    }
    let id = message.clone().unwrap_or_else(|| format!("{run}-user"));
    Some(json!({ "id": id, "role": "user", "parts": parts }))
}

/// Returns the part for a file. It is not a `file`, because its content is not known here.
fn attachment(attachment: &Attachment) -> Value {
    let mut data = json!({ "kind": attachment.kind });
    if let Some(media_type) = &attachment.media_type {
        data["mediaType"] = json!(media_type);
    }
    json!({ "type": "data-attachment", "data": data })
}

/// A message that is built from chunks as `processUIMessageStream` builds it.
#[derive(Debug, Default)]
pub(crate) struct Folded {
    id: String,
    metadata: Map<String, Value>,
    parts: Vec<Folding>,
}

/// A part, and the id by which chunks add to it.
#[derive(Debug)]
struct Folding {
    id: String,
    part: Map<String, Value>,
    /// The text of a text or a reasoning. It is not in the part before the end, because it grows.
    text: Option<String>,
}

impl Folding {
    fn is(&self, kind: &str, id: &str) -> bool {
        self.id == id && self.part.get("type").and_then(Value::as_str) == Some(kind)
    }
}

const TOOL: &str = "dynamic-tool";

impl Folded {
    /// Adds a chunk. What a client refuses is ignored.
    pub(crate) fn add(&mut self, chunk: &Chunk) {
        match chunk {
            Chunk::Start { message_id } => self.id.clone_from(message_id),
            Chunk::StartStep => self.push("", json!({ "type": "step-start" }), None),
            Chunk::ResetStep => self.parts.truncate(self.step()),
            Chunk::TextStart { id } => self.begin("text", id),
            Chunk::ReasoningStart { id } => self.begin("reasoning", id),
            Chunk::TextDelta { id, delta } => self.extend("text", id, delta),
            Chunk::ReasoningDelta { id, delta } => self.extend("reasoning", id, delta),
            Chunk::TextEnd { id } => self.set("text", id, [("state", json!("done"))]),
            Chunk::ReasoningEnd { id } => self.set("reasoning", id, [("state", json!("done"))]),
            Chunk::ToolInputStart { tool_call_id, tool_name, .. } => {
                let streaming = json!({ "toolName": tool_name, "state": "input-streaming" });
                self.tool(tool_call_id, streaming);
            }
            // The arguments of a call that is not whole are shown to those who read the stream.
            Chunk::ToolInputDelta { .. } | Chunk::FinishStep => {}
            Chunk::ToolInputAvailable { tool_call_id, tool_name, input, title, .. } => {
                let mut part = json!({
                    "toolName": tool_name, "state": "input-available", "input": input,
                });
                if let Some(title) = title {
                    part["title"] = json!(title);
                }
                self.tool(tool_call_id, part);
            }
            Chunk::ToolInputError { tool_call_id, tool_name, input, error_text, .. } => {
                let part = json!({
                    "toolName": tool_name, "state": "output-error", "input": input,
                    "errorText": error_text,
                });
                self.tool(tool_call_id, part);
            }
            Chunk::ToolApprovalRequest {
                approval_id,
                tool_call_id,
                approval_descriptor,
                reason,
                is_automatic,
            } => {
                let mut approval = json!({ "id": approval_id });
                if !approval_descriptor.is_null() {
                    approval["descriptor"] = approval_descriptor.clone();
                }
                if *is_automatic {
                    approval["isAutomatic"] = json!(true);
                }
                if let Some(reason) = reason {
                    approval["requestReason"] = json!(reason);
                }
                let state = json!("approval-requested");
                self.set(TOOL, tool_call_id, [("state", state), ("approval", approval)]);
            }
            Chunk::ToolApprovalResponse { approval_id, approved, reason } => {
                let asked = |part: &&mut Folding| {
                    part.part.get("approval").is_some_and(|it| it["id"] == json!(approval_id))
                };
                if let Some(known) = self.parts.iter_mut().find(asked) {
                    let approval = &mut known.part["approval"];
                    approval["approved"] = json!(approved);
                    if let Some(reason) = reason {
                        approval["reason"] = json!(reason);
                    }
                    known.part.insert("state".to_owned(), json!("approval-responded"));
                }
            }
            Chunk::ToolOutputAvailable { tool_call_id, output, provider_metadata } => {
                let state = ("state", json!("output-available"));
                let metadata = ("resultProviderMetadata", provider_metadata.clone());
                self.set(TOOL, tool_call_id, [state, ("output", json!(output)), metadata]);
            }
            Chunk::ToolOutputError { tool_call_id, error_text, provider_metadata } => {
                let state = ("state", json!("output-error"));
                let metadata = ("resultProviderMetadata", provider_metadata.clone());
                self.set(TOOL, tool_call_id, [state, ("errorText", json!(error_text)), metadata]);
            }
            Chunk::ToolOutputDenied { tool_call_id } => {
                self.set(TOOL, tool_call_id, [("state", json!("output-denied"))]);
            }
            Chunk::MessageMetadata { message_metadata } => self.add_metadata(message_metadata),
            Chunk::Finish { message_metadata, .. } => {
                message_metadata.iter().for_each(|metadata| self.add_metadata(metadata));
            }
            Chunk::Abort { .. } | Chunk::Error { .. } | Chunk::Data { transient: true, .. } => {}
            Chunk::Data { name, id, data, .. } => {
                let id = id.as_deref().unwrap_or_default();
                match self.parts.iter_mut().find(|part| part.is(name, id)) {
                    Some(known) => known.part.extend([("data".to_owned(), data.clone())]),
                    None => self.push(id, json!({ "type": name, "id": id, "data": data }), None),
                }
            }
        }
    }

    /// Returns whether there is more than marks of steps.
    pub(crate) fn has_content(&self) -> bool {
        let is_content = |part: &Folding| part.part.get("type") != Some(&json!("step-start"));
        !self.metadata.is_empty() || self.parts.iter().any(is_content)
    }

    pub(crate) fn into_json(self) -> Value {
        let parts = self.parts.into_iter().map(|Folding { mut part, text, .. }| {
            part.extend(text.map(|text| ("text".to_owned(), Value::String(text))));
            Value::Object(part)
        });
        let mut message = json!({ "id": self.id, "role": "assistant" });
        message["parts"] = parts.collect();
        if !self.metadata.is_empty() {
            message["metadata"] = Value::Object(self.metadata);
        }
        message
    }

    /// Returns the place after the mark of the last step.
    fn step(&self) -> usize {
        let is_mark = |part: &Folding| part.is("step-start", "");
        self.parts.iter().rposition(is_mark).map_or(0, |mark| mark + 1)
    }

    fn push(&mut self, id: &str, part: Value, text: Option<String>) {
        if let Value::Object(part) = part {
            self.parts.push(Folding { id: id.to_owned(), part, text });
        }
    }

    fn begin(&mut self, kind: &str, id: &str) {
        self.push(id, json!({ "type": kind, "state": "streaming" }), Some(String::new()));
    }

    fn extend(&mut self, kind: &str, id: &str, delta: &str) {
        let part = self.parts.iter_mut().rfind(|part| part.is(kind, id));
        if let Some(text) = part.and_then(|part| part.text.as_mut()) {
            text.push_str(delta);
        }
    }

    fn set<const N: usize>(&mut self, kind: &str, id: &str, fields: [(&str, Value); N]) {
        if let Some(known) = self.parts.iter_mut().rfind(|part| part.is(kind, id)) {
            known.part.extend(fields.map(|(name, value)| (name.to_owned(), value)));
        }
    }

    /// Adds the part of a call to this step, or replaces it. The approval stays.
    fn tool(&mut self, id: &str, mut part: Value) {
        part["type"] = json!(TOOL);
        part["toolCallId"] = json!(id);
        let from = self.step();
        let known = self.parts.iter_mut().skip(from).find(|known| known.is(TOOL, id));
        let Some(known) = known else { return self.push(id, part, None) };
        for kept in ["approval", "title"] {
            if let (Some(value), None) = (known.part.get(kept), part.get(kept)) {
                part[kept] = value.clone();
            }
        }
        if let Value::Object(part) = part {
            known.part = part;
        }
    }

    fn add_metadata(&mut self, metadata: &Value) {
        if let Value::Object(fields) = metadata {
            self.metadata.extend(fields.clone());
        }
    }
}
