//! Contexts: cancellation, deadlines, events, ledgers and budgets.

use serde_json::{Value, json};
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use toolwright_module::message::Opaque;
use toolwright_module::model::Settings;

use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::stream::{self, StreamExt};
use toolwright_module::budget::{Budget, Exhausted, Ledger, Money, Price, Spent};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::event::{Event, EventKind};
use toolwright_module::message::{Reasoning, ReplyPart};
use toolwright_module::model::{Capabilities, Delta, Usage};
use toolwright_module::runner;
use toolwright_module::testing::Scripted;
use toolwright_module::{
    AnyModule, Cancellation, Context, Dialect, Error, LanguageModel, Message, Module, Predict,
    Reply, Request, Result, ToolCall, from_fn_with,
};

use crate::support::{Count, SUMMARY, Summarize, summarize};

/// A model that never answers, and counts its pending calls.
#[derive(Clone, Default)]
struct Silent(Arc<AtomicUsize>);

struct Working(Arc<AtomicUsize>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl LanguageModel for Silent {
    fn name(&self) -> &str {
        "silent"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async {
            self.0.fetch_add(1, Ordering::SeqCst);
            let _working = Working(Arc::clone(&self.0));
            pending().await
        })
    }
}

#[tokio::test]
async fn a_cancellation_ends_a_pending_model_call() {
    let silent = Silent::default();
    let module = Predict::<Summarize>::new(silent.clone()).unwrap();
    let cancellation = Cancellation::default();
    let cx = Context::default().with_cancellation(cancellation.clone());
    let cancel = async {
        while silent.0.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        cancellation.cancel();
    };
    let (answer, ()) = futures_util::future::join(module.call(summarize(), &cx), cancel).await;
    let error = answer.unwrap_err();
    assert_eq!((error.stage(), error.audience()), (Stage::Cancelled, Audience::Run));
    assert_eq!(error.to_string(), "the call was cancelled");
    assert_eq!(silent.0.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_cancelled_call_does_not_start() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let model = Scripted::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(Reply::text(SUMMARY))
    });
    let cancellation = Cancellation::default();
    cancellation.cancel();
    cancellation.cancel();
    let cx = Context::default().with_cancellation(cancellation);
    assert!(cx.is_cancelled());
    let module = Predict::<Summarize>::new(model).unwrap();
    let error = module.call(summarize(), &cx).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Cancelled);
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn any_work_can_be_cancelled_by_its_context() {
    let cancellation = Cancellation::default();
    let cx = Context::default().with_cancellation(cancellation.clone());
    assert_eq!(cx.until_cancelled(async { Ok(1) }).await.unwrap(), 1);
    cancellation.cancel();
    let error = cx.until_cancelled(pending::<Result<()>>()).await;
    assert_eq!(error.unwrap_err().stage(), Stage::Cancelled);
    let never = Context::default();
    assert_eq!(never.until_cancelled(async { Ok(2) }).await.unwrap(), 2);
}

fn named(event: &Event) -> String {
    match &event.kind {
        EventKind::TextDelta { text } => format!("text {text}"),
        EventKind::ReasoningDelta { text } => format!("reasoning {text}"),
        EventKind::CallDelta { name, arguments, .. } => format!("{name} {arguments}"),
        EventKind::ModelReplied { model, reply, .. } => {
            format!("{model} replied for {} tokens", reply.usage.output_tokens)
        }
        other => format!("{other:?}"),
    }
}

/// The events in order.
#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Vec<String>>>);

impl Ear {
    fn listen(&self, cx: Context, who: &'static str) -> Context {
        let heard = Arc::clone(&self.0);
        cx.with_events(move |event| {
            heard.lock().unwrap().push(format!("{who}: {}", named(event)));
        })
    }

