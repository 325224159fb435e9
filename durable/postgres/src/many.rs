//! The runs of an agent: listing, decisions and deletion.

use std::collections::HashMap;
use std::time::Duration;

use tokio_postgres::types::ToSql;
use toolwright_journal::home::{self, Entry};
use toolwright_journal::{JournalError, RunStatus, RunSummary};
use toolwright_module::approval::{Approval, Decision};
use toolwright_orchestrator::perform::Record;

use crate::error::{Result, RunsError};
use crate::lease::milliseconds;
use crate::runs::{Runs, entry};

impl Runs {
    /// Returns all runs, sorted by the time of their start.
    ///
    /// # Errors
    ///
    /// The database fails.
    pub async fn runs(&self) -> Result<Vec<RunSummary>> {
        self.list("true", &[]).await
    }

    /// Returns the runs whose metadata have this value under this name.
    ///
    /// # Errors
    ///
    /// The database fails.
    pub async fn runs_with(&self, name: &str, value: &str) -> Result<Vec<RunSummary>> {
        if name.contains('\0') || value.contains('\0') {
            return Ok(Vec::new());
        }
        self.list("metadata @> jsonb_build_object($2::text, $3::text)", &[&name, &value]).await
    }

    /// Returns the runs in which a call waits for a person's decision.
    ///
    /// # Errors
    ///
    /// The database fails.
    pub async fn waiting(&self) -> Result<Vec<RunSummary>> {
        let mut runs = self
            .list(
                "status IN ('open', 'waiting') AND EXISTS (
                    SELECT FROM toolwright_records WHERE run = number AND asks IS NOT NULL)",
                &[],
            )
            .await?;
        runs.retain(|run| run.status == RunStatus::Waiting);
        Ok(runs)
    }

    /// Returns one run.
    ///
    /// # Errors
    ///
    /// There is no such run, or the database fails.
    pub async fn run(&self, id: &str) -> Result<RunSummary> {
        let found = match id.contains('\0') {
            true => None,
            false => self.list("id = $2", &[&id]).await?.pop(),
        };
        found.ok_or_else(|| RunsError::NoSuchRun { id: id.to_owned() })
    }

    async fn list(
        &self,
        filter: &str,
        arguments: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<RunSummary>> {
        let sql = format!(
            "SELECT number, id, metadata::text, status, started, changed, records, bytes, ending,
                error, CASE WHEN free_at > clock_timestamp() THEN worker END
            FROM toolwright_runs WHERE agent = $1 AND {filter} ORDER BY started, number"
        );
        let connection = self.pool.get().await?;
        let statement = connection.prepare_cached(&sql).await?;
        let agent = &*self.agent;
        let mut all: Vec<&(dyn ToSql + Sync)> = vec![&agent];
        all.extend(arguments);
        let (mut runs, mut places, mut open) = (Vec::new(), HashMap::new(), Vec::new());
        for row in connection.query(&statement, &all).await? {
            let id: String = row.try_get(1)?;
            let json = |source| JournalError::Json { id: id.clone(), source };
            let metadata = serde_json::from_str(row.try_get(2)?).map_err(json)?;
            let ending = row.try_get::<_, Option<&str>>(8)?;
            let ending = ending.map(serde_json::from_str).transpose().map_err(json)?;
            let status = match row.try_get(3)? {
                "waiting" => RunStatus::Waiting,
                "finished" => RunStatus::Finished,
                "failed" => RunStatus::Failed,
                _ => RunStatus::Open,
            };
            if !status.is_ended() {
                let number: i64 = row.try_get(0)?;
                places.insert(number, runs.len());
                open.push(number);
            }
            let mut run = RunSummary::new(id, status);
            (run.metadata, run.ending) = (metadata, ending);
            (run.started, run.changed) = (row.try_get(4)?, row.try_get(5)?);
            (run.worker, run.error) = (row.try_get(10)?, row.try_get(9)?);
            run.records = usize::try_from(row.try_get::<_, i32>(6)?).unwrap_or_default();
            run.bytes = u64::try_from(row.try_get::<_, i64>(7)?).unwrap_or_default();
            runs.push(run);
        }
        let sql = "SELECT run, nth, record FROM toolwright_records AS asked
            WHERE run = ANY ($1) AND asks IS NOT NULL AND NOT EXISTS (
                SELECT FROM toolwright_records AS decided
                WHERE decided.run = asked.run AND decided.decides = asked.asks)
            ORDER BY run, nth";
        let statement = connection.prepare_cached(sql).await?;
        for row in connection.query(&statement, &[&open]).await? {
            let Some(place) = places.get(&row.try_get::<_, i64>(0)?) else { continue };
            let run: &mut RunSummary = &mut runs[*place];
            if let Entry::Waiting(waiting) = entry(&run.id, row.try_get(1)?, row.try_get(2)?)? {
                match home::check_question(&run.id, &waiting) {
                    Ok(()) if run.status != RunStatus::Unreadable => {
                        run.status = RunStatus::Waiting;
                        run.waiting.push(waiting.approval);
                    }
                    Ok(()) => {}
                    Err(error) => {
                        (run.status, run.error) = (RunStatus::Unreadable, Some(error.to_string()));
                        run.waiting.clear();
                    }
                }
            }
        }
        Ok(runs)
    }

    /// Returns the recorded parts of a run, in the order in which they were appended.
    ///
    /// # Errors
    ///
    /// There is no such run, or the database fails.
    pub async fn records(&self, id: &str) -> Result<Vec<Record>> {
        let sql = "SELECT nth, record FROM toolwright_runs JOIN toolwright_records ON run = number
            WHERE agent = $1 AND id = $2 ORDER BY nth";
        let connection = self.pool.get().await?;
        let statement = connection.prepare_cached(sql).await?;
        let rows = connection.query(&statement, &[&&*self.agent, &id]).await?;
        if rows.is_empty() {
            return Err(RunsError::NoSuchRun { id: id.to_owned() });
        }
        let mut records = Vec::new();
        for row in rows {
            if let Entry::Part(record) = entry(id, row.try_get(0)?, row.try_get(1)?)? {
                records.push(record.into_owned());
            }
        }
        Ok(records)
    }

    /// Records a person's decision on a call that waits for it. The next drive of the run acts on
    /// it; a [worker](Self::work) takes the run at once.
    ///
    /// `waiting` is one of [`RunSummary::waiting`]: the decision holds for exactly the call that the
    /// person saw. It can be replaced until the run is driven.
    ///
    /// # Errors
    ///
    /// - [`JournalError::NotWaiting`]: the call is not one that waits.
    /// - [`JournalError::Decision`]: the decision does not suit the call.
    /// - [`RunsError::Locked`]: the run is driven now.
    /// - There is no such run, or the database fails.
    pub async fn decide(&self, id: &str, waiting: &Approval, decision: Decision) -> Result<()> {
        home::check_decision(id, waiting, &decision)?;
        let mut connection = self.pool.get().await?;
        let change = connection.transaction().await?;
        let sql = "SELECT number, CASE WHEN free_at > clock_timestamp() THEN worker END, records
            FROM toolwright_runs WHERE agent = $1 AND id = $2 FOR NO KEY UPDATE";
        let row = change.query_opt(sql, &[&&*self.agent, &id]).await?;
        let row = row.ok_or_else(|| RunsError::NoSuchRun { id: id.to_owned() })?;
        let (number, worker): (i64, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
        let nth: i32 = row.try_get(2)?;
        if let Some(worker) = worker {
            return Err(RunsError::Locked { id: id.to_owned(), worker });
        }
        let sql = "SELECT record FROM toolwright_records WHERE run = $1 ORDER BY nth";
        let rows = change.query(sql, &[&number]).await?;
        let entries = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<&str>, _>>()?;
        let found = home::find_waiting(id, entries, waiting)?;
        let entry = Entry::Part(std::borrow::Cow::Owned(found.decided(decision)));
        let row = crate::lease::row(id, &entry)?;
        let sql = "INSERT INTO toolwright_records (run, nth, decides, record)
            VALUES ($1, $2, $3, $4)";
        change.execute(sql, &[&number, &nth, &row.decides, &row.record]).await?;
        // With a new lease, because a worker that was thought dead may still be there.
        let sql = "UPDATE toolwright_runs SET changed = clock_timestamp(), records = records + 1,
                bytes = bytes + $2, status = 'open', error = NULL, worker = NULL,
                lease = lease + 1, free_at = clock_timestamp(), losses = 0, failures = 0
            WHERE number = $1";
        let bytes = i64::try_from(row.record.len()).unwrap_or(i64::MAX);
        change.execute(sql, &[&number, &bytes]).await?;
        Ok(change.commit().await?)
    }

    /// Deletes a run.
    ///
    /// # Errors
    ///
    /// There is no such run, it is driven now, or the database fails.
    pub async fn delete(&self, id: &str) -> Result<()> {
        let connection = self.pool.get().await?;
        let sql = "DELETE FROM toolwright_runs WHERE agent = $1 AND id = $2
            AND (worker IS NULL OR free_at <= clock_timestamp())";
        if connection.execute(sql, &[&&*self.agent, &id]).await? > 0 {
            return Ok(());
        }
        let worker = self.run(id).await?.worker;
        let worker = worker.unwrap_or_else(|| "another worker".to_owned());
        Err(RunsError::Locked { id: id.to_owned(), worker })
    }

    /// Deletes the runs that have finished or failed and were last changed longer ago than `age`.
    /// Returns their ids. Open runs, runs that wait and runs that are driven stay.
    ///
    /// # Errors
    ///
    /// The database fails.
    pub async fn delete_ended(&self, age: Duration) -> Result<Vec<String>> {
        let sql = "DELETE FROM toolwright_runs
            WHERE agent = $1 AND status IN ('finished', 'failed') AND worker IS NULL
                AND changed <= clock_timestamp() - $2::bigint * interval '1 ms'
            RETURNING id";
        let connection = self.pool.get().await?;
        let rows = connection.query(sql, &[&&*self.agent, &milliseconds(age)]).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }
}
