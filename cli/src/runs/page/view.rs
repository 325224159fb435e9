//! The HTML of a run.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use maud::{Markup, html};
use serde_json::Value;
use toolwright_journal::{RunStatus, RunSummary};
use toolwright_module::approval::Decision;
use toolwright_module::budget::Spent;
use toolwright_module::event::Ending;
use toolwright_module::message::ReplyPart;
use toolwright_orchestrator::perform::OutcomeKind;

use super::problems::{self, Found, Place, Problem};
use super::tree::{Agent, Asked, Attempt, Call, Step, Tree};
use super::words::{self, shown};
use crate::runs::TASK;

/// Texts up to this length are shown whole at once.
const SHORT: usize = 700;

/// Number of lines of a text that are shown at once.
const LINES: usize = 14;

/// Number of steps in a group, and the number above which steps are grouped.
const GROUP: usize = 50;
const MOST_UNGROUPED: usize = 120;

/// Number of problems and of decisions that are shown at once.
const LISTED: usize = 8;

pub(super) struct View<'a> {
    run: &'a RunSummary,
    task: &'a str,
    tree: &'a Tree,
    found: Found<'a>,
    now: SystemTime,
    scale: Scale,
}

/// The largest step, which fills the bars.
#[derive(Default)]
struct Scale {
    time: Duration,
    /// Money, or tokens if no price is known.
    cost: u64,
    has_money: bool,
}

impl Scale {
    fn of(tree: &Tree) -> Self {
        let has_money = tree.spent.money.micros() > 0;
        let mut scale = Self { has_money, ..Self::default() };
        for step in &tree.root.steps {
            scale.time = scale.time.max(step.elapsed + step.calls_elapsed());
            scale.cost = scale.cost.max(scale.cost(step.total()));
        }
        scale
    }

    fn cost(&self, spent: Spent) -> u64 {
        if self.has_money { spent.money.micros() } else { tokens(spent) }
    }

    fn cost_text(&self, spent: Spent) -> String {
        match (self.has_money, spent.usage.incomplete) {
            (true, _) => words::money(spent.money.micros()),
            (false, true) if tokens(spent) == 0 => "?".to_owned(),
            (false, _) => words::short(tokens(spent)),
        }
    }

    fn cost_name(&self) -> &'static str {
        if self.has_money { "money" } else { "tokens" }
    }
}

fn tokens(spent: Spent) -> u64 {
    spent.usage.input_tokens.saturating_add(spent.usage.output_tokens)
}

/// Returns a share in percent.
fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.2}%", (part / whole * 100.0).min(100.0)) } else { "0%".to_owned() }
}

impl<'a> View<'a> {
    pub(super) fn new(run: &'a RunSummary, task: &'a str, tree: &'a Tree, now: SystemTime) -> Self {
        Self { run, task, tree, found: Found::of(&tree.root), now, scale: Scale::of(tree) }
    }

    pub(super) fn title(&self) -> String {
        let (_, status) = self.status();
        format!("{status}: {}", words::first_words(&self.heading(), 70))
    }

    /// Returns the task for a heading. The task of a typed run is JSON, of which the texts say most.
    fn heading(&self) -> String {
        match serde_json::from_str(self.task) {
            Ok(Value::Object(fields)) => {
                let texts: Vec<_> = fields.values().filter_map(Value::as_str).collect();
                if texts.is_empty() { self.task.to_owned() } else { texts.join(" · ") }
            }
            _ => self.task.to_owned(),
        }
    }

    /// Returns the class and the words of the state.
    fn status(&self) -> (&'static str, &'static str) {
        match (self.run.status, self.run.ending) {
            (RunStatus::Finished, Some(Ending::Answered) | None) => ("good", "Finished"),
            (RunStatus::Finished, Some(Ending::Refused)) => ("bad", "Refused"),
            (RunStatus::Finished, Some(Ending::Stuck)) => ("bad", "Stuck"),
            (RunStatus::Finished, Some(Ending::LimitReached)) => ("warn", "Ended at a limit"),
            (RunStatus::Finished, Some(_)) => ("warn", "Ended early"),
            (RunStatus::Failed | RunStatus::Unreadable, _) => ("bad", "Failed"),
            (RunStatus::Waiting, _) => ("warn", "Waits for a person"),
            _ if self.run.error.is_some() => ("bad", "Interrupted"),
            _ => ("open", "Not ended"),
        }
    }

