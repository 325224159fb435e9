//! The choice of tools by JSON answers (`Choosing::Selector`): the prompt, and the reading of
//! selections.
//!
//! A run stores the same conversation with native calls and with selections. This module converts
//! its messages: the tools are listed in the system message, a call becomes an answer of the model,
//! and a result becomes a message of the user. The prompt still only grows at its end.

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

/// The selection of a model, with the repairs needed to read it.
#[derive(Debug, PartialEq)]
pub(crate) struct Selection {
    pub(crate) selects: Selects,
    /// The model's remarks about the selection.
    pub(crate) thought: Option<String>,
    pub(crate) repairs: Vec<Repair>,
}

/// The choice of a model.
#[derive(Debug, PartialEq)]
pub(crate) enum Selects {
    /// A call of this tool with these arguments. In a typed run, the tool may be `finish`.
    Call { name: String, arguments: String },
    /// The end of an untyped run: the model can answer the task.
    Finish,
}

/// The contracts that request and read a selection, and the introduction of the prompt.
#[derive(Debug)]
pub(crate) struct Selector {
    /// The contract sent to the provider. Its output schema contains the input schema of each tool.
    pub(crate) asked: Arc<Contract>,
    /// The contract that reads the answer. It accepts any object, so that each tool reports the
    /// faults of its own arguments.
    read: Contract,
    names: Vec<String>,
    introduction: String,
    typed: bool,
}

impl Selector {
    /// Returns a selector of these tools. The last one is `finish` if the run is `typed`.
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

    /// Reads the selection in a reply's text. The error is a text for the model.
    ///
    /// `policy` says how far the text may be repaired, and `policy_of` how far it may be repaired
    /// if it calls a given tool.
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

    /// Converts a conversation to the form of the selector.
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

    /// Converts one message to the form of the selector.
    pub(crate) fn show(&self, message: &Arc<Message>) -> Arc<Message> {
        match &**message {
            Message::Tool(result) => {
                let how = if result.failed { "failed" } else { "answered" };
                // Repeated with each result. Small models otherwise forget the choice and repeat
                // the call.
                let text = format!(
                    "`{}` {how}:\n{}\n\nAnswer with the next call, or finish if the task is done.",
                    result.name, result.text,
                );
                let mut parts = vec![Part::Text(text)];
                parts.extend_from_slice(&result.parts);
                Arc::new(Message::User { parts })
            }
            Message::Assistant { parts } => {
                let called = parts.iter().any(|part| matches!(part, ReplyPart::Call(_)));
                if !called {
                    return Arc::clone(message);
                }
                // A remark beside the call is not part of the requested form.
                let parts = parts.iter().filter_map(|part| match part {
                    ReplyPart::Call(call) => Some(ReplyPart::text(selection(call, self.typed))),
                    ReplyPart::Text(_) => None,
                    other => Some(other.clone()),
                });
                Arc::new(Message::Assistant { parts: parts.collect() })
            }
            _ => Arc::clone(message),
        }
    }
}

/// Returns a call in the form of a selection.
fn selection(call: &ToolCall, typed: bool) -> String {
    // The raw text keeps the order of fields and the form of numbers.
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
        // The form in which MCP lists a tool, without the fields that only a client needs.
        let (name, description) = (contract.name(), contract.description());
        let input = &contract.lower(Dialect::Mcp)?.schema;
        let tool = json!({"name": name, "description": description, "inputSchema": input});
        let _ = write!(text, "\n{tool}");
    }
    Ok(text)
}
