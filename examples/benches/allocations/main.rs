//! Number of allocations in a run and in a dispatch, compared with code by hand.
//!
//! `cargo bench -p toolwright-examples --bench allocations`
//!
//! It is separate from `run_cost` and `dispatch`, because counting slows down every allocation.
//!
//! A dispatch by hand allocates twice, for the parts of its outcome: the call's id and the text for
//! the model. A group adds the boxed future of a handler or a module. `dispatch` adds the list of
//! outcomes. Reading numbers, creating a context, looking up a tool and getting cached definitions
//! do not allocate.

// A bench may panic, because no other code depends on it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../run_cost/add.rs"]
mod add;
#[path = "../run_cost/by_hand.rs"]
mod by_hand;
#[path = "../run_cost/clients.rs"]
mod clients;
#[allow(dead_code, reason = "`run_cost` uses all of it")]
#[path = "../run_cost/server.rs"]
mod server;
#[path = "../dispatch/tools.rs"]
mod tools;

use std::alloc::System;
use std::hint::black_box;

use add::add;
use clients::{ARGUMENTS, Clients, NAMES, STEPS, dispatch_by_hand};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use toolwright_group::ToolGroup;
use toolwright_group::async_openai::{Api, GroupExt};
use toolwright_module::Context;

#[global_allocator]
static ALLOCATIONS: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const RUNS: usize = 50;

fn main() {
    if server::is_asked_to_serve() {
        return;
    }
    let server = server::Process::start(STEPS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clients = Clients::new(&server.base_url());

    println!("allocations in a run of {STEPS} tool steps, {} model calls", STEPS + 1);
    for (client, name) in NAMES.iter().enumerate() {
        // The first run is not counted: it opens connections and fills caches.
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
    println!("\nallocations in a tool's call: {ours}, by hand {by_hand}");

    println!("\nallocations in a call by its name");
    println!(
        "{:<8}{:>8}{:>10}{:>10}{:>10}{:>14}",
        "tools", "by hand", "handler", "module", "in a list", "definitions"
    );
    for size in tools::SIZES {
        let (call, cx) = (&tools::calls(size)[size / 2], Context::default());
        let (handlers, modules) = (tools::handlers(size), tools::modules(size));
        let by_hand = tools::by_hand(size);
        let by_hand = count(|| drop(black_box(by_hand(black_box(call), 7).unwrap())));
        let run = |group: &ToolGroup<i64, i64>| {
            count(|| drop(black_box(runtime.block_on(group.run(call, &7, &cx)).unwrap())))
        };
        let (handler, module) = (run(&handlers), run(&modules));
        let calls = std::slice::from_ref(call);
        let list = count(|| drop(black_box(runtime.block_on(handlers.dispatch(calls, &7, &cx)))));
        // A request can have at most 128 tools.
        let definitions = handlers.tools(Api::Chat).ok().map(|first| {
            drop(first);
            count(|| drop(black_box(handlers.tools(Api::Chat).unwrap())))
        });
        let definitions = definitions.map_or("-".to_owned(), |count| count.to_string());
        println!("{size:<8}{by_hand:>8}{handler:>10}{module:>10}{list:>10}{definitions:>14}");
    }
}

/// Returns the average number of allocations in a call of `go`.
fn count(go: impl Fn()) -> usize {
    let region = Region::new(ALLOCATIONS);
    for _ in 0..RUNS {
        go();
    }
    region.change().allocations / RUNS
}