    fn heard(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[test]
fn a_listener_is_added_for_the_context_below_only() {
    let ear = Ear::default();
    let silent = Context::default();
    silent.emit(|| unreachable!("nobody listens"));

    let text = |text: &str| EventKind::TextDelta { text: text.to_owned() };
    let parent = ear.listen(silent, "parent");
    let child = ear.listen(parent.clone(), "child");
    child.emit(|| text("a"));
    parent.emit(|| text("b"));
    assert_eq!(ear.heard(), ["parent: text a", "child: text a", "parent: text b"]);
}

#[tokio::test]
async fn a_reply_is_streamed_to_a_listener_and_stays_the_same() {
    let reply = Reply::new([
        ReplyPart::Reasoning(Reasoning::new("p", "hm", serde_json::Value::Null)),
        ReplyPart::text("Hello."),
        ReplyPart::Call(ToolCall::new("1", "look", "{}")),
    ])
    .with_usage(Usage::new(3, 4))
    .with_model("true-name");
    let said = reply.clone();
    let model = Scripted::new(move |_| Ok(said.clone()));
    let question = || Request::new([Message::user("Hi.")]);

    let ear = Ear::default();
    let cx = ear.listen(Context::default(), "ear");
    assert_eq!(cx.ask(&model, question(), true).await.unwrap(), reply);
    assert_eq!(
        ear.heard(),
        [
            "ear: reasoning hm",
            "ear: text Hello.",
            "ear: look {}",
            "ear: true-name replied for 4 tokens"
        ]
    );

    let ear = Ear::default();
    let cx = ear.listen(Context::default(), "ear");
    assert_eq!(cx.ask(&model, question(), false).await.unwrap(), reply);
    assert_eq!(ear.heard(), ["ear: true-name replied for 4 tokens"]);
}

/// A model whose stream ends wrongly.
struct Broken(fn() -> Vec<Result<Delta>>);

impl LanguageModel for Broken {
    fn name(&self) -> &str {
        "broken"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(pending())
    }

    fn stream<'a>(&'a self, _: Request) -> BoxStream<'a, Result<Delta>> {
        stream::iter((self.0)()).boxed()
    }
}

#[tokio::test]
async fn a_stream_that_ends_without_its_reply_is_an_error() {
    let cx = Ear::default().listen(Context::default(), "ear");
    let ask = |model: Broken| {
        let cx = cx.clone();
        async move { cx.ask(&model, Request::new([]), true).await.unwrap_err().to_string() }
    };
    let ended = Broken(|| vec![Ok(Delta::Text("He".to_owned()))]);
    insta::assert_snapshot!(ask(ended).await, @"the model's stream ended without a reply; its `LanguageModel::stream` must end with `Delta::Done` or an error");
    let failed =
        Broken(|| vec![Ok(Delta::Text("He".to_owned())), Err(Error::other("connection lost"))]);
    insta::assert_snapshot!(ask(failed).await, @"connection lost");
}

#[tokio::test]
async fn a_ledger_counts_calls_below_it_and_failed_calls() {
    let run = Ledger::default();
    let (left, right) = (run.child(), run.child());
    let deep = left.child();
    deep.record(Spent::model_call(Usage { cached_tokens: 1, ..Usage::new(1, 2) }));
    right.record(Spent::model_call(Usage { reasoning_tokens: 5, ..Usage::new(10, 20) }));
    let both = left.spent() + right.spent();
    assert_eq!(both.usage, Usage { cached_tokens: 1, reasoning_tokens: 5, ..Usage::new(11, 22) });
    assert_eq!(run.spent(), both);
    let calls = [&run, &left, &deep].map(|ledger| ledger.spent().model_calls);
    assert_eq!(calls, [2, 1, 1]);

    let failing = Scripted::new(|_| Err(Error::other("cut").with_usage(Usage::new(100, 0))));
    let cx = Context::default().with_ledger(run.clone());
    cx.ask(&failing, Request::new([]), false).await.unwrap_err();
    assert_eq!(run.spent().usage.input_tokens, 111);
}

