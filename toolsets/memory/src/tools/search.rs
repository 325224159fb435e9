//! The tool `memory_search`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::memory::Memory;
use crate::search::Search;

/// Find entries whose key or value matches a regular expression, in any case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemorySearch {
    /// Regular expression or plain words; empty matches every entry.
    pub pattern: String,
    /// Look in keys.
    #[serde(default = "yes")]
    pub in_keys: bool,
    /// Look in values.
    #[serde(default = "yes")]
    pub in_values: bool,
}

fn yes() -> bool {
    true
}

/// One entry that matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
}

impl Signature for MemorySearch {
    type Output = Vec<Found>;
}

/// The module of [`MemorySearch`]. Finds entries.
///
/// The result is in the order of insertion. Tags are not searched, and a search does not count as
/// an access. Patterns have the syntax of the [`regex`] crate, whose time is linear in the size of
/// the text, and the size of a pattern is limited. Matching runs on its own thread, does not block
/// other calls, and ends when the call is dropped. The size of the result is limited by
/// [`MemoryLimits`](crate::MemoryLimits).
#[derive(Debug, Clone)]
pub struct MemorySearchModule {
    memory: Memory,
}

impl MemorySearchModule {
    /// Creates the module for the entries of `memory`.
    #[must_use]
    pub fn new(memory: &Memory) -> Self {
        Self { memory: memory.clone() }
    }
}

impl Module for MemorySearchModule {
    type Signature = MemorySearch;

    async fn call(&self, input: MemorySearch, _cx: &Context) -> Result<Vec<Found>> {
        let search = Search::new(&input, &self.memory.limits())?;
        let _guard = search.guard();
        self.memory.store().search(search).await?.finish()
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}
