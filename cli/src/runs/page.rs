//! The page of a run, in the words of this program.

use std::error::Error;
use std::time::{Duration, SystemTime};

use toolwright_journal::{Journal, JournalError, Page, RunSummary};
use toolwright_orchestrator::ToolSet;
use toolwright_orchestrator::perform::{OutcomeKind, Record};

use super::home::Home;
use crate::keys;
use crate::texts::in_words_of_run;

/// Returns a run as an HTML page, which needs no other file and no network. If `reload` is a time,
/// the page reloads itself after this time.
///
/// # Errors
///
/// There is no such run, or its file cannot be read.
pub fn page(journal: &Journal, id: &str, reload: Option<Duration>) -> Result<String, JournalError> {
    write(journal.run(id)?, journal.entries(id)?, journal.tools(id)?, reload)
}

/// Returns a run of any home as a page, like [`page`].
pub(super) async fn of(
    home: &Home,
    id: &str,
    reload: Option<Duration>,
) -> Result<String, Box<dyn Error>> {
    let (entries, tools) = (home.entries(id).await?, home.tools(id).await?);
    Ok(write(home.run(id).await?, entries, tools, reload)?)
}

fn write(
    mut run: RunSummary,
    mut entries: Vec<(SystemTime, Record)>,
    tools: Option<ToolSet>,
    reload: Option<Duration>,
) -> Result<String, JournalError> {
    let errors = entries.iter_mut().filter_map(|(_, record)| match record {
        Record::Stopped { error, .. } => Some(error),
        Record::Ended { outcome, .. } => match &mut outcome.kind {
            OutcomeKind::Called { error, .. } => error.as_mut(),
            _ => None,
        },
        _ => None,
    });
    for error in errors.chain(&mut run.error) {
        *error = in_words_of_run(error);
    }
    let page = Page::new().with_mask(keys::mask().clone());
    match reload {
        Some(time) => page.with_reload(time),
        None => page,
    }
    .html(&run, entries, tools)
}
