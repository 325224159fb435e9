//! Runs that go on with another agent than they began with. The example programs `deploys_old` and
//! `deploys_new` test each kind of deploy with two programs.

use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_journal::{Journal, JournalError, Options};
use toolwright_module::event::Ending;
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Context, Effect, Error, LanguageModel, Message, Reply, Signature, ToolCall,
};
use toolwright_orchestrator::perform::Record;
use toolwright_orchestrator::{Agent, ApprovalPolicy, Finished, Limits};

use crate::support::{TASK, World, calls, folder, journals, react, tool};

/// Drives a run until the model is asked for the reply with this number, which fails.
async fn until(nth: usize, journal: &Journal, agent: impl Fn(Vec<Reply>) -> Agent) {
    let said = [calls([("a", "look", "the hall")]), calls([("b", "tidy", "the hall")])];
    let agent = agent(said[..nth].to_vec());
    journal.drive(&agent, "run", TASK, &Context::default()).await.unwrap_err();
}

fn model(said: Vec<Reply>) -> impl LanguageModel {
    Scripted::new(move |request| {
        let replied = |message: &&Arc<Message>| matches!(***message, Message::Assistant { .. });
        let nth = request.messages.iter().filter(replied).count();
        said.get(nth).cloned().ok_or(Error::stop("the provider is down"))
    })
}

fn done() -> impl LanguageModel {
    Scripted::new(|_| Ok(Reply::text("Done.")))
}

/// Returns the result of a call, and whether it failed.
fn result<'a>(finished: &'a Finished, id: &str) -> (&'a str, bool) {
    let found = finished.history.iter().find_map(|message| match &**message {
        Message::Tool(result) if result.id == id => Some((&*result.text, result.failed)),
        _ => None,
    });
    found.unwrap()
}

#[tokio::test]
async fn a_call_with_a_result_keeps_it_when_its_tool_is_gone() {
    let (folder, world, cx) = (folder(), World::default(), Context::default());
    let changes = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&changes);
    let journal = Journal::open(folder.path()).unwrap();
    let journal = journal.with_options(Options {
        change_listener: Some(Arc::new(move |id, change| {
            heard.lock().unwrap().push(format!("{id}: {change}"));
        })),
        ..Options::default()
    });
    let tools = || [world.look(), world.tidy()];
    until(2, &journal, |said| Agent::new(model(said), tools()).unwrap()).await;
    assert_eq!(changes.lock().unwrap().len(), 0);

    let agent = Agent::new(done(), []).unwrap();
    let finished = journal.drive(&agent, "run", TASK, &cx).await.unwrap();
    assert_eq!(result(&finished, "a"), ("the hall is empty", false));
    assert_eq!(result(&finished, "b"), ("the hall is tidy", false));
    assert_eq!(*changes.lock().unwrap(), ["run: `look`: removed", "run: `tidy`: removed"]);
    assert_eq!(world.counts(), [0, 1, 1, 0]);
}

#[tokio::test]
async fn an_open_call_that_the_agent_cannot_make_stops_the_run_with_the_choices() {
    let (folder, world, cx) = (folder(), World::default(), Context::default());
    let journal = Journal::open(folder.path()).unwrap();
    let falls = || tool("look", Effect::Idempotent, async |_| Err(Error::stop("the power failed")));
    until(1, &journal, |said| Agent::new(model(said), [falls()]).unwrap()).await;
    let before = std::fs::read(folder.path().join("run.journal")).unwrap();

    let agent = Agent::new(done(), [world.tidy()]).unwrap();
    let error = journal.drive(&agent, "run", TASK, &cx).await.unwrap_err();
    assert_eq!(
        journals(&error).to_string(),
        "the run `run` cannot continue with this agent: its call `a` of `look` is open, and the agent no longer has this tool; its tools are `tidy`; give the agent a tool with this name and input (`Tool::named`), finish the run with the previous version of the program, or delete it"
    );
    assert!(matches!(journals(&error), JournalError::OpenCall { .. }));
    // Nothing is written, and a tool of the old name goes on with it.
    assert_eq!(std::fs::read(folder.path().join("run.journal")).unwrap(), before);
    let agent = Agent::new(done(), [world.look()]).unwrap();
    assert_eq!(journal.drive(&agent, "run", TASK, &cx).await.unwrap().answer, "Done.");
}

#[tokio::test]
async fn a_call_of_a_tool_that_never_was_there_stays_refused() {
    let (folder, world, cx) = (folder(), World::default(), Context::default());
    let journal = Journal::open(folder.path()).unwrap();
    until(2, &journal, |said| Agent::new(model(said), [world.look()]).unwrap()).await;
    // The model wanted to tidy, and could not. Meanwhile it was asked again.
    let said = vec![
        calls([("a", "look", "the hall")]),
        calls([("b", "tidy", "the hall")]),
        calls([("c", "look", "the hall")]),
    ];
    let agent = Agent::new(model(said), [world.look()]).unwrap();
    journal.drive(&agent, "run", TASK, &cx).await.unwrap_err();

    let agent = Agent::new(done(), [world.look(), world.tidy()]).unwrap();
    let finished = journal.drive(&agent, "run", TASK, &cx).await.unwrap();
    assert_eq!(result(&finished, "b"), ("The call was not made.", true));
    assert_eq!(world.counts(), [0, 2, 0, 0]);
}

