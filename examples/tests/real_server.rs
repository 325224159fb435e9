//! A real model behind a server on this machine, such as llama.cpp's.
//!
//! ```sh
//! REAL_SERVER=http://127.0.0.1:8080/v1 cargo test -p toolwright-examples --test main \
//!     real_server -- --ignored --nocapture
//! ```

use std::env;

use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_anthropic::Anthropic;
use toolwright_module::model::Settings;
use toolwright_module::{Context, Effect, Signature, Tool, from_fn};
use toolwright_orchestrator::{Agent, Finished, Limits, Progress};

/// Store a memory under a key.
#[derive(Serialize, Deserialize, JsonSchema)]
struct MemoryStore {
    /// The key.
    key: String,
    /// The value.
    value: String,
}

impl Signature for MemoryStore {
    type Output = String;
}

fn check(how: &str, finished: &Finished) {
    assert_eq!(finished.tools_used, ["memory_store"]);
    assert!(!finished.answer.trim().is_empty());
    let usage = finished.spent.usage;
    assert!(usage.input_tokens > 0 && usage.output_tokens > 0 && !usage.incomplete, "{usage:?}");
    println!("{how}: {usage:?}, {:?}", finished.answer);
}

/// The model is tiny. The test checks that it gets the tool and its result, not what it says.
#[tokio::test]
#[ignore = "needs a server: set REAL_SERVER to its base URL"]
async fn a_real_model_calls_a_tool_over_messages() {
    let server = env::var("REAL_SERVER").expect("REAL_SERVER=http://127.0.0.1:PORT/v1");
    let settings = Settings::default().with_temperature(0.0).with_max_output_tokens(100);
    let model = Anthropic::at(&server, "any").unwrap().with_settings(settings);
    let store = from_fn(async |MemoryStore { key, .. }: MemoryStore| Ok(format!("Stored {key}.")));
    let tools = [Tool::new(store.with_effect(Effect::Read)).unwrap()];
    let limits = Limits { max_iterations: 2, ..Limits::default() };
    let agent = Agent::new(model, tools).unwrap().with_limits(limits);

    let task = "Store the key color with value blue.";
    check("whole", &agent.run(task, &Context::default()).await.unwrap());

    let mut events = 0;
    let mut stream = agent.stream(task, &Context::default());
    while let Some(progress) = stream.next().await {
        match progress.unwrap() {
            Progress::Finished(finished) => check("streamed", &finished),
            _ => events += 1,
        }
    }
    println!("{events} events");
    assert!(events > 10, "{events}");
}
