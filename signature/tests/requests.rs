//! Schemas that a strict dialect cannot express, and the limits of a request with many tools.

use std::sync::Arc;

use crate::judge;
use insta::assert_snapshot;
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolwright_signature::{
    Contract, ContractError, Dialect, Lowered, LoweredRequest, Policy, Side, Signature,
};

fn tool(name: &str, input: Value) -> Contract {
    Contract::dynamic(name, "", input, None).unwrap()
}

fn schema(lowered: &Lowered) -> Value {
    serde_json::from_str(lowered.schema.get()).unwrap()
}

/// An object with `optional` optional fields, and `unions` required ones of two types.
fn fields(optional: usize, unions: usize) -> Value {
    let optional = (0..optional).map(|i| (format!("o{i}"), json!({"type": "string"})));
    let union = json!({"anyOf": [{"type": "string"}, {"type": "integer"}]});
    let unions: Vec<_> = (0..unions).map(|i| (format!("u{i}"), union.clone())).collect();
    let required: Vec<_> = unions.iter().map(|(name, _)| name.clone()).collect();
    let properties: Map<_, _> = optional.chain(unions).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn lowered(dialect: Dialect, tools: &[Contract]) -> Vec<&Lowered> {
    LoweredRequest::new(dialect, tools, None).unwrap().tools
}

fn strict(dialect: Dialect, tools: &[Contract]) -> Vec<bool> {
    lowered(dialect, tools).iter().map(|tool| tool.strict).collect()
}

/// Values of any type and objects of any fields, in every place of a schema.
fn open_schemas() -> Vec<(&'static str, Value)> {
    let object = |value: Value, required: bool| {
        let required: &[&str] = if required { &["value"] } else { &[] };
        json!({"type": "object", "properties": {"value": value}, "required": required})
    };
    vec![
        ("any", object(json!({}), true)),
        ("optional any", object(json!(true), false)),
        ("list of any", object(json!({"type": "array"}), true)),
        ("free form", object(json!({"type": "object"}), true)),
        ("no field named", object(json!({"type": "object", "properties": {}}), true)),
        ("open", object(json!({"type": "object", "additionalProperties": true}), true)),
        ("map of any", object(json!({"type": "object", "additionalProperties": {}}), true)),
        (
            "any in a list in a map",
            object(
                json!({"additionalProperties": {"items": {}, "type": "array"}, "type": "object"}),
                true,
            ),
        ),
        (
            "beside",
            object(
                json!({"type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": true}),
                true,
            ),
        ),
        (
            "union with any",
            object(json!({"anyOf": [{"type": "object"}, {"type": "string"}]}), true),
        ),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[ -~]{0,12}".prop_map(Value::from),
        // Texts that look like other values.
        prop::sample::select(vec!["{}", "[1]", "{\"a\":1}", "null", "1", "true", ""])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |below| {
        // Names that lowering gives to fields of its own.
        let name = prop_oneof![
            "[a-z]{1,5}",
            prop::sample::select(vec![
                "key",
                "value",
                "item_0",
                "item_1",
                "input",
                "result",
                "additional_properties",
            ])
            .prop_map(str::to_owned),
        ];
        prop_oneof![
            prop::collection::vec(below.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name, below), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn values_of_any_type_come_back_from_every_dialect(value in any_value()) {
        for (what, input) in open_schemas() {
            let value = json!({"value": value});
            if !jsonschema::is_valid(&input, &value) {
                continue;
            }
            let contract = tool("take", input);
            for dialect in Dialect::ALL {
                let lowered = contract.lower(dialect).unwrap();
                let wire = contract.lower_value(dialect, &value).unwrap();
                let judge = jsonschema::validator_for(&schema(lowered)).unwrap();
                prop_assert!(judge.is_valid(&wire), "{}, {}: {}", what, dialect, wire);
                let back = contract.read_with::<Value>(&wire.to_string(), Policy::Strict).unwrap();
                prop_assert_eq!(&back.value, &value, "{}, {}: {}", what, dialect, wire);
                prop_assert!(back.repairs.is_empty(), "{}, {}: {:?}", what, dialect, back.repairs);
            }
        }
    }

    /// The provider accepts every request, and the choice of strict tools is always the same.
    #[test]
    fn any_list_of_tools_is_a_request_that_its_provider_takes(
        sizes in prop::collection::vec((0..26usize, 0..18usize, any::<bool>()), 0..40),
        seed in 0..1000usize,
    ) {
        let open = json!({"type": "object", "properties": {"any": {}}});
        let make = || -> Vec<Contract> {
            let sizes = sizes.iter().enumerate();
            sizes.map(|(i, (optional, unions, is_open))| {
                // Most tools are small.
                let (optional, unions) = match (i + seed) % 3 {
                    0 => (*optional, *unions),
                    _ => (optional % 3, unions % 2),
                };
                let input = if *is_open && i % 4 == 0 { open.clone() } else { fields(optional, unions) };
                tool(&format!("t{i}"), input)
            }).collect()
        };
        let (tools, again) = (make(), make());
        for dialect in Dialect::ALL {
            let first = lowered(dialect, &tools);
            let bytes = |all: &[&Lowered]| -> Vec<_> {
                all.iter().map(|one| (one.strict, one.schema.get().to_owned())).collect()
            };
            prop_assert_eq!(bytes(&first), bytes(&lowered(dialect, &again)));
            let sent: Vec<_> = first.iter().map(|one| (one.strict, schema(one))).collect();
            let faults = judge::faults_of_request(dialect, &sent);
            prop_assert!(faults.is_empty(), "{dialect}: {faults:?}");
            let is_strict = matches!(dialect, Dialect::OpenAiStrict | Dialect::Anthropic);
            for one in &first {
                let told = one.losses.iter().any(|loss| loss.keyword == "strict");
                prop_assert_eq!(told, is_strict && !one.strict);
            }
            // A tool at the end changes nothing before it.
            let half = tools.len() / 2;
            prop_assert_eq!(bytes(&lowered(dialect, &tools[..half])), bytes(&first[..half]));
        }
    }
}

#[test]
fn anthropic_takes_20_strict_tools_and_the_others_without_strict() {
    let tools: Vec<_> = (0..22).map(|i| tool(&format!("t{i}"), fields(0, 0))).collect();
    let all = strict(Dialect::Anthropic, &tools);
    assert_eq!(all, [vec![true; 20], vec![false; 2]].concat());
    assert_snapshot!(lowered(Dialect::Anthropic, &tools)[21].losses[0], @"input $: `strict` is off: the request has no room for another strict tool after the ones before it");
    // The tool alone is strict: the choice holds for one request only.
    assert!(tools[21].lower(Dialect::Anthropic).unwrap().strict);
    assert_eq!(strict(Dialect::OpenAiStrict, &tools), [true; 22]);
}

/// The recorded requests, each with what Anthropic said: 24 and 16 across tools are accepted,
/// 24 in one schema are not.
#[test]
fn anthropic_adds_up_optional_fields_and_unions_of_all_strict_tools() {
    let many = |count: usize, optional, unions| -> Vec<Contract> {
        (0..count).map(|i| tool(&format!("t{i}"), fields(optional, unions))).collect()
    };
    assert_eq!(strict(Dialect::Anthropic, &many(12, 2, 0)), [true; 12]);
    assert_eq!(strict(Dialect::Anthropic, &many(13, 2, 0))[12..], [false]);
    assert_eq!(strict(Dialect::Anthropic, &many(16, 0, 1)), [true; 16]);
    assert_eq!(strict(Dialect::Anthropic, &many(17, 0, 1))[16..], [false]);
    assert_eq!(strict(Dialect::Anthropic, &many(1, 23, 15)), [true]);
    assert_eq!(strict(Dialect::Anthropic, &many(1, 24, 0)), [false]);
    assert_eq!(strict(Dialect::Anthropic, &many(1, 0, 16)), [false]);
    let why = |tools: &[Contract]| lowered(Dialect::Anthropic, tools)[0].losses[0].to_string();
    assert_snapshot!(why(&many(1, 24, 0)), @"input $: `strict` is off: 24 optional fields, but at most 23 are accepted; split it");
    assert_snapshot!(why(&many(1, 0, 16)), @"input $: `strict` is off: 16 fields of several types, but at most 15 are accepted; split it");
    // Tools that still fit are strict after one that does not.
    let tools = [many(1, 20, 0), many(1, 8, 0), many(2, 2, 0)].concat();
    assert_eq!(strict(Dialect::Anthropic, &tools), [true, false, true, true]);
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Answer {
    a: Option<u8>,
    b: Option<u8>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Ask {}

impl Signature for Ask {
    type Output = Answer;
}

#[test]
fn the_output_counts_towards_the_limits_before_the_tools() {
    let ask = Contract::of::<Ask>().unwrap();
    let tools: Vec<_> = (0..12).map(|i| Arc::new(tool(&format!("t{i}"), fields(2, 0)))).collect();
    let request = LoweredRequest::new(Dialect::Anthropic, &tools, Some(&ask)).unwrap();
    assert!(request.output.is_some_and(|output| output.strict));
    let strict = request.tools.iter().filter(|tool| tool.strict).count();
    assert_eq!(strict, 11);
}

#[test]
fn a_request_with_more_tools_than_the_provider_accepts_is_an_error() {
    let tools: Vec<_> = (0..513).map(|i| tool(&format!("t{i}"), fields(0, 0))).collect();
    for (dialect, most) in [
        (Dialect::OpenAiStrict, Some(128)),
        (Dialect::OpenAiLoose, Some(128)),
        (Dialect::Gemini, Some(512)),
        (Dialect::Anthropic, None),
        (Dialect::Mcp, None),
        (Dialect::JsonSchema2020, None),
    ] {
        assert_eq!(dialect.max_tools(), most);
        let most = most.unwrap_or(512);
        assert_eq!(lowered(dialect, &tools[..most]).len(), most);
        let more = LoweredRequest::new(dialect, &tools[..=most], None);
        assert_eq!(more.is_err(), dialect.max_tools().is_some(), "{dialect}");
    }
    let error = LoweredRequest::new(Dialect::OpenAiLoose, &tools[..129], None).unwrap_err();
    assert!(
        matches!(error, ContractError::TooManyTools { count: 129, most: 128, .. }),
        "{error:?}"
    );
    assert_snapshot!(error, @"129 tools are more than the 128 that openai-loose takes in one request; leave some out, defer some in an agent (`Tool::deferred`), choose some for each request (`Agent::with_filter`), or give them to agents that are tools of this one");
}

#[test]
fn open_schemas_are_sent_without_strict() {
    for (what, input) in open_schemas() {
        let contract = tool("take", input);
        for (dialect, strict) in
            [(Dialect::OpenAiStrict, "/function/strict"), (Dialect::Anthropic, "/strict")]
        {
            let lowered = contract.lower(dialect).unwrap();
            assert!(!lowered.strict, "{what}, {dialect}");
            let loss = &lowered.losses[0];
            assert_eq!((loss.side, &*loss.keyword), (Side::Input, "strict"), "{what}, {dialect}");
            assert!(loss.path.starts_with("$.value"), "{what}, {dialect}: {loss}");
            let sent = contract.tool(dialect).unwrap();
            assert_eq!(sent.pointer(strict), Some(&json!(false)), "{what}, {dialect}: {sent}");
        }
        let strict = contract.lower(Dialect::OpenAiStrict).unwrap();
        let loose = contract.lower(Dialect::OpenAiLoose).unwrap();
        assert_eq!(strict.schema.get(), loose.schema.get(), "{what}");
    }
}

/// Anthropic rejects a request for such a name at the root. It is not known for those below.
#[test]
fn a_field_whose_name_anthropic_refuses_is_described_instead() {
    let input = json!({
        "type": "object",
        "properties": {
            "$filter": {"type": "string", "description": "An OData filter."},
            "page": {"type": "object", "properties": {"of all": {"type": "integer"}}, "additionalProperties": false},
        },
        "required": ["$filter"],
        "additionalProperties": false,
    });
    let contract = tool("list", input);
    let lowered = contract.lower(Dialect::Anthropic).unwrap();
    assert!(!lowered.strict);
    assert_eq!(judge::faults(Dialect::Anthropic, false, &schema(lowered)), [""; 0]);
    assert_snapshot!(lowered.schema, @r#"{"type":"object","properties":{"page":{"type":"object","properties":{},"description":"Optional field \"of all\": {\"type\":\"integer\"}."}},"description":"Required field \"$filter\": {\"type\":\"string\",\"description\":\"An OData filter.\"}."}"#);
    let losses: Vec<_> = lowered.losses.iter().map(ToString::to_string).collect();
    assert_snapshot!(losses.join("\n"), @r"
    input $.$filter: `strict` is off: its name must be 1 to 64 characters of A-Z a-z 0-9 _ . -; rename it
    input $.$filter: `properties` is written only in the description
    input $.page.of all: `properties` is written only in the description
    ");
    let value = json!({"$filter": "a eq 1", "page": {"of all": 2}});
    let wire = contract.lower_value(Dialect::Anthropic, &value).unwrap();
    assert!(jsonschema::is_valid(&schema(lowered), &wire));
    assert_eq!(contract.read::<Value>(&wire.to_string()).unwrap(), value);
}

/// A schema that the provider accepts in no form is described in words.
#[test]
fn a_root_that_looks_like_its_own_wrapper_is_described() {
    let input = json!({"type": "object", "anyOf": [
        {"properties": {"input": {"type": "object", "properties": {"a": {"type": "integer"}}}}, "required": ["input"]},
        {"properties": {"b": {"type": "integer"}}, "required": ["b"]},
    ]});
    let contract = tool("take", input);
    for dialect in Dialect::ALL {
        let lowered = contract.lower(dialect).unwrap();
        let sent = schema(lowered);
        assert_eq!(judge::faults(dialect, lowered.strict, &sent), [""; 0], "{dialect}");
        for value in [json!({"input": {"a": 1}}), json!({"b": 2})] {
            let wire = contract.lower_value(dialect, &value).unwrap();
            assert!(jsonschema::is_valid(&sent, &wire), "{dialect}: {wire}");
            assert_eq!(contract.read::<Value>(&wire.to_string()).unwrap(), value, "{dialect}");
        }
    }
    let lowered = contract.lower(Dialect::OpenAiLoose).unwrap();
    assert!(schema(lowered)["description"].as_str().unwrap().starts_with("JSON of this schema: {"));
    assert_snapshot!(lowered.losses[0], @"input $: `properties` are written only in the description: it is not a plain object there, so it needs a field `input`, which it may already have; put it in a field of a struct");
}

#[test]
fn an_output_of_any_value_is_asked_for_without_strict() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Guess {}
    impl Signature for Guess {
        type Output = Value;
    }
    let contract = Contract::of::<Guess>().unwrap();
    for dialect in [Dialect::OpenAiStrict, Dialect::Anthropic] {
        let lowered = contract.lower_output(dialect).unwrap();
        assert!(!lowered.strict, "{dialect}");
        assert_eq!((lowered.losses[0].side, &*lowered.losses[0].keyword), (Side::Output, "strict"));
        for value in [json!("{}"), json!({"result": 1}), json!([{"key": "a", "value": 1}])] {
            let wire = contract.lower_output_value(dialect, &value).unwrap();
            assert_eq!(contract.read_output::<Value>(&wire.to_string()).unwrap(), value);
        }
    }
}

/// A union of members without a common value is `oneOf` where the dialect has the keyword.
#[test]
fn a_union_of_disjoint_members_is_one_of() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(untagged)]
    enum Disjoint {
        Text(String),
        Number(f64),
        List(Vec<u8>),
    }
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(untagged)]
    enum Overlapping {
        Whole(i64),
        Number(f64),
    }
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Take {
        disjoint: Disjoint,
        overlapping: Overlapping,
        optional: Option<Answer>,
    }
    impl Signature for Take {
        type Output = Vec<Disjoint>;
    }
    let contract = Contract::of::<Take>().unwrap();
    for dialect in Dialect::ALL {
        let keywords = |lowered: &Lowered, at: &str| -> Vec<String> {
            let schema = schema(lowered);
            let keywords = schema.pointer(at).and_then(Value::as_object).unwrap().keys();
            keywords.filter(|keyword| keyword.ends_with("Of")).cloned().collect()
        };
        let input = contract.lower(dialect).unwrap();
        let one_of =
            !matches!(dialect, Dialect::OpenAiStrict | Dialect::Anthropic | Dialect::Gemini);
        let disjoint = if one_of { "oneOf" } else { "anyOf" };
        assert_eq!(keywords(input, "/properties/disjoint"), [disjoint], "{dialect}");
        assert_eq!(keywords(input, "/properties/overlapping"), ["anyOf"], "{dialect}");
        assert!(!keywords(input, "/properties/optional").contains(&"oneOf".to_owned()));
        assert!(input.losses.iter().all(|loss| loss.keyword != "oneOf"), "{dialect}");
        let output = contract.lower_output(dialect).unwrap();
        assert_eq!(keywords(output, "/properties/result/items"), [disjoint], "{dialect}");
    }
    for value in [json!("a"), json!(1.5), json!([1])] {
        let input = json!({"disjoint": value, "overlapping": 0.5, "optional": null});
        assert_eq!(json!(contract.read::<Take>(&input.to_string()).unwrap()), input);
    }
    let neither = r#"{"disjoint": true, "overlapping": 1.5, "optional": null}"#;
    assert!(contract.read_with::<Take>(neither, Policy::Strict).is_err());
}
