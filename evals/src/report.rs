//! What an eval found.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_journal::__page::Texts;
use toolwright_module::__text::visible;
use toolwright_module::event::Ending;
use toolwright_module::testing::Mask;

use crate::attempt::MadeCall;
use crate::error::{EvalError, Result};
use crate::grade::{Grade, Verdict};
use crate::one_attempt::run_id;
use crate::stats::{Mean, all_of, any_of};
use crate::tape::Misfit;

/// Number of attempts that the text of a report shows with their reasons.
const SHOWN: usize = 20;

/// Number of cases that one line names.
const NAMED: usize = 5;

/// Maximum number of characters of a reason in the text of a report.
const LONGEST: usize = 2_000;

/// What an eval found: each attempt with its grades, and the figures over them.
///
/// Its text is for a terminal: keys are masked, and hidden characters are escaped. [`save`](Self::save)
/// writes it, and [`load`](Self::load) reads it again, for example to [compare](Self::compare) with it.
///
/// The value itself, and its form under other serializers, have all texts as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// The name of the eval.
    pub name: String,
    /// The graders' names, in their order.
    pub graders: Vec<String>,
    /// The attempts, in the order of the cases and their repeats.
    pub outcomes: Vec<GradedAttempt>,
    /// The attempts that were not made, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// The contracts that changed since the recording, by the name of each contract.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub changed_contracts: BTreeMap<String, ChangedContract>,
}

/// One attempt with its grades.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GradedAttempt {
    /// The name of the case.
    pub case: String,
    /// Number of the repeat, from 0.
    #[serde(default)]
    pub repeat: u32,
    /// The id of the run, if it was stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The input.
    pub input: Value,
    /// The expected output.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub expected: Value,
    /// The output. `null` if there is none.
    #[serde(default)]
    pub output: Value,
    /// The error of an agent or module that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The tool calls.
    #[serde(default)]
    pub calls: Vec<MadeCall>,
    /// The ending of the agent's run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// Number of replies of the model.
    pub rounds: u64,
    /// Number of tokens that models read and wrote, without those of graders.
    pub tokens: u64,
    /// Cost in US dollars, as far as it is known, without that of graders. `None` if nothing is known.
    pub dollars: Option<f64>,
    /// Whether the cost is known as a whole.
    pub cost_is_known: bool,
    /// Number of tokens that the models of graders read and wrote.
    #[serde(default)]
    pub grading_tokens: u64,
    /// Cost of the graders in US dollars, as far as it is known. `None` if nothing is known.
    #[serde(default)]
    pub grading_dollars: Option<f64>,
    /// Whether the cost of the graders is known as a whole.
    #[serde(default)]
    pub grading_cost_is_known: bool,
    /// Duration in seconds, without that of graders.
    pub seconds: f64,
    /// Data of the case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Value>,
    /// The grades, in the order of the graders.
    pub grades: Vec<Grade>,
}

/// An attempt that was not made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LeftOut {
    /// The name of the case.
    pub case: String,
    /// Number of the repeat, from 0.
    #[serde(default)]
    pub repeat: u32,
    /// Why.
    pub reason: String,
}

/// A contract that changed since the recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChangedContract {
    /// The changes, in words.
    pub changes: Vec<String>,
    /// The names of the cases whose recordings do not fit because of it.
    pub cases: Vec<String>,
}

impl GradedAttempt {
    /// Returns whether the attempt has an output, and every grader that had something to say let it pass.
    ///
    /// An attempt that no grader said anything of does not pass.
    #[must_use]
    pub fn passed(&self) -> bool {
        let mut counted =
            self.grades.iter().filter(|grade| grade.verdict != Verdict::Skip).peekable();
        self.error.is_none() && counted.peek().is_some() && counted.all(Grade::passed)
    }

