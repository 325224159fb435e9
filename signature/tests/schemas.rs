//! The schemas of Rust types, before any dialect.

use jsonschema::Validator;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use toolwright_signature::{Contract, Signature};

use crate::rules;
use crate::zoo::{self, Bare, Echo, Specimen, Visitor};

/// Rules of what a type's schema is: a name, the rule, and the types of the zoo that show it.
const RULES: [(&str, &str, &[&str]); 11] = [
    (
        "types_descriptions",
        "Doc comments are descriptions, and the comment on a field wins over that of its type.",
        &["documented", "enum_with_documented_values"],
    ),
    (
        "types_numbers_and_texts",
        "A narrow integer has its range, a wide one only its sign; Rust's own formats are dropped.",
        &["plain", "integers", "huge_integers", "floats", "integers_that_are_not_zero", "texts"],
    ),
    (
        "types_bounds",
        "Schemars' attributes are keywords, also on an optional field.",
        &["bounds", "more_bounds", "addresses"],
    ),
    (
        "types_without_fields",
        "A struct without fields takes no field as an input, and any elsewhere.",
        &["unit", "unit_struct", "empty_struct", "newtype_of_text", "transparent"],
    ),
    (
        "types_optional",
        "An `Option` takes null and may be absent; a field with a default may be absent.",
        &[
            "optional",
            "defaulted",
            "defaulted_as_a_whole",
            "absent_null_and_value",
            "null_must_be_said",
        ],
    ),
    (
        "types_enums",
        "An enum without data is a list of its names as serde writes them.",
        &["enum_with_wire_names", "enum_of_one", "enum_of_numbers", "enum_half_hidden"],
    ),
    (
        "types_unions",
        "A union has its tag where serde writes it; without a tag its members are told by their form.",
        &[
            "union_with_a_tag_inside",
            "union_with_a_tag_outside",
            "union_with_a_tag_beside",
            "union_without_a_tag",
            "closed_union_with_a_tag_inside",
            "union_with_null",
            "result",
            "struct_with_a_tag",
        ],
    ),
    (
        "types_flattened",
        "The fields of a flattened type stand among the others.",
        &[
            "flattened_struct",
            "flattened_union_beside_fields",
            "flattened_map",
            "flattened_map_of_any_value",
            "flattened_option",
            "unknown_fields_denied_outside",
        ],
    ),
    (
        "types_collections",
        "Lists, sets, tuples and maps, with what the type says of keys and lengths.",
        &[
            "lists",
            "sets",
            "tuples",
            "map_with_number_keys",
            "map_with_enum_keys",
            "map_with_keys_of_a_pattern",
            "map_of_any_value",
        ],
    ),
    (
        "types_recursive",
        "A type that contains itself stands in the schema once, and references lead to it.",
        &["recursive_struct", "recursive_union", "recursion_below_the_root", "mutual_recursion"],
    ),
    (
        "types_read_and_written",
        "Where serde reads and writes different things, both sides have their own schema.",
        &["read_and_written_differ", "fields_with_aliases", "skipped_fields", "converted"],
    ),
];

/// Type by type: what is read, and where they differ the input and what is written.
#[derive(Default)]
struct Base(BTreeMap<String, String>);

impl Visitor for Base {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let contract = Contract::of::<Echo<T>>().unwrap();
        let read = contract.output_to_read().unwrap();
        let written = contract.output_to_write().unwrap();
        let mut text = format!("\n{}: {}\n", case.replace('_', " "), rules::shown(read, 0, 0));
        let input = match Contract::of::<Bare<T>>() {
            Ok(bare) => rules::shown(bare.input(), 0, 0),
            Err(error) => error.to_string(),
        };
        let mut add = |what: &str, told: String| {
            if told != rules::shown(read, 0, 0) {
                text += &format!("{what}: {told}\n");
            }
        };
        add("as an input", input);
        add("written", rules::shown(written, 0, 0));
        self.0.insert(case.to_owned(), text);
    }
}

#[test]
fn schemas_derive_from_types() {
    let mut base = Base::default();
    zoo::tour(&mut base);
    rules::check_all(RULES.into_iter().map(|(name, rule, types)| {
        let texts: String = types.iter().map(|case| base.0[*case].as_str()).collect();
        (name.to_owned(), format!("{rule}\n{texts}"))
    }));
}

/// The schema of a recursive type is there once, under `$defs`.
#[test]
fn a_reference_to_a_recursive_type_keeps_the_description_of_the_field() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Wood {
        /// The tallest one.
        tallest: zoo::Tree,
        others: Vec<zoo::Tree>,
    }
    let contract = Contract::of::<Bare<Wood>>().unwrap();
    let tallest = json!({"$ref": "#/$defs/Tree", "description": "The tallest one."});
    assert_eq!(contract.input()["properties"]["tallest"], tallest);
}

/// Two of the rules of lowering hold for types only.
#[test]
fn a_type_says_more_than_its_schema() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Take {
        /// Strict, because the type has no fields.
        nothing: zoo::Empty,
        /// No loss, because serde reads absent and null alike.
        maybe: Option<u8>,
        #[serde(default = "three")]
        three: Option<u8>,
    }
    fn three() -> Option<u8> {
        Some(3)
    }
    impl Signature for Take {
        type Output = ();
    }
    rules::hold("types_lowered", &rules::lowered(&Contract::of::<Take>().unwrap()));
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
fn computing_a_contract_twice_gives_the_same_bytes() {
    zoo::tour(&mut Twice);
}