    /// Returns why the run is in its state, in a sentence.
    fn reason(&self) -> String {
        let waits = self.run.waiting.len();
        match (self.run.status, &self.tree.ended) {
            (RunStatus::Finished, Some(end)) => match end.ending {
                Ending::Answered => "The model gave its answer.".to_owned(),
                Ending::LimitReached => {
                    let limit = end.limit.map_or("a limit".to_owned(), |limit| {
                        format!("its limit of {}", self.allowed(limit))
                    });
                    format!("The run reached {limit}. Its answer may be incomplete.")
                }
                Ending::CutOff => "The answer was cut off at its maximum length.".to_owned(),
                Ending::Refused => "The model refused the task.".to_owned(),
                Ending::Stuck => "The model repeated the same mistake too often.".to_owned(),
                _ => match &end.reason {
                    Some(reason) => format!(
                        "The model stopped with “{}”, which is not known. Its answer may be incomplete.",
                        shown(reason)
                    ),
                    None => "The answer may be incomplete.".to_owned(),
                },
            },
            (RunStatus::Failed, _) => "The run ended without a result.".to_owned(),
            (RunStatus::Waiting, _) => {
                let verb = if waits == 1 { "waits" } else { "wait" };
                format!("{} {verb} for a person’s decision.", words::count(waits, "call"))
            }
            _ if self.run.error.is_some() => {
                match self.tree.root.steps.last() {
                    Some(step) => format!("An error ended the last drive after step {}. The next drive goes on there.", step.nth + 1),
                    None => "An error ended the last drive. The next drive begins again.".to_owned(),
                }
            }
            _ => "Its program drives it now, or was cut off. The next drive goes on where the run is."
                .to_owned(),
        }
    }

    fn allowed(&self, limit: toolwright_module::budget::LimitKind) -> String {
        use toolwright_module::budget::LimitKind;
        let limits = &self.tree.limits;
        let name = serde_json::to_value(limit).unwrap_or_default();
        let allowed = match limit {
            LimitKind::Iterations => limits["max_iterations"].as_u64(),
            LimitKind::Time => None,
            _ => limits["budget"][name.as_str().unwrap_or_default()].as_u64(),
        };
        allowed.map_or(limit.to_string(), |allowed| words::limit(limit, allowed))
    }

