//! A client: the order rules of AG-UI, and the messages that `@ag-ui/client` makes of the events.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// A client of one conversation.
#[derive(Default)]
pub(super) struct Client {
    pub(super) messages: Vec<Value>,
    /// The last event, if the answer is over.
    pub(super) end: Option<Value>,
    pub(super) stream: Open,
}

/// What is open in an answer, and what was.
#[derive(Default)]
pub(super) struct Open {
    begun: bool,
    open: BTreeSet<(&'static str, String)>,
    closed: BTreeSet<(&'static str, String)>,
    owners: BTreeMap<(&'static str, String), Option<String>>,
}

impl Client {
    /// Reads another answer.
    pub(super) fn next_answer(&mut self) {
        (self.stream, self.end) = (Open::default(), None);
    }

    /// Applies an event.
    pub(super) fn apply(&mut self, event: &str) {
        let event: Value = serde_json::from_str(event).unwrap();
        assert!(self.end.is_none(), "{event} comes after the end");
        let field = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let owner = event["subagentRunId"].as_str().map(ToOwned::to_owned);
        let kind = field("type");
        assert_eq!(self.stream.begun, kind != "RUN_STARTED", "{event}");
        if let Some(owner) = &owner
            && !kind.starts_with("SUBAGENT")
        {
            assert!(self.stream.is_open("agent", owner), "{event} is of an agent that ended");
        }
        match &*kind {
            "RUN_STARTED" => self.stream.begun = true,
            "TEXT_MESSAGE_START" => {
                self.stream.open("text", field("messageId"), owner.as_deref());
                self.message(&field("messageId"), "assistant", owner);
            }
            "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT" => {
                let what = if kind.starts_with("TEXT") { "text" } else { "reasoning" };
                let (id, delta) = (field("messageId"), field("delta"));
                assert!(self.stream.is_open(what, &id) && !delta.is_empty(), "{event}");
                let message = self.find(&id);
                let text = message["content"].as_str().unwrap_or_default().to_owned() + &delta;
                message["content"] = json!(text);
            }
            "TEXT_MESSAGE_END" => self.stream.close("text", field("messageId")),
            "REASONING_START" => self.stream.open("span", field("messageId"), owner.as_deref()),
            "REASONING_MESSAGE_START" => {
                self.stream.open("reasoning", field("messageId"), owner.as_deref());
                self.message(&field("messageId"), "reasoning", owner);
            }
            "REASONING_MESSAGE_END" => self.stream.close("reasoning", field("messageId")),
            "REASONING_END" => self.stream.close("span", field("messageId")),
            "TOOL_CALL_START" => {
                let (id, parent) = (field("toolCallId"), field("parentMessageId"));
                self.stream.open("call", id.clone(), owner.as_deref());
                let known = self.stream.owners.get(&("text", parent.clone()));
                assert!(known.is_none_or(|known| *known == owner), "{event} has another parent");
                if self.call(&id).is_none() {
                    let name = field("toolCallName");
                    let message = self.message(&parent, "assistant", owner);
                    let mut calls = message["toolCalls"].as_array().cloned().unwrap_or_default();
                    let function = json!({ "name": name, "arguments": "" });
                    calls.push(json!({ "id": id, "type": "function", "function": function }));
                    message["toolCalls"] = json!(calls);
                }
            }
            "TOOL_CALL_ARGS" => {
                let (id, delta) = (field("toolCallId"), field("delta"));
                assert!(self.stream.is_open("call", &id) && !delta.is_empty(), "{event}");
                let arguments = &mut self.call(&id).unwrap()["function"]["arguments"];
                *arguments = json!(arguments.as_str().unwrap().to_owned() + &delta);
            }
            "TOOL_CALL_END" => self.stream.close("call", field("toolCallId")),
            "TOOL_CALL_RESULT" => {
                let id = field("toolCallId");
                assert!(!self.stream.is_open("call", &id) && self.call(&id).is_some(), "{event}");
                let has_call = |message: &Value| {
                    let calls = message["toolCalls"].as_array();
                    calls.is_some_and(|calls| calls.iter().any(|call| call["id"] == *id))
                };
                let mut at = self.messages.iter().position(has_call).unwrap() + 1;
                while self.messages.get(at).is_some_and(|message| message["role"] == "tool") {
                    at += 1;
                }
                let (message, content) = (field("messageId"), field("content"));
                let mut message = json!(
                    { "id": message, "role": "tool", "toolCallId": id, "content": content }
                );
                if let Some(owner) = owner {
                    message["subagentRunId"] = json!(owner);
                }
                self.messages.insert(at, message);
            }
            "MESSAGES_SNAPSHOT" => self.replace(event["messages"].as_array().unwrap()),
            "SUBAGENT_STARTED" => {
                let parent = event["parentSubagentRunId"].as_str();
                assert!(
                    parent.is_none_or(|parent| self.stream.is_open("agent", parent)),
                    "{event}"
                );
                self.stream.open("agent", field("subagentRunId"), None);
            }
            "SUBAGENT_FINISHED" | "SUBAGENT_ERROR" => {
                self.stream.close("agent", field("subagentRunId"));
            }
            "CUSTOM" => assert!(field("name").starts_with("toolwright."), "{event}"),
            "RUN_FINISHED" => {
                assert_eq!(self.stream.open, BTreeSet::new(), "{event} leaves something open");
                let interrupts = &event["outcome"]["interrupts"];
                assert!(interrupts.as_array().is_none_or(|all| !all.is_empty()), "{event}");
                self.end = Some(event);
            }
            "RUN_ERROR" => self.end = Some(event),
            _ => panic!("{event} is not known"),
        }
    }

    /// A client keeps its reasoning if the snapshot has none.
    fn replace(&mut self, new: &[Value]) {
        let ids: BTreeSet<_> = new.iter().map(|message| message["id"].to_string()).collect();
        assert_eq!(ids.len(), new.len(), "a snapshot has a message twice: {new:?}");
        let of = |id: &Value| new.iter().find(|message| message["id"] == *id);
        let has_reasoning = new.iter().any(|message| message["role"] == "reasoning");
        let mut messages = Vec::new();
        for message in std::mem::take(&mut self.messages) {
            let kept = Some(&message).filter(|old| old["role"] == "reasoning" && !has_reasoning);
            messages.extend(of(&message["id"]).or(kept).cloned());
        }
        let added = new.iter().filter(|new| messages.iter().all(|old| old["id"] != new["id"]));
        let added: Vec<_> = added.cloned().collect();
        self.messages = messages.into_iter().chain(added).collect();
    }

    fn find(&mut self, id: &str) -> &mut Value {
        self.messages.iter_mut().find(|message| message["id"] == *id).unwrap()
    }

    fn message(&mut self, id: &str, role: &str, owner: Option<String>) -> &mut Value {
        if self.messages.iter().all(|message| message["id"] != *id) {
            let mut message = json!({ "id": id, "role": role });
            if let Some(owner) = owner {
                message["subagentRunId"] = json!(owner);
            }
            self.messages.push(message);
        }
        self.find(id)
    }

    fn call(&mut self, id: &str) -> Option<&mut Value> {
        let calls = self
            .messages
            .iter_mut()
            .filter_map(|message| message.get_mut("toolCalls")?.as_array_mut());
        calls.flatten().find(|call| call["id"] == *id)
    }
}

impl Open {
    fn is_open(&self, what: &'static str, id: &str) -> bool {
        self.open.contains(&(what, id.to_owned()))
    }

    fn open(&mut self, what: &'static str, id: String, owner: Option<&str>) {
        let entry = (what, id);
        assert!(!self.closed.contains(&entry), "{entry:?} was ended");
        assert!(self.open.insert(entry.clone()), "{entry:?} is open");
        let owner = owner.map(ToOwned::to_owned);
        let known = self.owners.entry(entry.clone()).or_insert_with(|| owner.clone());
        assert_eq!(*known, owner, "{entry:?}");
    }

    fn close(&mut self, what: &'static str, id: String) {
        let entry = (what, id);
        assert!(self.open.remove(&entry), "{entry:?} is not open");
        self.closed.insert(entry);
    }
}
