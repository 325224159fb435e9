//! Runs that go on from earlier runs: a conversation is stored once.

use std::sync::Arc;
use std::time::Duration;

use toolwright_journal::home;
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Error, Message, Reply, Request};
use toolwright_orchestrator::perform::Record;
use toolwright_orchestrator::{Agent, Task};
use toolwright_postgres::{Runs, RunsError, Seen};

use crate::support::{Database, database};

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

async fn go_on(runs: &Runs, agent: &Agent, from: &str, id: &str, text: &str) {
    let records = runs.entries(from).await.unwrap().into_iter().map(|(_, record)| record).collect();
    let cx = Context::default();
    let before = home::conversation(agent, from, records, &cx).await.unwrap();
    let task = Task::new(text).with_conversation(before);
    runs.drive(agent, id, task, &cx).await.unwrap();
}

async fn history(runs: &Runs, id: &str) -> Vec<Arc<Message>> {
    runs.finished::<String>(id).await.unwrap().unwrap().history
}

async fn rows(database: &Database) -> i64 {
    database.number("SELECT count(*) FROM toolwright_runs").await
}

#[tokio::test]
async fn a_conversation_of_300_messages_takes_bytes_in_proportion() {
    let Some(database) = database().await else { return };
    let runs = database.runs().await;
    let (agent, cx) = (answers(2_000).with_instructions(&"i".repeat(1_000)), Context::default());
    let mut conversation = None;
    for nth in 0..300 {
        let mut task = Task::new(format!("{nth} {}", "q".repeat(1_000)));
        if let Some(conversation) = conversation {
            task = task.with_conversation(conversation);
        }
        let finished = runs.drive(&agent, &format!("chat-{nth}"), task, &cx).await.unwrap();
        conversation = Some(finished.conversation());
    }
    let said = conversation.unwrap();
    let messages = serde_json::to_string(said.history()).unwrap().len() as i64;
    let stored = "SELECT sum(octet_length(record)) FROM toolwright_records";
    let stored = database.number(stored).await;
    println!("{messages} bytes of messages, {stored} bytes in the records");
    assert!(stored < 3 * messages, "{stored} bytes for {messages} bytes of messages");
    assert_eq!(history(&runs, "chat-299").await, said.history());
    let seen: Vec<_> =
        (0..300).map(|nth| Seen { id: format!("chat-{nth}"), ..Seen::default() }).collect();
    let news = runs.news(&seen).await.unwrap();
    for nth in [0, 150, 299] {
        let id = format!("chat-{nth}");
        let news = news.iter().find(|news| news.id == id).unwrap();
        let Record::Started(started) = &news.records[0] else { panic!("no start") };
        assert_eq!(started.run.history(), said.history()[..2 * nth + 2]);
    }
}

#[tokio::test]
async fn runs_go_on_from_runs_with_and_without_a_result() {
    let Some(database) = database().await else { return };
    let (runs, cx) = (database.runs().await, Context::default());
    runs.drive(&answers(1), "1", "One.", &cx).await.unwrap();
    let first = runs.finished::<String>("1").await.unwrap().unwrap().conversation();
    let task = || Task::new("Two.").with_conversation(first.clone());
    runs.drive(&broken(), "2", task(), &cx).await.unwrap_err();
    go_on(&runs, &answers(1), "2", "3", "Three.").await;
    let before = history(&runs, "3").await;
    assert_eq!(before.len(), 5);
    // The program knows the task from the database only.
    let finished = runs.drive(&answers(1), "2", runs.task("2").await.unwrap(), &cx).await.unwrap();
    assert_eq!(finished.history.len(), 4);
    assert_eq!(runs.drive(&broken(), "2", task(), &cx).await.unwrap(), finished);
    assert_eq!(history(&runs, "3").await, before);
    let list = runs.runs().await.unwrap();
    let tasks: Vec<_> = list.iter().map(|run| run.task.as_deref().unwrap()).collect();
    assert_eq!(tasks, ["One.", "Two.", "Three."]);
}

#[tokio::test]
async fn a_deleted_run_stays_as_long_as_a_later_one_goes_on_from_it() {
    let Some(database) = database().await else { return };
    let (runs, cx, agent) = (database.runs().await, Context::default(), answers(1));
    runs.drive(&agent, "1", "One.", &cx).await.unwrap();
    go_on(&runs, &agent, "1", "2", "Two.").await;
    go_on(&runs, &agent, "2", "3", "Three.").await;
    let whole = history(&runs, "3").await;
    runs.delete("1").await.unwrap();
    runs.delete("2").await.unwrap();
    assert!(matches!(runs.run("1").await, Err(RunsError::NoSuchRun { .. })));
    assert_eq!(runs.runs().await.unwrap().len(), 1);
    assert_eq!(Runs::agents(&database.url).await.unwrap(), ["agent"]);
    // Another run has its id.
    runs.drive(&agent, "1", "Another one.", &cx).await.unwrap();
    assert_eq!(history(&runs, "3").await, whole);
    go_on(&runs, &agent, "3", "4", "Four.").await;
    assert_eq!(history(&runs, "4").await.len(), 8);
    runs.delete("4").await.unwrap();
    runs.delete("1").await.unwrap();
    assert_eq!(rows(&database).await, 3);
    runs.delete("3").await.unwrap();
    assert_eq!(rows(&database).await, 0);
}

#[tokio::test]
async fn ended_runs_of_a_conversation_are_deleted_by_age() {
    let Some(database) = database().await else { return };
    let (runs, cx, agent) = (database.runs().await, Context::default(), answers(1));
    runs.drive(&agent, "1", "One.", &cx).await.unwrap();
    go_on(&runs, &agent, "1", "2", "Two.").await;
    let second = runs.finished::<String>("2").await.unwrap().unwrap().conversation();
    let task = Task::new("Three.").with_conversation(second);
    runs.start(&agent, "3", task, &cx).await.unwrap();
    let mut deleted = runs.delete_ended(Duration::ZERO).await.unwrap();
    deleted.sort();
    assert_eq!(deleted, ["1", "2"]);
    assert_eq!(runs.task("3").await.unwrap().history().len(), 5);
    runs.cancel("3").await.unwrap();
    assert_eq!(runs.delete_ended(Duration::ZERO).await.unwrap(), ["3"]);
    assert_eq!(rows(&database).await, 0);
}

#[tokio::test]
async fn runs_that_start_while_the_earlier_one_is_deleted_have_their_conversations() {
    let Some(database) = database().await else { return };
    let (runs, cx) = (database.runs().await, Context::default());
    let agent = answers(1);
    for round in 0..20 {
        let first = format!("first-{round}");
        let before = runs.drive(&agent, &first, "One.", &cx).await.unwrap().conversation();
        let starts = (0..4).map(|nth| {
            let task = Task::new("Two.").with_conversation(before.clone());
            let (runs, agent, cx) = (runs.clone(), agent.clone(), cx.clone());
            let id = format!("second-{round}-{nth}");
            tokio::spawn(async move { runs.start(&agent, &id, task, &cx).await })
        });
        let starts: Vec<_> = starts.collect();
        runs.delete(&first).await.unwrap();
        for start in starts {
            start.await.unwrap().unwrap();
        }
        for nth in 0..4 {
            let id = format!("second-{round}-{nth}");
            assert_eq!(runs.task(&id).await.unwrap().history().len(), 3);
            runs.delete(&id).await.unwrap();
        }
    }
    runs.delete_ended(Duration::ZERO).await.unwrap();
    assert_eq!(rows(&database).await, 0);
}
