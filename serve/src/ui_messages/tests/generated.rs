//! Generated runs: their chunks keep the order that clients need, and add up to the run's texts, calls
//! and results.

use std::collections::BTreeSet;
use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::json;

use super::*;
use crate::ui_messages::conversation::messages;
use crate::ui_messages::writer::UiMessages;

/// A run, and what a reader must have at its end.
#[derive(Debug, Default)]
struct Run {
    updates: Vec<Update>,
    steps: Vec<ExpectedStep>,
    /// The number of updates before each decision for which the run waited, and the questions that
    /// were open.
    waits: Vec<(usize, Vec<String>)>,
    questions: usize,
    is_stopped: bool,
}

#[derive(Debug, Default, PartialEq)]
struct ExpectedStep {
    text: String,
    reasoning: String,
    /// The name, the arguments and the outcome of each call.
    calls: Vec<(String, Value, Outcome)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Outcome {
    Running,
    Asked,
    Denied,
    Result(String),
    Failed(String),
}

#[derive(Debug, Clone)]
struct Turn {
    /// Pieces of replies that were lost.
    lost: Vec<Vec<Piece>>,
    pieces: Vec<Piece>,
    calls: Vec<CallPlan>,
}

#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    Reasoning(String),
    /// A piece of a call of a lost reply.
    Call(String),
}

#[derive(Debug, Clone)]
struct CallPlan {
    name: String,
    arguments: String,
    /// The number of bytes that are shown before the call is whole.
    streamed: Option<usize>,
    fate: Fate,
    /// The replies of an agent that makes this call.
    below: Vec<Turn>,
}

#[derive(Debug, Clone)]
enum Fate {
    Result { text: String, failed: bool },
    Approved(String),
    Edited(String),
    Denied,
}

#[derive(Debug, Clone)]
enum Ending {
    Done(Value),
    Stopped,
    Open,
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["add", "read_file", "pay"]).prop_map(ToOwned::to_owned)
}

fn arguments() -> impl Strategy<Value = String> {
    let odd = vec!["", "not json", "{\"a\":", r#"{"__proto__":{"a":1}}"#, "[1,2]", "\"text\""];
    prop_oneof![
        4 => ".{0,12}".prop_map(|text| json!({ "text": text }).to_string()),
        1 => prop::sample::select(odd).prop_map(ToOwned::to_owned),
    ]
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let piece = prop_oneof![
        3 => ".{1,8}".prop_map(Piece::Text),
        1 => ".{1,8}".prop_map(Piece::Reasoning),
    ];
    vec(piece, 0..5)
}

fn lost() -> impl Strategy<Value = Vec<Vec<Piece>>> {
    let call = ".{0,8}".prop_map(Piece::Call);
    let lost = (pieces(), vec(call, 0..3)).prop_map(|(pieces, calls)| [pieces, calls].concat());
    prop_oneof![3 => Just(Vec::new()), 1 => vec(lost, 1..3)]
}

fn call(below: BoxedStrategy<Vec<Turn>>) -> impl Strategy<Value = CallPlan> {
    let fate = prop_oneof![
        4 => (".{0,12}", any::<bool>()).prop_map(|(text, failed)| Fate::Result { text, failed }),
        1 => ".{0,12}".prop_map(Fate::Approved),
        1 => ".{0,12}".prop_map(Fate::Edited),
        1 => Just(Fate::Denied),
    ];
    let streamed = prop::option::of(0..20_usize);
    (name(), arguments(), streamed, fate, below).prop_map(
        |(name, arguments, streamed, fate, below)| CallPlan {
            name,
            arguments,
            streamed,
            fate,
            below,
        },
    )
}

fn turns(below: BoxedStrategy<Vec<Turn>>, most: usize) -> BoxedStrategy<Vec<Turn>> {
    let turn = (lost(), pieces(), vec(call(below), 0..4)).prop_map(|(lost, pieces, calls)| Turn {
        lost,
        pieces,
        calls,
    });
    vec(turn, 0..most).boxed()
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        2 => ".{1,12}".prop_map(|text| Ending::Done(json!(text))),
        1 => Just(Ending::Done(json!({ "name": "Ada" }))),
        1 => Just(Ending::Stopped),
        1 => Just(Ending::Open),
    ]
}

