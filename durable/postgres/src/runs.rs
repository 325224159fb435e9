//! The runs of an agent in a database: drives and starts.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::{Manager, Pool, Runtime};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::sleep;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{NoTls, Row};
use toolwright_journal::home::{self, Drive, DriveEnd, Histories};
use toolwright_journal::{JournalError, Options};
use toolwright_module::Context;
use toolwright_module::budget::Spent;
use toolwright_orchestrator::perform::{Record, Started};
use toolwright_orchestrator::{Agent, Finished, Task, ToolSet};

use crate::earlier::Stored;
use crate::error::{Result, RunsError};
use crate::lease::{self, AfterDrive, Held, Taken, milliseconds};
use crate::many::check_id;
use crate::tables;
use crate::url;

/// The length of a lease by default.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// The shortest lease. A shorter one would end between two renewals on a busy machine.
pub(crate) const SHORTEST_LEASE: Duration = Duration::from_millis(300);
/// The clock and the database cannot add much longer times.
pub(crate) const LONGEST_LEASE: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum length of an id and of the name of an agent, in bytes. PostgreSQL's index has a limit.
pub(crate) const LONGEST_ID: usize = 1_000;

const HAS_NUL: &str = "has a NUL character, which PostgreSQL cannot store";

/// Number of attempts to take a run that another drive has, and the pause between two of them. A drive
/// that was dropped keeps its run until its last record is written.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Timeout of connecting, and of a server that does not answer.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(10);

/// The runs of one agent in a PostgreSQL database. Each part of a run is committed before the run
/// goes on.
///
/// Clones are the same runs. Any number of processes on any number of machines may use one database;
/// a run is driven by one of them at a time, which has a lease of it. If this process dies, the
/// others may take the run when the lease has ended.
///
/// ```no_run
/// use toolwright_module::{Context, LanguageModel};
/// use toolwright_orchestrator::Agent;
/// use toolwright_postgres::Runs;
///
/// # async fn example(model: impl LanguageModel + 'static) -> Result<(), Box<dyn std::error::Error>> {
/// let agent = Agent::new(model, [])?;
/// let runs = Runs::connect("postgres://user:password@127.0.0.1/letters", "greeter").await?;
/// let cx = Context::default().with_run("greeting", [("tenant", "acme")]);
/// let finished = runs.drive(&agent, "greeting", "Say hello.", &cx).await?;
///
/// // The same again, perhaps on another machine: the answer is there, and no model is asked.
/// let again = runs.drive(&agent, "greeting", "Say hello.", &cx).await?;
/// assert_eq!(again, finished);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Runs {
    pub(crate) pool: Pool,
    pub(crate) agent: Arc<str>,
    pub(crate) worker: Arc<str>,
    pub(crate) lease: Duration,
    pub(crate) options: Options,
    /// The hashes of tools that are in the database.
    tools: Arc<Mutex<HashSet<String>>>,
}

impl Runs {
    /// Connects to a database without TLS, and creates the tables if they are not there. `agent` is
    /// a name for the agent whose runs these are: the runs of another name are others, and no worker
    /// takes them.
    ///
    /// `url` has the form of `psql`: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with special
    /// characters percent-encoded. Without a password, that of the variable `PGPASSWORD` is used. For
    /// TLS, or for other settings of the connections, make a pool and use
    /// [`with_pool`](Self::with_pool).
    ///
    /// # Errors
    ///
    /// The URL is not valid, the server cannot be reached, or the tables are of another version.
    pub async fn connect(url: &str, agent: &str) -> Result<Self> {
        Self::with_pool(pool(url)?, agent).await
    }

    /// Uses the connections of a pool, and creates the tables if they are not there. The tables are
    /// in the first schema of the connection's `search_path`.
    ///
    /// A statement needs a connection only while it runs, so a pool is enough for many more runs
    /// than it has connections.
    ///
    /// ```no_run
    /// use deadpool_postgres::{Manager, Pool, Runtime};
    /// use toolwright_postgres::Runs;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let config: tokio_postgres::Config = "postgres://user@database.example/letters".parse()?;
    /// // With TLS, this is a connector, such as that of `tokio-postgres-rustls`.
    /// let tls = tokio_postgres::NoTls;
    /// let pool = Pool::builder(Manager::new(config, tls)).runtime(Runtime::Tokio1).build()?;
    /// let runs = Runs::with_pool(pool, "greeter").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or the tables are of another version.
    pub async fn with_pool(pool: Pool, agent: &str) -> Result<Self> {
        check_text("agent", agent)?;
        tables::create(&pool, &tables::RUNS).await?;
        Ok(Self {
            pool,
            agent: agent.into(),
            worker: format!("process {}", std::process::id()).into(),
            lease: LEASE,
            options: Options::default(),
            tools: Arc::default(),
        })
    }

