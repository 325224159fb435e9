//! The tables, and the statements that are more than a line.

use deadpool_postgres::{Pool, Transaction};

use crate::error::{Result, RunsError};

/// The version of the tables below.
pub(crate) const VERSION: i32 = 3;

/// PostgreSQL fails if two processes create a table at the same time.
const LOCK: &str = "SELECT pg_advisory_xact_lock(4919131752989213764)";

/// The statements that create the tables.
///
/// `free_at` is the end of the lease of a run that has a worker. Without one, it is the time from
/// which a worker may take the run. `lease` grows each time that a worker takes the run, so that a
/// worker that was considered dead can no longer write. `losses` is the number of workers in a row
/// whose lease ended, and `failures` that of drives in a row that failed, without a new record.
///
/// `asks` is a hash of the id of the part of a call that waits for a decision, and `decides` that of a decision.
///
/// `earlier` is the run from which a run goes on, and which has the beginning of its conversation. A run
/// that is deleted while others go on from it keeps its records, and belongs to the agent without a name.
///
/// `toolwright_live` is lost if the server crashes: it has the beginnings of records to come.
///
/// A run is updated with each record. No column of an index changes then, so that the old row is
/// replaced in its page.
const TABLES: &str = "
CREATE TABLE IF NOT EXISTS toolwright_runs (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    agent text NOT NULL,
    id text NOT NULL,
    metadata jsonb NOT NULL,
    status text NOT NULL DEFAULT 'open',
    started timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed timestamptz NOT NULL DEFAULT clock_timestamp(),
    records integer NOT NULL DEFAULT 1,
    bytes bigint NOT NULL,
    spent text,
    ending text,
    error text,
    worker text,
    lease bigint NOT NULL DEFAULT 1,
    free_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    losses integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    earlier bigint REFERENCES toolwright_runs,
    UNIQUE (agent, id)
) WITH (fillfactor = 60);
CREATE INDEX IF NOT EXISTS toolwright_runs_free ON toolwright_runs (agent, free_at) WHERE status = 'open';
CREATE INDEX IF NOT EXISTS toolwright_runs_metadata ON toolwright_runs USING gin (metadata jsonb_path_ops);
CREATE INDEX IF NOT EXISTS toolwright_runs_earlier ON toolwright_runs (earlier) WHERE earlier IS NOT NULL;
CREATE TABLE IF NOT EXISTS toolwright_records (
    run bigint NOT NULL REFERENCES toolwright_runs ON DELETE CASCADE,
    nth integer NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    asks text,
    decides text,
    record text NOT NULL,
    PRIMARY KEY (run, nth)
);
CREATE INDEX IF NOT EXISTS toolwright_records_asks ON toolwright_records (run, asks) WHERE asks IS NOT NULL;
CREATE INDEX IF NOT EXISTS toolwright_records_decides ON toolwright_records (run, decides)
    WHERE decides IS NOT NULL;
CREATE TABLE IF NOT EXISTS toolwright_tools (
    hash text PRIMARY KEY,
    tools text NOT NULL
);
CREATE UNLOGGED TABLE IF NOT EXISTS toolwright_live (
    run bigint NOT NULL REFERENCES toolwright_runs ON DELETE CASCADE,
    lease bigint NOT NULL,
    nth bigint NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (run, lease, nth)
);
CREATE TABLE IF NOT EXISTS toolwright_runs_version (version integer NOT NULL);
";

/// Starts a run unless this id has one. `$10` is the run from which it goes on. If `$5` is set, that worker gets the lease at once.
pub(crate) const START: &str = "
WITH started AS (
    INSERT INTO toolwright_runs (agent, id, metadata, bytes, worker, free_at, earlier)
    VALUES ($1, $2, $3::text::jsonb, $4, $5, clock_timestamp() + $6::bigint * interval '1 ms', $10)
    ON CONFLICT (agent, id) DO NOTHING
    RETURNING number
), tools AS (
    INSERT INTO toolwright_tools SELECT $7, $8 FROM started WHERE $8::text IS NOT NULL
    ON CONFLICT DO NOTHING
)
INSERT INTO toolwright_records (run, nth, record) SELECT number, 0, $9 FROM started
RETURNING run";

/// The runs from which a run goes on, directly or not: the start of each, and its end if it has finished.
/// The first run of the conversation is first.
pub(crate) const EARLIER: &str = "
WITH RECURSIVE chain AS (
    SELECT earlier AS number, 1 AS depth FROM toolwright_runs WHERE number = $1
    UNION ALL
    SELECT run.earlier, depth + 1 FROM chain JOIN toolwright_runs AS run ON run.number = chain.number
    WHERE run.earlier IS NOT NULL
)
SELECT run.number, run.id, record.nth, record.record
FROM chain JOIN toolwright_runs AS run ON run.number = chain.number
    JOIN toolwright_records AS record ON record.run = run.number
        AND (record.nth = 0 OR run.status = 'finished' AND record.nth = run.records - 1)
ORDER BY depth DESC, record.nth";

/// Deletes the runs that were hidden because others went on from them, and from which none goes on now.
pub(crate) const DELETE_HIDDEN: &str = "
WITH RECURSIVE needed AS (
    SELECT earlier AS number FROM toolwright_runs WHERE earlier IS NOT NULL AND agent <> ''
    UNION
    SELECT run.earlier FROM needed JOIN toolwright_runs AS run ON run.number = needed.number
    WHERE run.earlier IS NOT NULL
)
DELETE FROM toolwright_runs AS run
WHERE agent = '' AND NOT EXISTS (SELECT FROM needed WHERE needed.number = run.number)";

