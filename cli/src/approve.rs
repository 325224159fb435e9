use std::io;

use serde::de::IgnoredAny;
use serde_json::Value;
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::{Contract, Effect};

use crate::input::Input;
use crate::keys::without_keys;
use crate::lines::Lines;
use crate::show::{note, noted, shown, visible};

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
    // Calls of agents side by side may wait at the same time. Each question stands alone.
    let _turn = input.turn().await;
    if asked.unknown {
        return decide_again(input, asked).await;
    }
    // The question always shows the call that `y` makes. What was typed stays for the next edit.
    let mut edited = on_one_line(&asked.call.arguments);
    let above = lines_above(asked, &edited);
    loop {
        let question = "allow it? y(es) n(o) e(dit) ";
        let Some(said) = input.ask(above.clone(), question, String::new()).await? else {
            return Ok(None);
        };
        match said.trim().to_lowercase().as_str() {
            "y" | "yes" => return Ok(Some(Decision::Approve)),
            "n" | "no" => return Ok(Some(Decision::deny("The user denied this call."))),
            "e" | "edit" => {
                let typed = input.ask(String::new(), "arguments: ", edited.clone()).await?;
                let Some(typed) = typed else { continue };
                match check(contract, &typed) {
                    Ok(()) => return Ok(Some(Decision::Edit { arguments: typed })),
                    Err(fault) => note(&format!("error: {fault}")),
                }
                edited = on_one_line(&typed);
            }
            _ => note("(answer y, n or e)"),
        }
    }
}

/// Checks arguments of a person. They are not repaired: the call gets them as they were typed.
fn check(contract: &Contract, arguments: &str) -> Result<(), String> {
    serde_json::from_str::<IgnoredAny>(arguments)
        .map_err(|error| format!("the arguments are not JSON: {error}"))?;
    contract.read::<Value>(arguments).map(drop).map_err(|fault| visible(&fault.to_string()))
}

/// Asks the user about a call that was under way when the program ended.
async fn decide_again(input: &Input, asked: &Approval) -> io::Result<Option<Decision>> {
    loop {
        let question = "make it again? y(es) n(o) h(appened) ";
        let above = lines_above(asked, &on_one_line(&asked.call.arguments));
        let Some(said) = input.ask(above, question, String::new()).await? else {
            return Ok(None);
        };
        match said.trim().to_lowercase().as_str() {
            "y" | "yes" => return Ok(Some(Decision::CallAgain)),
            "n" | "no" => return Ok(Some(Decision::deny("The user did not allow it."))),
            "h" | "happened" => {
                let result = input.ask(String::new(), "its result: ", String::new()).await?;
                if let Some(result) = result {
                    return Ok(Some(Decision::Happened { result }));
                }
            }
            _ => note("(answer y, n or h)"),
        }
    }
}

/// Returns the lines above a question: what the command says of the call, and the call without keys,
/// because a terminal's lines get into logs.
fn lines_above(asked: &Approval, arguments: &str) -> String {
    let effect = match asked.effect {
        Effect::Read => "it only reads",
        Effect::Idempotent => "it changes something and can be repeated",
        Effect::Irreversible => "it is irreversible",
        _ => "it changes something",
    };
    let unknown = match asked.unknown {
        true => "; it was under way when the program ended, and may have taken effect",
        false => "",
    };
    let call = without_keys(arguments);
    let masked = match (call == arguments, asked.unknown) {
        (true, _) => "",
        (false, false) => "; e shows what [secret] masks",
        (false, true) => "; [secret] masks what looks like a key",
    };
    let mut lines = Lines::of_question();
    let reason = asked.reason.as_ref().map(|reason| format!("; {}", visible(reason)));
    let reason = reason.unwrap_or_default();
    let about = format!("a call waits for your decision ({effect}{reason}{unknown}{masked}):");
    let mut text = noted(&mut lines, &about);
    let mut lines = Lines::of_question();
    text.push_str(&lines.theirs(&format!("{} {call}", shown(&asked.call.name))).end().take());
    text
}

