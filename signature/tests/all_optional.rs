//! Tools with optional fields only. Reading never drops what a model wraps or misspells, because
//! the tool would then run without arguments.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_signature::{Contract, Policy, Reading, Signature};

/// Remove what was stored.
#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug, Default)]
struct Purge {
    prefix: Option<String>,
    #[serde(default)]
    dry_run: bool,
    scope: Option<Scope>,
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug, Default)]
struct Scope {
    older: Option<u32>,
    owner: Option<String>,
}

impl Signature for Purge {
    type Output = Scope;
}

/// The same for a type that names what it does not take.
#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
struct Exact {
    prefix: Option<String>,
}

impl Signature for Exact {
    type Output = ();
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
struct Flat {
    #[serde(flatten)]
    scope: Scope,
    #[serde(flatten)]
    page: Option<Page>,
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
struct Page {
    after: Option<String>,
}

impl Signature for Flat {
    type Output = ();
}

const POLICIES: [Policy; 3] = [Policy::Strict, Policy::Repair, Policy::Coerce];

fn read(wire: &str, policy: Policy) -> Result<Reading<Purge>, String> {
    let contract = Contract::of::<Purge>().unwrap();
    contract.read_with(wire, policy).map_err(|error| error.to_string())
}

fn tmp() -> Purge {
    Purge { prefix: Some("tmp".to_owned()), ..Purge::default() }
}

#[test]
fn a_wrapper_is_removed_and_listed_or_rejected() {
    for (wire, unwrapped) in [
        (r#"{"type":"function","function":{"name":"purge","arguments":{"prefix":"tmp"}}}"#, true),
        (
            r#"{"id":"c1","index":0,"type":"function","function":{"name":"purge","arguments":"{\"prefix\":\"tmp\"}"}}"#,
            true,
        ),
        (r#"{"tool_calls":[{"name":"purge","arguments":{"prefix":"tmp"}}]}"#, true),
        (
            r#"{"tool_calls":[{"id":"c1","type":"function","function":{"name":"purge","arguments":"{\"prefix\":\"tmp\"}"}}]}"#,
            true,
        ),
        (r#"{"function_call":{"name":"purge","arguments":"{\"prefix\":\"tmp\"}"}}"#, true),
        (r#"{"purge":{"prefix":"tmp"}}"#, true),
        (r#"{"functions.purge":{"prefix":"tmp"}}"#, true),
        (r#"{"action":"purge","action_input":{"prefix":"tmp"}}"#, true),
        (r#"{"arguments":{"prefix":"tmp"}}"#, true),
        (r#"{"properties":{"prefix":"tmp"}}"#, false),
        (r#"{"type":"object","properties":{"prefix":"tmp"}}"#, false),
        (r#"{"type":"object","properties":{"prefix":{"type":"string"}}}"#, false),
        (r#"{"result":{"prefix":"tmp"}}"#, false),
        (r#"{"request":{"prefix":"tmp"}}"#, false),
        (r#"{"data":"{\"prefix\":\"tmp\"}"}"#, false),
        (r#"{"arguments":{"prefix":"tmp"},"reason":"old"}"#, false),
        (r#"{"prefix":null,"request":{"prefix":"tmp"}}"#, false),
        (
            r#"{"tool_calls":[{"name":"purge","arguments":{"prefix":"a"}},{"name":"purge","arguments":{"prefix":"b"}}]}"#,
            false,
        ),
        (r#"{"tool_calls":[{"name":"other","arguments":{"prefix":"tmp"}}]}"#, false),
        (r#"{"type":"function","function":{"name":"other","arguments":{"prefix":"tmp"}}}"#, false),
        (r#"{"other":{"prefix":"tmp"}}"#, false),
        (r#"{"reason":"they are old"}"#, false),
        (r#"[{"prefix":"tmp"}]"#, false),
        // One field in its place, and the others one level too deep.
        (r#"{"dry_run":true,"arguments":{"prefix":"tmp"}}"#, false),
        (r#"{"dry_run":true,"arguments":"{\"prefix\":\"tmp\"}"}"#, false),
        (r#"{"dry_run":true,"request":{"Prefix":"tmp"}}"#, false),
        (r#"{"prefix":"tmp","scope":{"older":5,"params":{"owner":"a"}}}"#, false),
        // The flat call of another tool.
        (r#"{"tool":"other","prefix":"tmp"}"#, false),
        (r#"{"tool_name":"other","prefix":"tmp"}"#, false),
        (r#"{"type":"delete_all","input":{"prefix":"tmp"}}"#, false),
        (r#"{"name":"other","input":{"a":1},"prefix":"tmp"}"#, false),
        (r#"{"type":"tool_use","id":"c1","name":"purge","input":{"prefix":"tmp"}}"#, true),
    ] {
        for policy in POLICIES {
            let read = read(wire, policy);
            if unwrapped && policy >= Policy::Repair {
                let read = read.unwrap_or_else(|error| panic!("{wire}: {error}"));
                assert_eq!(read.value, tmp(), "{wire}");
                assert!(read.repairs.iter().any(|repair| repair.what.starts_with("took")));
            } else {
                assert!(read.is_err(), "{wire} under {policy:?}: {read:?}");
            }
        }
    }
}

#[test]
fn a_misspelt_name_of_an_absent_field_is_a_fault() {
    for wire in [
        r#"{"prefx":"tmp"}"#,
        r#"{"dryrunn":true}"#,
        r#"{"dry-runs":true}"#,
        r#"{"prefixes":["tmp"]}"#,
        r#"{"dry_run":true,"prefx":"tmp"}"#,
        r#"{"prefix":null,"prefx":"tmp"}"#,
        r#"{"prefix":"tmp","scope":{"oldr":5}}"#,
        r#"{"prefix":"tmp","scope":{"owner":"a","oldr":5}}"#,
        r#"{"PREFIX":"a","Prefix":"b"}"#,
    ] {
        for policy in POLICIES {
            let read = read(wire, policy);
            assert!(read.is_err(), "{wire} under {policy:?}: {read:?}");
        }
    }
    let error = read(r#"{"dry_run":true,"prefx":"tmp"}"#, Policy::Coerce).unwrap_err();
    assert!(error.contains("expected `prefix`, got `prefx`"), "{error}");
    // A name in another case or with other separators is the same name.
    let read = read(r#"{"Prefix":"tmp","dryRun":true}"#, Policy::Coerce).unwrap();
    assert_eq!(read.value, Purge { dry_run: true, ..tmp() });
    assert_eq!(read.repairs.len(), 2);
}

#[test]
fn an_object_below_the_root_with_only_unknown_fields_is_a_fault() {
    for wire in [
        r#"{"prefix":"tmp","scope":{"scope":{"older":5}}}"#,
        r#"{"prefix":"tmp","scope":{"properties":{"older":5}}}"#,
        r#"{"prefix":"tmp","scope":{"age":5}}"#,
    ] {
        for policy in POLICIES {
            let read = read(wire, policy);
            assert!(read.is_err(), "{wire} under {policy:?}: {read:?}");
        }
    }
}

#[test]
fn unknown_fields_beside_known_ones_are_left_out_and_listed() {
    for policy in POLICIES {
        let read = read(r#"{"prefix":"tmp","reason":"they are old","scope":{}}"#, policy).unwrap();
        assert_eq!(read.value, Purge { scope: Some(Scope::default()), ..tmp() });
        assert_eq!(read.repairs.len(), 1, "{:?}", read.repairs);
        assert_eq!(read.json(), Some(r#"{"prefix":"tmp","scope":{}}"#));
        // No information is lost without these.
        for wire in ["{}", r#"{"reason":null}"#, r#"{"extra":{}}"#, r#"{"_type":"Purge"}"#] {
            assert_eq!(self::read(wire, policy).unwrap().value, Purge::default(), "{wire}");
        }
    }
}

#[test]
fn types_that_deny_or_flatten_keep_the_same_rules() {
    let exact = Contract::of::<Exact>().unwrap();
    let flat = Contract::of::<Flat>().unwrap();
    for policy in POLICIES {
        for wire in [r#"{"prefx":"a"}"#, r#"{"request":{"prefix":"a"}}"#, r#"{"a":1}"#] {
            assert!(exact.read_with::<Exact>(wire, policy).is_err(), "{wire}");
        }
        for wire in [r#"{"oldr":5}"#, r#"{"request":{"older":5}}"#, r#"{"older":5,"aftr":"x"}"#] {
            let read = flat.read_with::<Flat>(wire, policy);
            assert!(read.is_err(), "{wire} under {policy:?}: {read:?}");
        }
    }
    let read = exact.read_with::<Exact>(r#"{"exact":{"prefix":"a"}}"#, Policy::Repair).unwrap();
    assert_eq!(read.value.prefix.as_deref(), Some("a"));
    assert_eq!(read.repairs.len(), 1);
}

/// The same for an output, which has no tool name.
#[test]
fn an_output_with_only_unknown_fields_is_a_fault() {
    let contract = Contract::of::<Purge>().unwrap();
    for policy in POLICIES {
        for wire in [r#"{"result":{"older":5}}"#, r#"{"answer":"none"}"#, r#"{"ownr":"a"}"#] {
            let read = contract.read_output_with::<Scope>(wire, policy);
            assert!(read.is_err(), "{wire} under {policy:?}: {read:?}");
        }
    }
}

/// A tag selects the object, and fields wrapped beside the tag are not dropped.
#[test]
fn an_object_with_only_a_tag_and_unknown_fields_is_a_fault() {
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum Work {
        Say { text: Option<String> },
        Wait { seconds: u32 },
    }
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct Run {
        work: Work,
    }
    let work = Contract::of_input::<Work>("work", "").unwrap();
    let run = Contract::of_input::<Run>("run", "").unwrap();
    for policy in POLICIES {
        for wire in [
            r#"{"type":"say","arguments":{"text":"a"}}"#,
            r#"{"type":"say","more":{"text":"a"}}"#,
            r#"{"type":"say","input":{"type":"say","text":"5"}}"#,
        ] {
            let read = work.read_with::<Work>(wire, policy);
            assert!(read.is_err(), "{wire} under {policy:?}: {read:?}");
            let wire = format!(r#"{{"work":{wire}}}"#);
            let read = run.read_with::<Run>(&wire, policy);
            assert!(read.is_err(), "{wire} under {policy:?}: {read:?}");
        }
        let read = work.read_with::<Work>(r#"{"type":"say"}"#, policy).unwrap();
        assert_eq!(read.value, Work::Say { text: None });
    }
}

/// A milder policy reads everything that a stricter one reads.
#[test]
fn no_policy_drops_a_field_of_another_union_member() {
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    #[serde(untagged)]
    enum Point {
        Line { x: i32 },
        Plane { x: i32, y: i32 },
    }
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct Go {
        to: Point,
    }
    let contract = Contract::of_input::<Go>("go", "").unwrap();
    for policy in POLICIES {
        let read = contract.read_with::<Go>(r#"{"to":{"x":1,"Y":2}}"#, policy);
        assert!(read.is_err(), "{policy:?}: {read:?}");
    }
}

/// A map accepts an entry of any name, so `arguments` may be an entry.
#[test]
fn an_object_that_may_be_a_map_entry_or_a_wrapper_is_rejected() {
    use std::collections::BTreeMap;

    let contract =
        Contract::of_input::<BTreeMap<String, BTreeMap<String, u32>>>("count", "").unwrap();
    for policy in POLICIES {
        let read = contract
            .read_with::<BTreeMap<String, BTreeMap<String, u32>>>(r#"{"arguments":"{}"}"#, policy);
        assert!(read.is_err(), "{policy:?}: {read:?}");
    }
}

#[test]
fn fields_beside_a_wrapped_result_are_dropped_and_listed() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct List {}
    impl Signature for List {
        type Output = Vec<String>;
    }
    let contract = Contract::of::<List>().unwrap();
    let read =
        |wire: &str, policy| contract.read_output_with::<Vec<String>>(wire, policy).map_err(drop);
    for policy in POLICIES {
        let reading = read(r#"{"result":["a"],"more":["b"],"none":null}"#, policy).unwrap();
        assert_eq!(reading.value, ["a"]);
        let listed: Vec<String> = reading.repairs.iter().map(ToString::to_string).collect();
        assert_eq!(listed, ["$.more: left out a field that is not asked for"]);
        assert!(read(r#"{"result":[],"results":["b"]}"#, policy).is_err());
    }
    assert!(read(r#"{"result":["a"],"more":["b"]}"#, Policy::Exact).is_err());
    assert!(read(r#"{"result":["a"]}"#, Policy::Exact).is_ok());
}

/// The comment may have the fields that the model means.
#[test]
fn an_object_with_nothing_but_a_comment_is_a_fault() {
    for wire in [
        r#"{/* "prefix":"a" */}"#,
        "{ // prefix: a\n}",
        "{\n# prefix: a\n}",
        r#"{"scope":{/* "owner":"Ada" */}}"#,
        r#"Here: {/* "prefix":"a" */}"#,
        r#"{"arguments":{/* "prefix":"a" */}}"#,
    ] {
        for policy in POLICIES {
            assert!(read(wire, policy).is_err(), "{wire} under {policy:?}");
        }
    }
    let error = read(r#"{/* "prefix":"a" */}"#, Policy::Coerce).unwrap_err();
    assert!(error.contains("there is only a comment between the brackets"), "{error}");
    let both = read(r#"{/* all of */ "prefix":"tmp"}"#, Policy::Coerce).unwrap();
    assert_eq!(both.value, tmp());
}

#[test]
fn a_type_field_that_no_struct_knows_is_dropped_and_listed() {
    let read = read(r#"{"prefix":"tmp","_type":"Purge"}"#, Policy::Strict).unwrap();
    assert_eq!(read.repairs.len(), 1);
    assert!(self::read(r#"{"prefix":"tmp","_type":"Purge"}"#, Policy::Exact).is_err());
    let contract = Contract::of::<Exact>().unwrap();
    let read =
        contract.read_with::<Exact>(r#"{"prefix":"a","_type":"Exact"}"#, Policy::Strict).unwrap();
    assert_eq!(read.repairs.len(), 1);
}

/// A dynamic contract passes a value on as it is, unless the fields clearly are one level too deep.
#[test]
fn a_dynamic_contract_keeps_unknown_fields() {
    let schema = json!({
        "type": "object",
        "properties": {"prefix": {"type": "string"}, "dry_run": {"type": "boolean"}},
    });
    let contract = Contract::dynamic("purge", "", schema, None).unwrap();
    for policy in POLICIES {
        let read = |wire: &str| contract.read_with::<Value>(wire, policy);
        assert_eq!(read(r#"{"reason":"old"}"#).unwrap().value, json!({"reason": "old"}));
        for wire in [
            r#"{"request":{"prefix":"tmp"}}"#,
            r#"{"properties":{"prefix":"tmp"}}"#,
            r#"{"data":"{\"prefix\":\"tmp\"}"}"#,
            r#"{"prefx":"tmp"}"#,
        ] {
            assert!(read(wire).is_err(), "{wire} under {policy:?}");
        }
        let call =
            r#"{"type":"function","function":{"name":"purge","arguments":{"prefix":"tmp"}}}"#;
        let read = read(call).ok().map(|reading| reading.value);
        assert_eq!(read, (policy >= Policy::Repair).then(|| json!({"prefix": "tmp"})));
    }
}

#[test]
fn an_object_of_any_fields_is_open_at_the_root_and_keeps_them() {
    for schema in [json!({}), json!({"type": "object"}), json!({"type": "object", "required": []})]
    {
        let contract = Contract::dynamic("put", "", schema.clone(), None).unwrap();
        for policy in POLICIES {
            for value in [
                json!({}),
                json!({"a": 1, "b": {"c": [null]}}),
                json!({"input": {"a": 1}}),
                json!({"name": "put", "arguments": {"a": 1}}),
                json!({"put": {"a": 1}}),
                json!({"_type": "a"}),
                json!({"a": null, "A": 1}),
            ] {
                let read = contract.read_with::<Value>(&value.to_string(), policy).unwrap();
                assert_eq!((&read.value, read.repairs.as_slice()), (&value, &[][..]), "{schema}");
            }
            assert!(contract.read_with::<Value>("[1]", policy).is_err());
        }
        let stored: Contract = serde_json::from_value(json!(contract)).unwrap();
        assert_eq!(stored.input(), contract.input());
    }
}

/// Arguments that hold a name, and a call that names its tool.
#[test]
fn a_call_is_told_from_arguments_with_a_field_called_name() {
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct Greet {
        name: String,
        loudly: Option<bool>,
    }
    let contract = Contract::of_input::<Greet>("greet", "").unwrap();
    let read = |wire: &str, policy| contract.read_with::<Greet>(wire, policy);
    let call = r#"{"name":"greet","arguments":{"name":"Kate","loudly":true}}"#;
    let kate = Greet { name: "Kate".into(), loudly: Some(true) };
    for policy in POLICIES {
        assert_eq!(read(call, policy).is_ok(), policy >= Policy::Repair);
        // Of another tool, or of a person with arguments.
        let other = r#"{"name":"Bob","arguments":{"name":"Kate"}}"#;
        assert!(read(other, policy).is_err());
        // It is not clear which name is meant.
        let beside = r#"{"name":"Kate","loudly":true,"arguments":{"name":"Bob"}}"#;
        assert!(read(beside, policy).is_err());
        let more = r#"{"name":"Kate","loudly":true,"input":5}"#;
        assert_eq!(read(more, policy).unwrap().value, kate);
    }
    assert_eq!(read(call, Policy::Coerce).unwrap().value, kate);
    // The form of an API around it.
    for whole in [
        format!(r#"{{"type":"function","function":{call}}}"#),
        format!(r#"{{"tool_calls":[{{"id":"c1","type":"function","function":{call}}}]}}"#),
    ] {
        assert_eq!(read(&whole, Policy::Repair).unwrap().value, kate, "{whole}");
        let other = whole.replace("greet", "insult");
        assert!(read(&other, Policy::Coerce).is_err(), "{other}");
    }
}

#[test]
fn a_tool_without_arguments_refuses_the_call_of_another() {
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct Stop {}
    let contract = Contract::of_input::<Stop>("stop", "").unwrap();
    for policy in POLICIES {
        let read = |wire: &str| contract.read_with::<Stop>(wire, policy);
        assert!(read(r#"{"name":"start","arguments":{}}"#).is_err());
        let whole = read(r#"{"name":"stop","arguments":{}}"#);
        assert_eq!(whole.is_ok(), policy >= Policy::Repair, "{whole:?}");
        assert!(read(r#"{"dummy":""}"#).is_ok());
    }
}

/// The value for the model has no field that was absent, at any depth.
#[test]
fn absent_fields_stay_absent_in_the_json() {
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum Shape {
        Circle { radius: u32 },
        Square { side: u32 },
    }
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    #[serde(untagged)]
    enum Place {
        At { x: i32 },
        Named { name: String },
    }
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct Draw {
        shapes: Vec<Shape>,
        at: Option<Place>,
        colour: String,
    }
    let contract = Contract::of_input::<Draw>("draw", "").unwrap();
    let plain = r#"{"shapes":[{"kind":"circle","radius":1},{"kind":"square","side":2}],"at":{"x":3},"colour":"red"}"#;
    for wire in [
        r#"{"a":1,"b":[2],"shapes":[{"c":3,"kind":"circle","radius":1,"d":4},{"kind":"square","e":{},"f":5,"side":2}],"at":{"g":6,"x":3},"colour":"red","h":7}"#,
        r#"{"shapes":[{"kind":"circle","c":"}","radius":1},{"d":4,"kind":"square","side":2}],"at":{"x":3,"g":",{"},"h":7,"colour":"red"}"#,
    ] {
        for policy in POLICIES {
            let read = contract.read_with::<Draw>(wire, policy).unwrap();
            assert_eq!(read.json(), Some(plain), "{wire}");
            let again = contract.read_with::<Draw>(plain, Policy::Exact).unwrap();
            assert_eq!(again.value, read.value);
        }
    }
}

/// An empty text for an optional number says as little as null.
#[test]
fn an_empty_text_for_a_number_does_not_hide_a_misspelt_name_or_a_wrapper() {
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct Clean {
        older_than_days: Option<u32>,
        name: Option<String>,
    }
    let contract = Contract::of_input::<Clean>("clean", "").unwrap();
    for policy in POLICIES {
        for wire in [
            r#"{"older_than_days":"","older_than_day":30}"#,
            r#"{"older_than_days":"null","arguments":{"older_than_days":30}}"#,
            r#"{"older_than_days":"","zz":{"a":1}}"#,
        ] {
            let read = contract.read_with::<Clean>(wire, policy);
            assert!(read.is_err(), "{wire} under {policy:?}: {read:?}");
        }
        let read = contract.read_with::<Clean>(r#"{"name":"","zz":1}"#, policy).unwrap();
        assert_eq!(read.value.name.as_deref(), Some(""));
    }
}

/// Reading does not go on to the next member when serde rejects the text of the first.
#[test]
fn a_text_that_is_not_an_address_does_not_select_another_union_member() {
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    #[serde(untagged)]
    enum Target {
        One { url: url::Url },
        Host { ip: std::net::IpAddr },
        All {},
    }
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct Watch {
        target: Target,
    }
    let contract = Contract::of_input::<Watch>("watch", "").unwrap();
    for policy in POLICIES {
        for wire in [
            r#"{"target":{"url":"example.com"}}"#,
            r#"{"target":{"ip":"1.2.3"}}"#,
            r#"{"target":{"user":3}}"#,
        ] {
            let read = contract.read_with::<Watch>(wire, policy);
            assert!(read.is_err(), "{wire} under {policy:?}: {read:?}");
        }
        for wire in [
            r#"{"target":{"url":"https://example.com"}}"#,
            r#"{"target":{"ip":"::1"}}"#,
            r#"{"target":{}}"#,
        ] {
            assert!(contract.read_with::<Watch>(wire, policy).is_ok(), "{wire}");
        }
    }
}

/// A decimal that is a number in JSON goes through a float, and must not change there.
#[test]
fn a_decimal_that_a_float_cannot_hold_is_a_fault() {
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct Pay {
        amount: rust_decimal::Decimal,
    }
    let contract = Contract::of_input::<Pay>("pay", "").unwrap();
    for policy in POLICIES {
        for wire in [
            r#"{"amount":12345678901234567.89}"#,
            r#"{"amount":9007199254740993.0}"#,
            r#"{"amount":0.12345678901234567890123}"#,
        ] {
            let read = contract.read_with::<Pay>(wire, policy);
            assert!(read.is_err(), "{wire} under {policy:?}: {read:?}");
        }
        for wire in [
            r#"{"amount":19.99}"#,
            r#"{"amount":3}"#,
            r#"{"amount":"12345678901234567.89"}"#,
            r#"{"amount":0.1}"#,
        ] {
            assert!(contract.read_with::<Pay>(wire, policy).is_ok(), "{wire}");
        }
    }
}

/// An output that fits its schema is valid, even if the same text from a model would be a mistake.
#[test]
fn an_output_that_fits_its_schema_is_never_a_fault() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(untagged)]
    enum Hit {
        Brief { title: String },
        Full { title: String, body: String },
    }
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Search {}
    impl Signature for Search {
        type Output = Vec<Hit>;
    }
    let contract = Contract::of::<Search>().unwrap();
    let hits = [
        Hit::Full { title: "a".to_owned(), body: "b".to_owned() },
        Hit::Brief { title: "a".to_owned() },
    ];
    contract.check_output(&serde_json::to_string(&hits).unwrap()).unwrap();
    assert!(contract.check_output(r#"[{"body":"b"}]"#).is_err());
}

#[test]
fn reading_twice_gives_the_same_result() {
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    #[serde(rename_all = "snake_case")]
    enum Level {
        Low,
        #[serde(alias = "mid")]
        Medium,
    }
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct Set {
        level: Level,
    }
    for policy in POLICIES {
        let contract = Contract::of_input::<Set>("set", "").unwrap();
        let read = || contract.read_with::<Set>(r#"{"level":"mid"}"#, policy).is_ok();
        assert_eq!([read(), read(), read()], [true; 3], "{policy:?}");
    }
}

#[test]
fn a_map_key_is_not_read_as_a_field_in_another_case() {
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct Put {
        prefix: Option<String>,
        #[serde(flatten)]
        rest: std::collections::BTreeMap<String, Value>,
    }
    let contract = Contract::of_input::<Put>("put", "").unwrap();
    for policy in POLICIES {
        for wire in [r#"{"PREFIX":{"a":1}}"#, r#"{"Prefix":"a","b":{"c":1}}"#] {
            let read = contract.read_with::<Put>(wire, policy).unwrap();
            assert_eq!((read.value.prefix, read.repairs.len()), (None, 0), "{wire}");
        }
    }
}

#[test]
fn a_call_of_another_tool_beside_the_fields_is_refused() {
    for wire in [
        r#"{"prefix":"a","tool_calls":[{"name":"other","arguments":{}}]}"#,
        r#"{"function":{"name":"other"},"prefix":"a"}"#,
        r#"{"prefix":"a","tool_calls":[{"function":{"name":"other"}}]}"#,
    ] {
        for policy in POLICIES {
            let read = read(wire, policy);
            assert!(read.is_err(), "{wire} under {policy:?}: {read:?}");
        }
    }
}

/// serde takes a flattened `Option` for `None` where a part of it is missing or does not fit.
#[test]
fn no_field_of_a_flattened_option_is_dropped() {
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct Range {
        since: u32,
        until: u32,
        note: Option<String>,
    }
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct Delete {
        all: bool,
        label: Option<String>,
        #[serde(flatten)]
        range: Option<Range>,
    }
    impl Signature for Delete {
        type Output = Delete;
    }
    let contract = Contract::of::<Delete>().unwrap();
    for policy in POLICIES {
        for wire in [
            r#"{"all":true,"since":5}"#,
            r#"{"all":true,"since":5,"until":null}"#,
            r#"{"all":true,"note":"a"}"#,
            r#"{"all":true,"since":5,"until":70000000000}"#,
        ] {
            let read = contract.read_with::<Delete>(wire, policy);
            assert!(read.is_err(), "{wire} under {policy:?}: {read:?}");
            let read = contract.read_output_with::<Delete>(wire, policy);
            assert!(read.is_err(), "{wire} under {policy:?}: {read:?}");
        }
        for wire in [
            r#"{"all":true}"#,
            r#"{"all":true,"label":"a"}"#,
            r#"{"all":true,"since":5,"until":6}"#,
            r#"{"all":true,"since":5,"until":6,"note":"a","label":null}"#,
        ] {
            let read = contract.read_with::<Delete>(wire, policy).unwrap();
            assert_eq!(read.value.range.is_some(), wire.contains("until"), "{wire}");
        }
    }
    let error = contract.read::<Delete>(r#"{"all":true,"since":5}"#).unwrap_err().to_string();
    assert!(error.contains("$.since: `since` would be lost"), "{error}");
}

/// A type that does not write its defaults drops nothing.
#[test]
fn a_default_that_the_type_does_not_write_is_read() {
    fn ten() -> u32 {
        10
    }
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct List {
        query: String,
        #[serde(default = "ten", skip_serializing_if = "is_ten")]
        limit: u32,
    }
    fn is_ten(limit: &u32) -> bool {
        *limit == 10
    }
    impl Signature for List {
        type Output = List;
    }
    let contract = Contract::of::<List>().unwrap();
    for wire in [r#"{"query":"a","limit":10}"#, r#"{"query":"a","limit":10,}"#] {
        let read = contract.read_with::<List>(wire, Policy::Repair).unwrap();
        assert_eq!(read.value.limit, 10);
        let read = contract.read_output_with::<List>(wire, Policy::Repair).unwrap();
        assert_eq!(read.value.limit, 10);
    }
}

/// Check that the server is there.
#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
struct Ping;

impl Signature for Ping {
    type Output = ();
}

/// The same with braces.
#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
struct Pong {}

impl Signature for Pong {
    type Output = ();
}

/// The same as a tuple.
#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
struct Nothing(());

impl Signature for Nothing {
    type Output = ();
}

#[test]
fn null_for_no_arguments_is_listed_as_a_repair() {
    let (ping, pong) = (Contract::of::<Ping>().unwrap(), Contract::of::<Pong>().unwrap());
    for round in 0..2 {
        let unit = ping.read_with::<Ping>("null", Policy::Coerce).unwrap();
        let braces = pong.read_with::<Pong>("null", Policy::Coerce).unwrap();
        for (repairs, json) in [(&unit.repairs, unit.json()), (&braces.repairs, braces.json())] {
            assert_eq!(repairs[0].to_string(), "$: read null as no arguments", "{round}");
            assert_eq!(json, Some("{}"));
        }
        for policy in [Policy::Exact, Policy::Strict, Policy::Repair] {
            assert!(ping.read_with::<Ping>("null", policy).is_err(), "{policy:?}");
            assert!(pong.read_with::<Pong>("null", policy).is_err(), "{policy:?}");
        }
        for wire in ["{}", ""] {
            assert!(ping.read_with::<Ping>(wire, Policy::Strict).unwrap().repairs.is_empty());
            assert!(pong.read_with::<Pong>(wire, Policy::Strict).unwrap().repairs.is_empty());
        }
    }
}

/// The model meant a part of what the tool does, so that a call without arguments is another one.
#[test]
fn what_a_type_without_fields_gets_is_a_fault_under_every_policy() {
    let (ping, pong) = (Contract::of::<Ping>().unwrap(), Contract::of::<Pong>().unwrap());
    let unit = Contract::of::<Nothing>().unwrap();
    for wire in [
        r#"{"place":"hall"}"#,
        r#"{"dry_run":true}"#,
        r#"{"confirm":false}"#,
        r#"{"count":0}"#,
        r#"{"arguments":{"place":"hall"}}"#,
        r#"{"arguments":"{\"place\":\"hall\"}"}"#,
        r#"{"name":"ping","arguments":{"place":"hall"}}"#,
        r#"{"filter":{"prefix":"t"}}"#,
        r#"{'place':'hall'}"#,
    ] {
        for policy in [Policy::Exact, Policy::Strict, Policy::Repair, Policy::Coerce] {
            let read = ping.read_with::<Ping>(wire, policy);
            assert!(read.is_err(), "{wire} under {policy:?}: {read:?}");
            let read = pong.read_with::<Pong>(wire, policy);
            assert!(read.is_err(), "{wire} under {policy:?}: {read:?}");
            let read = unit.read_with::<Nothing>(wire, policy);
            assert!(read.is_err(), "{wire} under {policy:?}: {read:?}");
        }
    }
    let error = ping.read::<Ping>(r#"{"place":"hall"}"#).unwrap_err();
    assert_eq!(
        error.to_string(),
        "input of `ping` does not fit: $: expected an empty object, got `place`, which is not asked \
         for",
    );
    // These say nothing.
    for wire in [
        r#"{"input":""}"#,
        r#"{"":{}}"#,
        r#"{"properties":{},"required":[]}"#,
        r#"{"note":null}"#,
        r#"{"_type":"Ping"}"#,
    ] {
        assert!(ping.read::<Ping>(wire).is_ok() && pong.read::<Pong>(wire).is_ok(), "{wire}");
    }
    let call = r#"{"name":"ping","arguments":{}}"#;
    assert_eq!(ping.read_with::<Ping>(call, Policy::Coerce).unwrap().repairs.len(), 1);
}

/// Delete a file.
#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
struct Delete {
    path: String,
    force: Option<bool>,
}

impl Signature for Delete {
    type Output = ();
}

#[test]
fn a_declared_field_that_a_wrapper_holds_with_another_value_is_a_fault_under_every_policy() {
    let contract = Contract::of::<Delete>().unwrap();
    let inner = r#"{"path":"danger.txt"}"#;
    let text = serde_json::to_string(inner).unwrap();
    let around = [
        "arguments",
        "input",
        "args",
        "parameters",
        "params",
        "kwargs",
        "tool_input",
        "action_input",
        "request",
        "data",
        "body",
        "payload",
        "properties",
        "fields",
        "result",
        "function",
        "function_call",
        "tool_call",
        "tool_calls",
        "delete",
        "filter",
    ];
    let mut wires = Vec::new();
    for name in around {
        wires.extend([
            format!(r#"{{"path":"safe.txt","{name}":{inner}}}"#),
            format!(r#"{{"{name}":{inner},"path":"safe.txt"}}"#),
            format!(r#"{{"path":"safe.txt","{name}":{text}}}"#),
            format!(r#"{{"path":"safe.txt","{name}":[{inner}]}}"#),
            format!(r#"{{"path":"safe.txt","{name}":{{"arguments":{inner}}}}}"#),
            format!(r#"{{"path":"safe.txt","{name}":{{"Path":"danger.txt"}}}}"#),
            format!(r#"{{"path":"safe.txt","{name}":{{"force":true}}}}"#),
        ]);
    }
    for wire in wires {
        for policy in [Policy::Exact, Policy::Strict, Policy::Repair, Policy::Coerce] {
            let read = contract.read_with::<Delete>(&wire, policy);
            assert!(read.is_err(), "{wire} under {policy:?}: {read:?}");
        }
    }
    // The same value twice has one meaning.
    let twice = r#"{"path":"safe.txt","arguments":{"path":"safe.txt"}}"#;
    let read = contract.read_with::<Delete>(twice, Policy::Coerce).unwrap();
    assert_eq!((read.value.path.as_str(), read.repairs.len()), ("safe.txt", 1));

    let input =
        json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    let dynamic = Contract::dynamic("delete", "Delete.", input, None).unwrap();
    let wire = format!(r#"{{"path":"safe.txt","arguments":{inner}}}"#);
    assert!(dynamic.read_with::<Value>(&wire, Policy::Strict).is_err());
}

/// The tool would run without what it holds.
#[test]
fn what_a_wrapper_holds_beside_other_fields_is_never_left_out() {
    let purge = Contract::of::<Purge>().unwrap();
    for wire in [
        r#"{"purge":{"prefix":"t"},"dry_run":true}"#,
        r#"{"dry_run":true,"Purge":{"prefx":"t"}}"#,
        r#"{"filter":{"prefix":"t"},"dry_run":true}"#,
        r#"{"options":[{"prefix":"t"}],"dry_run":true}"#,
        r#"{"arguments":{"prefx":"t"},"dry_run":true}"#,
        r#"{"arguments":["t"],"dry_run":true}"#,
        r#"{"dry_run":true,"scope":{"older":3,"filter":{"owner":"Ada"}}}"#,
    ] {
        for policy in [Policy::Exact, Policy::Strict, Policy::Repair, Policy::Coerce] {
            let read = purge.read_with::<Purge>(wire, policy);
            assert!(read.is_err(), "{wire} under {policy:?}: {read:?}");
        }
    }
    for wire in [
        r#"{"dry_run":true,"arguments":{}}"#,
        r#"{"dry_run":true,"purge":null}"#,
        r#"{"dry_run":true,"note":{"by":"Ada"}}"#,
    ] {
        let read = purge.read_with::<Purge>(wire, Policy::Coerce).unwrap();
        assert!(read.value.dry_run && read.repairs.len() == 1, "{wire}: {read:?}");
    }
}
