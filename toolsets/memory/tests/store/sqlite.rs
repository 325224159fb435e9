//! Tests of the store in a file.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::Connection;
use toolwright_memory::{Memory, MemoryLimits};
use toolwright_module::error::{Audience, Stage};

use crate::store::{children, runtime, suite};
use crate::support::{call, metadata, retrieve, store, text};

/// A folder that is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("toolwright-memory-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_passes_the_suite() {
    let (folder, runtime) = (Folder::new(), runtime());
    let next = AtomicUsize::new(0);
    suite::pass(&runtime, || {
        let name = next.fetch_add(1, Ordering::Relaxed).to_string();
        runtime.block_on(Memory::open(folder.file(&name))).unwrap()
    });
}

#[tokio::test]
async fn entries_in_a_file_outlive_the_memory() {
    let folder = Folder::new();
    let file = folder.file("größe 100%?mode=memory#.db");
    let memory = Memory::open(&file).await.unwrap();
    store(&memory, "color", "blue", &["taste"]).await;
    store(&memory, "size", "9", &[]).await;
    retrieve(&memory, "color").await;
    let known = metadata(&memory, "color").await;
    drop(memory);
    assert!(file.exists());

    let memory = Memory::open(&file).await.unwrap();
    assert_eq!(metadata(&memory, "color").await, known);
    assert_eq!(retrieve(&memory, "color").await.as_deref(), Some("blue"));
    assert_eq!(metadata(&memory, "color").await.unwrap().access_count, 2);
    // The sizes for the limits are read again too.
    let full = memory.clone().with_limits(MemoryLimits { entries: 2, ..MemoryLimits::default() });
    let arguments = r#"{"key": "new", "value": ""}"#;
    let error = call(&full, "memory_store", arguments).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Limit);
    // Two memories of one file see each other's changes.
    let other = Memory::open(&file).await.unwrap();
    store(&other, "new", "seen", &[]).await;
    assert_eq!(retrieve(&memory, "new").await.as_deref(), Some("seen"));
    let found = text(&memory, "memory_search", r#"{"pattern": "seen"}"#).await;
    assert_eq!(found, r#"[{"key":"new","value":"seen"}]"#);
}

#[tokio::test]
async fn several_processes_share_a_file() {
    let folder = Folder::new();
    children::share(folder.file("memory.db").to_str().unwrap()).await;
}

#[tokio::test]
async fn acknowledged_changes_in_a_file_survive_kill_9() {
    let folder = Folder::new();
    let acknowledged = children::survive(folder.file("memory.db").to_str().unwrap()).await;
    println!("{acknowledged} acknowledged writes, 5 kills, 0 lost");
    let connection = Connection::open(folder.file("memory.db")).unwrap();
    let check: String =
        connection.pragma_query_value(None, "integrity_check", |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_can_create_the_same_file() {
    let folder = Folder::new();
    for round in 0..5 {
        let file = folder.file(&round.to_string());
        let opened: Vec<_> = (0..16).map(|_| tokio::spawn(Memory::open(file.clone()))).collect();
        for (number, memory) in opened.into_iter().enumerate() {
            store(&memory.await.unwrap().unwrap(), &number.to_string(), "", &[]).await;
        }
        let memory = Memory::open(&file).await.unwrap();
        assert_eq!(text(&memory, "memory_count", "{}").await, "16");
    }
}

/// The error names the file, and the file is not changed.
#[tokio::test]
async fn a_file_that_is_not_a_memory_is_rejected_and_unchanged() {
    let folder = Folder::new();
    let refused = async |file: PathBuf| {
        let before = std::fs::read(&file).ok();
        let error = Memory::open(&file).await.unwrap_err();
        assert_eq!(error.stage(), Stage::Setup);
        assert_eq!(error.audience(), Audience::User);
        assert_eq!(std::fs::read(&file).ok(), before);
        let said = error.to_string();
        assert!(said.contains(file.to_str().unwrap()), "{said}");
        said[said.find(": ").unwrap() + 2..].to_owned()
    };

    let other = folder.file("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE orders (id)").unwrap();
    assert_eq!(refused(other).await, "it is the database of another program; use another path");

    let newer = folder.file("newer.db");
    drop(Memory::open(&newer).await.unwrap());
    Connection::open(&newer).unwrap().pragma_update(None, "user_version", 2).unwrap();
    assert_eq!(
        refused(newer).await,
        "it was written by a newer version of Toolwright; use that version",
    );

    let letter = folder.file("letter.txt");
    std::fs::write(&letter, "Dear Sir or Madam, ".repeat(100)).unwrap();
    assert_eq!(refused(letter).await, "file is not a database");

    assert!(refused(folder.file("no/such/folder.db")).await.contains("unable to open"));
    assert!(refused(folder.0.clone()).await.contains("unable to open"));
}

/// The user gets the reason; the model gets only a general text.
#[tokio::test]
async fn a_damaged_file_is_an_error_for_the_user() {
    let folder = Folder::new();
    let file = folder.file("memory.db");
    let memory = Memory::open(&file).await.unwrap();
    store(&memory, "color", "blue", &[]).await;
    let connection = Connection::open(&file).unwrap();
    connection.execute_batch("DROP TABLE access; UPDATE memory SET tags = '[oops'").unwrap();
    for name in ["memory_retrieve", "memory_get_metadata", "memory_delete"] {
        let error = call(&memory, name, r#"{"key": "color"}"#).await.unwrap_err();
        assert_eq!((error.audience(), error.stage()), (Audience::User, Stage::Module));
        assert_eq!(error.for_model(), "The tool failed. The reason is not shown to you.");
        assert!(!error.is_retryable());
    }
    // A failed call changes nothing.
    assert_eq!(text(&memory, "memory_list", "{}").await, r#"["color"]"#);
    assert_eq!(text(&memory, "memory_count", "{}").await, "1");
}

#[tokio::test]
async fn debug_output_hides_the_path_or_url() {
    let folder = Folder::new();
    let memory = Memory::open(folder.file("memory.db")).await.unwrap();
    let shown = format!("{memory:?}");
    assert!(!shown.contains("memory.db"), "{shown}");
}
