//! The tool `memory_retrieve`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::memory::Memory;

/// Read the value stored under a key. Gives null if there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryRetrieve {
    /// Name the value was stored under.
    pub key: String,
}

impl Signature for MemoryRetrieve {
    type Output = Option<String>;
}

/// The module of [`MemoryRetrieve`]. Reads values.
///
/// Each call that finds an entry counts as an access.
#[derive(Debug, Clone)]
pub struct MemoryRetrieveModule {
    memory: Memory,
}

impl MemoryRetrieveModule {
    /// Creates the module for the entries of `memory`.
    #[must_use]
    pub fn new(memory: &Memory) -> Self {
        Self { memory: memory.clone() }
    }
}

impl Module for MemoryRetrieveModule {
    type Signature = MemoryRetrieve;

    async fn call(&self, input: MemoryRetrieve, _cx: &Context) -> Result<Option<String>> {
        self.memory.store().retrieve(input.key).await
    }

    /// Counts as a read, although it counts the access.
    ///
    /// The counter is a side effect without consequences: reads commute, and a read that is
    /// repeated after a crash is another access. As a write, the tool would need approval and run
    /// alone without a benefit.
    fn effect(&self) -> Effect {
        Effect::Read
    }
}
