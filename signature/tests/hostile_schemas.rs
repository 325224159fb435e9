//! Hostile schemas: each is lowered or rejected, quickly and on a small stack.

use std::time::Duration;

use cpu_time::ThreadTime;
use serde_json::{Map, Value, json};
use toolwright_signature::{Contract, ContractError, Dialect, Policy};

/// The default stack of a thread.
const STACK: usize = 2 * 1024 * 1024;

/// Far more processor time than an unoptimised build needs.
const SOON: Duration = Duration::from_secs(40);

/// Lowers to every dialect and returns for each why the schema is rejected or not strict.
fn survive(input: Value) -> Vec<Option<String>> {
    let lower = move || {
        let start = ThreadTime::now();
        let contract = Contract::dynamic("take", "", input, None).unwrap();
        let lowered = Dialect::ALL.map(|dialect| match contract.lower(dialect) {
            Ok(lowered) => {
                let _ = contract.lower_value(dialect, &json!({"a": {"a": {"b": [1, {"a": 2}]}}}));
                let why = lowered.losses.iter().find(|loss| loss.keyword == "strict");
                why.map(ToString::to_string)
            }
            Err(error) => {
                assert!(matches!(error, ContractError::Lowering { .. }), "{error:?}");
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

/// Checks that the dialects that rewrite a schema reject it with this text.
#[track_caller]
fn refused(input: Value, why: &str) {
    let outcomes = survive(input);
    for outcome in &outcomes[1..5] {
        let text = outcome.as_deref().unwrap_or("it was lowered");
        assert!(text.contains(why), "{text}");
    }
}

#[test]
fn all_of_that_doubles_at_each_level_is_rejected() {
    // The parts differ, so that none is dropped as a copy.
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
fn unions_that_multiply_are_rejected() {
    let either = |i: usize| {
        let field = |name: String| json!({"properties": {name.clone(): {}}, "required": [name]});
        json!({"anyOf": [field(format!("x{i}")), field(format!("y{i}"))]})
    };
    let all: Vec<_> = (0..40).map(either).collect();
    refused(with_definitions(json!({"allOf": all}), []), "too large");
}

#[test]
fn all_of_that_contains_itself_is_rejected() {
    let parts = |i: usize| json!({"allOf": [to((i + 1) % 3)], "minProperties": i});
    refused(with_definitions(to(0), definitions(3, parts)), "at #/$defs/d0: ");
    let own = |i: usize| json!({"type": "object", "properties": {"x": to(i)}, "required": ["x"], "minProperties": i});
    let both = json!({"allOf": [to(0), to(1)]});
    refused(with_definitions(both, definitions(2, own)), "nest too deep");
}

#[test]
fn references_in_a_circle_are_rejected() {
    refused(with_definitions(to(0), definitions(3, |i| to((i + 1) % 3))), "back to itself");
    refused(json!({"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}), "itself");
}

#[test]
fn definitions_copied_to_each_use_have_a_limit() {
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
fn a_long_chain_of_all_of_is_rejected_and_one_of_references_is_not() {
    let part = |i: usize| json!({"allOf": [to(i + 1)], "minProperties": 1});
    let mut all = definitions(5_000, part);
    all.push(("d5000".into(), json!({"type": "object"})));
    refused(with_definitions(to(0), all), "deep");

    let next = |i: usize| json!({"type": "object", "properties": {"x": to(i + 1)}});
    let mut all = definitions(4_000, next);
    all.push(("d4000".into(), json!({"type": "string"})));
    let outcomes = survive(with_definitions(to(0), all));
    // One accepts few levels, one few optional fields.
    let accepted: Vec<_> = outcomes.iter().map(Option::is_none).collect();
    assert_eq!(accepted, [true, false, true, false, true, true], "{outcomes:?}");
}

#[test]
fn wide_schemas_are_lowered_in_time() {
    let text = json!({"type": "string"});
    let many: Map<_, _> = (0..20_000).map(|i| (format!("p{i}"), text.clone())).collect();
    survive(json!({"type": "object", "properties": many}));
    let names: Vec<_> = many.keys().cloned().collect();
    survive(json!({"type": "object", "properties": many, "required": names}));
    let values: Vec<_> = (0..20_000).map(|i| format!("v{i}")).collect();
    survive(with_definitions(json!({"enum": values}), []));
    let members: Vec<_> = (0..2_000)
        .map(|i| json!({"type": "object", "properties": {format!("m{i}"): {"type": "string"}}}))
        .collect();
    survive(with_definitions(json!({ "oneOf": members }), []));
    survive(with_definitions(json!({ "anyOf": members }), []));
    // All of them end in the same name.
    let list = json!({"type": "array", "items": {"type": "object", "properties": {"x": text}}});
    let mut lists: Map<_, _> = (0..4_000).map(|i| (format!("p{i}"), list.clone())).collect();
    let items = |i| (format!("q{i}"), json!({"$ref": format!("#/properties/p{i}/items")}));
    lists.extend((0..4_000).map(items));
    survive(json!({"type": "object", "properties": lists}));
    let numbers: Vec<_> = (0..5_000).map(|i| i * 2).collect();
    survive(with_definitions(json!({"anyOf": [{"enum": numbers}, text]}), []));
}

#[test]
fn deep_schemas_are_lowered_on_a_small_stack() {
    let text = json!({"type": "string"});
    let lists = (0..90).fold(text.clone(), |items, _| json!({"type": "array", "items": items}));
    survive(json!({"type": "object", "properties": {"a": lists}}));
    let unions = (0..45).fold(text.clone(), |one, _| json!({"anyOf": [one, {"type": "null"}]}));
    survive(json!({"type": "object", "properties": {"a": unions}}));
    let parts = (0..45).fold(text, |part, _| json!({"allOf": [part], "minLength": 1}));
    survive(json!({"type": "object", "properties": {"a": parts}}));
}

#[test]
fn rendering_a_value_of_a_union_that_is_its_own_member_ends() {
    let members = vec![to(0); 8];
    survive(with_definitions(to(0), [("d0".into(), json!({"anyOf": members}))]));
    let member =
        |i: usize| json!({"type": "object", "properties": {"a": to(0), "b": {"minimum": i}}});
    let members: Vec<_> = (0..8).map(member).collect();
    survive(with_definitions(to(0), [("d0".into(), json!({"oneOf": members}))]));
}

#[test]
fn a_deep_value_is_rendered_or_rejected_on_a_small_stack() {
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

/// Reads a text with every policy, quickly and on a small stack, and returns the errors.
fn read(schema: Value, text: impl Into<String>) -> Result<Value, String> {
    let text = text.into();
    let read = move || {
        let start = ThreadTime::now();
        let contract = Contract::dynamic("take", "", json!({"type": "object"}), Some(schema));
        let contract = contract.unwrap_or_else(|error| panic!("{error}"));
        let read = |policy| contract.read_output_with::<Value>(&text, policy);
        let found = [Policy::Strict, Policy::Repair, Policy::Coerce].map(read);
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        let [strict, ..] = found;
        strict.map(|reading| reading.value).map_err(|error| error.to_string())
    };
    std::thread::Builder::new().stack_size(STACK).spawn(read).unwrap().join().unwrap()
}

#[test]
fn a_schema_that_is_not_itself_is_rejected() {
    let text = json!({"type": "string"});
    let own = |d0: Value| vec![("d0".to_owned(), d0)];
    let two = |d0: Value, d1: Value| vec![("d0".to_owned(), d0), ("d1".to_owned(), d1)];
    let circles = [
        own(json!({"not": to(0)})),
        own(json!({"not": {"not": to(0)}})),
        own(json!({"type": "object", "not": to(0), "properties": {"x": text}})),
        own(json!({"not": {"anyOf": [text, {"not": to(0)}]}})),
        own(json!({"oneOf": [text, {"not": to(0)}]})),
        own(json!({"anyOf": [{"type": "null"}, {"not": to(0)}]})),
        own(json!({"allOf": [{"not": to(0)}, {"not": text}]})),
        own(json!({"not": {"allOf": [{"not": to(0)}, {"not": text}]}})),
        two(json!({"not": to(1)}), json!({"not": to(0)})),
        two(json!({"not": to(1)}), json!({"anyOf": [text, {"not": to(0)}]})),
        two(json!({"anyOf": [to(1), text]}), json!({"oneOf": [{"not": to(0)}, text]})),
        two(json!({"not": {"allOf": [to(1), {"not": text}]}}), json!({"not": to(0)})),
        // Only reached from below.
        two(json!({"items": to(1)}), json!({"not": to(1)})),
    ];
    for circle in circles {
        let schema = with_definitions(to(0), circle);
        for (input, output) in
            [(schema.clone(), None), (json!({"type": "object"}), Some(schema.clone()))]
        {
            let error = Contract::dynamic("take", "", input, output).unwrap_err().to_string();
            assert!(error.contains(" at #/$defs/d"), "{schema}: {error}");
            assert!(error.contains("the reference leads back to itself"), "{schema}: {error}");
        }
    }
    let root = json!({"type": "object", "not": {"$ref": "#"}});
    let error = Contract::dynamic("take", "", root, None).unwrap_err().to_string();
    assert!(error.contains(" at $: the reference leads back to itself"), "{error}");
}

/// A schema with a circle is rejected or read, without a hang or a stack overflow.
#[test]
fn circles_of_references_that_no_value_follows_are_accepted() {
    let text = json!({"type": "string"});
    for d0 in [
        json!({"if": to(0), "then": text}),
        json!({"if": {"not": to(0)}, "then": text, "else": {"not": to(0)}}),
        json!({"allOf": [to(0), {"not": text}]}),
        json!({"anyOf": [to(0), {"not": text}]}),
        json!({"oneOf": [{"if": {"not": to(0)}, "then": text}, text]}),
        json!({"dependentSchemas": {"a": {"not": to(0)}}}),
    ] {
        let schema = with_definitions(to(0), [("d0".to_owned(), d0)]);
        let _ = read(schema, r#"{"a": {"a": 5}}"#);
    }
}

#[test]
fn recursion_through_a_field_is_read() {
    let schemas = [
        json!({"not": {"type": "object", "required": ["x"], "properties": {"x": to(0)}}}),
        json!({"not": {"type": "array", "minItems": 1, "items": to(0)}}),
        json!({"not": {"type": "array", "contains": {"not": to(0)}}}),
        json!({"type": "object", "properties": {"x": {"not": {"not": to(0)}}}}),
        json!({"type": "object", "additionalProperties": {"not": {"type": "array", "items": to(0)}}}),
        json!({"anyOf": [{"type": "string"}, {"type": "object", "not": {"type": "object", "required": ["x"], "properties": {"x": to(0)}}}]}),
    ];
    let values = [
        json!("x"),
        json!({}),
        json!({"x": 1}),
        json!({"x": {"x": 1}}),
        json!({"x": {"x": {"x": {}}}}),
        json!([]),
        json!([[]]),
        json!([[[]]]),
        json!([1, [2, [3]]]),
    ];
    for d0 in schemas {
        let schema = with_definitions(to(0), [("d0".to_owned(), d0.clone())]);
        let judge = jsonschema::validator_for(&schema).unwrap();
        for value in &values {
            let whole = json!({"a": value});
            let found = read(schema.clone(), whole.to_string());
            // What is restored, like a map from its pairs, is another value.
            let fits = found.as_ref() == Ok(&whole);
            assert_eq!(fits, judge.is_valid(&whole), "{schema}: {whole}: {found:?}");
        }
    }
}

#[test]
fn a_schema_that_checks_a_value_twice_at_each_level_is_read_in_time() {
    let text = || ("d60".to_owned(), json!({"type": "string"}));
    let either = |i: usize| json!({"oneOf": [to(i + 1), {"not": to(i + 1)}]});
    let neither = |i: usize| json!({"not": {"anyOf": [{"not": to(i + 1)}, {"not": {"not": {"not": to(i + 1)}}}]}});
    let parts = |i: usize| json!({"allOf": [{"not": {"not": to(i + 1)}}, {"not": {"allOf": [{"not": to(i + 1)}, {"not": {"type": "null"}}]}}]});
    let both = |i: usize| {
        json!({"anyOf": [
            {"type": ["string", "integer"], "not": {"not": to(i + 1)}},
            {"type": ["string", "integer", "object"], "not": to(i + 1)},
        ]})
    };
    let told = [&either as &dyn Fn(usize) -> Value, &neither, &parts, &both].map(|make| {
        let all = || definitions(60, make).into_iter().chain([text()]);
        [json!(7), json!("seven"), json!({"x": [7]})]
            .map(|value| read(with_definitions(to(0), all()), json!({"a": value}).to_string()))
            .map(|read| read.is_ok())
    });
    // One of two that exclude each other; the text, said twice; what is either,
    // and objects at every other level.
    assert_eq!(
        told,
        [[true, true, true], [false, true, false], [false, true, false], [true, true, false]]
    );
    // Each level of the value doubles the work.
    let deep = |levels| (0..levels).fold(json!([]), |below, _| json!([below]));
    let named = |levels| (0..levels).fold(json!({}), |below, _| json!({"x": below}));
    for (d0, value) in [
        (json!({"type": "array", "items": to(0), "contains": to(0), "minContains": 0}), deep(100)),
        (json!({"type": "object", "patternProperties": {"x": to(0), "^x": to(0)}}), named(100)),
        (
            json!({"properties": {"x": to(0)}, "not": {"required": ["y"], "properties": {"x": to(0)}}}),
            named(100),
        ),
        (
            json!({"properties": {"x": to(0)}, "not": {"properties": {"x": {"not": to(0)}}, "required": ["x"]}}),
            named(100),
        ),
    ] {
        let schema = with_definitions(to(0), [("d0".to_owned(), d0)]);
        let found = read(schema.clone(), json!({"a": value}).to_string());
        assert_eq!(found, Ok(json!({"a": value})), "{schema}");
    }
}

#[test]
fn a_value_that_takes_too_many_steps_to_check_is_an_error() {
    // Not a circle, but longer than the stack allows.
    let mut all = definitions(20_000, |i| json!({"not": to(i + 1)}));
    all.push(("d20000".into(), json!({"type": "string"})));
    let schema = with_definitions(to(0), all);
    for value in [json!("text"), json!(5), json!({"x": 5}), json!([[]])] {
        let told = read(schema.clone(), json!({"a": value}).to_string()).unwrap_err();
        assert!(told.contains("the schema is too involved to hold a value to"), "{told}");
    }
    // The longest chain that is still followed.
    let mut all = definitions(100, |i| json!({"not": to(i + 1)}));
    all.push(("d100".into(), json!({"type": "string"})));
    let schema = with_definitions(to(0), all);
    assert!(read(schema.clone(), r#"{"a": "text"}"#).is_ok());
    assert!(read(schema, r#"{"a": 5}"#).is_err());
}

/// The error of a contract with this schema for a property.
fn told(property: Value) -> String {
    let input = json!({"type": "object", "properties": {"a": property}});
    match Contract::dynamic("take", "", input, None) {
        Ok(_) => "it was taken".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_keyword_of_the_wrong_kind_is_rejected_with_its_path_and_the_expected_kind() {
    let texts = [
        json!({"type": 5}),
        json!({"type": []}),
        json!({"type": "any"}),
        json!({"type": ["string", "text"]}),
        json!({"type": "object", "required": "a"}),
        json!({"type": "object", "required": [5]}),
        json!({"type": "object", "properties": []}),
        json!({"type": "object", "properties": {"b": "text"}}),
        json!({"type": "object", "properties": {"b": {"items": {"minLength": "1"}}}}),
        json!({"type": "object", "additionalProperties": "false"}),
        json!({"type": "object", "additionalProperties": {"format": 5}}),
        json!({"type": "object", "patternProperties": {"(": {}}}),
        json!({"dependentRequired": {"a": "b"}}),
        json!({"dependencies": {"a": "b"}}),
        json!({"dependencies": ["a"]}),
        json!({"minProperties": -1}),
        json!({"enum": {}}),
        json!({"enum": []}),
        json!({"pattern": 5}),
        json!({"pattern": "(a"}),
        json!({"format": 5}),
        json!({"description": 5}),
        json!({"maxLength": -1}),
        json!({"maxLength": 1.5}),
        json!({"minimum": "0"}),
        json!({"exclusiveMaximum": "0"}),
        json!({"multipleOf": 0}),
        json!({"uniqueItems": "yes"}),
        json!({"nullable": "yes"}),
        json!({"items": 5}),
        json!({"items": [5]}),
        json!({"prefixItems": {}}),
        json!({"prefixItems": [{}, {"type": "str"}]}),
        json!({"contains": 5}),
        json!({"anyOf": []}),
        json!({"oneOf": {}}),
        json!({"allOf": [5]}),
        json!({"not": {"maximum": {}}}),
        json!({"$ref": 5}),
    ];
    let told: Vec<_> = texts
        .into_iter()
        .map(|schema| {
            let text = told(schema);
            text.strip_prefix("the input schema of `take` cannot be used at ")
                .unwrap_or(&text)
                .to_owned()
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r##"
    $.a: `type` is 5; make it one of string, number, integer, boolean, object, array, null or a list of them, or leave it out
    $.a: `type` is []; make it one of string, number, integer, boolean, object, array, null or a list of them, or leave it out
    $.a: `type` is "any"; make it one of string, number, integer, boolean, object, array, null or a list of them, or leave it out
    $.a: `type` is ["string","text"]; make it one of string, number, integer, boolean, object, array, null or a list of them, or leave it out
    $.a: `required` is "a"; make it a list of names
    $.a: `required` is [5]; make it a list of names
    $.a: `properties` is []; make it an object of schemas by name
    $.a.b: "text" is not a schema; make it an object or a boolean
    $.a.b[]: `minLength` is "1"; make it a whole number, 0 or more
    $.a: `additionalProperties` is "false"; make it a schema: an object or a boolean
    $.a.*: `format` is 5; make it a text
    $.a: `patternProperties` is {"(":{}}; make it an object of schemas by regular expression
    $.a: `dependentRequired` is {"a":"b"}; make it an object of lists of names
    $.a: `dependencies` is {"a":"b"}; make it an object of schemas or lists of names
    $.a: `dependencies` is ["a"]; make it an object of schemas or lists of names
    $.a: `minProperties` is -1; make it a whole number, 0 or more
    $.a: `enum` is {}; make it a list of at least one value
    $.a: `enum` is []; make it a list of at least one value
    $.a: `pattern` is 5; make it a text that is a regular expression
    $.a: `pattern` is "(a"; make it a text that is a regular expression
    $.a: `format` is 5; make it a text
    $.a: `description` is 5; make it a text
    $.a: `maxLength` is -1; make it a whole number, 0 or more
    $.a: `maxLength` is 1.5; make it a whole number, 0 or more
    $.a: `minimum` is "0"; make it a number
    $.a: `exclusiveMaximum` is "0"; make it a number
    $.a: `multipleOf` is 0; make it a number above 0
    $.a: `uniqueItems` is "yes"; make it true or false
    $.a: `nullable` is "yes"; make it true or false
    $.a: `items` is 5; make it a schema or a list of schemas
    $.a[]: 5 is not a schema; make it an object or a boolean
    $.a: `prefixItems` is {}; make it a list of schemas
    $.a[]: `type` is "str"; make it one of string, number, integer, boolean, object, array, null or a list of them, or leave it out
    $.a: `contains` is 5; make it a schema: an object or a boolean
    $.a: `anyOf` is []; make it a list of at least one schema
    $.a: `oneOf` is {}; make it a list of at least one schema
    $.a: 5 is not a schema; make it an object or a boolean
    $.a: `maximum` is {}; make it a number
    $.a: `$ref` is 5; make it a text
    "##);
}

#[test]
fn a_keyword_of_the_wrong_kind_is_rejected_wherever_it_stands() {
    let refused =
        |input: Value| Contract::dynamic("take", "", input, None).unwrap_err().to_string();
    let texts = [
        refused(json!(5)),
        refused(json!(true)),
        refused(json!({"type": "string"})),
        refused(json!({"type": "object", "required": "a"})),
        refused(json!({"type": "object", "$defs": 5})),
        refused(json!({"type": "object", "$defs": {"d": {"items": 5}}})),
        refused(json!({"type": "object", "definitions": {"d": 5}})),
        // A schema in an unusual place.
        refused(json!({
            "type": "object",
            "properties": {"a": {"$ref": "#/components/schemas/a%20b"}},
            "components": {"schemas": {"a b": {"$ref": "#/components/schemas/c"}, "c": {"enum": 5}}},
        })),
        Contract::dynamic("take", "", json!({"type": "object"}), Some(json!({"items": 5})))
            .unwrap_err()
            .to_string(),
    ];
    insta::assert_snapshot!(texts.join("\n"), @r##"
    the input schema of `take` cannot be used at $: 5 is not a schema; make it an object or a boolean
    the input schema of `take` cannot be used at $: it is not an object; put the value in a field of a struct
    the input schema of `take` cannot be used at $: it is not an object; put the value in a field of a struct
    the input schema of `take` cannot be used at $: `required` is "a"; make it a list of names
    the input schema of `take` cannot be used at $: `$defs` is 5; make it an object of schemas by name
    the input schema of `take` cannot be used at #/$defs/d: `items` is 5; make it a schema or a list of schemas
    the input schema of `take` cannot be used at #/definitions/d: 5 is not a schema; make it an object or a boolean
    the input schema of `take` cannot be used at #/components/schemas/c: `enum` is 5; make it a list of at least one value
    the output schema of `take` cannot be used at $: `items` is 5; make it a schema or a list of schemas
    "##);
    let long = refused(
        json!({"type": "object", "properties": {"a".repeat(100_000): {"format": ["a".repeat(100_000)]}}}),
    );
    assert!(long.len() < 1_000);
}

#[test]
fn keywords_as_older_drafts_and_generators_write_them_are_accepted() {
    for schema in [
        json!({"type": ["string", "string"]}),
        json!({"items": [{"type": "string"}], "additionalItems": false}),
        json!({"minimum": 0, "exclusiveMinimum": true}),
        json!({"type": "string", "required": true}),
        json!({"type": "string", "nullable": true}),
        json!({"definitions": {}, "dependencies": {"a": ["b"], "c": {"required": ["d"]}}}),
        json!({"type": "string", "maxLength": 2.0}),
        json!({"required": null, "enum": null, "properties": null}),
        json!({"const": {"type": 5}, "default": {"required": "a"}, "examples": 5}),
        json!({"enum": [{"type": 5}]}),
        json!({"properties": {"type": {"type": "string"}, "required": true, "enum": {}}}),
        json!({"x-order": "1", "required": []}),
    ] {
        assert_eq!(told(schema.clone()), "it was taken", "{schema}");
    }
}

#[test]
fn a_pattern_is_rejected_only_if_no_engine_could_run_it() {
    for broken in ["(", "a)", "[a", "a\\", "*", "+a", "a|?", "|*"] {
        assert_ne!(told(json!({"pattern": broken})), "it was taken", "{broken}");
    }
    for fine in [
        "^(?!b).*$",
        "(?<=a)b",
        r"(a)\1",
        r"\p{L}+",
        r"\u0041",
        r"^\/$",
        "[(]",
        "[)]*",
        r"\(",
        r"[\]]",
        "[]",
        "[^]",
        "[]a]",
        "[^]a]",
        "a++",
        "a{1",
        "]",
        "}",
        "(?<name>a)",
        "(?i)a",
        "",
        "|a",
        "()",
        "a{2,1000000}",
        "[[:alpha:]]",
        r"[\w&&[^\d]]",
        r"\Q(\E",
        "(?#()a",
    ] {
        assert_eq!(told(json!({"pattern": fine})), "it was taken", "{fine}");
    }
}

#[test]
fn keywords_of_the_wrong_kind_do_not_panic() {
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
            let whole = json!({"type": "object", "properties": {"a": node}, "required": ["a"]});
            let part = json!({"allOf": [node, {*keyword: value}]});
            let parts = json!({"type": "object", "properties": {"a": part}});
            for input in [whole, parts] {
                if Contract::dynamic("take", "", input.clone(), None).is_ok() {
                    survive(input);
                }
            }
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
