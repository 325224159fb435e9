//! Folders and drives that the tests share, and the [`World`] of all homes.

pub(crate) mod endless;
mod world;

use tempfile::TempDir;
use toolwright_journal::{Journal, JournalError};
use toolwright_module::{Error, LanguageModel, Result, Signature, Tool};
use toolwright_orchestrator::perform::{OutcomeKind, PartId, Record};
use toolwright_orchestrator::{Agent, Finished, ReAct};

pub(crate) use self::world::*;

/// Returns what a drive from these records has to do, if `all` are the records of the whole run.
pub(crate) fn left(records: &[Record], all: &[Record]) -> Counts {
    let mut counts = [0; 4];
    let has_ended = |id: &PartId| {
        let ended = |record: &Record| matches!(record, Record::Ended { part, .. } if part == id);
        records.iter().any(ended)
    };
    for record in all {
        let Record::Ended { part: id, outcome, .. } = record else { continue };
        if has_ended(id) {
            continue;
        }
        let has_begun =
            records.iter().any(|record| matches!(record, Record::Begun { part, .. } if part == id));
        // The parts of an agent whose call is recorded are not looked at.
        match &outcome.kind {
            OutcomeKind::Reply(_) => counts[0] += 1,
            OutcomeKind::Called { result, .. } if result.name == "look" => counts[1] += 1,
            OutcomeKind::Called { result, .. } if result.name == "tidy" => {
                counts[2] += 1;
                counts[3] += usize::from(has_begun);
            }
            _ => {}
        }
    }
    counts
}

/// Returns a folder. It is in memory if the system has such a place, because some tests write many
/// thousand files.
pub(crate) fn folder() -> TempDir {
    if let Ok(folder) = tempfile::tempdir_in("/dev/shm") {
        return folder;
    }
    tempfile::tempdir().unwrap()
}

/// Returns a module on an agent with this model and these tools.
pub(crate) fn react<S: Signature>(
    model: impl LanguageModel,
    tools: impl IntoIterator<Item = Tool>,
) -> ReAct<S> {
    ReAct::new(Agent::new(model, tools).unwrap()).unwrap()
}

/// Drives a run with an agent of a new world.
pub(crate) async fn drive(
    journal: &Journal,
    agent: impl Fn(&World) -> Agent,
) -> (Result<Finished>, Counts) {
    let world = World::default();
    let (agent, cx) = (agent(&world), world.cx());
    let result = journal.drive(&agent, "run", TASK, &cx).await;
    (result, world.counts())
}

/// Returns the bytes of the file of a finished run.
pub(crate) async fn finished(agent: impl Fn(&World) -> Agent) -> (Finished, Vec<Record>, Vec<u8>) {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let (result, _) = drive(&journal, agent).await;
    let records = journal.records("run").unwrap();
    let bytes = std::fs::read(folder.path().join("run.journal")).unwrap();
    (result.unwrap(), records, bytes)
}

/// Returns the journal's error in the error of a drive.
pub(crate) fn journals(error: &Error) -> &JournalError {
    error.downcast_ref().unwrap_or_else(|| panic!("{error:#}"))
}
