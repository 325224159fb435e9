//! What it costs to read an answer while it streams, beside reading it once.
//!
//! `cargo bench -p toolwright-signature --bench partial`
//!
//! Answers of 1 MB and of 2 MB are fed in pieces of 16 bytes, and once more with a question
//! after every piece for what grows. Beside it, in the same run and by turns,
//! `serde_json::from_str` reads the whole once, into the same type and into a `Value`.
//! Printed are medians, the ratios to reading the whole into its type (the bar is 5 for
//! feeding) and what twice the size costs (2 if it is linear).
//!
//! A text without any escape is read whole at the speed of copying it, so there 62,500
//! questions weigh most.

// A bench may end with a panic: nobody depends on it.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toolwright_signature::{Field, Partial};

const MEGABYTE: usize = 1_000_000;
const PIECE: usize = 16;
const ROUNDS: usize = 25;

#[derive(Deserialize)]
#[allow(dead_code, reason = "read to be measured")]
struct Article {
    title: String,
    body: String,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "read to be measured")]
struct Rows {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "read to be measured")]
struct Row {
    id: u32,
    name: String,
    tags: Vec<String>,
    score: f64,
}

fn main() {
    println!(
        "{:<22}{:>10}{:>10}{:>10}{:>10}{:>8}{:>8}{:>8}{:>8}",
        "1 MB, 16-byte pieces",
        "fed",
        "asked",
        "whole",
        "as Value",
        "fed/wh.",
        "ask/wh.",
        "fed x2",
        "ask x2"
    );
    case::<Article>("one text", &article("A plain sentence, as models write them. "), ask_body);
    case::<Article>("one text with escapes", &article("A line with \\\"words\\\".\\n"), ask_body);
    case::<Rows>("rows", &rows, ask_row);
    case::<Vec<u32>>("numbers", &numbers, ask_number);
    case::<BTreeMap<String, u32>>("a map of many keys", &map, ask_key);
}

/// Asks for what grows; the number says which row, item or key.
type Ask = fn(&Partial, &mut usize);

fn case<T: DeserializeOwned>(name: &str, text: &dyn Fn(usize) -> String, ask: Ask) {
    let sizes = [text(MEGABYTE), text(2 * MEGABYTE)];
    let mut costs = [const { Vec::new() }; 6];
    for round in 0..=ROUNDS {
        // The order turns, so that nobody always comes after the same one.
        for turn in 0..6 {
            let turn = (round + turn) % 6;
            let cost = match turn {
                0 => time(|| stream(&sizes[0], ask_nothing)),
                1 => time(|| stream(&sizes[1], ask_nothing)),
                2 => time(|| stream(&sizes[0], ask)),
                3 => time(|| stream(&sizes[1], ask)),
                4 => time(|| serde_json::from_str::<T>(black_box(&sizes[0])).unwrap()),
                _ => time(|| serde_json::from_str::<Value>(black_box(&sizes[0])).unwrap()),
            };
            // The first round only warms up.
            if round > 0 {
                costs[turn].push(cost);
            }
        }
    }
    let [fed, fed_double, asked, asked_double, whole, value] = costs.map(median);
    print!("{name:<22}");
    for cost in [fed, asked, whole, value] {
        print!("{:>7.2} ms", cost * 1e3);
    }
    for ratio in [fed / whole, asked / whole, fed_double / fed, asked_double / asked] {
        print!("{ratio:>8.2}");
    }
    println!();
}

fn stream(text: &str, ask: Ask) -> Partial {
    let mut partial = Partial::new();
    let mut newest = 0;
    let mut rest = text;
    while let Some((piece, after)) = rest.split_at_checked(PIECE) {
        partial.push(piece);
        ask(black_box(&partial), &mut newest);
        rest = after;
    }
    partial.push(rest);
    assert!(partial.is_done());
    partial
}

fn time<T>(work: impl Fn() -> T) -> Duration {
    let started = Instant::now();
    let made = work();
    let cost = started.elapsed();
    drop(made);
    cost
}

fn median(mut costs: Vec<Duration>) -> f64 {
    costs.sort();
    costs[costs.len() / 2].as_secs_f64()
}

fn ask_body(partial: &Partial, _newest: &mut usize) {
    let _ = black_box(partial.text("body"));
}

fn ask_row(partial: &Partial, newest: &mut usize) {
    if let Field::Done(name) = partial.text(&format!("rows[{newest}].name")) {
        black_box(name);
        *newest += 1;
    }
}

fn ask_number(partial: &Partial, newest: &mut usize) {
    if let Field::Done(number) = partial.field::<u32>(&format!("$[{newest}]")) {
        black_box(number);
        *newest += 1;
    }
}

fn ask_key(partial: &Partial, newest: &mut usize) {
    if let Field::Done(number) = partial.field::<u32>(&format!("key_{newest}")) {
        black_box(number);
        *newest += 1;
    }
}

fn ask_nothing(_partial: &Partial, _newest: &mut usize) {}

fn article(sentence: &'static str) -> impl Fn(usize) -> String {
    move |size| {
        let body = sentence.repeat(size / sentence.len());
        format!(r#"{{"title": "Long", "body": "{body}"}}"#)
    }
}

fn rows(size: usize) -> String {
    let mut text = r#"{"rows": ["#.to_owned();
    let mut id = 0;
    while text.len() < size {
        let comma = if id > 0 { ", " } else { "" };
        let row = r#""name": "Somebody with a name", "tags": ["new", "open"], "score": 12.5}"#;
        write!(text, r#"{comma}{{"id": {id}, {row}"#).unwrap();
        id += 1;
    }
    text + "]}"
}

fn numbers(size: usize) -> String {
    let numbers: Vec<String> = (0..size / 6).map(|i| (i % 10_000).to_string()).collect();
    format!("[{}]", numbers.join(", "))
}

fn map(size: usize) -> String {
    let entries: Vec<String> = (0..size / 20).map(|i| format!(r#""key_{i}": {i}"#)).collect();
    format!("{{{}}}", entries.join(", "))
}
