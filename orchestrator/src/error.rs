//! Errors of runs.
use toolwright_module::approval::WrongDecision;
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
        /// Name that two tools have.
        name: String,
    },

    /// An approval policy, an offer or a limit names a tool that does not exist.
    #[error("the {named_by} names the tool `{name}`, which does not exist; {}", known(.tools, .name))]
    NoSuchTool {
        /// What names the tool, such as `approval policy`.
        named_by: &'static str,
        /// Name without a tool.
        name: String,
        /// The names of the tools of the run.
        tools: Vec<String>,
    },

    /// A tool of a typed run has the reserved name `finish`.
    #[error("a typed run reserves the tool name `finish`; rename the tool with `Tool::named`")]
    ReservedTool,

    /// A tool has the name `read_result`, which an agent
    /// [with result reading](crate::Agent::with_result_reading) reserves.
    #[error(
        "an agent that reads long results reserves the tool name `read_result`; rename the tool with `Tool::named`"
    )]
    ReservedForReading,

    /// A tool has the name `find_tools`, which an agent with [deferred](toolwright_module::Tool::deferred)
    /// tools reserves.
    #[error(
        "an agent with deferred tools reserves the tool name `find_tools`; rename the tool with `Tool::named`"
    )]
    ReservedForFinding,

    /// A tool or the output has no valid contract.
    #[error(transparent)]
    Contract(#[from] toolwright_signature::ContractError),

    /// A function of the program panicked.
    #[error("{what} of the agent panicked; the run did not advance, so it can be driven again")]
    Panicked {
        /// Function that panicked, such as `the performer`.
        what: &'static str,
    },

    /// The model does not take a part of the conversation.
    #[error(
        "the model does not accept {kind}; leave it out of the conversation, or use another model"
    )]
    UnsupportedPart {
        /// The kind: `image`, `document` or `audio`.
        kind: &'static str,
    },

    /// The model does not support a setting.
    #[error(transparent)]
    Setting(#[from] toolwright_module::model::UnsupportedSetting),

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
        /// Step that waits for a result.
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

    /// A decision does not suit its call.
    #[error("the call `{id}` {reason}")]
    WrongDecision {
        /// The id of the call.
        id: String,
        /// Why, and what to decide instead.
        reason: WrongDecision,
    },

    /// The history of a task cannot be sent to a model.
    #[error("the history cannot be continued: {what}; correct its messages")]
    History {
        /// Fault of the history.
        what: &'static str,
    },

    /// An edit of what is sent cannot be sent.
    #[error("the conversation cannot be edited like this: {what}; change the edit")]
    Edit {
        /// Fault of the edit.
        what: &'static str,
    },

    /// A task is empty, or it is a history whose last message is the model's.
    #[error(
        "there is nothing to answer: the task is empty, and no message of the user or of a tool ends its history; add a text"
    )]
    NothingToAnswer,

    /// The output or the choice of tools was set after the first step.
    #[error(
        "the run is already at step {step}; call `with_output` and `with_choosing` before the first step"
    )]
    Begun {
        /// The current step.
        step: u64,
    },

    /// The run has other tools than the agent that drives it.
    #[error(
        "the run and the agent that drives it differ in the tool `{name}`; resume the run with `Agent::resume`"
    )]
    OtherTools {
        /// Name of a tool that differs or that one of them does not have.
        name: String,
    },

    /// The tool set is not the one that the run was stored with.
    #[error(
        "the tool set is not that of the stored run; give it the one with the hash of `RunState::tool_set_hash`"
    )]
    OtherToolSet,

    /// An open call of a stored run needs a tool that was removed.
    #[error(
        "the stored run has the open call `{id}` of the tool `{tool}`, which does not exist; rename it with `RunState::with_renamed`, or start a run with its history; {}", known(.tools, .tool)
    )]
    OpenCallTool {
        /// The id of the call.
        id: String,
        /// Name of the tool.
        tool: String,
        /// The names of the current tools.
        tools: Vec<String>,
    },

    /// The arguments of an open call of a stored run no longer fit the tool.
    #[error(
        "the open call `{id}` of the stored run no longer fits the tool `{tool}`; change it with `RunState::with_open_calls`, or start a run with its history: {fault}"
    )]
    OpenCall {
        /// The id of the call.
        id: String,
        /// Name of the tool.
        tool: String,
        /// The faults of the arguments.
        fault: Box<toolwright_signature::ContractError>,
    },

    /// The run is for another type of answer than the agent that drives it.
    #[error(
        "the run does not end with the current answer of the type `{name}`; if an agent with this type started it, resume it with `Agent::resume`; otherwise use the agent that started it"
    )]
    OtherOutput {
        /// Name of the type of the agent's answer, or of its signature.
        name: String,
    },

    /// A stored run is inconsistent.
    #[error("the stored run is inconsistent: {what}; start it again")]
    Corrupt {
        /// The inconsistency.
        what: &'static str,
    },

    /// The run was stored in another version.
    #[error(
        "the stored run has version {found}, and this program reads version {known}; use the program of that version"
    )]
    Version {
        /// The version of the stored run.
        found: u64,
        /// The version that this program reads.
        known: u32,
    },
}

impl RunError {
    /// Converts the error to a module's error, which ends the run.
    pub(crate) fn into_module(self) -> toolwright_module::Error {
        let stage = match self {
            Self::WrongArguments { .. } | Self::WrongDecision { .. } => Stage::Approval,
            Self::Panicked { .. } => Stage::Panic,
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
