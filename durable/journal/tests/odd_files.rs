//! Links, pipes, folders and huge files where files of the journal should be: each is a clear error
//! for its own run, and the other runs go on.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_journal::{Journal, JournalError, RunStatus};
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::message::Image;
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Effect, Reply, Signature, Tool, ToolCall, from_fn};
use toolwright_orchestrator::Agent;

use crate::support::{TASK, World, calls, drive, folder, journals};

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Runs `work` on another thread, and fails if it does not end. What hangs never ends, so the time is
/// far beyond that of any work on a busy machine.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sends, receives) = mpsc::channel();
    std::thread::spawn(move || sends.send(work()));
    receives.recv_timeout(Duration::from_secs(300)).expect("it hangs or panics")
}

async fn try_run(journal: &Journal, id: &str) -> toolwright_module::Result<String> {
    let world = World::default();
    let (agent, cx) = (world.small(), world.cx());
    Ok(journal.drive(&agent, id, TASK, &cx).await?.answer)
}

fn drives(journal: &Journal, id: &'static str) -> toolwright_module::Result<String> {
    let journal = journal.clone();
    in_time(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(try_run(&journal, id))
    })
}

#[test]
fn something_else_than_a_file_is_an_error_of_its_own_run_only() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    drives(&journal, "good").unwrap();
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("target");
    fs::write(&target, "").unwrap();
    let file = |name: &str| folder.path().join(format!("{name}.journal"));
    pipe(&file("pipe"));
    fs::create_dir(file("folder")).unwrap();
    symlink(&target, file("link")).unwrap();
    symlink(outside.path().join("nothing"), file("dangling")).unwrap();
    symlink(file("good"), file("inside")).unwrap();
    symlink("/dev/zero", file("zero")).unwrap();
    let _socket = UnixListener::bind(file("socket")).unwrap();
    File::create(file("huge")).unwrap().set_len(1 << 42).unwrap();
    let with_holes = OpenOptions::new().append(true).create(true).open(file("holes")).unwrap();
    fs::write(file("holes"), "toolwright-journal 1\n").unwrap();
    with_holes.set_len(1 << 40).unwrap();

    let listing = journal.clone();
    let runs = in_time(move || listing.runs()).unwrap();
    let error = |id: &str| runs.iter().find(|run| run.id == id).unwrap().error.clone().unwrap();
    for (id, kind) in [
        ("pipe", "is a named pipe"),
        ("folder", "is a folder"),
        ("link", "is a symbolic link"),
        ("dangling", "is a symbolic link"),
        ("inside", "is a symbolic link"),
        ("zero", "is a symbolic link"),
        ("socket", "is a socket"),
        ("huge", "has 4398046511104 bytes"),
        ("holes", "has 1099511627776 bytes"),
    ] {
        let path = file(id).display().to_string();
        let error = error(id);
        assert!(
            error.contains(&path) && error.contains(kind) && error.contains("delete"),
            "{error}"
        );
        // A drive has the same error, and changes nothing.
        let error = format!("{:#}", drives(&journal, id.to_owned().leak()).unwrap_err());
        assert!(error.contains(&path) && error.contains(kind), "{id}: {error}");
    }
    assert_eq!(runs.len(), 10);
    assert_eq!(runs.iter().filter(|run| run.status == RunStatus::Finished).count(), 1);
    assert_eq!(fs::read(&target).unwrap(), b"");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(drives(&journal, "other").unwrap(), "Done.");
    assert_eq!(journal.delete_ended(Duration::ZERO).unwrap().len(), 2);
}

