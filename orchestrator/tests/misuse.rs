//! Misuse of agents: each ends with an error that names the cause.

use std::sync::atomic::{AtomicBool, Ordering};

use toolwright_module::approval::Decision;
use toolwright_module::error::{Audience, Stage};
use toolwright_module::model::Usage;
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Context, Effect, Error, Module, Reply, Request, Tool, ToolCall, from_fn_with,
};
use toolwright_orchestrator::{Agent, ApprovalPolicy, StepKind, Task};

use crate::support::{Log, Look, agent, calls, look, react, replies, run, show, soon, tool};

#[tokio::test]
async fn agents_that_call_themselves_reach_a_limit() {
    use std::sync::{Arc, OnceLock};

    let itself: Arc<OnceLock<Agent>> = Arc::default();
    let inner = Arc::clone(&itself);
    let again = from_fn_with(move |task: Task, cx: Context| {
        let inner = Arc::clone(&inner);
        async move { inner.get().unwrap().call(task, &cx).await }
    });
    let model = Scripted::new(|_: &Request| {
        Ok(Reply::calls([ToolCall::new("1", "task", r#"{"task": "Ask yourself."}"#)]))
    });
    let agent = Agent::new(model, [Tool::new(again).unwrap()]).unwrap();
    itself.set(agent.clone()).unwrap();
    let error = agent.run("Ask yourself.", &soon()).await.unwrap_err();
    assert_eq!((error.stage(), error.audience()), (Stage::Limit, Audience::Run));
    insta::assert_snapshot!(error, @"agents call each other more than 16 deep; does one call itself?");
}

/// A value that panics when it is dropped, in an output or an error.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

impl std::fmt::Debug for Bomb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a bomb")
    }
}

impl std::fmt::Display for Bomb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a bomb")
    }
}

impl std::error::Error for Bomb {}

#[tokio::test]
async fn a_tools_output_may_panic_when_dropped_and_other_calls_continue() {
    let bomb = tool("bomb", Effect::Read, async |_: Look| Err(Bomb.into()));
    let said = [calls([("1", "bomb", "x"), ("2", "look", "y")]), Reply::text("ok")];
    let (agent, _) = agent([bomb, look()], said);
    let finished = agent.run("Look after the house.", &soon().with_events(|_| {})).await;
    insta::assert_snapshot!(show(&finished.unwrap().history[2..4]), @r"
    tool 1 failed: The tool failed. The reason is not shown to you.
    tool 2: y is empty
    ");
}

#[tokio::test]
async fn only_a_typed_run_rejects_a_tool_named_finish() {
    let finish = look().contract().finish().unwrap();
    let finish = Tool::dynamic(finish, Effect::Read, async |_, _| {
        Ok(toolwright_module::ToolOutput::text_only("x"))
    });
    let (model, _) = replies([]);
    Agent::new(model, [finish.clone()]).unwrap();
    let (model, _) = replies([]);
    let error = react::<Look>(model, [finish]).unwrap_err();
    insta::assert_snapshot!(error, @"a typed run reserves the tool name `finish`; rename the tool with `Tool::named`");
}

#[tokio::test]
async fn the_error_of_a_run_has_its_whole_usage() {
    let model = Scripted::new(|request: &Request| match request.messages.len() {
        1 => Ok(calls([("1", "look", "x")]).with_usage(Usage::new(100, 50))),
        _ => Err(Error::other("gone").with_usage(Usage::new(7, 0))),
    });
    let agent = Agent::new(model, [look()]).unwrap();
    let error = agent.run("Look after the house.", &soon()).await.unwrap_err();
    assert_eq!(error.usage(), Usage::new(107, 50));
}

#[tokio::test]
async fn the_caller_gets_failures_without_a_listener() {
    let secret = tool("secret", Effect::Read, async |_: Look| {
        Err(std::io::Error::other("the disk at 10.0.0.7 is full").into())
    });
    let (agent, _) = agent([secret], [calls([("1", "secret", "x")]), Reply::text("ok")]);
    let finished = run(&agent).await;
    assert_eq!(finished.failures.len(), 1);
    assert_eq!(finished.failures[0].error, "the disk at 10.0.0.7 is full");
    assert!(!show(&finished.history).contains("10.0.0.7"));
}

#[tokio::test]
async fn a_panic_of_a_listener_loses_no_result_and_repeats_no_call() {
    let log = Log::default();
    let wrote = log.clone();
    let store = tool("store", Effect::Write, move |look: Look| {
        let log = wrote.clone();
        async move {
            log.write(look.place);
            Ok("stored".to_owned())
        }
    });
    let said = [calls([("1", "store", "a"), ("2", "store", "b")]), Reply::text("ok")];
    let (agent, _) = agent([store], said);
    // At each event, including the first and the last.
    let cx = soon().with_events(|_| panic!("the screen is gone"));
    let finished = agent.run("Go.", &cx).await.unwrap();
    assert_eq!((finished.answer.as_str(), finished.spent.tool_calls), ("ok", 2));
    assert_eq!(log.entries(), ["a", "b"]);
}

#[tokio::test]
async fn a_panic_of_the_approver_leaves_the_run_at_its_step() {
    let (agent, _) = agent([look()], [calls([("1", "look", "a")]), Reply::text("ok")]);
    let agent = agent.with_approval(ApprovalPolicy::from_effect(Effect::Read)).unwrap();
    let mut run = agent.start("Go.").unwrap();
    let falls = soon().with_approver(|_| async { panic!("the terminal is gone") });
    let error = agent.drive(&mut run, &falls).await.unwrap_err();
    assert_eq!((error.stage(), error.audience()), (Stage::Panic, Audience::Run));
    insta::assert_snapshot!(error, @"the approver panicked: the terminal is gone");
    assert!(matches!(run.next().kind, StepKind::AwaitApproval(_)));
    let yes = soon().with_approver(|_| async { Ok(Decision::Approve) });
    assert_eq!(agent.drive(&mut run, &yes).await.unwrap().answer, "ok");
}

#[tokio::test]
async fn a_panic_of_the_model_leaves_the_run_at_its_step() {
    let fell = AtomicBool::new(false);
    let model = Scripted::new(move |_: &Request| {
        assert!(fell.swap(true, Ordering::SeqCst), "out of memory");
        Ok(Reply::text("ok"))
    });
    let agent = Agent::new(model, []).unwrap();
    let mut run = agent.start("Go.").unwrap();
    let error = agent.drive(&mut run, &soon()).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Panic);
    assert_eq!(agent.drive(&mut run, &soon()).await.unwrap().answer, "ok");
}