    /// Sets the name of this worker, which lists and errors show. Default: the number of the
    /// process.
    #[must_use]
    pub fn with_worker(mut self, name: impl Into<String>) -> Self {
        self.worker = lease::without_nul(&name.into()).into();
        self
    }

    /// Sets the length of a lease. Default: 30 seconds. The minimum is 300 milliseconds, and the maximum a
    /// day.
    ///
    /// A lease is renewed when a third of it has passed. A shorter one lets the runs of a dead
    /// worker go on sooner. A longer one lets a worker survive a longer failure of the database, or
    /// code that blocks its threads.
    #[must_use]
    pub fn with_lease(mut self, length: Duration) -> Self {
        self.lease = length.clamp(SHORTEST_LEASE, LONGEST_LEASE);
        self
    }

    /// Sets the options. Default: [`Options::default`].
    #[must_use]
    pub fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Returns the options.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Starts a run, or continues it where it was. If the run has finished, its result is returned.
    ///
    /// The run has this id in its context; the metadata come from
    /// [`Context::with_run`](toolwright_module::Context::with_run) of the first drive. The run keeps
    /// the instructions and the approval policy of its first drive. The limits are those of `agent`.
    ///
    /// If the returned future is dropped, the run stays where it is, and a [worker](Self::work) may
    /// go on with it.
    ///
    /// # Errors
    ///
    /// - [`Stage::Journal`](toolwright_module::error::Stage::Journal) with a [`RunsError`] as
    ///   its cause. No model sees such an error.
    /// - [`Stage::Approval`](toolwright_module::error::Stage::Approval) with
    ///   [`AwaitsApproval`](toolwright_orchestrator::AwaitsApproval) as its cause: a call
    ///   needs the decision of a person, and there is no approver. Record it with
    ///   [`decide`](Self::decide), and drive the run again.
    /// - The other errors of [`Agent::drive`]. After most of them the run can be driven
    ///   again.
    pub fn drive<'a, O>(
        &'a self,
        agent: &'a Agent<O>,
        id: &'a str,
        task: impl Into<Task>,
        cx: &'a Context,
    ) -> impl Future<Output = toolwright_module::Result<Finished<O>>> + Send + 'a
    where
        O: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        let drive = Drive::new(agent, id, task, cx);
        async move {
            let mut drive = drive?;
            match self.begin(id, &mut drive).await.map_err(RunsError::into_module)? {
                Opened::Finished(finished) => Ok(finished),
                Opened::Open(held) => held.drive(agent, drive, &self.options).await,
            }
        }
    }

    /// Starts a run without driving it. A [worker](Self::work) does that. When this returns, the run
    /// is committed.
    ///
    /// The same id and task again change nothing.
    ///
    /// # Errors
    ///
    /// - [`Stage::Journal`](toolwright_module::error::Stage::Journal) with a [`RunsError`] as
    ///   its cause.
    /// - [`Stage::Setup`](toolwright_module::error::Stage::Setup): the agent cannot start a run.
    pub fn start<'a, O: Send + Sync + 'static>(
        &'a self,
        agent: &'a Agent<O>,
        id: &'a str,
        task: impl Into<Task>,
        cx: &'a Context,
    ) -> impl Future<Output = toolwright_module::Result<()>> + Send + 'a {
        let drive = Drive::new(agent, id, task, cx);
        async move { self.start_with(id, &drive?).await.map_err(RunsError::into_module) }
    }

    async fn start_with(&self, id: &str, drive: &Drive) -> Result<()> {
        if self.insert(id, drive, None).await?.is_none() {
            self.look(id, drive).await?;
        }
        Ok(())
    }

    /// Starts the run, or takes it, and adds its records to the drive.
    async fn begin<O: DeserializeOwned>(&self, id: &str, drive: &mut Drive) -> Result<Opened<O>> {
        for attempt in 1.. {
            if let Some(taken) = self.insert(id, drive, Some(&self.worker)).await? {
                return Ok(Opened::Open(lease::hold(self.pool.clone(), taken)));
            }
            let found = self.look(id, drive).await?;
            if found.is_finished {
                if let Some(finished) = self.finished(id).await? {
                    return Ok(Opened::Finished(finished));
                }
            } else if let Some(taken) = self.take(id).await? {
                let number = taken.number;
                let held = lease::hold(self.pool.clone(), taken);
                let read = async {
                    drive.set_records(self.records_of(id, number).await?)?;
                    self.check_tools(id, drive).await
                };
                return held.or_free(read.await).await.map(|(held, ())| Opened::Open(held));
            } else if attempt >= LOCK_TRIES {
                let worker = found.worker.unwrap_or_else(|| "another worker".to_owned());
                return Err(RunsError::Locked { id: id.to_owned(), worker });
            }
            sleep(LOCK_PAUSE).await;
        }
        Err(RunsError::NoSuchRun { id: id.to_owned() })
    }

    /// Reads a run that this worker has taken, and compares its tools.
    pub(crate) async fn open<O: Send + Sync + 'static>(
        &self,
        agent: &Agent<O>,
        id: &str,
        number: i64,
        held: Held,
        context: impl AsyncFnOnce(&Started) -> toolwright_module::Result<Context>,
    ) -> toolwright_module::Result<(Held, Drive)> {
        let read = async {
            let records = self.records_of(id, number).await.map_err(RunsError::into_module)?;
            let Some(Record::Started(started)) = records.first() else {
                let error = JournalError::NoStart { id: id.to_owned() };
                return Err(RunsError::from(error).into_module());
            };
            let cx = context(started).await?;
            let drive = Drive::stored(agent, id, records, &cx).map_err(RunsError::from);
            let mut drive = drive.map_err(RunsError::into_module)?;
            self.check_tools(id, &mut drive).await.map_err(RunsError::into_module)?;
            Ok(drive)
        };
        held.or_free(read.await).await
    }

    /// Compares the agent's tools with those with which the run was started.
    async fn check_tools(&self, id: &str, drive: &mut Drive) -> Result<()> {
        let Some(hash) = drive.earlier_tools() else { return Ok(()) };
        match self.stored_tools(hash).await? {
            Some(earlier) => drive.check_tools(earlier)?,
            None => tracing::warn!(run = id, "cannot compare the tools of a run"),
        }
        Ok(())
    }

    /// Inserts a run unless this id has one. If `worker` is set, that worker gets the lease at once.
    async fn insert(&self, id: &str, drive: &Drive, worker: Option<&str>) -> Result<Option<Taken>> {
        let json = |source| JournalError::Json { id: id.to_owned(), source };
        let started = drive.started()?;
        check_text("id", id)?;
        let metadata = &started.metadata;
        if metadata.iter().any(|(name, value)| name.contains('\0') || value.contains('\0')) {
            return Err(RunsError::Text { what: "metadata", reason: HAS_NUL.to_owned() });
        }
        let metadata = serde_json::to_string(metadata).map_err(json)?;
        let hash = drive.tools().hash();
        let is_known = self.tools.lock().unwrap_or_else(PoisonError::into_inner).contains(hash);
        let tools = match is_known {
            true => None,
            false => Some(serde_json::to_string(drive.tools()).map_err(json)?),
        };
        let length = if worker.is_some() { milliseconds(self.lease) } else { 0 };
        let (stored, earlier) = self.leave_out(started.clone(), drive.earlier_run()).await;
        let insert = async |started: Started, earlier: Option<i64>| {
            let record = serde_json::to_string(&Record::Started(started)).map_err(json)?;
            let bytes = i64::try_from(record.len()).unwrap_or(i64::MAX);
            let connection = self.pool.get().await?;
            let statement = connection.prepare_cached(tables::START).await?;
            let (since, agent) = (Instant::now(), &*self.agent);
            let arguments: &[&(dyn ToSql + Sync)] = &[
                &agent, &id, &metadata, &bytes, &worker, &length, &hash, &tools, &record, &earlier,
            ];
            let row = connection.query_opt(&statement, arguments).await?;
            Ok::<_, RunsError>((row, bytes, since))
        };
        let inserted = match insert(stored, earlier).await {
            // The earlier run was deleted in the meantime.
            Err(error) if error.has_code(&SqlState::FOREIGN_KEY_VIOLATION) => {
                insert(started, None).await
            }
            inserted => inserted,
        };
        let (row, bytes, since) = inserted?;
        let Some(row) = row else { return Ok(None) };
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).insert(hash.to_owned());
        let (number, lease, length) = (row.try_get(0)?, 1, self.lease);
        let (id, spent) = (id.to_owned(), Spent::default());
        Ok(Some(Taken { id, number, lease, length, since, records: 1, bytes, spent }))
    }

    /// Looks at the run with this id, and compares its task.
    async fn look(&self, id: &str, drive: &Drive) -> Result<Found> {
        let sql = "SELECT record, status = 'finished', worker, number
            FROM toolwright_runs JOIN toolwright_records ON run = number AND nth = 0
            WHERE agent = $1 AND id = $2";
        let connection = self.pool.get().await?;
        let statement = connection.prepare_cached(sql).await?;
        let row = connection.query_opt(&statement, &[&&*self.agent, &id]).await?;
        // It was deleted in the meantime.
        let row = row.ok_or_else(|| RunsError::NoSuchRun { id: id.to_owned() })?;
        match record(id, 0, row.try_get(0)?)? {
            Record::Started(started) => {
                let (mut histories, none) = (Histories::default(), Stored::new());
                let number = row.try_get(3)?;
                let started = self.whole(number, started, &mut histories, &none).await?;
                drive.check(&started)?;
            }
            _ => return Err(JournalError::NoStart { id: id.to_owned() }.into()),
        }
        Ok(Found { is_finished: row.try_get(1)?, worker: row.try_get(2)? })
    }

    async fn take(&self, id: &str) -> Result<Option<Taken>> {
        let connection = self.pool.get().await?;
        let statement = connection.prepare_cached(tables::TAKE).await?;
        let (since, length) = (Instant::now(), milliseconds(self.lease));
        let row = connection
            .query_opt(&statement, &[&&*self.agent, &id, &&*self.worker, &length])
            .await?;
        row.map(|row| self.taken(id.to_owned(), &row, since)).transpose()
    }

    /// Returns a run that was taken, from the first columns of a row.
    pub(crate) fn taken(&self, id: String, row: &Row, since: Instant) -> Result<Taken> {
        let (number, lease, length) = (row.try_get(0)?, row.try_get(1)?, self.lease);
        let (records, bytes, spent) = (row.try_get(2)?, row.try_get(3)?, spent(row.try_get(4)?));
        Ok(Taken { id, number, lease, length, since, records, bytes, spent })
    }

    /// Returns the tools with this hash. It is `None` if they cannot be read.
    pub(crate) async fn stored_tools(&self, hash: &str) -> Result<Option<ToolSet>> {
        let sql = "SELECT tools FROM toolwright_tools WHERE hash = $1";
        let connection = self.pool.get().await?;
        let statement = connection.prepare_cached(sql).await?;
        let row = connection.query_opt(&statement, &[&hash]).await?;
        Ok(row.and_then(|row| serde_json::from_str(row.get(0)).ok()))
    }

    async fn records_of(&self, id: &str, number: i64) -> Result<Vec<Record>> {
        let sql = "SELECT nth, record FROM toolwright_records WHERE run = $1 ORDER BY nth";
        let connection = self.pool.get().await?;
        let statement = connection.prepare_cached(sql).await?;
        let rows = connection.query(&statement, &[&number]).await?;
        drop(connection);
        let records = rows.iter().map(|row| record(id, row.try_get(0)?, row.try_get(1)?));
        self.with_whole(number, records.collect::<Result<_>>()?).await
    }

    /// Returns the number of a run with its first record, and with its last one if it has finished, as they
    /// are stored. `None` if there is no such run.
    pub(crate) async fn ends_of(&self, id: &str) -> Result<Option<(i64, Vec<Record>)>> {
        let sql = "SELECT number, nth, record
            FROM toolwright_runs JOIN toolwright_records ON run = number
            WHERE agent = $1 AND id = $2 AND (nth = 0 OR status = 'finished' AND nth = records - 1)
            ORDER BY nth";
        let connection = self.pool.get().await?;
        let statement = connection.prepare_cached(sql).await?;
        let rows = connection.query(&statement, &[&&*self.agent, &id]).await?;
        let Some(first) = rows.first() else { return Ok(None) };
        let records = rows.iter().map(|row| record(id, row.try_get(1)?, row.try_get(2)?));
        Ok(Some((first.try_get(0)?, records.collect::<Result<_>>()?)))
    }

    /// Returns the result of a run that has finished, and `None` for another one.
    ///
    /// # Errors
    ///
    /// There is no such run, or its output is of another type.
    pub async fn finished<O: DeserializeOwned>(&self, id: &str) -> Result<Option<Finished<O>>> {
        check_id(id)?;
        let found = self.ends_of(id).await?;
        let (number, records) = found.ok_or_else(|| RunsError::NoSuchRun { id: id.to_owned() })?;
        if records.len() == 1 {
            return Ok(None);
        }
        let records = self.with_whole(number, records).await?;
        Ok(home::finished(id, &records)?)
    }
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runs")
            .field("agent", &self.agent)
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}