/// Returns the arguments as one line that can be edited. The digits of numbers and fields that are there
/// twice stay, because the call has them too. A letter that is written as `\u0061` is shown as itself.
pub(crate) fn on_one_line(arguments: &str) -> String {
    visible(&match serde_json::from_str::<IgnoredAny>(arguments) {
        Ok(_) => with_letters(&without_blanks(arguments)),
        Err(_) => arguments.replace(['\n', '\r'], " "),
    })
}

/// Removes white space outside of the strings of a JSON text.
fn without_blanks(json: &str) -> String {
    let (mut is_text, mut is_escaped) = (false, false);
    let is_kept = |char: &char| {
        let is_kept = is_text || !matches!(char, ' ' | '\t' | '\n' | '\r');
        is_text ^= *char == '"' && !is_escaped;
        is_escaped = is_text && *char == '\\' && !is_escaped;
        is_kept
    };
    json.chars().filter(is_kept).collect()
}

/// Replaces the escapes of letters and other visible characters in a JSON text by the characters.
fn with_letters(json: &str) -> String {
    let unit = |text: &str| u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
    let (mut shown, mut rest) = (String::with_capacity(json.len()), json);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        shown.push_str(before);
        // A character outside of the first plane is two escapes.
        let found = unit(escape).and_then(|first| {
            let second = escape.get(6..).and_then(unit);
            let units = [Some(first), second].into_iter().flatten();
            let char = char::decode_utf16(units).next()?.ok()?;
            let is_own = char.is_control() || matches!(char, '"' | '\\');
            (!is_own).then_some((char, 6 * char.len_utf16()))
        });
        let length = match found {
            Some((char, length)) => {
                shown.push(char);
                length
            }
            None => {
                shown.push_str(&escape[..2]);
                2
            }
        };
        rest = &escape[length..];
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use toolwright_module::ToolCall;

    use super::*;

    #[test]
    fn a_question_masks_keys_and_says_so() {
        let mut asked = Approval {
            path: Vec::new(),
            call: ToolCall::new(
                "c1",
                "push",
                r#"{"token":"glpat-0123456789abcdefghij","to":"main"}"#,
            ),
            effect: Effect::Write,
            unknown: false,
            asked_before: 0,
            reason: None,
        };
        // The lines are broken at the width of the terminal.
        let above = |asked: &Approval| {
            lines_above(asked, &on_one_line(&asked.call.arguments)).replace("\n| ", "")
        };
        let lines = above(&asked);
        assert!(lines.contains(r#"push {"token":"[secret]","to":"main"}"#), "{lines}");
        assert!(lines.contains("; e shows what [secret] masks)"), "{lines}");
        asked.unknown = true;
        let lines = above(&asked);
        assert!(lines.contains("; [secret] masks what looks like a key)"), "{lines}");
        assert!(!lines.contains("glpat-"), "{lines}");
        asked.call.arguments = "{}".to_owned();
        assert!(!above(&asked).contains("[secret]"));
        asked.reason = Some("the model wrote it after text of strangers from `mail`".to_owned());
        let lines = above(&asked);
        assert!(
            lines.contains("; the model wrote it after text of strangers from `mail`"),
            "{lines}"
        );
    }

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
        // A letter cannot be hidden by an escape.
        let escaped = r#"{"\u0070ath":"\u0070rec\u0069ous\u002etxt","a":"\u00e4\ud83e\udd80\\u0061\u202e\ud800\"\u0022\u005c\n"}"#;
        let shown = r#"{"path":"precious.txt","a":"ä🦀\\u0061\u202e\ud800\"\u0022\u005c\n"}"#;
        assert_eq!(on_one_line(escaped), shown);
        // Visible text does not change.
        let plain = r#"{"text":"Grüße \n 東京 مرحبا 🦀"}"#;
        assert_eq!(on_one_line(plain), plain);
        // Nor do the digits of a number, or a field that is there twice.
        let exact = "{ \"a\\\" \": 12345678901234567890123,\n\t\"b\": 1.10, \"b\": [ true ] }";
        let line = r#"{"a\" ":12345678901234567890123,"b":1.10,"b":[true]}"#;
        assert_eq!(on_one_line(exact), line);
        assert_eq!(on_one_line("no \u{1b}[2J json\n\u{202e}"), r"no \u001b[2J json \u202e");
    }
}
