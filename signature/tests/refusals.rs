//! The limits of OpenAI's strict mode: a schema beyond them is sent without `strict`. A schema
//! with a broken reference is rejected in every dialect.

use insta::assert_snapshot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolwright_signature::{Contract, ContractError, Dialect};

use crate::zoo::Echo;

/// An input with one required property of each of these schemas.
fn taking(properties: impl IntoIterator<Item = (String, Value)>) -> Value {
    let properties: Map<_, _> = properties.into_iter().collect();
    let required: Vec<_> = properties.keys().cloned().collect();
    json!({"type": "object", "properties": properties, "required": required})
}

fn one(schema: Value) -> Value {
    taking([("a".to_owned(), schema)])
}

fn lower(input: Value, dialect: Dialect) -> Result<String, ContractError> {
    let contract = Contract::dynamic("take", "", input, None)?;
    Ok(contract.lower(dialect)?.schema.get().to_owned())
}

/// The reason why a schema is not strict. Checks that it is sent without `strict`.
fn loose(input: Value) -> String {
    let contract = Contract::dynamic("take", "", input, None).unwrap();
    let lowered = contract.lower(Dialect::OpenAiStrict).unwrap();
    let plain = contract.lower(Dialect::OpenAiLoose).unwrap();
    assert!(!lowered.strict);
    assert_eq!(lowered.schema.get(), plain.schema.get());
    let (why, losses) = lowered.losses.split_first().unwrap();
    assert_eq!((why.keyword.as_str(), losses), ("strict", &*plain.losses));
    why.to_string()
}

fn refused(input: Value) -> String {
    let error = lower(input, Dialect::OpenAiStrict).unwrap_err();
    assert!(matches!(error, ContractError::Lowering { .. }), "{error:?}");
    error.to_string()
}

fn accepted(input: Value) {
    let contract = Contract::dynamic("take", "", input, None).unwrap();
    assert!(contract.lower(Dialect::OpenAiStrict).unwrap().strict);
}

fn text() -> Value {
    json!({"type": "string"})
}

fn texts(count: usize, length: usize) -> Value {
    let values: Vec<_> = (0..count).map(|i| format!("{i:0length$}")).collect();
    json!({"type": "string", "enum": values})
}

#[test]
fn strict_objects_nest_at_most_10_levels() {
    let innermost = || one(json!({"type": "string"}));
    let nested = |levels: usize| (1..levels).fold(innermost(), |below, _| one(below));
    accepted(nested(10));
    assert_snapshot!(loose(nested(11)), @"input $.a.a.a.a.a.a.a.a.a.a: `strict` is off: more than 10 nested objects; make it flatter");
    // Lists and unions do not count as levels, but the objects in them do.
    let listed = |levels: usize| {
        (1..levels).fold(innermost(), |below, _| {
            one(json!({"type": "array", "items": {"anyOf": [below, {"type": "null"}]}}))
        })
    };
    accepted(listed(10));
    assert_snapshot!(loose(listed(11)), @"input $.a[].a[].a[].a[].a[].a[].a[].a[].a[].a[]: `strict` is off: more than 10 nested objects; make it flatter");
}

#[test]
fn levels_behind_a_recursive_reference_count_once() {
    let mut chain = one(json!({"$ref": "#/$defs/d0"}));
    let definitions: Map<_, _> = (0..9)
        .map(|i| (format!("d{i}"), one(json!({"$ref": format!("#/$defs/d{}", (i + 1) % 9)}))))
        .collect();
    chain["$defs"] = definitions.into();
    accepted(chain.clone());
    chain["$defs"]["d8"] = one(one(json!({"$ref": "#/$defs/d0"})));
    assert_snapshot!(loose(chain), @"input $.a.a.a.a.a.a.a.a.a.a: `strict` is off: more than 10 nested objects; make it flatter");

    // Each refers to all others, so the number of paths is the factorial of their number.
    let all: Vec<_> = (0..14).map(|i| json!({"$ref": format!("#/$defs/d{i}")})).collect();
    let union = json!({"anyOf": all});
    let mut tangle = one(union.clone());
    tangle["$defs"] = (0..14).map(|i| (format!("d{i}"), union.clone())).collect();
    accepted(tangle);
}

#[test]
fn a_strict_schema_has_at_most_5000_properties() {
    let many = |count| taking((0..count).map(|i| (format!("p{i}"), json!({"type": "null"}))));
    accepted(many(5_000));
    assert_snapshot!(loose(many(5_001)), @"input $: `strict` is off: 5001 properties, but at most 5000 are accepted; split it");
    let halves = taking((0..2).map(|i| (format!("half{i}"), many(2_500))));
    assert_snapshot!(loose(halves), @"input $: `strict` is off: 5002 properties, but at most 5000 are accepted; split it");
}

#[test]
fn a_strict_schema_has_at_most_1000_enum_values() {
    let enums = |count| taking((0..4).map(|i| (format!("e{i}"), texts(count, 4))));
    accepted(enums(250));
    assert_snapshot!(loose(enums(251)), @"input $: `strict` is off: 1004 values of enums, but at most 1000 are accepted; split it");
}

#[test]
fn a_long_strict_enum_has_at_most_15000_characters() {
    accepted(one(texts(251, 59)));
    accepted(one(texts(250, 61)));
    assert_snapshot!(loose(one(texts(251, 60))), @"input $.a: `strict` is off: an enum of more than 250 values with more than 15000 characters; shorten the values or use a text without an enum");
}

