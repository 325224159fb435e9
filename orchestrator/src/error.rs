//! Errors of runs.
use toolwright_module::error::Stage;

use crate::tool_names::available_tools;

/// The result of an operation on a run.
pub(crate) type Result<T, E = RunError> = std::result::Result<T, E>;

/// An error in the configuration of a run, or in an answer to one of its steps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Two tools have the same name.
    #[error("two tools have the name `{name}`; rename one with `Tool::named`")]
    DuplicateTool {
        /// The name.
        name: String,
    },

    /// An approval policy names a tool that does not exist.
    #[error("the approval policy names the tool `{name}`, which does not exist; {}", known(.tools, .name))]
    NoSuchTool {
        /// The name.
        name: String,
        /// The names of the tools of the run.
        tools: Vec<String>,
    },

    /// A tool of a typed run has the reserved name `finish`.
    #[error("a typed run reserves the tool name `finish`; rename the tool with `Tool::named`")]
    ReservedTool,

    /// A tool or the output has no valid contract.
    #[error(transparent)]
    Contract(#[from] toolwright_signature::ContractError),

    /// An answer is for another step than the current one.
    #[error(
        "the run waits for step {expected}, but the answer is for step {got}; answer the step that `next` returns"
    )]
    WrongStep {
        /// The current step.
        expected: u64,
        /// The step of the answer.
        got: u64,
    },

    /// An answer does not fit its step.
    #[error("the answer does not fit: step {step} expects {expected}")]
    WrongAnswer {
        /// The step.
        step: u64,
        /// The expected kind of answer.
        expected: &'static str,
    },

    /// A person's arguments for a call do not fit its tool.
    #[error(
        "the new arguments of the call `{id}` cannot be used; correct them and decide again: {fault}"
    )]
    WrongArguments {
        /// The id of the call.
        id: String,
        /// The faults of the arguments.
        fault: toolwright_signature::ContractError,
    },

    /// `follow_up` was called on a run that has not finished.
    #[error(
        "the run is at step {step} and has not finished; drive it to its end before `follow_up`"
    )]
    NotDone {
        /// The current step.
        step: u64,
    },

    /// The output or the choice of tools was set after the first step.
    #[error(
        "the run is already at step {step}; call `with_output` and `with_choosing` before the first step"
    )]
    Begun {
        /// The current step.
        step: u64,
    },

    /// A tool of the stored run is missing.
    #[error(
        "the run uses the tool `{name}`, which is missing; resume it with the tools that it started with"
    )]
    MissingTool {
        /// Name of the tool.
        name: String,
    },

    /// A tool was added since the run started.
    #[error(
        "the run did not start with the tool `{name}`; resume it with the tools that it started with"
    )]
    AddedTool {
        /// Name of the tool.
        name: String,
    },

    /// A tool has changed since the run started.
    #[error(
        "the tool `{name}` has changed since the run started (description, schema or effect); start the run again"
    )]
    ChangedTool {
        /// Name of the tool.
        name: String,
    },

    /// The run is for another output than the agent that drives it.
    #[error(
        "the run does not end with the current output of `{name}`; drive it with the agent that started it, or start it again"
    )]
    OtherOutput {
        /// Name of the agent's signature.
        name: String,
    },

    /// A stored run is inconsistent.
    #[error("the stored run is inconsistent: {what}; start it again")]
    Corrupt {
        /// The inconsistency.
        what: &'static str,
    },

    /// The run was stored by a later version.
    #[error("the stored run has version {found}, this program reads up to {known}; update it")]
    Version {
        /// The version of the stored run.
        found: u64,
        /// The latest version that this program can read.
        known: u32,
    },
}

impl RunError {
    /// Converts the error to a module's error, which ends the run.
    pub(crate) fn into_module(self) -> toolwright_module::Error {
        let stage = match self {
            Self::WrongArguments { .. } => Stage::Approval,
            _ => Stage::Setup,
        };
        toolwright_module::Error::stop(self).at(stage)
    }
}

fn known(tools: &[String], name: &str) -> String {
    if tools.is_empty() {
        return "there are no tools".to_owned();
    }
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    available_tools(&tools, name).replacen("The", "the", 1)
}
