//! Many threads use one memory. Nothing is lost or counted twice.

use std::sync::Barrier;
use std::thread;

use crate::support::{metadata, retrieve, store, text, wait};
use toolwright_memory::Memory;

const THREADS: usize = 64;
const ROUNDS: usize = 100;

/// Runs `work` on all threads at the same time and returns their results.
fn race<T: Send>(work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    start.wait();
                    work(number)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn accesses_from_many_threads_are_counted_exactly() {
    let memory = Memory::default();
    wait(store(&memory, "shared", "value", &[]));
    race(|_| {
        wait(async {
            for _ in 0..ROUNDS {
                assert_eq!(retrieve(&memory, "shared").await.as_deref(), Some("value"));
                metadata(&memory, "shared").await;
                memory.search("", true, true).await.unwrap();
            }
        });
    });
    let known = wait(metadata(&memory, "shared")).unwrap();
    assert_eq!(known.access_count, (THREADS * ROUNDS) as u64);
}

#[test]
fn no_store_from_many_threads_is_lost() {
    let memory = Memory::default();
    race(|thread| {
        wait(async {
            for round in 0..ROUNDS {
                let key = format!("{thread}-{round}");
                store(&memory, &key, &key, &[]).await;
                assert_eq!(retrieve(&memory, &key).await.as_deref(), Some(&*key));
            }
        });
    });
    let expected = (THREADS * ROUNDS).to_string();
    assert_eq!(wait(text(&memory, "memory_count", "{}")), expected);
}

#[test]
fn only_one_of_many_threads_stores_first_and_only_one_deletes() {
    let memory = Memory::default();
    let key = || "contended".to_owned();
    for _ in 0..ROUNDS {
        let first =
            race(|thread| !wait(memory.store(&key(), &thread.to_string(), None)).unwrap().replaced);
        assert_eq!(first.into_iter().filter(|first| *first).count(), 1);
        let deleted = race(|_| wait(memory.delete(&key())).unwrap().found);
        assert_eq!(deleted.into_iter().filter(|found| *found).count(), 1);
    }
}

/// Every entry is removed by exactly one clear, or still exists.
#[test]
fn clear_is_atomic() {
    let memory = Memory::default();
    let cleared = race(|thread| {
        wait(async {
            let mut removed = 0;
            for round in 0..ROUNDS {
                store(&memory, &format!("{thread}-{round}"), "", &[]).await;
                if thread % 8 == 0 {
                    removed += memory.clear().await.unwrap().removed;
                }
            }
            removed
        })
    });
    let left: usize = wait(text(&memory, "memory_count", "{}")).parse().unwrap();
    assert_eq!(cleared.iter().sum::<usize>() + left, THREADS * ROUNDS);
}
