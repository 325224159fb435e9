//! Checks that serde does not make: the schema's own rules, and what serde accepts too easily.

use std::collections::BTreeMap;

use insta::assert_snapshot;
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_signature::{Contract, ContractError, Policy, Repair, Signature};

/// Takes and returns the type of a test.
#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
#[serde(bound = "T: Serialize + DeserializeOwned")]
struct Of<T> {
    it: T,
}

impl<T> Signature for Of<T>
where
    T: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static,
{
    type Output = T;

    fn name() -> std::borrow::Cow<'static, str> {
        "check".into()
    }
}

fn read<T>(it: &str) -> Result<T, ContractError>
where
    T: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static,
{
    let contract = Contract::of::<Of<T>>().unwrap();
    contract.read::<Of<T>>(&format!("{{\"it\": {it}}}")).map(|read| read.it)
}

fn dynamic(it: Value) -> Contract {
    let input = json!({"type": "object", "properties": {"it": it}, "required": ["it"]});
    Contract::dynamic("check", "", input, None).unwrap()
}

fn read_dynamic(contract: &Contract, it: &str, policy: Policy) -> Result<Value, ContractError> {
    let wire = format!("{{\"it\": {it}}}");
    contract.read_with::<Value>(&wire, policy).map(|read| read.value["it"].clone())
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
struct Point {
    x: i64,
    y: i64,
}

#[derive(
    Serialize, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord, Debug, Clone, Copy,
)]
#[serde(rename_all = "lowercase")]
enum Side {
    Left,
    Right,
}

