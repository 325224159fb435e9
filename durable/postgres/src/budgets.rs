//! Budgets of users and tenants, which all workers share.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use deadpool_postgres::Pool;
use tokio::time::sleep;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use toolwright_module::budget::{Budget, BudgetState, Period, Reserving, SharedBudget, Spent};
use toolwright_module::model::BoxFuture;
use toolwright_module::runner::shared_budget_fault;

use crate::error::{Result, RunsError};
use crate::lease::{FIRST_PAUSE, LONGEST_PAUSE, milliseconds};
use crate::runs::{LEASE, LONGEST_ID, LONGEST_LEASE, SHORTEST_LEASE, pool};
use crate::tables::{self, Tables};

/// What the tables count, as columns.
const COLUMNS: [&str; 5] =
    ["model_calls", "input_tokens", "output_tokens", "money", "unpriced_calls"];

/// The largest amount that is stored. A thousand sums of it still fit into a column.
const MOST: u64 = 1 << 50;

/// The tables.
///
/// `since` is the start of a period. `ends_at` is the end of the lease of a reservation. If it passes,
/// the reservation is moved from what is held to what is spent, and `has_ended` is set: the worker may
/// still be alive, and its settlement then replaces that amount.
static TABLES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "
CREATE TABLE IF NOT EXISTS toolwright_budgets (
    owner text NOT NULL,
    period text NOT NULL,
    since timestamptz NOT NULL,
    {},
    PRIMARY KEY (owner, period, since)
) WITH (fillfactor = 60);
CREATE TABLE IF NOT EXISTS toolwright_reservations (
    key text PRIMARY KEY,
    owner text NOT NULL,
    period text NOT NULL,
    since timestamptz NOT NULL,
    {},
    ends_at timestamptz NOT NULL,
    has_ended boolean NOT NULL DEFAULT false,
    FOREIGN KEY (owner, period, since) REFERENCES toolwright_budgets ON DELETE CASCADE
);
CREATE INDEX IF NOT EXISTS toolwright_reservations_budget
    ON toolwright_reservations (owner, period, since);
CREATE TABLE IF NOT EXISTS toolwright_budgets_version (version integer NOT NULL);
",
        each("spent_@ bigint NOT NULL DEFAULT 0, held_@ bigint NOT NULL DEFAULT 0", ", "),
        each("@ bigint NOT NULL", ", "),
    )
});

/// Reserves if the amounts fit. The row of the budget is locked from the check to the commit, so no
/// other reservation comes between. The last line finds the reservation of an earlier attempt. The
/// parameters are the key, the budget, the lease, the amounts, their limits, and that of all tokens.
static RESERVE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "
WITH budget AS (
    INSERT INTO toolwright_budgets AS budget (owner, period, since, {})
    VALUES ($2, $3, date_trunc($3, clock_timestamp(), 'UTC'), $5, $6, $7, $8, $9)
    ON CONFLICT (owner, period, since) DO UPDATE SET {}
    WHERE {}
        AND ($15::bigint IS NULL OR excluded.held_input_tokens + excluded.held_output_tokens = 0
            OR budget.spent_input_tokens + budget.held_input_tokens + excluded.held_input_tokens
                + budget.spent_output_tokens + budget.held_output_tokens
                + excluded.held_output_tokens <= $15)
    RETURNING since
), reserved AS (
    INSERT INTO toolwright_reservations (key, owner, period, since, {}, ends_at)
    SELECT $1, $2, $3, since, $5, $6, $7, $8, $9, clock_timestamp() + $4::bigint * interval '1 ms'
    FROM budget
    RETURNING key
)
SELECT key FROM reserved
UNION ALL SELECT key FROM toolwright_reservations WHERE key = $1",
        each("held_@", ", "),
        each("held_@ = budget.held_@ + excluded.held_@", ", "),
        each_from(
            10,
            "($#::bigint IS NULL OR excluded.held_@ = 0
        OR budget.spent_@ + budget.held_@ + excluded.held_@ <= $#)",
            " AND "
        ),
        each("@", ", "),
    )
});

const RENEW: &str = "
UPDATE toolwright_reservations SET ends_at = clock_timestamp() + $2::bigint * interval '1 ms'
WHERE key = $1 AND NOT has_ended
RETURNING key";

