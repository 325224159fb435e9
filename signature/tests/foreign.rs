//! Schemas that other tools write, one file each in `foreign/`, and the schemas of the rules in
//! `rules/`: their lowered forms are valid, and their values come back.
//!
//! A case has its origin (`about`), the schema, and values that fit (`values`) or do not (`wrong`).

use std::path::{Path, PathBuf};

use crate::judge;
use serde_json::{Value, json};
use toolwright_signature::{Contract, Dialect, Policy};

/// A schema of a folder of cases.
pub(crate) struct Case {
    pub(crate) name: String,
    /// What it shows, or where it comes from.
    pub(crate) about: String,
    pub(crate) contract: Contract,
    /// Values that fit the input.
    pub(crate) values: Vec<Value>,
    /// Values that do not.
    pub(crate) wrong: Vec<Value>,
}

impl Case {
    fn read(path: &Path) -> Self {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(path).unwrap();
        let mut case: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let about = case["about"].as_str().unwrap().to_owned();
        let output = case.get_mut("output").map(Value::take);
        let contract = Contract::dynamic(&name, &about, case["schema"].take(), output);
        let list = |keyword: &str| case[keyword].as_array().cloned().unwrap_or_default();
        Self {
            contract: contract.unwrap_or_else(|error| panic!("{name}: {error}")),
            values: list("values"),
            wrong: list("wrong"),
            about,
            name,
        }
    }
}

/// The cases of a folder, by name.
pub(crate) fn cases_of(folder: &str) -> Vec<Case> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let files = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.collect();
    files.sort();
    files.iter().map(|path| Case::read(path)).collect()
}

/// The schemas of other tools, and those of the rules.
fn cases() -> Vec<Case> {
    ["foreign", "rules"].into_iter().flat_map(cases_of).collect()
}

#[test]
fn there_are_at_least_60_foreign_schemas() {
    assert!(cases_of("foreign").len() >= 60);
}

/// A schema with a meaning is lowered; one without is refused, with the place.
#[test]
fn foreign_schemas_with_a_meaning_lower_to_every_dialect() {
    for case in cases() {
        for dialect in Dialect::ALL {
            let Err(error) = case.contract.lower(dialect) else { continue };
            let text = error.to_string();
            assert!(
                ["contradiction", "contradictions", "remote_ref"].contains(&&*case.name),
                "{text}"
            );
            assert!(text.contains(" at $.") || text.contains(" at #/"), "{text}");
        }
    }
}

#[test]
fn no_provider_refuses_a_lowered_foreign_schema() {
    for case in cases() {
        for dialect in Dialect::ALL {
            let Ok(lowered) = case.contract.lower(dialect) else { continue };
            let schema: Value = serde_json::from_str(lowered.schema.get()).unwrap();
            let faults = judge::faults(dialect, lowered.strict, &schema);
            assert!(faults.is_empty(), "{}, {dialect}: {faults:#?}", case.name);
        }
    }
}

#[test]
fn values_that_do_not_fit_a_foreign_schema_are_rejected() {
    for case in cases() {
        let base = jsonschema::validator_for(case.contract.input());
        for value in &case.wrong {
            assert!(!base.as_ref().unwrap().is_valid(value), "{}: {value}", case.name);
            let read = case.contract.read_with::<Value>(&value.to_string(), Policy::Strict);
            assert!(read.is_err(), "{}: {value}", case.name);
        }
    }
}

#[test]
fn foreign_values_fit_their_schema_and_every_lowered_one() {
    for case in cases() {
        let base = jsonschema::validator_for(case.contract.input());
        for value in &case.values {
            let fits = base.as_ref().map(|base| base.is_valid(value));
            assert_eq!(fits.ok(), Some(true), "{}: {value}", case.name);
            for dialect in Dialect::ALL {
                let Ok(lowered) = case.contract.lower(dialect) else { continue };
                let schema: Value = serde_json::from_str(lowered.schema.get()).unwrap();
                let judge = jsonschema::validator_for(&schema).unwrap();
                let wire = case.contract.lower_value(dialect, value);
                let wire = wire.unwrap_or_else(|e| panic!("{}, {dialect}: {e}", case.name));
                if let Err(error) = judge.validate(&wire) {
                    panic!("{}, {dialect}: {wire}: {error}\n{schema:#}", case.name);
                }
            }
        }
    }
}