    /// Returns the attempt without keys, for a file.
    pub(crate) fn without_keys(&self, mask: &Mask) -> Self {
        let call = |call: &MadeCall| MadeCall {
            within: all_masked(&call.within, mask),
            tool: mask.masked(&call.tool),
            arguments: mask.masked_json(&call.arguments),
            result: mask.masked(&call.result),
            ..call.clone()
        };
        let data = |(name, value): (&String, &Value)| (mask.masked(name), mask.masked_json(value));
        let grade = |grade: &Grade| Grade { reason: mask.masked(&grade.reason), ..grade.clone() };
        Self {
            case: mask.masked(&self.case),
            run: self.run.as_ref().map(|run| mask.masked(run)),
            input: mask.masked_json(&self.input),
            expected: mask.masked_json(&self.expected),
            output: mask.masked_json(&self.output),
            error: self.error.as_ref().map(|error| mask.masked(error)),
            calls: self.calls.iter().map(call).collect(),
            metadata: self.metadata.iter().map(data).collect(),
            grades: self.grades.iter().map(grade).collect(),
            ..*self
        }
    }
}

fn all_masked(texts: &[String], mask: &Mask) -> Vec<String> {
    texts.iter().map(|text| mask.masked(text)).collect()
}

impl LeftOut {
    pub(crate) fn new(case: &str, repeat: u32, reason: String) -> Self {
        Self { case: case.to_owned(), repeat, reason }
    }
}

impl Report {
    pub(crate) fn new(name: String, graders: Vec<String>) -> Self {
        let changed_contracts = BTreeMap::new();
        Self { name, graders, outcomes: Vec::new(), left_out: Vec::new(), changed_contracts }
    }

    /// Adds why the recording of a case no longer fits.
    pub(crate) fn add_misfit(&mut self, case: &str, misfit: Misfit) {
        for (contract, changes) in misfit.changes {
            let changed = self.changed_contracts.entry(contract).or_default();
            for change in changes {
                if !changed.changes.contains(&change) {
                    changed.changes.push(change);
                }
            }
            if changed.cases.last().is_none_or(|last| last != case) {
                changed.cases.push(case.to_owned());
            }
        }
    }

    /// Returns the attempts of each case, in the order of the cases.
    fn by_case(&self) -> Vec<(&str, Vec<&GradedAttempt>)> {
        let mut cases: Vec<(&str, Vec<&GradedAttempt>)> = Vec::new();
        for outcome in &self.outcomes {
            match cases.last_mut() {
                Some((name, outcomes)) if *name == outcome.case => outcomes.push(outcome),
                _ => cases.push((&outcome.case, vec![outcome])),
            }
        }
        cases
    }

    /// Returns the share of attempts that pass, by case. `None` if no attempt was made.
    #[must_use]
    pub fn pass_rate(&self) -> Option<Mean> {
        let rates: Vec<_> = self.case_rates().map(|(_, rate)| rate).collect();
        Mean::of(&rates)
    }

    pub(crate) fn case_rates(&self) -> impl Iterator<Item = (&str, f64)> {
        self.by_case().into_iter().map(|(name, outcomes)| {
            let passed = outcomes.iter().filter(|outcome| outcome.passed()).count();
            (name, passed as f64 / outcomes.len() as f64)
        })
    }

    /// Returns the mean score of a grader. Attempts that it skipped do not count, and those that it failed
    /// to grade count as 0. `None` if it graded nothing, or if there is no such grader.
    #[must_use]
    pub fn score(&self, grader: &str) -> Option<Mean> {
        let at = self.graders.iter().position(|name| name == grader)?;
        let means: Vec<f64> = self
            .by_case()
            .into_iter()
            .filter_map(|(_, outcomes)| {
                let scores: Vec<f64> = outcomes
                    .iter()
                    .filter_map(|outcome| outcome.grades.get(at))
                    .filter(|grade| grade.verdict != Verdict::Skip)
                    .map(|grade| grade.score.unwrap_or(0.0))
                    .collect();
                let count = scores.len() as f64;
                (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / count)
            })
            .collect();
        Mean::of(&means)
    }

    /// Returns the chance that `k` attempts of the same case all pass, as a mean over the cases: pass^k.
    ///
    /// `None` if a case was attempted less often than `k` times.
    #[must_use]
    pub fn pass_all(&self, k: u32) -> Option<Mean> {
        self.chances(k, all_of)
    }

