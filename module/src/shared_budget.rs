//! Budgets that several processes share: reserving before a model call, renewing while it runs, and
//! settling after it.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::{Either, select};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::budget::{Budget, Spent};
use crate::error::{Error, Result, Stage};
use crate::ledger::Exhausted;
use crate::model::BoxFuture;

/// The first pause before a call that does not fit is tried again, which doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A budget of a user or a tenant that is kept outside of the process, such as in a database.
/// [`Ledger::with_shared_budget`](crate::budget::Ledger::with_shared_budget) adds one to a ledger.
///
/// The crates `toolwright-postgres` and `toolwright-journal` have one each. An implementation only
/// stores: it reserves, renews and settles amounts under a key. The ledger decides who waits and who
/// is refused.
///
/// A reservation has a lease. Each amount counts from the reservation on, so a budget holds at any
/// moment, whatever happens to the processes. A reservation whose lease has ended, because its process
/// died, counts as spent in full: the model may have been paid for the call.
pub trait SharedBudget: Send + Sync + 'static {
    /// Returns the user or tenant who has the budget, for errors, such as `tenant=acme`.
    fn owner(&self) -> &str;

    /// Returns the limits of one period.
    fn limits(&self) -> Budget;

    /// Returns the length of a lease. It is renewed when a third of it has passed.
    fn lease(&self) -> Duration;

    /// Reserves an amount in the current period, if it fits beside all that is spent and reserved. The
    /// check and the reservation are one step for all processes. The same key again changes nothing.
    ///
    /// # Errors
    ///
    /// The budget cannot be read or written. The call is not made.
    fn reserve<'a>(&'a self, key: &'a str, most: Spent) -> BoxFuture<'a, Result<Reserving>>;

    /// Renews the lease of a reservation. Nothing happens if it has ended.
    ///
    /// # Errors
    ///
    /// The budget cannot be written. The call goes on.
    fn renew<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Replaces a reservation by the actual cost, in the period in which it was made. If its lease has
    /// ended and it counts in full, the cost replaces that amount. An unknown key changes nothing.
    ///
    /// # Errors
    ///
    /// The budget cannot be written. The reservation counts in full when its lease has ended.
    fn settle<'a>(&'a self, key: &'a str, spent: Spent) -> BoxFuture<'a, Result<()>>;
}

/// The answer of a [`SharedBudget`] to a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserving {
    /// The amount is reserved.
    Reserved,
    /// The amount does not fit now, and nothing is reserved.
    Full(Box<BudgetState>),
}

/// The state of a [`SharedBudget`] in the current period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetState {
    /// The cost of calls that have ended, and the reservations whose lease has ended.
    pub spent: Spent,
    /// The reservations of calls in progress.
    pub held: Spent,
    /// The end of the period.
    pub until: SystemTime,
}

/// The reason why a call got no reservation.
pub(crate) enum SharedRefused {
    /// The call would not fit even if all others released their reservations.
    Exhausted(Exhausted),
    /// The deadline passed while the call waited.
    Late,
    /// A budget cannot be reached.
    Failed(Error),
}

/// The reservations of one call. If this is dropped, they are settled in the background. If that is not
/// possible, they count in full when their leases have ended.
pub(crate) struct SharedHold {
    parts: Vec<(Arc<dyn SharedBudget>, String)>,
    most: Spent,
    /// The cost, as far as it is known now.
    cost: Spent,
    /// The time of the next renewal.
    next: Instant,
}

