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

/// Reads values: fulfils [`MemoryRetrieve`].
///
/// Each value read counts as an access of its entry.
#[derive(Debug, Clone)]
pub struct MemoryRetrieveModule {
    memory: Memory,
}

impl MemoryRetrieveModule {
    /// Works on the entries of `memory`.
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

    /// A read, although it counts itself, as a page with a visitor counter is one.
    ///
    /// Nobody reads in order to move the counter, reads commute, and one that is
    /// repeated after a crash really is another access. As a write it would wait for
    /// approval and run alone, which protects nothing.
    fn effect(&self) -> Effect {
        Effect::Read
    }
}