    /// Returns the chance that at least one of `k` attempts of the same case passes, as a mean over the
    /// cases: pass@k.
    ///
    /// `None` if a case was attempted less often than `k` times.
    #[must_use]
    pub fn pass_any(&self, k: u32) -> Option<Mean> {
        self.chances(k, any_of)
    }

    fn chances(&self, k: u32, chance: fn(u32, u32, u32) -> Option<f64>) -> Option<Mean> {
        let chances: Option<Vec<f64>> = self
            .by_case()
            .into_iter()
            .map(|(_, outcomes)| {
                let passed = outcomes.iter().filter(|outcome| outcome.passed()).count();
                let count = |number: usize| u32::try_from(number).ok();
                chance(k, count(passed)?, count(outcomes.len())?)
            })
            .collect();
        Mean::of(&chances?)
    }

    /// Returns the attempts that do not pass.
    pub fn failed(&self) -> impl Iterator<Item = &GradedAttempt> {
        self.outcomes.iter().filter(|outcome| !outcome.passed())
    }

    /// Checks that at least this share of the attempts passes, from 0 to 1. Each case counts the same.
    ///
    /// # Panics
    ///
    /// With the report, if fewer pass, or if an attempt was left out: by the budget, or because its
    /// recording is missing or does not fit.
    #[track_caller]
    pub fn assert_at_least(&self, share: f64) {
        assert!((0.0..=1.0).contains(&share), "{share} is not a share; write a number from 0 to 1");
        self.assert_complete();
        let rate = self.pass_rate().map_or(0.0, |rate| rate.mean);
        // A share such as 0.7 is not exact in binary.
        let is_enough = rate + 1e-9 >= share;
        assert!(is_enough, "fewer than {:.1} % of the attempts pass\n{self}", share * 100.0);
    }

    /// Checks that the mean score of a grader is at least this, from 0 to 1.
    ///
    /// # Panics
    ///
    /// With the report, if it is lower, if the grader graded nothing, or if an attempt was left out. There
    /// is no such grader.
    #[track_caller]
    pub fn assert_score_at_least(&self, grader: &str, score: f64) {
        assert!((0.0..=1.0).contains(&score), "{score} is not a score; write a number from 0 to 1");
        assert!(
            self.graders.iter().any(|name| name == grader),
            "there is no grader `{grader}`; there are: {}",
            self.graders.join(", ")
        );
        self.assert_complete();
        let mean = self.score(grader).map(|mean| mean.mean);
        let is_enough = mean.is_some_and(|mean| mean + 1e-9 >= score);
        assert!(is_enough, "the mean score of `{grader}` is lower than {score}\n{self}");
    }

    #[track_caller]
    fn assert_complete(&self) {
        assert!(self.left_out.is_empty(), "some attempts were not made\n{self}");
    }

    /// Reads a report that was written as JSON.
    ///
    /// # Errors
    ///
    /// [`EvalError::Read`] and [`EvalError::Report`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = std::fs::read(path)
            .map_err(|source| EvalError::Read { path: path.to_owned(), source })?;
        serde_json::from_slice(&text)
            .map_err(|source| EvalError::Report { path: path.to_owned(), source })
    }

    /// Writes the report to a file: as a [page](Self::to_html) if its name ends in `.html`, as
    /// [JUnit XML](Self::to_junit) if it ends in `.xml`, and otherwise as JSON, which [`load`](Self::load)
    /// reads. Keys are masked in each of them, as in a
    /// [recording](toolwright_module::testing::Recording::save).
    ///
    /// # Errors
    ///
    /// [`EvalError::Write`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let failed = |source| EvalError::Write { path: path.to_owned(), source };
        let text = match path.extension().and_then(|ending| ending.to_str()) {
            Some("html") => self.to_html(None),
            Some("xml") => self.to_junit(),
            _ => {
                let report = self.without_keys(&Mask::from_env_and(&[]));
                serde_json::to_string_pretty(&report).map_err(|error| failed(error.into()))? + "\n"
            }
        };
        toolwright_module::__files::replace(path, text.as_bytes()).map_err(failed)
    }
}

