//! A decision on a call that a run waits for, recorded for the program that drives the run.

use std::error::Error;

use clap::Args;
use serde_json::Value;
use toolwright_journal::Journal;
use toolwright_module::approval::{Approval, Decision};

use crate::show::{note, shortened, visible};

/// The decision, and the call that it is for.
#[derive(Args)]
pub(super) struct DecideArgs {
    /// The id of the call, if the run waits for several
    #[arg(long, value_name = "ID")]
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
    /// Records the decision.
    ///
    /// # Errors
    ///
    /// The run does not wait for this call, the arguments do not fit the tool, or the file cannot be
    /// written.
    pub(super) fn run(self, journal: &Journal, id: &str) -> Result<(), Box<dyn Error>> {
        let waiting = journal.run(id)?.waiting;
        let asked = chosen(&waiting, self.call.as_deref())?;
        let decision = self.decision.into_decision();
        if let Decision::Edit { arguments } = &decision
            && asked.path.is_empty()
            && let Some(contract) =
                journal.tools(id)?.as_ref().and_then(|tools| tools.contract(&asked.call.name))
        {
            contract.read::<Value>(arguments)?;
        }
        match user() {
            Some(user) => journal.decide_as(&user, id, asked, decision)?,
            None => journal.decide(id, asked, decision)?,
        }
        note(&format!(
            "recorded. The run goes on when the program that started it drives it again, or with: toolwright runs resume {}",
            visible(id)
        ));
        Ok(())
    }
}

impl DecisionArgs {
    fn into_decision(self) -> Decision {
        match self {
            Self { edit: Some(arguments), .. } => Decision::edit(arguments),
            Self { deny: Some(reason), .. } => Decision::deny(reason),
            Self { happened: Some(result), .. } => Decision::happened(result),
            Self { call_again: true, .. } => Decision::CallAgain,
            _ => Decision::Approve,
        }
    }
}

/// Returns the call with this id, or the only one.
fn chosen<'a>(waiting: &'a [Approval], call: Option<&str>) -> Result<&'a Approval, String> {
    let fits = |asked: &&Approval| call.is_none_or(|call| call == asked.call.id);
    let mut found = waiting.iter().filter(fits);
    let list = || {
        let calls = waiting.iter().map(|asked| {
            let (id, name) = (visible(&asked.call.id), visible(&asked.call.name));
            format!("\n  {id}: {name} {}", shortened(&visible(&asked.call.arguments)))
        });
        calls.collect::<String>()
    };
    match (found.next(), found.next(), call) {
        (Some(asked), None, _) => Ok(asked),
        (None, _, None) => Err("the run does not wait for a decision".to_owned()),
        (None, _, Some(call)) => Err(format!(
            "the run does not wait for the call {}; it waits for:{}",
            visible(call),
            list()
        )),
        (Some(_), Some(_), _) => {
            Err(format!("the run waits for several calls; choose one with --call:{}", list()))
        }
    }
}

/// Returns the name of the user of this terminal.
pub(crate) fn user() -> Option<String> {
    let mut names = ["USER", "USERNAME"].iter().filter_map(|name| std::env::var(name).ok());
    names.find(|user| !user.is_empty())
}
