//! A report as one HTML page.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;
use std::time::Duration;

use maud::{DOCTYPE, Markup, html};
use serde_json::Value;
use toolwright_journal::__page::{self as parts, Texts, count, document, fact, number};
use toolwright_module::budget::Money;

use crate::attempt::MadeCall;
use crate::compare::Comparison;
use crate::grade::{Grade, Verdict};
use crate::one_attempt::run_id;
use crate::report::{GradedAttempt, Report};
use crate::stats::Mean;

/// The style of the page of a run, and what is different here.
static STYLE: LazyLock<String> =
    LazyLock::new(|| format!("{}{}", parts::STYLE, include_str!("page/report.css")));
const SCRIPT: &str = include_str!("page/report.js");

/// Number of cases that a list shows at once.
const LISTED: usize = 30;

impl Report {
    /// Returns the report as one HTML page, which needs no other file and no network: the figures, the
    /// graders, and the attempts with their inputs, outputs, calls and grades. With a comparison, it lists
    /// the cases that became better or worse.
    ///
    /// Keys of known forms and the values of secret variables of the environment are masked.
    ///
    /// An eval with a [folder](crate::Eval::with_folder) writes this page at its end.
    ///
    /// ```
    /// use toolwright_evals::{Case, Eval, graders};
    /// use toolwright_module::testing::Scripted;
    /// use toolwright_module::{Context, Reply};
    /// use toolwright_orchestrator::Agent;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let model = Scripted::new(|_| Ok(Reply::text("Hello!")));
    /// let report = Eval::agent("greetings", Agent::new(model, [])?)
    ///     .with_cases([Case::new("ada", "Greet Ada.").expecting("Ada")])
    ///     .with_grader("names the user", graders::contains_expected())
    ///     .run(&Context::default())
    ///     .await?;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("greetings.html");
    /// std::fs::write(path, report.to_html(None))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn to_html(&self, comparison: Option<&Comparison>) -> String {
        self.to_linked_html(comparison, &HashMap::new())
    }

    /// Returns the page with links to the pages of runs, by the place of the attempt.
    pub(crate) fn to_linked_html(
        &self,
        comparison: Option<&Comparison>,
        links: &HashMap<usize, String>,
    ) -> String {
        let view = View { report: self, texts: Texts::default(), links };
        let title = format!("{}: eval", view.texts.first_words(&self.name, 70));
        let body = view.body(comparison);
        let page = html! {
            (DOCTYPE)
            html lang="en" { (document(&title, html! {}, body, &STYLE, SCRIPT)) }
        };
        page.into_string()
    }
}

struct View<'a> {
    report: &'a Report,
    texts: Texts,
    links: &'a HashMap<usize, String>,
}

