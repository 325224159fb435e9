//! A home of another crate, over [`home`]: a list of records.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use toolwright_journal::home::{self, Drive, DriveEnd};
use toolwright_journal::{Options, RunStatus, RunSummary};
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::budget::Budget;
use toolwright_module::error::Stage;
use toolwright_module::model::{BoxFuture, Finish};
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Effect, Error, Message, Reply, Request, Result};
use toolwright_orchestrator::perform::{Open, Record, Store};
use toolwright_orchestrator::{Agent, Conversation, Finished, Limits, Task};

use crate::folder::asks;
use crate::support::{TASK, World};

#[derive(Clone, Default)]
struct List(Arc<Mutex<Vec<Record>>>);

impl Store for List {
    fn append<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<(), Open>> {
        Box::pin(async move {
            self.0.lock().unwrap().push(record.clone());
            Ok(())
        })
    }
}

impl List {
    fn records(&self) -> Vec<Record> {
        self.0.lock().unwrap().clone()
    }

    /// Drives the run in the order that [`Drive`] describes.
    async fn drive(&self, agent: &Agent) -> (Result<Finished>, DriveEnd) {
        let mut drive = Drive::new(agent, "run", TASK, &Context::default()).unwrap();
        if self.records().is_empty() {
            let started = drive.started().unwrap();
            self.0.lock().unwrap().push(Record::Started(started));
        } else {
            drive.set_records(self.records()).unwrap();
        }
        assert_eq!(drive.earlier_tools(), None);
        let drive = drive.with_recorded_errors();
        let result = drive.run(agent, self.clone(), &Options::default()).await;
        let end = DriveEnd::of(&result);
        (result, end)
    }

    fn summary(&self) -> RunSummary {
        let second = |nth| SystemTime::UNIX_EPOCH + Duration::from_secs(nth);
        let records = self.records().into_iter().zip(0..);
        home::summary(records.map(|(record, nth)| Ok((second(nth), record)))).unwrap().unwrap()
    }
}

#[tokio::test]
async fn a_home_of_another_crate_records_errors_and_lists_its_runs() {
    let list = List::default();
    let broken =
        Agent::new(Scripted::new(|_: &Request| Err::<Reply, _>(Error::other("no network"))), []);
    let (failed, end) = list.drive(&broken.unwrap()).await;
    assert_eq!((failed.is_err(), end), (true, DriveEnd::Failed));
    let summary = list.summary();
    assert_eq!((summary.id.as_str(), summary.status), ("run", RunStatus::Open));
    assert_eq!((summary.task.as_deref(), summary.records), (Some(TASK), 2));
    assert!(summary.error.unwrap().contains("no network"));
    assert_eq!(summary.changed.duration_since(summary.started).unwrap(), Duration::from_secs(1));
    // The next drive needs no error of the earlier one.
    let agent = Agent::new(Scripted::replies([Reply::text("Done.")]), []).unwrap();
    let (finished, end) = list.drive(&agent).await;
    assert_eq!((&*finished.unwrap().answer, end), ("Done.", DriveEnd::Released));
    let summary = list.summary();
    assert_eq!((summary.status, summary.error), (RunStatus::Finished, None));
    let finished = home::finished::<String>("run", &list.records()).unwrap();
    assert_eq!(finished.unwrap().answer, "Done.");
}

#[tokio::test]
async fn a_home_of_another_crate_shows_which_calls_wait() {
    let (list, world) = (List::default(), World::default());
    let (waits, end) = list.drive(&asks(&world, Effect::Write)).await;
    assert_eq!((waits.is_err(), end), (true, DriveEnd::Waiting));
    let summary = list.summary();
    assert_eq!((summary.status, summary.waiting.len()), (RunStatus::Waiting, 1));
}

/// Returns the results in a conversation.
fn results(conversation: &Conversation) -> Vec<&str> {
    let results = conversation.history().iter().filter_map(|message| match &**message {
        Message::Tool(result) => Some(&*result.text),
        _ => None,
    });
    results.collect()
}

#[tokio::test]
async fn the_conversation_of_a_run_is_there_at_every_end_of_a_drive() {
    let cx = Context::default();
    // A run that waits for a person.
    let (list, world) = (List::default(), World::default());
    let agent = asks(&world, Effect::Write);
    let (waits, _) = list.drive(&agent).await;
    assert!(waits.is_err());
    let (before, counts) = (list.records(), world.counts());
    let waiting = home::conversation(&agent, "run", before.clone(), &cx).await.unwrap();
    let expected = ["the hall is empty", "The call was not made: the user went on."];
    assert_eq!(results(&waiting), expected);
    // It was cancelled meanwhile.
    let cancelled = before.iter().cloned().chain([home::cancelled(None)]).collect();
    assert_eq!(home::conversation(&agent, "run", cancelled, &cx).await.unwrap(), waiting);
    // Nothing was asked, called or recorded, also with an approver.
    let approver = cx.clone().with_approver(async |_: Approval| Ok(Decision::Approve));
    assert_eq!(home::conversation(&agent, "run", before, &approver).await.unwrap(), waiting);
    assert_eq!(world.counts(), counts);
    // Another run goes on with it.
    let task = Task::new("And now?").with_conversation(waiting);
    assert_eq!(agent.start(task).unwrap().history().len(), 6);
}

#[tokio::test]
async fn the_conversation_of_a_run_is_there_after_every_record() {
    let (list, world, cx) = (List::default(), World::default(), Context::default());
    let agent = world.house();
    let (finished, _) = list.drive(&agent).await;
    let (records, counts) = (list.records(), world.counts());
    let mut longest = 0;
    for end in 1..records.len() {
        let conversation =
            home::conversation(&agent, "run", records[..end].to_vec(), &cx).await.unwrap();
        let history = conversation.history();
        longest = history.len().max(longest);
        // Each call has a result, so that a provider takes the conversation.
        let task = Task::new("Go on.").with_conversation(conversation.clone());
        assert_eq!(agent.start(task).unwrap().history().len(), history.len() + 1, "{end}");
    }
    let last = home::conversation(&agent, "run", records, &cx).await.unwrap();
    assert_eq!((&last, last.history().len()), (&finished.unwrap().conversation(), longest));
    assert_eq!(world.counts(), counts);
}

#[tokio::test]
async fn the_conversation_of_a_run_that_ended_without_an_answer_is_there() {
    let (list, cx) = (List::default(), Context::default());
    let model = Scripted::new(|_: &Request| Ok(Reply::text("No.").with_finish(Finish::Refused)));
    let agent = Agent::new(model, []).unwrap();
    let (stopped, end) = list.drive(&agent).await;
    assert_eq!((stopped.is_err(), end), (true, DriveEnd::Stopped));
    let conversation = home::conversation(&agent, "run", list.records(), &cx).await.unwrap();
    assert_eq!(conversation.history().len(), 2);
}

#[tokio::test]
async fn records_of_another_run_or_agent_give_no_conversation() {
    let (list, world, cx) = (List::default(), World::default(), Context::default());
    let (finished, _) = list.drive(&world.small()).await;
    finished.unwrap();
    let mut records = list.records();
    records.pop();
    // An agent whose run takes another course than the recorded one.
    let budget = Budget { model_calls: Some(1), ..Budget::default() };
    let agent = world.small().with_limits(Limits { budget, ..Limits::default() });
    let error = home::conversation(&agent, "run", records.clone(), &cx).await.unwrap_err();
    assert!(error.to_string().contains("the agent did not reach the recorded part"), "{error}");
    records.remove(0);
    let error = home::conversation(&agent, "run", records, &cx).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Journal);
}
