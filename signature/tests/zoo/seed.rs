//! The tools of the Toolsets seed, as it shows them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_signature::{Signature, type_tag};

use super::unions::Scalar;

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Debug)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Priority {
    Low,
    Medium,
    High,
    Critical,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Debug)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Status {
    Pending,
    InProgress,
    Completed,
}

/// S26: the five basic types.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Analyze {
    text: String,
    count: i64,
    score: f64,
    enabled: bool,
    /// S40: whole or not, and which of the two is kept.
    threshold: serde_json::Number,
}

/// Change priority and status of a task.
#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
pub(crate) struct UpdateTask {
    /// Parameter priority
    pub(crate) priority: Priority,
    /// Parameter status
    pub(crate) status: Status,
}

impl Signature for UpdateTask {
    type Output = String;
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
#[serde(tag = "_type")]
#[schemars(transform = type_tag::<Self>)]
pub(crate) struct TaskMetadata {
    pub(crate) id: String,
    pub(crate) priority: Priority,
    pub(crate) tags: Vec<String>,
    pub(crate) estimated_hours: Option<f64>,
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
#[serde(tag = "_type")]
#[schemars(transform = type_tag::<Self>)]
pub(crate) struct TaskRequest {
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) status: Status,
    pub(crate) metadata: TaskMetadata,
    pub(crate) assignees: Vec<String>,
}

/// Create a task.
#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
pub(crate) struct CreateTask {
    pub(crate) task: TaskRequest,
}

impl Signature for CreateTask {
    type Output = String;
}

/// S32: the four collections.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Configure {
    tags: Vec<String>,
    priorities: Vec<Priority>,
    config: BTreeMap<String, Scalar>,
    mappings: BTreeMap<String, Priority>,
}

/// S34: only the first has to be given.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Process {
    required_field: String,
    optional_field: Option<String>,
    optional_enum: Option<Priority>,
    optional_array: Option<Vec<String>>,
}
