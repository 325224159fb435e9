//! The tool `memory_delete`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::memory::Memory;

/// Remove one entry for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryDelete {
    /// Name the value was stored under.
    pub key: String,
}

/// What was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deleted {
    /// The key.
    pub key: String,
    /// Whether there was such an entry; if not, nothing changed.
    pub found: bool,
}

impl Signature for MemoryDelete {
    type Output = Deleted;

    fn render(deleted: &Deleted) -> Result<String, toolwright_signature::ContractError> {
        let key = &deleted.key;
        Ok(if deleted.found {
            format!("Deleted memory '{key}' successfully")
        } else {
            format!("Memory '{key}' not found")
        })
    }
}

/// The module of [`MemoryDelete`]. Removes entries.
#[derive(Debug, Clone)]
pub struct MemoryDeleteModule {
    memory: Memory,
}

impl MemoryDeleteModule {
    /// Creates the module for the entries of `memory`.
    #[must_use]
    pub fn new(memory: &Memory) -> Self {
        Self { memory: memory.clone() }
    }
}

impl Module for MemoryDeleteModule {
    type Signature = MemoryDelete;

    async fn call(&self, input: MemoryDelete, _cx: &Context) -> Result<Deleted> {
        let found = self.memory.store().delete(input.key.clone()).await?;
        Ok(Deleted { key: input.key, found })
    }

    /// Repeating the call changes nothing, but no tool can restore the entry.
    fn effect(&self) -> Effect {
        Effect::Irreversible
    }
}