/// Every reference resolves, and the schema has no keywords that a model ignores.
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

/// Checks that serde and the schema accept the same samples and reject the same ones.
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
fn the_schemas_of_texts_numbers_and_booleans_agree_with_serde() {
    agree::<String>(&[json!("a"), json!("")], &[json!(5), json!(null)]);
    agree::<i64>(&[json!(3), json!(-3)], &[json!("abc"), json!(3.5)]);
    agree::<u8>(&[json!(0), json!(255)], &[json!(-1), json!(256)]);
    agree::<f64>(&[json!(2.5), json!(2)], &[json!("abc"), json!(true)]);
    agree::<bool>(&[json!(true), json!(false)], &[json!(7), json!("true")]);
}

#[test]
fn the_schemas_of_enums_agree_with_serde() {
    agree::<zoo::Status>(
        &[json!("open"), json!("in-progress")],
        &[json!("InProgress"), json!("in_progress"), json!(1), json!(null)],
    );
    agree::<zoo::Priority>(&[json!("low")], &[json!("Low"), json!({"low": null, "high": null})]);
}

#[test]
fn the_schemas_of_structs_and_lists_agree_with_serde() {
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
fn the_schemas_of_maps_agree_with_serde() {
    agree::<BTreeMap<String, i64>>(&[json!({"a": 1}), json!({})], &[json!({"a": "x"}), json!(1)]);
    agree::<BTreeMap<u32, String>>(&[json!({"1": "x"})], &[json!({"one": "x"}), json!({"1": 1})]);
    agree::<BTreeMap<zoo::Status, u8>>(&[json!({"in-progress": 1})], &[json!({"closed": 1})]);
}

#[test]
fn the_schemas_of_optional_fields_agree_with_serde() {
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
fn the_schemas_of_unions_agree_with_serde() {
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
fn the_schemas_of_recursive_types_agree_with_serde() {
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
fn the_schema_denies_unknown_fields_where_serde_does() {
    agree::<zoo::Closed>(&[json!({"key": "a"})], &[json!({"key": "a", "other": 1})]);
}

#[test]
fn the_schemas_of_flattened_types_agree_with_serde() {
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
fn an_input_with_only_flattened_fields_accepts_its_values() {
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

/// The schemas that servers write for a tool without arguments, and others that look like them.
#[test]
fn only_an_input_without_any_rule_is_closed() {
    let closed = |input: Value| {
        let contract = Contract::dynamic("ping", "", input, None).unwrap();
        contract.input().get("additionalProperties") == Some(&json!(false))
    };
    // An object of any fields, as below the root.
    assert!(!closed(json!({"type": "object"})));
    assert!(!closed(json!({"type": "object", "required": []})));
    assert!(!closed(json!({})));
    // Both official SDKs of MCP write these.
    assert!(closed(json!({"type": "object", "properties": {}})));
    assert!(closed(json!({"type": "object", "properties": {}, "required": []})));
    assert!(!closed(json!({"type": "object", "required": ["a"]})));
    assert!(!closed(json!({"type": "object", "anyOf": [{"required": ["a"]}]})));
    assert!(!closed(json!({"type": "object", "patternProperties": {"^a": {}}})));
}

/// The seed's own example of a tool with a required and an optional parameter.
#[test]
fn optional_fields_are_not_required() {
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
fn doc_comments_of_types_and_fields_are_descriptions() {
    let contract = Contract::of::<Bare<zoo::Documented>>().unwrap();
    let properties = &contract.input()["properties"];
    assert_eq!(properties["query"]["description"], "Words to look for.");
    // The comment on a field wins over the comment on its type.
    assert_eq!(properties["status"]["description"], "Only documents with this status.");
    assert_eq!(properties["place"]["description"], "Where to look.");
}

/// An attribute that cannot be meant is an error at the start, not a call that can never be right.
#[test]
fn attributes_that_cannot_be_meant_are_errors() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Empty {
        #[schemars(range(min = 5, max = 1))]
        days: u8,
    }
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Inner {
        inner: Vec<Empty>,
    }
    fn twenty() -> u8 {
        20
    }
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Default {
        #[serde(default = "twenty")]
        #[schemars(range(max = 12))]
        days: u8,
    }
    let said = [
        Contract::of_input::<Empty>("take", "").unwrap_err().to_string(),
        Contract::of_input::<Inner>("take", "").unwrap_err().to_string(),
        Contract::of_input::<Default>("take", "").unwrap_err().to_string(),
    ];
    insta::assert_snapshot!(said.join("\n"), @"
    the input schema of `take` cannot be used at $.days: `minimum` is 5 and `maximum` is 1, so no value fits; change one of them
    the input schema of `take` cannot be used at $.inner[].days: `minimum` is 5 and `maximum` is 1, so no value fits; change one of them
    the input schema of `take` cannot be used at $.days: the default 20 does not fit the schema of the field; change one of them
    ");
}
