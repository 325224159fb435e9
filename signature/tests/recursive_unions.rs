//! Recursive unions without a tag. serde tries each member at each level, so the time for a deep
//! value would grow exponentially.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_signature::{Contract, Policy, Signature};

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
struct Query {
    term: Term,
}

impl Signature for Query {
    type Output = Term;
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
#[serde(untagged)]
enum Term {
    Number(f64),
    Sum { a: Box<Term>, b: Box<Term> },
    Scaled { a: Box<Term>, by: f64 },
    Negated { a: Box<Term> },
    List(Vec<Term>),
}

/// Far more time than it takes, and far less than trying every combination.
const LONG: Duration = Duration::from_secs(4);

fn nested(levels: usize, open: &str, leaf: &str, close: &str) -> String {
    format!("{{\"term\":{}{leaf}{}}}", open.repeat(levels), close.repeat(levels))
}

const SHAPES: [(&str, &str, &str); 14] = [
    (r#"{"a":"#, "1", "}"),
    (r#"{"a":"#, r#""x""#, "}"),
    (r#"{"a":"#, r#""1""#, "}"),
    (r#"{"a":"#, "{}", "}"),
    (r#"{"A":"#, "1", "}"),
    (r#"{"b":1,"a":"#, "1", "}"),
    (r#"{"b":1,"a":"#, r#""1""#, "}"),
    (r#"{"by":1,"a":"#, "1", "}"),
    (r#"{"by":"1","a":"#, "1", "}"),
    (r#"{"a":"#, "1", r#","x":1}"#),
    (r#"{"a":"#, "1", r#","b":{"a":1}}"#),
    ("[", "1", "]"),
    ("[", r#""1""#, "]"),
    ("{a:", "1", ",}"),
];

#[test]
fn a_deep_value_of_a_recursive_union_is_read_or_rejected_in_time() {
    let contract = Contract::of::<Query>().unwrap();
    let stored: Contract = serde_json::from_value(json!(contract)).unwrap();
    for (open, leaf, close) in SHAPES {
        for levels in [2, 6, 12, 40, 110] {
            let text = nested(levels, open, leaf, close);
            for policy in [Policy::Strict, Policy::Coerce] {
                let start = Instant::now();
                let read = contract.read_with::<Query>(&text, policy);
                let _ = stored.read_with::<Value>(&text, policy);
                assert!(start.elapsed() < LONG, "{:?}: {text}", start.elapsed());
                if levels < 8
                    && let Ok(plain) = serde_json::from_str::<Query>(&text)
                    && let Ok(read) = read
                    && read.repairs.is_empty()
                {
                    assert_eq!(read.value, plain, "{text}");
                }
            }
        }
    }
}

#[test]
fn the_error_for_a_deep_recursive_union_says_that_it_nests_too_deep() {
    let contract = Contract::of::<Query>().unwrap();
    let read = |levels| contract.read::<Query>(&nested(levels, r#"{"a":"#, "1", "}"));
    assert!(read(8).is_ok());
    let error = read(40).unwrap_err().to_string();
    assert!(error.contains("$: its unions without a tag nest too deep"), "{error}");
    let term = nested(40, r#"{"a":"#, "1", "}").replacen("term", "result", 1);
    let error = contract.read_output::<Term>(&term).unwrap_err().to_string();
    assert!(error.contains("nest too deep"), "{error}");
    // Lists in lists are looked at once.
    assert!(contract.read::<Query>(&nested(100, "[", "1", "]")).is_ok());
}
