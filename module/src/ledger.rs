//! The ledger: it reserves the largest possible cost of a call, and counts the actual cost.
mod waiting;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

pub use self::waiting::has_timer;
use self::waiting::{Ahead, Queue};
pub(crate) use self::waiting::{Granted, Holder, Refused};
use crate::budget::{Budget, LimitKind, Money, Price, Prices, Spent};
use crate::model::{LanguageModel, Reply, Request};
use crate::period;
use crate::shared_budget::SharedBudget;
use crate::usage::Usage;

/// Counts the cost of a call and of everything below it, and enforces a [`Budget`].
///
/// The largest possible cost of a model call is reserved before the call. Input tokens are bounded
/// by the bytes of the request, output tokens by its maximum. After the call the
/// difference is released. A budget therefore holds in advance, also for calls that run
/// concurrently.
///
/// A model call that does not fit because of other calls in progress waits until these release
/// their reservations; see [`Context::ask`](crate::Context::ask). [`reserve`](Self::reserve) itself
/// never waits.
///
/// The reservation stays when the cost is unknown: the call was dropped or cancelled, its error
/// reports no usage, or its server did not report it ([`Usage::incomplete`]). Unknown is not zero.
/// A call that was never sent, or that the provider rejected before any output ([`Stage::Setup`]
/// and [`Stage::Provider`]), costs one call and no tokens.
///
/// [`Stage::Setup`]: crate::error::Stage::Setup
/// [`Stage::Provider`]: crate::error::Stage::Provider
///
/// ```
/// use toolwright_module::budget::{Budget, Ledger, LimitKind, Spent};
/// use toolwright_module::model::Usage;
///
/// let run = Ledger::new(Budget { output_tokens: Some(100), ..Budget::default() });
/// let tool = run.child();
/// let reserved = tool.reserve(Spent::model_call(Usage::new(0, 80)))?;
/// // Two such calls could exceed the budget.
/// let exhausted = tool.reserve(Spent::model_call(Usage::new(0, 80))).unwrap_err();
/// assert_eq!((exhausted.limit, exhausted.left), (LimitKind::OutputTokens, 20));
///
/// reserved.settle(Spent::model_call(Usage::new(10, 30)));
/// assert_eq!(run.spent().usage.output_tokens, 30);
/// assert_eq!(run.spent().model_calls, 1);
/// # Ok::<(), toolwright_module::budget::Exhausted>(())
/// ```
///
/// A default ledger counts and has no limits. Clones share one ledger.
#[derive(Clone, Default)]
pub struct Ledger {
    account: Arc<Account>,
    /// The number of the tool call that has this handle. See [`Holder::in_call`].
    call: Option<u64>,
}

#[derive(Default)]
struct Account {
    id: Id,
    /// The name of the owner, for errors.
    owner: Option<Arc<str>>,
    budget: Budget,
    /// `None`: those of the ledger above, or the built-in ones.
    prices: Option<Prices>,
    shared: Vec<Arc<dyn SharedBudget>>,
    above: Option<Ledger>,
    book: Mutex<Book>,
    /// The calls that wait for room here or in a ledger below. Only the topmost ledger has any.
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Book {
    spent: Spent,
    /// The reservations of calls in progress.
    held: Spent,
    /// The parts of `held` that belong to the holder of one number; see [`Holder`].
    numbered: Vec<(u64, Spent)>,
    /// The reservations of calls whose cost is unknown. They are never released.
    kept: Spent,
    /// Number of model calls that the calls below have to leave.
    last_calls: u64,
}

/// The identity of a ledger. It is not the address, which a later ledger could reuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Id(u64);

impl Default for Id {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Ledger {
    fn of(account: Account) -> Self {
        Self { account: Arc::new(account), call: None }
    }

    /// Returns a ledger that enforces a budget.
    #[must_use]
    pub fn new(budget: Budget) -> Self {
        Self::of(Account { budget, ..Account::default() })
    }

    /// Returns an unused copy of this ledger with the prices of models, which replace the built-in ones
    /// ([`Prices::builtin`]). They also apply to child ledgers. A model is found by the name that its
    /// server reports, or by [`LanguageModel::name`](crate::LanguageModel::name).
    ///
    /// ```
    /// use toolwright_module::budget::{Budget, Ledger, Money, Price, Prices};
    ///
    /// let budget = Budget { money: Some(Money::new(0.5)), ..Budget::default() };
    /// let price = Price::per_million(0.25, 2.0).with_cached(0.025);
    /// // Only these prices:
    /// let ledger = Ledger::new(budget).with_prices([("gpt-5-mini", price.clone())]);
    /// // These, and the built-in ones of all other models:
    /// let ledger = Ledger::new(budget).with_prices(Prices::builtin().with("my-model", price));
    /// ```
    #[must_use]
    pub fn with_prices(self, prices: impl Into<Prices>) -> Self {
        Self::of(Account { prices: Some(prices.into()), ..self.account.unused() })
    }

