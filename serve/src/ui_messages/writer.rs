use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::chunk::{Chunk, input, readable};
use crate::update::{Cost, Decided, Question, Update, UpdateKind};

/// The event after the last chunk.
const LAST: &str = "[DONE]";

/// Writes the updates of a run as the chunks of one message of the assistant, whose id is that of the
/// run.
///
/// A model's reply and the results of its calls are a step. The client knows the calls by ids that are
/// made here, because a call is shown before it has its own.
#[derive(Debug, Default)]
pub(crate) struct UiMessages {
    /// Whether the client knows the chunks of version 7.
    is_seven: bool,
    /// The questions that the client has answered. It has the message up to where the run waited for
    /// the answers, so nothing is written before that. `None` if it has nothing.
    answered: Option<BTreeSet<String>>,
    has_begun: bool,
    run: String,
    /// The number of replies that are whole.
    replies: u64,
    /// The number of texts and reasonings.
    blocks: u64,
    step: Step,
    /// The number of steps.
    steps: u64,
    /// Whether the client has the end of the step, because it has answered a question of it.
    is_step_finished: bool,
    open: Option<Block>,
    streamed: Vec<Streamed>,
    /// The number of calls of this reply that are whole.
    called: usize,
    /// Whether the last reply has a text.
    has_text: bool,
    answer: Answer,
    calls: BTreeMap<CallKey, Call>,
    cost: Cost,
    /// Why the run stopped, until it goes on.
    stopped: Option<Stopped>,
    is_over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Step {
    #[default]
    None,
    /// The reply is being written.
    Reply,
    /// The reply is whole.
    Results,
    /// Questions of agents below this one.
    Questions,
}

/// A text or a reasoning that is being written.
#[derive(Debug)]
struct Block {
    id: String,
    is_reasoning: bool,
}

/// A call that is being written.
#[derive(Debug)]
struct Streamed {
    place: usize,
    name: String,
    arguments: String,
    is_shown: bool,
}

/// The ids of the calls around a call, and its own.
type CallKey = Vec<String>;

#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    title: Option<String>,
    input: Value,
    /// The step it is in.
    step: u64,
    /// The question that has no answer.
    question: Option<String>,
    is_denied: bool,
    has_result: bool,
}

#[derive(Debug)]
struct Stopped {
    reason: String,
    can_go_on: bool,
    by_person: bool,
}

/// A typed answer that is being written.
#[derive(Debug, Default)]
struct Answer {
    text: String,
    /// The length of the text that was shown.
    shown: usize,
}

impl UiMessages {
    /// Returns the writer for a client that has nothing of the message, or builds it anew.
    pub(crate) fn new(is_seven: bool) -> Self {
        Self { is_seven, ..Self::default() }
    }