/// Replaces a reservation by what the call has cost.
static SETTLE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "
WITH gone AS (DELETE FROM toolwright_reservations WHERE key = $1 RETURNING *)
UPDATE toolwright_budgets AS budget SET {}
FROM gone
WHERE budget.owner = gone.owner AND budget.period = gone.period AND budget.since = gone.since
RETURNING budget.owner",
        each_from(
            2,
            "spent_@ = budget.spent_@ + $#::bigint - CASE WHEN has_ended THEN gone.@ ELSE 0 END,
    held_@ = budget.held_@ - CASE WHEN has_ended THEN 0 ELSE gone.@ END",
            ",\n    "
        ),
    )
});

/// Counts the reservations of one period in full whose leases have ended. Rows are locked in the order
/// of [`SETTLE`]: first reservations, then one budget.
static END: LazyLock<String> = LazyLock::new(|| {
    format!(
        "
WITH one AS (
    SELECT since FROM toolwright_reservations
    WHERE owner = $1 AND period = $2 AND NOT has_ended AND ends_at <= clock_timestamp()
    ORDER BY since LIMIT 1
), found AS (
    SELECT key FROM toolwright_reservations
    WHERE owner = $1 AND period = $2 AND since = (SELECT since FROM one)
        AND NOT has_ended AND ends_at <= clock_timestamp()
    FOR UPDATE SKIP LOCKED
), ended AS (
    UPDATE toolwright_reservations AS reservation SET has_ended = true
    FROM found WHERE reservation.key = found.key
    RETURNING reservation.*
), sums AS (
    SELECT since, {} FROM ended GROUP BY since
)
UPDATE toolwright_budgets AS budget SET {}
FROM sums WHERE owner = $1 AND period = $2 AND budget.since = sums.since
RETURNING budget.owner",
        each("sum(@)::bigint AS @", ", "),
        each("spent_@ = spent_@ + sums.@, held_@ = held_@ - sums.@", ",\n    "),
    )
});

static STATE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "
SELECT (date_trunc($2, clock_timestamp() AT TIME ZONE 'UTC') + ('1 ' || $2)::interval)
        AT TIME ZONE 'UTC', {}, {}
FROM (SELECT) AS now LEFT JOIN toolwright_budgets
    ON owner = $1 AND period = $2 AND since = date_trunc($2, clock_timestamp(), 'UTC')",
        each("coalesce(spent_@, 0)", ", "),
        each("coalesce(held_@, 0)", ", "),
    )
});

/// The reservations that counted in full a day ago. No worker settles them any more.
const FORGET: &str = "
DELETE FROM toolwright_reservations
WHERE has_ended AND ends_at < clock_timestamp() - interval '1 day'";

/// Returns a text for each column. `@` stands for its name.
fn each(text: &str, between: &str) -> String {
    each_from(0, text, between)
}

/// Like [`each`]. `$#` stands for the parameter of the column, from the number `first` on.
fn each_from(first: usize, text: &str, between: &str) -> String {
    let one = |(place, column): (usize, &&str)| {
        text.replace('@', column).replace("$#", &format!("${}", first + place))
    };
    COLUMNS.iter().enumerate().map(one).collect::<Vec<_>>().join(between)
}

/// Budgets of users and tenants for each day or month, in a PostgreSQL database. All workers that use
/// the database share them.
///
/// The largest cost of each model call is reserved in the database before the call, so any number of
/// workers together never exceed a budget, also if some are killed. If a worker dies during a call,
/// the reservation counts in full when its lease has ended, because the call may have been paid for.
/// All times are those of the server's clock, and periods those of the calendar in UTC.
///
/// ```no_run
/// use toolwright_module::Context;
/// use toolwright_module::budget::{Budget, Ledger, Money, Period, Price};
/// use toolwright_postgres::BudgetDatabase;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// // Once, when the program starts.
/// let budgets = BudgetDatabase::connect("postgres://user:password@127.0.0.1/letters").await?;
///
/// // For each request.
/// let limits = Budget { money: Some(Money::new(5.0)), ..Budget::default() };
/// let acme = budgets.budget("tenant=acme", Period::Day, limits)?;
/// let ledger = Ledger::default()
///     .with_prices([("gpt-5-mini", Price::per_million(0.25, 2.0))])
///     .with_shared_budget(acme.clone());
/// let cx = Context::default().with_ledger(ledger);
/// // … run an agent with this context …
///
/// println!("{} spent today", acme.state().await?.spent.money);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct BudgetDatabase {
    pool: Pool,
    lease: Duration,
}