    /// Returns an unused copy of this ledger in which a budget that several processes share counts
    /// too. It also applies to child ledgers. A ledger can have several, such as one of the tenant and
    /// one of the user.
    ///
    /// [`Context::ask`](crate::Context::ask), and so each module and agent, reserves the largest cost
    /// of a model call in this ledger and then in the shared budget. If it does not fit beside the
    /// reservations of other processes, the call waits for these, in no particular order. If it would
    /// not fit without them either, the error is [`Exhausted`], with the end of the period.
    /// [`reserve`](Self::reserve) and [`record`](Self::record) do not count in it.
    #[must_use]
    pub fn with_shared_budget(self, budget: impl SharedBudget) -> Self {
        let mut unused = self.account.unused();
        unused.shared.push(Arc::new(budget));
        Self::of(unused)
    }

    /// Returns a new ledger whose entries also count in this one.
    #[must_use]
    pub fn child(&self) -> Self {
        Self::of(Account { above: Some(self.clone()), ..Account::default() })
    }

    /// Returns the ledger of a run, with its own budget, below another ledger if there is one. It
    /// starts with what a stored run has already `spent`; the ledger above is not charged for that
    /// again. Errors name the owner.
    #[must_use]
    pub(crate) fn of_run(above: Option<&Self>, owner: &str, budget: Budget, spent: Spent) -> Self {
        Self::of(Account {
            owner: Some(owner.into()),
            budget,
            above: above.cloned(),
            book: Mutex::new(Book { spent, ..Book::default() }),
            ..Account::default()
        })
    }

    /// Reserves the largest possible cost of a call, here and in every ledger above.
    ///
    /// It does not wait, and passes the calls that wait. Model calls wait for this reservation, but
    /// only for a minute: its holder may itself wait for such a call. So settle it before you call
    /// a model or an agent under the same ledger. In a tool call, the calls below that need a
    /// reservation of this tool call are refused at once.
    ///
    /// # Errors
    ///
    /// One of the ledgers has too little left. Nothing is reserved then.
    pub fn reserve(&self, most: Spent) -> Result<Reservation, Exhausted> {
        // Nobody waits for numbers of calls, so their holder does not matter.
        let calls = || self.chain().find_map(|ledger| ledger.call);
        let call = if most.costs() == Spent::default() { None } else { calls() };
        let holder = call.map_or(Holder::PROGRAM, Holder::numbered);
        self.hold(most, holder, &Ahead::default())?;
        Ok(Reservation { ledger: self.clone(), most: Some(most), holder })
    }

    /// Returns this ledger as a tool call gets it, or `None` if nobody can wait for its reservations.
    /// What is reserved with it belongs to the tool call. Calls below it do not wait for that, because
    /// the tool call cannot release it before they end.
    pub(crate) fn in_call(&self) -> Option<Self> {
        let is_limited = self.chain().any(|ledger| ledger.account.budget.counts_tokens());
        is_limited.then(|| Self { call: Some(Holder::new_number()), ..self.clone() })
    }

    /// Reserves in this ledger and those above, beside the amounts of the calls that wait `ahead`.
    /// The lock is held meanwhile, so that a concurrent call is not rejected because of a
    /// reservation that is about to be undone. Locks are always taken from the bottom up.
    fn hold(&self, most: Spent, holder: Holder, ahead: &Ahead) -> Result<(), Exhausted> {
        let mut book = self.book();
        if self.account.budget != Budget::default() {
            let taken = book.spent + book.kept + book.held + ahead.of(self.account.id);
            self.check(book.with_last_calls(taken), most)?;
        }
        if let Some(above) = &self.account.above {
            above.hold(most, holder, ahead)?;
        }
        book.hold(most, holder);
        Ok(())
    }

    /// Keeps one model call of this ledger's own budget for the run itself, while its tools are
    /// called. Agents below could otherwise use up all calls, and the run would have no answer.
    pub(crate) fn keep_last_call(&self) -> LastCall {
        self.book().last_calls += 1;
        LastCall(self.clone())
    }

