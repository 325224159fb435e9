//! The type table of the specification for toolsets (the seed), row by row: the schema, a value
//! that is read, and one that is rejected with its path.

use std::collections::BTreeMap;

use insta::assert_snapshot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};
use toolwright_signature::{Contract, ContractError, Dialect, Signature};

use crate::zoo::seed::{Analyze, Configure, CreateTask, Priority, Process, Status, UpdateTask};
use crate::zoo::{
    self, Action, Bare, ClassName, Echo, Figure, Node, Numeric, Point, Scalar, Specimen,
};

/// The schema that a model gets for a type.
fn schema<T: Specimen>() -> String {
    Contract::of::<Echo<T>>().unwrap().output_to_read().unwrap().to_string()
}

/// The value that the type writes after it was read in a field.
#[track_caller]
fn read<T: Specimen>(given: Value) -> Value {
    let contract = Contract::of::<Echo<T>>().unwrap();
    let echo: Echo<T> = contract.read(&json!({"given": given}).to_string()).unwrap();
    json!(echo)["given"].take()
}

/// The path of the first fault of a value in a field.
#[track_caller]
fn refused<T: Specimen>(given: Value) -> String {
    let contract = Contract::of::<Echo<T>>().unwrap();
    first_fault(contract.read::<Echo<T>>(&json!({"given": given}).to_string()))
}

