//! Cost of the loop itself: Toolwright's loop compared with a loop by hand, both with Toolwright's
//! client and the same server.
//!
//! `cargo bench -p toolwright-examples --bench loop_cost`
//!
//! Runs of 5 and of 20 tool steps, one at a time and 64 at once. The two loops take turns. The
//! bench prints the medians of the process's CPU time for a run, and their ratio.

// A bench may panic, because no other code depends on it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../run_cost/add.rs"]
mod add;
#[path = "../run_cost/server.rs"]
mod server;

use std::sync::Arc;

use add::{Add, Sum, add};
use cpu_time::ProcessTime;
use futures_util::future::join_all;
use toolwright_module::message::ToolResult;
use toolwright_module::{Context, Contract, LanguageModel, Message, Request};
use toolwright_openai::OpenAi;
use toolwright_orchestrator::{Agent, Limits};

const TASK: &str = "Add up all numbers from one on.";
const ROUNDS: usize = 31;

/// A simple loop by hand, without limits, errors for the model and checks of ids.
async fn by_hand(model: &OpenAi, tools: &Arc<[Arc<Contract>]>) -> String {
    let mut messages = vec![Message::user(TASK)];
    loop {
        let request = Request::new(messages.iter().cloned()).with_tools(Arc::clone(tools));
        let reply = model.generate(&request).await.unwrap();
        let results: Vec<_> = reply
            .tool_calls()
            .map(|call| match call.name.as_str() {
                "add" => {
                    let Add { a, b } = serde_json::from_str(&call.arguments).unwrap();
                    let sum = serde_json::to_string(&Sum { sum: a + b }).unwrap();
                    Arc::new(Message::Tool(ToolResult::new(call, sum)))
                }
                other => panic!("no tool {other}"),
            })
            .collect();
        if results.is_empty() {
            return reply.to_text();
        }
        messages.push(Arc::new(Message::Assistant { parts: reply.parts }));
        messages.extend(results);
    }
}

fn main() {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    // Client and server share a core, because a connection between two cores costs about twice as
    // much.
    if !cores.first().is_some_and(|core| core_affinity::set_for_current(*core)) {
        eprintln!("could not pin this process to a core: expect noise");
    }
    if server::is_asked_to_serve() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    println!("{:<8}{:>10}{:>12}{:>14}{:>8}", "steps", "at once", "by hand", "toolwright", "ratio");
    for steps in [5, 20] {
        let server = server::Process::start(steps);
        let model = OpenAi::at(&server.base_url(), "bench").unwrap();
        let add = add();
        let tools: Arc<[Arc<Contract>]> = Arc::new([Arc::clone(add.contract())]);
        let agent = Agent::new(model.clone(), [add]).unwrap();
        let agent =
            agent.with_limits(Limits { max_iterations: steps as u32 + 1, ..Limits::default() });
        for at_once in [1, 64] {
            // Number of runs in a turn. All turns have about the same amount of work.
            let turns = (640 / steps / at_once).max(1);
            let cost = |ours: bool| {
                let started = ProcessTime::now();
                runtime.block_on(async {
                    for _ in 0..turns {
                        let runs = (0..at_once).map(|_| async {
                            let answer = if ours {
                                agent.run(TASK, &Context::default()).await.unwrap().answer
                            } else {
                                by_hand(&model, &tools).await
                            };
                            let sum: usize = (1..=steps + 1).sum();
                            assert_eq!(answer, format!("The sum is {sum}."));
                        });
                        join_all(runs).await;
                    }
                });
                started.elapsed().as_secs_f64() / (turns * at_once) as f64
            };
            // The first turn only warms up connections and caches.
            let _ = (cost(false), cost(true));
            let (mut hand, mut ours, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
            for round in 0..ROUNDS {
                let (one, other) = if round % 2 == 0 {
                    let one = cost(false);
                    (one, cost(true))
                } else {
                    let other = cost(true);
                    (cost(false), other)
                };
                hand.push(one);
                ours.push(other);
                ratios.push(other / one);
            }
            println!(
                "{steps:<8}{at_once:>10}{:>9.0} µs{:>11.0} µs{:>8.2}",
                median(hand) * 1e6,
                median(ours) * 1e6,
                median(ratios),
            );
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