    /// Checks that the budget allows `most` after what is taken.
    fn check(&self, taken: Spent, most: Spent) -> Result<(), Exhausted> {
        let Some((limit, allowed)) = self.account.budget.refuses(taken, most) else {
            return Ok(());
        };
        let owner = self.account.owner.as_ref();
        let owner =
            owner.map_or_else(|| "the context's ledger".to_owned(), |owner| format!("`{owner}`"));
        Err(Exhausted {
            limit,
            allowed,
            left: allowed.saturating_sub(limit.of(taken)),
            asked: limit.of(most),
            owner,
            until: None,
            by: String::new(),
            account: self.account.id,
        })
    }

    /// Adds a cost that was not reserved.
    pub fn record(&self, spent: Spent) {
        for ledger in self.chain() {
            ledger.book().spent += spent;
        }
    }

    /// Adds a cost of an earlier process, in this ledger and those above up to the outermost run's.
    /// A ledger above the runs is not charged for that again.
    pub(crate) fn record_again(&self, spent: Spent) {
        let runs = self.chain().enumerate().filter(|(_, ledger)| ledger.account.owner.is_some());
        let outermost = runs.last().map_or(0, |(place, _)| place);
        for ledger in self.chain().take(outermost + 1) {
            ledger.book().spent += spent;
        }
    }

    /// Returns the recorded cost, without reservations.
    #[must_use]
    pub fn spent(&self) -> Spent {
        self.book().spent
    }

    /// Returns the recorded cost plus the reservations. These are of calls in progress, and of
    /// calls whose cost is unknown.
    #[must_use]
    pub fn committed(&self) -> Spent {
        let book = self.book();
        book.spent + book.held + book.kept
    }

    /// Returns the ledger's own budget.
    #[must_use]
    pub fn budget(&self) -> Budget {
        self.account.budget
    }

    /// Returns the price of a model, from this ledger or the nearest one above that has it. Without any
    /// prices, it is a built-in one. The name that the server `reported` says more than the model's own,
    /// which may be an alias or a deployment.
    fn price(&self, model: &dyn LanguageModel, reported: Option<&str>) -> Option<&Price> {
        let mut own = self.chain().filter_map(|ledger| ledger.account.prices.as_ref()).peekable();
        if own.peek().is_none() {
            return price_in(Prices::builtin_ref(), model, reported);
        }
        own.find_map(|prices| price_in(prices, model, reported))
    }

    /// Returns whether this ledger refused the reservation, and not one above or below it.
    #[must_use]
    pub(crate) fn is_exhausted_by(&self, exhausted: &Exhausted) -> bool {
        exhausted.account == self.account.id
    }

    /// Returns the largest possible cost of a request, in the units that some budget limits.
    pub(crate) fn most(
        &self,
        model: &dyn LanguageModel,
        request: &Request,
    ) -> Result<Spent, NoPrice> {
        let shared = |ledger: &Self| ledger.account.shared.clone().into_iter();
        let budgets = || {
            let own = self.chain().map(|ledger| ledger.account.budget);
            own.chain(self.chain().flat_map(shared).map(|budget| budget.limits()))
        };
        let money = budgets().any(|budget| budget.money.is_some());
        let tokens = money || budgets().any(|budget| budget.counts_tokens());
        if !tokens {
            return Ok(Spent { model_calls: 1, ..Spent::default() });
        }
        let dialects = model.capabilities().dialects();
        let usages = dialects.map(|dialect| request.most_usage(dialect));
        let usage = usages.max_by_key(|usage| usage.input_tokens).unwrap_or_default();
        let settings = request.settings_over(model.settings());
        let usage = match settings {
            Some(settings) => {
                let most = settings.max_output_tokens.unwrap_or(usage.output_tokens);
                Usage { output_tokens: settings.most_written(most), ..usage }
            }
            None => usage,
        };
        let price = self.price(model, None);
        if money && price.is_none() {
            return Err(NoPrice { model: model.name().to_owned() });
        }
        let unpriced_calls = u64::from(price.is_none());
        let money = price.map_or_else(Money::default, |price| price.most_of(usage));
        Ok(Spent { money, unpriced_calls, ..Spent::model_call(usage) })
    }

