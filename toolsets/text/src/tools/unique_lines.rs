use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::limits::Limits;
use crate::text::Text;
use crate::work::{Work, bare};

/// Keep each line of a text once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextUniqueLines {
    /// Text whose lines may repeat.
    pub text: String,
    /// Keep the order in which lines first appear; false sorts them.
    #[serde(default = "yes")]
    pub preserve_order: bool,
}

fn yes() -> bool {
    true
}

impl Signature for TextUniqueLines {
    type Output = String;
}

/// Keeps each line once: fulfils [`TextUniqueLines`].
///
/// Lines are the same if their bytes are, apart from their ends: `\r\n` becomes `\n`, and
/// the last line gets one if it has none. Sorted is in the order of bytes, which is that of
/// code points.
#[derive(Debug, Clone)]
pub struct TextUniqueLinesModule {
    limits: Limits,
}

impl TextUniqueLinesModule {
    /// Works under the limits of `text`.
    #[must_use]
    pub fn new(text: &Text) -> Self {
        Self { limits: text.limits() }
    }
}

impl Module for TextUniqueLinesModule {
    type Signature = TextUniqueLines;

    async fn call(&self, input: TextUniqueLines, cx: &Context) -> Result<String> {
        let TextUniqueLines { text, preserve_order } = input;
        let work = Work::on(&text, self.limits, cx)?;
        let (mut seen, mut unique) = (HashSet::new(), Vec::new());
        work.lines(&text, |line| {
            let line = bare(line);
            if seen.insert(line) {
                unique.push(line);
            }
            Ok(())
        })?;
        if !preserve_order {
            unique.sort_unstable();
        }
        work.joined(unique)
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}
