//! The parts of a run beside its records.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolwright_journal::{Journal, JournalError, Options, RunStatus};
use toolwright_module::message::{Audio, Document, Image, Part, ToolResult};
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Effect, Message, Reply, Signature, Tool, from_fn};
use toolwright_orchestrator::{Agent, Finished, Limits, Task};

use crate::support::{TASK, World, calls, folder, journals};

/// Bytes that no other part has.
fn bytes(seed: u8, length: usize) -> Vec<u8> {
    let mut state = u32::from(seed) + 1;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Take pictures.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Look {
    place: String,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Seen {
    text: String,
    images: Vec<Image>,
}

impl Signature for Look {
    type Output = Seen;
}

/// Returns an agent whose tool returns pictures of these lengths with a text of this length.
fn sees(text: usize, lengths: &[usize]) -> Agent {
    let lengths = lengths.to_vec();
    let work = move |_: Look| {
        let images = lengths.iter().zip(0..);
        let images = images.map(|(length, seed)| Image::bytes("image/png", bytes(seed, *length)));
        let seen = Seen { text: "x".repeat(text), images: images.collect() };
        async move { Ok(seen) }
    };
    let tool = Tool::new(from_fn(work).with_effect(Effect::Read)).unwrap().named("look").unwrap();
    let said = [calls([("a", "look", "here")]), Reply::text("Done.")];
    Agent::new(World::default().model(said), [tool]).unwrap()
}

fn result(finished: &Finished) -> &ToolResult {
    let Some(Message::Tool(result)) = finished
        .history
        .iter()
        .map(Arc::as_ref)
        .find(|message| matches!(message, Message::Tool(_)))
    else {
        panic!("{:?}", finished.history)
    };
    result
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

fn files(folder: &Path) -> (PathBuf, PathBuf) {
    (folder.join("run.journal"), folder.join("run.parts"))
}

#[tokio::test]
async fn a_screenshot_is_stored_beside_the_records_with_its_text() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let cx = Context::default();
    let agent = sees(20_000, &[800_000]);
    let finished = journal.drive(&agent, "run", TASK, &cx).await.unwrap();
    let seen = result(&finished);
    assert!(!seen.failed && seen.text.contains(&"x".repeat(20_000)), "{:.200}", seen.text);
    assert_eq!(seen.parts, [Image::bytes("image/png", bytes(0, 800_000)).into()]);

    let (run, parts) = files(folder.path());
    // Once, although the result is in a record and in the end of the run.
    assert!((800_000..801_000).contains(&length(&parts)), "{}", length(&parts));
    assert!(length(&run) < 200_000, "{}", length(&run));
    assert_eq!(journal.run("run").unwrap().bytes, length(&run) + length(&parts));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&parts).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // It is read back as it was.
    let again = journal.drive(&sees(0, &[]), "run", TASK, &cx).await.unwrap();
    assert!(again == finished);

    journal.delete("run").unwrap();
    assert!(!run.exists() && !parts.exists());
}

#[tokio::test]
async fn many_parts_are_kept_up_to_the_limit_of_the_run_and_the_text_always() {
    let folder = folder();
    let cx = Context::default();
    let journal = Journal::open(folder.path())
        .unwrap()
        .with_options(Options { max_result_bytes: 1_000, ..Options::default() });
    // Each part is larger than the limit of the result.
    let finished = journal.drive(&sees(100, &[50_000; 30]), "many", TASK, &cx).await.unwrap();
    let seen = result(&finished);
    assert_eq!((seen.failed, seen.parts.len()), (false, 30));
    assert!(seen.text.contains(&"x".repeat(100)));

    // The limit of the run leaves parts out, and says so.
    let limits = Limits { max_part_bytes: 60_000, ..Limits::default() };
    let agent = sees(100, &[50_000; 3]).with_limits(limits);
    let finished = journal.drive(&agent, "limited", TASK, &cx).await.unwrap();
    let seen = result(&finished);
    assert_eq!((seen.failed, seen.parts.len()), (false, 1));
    assert!(
        seen.text.contains(&"x".repeat(100)) && seen.text.contains("left out"),
        "{}",
        seen.text
    );

    // Only a text that is too long by itself is an error.
    let finished = journal.drive(&sees(2_000, &[50_000]), "text", TASK, &cx).await.unwrap();
    let seen = result(&finished);
    assert!(seen.failed && seen.text.contains("keeps at most 1000 bytes"), "{}", seen.text);
}

#[tokio::test]
async fn parts_of_a_task_its_history_and_texts_like_references_come_back() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let parts: Vec<Part> = vec![
        "part:0".into(),
        "part:=0".into(),
        Image::bytes("image/png", bytes(1, 5_000)).into(),
        Image::bytes("image/png", bytes(1, 5_000)).into(),
        Image::bytes("image/jpeg", bytes(1, 5_000)).into(),
        Image::bytes("image/png", bytes(2, 10)).into(),
        Document::bytes("text/plain", bytes(3, 5_000)).into(),
        Audio::bytes("audio/wav", bytes(4, 5_000)).into(),
        Image::url("https://example.com/a.png").into(),
        Image::file("openai", "file-1").into(),
        format!("data:image/png;base64,{}=", "A".repeat(2_000)).into(),
    ];
    let said = [
        Message::user_parts(parts.clone()),
        Message::assistant("part:1"),
        Message::user_parts(parts.clone()),
    ];
    let task = Task::from(said.to_vec());
    let agent = || {
        let model = Scripted::replies([Reply::text("part:2")]);
        Agent::new(model, []).unwrap()
    };
    let cx = Context::default();
    let finished = journal.drive(&agent(), "run", task.clone(), &cx).await.unwrap();
    assert_eq!(finished.answer, "part:2");
    assert_eq!(journal.task("run").unwrap(), task);
    assert_eq!(journal.drive(&agent(), "run", task, &cx).await.unwrap(), finished);
    let summary = &journal.runs().unwrap()[0];
    assert_eq!(summary.status, RunStatus::Finished);
    // Three contents, each once.
    let (_, parts) = files(folder.path());
    assert!((15_000..15_100).contains(&length(&parts)), "{}", length(&parts));
}

