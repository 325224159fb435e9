//! The tool `memory_store`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::memory::Memory;
use crate::store::Entry;

/// Store a value under a key, with optional tags. Replaces what is stored there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryStore {
    /// Name to find the value by.
    pub key: String,
    /// Text to store.
    pub value: String,
    /// Labels for the entry.
    pub tags: Option<Vec<String>>,
}

/// What was stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stored {
    /// The key.
    pub key: String,
    /// Whether an earlier entry was replaced.
    pub replaced: bool,
}

impl Signature for MemoryStore {
    type Output = Stored;

    fn render(stored: &Stored) -> Result<String, toolwright_signature::ContractError> {
        Ok(format!("Stored memory '{}' successfully", stored.key))
    }
}

/// The module of [`MemoryStore`]. Stores entries.
///
/// If the key exists, everything is replaced: value, tags, times and access count. The key keeps
/// its position in the results of a search.
#[derive(Debug, Clone)]
pub struct MemoryStoreModule {
    memory: Memory,
}

impl MemoryStoreModule {
    /// Creates the module for the entries of `memory`.
    #[must_use]
    pub fn new(memory: &Memory) -> Self {
        Self { memory: memory.clone() }
    }
}

impl Module for MemoryStoreModule {
    type Signature = MemoryStore;

    async fn call(&self, input: MemoryStore, _cx: &Context) -> Result<Stored> {
        let limits = self.memory.limits();
        let key = input.key.clone();
        let tags = input.tags.unwrap_or_default();
        let entry = Entry { key: input.key, value: input.value, tags };
        limits.check_entry(&entry)?;
        let replaced = self.memory.store().store(entry, limits).await?;
        Ok(Stored { key, replaced })
    }

    /// Repeating the call changes only the times of the entry.
    fn effect(&self) -> Effect {
        Effect::Idempotent
    }
}
