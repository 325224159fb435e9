//! Schemas that nobody means well with: an error or a schema, soon, and on a small stack.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test is a test too, which clippy.toml cannot know"
)]

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use toolwright_signature::{Contract, Dialect, Error};

/// As much as a thread has unless it is given more, here without optimisation.
const STACK: usize = 2 * 1024 * 1024;

/// Far more than is needed in a build without optimisation on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// Lowers to every dialect; what is refused is refused as what cannot be lowered.
fn survive(input: Value) -> Vec<Option<String>> {
    let lower = move || {
        let start = Instant::now();
        let contract = Contract::dynamic("take", "", input, None).unwrap();
        let lowered = Dialect::ALL.map(|dialect| match contract.lower(dialect) {
            Ok(_) => {
                let _ = contract.lower_value(dialect, &json!({"a": {"a": {"b": [1, {"a": 2}]}}}));
                None
            }
            Err(error) => {
                assert!(matches!(error, Error::Lowering { .. }), "{error:?}");
                let text = error.to_string();
                assert!(text.len() < 1_000, "{text}");
                Some(text)
            }
        });
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        lowered.to_vec()
    };
    std::thread::Builder::new().stack_size(STACK).spawn(lower).unwrap().join().unwrap()
}

fn with_definitions(a: Value, definitions: impl IntoIterator<Item = (String, Value)>) -> Value {
    let definitions: Map<_, _> = definitions.into_iter().collect();
    json!({"type": "object", "properties": {"a": a}, "$defs": definitions})
}

fn to(i: usize) -> Value {
    json!({"$ref": format!("#/$defs/d{i}")})
}

fn definitions(count: usize, make: impl Fn(usize) -> Value) -> Vec<(String, Value)> {
    (0..count).map(|i| (format!("d{i}"), make(i))).collect()
}

/// The dialects that work on a schema refuse it with this.
#[track_caller]
fn refused(input: Value, why: &str) {
    let outcomes = survive(input);
    for outcome in &outcomes[1..5] {
        let text = outcome.as_deref().unwrap_or("it was lowered");
        assert!(text.contains(why), "{text}");
    }
}

#[test]
fn parts_that_double_at_each_level_are_refused() {
    // The parts differ, so that none is left out as said already.
    let double = |i: usize| {
        let one = json!({"allOf": [to(i + 1), {"minProperties": i}]});
        let two = json!({"allOf": [to(i + 1), {"maxProperties": 100 + i}]});
        json!({"allOf": [one, two]})
    };
    let mut all = definitions(60, double);
    all.push(("d60".into(), json!({"type": "object", "properties": {"x": {"type": "string"}}})));
    let outcomes = survive(with_definitions(to(0), all));
    assert!(outcomes[1].is_some());
}

#[test]
fn unions_that_multiply_are_refused() {
    let either = |i: usize| {
        let field = |name: String| json!({"properties": {name.clone(): {}}, "required": [name]});
        json!({"anyOf": [field(format!("x{i}")), field(format!("y{i}"))]})
    };
    let all: Vec<_> = (0..40).map(either).collect();
    refused(with_definitions(json!({"allOf": all}), []), "too large");
}

#[test]
fn parts_that_contain_themselves_are_refused() {
    let parts = |i: usize| json!({"allOf": [to((i + 1) % 3)], "minProperties": i});
    refused(with_definitions(to(0), definitions(3, parts)), "at #/$defs/d0: ");
    let own = |i: usize| json!({"type": "object", "properties": {"x": to(i)}, "required": ["x"], "minProperties": i});
    let both = json!({"allOf": [to(0), to(1)]});
    refused(with_definitions(both, definitions(2, own)), "nest too deep");
}

