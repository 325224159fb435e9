//! `tracing` spans of model calls, with OpenTelemetry's names for generative AI.
//!
//! Without a subscriber a span costs one check of a flag.

use serde::Serialize;
use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::context::Context;
use crate::error::Error;
use crate::model::{Finish, LanguageModel, Reply, Request};

pub(crate) fn chat(cx: &Context, model: &dyn LanguageModel, request: &Request) -> Span {
    let span = info_span!(
        "chat",
        otel.name = Empty,
        otel.kind = "client",
        otel.status_code = Empty,
        error.type = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = model.provider(),
        gen_ai.request.model = model.name(),
        gen_ai.request.max_tokens = request.max_output_tokens(),
        gen_ai.response.model = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.input.messages = Empty,
        gen_ai.output.messages = Empty,
    );
    if !span.is_disabled() {
        span.record("otel.name", format!("chat {}", model.name()));
        if cx.captures_content() {
            span.record("gen_ai.input.messages", json(&request.messages));
        }
    }
    span
}

pub(crate) fn replied(span: &Span, cx: &Context, end: Result<&Reply, &Error>) {
    if span.is_disabled() {
        return;
    }
    let usage = end.map_or_else(Error::usage, |reply| reply.usage);
    // A count that the server did not report is unknown, not zero.
    if usage.input_tokens > 0 || !usage.incomplete {
        span.record("gen_ai.usage.input_tokens", usage.input_tokens);
    }
    if usage.output_tokens > 0 || !usage.incomplete {
        span.record("gen_ai.usage.output_tokens", usage.output_tokens);
    }
    if usage.cached_tokens > 0 {
        span.record("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens);
    }
    match end {
        Ok(reply) => {
            if let Some(model) = &reply.model {
                span.record("gen_ai.response.model", model.as_str());
            }
            let finish = match &reply.finish {
                Finish::Stop if reply.tool_calls().next().is_some() => "tool_calls",
                Finish::Stop => "stop",
                Finish::Length => "length",
                Finish::Paused => "pause",
                Finish::Refused => "content_filter",
                Finish::Other(reason) => reason,
            };
            span.record("gen_ai.response.finish_reasons", json(&[finish]));
            if cx.captures_content() {
                span.record("gen_ai.output.messages", json(&reply.parts));
            }
        }
        Err(error) => failed(span, error),
    }
}

/// Marks a span as failed. It records the stage but not the text, which may contain user data.
pub(crate) fn failed(span: &Span, error: &Error) {
    span.record("error.type", error.stage().to_string());
    span.record("otel.status_code", "ERROR");
}

fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
