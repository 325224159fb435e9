//! Writing of the updates of a run as the events of AG-UI.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::OWN;
use super::agent::{Agent, Below, State};
use super::event::{Event, Interrupt, Outcome, SubagentOutcome, TokenUsage};
use super::input::{Input, OURS};
use super::stream::Stream;
use crate::update::{Around, Cost, Decided, Question, Update, UpdateKind};

/// Writes the updates of a run for one client.
///
/// A run of AG-UI is one request and its answer. Our run goes on after a question was answered, so it
/// may be several runs of AG-UI. The updates that a client already has, or may have in part, are
/// [absorbed](Self::absorb). The client gets their messages at once, in place of its own.
pub(crate) struct AgUi {
    thread: String,
    run_id: String,
    /// Whether the client is older than version 1.0.
    is_old: bool,
    /// The id of our run.
    run: String,
    stream: Stream,
    /// The agents by the ids of the calls around them.
    agents: BTreeMap<Vec<String>, Agent>,
    questions: Vec<Asked>,
    usage: Vec<TokenUsage>,
    has_absorbed: bool,
    end: Option<End>,
}

/// A question that is open.
struct Asked {
    path: Vec<String>,
    call: String,
    interrupt: Interrupt,
}

/// How a run of AG-UI ended.
enum End {
    Done { answer: Value, metadata: Value },
    Waits(Vec<Interrupt>),
    Cancelled,
    Failed { message: String, code: &'static str },
}

impl AgUi {
    /// Returns a writer for the client that sent a request in this conversation.
    pub(crate) fn new(conversation: &str, input: Input) -> Self {
        Self {
            thread: conversation.to_owned(),
            run_id: input.run_id,
            is_old: input.is_old,
            run: String::new(),
            stream: Stream::new(input.before, input.reasoning),
            agents: BTreeMap::new(),
            questions: Vec::new(),
            usage: Vec::new(),
            has_absorbed: false,
            end: None,
        }
    }

    /// Takes an update that happened before the client came. It comes before [`begin`](Self::begin).
    pub(crate) fn absorb(&mut self, update: &Update) {
        self.has_absorbed = true;
        self.go_on();
        self.apply(update);
    }

    /// Begins the answer of a run of which updates were absorbed. `rests` says that none follow: the run
    /// has ended, or it waits for a person.
    pub(crate) fn begin(&mut self, rests: bool) -> Vec<String> {
        if !rests {
            self.go_on();
        }
        self.open();
        match self.end {
            None if rests => self.rest(),
            _ => {
                self.send_end();
                self.stream.take()
            }
        }
    }

