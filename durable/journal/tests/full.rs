//! A disk that is full at every place of a run. A child process has a limit for its files, so this
//! module is for systems with `ulimit`.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use toolwright_journal::{Journal, JournalError};
use toolwright_module::error::Stage;

use crate::support::{World, drive, finished, folder, journals, left};

/// The folder of the child.
const FOLDER: &str = "TOOLWRIGHT_JOURNAL_FULL";

#[tokio::test]
async fn a_full_disk_ends_the_drive_and_the_next_one_goes_on() {
    let (expected, all, bytes) = finished(World::house).await;
    // A block of `ulimit` has 512 bytes in some shells and 1,024 in others.
    let (mut unfinished, blocks) = (0, bytes.len() / 512 + 1);
    for blocks in 0..=blocks {
        let folder = folder();
        let limited =
            format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" --exact --ignored full::child");
        let child = Command::new("sh")
            .args(["-c", &limited])
            .arg(std::env::current_exe().unwrap())
            .env(FOLDER, folder.path())
            .output()
            .unwrap();
        assert_eq!(child.status.signal(), None);
        let text = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success(), "{blocks} blocks: {text}");

        let journal = Journal::open(folder.path()).unwrap();
        let records = journal.records("run").unwrap_or_default();
        let is_finished = journal.run("run").is_ok_and(|run| run.status.is_ended());
        unfinished += u32::from(!is_finished);
        let (result, counts) = drive(&journal, World::house).await;
        let mut result = result.unwrap();
        result.tools_used.sort();
        let mut expected = expected.clone();
        expected.tools_used.sort();
        assert_eq!(result, expected, "{blocks} blocks");
        let left = if is_finished { [0; 4] } else { left(&records, &all) };
        assert_eq!(counts, left, "{blocks} blocks");
    }
    assert!(unfinished >= 8, "the limit has no effect");
}

/// Drives the run with the limit.
#[tokio::test]
#[ignore = "the other test starts it as a process"]
async fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let journal = Journal::open(folder).unwrap();
    if let (Err(error), _) = drive(&journal, World::house).await {
        assert_eq!(error.stage(), Stage::Journal);
        assert!(matches!(journals(&error), JournalError::Full { .. }), "{error:?}");
    }
}
