//! Time limits: of a run, of its tools, and of callers that stop waiting.

use std::future::pending;
use std::time::{Duration, Instant};
use toolwright_module::approval::{Approval, Decision};

use futures_util::stream;
use toolwright_module::budget::{Budget, LimitKind};
use toolwright_module::error::Stage;
use toolwright_module::event::{Ending, EventKind};
use toolwright_module::model::{BoxFuture, BoxStream, Capabilities, Delta};
use toolwright_module::predict::Validator;
use toolwright_module::{
    Cancellation, Context, Dialect, Effect, LanguageModel, Reply, Request, Result,
};
use toolwright_orchestrator::{Agent, ApprovalPolicy, Limits, Task};

use crate::support::{Log, Look, Silent, agent, calls, look, show, soon, ten_tokens, tool, within};

#[tokio::test(start_paused = true)]
async fn a_tool_timeout_ends_only_its_call() {
    let waiting = |name: &str, effect| {
        tool(name, effect, async |_: Look| -> toolwright_module::Result<String> { pending().await })
    };
    let tools = [waiting("wait", Effect::Read), waiting("stir", Effect::Write), look()];
    let said =
        [calls([("1", "wait", "a"), ("2", "look", "b"), ("3", "stir", "c")]), Reply::text("ok")];
    let (agent, _) = agent(tools, said);
    let agent =
        agent.with_limits(Limits { tool_time: Some(Duration::from_secs(2)), ..Limits::default() });
    let finished = agent.run("Go.", &Context::default()).await.unwrap();
    insta::assert_snapshot!(show(&finished.history[2..]), @r"
    tool 1 failed: The call was given up after 2.0s.
    tool 2: b is empty
    tool 3 failed: The call was given up after 2.0s. Whether it took effect is not known.
    assistant: ok
    ");
    assert_eq!(finished.failures.len(), 2);
}

/// A program that drives a run again and again after interruptions must not get more time each time.
#[tokio::test(start_paused = true)]
async fn the_time_of_an_interrupted_step_counts() {
    let secs = Duration::from_secs;
    let limits = Limits { max_time: Some(secs(8)), ..Limits::default() };
    let wait = || {
        tool("wait", Effect::Read, async |_: Look| -> toolwright_module::Result<String> {
            pending().await
        })
    };
    let silent = Agent::new(Silent::default(), []).unwrap();
    let (calling, _) = agent([wait()], [calls([("1", "wait", "a")])]);
    let two = calls([("1", "wait", "a"), ("2", "wait", "b")]);
    let (calling_two, _) = agent([wait()], [two]);
    for agent in [silent, calling, calling_two] {
        let agent = agent.with_limits(limits.clone());
        let mut run = agent.start("Go.").unwrap();
        // The drive is dropped, and then it fails.
        let cx = Context::default();
        let dropped = tokio::time::timeout(secs(2), agent.drive(&mut run, &cx));
        assert!(dropped.await.is_err());
        assert_eq!(run.elapsed(), secs(2));
        let deadline = tokio::time::Instant::now() + secs(3);
        let cx = Context::default().with_deadline(deadline.into_std());
        assert!(agent.drive(&mut run, &cx).await.is_err());
        assert_eq!(run.elapsed(), secs(5));
        let began = tokio::time::Instant::now();
        let finished = agent.drive(&mut run, &Context::default()).await.unwrap();
        assert_eq!(finished.limit, Some(LimitKind::Time));
        assert_eq!((began.elapsed(), run.elapsed()), (secs(3), secs(8)));
    }
}

/// A person may take any time, also before an interruption. Between two drives no step is under way.
#[tokio::test(start_paused = true)]
async fn the_time_of_an_interrupted_wait_for_a_person_does_not_count() {
    let wait =
        tool("wait", Effect::Irreversible, async |_: Look| -> toolwright_module::Result<String> {
            pending().await
        });
    let (agent, _) = agent([wait], [calls([("1", "wait", "a")])]);
    let agent = agent.with_approval(ApprovalPolicy::from_effect(Effect::Irreversible)).unwrap();
    let mut run = agent.start("Go.").unwrap();
    let cx = Context::default().with_approver(|_| pending());
    let dropped = tokio::time::timeout(Duration::from_secs(2), agent.drive(&mut run, &cx));
    assert!(dropped.await.is_err());
    assert_eq!(run.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_of_a_run_ends_its_calls() {
    let wait = tool("wait", Effect::Read, async |_: Look| -> toolwright_module::Result<String> {
        pending().await
    });
    let (agent, _) = agent([wait, look()], [calls([("1", "wait", "a"), ("2", "look", "b")])]);
    let limits = Limits { max_time: Some(Duration::from_secs(3)), ..Limits::default() };
    let finished = agent.with_limits(limits.clone()).run("Go.", &Context::default()).await.unwrap();
    assert_eq!((finished.ending, finished.limit), (Ending::LimitReached, Some(LimitKind::Time)));
    insta::assert_snapshot!(show(&finished.history[2..]), @r"
    tool 1 failed: The call was given up after 3.0s.
    tool 2: b is empty
    ");
    let agent = Agent::new(Silent::default(), []).unwrap().with_limits(limits);
    let mut run = agent.start("Go.").unwrap();
    let finished = agent.drive(&mut run, &Context::default()).await.unwrap();
    assert_eq!((finished.ending, finished.limit), (Ending::LimitReached, Some(LimitKind::Time)));
    assert_eq!(finished.spent.model_calls, 1);
}

/// A validator that asks somebody who does not answer.
struct Asks;

impl Validator<Task, String> for Asks {
    async fn check(&self, _: &Task, _: &String, _: &Context) -> Result<()> {
        pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_validator_ends_at_the_time_limit_of_the_run_and_of_its_caller() {
    let time = Duration::from_secs(2);
    let asking = || agent([], [Reply::text("Yes.")]).0.with_validator(Asks);
    let limits = Limits { max_time: Some(time), ..Limits::default() };
    let limited = asking().with_limits(limits);
    let (cx, long) = (Context::default(), time * 30);
    let finished = tokio::time::timeout(long, limited.run("Go.", &cx)).await.expect("no end");
    let finished = finished.unwrap();
    assert_eq!((finished.ending, finished.limit), (Ending::LimitReached, Some(LimitKind::Time)));
    assert_eq!(finished.answer, "Yes.");

    let cx = Context::default().with_deadline(tokio::time::Instant::now().into_std() + time);
    let agent = asking();
    let error = tokio::time::timeout(long, agent.run("Go.", &cx)).await.expect("no end");
    assert_eq!(error.unwrap_err().stage(), Stage::Limit);
}

#[tokio::test]
async fn a_tool_that_blocks_its_thread_is_reported() {
    let slow = tool("slow", Effect::Read, async |_: Look| {
        std::thread::sleep(Duration::from_millis(120));
        Ok("done".to_owned())
    });
    let (agent, _) = agent([slow], [calls([("1", "slow", "a")]), Reply::text("ok")]);
    let log = Log::default();
    let heard = log.clone();
    let cx = soon().with_events(move |event| {
        if let EventKind::ToolBlocked { call, elapsed } = &event.kind {
            assert!(*elapsed >= Duration::from_millis(100));
            heard.write(call.name.clone());
        }
    });
    let agent = agent
        .with_limits(Limits { tool_time: Some(Duration::from_millis(50)), ..Limits::default() });
    let finished = agent.run("Go.", &cx).await.unwrap();
    assert_eq!(log.entries(), ["slow"]);
    // The tool could not be interrupted, so its result is used.
    insta::assert_snapshot!(show(&finished.history[2..3]), @"tool 1: done");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_drive_is_charged_for_its_calls() {
    let hang = tool("hang", Effect::Write, async |_: Look| -> toolwright_module::Result<String> {
        pending().await
    });
    let said = [calls([("1", "hang", "a")]), Reply::text("Not done.")];
    let (agent, _) = agent([hang], said);
    let agent = agent
        .with_limits(within(Budget { tool_calls: Some(2), ..Budget::default() }))
        .with_settings(ten_tokens())
        .unwrap();
    let mut run = agent.start("Go.").unwrap();
    // A call that was dropped may have taken effect, so the approver is asked.
    let cx = Context::default().with_approver(async |asked: Approval| {
        assert!(asked.unknown);
        Ok(Decision::CallAgain)
    });
    for _ in 0..2 {
        let drive = agent.drive(&mut run, &cx);
        tokio::time::timeout(Duration::from_millis(20), drive).await.unwrap_err();
    }
    assert_eq!(run.spent().tool_calls, 2);
    // The third call is not made.
    let finished = agent.drive(&mut run, &cx).await.unwrap();
    assert_eq!((finished.limit, finished.spent.tool_calls), (Some(LimitKind::ToolCalls), 2));
    // The cost of a dropped model call is unknown, so it counts in full.
    let agent = Agent::new(Silent::default(), []).unwrap();
    let agent = agent
        .with_limits(within(Budget { output_tokens: Some(25), ..Budget::default() }))
        .with_settings(ten_tokens())
        .unwrap();
    let mut run = agent.start("Go.").unwrap();
    let cx = Context::default();
    for _ in 0..2 {
        let drive = agent.drive(&mut run, &cx);
        tokio::time::timeout(Duration::from_millis(20), drive).await.unwrap_err();
    }
    let finished = agent.drive(&mut run, &Context::default()).await.unwrap();
    assert_eq!((finished.limit, finished.spent.model_calls), (Some(LimitKind::OutputTokens), 2));
}

#[test]
fn a_time_limit_without_tokios_timer_is_an_error_before_the_first_call() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for limits in [
        Limits { tool_time: Some(Duration::from_secs(1)), ..Limits::default() },
        Limits { max_time: Some(Duration::from_secs(1)), ..Limits::default() },
    ] {
        let (agent, asked) = agent([look()], [calls([("1", "look", "a")]), Reply::text("ok")]);
        let agent = agent.with_limits(limits);
        let error = runtime.block_on(agent.run("Go.", &Context::default())).unwrap_err();
        assert_eq!((error.stage(), asked.requests().len()), (Stage::Setup, 0));
        insta::allow_duplicates! {
            insta::assert_snapshot!(error, @"a time limit or a deadline needs tokio's timer; build the runtime with `enable_time` or `enable_all`");
        }
    }
}

/// A model whose stream is always ready.
struct Endless;

impl LanguageModel for Endless {
    fn name(&self) -> &str {
        "endless"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(std::future::pending())
    }

    fn stream<'a>(&'a self, _: Request) -> BoxStream<'a, Result<Delta>> {
        Box::pin(stream::repeat_with(|| Ok(Delta::Text("and ".to_owned()))))
    }
}

/// Without yielding, neither a timer nor a task that cancels would run.
#[tokio::test]
async fn a_stream_that_is_always_ready_can_be_ended() {
    let agent = Agent::new(Endless, []).unwrap();
    let heard = || Context::default().with_events(|_| {});
    let time = Duration::from_millis(30);

    let timed = agent.clone().with_limits(Limits { max_time: Some(time), ..Limits::default() });
    let finished = timed.run("Go.", &heard()).await.unwrap();
    assert_eq!((finished.ending, finished.limit), (Ending::LimitReached, Some(LimitKind::Time)));

    let late = heard().with_deadline(Instant::now() + time);
    let error = agent.run("Go.", &late).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Limit);

    let cancellation = Cancellation::default();
    let cx = heard().with_cancellation(cancellation.clone());
    let cancels = async {
        tokio::time::sleep(time).await;
        cancellation.cancel();
    };
    let (run, ()) = futures_util::future::join(agent.run("Go.", &cx), cancels).await;
    assert_eq!(run.unwrap_err().stage(), Stage::Cancelled);
}
