//! Records of a run as its readers get them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use toolwright_journal::home;
use toolwright_module::approval::Decision;
use toolwright_module::budget::{self, Spent};
use toolwright_module::event::InCall;
use toolwright_module::message::{CallIds, Message, Part, Reasoning, ReplyPart, ToolResult};
use toolwright_module::model::Reply;
use toolwright_module::untrusted::without_marks;
use toolwright_module::{Contract, ToolCall};
use toolwright_orchestrator::Choosing;
use toolwright_orchestrator::perform::{OutcomeKind, PartIdKind, Record, Started, Waiting};
use toolwright_signature::stable_hash;

use crate::update::{Around, Attachment, Cost, Decided, Question, Update, UpdateKind};

/// The metadata of a run that the service sets.
pub(crate) const USER: &str = "user";
pub(crate) const CONVERSATION: &str = "conversation";
pub(crate) const MESSAGE: &str = "message";

/// The longest text of a result that is shown, in bytes.
const LONGEST_RESULT: usize = 16 * 1024;

/// What readers read of a run that a person stopped.
const STOPPED: &str = "The run was stopped.";

/// The line with the stage, in the form of an error that is recorded.
const LIMIT: &str = "stage: limit";

/// What readers read of a limit, such as that of a budget.
const REACHED_A_LIMIT: &str = "The run has reached a limit of the service. It can go on later.";

/// What readers read of an error that is not theirs.
const CANNOT_GO_ON: &str = "The run could not go on because of an error of the service.";

/// The calls around something that happened.
pub(crate) type Path = Vec<InCall>;

/// One record, as readers get it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    Updates(Vec<Update>),
    Reply(Replied),
}

/// A model's reply. A reader may have its beginning already.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Replied {
    pub(crate) path: Path,
    pub(crate) pieces: Vec<Piece>,
    /// The [generation](crate::watched::State::hear) of the pieces that were shown before, if the reply
    /// goes on as they began. 0 otherwise.
    pub(crate) continues: u64,
    /// What follows the pieces.
    pub(crate) after: Vec<Update>,
}

/// Text or reasoning of a reply.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Piece {
    pub(crate) is_reasoning: bool,
    pub(crate) text: String,
}

/// Adds a text to pieces, to the last one if it is of the same kind.
pub(crate) fn push(pieces: &mut Vec<Piece>, is_reasoning: bool, text: &str) {
    if text.is_empty() {
        return;
    }
    match pieces.last_mut() {
        Some(last) if last.is_reasoning == is_reasoning => last.text.push_str(text),
        _ => pieces.push(Piece { is_reasoning, text: text.to_owned() }),
    }
}

/// Reads the records of one run in their order.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    run: String,
    /// Whether the answer is typed.
    has_output: bool,
    /// Whether the model selects tools in its text.
    selects: bool,
    /// The ids of the calls of each agent.
    ids: BTreeMap<Path, CallIds>,
    /// The questions without a decision, by the ids of their parts.
    pub(crate) open: BTreeMap<String, OpenQuestion>,
    /// Whether readers see errors of the service with their causes.
    pub(crate) shows_errors: bool,
    /// The metadata of the run.
    pub(crate) metadata: BTreeMap<String, String>,
}

/// A question without a decision.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OpenQuestion {
    pub(crate) question: Question,
    pub(crate) waiting: Waiting,
}

