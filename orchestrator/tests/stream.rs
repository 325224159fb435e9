//! Runs as streams of events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use toolwright_module::error::Stage;
use toolwright_module::event::{Event, EventKind};
use toolwright_module::{Effect, Error, Reply, Tool, ToolCall};
use toolwright_orchestrator::{Agent, Progress};

use crate::support::{Log, Look, agent, calls, look, replies, soon, tool};

#[tokio::test]
async fn a_stream_has_the_events_in_order_and_the_result_last() {
    let said = [calls([("1", "look", "a")]), Reply::text("Done.")];
    let (below, _) = agent([look()], said);
    let helper = Tool::new(below).unwrap().named("helper").unwrap();
    let ask = Reply::calls([ToolCall::new("h", "helper", r#"{"task": "Go."}"#)]);
    let (model, _) = replies([ask, Reply::text("Ok.")]);
    let agent = Agent::new(model, [helper]).unwrap();

    let listened = Log::default();
    let heard = listened.clone();
    let cx = soon().with_events(move |event| heard.write(serde_json::to_string(event).unwrap()));
    let mut stream = agent.stream("Go.", &cx);
    let (mut lines, mut finished) = (Vec::new(), None);
    while let Some(progress) = stream.next().await {
        assert!(finished.is_none(), "something after the end");
        match progress.unwrap() {
            Progress::Event(event) => lines.push(serde_json::to_string(&event).unwrap()),
            Progress::Finished(done) => finished = Some(done),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(finished.unwrap().answer, "Ok.");
    // Another listener gets the same events.
    assert_eq!(lines, listened.entries());
    for line in &lines {
        let event: Event = serde_json::from_str(line).unwrap();
        assert_eq!(&serde_json::to_string(&event).unwrap(), line);
    }
    let without_times: Vec<String> = lines
        .iter()
        .map(|line| {
            let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
            if let Some(elapsed) = event.get_mut("elapsed") {
                *elapsed = "…".into();
            }
            event.to_string()
        })
        .collect();
    insta::assert_snapshot!(without_times.join("\n"));
}

#[tokio::test]
async fn a_stream_runs_only_while_it_is_polled() {
    let calls_made = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls_made);
    let wait = tool("wait", Effect::Read, move |_: Look| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::pending()
    });
    let (agent, asked) = agent([wait], [calls([("1", "wait", "a")])]);
    drop(agent.stream("Go.", &soon()));
    assert!(asked.requests().is_empty());
    let mut stream = agent.stream("Go.", &soon());
    while let Some(progress) = stream.next().await {
        if let Ok(Progress::Event(event)) = progress
            && matches!(event.kind, EventKind::ToolStarted { .. })
        {
            break;
        }
    }
    drop(stream);
    assert_eq!((asked.requests().len(), calls_made.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn an_error_is_an_event_and_ends_the_stream() {
    let (agent, _) =
        agent([], [Reply::text("No.").with_finish(toolwright_module::model::Finish::Refused)]);
    let all: Vec<_> = agent.stream("Go.", &soon()).collect().await;
    let [.., Ok(Progress::Event(last)), Err(error)] = &all[..] else { panic!("{all:?}") };
    assert_eq!(error.stage(), Stage::Provider);
    assert!(matches!(last.kind, EventKind::Done { .. }), "{last:?}");
}

#[tokio::test]
async fn progress_and_results_can_be_stored() {
    let fails = tool("look", Effect::Read, async |_: Look| Err(Error::other("no light")));
    let call = ToolCall::new("1", "look", r#"{"place": 3}"#);
    let said = [Reply::calls([call]), Reply::text("ok")];
    let (agent, _) = agent([fails], said);
    let mut stream = agent.stream("Go.", &soon());
    let mut ended = None;
    while let Some(progress) = stream.next().await {
        let progress = progress.unwrap();
        let text = serde_json::to_string(&progress).unwrap();
        assert_eq!(serde_json::from_str::<Progress>(&text).unwrap(), progress);
        if let Progress::Finished(finished) = progress {
            assert!(
                text.starts_with(r#"{"finished":{"answer":"ok","ending":"answered""#),
                "{text}"
            );
            ended = Some(finished);
        }
    }
    assert_eq!(ended.unwrap().failures.len(), 1);
}
