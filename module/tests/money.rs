//! Money: the prices that apply to a call, and costs of which something is unknown.

use std::sync::{Arc, Mutex};

use futures_core::future::BoxFuture;
use serde_json::json;
use toolwright_module::budget::{Budget, Cost, Ledger, Money, Price, Prices, Spent};
use toolwright_module::error::Stage;
use toolwright_module::event::{Event, EventKind};
use toolwright_module::message::Part;
use toolwright_module::model::{Capabilities, Settings, Usage};
use toolwright_module::{Context, Dialect, Error, LanguageModel, Message, Reply, Request, Result};

/// A model of a service, which replies with a usage and the name that its server reports.
struct Served {
    service: Option<&'static str>,
    name: &'static str,
    reported: Option<&'static str>,
    usage: Result<Usage, Stage>,
}

impl Served {
    fn at(service: &'static str, name: &'static str) -> Self {
        let usage = Ok(Usage::new(1_000_000, 0));
        Self { service: Some(service), name, reported: None, usage }
    }
}

impl LanguageModel for Served {
    fn name(&self) -> &str {
        self.name
    }

    fn service(&self) -> Option<&str> {
        self.service
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { audio: true, ..Capabilities::new(Dialect::OpenAiLoose) }
    }

    fn generate<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            let usage = self.usage.map_err(|stage| Error::other("no").at(stage))?;
            let mut reply = Reply::text("ok").with_usage(usage);
            reply.model = self.reported.map(str::to_owned);
            Ok(reply)
        })
    }
}

fn short() -> Request {
    let settings = Settings::default().with_max_output_tokens(1);
    Request::new([Message::user("Hi!")]).with_settings(settings)
}

async fn cost(ledger: &Ledger, model: Served) -> Cost {
    let before = ledger.spent();
    let cx = Context::default().with_ledger(ledger.clone());
    // A failed call has a cost too.
    _ = cx.ask(&model, short(), false).await;
    (ledger.spent() - before).cost()
}

#[tokio::test]
async fn a_ledger_without_prices_uses_the_built_in_ones() {
    let ledger = Ledger::default();
    let dollars = |dollars| Cost::Known(Money::new(dollars));
    assert_eq!(cost(&ledger, Served::at("openai", "gpt-5-mini")).await, dollars(0.25));
    // Another service, or a server of which nothing is known.
    assert_eq!(cost(&ledger, Served::at("ollama", "gpt-5-mini")).await, Cost::Unknown);
    let nowhere = Served { service: None, ..Served::at("", "gpt-5-mini") };
    assert_eq!(cost(&ledger, nowhere).await, Cost::Unknown);
    assert_eq!(cost(&ledger, Served::at("openai", "gpt-99")).await, Cost::Unknown);
    // The whole is at least the part that is known.
    assert_eq!(ledger.spent().cost(), Cost::AtLeast(Money::new(0.25)));
    assert_eq!(ledger.spent().unpriced_calls, 3);
}

/// The name of a model may be an alias, or a deployment that somebody named.
#[tokio::test]
async fn the_name_that_the_server_reports_decides_before_that_of_the_model() {
    let ledger = Ledger::default();
    let model = |reported| Served { reported, ..Served::at("azure", "our-model") };
    assert_eq!(cost(&ledger, model(None)).await, Cost::Unknown);
    let reported = model(Some("gpt-4.1-2025-04-14"));
    assert_eq!(cost(&ledger, reported).await, Cost::Known(Money::new(2.0)));
    // A name that nobody knows says less than the model's own.
    let reported = Served { reported: Some("x"), ..Served::at("openai", "gpt-5-mini") };
    assert_eq!(cost(&ledger, reported).await, Cost::Known(Money::new(0.25)));
}

#[tokio::test]
async fn prices_of_the_caller_replace_the_built_in_ones_or_extend_them() {
    let price = Price::per_million(9.0, 9.0);
    let own = Ledger::default().with_prices([("our-model", price.clone())]);
    let model = || Served::at("openai", "our-model");
    assert_eq!(cost(&own, model()).await, Cost::Known(Money::new(9.0)));
    assert_eq!(cost(&own, Served::at("openai", "gpt-5-mini")).await, Cost::Unknown);
    // Below the ledger too.
    assert_eq!(cost(&own.child(), model()).await, Cost::Known(Money::new(9.0)));

    let prices = Prices::builtin().with("our-model", price);
    let both = Ledger::default().with_prices(prices);
    assert_eq!(cost(&both, model()).await, Cost::Known(Money::new(9.0)));
    let mini = cost(&both, Served::at("openai", "gpt-5-mini")).await;
    assert_eq!(mini, Cost::Known(Money::new(0.25)));
    // Nothing has a price.
    let none = Ledger::default().with_prices(Prices::default());
    assert_eq!(cost(&none, Served::at("openai", "gpt-5-mini")).await, Cost::Unknown);
}