    /// Ends the answer, because no updates follow.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        if !self.is_over() {
            self.stopped("The run does not go on by itself.");
        }
        self.stream.take()
    }

    /// Ends the answer, because it cannot be read on.
    pub(crate) fn fail(&mut self, message: &str, code: &'static str) -> Vec<String> {
        if !self.is_over() {
            if !self.stream.has_begun() {
                self.open();
            }
            self.end_with(End::Failed { message: message.to_owned(), code });
        }
        self.stream.take()
    }

    /// Returns whether the answer has its last event.
    pub(crate) fn is_over(&self) -> bool {
        self.stream.has_begun() && self.end.is_some()
    }

    /// Forgets the end that the run had, because it goes on.
    fn go_on(&mut self) {
        if self.end.take().is_some() {
            self.usage.clear();
        }
    }

    /// Writes the first events of the answer.
    fn open(&mut self) {
        self.stream.begin();
        self.stream.push(&Event::RunStarted {
            thread_id: &self.thread,
            run_id: &self.run_id,
            protocol_version: "1.0",
            metadata: json!({ OWN: { "run": self.run } }),
        });
        if !self.has_absorbed {
            return;
        }
        let below = self.agents.values().filter_map(|agent| agent.below.as_ref());
        for below in below.filter(|below| below.state == State::Works) {
            below.start(&mut self.stream);
        }
        self.stream.restate();
        for agent in self.agents.values() {
            agent.reopen(&mut self.stream);
        }
    }

    fn apply(&mut self, update: &Update) {
        let path: Vec<String> = update.path.iter().map(|around| around.id.clone()).collect();
        self.announce(&update.path);
        let mut agent = self.agents.remove(&path).unwrap_or_default();
        self.apply_to(&mut agent, &path, update);
        self.agents.insert(path, agent);
        match &update.kind {
            UpdateKind::Done { answer, ending, cost } if update.path.is_empty() => {
                self.done(answer, ending, cost);
            }
            UpdateKind::Stopped { by_person: true, .. } if update.path.is_empty() => {
                self.end_with(End::Cancelled);
            }
            UpdateKind::Stopped { reason, .. } if update.path.is_empty() => {
                self.stopped(reason);
            }
            _ => {}
        }
    }

    fn apply_to(&mut self, agent: &mut Agent, path: &[String], update: &Update) {
        let stream = &mut self.stream;
        match &update.kind {
            UpdateKind::Started { run, .. } if path.is_empty() => {
                self.run.clone_from(run);
                agent.prefix.clone_from(run);
            }
            UpdateKind::Text { text } => agent.text(stream, text),
            UpdateKind::Reasoning { text } => agent.reasoning(stream, text),
            UpdateKind::Answer { .. } => {
                agent.other(stream);
                custom(stream, agent, update);
            }
            UpdateKind::CallText { place, name, at, arguments } => {
                agent.call_text(stream, *place, name, *at, arguments);
            }
            UpdateKind::Called { place, id, name, arguments } => {
                agent.called(stream, *place, id, name, arguments);
            }
            UpdateKind::Discarded => {
                let was_shown = agent.discard(stream);
                if was_shown {
                    custom(stream, agent, update);
                }
            }
            UpdateKind::Replied { model, cost } => {
                agent.replied(stream);
                custom(stream, agent, update);
                self.count(model.as_ref(), cost);
            }
            UpdateKind::ApprovalAsked(question) => {
                // The client may not know the call if the program that made it was killed.
                agent.add_call(stream, &question.id, &question.name, &question.arguments);
                custom(stream, agent, update);
                let interrupt = interrupt(question, agent);
                self.forget_question(path, &question.id);
                let (path, call) = (path.to_vec(), question.id.clone());
                self.questions.push(Asked { path, call, interrupt });
            }
            UpdateKind::Decided { id, decision, .. } => {
                custom(stream, agent, update);
                // No tool is asked, so no result follows.
                match decision {
                    Decided::Deny { reason } => {
                        agent.result(stream, id, reason, json!({ OWN: { "denied": true } }));
                    }
                    Decided::Happened { result } => {
                        agent.result(stream, id, result, json!({ OWN: { "happened": true } }));
                    }
                    _ => {}
                }
                let open = self.questions.len();
                self.forget_question(path, id);
                // An answer ended with the question. What came before was counted there.
                if self.questions.len() < open {
                    self.usage.clear();
                }
            }
            UpdateKind::Result { id, name, text, whole_bytes, failed, milliseconds } => {
                self.end_below(path, id, *failed);
                self.forget_question(path, id);
                let mut data = json!({ "milliseconds": milliseconds });
                if *failed {
                    data["failed"] = json!(true);
                }
                if let Some(whole) = whole_bytes {
                    data["whole_bytes"] = json!(whole);
                }
                agent.add_call(&mut self.stream, id, name, "");
                agent.result(&mut self.stream, id, text, json!({ OWN: data }));
            }
            UpdateKind::Compacted { .. } => custom(stream, agent, update),
            _ => {}
        }
    }

    /// Says that agents work for another one, if the client does not know it.
    fn announce(&mut self, path: &[Around]) {
        let mut around = Vec::new();
        for step in path {
            let above = self.agents.entry(around.clone()).or_default();
            let call = above.made(&step.id).map(ToOwned::to_owned);
            let id = call.clone().unwrap_or_else(|| format!("{}-{}", above.prefix, step.id));
            let parent = above.by().subagent_run_id.map(ToOwned::to_owned);
            around.push(step.id.clone());
            let below = Below { id, name: step.tool.clone(), parent, call, state: State::Unknown };
            let agent = self.agents.entry(around.clone()).or_insert_with(|| Agent::below(below));
            if let Some(below) = &mut agent.below
                && below.state == State::Unknown
            {
                below.state = State::Works;
                below.start(&mut self.stream);
            }
        }
    }

    /// Ends the agents below a call, which has its result.
    fn end_below(&mut self, path: &[String], id: &str, failed: bool) {
        let within = |at: &[String]| {
            at.strip_prefix(path).and_then(<[String]>::first).is_some_and(|first| first == id)
        };
        let below = self.agents.iter_mut().rev().filter(|(at, _)| within(at));
        for (_, agent) in below {
            agent.end(&mut self.stream);
            agent.end_calls(&mut self.stream);
            if let Some(below) = &mut agent.below
                && std::mem::replace(&mut below.state, State::Ended) == State::Works
            {
                let subagent_run_id = &*below.id;
                self.stream.push(&match failed {
                    true => Event::SubagentError {
                        subagent_run_id,
                        message: "The call failed.",
                        code: "failed",
                    },
                    false => Event::SubagentFinished {
                        subagent_run_id,
                        outcome: SubagentOutcome::Success,
                    },
                });
            }
        }
    }

    fn forget_question(&mut self, path: &[String], call: &str) {
        self.questions.retain(|asked| asked.path != path || asked.call != call);
    }

    fn count(&mut self, model: Option<&String>, cost: &Cost) {
        let at = self.usage.iter().position(|usage| usage.model.as_ref() == model);
        let at = at.unwrap_or_else(|| {
            self.usage.push(TokenUsage::of(model));
            self.usage.len() - 1
        });
        self.usage[at].add(cost);
    }

    fn done(&mut self, answer: &Value, ending: &str, cost: &Cost) {
        for agent in self.agents.values_mut() {
            agent.end_calls(&mut self.stream);
        }
        // The answer may be another text than that of the last reply, for example at a limit.
        if let Value::String(answer) = answer
            && let Some(agent) = self.agents.get_mut(&[][..])
        {
            let shown = agent.last_text(&self.stream).unwrap_or_default().trim();
            let is_shown = match ending {
                "answered" | "cut_off" => !shown.is_empty(),
                _ => shown == answer.trim(),
            };
            if !is_shown {
                agent.replied(&mut self.stream);
                agent.text(&mut self.stream, answer);
            }
        }
        let metadata = json!({ OWN: { "ending": ending, "cost": cost } });
        self.end_with(End::Done { answer: answer.clone(), metadata });
    }

    /// The run has stopped, or waits for a person.
    fn stopped(&mut self, reason: &str) {
        let interrupts: Vec<_> =
            self.questions.iter().map(|asked| asked.interrupt.clone()).collect();
        self.end_with(match interrupts.is_empty() {
            true => End::Failed { message: reason.to_owned(), code: "stopped" },
            false => End::Waits(interrupts),
        });
    }

    /// Ends everything that is open, and the answer.
    fn end_with(&mut self, end: End) {
        for (path, agent) in self.agents.iter_mut().rev() {
            agent.end(&mut self.stream);
            let Some(below) = &mut agent.below else { continue };
            if below.state != State::Works {
                continue;
            }
            below.state = State::Unknown;
            let subagent_run_id = &*below.id;
            let finished = |outcome| Event::SubagentFinished { subagent_run_id, outcome };
            self.stream.push(&match &end {
                End::Done { .. } => finished(SubagentOutcome::Success),
                End::Waits(_) => {
                    let own = self.questions.iter().filter(|asked| asked.path == *path);
                    let interrupt_ids = own.map(|asked| asked.interrupt.id.clone()).collect();
                    finished(SubagentOutcome::Suspended { interrupt_ids })
                }
                End::Cancelled => {
                    let (message, code) = ("The run was stopped.", "cancelled");
                    Event::SubagentError { subagent_run_id, message, code }
                }
                End::Failed { .. } => continue,
            });
        }
        self.end = Some(end);
        if self.stream.has_begun() {
            self.send_end();
        }
    }

    /// Sends the last event, if the run has ended.
    fn send_end(&mut self) {
        let Some(end) = &self.end else { return };
        let usage = std::mem::take(&mut self.usage);
        let (outcome, result, metadata) = match end {
            End::Done { answer, metadata } => (Outcome::Success, Some(answer), Some(metadata)),
            End::Waits(interrupts) => (Outcome::Interrupt { interrupts }, None, None),
            End::Cancelled if self.is_old => {
                let (message, code) = ("The run was stopped.", "cancelled");
                return self.stream.push(&Event::RunError { message, code, usage });
            }
            End::Cancelled => (Outcome::Cancelled, None, None),
            End::Failed { message, code } => {
                return self.stream.push(&Event::RunError { message, code, usage });
            }
        };
        let (thread_id, run_id) = (&*self.thread, &*self.run_id);
        let finished = Event::RunFinished { thread_id, run_id, result, outcome, usage, metadata };
        self.stream.push(&finished);
    }
}

