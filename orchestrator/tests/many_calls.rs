//! Replies with very many calls.

use std::time::{Duration, Instant};

use toolwright_module::approval::Decision;
use toolwright_module::event::EventKind;
use toolwright_module::message::ToolResult;
use toolwright_module::{Effect, Message, Reply, ToolCall};
use toolwright_orchestrator::{ApprovalPolicy, Limits, Run, RunState, StepKind, StepResult};

use crate::support::{Log, Look, agent, call, calls, look, soon, tool};

/// A run driven by hand whose first reply makes `count` writes, all approved.
fn approved_writes(count: usize) -> Duration {
    let store = tool("store", Effect::Write, async |_: Look| Ok("stored".to_owned()));
    let began = Instant::now();
    let limits = Limits { max_calls_per_reply: count, ..Limits::default() };
    let mut run = Run::new("Go.", &[store], limits)
        .unwrap()
        .with_approval(ApprovalPolicy::from_effect(Effect::Write))
        .unwrap();
    let calls = (0..count).map(|n| call(&format!("call_{n}"), "store", "a"));
    run.apply(StepResult::model(0, Reply::calls(calls))).unwrap();
    let mut made = 0;
    loop {
        let step = run.next();
        let answer = match step.kind {
            StepKind::AwaitApproval(calls) => {
                let ids = calls.into_iter().map(|call: ToolCall| (call.id, Decision::Approve));
                StepResult::decisions(step.number, ids)
            }
            StepKind::CallTools(calls) => {
                made += calls.len();
                let results = calls.iter().map(|call| ToolResult::new(call, "stored"));
                StepResult::tools(step.number, results)
            }
            StepKind::CallModel(_) => break,
            other => panic!("{other:?}"),
        };
        run.apply(answer).unwrap();
    }
    assert_eq!(made, count);
    began.elapsed()
}

/// Ten thousand calls took 11.7 s when each call was compared with all others.
#[test]
fn the_time_for_a_reply_is_linear_in_its_calls() {
    let (few, many) = (1_000, 10_000);
    approved_writes(few);
    let few = approved_writes(few).max(Duration::from_millis(5));
    let many = approved_writes(many);
    // Quadratic time would be a hundred times as long for ten times as many calls.
    assert!(many < few * 40, "{few:?}, {many:?}");
}

#[tokio::test]
async fn calls_beyond_the_limit_of_a_reply_are_not_made() {
    let wide = |from: usize, count: usize| {
        Reply::calls((from..from + count).map(|n| call(&format!("c{n}"), "look", &n.to_string())))
    };
    let (agent, asked) = agent([look()], [wide(0, 130), wide(200, 2), Reply::text("ok")]);
    let heard = Log::default();
    let reported = heard.clone();
    let cx = soon().with_events(move |event| {
        if let EventKind::ToolFinished { call, error: Some(error), .. } = &event.kind {
            reported.write(format!("{}: {error}", call.id));
        }
    });
    let finished = agent.run("Go.", &cx).await.unwrap();
    assert_eq!((finished.answer.as_str(), finished.spent.tool_calls), ("ok", 130));
    let asked = asked.requests();
    let results = asked[1].messages.iter().filter_map(|message| match &**message {
        Message::Tool(result) => Some(result),
        _ => None,
    });
    let failed: Vec<&str> =
        results.clone().filter(|result| result.failed).map(|result| result.id.as_str()).collect();
    assert_eq!((results.count(), failed), (130, vec!["c128", "c129"]));
    insta::assert_snapshot!(heard.entries().join("\n"), @r"
    c128: The call was not made: a reply may make at most 128 calls. Make it in your next reply.
    c129: The call was not made: a reply may make at most 128 calls. Make it in your next reply.
    ");
}

#[test]
fn the_limit_of_calls_is_stored_with_the_run() {
    let limits = Limits { max_calls_per_reply: 0, ..Limits::default() };
    let mut run = Run::new("Go.", &[look()], limits).unwrap();
    let stored = serde_json::to_string(&run).unwrap();
    let state: RunState = serde_json::from_str(&stored).unwrap();
    let mut resumed = Run::resume(state, &[look()]).unwrap().run;
    for run in [&mut run, &mut resumed] {
        run.apply(StepResult::model(0, calls([("1", "look", "a"), ("2", "look", "b")]))).unwrap();
        // At least one call is allowed, because a run needs one to make progress.
        let StepKind::CallTools(calls) = run.next().kind else { panic!("no calls") };
        assert_eq!(calls.len(), 1);
    }
}

#[tokio::test]
async fn an_unknown_tool_gets_the_nearest_of_many_names() {
    let many = |count: usize| (0..count).map(|n| look().named(&format!("look_{n:03}")).unwrap());
    let said = || [calls([("1", "lok_042", "a")]), Reply::text("ok")];
    let (few, _) = agent(many(3), said());
    let (many, _) = agent(many(1_000), said());
    let mut reported = Vec::new();
    for agent in [few, many] {
        let finished = agent.run("Go.", &soon()).await.unwrap();
        let Message::Tool(result) = &*finished.history[2] else { panic!("no result") };
        reported.push(result.text.clone());
    }
    insta::assert_snapshot!(reported.join("\n"), @r"
    There is no tool `lok_042`. The tools are: look_000, look_001, look_002.
    There is no tool `lok_042`. There are 1000 tools, of which the nearest are: look_042, look_002, look_012, look_022, look_024.
    ");
}
