//! Pieces of a page that stand in several places.

use maud::{Markup, html};
use serde_json::Value;
use toolwright_module::approval::Decision;
use toolwright_orchestrator::perform::OutcomeKind;

use super::problems::{self, Location, Problem};
use super::texts::Texts;
use super::tree::{Asked, Attempt, Call};
use super::words;

/// A figure with its name and a note.
pub fn fact(name: &str, value: Markup, note: &str) -> Markup {
    html! { div { dt { (name) } dd { span.value.num { (value) } @if !note.is_empty() { span.muted { (note) } } } } }
}

/// Pieces with texts of the run.
impl Texts {
    /// `is_last` says that it is in the step after which the run failed.
    pub(super) fn problem(&self, problem: &Problem, is_last: bool) -> Markup {
        let places = &problem.places;
        // Calls of one step have the same label.
        let mut steps: Vec<&Location> = places.iter().collect();
        steps.dedup_by_key(|place| &place.label);
        html! {
            div.item {
                p {
                    (mark(if problem.is_doubt { "warn" } else { "bad" }))
                    @if problem.what == "model" { strong { "The model" } } @else { strong { code { (self.shown(&problem.what)) } } }
                    @if places.len() > 1 { span.muted { " ×" (places.len()) } }
                    span.muted { @if steps.len() > 1 { " in steps " } @else { " in step " } }
                    @for (at, place) in steps.iter().take(6).enumerate() {
                        @if at > 0 { ", " }
                        a href={ "#" (place.id) } { (self.shown(&place.label)) }
                    }
                    @if steps.len() > 6 { span.muted { " and " (steps.len() - 6) " more" } }
                    @if is_last { " " span.tag.bad { "in the last step" } }
                }
                (self.block(&problem.text))
                @if problem.is_like_others { p.note { "The first of " (places.len()) " errors that differ only in their numbers." } }
            }
        }
    }

    pub(super) fn attempt(&self, attempt: &Attempt) -> Markup {
        let Some((at, outcome)) = &attempt.outcome else {
            return html! {
                @if let Some(at) = attempt.failed {
                    p.error { "An error stopped the run during this call, on " (words::time(at)) ". The run makes it again when it is resumed." }
                } @else if let Some(at) = attempt.begun {
                    p.error { "Begun on " (words::time(at)) ", without a result. Either it is still running, or its program ended during it." }
                }
            };
        };
        html! {
            @match &outcome.kind {
                OutcomeKind::Called { result, error } => {
                    @if let Some(error) = error {
                        p.label.badtext { "Error" }
                        (self.block(error))
                        @if *error != result.text { p.label { "What the model got" } (self.block(&result.text)) }
                    } @else if result.failed {
                        p.label.badtext { "Refused" }
                        (self.block(&result.text))
                    } @else {
                        p.label { "Result" }
                        @if result.text.is_empty() { p.muted { "The text is empty." } } @else { (self.block(&result.text)) }
                    }
                    @if let Some(whole) = &result.whole { p.muted { "The run keeps " (words::number(whole.len() as u64)) " bytes of the whole text, which the model can read with " code { "read_result" } "." } }
                    @for part in &result.parts { p.muted { "With " @match part.kind() { "image" => "an image", "audio" => "a sound", "text" => "a text", kind => { "a " (kind) } } ", which this page does not show." } }
                    @if let Some(value) = &result.value {
                        details.part { summary { "The output as JSON" } (self.block(&serde_json::to_string_pretty(value).unwrap_or_default())) }
                    }
                }
                OutcomeKind::Unknown => p.error { "The program ended during this attempt, so nobody knows whether it took effect." }
                OutcomeKind::Exhausted { limit, allowed } => p.error { "The limit of " (words::limit(*limit, *allowed)) " was reached." }
                _ => {}
            }
            p.usage.num { span { (words::duration(outcome.elapsed)) } span { (words::time(*at)) } }
        }
    }

    pub(super) fn decision(&self, asked: &Asked) -> Markup {
        html! {
            p.decision {
                @if asked.decided.is_some() { "This call " (self.decided_words(asked)) }
                @else if let Some((at, _)) = &asked.asked { "A person was asked on " (words::time(*at)) ", and has not decided." }
                @if let Some(reason) = asked.asked.as_ref().and_then(|(_, asked)| asked.reason.as_ref()) { " Reason: " (self.shown(reason)) "." }
            }
        }
    }

    /// Returns the decision, as the end of a sentence about the call.
    pub(super) fn decided_words(&self, asked: &Asked) -> Markup {
        let Some((at, decision)) = &asked.decided else { return html! {} };
        let waited = asked.asked.as_ref().and_then(|(since, _)| at.duration_since(*since).ok());
        html! {
            @match decision {
                Decision::Approve => "was approved",
                Decision::Edit { .. } => "was approved with other arguments",
                Decision::Deny { reason } => { "was denied (“" (self.shown(reason)) "”)" },
                Decision::Happened { .. } => "was said to have taken effect",
                Decision::CallAgain => "was approved to be made again",
                _ => "was decided on",
            }
            @if let Some(by) = &asked.by { " by " strong { (self.shown(by)) } }
            span.muted { " on " (words::time(*at)) @if let Some(waited) = waited { ", after " (words::duration(waited)) } }
        }
    }
}

/// Returns the state of a call, which is also its class.
pub(super) fn state_of(call: &Call) -> &'static str {
    if call.waits() {
        "waits"
    } else if call.denied().is_some() {
        "denied"
    } else if call.is_unmade() {
        "unmade"
    } else if call.failure().is_some() {
        "bad"
    } else if call.is_answer {
        "good"
    } else if call.result().is_some() {
        if call.below.as_ref().is_some_and(|below| below.steps.iter().any(problems::is_bad)) {
            "partly"
        } else {
            "good"
        }
    } else if call.is_lost() {
        "warn"
    } else {
        "open"
    }
}

pub(super) fn word_of(state: &str) -> Option<&'static str> {
    match state {
        "waits" => Some("waits"),
        "denied" => Some("denied"),
        "bad" => Some("failed"),
        "warn" => Some("no result"),
        "unmade" => Some("not made"),
        "partly" => Some("errors below"),
        _ => None,
    }
}

/// The sign of a state, with a name for screen readers.
pub(super) fn mark(state: &str) -> Markup {
    let (sign, name) = match state {
        "good" => ("✓", "done"),
        "partly" => ("✓", "done, with errors below"),
        "bad" => ("✕", "failed"),
        "unmade" => ("✕", "not made"),
        "warn" => ("?", "no known result"),
        "waits" => ("!", "waits for a decision"),
        "denied" => ("⊘", "denied"),
        _ => ("·", "no result yet"),
    };
    html! { span class={ "mark " (state) } role="img" aria-label=(name) { (sign) } }
}

/// Returns the limits that are set.
pub(super) fn set_limits(limits: &Value) -> Value {
    let mut limits = limits.clone();
    if let Value::Object(fields) = &mut limits {
        fields.retain(|_, value| {
            !value.is_null() && value.as_object().is_none_or(|it| !it.is_empty())
        });
    }
    limits
}

/// Returns whether a provider's part says that it compacted the conversation.
pub(super) fn is_compaction(value: &Value) -> bool {
    value["type"].as_str().is_some_and(|kind| kind.contains("compaction"))
}
