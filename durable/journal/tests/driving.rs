//! Runs that are started, continued and repeated.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{self, Waker};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_journal::{Journal, JournalError, Options, RunStatus};
use toolwright_module::budget::Budget;
use toolwright_module::error::Stage;
use toolwright_module::predict::Validator;
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Effect, Error, Message, Reply, Signature, ToolCall};
use toolwright_orchestrator::perform::{Record, value};
use toolwright_orchestrator::{Agent, Limits, Task, Unfinished};

use crate::support::{TASK, World, calls, drive, folder, journals, react, tool};

#[tokio::test]
async fn the_same_id_and_task_give_the_same_answer_and_another_task_is_an_error() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let (first, counts) = drive(&journal, World::small).await;
    let first = first.unwrap();
    assert_eq!((first.answer.as_str(), counts), ("Done.", [3, 1, 1, 0]));
    let (again, counts) = drive(&journal, World::small).await;
    assert_eq!((again.unwrap(), counts), (first.clone(), [0; 4]));

    let world = World::default();
    let (agent, cx) = (world.small(), world.cx());
    let with_history =
        Task::new(TASK).with_history([Message::user("Hi."), Message::assistant("Hello.")]);
    for task in [Task::new("Something else."), with_history] {
        let error = journal.drive(&agent, "run", task, &cx).await.unwrap_err();
        assert_eq!(error.stage(), Stage::Journal);
        assert!(matches!(journals(&error), JournalError::OtherTask { .. }), "{error:#}");
    }
    // Other instructions are the same task: a deploy may reword them.
    let reworded = world.small().with_instructions("Be quick.");
    assert_eq!(journal.drive(&reworded, "run", TASK, &cx).await.unwrap(), first);
    assert_eq!(world.counts(), [0; 4]);
    let error = journal.drive(&agent, "", TASK, &cx).await.unwrap_err();
    assert!(matches!(journals(&error), JournalError::NoId));
}

/// Add two numbers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

impl Signature for Add {
    type Output = i64;
}

/// Say two numbers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Name {
    a: i64,
    b: i64,
}

impl Signature for Name {
    type Output = String;
}

#[tokio::test]
async fn a_typed_run_has_its_output_again() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let cx = Context::default();
    let sum = Reply::calls([ToolCall::new("1", "finish", r#"{"result": 5}"#)]);
    let add = Add { a: 2, b: 3 };
    let sums = react::<Add>(Scripted::replies([sum]), []);
    let (agent, task) = (sums.agent(), sums.task(&add).unwrap());
    assert_eq!(journal.drive(agent, "sum", task.clone(), &cx).await.unwrap().answer, 5);
    assert_eq!(journal.drive(agent, "sum", task, &cx).await.unwrap().answer, 5);

    // Another signature, and a run without one.
    let name = react::<Name>(Scripted::replies([]), []);
    let task = name.task(&Name { a: 2, b: 3 }).unwrap();
    let error = journal.drive(name.agent(), "sum", task, &cx).await.unwrap_err();
    assert!(matches!(journals(&error), JournalError::OtherTask { .. }), "{error:#}");
    let plain = Agent::new(Scripted::replies([]), []).unwrap();
    let task = serde_json::to_string(&add).unwrap();
    let error = journal.drive(&plain, "sum", task, &cx).await.unwrap_err();
    assert!(matches!(journals(&error), JournalError::OtherTask { .. }), "{error:#}");
}

#[tokio::test]
async fn an_answer_is_recorded_as_it_is_written_whatever_its_floats_and_its_levels() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Measure {
        place: String,
    }

    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug, Clone)]
    struct Tree {
        rate: f32,
        below: Option<Box<Tree>>,
    }

    impl Signature for Measure {
        type Output = Tree;
    }

    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let cx = Context::default();
    for levels in 0..130 {
        let tree = (0..levels).fold(Tree { rate: 0.1, below: None }, |tree, _| Tree {
            rate: 0.1,
            below: Some(Box::new(tree)),
        });
        let answer = serde_json::to_string(&tree).unwrap();
        let finish = Reply::calls([ToolCall::new("1", "finish", answer.as_str())]);
        let react = react::<Measure>(Scripted::replies([finish]), []);
        let task = react.task(&Measure { place: "hall".to_owned() }).unwrap();
        let id = format!("run-{levels}");
        let Ok(first) = journal.drive(react.agent(), &id, task.clone(), &cx).await else {
            assert!(levels > 100, "{levels}");
            continue;
        };
        assert_eq!(first.answer, tree);
        let again = journal.drive(react.agent(), &id, task, &cx).await.unwrap_or_else(|error| {
            panic!("{levels} levels: {error:#}");
        });
        assert_eq!(again, first);
        let read = journal.finished::<serde_json::Value>(&id).unwrap().unwrap().answer;
        assert_eq!(read.to_string(), answer);
    }
}