    /// Returns the writer for a client that has the message up to where the run waited for the answers
    /// to these questions. It is given the updates from the start all the same.
    pub(crate) fn after<'a>(is_seven: bool, questions: impl IntoIterator<Item = &'a str>) -> Self {
        let answered = questions.into_iter().map(ToOwned::to_owned).collect();
        Self { answered: Some(answered), ..Self::new(is_seven) }
    }

    /// Returns the chunks for the next update.
    pub(crate) fn chunks(&mut self, update: &Update) -> Vec<Chunk> {
        if self.is_over {
            return Vec::new();
        }
        let mut out = Vec::new();
        self.stopped = None;
        match (&self.answered, &update.kind) {
            (Some(answered), UpdateKind::Decided { .. }) if answered.is_empty() => {
                self.answered = None;
                self.is_step_finished = true;
            }
            (_, UpdateKind::Done { .. }) => self.answered = None,
            _ => {}
        }
        self.write_update(update, &mut out);
        match (&mut self.answered, &update.kind) {
            (Some(answered), UpdateKind::ApprovalAsked(question)) => {
                answered.remove(&question.question);
            }
            (None, _) => return self.begun(out),
            _ => {}
        }
        Vec::new()
    }

    /// Returns the chunks for the end of the updates so far, after which none follow until the run is
    /// driven again: it is over, has stopped, or waits for people.
    pub(crate) fn end(&mut self) -> Vec<Chunk> {
        if self.is_over {
            return Vec::new();
        }
        self.answered = None;
        let mut out = Vec::new();
        self.end_reply(&mut out);
        self.is_over = true;
        match self.stopped.take() {
            Some(Stopped { reason, can_go_on, by_person }) => {
                self.fail_calls(can_go_on, &mut out);
                let stopped = json!({ "stopped": { "reason": reason, "canGoOn": can_go_on } });
                out.push(Chunk::MessageMetadata { message_metadata: stopped });
                out.push(match by_person {
                    true => Chunk::Abort { reason },
                    false => Chunk::Error { error_text: reason },
                });
            }
            None => {
                self.hold(&mut out);
                self.finish_step(&mut out);
                out.push(Chunk::Finish { finish_reason: "tool-calls", message_metadata: None });
            }
        }
        self.begun(out)
    }

    /// Marks the calls that are made when the others are decided. The client sends the answers by itself
    /// when each call of the last step has a result or an answer.
    fn hold(&self, out: &mut Vec<Chunk>) {
        let is_held = |call: &&Call| {
            call.step == self.steps
                && !call.has_result
                && !call.is_denied
                && call.question.is_none()
        };
        for call in self.calls.values().filter(is_held).filter(|_| self.is_seven) {
            let (tool_call_id, approval_id) = (call.id.clone(), format!("{}-held", call.id));
            out.push(Chunk::ToolApprovalRequest {
                approval_id: approval_id.clone(),
                tool_call_id,
                approval_descriptor: Value::Null,
                reason: None,
                is_automatic: true,
            });
            out.extend(self.response(&approval_id, true, None));
        }
    }

    /// Marks the calls as failed that have no result. Those with a question keep it, unless nobody can
    /// answer it any more.
    fn fail_calls(&self, can_go_on: bool, out: &mut Vec<Chunk>) {
        for call in self.calls.values().filter(|call| !call.has_result && !call.is_denied) {
            let tool_call_id = call.id.clone();
            match &call.question {
                None => out.push(Chunk::ToolOutputError {
                    tool_call_id,
                    error_text: "The run ended before this call had a result.".to_owned(),
                    provider_metadata: json!({}),
                }),
                Some(_) if can_go_on => {}
                Some(question) => {
                    let reason = Some("The run ended before this was answered.".to_owned());
                    out.extend(self.response(question, false, reason));
                    out.push(Chunk::ToolOutputDenied { tool_call_id });
                }
            }
        }
    }

    /// Returns the answer to a question. Version 6 has no chunk for it.
    fn response(&self, question: &str, approved: bool, reason: Option<String>) -> Option<Chunk> {
        let approval_id = question.to_owned();
        self.is_seven.then_some(Chunk::ToolApprovalResponse { approval_id, approved, reason })
    }

    /// Returns whether the last update says that the run has stopped.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Returns whether the stream has its last event.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Adds the start of the message, if it is not written yet.
    fn begun(&mut self, mut chunks: Vec<Chunk>) -> Vec<Chunk> {
        if !self.has_begun && !self.run.is_empty() {
            self.has_begun = true;
            chunks.insert(0, Chunk::Start { message_id: self.run.clone() });
        }
        chunks
    }

    fn write_update(&mut self, update: &Update, out: &mut Vec<Chunk>) {
        let Update { path, kind } = update;
        let key = |id: &str| -> CallKey {
            path.iter()
                .map(|around| around.id.as_str())
                .chain([id])
                .map(ToOwned::to_owned)
                .collect()
        };
        match kind {
            UpdateKind::Replied { cost, .. } => self.add_cost(cost),
            UpdateKind::ApprovalAsked(question) if !path.is_empty() => {
                self.show_below(update, key(&question.id), question, out);
            }
            _ => {}
        }
        match kind {
            UpdateKind::ApprovalAsked(question) => self.ask(key(&question.id), question, out),
            UpdateKind::Decided { id, decision, by } => {
                self.decide(&key(id), decision, by.as_deref(), out);
            }
            UpdateKind::Result { id, .. } => self.result(&key(id), kind, out),
            _ => {}
        }
        if !path.is_empty() {
            if let UpdateKind::Replied { .. } = kind {
                let message_metadata = json!({ "usage": usage(&self.cost) });
                out.push(Chunk::MessageMetadata { message_metadata });
            }
            let data = serde_json::to_value(update).unwrap_or_default();
            out.push(Chunk::transient("data-nested", data));
            return;
        }
        match kind {
            UpdateKind::Started { run, .. } => self.run.clone_from(run),
            UpdateKind::Text { text } => self.text(false, text, out),
            UpdateKind::Reasoning { text } => self.text(true, text, out),
            UpdateKind::Answer { at, text } => self.answer(*at, text, out),
            UpdateKind::CallText { place, name, at, arguments } => {
                self.call_text(*place, name, *at, arguments, out);
            }
            UpdateKind::Discarded => self.discard(out),
            UpdateKind::Called { id, name, arguments, .. } => {
                self.call(key(id), name, arguments, out);
            }
            UpdateKind::Replied { model, .. } => self.replied(model.as_deref(), out),
            UpdateKind::Compacted { tokens_before, tokens_after } => {
                let data = json!({ "tokensBefore": tokens_before, "tokensAfter": tokens_after });
                let id = format!("{}-compacted-{}", self.run, self.replies);
                out.push(Chunk::data("data-compacted", id, data));
            }
            UpdateKind::Done { answer, ending, cost } => self.done(answer, ending, cost, out),
            UpdateKind::Stopped { reason, can_go_on, by_person } => {
                let (can_go_on, by_person) = (*can_go_on, *by_person);
                self.stopped = Some(Stopped { reason: reason.clone(), can_go_on, by_person });
            }
            UpdateKind::ApprovalAsked(_)
            | UpdateKind::Decided { .. }
            | UpdateKind::Result { .. } => {}
        }
    }

    /// Begins the step of a reply, if it is not begun.
    fn reply(&mut self, out: &mut Vec<Chunk>) {
        if self.step == Step::Reply {
            return;
        }
        self.start_step(Step::Reply, out);
        self.has_text = false;
    }

    fn start_step(&mut self, step: Step, out: &mut Vec<Chunk>) {
        self.finish_step(out);
        out.push(Chunk::StartStep);
        self.step = step;
        self.steps += 1;
    }

    fn finish_step(&mut self, out: &mut Vec<Chunk>) {
        let is_finished = std::mem::take(&mut self.is_step_finished);
        if self.step != Step::None && !is_finished {
            out.push(Chunk::FinishStep);
        }
        self.step = Step::None;
    }

    fn text(&mut self, is_reasoning: bool, text: &str, out: &mut Vec<Chunk>) {
        if text.is_empty() {
            return;
        }
        self.reply(out);
        self.has_text |= !is_reasoning;
        if self.open.as_ref().is_none_or(|open| open.is_reasoning != is_reasoning) {
            self.close(out);
            self.blocks += 1;
            let id = format!("{}-{}", self.run, self.blocks);
            out.push(match is_reasoning {
                true => Chunk::ReasoningStart { id: id.clone() },
                false => Chunk::TextStart { id: id.clone() },
            });
            self.open = Some(Block { id, is_reasoning });
        }
        if let Some(open) = &self.open {
            let (id, delta) = (open.id.clone(), text.to_owned());
            out.push(match is_reasoning {
                true => Chunk::ReasoningDelta { id, delta },
                false => Chunk::TextDelta { id, delta },
            });
        }
    }

    /// Ends the text or the reasoning that is being written.
    fn close(&mut self, out: &mut Vec<Chunk>) {
        if let Some(Block { id, is_reasoning }) = self.open.take() {
            out.push(match is_reasoning {
                true => Chunk::ReasoningEnd { id },
                false => Chunk::TextEnd { id },
            });
        }
    }

    fn answer(&mut self, at: usize, text: &str, out: &mut Vec<Chunk>) {
        self.reply(out);
        self.close(out);
        if at == 0 {
            self.answer = Answer::default();
        }
        if at == self.answer.text.len() {
            self.answer.text.push_str(text);
        }
        // Each part has the whole text, so a long one is shown only when it has grown by an eighth.
        if self.answer.text.len() - self.answer.shown > self.answer.shown / 8 {
            self.show_answer(out);
        }
    }

    fn show_answer(&mut self, out: &mut Vec<Chunk>) {
        let Answer { text, shown } = &mut self.answer;
        if *shown != text.len() {
            *shown = text.len();
            out.push(Chunk::data("data-answer", "answer", json!({ "text": text })));
        }
    }

    /// Returns the id by which the client knows a call of this reply.
    fn call_id(&self, nth: usize) -> String {
        format!("{}-{}-{nth}", self.run, self.replies)
    }

    fn call_text(
        &mut self,
        place: usize,
        name: &str,
        at: usize,
        arguments: &str,
        out: &mut Vec<Chunk>,
    ) {
        self.reply(out);
        self.close(out);
        let known = self.streamed.iter().position(|call| call.place == place);
        let nth = known.unwrap_or(self.streamed.len());
        let tool_call_id = self.call_id(nth);
        if known.is_none() {
            let (name, arguments) = (String::new(), String::new());
            self.streamed.push(Streamed { place, name, arguments, is_shown: false });
        }
        let Some(call) = self.streamed.get_mut(nth) else { return };
        if !name.is_empty() {
            name.clone_into(&mut call.name);
        }
        if at == 0 && !call.arguments.is_empty() {
            call.arguments.clear();
            call.is_shown = false;
        }
        if at != call.arguments.len() {
            return;
        }
        call.arguments.push_str(arguments);
        // The client shows a call only with a name.
        if call.name.is_empty() {
            return;
        }
        let mut delta = arguments;
        if !call.is_shown {
            call.is_shown = true;
            delta = &call.arguments;
            let (tool_call_id, tool_name) = (tool_call_id.clone(), call.name.clone());
            out.push(Chunk::ToolInputStart { tool_call_id, tool_name, dynamic: true });
        }
        if !delta.is_empty() {
            let input_text_delta = delta.to_owned();
            out.push(Chunk::ToolInputDelta { tool_call_id, input_text_delta });
        }
    }

    /// Marks the calls as failed that the client has, and that are not made.
    fn drop_calls(&mut self, from: usize, text: &str, out: &mut Vec<Chunk>) {
        for (nth, call) in self.streamed.iter().enumerate().skip(from) {
            if call.is_shown {
                out.push(Chunk::ToolInputError {
                    tool_call_id: self.call_id(nth),
                    tool_name: call.name.clone(),
                    input: input(&call.arguments),
                    dynamic: true,
                    error_text: text.to_owned(),
                });
            }
        }
        self.streamed.clear();
    }

    fn discard(&mut self, out: &mut Vec<Chunk>) {
        if self.step != Step::Reply {
            return;
        }
        self.answer = Answer::default();
        self.called = 0;
        self.has_text = false;
        if self.is_seven {
            self.open = None;
            self.streamed.clear();
            out.push(Chunk::ResetStep);
            return;
        }
        // Version 6 cannot take a part back. The calls have the same ids again when they are written
        // anew, so the client replaces them.
        self.close(out);
        self.drop_calls(0, "The model writes this call anew.", out);
        self.blocks += 1;
        let id = format!("{}-{}", self.run, self.blocks);
        out.push(Chunk::data("data-discarded", id, json!({})));
    }

    fn call(&mut self, key: CallKey, name: &str, arguments: &str, out: &mut Vec<Chunk>) {
        self.reply(out);
        self.close(out);
        let call = Call {
            id: self.call_id(self.called),
            name: name.to_owned(),
            title: None,
            input: input(arguments),
            step: self.steps,
            question: None,
            is_denied: false,
            has_result: false,
        };
        self.called += 1;
        out.push(call.available());
        self.calls.insert(key, call);
    }

    fn replied(&mut self, model: Option<&str>, out: &mut Vec<Chunk>) {
        self.reply(out);
        self.end_reply(out);
        self.show_answer(out);
        self.replies += 1;
        self.step = Step::Results;
        let mut metadata = json!({ "usage": usage(&self.cost) });
        if let Some(model) = model {
            metadata["model"] = json!(model);
        }
        out.push(Chunk::MessageMetadata { message_metadata: metadata });
    }

    /// Ends what is being written of a reply.
    fn end_reply(&mut self, out: &mut Vec<Chunk>) {
        self.close(out);
        self.drop_calls(self.called, "The model did not finish this call.", out);
        self.called = 0;
    }

    fn add_cost(&mut self, cost: &Cost) {
        let sum = &mut self.cost;
        sum.input_tokens = sum.input_tokens.saturating_add(cost.input_tokens);
        sum.cached_tokens = sum.cached_tokens.saturating_add(cost.cached_tokens);
        sum.output_tokens = sum.output_tokens.saturating_add(cost.output_tokens);
    }

    /// Shows a call of an agent below this one, because a person has to see it.
    fn show_below(
        &mut self,
        update: &Update,
        key: CallKey,
        question: &Question,
        out: &mut Vec<Chunk>,
    ) {
        // The client sends the answers by itself when the last step has no other call.
        if self.step != Step::Questions {
            self.close(out);
            self.start_step(Step::Questions, out);
        }
        if self.calls.contains_key(&key) {
            return;
        }
        let around = update.path.iter().map(|around| around.tool.as_str());
        let title = around.chain([question.name.as_str()]).collect::<Vec<_>>().join(" › ");
        let call = Call {
            id: format!("{}-below-{}", self.run, self.calls.len()),
            name: question.name.clone(),
            title: Some(title),
            input: input(&question.arguments),
            step: self.steps,
            question: None,
            is_denied: false,
            has_result: false,
        };
        out.push(call.available());
        self.calls.insert(key, call);
    }

    fn ask(&mut self, key: CallKey, question: &Question, out: &mut Vec<Chunk>) {
        let Some(call) = self.calls.get_mut(&key) else { return };
        call.question = Some(question.question.clone());
        let mut descriptor = json!({
            "run": question.run,
            "effect": question.effect,
            "unknown": question.unknown,
        });
        if let Some(schema) = &question.schema {
            descriptor["schema"] = readable(schema.clone());
        }
        out.push(Chunk::ToolApprovalRequest {
            approval_id: question.question.clone(),
            tool_call_id: call.id.clone(),
            approval_descriptor: descriptor,
            reason: question.reason.clone(),
            is_automatic: false,
        });
    }

    fn decide(
        &mut self,
        key: &CallKey,
        decision: &Decided,
        by: Option<&str>,
        out: &mut Vec<Chunk>,
    ) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let Some(question) = call.question.take() else { return };
        let mut is_shown_anew = !self.is_seven;
        let reason = match decision {
            Decided::Deny { reason } => Some(reason.clone()),
            Decided::Edit { arguments } => {
                call.input = readable(arguments.clone());
                is_shown_anew = true;
                None
            }
            _ => None,
        };
        call.is_denied = reason.is_some();
        // In version 6, nobody is asked about a call that is shown anew. A call of an earlier step would
        // be shown a second time.
        if is_shown_anew && !call.is_denied && call.step == self.steps {
            out.push(call.available());
        }
        let Some(call) = self.calls.get(key) else { return };
        out.extend(self.response(&question, reason.is_none(), reason));
        if call.is_denied {
            out.push(Chunk::ToolOutputDenied { tool_call_id: call.id.clone() });
        }
        let mut data = json!({ "toolCallId": call.id, "decision": decision });
        if let Some(by) = by {
            data["by"] = json!(by);
        }
        out.push(Chunk::data("data-decision", question, data));
    }

    fn result(&mut self, key: &CallKey, kind: &UpdateKind, out: &mut Vec<Chunk>) {
        let UpdateKind::Result { text, whole_bytes, failed, milliseconds, .. } = kind else {
            return;
        };
        let Some(call) = self.calls.get_mut(key) else { return };
        call.has_result = true;
        if call.is_denied {
            return;
        }
        let tool_call_id = call.id.clone();
        let mut known = json!({ "milliseconds": milliseconds });
        if let Some(bytes) = whole_bytes {
            known["wholeBytes"] = json!(bytes);
        }
        let provider_metadata = json!({ "toolwright": known });
        let text = text.clone();
        out.push(match failed {
            true => Chunk::ToolOutputError { tool_call_id, error_text: text, provider_metadata },
            false => Chunk::ToolOutputAvailable { tool_call_id, output: text, provider_metadata },
        });
    }

    fn done(&mut self, answer: &Value, ending: &str, cost: &Cost, out: &mut Vec<Chunk>) {
        self.end_reply(out);
        match answer {
            Value::String(text) if !self.has_text => {
                self.text(false, text, out);
                self.close(out);
            }
            Value::String(_) | Value::Null => {}
            value => {
                let data = json!({ "value": readable(value.clone()) });
                out.push(Chunk::data("data-answer", "answer", data));
            }
        }
        self.fail_calls(false, out);
        self.finish_step(out);
        let mut metadata = json!({ "ending": ending, "usage": usage(cost) });
        if let Some(money) = &cost.money {
            metadata["cost"] = json!(money);
        }
        let finish_reason = match ending {
            "answered" => "stop",
            "cut_off" => "length",
            "refused" => "content-filter",
            _ => "other",
        };
        out.push(Chunk::Finish { finish_reason, message_metadata: Some(metadata) });
        self.is_over = true;
    }
}

impl Call {
    fn available(&self) -> Chunk {
        Chunk::ToolInputAvailable {
            tool_call_id: self.id.clone(),
            tool_name: self.name.clone(),
            input: self.input.clone(),
            dynamic: true,
            title: self.title.clone(),
        }
    }
}

fn usage(cost: &Cost) -> Value {
    json!({
        "inputTokens": cost.input_tokens,
        "cachedInputTokens": cost.cached_tokens,
        "outputTokens": cost.output_tokens,
    })
}

impl UiMessages {
    /// Returns the data of the server-sent events for an update.
    pub(crate) fn write(&mut self, update: &Update) -> Vec<String> {
        let chunks = self.chunks(update);
        texts(&chunks, self.is_over)
    }

    /// Returns the events for the [end](Self::end) of the updates so far.
    pub(crate) fn write_end(&mut self) -> Vec<String> {
        let chunks = self.end();
        texts(&chunks, self.is_over)
    }
}

/// Returns the texts of the server-sent events.
fn texts(chunks: &[Chunk], is_over: bool) -> Vec<String> {
    let last = (is_over && !chunks.is_empty()).then(|| LAST.to_owned());
    chunks.iter().map(Chunk::to_text).chain(last).collect()
}
