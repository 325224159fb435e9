//! The nine tools: methods of [`Memory`], and their outputs.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Result, toolset};

use crate::memory::Memory;
use crate::search::Search;
use crate::store::Entry;

#[toolset(derive(Debug, Clone, PartialEq, Eq))]
impl Memory {
    /// Store a value under a key, with optional tags. Replaces what is stored there.
    ///
    /// # Details
    ///
    /// If the key exists, everything is replaced: value, tags, times and access count. The key
    /// keeps its position in the results of a search.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let memory = toolwright_memory::Memory::default();
    /// assert!(!memory.store("color", "blue", None).await?.replaced);
    /// assert!(memory.store("color", "green", None).await?.replaced);
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    // Repeating the call changes only the times of the entry.
    #[tool(effect = Idempotent, render = Stored::text)]
    pub async fn store(
        &self,
        /// Name to find the value by.
        key: &str,
        /// Text to store.
        value: &str,
        /// Labels for the entry.
        tags: Option<Vec<String>>,
    ) -> Result<Stored> {
        let tags = tags.unwrap_or_default();
        let entry = Entry { key: key.to_owned(), value: value.to_owned(), tags };
        self.limits.check_entry(&entry)?;
        let replaced = self.store.store(entry, self.limits).await?;
        Ok(Stored { key: key.to_owned(), replaced })
    }

    /// Read the value stored under a key. Gives null if there is none.
    ///
    /// # Details
    ///
    /// Each call that finds an entry counts as an access.
    // A read, although it counts the access. The counter is a side effect without consequences:
    // reads commute, and a read that is repeated after a crash is another access. As a write, the
    // tool would need approval and run alone without a benefit.
    #[tool(effect = Read)]
    pub async fn retrieve(
        &self,
        /// Name the value was stored under.
        key: &str,
    ) -> Result<Option<String>> {
        self.store.retrieve(key.to_owned()).await
    }

    /// Find entries whose key or value matches a regular expression, in any case.
    ///
    /// # Details
    ///
    /// The result is in the order of insertion. Tags are not searched, and a search does not count
    /// as an access. Patterns have the syntax of the [`regex`] crate, whose time is linear in the
    /// size of the text, and the size of a pattern is limited. Matching runs on its own thread,
    /// does not block other calls, and ends when the call is dropped. The size of the result is
    /// limited by [`MemoryLimits`](crate::MemoryLimits).
    #[tool(effect = Read)]
    pub async fn search(
        &self,
        /// Regular expression or plain words; empty matches every entry.
        pattern: &str,
        /// Look in keys.
        #[default = true]
        in_keys: bool,
        /// Look in values.
        #[default = true]
        in_values: bool,
    ) -> Result<Vec<Found>> {
        let search = Search::new(pattern, in_keys, in_values, &self.limits)?;
        let _guard = search.guard();
        self.store.search(search).await?.finish()
    }

    /// List the keys of all entries, sorted.
    #[tool(effect = Read)]
    pub async fn list(&self) -> Result<Vec<String>> {
        self.store.keys().await
    }

    /// Change the value of an existing entry. Its tags stay.
    ///
    /// # Details
    ///
    /// Only the value and the update time change.
    // Repeating the call changes only the update time of the entry.
    #[tool(effect = Idempotent, render = Updated::text)]
    pub async fn update(
        &self,
        /// Name the value was stored under.
        key: &str,
        /// Text to store instead.
        value: &str,
    ) -> Result<Updated> {
        self.limits.check_value(value)?;
        let found = self.store.update(key.to_owned(), value.to_owned(), self.limits).await?;
        Ok(Updated { key: key.to_owned(), found })
    }

    /// Remove one entry for good.
    // Repeating the call changes nothing, but no tool can restore the entry.
    #[tool(effect = Irreversible, render = Deleted::text)]
    pub async fn delete(
        &self,
        /// Name the value was stored under.
        key: &str,
    ) -> Result<Deleted> {
        let found = self.store.delete(key.to_owned()).await?;
        Ok(Deleted { key: key.to_owned(), found })
    }

    /// Remove all entries for good.
    #[tool(effect = Irreversible, render = Cleared::text)]
    pub async fn clear(&self) -> Result<Cleared> {
        Ok(Cleared { removed: self.store.clear().await? })
    }

    /// Say how many entries there are.
    #[tool(effect = Read)]
    pub async fn count(&self) -> Result<usize> {
        self.store.count().await
    }

    /// Say when an entry was stored, changed and read, and its tags and length. Gives null if there is none.
    ///
    /// # Details
    ///
    /// This does not count as an access.
    #[tool(effect = Read)]
    pub async fn get_metadata(
        &self,
        /// Name the value was stored under.
        key: &str,
    ) -> Result<Option<Metadata>> {
        self.store.metadata(key.to_owned()).await
    }
}

/// What was stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stored {
    /// The key.
    pub key: String,
    /// Whether an earlier entry was replaced.
    pub replaced: bool,
}

impl Stored {
    fn text(&self) -> String {
        format!("Stored memory '{}' successfully", self.key)
    }
}

/// One entry that matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// What was updated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Updated {
    /// The key.
    pub key: String,
    /// Whether there was such an entry; if not, nothing changed.
    pub found: bool,
}

impl Updated {
    fn text(&self) -> String {
        match self {
            Self { key, found: true } => format!("Updated memory '{key}' successfully"),
            Self { key, found: false } => format!("Memory '{key}' not found"),
        }
    }
}

/// What was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deleted {
    /// The key.
    pub key: String,
    /// Whether there was such an entry; if not, nothing changed.
    pub found: bool,
}

impl Deleted {
    fn text(&self) -> String {
        match self {
            Self { key, found: true } => format!("Deleted memory '{key}' successfully"),
            Self { key, found: false } => format!("Memory '{key}' not found"),
        }
    }
}

/// What was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cleared {
    /// How many entries there were.
    pub removed: usize,
}

impl Cleared {
    fn text(&self) -> String {
        format!("Cleared {} memories", self.removed)
    }
}

/// What is known about an entry besides its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Metadata {
    /// When it was stored, in UTC.
    pub created_at: Timestamp,
    /// When its value last changed, in UTC.
    pub updated_at: Timestamp,
    /// How often it was retrieved.
    pub access_count: u64,
    /// When it was last retrieved, in UTC; null if never.
    pub last_accessed_at: Option<Timestamp>,
    /// Its labels.
    pub tags: Vec<String>,
    /// Length of its value in characters.
    pub value_length: usize,
}