#[test]
fn references_in_a_circle_are_refused() {
    refused(with_definitions(to(0), definitions(3, |i| to((i + 1) % 3))), "back to itself");
    refused(json!({"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}), "itself");
}

#[test]
fn what_is_written_out_where_it_is_used_is_bounded() {
    let twice = |i: usize| {
        let described = |text: &str| json!({"$ref": to(i + 1)["$ref"], "description": text});
        json!({"type": "object", "properties": {"x": described("One."), "y": described("Two.")}})
    };
    let mut all = definitions(80, twice);
    all.push(("d80".into(), json!({"type": "string"})));
    let outcomes = survive(with_definitions(to(0), all));
    assert!(outcomes[3].as_deref().unwrap().contains("too large"), "{outcomes:?}");
}

#[test]
fn a_long_chain_of_parts_is_refused_and_one_of_references_is_not() {
    let part = |i: usize| json!({"allOf": [to(i + 1)], "minProperties": 1});
    let mut all = definitions(5_000, part);
    all.push(("d5000".into(), json!({"type": "object"})));
    refused(with_definitions(to(0), all), "deep");

    let next = |i: usize| json!({"type": "object", "properties": {"x": to(i + 1)}});
    let mut all = definitions(4_000, next);
    all.push(("d4000".into(), json!({"type": "string"})));
    let outcomes = survive(with_definitions(to(0), all));
    // One takes few levels, one few optional fields.
    let accepted: Vec<_> = outcomes.iter().map(Option::is_none).collect();
    assert_eq!(accepted, [true, false, true, false, true, true], "{outcomes:?}");
}

#[test]
fn wide_schemas_are_lowered_in_time() {
    let text = json!({"type": "string"});
    let many: Map<_, _> = (0..20_000).map(|i| (format!("p{i}"), text.clone())).collect();
    survive(json!({"type": "object", "properties": many}));
    let values: Vec<_> = (0..20_000).map(|i| format!("v{i}")).collect();
    survive(with_definitions(json!({"enum": values}), []));
    let members: Vec<_> = (0..2_000)
        .map(|i| json!({"type": "object", "properties": {format!("m{i}"): {"type": "string"}}}))
        .collect();
    survive(with_definitions(json!({ "oneOf": members }), []));
    let numbers: Vec<_> = (0..5_000).map(|i| i * 2).collect();
    survive(with_definitions(json!({"anyOf": [{"enum": numbers}, text]}), []));
}

#[test]
fn deep_schemas_need_little_stack() {
    let text = json!({"type": "string"});
    let lists = (0..90).fold(text.clone(), |items, _| json!({"type": "array", "items": items}));
    survive(json!({"type": "object", "properties": {"a": lists}}));
    let unions = (0..45).fold(text.clone(), |one, _| json!({"anyOf": [one, {"type": "null"}]}));
    survive(json!({"type": "object", "properties": {"a": unions}}));
    let parts = (0..45).fold(text, |part, _| json!({"allOf": [part], "minLength": 1}));
    survive(json!({"type": "object", "properties": {"a": parts}}));
}

#[test]
fn a_union_of_itself_renders_no_value_for_ever() {
    let members = vec![to(0); 8];
    survive(with_definitions(to(0), [("d0".into(), json!({"anyOf": members}))]));
    let member =
        |i: usize| json!({"type": "object", "properties": {"a": to(0), "b": {"minimum": i}}});
    let members: Vec<_> = (0..8).map(member).collect();
    survive(with_definitions(to(0), [("d0".into(), json!({"oneOf": members}))]));
}

#[test]
fn a_deep_value_is_rendered_or_refused_on_a_small_stack() {
    let tree = json!({"anyOf": [{"type": "array", "items": to(0)}, {"type": "null"}]});
    let input = with_definitions(to(0), [("d0".into(), tree)]);
    let render = || {
        let contract = Contract::dynamic("take", "", input, None).unwrap();
        let deep = |levels| (0..levels).fold(json!([]), |below, _| Value::Array(vec![below]));
        for dialect in Dialect::ALL.into_iter().filter(|dialect| contract.lower(*dialect).is_ok()) {
            let value = json!({"a": deep(126)});
            assert_eq!(contract.lower_value(dialect, &value).unwrap(), value);
            let mut far_too_deep = deep(50_000);
            assert!(contract.lower_value(dialect, &far_too_deep).is_err());
            // Dropping it at once would take the stack that rendering did not.
            while let Some(below) = far_too_deep.get_mut(0).map(Value::take) {
                far_too_deep = below;
            }
        }
    };
    std::thread::Builder::new().stack_size(STACK).spawn(render).unwrap().join().unwrap();
}

#[test]
fn keywords_of_the_wrong_kind_are_no_panic() {
    let odd =
        [json!(null), json!(5), json!("x"), json!([]), json!({}), json!([5]), json!({"a": 5})];
    let keywords = [
        "properties",
        "required",
        "items",
        "prefixItems",
        "additionalProperties",
        "anyOf",
        "oneOf",
        "allOf",
        "enum",
        "const",
        "not",
        "if",
        "$ref",
        "$defs",
        "definitions",
        "patternProperties",
        "propertyNames",
        "minItems",
        "maxItems",
        "minimum",
        "exclusiveMinimum",
        "nullable",
        "format",
        "pattern",
        "description",
        "default",
        "dependencies",
        "dependentRequired",
        "$id",
        "$anchor",
        "unevaluatedProperties",
        "multipleOf",
        "uniqueItems",
        "title",
        "type",
    ];
    for (keyword, value) in
        keywords.iter().flat_map(|keyword| odd.iter().map(move |v| (keyword, v)))
    {
        for kind in ["object", "array", "string", "integer"] {
            let node = json!({"type": kind, *keyword: value});
            survive(json!({"type": "object", "properties": {"a": node}, "required": ["a"]}));
            survive(
                json!({"type": "object", "properties": {"a": {"allOf": [node, {*keyword: value}]}}}),
            );
        }
        let mut root = json!({"type": "object"});
        root[*keyword] = value.clone();
        if let Ok(contract) = Contract::dynamic("take", "", root, None) {
            for dialect in Dialect::ALL {
                let _ = contract.lower(dialect);
            }
        }
    }
}
