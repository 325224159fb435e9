//! Reading a reply in a dialect's shape, and the texts of its errors.

use insta::assert_snapshot;
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_signature::{Contract, ContractError, Dialect, Policy, Side, Signature};

use crate::zoo::{self, Echo, FlatAny, Node, Status, Tree};

/// Search legal documents.
#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug, Clone)]
struct Search {
    query: String,
    limit: Option<u8>,
    #[serde(default = "first_page")]
    page: u32,
    filters: Filters,
    /// A second set.
    fallback: Option<Filters>,
    #[serde(default)]
    tags: Vec<String>,
    rows: Vec<Filters>,
    scope: Scope,
    other_scope: Option<Scope>,
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug, Clone)]
struct Filters {
    year: Option<i32>,
    #[serde(default)]
    status: Status,
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug, Clone)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Scope {
    Everywhere,
    Court {
        name: String,
        #[serde(default = "first_page")]
        instance: u32,
    },
}

fn first_page() -> u32 {
    1
}

impl Signature for Search {
    type Output = Vec<Filters>;
}

fn filters() -> impl Strategy<Value = Filters> {
    let status = prop_oneof![Just(Status::Open), Just(Status::InProgress), Just(Status::Done)];
    (any::<Option<i32>>(), status).prop_map(|(year, status)| Filters { year, status })
}

fn scope() -> impl Strategy<Value = Scope> {
    let court = (any::<String>(), 0..3_u32);
    prop_oneof![
        Just(Scope::Everywhere),
        court.prop_map(|(name, instance)| Scope::Court { name, instance }),
    ]
}

prop_compose! {
    fn search()(
        query in any::<String>(),
        limit in any::<Option<u8>>(),
        page in 0..3_u32,
        filters in filters(),
        fallback in proptest::option::of(self::filters()),
        tags in proptest::collection::vec(any::<String>(), 0..3),
        rows in proptest::collection::vec(self::filters(), 0..3),
        scope in scope(),
        other_scope in proptest::option::of(self::scope()),
    ) -> Search {
        Search { query, limit, page, filters, fallback, tags, rows, scope, other_scope }
    }
}

/// The value as a model under a strict dialect writes it, with null for absent fields.
fn as_strict(search: &Search) -> Value {
    fn filters(filters: &Filters) -> Value {
        let mut value = json!(filters);
        if filters.status == Status::default() {
            value["status"] = Value::Null;
        }
        value
    }
    fn scope(scope: &Scope) -> Value {
        let mut value = json!(scope);
        if let Scope::Court { instance: 1, .. } = scope {
            value["instance"] = Value::Null;
        }
        value
    }
    let mut value = json!(search);
    if search.page == first_page() {
        value["page"] = Value::Null;
    }
    if search.tags.is_empty() {
        value["tags"] = Value::Null;
    }
    value["filters"] = filters(&search.filters);
    value["fallback"] = search.fallback.as_ref().map_or(Value::Null, filters);
    value["rows"] = search.rows.iter().map(filters).collect();
    value["scope"] = scope(&search.scope);
    value["other_scope"] = search.other_scope.as_ref().map_or(Value::Null, scope);
    value
}

proptest! {
    #[test]
    fn a_value_in_the_strict_shape_reads_back_as_the_value(search in search()) {
        let contract = Contract::of::<Search>().unwrap();
        let lowered = contract.lower(Dialect::OpenAiStrict).unwrap();
        let schema: Value = serde_json::from_str(lowered.schema.get()).unwrap();
        let wire = as_strict(&search);
        prop_assert!(jsonschema::is_valid(&schema, &wire), "{wire} against {schema:#}");
        let read: Search = contract.read(&wire.to_string()).unwrap();
        prop_assert_eq!(read, search);
    }

    #[test]
    fn reading_gives_what_serde_gives(search in search()) {
        let contract = Contract::of::<Search>().unwrap();
        let wire = serde_json::to_string(&search).unwrap();
        let read: Search = contract.read(&wire).unwrap();
        prop_assert_eq!(&read, &serde_json::from_str::<Search>(&wire).unwrap());
        prop_assert_eq!(contract.write_input(&read).unwrap(), wire);
    }

    #[test]
    fn any_text_at_all_gives_a_value_or_an_error(text in any::<String>()) {
        let contract = Contract::of::<Search>().unwrap();
        prop_assert!(contract.read::<Search>(&text).is_err());
        let _ = contract.read_output::<Vec<Filters>>(&text);
    }

    #[test]
    fn a_wrapped_output_reads_back(rows in proptest::collection::vec(filters(), 0..4)) {
        let contract = Contract::of::<Search>().unwrap();
        let wrapped = json!({"result": rows}).to_string();
        prop_assert_eq!(&contract.read_output::<Vec<Filters>>(&wrapped).unwrap(), &rows);
        // A model may forget the wrapper.
        let bare = json!(rows).to_string();
        prop_assert_eq!(&contract.read_output::<Vec<Filters>>(&bare).unwrap(), &rows);
    }
}

