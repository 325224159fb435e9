use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Error, Module, Result};
use toolwright_signature::Signature;

use crate::memory::Memory;
use crate::store::Store;

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
/// grows linearly with the text, so no pattern of a model can hang a search.
#[derive(Debug, Clone)]
pub struct MemorySearchTool {
    store: Arc<Store>,
}

impl MemorySearchTool {
    /// Works on the entries of `memory`.
    #[must_use]
    pub fn new(memory: &Memory) -> Self {
        Self {
            store: memory.store(),
        }
    }
}

impl Module for MemorySearchTool {
    type Signature = MemorySearch;

    async fn forward(&self, input: MemorySearch, _cx: &Context) -> Result<Vec<Found>> {
        let pattern = compile(&input.pattern)?;
        Ok(self.store.search(&pattern, input.in_keys, input.in_values))
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}

/// Bytes that a compiled pattern may take: enough for any search a person would
/// write, and too little for `(\w{99}){99}` to cost time or memory that anyone notices.
const LARGEST: usize = 1 << 20;

fn compile(pattern: &str) -> Result<Regex> {
    RegexBuilder::new(pattern)
        .case_insensitive(true)
        .size_limit(LARGEST)
        .build()
        .map_err(|error| {
            Error::retry(match error {
                regex::Error::CompiledTooBig(_) => {
                    "`pattern` is too large a regular expression; use smaller or fewer repetitions"
                        .to_owned()
                }
                error => format!(
                    "`pattern` is not a regular expression this tool knows; change it, or put a backslash before characters meant literally\n{error}"
                ),
            })
        })
}
