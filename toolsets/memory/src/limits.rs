//! [`MemoryLimits`], the maximum sizes of a memory and of a search.

use toolwright_module::error::Stage;
use toolwright_module::{Error, Result};

use crate::store::{Entry, Held};

/// The maximum sizes of a memory and of the result of a search.
///
/// They exist because a model chooses what it stores and searches for. A call above a limit fails
/// with a text that says what to do. It changes nothing, and no result is cut off.
///
/// ```
/// use toolwright_memory::MemoryLimits;
///
/// let limits = MemoryLimits { entries: 10_000, value_bytes: 64 << 10, ..MemoryLimits::default() };
/// assert_eq!(limits.entries, 10_000);
/// assert_eq!(limits.bytes, 256 << 20);
/// ```
///
/// The limits belong to the [`Memory`](crate::Memory), not to its store: two processes that share
/// a database can have different limits. If a store already holds more than the limits, all
/// entries can be read, and only changes that do not make the store larger are accepted.
///
/// Two limits are fixed. A key has at most 1,024 bytes ([`MemoryLimits::KEY_BYTES`]), because databases
/// cannot index longer ones. An entry has at most 100 tags ([`MemoryLimits::TAGS`]), each at most as
/// long as a key. Otherwise keys, values and tags may be any text: empty, of any script, with
/// line breaks and NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Maximum number of entries. Default: 1,000,000.
    pub entries: usize,
    /// Maximum size of all keys, values and tags together, in bytes. Default: 256 MiB.
    pub bytes: usize,
    /// Maximum size of a value, in bytes. Default: 16 MiB.
    pub value_bytes: usize,
    /// Maximum number of entries in the result of a search. Default: 10,000.
    pub found_entries: usize,
    /// Maximum size of the result of a search, in bytes of keys and values. Default: 4 MiB.
    pub found_bytes: usize,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self {
            entries: 1_000_000,
            bytes: 256 << 20,
            value_bytes: 16 << 20,
            found_entries: 10_000,
            found_bytes: 4 << 20,
        }
    }
}

impl MemoryLimits {
    /// Maximum size of a key or a tag, in bytes.
    pub const KEY_BYTES: usize = 1024;
    /// Maximum number of tags of an entry.
    pub const TAGS: usize = 100;

    /// Checks that a change does not make a memory larger than the limits.
    ///
    /// A [`Store`](crate::Store) must call this in the same atomic step as the change. Otherwise
    /// two concurrent changes could both fit alone, but not together.
    ///
    /// # Errors
    ///
    /// A text for the model that names the limit and says what to do. A change that does not make
    /// the memory larger never fails.
    pub fn check(&self, before: Held, after: Held) -> Result<()> {
        let text = if after.entries > before.entries.max(self.entries) {
            format!("the memory is full: the maximum is {} entries", self.entries)
        } else if after.bytes > before.bytes.max(self.bytes) {
            format!("the memory is full: the maximum is {} bytes", self.bytes)
        } else {
            return Ok(());
        };
        Err(Error::retry(text + "; delete entries that are not needed, then try again")
            .at(Stage::Limit))
    }

    pub(crate) fn check_entry(&self, entry: &Entry) -> Result<()> {
        check_bytes("key", &entry.key, Self::KEY_BYTES, "use a shorter one")?;
        if entry.tags.len() > Self::TAGS {
            let count = entry.tags.len();
            let text =
                format!("`tags` has {count} tags and the maximum is {}; use fewer", Self::TAGS);
            return Err(Error::retry(text).at(Stage::Arguments));
        }
        for tag in &entry.tags {
            check_bytes("tags", tag, Self::KEY_BYTES, "use shorter tags")?;
        }
        self.check_value(&entry.value)
    }

    pub(crate) fn check_value(&self, value: &str) -> Result<()> {
        let fix = "shorten it, or store it in parts under several keys";
        check_bytes("value", value, self.value_bytes, fix)
    }
}

fn check_bytes(what: &str, text: &str, most: usize, fix: &str) -> Result<()> {
    if text.len() <= most {
        return Ok(());
    }
    let text = format!("`{what}` has {} bytes and the maximum is {most}; {fix}", text.len());
    Err(Error::retry(text).at(Stage::Arguments))
}