/// The contract reads a value in the shape of a lowered schema as the value.
#[test]
fn foreign_values_come_back_from_every_dialect() {
    for case in cases() {
        for (value, dialect) in
            case.values.iter().flat_map(|value| Dialect::ALL.map(|dialect| (value, dialect)))
        {
            let Ok(wire) = case.contract.lower_value(dialect, value) else { continue };
            let read: Value = case
                .contract
                .read(&wire.to_string())
                .unwrap_or_else(|error| panic!("{}, {dialect}: {error}", case.name));
            assert_eq!(
                without_null(&read),
                without_null(value),
                "{}, {dialect}: {wire}",
                case.name
            );
        }
    }
}

#[test]
fn the_same_schema_gives_the_same_bytes() {
    for (one, other) in cases().into_iter().zip(cases()) {
        for dialect in Dialect::ALL {
            let bytes = |case: &Case| case.contract.tool(dialect).map(|tool| tool.to_string());
            assert_eq!(bytes(&one).ok(), bytes(&other).ok(), "{}, {dialect}", one.name);
        }
    }
}

/// A strict dialect cannot tell null from an absent field.
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

#[test]
fn the_judge_finds_what_providers_refuse() {
    let text = json!({"type": "string"});
    let bad = [
        (Dialect::Mcp, json!({"type": "array"})),
        (Dialect::JsonSchema2020, json!({"type": "object", "required": ["a", "a"]})),
        (Dialect::OpenAiLoose, json!({"type": "object", "properties": {}, "anyOf": [{}]})),
        (Dialect::OpenAiStrict, json!({"type": "object", "properties": {"a": text}})),
        (Dialect::Anthropic, json!({"type": "object", "properties": {"a b": text}})),
        (Dialect::Anthropic, json!({"type": "object", "properties": optional_fields(24)})),
        (Dialect::Gemini, json!({"type": "object", "properties": {"a": {"const": 1}}})),
        (Dialect::Gemini, json!({"type": "object", "properties": {"a": {"enum": ["", "b"]}}})),
        (Dialect::Mcp, json!({"type": "object", "properties": {"a": {"type": "object"}}})),
        (Dialect::Mcp, json!({"type": "object", "properties": {}, "anyOf": [{}, {}]})),
    ];
    for (dialect, schema) in bad {
        assert!(!judge::faults(dialect, true, &schema).is_empty(), "{dialect}: {schema}");
    }
}

fn optional_fields(count: usize) -> Value {
    (0..count).map(|i| (format!("f{i}"), json!({"type": "string"}))).collect()
}

#[test]
fn a_foreign_contract_stands_in_for_itself() {
    let mut alike = 0;
    for Case { name, contract, .. } in cases() {
        // MCP takes what has a meaning.
        if contract.lower(Dialect::Mcp).is_ok() {
            let other = {
                let output = contract.output_to_read().cloned();
                Contract::dynamic("other", "", contract.input().clone(), output).unwrap()
            };
            assert_eq!(contract.differences(&other), [], "{name}");
            alike += 1;
        }
    }
    println!("{alike} schemas");
    assert!(alike > 60, "{alike}");
}

#[test]
fn values_of_a_foreign_schema_fit_a_contract_that_stands_in_for_it() {
    let cases = cases();
    let mut pairs = 0;
    for ours in &cases {
        for theirs in &cases {
            if ours.name == theirs.name || !ours.contract.differences(&theirs.contract).is_empty() {
                continue;
            }
            pairs += 1;
            for value in &ours.values {
                let read = theirs.contract.read::<Value>(&value.to_string());
                assert!(read.is_ok(), "{} with {}: {read:?}", ours.name, theirs.name);
            }
        }
    }
    println!("{pairs} pairs");
    assert!(pairs > 10, "{pairs}");
}
