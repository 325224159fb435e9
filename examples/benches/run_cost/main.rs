//! Cost of a run, compared with loops by hand on the same server.
//!
//! `cargo bench -p toolwright-examples --bench run_cost`
//!
//! A loopback server in its own process plays a model that calls a tool in five steps and then
//! answers. Four clients make the same run: a loop on reqwest and serde (the lower bound), one on
//! async-openai with its own types ("byot"), one on async-openai's types, and Toolwright. They take
//! turns, so that changes in the speed of the machine affect all of them. The bench prints the
//! medians of their CPU time, and the ratios.

// A bench may panic, because no other code depends on it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod add;
mod by_hand;
mod clients;
mod server;

use std::hint::black_box;
use std::time::Duration;

use add::add;
use clients::{ARGUMENTS, Clients, NAMES, STEPS, dispatch_by_hand};
use cpu_time::ProcessTime;
use toolwright_module::Context;

/// Number of rounds, in which every client has its turn, and number of runs in a turn.
const ROUNDS: usize = 25;
const RUNS: usize = 40;

/// Number of dispatches in a turn.
const CALLS: usize = 200_000;

/// Pins this process to one core, which client and server share.
///
/// Otherwise the scheduler may put the two ends of a connection on one core or on two, and the same
/// client can cost more than twice as much.
fn pin() {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let pinned = cores.first().is_some_and(|core| core_affinity::set_for_current(*core));
    if !pinned {
        eprintln!("could not pin this process to a core: expect noise");
    }
}

fn main() {
    pin();
    if server::is_asked_to_serve() {
        return;
    }
    let server = server::Process::start(STEPS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clients = Clients::new(&server.base_url());

    let mut costs = [const { Vec::new() }; 4];
    let mut bytes = [0; 4];
    for round in 0..=ROUNDS {
        // The order changes, so that no client always follows the same one.
        for turn in 0..4 {
            let client = (round + turn) % 4;
            let before = server.bytes();
            let started = ProcessTime::now();
            runtime.block_on(async {
                for _ in 0..RUNS {
                    clients.run(client).await;
                }
            });
            let cost = started.elapsed() / RUNS as u32;
            bytes[client] = (server.bytes() - before) / RUNS as u64;
            // The first round only warms up connections and caches.
            if round > 0 {
                costs[client].push(cost);
            }
        }
    }

    println!("a run of {STEPS} tool steps, {} model calls, {ROUNDS} x {RUNS} runs each", STEPS + 1);
    println!(
        "{:<24}{:>10}{:>10}{:>8}{:>8}{:>12}",
        "", "CPU/run", "/reqwest", "/byot", "/typed", "bytes sent"
    );
    for (client, name) in NAMES.iter().enumerate() {
        let ratio = |other: usize| {
            let ratios = costs[client].iter().zip(&costs[other]);
            median(ratios.map(|(one, other)| one.as_secs_f64() / other.as_secs_f64()).collect())
        };
        let cpu = median(costs[client].iter().map(Duration::as_secs_f64).collect());
        println!(
            "{name:<24}{:>7.0} µs{:>10.2}{:>8.2}{:>8.2}{:>12}",
            cpu * 1e6,
            ratio(0),
            ratio(1),
            ratio(2),
            bytes[client],
        );
    }
    println!("\na dispatch: {:.2} of match + from_str + to_string", dispatch());
}

/// Returns the cost of a call by name with JSON arguments, compared with code by hand.
fn dispatch() -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (tool, cx) = (add(), Context::default());
    let ratio = || {
        let started = ProcessTime::now();
        for _ in 0..CALLS {
            black_box(dispatch_by_hand(black_box("add"), black_box(ARGUMENTS)));
        }
        let by_hand = started.elapsed();
        let started = ProcessTime::now();
        runtime.block_on(async {
            for _ in 0..CALLS {
                black_box(tool.call(black_box(ARGUMENTS), &cx).await.unwrap());
            }
        });
        started.elapsed().as_secs_f64() / by_hand.as_secs_f64()
    };
    median((0..ROUNDS).map(|_| ratio()).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
