//! [`Lock`], the lock file of a server's tools: its format, and the comparison with a listing.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use similar::TextDiff;
use toolwright_module::__text::is_hidden;

use crate::error::{McpError, Result};
use crate::mcp_client::listing::{Listing, ToolOptions};

/// Time limit for computing the shortest diff.
const DIFF_TIME: Duration = Duration::from_millis(200);

/// Maximum number of lines of a diff in an error.
const DIFF_LINES: usize = 200;

/// A server's name, tools and instructions at the time when the lock file was created.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lock {
    /// The name in the server's own words. Another one is another server at the same address.
    /// Earlier versions did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    tools: Vec<Map<String, Value>>,
}

impl Lock {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(McpError::Lock)
    }

    /// Creates the lock of a listing. Tools are sorted by name, because their order at the server
    /// has no meaning.
    pub(crate) fn of(listing: &Listing) -> Self {
        let definitions = listing.tools.iter().map(|tool| &tool.definition);
        let mut tools: Vec<_> =
            definitions.filter_map(|definition| definition.as_object().cloned()).collect();
        tools.sort_by(|a, b| name(a).cmp(name(b)));
        // The order of the keys in a schema has no meaning either.
        tools.iter_mut().flat_map(Map::values_mut).for_each(Value::sort_all_objects);
        let server = Some(listing.name.clone());
        Self { server, instructions: listing.instructions.clone(), tools }
    }

    /// Returns the text of the lock file, with one value a line, so that a review shows changes.
    pub(crate) fn text(&self) -> String {
        let json = serde_json::to_string_pretty(self).unwrap_or_default();
        // Invisible characters are escaped, because the model reads them and a reviewer does not
        // see them.
        let mut text = String::with_capacity(json.len() + 1);
        for c in json.chars() {
            if c == '\n' || !is_hidden(c) {
                text.push(c);
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    text.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
        text.push('\n');
        text
    }

    /// Compares the imported tools of a listing with the lock.
    pub(crate) fn check(
        &self,
        server: &str,
        listing: &Listing,
        options: &ToolOptions,
    ) -> Result<()> {
        let mut then = self.clone();
        then.tools.retain(|tool| options.imports(name(tool)));
        let mut now = Self::of(listing);
        if then.server.is_none() {
            now.server = None;
        }
        if then == now {
            return Ok(());
        }
        let (then, now) = (then.text(), now.text());
        // After the time limit, the diff is still correct but may not be the shortest.
        let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(&then, &now);
        let diff = diff.unified_diff().context_radius(3).header("locked", "now").to_string();
        let mut lines: Vec<&str> = diff.lines().take(DIFF_LINES).collect();
        if diff.lines().nth(DIFF_LINES).is_some() {
            lines.push("… more lines are not shown");
        }
        Err(McpError::Drift { server: server.to_owned(), diff: lines.join("\n") })
    }
}

fn name(tool: &Map<String, Value>) -> &str {
    tool.get("name").and_then(Value::as_str).unwrap_or_default()
}
