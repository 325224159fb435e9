//! The steps of a run and the calls in them, as HTML.

use std::time::Duration;

use maud::{Markup, html};
use serde_json::Value;
use toolwright_module::Reply;
use toolwright_module::approval::Decision;
use toolwright_module::budget::Spent;
use toolwright_module::message::ReplyPart;
use toolwright_orchestrator::Compacted;

use super::parts::{is_compaction, mark, state_of, word_of};
use super::problems::{self, Location};
use super::scale::{share, tokens};
use super::tree::{Call, MOST_LEVELS, Step};
use super::view::View;
use super::words::{self, cost_in_words, cost_of};

/// Number of steps in a group, and the number above which steps are grouped.
const GROUP: usize = 50;
const MOST_UNGROUPED: usize = 120;

impl View<'_> {
    pub(super) fn steps(&self) -> Markup {
        let steps = &self.tree.root.steps;
        html! {
            section aria-labelledby="steps" {
                div.bar {
                    h2 #steps tabindex="-1" { "Steps " span.muted { (words::number(steps.len() as u64)) } }
                    form #filter role="search" hidden {
                        input #search type="search" placeholder="Search the steps" aria-label="Search the steps" autocomplete="off";
                        label { input #only type="checkbox"; " Errors only" }
                        button #all type="button" { "Open all" }
                        output #count aria-live="polite" {}
                    }
                }
                @if self.tree.too_deep > 0 {
                    p.note { (words::count(self.tree.too_deep, "record")) " of agents below more than " (MOST_LEVELS) " others are not shown here. " code { "toolwright runs show" } " lists them." }
                }
                @if steps.is_empty() { p.muted { "The model has not answered yet." } }
                @else {
                    div.heads aria-hidden="true" {
                        span {} span { "step" }
                        span.legend { span.key.model { "model" } " " span.key.tool { "tools" } }
                        span.legend { span.key.spent { (self.scale.cost_name()) } }
                    }
                    (self.stops(0))
                    @if steps.len() <= MOST_UNGROUPED {
                        @for (index, step) in steps.iter().enumerate() {
                            (self.step(step, index, None, ""))
                            (self.stops(index + 1))
                        }
                    } @else {
                        @for (group, chunk) in steps.chunks(GROUP).enumerate() { (self.group(chunk, group * GROUP)) }
                    }
                }
            }
        }
    }

    fn group(&self, steps: &[Step], from: usize) -> Markup {
        let number = |step: Option<&Step>| words::number(step.map_or(0, |step| step.number()));
        let time: Duration = steps.iter().map(|step| step.elapsed + step.calls_elapsed()).sum();
        let mut spent = Spent::default();
        steps.iter().for_each(|step| spent += step.total());
        let bad = steps.iter().filter(|step| problems::is_bad(step)).count();
        html! {
            details.group {
                summary {
                    span.what {
                        b { "Steps " (number(steps.first())) " to " (number(steps.last())) }
                        @if bad > 0 { " " span.tag.bad { (words::count(bad, "step")) " with errors" } }
                    }
                    span.time.num { (words::duration(time)) }
                    span.cost.num { (self.scale.cost_text(spent)) }
                }
                @for (index, step) in steps.iter().enumerate() {
                    (self.step(step, from + index, None, ""))
                    (self.stops(from + index + 1))
                }
            }
        }
    }

    /// The errors that stopped the run after this number of steps.
    fn stops(&self, after: usize) -> Markup {
        let stops = self.tree.stops.iter().enumerate().filter(|(_, stop)| stop.after == after);
        html! {
            @for (index, stop) in stops {
                details.step id={ "stop" (index) } data-bad data-top {
                    summary {
                        span.n {}
                        span.what { (mark("bad")) b { @if stop.is_open { "Stopped" } @else { "Failed" } } " " span.muted { (self.texts.first_words(&stop.error, 120)) } }
                    }
                    div.body {
                        (self.texts.block(&stop.error))
                        p.usage.num { span { (words::time(stop.at)) } }
                    }
                }
            }
        }
    }

    fn step(&self, step: &Step, index: usize, above: Option<&Location>, agent: &str) -> Markup {
        let place = Location::step(above, agent, index, step);
        let bad = problems::is_bad(step);
        let few = step.calls.len() <= 3;
        html! {
            details.step id=(place.id) data-bad[bad] data-top[above.is_none()] {
                summary {
                    span.n.num { (step.number()) }
                    span.what { (self.headline(step)) }
                    (self.time_bar(step.elapsed, step.calls_elapsed()))
                    (self.cost_bar(step.total()))
                }
                div.body {
                    @for problem in problems::of_step(step) { p.error { (self.texts.shown(&problem)) } }
                    @for (compacted, spent) in &step.compactions { (self.compaction(compacted, *spent)) }
                    (self.reply(step))
                    @for (index, call) in step.calls.iter().enumerate() { (self.call(call, &place.call(index), few)) }
                }
            }
        }
    }

    /// How the conversation was shortened before a step.
    fn compaction(&self, made: &Compacted, spent: Spent) -> Markup {
        html! {
            details.part {
                summary {
                    span.tag.warn { "Compaction" } " about " (words::short(made.tokens_before)) " → " (words::short(made.tokens_after)) " tokens"
                    @if made.cleared > 0 { ", " (words::number(made.cleared)) " results cleared or cut" }
                    @if made.summary.is_some() { ", earlier messages replaced by a summary" }
                    (cost_of(spent))
                }
                @if let Some(summary) = &made.summary { (self.texts.block(summary)) }
                @for kept in &made.kept { p.note { "Kept: " (self.texts.shown(kept)) } }
            }
        }
    }

    /// The line of a step: its calls, or the start of its text.
    fn headline(&self, step: &Step) -> Markup {
        if step.calls.is_empty() {
            let text = step.reply.as_ref().map(Reply::to_text).unwrap_or_default();
            return html! {
                @if !problems::of_step(step).is_empty() { (mark("bad")) }
                @if text.trim().is_empty() { span.muted { "no text" } }
                @else { span.said { (self.texts.first_words(&text, 120)) } }
            };
        }
        let mut lines: Vec<(&str, &'static str, usize, &Call)> = Vec::new();
        for call in &step.calls {
            let state = state_of(call);
            match lines.iter_mut().find(|(name, known, ..)| *name == call.name && *known == state) {
                Some(line) => line.2 += 1,
                None => lines.push((&call.name, state, 1, call)),
            }
        }
        html! {
            @for (name, state, count, call) in lines.iter().take(4) {
                span.chip {
                    (mark(state)) b { (self.texts.shown(name)) }
                    @if let Some(word) = word_of(state) { " " span class={ "tag " (state) } { (word) } }
                    @if *count > 1 { span.muted { " ×" (count) } }
                    @else if lines.len() == 1 && let Some(arguments) = &call.arguments {
                        " " span.args { (self.texts.first_words(arguments, 100)) }
                    }
                }
                " "
            }
            @if lines.len() > 4 { span.muted { "and " (lines.len() - 4) " more" } }
        }
    }

    fn time_bar(&self, model: Duration, tools: Duration) -> Markup {
        let most = self.scale.time.as_secs_f64();
        let (first, second) = (share(model.as_secs_f64(), most), share(tools.as_secs_f64(), most));
        html! {
            span.time {
                svg.meter aria-hidden="true" {
                    rect.model width=(first) height="100%" {}
                    rect.tool x=(first) width=(second) height="100%" {}
                }
                span.num { @if (model + tools).is_zero() { "–" } @else { (words::duration(model + tools)) } }
            }
        }
    }

    fn cost_bar(&self, spent: Spent) -> Markup {
        let cost = self.scale.cost(spent);
        html! {
            span.cost {
                svg.meter aria-hidden="true" {
                    rect.cost width=(share(cost as f64, self.scale.cost as f64)) height="100%" {}
                }
                span.num { (self.scale.cost_or_dash(spent)) }
            }
        }
    }

    /// What the model wrote, beside its calls, and what it used.
    fn reply(&self, step: &Step) -> Markup {
        let Some(reply) = &step.reply else {
            return html! { @if step.exhausted.is_empty() { p.muted { "This model call has no recorded reply." } } };
        };
        let usage = reply.usage;
        html! {
            @for part in &reply.parts {
                @match part {
                    ReplyPart::Text(text) if !text.text.trim().is_empty() => div.prose { (self.texts.block(&text.text)) },
                    ReplyPart::Reasoning(reasoning) => @if !reasoning.text.trim().is_empty() {
                        details.part { summary { "Reasoning" } (self.texts.block(&reasoning.text)) }
                    } @else { p.muted { "Reasoning that the provider keeps to itself (" (self.texts.shown(&reasoning.provider)) ")" } },
                    ReplyPart::Other(other) => details.part {
                        summary { @if is_compaction(&other.value) { span.tag.warn { "Compaction" } " " } "A part of " (self.texts.shown(&other.provider)) ": " code { (self.texts.shown(other.value["type"].as_str().unwrap_or("unknown"))) } }
                        (self.texts.block(&serde_json::to_string_pretty(&other.value).unwrap_or_default()))
                    },
                    _ => {}
                }
            }
            p.usage.num {
                span { (words::number(usage.input_tokens)) " input tokens" }
                @if usage.cached_tokens > 0 { span { (words::number(usage.cached_tokens)) " of them cached" } }
                @if usage.cache_written_tokens > 0 { span { (words::number(usage.cache_written_tokens)) " written to the cache" } }
                span { (words::number(usage.output_tokens)) " output tokens" }
                @if usage.reasoning_tokens > 0 { span { (words::number(usage.reasoning_tokens)) " of them reasoning" } }
                @if usage.incomplete { span { "the server did not report all" } }
                @if let Some(cost) = cost_in_words(step.spent) { span { "cost " (cost) } }
                span { (words::duration(step.elapsed)) }
                @if let Some(at) = step.at { span { (words::time(at)) } }
                @if let Some(model) = &reply.model { span { (self.texts.shown(model)) } }
            }
        }
    }

    fn call(&self, call: &Call, place: &Location, open: bool) -> Markup {
        let (state, name) = (state_of(call), self.texts.shown(&call.name));
        html! {
            details.call id=(place.id) open[open] data-bad[problems::is_bad_call(call)] {
                summary {
                    span.what {
                        (mark(state)) b { @if name.is_empty() { "a call" } @else { (name) } }
                        @if call.below.is_some() { " " span.tag { "agent" } }
                        @if let Some(word) = word_of(state) { " " span class={ "tag " (state) } { (word) } }
                        @if !problems::repairs(call).is_empty() { " " span.tag { "repaired" } }
                        @if let Some(arguments) = &call.arguments { " " span.args { (self.texts.first_words(arguments, 100)) } }
                    }
                    (self.time_bar(Duration::ZERO, call.elapsed()))
                    (self.cost_bar(call.spent()))
                }
                div.body {
                    (self.arguments(call))
                    @for asked in &call.asked { (self.texts.decision(asked)) }
                    (self.outcome(call))
                    @if let Some(below) = &call.below {
                        div.below {
                            h3 { "The run of " code { (name) } " " span.muted { (words::count(below.steps.len(), "step")) ", " (words::short(tokens(below.spent()))) " tokens" } }
                            (self.chart(below, &place.id))
                            @for (name, value) in &below.values {
                                details.part { summary { "Value " code { (self.texts.shown(name)) } } (self.texts.block(&serde_json::to_string_pretty(value).unwrap_or_default())) }
                            }
                            @for (index, step) in below.steps.iter().enumerate() { (self.step(step, index, Some(place), &call.name)) }
                        }
                    }
                }
            }
        }
    }

    pub(super) fn arguments(&self, call: &Call) -> Markup {
        let Some(written) = &call.arguments else {
            return html! { p.muted { "The reply names this call in its text." } };
        };
        // The name of a field may say that its value is a key.
        let written = self.texts.without_keys(written);
        let repaired = call.result().and_then(|(result, _)| result.repaired.as_deref());
        let repairs = problems::repairs(call);
        let edited = call.asked.iter().find_map(|asked| match &asked.decided {
            Some((_, Decision::Edit { arguments })) => Some(arguments),
            _ => None,
        });
        // A long text on one line, or one with escaped lines or letters, is easier to read as fields.
        let read = repaired
            .map(|repaired| &repaired.json)
            .or(edited)
            .map(|json| self.texts.without_keys(json));
        let is_escaped = ["\\n", "\\u"].iter().any(|escape| written.contains(escape));
        let is_long = written.len() > 120 || is_escaped;
        let fields = read.as_ref().or(is_long.then_some(&written));
        let fields = fields.and_then(|json| serde_json::from_str::<Value>(json).ok());
        html! {
            p.label { "Arguments, as the model wrote them" }
            (self.texts.block(&written))
            @if !repairs.is_empty() {
                p.label { "Repairs" }
                ul.repairs { @for repair in &repairs { li { (self.texts.shown(repair)) } } }
            }
            @if edited.is_some() { p.label { "Arguments, as the person changed them" } }
            @else if repaired.is_some() { p.label { "Arguments, as they were read" } }
            @else if fields.is_some() { p.label { "The same, as fields" } }
            @if let Some(fields) = fields { (self.texts.fields(&fields)) }
            @else if let Some(read) = read { (self.texts.block(&read)) }
        }
    }

    fn outcome(&self, call: &Call) -> Markup {
        let many = call.attempts.len() > 1;
        html! {
            @for (at, attempt) in call.attempts.iter().enumerate() {
                @if many { p.label { "Attempt " (at + 1) } }
                (self.texts.attempt(attempt))
            }
            @if call.attempts.is_empty() {
                @if let Some(result) = &call.own_result {
                    p.label { "No tool got this call. The run answered it" }
                    (self.texts.block(&result.text))
                } @else if call.waits() {
                    p.muted { "The call was not made yet: it waits for a decision." }
                } @else if call.is_answer {
                    p.muted { "This call gave the answer of the run." }
                } @else if let Some(why) = call.failure() {
                    p.error { (why) }
                } @else if call.below.is_none() {
                    p.muted { "The journal has no result of this call yet." }
                }
            }
        }
    }
}
