//! A value that is lowered and read is the same value again.
//!
//! The tests check every type of the zoo in every dialect, as an input, as a field of an input
//! and as an output. With more values than in a normal run:
//!
//! ```sh
//! ROUND_TRIP_VALUES=10000 cargo test --release -p toolwright-signature --test main -- round_trip:: --nocapture
//! ```

use jsonschema::Validator;
use proptest::strategy::{BoxedStrategy, Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use toolwright_signature::{Contract, ContractError, Dialect, Policy, Repair};

use crate::zoo::generate::{smallest, values};
use crate::zoo::{self, Bare, Echo, Specimen, Visitor};

/// Types and dialects whose values cannot come back, and why. Lowering reports each as a loss.
const LOST: [(&str, Dialect, &str); 1] = [(
    "absent_null_and_value",
    Dialect::OpenAiStrict,
    "every field is required, so absent is null, and here null is a value of its own",
)];

/// Types with values that fit two members of a union: reading rejects them, and serde takes the
/// first.
const TWO_FIT: [&str; 1] = ["union_that_overlaps"];

/// Number of values of each type for each dialect.
fn count() -> usize {
    std::env::var("ROUND_TRIP_VALUES").map_or(200, |count| count.parse().unwrap())
}

/// Where the value stands in its contract.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Field,
    Root,
    Output,
}

/// One type in one place of one contract, as one dialect has it.
struct Pair<'a> {
    contract: &'a Contract,
    place: Place,
    dialect: Dialect,
    lowered: Validator,
}

impl<'a> Pair<'a> {
    /// None if the dialect rejects the type.
    fn new(contract: &'a Contract, place: Place, dialect: Dialect) -> Option<Self> {
        let lowered = match place {
            Place::Output => contract.lower_output(dialect),
            _ => contract.lower(dialect),
        };
        let schema: Value = serde_json::from_str(lowered.ok()?.schema.get()).unwrap();
        Some(Self { contract, place, dialect, lowered: validator(&schema) })
    }

    fn render(&self, value: &Value) -> Result<Value, ContractError> {
        match self.place {
            Place::Field => self.contract.lower_value(self.dialect, &json!({"given": value})),
            Place::Root => self.contract.lower_value(self.dialect, value),
            Place::Output => self.contract.lower_output_value(self.dialect, value),
        }
    }

    /// The value that the type writes after reading.
    fn read<T: Specimen>(
        &self,
        wire: &str,
        policy: Policy,
    ) -> Result<(Value, String), ContractError> {
        let contract = self.contract;
        Ok(match self.place {
            Place::Field => {
                let reading = contract.read_with::<Echo<T>>(wire, policy)?;
                (json!(reading.value)["given"].take(), told(&reading.repairs))
            }
            Place::Root => {
                let reading = contract.read_with::<Bare<T>>(wire, policy)?;
                (json!(reading.value), told(&reading.repairs))
            }
            Place::Output => {
                let reading = contract.read_output_with::<T>(wire, policy)?;
                (json!(reading.value), told(&reading.repairs))
            }
        })
    }

    /// Lowers and reads a value; returns what went wrong.
    fn trip<T: Specimen>(&self, sample: &Sample) -> Result<(), String> {
        let given = match (self.place, self.dialect) {
            // A tool returns what serde writes, which may differ from what serde reads.
            (Place::Output, Dialect::Mcp) => &sample.written,
            _ => &sample.given,
        };
        let rendered = self.render(given).map_err(|error| format!("lowering: {error}"))?;
        if let Err(error) = self.lowered.validate(&rendered) {
            return Err(format!("lowering: {rendered} does not fit: {error}"));
        }
        if *given != sample.given {
            return Ok(());
        }
        let wire = rendered.to_string();
        let policies: &[Policy] = match sample.laxly {
            true => &[Policy::Strict, Policy::Coerce],
            false => &[Policy::Strict],
        };
        for policy in policies.iter().copied() {
            let (back, repairs) = self
                .read::<T>(&wire, policy)
                .map_err(|error| format!("reading {wire}, {policy:?}: {error}"))?;
            if !same(&back, &sample.written) {
                return Err(format!("reading {wire}, {policy:?}: became {back}"));
            }
            if !repairs.is_empty() {
                return Err(format!("reading {wire}, {policy:?}: was repaired ({repairs})"));
            }
        }
        Ok(())
    }
}

impl Pair<'_> {
    fn fails<T: Specimen>(&self, case: &str, sample: &Sample) -> bool {
        self.trip::<T>(sample)
            .is_err_and(|why| !(TWO_FIT.contains(&case) && why.contains("and also")))
    }
}

/// A value as a model may give it, and as the type writes it.
struct Sample {
    given: Value,
    written: Value,
    /// Whether to read it with the default policy too, which must give the same value.
    laxly: bool,
}

