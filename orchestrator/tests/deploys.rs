//! Runs that are resumed after a deploy, with tools or an output that changed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_module::approval::Decision;
use toolwright_module::message::ToolResult;
use toolwright_module::{Contract, Effect, Message, Reply, Signature, Tool, ToolCall, ToolOutput};
use toolwright_orchestrator::{
    ApprovalPolicy, Change, Limits, Resumed, Run, RunError, RunState, StepKind, StepResult, ToolSet,
};

use crate::support::{Look, agent, call, calls, look, react, replies, show, soon, tidy, tool};

/// Returns a tool named `look` with this schema.
fn looks(properties: Value, required: Value) -> Tool {
    let input = json!({"type": "object", "properties": properties, "required": required});
    let contract = Contract::dynamic("look", look().contract().description(), input, None);
    Tool::dynamic(contract.unwrap(), Effect::Read, async |text, _| Ok(ToolOutput::text_only(text)))
}

fn place() -> Value {
    json!({"type": "string", "description": "Where to look."})
}

/// Returns a stored run with an open call of `look` after one of `tidy`.
fn stored() -> String {
    let mut run = Run::new("Go.", &[look(), tidy()], Limits::default()).unwrap();
    run.apply(StepResult::model(0, calls([("1", "tidy", "a"), ("2", "look", "b")]))).unwrap();
    let done = ToolResult::new(&call("1", "tidy", "a"), "ok");
    run.apply(StepResult::tools(1, [done])).unwrap();
    serde_json::to_string(&run).unwrap()
}

fn state(stored: &str) -> RunState {
    serde_json::from_str(stored).unwrap()
}

fn tool_set() -> ToolSet {
    let stored = serde_json::to_string(&ToolSet::of(&[look(), tidy()]).unwrap()).unwrap();
    serde_json::from_str(&stored).unwrap()
}

fn report(resumed: Result<Resumed, RunError>) -> String {
    match resumed {
        Err(error) => format!("error: {error}"),
        Ok(resumed) => {
            assert!(matches!(resumed.run.next().kind, StepKind::CallTools(_)));
            let changes: Vec<String> = resumed.changes.iter().map(ToString::to_string).collect();
            if changes.is_empty() { "the same".to_owned() } else { changes.join(" | ") }
        }
    }
}

/// Each with a name, and the tools after the deploy.
fn deploys() -> Vec<(&'static str, Vec<Tool>)> {
    let sweep = || tidy().named("sweep").unwrap();
    let code = tool("look", Effect::Read, async |_: Look| Ok("rewritten".to_owned()));
    let with_light = json!({"place": place(), "light": {"type": "boolean"}});
    vec![
        ("same", vec![look(), tidy()]),
        ("other order", vec![tidy(), look()]),
        ("other code", vec![code, tidy()]),
        ("reworded", vec![look().described("Look again."), tidy()]),
        ("added", vec![look(), tidy(), sweep()]),
        ("removed, not needed", vec![look()]),
        ("effect", vec![look(), tidy().with_effect(Effect::Irreversible)]),
        ("effect and texts", vec![look(), tidy().with_effect(Effect::Read).described("Tidy.")]),
        ("optional field", vec![looks(with_light.clone(), json!(["place"])), tidy()]),
        ("required field", vec![looks(with_light, json!(["place", "light"])), tidy()]),
        (
            "a bound that the open call keeps",
            vec![
                looks(json!({"place": {"type": "string", "maxLength": 3}}), json!(["place"])),
                tidy(),
            ],
        ),
        ("removed, needed", vec![tidy(), sweep()]),
        ("twice", vec![look(), tidy(), look()]),
    ]
}

