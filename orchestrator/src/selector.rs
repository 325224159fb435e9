//! Choosing a tool by answering with a selection: what the model is shown, and how its
//! selection is read.
//!
//! The conversation of a run is the same in both ways of choosing. Here it is only
//! shown in another way: what the tools are stands in the system message, a call is an
//! answer of the model, a result a message of the user. So the prompt grows at its end
//! here too.

mod fields;

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolwright_module::message::{Part, ReplyPart};
use toolwright_module::{Dialect, Message, Policy, ToolCall};
use toolwright_signature::Contract;
use toolwright_signature::Repair;

use crate::error::Result;

/// What a model selected, and what had to be done to read it.
#[derive(Debug, PartialEq)]
pub(crate) struct Selection {
    pub(crate) selects: Selects,
    /// What the model said about it.
    pub(crate) thought: Option<String>,
    pub(crate) repairs: Vec<Repair>,
}

/// What a model selected.
#[derive(Debug, PartialEq)]
pub(crate) enum Selects {
    /// This tool, `finish` of a typed run included, with these arguments.
    Call { name: String, arguments: String },
    /// Nothing more: it can answer the task.
    Finish,
}

/// The contracts that a selection is asked for and read with, and the words around them.
#[derive(Debug)]
pub(crate) struct Selector {
    /// Whose output holds each tool's own input schema.
    pub(crate) asked: Arc<Contract>,
    /// Any object: what does not fit a tool is told with all that is wrong, by that tool.
    read: Contract,
    names: Vec<String>,
    introduction: String,
    typed: bool,
}

impl Selector {
    /// For these tools; the last is `finish` if the run is `typed`.
    pub(crate) fn new(contracts: &[Arc<Contract>], typed: bool) -> Result<Self> {
        let mut choices: Vec<Value> = Vec::new();
        for (place, contract) in contracts.iter().enumerate() {
            let pointer = format!("/properties/selection/anyOf/{place}/properties/tool_input");
            let input = contract.input_at(&pointer);
            choices.push(if typed && contract.name() == Contract::FINISH {
                json!({
                    "type": "object",
                    "description": contract.description(),
                    "properties": {"action": {"const": "finish"}, "tool_input": input},
                    "required": ["action", "tool_input"],
                    "additionalProperties": false,
                })
            } else {
                json!({
                    "type": "object",
                    "properties": {
                        "action": {"const": "call_tool"},
                        "tool_name": {"const": contract.name()},
                        "tool_input": input,
                    },
                    "required": ["action", "tool_name", "tool_input"],
                    "additionalProperties": false,
                })
            });
        }
        if !typed {
            choices.push(json!({
                "type": "object",
                "properties": {"action": {"const": "finish"}},
                "required": ["action"],
                "additionalProperties": false,
            }));
        }
        let output = json!({
            "type": "object",
            "properties": {"selection": {"anyOf": choices}},
            "required": ["selection"],
            "additionalProperties": false,
        });
        let nothing = || json!({"type": "object", "properties": {}});
        let description = "Choose the next tool, or finish.";
        let asked = Contract::dynamic("select_tool", description, nothing(), Some(output))?;
        let any_object = Some(fields::any_object());
        let read = Contract::dynamic("select_tool", description, nothing(), any_object)?;
        let introduction = introduction(contracts, typed)?;
        let names = contracts.iter().map(|contract| contract.name().to_owned()).collect();
        Ok(Self { asked: Arc::new(asked), read, names, introduction, typed })
    }

    /// What a reply's text selects, or what is wrong with it.
    ///
    /// `policy` says how far the text may be repaired, and `policy_of` how far it may be for
    /// a call of a tool.
    pub(crate) fn read(
        &self,
        text: &str,
        policy: Policy,
        policy_of: impl Fn(&str) -> Policy,
    ) -> Result<Selection, String> {
        let read = |policy| fields::read(&self.read, &self.names, self.typed, text, policy);
        let selection = read(policy)?;
        match &selection.selects {
            Selects::Call { name, .. } if policy_of(name) < policy => read(policy_of(name)),
            _ => Ok(selection),
        }
    }

    /// The conversation as it is shown, from its beginning.
    pub(crate) fn show_all(&self, messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
        let mut shown = Vec::with_capacity(messages.len() + 1);
        let rest = match messages.split_first() {
            Some((first, rest)) if matches!(**first, Message::System { .. }) => {
                let Message::System { text } = &**first else { return shown };
                shown.push(Message::system(format!("{text}\n\n{}", self.introduction)));
                rest
            }
            _ => {
                shown.push(Message::system(self.introduction.as_str()));
                messages
            }
        };
        shown.extend(rest.iter().map(|message| self.show(message)));
        shown
    }

    /// A message as it is shown.
    pub(crate) fn show(&self, message: &Arc<Message>) -> Arc<Message> {
        match &**message {
            Message::Tool(result) => {
                let how = if result.failed { "failed" } else { "answered" };
                // Said anew each time: a small model has lost the choice by now, and makes
                // the same call again.
                let text = format!(
                    "`{}` {how}:\n{}\n\nAnswer with the next call, or finish if the task is done.",
                    result.name, result.text,
                );
                let mut parts = vec![Part::Text(text)];
                parts.extend(result.images.iter().cloned().map(Part::Image));
                Arc::new(Message::User { parts })
            }
            Message::Assistant { parts } => {
                let called = parts.iter().any(|part| matches!(part, ReplyPart::Call(_)));
                if !called {
                    return Arc::clone(message);
                }
                // A thought beside it is no part of what is asked for.
                let parts = parts.iter().filter_map(|part| match part {
                    ReplyPart::Call(call) => Some(ReplyPart::Text(selection(call, self.typed))),
                    ReplyPart::Text(_) => None,
                    other => Some(other.clone()),
                });
                Arc::new(Message::Assistant { parts: parts.collect() })
            }
            _ => Arc::clone(message),
        }
    }
}

/// A call as the selection that it was.
fn selection(call: &ToolCall, typed: bool) -> String {
    // As it came: an order or a number of its own stays.
    let input = serde_json::from_str::<&RawValue>(&call.arguments);
    let input = input.map_or("null", RawValue::get);
    if typed && call.name == Contract::FINISH {
        format!(r#"{{"selection":{{"action":"finish","tool_input":{input}}}}}"#)
    } else {
        let name = Value::from(call.name.as_str());
        format!(
            r#"{{"selection":{{"action":"call_tool","tool_name":{name},"tool_input":{input}}}}}"#
        )
    }
}

fn introduction(contracts: &[Arc<Contract>], typed: bool) -> Result<String> {
    let mut text = String::from(
        "You carry out the task with tools, one at a time. Until you are asked for the answer, each of your replies is one JSON object and nothing else. To call a tool:\n{\"selection\":{\"action\":\"call_tool\",\"tool_name\":…,\"tool_input\":…}}\n",
    );
    text.push_str(if typed {
        "Once you know the answer, with the answer for its input:\n{\"selection\":{\"action\":\"finish\",\"tool_input\":…}}\n"
    } else {
        "Once you know enough to answer the task; you are asked for the answer then:\n{\"selection\":{\"action\":\"finish\"}}\n"
    });
    text.push_str("\nThe tools, each with the schema of its input:");
    for contract in contracts {
        // As MCP lists a tool, without what only a client needs.
        let (name, description) = (contract.name(), contract.description());
        let input = &contract.lower(Dialect::Mcp)?.schema;
        let tool = json!({"name": name, "description": description, "inputSchema": input});
        let _ = write!(text, "\n{tool}");
    }
    Ok(text)
}