fn run() -> impl Strategy<Value = Run> {
    let below = prop_oneof![4 => Just(Vec::new()), 1 => turns(Just(Vec::new()).boxed(), 3)];
    // The run may be read before its end.
    let read = prop_oneof![3 => Just(1.0), 1 => 0.0..1.0_f64];
    (turns(below.boxed(), 4), ending(), read).prop_map(|(turns, ending, read)| {
        let mut run = Run::default();
        run.updates.push(update(started()));
        run.turns(&[], &turns);
        run.end(ending);
        if read < 1.0 {
            // What is expected then is what the updates say, so only the order is checked.
            run.cut((run.updates.len() as f64 * read) as usize);
        }
        run
    })
}

impl Run {
    fn push(&mut self, path: &[Around], kind: UpdateKind) {
        self.updates.push(Update { path: path.to_vec(), kind });
    }

    fn turns(&mut self, path: &[Around], turns: &[Turn]) {
        for (nth, turn) in turns.iter().enumerate() {
            self.turn(path, nth, turn);
        }
    }

    fn turn(&mut self, path: &[Around], nth: usize, turn: &Turn) {
        for pieces in &turn.lost {
            self.pieces(path, pieces);
            self.push(path, UpdateKind::Discarded);
        }
        self.pieces(path, &turn.pieces);
        let mut step = ExpectedStep::default();
        for piece in &turn.pieces {
            match piece {
                Piece::Text(text) => step.text.push_str(text),
                Piece::Reasoning(text) => step.reasoning.push_str(text),
                Piece::Call(_) => {}
            }
        }
        // All calls are streamed if one is.
        let is_streamed = turn.calls.iter().all(|call| call.streamed.is_some());
        for (place, call) in turn.calls.iter().enumerate().filter(|_| is_streamed) {
            let shown = call.streamed.unwrap_or_default().min(call.arguments.len());
            let shown = call.arguments.floor_char_boundary(shown);
            let (first, rest) =
                call.arguments[..shown].split_at(call.arguments.floor_char_boundary(shown / 2));
            self.push(path, call_text(place, &call.name, 0, first));
            if !rest.is_empty() {
                self.push(path, call_text(place, &call.name, first.len(), rest));
            }
        }
        let id = |place: usize| format!("call-{nth}-{place}");
        for (place, call) in turn.calls.iter().enumerate() {
            self.push(path, called(place, &id(place), &call.name, &call.arguments));
            let input = crate::ui_messages::chunk::input(&call.arguments);
            step.calls.push((call.name.clone(), input, Outcome::Running));
        }
        self.push(path, replied());
        if path.is_empty() {
            self.steps.push(step);
        }
        let mut asked = Vec::new();
        for (place, call) in turn.calls.iter().enumerate() {
            let id = id(place);
            match &call.fate {
                Fate::Result { text, failed } => {
                    let around = Around { tool: call.name.clone(), id: id.clone() };
                    // Agents do not change the steps of the one that calls them.
                    self.turns(&[path, &[around]].concat(), &call.below);
                    self.result(path, place, &id, &call.name, text, *failed);
                }
                fate => {
                    self.questions += 1;
                    let asked_id = format!("question-{}", self.questions);
                    let question = question(&asked_id, &id, &call.name, &call.arguments);
                    self.push(path, UpdateKind::ApprovalAsked(question));
                    self.outcome(path, place, Outcome::Asked);
                    asked.push((asked_id, place, id, call.name.clone(), fate.clone()));
                }
            }
        }
        let ids: Vec<_> = asked.iter().map(|asked| asked.0.clone()).collect();
        for (nth, (_, place, id, name, fate)) in asked.into_iter().enumerate() {
            self.waits.push((self.updates.len(), ids[nth..].to_vec()));
            match fate {
                Fate::Approved(text) => {
                    self.push(path, decided(&id, Decided::Approve));
                    self.result(path, place, &id, &name, &text, false);
                }
                Fate::Edited(text) => {
                    let arguments = json!({ "edited": true });
                    self.push(path, decided(&id, Decided::Edit { arguments: arguments.clone() }));
                    // A question of an agent below begins a step, and an earlier one stays as it is.
                    let is_last = !self.has_asked_below(turn);
                    if let (true, true, Some(step)) =
                        (is_last, path.is_empty(), self.steps.last_mut())
                    {
                        step.calls[place].1 = arguments;
                    }
                    self.result(path, place, &id, &name, &text, false);
                }
                _ => {
                    self.push(path, decided(&id, deny("No.")));
                    self.result(path, place, &id, &name, "It was denied.", true);
                    self.outcome(path, place, Outcome::Denied);
                }
            }
        }
    }

