//! What a compaction replaces by what. Everything here depends on its arguments only.

use std::fmt::Write as _;
use std::sync::Arc;

use toolwright_module::Message;
use toolwright_module::message::{Part, ReplyPart, ToolResult};

use super::transcript::text_of_parts;
use super::{Compaction, bound};
use crate::limits::closed;
use crate::read_result::{READ_RESULT, read_more};
use crate::run::is_system;

/// Results that are shorter than this stay: the note in their place would not be much shorter.
const SHORT_RESULT: usize = 400;

/// Length that a result of the last rounds keeps at least, in bytes.
const LEAST_RESULT: usize = 200;

/// The start of the text that stands for messages that are not sent any more.
pub(crate) const SHORTENED: &str =
    "[The conversation until here was shortened. What happened so far:]";

/// The conversation as it is sent, and what of it has a meaning for a compaction.
pub(crate) struct View<'a> {
    pub(crate) sent: &'a [Arc<Message>],
    /// The parts of the current task.
    pub(crate) task: &'a [Part],
    /// The text of the last summary.
    pub(crate) summary: Option<&'a str>,
    /// The texts that are kept so far.
    pub(crate) kept: &'a [String],
    /// Whether the model can read cleared results again.
    pub(crate) can_read: bool,
}

/// The room of a request, in tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Tokens for each byte, as the last reply counted them.
    pub(crate) ratio: f64,
    /// The largest number of tokens of the tools.
    pub(crate) contracts: u64,
    /// The number of tokens that the request should have at most after a compaction.
    pub(crate) target: u64,
    /// The number of tokens that a request for a summary should have at most.
    pub(crate) summary_request: u64,
    /// The maximum number of tokens of the reply with a summary, if it is not the default.
    pub(crate) summary_reply: Option<u64>,
}

impl Room {
    /// Returns the estimated number of tokens of a request.
    pub(crate) fn tokens(&self, messages: &[Arc<Message>]) -> u64 {
        estimated(bound(messages).saturating_add(self.contracts), self.ratio)
    }

    /// Returns the number of bytes of so many tokens.
    pub(crate) fn bytes(&self, tokens: u64) -> usize {
        // A float becomes the nearest number, and never wraps.
        (tokens as f64 / self.ratio) as usize
    }
}

/// Returns the estimated number of tokens of what has at most `bound` tokens.
pub(crate) fn estimated(bound: u64, ratio: f64) -> u64 {
    (bound as f64 * ratio).ceil() as u64
}

/// Messages whose results were cleared.
pub(crate) struct Cleared {
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) results: u64,
    /// The texts to keep of what was cleared.
    pub(crate) kept: Vec<String>,
}

/// The last messages, which stay.
pub(crate) struct Tail {
    /// Index of the first of them.
    pub(crate) start: usize,
    /// The messages, with cut results if they would be too long.
    pub(crate) messages: Vec<Arc<Message>>,
    /// The number of results that were cut.
    pub(crate) cut: u64,
    pub(crate) kept: Vec<String>,
}

