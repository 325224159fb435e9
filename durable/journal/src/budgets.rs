//! Budgets of users and tenants, which the processes of one machine share.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use toolwright_module::budget::{Budget, BudgetState, Period, Reserving, SharedBudget, Spent};
use toolwright_module::model::BoxFuture;
use toolwright_module::runner::shared_budget_fault;

use crate::error::{JournalError, Result};
use crate::file::{self, Line, RunFile};
use crate::journal::{lock_file, open_folder};
use crate::name;
use crate::writer::run_blocking;

/// The length of a lease by default, and the shortest one.
const LEASE: Duration = Duration::from_secs(30);
const SHORTEST_LEASE: Duration = Duration::from_millis(300);
/// The clock cannot add much longer times.
const LONGEST_LEASE: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum length of the name of an owner, in bytes.
const LONGEST_OWNER: usize = 4_096;

/// How long a reservation that counts in full is kept for a process that is still alive.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Budgets of users and tenants for each day or month, in a folder. All processes of the machine that
/// open the folder share them.
///
/// The largest cost of each model call is reserved in the folder before the call, so any number of
/// processes together never exceed a budget, also if some are killed. If a process dies during a call,
/// the reservation counts in full when its lease has ended, because the call may have been paid for.
/// Times are those of the machine's clock, and periods those of the calendar in UTC.
///
/// A budget is a small file, which is replaced with each reservation and each cost. It has the current
/// period only. The folder may be that of a [`Journal`](crate::Journal); it must be on a local disk.
///
/// ```
/// use toolwright_journal::BudgetFolder;
/// use toolwright_module::budget::{Budget, Ledger, Period};
/// use toolwright_module::model::Usage;
/// use toolwright_module::testing::Scripted;
/// use toolwright_module::{Context, Message, Reply, Request};
///
/// # let folder = tempfile::tempdir()?;
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let budgets = BudgetFolder::open(folder.path())?;
/// let limits = Budget { output_tokens: Some(1_000_000), ..Budget::default() };
/// let ada = budgets.budget("user=ada", Period::Day, limits)?;
/// let cx = Context::default().with_ledger(Ledger::default().with_shared_budget(ada.clone()));
///
/// let model = Scripted::replies([Reply::text("Hello.").with_usage(Usage::new(20, 5))]);
/// cx.ask(&model, Request::new([Message::user("Say hello.")]), false).await?;
/// assert_eq!(ada.state().await?.spent.usage.output_tokens, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct BudgetFolder {
    folder: Arc<Path>,
    lease: Duration,
}

impl BudgetFolder {
    /// Opens the budgets in a folder. A folder that does not exist is created for this user only.
    ///
    /// # Errors
    ///
    /// The folder cannot be created or read.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        Ok(Self { folder: open_folder(folder.as_ref())?.into(), lease: LEASE })
    }

    /// Sets the length of the lease of a reservation. Default: 30 seconds. The minimum is 300
    /// milliseconds, and the maximum a day.
    ///
    /// A lease is renewed when a third of it has passed. If a process dies, the calls that wait for its
    /// reservations go on when the leases have ended.
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
    /// The name of the owner is empty or too long. The limits contain one of tool calls, which a shared
    /// budget does not count.
    pub fn budget(
        &self,
        owner: impl Into<String>,
        period: Period,
        limits: Budget,
    ) -> Result<FolderBudget> {
        let owner = owner.into();
        if let Some(reason) = shared_budget_fault(&owner, &limits, LONGEST_OWNER) {
            return Err(JournalError::Budget { owner, reason });
        }
        let name = self.folder.join(name::of_run(&owner));
        let path = name.with_extension(format!("{period}.budget"));
        let (owner, lease) = (owner.into(), self.lease);
        Ok(FolderBudget { path: path.into(), lease, owner, period, limits })
    }
}

