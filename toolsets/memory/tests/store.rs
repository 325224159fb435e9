//! The tests of stores: in the process, in a file, in a database, and a custom one.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod children;
mod custom;
mod model;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod suite;

use std::time::Duration;

use self::custom::List;
use tokio::runtime::Runtime;
use toolwright_memory::Memory;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap()
}

#[test]
fn the_in_process_store_passes_the_suite() {
    suite::pass(&runtime(), Memory::default);
}

/// A search holds neither the lock nor the only thread of the runtime.
#[tokio::test]
async fn a_search_does_not_block_other_calls_on_one_thread() {
    suite::a_search_does_not_block_other_calls(&Memory::default()).await;
}

#[test]
fn random_calls_agree_with_a_plain_list() {
    model::agrees(&runtime(), &Memory::default(), 256);
}

#[test]
fn a_custom_store_passes_the_suite() {
    let runtime = runtime();
    suite::pass(&runtime, || Memory::with_store(List::default()));
    model::agrees(&runtime, &Memory::with_store(List::default()), 64);
}

#[tokio::test]
async fn each_time_changes_with_its_own_event() {
    let memory = Memory::default();
    let times = async || {
        let known = memory.get_metadata("key").await.unwrap().unwrap();
        (known.created_at, known.updated_at, known.last_accessed_at)
    };
    let later = || std::thread::sleep(Duration::from_millis(2));
    memory.store("key", "one", None).await.unwrap();
    let (created, updated, accessed) = times().await;
    assert_eq!((updated, accessed), (created, None));
    later();
    memory.retrieve("key").await.unwrap();
    let (_, _, accessed) = times().await;
    assert_eq!(times().await, (created, created, accessed));
    assert!(accessed > Some(created));
    later();
    memory.update("key", "two").await.unwrap();
    let (_, updated, _) = times().await;
    assert_eq!(times().await, (created, updated, accessed));
    assert!(Some(updated) > accessed);
    later();
    memory.search("", true, true).await.unwrap();
    assert_eq!(times().await, (created, updated, accessed));
    memory.store("key", "three", None).await.unwrap();
    let (again, _, _) = times().await;
    assert_eq!(times().await, (again, again, None));
    assert!(again > updated);
}
