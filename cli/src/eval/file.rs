//! The file of an eval: cases, and what is needed around them.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::{self, Display};
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use serde::de::value::MapAccessDeserializer;
use serde::de::{IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::{Location, Spanned};
use toolwright_evals::{CallMatching, Case, Eval, Judge, graders};
use toolwright_module::{Effect, LanguageModel};

use crate::config::Config;
use crate::texts::read_file;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// The content of the file, in YAML or JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    name: Option<String>,
    instructions: Option<String>,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    mcp: Vec<String>,
    #[serde(default)]
    selector: bool,
    temperature: Option<f32>,
    max_model_calls: Option<NonZeroU64>,
    max_time: Option<NonZeroU64>,
    max_output_tokens: Option<NonZeroU64>,
    #[serde(default)]
    cases: Cases,
    graders: IndexMap<String, Spanned<Grader>>,
    repeats: Option<NonZeroU32>,
    concurrency: Option<NonZeroUsize>,
    budget: Option<Spanned<f64>>,
    at_least: Option<Spanned<f64>>,
    #[serde(default)]
    scores_at_least: BTreeMap<String, Spanned<f64>>,
}

/// The cases, or the name of a file with them.
#[derive(Debug)]
enum Cases {
    Here(Vec<Spanned<Case>>),
    In(PathBuf),
}

impl Default for Cases {
    fn default() -> Self {
        Self::Here(Vec::new())
    }
}

impl<'de> Deserialize<'de> for Cases {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Both;

        impl<'de> Visitor<'de> for Both {
            type Value = Cases;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of cases, or the name of a file with cases")
            }

            fn visit_str<E>(self, file: &str) -> Result<Cases, E> {
                Ok(Cases::In(file.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Cases, A::Error> {
                let mut cases = Vec::new();
                while let Some(case) = list.next_element()? {
                    cases.push(case);
                }
                Ok(Cases::Here(cases))
            }
        }

        deserializer.deserialize_any(Both)
    }
}

/// A grader with its settings, by the name of its function.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", remote = "Self")]
enum Grader {
    EqualsExpected,
    ContainsExpected,
    Refuses,
    Contains(String),
    ContainsAll(String),
    Matches(String),
    NearExpected(f64),
    MakesExpectedCalls(Calls),
    NeverCalls(Vec<String>),
    AsksBefore(Effect),
    RoundsAtMost(u64),
    CostsAtMost(f64),
    TakesAtMost(f64),
    Judge(Rubric),
}

impl<'de> Deserialize<'de> for Grader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NamedOrSet;

        impl<'de> Visitor<'de> for NamedOrSet {
            type Value = Grader;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a grader, or a grader with its settings")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Grader, E> {
                match name {
                    // All its settings have a default.
                    "makes_expected_calls" => Ok(Grader::MakesExpectedCalls(Calls::default())),
                    name => Grader::deserialize(name.into_deserializer()),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Grader, A::Error> {
                Grader::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_any(NamedOrSet)
    }
}

/// The settings of a comparison of calls.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Calls {
    in_order: bool,
    allowing_others: bool,
    allowing_failed: bool,
}

/// The settings of a judge.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rubric {
    rubric: String,
    /// The model that judges. Default: the one that is judged.
    model: Option<String>,
    pass_mark: Option<u8>,
}

/// An eval of a file.
pub(super) struct EvalFile {
    path: PathBuf,
    content: Content,
    /// The cases, in their order.
    pub(super) cases: Vec<Case>,
}