    pub(super) fn body(&self, reload: Option<u64>) -> Markup {
        let (class, status) = self.status();
        html! {
            a.skip href="#steps" { "Skip to the steps" }
            header {
                p.state {
                    span class={ "pill " (class) } { (status) }
                    @if let Some(seconds) = reload {
                        span.pill.live { "Live, every " (seconds) " s" }
                        button #pause type="button" hidden { "Pause" }
                    }
                }
                h1 { (words::first_words(&self.heading(), 160)) }
                p.reason { (self.reason()) " Started " time { (words::time(self.run.started)) } "." }
                @if let Some(error) = &self.run.error { (self.why(error)) }
                dl.facts { (self.facts()) }
            }
            main {
                (self.waiting())
                (self.problems())
                (self.answer())
                (self.chart(&self.tree.root, ""))
                (self.steps())
                (self.decisions())
                (self.tools())
                (self.task_section())
            }
            footer {
                p {
                    "Run " code { (shown(&self.run.id)) } ", from " (words::count(self.run.records, "record"))
                    " of its journal, written by toolwright " (env!("CARGO_PKG_VERSION")) " on "
                    (words::time(self.now)) "."
                }
                p #keys hidden {
                    "Keys: " kbd { "j" } " and " kbd { "k" } " next and previous line, " kbd { "Enter" }
                    " opens it, " kbd { "e" } " next error, " kbd { "/" } " search."
                }
            }
        }
    }

    /// The error of a failed run: its first sentence, and the rest on demand.
    fn why(&self, error: &str) -> Markup {
        let (first, rest) = error.trim().split_once('\n').unwrap_or((error.trim(), ""));
        html! {
            div.why {
                p { strong { (shown(first)) } }
                @if !rest.trim().is_empty() {
                    details.part { summary { "Evidence" } (text_block(rest.trim_matches('\n'))) }
                }
            }
        }
    }

    fn facts(&self) -> Markup {
        let Spent { usage, money, model_calls, .. } = self.tree.spent;
        let in_all = self.run.changed.duration_since(self.run.started).unwrap_or_default();
        let at_work = self.tree.time_at_work();
        let least = if usage.incomplete { "at least " } else { "" };
        let cached = usage.cached_tokens.saturating_mul(100).checked_div(usage.input_tokens);
        html! {
            @if money.micros() > 0 {
                (fact("Money", html! { (money) }, "in the prices’ currency"))
            }
            (fact("Tokens read", html! { (least) (words::number(usage.input_tokens)) }, &match cached {
                Some(share) if share > 0 => format!("{share}% from the cache"),
                _ => String::new(),
            }))
            (fact("Tokens written", html! { (least) (words::number(usage.output_tokens)) }, &match usage.reasoning_tokens {
                0 => String::new(),
                tokens => format!("{} for reasoning", words::short(tokens)),
            }))
            (fact("Time at work", html! { (words::duration(at_work)) }, &if in_all > at_work + Duration::from_secs(1) {
                format!("{} in all", words::duration(in_all))
            } else {
                String::new()
            }))
            (fact("Model calls", html! { (words::number(model_calls)) }, &self.models()))
            (fact("Tool calls", html! { (words::number(self.found.calls as u64)) }, &match (self.found.failed, self.found.repaired) {
                (0, 0) => String::new(),
                (0, repaired) => format!("{repaired} repaired"),
                (failed, 0) => format!("{failed} failed"),
                (failed, repaired) => format!("{failed} failed, {repaired} repaired"),
            }))
        }
    }

    /// The names of the models that answered.
    fn models(&self) -> String {
        fn of(agent: &Agent, names: &mut Vec<String>) {
            for step in &agent.steps {
                let name = step.reply.as_ref().and_then(|reply| reply.model.as_ref());
                if let Some(name) = name.filter(|name| !names.contains(name)) {
                    names.push(name.clone());
                }
                step.calls
                    .iter()
                    .filter_map(|call| call.below.as_ref())
                    .for_each(|below| of(below, names));
            }
        }
        let mut names = Vec::new();
        of(&self.tree.root, &mut names);
        let names: Vec<String> = names.iter().map(|name| shown(name)).collect();
        names.join(", ")
    }

    fn waiting(&self) -> Markup {
        let waiting: Vec<_> = self
            .found
            .asked
            .iter()
            .filter(|(_, call, asked)| asked.decided.is_none() && call.result().is_none())
            .collect();
        if waiting.is_empty() || self.run.status.is_ended() {
            return html! {};
        }
        html! {
            section.card.warn aria-labelledby="waiting" {
                h2 #waiting { "Waits for a decision" }
                @for (place, call, asked) in waiting {
                    @let effect = asked.asked.as_ref().map(|(_, approval)| approval.effect);
                    @let unknown = asked.asked.as_ref().is_some_and(|(_, approval)| approval.unknown);
                    div.item {
                        p {
                            a href={ "#" (place.id) } { code { (shown(&call.name)) } }
                            @if place.label.contains('›') { span.muted { " in step " (place.label) } }
                            " "
                            @if unknown { "was under way when its program ended, and may have taken effect. Make it again?" }
                            @else { "waits for approval" @if let Some(effect) = effect { ": " (words::effect(effect)) } "." }
                            @if let Some((at, _)) = &asked.asked {
                                span.muted { " Asked on " (words::time(*at)) ", " (words::duration(self.now.duration_since(*at).unwrap_or_default())) " before this page." }
                            }
                        }
                        (self.arguments(call))
                    }
                }
                p.muted { "Decide at a terminal: " code { "toolwright runs resume " (shown(&self.run.id)) } }
            }
        }
    }

    fn problems(&self) -> Markup {
        let problems = &self.found.problems;
        let drives: Vec<_> = self.tree.failures.iter().collect();
        // The last error stands at the top of the page, if nothing followed it.
        let last_is_shown = self.run.error.is_some();
        let drives = &drives[..drives.len().saturating_sub(usize::from(last_is_shown))];
        if problems.is_empty() && drives.is_empty() {
            return html! {};
        }
        let total: usize = problems.iter().map(|problem| problem.places.len()).sum();
        html! {
            section.card.bad aria-labelledby="errors" {
                h2 #errors { "What went wrong " span.muted { (words::number((total + drives.len()) as u64)) } }
                @for (at, error) in drives {
                    div.item {
                        p { strong { "A drive of the run ended" } span.muted { " on " (words::time(*at)) } }
                        (text_block(error))
                    }
                }
                @for problem in problems.iter().take(LISTED) { (one_problem(problem)) }
                @if problems.len() > LISTED {
                    details.more {
                        summary { "Show " (problems.len() - LISTED) " more kinds of errors" }
                        @for problem in &problems[LISTED..] { (one_problem(problem)) }
                    }
                }
            }
        }
    }

    fn answer(&self) -> Markup {
        let Some(end) = &self.tree.ended else { return html! {} };
        html! {
            section.card aria-labelledby="answer" {
                h2 #answer { "Answer" }
                @if end.answer.trim().is_empty() { p.muted { "The answer is empty." } }
                @else { div.prose { (text_block(&end.answer)) } }
            }
        }
    }

    /// The prompt as it grows: a bar for each question.
    fn chart(&self, agent: &Agent, prefix: &str) -> Markup {
        let usages: Vec<_> =
            agent.steps.iter().map(|step| step.reply.as_ref().map(|reply| reply.usage)).collect();
        let most = usages
            .iter()
            .flatten()
            .map(|usage| usage.input_tokens + usage.output_tokens)
            .max()
            .unwrap_or(0);
        if agent.steps.len() < 3 || most == 0 {
            return html! {};
        }
        let (mut cached, mut fresh, mut written, mut bad) =
            (String::new(), String::new(), String::new(), String::new());
        let width = if usages.len() > 80 { 1.0 } else { 0.8 };
        for (at, (usage, step)) in usages.iter().zip(&agent.steps).enumerate() {
            use std::fmt::Write as _;
            let usage = usage.unwrap_or_default();
            let scaled = |tokens: u64| tokens as f64 / most as f64 * 100.0;
            let mut top = 100.0;
            let parts = [
                (&mut cached, usage.cached_tokens.min(usage.input_tokens)),
                (&mut fresh, usage.input_tokens.saturating_sub(usage.cached_tokens)),
                (&mut written, usage.output_tokens),
            ];
            for (path, tokens) in parts {
                if tokens > 0 {
                    let height = scaled(tokens);
                    top -= height;
                    let _ = write!(path, "M{at} {top:.2}h{width}v{height:.2}h-{width}z");
                }
            }
            if problems::is_bad(step) {
                let _ = write!(bad, "M{at} 0h{width}v4h-{width}z");
            }
        }
        let last = agent.steps.last().map_or(0, |step| step.nth + 1);
        let shorter: Vec<_> = self
            .found
            .shorter
            .iter()
            .filter(|(place, ..)| {
                place
                    .id
                    .strip_prefix(prefix)
                    .and_then(|rest| rest.strip_prefix('s'))
                    .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
            })
            .collect();
        let label = format!(
            "Tokens of each of {} questions, at most {}",
            usages.len(),
            words::number(most)
        );
        let plot = html! {
                div.plot {
                    span.axis.num aria-hidden="true" { (words::short(most)) }
                    svg.chart role="img" aria-label=(label) viewBox={ "0 0 " (usages.len()) " 100" } preserveAspectRatio="none" data-steps=(usages.len()) data-prefix=(prefix) {
                        path.cached d=(cached) {}
                        path.fresh d=(fresh) {}
                        path.written d=(written) {}
                        path.failed d=(bad) {}
                    }
                }
                p.legend {
                    span.key.cached { "read from the cache" } " "
                    span.key.fresh { "read anew" } " "
                    span.key.written { "written" } " "
                    @if !bad.is_empty() { span.key.failed { "something went wrong" } }
                    span.range.num { "steps 1 to " (words::number(last)) }
                }
                @if !shorter.is_empty() {
                    p.note {
                        "Shorter than the prompt before, so the conversation was edited or compacted before it was sent: "
                        @for (at, (place, before, now)) in shorter.iter().take(LISTED).enumerate() {
                            @if at > 0 { ", " }
                            a href={ "#" (place.id) } { "step " (place.label) } " (" (words::short(*before)) " → " (words::short(*now)) ")"
                        }
                        @if shorter.len() > LISTED { " and " (shorter.len() - LISTED) " more" }
                        "."
                    }
                }
        };
        html! {
            @if prefix.is_empty() {
                section aria-labelledby="prompt" {
                    h2 #prompt { "The prompt " span.muted { "tokens of each question" } }
                    (plot)
                }
            } @else { div.prompt { (plot) } }
        }
    }

    fn steps(&self) -> Markup {
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
                @if steps.is_empty() { p.muted { "The model has not answered yet." } }
                @else {
                    div.heads aria-hidden="true" {
                        span {} span { "step" }
                        span.legend { span.key.model { "model" } " " span.key.tool { "tools" } }
                        span.legend { span.key.spent { (self.scale.cost_name()) } }
                    }
                    @if steps.len() <= MOST_UNGROUPED {
                        @for (index, step) in steps.iter().enumerate() { (self.step(step, index, None, "")) }
                    } @else {
                        @for (group, chunk) in steps.chunks(GROUP).enumerate() { (self.group(chunk, group * GROUP)) }
                    }
                }
            }
        }
    }

    fn group(&self, steps: &[Step], from: usize) -> Markup {
        let number = |step: Option<&Step>| words::number(step.map_or(0, |step| step.nth + 1));
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
                @for (index, step) in steps.iter().enumerate() { (self.step(step, from + index, None, "")) }
            }
        }
    }

    fn step(&self, step: &Step, index: usize, above: Option<&Place>, agent: &str) -> Markup {
        let place = Place::step(above, agent, index, step);
        let bad = problems::is_bad(step);
        let few = step.calls.len() <= 3;
        html! {
            details.step id=(place.id) data-bad[bad] data-top[above.is_none()] {
                summary {
                    span.n.num { (step.nth + 1) }
                    span.what { (self.headline(step)) }
                    (self.time_bar(step.elapsed, step.calls_elapsed()))
                    (self.cost_bar(step.total()))
                }
                div.body {
                    @for problem in problems::of_step(step) { p.error { (shown(&problem)) } }
                    (self.reply(step))
                    @for (index, call) in step.calls.iter().enumerate() { (self.call(call, &place.call(index), few)) }
                }
            }
        }
    }

    /// The line of a step: its calls, or the start of its text.
    fn headline(&self, step: &Step) -> Markup {
        if step.calls.is_empty() {
            let text =
                step.reply.as_ref().map(toolwright_module::Reply::to_text).unwrap_or_default();
            return html! {
                @if !problems::of_step(step).is_empty() { (mark("bad")) }
                @if text.trim().is_empty() { span.muted { "no text" } }
                @else { span.said { (words::first_words(&text, 120)) } }
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
                    (mark(state)) b { (shown(name)) }
                    @if *count > 1 { span.muted { " ×" (count) } }
                    @else if lines.len() == 1 && let Some(arguments) = &call.arguments {
                        " " span.args { (words::first_words(arguments, 100)) }
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
                span.num { @if cost == 0 && !spent.usage.incomplete { "–" } @else { (self.scale.cost_text(spent)) } }
            }
        }
    }

    /// What the model wrote, beside its calls, and what it used.
    fn reply(&self, step: &Step) -> Markup {
        let Some(reply) = &step.reply else {
            return html! { @if step.exhausted.is_empty() { p.muted { "The question has no recorded reply." } } };
        };
        let usage = reply.usage;
        html! {
            @for part in &reply.parts {
                @match part {
                    ReplyPart::Text(text) if !text.text.trim().is_empty() => div.prose { (text_block(&text.text)) },
                    ReplyPart::Reasoning(reasoning) => @if !reasoning.text.trim().is_empty() {
                        details.part { summary { "Reasoning" } (text_block(&reasoning.text)) }
                    } @else { p.muted { "Reasoning that the provider keeps to itself (" (shown(&reasoning.provider)) ")" } },
                    ReplyPart::Other(other) => details.part {
                        summary { @if is_compaction(&other.value) { span.tag.warn { "Compaction" } " " } "A part of " (shown(&other.provider)) ": " code { (shown(other.value["type"].as_str().unwrap_or("unknown"))) } }
                        (text_block(&serde_json::to_string_pretty(&other.value).unwrap_or_default()))
                    },
                    _ => {}
                }
            }
            p.usage.num {
                span { (words::number(usage.input_tokens)) " read" }
                @if usage.cached_tokens > 0 { span { (words::number(usage.cached_tokens)) " of them cached" } }
                @if usage.cache_written_tokens > 0 { span { (words::number(usage.cache_written_tokens)) " put into the cache" } }
                span { (words::number(usage.output_tokens)) " written" }
                @if usage.reasoning_tokens > 0 { span { (words::number(usage.reasoning_tokens)) " of them reasoning" } }
                @if usage.incomplete { span { "the server did not report all" } }
                @if step.spent.money.micros() > 0 { span { "money " (step.spent.money) } }
                span { (words::duration(step.elapsed)) }
                @if let Some(at) = step.at { span { (words::time(at)) } }
                @if let Some(model) = &reply.model { span { (shown(model)) } }
            }
        }
    }

    fn call(&self, call: &Call, place: &Place, open: bool) -> Markup {
        let (state, name) = (state_of(call), shown(&call.name));
        html! {
            details.call id=(place.id) open[open] data-bad[problems::is_bad_call(call)] {
                summary {
                    span.what {
                        (mark(state)) b { @if name.is_empty() { "a call" } @else { (name) } }
                        @if call.below.is_some() { " " span.tag { "agent" } }
                        @if let Some(word) = word_of(state) { " " span class={ "tag " (state) } { (word) } }
                        @if !problems::repairs(call).is_empty() { " " span.tag { "repaired" } }
                        @if let Some(arguments) = &call.arguments { " " span.args { (words::first_words(arguments, 100)) } }
                    }
                    (self.time_bar(Duration::ZERO, call.elapsed()))
                    (self.cost_bar(call.spent()))
                }
                div.body {
                    (self.arguments(call))
                    @for asked in &call.asked { (decision(asked)) }
                    (self.outcome(call))
                    @if let Some(below) = &call.below {
                        div.below {
                            h3 { "The run of " code { (name) } " " span.muted { (words::count(below.steps.len(), "step")) ", " (words::short(tokens(below.spent()))) " tokens" } }
                            (self.chart(below, &place.id))
                            @for (name, value) in &below.values {
                                details.part { summary { "Value " code { (shown(name)) } } (text_block(&serde_json::to_string_pretty(value).unwrap_or_default())) }
                            }
                            @for (index, step) in below.steps.iter().enumerate() { (self.step(step, index, Some(place), &name)) }
                        }
                    }
                }
            }
        }
    }

    fn arguments(&self, call: &Call) -> Markup {
        let Some(written) = &call.arguments else {
            return html! { p.muted { "The reply names this call in its text." } };
        };
        let repaired = call.result().and_then(|(result, _)| result.repaired.as_deref());
        let repairs = problems::repairs(call);
        let edited = call.asked.iter().find_map(|asked| match &asked.decided {
            Some((_, Decision::Edit { arguments })) => Some(arguments.as_str()),
            _ => None,
        });
        // A long text on one line, or one with escaped lines, is easier to read as fields.
        let read = repaired.map(|repaired| repaired.json.as_str()).or(edited);
        let fields =
            read.or_else(|| (written.len() > 120 || written.contains("\\n")).then_some(written));
        let fields = fields.and_then(|json| serde_json::from_str::<Value>(json).ok());
        html! {
            p.label { "Arguments, as the model wrote them" }
            (text_block(written))
            @if !repairs.is_empty() {
                p.label { "Repairs" }
                ul.repairs { @for repair in &repairs { li { (shown(repair)) } } }
            }
            @if edited.is_some() { p.label { "Arguments, as the person changed them" } }
            @else if repaired.is_some() { p.label { "Arguments, as they were read" } }
            @else if fields.is_some() { p.label { "The same, as fields" } }
            @if let Some(fields) = fields { (self::fields(&fields)) }
            @else if let Some(read) = read { (text_block(read)) }
        }
    }

    fn outcome(&self, call: &Call) -> Markup {
        let many = call.attempts.len() > 1;
        html! {
            @for (at, attempt) in call.attempts.iter().enumerate() {
                @if many { p.label { "Attempt " (at + 1) } }
                (one_attempt(attempt))
            }
            @if call.attempts.is_empty() {
                @if let Some(result) = &call.own_result {
                    p.label { "Answer of the run, instead of a tool" }
                    (text_block(&result.text))
                } @else if call.waits() {
                    p.muted { "The call was not made yet: it waits for a decision." }
                } @else if call.is_answer {
                    p.muted { "This call gave the answer of the run." }
                } @else if call.unmade {
                    p.error { (problems::UNMADE) }
                } @else if call.below.is_none() {
                    p.muted { "The journal has no result of this call yet." }
                }
            }
        }
    }

    fn decisions(&self) -> Markup {
        let decided: Vec<_> =
            self.found.asked.iter().filter(|(_, _, asked)| asked.decided.is_some()).collect();
        if decided.is_empty() {
            return html! {};
        }
        let line = |(place, call, asked): &(Place, &Call, &Asked)| {
            html! {
                li {
                    a href={ "#" (place.id) } { "Step " (place.label) } ": " code { (shown(&call.name)) } " "
                    (decided_words(asked))
                }
            }
        };
        html! {
            section aria-labelledby="decisions" {
                h2 #decisions { "Decisions " span.muted { (decided.len()) } }
                ul.plain { @for one in decided.iter().take(LISTED) { (line(one)) } }
                @if decided.len() > LISTED {
                    details.more {
                        summary { "Show " (decided.len() - LISTED) " more" }
                        ul.plain { @for one in &decided[LISTED..] { (line(one)) } }
                    }
                }
            }
        }
    }

    fn tools(&self) -> Markup {
        #[derive(Default)]
        struct Line {
            calls: usize,
            failed: usize,
            time: Duration,
            spent: Spent,
        }
        fn of<'a>(agent: &'a Agent, lines: &mut BTreeMap<&'a str, Line>) {
            for call in agent.steps.iter().flat_map(|step| &step.calls) {
                let line = lines.entry(&call.name).or_default();
                line.calls += 1;
                line.failed += usize::from(call.failure().is_some());
                line.time += call.elapsed();
                line.spent += call.spent();
                call.below.iter().for_each(|below| of(below, lines));
            }
        }
        let mut lines = BTreeMap::new();
        of(&self.tree.root, &mut lines);
        if lines.is_empty() {
            return html! {};
        }
        let mut lines: Vec<_> = lines.into_iter().collect();
        lines.sort_by_key(|(_, line)| std::cmp::Reverse((line.time, line.calls)));
        let has_agents = self
            .tree
            .root
            .steps
            .iter()
            .flat_map(|step| &step.calls)
            .any(|call| call.below.is_some());
        let most = lines.iter().map(|(_, line)| line.time).max().unwrap_or_default().as_secs_f64();
        html! {
            section aria-labelledby="tools" {
                h2 #tools { "Tools" }
                table {
                    thead { tr { th scope="col" { "tool" } th scope="col" { "calls" } th scope="col" { "failed" } th.wide scope="col" { "time" } th scope="col" { (self.scale.cost_name()) } } }
                    tbody {
                        @for (name, line) in &lines {
                            tr {
                                th scope="row" { code { @if name.is_empty() { "?" } @else { (shown(name)) } } }
                                td.num { (words::number(line.calls as u64)) }
                                td.num { @if line.failed > 0 { span.badtext { (words::number(line.failed as u64)) } } @else { "–" } }
                                td.wide { span.time { svg.meter aria-hidden="true" { rect.tool width=(share(line.time.as_secs_f64(), most)) height="100%" {} } span.num { @if line.time.is_zero() { "–" } @else { (words::duration(line.time)) } } } }
                                td.num { @if self.scale.cost(line.spent) == 0 { "–" } @else { (self.scale.cost_text(line.spent)) } }
                            }
                        }
                    }
                }
                @if has_agents { p.note { "The time of an agent contains that of the tools below it, and so does its cost." } }
            }
        }
    }

    fn task_section(&self) -> Markup {
        let (run, tree) = (self.run, self.tree);
        html! {
            section aria-labelledby="task" {
                h2 #task { "Task" }
                @if let Ok(task @ Value::Object(_)) = serde_json::from_str(self.task) { (fields(&task)) }
                @else { div.prose { (text_block(self.task)) } }
                @if tree.earlier_messages > 0 { p.muted { "After a conversation of " (words::count(tree.earlier_messages, "message")) "." } }
                @for instructions in &tree.instructions {
                    details.part { summary { "Instructions" } (text_block(instructions)) }
                }
                @if tree.limits.is_object() {
                    details.part {
                        summary { "Limits at the start" }
                        (fields(&set_limits(&tree.limits)))
                    }
                }
                @let metadata: Vec<_> = run.metadata.iter().filter(|(name, _)| *name != TASK).collect();
                @if !metadata.is_empty() {
                    dl.fields { @for (name, value) in metadata { div { dt { (shown(name)) } dd { (shown(value)) } } } }
                }
            }
        }
    }
}