    fn has_asked_below(&self, turn: &Turn) -> bool {
        let asks = |call: &CallPlan| !matches!(call.fate, Fate::Result { .. });
        let calls = turn.calls.iter().filter(|call| matches!(call.fate, Fate::Result { .. }));
        calls.flat_map(|call| &call.below).flat_map(|turn| &turn.calls).any(asks)
    }

    fn pieces(&mut self, path: &[Around], pieces: &[Piece]) {
        for (nth, piece) in pieces.iter().enumerate() {
            self.push(
                path,
                match piece {
                    Piece::Text(piece) => text(piece),
                    Piece::Reasoning(piece) => reasoning(piece),
                    Piece::Call(arguments) => call_text(nth, "lost", 0, arguments),
                },
            );
        }
    }

    fn result(
        &mut self,
        path: &[Around],
        place: usize,
        id: &str,
        name: &str,
        text: &str,
        failed: bool,
    ) {
        let kind = UpdateKind::Result {
            id: id.to_owned(),
            name: name.to_owned(),
            text: text.to_owned(),
            whole_bytes: None,
            failed,
            milliseconds: 1,
        };
        self.push(path, kind);
        let text = text.to_owned();
        self.outcome(
            path,
            place,
            if failed { Outcome::Failed(text) } else { Outcome::Result(text) },
        );
    }

    fn outcome(&mut self, path: &[Around], place: usize, outcome: Outcome) {
        if let (true, Some(step)) = (path.is_empty(), self.steps.last_mut()) {
            step.calls[place].2 = outcome;
        }
    }

    fn end(&mut self, ending: Ending) {
        match ending {
            Ending::Done(answer) => {
                if let Value::String(text) = &answer {
                    let shown = ExpectedStep { text: text.clone(), ..ExpectedStep::default() };
                    self.push(&[], super::text(text));
                    self.push(&[], replied());
                    self.steps.push(shown);
                }
                self.push(&[], done(answer));
            }
            Ending::Stopped => {
                self.push(
                    &[],
                    UpdateKind::Stopped {
                        reason: "Bye.".to_owned(),
                        can_go_on: true,
                        by_person: false,
                    },
                );
                self.is_stopped = true;
            }
            Ending::Open => {}
        }
    }

    fn cut(&mut self, updates: usize) {
        let updates = updates.max(1);
        self.updates.truncate(updates);
        self.waits.retain(|(at, _)| *at < updates);
        self.steps.clear();
        self.is_stopped = false;
    }

    fn has_expected(&self) -> bool {
        !self.steps.is_empty()
    }

    fn chunks(&self, mut writer: UiMessages) -> Vec<Chunk> {
        let mut chunks: Vec<_> =
            self.updates.iter().flat_map(|update| writer.chunks(update)).collect();
        chunks.extend(writer.end());
        assert!(writer.is_over());
        chunks
    }
}

