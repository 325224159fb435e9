//! The events that a client gets.

use serde_json::{Value, json};

use super::event::Event;
use super::messages::Messages;

/// The events that a client gets, and the messages that they make.
pub(super) struct Stream {
    /// The messages of the conversation before the run, as the client sent them.
    before: Vec<Value>,
    /// The ids of reasoning that the client may have, but that is void.
    void_reasoning: Vec<String>,
    /// Whether the client gets the events. Otherwise it gets the messages that they make, later.
    begun: bool,
    new: Vec<String>,
    messages: Messages,
}

impl Stream {
    pub(super) fn new(before: Vec<Value>, void_reasoning: Vec<String>) -> Self {
        let (new, messages) = (Vec::new(), Messages::default());
        Self { before, void_reasoning, begun: false, new, messages }
    }

    pub(super) fn begin(&mut self) {
        self.begun = true;
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Returns the new events, as JSON.
    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.new)
    }

    pub(super) fn push(&mut self, event: &Event<'_>) {
        self.messages.apply(event);
        if self.begun {
            // An event has only texts, numbers and JSON, which can be written.
            self.new.extend(serde_json::to_string(event));
        }
    }

    /// Returns the text of a message.
    pub(super) fn text(&self, id: &str) -> Option<&str> {
        self.messages.text(id)
    }

    /// Returns the messages of the run.
    pub(super) fn messages(&self) -> Vec<Value> {
        self.messages.to_json()
    }

    /// Takes back a call, of which the arguments were not whole.
    pub(super) fn take_back_call(&mut self, id: &str) {
        self.messages.remove_call(id);
        self.restate();
    }

    /// Takes back a reply: its message, and its reasoning.
    pub(super) fn take_back(&mut self, message: &str, reasoning: &[String]) {
        let mut had_some = self.messages.remove(message);
        for id in reasoning {
            had_some |= self.messages.remove(id);
        }
        let new = reasoning.iter().filter(|id| !self.void_reasoning.contains(id));
        self.void_reasoning.extend(new.cloned().collect::<Vec<_>>());
        if had_some {
            self.restate();
        }
    }

    /// Sends all messages, in place of those that the client has.
    pub(super) fn restate(&mut self) {
        if !self.begun {
            return;
        }
        let own = self.messages.to_json();
        let mut messages: Vec<&Value> = self.before.iter().chain(&own).collect();
        // A client keeps the reasoning that it has if a snapshot has none. So it gets the void one,
        // without its text.
        let mut void = Vec::new();
        if !messages.iter().any(|message| message["role"] == "reasoning") {
            let empty = |id| json!({"id": id, "role": "reasoning", "content": ""});
            void.extend(self.void_reasoning.iter().map(empty));
        }
        messages.extend(&void);
        self.new.extend(serde_json::to_string(&Event::MessagesSnapshot { messages }));
    }
}
