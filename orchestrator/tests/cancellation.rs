//! Runs that are ended from outside: by a cancellation, a drop or a deadline.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join;
use toolwright_module::error::{Audience, Stage};
use toolwright_module::{
    Cancellation, Context, Effect, Error, Reply, Tool, ToolCall, testing::Scripted,
};
use toolwright_orchestrator::{Agent, ApprovalPolicy, Limits, Run};

use crate::support::{Silent, Working, agent, calls, tool};

/// A tool that never ends.
fn endless(working: &Working) -> Tool {
    let working = working.clone();
    tool("wait", Effect::Read, move |_| {
        let working = working.clone();
        async move {
            let _begun = working.begin();
            pending().await
        }
    })
}

fn silent_agent(working: &Working) -> Agent {
    Agent::new(Silent(working.clone()), []).unwrap()
}

fn waiting_agent(working: &Working) -> Agent {
    let said = [calls([("1", "wait", "a"), ("2", "wait", "b")])];
    agent([endless(working)], said).0
}

/// Drives until `n` calls are in progress, then cancels.
async fn cancelled(agent: &Agent, working: &Working, n: usize) -> (Run, Error) {
    let cancellation = Cancellation::default();
    let cx = Context::default().with_cancellation(cancellation.clone());
    let mut run = agent.start("Go.").unwrap();
    let cancel = async {
        working.until(n).await;
        cancellation.cancel();
    };
    let (outcome, ()) = join(agent.drive(&mut run, &cx), cancel).await;
    (run, outcome.unwrap_err())
}

#[tokio::test]
async fn a_cancellation_during_a_model_call_leaves_the_run_at_its_step() {
    let working = Working::default();
    let agent = silent_agent(&working);
    let (run, error) = cancelled(&agent, &working, 1).await;
    assert_eq!((error.stage(), error.audience()), (Stage::Cancelled, Audience::Run));
    assert_eq!(working.now(), 0);
    assert_eq!(run.next(), agent.start("Go.").unwrap().next());
}

#[tokio::test]
async fn a_cancellation_during_tool_calls_ends_all_of_them() {
    let working = Working::default();
    let (run, error) = cancelled(&waiting_agent(&working), &working, 2).await;
    assert_eq!(error.stage(), Stage::Cancelled);
    assert_eq!(working.now(), 0);
    // The calls have not been made yet.
    assert_eq!((run.next().number, run.history().len()), (1, 2));
}

#[tokio::test]
async fn a_cancellation_reaches_an_agent_below_an_agent() {
    let working = Working::default();
    let inner = Tool::new(waiting_agent(&working)).unwrap().named("inner").unwrap();
    let ask = Reply::calls([ToolCall::new("1", "inner", r#"{"task": "Go."}"#)]);
    let (outer, _) = agent([inner], [ask]);
    let (_, error) = cancelled(&outer, &working, 2).await;
    assert_eq!((error.stage(), working.now()), (Stage::Cancelled, 0));
}

#[tokio::test]
async fn a_dropped_run_leaves_no_work_running() {
    let working = Working::default();
    let (agent, cx) = (waiting_agent(&working), Context::default());
    let handle = tokio::spawn({
        let (agent, cx) = (agent.clone(), cx.clone());
        async move { agent.run("Go.", &cx).await.map(|_| ()) }
    });
    working.until(2).await;
    handle.abort();
    assert!(handle.await.unwrap_err().is_cancelled());
    assert_eq!(working.now(), 0);
}

#[tokio::test]
async fn a_cancelled_run_can_be_continued() {
    let working = Working::default();
    let (mut run, _) = cancelled(&silent_agent(&working), &working, 1).await;
    let (other, _) = agent([], [Reply::text("ok")]);
    assert_eq!(other.drive(&mut run, &Context::default()).await.unwrap().answer, "ok");
}

fn until(milliseconds: u64) -> Context {
    Context::default().with_deadline(Instant::now() + Duration::from_millis(milliseconds))
}

#[tokio::test]
async fn a_deadline_ends_model_and_tool_calls_with_a_limit_error() {
    let working = Working::default();
    for agent in [silent_agent(&working), waiting_agent(&working)] {
        let error = agent.run("Go.", &until(20)).await.unwrap_err();
        assert_eq!((error.stage(), error.audience()), (Stage::Limit, Audience::User));
        assert_eq!(error.to_string(), "the deadline of this call has passed; allow it more time");
        assert_eq!(working.now(), 0);
    }
}

#[tokio::test]
async fn no_call_starts_after_the_deadline() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let model = Scripted::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(Reply::text("ok"))
    });
    let agent = Agent::new(model, []).unwrap();
    let error = agent.run("Go.", &until(0)).await.unwrap_err();
    assert_eq!((error.stage(), asked.load(Ordering::SeqCst)), (Stage::Limit, 0));
}

