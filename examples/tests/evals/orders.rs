//! The shop of the eval, and a script in place of a model.
use toolwright::module::{Message, Reply, Request, ToolCall};
use toolwright::testing::Scripted;
use toolwright::tool;

/// Get the state of an order.
#[tool(effect = Read)]
pub(super) fn get_order(
    /// Number of the order.
    id: u32,
) -> String {
    let states = ["on its way", "delivered", "cancelled", "not been sent yet", "returned"];
    match id {
        1..10 => format!("state: {}", states[(id as usize - 1) % states.len()]),
        _ => "no order has this number".to_owned(),
    }
}

/// Looks up the number in the task, and tells the state. As a judge, it is content.
pub(super) fn model() -> impl toolwright::module::LanguageModel {
    Scripted::new(|request: &Request| {
        let last = request.messages.last().map(|last| &**last);
        Ok(match last {
            Some(Message::Tool(result)) => Reply::text(format!("Order: {}.", result.text)),
            _ if request.tools.is_empty() => {
                Reply::text(r#"{"reason": "Short, and not rude.", "score": 8}"#)
            }
            _ => {
                let task = last.map(Message::to_text).unwrap_or_default();
                let mut numbers = task.split(|char: char| !char.is_ascii_digit());
                let id = numbers.rfind(|number| !number.is_empty()).unwrap_or("0");
                Reply::calls([ToolCall::new("1", "get_order", format!(r#"{{"id": {id}}}"#))])
            }
        })
    })
}
