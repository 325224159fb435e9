//! Workers, which drive the runs that no other worker drives.

use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::sleep;
use toolwright_module::error::Stage;
use toolwright_module::{Context, Error};
use toolwright_orchestrator::perform::Started;
use toolwright_orchestrator::{Agent, Finished};

use crate::error::Result;
use crate::lease::{self, Held, milliseconds};
use crate::runs::Runs;
use crate::tables;

/// How often a worker looks for runs while it has nothing to do.
const PAUSE: Duration = Duration::from_millis(250);

impl Runs {
    /// Drives the runs that no other worker drives, at most `most` at a time, until the context is
    /// cancelled.
    /// These are the runs that were [started](Self::start) and not driven, those whose worker is
    /// dead, and those whose call was decided on.
    ///
    /// A run that waits for a person or has ended is left alone. A run whose drive fails is tried
    /// again, after a pause that grows from one second to five minutes; [`runs`](Self::runs) shows
    /// the error. A run whose workers die again and again is taken more and more rarely, at least
    /// once in an hour.
    ///
    /// Any number of workers may run on any number of machines. If the database is away, a worker
    /// waits for it. When the context is cancelled, the drives end and other workers can take their
    /// runs at once; this function returns then.
    ///
    /// ```no_run
    /// use toolwright_module::Cancellation;
    /// use toolwright_module::{Context, LanguageModel};
    /// use toolwright_orchestrator::Agent;
    /// use toolwright_postgres::Runs;
    ///
    /// # async fn example(model: impl LanguageModel + 'static) -> Result<(), Box<dyn std::error::Error>> {
    /// # let url = "postgres://user:password@127.0.0.1/letters";
    /// let agent = Agent::new(model, [])?;
    /// let runs = Runs::connect(url, "greeter").await?;
    /// runs.start(&agent, "greeting", "Say hello.", &Context::default()).await?;
    ///
    /// let cancellation = Cancellation::default();
    /// let cx = Context::default().with_cancellation(cancellation.clone());
    /// // Elsewhere, `cancellation.cancel()` ends it.
    /// runs.work(&agent, 16, &cx).await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn work<O>(&self, agent: &Agent<O>, most: usize, cx: &Context)
    where
        O: Serialize + Send + Sync + 'static,
    {
        let most = most.max(1);
        // They end with this future.
        let mut drives = JoinSet::new();
        while !cx.is_cancelled() {
            let room = most - drives.len();
            let taken = match room {
                0 => Vec::new(),
                room => self.take_free(room).await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "the database of the runs is away");
                    Vec::new()
                }),
            };
            let is_full = taken.len() == room;
            for taken in taken {
                let (cx, agent) = (cx.clone(), agent.clone());
                drives.spawn(async move {
                    // It says why in the log.
                    let _ = taken.drive(&agent, async |_: &Started| Ok(cx)).await;
                });
            }
            let rest = async {
                sleep(PAUSE).await;
                Ok(())
            };
            tokio::select! {
                _ = drives.join_next(), if !drives.is_empty() => {}
                // With all that it may drive, it looks again when one of them has ended.
                _ = cx.until_cancelled(rest), if !is_full => {}
            }
        }
        while drives.join_next().await.is_some() {}
    }

    /// Takes runs that no other worker drives, at most `most`: those that [`work`](Self::work) drives.
    /// It is for a program with a loop of its own, in which each run has a context of its own, such as
    /// one with the database of its user.
    ///
    /// ```no_run
    /// use toolwright_module::{Context, Error, LanguageModel};
    /// use toolwright_orchestrator::Agent;
    /// use toolwright_postgres::Runs;
    ///
    /// /// The user of a run, for its tools.
    /// struct User(String);
    ///
    /// # async fn example(model: impl LanguageModel + 'static, runs: Runs) -> Result<(), Box<dyn std::error::Error>> {
    /// let agent = Agent::new(model, [])?;
    /// for taken in runs.take_free(16).await? {
    ///     taken
    ///         .drive(&agent, async |started| {
    ///             let user = started.metadata.get("user").ok_or_else(|| Error::stop("no user"))?;
    ///             Ok(Context::default().with(User(user.clone())))
    ///         })
    ///         .await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The database fails.
    pub async fn take_free(&self, most: usize) -> Result<Vec<TakenRun>> {
        let connection = self.pool.get().await?;
        let statement = connection.prepare_cached(tables::TAKE_FREE).await?;
        let (since, length) = (Instant::now(), milliseconds(self.lease));
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows =
            connection.query(&statement, &[&&*self.agent, &&*self.worker, &length, &most]).await?;
        let mut taken = Vec::with_capacity(rows.len());
        for row in rows {
            let (id, before): (String, Option<String>) = (row.try_get(5)?, row.try_get(6)?);
            if let Some(before) = before {
                tracing::warn!(run = id, worker = before, "took over a run whose worker is gone");
            }
            let taken_run = self.taken(id.clone(), &row, since)?;
            let number = taken_run.number;
            let held = lease::hold(self.pool.clone(), taken_run);
            taken.push(TakenRun { runs: self.clone(), id, number, held });
        }
        Ok(taken)
    }
}

/// A run that this worker has taken. If it is dropped, other workers may take it.
pub struct TakenRun {
    runs: Runs,
    id: String,
    number: i64,
    held: Held,
}

impl TakenRun {
    /// Returns the id of the run.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Drives the run. `context` returns its context for its start, whose metadata say whose run it is.
    ///
    /// # Errors
    ///
    /// Those of [`Runs::drive`], and the error of `context`, after which the run rests as after a drive
    /// that failed.
    pub async fn drive<O: Serialize + Send + Sync + 'static>(
        self,
        agent: &Agent<O>,
        context: impl AsyncFnOnce(&Started) -> toolwright_module::Result<Context>,
    ) -> toolwright_module::Result<Finished<O>> {
        let Self { runs, id, number, held } = self;
        let opened = runs.open(agent, &id, number, held, context).await;
        let result = match opened {
            Ok((held, drive)) => held.drive(agent, drive, &runs.options).await,
            Err(error) => Err(error),
        };
        result.inspect_err(|error| log(&id, error))
    }
}

impl fmt::Debug for TakenRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakenRun").field("id", &self.id).finish_non_exhaustive()
    }
}

fn log(run: &str, error: &Error) {
    match error.stage() {
        Stage::Approval => tracing::info!(run, "a run waits for a decision"),
        Stage::Cancelled => {}
        _ => tracing::warn!(run, error = format!("{error:#}"), "a drive has failed"),
    }
}
