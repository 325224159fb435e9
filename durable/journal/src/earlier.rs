//! Runs that go on from earlier runs, which have the beginning of their conversations.
//!
//! The first record of such a run names the earlier run and its mark: the checksum of that run's first
//! record. If the earlier run is deleted, its file stays under another name, as long as it is needed:
//! `ID.MARK.history`.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toolwright_orchestrator::Conversation;
use toolwright_orchestrator::perform::{After, Record, Started};

use crate::error::{JournalError, Result};
use crate::file::{self, Contents};
use crate::home::{self, Histories};
use crate::journal::{Journal, TEMPORARY};
use crate::{name, parts};

/// The extension of the file of a deleted run from which later runs go on.
const EXTENSION: &str = "history";

/// Returns the name of a file with this mark, after the run was deleted.
fn kept_path(run: &Path, mark: &str) -> PathBuf {
    run.with_extension(format!("{mark}.{EXTENSION}"))
}

/// The start of a run and the record of its end, as they are stored.
struct Ends {
    started: Started,
    end: Option<Record>,
    mark: String,
}

impl Ends {
    fn of(path: &Path, contents: &Contents<'_>) -> Result<Option<Self>> {
        let mut parts = parts::Reader::new(path);
        let mut read = |(at, line): (u64, &str)| {
            let line = parts.whole(path, at, line)?;
            Ok::<_, JournalError>(file::record(path, at, &line)?.record)
        };
        let Some((first, rest)) = contents.lines.split_first() else { return Ok(None) };
        let Record::Started(started) = read(*first)? else { return Ok(None) };
        let last = rest.last().filter(|(_, line)| is_finished(line));
        let end = last.map(|last| read(*last)).transpose()?;
        Ok(Some(Self { started, end, mark: contents.mark() }))
    }

    /// Reads the earlier run of a run.
    fn read(journal: &Journal, after: &After) -> Result<Option<Self>> {
        let path = journal.path(&after.run)?;
        // In this order, because the file may get its other name meanwhile.
        let kept = kept_path(&path, &after.mark);
        for path in [path, kept] {
            let Some(bytes) = file::read(&path)? else { continue };
            match Self::of(&path, &file::parse(&path, &bytes)?)? {
                Some(ends) if ends.mark == after.mark => return Ok(Some(ends)),
                _ => {}
            }
        }
        Ok(None)
    }

    fn into_records(self) -> Vec<Record> {
        [Some(Record::Started(self.started)), self.end].into_iter().flatten().collect()
    }
}

/// Returns whether a line is the record of the result.
pub(crate) fn is_finished(line: &str) -> bool {
    let parts = line.find("\"record\":{\"");
    parts.is_some_and(|at| line[at..].starts_with("\"record\":{\"finished\":"))
}

/// Puts the conversation of the earlier run into a start.
pub(crate) fn whole(
    journal: &Journal,
    histories: &mut Histories,
    started: Started,
) -> Result<Started> {
    histories.put_back(started, |after| Ok(Ends::read(journal, after)?.map(Ends::into_records)))
}

/// Leaves out of a start what the earlier run has, if it is there. The caller has the lock of the folder, so
/// that the earlier run is not deleted until the start is written.
pub(crate) fn leave_out(journal: &Journal, started: Started, earlier: Option<&str>) -> Started {
    let Some(earlier) = earlier else { return started };
    let read = || -> Result<Option<(After, Conversation)>> {
        let path = journal.path(earlier)?;
        let Some(bytes) = file::read(&path)? else { return Ok(None) };
        let Some(mut ends) = Ends::of(&path, &file::parse(&path, &bytes)?)? else {
            return Ok(None);
        };
        let after = After::new(earlier, ends.mark.clone(), ends.end.is_some());
        ends.started = whole(journal, &mut Histories::default(), ends.started)?;
        let conversation = home::stored_conversation(earlier, &ends.into_records(), after.is_end)?;
        Ok(Some((after, conversation)))
    };
    match read() {
        Ok(Some((after, conversation))) => started.leave_out(after, &conversation),
        Ok(None) => started,
        Err(error) => {
            // The whole conversation is in the task.
            let run = started.id.as_str();
            tracing::warn!(run, earlier, %error, "a run stores its whole conversation again");
            started
        }
    }
}

