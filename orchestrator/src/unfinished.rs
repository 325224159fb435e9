//! Errors of runs that ended without an answer, and of runs that wait for approval.
use std::collections::BTreeMap;
use std::fmt;

use toolwright_module::budget::LimitKind;
use toolwright_module::error::Stage;
use toolwright_module::event::Ending;
use toolwright_module::{Error, ToolCall};

use crate::finished::Finished;

/// The error of a run that ended without an answer, with the whole run.
///
/// Get it from an error with [`Error::downcast_ref`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}", sentence(name, finished))]
#[non_exhaustive]
pub struct Unfinished {
    /// Name of the agent, or of the signature that it fulfils.
    pub name: String,
    /// The run. Its answer is the model's last text. For [`Ending::Stuck`] the answer names the
    /// mistake.
    pub finished: Box<Finished>,
}

fn sentence(name: &str, finished: &Finished) -> String {
    let Finished { iterations, limit, answer, ending, reason, .. } = finished;
    let no_output = format!("`{name}` has no output after {iterations} iterations");
    match (ending, limit) {
        (Ending::Refused, _) => match (answer.trim().is_empty(), reason) {
            (false, None) => "the model refused the task; its reply says why".to_owned(),
            (false, Some(reason)) => format!(
                "the model or its provider refused the task of `{name}` for the reason {reason:?}; its text is the error's reply"
            ),
            (true, Some(reason)) => format!(
                "the model or its provider refused the task of `{name}` without a text, for the reason {reason:?}; change the task, or try another model"
            ),
            (true, None) => format!(
                "the model or its provider refused the task of `{name}` and gave no reason; change the task, or try another model"
            ),
        },
        (Ending::Stuck, _) => format!(
            "`{name}` got stuck: {answer}; change the tool or the instructions, or raise `max_same_failures`"
        ),
        (Ending::Unclear, _) => format!(
            "the model stopped with {:?}, which this version does not know, so the answer of `{name}` may be incomplete; run it again or try another model",
            reason.as_deref().unwrap_or_default(),
        ),
        (Ending::CutOff, _) => {
            format!(
                "{no_output}; its answer was cut off: raise the maximum with `Settings::with_max_output_tokens`"
            )
        }
        (_, Some(LimitKind::Time)) => format!("{no_output}; its time ran out: raise `max_time`"),
        (_, Some(limit)) if *limit != LimitKind::Iterations => {
            format!("{no_output}; its {limit} ran out: raise them in its `Budget`")
        }
        _ => format!(
            "{no_output}; raise `max_iterations`, or look at its history for what it is missing"
        ),
    }
}

impl Unfinished {
    pub(crate) fn error(name: &str, finished: Finished) -> Error {
        let stage = match finished.ending {
            Ending::Refused | Ending::Unclear => Stage::Provider,
            _ => Stage::Limit,
        };
        let usage = finished.spent.usage;
        let raw = finished.answer.clone();
        let unfinished = Self { name: name.to_owned(), finished: Box::new(finished) };
        let error = Error::other(unfinished).at(stage).with_usage(usage);
        let error = match stage {
            Stage::Provider => error.with_request_refused(),
            _ => error,
        };
        // The sentence already contains the mistake.
        if stage == Stage::Limit && raw.is_empty() { error } else { error.with_raw(raw) }
    }
}

/// Maximum number of reasons in the text of [`AwaitsApproval`].
const SHOWN_REASONS: usize = 3;

/// The error of calls that wait for a person while there is no approver.
///
/// The run is at its step [`AwaitApproval`](crate::StepKind::AwaitApproval). Record the decision where
/// the run is, and drive the run again:
///
/// | the run is | record the decision with |
/// |---|---|
/// | in a folder | `Journal::decide` of `toolwright-journal` |
/// | one of the command `toolwright` | `toolwright runs resume ID`, at a terminal |
/// | in PostgreSQL | `Runs::decide` of `toolwright-postgres`; a worker then drives the run |
/// | on Restate | `decide` of `toolwright-restate`; the workflow waits for it, without this error |
/// | a value of your program | [`Run::apply`](crate::Run::apply) of [`StepResult::decisions`](crate::StepResult::decisions) |
/// | any of these | an approver ([`Context::with_approver`]), which is asked by the next drive |
///
/// Get this error from another one with [`Error::downcast_ref`].
///
/// [`Context::with_approver`]: toolwright_module::Context::with_approver
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AwaitsApproval {
    /// The names of the tools around the agent, as in `a > b`. Empty for an agent that is not
    /// called as a tool.
    pub path: String,
    /// The waiting calls.
    pub calls: Vec<ToolCall>,
    /// Why they wait, by their ids; see [`Run::reason`](crate::Run::reason).
    pub reasons: BTreeMap<String, String>,
    /// Whether a call was begun before and its outcome is not known; see
    /// [`Run::unknown_outcome`](crate::Run::unknown_outcome).
    pub unknown: bool,
}

impl AwaitsApproval {
    pub(crate) fn is_in(error: &Error) -> bool {
        error.downcast_ref::<Self>().is_some()
    }

    /// Returns which calls wait, and the first reasons. The error goes on with what to do.
    ///
    /// Example: `` `send` waits for a person's approval (its argument `to` is quoted from the result of
    /// `read_mail`) ``.
    #[must_use]
    pub fn summary(&self) -> String {
        let (mut names, mut reasons) = (Vec::new(), Vec::new());
        for call in &self.calls {
            let name = match self.path.as_str() {
                "" => format!("`{}`", call.name),
                path => format!("`{path} > {}`", call.name),
            };
            if let Some(reason) = self.reasons.get(&call.id) {
                let reason = (name.clone(), reason);
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let mut text = match self.unknown {
            true => "it is not known whether the call took effect; ".to_owned(),
            false => String::new(),
        };
        let waits = if names.len() == 1 { "waits" } else { "wait" };
        text += &format!("{} {waits} for a person's approval", names.join(", "));
        let more = reasons.len().saturating_sub(SHOWN_REASONS);
        reasons.truncate(SHOWN_REASONS);
        let shown = reasons.iter().map(|(name, reason)| match names.len() {
            1 => (*reason).clone(),
            _ => format!("{name}: {reason}"),
        });
        let mut shown: Vec<String> = shown.collect();
        if more > 0 {
            shown.push(format!("{more} more"));
        }
        if !shown.is_empty() {
            text += &format!(" ({})", shown.join("; "));
        }
        text
    }
}

impl fmt::Display for AwaitsApproval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advice = if self.path.is_empty() {
            "record the decision with `decide` of the journal or database that has the run, or with \
             `StepResult::decisions` in a run of your own, or give the context an approver; then \
             drive the run again"
        } else {
            "record the decision with `decide` of the journal or database that has the run, or give \
             the context an approver (`Context::with_approver`); then drive the run again"
        };
        write!(f, "{}; {advice}", self.summary())
    }
}

impl std::error::Error for AwaitsApproval {}
