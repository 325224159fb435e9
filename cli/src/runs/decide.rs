//! A decision on a call that a run waits for, recorded for the program that drives the run.

use std::collections::HashSet;
use std::error::Error;

use clap::Args;
use toolwright_journal::__page::{SHORT_HASH, short_hash};
use toolwright_journal::RunStatus;
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::message::ReplyPart;
use toolwright_orchestrator::perform::{OutcomeKind, Record};

use super::home::Home;
use crate::approve::on_one_line;
use crate::keys::{MASKED, without_keys};
use crate::show::{note, quoted, shortened, shown, visible};

/// The decision, and the call that it is for.
#[derive(Args)]
pub(super) struct DecideArgs {
    /// The call: its short hash, or its id if no other call of the run has it, as `runs show` prints
    /// them. Only --deny can do without, if the run waits for one call
    #[arg(long, value_name = "HASH|ID")]
    call: Option<String>,

    #[command(flatten)]
    decision: DecisionArgs,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct DecisionArgs {
    /// Make the call
    #[arg(long)]
    approve: bool,

    /// Make the call with these arguments instead
    #[arg(long, value_name = "JSON")]
    edit: Option<String>,

    /// Do not make the call. The model gets the reason
    #[arg(long, value_name = "REASON")]
    deny: Option<String>,

    /// Make a call again that may have taken effect
    #[arg(long)]
    call_again: bool,

    /// A call that may have taken effect did so, with this result
    #[arg(long, value_name = "RESULT")]
    happened: Option<String>,
}

impl DecideArgs {
    /// Records the decision. `is_latest` says that no run was named.
    ///
    /// # Errors
    ///
    /// The run does not wait for this call, the arguments do not fit the tool, or the decision cannot
    /// be written.
    pub(super) async fn run(
        self,
        home: &Home,
        id: &str,
        is_latest: bool,
    ) -> Result<(), Box<dyn Error>> {
        let run = home.run(id).await?;
        if let (RunStatus::Unreadable, Some(error)) = (run.status, run.error) {
            return Err(error.into());
        }
        let waiting = run.waiting;
        let makes_a_call = self.decision.deny.is_none();
        if makes_a_call && is_latest {
            return Err(format!(
                "latest may be another run than the one that you saw; name the run {}, and the call \
                 with --call:{}",
                quoted(id),
                list(&waiting)
            )
            .into());
        }
        if makes_a_call && self.call.is_none() && !waiting.is_empty() {
            let list = list(&waiting);
            return Err(format!("name the call that you decide on with --call:{list}").into());
        }
        let asked = chosen(&waiting, self.call.as_deref())?;
        if self.call.is_some_and(|call| !is_hash(&call))
            && has_other_calls(&home.records(id).await?, asked)
        {
            return Err(format!(
                "the run has several calls with the id {}; name the one that you saw by its hash, \
                 with --call:{}",
                visible(&asked.call.id),
                list(&waiting)
            )
            .into());
        }
        let decision = self.decision.into_decision();
        if let Decision::Edit { arguments } = &decision
            && arguments.contains(MASKED)
            && !asked.call.arguments.contains(MASKED)
        {
            return Err(format!(
                "{MASKED} only stands for a key where the call is shown; write the value itself"
            )
            .into());
        }
        home.decide(user().as_deref(), id, asked, decision).await?;
        note(&match home {
            Home::Folder(_) => format!(
                "recorded. The run goes on when the program that started it drives it again, or with: toolwright runs resume {}",
                quoted(id)
            ),
            #[cfg(feature = "postgres")]
            Home::Database(_) => {
                "recorded. The run goes on when a worker of its agent takes it".to_owned()
            }
        });
        Ok(())
    }
}

impl DecisionArgs {
    fn into_decision(self) -> Decision {
        match self {
            Self { edit: Some(arguments), .. } => Decision::Edit { arguments },
            Self { deny: Some(reason), .. } => Decision::deny(reason),
            Self { happened: Some(result), .. } => Decision::Happened { result },
            Self { call_again: true, .. } => Decision::CallAgain,
            _ => Decision::Approve,
        }
    }
}

/// Returns the call with this hash or id, or the only one.
fn chosen<'a>(waiting: &'a [Approval], call: Option<&str>) -> Result<&'a Approval, String> {
    // The model chooses ids, so an id never counts where a hash may be meant.
    let fits = |asked: &&Approval| match call {
        None => true,
        Some(call) if is_hash(call) => call == short_hash(asked),
        Some(call) => call == asked.call.id,
    };
    let mut found = waiting.iter().filter(fits);
    match (found.next(), found.next(), call) {
        (Some(asked), None, _) => Ok(asked),
        (None, _, _) if waiting.is_empty() => {
            Err("the run does not wait for a decision".to_owned())
        }
        (None, _, call) => Err(format!(
            "the run does not wait for the call {}; it waits for:{}",
            visible(call.unwrap_or_default()),
            list(waiting)
        )),
        (Some(_), Some(_), _) => Err(format!(
            "the run waits for several calls; choose one with --call:{}",
            list(waiting)
        )),
    }
}