impl SharedHold {
    /// Reserves in all budgets. If one has too little left, nothing stays reserved in the others, so
    /// that two calls cannot wait for each other.
    pub(crate) async fn reserve(
        budgets: &[Arc<dyn SharedBudget>],
        most: Spent,
        deadline: Option<std::time::Instant>,
    ) -> Result<Self, SharedRefused> {
        let deadline = deadline.map(Instant::from);
        let mut pause = FIRST_PAUSE;
        loop {
            let next = Instant::now() + shortest_third(budgets.iter());
            let mut hold = Self { parts: Vec::new(), most, cost: Spent::default(), next };
            let Some(full) = hold.reserve_in(budgets).await.map_err(SharedRefused::Failed)? else {
                // From here on the call may be sent.
                hold.cost = most;
                return Ok(hold);
            };
            hold.settle(Spent::default()).await;
            let (budget, state) = full;
            if let Some(exhausted) = exhausted(&*budget, most, state) {
                return Err(SharedRefused::Exhausted(exhausted));
            }
            let until = Instant::now() + pause;
            match deadline {
                Some(deadline) if deadline <= until => {
                    sleep_until(deadline).await;
                    return Err(SharedRefused::Late);
                }
                _ => sleep_until(until).await,
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Returns the first budget in which the call does not fit, if there is one.
    async fn reserve_in(
        &mut self,
        budgets: &[Arc<dyn SharedBudget>],
    ) -> Result<Option<(Arc<dyn SharedBudget>, BudgetState)>> {
        for budget in budgets {
            let key = new_key();
            // Before the answer, because this future may be dropped while the reservation is made.
            self.parts.push((Arc::clone(budget), key.clone()));
            let reserving = ask(Arc::clone(budget), key, self.most).await?;
            if let Reserving::Full(state) = reserving {
                self.parts.pop();
                return Ok(Some((Arc::clone(budget), *state)));
            }
        }
        Ok(None)
    }

    /// Polls a call, and renews the leases meanwhile. A stream that nobody reads is not polled, so its
    /// lease ends, and the calls that wait for it go on.
    pub(crate) async fn keep<F: Future>(&mut self, mut call: Pin<&mut F>) -> F::Output {
        loop {
            let renewed = match select(call.as_mut(), pin!(self.renew())).await {
                Either::Left((output, _)) => return output,
                Either::Right((renewed, _)) => renewed,
            };
            self.next = renewed + shortest_third(self.parts.iter().map(|(budget, _)| budget));
        }
    }

    /// Renews the leases when it is time. Returns when that was.
    async fn renew(&self) -> Instant {
        sleep_until(self.next).await;
        let now = Instant::now();
        for (budget, key) in &self.parts {
            if let Err(error) = budget.renew(key).await {
                let owner = budget.owner();
                tracing::warn!(owner, %error, "the lease of a reservation is not renewed");
            }
        }
        now
    }

    /// Settles a call that has ended. Without a known cost, and for the unknown part of an incomplete
    /// one, the reserved amount counts.
    pub(crate) async fn end(self, cost: Option<Spent>) {
        let most = self.most;
        let cost = cost.map_or(most, |cost| match cost.usage.incomplete {
            true => Spent { model_calls: cost.model_calls, ..most + (cost - most) },
            false => cost,
        });
        self.settle(cost).await;
    }

    async fn settle(mut self, cost: Spent) {
        self.cost = cost;
        while let Some((budget, key)) = self.parts.last() {
            if let Err(error) = budget.settle(key, cost).await {
                unsettled(&**budget, &error);
            }
            self.parts.pop();
        }
    }
}

impl Drop for SharedHold {
    fn drop(&mut self) {
        // Without a runtime, the leases end.
        let Ok(runtime) = Handle::try_current() else { return };
        let cost = self.cost;
        for (budget, key) in std::mem::take(&mut self.parts) {
            runtime.spawn(async move {
                if let Err(error) = budget.settle(&key, cost).await {
                    unsettled(&*budget, &error);
                }
            });
        }
    }
}

fn shortest_third<'a>(budgets: impl Iterator<Item = &'a Arc<dyn SharedBudget>>) -> Duration {
    // A lease of zero would leave no time for the call.
    budgets.map(|budget| budget.lease() / 3).min().unwrap_or_default().max(FIRST_PAUSE)
}

fn unsettled(budget: &dyn SharedBudget, error: &Error) {
    let owner = budget.owner();
    tracing::warn!(owner, %error, "a reservation counts in full, because it was not settled");
}

/// Asks for a reservation in a task of its own. If this future is dropped, the budget may reserve all the
/// same, so the task gives that back. [`SharedHold`] does so once the answer is there.
async fn ask(budget: Arc<dyn SharedBudget>, key: String, most: Spent) -> Result<Reserving> {
    let (sender, answer) = oneshot::channel();
    tokio::spawn(async move {
        let reserving = budget.reserve(&key, most).await;
        let is_full = matches!(reserving, Ok(Reserving::Full(_)));
        if sender.send(reserving).is_err()
            && !is_full
            && let Err(error) = budget.settle(&key, Spent::default()).await
        {
            unsettled(&*budget, &error);
        }
    });
    answer.await.unwrap_or_else(|_| {
        let text = "a shared budget panicked, or the runtime shut down";
        Err(Error::stop(text).at(Stage::Panic))
    })
}

/// Returns why an owner of at most `longest` bytes cannot have these limits in a shared budget, for the
/// error of a home of budgets. `None` if nothing is wrong.
///
/// ```
/// use toolwright_module::budget::Budget;
/// use toolwright_module::runner::shared_budget_fault;
///
/// assert_eq!(shared_budget_fault("tenant=acme", &Budget::default(), 100), None);
/// let limits = Budget { tool_calls: Some(3), ..Budget::default() };
/// assert!(shared_budget_fault("tenant=acme", &limits, 100).is_some());
/// ```
#[must_use]
pub fn shared_budget_fault(owner: &str, limits: &Budget, longest: usize) -> Option<String> {
    if owner.is_empty() {
        Some("has no owner; name a user or a tenant".to_owned())
    } else if owner.len() > longest {
        Some(format!("has a name of {} bytes; the maximum is {longest}", owner.len()))
    } else if limits.tool_calls.is_some() {
        let text = "limits tool calls, which it does not count; limit them in the `Ledger`";
        Some(text.to_owned())
    } else {
        None
    }
}

/// Returns the error if the call does not fit even when all others have released their reservations.
fn exhausted(budget: &dyn SharedBudget, most: Spent, state: BudgetState) -> Option<Exhausted> {
    let BudgetState { spent, held, until } = state;
    // Calls that are in progress count in any case.
    let (limit, allowed) = budget.limits().refuses(spent + held.calls(), most)?;
    Some(Exhausted::of_shared(budget.owner(), limit, allowed, (spent + held, most), until))
}

/// Returns a key that no other reservation of any process has.
fn new_key() -> String {
    // Each state has random keys of the operating system, and a counter.
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_are_different() {
        let keys: BTreeSet<String> = (0..1_000).map(|_| new_key()).collect();
        assert_eq!(keys.len(), 1_000);
        assert!(keys.iter().all(|key| key.len() == 32));
    }
}
