//! Properties of every history and of every sequence of events.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use toolwright_module::approval::Decision;
use toolwright_module::error::Stage;
use toolwright_module::event::{Event, EventKind, InCall};
use toolwright_module::message::{Part, ReplyPart};
use toolwright_module::model::ToolChoice;
use toolwright_module::{Contract, Message, Request, ToolCall};
use toolwright_orchestrator::Run;

/// Returns a path as a key. It contains ids, to distinguish calls of one tool.
pub(crate) fn key(path: &[InCall]) -> String {
    let calls: Vec<String> = path.iter().map(|call| format!("{}#{}", call.tool, call.id)).collect();
    calls.join(">")
}

fn below(path: &str, call: &ToolCall) -> String {
    let arrow = if path.is_empty() { "" } else { ">" };
    format!("{path}{arrow}{}#{}", call.name, call.id)
}

/// Returns a message as one line.
pub(crate) fn message(message: &Message) -> String {
    match message {
        Message::System { text } => format!("system: {text}"),
        Message::User { parts } => {
            let texts = parts.iter().map(|part| match part {
                Part::Text(text) => text.as_str(),
                _ => "(image)",
            });
            format!("user: {}", texts.collect::<String>())
        }
        Message::Assistant { parts } => {
            let parts: Vec<String> = parts.iter().map(part).collect();
            format!("assistant: {}", parts.join(" | "))
        }
        Message::Tool(result) => {
            let how = if result.failed { " failed" } else { "" };
            format!("tool {}{how}: {}", result.id, result.text)
        }
        other => format!("{other:?}"),
    }
}

pub(crate) fn part(part: &ReplyPart) -> String {
    match part {
        ReplyPart::Text(text) => format!("{text:?}"),
        ReplyPart::Call(call) => format!("{}#{}({})", call.name, call.id, call.arguments),
        _ => "(thinks)".to_owned(),
    }
}

/// Returns an event as one line.
pub(crate) fn line(event: &Event) -> String {
    let at = key(&event.path);
    let what = match &event.kind {
        EventKind::ToolStarted { call } => format!("starts {}#{}", call.name, call.id),
        EventKind::ToolFinished { call, text, error, .. } => {
            format!("ends {}#{}: {text:?} {error:?}", call.name, call.id)
        }
        EventKind::ModelReplied { model, reply, .. } => {
            let parts: Vec<String> = reply.parts.iter().map(part).collect();
            let (finish, usage) = (&reply.finish, reply.usage);
            format!(
                "{model} said {} ({finish:?}, {}/{})",
                parts.join(" | "),
                usage.input_tokens,
                usage.output_tokens
            )
        }
        other => format!("{other:?}"),
    };
    format!("  [{at}] {what}")
}

/// Requests as text. Contracts are long and rarely change, so their text is cached.
#[derive(Default)]
pub(crate) struct Printer {
    tools: Option<(Arc<[Arc<Contract>]>, String)>,
    output: Option<(Arc<Contract>, String)>,
}

impl Printer {
    pub(crate) fn print(&mut self, request: &Request) -> String {
        let mut bare = request.clone();
        let tools = std::mem::take(&mut bare.tools);
        let known = self.tools.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, &tools));
        if !known {
            let text = serde_json::to_string(&tools).unwrap();
            self.tools = Some((tools, text));
        }
        let tools = self.tools.as_ref().map_or("", |(_, text)| text);
        let mut text = format!("{tools}{}", serde_json::to_string(&bare.messages).unwrap());
        if let Some(output) = bare.output.take() {
            let known = self.output.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, &output));
            if !known {
                let text = serde_json::to_string(&output).unwrap();
                self.output = Some((output, text));
            }
            text.push_str(self.output.as_ref().map_or("", |(_, text)| text));
        }
        bare.messages.clear();
        text.push_str(&serde_json::to_string(&bare).unwrap());
        text
    }
}

