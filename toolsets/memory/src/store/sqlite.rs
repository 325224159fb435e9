//! The store in a file, which is an SQLite database.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Row, Transaction, TransactionBehavior,
    params,
};
use tokio::sync::Mutex;
use toolwright_module::__files::{self, Link};
use toolwright_module::error::Stage;
use toolwright_module::model::BoxFuture;
use toolwright_module::{Error, Result};

use super::{Entry, Held, Store};
use crate::blocking::run_blocking;
use crate::limits::MemoryLimits;
use crate::search::Search;
use crate::tools::Metadata;

/// The `application_id` in the file's header that marks a memory: `TWme`.
const APPLICATION: i32 = 0x5457_6d65;
/// The version of the tables below.
const VERSION: i32 = 1;
/// Timeout of a change, for changes by this and other processes.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
/// Timeout for writing the access that a read counts.
const ACCESS_TIMEOUT: Duration = Duration::from_millis(100);
/// Delay before accesses are written again after that failed.
const ACCESS_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of idle connections for reads.
const MAX_IDLE_READERS: usize = 4;

/// The schema. `place` is the order of insertion. Accesses have their own table, because SQLite
/// rewrites a row with all its text when one number changes.
const TABLES: &str = "
CREATE TABLE memory (
    place INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    value TEXT NOT NULL,
    tags TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    characters INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
) STRICT;
CREATE TABLE access (
    place INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    last_at TEXT NOT NULL
) STRICT;
CREATE TABLE held (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    entries INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
INSERT INTO held VALUES (1, 0, 0);
";

/// A store in a file, with one connection for changes, a few for reads, and a new one for each
/// search, because a search can take long.
///
/// In SQLite's WAL mode, reads do not wait for writes. Reads therefore never use the connection
/// for changes.
pub(crate) struct Sqlite {
    file: Arc<File>,
}

struct File {
    path: PathBuf,
    writer: Arc<Mutex<Connection>>,
    /// The idle connections for reads.
    readers: std::sync::Mutex<Vec<Connection>>,
    /// It is locked while accesses are written, so that each access is counted exactly once: here
    /// or in the file.
    accesses: std::sync::Mutex<Accesses>,
}

/// Accesses that are not in the file yet, by the `place` of the entry.
///
/// A read must not fail because the disk is full or the file is locked. If its access cannot be
/// written, it is written later.
#[derive(Default)]
struct Accesses {
    by_place: HashMap<i64, Access>,
    /// The earliest time of the next attempt. A successful change writes them earlier.
    not_before: Option<Instant>,
}

struct Access {
    /// Distinguishes the entry from a later one with the same `place`.
    created_at: String,
    count: u64,
    last_at: Timestamp,
}

impl Accesses {
    fn add(&mut self, place: i64, created_at: String, now: Timestamp) {
        // Accesses of an earlier entry at this place do not count any more.
        if self.of(place, &created_at).is_none() {
            self.by_place.remove(&place);
        }
        let new = Access { created_at, count: 0, last_at: now };
        let access = self.by_place.entry(place).or_insert(new);
        access.count += 1;
        access.last_at = access.last_at.max(now);
    }

    /// Returns the accesses of an entry.
    fn of(&self, place: i64, created_at: &str) -> Option<&Access> {
        self.by_place.get(&place).filter(|access| access.created_at == created_at)
    }

    /// Writes the accesses and commits the transaction.
    fn commit(&mut self, change: Transaction<'_>) -> rusqlite::Result<()> {
        if !self.by_place.is_empty() {
            // The entry may have been removed or replaced since.
            let sql = "INSERT INTO access
                SELECT place, ?3, ?4 FROM memory WHERE place = ?1 AND created_at = ?2
                ON CONFLICT (place) DO UPDATE SET count = count + excluded.count,
                last_at = max(last_at, excluded.last_at)";
            let mut statement = change.prepare(sql)?;
            for (place, access) in &self.by_place {
                let count = i64::try_from(access.count).unwrap_or(i64::MAX);
                statement.execute(params![place, access.created_at, count, access.last_at])?;
            }
        }
        change.commit()?;
        self.by_place.clear();
        self.not_before = None;
        Ok(())
    }
}

impl File {
    fn accesses(&self) -> MutexGuard<'_, Accesses> {
        self.accesses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn readers(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` in a transaction with exclusive write access.
    fn change<T>(
        &self,
        connection: &mut Connection,
        until: Instant,
        work: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        // The time that was spent waiting for this process's other changes is subtracted.
        connection.busy_timeout(until.saturating_duration_since(Instant::now()))?;
        let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let result = work(&change)?;
        self.accesses().commit(change)?;
        Ok(result)
    }

    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = self.readers().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?,
        };
        let result = work(&connection)?;
        let mut readers = self.readers();
        if readers.len() < MAX_IDLE_READERS {
            readers.push(connection);
        }
        Ok(result)
    }

    /// Writes the accesses, unless a change is running.
    fn count_accesses(&self) -> Result<()> {
        loop {
            let now = Instant::now();
            let accesses = self.accesses();
            let wait = accesses.not_before.is_some_and(|time| now < time);
            if accesses.by_place.is_empty() || wait {
                return Ok(());
            }
            drop(accesses);
            // A running change calls this function again after it has released the lock.
            let Ok(mut writer) = self.writer.try_lock() else { return Ok(()) };
            if let Err(error) = self.change(&mut writer, now + ACCESS_TIMEOUT, |_| Ok(())) {
                if !is_temporary(&error) {
                    return Err(error);
                }
                self.accesses().not_before = Instant::now().checked_add(ACCESS_RETRY_DELAY);
            }
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let writer = Arc::clone(&self.writer);
        if !self.accesses().by_place.is_empty()
            && let Ok(mut writer) = writer.try_lock()
        {
            // The last attempt to write accesses that could not be written before.
            let _ = self.change(&mut writer, Instant::now() + ACCESS_RETRY_DELAY, |_| Ok(()));
        }
    }
}

impl Sqlite {
    pub(crate) async fn open(path: &Path) -> Result<Self> {
        // With an absolute path, `:memory:` is a normal file name, and a search finds the file
        // after the working directory has changed.
        let path = std::path::absolute(path).map_err(|error| setup(path, &error))?;
        let opened = path.clone();
        let connection = run_blocking(move || prepare(&opened)).await??;
        let file = File {
            path,
            writer: Arc::new(Mutex::new(connection)),
            readers: std::sync::Mutex::default(),
            accesses: std::sync::Mutex::default(),
        };
        Ok(Self { file: Arc::new(file) })
    }

    async fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let until = Instant::now() + CHANGE_TIMEOUT;
        let mut writer = Arc::clone(&self.file.writer).lock_owned().await;
        let file = Arc::clone(&self.file);
        let changed = run_blocking(move || {
            let result = file.change(&mut writer, until, work)?;
            drop(writer);
            file.count_accesses()?;
            Ok(result)
        });
        changed.await?.map_err(failed)
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&File) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let file = Arc::clone(&self.file);
        run_blocking(move || work(&file)).await?.map_err(failed)
    }
}

fn code(error: &Error) -> Option<ErrorCode> {
    error.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code)
}

/// Returns whether an error may go away: a full disk or a locked file, but not a damaged one.
fn is_temporary(error: &Error) -> bool {
    use ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseLocked, DiskFull, FileLockingProtocolFailed,
        PermissionDenied, ReadOnly, SystemIoFailure,
    };
    matches!(
        code(error),
        Some(
            CannotOpen
                | DatabaseBusy
                | DatabaseLocked
                | DiskFull
                | FileLockingProtocolFailed
                | PermissionDenied
                | ReadOnly
                | SystemIoFailure
        )
    )
}

/// Converts an error of a call. If a model can react, the result has a text for it.
fn failed(error: Error) -> Error {
    let for_model = match code(&error) {
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed,
        ) => Error::retry("The memory is busy. Try again in a moment.").retryable(true),
        Some(ErrorCode::DiskFull) => Error::refuse(
            "The memory was not changed, because there is no space left on its disk. Delete \
             entries that are no longer needed, or tell the user.",
        ),
        Some(ErrorCode::ReadOnly) => {
            Error::refuse("The memory was not changed, because it is read-only. Tell the user.")
        }
        _ => return error,
    };
    for_model.with_source(error.into_std())
}

fn setup(path: &Path, reason: &dyn std::fmt::Display) -> Error {
    let text = format!("cannot open the memory in {}: {reason}", path.display());
    Error::other(text).at(Stage::Setup)
}

fn prepare(path: &Path) -> Result<Connection> {
    // SQLite would write to a pipe or a device. It has an error of its own for a folder.
    if !path.is_dir() {
        __files::check(path, Link::Follow).map_err(|error| setup(path, &error))?;
    }
    let begun = Instant::now();
    loop {
        match make(path) {
            Ok(connection) => return Ok(connection),
            // SQLite's busy timeout does not cover the switch to WAL mode, which several processes
            // may attempt when they open a new file.
            Err(error) if failed_busy(&error) && begun.elapsed() < CHANGE_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) if error.stage() == Stage::Setup => return Err(error),
            Err(error) => return Err(setup(path, &error).retryable(failed_busy(&error))),
        }
    }
}

fn failed_busy(error: &Error) -> bool {
    code(error) == Some(ErrorCode::DatabaseBusy)
}

fn make(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut connection = connect(path, flags)?;
    // This check comes before any write, because the file may belong to another program. It needs
    // a transaction, because another process may be creating the tables.
    let new = is_new(&*connection.transaction()?, path)?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "full")?;
    if new {
        let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have created the tables meanwhile.
        if is_new(&change, path)? {
            change.execute_batch(TABLES)?;
            change.pragma_update(None, "application_id", APPLICATION)?;
            change.pragma_update(None, "user_version", VERSION)?;
        }
        change.commit()?;
    }
    Ok(connection)
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(CHANGE_TIMEOUT)?;
    Ok(connection)
}

/// Returns whether the file is empty. Fails if it is not a memory.
fn is_new(connection: &Connection, path: &Path) -> Result<bool> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let sql = "SELECT EXISTS (SELECT * FROM sqlite_schema)";
    let filled: bool = connection.query_row(sql, (), |row| row.get(0))?;
    match (number("application_id")?, number("user_version")?, filled) {
        (0, 0, false) => Ok(true),
        (APPLICATION, VERSION, _) => Ok(false),
        (APPLICATION, ..) => {
            Err(setup(path, &"it was written by a newer version of Toolwright; use that version"))
        }
        _ => Err(setup(path, &"it is the database of another program; use another path")),
    }
}

fn held(connection: &Connection) -> Result<Held> {
    let held = |row: &Row<'_>| Ok(Held { entries: number(row, 0)?, bytes: number(row, 1)? });
    Ok(connection.query_row("SELECT entries, bytes FROM held", (), held)?)
}

fn hold(connection: &Connection, held: Held) -> Result<()> {
    let row = params![whole(held.entries), whole(held.bytes)];
    connection.execute("UPDATE held SET entries = ?1, bytes = ?2", row)?;
    Ok(())
}

/// Returns the place and the size of an entry, and the size of its value, in bytes.
fn find(connection: &Connection, key: &str) -> Result<Option<(i64, usize, usize)>> {
    let sql = "SELECT place, bytes, octet_length(value) FROM memory WHERE key = ?1";
    let found = |row: &Row<'_>| Ok((row.get(0)?, number(row, 1)?, number(row, 2)?));
    Ok(connection.query_row(sql, [key], found).optional()?)
}

fn forget_accesses(connection: &Connection, place: i64) -> Result<()> {
    connection.execute("DELETE FROM access WHERE place = ?1", [place])?;
    Ok(())
}

fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<usize> {
    let number: i64 = row.get(column)?;
    usize::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

impl Store for Sqlite {
    fn store(&self, entry: Entry, limits: MemoryLimits) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.change(move |connection| {
            let bytes = entry.bytes();
            let Entry { key, value, tags } = entry;
            let (tags, characters) = (serde_json::to_string(&tags)?, value.chars().count());
            let earlier = find(connection, &key)?;
            let before = held(connection)?;
            let after = before.with(bytes, earlier.map(|(_, bytes, _)| bytes));
            limits.check(before, after)?;
            // The clock is read in the transaction, so that times follow the order of the changes.
            let now = Timestamp::now();
            let sql = "INSERT INTO memory
                (key, value, tags, bytes, characters, created_at, updated_at)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
                ON CONFLICT (key) DO UPDATE SET value = excluded.value, tags = excluded.tags,
                bytes = excluded.bytes, characters = excluded.characters,
                created_at = excluded.created_at, updated_at = excluded.updated_at";
            let row = params![key, value, tags, whole(bytes), whole(characters), now];
            connection.execute(sql, row)?;
            if let Some((place, ..)) = earlier {
                forget_accesses(connection, place)?;
            }
            hold(connection, after)?;
            Ok(earlier.is_some())
        }))
    }

    fn retrieve(&self, key: String) -> BoxFuture<'_, Result<Option<String>>> {
        Box::pin(self.read(move |file| {
            let found = file.read(|connection| {
                let sql = "SELECT place, created_at, value FROM memory WHERE key = ?1";
                let found = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
                Ok(connection.query_row(sql, [key], found).optional()?)
            })?;
            let Some((place, created_at, value)) = found else {
                return Ok(None);
            };
            file.accesses().add(place, created_at, Timestamp::now());
            file.count_accesses()?;
            Ok(Some(value))
        }))
    }

    fn search(&self, mut search: Search) -> BoxFuture<'_, Result<Search>> {
        let path = self.file.path.clone();
        Box::pin(async move {
            let searched = run_blocking(move || {
                let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
                let mut statement =
                    connection.prepare("SELECT key, value FROM memory ORDER BY place")?;
                let mut rows = statement.query(())?;
                while let Some(row) = rows.next()? {
                    let (key, value) = (row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
                    if search.show(key, value).is_break() {
                        break;
                    }
                }
                Ok::<_, Error>(search)
            });
            searched.await?.map_err(failed)
        })
    }

    fn keys(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        let keys = |connection: &Connection| {
            let mut statement = connection.prepare("SELECT key FROM memory ORDER BY key")?;
            let keys = statement.query_map((), |row| row.get(0))?;
            Ok(keys.collect::<rusqlite::Result<_>>()?)
        };
        Box::pin(self.read(move |file| file.read(keys)))
    }

    fn update(
        &self,
        key: String,
        value: String,
        limits: MemoryLimits,
    ) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.change(move |connection| {
            let Some((place, earlier, old)) = find(connection, &key)? else {
                return Ok(false);
            };
            let bytes = earlier.saturating_sub(old) + value.len();
            let before = held(connection)?;
            let after = before.with(bytes, Some(earlier));
            limits.check(before, after)?;
            let sql = "UPDATE memory
                SET value = ?2, bytes = ?3, characters = ?4, updated_at = ?5 WHERE place = ?1";
            let characters = value.chars().count();
            let row = params![place, value, whole(bytes), whole(characters), Timestamp::now()];
            connection.execute(sql, row)?;
            hold(connection, after)?;
            Ok(true)
        }))
    }

    fn delete(&self, key: String) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.change(move |connection| {
            let Some((place, bytes, _)) = find(connection, &key)? else {
                return Ok(false);
            };
            connection.execute("DELETE FROM memory WHERE place = ?1", [place])?;
            forget_accesses(connection, place)?;
            let after = held(connection)?.without(bytes);
            hold(connection, after)?;
            Ok(true)
        }))
    }

    fn clear(&self) -> BoxFuture<'_, Result<usize>> {
        Box::pin(self.change(|connection| {
            connection.execute("DELETE FROM access", ())?;
            let removed = connection.execute("DELETE FROM memory", ())?;
            hold(connection, Held::default())?;
            Ok(removed)
        }))
    }

    fn count(&self) -> BoxFuture<'_, Result<usize>> {
        Box::pin(self.read(|file| file.read(|connection| Ok(held(connection)?.entries))))
    }

    fn metadata(&self, key: String) -> BoxFuture<'_, Result<Option<Metadata>>> {
        let describe = move |connection: &Connection, accesses: &Accesses| {
            let sql =
                "SELECT created_at, updated_at, coalesce(count, 0), last_at, tags, characters,
                place, created_at FROM memory LEFT JOIN access USING (place) WHERE key = ?1";
            let mut statement = connection.prepare(sql)?;
            let mut rows = statement.query([key])?;
            let Some(row) = rows.next()? else {
                return Ok(None);
            };
            let mut metadata = Metadata {
                created_at: row.get(0)?,
                updated_at: row.get(1)?,
                access_count: number(row, 2)? as u64,
                last_accessed_at: row.get(3)?,
                tags: serde_json::from_str(row.get_ref(4)?.as_str()?)?,
                value_length: number(row, 5)?,
            };
            if let Some(access) = accesses.of(row.get(6)?, row.get_ref(7)?.as_str()?) {
                metadata.access_count += access.count;
                metadata.last_accessed_at = metadata.last_accessed_at.max(Some(access.last_at));
            }
            Ok(Some(metadata))
        };
        Box::pin(self.read(move |file| {
            let accesses = file.accesses();
            file.read(|connection| describe(connection, &accesses))
        }))
    }
}

#[cfg(test)]
mod tests {
    use toolwright_module::error::Audience;

    use super::*;

    /// A store with one entry, in a file that is removed at the end.
    struct Fixture {
        path: PathBuf,
        store: Sqlite,
    }

    impl Fixture {
        async fn new(name: &str) -> Self {
            let name = format!("toolwright-memory-{name}-{}.db", std::process::id());
            let path = std::env::temp_dir().join(name);
            let store = Sqlite::open(&path).await.unwrap();
            store.store(entry("color", "blue"), MemoryLimits::default()).await.unwrap();
            Self { path, store }
        }

        /// Checks that reads work, even if writes fail.
        async fn check_reads(&self, accesses: u64) {
            let begun = Instant::now();
            let value = self.store.retrieve("color".to_owned()).await.unwrap();
            assert_eq!(value.as_deref(), Some("blue"));
            assert_eq!(self.store.count().await.unwrap(), 1);
            assert_eq!(self.store.keys().await.unwrap(), ["color"]);
            let known = self.store.metadata("color".to_owned()).await.unwrap().unwrap();
            assert_eq!(known.access_count, accesses);
            assert!(known.last_accessed_at.is_some());
            assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        }

        /// Returns the error of a change that must fail.
        async fn store_error(&self) -> Error {
            self.store
                .store(entry("size", &"9".repeat(1 << 20)), MemoryLimits::default())
                .await
                .unwrap_err()
        }
    }

    impl Drop for Fixture {
        fn drop(&mut self) {
            for end in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(format!("{}{end}", self.path.display()));
            }
        }
    }

    fn entry(key: &str, value: &str) -> Entry {
        Entry { key: key.to_owned(), value: value.to_owned(), tags: vec![] }
    }

    async fn set(fixture: &Fixture, name: &str, value: i64) {
        fixture.store.file.writer.lock().await.pragma_update(None, name, value).unwrap();
    }

    #[tokio::test]
    async fn a_full_disk_fails_changes_with_advice_and_allows_reads() {
        let fixture = Fixture::new("full").await;
        set(&fixture, "max_page_count", 1).await;
        let error = fixture.store_error().await;
        assert_eq!(error.audience(), Audience::ModelFinal);
        assert!(error.for_model().contains("no space left"), "{error}");
        assert!(error.downcast_ref::<rusqlite::Error>().is_some());
        fixture.check_reads(1).await;
        fixture.check_reads(2).await;
        // With free space, the accesses are written.
        set(&fixture, "max_page_count", 1 << 20).await;
        fixture.store.store(entry("size", "9"), MemoryLimits::default()).await.unwrap();
        assert!(fixture.store.file.accesses().by_place.is_empty());
        let known = fixture.store.metadata("color".to_owned()).await.unwrap().unwrap();
        assert_eq!(known.access_count, 2);
    }

    #[tokio::test]
    async fn a_read_only_file_can_be_read() {
        let fixture = Fixture::new("read-only").await;
        set(&fixture, "query_only", 1).await;
        let error = fixture.store_error().await;
        assert_eq!(error.audience(), Audience::ModelFinal);
        assert!(error.for_model().contains("read-only"), "{error}");
        fixture.check_reads(1).await;
        fixture.check_reads(2).await;
        // Storing the entry again resets its accesses.
        set(&fixture, "query_only", 0).await;
        fixture.store.store(entry("color", "red"), MemoryLimits::default()).await.unwrap();
        let known = fixture.store.metadata("color".to_owned()).await.unwrap().unwrap();
        assert_eq!((known.access_count, known.last_accessed_at), (0, None));
    }

    /// Eight changes wait for another process at the same time, and not one after the other.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_locked_file_delays_changes_only_and_each_by_its_own_timeout() {
        let fixture = Arc::new(Fixture::new("busy").await);
        let other = Connection::open(&fixture.path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let begun = Instant::now();
        let waiting: Vec<_> = (0..8)
            .map(|_| {
                let fixture = Arc::clone(&fixture);
                tokio::spawn(async move { fixture.store_error().await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(100)).await;
        for accesses in 1..=5 {
            fixture.check_reads(accesses).await;
        }
        for error in waiting {
            let error = error.await.unwrap();
            assert_eq!(error.audience(), Audience::ModelMayRetry);
            assert!(error.is_retryable());
            assert_eq!(error.for_model(), "The memory is busy. Try again in a moment.");
        }
        // One after the other, they would take eight times as long.
        assert!(begun.elapsed() < CHANGE_TIMEOUT * 5, "{:?}", begun.elapsed());
        other.execute_batch("ROLLBACK").unwrap();
        fixture.store.store(entry("size", "9"), MemoryLimits::default()).await.unwrap();
        let sql = "SELECT count FROM access";
        assert_eq!(other.query_row(sql, (), |row| row.get::<_, i64>(0)).unwrap(), 5);
    }
}
