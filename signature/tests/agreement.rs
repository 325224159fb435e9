//! serde and the schema accept and reject the same values.

use jsonschema::Validator;
use proptest::strategy::{BoxedStrategy, Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use toolwright_signature::{Contract, Policy};

use crate::zoo::generate::{smallest, values};
use crate::zoo::mistakes::{count, nth, sloppy};
use crate::zoo::{self, Echo, Specimen, Visitor};

/// How many values of each type, and three times as many that nearly fit.
const VALUES: usize = 150;

/// What the schema accepts and serde rejects: the type, serde's words, and why the schema does
/// not say it.
///
/// Reading rejects all of it too, because it ends in serde.
const SAID_TOO_LITTLE: [(&str, &str, &str); 7] = [
    ("ranges", "unknown field", "the standard library closes its types, schemars does not say so"),
    ("durations_and_times", "unknown field", "as ranges"),
    ("durations_and_times", "overflow", "seconds and nanoseconds have no common bound"),
    ("union_with_a_tag_beside", "expected unit variant", "an open member may have any content"),
    ("flattened_union_with_a_tag_beside", "expected unit variant", "as above"),
    ("map_with_letter_keys", "invalid value", "schemars gives keys of any length"),
    ("fields_with_aliases", "duplicate field", "schemars knows no alias"),
];

/// What serde accepts and the schema rejects. Reading rejects it too.
const SERDE_IS_LENIENT: [(&str, &str); 26] = [
    ("empty_struct", LIST),
    ("like_a_wrapped_input", LIST),
    ("absent_null_and_value", LIST),
    ("null_must_be_said", LIST),
    ("defaulted", LIST),
    ("defaulted_as_a_whole", LIST),
    ("optional_of_each_kind", LIST),
    ("union_without_a_tag", LIST),
    ("any_value", LIST),
    ("bounds", BOUND),
    ("more_bounds", BOUND),
    ("class_name", BOUND),
    ("map_with_keys_of_a_pattern", BOUND),
    ("sets", TWICE),
    ("set_of_enums", TWICE),
    ("dates_of_chrono", "chrono takes weekdays in any case and looser dates"),
    ("closed_union_with_a_tag_inside", "a unit variant ignores further fields, though denied"),
    ("closed_union_with_a_tag_beside", "an optional content may be left out"),
    ("union_with_other", "`other` takes every tag, and schemars names one"),
    ("flattened_union_with_a_tag_outside", "a unit variant takes an empty object for its content"),
    ("mutual_recursion", INDEX),
    ("flattened_union", INDEX),
    ("flattened_union_beside_fields", INDEX),
    ("struct_with_a_tag", TAG),
    ("seed_create_task", TAG),
    ("flattened_option", "what does not fit is read as `None`"),
];
const LIST: &str = "a list of its fields in order is taken for a struct";
const BOUND: &str = "only the schema knows the bound";
const INDEX: &str = "a tag that serde has to keep for later may be the number of its variant";
const TAG: &str = "the tag of a struct may be left out or be another";
const TWICE: &str = "an item said twice is read once";

fn validator(schema: &Value) -> Validator {
    jsonschema::options().should_validate_formats(true).build(schema).unwrap()
}

fn refusal<T: Specimen>(value: &Value) -> Option<String> {
    serde_json::from_value::<T>(value.clone()).err().map(|error| error.to_string())
}

/// Calls back for each value of a type that `fails`, with its smallest form.
fn each(values: &BoxedStrategy<Value>, count: usize, fails: impl Fn(&Value) -> bool) {
    let mut runner = TestRunner::deterministic();
    for _ in 0..count {
        let tree = values.new_tree(&mut runner).unwrap();
        if fails(&tree.current()) {
            panic!("{}", smallest(tree, fails));
        }
    }
}

/// serde reads what the schema accepts, and the schema of the output accepts what serde writes.
struct Fitting;

impl Visitor for Fitting {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let contract = Contract::of::<Echo<T>>().unwrap();
        let read = contract.output_to_read().unwrap();
        let (to_read, to_write) = (validator(read), validator(contract.output_to_write().unwrap()));
        println!("{case}");
        each(&values(read), VALUES, |value| {
            assert!(to_read.is_valid(value), "the generator is wrong: {value}");
            let said = serde_json::from_value::<T>(value.clone());
            match said {
                Err(error) => !known_narrower(case, &error.to_string()),
                // Some of what can be read cannot be written: `skip_serializing`.
                Ok(typed) => {
                    serde_json::to_value(typed).is_ok_and(|written| !to_write.is_valid(&written))
                }
            }
        });
    }
}

fn known_narrower(case: &str, error: &str) -> bool {
    SAID_TOO_LITTLE.iter().any(|(of, part, _)| *of == case && error.contains(part))
}

#[test]
fn serde_reads_what_the_schema_accepts_and_writes_it_back() {
    zoo::tour(&mut Fitting);
}

/// A value with one mistake: serde and the schema both accept it, or both reject it.
struct Nearly;

impl Visitor for Nearly {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let contract = Contract::of::<Echo<T>>().unwrap();
        let read = contract.output_to_read().unwrap();
        let to_read = validator(read);
        let lenient = SERDE_IS_LENIENT.iter().any(|(of, _)| *of == case);
        println!("{case}");
        each(&sloppy(values(read)), 3 * VALUES, |value| {
            match (to_read.is_valid(value), refusal::<T>(value)) {
                (true, Some(_)) => {
                    refusal_of_whole::<T>(value).is_some_and(|error| !known_narrower(case, &error))
                }
                (false, None) => !lenient,
                _ => false,
            }
        });
    }
}

