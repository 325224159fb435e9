//! A run that a worker has: its records are appended and its lease is renewed by a task of their own.

use std::fmt;
use std::time::{Duration, Instant};

use deadpool_postgres::Pool;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, sleep_until, timeout};
use tokio_postgres::types::ToSql;
use toolwright_journal::JournalError;
use toolwright_journal::home;
use toolwright_module::budget::Spent;
use toolwright_module::model::BoxFuture;
use toolwright_module::runner::stable_hash;
use toolwright_orchestrator::perform::{Open, OutcomeKind, PartId, Record, Store};

use crate::error::{Result, RunsError};
use crate::tables;

/// How many records one statement appends at most.
const MOST_AT_ONCE: usize = 64;

/// The first pause before a statement is tried again, which doubles.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(50);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A run that was taken.
pub(crate) struct Taken {
    pub(crate) id: String,
    pub(crate) number: i64,
    pub(crate) lease: i64,
    /// The length of the lease.
    pub(crate) length: Duration,
    /// When the statement was sent. The lease ends its length later at the earliest.
    pub(crate) since: Instant,
    /// Number of records and of their bytes.
    pub(crate) records: i32,
    pub(crate) bytes: i64,
    /// The cost of all parts so far.
    pub(crate) spent: Spent,
}

/// The state of a run after a drive.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AfterDrive {
    pub(crate) status: &'static str,
    pub(crate) error: Option<String>,
    /// Whether the drive failed, so that the run rests for a while.
    pub(crate) rests: bool,
}

impl AfterDrive {
    pub(crate) fn open() -> Self {
        Self { status: "open", error: None, rests: false }
    }

    pub(crate) fn failed(error: &impl fmt::Display) -> Self {
        // With its causes, if it has such a form.
        Self { status: "open", error: Some(format!("{error:#}")), rests: true }
    }
}

/// A record to append.
struct Order {
    row: Row,
    cost: Spent,
    end: Option<End>,
    /// Gets an answer when the record is committed.
    done: oneshot::Sender<()>,
}

pub(crate) struct Row {
    pub(crate) asks: Option<String>,
    pub(crate) decides: Option<String>,
    pub(crate) record: String,
}

/// What the last record says about the run.
struct End {
    status: &'static str,
    ending: Option<String>,
    error: Option<String>,
}

enum Message {
    Append(Order),
    Release(AfterDrive, oneshot::Sender<()>),
}

/// Appends the records of one run, as long as the lease lasts.
pub(crate) struct Writer {
    id: String,
    messages: mpsc::UnboundedSender<Message>,
}

impl Writer {
    async fn write(&self, record: &Record) -> Result<()> {
        let (done, is_done) = oneshot::channel();
        let (row, cost, end) = (row(&self.id, record)?, home::cost(record), end(record));
        let ended = |_| JournalError::Ended { id: self.id.clone() };
        self.messages.send(Message::Append(Order { row, cost, end, done })).map_err(ended)?;
        is_done.await.map_err(|_| RunsError::Lost { id: self.id.clone() })
    }
}

impl Store for Writer {
    fn append<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<(), Open>> {
        Box::pin(async move { Ok(self.write(record).await?) })
    }
}

pub(crate) fn row(id: &str, record: &Record) -> Result<Row> {
    let json = serde_json::to_string(record);
    let json = json.map_err(|source| JournalError::Json { id: id.to_owned(), source })?;
    let (mut asks, mut decides) = (None, None);
    match record {
        Record::Waiting(waiting) => asks = Some(&waiting.part),
        Record::Ended { part, outcome, .. } if matches!(outcome.kind, OutcomeKind::Decided(_)) => {
            decides = Some(part);
        }
        _ => {}
    }
    // An id may be longer than what fits into an index, and it is only compared.
    let short = |part: &PartId| format!("{:032x}", stable_hash([&*part.to_string()]));
    Ok(Row { asks: asks.map(short), decides: decides.map(short), record: json })
}

