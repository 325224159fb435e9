//! Where the runs of a service are kept.

use std::collections::BTreeMap;
#[cfg(feature = "postgres")]
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toolwright_journal::{Journal, JournalError, Options, RunStatus, RunSummary};
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::message::ReplyPart;
use toolwright_module::{Context, Error};
use toolwright_orchestrator::perform::Record;
use toolwright_orchestrator::{Agent, Finished, Task};
#[cfg(feature = "postgres")]
use toolwright_postgres::{Runs, RunsError, Seen};

use crate::core::unescaped;
use crate::error::{Result, ServeError};
use crate::memory::Memory;
use crate::page::{self, Mark};
use crate::recorded::{CONVERSATION, USER};

/// Where the runs of a service are kept: in memory, in a journal or in PostgreSQL.
///
/// In memory, runs end with the process. In a [`Journal`] they survive it, and one process drives them.
/// In PostgreSQL (feature `postgres`), any number of workers do: each sees the runs of all, and takes
/// over those of a worker that is gone.
///
/// ```
/// use toolwright_journal::Journal;
/// use toolwright_serve::Home;
///
/// # let folder = tempfile::tempdir()?;
/// let home = Home::from(Journal::open(folder.path())?);
/// let home = Home::memory();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Home(Kind);

#[derive(Clone)]
enum Kind {
    Memory(Memory),
    Journal(Journal),
    #[cfg(feature = "postgres")]
    Postgres(Runs),
}

/// What the process has of a run.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) id: String,
    /// Number of records.
    pub(crate) records: usize,
    /// Which drive the live texts are of, and the number of the last one.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only there are live texts"))]
    pub(crate) live: (i64, i64),
    /// How often the run had to be looked at.
    pub(crate) looks: u64,
}

/// What is new in a run.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) known: Known,
    /// The records after the known ones.
    pub(crate) records: Vec<Record>,
    pub(crate) status: RunStatus,
    /// `None` if it is not known.
    pub(crate) is_driven: Option<bool>,
    pub(crate) error: Option<String>,
    /// Which drive it is, and its new live texts with their numbers.
    pub(crate) drive: i64,
    pub(crate) live: Vec<(i64, String)>,
}

impl Home {
    /// Returns a home in memory.
    #[must_use]
    pub fn memory() -> Self {
        Self(Kind::Memory(Memory::default()))
    }

    /// Adds a listener to that of the home.
    pub(crate) fn heard(
        self,
        listener: impl Fn(&str, usize, &Record) + Send + Sync + 'static,
    ) -> Self {
        let with = |options: &Options| {
            let before = options.listener.clone();
            let listener = Arc::new(move |id: &str, nth: usize, record: &Record| {
                if let Some(before) = &before {
                    before(id, nth, record);
                }
                listener(id, nth, record);
            });
            Options { listener: Some(listener), ..options.clone() }
        };
        Self(match self.0 {
            Kind::Memory(memory) => {
                let options = with(memory.options());
                Kind::Memory(memory.with_options(options))
            }
            Kind::Journal(journal) => {
                let options = with(journal.options());
                Kind::Journal(journal.with_options(options))
            }
            #[cfg(feature = "postgres")]
            Kind::Postgres(runs) => {
                let options = with(runs.options());
                Kind::Postgres(runs.with_options(options))
            }
        })
    }

    /// Returns whether other workers read the runs.
    pub(crate) fn is_shared(&self) -> bool {
        !matches!(self.0, Kind::Memory(_) | Kind::Journal(_))
    }

    /// Stores what a model writes, for other workers.
    pub(crate) async fn put_live(&self, id: &str, nth: i64, text: &str) -> Result<()> {
        match &self.0 {
            #[cfg(feature = "postgres")]
            Kind::Postgres(runs) => Ok(runs.put_live(id, nth, text).await?),
            _ => {
                let _ = (id, nth, text);
                Ok(())
            }
        }
    }

    pub(crate) async fn clear_live(&self, id: &str) -> Result<()> {
        match &self.0 {
            #[cfg(feature = "postgres")]
            Kind::Postgres(runs) => Ok(runs.clear_live(id).await?),
            _ => {
                let _ = id;
                Ok(())
            }
        }
    }

    /// Returns the runs in the database, whose workers take over runs from each other.
    #[cfg(feature = "postgres")]
    pub(crate) fn postgres(&self) -> Option<&Runs> {
        match &self.0 {
            Kind::Postgres(runs) => Some(runs),
            _ => None,
        }
    }

