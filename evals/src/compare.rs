//! Two reports on the same cases, side by side.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::report::Report;
use crate::stats::{difference, sign_test};

/// The difference between two reports on the same cases.
///
/// The cases are paired by their names, so what is hard for both makes no difference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Comparison {
    /// Number of cases that both reports have.
    pub cases: usize,
    /// Mean of what the pass rates of the cases gained, from -1 to 1.
    pub gain: f64,
    /// Lower end of the 95 % confidence interval of the gain.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// The cases that pass more often now.
    pub better: Vec<String>,
    /// The cases that pass less often now.
    pub worse: Vec<String>,
    /// The chance that this many of the changed cases became better or worse, or more, if neither version
    /// were better. A small number says that the difference is hardly chance.
    pub chance: f64,
    /// The cases that only one of the reports has.
    pub unpaired: Vec<String>,
}

impl Report {
    /// Compares this report with an earlier one, or with that of another model.
    ///
    /// ```
    /// use toolwright_evals::{Case, Eval, Report, graders};
    /// use toolwright_module::testing::Scripted;
    /// use toolwright_module::{Context, Reply};
    /// use toolwright_orchestrator::Agent;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// async fn report(answer: &str) -> Result<Report, Box<dyn std::error::Error>> {
    ///     let answer = answer.to_owned();
    ///     let model = Scripted::new(move |_| Ok(Reply::text(answer.clone())));
    ///     let eval = Eval::agent("greetings", Agent::new(model, [])?)
    ///         .with_cases([Case::new("hello", "Say hello."), Case::new("bye", "Say goodbye.")])
    ///         .with_grader("says hello", graders::contains("hello"));
    ///     Ok(eval.run(&Context::default()).await?)
    /// }
    /// let comparison = report("Hello.").await?.compare(&report("Hm.").await?);
    /// assert_eq!(comparison.better, ["hello", "bye"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn compare(&self, earlier: &Self) -> Comparison {
        let mut before: HashMap<&str, f64> = earlier.case_rates().collect();
        let (mut better, mut worse, mut unpaired) = (Vec::new(), Vec::new(), Vec::new());
        let mut gains = Vec::new();
        for (case, now) in self.case_rates() {
            let Some(before) = before.remove(case) else {
                unpaired.push(case.to_owned());
                continue;
            };
            gains.push(now - before);
            if now > before {
                better.push(case.to_owned());
            } else if now < before {
                worse.push(case.to_owned());
            }
        }
        let only_before = earlier.case_rates().map(|(case, _)| case);
        unpaired.extend(only_before.filter(|case| before.contains_key(case)).map(str::to_owned));
        let (gain, low, high) = difference(&gains).unwrap_or((0.0, -1.0, 1.0));
        let chance = sign_test(better.len(), worse.len());
        Comparison { cases: gains.len(), gain, low, high, better, worse, chance, unpaired }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cases, gain, low, high, better, worse, chance, unpaired } = self;
        writeln!(
            f,
            "{cases} cases: {:+.1} points (95 %: {:+.1} to {:+.1}); {} better, {} worse (p = {chance:.3})",
            gain * 100.0,
            low * 100.0,
            high * 100.0,
            better.len(),
            worse.len(),
        )?;
        for (word, cases) in [("better", better), ("worse", worse), ("only in one", unpaired)] {
            if !cases.is_empty() {
                writeln!(f, "  {word}: {}", cases.join(", "))?;
            }
        }
        Ok(())
    }
}
