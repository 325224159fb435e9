//! The tool `memory_update`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::memory::Memory;

/// Change the value of an existing entry. Its tags stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryUpdate {
    /// Name the value was stored under.
    pub key: String,
    /// Text to store instead.
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

impl Signature for MemoryUpdate {
    type Output = Updated;

    fn render(updated: &Updated) -> Result<String, toolwright_signature::ContractError> {
        let key = &updated.key;
        Ok(if updated.found {
            format!("Updated memory '{key}' successfully")
        } else {
            format!("Memory '{key}' not found")
        })
    }
}

/// The module of [`MemoryUpdate`]. Changes values.
///
/// Only the value and the update time change.
#[derive(Debug, Clone)]
pub struct MemoryUpdateModule {
    memory: Memory,
}

impl MemoryUpdateModule {
    /// Creates the module for the entries of `memory`.
    #[must_use]
    pub fn new(memory: &Memory) -> Self {
        Self { memory: memory.clone() }
    }
}

impl Module for MemoryUpdateModule {
    type Signature = MemoryUpdate;

    async fn call(&self, input: MemoryUpdate, _cx: &Context) -> Result<Updated> {
        let limits = self.memory.limits();
        limits.check_value(&input.value)?;
        let key = input.key.clone();
        let found = self.memory.store().update(input.key, input.value, limits).await?;
        Ok(Updated { key, found })
    }

    /// Repeating the call changes only the update time of the entry.
    fn effect(&self) -> Effect {
        Effect::Idempotent
    }
}
