//! The untrusted results of a conversation, and the calls that the model wrote after them.

use serde::de::IgnoredAny;
use serde_json::Value;
use toolwright_module::message::{CallKind, Part, Source, ToolResult};
use toolwright_module::untrusted::{START, inside};
use toolwright_module::{Effect, Message, ToolCall};

use crate::call_check::CheckCall;
use crate::limits::cut;
use crate::quotes::Quotes;
use crate::run::Run;

/// Number of names in a reason.
const MOST_NAMES: usize = 3;

/// Maximum length of all texts that a check gets, and of each of them, in bytes.
const MOST_CHECKED: usize = 40_000;
const MOST_OF_TEXT: usize = 8_000;

/// The name of a message of the user with a text between marks, as a source.
const MESSAGE: &str = "a message";

/// The name of an untrusted task, as a source.
const TASK: &str = "the task";

/// The untrusted texts that the model has got. They are found in the messages, so they are not stored.
#[derive(Debug, Clone, Default)]
pub(super) struct Strangers {
    /// The names of the tools whose untrusted results the model has got, each once.
    tools: Vec<String>,
    /// The number of messages that were read for `tools`.
    read: usize,
    /// Whether strangers may have written the task: it is that of an agent whose caller had read their
    /// texts.
    wrote_task: bool,
    quotes: Quotes,
    /// The number of messages that were read for `quotes`.
    indexed: usize,
}

impl Strangers {
    /// Forgets all messages, because they were changed.
    pub(super) fn forget(&mut self) {
        *self = Self { wrote_task: self.wrote_task, ..Self::default() };
    }

    fn has_some(&self) -> bool {
        self.wrote_task || !self.tools.is_empty()
    }

    /// Returns the reason of a call that was written after untrusted results.
    fn after(&self) -> String {
        let named = |tool: &String| match tool.as_str() {
            MESSAGE => MESSAGE.to_owned(),
            tool => format!("`{tool}`"),
        };
        let mut names: Vec<String> = self.tools.iter().take(MOST_NAMES).map(named).collect();
        if self.wrote_task {
            names.push(TASK.to_owned());
        }
        let others = if self.tools.len() > MOST_NAMES { " and others" } else { "" };
        format!("the model wrote it after text of strangers from {}{others}", names.join(", "))
    }
}

impl Run {
    /// Returns whether strangers wrote a part of a result.
    pub(super) fn is_untrusted(&self, result: &ToolResult) -> bool {
        // The results of earlier versions are not marked, nor are those of a program's own loop. The
        // texts of failures are mostly those of the run.
        let is_marked = || self.tools.is_untrusted(&result.name) || result.text.contains(START);
        result.untrusted || !result.failed && is_marked()
    }

    /// Says that strangers may have written the task.
    pub(crate) fn note_untrusted_task(&mut self) {
        if !self.strangers.wrote_task {
            self.strangers.wrote_task = true;
            self.strangers.forget();
            self.require_approvals();
        }
    }

    /// Returns whether the model has got text of strangers, or will get it with the next request.
    pub(crate) fn has_untrusted(&mut self) -> bool {
        self.find_strangers();
        self.strangers.has_some()
    }

    /// Reads the new messages for untrusted results.
    pub(super) fn find_strangers(&mut self) {
        let read = std::mem::replace(&mut self.strangers.read, self.state.messages.len());
        for message in self.state.messages.get(read..).unwrap_or_default() {
            if let Message::User { parts } = &**message
                && !self.strangers.tools.iter().any(|tool| tool == MESSAGE)
                && parts.iter().filter_map(text_of).any(|text| text.contains(START))
            {
                self.strangers.tools.push(MESSAGE.to_owned());
            }
            if let Message::Tool(result) = &**message
                && !self.strangers.tools.contains(&result.name)
                && self.is_untrusted(result)
            {
                self.strangers.tools.push(result.name.clone());
            }
        }
        let policy = &self.state.approval;
        if policy.quoting_untrusted.is_some() && self.strangers.has_some() {
            self.index_strangers();
        }
    }

    /// Reads the new messages for quotes.
    fn index_strangers(&mut self) {
        let mut quotes = std::mem::take(&mut self.strangers.quotes);
        let read = std::mem::replace(&mut self.strangers.indexed, self.state.messages.len());
        for message in self.state.messages.get(read..).unwrap_or_default() {
            match &**message {
                Message::System { text } => quotes.add_own(text),
                Message::User { parts } => {
                    for text in parts.iter().filter_map(text_of) {
                        match self.strangers.wrote_task {
                            true => quotes.add(TASK, text),
                            false if text.contains(START) => quotes.add(MESSAGE, text),
                            false => quotes.add_own(text),
                        }
                    }
                }
                Message::Tool(result) if self.is_untrusted(result) => {
                    quotes.add(&result.name, inside(&result.text).unwrap_or(&result.text));
                    let texts = result.parts.iter().filter_map(text_of);
                    texts.for_each(|text| quotes.add(&result.name, text));
                }
                _ => {}
            }
        }
        self.strangers.quotes = quotes;
    }

