//! A page that follows its run.

use std::error::Error;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use toolwright_journal::Journal;

use super::page::page;
use crate::show::note;

/// The time between two looks at the journal.
const PAUSE: Duration = Duration::from_millis(500);

/// Writes the page of a run each time the run has changed, until the run ends or Ctrl-C.
pub(super) async fn follow(
    journal: &Journal,
    id: &str,
    file: &Path,
) -> Result<ExitCode, Box<dyn Error>> {
    let mut written = None;
    loop {
        let run = journal.run(id)?;
        let (ended, now) = (run.status.is_ended(), (run.records, run.bytes));
        if written != Some(now) {
            // A page that is large takes longer to load, so it reloads less often.
            let reload = Duration::from_secs(2 + run.records as u64 / 1_000);
            replace(file, &page(journal, id, (!ended).then_some(reload))?)?;
            if written.is_none() {
                note(&format!("{} follows the run; Ctrl-C ends this", file.display()));
            }
            written = Some(now);
        }
        if ended {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            _ = tokio::signal::ctrl_c() => {
                // The page must not reload for ever.
                replace(file, &page(journal, id, None)?)?;
                return Ok(ExitCode::from(130));
            }
        }
    }
}

/// Replaces a file at once, so that a browser never reads half of it.
pub(super) fn replace(file: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    let named = |error: io::Error| format!("cannot write {}: {error}", file.display());
    let mut name = file.file_name().ok_or("the file needs a name")?.to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = file.with_file_name(name);
    fs::write(&new, text).map_err(named)?;
    fs::rename(&new, file).map_err(|error| {
        let _ = fs::remove_file(&new);
        named(error).into()
    })
}
