//! Runs in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toolwright_journal::home::{self, Drive};
use toolwright_journal::{JournalError, Options, RunSummary};
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::error::Stage;
use toolwright_module::message::ReplyPart;
use toolwright_module::model::BoxFuture;
use toolwright_module::{Context, Error};
use toolwright_orchestrator::perform::{Open, Record, Store};
use toolwright_orchestrator::{Agent, Finished, Task};

/// How many runs are kept. Then the runs that ended first are forgotten.
const MOST_RUNS: usize = 10_000;

/// Runs in memory, which end with the process.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    runs: Arc<Mutex<BTreeMap<String, Kept>>>,
    options: Options,
}

#[derive(Default)]
struct Kept {
    records: Vec<(SystemTime, Record)>,
    is_driven: bool,
}

type Result<T, E = JournalError> = std::result::Result<T, E>;

impl Memory {
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    fn runs(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ids_with(&self, prefix: &str) -> Vec<String> {
        let runs = self.runs();
        let from = runs.range(prefix.to_owned()..).map(|(id, _)| id);
        from.take_while(|id| id.starts_with(prefix)).cloned().collect()
    }

    pub(crate) fn records(&self, id: &str) -> Option<Vec<Record>> {
        let runs = self.runs();
        Some(runs.get(id)?.records.iter().map(|(_, record)| record.clone()).collect())
    }

    pub(crate) fn is_driven(&self, id: &str) -> bool {
        self.runs().get(id).is_some_and(|run| run.is_driven)
    }

    pub(crate) async fn drive<O>(
        &self,
        agent: &Agent<O>,
        id: &str,
        task: Task,
        cx: &Context,
    ) -> Result<Finished<O>, Error>
    where
        O: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        let drive = Drive::new(agent, id, task, cx)?.with_recorded_errors();
        let found = self.begin(id, drive).map_err(|error| Error::stop(error).at(Stage::Journal));
        let (drive, _held) = found?;
        if let Some(finished) = self.finished(id)? {
            return Ok(finished);
        }
        let store = Stores { memory: self.clone(), id: id.to_owned() };
        drive.run(agent, store, &self.options).await
    }

    /// Creates the run, or gives the drive its records.
    fn begin(&self, id: &str, mut drive: Drive) -> Result<(Drive, Held)> {
        let mut runs = self.runs();
        if let Some(run) = runs.get_mut(id) {
            if run.is_driven {
                return Err(JournalError::Locked { id: id.to_owned() });
            }
            drive.set_records(run.records.iter().map(|(_, record)| record.clone()).collect())?;
            run.is_driven = true;
        } else {
            let started = (SystemTime::now(), Record::Started(drive.started()?));
            forget(&mut runs);
            let run = Kept { records: vec![started], is_driven: true };
            runs.insert(id.to_owned(), run);
        }
        drop(runs);
        Ok((drive, Held { memory: self.clone(), id: id.to_owned() }))
    }

    fn finished<O: DeserializeOwned>(&self, id: &str) -> Result<Option<Finished<O>>, Error> {
        let records = self.records(id).unwrap_or_default();
        home::finished(id, &records).map_err(|error| Error::stop(error).at(Stage::Journal))
    }

    /// Returns the ids that begin with a text, each with the time of its last record.
    pub(crate) fn changed_with(&self, prefix: &str) -> Vec<(String, SystemTime)> {
        let runs = self.runs();
        let from = runs.range(prefix.to_owned()..);
        from.take_while(|(id, _)| id.starts_with(prefix))
            .filter_map(|(id, run)| Some((id.clone(), run.records.last()?.0)))
            .collect()
    }

    pub(crate) fn run(&self, id: &str) -> Option<RunSummary> {
        let records = self.runs().get(id)?.records.clone();
        home::summary(records.into_iter().map(Ok)).ok().flatten()
    }

    pub(crate) fn decide_as(
        &self,
        person: &str,
        id: &str,
        waiting: &Approval,
        decision: Decision,
    ) -> Result<()> {
        let mut runs = self.runs();
        let run = free(&mut runs, id)?;
        let records = run.records.iter().map(|(_, record)| record.clone());
        let decided = home::decided(id, records, waiting, decision, Some(person), false)?;
        run.records.push((SystemTime::now(), decided));
        Ok(())
    }

    pub(crate) fn cancel(&self, id: &str, unfinished_reply: Option<Vec<ReplyPart>>) -> Result<()> {
        let mut runs = self.runs();
        let run = free(&mut runs, id)?;
        if !is_ended(run) {
            run.records.push((SystemTime::now(), home::cancelled(unfinished_reply)));
        }
        Ok(())
    }
}

/// Returns a run that is not driven now.
fn free<'a>(runs: &'a mut BTreeMap<String, Kept>, id: &str) -> Result<&'a mut Kept> {
    match runs.get_mut(id) {
        None => Err(JournalError::NoSuchRun { id: id.to_owned(), folder: "memory".into() }),
        Some(run) if run.is_driven => Err(JournalError::Locked { id: id.to_owned() }),
        Some(run) => Ok(run),
    }
}

fn is_ended(run: &Kept) -> bool {
    let last = run.records.last().map(|(_, record)| record);
    matches!(last, Some(Record::Finished { .. } | Record::Stopped { is_open: false, .. }))
}

/// Makes room for one more run.
fn forget(runs: &mut BTreeMap<String, Kept>) {
    if runs.len() < MOST_RUNS {
        return;
    }
    let ended = runs.iter().filter(|(_, run)| !run.is_driven && is_ended(run));
    let oldest = ended.min_by_key(|(_, run)| run.records.last().map(|(at, _)| *at));
    if let Some(id) = oldest.map(|(id, _)| id.clone()) {
        runs.remove(&id);
    }
}

/// The right to drive a run, which ends with the drive.
struct Held {
    memory: Memory,
    id: String,
}

/// Adds the records of a drive.
struct Stores {
    memory: Memory,
    id: String,
}

impl Store for Stores {
    fn append<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<(), Open>> {
        if let Some(run) = self.memory.runs().get_mut(&self.id) {
            run.records.push((SystemTime::now(), record.clone()));
        }
        Box::pin(async { Ok(()) })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(run) = self.memory.runs().get_mut(&self.id) {
            run.is_driven = false;
        }
    }
}