/// The state of a run that this worker has not taken.
struct Found {
    is_finished: bool,
    worker: Option<String>,
}

#[allow(clippy::large_enum_variant, reason = "it is taken apart at once")]
enum Opened<O> {
    Finished(Finished<O>),
    Open(Held),
}

impl Held {
    /// Returns the run with a result, or frees it after an error.
    async fn or_free<T, E: fmt::Display>(self, result: Result<T, E>) -> Result<(Self, T), E> {
        match result {
            Ok(found) => Ok((self, found)),
            Err(error) => {
                self.lease.release(AfterDrive::failed(&error)).await;
                Err(error)
            }
        }
    }

    pub(crate) async fn drive<O: Serialize + Send + Sync + 'static>(
        self,
        agent: &Agent<O>,
        drive: Drive,
        options: &Options,
    ) -> toolwright_module::Result<Finished<O>> {
        let Self { mut lease, writer } = self;
        let result = tokio::select! {
            biased;
            error = lease.lost() => Err(error.into_module()),
            result = drive.run(agent, writer, options) => result,
        };
        let text = || result.as_ref().err().map(|error| format!("{error:#}"));
        let (status, error, rests) = match DriveEnd::of(&result) {
            DriveEnd::Released => ("open", None, false),
            DriveEnd::Waiting => ("waiting", None, false),
            DriveEnd::Stopped => ("failed", text(), false),
            DriveEnd::Failed => ("open", text(), true),
        };
        lease.release(AfterDrive { status, error, rests }).await;
        result
    }
}