fn end(record: &Record) -> Option<End> {
    match record {
        Record::Finished { ending, .. } => {
            let ending = serde_json::to_string(ending).ok();
            Some(End { status: "finished", ending, error: None })
        }
        Record::Stopped { error, is_open: false, .. } => {
            Some(End { status: "failed", ending: None, error: Some(without_nul(error)) })
        }
        _ => None,
    }
}

pub(crate) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The lease of a run during a drive. If it is dropped, the run is free for other workers as soon as
/// everything is written that was under way.
pub(crate) struct Lease {
    messages: mpsc::UnboundedSender<Message>,
    lost: Option<oneshot::Receiver<RunsError>>,
}

/// A run that this worker has. It is free again when this is dropped.
pub(crate) struct Held {
    pub(crate) lease: Lease,
    pub(crate) writer: Writer,
}

/// Starts the task that writes and renews.
pub(crate) fn hold(pool: Pool, taken: Taken) -> Held {
    let (messages, received) = mpsc::unbounded_channel();
    let (loses, lost) = oneshot::channel();
    let writer = Writer { id: taken.id.clone(), messages: messages.clone() };
    let until = taken.since + taken.length;
    let keeper = Keeper { pool, taken, until, is_free: false };
    tokio::spawn(keeper.run(received, loses));
    Held { lease: Lease { messages, lost: Some(lost) }, writer }
}

impl Lease {
    /// Waits until the run is lost.
    pub(crate) async fn lost(&mut self) -> RunsError {
        if let Some(lost) = &mut self.lost
            && let Ok(error) = lost.await
        {
            self.lost = None;
            return error;
        }
        // The task has ended without a loss.
        std::future::pending().await
    }

    /// Ends the lease, and waits until the database knows.
    pub(crate) async fn release(self, after: AfterDrive) {
        let (done, is_done) = oneshot::channel();
        // The task ends only after this message or a loss.
        if self.messages.send(Message::Release(after, done)).is_ok() {
            let _ = is_done.await;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (done, _) = oneshot::channel();
        let after = match std::thread::panicking() {
            true => AfterDrive::failed(&"the drive panicked"),
            false => AfterDrive::open(),
        };
        // After `release` this is a second message, which is ignored.
        let _ = self.messages.send(Message::Release(after, done));
    }
}

struct Keeper {
    pool: Pool,
    taken: Taken,
    /// Until when no other worker has the run, by the clock of this machine.
    until: Instant,
    /// Whether the last record has ended the lease.
    is_free: bool,
}

impl Keeper {
    async fn run(
        mut self,
        mut messages: mpsc::UnboundedReceiver<Message>,
        loses: oneshot::Sender<RunsError>,
    ) {
        let mut next = self.taken.since + self.taken.length / 3;
        // The senders of records that were not written. They are dropped after the drive knows why.
        let mut unwritten = Vec::new();
        let error = loop {
            let message = tokio::select! {
                biased;
                () = sleep_until(next.into()), if !self.is_free => None,
                message = messages.recv() => match message {
                    Some(message) => Some(message),
                    None => return,
                },
            };
            let (mut orders, mut release) = (Vec::new(), None);
            match message {
                None => {
                    let now = Instant::now();
                    if let Err(error) = self.renew(now).await {
                        break error;
                    }
                    next = now + self.taken.length / 3;
                    continue;
                }
                Some(Message::Append(order)) => orders.push(order),
                Some(Message::Release(after, done)) => release = Some((after, done)),
            }
            while release.is_none() && orders.len() < MOST_AT_ONCE {
                match messages.try_recv() {
                    Ok(Message::Append(order)) => orders.push(order),
                    Ok(Message::Release(after, done)) => release = Some((after, done)),
                    Err(_) => break,
                }
            }
            let (records, done): (Vec<_>, Vec<_>) = orders
                .into_iter()
                .map(|Order { row, cost, end, done }| ((row, cost, end), done))
                .unzip();
            if !records.is_empty()
                && let Err(error) = self.append(records).await
            {
                unwritten = done;
                break error;
            }
            for done in done {
                // The drive may have been dropped.
                let _ = done.send(());
            }
            if let Some((after, done)) = release {
                self.release(after).await;
                let _ = done.send(());
                return;
            }
        };
        tracing::warn!(run = self.taken.id, %error, "this worker has lost a run");
        // The drive ends with it, unless it has ended already.
        let _ = loses.send(error);
        drop(unwritten);
    }

