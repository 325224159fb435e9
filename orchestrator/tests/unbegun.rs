//! Calls that a limit or an interruption ends before they begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use toolwright_module::budget::{Budget, LimitKind};
use toolwright_module::event::{Ending, EventKind};
use toolwright_module::message::ToolResult;
use toolwright_module::{Cancellation, Context, Effect, Message, Reply, Tool, ToolCall};
use toolwright_orchestrator::perform::{Replay, with_performer};
use toolwright_orchestrator::{Finished, Limits, Run, RunState, StepKind, StepResult};

use crate::support::{Log, Look, agent, call, calls, show, tidy, tool, within};

/// Returns a tool that never ends, and the number of its calls.
fn endless(name: &str, effect: Effect) -> (Tool, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let endless = tool(name, effect, move |_: Look| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::future::pending()
    });
    (endless, count)
}

fn three() -> Reply {
    calls([("1", "send", "a"), ("2", "tidy", "b"), ("3", "send", "c")])
}

fn second() -> Limits {
    Limits { max_time: Some(Duration::from_secs(1)), ..Limits::default() }
}

/// Checks a run whose time ended during the first of three calls.
fn check(finished: &Finished, count: &AtomicUsize) {
    assert_eq!((finished.ending, finished.limit), (Ending::LimitReached, Some(LimitKind::Time)));
    assert_eq!(count.load(Ordering::Relaxed), 1);
    assert_eq!((finished.spent.tool_calls, &*finished.tools_used), (1, &["send".to_owned()][..]));
    insta::allow_duplicates! {
        insta::assert_snapshot!(show(&finished.history[2..]), @r"
        tool 1 failed: The call was given up after 1.0s. Whether it took effect is not known.
        tool 2 failed: The call was not made: the run has no time left.
        tool 3 failed: The call was not made: the run has no time left.
        ");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_after_the_end_of_the_time_are_not_made_and_say_so() {
    let (send, count) = endless("send", Effect::Write);
    let (agent, _) = agent([send, tidy()], [three()]);
    check(&agent.with_limits(second()).run("Go.", &Context::default()).await.unwrap(), &count);
}

#[tokio::test(start_paused = true)]
async fn calls_that_did_not_begin_are_no_calls_of_a_recorded_run_either() {
    let (send, count) = endless("send", Effect::Write);
    let (first, _) = agent([send.clone(), tidy()], [three()]);
    let journal = Replay::in_memory([]);
    let cx = with_performer(&Context::default(), journal.clone());
    let finished = first.with_limits(second()).run("Go.", &cx).await.unwrap();
    check(&finished, &count);
    // Driven again from its records, nothing is done and the end is the same.
    let (again, _) = agent([send, tidy()], []);
    let cx = with_performer(&Context::default(), Replay::in_memory(journal.records()));
    let finished = again.with_limits(second()).run("Go.", &cx).await.unwrap();
    check(&finished, &count);
}

#[tokio::test(start_paused = true)]
async fn reads_that_wait_for_their_turn_are_not_made_after_the_time() {
    let (look, count) = endless("look", Effect::Read);
    let said = calls([("1", "look", "a"), ("2", "look", "b"), ("3", "look", "c")]);
    for recorded in [false, true] {
        count.store(0, Ordering::Relaxed);
        let (agent, _) = agent([look.clone()], [said.clone()]);
        let cx = match recorded {
            false => Context::default(),
            true => with_performer(&Context::default(), Replay::in_memory([])),
        };
        let agent = agent.with_limits(Limits { max_parallel: 2, ..second() });
        let finished = agent.run("Go.", &cx).await.unwrap();
        assert_eq!((count.load(Ordering::Relaxed), finished.spent.tool_calls), (2, 2));
        let Message::Tool(last) = &*finished.history[4] else { panic!("no result") };
        assert_eq!(last.text, "The call was not made: the run has no time left.");
    }
}

#[tokio::test(start_paused = true)]
async fn agents_below_do_not_begin_after_the_time_either() {
    let (below, asked) = crate::support::agent([], [Reply::text("never")]);
    let below = Tool::new(below).unwrap().named("helper").unwrap();
    let (send, _) = endless("send", Effect::Write);
    let said =
        Reply::calls([call("1", "send", "a"), ToolCall::new("2", "helper", r#"{"task": "Go."}"#)]);
    let (outer, _) = agent([send, below], [said]);
    let finished = outer.with_limits(second()).run("Go.", &Context::default()).await.unwrap();
    assert_eq!((asked.requests().len(), finished.spent.tool_calls), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_spent_budget_of_calls_makes_no_call_and_says_so() {
    let said =
        Reply::calls([ToolCall::new("1", "busy", r#"{"task": "Go."}"#), call("2", "tidy", "b")]);
    let check = |finished: &Finished| {
        assert_eq!(
            (finished.limit, &*finished.tools_used),
            (Some(LimitKind::ToolCalls), &["busy".to_owned()][..])
        );
        assert_eq!((finished.spent.tool_calls, &*finished.answer), (3, "Half."));
        let Message::Tool(last) = &*finished.history[3] else { panic!("no result") };
        assert!(last.text.starts_with("The call was not made"), "{}", last.text);
    };
    for recorded in [false, true] {
        // An agent below uses up the calls of the run.
        let below = [calls([("a", "tidy", "a"), ("b", "tidy", "b")]), Reply::text("Tidied.")];
        let (busy, _) = crate::support::agent([tidy()], below);
        let busy = Tool::new(busy).unwrap().named("busy").unwrap();
        let (agent, _) = agent([busy, tidy()], [said.clone(), Reply::text("Half.")]);
        let agent = agent.with_limits(within(Budget { tool_calls: Some(3), ..Budget::default() }));
        let journal = Replay::in_memory([]);
        let recording = with_performer(&Context::default(), journal.clone());
        let cx = if recorded { recording } else { Context::default() };
        check(&agent.run("Go.", &cx).await.unwrap());
        if recorded {
            // Driven again from its records, no model is asked and the end is the same.
            let (busy, _) = crate::support::agent([tidy()], []);
            let busy = Tool::new(busy).unwrap().named("busy").unwrap();
            let (again, _) = crate::support::agent([busy, tidy()], []);
            let again =
                again.with_limits(within(Budget { tool_calls: Some(3), ..Budget::default() }));
            let records = Replay::in_memory(journal.records());
            let cx = with_performer(&Context::default(), records);
            check(&again.run("Go.", &cx).await.unwrap());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_an_interruption_prevented_is_not_asked_about() {
    let (send, count) = endless("send", Effect::Write);
    let cancellation = Cancellation::default();
    cancellation.cancel();
    let contexts = [
        Context::default().with_cancellation(cancellation),
        Context::default().with_deadline(tokio::time::Instant::now().into_std()),
    ];
    for cx in contexts {
        let (agent, _) = agent([send.clone()], []);
        let mut run = agent.start("Go.").unwrap();
        run.apply(StepResult::model(0, calls([("1", "send", "a")]))).unwrap();
        agent.drive(&mut run, &cx).await.unwrap_err();
        assert!(matches!(run.next().kind, StepKind::CallTools(_)));
        let stored = serde_json::to_value(&run).unwrap();
        let state: RunState = serde_json::from_value(stored).unwrap();
        let resumed = agent.resume(state).unwrap().run;
        assert_eq!((resumed.unknown_outcome(), count.load(Ordering::Relaxed)), (None, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn after_an_interruption_the_model_reads_which_calls_were_not_made() {
    let (send, _) = endless("send", Effect::Write);
    let (agent, _) = agent([send, tidy()], [three()]);
    let limits = Limits::default().with_tool("tidy", 1);
    let agent = agent.with_limits(limits);
    let mut run = agent.start("Go.").unwrap();
    let soon = Context::default()
        .with_deadline((tokio::time::Instant::now() + Duration::from_secs(1)).into_std());
    agent.drive(&mut run, &soon).await.unwrap_err();
    let stored = serde_json::to_value(&run).unwrap();
    let state: RunState = serde_json::from_value(stored).unwrap();
    let history = show(&state.history()[2..]);
    run.follow_up("And now?").unwrap();
    insta::assert_snapshot!(show(&run.history()[2..]), @r"
    tool 1 failed: The call was interrupted. Whether it took effect is not known.
    tool 2 failed: The call was not made: the user went on.
    tool 3 failed: The call was not made: the user went on.
    user: And now?
    ");
    assert!(show(&run.history()[2..]).starts_with(&history), "{history}");
    // The call that was not made does not count.
    let state = serde_json::to_value(&run).unwrap();
    assert_eq!(state["calls"].get("tidy"), None);
}

#[test]
fn a_run_driven_by_hand_takes_a_limit_for_its_calls() {
    let mut run = Run::new("Go.", &[tidy()], second()).unwrap();
    let said = calls([("1", "tidy", "a"), ("2", "tidy", "b")]);
    run.apply(StepResult::model(0, said)).unwrap();
    let result = ToolResult::new(&call("1", "tidy", "a"), "Tidy.");
    run.apply(StepResult { elapsed: Duration::from_secs(2), ..StepResult::tools(1, [result]) })
        .unwrap();
    assert!(matches!(run.next().kind, StepKind::CallTools(_)));
    let exhausted = serde_json::json!({"step": 2, "kind": {"exhausted": "time"}});
    run.apply(serde_json::from_value(exhausted).unwrap()).unwrap();
    let StepKind::Done(result) = run.next().kind else { panic!("it goes on") };
    assert_eq!((result.limit, run.spent().tool_calls), (Some(LimitKind::Time), 1));
    assert_eq!(run.tools_used(), ["tidy"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_not_made_has_an_event_that_says_so() {
    let (send, _) = endless("send", Effect::Write);
    let (agent, _) = agent([send, tidy()], [three()]);
    let log = Log::default();
    let heard = log.clone();
    let cx = Context::default().with_events(move |event| {
        if let EventKind::ToolFinished { call, text, .. } = &event.kind {
            heard.write(format!("{} {text}", call.id));
        }
    });
    agent.with_limits(second()).run("Go.", &cx).await.unwrap();
    let entries = log.entries();
    assert_eq!(entries.len(), 3);
    assert!(entries[1].contains("was not made") && entries[2].contains("was not made"));
}
