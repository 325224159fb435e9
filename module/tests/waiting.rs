//! Model calls that wait until others release their reservations.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{FutureExt, join, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use toolwright_module::budget::{Budget, Exhausted, Ledger, LimitKind, Money, Price, Spent};
use toolwright_module::error::Stage;
use toolwright_module::model::{BoxFuture, BoxStream, Capabilities, Delta, Settings, Usage};
use toolwright_module::runner;
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Cancellation, Context, Dialect, Error, LanguageModel, Message, Predict, Reply, Request, Result,
};

use crate::support::{SUMMARY, Summarize, summarize};

/// A model that takes a second, and writes one token.
#[derive(Default)]
struct Slow {
    begun: AtomicUsize,
    unknown: bool,
}

impl Slow {
    fn reply(&self) -> Result<Reply> {
        let usage = if self.unknown { Usage::unknown() } else { Usage::new(1, 1) };
        Ok(Reply::text(SUMMARY).with_usage(usage))
    }
}

impl LanguageModel for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.reply()
        })
    }

    fn stream<'a>(&'a self, _: Request) -> BoxStream<'a, Result<Delta>> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let piece = async { Ok(Delta::Text("{".to_owned())) };
        let done = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.reply().map(|reply| Delta::Done(Box::new(reply)))
        };
        piece.into_stream().chain(done.into_stream()).boxed()
    }
}

fn at_most(tokens: u64) -> Request {
    Request::new([Message::user("Hi!")])
        .with_settings(Settings::default().with_max_output_tokens(tokens))
}

fn tokens(most: u64) -> Ledger {
    Ledger::new(Budget { output_tokens: Some(most), ..Budget::default() })
}

fn of(ledger: &Ledger) -> Context {
    Context::default().with_ledger(ledger.clone())
}

fn limit(error: &Error) -> LimitKind {
    error.downcast_ref::<Exhausted>().expect("a spent budget").limit
}

