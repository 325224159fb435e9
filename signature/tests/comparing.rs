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

use zoo::generate::values;
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
#[derive(Default)]
struct Served(Vec<(String, Contract)>);

impl Visitor for Served {
    fn visit<T: Specimen>(&mut self, case: &str) {
        self.0.push((case.to_owned(), served(&Contract::of::<Echo<T>>().unwrap())));
    }
}

/// How many values go through each pair that has no difference.
const VALUES: usize = 12;

fn some(schema: &Value) -> Vec<Value> {
    let (values, mut runner) = (values(schema), TestRunner::deterministic());
    (0..VALUES).map(|_| values.new_tree(&mut runner).unwrap().current()).collect()
}

fn validator(schema: &Value) -> Validator {
    jsonschema::options().build(schema).unwrap()
}

/// What a comparison without a difference promises, put to the test with values.
struct Promises<'a> {
    served: &'a Served,
    compared: usize,
    values: usize,
    broken: Vec<String>,
}

impl Promises<'_> {
    /// All that is written of a type is taken by the other side.
    fn input<T: Specimen>(&mut self, case: &str, theirs: &Contract) {
        let read = Contract::of::<Echo<T>>().unwrap();
        let takes = validator(theirs.input());
        for value in some(read.output_to_read().unwrap()) {
            let Ok(typed) = serde_json::from_value::<T>(value) else {
                continue;
            };
            let Ok(wire) = serde_json::to_string(&json!({"given": typed})) else {
                continue;
            };
            self.values += 1;
            match theirs.read::<Value>(&wire) {
                Ok(sent) if takes.is_valid(&sent) => {}
                Ok(sent) => self.broken.push(format!("{case}: {wire} is sent as {sent}")),
                Err(error) => self.broken.push(format!("{case}: {wire}: {error}")),
            }
        }
    }

    /// All that the other side may give is read.
    fn output<T: Specimen>(&mut self, case: &str, ours: &Contract, theirs: &Contract) {
        for value in some(theirs.output_to_write().unwrap()) {
            self.values += 1;
            if let Err(error) = ours.read_output::<T>(&value.to_string()) {
                self.broken.push(format!("{case}: {value}: {error}"));
            }
        }
    }
}

impl Visitor for Promises<'_> {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let ours = Contract::of::<Echo<T>>().unwrap();
        for (other, theirs) in &self.served.0 {
            let case = format!("{case} with {other}");
            let found = ours.differences(theirs);
            self.compared += 1;
            if found.iter().all(|one| one.side != Side::Input) {
                self.input::<T>(&case, theirs);
            }
            if found.iter().all(|one| one.side != Side::Output) {
                self.output::<T>(&case, &ours, theirs);
            }
        }
    }
}

#[test]
fn where_nothing_differs_every_value_goes_through() {
    let mut served = Served::default();
    zoo::tour(&mut served);
    let mut promises = Promises { served: &served, compared: 0, values: 0, broken: Vec::new() };
    zoo::tour(&mut promises);
    println!("{} pairs, {} values", promises.compared, promises.values);
    assert!(promises.broken.is_empty(), "{}", promises.broken.join("\n"));
}
