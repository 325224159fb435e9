//! Looks at an MCP server and calls its tools.
//!
//! `cargo run -p toolwright-examples --example mcp_client -- --http http://127.0.0.1:8000/mcp list`

use std::env;
use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args as Group, Parser, Subcommand};
use serde_json::{Value, json};
use toolwright_examples::{note, note_left_out, say, started_by, tell, terminated};
use toolwright_mcp::{McpClient, McpClientBuilder, McpError};
use toolwright_module::error::Audience;
use toolwright_module::message::Image;
use toolwright_module::{Context, Effect, Error, Result, Tool};

/// Looks at an MCP server and calls its tools.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    server: Server,

    /// The environment variable with the token for a server over HTTP
    #[arg(long, value_name = "NAME", conflicts_with = "stdio")]
    token_env: Option<String>,

    /// A variable of the environment that a command gets, besides PATH, HOME and the like;
    /// may be given several times
    #[arg(long, value_name = "NAME", conflicts_with = "http")]
    env: Vec<String>,

    /// Go on only if the server is what it was when `lock` wrote this file
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,

    #[command(subcommand)]
    task: Task,
}

#[derive(Group)]
#[group(required = true, multiple = false)]
struct Server {
    /// The command that starts the server; split as by a shell, without one
    #[arg(long, value_name = "COMMAND")]
    stdio: Option<String>,

    /// The server's URL, such as http://127.0.0.1:8000/mcp
    #[arg(long, value_name = "URL")]
    http: Option<String>,
}

#[derive(Subcommand)]
enum Task {
    /// Print the tools, what the server says that they do, and what they take
    List {
        /// Print each tool's definition as the server gave it, one object a line
        #[arg(long)]
        json: bool,
    },
    /// Call a tool and print its result; a failure is an exit code of 1
    Call {
        /// The tool
        name: String,
        /// Its arguments, as a JSON object
        #[arg(default_value = "{}")]
        arguments: String,
        /// Print an object with `text`, `value` and `images`
        #[arg(long)]
        json: bool,
    },
    /// Print what the server is now, for --lock
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
            // What a model would be told needs no more words.
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
        let none = |_| Error::other(format!("--token-env: {name} holds no token; set it"));
        client = client.with_token(env::var(name).map_err(none)?)?;
    }
    if let Some(file) = &args.lock {
        let named =
            |error: &dyn Display| Error::other(format!("--lock {}: {error}", file.display()));
        let lock = fs::read_to_string(file).map_err(|error| named(&error))?;
        client = client.with_lock(&lock).map_err(|_| named(&"`lock` did not write this"))?;
    }
    // Its word decides nothing here, it is shown.
    let shows = matches!(args.task, Task::List { .. });
    Ok(if shows { client.with_trusted_annotations() } else { client })
}

/// The error, with the switch that helps.
fn advice(error: McpError, args: &Args) -> Error {
    match (error, &args.token_env) {
        (McpError::Unauthorized { server }, None) => Error::other(format!(
            "{server} wants a token; name the variable that holds it with --token-env"
        )),
        (McpError::Unauthorized { server }, Some(name)) => {
            Error::other(format!("{server} does not take the token in {name}"))
        }
        (error, _) => error.into(),
    }
}

fn list(remote: &McpClient, json: bool) -> Result<()> {
    note_left_out(remote);
    if json {
        // As it came; a tool's contract is what was made of it.
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
        let (value, images) = (output.value()?, output.images());
        tell(&json!({"text": output.text(), "value": value, "images": images}));
        return Ok(());
    }
    if !output.text().is_empty() {
        say(output.text());
    }
    for image in output.images() {
        let Image::Url(url) = image else { continue };
        note(&match url.strip_prefix("data:") {
            Some(data) => {
                let kind = data.split([';', ',']).next().unwrap_or_default();
                format!("(an image of type {kind} comes with it; --json prints it)")
            }
            None => format!("(an image is at {url})"),
        });
    }
    Ok(())
}

/// A tool for people: its name and effect, what it is for, an argument a line.
fn described(tool: &Tool) -> String {
    let effect = match tool.effect() {
        Effect::Read => "only reads, says the server",
        Effect::Idempotent => "twice is the same as once, says the server",
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
            text.push_str(&format!(", {default} unless said"));
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

/// What a schema takes, in a few words.
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