#[tokio::test(start_paused = true)]
async fn calls_that_fit_one_after_another_are_all_made() {
    let price = [("slow", Price::per_million(0.0, 10.0))];
    let budgets = [
        Budget { output_tokens: Some(23), ..Budget::default() },
        Budget { input_tokens: Some(45), ..Budget::default() },
        Budget { tokens: Some(68), ..Budget::default() },
        Budget { money: Some(Money { micros: 230 }), ..Budget::default() },
    ];
    for budget in budgets {
        for streamed in [false, true] {
            let (model, ledger) = (Slow::default(), Ledger::new(budget).with_prices(price.clone()));
            let cx = of(&ledger).with_events(|_| {});
            // Two fit at a time, by their largest cost. Below the ledger too.
            let contexts = [cx.clone(), cx.clone().with_ledger(ledger.child()), cx.clone(), cx];
            let asks = contexts.iter().map(|cx| cx.ask(&model, at_most(10), streamed));
            let began = tokio::time::Instant::now();
            for reply in join_all(asks).await {
                reply.unwrap();
            }
            assert_eq!((began.elapsed().as_secs(), ledger.spent().model_calls), (2, 4));
            assert_eq!(ledger.committed(), ledger.spent());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_refused_as_soon_as_waiting_cannot_help() {
    let model = Slow::default();
    // It would not fit alone.
    let ledger = tokens(15);
    let cx = of(&ledger);
    let (first, second) = join(
        cx.ask(&model, at_most(10), false),
        cx.ask(&model, at_most(16), false)
            .map(|end| (limit(&end.unwrap_err()), model.begun.load(Ordering::Relaxed))),
    )
    .await;
    first.unwrap();
    assert_eq!(second, (LimitKind::OutputTokens, 1));

    // A number of calls is never released, so nobody waits for it.
    let ledger =
        Ledger::new(Budget { model_calls: Some(1), output_tokens: Some(100), ..Budget::default() });
    let cx = of(&ledger);
    let asks = join(cx.ask(&model, at_most(10), false), async {
        let began = tokio::time::Instant::now();
        let end = cx.ask(&model, at_most(10), false).await;
        (limit(&end.unwrap_err()), began.elapsed())
    });
    assert_eq!(asks.await.1, (LimitKind::ModelCalls, Duration::ZERO));

    // What others spend or keep while it waits.
    let unknown = Slow { unknown: true, ..Slow::default() };
    let ledger = tokens(15);
    let cx = of(&ledger);
    let (first, second) =
        join(cx.ask(&unknown, at_most(10), false), cx.ask(&model, at_most(10), false)).await;
    first.unwrap();
    assert_eq!(limit(&second.unwrap_err()), LimitKind::OutputTokens);
    assert_eq!(ledger.committed().usage.output_tokens, 10);
}

#[tokio::test(start_paused = true)]
async fn calls_are_served_in_order_and_small_ones_do_not_starve_a_large_one() {
    let (model, ledger, ended) = (Slow::default(), tokens(20), Mutex::new(Vec::new()));
    let cx = of(&ledger);
    let mut asks = FuturesUnordered::new();
    for (number, most) in [(0, 10), (1, 10), (2, 18), (3, 5), (4, 5), (5, 5)] {
        let (cx, model, ended) = (&cx, &model, &ended);
        asks.push(async move {
            // Each comes a tenth of a second after the one before.
            tokio::time::sleep(Duration::from_millis(100 * number)).await;
            cx.ask(model, at_most(most), false).await.unwrap();
            ended.lock().unwrap().push(number);
        });
    }
    while asks.next().await.is_some() {}
    drop(asks);
    assert_eq!(ended.into_inner().unwrap(), [0, 1, 2, 3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_another_ledger_holds_up_lets_others_pass() {
    let (model, top) = (Slow::default(), tokens(100));
    let small = runner::ledger(
        Some(&top),
        "small",
        Budget { output_tokens: Some(10), ..Budget::default() },
        Spent::default(),
    );
    let (below, beside) = (of(&small), of(&top));
    let began = tokio::time::Instant::now();
    let ends = join_all([
        below.ask(&model, at_most(8), false).map(|end| (end.is_ok(), began.elapsed())).boxed(),
        // It waits for the first one, in their own ledger.
        below.ask(&model, at_most(8), false).map(|end| (end.is_ok(), began.elapsed())).boxed(),
        beside.ask(&model, at_most(8), false).map(|end| (end.is_ok(), began.elapsed())).boxed(),
    ]);
    let ends: Vec<_> = ends.await.into_iter().map(|(ok, at)| (ok, at.as_secs())).collect();
    assert_eq!(ends, [(true, 1), (true, 2), (true, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_a_cancellation_a_deadline_or_a_drop() {
    let (model, ledger) = (Slow::default(), tokens(15));
    let cancellation = Cancellation::default();
    let now = tokio::time::Instant::now();
    let cx = of(&ledger);
    let cancelled = cx.clone().with_cancellation(cancellation.clone());
    let late = cx.clone().with_deadline((now + Duration::from_millis(500)).into_std());
    let first = async {
        cx.ask(&model, at_most(10), false).await.unwrap();
    };
    let second = async {
        let error = cancelled.ask(&model, at_most(15), false).await.unwrap_err();
        assert_eq!((error.stage(), now.elapsed().as_millis()), (Stage::Cancelled, 200));
    };
    let third = async {
        let error = late.ask(&model, at_most(15), false).await.unwrap_err();
        assert_eq!((error.stage(), now.elapsed().as_millis()), (Stage::Limit, 500));
        assert!(error.to_string().contains("deadline"), "{error}");
    };
    let dropped = async {
        let ask = cx.ask(&model, at_most(15), false);
        assert!(tokio::time::timeout(Duration::from_millis(300), ask).await.is_err());
    };
    // It fits beside the first as soon as those before it have gone.
    let last = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        cx.ask(&model, at_most(5), false).await.unwrap();
        assert_eq!(now.elapsed().as_millis(), 1_500);
    };
    let cancels = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        cancellation.cancel();
    };
    join(join(join(first, second), join(third, dropped)), join(last, cancels)).await;
    // What waited counts nowhere.
    assert_eq!((ledger.spent().model_calls, ledger.committed()), (2, ledger.spent()));
    assert_eq!(model.begun.load(Ordering::Relaxed), 2);
}

/// Polls the work once.
async fn is_pending(work: &mut (impl Future + Unpin)) -> bool {
    std::future::poll_fn(|task| Poll::Ready(work.poll_unpin(task).is_pending())).await
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_is_given_to_a_dropped_call_goes_to_the_next() {
    let (model, ledger) = (Slow::default(), tokens(10));
    let cx = of(&ledger);
    let held = ledger.reserve(Spent::model_call(Usage::new(0, 10))).unwrap();
    let mut first = Box::pin(cx.ask(&model, at_most(10), false));
    let mut second = Box::pin(cx.ask(&model, at_most(9), false));
    assert!(is_pending(&mut first).await);
    assert!(is_pending(&mut second).await);
    held.settle(Spent::default());
    // The first has its reservation now, and never takes it.
    drop(first);
    second.await.unwrap();
    assert_eq!((ledger.spent().model_calls, ledger.committed()), (1, ledger.spent()));
}

#[tokio::test(start_paused = true)]
async fn a_reservation_of_the_program_is_waited_for_and_not_for_ever() {
    let (model, ledger) = (Slow::default(), tokens(15));
    let cx = of(&ledger);
    let hold = || ledger.reserve(Spent::model_call(Usage::new(0, 10))).unwrap();
    let held = hold();
    let later = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        held.settle(Spent::default());
    };
    join(cx.ask(&model, at_most(10), false), later).await.0.unwrap();

    // As in a tool that calls an agent before it settles.
    let held = hold();
    let error = cx.ask(&model, at_most(10), false).await.unwrap_err();
    assert_eq!(limit(&error), LimitKind::OutputTokens);
    held.settle(Spent::default());
    cx.ask(&model, at_most(10), false).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn streams_wait_for_each_other_and_hang_nobody() {
    let (model, ledger) = (Slow::default(), tokens(15));
    let cx = of(&ledger);
    let settings = Settings::default().with_max_output_tokens(10);
    let module = Predict::<Summarize>::new(model).unwrap().with_settings(settings).unwrap();
    let read = || async {
        let mut stream = module.stream(summarize(), &cx);
        while let Some(event) = stream.next().await {
            event.unwrap();
        }
    };
    join(read(), read()).await;

    // This one is not read while the other waits for its reservation.
    let mut unread = module.stream(summarize(), &cx);
    unread.next().await.unwrap().unwrap();
    let mut other = module.stream(summarize(), &cx);
    let error = other.next().await.unwrap().unwrap_err();
    assert_eq!(limit(&error), LimitKind::OutputTokens);
}

/// A model that answers once it is told to.
#[derive(Clone, Default)]
struct Gate(Arc<tokio::sync::Notify>);

impl LanguageModel for Gate {
    fn name(&self) -> &str {
        "gate"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async {
            self.0.notified().await;
            Ok(Reply::text("ok").with_usage(Usage::new(1, 1)))
        })
    }
}

#[test]
fn without_tokio_calls_wait_for_calls_only() {
    let (gate, ledger) = (Gate::default(), tokens(15));
    let cx = of(&ledger);
    let task = futures_util::task::noop_waker();
    let mut task = std::task::Context::from_waker(&task);
    let mut first = Box::pin(cx.ask(&gate, at_most(10), false));
    let mut second = Box::pin(cx.ask(&gate, at_most(10), false));
    assert!(first.poll_unpin(&mut task).is_pending());
    assert!(second.poll_unpin(&mut task).is_pending());
    gate.0.notify_one();
    assert!(matches!(first.poll_unpin(&mut task), Poll::Ready(Ok(_))));
    gate.0.notify_one();
    assert!(matches!(second.poll_unpin(&mut task), Poll::Ready(Ok(_))));

    // Nothing could end a wait for the program.
    let _held = ledger.reserve(Spent::model_call(Usage::new(0, 10))).unwrap();
    let mut third = Box::pin(cx.ask(&gate, at_most(10), false));
    let Poll::Ready(Err(error)) = third.poll_unpin(&mut task) else { panic!("it waits") };
    assert_eq!(limit(&error), LimitKind::OutputTokens);
}

#[test]
fn threads_wait_for_each_other_until_the_budget_is_spent() {
    let ledger = tokens(1_000);
    let work = |number: u64| {
        let cx = of(&ledger.child());
        let model = Scripted::new(|_: &Request| Ok(Reply::text("ok").with_usage(Usage::new(1, 1))));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            for turn in 0..200 {
                let most = 100 + (number * 7 + turn) % 300;
                match cx.ask(&model, at_most(most), false).await {
                    Ok(_) => std::thread::yield_now(),
                    Err(error) => return assert_eq!(limit(&error), LimitKind::OutputTokens),
                }
            }
        });
    };
    std::thread::scope(|scope| {
        for number in 0..8 {
            let work = &work;
            scope.spawn(move || work(number));
        }
    });
    // All of them would need 1,600 tokens. A call is refused only if its most exceeds the rest.
    let spent = ledger.spent();
    assert_eq!(ledger.committed(), spent);
    assert!((601..=1_000).contains(&spent.usage.output_tokens), "{spent:?}");
}