#[tokio::test]
async fn a_program_killed_at_any_byte_loses_nothing_and_leaves_no_part_behind() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let cx = Context::default();
    let agent = || sees(10, &[3_000, 4_000]);
    let finished = journal.drive(&agent(), "run", TASK, &cx).await.unwrap();
    let (run, parts) = files(folder.path());
    let (records, contents) = (fs::read(&run).unwrap(), fs::read(&parts).unwrap());
    let ends: Vec<usize> =
        (0..records.len()).filter(|at| records[*at] == b'\n').map(|at| at + 1).collect();
    for at in ends.iter().flat_map(|end| [end - 1, *end]).chain([0, 5]) {
        // The parts are on disk before their record: all, a torn one with rubbish, or one too many.
        for beside in [contents.clone(), [&contents[..], &bytes(9, 9_000)].concat()] {
            fs::write(&run, &records[..at]).unwrap();
            fs::write(&parts, beside).unwrap();
            let again = journal.drive(&agent(), "run", TASK, &cx).await.unwrap();
            assert!(again.history == finished.history, "cut at {at}");
            assert!(fs::read(&parts).unwrap() == contents, "cut at {at}");
        }
    }
    // Killed before the first part, while the file was made.
    fs::write(&run, &records[..ends[1]]).unwrap();
    for torn in [0, 7, 19, 1_000] {
        fs::write(&run, &records[..ends[1]]).unwrap();
        fs::write(&parts, &contents[..torn]).unwrap();
        let again = journal.drive(&agent(), "run", TASK, &cx).await.unwrap();
        assert!(again.history == finished.history, "{torn} bytes of parts");
        assert!(fs::read(&parts).unwrap() == contents);
    }
}

#[tokio::test]
async fn a_damaged_or_missing_file_of_parts_is_an_error_that_names_it() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let cx = Context::default();
    let agent = || sees(10, &[3_000]);
    journal.drive(&agent(), "run", TASK, &cx).await.unwrap();
    let (_, parts) = files(folder.path());
    let contents = fs::read(&parts).unwrap();
    let fails = async |text: &str| {
        let error = journal.drive(&agent(), "run", TASK, &cx).await.unwrap_err();
        assert!(matches!(journals(&error), JournalError::Damaged { .. }), "{error:#}");
        let error = format!("{error:#}");
        assert!(error.contains(text) && error.contains("run.parts"), "{error}");
        assert!(journal.records("run").unwrap_err().to_string().contains(text));
        // The list needs no parts.
        assert_eq!(journal.runs().unwrap()[0].status, RunStatus::Finished);
    };
    fs::remove_file(&parts).unwrap();
    fails("the file is missing, and the run has parts in it").await;
    fs::write(&parts, &contents[..contents.len() - 1]).unwrap();
    fails("a part of the run is missing").await;
    let mut flipped = contents.clone();
    flipped[500] ^= 1;
    fs::write(&parts, flipped).unwrap();
    fails("the hash of a part is wrong").await;
    fs::write(&parts, contents.to_ascii_uppercase()).unwrap();
    fails("it is not a file of parts").await;
    #[cfg(unix)]
    {
        fs::remove_file(&parts).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &parts).unwrap();
        let error = journal.records("run").unwrap_err();
        assert!(matches!(error, JournalError::NotAFile { .. }), "{error}");
    }
    // A damaged run can be deleted.
    journal.delete("run").unwrap();
    assert!(fs::symlink_metadata(&parts).is_err());
}