fn fact(name: &str, value: Markup, note: &str) -> Markup {
    html! { div { dt { (name) } dd { span.value.num { (value) } @if !note.is_empty() { span.muted { (note) } } } } }
}

fn one_problem(problem: &Problem) -> Markup {
    let places = &problem.places;
    html! {
        div.item {
            p {
                (mark(if problem.is_doubt { "warn" } else { "bad" }))
                @if problem.what == "model" { strong { "The model" } } @else { strong { code { (shown(&problem.what)) } } }
                @if places.len() > 1 { span.muted { " ×" (places.len()) } }
                span.muted { " in step " }
                @for (at, place) in places.iter().take(6).enumerate() {
                    @if at > 0 { ", " }
                    a href={ "#" (place.id) } { (shown(&place.label)) }
                }
                @if places.len() > 6 { span.muted { " and " (places.len() - 6) " more" } }
            }
            (text_block(&problem.text))
            @if problem.is_like_others { p.note { "The first of " (places.len()) " errors that differ in their numbers." } }
        }
    }
}

fn one_attempt(attempt: &Attempt) -> Markup {
    let Some((at, outcome)) = &attempt.outcome else {
        return html! {
            @if let Some(at) = attempt.failed {
                p.error { "An error ended the drive during this call, on " (words::time(at)) ". The next drive makes it again." }
            } @else if let Some(at) = attempt.begun {
                p.error { "Begun on " (words::time(at)) ", without a result. Either it is under way, or its program ended during it." }
            }
        };
    };
    html! {
        @match &outcome.kind {
            OutcomeKind::Called { result, error } => {
                @if let Some(error) = error {
                    p.label.badtext { "Error" }
                    (text_block(error))
                    @if *error != result.text { p.label { "What the model got" } (text_block(&result.text)) }
                } @else if result.failed {
                    p.label.badtext { "Refused" }
                    (text_block(&result.text))
                } @else {
                    p.label { "Result" }
                    @if result.text.is_empty() { p.muted { "The text is empty." } } @else { (text_block(&result.text)) }
                }
                @for part in &result.parts { p.muted { "With " @match part.kind() { "image" => "an image", "audio" => "a sound", "text" => "a text", kind => { "a " (kind) } } ", which this page does not show." } }
                @if let Some(value) = &result.value {
                    details.part { summary { "The output as JSON" } (text_block(&serde_json::to_string_pretty(value).unwrap_or_default())) }
                }
            }
            OutcomeKind::Unknown => p.error { "The program ended during this attempt, so nobody knows whether it took effect." }
            OutcomeKind::Exhausted { limit, allowed } => p.error { "The limit of " (words::limit(*limit, *allowed)) " was reached." }
            _ => {}
        }
        p.usage.num { span { (words::duration(outcome.elapsed)) } span { (words::time(*at)) } }
    }
}