/// Returns the messages of the runs of a conversation, each with its updates so far, as a client has them.
pub(crate) fn messages<'a>(runs: impl IntoIterator<Item = &'a [Update]>) -> Vec<Value> {
    let mut messages = Vec::new();
    for updates in runs {
        for update in updates {
            if let UpdateKind::Started { run, message, text, attachments } = &update.kind
                && update.path.is_empty()
            {
                let id = message.clone().unwrap_or_else(|| format!("{OURS}{run}"));
                let mut said = json!({ "id": id, "role": "user", "content": text });
                if !attachments.is_empty() {
                    said["metadata"] = json!({ OWN: { "attachments": attachments } });
                }
                messages.push(said);
            }
        }
        let mut run = AgUi::new("", Input::default());
        updates.iter().for_each(|update| run.absorb(update));
        messages.extend(run.stream.messages());
    }
    messages
}

impl AgUi {
    /// Returns the data of the server-sent events for an update.
    pub(crate) fn write(&mut self, update: &Update) -> Vec<String> {
        if !self.is_over() {
            if let UpdateKind::Started { run, .. } = &update.kind
                && update.path.is_empty()
            {
                self.run.clone_from(run);
            }
            if !self.stream.has_begun() {
                self.go_on();
                self.open();
            }
            self.apply(update);
        }
        self.stream.take()
    }
}

