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
/// Every method takes the lock once, so every call is atomic. The clock is read under the lock, so
/// that times follow the order of the changes. No text is copied under the lock.
#[derive(Default)]
pub(crate) struct InProcess(Mutex<Entries>);

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

impl InProcess {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        // A panic under the lock leaves no partial change: each change is one insertion or removal,
        // or sets the fields of one entry.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, entry: Entry, limits: &MemoryLimits) -> Result<bool> {
        let bytes = entry.bytes();
        let (key, value): (Arc<str>, Arc<str>) = (entry.key.into(), entry.value.into());
        let tags = entry.tags.into();
        let mut entries = self.lock();
        let now = Timestamp::now();
        let earlier = entries.by_key.get(&key).map(|kept| (kept.place, kept.bytes));
        let before = entries.held();
        let after = before.with(bytes, earlier.map(|(_, bytes)| bytes));
        limits.check(before, after)?;
        let kept = StoredEntry {
            place: earlier.map_or(entries.next_place, |(place, _)| place),
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
        entries.next_place += u64::from(earlier.is_none());
        drop(entries);
        Ok(replaced.is_some())
    }

    fn change(&self, key: &str, value: String, limits: &MemoryLimits) -> Result<bool> {
        let value: Arc<str> = value.into();
        let mut entries = self.lock();
        let now = Timestamp::now();
        let before = entries.held();
        let Some(kept) = entries.by_key.get_mut(key) else {
            return Ok(false);
        };
        let bytes = kept.bytes - kept.value.len() + value.len();
        let after = before.with(bytes, Some(kept.bytes));
        limits.check(before, after)?;
        let old = std::mem::replace(&mut kept.value, value);
        (kept.bytes, kept.updated_at) = (bytes, now);
        entries.bytes = after.bytes;
        drop(entries);
        drop(old);
        Ok(true)
    }

    fn describe(&self, key: &str) -> Option<Metadata> {
        let entries = self.lock();
        let kept = entries.by_key.get(key)?;
        let (value, tags) = (Arc::clone(&kept.value), Arc::clone(&kept.tags));
        let mut metadata = Metadata {
            created_at: kept.created_at,
            updated_at: kept.updated_at,
            access_count: kept.access_count,
            last_accessed_at: kept.last_accessed_at,
            tags: Vec::new(),
            value_length: 0,
        };
        drop(entries);
        (metadata.tags, metadata.value_length) = (tags.to_vec(), value.chars().count());
        Some(metadata)
    }
}

impl Store for InProcess {
    fn store(&self, entry: Entry, limits: MemoryLimits) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move { self.put(entry, &limits) })
    }

    fn retrieve(&self, key: String) -> BoxFuture<'_, Result<Option<String>>> {
        Box::pin(async move {
            let value = self.lock().by_key.get_mut(&*key).map(|kept| {
                kept.access_count += 1;
                kept.last_accessed_at = Some(Timestamp::now());
                Arc::clone(&kept.value)
            });
            Ok(value.map(|value| String::from(&*value)))
        })
    }

    fn search(&self, mut search: Search) -> BoxFuture<'_, Result<Search>> {
        Box::pin(async move {
            let shared = |(key, kept): (&Arc<str>, &StoredEntry)| {
                (kept.place, Arc::clone(key), Arc::clone(&kept.value))
            };
            let mut entries: Vec<_> = self.lock().by_key.iter().map(shared).collect();
            entries.sort_unstable_by_key(|(place, ..)| *place);
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
        Box::pin(async move {
            let mut entries = self.lock();
            let removed = entries.by_key.remove(&*key);
            entries.bytes -= removed.as_ref().map_or(0, |removed| removed.bytes);
            drop(entries);
            Ok(removed.is_some())
        })
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
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn a_panic_under_the_lock_keeps_the_entries() {
        let store = InProcess::default();
        let entry = Entry { key: "key".to_owned(), value: "value".to_owned(), tags: vec![] };
        store.put(entry, &MemoryLimits::default()).unwrap();
        let panicked = thread::scope(|scope| {
            let poison = scope.spawn(|| {
                let _held = store.lock();
                panic!("under the lock");
            });
            poison.join()
        });
        assert!(panicked.is_err() && store.0.is_poisoned());
        let value = store.retrieve("key".to_owned()).await.unwrap();
        assert_eq!(value.as_deref(), Some("value"));
    }
}