impl BudgetDatabase {
    /// Connects to a database without TLS, and creates the tables if they are not there. The URL is
    /// that of [`Runs::connect`](crate::Runs::connect).
    ///
    /// # Errors
    ///
    /// The URL is not valid, the server cannot be reached, or the tables are of another version.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::with_pool(pool(url)?).await
    }

    /// Uses the connections of a pool, such as that of
    /// [`Runs::with_pool`](crate::Runs::with_pool), and creates the tables if they are not there.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or the tables are of another version.
    pub async fn with_pool(pool: Pool) -> Result<Self> {
        let version_table = "toolwright_budgets_version";
        tables::create(&pool, &Tables { sql: &TABLES, version_table, version: 1 }).await?;
        pool.get().await?.batch_execute(FORGET).await?;
        Ok(Self { pool, lease: LEASE })
    }

    /// Sets the length of the lease of a reservation. Default: 30 seconds. The minimum is 300
    /// milliseconds, and the maximum a day.
    ///
    /// A lease is renewed when a third of it has passed. If a worker dies, the calls that wait for its
    /// reservations go on when the leases have ended. A failure of the database that is shorter than a
    /// lease ends no call.
    #[must_use]
    pub fn with_lease(mut self, length: Duration) -> Self {
        self.lease = length.clamp(SHORTEST_LEASE, LONGEST_LEASE);
        self
    }

    /// Returns the budget of a user or a tenant for each period.
    ///
    /// The limits are those of this value and are not stored. If programs with different limits use
    /// one budget, each call is checked against the limits of its own program. The same owner has one
    /// budget for days and another one for months.
    ///
    /// # Errors
    ///
    /// The name of the owner is empty, too long, or contains a NUL character. The limits contain one of
    /// tool calls, which a shared budget does not count.
    pub fn budget(
        &self,
        owner: impl Into<String>,
        period: Period,
        limits: Budget,
    ) -> Result<DatabaseBudget> {
        let owner = owner.into();
        let has_nul = || {
            let text = "has a name with a NUL character, which PostgreSQL cannot store";
            owner.contains('\0').then(|| text.to_owned())
        };
        if let Some(reason) = shared_budget_fault(&owner, &limits, LONGEST_ID).or_else(has_nul) {
            return Err(RunsError::Budget { owner, reason });
        }
        let (pool, lease) = (self.pool.clone(), self.lease);
        Ok(DatabaseBudget { pool, lease, owner: owner.into(), period, limits })
    }
}

impl fmt::Debug for BudgetDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetDatabase").field("lease", &self.lease).finish_non_exhaustive()
    }
}

/// The budget of a user or a tenant for each day or month, in a PostgreSQL database.
/// [`BudgetDatabase::budget`] makes one. Clones are the same budget.
#[derive(Clone)]
pub struct DatabaseBudget {
    pool: Pool,
    lease: Duration,
    owner: Arc<str>,
    period: Period,
    limits: Budget,
}

impl DatabaseBudget {
    /// Returns what is spent and reserved in the current period. Reservations whose lease has ended are
    /// counted as spent before, in earlier periods too.
    ///
    /// # Errors
    ///
    /// The database failed.
    pub async fn state(&self) -> Result<BudgetState> {
        let budget: &[&(dyn ToSql + Sync)] = &[&&*self.owner, &self.period.name()];
        // Each round ends those of one period.
        while self.patiently(&END, budget).await?.is_some() {}
        let row = self.patiently(&STATE, budget).await?;
        let row = row.ok_or_else(|| RunsError::Budget {
            owner: self.owner.to_string(),
            reason: "was not read: the server returned no row".to_owned(),
        })?;
        let until: SystemTime = row.try_get(0)?;
        Ok(BudgetState { spent: spent(&row, 1)?, held: spent(&row, 1 + COLUMNS.len())?, until })
    }

