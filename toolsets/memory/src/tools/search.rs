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

/// Finds entries: fulfils [`MemorySearch`].
///
/// What it finds stands in the order of insertion. Tags are not searched, and being
/// found is no access. Patterns have the syntax of the [`regex`] crate, whose time
/// grows with the text and never explodes, and a pattern's size is limited. Matching is
/// done on a thread of its own, holds up no other call, and ends when nobody waits for it
/// any more. What a search may give is limited too ([`Limits`](crate::Limits)).
#[derive(Debug, Clone)]
pub struct MemorySearchModule {
    memory: Memory,
}

impl MemorySearchModule {
    /// Works on the entries of `memory`.
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
