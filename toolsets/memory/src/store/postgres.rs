//! The store in a PostgreSQL database, which any number of processes can share.

use std::error::Error as _;
use std::pin::pin;
use std::time::Duration;

use deadpool_postgres::{GenericClient, Manager, Object, Pool, PoolError, Runtime, Transaction};
use futures_util::TryStreamExt;
use jiff::Timestamp;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, Row, Socket};
use toolwright_module::__text::database_url_fault;
use toolwright_module::error::Stage;
use toolwright_module::model::BoxFuture;
use toolwright_module::{Error, Result};

use super::{Entry, Held, Store};
use crate::blocking::run_blocking;
use crate::limits::MemoryLimits;
use crate::search::Search;
use crate::tools::Metadata;

/// The version of the tables below.
const VERSION: i32 = 1;
/// Locks the creation of the tables, because PostgreSQL fails if two processes create a table at
/// the same time.
const LOCK: &str = "SELECT pg_advisory_xact_lock(6076556519430450533)";

/// The schema. Texts are stored as bytes, because PostgreSQL's texts cannot hold NUL and are
/// sorted by the server's locale. Every change of entries locks the row of
/// `toolwright_memory_held`, so that its numbers are exact, and places and times follow the order
/// of the changes.
const TABLES: &str = "
CREATE TABLE IF NOT EXISTS toolwright_memory (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key bytea NOT NULL UNIQUE,
    value bytea NOT NULL,
    tags bytea[] NOT NULL,
    bytes bigint NOT NULL,
    characters bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    access_count bigint NOT NULL DEFAULT 0,
    last_accessed_at timestamptz
);
CREATE TABLE IF NOT EXISTS toolwright_memory_held (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version integer NOT NULL,
    entries bigint NOT NULL,
    bytes bigint NOT NULL
);
";

/// Maximum number of connections of a memory.
const MAX_CONNECTIONS: usize = 8;
/// Timeout of waiting for a free connection.
const POOL_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of connecting, and of an unresponsive server.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of the batches of entries that a search matches, in bytes.
const BATCH_BYTES: usize = 1 << 18;

/// A store in a PostgreSQL database.
pub(crate) struct Postgres {
    pool: Pool,
}

impl Postgres {
    pub(crate) async fn connect<T>(url: &str, tls: T) -> Result<Self>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let mut config = config(url).map_err(|fault| {
            Error::other(format!("the database's URL {fault}")).at(Stage::Setup)
        })?;
        set_timeouts(&mut config, url);
        let pool = Pool::builder(Manager::new(config, tls))
            .max_size(MAX_CONNECTIONS)
            .wait_timeout(Some(POOL_TIMEOUT))
            .create_timeout(Some(POOL_TIMEOUT))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| Error::other(error).at(Stage::Setup))?;
        let store = Self { pool };
        store.make_tables().await.map_err(|error| error.at(Stage::Setup))?;
        Ok(store)
    }

    async fn make_tables(&self) -> Result<()> {
        let mut connection = self.connection().await?;
        let setup = connection.transaction().await.map_err(failed)?;
        // A user who may not create tables can use existing ones.
        let sql = "SELECT to_regclass('toolwright_memory_held') IS NOT NULL";
        let row = setup.query_one(sql, &[]).await.map_err(failed)?;
        if !row.try_get::<_, bool>(0).map_err(failed)? {
            setup.batch_execute(LOCK).await.map_err(failed)?;
            setup.batch_execute(TABLES).await.map_err(failed)?;
            let sql = "INSERT INTO toolwright_memory_held VALUES (true, $1, 0, 0)
                ON CONFLICT DO NOTHING";
            setup.execute(sql, &[&VERSION]).await.map_err(failed)?;
        }
        let sql = "SELECT version FROM toolwright_memory_held";
        let row = setup.query_one(sql, &[]).await.map_err(failed)?;
        let version: i32 = row.try_get(0).map_err(failed)?;
        if version != VERSION {
            let text = "the memory in the database was written by a newer version of \
                Toolwright; use that version";
            return Err(Error::other(text));
        }
        setup.commit().await.map_err(failed)
    }

    async fn connection(&self) -> Result<Object> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => failed(error),
            PoolError::Timeout(_) => {
                Error::other("no connection to the memory's database was free in time")
                    .retryable(true)
            }
            error => Error::other(error),
        })
    }
}

/// Reads the URL of a database, or returns what is wrong with it, without a part of the password.
fn config(url: &str) -> std::result::Result<Config, String> {
    url.parse().map_err(|error: tokio_postgres::Error| {
        let fault = error.source().map(ToString::to_string).unwrap_or_default();
        database_url_fault(url, &fault)
    })
}

/// Sets the timeouts that the URL does not set: for an unreachable server, and for a lock that
/// another process holds.
fn set_timeouts(config: &mut Config, url: &str) {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(NETWORK_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(NETWORK_TIMEOUT);
    }
    if !url.contains("keepalives") {
        config
            .keepalives_idle(NETWORK_TIMEOUT)
            .keepalives_interval(NETWORK_TIMEOUT / 4)
            .keepalives_retries(4);
    }
    // If an option is set twice, the last one applies, which is the URL's.
    let options = config.get_options().unwrap_or_default();
    config.options(format!(
        "-c lock_timeout=30s -c idle_in_transaction_session_timeout=30s {options}"
    ));
}