/// What the first line of a file says.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) id: String,
    mark: String,
    after: Option<Named>,
}

/// The earlier run that a run names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
struct Named {
    run: String,
    mark: String,
}

impl Head {
    /// Reads the head of a file. Returns `None` for a file that is not a run.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>> {
        #[derive(Deserialize)]
        struct Line {
            record: First,
        }
        #[derive(Deserialize)]
        struct First {
            started: Of,
        }
        #[derive(Deserialize)]
        struct Of {
            id: String,
            after: Option<Named>,
        }
        let Some((line, mark)) = file::first_line(path)? else { return Ok(None) };
        let Ok(line) = serde_json::from_str::<Line>(&line) else { return Ok(None) };
        let Of { id, after } = line.record.started;
        Ok(Some(Self { id, mark, after }))
    }
}

/// Which runs of a folder go on from which.
#[derive(Default)]
pub(crate) struct Needs {
    heads: HashMap<PathBuf, Head>,
    /// Number of files that go on from a run.
    later: HashMap<Named, usize>,
}

impl Needs {
    /// Reads the first lines of all files. The caller has the lock of the folder for itself alone.
    ///
    /// A file that cannot be read is an error, because it may need another one.
    pub(crate) fn read(journal: &Journal) -> Result<Self> {
        let failed = |error| JournalError::io(journal.folder(), error);
        let mut needs = Self::default();
        for entry in fs::read_dir(journal.folder()).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let is_run = |extension| extension == name::EXTENSION || extension == EXTENSION;
            // A folder or a link is not a run.
            if path.extension().is_some_and(is_run)
                && fs::symlink_metadata(&path).is_ok_and(|found| found.is_file())
                && let Some(head) = Head::read(&path)?
            {
                if let Some(after) = &head.after {
                    *needs.later.entry(after.clone()).or_default() += 1;
                }
                needs.heads.insert(path, head);
            }
        }
        Ok(needs)
    }

    /// Deletes the file of a run. If later runs go on from it, it gets another name. Otherwise the
    /// deleted runs from which only this one goes on are deleted too.
    pub(crate) fn delete(&mut self, journal: &Journal, path: &Path) -> Result<()> {
        let head = self.heads.remove(path);
        if let Some(head) = &head
            && self.is_needed(&Named { run: head.id.clone(), mark: head.mark.clone() })
        {
            let kept = kept_path(path, &head.mark);
            keep(path, &kept)?;
            self.heads.insert(kept, head.clone());
            return Ok(());
        }
        remove(path)?;
        let mut next = head.and_then(|head| head.after);
        while let Some(after) = next {
            if let Some(later) = self.later.get_mut(&after) {
                *later = later.saturating_sub(1);
            }
            if self.is_needed(&after) {
                break;
            }
            let kept = kept_path(&journal.path(&after.run)?, &after.mark);
            // A run that was not deleted has another name.
            let Some(head) = self.heads.remove(&kept) else { break };
            remove(&kept)?;
            next = head.after;
        }
        Ok(())
    }

    fn is_needed(&self, run: &Named) -> bool {
        self.later.get(run).is_some_and(|later| *later > 0)
    }
}

/// Deletes the file of a run and its parts. The run itself is last, so that nothing without a run is left
/// if the program is killed.
fn remove(path: &Path) -> Result<()> {
    remove_beside(path)?;
    fs::remove_file(path).map_err(|error| JournalError::io(path, error))
}

fn remove_beside(path: &Path) -> Result<()> {
    for beside in [path.with_extension(TEMPORARY), parts::path_of(path)] {
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(JournalError::io(&beside, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Gives the file of a run another name. Its parts are copied first: if the program is killed in between,
/// both names have them.
fn keep(path: &Path, kept: &Path) -> Result<()> {
    let failed = |error| JournalError::io(kept, error);
    let (parts, kept_parts) = (parts::path_of(path), parts::path_of(kept));
    if fs::symlink_metadata(&parts).is_ok_and(|found| found.is_file()) {
        fs::copy(&parts, &kept_parts).map_err(failed)?;
        File::open(&kept_parts).and_then(|copy| copy.sync_all()).map_err(failed)?;
    }
    fs::rename(path, kept).map_err(failed)?;
    remove_beside(path)
}