#[tokio::test]
async fn a_model_below_code_uses_the_context_of_the_run() {
    let model = Scripted::new(|_| Ok(Reply::text(SUMMARY).with_usage(Usage::new(1, 1))));
    let below = AnyModule::new(Predict::<Summarize>::from_context().unwrap());
    let module = from_fn_with(move |_: Count, cx: Context| {
        let below = below.clone();
        async move {
            let summary = below.call(summarize(), &cx).await?;
            Ok(summary.topics.len() as u64)
        }
    });
    let (ear, ledger) = (Ear::default(), Ledger::default());
    let cx = ear.listen(Context::default(), "run").with_model(model).with_ledger(ledger.clone());
    assert_eq!(module.call(Count, &cx).await.unwrap(), 1);
    assert_eq!(ledger.spent().usage, Usage::new(1, 1));
    assert_eq!(ear.heard(), ["run: scripted replied for 1 tokens"]);
}

#[test]
fn the_earliest_deadline_stays() {
    let now = Instant::now();
    let (soon, late) = (now + Duration::from_secs(1), now + Duration::from_secs(9));
    let cx = Context::default();
    assert_eq!(cx.deadline(), None);
    assert_eq!(cx.clone().with_deadline(late).deadline(), Some(late));
    let both = cx.clone().with_deadline(soon).with_deadline(late);
    assert_eq!(both.deadline(), Some(soon));
    let both = cx.with_deadline(late).with_deadline(soon);
    assert_eq!(both.deadline(), Some(soon));
}

#[test]
fn a_context_is_small_send_and_sync() {
    fn goes_anywhere<T: Send + Sync + Clone + Default + 'static>() {}
    goes_anywhere::<Context>();
    goes_anywhere::<Cancellation>();
    goes_anywhere::<Ledger>();
    assert_eq!(size_of::<Context>(), 2 * size_of::<usize>());
}

#[test]
fn changing_a_clone_changes_no_other_context() {
    let cx = Context::default().with_ledger(Ledger::default());
    let copy = cx.clone().with_model(Silent::default());
    assert!(copy.model().is_some() && copy.ledger().is_some());
    assert!(cx.model().is_none());
}

#[test]
fn usage_never_overflows() {
    let huge = Usage::new(u64::MAX, u64::MAX);
    assert_eq!(huge + Usage::new(1, 1), huge);
    assert_eq!(Usage::new(1, 1) - huge, Usage::default());
    assert_eq!([huge, huge].into_iter().sum::<Usage>(), huge);
}

#[test]
fn unreported_usage_is_not_zero() {
    let unknown = Usage::unknown();
    assert_ne!(unknown, Usage::default());
    let sum: Usage = [Usage::new(3, 4), unknown, Usage::new(1, 1)].into_iter().sum();
    assert_eq!((sum.input_tokens, sum.output_tokens, sum.incomplete), (4, 5, true));
    // The flag stays set in differences of counters.
    assert!((sum - Usage::new(3, 4)).incomplete);
    assert!(!(Usage::new(3, 4) - Usage::new(1, 1)).incomplete);
    let stored = serde_json::to_value(unknown).unwrap();
    assert_eq!(serde_json::from_value::<Usage>(stored).unwrap(), unknown);
    // A stored usage without the flag.
    let plain = r#"{"input_tokens":3,"output_tokens":4}"#;
    assert_eq!(serde_json::to_string(&Usage::new(3, 4)).unwrap(), plain);
    assert_eq!(serde_json::from_str::<Usage>(plain).unwrap(), Usage::new(3, 4));
}

#[tokio::test]
async fn every_cancellation_of_a_context_ends_its_calls() {
    for ended in [0, 1] {
        let (run, tool) = (Cancellation::default(), Cancellation::default());
        let cx = Context::default().with_cancellation(run.clone()).with_cancellation(tool.clone());
        assert!(!cx.is_cancelled());
        [run, tool][ended].cancel();
        assert!(cx.is_cancelled());
        let error = cx.until_cancelled(std::future::pending::<Result<(), _>>()).await.unwrap_err();
        assert_eq!(error.stage(), Stage::Cancelled);
    }
}

/// A model that reports a given usage, and counts its calls.
fn costing(usage: Usage) -> (impl LanguageModel, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let model = Scripted::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(Reply::text("ok").with_usage(usage))
    });
    (model, asked)
}