#[test]
fn null_for_a_default_is_undone_below_references() {
    let contract = Contract::of::<Echo<Node>>().unwrap();
    contract.lower_output(Dialect::OpenAiStrict).unwrap();
    let wire = json!({
        "name": "a",
        "weight": null,
        "next": {"name": "b", "weight": null, "next": null},
    });
    let node: Node = contract.read_output(&wire.to_string()).unwrap();
    assert_eq!(node.next.unwrap().weight, 0);

    let wire = json!({"given": wire});
    assert!(contract.read::<Echo<Node>>(&wire.to_string()).is_ok());
}

#[test]
fn null_that_the_type_takes_stays_null() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Ceiling {
        #[serde(default = "some_ten")]
        ceiling: Option<u8>,
    }
    fn some_ten() -> Option<u8> {
        Some(10)
    }
    impl Signature for Ceiling {
        type Output = ();
    }
    let contract = Contract::of::<Ceiling>().unwrap();
    let read = |wire| contract.read::<Ceiling>(wire).unwrap().ceiling;
    assert_eq!(read(r#"{"ceiling": null}"#), None);
    assert_eq!(read("{}"), Some(10));
}

/// serde alone reads these nulls as other values, without an error.
#[test]
fn null_for_a_default_is_undone_where_serde_would_not_notice() {
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct Inner {
        y: u8,
        #[serde(default)]
        z: Vec<u8>,
    }
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct FlatOpt {
        a: u8,
        #[serde(flatten)]
        rest: Option<Inner>,
    }
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    #[serde(untagged)]
    enum Un {
        A {
            x: u8,
            #[serde(default)]
            tags: Vec<u8>,
        },
        B {
            x: u8,
        },
    }
    let flat = Contract::of::<Echo<FlatOpt>>().unwrap();
    let union = Contract::of::<Echo<Un>>().unwrap();
    let inner = FlatOpt { a: 1, rest: Some(Inner { y: 2, z: vec![] }) };
    let read: FlatOpt = flat.read_output(r#"{"a": 1, "y": 2, "z": null}"#).unwrap();
    assert_eq!(read, inner);
    let read: Un = union.read_output(r#"{"result": {"x": 1, "tags": null}}"#).unwrap();
    assert_eq!(read, Un::A { x: 1, tags: vec![] });

    // The same in an input, after the reasoning, and in the finish tool.
    #[derive(Deserialize)]
    struct Given<T> {
        given: T,
    }
    let wire = r#"{"given": {"a": 1, "y": 2, "z": null}}"#;
    assert_eq!(flat.read::<Given<FlatOpt>>(wire).unwrap().given, inner);
    #[derive(Deserialize)]
    struct Both {
        output: FlatOpt,
    }
    let asking = flat.asking_first("reasoning", json!({"type": "string"})).unwrap();
    let wire = r#"{"reasoning": "", "output": {"a": 1, "y": 2, "z": null}}"#;
    assert_eq!(asking.read_output::<Both>(wire).unwrap().output, inner);
    let wire = r#"{"a": 1, "y": 2, "z": null}"#;
    assert_eq!(flat.finish().unwrap().read::<FlatOpt>(wire).unwrap(), inner);
    // And in a stored contract.
    let stored: Contract = serde_json::from_value(json!(flat)).unwrap();
    assert_eq!(stored.read_output::<FlatOpt>(wire).unwrap(), inner);
}

#[test]
fn null_stays_where_a_reference_or_an_empty_schema_accepts_it() {
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct Chain(Option<Box<Link>>);
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct Link {
        #[serde(default = "one_more")]
        next: Chain,
        /// Anything.
        #[serde(default = "five")]
        load: Value,
        #[serde(default = "first_page")]
        page: u32,
    }
    fn one_more() -> Chain {
        Chain(Some(Box::new(Link { next: Chain(None), load: Value::Null, page: 7 })))
    }
    fn five() -> Value {
        json!(5)
    }
    let contract = Contract::of::<Echo<Link>>().unwrap();
    let link: Link = contract.read_output(r#"{"next": null, "load": null, "page": null}"#).unwrap();
    assert_eq!(link, Link { next: Chain(None), load: Value::Null, page: 1 });
}

#[test]
fn numbers_of_128_bits_are_read_in_and_out_of_a_wrapper() {
    let large = Contract::of::<Echo<u128>>().unwrap();
    let max = format!(r#" {{"result": {}}}"#, u128::MAX);
    assert_eq!(large.read_output::<u128>(&max).unwrap(), u128::MAX);
    assert_eq!(large.read_output::<u128>(r#"{"result":18446744073709551616}"#).unwrap(), 1 << 64);
    let signed = Contract::of::<Echo<i128>>().unwrap();
    let min = format!(r#"{{"result": {}}}"#, i128::MIN);
    assert_eq!(signed.read_output::<i128>(&min).unwrap(), i128::MIN);

    // Also beside a null that the type accepts, where nothing is restored.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Sum {
        sum: u128,
        note: Option<String>,
        #[serde(default)]
        tags: Vec<String>,
    }
    let contract = Contract::of::<Echo<Sum>>().unwrap();
    let read = |wire| contract.read_output::<Sum>(wire).unwrap().sum;
    assert_eq!(read(r#"{"sum": 18446744073709551616, "note": null}"#), 1 << 64);
}

/// serde reads a struct from a list, and a missing `Option` as `None`. Both would be guesses here.
#[test]
fn only_an_object_with_the_wrapper_is_unwrapped() {
    let lists = Contract::of::<Echo<Vec<Value>>>().unwrap();
    assert_eq!(lists.read_output::<Vec<Value>>("[[1]]").unwrap(), [json!([1])]);
    let option = Contract::of::<Echo<Option<bool>>>().unwrap();
    for wire in ["{}", r#"{"answer": true}"#, r#"{"result": true, "result": false}"#, "[true]"] {
        assert!(option.read_output::<Option<bool>>(wire).is_err(), "{wire}");
    }
    assert_eq!(option.read_output::<Option<bool>>("true").unwrap(), Some(true));
}

#[test]
fn no_arguments_read_as_a_unit_and_as_an_empty_struct() {
    let unit = Contract::of::<zoo::Ping>().unwrap();
    let empty = Contract::of::<zoo::Empty>().unwrap();
    for nothing in ["", " \n", "{}", " { } "] {
        assert!(unit.read::<zoo::Ping>(nothing).is_ok(), "{nothing:?}");
        assert!(empty.read::<zoo::Empty>(nothing).is_ok(), "{nothing:?}");
    }
    assert!(unit.read::<zoo::Ping>("null").is_ok());
    assert_eq!(unit.write_input(&zoo::Ping).unwrap(), "{}");
    assert_eq!(empty.write_input(&zoo::Empty {}).unwrap(), "{}");
    assert_snapshot!(unit.read::<zoo::Ping>("[1]").err().unwrap(), @"input of `ping` does not fit: $: expected an object, got a list of 1");
}

#[test]
fn outputs_of_every_kind_are_unwrapped() {
    fn read<T: zoo::Specimen>(wire: &str) -> T {
        let contract = Contract::of::<Echo<T>>().unwrap();
        contract.read_output(wire).unwrap()
    }
    assert_eq!(read::<u64>(r#"{"result": 7}"#), 7);
    assert_eq!(read::<String>(r#"{"result": "seven"}"#), "seven");
    assert_eq!(read::<Option<bool>>(r#"{"result": null}"#), None);
    assert_eq!(read::<Status>(r#"{"result": "in-progress"}"#), Status::InProgress);
    assert_eq!(read::<Tree>(r#"{"result": {"leaf": 7}}"#), Tree::Leaf(7));
    read::<()>(r#"{"result": null}"#);
}

/// The error for a text that must be valid JSON.
fn no_json(wire: &str) -> ContractError {
    let contract = Contract::of::<Search>().unwrap();
    contract.read_with::<Search>(wire, Policy::Strict).unwrap_err()
}

fn wrong(wire: &str) -> ContractError {
    let contract = Contract::of::<Search>().unwrap();
    contract.read::<Search>(wire).unwrap_err()
}

/// A search that fits, with one change.
fn with(pointer: &str, value: Value) -> String {
    let mut search = json!({
        "query": "tax",
        "filters": {"year": 1999},
        "tags": ["a", "b", "c"],
        "rows": [],
        "scope": {"kind": "everywhere"},
    });
    *search.pointer_mut(pointer).unwrap() = value;
    search.to_string()
}

#[test]
fn a_fault_has_its_path() {
    assert_snapshot!(wrong("{}"), @r#"input of `search` does not fit: $.query: this field is missing; expected a string; $.filters: this field is missing; expected an object; $.rows: this field is missing; expected a list; $.scope: this field is missing; expected an object with `kind` "everywhere" or an object with `kind` "court", `name`"#);
    assert_snapshot!(wrong(""), @r#"input of `search` does not fit: $.query: this field is missing; expected a string; $.filters: this field is missing; expected an object; $.rows: this field is missing; expected a list; $.scope: this field is missing; expected an object with `kind` "everywhere" or an object with `kind` "court", `name`"#);
    assert_snapshot!(wrong(&with("/query", json!(5))), @"input of `search` does not fit: $.query: expected a string, got the number 5");
    assert_snapshot!(wrong(&with("/filters/year", json!("soon"))), @r#"input of `search` does not fit: $.filters.year: expected an integer or null, got the string "soon""#);
    assert_snapshot!(wrong(&with("/tags/2", json!(3))), @"input of `search` does not fit: $.tags[2]: expected a string, got the number 3");
    assert_snapshot!(wrong(&with("/scope", json!({"kind": "nowhere"}))), @r#"input of `search` does not fit: $.scope.kind: expected one of `everywhere`, `court`, got the string "nowhere""#);
    assert_snapshot!(wrong("[]"), @"input of `search` does not fit: $: expected an object with `query`, `filters`, `rows`, `scope`, got an empty list");
}

#[test]
fn an_unknown_enum_value_lists_the_known_ones() {
    let wire = with("/filters", json!({"status": "closed"}));
    assert_snapshot!(wrong(&wire), @r#"input of `search` does not fit: $.filters.status: expected one of `open`, `in-progress`, `done`, got the string "closed""#);
}

#[test]
fn text_that_is_not_json_is_an_error_with_its_position() {
    assert_snapshot!(wrong("I would search for tax."), @"input of `search` does not fit: $: not JSON: a value is expected at character 1, got `I would search for tax.`");
    assert_snapshot!(wrong(r#"{"query": "tax", "fil"#), @"input of `search` does not fit: $: the JSON text ends too early, after 21 characters; write it again, whole");
    assert_snapshot!(no_json(r#"{"query": "tax"} and then"#), @"input of `search` does not fit: $: not JSON: something follows the value at character 18, got `and then`");
    assert_snapshot!(no_json(r#"{"query": 'tax'}"#), @r"input of `search` does not fit: $: not JSON: a value is expected at character 11, got `\'tax\'}`");
    assert_snapshot!(no_json(r#"{"query": "tax",}"#), @"input of `search` does not fit: $: not JSON: a name in double quotes is expected at character 17, got `}`");
}

#[test]
fn a_fault_in_a_wrapped_output_has_the_path_in_the_reply() {
    let contract = Contract::of::<Search>().unwrap();
    let read = |wire| contract.read_output::<Vec<Filters>>(wire).unwrap_err();
    assert_snapshot!(read(r#"{"result": [{}, {"year": "x"}]}"#), @r#"output of `search` does not fit: $.result[1].year: expected an integer or null, got the string "x""#);
    assert_snapshot!(read(r#"[{}, {"year": "x"}]"#), @r#"output of `search` does not fit: $[1].year: expected an integer or null, got the string "x""#);
    assert_snapshot!(read(r#"{"answer": []}"#), @"output of `search` does not fit: $: expected a list, got an object with `answer`");
}

#[test]
fn the_alternate_form_of_an_error_shows_the_text() {
    let error = wrong(r#"{"query": 5}"#);
    assert_snapshot!(format!("{error:#}"), @r#"
input of `search` does not fit: $.query: expected a string, got the number 5; $.filters: this field is missing; expected an object; $.rows: this field is missing; expected a list; $.scope: this field is missing; expected an object with `kind` "everywhere" or an object with `kind` "court", `name`
read from: {"query": 5}
"#);
    let ContractError::Reading { contract, side, faults, raw, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!((contract.as_str(), side), ("search", Side::Input));
    assert_eq!(faults.len(), 4);
    assert_eq!(faults[0].path, "$.query");
    assert_eq!((&*faults[0].expected, &*faults[0].got), ("a string", "the number 5"));
    assert_eq!(raw, r#"{"query": 5}"#);
}

#[test]
fn a_type_tag_among_fields_of_any_value_is_an_ordinary_field() {
    let contract = Contract::of::<Echo<FlatAny>>().unwrap();
    for wire in [r#"{"name":"a","_type":{"b":1}}"#, r#"{"name":"a","_type":"Tag"}"#] {
        let value: FlatAny = contract.read_output(wire).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), wire);
    }
}

/// A contract with one field of any value, to read JSON exactly.
fn exactly(text: &str) -> Result<Value, String> {
    let input = json!({"type": "object", "properties": {"v": {}}});
    let contract = Contract::dynamic("hold", "Hold a value.", input, None).unwrap();
    let reading = contract.read_with::<Value>(text, Policy::Strict);
    reading.map(|reading| reading.value).map_err(|error| error.to_string())
}

#[test]
fn strict_reading_accepts_the_json_of_serde_json_and_nothing_else() {
    for text in [
        "null",
        " true ",
        "-0",
        "0.5e-7",
        "1E+5",
        "[]",
        "[1,[2,{}],\"a\"]",
        "{\"a\":{\"b\":[]}}",
        "\"\\u00e4\\ud83d\\ude00\\n\"",
        "",
        "01",
        "1.",
        ".5",
        "+1",
        "[1,]",
        "{,}",
        "{\"a\":1,}",
        "\"\\ud800\"",
        "\"\\ud800\\u0041\"",
        "\"\\x\"",
        "\"a\tb\"",
        "\"a",
        "[1",
        "{\"a\"",
        "nul",
        "truee",
        "1 2",
        "\u{feff}1",
        "[1}",
        "{\"a\":1]",
        "'a'",
        "\"\\u+123\"",
        "-",
        "1e",
        "\"\\",
        "{\"a\" 1}",
        "{a:1}",
        "[,1]",
        "\0",
    ] {
        let text = format!("{{\"v\": {text}}}");
        let theirs = serde_json::from_str::<Value>(&text).ok();
        assert_eq!(exactly(&text).ok(), theirs, "{text:?}: {:?}", exactly(&text));
    }
}

#[test]
fn escapes_are_decoded() {
    let text = r#"{"v": "a\"b\\\/\b\f\n\r\t\u0041\ud83d\ude00ä"}"#;
    assert_eq!(exactly(text).unwrap(), json!({"v": "a\"b\\/\u{8}\u{c}\n\r\tA😀ä"}));
}

#[test]
fn a_key_twice_is_found_with_its_path() {
    for (text, fault) in [
        (r#"{"a":[0,{"b":1,"b":2}]}"#, "$.a[1]: field `b` is given twice"),
        (r#"{"a":1,"\u0061":2}"#, "$: field `a` is given twice"),
    ] {
        let error = exactly(text).unwrap_err();
        assert!(error.contains(fault), "{error}");
    }
    let many: String = (0..100_000).map(|i| format!("\"k{i}\":1,")).collect();
    assert!(exactly(&format!("{{{many}\"z\":1}}")).is_ok());
    let error = exactly(&format!("{{{many}\"k7\":1}}")).unwrap_err();
    assert!(error.contains("$: field `k7` is given twice"), "{}", error.len());
}

#[test]
fn nesting_ends_at_the_depth_of_serde_json() {
    for depth in [125, 126, 127, 128, 1_000_000] {
        let text = format!("{{\"v\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        let theirs = serde_json::from_str::<Value>(&text).is_ok();
        assert_eq!(exactly(&text).is_ok(), theirs, "{depth}");
    }
}

#[test]
fn a_date_time_names_one_instant() {
    let when = json!({"type": "string", "format": "date-time"});
    let input = json!({"type": "object", "properties": {"when": when}, "required": ["when"]});
    let contract = Contract::dynamic("wait", "Wait.", input, None).unwrap();
    let read = |text: &str, policy| {
        let reading = contract.read_with::<Value>(&json!({"when": text}).to_string(), policy);
        reading.ok().map(|reading| reading.value["when"].clone())
    };
    for text in ["2026-11-21T20:00:00Z", "2024-02-29T23:59:59.123456789+14:00"] {
        assert_eq!(read(text, Policy::Strict), Some(json!(text)), "{text}");
    }
    for text in ["2026-11-21t20:00:00z", "2026-11-21 20:00Z", " 2026-11-21T20:00:00Z\n"] {
        assert_eq!(read(text, Policy::Repair), None, "{text}");
        assert_eq!(read(text, Policy::Coerce), Some(json!("2026-11-21T20:00:00Z")), "{text}");
    }
    for text in [
        "",
        "tomorrow",
        "2026-11-21",
        "2026-11-21T20:00:00",
        "2026-02-30T00:00:00Z",
        "2025-02-29T00:00:00Z",
        "2026-11-21T24:00:00Z",
        "2026-12-31T23:59:60Z",
        "2026-11-21T20:00:00Zz",
        "2026-11-21T20:00:00+25:00",
        "2026-11-21T20:00:00.Z",
        "20261121T200000Z",
        "2026-13-01T00:00:00Z",
        "ä026-11-21T20:00:00Z",
        "11/21/2026",
        "2026-11-21T20:00:00[Europe/Paris]",
        "2026-11-21T20:00:00Z[UTC]",
    ] {
        assert_eq!(read(text, Policy::Coerce), None, "{text}");
    }
}

/// Models write the call of another tool beside their answer, or in its place.
#[test]
fn a_call_of_another_tool_is_not_the_answer() {
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    #[serde(untagged)]
    enum Found {
        City { city: String },
        Number(i64),
    }
    #[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
    struct City {
        city: Option<String>,
        note: Option<String>,
    }
    /// Find something.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Find {}
    impl Signature for Find {
        type Output = Found;
    }
    /// Look for a city.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Look {}
    impl Signature for Look {
        type Output = City;
    }
    let (find, look) = (Contract::of::<Find>().unwrap(), Contract::of::<Look>().unwrap());
    let union = |text: &str, policy| find.read_output_with::<Found>(text, policy);
    let object = |text: &str, policy| look.read_output_with::<City>(text, policy);
    let other = r#"{"name":"other_tool","arguments":{"city":"Rome"}}"#;
    for text in [
        other.to_owned(),
        format!("-327\n{other}"),
        format!("<tool_call>{other}</tool_call>\n-327"),
        format!("{{\n<tool_call>{other}</tool_call>"),
        format!(r#"{{"tool_calls":[{{"id":"1","function":{other}}}]}}"#),
        r#"{"city":"Rome","tool_calls":[{"name":"other_tool","arguments":{}}]}"#.to_owned(),
        r#"{"tool":"other_tool","city":"Rome"}"#.to_owned(),
    ] {
        for policy in [Policy::Strict, Policy::Repair, Policy::Coerce] {
            let read = object(&text, policy);
            assert!(read.is_err(), "{text} under {policy:?}: {read:?}");
            // A member of this union may have any further field.
            if !text.contains(r#""city":"Rome","#) && !text.contains(r#""tool":"#) {
                let read = union(&text, policy);
                assert!(read.is_err(), "{text} under {policy:?}: {read:?}");
            }
        }
    }
    let rome = || "Rome".to_owned();
    for name in ["finish", "functions.finish", "final_answer", "answer", "find", "look"] {
        let text = other.replace("other_tool", name);
        if name != "look" {
            let read = union(&text, Policy::Repair).unwrap();
            assert_eq!(read.value, Found::City { city: rome() }, "{text}");
        }
        if name != "find" {
            let read = object(&text, Policy::Repair).unwrap();
            assert_eq!(read.value.city, Some(rome()), "{text}");
        }
    }
    let unnamed = union(r#"{"arguments":{"city":"Rome"}}"#, Policy::Repair).unwrap();
    assert_eq!(unnamed.value, Found::City { city: rome() });
}