#[test]
fn a_link_to_another_file_is_never_written_through() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let outside = crate::support::folder();
    let target = outside.path().join("precious.txt");
    fs::write(&target, "precious").unwrap();
    // The tools of a new run are written to this file first.
    symlink(&target, folder.path().join("run.new")).unwrap();
    assert_eq!(drives(&journal, "run").unwrap(), "Done.");
    assert!(!folder.path().join("run.new").exists());
    // The same for a hard link.
    let tools = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let tools = tools.into_iter().find(|path| path.extension().is_some_and(|end| end == "tools"));
    let tools = tools.unwrap();
    fs::remove_file(&tools).unwrap();
    fs::hard_link(&target, folder.path().join("hard.new")).unwrap();
    assert_eq!(drives(&journal, "hard").unwrap(), "Done.");
    // What is where the tools should be is replaced, and hurts no run.
    for put in [pipe, |path: &Path| symlink("precious.txt", path).unwrap()] {
        fs::remove_file(&tools).unwrap();
        put(&tools);
        let id = if tools.is_symlink() { "after link" } else { "after pipe" };
        assert_eq!(drives(&journal, id).unwrap(), "Done.");
        assert!(fs::symlink_metadata(&tools).unwrap().is_file());
    }
    fs::remove_file(&tools).unwrap();
    fs::create_dir(&tools).unwrap();
    assert_eq!(drives(&journal, "after folder").unwrap(), "Done.");
    assert_eq!(drives(&journal, "run").unwrap(), "Done.");
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    assert!(!names.into_iter().any(|path| path.extension().is_some_and(|end| end == "new")));
}

#[test]
fn a_lock_that_is_no_file_or_is_held_is_an_error_with_its_path() {
    let folder = folder();
    let lock = folder.path().join("lock");
    pipe(&lock);
    let path = folder.path().to_owned();
    let error = in_time(move || Journal::open(path)).unwrap_err().to_string();
    assert!(error.contains("lock is a named pipe") && error.contains("delete it"), "{error}");
    fs::remove_file(&lock).unwrap();
    symlink("/dev/null", &lock).unwrap();
    assert!(matches!(Journal::open(folder.path()), Err(JournalError::NotAFile { .. })));
    fs::remove_file(&lock).unwrap();
    let _held = File::create(&lock).map(|file| file.lock().map(|()| file)).unwrap().unwrap();
    let path = folder.path().to_owned();
    let error = in_time(move || Journal::open(path)).unwrap_err().to_string();
    assert!(error.contains("another process has locked it"), "{error}");
}

#[tokio::test]
async fn a_renamed_file_is_an_error_that_says_its_name() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    drive(&journal, World::small).await.0.unwrap();
    fs::copy(folder.path().join("run.journal"), folder.path().join("Copy of run.journal")).unwrap();
    fs::copy(folder.path().join("run.journal"), folder.path().join("copy.journal")).unwrap();
    let runs = journal.runs().unwrap();
    assert_eq!(runs.len(), 3);
    let unreadable: Vec<_> =
        runs.iter().filter(|run| run.status == RunStatus::Unreadable).collect();
    assert_eq!(unreadable.len(), 2);
    for run in unreadable {
        let error = run.error.as_ref().unwrap();
        assert!(error.contains("rename it to `run.journal`, or delete it"), "{error}");
    }
    // It is not taken for the run of its name anywhere.
    let is_other = |error: JournalError| matches!(error, JournalError::OtherName { .. });
    assert!(is_other(journal.run("copy").unwrap_err()));
    assert!(is_other(journal.task("copy").unwrap_err()));
    assert!(is_other(journal.records("copy").unwrap_err()));
    assert!(is_other(journal.tools("copy").unwrap_err()));
    let asked = Approval {
        path: Vec::new(),
        call: ToolCall::new("a", "tidy", "{}"),
        effect: Effect::Write,
        unknown: false,
        asked_before: 0,
        reason: None,
    };
    assert!(is_other(journal.decide("copy", &asked, Decision::Approve).unwrap_err()));
    let error = try_run(&journal, "copy").await.unwrap_err();
    assert!(matches!(journals(&error), JournalError::OtherName { .. }), "{error:#}");
}

#[tokio::test]
async fn ids_of_all_characters_are_runs_and_a_longer_one_is_refused() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let longest = "x".repeat(4_096);
    let ids =
        ["-rf", "a\nb", "\0", "../../x", "$(rm -rf .)", "a b;c|d", "\u{202e}x", "CON", &longest];
    for id in ids {
        assert_eq!(try_run(&journal, id).await.unwrap(), "Done.", "{id:?}");
        assert_eq!(journal.run(id).unwrap().id, id);
    }
    let error = try_run(&journal, &"x".repeat(4_097)).await.unwrap_err();
    assert!(matches!(journals(&error), JournalError::LongId { bytes: 4_097, .. }), "{error:#}");
    assert_eq!(journal.runs().unwrap().len(), ids.len());
    // A file of a name that is not UTF-8.
    use std::os::unix::ffi::OsStrExt;
    let name = std::ffi::OsStr::from_bytes(b"\xff\xfe.journal");
    fs::write(folder.path().join(name), "").unwrap();
    assert_eq!(journal.runs().unwrap().len(), ids.len());
}

