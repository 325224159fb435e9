//! Budgets that several processes share, as ledgers use them. One in memory stands for the stored ones.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::future::{FutureExt, join, join_all};
use futures_util::stream::StreamExt;
use tokio::time::Instant;
use toolwright_module::budget::{
    Budget, BudgetState, Exhausted, Ledger, LimitKind, Money, Price, Reserving, SharedBudget, Spent,
};
use toolwright_module::error::Stage;
use toolwright_module::model::{BoxFuture, BoxStream, Capabilities, Delta, Settings, Usage};
use toolwright_module::{
    Cancellation, Context, Dialect, Error, LanguageModel, Message, Predict, Reply, Request, Result,
};

use crate::support::{SUMMARY, Summarize, summarize};

/// A stored budget. Clones are the same one, as in several processes.
#[derive(Clone)]
struct Stored(Arc<Shared>);

struct Shared {
    owner: &'static str,
    limits: Budget,
    state: Mutex<State>,
    renewals: AtomicUsize,
    is_away: AtomicBool,
}

#[derive(Default)]
struct State {
    spent: Spent,
    held: BTreeMap<String, (Spent, Instant)>,
    /// Those whose lease has ended.
    ended: BTreeMap<String, Spent>,
}

const LEASE: Duration = Duration::from_secs(3);

impl Stored {
    fn new(owner: &'static str, limits: Budget) -> Self {
        let (state, renewals, is_away) = Default::default();
        Self(Arc::new(Shared { owner, limits, state, renewals, is_away }))
    }

    fn held(&self) -> Spent {
        let state = self.0.state.lock().unwrap();
        state.held.values().fold(Spent::default(), |sum, (most, _)| sum + *most)
    }

    fn spent(&self) -> Spent {
        self.0.state.lock().unwrap().spent
    }

    fn check(&self) -> Result<()> {
        match self.0.is_away.load(Ordering::Relaxed) {
            true => Err(Error::stop("the database is away").at(Stage::Journal)),
            false => Ok(()),
        }
    }
}

impl SharedBudget for Stored {
    fn owner(&self) -> &str {
        self.0.owner
    }

    fn limits(&self) -> Budget {
        self.0.limits
    }

    fn lease(&self) -> Duration {
        LEASE
    }

    fn reserve<'a>(&'a self, key: &'a str, most: Spent) -> BoxFuture<'a, Result<Reserving>> {
        let (stored, key) = (self.clone(), key.to_owned());
        // A database goes on with a statement when the program has given it up.
        let reserves = tokio::spawn(async move {
            stored.check()?;
            tokio::time::sleep(Duration::from_millis(1)).await;
            let mut state = stored.0.state.lock().unwrap();
            let now = Instant::now();
            let ended: Vec<String> = state
                .held
                .iter()
                .filter(|(_, (_, end))| *end <= now)
                .map(|(key, _)| key.clone())
                .collect();
            for key in ended {
                let (most, _) = state.held.remove(&key).unwrap();
                state.spent += most;
                state.ended.insert(key, most);
            }
            let held = state.held.values().fold(Spent::default(), |sum, (most, _)| sum + *most);
            if stored.0.limits.refuses(state.spent + held, most).is_some() {
                let until = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
                return Ok(Reserving::Full(Box::new(BudgetState {
                    spent: state.spent,
                    held,
                    until,
                })));
            }
            state.held.insert(key, (most, now + LEASE));
            Ok(Reserving::Reserved)
        });
        Box::pin(async move { reserves.await.unwrap() })
    }

    fn renew<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.check()?;
            self.0.renewals.fetch_add(1, Ordering::Relaxed);
            if let Some((_, end)) = self.0.state.lock().unwrap().held.get_mut(key) {
                *end = Instant::now() + LEASE;
            }
            Ok(())
        })
    }

    fn settle<'a>(&'a self, key: &'a str, spent: Spent) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.check()?;
            let mut state = self.0.state.lock().unwrap();
            if state.held.remove(key).is_some() {
                state.spent += spent;
            } else if let Some(most) = state.ended.remove(key) {
                state.spent = state.spent - most + spent;
            }
            Ok(())
        })
    }
}

/// A model that takes a time, and writes three tokens.
struct Slow(Duration);

impl LanguageModel for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async {
            tokio::time::sleep(self.0).await;
            Ok(Reply::text(SUMMARY).with_usage(Usage::new(1, 3)))
        })
    }

    fn stream<'a>(&'a self, request: Request) -> BoxStream<'a, Result<Delta>> {
        let done = async move { Ok(Delta::Done(Box::new(self.generate(&request).await?))) };
        let piece = async { Ok(Delta::Text("{".to_owned())) };
        futures_util::stream::once(piece).chain(futures_util::stream::once(done)).boxed()
    }
}

