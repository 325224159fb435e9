//! A home of another crate, over [`home`]: a list of records.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use toolwright_journal::home::{self, Drive, DriveEnd};
use toolwright_journal::{Options, RunStatus, RunSummary};
use toolwright_module::model::BoxFuture;
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Effect, Error, Reply, Request, Result};
use toolwright_orchestrator::perform::{Open, Record, Store};
use toolwright_orchestrator::{Agent, Finished};

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
