//! `tracing` spans of attempts and grades, with OpenTelemetry's names for generative AI.
//!
//! The spans of the agent and of a judge's model are inside them. Without a subscriber a span costs one
//! check of a flag.

use toolwright_module::{Context, runner};
use tracing::field::Empty;
use tracing::{Level, Span, event, info_span};

use crate::grade::{Grade, Verdict};
use crate::report::GradedAttempt;

/// Returns the span of an attempt, inside the span that was current where the eval began.
pub(crate) fn attempt(around: &Span, eval: &str, case: &str, repeat: u32) -> Span {
    let span = info_span!(
        parent: around,
        "eval",
        otel.name = Empty,
        toolwright.eval.name = eval,
        toolwright.eval.case = case,
        toolwright.eval.repeat = i64::from(repeat),
        toolwright.eval.passed = Empty,
    );
    if !span.is_disabled() {
        span.record("otel.name", format!("eval {eval}: {case}"));
    }
    span
}

/// Records the outcome of an attempt.
pub(crate) fn attempted(span: &Span, graded: &GradedAttempt) {
    span.record("toolwright.eval.passed", graded.passed());
}

/// Returns the span of a grader.
pub(crate) fn evaluate(grader: &str) -> Span {
    let span = info_span!(
        "evaluate",
        otel.name = Empty,
        otel.status_code = Empty,
        error.type = Empty,
        gen_ai.evaluation.name = grader,
        gen_ai.evaluation.score.value = Empty,
        gen_ai.evaluation.score.label = Empty,
        gen_ai.evaluation.explanation = Empty,
    );
    if !span.is_disabled() {
        span.record("otel.name", format!("evaluate {grader}"));
    }
    span
}

/// Records a grade: in the span of the grader, and as an event of the attempt, which is the current span.
///
/// The reason may contain a user's text, so it is recorded only if content may be captured.
pub(crate) fn evaluated(span: &Span, grader: &str, grade: &Grade, cx: &Context) {
    let label = match grade.verdict {
        Verdict::Pass => Some("pass"),
        Verdict::Fail => Some("fail"),
        Verdict::Skip => return,
        Verdict::Error => None,
    };
    let failed = label.is_none().then_some("grader");
    let explanation =
        (runner::captures_content(cx) && !grade.reason.is_empty()).then_some(grade.reason.as_str());
    span.record("gen_ai.evaluation.score.value", grade.score);
    span.record("gen_ai.evaluation.score.label", label);
    span.record("gen_ai.evaluation.explanation", explanation);
    if failed.is_some() {
        span.record("error.type", failed);
        span.record("otel.status_code", "ERROR");
    }
    event!(
        name: "gen_ai.evaluation.result",
        Level::INFO,
        {
            gen_ai.evaluation.name = grader,
            gen_ai.evaluation.score.value = grade.score,
            gen_ai.evaluation.score.label = label,
            gen_ai.evaluation.explanation = explanation,
            error.type = failed,
        },
        // The message is the name of the event in OpenTelemetry's form.
        "gen_ai.evaluation.result"
    );
}
