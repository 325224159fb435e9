//! Time to build an index of tools, and time of a query.
//!
//! `cargo bench -p toolwright-examples --bench tool_search`
//!
//! The tools have contracts of about 1 kB: a name, a description, five fields with descriptions and
//! an enum. Their words are drawn from a list by a fixed rule, so common and rare words are as
//! frequent as in a text. A query has 20 words. The bench prints medians, and fails if those of
//! 1,000 tools exceed 50 ms or 0.5 ms.

// A bench may panic, because no other code depends on it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::hint::black_box;

use cpu_time::ProcessTime;
use serde_json::{Value, json};
use toolwright_orchestrator::ToolIndex;
use toolwright_signature::Contract;

const SIZES: [usize; 3] = [150, 1_000, 10_000];

/// Number of times that an index is built, and number of different queries.
const BUILDS: usize = 11;
const QUERIES: usize = 1_001;

/// Number of different words of the tools.
const WORDS: usize = 5_000;

fn main() {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    if !cores.first().is_some_and(|core| core_affinity::set_for_current(*core)) {
        eprintln!("could not pin this process to a core: expect noise");
    }
    println!("{:<8}{:>12}{:>14}{:>12}", "tools", "kB", "build", "query");
    for size in SIZES {
        let mut words = Words(7);
        let tools: Vec<Contract> = (0..size).map(|at| tool(at, &mut words)).collect();
        let bytes: usize = tools.iter().map(|tool| tool.input().to_string().len()).sum();
        let index = ToolIndex::new(&tools);
        let build = median((0..BUILDS).map(|_| seconds(|| ToolIndex::new(&tools))).collect());
        let queries: Vec<String> = (0..QUERIES).map(|_| words.text(20)).collect();
        let query = median(queries.iter().map(|query| seconds(|| index.find(query, 20))).collect());
        println!("{size:<8}{:>12}{:>11.1} ms{:>9.0} µs", bytes / 1_000, build * 1e3, query * 1e6);
        if size == 1_000 {
            assert!(build <= 0.05, "building the index of 1,000 tools takes more than 50 ms");
            assert!(query <= 0.0005, "a query among 1,000 tools takes more than 0.5 ms");
        }
    }
}

/// Returns the processor time of one call.
fn seconds<T>(work: impl FnOnce() -> T) -> f64 {
    let started = ProcessTime::now();
    black_box(work());
    started.elapsed().as_secs_f64()
}

fn tool(at: usize, words: &mut Words) -> Contract {
    let mut fields: serde_json::Map<String, Value> = (0..5)
        .map(|field| {
            let schema = json!({"type": "string", "description": words.text(12)});
            (format!("{}_{}_{field}", words.word(), words.word()), schema)
        })
        .collect();
    fields.insert("mode".to_owned(), json!({"enum": [words.word(), words.word(), words.word()]}));
    let name = format!("{}_{}_{at}", words.word(), words.word());
    let schema = json!({"type": "object", "properties": fields});
    Contract::dynamic(&name, &words.text(25), schema, None).unwrap()
}

/// Words from a seed. The word of rank `n` is as frequent as `1 / n`, as in a text.
struct Words(u64);

impl Words {
    fn word(&mut self) -> String {
        // An LCG of Knuth; its high bits are good.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let share = (self.0 >> 11) as f64 / (1_u64 << 53) as f64;
        let mut rank = (WORDS as f64).powf(share) as u64;
        let mut word = String::new();
        for _ in 0..3 {
            word.push(char::from(b"bdfghklmnprstvwz"[(rank % 16) as usize]));
            word.push(char::from(b"aeiou"[(rank % 5) as usize]));
            rank = rank / 3 + 7;
        }
        word
    }

    fn text(&mut self, words: usize) -> String {
        let words: Vec<String> = (0..words).map(|_| self.word()).collect();
        words.join(" ")
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