#[tokio::test]
async fn smaller_limits_and_a_stricter_policy_do_not_judge_what_has_happened() {
    let changes: [fn(Agent) -> Agent; 3] = [
        |agent| agent.with_limits(Limits::default().with_tool("look", 0)),
        |agent| agent.with_approval(ApprovalPolicy::from_effect(Effect::Read)).unwrap(),
        |agent| agent.with_limits(Limits { max_calls_per_reply: 0, ..Limits::default() }),
    ];
    for change in changes {
        let (folder, world, cx) = (folder(), World::default(), Context::default());
        let journal = Journal::open(folder.path()).unwrap();
        let tools = || [world.look(), world.tidy()];
        until(2, &journal, |said| Agent::new(model(said), tools()).unwrap()).await;
        let agent = change(Agent::new(done(), tools()).unwrap());
        let finished = journal.drive(&agent, "run", TASK, &cx).await.unwrap();
        assert_eq!(result(&finished, "b"), ("the hall is tidy", false));
        assert_eq!(world.counts(), [0, 1, 1, 0]);
    }
}

#[tokio::test]
async fn a_smaller_number_of_rounds_ends_a_run_after_what_has_happened() {
    let (folder, world, cx) = (folder(), World::default(), Context::default());
    let journal = Journal::open(folder.path()).unwrap();
    let tools = || [world.look(), world.tidy()];
    until(2, &journal, |said| Agent::new(model(said), tools()).unwrap()).await;
    let limits = Limits { max_iterations: 1, ..Limits::default() };
    let agent = Agent::new(done(), tools()).unwrap().with_limits(limits);
    let finished = journal.drive(&agent, "run", TASK, &cx).await.unwrap();
    assert_eq!(result(&finished, "b"), ("the hall is tidy", false));
    assert_eq!((finished.ending, &*finished.answer), (Ending::LimitReached, "Done."));
    assert_eq!(world.counts(), [0, 1, 1, 0]);
}

#[tokio::test]
async fn a_decision_of_before_holds_under_a_policy_that_does_not_ask() {
    let (folder, world, cx) = (folder(), World::default(), Context::default());
    let journal = Journal::open(folder.path()).unwrap();
    let denies = cx
        .clone()
        .with_approver(async |_| Ok(toolwright_module::approval::Decision::deny("Not the hall.")));
    let said = vec![calls([("b", "tidy", "the hall")])];
    let agent = Agent::new(model(said), [world.tidy()]).unwrap();
    let agent = agent.with_approval(ApprovalPolicy::from_effect(Effect::Write)).unwrap();
    journal.drive(&agent, "run", TASK, &denies).await.unwrap_err();

    // As a tool that reads, it needs no approval, and it is gone in the last deploy.
    let reads = world.tidy().with_effect(Effect::Read);
    for tools in [vec![reads], vec![]] {
        let records: Vec<Record> = journal.records("run").unwrap();
        let copy = crate::support::folder();
        std::fs::copy(folder.path().join("run.journal"), copy.path().join("run.journal")).unwrap();
        let journal = Journal::open(copy.path()).unwrap();
        let agent = Agent::new(done(), tools).unwrap();
        let finished = journal.drive(&agent, "run", TASK, &cx).await.unwrap();
        let (text, failed) = result(&finished, "b");
        assert!(failed && text.contains("Not the hall."), "{text}");
        assert!(journal.records("run").unwrap().starts_with(&records));
    }
    assert_eq!(world.counts(), [0, 0, 0, 0]);
}

/// Count the rooms.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CountRooms")]
struct CountBefore {}

impl Signature for CountBefore {
    type Output = u32;
}

/// Count the rooms.
#[derive(Serialize, Deserialize, JsonSchema)]
struct CountRooms {}

impl Signature for CountRooms {
    type Output = String;
}

#[tokio::test]
async fn a_finished_run_with_another_type_of_output_says_so() {
    let (folder, cx) = (folder(), Context::default());
    let journal = Journal::open(folder.path()).unwrap();
    let finish = Reply::calls([ToolCall::new("1", "finish", r#"{"result": 5}"#)]);
    let before = react::<CountBefore>(Scripted::replies([finish]), []);
    let task = before.task(&CountBefore {}).unwrap();
    journal.drive(before.agent(), "run", task, &cx).await.unwrap();
    let now = react::<CountRooms>(Scripted::replies([]), []);
    let task = now.task(&CountRooms {}).unwrap();
    let error = journal.drive(now.agent(), "run", task, &cx).await.unwrap_err();
    assert!(matches!(journals(&error), JournalError::OtherOutput { .. }), "{error:#}");
}