#[test]
fn a_deploy_is_compared_by_contracts_and_refused_only_for_open_calls() {
    let (stored, set) = (stored(), tool_set());
    let mut reported = String::new();
    for (what, tools) in deploys() {
        let known = Run::resume(state(&stored).with_tool_set(set.clone()), &tools);
        let unknown = Run::resume(state(&stored), &tools);
        reported +=
            &format!("{what}: {}\n  without contracts: {}\n", report(known), report(unknown));
    }
    insta::assert_snapshot!(reported, @r"
    same: the same
      without contracts: the same
    other order: the same
      without contracts: the same
    other code: the same
      without contracts: the same
    reworded: `look`: changed, and still fits
      without contracts: the tools changed
    added: `sweep`: added
      without contracts: the tools changed
    removed, not needed: `tidy`: removed
      without contracts: the tools changed
    effect: `tidy`: the effect was Write and is Irreversible
      without contracts: the tools changed
    effect and texts: `tidy`: the effect was Write and is Read | `tidy`: changed, and still fits
      without contracts: the tools changed
    optional field: `look`: changed, and still fits
      without contracts: the tools changed
    required field: error: the open call `2` of the stored run no longer fits the tool `look`; change it with `RunState::with_open_calls`, or start a run with its history: input of `look` does not fit: $.light: this field is missing; expected true or false
      without contracts: error: the open call `2` of the stored run no longer fits the tool `look`; change it with `RunState::with_open_calls`, or start a run with its history: input of `look` does not fit: $.light: this field is missing; expected true or false
    a bound that the open call keeps: `look`: input $.place: before: may have any number of characters; now: takes at most 3
      without contracts: the tools changed
    removed, needed: error: the stored run has the open call `2` of the tool `look`, which does not exist; rename it with `RunState::with_renamed`, or start a run with its history; the tools are: tidy, sweep
      without contracts: error: the stored run has the open call `2` of the tool `look`, which does not exist; rename it with `RunState::with_renamed`, or start a run with its history; the tools are: tidy, sweep
    twice: error: two tools have the name `look`; rename one with `Tool::named`
      without contracts: error: two tools have the name `look`; rename one with `Tool::named`
    ");
}

#[test]
fn a_resumed_run_asks_with_the_current_tools() {
    let (agent, _) = agent([look().described("Look again."), tidy()], []);
    let mut run = agent.resume(state(&stored()).with_tool_set(tool_set())).unwrap().run;
    run.apply(StepResult::tools(2, [ToolResult::new(&call("2", "look", "b"), "ok")])).unwrap();
    let StepKind::CallModel(request) = run.next().kind else { panic!() };
    assert_eq!(request.tools[0].description(), "Look again.");
    // The next deploy compares with these tools.
    let again = state(&serde_json::to_string(&run).unwrap());
    assert_eq!(again.tool_set_hash(), agent.tool_set().hash());
    assert!(agent.resume(again).unwrap().changes.is_empty());
}

#[test]
fn a_mistake_of_the_model_does_not_keep_a_run_from_being_resumed() {
    let mut run = Run::new("Go.", &[look(), tidy()], Limits::default()).unwrap();
    let wrong = ToolCall::new("1", "look", r#"{"room": 1}"#);
    run.apply(StepResult::model(0, Reply::calls([wrong]))).unwrap();
    let stored = serde_json::to_string(&run).unwrap();
    let other = || looks(json!({"area": place()}), json!(["area"]));
    let known = state(&stored).with_tool_set(tool_set());
    assert!(matches!(
        Run::resume(known, &[other(), tidy()]).unwrap().changes[..],
        [Change::Schema { .. }]
    ));
    let error = Run::resume(state(&stored), &[other(), tidy()]).unwrap_err();
    assert!(matches!(error, RunError::OpenCall { id, tool, .. } if id == "1" && tool == "look"));
}

#[test]
fn a_tool_set_of_other_tools_is_refused() {
    let other = ToolSet::of(&[look()]).unwrap();
    let error = Run::resume(state(&stored()).with_tool_set(other), &[tidy()]).unwrap_err();
    insta::assert_snapshot!(error, @"the tool set is not that of the stored run; give it the one with the hash of `RunState::tool_set_hash`");
    assert!(matches!(ToolSet::of(&[look(), look()]), Err(RunError::DuplicateTool { .. })));
}

#[test]
fn a_renamed_tool_keeps_its_open_calls_and_their_decisions() {
    let peek = || look().named("peek").unwrap();
    let resumed = Run::resume(state(&stored()).with_renamed("look", "peek"), &[peek(), tidy()]);
    let StepKind::CallTools(calls) = resumed.unwrap().run.next().kind else { panic!() };
    assert_eq!(calls, [call("2", "peek", "b")]);

    let policy = ApprovalPolicy::default().with_tool("look");
    let run = || Run::new("Go.", &[look(), tidy()], Limits::default()).unwrap();
    let mut run = run().with_approval(policy).unwrap();
    run.apply(StepResult::model(0, crate::support::calls([("1", "look", "a")]))).unwrap();
    let waiting = serde_json::to_string(&run).unwrap();
    run.apply(StepResult::decisions(1, [("1", Decision::Approve)])).unwrap();
    let approved = serde_json::to_string(&run).unwrap();

    let renamed = state(&approved).with_renamed("look", "peek");
    let resumed = Run::resume(renamed, &[peek(), tidy()]).unwrap();
    assert!(matches!(resumed.run.next().kind, StepKind::CallTools(_)));
    let renamed = state(&waiting).with_renamed("look", "peek");
    let resumed = Run::resume(renamed, &[peek(), tidy()]).unwrap();
    assert!(
        matches!(resumed.run.next().kind, StepKind::AwaitApproval(calls) if calls[0].name == "peek")
    );

    // An approval does not hold for other arguments.
    let changed = state(&approved).with_open_calls(|call| {
        call.arguments = r#"{"place": "z"}"#.to_owned();
        call.id = "other".to_owned();
    });
    let resumed = Run::resume(changed, &[look(), tidy()]).unwrap();
    assert!(
        matches!(resumed.run.next().kind, StepKind::AwaitApproval(calls) if calls[0].id == "1")
    );
}

#[test]
fn arguments_of_an_open_call_can_be_mapped() {
    let tools = [looks(json!({"area": place()}), json!(["area"])), tidy()];
    let known = || state(&stored()).with_tool_set(tool_set());
    assert!(matches!(Run::resume(known(), &tools).unwrap_err(), RunError::OpenCall { .. }));
    let mapped = known().with_open_calls(|call| call.arguments = r#"{"area": "b"}"#.to_owned());
    assert!(matches!(Run::resume(mapped, &tools).unwrap().changes[..], [Change::Schema { .. }]));
}

#[tokio::test]
async fn a_run_that_cannot_be_resumed_continues_as_a_history() {
    let old = state(&stored());
    let (agent, _) = agent([tidy()], [Reply::text("ok")]);
    assert!(matches!(agent.resume(old.clone()).unwrap_err(), RunError::OpenCallTool { .. }));
    let task = toolwright_orchestrator::Task::new("Go on.").with_history(old.history());
    let finished = agent.run(task, &soon()).await.unwrap();
    insta::assert_snapshot!(show(&finished.history), @r#"
    user: Go.
    assistant: 1 tidy({"place":"a"}) | 2 look({"place":"b"})
    tool 1: ok
    tool 2 failed: The call was interrupted. Whether it took effect is not known.
    user: Go on.
    assistant: ok
    "#);
}

#[tokio::test]
async fn an_agent_drives_only_runs_with_its_own_tools() {
    let (before, _) = agent([look(), tidy()], []);
    for tools in [vec![look()], vec![look(), tidy(), tidy().named("sweep").unwrap()]] {
        let (now, asked) = agent(tools, []);
        let error = now.drive(&mut before.start("Go.").unwrap(), &soon()).await.unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(RunError::OtherTools { .. })), "{error}");
        assert!(asked.requests().is_empty());
    }
    // The order does not matter.
    let (now, _) = agent([tidy(), look()], [Reply::text("ok")]);
    now.drive(&mut before.start("Go.").unwrap(), &soon()).await.unwrap();
}

/// Count the rooms.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CountRooms")]
struct CountBefore {}

#[derive(Serialize, Deserialize, JsonSchema)]
struct RoomsBefore {
    rooms: u8,
}

impl Signature for CountBefore {
    type Output = RoomsBefore;
}

/// Count the rooms.
#[derive(Serialize, Deserialize, JsonSchema)]
struct CountRooms {}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Rooms {
    rooms: u8,
    floors: u8,
}

impl Signature for CountRooms {
    type Output = Rooms;
}

#[tokio::test]
async fn a_typed_run_is_resumed_with_the_current_output() {
    let finish = |id, output| Reply::calls([ToolCall::new(id, "finish", output)]);
    let (model, _) = replies([finish("1", r#"{"rooms": 3}"#)]);
    let before = react::<CountBefore>(model, [look()]).unwrap();
    let mut run = before.agent().start(before.task(&CountBefore {}).unwrap()).unwrap();
    before.agent().drive(&mut run, &soon()).await.unwrap();
    let stored = serde_json::to_string(&run).unwrap();

    // The answer does not fit the current output, so the model is asked again.
    let (model, asked) = replies([finish("2", r#"{"rooms": 3, "floors": 1}"#)]);
    let now = react::<CountRooms>(model, [look()]).unwrap();
    let now = now.agent();
    let Resumed { mut run, changes, .. } = now.resume(state(&stored)).unwrap();
    insta::assert_snapshot!(changes[0], @"the output: output $.floors: before: has no such field; now: is required");
    let finished = now.drive(&mut run, &soon()).await.unwrap();
    assert_eq!(finished.answer, Rooms { rooms: 3, floors: 1 });
    let request = &asked.requests()[0];
    insta::assert_snapshot!(show(&request.messages[2..]), @r#"
    assistant: 1 finish({"rooms": 3})
    tool 1 failed: output of `count_rooms` does not fit: $.floors: this field is missing; expected an integer from 0 to 255. Call `finish` again.
    "#);
    assert!(request.tools[1].input()["properties"]["floors"].is_object());

    let same = serde_json::to_string(&run).unwrap();
    assert!(now.resume(state(&same)).unwrap().changes.is_empty());
    let untyped = Run::new("Go.", &[look()], Limits::default()).unwrap();
    let untyped = state(&serde_json::to_string(&untyped).unwrap());
    assert!(matches!(now.resume(untyped).unwrap_err(), RunError::OtherOutput { .. }));
}

#[test]
fn resumed_runs_share_the_tools_of_their_agent() {
    let tools = (0..300).map(|n| look().named(&format!("look_{n}")).unwrap());
    let (agent, _) = agent(tools, []);
    let stored = serde_json::to_string(&agent.start("Go.").unwrap()).unwrap();
    assert!(stored.len() < 1000, "{stored}");
    let contracts = |run: &Run| match run.next().kind {
        StepKind::CallModel(request) => request.tools,
        other => panic!("{other:?}"),
    };
    let [one, other] = [(); 2].map(|()| agent.resume(state(&stored)).unwrap().run);
    assert!(std::sync::Arc::ptr_eq(&contracts(&one), &contracts(&other)));
}

#[test]
fn a_mapped_call_that_was_begun_is_still_asked_about() {
    let pay = || tool("pay", Effect::Irreversible, async |_: Look| Ok("Paid.".to_owned()));
    let policy = ApprovalPolicy::from_effect(Effect::Irreversible);
    let mut run = Run::new("Pay.", &[pay()], Limits::default()).unwrap();
    run = run.with_approval(policy).unwrap();
    run.apply(StepResult::model(0, calls([("p", "pay", "5 euros")]))).unwrap();
    run.apply(StepResult::decisions(1, [("p", Decision::Approve)])).unwrap();
    // An interrupted drive leaves this mark.
    let mut stored = serde_json::to_value(&run).unwrap();
    stored["phase"]["tools"]["begun"] = json!("irreversible");
    let state: RunState = serde_json::from_value(stored).unwrap();
    let mapped = state.with_open_calls(|call| call.arguments = r#"{"place": "5 EUR"}"#.to_owned());
    let mut run = Run::resume(mapped, &[pay()]).unwrap().run;
    assert_eq!(run.unknown_outcome(), Some("p"));
    let step = run.next().number;
    assert!(run.apply(StepResult::decisions(step, [("p", Decision::Approve)])).is_err());
    run.apply(StepResult::decisions(step, [("p", Decision::CallAgain)])).unwrap();
    assert!(matches!(run.next().kind, StepKind::CallTools(_)));
}

#[test]
fn a_tool_that_is_renamed_to_a_known_one_keeps_the_stricter_limit_and_both_counts() {
    let limits = Limits::default().with_tool("look", 2).with_tool("see", 3);
    let see = || look().named("see").unwrap();
    let mut run = Run::new("Go.", &[look(), see()], limits).unwrap();
    let said = calls([("a", "look", "x"), ("b", "see", "y")]);
    run.apply(StepResult::model(0, said)).unwrap();
    let result = |id: &str, name: &str| ToolResult::new(&call(id, name, ""), "empty");
    run.apply(StepResult::tools(1, [result("a", "look"), result("b", "see")])).unwrap();
    let state: RunState = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    let state = state.with_renamed("look", "see");
    let mut run = Run::resume(state, &[see()]).unwrap().run;
    assert_eq!(run.limits().tools["see"], 2);
    run.apply(StepResult::model(2, calls([("c", "see", "z")]))).unwrap();
    let Message::Tool(result) = &**run.history().last().unwrap() else { panic!() };
    assert_eq!(
        result.text,
        "The call was not made: `see` may be called at most 2 times in this run."
    );
}
