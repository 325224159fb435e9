//! 512 agents at once in one process, against a loopback server: the memory of each agent, and a
//! check that no task remains.
//!
//! `cargo bench -p toolwright-examples --bench many_agents`

// A bench may panic, because no other code depends on it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../run_cost/add.rs"]
mod add;
#[path = "../run_cost/server.rs"]
mod server;

use std::alloc::System;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use add::{Add, Sum};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use toolwright_module::{Context, Effect, Tool, from_fn};
use toolwright_openai::OpenAi;
use toolwright_orchestrator::{Agent, Run};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const AGENTS: usize = 512;
const STEPS: usize = 5;

fn live() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

fn main() {
    if server::is_asked_to_serve() {
        return;
    }
    let server = server::Process::start(STEPS);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // Each agent waits in its last tool call until all agents have reached theirs, so that all runs
    // are active at the same moment.
    let (waiting, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
    let agents = |base_url: &str| {
        let model = OpenAi::at(base_url, "bench").unwrap();
        let (waiting, gate) = (Arc::clone(&waiting), Arc::clone(&gate));
        let add = from_fn(move |Add { a, b }: Add| {
            let (waiting, gate) = (Arc::clone(&waiting), Arc::clone(&gate));
            async move {
                if b == STEPS as i64 + 1 {
                    let opened = gate.notified();
                    waiting.fetch_add(1, Ordering::SeqCst);
                    opened.await;
                }
                Ok(Sum { sum: a + b })
            }
        });
        let add = Tool::new(add.with_effect(Effect::Read)).unwrap();
        Agent::new(model, [add]).unwrap()
    };
    runtime.block_on(async {
        let agent = agents(&server.base_url());
        let before = live();
        let started = Instant::now();
        let running: Vec<_> = (0..AGENTS)
            .map(|number| {
                let agent = agent.clone();
                tokio::spawn(async move {
                    let mut run: Run = agent.start(format!("Add up, {number}.")).unwrap();
                    let finished = agent.drive(&mut run, &Context::default()).await.unwrap();
                    assert_eq!(finished.answer, "The sum is 21.");
                })
            })
            .collect();
        while waiting.load(Ordering::SeqCst) < AGENTS {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let held = live() - before;
        gate.notify_waiters();
        for run in running {
            run.await.unwrap();
        }
        println!(
            "{AGENTS} agents at once, {STEPS} tool steps each: {:.1} KB each in the middle of its run (connection included), {:.2} s in all",
            held as f64 / AGENTS as f64 / 1024.0,
            started.elapsed().as_secs_f64(),
        );
        drop(agent);
    });
    // The client's connections end by themselves after the client is dropped.
    let metrics = runtime.metrics();
    let patience = Instant::now() + Duration::from_secs(5);
    while metrics.num_alive_tasks() > 0 && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("tasks left: {}", metrics.num_alive_tasks());
    assert_eq!(metrics.num_alive_tasks(), 0);
}
