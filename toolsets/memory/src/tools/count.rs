use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::memory::Memory;
use crate::store::Store;

/// Say how many entries there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryCount;

impl Signature for MemoryCount {
    type Output = usize;
}

/// Counts entries: fulfils [`MemoryCount`].
#[derive(Debug, Clone)]
pub struct MemoryCountTool {
    store: Arc<Store>,
}

impl MemoryCountTool {
    /// Works on the entries of `memory`.
    #[must_use]
    pub fn new(memory: &Memory) -> Self {
        Self { store: memory.store() }
    }
}

impl Module for MemoryCountTool {
    type Signature = MemoryCount;

    async fn forward(&self, _input: MemoryCount, _cx: &Context) -> Result<usize> {
        Ok(self.store.count())
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}
