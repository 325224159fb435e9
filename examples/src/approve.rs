use std::io;

use serde_json::Value;
use toolwright_module::{Approval, Contract, Decision};

use crate::input::Input;
use crate::show::{note, printable};

/// Asks a person about a call of the tool with this contract; `None` if they would
/// rather end the run, with Ctrl-C or Ctrl-D.
///
/// Arguments that a person writes are held to the tool's schema here: they can mend them.
///
/// # Errors
///
/// If nothing can be read.
pub async fn decide(
    input: &Input,
    contract: &Contract,
    asked: &Approval,
) -> io::Result<Option<Decision>> {
    let mut arguments = on_one_line(&asked.call.arguments);
    note(&format!("{} {arguments} is {}", asked.call.name, effect(asked)));
    loop {
        let Some(said) = input.ask("allow it? y(es) n(o) e(dit) ", String::new()).await? else {
            return Ok(None);
        };
        match said.trim() {
            "y" | "yes" => return Ok(Some(Decision::Approve)),
            "n" | "no" => return Ok(Some(Decision::deny("They said no."))),
            "e" | "edit" => {
                let Some(mended) = input.ask("arguments: ", arguments.clone()).await? else {
                    continue;
                };
                match contract.read::<Value>(&mended) {
                    Ok(_) => return Ok(Some(Decision::edit(mended))),
                    Err(fault) => note(&format!("{fault}")),
                }
                arguments = mended;
            }
            _ => {}
        }
    }
}

/// What the call does to the world, in the word that is used everywhere for it.
fn effect(asked: &Approval) -> String {
    format!("{:?}", asked.effect).to_lowercase()
}

/// Arguments as a line that can be edited.
fn on_one_line(arguments: &str) -> String {
    let value = serde_json::from_str::<Value>(arguments).map(|value| value.to_string());
    let line = value.unwrap_or_else(|_| arguments.replace(['\n', '\r'], " "));
    printable(&line)
}
