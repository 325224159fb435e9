use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Error, Module, Result, Stage};
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
/// grows with the text and never explodes, and a pattern's size is limited.
#[derive(Debug, Clone)]
pub struct MemorySearchTool {
    store: Arc<Store>,
}

impl MemorySearchTool {
    /// Works on the entries of `memory`.
    #[must_use]
    pub fn new(memory: &Memory) -> Self {
        Self { store: memory.store() }
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

/// Bytes that a compiled pattern may take.
///
/// A search takes at worst the size of the pattern times that of the text, so this
/// bounds the half of it that a model chooses. `\d{99}` and `\w{5}` fit (`\w` is large
/// because it knows every script); what does not fit is hardly ever meant.
const LARGEST: usize = 1 << 18;

/// Bytes of a refused pattern that the model is shown again.
const LONGEST_SHOWN: usize = 200;

fn compile(pattern: &str) -> Result<Regex> {
    RegexBuilder::new(pattern)
        .case_insensitive(true)
        .size_limit(LARGEST)
        .build()
        .map_err(|error| Error::retry(told(pattern, &error)).at(Stage::Arguments))
}

/// What the model can do about a pattern that was refused.
fn told(pattern: &str, error: &regex::Error) -> String {
    if let regex::Error::CompiledTooBig(_) = error {
        return "`pattern` is too large; use fewer or smaller repetitions".to_owned();
    }
    let evidence = error.to_string();
    // The evidence shows the pattern with the place marked: of a long one, the model
    // would pay for every character again.
    let evidence = match evidence.rsplit_once("\nerror: ") {
        Some((_, reason)) if pattern.len() > LONGEST_SHOWN => reason,
        _ => &evidence,
    };
    format!(
        "`pattern` is not a regular expression; correct it, or put \\ before a character that stands for itself\n{evidence}"
    )
}
