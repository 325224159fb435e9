//! What each dialect makes of each type: the schema, what it lost, or why not.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test is a test too, which clippy.toml cannot know"
)]

mod zoo;

use std::fmt::Write;

use serde_json::{Value, json};
use toolwright_signature::{Contract, Dialect, Lowered, Result};

use zoo::{Bare, Echo, Specimen, Visitor};

/// One file per type: the tool that takes it, and the output a model is asked for.
struct Everywhere;

impl Visitor for Everywhere {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let echo = Contract::of::<Echo<T>>().unwrap();
        let mut text = String::new();
        let bare = Contract::of::<Bare<T>>();
        // What is no object is taken in a field.
        let (what, input) = match &bare {
            Ok(bare) => ("input", bare),
            Err(_) => ("input with it in a field", &echo),
        };
        tell(&mut text, what, input.input(), |dialect| input.lower(dialect));
        let output = echo.output_to_read().unwrap();
        tell(&mut text, "output", output, |dialect| echo.lower_output(dialect));
        insta::assert_snapshot!(case, text);
    }
}

/// The base schema is in the snapshots of `schemas.rs`: here stands what differs.
fn tell<'a>(
    text: &mut String,
    what: &str,
    base: &Value,
    lower: impl Fn(Dialect) -> Result<&'a Lowered>,
) {
    let mut told: Vec<(Value, Dialect)> = Vec::new();
    for dialect in Dialect::ALL {
        write!(text, "{what}, {dialect}: ").unwrap();
        let lowered = match lower(dialect) {
            Ok(lowered) => lowered,
            Err(error) => {
                writeln!(text, "{error}").unwrap();
                continue;
            }
        };
        let schema: Value = serde_json::from_str(lowered.schema.get()).unwrap();
        if schema == *base {
            text.push_str("as it is\n");
        } else if let Some((_, same)) = told.iter().find(|(known, _)| *known == schema) {
            writeln!(text, "as {same}").unwrap();
        } else {
            writeln!(text, "{schema:#}").unwrap();
            told.push((schema, dialect));
        }
        for loss in &lowered.losses {
            writeln!(text, "  lost {loss}").unwrap();
        }
    }
    text.push('\n');
}

#[test]
fn s25_every_type_in_every_dialect() {
    zoo::tour(&mut Everywhere);
}

/// What lowering hands out is a schema with an object at its root, and resolves.
struct Sound;

impl Visitor for Sound {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let echo = Contract::of::<Echo<T>>().unwrap();
        for dialect in Dialect::ALL {
            for lowered in [echo.lower(dialect), echo.lower_output(dialect)] {
                let Ok(lowered) = lowered else { continue };
                let schema: Value = serde_json::from_str(lowered.schema.get()).unwrap();
                assert_eq!(schema["type"], "object", "{case}, {dialect}");
                let resolved = jsonschema::validator_for(&schema);
                assert!(resolved.is_ok(), "{case}, {dialect}: {:?}", resolved.err());
                if dialect == Dialect::OpenAiStrict {
                    closed(&schema, case);
                }
            }
        }
    }
}

/// OpenAI's rules that the API checks first: all required, closed, few keywords.
fn closed(node: &Value, case: &str) {
    let Some(map) = node.as_object() else {
        return;
    };
    for refused in ["oneOf", "allOf", "not", "default", "patternProperties", "minLength"] {
        assert!(!map.contains_key(refused), "{case}: {refused} in {node:#}");
    }
    assert!(!map.contains_key("$ref") || map.len() == 1, "{case}: {node:#}");
    if let Some(properties) = map.get("properties").and_then(Value::as_object) {
        let names: Value = properties.keys().cloned().collect();
        assert_eq!(map["required"], names, "{case}");
        assert_eq!(map["additionalProperties"], false, "{case}");
        properties.values().for_each(|node| closed(node, case));
    }
    for below in ["$defs", "items", "anyOf"] {
        match map.get(below) {
            Some(Value::Object(defs)) if below == "$defs" => {
                defs.values().for_each(|node| closed(node, case));
            }
            Some(Value::Array(nodes)) => nodes.iter().for_each(|node| closed(node, case)),
            Some(node) => closed(node, case),
            None => {}
        }
    }
}

#[test]
fn lowered_schemas_have_object_roots_and_references_that_resolve() {
    zoo::tour(&mut Sound);
}

#[test]
fn lowering_is_done_once_and_kept() {
    let contract = Contract::of::<Echo<zoo::Nested>>().unwrap();
    for dialect in Dialect::ALL {
        let first = contract.lower(dialect).unwrap();
        assert!(std::ptr::eq(first, contract.lower(dialect).unwrap()));
        let clone = contract.clone();
        assert_eq!(clone.lower(dialect).unwrap().schema.get(), first.schema.get());
    }
}

#[test]
fn s74_s87_s100_s101_s103_the_mcp_form_names_describes_and_shows_both_sides() {
    let contract = Contract::of::<Bare<zoo::Documented>>().unwrap();
    let tool = contract.tool(Dialect::Mcp).unwrap();
    let keys: Vec<_> = tool.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["name", "description", "inputSchema", "outputSchema"]);
    assert_eq!(tool["inputSchema"], *contract.input());
    assert_eq!(tool["outputSchema"], *contract.output_to_write().unwrap());
    insta::assert_json_snapshot!(tool);
}

/// A tool gives what is written, a model has to produce what is read.
#[test]
fn the_mcp_form_shows_what_is_written_and_the_others_what_is_read() {
    let contract = Contract::of::<Echo<zoo::TwoWays>>().unwrap();
    let properties = |dialect| {
        let lowered = contract.lower_output(dialect).unwrap();
        let schema: Value = serde_json::from_str(lowered.schema.get()).unwrap();
        schema["properties"].clone()
    };
    assert!(properties(Dialect::Mcp).get("written").is_some());
    assert!(properties(Dialect::Mcp).get("only_read").is_none());
    assert!(properties(Dialect::OpenAiStrict).get("read").is_some());
    assert!(properties(Dialect::OpenAiStrict).get("only_written").is_none());
}

#[test]
fn a_contract_without_an_output_cannot_be_asked_for_one() {
    let input = json!({"type": "object", "properties": {}});
    let contract = Contract::dynamic("ping", "", input, None).unwrap();
    let error = contract.lower_output(Dialect::OpenAiStrict).unwrap_err();
    insta::assert_snapshot!(error, @"the output schema of `ping` cannot be used: there is none, so a model cannot be asked for it");
    assert!(contract.tool(Dialect::Mcp).unwrap().get("outputSchema").is_none());
}
