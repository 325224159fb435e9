//! Lists and calls the tools of an MCP server.
//!
//! `cargo run -p toolwright-examples --example mcp_client -- --http http://127.0.0.1:8000/mcp list`

use std::env;
use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args as Group, Parser, Subcommand};
use serde_json::{Value, json};
use toolwright_cli::{note, note_left_out, say, started_by, tell, terminated};
use toolwright_mcp::{McpClient, McpClientBuilder, McpError};
use toolwright_module::error::Audience;
use toolwright_module::message::Part;
use toolwright_module::{Context, Effect, Error, Result, Tool};

/// Lists and calls the tools of an MCP server.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    server: Server,

    /// Environment variable with the token for a server over HTTP
    #[arg(long, value_name = "NAME", conflicts_with = "stdio")]
    token_env: Option<String>,

    /// Environment variable that the command gets, in addition to PATH, HOME and the like; can be
    /// repeated
    #[arg(long, value_name = "NAME", conflicts_with = "http")]
    env: Vec<String>,

    /// Continue only if the server has not changed since `lock` wrote this file
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,

    #[command(subcommand)]
    task: Task,
}

#[derive(Group)]
#[group(required = true, multiple = false)]
struct Server {
    /// Command that starts the server; it is split into words as by a shell, but no shell runs
    #[arg(long, value_name = "COMMAND")]
    stdio: Option<String>,

    /// URL of the server, such as http://127.0.0.1:8000/mcp
    #[arg(long, value_name = "URL")]
    http: Option<String>,
}

