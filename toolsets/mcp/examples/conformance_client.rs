//! The client with which `tests/clients.sh` runs the official checks: `conformance_client URL`.
//!
//! It connects, lists the tools, and calls them with the arguments of the scenario or with generated
//! ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use std::error::Error as StdError;

use serde_json::{Map, Value, json};
use toolwright_mcp::McpClient;
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::{Context, Dialect, Tool};

#[tokio::main]
async fn main() -> Result<(), Box<dyn StdError>> {
    let url = std::env::args().nth(1).ok_or("usage: conformance_client URL")?;
    let remote = McpClient::http(&url)?.with_questions().connect().await?;
    // A person who sends each form as it is shown.
    let cx = Context::default().with_approver(async |_: Approval| Ok(Decision::Approve));
    for (name, error) in remote.left_out() {
        eprintln!("{name} cannot be used: {error}");
    }
    let tools = remote.tools();
    for (name, arguments) in calls(&tools)? {
        let Some(tool) = tools.iter().find(|tool| tool.name() == name) else {
            eprintln!("there is no tool {name}");
            continue;
        };
        match tool.call(&arguments.to_string(), &cx).await {
            Ok(output) => eprintln!("{name}: {}", output.text),
            // A scenario may expect a failed call, and checks that itself.
            Err(error) => eprintln!("{name} failed: {error:#}"),
        }
    }
    remote.close().await;
    // `tests/clients/conformance.py` checks this line, because the suite does not check the end.
    println!("closed");
    Ok(())
}

/// The calls to make: those of the scenario, or every tool once.
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
    // In one scenario, a tool takes the schema of another tool.
    let shown = tools.iter().find(|tool| tool.name() == "json_schema_2020_12_tool");
    let arguments = |tool: &Tool| match (tool.name(), shown) {
        ("json_schema_echo", Some(shown)) => {
            let form = shown.contract().tool(Dialect::Mcp)?;
            Ok::<_, toolwright_signature::ContractError>(json!({"schema": form["inputSchema"]}))
        }
        _ => Ok(some(tool.contract().input())),
    };
    let mut calls = Vec::new();
    for tool in tools {
        calls.push((tool.name().to_owned(), arguments(tool)?));
    }
    Ok(calls)
}

/// Generates arguments for a flat schema.
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
