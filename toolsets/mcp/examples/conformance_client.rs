//! The client that `tests/clients.sh` shows to the official checks: `conformance_client URL`.
//!
//! It does what any user of a server's tools does: it connects, looks at the tools and calls
//! them, with the arguments that the scenario gives or with some that fit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use std::error::Error as StdError;

use serde_json::{Map, Value, json};
use toolwright_mcp::McpClient;
use toolwright_module::{Context, Dialect, Tool};

#[tokio::main]
async fn main() -> Result<(), Box<dyn StdError>> {
    let url = std::env::args().nth(1).ok_or("say the server's URL")?;
    let remote = McpClient::http(&url)?.connect().await?;
    for (name, error) in remote.left_out() {
        eprintln!("{name} is left out: {error}");
    }
    let tools = remote.tools();
    for (name, arguments) in calls(&tools)? {
        let Some(tool) = tools.iter().find(|tool| tool.name() == name) else {
            eprintln!("{name} is not there");
            continue;
        };
        match tool.call(&arguments.to_string(), &Context::default()).await {
            Ok(output) => eprintln!("{name}: {}", output.text()),
            // A scenario may want a call to fail; it says itself whether this one was to.
            Err(error) => eprintln!("{name} failed: {error:#}"),
        }
    }
    remote.close().await;
    // The suite does not look at how a client ends: `tests/clients/conformance.py` does.
    println!("closed");
    Ok(())
}

/// What is to be called: as the scenario says, or every tool once.
fn calls(tools: &[Tool]) -> Result<Vec<(String, Value)>, Box<dyn StdError>> {
    let context: Value = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(context) => serde_json::from_str(&context)?,
        Err(_) => Value::Null,
    };
    if let Some(calls) = context["toolCalls"].as_array() {
        let call = |call: &Value| {
            let name = call["name"].as_str().unwrap_or_default();
            (name.to_owned(), call["arguments"].clone())
        };
        return Ok(calls.iter().map(call).collect());
    }
    // One scenario has a tool to be shown another one's schema.
    let shown = tools.iter().find(|tool| tool.name() == "json_schema_2020_12_tool");
    let arguments = |tool: &Tool| match (tool.name(), shown) {
        ("json_schema_echo", Some(shown)) => {
            let form = shown.contract().tool(Dialect::Mcp)?;
            Ok::<_, toolwright_signature::Error>(json!({"schema": form["inputSchema"]}))
        }
        _ => Ok(some(tool.contract().input())),
    };
    let mut calls = Vec::new();
    for tool in tools {
        calls.push((tool.name().to_owned(), arguments(tool)?));
    }
    Ok(calls)
}

/// Some arguments for a schema that is not deep.
fn some(schema: &Value) -> Value {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let value = |schema: &Value| match schema["type"].as_str() {
        Some("number" | "integer") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("text"),
    };
    let given = properties.map(|(name, schema)| (name.clone(), value(schema)));
    Value::Object(given.collect::<Map<_, _>>())
}