/// The budget of a user or a tenant for each day or month, in a file. [`BudgetFolder::budget`] makes one.
/// Clones are the same budget.
#[derive(Clone)]
pub struct FolderBudget {
    path: Arc<Path>,
    lease: Duration,
    owner: Arc<str>,
    period: Period,
    limits: Budget,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Stored {
    owner: String,
    period: Period,
    /// The start of the current period.
    since: SystemTime,
    spent: Spent,
    /// The reservations by their keys.
    reservations: BTreeMap<String, Reservation>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Reservation {
    /// The start of the period in which it was made.
    since: SystemTime,
    most: Spent,
    /// The end of the lease.
    ends_at: SystemTime,
    /// Whether the lease has ended, so that it counts in `spent`.
    has_ended: bool,
}

impl Stored {
    /// Begins a new period, and counts the reservations in full whose leases have ended. A clock that
    /// was set back does not begin an earlier period again.
    fn go_on(&mut self, now: SystemTime) {
        let since = self.period.around(now).start;
        if since > self.since {
            (self.since, self.spent) = (since, Spent::default());
        }
        let since = self.since;
        for reservation in self.reservations.values_mut() {
            if !reservation.has_ended && reservation.ends_at <= now {
                reservation.has_ended = true;
                if reservation.since == since {
                    self.spent += reservation.most;
                }
            }
        }
        self.reservations.retain(|_, reservation| {
            !reservation.has_ended || reservation.since == since && now < reservation.ends_at + KEPT
        });
    }

    fn held(&self) -> Spent {
        let held = |it: &&Reservation| !it.has_ended && it.since == self.since;
        self.reservations.values().filter(held).fold(Spent::default(), |sum, it| sum + it.most)
    }

    fn state(&self) -> BudgetState {
        let until = self.period.around(self.since).end;
        BudgetState { spent: self.spent, held: self.held(), until }
    }

    fn reserve(
        &mut self,
        key: &str,
        most: Spent,
        limits: Budget,
        ends_at: SystemTime,
    ) -> Reserving {
        if self.reservations.contains_key(key) {
            return Reserving::Reserved;
        }
        if limits.refuses(self.spent + self.held(), most).is_some() {
            return Reserving::Full(Box::new(self.state()));
        }
        let reservation = Reservation { since: self.since, most, ends_at, has_ended: false };
        self.reservations.insert(key.to_owned(), reservation);
        Reserving::Reserved
    }

    fn settle(&mut self, key: &str, cost: Spent) {
        let Some(reservation) = self.reservations.remove(key) else { return };
        if reservation.since == self.since {
            let before = if reservation.has_ended { reservation.most } else { Spent::default() };
            self.spent = self.spent - before + cost;
        }
    }
}

impl FolderBudget {
    /// Returns what is spent and reserved in the current period. Reservations whose lease has ended are
    /// counted as spent before.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written.
    pub async fn state(&self) -> Result<BudgetState> {
        self.change(|stored, _| stored.state()).await
    }

    /// Changes the file, on a thread for blocking work.
    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Stored, SystemTime) -> T + Send + 'static,
    ) -> Result<T> {
        let budget = self.clone();
        let changed = run_blocking(&self.owner, move || budget.change_now(change)).await;
        changed.map_err(|_| self.error("was not changed, because the runtime shut down"))?
    }

    fn change_now<T>(&self, change: impl FnOnce(&mut Stored, SystemTime) -> T) -> Result<T> {
        let _lock = lock_file(&self.path.with_extension("budget-lock"), File::try_lock)?;
        let now = SystemTime::now();
        let before = self.read()?;
        let mut stored = before.clone().unwrap_or_else(|| Stored {
            owner: self.owner.to_string(),
            period: self.period,
            since: self.period.around(now).start,
            spent: Spent::default(),
            reservations: BTreeMap::new(),
        });
        stored.go_on(now);
        let changed = change(&mut stored, now);
        if before.as_ref() != Some(&stored) {
            self.write(&stored)?;
        }
        Ok(changed)
    }

    fn read(&self) -> Result<Option<Stored>> {
        let Some(bytes) = file::read(&self.path)? else { return Ok(None) };
        let damaged = |reason: &dyn fmt::Display| {
            let path = self.path.display();
            self.error(format!(
                "cannot be read from {path}: {reason}; restore the file from a backup, or delete it to begin with nothing spent"
            ))
        };
        let contents = match file::parse(&self.path, &bytes) {
            Err(JournalError::Damaged { reason, .. }) => return Err(damaged(&reason)),
            contents => contents?,
        };
        let Some((_, json)) = contents.lines.first() else {
            return Err(damaged(&"it is empty"));
        };
        let stored: Line<Stored> = serde_json::from_str(json).map_err(|error| damaged(&error))?;
        let stored = stored.record;
        if *stored.owner != *self.owner || stored.period != self.period {
            return Err(damaged(&format!("it is the budget of `{}`", stored.owner)));
        }
        Ok(Some(stored))
    }

    /// Replaces the file. The caller has the lock. A process that is killed leaves the old file or the
    /// new one.
    fn write(&self, stored: &Stored) -> Result<()> {
        let temporary = self.path.with_extension("budget-new");
        RunFile::create(&temporary)?.write(&[file::json(stored, &self.owner)?])?;
        let io = |path: &Path, error| JournalError::io(path, error);
        fs::rename(&temporary, &self.path).map_err(|error| io(&self.path, error))?;
        let folder = self.path.parent().map(PathBuf::from).unwrap_or_default();
        file::sync_folder(&folder).map_err(|error| io(&folder, error))
    }

