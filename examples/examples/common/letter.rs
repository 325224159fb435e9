//! An agent that answers with a letter, in a conversation. Its model is a script.

use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::event::EventKind;
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Context, Effect, Message, Partial, Reply, Request, Result, Signature, Tool, ToolCall, from_fn,
};
use toolwright_orchestrator::{Agent, Task};

/// A letter to a customer.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Letter {
    pub(crate) to: String,
    pub(crate) lines: Vec<String>,
}

/// Find an order.
#[derive(Serialize, Deserialize, JsonSchema)]
struct FindOrder {
    number: u32,
}

impl Signature for FindOrder {
    type Output = String;
}

/// Returns an agent whose model looks the order up, and then writes the letter. Its first letter has no
/// lines, so it writes another one.
pub(crate) fn agent() -> Result<Agent<Letter>> {
    let model = Scripted::new(|request: &Request| {
        let (name, arguments) = match request.messages.len() {
            3 => ("find_order", r#"{"number": 1042}"#),
            5 => ("finish", r#"{"to": "Ada Obi"}"#),
            _ => ("finish", r#"{"to": "Ada Obi", "lines": ["Your hinges are on", "their way."]}"#),
        };
        let id = format!("call_{}", request.messages.len());
        Ok(Reply::calls([ToolCall::new(id, name, arguments)]))
    });
    let find = from_fn(async |find: FindOrder| Ok(format!("Order {}: sent.", find.number)));
    let find = Tool::new(find)?.with_effect(Effect::Read);
    Ok(Agent::new(model, [find])?.answering()?)
}

/// Returns the next message of a conversation.
pub(crate) fn task() -> Task {
    Task::new("Tell her so.").with_history([
        Message::user("Has order 1042 of Ada Obi been sent?"),
        Message::assistant("Yes, today."),
    ])
}

/// Returns a context that shows the answer after each piece that the model writes.
pub(crate) fn watched(show: impl Fn(&Partial) + Send + Sync + 'static) -> Context {
    let answer = Mutex::new(Partial::new());
    Context::default().with_events(move |event| {
        let EventKind::AnswerDelta { at, text } = &event.kind else { return };
        let mut answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
        if *at == 0 {
            // Another answer begins.
            *answer = Partial::new();
        }
        answer.push(text);
        show(&answer);
    })
}
