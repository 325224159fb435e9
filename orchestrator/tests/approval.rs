//! Calls that wait for a person.

use serde_json::{Value, json};
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::event::EventKind;
use toolwright_module::message::ToolResult;
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Effect, Reply, Tool, ToolCall};
use toolwright_orchestrator::{
    Agent, ApprovalPolicy, AwaitsApproval, Ending, Run, RunState, StepKind, StepResult,
};

use crate::support::{Asked, Log, Look, agent, call, calls, look, replies, show, soon, tool};

/// A tool with an irreversible effect, which writes to the log.
fn burn(log: &Log) -> Tool {
    let log = log.clone();
    tool("burn", Effect::Irreversible, move |look: Look| {
        let log = log.clone();
        async move {
            log.write(look.place.clone());
            Ok(format!("{} is ash", look.place))
        }
    })
}

fn careful(log: &Log, said: impl IntoIterator<Item = Reply>) -> (Agent, Asked) {
    let (agent, asked) = agent([look(), burn(log)], said);
    (agent.with_approval(ApprovalPolicy::from_effect(Effect::Irreversible)).unwrap(), asked)
}

fn turn() -> Reply {
    calls([("1", "look", "a"), ("2", "burn", "b"), ("3", "look", "c"), ("4", "burn", "d")])
}

#[tokio::test]
async fn without_an_approver_no_call_of_the_turn_is_made() {
    let log = Log::default();
    let (agent, _) = careful(&log, [turn(), Reply::text("ok")]);
    let mut run = agent.start("Go.").unwrap();
    let error = agent.drive(&mut run, &soon()).await.unwrap_err();
    assert_eq!((error.stage(), error.audience()), (Stage::Approval, Audience::Run));
    insta::assert_snapshot!(error, @"`burn` waits for a person's approval; record the decision with `decide` of the journal or database that has the run, or with `StepResult::decisions` in a run of your own, or give the context an approver; then drive the run again");
    let awaits: &AwaitsApproval = error.downcast_ref().unwrap();
    assert_eq!(awaits.calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["2", "4"]);
    assert!(log.entries().is_empty());
    // A second drive waits again, and costs nothing.
    assert_eq!(agent.drive(&mut run, &soon()).await.unwrap_err().stage(), Stage::Approval);
    assert_eq!(run.spent().model_calls, 1);
}

