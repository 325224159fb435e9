//! The tool `memory_clear`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::memory::Memory;

/// Remove all entries for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryClear;

/// What was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cleared {
    /// How many entries there were.
    pub removed: usize,
}

impl Signature for MemoryClear {
    type Output = Cleared;

    fn render(cleared: &Cleared) -> Result<String, toolwright_signature::ContractError> {
        Ok(format!("Cleared {} memories", cleared.removed))
    }
}

/// The module of [`MemoryClear`]. Removes all entries in one step.
#[derive(Debug, Clone)]
pub struct MemoryClearModule {
    memory: Memory,
}

impl MemoryClearModule {
    /// Creates the module for the entries of `memory`.
    #[must_use]
    pub fn new(memory: &Memory) -> Self {
        Self { memory: memory.clone() }
    }
}

impl Module for MemoryClearModule {
    type Signature = MemoryClear;

    async fn call(&self, _input: MemoryClear, _cx: &Context) -> Result<Cleared> {
        Ok(Cleared { removed: self.memory.store().clear().await? })
    }

    fn effect(&self) -> Effect {
        Effect::Irreversible
    }
}