#[tokio::test]
async fn an_answer_keeps_the_digits_of_its_integers() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Count {
        what: String,
    }

    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug, Clone)]
    struct Counted {
        number: u128,
        debt: i128,
    }

    impl Signature for Count {
        type Output = Counted;
    }

    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let cx = Context::default();
    let counted = Counted { number: u128::MAX, debt: i128::MIN };
    let answer = serde_json::to_string(&counted).unwrap();
    let finish = Reply::calls([ToolCall::new("1", "finish", answer.as_str())]);
    let react = react::<Count>(Scripted::replies([finish]), []);
    let task = react.task(&Count { what: "stars".to_owned() }).unwrap();
    let first = journal.drive(react.agent(), "run", task.clone(), &cx).await.unwrap();
    assert_eq!(first.answer, counted);
    assert_eq!(journal.drive(react.agent(), "run", task, &cx).await.unwrap(), first);
    assert_eq!(journal.finished::<Counted>("run").unwrap().unwrap().answer, counted);
}

#[tokio::test]
async fn a_provider_that_was_down_is_asked_again_and_the_rest_is_not() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let cx = Context::default();
    let said = Mutex::new(vec![
        Ok(calls([("a", "look", "the hall")])),
        Err("the provider is down"),
        Ok(Reply::text("Done.")),
    ]);
    let model = Scripted::new(move |_| {
        let next = said.lock().unwrap().remove(0);
        next.map_err(|text| Error::stop(text).at(Stage::Transport))
    });
    let world = World::default();
    let agent = Agent::new(model, [world.look()]).unwrap();
    let error = journal.drive(&agent, "run", TASK, &cx).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Transport);
    let run = journal.run("run").unwrap();
    assert_eq!(run.status, RunStatus::Open);
    let why = run.error.unwrap();
    assert!(why.starts_with("the provider is down"), "{why}");
    assert_eq!(journal.drive(&agent, "run", TASK, &cx).await.unwrap().answer, "Done.");
    let run = journal.run("run").unwrap();
    assert_eq!((run.status, run.error), (RunStatus::Finished, None));
    assert_eq!(world.counts()[1], 1);
}

#[tokio::test]
async fn a_refused_task_has_failed() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let refused = || {
        Scripted::new(|_| {
            Ok(Reply::text("No.").with_finish(toolwright_module::model::Finish::Refused))
        })
    };
    let agent = Agent::new(refused(), []).unwrap();
    for _ in 0..2 {
        let error = journal.drive(&agent, "run", TASK, &Context::default()).await.unwrap_err();
        assert!(error.downcast_ref::<Unfinished>().is_some(), "{error:#}");
        let run = journal.run("run").unwrap();
        // The start, the reply and the failure, once.
        assert_eq!((run.status, run.records), (RunStatus::Failed, 3));
        let entries = journal.entries("run").unwrap();
        let Some((_, Record::Stopped { finished, .. })) = entries.last() else { panic!("no end") };
        // The conversation of a run that has ended is kept, as for one with a result.
        assert_eq!(finished["history"][0]["parts"][0]["text"], "No.");
    }
}

#[tokio::test]
async fn a_result_over_the_limit_is_not_written_and_the_model_reads_why() {
    let folder = folder();
    let journal = Journal::open(folder.path())
        .unwrap()
        .with_options(Options { max_result_bytes: 1_000, ..Options::default() });
    let long = tool("look", Effect::Read, async |_| Ok("x".repeat(2_000)));
    let model = Scripted::replies([calls([("a", "look", "here")]), Reply::text("Done.")]);
    let agent = Agent::new(model, [long]).unwrap();
    let finished = journal.drive(&agent, "run", TASK, &Context::default()).await.unwrap();
    let Message::Tool(result) = &*finished.history[2] else { panic!("{:?}", finished.history) };
    assert!(result.failed);
    assert!(result.text.contains("keeps at most 1000 bytes"), "{}", result.text);
    assert_eq!(finished.failures.len(), 1);
    assert!(journal.run("run").unwrap().bytes < 6_000);
}