fn decision(asked: &Asked) -> Markup {
    html! {
        p.decision {
            @if asked.decided.is_some() { "This call " (decided_words(asked)) }
            @else if let Some((at, _)) = &asked.asked { "A person was asked on " (words::time(*at)) ", and has not decided." }
        }
    }
}

/// Returns the decision, as the end of a sentence about the call.
fn decided_words(asked: &Asked) -> Markup {
    let Some((at, decision)) = &asked.decided else { return html! {} };
    let waited = asked.asked.as_ref().and_then(|(since, _)| at.duration_since(*since).ok());
    html! {
        @match decision {
            Decision::Approve => "was approved",
            Decision::Edit { .. } => "was approved with other arguments",
            Decision::Deny { reason } => { "was denied (“" (shown(reason)) "”)" },
            Decision::Happened { .. } => "was said to have taken effect",
            Decision::CallAgain => "was approved to be made again",
            _ => "was decided on",
        }
        @if let Some(by) = &asked.by { " by " strong { (shown(by)) } }
        span.muted { " on " (words::time(*at)) @if let Some(waited) = waited { ", after " (words::duration(waited)) } }
    }
}

/// Returns the state of a call, which is also its class.
fn state_of(call: &Call) -> &'static str {
    if call.waits() {
        "waits"
    } else if call.denied().is_some() {
        "denied"
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
    } else if call.unmade {
        "unmade"
    } else {
        "open"
    }
}