impl Report {
    /// Returns the report without keys, for a file.
    fn without_keys(&self, mask: &Mask) -> Self {
        let left_out = |left: &LeftOut| {
            LeftOut::new(&mask.masked(&left.case), left.repeat, mask.masked(&left.reason))
        };
        let changed = |(contract, changed): (&String, &ChangedContract)| {
            let ChangedContract { changes, cases } = changed;
            let (changes, cases) = (all_masked(changes, mask), all_masked(cases, mask));
            (mask.masked(contract), ChangedContract { changes, cases })
        };
        Self {
            name: mask.masked(&self.name),
            graders: all_masked(&self.graders, mask),
            outcomes: self.outcomes.iter().map(|one| one.without_keys(mask)).collect(),
            left_out: self.left_out.iter().map(left_out).collect(),
            changed_contracts: self.changed_contracts.iter().map(changed).collect(),
        }
    }

    /// Returns the attempts that were left out, by their reason.
    pub(crate) fn left_out_by_reason(&self) -> Vec<(&str, Vec<String>)> {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for left in &self.left_out {
            let at = *places.entry(&left.reason).or_insert(reasons.len());
            if at == reasons.len() {
                reasons.push((&left.reason, Vec::new()));
            }
            reasons[at].1.push(run_id(&left.case, left.repeat));
        }
        reasons
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = Texts::default();
        let name = |name: &str| visible(&texts.without_keys(name));
        let reason = |text: &str| {
            let text = texts.shown(text.trim_end());
            let text = match text.char_indices().nth(LONGEST) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            };
            text.replace('\n', "\n    ")
        };
        let passed = self.outcomes.iter().filter(|outcome| outcome.passed()).count();
        write!(f, "{}: {passed} of {} attempts pass", name(&self.name), self.outcomes.len())?;
        if let Some(rate) = self.pass_rate() {
            write!(f, ", {rate}")?;
        }
        f.write_char('\n')?;
        for grader in &self.graders {
            match self.score(grader) {
                Some(score) => writeln!(f, "  {}: {score}", name(grader))?,
                None => writeln!(f, "  {}: nothing to grade", name(grader))?,
            }
        }
        for (contract, changed) in &self.changed_contracts {
            let count = changed.cases.len();
            let cases = if count == 1 { "case was" } else { "cases were" };
            let contract = name(contract);
            writeln!(f, "the contract `{contract}` changed since {count} {cases} recorded:")?;
            for change in &changed.changes {
                writeln!(f, "  {}", reason(change))?;
            }
        }
        for outcome in self.failed().take(SHOWN) {
            writeln!(f, "failed: {}", name(&run_id(&outcome.case, outcome.repeat)))?;
            if let Some(error) = &outcome.error {
                writeln!(f, "  error: {}", reason(error))?;
            }
            for (grader, grade) in self.graders.iter().zip(&outcome.grades) {
                if matches!(grade.verdict, Verdict::Fail | Verdict::Error) {
                    let why = match grade.reason.trim_end() {
                        "" => "it gave no reason".to_owned(),
                        why => reason(why),
                    };
                    writeln!(f, "  {}: {why}", name(grader))?;
                }
            }
        }
        let more = self.failed().count().saturating_sub(SHOWN);
        if more > 0 {
            writeln!(f, "{more} more failed")?;
        }
        let left_out = self.left_out_by_reason();
        for (why, attempts) in left_out.iter().take(SHOWN) {
            let names: Vec<_> = attempts.iter().take(NAMED).map(|one| name(one)).collect();
            write!(f, "not attempted: {}", names.join(", "))?;
            if attempts.len() > NAMED {
                write!(f, " and {} more", attempts.len() - NAMED)?;
            }
            writeln!(f, ": {}", reason(why))?;
        }
        let more = left_out.iter().skip(SHOWN).map(|(_, attempts)| attempts.len()).sum::<usize>();
        if more > 0 {
            writeln!(f, "{more} more not attempted")?;
        }
        Ok(())
    }
}