    /// Returns the actual cost of a model call, for a caller without a ledger too. A call that failed
    /// has no reply.
    pub(crate) fn cost(
        ledger: Option<&Self>,
        model: &dyn LanguageModel,
        reply: Option<&Reply>,
        usage: Usage,
    ) -> Spent {
        let reported = reply.and_then(|reply| reply.model.as_deref());
        let price = || match ledger {
            Some(ledger) => ledger.price(model, reported),
            None => price_in(Prices::builtin_ref(), model, reported),
        };
        let spent = Spent::model_call(usage);
        // A call that was refused costs nothing, whatever the price is.
        let money = match reply.is_none() && usage == Usage::default() {
            true => Some(Money::default()),
            false => price().map(|price| price.of(usage)),
        };
        match money {
            Some(money) => Spent { money, unpriced_calls: 0, ..spent },
            None => spent,
        }
    }

    /// Returns the shared budgets of this ledger and those above.
    pub(crate) fn shared_budgets(&self) -> Vec<Arc<dyn SharedBudget>> {
        self.chain().flat_map(|ledger| ledger.account.shared.iter().cloned()).collect()
    }

    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |ledger| ledger.account.above.as_ref())
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // A panic between two additions leaves valid numbers, so the poison can be ignored.
        self.account.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    /// Returns the account without its entries.
    fn unused(&self) -> Self {
        Self {
            owner: self.owner.clone(),
            budget: self.budget,
            prices: self.prices.clone(),
            shared: self.shared.clone(),
            above: self.above.clone(),
            ..Self::default()
        }
    }
}

fn price_in<'a>(
    prices: &'a Prices,
    model: &dyn LanguageModel,
    reported: Option<&str>,
) -> Option<&'a Price> {
    let of = |name: &str| prices.of(model.service(), name);
    reported.and_then(of).or_else(|| of(model.name()))
}

impl Book {
    fn hold(&mut self, most: Spent, holder: Holder) {
        self.held += most;
        let Some(number) = holder.number() else { return };
        match self.numbered.iter_mut().find(|(other, _)| *other == number) {
            Some((_, held)) => *held += most,
            None => self.numbered.push((number, most)),
        }
    }

    fn release(&mut self, most: Spent, holder: Holder) {
        self.held = self.held - most;
        let Some(number) = holder.number() else { return };
        if let Some(place) = self.numbered.iter().position(|(other, _)| *other == number)
            && let Some((_, held)) = self.numbered.get_mut(place)
        {
            *held = *held - most;
            if *held == Spent::default() {
                self.numbered.swap_remove(place);
            }
        }
    }

    /// Returns `taken` and the model calls that calls below have to leave.
    fn with_last_calls(&self, taken: Spent) -> Spent {
        Spent { model_calls: taken.model_calls.saturating_add(self.last_calls), ..taken }
    }
}

/// A model call that is kept for a run itself. The drop ends that.
#[must_use]
pub(crate) struct LastCall(Ledger);

impl Drop for LastCall {
    fn drop(&mut self) {
        let mut book = self.0.book();
        book.last_calls = book.last_calls.saturating_sub(1);
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("spent", &self.spent())
            .field("budget", &self.account.budget)
            .finish_non_exhaustive()
    }
}

/// An amount reserved for a call. Release it with [`settle`](Self::settle).
///
/// If it is dropped, the call counts and the reserved tokens stay reserved. The usage of a model call is
/// then [`incomplete`](Usage::incomplete).
#[derive(Debug)]
#[must_use = "a dropped reservation stays reserved"]
pub struct Reservation {
    ledger: Ledger,
    most: Option<Spent>,
    holder: Holder,
}

impl Reservation {
    /// Records the actual cost and releases the rest. Returns each unit in which the cost exceeded the
    /// reservation.
    ///
    /// If the usage is [`incomplete`](Usage::incomplete), the reserved tokens and money stay
    /// reserved. Only the known part beyond the reservation is added:
    ///
    /// ```
    /// use toolwright_module::budget::{Budget, Ledger, Spent};
    /// use toolwright_module::model::Usage;
    ///
    /// let ledger = Ledger::new(Budget { output_tokens: Some(100), ..Budget::default() });
    /// let reserved = ledger.reserve(Spent::model_call(Usage::new(0, 80)))?;
    /// reserved.settle(Spent::model_call(Usage::unknown()));
    /// assert_eq!(ledger.committed().usage.output_tokens, 80);
    /// assert!(ledger.reserve(Spent::model_call(Usage::new(0, 80))).is_err());
    /// # Ok::<(), toolwright_module::budget::Exhausted>(())
    /// ```
    pub fn settle(mut self, spent: Spent) -> Vec<Overshoot> {
        let Some(most) = self.most.take() else { return Vec::new() };
        let (kept, entered) = if spent.usage.incomplete {
            let Spent { model_calls, tool_calls, .. } = spent;
            (most.costs(), Spent { model_calls, tool_calls, ..(spent - most) })
        } else {
            (Spent::default(), spent)
        };
        self.end(most, kept, entered);
        let overshoot = |limit: LimitKind| {
            let (reserved, spent) = (limit.of(most), limit.of(spent));
            (reserved > 0 && spent > reserved).then_some(Overshoot { limit, reserved, spent })
        };
        let limits = [LimitKind::InputTokens, LimitKind::OutputTokens, LimitKind::Money];
        limits.into_iter().filter_map(overshoot).collect()
    }
}

