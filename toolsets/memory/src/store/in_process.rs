//! The store in the process: a map under a lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use toolwright_module::Result;
use toolwright_module::model::BoxFuture;

use super::{Entry, Held, Store};
use crate::blocking::run_blocking;
use crate::limits::MemoryLimits;
use crate::search::Search;
use crate::tools::Metadata;

/// A store in the process.
///
/// Every method takes the lock once, so every call is atomic. No text is copied under the lock.
pub(crate) struct InProcess {
    entries: Mutex<Entries>,
    /// The clock. It is read under the lock, so that times follow the order of the changes.
    now: fn() -> Timestamp,
}

#[derive(Default)]
struct Entries {
    by_key: HashMap<Arc<str>, StoredEntry>,
    bytes: usize,
    /// The `place` of the next new key.
    next_place: u64,
}

struct StoredEntry {
    /// The position in the order of insertion. With a number, removal is cheap; a search sorts the
    /// entries.
    place: u64,
    value: Arc<str>,
    tags: Arc<[String]>,
    bytes: usize,
    created_at: Timestamp,
    updated_at: Timestamp,
    access_count: u64,
    last_accessed_at: Option<Timestamp>,
}

impl Entries {
    fn held(&self) -> Held {
        Held { entries: self.by_key.len(), bytes: self.bytes }
    }
}

impl Default for InProcess {
    fn default() -> Self {
        Self::with_clock(Timestamp::now)
    }
}

impl InProcess {
    fn with_clock(now: fn() -> Timestamp) -> Self {
        Self { entries: Mutex::default(), now }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // A panic under the lock leaves no partial change: each change is one insertion or removal,
        // or sets the fields of one entry.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, entry: Entry, limits: &MemoryLimits) -> Result<bool> {
        let bytes = entry.bytes();
        let (key, value): (Arc<str>, Arc<str>) = (entry.key.into(), entry.value.into());
        let tags = entry.tags.into();
        let mut entries = self.lock();
        let now = (self.now)();
        let earlier = entries.by_key.get(&key).map(|kept| (kept.place, kept.bytes));
        let before = entries.held();
        let after = before.with(bytes, earlier.map(|(_, bytes)| bytes));
        limits.check(before, after)?;
        let place = earlier.map_or(entries.next_place, |(place, _)| place);
        let kept = StoredEntry {
            place,
            value,
            tags,
            bytes,
            created_at: now,
            updated_at: now,
            access_count: 0,
            last_accessed_at: None,
        };
        let replaced = entries.by_key.insert(key, kept);
        entries.bytes = after.bytes;
        if earlier.is_none() {
            entries.next_place += 1;
        }
        drop(entries);
        Ok(replaced.is_some())
    }

    fn change(&self, key: &str, value: String, limits: &MemoryLimits) -> Result<bool> {
        let value: Arc<str> = value.into();
        let mut entries = self.lock();
        let now = (self.now)();
        let before = entries.held();
        let Some(kept) = entries.by_key.get_mut(key) else {
            return Ok(false);
        };
        let bytes = kept.bytes - kept.value.len() + value.len();
        let after = before.with(bytes, Some(kept.bytes));
        limits.check(before, after)?;
        let old = std::mem::replace(&mut kept.value, value);
        kept.bytes = bytes;
        kept.updated_at = now;
        entries.bytes = after.bytes;
        drop(entries);
        drop(old);
        Ok(true)
    }

    fn remove(&self, key: &str) -> bool {
        let mut entries = self.lock();
        let removed = entries.by_key.remove(key);
        if let Some(removed) = &removed {
            entries.bytes -= removed.bytes;
        }
        drop(entries);
        removed.is_some()
    }

    fn read(&self, key: &str) -> Option<String> {
        let mut entries = self.lock();
        let now = (self.now)();
        let kept = entries.by_key.get_mut(key)?;
        kept.access_count += 1;
        kept.last_accessed_at = Some(now);
        let value = Arc::clone(&kept.value);
        drop(entries);
        Some(String::from(&*value))
    }

    fn describe(&self, key: &str) -> Option<Metadata> {
        let entries = self.lock();
        let kept = entries.by_key.get(key)?;
        let (value, tags) = (Arc::clone(&kept.value), Arc::clone(&kept.tags));
        let (created_at, updated_at) = (kept.created_at, kept.updated_at);
        let (access_count, last_accessed_at) = (kept.access_count, kept.last_accessed_at);
        drop(entries);
        Some(Metadata {
            created_at,
            updated_at,
            access_count,
            last_accessed_at,
            tags: tags.to_vec(),
            value_length: value.chars().count(),
        })
    }