fn short() -> Request {
    Request::new([Message::user("Hi!")])
        .with_settings(Settings::default().with_max_output_tokens(10))
}

#[test]
fn a_nan_price_exceeds_any_budget() {
    for price in [
        Price::per_million(f64::NAN, 1.0),
        Price::per_million(1.0, f64::NAN),
        Price::per_million(1.0, 1.0).with_cached(f64::NAN),
    ] {
        let cost = price.of(Usage { cached_tokens: 1, ..Usage::new(2, 1) });
        assert!(cost > Money::new(1_000_000.0), "{cost}");
    }
}

#[tokio::test]
async fn a_budget_that_may_not_suffice_ends_the_run_before_the_call() {
    // The largest possible usage: 19 input tokens, by the bytes, and 10 output tokens.
    let budgets = [
        (Budget { model_calls: Some(2), ..Budget::default() }, "model calls"),
        (Budget { input_tokens: Some(5 + 5 + 18), ..Budget::default() }, "input tokens"),
        (Budget { output_tokens: Some(2 + 2 + 9), ..Budget::default() }, "output tokens"),
        (Budget { money: Some(Money { micros: 2 * 90 + 389 }), ..Budget::default() }, "money"),
    ];
    let mut texts = Vec::new();
    for (budget, what) in budgets {
        // The price is ten millionths per input token and twenty per output token.
        let run = Ledger::new(budget).with_prices([("scripted", Price::per_million(10.0, 20.0))]);
        let (model, asked) = costing(Usage::new(5, 2));
        let ear = Ear::default();
        let cx = ear.listen(Context::default().with_ledger(run.child()), "ear");
        for _ in 0..2 {
            cx.ask(&model, short(), false).await.unwrap();
        }
        for streamed in [false, true] {
            let error = cx.ask(&model, short(), streamed).await.unwrap_err();
            assert_eq!((error.stage(), error.audience()), (Stage::Limit, Audience::Run));
            assert_eq!(error.downcast_ref::<Exhausted>().unwrap().limit.to_string(), what);
            texts.push(error.to_string());
        }
        let call = ToolCall::new("1", "look", "{}");
        let error = runner::in_call(&cx, &call).ask(&model, short(), false).await.unwrap_err();
        texts.push(error.to_string());
        assert_eq!((asked.load(Ordering::Relaxed), run.spent().model_calls), (2, 2));
        assert_eq!(run.spent().usage, Usage::new(10, 4));
        assert_eq!(run.spent().money, Money { micros: 2 * 90 });
        // Three requests were rejected, each with an event.
        assert_eq!(ear.heard().len(), 2 + 3);
    }
    texts.dedup();
    insta::assert_snapshot!(texts.join("\n"), @r"
    the context's ledger has 0 of 2 model calls left, and the next call may take 1; allow more in its budget
    the context's ledger has 0 of 2 model calls left, and `look` may take 1; allow more in its budget
    the context's ledger has 18 of 28 input tokens left, and the next call may take 19; allow more in its budget
    the context's ledger has 18 of 28 input tokens left, and `look` may take 19; allow more in its budget
    the context's ledger has 9 of 13 output tokens left, and the next call may take 10; allow more in its budget
    the context's ledger has 9 of 13 output tokens left, and `look` may take 10; allow more in its budget
    the context's ledger has 0.000389 USD of 0.000569 USD left to spend, and the next call may cost 0.00039 USD; allow more in its budget
    the context's ledger has 0.000389 USD of 0.000569 USD left to spend, and `look` may cost 0.00039 USD; allow more in its budget
    ");
}

#[tokio::test]
async fn unused_reservations_are_released_and_dropped_ones_are_kept() {
    let run = Ledger::new(Budget { output_tokens: Some(25), ..Budget::default() });
    let cx = Context::default().with_ledger(run.clone());
    let (model, _) = costing(Usage::new(5, 1));
    // Each call may write 10 tokens and writes 1.
    for _ in 0..15 {
        cx.ask(&model, short(), false).await.unwrap();
    }
    assert_eq!(run.spent().usage.output_tokens, 15);
    let silent = Silent::default();
    drop(futures_util::future::poll_immediate(Box::pin(cx.ask(&silent, short(), false))).await);
    assert_eq!(run.spent().model_calls, 16);
    let error = cx.ask(&model, short(), false).await.unwrap_err();
    assert_eq!(error.downcast_ref::<Exhausted>().unwrap().left, 0);
}

#[tokio::test]
async fn usage_beyond_the_reservation_is_an_event() {
    let (model, _) = costing(Usage::new(70, 12));
    let log = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&log);
    let run = Ledger::new(Budget { output_tokens: Some(15), ..Budget::default() });
    let cx = Context::default().with_ledger(run.clone()).with_events(move |event| {
        if let EventKind::Overshot { model, overshoot } = &event.kind {
            let (limit, most, spent) = (overshoot.limit, overshoot.reserved, overshoot.spent);
            heard.lock().unwrap().push(format!("{model}: {spent} {limit} of {most}"));
        }
    });
    cx.ask(&model, short(), false).await.unwrap();
    assert_eq!(
        *log.lock().unwrap(),
        ["scripted: 70 input tokens of 19", "scripted: 12 output tokens of 10"]
    );
    assert_eq!(run.spent().usage.output_tokens, 12);
}

