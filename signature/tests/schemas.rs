//! The schemas that types give, before any dialect.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test is a test too, which clippy.toml cannot know"
)]

mod zoo;

use jsonschema::Validator;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use toolwright_signature::{Contract, Signature};

use zoo::{Bare, Echo, Specimen, Visitor};

/// Type by type: what goes in, and where they differ what is read and written.
struct Base;

impl Visitor for Base {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let contract = Contract::of::<Echo<T>>().unwrap();
        let read = contract.output_to_read().unwrap();
        let written = contract.output_to_write().unwrap();
        let mut text = match Contract::of::<Bare<T>>() {
            Ok(bare) if bare.input() == read => String::from("input: as read\n"),
            Ok(bare) => format!("input: {:#}\n", bare.input()),
            Err(error) => format!("input: {error}\n"),
        };
        text += &format!("read: {read:#}\n");
        text += &match written == read {
            true => String::from("written: as read\n"),
            false => format!("written: {written:#}\n"),
        };
        insta::assert_snapshot!(case, text);
    }
}

#[test]
fn s20_s76_s77_schemas_derive_from_types() {
    zoo::tour(&mut Base);
}

struct Twice;

impl Visitor for Twice {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let (one, two) = (Contract::of::<Echo<T>>().unwrap(), Contract::of::<Echo<T>>().unwrap());
        assert_eq!(
            serde_json::to_string(&one).unwrap(),
            serde_json::to_string(&two).unwrap(),
            "{case}"
        );
        assert_eq!(one.fingerprint(), two.fingerprint(), "{case}");
    }
}

#[test]
fn s158_computing_a_contract_twice_gives_the_same_bytes() {
    zoo::tour(&mut Twice);
}

/// Every reference leads somewhere, and no byte is spent on what a model ignores.
struct Sound;

impl Visitor for Sound {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let contract = Contract::of::<Echo<T>>().unwrap();
        let schemas =
            [Some(contract.input()), contract.output_to_read(), contract.output_to_write()];
        for schema in schemas.into_iter().flatten() {
            jsonschema::draft202012::meta::validate(schema)
                .unwrap_or_else(|error| panic!("{case}: {error}"));
            jsonschema::validator_for(schema).unwrap_or_else(|error| panic!("{case}: {error}"));
            let text = schema.to_string();
            assert!(!text.contains("\"$schema\""), "{case}: {text}");
            assert!(!text.contains("\"title\":\""), "{case}: {text}");
        }
    }
}

#[test]
fn every_schema_is_valid_json_schema_with_references_that_resolve() {
    zoo::tour(&mut Sound);
}

#[test]
fn fields_keep_the_order_of_their_declaration() {
    let contract = Contract::of::<Echo<zoo::Plain>>().unwrap();
    let properties = contract.output_to_read().unwrap()["properties"].as_object().unwrap();
    let names: Vec<_> = properties.keys().collect();
    assert_eq!(names, ["title", "count", "ratio", "done", "attempts"]);
}

/// serde and the schema judge the same samples, each by itself.
#[track_caller]
fn agree<T: Specimen>(good: &[Value], bad: &[Value]) {
    let contract = Contract::of::<Echo<T>>().unwrap();
    let schema = contract.output_to_read().unwrap();
    let validator = jsonschema::validator_for(schema).unwrap();
    let samples = good.iter().map(|v| (v, true));
    for (sample, fits) in samples.chain(bad.iter().map(|v| (v, false))) {
        assert_eq!(serde_takes::<T>(sample), fits, "serde on {sample}");
        assert_eq!(schema_takes(&validator, sample), fits, "schema on {sample}");
    }
}

fn serde_takes<T: DeserializeOwned>(sample: &Value) -> bool {
    serde_json::from_value::<T>(sample.clone()).is_ok()
}

fn schema_takes(validator: &Validator, sample: &Value) -> bool {
    validator.is_valid(sample)
}

