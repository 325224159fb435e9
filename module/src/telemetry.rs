//! `tracing` spans of model calls, with OpenTelemetry's names for generative AI.
//!
//! Without a subscriber a span costs one check of a flag.

use std::sync::Arc;

use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::budget::Money;
use crate::context::Context;
use crate::error::Error;
use crate::message::Message;
use crate::model::{Finish, LanguageModel, Reply, Request};

mod content;
pub(crate) mod metrics;

pub(crate) fn chat(
    cx: &Context,
    model: &dyn LanguageModel,
    request: &Request,
    stream: bool,
) -> Span {
    let span = info_span!(
        "chat",
        otel.name = Empty,
        otel.kind = "client",
        otel.status_code = Empty,
        otel.status_description = Empty,
        error.type = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = model.provider(),
        gen_ai.conversation.id = cx.run_id(),
        gen_ai.request.model = model.name(),
        gen_ai.request.max_tokens = Empty,
        gen_ai.request.temperature = Empty,
        gen_ai.request.top_p = Empty,
        gen_ai.request.seed = Empty,
        gen_ai.request.stream = stream.then_some(true),
        gen_ai.output.type = request.output.as_ref().map(|_| "json"),
        gen_ai.response.model = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_creation.input_tokens = Empty,
        gen_ai.usage.reasoning.output_tokens = Empty,
        gen_ai.tool.definitions = Empty,
        gen_ai.input.messages = Empty,
        gen_ai.output.messages = Empty,
        toolwright.cost = Empty,
    );
    if span.is_disabled() {
        return span;
    }
    span.record("otel.name", format!("chat {}", model.name()));
    let settings = request.settings_over(model.settings()).unwrap_or_default();
    let most = settings.max_output_tokens.unwrap_or(Request::MAX_OUTPUT_TOKENS);
    span.record("gen_ai.request.max_tokens", count(most));
    span.record("gen_ai.request.temperature", settings.temperature);
    span.record("gen_ai.request.top_p", settings.top_p);
    span.record("gen_ai.request.seed", settings.seed.map(count));
    if cx.captures_content() {
        span.record("gen_ai.input.messages", messages(&request.messages));
        if !request.tools.is_empty() {
            let tools = request.tools.iter().map(|tool| &**tool);
            span.record("gen_ai.tool.definitions", content::tools(tools));
        }
    }
    span
}

/// Returns messages as the text of `gen_ai.input.messages`.
pub(crate) fn messages(messages: &[Arc<Message>]) -> String {
    content::input(messages.iter().map(|message| &**message))
}

/// Returns a number as bridges to OpenTelemetry need it: those make a text of a `u64`.
pub(crate) fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn replied(span: &Span, cx: &Context, end: Result<&Reply, &Error>, cost: Option<Money>) {
    if span.is_disabled() {
        return;
    }
    let usage = end.map_or_else(Error::usage, |reply| reply.usage);
    // A count that the server did not report is unknown, not zero.
    if usage.input_tokens > 0 || !usage.incomplete {
        span.record("gen_ai.usage.input_tokens", count(usage.input_tokens));
    }
    if usage.output_tokens > 0 || !usage.incomplete {
        span.record("gen_ai.usage.output_tokens", count(usage.output_tokens));
    }
    for (name, tokens) in [
        ("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens),
        ("gen_ai.usage.cache_creation.input_tokens", usage.cache_written_tokens),
        ("gen_ai.usage.reasoning.output_tokens", usage.reasoning_tokens),
    ] {
        if tokens > 0 {
            span.record(name, count(tokens));
        }
    }
    if let Some(cost) = cost.filter(|cost| cost.micros > 0) {
        span.record("toolwright.cost", cost.micros as f64 / 1e6);
    }
    match end {
        Ok(reply) => {
            if let Some(model) = &reply.model {
                span.record("gen_ai.response.model", model.as_str());
            }
            let finish = match &reply.finish {
                Finish::Stop if reply.tool_calls().next().is_some() => "tool_call",
                Finish::Stop => "stop",
                Finish::Length => "length",
                Finish::Paused => "pause",
                Finish::Refused => "content_filter",
                Finish::Other(reason) => reason,
            };
            // The convention has a list. `tracing` has no lists, and there is only one reason.
            span.record("gen_ai.response.finish_reasons", finish);
            if cx.captures_content() {
                span.record("gen_ai.output.messages", content::output(reply, finish));
            }
        }
        Err(error) => failed(span, cx, error),
    }
}

/// Marks a span as failed, with the error's stage. The error's text may contain user data, so it is
/// recorded only if content may be captured.
pub(crate) fn failed(span: &Span, cx: &Context, error: &Error) {
    span.record("error.type", error.stage().to_string());
    span.record("otel.status_code", "ERROR");
    if cx.captures_content() {
        span.record("otel.status_description", format!("{error:#}"));
    }
}
