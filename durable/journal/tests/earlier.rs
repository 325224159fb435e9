//! Runs that go on from earlier runs: a conversation is stored once.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use toolwright_journal::{Journal, JournalError, home};
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Error, Message, Reply, Request};
use toolwright_orchestrator::perform::Record;
use toolwright_orchestrator::{Agent, Task};

use crate::support::folder;

/// Returns an agent that answers with so many bytes, and with the number of the message.
fn answers(bytes: usize) -> Agent {
    let model = move |request: &Request| {
        Ok(Reply::text(format!("{} {}", request.messages.len(), "a".repeat(bytes))))
    };
    Agent::new(Scripted::new(model), []).unwrap()
}

fn broken() -> Agent {
    let model = |_: &Request| Err::<Reply, _>(Error::other("no network"));
    Agent::new(Scripted::new(model), []).unwrap()
}

fn bytes(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

/// Returns the names of all files but those of tools and the lock.
fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> =
        names.filter(|name| name != "lock" && !name.ends_with(".tools")).collect();
    names.sort();
    names
}

async fn go_on(journal: &Journal, agent: &Agent, from: &str, id: &str, text: &str) {
    let records = journal.entries(from).unwrap().into_iter().map(|(_, record)| record).collect();
    let cx = Context::default();
    let before = home::conversation(agent, from, records, &cx).await.unwrap();
    let task = Task::new(text).with_conversation(before);
    journal.drive(agent, id, task, &cx).await.unwrap();
}

fn history(journal: &Journal, id: &str) -> Vec<Arc<Message>> {
    journal.finished::<String>(id).unwrap().unwrap().history
}

#[tokio::test]
async fn a_conversation_of_300_messages_takes_bytes_in_proportion() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let (agent, cx) = (answers(2_000).with_instructions(&"i".repeat(1_000)), Context::default());
    let (mut conversation, mut half) = (None, 0);
    for nth in 0..300 {
        let mut task = Task::new(format!("{nth} {}", "q".repeat(1_000)));
        if let Some(conversation) = conversation {
            task = task.with_conversation(conversation);
        }
        let finished = journal.drive(&agent, &format!("chat-{nth}"), task, &cx).await.unwrap();
        conversation = Some(finished.conversation());
        if nth == 149 {
            half = bytes(folder.path());
        }
    }
    let said = conversation.unwrap();
    let messages = serde_json::to_string(said.history()).unwrap().len() as u64;
    let stored = bytes(folder.path());
    println!("{messages} bytes of messages, {stored} bytes in the folder, {half} at half");
    assert!(stored < 3 * messages, "{stored} bytes for {messages} bytes of messages");
    assert!(stored < half * 21 / 10);
    assert_eq!(history(&journal, "chat-299"), said.history());
    assert_eq!(journal.task("chat-299").unwrap().history().len(), 599);
}

#[tokio::test]
async fn the_same_task_again_is_the_same_run() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let cx = Context::default();
    journal.drive(&answers(1), "1", "One.", &cx).await.unwrap();
    let first = journal.finished::<String>("1").unwrap().unwrap();
    let task = || Task::new("Two.").with_conversation(first.conversation());
    journal.drive(&broken(), "2", task(), &cx).await.unwrap_err();
    // The program was killed, and another one knows the task from the journal only.
    let stored = journal.task("2").unwrap();
    assert_eq!(stored.history().len(), 3);
    let finished = journal.drive(&answers(1), "2", stored, &cx).await.unwrap();
    assert_eq!(journal.drive(&broken(), "2", task(), &cx).await.unwrap(), finished);
    let other = Task::new("Two.").with_history(first.history[1..].iter().cloned());
    let error = journal.drive(&broken(), "2", other, &cx).await.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(JournalError::OtherTask { .. })));
}

#[tokio::test]
async fn a_run_goes_on_from_one_without_a_result_that_finishes_later() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let cx = Context::default();
    journal.drive(&answers(1), "1", "One.", &cx).await.unwrap();
    let first = journal.finished::<String>("1").unwrap().unwrap().conversation();
    let task = Task::new("Two.").with_conversation(first);
    journal.drive(&broken(), "2", task.clone(), &cx).await.unwrap_err();
    go_on(&journal, &answers(1), "2", "3", "Three.").await;
    let before = history(&journal, "3");
    journal.drive(&answers(1), "2", task, &cx).await.unwrap();
    assert_eq!(history(&journal, "3"), before);
    assert_eq!(before.len(), 5);
}

#[tokio::test]
async fn a_deleted_run_stays_as_long_as_a_later_one_goes_on_from_it() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let (agent, cx) = (answers(1), Context::default());
    journal.drive(&agent, "1", "One.", &cx).await.unwrap();
    go_on(&journal, &agent, "1", "2", "Two.").await;
    go_on(&journal, &agent, "2", "3", "Three.").await;
    let whole = history(&journal, "3");
    journal.delete("1").unwrap();
    journal.delete("2").unwrap();
    assert!(matches!(journal.run("1"), Err(JournalError::NoSuchRun { .. })));
    assert_eq!(journal.runs().unwrap().len(), 1);
    // Another run has its id.
    journal.drive(&agent, "1", "Another one.", &cx).await.unwrap();
    assert_eq!(history(&journal, "3"), whole);
    go_on(&journal, &agent, "3", "4", "Four.").await;
    assert_eq!(history(&journal, "4").len(), 8);
    journal.delete("4").unwrap();
    journal.delete("1").unwrap();
    assert_eq!(names(folder.path()).len(), 3);
    journal.delete("3").unwrap();
    assert_eq!(names(folder.path()), [""; 0]);
}