/// Extra fields replace those that a provider writes, and a server writes as much as they allow.
#[tokio::test]
async fn a_maximum_in_extra_fields_counts_for_the_reservation() {
    let nested = |name: &str, value: u64| json!({name: value});
    for (name, value, most) in [
        ("max_tokens", json!(5000), 5000),
        ("max_completion_tokens", json!(5000), 5000),
        ("max_output_tokens", json!(5000), 5000),
        ("max_tokens", json!(7), 10),
        ("max_tokens", Value::Null, u64::MAX),
        ("n", json!(3), 30),
        ("n", Value::Null, 10),
        ("generationConfig", nested("maxOutputTokens", 5000), 5000),
        ("generationConfig", nested("candidateCount", 2), 20),
        ("verbosity", json!("low"), 10),
    ] {
        let settings =
            Settings::default().with_max_output_tokens(10).with_extra("any", name, value.clone());
        let (model, asked) = costing(Usage::new(5, 1));
        let run = Ledger::new(Budget { output_tokens: Some(6), ..Budget::default() });
        let cx = Context::default().with_ledger(run);
        let error = cx.ask(&model, short().with_settings(settings), false).await.unwrap_err();
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        assert_eq!(error.downcast_ref::<Exhausted>().unwrap().asked, most, "{name}: {value}");
    }
}

#[tokio::test]
async fn a_money_budget_rejects_a_model_without_a_price() {
    let (model, asked) = costing(Usage::new(5, 1));
    let run = Ledger::new(Budget { money: Some(Money::new(1.0)), ..Budget::default() });
    let cx =
        Context::default().with_ledger(run.with_prices([("other", Price::per_million(1.0, 1.0))]));
    let error = cx.ask(&model, short(), false).await.unwrap_err();
    assert_eq!((error.stage(), asked.load(Ordering::Relaxed)), (Stage::Setup, 0));
    insta::assert_snapshot!(error, @"a budget limits money, but the price of `scripted` is unknown; set it with `Ledger::with_prices`, and pass the ledger with `Context::with_ledger`");
}

