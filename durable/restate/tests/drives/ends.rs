//! Attempts that end with errors, decisions and cancellations.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use toolwright_module::approval::Decision;
use toolwright_module::error::{ContextExceeded, Stage};
use toolwright_module::message::{Image, ReplyPart, ToolResult};
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Cancellation, Context, Contract, Effect, Error, Message, Reply, Request, Tool, ToolCall,
    ToolOutput, from_fn,
};
use toolwright_orchestrator::perform::Record;
use toolwright_orchestrator::{
    Agent, ApprovalPolicy, Compaction, ConversationSummary, Limits, Summarize, Summarizer,
};

use super::memory::{End, Entry, Fate, Workflow, workflow};
use super::world::{Look, World, calls};
use crate::record::Question;
use crate::restate::Restate;

const TASK: &str = "Tidy up.";

async fn attempt(workflow: &Workflow, agent: &Agent, cx: &Context) -> End {
    workflow.attempt(&Restate::default(), agent, TASK, cx, Fate::default()).await
}

fn asks(world: &World) -> Agent {
    let said = [calls([("a", "tidy", "the hall")]), Reply::text("Done.")];
    let agent = Agent::new(world.model("house", said), world.tools()).unwrap();
    agent.with_approval(ApprovalPolicy::from_effect(Effect::Write)).unwrap()
}

