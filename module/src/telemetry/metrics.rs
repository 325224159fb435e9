//! Metrics of model calls, as `tracing` events that a layer such as `tracing_opentelemetry::MetricsLayer`
//! makes instruments of.
//!
//! The events are at the level `TRACE` and outside of all spans, so neither logs nor spans have them. If
//! nothing listens at this level, no time is read.

use std::time::Instant;

use tracing::level_filters::LevelFilter;
use tracing::{Level, event};

use crate::budget::Money;
use crate::error::{Error, Stage};
use crate::model::{LanguageModel, Reply};

/// Returns the current time if something may listen to metrics.
pub(crate) fn start() -> Option<Instant> {
    (LevelFilter::current() >= LevelFilter::TRACE).then(Instant::now)
}

/// Measures a model call. A call that is dropped before its end is reported as cancelled.
pub(crate) struct Meter<'a> {
    model: &'a dyn LanguageModel,
    /// `None` after the end, and if nothing listens.
    started: Option<Instant>,
}

impl<'a> Meter<'a> {
    pub(crate) fn start(model: &'a dyn LanguageModel) -> Self {
        Self { model, started: start() }
    }

    /// Returns whether something may listen.
    pub(crate) fn is_on(&self) -> bool {
        self.started.is_some()
    }

    /// Reports a call that has ended.
    pub(crate) fn end(mut self, end: Result<&Reply, &Error>, cost: Option<Money>) {
        let Some(started) = self.started.take() else { return };
        let answered_by = end.ok().and_then(|reply| reply.model.as_deref());
        let error = end.err().map(|error| error.stage().to_string());
        self.duration(started, answered_by, error.as_deref(), cost);
        let usage = end.map_or_else(Error::usage, |reply| reply.usage);
        // A count that the server did not report is unknown, not zero.
        let is_known = end.is_ok() && !usage.incomplete;
        for (kind, tokens) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
            if tokens > 0 || is_known {
                self.tokens(kind, tokens, answered_by);
            }
        }
    }

    fn duration(
        &self,
        started: Instant,
        answered_by: Option<&str>,
        error: Option<&str>,
        cost: Option<Money>,
    ) {
        let cost = cost.filter(|cost| cost.micros > 0).map(|cost| cost.micros as f64 / 1e6);
        event!(
            target: "toolwright::metrics",
            parent: None,
            Level::TRACE,
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = self.model.provider(),
            gen_ai.request.model = self.model.name(),
            gen_ai.response.model = answered_by,
            error.type = error,
            histogram.gen_ai.client.operation.duration = started.elapsed().as_secs_f64(),
            monotonic_counter.toolwright.cost = cost,
        );
    }

    fn tokens(&self, kind: &str, tokens: u64, answered_by: Option<&str>) {
        event!(
            target: "toolwright::metrics",
            parent: None,
            Level::TRACE,
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = self.model.provider(),
            gen_ai.request.model = self.model.name(),
            gen_ai.response.model = answered_by,
            gen_ai.token.type = kind,
            histogram.gen_ai.client.token.usage = tokens,
        );
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        if let Some(started) = self.started.take() {
            let cancelled = Stage::Cancelled.to_string();
            self.duration(started, None, Some(&cancelled), None);
        }
    }
}
