//! What a call by its name costs beside the same written by hand.
//!
//! `cargo bench -p toolwright-examples --bench dispatch`
//!
//! One call of a trivial tool, among 3, 30 and 300: a `match` with `serde_json::from_str`
//! and `to_string` that gives the same outcome, a group's handler, and a module in a
//! group. They take turns; printed are medians of the ratios of each round.

// A bench may end with a panic: nobody depends on it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod tools;

use std::hint::black_box;
use std::time::Duration;

use cpu_time::ProcessTime;
use tokio::runtime::Runtime;
use tools::{Dispatch, SIZES, by_hand, calls, handlers, modules};
use toolwright_module::{Context, ToolCall, ToolGroup};

/// Rounds in which each has its turn, and calls in a turn.
const ROUNDS: usize = 41;
const CALLS: usize = 60_000;

fn main() {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    if !cores.first().is_some_and(|core| core_affinity::set_for_current(*core)) {
        eprintln!("could not pin this process to a core: expect noise");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    println!("one call by its name, {ROUNDS} x {CALLS}");
    println!(
        "{:<8}{:>12}{:>12}{:>12}{:>12}",
        "tools", "by hand", "/handler", "/module", "/in a list"
    );
    for size in SIZES {
        let (by_hand, calls) = (by_hand(size), calls(size));
        let (handlers, modules) = (handlers(size), modules(size));
        let mut costs = [const { Vec::new() }; 4];
        for _ in 0..ROUNDS {
            costs[0].push(hand_written(by_hand, &calls));
            costs[1].push(run(&runtime, &handlers, &calls));
            costs[2].push(run(&runtime, &modules, &calls));
            costs[3].push(dispatch(&runtime, &handlers, &calls));
        }
        let floor = median(costs[0].iter().map(Duration::as_secs_f64).collect());
        let ratio = |which: usize| {
            let pairs = costs[which].iter().zip(&costs[0]);
            median(pairs.map(|(one, floor)| one.as_secs_f64() / floor.as_secs_f64()).collect())
        };
        println!(
            "{size:<8}{:>9.0} ns{:>12.2}{:>12.2}{:>12.2}",
            floor * 1e9 / CALLS as f64,
            ratio(1),
            ratio(2),
            ratio(3),
        );
    }
}

/// Every tool has its turn, so that no branch is guessed.
fn turns(calls: &[ToolCall]) -> impl Iterator<Item = &ToolCall> {
    // A prime that divides no size: far from one after the other.
    (0..CALLS).map(|turn| black_box(&calls[turn * 7919 % calls.len()]))
}

fn hand_written(dispatch: Dispatch, calls: &[ToolCall]) -> Duration {
    let started = ProcessTime::now();
    for call in turns(calls) {
        let outcome = black_box(dispatch)(call, 7).unwrap();
        assert!(black_box(outcome).failed.is_none());
    }
    started.elapsed()
}

fn run(runtime: &Runtime, group: &ToolGroup<i64, i64>, calls: &[ToolCall]) -> Duration {
    let cx = Context::default();
    let started = ProcessTime::now();
    runtime.block_on(async {
        for call in turns(calls) {
            let outcome = black_box(group).run(call, &7, &cx).await.unwrap();
            assert!(black_box(outcome).fail_reason.is_none());
        }
    });
    started.elapsed()
}

fn dispatch(runtime: &Runtime, group: &ToolGroup<i64, i64>, calls: &[ToolCall]) -> Duration {
    let cx = Context::default();
    let started = ProcessTime::now();
    runtime.block_on(async {
        for call in turns(calls) {
            let outcomes = black_box(group).dispatch(std::slice::from_ref(call), &7, &cx).await;
            assert!(black_box(outcomes)[0].as_ref().unwrap().fail_reason.is_none());
        }
    });
    started.elapsed()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
