//! Spans and events with OpenTelemetry's names for generative AI.
//!
//! A program of its own: `tracing` caches for the whole process whether a span has a subscriber, so
//! tests without one could hide a span from these.
// Helpers are part of a test too: with this, the rules for tests in `clippy.toml` hold for them.
#![cfg(test)]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use toolwright_evals::{Attempt, Case, Eval, Grade, Judge, graders};
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Error, Reply, from_fn};
use toolwright_orchestrator::Agent;
use tracing_subscriber::layer::{Context as LayerContext, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// The spans of evals and their events, in the order in which they ended.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Fields {
    fn lines(&self) -> String {
        self.0.iter().map(|(name, value)| format!("\n  {name} = {value}")).collect()
    }
}

impl tracing::field::Visit for Fields {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    /// `tracing-opentelemetry` makes a text of such a number.
    fn record_u64(&mut self, field: &tracing::field::Field, _: u64) {
        panic!("{field} must be an `i64`");
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Seen {
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

    fn on_event(&self, event: &tracing::Event<'_>, cx: LayerContext<'_, S>) {
        if event.metadata().target().starts_with("toolwright_evals") {
            let mut fields = Fields::default();
            event.record(&mut fields);
            let span = cx.event_span(event).map_or("no span", |span| span.name());
            let name = event.metadata().name();
            self.0.lock().unwrap().push(format!("event {name} in {span}{}", fields.lines()));
        }
    }

    fn on_close(&self, id: tracing::span::Id, cx: LayerContext<'_, S>) {
        let span = cx.span(&id).unwrap();
        let names: Vec<_> = span.scope().from_root().map(|span| span.name()).collect();
        let mut line = format!("span {}", names.join(" > "));
        if span.metadata().target().starts_with("toolwright_evals") {
            line += &span.extensions().get::<Fields>().unwrap().lines();
        }
        self.0.lock().unwrap().push(line);
    }
}

async fn seen(cx: &Context) -> String {
    let seen = Seen::default();
    let _guard =
        tracing::subscriber::set_default(tracing_subscriber::registry().with(seen.clone()));
    let judge = Scripted::new(|_| Ok(Reply::text(r#"{"reason": "It is a secret.", "score": 3}"#)));
    let agent = Agent::new(Scripted::new(|_| Ok(Reply::text("The secret."))), []).unwrap();
    let broken = from_fn(async |_: Attempt| Err::<Grade, _>(Error::other("a secret fault")));
    let report = Eval::agent("secrets", agent.with_name("keeper"))
        .with_cases([Case::new("one", "Tell a secret.")])
        .with_grader("tells", graders::contains("secret"))
        .with_grader("skipped", graders::contains_expected())
        .with_grader("harmless", Judge::new(judge, "Nothing is told.").unwrap())
        .with_grader("broken", broken)
        .run(cx)
        .await
        .unwrap();
    assert_eq!(report.failed().count(), 1);
    seen.0.lock().unwrap().join("\n")
}

#[tokio::test]
async fn an_attempt_is_a_span_with_its_grades() {
    let seen = seen(&Context::default()).await;
    let reasons = ["It is a secret.", "a secret fault"];
    assert!(!reasons.iter().any(|reason| seen.contains(reason)), "{seen}");
    insta::assert_snapshot!(seen);
}

#[tokio::test]
async fn the_reasons_of_grades_are_there_only_if_content_is_captured() {
    insta::assert_snapshot!(seen(&Context::default().with_captured_content(true)).await);
}