#[tokio::test]
async fn without_an_approver_a_call_waits_for_a_decision_from_outside() {
    let (world, workflow, cx) = (World::default(), workflow(), Context::default());
    let end = attempt(&workflow, &asks(&world), &cx).await;
    assert!(matches!(end, End::Suspended), "{end:?}");
    let waiting = workflow.waiting();
    assert_eq!((waiting.len(), &*waiting[0].approval.call.name), (1, "tidy"));

    // Arguments that the tool does not take. The attempt ends, and the next one asks again.
    workflow.decide(Decision::Edit { arguments: r#"{"room": 1}"#.to_owned() });
    let end = attempt(&workflow, &asks(&world), &cx).await;
    assert!(format!("{end:?}").contains("Retryable"), "{end:?}");
    let end = attempt(&workflow, &asks(&world), &cx).await;
    assert!(matches!(end, End::Suspended), "{end:?}");
    let refused = workflow.waiting().remove(0).refused.unwrap();
    assert!(refused.contains("$.place"), "{refused}");

    workflow.decide(Decision::Edit { arguments: r#"{"place": "the cellar"}"#.to_owned() });
    let finished = workflow.finished(&asks(&world), &cx).await;
    assert_eq!(finished.answer, "Done.");
    assert_eq!(world.names(), ["ask house 0", "ask house 1", "tidy the cellar"]);
    assert!(workflow.waiting().is_empty());
    let again = workflow.finished(&asks(&world), &cx).await;
    assert_eq!((again.answer, world.count("ask house 0")), (finished.answer, 1));
}

#[tokio::test]
async fn a_cancellation_at_any_moment_ends_the_run_and_each_replay_the_same_way() {
    for cancelled_at in 0..6 {
        let (world, workflow) = (World::default(), workflow());
        let agent = || {
            let said = [calls([("a", "tidy", "1"), ("b", "look", "2")]), Reply::text("Done.")];
            Agent::new(world.model("house", said), world.tools()).unwrap()
        };
        let fate = Fate { cancelled_at: Some(2 * cancelled_at), ..Fate::default() };
        let cx = world.cx();
        let end = workflow.attempt(&Restate::default(), &agent(), TASK, &cx, fate).await;
        let done = world.log.lock().unwrap().len();
        if cancelled_at < 5 {
            let End::Error(error) = end else { panic!("{cancelled_at}: {end:?}") };
            assert!(error.contains("Terminal") && error.contains("409"), "{error}");
            let last = workflow.events().pop().unwrap();
            assert_eq!((&last["event"], &last["stage"]), (&"failed".into(), &"cancelled".into()));
        } else {
            // After the last part, it comes too late.
            assert!(matches!(end, End::Finished(_)), "{end:?}");
        }
        let end = attempt(&workflow, &agent(), &cx).await;
        assert_eq!(matches!(end, End::Finished(_)), cancelled_at == 5, "{end:?}");
        assert_eq!(world.log.lock().unwrap().len(), done, "{cancelled_at}");
    }
}

#[tokio::test]
async fn a_cancellation_ends_the_wait_for_a_person() {
    let (world, workflow, cx) = (World::default(), workflow(), Context::default());
    let fate = Fate { cancelled_at: Some(2), ..Fate::default() };
    let end = workflow.attempt(&Restate::default(), &asks(&world), TASK, &cx, fate).await;
    assert!(format!("{end:?}").contains("409"), "{end:?}");
    assert!(workflow.waiting().is_empty());
    assert_eq!(world.names(), ["ask house 0"]);
}

#[tokio::test]
async fn only_an_error_that_may_go_away_is_tried_again() {
    for is_retryable in [true, false] {
        let (workflow, asked) = (workflow(), Arc::new(AtomicUsize::new(0)));
        let model = || {
            let asked = Arc::clone(&asked);
            Scripted::new(move |_: &Request| match asked.fetch_add(1, Ordering::SeqCst) {
                0 => {
                    let error = Error::other("the provider is out").at(Stage::Provider);
                    Err(error.retryable(is_retryable))
                }
                _ => Ok(Reply::text("Done.")),
            })
        };
        let agent = || Agent::new(model(), []).unwrap();
        let cx = Context::default();
        let end = attempt(&workflow, &agent(), &cx).await;
        let text = format!("{end:?}");
        assert!(text.contains("the provider is out"), "{text}");
        assert_eq!(text.contains("Retryable"), is_retryable, "{text}");
        let end = attempt(&workflow, &agent(), &cx).await;
        // An end is an end: the model is not asked again.
        assert_eq!(matches!(end, End::Finished(_)), is_retryable, "{end:?}");
        assert_eq!(asked.load(Ordering::SeqCst), if is_retryable { 2 } else { 1 });
    }
}

#[tokio::test]
async fn a_write_that_failed_is_made_again_without_a_question() {
    let (world, workflow) = (World::default(), workflow());
    let agent = || {
        let failing = world.clone();
        let tool = from_fn(move |_: Look| {
            failing.note("tried".to_owned());
            let is_first = failing.count("tried") == 1;
            async move {
                match is_first {
                    true => Err(Error::stop("the service is out").retryable(true)),
                    false => Ok("fine".to_owned()),
                }
            }
        });
        let tool = Tool::new(tool.with_effect(Effect::Write)).unwrap().named("tidy").unwrap();
        let said = [calls([("a", "tidy", "1")]), Reply::text("Done.")];
        Agent::new(world.model("house", said), [tool]).unwrap()
    };
    let end = attempt(&workflow, &agent(), &world.cx()).await;
    assert!(format!("{end:?}").contains("Retryable"), "{end:?}");
    assert_eq!(workflow.finished(&agent(), &world.cx()).await.answer, "Done.");
    assert_eq!(world.names(), ["ask house 0", "ask house 1", "tried"]);
}

#[tokio::test]
async fn a_result_that_is_too_large_is_not_recorded_and_the_model_gets_the_reason() {
    let workflow = workflow();
    let tool = from_fn(async |_: Look| Ok("x".repeat(100_000))).with_effect(Effect::Read);
    let tool = Tool::new(tool).unwrap().named("look").unwrap();
    let model =
        Scripted::new(|request: &Request| match request.messages.last().map(|last| &**last) {
            Some(Message::Tool { .. }) => Ok(Reply::text("Done.")),
            _ => Ok(calls([("a", "look", "1")])),
        });
    let agent = Agent::new(model, [tool]).unwrap();
    let restate = Restate { max_result_bytes: 50_000, ..Restate::default() };
    let cx = Context::default();
    let end = workflow.attempt(&restate, &agent, TASK, &cx, Fate::default()).await;
    let End::Finished(finished) = end else { panic!("{end:?}") };
    let told = serde_json::to_string(&finished.history).unwrap();
    assert!(told.contains("its result of 65"), "{told}");
    let journal = format!("{:?}", workflow.entries.lock().unwrap());
    assert!(journal.len() < 50_000, "{}", journal.len());
}

/// Pictures of a place.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Photograph {
    place: String,
}

impl toolwright_module::Signature for Photograph {
    type Output = Vec<Image>;
}

#[tokio::test]
async fn a_picture_does_not_count_for_the_limit_of_a_text_and_too_many_are_left_out() {
    let workflow = workflow();
    let tool = from_fn(async |_: Photograph| {
        // The last one has room. But it would be the third one for the model.
        Ok([1 << 20, 10 << 20, 10 << 20, 1 << 10]
            .map(|size| Image::bytes("image/png", vec![1; size]))
            .to_vec())
    });
    let tool = Tool::new(tool.with_effect(Effect::Read)).unwrap().named("look").unwrap();
    let said = [calls([("a", "look", "1")]), Reply::text("Done.")];
    let agent = Agent::new(World::default().model("house", said), [tool]).unwrap();
    let agent = agent.with_limits(Limits { max_part_bytes: 1 << 30, ..Limits::default() });
    let restate = Restate { max_result_bytes: 50_000, ..Restate::default() };
    let end = workflow.attempt(&restate, &agent, TASK, &Context::default(), Fate::default()).await;
    let End::Finished(finished) = end else { panic!("not finished") };
    let result = finished.history.iter().find_map(|message| match &**message {
        Message::Tool(result) => Some(result),
        _ => None,
    });
    let result = result.unwrap();
    assert_eq!((result.failed, result.parts.len()), (false, 2));
    assert!(result.text.contains("[image 1]"), "{}", result.text);
    assert!(result.text.contains("2 of 4 images or files are left out"), "{}", result.text);
}

/// Restate takes messages of 32 MiB.
#[tokio::test]
async fn what_is_sent_after_a_compaction_has_no_more_pictures_than_a_message_takes() {
    let workflow = workflow();
    let tool = from_fn(async |_: Photograph| Ok(vec![Image::bytes("image/png", vec![1; 7 << 20])]));
    let tool = Tool::new(tool.with_effect(Effect::Read)).unwrap().named("look").unwrap();
    let (asked, seen) = (AtomicUsize::default(), Arc::new(Mutex::new(Vec::new())));
    let last = Arc::clone(&seen);
    let model = Scripted::new(move |request: &Request| {
        match asked.fetch_add(1, Ordering::Relaxed) {
            nth @ 0..6 => {
                let mut reply = calls([(&*nth.to_string(), "look", "1")]);
                // The first round is most of the conversation.
                let text = if nth == 0 { "word ".repeat(100_000) } else { String::new() };
                reply.parts.insert(0, ReplyPart::Text(text.into()));
                return Ok(reply);
            }
            6 => {
                let exceeded = ContextExceeded::new(Some(90_000), Some(80_000));
                return Err(Error::other("too long").with_context_exceeded(exceeded));
            }
            _ => {}
        }
        *last.lock().unwrap() = request.messages.to_vec();
        Ok(Reply::text("Done."))
    });
    let summarizer = from_fn(async |_: Summarize| {
        Ok(ConversationSummary { summary: "Pictures were made.".to_owned() })
    });
    let compaction = Compaction {
        clears_results: false,
        summarizer: Some(Summarizer::new(summarizer)),
        ..Compaction::default()
    };
    let limits = Limits { max_part_bytes: 1 << 30, ..Limits::default() };
    let agent = Agent::new(model, [tool]).unwrap().with_limits(limits);
    let agent = agent.with_compaction(compaction).unwrap();
    let end = workflow
        .attempt(&Restate::default(), &agent, TASK, &Context::default(), Fate::default())
        .await;
    let End::Finished(_) = end else { panic!("not finished") };
    let results: Vec<_> = seen
        .lock()
        .unwrap()
        .iter()
        .filter_map(|message| match &**message {
            Message::Tool(result) => Some((result.parts.len(), result.text.contains("left out"))),
            _ => None,
        })
        .collect();
    assert_eq!(results, [(0, true), (0, true), (1, false), (1, false)]);
    for entry in &*workflow.entries.lock().unwrap() {
        if let Entry::Run { name, result } = entry {
            let length = serde_json::to_string(result).unwrap().len();
            assert!(length < 32 << 20, "{name} has {length} bytes");
        }
    }
}

#[tokio::test]
async fn a_whole_text_is_kept_as_far_as_a_message_has_room() {
    let workflow = workflow();
    let contract = Contract::dynamic("look", "Look.", json!({"type": "object"}), None).unwrap();
    // Each character has six bytes in JSON.
    let tool = Tool::dynamic(contract, Effect::Read, |_, _| async {
        Ok(ToolOutput::text_only("\u{1}".repeat(2 << 20)))
    });
    let agent = || {
        let last = r#"{"id": "a", "from": 1398100}"#;
        let said = [
            calls([("a", "look", "1")]),
            Reply::calls([ToolCall::new("b", "read_result", last)]),
            Reply::text("Done."),
        ];
        let agent = Agent::new(World::default().model("house", said), [tool.clone()]).unwrap();
        agent.with_result_reading().unwrap()
    };
    let restate = Restate { max_result_bytes: 500_000, ..Restate::default() };
    let drive = async || {
        let cx = Context::default();
        let end = workflow.attempt(&restate, &agent(), TASK, &cx, Fate::default()).await;
        let End::Finished(finished) = end else { panic!("not finished") };
        finished
    };
    let finished = drive().await;
    let results: Vec<&ToolResult> = finished
        .history
        .iter()
        .filter_map(|message| match &**message {
            Message::Tool(result) => Some(result),
            _ => None,
        })
        .collect();
    assert_eq!(results[0].whole.as_ref().map(|whole| whole.len()), Some((8 << 20) / 6));
    assert!(results[1].text.contains("the rest was not kept"), "{}", results[1].text);
    assert!(drive().await.history == finished.history);
}

#[tokio::test]
async fn a_journal_of_another_task_stops_the_attempt_and_not_the_run() {
    let (world, workflow) = (World::default(), workflow());
    let finished = workflow.finished(&world.house(), &world.cx()).await;
    let other = "Do something else.";
    let (restate, fate) = (Restate::default(), Fate::default());
    let end = workflow.attempt(&restate, &world.house(), other, &world.cx(), fate).await;
    let text = format!("{end:?}");
    assert!(text.contains("Retryable") && text.contains("another task"), "{text}");
    let again = workflow.finished(&world.house(), &world.cx()).await;
    assert_eq!(again.history, finished.history);
}

#[tokio::test]
async fn a_deadline_of_the_context_ends_the_run() {
    let workflow = workflow();
    let tool = from_fn(async |_: Look| {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(String::new())
    });
    let tool = Tool::new(tool.with_effect(Effect::Read)).unwrap().named("look").unwrap();
    let world = World::default();
    let said = [calls([("a", "look", "1")]), Reply::text("Done.")];
    let agent = Agent::new(world.model("house", said), [tool]).unwrap();
    let cx = Context::default().with_deadline(Instant::now() + Duration::from_millis(50));
    let end = attempt(&workflow, &agent, &cx).await;
    let text = format!("{end:?}");
    assert!(text.contains("Terminal") && text.contains("deadline"), "{text}");
}

#[tokio::test]
async fn the_listener_gets_each_record_once() {
    let (world, workflow, heard) = (World::default(), workflow(), Arc::new(Mutex::new(Vec::new())));
    let hears = Arc::clone(&heard);
    let restate = Restate {
        listener: Some(Arc::new(move |id, record| {
            let Record::Ended { part, .. } = record else { panic!("{record:?}") };
            hears.lock().unwrap().push(format!("{id} {part}"));
        })),
        ..Restate::default()
    };
    for _ in 0..2 {
        let (agent, cx) = (world.house(), world.cx());
        let end = workflow.attempt(&restate, &agent, TASK, &cx, Fate::default()).await;
        assert!(matches!(end, End::Finished(_)), "{end:?}");
    }
    let heard = heard.lock().unwrap();
    // 4 + 3 + 3 questions, 3 + 1 calls, and 2 calls of each agent below.
    assert_eq!(heard.len(), 18, "{heard:?}");
    assert_eq!(heard[0], r#"run-1 ["ask","","0"]"#);
}

/// Returns an agent whose first call is an agent that always fails.
fn above_a_failing_one(world: &World) -> Agent {
    let noted = world.clone();
    let fails = Scripted::new(move |_: &Request| {
        noted.note("ask below".to_owned());
        Err(Error::other("the key is wrong").at(Stage::Provider))
    });
    let below = Tool::new(Agent::new(fails, []).unwrap()).unwrap();
    let task = ToolCall::new("h", "hall", r#"{"task": "Do it."}"#);
    let said = [Reply::calls([task]), Reply::text("It failed.")];
    let model = world.model("house", said);
    Agent::new(model, [below.named("hall").unwrap()]).unwrap()
}

#[tokio::test]
async fn an_agent_below_fails_as_it_does_without_restate() {
    let (world, workflow) = (World::default(), workflow());
    let plain = above_a_failing_one(&world).run(TASK, &Context::default()).await.unwrap();
    for _ in 0..2 {
        let agent = above_a_failing_one(&world);
        let finished = workflow.finished(&agent, &Context::default()).await;
        assert_eq!(finished.answer, plain.answer);
        assert_eq!(finished.history, plain.history);
    }
    assert_eq!(world.count("ask below"), 2);
}

#[tokio::test]
async fn a_cancellation_of_the_context_ends_the_run() {
    let (world, workflow, cancellation) = (World::default(), workflow(), Cancellation::default());
    let cancels = cancellation.clone();
    let tool = from_fn(move |_: Look| {
        let cancels = cancels.clone();
        async move {
            cancels.cancel();
            std::future::pending::<()>().await;
            Ok(String::new())
        }
    });
    let tool = Tool::new(tool.with_effect(Effect::Write)).unwrap().named("tidy").unwrap();
    let said = [calls([("a", "tidy", "1")]), Reply::text("Done.")];
    let agent = Agent::new(world.model("house", said), [tool]).unwrap();
    let cx = Context::default().with_cancellation(cancellation);
    let end = attempt(&workflow, &agent, &cx).await;
    assert!(format!("{end:?}").contains("Terminal"), "{end:?}");
    let cx = Context::default();
    let again = attempt(&workflow, &agent, &cx).await;
    assert_eq!(format!("{again:?}"), format!("{end:?}"));
}

#[tokio::test]
async fn a_run_whose_context_is_cancelled_asks_nobody_again() {
    let (world, workflow, cancellation) = (World::default(), workflow(), Cancellation::default());
    let cx = Context::default().with_cancellation(cancellation.clone());
    assert!(matches!(attempt(&workflow, &asks(&world), &cx).await, End::Suspended));
    workflow.decide(Decision::Approve);
    cancellation.cancel();
    let end = attempt(&workflow, &asks(&world), &cx).await;
    assert!(format!("{end:?}").contains("Terminal"), "{end:?}");
}

#[tokio::test]
async fn a_decision_holds_for_the_call_that_the_person_saw() {
    let (world, workflow, cx) = (World::default(), workflow(), Context::default());
    assert!(matches!(attempt(&workflow, &asks(&world), &cx).await, End::Suspended));
    // Something else changed the state, so the person saw another call.
    let other = |question: &mut Question| {
        question.approval.call.arguments = r#"{"place": "the attic"}"#.to_owned();
    };
    workflow.decide_on(other, Decision::Approve);
    assert!(matches!(attempt(&workflow, &asks(&world), &cx).await, End::Suspended));
    let question = workflow.waiting().remove(0);
    assert!(question.refused.unwrap().contains("another call"));
    assert_eq!(world.count("tidy the hall"), 0);
    workflow.decide(Decision::Approve);
    assert_eq!(workflow.finished(&asks(&world), &cx).await.answer, "Done.");
    assert_eq!(world.count("tidy the hall"), 1);
}
