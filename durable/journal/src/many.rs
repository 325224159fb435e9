//! The runs of a journal: listing, decisions and deletion.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::message::ReplyPart;
use toolwright_orchestrator::perform::{Record, Started};
use toolwright_orchestrator::{Finished, Task, ToolSet};

use crate::earlier::{self, Head, Needs};
use crate::error::{JournalError, Result};
use crate::file::{self, RunFile};
use crate::home::{self, Histories};
use crate::journal::{self, Journal};
use crate::name;
use crate::parts;
use crate::summary::{self, RunStatus, RunSummary};

/// The functions for many runs block their thread while they read files. In async code, call them in
/// `tokio::task::spawn_blocking`.
impl Journal {
    /// Returns all runs, sorted by the time of their start. A file that cannot be read is in the
    /// list, with its error.
    ///
    /// ```
    /// # use toolwright_journal::Journal;
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Reply};
    /// # use toolwright_orchestrator::Agent;
    /// use toolwright_journal::RunStatus;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let agent = Agent::new(Scripted::new(|_| Ok(Reply::text("Hello."))), [])?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let (journal, cx) = (Journal::open(folder.path())?, Context::default());
    /// journal.drive(&agent, "greeting", "Say hello.", &cx).await?;
    /// let runs = journal.runs()?;
    /// assert_eq!((runs[0].id.as_str(), runs[0].status), ("greeting", RunStatus::Finished));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn runs(&self) -> Result<Vec<RunSummary>> {
        let mut runs = Vec::new();
        for (path, stem) in self.files()? {
            match summary_of(&path) {
                Ok(summary) => runs.extend(summary),
                Err(error) => runs.push(summary::unreadable(name::id_of(&stem), &path, &error)),
            }
        }
        runs.sort_by(|a, b| (a.started, &a.id).cmp(&(b.started, &b.id)));
        Ok(runs)
    }

    /// Returns the runs whose metadata have this value under this name.
    ///
    /// ```
    /// # use toolwright_journal::Journal;
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Reply};
    /// # use toolwright_orchestrator::Agent;
    /// # let folder = tempfile::tempdir()?;
    /// # let agent = Agent::new(Scripted::new(|_| Ok(Reply::text("Hello."))), [])?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let journal = Journal::open(folder.path())?;
    /// let cx = Context::default().with_run("greeting", [("tenant", "acme")]);
    /// journal.drive(&agent, "greeting", "Say hello.", &cx).await?;
    /// assert_eq!(journal.runs_with("tenant", "acme")?.len(), 1);
    /// assert_eq!(journal.runs_with("tenant", "another")?.len(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn runs_with(&self, name: &str, value: &str) -> Result<Vec<RunSummary>> {
        let mut runs = self.runs()?;
        runs.retain(|run| run.metadata.get(name).is_some_and(|found| found == value));
        Ok(runs)
    }

    /// Returns one run.
    ///
    /// ```
    /// # use toolwright_journal::{Journal, JournalError};
    /// # let folder = tempfile::tempdir()?;
    /// # let journal = Journal::open(folder.path())?;
    /// let error = journal.run("greeting").unwrap_err();
    /// assert!(matches!(error, JournalError::NoSuchRun { .. }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// There is no such run, or its file cannot be read.
    pub fn run(&self, id: &str) -> Result<RunSummary> {
        summary_of(&self.path(id)?)?.ok_or_else(|| self.no_such_run(id))
    }

    /// Returns the ids of the runs that begin with a text, such as the name of a user. No more than the
    /// names of the files is read, unless an id is so long that its file has only its beginning.
    ///
    /// ```
    /// # use toolwright_journal::Journal;
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Reply};
    /// # use toolwright_orchestrator::Agent;
    /// # let folder = tempfile::tempdir()?;
    /// # let agent = Agent::new(Scripted::new(|_| Ok(Reply::text("Hello."))), [])?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let (journal, cx) = (Journal::open(folder.path())?, Context::default());
    /// journal.drive(&agent, "kate:1", "Say hello.", &cx).await?;
    /// journal.drive(&agent, "tom:1", "Say hello.", &cx).await?;
    /// assert_eq!(journal.ids_with("kate:")?, ["kate:1"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn ids_with(&self, prefix: &str) -> Result<Vec<String>> {
        Ok(self.files_with(prefix)?.into_iter().map(|(id, _)| id).collect())
    }

    /// Returns the ids of the runs that begin with a text, each with the time at which its file was
    /// changed, the last one first. No file is read, as with [`ids_with`](Self::ids_with).
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn changed_with(&self, prefix: &str) -> Result<Vec<(String, SystemTime)>> {
        let changed = |path: PathBuf| fs::symlink_metadata(path).and_then(|file| file.modified());
        let files = self.files_with(prefix)?.into_iter();
        let mut runs: Vec<_> =
            files.filter_map(|(id, path)| Some((id, changed(path).ok()?))).collect();
        runs.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
        Ok(runs)
    }

    /// Returns whether a run has finished or failed. Only the end of its file is read, if its last record
    /// is not a very long one.
    ///
    /// ```
    /// # use toolwright_journal::Journal;
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Reply};
    /// # use toolwright_orchestrator::Agent;
    /// # let folder = tempfile::tempdir()?;
    /// # let agent = Agent::new(Scripted::new(|_| Ok(Reply::text("Hello."))), [])?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let (journal, cx) = (Journal::open(folder.path())?, Context::default());
    /// journal.drive(&agent, "greeting", "Say hello.", &cx).await?;
    /// assert!(journal.has_ended("greeting")?);
    /// assert_eq!(journal.changed_with("greet")?[0].0, "greeting");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run).
    pub fn has_ended(&self, id: &str) -> Result<bool> {
        let path = self.path(id)?;
        let Some(line) = file::last_line(&path)? else {
            return Ok(self.run(id)?.status.is_ended());
        };
        if earlier::is_finished(&line) {
            return Ok(true);
        }
        let last = file::record(&path, 0, &parts::without(&line))?.record;
        Ok(matches!(last, Record::Finished { .. } | Record::Stopped { is_open: false, .. }))
    }

    fn files_with(&self, prefix: &str) -> Result<Vec<(String, PathBuf)>> {
        let mut files = Vec::new();
        for (path, stem) in self.files()? {
            match name::begins_with(&stem, prefix) {
                Some(true) => files.push((name::id_of(&stem), path)),
                Some(false) => {}
                // A file that cannot be read is in the list of all runs, with its error.
                None => files.extend(
                    Head::read(&path)
                        .ok()
                        .flatten()
                        .filter(|head| head.id.starts_with(prefix))
                        .map(|head| (head.id, path)),
                ),
            }
        }
        Ok(files)
    }

    /// Returns the recorded parts of a run, in the order in which they were written.
    ///
    /// ```
    /// # use toolwright_journal::Journal;
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Reply};
    /// # use toolwright_orchestrator::Agent;
    /// # let folder = tempfile::tempdir()?;
    /// # let agent = Agent::new(Scripted::new(|_| Ok(Reply::text("Hello."))), [])?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let (journal, cx) = (Journal::open(folder.path())?, Context::default());
    /// journal.drive(&agent, "greeting", "Say hello.", &cx).await?;
    /// assert_eq!(journal.records("greeting")?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run).
    pub fn records(&self, id: &str) -> Result<Vec<Record>> {
        let records = self.entries(id)?.into_iter().map(|(_, record)| record);
        Ok(records.filter(|record| record.part().is_some()).collect())
    }

    /// Returns all records of a run with their times, in the order in which they were written. It is
    /// for programs that show a run.
    ///
    /// ```
    /// # use toolwright_journal::Journal;
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Reply};
    /// # use toolwright_orchestrator::Agent;
    /// use toolwright_orchestrator::perform::Record;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let agent = Agent::new(Scripted::new(|_| Ok(Reply::text("Hello."))), [])?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let (journal, cx) = (Journal::open(folder.path())?, Context::default());
    /// journal.drive(&agent, "greeting", "Say hello.", &cx).await?;
    /// let entries = journal.entries("greeting")?;
    /// assert!(matches!(entries[0].1, Record::Started(_)));
    /// assert!(matches!(entries[2].1, Record::Finished { .. }));
    /// assert!(entries[0].0 <= entries[2].0);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run).
    pub fn entries(&self, id: &str) -> Result<Vec<(SystemTime, Record)>> {
        let path = self.path(id)?;
        let bytes = file::read(&path)?.ok_or_else(|| self.no_such_run(id))?;
        let mut entries = journal::read(&path, &file::parse(&path, &bytes)?)?;
        if let Some((_, Record::Started(started))) = entries.first_mut() {
            *started = earlier::whole(self, &mut Histories::default(), started.clone())?;
        }
        Ok(entries)
    }

    /// Returns the new records of several runs: of each, those after the given number of records. Runs
    /// that are not there are left out. A conversation that several runs go on with is read once.
    ///
    /// ```
    /// # use toolwright_journal::Journal;
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Reply};
    /// # use toolwright_orchestrator::Agent;
    /// # let folder = tempfile::tempdir()?;
    /// # let agent = Agent::new(Scripted::new(|_| Ok(Reply::text("Hello."))), [])?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let (journal, cx) = (Journal::open(folder.path())?, Context::default());
    /// journal.drive(&agent, "greeting", "Say hello.", &cx).await?;
    /// let new = journal.records_after(&[("greeting", 1), ("none", 0)])?;
    /// assert_eq!((new[0].0.as_str(), new[0].1.len(), new.len()), ("greeting", 2, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A file cannot be read.
    pub fn records_after(&self, runs: &[(&str, usize)]) -> Result<Vec<(String, Vec<Record>)>> {
        let (mut histories, mut found) = (Histories::default(), Vec::with_capacity(runs.len()));
        for &(id, known) in runs {
            let path = self.path(id)?;
            let Some(bytes) = file::read(&path)? else { continue };
            let mut contents = file::parse(&path, &bytes)?;
            if contents.lines.is_empty() {
                continue;
            }
            contents.lines.drain(..known.min(contents.lines.len()));
            let records = journal::read(&path, &contents)?.into_iter().map(|(_, record)| record);
            let mut records: Vec<_> = records.collect();
            if let Some(Record::Started(started)) = records.first_mut() {
                *started = earlier::whole(self, &mut histories, started.clone())?;
            }
            found.push((id.to_owned(), records));
        }
        Ok(found)
    }

    /// Returns the result of a run that has finished, and `None` for another one.
    ///
    /// ```
    /// # use toolwright_journal::Journal;
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Reply};
    /// # use toolwright_orchestrator::Agent;
    /// # let folder = tempfile::tempdir()?;
    /// # let agent = Agent::new(Scripted::new(|_| Ok(Reply::text("Hello."))), [])?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let (journal, cx) = (Journal::open(folder.path())?, Context::default());
    /// journal.drive(&agent, "greeting", "Say hello.", &cx).await?;
    /// let finished = journal.finished::<String>("greeting")?;
    /// assert_eq!(finished.map(|run| run.answer).as_deref(), Some("Hello."));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run), or the output is of another type.
    pub fn finished<O: DeserializeOwned>(&self, id: &str) -> Result<Option<Finished<O>>> {
        let records: Vec<_> = self.entries(id)?.into_iter().map(|(_, record)| record).collect();
        home::finished(id, &records)
    }

    /// Returns the runs in which a call waits for a person's decision.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn waiting(&self) -> Result<Vec<RunSummary>> {
        let mut runs = self.runs()?;
        runs.retain(|run| run.status == RunStatus::Waiting);
        Ok(runs)
    }

    /// Returns the tools that the agent of a run had when the run was started. It is `None` if they
    /// cannot be read. Agents below have tools of their own, which a journal does not keep.
    ///
    /// ```
    /// # use toolwright_journal::Journal;
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Reply};
    /// # use toolwright_orchestrator::Agent;
    /// # let folder = tempfile::tempdir()?;
    /// # let agent = Agent::new(Scripted::new(|_| Ok(Reply::text("Hello."))), [])?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let (journal, cx) = (Journal::open(folder.path())?, Context::default());
    /// journal.drive(&agent, "greeting", "Say hello.", &cx).await?;
    /// assert_eq!(journal.tools("greeting")?, Some(agent.tool_set()));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run).
    pub fn tools(&self, id: &str) -> Result<Option<ToolSet>> {
        Ok(self.stored_tools(self.started(id)?.run.tool_set_hash()))
    }

    /// Returns the task of a run, to drive it again without knowing where it came from.
    ///
    /// ```
    /// # use toolwright_journal::{Journal, RunStatus};
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Reply};
    /// # use toolwright_orchestrator::Agent;
    /// # let folder = tempfile::tempdir()?;
    /// # let agent = Agent::new(Scripted::new(|_| Ok(Reply::text("Hello."))), [])?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let (journal, cx) = (Journal::open(folder.path())?, Context::default());
    /// // At the start of a program: go on with everything that was cut off.
    /// for run in journal.runs()? {
    ///     if run.status == RunStatus::Open {
    ///         journal.drive(&agent, &run.id, journal.task(&run.id)?, &cx).await?;
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run).
    pub fn task(&self, id: &str) -> Result<Task> {
        Ok(self.started(id)?.task())
    }

    /// Returns the first record of a run.
    fn started(&self, id: &str) -> Result<Started> {
        let path = self.path(id)?;
        let bytes = file::read(&path)?.ok_or_else(|| self.no_such_run(id))?;
        let mut contents = file::parse(&path, &bytes)?;
        contents.lines.truncate(1);
        match journal::read(&path, &contents)?.pop() {
            Some((_, Record::Started(started))) => {
                earlier::whole(self, &mut Histories::default(), started)
            }
            Some(_) => Err(JournalError::NoStart { id: id.to_owned() }),
            None => Err(self.no_such_run(id)),
        }
    }

    /// Records a person's decision on a call that waits for it. The next drive of the run acts on
    /// it.
    ///
    /// `waiting` is one of [`RunSummary::waiting`]: the decision holds for exactly the call that the
    /// person saw. If two people decide at once, the second gets an error.
    ///
    /// ```
    /// # use toolwright_journal::Journal;
    /// # use toolwright_module::{Signature, Tool, from_fn};
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Reply, ToolCall};
    /// # use toolwright_orchestrator::{Agent, ApprovalPolicy};
    /// # /// Send a letter.
    /// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// # struct SendLetter {}
    /// # impl Signature for SendLetter { type Output = String; }
    /// # let letter = from_fn(async |_: SendLetter| Ok("Sent.".to_owned()));
    /// use toolwright_module::Effect;
    /// use toolwright_module::approval::Decision;
    /// use toolwright_module::error::Stage;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let (journal, cx) = (Journal::open(folder.path())?, Context::default());
    /// # let send = ToolCall::new("1", "send_letter", "{}");
    /// # let model = Scripted::replies([Reply::calls([send]), Reply::text("Done.")]);
    /// let agent = Agent::new(model, [Tool::new(letter)?])?
    ///     .with_approval(ApprovalPolicy::from_effect(Effect::Write))?;
    /// let error = journal.drive(&agent, "letter", "Send it.", &cx).await.unwrap_err();
    /// assert_eq!(error.stage(), Stage::Approval);
    ///
    /// // Later, and perhaps in another process:
    /// let waiting = journal.run("letter")?.waiting;
    /// assert_eq!(waiting[0].call.name, "send_letter");
    /// journal.decide("letter", &waiting[0], Decision::Approve)?;
    ///
    /// let finished = journal.drive(&agent, "letter", "Send it.", &cx).await?;
    /// assert_eq!(finished.answer, "Done.");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`JournalError::NotWaiting`]: the call is not one that waits.
    /// - [`JournalError::Stopped`]: the run was cancelled or has failed.
    /// - [`JournalError::Decided`]: the call was decided already.
    /// - [`JournalError::Decision`]: the decision does not suit the call.
    /// - [`JournalError::Locked`]: the run is driven now.
    /// - The file cannot be read or written.
    pub fn decide(&self, id: &str, waiting: &Approval, decision: Decision) -> Result<()> {
        self.decided(id, waiting, decision, None, false)
    }

    /// Records the decision of a person with a name, like [`decide`](Self::decide). The name is for
    /// people who look at the run later; the journal does not check it.
    ///
    /// ```
    /// # use toolwright_journal::{Journal, JournalError};
    /// # use toolwright_module::{Effect, ToolCall};
    /// # use toolwright_module::approval::{Approval, Decision};
    /// # fn example(journal: &Journal) -> Result<(), JournalError> {
    /// let waiting = journal.run("letter")?.waiting;
    /// journal.decide_as("Kate", "letter", &waiting[0], Decision::Approve)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`decide`](Self::decide).
    pub fn decide_as(
        &self,
        person: &str,
        id: &str,
        waiting: &Approval,
        decision: Decision,
    ) -> Result<()> {
        self.decided(id, waiting, decision, Some(person), false)
    }

    /// Replaces a decision from which nothing followed yet, like [`decide_as`](Self::decide_as). The
    /// first one was a mistake, or its arguments did not fit the tool and ended the drive.
    ///
    /// ```
    /// # use toolwright_journal::{Journal, JournalError};
    /// # use toolwright_module::approval::Decision;
    /// # fn example(journal: &Journal) -> Result<(), JournalError> {
    /// let waiting = journal.run("letter")?.waiting;
    /// journal.decide("letter", &waiting[0], Decision::Approve)?;
    /// journal.replace_decision("Kate", "letter", &waiting[0], Decision::deny("Not today."))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`JournalError::NotWaiting`] if there is no decision yet, [`JournalError::Decided`] if
    /// the run has gone on with it, and the other errors of [`decide`](Self::decide).
    pub fn replace_decision(
        &self,
        person: &str,
        id: &str,
        waiting: &Approval,
        decision: Decision,
    ) -> Result<()> {
        self.decided(id, waiting, decision, Some(person), true)
    }

    /// Ends a run that is not being driven, so that no program continues it automatically. Its state
    /// is then [`RunStatus::Failed`](crate::RunStatus::Failed), and it can be driven again. A run that
    /// has ended does not change.
    ///
    /// To end a run that is being driven, use the [`Cancellation`](toolwright_module::Cancellation) of
    /// its program: no other program can write to its file.
    ///
    /// ```
    /// # use toolwright_journal::Journal;
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Error, Reply, Request};
    /// # use toolwright_orchestrator::Agent;
    /// use toolwright_journal::RunStatus;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let no_network = |_: &Request| Err::<Reply, _>(Error::other("no network"));
    /// # let agent = Agent::new(Scripted::new(no_network), [])?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let (journal, cx) = (Journal::open(folder.path())?, Context::default());
    /// # journal.drive(&agent, "greeting", "Say hello.", &cx).await.unwrap_err();
    /// journal.cancel("greeting")?;
    /// assert_eq!(journal.run("greeting")?.status, RunStatus::Failed);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// There is no such run, it is driven now ([`JournalError::Locked`]), or its file cannot be
    /// written.
    pub fn cancel(&self, id: &str) -> Result<()> {
        self.cancel_with_reply(id, None)
    }

    /// Ends a run like [`cancel`](Self::cancel), and keeps what the model had written of its reply
    /// ([`home::cancelled`]).
    ///
    /// # Errors
    ///
    /// The errors of [`cancel`](Self::cancel).
    pub fn cancel_with_reply(
        &self,
        id: &str,
        unfinished_reply: Option<Vec<ReplyPart>>,
    ) -> Result<()> {
        let path = self.path(id)?;
        let (mut file, bytes) = {
            let _lock = self.folder_lock()?;
            self.open_existing(&path, id)?
        };
        let summary = summary::of_file(&path, &bytes)?.ok_or_else(|| self.no_such_run(id))?;
        if summary.status.is_ended() {
            return Ok(());
        }
        file.continue_after(&file::parse(&path, &bytes)?)?;
        file.write(&[file::json(home::cancelled(unfinished_reply), id)?])
    }

    fn decided(
        &self,
        id: &str,
        waiting: &Approval,
        decision: Decision,
        person: Option<&str>,
        replaces: bool,
    ) -> Result<()> {
        let path = self.path(id)?;
        let (mut file, bytes) = {
            let _lock = self.folder_lock()?;
            self.open_existing(&path, id)?
        };
        let contents = file::parse(&path, &bytes)?;
        let records = summary::records(&path, &contents).map(|line| Ok(line?.record));
        let records = records.collect::<Result<Vec<_>>>()?;
        if let Some(Record::Started(started)) = records.first() {
            name::check(&path, &started.id)?;
        }
        let record = home::decided(id, records, waiting, decision, person, replaces)?;
        file.continue_after(&contents)?;
        file.write(&[file::json(record, id)?])
    }

    /// Deletes a run. Later runs that go on from it keep their whole conversations: its file stays under
    /// another name until they are deleted, too.
    ///
    /// ```
    /// # use toolwright_journal::Journal;
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Reply};
    /// # use toolwright_orchestrator::Agent;
    /// # let folder = tempfile::tempdir()?;
    /// # let agent = Agent::new(Scripted::new(|_| Ok(Reply::text("Hello."))), [])?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let (journal, cx) = (Journal::open(folder.path())?, Context::default());
    /// journal.drive(&agent, "greeting", "Say hello.", &cx).await?;
    /// journal.delete("greeting")?;
    /// assert!(journal.runs()?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// There is no such run, it is driven now, or its file cannot be deleted.
    pub fn delete(&self, id: &str) -> Result<()> {
        let path = self.path(id)?;
        let _lock = self.folder_lock_alone()?;
        let file = self.open_existing(&path, id)?;
        Needs::read(self)?.delete(self, &path)?;
        drop(file);
        file::sync_folder(self.folder()).map_err(|error| JournalError::io(self.folder(), error))
    }

    /// Deletes the runs that have finished or failed and were last changed longer ago than `age`.
    /// Returns their ids. Open runs, runs that wait and unreadable ones stay, and so does a run that
    /// is driven.
    ///
    /// ```
    /// # use toolwright_journal::Journal;
    /// use std::time::Duration;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let journal = Journal::open(folder.path())?;
    /// let deleted = journal.delete_ended(Duration::from_secs(30 * 24 * 60 * 60))?;
    /// assert!(deleted.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The folder cannot be read, or a file cannot be deleted.
    pub fn delete_ended(&self, age: Duration) -> Result<Vec<String>> {
        let mut ended = self.runs()?;
        ended.retain(|run| {
            let since = SystemTime::now().duration_since(run.changed).unwrap_or_default();
            run.status.is_ended() && since >= age
        });
        let mut deleted = Vec::new();
        if ended.is_empty() {
            return Ok(deleted);
        }
        let _lock = self.folder_lock_alone()?;
        let mut needs = Needs::read(self)?;
        // The last ones first, so that those from which they go on are not needed any more.
        for run in ended.into_iter().rev() {
            let path = self.path(&run.id)?;
            let file = self.open_existing(&path, &run.id);
            match file.and_then(|_file| needs.delete(self, &path)) {
                Ok(()) => deleted.push(run.id),
                Err(JournalError::Locked { .. } | JournalError::NoSuchRun { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        deleted.reverse();
        file::sync_folder(self.folder()).map_err(|error| JournalError::io(self.folder(), error))?;
        Ok(deleted)
    }

    fn open_existing(&self, path: &Path, id: &str) -> Result<(RunFile, Vec<u8>)> {
        if !path.exists() {
            return Err(self.no_such_run(id));
        }
        RunFile::open(path, id, false)
    }

    pub(crate) fn no_such_run(&self, id: &str) -> JournalError {
        JournalError::NoSuchRun { id: id.to_owned(), folder: self.folder().to_owned() }
    }

    /// Returns the files of runs, each with its name without the extension.
    fn files(&self) -> Result<Vec<(PathBuf, String)>> {
        let failed = |error| JournalError::io(self.folder(), error);
        let mut files = Vec::new();
        for entry in fs::read_dir(self.folder()).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let (Some(stem), Some(extension)) = (path.file_stem(), path.extension()) else {
                continue;
            };
            if extension == name::EXTENSION {
                let stem = stem.to_string_lossy().into_owned();
                files.push((path, stem));
            }
        }
        Ok(files)
    }
}

fn summary_of(path: &Path) -> Result<Option<RunSummary>> {
    match file::read(path)? {
        Some(bytes) => summary::of_file(path, &bytes),
        None => Ok(None),
    }
}
