//! How many bytes of every request a tool takes, by dialect.
//!
//! `cargo bench -p toolwright-signature --bench bytes`
//!
//! Beside it is what the same type takes as schemars describes it, put into OpenAI's form
//! as it is: with `$schema`, `title` and `$defs`, as others send it. A dialect that has no
//! words for a type takes none.

// A bench may end with a panic: nobody depends on it.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;

use schemars::{JsonSchema, schema_for};
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_signature::{Contract, Dialect, Signature};

/// Measures types that do nothing else.
macro_rules! signatures {
    ($($name:ident)*) => {$(
        impl Signature for $name {
            type Output = String;
        }
    )*};
}

signatures! { Now GetWeather StoreMemory ListIssues Book Draw Plan Record Search }

/// Say what time it is.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Now {}

/// Get the weather in a city.
#[derive(Serialize, Deserialize, JsonSchema)]
struct GetWeather {
    /// The city's name, with its country if it is small.
    city: String,
    unit: Option<Unit>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Unit {
    Celsius,
    Fahrenheit,
}

/// Save a pair, with tags to find it by.
#[derive(Serialize, Deserialize, JsonSchema)]
struct StoreMemory {
    key: String,
    value: String,
    #[serde(default)]
    tags: Vec<String>,
}

/// List the issues of a repository.
#[derive(Serialize, Deserialize, JsonSchema)]
struct ListIssues {
    /// As `owner/name`.
    repository: String,
    #[serde(default)]
    state: IssueState,
    labels: Option<Vec<String>>,
    assignee: Option<String>,
    #[schemars(range(min = 1, max = 100))]
    limit: Option<u8>,
}

#[derive(Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "lowercase")]
enum IssueState {
    /// Still to be done.
    #[default]
    Open,
    /// Done, or not planned.
    Closed,
    All,
}

/// Book a journey.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Book {
    travellers: Vec<Person>,
    outward: Leg,
    back: Option<Leg>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Person {
    first_name: String,
    last_name: String,
    age: Option<u8>,
}

/// One way.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Leg {
    from: String,
    to: String,
    /// The day, as `2025-12-31`.
    day: String,
    class: Option<u8>,
}

/// Draw shapes.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Draw {
    shapes: Vec<Shape>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Shape {
    Circle { x: f64, y: f64, radius: f64 },
    Line { from: Point, to: Point },
    Text { at: Point, text: String, size: Option<u16> },
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Point {
    x: f64,
    y: f64,
}

/// Plan a task in steps.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Plan {
    task: Task,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Task {
    title: String,
    #[serde(default)]
    steps: Vec<Task>,
}

/// Record counts.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Record {
    counts: BTreeMap<String, u32>,
    labels: Option<BTreeMap<String, String>>,
}

/// Search a collection.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// Words to look for; all of them must be there.
    query: String,
    filters: Option<Vec<Filter>>,
    order: Option<Order>,
    #[serde(default)]
    page: u32,
}

#[derive(Serialize, Deserialize, JsonSchema)]
enum Filter {
    Year { from: i32, to: i32 },
    Author(String),
    Open,
}

#[derive(Serialize, Deserialize, JsonSchema)]
enum Order {
    Newest,
    Relevance,
}

fn main() {
    print!("{:<14}{:>8}", "bytes", "raw");
    for dialect in Dialect::ALL {
        print!("{:>15}", dialect.to_string());
    }
    println!();
    let totals = [
        row::<Now>(),
        row::<GetWeather>(),
        row::<StoreMemory>(),
        row::<ListIssues>(),
        row::<Book>(),
        row::<Draw>(),
        row::<Plan>(),
        row::<Record>(),
        row::<Search>(),
    ];
    let raw: usize = totals.iter().map(|(raw, _)| raw).sum();
    let loose: usize = totals.iter().map(|(_, loose)| loose).sum();
    println!("\nin all, raw {raw}, as openai-loose {loose} ({:.2})", loose as f64 / raw as f64);
}

/// Prints a type's bytes; returns those raw and those in OpenAI's loose dialect.
fn row<S: Signature>() -> (usize, usize) {
    let contract = Contract::of::<S>().unwrap();
    let function = json!({
        "name": contract.name(),
        "description": contract.description(),
        "parameters": schema_for!(S),
        "strict": false,
    });
    let raw = json!({"type": "function", "function": function}).to_string().len();
    let bytes = |dialect| contract.tool(dialect).map(|tool| tool.to_string().len());
    print!("{:<14}{raw:>8}", contract.name());
    for dialect in Dialect::ALL {
        match bytes(dialect) {
            Ok(bytes) => print!("{bytes:>15}"),
            Err(_) => print!("{:>15}", "-"),
        }
    }
    println!();
    (raw, bytes(Dialect::OpenAiLoose).unwrap())
}