#[test]
fn serde_and_the_schema_reject_the_same_mistakes() {
    zoo::tour(&mut Nearly);
}

/// Why serde refuses it, if not for a float that is whole: `3.0` is an integer to JSON
/// Schema, and so is what no integer of Rust can hold.
fn refusal_of_whole<T: Specimen>(value: &Value) -> Option<String> {
    let mut value = value.clone();
    whole(&mut value).then(|| refusal::<T>(&value)).flatten()
}

/// Writes whole floats as integers; no if there is one that is too large.
fn whole(value: &mut Value) -> bool {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap();
            let fits = float.abs() < 9.2e18;
            if float.fract() == 0.0 && fits {
                *value = Value::from(float as i64);
            }
            fits
        }
        Value::Array(list) => list.iter_mut().all(whole),
        Value::Object(map) => map.values_mut().all(whole),
        _ => true,
    }
}

#[test]
fn every_listed_exception_names_a_type_of_the_zoo() {
    struct Cases(Vec<String>);
    impl Visitor for Cases {
        fn visit<T: Specimen>(&mut self, case: &str) {
            assert!(!self.0.contains(&case.to_owned()), "{case} stands twice");
            self.0.push(case.to_owned());
        }
    }
    let mut cases = Cases(Vec::new());
    zoo::tour(&mut cases);
    assert!(cases.0.len() >= 60, "{}", cases.0.len());
    let narrower = SAID_TOO_LITTLE
        .iter()
        .map(|(case, ..)| *case)
        .chain(READING_IS_LAXER.map(|(case, _)| case));
    for case in narrower.chain(SERDE_IS_LENIENT.iter().map(|(case, _)| *case)) {
        assert!(cases.0.iter().any(|known| known == case), "{case}");
    }
}

/// What reading rejects although the schema and serde accept it.
const READING_IS_STRICTER: [(&str, &str); 3] = [
    ("union_that_overlaps", "and also"),
    // A misspelt name of a field of a member, as below.
    ("union_that_overlaps", "expected an object with"),
    // 1e39 is a number; the schema does not say that it is an `f32`.
    ("lists", "expected a number"),
];

/// The error for a misspelt name of an absent field. JSON Schema accepts the field, and its value
/// would be lost.
const NEARLY: &str = ": expected `";

/// The error for an object that has fields, but none of its type.
const NOTHING_KNOWN: &str = ": expected some of `";

/// What reading accepts although the schema rejects it, and why.
const READING_IS_LAXER: [(&str, &str); 3] = [
    ("struct_with_a_tag", "a model need not say the `_type` of a struct that can be no other"),
    ("seed_create_task", "as above"),
    ("bounds", "a format is a hint to JSON Schema; only dates are held to theirs"),
];

/// Reading accepts what the schema accepts, also in the shapes of the dialects, and nothing else.
struct Reading;

impl Visitor for Reading {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let contract = Contract::of::<Echo<T>>().unwrap();
        let schema = contract.output_to_read().unwrap();
        let to_read = validator(schema);
        println!("{case}");
        each(&sloppy(values(schema)), 3 * VALUES, |value| {
            let wire = json!({"given": value}).to_string();
            let read = contract.read_with::<Echo<T>>(&wire, Policy::Strict);
            match (to_read.is_valid(value), read.err().map(|error| error.to_string())) {
                (true, Some(error)) => {
                    !(beyond_64_bits(value)
                        || error.contains(NEARLY)
                        || error.contains(NOTHING_KNOWN)
                        || known_narrower(case, &error)
                        || READING_IS_STRICTER
                            .iter()
                            .any(|(of, part)| *of == case && error.contains(part)))
                }
                (false, None) if READING_IS_LAXER.iter().any(|(of, _)| *of == case) => false,
                (false, None) => !shapes(value).iter().any(|shape| to_read.is_valid(shape)),
                _ => false,
            }
        });
    }
}

#[test]
fn reading_accepts_what_the_schema_accepts() {
    zoo::tour(&mut Reading);
}

fn beyond_64_bits(value: &Value) -> bool {
    !whole(&mut value.clone())
}

/// The values that a value in a dialect's shape may stand for: `_type` is ignored, null is
/// absent, an empty list is an empty map, a text is a number of an enum.
fn shapes(value: &Value) -> Vec<Value> {
    let plain = without(value, &|name, _| name == "_type");
    let mut shapes = vec![without(&plain, &|_, value| value.is_null())];
    for place in 0..count(&plain) {
        let mut shape = plain.clone();
        let Some(node) = nth(&mut shape, &mut { place }) else { continue };
        *node = match &node {
            Value::Array(list) if list.is_empty() => json!({}),
            Value::String(text) => text.parse::<u8>().map_or(Value::Null, Value::from),
            _ => continue,
        };
        shapes.push(shape);
    }
    shapes.push(plain);
    shapes
}

fn without(value: &Value, gone: &impl Fn(&str, &Value) -> bool) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(name, value)| !gone(name, value))
            .map(|(name, value)| (name.clone(), without(value, gone)))
            .collect(),
        Value::Array(list) => list.iter().map(|item| without(item, gone)).collect(),
        other => other.clone(),
    }
}
