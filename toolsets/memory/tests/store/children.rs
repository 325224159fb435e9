//! Child processes that use the same store. They run this test program.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use toolwright_memory::Memory;
use toolwright_module::Result;

use crate::support::{metadata, retrieve, store};

/// The path or URL of the store, for a child process.
const PLACE: &str = "MEMORY_TEST_PLACE";
/// The task of a child process: `count`, or `write` with a prefix of its keys.
const WORK: &str = "MEMORY_TEST_WORK";

const CHILDREN: usize = 4;
const ROUNDS: usize = 50;

pub(crate) async fn open(place: &str) -> Result<Memory> {
    #[cfg(feature = "postgres")]
    if place.starts_with("postgres") {
        return Memory::connect(place).await;
    }
    #[cfg(feature = "sqlite")]
    return Memory::open(place).await;
    #[cfg(not(feature = "sqlite"))]
    panic!("no store for {place}");
}

fn child(place: &str, work: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["store::children::child_process", "--exact", "--ignored", "--nocapture"])
        .env(PLACE, place)
        .env(WORK, work)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "the other tests call it in processes of its own"]
fn child_process() {
    let Ok(place) = std::env::var(PLACE) else {
        return;
    };
    let work = std::env::var(WORK).unwrap();
    super::runtime().block_on(async {
        let memory = open(&place).await.unwrap();
        for round in 0.. {
            if work == "count" && round == ROUNDS {
                break;
            }
            let key = format!("{work} {} {round}", std::process::id());
            store(&memory, &key, &key.repeat(20), &["tag"]).await;
            if work == "count" {
                assert!(retrieve(&memory, "shared").await.is_some());
            } else {
                println!("\nacknowledged {key}");
            }
        }
    });
}

/// Several processes write to one store. Nothing is lost or counted twice.
pub(crate) async fn share(place: &str) {
    let memory = open(place).await.unwrap();
    store(&memory, "shared", "value", &[]).await;
    let children: Vec<Child> = (0..CHILDREN).map(|_| child(place, "count")).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let known = metadata(&memory, "shared").await.unwrap();
    assert_eq!(known.access_count, (CHILDREN * ROUNDS) as u64);
    let count = crate::support::text(&memory, "memory_count", "{}").await;
    assert_eq!(count, (CHILDREN * ROUNDS + 1).to_string());
}

/// A process is killed while it writes. All acknowledged changes are complete in the store, which
/// still works. Returns their number.
pub(crate) async fn survive(place: &str) -> usize {
    let mut acknowledged = Vec::new();
    for kill in 0..5 {
        let mut child = child(place, &format!("write {kill}"));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut more = || loop {
            let line = lines.next()?.unwrap();
            if let Some(key) = line.strip_prefix("acknowledged ") {
                return Some(key.to_owned());
            }
        };
        // Each process is killed after a different number of writes.
        for _ in 0..10 + 17 * kill {
            acknowledged.push(more().unwrap());
        }
        child.kill().unwrap();
        // Output that was written before the kill counts too.
        acknowledged.extend(std::iter::from_fn(more));
        assert!(!child.wait().unwrap().success());
    }
    let memory = open(place).await.unwrap();
    for key in &acknowledged {
        assert_eq!(retrieve(&memory, key).await, Some(key.repeat(20)), "{key}");
        assert_eq!(metadata(&memory, key).await.unwrap().tags, ["tag"], "{key}");
    }
    let count: usize = crate::support::text(&memory, "memory_count", "{}").await.parse().unwrap();
    // Each process may have made one write that it did not acknowledge.
    assert!((acknowledged.len()..=acknowledged.len() + 5).contains(&count), "{count}");
    acknowledged.len()
}