    async fn try_reserve(&self, key: &str, most: Spent) -> Result<Reserving> {
        // An amount beyond a limit also does not fit into a period without a row.
        if self.limits.refuses(Spent::default(), most).is_some() {
            return Ok(Reserving::Full(Box::new(self.state().await?)));
        }
        let Budget { model_calls, input_tokens, output_tokens, tokens, money, .. } = self.limits;
        let money = money.map(|money| money.micros);
        let limits = [model_calls, input_tokens, output_tokens, money, None, tokens];
        let limits = limits.map(|limit| limit.map(stored));
        let (amounts, lease) = (amounts(most), milliseconds(self.lease));
        let (owner, period) = (&*self.owner, self.period.name());
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&key, &owner, &period, &lease];
        parameters.extend(amounts.iter().map(|amount| -> &(dyn ToSql + Sync) { amount }));
        parameters.extend(limits.iter().map(|limit| -> &(dyn ToSql + Sync) { limit }));
        match self.patiently(&RESERVE, &parameters).await {
            Ok(Some(_)) => Ok(Reserving::Reserved),
            Ok(None) => Ok(Reserving::Full(Box::new(self.state().await?))),
            // The answer to an earlier attempt was lost, and the amounts would fit twice.
            Err(error) if error.has_code(&SqlState::UNIQUE_VIOLATION) => Ok(Reserving::Reserved),
            Err(error) => Err(error),
        }
    }

    async fn try_settle(&self, key: &str, cost: Spent) -> Result<()> {
        let amounts = amounts(cost);
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&key];
        parameters.extend(amounts.iter().map(|amount| -> &(dyn ToSql + Sync) { amount }));
        self.patiently(&SETTLE, &parameters).await?;
        Ok(())
    }

    /// Makes a statement, again and again for the length of a lease if the database is away.
    async fn patiently(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>> {
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            match self.once(sql, parameters).await {
                Err(error) if error.is_passing() && began.elapsed() + pause < self.lease => {
                    tracing::warn!(owner = &*self.owner, %error, "the database of a budget is away");
                }
                answer => return answer,
            }
            sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    async fn once(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Option<Row>> {
        let connection = self.pool.get().await?;
        let statement = connection.prepare_cached(sql).await?;
        Ok(connection.query_opt(&statement, parameters).await?)
    }
}

impl SharedBudget for DatabaseBudget {
    fn owner(&self) -> &str {
        &self.owner
    }

    fn limits(&self) -> Budget {
        self.limits
    }

    fn lease(&self) -> Duration {
        self.lease
    }

    fn reserve<'a>(
        &'a self,
        key: &'a str,
        most: Spent,
    ) -> BoxFuture<'a, toolwright_module::Result<Reserving>> {
        Box::pin(async move { self.try_reserve(key, most).await.map_err(RunsError::into_module) })
    }

    fn renew<'a>(&'a self, key: &'a str) -> BoxFuture<'a, toolwright_module::Result<()>> {
        Box::pin(async move {
            let renewed = self.once(RENEW, &[&key, &milliseconds(self.lease)]).await;
            renewed.map(drop).map_err(RunsError::into_module)
        })
    }

    fn settle<'a>(
        &'a self,
        key: &'a str,
        cost: Spent,
    ) -> BoxFuture<'a, toolwright_module::Result<()>> {
        Box::pin(async move { self.try_settle(key, cost).await.map_err(RunsError::into_module) })
    }
}

impl fmt::Debug for DatabaseBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseBudget")
            .field("owner", &self.owner)
            .field("period", &self.period)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Returns an amount as a column has it.
fn stored(amount: u64) -> i64 {
    amount.min(MOST).cast_signed()
}

/// Returns the amounts in the order of [`COLUMNS`].
fn amounts(spent: Spent) -> [i64; COLUMNS.len()] {
    let Spent { model_calls, usage, money, unpriced_calls, .. } = spent;
    let (input, output) = (usage.input_tokens, usage.output_tokens);
    [model_calls, input, output, money.micros, unpriced_calls].map(stored)
}

/// Reads amounts from a column on.
fn spent(row: &Row, first: usize) -> Result<Spent> {
    let mut amounts = [0; COLUMNS.len()];
    for (place, amount) in amounts.iter_mut().enumerate() {
        // None is below zero, unless a person has changed the table.
        *amount = u64::try_from(row.try_get::<_, i64>(first + place)?).unwrap_or(0);
    }
    let mut spent = Spent::default();
    [spent.model_calls, spent.usage.input_tokens, spent.usage.output_tokens, ..] = amounts;
    [.., spent.money.micros, spent.unpriced_calls] = amounts;
    Ok(spent)
}