#[test]
fn s37_s38_s39_s41_text_numbers_and_booleans_agree_with_serde() {
    agree::<String>(&[json!("a"), json!("")], &[json!(5), json!(null)]);
    agree::<i64>(&[json!(3), json!(-3)], &[json!("abc"), json!(3.5)]);
    agree::<u8>(&[json!(0), json!(255)], &[json!(-1), json!(256)]);
    agree::<f64>(&[json!(2.5), json!(2)], &[json!("abc"), json!(true)]);
    agree::<bool>(&[json!(true), json!(false)], &[json!(7), json!("true")]);
}

#[test]
fn s27_s42_enums_agree_with_serde() {
    agree::<zoo::Status>(
        &[json!("open"), json!("in-progress")],
        &[json!("InProgress"), json!("in_progress"), json!(1), json!(null)],
    );
    agree::<zoo::Priority>(&[json!("low")], &[json!("Low"), json!({"low": null, "high": null})]);
}

#[test]
fn s43_s44_structs_and_lists_agree_with_serde() {
    let filters = json!({"status": "done"});
    agree::<zoo::Nested>(
        &[
            json!({"filters": filters}),
            json!({"filters": filters, "more": null}),
            json!({"filters": {"status": "open", "year": 1999}, "more": filters}),
            json!({"filters": filters, "unknown": 1}),
        ],
        &[
            json!({}),
            json!({"filters": null}),
            json!({"filters": {"year": 1999}}),
            json!({"filters": {"status": "open", "year": "1999"}}),
            json!("text"),
        ],
    );
    agree::<zoo::Lists>(
        &[json!({"tags": [], "rows": [filters], "holes": [null, "a"], "grid": [[1.5], []]})],
        &[
            json!({"tags": [1], "rows": [], "holes": [], "grid": []}),
            json!({"tags": "a", "rows": [], "holes": [], "grid": []}),
            json!({"tags": [null], "rows": [], "holes": [], "grid": []}),
            json!({"tags": [], "rows": [{}], "holes": [], "grid": []}),
        ],
    );
}

#[test]
fn s45_maps_agree_with_serde() {
    agree::<BTreeMap<String, i64>>(&[json!({"a": 1}), json!({})], &[json!({"a": "x"}), json!(1)]);
    agree::<BTreeMap<u32, String>>(&[json!({"1": "x"})], &[json!({"one": "x"}), json!({"1": 1})]);
    agree::<BTreeMap<zoo::Status, u8>>(&[json!({"in-progress": 1})], &[json!({"closed": 1})]);
}

#[test]
fn s31_s46_left_out_and_null_agree_with_serde() {
    agree::<zoo::Optional>(
        &[json!({}), json!({"note": null, "limit": null, "status": null, "priority": null})],
        &[json!({"limit": 256}), json!({"status": "?"}), json!({"priority": ""})],
    );
    agree::<zoo::Defaulted>(
        &[json!({}), json!({"limit": 1, "ceiling": null})],
        &[json!({"limit": null}), json!({"tags": null})],
    );
}

#[test]
fn s35_s47_unions_agree_with_serde() {
    agree::<zoo::Shape>(
        &[json!({"kind": "circle", "radius": 1}), json!({"kind": "nothing"})],
        &[json!({"radius": 1}), json!({"kind": "square", "radius": 1}), json!("nothing")],
    );
    agree::<zoo::Event>(
        &[json!("started"), json!({"moved": {"x": 1, "y": 2}}), json!({"failed": "x"})],
        &[
            json!("moved"),
            json!({"moved": {"x": 1}}),
            json!({"moved": 1, "failed": "x"}),
            json!({}),
        ],
    );
    agree::<zoo::Reply>(
        &[json!({"type": "text", "value": "a"}), json!({"type": "silence"})],
        &[json!({"type": "text", "value": 1}), json!({"value": 1})],
    );
    agree::<zoo::Loose>(
        &[json!("a"), json!(1), json!(1.5), json!({"city": "Rome"})],
        &[json!(null), json!([]), json!({})],
    );
}

