use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::budget::{Budget, LimitKind, Money, Price, Spent};
use crate::model::{LanguageModel, Request};
use crate::usage::Usage;

/// Counts what a call and everything below it costs, and holds it to a [`Budget`].
///
/// What a model call can cost at most is reserved before it is made: the tokens it
/// reads by the bytes of its request, the tokens it writes by its `max_output_tokens`.
/// Afterwards the difference is given back. So a budget holds before it is spent, also
/// where many calls are under way at once.
///
/// A call that was dropped or cancelled on its way, or that broke off with an error that
/// does not say what it cost, keeps what was reserved for it, because nobody knows. So does
/// a call whose server did not report its usage ([`Usage::incomplete`]): unknown is not
/// zero. A call that was never sent, or that the provider said no to before anything came
/// ([`Stage::Setup`] and [`Stage::Provider`]), costs nothing but the call.
///
/// [`Stage::Setup`]: crate::error::Stage::Setup
/// [`Stage::Provider`]: crate::error::Stage::Provider
///
/// ```
/// use toolwright_module::budget::{Budget, Ledger, LimitKind, Spent};
/// use toolwright_module::model::Usage;
///
/// let run = Ledger::new(Budget::default().with_output_tokens(100));
/// let tool = run.child();
/// let reserved = tool.reserve(Spent::model_call(Usage::new(0, 80)))?;
/// // Two of these could come to more than there is.
/// let exhausted = tool.reserve(Spent::model_call(Usage::new(0, 80))).unwrap_err();
/// assert_eq!((exhausted.limit, exhausted.left), (LimitKind::OutputTokens, 20));
///
/// reserved.settle(Spent::model_call(Usage::new(10, 30)));
/// assert_eq!(run.spent().usage.output_tokens, 30);
/// assert_eq!(run.spent().model_calls, 1);
/// # Ok::<(), toolwright_module::budget::Exhausted>(())
/// ```
///
/// The default counts, and bounds nothing. Cloned, every copy is the same ledger.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Account>);

#[derive(Default)]
struct Account {
    id: Id,
    /// Whose it is, for errors.
    owner: Option<Arc<str>>,
    budget: Budget,
    prices: BTreeMap<String, Price>,
    above: Option<Ledger>,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    spent: Spent,
    /// What calls under way may still cost.
    held: Spent,
}

/// Tells a ledger from every other, also from those that are gone: an address would be
/// given to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Id(u64);

impl Default for Id {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Ledger {
    /// A ledger that holds to a budget.
    #[must_use]
    pub fn new(budget: Budget) -> Self {
        Self(Arc::new(Account { budget, ..Account::default() }))
    }

    /// An unused ledger like this one that knows what models cost: by
    /// [`LanguageModel::name`](crate::LanguageModel::name), for this ledger and those
    /// below it.
    ///
    /// ```
    /// use toolwright_module::budget::{Budget, Ledger, Money, Price};
    ///
    /// let prices = [("gpt-5-mini", Price::per_million(0.25, 2.0).with_cached(0.025))];
    /// let ledger = Ledger::new(Budget::default().with_money(Money::new(0.5))).with_prices(prices);
    /// assert!(ledger.price("gpt-5-mini").is_some());
    /// ```
    #[must_use]
    pub fn with_prices<N: Into<String>>(
        self,
        prices: impl IntoIterator<Item = (N, Price)>,
    ) -> Self {
        Self(Arc::new(Account {
            id: Id::default(),
            owner: self.0.owner.clone(),
            budget: self.0.budget,
            prices: prices.into_iter().map(|(name, price)| (name.into(), price)).collect(),
            above: self.0.above.clone(),
            book: Mutex::default(),
        }))
    }

    /// A ledger of its own whose entries count in this one too.
    #[must_use]
    pub fn child(&self) -> Self {
        Self(Arc::new(Account { above: Some(self.clone()), ..Account::default() }))
    }

    /// The ledger of a run, below another if there is one: with a budget of its own, and
    /// begun with what was `spent` before, by a run that was stored, say. The one above
    /// is not charged for that once more. Errors call it by its owner's name.
    #[must_use]
    pub(crate) fn of_run(above: Option<&Self>, owner: &str, budget: Budget, spent: Spent) -> Self {
        Self(Arc::new(Account {
            owner: Some(owner.into()),
            budget,
            above: above.cloned(),
            book: Mutex::new(Book { spent, held: Spent::default() }),
            ..Account::default()
        }))
    }