/// Returns the calls that wait, each with its hash.
fn list(waiting: &[Approval]) -> String {
    let calls = waiting.iter().map(|asked| {
        let (id, name) = (visible(&asked.call.id), visible(&asked.call.name));
        let arguments = shortened(&without_keys(&on_one_line(&asked.call.arguments)));
        let reason = asked.reason.as_ref().map(|reason| format!("; {}", shown(reason)));
        let reason = reason.unwrap_or_default();
        format!("\n{} ({id}): {name} {arguments}{reason}", short_hash(asked))
    });
    calls.collect()
}

/// Returns whether a text has the form of a [`short_hash`].
fn is_hash(text: &str) -> bool {
    text.len() == SHORT_HASH && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns whether a model of the run has given the id of a call to another call too. A person who
/// names the id may have seen that one.
fn has_other_calls(records: &[Record], asked: &Approval) -> bool {
    // A record may be there twice.
    let mut own = HashSet::new();
    for record in records {
        let Record::Ended { part: asks, outcome, .. } = record else { continue };
        let OutcomeKind::Reply(reply) = &outcome.kind else { continue };
        for (place, part) in reply.parts.iter().enumerate() {
            if matches!(part, ReplyPart::Call(call) if call.id == asked.call.id) {
                if asks.path != asked.path {
                    return true;
                }
                own.insert((asks, place));
            }
        }
    }
    own.len() > 1
}

/// Returns the name of the user of this terminal.
pub(crate) fn user() -> Option<String> {
    let mut names = ["USER", "USERNAME"].iter().filter_map(|name| std::env::var(name).ok());
    names.find(|user| !user.is_empty())
}

#[cfg(test)]
mod tests {
    use toolwright_module::{Effect, ToolCall};

    use super::*;

    fn asked(id: &str, name: &str) -> Approval {
        Approval {
            path: Vec::new(),
            call: ToolCall::new(id, name, "{}"),
            effect: Effect::Irreversible,
            unknown: false,
            asked_before: 0,
            reason: None,
        }
    }

    #[test]
    fn a_call_whose_id_is_the_hash_of_another_is_not_that_one() {
        let seen = asked("c1", "memory_list");
        let hash = short_hash(&seen);
        let forged = asked(&hash, "memory_clear");
        assert_eq!(chosen(&[forged.clone(), seen.clone()], Some(&hash)).unwrap(), &seen);
        // The page that showed the hash is old.
        let error = chosen(std::slice::from_ref(&forged), Some(&hash)).unwrap_err();
        assert!(error.contains(&short_hash(&forged)), "{error}");
        assert_eq!(
            chosen(std::slice::from_ref(&forged), Some(&short_hash(&forged))).unwrap(),
            &forged
        );
        assert_eq!(chosen(&[forged, seen.clone()], Some("c1")).unwrap(), &seen);
    }

    #[test]
    fn each_question_about_a_call_has_its_own_hash() {
        let asked = asked("c1", "pay");
        let unknown = |nth| Approval { unknown: true, asked_before: nth, ..asked.clone() };
        let again = |nth| short_hash(&unknown(nth));
        let hashes = [short_hash(&asked), again(0), again(1), again(2)];
        assert_eq!(HashSet::from(hashes).len(), 4);
        // The page or the terminal that showed the first question is old.
        let second = unknown(1);
        let error = chosen(std::slice::from_ref(&second), Some(&again(0))).unwrap_err();
        assert!(error.contains("does not wait for the call"), "{error}");
        assert_eq!(chosen(std::slice::from_ref(&second), Some(&again(1))).unwrap(), &second);
    }
}
