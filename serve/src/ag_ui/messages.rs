//! The messages of a run, as a client has them after the events.

use serde_json::{Value, json};

use super::event::{ByAgent, Event};

/// The messages that the events of a run make.
///
/// A client makes them from the events as well. They are sent again as a whole if something that was
/// shown is void, and to a reader who comes back.
#[derive(Default)]
pub(super) struct Messages(Vec<Message>);

struct Message {
    id: String,
    role: &'static str,
    agent: Option<String>,
    text: Option<String>,
    calls: Vec<Call>,
    result: Option<OfCall>,
}

struct Call {
    id: String,
    name: String,
    arguments: String,
}

/// What the message of a result has besides its text.
struct OfCall {
    call: String,
    metadata: Value,
}

impl Messages {
    /// Applies an event as a client does.
    pub(super) fn apply(&mut self, event: &Event<'_>) {
        match event {
            Event::TextMessageStart { message_id, role, agent }
            | Event::ReasoningMessageStart { message_id, role, agent } => {
                self.message(message_id, role, *agent).text.get_or_insert_default();
            }
            Event::TextMessageContent { message_id, delta }
            | Event::ReasoningMessageContent { message_id, delta } => {
                let message = self.0.iter_mut().rev().find(|message| message.id == *message_id);
                if let Some(message) = message {
                    message.text.get_or_insert_default().push_str(delta);
                }
            }
            Event::ToolCallStart { tool_call_id, tool_call_name, parent_message_id, agent } => {
                let message = self.message(parent_message_id, "assistant", *agent);
                if message.calls.iter().all(|call| call.id != *tool_call_id) {
                    message.calls.push(Call {
                        id: (*tool_call_id).to_owned(),
                        name: (*tool_call_name).to_owned(),
                        arguments: String::new(),
                    });
                }
            }
            Event::ToolCallArgs { tool_call_id, delta } => {
                let mut calls = self.0.iter_mut().rev().flat_map(|message| &mut message.calls);
                if let Some(call) = calls.find(|call| call.id == *tool_call_id) {
                    call.arguments.push_str(delta);
                }
            }
            Event::ToolCallResult { message_id, tool_call_id, content, role, metadata, agent } => {
                let (call, metadata) = ((*tool_call_id).to_owned(), metadata.clone());
                let mut message = Message::new(message_id, role, *agent);
                message.text = Some((*content).to_owned());
                message.result = Some(OfCall { call, metadata });
                let at = self.place_of_result(tool_call_id);
                self.0.insert(at, message);
            }
            _ => {}
        }
    }

    /// Removes a message. Returns whether there was one.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|message| message.id != id);
        self.0.len() < before
    }

    /// Removes a call, and its message if nothing else is in it.
    pub(super) fn remove_call(&mut self, id: &str) {
        self.0.retain_mut(|message| {
            let before = message.calls.len();
            message.calls.retain(|call| call.id != id);
            message.calls.len() == before || message.text.is_some() || !message.calls.is_empty()
        });
    }

    /// Returns the text of a message.
    pub(super) fn text(&self, id: &str) -> Option<&str> {
        self.0.iter().rev().find(|message| message.id == id)?.text.as_deref()
    }

    /// Returns the messages in the form of the protocol.
    pub(super) fn to_json(&self) -> Vec<Value> {
        self.0.iter().map(Message::to_json).collect()
    }

    /// Returns a message, which is added if it is new.
    fn message(&mut self, id: &str, role: &'static str, agent: ByAgent<'_>) -> &mut Message {
        let at = self.0.iter().rposition(|message| message.id == id).unwrap_or_else(|| {
            self.0.push(Message::new(id, role, agent));
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// Clients put a result after the message with its call, and after the results of its other calls.
    fn place_of_result(&self, call: &str) -> usize {
        let owner =
            self.0.iter().rposition(|message| message.calls.iter().any(|own| own.id == call));
        let Some(owner) = owner else { return self.0.len() };
        let after = self.0.iter().skip(owner + 1);
        owner + 1 + after.take_while(|message| message.result.is_some()).count()
    }
}

impl Message {
    fn new(id: &str, role: &'static str, agent: ByAgent<'_>) -> Self {
        let agent = agent.subagent_run_id.map(ToOwned::to_owned);
        Self { id: id.to_owned(), role, agent, text: None, calls: Vec::new(), result: None }
    }

    fn to_json(&self) -> Value {
        let mut message = json!({"id": self.id, "role": self.role});
        if let Some(text) = &self.text {
            message["content"] = json!(text);
        }
        if !self.calls.is_empty() {
            message["toolCalls"] = self.calls.iter().map(Call::to_json).collect();
        }
        if let Some(OfCall { call, metadata }) = &self.result {
            message["toolCallId"] = json!(call);
            message["metadata"] = metadata.clone();
        }
        if let Some(agent) = &self.agent {
            message["subagentRunId"] = json!(agent);
        }
        message
    }
}

impl Call {
    fn to_json(&self) -> Value {
        let function = json!({"name": self.name, "arguments": self.arguments});
        json!({"id": self.id, "type": "function", "function": function})
    }
}
