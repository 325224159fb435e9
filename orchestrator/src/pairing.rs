//! The pairing of calls and results, which providers require.
use std::collections::HashSet;
use std::sync::Arc;

use toolwright_module::message::{ReplyPart, ToolResult};
use toolwright_module::{Message, ToolCall};
use toolwright_signature::Contract;

/// A fault of a conversation.
type Fault = &'static str;

/// Number of further messages that a conversation has room for.
const USUAL_MESSAGES: usize = 15;

const SAME_ID: Fault = "two calls have the same id";
const NO_CALL: Fault = "a result has no call before it";

/// Returns the calls of a message.
pub(crate) fn calls_of(parts: &[ReplyPart]) -> impl Iterator<Item = &ToolCall> + Clone {
    parts.iter().filter_map(|part| match part {
        ReplyPart::Call(call) => Some(call),
        _ => None,
    })
}

/// Returns the calls at the end that have no result.
///
/// Every other call has exactly one result right after its message, or a fault is returned.
pub(crate) fn open_calls<'a>(
    messages: impl IntoIterator<Item = &'a Arc<Message>>,
) -> Result<Vec<&'a ToolCall>, Fault> {
    let mut seen = HashSet::new();
    let mut open: Vec<&ToolCall> = Vec::new();
    for message in messages {
        match &**message {
            Message::Tool(result) => answer(&mut open, result)?,
            _ if !open.is_empty() => return Err("a call has no result after it"),
            Message::Assistant { parts } => {
                open.extend(calls_of(parts));
                if !open.iter().all(|call| seen.insert(call.id.as_str())) {
                    return Err(SAME_ID);
                }
            }
            _ => {}
        }
    }
    Ok(open)
}

/// Returns a conversation in which each call without a result has one that says so.
pub(crate) fn answered(messages: Vec<Arc<Message>>) -> Result<Vec<Arc<Message>>, Fault> {
    let mut seen: HashSet<String> = HashSet::new();
    let mut paired: Vec<Arc<Message>> = Vec::with_capacity(messages.len() + USUAL_MESSAGES);
    let mut open: Vec<ToolCall> = Vec::new();
    for message in messages {
        match &*message {
            Message::Tool(result) => {
                let mut left = open.iter().collect();
                answer(&mut left, result)?;
                open.retain(|call| call.id != result.id);
            }
            Message::System { .. } if !paired.is_empty() => {
                return Err("a system message is not at the start");
            }
            Message::User { parts } if parts.is_empty() => {
                return Err("a message of the user has no parts");
            }
            other => {
                paired.extend(open.drain(..).map(interrupted));
                if let Message::Assistant { parts } = other {
                    open.extend(calls_of(parts).cloned());
                }
                if open.iter().any(|call| call.id.is_empty()) {
                    return Err("a call has no id");
                }
                if !open.iter().all(|call| seen.insert(call.id.clone())) {
                    return Err(SAME_ID);
                }
            }
        }
        paired.push(message);
    }
    paired.extend(open.into_iter().map(interrupted));
    Ok(paired)
}

/// Removes the call of a result.
fn answer(open: &mut Vec<&ToolCall>, result: &ToolResult) -> Result<(), Fault> {
    // Results are in the order of the calls, unless another program wrote them.
    let place = open.iter().position(|call| call.id == result.id).ok_or(NO_CALL)?;
    open.remove(place);
    Ok(())
}

fn interrupted(call: ToolCall) -> Arc<Message> {
    Arc::new(Message::Tool(interrupted_result(&call)))
}

/// Returns the result of a call that was begun and has no other result.
pub(crate) fn interrupted_result(call: &ToolCall) -> ToolResult {
    // The call that ends a typed run has no result, and it was not interrupted.
    if call.name == Contract::FINISH {
        return accepted(call);
    }
    let text = "The call was interrupted. Whether it took effect is not known.";
    ToolResult::failed(call, text)
}

/// Returns the result of a call of `finish` that ended a run.
pub(crate) fn accepted(call: &ToolCall) -> ToolResult {
    ToolResult::new(call, "Accepted.")
}