impl Below {
    fn start(&self, stream: &mut Stream) {
        stream.push(&Event::SubagentStarted {
            subagent_run_id: &self.id,
            name: &self.name,
            parent_subagent_run_id: self.parent.as_deref(),
            parent_tool_call_id: self.call.as_deref(),
        });
    }
}

/// Sends an update as an event of our own, because AG-UI has none for it.
fn custom(stream: &mut Stream, agent: &Agent, update: &Update) {
    // Its texts and numbers can be written.
    let Ok(mut value) = serde_json::to_value(update) else { return };
    // The client has other ids than the model.
    if let Some(call) = value["id"].as_str().and_then(|id| agent.made(id)) {
        value["tool_call_id"] = json!(call);
    }
    let name = format!("{OWN}.{}", value["update"].as_str().unwrap_or_default());
    stream.push(&Event::Custom { name, value, agent: agent.by() });
}

/// The place of the schema of the arguments in the schema of an answer.
const ARGUMENTS: &str = "#/properties/editedArgs";

/// Lets the references of a schema name its place in the schema of an answer. They name places from the
/// root on.
fn move_references(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::String(reference) if name == "$ref" && reference.starts_with('#') => {
                        reference.replace_range(..1, ARGUMENTS);
                    }
                    // The names in them are those of fields and types.
                    Value::Object(schemas)
                        if ["properties", "patternProperties", "$defs"].contains(&&**name) =>
                    {
                        schemas.values_mut().for_each(move_references);
                    }
                    // They have values and no schemas.
                    _ if ["const", "enum", "default", "examples"].contains(&&**name) => {}
                    field => move_references(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(move_references),
        _ => {}
    }
}

/// Returns a question in the form of the protocol.
fn interrupt(question: &Question, agent: &Agent) -> Interrupt {
    let Question { id, name, effect, unknown, reason, .. } = question;
    let mut message = match unknown {
        false => format!("Allow the call of `{name}`?"),
        true => format!("`{name}` was called before and may have taken effect. Call it again?"),
    };
    if let Some(reason) = reason {
        message.push_str(&format!(" It waits because {reason}."));
    }
    let mut arguments = question.schema.clone().unwrap_or_else(|| json!({ "type": "object" }));
    move_references(&mut arguments);
    let mut properties = json!({
        "approved": { "type": "boolean" },
        "reason": { "type": "string", "description": "The reason of a refusal, for the model." },
        "editedArgs": arguments,
    });
    if *unknown {
        properties["callAgain"] = json!({
            "type": "boolean",
            "description": "Whether the call is made again, although it may have taken effect. In place of `approved`.",
        });
        properties["happened"] = json!({
            "type": "string",
            "description": "The result, if the call has taken effect. In place of `approved`.",
        });
    }
    let mut schema = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if !unknown {
        schema["required"] = json!(["approved"]);
    }
    let mut own = json!({ "effect": effect, "unknown": unknown });
    if let Some(reason) = reason {
        own["reason"] = json!(reason);
    }
    Interrupt {
        subagent_run_id: agent.by().subagent_run_id.map(ToOwned::to_owned),
        id: question.question.clone(),
        reason: "tool_call",
        message,
        tool_call_id: agent.made(id).unwrap_or_default().to_owned(),
        response_schema: schema,
        metadata: json!({ OWN: own }),
    }
}
