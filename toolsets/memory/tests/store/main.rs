//! One suite for every store: in the process, in a file, in a database, written here.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test is a test too, which clippy.toml cannot know"
)]

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod children;
mod custom;
mod model;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod suite;
#[path = "../support/mod.rs"]
mod support;

use custom::List;
use tokio::runtime::Runtime;
use toolwright_memory::Memory;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap()
}

#[test]
fn s66_the_store_in_the_process_passes_the_suite() {
    suite::pass(&runtime(), Memory::default);
}

/// Neither the lock nor the only thread is taken.
#[tokio::test]
async fn s53_a_search_holds_up_nobody_on_one_thread() {
    suite::a_search_holds_up_nobody(&Memory::default()).await;
}

#[test]
fn s66_any_calls_agree_with_a_plain_list() {
    model::agrees(&runtime(), &Memory::default(), 256);
}

#[test]
fn s67_a_store_written_by_hand_passes_the_same_suite() {
    let runtime = runtime();
    suite::pass(&runtime, || Memory::with_store(List::default()));
    model::agrees(&runtime, &Memory::with_store(List::default()), 64);
}
