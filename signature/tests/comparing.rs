//! The differences that keep one contract from standing in for another.
//!
//! A normal run checks every fourth change of every type. All of them:
//!
//! ```sh
//! COMPARING_STEP=1 cargo test --release -p toolwright-signature --test main -- comparing:: --nocapture
//! ```

use std::collections::BTreeMap;
use std::slice::from_ref;

use jsonschema::Validator;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolwright_signature::{Contract, ContractChange, Dependent, Dialect, Side, Signature};

use crate::zoo::generate::values_if_any;
use crate::zoo::mistakes::{count, nth};
use crate::zoo::{self, Bare, Echo, Specimen, Visitor};

/// The contract that a client makes of this tool's MCP form.
fn served(contract: &Contract) -> Contract {
    let mut tool = contract.tool(Dialect::Mcp).unwrap();
    let output = tool.get_mut("outputSchema").map(Value::take);
    Contract::dynamic(contract.name(), "", tool["inputSchema"].take(), output).unwrap()
}

fn lines(ours: &Contract, theirs: &Contract) -> Vec<String> {
    ours.differences(theirs).iter().map(ToString::to_string).collect()
}

/// A type's own tool, served and imported again.
struct Again(Vec<String>);

impl Again {
    fn look<S: Signature>(&mut self, case: &str) {
        let Ok(ours) = Contract::of::<S>() else {
            return;
        };
        let found = lines(&ours, &served(&ours));
        self.0.extend(found.into_iter().map(|line| format!("{case}: {line}")));
    }
}

impl Visitor for Again {
    fn visit<T: Specimen>(&mut self, case: &str) {
        self.look::<Echo<T>>(case);
        self.look::<Bare<T>>(case);
    }
}

/// Except types that cannot read what they write.
#[test]
fn a_tool_stands_in_for_itself() {
    let mut again = Again(Vec::new());
    zoo::tour(&mut again);
    again.0.dedup();
    insta::assert_snapshot!(again.0.join("\n"), @r"
    enum_half_hidden: input $.given: ours: may be `only_written`; theirs: takes one of `both`, `only_read`, `present`
    enum_half_hidden: output $.result: ours: takes one of `both`, `only_read`, `present`; theirs: may be `only_written`
    read_and_written_differ: input $.given.only_read: ours: has no such field; theirs: is required
    read_and_written_differ: input $.given.read: ours: has no such field; theirs: is required
    read_and_written_differ: input $.given.written: ours: has this field; theirs: does not name it
    read_and_written_differ: input $.given.only_written: ours: has this field; theirs: does not name it
    read_and_written_differ: output $.only_read: ours: is required; theirs: has no such field
    read_and_written_differ: output $.read: ours: is required; theirs: has no such field
    read_and_written_differ: input $.only_read: ours: has no such field; theirs: is required
    read_and_written_differ: input $.read: ours: has no such field; theirs: is required
    read_and_written_differ: input $.written: ours: has this field; theirs: does not name it
    read_and_written_differ: input $.only_written: ours: has this field; theirs: does not name it
    read_and_written_differ: output $.only_read: ours: is required; theirs: has no such field
    read_and_written_differ: output $.read: ours: is required; theirs: has no such field
    converted: input $.given.said: ours: is an object with `words`; theirs: takes a string
    converted: output $.said: ours: takes a string; theirs: is an object with `words`
    converted: input $.said: ours: is an object with `words`; theirs: takes a string
    converted: output $.said: ours: takes a string; theirs: is an object with `words`
    ");
}

/// Search documents.
#[derive(Serialize, Deserialize, JsonSchema)]
struct SearchDocuments {
    query: String,
    limit: Option<u8>,
    #[serde(default)]
    order: Order,
    filters: Vec<Filter>,
    #[serde(default)]
    weights: BTreeMap<String, f64>,
}

#[derive(Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "snake_case")]
enum Order {
    #[default]
    Best,
    Newest,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Filter {
    Year { from: i32, to: i32 },
    Author { name: String },
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Found {
    titles: Vec<String>,
    total: u64,
    next: Option<String>,
    day: Option<chrono::NaiveDate>,
}

impl Signature for SearchDocuments {
    type Output = Found;
}

/// A tool of another server that fits.
fn search() -> Value {
    json!({
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for."},
                "limit": {"type": "integer", "default": 10},
                "order": {"type": "string", "enum": ["best", "newest", "oldest"]},
                "filters": {"type": "array", "items": {"anyOf": [
                    {"$ref": "#/definitions/author"},
                    {"$ref": "#/definitions/year"},
                ]}},
                "weights": {"type": "object", "additionalProperties": {"type": "number"}},
                "verbose": {"type": "boolean"},
            },
            "required": ["query"],
            "additionalProperties": false,
            "definitions": {
                "author": {
                    "type": "object",
                    "properties": {"kind": {"const": "author"}, "name": {"type": "string"}},
                    "required": ["kind", "name"],
                },
                "year": {
                    "type": "object",
                    "properties": {
                        "kind": {"const": "year"},
                        "from": {"type": "integer"},
                        "to": {"type": "integer", "maximum": 9_007_199_254_740_991_i64},
                    },
                    "required": ["kind"],
                },
            },
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "titles": {"type": "array", "items": {"type": "string"}},
                "total": {"type": "integer", "minimum": 0},
                "next": {"type": ["string", "null"]},
                "day": {"type": "string", "format": "date"},
                "took": {"type": "number"},
            },
            "required": ["titles", "total"],
        },
    })
}

/// The differences after a part of the tool's schemas is replaced or removed.
fn after(changes: &[(&str, Value)]) -> String {
    let mut tool = search();
    for (pointer, value) in changes {
        let (above, name) = pointer.rsplit_once('/').unwrap();
        let above = tool.pointer_mut(above).unwrap().as_object_mut().unwrap();
        match value {
            Value::Null => drop(above.shift_remove(name)),
            value => drop(above.insert(name.into(), value.clone())),
        }
    }
    let output = tool.get_mut("outputSchema").map(Value::take);
    let theirs = Contract::dynamic("search", "", tool["inputSchema"].take(), output).unwrap();
    lines(&Contract::of::<SearchDocuments>().unwrap(), &theirs).join("\n")
}

#[test]
fn a_tool_that_fits_has_no_differences() {
    assert_eq!(after(&[]), "");
}

