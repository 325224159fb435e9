//! Reads texts as a model may write them, and prints the value of each.
//!
//! The input is JSON lines, each with one text and its expected type:
//!
//! ```sh
//! echo '{"id": 1, "type": "Count", "input": "{\"n\": \"5\"}"}' |
//!     cargo run -q -p toolwright-examples --example read_corpus
//! ```
//!
//! The output has one line for each: `{"id":1,"value":{"n":5}}`, or `{"id":1,"error":"…"}` with all
//! faults. With `--repairs`, a line with a value also lists the repairs.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use jiff::Timestamp;
use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_signature::{Contract, Policy, Signature};

/// Declares the types, each with its own contract, and a map of their readers by name.
macro_rules! types {
    ($($(#[$meta:meta])* $name:ident { $($body:tt)* })*) => {
        $(
            #[derive(Serialize, Deserialize, JsonSchema)]
            $(#[$meta])*
            struct $name { $($body)* }

            impl Signature for $name {
                type Output = ();
            }
        )*

        fn readers() -> Result<BTreeMap<&'static str, Reader>, toolwright_signature::ContractError> {
            Ok(BTreeMap::from([$((stringify!($name), reader::<$name>()?)),*]))
        }
    };
}

types! {
    Count { n: i64 }
    Score { x: f64 }
    Flag { on: bool }
    Text { s: String }
    Task {
        title: String,
        priority: Priority,
        #[serde(default)]
        status: Status,
    }
    Opt { q: String, limit: Option<i64>, note: Option<String> }
    Tags { tags: Vec<String> }
    Nums { nums: Vec<i64> }
    Order { id: i64, item: Item }
    Counts { counts: BTreeMap<String, i64> }
    Shape { shape: AnyShape }
    When { at: Timestamp, day: Option<Date> }
    #[serde(rename = "Value")]
    ValueOf { value: AnyValue }
    Empty {}
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Priority {
    Low,
    Medium,
    High,
    Critical,
}

#[derive(Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "kebab-case")]
enum Status {
    #[default]
    Pending,
    InProgress,
    Completed,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Item {
    name: String,
    qty: i64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "_type")]
enum AnyShape {
    Circle { radius: f64 },
    Square { side: f64 },
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum AnyValue {
    Text(String),
    Integer(i64),
    Float(f64),
}

/// Reads a text, and returns its value as JSON with the repairs.
type Reader = Box<dyn Fn(&str) -> Result<(Value, Vec<String>), String>>;

fn reader<S: Signature>() -> Result<Reader, toolwright_signature::ContractError> {
    let contract = Contract::of::<S>()?;
    Ok(Box::new(move |text| {
        let reading =
            contract.read_with::<S>(text, Policy::Coerce).map_err(|error| error.to_string())?;
        let value = serde_json::to_value(&reading.value).map_err(|error| error.to_string())?;
        Ok((value, reading.repairs.iter().map(ToString::to_string).collect()))
    }))
}

#[derive(Deserialize)]
struct Line {
    id: Value,
    #[serde(rename = "type")]
    kind: String,
    input: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let with_repairs = std::env::args().any(|argument| argument == "--repairs");
    let readers = readers()?;
    let mut out = io::stdout().lock();
    // Bytes, because a line need not be UTF-8.
    for line in io::stdin().lock().split(b'\n') {
        let line = line?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        writeln!(out, "{}", answer(&readers, &line, with_repairs))?;
    }
    Ok(())
}

fn answer(readers: &BTreeMap<&str, Reader>, line: &[u8], with_repairs: bool) -> Value {
    let line: Line = match serde_json::from_slice(line) {
        Ok(line) => line,
        Err(error) => {
            return json!({"id": id(line), "error": format!("not a line of a corpus: {error}")});
        }
    };
    let name = if line.kind == "Value" { "ValueOf" } else { line.kind.as_str() };
    let Some(read) = readers.get(name) else {
        return json!({"id": line.id, "error": format!("there is no type `{}`", line.kind)});
    };
    match read(&line.input) {
        Ok((value, repairs)) if with_repairs => {
            json!({"id": line.id, "value": value, "repairs": repairs})
        }
        Ok((value, _)) => json!({"id": line.id, "value": value}),
        Err(error) => json!({"id": line.id, "error": error}),
    }
}

/// Returns the id of an invalid line, such as one that is not UTF-8.
fn id(line: &[u8]) -> Value {
    #[derive(Deserialize)]
    struct Id {
        id: Value,
    }
    let text = String::from_utf8_lossy(line);
    serde_json::from_str(&text).map_or(Value::Null, |Id { id }| id)
}