impl View<'_> {
    /// Returns the indices at which the tail may start, the longest tail first. The last message stays
    /// in any case: with its round, or as the user's question.
    fn starts(&self, keep_rounds: usize) -> Vec<usize> {
        let is_reply = |message: &Arc<Message>| matches!(**message, Message::Assistant { .. });
        let replies = (0..self.sent.len()).rev().filter(|at| is_reply(&self.sent[*at]));
        let mut starts: Vec<usize> = replies.take(keep_rounds.max(1)).collect();
        let is_question =
            self.sent.last().is_some_and(|last| matches!(**last, Message::User { .. }));
        if is_question {
            starts.insert(0, self.sent.len() - 1);
        }
        starts.reverse();
        starts
    }

    /// Returns the number of messages at the start that always stay: the instructions.
    fn fixed(&self) -> usize {
        usize::from(self.sent.first().is_some_and(|first| is_system(first)))
    }

    /// Returns where the last summary stands.
    fn summary_at(&self) -> Option<usize> {
        let summary = self.summary?;
        self.sent.iter().position(|message| match &**message {
            Message::User { parts } => parts.iter().any(|part| is_summary(part, summary)),
            _ => false,
        })
    }

    fn is_task(&self, message: &Message) -> bool {
        matches!(message, Message::User { parts } if parts == self.task)
    }

    /// Returns the conversation with the results before the last rounds cleared.
    pub(crate) fn cleared(&self, rules: &Compaction) -> Cleared {
        let start = self.starts(rules.keep_rounds).first().copied().unwrap_or(0);
        let is_user = |message: &Arc<Message>| matches!(**message, Message::User { .. });
        // The reasoning of a turn that goes on may have to be sent back.
        let closed = self.sent.iter().rposition(is_user).unwrap_or(0).min(start);
        let mut cleared = Cleared { messages: Vec::new(), results: 0, kept: Vec::new() };
        for (at, message) in self.sent.iter().enumerate() {
            let shorter = match &**message {
                Message::Tool(result) if at < start && is_long(result) => {
                    let kept = self.kept_in(rules, message);
                    let note = self.note(result, &kept);
                    cleared.results += 1;
                    cleared.kept.extend(kept);
                    Some(Message::Tool(shortened(result, note)))
                }
                Message::Assistant { parts } if at < closed => without_reasoning(parts),
                _ => None,
            };
            cleared.messages.push(shorter.map_or_else(|| Arc::clone(message), Arc::new));
        }
        cleared
    }

    /// Returns the texts of a message that are kept, also those that a note has from a compaction before.
    fn kept_in(&self, rules: &Compaction, message: &Message) -> Vec<String> {
        let mut kept = rules.kept_of(message);
        if let Message::Tool(result) = message {
            let noted = self.kept.iter().filter(|text| result.text.contains(&***text));
            let noted = noted.filter(|text| !kept.contains(text)).cloned().collect::<Vec<_>>();
            kept.extend(noted);
        }
        kept
    }

    /// Returns what stands in place of a result.
    fn note(&self, result: &ToolResult, kept: &[String]) -> String {
        let mut note = format!("[cleared: {} bytes", length(result));
        if !result.parts.is_empty() {
            // A `String` takes every text.
            let _ = write!(note, " and {} images or files", result.parts.len());
        }
        note.push_str(&self.again(result));
        for text in kept {
            note.push('\n');
            note.push_str(text);
        }
        note
    }

    /// Returns the end of a note: how the model gets the result again.
    fn again(&self, result: &ToolResult) -> String {
        match self.can_read {
            // The call before it says which part of which result it was.
            true if result.name == READ_RESULT => {
                "; read the same part again if you need it]".to_owned()
            }
            true => format!("; {}]", read_more(&result.id)),
            false => "; call the tool again if you need them]".to_owned(),
        }
    }

    /// Returns the longest tail that fits, or the shortest one with its results cut.
    pub(crate) fn tail(&self, rules: &Compaction, room: Room) -> Tail {
        // Half of the room is for the task, the summary and what is kept. Of the tools and the
        // instructions nothing can be left out.
        let fixed =
            estimated(bound(&self.sent[..self.fixed()]).saturating_add(room.contracts), room.ratio);
        let left = room.target.saturating_sub(fixed).max(room.target / 4);
        let half = Room { target: left / 2, contracts: 0, ..room };
        let starts = self.starts(rules.keep_rounds);
        // From the end, so that each message is counted once.
        let (mut counted, mut end, mut fitting) = (0, self.sent.len(), None);
        for start in starts.iter().rev() {
            counted += bound(&self.sent[*start..end]);
            end = *start;
            if estimated(counted, room.ratio) > half.target {
                break;
            }
            fitting = Some(start);
        }
        let start = fitting.or(starts.last()).copied().unwrap_or(self.sent.len());
        let mut tail = Tail { start, messages: Vec::new(), cut: 0, kept: Vec::new() };
        tail.messages = self.sent[start..].to_vec();
        if fitting.is_none() {
            self.cut_results(rules, half, &mut tail);
        }
        tail
    }

    /// Cuts the longest results of a tail, so that all fit.
    fn cut_results(&self, rules: &Compaction, room: Room, tail: &mut Tail) {
        let results = |messages: &[Arc<Message>]| {
            let results = messages.iter().filter_map(|message| match &**message {
                Message::Tool(result) => Some(result.text.len()),
                _ => None,
            });
            results.collect::<Vec<usize>>()
        };
        let mut lengths = results(&tail.messages);
        lengths.sort_unstable();
        let too_many = room.tokens(&tail.messages).saturating_sub(room.target);
        let all: usize = lengths.iter().sum();
        let mut left = all.saturating_sub(room.bytes(too_many));
        // Short results stay whole, and the others share what is left.
        let mut most = left;
        for (at, length) in lengths.iter().enumerate() {
            most = left / (lengths.len() - at);
            if *length > most {
                break;
            }
            left -= length;
        }
        let most = most.max(LEAST_RESULT);
        for message in &mut tail.messages {
            let Message::Tool(result) = &**message else { continue };
            if result.text.len() <= most && result.parts.is_empty() {
                continue;
            }
            let kept = self.kept_in(rules, message);
            let shown = result.text.floor_char_boundary(most.min(result.text.len()));
            let mut text = closed(&result.text[..shown]).into_owned();
            let _ = write!(text, "\n[cut: {shown} of {} bytes", length(result));
            text.push_str(&self.again(result));
            for kept in &kept {
                text.push('\n');
                text.push_str(kept);
            }
            tail.kept.extend(kept);
            tail.cut += 1;
            *message = Arc::new(Message::Tool(shortened(result, text)));
        }
    }

    /// Returns the messages that a summary replaces, without the last summary and the task, which stay.
    /// Empty if there are none.
    pub(crate) fn to_summarize(&self, tail: &Tail) -> Vec<Arc<Message>> {
        let native_at = self.native_at(tail);
        let from = native_at.map_or(self.fixed(), |at| at + 1);
        let summary_at = self.summary_at();
        let replaced = self.sent.get(from..tail.start).unwrap_or_default();
        let mut messages = Vec::new();
        if let Some(at) = native_at
            && let Message::Assistant { parts } = &*self.sent[at]
        {
            let after = parts.iter().rposition(is_native).map_or(0, |place| place + 1);
            if after < parts.len() {
                messages.push(Arc::new(Message::Assistant { parts: parts[after..].to_vec() }));
            }
        }
        for (at, message) in replaced.iter().enumerate() {
            match &**message {
                Message::User { parts } if Some(from + at) == summary_at => {
                    let summary = self.summary.unwrap_or_default();
                    let own = parts.iter().filter(|part| !is_summary(part, summary));
                    let own: Vec<Part> = own.cloned().collect();
                    if !own.is_empty() && own != self.task {
                        messages.push(Message::user_parts(own));
                    }
                }
                message if self.is_task(message) => {}
                _ => messages.push(Arc::clone(message)),
            }
        }
        messages
    }

    /// Returns where the provider's own compaction stands among the messages before a tail.
    fn native_at(&self, tail: &Tail) -> Option<usize> {
        self.sent[..tail.start].iter().rposition(|message| native(message).is_some())
    }

    /// Returns what is sent with another tail.
    pub(crate) fn with_tail(&self, tail: &Tail) -> Vec<Arc<Message>> {
        self.sent[..tail.start].iter().chain(&tail.messages).cloned().collect()
    }

    /// Returns the text of the current task.
    pub(crate) fn task_text(&self) -> String {
        text_of_parts(self.task)
    }

    /// Returns what is sent after a summary: the instructions, the task, the summary and the tail.
    pub(crate) fn summarized(&self, tail: &Tail, summary: &str) -> Vec<Arc<Message>> {
        let mut messages = self.sent[..self.fixed()].to_vec();
        let task_is_in_tail = tail.messages.iter().any(|message| self.is_task(message));
        let mut parts: Vec<Part> = if task_is_in_tail { Vec::new() } else { self.task.to_vec() };
        if let Some(native) = self.native_at(tail).and_then(|at| native(&self.sent[at])) {
            // The provider leaves out what is before its own compaction, so the summary of what came
            // after it stands behind it.
            if parts.is_empty() {
                parts.push(Part::from("[Earlier messages are left out.]"));
            }
            messages.push(Message::user_parts(std::mem::take(&mut parts)));
            messages.push(Arc::new(Message::Assistant { parts: vec![native.clone()] }));
        }
        parts.push(Part::from(summary));
        let mut rest = &*tail.messages;
        // Some services refuse two messages of the user in a row.
        while let Some((first, others)) = rest.split_first()
            && let Message::User { parts: own } = &**first
        {
            parts.extend(own.iter().cloned());
            rest = others;
        }
        messages.push(Message::user_parts(parts));
        messages.extend(rest.iter().cloned());
        messages
    }
}

