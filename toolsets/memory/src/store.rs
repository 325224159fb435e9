//! Where the entries are.

pub(crate) mod in_process;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use toolwright_module::Result;
use toolwright_module::model::BoxFuture;

use crate::limits::Limits;
use crate::search::Search;
use crate::tools::get_metadata::Metadata;

/// Where a [`Memory`](crate::Memory) keeps its entries: one method for each tool.
///
/// The crate brings three: in the process, in a file and in a PostgreSQL database.
/// [`Memory::with_store`](crate::Memory::with_store) takes any other. What a store is
/// given has been checked: keys, values and tags are no longer than they may be.
///
/// Every method is one atomic step. Of two at once, one comes first, whoever calls them:
/// another task, another clone of the memory, or another process if the store is shared.
/// What was acknowledged stays.
///
/// A failure of the store is the user's to know, not the model's: give it with `?` or
/// [`Error::other`](toolwright_module::Error::other), retryable if the same call may
/// succeed later, and with no password in it. Where a model can do something about it, as
/// when the store is busy or full, say so with
/// [`Error::retry`](toolwright_module::Error::retry) or
/// [`Error::refuse`](toolwright_module::Error::refuse), and keep the cause as its source.
///
/// `tests/store` in the crate's repository has a store written from nothing, and the
/// suite that all of them pass.
pub trait Store: Send + Sync + 'static {
    /// Puts the entry in; whether there was one under its key before.
    ///
    /// Nothing of the earlier one stays but its place in the order: created and updated
    /// are now, and it was never accessed.
    ///
    /// # Errors
    ///
    /// That of [`Limits::check`]; else the store failed.
    fn store(&self, entry: Entry, limits: Limits) -> BoxFuture<'_, Result<bool>>;

    /// The value under `key`, counted as an access.
    ///
    /// A store that could not count it, as on a full disk, gives the value all the same.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn retrieve(&self, key: String) -> BoxFuture<'_, Result<Option<String>>>;

    /// Shows every entry to `search` in the order of insertion, until it has enough, and
    /// gives it back.
    ///
    /// What it is shown are the entries of one moment. That is no access of them.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn search(&self, search: Search) -> BoxFuture<'_, Result<Search>>;

    /// Every key, sorted by bytes.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn keys(&self) -> BoxFuture<'_, Result<Vec<String>>>;

    /// Gives the entry under `key` another value and time of update; whether there is one.
    ///
    /// # Errors
    ///
    /// That of [`Limits::check`]; else the store failed.
    fn update(&self, key: String, value: String, limits: Limits) -> BoxFuture<'_, Result<bool>>;

    /// Removes the entry under `key`; whether there was one.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn delete(&self, key: String) -> BoxFuture<'_, Result<bool>>;

    /// Removes every entry; how many there were.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn clear(&self) -> BoxFuture<'_, Result<usize>>;

    /// How many entries there are.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn count(&self) -> BoxFuture<'_, Result<usize>>;

    /// What is known about the entry under `key` besides its value. Asking is no access.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn metadata(&self, key: String) -> BoxFuture<'_, Result<Option<Metadata>>>;
}

/// What a [`Store`] is given to keep.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it is found by.
    pub key: String,
    /// The text itself.
    pub value: String,
    /// Its labels.
    pub tags: Vec<String>,
}

impl Entry {
    /// How much of [`Limits::bytes`] it takes: its key, its value and its tags.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let tags: usize = self.tags.iter().map(String::len).sum();
        self.key.len() + self.value.len() + tags
    }
}

/// Says how large it is, never what is in it.
impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

/// How much a [`Store`] holds, as [`Limits`] count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// How many entries.
    pub entries: usize,
    /// The bytes of all of them, each as [`Entry::bytes`] says.
    pub bytes: usize,
}

impl Held {
    /// The same after an entry of `bytes` took the place of one of `earlier` bytes, or
    /// came new.
    #[must_use]
    pub fn with(self, bytes: usize, earlier: Option<usize>) -> Self {
        Self {
            entries: self.entries + usize::from(earlier.is_none()),
            bytes: self.bytes.saturating_sub(earlier.unwrap_or(0)) + bytes,
        }
    }

    /// The same after an entry of `bytes` was removed.
    #[must_use]
    pub fn without(self, bytes: usize) -> Self {
        Self { entries: self.entries.saturating_sub(1), bytes: self.bytes.saturating_sub(bytes) }
    }
}