    /// Reserves what a call may cost at most, here and in every ledger above.
    ///
    /// # Errors
    ///
    /// If one of them has less left; then nothing is reserved.
    pub fn reserve(&self, most: Spent) -> Result<Reservation, Exhausted> {
        self.hold(most)?;
        Ok(Reservation { ledger: self.clone(), most: Some(most) })
    }

    /// Holds its own lock while those above are asked: another must not be turned away
    /// for what is about to be given back. Locks are taken from below only.
    fn hold(&self, most: Spent) -> Result<(), Exhausted> {
        let mut book = self.book();
        let taken = book.spent + book.held;
        if let Some((limit, allowed)) = self.0.budget.refuses(taken, most) {
            return Err(Exhausted {
                limit,
                allowed,
                left: allowed.saturating_sub(limit.of(taken)),
                asked: limit.of(most),
                owner: self.0.owner.as_ref().map_or_else(
                    || "the context's ledger".to_owned(),
                    |owner| format!("`{owner}`"),
                ),
                by: String::new(),
                account: self.0.id,
            });
        }
        if let Some(above) = &self.0.above {
            above.hold(most)?;
        }
        book.held += most;
        Ok(())
    }

    /// Enters what was spent without having been reserved.
    pub fn record(&self, spent: Spent) {
        for ledger in self.chain() {
            ledger.book().spent += spent;
        }
    }

    /// What was spent so far; what is reserved is not in it.
    #[must_use]
    pub fn spent(&self) -> Spent {
        self.book().spent
    }

    /// The same with what is set aside: for calls under way, and for those that were
    /// given up, of which nobody knows what they cost.
    #[must_use]
    pub fn committed(&self) -> Spent {
        let book = self.book();
        book.spent + book.held
    }

    /// What this ledger may come to.
    #[must_use]
    pub fn budget(&self) -> Budget {
        self.0.budget
    }

    /// The price of a model, from this ledger or the nearest above that knows it.
    #[must_use]
    pub fn price(&self, model: &str) -> Option<Price> {
        self.chain().find_map(|ledger| ledger.0.prices.get(model).copied())
    }

    /// Whether it is this ledger that has nothing left, and not one above or below it.
    #[must_use]
    pub(crate) fn is_exhausted_by(&self, exhausted: &Exhausted) -> bool {
        exhausted.account == self.0.id
    }

    /// What a request to a model may cost at most, as far as any budget asks for it.
    pub(crate) fn most(
        &self,
        model: &dyn LanguageModel,
        request: &Request,
    ) -> Result<Spent, NoPrice> {
        let budgets = || self.chain().map(|ledger| ledger.0.budget);
        let money = budgets().any(|budget| budget.money.is_some());
        let tokens = money || budgets().any(|budget| budget.counts_tokens());
        if !tokens {
            return Ok(Spent { model_calls: 1, ..Spent::default() });
        }
        let usage = request.most_usage(model.capabilities().dialect);
        let price = self.price(model.name());
        if money && price.is_none() {
            return Err(NoPrice { model: model.name().to_owned() });
        }
        let money = price.map_or_else(Money::default, |price| price.of(usage));
        Ok(Spent { money, ..Spent::model_call(usage) })
    }

    /// What a model call did cost.
    pub(crate) fn cost(&self, model: &str, usage: Usage) -> Spent {
        let money = self.price(model).map_or_else(Money::default, |price| price.of(usage));
        Spent { money, ..Spent::model_call(usage) }
    }

    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |ledger| ledger.0.above.as_ref())
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Whoever panicked between two additions left numbers, not a broken promise.
        self.0.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn release(&mut self, most: Spent) {
        self.held = self.held.since(most);
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("spent", &self.spent())
            .field("budget", &self.0.budget)
            .finish_non_exhaustive()
    }
}