/// Returns the text that stands for the messages that a summary replaces.
pub(crate) fn summary_text<'k>(
    summary: &str,
    kept: impl Iterator<Item = &'k String>,
    can_read: bool,
) -> String {
    let mut text = format!("{SHORTENED}\n{summary}");
    let mut kept = kept.peekable();
    if kept.peek().is_some() {
        text.push_str("\n\n[To be kept word for word:]");
    }
    for kept in kept {
        text.push_str("\n- ");
        text.push_str(kept);
    }
    if can_read {
        // A `String` takes every text.
        let _ = write!(
            text,
            "\n\n[Results of earlier calls can be read with {READ_RESULT} and the id of the call.]"
        );
    }
    text
}

/// Returns whether a part is the text that stands for messages with this summary.
fn is_summary(part: &Part, summary: &str) -> bool {
    let Part::Text(text) = part else { return false };
    let rest = text.strip_prefix(SHORTENED).and_then(|rest| rest.strip_prefix('\n'));
    rest.is_some_and(|rest| rest.starts_with(summary))
}

/// Returns the part in which a provider has compacted the conversation itself.
fn native(message: &Message) -> Option<&ReplyPart> {
    let Message::Assistant { parts } = message else { return None };
    parts.iter().rev().find(|part| is_native(part))
}

fn is_native(part: &ReplyPart) -> bool {
    matches!(part, ReplyPart::Other(other) if other.value["type"] == "compaction")
}

fn is_long(result: &ToolResult) -> bool {
    result.text.len() > SHORT_RESULT || !result.parts.is_empty()
}

/// Returns the length of the whole text of a result.
fn length(result: &ToolResult) -> usize {
    result.whole.as_ref().map_or(result.text.len(), |whole| whole.len())
}

/// Returns a result with another text and nothing beside it.
fn shortened(result: &ToolResult, text: String) -> ToolResult {
    let mut shorter = result.clone();
    (shorter.text, shorter.parts, shorter.value) = (text, Vec::new(), None);
    // The run has it.
    shorter.whole = None;
    shorter
}

fn without_reasoning(parts: &[ReplyPart]) -> Option<Message> {
    let is_reasoning = |part: &ReplyPart| matches!(part, ReplyPart::Reasoning(_));
    let has_others = parts.iter().any(|part| !is_reasoning(part));
    (has_others && parts.iter().any(is_reasoning)).then(|| {
        let parts = parts.iter().filter(|part| !is_reasoning(part)).cloned().collect();
        Message::Assistant { parts }
    })
}
