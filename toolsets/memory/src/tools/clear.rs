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

    fn render(cleared: &Cleared) -> toolwright_signature::Result<String> {
        Ok(format!("Cleared {} memories", cleared.removed))
    }
}

/// Removes all entries in one step: fulfils [`MemoryClear`].
#[derive(Debug, Clone)]
pub struct MemoryClearModule {
    memory: Memory,
}

impl MemoryClearModule {
    /// Works on the entries of `memory`.
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
