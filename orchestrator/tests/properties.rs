//! Properties of every run, with any model and any tools.

use std::collections::HashSet;
use std::sync::Arc;

use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::budget::Spent;
use toolwright_module::message::{Reasoning, ReplyPart, ToolResult};
use toolwright_module::model::{Finish, Usage};
use toolwright_module::{Contract, Message, Reply, Signature, ToolCall};
use toolwright_orchestrator::{Ending, Limits, Run, RunState, StepKind, StepResult};

use crate::support::{look, tidy};

/// Count the rooms.
#[derive(Serialize, Deserialize, JsonSchema)]
struct CountRooms {}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Rooms {
    rooms: u8,
}

impl Signature for CountRooms {
    type Output = Rooms;
}

fn part() -> impl Strategy<Value = ReplyPart> {
    let text = prop::sample::select(vec!["", " ", "Hm.", "Done."]);
    let id = prop::sample::select(vec!["", "a", "b", "call_0_0", "call_0_1", "call_2_1"]);
    let name = prop::sample::select(vec!["look", "look", "tidy", "sweep", "finish", ""]);
    let arguments =
        prop::sample::select(vec!["", "{}", r#"{"place""#, r#"{"rooms": 3}"#, r#"{"rooms": "x"}"#]);
    prop_oneof![
        1 => text.prop_map(|text| ReplyPart::text(text.to_owned())),
        1 => Just(ReplyPart::Reasoning(Reasoning::new("p", "", serde_json::json!(1)))),
        4 => (id, name, arguments)
            .prop_map(|(id, name, arguments)| ReplyPart::Call(ToolCall::new(id, name, arguments))),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    let finish = prop_oneof![
        8 => Just(Finish::Stop),
        2 => Just(Finish::Length),
        1 => Just(Finish::Refused),
        1 => Just(Finish::Other("odd".to_owned())),
    ];
    (prop::collection::vec(part(), 0..5), finish)
        .prop_map(|(parts, finish)| Reply::new(parts).with_finish(finish))
}

/// Returns the calls without results. All other calls must have exactly one result, right after
/// their message and in order.
fn open_calls(history: &[Arc<Message>]) -> Vec<String> {
    let mut ids = HashSet::new();
    let mut open: Vec<String> = Vec::new();
    for message in history {
        match &**message {
            Message::Tool(result) => {
                assert!(!open.is_empty(), "a result without its call: {}", result.id);
                assert_eq!(open.remove(0), result.id);
            }
            other => {
                assert!(open.is_empty(), "without results: {open:?}");
                if let Message::Assistant { parts } = other {
                    assert!(!parts.is_empty());
                    open.extend(parts.iter().filter_map(|part| match part {
                        ReplyPart::Call(call) => Some(call.id.clone()),
                        _ => None,
                    }));
                    assert!(open.iter().all(|id| !id.is_empty() && ids.insert(id.clone())));
                }
            }
        }
    }
    open
}

fn play(typed: bool, limit: u32, script: Vec<Reply>, fails: Vec<bool>, reversed: bool) {
    let tools = [look(), tidy()];
    let contract = Arc::new(Contract::of::<CountRooms>().unwrap());
    let limits = Limits { max_iterations: limit, ..Limits::default() };
    let mut run = Run::new("Go.", &tools, limits).unwrap();
    if typed {
        run = run.with_output(Arc::clone(&contract)).unwrap();
    }
    let (mut script, mut fails) = (script.into_iter(), fails.into_iter().cycle());
    let mut before: Vec<Arc<Message>> = Vec::new();
    for number in 0.. {
        assert!(number < 200, "no end");
        let state: RunState = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
        let resumed = Run::resume(state, &tools).unwrap().run;
        assert_eq!(resumed.next(), run.next());

        assert!(run.history().starts_with(&before), "the prompt grows only at its end");
        before = run.history().to_vec();
        let open = open_calls(run.history());
        assert!(run.iterations() <= limit.max(1));

        let step = run.next();
        assert_eq!(step.number, number);
        let answer = match step.kind {
            StepKind::CallModel(request) => {
                assert!(open.is_empty(), "the model is asked with {open:?} open");
                assert_eq!(request.messages, run.history());
                StepResult::model(number, script.next().unwrap_or_else(|| Reply::text("Enough.")))
            }
            StepKind::CallTools(calls) => {
                assert!(!calls.is_empty() && calls.iter().all(|call| open.contains(&call.id)));
                let alone = calls.iter().all(|call| call.name == "look") || calls.len() == 1;
                assert!(alone, "side by side: {calls:?}");
                let mut results: Vec<ToolResult> = calls
                    .iter()
                    .map(|call| match fails.next() {
                        Some(true) => ToolResult::failed(call, "no"),
                        _ => ToolResult::new(call, "ok"),
                    })
                    .collect();
                if reversed {
                    results.reverse();
                }
                StepResult {
                    spent: Some(Spent::model_call(Usage::new(1, 1))),
                    ..StepResult::tools(number, results)
                }
            }
            StepKind::Done(result) => {
                let accepted = typed && result.ending == Ending::Answered;
                let read = accepted.then(|| contract.read_output::<Rooms>(&result.answer));
                match read {
                    Some(Err(fault)) => {
                        assert!(!open.is_empty(), "the rejected `finish`");
                        StepResult::rejected(number, fault.to_string())
                    }
                    Some(Ok(_)) => return assert!(!open.is_empty(), "the accepted `finish`"),
                    None => return assert!(open.is_empty()),
                }
            }
            _ => unreachable!("a step of a kind that this test does not know"),
        };
        run.apply(answer).unwrap();
    }
}

proptest! {
    #[test]
    fn every_call_is_answered_once_and_in_order_and_every_run_ends(
        typed: bool,
        limit in 0u32..6,
        script in prop::collection::vec(reply(), 0..12),
        fails in prop::collection::vec(any::<bool>(), 1..5),
        reversed: bool,
    ) {
        play(typed, limit, script, fails, reversed);
    }
}
