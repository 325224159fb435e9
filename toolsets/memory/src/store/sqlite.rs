//! A file: an SQLite database.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Row, TransactionBehavior, params,
};
use tokio::sync::Mutex;
use toolwright_module::{BoxFuture, Error, Result, Stage};

use super::{Entry, Held, Store};
use crate::limits::Limits;
use crate::off_thread::off_thread;
use crate::search::Search;
use crate::tools::get_metadata::Metadata;

/// Says in the head of the file that it is a memory: `TWme`.
const APPLICATION: i32 = 0x5457_6d65;
/// The form of the tables below.
const VERSION: i32 = 1;
/// How long one of several processes waits for the others.
const PATIENCE: Duration = Duration::from_secs(10);

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

/// One connection for what is quick, and another for each search, which may take long.
pub(crate) struct Sqlite {
    path: PathBuf,
    connection: Arc<Mutex<Connection>>,
}

impl Sqlite {
    pub(crate) async fn open(path: &Path) -> Result<Self> {
        // Absolute, so that `:memory:` is the name of a file like any other, and a search
        // finds the file when the working directory has changed.
        let path = std::path::absolute(path).map_err(|error| setup(path, &error))?;
        let opened = path.clone();
        let connection = off_thread(move || prepare(&opened)).await??;
        Ok(Self { path, connection: Arc::new(Mutex::new(connection)) })
    }

    /// Does `work` in a transaction that no other writer comes between.
    async fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let mut connection = Arc::clone(&self.connection).lock_owned().await;
        let changed = off_thread(move || {
            let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let given = work(&change)?;
            change.commit()?;
            Ok(given)
        });
        changed.await?.map_err(failed)
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let connection = Arc::clone(&self.connection).lock_owned().await;
        off_thread(move || work(&connection)).await?.map_err(failed)
    }
}

/// Says of a failure whether it may pass.
fn failed(error: Error) -> Error {
    let code = error.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code);
    match code {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => error.retryable(true),
        _ => error,
    }
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
        Box::pin(self.change(move |connection| {
            let sql = "SELECT place, value FROM memory WHERE key = ?1";
            let mut statement = connection.prepare(sql)?;
            let found = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get(1)?));
            let Some((place, value)) = statement.query_row([key], found).optional()? else {
                return Ok(None);
            };
            let sql = "INSERT INTO access VALUES (?1, 1, ?2)
                ON CONFLICT (place) DO UPDATE SET count = count + 1, last_at = excluded.last_at";
            connection.prepare(sql)?.execute(params![place, Timestamp::now()])?;
            Ok(Some(value))
        }))
    }

    fn search(&self, mut search: Search) -> BoxFuture<'_, Result<Search>> {
        let path = self.path.clone();
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
        Box::pin(self.read(|connection| {
            let mut statement = connection.prepare("SELECT key FROM memory ORDER BY key")?;
            let keys = statement.query_map((), |row| row.get(0))?;
            Ok(keys.collect::<rusqlite::Result<_>>()?)
        }))
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
        Box::pin(self.read(|connection| Ok(held(connection)?.entries)))
    }

    fn metadata(&self, key: String) -> BoxFuture<'_, Result<Option<Metadata>>> {
        Box::pin(self.read(move |connection| {
            let sql = "SELECT created_at, updated_at, coalesce(count, 0), last_at, tags, characters
                FROM memory LEFT JOIN access USING (place) WHERE key = ?1";
            let mut statement = connection.prepare(sql)?;
            let mut rows = statement.query([key])?;
            let Some(row) = rows.next()? else {
                return Ok(None);
            };
            Ok(Some(Metadata {
                created_at: row.get(0)?,
                updated_at: row.get(1)?,
                access_count: number(row, 2)? as u64,
                last_accessed_at: row.get(3)?,
                tags: serde_json::from_str(row.get_ref(4)?.as_str()?)?,
                value_length: number(row, 5)?,
            }))
        }))
    }
}
