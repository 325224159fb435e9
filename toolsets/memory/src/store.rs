//! Where the entries are: one map under one lock, one method for each tool.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use regex::Regex;

use crate::tools::get_metadata::Metadata;
use crate::tools::search::Found;

/// Every method takes the lock once, so every call is atomic.
pub(crate) struct Store {
    entries: Mutex<Entries>,
    /// Read under the lock, so that times follow the order of the changes.
    now: fn() -> Timestamp,
}

#[derive(Default)]
struct Entries {
    by_key: HashMap<String, Entry>,
    /// The place of the next new key.
    next_place: u64,
}

struct Entry {
    /// Orders the entries by insertion. A number costs nothing on removal, where a
    /// list would have to close the gap; only a search pays, by sorting what it found.
    place: u64,
    value: String,
    tags: Vec<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
    access_count: u64,
    last_accessed_at: Option<Timestamp>,
}

impl Default for Store {
    fn default() -> Self {
        Self::with_clock(Timestamp::now)
    }
}

impl Store {
    fn with_clock(now: fn() -> Timestamp) -> Self {
        Self { entries: Mutex::default(), now }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // Whoever panicked under the lock left nothing half done: each change is a
        // single insertion or removal, or sets fields of one entry.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a new entry under `key`; whether one was there before.
    ///
    /// Nothing of the earlier entry stays but its place in the order.
    pub(crate) fn store(&self, key: String, value: String, tags: Vec<String>) -> bool {
        let mut entries = self.lock();
        let now = (self.now)();
        let earlier = entries.by_key.get(&key).map(|entry| entry.place);
        let place = earlier.unwrap_or(entries.next_place);
        let entry = Entry {
            place,
            value,
            tags,
            created_at: now,
            updated_at: now,
            access_count: 0,
            last_accessed_at: None,
        };
        entries.by_key.insert(key, entry);
        if earlier.is_none() {
            entries.next_place += 1;
        }
        earlier.is_some()
    }

    /// The value under `key`, counted as an access.
    pub(crate) fn retrieve(&self, key: &str) -> Option<String> {
        let mut entries = self.lock();
        let now = (self.now)();
        let entry = entries.by_key.get_mut(key)?;
        entry.access_count += 1;
        entry.last_accessed_at = Some(now);
        Some(entry.value.clone())
    }

    /// What `pattern` matches, in the order of insertion.
    pub(crate) fn search(&self, pattern: &Regex, in_keys: bool, in_values: bool) -> Vec<Found> {
        let entries = self.lock();
        let mut found: Vec<_> = entries
            .by_key
            .iter()
            .filter(|(key, entry)| {
                (in_keys && pattern.is_match(key)) || (in_values && pattern.is_match(&entry.value))
            })
            .collect();
        found.sort_unstable_by_key(|(_, entry)| entry.place);
        found
            .into_iter()
            .map(|(key, entry)| Found { key: key.clone(), value: entry.value.clone() })
            .collect()
    }

    /// Every key, sorted.
    pub(crate) fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.lock().by_key.keys().cloned().collect();
        keys.sort_unstable();
        keys
    }

    /// Gives the entry under `key` another value; whether there is one.
    pub(crate) fn update(&self, key: &str, value: String) -> bool {
        let mut entries = self.lock();
        let now = (self.now)();
        let Some(entry) = entries.by_key.get_mut(key) else {
            return false;
        };
        entry.value = value;
        entry.updated_at = now;
        true
    }

    /// Removes the entry under `key`; whether there was one.
    pub(crate) fn delete(&self, key: &str) -> bool {
        self.lock().by_key.remove(key).is_some()
    }

    /// Removes every entry; how many there were.
    pub(crate) fn clear(&self) -> usize {
        std::mem::take(&mut *self.lock()).by_key.len()
    }

    /// How many entries there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().by_key.len()
    }

    /// What is known about the entry under `key` besides its value.
    pub(crate) fn metadata(&self, key: &str) -> Option<Metadata> {
        let entries = self.lock();
        let entry = entries.by_key.get(key)?;
        Some(Metadata {
            created_at: entry.created_at,
            updated_at: entry.updated_at,
            access_count: entry.access_count,
            last_accessed_at: entry.last_accessed_at,
            tags: entry.tags.clone(),
            value_length: entry.value.chars().count(),
        })
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("entries", &self.count()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::thread;

    use super::*;

    thread_local! {
        static SECOND: Cell<i64> = const { Cell::new(0) };
    }

    /// A store whose clock stands until the test moves it.
    fn store_at(second: i64) -> Store {
        move_to(second);
        Store::with_clock(|| at(SECOND.get()))
    }

    fn move_to(second: i64) {
        SECOND.set(second);
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Created, updated, last accessed.
    fn times(store: &Store) -> (Timestamp, Timestamp, Option<Timestamp>) {
        let known = store.metadata("key").unwrap();
        (known.created_at, known.updated_at, known.last_accessed_at)
    }

    #[test]
    fn s59_each_time_moves_with_its_own_event() {
        let store = store_at(1);
        store.store("key".into(), "one".into(), vec![]);
        assert_eq!(times(&store), (at(1), at(1), None));
        move_to(2);
        store.retrieve("key");
        assert_eq!(times(&store), (at(1), at(1), Some(at(2))));
        move_to(3);
        store.update("key", "two".into());
        assert_eq!(times(&store), (at(1), at(3), Some(at(2))));
        move_to(4);
        let everything = Regex::new("").unwrap();
        store.search(&everything, true, true);
        store.metadata("key");
        assert_eq!(times(&store), (at(1), at(3), Some(at(2))));
        move_to(5);
        store.store("key".into(), "three".into(), vec![]);
        assert_eq!(times(&store), (at(5), at(5), None));
    }

    #[test]
    fn a_panic_under_the_lock_loses_nothing() {
        let store = Store::default();
        store.store("key".into(), "value".into(), vec![]);
        let panicked = thread::scope(|scope| {
            let poison = scope.spawn(|| {
                let _held = store.lock();
                panic!("under the lock");
            });
            poison.join()
        });
        assert!(panicked.is_err() && store.entries.is_poisoned());
        assert_eq!(store.retrieve("key").as_deref(), Some("value"));
    }
}
