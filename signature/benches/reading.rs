//! What reading costs beside plain `serde_json::from_str` into the same type.
//!
//! `cargo bench -p toolwright-signature --bench reading`
//!
//! Both are measured in turns in the same run, so that what else the machine does
//! falls on both. A ratio is the median of the ratios of all turns.

// A bench may end with a panic: nobody depends on it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::alloc::System;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use toolwright_signature::{Contract, Signature};

#[global_allocator]
static ALLOCATIONS: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const TURNS: usize = 301;

macro_rules! signatures {
    ($($name:ident)*) => {$(
        impl Signature for $name {
            type Output = ();
        }
    )*};
}

signatures! {
    Count Text Task Search Nested Long Bounded Counts Choice Shapes Single Flat Dated Matched Recursive
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Count {
    n: i64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Text {
    s: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Task {
    title: String,
    priority: Priority,
    #[serde(default)]
    status: Priority,
}

#[derive(Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "kebab-case")]
enum Priority {
    #[default]
    Low,
    InBetween,
    High,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Search {
    query: String,
    limit: Option<u8>,
    tags: Vec<String>,
    exact: bool,
    ratio: f64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Nested {
    id: u64,
    items: Vec<Item>,
    first: Item,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Item {
    name: String,
    quantity: u32,
    price: f64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Long {
    title: String,
    body: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Bounded {
    #[schemars(range(min = 1, max = 10))]
    stars: u8,
    #[schemars(length(min = 2, max = 40))]
    code: String,
    #[schemars(length(max = 5))]
    tags: Vec<String>,
    #[schemars(range(min = 0.0, max = 1.0))]
    share: f64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Counts {
    counts: BTreeMap<String, i64>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Choice {
    values: Vec<Untagged>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Untagged {
    Whole(i64),
    Broken(f64),
    Text(String),
    Item(Item),
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Shapes {
    shapes: Vec<Shape>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "_type")]
enum Shape {
    Circle { radius: f64 },
    Square { side: f64 },
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Single {
    x: f32,
    y: f32,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Flat {
    id: u32,
    #[serde(flatten)]
    item: Item,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Dated {
    #[schemars(extend("format" = "date-time"))]
    at: String,
    title: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Matched {
    #[schemars(regex(pattern = r"^[A-Z]{2}-\d+$"))]
    code: String,
    title: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Recursive {
    name: String,
    below: Vec<Recursive>,
}

fn main() {
    println!("{:<28}{:>10}{:>8}{:>14}", "type", "serde ns", "ratio", "allocations");
    let item = r#"{"name": "screw", "quantity": 12, "price": 0.25}"#;
    let long = "A sentence that goes on, with a \\\"quote\\\" and a line.\\n".repeat(40);
    plain::<Count>("Count", r#"{"n": 5}"#);
    plain::<Text>("Text", r#"{"s": "a few words to look for"}"#);
    plain::<Task>("Task", r#"{"title": "t", "priority": "high", "status": "in-between"}"#);
    plain::<Search>(
        "Search",
        r#"{"query": "tax law", "limit": 5, "tags": ["a", "b"], "exact": true, "ratio": 0.5}"#,
    );
    plain::<Nested>(
        "Nested",
        &format!(r#"{{"id": 7, "items": [{item}, {item}, {item}], "first": {item}}}"#),
    );
    plain::<Long>("Long text", &format!(r#"{{"title": "t", "body": "{long}"}}"#));
    plain::<Single>("f32", r#"{"x": 1.5, "y": -2.25}"#);
    plain::<Recursive>(
        "Recursive",
        r#"{"name": "a", "below": [{"name": "b", "below": []}, {"name": "c", "below": []}]}"#,
    );
    checked::<Bounded>(
        "Bounds",
        r#"{"stars": 5, "code": "abc", "tags": ["a", "b"], "share": 0.5}"#,
    );
    checked::<Counts>("Map", r#"{"counts": {"apples": 1, "pears": 2, "plums": 3}}"#);
    checked::<Choice>("Untagged union", &format!(r#"{{"values": [1, 2.5, "three", {item}]}}"#));
    checked::<Shapes>(
        "Tagged union",
        r#"{"shapes": [{"_type": "Circle", "radius": 1.5}, {"_type": "Square", "side": 2.5}]}"#,
    );
    checked::<Flat>("Flattened", r#"{"id": 1, "name": "screw", "quantity": 12, "price": 0.25}"#);
    checked::<Dated>("Date", r#"{"at": "2026-11-21T20:00:00Z", "title": "evening"}"#);
    // The regex engine takes most of the time.
    compare::<Matched>("checked  Pattern", r#"{"code": "AB-123", "title": "order"}"#, 6.0);
}

fn plain<S: Signature>(name: &str, wire: &str) {
    compare::<S>(&format!("plain    {name}"), wire, 1.05);
}

fn checked<S: Signature>(name: &str, wire: &str) {
    compare::<S>(&format!("checked  {name}"), wire, 3.0);
}

fn compare<S: Signature>(name: &str, wire: &str, most: f64) {
    let contract = Contract::of::<S>().unwrap();
    let ours = || drop(black_box(contract.read::<S>(black_box(wire)).unwrap()));
    let serde = || drop(black_box(serde_json::from_str::<S>(black_box(wire)).unwrap()));
    let rounds = (200_000 / (wire.len() + 20)).max(20);
    let mut ratios = Vec::with_capacity(TURNS);
    let mut times = Vec::with_capacity(TURNS);
    for turn in 0..TURNS {
        // The one that comes second finds warm caches.
        let (mine, theirs) = if turn % 2 == 0 {
            let mine = time(rounds, ours);
            (mine, time(rounds, serde))
        } else {
            let theirs = time(rounds, serde);
            (time(rounds, ours), theirs)
        };
        ratios.push(mine / theirs);
        times.push(theirs);
    }
    let ratio = median(&mut ratios);
    let mark = if ratio > most { " too slow" } else { "" };
    println!(
        "{name:<28}{:>10.0}{ratio:>8.3}{:>8} / {}{mark}",
        median(&mut times),
        allocations(ours),
        allocations(serde),
    );
}

/// Nanoseconds for one of many.
fn time(rounds: usize, go: impl Fn()) -> f64 {
    let start = Instant::now();
    for _ in 0..rounds {
        go();
    }
    start.elapsed().as_nanos() as f64 / rounds as f64
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn allocations(go: impl Fn()) -> usize {
    let region = Region::new(ALLOCATIONS);
    for _ in 0..100 {
        go();
    }
    region.change().allocations / 100
}