/// Checks the order of chunks: stricter than a client, which takes what is not closed.
fn check_order(chunks: &[Chunk], is_seven: bool, has_message: bool) {
    let (mut is_in_step, mut is_over) = (false, false);
    let mut open: Option<(bool, &str)> = None;
    let mut streaming = BTreeSet::new();
    let mut known = BTreeSet::new();
    for (nth, chunk) in chunks.iter().enumerate() {
        assert!(!is_over, "{chunk:?} after the end");
        assert_eq!(nth == 0, matches!(chunk, Chunk::Start { .. }), "{chunk:?} at {nth}");
        match chunk {
            Chunk::Start { message_id } => assert_eq!(message_id, "run-1"),
            Chunk::StartStep => {
                assert!(open.is_none() && !is_in_step);
                is_in_step = true;
            }
            Chunk::FinishStep => {
                assert!(open.is_none() && is_in_step && streaming.is_empty());
                is_in_step = false;
            }
            Chunk::ResetStep => {
                assert!(is_in_step && is_seven);
                open = None;
                streaming.clear();
            }
            Chunk::TextStart { id } | Chunk::ReasoningStart { id } => {
                assert!(open.is_none() && is_in_step && known.insert(id));
                open = Some((matches!(chunk, Chunk::TextStart { .. }), id));
            }
            Chunk::TextDelta { id, delta } => {
                assert!(open == Some((true, id)) && !delta.is_empty());
            }
            Chunk::ReasoningDelta { id, delta } => {
                assert!(open == Some((false, id)) && !delta.is_empty());
            }
            Chunk::TextEnd { id } => assert_eq!(open.take(), Some((true, id.as_str()))),
            Chunk::ReasoningEnd { id } => assert_eq!(open.take(), Some((false, id.as_str()))),
            Chunk::ToolInputStart { tool_call_id, tool_name, dynamic } => {
                assert!(open.is_none() && is_in_step && *dynamic && !tool_name.is_empty());
                assert!(streaming.insert(tool_call_id.as_str()));
            }
            Chunk::ToolInputDelta { tool_call_id, .. } => {
                assert!(streaming.contains(tool_call_id.as_str()));
            }
            Chunk::ToolInputAvailable { tool_call_id, dynamic, .. } => {
                assert!(open.is_none() && (is_in_step || has_message) && *dynamic);
                streaming.remove(tool_call_id.as_str());
                known.insert(tool_call_id);
            }
            Chunk::ToolInputError { tool_call_id, .. } => {
                assert!(streaming.remove(tool_call_id.as_str()));
            }
            Chunk::ToolApprovalRequest { tool_call_id, .. }
            | Chunk::ToolOutputAvailable { tool_call_id, .. }
            | Chunk::ToolOutputError { tool_call_id, .. }
            | Chunk::ToolOutputDenied { tool_call_id } => {
                assert!(has_message || known.contains(tool_call_id));
            }
            Chunk::ToolApprovalResponse { .. } => assert!(is_seven),
            Chunk::Finish { .. } => {
                assert!(open.is_none() && !is_in_step);
                is_over = true;
            }
            Chunk::Abort { .. } | Chunk::Error { .. } => {
                assert!(open.is_none());
                is_over = true;
            }
            Chunk::MessageMetadata { .. } | Chunk::Data { .. } => {}
        }
    }
    assert!(is_over);
}

/// Returns the steps of a message. Questions of agents below are left out.
fn steps(message: &Value) -> Vec<ExpectedStep> {
    let mut steps: Vec<(ExpectedStep, bool)> = Vec::new();
    for part in message["parts"].as_array().unwrap() {
        let kind = part["type"].as_str().unwrap();
        if kind == "step-start" {
            steps.push((ExpectedStep::default(), false));
            continue;
        }
        let text = part["text"].as_str().unwrap_or_default();
        let Some((step, is_below)) = steps.last_mut() else { continue };
        match kind {
            "text" => step.text.push_str(text),
            "reasoning" => step.reasoning.push_str(text),
            // Version 6 has a mark after what is void.
            "data-discarded" => (step.text.clear(), step.reasoning.clear()).1,
            "dynamic-tool" if part.get("title").is_some() => *is_below = true,
            "dynamic-tool" => {
                let words = |field: &str| part[field].as_str().unwrap_or_default().to_owned();
                let outcome = match words("state").as_str() {
                    "input-available" | "approval-responded" => Outcome::Running,
                    "approval-requested" => Outcome::Asked,
                    "output-denied" => Outcome::Denied,
                    "output-available" => Outcome::Result(words("output")),
                    "output-error" => Outcome::Failed(words("errorText")),
                    state => panic!("{state} is no state at an end"),
                };
                // Calls of lost replies are marked as failed in version 6.
                let is_lost = words("toolName") == "lost";
                if !is_lost {
                    step.calls.push((words("toolName"), part["input"].clone(), outcome));
                }
            }
            _ => {}
        }
    }
    steps.into_iter().filter(|(_, is_below)| !is_below).map(|(step, _)| step).collect()
}

