//! A conversation as text, for the module that summarizes it.

use std::sync::Arc;

use toolwright_module::Message;
use toolwright_module::message::{Part, ReplyPart};

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
        other => format!("[{}]", other.kind()),
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the summary without a model: which calls were made.
pub(crate) fn without_model(
    earlier: Option<&str>,
    messages: &[Arc<Message>],
    most: usize,
) -> String {
    let mut lines: Vec<String> = Vec::new();
    for message in messages {
        let Message::Assistant { parts } = &**message else { continue };
        for part in parts {
            match part {
                ReplyPart::Call(call) => {
                    lines.push(format!("- called {}: {}", call.name, cut(&call.arguments, 100)));
                }
                ReplyPart::Text(text) if !text.trim().is_empty() => {
                    lines.push(format!("- said: {}", cut(text, 200)));
                }
                _ => {}
            }
        }
    }
    // The last ones, because they matter most.
    let mut room = most / 2;
    let first = lines.iter().rposition(|line| {
        let left = room.checked_sub(line.len() + 1);
        room = left.unwrap_or_default();
        left.is_none()
    });
    let shown = first.map_or(0, |first| first + 1);
    let left_out = match shown {
        0 => String::new(),
        shown => format!("({shown} earlier lines are left out)\n"),
    };
    let earlier = earlier.map_or_else(String::new, |text| format!("{}\n", cut(text, most / 2)));
    format!("{earlier}{left_out}{}", lines[shown..].join("\n"))
}
