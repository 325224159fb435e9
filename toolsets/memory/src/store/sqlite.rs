//! A file: an SQLite database.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Row, Transaction, TransactionBehavior,
    params,
};
use tokio::sync::Mutex;
use toolwright_module::error::Stage;
use toolwright_module::model::BoxFuture;
use toolwright_module::{Error, Result};

use super::{Entry, Held, Store};
use crate::limits::Limits;
use crate::off_thread::off_thread;
use crate::search::Search;
use crate::tools::get_metadata::Metadata;

/// Says in the head of the file that it is a memory: `TWme`.
const APPLICATION: i32 = 0x5457_6d65;
/// The form of the tables below.
const VERSION: i32 = 1;
/// How long a call waits for other changes, of this process and of others.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
/// How long a read waits in order to count itself.
const SHORT: Duration = Duration::from_millis(100);
/// How long reads do not try to count themselves after that failed.
const PAUSE: Duration = Duration::from_secs(1);
/// How many connections for reads are kept open.
const READERS: usize = 4;

/// `place` is the order of insertion. Accesses are apart, because SQLite writes a row
/// anew with all its text when one number in it changes.
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

/// One connection for changes, a few for reads, and another for each search, which may take
/// long.
///
/// In SQLite's WAL mode whoever reads waits for nobody who writes. So nothing that reads
/// waits for the connection that changes.
pub(crate) struct Sqlite {
    file: Arc<File>,
}

struct File {
    path: PathBuf,
    writer: Arc<Mutex<Connection>>,
    /// Those that nobody uses now.
    readers: std::sync::Mutex<Vec<Connection>>,
    /// Locked while accesses are written, so that each is seen exactly once: here or in the
    /// file.
    accesses: std::sync::Mutex<Accesses>,
}

/// Accesses that are not in the file yet, by the place of the entry.
///
/// A read must not fail because the disk is full or because the file is locked, so it only
/// tries to write that it took place. What could not be written is written later.
#[derive(Default)]
struct Accesses {
    by_place: HashMap<i64, Access>,
    /// Before this nobody tries again, unless a change goes well.
    not_before: Option<Instant>,
}

struct Access {
    /// Tells the entry from a later one in the same place.
    created_at: String,
    count: u64,
    last_at: Timestamp,
}

impl Accesses {
    fn add(&mut self, place: i64, created_at: String, now: Timestamp) {
        let access = Access { created_at, count: 0, last_at: now };
        let access = match self.by_place.entry(place) {
            Slot::Vacant(slot) => slot.insert(access),
            Slot::Occupied(slot) if slot.get().created_at == access.created_at => slot.into_mut(),
            Slot::Occupied(mut slot) => {
                slot.insert(access);
                slot.into_mut()
            }
        };
        access.count += 1;
        access.last_at = access.last_at.max(now);
    }

    /// Those of an entry.
    fn of(&self, place: i64, created_at: &str) -> Option<&Access> {
        self.by_place.get(&place).filter(|access| access.created_at == created_at)
    }

    /// Writes them and ends the transaction.
    fn commit(&mut self, change: Transaction<'_>) -> rusqlite::Result<()> {
        if !self.by_place.is_empty() {
            // An entry may be gone, or be another one by now.
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

    /// Does `work` in a transaction that no other writer comes between.
    fn change<T>(
        &self,
        connection: &mut Connection,
        until: Instant,
        work: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        // The wait for this process's other changes counts.
        connection.busy_timeout(until.saturating_duration_since(Instant::now()))?;
        let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let given = work(&change)?;
        self.accesses().commit(change)?;
        Ok(given)
    }

    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = self.readers().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?,
        };
        let given = work(&connection)?;
        let mut readers = self.readers();
        if readers.len() < READERS {
            readers.push(connection);
        }
        Ok(given)
    }

    /// Writes the accesses, if nobody else changes the file now.
    fn count_accesses(&self) -> Result<()> {
        loop {
            let now = Instant::now();
            let accesses = self.accesses();
            let wait = accesses.not_before.is_some_and(|time| now < time);
            if accesses.by_place.is_empty() || wait {
                return Ok(());
            }
            drop(accesses);
            // Whoever has it looks again once it is free.
            let Ok(mut writer) = self.writer.try_lock() else { return Ok(()) };
            if let Err(error) = self.change(&mut writer, now + SHORT, |_| Ok(())) {
                if !may_pass(&error) {
                    return Err(error);
                }
                self.accesses().not_before = Instant::now().checked_add(PAUSE);
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
            // The last chance for what a busy file did not take before.
            let _ = self.change(&mut writer, Instant::now() + PAUSE, |_| Ok(()));
        }
    }
}

impl Sqlite {
    pub(crate) async fn open(path: &Path) -> Result<Self> {
        // Absolute, so that `:memory:` is the name of a file like any other, and a search
        // finds the file when the working directory has changed.
        let path = std::path::absolute(path).map_err(|error| setup(path, &error))?;
        let opened = path.clone();
        let connection = off_thread(move || prepare(&opened)).await??;
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
        let until = Instant::now() + PATIENCE;
        let mut writer = Arc::clone(&self.file.writer).lock_owned().await;
        let file = Arc::clone(&self.file);
        let changed = off_thread(move || {
            let given = file.change(&mut writer, until, work)?;
            drop(writer);
            file.count_accesses()?;
            Ok(given)
        });
        changed.await?.map_err(failed)
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&File) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let file = Arc::clone(&self.file);
        off_thread(move || work(&file)).await?.map_err(failed)
    }
}