/// Leaves out the approvals of calls that waited for others.
fn without_held(mut message: Value) -> Value {
    for part in message["parts"].as_array_mut().unwrap() {
        if part["approval"]["isAutomatic"] == true {
            part.as_object_mut().unwrap().remove("approval");
            if part["state"] == "approval-responded" {
                part["state"] = json!("input-available");
            }
        }
    }
    message
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chunks_are_in_order_and_add_up_to_the_run(run in run(), is_seven: bool) {
        let chunks = run.chunks(UiMessages::new(is_seven));
        check_order(&chunks, is_seven, false);
        let message = fold(&chunks);
        if run.has_expected() {
            prop_assert_eq!(steps(&message), run.steps);
        }
    }

    /// Who answers has the message up to where the run waited, and gets the rest.
    #[test]
    fn the_rest_after_an_answer_completes_the_message(run in run(), is_seven: bool) {
        for (at, questions) in &run.waits {
            let mut writer = UiMessages::new(is_seven);
            let mut chunks: Vec<_> =
                run.updates[..*at].iter().flat_map(|update| writer.chunks(update)).collect();
            chunks.extend(writer.end());
            let questions = questions.iter().map(String::as_str);
            let rest = run.chunks(UiMessages::after(is_seven, questions));
            check_order(&rest, is_seven, true);
            chunks.extend(rest);
            let whole = run.chunks(UiMessages::new(is_seven));
            prop_assert_eq!(without_held(fold(&chunks)), without_held(fold(&whole)));
        }
    }

    /// A page that is opened again has what a reader of the stream has.
    #[test]
    fn messages_are_what_the_chunks_add_up_to(run in run()) {
        let messages = messages(&run.updates, false);
        let mut writer = UiMessages::new(true);
        let mut chunks: Vec<_> =
            run.updates.iter().flat_map(|update| writer.chunks(update)).collect();
        if run.is_stopped {
            chunks.extend(writer.end());
        }
        if let Some(answer) = messages.get(1) {
            prop_assert_eq!(answer, &fold(&chunks));
        }
    }
}

/// Writes generated streams for `tests/ui_messages.sh`, which gives them to the real clients.
#[test]
#[ignore = "run by tests/ui_messages.sh"]
fn heavy_streams_for_the_real_clients() {
    let folder = PathBuf::from(std::env::var_os("UI_MESSAGES_FOLDER").unwrap());
    let count = std::env::var("UI_MESSAGES_CASES").map_or(300, |count| count.parse().unwrap());
    let mut runner = TestRunner::deterministic();
    let mut lines = String::new();
    for _ in 0..count {
        let run = run().new_tree(&mut runner).unwrap().current();
        for version in [6, 7] {
            let is_seven = version == 7;
            let events = |mut writer: UiMessages, updates: &[Update]| {
                let mut events: Vec<_> =
                    updates.iter().flat_map(|update| writer.write(update)).collect();
                events.extend(writer.write_end());
                events
            };
            let whole = events(UiMessages::new(is_seven), &run.updates);
            let continued: Vec<_> = run
                .waits
                .iter()
                .map(|(at, questions)| {
                    let ids = questions.iter().map(String::as_str);
                    let first = events(UiMessages::new(is_seven), &run.updates[..*at]);
                    let rest = events(UiMessages::after(is_seven, ids), &run.updates);
                    json!({ "questions": questions, "first": first, "rest": rest })
                })
                .collect();
            let case = json!({
                "version": version,
                "events": whole,
                "message": fold(&run.chunks(UiMessages::new(is_seven))),
                "messages": messages(&run.updates, false),
                "continued": continued,
            });
            lines.push_str(&case.to_string());
            lines.push('\n');
        }
    }
    std::fs::write(folder.join("cases.jsonl"), lines).unwrap();
}
