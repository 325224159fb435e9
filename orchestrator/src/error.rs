use toolwright_module::error::Stage;

use crate::nearest::there_are;

/// The result of putting a run together and of moving it on.
pub(crate) type Result<T, E = RunError> = std::result::Result<T, E>;

/// What is wrong with a run's parts, or with an answer given to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Two tools would look the same to the model.
    #[error("two tools are called `{name}`; give one another name with `Tool::named`")]
    DuplicateTool {
        /// The name they share.
        name: String,
    },

    /// An approval policy names a tool that is not there: its calls would not wait.
    #[error("the approval policy names the tool `{name}`, and there is none; {}", known(.tools, .name))]
    NoSuchTool {
        /// The name.
        name: String,
        /// The names there are.
        tools: Vec<String>,
    },

    /// A tool of a typed run has the name of the one that ends it.
    #[error(
        "no tool of a typed run may be called `finish`, which ends it; give it another name with `Tool::named`"
    )]
    ReservedTool,

    /// A tool or an output cannot be sent to the model.
    #[error(transparent)]
    Contract(#[from] toolwright_signature::Error),

    /// An answer came for another step than the one the run waits for.
    #[error(
        "the run waits for step {expected}, but the answer is for step {got}; answer what `next` gives"
    )]
    WrongStep {
        /// The step the run waits for.
        expected: u64,
        /// The step that was answered.
        got: u64,
    },

    /// An answer is of another kind than its step.
    #[error("step {step} asks for {expected}; answer with that")]
    WrongAnswer {
        /// The step.
        step: u64,
        /// What it asks for.
        expected: &'static str,
    },

    /// A person's arguments for a call do not fit its tool.
    #[error(
        "the new arguments of the call `{id}` cannot be used; mend them and decide again: {fault}"
    )]
    WrongArguments {
        /// The call's id.
        id: String,
        /// What is wrong with them.
        fault: toolwright_signature::Error,
    },

    /// More is asked of a run that is still busy.
    #[error("the run is at step {step} and not done; drive it to its end before you ask for more")]
    NotDone {
        /// Where the run is.
        step: u64,
    },

    /// A run that has begun is asked to end, or to choose its tools, in another way.
    #[error(
        "the run is at step {step} already; say how it ends and chooses its tools before it begins"
    )]
    Begun {
        /// Where the run is.
        step: u64,
    },

    /// A run needs a tool that is not there.
    #[error(
        "the run uses the tool `{name}`, which is missing here; go on with the tools it began with"
    )]
    MissingTool {
        /// The tool's name.
        name: String,
    },

    /// There is a tool that the run does not know.
    #[error("the run does not know the tool `{name}`; go on with the tools it began with")]
    AddedTool {
        /// The tool's name.
        name: String,
    },

    /// A tool is not what it was when the run began.
    #[error(
        "the tool `{name}` is not what it was when the run began (description, schema or effect); start the run again"
    )]
    ChangedTool {
        /// The tool's name.
        name: String,
    },

    /// A run has to end with another output than the one it is driven for.
    #[error(
        "the run does not end with the output of `{name}` as it is now; drive it with what started it, or start it again"
    )]
    OtherOutput {
        /// The signature it is driven for.
        name: String,
    },

    /// A stored run contradicts itself.
    #[error("the stored run cannot go on: {what} do not fit together; start it again")]
    Corrupt {
        /// What does not fit together.
        what: &'static str,
    },

    /// A later version stored the run.
    #[error("the stored run has version {found}, this program reads up to {known}; update it")]
    Version {
        /// The version it has.
        found: u64,
        /// The newest version this program knows.
        known: u32,
    },
}

impl RunError {
    /// As a module's error: it ends the run.
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
        return "there are no tools at all".to_owned();
    }
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    // In the middle of a sentence.
    there_are(&tools, name).replacen("The", "the", 1)
}
