//! The parts of a run beside its records.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use toolwright_journal::{Journal, JournalError, Options, RunStatus};
use toolwright_module::message::{Audio, Document, Image, Part, ToolResult};
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Context, Contract, Effect, Error, Message, Reply, Signature, Tool, ToolCall, ToolOutput,
    from_fn,
};
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

/// Returns an agent whose tool returns this text, and whose model reads the end of it.
fn reads(text: &str) -> Agent {
    let end = text.len() - 20;
    let asked = format!(r#"{{"id": "a", "from": {end}}}"#);
    let said = [
        calls([("a", "look", "here")]),
        Reply::calls([ToolCall::new("b", "read_result", asked)]),
        Reply::text("Done."),
    ];
    let model = World::default().model(said);
    let text: Arc<str> = text.into();
    let contract = Contract::dynamic("look", "Look.", json!({"type": "object"}), None).unwrap();
    let look = Tool::dynamic(contract, Effect::Read, move |_, _| {
        let text = Arc::clone(&text);
        async move { Ok(ToolOutput::text_only(&*text)) }
    });
    let limits = Limits { max_result_bytes: 500, ..Limits::default() };
    Agent::new(model, [look]).unwrap().with_limits(limits).with_result_reading().unwrap()
}

#[tokio::test]
async fn a_whole_text_is_stored_beside_the_records() {
    let folder = folder();
    // The options limit the text that the model gets, and not the whole one.
    let options = || Options { max_result_bytes: 2_000, ..Options::default() };
    let journal = Journal::open(folder.path()).unwrap().with_options(options());
    let text = "a \"line\"\u{1} of the lög\n".repeat(100_000);
    let cx = Context::default();
    let finished = journal.drive(&reads(&text), "run", TASK, &cx).await.unwrap();
    assert_eq!(result(&finished).whole.as_deref(), Some(&*text));
    let Message::Tool(end) = &*finished.history[4] else { panic!("{:?}", finished.history) };
    assert!(end.text.starts_with(&text[text.len() - 20..]), "{}", end.text);

    let (run, parts) = files(folder.path());
    // Once, although the result is in a record and in the end of the run.
    let json = serde_json::to_string(&text).unwrap().len() as u64;
    assert!((json..json + 100).contains(&length(&parts)), "{}", length(&parts));
    assert!(length(&run) < 10_000, "{}", length(&run));
    assert_eq!(journal.runs().unwrap()[0].status, RunStatus::Finished);
    let again = journal.drive(&reads(&text), "run", TASK, &cx).await.unwrap();
    assert!(again == finished);

    // The next run of the conversation has it, and reads it.
    let said = [
        Reply::calls([ToolCall::new("c", "read_result", r#"{"id": "a", "from": 2199990}"#)]),
        Reply::text("Done."),
    ];
    let look =
        Tool::new(from_fn(async |_: Look| Err::<Seen, _>(Error::stop("not again")))).unwrap();
    let next = Agent::new(Scripted::replies(said), [look]).unwrap();
    let next = next.with_result_reading().unwrap();
    let task = Task::new("Again.").with_history(finished.history.clone());
    let finished = journal.drive(&next, "next", task, &cx).await.unwrap();
    let Some(Message::Tool(end)) = finished.history.iter().rev().nth(1).map(Arc::as_ref) else {
        panic!("{:?}", finished.history)
    };
    assert!(!end.failed, "{}", end.text);
}

#[tokio::test]
async fn a_program_killed_at_any_byte_keeps_the_whole_text() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let (text, cx) = ("a \"line\"\u{1} of the lög\n".repeat(200), Context::default());
    let finished = journal.drive(&reads(&text), "run", TASK, &cx).await.unwrap();
    let (run, parts) = files(folder.path());
    let (records, contents) = (fs::read(&run).unwrap(), fs::read(&parts).unwrap());
    let ends: Vec<usize> =
        (0..records.len()).filter(|at| records[*at] == b'\n').map(|at| at + 1).collect();
    for at in ends.iter().flat_map(|end| [end - 1, *end]) {
        fs::write(&run, &records[..at]).unwrap();
        fs::write(&parts, [&contents[..], b"rubbish"].concat()).unwrap();
        let again = journal.drive(&reads(&text), "run", TASK, &cx).await.unwrap();
        assert!(again.history == finished.history, "cut at {at}");
    }
    // A text that was changed is not read.
    fs::write(&run, &records).unwrap();
    let at = contents.windows(4).position(|it| it == b"line").unwrap();
    let mut damaged = contents.clone();
    damaged[at] = b'L';
    fs::write(&parts, damaged).unwrap();
    let error = journal.drive(&reads(&text), "run", TASK, &cx).await.unwrap_err();
    assert!(journals(&error).to_string().contains("the hash of a part is wrong"), "{error:#}");
}
