//! The old version of a program that is deployed again while runs are open. See `deploys_new`.
//!
//! ```text
//! END_AT="during send" cargo run -p toolwright-examples --example deploys_old -- runs
//! cargo run -p toolwright-examples --example deploys_new -- runs "a tool is renamed"
//! ```
//!
//! The first command starts two runs, `untyped` and `typed`, and ends as if it was killed.

use std::error::Error;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_cli::say;
use toolwright_module::{Effect, Reply, Signature};
use toolwright_orchestrator::{Agent, ReAct};

#[path = "common/deploys.rs"]
mod deploys;

use deploys::{Find, Invite, Script, Send, TASK, call, cx, journal, tool};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Invited {
    done: bool,
}

impl Signature for Invite {
    type Output = Invited;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (journal, cx) = (journal()?, cx());
    let tools = || {
        Ok::<_, toolwright_module::Error>([
            tool::<Find>("find", Effect::Read)?,
            tool::<Send>("send", Effect::Write)?,
        ])
    };
    let calls =
        [call("a", "find", r#"{"name": "Ada"}"#), call("b", "send", r#"{"to": "1 Main Street"}"#)];
    if std::env::args().nth(2).as_deref() == Some("typed") {
        let finish = call("f", "finish", r#"{"done": true}"#);
        let model = Script::new(calls.into_iter().chain([finish]));
        let invite = ReAct::<Invite>::new(Agent::new(model, tools()?)?)?;
        let task = invite.task(&Invite::ada())?;
        let finished = journal.drive(invite.agent(), "typed", task, &cx).await?;
        say(&serde_json::to_string(&finished.answer)?);
        return Ok(());
    }
    let model = Script::new(calls.into_iter().chain([Reply::text("Done.")]));
    let agent = Agent::new(model, tools()?)?.with_instructions("Be polite.");
    let finished = journal.drive(&agent, "untyped", TASK, &cx).await?;
    say(&finished.answer);
    Ok(())
}
