//! Faults around a compaction: limits, summarizers that fail, servers without numbers, other versions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use toolwright_module::error::{ContextExceeded, Stage};
use toolwright_module::event::EventKind;
use toolwright_module::message::{Opaque, ReplyPart};
use toolwright_module::model::{Settings, Usage};
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Effect, Error, Message, Reply, Request, Result, from_fn};
use toolwright_orchestrator::perform::{PartIdKind, Replay, with_performer};
use toolwright_orchestrator::{
    Agent, Compaction, ConversationSummary, Edited, Ending, Limits, Run, Summarize, Summarizer,
    Task,
};

use super::{Server, agent, go, look, rules, tokens, whole_text};
use crate::support::{call, soon, tool};

fn summarizer<F, Fut>(summarize: F) -> Option<Summarizer>
where
    F: Fn(Summarize) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ConversationSummary>> + Send + 'static,
{
    Some(Summarizer::new(from_fn(summarize)))
}

fn summaries(summarizer: Option<Summarizer>) -> Compaction {
    Compaction { clears_results: false, summarizer, ..rules(Some(4000)) }
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_a_summary_reaches_ends_the_run_as_a_limit() {
    let hangs = || {
        summarizer(async |_| {
            tokio::time::sleep(Duration::from_secs(1000)).await;
            Ok(ConversationSummary { summary: "late".to_owned() })
        })
    };
    let server = Server::new(4000, 30);
    let agent = agent(&server, summaries(hangs()));
    let limits = Limits { max_time: Some(Duration::from_secs(60)), ..agent.limits().clone() };
    let agent = agent.with_limits(limits);
    let journal = Replay::in_memory([]);
    for replayed in [false, true] {
        let cx = match replayed {
            false => with_performer(&Context::default(), journal.clone()),
            true => with_performer(&Context::default(), Replay::in_memory(journal.records())),
        };
        let finished = agent.run("Look at every room.", &cx).await.unwrap();
        assert_eq!(finished.ending, Ending::LimitReached, "replayed: {replayed}");
        server.requests.lock().unwrap().clear();
    }
}

#[tokio::test]
async fn a_summarizer_that_panics_is_replaced_and_one_that_may_be_tried_again_is_not() {
    let server = Server::new(4000, 30);
    let panics =
        summarizer(|_| -> std::future::Ready<Result<ConversationSummary>> { panic!("no summary") });
    let (run, finished) = go(&agent(&server, summaries(panics)), &soon()).await;
    assert_eq!(finished.answer, "Done.");
    assert!(run.compactions()[0].summary.as_ref().unwrap().contains("- called look"));

    let restarts = summarizer(async |_| Err(Error::other("it restarts").retryable(true)));
    let agent = agent(&Server::new(4000, 30), summaries(restarts));
    let error = agent.run("Look at every room.", &soon()).await.unwrap_err();
    assert!(error.is_retryable(), "{error:#}");
}

/// An error of the key, the account or the server would hit the next request of the run, too.
#[tokio::test]
async fn only_a_refused_summary_is_replaced_by_a_list() {
    let broke = || Error::other("the account has no credit left").at(Stage::Provider);
    for is_refused in [false, true] {
        let server = Server::new(4000, 30);
        let of_run = server.clone();
        let model = Scripted::new(move |request: &Request| {
            if request.tools.iter().any(|tool| tool.name() == "look") {
                return of_run.answer(request);
            }
            Err(if is_refused { broke().with_request_refused() } else { broke() })
        });
        let agent = agent(&server, summaries(None)).with_model(model).unwrap();
        let journal = Replay::in_memory([]);
        let cx = with_performer(&soon(), journal.clone());
        let ended = agent.run("Look at every room.", &cx).await;
        let compacted = journal.records().iter().any(|record| {
            let part = record.part().map(|part| &part.kind);
            matches!(part, Some(PartIdKind::Compact { .. }))
        });
        assert_eq!((ended.is_ok(), compacted), (is_refused, is_refused));
        if let Err(error) = ended {
            assert_eq!(error.to_string(), "the account has no credit left");
        }
    }
}

/// A user interface would otherwise show the text of a summary as that of the answer.
#[tokio::test]
async fn the_events_of_a_summary_have_a_path_of_their_own() {
    let (server, heard) = (Server::new(4000, 30), Arc::new(Mutex::new(Vec::new())));
    let events = Arc::clone(&heard);
    let cx = soon().with_events(move |event| events.lock().unwrap().push(event.clone()));
    let (run, _) = go(&agent(&server, summaries(None)), &cx).await;
    let (mut own, mut below) = (0, Vec::new());
    for event in heard.lock().unwrap().iter() {
        let EventKind::ModelReplied { reply, .. } = &event.kind else { continue };
        let is_summary = reply.to_text().contains("Rooms were looked at.");
        match &event.path[..] {
            [] => own += 1,
            [call] => below.push((call.tool.clone(), call.id.clone())),
            more => panic!("{more:?}"),
        }
        assert_eq!(is_summary, !event.path.is_empty());
    }
    // A long conversation is summarized in pieces.
    below.dedup();
    let expected = run.compactions().iter().filter(|made| made.summary.is_some());
    let expected: Vec<_> =
        expected.map(|made| ("compact".to_owned(), made.request.to_string())).collect();
    assert_eq!((own, below), (31, expected));
}

#[tokio::test]
async fn the_list_of_calls_has_the_last_ones() {
    let server = Server::new(4000, 60);
    let none = summarizer(async |_| Err(Error::retry("no summary")));
    let (run, _) = go(&agent(&server, summaries(none)), &soon()).await;
    let last = run.compactions().last().unwrap();
    let summary = last.summary.as_ref().unwrap();
    let newest = format!("room {}\"", last.request - 4);
    assert!(summary.contains(&newest), "{newest} is not in {summary}");
    assert_eq!(summary.matches("(earlier lines are left out)").count(), 1, "{summary}");
}

/// A refusal without numbers of a short request says nothing about the window.
#[tokio::test]
async fn a_refusal_of_a_short_request_is_not_taken_for_the_window() {
    for window in [None, Some(200_000)] {
        let asked = Arc::new(Mutex::new(0));
        let nth = Arc::clone(&asked);
        let model = Scripted::new(move |request: &Request| {
            if request.tools.is_empty() {
                return Ok(Reply::text(r#"{"summary": "Looked."}"#));
            }
            let mut nth = nth.lock().unwrap();
            *nth += 1;
            let usage = Usage::new(tokens(request), 20);
            match *nth {
                5 => Err(Error::other("too large")
                    .with_context_exceeded(ContextExceeded::new(None, None))),
                nth if nth < 60 => {
                    let call = call("", "look", &format!("room {nth}"));
                    Ok(Reply::calls([call]).with_usage(usage))
                }
                _ => Ok(Reply::text("Done.").with_usage(usage)),
            }
        });
        let limits = Limits { max_iterations: 100, ..Limits::default() };
        let agent = Agent::new(model, [look()]).unwrap().with_limits(limits);
        let compaction = Compaction { window, ..Compaction::default() };
        let agent = agent.with_compaction(compaction).unwrap();
        let (run, _) = go(&agent, &soon()).await;
        assert!(run.compactions().len() <= 1, "{}", run.compactions().len());
        assert!(run.compactions().iter().all(|made| made.window.is_none()));
    }
}

#[tokio::test]
async fn a_task_before_results_stays() {
    let server = Server::new(4000, 30);
    let agent = agent(&server, summaries(None));
    let history = [
        Message::user("The old task."),
        Message::assistant("Done."),
        Message::user("The current task."),
        Arc::new(Message::Assistant { parts: vec![ReplyPart::Call(call("1", "look", "room 1"))] }),
    ];
    let mut run = agent.start(Task::default().with_history(history)).unwrap();
    agent.drive(&mut run, &soon()).await.unwrap();
    let text = whole_text(server.requests.lock().unwrap().last().unwrap());
    assert!(text.contains("The current task.") && !text.contains("The old task."), "{text}");
}

#[tokio::test]
async fn what_stands_beside_a_providers_compaction_is_summarized() {
    let item = Opaque::new("p", serde_json::json!({"type": "compaction", "content": "…"}));
    let history = [
        Message::user("The old task."),
        Arc::new(Message::Assistant {
            parts: vec![ReplyPart::Other(item), ReplyPart::text("The code is 4711.")],
        }),
    ];
    let asked = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&asked);
    let own = summarizer(move |ask: Summarize| {
        kept.lock().unwrap().push_str(&ask.conversation);
        async { Ok(ConversationSummary { summary: "Looked.".to_owned() }) }
    });
    let server = Server::new(4000, 30);
    let agent = agent(&server, summaries(own));
    let mut run = agent.start(Task::new("Look at every room.").with_history(history)).unwrap();
    agent.drive(&mut run, &soon()).await.unwrap();
    assert!(asked.lock().unwrap().contains("The code is 4711."));
    assert!(!asked.lock().unwrap().contains("The old task."), "the provider has it");
    let requests = server.requests.lock().unwrap();
    let last = requests.last().unwrap();
    let is_item = |part: &ReplyPart| matches!(part, ReplyPart::Other(_));
    let items = last.iter().filter(
        |message| matches!(&***message, Message::Assistant { parts } if parts.iter().any(is_item)),
    );
    assert_eq!(items.count(), 1, "{}", whole_text(last));
}

#[tokio::test]
async fn a_compacted_run_goes_on_with_another_editor_and_other_instructions() {
    let server = Server::new(4000, 30);
    let journal = Replay::in_memory([]);
    let first = agent(&server, rules(Some(4000)));
    go(&first, &with_performer(&Context::default(), journal.clone())).await;
    let mut records = journal.records();
    records.truncate(records.len() - 2);
    let editor = |run: &Run| {
        let sent = run.sent();
        let last = sent.iter().rposition(|it| matches!(**it, Message::Assistant { .. }))?;
        (last > 2).then(|| Edited::new(last, [Message::user("[left out]")]))
    };
    let server = Server::new(100_000, 0);
    let next = agent(&server, rules(Some(4000))).with_editor(editor).with_instructions("New.");
    let cx = with_performer(&Context::default(), Replay::in_memory(records));
    let (_, finished) = go(&next, &cx).await;
    assert_eq!(finished.answer, "Done.");
    let text = whole_text(server.requests.lock().unwrap().last().unwrap());
    assert!(text.starts_with("system: New.\n"), "{text}");
}

/// The messages of the run then have another number than when it was recorded.
#[tokio::test]
async fn a_compacted_run_goes_on_with_instructions_that_came_or_went() {
    let of = |server: &Server, instructions: Option<&str>| {
        let limits = Limits { max_iterations: 5000, ..Limits::default() };
        let settings = Settings::default().with_max_output_tokens(500);
        let agent = Agent::new(server.model(), [look()]).unwrap().with_limits(limits);
        let agent = agent.with_settings(settings).unwrap();
        let agent = agent.with_compaction(rules(Some(4000))).unwrap();
        match instructions {
            Some(text) => agent.with_instructions(text),
            None => agent,
        }
    };
    for (before, after) in [(None, Some("New.")), (Some("Old."), None)] {
        let journal = Replay::in_memory([]);
        let cx = with_performer(&Context::default(), journal.clone());
        go(&of(&Server::new(4000, 30), before), &cx).await;
        let mut records = journal.records();
        records.truncate(records.len() - 2);
        let server = Server::new(100_000, 0);
        let cx = with_performer(&Context::default(), Replay::in_memory(records));
        let (_, finished) = go(&of(&server, after), &cx).await;
        assert_eq!(finished.answer, "Done.");
        let text = whole_text(server.requests.lock().unwrap().last().unwrap());
        assert_eq!(text.contains("system: New."), after.is_some(), "{text}");
        assert!(!text.contains("Old."), "{text}");
        assert_eq!(text.matches("tool call_29_0: ").count(), 1, "{text}");
    }
}

#[tokio::test]
async fn a_request_for_a_summary_that_is_refused_is_made_smaller() {
    let long: Vec<Arc<Message>> = (0..200)
        .flat_map(|nth| {
            [Message::user(format!("{nth} {}", "word ".repeat(200))), Message::assistant("Yes.")]
        })
        .collect();
    let refused = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&refused);
    let model = Scripted::new(move |request: &Request| {
        // No numbers, so the window is not known.
        if tokens(request) > 16_000 {
            *counted.lock().unwrap() += usize::from(request.tools.is_empty());
            let exceeded = ContextExceeded::new(None, None);
            return Err(Error::other("too long").with_context_exceeded(exceeded));
        }
        let text = if request.tools.is_empty() { r#"{"summary": "Words."}"# } else { "Done." };
        Ok(Reply::text(text))
    });
    let nothing = tool("look", Effect::Read, async |_| Ok(String::new()));
    let agent = Agent::new(model, [nothing]).unwrap();
    let agent = agent.with_settings(Settings::default().with_max_output_tokens(500)).unwrap();
    let agent = agent.with_compaction(Compaction::default()).unwrap();
    let mut run = agent.start(Task::new("Go on.").with_history(long)).unwrap();
    agent.drive(&mut run, &soon()).await.unwrap();
    assert!(*refused.lock().unwrap() > 0);
    assert_eq!(run.compactions()[0].summary.as_deref(), Some("Words."));
}