/// Takes a run with this id that has not finished.
pub(crate) const TAKE: &str = "
UPDATE toolwright_runs SET status = 'open', worker = $3, lease = lease + 1,
    free_at = clock_timestamp() + $4::bigint * interval '1 ms'
WHERE agent = $1 AND id = $2 AND status <> 'finished'
    AND (worker IS NULL OR free_at <= clock_timestamp())
RETURNING number, lease, records, bytes, spent";

/// Takes runs that are free. A run that has ended several workers in a row rests longer each time.
pub(crate) const TAKE_FREE: &str = "
WITH free AS (
    SELECT number, worker FROM toolwright_runs
    WHERE agent = $1 AND status = 'open' AND free_at <= clock_timestamp()
        AND (losses < 3 OR clock_timestamp() >= free_at
            + least($3::bigint * 2 ^ least(losses - 2, 30), 3600000) * interval '1 ms')
    ORDER BY free_at LIMIT $4
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE toolwright_runs AS run SET worker = $2, lease = run.lease + 1,
    free_at = clock_timestamp() + $3::bigint * interval '1 ms',
    losses = CASE WHEN free.worker IS NULL THEN 0 ELSE run.losses + 1 END
FROM free WHERE run.number = free.number
RETURNING run.number, run.lease, run.records, run.bytes, run.spent, run.id, free.worker";

/// Appends records. They are kept only if the worker still has the run.
pub(crate) const APPEND: &str = "
WITH held AS (
    UPDATE toolwright_runs SET changed = clock_timestamp(), records = $3, bytes = $4, spent = $12,
        status = $5, ending = $6, error = $7, losses = 0, failures = 0,
        worker = CASE $5 WHEN 'open' THEN worker END
    WHERE number = $1 AND lease = $2
    RETURNING number
), appended AS (
    INSERT INTO toolwright_records (run, nth, asks, decides, record)
    SELECT held.number, $8::integer + entry.place - 1, entry.asks, entry.decides, entry.record
    FROM held, unnest($9::text[], $10::text[], $11::text[])
        WITH ORDINALITY AS entry (asks, decides, record, place)
    ON CONFLICT DO NOTHING
)
SELECT number FROM held";

/// Renews a lease.
pub(crate) const RENEW: &str = "
UPDATE toolwright_runs SET free_at = clock_timestamp() + $3::bigint * interval '1 ms'
WHERE number = $1 AND lease = $2
RETURNING number";

/// Ends a lease. After a drive that failed, the run rests longer each time.
pub(crate) const RELEASE: &str = "
UPDATE toolwright_runs SET worker = NULL, status = $3, error = $4,
    failures = failures + CASE WHEN $5 THEN 1 ELSE 0 END,
    losses = 0,
    free_at = clock_timestamp() + CASE WHEN $5
        THEN least(2 ^ least(failures, 20), 300) * interval '1 s' ELSE interval '0' END
WHERE number = $1 AND lease = $2
RETURNING number";

/// Looks whether a run was cancelled and not driven since.
pub(crate) const IS_CANCELLED: &str = "
SELECT FROM toolwright_runs WHERE number = $1 AND status = 'failed' AND worker IS NULL";

/// Tables, and the table with their version. A database without it has none of them.
pub(crate) struct Tables<'a> {
    pub(crate) sql: &'a str,
    pub(crate) version_table: &'a str,
    pub(crate) version: i32,
}

/// The tables of runs.
pub(crate) const RUNS: Tables<'static> =
    Tables { sql: TABLES, version_table: "toolwright_runs_version", version: VERSION };

/// Creates the tables if they are not there, and checks their version.
pub(crate) async fn create(pool: &Pool, tables: &Tables<'_>) -> Result<()> {
    let Tables { sql, version_table, version } = *tables;
    let mut connection = pool.get().await?;
    let setup = connection.transaction().await?;
    // A user who may not create tables can use those that are there.
    if !are_there(&setup, version_table).await? {
        setup.batch_execute(LOCK).await?;
        // Another process may have created them while this one waited for the lock. Its workers may
        // write already, and `CREATE INDEX IF NOT EXISTS` locks a table also if the index is there.
        if !are_there(&setup, version_table).await? {
            setup.batch_execute(sql).await?;
            let insert = format!("INSERT INTO {version_table} VALUES ($1)");
            setup.execute(&insert, &[&version]).await?;
        }
    }
    let select = format!("SELECT version FROM {version_table}");
    let found: i32 = setup.query_one(&select, &[]).await?.try_get(0)?;
    if found != version {
        return Err(RunsError::Version { found, known: version });
    }
    Ok(setup.commit().await?)
}

/// Looks whether the tables are there.
pub(crate) async fn are_there(setup: &Transaction<'_>, version_table: &str) -> Result<bool> {
    // Not `to_regclass`: it remembers in a transaction that a table is not there.
    let there = "SELECT EXISTS (SELECT FROM pg_class
        WHERE relname = $1 AND pg_table_is_visible(oid))";
    Ok(setup.query_one(there, &[&version_table]).await?.try_get(0)?)
}