const SECOND: Slow = Slow(Duration::from_secs(1));

fn at_most(tokens: u64) -> Request {
    Request::new([Message::user("Hi!")])
        .with_settings(Settings::default().with_max_output_tokens(tokens))
}

fn tokens(owner: &'static str, most: u64) -> Stored {
    Stored::new(owner, Budget { output_tokens: Some(most), ..Budget::default() })
}

fn under(budget: &Stored) -> Context {
    Context::default().with_ledger(Ledger::default().with_shared_budget(budget.clone()))
}

async fn background() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

#[tokio::test(start_paused = true)]
async fn calls_of_several_processes_wait_for_each_other_and_count_what_they_cost() {
    let budget = tokens("acme", 25);
    // Each process has a ledger of its own. Two of these calls fit beside each other.
    let processes = [under(&budget), under(&budget), under(&budget), under(&budget)];
    let began = Instant::now();
    let calls = processes.iter().map(|cx| cx.ask(&SECOND, at_most(10), false));
    for reply in join_all(calls).await {
        reply.unwrap();
    }
    assert!((2..4).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert_eq!((budget.spent().model_calls, budget.spent().usage), (4, Usage::new(4, 12)));
    assert_eq!(budget.held(), Spent::default());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_fit_is_refused_with_who_how_much_and_until_when() {
    let money = Some(Money::new(5.0));
    let budget = Stored::new("tenant=acme", Budget { money, ..Budget::default() });
    budget.0.state.lock().unwrap().spent.money = Money::new(4.75);
    // The prices may be those of a ledger above.
    let above = Ledger::default()
        .with_prices([("slow", Price::per_million(0.0, 1_000_000.0))])
        .with_shared_budget(budget.clone());
    let cx = Context::default().with_ledger(above.child());
    let error = cx.ask(&SECOND, at_most(2), false).await.unwrap_err();
    assert_eq!((error.stage(), error.is_retryable()), (Stage::Limit, false));
    assert_eq!(
        error.to_string(),
        "`tenant=acme` has 0.25 USD of 5.00 USD left to spend until 1970-01-02 00:00 UTC, and the next call may cost 2.00 USD; wait until then, or allow more in its budget"
    );
    let exhausted = error.downcast_ref::<Exhausted>().unwrap();
    assert_eq!(
        (exhausted.limit, exhausted.left, exhausted.asked),
        (LimitKind::Money, 250_000, 2_000_000)
    );
    assert_eq!(exhausted.until, Some(SystemTime::UNIX_EPOCH + Duration::from_secs(86_400)));
    let error = cx.ask(&SECOND, at_most(9), false).await.unwrap_err().to_string();
    assert!(
        error.ends_with("may cost 9.00 USD; allow more in its budget, or less output in the call"),
        "{error}"
    );
    // The ledger above has nothing reserved.
    assert_eq!(above.committed(), Spent::default());

    let unpriced = under(&budget).ask(&SECOND, at_most(1), false).await.unwrap_err();
    assert!(unpriced.to_string().contains("the price of `slow` is unknown"), "{unpriced}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ends_early_counts_in_full_and_one_that_was_not_sent_counts_nothing() {
    let budget = tokens("acme", 25);
    let cancellation = Cancellation::default();
    let cx = under(&budget).with_cancellation(cancellation.clone());
    // One is dropped, one is cancelled, and one waits for them when it is cancelled.
    let first =
        tokio::time::timeout(Duration::from_millis(100), cx.ask(&SECOND, at_most(10), false));
    let second = cx.ask(&SECOND, at_most(10), false);
    let third = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        cx.ask(&SECOND, at_most(20), false).await
    };
    let cancels = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(budget.held().usage.output_tokens, 20);
        cancellation.cancel();
    };
    let (first, second, third, ()) = tokio::join!(first, second, third, cancels);
    assert!(first.is_ok_and(|ended| ended.is_err()) && second.is_err() && third.is_err());
    background().await;
    assert_eq!((budget.spent().usage.output_tokens, budget.spent().model_calls), (20, 2));
    assert_eq!(budget.held(), Spent::default());

    let dropped = tokens("acme", 25);
    let cx = under(&dropped);
    let call = cx.ask(&SECOND, at_most(10), false);
    assert!(tokio::time::timeout(Duration::from_millis(100), call).await.is_err());
    background().await;
    assert_eq!(dropped.spent().usage.output_tokens, 10);
    // While it waits for an answer of the budget.
    assert!(cx.ask(&SECOND, at_most(10), false).now_or_never().is_none());
    background().await;
    assert_eq!((dropped.spent().usage.output_tokens, dropped.held()), (10, Spent::default()));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_wait_and_the_ledgers_of_the_process_get_their_reservation_back() {
    let budget = tokens("acme", 15);
    let ledger = Ledger::new(Budget { output_tokens: Some(100), ..Budget::default() })
        .with_shared_budget(budget.clone());
    let cx = Context::default().with_ledger(ledger.clone());
    let soon = (Instant::now() + Duration::from_millis(300)).into_std();
    let first = cx.ask(&SECOND, at_most(10), false);
    let late = cx.clone().with_deadline(soon);
    let second = async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let error = late.ask(&SECOND, at_most(10), false).await.unwrap_err();
        (error, ledger.committed().usage.output_tokens)
    };
    let (first, (error, committed)) = join(first, second).await;
    first.unwrap();
    assert_eq!((error.stage(), committed), (Stage::Limit, 10));
    assert!(error.to_string().starts_with("the deadline of this call passed"), "{error}");
    assert_eq!(ledger.committed(), ledger.spent());
}

#[tokio::test(start_paused = true)]
async fn a_call_holds_nothing_in_one_budget_while_it_waits_for_another() {
    let (tenant, user) = (tokens("acme", 15), tokens("ada", 15));
    // In both orders, so that each holds what the other one needs, if it keeps it.
    let both = |first: &Stored, second: &Stored| {
        let ledger = Ledger::default().with_shared_budget(first.clone());
        Context::default().with_ledger(ledger.child().with_shared_budget(second.clone()))
    };
    let calls = [both(&tenant, &user), both(&user, &tenant), both(&tenant, &user)];
    let calls = calls.iter().map(|cx| cx.ask(&SECOND, at_most(9), false));
    let ended = tokio::time::timeout(Duration::from_secs(60), join_all(calls)).await.unwrap();
    assert!(ended.iter().all(Result::is_ok));
    for budget in [tenant, user] {
        assert_eq!((budget.spent().usage.output_tokens, budget.held()), (9, Spent::default()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_call_renews_its_lease_and_a_stream_that_nobody_reads_does_not() {
    let budget = tokens("acme", 10);
    let cx = under(&budget);
    let long = Slow(Duration::from_secs(30));
    for stream in [false, true] {
        budget.0.renewals.store(0, Ordering::Relaxed);
        cx.clone().with_events(|_| {}).ask(&long, at_most(5), stream).await.unwrap();
        assert!((29..=30).contains(&budget.0.renewals.load(Ordering::Relaxed)));
    }
    assert_eq!((budget.spent().usage.output_tokens, budget.held()), (6, Spent::default()));

    let settings = Settings::default().with_max_output_tokens(3);
    let predict = Predict::<Summarize>::new(SECOND).unwrap().with_settings(settings).unwrap();
    let mut stream = predict.stream(summarize(), &cx);
    assert!(stream.next().await.is_some());
    // The stream counts in full, and the next call has too little.
    let error = cx.ask(&SECOND, at_most(4), false).await.unwrap_err();
    assert!(error.downcast_ref::<Exhausted>().is_some(), "{error}");
    assert_eq!(budget.spent().usage.output_tokens, 9);
    // It has the cost when the stream is read on.
    while stream.next().await.is_some() {}
    assert_eq!((budget.spent().usage.output_tokens, budget.held()), (9, Spent::default()));
}

#[tokio::test(start_paused = true)]
async fn without_the_budget_no_call_is_made_and_no_reply_is_lost() {
    let budget = tokens("acme", 100);
    let ledger = Ledger::new(Budget { output_tokens: Some(100), ..Budget::default() })
        .with_shared_budget(budget.clone());
    let cx = Context::default().with_ledger(ledger.clone());
    budget.0.is_away.store(true, Ordering::Relaxed);
    let error = cx.ask(&SECOND, at_most(5), false).await.unwrap_err();
    assert_eq!((error.stage(), &*error.to_string()), (Stage::Journal, "the database is away"));
    assert_eq!(ledger.committed(), Spent::default());

    budget.0.is_away.store(false, Ordering::Relaxed);
    let goes_away = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        budget.0.is_away.store(true, Ordering::Relaxed);
    };
    let (reply, ()) = join(cx.ask(&SECOND, at_most(5), false), goes_away).await;
    reply.unwrap();
    assert_eq!(budget.held().usage.output_tokens, 5);
}

#[test]
fn without_a_timer_the_error_names_the_fix() {
    let cx = under(&tokens("acme", 100));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = runtime.block_on(cx.ask(&SECOND, at_most(5), false)).unwrap_err();
    assert!(error.to_string().contains("`enable_time`"), "{error}");
}
