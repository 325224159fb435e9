//! Language models made of others: a fallback, and a limit of concurrent requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use futures_util::future::{join_all, poll_immediate};
use futures_util::stream;
use tokio::sync::Notify;
use toolwright_module::budget::{Budget, Ledger};
use toolwright_module::error::{ContextExceeded, Stage};
use toolwright_module::event::EventKind;
use toolwright_module::model::{
    BoxFuture, BoxStream, Capabilities, ConcurrencyLimit, Delta, Fallback, Setting, SettingSet,
    Settings, Usage,
};
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Dialect, Error, LanguageModel, Message, Reply, Request, Result};

fn hi() -> Request {
    Request::new([Message::user("Hi!")])
}

type Model = Arc<Scripted<Box<dyn Fn(&Request) -> Result<Reply> + Send + Sync>>>;

fn fails(error: fn() -> Error) -> Model {
    Arc::new(Scripted::new(Box::new(move |_| Err(error()))))
}

fn says(text: &'static str) -> Model {
    let reply = move |_: &Request| Ok(Reply::text(text).with_usage(Usage::new(5, 2)));
    Arc::new(Scripted::new(Box::new(reply)))
}

#[tokio::test]
async fn the_next_model_is_asked_after_an_error_that_another_model_may_not_have() {
    for (error, falls_back) in [
        ((|| Error::other("busy").retryable(true)) as fn() -> Error, true),
        (|| Error::other("down").at(Stage::Transport), true),
        // The next model may have a larger context.
        (
            || {
                let exceeded = ContextExceeded::new(Some(9000), Some(8192));
                Error::other("too long").at(Stage::Provider).with_context_exceeded(exceeded)
            },
            true,
        ),
        (|| Error::other("no such model").at(Stage::Provider), true),
        (|| Error::other("not JSON").at(Stage::Decoding), true),
        (|| Error::other("no key").at(Stage::Setup), false),
        (|| Error::stop("stop").at(Stage::Transport), false),
    ] {
        let last = says("Hello there.");
        let model = Fallback::new(fails(error)).or(fails(error));
        let model = model.or(Arc::clone(&last));
        for stream in [false, true] {
            let cx = Context::default().with_events(|_| ());
            let asked = cx.ask(&model, hi(), stream).await;
            match falls_back {
                true => assert_eq!(asked.unwrap().to_text(), "Hello there."),
                false => assert_eq!(asked.unwrap_err().to_string(), error().to_string()),
            }
        }
        assert_eq!(last.requests().len(), if falls_back { 2 } else { 0 });
    }
    let both = Fallback::new(fails(|| Error::other("one").at(Stage::Provider)))
        .or(fails(|| Error::other("two").at(Stage::Provider)));
    assert_eq!(both.generate(&hi()).await.unwrap_err().to_string(), "two");
}

/// An agent can then shorten the conversation for the first model.
#[tokio::test]
async fn a_conversation_that_was_too_long_for_one_model_is_so_after_the_failure_of_another() {
    let too_long = || {
        let exceeded = ContextExceeded::new(Some(9000), Some(8192));
        Error::other("too long").at(Stage::Provider).with_context_exceeded(exceeded)
    };
    let down = || Error::other("down").at(Stage::Transport).retryable(true);
    let larger = || {
        let exceeded = ContextExceeded::new(Some(9000), Some(8500));
        Error::other("too long").at(Stage::Provider).with_context_exceeded(exceeded)
    };
    for (errors, window) in [
        ([too_long as fn() -> Error, down, down], 8192),
        ([down, too_long, down], 8192),
        ([down, down, too_long], 8192),
        // The model with the largest context needs the least shortening.
        ([too_long, larger, down], 8500),
        ([larger, down, too_long], 8500),
    ] {
        let [first, second, third] = errors.map(fails);
        let model = Fallback::new(first).or(second).or(third);
        for stream in [false, true] {
            let cx = Context::default().with_events(|_| ());
            let error = cx.ask(&model, hi(), stream).await.unwrap_err();
            assert_eq!(error.to_string(), errors[2]().to_string());
            assert_eq!(error.context_exceeded().and_then(|it| it.window), Some(window));
        }
    }
}

/// Streams one piece and then fails.
struct BreaksOff;

impl LanguageModel for BreaksOff {
    fn name(&self) -> &str {
        "breaks-off"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async { Err(Error::other("lost").at(Stage::Transport)) })
    }

    fn stream<'a>(&'a self, _: Request) -> BoxStream<'a, Result<Delta>> {
        let lost = Err(Error::other("lost").at(Stage::Transport));
        stream::iter([Ok(Delta::Text("Hel".to_owned())), lost]).boxed()
    }
}

#[tokio::test]
async fn a_stream_falls_back_only_before_its_first_piece() {
    let pieces = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&pieces);
    let cx = Context::default().with_events(move |event| {
        if let EventKind::TextDelta { text } = &event.kind {
            kept.lock().unwrap().push(text.clone());
        }
    });
    let other = Scripted::new(|_| Ok(Reply::text("Hello there.")));
    let capabilities = Capabilities::new(Dialect::JsonSchema2020);
    let other = Arc::new(other.with_capabilities(capabilities));
    let model = Fallback::new(BreaksOff).or(Arc::clone(&other));
    assert_eq!(cx.ask(&model, hi(), true).await.unwrap_err().to_string(), "lost");
    assert_eq!(
        (pieces.lock().unwrap().as_slice(), other.requests().len()),
        (["Hel".into()].as_slice(), 0)
    );
    // Without a stream there is no first piece.
    assert_eq!(cx.ask(&model, hi(), false).await.unwrap().to_text(), "Hello there.");

    pieces.lock().unwrap().clear();
    let model = Fallback::new(fails(|| Error::other("down").at(Stage::Transport)));
    let model = model.or(says("Hello there."));
    cx.ask(&model, hi(), true).await.unwrap();
    assert_eq!(*pieces.lock().unwrap(), ["Hello ", "there."]);
}