impl EvalFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not an eval. The error names the line.
    pub(super) fn load(path: &Path) -> Result<Self> {
        let named = |error: &dyn Display| format!("{}: {error}", path.display());
        let text = read_file(path).map_err(|error| named(&error))?;
        // JSON is YAML too.
        let content: Content = serde_saphyr::from_str(&text).map_err(|error| {
            let text = error.without_snippet().to_string();
            // The text ends with the place.
            let reason = text.rsplit_once(" at line ").map_or(&*text, |(reason, _)| reason);
            let reason = in_plain_words(reason);
            named(&error.location().map_or(text.clone(), |at| on_line(at, reason)))
        })?;
        let mut file = Self { path: path.to_owned(), content, cases: Vec::new() };
        file.cases = file.all_cases()?;
        file.check()?;
        Ok(file)
    }

    fn all_cases(&self) -> Result<Vec<Case>> {
        let cases = match &self.content.cases {
            Cases::In(file) => {
                let folder = self.path.parent().unwrap_or(Path::new(""));
                return Ok(Case::load(folder.join(file))?);
            }
            Cases::Here(cases) => cases,
        };
        for (nth, Spanned { value, referenced, .. }) in cases.iter().enumerate() {
            if value.name.trim().is_empty() {
                return Err(self.fault(referenced, "a case has no name; give it one"));
            }
            if cases[..nth].iter().any(|other| other.value.name == value.name) {
                let text = format!(
                    "two cases have the name `{}`; give each case a name of its own",
                    value.name
                );
                return Err(self.fault(referenced, &text));
            }
        }
        Ok(cases.iter().map(|case| case.value.clone()).collect())
    }

    fn check(&self) -> Result<()> {
        let Content { graders, budget, at_least, scores_at_least, .. } = &self.content;
        if graders.is_empty() {
            let text = "the eval has no graders; add some below `graders`";
            return Err(format!("{}: {text}", self.path.display()).into());
        }
        for share in at_least.iter().chain(scores_at_least.values()) {
            if !(0.0..=1.0).contains(&share.value) {
                let text = format!("{} is not a share; write a number from 0 to 1", share.value);
                return Err(self.fault(&share.referenced, &text));
            }
        }
        if let Some(budget) = budget.as_ref().filter(|budget| !is_amount(budget.value)) {
            let text = "the budget is not an amount; write a number of US dollars";
            return Err(self.fault(&budget.referenced, text));
        }
        for (grader, score) in scores_at_least {
            if !graders.contains_key(grader) {
                let known: Vec<_> = graders.keys().map(String::as_str).collect();
                let text =
                    format!("there is no grader `{grader}`; there are: {}", known.join(", "));
                return Err(self.fault(&score.referenced, &text));
            }
        }
        for Spanned { value, referenced, .. } in graders.values() {
            match value {
                Grader::CostsAtMost(most)
                | Grader::TakesAtMost(most)
                | Grader::NearExpected(most)
                    if !is_amount(*most) =>
                {
                    return Err(self.fault(referenced, "write a number of at least 0"));
                }
                Grader::Judge(Rubric { pass_mark: Some(11..), .. }) => {
                    let text = "a judge gives at most 10 points; write a `pass_mark` from 0 to 10";
                    return Err(self.fault(referenced, text));
                }
                Grader::Matches(pattern) => {
                    graders::matches::<String, String>(pattern)
                        .map(drop)
                        .map_err(|error| self.fault(referenced, &error.to_string()))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn fault(&self, at: &Location, text: &str) -> Box<dyn Error> {
        format!("{}: {}", self.path.display(), on_line(*at, text)).into()
    }

    pub(super) fn name(&self) -> String {
        let stem = || self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        self.content.name.clone().unwrap_or_else(stem)
    }

    /// Returns the options of the file in the form of a configuration.
    pub(super) fn options(&self) -> Config {
        let file = &self.content;
        Config {
            system: file.instructions.clone(),
            tools: file.tools.clone(),
            mcp: file.mcp.clone(),
            selector: file.selector,
            temperature: file.temperature,
            max_model_calls: file.max_model_calls,
            max_time: file.max_time,
            max_output_tokens: file.max_output_tokens,
            ..Config::default()
        }
    }

    pub(super) fn repeats(&self) -> Option<u32> {
        self.content.repeats.map(NonZeroU32::get)
    }

    pub(super) fn concurrency(&self) -> Option<usize> {
        self.content.concurrency.map(NonZeroUsize::get)
    }

    pub(super) fn budget(&self) -> Option<f64> {
        self.content.budget.as_ref().map(|budget| budget.value)
    }

    /// Returns the share of attempts that have to pass.
    pub(super) fn at_least(&self) -> Option<f64> {
        self.content.at_least.as_ref().map(|share| share.value)
    }

    /// Returns the mean scores that graders have to give.
    pub(super) fn scores_at_least(&self) -> impl Iterator<Item = (&str, f64)> {
        self.content.scores_at_least.iter().map(|(name, score)| (name.as_str(), score.value))
    }

    /// Returns the names of the models that judge. `None` is the model that is judged.
    pub(super) fn judges(&self) -> impl Iterator<Item = Option<&str>> {
        self.content.graders.values().filter_map(|grader| match &grader.value {
            Grader::Judge(rubric) => Some(rubric.model.as_deref()),
            _ => None,
        })
    }

    /// Adds the graders. `judge` returns the model of a judge by its name.
    ///
    /// # Errors
    ///
    /// A judge has no model, or its model cannot be used.
    pub(super) fn graded(
        &self,
        mut eval: Eval,
        judge: impl Fn(Option<&str>) -> Option<Arc<dyn LanguageModel>>,
    ) -> Result<Eval> {
        for (name, Spanned { value, referenced, .. }) in &self.content.graders {
            let fault = |error: &dyn Display| self.fault(referenced, &error.to_string());
            eval = match value.clone() {
                Grader::EqualsExpected => eval.with_grader(name, graders::equals_expected()),
                Grader::ContainsExpected => eval.with_grader(name, graders::contains_expected()),
                Grader::Refuses => eval.with_grader(name, graders::refuses()),
                Grader::Contains(text) => eval.with_grader(name, graders::contains(text)),
                Grader::ContainsAll(data) => eval.with_grader(name, graders::contains_all(data)),
                Grader::Matches(pattern) => {
                    let grader = graders::matches(&pattern).map_err(|error| fault(&error))?;
                    eval.with_grader(name, grader)
                }
                Grader::NearExpected(distance) => {
                    let number = |text: &String| text.trim().parse().unwrap_or(f64::NAN);
                    eval.with_grader(name, graders::near_expected(number, distance))
                }
                Grader::MakesExpectedCalls(calls) => {
                    let matching = calls.matching();
                    eval.with_grader(name, graders::makes_expected_calls(matching))
                }
                Grader::NeverCalls(tools) => eval.with_grader(name, graders::never_calls(tools)),
                Grader::AsksBefore(effect) => eval.with_grader(name, graders::asks_before(effect)),
                Grader::RoundsAtMost(most) => eval.with_grader(name, graders::rounds_at_most(most)),
                Grader::CostsAtMost(most) => eval.with_grader(name, graders::costs_at_most(most)),
                Grader::TakesAtMost(most) => {
                    let time = Duration::try_from_secs_f64(most).unwrap_or(Duration::MAX);
                    eval.with_grader(name, graders::takes_at_most(time))
                }
                Grader::Judge(Rubric { rubric, model, pass_mark }) => {
                    let model = judge(model.as_deref())
                        .ok_or_else(|| fault(&"the judge has no model; name it in `model`"))?;
                    let judge = Judge::new(model, rubric).map_err(|error| fault(&error))?;
                    eval.with_grader(
                        name,
                        match pass_mark {
                            Some(points) => judge.with_pass_mark(points),
                            None => judge,
                        },
                    )
                }
            };
        }
        Ok(eval)
    }
}

impl Calls {
    fn matching(&self) -> CallMatching {
        let mut matching = CallMatching::new();
        if self.in_order {
            matching = matching.in_order();
        }
        if self.allowing_others {
            matching = matching.allowing_others();
        }
        if self.allowing_failed {
            matching = matching.allowing_failed();
        }
        matching
    }
}

fn is_amount(number: f64) -> bool {
    number.is_finite() && number >= 0.0
}

/// Returns what is wrong with the form of a value, in the words of this program.
fn in_plain_words(reason: &str) -> &str {
    match reason {
        "expected sequence start" => "expected a list, such as [one, two]",
        "expected mapping start" => "expected fields, such as {name: value}",
        "expected string scalar" => "expected a text",
        reason if reason.starts_with("budget breached") => {
            "the file has too many values; put the cases into a file of JSON lines, and name it in `cases`"
        }
        // The rest is advice for a program that reads YAML.
        reason => reason.split(", set DuplicateKeyPolicy").next().unwrap_or(reason),
    }
}

fn on_line(at: Location, text: &str) -> String {
    format!("line {}: {text}", at.line())
}
