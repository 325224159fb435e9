//! A report in the form that CI servers read.

use maud::{Markup, PreEscaped, html};
use toolwright_journal::__page::Texts;

use crate::grade::Verdict;
use crate::one_attempt::run_id;
use crate::report::{GradedAttempt, Report};

/// Maximum number of characters of the line that a CI server shows for a failure.
const LONGEST: usize = 200;

impl Report {
    /// Returns the report as JUnit XML, which CI servers read: a suite with one test case for each
    /// attempt.
    ///
    /// An attempt that does not pass is a failure, with the reasons of the graders. An attempt is an error
    /// if the agent or a grader failed. Attempts that were not made are skipped.
    ///
    /// Keys are masked, and hidden characters are escaped as in JSON, because XML has no others.
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
    /// # let path = folder.path().join("greetings.xml");
    /// std::fs::write(path, report.to_junit())?;
    /// assert!(report.to_junit().contains(r#"<testcase name="ada" classname="greetings""#));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn to_junit(&self) -> String {
        let texts = Texts::default();
        let name = |case: &str, repeat: u32| attribute(&texts, &run_id(case, repeat));
        let suite = attribute(&texts, &self.name);
        let errors = self.failed().filter(|attempt| is_error(attempt)).count();
        let failures = self.failed().count() - errors;
        let seconds: f64 = self.outcomes.iter().map(|attempt| attempt.seconds).sum();
        // HTML and XML escape texts in the same way. No element here is empty by its name.
        let body = html! {
            testsuites {
                testsuite name=(suite) tests=(self.outcomes.len() + self.left_out.len())
                    failures=(failures) errors=(errors) skipped=(self.left_out.len())
                    time=(time(seconds))
                {
                    @for attempt in &self.outcomes {
                        testcase name=(name(&attempt.case, attempt.repeat)) classname=(suite) time=(time(attempt.seconds)) {
                            @if !attempt.passed() { (self.fault(&texts, attempt)) }
                        }
                    }
                    @for left in &self.left_out {
                        testcase name=(name(&left.case, left.repeat)) classname=(suite) time="0" {
                            skipped message=(attribute(&texts, &left.reason)) {}
                        }
                    }
                }
            }
        };
        let head = PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        html! { (head) (body) }.into_string()
    }

    /// Returns why an attempt does not pass.
    fn fault(&self, texts: &Texts, attempt: &GradedAttempt) -> Markup {
        let error = attempt.error.iter().map(|error| format!("error: {error}"));
        let named = self.graders.iter().zip(&attempt.grades);
        let reasons = named.filter_map(|(grader, grade)| match grade.verdict {
            Verdict::Fail | Verdict::Error => Some(match grade.reason.as_str() {
                "" => grader.clone(),
                reason => format!("{grader}: {reason}"),
            }),
            Verdict::Pass | Verdict::Skip => None,
        });
        let mut text = error.chain(reasons).collect::<Vec<_>>().join("\n");
        if text.is_empty() {
            "no grader had something to say".clone_into(&mut text);
        }
        let first = of_xml(texts.first_words(&text, LONGEST));
        let text = of_xml(texts.shown(&text));
        html! {
            @if is_error(attempt) { error message=(first) type="error" { (text) } }
            @else { failure message=(first) type="failure" { (text) } }
        }
    }
}

/// Returns whether nobody knows if the agent would pass, because it or a grader failed.
fn is_error(attempt: &GradedAttempt) -> bool {
    attempt.error.is_some() || attempt.grades.iter().any(|grade| grade.verdict == Verdict::Error)
}

/// Returns a text for an attribute, in which a reader of XML replaces the ends of lines.
fn attribute(texts: &Texts, text: &str) -> String {
    of_xml(texts.shown(text)).replace('\n', "\\u000a").replace('\t', "\\u0009")
}

/// Escapes the characters that XML forbids, besides those that are hidden.
fn of_xml(text: String) -> String {
    text.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff")
}

/// Returns seconds without an exponent, which the schema of JUnit does not have.
fn time(seconds: f64) -> String {
    format!("{seconds:.3}")
}
