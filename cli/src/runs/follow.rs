//! A page that follows its run.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use toolwright_module::__files;

use super::home::Home;
use super::page;
use crate::show::note;

/// The time between two looks at the run.
const PAUSE: Duration = Duration::from_millis(500);

/// Writes the page of a run each time the run has changed, until the run ends or Ctrl-C.
pub(super) async fn follow(home: &Home, id: &str, file: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let mut written = None;
    loop {
        let run = home.run(id).await?;
        let (ended, now) = (run.status.is_ended(), (run.records, run.bytes));
        if written != Some(now) {
            // A page that is large takes longer to load, so it reloads less often.
            let reload = Duration::from_secs(2 + run.records as u64 / 1_000);
            replace(file, &page::of(home, id, (!ended).then_some(reload)).await?)?;
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
                replace(file, &page::of(home, id, None).await?)?;
                return Ok(ExitCode::from(130));
            }
        }
    }
}

/// Replaces a file at once, so that a browser never reads half of it.
pub(super) fn replace(file: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    __files::replace(file, text.as_bytes())
        .map_err(|error| format!("cannot write {}: {error}", file.display()).into())
}
