//! Expected calls, as a user writes them, and the differences that are reported.

use std::collections::BTreeSet;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_evals::{CallMatching, ExpectedCall, MadeCall};
use toolwright_signature::{Contract, Policy, Signature};

/// Compares calls, and returns the differences as texts.
fn compared(matching: &CallMatching, expected: Value, made: &[(&str, Value)]) -> Vec<String> {
    let expected: Vec<ExpectedCall> = serde_json::from_value(expected).unwrap();
    let made: Vec<_> =
        made.iter().map(|(tool, arguments)| MadeCall::new(*tool, arguments.clone())).collect();
    texts(matching, &expected, &made)
}

fn texts(matching: &CallMatching, expected: &[ExpectedCall], made: &[MadeCall]) -> Vec<String> {
    let compared = matching.compare(expected, made).unwrap();
    compared.differences.iter().map(ToString::to_string).collect()
}

/// Compares the arguments of one call.
fn arguments(expected: Value, made: Value) -> Vec<String> {
    let expected = json!([{"tool": "t", "arguments": expected}]);
    let differences = compared(&CallMatching::new(), expected, &[("t", made)]);
    differences.iter().map(|text| text.replace("t (call 1): ", "")).collect()
}

const NONE: [&str; 0] = [];

#[test]
fn each_difference_names_its_place() {
    let differences = arguments(
        json!({"id": 7, "to": {"name": "Ada", "tags": ["a", "b"]}, "note": "x"}),
        json!({"id": "7", "to": {"name": "Ada", "tags": ["a", "c"], "age": 3}}),
    );
    assert_eq!(
        differences,
        [
            r#"$.id: expected 7, got "7""#,
            r#"$.to.tags[1]: expected "b", got "c""#,
            "$.to.age: expected no value, got 3",
            r#"$.note: expected "x", got no value"#,
        ]
    );
    let differences = arguments(json!({"a.b": [1, 2]}), json!({"a.b": [1]}));
    assert_eq!(differences, [r#"$["a.b"]: expected [1, 2], got [1]"#]);
}

#[test]
fn rules_accept_several_values() {
    let expected = json!({
        "any": {"$any": true},
        "one": {"$one_of": [1, {"$contains": "Two"}]},
        "optional": {"$optional": {"$one_of": [1, 2]}},
        "part": {"$contains": "refund"},
        "date": {"$matches": r"^\d{4}-\d\d-\d\d$"},
        "more": {"$has": {"id": 7}},
        "rule": {"$exactly": {"$any": true}},
    });
    let made = json!({
        "any": null, "one": "or two", "part": "A Refund.", "date": "2026-11-28",
        "more": {"id": 7, "name": "x"}, "rule": {"$any": true},
    });
    assert_eq!(arguments(expected.clone(), made), NONE);
    let made = json!({
        "one": 3, "optional": 3, "part": "a fund", "date": "today", "more": {"name": "x"}, "rule": 1,
    });
    assert_eq!(
        arguments(expected, made),
        [
            "$.any: expected any value, got no value",
            r#"$.one: expected one of 1, a text with "Two", got 3"#,
            "$.optional: expected one of 1, 2, got 3",
            r#"$.part: expected a text with "refund", got "a fund""#,
            r#"$.date: expected a text that matches `^\d{4}-\d\d-\d\d$`, got "today""#,
            "$.more.id: expected 7, got no value",
            r#"$.rule: expected {"$any": true}, got 1"#,
        ]
    );
}

#[test]
fn a_rule_that_cannot_be_read_is_an_error_with_its_fix() {
    let error = |arguments: Value| {
        let call = json!({"tool": "t", "arguments": arguments});
        let error = serde_json::from_value::<ExpectedCall>(call).unwrap_err().to_string();
        let call = ExpectedCall::new("t", arguments);
        let late = CallMatching::new().compare(&[call], &[]).unwrap_err().to_string();
        assert_eq!(late, format!("the expected call of `t` cannot be compared: {error}"));
        error
    };
    assert_eq!(
        error(json!({"a": [{"$oneof": [1]}]})),
        "`$oneof` at $.a[0] is not a rule; the rules are `$any`, `$contains`, `$exactly`, `$has`, `$matches`, `$one_of` and `$optional`; to expect a field of this name, put the object under `$exactly`",
    );
    assert_eq!(
        error(json!({"a": {"$any": true, "b": 1}})),
        "`$any` at $.a is a rule, and stands beside other fields; write it as the only field, or put the object under `$exactly`",
    );
    assert_eq!(error(json!({"$one_of": []})), "`$one_of` at $ needs a list of the accepted values");
    assert!(
        error(json!({"$matches": "("})).starts_with("`$matches` at $ needs a regular expression: ")
    );
}

#[test]
fn a_call_without_arguments_accepts_any() {
    let made = [("t", json!({"a": 1}))];
    assert_eq!(compared(&CallMatching::new(), json!([{"tool": "t"}]), &made), NONE);
    let call = serde_json::from_value::<ExpectedCall>(json!({"tool": "t"})).unwrap();
    assert_eq!(call, ExpectedCall::with_any_arguments("t"));
    let unknown = json!({"tool": "t", "args": {}});
    assert!(serde_json::from_value::<ExpectedCall>(unknown).is_err());
    // Empty arguments are no arguments.
    let none = json!([{"tool": "t", "arguments": {}}]);
    let differences = compared(&CallMatching::new(), none, &made);
    assert_eq!(differences, ["t (call 1): $.a: expected no value, got 1"]);
}

fn letters() -> Value {
    json!([
        {"tool": "a", "arguments": {"n": 1}},
        {"tool": "b", "arguments": {"n": 1}},
        {"tool": "a", "arguments": {"n": 2}},
    ])
}

#[test]
fn calls_may_come_in_any_order_or_in_the_expected_one() {
    let made = [("a", json!({"n": 2})), ("b", json!({"n": 1})), ("a", json!({"n": 1}))];
    assert_eq!(compared(&CallMatching::new(), letters(), &made), NONE);
    assert_eq!(
        compared(&CallMatching::new().in_order(), letters(), &made),
        [
            r#"in another order: expected a({"n":1}), b({"n":1}), a({"n":2}), got a({"n":2}), b({"n":1}), a({"n":1})"#
        ]
    );
    let made = [made[2].clone(), made[1].clone(), made[0].clone()];
    assert_eq!(compared(&CallMatching::new().in_order(), letters(), &made), NONE);
}

#[test]
fn missing_calls_further_calls_and_calls_that_differ_are_told_apart() {
    let made = [("a", json!({"n": 1})), ("c", json!({})), ("a", json!({"n": 3}))];
    for matching in [CallMatching::new(), CallMatching::new().in_order()] {
        assert_eq!(
            compared(&matching, letters(), &made),
            [
                r#"missing: b({"n":1})"#,
                "a (call 3): $.n: expected 2, got 3",
                "not expected: c({}) (call 2)",
            ]
        );
        assert_eq!(
            compared(&matching.clone().allowing_others(), letters(), &made),
            [r#"missing: b({"n":1})"#, "a (call 3): $.n: expected 2, got 3"]
        );
    }
    let none = json!([]);
    let differences = compared(&CallMatching::new(), none.clone(), &made[..1]);
    assert_eq!(differences, [r#"not expected: a({"n":1}) (call 1)"#]);
    assert_eq!(compared(&CallMatching::new(), none, &[]), NONE);
}

#[test]
fn the_order_among_other_calls_is_that_of_the_expected_calls() {
    let matching = CallMatching::new().in_order().allowing_others();
    let look = |n: u32| ("look", json!({"n": n}));
    let expected = json!([{"tool": "look", "arguments": {"n": 2}}, {"tool": "save"}]);
    let save = ("save", json!({}));
    let made = [look(1), look(2), look(3), save.clone(), look(2)];
    assert_eq!(compared(&matching, expected.clone(), &made), NONE);
    assert_eq!(
        compared(&matching, expected.clone(), &[save.clone(), look(1), look(2)]),
        [r#"in another order: expected look({"n":2}), save(…), got save({}), look({"n":2})"#]
    );
    assert_eq!(
        compared(&matching, expected, &[look(1), save]),
        ["look (call 1): $.n: expected 2, got 1"]
    );
}

/// A matching, and not the first choice: the first expected call accepts both calls, the second one only
/// the call that the first would take.
#[test]
fn two_expected_calls_that_accept_one_call_share_out_the_calls() {
    let expected = json!([
        {"tool": "read", "arguments": {"path": {"$one_of": ["a", "b"]}}},
        {"tool": "read", "arguments": {"path": "a"}},
    ]);
    let made = [("read", json!({"path": "a"})), ("read", json!({"path": "b"}))];
    assert_eq!(compared(&CallMatching::new(), expected.clone(), &made), NONE);
    // In order, the second call has to be `a`.
    let differences = compared(&CallMatching::new().in_order(), expected.clone(), &made);
    assert_eq!(differences.len(), 1);
    assert!(differences[0].starts_with("in another order: "), "{differences:?}");
    // One call is not two.
    let differences = compared(&CallMatching::new(), expected, &made[..1]);
    assert_eq!(differences.len(), 1);
    assert!(differences[0].starts_with("missing: "), "{differences:?}");
}

#[test]
fn failed_calls_may_be_allowed() {
    let expected = [ExpectedCall::new("a", json!({"n": 1}))];
    let mut made = [MadeCall::new("a", json!({"n": "one"})), MadeCall::new("a", json!({"n": 1}))];
    made[0].failed = true;
    let matching = CallMatching::new();
    let unexpected = r#"not expected: a({"n":"one"}) (call 1)"#;
    assert_eq!(texts(&matching, &expected, &made), [unexpected]);
    assert_eq!(texts(&matching.clone().allowing_failed(), &expected, &made), NONE);
    assert_eq!(texts(&matching.allowing_failed().in_order(), &expected, &made), NONE);
}

/// Book a table.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Book {
    guests: i64,
    hours: f64,
    #[serde(default = "one")]
    tables: u32,
    note: Option<String>,
    tags: BTreeSet<String>,
    seats: Vec<u32>,
    place: Place,
}

fn one() -> u32 {
    1
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Place {
    Inside {
        #[serde(default)]
        smoking: bool,
    },
    Outside {
        #[serde(default = "one")]
        heaters: u32,
    },
}

impl Signature for Book {
    type Output = bool;
}

fn booked(matching: &CallMatching, expected: Value, made: Value) -> Vec<String> {
    let mut made = MadeCall::new("book", made);
    made.contract = Some(Arc::new(Contract::of::<Book>().unwrap()));
    texts(matching, &[ExpectedCall::new("book", expected)], &[made])
}

#[test]
fn arguments_are_equal_as_the_contract_says() {
    let expected = json!({
        "guests": 5, "hours": 2, "tags": ["quiet", "window"], "seats": [1, 2],
        "place": {"kind": "outside"},
    });
    let equal = json!({
        "guests": 5.0, "hours": 2.0, "tables": 1, "note": null, "tags": ["window", "quiet"],
        "seats": [1, 2], "place": {"kind": "outside", "heaters": 1},
    });
    let matching = CallMatching::new();
    assert_eq!(booked(&matching, expected.clone(), equal.clone()), NONE);
    assert_eq!(booked(&matching, equal, expected.clone()), NONE);
    // The default of another variant is no default here, and a list is not a set.
    let other = json!({
        "guests": 6, "hours": 2.5, "tables": 2, "note": "", "tags": ["quiet", "garden"],
        "seats": [2, 1], "place": {"kind": "outside", "heaters": 0},
    });
    assert_eq!(
        booked(&matching, expected, other),
        [
            "book (call 1): $.guests: expected 5, got 6",
            "book (call 1): $.hours: expected 2, got 2.5",
            r#"book (call 1): $.tags: expected "window", got no such item"#,
            r#"book (call 1): $.tags[1]: expected no such item, got "garden""#,
            "book (call 1): $.seats[0]: expected 1, got 2",
            "book (call 1): $.seats[1]: expected 2, got 1",
            "book (call 1): $.place.heaters: expected no value, got 0",
            "book (call 1): $.tables: expected no value, got 2",
            r#"book (call 1): $.note: expected no value, got """#,
        ]
    );
}

#[test]
fn arguments_are_read_as_an_agent_reads_them() {
    let expected = json!({"$has": {"guests": 5, "tags": ["quiet"]}});
    let made = json!({
        "guests": "5", "hours": 2, "tags": "quiet", "seats": [], "place": {"kind": "inside"},
    });
    assert_eq!(booked(&CallMatching::new(), expected.clone(), made.clone()), NONE);
    let strict = CallMatching::new().with_policy(Policy::Strict);
    assert_eq!(
        booked(&strict, expected.clone(), made),
        [
            r#"book (call 1): $.guests: expected 5, got "5""#,
            r#"book (call 1): $.tags: expected ["quiet"], got "quiet""#,
        ]
    );
    // A text that is not JSON, with a comma at its end.
    let text = r#"{"guests": 5, "hours": 2, "tags": ["quiet"], "seats": [], "place": {"kind": "inside"},}"#;
    assert_eq!(booked(&CallMatching::new(), expected, json!(text)), NONE);
}

#[test]
fn an_argument_that_the_contract_requires_is_not_optional() {
    let expected = json!({"$has": {"guests": {"$optional": 5}}});
    let made = json!({"hours": 2, "tags": [], "seats": [], "place": {"kind": "inside"}});
    assert_eq!(
        booked(&CallMatching::new(), expected, made),
        ["book (call 1): $.guests: expected 5, got no value"]
    );
}

#[test]
fn texts_may_be_normalized() {
    let matching = CallMatching::new().normalizing(str::to_lowercase);
    let expected = json!([{"tool": "t", "arguments": {
        "city": "Paris", "tags": ["A"], "id": {"$exactly": "Ab"},
    }}]);
    let made = json!({"city": "PARIS", "tags": ["a"], "id": "AB"});
    assert_eq!(
        compared(&matching, expected, &[("t", made)]),
        [r#"t (call 1): $.id: expected "Ab", got "AB""#]
    );
}

#[test]
fn large_integers_are_not_rounded() {
    let large = 9_007_199_254_740_993_i64;
    assert_eq!(arguments(json!({"id": large}), json!({"id": large})), NONE);
    assert_eq!(arguments(json!({"id": large}), json!({"id": large - 1})).len(), 1);
    assert_eq!(arguments(json!({"id": large}), json!({"id": 9_007_199_254_740_992.0})).len(), 1);
    assert_eq!(arguments(json!({"id": 3}), json!({"id": 3.0})), NONE);
    assert_eq!(arguments(json!({"id": true}), json!({"id": 1})).len(), 1);
    // Without a contract, a value left out is not null.
    assert_eq!(arguments(json!({"id": null}), json!({})).len(), 1);
}

#[test]
fn the_score_is_the_share_of_calls_that_fit() {
    let score = |made: &[MadeCall]| {
        let expected: Vec<ExpectedCall> = serde_json::from_value(letters()).unwrap();
        CallMatching::new().compare(&expected, made).unwrap().score()
    };
    let call = |tool: &str, n: u32| MadeCall::new(tool, json!({"n": n}));
    assert_eq!(score(&[call("a", 1), call("b", 1), call("a", 2)]), 1.0);
    assert_eq!(score(&[call("a", 1), call("b", 1), call("a", 2), call("c", 1)]), 0.75);
    assert_eq!(score(&[call("a", 1), call("b", 2)]), 1.0 / 3.0);
    assert_eq!(score(&[]), 0.0);
    assert_eq!(CallMatching::new().compare(&[], &[]).unwrap().score(), 1.0);
}

#[test]
fn many_calls_are_compared_in_little_time() {
    let expected: Vec<_> = (0..300).map(|n| ExpectedCall::new("a", json!({"n": n}))).collect();
    let made: Vec<_> = (0..300).rev().map(|n| MadeCall::new("a", json!({"n": n}))).collect();
    assert_eq!(texts(&CallMatching::new(), &expected, &made), NONE);
    let set =
        json!({"type": "object", "properties": {"all": {"type": "array", "uniqueItems": true}}});
    let contract = Contract::dynamic("t", "T.", set, None).unwrap();
    let all: Vec<u32> = (0..1_000).collect();
    let reversed: Vec<u32> = all.iter().rev().copied().collect();
    let mut call = MadeCall::new("t", json!({"all": reversed}));
    call.contract = Some(Arc::new(contract));
    assert_eq!(
        texts(&CallMatching::new(), &[ExpectedCall::new("t", json!({"all": all}))], &[call]),
        NONE
    );
}

/// A shape that a dialect asks for is the contract's own.
#[test]
fn arguments_in_the_shape_of_a_dialect_are_equal() {
    let input = json!({
        "type": "object",
        "properties": {
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "unit": {"type": "string"},
        },
        "required": ["counts"],
    });
    let contract = Contract::dynamic("count", "Count.", input, None).unwrap();
    let shape = contract
        .lower_value(toolwright_signature::Dialect::OpenAiStrict, &json!({"counts": {"a": 1}}))
        .unwrap();
    assert_ne!(shape, json!({"counts": {"a": 1}}));
    let mut made = MadeCall::new("count", shape);
    made.contract = Some(Arc::new(contract));
    let expected = [ExpectedCall::new("count", json!({"counts": {"a": 1}}))];
    assert_eq!(texts(&CallMatching::new(), &expected, &[made]), NONE);
}

/// The choice among members that contain themselves would double with each level.
#[test]
fn a_contract_with_many_choices_is_compared_in_little_time() {
    let node = |name: &str| {
        json!({
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/Node"}, "kind": {"const": name}},
            "required": ["next"],
        })
    };
    let members: Vec<_> =
        (0..4).map(|at| node(&format!("k{at}"))).chain([json!({"type": "null"})]).collect();
    let input = json!({
        "type": "object",
        "properties": {"list": {"$ref": "#/$defs/Node"}},
        "$defs": {"Node": {"anyOf": members}},
    });
    let contract = Contract::dynamic("walk", "Walk.", input, None).unwrap();
    let list = (0..60).fold(json!({"other": 1}), |next, _| json!({"next": next}));
    let mut made = MadeCall::new("walk", json!({"list": list}));
    made.contract = Some(Arc::new(contract));
    let expected = [ExpectedCall::new("walk", json!({"list": list}))];
    let start = std::time::Instant::now();
    assert_eq!(texts(&CallMatching::new(), &expected, &[made]), NONE);
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
}