#[test]
fn each_change_of_an_input_is_one_line() {
    let changes: Vec<(&str, Vec<(&str, Value)>)> = vec![
        ("another is required", vec![("required", json!(["query", "verbose"]))]),
        ("one that may be missing", vec![("required", json!(["query", "limit"]))]),
        (
            "a field by another name",
            vec![
                ("properties/query", Value::Null),
                ("properties/q", json!({"type": "string"})),
                ("required", json!(["q"])),
            ],
        ),
        ("a field less", vec![("properties/limit", Value::Null)]),
        (
            "a field by nearly its name",
            vec![
                ("additionalProperties", Value::Null),
                ("properties/limit", Value::Null),
                ("properties/Limit", json!({"type": "integer"})),
            ],
        ),
        (
            "a field that may be passed over",
            vec![("additionalProperties", Value::Null), ("properties/limit", Value::Null)],
        ),
        (
            "another type",
            vec![("properties/query", json!({"type": "array", "items": {"type": "string"}}))],
        ),
        ("another number", vec![("properties/limit", json!({"type": "string"}))]),
        ("a value less", vec![("properties/order/enum", json!(["newest", "oldest"]))]),
        ("one value", vec![("properties/order", json!({"const": "best"}))]),
        (
            "less",
            vec![("properties/limit", json!({"type": "integer", "minimum": 1, "maximum": 50}))],
        ),
        ("steps", vec![("properties/limit", json!({"type": "integer", "multipleOf": 10}))]),
        (
            "no null",
            vec![
                ("properties/limit", json!({"type": "integer"})),
                ("required", json!(["query", "limit"])),
            ],
        ),
        ("a shorter text", vec![("properties/query/maxLength", json!(80))]),
        ("a longer text", vec![("properties/query/minLength", json!(1))]),
        ("a pattern", vec![("properties/query/pattern", json!("^[a-z ]+$"))]),
        ("a format, which is a hint", vec![("properties/query/format", json!("date"))]),
        ("fewer items", vec![("properties/filters/maxItems", json!(3))]),
        ("more items", vec![("properties/filters/minItems", json!(1))]),
        ("each item once", vec![("properties/filters/uniqueItems", json!(true))]),
        (
            "a kind less",
            vec![("properties/filters/items", json!({"$ref": "#/definitions/author"}))],
        ),
        ("another kind", vec![("definitions/author/properties/kind/const", json!("writer"))]),
        ("more of a kind", vec![("definitions/year/required", json!(["kind", "century"]))]),
        ("less of a kind", vec![("definitions/year/properties/from/minimum", json!(1900))]),
        (
            "whole numbers",
            vec![("properties/weights/additionalProperties", json!({"type": "integer"}))],
        ),
        ("no further fields", vec![("properties/weights/additionalProperties", json!(false))]),
        ("names", vec![("properties/weights/propertyNames", json!({"enum": ["a", "b"]}))]),
        ("few fields", vec![("properties/weights/maxProperties", json!(2))]),
        ("many fields", vec![("minProperties", json!(5))]),
        ("one field asks for another", vec![("dependentRequired", json!({"limit": ["verbose"]}))]),
        ("a rule", vec![("not", json!({"required": ["limit", "order"]}))]),
        (
            "a condition",
            vec![
                ("if", json!({"required": ["limit"]})),
                ("then", json!({"required": ["verbose"]})),
            ],
        ),
        ("leads nowhere", vec![("properties/query", json!({"$ref": "#/definitions/gone"}))]),
    ];
    let told: Vec<String> = changes
        .into_iter()
        .map(|(what, changes)| {
            let changes: Vec<_> = changes
                .into_iter()
                .map(|(at, value)| (format!("/inputSchema/{at}"), value))
                .collect();
            let changes: Vec<_> =
                changes.iter().map(|(at, value)| (at.as_str(), value.clone())).collect();
            format!("{what}\n{}", after(&changes)).replace('\n', "\n  ")
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r##"
    another is required
      input $.verbose: ours: has no such field; theirs: is required
    one that may be missing
      input $.limit: ours: may be null; theirs: takes an integer
    a field by another name
      input $.q: ours: has no such field; theirs: is required
      input $.query: ours: has this field; theirs: takes no such field
    a field less
      input $.limit: ours: has this field; theirs: takes no such field
    a field by nearly its name
      input $.limit: ours: has this field; theirs: calls it `Limit`
    a field that may be passed over
      input $.limit: ours: has this field; theirs: does not name it
    another type
      input $.query: ours: is a string; theirs: takes a list
    another number
      input $.limit: ours: may be an integer; theirs: takes a string
    a value less
      input $.order: ours: may be `best`; theirs: takes one of `newest`, `oldest`
    one value
      input $.order: ours: may be `newest`; theirs: takes `best`
    less
      input $.limit: ours: may be as low as 0; theirs: takes at least 1
      input $.limit: ours: may be as high as 255; theirs: takes at most 50
    steps
      input $.limit: ours: need not be a multiple of 10; theirs: takes multiples of 10
    no null
      input $.limit: ours: may be null; theirs: takes an integer
    a shorter text
      input $.query: ours: may have any number of characters; theirs: takes at most 80
    a longer text
      input $.query: ours: may have 0 characters; theirs: takes at least 1
    a pattern
      input $.query: ours: may be any string; theirs: takes only texts that match ^[a-z ]+$
    a format, which is a hint
      
    fewer items
      input $.filters: ours: may have any number of items; theirs: takes at most 3
    more items
      input $.filters: ours: may have 0 items; theirs: takes at least 1
    each item once
      input $.filters: ours: may have an item twice; theirs: takes each item once
    a kind less
      input $.filters[].name: ours: has no such field; theirs: is required
      input $.filters[].kind: ours: may be `year`; theirs: takes `author`
      input $.filters[].from: ours: has this field; theirs: does not name it
      input $.filters[].to: ours: has this field; theirs: does not name it
    another kind
      input $.filters[]: ours: may be an object with `kind` `author`, `name`; theirs: takes an object with `kind` `writer`, `name` or an object with `kind` `year`
    more of a kind
      input $.filters[].century: ours: has no such field; theirs: is required
    less of a kind
      input $.filters[].from: ours: may be as low as -2147483648; theirs: takes at least 1900
    whole numbers
      input $.weights.*: ours: is a number; theirs: takes an integer
    no further fields
      input $.weights.*: ours: may have any other field; theirs: takes no other fields
    names
      input $.weights.*: ours: may have fields whose name is any text; theirs: takes fields whose name is one of `a`, `b`
    few fields
      input $.weights: ours: may have any number of fields; theirs: takes at most 2
    many fields
      input $: ours: may have 4 fields; theirs: takes at least 5
    one field asks for another
      input $.verbose: ours: may be missing; theirs: is required beside `limit`
    a rule
      input $: ours: may break a rule; theirs: has `not`, which cannot be compared
    a condition
      input $: ours: may break a rule; theirs: has `if`, `then`, which cannot be compared
    leads nowhere
      input $.query: ours: cannot be compared with it; theirs: is not a schema that can be compared: the reference "#/$defs/gone" leads nowhere in this schema; put its target under `$defs`
    "##);
}

#[test]
fn each_change_of_an_output_is_one_line() {
    let changes = [
        ("one may be missing", "required", json!(["titles"])),
        ("a field less", "properties/titles", Value::Null),
        ("another type", "properties/titles", json!({"type": "string"})),
        (
            "items of another type",
            "properties/titles/items",
            json!({"type": ["string", "integer"]}),
        ),
        ("null", "properties/total", json!({"type": ["integer", "null"], "minimum": 0})),
        ("null that is no news", "properties/next", json!({"type": "null"})),
        ("a fraction", "properties/total", json!({"type": "number", "minimum": 0})),
        ("below zero", "properties/total/minimum", Value::Null),
        ("any text for a date", "properties/day/format", Value::Null),
        ("another format", "properties/day/format", json!("date-time")),
        ("anything", "properties/next", json!({})),
        ("further fields of any kind", "additionalProperties", json!(true)),
    ];
    let told: Vec<String> = changes
        .into_iter()
        .map(|(what, at, value)| {
            let told = after(&[(&format!("/outputSchema/{at}"), value)]);
            format!("{what}\n{told}").replace('\n', "\n  ")
        })
        .chain([
            format!("none\n  {}", after(&[("/outputSchema", Value::Null)])),
            format!("a list\n  {}", after(&[("/outputSchema", json!({"type": "array"}))])),
        ])
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
one may be missing
  output $.total: ours: is required; theirs: may be missing
a field less
  output $.titles: ours: takes a list; theirs: may be any value
another type
  output $.titles: ours: takes a list; theirs: is a string
items of another type
  output $.titles[]: ours: takes a string; theirs: may be an integer
null
  output $.total: ours: takes an integer; theirs: may be null
null that is no news
  
a fraction
  output $.total: ours: takes an integer; theirs: is a number
below zero
  output $.total: ours: takes at least 0; theirs: has no lower bound
any text for a date
  output $.day: ours: takes only a date like 2026-11-21; theirs: may be any string
another format
  output $.day: ours: takes only a date like 2026-11-21; theirs: may be a date-time with zone like 2026-11-21T20:00:00Z
anything
  output $.next: ours: takes a string or null; theirs: may be any value
further fields of any kind
  
none
  output $: ours: takes an object with `titles`, `total`; theirs: has no output schema
a list
  output $: ours: takes an object with `titles`, `total`; theirs: is a list
"#);
}

/// The differences of an output type.
fn given<T: Specimen>(output: Option<Value>) -> String {
    let ours = Contract::of::<Echo<T>>().unwrap();
    let theirs = Contract::dynamic("give_back", "", ours.input().clone(), output).unwrap();
    let found = ours.differences(&theirs).into_iter().filter(|one| one.side == Side::Output);
    found.map(|one| one.to_string()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_tool_without_an_output_schema_returns_text() {
    assert_eq!(given::<String>(None), "");
    assert_eq!(given::<Value>(None), "");
    assert_eq!(given::<()>(None), "");
    assert_eq!(given::<zoo::Ping>(None), "");
    let says_nothing = "output $: ours: takes an integer; theirs: has no output schema";
    assert_eq!(given::<i64>(None), says_nothing);
    let says_nothing =
        "output $: ours: takes one of `open`, `in-progress`, `done`; theirs: has no output schema";
    assert_eq!(given::<zoo::Status>(None), says_nothing);
}

#[test]
fn an_output_that_is_not_an_object_may_stand_in_a_field() {
    let wrapped = |schema: Value, required: Value| {
        Some(json!({"type": "object", "properties": {"result": schema}, "required": required}))
    };
    let texts = json!({"type": "array", "items": {"type": "string"}});
    assert_eq!(given::<Vec<String>>(wrapped(texts.clone(), json!(["result"]))), "");
    assert_eq!(given::<Vec<String>>(Some(texts.clone())), "");
    assert_eq!(given::<()>(wrapped(json!({"type": "null"}), json!(["result"]))), "");
    insta::assert_snapshot!(given::<Vec<String>>(wrapped(texts.clone(), json!([]))), @r#"output $.result: ours: is required; theirs: may be missing"#);
    insta::assert_snapshot!(given::<Vec<u64>>(wrapped(texts.clone(), json!(["result"]))), @r#"output $.result[]: ours: takes an integer; theirs: is a string"#);
    // Ours is an object, and so is what is in it.
    insta::assert_snapshot!(given::<zoo::Place>(wrapped(texts, json!(["result"]))), @r#"output $.city: ours: is required; theirs: has no such field"#);
    assert_eq!(given::<zoo::LikeResult>(wrapped(json!({"type": "string"}), json!(["result"]))), "");
}

#[test]
fn an_optional_null_is_removed_before_it_is_sent() {
    let ours = Contract::of::<SearchDocuments>().unwrap();
    let mut tool = search();
    let theirs = Contract::dynamic("search", "", tool["inputSchema"].take(), None).unwrap();
    let filters = vec![Filter::Author { name: "Woolf".to_owned() }];
    let input = SearchDocuments {
        query: "waves".to_owned(),
        limit: None,
        order: Order::Newest,
        filters,
        weights: BTreeMap::new(),
    };
    let sent = theirs.read::<Value>(&ours.write_input(&input).unwrap()).unwrap();
    insta::assert_snapshot!(sent, @r#"{"query":"waves","order":"newest","filters":[{"kind":"author","name":"Woolf"}],"weights":{}}"#);
    // An option in a union, in a list, in a map: wherever an object stands.
    let field = json!({"type": "object", "properties": {"x": {"type": "integer"}, "k": {"const": "k"}}, "required": ["k"]});
    let places = json!({"type": "object", "properties": {
        "list": {"type": "array", "items": field},
        "map": {"type": "object", "additionalProperties": field},
        "union": {"anyOf": [{"type": "string"}, field, {"type": "object", "properties": {"k": {"const": "l"}}, "required": ["k"]}]},
    }});
    let theirs = Contract::dynamic("places", "", places, None).unwrap();
    let wire = r#"{"list":[{"k":"k","x":null}],"map":{"a":{"k":"k","x":null}},"union":{"k":"k","x":null}}"#;
    insta::assert_snapshot!(theirs.read::<Value>(wire).unwrap(), @r#"{"list":[{"k":"k"}],"map":{"a":{"k":"k"}},"union":{"k":"k"}}"#);
}

#[test]
fn a_stored_contract_is_compared_by_what_it_reads() {
    let ours = Contract::of::<SearchDocuments>().unwrap();
    let stored = serde_json::to_string(&ours).unwrap();
    let stored: Contract = serde_json::from_str(&stored).unwrap();
    assert_eq!(lines(&stored, &served(&ours)), Vec::<String>::new());
    assert_eq!(lines(&ours, &stored), Vec::<String>::new());
}

/// The tools of all types, as a client imports them.
#[derive(Default, Clone)]
struct Served(Vec<(String, Contract)>);

impl Visitor for Served {
    fn visit<T: Specimen>(&mut self, case: &str) {
        self.0.push((case.to_owned(), served(&Contract::of::<Echo<T>>().unwrap())));
    }
}

/// Values that are rejected although the schemas fit, with the words of the error.
pub(crate) const SAID_TOO_LITTLE: [(&str, &str); 10] = [
    // The standard library closes its types, and schemars does not say so.
    ("ranges", "unknown field"),
    ("durations_and_times", "unknown field"),
    // An open member may have any content.
    ("union_with_a_tag_beside", "expected unit variant"),
    ("flattened_union_with_a_tag_beside", "expected unit variant"),
    // schemars gives keys of any length.
    ("map_with_letter_keys", "expected a character"),
    // A number that is no integer is read as a float, if it keeps all its digits.
    ("", "would lose digits as a float"),
    // An object with unknown fields only is a fault.
    ("", "expected some of `"),
    // Another field's name may be a slip of one that is absent: `stars` and `status`, `side`
    // and `size`.
    ("", "write the name as it is asked for"),
    ("union_that_overlaps with flattened_union", "expected an object with `name` or"),
    // Reading takes no value that two members fit, whatever the schema says.
    ("union_that_overlaps", "and also"),
];

/// Number of values for each pair without a difference.
const VALUES: usize = 5;

fn some(schema: &Value) -> Vec<Value> {
    let Some(values) = values_if_any(schema) else {
        return Vec::new();
    };
    let mut runner = TestRunner::deterministic();
    (0..VALUES).map(|_| values.new_tree(&mut runner).unwrap().current()).collect()
}

/// Without asking whether a second member of a `oneOf` fits too: nobody compares that.
fn validator(schema: &Value) -> Validator {
    validator_if_valid(schema).unwrap()
}

/// The same for a schema that may not be valid.
pub(crate) fn validator_if_valid(schema: &Value) -> Option<Validator> {
    let schema = schema.to_string().replace(r#""oneOf":"#, r#""anyOf":"#);
    let schema = serde_json::from_str(&schema).unwrap();
    jsonschema::options().should_validate_formats(true).build(&schema).ok()
}

/// Values as a type writes them.
fn written<T: Specimen>(ours: &Contract) -> Vec<Value> {
    let typed = |value| serde_json::from_value::<T>(value).ok();
    let values = some(ours.output_to_read().unwrap()).into_iter().filter_map(typed);
    values.filter_map(|typed| serde_json::to_value(typed).ok()).collect()
}

/// Checks with values that two contracts without a difference accept each other's values.
#[derive(Default)]
struct Promises {
    served: Served,
    compared: usize,
    values: usize,
    broken: Vec<String>,
}

impl Promises {
    fn pair<T: Specimen>(
        &mut self,
        case: &str,
        (ours, written): (&Contract, &[Value]),
        theirs: &Contract,
        sides: &[Side],
    ) {
        let found = ours.differences(theirs);
        self.compared += 1;
        let fits = |side| sides.contains(&side) && found.iter().all(|one| one.side != side);
        if fits(Side::Input) {
            self.input(case, written, theirs);
        }
        if fits(Side::Output) {
            self.output::<T>(case, ours, theirs);
        }
    }

    fn hold(&self) {
        println!("{} pairs, {} values", self.compared, self.values);
        assert!(self.broken.is_empty(), "{}", self.broken.join("\n"));
    }

    fn fails(&mut self, case: &str, value: &str, error: &str) {
        let known = |(of, part): &(&str, &str)| case.starts_with(of) && error.contains(part);
        if !SAID_TOO_LITTLE.iter().any(known) {
            self.broken.push(format!("{case}: {value}: {error}"));
        }
    }

    /// The other side accepts every value that this side writes.
    fn input(&mut self, case: &str, written: &[Value], theirs: &Contract) {
        let takes = validator(theirs.input());
        for value in written {
            let wire = json!({ "given": value }).to_string();
            self.values += 1;
            match theirs.read::<Value>(&wire) {
                Ok(sent) if takes.is_valid(&sent) => {}
                Ok(sent) => self.broken.push(format!("{case}: {wire} is sent as {sent}")),
                Err(error) => self.fails(case, &wire, &error.to_string()),
            }
        }
    }

    /// A new version that breaks nobody reads every input of the old one, and the old one every
    /// output of the new one.
    fn versions(&mut self, case: &str, old: &Contract, new: &Contract, side: Side) {
        let changes = ContractChange::between(from_ref(old), from_ref(new));
        let dependent = if side == Side::Input { Dependent::Inputs } else { Dependent::Outputs };
        if changes.iter().any(|change| change.breaks().contains(&dependent)) {
            return;
        }
        self.compared += 1;
        let (schema, reader) = match side {
            Side::Input => (old.input(), new),
            _ => (new.output_to_write().unwrap(), old),
        };
        let valid = validator(schema);
        for value in some(schema).into_iter().filter(|value| valid.is_valid(value)) {
            let text = value.to_string();
            self.values += 1;
            let read = match side {
                Side::Input => reader.read::<Value>(&text),
                _ => reader.read_output::<Value>(&text),
            };
            // What the old version did not read either is not lost.
            let was_read = || match side {
                Side::Input => old.read::<Value>(&text).is_ok(),
                _ => true,
            };
            if let Err(error) = read
                && was_read()
            {
                self.fails(&format!("{case}, a new version"), &text, &error.to_string());
            }
        }
    }

    /// This side reads every value that the other side may return.
    fn output<T: Specimen>(&mut self, case: &str, ours: &Contract, theirs: &Contract) {
        let gives = theirs.output_to_write().unwrap();
        let given = validator(gives);
        for value in some(gives).into_iter().filter(|value| given.is_valid(value)) {
            self.values += 1;
            if let Err(error) = ours.read_output::<T>(&value.to_string()) {
                self.fails(case, &value.to_string(), &error.to_string());
            }
        }
    }
}

impl Visitor for Promises {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let ours = Contract::of::<Echo<T>>().unwrap();
        let written = written::<T>(&ours);
        for (other, theirs) in &self.served.0.clone() {
            self.pair::<T>(
                &format!("{case} with {other}"),
                (&ours, &written),
                theirs,
                &[Side::Input, Side::Output],
            );
        }
    }
}

#[test]
fn contracts_without_differences_accept_each_others_values() {
    let mut promises = Promises::default();
    zoo::tour(&mut promises.served);
    zoo::tour(&mut promises);
    promises.hold();
}

/// The same for a tool and its copy with one change.
struct Changed(Promises);

impl Visitor for Changed {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let ours = Contract::of::<Echo<T>>().unwrap();
        let (written, tool) = (written::<T>(&ours), ours.tool(Dialect::Mcp).unwrap());
        let old = served(&ours);
        for (side, name) in [(Side::Input, "inputSchema"), (Side::Output, "outputSchema")] {
            for (what, changed) in changes(&tool[name]).into_iter().step_by(step()) {
                let (input, output) = match side {
                    Side::Input => (changed, None),
                    _ => (json!({"type": "object"}), Some(changed)),
                };
                // Some changes leave no schema, or nothing that fits it.
                if let Ok(theirs) = Contract::dynamic(old.name(), "", input, output) {
                    self.0.versions(&format!("{case}, {side} {what}"), &old, &theirs, side);
                    self.0.pair::<T>(
                        &format!("{case}, {side} {what}"),
                        (&ours, &written),
                        &theirs,
                        &[side],
                    );
                }
            }
        }
    }
}

/// One of this number of changes is checked.
fn step() -> usize {
    std::env::var("COMPARING_STEP").map_or(4, |step| step.parse().unwrap())
}

fn change(tour: impl Fn(&mut Changed)) {
    let mut changed = Changed(Promises::default());
    tour(&mut changed);
    changed.0.hold();
}

#[test]
fn a_change_of_plain_types_without_a_difference_keeps_every_value() {
    change(zoo::plain_tour);
}

#[test]
fn a_change_of_unions_without_a_difference_keeps_every_value() {
    change(zoo::union_tour);
}

#[test]
fn a_change_of_lists_and_maps_without_a_difference_keeps_every_value() {
    change(zoo::collection_tour);
}

#[test]
fn a_change_of_attributes_without_a_difference_keeps_every_value() {
    change(zoo::attribute_tour);
}

/// Schemas with one change each, and the change in words.
pub(crate) fn changes(schema: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for place in 0..count(schema) {
        let mut copy = schema.clone();
        let Some(Value::Object(node)) = nth(&mut copy, &mut { place }) else {
            continue;
        };
        let (node, at) = (node.clone(), place);
        for (what, changed) in edits(&node) {
            let mut copy = schema.clone();
            if let Some(place) = nth(&mut copy, &mut { place }) {
                *place = changed.into();
                all.push((format!("{at}: {what}"), copy));
            }
        }
    }
    all
}

type Node = serde_json::Map<String, Value>;

/// The changes of one node; data stays as it is.
fn edits(node: &Node) -> Vec<(String, Node)> {
    let mut all: Vec<(String, Node)> = Vec::new();
    let mut edit = |what: String, change: &dyn Fn(&mut Node)| {
        let mut changed = node.clone();
        change(&mut changed);
        if changed != *node {
            all.push((what, changed));
        }
    };
    // Without its only member it would not be a valid schema.
    let list = |word: &str| match node.get(word) {
        Some(Value::Array(all)) if all.len() > 1 || word == "required" => all.len(),
        _ => 0,
    };
    for word in ["required", "enum", "anyOf", "oneOf", "prefixItems"] {
        for index in 0..list(word).min(2) {
            edit(format!("without {word} {index}"), &|node| {
                node[word].as_array_mut().unwrap().remove(index);
            });
        }
    }
    let kind = node.get("type").and_then(Value::as_str).unwrap_or_default();
    if let Some(Value::Object(properties)) = node.get("properties") {
        for name in properties.keys() {
            edit(format!("without {name}"), &|node| {
                node["properties"].as_object_mut().unwrap().shift_remove(name);
                if let Some(Value::Array(required)) = node.get_mut("required") {
                    required.retain(|one| one != name);
                }
            });
            edit(format!("with {name} in capitals"), &|node| {
                let properties = node["properties"].as_object_mut().unwrap();
                let schema = properties.shift_remove(name).unwrap();
                properties.insert(name.to_uppercase(), schema);
                if let Some(Value::Array(required)) = node.get_mut("required") {
                    required.retain(|one| one != name);
                }
            });
            edit(format!("with {name} required"), &|node| {
                let required = node.entry("required").or_insert_with(|| json!([]));
                if let Some(required) = required.as_array_mut()
                    && !required.contains(&json!(name))
                {
                    required.push(json!(name));
                }
            });
        }
        edit("with a field".to_owned(), &|node| {
            node["properties"]["added"] = json!({"type": "string"});
        });
    }
    if !kind.is_empty() || node.contains_key("type") {
        for other in [
            json!("string"),
            json!("integer"),
            json!("number"),
            json!("null"),
            json!([kind, "null"]),
        ] {
            edit(format!("of type {other}"), &|node| {
                if !kind.is_empty() || !other.is_array() {
                    node["type"] = other.clone();
                }
            });
        }
    }
    let bounds = [
        ("integer", "minimum", json!(5)),
        ("integer", "maximum", json!(5)),
        ("integer", "multipleOf", json!(2)),
        ("number", "minimum", json!(-1)),
        ("number", "exclusiveMaximum", json!(1)),
        ("string", "minLength", json!(2)),
        ("string", "maxLength", json!(2)),
        ("string", "pattern", json!("^[a-z]{2}$")),
        ("string", "const", json!("a")),
        ("array", "minItems", json!(1)),
        ("array", "maxItems", json!(1)),
        ("array", "uniqueItems", json!(true)),
        ("array", "items", json!({"type": "integer"})),
        ("object", "additionalProperties", json!(false)),
        ("object", "additionalProperties", json!({"type": "integer"})),
        ("object", "propertyNames", json!({"maxLength": 2})),
        ("object", "maxProperties", json!(1)),
        ("object", "minProperties", json!(1)),
    ];
    for (of, word, value) in bounds {
        let nothing_left = match word.split_at(3) {
            ("min", of) => {
                node.get(&format!("max{of}")).is_some_and(|most| most.as_f64() < value.as_f64())
            }
            ("max", of) => {
                node.get(&format!("min{of}")).is_some_and(|least| least.as_f64() > value.as_f64())
            }
            _ => word == "exclusiveMaximum" && node.contains_key("minimum"),
        };
        if kind == of && !nothing_left {
            edit(format!("with {word} {value}"), &|node| {
                drop(node.insert(word.into(), value.clone()))
            });
            edit(format!("without {word}"), &|node| drop(node.shift_remove(word)));
        }
    }
    all
}

/// The default stack of a thread.
const STACK: usize = 2 * 1024 * 1024;

/// Compares two inputs both ways, and gives the last line of each.
fn survive(one: Value, other: Value) -> [String; 2] {
    let compare = move || {
        let contract = |input| Contract::dynamic("take", "", input, None).unwrap();
        let (one, other) = (contract(one), contract(other));
        [(&one, &other), (&other, &one)].map(|(ours, theirs)| {
            let all = lines(ours, theirs);
            assert!(all.len() <= 51, "{}", all.len());
            assert!(all.iter().all(|line| line.len() < 1_000), "{all:?}");
            all.last().cloned().unwrap_or_default()
        })
    };
    std::thread::Builder::new().stack_size(STACK).spawn(compare).unwrap().join().unwrap()
}

/// An object with a field of a definition, and definitions, each made of its number.
fn defined(count: usize, make: impl Fn(usize) -> Value) -> Value {
    let definitions: Map<_, _> = (0..count).map(|i| (format!("d{i}"), make(i))).collect();
    json!({"type": "object", "properties": {"a": to(0)}, "required": ["a"], "$defs": definitions})
}

fn to(i: usize) -> Value {
    json!({"$ref": format!("#/$defs/d{i}")})
}

/// Found with generated pairs: an object of one null was read as an object of no field.
#[test]
fn a_null_that_is_left_out_does_not_count_as_a_field() {
    let one = |kind: Value| {
        let fields = json!({"b": {"type": kind}});
        json!({"type": "object", "properties": fields, "minProperties": 1})
    };
    let found = survive(one(json!(["integer", "null"])), one(json!("integer")));
    assert_eq!(found, ["input $: ours: may have 0 fields; theirs: takes at least 1", ""]);
}

#[test]
fn recursive_schemas_are_compared() {
    let list = |length: usize| {
        defined(length, |i| {
            json!({"type": "object", "properties": {
                "value": {"type": "integer"},
                "next": {"anyOf": [to((i + 1) % length), {"type": "null"}]},
            }, "required": ["value"]})
        })
    };
    // The same values, however many definitions they take.
    assert_eq!(survive(list(1), list(7)), ["", ""]);
    let mut texts = list(5);
    texts["$defs"]["d3"]["properties"]["value"] = json!({"type": ["string", "integer"]});
    let found = "input $.a.next.next.next.value: ours: may be a string; theirs: takes an integer";
    assert_eq!(survive(texts, list(1)), [found, ""]);
}

#[test]
fn a_union_that_is_its_own_member_accepts_only_what_its_other_members_accept() {
    let own = |kind: &str| {
        let member = json!({"type": kind});
        defined(2, move |i| json!({"anyOf": [to(1 - i), member.clone()]}))
    };
    assert!(!survive(own("string"), own("integer"))[0].is_empty());
    let text = defined(1, |_| json!({"type": "string"}));
    assert!(!survive(text.clone(), own("integer"))[0].is_empty());
    assert_eq!(survive(text, own("string"))[0], "");
}

#[test]
fn comparing_two_large_schemas_takes_bounded_time() {
    // Each path through it is a different one.
    let twice = |kind: &str| {
        let kind = json!({"type": kind});
        defined(40, move |i| match i {
            39 => kind.clone(),
            _ => json!({"type": "object", "properties": {"x": to(i + 1), "y": to(i + 1)}}),
        })
    };
    assert_eq!(survive(twice("string"), twice("string")), ["", ""]);
    assert!(survive(twice("string"), twice("integer"))[0].contains("takes an integer"));

    // Unions of unions, of which none fits.
    let unions = |text: &str| {
        let last = json!({"const": text});
        defined(30, move |i| match i {
            29 => last.clone(),
            _ => json!({"anyOf": [
                {"type": "object", "properties": {"x": to(i + 1)}, "required": ["x"]},
                {"type": "object", "properties": {"x": to(i + 1), "y": {"type": "null"}}, "required": ["x"]},
                {"type": "array", "items": to(i + 1)},
            ]}),
        })
    };
    assert!(!survive(unions("a"), unions("b"))[0].is_empty());

    // Two circles that meet again after a million steps.
    let circle = |length: usize| {
        defined(
            length,
            move |i| json!({"type": "object", "properties": {"next": to((i + 1) % length)}}),
        )
    };
    let found = survive(circle(997), circle(1009));
    assert!(found[0].contains("too deep"), "{found:?}");

    let many = |names: usize, kind: &str| {
        let fields: Map<_, _> =
            (0..names).map(|i| (format!("p{i}"), json!({"type": kind}))).collect();
        let names: Vec<_> = fields.keys().cloned().collect();
        json!({"type": "object", "properties": fields, "required": names})
    };
    assert!(survive(many(20_000, "string"), many(20_000, "integer"))[0].contains("$.p49"));
    // Equal schemas are not compared.
    let mut other = many(35_000, "string");
    other["properties"]["p0"]["description"] = json!("Another word.");
    let found = survive(many(35_000, "string"), other);
    assert!(found[0].ends_with("is too large to be compared in full"), "{found:?}");

    let any_of = |count: usize, of: fn(usize) -> Value| {
        let members: Vec<_> = (0..count).map(of).collect();
        json!({"type": "object", "properties": {"a": {"anyOf": members}}, "required": ["a"]})
    };
    let tagged =
        |i: usize| json!({"type": "object", "properties": {"k": {"const": i}}, "required": ["k"]});
    assert_eq!(survive(any_of(5_000, tagged), any_of(5_000, tagged)), ["", ""]);
    let others = |i: usize| json!({"type": "object", "properties": {"k": {"const": i + 9_999}}, "required": ["k"]});
    assert!(!survive(any_of(5_000, tagged), any_of(5_000, others))[0].is_empty());

    let values = |from: usize, step: f64| {
        let values: Vec<_> = (from..from + 20_000).map(|i| json!(i as f64 * step)).collect();
        json!({"type": "object", "properties": {"a": {"enum": values}}, "required": ["a"]})
    };
    assert!(survive(values(0, 1.0), values(30_000, 0.5))[0].contains("may be 0.0, 1.0"));

    let wide = defined(4, |i| match i {
        3 => json!({"const": "ü".repeat(200)}),
        _ => json!({"anyOf": (0..9).map(|n| {
            let name = format!("{n}").repeat(300);
            json!({"type": "object", "properties": {name.clone(): to(i + 1)}, "required": [name]})
        }).chain([to(i + 1)]).collect::<Vec<_>>()}),
    });
    assert!(survive(wide, defined(1, |_| json!({"type": "string"})))[1].contains('…'));

    let long = json!({"type": "object", "properties": {"x".repeat(1 << 20): {"type": "string"}}});
    let other = json!({"type": "object", "properties": {"x".repeat(1 << 20): {"type": "null"}}});
    assert!(!survive(long, other)[0].is_empty());
}

#[test]
fn at_most_50_differences_are_listed() {
    let many = |kind: &str| {
        let fields: Map<_, _> = (0..60).map(|i| (format!("p{i}"), json!({"type": kind}))).collect();
        json!({"type": "object", "properties": fields})
    };
    let contract = |kind| Contract::dynamic("take", "", many(kind), None).unwrap();
    assert_eq!(contract("string").differences(&contract("integer")).len(), 50);
}

/// Pairs of schemas with a value that fits the first and not the second.
fn narrowed() -> Vec<(&'static str, Value, Value, Value)> {
    let refers = |beside: Value| {
        let mut schema = json!({
            "$defs": {
                "A": {"type": "object", "properties": {"a": {"type": "integer"}}},
                "B": {"type": "object", "properties": {"c": {"type": "integer"}}},
            },
        });
        schema["properties"] = json!({ "v": beside });
        schema
    };
    let open = json!({
        "type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": true,
    });
    let below = |schema: Value| json!({"type": "object", "properties": {"v": schema}});
    let fields = |mut schema: Value, both: &Value| {
        schema["type"] = json!("object");
        schema["properties"]["a"] = json!({"type": "integer"});
        schema.as_object_mut().unwrap().extend(both.as_object().unwrap().clone());
        schema
    };
    let nulls = |rule: Value| {
        let before = json!({
            "properties": {"b": {"type": ["integer", "null"]}}, "required": ["a", "b"],
        });
        let now = json!({"properties": {"b": {"type": "integer"}}, "required": ["a"]});
        (fields(before, &rule), fields(now, &rule), json!({"a": 1, "b": null}))
    };
    let (needs, needs_now, null) = nulls(json!({"dependentRequired": {"a": ["b"]}}));
    let (then, then_now, _) =
        nulls(json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}}));
    vec![
        (
            "unevaluated beside a reference",
            below(open.clone()),
            refers(json!({"$ref": "#/$defs/A", "unevaluatedProperties": false})),
            json!({"v": {"a": 1, "b": 1}}),
        ),
        (
            "unevaluated beside references",
            below(open),
            refers(json!({
                "anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}],
                "unevaluatedProperties": false,
            })),
            json!({"v": {"a": 1, "b": 1}}),
        ),
        (
            "a name that matches two patterns",
            json!({"type": "object", "patternProperties": {"^x-": {"type": "string"}}}),
            json!({"type": "object", "patternProperties": {
                "^x-": {"type": "string"}, "-id$": {"type": "string", "pattern": "^[0-9]+$"},
            }}),
            json!({"x-id": "abc"}),
        ),
        (
            "a declared field that a pattern matches",
            below(json!({"type": "object", "properties": {"a": {"type": "integer"}}})),
            below(json!({
                "type": "object", "properties": {"a": {"type": "integer"}},
                "patternProperties": {"^a": {"maximum": 1}},
            })),
            json!({"v": {"a": 5}}),
        ),
        (
            "fields of several members",
            below(json!({"anyOf": [
                {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]},
            ]})),
            below(json!({"unevaluatedProperties": false, "anyOf": [
                {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"], "maxProperties": 1},
            ]})),
            json!({"v": {"a": 1, "b": 1}}),
        ),
        (
            "rules beside listed lists",
            below(json!({"type": "array", "enum": [[1], [2, 3]]})),
            below(json!({"type": "array", "enum": [[1], [2, 3]], "maxItems": 1})),
            json!({"v": [2, 3]}),
        ),
        (
            "rules beside listed objects",
            below(json!({"enum": [{"a": 1}, {"b": 2}]})),
            below(json!({"enum": [{"a": 1}, {"b": 2}], "required": ["a"]})),
            json!({"v": {"b": 2}}),
        ),
        ("a null that another field asks for", needs, needs_now, null.clone()),
        ("a null that a rule asks for", then, then_now, null),
        (
            "fewest of a kind",
            below(json!({"type": "array", "contains": {"type": "integer"}, "minContains": 0})),
            below(json!({"type": "array", "contains": {"type": "integer"}})),
            json!({"v": []}),
        ),
        (
            "unevaluated items",
            below(json!({
                "type": "array", "unevaluatedItems": false,
                "prefixItems": [{"type": "integer"}, {"type": "integer"}],
            })),
            below(json!({
                "type": "array", "prefixItems": [{"type": "integer"}], "unevaluatedItems": false,
            })),
            json!({"v": [1, 2]}),
        ),
        (
            "a closed object and patterns",
            below(json!({
                "type": "object", "properties": {"c": {"type": "integer"}},
                "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": false,
            })),
            below(json!({"allOf": [
                {
                    "type": "object", "properties": {"c": {"type": "integer"}},
                    "additionalProperties": false,
                },
                {"type": "object", "patternProperties": {"^x": {"type": "integer"}}},
            ]})),
            json!({"v": {"x1": 1}}),
        ),
        (
            "members that may fit both",
            below(json!({"anyOf": [
                {"type": "object", "properties": {"q": {"type": "string"}}},
                {"type": "object", "properties": {"id": {"type": "integer"}}},
            ]})),
            below(json!({"oneOf": [
                {"type": "object", "properties": {"q": {"type": "string"}}},
                {"type": "object", "properties": {"id": {"type": "integer"}}},
            ]})),
            json!({"v": {"q": "a"}}),
        ),
        (
            "a name that is excluded",
            below(json!({"enum": [{"long": 1}]})),
            below(json!({
                "enum": [{"long": 1}], "properties": {"long": {"type": "integer"}},
                "propertyNames": {"maxLength": 2},
            })),
            json!({"v": {"long": 1}}),
        ),
        (
            "a null below, that a rule asks for",
            below(json!({
                "type": "object",
                "properties": {"o": {"type": "object", "properties": {
                    "b": {"type": ["integer", "null"]},
                }, "required": ["b"]}},
                "required": ["o"],
                "not": {"properties": {"o": {"not": {"required": ["b"]}}}, "required": ["o"]},
            })),
            below(json!({
                "type": "object",
                "properties": {"o": {"type": "object", "properties": {"b": {"type": "integer"}}}},
                "required": ["o"],
                "not": {"properties": {"o": {"not": {"required": ["b"]}}}, "required": ["o"]},
            })),
            json!({"v": {"o": {"b": null}}}),
        ),
    ]
}

#[test]
fn a_narrower_schema_is_reported_on_both_sides_and_read_as_it_says() {
    let object = || json!({"type": "object"});
    for (case, wide, narrow, value) in narrowed() {
        let contract =
            |input, output| Contract::dynamic("tool", "", input, Some(output)).expect(case);
        for (before, now, side) in [
            (contract(wide.clone(), object()), contract(narrow.clone(), object()), Side::Input),
            (contract(object(), narrow.clone()), contract(object(), wide.clone()), Side::Output),
        ] {
            let found = ContractChange::between(&[before], &[now]);
            let breaks = found.iter().any(|change| !change.breaks().is_empty());
            assert!(breaks, "{case}, {side}: {found:?}");
        }
        // The same schema breaks nothing.
        for schema in [&wide, &narrow] {
            let twice = [1, 2].map(|number| {
                let mut schema = schema.clone();
                schema["description"] = json!(format!("Version {number}."));
                contract(schema, object())
            });
            let [before, now] = twice;
            let found = ContractChange::between(&[before], &[now]);
            let breaks = found.iter().any(|change| !change.breaks().is_empty());
            assert!(!breaks, "{case}: {found:?}");
        }
        let read = contract(narrow.clone(), object()).read::<Value>(&value.to_string());
        // Reading does not know `if`: it takes out the null, and the implementation refuses the call. It
        // takes a value that several members of `oneOf` fit.
        if narrow.get("if").is_some() || narrow.to_string().contains("oneOf") {
            continue;
        }
        let accepted = read.map(|value| jsonschema::is_valid(&narrow, &value));
        assert_ne!(accepted.ok(), Some(false), "{case}: read as a value that the schema refuses");
    }
}

/// A tree closed at each level: its definition is closed too, which is a further definition.
#[test]
fn unevaluated_properties_hold_at_each_level_of_a_tree() {
    let tree = |closed: Value| {
        let mut below = json!({"$ref": "#/$defs/Tree"});
        if let Some(rest) = closed.as_bool() {
            below["unevaluatedProperties"] = json!(rest);
        }
        json!({
            "type": "object", "properties": {"v": below},
            "$defs": {"Tree": {"type": "object", "properties": {
                "name": {"type": "string"}, "below": below,
            }}},
        })
    };
    let contract = |schema| Contract::dynamic("take", "", schema, None).unwrap();
    let closed = contract(tree(json!(false)));
    let deep = r#"{"v":{"name":"a","below":{"below":{"name":"c"}}}}"#;
    closed.read::<Value>(deep).unwrap();
    for unknown in [r#"{"v":{"x":1}}"#, r#"{"v":{"below":{"below":{"name":"c","x":1}}}}"#] {
        assert!(closed.read::<Value>(unknown).is_err(), "{unknown}");
    }
    let open = contract(tree(json!(true)));
    assert_eq!(lines(&closed, &open), [""; 0]);
    assert_ne!(lines(&open, &closed), [""; 0]);
    // A definition that is its own member.
    let circle = json!({
        "type": "object",
        "properties": {"v": {"$ref": "#/$defs/A", "unevaluatedProperties": false}},
        "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "object"}]}},
    });
    let circle = contract(circle);
    circle.read::<Value>(r#"{"v":{}}"#).unwrap();
    assert!(circle.read::<Value>(r#"{"v":{"x":1}}"#).is_err());
}

/// Reading infers a type for a member without one, and moves `unevaluatedProperties` into the members.
/// For a validator, the members overlap more.
#[test]
fn a_one_of_that_excludes_more_than_reading_does_is_reported() {
    let a = || json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let b =
        || json!({"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]});
    let integer = || json!({"type": "integer"});
    for (wide, narrow) in [
        // 1 fits both members.
        (integer(), json!({"oneOf": [integer(), {"prefixItems": [integer()]}]})),
        // So does {"b": 1}.
        (
            json!({"anyOf": [a(), b()], "unevaluatedProperties": false}),
            json!({"oneOf": [a(), b()], "unevaluatedProperties": false}),
        ),
    ] {
        let contract = |v: &Value| {
            let input = json!({"type": "object", "properties": {"v": v}, "required": ["v"]});
            Contract::dynamic("tool", "", input, None).unwrap()
        };
        let breaks = |old: &Value, new: &Value| {
            let found = ContractChange::between(&[contract(old)], &[contract(new)]);
            found.iter().any(|change| !change.breaks().is_empty())
        };
        assert!(breaks(&wide, &narrow), "{narrow}");
        assert!(!breaks(&narrow, &narrow), "{narrow}");
    }
}
