//! The untrusted results of a conversation, and the calls that the model wrote after them.

mod searched;

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde_json::Value;
use toolwright_module::message::{CallKind, Part, ReplyPart, Source, ToolResult};
use toolwright_module::untrusted::{END, START, inside};
use toolwright_module::{Effect, Message, ToolCall};

use self::searched::searched;
use crate::call_check::CheckCall;
use crate::limits::cut;
use crate::quotes::Quotes;
use crate::read_result::READ_RESULT;
use crate::run::Run;
use crate::run::applying::is_of_the_run;

/// Number of names in a reason.
const MOST_NAMES: usize = 3;

/// Maximum length of all texts that a check gets, and of each of them, in bytes.
const MOST_CHECKED: usize = 40_000;
const MOST_OF_TEXT: usize = 8_000;

/// The name of a message of the user with a text between marks, as a source.
const MESSAGE: &str = "a message";

/// The name of instructions with a text between marks, as a source.
const INSTRUCTIONS: &str = "the instructions";

/// The name of what a provider found itself, as a source.
const SEARCH: &str = "a search of the provider";

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
    /// The ids of the last calls that quote a stranger, each with the source. What their tools return
    /// may be the same text in another form.
    quoting: BTreeMap<String, String>,
    /// The places of long results that the model has read the start of only, each with the source.
    long: Vec<(usize, String)>,
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
            MESSAGE | INSTRUCTIONS | SEARCH => tool.clone(),
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
        let is_of_tool = || !result.failed && self.tools.is_untrusted(&result.name);
        result.untrusted || result.text.contains(START) || is_of_tool()
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
            let source = match &**message {
                Message::System { text } => text.contains(START).then_some(INSTRUCTIONS),
                Message::User { parts } => {
                    let mut texts = parts.iter().filter_map(text_of);
                    texts.any(|text| text.contains(START)).then_some(MESSAGE)
                }
                Message::Assistant { parts } => {
                    parts.iter().any(|part| searched(part).is_some()).then_some(SEARCH)
                }
                Message::Tool(result) => self.is_untrusted(result).then_some(&*result.name),
                _ => None,
            };
            if let Some(source) = source
                && !self.strangers.tools.iter().any(|known| known == source)
            {
                self.strangers.tools.push(source.to_owned());
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
        let mut quoting = std::mem::take(&mut self.strangers.quoting);
        let mut long = std::mem::take(&mut self.strangers.long);
        let read = std::mem::replace(&mut self.strangers.indexed, self.state.messages.len());
        for (at, message) in self.state.messages.iter().enumerate().skip(read) {
            match &**message {
                Message::System { text } => add_split(&mut quotes, INSTRUCTIONS, text),
                Message::User { parts } => {
                    for text in parts.iter().filter_map(text_of) {
                        match self.strangers.wrote_task {
                            true => quotes.add(TASK, text),
                            false if is_of_the_run(text) => {}
                            false => add_split(&mut quotes, MESSAGE, text),
                        }
                    }
                }
                Message::Assistant { parts } => {
                    // The calls of a reply come after what the provider found for it.
                    for text in parts.iter().filter_map(searched).flatten() {
                        quotes.add(SEARCH, text);
                    }
                    quoting.clear();
                    for part in parts {
                        let ReplyPart::Call(call) = part else { continue };
                        if call.name == READ_RESULT {
                            // All of the text, because two pieces may have a part of an address each.
                            long.retain(|(at, source)| {
                                let whole = self.whole_of(*at, call);
                                whole.inspect(|whole| quotes.add(source, whole)).is_none()
                            });
                        }
                        if let Some((_, source)) = self.quoted(&quotes, call) {
                            quoting.insert(call.id.clone(), source.to_owned());
                        }
                    }
                }
                Message::Tool(result) => {
                    let source = match self.is_untrusted(result) {
                        true => &result.name,
                        false => match quoting.get(&result.id) {
                            Some(source) => source,
                            None => continue,
                        },
                    };
                    quotes.add(source, inside(&result.text).unwrap_or(&result.text));
                    let texts = result.parts.iter().filter_map(text_of);
                    texts.for_each(|text| quotes.add(source, text));
                    if result.whole.is_some() {
                        long.push((at, source.clone()));
                    }
                }
                _ => {}
            }
        }
        let strangers = &mut self.strangers;
        (strangers.quotes, strangers.quoting, strangers.long) = (quotes, quoting, long);
    }

    /// Returns the whole text of the result at a place, if a call of `read_result` may read it.
    fn whole_of(&self, at: usize, call: &ToolCall) -> Option<&str> {
        let Message::Tool(result) = &**self.state.messages.get(at)? else { return None };
        let escaped = Value::from(&*result.id).to_string();
        let names = [&*result.id, escaped.trim_matches('"')];
        let is_named = names.iter().any(|name| call.arguments.contains(name));
        result.whole.as_deref().filter(|_| is_named)
    }

    /// Returns the path of an argument that is quoted, and the source. It looks at the arguments as the
    /// model wrote them, and as the call reads them.
    fn quoted<'q>(&self, quotes: &'q Quotes, call: &ToolCall) -> Option<(String, &'q str)> {
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
        let quoted = is_for(policy.quoting_untrusted)
            .then(|| self.quoted(&self.strangers.quotes, call))
            .flatten();
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
        let mut marked = Vec::new();
        // The task first, so that long texts of strangers do not displace it.
        for message in self.state.messages.iter().rev() {
            let Message::User { parts } = &**message else { continue };
            for text in parts.iter().rev().filter_map(text_of) {
                if self.strangers.wrote_task {
                    add(&mut untrusted, text);
                    continue;
                }
                if is_of_the_run(text) {
                    continue;
                }
                let (before, strangers, after) = split(text);
                [after, before].into_iter().for_each(|own| add(&mut task, own.trim()));
                marked.push(strangers);
            }
        }
        for message in self.state.messages.iter().rev() {
            match &**message {
                Message::Tool(result) if self.is_untrusted(result) => {
                    add(&mut untrusted, &result.text)
                }
                Message::Assistant { parts } => {
                    parts
                        .iter()
                        .filter_map(searched)
                        .flatten()
                        .for_each(|text| add(&mut untrusted, text));
                }
                Message::System { text } => marked.push(split(text).1),
                _ => {}
            }
        }
        marked.into_iter().for_each(|text| add(&mut untrusted, text));
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

/// Adds a text of the user or of the program, in which a text of strangers may stand between marks.
fn add_split(quotes: &mut Quotes, source: &str, text: &str) {
    let (before, strangers, after) = split(text);
    if !strangers.is_empty() {
        quotes.add(source, strangers);
    }
    [before, after].into_iter().for_each(|own| quotes.add_own(own));
}

/// Splits a message of the user into the text before the marks, that from the first mark to the last
/// one, and the text after them.
pub(crate) fn split(text: &str) -> (&str, &str, &str) {
    let Some(start) = text.find(START) else { return (text, "", "") };
    let end = text.rfind(END).map_or(text.len(), |at| at + END.len()).max(start);
    (&text[..start], &text[start..end], &text[end..])
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
        SEARCH => format!("{argument} is quoted from {SEARCH}"),
        INSTRUCTIONS => {
            format!("{argument} is quoted from {INSTRUCTIONS}, which have text of strangers")
        }
        MESSAGE => format!("{argument} is quoted from {MESSAGE} with text of strangers"),
        tool => format!("{argument} is quoted from the result of `{tool}`"),
    }
}

/// Returns the text of a part, if it is one.
pub(crate) fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text(text) => Some(text),
        part => part.source().and_then(Source::text),
    }
}
