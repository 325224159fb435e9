//! Files that were cut, changed or written by something else.

use std::fs;

use toolwright_journal::{Journal, JournalError, RunStatus};

use crate::support::{World, drive, finished, folder, journals, left};

/// A small generator, so that a failure can be repeated.
fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

#[tokio::test]
async fn a_file_cut_at_any_byte_goes_on_from_its_last_complete_record() {
    let (expected, all, bytes) = finished(World::small).await;
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let path = folder.path().join("run.journal");
    for length in 0..=bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        let records = journal.records("run").unwrap();
        let is_finished = length == bytes.len();
        let (result, counts) = drive(&journal, World::small).await;
        assert_eq!(result.unwrap(), expected, "cut at {length}");
        let left = if is_finished { [0; 4] } else { left(&records, &all) };
        assert_eq!(counts, left, "cut at {length}");
        // Nothing of the torn record is left in the file.
        assert_eq!(journal.run("run").unwrap().status, RunStatus::Finished);
    }
}

#[tokio::test]
async fn agents_below_go_on_from_every_record() {
    let (expected, all, bytes) = finished(World::house).await;
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    for (at, _) in ends {
        fs::write(folder.path().join("run.journal"), &bytes[..=at]).unwrap();
        let records = journal.records("run").unwrap();
        let (result, counts) = drive(&journal, World::house).await;
        let mut result = result.unwrap();
        // Calls that read are applied in the order in which they end.
        result.tools_used.sort();
        let mut expected = expected.clone();
        expected.tools_used.sort();
        assert_eq!(result, expected, "cut after byte {at}");
        assert_eq!(counts, left(&records, &all), "cut after byte {at}");
    }
}

#[tokio::test]
async fn a_flipped_bit_is_an_error_or_changes_nothing() {
    for agent in [World::small, World::house] {
        let (expected, _, bytes) = finished(agent).await;
        let folder = folder();
        let journal = Journal::open(folder.path()).unwrap();
        let path = folder.path().join("run.journal");
        // Without the result, so that a drive uses every record.
        let end = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        let (mut seed, mut errors) = (0x9e37_79b9_7f4a_7c15, 0);
        for _ in 0..1_000 {
            let place = random(&mut seed) as usize % (end * 8);
            let mut flipped = bytes[..end].to_vec();
            flipped[place / 8] ^= 1 << (place % 8);
            fs::write(&path, &flipped).unwrap();
            match drive(&journal, agent).await {
                // The checksum has digits that also exist as capitals.
                (Ok(finished), [0, 0, 0, 0]) => assert_eq!(finished, expected, "bit {place}"),
                (Ok(_), counts) => panic!("bit {place}: {counts:?}"),
                (Err(error), counts) => {
                    let is_clear = matches!(
                        journals(&error),
                        JournalError::Damaged { .. } | JournalError::Version { .. }
                    );
                    assert!(is_clear, "bit {place}: {error:#}");
                    assert_eq!(counts, [0; 4], "bit {place}");
                    assert_eq!(fs::read(&path).unwrap(), flipped, "bit {place}");
                    let runs = journal.runs().unwrap();
                    assert_eq!(runs[0].status, RunStatus::Unreadable);
                    assert_eq!(runs[0].id, "run");
                    errors += 1;
                }
            }
        }
        assert!(errors > 950, "{errors}");
    }
}

#[tokio::test]
async fn a_record_that_is_missing_or_elsewhere_is_noticed() {
    let (_, _, bytes) = finished(World::small).await;
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let path = folder.path().join("run.journal");
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    for at in 1..lines.len() - 1 {
        let mut missing = lines.clone();
        missing.remove(at);
        let mut twice = lines.clone();
        twice.insert(at, lines[at]);
        let mut swapped = lines.clone();
        swapped.swap(at, at + 1);
        for changed in [missing, twice, swapped] {
            fs::write(&path, changed.concat()).unwrap();
            let (result, counts) = drive(&journal, World::small).await;
            let error = result.unwrap_err();
            assert!(matches!(journals(&error), JournalError::Damaged { .. }), "{error:#}");
            assert_eq!(counts, [0; 4]);
        }
    }
}

#[tokio::test]
async fn zeros_after_a_power_failure_are_cut_off() {
    let (expected, _, bytes) = finished(World::small).await;
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let path = folder.path().join("run.journal");
    let end = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for begun in [0, 5, 9, 40] {
        let mut torn = bytes[..end + begun].to_vec();
        torn.resize(torn.len() + 4_096, 0);
        fs::write(&path, torn).unwrap();
        let (result, counts) = drive(&journal, World::small).await;
        assert_eq!((result.unwrap(), counts), (expected.clone(), [0; 4]));
    }
}

#[tokio::test]
async fn files_of_another_version_and_of_something_else_are_refused() {
    let (_, _, bytes) = finished(World::small).await;
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let path = folder.path().join("run.journal");
    let text = String::from_utf8(bytes).unwrap();

    fs::write(&path, text.replacen("toolwright-journal 1", "toolwright-journal 3", 1)).unwrap();
    let error = drive(&journal, World::small).await.0.unwrap_err();
    assert_eq!(
        journals(&error).to_string(),
        format!(
            "{} has the format `toolwright-journal 3`, but this program reads `toolwright-journal 1`; use the program that wrote it",
            journal.folder().join("run.journal").display(),
        ),
    );

    fs::write(&path, "a letter\nto a friend\n").unwrap();
    let error = drive(&journal, World::small).await.0.unwrap_err();
    assert!(matches!(journals(&error), JournalError::Damaged { at: 0, .. }), "{error:#}");

    // The file of another run under this name.
    fs::write(&path, text).unwrap();
    fs::rename(&path, folder.path().join("other.journal")).unwrap();
    let world = World::default();
    let (agent, cx) = (world.small(), world.cx());
    let error = journal.drive(&agent, "other", crate::support::TASK, &cx).await.unwrap_err();
    assert!(
        format!("{error:#}")
            .contains("contains the run `run`, but has the name of the run `other`"),
        "{error:#}"
    );
    assert_eq!(world.counts(), [0; 4]);
}

/// The file is kept as version 1 wrote it, so that later versions are tested with it.
#[tokio::test]
async fn a_run_that_version_1_stored_goes_on_from_every_record() {
    let stored = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stored/version_1.journal"));
    let (bytes, folder) = (stored.unwrap(), folder());
    let journal = Journal::open(folder.path()).unwrap();
    let (expected, ..) = finished(World::house).await;
    let path = folder.path().join("run.journal");
    fs::write(&path, &bytes).unwrap();
    let all = journal.records("run").unwrap();
    assert_eq!(all.len(), 23);
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    for (at, _) in ends {
        fs::write(&path, &bytes[..=at]).unwrap();
        let records = journal.records("run").unwrap();
        let (result, counts) = drive(&journal, World::house).await;
        let result = result.unwrap();
        assert_eq!((&result.answer, result.spent), (&expected.answer, expected.spent));
        assert_eq!(counts, left(&records, &all), "cut after byte {at}");
    }
}