    /// A snapshot of the entries, in the order of insertion.
    fn entries(&self) -> Vec<(u64, Arc<str>, Arc<str>)> {
        let shared = |(key, kept): (&Arc<str>, &StoredEntry)| {
            (kept.place, Arc::clone(key), Arc::clone(&kept.value))
        };
        let mut entries: Vec<_> = self.lock().by_key.iter().map(shared).collect();
        entries.sort_unstable_by_key(|(place, ..)| *place);
        entries
    }
}

impl Store for InProcess {
    fn store(&self, entry: Entry, limits: MemoryLimits) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move { self.put(entry, &limits) })
    }

    fn retrieve(&self, key: String) -> BoxFuture<'_, Result<Option<String>>> {
        Box::pin(async move { Ok(self.read(&key)) })
    }

    fn search(&self, mut search: Search) -> BoxFuture<'_, Result<Search>> {
        Box::pin(async move {
            let entries = self.entries();
            run_blocking(move || {
                for (_, key, value) in &entries {
                    if search.show(key, value).is_break() {
                        break;
                    }
                }
                search
            })
            .await
        })
    }

    fn keys(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(async move {
            let mut keys: Vec<Arc<str>> = self.lock().by_key.keys().cloned().collect();
            keys.sort_unstable();
            Ok(keys.iter().map(|key| String::from(&**key)).collect())
        })
    }

    fn update(
        &self,
        key: String,
        value: String,
        limits: MemoryLimits,
    ) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move { self.change(&key, value, &limits) })
    }

    fn delete(&self, key: String) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move { Ok(self.remove(&key)) })
    }

    fn clear(&self) -> BoxFuture<'_, Result<usize>> {
        Box::pin(async move {
            let removed = std::mem::take(&mut *self.lock());
            Ok(removed.by_key.len())
        })
    }

    fn count(&self) -> BoxFuture<'_, Result<usize>> {
        Box::pin(async move { Ok(self.lock().by_key.len()) })
    }

    fn metadata(&self, key: String) -> BoxFuture<'_, Result<Option<Metadata>>> {
        Box::pin(async move { Ok(self.describe(&key)) })
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

    /// A store with a clock that the test sets.
    fn store_at(second: i64) -> InProcess {
        move_to(second);
        InProcess::with_clock(|| at(SECOND.get()))
    }

    fn move_to(second: i64) {
        SECOND.set(second);
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn put(store: &InProcess, value: &str) {
        let entry = Entry { key: "key".to_owned(), value: value.to_owned(), tags: vec![] };
        store.put(entry, &MemoryLimits::default()).unwrap();
    }

    /// The times of creation, update and last access.
    fn times(store: &InProcess) -> (Timestamp, Timestamp, Option<Timestamp>) {
        let known = store.describe("key").unwrap();
        (known.created_at, known.updated_at, known.last_accessed_at)
    }

    #[test]
    fn each_time_changes_with_its_own_event() {
        let store = store_at(1);
        put(&store, "one");
        assert_eq!(times(&store), (at(1), at(1), None));
        move_to(2);
        store.read("key");
        assert_eq!(times(&store), (at(1), at(1), Some(at(2))));
        move_to(3);
        store.change("key", "two".into(), &MemoryLimits::default()).unwrap();
        assert_eq!(times(&store), (at(1), at(3), Some(at(2))));
        move_to(4);
        store.entries();
        store.describe("key");
        assert_eq!(times(&store), (at(1), at(3), Some(at(2))));
        move_to(5);
        put(&store, "three");
        assert_eq!(times(&store), (at(5), at(5), None));
    }

    #[test]
    fn a_panic_under_the_lock_keeps_the_entries() {
        let store = InProcess::default();
        put(&store, "value");
        let panicked = thread::scope(|scope| {
            let poison = scope.spawn(|| {
                let _held = store.lock();
                panic!("under the lock");
            });
            poison.join()
        });
        assert!(panicked.is_err() && store.entries.is_poisoned());
        assert_eq!(store.read("key").as_deref(), Some("value"));
    }
}
