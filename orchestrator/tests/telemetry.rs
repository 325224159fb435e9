//! Spans and metrics with OpenTelemetry's names for generative AI.
//!
//! A program of its own: `tracing` caches for the whole process whether a span has a subscriber, so
//! tests without one could hide a span from these.
// Helpers are part of a test too: with this, the rules for tests in `clippy.toml` hold for them.
#![cfg(test)]

#[allow(dead_code, reason = "the other tests use all of it")]
mod support;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use toolwright_module::budget::{Budget, Ledger, Price};
use toolwright_module::model::Usage;
use toolwright_module::{Context, Effect, Error, Reply, Tool, ToolCall};
use toolwright_orchestrator::Agent;
use tracing_subscriber::layer::{Context as LayerContext, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use support::{Log, Look, agent, calls, look, replies, soon, tool};

/// Every span with its fields, in the order in which they ended.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl tracing::field::Visit for Fields {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    /// `tracing-opentelemetry` makes a text of such a number, and no server adds up texts.
    fn record_u64(&mut self, field: &tracing::field::Field, _: u64) {
        panic!("{field} must be an `i64`");
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(
        &self,
        attributes: &tracing::span::Attributes<'_>,
        id: &tracing::span::Id,
        cx: LayerContext<'_, S>,
    ) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        cx.span(id).unwrap().extensions_mut().insert(fields);
    }

    fn on_record(
        &self,
        id: &tracing::span::Id,
        values: &tracing::span::Record<'_>,
        cx: LayerContext<'_, S>,
    ) {
        let span = cx.span(id).unwrap();
        values.record(span.extensions_mut().get_mut::<Fields>().unwrap());
    }

    fn on_close(&self, id: tracing::span::Id, cx: LayerContext<'_, S>) {
        let span = cx.span(&id).unwrap();
        let name = |span: &SpanRef<'_, S>| {
            let extensions = span.extensions();
            let named = extensions.get::<Fields>().unwrap().0.get("otel.name").cloned();
            named.unwrap_or_default().trim_matches('"').to_owned()
        };
        let way: Vec<String> = span.scope().from_root().map(|span| name(&span)).collect();
        let mut lines = vec![way.join(" > ")];
        let extensions = span.extensions();
        let fields = &extensions.get::<Fields>().unwrap().0;
        lines.extend(fields.iter().map(|(name, value)| format!("  {name} = {value}")));
        self.0.lock().unwrap().push(lines.join("\n"));
    }
}