#[track_caller]
fn first_fault<T>(read: Result<T, ContractError>) -> String {
    match read {
        Err(ContractError::Reading { faults, .. }) => faults.first().unwrap().path.clone(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was read"),
    }
}

/// Checks that a value is the same after reading and writing.
#[track_caller]
fn kept<T: Specimen>(value: Value) {
    assert_eq!(read::<T>(value.clone()).to_string(), value.to_string());
}

#[test]
fn a_string_accepts_texts() {
    assert_snapshot!(schema::<String>(), @r#"{"type":"string"}"#);
    for text in ["", "a", "5", "null", "{\"a\": 1}"] {
        kept::<String>(json!(text));
    }
    assert_eq!(refused::<String>(json!(5)), "$.given");
    assert_eq!(refused::<String>(json!(null)), "$.given");
}

#[test]
fn an_integer_accepts_whole_numbers() {
    assert_snapshot!(schema::<i64>(), @r#"{"type":"integer"}"#);
    kept::<i64>(json!(3));
    kept::<i64>(json!(i64::MIN));
    assert_eq!(refused::<i64>(json!("abc")), "$.given");
    assert_eq!(refused::<i64>(json!(3.9)), "$.given");
}

#[test]
fn a_narrow_integer_has_its_range_in_the_schema() {
    assert_snapshot!(schema::<u8>(), @r#"{"type":"integer","minimum":0,"maximum":255}"#);
    assert_snapshot!(schema::<i32>(), @r#"{"type":"integer","minimum":-2147483648,"maximum":2147483647}"#);
    assert_snapshot!(schema::<u64>(), @r#"{"type":"integer","minimum":0}"#);
    assert_eq!(refused::<u8>(json!(256)), "$.given");
    assert_eq!(refused::<i32>(json!(4_294_967_296_i64)), "$.given");
    assert_eq!(refused::<u64>(json!(-1)), "$.given");
}

#[test]
fn a_float_accepts_numbers() {
    assert_snapshot!(schema::<f64>(), @r#"{"type":"number"}"#);
    kept::<f64>(json!(2.5));
    assert_eq!(read::<f64>(json!(2)), json!(2.0));
    assert_eq!(refused::<f64>(json!("abc")), "$.given");
}

#[test]
fn a_number_of_any_kind_stays_whole_or_fractional() {
    assert_snapshot!(schema::<Number>(), @r#"{"type":"number"}"#);
    for number in [json!(2), json!(2.5), json!(2.0), json!(-3), json!(u64::MAX), json!(1e300)] {
        kept::<Number>(number);
    }
    assert_eq!(refused::<Number>(json!("abc")), "$.given");
    // A text that stands for a number gives a number of the same kind.
    assert_eq!(read::<Number>(json!("3")).to_string(), "3");
    assert_eq!(read::<Number>(json!("3.0")).to_string(), "3.0");
}

/// The same as a union: the number is read as the member that it is.
#[test]
fn a_union_of_numbers_stays_whole_or_fractional() {
    assert_snapshot!(schema::<Numeric>(), @r#"{"anyOf":[{"type":"integer"},{"type":"number"}],"description":"What `serde_json::Number` says in one word (S40), as a union."}"#);
    kept::<Numeric>(json!(2));
    kept::<Numeric>(json!(2.5));
    assert_eq!(refused::<Numeric>(json!("abc")), "$.given");
}

#[test]
fn a_boolean_accepts_true_and_false() {
    assert_snapshot!(schema::<bool>(), @r#"{"type":"boolean"}"#);
    kept::<bool>(json!(true));
    kept::<bool>(json!(false));
    assert_eq!(refused::<bool>(json!(7)), "$.given");
}

#[test]
fn an_enum_accepts_its_wire_names() {
    assert_snapshot!(schema::<Status>(), @r#"{"type":"string","enum":["pending","in-progress","completed"]}"#);
    assert_snapshot!(schema::<Priority>(), @r#"{"type":"string","enum":["low","medium","high","critical"]}"#);
    kept::<Status>(json!("in-progress"));
    assert_eq!(refused::<Status>(json!("cancelled")), "$.given");
    assert_eq!(refused::<Priority>(json!("urgent")), "$.given");
}

#[test]
fn a_struct_may_have_a_type_tag() {
    assert_snapshot!(schema::<Point>(), @r#"{"type":"object","properties":{"_type":{"type":"string","const":"Point"},"x":{"type":"integer"},"note":{"type":["string","null"]}},"required":["_type","x"],"description":"A struct that names itself (S43)."}"#);
    assert_eq!(
        read::<Point>(json!({"_type": "Point", "x": 1})),
        json!({"_type": "Point", "x": 1, "note": null})
    );
    assert_eq!(refused::<Point>(json!({"_type": "Point", "x": "one"})), "$.given.x");
}

#[test]
fn nested_structs_are_read() {
    assert_snapshot!(schema::<zoo::Nested>(), @r#"{"type":"object","properties":{"filters":{"type":"object","properties":{"year":{"type":["integer","null"],"minimum":-2147483648,"maximum":2147483647},"status":{"type":"string","enum":["open","in-progress","done"]}},"required":["status"]},"more":{"type":["object","null"],"properties":{"year":{"type":["integer","null"],"minimum":-2147483648,"maximum":2147483647},"status":{"type":"string","enum":["open","in-progress","done"]}},"required":["status"]}},"required":["filters"]}"#);
    kept::<zoo::Nested>(json!({"filters": {"year": 1999, "status": "open"}, "more": null}));
    let wrong = json!({"filters": {"year": "old", "status": "open"}});
    assert_eq!(refused::<zoo::Nested>(wrong), "$.given.filters.year");
}

#[test]
fn each_item_of_a_list_is_read() {
    assert_snapshot!(schema::<Vec<Priority>>(), @r#"{"type":"array","items":{"type":"string","enum":["low","medium","high","critical"]}}"#);
    kept::<Vec<Priority>>(json!(["low", "high"]));
    kept::<Vec<Priority>>(json!([]));
    assert_eq!(refused::<Vec<Priority>>(json!(["low", "none"])), "$.given[1]");
}

#[test]
fn a_map_with_a_wrong_key_or_value_is_rejected() {
    assert_snapshot!(schema::<BTreeMap<String, i64>>(), @r#"{"type":"object","additionalProperties":{"type":"integer"}}"#);
    kept::<BTreeMap<String, i64>>(json!({"a": 1, "b": 2}));
    assert_eq!(refused::<BTreeMap<String, i64>>(json!({"a": "x"})), "$.given.a");

    assert_snapshot!(schema::<BTreeMap<zoo::Status, u8>>(), @r#"{"type":"object","additionalProperties":false,"properties":{"done":{"type":"integer","minimum":0,"maximum":255},"in-progress":{"type":"integer","minimum":0,"maximum":255},"open":{"type":"integer","minimum":0,"maximum":255}}}"#);
    kept::<BTreeMap<zoo::Status, u8>>(json!({"open": 1, "in-progress": 2}));
    assert!(refused::<BTreeMap<zoo::Status, u8>>(json!({"closed": 1})).starts_with("$.given"));

    assert_snapshot!(schema::<BTreeMap<u32, String>>(), @r#"{"type":"object","additionalProperties":false,"patternProperties":{"^\\d+$":{"type":"string"}}}"#);
    kept::<BTreeMap<u32, String>>(json!({"7": "seven"}));
    assert!(refused::<BTreeMap<u32, String>>(json!({"seven": "7"})).starts_with("$.given"));
}

#[test]
fn an_option_accepts_null() {
    assert_snapshot!(schema::<Option<i64>>(), @r#"{"type":["integer","null"]}"#);
    assert_snapshot!(schema::<Option<Priority>>(), @r#"{"type":["string","null"],"enum":["low","medium","high","critical",null]}"#);
    kept::<Option<i64>>(json!(null));
    kept::<Option<i64>>(json!(3));
    assert_eq!(refused::<Option<i64>>(json!("abc")), "$.given");
}

#[test]
fn an_optional_field_may_be_absent() {
    let contract = Contract::of::<Bare<Process>>().unwrap();
    assert_eq!(contract.input()["required"], json!(["required_field"]));
    let all = json!({
        "required_field": "a",
        "optional_field": null,
        "optional_enum": null,
        "optional_array": null,
    });
    assert_eq!(read::<Process>(json!({"required_field": "a"})), all);
    kept::<Process>(all);
    let wrong = json!({"required_field": "a", "optional_enum": "urgent"});
    assert_eq!(refused::<Process>(wrong), "$.given.optional_enum");
}

#[test]
fn a_union_accepts_each_of_its_members() {
    assert_snapshot!(schema::<Scalar>(), @r#"{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"number"}]}"#);
    for value in [json!("3"), json!(3), json!(3.5)] {
        kept::<Scalar>(value);
    }
    assert_eq!(refused::<Scalar>(json!([])), "$.given");
    assert_eq!(refused::<Scalar>(json!(null)), "$.given");
}

/// Told apart by `_type`: exactly one member can match, so it is `oneOf`.
#[test]
fn a_union_of_structs_is_selected_by_the_tag() {
    assert_snapshot!(schema::<Figure>(), @r#"{"oneOf":[{"type":"object","properties":{"_type":{"type":"string","const":"Circle"},"radius":{"type":"number"}},"required":["_type","radius"]},{"type":"object","properties":{"_type":{"type":"string","const":"Square"},"side":{"type":"number"},"label":{"type":["string","null"]}},"required":["_type","side"]}],"description":"A union of structs, told apart by `_type` (S43)."}"#);
    kept::<Figure>(json!({"_type": "Circle", "radius": 1.5}));
    assert!(refused::<Figure>(json!({"_type": "Line", "length": 1})).starts_with("$.given"));
    assert!(refused::<Figure>(json!({"_type": "Square", "radius": 1})).starts_with("$.given"));
}

#[test]
fn a_union_of_enums_is_read() {
    assert_snapshot!(schema::<Action>(), @r#"{"oneOf":[{"oneOf":[{"type":"string","const":"low","description":"Whenever there is time."},{"type":"string","const":"high","description":"Before anything else."}]},{"type":"string","enum":["open","in-progress","done"]}],"description":"A union of enums (S36)."}"#);
    kept::<Action>(json!("high"));
    kept::<Action>(json!("in-progress"));
    let action: Action = serde_json::from_value(json!("in-progress")).unwrap();
    assert!(matches!(action, Action::Status(zoo::Status::InProgress)));
    assert_eq!(refused::<Action>(json!("closed")), "$.given");
}

/// A registry that is known at compile time is an enum.
#[test]
fn a_class_name_accepts_registered_names() {
    assert_snapshot!(schema::<ClassName>(), @r#"{"type":"string","description":"S48: the name of something that was registered, as a list known to the compiler.","enum":["Legal::SearchDocuments","Circle","HTTPGet"]}"#);
    kept::<ClassName>(json!("Circle"));
}

/// Draw a shape.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Draw {
    /// Class name
    class: String,
    fallback: Option<String>,
    size: u8,
}

impl Signature for Draw {
    type Output = String;
}

/// A registry that is known at run time: the field is a text until the contract gets the
/// allowed names.
#[test]
fn a_registered_class_name_resolves_and_any_other_is_rejected() {
    type Make = fn(u8) -> String;
    let circle: Make = |size| format!("a circle of {size}");
    let square: Make = |size| format!("a square of {size}");
    let registry = BTreeMap::from([("Shapes::Circle", circle), ("Shapes::Square", square)]);
    let names = || registry.keys().copied();
    let any = Contract::of::<Draw>().unwrap();
    let contract = any.allowing("class", names()).unwrap();

    // The seed's own schema, with the names that may stand there.
    let seed = json!({"type": "string", "description": "Class name"});
    assert!(contains(&any.input()["properties"]["class"], &seed), "{}", any.input());
    let class = &contract.input()["properties"]["class"];
    assert!(contains(class, &seed), "{class}");
    assert_eq!(class["enum"], json!(["Shapes::Circle", "Shapes::Square"]));
    assert_eq!(contract.input()["required"], json!(["class", "size"]));

    for (name, made) in [("Shapes::Circle", "a circle of 3"), ("Shapes::Square", "a square of 3")] {
        let wire = json!({"class": name, "size": 3}).to_string();
        let draw: Draw = contract.read(&wire).unwrap();
        assert_eq!(registry[&*draw.class](draw.size), made);
    }
    for unknown in ["Shapes::Line", "Circle", "", "String"] {
        let wire = json!({"class": unknown, "size": 3}).to_string();
        assert!(any.read::<Draw>(&wire).is_ok());
        let error = contract.read::<Draw>(&wire).unwrap_err();
        let told = "$.class: expected one of `Shapes::Circle`, `Shapes::Square`, got the string";
        assert!(error.to_string().contains(told), "{error}");
    }
    // The other fields are read as before.
    let too_large = r#"{"class": "Shapes::Circle", "size": 300}"#;
    assert_eq!(first_fault(contract.read::<Draw>(too_large)), "$.size");

    // An optional name that may be null, in every dialect.
    let optional = contract.allowing("fallback", names()).unwrap();
    for fallback in [json!(null), json!("Shapes::Square")] {
        let wire = json!({"class": "Shapes::Circle", "fallback": fallback, "size": 3}).to_string();
        assert_eq!(json!(optional.read::<Draw>(&wire).unwrap().fallback), fallback);
    }
    let wrong = r#"{"class": "Shapes::Circle", "fallback": "Line", "size": 3}"#;
    assert_eq!(first_fault(optional.read::<Draw>(wrong)), "$.fallback");
    for dialect in Dialect::ALL {
        let shown = optional.tool(dialect).unwrap().to_string();
        assert_eq!(shown.matches("Shapes::Square").count(), 2, "{dialect}: {shown}");
    }
    // A stored contract checks the names too.
    let stored: Contract = serde_json::from_value(json!(optional)).unwrap();
    assert_eq!(stored, optional);
    assert_ne!(stored.fingerprint(), any.fingerprint());
    assert!(stored.read::<Draw>(wrong).is_err());
}

#[test]
fn allowing_needs_a_text_field_and_at_least_one_name() {
    let contract = Contract::of::<Draw>().unwrap();
    let refused = |field, names: &[&'static str]| {
        contract.allowing(field, names.iter().copied()).unwrap_err().to_string()
    };
    assert_snapshot!(refused("size", &["a"]), @"the input schema of `draw` cannot be used at $.size: it is not a text; name a field of type `String`");
    assert_snapshot!(refused("shape", &["a"]), @"the input schema of `draw` cannot be used at $.shape: there is no such field; name one of the input's own fields");
    assert_snapshot!(refused("class", &[]), @"the input schema of `draw` cannot be used at $.class: no name is allowed, so no call could fit; give at least one");
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Shape {
    class: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Group {
    figure: Shape,
    below: Vec<Group>,
}

/// Draw figures.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct DrawAll {
    classes: Vec<String>,
    figure: Shape,
    maybe: Option<Shape>,
    figures: Option<Vec<Shape>>,
    group: Group,
}

impl Signature for DrawAll {
    type Output = String;
}

#[test]
fn allowing_restricts_fields_inside_others_and_in_lists() {
    let whole = Contract::of::<DrawAll>().unwrap();
    let given = |class: &str| {
        json!({
            "classes": ["Circle", class], "figure": {"class": class}, "maybe": {"class": class},
            "figures": [{"class": "Circle"}, {"class": class}],
            "group": {"figure": {"class": class}, "below": []},
        })
        .to_string()
    };
    for (field, path) in [
        ("classes", "$.classes[1]"),
        ("figure.class", "$.figure.class"),
        ("maybe.class", "$.maybe.class"),
        ("figures.class", "$.figures[1].class"),
    ] {
        let contract = whole.allowing(field, ["Circle", "Square"]).unwrap();
        contract.read::<DrawAll>(&given("Square")).unwrap();
        let error = contract.read::<DrawAll>(&given("Line")).unwrap_err().to_string();
        assert!(error.contains(path) && error.matches("$.").count() == 1, "{field}: {error}");
        for dialect in Dialect::ALL {
            let tool = contract.lower(dialect).unwrap();
            assert_eq!(tool.schema.get().matches("Square").count(), 1, "{field} {dialect:?}");
        }
    }
    for field in ["figure", "figures", "figure.colour", "group.figure.class.x"] {
        assert!(whole.allowing(field, ["Circle"]).is_err(), "{field}");
    }
    // A type that contains itself is one definition with several uses.
    let error = whole.allowing("group.below.figure.class", ["Circle"]).unwrap_err().to_string();
    assert!(error.contains("a type that contains itself"), "{error}");
}

/// Dates are RFC 3339 texts, and no other text is read as a date.
#[test]
fn dates_are_texts_with_a_format() {
    assert_snapshot!(schema::<chrono::DateTime<chrono::Utc>>(), @r#"{"type":"string","format":"date-time"}"#);
    assert_snapshot!(schema::<jiff::Timestamp>(), @r#"{"type":"string","format":"date-time"}"#);
    assert_snapshot!(schema::<jiff::civil::Date>(), @r#"{"type":"string","format":"date"}"#);
    assert_snapshot!(schema::<jiff::civil::Time>(), @r#"{"type":"string","pattern":"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?$"}"#);
    kept::<chrono::NaiveDate>(json!("2024-02-29"));
    kept::<jiff::civil::Date>(json!("2024-02-29"));
    // The instant is kept, the zone is not.
    assert_eq!(
        read::<chrono::DateTime<chrono::Utc>>(json!("2024-01-01T01:00:00+01:00")),
        json!("2024-01-01T00:00:00Z")
    );
    assert_eq!(refused::<chrono::NaiveDate>(json!("2023-02-29")), "$.given");
    assert_eq!(refused::<jiff::civil::Date>(json!("tomorrow")), "$.given");
    assert_eq!(refused::<jiff::Timestamp>(json!("2024-01-01")), "$.given");
}

#[test]
fn identifiers_and_decimals_are_texts_with_a_format_or_pattern() {
    assert_snapshot!(schema::<uuid::Uuid>(), @r#"{"type":"string","format":"uuid"}"#);
    assert_snapshot!(schema::<url::Url>(), @r#"{"type":"string","format":"uri"}"#);
    assert_snapshot!(schema::<rust_decimal::Decimal>(), @r#"{"type":["string","number"],"pattern":"^-?\\d+(\\.\\d+)?([eE]\\d+)?$"}"#);
    kept::<uuid::Uuid>(json!("5cdd6aa9-c250-7c6f-4cc5-fbe583218f08"));
    kept::<url::Url>(json!("https://example.org/a?b=c"));
    kept::<rust_decimal::Decimal>(json!("19.90"));
    assert_eq!(read::<rust_decimal::Decimal>(json!(19.5)), json!("19.5"));
    assert_eq!(refused::<uuid::Uuid>(json!("5cdd6aa9")), "$.given");
    assert_eq!(refused::<url::Url>(json!("example")), "$.given");
    assert_eq!(refused::<rust_decimal::Decimal>(json!("a lot")), "$.given");
}

#[test]
fn a_recursive_type_has_a_definition() {
    let contract = Contract::of::<Echo<Node>>().unwrap();
    assert_snapshot!(contract.input()["$defs"], @r##"{"Node":{"type":"object","properties":{"name":{"type":"string"},"next":{"anyOf":[{"$ref":"#/$defs/Node"},{"type":"null"}],"description":"What comes after."},"weight":{"type":"integer","minimum":0,"maximum":255,"default":0}},"required":["name"]}}"##);
    kept::<Node>(
        json!({"name": "a", "next": {"name": "b", "next": null, "weight": 1}, "weight": 0}),
    );
    let wrong = json!({"name": "a", "next": {"name": "b", "next": {"name": 3}}});
    assert!(refused::<Node>(wrong).starts_with("$.given.next"));
}

/// Whether `whole` has every keyword of `part`; it may have more.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(name, part)| whole.get(name).is_some_and(|whole| contains(whole, part))),
        (whole, part) => whole == part,
    }
}

/// The JSON is the seed's own.
#[test]
fn the_schema_of_update_task_contains_that_of_the_seed() {
    let seed = json!({
        "type": "function",
        "function": {
            "name": "update_task",
            "parameters": {
                "type": "object",
                "properties": {
                    "priority": {
                        "type": "string",
                        "enum": ["low", "medium", "high", "critical"],
                        "description": "Parameter priority",
                    },
                    "status": {
                        "type": "string",
                        "enum": ["pending", "in-progress", "completed"],
                        "description": "Parameter status",
                    },
                },
                "required": ["priority", "status"],
            },
        },
    });
    let tool = Contract::of::<UpdateTask>().unwrap().tool(Dialect::OpenAiLoose).unwrap();
    assert!(contains(&tool, &seed), "{tool:#}");
}

#[test]
fn the_seeds_call_of_update_task_is_read_into_enums() {
    let contract = Contract::of::<UpdateTask>().unwrap();
    let call: UpdateTask =
        contract.read(r#"{"priority": "critical", "status": "in-progress"}"#).unwrap();
    assert_eq!(call, UpdateTask { priority: Priority::Critical, status: Status::InProgress });
    let wrong = contract.read::<UpdateTask>(r#"{"priority": "critical", "status": "paused"}"#);
    assert_eq!(first_fault(wrong), "$.status");
}

/// The JSON is the seed's own.
#[test]
fn the_schema_of_create_task_contains_that_of_the_seed() {
    let seed = json!({
        "type": "function",
        "function": {
            "name": "create_task",
            "parameters": {
                "type": "object",
                "properties": {
                    "task": {
                        "type": "object",
                        "properties": {
                            "_type": {"type": "string", "const": "TaskRequest"},
                            "title": {"type": "string"},
                            "description": {"type": "string"},
                            "status": {
                                "type": "string",
                                "enum": ["pending", "in-progress", "completed"],
                            },
                            "metadata": {
                                "type": "object",
                                "properties": {
                                    "_type": {"type": "string", "const": "TaskMetadata"},
                                    "id": {"type": "string"},
                                    "priority": {
                                        "type": "string",
                                        "enum": ["low", "medium", "high", "critical"],
                                    },
                                    "tags": {"type": "array", "items": {"type": "string"}},
                                    "estimated_hours": {"type": ["number", "null"]},
                                },
                            },
                        },
                    },
                },
                "required": ["task"],
            },
        },
    });
    let tool = Contract::of::<CreateTask>().unwrap().tool(Dialect::OpenAiLoose).unwrap();
    assert!(contains(&tool, &seed), "{tool:#}");
}

#[test]
fn the_seeds_call_of_create_task_may_omit_the_hours() {
    let contract = Contract::of::<CreateTask>().unwrap();
    let metadata = json!({"_type": "TaskMetadata", "id": "1", "priority": "low", "tags": []});
    let task = json!({
        "_type": "TaskRequest",
        "title": "Write",
        "description": "",
        "status": "pending",
        "metadata": metadata,
        "assignees": ["Kate"],
    });
    let call: CreateTask = contract.read(&json!({"task": task}).to_string()).unwrap();
    assert_eq!(call.task.metadata.estimated_hours, None);
    let mut wrong = task.clone();
    wrong["metadata"]["estimated_hours"] = json!("many");
    let wrong = contract.read::<CreateTask>(&json!({"task": wrong}).to_string());
    assert_eq!(first_fault(wrong), "$.task.metadata.estimated_hours");
}

#[test]
fn the_other_tools_of_the_seed_have_all_their_types() {
    assert_snapshot!(schema::<Analyze>(), @r#"{"type":"object","properties":{"text":{"type":"string"},"count":{"type":"integer"},"score":{"type":"number"},"enabled":{"type":"boolean"},"threshold":{"type":"number","description":"S40: whole or not, and which of the two is kept."}},"required":["text","count","score","enabled","threshold"],"description":"S26: the five basic types."}"#);
    kept::<Analyze>(
        json!({"text": "a", "count": 1, "score": 0.5, "enabled": true, "threshold": 3}),
    );
    assert_snapshot!(schema::<Configure>(), @r#"{"type":"object","properties":{"tags":{"type":"array","items":{"type":"string"}},"priorities":{"type":"array","items":{"type":"string","enum":["low","medium","high","critical"]}},"config":{"type":"object","additionalProperties":{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"number"}]}},"mappings":{"type":"object","additionalProperties":{"type":"string","enum":["low","medium","high","critical"]}}},"required":["tags","priorities","config","mappings"],"description":"S32: the four collections."}"#);
    kept::<Configure>(json!({
        "tags": ["a"],
        "priorities": ["low"],
        "config": {"a": "text", "b": 1, "c": 1.5},
        "mappings": {"x": "high"},
    }));
}

#[test]
fn a_signature_without_a_module_has_a_contract() {
    /// Nobody does this.
    #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    struct Dream {}
    impl Signature for Dream {
        type Output = String;
    }
    let tool = Contract::of::<Dream>().unwrap().tool(Dialect::Mcp).unwrap();
    assert_eq!(tool["name"], "dream");
    assert_eq!(tool["description"], "Nobody does this.");
}