    fn error(&self, reason: impl Into<String>) -> JournalError {
        JournalError::Budget { owner: self.owner.to_string(), reason: reason.into() }
    }
}

impl SharedBudget for FolderBudget {
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
        let (key, limits, lease) = (key.to_owned(), self.limits, self.lease);
        Box::pin(async move {
            let reserves =
                self.change(move |stored, now| stored.reserve(&key, most, limits, now + lease));
            reserves.await.map_err(JournalError::into_module)
        })
    }

    fn renew<'a>(&'a self, key: &'a str) -> BoxFuture<'a, toolwright_module::Result<()>> {
        let (key, lease) = (key.to_owned(), self.lease);
        Box::pin(async move {
            let renews = self.change(move |stored, now| {
                if let Some(reservation) = stored.reservations.get_mut(&key) {
                    reservation.ends_at = now + lease;
                }
            });
            renews.await.map_err(JournalError::into_module)
        })
    }

    fn settle<'a>(
        &'a self,
        key: &'a str,
        cost: Spent,
    ) -> BoxFuture<'a, toolwright_module::Result<()>> {
        let key = key.to_owned();
        Box::pin(async move {
            let settles = self.change(move |stored, _| stored.settle(&key, cost));
            settles.await.map_err(JournalError::into_module)
        })
    }
}

impl fmt::Debug for FolderBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FolderBudget")
            .field("owner", &self.owner)
            .field("period", &self.period)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use toolwright_module::model::Usage;

    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);
    const LEASE: Duration = Duration::from_secs(30);

    fn tokens(tokens: u64) -> Spent {
        Spent::model_call(Usage::new(0, tokens))
    }

    fn at(hours: u32) -> SystemTime {
        SystemTime::UNIX_EPOCH + hours * HOUR
    }

    fn stored(now: SystemTime) -> Stored {
        let since = Period::Day.around(now).start;
        let (owner, period, spent) = ("a".to_owned(), Period::Day, Spent::default());
        Stored { owner, period, since, spent, reservations: BTreeMap::new() }
    }

    fn amounts(stored: &Stored) -> (u64, u64) {
        (stored.spent.usage.output_tokens, stored.held().usage.output_tokens)
    }

    #[test]
    fn a_reservation_whose_lease_has_ended_counts_in_full_until_it_is_settled() {
        let limits = Budget { output_tokens: Some(100), ..Budget::default() };
        let mut stored = stored(at(1));
        for key in ["dead", "late", "dead"] {
            let reserving = stored.reserve(key, tokens(40), limits, at(1) + LEASE);
            assert_eq!(reserving, Reserving::Reserved);
        }
        stored.go_on(at(1));
        assert_eq!(amounts(&stored), (0, 80));
        stored.go_on(at(2));
        assert_eq!(amounts(&stored), (80, 0));
        assert!(stored.reserve("c", tokens(40), limits, at(2)) != Reserving::Reserved);
        stored.settle("late", tokens(10));
        stored.settle("late", tokens(10));
        assert_eq!(amounts(&stored), (50, 0));
        assert_eq!(stored.reserve("c", tokens(50), limits, at(2) + LEASE), Reserving::Reserved);
    }

    #[test]
    fn a_new_period_begins_with_nothing_and_ends_that_of_earlier_reservations() {
        let limits = Budget { output_tokens: Some(100), ..Budget::default() };
        let mut stored = stored(at(23));
        for key in ["long", "dead"] {
            stored.reserve(key, tokens(40), limits, at(25));
        }
        stored.settle("x", tokens(5));
        stored.spent += tokens(7);
        stored.go_on(at(24));
        assert_eq!((amounts(&stored), stored.state().until), ((0, 0), at(48)));
        assert_eq!(stored.reserve("new", tokens(100), limits, at(25)), Reserving::Reserved);
        stored.settle("long", tokens(30));
        stored.go_on(at(26));
        assert_eq!((amounts(&stored), stored.reservations.len()), ((100, 0), 1));
        // The clock is set back.
        stored.go_on(at(20));
        assert_eq!((amounts(&stored), stored.state().until), ((100, 0), at(48)));
        stored.go_on(at(47));
        assert_eq!(stored.reservations.len(), 1);
        stored.go_on(at(72));
        assert_eq!((amounts(&stored), stored.reservations.len()), ((0, 0), 0));
    }
}