#[tokio::test]
async fn the_usage_of_failed_models_is_counted() {
    let spent = async |error: fn() -> Error, second: Model| {
        let model = Fallback::new(fails(error)).or(second);
        let mut spent = Vec::new();
        for stream in [false, true] {
            let ledger = Ledger::new(Budget { output_tokens: Some(10_000), ..Budget::default() });
            let cx = Context::default().with_ledger(ledger.clone()).with_events(|_| ());
            let _ = cx.ask(&model, hi(), stream).await;
            spent.push(ledger.committed().usage);
        }
        assert_eq!(spent[0], spent[1]);
        spent[0]
    };
    let known = || Error::other("bad").at(Stage::Decoding).with_usage(Usage::new(3, 1));
    assert_eq!(spent(known, says("a")).await, Usage::new(8, 3));
    assert_eq!(spent(known, fails(known)).await, Usage::new(6, 2));
    let rejected = || Error::other("overloaded").at(Stage::Provider);
    assert_eq!(spent(rejected, says("a")).await, Usage::new(5, 2));
    // The cost of the first call is unknown, so the reservation stays.
    let unknown = || Error::other("lost").at(Stage::Transport);
    let kept = spent(unknown, says("a")).await;
    assert!(kept.incomplete && kept.output_tokens >= 4096, "{kept:?}");
}

#[test]
fn a_fallback_has_the_capabilities_that_all_its_models_have() {
    let model = |capabilities: Capabilities| {
        Scripted::new(|_| Ok(Reply::text("a"))).with_capabilities(capabilities)
    };
    let (seed, stop) = (SettingSet::NONE.with(Setting::Seed), SettingSet::NONE.with(Setting::Stop));
    let first = Capabilities {
        images: true,
        tools: true,
        settings: seed.with(Setting::Stop),
        ..Capabilities::new(Dialect::OpenAiStrict)
    };
    let second = Capabilities {
        images: true,
        audio: true,
        settings: stop.with(Setting::TopP),
        ..Capabilities::new(Dialect::OpenAiStrict)
    };
    let fallback = Fallback::new(model(first)).or(model(second));
    let both =
        Capabilities { images: true, settings: stop, ..Capabilities::new(Dialect::OpenAiStrict) };
    assert_eq!(fallback.capabilities(), both);

    let fallback = fallback.or(model(Capabilities::new(Dialect::Gemini)));
    let mixed = Fallback::new(model(Capabilities::new(Dialect::Anthropic))).or(fallback);
    let dialects = [Dialect::Anthropic, Dialect::OpenAiStrict, Dialect::Gemini];
    assert_eq!(mixed.capabilities().dialects().collect::<Vec<_>>(), dialects);
}

/// A model with settings of its own.
struct Set(Option<Settings>);

impl LanguageModel for Set {
    fn name(&self) -> &str {
        "set"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn settings(&self) -> Option<&Settings> {
        self.0.as_ref()
    }

    fn generate<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async { Ok(Reply::text("a")) })
    }
}

#[test]
fn a_ledger_reserves_for_the_model_that_may_write_most() {
    let set = |tokens| Settings::default().with_max_output_tokens(tokens);
    for (first, second, most) in [
        (None, None, None),
        (Some(set(10)), None, Some(4096)),
        (Some(set(10)), Some(set(20)), Some(20)),
        (None, Some(set(9000)), Some(9000)),
    ] {
        let model = Fallback::new(Set(first)).or(Set(second));
        assert_eq!(model.settings().and_then(|settings| settings.max_output_tokens), most);
    }
}

/// Counts the requests in progress, and waits until it may go on.
#[derive(Default)]
struct Slow {
    open: AtomicUsize,
    most: AtomicUsize,
    go_on: Notify,
}

impl Slow {
    async fn reply(&self) -> Result<Reply> {
        let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(open, Ordering::SeqCst);
        self.go_on.notified().await;
        self.open.fetch_sub(1, Ordering::SeqCst);
        Ok(Reply::text("done"))
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
        Box::pin(self.reply())
    }
}

#[tokio::test]
async fn no_more_requests_than_the_limit_are_sent_at_the_same_time() {
    let slow = Arc::new(Slow::default());
    let model = ConcurrencyLimit::new(Arc::clone(&slow), 2);
    let clone = model.clone();
    let (request, events) = (hi(), Context::default().with_events(|_| ()));
    let calls = (0..6).map(|nth| {
        // Clones share the limit, and streams count too.
        let (model, request) = (if nth % 2 == 0 { &model } else { &clone }, request.clone());
        let events = &events;
        async move { events.ask(model, request, nth % 3 == 0).await.unwrap().to_text() }
    });
    let notify = async {
        while slow.most.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        for _ in 0..6 {
            slow.go_on.notify_one();
            tokio::task::yield_now().await;
        }
    };
    let (texts, ()) = tokio::join!(join_all(calls), notify);
    assert_eq!((texts.len(), slow.most.load(Ordering::SeqCst)), (6, 2));

    // A dropped call and a dropped stream make room.
    let one = ConcurrencyLimit::new(Slow::default(), 0);
    let mut held = Box::pin(one.generate(&request));
    assert!(poll_immediate(&mut held).await.is_none());
    let mut waits = one.stream(request.clone());
    assert!(poll_immediate(waits.next()).await.is_none());
    drop(held);
    assert!(poll_immediate(waits.next()).await.is_none());
    drop(waits);
    let mut last = Box::pin(one.generate(&request));
    assert!(poll_immediate(&mut last).await.is_none());
}