fn code(error: &Error) -> Option<ErrorCode> {
    error.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code)
}

/// Whether what failed is the disk or the lock of a file that is sound.
fn may_pass(error: &Error) -> bool {
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

/// A failure in words that a model can act on, where there are some.
fn failed(error: Error) -> Error {
    let told = match code(&error) {
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed,
        ) => Error::retry("The memory is busy. Try again in a moment.").retryable(true),
        Some(ErrorCode::DiskFull) => Error::refuse(
            "The memory was not changed: there is no space left on its disk. Delete entries that \
             are no longer needed, or tell the user.",
        ),
        Some(ErrorCode::ReadOnly) => {
            Error::refuse("The memory was not changed: it can only be read. Tell the user.")
        }
        _ => return error,
    };
    told.with_source(error.into_std())
}

fn setup(path: &Path, reason: &dyn std::fmt::Display) -> Error {
    let text = format!("cannot open the memory in {}: {reason}", path.display());
    Error::other(text).at(Stage::Setup)
}

fn prepare(path: &Path) -> Result<Connection> {
    let begun = Instant::now();
    loop {
        match make(path) {
            Ok(connection) => return Ok(connection),
            // SQLite waits for other processes by itself, but for the change of the
            // file's mode, of which the first to open it make several at once.
            Err(error) if failed_busy(&error) && begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) if error.stage() == Stage::Setup => return Err(error),
            Err(error) => return Err(setup(path, &error).retryable(failed_busy(&error))),
        }
    }
}

fn failed_busy(error: &Error) -> bool {
    let error = error.downcast_ref::<rusqlite::Error>();
    error.and_then(rusqlite::Error::sqlite_error_code) == Some(ErrorCode::DatabaseBusy)
}

fn make(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut connection = connect(path, flags)?;
    // Before anything is written: the file may be another program's. In a transaction:
    // another process may be making it.
    let new = is_new(&*connection.transaction()?, path)?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "full")?;
    if new {
        let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have been faster.
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
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

/// Whether there is nothing in the file yet; an error, if it is no memory.
fn is_new(connection: &Connection, path: &Path) -> Result<bool> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let sql = "SELECT EXISTS (SELECT * FROM sqlite_schema)";
    let filled: bool = connection.query_row(sql, (), |row| row.get(0))?;
    match (number("application_id")?, number("user_version")?, filled) {
        (0, 0, false) => Ok(true),
        (APPLICATION, VERSION, _) => Ok(false),
        (APPLICATION, ..) => {
            Err(setup(path, &"it was written by a newer version of Toolwright; use that one"))
        }
        _ => Err(setup(path, &"it is another program's database; name another file")),
    }
}

fn held(connection: &Connection) -> Result<Held> {
    let mut statement = connection.prepare("SELECT entries, bytes FROM held")?;
    let held = |row: &Row<'_>| Ok(Held { entries: number(row, 0)?, bytes: number(row, 1)? });
    Ok(statement.query_row((), held)?)
}

fn hold(connection: &Connection, held: Held) -> Result<()> {
    let mut statement = connection.prepare("UPDATE held SET entries = ?1, bytes = ?2")?;
    statement.execute(params![whole(held.entries), whole(held.bytes)])?;
    Ok(())
}

/// Place and bytes of the entry under `key`, and the bytes of its value.
fn find(connection: &Connection, key: &str) -> Result<Option<(i64, usize, usize)>> {
    let sql = "SELECT place, bytes, octet_length(value) FROM memory WHERE key = ?1";
    let mut statement = connection.prepare(sql)?;
    let found = |row: &Row<'_>| Ok((row.get(0)?, number(row, 1)?, number(row, 2)?));
    Ok(statement.query_row([key], found).optional()?)
}

