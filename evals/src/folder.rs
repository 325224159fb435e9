//! The folder of an eval: what is left of it after a crash.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use toolwright_journal::{Journal, JournalError, Page};
use toolwright_signature::stable_hash;

use crate::case::{Case, CaseValue};
use crate::error::{EvalError, Result};
use crate::report::{GradedAttempt, Report};

/// The folder with the pages of the runs that did not pass.
const RUN_PAGES: &str = "failed";

/// A folder with the attempts of an eval that are graded, and with the runs.
pub(crate) struct Folder {
    path: PathBuf,
    journal: Journal,
    file: Mutex<File>,
    known: HashMap<(String, u32), Line>,
}

/// The first line of the file of attempts.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    eval: String,
    graders: Vec<String>,
}

/// Another line: an attempt, and the case as it was.
#[derive(Serialize, Deserialize)]
struct Line {
    case: String,
    graded: GradedAttempt,
}

impl Folder {
    /// Opens a folder, or creates it. An eval that has ended begins anew.
    pub(crate) fn open(path: &Path, eval: &str, graders: &[String]) -> Result<Self> {
        let failed = |source| EvalError::Write { path: path.to_owned(), source };
        std::fs::create_dir_all(path).map_err(failed)?;
        let (attempts, report) = (path.join("attempts.jsonl"), path.join("report.json"));
        let runs = path.join("runs");
        if report.exists() {
            if attempts.exists() {
                std::fs::remove_file(&attempts).map_err(failed)?;
            }
            std::fs::rename(&report, path.join("previous.json")).map_err(failed)?;
        }
        let journal = Journal::open(&runs)?;
        let head = Head { eval: eval.to_owned(), graders: graders.to_vec() };
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).read(true).open(&attempts).map_err(failed)?;
        let text = std::fs::read_to_string(&attempts).map_err(failed)?;
        let mut folder =
            Self { path: path.to_owned(), journal, file: Mutex::new(file), known: HashMap::new() };
        // The last line may have been cut off by a crash.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            folder.lock().set_len(whole as u64).map_err(failed)?;
        }
        let mut lines = text[..whole].lines();
        match lines.next() {
            None => folder.write(&head)?,
            Some(line) => {
                let other = |reason: &str| EvalError::OtherEval {
                    path: path.to_owned(),
                    reason: reason.to_owned(),
                };
                let known: Head = serde_json::from_str(line)
                    .map_err(|_| other("`attempts.jsonl` was not written by an eval"))?;
                if known != head {
                    let Head { eval, graders } = known;
                    return Err(other(&format!(
                        "`{eval}` with the graders {}",
                        graders.join(", ")
                    )));
                }
                for line in lines {
                    let line: Line = serde_json::from_str(line)
                        .map_err(|_| other("a line of `attempts.jsonl` is damaged"))?;
                    let key = (line.graded.case.clone(), line.graded.repeat);
                    folder.known.insert(key, line);
                }
            }
        }
        Ok(folder)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, File> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, line: &impl Serialize) -> Result<()> {
        let failed = |source| EvalError::Write { path: self.path.clone(), source };
        let mut text = serde_json::to_vec(line).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        let mut file = self.lock();
        file.write_all(&text).and_then(|()| file.sync_data()).map_err(failed)
    }

    /// Returns the journal of the runs.
    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns an attempt that is graded, if its case is the same as then.
    pub(crate) fn known<I: CaseValue, O: CaseValue>(
        &self,
        case: &Case<I, O>,
        repeat: u32,
    ) -> Option<GradedAttempt> {
        let line = self.known.get(&(case.name.clone(), repeat))?;
        (line.case == hash(case)).then(|| line.graded.clone())
    }

    /// Stores a graded attempt.
    pub(crate) fn keep<I: CaseValue, O: CaseValue>(
        &self,
        case: &Case<I, O>,
        graded: &GradedAttempt,
    ) -> Result<()> {
        self.write(&Line { case: hash(case), graded: graded.clone() })
    }

    /// Deletes the run of an attempt that was under way, or of an earlier eval.
    pub(crate) fn forget(&self, run: &str) -> Result<()> {
        match self.journal.delete(run) {
            Ok(()) | Err(JournalError::NoSuchRun { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the report, as JSON and as a page with the pages of the runs that did not pass: the eval has
    /// ended.
    pub(crate) fn end(&self, report: &Report) -> Result<()> {
        let links = self.write_runs(report)?;
        // A report of another version is no reason to end with an error.
        let previous = Report::load(self.path.join("previous.json")).ok();
        let comparison = previous.map(|previous| report.compare(&previous));
        let page = report.to_linked_html(comparison.as_ref(), &links);
        self.replace("report.html", &page)?;
        report.save(self.path.join("report.json"))
    }

    /// Writes the page of the run of each attempt that did not pass. Returns their relative links, by the
    /// place of the attempt.
    fn write_runs(&self, report: &Report) -> Result<HashMap<usize, String>> {
        let folder = self.path.join(RUN_PAGES);
        let failed = |source| EvalError::Write { path: folder.clone(), source };
        // An earlier eval may have more of them.
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => std::fs::create_dir_all(&folder).map_err(failed)?,
        }
        let mut links = HashMap::new();
        for (at, attempt) in report.outcomes.iter().enumerate() {
            let Some(id) = attempt.run.as_ref().filter(|_| !attempt.passed()) else { continue };
            // A module has no run.
            let run = match self.journal.run(id) {
                Err(JournalError::NoSuchRun { .. }) => continue,
                run => run?,
            };
            let (entries, tools) = (self.journal.entries(id)?, self.journal.tools(id)?);
            let page = match Page::new().html(&run, entries, tools) {
                // The run ended before its first record.
                Err(JournalError::NoStart { .. }) => continue,
                page => page?,
            };
            // The name of a case may be anything, so the file has the place of the attempt.
            let link = format!("{RUN_PAGES}/{}.html", at + 1);
            self.replace(&link, &page)?;
            links.insert(at, link);
        }
        Ok(links)
    }

    fn replace(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path.join(name);
        let written = toolwright_module::__files::replace(&path, text.as_bytes());
        written.map_err(|source| EvalError::Write { path, source })
    }
}

fn hash<I: CaseValue, O: CaseValue>(case: &Case<I, O>) -> String {
    let text = serde_json::to_string(case).unwrap_or_default();
    format!("{:032x}", stable_hash([text.as_str()]))
}