#[derive(Subcommand)]
enum Task {
    /// Print the tools with their effects, descriptions and arguments
    List {
        /// Print each tool's definition as the server sent it, one object per line
        #[arg(long)]
        json: bool,
    },
    /// Call a tool and print its result; after a failure the exit code is 1
    Call {
        /// The tool
        name: String,
        /// Its arguments, as a JSON object
        #[arg(default_value = "{}")]
        arguments: String,
        /// Print an object with `text`, `value` and `parts`
        #[arg(long)]
        json: bool,
    },
    /// Print the current state of the server, as a file for --lock
    Lock,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    let ended = tokio::select! {
        ended = run(&args) => ended,
        _ = tokio::signal::ctrl_c() => return ExitCode::from(130),
        () = terminated() => return ExitCode::from(143),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // An error for the model is a complete sentence, so it gets no prefix.
            let whole = matches!(error.audience(), Audience::ModelMayRetry | Audience::ModelFinal);
            note(&if whole { error.to_string() } else { format!("error: {error:#}") });
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<()> {
    let remote = client(args)?.connect().await.map_err(|error| advice(error, args))?;
    let done = match &args.task {
        Task::List { json } => list(&remote, *json),
        Task::Call { name, arguments, json } => call(&remote, name, arguments, *json).await,
        Task::Lock => {
            say(remote.lock().trim_end());
            Ok(())
        }
    };
    remote.close().await;
    done
}

fn client(args: &Args) -> Result<McpClientBuilder> {
    let mut client = match (&args.server.stdio, &args.server.http) {
        (Some(command), _) => started_by(command)?,
        (None, url) => McpClient::http(url.as_deref().unwrap_or_default())?,
    };
    for name in &args.env {
        let none = || Error::other(format!("--env: {name} is not set"));
        client = client.with_env(name, env::var_os(name).ok_or_else(none)?);
    }
    if let Some(name) = &args.token_env {
        let none = |_| Error::other(format!("--token-env: {name} has no token; set it"));
        client = client.with_token(env::var(name).map_err(none)?)?;
    }
    if let Some(file) = &args.lock {
        let named =
            |error: &dyn Display| Error::other(format!("--lock {}: {error}", file.display()));
        let lock = fs::read_to_string(file).map_err(|error| named(&error))?;
        client =
            client.with_lock(&lock).map_err(|_| named(&"this file was not written by `lock`"))?;
    }
    // The annotations are only shown, and decide nothing, so they can be trusted.
    let shows = matches!(args.task, Task::List { .. });
    Ok(if shows { client.with_trusted_annotations() } else { client })
}

/// Converts an error. The result names the option that helps.
fn advice(error: McpError, args: &Args) -> Error {
    match (error, &args.token_env) {
        (McpError::Unauthorized { server }, None) => Error::other(format!(
            "{server} requires a token; name the variable with the token in --token-env"
        )),
        (McpError::Unauthorized { server }, Some(name)) => {
            Error::other(format!("{server} rejected the token in {name}"))
        }
        (error, _) => error.into(),
    }
}

fn list(remote: &McpClient, json: bool) -> Result<()> {
    note_left_out(remote);
    if json {
        // These are the server's definitions, not the contracts derived from them.
        remote.definitions().iter().for_each(tell);
        return Ok(());
    }
    for tool in remote.tools() {
        say(&described(&tool));
    }
    Ok(())
}

async fn call(remote: &McpClient, name: &str, arguments: &str, json: bool) -> Result<()> {
    let tools = remote.tools();
    let Some(tool) = tools.iter().find(|tool| tool.name() == name) else {
        note_left_out(remote);
        let there: Vec<&str> = tools.iter().map(Tool::name).collect();
        let text = format!("there is no tool `{name}`; there are: {}", there.join(", "));
        return Err(Error::other(text));
    };
    let output = tool.call(arguments, &Context::default()).await?;
    if json {
        let (value, parts) = (output.value()?, output.parts());
        tell(&json!({"text": output.text(), "value": value, "parts": parts}));
        return Ok(());
    }
    if !output.text().is_empty() {
        say(output.text());
    }
    for source in output.parts().iter().filter_map(Part::source) {
        note(&match (source.media_type(), source.to_url()) {
            (Some(kind), _) => format!("(the result has a file of type {kind}; --json prints it)"),
            (None, Some(url)) => format!("(the result has a file at {url})"),
            (None, None) => "(the result has a file of a provider; --json prints it)".to_owned(),
        });
    }
    Ok(())
}

/// Describes a tool for the user: its name, effect and purpose, and one line per argument.
fn described(tool: &Tool) -> String {
    let effect = match tool.effect() {
        Effect::Read => "read-only, according to the server",
        Effect::Idempotent => "idempotent, according to the server",
        _ => "may change things",
    };
    let mut text = format!("{} ({effect})", tool.name());
    for line in tool.contract().description().lines() {
        text.push_str(format!("\n  {line}").trim_end_matches(' '));
    }
    let schema = tool.contract().input();
    for (name, argument) in schema["properties"].as_object().into_iter().flatten() {
        let optional = if required(schema, name) { "" } else { ", optional" };
        text.push_str(&format!("\n    {name}: {}{optional}", kind(argument)));
        if let Some(default) = argument.get("default") {
            text.push_str(&format!(", default: {default}"));
        }
        if let Some(said) = argument["description"].as_str() {
            text.push_str(&format!(". {}", said.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
    }
    text + "\n"
}

fn required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name))
}

/// Returns the type of a schema in a few words.
fn kind(schema: &Value) -> String {
    let or = |kinds: Vec<String>| kinds.join(" or ");
    if let Some(values) = schema["enum"].as_array() {
        return or(values.iter().map(Value::to_string).collect());
    }
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    if let Some(schemas) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        return or(schemas.iter().map(kind).collect());
    }
    if let Some(reference) = schema["$ref"].as_str() {
        return reference.rsplit('/').next().unwrap_or_default().to_owned();
    }
    let fields = schema["properties"].as_object();
    let named = |name: &str| match (schema.get("items"), fields) {
        (Some(items), _) if name == "array" => format!("array of {}", kind(items)),
        (_, Some(fields)) if name == "object" => {
            let field = |(name, field): (&String, &Value)| {
                format!("{name}{}: {}", if required(schema, name) { "" } else { "?" }, kind(field))
            };
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        _ => name.to_owned(),
    };
    match &schema["type"] {
        Value::String(name) => named(name),
        Value::Array(names) => or(names.iter().filter_map(Value::as_str).map(named).collect()),
        _ => "anything".to_owned(),
    }
}