    async fn append(&mut self, rows: Vec<(Row, Spent, Option<End>)>) -> Result<()> {
        let (mut asks, mut decides, mut records) = (Vec::new(), Vec::new(), Vec::new());
        let (mut bytes, mut spent, mut end) = (self.taken.bytes, self.taken.spent, None);
        for (row, cost, ends) in rows {
            spent += cost;
            bytes += i64::try_from(row.record.len()).unwrap_or(i64::MAX);
            asks.push(row.asks);
            decides.push(row.decides);
            records.push(row.record);
            end = ends.or(end);
        }
        let first = self.taken.records;
        let after = first + i32::try_from(records.len()).unwrap_or(i32::MAX);
        let open = End { status: "open", ending: None, error: None };
        let End { status, ending, error } = end.unwrap_or(open);
        let cost = serde_json::to_string(&spent).ok();
        let Taken { number, lease, .. } = &self.taken;
        self.until_end(
            tables::APPEND,
            &[
                number, lease, &after, &bytes, &status, &ending, &error, &first, &asks, &decides,
                &records, &cost,
            ],
        )
        .await?;
        (self.taken.records, self.taken.bytes, self.taken.spent) = (after, bytes, spent);
        self.is_free = status != "open";
        Ok(())
    }

    async fn renew(&mut self, now: Instant) -> Result<()> {
        let Taken { number, lease, length, .. } = &self.taken;
        self.until_end(tables::RENEW, &[number, lease, &milliseconds(*length)]).await?;
        self.until = now + *length;
        Ok(())
    }

    async fn release(&mut self, after: AfterDrive) {
        if self.is_free {
            return;
        }
        let AfterDrive { status, error, rests } = after;
        let error = error.as_deref().map(without_nul);
        let Taken { number, lease, .. } = &self.taken;
        let arguments: &[&(dyn ToSql + Sync)] = &[number, lease, &status, &error, &rests];
        if let Err(error) = self.until_end(tables::RELEASE, arguments).await {
            // Its lease ends by itself.
            tracing::warn!(run = self.taken.id, %error, "a run could not be released");
        }
    }

    /// Makes a statement, again and again if the database is away, until the lease ends. It changes
    /// nothing if another worker has the run, and returns a row otherwise.
    async fn until_end(&self, sql: &str, arguments: &[&(dyn ToSql + Sync)]) -> Result<()> {
        let lost = || RunsError::Lost { id: self.taken.id.clone() };
        let cancelled = || RunsError::Cancelled { id: self.taken.id.clone() };
        let mut pause = FIRST_PAUSE;
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            let error = match timeout(left, self.once(sql, arguments)).await {
                Ok(Ok(true)) => return Ok(()),
                Ok(Ok(false)) => {
                    // Nothing depends on it but the text of the error.
                    let number: &[&(dyn ToSql + Sync)] = &[&self.taken.number];
                    let looks = timeout(left, self.once(tables::IS_CANCELLED, number));
                    let is_cancelled = matches!(looks.await, Ok(Ok(true)));
                    return Err(if is_cancelled { cancelled() } else { lost() });
                }
                Err(_) => return Err(lost()),
                Ok(Err(error)) => error,
            };
            if !error.is_passing() || Instant::now() + pause >= self.until {
                return Err(error);
            }
            tracing::warn!(run = self.taken.id, %error, "the database of the runs is away");
            sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    async fn once(&self, sql: &str, arguments: &[&(dyn ToSql + Sync)]) -> Result<bool> {
        let connection = self.pool.get().await?;
        let statement = connection.prepare_cached(sql).await?;
        Ok(connection.query_opt(&statement, arguments).await?.is_some())
    }
}

pub(crate) fn milliseconds(duration: Duration) -> i64 {
    // The database cannot subtract much longer times.
    const MOST: i64 = 1000 * 365 * 24 * 60 * 60 * 1000;
    i64::try_from(duration.as_millis()).map_or(MOST, |duration| duration.min(MOST))
}
