//! A toolset whose tools take every kind of type: numbers, enums, structs, collections, optional
//! values and unions.
//!
//! Without arguments the program makes valid and invalid calls of each tool. To make your own call,
//! name a tool and its arguments.

#[path = "common/calls.rs"]
mod calls;

use std::collections::BTreeMap;
use std::fmt;

use calls::{Call, show};
use clap::Parser;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use toolwright_module::{Effect, Result, Signature, Tool, from_fn};

#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Priority {
    Low,
    Medium,
    High,
    Critical,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Status {
    Pending,
    InProgress,
    Completed,
}

/// Shows the name that a model uses.
impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Show what kind of value each argument is.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Analyze {
    text: String,
    count: i64,
    score: f64,
    enabled: bool,
    /// An integer stays an integer, and a fraction stays a fraction.
    threshold: Number,
}

impl Signature for Analyze {
    type Output = String;
}

/// Change the priority and the status of a task.
#[derive(Serialize, Deserialize, JsonSchema)]
struct UpdateTask {
    priority: Priority,
    status: Status,
}

impl Signature for UpdateTask {
    type Output = String;
}

/// Create a task.
#[derive(Serialize, Deserialize, JsonSchema)]
struct CreateTask {
    task: TaskRequest,
}

impl Signature for CreateTask {
    type Output = String;
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct TaskRequest {
    title: String,
    description: String,
    status: Status,
    metadata: TaskMetadata,
    assignees: Vec<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct TaskMetadata {
    id: String,
    priority: Priority,
    tags: Vec<String>,
    estimated_hours: Option<f64>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Scalar {
    Text(String),
    Whole(i64),
    Fraction(f64),
}

/// Set tags, priorities, settings and the priority of each queue.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Configure {
    tags: Vec<String>,
    priorities: Vec<Priority>,
    config: BTreeMap<String, Scalar>,
    mappings: BTreeMap<String, Priority>,
}

impl Signature for Configure {
    type Output = String;
}

/// Take one required and three optional arguments.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Process {
    required_field: String,
    optional_field: Option<String>,
    optional_enum: Option<Priority>,
    optional_array: Option<Vec<String>>,
}

impl Signature for Process {
    type Output = String;
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Action {
    Priority(Priority),
    Status(Status),
}

/// Take a value of several types, and a priority or a status.
#[derive(Serialize, Deserialize, JsonSchema)]
struct HandleFlexible {
    value: Scalar,
    action: Action,
}

impl Signature for HandleFlexible {
    type Output = String;
}

/// Returns the tools. The toolset has no state, so it is a function.
pub(crate) fn tools() -> Result<Vec<Tool>> {
    let analyze = from_fn(async |ask: Analyze| {
        let Analyze { text, count, score, enabled, threshold } = ask;
        let kind = if threshold.is_f64() { "a fraction" } else { "whole" };
        Ok(format!(
            "{text:?} has {} characters; count {count}, score {score:?}, enabled {enabled}; \
             the threshold {threshold} is {kind}.",
            text.chars().count(),
        ))
    });
    let update = from_fn(async |UpdateTask { priority, status }: UpdateTask| {
        Ok(format!("Updated to {priority} priority with {status} status"))
    });
    let create = from_fn(async |CreateTask { task }: CreateTask| {
        let hours = task.metadata.estimated_hours;
        let hours = hours.map_or_else(String::new, |hours| format!(", {hours} hours"));
        Ok(format!("Created: {} ({}){hours}", task.title, task.status))
    });
    let configure = from_fn(async |ask: Configure| {
        let Configure { tags, priorities, config, mappings } = ask;
        Ok(format!("tags {tags:?}, priorities {priorities:?}, {config:?}, {mappings:?}"))
    });
    let process = from_fn(async |ask: Process| Ok(format!("{ask:?}")));
    let flexible = from_fn(async |HandleFlexible { value, action }: HandleFlexible| {
        Ok(format!("{value:?}, {action:?}"))
    });
    Ok(vec![
        Tool::new(analyze.with_effect(Effect::Read))?,
        Tool::new(update.with_effect(Effect::Idempotent))?,
        Tool::new(create)?,
        Tool::new(configure.with_effect(Effect::Idempotent))?,
        Tool::new(process.with_effect(Effect::Read))?,
        Tool::new(flexible.with_effect(Effect::Read))?,
    ])
}

/// Tools that take every kind of type.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    call: Call,
}

const SCRIPT: &[(&str, &str)] = &[
    ("analyze", r#"{"text": "Rain.", "count": 3, "score": 2, "enabled": true, "threshold": 5}"#),
    (
        "analyze",
        r#"{"text": "Rain.", "count": "3", "score": 2.5, "enabled": "false", "threshold": 5.0}"#,
    ),
    ("analyze", r#"{"text": 5, "count": "abc", "score": "abc", "enabled": 7, "threshold": "abc"}"#),
    ("update_task", r#"{"priority": "critical", "status": "in-progress"}"#),
    ("update_task", r#"{"priority": "critical", "status": "paused"}"#),
    (
        "create_task",
        r#"{"task": {"title": "Write", "description": "A page.", "status": "pending", "metadata": {"id": "1", "priority": "low", "tags": []}, "assignees": ["Kate"]}}"#,
    ),
    (
        "create_task",
        r#"{"task": {"title": "Write", "description": "", "status": "pending", "metadata": {"id": "1", "priority": "low", "tags": [], "estimated_hours": 1.5}, "assignees": []}}"#,
    ),
    (
        "configure",
        r#"{"tags": ["a"], "priorities": ["low", "high"], "config": {"a": "text", "b": 1, "c": 1.5}, "mappings": {"x": "high"}}"#,
    ),
    (
        "configure",
        r#"{"tags": ["a", 1], "priorities": ["low", "none"], "config": {"a": []}, "mappings": {"x": "none"}}"#,
    ),
    ("process", r#"{"required_field": "a"}"#),
    ("process", r#"{"optional_field": "a", "optional_enum": "urgent"}"#),
    ("handle_flexible", r#"{"value": 3.5, "action": "in-progress"}"#),
    ("handle_flexible", r#"{"value": "3", "action": "high"}"#),
    ("handle_flexible", r#"{"value": null, "action": "none"}"#),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    show(&tools()?, &args.call.or(SCRIPT)).await
}