/// What is set aside for a call; give it back with [`settle`](Self::settle).
///
/// Dropped, the call counts and what was reserved for its tokens stays reserved.
#[derive(Debug)]
#[must_use = "dropped, what is reserved stays reserved"]
pub struct Reservation {
    ledger: Ledger,
    most: Option<Spent>,
}

impl Reservation {
    /// Enters what the call did cost and gives back the rest; says by how much it cost
    /// more than was reserved, if it did.
    ///
    /// Where the usage is [`incomplete`](Usage::incomplete), what was reserved for tokens
    /// and money stays reserved, and only what is known to go beyond it is added:
    ///
    /// ```
    /// use toolwright_module::budget::{Budget, Ledger, Spent};
    /// use toolwright_module::model::Usage;
    ///
    /// let ledger = Ledger::new(Budget::default().with_output_tokens(100));
    /// let reserved = ledger.reserve(Spent::model_call(Usage::new(0, 80)))?;
    /// reserved.settle(Spent::model_call(Usage::unknown()));
    /// assert_eq!(ledger.committed().usage.output_tokens, 80);
    /// assert!(ledger.reserve(Spent::model_call(Usage::new(0, 80))).is_err());
    /// # Ok::<(), toolwright_module::budget::Exhausted>(())
    /// ```
    pub fn settle(mut self, spent: Spent) -> Option<Overshoot> {
        let most = self.most.take()?;
        let (released, entered) = if spent.usage.incomplete {
            let Spent { model_calls, tool_calls, .. } = spent;
            (most.calls(), Spent { model_calls, tool_calls, ..spent.since(most) })
        } else {
            (most, spent)
        };
        for ledger in self.ledger.chain() {
            let mut book = ledger.book();
            book.release(released);
            book.spent += entered;
        }
        [LimitKind::InputTokens, LimitKind::OutputTokens, LimitKind::Money].into_iter().find_map(
            |limit| {
                let (reserved, spent) = (limit.of(most), limit.of(spent));
                (reserved > 0 && spent > reserved).then_some(Overshoot { limit, reserved, spent })
            },
        )
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Some(most) = self.most.take() else { return };
        let calls = most.calls();
        for ledger in self.ledger.chain() {
            let mut book = ledger.book();
            book.release(calls);
            book.spent += calls;
        }
    }
}

/// A call cost more than the most that was expected of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Overshoot {
    /// Of what it took more.
    pub limit: LimitKind,
    /// What was reserved.
    pub reserved: u64,
    /// What it took.
    pub spent: u64,
}

/// A budget has too little left for a call, which was not made.
///
/// Found with [`Error::downcast_ref`](crate::Error::downcast_ref).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", sentence(self))]
#[non_exhaustive]
pub struct Exhausted {
    /// What there is too little of.
    pub limit: LimitKind,
    /// What the budget allows in all; of money, millionths.
    pub allowed: u64,
    /// What is left of it, without what others have reserved.
    pub left: u64,
    /// What the call may take.
    pub asked: u64,
    /// Whose budget it is: an agent's name, or `the context's ledger`.
    pub owner: String,
    /// Who asked: the tools on the way to the call, `a > b`; empty if there are none.
    pub by: String,
    account: Id,
}

impl Exhausted {
    /// The same, asked by a call of these tools.
    #[must_use]
    pub fn asked_by(mut self, path: impl Into<String>) -> Self {
        self.by = path.into();
        self
    }
}

fn sentence(exhausted: &Exhausted) -> String {
    let Exhausted { limit, allowed, left, asked, owner, by, .. } = exhausted;
    let by = if by.is_empty() { "the next call".to_owned() } else { format!("`{by}`") };
    if *limit == LimitKind::Money {
        let [left, allowed, asked] = [left, allowed, asked].map(|it| Money::from_micros(*it));
        return format!(
            "{owner} has {left} of {allowed} left to spend, and {by} may cost {asked}; allow more in its budget"
        );
    }
    format!(
        "{owner} has {left} of {allowed} {limit} left, and {by} may take {asked}; allow more in its budget"
    )
}

/// Money is bounded, and nobody said what this model costs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a budget bounds money, but nothing says what `{model}` costs; give its price with `Ledger::with_prices`, and the ledger with `Context::with_ledger`"
)]
pub(crate) struct NoPrice {
    model: String,
}
