//! The runs of an agent: listing, decisions and deletion.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use toolwright_journal::{JournalError, RunStatus, RunSummary, home};
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::budget::Spent;
use toolwright_module::message::ReplyPart;
use toolwright_orchestrator::perform::{Record, Started};
use toolwright_orchestrator::{Task, ToolSet};

use crate::error::{Result, RunsError};
use crate::lease::milliseconds;
use crate::runs::{Runs, pool, record, spent};
use crate::tables;

/// Maximum length of a first record from which a list takes the task, in bytes. A longer one has a
/// conversation or images, which a list of many runs should not read.
const LONGEST_START: u32 = 65_536;

/// The runs that have a value of their metadata in common. See [`Runs::groups`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunGroup {
    /// The value.
    pub value: String,
    /// The time of the last record of these runs.
    pub changed: SystemTime,
    /// The runs, sorted by the time of their start.
    pub runs: Vec<RunSummary>,
}

impl Runs {
    /// Returns the names of the agents that have runs in a database, sorted. It creates no tables: a
    /// database without them has no agents.
    ///
    /// `url` is that of [`connect`](Self::connect).
    ///
    /// ```no_run
    /// use toolwright_postgres::Runs;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// for agent in Runs::agents("postgres://user:password@127.0.0.1/letters").await? {
    ///     println!("{agent}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The URL is not valid, or the server cannot be reached.
    pub async fn agents(url: &str) -> Result<Vec<String>> {
        let mut connection = pool(url)?.get().await?;
        let look = connection.transaction().await?;
        if !tables::are_there(&look, tables::RUNS.version_table).await? {
            return Ok(Vec::new());
        }
        let sql = "SELECT DISTINCT agent FROM toolwright_runs WHERE agent <> '' ORDER BY agent";
        look.query(sql, &[]).await?.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

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

    /// Returns the runs whose metadata have this value under this name, in groups: a group has the runs
    /// with the same value under `by`, such as those of a conversation. The group that changed last is
    /// first, with the time of this change. `before` is the time and the value of the group before the
    /// first one, and `most` the maximum number of groups.
    ///
    /// ```no_run
    /// use toolwright_postgres::Runs;
    ///
    /// # async fn example(runs: Runs) -> Result<(), Box<dyn std::error::Error>> {
    /// let page = runs.groups("user", "kate", "conversation", None, 50).await?;
    /// if let Some(last) = page.last() {
    ///     let before = Some((last.changed, &*last.value));
    ///     let next = runs.groups("user", "kate", "conversation", before, 50).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The database fails.
    pub async fn groups(
        &self,
        name: &str,
        value: &str,
        by: &str,
        before: Option<(SystemTime, &str)>,
        most: usize,
    ) -> Result<Vec<RunGroup>> {
        let texts = [name, value, by, before.map(|(_, value)| value).unwrap_or_default()];
        if texts.iter().any(|text| text.contains('\0')) {
            return Ok(Vec::new());
        }
        let sql = "SELECT metadata ->> $4 AS value, max(changed) AS latest FROM toolwright_runs
            WHERE agent = $1 AND metadata @> jsonb_build_object($2::text, $3::text)
                AND metadata ->> $4 IS NOT NULL
            GROUP BY value
            HAVING $5::timestamptz IS NULL OR max(changed) < $5
                OR max(changed) = $5 AND (metadata ->> $4) COLLATE \"C\" > $6
            ORDER BY latest DESC, (metadata ->> $4) COLLATE \"C\" LIMIT $7";
        let (agent, most) = (&*self.agent, i64::try_from(most).unwrap_or(i64::MAX));
        let (time, last) = (before.map(|(time, _)| time), before.map(|(_, value)| value));
        let connection = self.pool.get().await?;
        let statement = connection.prepare_cached(sql).await?;
        let arguments: &[&(dyn ToSql + Sync)] = &[&agent, &name, &value, &by, &time, &last, &most];
        let rows = connection.query(&statement, arguments).await?;
        drop(connection);
        let mut groups = Vec::with_capacity(rows.len());
        for row in rows {
            groups.push(RunGroup {
                value: row.try_get(0)?,
                changed: row.try_get(1)?,
                runs: Vec::new(),
            });
        }
        let values: Vec<&str> = groups.iter().map(|group| &*group.value).collect();
        let filter = "metadata @> jsonb_build_object($2::text, $3::text)
            AND metadata ->> $4 = ANY ($5)";
        for run in self.list(filter, &[&name, &value, &by, &values]).await? {
            let of = |group: &&mut RunGroup| run.metadata.get(by) == Some(&group.value);
            if let Some(group) = groups.iter_mut().find(of) {
                group.runs.push(run);
            }
        }
        Ok(groups)
    }

    /// Returns the runs in which a call waits for a person's decision.
    ///
    /// # Errors
    ///
    /// The database fails.
    pub async fn waiting(&self) -> Result<Vec<RunSummary>> {
        self.waiting_where("true", &[]).await
    }

    /// Returns the runs in which a call waits for a person's decision, and whose metadata have this value
    /// under this name.
    ///
    /// # Errors
    ///
    /// The database fails.
    pub async fn waiting_with(&self, name: &str, value: &str) -> Result<Vec<RunSummary>> {
        if name.contains('\0') || value.contains('\0') {
            return Ok(Vec::new());
        }
        let filter = "metadata @> jsonb_build_object($2::text, $3::text)";
        self.waiting_where(filter, &[&name, &value]).await
    }

    async fn waiting_where(
        &self,
        filter: &str,
        arguments: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<RunSummary>> {
        let filter = format!(
            "{filter} AND status IN ('open', 'waiting') AND EXISTS (
                SELECT FROM toolwright_records WHERE run = number AND asks IS NOT NULL)"
        );
        let mut runs = self.list(&filter, arguments).await?;
        runs.retain(|run| run.status == RunStatus::Waiting);
        Ok(runs)
    }

    /// Returns one run. If a call of it waits, each question is compared with the model's reply, as a
    /// decision does: a run with another question is [`RunStatus::Unreadable`].
    ///
    /// # Errors
    ///
    /// There is no such run, or the database fails.
    pub async fn run(&self, id: &str) -> Result<RunSummary> {
        check_id(id)?;
        let mut run = self.list("id = $2", &[&id]).await?.pop().ok_or_else(|| no_such_run(id))?;
        if run.task.is_none() {
            // Damaged records have no task.
            run.task = self.task(id).await.ok().map(|task| home::first_words(&task));
        }
        if !run.waiting.is_empty() {
            let records = self.entries(id).await?.into_iter().map(|(_, record)| record);
            if let Err(error) = home::check_questions(records) {
                (run.status, run.error) = (RunStatus::Unreadable, Some(error.to_string()));
                run.waiting.clear();
            }
        }
        Ok(run)
    }

    /// Returns the ids of the runs whose metadata have these values.
    ///
    /// # Errors
    ///
    /// The database fails.
    pub async fn ids_with(&self, metadata: &[(&str, &str)]) -> Result<Vec<String>> {
        if metadata.iter().any(|(name, value)| name.contains('\0') || value.contains('\0')) {
            return Ok(Vec::new());
        }
        let (names, values): (Vec<&str>, Vec<&str>) = metadata.iter().copied().unzip();
        let sql = "SELECT id FROM toolwright_runs
            WHERE agent = $1 AND metadata @> jsonb_object($2::text[], $3::text[])";
        let connection = self.pool.get().await?;
        let statement = connection.prepare_cached(sql).await?;
        let rows = connection.query(&statement, &[&&*self.agent, &names, &values]).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    async fn list(
        &self,
        filter: &str,
        arguments: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<RunSummary>> {
        let sql = format!(
            "SELECT number, id, metadata::text, status, started, changed, records, bytes, ending,
                error, CASE WHEN free_at > clock_timestamp() THEN worker END, spent,
                (SELECT record FROM toolwright_records
                    WHERE run = number AND nth = 0 AND octet_length(record) <= {LONGEST_START})
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
            // A damaged record is an error of this run, and not of the list.
            run.spent = Some(spent(row.try_get(11)?));
            let first = row.try_get::<_, Option<&str>>(12)?.map(serde_json::from_str);
            if let Some(Ok(Record::Started(started))) = first {
                run.task = Some(home::first_words(&started.task()));
            }
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
            // One damaged run does not hurt the list.
            match asked(&run.id, row.try_get(1)?, row.try_get(2)?) {
                Ok(approval) if run.status != RunStatus::Unreadable => {
                    run.status = RunStatus::Waiting;
                    // A run that was cancelled and driven again has asked twice.
                    let is_new = |asked: &Approval| !run.waiting.contains(asked);
                    run.waiting.extend(approval.filter(is_new));
                }
                Ok(_) => {}
                Err(error) => {
                    (run.status, run.error) = (RunStatus::Unreadable, Some(error.to_string()));
                    run.waiting.clear();
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
        let records = self.entries(id).await?.into_iter().map(|(_, record)| record);
        Ok(records.filter(|record| record.part().is_some()).collect())
    }

    /// Returns all records of a run with their times, in the order in which they were appended. It is
    /// for programs that show a run.
    ///
    /// # Errors
    ///
    /// There is no such run, or the database fails.
    pub async fn entries(&self, id: &str) -> Result<Vec<(SystemTime, Record)>> {
        self.entries_to(id, i32::MAX).await
    }

    /// Returns the records of a run with smaller numbers than `end`.
    async fn entries_to(&self, id: &str, end: i32) -> Result<Vec<(SystemTime, Record)>> {
        check_id(id)?;
        let sql = "SELECT nth, at, record, number
            FROM toolwright_runs JOIN toolwright_records ON run = number
            WHERE agent = $1 AND id = $2 AND nth < $3 ORDER BY nth";
        let connection = self.pool.get().await?;
        let statement = connection.prepare_cached(sql).await?;
        let rows = connection.query(&statement, &[&&*self.agent, &id, &end]).await?;
        drop(connection);
        let number = rows.first().ok_or_else(|| no_such_run(id))?.try_get(3)?;
        let read = |row: &Row| Ok((row.try_get(1)?, record(id, row.try_get(0)?, row.try_get(2)?)?));
        let read = rows.iter().map(read).collect::<Result<Vec<(SystemTime, Record)>>>()?;
        let (times, records): (Vec<_>, Vec<_>) = read.into_iter().unzip();
        Ok(times.into_iter().zip(self.with_whole(number, records).await?).collect())
    }

    /// Returns the first record of a run.
    async fn started(&self, id: &str) -> Result<Started> {
        match self.entries_to(id, 1).await?.pop() {
            Some((_, Record::Started(started))) => Ok(started),
            _ => Err(JournalError::NoStart { id: id.to_owned() }.into()),
        }
    }

    /// Returns the task of a run, to drive it again without knowing where it came from.
    ///
    /// # Errors
    ///
    /// There is no such run, or the database fails.
    pub async fn task(&self, id: &str) -> Result<Task> {
        Ok(self.started(id).await?.task())
    }

    /// Returns the tools that the agent of a run had when the run was started. It is `None` if they
    /// cannot be read. Agents below have tools of their own, which are not kept.
    ///
    /// # Errors
    ///
    /// There is no such run, or the database fails.
    pub async fn tools(&self, id: &str) -> Result<Option<ToolSet>> {
        self.stored_tools(self.started(id).await?.run.tool_set_hash()).await
    }

    /// Records a person's decision on a call that waits for it. The next drive of the run acts on
    /// it; a [worker](Self::work) takes the run at once.
    ///
    /// `waiting` is one of [`RunSummary::waiting`]: the decision holds for exactly the call that the
    /// person saw. If two people decide at once, the second gets an error.
    ///
    /// # Errors
    ///
    /// - [`JournalError::NotWaiting`]: the call is not one that waits.
    /// - [`JournalError::Stopped`]: the run was cancelled or has failed.
    /// - [`JournalError::Decided`]: the call was decided already.
    /// - [`JournalError::Decision`]: the decision does not suit the call.
    /// - [`RunsError::Locked`]: the run is driven now.
    /// - There is no such run, or the database fails.
    pub async fn decide(&self, id: &str, waiting: &Approval, decision: Decision) -> Result<()> {
        self.decided(id, waiting, decision, None, false).await
    }

    /// Records the decision of a person with a name, like [`decide`](Self::decide). The name is for
    /// people who look at the run later; nothing checks it.
    ///
    /// # Errors
    ///
    /// The errors of [`decide`](Self::decide).
    pub async fn decide_as(
        &self,
        person: &str,
        id: &str,
        waiting: &Approval,
        decision: Decision,
    ) -> Result<()> {
        self.decided(id, waiting, decision, Some(person), false).await
    }

    /// Replaces a decision from which nothing followed yet, like [`decide_as`](Self::decide_as). The
    /// first one was a mistake, or its arguments did not fit the tool and ended the drive.
    ///
    /// # Errors
    ///
    /// [`JournalError::NotWaiting`] if there is no decision yet, [`JournalError::Decided`] if
    /// the run has gone on with it, and the other errors of [`decide`](Self::decide).
    pub async fn replace_decision(
        &self,
        person: &str,
        id: &str,
        waiting: &Approval,
        decision: Decision,
    ) -> Result<()> {
        self.decided(id, waiting, decision, Some(person), true).await
    }

    async fn decided(
        &self,
        id: &str,
        waiting: &Approval,
        decision: Decision,
        person: Option<&str>,
        replaces: bool,
    ) -> Result<()> {
        check_id(id)?;
        let mut connection = self.pool.get().await?;
        let change = connection.transaction().await?;
        let sql = "SELECT number, CASE WHEN free_at > clock_timestamp() THEN worker END, records
            FROM toolwright_runs WHERE agent = $1 AND id = $2 FOR NO KEY UPDATE";
        let row = change.query_opt(sql, &[&&*self.agent, &id]).await?;
        let row = row.ok_or_else(|| no_such_run(id))?;
        let (number, worker): (i64, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
        let nth: i32 = row.try_get(2)?;
        let sql = "SELECT nth, record FROM toolwright_records WHERE run = $1 ORDER BY nth";
        let rows = change.query(sql, &[&number]).await?;
        let records = rows.iter().map(|row| record(id, row.try_get(0)?, row.try_get(1)?));
        let records = records.collect::<Result<Vec<_>>>()?;
        let decided = home::decided(id, records, waiting, decision, person, replaces)?;
        if let Some(worker) = worker {
            return Err(RunsError::Locked { id: id.to_owned(), worker });
        }
        let row = crate::lease::row(id, &decided)?;
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

    /// Ends a run, also one that another worker drives. Its state is [`RunStatus::Failed`] then: no
    /// worker goes on with it by itself, and [`drive`](Self::drive) does. A run that has ended stays
    /// as it is.
    ///
    /// The worker can record nothing more. Its drive ends when it notices that: at its next record,
    /// or when it renews its lease, which is after a third of the lease. A call that is under way
    /// then may have taken effect. If it changes something, the next drive asks a person about it.
    ///
    /// # Errors
    ///
    /// There is no such run, or the database fails.
    pub async fn cancel(&self, id: &str) -> Result<()> {
        self.cancel_with_reply(id, None).await
    }

    /// Ends a run like [`cancel`](Self::cancel), and keeps what the model had written of its reply
    /// ([`home::cancelled`]).
    ///
    /// # Errors
    ///
    /// The errors of [`cancel`](Self::cancel).
    pub async fn cancel_with_reply(
        &self,
        id: &str,
        unfinished_reply: Option<Vec<ReplyPart>>,
    ) -> Result<()> {
        check_id(id)?;
        let cancelled = home::cancelled(unfinished_reply);
        let Record::Stopped { error, .. } = &cancelled else { return Ok(()) };
        let mut connection = self.pool.get().await?;
        let change = connection.transaction().await?;
        let sql = "SELECT number, records, spent FROM toolwright_runs
            WHERE agent = $1 AND id = $2 AND status IN ('open', 'waiting') FOR NO KEY UPDATE";
        let Some(row) = change.query_opt(sql, &[&&*self.agent, &id]).await? else {
            drop(change);
            drop(connection);
            // It has ended, or it is not there.
            return self.run(id).await.map(drop);
        };
        let (number, nth): (i64, i32) = (row.try_get(0)?, row.try_get(1)?);
        let cost = home::cost(&cancelled);
        let cost = match cost == Spent::default() {
            true => row.try_get::<_, Option<String>>(2)?,
            false => serde_json::to_string(&(spent(row.try_get(2)?) + cost)).ok(),
        };
        let record = crate::lease::row(id, &cancelled)?.record;
        let bytes = i64::try_from(record.len()).unwrap_or(i64::MAX);
        let sql = "INSERT INTO toolwright_records (run, nth, record) VALUES ($1, $2, $3)";
        change.execute(sql, &[&number, &nth, &record]).await?;
        let sql = "UPDATE toolwright_runs SET changed = clock_timestamp(), records = records + 1,
                bytes = bytes + $2, spent = $3, status = 'failed', error = $4, worker = NULL,
                lease = lease + 1, free_at = clock_timestamp(), losses = 0, failures = 0
            WHERE number = $1";
        change.execute(sql, &[&number, &bytes, &cost, error]).await?;
        Ok(change.commit().await?)
    }

    /// Lets a run that rests after a drive that failed go on at once: a worker takes it, and its error is
    /// forgotten. Any other run stays as it is.
    ///
    /// # Errors
    ///
    /// The database fails.
    pub async fn wake(&self, id: &str) -> Result<()> {
        check_id(id)?;
        let sql = "UPDATE toolwright_runs SET error = NULL, free_at = clock_timestamp()
            WHERE agent = $1 AND id = $2 AND status = 'open' AND worker IS NULL";
        self.pool.get().await?.execute(sql, &[&&*self.agent, &id]).await?;
        Ok(())
    }

    /// Deletes a run. Later runs that go on from it keep their whole conversations: its records stay until
    /// they are deleted, too.
    ///
    /// # Errors
    ///
    /// There is no such run, it is driven now, or the database fails.
    pub async fn delete(&self, id: &str) -> Result<()> {
        check_id(id)?;
        let deleted = self
            .delete_where("id = $2 AND (worker IS NULL OR free_at <= clock_timestamp())", &[&id])
            .await?;
        if !deleted.is_empty() {
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
        self.delete_where(
            "status IN ('finished', 'failed') AND worker IS NULL
                AND changed <= clock_timestamp() - $2::bigint * interval '1 ms'",
            &[&milliseconds(age)],
        )
        .await
    }

    /// Deletes runs, and returns their ids. Those from which others go on are hidden instead.
    async fn delete_where(
        &self,
        filter: &str,
        arguments: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<String>> {
        let hide = format!(
            "WITH deleted AS (
                SELECT number, id FROM toolwright_runs WHERE agent = $1 AND {filter} FOR UPDATE
            )
            UPDATE toolwright_runs AS run SET agent = '', id = run.number::text, metadata = '{{}}',
                worker = NULL, lease = lease + 1
            FROM deleted WHERE run.number = deleted.number RETURNING deleted.id"
        );
        let agent = &*self.agent;
        let mut all: Vec<&(dyn ToSql + Sync)> = vec![&agent];
        all.extend(arguments);
        let mut connection = self.pool.get().await?;
        loop {
            let change = connection.transaction().await?;
            let rows = change.query(&hide, &all).await?;
            let ids = rows.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<Vec<_>>>()?;
            if ids.is_empty() {
                return Ok(ids);
            }
            match change.execute(tables::DELETE_HIDDEN, &[]).await {
                // Another run went on from one of them in the meantime.
                Err(error) if error.code() == Some(&SqlState::FOREIGN_KEY_VIOLATION) => continue,
                deleted => deleted?,
            };
            change.commit().await?;
            return Ok(ids);
        }
    }
}

/// Reads a question, and checks that it is about the call that its decision is for.
fn asked(id: &str, nth: i32, text: &str) -> Result<Option<Approval>> {
    let Record::Waiting(waiting) = record(id, nth, text)? else { return Ok(None) };
    waiting.check().map_err(JournalError::from)?;
    Ok(Some(waiting.approval))
}

/// Checks that the database may have a run with this id. Its texts are not empty and have no NUL
/// characters.
pub(crate) fn check_id(id: &str) -> Result<()> {
    match id {
        "" => Err(JournalError::NoId.into()),
        id if id.contains('\0') => Err(no_such_run(id)),
        _ => Ok(()),
    }
}

fn no_such_run(id: &str) -> RunsError {
    RunsError::NoSuchRun { id: id.to_owned() }
}
