//! The server with which `tests/clients.sh` runs the official checks and real clients.
//!
//! `clients` serves over standard input and output, `clients ADDRESS` over HTTP.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

#[allow(dead_code, reason = "this program uses a part of it")]
#[path = "../tests/support/mod.rs"]
mod support;

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolwright_mcp::{McpError, McpServer, Resource, ServerLimits};
use toolwright_module::event::EventKind;
use toolwright_module::message::{Image, Part};
use toolwright_module::{
    Cancellation, Context, Contract, Effect, Error, Result, Tool, ToolCall, ToolOutput,
};

/// An empty sound.
const WAV: &str =
    "data:audio/wav;base64,UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/// Some JSON.
const JSON: &str = "data:application/json;base64,eyJ0ZXN0IjoiZGF0YSJ9";

/// A red dot.
const PNG: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

fn tool<F, Fut>(name: &str, input: Value, handler: F) -> Tool
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput>> + Send + 'static,
{
    let contract = Contract::dynamic(name, "A tool of the official checks.", input, None).unwrap();
    Tool::dynamic(contract, Effect::Read, move |_, cx| handler(cx))
}

/// The tools that the conformance suite calls.
fn scenarios() -> Vec<Tool> {
    let nothing = || json!({"type": "object"});
    let said = |text: &'static str| move |_| async move { Ok(ToolOutput::text_only(text)) };
    let gives = |text: &'static str, urls: &'static [&'static str]| {
        move |_| async move {
            let images = urls.iter().map(|url| Image::url(*url).into());
            Ok(ToolOutput::text_only(text).with_parts(images))
        }
    };
    let address = json!({
        "$anchor": "addressDef",
        "type": "object",
        "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
    });
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": address},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    });
    let headers = json!({
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "query": {"type": "string"},
        },
        "required": ["region"],
    });
    vec![
        tool("test_simple_text", nothing(), said("This is a simple text response for testing.")),
        tool("test_image_content", nothing(), gives("", &[PNG])),
        tool("test_audio_content", nothing(), gives("", &[WAV])),
        tool("test_embedded_resource", nothing(), gives("", &[JSON])),
        tool("test_multiple_content_types", nothing(), gives("Several:", &[PNG, JSON])),
        // The tools send no requests or log messages to the client; these two show it.
        tool("test_streaming_elicitation", nothing(), said("Nothing to ask.")),
        tool("test_logging_tool", nothing(), said("Nothing to log.")),
        tool("test_error_handling", nothing(), |_| async {
            Err(Error::refuse("This tool intentionally returns an error for testing"))
        }),
        tool("test_tool_with_progress", nothing(), |cx| async move {
            for step in ["one", "two", "three"] {
                cx.emit(|| EventKind::ToolStarted { call: ToolCall::new("1", step, "{}") });
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Ok(ToolOutput::text_only("Three steps."))
        }),
        tool("json_schema_2020_12_tool", schema, said("It fits.")),
        tool("test_custom_headers", headers, said("It came.")),
    ]
}

/// Creates a prompt, or the reader of a template, with these required texts as its arguments.
fn prompt(
    name: &str,
    fields: &[&str],
    output: impl Fn(&Value) -> (String, Option<Part>) + Send + Sync + 'static,
) -> Tool {
    let properties = fields.iter().map(|name| ((*name).to_owned(), json!({"type": "string"})));
    let properties: serde_json::Map<_, _> = properties.collect();
    let input = json!({"type": "object", "properties": properties, "required": fields});
    let contract = Contract::dynamic(name, "A prompt of the official checks.", input, None);
    Tool::dynamic(contract.unwrap(), Effect::Read, move |arguments, _| {
        let (text, part) = output(&serde_json::from_str(&arguments).unwrap());
        async move { Ok(ToolOutput::text_only(text).with_parts(part)) }
    })
}

/// Adds the prompts and resources that the conformance suite gets and reads.
fn with_prompts_and_resources(server: McpServer) -> std::result::Result<McpServer, McpError> {
    let prompts = [
        prompt("test_simple_prompt", &[], |_| {
            ("This is a simple prompt for testing.".to_owned(), None)
        }),
        prompt("test_prompt_with_arguments", &["arg1", "arg2"], |given| {
            (format!("Prompt with arguments: arg1={}, arg2={}", given["arg1"], given["arg2"]), None)
        }),
        prompt("test_prompt_with_embedded_resource", &["resourceUri"], |_| {
            ("Process the resource.".to_owned(), Some(Image::url(JSON).into()))
        }),
        prompt("test_prompt_with_image", &[], |_| {
            ("Analyze the image.".to_owned(), Some(Image::url(PNG).into()))
        }),
    ];
    let text = Resource::new("test://static-text", "text").with_media_type("text/plain");
    let binary = Resource::new("test://static-binary", "binary").with_media_type("image/png");
    let template = Resource::new("test://template/{id}/data", "template");
    let data = prompt("template", &["id"], |given| {
        (json!({"id": given["id"], "templateTest": true}).to_string(), None)
    });
    server
        .with_prompts(prompts)?
        .with_resource(text, async |_| Ok("This is the content of the static text resource."))?
        .with_resource(binary, async |_| Ok(b"\x89PNG".to_vec()))?
        .with_resource_template(template.with_media_type("application/json"), data)
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn StdError>> {
    let shutdown = Cancellation::default();
    let tools = support::tools(&Arc::default()).into_iter().chain(scenarios());
    let limits = ServerLimits { tool_time: Duration::from_secs(20), ..ServerLimits::default() };
    let server = McpServer::new("clients", "1.0.0", tools)?
        .with_limits(limits)
        .with_shutdown(shutdown.clone());
    let server = with_prompts_and_resources(server)?;
    match std::env::args().nth(1) {
        None => server.serve_stdio().await?,
        Some(address) => {
            let listener = TcpListener::bind(address).await?;
            println!("http://{}/mcp", listener.local_addr()?);
            // The server shuts down when its input is closed.
            tokio::task::spawn_blocking(move || {
                let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
                shutdown.cancel();
            });
            server.serve_http(listener).await?;
        }
    }
    Ok(())
}
