//! An example of a custom store, which is a list.

use jiff::Timestamp;
use tokio::sync::Mutex;
use toolwright_memory::{Entry, Held, MemoryLimits, Metadata, Search, Store};
use toolwright_module::Result;
use toolwright_module::model::BoxFuture;

#[derive(Default)]
pub(crate) struct List(Mutex<Vec<Row>>);

#[derive(Clone)]
struct Row {
    entry: Entry,
    known: Metadata,
}

impl Row {
    fn new(entry: Entry) -> Self {
        let now = Timestamp::now();
        let known = Metadata {
            created_at: now,
            updated_at: now,
            access_count: 0,
            last_accessed_at: None,
            tags: entry.tags.clone(),
            value_length: entry.value.chars().count(),
        };
        Self { entry, known }
    }
}

fn held(rows: &[Row]) -> Held {
    Held { entries: rows.len(), bytes: rows.iter().map(|row| row.entry.bytes()).sum() }
}

fn find<'a>(rows: &'a mut [Row], key: &str) -> Option<&'a mut Row> {
    rows.iter_mut().find(|row| row.entry.key == key)
}

impl Store for List {
    fn store(&self, entry: Entry, limits: MemoryLimits) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            let mut rows = self.0.lock().await;
            let before = held(&rows);
            let earlier = find(&mut rows, &entry.key);
            let bytes = earlier.as_ref().map(|row| row.entry.bytes());
            limits.check(before, before.with(entry.bytes(), bytes))?;
            match earlier {
                Some(row) => *row = Row::new(entry),
                None => rows.push(Row::new(entry)),
            }
            Ok(bytes.is_some())
        })
    }

    fn retrieve(&self, key: String) -> BoxFuture<'_, Result<Option<String>>> {
        Box::pin(async move {
            Ok(find(&mut self.0.lock().await, &key).map(|row| {
                row.known.access_count += 1;
                row.known.last_accessed_at = Some(Timestamp::now());
                row.entry.value.clone()
            }))
        })
    }

    fn search(&self, mut search: Search) -> BoxFuture<'_, Result<Search>> {
        Box::pin(async move {
            let rows = self.0.lock().await.clone();
            let searched = tokio::task::spawn_blocking(move || {
                let _ =
                    rows.iter().try_for_each(|row| search.show(&row.entry.key, &row.entry.value));
                search
            });
            Ok(searched.await?)
        })
    }

    fn keys(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(async move {
            let rows = self.0.lock().await;
            let mut keys: Vec<String> = rows.iter().map(|row| row.entry.key.clone()).collect();
            keys.sort();
            Ok(keys)
        })
    }

    fn update(
        &self,
        key: String,
        value: String,
        limits: MemoryLimits,
    ) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            let mut rows = self.0.lock().await;
            let before = held(&rows);
            let Some(row) = find(&mut rows, &key) else {
                return Ok(false);
            };
            let earlier = row.entry.bytes();
            let bytes = earlier - row.entry.value.len() + value.len();
            limits.check(before, before.with(bytes, Some(earlier)))?;
            row.known.value_length = value.chars().count();
            row.known.updated_at = Timestamp::now();
            row.entry.value = value;
            Ok(true)
        })
    }

    fn delete(&self, key: String) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            let mut rows = self.0.lock().await;
            let before = rows.len();
            rows.retain(|row| row.entry.key != key);
            Ok(rows.len() < before)
        })
    }

    fn clear(&self) -> BoxFuture<'_, Result<usize>> {
        Box::pin(async move { Ok(std::mem::take(&mut *self.0.lock().await).len()) })
    }

    fn count(&self) -> BoxFuture<'_, Result<usize>> {
        Box::pin(async move { Ok(self.0.lock().await.len()) })
    }

    fn metadata(&self, key: String) -> BoxFuture<'_, Result<Option<Metadata>>> {
        Box::pin(
            async move { Ok(find(&mut self.0.lock().await, &key).map(|row| row.known.clone())) },
        )
    }
}