fn word_of(state: &str) -> Option<&'static str> {
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
fn mark(state: &str) -> Markup {
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

/// A text of a model or a tool. A long one starts shortened.
fn text_block(text: &str) -> Markup {
    let long = text.len() > SHORT || text.lines().count() > LINES;
    if !long {
        return html! { pre { (shown(text)) } };
    }
    let start: String = text.lines().take(LINES / 2).collect::<Vec<_>>().join("\n");
    let start = match start.char_indices().nth(SHORT / 2) {
        Some((end, _)) => &start[..end],
        None => &start,
    };
    html! {
        details.long {
            summary { pre { (shown(start)) "…" } span.link { "Show all " (words::bytes(text.len())) } }
            pre tabindex="0" { (shown(text)) }
        }
    }
}

/// The fields of a JSON object, with texts as they are.
fn fields(value: &Value) -> Markup {
    let Value::Object(fields) = value else {
        return text_block(&serde_json::to_string_pretty(value).unwrap_or_default());
    };
    html! {
        dl.fields {
            @for (name, value) in fields {
                div {
                    dt { (shown(name)) }
                    dd { @match value { Value::String(text) => (text_block(text)), Value::Object(_) | Value::Array(_) => (text_block(&serde_json::to_string_pretty(value).unwrap_or_default())), other => (text_block(&other.to_string())) } }
                }
            }
        }
    }
}

/// Returns the limits that are set.
fn set_limits(limits: &Value) -> Value {
    let mut limits = limits.clone();
    if let Value::Object(fields) = &mut limits {
        fields.retain(|_, value| {
            !value.is_null() && value.as_object().is_none_or(|it| !it.is_empty())
        });
    }
    limits
}

/// Returns whether a provider's part says that it compacted the conversation.
fn is_compaction(value: &Value) -> bool {
    value["type"].as_str().is_some_and(|kind| kind.contains("compaction"))
}
