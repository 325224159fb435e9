//! What is new in runs, for programs that show them while other workers drive them.

use std::collections::HashMap;

use tokio_postgres::types::ToSql;
use toolwright_journal::RunStatus;
use toolwright_journal::home::Histories;
use toolwright_orchestrator::perform::Record;

use crate::earlier::Stored;
use crate::error::Result;
use crate::runs::{Runs, record};

/// What a reader has of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// The id of the run.
    pub id: String,
    /// Number of its records.
    pub records: usize,
    /// The drive and the number of the last [live text](Runs::put_live).
    pub live: (i64, i64),
}

/// What is new in a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct News {
    /// The id of the run.
    pub id: String,
    /// The state of the run.
    pub status: RunStatus,
    /// Whether a worker drives it now.
    pub is_driven: bool,
    /// The error of the last drive.
    pub error: Option<String>,
    /// Which drive of the run it is. It grows.
    pub drive: i64,
    /// The new live texts of this drive, with their numbers.
    pub live: Vec<(i64, String)>,
    /// The new records.
    pub records: Vec<Record>,
}

impl Runs {
    /// Returns what is new in runs. Runs that are not there are left out.
    ///
    /// The state is read first and the records last, so that a run that has finished has its last
    /// record.
    ///
    /// # Errors
    ///
    /// The database fails, or a record is damaged.
    pub async fn news(&self, seen: &[Seen]) -> Result<Vec<News>> {
        let ids: Vec<&str> = seen.iter().map(|seen| &*seen.id).collect();
        let connection = self.pool.get().await?;
        let sql =
            "SELECT id, status, worker IS NOT NULL AND free_at > clock_timestamp(), error, lease,
                number
            FROM toolwright_runs WHERE agent = $1 AND id = ANY ($2)";
        let statement = connection.prepare_cached(sql).await?;
        let agent = &*self.agent;
        let (mut news, mut places) = (Vec::new(), HashMap::new());
        let (mut numbers, mut records, mut drives, mut live) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for row in connection.query(&statement, &[&agent, &ids]).await? {
            let id: String = row.try_get(0)?;
            let Some(seen) = seen.iter().find(|seen| seen.id == id) else { continue };
            let status = match row.try_get(1)? {
                "waiting" => RunStatus::Waiting,
                "finished" => RunStatus::Finished,
                "failed" => RunStatus::Failed,
                _ => RunStatus::Open,
            };
            let (drive, number): (i64, i64) = (row.try_get(4)?, row.try_get(5)?);
            places.insert(number, news.len());
            numbers.push(number);
            records.push(i32::try_from(seen.records).unwrap_or(i32::MAX));
            drives.push(drive);
            live.push(if seen.live.0 == drive { seen.live.1 } else { -1 });
            let (is_driven, error) = (row.try_get(2)?, row.try_get(3)?);
            let (live, records) = (Vec::new(), Vec::new());
            news.push(News { id, status, is_driven, error, drive, live, records });
        }
        let sql = "SELECT live.run, live.nth, live.text
            FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS seen (run, lease, nth)
                JOIN toolwright_live AS live ON live.run = seen.run AND live.lease = seen.lease
                    AND live.nth > seen.nth
            ORDER BY live.run, live.nth";
        let statement = connection.prepare_cached(sql).await?;
        for row in connection.query(&statement, &[&numbers, &drives, &live]).await? {
            let place = places.get(&row.try_get::<_, i64>(0)?);
            if let Some(news) = place.and_then(|place| news.get_mut(*place)) {
                news.live.push((row.try_get(1)?, row.try_get(2)?));
            }
        }
        let sql = "SELECT records.run, records.nth, records.record
            FROM unnest($1::bigint[], $2::integer[]) AS seen (run, records)
                JOIN toolwright_records AS records ON records.run = seen.run
                    AND records.nth >= seen.records
            ORDER BY records.run, records.nth";
        let statement = connection.prepare_cached(sql).await?;
        for row in connection.query(&statement, &[&numbers, &records]).await? {
            let place = places.get(&row.try_get::<_, i64>(0)?);
            if let Some(news) = place.and_then(|place| news.get_mut(*place)) {
                news.records.push(record(&news.id, row.try_get(1)?, row.try_get(2)?)?);
            }
        }
        drop(connection);
        self.put_back(&mut news, &places).await?;
        Ok(news)
    }

    /// Puts the conversations of earlier runs into new starts. Those of the same conversation are read
    /// once.
    async fn put_back(&self, news: &mut [News], places: &HashMap<i64, usize>) -> Result<()> {
        let mut stored = Stored::new();
        let mut starts = Vec::new();
        for (number, place) in places {
            let Some(news) = news.get(*place) else { continue };
            let Some(first @ Record::Started(started)) = news.records.first() else { continue };
            if started.after.is_some() {
                starts.push((*number, *place));
            }
            let end = news.records.last();
            let end = end.filter(|record| matches!(record, Record::Finished { .. }));
            stored.insert(
                number.to_string(),
                [Some(first), end].into_iter().flatten().cloned().collect(),
            );
        }
        // The first ones of a conversation first.
        starts.sort_unstable();
        let mut histories = Histories::default();
        for (number, place) in starts {
            let news = news.get_mut(place);
            if let Some(Record::Started(started)) = news.and_then(|news| news.records.first_mut()) {
                *started = self.whole(number, started.clone(), &mut histories, &stored).await?;
            }
        }
        Ok(())
    }

    /// Stores a text about the reply that a model is writing, for readers at other workers. It is
    /// stored only while this worker drives the run, and is gone when the server crashes.
    ///
    /// `nth` is its number in this drive. The form of the text is the program's.
    ///
    /// # Errors
    ///
    /// The database fails.
    pub async fn put_live(&self, id: &str, nth: i64, text: &str) -> Result<()> {
        let sql = "INSERT INTO toolwright_live (run, lease, nth, text)
            SELECT number, lease, $4, $5 FROM toolwright_runs
            WHERE agent = $1 AND id = $2 AND worker = $3 AND free_at > clock_timestamp()
            ON CONFLICT DO NOTHING";
        // JSON with the escape of a NUL character is a text without it.
        let arguments: &[&(dyn ToSql + Sync)] = &[&&*self.agent, &id, &&*self.worker, &nth, &text];
        let connection = self.pool.get().await?;
        let statement = connection.prepare_cached(sql).await?;
        connection.execute(&statement, arguments).await?;
        Ok(())
    }

    /// Deletes the live texts of a run, whose replies are records now.
    ///
    /// # Errors
    ///
    /// The database fails.
    pub async fn clear_live(&self, id: &str) -> Result<()> {
        let sql = "DELETE FROM toolwright_live USING toolwright_runs
            WHERE run = number AND agent = $1 AND id = $2";
        let connection = self.pool.get().await?;
        let statement = connection.prepare_cached(sql).await?;
        connection.execute(&statement, &[&&*self.agent, &id]).await?;
        Ok(())
    }
}
