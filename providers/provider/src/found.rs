//! The tools that a model has found in its conversation.

use std::collections::BTreeSet;

use toolwright_module::{Message, Request};

/// Returns the names of the tools that the results in a conversation found and that the request has.
///
/// An API that takes tools within the conversation gets these there. The tools before the conversation,
/// and what the server has cached of them, then stay as they were.
///
/// ```
/// use toolwright_module::message::ToolResult;
/// use toolwright_module::{Message, Request, ToolCall};
/// use toolwright_provider::found_tools;
///
/// let mut result = ToolResult::new(&ToolCall::new("1", "find_tools", "{}"), "Found.");
/// result.found.push("no_longer_there".to_owned());
/// assert!(found_tools(&Request::new([Message::Tool(result).into()])).is_empty());
/// ```
#[must_use]
pub fn found_tools(request: &Request) -> BTreeSet<String> {
    let found = request.messages.iter().filter_map(|message| match &**message {
        Message::Tool(result) if !result.failed => Some(&result.found),
        _ => None,
    });
    let is_there = |name: &&String| request.tools.iter().any(|tool| tool.name() == **name);
    found.flatten().filter(is_there).cloned().collect()
}
