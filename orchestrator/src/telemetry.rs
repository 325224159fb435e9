//! `tracing` spans of agents and tool calls, with OpenTelemetry's names for generative AI. The
//! module crate makes the spans of model calls.

use toolwright_module::driver;
use toolwright_module::{Context, Error, ToolCall};
use toolwright_signature::Repair;
use tracing::field::Empty;
use tracing::{Span, info_span};

pub(crate) fn invoke_agent(name: &str, model: &str, provider: &str) -> Span {
    let span = info_span!(
        "invoke_agent",
        otel.name = Empty,
        otel.kind = "internal",
        otel.status_code = Empty,
        error.type = Empty,
        gen_ai.operation.name = "invoke_agent",
        gen_ai.provider.name = provider,
        gen_ai.agent.name = name,
        gen_ai.request.model = model,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
    );
    if !span.is_disabled() {
        span.record("otel.name", format!("invoke_agent {name}"));
    }
    span
}

pub(crate) fn execute_tool(call: &ToolCall, cx: &Context) -> Span {
    let span = info_span!(
        "execute_tool",
        otel.name = Empty,
        otel.kind = "internal",
        otel.status_code = Empty,
        error.type = Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = call.name,
        gen_ai.tool.type = "function",
        gen_ai.tool.call.id = call.id,
        gen_ai.tool.call.arguments = Empty,
        gen_ai.tool.call.result = Empty,
        toolwright.repairs = Empty,
        toolwright.repairs.list = Empty,
    );
    if !span.is_disabled() {
        span.record("otel.name", format!("execute_tool {}", call.name));
        if driver::captures_content(cx) {
            span.record("gen_ai.tool.call.arguments", call.arguments.as_str());
        }
    }
    span
}

/// Records the number of repairs of a call. The list of repairs quotes values, so it is recorded
/// only if content may be captured.
pub(crate) fn repaired(span: &Span, repairs: &[Repair], cx: &Context) {
    if repairs.is_empty() || span.is_disabled() {
        return;
    }
    span.record("toolwright.repairs", repairs.len());
    if driver::captures_content(cx) {
        let list: Vec<String> = repairs.iter().map(ToString::to_string).collect();
        span.record("toolwright.repairs.list", list.join("; "));
    }
}

/// Marks a span as failed. It records the stage but not the text, which may contain user data.
pub(crate) fn failed(span: &Span, error: &Error) {
    span.record("error.type", error.stage().to_string());
    span.record("otel.status_code", "ERROR");
}
