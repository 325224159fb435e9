//! [`Store`], the trait of stores, with [`Entry`] and [`Held`]; the submodules implement it.

pub(crate) mod in_process;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use toolwright_module::Result;
use toolwright_module::model::BoxFuture;

use crate::limits::MemoryLimits;
use crate::search::Search;
use crate::tools::Metadata;

/// The storage of a [`Memory`](crate::Memory): one method for each tool.
///
/// The crate has three stores: in the process, in a file and in a PostgreSQL database.
/// [`Memory::with_store`](crate::Memory::with_store) accepts any other. The sizes of keys, values
/// and tags were checked before a method is called.
///
/// Every method must be one atomic step, whether it is called from another task, another clone of
/// the memory, or another process that shares the store. After a method has returned, its change
/// must not be lost.
///
/// An error of the store is for the user, not for the model. Return it with `?` or
/// [`Error::other`](toolwright_module::Error::other), make it retryable if the same call may
/// succeed later, and do not include a password. If a model can react, for example because the
/// store is busy or full, use [`Error::retry`](toolwright_module::Error::retry) or
/// [`Error::refuse`](toolwright_module::Error::refuse) with the original error as its source.
///
/// `tests/store` in the crate's repository has an example store, and the test suite that all
/// stores pass.
pub trait Store: Send + Sync + 'static {
    /// Stores an entry. Returns whether it replaced an entry with the same key.
    ///
    /// A replaced entry keeps only its position in the order of insertion: both times are now, and
    /// the access count is 0.
    ///
    /// # Errors
    ///
    /// The error of [`MemoryLimits::check`], or an error of the store.
    fn store(&self, entry: Entry, limits: MemoryLimits) -> BoxFuture<'_, Result<bool>>;

    /// Returns the value of `key`, and counts an access.
    ///
    /// If the access cannot be counted, for example on a full disk, the value is still returned.
    ///
    /// # Errors
    ///
    /// An error of the store.
    fn retrieve(&self, key: String) -> BoxFuture<'_, Result<Option<String>>>;

    /// Passes the entries to [`Search::show`] in the order of insertion, until it returns `Break`.
    /// Returns the search.
    ///
    /// The entries must be a consistent snapshot. A search does not count as an access.
    ///
    /// # Errors
    ///
    /// An error of the store.
    fn search(&self, search: Search) -> BoxFuture<'_, Result<Search>>;

    /// Returns all keys, sorted by bytes.
    ///
    /// # Errors
    ///
    /// An error of the store.
    fn keys(&self) -> BoxFuture<'_, Result<Vec<String>>>;

    /// Changes the value and the update time of an entry. Returns whether there is such an entry.
    ///
    /// # Errors
    ///
    /// The error of [`MemoryLimits::check`], or an error of the store.
    fn update(
        &self,
        key: String,
        value: String,
        limits: MemoryLimits,
    ) -> BoxFuture<'_, Result<bool>>;

    /// Removes an entry. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// An error of the store.
    fn delete(&self, key: String) -> BoxFuture<'_, Result<bool>>;

    /// Removes all entries. Returns their number.
    ///
    /// # Errors
    ///
    /// An error of the store.
    fn clear(&self) -> BoxFuture<'_, Result<usize>>;

    /// Returns the number of entries.
    ///
    /// # Errors
    ///
    /// An error of the store.
    fn count(&self) -> BoxFuture<'_, Result<usize>>;

    /// Returns the metadata of an entry. This does not count as an access.
    ///
    /// # Errors
    ///
    /// An error of the store.
    fn metadata(&self, key: String) -> BoxFuture<'_, Result<Option<Metadata>>>;
}

/// An entry that a [`Store`] stores.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// Key of the entry, which is unique.
    pub key: String,
    /// Text of the entry.
    pub value: String,
    /// The labels.
    pub tags: Vec<String>,
}

impl Entry {
    /// Returns its size as [`MemoryLimits::bytes`] counts it: the bytes of key, value and tags.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let tags: usize = self.tags.iter().map(String::len).sum();
        self.key.len() + self.value.len() + tags
    }
}

/// Shows the size, but not the content.
impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

/// The size of a [`Store`], as [`MemoryLimits`] count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// Number of entries.
    pub entries: usize,
    /// Sum of [`Entry::bytes`] of all entries.
    pub bytes: usize,
}

impl Held {
    /// Returns the size after an entry of `bytes` was stored. `earlier` is the size of the entry
    /// that it replaces, if any.
    #[must_use]
    pub fn with(self, bytes: usize, earlier: Option<usize>) -> Self {
        Self {
            entries: self.entries + usize::from(earlier.is_none()),
            bytes: self.bytes.saturating_sub(earlier.unwrap_or(0)) + bytes,
        }
    }

    /// Returns the size after an entry of `bytes` was removed.
    #[must_use]
    pub fn without(self, bytes: usize) -> Self {
        Self { entries: self.entries.saturating_sub(1), bytes: self.bytes.saturating_sub(bytes) }
    }
}