impl Reservation {
    /// Releases all of it. The call was not made.
    fn cancel(mut self) {
        if let Some(most) = self.most.take() {
            self.end(most, Spent::default(), Spent::default());
        }
    }

    /// Releases the reservation, of which `kept` stays reserved, and enters the cost. Calls that
    /// wait are then tried again.
    fn end(&self, most: Spent, kept: Spent, entered: Spent) {
        for ledger in self.ledger.chain() {
            let mut book = ledger.book();
            book.release(most, self.holder);
            book.kept += kept;
            book.spent += entered;
        }
        self.ledger.serve();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(most) = self.most.take() {
            let mut entered = most.calls();
            // A model may have read and written tokens that nobody counted.
            entered.usage.incomplete = entered.model_calls > 0;
            self.end(most, most.costs(), entered);
        }
    }
}

/// A cost that exceeded its reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Overshoot {
    /// The unit that was exceeded.
    pub limit: LimitKind,
    /// The reserved amount.
    pub reserved: u64,
    /// The actual amount.
    pub spent: u64,
}

/// The error of a budget that has too little left for a call. The call was not made.
///
/// Get it from an error with [`Error::downcast_ref`](crate::Error::downcast_ref).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", sentence(self))]
#[non_exhaustive]
pub struct Exhausted {
    /// The unit that is exhausted.
    pub limit: LimitKind,
    /// The budget's limit. Money is in millionths.
    pub allowed: u64,
    /// The amount that is neither spent nor reserved.
    pub left: u64,
    /// The amount that the call may cost.
    pub asked: u64,
    /// The owner of the budget: an agent's name, the user or tenant of a shared budget, or `the
    /// context's ledger`.
    pub owner: String,
    /// The end of the period of a [shared budget](SharedBudget).
    pub until: Option<SystemTime>,
    /// The names of the tools around the call, as in `a > b`. Empty outside of a tool call.
    pub by: String,
    account: Id,
}

impl Exhausted {
    /// Returns the error of a shared budget. It is not that of any ledger.
    pub(crate) fn of_shared(
        owner: &str,
        limit: LimitKind,
        allowed: u64,
        (taken, most): (Spent, Spent),
        until: SystemTime,
    ) -> Self {
        Self {
            limit,
            allowed,
            left: allowed.saturating_sub(limit.of(taken)),
            asked: limit.of(most),
            owner: format!("`{owner}`"),
            until: Some(until),
            by: String::new(),
            account: Id::default(),
        }
    }
}

fn sentence(exhausted: &Exhausted) -> String {
    let Exhausted { limit, allowed, left, asked, owner, until, by, .. } = exhausted;
    let (when, fix) = match until {
        None => (String::new(), "allow more in its budget"),
        Some(until) => {
            let fix = match asked <= allowed {
                true => "wait until then, or allow more in its budget",
                false => "allow more in its budget, or less output in the call",
            };
            (format!(" until {}", period::in_utc(*until)), fix)
        }
    };
    let by = if by.is_empty() { "the next call".to_owned() } else { format!("`{by}`") };
    if *limit == LimitKind::Money {
        let [left, allowed, asked] = [left, allowed, asked].map(|it| Money { micros: *it });
        return format!(
            "{owner} has {left} of {allowed} left to spend{when}, and {by} may cost {asked}; {fix}"
        );
    }
    format!("{owner} has {left} of {allowed} {limit} left{when}, and {by} may take {asked}; {fix}")
}

/// The error of a budget that limits money, when the model's price is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a budget limits money, but the price of `{model}` is unknown; set it with `Ledger::with_prices`, and pass the ledger with `Context::with_ledger`"
)]
pub(crate) struct NoPrice {
    model: String,
}
