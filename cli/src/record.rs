//! Recordings of runs: the replies of the model, and the options that shape its requests.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_module::message::{Part, ReplyPart};
use toolwright_module::testing::{Recording, RecordingError};
use toolwright_module::{Contract, Message};

use crate::keys::{MASKED, without_keys};
use crate::show::{quoted, shortened};

/// The recording that is replayed if there is no model.
const FIRST: &str = include_str!("../recordings/first.json");

/// The tool with which a model reads long results.
const READ_RESULT: &str = "read_result";

/// A recorded run.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) recording: Recording,
    pub(crate) options: Option<Options>,
}

/// The options of a recorded run.
///
/// Toolsets that reach beyond the process are only named. The user who replays the file must specify
/// them again: a file from someone else must not choose a folder or start a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Options {
    /// Toolsets whose calls stay inside the process.
    #[serde(default)]
    pub(crate) tools: Vec<String>,
    /// Other toolsets and MCP servers, for the message to the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) outside: Vec<String>,
    /// The hash of all that the tools reach outside the process: whole commands, variables, tokens, the
    /// home folder, URLs, absolute paths. It is in journals only. Two runs with the same `outside` may differ in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) places: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) system: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) selector: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_output_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_model_calls: Option<u64>,
}

/// Shows the options as arguments of the command, with the beginning of long values and without
/// keys.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<&str> = self.tools.iter().chain(&self.outside).map(String::as_str).collect();
        match tools.is_empty() {
            true => f.write_str("--tools none"),
            false => {
                // As `--tools` reads it.
                let tools: Vec<String> =
                    tools.iter().map(|tool| tool.replace(',', r"\,")).collect();
                write!(f, "--tools {}", quoted(&tools.join(",")))
            }
        }?;
        if let Some(system) = &self.system {
            write!(f, " --system {}", quoted(&shortened(&without_keys(system))))?;
        }
        if self.selector {
            f.write_str(" --selector")?;
        }
        if let Some(schema) = &self.schema {
            write!(f, " --schema '{}'", shortened(&without_keys(&schema.to_string())))?;
        }
        if let Some(tokens) = self.max_output_tokens {
            write!(f, " --max-output-tokens {tokens}")?;
        }
        match self.max_model_calls {
            Some(calls) => write!(f, " --max-model-calls {calls}"),
            None => Ok(()),
        }
    }
}

impl Options {
    /// Returns whether the tools of two runs reach the same servers, folders, files and accounts.
    pub(crate) fn has_same_places(&self, other: &Self) -> bool {
        self.places == other.places
    }

    /// Returns the options for a recording, which others may read.
    pub(crate) fn without_places(&self) -> Self {
        Self { places: None, ..self.clone() }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Recorded {
    /// Returns the recording of this program.
    pub(crate) fn first() -> Result<Self, RecordingError> {
        Ok(Self::of(Recording::parse(FIRST, "recordings/first.json")?))
    }

    pub(crate) fn load(path: &Path) -> Result<Self, RecordingError> {
        Ok(Self::of(Recording::load(path)?))
    }

    fn of(recording: Recording) -> Self {
        let options = serde_json::from_value(recording.metadata.clone()).ok();
        Self { recording, options }
    }

    /// Checks that the calls of the run are those that the model made. Tools run live, and one that
    /// gets a mask in place of a text may write it to a file.
    ///
    /// # Errors
    ///
    /// The arguments of a call have a mask.
    pub(crate) fn check_calls(&self, path: &Path) -> Result<(), String> {
        let selects = self.options.as_ref().is_some_and(|options| options.selector);
        let parts = self.recording.exchanges.iter().flat_map(|exchange| &exchange.reply.parts);
        let mut masked = parts.filter_map(|part| match part {
            ReplyPart::Call(call) if call.name != Contract::FINISH => {
                call.arguments.contains(MASKED).then_some("a call")
            }
            ReplyPart::Text(text) if selects => text.text.contains(MASKED).then_some("a selection"),
            _ => None,
        });
        match masked.next() {
            None => Ok(()),
            Some(place) => Err(format!(
                "{} cannot be replayed, because {place} in it has {MASKED} in place of what may be a \
                 key; record it again with other words",
                path.display(),
            )),
        }
    }

    /// Returns whether the model could read long results. Without tools, it needs no `read_result`.
    pub(crate) fn reads_results(&self) -> bool {
        let requests = || self.recording.exchanges.iter().map(|exchange| &exchange.request);
        let mut tools = requests().flat_map(|request| &*request.tools).peekable();
        // With `--selector`, the names of the tools are in the form of the answer.
        let mut forms = requests().filter_map(|request| request.output.as_ref());
        (tools.peek().is_none() && self.options.as_ref().is_none_or(|options| !options.selector))
            || tools.any(|tool| tool.name() == READ_RESULT)
            || forms.any(|form| {
                let json = serde_json::to_string(form).unwrap_or_default();
                json.contains(&format!("\"{READ_RESULT}\""))
            })
    }

    /// Returns the task of the run.
    pub(crate) fn task(&self) -> String {
        let first = self.recording.exchanges.first();
        let messages = first.into_iter().flat_map(|exchange| &exchange.request.messages);
        for message in messages {
            if let Message::User { parts } = &**message {
                let texts = parts.iter().filter_map(|part| match part {
                    Part::Text(text) => Some(text.as_str()),
                    _ => None,
                });
                return texts.collect();
            }
        }
        String::new()
    }

    /// Returns how the run was made, for the user.
    pub(crate) fn line(&self) -> String {
        let mut how = Vec::new();
        if let Some(options) = &self.options {
            how.extend(options.selector.then_some("--selector"));
            how.extend(options.schema.is_some().then_some("--schema"));
            how.extend(options.system.is_some().then_some("--system"));
        }
        let how = match how.is_empty() {
            true => String::new(),
            false => format!(" and the options {}", how.join(" ")),
        };
        format!("replaying a run recorded with {}{how}; the tools run live", self.recording.model)
    }
}
