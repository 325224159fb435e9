//! How often a run and a dispatch allocate, beside the same by hand.
//!
//! `cargo bench -p toolwright-examples --bench allocations`
//!
//! Apart from `run_cost`, because counting costs time at every allocation.

// A bench may end with a panic: nobody depends on it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../run_cost/by_hand.rs"]
mod by_hand;
#[path = "../run_cost/clients.rs"]
mod clients;
#[allow(dead_code, reason = "`run_cost` uses all of it")]
#[path = "../run_cost/server.rs"]
mod server;

use std::alloc::System;
use std::hint::black_box;

use clients::{ARGUMENTS, Clients, NAMES, STEPS, add, dispatch_by_hand};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use toolwright_module::Context;

#[global_allocator]
static ALLOCATIONS: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const RUNS: usize = 50;

fn main() {
    if std::env::args().any(|argument| argument == "--serve") {
        return server::serve(STEPS);
    }
    let server = server::Process::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clients = Clients::new(&server.base_url());

    println!("allocations in a run of {STEPS} tool steps, {} model calls", STEPS + 1);
    for (client, name) in NAMES.iter().enumerate() {
        // Once without counting: connections and caches.
        runtime.block_on(clients.run(client));
        let counted = count(|| runtime.block_on(clients.run(client)));
        println!("{name:<24}{counted:>6}");
    }

    let (tool, cx) = (add(), Context::default());
    let by_hand = count(|| {
        black_box(dispatch_by_hand(black_box("add"), black_box(ARGUMENTS)));
    });
    let ours = count(|| {
        black_box(runtime.block_on(tool.call(black_box(ARGUMENTS), &cx)).unwrap());
    });
    println!("\nallocations in a dispatch: {ours}, by hand {by_hand}");
}

/// Allocations in one of many goes.
fn count(go: impl Fn()) -> usize {
    let region = Region::new(ALLOCATIONS);
    for _ in 0..RUNS {
        go();
    }
    region.change().allocations / RUNS
}
