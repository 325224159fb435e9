use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::memory::Memory;
use crate::store::Store;

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
pub struct MemoryClearTool {
    store: Arc<Store>,
}

impl MemoryClearTool {
    /// Works on the entries of `memory`.
    #[must_use]
    pub fn new(memory: &Memory) -> Self {
        Self { store: memory.store() }
    }
}

impl Module for MemoryClearTool {
    type Signature = MemoryClear;

    async fn forward(&self, _input: MemoryClear, _cx: &Context) -> Result<Cleared> {
        Ok(Cleared { removed: self.store.clear() })
    }

    fn effect(&self) -> Effect {
        Effect::Irreversible
    }
}
