//! The folder of an eval: what is left of it after a crash.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use toolwright_journal::{Journal, JournalError, Page};
use toolwright_module::__files::{self, Link};
use toolwright_module::testing::Mask;
use toolwright_signature::stable_hash;

use crate::case::{Case, CaseValue};
use crate::error::{EvalError, Result};
use crate::one_attempt::run_id;
use crate::report::{GradedAttempt, Report};

/// The folder with the pages of the runs that did not pass.
const RUN_PAGES: &str = "failed";

/// A folder with the attempts of an eval that are graded, and with the runs.
pub(crate) struct Folder {
    path: PathBuf,
    journal: Journal,
    file: Mutex<File>,
    mask: Mask,
    /// The version of the agent.
    version: String,
    /// The attempts that are graded, by the hash of the version and the case, and the repeat.
    known: HashMap<(String, u32), GradedAttempt>,
}

/// The first line of the file of attempts.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    eval: String,
    graders: Vec<String>,
}

/// Another line: an attempt, and the hash of the agent and the case as they were.
#[derive(Serialize, Deserialize)]
struct Line {
    case: String,
    graded: GradedAttempt,
}

/// The lock of a folder, which ends with this value. Two evals would delete each other's runs.
pub(crate) struct FolderLock(#[expect(dead_code, reason = "the lock ends with the file")] File);

impl Folder {
    /// Creates a folder unless it exists, and locks it.
    pub(crate) fn lock(path: &Path) -> Result<FolderLock> {
        let failed = |source| EvalError::Write { path: path.to_owned(), source };
        std::fs::create_dir_all(path).map_err(failed)?;
        let mut options = OpenOptions::new();
        let options = options.create(true).append(true);
        let file = __files::open(options, &path.join("lock"), Link::Refuse).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(FolderLock(file)),
            Err(TryLockError::WouldBlock) => Err(EvalError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Opens a folder. An eval whose attempts were all made begins anew.
    pub(crate) fn open(
        path: &Path,
        eval: &str,
        graders: &[String],
        version: String,
    ) -> Result<Self> {
        let failed = |source| EvalError::Write { path: path.to_owned(), source };
        let (attempts, report) = (path.join("attempts.jsonl"), path.join("report.json"));
        let runs = path.join("runs");
        // A report of another version is one of an eval that has ended.
        let left_out = Report::load(&report).is_ok_and(|report| !report.left_out.is_empty());
        if report.exists() && !left_out {
            if attempts.exists() {
                std::fs::remove_file(&attempts).map_err(failed)?;
            }
            std::fs::rename(&report, path.join("previous.json")).map_err(failed)?;
        }
        let journal = Journal::open(&runs)?;
        let mask = Mask::from_env_and(&[]);
        let masked = |text: &String| mask.masked(text);
        let graders = graders.iter().map(masked).collect();
        let head = Head { eval: mask.masked(eval), graders };
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).read(true).open(&attempts).map_err(failed)?;
        let mut bytes = std::fs::read(&attempts).map_err(failed)?;
        // The last line may have been cut off by a crash, also inside a character.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole < bytes.len() {
            file.set_len(whole as u64).map_err(failed)?;
            bytes.truncate(whole);
        }
        let mut folder = Self {
            path: path.to_owned(),
            journal,
            file: Mutex::new(file),
            mask,
            version,
            known: HashMap::new(),
        };
        let mut lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let Some(first) = lines.next() else {
            folder.write(&head)?;
            return Ok(folder);
        };
        let other = |reason: String| EvalError::OtherEval { path: path.to_owned(), reason };
        let unreadable = |what: &str| other(format!("{what} of `attempts.jsonl` is damaged"));
        let known: Head =
            serde_json::from_slice(first).map_err(|_| unreadable("the first line"))?;
        if known != head {
            let Head { eval, graders } = known;
            return Err(other(format!("`{eval}` with the graders {}", graders.join(", "))));
        }
        for line in lines {
            let Line { case, graded } =
                serde_json::from_slice(line).map_err(|_| unreadable("a line"))?;
            folder.known.insert((case, graded.repeat), graded);
        }
        Ok(folder)
    }

    /// Writes a line without keys.
    fn write(&self, line: &impl Serialize) -> Result<()> {
        let failed = |source| EvalError::Write { path: self.path.clone(), source };
        let mut text = serde_json::to_vec(line).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let end = file.metadata().map_err(failed)?.len();
        let written = file.write_all(&text).and_then(|()| file.sync_data());
        written.map_err(|error| {
            // A part of a line must not be before the next one. The first error is more useful.
            let _ = file.set_len(end);
            failed(error)
        })
    }

    /// Returns the journal of the runs.
    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns an attempt that is graded, if its case and the agent are the same as then.
    pub(crate) fn known<I: CaseValue, O: CaseValue>(
        &self,
        case: &Case<I, O>,
        repeat: u32,
    ) -> Option<GradedAttempt> {
        let mut known = self.known.get(&(self.hash(case)?, repeat))?.clone();
        // In the file, keys are masked, but runs and earlier reports are found by these names.
        known.case.clone_from(&case.name);
        known.run = known.run.map(|_| run_id(&case.name, repeat));
        Some(known)
    }

    /// Stores a graded attempt.
    pub(crate) fn keep<I: CaseValue, O: CaseValue>(
        &self,
        case: &Case<I, O>,
        graded: &GradedAttempt,
    ) -> Result<()> {
        let case = self.hash(case).unwrap_or_default();
        self.write(&Line { case, graded: graded.without_keys(&self.mask) })
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
        let written = __files::replace(&path, text.as_bytes());
        written.map_err(|source| EvalError::Write { path, source })
    }

    /// Returns a hash of the agent and a case. `None` if the case cannot be JSON.
    fn hash<I: CaseValue, O: CaseValue>(&self, case: &Case<I, O>) -> Option<String> {
        let mut case = serde_json::to_value(case).ok()?;
        // The order of a map may be another one each time.
        case.sort_all_objects();
        Some(format!("{:032x}", stable_hash([self.version.as_str(), case.to_string().as_str()])))
    }
}
