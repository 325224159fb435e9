//! What keeps a contract from standing in for another.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test is a test too, which clippy.toml cannot know"
)]

mod zoo;

use jsonschema::Validator;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use toolwright_signature::{Contract, Dialect, Side, Signature};

use zoo::generate::values_if_any;
use zoo::mistakes::{count, nth};
use zoo::{Bare, Echo, Specimen, Visitor};

/// What a client makes of a tool as this crate shows it over MCP.
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

/// But for types that do not read what they write: serde itself could not.
#[test]
fn a_tool_of_ours_stands_in_for_itself() {
    let mut again = Again(Vec::new());
    zoo::tour(&mut again);
    again.0.dedup();
    insta::assert_snapshot!(again.0.join("\n"), @r"
enum_half_hidden: input $.given: ours may be `only_written`, theirs takes one of `both`, `only_read`, `present`
enum_half_hidden: output $.result: ours takes one of `both`, `only_read`, `present`, theirs may be `only_written`
read_and_written_differ: input $.given.only_read: ours has no such field, theirs is required
read_and_written_differ: input $.given.read: ours has no such field, theirs is required
read_and_written_differ: output $.only_read: ours is required, theirs has no such field
read_and_written_differ: output $.read: ours is required, theirs has no such field
read_and_written_differ: input $.only_read: ours has no such field, theirs is required
read_and_written_differ: input $.read: ours has no such field, theirs is required
read_and_written_differ: output $.only_read: ours is required, theirs has no such field
read_and_written_differ: output $.read: ours is required, theirs has no such field
converted: input $.given.said: ours is an object with `words`, theirs takes a string
converted: output $.said: ours takes a string, theirs is an object with `words`
converted: input $.said: ours is an object with `words`, theirs takes a string
converted: output $.said: ours takes a string, theirs is an object with `words`
");
}

/// The served tools of all types.
#[derive(Default, Clone)]
struct Served(Vec<(String, Contract)>);

impl Visitor for Served {
    fn visit<T: Specimen>(&mut self, case: &str) {
        self.0.push((case.to_owned(), served(&Contract::of::<Echo<T>>().unwrap())));
    }
}

/// Where values do not go through though the schemas fit, and what reading says then.
const SAID_TOO_LITTLE: [(&str, &str); 7] = [
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
    // Reading takes no value that two members fit, whatever the schema says.
    ("union_that_overlaps", "and also"),
];

/// How many values go through each pair that has no difference.
const VALUES: usize = 8;

fn some(schema: &Value) -> Vec<Value> {
    let Some(values) = values_if_any(schema) else {
        return Vec::new();
    };
    let mut runner = TestRunner::deterministic();
    (0..VALUES).map(|_| values.new_tree(&mut runner).unwrap().current()).collect()
}

/// Without asking whether a second member of a `oneOf` fits too: nobody compares that.
fn validator(schema: &Value) -> Validator {
    let schema = schema.to_string().replace(r#""oneOf":"#, r#""anyOf":"#);
    jsonschema::options()
        .should_validate_formats(true)
        .build(&serde_json::from_str(&schema).unwrap())
        .unwrap()
}

/// Values as a type writes them.
fn written<T: Specimen>(ours: &Contract) -> Vec<Value> {
    let typed = |value| serde_json::from_value::<T>(value).ok();
    let values = some(ours.output_to_read().unwrap()).into_iter().filter_map(typed);
    values.filter_map(|typed| serde_json::to_value(typed).ok()).collect()
}

/// What a comparison without a difference promises, put to the test with values.
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

    /// All that is written of a type is taken by the other side.
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

    /// All that the other side may give is read.
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
fn where_nothing_differs_every_value_goes_through() {
    let mut promises = Promises::default();
    zoo::tour(&mut promises.served);
    zoo::tour(&mut promises);
    promises.hold();
}

/// The same with a type's own tool, one thing of which was changed.
struct Changed(Promises);

impl Visitor for Changed {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let ours = Contract::of::<Echo<T>>().unwrap();
        let (written, tool) = (written::<T>(&ours), ours.tool(Dialect::Mcp).unwrap());
        for (side, name) in [(Side::Input, "inputSchema"), (Side::Output, "outputSchema")] {
            for (what, changed) in changes(&tool[name]) {
                let mut tool = tool.clone();
                tool[name] = changed;
                let (input, output) = (tool["inputSchema"].take(), tool["outputSchema"].take());
                // Some changes leave no schema, or nothing that fits it.
                if let Ok(theirs) = Contract::dynamic("changed", "", input, Some(output)) {
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

fn change(tour: impl Fn(&mut Changed)) {
    let mut changed = Changed(Promises::default());
    tour(&mut changed);
    changed.0.hold();
}

#[test]
fn where_a_change_of_plain_types_makes_no_difference_every_value_goes_through() {
    change(zoo::plain_tour);
}

#[test]
fn where_a_change_of_unions_makes_no_difference_every_value_goes_through() {
    change(zoo::union_tour);
}

#[test]
fn where_a_change_of_lists_and_maps_makes_no_difference_every_value_goes_through() {
    change(zoo::collection_tour);
}

#[test]
fn where_a_change_of_what_attributes_say_makes_no_difference_every_value_goes_through() {
    change(zoo::attribute_tour);
}

/// Schemas in which one thing was changed, and what that was.
fn changes(schema: &Value) -> Vec<(String, Value)> {
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

/// One thing changed in one node; what is no schema stays as it is.
fn edits(node: &Node) -> Vec<(String, Node)> {
    let mut all: Vec<(String, Node)> = Vec::new();
    let mut edit = |what: String, change: &dyn Fn(&mut Node)| {
        let mut changed = node.clone();
        change(&mut changed);
        if changed != *node {
            all.push((what, changed));
        }
    };
    // Of one thing, none would be left, and that is no schema.
    let list = |word: &str| match node.get(word) {
        Some(Value::Array(all)) if all.len() > 1 || word == "required" => all.len(),
        _ => 0,
    };
    for word in ["required", "enum", "anyOf", "oneOf", "prefixItems"] {
        for index in 0..list(word).min(3) {
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
        ("object", "additionalProperties", json!(true)),
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