#[test]
fn s25_recursive_types_agree_with_serde() {
    let leaf = json!({"leaf": 1});
    agree::<zoo::Tree>(
        &[
            leaf.clone(),
            json!({"branch": {"left": leaf, "right": {"branch": {"left": leaf, "right": leaf}}}}),
        ],
        &[
            json!({"leaf": "x"}),
            json!({"branch": {"left": leaf, "right": {"branch": {"left": leaf}}}}),
        ],
    );
    agree::<zoo::Node>(
        &[json!({"name": "a"}), json!({"name": "a", "next": {"name": "b", "next": null}})],
        &[json!({"name": "a", "next": {"next": null}})],
    );
    agree::<zoo::Forest>(
        &[json!({"tallest": leaf, "others": [leaf], "path": {"name": "a"}})],
        &[json!({"tallest": leaf, "others": [{"leaf": 300}], "path": {"name": "a"}})],
    );
}

#[test]
fn unknown_fields_are_denied_where_serde_denies_them() {
    agree::<zoo::Closed>(&[json!({"key": "a"})], &[json!({"key": "a", "other": 1})]);
}

#[test]
fn flattened_types_agree_with_serde() {
    agree::<zoo::Flat>(
        &[json!({"first": "a", "status": "open"})],
        &[json!({"first": "a"}), json!({"first": "a", "filters": {"status": "open"}})],
    );
    agree::<zoo::FlatUnion>(
        &[json!({"kind": "circle", "radius": 1})],
        &[json!({}), json!({"kind": "circle"})],
    );
}

#[test]
fn an_input_that_is_all_flattened_still_accepts_its_values() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Draw {
        #[serde(flatten)]
        shape: zoo::Shape,
    }
    impl Signature for Draw {
        type Output = ();
    }
    let contract = Contract::of::<Draw>().unwrap();
    let sample = json!({"kind": "circle", "radius": 1.0});
    assert!(serde_takes::<Draw>(&sample));
    assert!(jsonschema::is_valid(contract.input(), &sample), "{:#}", contract.input());
}

/// What servers write for a tool without arguments, and what only looks like it.
#[test]
fn only_an_input_that_says_nothing_is_closed() {
    let closed = |input: Value| {
        let contract = Contract::dynamic("ping", "", input, None).unwrap();
        contract.input().get("additionalProperties") == Some(&json!(false))
    };
    // An object of any fields, as it is below the root.
    assert!(!closed(json!({"type": "object"})));
    assert!(!closed(json!({"type": "object", "required": []})));
    assert!(!closed(json!({})));
    // So write both official SDKs of MCP.
    assert!(closed(json!({"type": "object", "properties": {}})));
    assert!(closed(json!({"type": "object", "properties": {}, "required": []})));
    assert!(!closed(json!({"type": "object", "required": ["a"]})));
    assert!(!closed(json!({"type": "object", "anyOf": [{"required": ["a"]}]})));
    assert!(!closed(json!({"type": "object", "patternProperties": {"^a": {}}})));
}

/// The seed's own example of a tool with a required and an optional parameter.
#[test]
fn s9_s12_s34_only_fields_that_must_be_given_are_required() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Process {
        required_field: String,
        optional_field: Option<String>,
    }
    impl Signature for Process {
        type Output = String;
    }
    let contract = Contract::of::<Process>().unwrap();
    assert_eq!(contract.input()["required"], json!(["required_field"]));
}

#[test]
fn s8_s11_descriptions_of_type_and_fields_reach_the_contract() {
    let contract = Contract::of::<Bare<zoo::Documented>>().unwrap();
    let properties = &contract.input()["properties"];
    assert_eq!(properties["query"]["description"], "Words to look for.");
    // What a field says of itself wins over what its type says.
    assert_eq!(properties["status"]["description"], "Only documents with this status.");
    assert_eq!(properties["place"]["description"], "Where to look.");
}