impl Sample {
    /// None if serde rejects what the schema accepts; `agreement.rs` lists such values.
    fn new<T: Specimen>(to_read: &Validator, value: Value) -> Option<Self> {
        let written = written::<T>(&value)?;
        // As the type writes it, where that can be read again.
        if to_read.is_valid(&written) {
            let again = self::written::<T>(&written)?;
            return Some(Self { given: written, written: again, laxly: true });
        }
        Some(Self { given: value, written, laxly: true })
    }
}

fn written<T: Specimen>(value: &Value) -> Option<Value> {
    serde_json::to_value(serde_json::from_value::<T>(value.clone()).ok()?).ok()
}

fn validator(schema: &Value) -> Validator {
    jsonschema::options().should_validate_formats(true).build(schema).unwrap()
}

/// Whether two values are equal, except for the order of lists, which a hash set does not keep.
fn same(one: &Value, other: &Value) -> bool {
    one == other || sorted(one) == sorted(other)
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(list) => {
            let mut list: Vec<Value> = list.iter().map(sorted).collect();
            list.sort_by_cached_key(Value::to_string);
            list.into()
        }
        Value::Object(map) => {
            map.iter().map(|(name, value)| (name.clone(), sorted(value))).collect()
        }
        other => other.clone(),
    }
}

#[derive(Default)]
struct RoundTrips {
    pairs: usize,
    values: usize,
    failures: Vec<String>,
}

impl Visitor for RoundTrips {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let echo = Contract::of::<Echo<T>>().unwrap();
        let bare = Contract::of::<Bare<T>>().ok();
        let read = echo.output_to_read().unwrap();
        let (to_read, values) = (validator(read), values(read));
        let mut runner = TestRunner::deterministic();
        let samples: Vec<Sample> = (0..count())
            .map(|_| values.new_tree(&mut runner).unwrap().current())
            .filter_map(|value| Sample::new::<T>(&to_read, value))
            .enumerate()
            .map(|(index, sample)| Sample { laxly: index % 5 == 0, ..sample })
            .collect();
        let places = [
            (Place::Field, Some(&echo)),
            (Place::Root, bare.as_ref()),
            (Place::Output, Some(&echo)),
        ];
        for (place, contract) in places {
            let pairs = contract.into_iter().flat_map(|contract| {
                Dialect::ALL
                    .into_iter()
                    .filter_map(move |dialect| Pair::new(contract, place, dialect))
            });
            for pair in pairs {
                if LOST.iter().any(|(lost, dialect, _)| *lost == case && *dialect == pair.dialect) {
                    continue;
                }
                self.pairs += 1;
                self.values += samples.len();
                if samples.iter().any(|sample| pair.fails::<T>(case, sample)) {
                    self.failures.push(failure::<T>(case, &pair, &to_read, &values));
                }
            }
        }
    }
}

/// Describes a failure with the smallest value that fails.
fn failure<T: Specimen>(
    case: &str,
    pair: &Pair<'_>,
    to_read: &Validator,
    values: &BoxedStrategy<Value>,
) -> String {
    let trip = |value: &Value| match Sample::new::<T>(to_read, value.clone()) {
        Some(sample) => pair.trip::<T>(&sample),
        None => Ok(()),
    };
    let fails = |value: &Value| {
        Sample::new::<T>(to_read, value.clone())
            .is_some_and(|sample| pair.fails::<T>(case, &sample))
    };
    let mut runner = TestRunner::deterministic();
    let mut trees = std::iter::repeat_with(|| values.new_tree(&mut runner).unwrap());
    let tree = trees.find(|tree| fails(&tree.current())).unwrap();
    let value = smallest(tree, fails);
    let why = trip(&value).err().unwrap_or_default();
    format!("{case}, {:?} in {}: {value}\n    {why}", pair.place, pair.dialect)
}

/// Four tests, because tests run in parallel.
fn go(tour: impl Fn(&mut RoundTrips)) {
    let mut trips = RoundTrips::default();
    tour(&mut trips);
    println!("{} pairs, {} values", trips.pairs, trips.values);
    assert!(trips.failures.is_empty(), "\n{}", trips.failures.join("\n"));
}

#[test]
fn plain_values_come_back_from_every_dialect() {
    go(zoo::plain_tour);
}

#[test]
fn unions_come_back_from_every_dialect() {
    go(zoo::union_tour);
}

#[test]
fn lists_and_maps_come_back_from_every_dialect() {
    go(zoo::collection_tour);
}

#[test]
fn types_with_attributes_come_back_from_every_dialect() {
    go(zoo::attribute_tour);
}

/// The repairs, except those that restore a strict dialect's shape.
fn told(repairs: &[Repair]) -> String {
    let told = repairs.iter().filter(|repair| !repair.is_null_for_default());
    told.map(|repair| format!("{repair:?}")).collect::<Vec<_>>().join("; ")
}