fn forget_accesses(connection: &Connection, place: i64) -> Result<()> {
    let mut statement = connection.prepare("DELETE FROM access WHERE place = ?1")?;
    statement.execute([place])?;
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
    fn store(&self, entry: Entry, limits: Limits) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.change(move |connection| {
            let bytes = entry.bytes();
            let Entry { key, value, tags } = entry;
            let (tags, characters) = (serde_json::to_string(&tags)?, value.chars().count());
            let earlier = find(connection, &key)?;
            let before = held(connection)?;
            let after = before.with(bytes, earlier.map(|(_, bytes, _)| bytes));
            limits.check(before, after)?;
            // Read in the transaction, so that times follow the order of the changes.
            let now = Timestamp::now();
            let sql = "INSERT INTO memory
                (key, value, tags, bytes, characters, created_at, updated_at)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
                ON CONFLICT (key) DO UPDATE SET value = excluded.value, tags = excluded.tags,
                bytes = excluded.bytes, characters = excluded.characters,
                created_at = excluded.created_at, updated_at = excluded.updated_at";
            let mut statement = connection.prepare(sql)?;
            let row = params![key, value, tags, whole(bytes), whole(characters), now];
            statement.execute(row)?;
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
                let mut statement = connection.prepare(sql)?;
                let found = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
                Ok(statement.query_row([key], found).optional()?)
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
            let searched = off_thread(move || {
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

    fn update(&self, key: String, value: String, limits: Limits) -> BoxFuture<'_, Result<bool>> {
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
            connection.prepare(sql)?.execute(row)?;
            hold(connection, after)?;
            Ok(true)
        }))
    }

    fn delete(&self, key: String) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.change(move |connection| {
            let Some((place, bytes, _)) = find(connection, &key)? else {
                return Ok(false);
            };
            connection.prepare("DELETE FROM memory WHERE place = ?1")?.execute([place])?;
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

    /// A memory with one entry, in a file that is gone at the end.
    struct World {
        path: PathBuf,
        store: Sqlite,
    }

    impl World {
        async fn new(name: &str) -> Self {
            let name = format!("toolwright-memory-{name}-{}.db", std::process::id());
            let path = std::env::temp_dir().join(name);
            let store = Sqlite::open(&path).await.unwrap();
            store.store(entry("color", "blue"), Limits::default()).await.unwrap();
            Self { path, store }
        }

        /// What every read gives, whatever becomes of writes.
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

        async fn refused(&self) -> Error {
            self.store
                .store(entry("size", &"9".repeat(1 << 20)), Limits::default())
                .await
                .unwrap_err()
        }
    }

    impl Drop for World {
        fn drop(&mut self) {
            for end in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(format!("{}{end}", self.path.display()));
            }
        }
    }

    fn entry(key: &str, value: &str) -> Entry {
        Entry { key: key.to_owned(), value: value.to_owned(), tags: vec![] }
    }

    async fn set(world: &World, name: &str, value: i64) {
        world.store.file.writer.lock().await.pragma_update(None, name, value).unwrap();
    }

    #[tokio::test]
    async fn a_full_disk_stops_no_read_and_says_what_to_do() {
        let world = World::new("full").await;
        set(&world, "max_page_count", 1).await;
        let error = world.refused().await;
        assert_eq!(error.audience(), Audience::ModelFinal);
        assert!(error.for_model().contains("no space left"), "{error}");
        assert!(error.downcast_ref::<rusqlite::Error>().is_some());
        world.check_reads(1).await;
        world.check_reads(2).await;
        // Space was made: what could not be written before is.
        set(&world, "max_page_count", 1 << 20).await;
        world.store.store(entry("size", "9"), Limits::default()).await.unwrap();
        assert!(world.store.file.accesses().by_place.is_empty());
        let known = world.store.metadata("color".to_owned()).await.unwrap().unwrap();
        assert_eq!(known.access_count, 2);
    }

    #[tokio::test]
    async fn a_file_that_can_only_be_read_is_read() {
        let world = World::new("read-only").await;
        set(&world, "query_only", 1).await;
        let error = world.refused().await;
        assert_eq!(error.audience(), Audience::ModelFinal);
        assert!(error.for_model().contains("only be read"), "{error}");
        world.check_reads(1).await;
        world.check_reads(2).await;
        // An entry that was stored anew was never accessed.
        set(&world, "query_only", 0).await;
        world.store.store(entry("color", "red"), Limits::default()).await.unwrap();
        let known = world.store.metadata("color".to_owned()).await.unwrap().unwrap();
        assert_eq!((known.access_count, known.last_accessed_at), (0, None));
    }

    /// Eight changes wait for another process side by side, and not one after the other.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_busy_file_holds_up_no_read_and_each_change_for_its_own_time() {
        let world = Arc::new(World::new("busy").await);
        let other = Connection::open(&world.path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let begun = Instant::now();
        let waiting: Vec<_> = (0..8)
            .map(|_| {
                let world = Arc::clone(&world);
                tokio::spawn(async move { world.refused().await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(100)).await;
        for accesses in 1..=5 {
            world.check_reads(accesses).await;
        }
        for error in waiting {
            let error = error.await.unwrap();
            assert_eq!(error.audience(), Audience::ModelMayRetry);
            assert!(error.is_retryable());
            assert_eq!(error.for_model(), "The memory is busy. Try again in a moment.");
        }
        // One after the other they would take eight times as long.
        assert!(begun.elapsed() < PATIENCE * 5, "{:?}", begun.elapsed());
        other.execute_batch("ROLLBACK").unwrap();
        world.store.store(entry("size", "9"), Limits::default()).await.unwrap();
        let sql = "SELECT count FROM access";
        assert_eq!(other.query_row(sql, (), |row| row.get::<_, i64>(0)).unwrap(), 5);
    }
}