#[tokio::test]
async fn the_limits_are_those_of_the_agent_that_drives() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let (world, cx) = (World::default(), Context::default());
    let agent = world.small();
    let short =
        agent.clone().with_limits(Limits { max_time: Some(Duration::ZERO), ..Limits::default() });
    let ended = journal.drive(&short, "short", TASK, &cx).await.unwrap();
    assert!(ended.limit.is_some());
    // A run that has its result keeps it.
    assert_eq!(journal.drive(&agent, "short", TASK, &cx).await.unwrap(), ended);
}

#[tokio::test]
async fn a_tool_has_the_id_the_metadata_and_the_same_key_each_time() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let agent = |fails: bool| {
        let seen = Arc::clone(&seen);
        let pay = SeesContext { seen, fails };
        let pay = toolwright_module::Tool::new(pay).unwrap();
        let said = [calls([("a", "look", "here")]), Reply::text("Done.")];
        Agent::new(World::default().model(said), [pay]).unwrap()
    };
    let cx = Context::default().with_run("anything", [("tenant", "acme")]);
    journal.drive(&agent(true), "run", TASK, &cx).await.unwrap_err();
    // Without the metadata: they are in the journal.
    journal.drive(&agent(false), "run", TASK, &Context::default()).await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0], seen[1]);
    assert_eq!((seen[0].0.as_str(), seen[0].1.as_str()), ("run", "acme"));
    assert_eq!(journal.runs_with("tenant", "acme").unwrap().len(), 1);
}

type Seen = Arc<Mutex<Vec<(String, String, String)>>>;

struct SeesContext {
    seen: Seen,
    fails: bool,
}

impl toolwright_module::Module for SeesContext {
    type Signature = crate::support::Look;

    async fn call(
        &self,
        _: crate::support::Look,
        cx: &Context,
    ) -> toolwright_module::Result<String> {
        let tenant = cx.metadata().unwrap()["tenant"].clone();
        let seen = (cx.run_id().unwrap().to_owned(), tenant, cx.idempotency_key().unwrap());
        self.seen.lock().unwrap().push(seen);
        if self.fails { Err(Error::stop("the power failed")) } else { Ok("paid".to_owned()) }
    }

    fn effect(&self) -> Effect {
        Effect::Idempotent
    }
}

#[tokio::test]
async fn a_dropped_drive_lets_go_of_the_run_even_if_a_tool_kept_its_context() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let kept: Arc<Mutex<Vec<Context>>> = Arc::default();
    let keeps = Keeps { kept: Arc::clone(&kept) };
    let said = [calls([("a", "look", "here")]), Reply::text("Done.")];
    let agent =
        Agent::new(World::default().model(said), [toolwright_module::Tool::new(keeps).unwrap()])
            .unwrap();
    let cx = Context::default();
    let drive = journal.drive(&agent, "run", TASK, &cx);
    tokio::time::timeout(Duration::from_millis(200), drive).await.unwrap_err();
    assert_eq!(kept.lock().unwrap().len(), 1);
    let (result, _) = {
        let world = World::default();
        let said = [calls([("a", "look", "here")]), Reply::text("Done.")];
        let agent = Agent::new(world.model(said), [world.look()]).unwrap();
        (journal.drive(&agent, "run", TASK, &cx).await, world)
    };
    assert_eq!(result.unwrap().answer, "Done.");
}

struct Keeps {
    kept: Arc<Mutex<Vec<Context>>>,
}

impl toolwright_module::Module for Keeps {
    type Signature = crate::support::Look;

    async fn call(
        &self,
        _: crate::support::Look,
        cx: &Context,
    ) -> toolwright_module::Result<String> {
        self.kept.lock().unwrap().push(cx.clone());
        std::future::pending().await
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}

#[tokio::test]
async fn a_write_that_failed_is_made_again_without_a_question() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let cx = Context::default();
    let said = || [calls([("a", "tidy", "here")]), Reply::text("Done.")];
    let fails = tool("tidy", Effect::Write, async |_| Err(Error::stop("the broom broke")));
    let agent = Agent::new(World::default().model(said()), [fails]).unwrap();
    let error = journal.drive(&agent, "run", TASK, &cx).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Module, "{error:#}");
    assert_eq!(journal.run("run").unwrap().status, RunStatus::Open);
    let world = World::default();
    let agent = Agent::new(world.model(said()), [world.tidy()]).unwrap();
    assert_eq!(journal.drive(&agent, "run", TASK, &cx).await.unwrap().answer, "Done.");
    assert_eq!(world.counts(), [1, 0, 1, 0]);
}