#[test]
fn concurrent_threads_never_exceed_a_budget() {
    let run = Ledger::new(Budget {
        tool_calls: Some(1000),
        output_tokens: Some(5000),
        ..Budget::default()
    });
    let taken: usize = std::thread::scope(|scope| {
        let work = |worker: u64| {
            let own = run.child();
            (0..400)
                .filter(|turn| {
                    let most = Spent::tool_call() + Spent::model_call(Usage::new(0, 7));
                    match own.reserve(most) {
                        Ok(reserved) => {
                            let used = (worker + turn) % 8;
                            let spent = Spent::model_call(Usage::new(0, used));
                            reserved.settle(Spent::tool_call() + spent);
                            true
                        }
                        Err(_) => false,
                    }
                })
                .count()
        };
        let workers: Vec<_> = (0..8).map(|worker| scope.spawn(move || work(worker))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    let spent = run.spent();
    assert_eq!(spent.tool_calls, taken as u64);
    assert!(spent.tool_calls <= 1000 && spent.usage.output_tokens <= 5000, "{spent:?}");
    // No call was rejected while the budget sufficed.
    assert!(spent.tool_calls == 1000 || spent.usage.output_tokens > 5000 - 8 * 7, "{spent:?}");
}

fn bounded() -> Ledger {
    Ledger::new(Budget { output_tokens: Some(25), ..Budget::default() })
}

/// Returns the committed output tokens of a ledger.
fn taken(ledger: &Ledger) -> u64 {
    ledger.committed().usage.output_tokens
}

#[tokio::test]
async fn a_cancelled_call_keeps_its_reservation() {
    for streamed in [false, true] {
        let (ledger, cancellation) = (bounded(), Cancellation::default());
        let cx = Context::default().with_ledger(ledger.clone()).with_events(|_| {});
        let cx = cx.with_cancellation(cancellation.clone());
        let cancel = async {
            tokio::task::yield_now().await;
            cancellation.cancel();
        };
        let silent = Silent::default();
        let asked = cx.ask(&silent, short(), streamed);
        let (end, ()) = futures_util::future::join(asked, cancel).await;
        assert_eq!(end.unwrap_err().stage(), Stage::Cancelled);
        // As for a dropped call, the cost is unknown.
        assert_eq!((taken(&ledger), ledger.spent().model_calls), (10, 1));
        assert_eq!(ledger.spent().usage, Usage::unknown());
    }
}

#[tokio::test]
async fn an_error_of_known_cost_releases_its_reservation() {
    let at = |stage| Error::other("no").at(stage);
    let unknown = [Stage::Module, Stage::Transport, Stage::Decoding, Stage::Limit];
    let known = [
        (at(Stage::Transport).with_usage(Usage::new(3, 2)), 2),
        // For example, no server answered.
        (at(Stage::Transport).with_usage(Usage::default()), 0),
        (at(Stage::Setup), 0),
        (at(Stage::Provider), 0),
        (at(Stage::Provider).with_usage(Usage::new(3, 2)), 2),
    ];
    let cases = unknown.map(|stage| (at(stage), 10)).into_iter().chain(known);
    for (error, takes) in cases {
        let (text, error) = (format!("{error:?}"), Mutex::new(Some(error)));
        let model = Scripted::new(move |_| Err(error.lock().unwrap().take().unwrap()));
        let ledger = bounded();
        let cx = Context::default().with_ledger(ledger.clone());
        cx.ask(&model, short(), false).await.unwrap_err();
        assert_eq!((taken(&ledger), ledger.spent().model_calls), (takes, 1), "{text}");
    }
}

fn piece() -> Result<Delta> {
    Ok(Delta::Text("word ".to_owned()))
}

fn failed(stage: Stage) -> Result<Delta> {
    Err(Error::other("overloaded").at(stage))
}

#[tokio::test]
async fn a_broken_stream_keeps_its_reservation() {
    let cases = [
        (Broken(Vec::new), 10),
        (Broken(|| vec![piece()]), 10),
        (Broken(|| vec![piece(), failed(Stage::Transport)]), 10),
        // A rejection after the start of the reply may have a cost.
        (Broken(|| vec![piece(), failed(Stage::Provider)]), 10),
        (Broken(|| vec![failed(Stage::Provider)]), 0),
        (Broken(|| vec![piece(), Err(Error::other("lost").with_usage(Usage::new(1, 3)))]), 3),
    ];
    for (number, (model, takes)) in cases.into_iter().enumerate() {
        let ledger = bounded();
        let cx = Context::default().with_ledger(ledger.clone()).with_events(|_| {});
        cx.ask(&model, short(), true).await.unwrap_err();
        assert_eq!(taken(&ledger), takes, "case {number}");

        // The same with a stream of pieces.
        let ledger = bounded();
        let cx = Context::default().with_ledger(ledger.clone());
        let module = Predict::<Summarize>::new(model)
            .unwrap()
            .with_settings(Settings::default().with_max_output_tokens(10))
            .unwrap();
        let mut stream = module.stream(summarize(), &cx);
        while stream.next().await.is_some() {}
        assert_eq!(taken(&ledger), takes, "case {number}");
    }
}

#[tokio::test]
async fn broken_streams_exhaust_the_budget() {
    let cx = Context::default().with_ledger(bounded());
    let broken = Broken(|| (0..40).map(|_| piece()).collect());
    let module = Predict::<Summarize>::new(broken)
        .unwrap()
        .with_settings(Settings::default().with_max_output_tokens(10))
        .unwrap();
    let mut ends = Vec::new();
    for _ in 0..4 {
        let mut stream = module.stream(summarize(), &cx);
        while let Some(event) = stream.next().await {
            ends.extend(event.err().map(|error| error.stage()));
        }
    }
    // Each stream may have written 10 of 25 tokens.
    assert_eq!(ends, [Stage::Decoding, Stage::Decoding, Stage::Limit, Stage::Limit]);
}

#[test]
fn a_new_ledger_is_not_confused_with_a_dropped_one() {
    for _ in 0..100 {
        let gone = Ledger::new(Budget { tool_calls: Some(0), ..Budget::default() });
        let exhausted = gone.reserve(Spent::tool_call()).unwrap_err();
        assert!(
            runner::is_exhausted_by(&gone, &exhausted)
                && runner::is_exhausted_by(&gone.clone(), &exhausted)
        );
        drop(gone);
        assert!(!runner::is_exhausted_by(&Ledger::default(), &exhausted));
    }
}

#[test]
fn the_opaque_value_of_a_call_counts_for_the_reservation() {
    let most = |opaque: Option<serde_json::Value>| {
        let mut call = ToolCall::new("1", "f", "{}");
        call.opaque = opaque.map(|value| Box::new(Opaque::new("p", value)));
        let said = Message::Assistant { parts: vec![ReplyPart::Call(call)] };
        let request = Request::new([Arc::new(said)]);
        request.most_usage(Dialect::JsonSchema2020).input_tokens
    };
    let alone = most(None);
    let signature = serde_json::json!({"signature": "x".repeat(10_000)});
    assert_eq!(most(Some(signature.clone())), alone + signature.to_string().len() as u64);
}

#[tokio::test]
async fn unreported_usage_keeps_its_reservation_in_every_ledger() {
    let price = Price::per_million(1.0, 1_000_000.0);
    let budget =
        Budget { output_tokens: Some(25), money: Some(Money::new(25.0)), ..Budget::default() };
    let above = Ledger::new(budget).with_prices([("scripted", price)]);
    let below = above.child();
    let cx = Context::default().with_ledger(below.clone());
    let model = Scripted::new(|_: &Request| Ok(Reply::text("ok").with_usage(Usage::unknown())));
    let ask = || {
        Request::new([Message::user("Hi!")])
            .with_settings(Settings::default().with_max_output_tokens(10))
    };
    for asked in 1..=2 {
        cx.ask(&model, ask(), asked == 1).await.unwrap();
        for ledger in [&above, &below] {
            let committed = ledger.committed();
            assert_eq!(committed.model_calls, asked);
            assert_eq!(committed.usage.output_tokens, 10 * asked);
            assert!(committed.usage.incomplete && committed.money >= Money::new(10.0));
        }
    }
    let error = cx.ask(&model, ask(), false).await.unwrap_err();
    assert_eq!(error.downcast_ref::<Exhausted>().unwrap().left, 5);

    // The known part is added where nothing was reserved, and beyond the reservation.
    let some = Usage::new(7, 12) + Usage::unknown();
    let model = Scripted::new(move |_: &Request| Ok(Reply::text("ok").with_usage(some)));
    let free = Ledger::default();
    cx.clone().with_ledger(free.clone()).ask(&model, ask(), false).await.unwrap();
    assert_eq!(free.committed().usage, some);
    let bound = Ledger::new(Budget { output_tokens: Some(25), ..Budget::default() });
    cx.with_ledger(bound.clone()).ask(&model, ask(), false).await.unwrap();
    assert_eq!(bound.committed().usage.output_tokens, 12);
}

/// Writing to a cache may cost more than other input.
#[tokio::test]
async fn tokens_written_to_a_cache_cost_their_price_and_are_reserved_at_it() {
    let price = Price::per_million(10.0, 20.0).with_cached(1.0).with_cache_written(12.5);
    let usage = Usage { cached_tokens: 3, cache_written_tokens: 4, ..Usage::new(10, 1) };
    assert_eq!(price.of(usage), Money { micros: 3 * 10 + 3 + 4 * 25 / 2 + 20 });
    // A server may report more than there is.
    assert_eq!(
        price.of(Usage { cache_written_tokens: 9, ..Usage::new(2, 0) }),
        Money { micros: 25 }
    );

    // The largest possible usage: 19 input tokens, by the bytes, and 10 output tokens.
    let reserve = 238 + 200;
    for (allowed, works) in [(reserve, true), (reserve - 1, false)] {
        let budget = Budget { money: Some(Money { micros: allowed }), ..Budget::default() };
        let ledger = Ledger::new(budget).with_prices([("scripted", price.clone())]);
        let (model, _) = costing(usage);
        let cx = Context::default().with_ledger(ledger.clone());
        assert_eq!(cx.ask(&model, short(), false).await.is_ok(), works);
        assert_eq!(ledger.spent().money, if works { price.of(usage) } else { Money::default() });
    }
}

#[test]
fn a_context_has_one_value_of_each_type_and_the_last_one_applies() {
    struct Db(u8);
    let above = Context::default().with(1u8).with(Arc::new(Db(1)));
    let below = above.clone().with(Db(2)).with(2u8).with("text");
    assert_eq!((above.get::<u8>(), below.get::<u8>()), (Some(&1), Some(&2)));
    assert_eq!(above.get::<Db>().map(|db| db.0), Some(1));
    assert_eq!(below.get::<Db>().map(|db| db.0), Some(2));
    assert_eq!(below.get::<&str>(), Some(&"text"));
    // The `Arc` itself is a value too, and `with` of a plain one does not hide it.
    assert_eq!(below.get::<Arc<Db>>().map(|db| db.0), Some(1));
    let again = below.with(Arc::new(Db(3)));
    assert_eq!(again.get::<Db>().map(|db| db.0), Some(3));
    assert!(above.get::<str>().is_none() && Context::default().get::<u8>().is_none());
}

#[test]
fn an_idempotency_key_belongs_to_one_call_of_one_run() {
    let call = |cx: &Context, tool: &str, id: &str| {
        runner::in_call(cx, &ToolCall::new(id, tool, "{}")).idempotency_key()
    };
    let cx = Context::default().with_run("a", [("", ""); 0]);
    let key = call(&cx, "pay", "1").unwrap();
    assert_eq!((key.len(), call(&cx, "pay", "1")), (32, Some(key.clone())));
    let other = Context::default().with_run("b", [("", ""); 0]);
    for another in [call(&cx, "pay", "2"), call(&cx, "pa", "y1"), call(&other, "pay", "1")] {
        assert_ne!(another.unwrap(), key);
    }
    assert_eq!((cx.idempotency_key(), call(&Context::default(), "pay", "1")), (None, None));
}

/// A model call that was cancelled has read and written tokens that nobody reported.
#[test]
fn the_usage_of_a_model_call_that_was_dropped_is_not_known() {
    let ledger = Ledger::default();
    drop(ledger.reserve(Spent::tool_call()).unwrap());
    assert!(!ledger.spent().usage.incomplete);
    drop(ledger.reserve(Spent::model_call(Usage::new(10, 10))).unwrap());
    let Spent { model_calls, usage, .. } = ledger.spent();
    assert_eq!((model_calls, usage), (1, Usage::unknown()));
}