/// Returns a pool of connections without TLS.
pub(crate) fn pool(url: &str) -> Result<Pool> {
    let mut config =
        url::config(url).map_err(|reason| RunsError::Text { what: "database URL", reason })?;
    // As psql does, so that the password need not be an argument, which other users can see.
    if let (None, Ok(password)) = (config.get_password(), std::env::var("PGPASSWORD")) {
        config.password(password);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(NETWORK_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(NETWORK_TIMEOUT);
    }
    Pool::builder(Manager::new(config, NoTls))
        .wait_timeout(Some(NETWORK_TIMEOUT))
        .create_timeout(Some(NETWORK_TIMEOUT))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| RunsError::Connection { source: Box::new(error) })
}

/// Reads the cost of a run.
pub(crate) fn spent(text: Option<&str>) -> Spent {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// Reads a record.
pub(crate) fn record(id: &str, nth: i32, record: &str) -> Result<Record> {
    let failed = |source| RunsError::Damaged { id: id.to_owned(), nth, source };
    serde_json::from_str(record).map_err(failed)
}

/// Checks a text that PostgreSQL has to hold as it is.
fn check_text(what: &'static str, text: &str) -> Result<()> {
    let reason = if text.is_empty() {
        "is empty".to_owned()
    } else if text.contains('\0') {
        HAS_NUL.to_owned()
    } else if text.len() > LONGEST_ID {
        format!("has {} bytes; the maximum is {LONGEST_ID}", text.len())
    } else {
        return Ok(());
    };
    Err(RunsError::Text { what, reason })
}
