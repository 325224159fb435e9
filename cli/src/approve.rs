use std::io;

use serde_json::Value;
use toolwright_module::Contract;
use toolwright_module::approval::{Approval, Decision};

use crate::input::Input;
use crate::show::{note, visible};

/// Asks the user to decide on a call of the tool with this contract. Returns `None` if the user
/// ends the run with Ctrl-C or Ctrl-D.
///
/// Edited arguments are validated here, so that the user can correct them.
///
/// # Errors
///
/// If reading fails.
pub(crate) async fn decide(
    input: &Input,
    contract: &Contract,
    asked: &Approval,
) -> io::Result<Option<Decision>> {
    let mut arguments = on_one_line(&asked.call.arguments);
    note(&format!("{} {arguments} is {}", visible(&asked.call.name), effect(asked)));
    if asked.unknown {
        return decide_again(input).await;
    }
    loop {
        let Some(said) = input.ask("allow it? y(es) n(o) e(dit) ", String::new()).await? else {
            return Ok(None);
        };
        match said.trim() {
            "y" | "yes" => return Ok(Some(Decision::Approve)),
            "n" | "no" => return Ok(Some(Decision::deny("The user denied this call."))),
            "e" | "edit" => {
                let Some(edited) = input.ask("arguments: ", arguments.clone()).await? else {
                    continue;
                };
                match contract.read::<Value>(&edited) {
                    Ok(_) => return Ok(Some(Decision::edit(edited))),
                    Err(fault) => note(&visible(&fault.to_string())),
                }
                arguments = visible(&edited);
            }
            _ => {}
        }
    }
}

/// Asks the user about a call that was under way when the program ended.
async fn decide_again(input: &Input) -> io::Result<Option<Decision>> {
    note("it was under way when the program ended, and may have taken effect");
    loop {
        let question = "make it again? y(es) n(o) h(appened) ";
        let Some(said) = input.ask(question, String::new()).await? else { return Ok(None) };
        match said.trim() {
            "y" | "yes" => return Ok(Some(Decision::CallAgain)),
            "n" | "no" => return Ok(Some(Decision::deny("The user did not allow it."))),
            "h" | "happened" => {
                if let Some(result) = input.ask("its result: ", String::new()).await? {
                    return Ok(Some(Decision::happened(result)));
                }
            }
            _ => {}
        }
    }
}

/// Returns the name of the call's effect, in lower case.
fn effect(asked: &Approval) -> String {
    format!("{:?}", asked.effect).to_lowercase()
}

/// Returns the arguments as one line that can be edited.
fn on_one_line(arguments: &str) -> String {
    let value = serde_json::from_str::<Value>(arguments).map(|value| value.to_string());
    let line = value.unwrap_or_else(|_| arguments.replace(['\n', '\r'], " "));
    visible(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped_and_the_value_stays_the_same() {
        let hidden =
            "a\u{202e}b\u{2066}c\u{200b}d\u{e0041}e\u{feff}f\u{7f}g\u{9b}h\u{a0}i\u{2028}j\u{fe0f}";
        let arguments = serde_json::json!({ "path": hidden }).to_string();
        let shown = on_one_line(&arguments);
        assert_eq!(
            shown,
            r#"{"path":"a\u202eb\u2066c\u200bd\udb40\udc41e\ufefff\u007fg\u009bh\u00a0i\u2028j\ufe0f"}"#
        );
        let again: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(again["path"], hidden);
        // Visible text does not change.
        let plain = r#"{"text":"Grüße \n 東京 مرحبا 🦀"}"#;
        assert_eq!(on_one_line(plain), plain);
        assert_eq!(on_one_line("no \u{1b}[2J json\n\u{202e}"), r"no \u001b[2J json \u202e");
    }
}
