use toolwright_module::error::Stage;
use toolwright_module::{Error, Result};

use crate::store::{Entry, Held};

/// How large a memory may grow, and how much a search may give.
///
/// A model chooses what it stores and what it searches for, so each of these has a bound.
/// Whatever goes beyond one is refused with a text that tells the model what to do, and
/// nothing is stored, changed or left out in silence.
///
/// ```
/// use toolwright_memory::Limits;
///
/// let limits = Limits::default().with_entries(10_000).with_value_bytes(64 << 10);
/// assert_eq!(limits.entries, 10_000);
/// assert_eq!(limits.bytes, 256 << 20);
/// ```
///
/// They belong to the [`Memory`](crate::Memory), not to its store: of two processes that
/// share a database each is held to its own. If a memory holds more than its limits when
/// it is opened, it gives all of it and takes what makes it no larger.
///
/// Two limits are the same for every memory. A key has at most 1,024 bytes
/// ([`Limits::KEY_BYTES`]), because databases cannot index longer ones. An entry has at
/// most 100 tags ([`Limits::TAGS`]), none longer than a key may be. Otherwise a key, a
/// value and a tag may be any text: empty, of any script, with line breaks and NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How many entries there may be: 1,000,000 unless said.
    pub entries: usize,
    /// The bytes of all keys, values and tags together: 256 MiB unless said.
    pub bytes: usize,
    /// The bytes of one value: 16 MiB unless said.
    pub value_bytes: usize,
    /// How many entries one search may find: 10,000 unless said.
    pub found_entries: usize,
    /// The bytes of all that one search may find: 4 MiB unless said.
    pub found_bytes: usize,
}

impl Default for Limits {
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

impl Limits {
    /// The most bytes that a key may have, and a tag.
    pub const KEY_BYTES: usize = 1024;
    /// The most tags that an entry may have.
    pub const TAGS: usize = 100;

    /// The same with another number of entries.
    #[must_use]
    pub fn with_entries(mut self, entries: usize) -> Self {
        self.entries = entries;
        self
    }

    /// The same with another size of everything together.
    #[must_use]
    pub fn with_bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// The same with another size of a value.
    #[must_use]
    pub fn with_value_bytes(mut self, bytes: usize) -> Self {
        self.value_bytes = bytes;
        self
    }

    /// The same with another number of entries that a search may find.
    #[must_use]
    pub fn with_found_entries(mut self, entries: usize) -> Self {
        self.found_entries = entries;
        self
    }

    /// The same with another size of what a search may find.
    #[must_use]
    pub fn with_found_bytes(mut self, bytes: usize) -> Self {
        self.found_bytes = bytes;
        self
    }

    /// Refuses a change that would make a memory larger than it may be.
    ///
    /// A [`Store`](crate::Store) asks this in the same atomic step that makes the change:
    /// asked earlier, two changes at once could both fit and not fit together.
    ///
    /// # Errors
    ///
    /// The model is told which limit it is and what to do. What makes a memory no larger
    /// is never refused.
    pub fn check(&self, before: Held, after: Held) -> Result<()> {
        let text = if after.entries > before.entries.max(self.entries) {
            format!("the memory is full: it may hold {} entries", self.entries)
        } else if after.bytes > before.bytes.max(self.bytes) {
            format!("the memory is full: it may hold {} bytes", self.bytes)
        } else {
            return Ok(());
        };
        Err(Error::retry(text + "; delete what is not needed, then try again").at(Stage::Limit))
    }

    pub(crate) fn check_entry(&self, entry: &Entry) -> Result<()> {
        check_bytes("key", &entry.key, Self::KEY_BYTES, "use a shorter one")?;
        if entry.tags.len() > Self::TAGS {
            let count = entry.tags.len();
            let text = format!("`tags` has {count} tags and may have {}; use fewer", Self::TAGS);
            return Err(Error::retry(text).at(Stage::Arguments));
        }
        for tag in &entry.tags {
            check_bytes("tags", tag, Self::KEY_BYTES, "use shorter ones")?;
        }
        self.check_value(&entry.value)
    }

    pub(crate) fn check_value(&self, value: &str) -> Result<()> {
        let fix = "shorten it, or store it in parts under keys of their own";
        check_bytes("value", value, self.value_bytes, fix)
    }
}

fn check_bytes(what: &str, text: &str, most: usize, fix: &str) -> Result<()> {
    if text.len() <= most {
        return Ok(());
    }
    let text = format!("`{what}` has a text of {} bytes and may have {most}; {fix}", text.len());
    Err(Error::retry(text).at(Stage::Arguments))
}
