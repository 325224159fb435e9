//! Two versions of contracts, and the assertion that there is only one.

use std::fs;
use std::panic::catch_unwind;
use std::process::Command;
use std::slice::from_ref;

use serde_json::{Value, json};
use toolwright_signature::{Contract, ContractChange, assert_unchanged};

fn search(description: &str, fields: Value, output: Option<Value>) -> Contract {
    let input = json!({"type": "object", "properties": fields, "required": ["query"]});
    Contract::dynamic("search", description, input, output).unwrap()
}

fn between(old: &[Contract], new: &[Contract]) -> String {
    let changes = ContractChange::between(old, new);
    changes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn old() -> Contract {
    let fields = json!({
        "query": {"type": "string"},
        "limit": {"type": "integer", "maximum": 100},
        "day": {"type": "string"},
    });
    let titles = json!({"type": "array", "items": {"type": "string"}});
    let output =
        json!({"type": "object", "properties": {"titles": titles}, "required": ["titles"]});
    search("Search.", fields, Some(output))
}

#[test]
fn each_change_is_one_line_and_says_whom_it_breaks() {
    let fields = json!({
        "query": {"type": "string", "maxLength": 80},
        "limit": {"type": "integer", "maximum": 200},
        "day": {"type": "string", "format": "date"},
        "year": {"type": "integer"},
    });
    let titles = json!({"type": "array", "items": {"type": "string"}, "maxItems": 9});
    let output = json!({"type": "object", "properties": {"titles": titles}});
    let new = search("Search documents.", fields, Some(output));
    let other = |name| Contract::dynamic(name, "", json!({"type": "object"}), None).unwrap();
    insta::assert_snapshot!(between(&[other("gone"), old()], &[new, other("come")]), @r"
    gone: BREAKS models' calls, callers' outputs, stored runs: is removed
    search: has another description
    search: BREAKS models' calls, stored runs: input $.query: before: may have any number of characters; now: takes at most 80
    search: BREAKS models' calls, stored runs: input $.day: before: may be any string; now: takes only a date like 2026-11-21
    search: input $.limit: before: takes at most 100; now: may be as high as 200
    search: input $.year: before: does not name it; now: may have this field
    search: BREAKS callers' outputs: output $.titles: before: is required; now: may be missing
    search: output $.titles: before: may have any number of items; now: takes at most 9
    come: is new
    ");
}

#[test]
fn a_change_of_words_is_told_and_breaks_nobody() {
    let fields = json!({
        "query": {"type": "string", "description": "What to look for."},
        "limit": {"type": "integer", "maximum": 100},
        "day": {"type": "string"},
    });
    let output = old().output_to_read().cloned();
    insta::assert_snapshot!(between(&[old()], &[search("Search.", fields, output)]), @r"search: the words of the input schema changed");
    assert_eq!(between(&[old()], &[old()]), "");

    // A null for an optional field is left out, so that both versions read the same.
    let fields = |kind| json!({"query": {"type": "string"}, "limit": {"type": kind}});
    let versions = [json!(["integer", "null"]), json!("integer")]
        .map(|kind| search("Search.", fields(kind), None));
    let [before, now] = versions;
    insta::assert_snapshot!(between(&[before], &[now]), @"search: the rules of the input schema changed without an effect");
}

#[test]
fn an_output_schema_may_come_and_not_go() {
    let without = search("Search.", json!({"query": {"type": "string"}}), None);
    let with =
        search("Search.", json!({"query": {"type": "string"}}), Some(json!({"type": "integer"})));
    insta::assert_snapshot!(between(from_ref(&without), from_ref(&with)), @r"search: the output has a schema now");
    insta::assert_snapshot!(between(&[with], &[without]), @r"search: BREAKS callers' outputs: output $: before: takes an integer; now: has no output schema");
}

#[test]
fn contracts_that_are_not_those_of_the_file_fail_with_a_list() {
    let folder = tempfile();
    let file = folder.join("contracts.json");
    fs::write(&file, serde_json::to_string(&[old()]).unwrap()).unwrap();
    assert_unchanged!(&file, [old()]);

    let said = |contracts: &[Contract], file: &std::path::Path| {
        let panic = catch_unwind(|| assert_unchanged!(file, contracts)).unwrap_err();
        let text = *panic.downcast::<String>().unwrap();
        text.replace(folder.to_str().unwrap(), "FOLDER")
    };
    let new = search("Search!", json!({"query": {"type": "string"}}), None);
    insta::assert_snapshot!(said(&[new], &file), @r"
    the contracts are not those of FOLDER/contracts.json: changes: 4, breaking: 3
      search: has another description
      search: BREAKS models' calls, stored runs: input $.limit: before: may have this field; now: does not name it
      search: BREAKS models' calls, stored runs: input $.day: before: may have this field; now: does not name it
      search: BREAKS callers' outputs: output $: before: takes an object with `titles`; now: has no output schema
    if they are intended, run the test with TOOLWRIGHT_ACCEPT=1 and commit the file
    ");
    insta::assert_snapshot!(said(&[old()], &folder.join("missing.json")), @r"FOLDER/missing.json cannot be read: No such file or directory (os error 2); if there is no such file yet, run the test with TOOLWRIGHT_ACCEPT=1, which writes it");
    fs::write(&file, "{}").unwrap();
    insta::assert_snapshot!(said(&[old()], &file), @r"FOLDER/contracts.json is not a list of contracts: invalid type: map, expected a sequence at line 1 column 0; write it anew with TOOLWRIGHT_ACCEPT=1");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_contract_is_that_of_the_file_of_the_package() {
    assert_unchanged!("tests/changes.json", [old()]);
}

/// Cargo runs tests in the package's folder; a debugger may not.
#[test]
fn the_file_is_found_from_any_folder() {
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", "changes::the_contract_is_that_of_the_file_of_the_package"]);
    let ran =
        test.current_dir(std::env::temp_dir()).env_remove("TOOLWRIGHT_ACCEPT").output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && text.contains("1 passed"), "{text}");
}

fn tempfile() -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("toolwright-changes-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}
