//! The cost of a memory with 100,000 entries, compared with the simplest equivalent.
//!
//! `cargo bench -p toolwright-memory --features sqlite`
//!
//! Reading by key: the tool on the store in the process, compared with a `HashMap` under a lock whose
//! value is copied, and with one that also counts and stores the time.
//!
//! Searching a file: the tool, compared with SQLite's `LIKE` on the same columns of the same file with
//! one open connection, and with reading every row without matching.
//!
//! The variants take turns. The output has the medians of the ratios of each round.

// A benchmark may panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use jiff::Timestamp;
use rusqlite::Connection;
use tokio::runtime::Runtime;
use toolwright_memory::{Memory, MemoryRetrieve, MemorySearch, MemoryStore};
use toolwright_module::{Context, Module};

const ENTRIES: usize = 100_000;
const ROUNDS: usize = 21;
/// Reads in a turn.
const READS: usize = 100_000;
/// Entries that a tool stores in the file, one by one.
const WRITES: usize = 500;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    reading(&runtime);
    let folder = std::env::temp_dir().join(format!("toolwright-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    searching(&runtime, &folder.join("memory.db"));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Keys in no order that a cache would like.
fn key(number: usize) -> String {
    format!("user {} likes", number.wrapping_mul(7_919) % ENTRIES)
}

fn value(number: usize) -> String {
    format!("Entry {number}: tea in the morning, coffee at noon, and nothing with sugar in it.")
}

fn fill(runtime: &Runtime, memory: &Memory, entries: usize) {
    let store = MemoryStore::module(memory);
    runtime.block_on(async {
        for number in 0..entries {
            let tags = Some(vec!["taste".to_owned()]);
            let input = MemoryStore { key: key(number), value: value(number), tags };
            store.call(input, &Context::default()).await.unwrap();
        }
    });
}

fn reading(runtime: &Runtime) {
    let memory = Memory::default();
    fill(runtime, &memory, ENTRIES);
    let retrieve = MemoryRetrieve::module(&memory);
    let plain: HashMap<_, _> = (0..ENTRIES).map(|number| (key(number), value(number))).collect();
    let plain = Mutex::new(plain);
    let counting = (0..ENTRIES).map(|number| (key(number), (value(number), 0_u64, Timestamp::MIN)));
    let counting = Mutex::new(counting.collect::<HashMap<_, _>>());

    let read = |get: &dyn Fn(String) -> Option<String>| {
        // Made before, and used up by each: a tool is given its key.
        let keys: Vec<String> = (0..READS).map(|read| key(read * 31 % ENTRIES)).collect();
        seconds(|| {
            for key in keys {
                assert!(black_box(get(key)).is_some());
            }
        })
    };
    let mut costs = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        costs[0].push(read(&|key| plain.lock().unwrap().get(&key).cloned()));
        costs[1].push(read(&|key| {
            let mut entries = counting.lock().unwrap();
            let (value, count, last) = entries.get_mut(&key)?;
            *count += 1;
            *last = Timestamp::now();
            Some(value.clone())
        }));
        let keys: Vec<String> = (0..READS).map(|read| key(read * 31 % ENTRIES)).collect();
        costs[2].push(seconds(|| {
            runtime.block_on(async {
                for key in keys {
                    let value =
                        retrieve.call(MemoryRetrieve { key }, &Context::default()).await.unwrap();
                    assert!(black_box(value).is_some());
                }
            });
        }));
    }
    let each = |cost: f64| cost * 1e9 / READS as f64;
    println!("one read by key among {ENTRIES} entries, {ROUNDS} x {READS}");
    println!("HashMap and lock              {:>8.0} ns", each(median(costs[0].clone())));
    println!("the same, counting with time  {:>8.2}", ratio(&costs[1], &costs[0]));
    println!("memory_retrieve               {:>8.2}", ratio(&costs[2], &costs[0]));
    println!("memory_retrieve / counting    {:>8.2}", ratio(&costs[2], &costs[1]));
}

fn searching(runtime: &Runtime, file: &Path) {
    let memory = runtime.block_on(Memory::open(file)).unwrap();
    let took = seconds(|| fill(runtime, &memory, WRITES)) / WRITES as f64;
    println!("\none store in a file, written to the disk: {:.2} ms", took * 1e3);
    let mut connection = Connection::open(file).unwrap();
    // The other entries are inserted in one transaction, because the tool would take minutes.
    let filling = connection.transaction().unwrap();
    for number in WRITES..ENTRIES {
        let sql = "INSERT INTO memory
            (key, value, tags, bytes, characters, created_at, updated_at)
            SELECT ?1, ?2, tags, bytes, characters, created_at, updated_at
            FROM memory WHERE place = 1";
        filling.execute(sql, [key(number), value(number)]).unwrap();
    }
    filling.commit().unwrap();
    let search = MemorySearch::module(&memory);
    for (what, word) in [("a rare word", "entry 77777:"), ("no word", "xyzzy")] {
        let by_tool = || {
            let (in_keys, in_values) = (true, true);
            let input = MemorySearch { pattern: word.to_owned(), in_keys, in_values };
            runtime.block_on(search.call(input, &Context::default())).unwrap().len()
        };
        let by_sql = || {
            let sql = "SELECT key, value FROM memory
                WHERE key LIKE ?1 OR value LIKE ?1 ORDER BY place";
            let mut statement = connection.prepare(sql).unwrap();
            let rows = statement.query_map([format!("%{word}%")], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            });
            rows.unwrap().map(Result::unwrap).count()
        };
        let by_reading = || {
            let mut statement =
                connection.prepare("SELECT key, value FROM memory ORDER BY place").unwrap();
            let mut rows = statement.query(()).unwrap();
            while let Some(row) = rows.next().unwrap() {
                black_box(row.get_ref(0).unwrap());
                black_box(row.get_ref(1).unwrap());
            }
        };
        assert_eq!(by_tool(), by_sql());
        let mut costs = [const { Vec::new() }; 3];
        for _ in 0..ROUNDS {
            costs[0].push(seconds(|| assert!(black_box(by_sql()) < 2)));
            costs[1].push(seconds(by_reading));
            costs[2].push(seconds(|| assert!(black_box(by_tool()) < 2)));
        }
        println!("search of the file for {what}, {ROUNDS} rounds");
        println!("LIKE                          {:>8.1} ms", median(costs[0].clone()) * 1e3);
        println!("every row read                {:>8.2}", ratio(&costs[1], &costs[0]));
        println!("memory_search                 {:>8.2}", ratio(&costs[2], &costs[0]));
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_secs_f64()
}

fn ratio(one: &[f64], floor: &[f64]) -> f64 {
    median(one.iter().zip(floor).map(|(one, floor)| one / floor).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
