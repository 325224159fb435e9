//! Time of a dispatch by name, and of getting all definitions again, compared with code by hand.
//!
//! `cargo bench -p toolwright-examples --bench dispatch`
//!
//! One call of a trivial tool among 3, 30 and 300 tools: by a `match` with `serde_json::from_str`
//! and `to_string` that has the same outcome, by a group's handler, and by a module in a group. The
//! three take turns. The bench prints the medians of the ratios of each round. The position of the
//! tools' code in the binary changes a ratio by up to a tenth.
//!
//! A group's definitions are the value of `tools` in a request. The first call creates them, and
//! later calls return the cached ones. The bench compares copying their bytes with getting them,
//! and with getting and copying them, as the body of a request needs.

// A bench may panic, because no other code depends on it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod tools;

use std::hint::black_box;
use std::time::Duration;

use cpu_time::ProcessTime;
use tokio::runtime::Runtime;
use tools::{Dispatch, SIZES, by_hand, calls, handlers, modules};
use toolwright_group::ToolGroup;
use toolwright_group::async_openai::{Api, GroupExt};
use toolwright_module::{Context, ToolCall};

/// Number of rounds, in which each form has its turn, and number of calls in a turn.
const ROUNDS: usize = 41;
const CALLS: usize = 60_000;

/// How often a turn gets the definitions.
const ASKED: usize = 3_000;

fn main() {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    if !cores.first().is_some_and(|core| core_affinity::set_for_current(*core)) {
        eprintln!("could not pin this process to a core: expect noise");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    calls_by_name(&runtime);
    definitions_again();
}

fn calls_by_name(runtime: &Runtime) {
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
            costs[1].push(run(runtime, &handlers, &calls));
            costs[2].push(run(runtime, &modules, &calls));
            costs[3].push(dispatch(runtime, &handlers, &calls));
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

fn definitions_again() {
    println!("\nall definitions asked for again, {ROUNDS} x {ASKED}");
    println!(
        "{:<8}{:>12}{:>12}{:>12}{:>12}{:>12}",
        "tools", "bytes", "copy", "/asked", "/and copied", "/first time"
    );
    // A request can have at most 128 tools.
    for size in SIZES.into_iter().filter(|size| *size <= 128) {
        let group = handlers(size);
        let ready = group.tools(Api::Chat).unwrap().get().to_owned();
        let mut costs = [const { Vec::new() }; 3];
        for _ in 0..ROUNDS {
            costs[0].push(time(|| drop(black_box(black_box(&ready).as_bytes().to_vec()))));
            costs[1].push(time(|| drop(black_box(black_box(&group).tools(Api::Chat).unwrap()))));
            costs[2].push(time(|| {
                let tools = black_box(&group).tools(Api::Chat).unwrap();
                drop(black_box(tools.get().as_bytes().to_vec()));
            }));
        }
        // A new group has no cached definitions and no cached lowered schemas.
        let first = (0..3).map(|_| {
            let group = handlers(size);
            let started = ProcessTime::now();
            drop(black_box(group.tools(Api::Chat).unwrap()));
            started.elapsed().as_secs_f64()
        });
        let first = median(first.collect());
        let copy = median(costs[0].clone()) / ASKED as f64;
        let ratio = |which: usize| {
            let pairs = costs[which].iter().zip(&costs[0]);
            median(pairs.map(|(one, copy)| one / copy).collect())
        };
        println!(
            "{size:<8}{:>12}{:>9.0} ns{:>12.2}{:>12.2}{:>12.0}",
            ready.len(),
            copy * 1e9,
            ratio(1),
            ratio(2),
            first / copy,
        );
    }
}

/// Returns the time of all calls of `go` together, in seconds.
fn time(go: impl Fn()) -> f64 {
    let started = ProcessTime::now();
    (0..ASKED).for_each(|_| go());
    started.elapsed().as_secs_f64()
}

/// Returns the calls of a turn. Every tool is called, so that branches cannot be predicted.
fn turns(calls: &[ToolCall]) -> impl Iterator<Item = &ToolCall> {
    // The prime divides no size, so all tools are called, and not in order.
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
