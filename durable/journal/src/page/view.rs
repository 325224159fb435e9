//! The HTML of a run.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};
use serde_json::Value;
use toolwright_module::Effect;
use toolwright_module::budget::{LimitKind, Spent};
use toolwright_module::event::Ending;

use super::parts::{fact, set_limits};
use super::problems::{self, Found, Location, Problem, ToolUse};
use super::scale::{Scale, share};
use super::texts::Texts;
use super::tree::{Agent, Asked, Call, Step, Tree};
use super::words::{self, TASK, command, cost_in_words, quoted};
use crate::summary::{RunStatus, RunSummary};

/// Number of problems and of decisions that are shown at once.
const LISTED: usize = 8;

/// The page of a run, apart from its head.
pub(super) struct View<'a> {
    run: &'a RunSummary,
    /// The task without keys: the name of a field may say that its value is one.
    task: String,
    pub(super) tree: &'a Tree,
    pub(super) texts: &'a Texts,
    found: Found<'a>,
    now: SystemTime,
    pub(super) scale: Scale,
}

impl<'a> View<'a> {
    pub(super) fn new(
        run: &'a RunSummary,
        task: &str,
        tree: &'a Tree,
        texts: &'a Texts,
        now: SystemTime,
    ) -> Self {
        let task = texts.without_keys(task);
        Self { run, task, tree, texts, found: Found::of(&tree.root), now, scale: Scale::of(tree) }
    }

    pub(super) fn title(&self) -> String {
        let (_, status) = self.status();
        format!("{status}: {}", self.texts.first_words(&self.heading(), 70))
    }