impl View<'_> {
    fn body(&self, comparison: Option<&Comparison>) -> Markup {
        let report = self.report;
        let failed = report.failed().count();
        let is_whole = failed == 0 && report.left_out.is_empty() && !report.outcomes.is_empty();
        let (class, state) = match is_whole {
            true => ("good", "All pass".to_owned()),
            false if failed > 0 => ("bad", format!("{} failed", number(failed as u64))),
            false => ("warn", "Not complete".to_owned()),
        };
        html! {
            a.skip href="#attempts" { "Skip to the attempts" }
            header {
                p.state { span class={ "pill " (class) } { (state) } }
                h1 { (self.texts.first_words(&report.name, 160)) }
                dl.facts { (self.facts(failed)) }
            }
            main {
                (self.changed())
                (self.left_out())
                @if let Some(comparison) = comparison { (self.comparison(comparison)) }
                (self.graders())
                (self.attempts())
            }
            footer {
                p { "Written by toolwright " (env!("CARGO_PKG_VERSION")) "." }
                p #keys hidden {
                    "Keys: " kbd { "j" } " and " kbd { "k" } " next and previous attempt, " kbd { "Enter" }
                    " opens it, " kbd { "e" } " next attempt that fails, " kbd { "/" } " search."
                }
            }
        }
    }

    fn facts(&self, failed: usize) -> Markup {
        let report = self.report;
        let made = &report.outcomes;
        let repeats = made.iter().map(|attempt| attempt.repeat + 1).max().unwrap_or(0);
        let cases: HashSet<&str> = made.iter().map(|attempt| &*attempt.case).collect();
        let tokens: u64 = made.iter().map(|attempt| attempt.tokens).sum();
        let seconds: f64 = made.iter().map(|attempt| attempt.seconds).sum();
        let total = |dollars: fn(&GradedAttempt) -> Option<f64>| -> Option<f64> {
            let known: Vec<f64> = made.iter().filter_map(dollars).collect();
            (!known.is_empty()).then(|| known.iter().sum())
        };
        let (dollars, grading) = (total(|one| one.dollars), total(|one| one.grading_dollars));
        let is_known = made.iter().all(|attempt| attempt.cost_is_known);
        let grading_is_known = made.iter().all(|attempt| attempt.grading_cost_is_known);
        let grading_tokens: u64 = made.iter().map(|attempt| attempt.grading_tokens).sum();
        let grading = format!("graders: {}", cost(grading, grading_is_known));
        let grading = if is_known { grading } else { format!("some of it is unknown; {grading}") };
        let every = if repeats > 1 {
            format!("{}, {repeats} attempts each", count(cases.len(), "case"))
        } else {
            count(cases.len(), "case")
        };
        let several = (repeats > 1)
            .then(|| Some((report.pass_all(repeats)?, report.pass_any(repeats)?)))
            .flatten();
        html! {
            @match report.pass_rate() {
                Some(rate) => (fact("Pass rate", html! { (percent(rate.mean)) }, &interval(rate))),
                None => (fact("Pass rate", html! { "–" }, "no attempt was made")),
            }
            (fact("Attempts that pass", html! { (number((made.len() - failed) as u64)) " of " (number(made.len() as u64)) }, &every))
            @if let Some((all, any)) = several {
                (fact(&format!("All {repeats} attempts pass"), html! { (percent(all.mean)) }, &interval(all)))
                (fact(&format!("Any of {repeats} passes"), html! { (percent(any.mean)) }, &interval(any)))
            }
            (fact("Cost", html! { (cost(dollars, is_known)) }, &grading))
            (fact("Tokens", html! { (number(tokens)) }, &format!("graders: {}", number(grading_tokens))))
            (fact("Time of the attempts", html! { (time(seconds)) }, ""))
        }
    }

    fn changed(&self) -> Markup {
        let changed = &self.report.changed_contracts;
        html! {
            @if !changed.is_empty() {
                section.card.bad aria-labelledby="changed" {
                    h2 #changed { "Contracts that changed since the recording " span.muted { (changed.len()) } }
                    @for (contract, change) in changed {
                        div.item {
                            p { code { (self.texts.shown(contract)) } " concerns " (count(change.cases.len(), "case")) ":" }
                            ul.plain { @for change in &change.changes { li { (self.texts.shown(change)) } } }
                            p.note { (self.cases(&change.cases)) }
                        }
                    }
                }
            }
        }
    }

    fn left_out(&self) -> Markup {
        let reasons = self.report.left_out_by_reason();
        html! {
            @if !reasons.is_empty() {
                section.card.warn aria-labelledby="left-out" {
                    h2 #left-out { "Not attempted " span.muted { (number(self.report.left_out.len() as u64)) } }
                    @for (reason, cases) in reasons {
                        div.item { (self.texts.block(reason)) p.note { (self.cases(&cases)) } }
                    }
                }
            }
        }
    }

    fn comparison(&self, comparison: &Comparison) -> Markup {
        let Comparison { cases, gain, low, high, better, worse, chance, unpaired } = comparison;
        let class = match (better.len(), worse.len()) {
            (_, 0) => "card",
            _ => "card bad",
        };
        let lists = [("Worse", worse), ("Better", better), ("Only in one report", unpaired)];
        html! {
            section class=(class) aria-labelledby="comparison" {
                h2 #comparison { "Compared with the other report " span.muted { (count(*cases, "case")) " in both" } }
                p.num {
                    strong { (points(*gain)) " points" }
                    span.muted { " (95 %: " (points(*low)) " to " (points(*high)) "; p = " (format!("{chance:.3}")) ")" }
                }
                @if better.is_empty() && worse.is_empty() { p.note { "No case became better or worse." } }
                @for (word, cases) in lists {
                    @if !cases.is_empty() {
                        p.label { (word) " " (cases.len()) }
                        p { (self.cases(cases)) }
                    }
                }
            }
        }
    }

    /// The names of cases, each with a link to its first attempt.
    fn cases(&self, cases: &[String]) -> Markup {
        let place = |case: &String| {
            self.report
                .outcomes
                .iter()
                .position(|attempt| run_id(&attempt.case, attempt.repeat) == *case)
        };
        let line = |cases: &[String]| {
            html! {
                @for (at, case) in cases.iter().enumerate() {
                    @if at > 0 { ", " }
                    @match place(case) {
                        Some(place) => a href={ "#a" (place) } { (self.texts.first_words(case, 80)) },
                        None => (self.texts.first_words(case, 80)),
                    }
                }
            }
        };
        html! {
            (line(&cases[..cases.len().min(LISTED)]))
            @if cases.len() > LISTED { " and " (number((cases.len() - LISTED) as u64)) " more" }
        }
    }

    fn graders(&self) -> Markup {
        let verdicts = |at: usize, verdict: Verdict| {
            let grades = self.report.outcomes.iter().filter_map(|attempt| attempt.grades.get(at));
            grades.filter(|grade| grade.verdict == verdict).count() as u64
        };
        let cell = |number: u64, is_bad: bool| {
            html! {
                td.num { @if number == 0 { "–" } @else if is_bad { span.badtext { (parts::number(number)) } } @else { (parts::number(number)) } }
            }
        };
        html! {
            section aria-labelledby="graders" {
                h2 #graders { "Graders" }
                table {
                    thead { tr { th scope="col" { "grader" } th.wide scope="col" { "mean score" } th scope="col" { "pass" } th scope="col" { "fail" } th scope="col" { "error" } th scope="col" { "skip" } } }
                    tbody {
                        @for (at, grader) in self.report.graders.iter().enumerate() {
                            @let score = self.report.score(grader);
                            tr {
                                th scope="row" { (self.texts.shown(grader)) }
                                td.wide {
                                    @if let Some(score) = score {
                                        span.time {
                                            svg.meter aria-hidden="true" { rect.tool width=(format!("{:.2}%", score.mean * 100.0)) height="100%" {} }
                                            span.num { (percent(score.mean)) }
                                        }
                                        span.note.num { (interval(score)) }
                                    } @else { span.muted { "nothing to grade" } }
                                }
                                (cell(verdicts(at, Verdict::Pass), false))
                                (cell(verdicts(at, Verdict::Fail), true))
                                (cell(verdicts(at, Verdict::Error), true))
                                (cell(verdicts(at, Verdict::Skip), false))
                            }
                        }
                    }
                }
            }
        }
    }

    fn attempts(&self) -> Markup {
        let made = &self.report.outcomes;
        let columns = self.report.graders.len() + 5;
        html! {
            section aria-labelledby="attempts" {
                div.bar {
                    h2 #attempts tabindex="-1" { "Attempts " span.muted { (number(made.len() as u64)) } }
                    form #filter role="search" hidden {
                        input #search type="search" placeholder="Search the attempts" aria-label="Search the attempts" autocomplete="off";
                        label { input #only type="checkbox"; " Failed only" }
                        label { "Failed by " select #by { option value="" { "any grader" } @for (at, grader) in self.report.graders.iter().enumerate() { option value=(at) { (self.texts.first_words(grader, 40)) } } } }
                        output #count aria-live="polite" {}
                    }
                }
                @if made.is_empty() { p.muted { "No attempt was made." } }
                @else {
                    table.attempts {
                        thead {
                            tr {
                                th scope="col" { "case" }
                                @for grader in &self.report.graders { th.grade scope="col" { (self.texts.first_words(grader, 40)) } }
                                th.num scope="col" { "rounds" } th.num scope="col" { "tokens" } th.num scope="col" { "cost" } th.num scope="col" { "time" }
                            }
                        }
                        @for (at, attempt) in made.iter().enumerate() { (self.attempt(attempt, at, columns)) }
                    }
                }
            }
        }
    }

    fn attempt(&self, attempt: &GradedAttempt, at: usize, columns: usize) -> Markup {
        let passed = attempt.passed();
        let failed_by = attempt.grades.iter().enumerate();
        let failed_by = failed_by.filter(|(_, grade)| is_bad(grade));
        let failed_by: Vec<_> = failed_by.map(|(at, _)| at.to_string()).collect();
        html! {
            tbody data-bad[!passed] data-by=(failed_by.join(" ")) {
                tr.line {
                    th scope="row" {
                        (mark(if passed { Verdict::Pass } else { Verdict::Fail }))
                        a href={ "#a" (at) } { (self.texts.first_words(&attempt.case, 160)) }
                        @if attempt.repeat > 0 { span.muted { "repeat " (attempt.repeat + 1) } }
                        @if attempt.error.is_some() { " " span.tag.bad { "error" } }
                    }
                    @for (grader, grade) in self.report.graders.iter().zip(&attempt.grades) {
                        td.grade.num data-label=(self.texts.first_words(grader, 40)) { (score(grade)) }
                    }
                    td.num data-label="rounds" { (number(attempt.rounds)) }
                    td.num data-label="tokens" { (number(attempt.tokens)) }
                    td.num data-label="cost" { (cost(attempt.dollars, attempt.cost_is_known)) }
                    td.num data-label="time" { (time(attempt.seconds)) }
                }
                tr.more id={ "a" (at) } { td colspan=(columns) { (self.inside(attempt, at)) } }
            }
        }
    }

    /// What an attempt has inside.
    fn inside(&self, attempt: &GradedAttempt, at: usize) -> Markup {
        let ending = attempt.ending.and_then(|ending| serde_json::to_value(ending).ok());
        let ending = ending.as_ref().and_then(Value::as_str).map(|word| word.replace('_', " "));
        html! {
            @if let Some(error) = &attempt.error { p.label.badtext { "Error" } (self.texts.block(error)) }
            @for (grader, grade) in self.report.graders.iter().zip(&attempt.grades) {
                @if is_bad(grade) || !grade.reason.is_empty() {
                    div.reason {
                        p { (score(grade)) " " strong { (self.texts.shown(grader)) } }
                        @if !grade.reason.is_empty() { (self.texts.block(&grade.reason)) }
                    }
                }
            }
            p.label { "Input" } (self.value(&attempt.input))
            @if !attempt.expected.is_null() { p.label { "Expected" } (self.value(&attempt.expected)) }
            @if attempt.error.is_none() || !attempt.output.is_null() { p.label { "Output" } (self.value(&attempt.output)) }
            @if !attempt.calls.is_empty() {
                p.label { "Calls " (number(attempt.calls.len() as u64)) }
                @for call in &attempt.calls { (self.call(call)) }
            }
            @if !attempt.metadata.is_empty() {
                p.label { "Data of the case" }
                dl.fields { @for (name, value) in &attempt.metadata { div { dt { (self.texts.shown(name)) } dd { (self.value(value)) } } } }
            }
            @if ending.is_some() || self.links.contains_key(&at) {
                p.usage {
                    @if let Some(ending) = &ending { span { "Ending: " (ending) } }
                    @if let Some(link) = self.links.get(&at) { a href=(link) { "The page of the run" } }
                }
            }
        }
    }

    fn call(&self, call: &MadeCall) -> Markup {
        let effect = call.effect.and_then(|effect| serde_json::to_value(effect).ok());
        let arguments = match &call.arguments {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        html! {
            details.call data-bad[call.failed] {
                summary {
                    span.what {
                        (mark(if call.failed { Verdict::Fail } else { Verdict::Pass }))
                        @for around in &call.within { span.muted { (self.texts.first_words(around, 40)) " › " } }
                        b { (self.texts.first_words(&call.tool, 80)) }
                        @if call.asked { " " span.tag { "a person decided" } }
                        " " span.args { (self.texts.first_words(&arguments, 100)) }
                    }
                    @if let Some(Value::String(effect)) = effect { span.muted { (effect.replace('_', " ")) } }
                }
                div.body {
                    p.label { "Arguments" } (self.value(&call.arguments))
                    p.label { @if call.failed { "Result of a call that failed" } @else { "Result" } }
                    @if call.result.is_empty() { p.muted { "The text is empty." } } @else { (self.texts.block(&call.result)) }
                }
            }
        }
    }

    fn value(&self, value: &Value) -> Markup {
        match value {
            Value::Null => html! { p.muted { "none" } },
            Value::String(text) if text.is_empty() => html! { p.muted { "an empty text" } },
            Value::String(text) => self.texts.block(text),
            Value::Object(fields) if fields.is_empty() => html! { pre { "{}" } },
            value => self.texts.fields(value),
        }
    }
}

fn is_bad(grade: &Grade) -> bool {
    matches!(grade.verdict, Verdict::Fail | Verdict::Error)
}

/// The sign of a verdict, with a name for screen readers.
fn mark(verdict: Verdict) -> Markup {
    let (class, sign, name) = match verdict {
        Verdict::Pass => ("good", "✓", "pass"),
        Verdict::Fail => ("bad", "✕", "fail"),
        Verdict::Skip => ("skip", "–", "skipped"),
        Verdict::Error => ("bad", "!", "the grader failed"),
    };
    html! { span class={ "mark " (class) } role="img" aria-label=(name) { (sign) } }
}

/// The verdict of a grade, and its score if the verdict does not say it.
fn score(grade: &Grade) -> Markup {
    let said = match grade.verdict {
        Verdict::Pass => Some(1.0),
        _ => Some(0.0),
    };
    html! {
        (mark(grade.verdict))
        @if let Some(score) = grade.score && grade.score != said { (format!("{score:.2}")) }
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn points(share: f64) -> String {
    format!("{:+.1}", share * 100.0)
}

fn interval(mean: Mean) -> String {
    format!("95 %: {:.1} to {:.1} %", mean.low * 100.0, mean.high * 100.0)
}

/// Returns a cost. `None` is a cost of which nothing is known.
fn cost(dollars: Option<f64>, is_known: bool) -> String {
    let Some(dollars) = dollars else { return "?".to_owned() };
    let least = if is_known { "" } else { "≥ " };
    // It was made from whole millionths.
    let money = Money { micros: (dollars * 1e6).round() as u64 };
    format!("{least}{money}")
}

fn time(seconds: f64) -> String {
    let time = Duration::try_from_secs_f64(seconds);
    time.map_or_else(|_| "?".to_owned(), parts::duration)
}
