//! The new version of a program that is deployed while runs are open. See `deploys_old`.
//!
//! Its second argument chooses what the deploy has changed. A test starts and interrupts runs with
//! the old version, continues them with this one, and writes the table of the page on durable runs.

use std::error::Error;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_cli::say;
use toolwright_module::{Dialect, Effect, Reply, Result, Signature, Tool};
use toolwright_orchestrator::{Agent, ApprovalPolicy, ReAct};

#[path = "common/deploys.rs"]
mod deploys;

use deploys::{Find, Invite, Script, Send, TASK, call, cx, journal, tool};

/// Find the address of a person.
#[derive(Serialize, Deserialize, JsonSchema)]
struct FindIn {
    /// The name of the person.
    name: String,
    /// The country.
    country: Option<String>,
}

impl Signature for FindIn {
    type Output = String;
}

/// Find the address of a person.
#[derive(Serialize, Deserialize, JsonSchema)]
struct FindOnlyIn {
    /// The name of the person.
    name: String,
    /// The country.
    country: String,
}

impl Signature for FindOnlyIn {
    type Output = String;
}

/// Send a letter.
#[derive(Serialize, Deserialize, JsonSchema)]
struct SendBy {
    /// The address.
    to: String,
    /// The kind of post.
    by: String,
}

impl Signature for SendBy {
    type Output = String;
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Invited {
    done: bool,
    cost: u32,
}

impl Signature for Invite {
    type Output = Invited;
}

/// Returns the tools after a deploy.
fn tools(deploy: &str) -> Result<Vec<Tool>> {
    let find = || tool::<Find>("find", Effect::Read);
    let send = || tool::<Send>("send", Effect::Write);
    Ok(match deploy {
        "texts of the tools are reworded" => {
            vec![find()?.described("Look somebody up."), send()?.described("Post a letter.")]
        }
        "an optional field is added" => vec![tool::<FindIn>("find", Effect::Read)?, send()?],
        "a required field is added to both tools" => {
            vec![tool::<FindOnlyIn>("find", Effect::Read)?, tool::<SendBy>("send", Effect::Write)?]
        }
        "a tool is added" => vec![find()?, send()?, tool::<Find>("visit", Effect::Read)?],
        "both tools are removed" => vec![],
        "both tools are renamed" => {
            vec![tool::<Find>("find_person", Effect::Read)?, tool::<Send>("post", Effect::Write)?]
        }
        "both are renamed, and also there under the old names" => vec![
            tool::<Find>("find_person", Effect::Read)?,
            tool::<Send>("post", Effect::Write)?,
            find()?,
            send()?,
        ],
        "the effects change" => {
            vec![tool::<Find>("find", Effect::Write)?, tool::<Send>("send", Effect::Irreversible)?]
        }
        _ => vec![find()?, send()?],
    })
}

/// Returns the model, which calls the tools as they are now.
fn model(deploy: &str, last: Reply) -> Script {
    let (find, send) = match deploy {
        "both tools are renamed" => ("find_person", "post"),
        _ => ("find", "send"),
    };
    let (name, to) = match deploy {
        "a required field is added to both tools" => {
            (r#"{"name": "Ada", "country": "GB"}"#, r#"{"to": "1 Main Street", "by": "air"}"#)
        }
        _ => (r#"{"name": "Ada"}"#, r#"{"to": "1 Main Street"}"#),
    };
    let send = match deploy {
        "both tools are removed" => Reply::text("Done."),
        _ => call("b", send, to),
    };
    let mut model = Script::new([call("a", find, name), send, last]);
    if deploy == "the model and its provider change" {
        (model.name, model.dialect) = ("another", Dialect::Gemini);
    }
    model
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let (journal, cx) = (journal()?, cx());
    let deploy = std::env::args().nth(2).unwrap_or_default();
    if deploy == "the output of a typed run changes" {
        let finish = call("g", "finish", r#"{"done": true, "cost": 2}"#);
        let agent = Agent::new(model(&deploy, finish), tools(&deploy)?)?;
        let invite = ReAct::<Invite>::new(agent)?;
        let task = invite.task(&Invite::ada())?;
        let finished = journal.drive(invite.agent(), "typed", task, &cx).await;
        let finished = finished.map_err(toolwright_module::Error::into_std)?;
        say(&serde_json::to_string(&finished.answer)?);
        return Ok(());
    }
    let instructions = match &*deploy {
        "the instructions are reworded" => "Be very polite.",
        _ => "Be polite.",
    };
    let mut agent = Agent::new(model(&deploy, Reply::text("Done.")), tools(&deploy)?)?
        .with_instructions(instructions);
    if deploy == "each call needs an approval" {
        agent = agent.with_approval(ApprovalPolicy::from_effect(Effect::Read))?;
    }
    let finished = journal.drive(&agent, "untyped", TASK, &cx).await;
    say(&finished.map_err(toolwright_module::Error::into_std)?.answer);
    Ok(())
}