/// Checks that every call has one result, right after it and in order. If the messages are of a
/// request (`asked`), no call may be open at the end.
pub(crate) fn pairs(history: &[Arc<Message>], asked: bool) -> Result<usize, String> {
    let mut ids = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    for message in history {
        match &**message {
            Message::Tool(result) => {
                if open.is_empty() || open.remove(0) != result.id {
                    return Err(format!("the result of {} out of its place", result.id));
                }
            }
            other => {
                if !open.is_empty() {
                    return Err(format!("no results of {open:?}"));
                }
                if let Message::Assistant { parts } = other {
                    if parts.is_empty() {
                        return Err("an empty message".to_owned());
                    }
                    for part in parts {
                        if let ReplyPart::Call(call) = part {
                            if call.id.is_empty() || !ids.insert(call.id.as_str()) {
                                return Err(format!("the id {:?} again", call.id));
                            }
                            open.push(&call.id);
                        }
                    }
                }
            }
        }
    }
    if asked && !open.is_empty() { Err(format!("no results of {open:?}")) } else { Ok(open.len()) }
}

/// Checks that no reply makes more calls than allowed.
pub(crate) fn bounded(history: &[Arc<Message>], most: usize) -> Result<(), String> {
    let text = "The call was not made: a reply may make at most";
    let mut beyond = HashSet::new();
    for message in history {
        match &**message {
            Message::Assistant { parts } => {
                let calls = parts.iter().filter_map(|part| match part {
                    ReplyPart::Call(call) => Some(call.id.as_str()),
                    _ => None,
                });
                beyond = calls.skip(most.max(1)).collect();
            }
            Message::Tool(result) => {
                let made = !(result.failed && result.text.starts_with(text));
                // A result of `finish` means a rejected answer or a follow-up.
                if result.name != "finish" && made == beyond.contains(result.id.as_str()) {
                    return Err(format!("{} of {most} calls: {}", result.id, result.text));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Texts of the run after which no round is counted.
const NO_ROUND: [&str; 2] = [
    "You have used up your tool calls.",
    "Now tell the user in one sentence or more what was done, and what the answer is.",
];

/// Returns whether a request for the last answer forbids tool calls.
pub(crate) fn is_last_word_kept(request: &Request) -> bool {
    let last = request.messages.last().map(|said| message(said)).unwrap_or_default();
    let asks = NO_ROUND.iter().any(|text| last.starts_with(&format!("user: {text}")));
    let free = request.tools.is_empty() || request.tool_choice == ToolChoice::None;
    !asks || (free && request.output.is_none())
}

/// Returns the rounds of a task, each with its failed calls. `None` is an answer that could not be
/// used.
fn rounds(
    history: &[Arc<Message>],
    is_denied: impl Fn(&str) -> bool,
) -> Vec<Option<HashSet<(String, String, String)>>> {
    let mut rounds = Vec::new();
    let mut calls: Vec<ToolCall> = Vec::new();
    let (mut failed, mut succeeded) = (HashSet::new(), false);
    for message in history {
        match &**message {
            Message::Assistant { parts } => {
                calls = parts
                    .iter()
                    .filter_map(|part| match part {
                        ReplyPart::Call(call) => Some(call.clone()),
                        _ => None,
                    })
                    .collect();
                (failed, succeeded) = (HashSet::new(), false);
            }
            Message::Tool(result) => {
                let Some(place) = calls.iter().position(|call| call.id == result.id) else {
                    continue;
                };
                let call = calls.remove(place);
                if is_denied(&result.id) {
                    // It is no mistake of the model.
                } else if result.failed {
                    failed.insert((call.name, call.arguments, result.text.clone()));
                } else {
                    succeeded = true;
                }
                if calls.is_empty() {
                    // A round in which a call succeeds is progress.
                    let failed = std::mem::take(&mut failed);
                    rounds.push(Some(if succeeded { HashSet::new() } else { failed }));
                }
            }
            other => {
                let text = self::message(other);
                let text = text.trim_start_matches("user: ");
                if !NO_ROUND.iter().any(|none| text.starts_with(none)) {
                    rounds.push(None);
                }
            }
        }
    }
    rounds
}

/// Returns the number of rounds of a task.
pub(crate) fn count_rounds(history: &[Arc<Message>]) -> usize {
    rounds(history, |_| false).len()
}

/// Returns how many consecutive rounds failed in the same way: at the end of a task, and anywhere
/// before. `run` has the decisions on the calls.
pub(crate) fn same_failures(run: &Run, history: &[Arc<Message>]) -> (u32, u32) {
    let is_denied = |id: &str| {
        let decided = run.decisions().get(id);
        decided.is_some_and(|decided| matches!(decided.decision, Decision::Deny { .. }))
    };
    let mut times: HashMap<(String, String, String), u32> = HashMap::new();
    let (mut last, mut before) = (0, 0);
    for round in rounds(history, is_denied) {
        before = before.max(last);
        let failed = round.unwrap_or_default();
        times.retain(|mistake, _| failed.contains(mistake));
        for mistake in failed {
            *times.entry(mistake).or_default() += 1;
        }
        last = times.values().copied().max().unwrap_or(0);
    }
    (last, before)
}

/// The end of a drive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Drive {
    Done,
    Failed,
    Dropped,
}

#[derive(Default)]
struct Agent {
    started: bool,
    ended: bool,
    open: HashSet<String>,
}

/// Checks that no event of a drive is missing, repeated or late.
pub(crate) fn reported(events: &[Event], drive: Drive) -> Result<(), String> {
    let mut agents: HashMap<String, Agent> = HashMap::new();
    // The calls that have ended, with everything below them.
    let mut over: HashSet<String> = HashSet::new();
    for event in events {
        let path = key(&event.path);
        let said = || line(event);
        for length in 1..=event.path.len() {
            let (call, above) = (key(&event.path[..length]), key(&event.path[..length - 1]));
            if over.contains(&call) {
                return Err(format!("reported after its call was over:{}", said()));
            }
            if !agents.get(&above).is_some_and(|agent| agent.open.contains(&call)) {
                return Err(format!("reported in a call that was not reported:{}", said()));
            }
        }
        // A hook around a call is inside the call, and around the agent in it.
        if matches!(event.kind, EventKind::HookActed { tool: Some(_), .. }) {
            continue;
        }
        let by_agent = !matches!(
            event.kind,
            EventKind::ModelReplied { .. }
                | EventKind::Overshot { .. }
                | EventKind::TextDelta { .. }
                | EventKind::ReasoningDelta { .. }
                | EventKind::AnswerDelta { .. }
                | EventKind::CallDelta { .. }
                | EventKind::LimitReached { .. }
                | EventKind::HookActed { .. }
        );
        let agent = agents.entry(path.clone()).or_default();
        let starts = matches!(event.kind, EventKind::Started { .. });
        if by_agent && !starts && !agent.started {
            return Err(format!("reported before its agent started:{}", said()));
        }
        if agent.ended {
            return Err(format!("reported after its agent ended:{}", said()));
        }
        match &event.kind {
            EventKind::Started { .. } => {
                if agent.started {
                    return Err(format!("started twice:{}", said()));
                }
                agent.started = true;
            }
            EventKind::ToolStarted { call } => {
                let call = below(&path, call);
                if over.contains(&call) || !agent.open.insert(call) {
                    return Err(format!("called twice:{}", said()));
                }
            }
            EventKind::ToolFinished { call, error, .. } => {
                let call = below(&path, call);
                if !agent.open.remove(&call) {
                    return Err(format!("finished and never started:{}", said()));
                }
                let inner = agents.get(&call).is_some_and(|agent| agent.started && !agent.ended);
                let given_up =
                    error.as_ref().is_some_and(|it| it.starts_with("The call was given up"));
                if inner && !given_up {
                    return Err(format!("the agent inside never ended:{}", said()));
                }
                over.insert(call);
            }
            EventKind::Done { .. } => {
                agent.ended = true;
                if !agent.open.is_empty() {
                    return Err(format!("done with {:?} open:{}", agent.open, said()));
                }
            }
            EventKind::Failed { stage, .. } => {
                agent.ended = true;
                let may = matches!(stage, Stage::Cancelled | Stage::Limit);
                if !may && !agent.open.is_empty() {
                    return Err(format!("failed with {:?} open:{}", agent.open, said()));
                }
            }
            _ => {}
        }
    }
    let top = agents.remove("").unwrap_or_default();
    match drive {
        Drive::Dropped => Ok(()),
        _ if !top.started || !top.ended => Err("a drive without an event at its end".to_owned()),
        _ => {
            let last = events.last().map(|event| &event.kind);
            let fits = match last {
                Some(EventKind::Done { .. }) => drive == Drive::Done,
                Some(EventKind::Failed { .. }) => drive == Drive::Failed,
                _ => false,
            };
            if fits { Ok(()) } else { Err(format!("{drive:?} ends with {last:?}")) }
        }
    }
}