impl Reader {
    /// Returns what readers get for the next record.
    pub(crate) fn read(&mut self, record: &Record) -> Entry {
        let updates = match record {
            Record::Started(started) => vec![self.started(started)],
            Record::Ended { part, outcome, .. } => {
                let path = &part.path;
                match &outcome.kind {
                    OutcomeKind::Reply(reply) => {
                        let PartIdKind::Ask { nth, .. } = part.kind else {
                            return Entry::Updates(Vec::new());
                        };
                        return Entry::Reply(self.replied(path, nth, reply, outcome.spent));
                    }
                    OutcomeKind::Called { result, .. } => {
                        let (text, whole_bytes) = shown(result);
                        let milliseconds = outcome.elapsed.as_millis();
                        let kind = UpdateKind::Result {
                            id: result.id.clone(),
                            name: result.name.clone(),
                            text,
                            whole_bytes,
                            failed: result.failed,
                            milliseconds: u64::try_from(milliseconds).unwrap_or(u64::MAX),
                        };
                        vec![at(path, kind)]
                    }
                    OutcomeKind::Decided(decision) => {
                        self.open.remove(&part.to_string());
                        let id = part.call().unwrap_or_default().to_owned();
                        let (decision, by) = (Decided::from(decision), outcome.by.clone());
                        vec![at(path, UpdateKind::Decided { id, decision, by })]
                    }
                    OutcomeKind::Compacted { compacted, .. } => {
                        let kind = UpdateKind::Compacted {
                            tokens_before: compacted.tokens_before,
                            tokens_after: compacted.tokens_after,
                        };
                        vec![at(path, kind)]
                    }
                    _ => Vec::new(),
                }
            }
            Record::Waiting(waiting) => {
                let question = question(&self.run, waiting);
                let update = at(&waiting.part.path, UpdateKind::ApprovalAsked(question.clone()));
                let open = OpenQuestion { question, waiting: waiting.clone() };
                let is_new = self.open.insert(waiting.part.to_string(), open).is_none();
                is_new.then_some(update).into_iter().collect()
            }
            Record::Finished { ending, finished, .. } => {
                let spent = Spent::deserialize_or_default(&finished["spent"]);
                vec![Update::new(UpdateKind::Done {
                    answer: finished["answer"].clone(),
                    ending: word(ending),
                    cost: cost(spent),
                })]
            }
            Record::Stopped { error, is_open, unfinished_reply, .. } => {
                // Nobody can answer the questions of a run that has ended.
                if !is_open {
                    self.open.clear();
                }
                let (reason, can_go_on) = (self.shown(error.clone()), *is_open);
                let by_person = is_cancellation(error);
                let after = vec![Update::new(UpdateKind::Stopped { reason, can_go_on, by_person })];
                let pieces = pieces(unfinished_reply.as_deref().unwrap_or_default());
                if !pieces.is_empty() {
                    let path = Path::new();
                    return Entry::Reply(Replied { path, pieces, continues: 0, after });
                }
                after
            }
            // `Begun`, `Failed`, and records of later versions.
            _ => Vec::new(),
        };
        Entry::Updates(updates)
    }

    /// Returns what readers read of an error.
    pub(crate) fn shown(&self, error: String) -> String {
        if self.shows_errors {
            error
        } else if is_cancellation(&error) {
            STOPPED.to_owned()
        } else if error.lines().any(|line| line.starts_with(LIMIT)) {
            REACHED_A_LIMIT.to_owned()
        } else {
            CANNOT_GO_ON.to_owned()
        }
    }

    fn started(&mut self, started: &Started) -> Update {
        let history = started.run.history();
        let ids = self.ids.entry(Path::new()).or_default();
        for message in &history {
            if let Message::Assistant { parts } = &**message {
                ids.add(parts);
            }
        }
        self.run.clone_from(&started.id);
        self.metadata.clone_from(&started.metadata);
        self.has_output = started.run.output_name().is_some();
        self.selects = started.run.choosing() == Choosing::Selector;
        let (mut text, mut attachments) = (String::new(), Vec::new());
        if let Some(Message::User { parts }) = history.last().map(|message| &**message) {
            for part in parts {
                match part {
                    Part::Text(said) => text.push_str(said),
                    part => attachments.push(attachment(part)),
                }
            }
        }
        let message = started.metadata.get(MESSAGE).cloned();
        Update::new(UpdateKind::Started { run: started.id.clone(), message, text, attachments })
    }

    fn replied(&mut self, path: &Path, nth: u64, reply: &Reply, spent: Spent) -> Replied {
        let mut parts = reply.parts.clone();
        if path.is_empty() && self.selects {
            select(&mut parts);
        }
        self.ids.entry(path.clone()).or_default().complete(&mut parts, nth);
        let (mut after, mut place) = (Vec::new(), 0);
        for part in &parts {
            let ReplyPart::Call(call) = part else { continue };
            let (id, name) = (call.id.clone(), call.name.clone());
            let arguments = call.arguments.clone();
            // The typed answer is no call for people.
            let is_answer = path.is_empty() && self.has_output && name == Contract::FINISH;
            if !is_answer {
                after.push(at(path, UpdateKind::Called { place, id, name, arguments }));
                place += 1;
            }
        }
        let model = reply.model.clone();
        after.push(at(path, UpdateKind::Replied { model, cost: cost(spent) }));
        Replied { path: path.clone(), pieces: pieces(&parts), continues: 0, after }
    }
}

/// Returns the text and the reasoning of a reply.
fn pieces(parts: &[ReplyPart]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for part in parts {
        match part {
            ReplyPart::Text(text) => push(&mut pieces, false, text),
            ReplyPart::Reasoning(reasoning) => push(&mut pieces, true, &reasoning.text),
            _ => {}
        }
    }
    pieces
}

/// Returns the parts of a reply that has these pieces. They are for people: no provider has the reasoning.
pub(crate) fn parts(pieces: &[Piece]) -> Vec<ReplyPart> {
    let part = |piece: &Piece| match piece.is_reasoning {
        true => ReplyPart::Reasoning(Reasoning::new("", &piece.text, Value::Null)),
        false => ReplyPart::text(&piece.text),
    };
    pieces.iter().map(part).collect()
}

