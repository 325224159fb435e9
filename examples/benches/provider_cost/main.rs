//! Cost of a run over each provider's API, compared with a loop by hand on reqwest and serde.
//!
//! `cargo bench -p toolwright-examples --bench provider_cost`
//!
//! A loopback server in its own process plays a model that calls a tool in each step and then
//! answers. The loop by hand and Toolwright take turns. The bench prints the medians of their CPU
//! time and the ratio, for short and long runs and with many tools.

// A bench may panic, because no other code depends on it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../run_cost/add.rs"]
mod add;
mod by_hand;
#[path = "../run_cost/server.rs"]
mod server;

use std::time::Duration;

use add::{Add, Sum, add};
use by_hand::ByHand;
use cpu_time::ProcessTime;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolwright_anthropic::Anthropic;
use toolwright_gemini::Gemini;
use toolwright_module::{Context, Effect, Tool};
use toolwright_openai::{Api, OpenAi};
use toolwright_orchestrator::{Agent, Limits};
use toolwright_signature::{Contract, Dialect};

const TASK: &str = "Add up all numbers.";

/// Steps, tools, and number of rounds and of runs in a round.
const CASES: [(usize, usize, usize, usize); 4] =
    [(5, 1, 25, 40), (20, 1, 25, 10), (400, 1, 7, 1), (5, 300, 25, 10)];

const APIS: [&str; 4] = ["chat", "responses", "anthropic", "gemini"];

/// Dispatch by hand: calls a tool by its name, with JSON arguments.
fn dispatch_by_hand(name: &str, arguments: &str) -> String {
    match name {
        "add" => {
            let Add { a, b } = serde_json::from_str(arguments).unwrap();
            serde_json::to_string(&Sum { sum: a + b }).unwrap()
        }
        other => panic!("no tool {other}"),
    }
}

/// Returns the tool that the model calls, and others that it does not call.
fn tools(count: usize) -> Vec<Tool> {
    let other = |index| {
        let schema = json!({
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "What to look for."},
                "most": {"type": "integer", "description": "The number of results at most."},
            },
            "required": ["text", "most"],
        });
        let name = format!("search_in_{index}");
        let description = format!("Search the documents of department {index} for a text.");
        let contract = Contract::dynamic(&name, &description, schema, None).unwrap();
        let never = async |_, _| panic!("the model does not call it");
        Tool::dynamic(contract, Effect::Read, never)
    };
    std::iter::once(add()).chain((1..count).map(other)).collect()
}

/// Returns the tools as the API has them.
fn definitions(api: &str, tools: &[Tool]) -> Box<RawValue> {
    let definition = |tool: &Tool| {
        let contract = tool.contract();
        let (name, description) = (contract.name(), contract.description());
        let parameters = contract.tool(Dialect::OpenAiLoose).unwrap();
        let parameters = &parameters["function"]["parameters"];
        match api {
            "chat" => {
                json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters, "strict": false}})
            }
            "responses" => {
                json!({"type": "function", "name": name, "description": description, "parameters": parameters, "strict": false})
            }
            "anthropic" => {
                json!({"name": name, "description": description, "input_schema": parameters})
            }
            _ => {
                json!({"name": name, "description": description, "parametersJsonSchema": parameters})
            }
        }
    };
    let list: Vec<Value> = tools.iter().map(definition).collect();
    let list = match api {
        "gemini" => json!([{"functionDeclarations": list}]),
        _ => Value::from(list),
    };
    serde_json::value::to_raw_value(&list).unwrap()
}

/// Returns Toolwright's agent.
fn agent(api: &str, address: &str, tools: Vec<Tool>, steps: usize) -> Agent {
    let openai = |api| {
        let model = OpenAi::at(&format!("{address}/v1"), "bench").unwrap().with_api(api);
        // OpenAI itself takes at most 128 tools, compatible servers take more.
        model.with_dialect(Dialect::JsonSchema2020)
    };
    let limits = Limits { max_iterations: steps as u32 + 1, ..Limits::default() };
    let agent = match api {
        "chat" => Agent::new(openai(Api::Chat), tools),
        "responses" => Agent::new(openai(Api::Responses), tools),
        "anthropic" => {
            let model = Anthropic::at(&format!("{address}/v1"), "bench").unwrap();
            Agent::new(model, tools)
        }
        _ => {
            let model = Gemini::at(&format!("{address}/v1beta"), "bench").unwrap();
            Agent::new(model, tools)
        }
    };
    agent.unwrap().with_limits(limits)
}

async fn run_by_hand(api: &str, by_hand: &ByHand) -> String {
    match api {
        "chat" => by_hand.run::<by_hand::Chat>(TASK).await,
        "responses" => by_hand.run::<by_hand::Responses>(TASK).await,
        "anthropic" => by_hand.run::<by_hand::Messages>(TASK).await,
        _ => by_hand.run::<by_hand::Gemini>(TASK).await,
    }
}

fn main() {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    if !cores.first().is_some_and(|core| core_affinity::set_for_current(*core)) {
        eprintln!("could not pin this process to a core: expect noise");
    }
    if server::is_asked_to_serve() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    println!(
        "{:<12}{:>6}{:>7}{:>14}{:>14}{:>8}{:>14}{:>14}",
        "API", "steps", "tools", "reqwest/run", "ours/run", "ratio", "its bytes", "our bytes"
    );
    for (steps, count, rounds, runs) in CASES {
        let server = server::Process::start(steps);
        for api in APIS {
            let tools = tools(count);
            let by_hand = ByHand::new(&server.address(), definitions(api, &tools));
            let agent = agent(api, &server.address(), tools, steps);
            let mut costs = [Vec::new(), Vec::new()];
            let mut bytes = [0; 2];
            for round in 0..=rounds {
                for turn in 0..2 {
                    let client = (round + turn) % 2;
                    let before = server.bytes();
                    let cost = cost(&runtime, runs, steps, async || match client {
                        0 => run_by_hand(api, &by_hand).await,
                        _ => agent.run(TASK, &Context::default()).await.unwrap().answer,
                    });
                    bytes[client] = (server.bytes() - before) / runs as u64;
                    // The first round only warms up connections and caches.
                    if round > 0 {
                        costs[client].push(cost.as_secs_f64() * 1e6);
                    }
                }
            }
            let ratios = costs[0].iter().zip(&costs[1]).map(|(by_hand, ours)| ours / by_hand);
            let ratio = median(ratios.collect());
            let [by_hand, ours] = costs.map(median);
            println!(
                "{api:<12}{steps:>6}{count:>7}{by_hand:>11.0} µs{ours:>11.0} µs{ratio:>8.2}{:>14}{:>14}",
                bytes[0], bytes[1]
            );
        }
    }
}

/// Returns the CPU time of one run.
fn cost(runtime: &Runtime, runs: usize, steps: usize, run: impl AsyncFn() -> String) -> Duration {
    let sum: usize = (1..=steps + 1).sum();
    let started = ProcessTime::now();
    runtime.block_on(async {
        for _ in 0..runs {
            assert_eq!(run().await, format!("The sum is {sum}."));
        }
    });
    started.elapsed() / runs as u32
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
