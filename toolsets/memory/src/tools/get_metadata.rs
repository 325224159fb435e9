//! The tool `memory_get_metadata`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::memory::Memory;

/// Say when an entry was stored, changed and read, and its tags and length. Gives null if there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryGetMetadata {
    /// Name the value was stored under.
    pub key: String,
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

impl Signature for MemoryGetMetadata {
    type Output = Option<Metadata>;
}

/// The module of [`MemoryGetMetadata`]. Returns the metadata of entries.
///
/// This does not count as an access.
#[derive(Debug, Clone)]
pub struct MemoryGetMetadataModule {
    memory: Memory,
}

impl MemoryGetMetadataModule {
    /// Creates the module for the entries of `memory`.
    #[must_use]
    pub fn new(memory: &Memory) -> Self {
        Self { memory: memory.clone() }
    }
}

impl Module for MemoryGetMetadataModule {
    type Signature = MemoryGetMetadata;

    async fn call(&self, input: MemoryGetMetadata, _cx: &Context) -> Result<Option<Metadata>> {
        self.memory.store().metadata(input.key).await
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}