#[tokio::test]
async fn tokens_that_nobody_counted_make_a_cost_incomplete() {
    let ledger = Ledger::default();
    let usage = Usage { incomplete: true, ..Usage::new(1_000_000, 0) };
    let model = Served { usage: Ok(usage), ..Served::at("openai", "gpt-5-mini") };
    assert_eq!(cost(&ledger, model).await, Cost::AtLeast(Money::new(0.25)));

    let ledger = Ledger::default();
    let model = Served { usage: Err(Stage::Transport), ..Served::at("openai", "gpt-5-mini") };
    assert_eq!(cost(&ledger, model).await, Cost::Unknown);

    // A request that the provider refused cost nothing, whatever the price is.
    let ledger = Ledger::default();
    let model = Served { usage: Err(Stage::Provider), ..Served::at("openai", "gpt-99") };
    assert_eq!(cost(&ledger, model).await, Cost::Known(Money::default()));
}

/// The budget holds for what the model may cost at most: in the long context, and for audio.
#[tokio::test]
async fn the_highest_price_that_may_apply_is_reserved() {
    let price = Price::per_million(1.0, 1.0).with_cache_written_1h(2.0);
    let audio = price.clone().with_audio(20.0, 30.0);
    let long = price.clone().with_above(18, Price::per_million(7.0, 1.0));
    let clip = toolwright_module::message::Audio::bytes("audio/wav", vec![0; 4]);
    let heard = Request::new([Message::user_parts([Part::Audio(clip)])]);
    let heard = heard.with_settings(Settings::default().with_max_output_tokens(1));
    for (price, request, most) in [
        // 19 input tokens, by the bytes, and an output token.
        (price, short(), 19 * 2 + 1),
        (audio.clone(), short(), 19 * 2 + 30),
        (long, short(), 19 * 7 + 1),
        (audio, heard, (65_536 + 4) * 20 + 16 * 2 + 30),
    ] {
        for (allowed, works) in [(most, true), (most - 1, false)] {
            let budget = Budget { money: Some(Money { micros: allowed }), ..Budget::default() };
            let ledger = Ledger::new(budget).with_prices([("gpt-99", price.clone())]);
            let model = Served { usage: Ok(Usage::new(1, 1)), ..Served::at("openai", "gpt-99") };
            let cx = Context::default().with_ledger(ledger);
            assert_eq!(cx.ask(&model, request.clone(), false).await.is_ok(), works, "{allowed}");
        }
    }
}

#[tokio::test]
async fn the_event_of_a_reply_has_the_money_with_and_without_a_ledger() {
    let events: Arc<Mutex<Vec<Event>>> = Arc::default();
    let heard = Arc::clone(&events);
    let cx = Context::default().with_events(move |event| heard.lock().unwrap().push(event.clone()));
    for cx in [cx.clone(), cx.with_ledger(Ledger::default())] {
        for name in ["gpt-5-mini", "gpt-99"] {
            cx.ask(&Served::at("openai", name), short(), false).await.unwrap();
        }
        let events = std::mem::take(&mut *events.lock().unwrap());
        let money = events.into_iter().filter_map(|event| match event.kind {
            EventKind::ModelReplied { money, .. } => Some(money),
            _ => None,
        });
        assert_eq!(money.collect::<Vec<_>>(), [Some(Money::new(0.25)), None]);
    }
}

/// Stored runs keep what was known when they were stored.
#[test]
fn a_stored_cost_reads_as_it_was_written() {
    let call = |money: f64, unpriced_calls| {
        let mut spent = Spent::model_call(Usage::new(1, 1));
        (spent.money, spent.unpriced_calls) = (Money::new(money), unpriced_calls);
        spent
    };
    let usage = json!({"input_tokens": 1, "output_tokens": 1});
    let free = json!({"model_calls": 1, "tool_calls": 0, "usage": usage, "unpriced_calls": 0});
    for (spent, stored, cost) in [
        // The form of a record without prices, which is also that of earlier versions.
        (call(0.0, 1), json!({"model_calls": 1, "tool_calls": 0, "usage": usage}), Cost::Unknown),
        (
            call(0.5, 0),
            json!({"model_calls": 1, "tool_calls": 0, "usage": usage, "money": 500_000}),
            Cost::Known(Money::new(0.5)),
        ),
        (call(0.0, 0), free, Cost::Known(Money::default())),
    ] {
        assert_eq!(serde_json::to_value(spent).unwrap(), stored);
        assert_eq!(serde_json::from_value::<Spent>(stored).unwrap(), spent);
        assert_eq!(spent.cost(), cost);
    }
    let both = call(0.5, 0) + call(0.0, 1);
    let read: Spent = serde_json::from_value(serde_json::to_value(both).unwrap()).unwrap();
    assert_eq!((read, read.cost()), (both, Cost::AtLeast(Money::new(0.5))));
    assert_eq!(both - call(0.0, 1), call(0.5, 0));
    assert_eq!(Spent::default().cost(), Cost::Known(Money::default()));
    assert_eq!(serde_json::from_value::<Spent>(json!({})).unwrap(), Spent::default());
}