/// Returns whether the error of a record says that a person stopped the run.
fn is_cancellation(text: &str) -> bool {
    matches!(home::cancelled(None), Record::Stopped { error, .. } if error == text)
}

/// Reads what a program of another version may have written.
trait OrDefault: Sized {
    fn deserialize_or_default(value: &Value) -> Self;
}

impl<T: serde::de::DeserializeOwned + Default> OrDefault for T {
    fn deserialize_or_default(value: &Value) -> Self {
        T::deserialize(value).unwrap_or_default()
    }
}

/// Replaces a selection in the text of a reply with the call that it selects. The end of a run is
/// selected too, and is no text for people.
fn select(parts: &mut Vec<ReplyPart>) {
    let texts = parts.iter().filter_map(|part| match part {
        ReplyPart::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    let written = serde_json::from_str::<Selected>(&texts.collect::<String>());
    // What the run cannot read either stays a text.
    let Ok(Selected { selection }) = written else { return };
    parts.retain(|part| !matches!(part, ReplyPart::Text(_)));
    if let (Some(name), Some(input)) = (selection.tool_name, selection.tool_input) {
        parts.push(ReplyPart::Call(ToolCall::new("", name, input.get())));
    }
}

/// The text with which a model selects a tool.
#[derive(Deserialize)]
struct Selected {
    selection: Selection,
}

#[derive(Deserialize)]
struct Selection {
    #[serde(default)]
    tool_name: Option<String>,
    #[serde(default)]
    tool_input: Option<Box<RawValue>>,
}

/// Returns an update of the agent at this path.
pub(crate) fn at(path: &Path, kind: UpdateKind) -> Update {
    let around = |call: &InCall| Around { tool: call.tool.clone(), id: call.id.clone() };
    Update { path: path.iter().map(around).collect(), kind }
}

fn attachment(part: &Part) -> Attachment {
    let kind = part.kind().to_owned();
    let source = match part {
        Part::Image(image) => Some(&image.source),
        Part::Document(document) => Some(&document.source),
        Part::Audio(audio) => Some(&audio.source),
        _ => None,
    };
    let media_type = source.and_then(|source| source.media_type()).map(ToOwned::to_owned);
    Attachment { kind, media_type }
}

/// Returns the text of a result as people read it, and the length of the whole one if it was cut. The marks of
/// untrusted text are for models.
fn shown(result: &ToolResult) -> (String, Option<usize>) {
    let whole = &*result.text;
    // With room for the marks. What is behind it is not shown in any case.
    let start = whole.get(..whole.floor_char_boundary(LONGEST_RESULT + 64)).unwrap_or_default();
    let text = match result.untrusted {
        true => without_marks(start),
        false => Cow::Borrowed(start),
    };
    let kept = text.get(..text.floor_char_boundary(LONGEST_RESULT)).unwrap_or_default();
    let is_cut = start.len() < whole.len() || kept.len() < text.len();
    (kept.to_owned(), is_cut.then_some(whole.len()))
}

pub(crate) fn cost(spent: Spent) -> Cost {
    let usage = spent.usage;
    Cost {
        input_tokens: usage.input_tokens,
        cached_tokens: usage.cached_tokens,
        output_tokens: usage.output_tokens,
        incomplete: usage.incomplete,
        money: match spent.cost() {
            budget::Cost::Unknown => None,
            known => Some(known.to_string()),
        },
    }
}

/// Returns the word that a value has as JSON.
pub(crate) fn word(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_value(value).unwrap_or_default();
    json.as_str().unwrap_or_default().to_owned()
}

/// Returns the question of a call that waits.
fn question(run: &str, waiting: &Waiting) -> Question {
    let approval = &waiting.approval;
    let call = &approval.call;
    let part = waiting.part.to_string();
    let again = approval.asked_before.to_string();
    let id = stable_hash([run, &part, &again, &call.name, &call.arguments]);
    Question {
        question: format!("{id:032x}"),
        run: run.to_owned(),
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        effect: word(&approval.effect),
        unknown: approval.unknown,
        reason: approval.reason.clone(),
        schema: waiting.contract.as_ref().map(|contract| contract.input().clone()),
    }
}

impl From<&Decision> for Decided {
    fn from(decision: &Decision) -> Self {
        match decision {
            Decision::Deny { reason } => Self::Deny { reason: reason.clone() },
            Decision::Edit { arguments } => {
                // They were JSON when the decision was made.
                let arguments = serde_json::from_str(arguments)
                    .unwrap_or_else(|_| Value::String(arguments.clone()));
                Self::Edit { arguments }
            }
            Decision::CallAgain => Self::CallAgain,
            Decision::Happened { result } => Self::Happened { result: result.clone() },
            _ => Self::Approve,
        }
    }
}
