//! A conversation as text, for the module that summarizes it.

use std::sync::Arc;

use toolwright_module::Message;
use toolwright_module::message::{Part, ReplyPart, Source};

use crate::limits::{cut, cut_result};

/// Length of a text of the user or the model, in bytes.
const TEXT_BYTES: usize = 8000;

/// Length of a result, in bytes.
const RESULT_BYTES: usize = 2000;

/// Length of the arguments of a call, in bytes.
const ARGUMENTS_BYTES: usize = 500;

/// Returns the conversation in pieces of at most `most` bytes each.
pub(crate) fn pieces(messages: &[Arc<Message>], most: usize) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    for message in messages {
        let lines = text_of(message);
        let lines = cut(&lines, most);
        match pieces.last_mut() {
            Some(last) if last.len() + lines.len() < most => {
                last.push('\n');
                last.push_str(&lines);
            }
            _ => pieces.push(lines.into_owned()),
        }
    }
    pieces
}

fn text_of(message: &Message) -> String {
    match message {
        Message::System { text } => format!("Instructions: {}", cut(text, TEXT_BYTES)),
        Message::User { parts } => format!("User: {}", cut(&text_of_parts(parts), TEXT_BYTES)),
        Message::Assistant { parts } => {
            let lines = parts.iter().filter_map(|part| match part {
                ReplyPart::Text(text) if text.trim().is_empty() => None,
                ReplyPart::Text(text) => Some(format!("Assistant: {}", cut(text, TEXT_BYTES))),
                ReplyPart::Call(call) => Some(format!(
                    "Call {} of {}: {}",
                    call.id,
                    call.name,
                    cut(&call.arguments, ARGUMENTS_BYTES)
                )),
                _ => None,
            });
            lines.collect::<Vec<_>>().join("\n")
        }
        Message::Tool(result) => {
            let failed = if result.failed { " (failed)" } else { "" };
            let text = cut_result(result, RESULT_BYTES);
            format!("Result of call {}{failed}: {text}", result.id)
        }
        _ => String::new(),
    }
}

pub(super) fn text_of_parts(parts: &[Part]) -> String {
    let texts = parts.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        other => match other.source().and_then(Source::text) {
            Some(text) => format!("[{}: {}]", other.kind(), cut(text, RESULT_BYTES)),
            None => format!("[{}]", other.kind()),
        },
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns a summary of at most `most` bytes without a model: what was said, and which calls were made.
/// The last lines are kept, because they matter most.
pub(crate) fn without_model(
    earlier: Option<&str>,
    messages: &[Arc<Message>],
    most: usize,
) -> String {
    let mut lines: Vec<String> =
        earlier.unwrap_or_default().lines().map(|line| cut(line, 300).into_owned()).collect();
    for message in messages {
        match &**message {
            Message::User { parts } => {
                lines.push(format!("- the user said: {}", one_line(&text_of_parts(parts))));
            }
            Message::Assistant { parts } => {
                lines.extend(parts.iter().filter_map(|part| match part {
                    ReplyPart::Call(call) => {
                        Some(format!("- called {}: {}", call.name, one_line(&call.arguments)))
                    }
                    ReplyPart::Text(text) if !text.trim().is_empty() => {
                        Some(format!("- said: {}", one_line(text)))
                    }
                    _ => None,
                }))
            }
            _ => {}
        }
    }
    let mut room = most.saturating_sub(LEFT_OUT.len() + 1);
    let first = lines.iter().rposition(|line| {
        let left = room.checked_sub(line.len() + 1);
        room = left.unwrap_or_default();
        left.is_none()
    });
    let Some(first) = first else { return lines.join("\n") };
    format!("{LEFT_OUT}\n{}", lines[first + 1..].join("\n"))
}

/// The first line of a list whose first lines are left out.
const LEFT_OUT: &str = "(earlier lines are left out)";

/// Returns the start of a text on one line.
fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    cut(&line, 200).into_owned().replace('\n', " ")
}