    /// Returns the path of an argument that is quoted, and the source. It looks at the arguments as the
    /// model wrote them, and as the call reads them.
    fn quoted(&self, call: &ToolCall) -> Option<(String, &str)> {
        let quotes = &self.strangers.quotes;
        let as_written = || quotes.find(&call.arguments);
        let Some(contract) = self.tools.contract(&call.name) else { return as_written() };
        match contract.read_with::<IgnoredAny>(&call.arguments, self.tools.policy(&call.name)) {
            // The path in the repaired form is more exact.
            Ok(reading) => reading.json().and_then(|json| quotes.find(json)).or_else(as_written),
            // The input of a custom tool is one text.
            Err(_) if call.kind == CallKind::Custom => as_written(),
            // A tool may read arguments that do not fit.
            Err(_) => as_written().or_else(|| quotes.find_anywhere(&call.arguments)),
        }
    }

    /// Returns why a call needs a person because of untrusted results, if it does.
    /// [`find_strangers`](Self::find_strangers) has read the messages.
    pub(super) fn why_not_trusted(&self, call: &ToolCall, effect: Effect) -> Option<String> {
        let policy = &self.state.approval;
        let is_for = |from: Option<Effect>| from.is_some_and(|from| effect >= from);
        if !self.strangers.has_some() {
            return None;
        }
        let quoted = is_for(policy.quoting_untrusted).then(|| self.quoted(call)).flatten();
        match quoted {
            Some((path, source)) => Some(quoted_from(&path, source)),
            None => is_for(policy.after_untrusted).then(|| self.strangers.after()),
        }
    }
}

impl Run {
    /// Returns whether a check judged a call in an earlier drive.
    pub(crate) fn was_checked(&self, id: &str) -> bool {
        self.earlier_call(id).is_some_and(|call| call.is_checked)
    }

    /// Returns whether a check may decide on a call. What an earlier drive decided or made without a check
    /// is not checked again.
    pub(crate) fn may_check(&self, id: &str) -> bool {
        let earlier = self.earlier_call(id);
        earlier.is_none_or(|call| call.is_checked || !call.is_settled())
    }

    /// Returns the input of a check of a call.
    pub(crate) fn check_of(&self, call: &ToolCall) -> CheckCall {
        let (mut task, mut untrusted, mut room) = (Vec::new(), Vec::new(), MOST_CHECKED);
        let mut add = |texts: &mut Vec<String>, text: &str| {
            let text = cut(text, MOST_OF_TEXT.min(room));
            room -= text.len().min(room);
            texts.extend(Some(text.into_owned()).filter(|text| !text.is_empty()));
        };
        // The task first, so that long texts of strangers do not displace it.
        for message in self.state.messages.iter().rev() {
            let Message::User { parts } = &**message else { continue };
            for text in parts.iter().rev().filter_map(text_of) {
                let texts = if self.strangers.wrote_task { &mut untrusted } else { &mut task };
                add(texts, text);
            }
        }
        for message in self.state.messages.iter().rev() {
            match &**message {
                Message::Tool(result) if self.is_untrusted(result) => {
                    add(&mut untrusted, &result.text)
                }
                _ => {}
            }
        }
        task.reverse();
        let effect = self.tools.effect(&call.name).unwrap_or(Effect::Write);
        let effect = serde_json::to_value(effect).ok();
        CheckCall {
            task: task.join("\n\n"),
            tool: call.name.clone(),
            effect: effect.as_ref().and_then(Value::as_str).unwrap_or("write").to_owned(),
            arguments: call.arguments.clone(),
            reason: self.reason(&call.id).map(str::to_owned),
            untrusted,
        }
    }
}

/// Returns the reason of a call with a quoted argument. The path comes from the model, so it is shown
/// only if it looks like one.
fn quoted_from(path: &str, source: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-.[]".contains(char);
    let argument = match !path.is_empty() && path.len() <= 64 && path.chars().all(is_plain) {
        true => format!("its argument `{path}`"),
        false => "an argument".to_owned(),
    };
    match source {
        TASK => format!("{argument} is quoted from {TASK}, which strangers may have written"),
        MESSAGE => format!("{argument} is quoted from {MESSAGE} with text of strangers"),
        tool => format!("{argument} is quoted from the result of `{tool}`"),
    }
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text(text) => Some(text),
        part => part.source().and_then(Source::text),
    }
}
