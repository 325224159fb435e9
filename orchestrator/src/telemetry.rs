//! `tracing` spans and metrics of agents and tool calls, with OpenTelemetry's names for generative AI.
//! The module crate makes those of model calls.

use std::time::Instant;

use serde_json::json;
use toolwright_module::error::Stage;
use toolwright_module::event::Ending;
use toolwright_module::message::Part;
use toolwright_module::runner;
use toolwright_module::{Context, LanguageModel, Message, Tool, ToolCall};
use toolwright_signature::Repair;
use tracing::field::Empty;
use tracing::{Level, Span, event, info_span};

use crate::run::Run;

pub(crate) fn invoke_agent(
    name: &str,
    model: &dyn LanguageModel,
    task: &[Part],
    cx: &Context,
) -> Span {
    let span = info_span!(
        "invoke_agent",
        otel.name = Empty,
        otel.kind = "internal",
        otel.status_code = Empty,
        otel.status_description = Empty,
        error.type = Empty,
        gen_ai.operation.name = "invoke_agent",
        gen_ai.provider.name = model.provider(),
        gen_ai.conversation.id = cx.run_id(),
        gen_ai.agent.name = name,
        gen_ai.request.model = model.name(),
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.input.messages = Empty,
        gen_ai.output.messages = Empty,
        toolwright.cost = Empty,
        toolwright.run.metadata = Empty,
    );
    if !span.is_disabled() {
        span.record("otel.name", format!("invoke_agent {name}"));
        if let Some(metadata) = cx.metadata().filter(|metadata| !metadata.is_empty()) {
            span.record("toolwright.run.metadata", json!(metadata).to_string());
        }
        if runner::captures_content(cx) {
            let task = Message::user_parts(task.iter().cloned());
            span.record("gen_ai.input.messages", runner::span_messages(&[task]));
        }
    }
    span
}

/// Records what a run has used, its tools and the agents below it included.
pub(crate) fn spent(span: &Span, run: &Run) {
    let spent = run.spent();
    // Bridges to OpenTelemetry make a text of a `u64`.
    let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    span.record("gen_ai.usage.input_tokens", count(spent.usage.input_tokens));
    span.record("gen_ai.usage.output_tokens", count(spent.usage.output_tokens));
    if spent.money.micros > 0 {
        span.record("toolwright.cost", spent.money.micros as f64 / 1e6);
    }
}

/// Records the answer of a run, if content may be captured.
pub(crate) fn answered(span: &Span, answer: &str, cx: &Context) {
    if !span.is_disabled() && runner::captures_content(cx) {
        let parts = [json!({"type": "text", "content": answer})];
        let answer = json!([{"role": "assistant", "parts": parts, "finish_reason": "stop"}]);
        span.record("gen_ai.output.messages", answer.to_string());
    }
}

pub(crate) fn execute_tool(call: &ToolCall, tool: Option<&Tool>, cx: &Context) -> Span {
    let span = info_span!(
        "execute_tool",
        otel.name = Empty,
        otel.kind = "internal",
        otel.status_code = Empty,
        otel.status_description = Empty,
        error.type = Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.conversation.id = cx.run_id(),
        gen_ai.tool.name = call.name,
        gen_ai.tool.type = "function",
        gen_ai.tool.description = tool.map(|tool| tool.contract().description()),
        gen_ai.tool.call.id = call.id,
        gen_ai.tool.call.arguments = Empty,
        gen_ai.tool.call.result = Empty,
        toolwright.repairs = Empty,
        toolwright.repairs.list = Empty,
    );
    if !span.is_disabled() {
        span.record("otel.name", format!("execute_tool {}", call.name));
        if runner::captures_content(cx) {
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
    span.record("toolwright.repairs", repairs.len() as i64);
    if runner::captures_content(cx) {
        let list: Vec<String> = repairs.iter().map(ToString::to_string).collect();
        span.record("toolwright.repairs.list", list.join("; "));
    }
}

/// Measures a drive of a run or a call of a tool. One that is dropped before its end is reported as
/// cancelled.
pub(crate) struct Meter<'a> {
    of: Measured<'a>,
    /// `None` after the end, and if nothing listens.
    started: Option<Instant>,
}

#[derive(Clone, Copy)]
pub(crate) enum Measured<'a> {
    Agent {
        name: &'a str,
        model: &'a dyn LanguageModel,
    },
    /// The name of the tool. `None` if there is no such tool: the name is then a text of the model.
    Tool(Option<&'a str>),
}

impl<'a> Meter<'a> {
    pub(crate) fn start(of: Measured<'a>) -> Self {
        Self { of, started: runner::metrics_start() }
    }

    /// Reports the end, with the stage of the error.
    pub(crate) fn end(mut self, error: Option<Stage>, ending: Option<Ending>) {
        self.report(error, ending);
    }

    fn report(&mut self, error: Option<Stage>, ending: Option<Ending>) {
        let Some(started) = self.started.take() else { return };
        // A run that waits for a person has not failed.
        let waits = error == Some(Stage::Approval);
        let error = error.filter(|_| !waits).map(|it| it.to_string());
        let seconds = started.elapsed().as_secs_f64();
        match self.of {
            Measured::Agent { name, model } => event!(
                target: "toolwright::metrics",
                parent: None,
                Level::TRACE,
                gen_ai.operation.name = "invoke_agent",
                gen_ai.agent.name = name,
                gen_ai.provider.name = model.provider(),
                gen_ai.request.model = model.name(),
                error.type = error,
                toolwright.ending = if waits { Some("waiting") } else { ending.map(name_of) },
                histogram.gen_ai.invoke_agent.duration = seconds,
            ),
            Measured::Tool(name) => event!(
                target: "toolwright::metrics",
                parent: None,
                Level::TRACE,
                gen_ai.operation.name = "execute_tool",
                gen_ai.tool.name = name.unwrap_or("_OTHER"),
                error.type = error,
                histogram.gen_ai.execute_tool.duration = seconds,
            ),
        }
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        self.report(Some(Stage::Cancelled), None);
    }
}

/// Returns the name of an ending, which is that in stored runs.
fn name_of(ending: Ending) -> &'static str {
    match ending {
        Ending::Answered => "answered",
        Ending::LimitReached => "limit_reached",
        Ending::CutOff => "cut_off",
        Ending::Refused => "refused",
        Ending::Stuck => "stuck",
        _ => "unclear",
    }
}
