//! What a run costs beside loops written by hand on the same wire.
//!
//! `cargo bench -p toolwright-examples --bench run_cost`
//!
//! A loopback server of our own, in a process of its own, plays a model that asks for
//! five tool steps and then answers. Four clients do the same run: a loop on reqwest
//! and serde (the floor), one on async-openai with types of its own ("byot"), one on
//! async-openai's types, and Toolwright. They take turns, so that a machine that slows
//! down slows all of them; printed are medians of their CPU time, and ratios.

// A bench may end with a panic: nobody depends on it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod by_hand;
mod server;

use std::alloc::System;
use std::time::Duration;

use core_affinity::CoreId;
use cpu_time::ProcessTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use toolwright_module::{Context, Effect, Signature, Tool, from_fn};
use toolwright_openai::OpenAi;
use toolwright_orchestrator::ToolOrchestrator;
use toolwright_signature::Dialect;

#[global_allocator]
static ALLOCATIONS: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Rounds in which every client has its turn, and runs in a turn.
const ROUNDS: usize = 15;
const RUNS: usize = 40;

/// Tool steps in a run; the server counts them.
const STEPS: usize = 5;

const TASK: &str = "Add up all numbers from one to six.";

/// Add two numbers.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Add {
    /// The first number.
    pub(crate) a: i64,
    /// The second number.
    pub(crate) b: i64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Sum {
    pub(crate) sum: i64,
}

impl Signature for Add {
    type Output = Sum;
}

fn add() -> Tool {
    let add = from_fn(async |Add { a, b }: Add| Ok(Sum { sum: a + b }));
    Tool::new(add.with_effect(Effect::Read)).unwrap()
}

/// Client and server each keep to a core of their own. Left alone, the scheduler may
/// put a connection's two ends on one core or on two, for as long as it lasts, and the
/// same client then costs one or more than two times as much.
pub(crate) fn pin(choose: fn(&[CoreId]) -> Option<&CoreId>) {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let pinned = choose(&cores).is_some_and(|core| core_affinity::set_for_current(*core));
    if !pinned {
        eprintln!("could not pin this process to a core: expect noise");
    }
}

fn main() {
    if std::env::args().any(|argument| argument == "--serve") {
        return server::serve(STEPS);
    }
    pin(|cores| cores.first());
    let server = server::Process::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let base_url = server.base_url();

    let tool = add();
    let definition = tool.contract().tool(Dialect::OpenAiLoose).unwrap();
    let reqwest = by_hand::Reqwest::new(&base_url, &definition);
    let byot = by_hand::Byot::new(&base_url, &definition);
    let typed = by_hand::Typed::new(&base_url, &definition);
    let model = OpenAi::at(&base_url, "bench").unwrap();
    let agent = ToolOrchestrator::new(model, [tool]).unwrap();

    let mut costs = [const { Vec::new() }; 4];
    let mut bytes = [0; 4];
    let mut allocations = [0; 4];
    for round in 0..=ROUNDS {
        // The order turns too, so that no client always comes after the same one.
        for turn in 0..4 {
            let client = (round + turn) % 4;
            let before = server.bytes();
            let region = Region::new(ALLOCATIONS);
            let started = ProcessTime::now();
            runtime.block_on(async {
                for _ in 0..RUNS {
                    let answer = match client {
                        0 => reqwest.run(TASK).await,
                        1 => byot.run(TASK).await,
                        2 => typed.run(TASK).await,
                        _ => agent.run(TASK, &Context::default()).await.unwrap().answer,
                    };
                    assert_eq!(answer, "The sum is 21.");
                }
            });
            let cost = started.elapsed() / RUNS as u32;
            allocations[client] = region.change().allocations / RUNS;
            bytes[client] = (server.bytes() - before) / RUNS as u64;
            // The first round only warms up connections and caches.
            if round > 0 {
                costs[client].push(cost);
            }
        }
    }

    println!("a run of {STEPS} tool steps, {} model calls, {ROUNDS} x {RUNS} runs each", STEPS + 1);
    println!(
        "{:<28}{:>12}{:>10}{:>9}{:>9}{:>14}{:>12}",
        "", "CPU/run", "/reqwest", "/byot", "/typed", "allocations", "bytes sent"
    );
    let names = ["reqwest + serde", "async-openai byot", "async-openai typed", "toolwright"];
    for (client, name) in names.iter().enumerate() {
        let ratio = |other: usize| {
            let ratios = costs[client].iter().zip(&costs[other]);
            median(ratios.map(|(one, other)| one.as_secs_f64() / other.as_secs_f64()).collect())
        };
        let cpu = median(costs[client].iter().map(Duration::as_secs_f64).collect());
        println!(
            "{name:<28}{:>9.0} µs{:>10.2}{:>9.2}{:>9.2}{:>14}{:>12}",
            cpu * 1e6,
            ratio(0),
            ratio(1),
            ratio(2),
            allocations[client],
            bytes[client],
        );
    }
    dispatch();
}

/// One call by its name from its JSON arguments, against the code one writes by hand.
fn dispatch() {
    const CALLS: usize = 200_000;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (tool, cx) = (add(), Context::default());
    let arguments = r#"{"a": 20, "b": 1}"#;
    let by_hand = |name: &str, arguments: &str| match name {
        "add" => {
            let Add { a, b } = serde_json::from_str(arguments).unwrap();
            serde_json::to_string(&Sum { sum: a + b }).unwrap()
        }
        other => panic!("no tool {other}"),
    };
    let mut ratios = Vec::new();
    let mut counted = [0; 2];
    for _ in 0..ROUNDS {
        let region = Region::new(ALLOCATIONS);
        let started = ProcessTime::now();
        for _ in 0..CALLS {
            std::hint::black_box(by_hand(std::hint::black_box("add"), arguments));
        }
        let hand = started.elapsed();
        counted[0] = region.change().allocations / CALLS;

        let region = Region::new(ALLOCATIONS);
        let started = ProcessTime::now();
        runtime.block_on(async {
            for _ in 0..CALLS {
                std::hint::black_box(
                    tool.call(std::hint::black_box(arguments), &cx).await.unwrap(),
                );
            }
        });
        counted[1] = region.change().allocations / CALLS;
        ratios.push(started.elapsed().as_secs_f64() / hand.as_secs_f64());
    }
    println!(
        "\na dispatch: {:.2} of match + from_str + to_string; {} allocations, by hand {}",
        median(ratios),
        counted[1],
        counted[0],
    );
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