#[test]
fn a_strict_schema_has_at_most_120000_characters_of_names_and_values() {
    let long = |length: usize| taking((0..100).map(|i| (format!("{i:0length$}"), text())));
    accepted(long(1_200));
    assert_snapshot!(loose(long(1_201)), @"input $: `strict` is off: 120100 characters of names and values, but at most 120000 are accepted; split it");
    assert_snapshot!(loose(one(json!({"const": "ä".repeat(120_000)}))), @"input $: `strict` is off: 120001 characters of names and values, but at most 120000 are accepted; split it");
}

#[test]
fn a_pattern_that_looks_around_is_described_instead() {
    let pattern = |pattern| one(json!({"type": "string", "pattern": pattern}));
    let kept = |text, dialect| lower(pattern(text), dialect).unwrap().contains("\"pattern\":");
    for fine in ["^(?:a|b)+$", "^[a-z]{2,}$", r"\d"] {
        assert!(kept(fine, Dialect::OpenAiStrict) && kept(fine, Dialect::Anthropic), "{fine}");
    }
    assert!(kept("(?<name>a)", Dialect::OpenAiStrict));
    for other in ["(?=a)", "(?!a)", "(?<=a)", "(?<!a)"] {
        assert!(!kept(other, Dialect::OpenAiStrict), "{other}");
    }
    for other in ["^(?!a)", "(?<name>a)", r"\bcat\b", r"(a)\1"] {
        assert!(!kept(other, Dialect::Anthropic), "{other}");
    }
    assert_snapshot!(lower(pattern("^(?!a)"), Dialect::Anthropic).unwrap(), @r#"{"type":"object","properties":{"a":{"type":"string","description":"pattern: ^(?!a)."}},"required":["a"],"additionalProperties":false}"#);
}

/// Also in dialects that rewrite nothing, but not in data.
#[test]
fn a_reference_that_leads_nowhere_is_rejected() {
    let bad = [
        json!({"$ref": "https://example.com/schema.json"}),
        json!({"$ref": "#/$defs/nowhere"}),
        json!({"$ref": "#/required"}),
    ];
    for schema in &bad {
        let listed = json!({"type": "array", "items": schema});
        for dialect in Dialect::ALL {
            for input in [one(schema.clone()), one(listed.clone())] {
                let error = lower(input, dialect).unwrap_err();
                assert!(matches!(error, ContractError::Lowering { .. }), "{error:?}");
                assert!(error.to_string().contains("$.a"), "{error}");
            }
        }
        for dialect in [Dialect::JsonSchema2020, Dialect::OpenAiLoose, Dialect::Mcp] {
            lower(one(json!({"const": [schema]})), dialect).unwrap();
        }
    }
    assert_snapshot!(refused(one(bad[0].clone())), @r#"`take` does not fit openai-strict at $.a: the reference "https://example.com/schema.json" leads nowhere in this schema; put its target under `$defs`"#);
    let long = json!({"$ref": "\n".repeat(1_000_000)});
    assert!(refused(one(long)).len() < 300);
}

/// A list without `items` gets some; data that looks like one stays as it is.
#[test]
fn missing_items_are_added_to_schemas_and_not_to_data() {
    let look = json!({"type": "array"});
    let data = json!({
        "type": "object",
        "const": look,
        "default": look,
        "enum": [look],
        "examples": [{"properties": {"a": look}}],
    });
    let input = taking([
        ("data".to_owned(), data.clone()),
        ("items".to_owned(), look.clone()),
        ("default".to_owned(), look.clone()),
    ]);
    let lowered: Value =
        serde_json::from_str(&lower(input, Dialect::OpenAiLoose).unwrap()).unwrap();
    let properties = &lowered["properties"];
    let mut told = data;
    told.as_object_mut().unwrap().shift_remove("examples");
    assert_eq!(properties["data"], told);
    let filled = json!({"type": "array", "items": {}});
    assert_eq!(properties["items"], filled);
    assert_eq!(properties["default"], filled);
}

/// The same for types, in an output.
#[test]
fn a_type_that_nests_too_deep_is_sent_without_strict() {
    macro_rules! nest {
        ($outer:ident $inner:ident $($rest:ident)*) => {
            #[derive(Serialize, Deserialize, JsonSchema)]
            struct $outer {
                below: $inner,
            }
            nest!($inner $($rest)*);
        };
        ($last:ident) => {
            #[derive(Serialize, Deserialize, JsonSchema)]
            struct $last {}
        };
    }
    nest!(A B C D E F G H I J K);
    let strict = Contract::of::<Echo<B>>().unwrap();
    assert!(strict.lower_output(Dialect::OpenAiStrict).unwrap().strict);
    let deep = Contract::of::<Echo<A>>().unwrap();
    let lowered = deep.lower_output(Dialect::OpenAiStrict).unwrap();
    assert!(!lowered.strict);
    assert_snapshot!(lowered.losses[0], @"output $.below.below.below.below.below.below.below.below.below.below: `strict` is off: more than 10 nested objects; make it flatter");
}

#[test]
fn a_shortened_path_still_begins_at_the_root() {
    let name = "n".repeat(1000);
    let below = taking([(name, json!({"$ref": "#/$defs/nowhere"}))]);
    let error = lower(below, Dialect::Anthropic).unwrap_err();
    let ContractError::Lowering { path, .. } = error else { panic!("{error}") };
    assert!(path.starts_with("$…n") && path.len() < 310, "{path}");
}
