//! Runs as values: stored, resumed, driven by hand.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_module::budget::Spent;
use toolwright_module::message::{Reasoning, ReplyPart, ToolResult};
use toolwright_module::model::{Finish, Usage};
use toolwright_module::{Contract, Effect, Reply, Request, Signature, Tool, ToolCall, ToolOutput};
use toolwright_orchestrator::{
    Ending, Limits, Run, RunError, RunResult, RunState, Step, StepKind, StepResult, StepResultKind,
};

use crate::support::{call, calls, look, show, tidy};

/// Tell the state of the house.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Inspect {}

#[derive(Serialize, Deserialize, JsonSchema)]
struct House {
    /// Every room.
    rooms: Vec<String>,
    tidy: Option<bool>,
}

impl Signature for Inspect {
    type Output = House;
}

/// The replies of a run with every kind of part.
fn script(typed: bool) -> Vec<Reply> {
    let opaque = json!({"id": "rs_1", "encrypted_content": "…"});
    let thinking = ReplyPart::Reasoning(Reasoning::new("some-provider", "Hm.", opaque));
    let mixed = Reply::new([
        thinking,
        ReplyPart::text("Let me see."),
        ReplyPart::Call(call("1", "look", "a")),
        ReplyPart::Call(call("", "look", "b")),
        ReplyPart::Call(call("3", "tidy", "c")),
        ReplyPart::Call(call("4", "sweep", "d")),
        ReplyPart::Call(call("1", "look", "e")),
    ]);
    let mut script = vec![
        mixed.with_usage(Usage { cached_tokens: 3, ..Usage::new(10, 20) }),
        Reply::text(" "),
        calls([("5", "tidy", "f")]).with_finish(Finish::Length),
    ];
    if typed {
        script.push(Reply::text("It is tidy."));
        script.push(finish("6", r#"{"rooms": 3}"#));
        script.push(finish("7", r#"{"rooms": ["a"], "tidy": true}"#));
    } else {
        script.push(Reply::text("It is tidy."));
    }
    script
}

fn finish(id: &str, output: &str) -> Reply {
    Reply::calls([ToolCall::new(id, "finish", output)])
}

fn started(typed: bool) -> Run {
    let limits = Limits { max_iterations: 8, ..Limits::default() };
    let run = Run::new("Go.", &tools(), limits).unwrap().with_instructions("Be brief.");
    if !typed {
        return run;
    }
    run.with_output(Arc::new(Contract::of::<Inspect>().unwrap())).unwrap()
}

fn tools() -> [Tool; 2] {
    [look(), tidy()]
}

/// The steps that a driver saw, as text, and the result.
struct Played {
    steps: Vec<String>,
    requests: Vec<Request>,
    result: RunResult,
    stored: String,
}

/// Drives a run by hand. `between` may replace it by another before each step.
fn play(mut run: Run, script: Vec<Reply>, between: impl Fn(Run) -> Run) -> Played {
    let contract = Contract::of::<Inspect>().unwrap();
    let mut script = script.into_iter();
    let (mut steps, mut requests) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        run = between(run);
        let step = run.next();
        assert_eq!(run.next(), step, "asking again gives the same step");
        let number = step.number;
        let answer = match step.kind {
            StepKind::CallModel(request) => {
                steps.push(format!("{number} {}", serde_json::to_string(&request).unwrap()));
                requests.push(request);
                StepResult::model(number, script.next().expect("one more reply"))
            }
            StepKind::CallTools(calls) => {
                steps.push(format!("{number} {}", serde_json::to_string(&calls).unwrap()));
                // In reverse order, because results are paired by id.
                let results = calls.iter().rev().map(|call| ToolResult::new(call, "ok"));
                StepResult {
                    spent: Some(Spent::model_call(Usage::new(1, 1))),
                    ..StepResult::tools(number, results)
                }
            }
            StepKind::Done(result) => {
                steps.push(format!("{number} {}", serde_json::to_string(&result).unwrap()));
                let typed = requests[0].tools.len() == 3 && result.ending == Ending::Answered;
                match typed.then(|| contract.read_output::<House>(&result.answer)) {
                    Some(Err(fault)) => StepResult::rejected(number, fault.to_string()),
                    _ => {
                        let stored = serde_json::to_string(&run).unwrap();
                        return Played { steps, requests, result, stored };
                    }
                }
            }
            _ => unreachable!("a step of a kind that this test does not know"),
        };
        run.apply(StepResult { elapsed: std::time::Duration::from_millis(5), ..answer }).unwrap();
    }
    panic!("no end")
}

fn stored_and_resumed(run: Run) -> Run {
    let stored = serde_json::to_string(&run).unwrap();
    drop(run);
    let state: RunState = serde_json::from_str(&stored).unwrap();
    let resumed = Run::resume(state, &tools()).unwrap().run;
    assert_eq!(serde_json::to_string(&resumed).unwrap(), stored);
    resumed
}

#[test]
fn a_run_stored_at_every_step_makes_equal_requests() {
    for typed in [false, true] {
        let straight = play(started(typed), script(typed), |run| run);
        let resumed = play(started(typed), script(typed), stored_and_resumed);
        assert_eq!(resumed.steps, straight.steps);
        assert_eq!(resumed.result, straight.result);
        assert_eq!(resumed.stored, straight.stored);
        assert_eq!(straight.result.ending, Ending::Answered);
    }
}

#[test]
fn a_typed_run_continues_until_its_output_fits() {
    let played = play(started(true), script(true), |run| run);
    let state: RunState = serde_json::from_str(&played.stored).unwrap();
    let run = Run::resume(state, &tools()).unwrap().run;
    insta::assert_snapshot!(show(run.history()));
    assert_eq!(run.tools_used(), ["look", "tidy"]);
    assert_eq!(run.iterations(), 5);
    assert_eq!(run.spent().usage, Usage { cached_tokens: 3, ..Usage::new(13, 23) });
    assert_eq!(run.elapsed().as_millis() as usize, 5 * (played.steps.len() - 1));
}

#[test]
fn the_prompt_grows_only_at_its_end() {
    for typed in [false, true] {
        let requests = play(started(typed), script(typed), stored_and_resumed).requests;
        assert!(requests.len() >= 4);
        for pair in requests.windows(2) {
            let bytes = |request: &Request| serde_json::to_string(&request.messages).unwrap();
            let (before, after) = (bytes(&pair[0]), bytes(&pair[1]));
            let open_end = before.strip_suffix(']').unwrap();
            assert!(after.starts_with(&format!("{open_end},")), "{before}\n{after}");

            let tools = |request: &Request| serde_json::to_string(&request.tools).unwrap();
            assert_eq!(tools(&pair[0]), tools(&pair[1]));
            assert_eq!(pair[0].settings, pair[1].settings);
        }
    }
}

#[test]
fn instructions_have_no_effect_after_the_first_step() {
    let mut run = started(false);
    run.apply(StepResult::model(0, calls([("1", "look", "a")]))).unwrap();
    let before = run.history().to_vec();
    assert_eq!(run.with_instructions("Shout.").history(), before);
}

#[test]
fn setting_the_output_twice_offers_finish_once() {
    let output = || Arc::new(Contract::of::<Inspect>().unwrap());
    let run = started(true).with_output(output()).unwrap();
    let StepKind::CallModel(request) = run.next().kind else { panic!("no model call") };
    let names: Vec<&str> = request.tools.iter().map(|tool| tool.name()).collect();
    assert_eq!(names, ["look", "tidy", "finish"]);
}

/// Returns wrong answers to this step.
fn wrong_answers(step: &Step) -> Vec<StepResult> {
    let number = step.number;
    let result = |id: &str| ToolResult::new(&call(id, "look", "x"), "ok");
    let mut wrong = vec![
        StepResult::model(number + 1, Reply::text("early")),
        StepResult::tools(number + 1, []),
        StepResult::tools(number, [result("nobody")]),
        StepResult::tools(number, []),
    ];
    match &step.kind {
        StepKind::CallModel(_) => wrong.push(StepResult::rejected(number, "no")),
        StepKind::CallTools(calls) => {
            wrong.push(StepResult::model(number, Reply::text("no")));
            wrong.push(StepResult::rejected(number, "no"));
            let twice = calls.iter().map(|_| ToolResult::new(&calls[0], "ok"));
            if calls.len() > 1 {
                wrong.push(StepResult::tools(number, twice));
            }
            let more = calls.iter().chain(&calls[..1]);
            wrong.push(StepResult::tools(number, more.map(|call| ToolResult::new(call, "ok"))));
        }
        _ => wrong.push(StepResult::model(number, Reply::text("late"))),
    }
    if number > 0 {
        wrong.push(StepResult::model(number - 1, Reply::text("again")));
    }
    wrong
}

#[test]
fn a_wrong_answer_leaves_the_run_unchanged() {
    for typed in [false, true] {
        let check = |mut run: Run| {
            let before = serde_json::to_string(&run).unwrap();
            for answer in wrong_answers(&run.next()) {
                let refused = run.apply(StepResult {
                    spent: Some(Spent::model_call(Usage::new(7, 7))),
                    ..answer
                });
                assert!(refused.is_err());
                assert_eq!(serde_json::to_string(&run).unwrap(), before);
            }
            run
        };
        play(started(typed), script(typed), check);
    }
}

#[test]
fn the_error_of_a_wrong_answer_says_what_the_run_waits_for() {
    let mut run = started(false);
    let mut reported = Vec::new();
    let mut report =
        |run: &mut Run, answer| reported.push(run.apply(answer).unwrap_err().to_string());
    report(&mut run, StepResult::model(3, Reply::text("x")));
    report(&mut run, StepResult::tools(0, []));
    run.apply(StepResult::model(0, calls([("1", "look", "a")]))).unwrap();
    report(&mut run, StepResult::model(1, Reply::text("x")));
    report(&mut run, StepResult::tools(1, []));
    run.apply(StepResult::tools(1, [ToolResult::new(&call("1", "look", "a"), "ok")])).unwrap();
    run.apply(StepResult::model(2, Reply::text("done"))).unwrap();
    report(&mut run, StepResult::model(3, Reply::text("x")));
    insta::assert_snapshot!(reported.join("\n"), @r"
    the run waits for step 0, but the answer is for step 3; answer the step that `next` returns
    the answer does not fit: step 0 expects a model's reply
    the answer does not fit: step 1 expects the results of its calls
    the answer does not fit: step 1 expects results of its open calls, one for each and by id
    the answer does not fit: step 3 expects nothing: the run is done
    ");
}

#[test]
fn only_an_answer_can_be_rejected() {
    let mut run = started(true);
    let refusal = Reply::text("No.").with_finish(Finish::Refused);
    run.apply(StepResult::model(0, refusal)).unwrap();
    let error = run.apply(StepResult::rejected(1, "why?")).unwrap_err();
    assert!(matches!(error, RunError::WrongAnswer { step: 1, .. }));
}

#[test]
fn a_stored_run_of_another_version_is_rejected() {
    let mut stored = serde_json::to_value(started(false)).unwrap();
    stored["version"] = 2.into();
    // The rest is invalid too, but the error has to name the version.
    stored["phase"] = json!("approve");
    let error = serde_json::from_value::<RunState>(stored).unwrap_err();
    insta::assert_snapshot!(error, @"the stored run has version 2, and this program reads version 1; use the program of that version");
}

#[test]
fn an_inconsistent_stored_run_is_rejected() {
    let mut run = started(false);
    run.apply(StepResult::model(0, calls([("1", "look", "a"), ("2", "look", "b")]))).unwrap();
    let mut stored = serde_json::to_value(&run).unwrap();
    stored["phase"]["tools"]["results"].as_array_mut().unwrap().pop();
    let state: RunState = serde_json::from_value(stored).unwrap();
    let error = Run::resume(state, &tools()).unwrap_err();
    insta::assert_snapshot!(error, @"the stored run is inconsistent: the last reply and its results do not match; start it again");
}

/// Edits a stored run that waits for two calls, and resumes it.
fn resumed_after(edit: impl Fn(&mut Value)) -> std::result::Result<Run, RunError> {
    let mut run = started(false);
    run.apply(StepResult::model(0, calls([("1", "look", "a")]))).unwrap();
    run.apply(StepResult::tools(1, [ToolResult::new(&call("1", "look", "a"), "x")])).unwrap();
    run.apply(StepResult::model(2, calls([("2", "look", "b"), ("3", "look", "c")]))).unwrap();
    let mut stored = serde_json::to_value(&run).unwrap();
    edit(&mut stored);
    let resumed = Run::resume(serde_json::from_value(stored).unwrap(), &tools())?;
    Ok(resumed.run)
}

#[test]
fn a_stored_run_with_unpaired_calls_is_rejected() {
    assert!(resumed_after(|_| {}).is_ok());
    let edits: [fn(&mut Value); 5] = [
        |stored| stored["messages"] = json!([]),
        // A call without a result, and a result without a call.
        |stored| drop(stored["messages"].as_array_mut().unwrap().remove(3)),
        |stored| drop(stored["messages"].as_array_mut().unwrap().remove(2)),
        |stored| stored["messages"][4]["parts"][1]["call"]["id"] = json!("1"),
        |stored| {
            let other = json!({"id": "9", "name": "look", "text": "x"});
            stored["phase"]["tools"]["results"][0] = other;
        },
    ];
    for edit in edits {
        assert!(matches!(resumed_after(edit).unwrap_err(), RunError::Corrupt { .. }));
    }
}

#[test]
fn a_stored_run_that_waits_for_an_unknown_tool_is_rejected() {
    let error = resumed_after(|stored| {
        stored["messages"][4]["parts"][1]["call"]["name"] = json!("sweep");
    })
    .unwrap_err();
    insta::assert_snapshot!(error, @"the stored run is inconsistent: a call waits for a tool that does not exist; start it again");

    // A call that the run has answered itself does not wait.
    let mut run = started(false);
    run.apply(StepResult::model(0, calls([("1", "sweep", "a"), ("2", "look", "b")]))).unwrap();
    let state: RunState = serde_json::from_value(serde_json::to_value(&run).unwrap()).unwrap();
    assert_eq!(Run::resume(state, &tools()).unwrap().run.next(), run.next());
}

#[test]
fn the_largest_numbers_cause_no_panic() {
    let mut run = resumed_after(|stored| {
        stored["step"] = u64::MAX.into();
        stored["iterations"] = u32::MAX.into();
        stored["elapsed"] = json!({"secs": u64::MAX, "nanos": 999_999_999});
    })
    .unwrap();
    let results =
        [call("2", "look", "b"), call("3", "look", "c")].map(|call| ToolResult::new(&call, "x"));
    let answer =
        StepResult { elapsed: std::time::Duration::MAX, ..StepResult::tools(u64::MAX, results) };
    run.apply(answer).unwrap();
    assert_eq!(run.iterations(), u32::MAX);
}

#[test]
fn a_stored_run_with_duplicate_call_ids_is_rejected() {
    let mut run = started(false);
    run.apply(StepResult::model(0, calls([("1", "look", "a"), ("2", "look", "b")]))).unwrap();
    let stored = serde_json::to_string(&run).unwrap().replace(r#""id":"2""#, r#""id":"1""#);
    let state: RunState = serde_json::from_str(&stored).unwrap();
    assert!(matches!(Run::resume(state, &tools()).unwrap_err(), RunError::Corrupt { .. }));
}

#[test]
fn the_output_cannot_be_set_after_the_first_step() {
    let mut run = started(false);
    run.apply(StepResult::model(0, calls([("1", "look", "a")]))).unwrap();
    let contract = Arc::new(Contract::of::<Inspect>().unwrap());
    let error = run.with_output(contract).unwrap_err();
    insta::assert_snapshot!(error, @"the run is already at step 1; call `with_output` and `with_choosing` before the first step");
}

#[test]
fn step_results_can_be_stored() {
    let reply = calls([("1", "look", "a")]).with_usage(Usage::new(1, 2));
    let answers = [
        StepResult { elapsed: std::time::Duration::from_millis(7), ..StepResult::model(0, reply) },
        StepResult {
            spent: Some(Spent::model_call(Usage::new(3, 4))),
            ..StepResult::tools(1, [ToolResult::failed(&call("1", "look", "a"), "no")])
        },
        StepResult::rejected(2, "not a house"),
    ];
    for answer in answers {
        let text = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<StepResult>(&text).unwrap(), answer);
    }
    let bare: StepResult =
        serde_json::from_str(r#"{"step": 0, "kind": {"rejected": "no"}}"#).unwrap();
    assert!(matches!(bare.kind, StepResultKind::Rejected(why) if why == "no"));
}

/// The tools of the committed run. Their contracts are explicit, so that the file depends on the
/// stored format only.
fn tools_of_the_stored_run() -> Vec<Tool> {
    let place = json!({
        "type": "object",
        "properties": {"place": {"type": "string"}},
        "required": ["place"],
    });
    [("look", Effect::Read), ("tidy", Effect::Write)]
        .into_iter()
        .map(|(name, effect)| {
            let contract = Contract::dynamic(name, "Do it at a place.", place.clone(), None);
            let nothing = async |_, _| Ok(ToolOutput::text_only(""));
            Tool::dynamic(contract.unwrap(), effect, nothing)
        })
        .collect()
}

/// Makes the run in the committed file. A later version of the format gets a file of its own.
fn run_to_be_stored() -> Run {
    let output = json!({
        "type": "object",
        "properties": {"rooms": {"type": "array", "items": {"type": "string"}}},
        "required": ["rooms"],
    });
    let input = json!({"type": "object", "properties": {}});
    let inspect = Contract::dynamic("inspect", "Tell the state.", input, Some(output)).unwrap();
    let mut run = Run::new("Go.", &tools_of_the_stored_run(), Limits::default())
        .unwrap()
        .with_instructions("Be brief.")
        .with_output(Arc::new(inspect))
        .unwrap();
    let [mixed, ..] = &script(true)[..] else { panic!("no script") };
    let elapsed = std::time::Duration::from_millis(1250);
    run.apply(StepResult { elapsed, ..StepResult::model(0, mixed.clone()) }).unwrap();
    let StepKind::CallTools(calls) = run.next().kind else { panic!("no calls") };
    let results = calls.iter().map(|call| ToolResult::failed(call, "It is dark."));
    run.apply(StepResult {
        spent: Some(Spent::model_call(Usage::new(5, 6))),
        ..StepResult::tools(1, results)
    })
    .unwrap();
    run
}

#[test]
fn a_committed_run_can_be_resumed() {
    let state: RunState = serde_json::from_str(include_str!("stored/version-1.json")).unwrap();
    let mut run = Run::resume(state, &tools_of_the_stored_run()).unwrap().run;
    let same = run_to_be_stored();
    assert_eq!(run.next(), same.next());
    assert_eq!(run.history(), same.history());
    assert_eq!((run.spent().usage, run.elapsed()), (same.spent().usage, same.elapsed()));

    // The write waits alone, and the read follows it.
    for (step, id) in [(2, "3"), (3, "call_0_6")] {
        let StepKind::CallTools(calls) = run.next().kind else { panic!("no calls") };
        assert_eq!(calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), [id]);
        run.apply(StepResult::tools(step, [ToolResult::new(&calls[0], "ok")])).unwrap();
    }
    run.apply(StepResult::model(4, finish("9", r#"{"rooms": []}"#))).unwrap();
    assert!(matches!(run.next().kind, StepKind::Done(result) if result.ending == Ending::Answered));
}

#[test]
fn the_stored_form_is_that_of_version_1() {
    let committed: Value = serde_json::from_str(include_str!("stored/version-1.json")).unwrap();
    assert_eq!(serde_json::to_value(run_to_be_stored()).unwrap(), committed);
}

#[test]
fn ids_of_refused_calls_can_be_reused() {
    let refused = calls([("1", "look", "a")]).with_finish(Finish::Refused);
    let mut run = Run::new("Go.", &tools(), Limits::default()).unwrap();
    run.apply(StepResult::model(0, refused)).unwrap();
    run.follow_up("Please.").unwrap();
    let state: RunState = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    let mut resumed = Run::resume(state, &tools()).unwrap().run;
    for run in [&mut run, &mut resumed] {
        run.apply(StepResult::model(2, calls([("1", "look", "a")]))).unwrap();
    }
    assert_eq!(resumed.next(), run.next());
    let StepKind::CallTools(calls) = run.next().kind else { panic!() };
    assert_eq!(calls[0].id, "1");
}