#[tokio::test]
async fn a_distant_deadline_has_no_effect() {
    let (agent, _) = agent([], [Reply::text("ok")]);
    assert_eq!(agent.run("Go.", &until(60_000)).await.unwrap().answer, "ok");
}

#[tokio::test(start_paused = true)]
async fn the_driver_and_its_timers_use_the_same_clock() {
    let slow = tool("slow", Effect::Write, async |look: crate::support::Look| {
        let seconds = if look.place == "a" { 8 } else { 60 };
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        Ok("slept".to_owned())
    });
    let said = [calls([("1", "slow", "a"), ("2", "slow", "b")]), Reply::text("ok")];
    let (agent, _) = agent([slow], said);
    let limits = Limits {
        tool_time: Some(Duration::from_secs(10)),
        max_time: Some(Duration::from_secs(30)),
        ..Limits::default()
    };
    let finished = agent.with_limits(limits).run("Go.", &Context::default()).await.unwrap();
    insta::assert_snapshot!(crate::support::show(&finished.history[2..]), @r"
    tool 1: slept
    tool 2 failed: The call was given up after 10.0s. Whether it took effect is not known.
    assistant: ok
    ");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_wait_for_approval() {
    let (agent, _) = agent([endless(&Working::default())], [calls([("1", "wait", "a")])]);
    let agent = agent.with_approval(ApprovalPolicy::from_effect(Effect::Read)).unwrap();
    let cx = until(20).with_approver(|_| pending());
    let run = tokio::time::timeout(Duration::from_secs(5), agent.run("Go.", &cx));
    let error = run.await.expect("the deadline comes first").unwrap_err();
    assert_eq!(error.to_string(), "the deadline of this call has passed; allow it more time");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_below_an_agent_leaves_the_run_above_at_its_step() {
    let working = Working::default();
    let inner = Tool::new(waiting_agent(&working)).unwrap().named("inner").unwrap();
    let ask = Reply::calls([ToolCall::new("1", "inner", r#"{"task": "Go."}"#)]);
    let (outer, _) = agent([inner], [ask]);
    let mut run = outer.start("Go.").unwrap();
    let at = tokio::time::Instant::now() + Duration::from_secs(3);
    let cx = Context::default().with_deadline(at.into_std());
    let error = outer.drive(&mut run, &cx).await.unwrap_err();
    assert_eq!((error.stage(), working.now()), (Stage::Limit, 0));
    // The call below has no result, so it is made again.
    assert_eq!((run.next().number, run.history().len()), (1, 2));
}

#[tokio::test]
async fn a_run_cancelled_before_its_first_request_costs_nothing() {
    let (agent, asked) = agent([], [Reply::text("ok")]);
    let (cancellation, ledger) =
        (Cancellation::default(), toolwright_module::budget::Ledger::default());
    cancellation.cancel();
    let cx = Context::default().with_cancellation(cancellation).with_ledger(ledger.clone());
    let error = agent.run("Go.", &cx).await.unwrap_err();
    assert_eq!((error.stage(), asked.requests().len()), (Stage::Cancelled, 0));
    assert_eq!(ledger.spent().model_calls, 0);
}