    /// Returns the task for a heading. The task of a typed run is JSON, of which the texts say most.
    fn heading(&self) -> String {
        match serde_json::from_str(&self.task) {
            Ok(Value::Object(fields)) => {
                let texts: Vec<_> = fields.values().filter_map(Value::as_str).collect();
                if texts.is_empty() { self.task.clone() } else { texts.join(" · ") }
            }
            _ => self.task.clone(),
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
                Ending::Refused => match &end.reason {
                    Some(reason) => {
                        format!("The model refused the task: “{}”.", self.texts.shown(reason))
                    }
                    None => "The model refused the task.".to_owned(),
                },
                Ending::Stuck => "The model repeated the same mistake too often.".to_owned(),
                _ => match &end.reason {
                    Some(reason) => format!(
                        "The model stopped with “{}”, which is not known. Its answer may be incomplete.",
                        self.texts.shown(reason)
                    ),
                    None => "The answer may be incomplete.".to_owned(),
                },
            },
            (RunStatus::Failed, _) => "The run ended without a result.".to_owned(),
            (RunStatus::Waiting, _) => {
                let verb = if waits == 1 { "waits" } else { "wait" };
                format!("{} {verb} for a person’s decision.", words::count(waits, "call"))
            }
            _ if self.run.error.is_some() => match self.tree.root.steps.last() {
                Some(step) => format!("An error stopped the run after step {}.", step.number()),
                None => "An error stopped the run before its first step.".to_owned(),
            },
            _ => "Its program is still running, or was interrupted.".to_owned(),
        }
    }

    fn allowed(&self, limit: LimitKind) -> String {
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
                h1 { (self.texts.first_words(&self.heading(), 160)) }
                p.reason { (self.reason()) " Started " time { (words::time(self.run.started)) } "." }
                @if let Some(error) = &self.run.error { (self.why(error)) }
                @if self.run.status == RunStatus::Open && reload.is_none() {
                    p.reason { "A resumed run continues from there: " code { "toolwright runs resume " (quoted(&self.run.id)) } }
                }
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
                    "Id of the run: " code { (self.texts.shown(&self.run.id)) } ". Written by toolwright " (env!("CARGO_PKG_VERSION"))
                    " on " (words::time(self.now)) ", from " (words::count(self.run.records, "record")) " of the journal."
                }
                p #keys hidden {
                    "Keys: " kbd { "j" } " and " kbd { "k" } " next and previous line, " kbd { "Enter" }
                    " opens it, " kbd { "e" } " next error, " kbd { "/" } " search."
                }
            }
        }
    }

    /// The error of a failed run: its first sentence, and the evidence that says more on demand.
    fn why(&self, error: &str) -> Markup {
        let error = self.texts.without_keys(error.trim());
        let (first, rest) = error.split_once('\n').unwrap_or((&error, ""));
        let is_news = |line: &&str| {
            let text = line.strip_prefix("reply: ").unwrap_or(line);
            !line.starts_with("stage: ") && !first.contains(text)
        };
        let evidence: Vec<&str> = rest.lines().filter(is_news).collect();
        html! {
            div.why {
                p { strong { (self.texts.with_code(first)) } }
                @if !evidence.is_empty() {
                    details.part { summary { "Evidence" } (self.texts.block(&evidence.join("\n"))) }
                }
            }
        }
    }

    fn facts(&self) -> Markup {
        let spent = self.tree.spent;
        let Spent { usage, model_calls, .. } = spent;
        let in_all = self.run.changed.duration_since(self.run.started).unwrap_or_default();
        let at_work = self.tree.root.elapsed();
        let least = if usage.incomplete { "at least " } else { "" };
        let cached = words::percent(usage.cached_tokens, usage.input_tokens);
        html! {
            @if let Some(cost) = cost_in_words(spent) {
                (fact("Cost", html! { (cost) }, &match spent.unpriced_calls {
                    0 => String::new(),
                    calls if calls == model_calls => "the price of the model is unknown".to_owned(),
                    calls => format!("the price of {} is unknown", words::count(usize::try_from(calls).unwrap_or(usize::MAX), "call")),
                }))
            }
            (fact("Input tokens", html! { (least) (words::number(usage.input_tokens)) }, &match cached {
                Some(share) if share > 0 => format!("{share}% from the cache"),
                _ => String::new(),
            }))
            (fact("Output tokens", html! { (least) (words::number(usage.output_tokens)) }, &match usage.reasoning_tokens {
                0 => String::new(),
                tokens => format!("{} for reasoning", words::short(tokens)),
            }))
            (fact("Time of the steps", html! { (words::duration(at_work)) }, &if in_all > at_work + Duration::from_secs(1) {
                format!("{} from start to end", words::duration(in_all))
            } else {
                String::new()
            }))
            (fact("Model calls", html! { (words::number(model_calls)) }, &self.found.models.iter().map(|name| self.texts.shown(name)).collect::<Vec<_>>().join(", ")))
            (fact("Tool calls", html! { (words::number(self.found.calls as u64)) }, &self.kinds_of_calls()))
        }
    }

    /// How many calls failed, were not made, and were repaired.
    fn kinds_of_calls(&self) -> String {
        let Found { failed, unmade, repaired, .. } = self.found;
        let kinds = [(failed - unmade, "failed"), (unmade, "not made"), (repaired, "repaired")];
        let kinds = kinds.iter().filter(|(count, _)| *count > 0);
        kinds.map(|(count, kind)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
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
        let several = waiting.len() > 1;
        html! {
            section.card.warn aria-labelledby="waiting" {
                h2 #waiting { "Waits for a decision" }
                @for (place, call, asked) in waiting {
                    // The tools of the first agent are stored too. The worse of both is shown.
                    @let known = self.tree.tools.as_ref().and_then(|tools| tools.effect(&call.name));
                    @let effect = asked.asked.as_ref().map(|(_, approval)| approval.effect.max(known.unwrap_or(Effect::Read)));
                    @let unknown = asked.asked.as_ref().is_some_and(|(_, approval)| approval.unknown);
                    div.item {
                        p {
                            a href={ "#" (place.id) } { code { (self.texts.shown(&call.name)) } }
                            @if several { span.muted { " (call " code { (self.texts.shown(&call.id)) } ")" } }
                            @if place.label.contains('›') { span.muted { " in step " (self.texts.shown(&place.label)) } }
                            " "
                            @if unknown { "was running when its program ended, and may have taken effect. Make it again?" }
                            @else { "waits for approval" @if let Some(effect) = effect { ": " (words::effect(effect)) } "." }
                            @if let Some((at, _)) = &asked.asked {
                                span.muted { " Asked on " (words::time(*at)) ", " (words::duration(self.now.duration_since(*at).unwrap_or_default())) " before this page." }
                            }
                        }
                        (self.arguments(call))
                        @if let Some((_, approval)) = &asked.asked {
                            p { "Decide at a terminal: " code { (command(&self.run.id, approval)) } }
                        }
                    }
                }
                p.muted {
                    "To deny a call, write " code { "--deny REASON" } " instead of the last option. Add " code { "--journal FOLDER" } " if the journal is not in the default folder. "
                    "The run goes on when its program drives it again."
                }
            }
        }
    }

    fn problems(&self) -> Markup {
        let last = Location::step(
            None,
            "",
            self.tree.root.steps.len().saturating_sub(1),
            &Step::default(),
        );
        let failed = self.run.status == RunStatus::Failed;
        let is_last = |problem: &Problem| {
            failed
                && problem.places.iter().any(|place| place.id.split('c').next() == Some(&last.id))
        };
        // What the run ended with comes first.
        let mut problems: Vec<&Problem> = self.found.problems.iter().collect();
        problems.sort_by_key(|problem| !is_last(problem));
        let stops: Vec<_> = self.tree.stops.iter().enumerate().collect();
        // The last error stands at the top of the page, if nothing followed it.
        let last_is_shown = self.run.error.is_some();
        let stops = &stops[..stops.len().saturating_sub(usize::from(last_is_shown))];
        if problems.is_empty() && stops.is_empty() {
            return html! {};
        }
        let total: usize = problems.iter().map(|problem| problem.places.len()).sum();
        html! {
            section.card.bad aria-labelledby="errors" {
                h2 #errors { "What went wrong " span.muted { (words::number((total + stops.len()) as u64)) } }
                @for (at, stop) in stops {
                    div.item {
                        p { a href={ "#stop" (at) } { "An error stopped the run" } span.muted { " on " (words::time(stop.at)) } }
                        (self.texts.block(&stop.error))
                    }
                }
                @for problem in problems.iter().take(LISTED) { (self.texts.problem(problem, is_last(problem))) }
                @if problems.len() > LISTED {
                    details.more {
                        summary { "Show " (problems.len() - LISTED) " more kinds of errors" }
                        @for problem in &problems[LISTED..] { (self.texts.problem(problem, is_last(problem))) }
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
                @else { div.prose { (self.texts.block(&end.answer)) } }
            }
        }
    }

    /// The tokens of each model call, which show how the prompt grows.
    pub(super) fn chart(&self, agent: &Agent, prefix: &str) -> Markup {
        let usages: Vec<_> =
            agent.steps.iter().map(|step| step.reply.as_ref().map(|reply| reply.usage)).collect();
        let most = usages
            .iter()
            .flatten()
            .map(|usage| usage.input_tokens.saturating_add(usage.output_tokens))
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
                let _ = write!(bad, "M{at} 101h{width}v5h-{width}z");
            }
        }
        let last = agent.steps.last().map_or(0, |step| step.number());
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
            "Tokens of each of {} model calls, at most {}",
            usages.len(),
            words::number(most)
        );
        let plot = html! {
                div.plot {
                    span.axis.num aria-hidden="true" { (words::short(most)) }
                    svg.chart role="img" aria-label=(label) viewBox={ "0 0 " (usages.len()) " 106" } preserveAspectRatio="none" data-steps=(usages.len()) data-prefix=(prefix) {
                        path.cached d=(cached) {}
                        path.fresh d=(fresh) {}
                        path.written d=(written) {}
                        path.failed d=(bad) {}
                    }
                }
                p.legend {
                    span.key.cached { "input, cached" } " "
                    span.key.fresh { "input, not cached" } " "
                    span.key.written { "output" } " "
                    @if !bad.is_empty() { span.key.failed { "step with errors" } }
                    span.range.num { "steps 1 to " (words::number(last)) }
                }
                @if !shorter.is_empty() {
                    p.note {
                        "Shorter than the prompt before, because the conversation was edited or compacted before it was sent: "
                        @for (at, (place, before, now)) in shorter.iter().take(LISTED).enumerate() {
                            @if at > 0 { ", " }
                            a href={ "#" (place.id) } { "step " (self.texts.shown(&place.label)) } " (" (words::short(*before)) " → " (words::short(*now)) ")"
                        }
                        @if shorter.len() > LISTED { " and " (shorter.len() - LISTED) " more" }
                        "."
                    }
                }
        };
        html! {
            @if prefix.is_empty() {
                section aria-labelledby="prompt" {
                    h2 #prompt { "Tokens " span.muted { "of each model call" @if self.has_agents() { ", without agents below" } } }
                    (plot)
                }
            } @else { div.prompt { (plot) } }
        }
    }

    fn decisions(&self) -> Markup {
        let decided: Vec<_> =
            self.found.asked.iter().filter(|(_, _, asked)| asked.decided.is_some()).collect();
        if decided.is_empty() {
            return html! {};
        }
        let line = |(place, call, asked): &(Location, &Call, &Asked)| {
            html! {
                li {
                    a href={ "#" (place.id) } { "Step " (self.texts.shown(&place.label)) } ": " code { (self.texts.shown(&call.name)) } " "
                    (self.texts.decided_words(asked))
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
        let mut lines: Vec<_> = self.found.tools.iter().collect();
        if lines.is_empty() {
            return html! {};
        }
        lines.sort_by_key(|(_, line)| std::cmp::Reverse((line.time, line.calls)));
        let effect_of = |name: &str, line: &ToolUse| {
            let effect = self.tree.tools.as_ref().and_then(|tools| tools.effect(name));
            effect.or(line.is_begun.then_some(Effect::Write)).map(words::short_effect)
        };
        let most = lines.iter().map(|(_, line)| line.time).max().unwrap_or_default().as_secs_f64();
        html! {
            section aria-labelledby="tools" {
                h2 #tools { "Tools" }
                table {
                    thead { tr { th scope="col" { "tool" } th scope="col" { "calls" } th scope="col" { "failed" } th.wide scope="col" { "time" } th scope="col" { (self.scale.cost_name()) } } }
                    tbody {
                        @for (name, line) in &lines {
                            tr {
                                th scope="row" {
                                    code { @if name.is_empty() { "?" } @else { (self.texts.shown(name)) } }
                                    @if let Some(effect) = effect_of(name, line) { " " span.muted { (effect) } }
                                }
                                td.num { (words::number(line.calls as u64)) }
                                td.num { @if line.failed > 0 { span.badtext { (words::number(line.failed as u64)) } } @else { "–" } }
                                td.wide { span.time { svg.meter aria-hidden="true" { rect.tool width=(share(line.time.as_secs_f64(), most)) height="100%" {} } span.num { @if line.time.is_zero() { "–" } @else { (words::duration(line.time)) } } } }
                                td.num { (self.scale.cost_or_dash(line.spent)) }
                            }
                        }
                    }
                }
                @if self.has_agents() { p.note { "The time and the cost of an agent include those of its own tools." } }
                @if self.found.asked.is_empty() { p.note { "No person was asked to approve a call." } }
            }
        }
    }

    /// Whether a call of the run was made by an agent.
    fn has_agents(&self) -> bool {
        let mut calls = self.tree.root.steps.iter().flat_map(|step| &step.calls);
        calls.any(|call| call.below.is_some())
    }

    fn task_section(&self) -> Markup {
        let (run, tree) = (self.run, self.tree);
        html! {
            section aria-labelledby="task" {
                h2 #task { "Task" }
                @if let Ok(task @ Value::Object(_)) = serde_json::from_str(&self.task) { (self.texts.fields(&task)) }
                @else { div.prose { (self.texts.block(&self.task)) } }
                @if tree.earlier_messages > 0 { p.muted { "After a conversation of " (words::count(tree.earlier_messages, "message")) "." } }
                @for instructions in &tree.instructions {
                    details.part { summary { "Instructions" } (self.texts.block(instructions)) }
                }
                @if tree.limits.is_object() {
                    details.part {
                        summary { "Limits at the start" }
                        (self.texts.fields(&set_limits(&tree.limits)))
                    }
                }
                @let metadata: Vec<_> = run.metadata.iter().filter(|(name, _)| *name != TASK).collect();
                @if !metadata.is_empty() {
                    dl.fields { @for (name, value) in metadata { div { dt { (self.texts.shown(name)) } dd { (self.texts.shown(value)) } } } }
                }
            }
        }
    }
}