#[tokio::test]
async fn files_are_for_their_user_only_in_any_folder() {
    let folder = folder();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    drive(&journal, World::small).await.0.unwrap();
    let mut names = 0;
    for entry in fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.file_name());
        names += 1;
    }
    assert_eq!(names, 3);
}

/// Look deeply.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Deep {
    place: String,
}

/// What is there. A result with an image keeps its value beside the text.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Found {
    image: Image,
    nested: Value,
}

impl Signature for Deep {
    type Output = Found;
}

/// Returns an agent whose tool returns a value with this many lists inside each other.
fn deep(levels: usize) -> Agent {
    let work = move |_: Deep| async move {
        let nested = (0..levels).fold(json!(1), |inside, _| json!([inside]));
        Ok(Found { image: Image::bytes("image/png", *b"x"), nested })
    };
    let tool = Tool::new(from_fn(work).with_effect(Effect::Read)).unwrap();
    let model = Scripted::replies([calls([("a", "look", "here")]), Reply::text("Done.")]);
    Agent::new(model, [tool.named("look").unwrap()]).unwrap()
}

#[tokio::test]
async fn a_value_of_many_levels_leaves_a_run_that_can_be_read() {
    for levels in [1, 60, 100, 110, 115, 120, 126, 200] {
        let folder = folder();
        let journal = Journal::open(folder.path()).unwrap();
        let cx = Context::default();
        let result = journal.drive(&deep(levels), "run", TASK, &cx).await;
        let finished = result.unwrap_or_else(|error| panic!("{levels}: {error:#}"));
        // Only the value for programs is left out.
        let has_value = format!("{:?}", finished.history).contains("value: Some");
        assert_eq!(has_value, levels < 64, "{levels}");
        assert_eq!(journal.run("run").unwrap().status, RunStatus::Finished, "{levels}");
        assert_eq!(journal.records("run").unwrap().len(), 3, "{levels}");
        let again = journal.drive(&deep(levels), "run", TASK, &cx).await.unwrap();
        assert_eq!(again, finished, "{levels}");
    }
}

/// Returns the CRC-32 of bytes, which continues one.
fn crc(before: u32, bytes: &[u8]) -> u32 {
    let mut crc = !before;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// Appends a record to the file of a run, as this crate would.
fn append(path: &Path, record: &str) {
    let mut text = fs::read_to_string(path).unwrap();
    let last = text.lines().last().unwrap();
    let before = u32::from_str_radix(&last[..8], 16).unwrap();
    let line = format!("{:08x} {} {record}\n", crc(before, record.as_bytes()), record.len());
    text.push_str(&line);
    fs::write(path, text).unwrap();
}

#[tokio::test]
async fn records_of_many_levels_and_times_far_away_are_read_or_are_clear_errors() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    drive(&journal, World::small).await.0.unwrap();
    let path = folder.path().join("run.journal");
    let original = fs::read(&path).unwrap();
    // A path of many agents.
    let mut names = vec!["helper"; 10_000];
    names.extend(["call", "x", "0"]);
    let key = serde_json::to_string(&names).unwrap();
    let begun = json!({"begun": {"key": key, "identity": 1}});
    append(&path, &json!({"at": u64::MAX, "record": begun}).to_string());
    let list = journal.clone();
    let runs = in_time(move || (list.runs().unwrap(), list.records("run").unwrap()));
    assert_eq!((runs.0[0].status, runs.1.len()), (RunStatus::Open, 7));
    assert!(journal.delete_ended(Duration::ZERO).unwrap().is_empty());

    for levels in [130, 5_000, 1_000_000] {
        fs::write(&path, &original).unwrap();
        let value = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        append(&path, &format!(r#"{{"at":1,"record":{{"begun":{value}}}}}"#));
        let list = journal.clone();
        in_time(move || {
            list.runs().unwrap();
            let error = list.records("run").unwrap_err();
            assert!(
                matches!(error, JournalError::Damaged { .. } | JournalError::Json { .. }),
                "{error}"
            );
        });
    }
}