    /// Creates a run that is not driven yet, where several processes could create it at once.
    pub(crate) async fn start<O: Send + Sync + 'static>(
        &self,
        agent: &Agent<O>,
        id: &str,
        task: &Task,
        cx: &Context,
    ) -> Result<(), Error> {
        match &self.0 {
            #[cfg(feature = "postgres")]
            Kind::Postgres(runs) => runs.start(agent, id, task.clone(), cx).await,
            _ => {
                let _ = (agent, id, task, cx);
                Ok(())
            }
        }
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
        match &self.0 {
            Kind::Memory(memory) => memory.drive(agent, id, task, cx).await,
            Kind::Journal(journal) => journal.drive(agent, id, task, cx).await,
            #[cfg(feature = "postgres")]
            Kind::Postgres(runs) => runs.drive(agent, id, task, cx).await,
        }
    }

    /// Returns all records of a run, or `None` if there is no such run.
    pub(crate) async fn records(&self, id: &str) -> Result<Option<Vec<Record>>> {
        let found = match &self.0 {
            Kind::Memory(memory) => return Ok(memory.records(id)),
            Kind::Journal(journal) => {
                let (journal, id) = (journal.clone(), id.to_owned());
                blocking(move || journal.entries(&id)).await?.map_err(ServeError::from)
            }
            #[cfg(feature = "postgres")]
            Kind::Postgres(runs) => runs.entries(id).await.map_err(ServeError::from),
        };
        match found {
            Ok(entries) => Ok(Some(entries.into_iter().map(|(_, record)| record).collect())),
            Err(error) if error.is_no_such_run() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns what is new in runs. Runs that are not there are left out.
    pub(crate) async fn news(&self, all: Vec<Known>) -> Result<Vec<News>> {
        #[cfg(feature = "postgres")]
        if let Kind::Postgres(runs) = &self.0 {
            let seen = all.iter().map(|known| {
                let Known { id, records, live, .. } = known.clone();
                Seen { id, records, live }
            });
            let found = runs.news(&seen.collect::<Vec<_>>()).await?;
            let mut all: HashMap<_, _> =
                all.into_iter().map(|known| (known.id.clone(), known)).collect();
            let news = found.into_iter().filter_map(|news| {
                let known = all.remove(&news.id)?;
                let (records, status, error) = (news.records, news.status, news.error);
                let (is_driven, drive, live) = (Some(news.is_driven), news.drive, news.live);
                Some(News { known, records, status, is_driven, error, drive, live })
            });
            return Ok(news.collect());
        }
        let new = |known: Known, mut records: Vec<Record>, before: usize, is_driven| {
            let status = status(&records);
            let records = records.split_off((known.records - before).min(records.len()));
            let (error, drive, live) = (None, 0, Vec::new());
            News { known, records, status, is_driven, error, drive, live }
        };
        let mut news = Vec::new();
        if let Kind::Journal(journal) = &self.0 {
            let journal = journal.clone();
            let read = move || {
                // With the last known record, which says how the run is.
                let before = |known: &Known| known.records.saturating_sub(1);
                let runs: Vec<_> = all.iter().map(|known| (&*known.id, before(known))).collect();
                let mut found = journal.records_after(&runs)?.into_iter().peekable();
                for known in &all {
                    if let Some((_, records)) = found.next_if(|(id, _)| *id == known.id) {
                        news.push(new(known.clone(), records, before(known), None));
                    }
                }
                Ok(news)
            };
            return blocking(read).await?;
        }
        for known in all {
            // Before the records are read, so that a drive that has ended since has all of them.
            let is_driven = match &self.0 {
                Kind::Memory(memory) => Some(memory.is_driven(&known.id)),
                _ => None,
            };
            let Some(records) = self.records(&known.id).await? else { continue };
            news.push(new(known, records, 0, is_driven));
        }
        Ok(news)
    }

    /// Returns the ids of the runs of a conversation. They begin with `prefix`, and end with their
    /// numbers.
    pub(crate) async fn ids(
        &self,
        user: &str,
        conversation: &str,
        prefix: &str,
    ) -> Result<Vec<String>> {
        match &self.0 {
            Kind::Memory(memory) => Ok(memory.ids_with(prefix)),
            Kind::Journal(journal) => {
                let _ = (user, conversation);
                let (journal, prefix) = (journal.clone(), prefix.to_owned());
                Ok(blocking(move || journal.ids_with(&prefix)).await??)
            }
            #[cfg(feature = "postgres")]
            Kind::Postgres(runs) => {
                Ok(runs.ids_with(&[(USER, user), (CONVERSATION, conversation)]).await?)
            }
        }
    }

    /// Returns a run, or `None` if there is no such run.
    pub(crate) async fn run(&self, id: &str) -> Result<Option<RunSummary>> {
        let found = match &self.0 {
            Kind::Memory(memory) => return Ok(memory.run(id)),
            Kind::Journal(journal) => {
                let (journal, id) = (journal.clone(), id.to_owned());
                blocking(move || journal.run(&id)).await?.map_err(ServeError::from)
            }
            #[cfg(feature = "postgres")]
            Kind::Postgres(runs) => runs.run(id).await.map_err(ServeError::from),
        };
        match found {
            Ok(run) => Ok(Some(run)),
            Err(error) if error.is_no_such_run() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns a page of the conversations of a user, each with its runs in their order. The ids of the runs
    /// begin with `prefix`.
    pub(crate) async fn conversations(
        &self,
        user: &str,
        prefix: &str,
        after: Option<Mark>,
    ) -> Result<(Vec<Vec<RunSummary>>, Option<Mark>)> {
        let changed = match &self.0 {
            #[cfg(feature = "postgres")]
            Kind::Postgres(runs) => {
                let before = after.as_ref().map(|after| (after.changed(), after.name()));
                let found = runs.groups(USER, user, CONVERSATION, before, page::MOST + 1).await?;
                let marked = found
                    .into_iter()
                    .map(|group| (Mark::new(group.changed, group.value), group.runs));
                let (page, next) = page::page(marked.collect(), after.as_ref());
                return Ok((page.into_iter().map(|(_, runs)| runs).collect(), next));
            }
            Kind::Memory(memory) => memory.changed_with(prefix),
            Kind::Journal(journal) => {
                let (journal, prefix) = (journal.clone(), prefix.to_owned());
                blocking(move || journal.changed_with(&prefix)).await??
            }
        };
        let mut groups: BTreeMap<String, (SystemTime, Vec<(u64, String)>)> = BTreeMap::new();
        for (id, changed) in changed {
            let Some((conversation, number)) = parts_of_id(&id) else { continue };
            let (latest, runs) =
                groups.entry(conversation).or_insert((SystemTime::UNIX_EPOCH, Vec::new()));
            *latest = changed.max(*latest);
            runs.push((number, id));
        }
        let marked = groups.into_iter().map(|(name, (at, ids))| (Mark::new(at, name), ids));
        let (page, next) = page::page(marked.collect(), after.as_ref());
        let mut conversations = Vec::with_capacity(page.len());
        for (_, mut ids) in page {
            ids.sort_unstable();
            let mut runs = Vec::with_capacity(ids.len());
            for (_, id) in ids {
                match self.run(&id).await {
                    Ok(run) => runs.extend(run.filter(|run| is_of(run, user))),
                    Err(error) => {
                        tracing::warn!(run = id, %error, "a run is left out of a list");
                    }
                }
            }
            conversations.push(runs);
        }
        Ok((conversations, next))
    }

    /// Returns the runs of a user that may wait for a person, each with its place in the list.
    pub(crate) async fn waiting(&self, user: &str, prefix: &str) -> Result<Vec<(Mark, String)>> {
        let changed = match &self.0 {
            #[cfg(feature = "postgres")]
            Kind::Postgres(runs) => {
                let found = runs.waiting_with(USER, user).await?.into_iter();
                return Ok(found.map(|run| (Mark::new(run.changed, &run.id), run.id)).collect());
            }
            Kind::Memory(memory) => memory.changed_with(prefix),
            Kind::Journal(journal) => {
                let (journal, prefix) = (journal.clone(), prefix.to_owned());
                blocking(move || journal.changed_with(&prefix)).await??
            }
        };
        let _ = user;
        let mut last: BTreeMap<String, (u64, SystemTime, String)> = BTreeMap::new();
        for (id, changed) in changed {
            let Some((conversation, number)) = parts_of_id(&id) else { continue };
            // Of a conversation, only the last run can wait.
            if last.get(&conversation).is_none_or(|(known, ..)| *known < number) {
                last.insert(conversation, (number, changed, id));
            }
        }
        if let Kind::Journal(journal) = &self.0 {
            let journal = journal.clone();
            let open = move || {
                last.retain(|_, (.., id)| !journal.has_ended(id).unwrap_or(true));
                last
            };
            last = blocking(open).await?;
        }
        let runs = last.into_values();
        Ok(runs.map(|(_, changed, id)| (Mark::new(changed, &id), id)).collect())
    }

    /// Returns the ids of the runs that nobody drives by itself and that have not ended.
    pub(crate) async fn interrupted(&self) -> Result<Vec<String>> {
        match &self.0 {
            Kind::Journal(journal) => {
                let journal = journal.clone();
                let mut runs = blocking(move || journal.runs()).await??;
                // The folder may have runs of other programs. Whether a run that failed goes on is decided
                // by its user.
                let is_ours = |run: &RunSummary| run.metadata.contains_key(CONVERSATION);
                let was_cut_off =
                    |run: &RunSummary| run.status == RunStatus::Open && run.error.is_none();
                runs.retain(|run| was_cut_off(run) && is_ours(run));
                Ok(runs.into_iter().map(|run| run.id).collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    pub(crate) async fn decide_as(
        &self,
        person: &str,
        id: &str,
        waiting: &Approval,
        decision: Decision,
    ) -> Result<()> {
        match &self.0 {
            Kind::Memory(memory) => Ok(memory.decide_as(person, id, waiting, decision)?),
            Kind::Journal(journal) => {
                let (journal, person, id) = (journal.clone(), person.to_owned(), id.to_owned());
                let waiting = waiting.clone();
                Ok(blocking(move || journal.decide_as(&person, &id, &waiting, decision)).await??)
            }
            #[cfg(feature = "postgres")]
            Kind::Postgres(runs) => Ok(runs.decide_as(person, id, waiting, decision).await?),
        }
    }

    /// Ends a run for good, and keeps what its model had written of a reply.
    pub(crate) async fn cancel(
        &self,
        id: &str,
        unfinished_reply: Option<Vec<ReplyPart>>,
    ) -> Result<()> {
        match &self.0 {
            Kind::Memory(memory) => Ok(memory.cancel(id, unfinished_reply)?),
            Kind::Journal(journal) => {
                let (journal, id) = (journal.clone(), id.to_owned());
                let cancel = move || journal.cancel_with_reply(&id, unfinished_reply);
                Ok(blocking(cancel).await??)
            }
            #[cfg(feature = "postgres")]
            Kind::Postgres(runs) => Ok(runs.cancel_with_reply(id, unfinished_reply).await?),
        }
    }
}

impl From<Journal> for Home {
    fn from(journal: Journal) -> Self {
        Self(Kind::Journal(journal))
    }
}

#[cfg(feature = "postgres")]
impl From<Runs> for Home {
    fn from(runs: Runs) -> Self {
        Self(Kind::Postgres(runs))
    }
}

impl fmt::Debug for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Memory(_) => f.write_str("Home::memory()"),
            Kind::Journal(journal) => journal.fmt(f),
            #[cfg(feature = "postgres")]
            Kind::Postgres(runs) => runs.fmt(f),
        }
    }
}

impl ServeError {
    fn is_no_such_run(&self) -> bool {
        match self {
            Self::Journal(error) => matches!(error, JournalError::NoSuchRun { .. }),
            #[cfg(feature = "postgres")]
            Self::Postgres(error) => matches!(error, RunsError::NoSuchRun { .. }),
            _ => false,
        }
    }

    /// Returns whether another drive has the run now.
    pub(crate) fn is_locked(&self) -> bool {
        match self {
            Self::Journal(error) => matches!(error, JournalError::Locked { .. }),
            #[cfg(feature = "postgres")]
            Self::Postgres(error) => matches!(error, RunsError::Locked { .. }),
            _ => false,
        }
    }
}

/// Returns whether the error of a drive says that another one has the run, or has started it with
/// another task.
pub(crate) fn is_taken(error: &Error) -> bool {
    let in_journal = |error: &JournalError| {
        matches!(error, JournalError::Locked { .. } | JournalError::OtherTask { .. })
    };
    #[cfg(feature = "postgres")]
    match error.downcast_ref::<RunsError>() {
        Some(RunsError::Locked { .. } | RunsError::Lost { .. }) => return true,
        Some(RunsError::Journal(error)) => return in_journal(error),
        _ => {}
    }
    error.downcast_ref::<JournalError>().is_some_and(in_journal)
}

/// Returns the conversation in the id of a run, and the number of the run in it.
fn parts_of_id(id: &str) -> Option<(String, u64)> {
    let (rest, number) = id.rsplit_once(':')?;
    let (_, conversation) = rest.split_once(':')?;
    Some((unescaped(conversation)?, number.parse().ok()?))
}

/// Returns whether a run is a message of this user. A folder may have runs of other programs.
fn is_of(run: &RunSummary, user: &str) -> bool {
    run.metadata.contains_key(CONVERSATION) && run.metadata.get(USER).is_some_and(|of| of == user)
}

/// Returns the state of a run with these records.
fn status(records: &[Record]) -> RunStatus {
    match records.last() {
        Some(Record::Finished { .. }) => RunStatus::Finished,
        Some(Record::Stopped { is_open: false, .. }) => RunStatus::Failed,
        _ => RunStatus::Open,
    }
}

/// Does work that blocks its thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| ServeError::Panicked)
}
