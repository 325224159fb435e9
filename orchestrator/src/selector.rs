//! Choosing a tool by answering with a selection: what the model is shown, and how its
//! selection is read.
//!
//! The conversation of a run is the same in both ways of choosing. Here it is only
//! shown in another way: what the tools are stands in the system message, a call is an
//! answer of the model, a result a message of the user. So the prompt grows at its end
//! here too.

use std::fmt::Write as _;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolwright_module::{Message, Part, ReplyPart, ToolCall};
use toolwright_signature::{Contract, Signature};

use crate::error::Result;

/// What the selector is asked for; only its output is ever read.
#[derive(Serialize, Deserialize, JsonSchema)]
struct SelectTool {}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Selected {
    selection: Selection,
}

impl Signature for SelectTool {
    type Output = Selected;
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Selection {
    action: Action,
    tool_name: Option<String>,
    tool_input: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    CallTool,
    Finish,
}

/// What a model selected.
#[derive(Debug, PartialEq)]
pub(crate) enum Selects {
    /// This tool, `finish` of a typed run included, with these arguments.
    Call { name: String, arguments: String },
    /// Nothing more: it can answer the task.
    Finish,
    /// A tool, and it does not say which.
    Nothing,
}

/// The contracts that a selection is asked for and read with, and the words around them.
#[derive(Debug)]
pub(crate) struct Selector {
    /// Whose output holds each tool's own input schema.
    pub(crate) asked: Arc<Contract>,
    /// Of the shape alone: what does not fit a tool is told with all that is wrong, by
    /// that tool.
    read: Contract,
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
            choices.push(if contract.name() == Contract::FINISH {
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
        let nothing = json!({"type": "object", "properties": {}});
        let description = "Choose the next tool, or finish.";
        let asked = Contract::dynamic("select_tool", description, nothing, Some(output))?;
        let introduction = introduction(contracts, typed);
        Ok(Self {
            asked: Arc::new(asked),
            read: Contract::of::<SelectTool>()?,
            introduction,
            typed,
        })
    }

    /// What a reply's text selects, or what is wrong with it.
    pub(crate) fn read(&self, text: &str) -> Result<Selects, toolwright_signature::Error> {
        let Selection { action, tool_name, tool_input } =
            self.read.read_output::<Selected>(text)?.selection;
        let arguments = || Value::Object(tool_input.unwrap_or_default()).to_string();
        let named = tool_name.filter(|name| !name.is_empty());
        let finishes = named.as_deref() == Some(Contract::FINISH);
        Ok(match (action, named) {
            (Action::CallTool, None) => Selects::Nothing,
            (Action::CallTool, Some(name)) if !finishes => {
                Selects::Call { name, arguments: arguments() }
            }
            _ if self.typed => {
                Selects::Call { name: Contract::FINISH.to_owned(), arguments: arguments() }
            }
            _ => Selects::Finish,
        })
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
                let parts = parts.iter().map(|part| match part {
                    ReplyPart::Call(call) => ReplyPart::Text(selection(call)),
                    other => other.clone(),
                });
                Arc::new(Message::Assistant { parts: parts.collect() })
            }
            _ => Arc::clone(message),
        }
    }
}

/// A call as the selection that it was.
fn selection(call: &ToolCall) -> String {
    // As it came, if it is JSON: an order or a number of its own stays.
    let input: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let selection = if call.name == Contract::FINISH {
        json!({"action": "finish", "tool_input": input})
    } else {
        json!({"action": "call_tool", "tool_name": call.name, "tool_input": input})
    };
    json!({ "selection": selection }).to_string()
}

fn introduction(contracts: &[Arc<Contract>], typed: bool) -> String {
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
        let (name, description) = (contract.name(), contract.description());
        let tool = json!({"name": name, "description": description, "input": contract.input()});
        let _ = write!(text, "\n{tool}");
    }
    text
}