/// Converts an error. Its text contains no stored data; it is retryable if it may go away.
fn failed(error: tokio_postgres::Error) -> Error {
    if let Some(error) = error.as_db_error() {
        let code = error.code();
        // In these error classes, the reason is the state of the server and not the statement.
        let temporary = ["08", "40", "53", "55", "57"];
        let retryable = temporary.iter().any(|class| code.code().starts_with(class))
            && *code != SqlState::QUERY_CANCELED;
        let text = format!("the memory's database failed: {} ({})", error.message(), code.code());
        return Error::other(text).retryable(retryable);
    }
    let lost = error.is_closed()
        || std::error::Error::source(&error).is_some_and(|cause| cause.is::<std::io::Error>());
    Error::other(error).retryable(lost)
}

/// Returns the rows of a statement, which the connection prepares once.
async fn rows(
    client: &impl GenericClient,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>> {
    let statement = client.prepare_cached(sql).await.map_err(failed)?;
    client.query(&statement, parameters).await.map_err(failed)
}

/// Returns the first row of a statement, if there is one.
async fn row(
    client: &impl GenericClient,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Option<Row>> {
    Ok(rows(client, sql, parameters).await?.into_iter().next())
}

/// Returns the size of the store, and locks it until the end of the transaction.
async fn lock(change: &Transaction<'_>) -> Result<Held> {
    let sql = "SELECT entries, bytes FROM toolwright_memory_held FOR UPDATE";
    let row = row(change, sql, &[]).await?.ok_or_else(no_size)?;
    Ok(Held { entries: number(&row, 0)?, bytes: number(&row, 1)? })
}

/// Stores the size of the store, and ends the transaction.
async fn commit(change: Transaction<'_>, held: Held) -> Result<()> {
    let sql = "UPDATE toolwright_memory_held SET entries = $1, bytes = $2";
    rows(&change, sql, &[&whole(held.entries), &whole(held.bytes)]).await?;
    change.commit().await.map_err(failed)
}

/// Returns the size of an entry and of its value, in bytes.
async fn find(change: &Transaction<'_>, key: &str) -> Result<Option<(usize, usize)>> {
    let sql = "SELECT bytes, octet_length(value)::bigint FROM toolwright_memory WHERE key = $1";
    let row = row(change, sql, &[&key.as_bytes()]).await?;
    row.map(|row| Ok((number(&row, 0)?, number(&row, 1)?))).transpose()
}

/// Returns the error of a table without its only row.
fn no_size() -> Error {
    Error::other("the memory in the database is damaged: toolwright_memory_held has no row")
}

fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn number(row: &Row, column: usize) -> Result<usize> {
    let number: i64 = row.try_get(column).map_err(failed)?;
    Ok(usize::try_from(number)?)
}

fn text(row: &Row, column: usize) -> Result<String> {
    Ok(String::from_utf8(row.try_get(column).map_err(failed)?)?)
}

impl Store for Postgres {
    fn store(&self, entry: Entry, limits: MemoryLimits) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            let bytes = entry.bytes();
            let Entry { key, value, tags } = entry;
            let mut connection = self.connection().await?;
            let change = connection.transaction().await.map_err(failed)?;
            let before = lock(&change).await?;
            let earlier = find(&change, &key).await?;
            let after = before.with(bytes, earlier.map(|(bytes, _)| bytes));
            limits.check(before, after)?;
            let sql = "INSERT INTO toolwright_memory AS kept
                (key, value, tags, bytes, characters, created_at, updated_at)
                SELECT $1, $2, $3, $4, $5, now, now FROM clock_timestamp() AS now
                ON CONFLICT (key) DO UPDATE SET value = excluded.value, tags = excluded.tags,
                bytes = excluded.bytes, characters = excluded.characters,
                created_at = excluded.created_at, updated_at = excluded.updated_at,
                access_count = 0, last_accessed_at = NULL";
            let tags: Vec<&[u8]> = tags.iter().map(String::as_bytes).collect();
            let (bytes, characters) = (whole(bytes), whole(value.chars().count()));
            let row: [&(dyn ToSql + Sync); 5] =
                [&key.as_bytes(), &value.as_bytes(), &tags, &bytes, &characters];
            rows(&change, sql, &row).await?;
            commit(change, after).await?;
            Ok(earlier.is_some())
        })
    }

    fn retrieve(&self, key: String) -> BoxFuture<'_, Result<Option<String>>> {
        Box::pin(async move {
            let sql = "UPDATE toolwright_memory SET access_count = access_count + 1,
                last_accessed_at = clock_timestamp() WHERE key = $1 RETURNING value";
            let row = row(&self.connection().await?, sql, &[&key.as_bytes()]).await?;
            row.map(|row| text(&row, 0)).transpose()
        })
    }

    fn search(&self, mut search: Search) -> BoxFuture<'_, Result<Search>> {
        Box::pin(async move {
            let connection = self.connection().await?;
            let sql = "SELECT key, value FROM toolwright_memory ORDER BY place";
            let statement = connection.prepare_cached(sql).await.map_err(failed)?;
            let no_parameters: [&str; 0] = [];
            let rows = connection.query_raw(&statement, no_parameters).await.map_err(failed)?;
            let mut rows = pin!(rows);
            loop {
                let (mut batch, mut bytes) = (Vec::new(), 0);
                while bytes < BATCH_BYTES {
                    let Some(row) = rows.try_next().await.map_err(failed)? else {
                        break;
                    };
                    bytes += row.raw_size_bytes();
                    batch.push(row);
                }
                let last = bytes < BATCH_BYTES;
                let (returned, enough) = run_blocking(move || show(search, &batch)).await??;
                search = returned;
                if last {
                    return Ok(search);
                }
                if enough {
                    // The connection is closed, because the remaining rows would have to be read
                    // before its next use.
                    drop(Object::take(connection));
                    return Ok(search);
                }
            }
        })
    }

    fn keys(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(async move {
            let sql = "SELECT key FROM toolwright_memory ORDER BY key";
            let rows = rows(&self.connection().await?, sql, &[]).await?;
            rows.iter().map(|row| text(row, 0)).collect()
        })
    }

    fn update(
        &self,
        key: String,
        value: String,
        limits: MemoryLimits,
    ) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            let mut connection = self.connection().await?;
            let change = connection.transaction().await.map_err(failed)?;
            let before = lock(&change).await?;
            let Some((earlier, old)) = find(&change, &key).await? else {
                return Ok(false);
            };
            let bytes = earlier.saturating_sub(old) + value.len();
            let after = before.with(bytes, Some(earlier));
            limits.check(before, after)?;
            let sql = "UPDATE toolwright_memory SET value = $2, bytes = $3, characters = $4,
                updated_at = clock_timestamp() WHERE key = $1";
            let (bytes, characters) = (whole(bytes), whole(value.chars().count()));
            rows(&change, sql, &[&key.as_bytes(), &value.as_bytes(), &bytes, &characters]).await?;
            commit(change, after).await?;
            Ok(true)
        })
    }

    fn delete(&self, key: String) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            let mut connection = self.connection().await?;
            let change = connection.transaction().await.map_err(failed)?;
            let before = lock(&change).await?;
            let sql = "DELETE FROM toolwright_memory WHERE key = $1 RETURNING bytes";
            let Some(row) = row(&change, sql, &[&key.as_bytes()]).await? else {
                return Ok(false);
            };
            commit(change, before.without(number(&row, 0)?)).await?;
            Ok(true)
        })
    }

    fn clear(&self) -> BoxFuture<'_, Result<usize>> {
        Box::pin(async move {
            let mut connection = self.connection().await?;
            let change = connection.transaction().await.map_err(failed)?;
            lock(&change).await?;
            let removed =
                change.execute("DELETE FROM toolwright_memory", &[]).await.map_err(failed)?;
            commit(change, Held::default()).await?;
            Ok(usize::try_from(removed)?)
        })
    }

    fn count(&self) -> BoxFuture<'_, Result<usize>> {
        Box::pin(async move {
            let sql = "SELECT entries FROM toolwright_memory_held";
            let row = row(&self.connection().await?, sql, &[]).await?.ok_or_else(no_size)?;
            number(&row, 0)
        })
    }

    fn metadata(&self, key: String) -> BoxFuture<'_, Result<Option<Metadata>>> {
        Box::pin(async move {
            let sql = "SELECT created_at, updated_at, access_count, last_accessed_at, tags,
                characters FROM toolwright_memory WHERE key = $1";
            let Some(row) = row(&self.connection().await?, sql, &[&key.as_bytes()]).await? else {
                return Ok(None);
            };
            let time = |column| row.try_get::<_, Timestamp>(column).map_err(failed);
            let tags: Vec<Vec<u8>> = row.try_get(4).map_err(failed)?;
            Ok(Some(Metadata {
                created_at: time(0)?,
                updated_at: time(1)?,
                access_count: number(&row, 2)? as u64,
                last_accessed_at: row.try_get(3).map_err(failed)?,
                tags: tags.into_iter().map(String::from_utf8).collect::<Result<_, _>>()?,
                value_length: number(&row, 5)?,
            }))
        })
    }
}

/// Passes the rows to the search. Returns whether it needs no more.
fn show(mut search: Search, rows: &[Row]) -> Result<(Search, bool)> {
    for row in rows {
        let bytes = |column| row.try_get::<_, &[u8]>(column).map_err(failed);
        let (key, value) = (std::str::from_utf8(bytes(0)?)?, std::str::from_utf8(bytes(1)?)?);
        if search.show(key, value).is_break() {
            return Ok((search, true));
        }
    }
    Ok((search, false))
}
