//! The tool `memory_list`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::memory::Memory;

/// List the keys of all entries, sorted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryList;

impl Signature for MemoryList {
    type Output = Vec<String>;
}

/// The module of [`MemoryList`]. Lists keys.
#[derive(Debug, Clone)]
pub struct MemoryListModule {
    memory: Memory,
}

impl MemoryListModule {
    /// Creates the module for the entries of `memory`.
    #[must_use]
    pub fn new(memory: &Memory) -> Self {
        Self { memory: memory.clone() }
    }
}

impl Module for MemoryListModule {
    type Signature = MemoryList;

    async fn call(&self, _input: MemoryList, _cx: &Context) -> Result<Vec<String>> {
        self.memory.store().keys().await
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}