async fn spans_of(agent: &Agent, cx: &Context) -> String {
    let spans = Spans::default();
    let subscriber = tracing_subscriber::registry().with(spans.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    let _ = agent.run("Go to the secret place.", cx).await;
    spans.0.lock().unwrap().join("\n")
}

fn two_levels() -> Agent {
    let failing =
        tool("fail", Effect::Read, async |_: Look| Err(Error::retry("the secret door is shut")));
    let (below, _) = agent(
        [look(), failing],
        [
            calls([("1", "look", "secret"), ("2", "fail", "secret")]).with_usage(Usage::new(9, 3)),
            Reply::text("The secret is out.")
                .with_usage(Usage { cached_tokens: 9, ..Usage::new(11, 4) }),
        ],
    );
    let helper = Tool::new(below).unwrap().named("helper").unwrap();
    let ask = Reply::calls([ToolCall::new("h", "helper", r#"{"task": "Find the secret."}"#)]);
    let said = [ask.with_model("model-2026"), Reply::text("Here.").with_usage(Usage::new(5, 1))];
    Agent::new(replies(said).0, [helper]).unwrap().with_name("keeper")
}

#[tokio::test]
async fn agents_model_calls_and_tools_have_open_telemetry_spans() {
    let spans = spans_of(&two_levels(), &soon()).await;
    assert!(!spans.contains("secret"), "{spans}");
    insta::assert_snapshot!(spans);
}

#[tokio::test]
async fn spans_have_content_only_if_it_is_captured() {
    let spans = spans_of(&two_levels(), &soon().with_captured_content(true)).await;
    insta::assert_snapshot!(spans);
}

#[tokio::test]
async fn a_failure_marks_its_span_with_the_stage_and_no_text() {
    let model = toolwright_module::testing::Scripted::new(|_| {
        Err(Error::other("key sk-secret was refused").at(toolwright_module::error::Stage::Provider))
    });
    let agent = Agent::new(model, []).unwrap();
    insta::assert_snapshot!(spans_of(&agent, &soon()).await);
}

#[tokio::test]
async fn runs_calls_and_streams_that_overlap_have_their_own_parents() {
    let spans = Spans::default();
    let subscriber = tracing_subscriber::registry().with(spans.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    // The two models below answer after both of them were asked, and nobody else goes on.
    let below = |name: &str| {
        let meeting = Arc::new(tokio::sync::Barrier::new(2));
        ["left", "right"].map(|side| {
            let meeting = meeting.clone();
            let wait = tool("wait", Effect::Read, move |_: Look| {
                let meeting = meeting.clone();
                async move {
                    meeting.wait().await;
                    Ok(String::new())
                }
            });
            let said = [calls([("1", "wait", "here")]), Reply::text(format!("{name} {side}"))];
            Tool::new(agent([wait], said).0).unwrap().named(side).unwrap()
        })
    };
    let above = |name: &str| {
        let task = |id, side| ToolCall::new(id, side, r#"{"task": "Go."}"#);
        let both = Reply::calls([task("l", "left"), task("r", "right")]);
        let (model, _) = replies([both, Reply::text("Both went.")]);
        Agent::new(model, below(name)).unwrap().with_name(name)
    };
    let (first, second) = (above("first"), above("second"));
    // A listener makes them stream.
    let cx = soon().with_events(|_| ());
    let (one, other) = tokio::join!(first.run("Go.", &cx), second.run("Go.", &cx));
    one.unwrap();
    other.unwrap();

    let mut ways: Vec<String> = spans.0.lock().unwrap().iter().map(|span| way(span)).collect();
    ways.sort();
    insta::assert_snapshot!(ways.join("\n"));
}

/// The first line of a span: the spans around it.
fn way(span: &str) -> String {
    span.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn spans_name_the_run_and_its_cost() {
    let cx = soon().with_run("letter-7", [("tenant", "acme")]).with_ledger(
        Ledger::new(Budget::default())
            .with_prices([("scripted", Price::per_million(1_000.0, 10_000.0))]),
    );
    let spans = spans_of(&two_levels(), &cx).await;
    let costs: Vec<&str> = spans.lines().map(str::trim).filter(|it| it.contains("cost")).collect();
    // Those of the agent below, that agent, the last of the agent, and the agent.
    let costs_of = ["0.039", "0.051", "0.09", "0.015", "0.105"];
    assert_eq!(costs, costs_of.map(|cost| format!("toolwright.cost = {cost}")));
    let all = spans.matches("otel.name").count();
    assert_eq!(spans.matches(r#"gen_ai.conversation.id = "letter-7""#).count(), all);
    let metadata = r#"toolwright.run.metadata = "{\"tenant\":\"acme\"}""#;
    assert_eq!(spans.matches(metadata).count(), 2);
}

/// The errors that are logged outside of spans.
#[derive(Clone, Default)]
struct Reports(Log);

impl<S: tracing::Subscriber> Layer<S> for Reports {
    fn on_event(&self, event: &tracing::Event<'_>, _: LayerContext<'_, S>) {
        // Metrics are no errors.
        if *event.metadata().level() > tracing::Level::WARN {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let fields: Vec<String> =
            fields.0.into_iter().map(|(name, it)| format!("{name}: {it}")).collect();
        self.0.write(format!("{} {}", event.metadata().level(), fields.join(", ")));
    }
}

#[tokio::test]
async fn a_listener_with_many_panics_is_reported_once() {
    let reports = Reports::default();
    let subscriber = tracing_subscriber::registry().with(reports.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    let (agent, _) = agent([look()], [calls([("1", "look", "a")]), Reply::text("ok")]);
    let cx = soon().with_events(|_| panic!("the screen is gone"));
    agent.run("Go.", &cx).await.unwrap();
    insta::assert_snapshot!(reports.0.entries().join("\n"), @r#"ERROR message: a listener for events panicked; the call goes on, panic: "the screen is gone""#);
}

#[tokio::test]
async fn repairs_are_counted_in_the_span_of_the_call() {
    let agent = || {
        let written = ToolCall::new("1", "look", "{'place': 'secret', 'why': 1,}");
        let (agent, _) = agent([look()], [Reply::calls([written]), Reply::text("Here.")]);
        agent
    };
    let of_call = |spans: String| {
        let lines = spans.lines().filter(|line| line.contains("toolwright"));
        lines.map(str::trim).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(of_call(spans_of(&agent(), &soon()).await), "toolwright.repairs = 3");
    let cx = soon().with_captured_content(true);
    insta::assert_snapshot!(of_call(spans_of(&agent(), &cx).await), @r#"
    toolwright.repairs = 3
    toolwright.repairs.list = "$: read other quotes as double quotes, 3 times; $: left out a trailing comma; $.why: left out a field that is not asked for"
    "#);
}

/// The metrics as a layer gets them, without the durations.
#[derive(Clone, Default)]
struct Metrics(Arc<Mutex<Vec<String>>>);

struct Attributes(Vec<String>);

impl tracing::field::Visit for Attributes {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        self.0.push(format!("{field}={value:?}"));
    }

    fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
        self.0.push(format!("{field}={value}"));
    }

    fn record_f64(&mut self, field: &tracing::field::Field, value: f64) {
        match field.name().ends_with(".duration") {
            true => self.0.push(field.to_string()),
            false => self.0.push(format!("{field}={value}")),
        }
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Metrics {
    fn on_event(&self, event: &tracing::Event<'_>, cx: LayerContext<'_, S>) {
        if event.metadata().target() == "toolwright::metrics" {
            // A layer that sends spans would add the event to one.
            assert!(event.is_root() && cx.event_span(event).is_none());
            let mut fields = Attributes(Vec::new());
            event.record(&mut fields);
            self.0.lock().unwrap().push(fields.0.join(" "));
        }
    }
}

async fn metrics_of<T>(work: impl Future<Output = T>) -> String {
    let metrics = Metrics::default();
    let subscriber = tracing_subscriber::registry().with(metrics.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    work.await;
    metrics.0.lock().unwrap().join("\n")
}

#[tokio::test]
async fn metrics_have_tokens_money_and_durations_by_model_tool_and_ending() {
    let prices = [("scripted", Price::per_million(1.0, 10.0))];
    let cx = soon().with_ledger(Ledger::new(Budget::default()).with_prices(prices));
    let agent = two_levels();
    insta::assert_snapshot!(metrics_of(agent.run("Go to the secret place.", &cx)).await);
}

#[tokio::test]
async fn metrics_have_the_stage_of_an_error_and_calls_that_were_given_up() {
    let refuses = toolwright_module::testing::Scripted::new(|_| {
        Err(Error::other("no").at(toolwright_module::error::Stage::Provider))
    });
    let agent = Agent::new(refuses, []).unwrap();
    let cx = Context::default();
    insta::assert_snapshot!(metrics_of(agent.run("Go.", &cx)).await);

    let slow = tool("slow", Effect::Read, async |_: Look| std::future::pending().await);
    let (agent, _) = crate::support::agent([slow], [calls([("1", "slow", "here")])]);
    let given_up =
        tokio::time::timeout(std::time::Duration::from_millis(20), agent.run("Go.", &cx));
    insta::assert_snapshot!(metrics_of(given_up).await);

    // A run that waits for a person has not failed.
    let (agent, _) = crate::support::agent([look()], [calls([("1", "look", "here")])]);
    let asks = toolwright_orchestrator::ApprovalPolicy::from_effect(Effect::Read);
    let agent = agent.with_approval(asks).unwrap();
    let metrics = metrics_of(agent.run("Go.", &cx)).await;
    assert!(metrics.contains("waiting") && !metrics.contains("error.type"), "{metrics}");

    // A call of a tool that is gone has no name that a model could choose.
    let (first, _) = crate::support::agent([look()], [calls([("1", "look", "here")])]);
    let mut run = first.start("Go.").unwrap();
    first.step(&mut run, &cx).await.unwrap();
    let (second, _) = crate::support::agent([], []);
    let metrics = metrics_of(second.drive(&mut run, &cx)).await;
    assert!(metrics.contains("histogram.gen_ai.invoke_agent.duration"), "{metrics}");
    assert!(!metrics.contains("look"), "{metrics}");
}