#[tokio::test]
async fn ended_runs_of_a_conversation_are_deleted_by_age() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let (agent, cx) = (answers(1), Context::default());
    journal.drive(&agent, "1", "One.", &cx).await.unwrap();
    go_on(&journal, &agent, "1", "2", "Two.").await;
    let second = journal.finished::<String>("2").unwrap().unwrap().conversation();
    let task = Task::new("Three.").with_conversation(second);
    journal.drive(&broken(), "3", task, &cx).await.unwrap_err();
    assert_eq!(journal.delete_ended(Duration::ZERO).unwrap(), ["1", "2"]);
    assert_eq!(journal.task("3").unwrap().history().len(), 5);
    journal.cancel("3").unwrap();
    assert_eq!(journal.delete_ended(Duration::ZERO).unwrap(), ["3"]);
    assert_eq!(names(folder.path()), [""; 0]);
}

#[tokio::test]
async fn a_missing_earlier_run_is_an_error_with_its_name() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let (agent, cx) = (answers(1), Context::default());
    journal.drive(&agent, "1", "One.", &cx).await.unwrap();
    go_on(&journal, &agent, "1", "2", "Two.").await;
    let file = folder.path().join("1.journal");
    let away = folder.path().join("away");
    fs::rename(&file, &away).unwrap();
    let is_named = |error: JournalError| {
        assert!(matches!(&error, JournalError::NoEarlierRun { id, earlier }
            if (&**id, &**earlier) == ("2", "1")));
    };
    is_named(journal.entries("2").unwrap_err());
    is_named(journal.task("2").unwrap_err());
    // Its list needs nothing of the earlier run.
    assert_eq!(journal.run("2").unwrap().task.as_deref(), Some("Two."));
    // Another run of the same id is not taken for it.
    journal.drive(&agent, "1", "One.", &cx).await.unwrap();
    is_named(journal.entries("2").unwrap_err());
    fs::rename(&away, &file).unwrap();
    assert_eq!(history(&journal, "2").len(), 4);
}

#[tokio::test]
async fn a_conversation_of_another_folder_is_stored_whole() {
    let (here, there) = (folder(), folder());
    let (agent, cx) = (answers(1), Context::default());
    let finished = {
        let journal = Journal::open(there.path()).unwrap();
        journal.drive(&agent, "1", "One.", &cx).await.unwrap()
    };
    let journal = Journal::open(here.path()).unwrap();
    let task = Task::new("Two.").with_conversation(finished.conversation());
    journal.drive(&agent, "2", task, &cx).await.unwrap();
    assert_eq!(history(&journal, "2").len(), 4);
}

type Messages = Vec<Arc<Message>>;

/// What a test does to a folder.
#[derive(Debug, Clone)]
enum Act {
    /// Starts a run from one of those that are there. Its instructions are one of a few, and it may have
    /// no result.
    Start {
        from: Option<prop::sample::Index>,
        instructions: u8,
        fails: bool,
        text: String,
    },
    Delete(prop::sample::Index),
}

fn act() -> impl Strategy<Value = Act> {
    let start = (prop::option::weighted(0.9, any::<prop::sample::Index>()), 0_u8..3, any::<bool>());
    prop_oneof![
        4 => (start, "[ab]{1,3}").prop_map(|((from, instructions, fails), text)| {
            Act::Start { from, instructions, fails, text }
        }),
        1 => any::<prop::sample::Index>().prop_map(Act::Delete),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_conversation_is_read_as_it_was_written(acts in prop::collection::vec(act(), 1..20)) {
        let folder = folder();
        let journal = Journal::open(folder.path()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        // The runs, with the messages of their starts and ends.
        let mut runs: Vec<(String, Messages, Option<Messages>)> = Vec::new();
        let cx = Context::default();
        for (nth, act) in acts.into_iter().enumerate() {
            match act {
                Act::Start { from, instructions, fails, text } => runtime.block_on(async {
                    let agent = if fails { broken() } else { answers(1) };
                    let agent = match instructions {
                        0 => agent,
                        nth => agent.with_instructions(["", "Be kind.", "Be brief."][usize::from(nth)]),
                    };
                    let mut task = Task::new(text);
                    if let Some(from) = from.filter(|_| !runs.is_empty()) {
                        let id = &from.get(&runs).0;
                        let records = journal.entries(id).unwrap();
                        let records = records.into_iter().map(|(_, record)| record).collect();
                        let before = home::conversation(&agent, id, records, &cx).await.unwrap();
                        task = task.with_conversation(before);
                    }
                    let id = format!("run-{nth}");
                    let start = agent.start(task.clone()).unwrap().state().history();
                    let end = journal.drive(&agent, &id, task, &cx).await.ok();
                    runs.push((id, start, end.map(|end| end.history)));
                }),
                Act::Delete(run) => {
                    if !runs.is_empty() {
                        let (id, ..) = runs.remove(run.index(runs.len()));
                        journal.delete(&id).unwrap();
                    }
                }
            }
        }
        for (id, start, end) in &runs {
            let entries = journal.entries(id).unwrap();
            let Record::Started(started) = &entries[0].1 else { panic!("no start") };
            prop_assert_eq!(&started.run.history(), start);
            prop_assert_eq!(&journal.finished::<String>(id).unwrap().map(|run| run.history), end);
        }
        prop_assert_eq!(journal.runs().unwrap().len(), runs.len());
        for (id, ..) in runs {
            journal.delete(&id).unwrap();
        }
        prop_assert_eq!(names(folder.path()), Vec::<String>::new());
    }
}
