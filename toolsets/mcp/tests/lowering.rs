//! The tools of real servers, lowered to the dialects of three providers.
//!
//! `recorded/` has the tool lists, and `servers/calls.json` valid and invalid arguments of each
//! tool. `servers.sh` checks both with the servers.

use std::fmt::Write;
use std::path::PathBuf;

use serde_json::{Value, json};
use toolwright_signature::{Contract, Dialect, Policy};

const SERVERS: [&str; 4] = ["everything", "memory", "filesystem", "python"];
const DIALECTS: [Dialect; 3] = [Dialect::OpenAiStrict, Dialect::Anthropic, Dialect::Gemini];

fn file(name: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The recorded tools of a server, and the known calls of each.
fn tools(server: &str) -> Vec<(Contract, Value)> {
    let listed = file(&format!("recorded/{server}.json"));
    let calls = file("servers/calls.json");
    let tools = listed["tools"].as_array().unwrap().iter();
    let tool = |tool: &Value| {
        let text = |key: &str| tool[key].as_str().unwrap_or_default().to_owned();
        let (name, description) = (text("name"), text("description"));
        let input = tool["inputSchema"].clone();
        let output = tool.get("outputSchema").cloned();
        let contract = Contract::dynamic(&name, &description, input, output);
        let contract = contract.unwrap_or_else(|error| panic!("{server}, {name}: {error}"));
        (contract, calls[server][&name].clone())
    };
    tools.map(tool).collect()
}

fn cases<'a>(calls: &'a Value, kind: &str) -> impl Iterator<Item = &'a Value> {
    calls[kind].as_array().into_iter().flatten()
}

#[test]
fn every_recorded_tool_has_valid_and_invalid_calls() {
    let calls = file("servers/calls.json");
    for server in SERVERS {
        let tools = tools(server);
        assert_eq!(tools.len(), calls[server].as_object().unwrap().len(), "{server}");
        for (contract, calls) in tools {
            for kind in ["fits", "misfits"] {
                assert_ne!(cases(&calls, kind).count(), 0, "{server}, {}, {kind}", contract.name());
            }
        }
    }
}

#[test]
fn every_recorded_tool_is_lowered_and_the_losses_are_listed() {
    for server in SERVERS {
        let mut text = String::new();
        for (contract, _) in tools(server) {
            writeln!(text, "{}", contract.name()).unwrap();
            for dialect in DIALECTS {
                match contract.lower(dialect) {
                    Ok(lowered) if lowered.losses.is_empty() => {}
                    Ok(lowered) => {
                        for loss in &lowered.losses {
                            writeln!(text, "  {dialect}: {loss}").unwrap();
                        }
                    }
                    Err(error) => writeln!(text, "  {dialect}: refused: {error}").unwrap(),
                }
            }
        }
        insta::assert_snapshot!(server, text);
    }
}

/// Arguments in the shape of a dialect are converted back to the original arguments.
///
/// The exception are nullable fields that were left out: the strict dialect requires every
/// field, so they arrive as null. If that has another meaning, it is listed as a loss.
#[test]
fn valid_arguments_survive_every_dialect() {
    for server in SERVERS {
        for (contract, calls) in tools(server) {
            for case in cases(&calls, "fits") {
                let arguments = &case["arguments"];
                let place = format!("{server}, {}", contract.name());
                let plain = contract.read::<Value>(&arguments.to_string());
                assert_eq!(plain.as_ref().ok(), Some(arguments), "{place}: {plain:?}");
                for dialect in DIALECTS {
                    // The snapshots list the dialects that reject a tool.
                    if contract.lower(dialect).is_err() {
                        continue;
                    }
                    let wire = contract.lower_value(dialect, arguments);
                    let wire = wire.unwrap_or_else(|error| panic!("{place}, {dialect}: {error}"));
                    let read = contract.read::<Value>(&wire.to_string());
                    let read = read.unwrap_or_else(|error| panic!("{place}, {dialect}: {error}"));
                    match dialect {
                        Dialect::OpenAiStrict => {
                            let (read, sent) = (without_null(&read), without_null(arguments));
                            assert_eq!(read, sent, "{place}, {dialect}: {wire}");
                        }
                        _ => assert_eq!(read, *arguments, "{place}, {dialect}: {wire}"),
                    }
                }
            }
        }
    }
}

fn without_null(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let some = map.iter().filter(|(_, value)| !value.is_null());
            some.map(|(name, value)| (name.clone(), without_null(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_null).collect(),
        other => other.clone(),
    }
}

/// The server uses its default only if the field is missing, not if it is null.
#[test]
fn a_default_that_null_replaces_in_the_strict_dialect_is_a_loss() {
    let (find, _) = tools("python").into_iter().find(|(find, _)| find.name() == "find").unwrap();
    let lowered = find.lower(Dialect::OpenAiStrict).unwrap();
    let wire = find.lower_value(Dialect::OpenAiStrict, &json!({"key": 7})).unwrap();
    assert_eq!(
        find.read::<Value>(&wire.to_string()).unwrap(),
        json!({"key": 7, "limit": null, "deep": null})
    );
    let lost: Vec<_> = lowered.losses.iter().map(|loss| (&*loss.path, &*loss.keyword)).collect();
    assert_eq!(lost, [("$.deep", "default")]);
}

#[test]
fn invalid_arguments_are_rejected_with_their_path() {
    let mut wrong = String::new();
    for server in SERVERS {
        for (contract, calls) in tools(server) {
            for case in cases(&calls, "misfits") {
                let (arguments, says) = (&case["arguments"], case["says"].as_str().unwrap());
                match contract.read::<Value>(&arguments.to_string()) {
                    Err(error) if error.to_string().contains(says) => {}
                    Err(error) => writeln!(wrong, "{server}: {error}: not about {says}").unwrap(),
                    Ok(read) => {
                        writeln!(
                            wrong,
                            "{server}, {}: {arguments} was read as {read}",
                            contract.name()
                        )
                        .unwrap();
                    }
                }
            }
        }
    }
    assert_eq!(wrong, "");
}

#[test]
fn recorded_results_are_read_unchanged() {
    let mut read = 0;
    for server in SERVERS {
        for (contract, calls) in tools(server) {
            for answer in cases(&calls, "fits").filter_map(|case| case.get("structured")) {
                let value: Value = contract
                    .read_output_with(&answer.to_string(), Policy::Strict)
                    .unwrap_or_else(|error| panic!("{server}, {}: {error}", contract.name()))
                    .value;
                assert_eq!(value, *answer, "{server}, {}", contract.name());
                read += 1;
            }
        }
    }
    assert!(read > 40, "{read}");
}