#[tokio::test]
async fn a_typed_run_that_reached_a_limit_goes_on_with_a_larger_one() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let (world, cx) = (World::default(), Context::default());
    let said = [
        calls([("a", "look", "here")]),
        Reply::calls([ToolCall::new("1", "finish", r#"{"result": 5}"#)]),
    ];
    let react = react::<Add>(world.model(said), [world.look()]);
    let agent = react.agent();
    let budget = |calls| Limits {
        budget: Budget { model_calls: Some(calls), ..Budget::default() },
        ..Limits::default()
    };
    let short = agent.clone().with_limits(budget(1));
    let add = react.task(&Add { a: 2, b: 3 }).unwrap();
    let error = journal.drive(&short, "sum", add.clone(), &cx).await.unwrap_err();
    assert!(error.downcast_ref::<Unfinished>().is_some(), "{error:#}");
    assert_eq!(journal.run("sum").unwrap().status, RunStatus::Failed);
    let long = agent.clone().with_limits(budget(5));
    assert_eq!(journal.drive(&long, "sum", add, &cx).await.unwrap().answer, 5);
    assert_eq!(world.counts(), [2, 1, 0, 0]);
}

#[tokio::test]
async fn a_drive_dropped_at_any_moment_loses_nothing_that_was_recorded() {
    for pause in [Duration::ZERO, Duration::from_micros(300)] {
        for polls in 1.. {
            let folder = folder();
            let journal = Journal::open(folder.path()).unwrap();
            let (world, again) = (World::default(), World::default());
            let (agent, cx) = (world.small(), world.cx());
            let mut drive = Box::pin(journal.drive(&agent, "run", TASK, &cx));
            let mut is_done = false;
            for _ in 0..polls {
                let polled = drive.as_mut().poll(&mut task::Context::from_waker(Waker::noop()));
                is_done = polled.is_ready();
                if is_done {
                    break;
                }
                std::thread::sleep(pause);
            }
            drop(drive);
            let (agent, cx) = (again.small(), again.cx());
            let finished = journal.drive(&agent, "run", TASK, &cx).await.unwrap();
            assert_eq!(finished.answer, "Done.");
            let ([asks, reads, writes, _], [asks2, reads2, writes2, asked]) =
                (world.counts(), again.counts());
            // A record that was handed over is written, so only one part can be made again, and it
            // had no record.
            assert!((3..=4).contains(&(asks + asks2)), "{polls} polls: {asks} and {asks2}");
            assert!((1..=2).contains(&(reads + reads2)), "{polls} polls");
            assert_eq!(writes + writes2, 1 + if writes == 1 { asked } else { 0 }, "{polls} polls");
            if is_done {
                break;
            }
        }
    }
}

/// A validator that computes something once, and fails after it the first time.
struct Computes {
    computed: Arc<AtomicUsize>,
    checked: Arc<AtomicUsize>,
}

impl Validator<Task, String> for Computes {
    async fn check(&self, _: &Task, _: &String, cx: &Context) -> toolwright_module::Result<()> {
        let computed =
            value(cx, "computed", async { Ok(self.computed.fetch_add(1, Ordering::SeqCst)) });
        assert_eq!(computed.await?, 0);
        match self.checked.fetch_add(1, Ordering::SeqCst) {
            0 => Err(Error::stop("the power failed")),
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn a_validator_runs_again_and_its_recorded_value_is_computed_once() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let (computed, checked) = (Arc::default(), Arc::default());
    let validator = Computes { computed: Arc::clone(&computed), checked: Arc::clone(&checked) };
    let agent = Agent::new(Scripted::replies([Reply::text("Done.")]), []).unwrap();
    let agent = agent.with_validator(validator);
    journal.drive(&agent, "run", TASK, &Context::default()).await.unwrap_err();
    journal.drive(&agent, "run", TASK, &Context::default()).await.unwrap();
    assert_eq!((computed.load(Ordering::SeqCst), checked.load(Ordering::SeqCst)), (1, 2));
}

#[tokio::test]
async fn an_open_run_goes_on_with_its_task_from_the_journal() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let cx = Context::default();
    let history = [Message::user("Hi."), Message::assistant("Hello.")];
    let down = Scripted::new(|_| Err(Error::stop("the provider is down")));
    let agent = Agent::new(down, []).unwrap().with_instructions("Be quick.");
    let task = Task::new(TASK).with_history(history);
    journal.drive(&agent, "run", task, &cx).await.unwrap_err();
    let task = journal.task("run").unwrap();
    assert_eq!(task.history().len(), 3);
    let agent = Agent::new(Scripted::replies([Reply::text("Done.")]), []).unwrap();
    assert_eq!(journal.drive(&agent, "run", task, &cx).await.unwrap().history.len(), 5);
    assert!(matches!(journal.task("other"), Err(JournalError::NoSuchRun { .. })));
}