#[test]
fn reading_rejects_the_list_for_a_struct_and_the_object_for_a_name_that_serde_accepts() {
    assert!(serde_json::from_str::<Point>("[1, 2]").is_ok());
    assert!(read::<Point>("[1, 2]").is_err());
    assert!(read::<Vec<Point>>("[{\"x\": 1, \"y\": 2}, [3, 4]]").is_err());
    assert!(read::<Option<Point>>("[1, 2]").is_err());
    assert!(serde_json::from_str::<Side>("{\"left\": null}").is_ok());
    assert!(read::<Side>("{\"left\": null}").is_err());
    assert!(read::<f32>("1e300").is_err());
    assert!(read::<BTreeMap<String, u8>>("{\"a\": 1, \"a\": 2}").is_err());
    assert!(read::<BTreeMap<Side, u8>>("{\"left\": 1, \"left\": 2}").is_err());
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
struct Flat {
    id: u8,
    #[serde(flatten)]
    inner: Inner,
}

impl Signature for Flat {
    type Output = ();
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
struct Inner {
    point: Point,
    #[serde(default)]
    side: Option<Side>,
}

#[test]
fn values_that_serde_buffers_are_checked_too() {
    let good = r#"{"id": 1, "point": {"x": 1, "y": 2}, "side": "left"}"#;
    let inner = Inner { point: Point { x: 1, y: 2 }, side: Some(Side::Left) };
    let contract = Contract::of::<Flat>().unwrap();
    // More than once, because the contract keeps what the first reading found out.
    for _ in 0..3 {
        let read: Flat = contract.read(good).unwrap();
        assert_eq!(read, Flat { id: 1, inner: Inner { point: Point { x: 1, y: 2 }, ..inner } });
        assert!(serde_json::from_str::<Flat>(r#"{"id": 1, "point": [1, 2]}"#).is_ok());
        assert!(contract.read::<Flat>(r#"{"id": 1, "point": [1, 2]}"#).is_err());
        assert!(contract.read::<Flat>(r#"{"id": 1, "id": 1, "point": {"x": 1, "y": 2}}"#).is_err());
    }
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
#[serde(untagged)]
enum FloatFirst {
    Float(f64),
    Whole(i64),
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
#[serde(untagged)]
enum NameOrText {
    Side(Side),
    Text(String),
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
#[serde(untagged)]
enum Narrow {
    Short { a: u8 },
    Long { a: u8, b: u8 },
}

/// serde takes the first member that fits.
#[test]
fn a_value_of_a_member_that_serde_would_not_reach_is_a_fault() {
    assert_snapshot!(read::<FloatFirst>("5").unwrap_err(), @"input of `check` does not fit: $.it: expected a number or an integer, got the number 5: it is an integer, but would be taken for a number, which is declared before it");
    assert_eq!(read::<FloatFirst>("5.5").unwrap(), FloatFirst::Float(5.5));
    assert_eq!(read::<FloatFirst>("5.0").unwrap(), FloatFirst::Float(5.0));
    assert_eq!(read::<NameOrText>("\"left\"").unwrap(), NameOrText::Side(Side::Left));
    assert_eq!(read::<NameOrText>("\"up\"").unwrap(), NameOrText::Text("up".into()));
    // It is a valid text and nearly a valid name.
    assert_eq!(read::<NameOrText>("\"LEFT\"").unwrap(), NameOrText::Text("LEFT".into()));
    assert_snapshot!(read::<Narrow>(r#"{"a": 1, "b": 2}"#).unwrap_err(), @"input of `check` does not fit: $.it: expected an object with `a` or an object with `a`, `b`, got an object with `a`, `b`: it is an object with `a`, `b`, but would be taken for an object with `a`, which is declared before it");
    assert_eq!(read::<Narrow>(r#"{"a": 1}"#).unwrap(), Narrow::Short { a: 1 });
}

#[test]
fn a_value_that_fits_two_members_is_a_fault_unless_both_read_it_alike() {
    let same = dynamic(json!({"anyOf": [
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]},
    ]}));
    assert_eq!(read_dynamic(&same, r#"{"a": 1}"#, Policy::Coerce).unwrap(), json!({"a": 1}));

    let differ = dynamic(json!({"anyOf": [
        {"type": "array", "items": {"type": "integer"}},
        {"type": "array", "items": {"type": "boolean"}},
    ]}));
    assert_eq!(read_dynamic(&differ, "[1]", Policy::Coerce).unwrap(), json!([1]));
    assert_eq!(read_dynamic(&differ, "[true]", Policy::Coerce).unwrap(), json!([true]));
    assert_eq!(read_dynamic(&differ, "[\"1\"]", Policy::Coerce).unwrap(), json!([1]));
    assert!(read_dynamic(&differ, "[1, true]", Policy::Coerce).is_err());
    // Both members fit, with different values.
    let either = dynamic(json!({"oneOf": [
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}, "required": ["a"]},
    ]}));
    assert_snapshot!(read_dynamic(&either, r#"{"a": "1"}"#, Policy::Coerce).unwrap_err(), @"input of `check` does not fit: $.it: expected an object with `a`, got an object with `a`: it may be an object with `a` in more than one way");
}

#[test]
fn an_error_lists_all_faults_and_counts_those_beyond_its_limit() {
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct Many {
        #[schemars(range(min = 1, max = 5))]
        stars: u8,
        #[schemars(length(min = 2, max = 4))]
        code: String,
        #[schemars(regex(pattern = "^[a-z]+$"))]
        word: String,
        #[schemars(length(max = 1))]
        tags: Vec<String>,
        side: Side,
        point: Point,
        ratio: f32,
        limit: Option<u8>,
        map: BTreeMap<u8, bool>,
    }
    let wrong = r#"{"stars": 9, "code": "a", "word": "A", "tags": ["a", "b"], "side": "up",
        "point": {"x": 1.5}, "ratio": 1e99, "limit": 300, "map": {"x": true, "1": 2}}"#;
    let Err(ContractError::Reading { faults, .. }) = read::<Many>(wrong) else {
        panic!("it fits");
    };
    let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert_snapshot!(told.join("\n"), @r#"
    $.it.stars: expected an integer from 1 to 5, got the number 9
    $.it.code: expected a string of 2 to 4 characters, got the string "a"
    $.it.word: expected a string that matches ^[a-z]+$, got the string "A"
    $.it.tags: expected a list of at most 1, got a list of 2
    $.it.side: expected one of `left`, `right`, got the string "up"
    $.it.point.x: expected an integer, got the number 1.5
    $.it.point.y: this field is missing; expected an integer
    $.it.ratio: expected a number, got the number 1e99: it is too large, too close to zero, or an integer with more digits than are kept
    $.it.limit: expected an integer from 0 to 255 or null, got the number 300
    $.it.map.x: expected only keys that match ^\d+$, got the field `x`
    $.it.map.1: expected true or false, got the number 2
    "#);

    let flood = format!("[{}1]", "\"x\",".repeat(1_000));
    let Err(error @ ContractError::Reading { .. }) = read::<Vec<u8>>(&flood) else {
        panic!("it fits");
    };
    assert!(error.to_string().ends_with("; and 950 more"), "{error}");
    let ContractError::Reading { faults, more, .. } = error else {
        unreachable!("it was one");
    };
    assert_eq!((faults.len(), more), (50, 950));
}

#[test]
fn an_error_shows_the_start_of_a_long_value() {
    let long = "ä\\n😀\\\"".repeat(1_000);
    for it in [format!("\"{long}\""), format!("{{\"{long}\": 1, \"{long}2\": 2}}"), "1".repeat(400)]
    {
        let Err(ContractError::Reading { faults, .. }) = read::<bool>(&it) else {
            panic!("{it} fits");
        };
        for fault in faults {
            assert!(fault.got.chars().count() <= 160, "{}", fault.got);
            assert!(fault.message.chars().count() < 400, "{}", fault.message);
        }
    }
}

#[test]
fn a_fault_says_what_was_expected() {
    #[derive(Serialize, Deserialize, JsonSchema, Debug)]
    #[serde(tag = "kind")]
    enum Shape {
        Circle { radius: f64 },
        Square { side: f64 },
    }
    #[derive(Serialize, Deserialize, JsonSchema, Debug)]
    struct Report {
        shape: Option<Shape>,
        day: Option<jiff::civil::Date>,
        count: Option<u32>,
        #[schemars(length(max = 1))]
        mark: String,
    }
    let told = [
        r#"{"mark": "", "day": "2026-02-30"}"#,
        r#"{"mark": "", "count": 5000000000}"#,
        r#"{"mark": "say \"no\""}"#,
        r#"{"marks": "a", "day": null}"#,
        r#"{"mark": "", "shape": {"size": 1}}"#,
        r#"{"mark": "", "_type": "Square", "shape": {"kind": "Circle", "radius": 1}}"#,
        r#"{"mark": "", "shape": {"_type": "Square", "kind": "Circle", "radius": 1}}"#,
    ]
    .map(|it| match read::<Report>(it) {
        Err(ContractError::Reading { faults, .. }) => {
            faults.first().map(ToString::to_string).unwrap()
        }
        other => panic!("{it}: {other:?}"),
    });
    assert_snapshot!(told.join("\n"), @r#"
    $.it.day: expected a date like 2026-11-21 or null, got the string "2026-02-30": there is no such day
    $.it.count: expected an integer from 0 to 4294967295 or null, got the number 5000000000
    $.it.mark: expected a string of at most 1 character, got the string "say \"no\""
    $.it.mark: this field is missing (there is `marks`); expected a string of at most 1 character
    $.it.shape.kind: this field is missing; expected one of `Circle`, `Square`
    $.it.shape: expected an object with `kind` "Circle", `radius` or an object with `kind` "Square", `side` or null, got an object with `kind`, `radius`: `_type` above says that it is "Square"
    $.it.shape: expected an object with `kind` "Circle", `radius` or an object with `kind` "Square", `side` or null, got an object with `_type`, `kind`, `radius`: `_type` says that it is "Square"
    "#);
}

#[test]
fn repairs_are_listed_in_the_order_of_the_text() {
    let contract = Contract::of::<Of<Vec<Point>>>().unwrap();
    let text = "Here: ```json\n{'arguments': '{\"It\": {\"x\": \"1\", \"z\": 2.0,},}'}\n```";
    let error = contract.read_with::<Of<Vec<Point>>>(text, Policy::Coerce).unwrap_err();
    assert_snapshot!(error, @"input of `check` does not fit: $.arguments.It: expected a list, got an object with `x`, `z`");
    let text =
        "Here: ```json\n{'arguments': '{\"It\": [{\"x\": \"1\", \"y\": 2.0, \"z\": 3,}],}'}\n```";
    let reading = contract.read_with::<Of<Vec<Point>>>(text, Policy::Coerce).unwrap();
    assert_eq!(reading.value.it, [Point { x: 1, y: 2 }]);
    let told: Vec<_> = reading.repairs.iter().map(ToString::to_string).collect();
    assert_snapshot!(told.join("\n"), @r#"
    $: took the value out of the text around it
    $: read other quotes as double quotes, 2 times
    $: took the value out of `arguments`
    $.arguments: read the string as the object that is written in it
    $.arguments: left out a trailing comma, 2 times
    $.arguments.it: read "It" as `it`
    $.arguments.It[0].x: read the string "1" as the number 1
    $.arguments.It[0].z: left out a field that is not asked for
    "#);
}

#[test]
fn each_policy_makes_only_its_own_repairs() {
    let contract = Contract::of::<Of<i64>>().unwrap();
    let read = |text: &str| {
        [Policy::Strict, Policy::Repair, Policy::Coerce]
            .map(|policy| contract.read_with::<Of<i64>>(text, policy).is_ok())
    };
    assert_eq!(read(r#"{"it": 5}"#), [true, true, true]);
    assert_eq!(read(r#"{"it": 5.0}"#), [true, true, true]);
    assert_eq!(read(r#"{"it": 5,}"#), [false, true, true]);
    assert_eq!(read(r#"{"input": {"it": 5}}"#), [false, true, true]);
    assert_eq!(read(r#""{\"it\": 5}""#), [false, true, true]);
    assert_eq!(read(r#"{"it": "5"}"#), [false, false, true]);
    assert_eq!(read(r#"{"IT": 5}"#), [false, false, true]);
    assert_eq!(read(r#"{"it": 5.5}"#), [false, false, false]);
}

/// The shapes of dialects are not mistakes: every policy restores the value.
#[test]
fn shapes_of_dialects_are_restored_under_every_policy() {
    let cases = [
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            json!([{"key": "a", "value": 1}, {"key": "b", "value": 2}]),
            json!({"a": 1, "b": 2}),
        ),
        (
            json!({"type": "object", "patternProperties": {"^\\d+$": {"type": "string"}}, "additionalProperties": false}),
            json!([{"key": "7", "value": "x"}]),
            json!({"7": "x"}),
        ),
        (
            json!({"type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": {"type": "string"}}),
            json!({"id": 1, "additional_properties": [{"key": "color", "value": "red"}]}),
            json!({"id": 1, "color": "red"}),
        ),
        (
            json!({"type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "string"}}}),
            json!({"id": null, "note": "a"}),
            json!({"note": "a"}),
        ),
        (
            json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2, "maxItems": 2}),
            json!({"item_0": "a", "item_1": 1}),
            json!(["a", 1]),
        ),
        (
            json!({"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}),
            json!({"item_0": "a", "item_1": 1}),
            json!(["a", 1]),
        ),
        (json!({"enum": [1, 2.5, true]}), json!("2.5"), json!(2.5)),
        (json!({"enum": [1, 2.5, true]}), json!("true"), json!(true)),
        (json!({"const": 7}), json!("7"), json!(7)),
    ];
    for (schema, wire, value) in cases {
        let contract = dynamic(schema);
        for policy in [Policy::Strict, Policy::Repair, Policy::Coerce] {
            let reading = contract.read_with::<Value>(&json!({"it": wire}).to_string(), policy);
            let reading = reading.unwrap_or_else(|error| panic!("{wire}: {error}"));
            assert_eq!(reading.value["it"], value, "{wire}");
            // Where null stands for an absent field, another value holds than was written.
            let is_null =
                |repair: &Repair| repair.what.starts_with("left out a field that is null");
            assert!(reading.repairs.iter().all(is_null), "{wire}: {:?}", reading.repairs);
            let nulls = usize::from(wire.get("id").is_some_and(Value::is_null));
            assert_eq!(reading.repairs.len(), nulls, "{wire}");
        }
    }
    // A union at the root of an input.
    let union = json!({"type": "object", "oneOf": [
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]},
    ]});
    let contract = Contract::dynamic("check", "", union, None).unwrap();
    let read: Value = contract.read_with(r#"{"input": {"b": 1}}"#, Policy::Strict).unwrap().value;
    assert_eq!(read, json!({"b": 1}));
}

#[test]
fn a_key_that_two_pairs_have_is_a_fault() {
    let contract = dynamic(json!({"type": "object", "additionalProperties": {"type": "integer"}}));
    let twice = r#"[{"key": "a", "value": 1}, {"key": "a", "value": 1}]"#;
    assert_snapshot!(read_dynamic(&contract, twice, Policy::Strict).unwrap_err(), @r#"input of `check` does not fit: $.it[1].value: expected each key once, got the key "a": it is there twice"#);
}

/// `serde_json::Value` would round a number of more than 64 bits.
#[test]
fn a_number_with_more_than_64_bits_is_not_rounded() {
    let any = dynamic(json!({}));
    assert_eq!(
        read_dynamic(&any, "18446744073709551615", Policy::Strict).unwrap(),
        json!(u64::MAX)
    );
    assert!(read_dynamic(&any, "18446744073709551616", Policy::Coerce).is_err());
    assert!(read_dynamic(&any, "[{\"a\": 1e999}]", Policy::Coerce).is_err());
    let integer = dynamic(json!({"type": "integer"}));
    assert!(read_dynamic(&integer, "18446744073709551616", Policy::Coerce).is_err());
    assert!(read_dynamic(&integer, "1e300", Policy::Coerce).is_err());
}

#[test]
fn an_integer_may_have_any_notation() {
    let integer = dynamic(json!({"type": "integer"}));
    for (text, whole) in [
        ("5", "5"),
        ("-12", "-12"),
        ("5.0", "5"),
        ("1e3", "1000"),
        ("1.5e1", "15"),
        ("100e-2", "1"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("0e99999999999999999999", "0"),
    ] {
        let read = read_dynamic(&integer, text, Policy::Strict).unwrap();
        assert_eq!(read.to_string(), whole, "{text}");
    }
    assert_eq!(read::<u128>(&u128::MAX.to_string()).unwrap(), u128::MAX);
    for text in ["5.5", "1e-1", "1e999", "1e99999999999999999999"] {
        assert!(read_dynamic(&integer, text, Policy::Coerce).is_err(), "{text}");
    }
    for text in ["", "-", ".5", "5.", "01", "+-1", "1_0"] {
        let text = json!(text).to_string();
        assert!(read_dynamic(&integer, &text, Policy::Coerce).is_err(), "{text}");
    }
}

#[test]
fn bounds_have_the_order_of_numbers() {
    let sorted = ["-1e5", "-10", "-9.5", "-0.1", "0", "1e-9", "0.1", "0.11", "1", "9", "10", "1e2"];
    for (least, bound) in sorted.iter().enumerate() {
        let bound: Value = serde_json::from_str(bound).unwrap();
        let contract = dynamic(json!({"type": "number", "minimum": bound}));
        for (at, text) in sorted.iter().enumerate() {
            let fits = read_dynamic(&contract, text, Policy::Strict).is_ok();
            assert_eq!(fits, at >= least, "{text} with the minimum {bound}");
        }
    }
    let only = dynamic(json!({"const": 1.5}));
    for text in ["1.5", "1.50", "15e-1"] {
        assert!(read_dynamic(&only, text, Policy::Strict).is_ok(), "{text}");
    }
}

/// Whether a text fits a contract with this pattern.
fn matches(pattern: &str, text: &str) -> bool {
    let contract = dynamic(json!({"type": "string", "pattern": pattern}));
    read_dynamic(&contract, &json!(text).to_string(), Policy::Strict).is_ok()
}

#[test]
fn a_pattern_has_to_match() {
    for (pattern, fits, not) in [
        (r"^[A-Z]{2}-\d+$", "AB-12", "AB-"),
        (r"^\d{4}-\d{2}-\d{2}$", "2026-11-21", "2026-11-2"),
        ("^[a-z]+$", "abc", "ab1"),
        ("^[a-zA-Z0-9_-]{1,4}$", "a-_Z", "abcde"),
        (r"^[^@]+@[^@]+$", "a@b", "ab"),
        (r"^\+?[0-9]*$", "+12", "12+"),
        ("^a*b$", "b", "a"),
        ("^[a-z]*a$", "bca", "bc"),
        ("abc", "xabcx", "ab"),
        ("^(a|b)$", "a", "c"),
    ] {
        assert!(matches(pattern, fits) && !matches(pattern, not), "{pattern}");
    }
}

proptest! {
    /// Most patterns need no regex engine: see `reading/pattern.rs`.
    #[test]
    fn a_pattern_matches_what_the_engine_matches(
        pattern in r"\^(([a-c]|\[[a-c0-2]{1,3}\]|\[a-c\]|\\d|-|\\\.)(\+|\*|\?|\{[0-2]\}|\{1,\}|\{0,2\})?){1,4}\$",
        text in r"[a-c0-2.\-é\n]{0,6}",
    ) {
        if let Ok(regex) = regex_lite::Regex::new(&pattern) {
            prop_assert_eq!(matches(&pattern, &text), regex.is_match(&text), "{}", pattern);
        }
    }
}

/// Schemas of every style, as others write them. Where a value is read, each has a type, because reading
/// infers a missing one from the other keywords and JSON Schema does not.
fn schemas() -> Vec<Value> {
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    vec![
        json!({"type": "integer", "minimum": 0, "exclusiveMaximum": 3}),
        json!({"type": "number", "multipleOf": 0.5}),
        json!({"type": ["integer", "null"]}),
        json!({"type": ["string", "boolean"]}),
        json!({"type": "string", "minLength": 1, "maxLength": 2}),
        json!({"type": "string", "pattern": "^[ab]+$"}),
        json!({"enum": ["a", 1, null, [1], {"a": 1}]}),
        json!({"const": {"a": [1]}}),
        json!({"type": "array", "items": {"type": "integer"}, "minItems": 1, "uniqueItems": true}),
        json!({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false}),
        json!({"type": "array", "contains": {"type": "integer"}}),
        json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}),
        json!({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": false}),
        json!({"type": "object", "properties": {"a": {"type": "integer"}}, "patternProperties": {"^a": {"type": "number", "minimum": 2}}, "additionalProperties": false}),
        json!({"type": "object", "unevaluatedProperties": false, "anyOf": [
            {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"b": {"type": "integer"}}, "required": ["b"]},
        ]}),
        json!({"type": "object", "additionalProperties": true, "minProperties": 1, "maxProperties": 2}),
        json!({"type": "object", "additionalProperties": {"type": "integer"}, "propertyNames": {"enum": ["a", "b"]}}),
        json!({"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}}),
        json!({"allOf": [object(json!({"a": {"type": "integer"}})), {"type": "object", "required": ["a"]}]}),
        json!({"allOf": [{"type": "integer", "minimum": 1}, {"maximum": 2}]}),
        json!({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}, {"type": "null"}]}),
        json!({"oneOf": [
            {"type": "object", "properties": {"k": {"const": "a"}, "a": {"type": "integer"}}, "required": ["k"]},
            {"type": "object", "properties": {"k": {"const": "b"}, "b": {"type": "integer"}}, "required": ["k", "b"]},
        ]}),
        json!({"type": "integer", "not": {"enum": [1, 2]}}),
        json!({"type": "object", "properties": {"a": {"type": "integer"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        json!(true),
        json!({}),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1..4_i64).prop_map(Value::from),
        (-2..8_i64).prop_map(|quarters| Value::from(quarters as f64 / 4.0)),
        "[abx1]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("a|b|ab|k|c", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// A value that is read fits the schema, and a value that fits is read without a change.
    #[test]
    fn reading_and_json_schema_agree(it in value(), which in 0..schemas().len()) {
        thread_local! {
            static ALL: Vec<(Contract, jsonschema::Validator)> = schemas().into_iter()
                .map(|schema| (dynamic(schema.clone()), jsonschema::validator_for(&schema).unwrap()))
                .collect();
        }
        ALL.with(|all| {
            let (contract, judge) = &all[which];
            let valid = judge.is_valid(&it);
            for policy in [Policy::Strict, Policy::Coerce] {
                let read = read_dynamic(contract, &it.to_string(), policy);
                if let Ok(read) = &read {
                    prop_assert!(judge.is_valid(read), "{} read as {}", it, read);
                }
                // To the schema a field that it does not name is any other: here it may hold the
                // fields that were meant, or be a slip of one.
                let slip = |error: &String| {
                    error.contains("expected some of `")
                        || error.contains("write the name as it is asked for")
                };
                match read.map_err(|error| error.to_string()) {
                    Ok(read) if valid => prop_assert!(same(&read, &it), "{} read as {}", it, read),
                    Err(error) if valid && !slip(&error) => {
                        return Err(TestCaseError::fail(format!("{it}: {error}")));
                    }
                    _ => {}
                }
            }
            Ok(())
        })?;
    }
}

/// Whether two values are equal; a whole float equals the integer.
fn same(one: &Value, two: &Value) -> bool {
    match (one, two) {
        (Value::Number(one), Value::Number(two)) => one.as_f64() == two.as_f64(),
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| same(one, two))
        }
        (Value::Object(one), Value::Object(two)) => {
            one.len() == two.len()
                && one.iter().all(|(key, one)| two.get(key).is_some_and(|two| same(one, two)))
        }
        _ => one == two,
    }
}

/// Texts that a schema lists, where no enum of Rust is behind them.
#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
struct Named {
    #[schemars(extend("enum" = ["north", "south"]))]
    side: String,
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
struct Deeper {
    side: Pole,
    #[serde(default)]
    all: Vec<Listed>,
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
struct Listed {
    side: Option<Pole>,
    #[schemars(with = "Option<Pole>")]
    other: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
#[serde(rename_all = "lowercase")]
enum Pole {
    North,
    South,
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
struct Known {
    side: Pole,
    #[serde(default)]
    all: Vec<Option<Pole>>,
    below: Option<Box<Known>>,
}

impl Signature for Named {
    type Output = Known;
}

impl Signature for Deeper {
    type Output = Named;
}

#[test]
fn a_text_must_be_one_of_those_that_only_the_schema_lists() {
    let named = Contract::of::<Named>().unwrap();
    let by_hand = Contract::of_input::<Named>("", "").unwrap();
    let deeper = Contract::of::<Deeper>().unwrap();
    for policy in [Policy::Strict, Policy::Repair, Policy::Coerce] {
        for contract in [&named, &by_hand] {
            let read = |wire: &str| contract.read_with::<Named>(wire, policy);
            assert_eq!(read(r#"{"side":"north"}"#).unwrap().value.side, "north");
            let error = read(r#"{"side":"east"}"#).unwrap_err().to_string();
            assert!(error.contains("expected one of `north`, `south`"), "{error}");
        }
        let read = |wire: &str| deeper.read_with::<Deeper>(wire, policy);
        assert!(read(r#"{"side":"north","all":[{"side":"south","other":"north"}]}"#).is_ok());
        assert!(read(r#"{"side":"north","all":[{"side":"south","other":"east"}]}"#).is_err());
        assert!(read(r#"{"side":"north","all":[{"side":null,"other":null}]}"#).is_ok());
    }
    // Outputs are checked too where serde alone would accept too much.
    assert!(deeper.checks_output());
    assert!(named.read_output::<Known>(r#"{"side":"north","all":["south",null]}"#).is_ok());
}

#[test]
fn null_for_a_default_is_listed_under_every_policy() {
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct Page {
        query: String,
        #[serde(default = "ten")]
        size: u8,
        note: Option<String>,
    }
    fn ten() -> u8 {
        10
    }
    let contract = Contract::of_input::<Page>("", "").unwrap();
    for policy in [Policy::Strict, Policy::Repair, Policy::Coerce] {
        let wire = r#"{"query":"a","size":null,"note":null}"#;
        let read = contract.read_with::<Page>(wire, policy).unwrap();
        assert_eq!((read.value.size, read.value.note), (10, None));
        let repairs: Vec<_> = read.repairs.iter().map(ToString::to_string).collect();
        assert_eq!(repairs, ["$.size: left out a field that is null, so its default holds"]);
    }
}

#[test]
fn blank_fields_that_a_type_without_fields_ignores_are_listed() {
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct Nothing {}
    let contract = Contract::of_input::<Nothing>("", "").unwrap();
    for policy in [Policy::Strict, Policy::Repair, Policy::Coerce] {
        let read = contract.read_with::<Nothing>(r#"{"reason":""}"#, policy).unwrap();
        assert_eq!(read.repairs.len(), 1, "{:?}", read.repairs);
        assert!(contract.read_with::<Nothing>("{}", policy).unwrap().repairs.is_empty());
    }
}