#[tokio::test]
async fn a_waiting_run_can_be_decided_and_continued_in_another_process() {
    let log = Log::default();
    let (agent, asked) = careful(&log, [turn(), Reply::text("ok")]);
    let mut run = agent.start("Go.").unwrap();
    agent.drive(&mut run, &soon()).await.unwrap_err();

    let stored = serde_json::to_string(&run).unwrap();
    let state: RunState = serde_json::from_str(&stored).unwrap();
    let mut run = Run::resume(state, agent.tools()).unwrap().run;
    assert_eq!(serde_json::to_string(&run).unwrap(), stored);
    let decisions = [
        ("2", Decision::Edit { arguments: r#"{"place": "paper"}"#.to_owned() }),
        ("4", Decision::deny("It is mine.")),
    ];
    run.apply(StepResult::decisions(run.next().number, decisions)).unwrap();
    // The person's arguments are stored too.
    let state = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    let mut run = Run::resume(state, agent.tools()).unwrap().run;
    let finished = agent.drive(&mut run, &soon()).await.unwrap();
    assert_eq!(finished.ending, Ending::Answered);
    assert_eq!(log.entries(), ["paper"]);
    insta::assert_snapshot!(show(&finished.history), @r#"
    user: Go.
    assistant: 1 look({"place":"a"}) | 2 burn({"place":"b"}) | 3 look({"place":"c"}) | 4 burn({"place":"d"})
    tool 1: a is empty
    tool 2: [A person changed the arguments to {"place": "paper"}]
    paper is ash
    tool 3: c is empty
    tool 4 failed: The call was not allowed: It is mine.
    assistant: ok
    "#);
    assert_eq!(asked.requests().len(), 2);
}

#[tokio::test]
async fn the_approver_gets_each_call_and_decisions_are_events() {
    let (log, asked, heard) = (Log::default(), Log::default(), Log::default());
    let (agent, _) = careful(&log, [turn(), Reply::text("ok")]);
    let (wrote, reported) = (asked.clone(), heard.clone());
    let cx = soon()
        .with_approver(move |approval: Approval| {
            wrote.write(format!("{} {:?}", approval.call.id, approval.effect));
            async move {
                Ok(match approval.call.id.as_str() {
                    "2" => Decision::Approve,
                    _ => Decision::deny("No."),
                })
            }
        })
        .with_events(move |event| match &event.kind {
            EventKind::ApprovalAwaited { calls, .. } => {
                reported.write(format!("{} wait", calls.len()))
            }
            EventKind::Decided { id, decision } => reported.write(format!("{id}: {decision:?}")),
            EventKind::ToolFinished { call, error, .. } => {
                reported.write(format!("{} {error:?}", call.id));
            }
            _ => {}
        });
    agent.run("Go.", &cx).await.unwrap();
    assert_eq!(log.entries(), ["b"]);
    assert_eq!(asked.entries(), ["2 Irreversible", "4 Irreversible"]);
    insta::assert_snapshot!(heard.entries().join("\n"), @r#"
    2 wait
    2: Approve
    4: Deny { reason: "No." }
    1 None
    2 None
    3 None
    "#);
}

#[test]
fn a_policy_with_an_unknown_tool_is_rejected() {
    let policy = || ApprovalPolicy::default().with_tool("burm");
    let tools = [look(), burn(&Log::default())];
    let run = Run::new("Go.", &tools, Default::default()).unwrap();
    let reported = run.with_approval(policy()).unwrap_err().to_string();
    insta::assert_snapshot!(reported, @"the approval policy names the tool `burm`, which does not exist; the tools are: look, burn");
    let agent = Agent::new(Scripted::replies([]), tools).unwrap();
    assert_eq!(agent.with_approval(policy()).unwrap_err().to_string(), reported);
    let agent = Agent::new(Scripted::replies([]), []).unwrap();
    insta::assert_snapshot!(agent.with_approval(policy()).unwrap_err(), @"the approval policy names the tool `burm`, which does not exist; there are no tools");
}

#[test]
fn each_call_needs_one_decision_with_valid_arguments() {
    let tools = [look(), burn(&Log::default())];
    let policy = ApprovalPolicy::default().with_tool("burn");
    let mut run =
        Run::new("Go.", &tools, Default::default()).unwrap().with_approval(policy).unwrap();
    run.apply(StepResult::model(0, turn())).unwrap();
    let StepKind::AwaitApproval(calls) = run.next().kind else { panic!("nobody is asked") };
    assert_eq!(calls.len(), 2);
    let before = serde_json::to_string(&run).unwrap();
    let yes = || Decision::Approve;
    let wrong = [
        StepResult::decisions(1, [("2", yes())]),
        StepResult::decisions(1, [("2", yes()), ("2", yes())]),
        StepResult::decisions(1, [("2", yes()), ("3", yes())]),
        StepResult::decisions(1, [("2", yes()), ("4", yes()), ("3", yes())]),
        StepResult::decisions(
            1,
            [("2", yes()), ("4", Decision::Edit { arguments: "{}".to_owned() })],
        ),
        StepResult::decisions(
            1,
            [("2", Decision::Edit { arguments: "burn it".to_owned() }), ("4", yes())],
        ),
        StepResult::model(1, Reply::text("ok")),
        StepResult::tools(1, []),
    ];
    let mut reported = Vec::new();
    for answer in wrong {
        reported.push(run.apply(answer).unwrap_err().to_string());
        assert_eq!(serde_json::to_string(&run).unwrap(), before);
    }
    insta::assert_snapshot!(reported.join("\n"));
    run.apply(StepResult::decisions(1, [("4", yes()), ("2", yes())])).unwrap();
    assert!(matches!(run.next().kind, StepKind::CallTools(calls) if calls.len() == 1));
}

#[tokio::test]
async fn calls_that_cannot_be_made_need_no_approval() {
    let log = Log::default();
    let cut = Reply::calls([ToolCall::new("1", "burn", r#"{"pla"#)])
        .with_finish(toolwright_module::model::Finish::Length);
    let (agent, _) = careful(&log, [cut, Reply::text("ok")]);
    assert_eq!(agent.run("Go.", &soon()).await.unwrap().answer, "ok");
}

fn above(log: &Log) -> Agent {
    let (below, _) = careful(log, [calls([("1", "burn", "b")]), Reply::text("done")]);
    let helper = Tool::new(below).unwrap().named("helper").unwrap();
    let ask = Reply::calls([ToolCall::new("h", "helper", r#"{"task": "Go."}"#)]);
    Agent::new(replies([ask, Reply::text("ok")]).0, [helper]).unwrap()
}

#[tokio::test]
async fn an_agent_below_asks_the_approver_or_stops_the_whole_run() {
    let log = Log::default();
    let error = above(&log).run("Go.", &soon()).await.unwrap_err();
    assert_eq!((error.stage(), error.audience()), (Stage::Approval, Audience::Run));
    insta::assert_snapshot!(error, @"`helper > burn` waits for a person's approval; record the decision with `decide` of the journal or database that has the run, or give the context an approver (`Context::with_approver`); then drive the run again");

    let asked = Log::default();
    let wrote = asked.clone();
    let cx = soon().with_approver(move |approval: Approval| {
        let path: Vec<&str> = approval.path.iter().map(|call| call.tool.as_str()).collect();
        wrote.write(format!("{} > {}", path.join(" > "), approval.call.name));
        async { Ok(Decision::Approve) }
    });
    assert_eq!(above(&log).run("Go.", &cx).await.unwrap().answer, "ok");
    assert_eq!(
        (asked.entries(), log.entries()),
        (vec!["helper > burn".to_owned()], vec!["b".to_owned()])
    );
}

#[tokio::test]
async fn a_failing_or_hanging_approver_ends_the_drive_only() {
    let log = Log::default();
    let (agent, _) = careful(&log, [turn(), Reply::text("ok")]);
    let mut run = agent.start("Go.").unwrap();
    let failing = soon().with_approver(|_| async {
        Err::<Decision, _>(toolwright_module::Error::other("the terminal is closed"))
    });
    let error = agent.drive(&mut run, &failing).await.unwrap_err();
    insta::assert_snapshot!(error, @"the terminal is closed");

    let cancellation = toolwright_module::Cancellation::default();
    let waiting = Context::default()
        .with_cancellation(cancellation.clone())
        .with_approver(|_| std::future::pending());
    let drive = agent.drive(&mut run, &waiting);
    let (error, ()) = futures_util::future::join(drive, async { cancellation.cancel() }).await;
    assert_eq!(error.unwrap_err().stage(), Stage::Cancelled);

    let wrong =
        soon().with_approver(|_| async { Ok(Decision::Edit { arguments: "{}".to_owned() }) });
    let error = agent.drive(&mut run, &wrong).await.unwrap_err();
    insta::assert_snapshot!(format!("{error:#}"));

    let yes = soon().with_approver(|_| async { Ok(Decision::Approve) });
    assert_eq!(agent.drive(&mut run, &yes).await.unwrap().answer, "ok");
    assert_eq!(log.entries(), ["b", "d"]);
}

#[tokio::test]
async fn a_changed_policy_keeps_waiting_calls_waiting() {
    let log = Log::default();
    let (agent, _) = careful(&log, [turn(), Reply::text("ok")]);
    let mut run = agent.start("Go.").unwrap();
    agent.drive(&mut run, &soon()).await.unwrap_err();
    let mut run = run.with_approval(ApprovalPolicy::default()).unwrap();
    assert_eq!(agent.drive(&mut run, &soon()).await.unwrap_err().stage(), Stage::Approval);
    let no = || Decision::deny("No.");
    run.apply(StepResult::decisions(run.next().number, [("2", no()), ("4", no())])).unwrap();
    agent.drive(&mut run, &soon()).await.unwrap();
    assert!(log.entries().is_empty());
}

#[tokio::test]
async fn a_call_of_an_agent_waits_by_its_most_severe_tool() {
    let log = Log::default();
    let (below, _) =
        agent([look(), burn(&log)], [calls([("1", "burn", "b")]), Reply::text("done")]);
    let helper = Tool::new(below).unwrap().named("helper").unwrap();
    assert_eq!(helper.effect(), Effect::Irreversible);
    let ask = Reply::calls([ToolCall::new("h", "helper", r#"{"task": "Go."}"#)]);
    let (above, _) = agent([helper], [ask]);
    let above = above.with_approval(ApprovalPolicy::from_effect(Effect::Irreversible)).unwrap();
    let error = above.run("Go.", &soon()).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Approval);
    assert!(log.entries().is_empty());
    assert_eq!(Tool::new(agent([], []).0).unwrap().effect(), Effect::Read);
}

#[tokio::test]
async fn an_agent_with_a_different_tool_of_the_same_name_is_rejected() {
    let log = Log::default();
    let harmless = tool("burn", Effect::Read, async |_: Look| Ok(String::new()));
    let mut run = agent([harmless], []).0.start("Go.").unwrap();
    let (other, _) = agent([burn(&log)], [calls([("1", "burn", "b")])]);
    let error = other.drive(&mut run, &soon()).await.unwrap_err();
    insta::assert_snapshot!(error, @"the run and the agent that drives it differ in the tool `burn`; resume the run with `Agent::resume`");
}

/// A stored run with four open calls, two of which wait for a decision.
fn waiting(log: &Log) -> (Agent, Value) {
    let (agent, _) = careful(log, [Reply::text("ok")]);
    let mut run = agent.start("Go.").unwrap();
    run.apply(StepResult::model(0, turn())).unwrap();
    (agent, serde_json::to_value(&run).unwrap())
}

/// Returns the ids of the calls that wait for approval after the run is resumed.
fn awaits(agent: &Agent, stored: Value) -> Vec<String> {
    let run = Run::resume(serde_json::from_value(stored).unwrap(), agent.tools()).unwrap().run;
    match run.next().kind {
        StepKind::AwaitApproval(calls) => calls.into_iter().map(|call| call.id).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn a_stored_phase_that_skips_approval_waits_again() {
    let log = Log::default();
    let (agent, stored) = waiting(&log);
    let results = stored["phase"]["approval"]["results"].clone();
    let phases = [
        json!({"tools": {"results": results}}),
        json!({"tools": {"results": results, "edited": {"2": "{\"place\": \"x\"}"}}}),
        json!({"approval": {"results": results, "awaits": ["4"]}}),
        json!({"approval": {"results": results, "awaits": ["1", "4"]}}),
        json!({"approval": {"results": results, "awaits": ["4", "2"]}}),
    ];
    for phase in phases {
        let mut edited = stored.clone();
        edited["phase"] = phase.clone();
        let awaits = awaits(&agent, edited.clone());
        assert!(["2", "4"].iter().all(|id| awaits.iter().any(|it| it == id)), "{phase}");
        let mut run =
            Run::resume(serde_json::from_value(edited).unwrap(), agent.tools()).unwrap().run;
        let error = agent.drive(&mut run, &soon()).await.unwrap_err();
        assert_eq!(error.stage(), Stage::Approval, "{phase}");
    }
    assert!(log.entries().is_empty());
}

#[tokio::test]
async fn a_decision_applies_to_exactly_its_call() {
    let log = Log::default();
    let (agent, stored) = waiting(&log);
    let mut run = Run::resume(serde_json::from_value(stored).unwrap(), agent.tools()).unwrap().run;
    let decisions = [("2", Decision::Approve), ("4", Decision::deny("No."))];
    run.apply(StepResult::decisions(1, decisions)).unwrap();
    let stored = serde_json::to_value(&run).unwrap();
    insta::assert_snapshot!(stored["decisions"], @r#"{"2":{"step":1,"tool":"burn","arguments":"{\"place\":\"b\"}","decision":"approve"},"4":{"step":1,"tool":"burn","arguments":"{\"place\":\"d\"}","decision":{"deny":{"reason":"No."}}}}"#);
    assert!(awaits(&agent, stored.clone()).is_empty());
    let none = Vec::<String>::new();
    type Edit = fn(&mut Value);
    let edits: [(Edit, &[&str]); 6] = [
        (|it| it["decisions"] = json!({}), &["2"]),
        (|it| it["decisions"]["2"]["decision"] = json!({"deny": {"reason": "No."}}), &["2"]),
        (|it| it["decisions"]["2"]["tool"] = json!("look"), &["2"]),
        // Another call under an id with a decision.
        (
            |it| {
                it["messages"][1]["parts"][1]["call"]["arguments"] = json!(r#"{"place": "home"}"#);
            },
            &["2"],
        ),
        (|it| it["messages"][1]["parts"][0]["call"]["name"] = json!("burn"), &["1"]),
        // A denied call is not made if its result is missing.
        (|it| it["phase"]["tools"]["results"][3] = Value::Null, &["4"]),
    ];
    for (edit, waits) in edits {
        let mut edited = stored.clone();
        edit(&mut edited);
        assert_eq!(awaits(&agent, edited), waits);
    }
    assert_eq!(awaits(&agent, stored), none);
}

#[tokio::test]
async fn the_stricter_of_both_policies_applies() {
    let log = Log::default();
    let (careful, _) = careful(&log, [Reply::text("ok")]);
    let (careless, _) = agent([look(), burn(&log)], [Reply::text("ok")]);
    // A run that started without a policy, and one whose policy was removed from the store.
    let mut run = careless.start("Go.").unwrap();
    run.apply(StepResult::model(0, turn())).unwrap();
    assert!(matches!(run.next().kind, StepKind::CallTools(_)));
    let (_, mut stored) = waiting(&log);
    stored.as_object_mut().unwrap().remove("approval");
    stored["phase"] = json!({"tools": {"results": [null, null, null, null]}});
    let edited = Run::resume(serde_json::from_value(stored).unwrap(), careful.tools()).unwrap().run;
    for mut run in [run, edited] {
        let error = careful.drive(&mut run, &soon()).await.unwrap_err();
        let awaits: &AwaitsApproval = error.downcast_ref().unwrap();
        assert_eq!(awaits.calls.len(), 2);
        // The policy stays with the run, whatever agent drives it next.
        assert_eq!(careless.drive(&mut run, &soon()).await.unwrap_err().stage(), Stage::Approval);
    }
    let mut run = careful.start("Go.").unwrap();
    run.apply(StepResult::model(0, turn())).unwrap();
    assert_eq!(careless.drive(&mut run, &soon()).await.unwrap_err().stage(), Stage::Approval);
    assert!(log.entries().is_empty());
}

#[test]
fn a_stricter_policy_applies_to_calls_not_made_yet() {
    let (agent, _) = agent([look(), burn(&Log::default())], []);
    let mut run = agent.start("Go.").unwrap();
    run.apply(StepResult::model(0, turn())).unwrap();
    run.apply(StepResult::tools(1, [ToolResult::new(&call("1", "look", "a"), "x")])).unwrap();
    let run = run.with_approval(ApprovalPolicy::default().with_tool("burn")).unwrap();
    let StepKind::AwaitApproval(calls) = run.next().kind else { panic!("nobody is asked") };
    assert_eq!(calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["2", "4"]);
}
