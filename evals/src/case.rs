//! One case of an eval, from code or from a file.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_module::__files::{self, Link};

use crate::error::{EvalError, Result};
use crate::expected_calls::ExpectedCall;

/// Maximum length of a file of cases, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// The type of an input or an output of a case. Every type with these traits has it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the input or output of a case",
    note = "derive `Clone`, `Serialize`, `Deserialize` and `JsonSchema`"
)]
pub trait CaseValue:
    Clone + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
}

impl<T: Clone + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static> CaseValue for T {}

/// One case: an input, and what is expected of the answer and of the calls.
///
/// ```
/// use serde_json::json;
/// use toolwright_evals::{Case, ExpectedCall};
///
/// let case: Case = Case::new("one order", "Where is order 7?")
///     .expecting("on its way")
///     .expecting_calls([ExpectedCall::new("get_order", json!({"id": 7}))]);
/// assert_eq!(case.name, "one order");
/// ```
///
/// In a file it has the fields as they are here. [`load`](Self::load) reads a file of cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound = "I: CaseValue, O: CaseValue")]
#[non_exhaustive]
pub struct Case<I = String, O = String> {
    /// The name, which no other case of the eval has. Reports and recordings use it.
    pub name: String,
    /// The input of the agent or module.
    pub input: I,
    /// The expected output, if there is one. A grader decides what an output must have in common with
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<O>,
    /// The calls that are expected. `None` if nothing is said of calls, and an empty list if no tool
    /// may be called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<Vec<ExpectedCall>>,
    /// Data of the program, for its graders and reports.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Value>,
}

impl<I, O> Case<I, O> {
    /// Returns a case with a name and an input.
    pub fn new(name: impl Into<String>, input: impl Into<I>) -> Self {
        Self {
            name: name.into(),
            input: input.into(),
            expected: None,
            calls: None,
            metadata: BTreeMap::new(),
        }
    }

    /// Sets the expected output.
    #[must_use]
    pub fn expecting(mut self, output: impl Into<O>) -> Self {
        self.expected = Some(output.into());
        self
    }

    /// Sets the expected calls.
    #[must_use]
    pub fn expecting_calls(mut self, calls: impl IntoIterator<Item = ExpectedCall>) -> Self {
        self.calls = Some(calls.into_iter().collect());
        self
    }

    /// Adds data of the program.
    #[must_use]
    pub fn with_metadata(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(name.into(), value.into());
        self
    }
}

impl<I: CaseValue, O: CaseValue> Case<I, O> {
    /// Reads the cases of a file: JSON lines (`.jsonl`) with one case a line, or a list in YAML
    /// (`.yaml`, `.yml`) or JSON (`.json`).
    ///
    /// ```
    /// use toolwright_evals::Case;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("orders.yaml");
    /// std::fs::write(&path, "
    /// - name: one order
    ///   input: Where is order 7?
    ///   expected: on its way
    ///   calls:
    ///   - {tool: get_order, arguments: {id: 7}}
    /// ")?;
    /// let cases: Vec<Case> = Case::load(&path)?;
    /// assert_eq!(cases[0].expected.as_deref(), Some("on its way"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`EvalError::Read`], [`EvalError::CaseFile`] and [`EvalError::Names`].
    pub fn load(path: impl AsRef<Path>) -> Result<Vec<Self>> {
        let path = path.as_ref();
        let text = __files::read(path, Link::Follow, MAX_BYTES)
            .and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other))
            .map_err(|source| EvalError::Read { path: path.to_owned(), source })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let fault = |place: String, reason: String| EvalError::CaseFile {
            path: path.to_owned(),
            place,
            reason,
        };
        let cases: Vec<Self> = match path.extension().and_then(|extension| extension.to_str()) {
            Some("jsonl") => text
                .lines()
                .enumerate()
                .filter(|(_, line)| !line.trim().is_empty())
                .map(|(at, line)| {
                    serde_json::from_str(line)
                        .map_err(|error| fault(format!("line {}", at + 1), without_place(&error)))
                })
                .collect::<Result<_>>()?,
            Some("json") => serde_json::from_str(text).map_err(|error| {
                fault(
                    format!("line {}, column {}", error.line(), error.column()),
                    without_place(&error),
                )
            })?,
            Some("yaml" | "yml") => serde_saphyr::from_str(text).map_err(|error| {
                let place = error.location().map(|at| format!("line {}", at.line()));
                let place = place.unwrap_or_else(|| "the text".to_owned());
                let mut reason = without_place(error.without_snippet());
                // The rest is advice for a program that reads YAML.
                if let Some(end) = reason.find(", set DuplicateKeyPolicy") {
                    reason.truncate(end);
                }
                if reason.starts_with("budget breached") {
                    "the file has too many values; write JSON lines instead (.jsonl)"
                        .clone_into(&mut reason);
                }
                fault(place, reason)
            })?,
            _ => return Err(EvalError::FileKind { path: path.to_owned() }),
        };
        check_names(&cases)?;
        Ok(cases)
    }
}

/// Returns the text of an error without the place at its end.
fn without_place(error: &impl Display) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(reason, _)| reason.to_owned())
}

/// Checks that each case has a name of its own.
pub(crate) fn check_names<'a, I: 'a, O: 'a>(
    cases: impl IntoIterator<Item = &'a Case<I, O>>,
) -> Result<()> {
    let mut known = HashSet::new();
    for case in cases {
        if case.name.trim().is_empty() {
            return Err(EvalError::NoName);
        }
        if !known.insert(&case.name) {
            return Err(EvalError::Names { name: case.name.clone() });
        }
    }
    Ok(())
}

/// Returns the path of a file in a folder that has the name of a case.
pub(crate) fn file_of(folder: &Path, name: &str, repeat: u32, extension: &str) -> PathBuf {
    const LONGEST: usize = 100;

    let mut file = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => file.push(char::from(byte)),
            b' ' => file.push('_'),
            _ => file.push_str(&format!("~{byte:02x}")),
        }
    }
    // Names that are cut keep files of their own.
    if file.len() > LONGEST {
        let hash = toolwright_signature::stable_hash([name]) as u64;
        file.truncate(LONGEST);
        file.push_str(&format!("~{hash:016x}"));
    }
    if repeat > 0 {
        file.push_str(&format!(".{}", repeat + 1));
    }
    folder.join(format!("{file}.{extension}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_case_and_repeat_has_a_file_of_its_own(
            one in "[a-zA-Z0-9 _~./ä-]{0,120}",
            other in "[a-zA-Z0-9 _~./ä-]{0,120}",
            repeats in (0..3u32, 0..3u32),
        ) {
            let file = |name: &str, repeat| {
                let path = file_of(Path::new("folder"), name, repeat, "json");
                assert_eq!(path.parent(), Some(Path::new("folder")), "{name}");
                let file = path.file_name().unwrap().to_str().unwrap().to_owned();
                assert!(file.len() < 200, "{file}");
                // Some file systems do not distinguish upper and lower case.
                assert_eq!(file, file.to_lowercase());
                file
            };
            let same = (&one, repeats.0) == (&other, repeats.1);
            prop_assert_eq!(file(&one, repeats.0) == file(&other, repeats.1), same);
        }
    }
}
