//! The tool `memory_count`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::memory::Memory;

/// Say how many entries there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryCount;

impl Signature for MemoryCount {
    type Output = usize;
}

/// The module of [`MemoryCount`]. Counts entries.
#[derive(Debug, Clone)]
pub struct MemoryCountModule {
    memory: Memory,
}

impl MemoryCountModule {
    /// Creates the module for the entries of `memory`.
    #[must_use]
    pub fn new(memory: &Memory) -> Self {
        Self { memory: memory.clone() }
    }
}

impl Module for MemoryCountModule {
    type Signature = MemoryCount;

    async fn call(&self, _input: MemoryCount, _cx: &Context) -> Result<usize> {
        self.memory.store().count().await
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}
