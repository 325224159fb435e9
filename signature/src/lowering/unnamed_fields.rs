//! Keys and values of undeclared fields.
//!
//! An object may have several rules for them: one schema for each pattern of keys, and one for all
//! other keys. Both walks of lowering read them as one list of [`Pairs`]:
//!
//! ```text
//! patternProperties {"^n": integer}, additionalProperties string
//! → [(Pattern "^n", integer), (Any, string)]
//! ```

use serde_json::{Value, json};

use crate::schema::graph::{Graph, Id, Node, Shape};

/// The kinds of undeclared fields: a key and the schema of its value, one for each pattern of
/// keys. Empty if there are none.
pub(crate) type Pairs<'g> = Vec<(Key<'g>, Id)>;

/// The rule for a key.
#[derive(Clone, Copy)]
pub(crate) enum Key<'g> {
    Any,
    Pattern(&'g crate::reading::pattern::Pattern),
    /// The schema of all keys.
    Named(Id),
}

/// Returns the kinds of undeclared fields that an object may have.
pub(crate) fn pairs<'g>(graph: &Graph, node: &'g Node) -> Pairs<'g> {
    let object = &node.object;
    let is_some = |id: Id| *graph.shape(id) != Shape::Nothing;
    let patterns = object.patterns.iter().filter(|(_, id)| is_some(*id));
    let patterns = patterns.map(|(pattern, id)| (Key::Pattern(pattern), *id));
    let key = object.names.map_or(Key::Any, Key::Named);
    patterns.chain(object.rest.id().map(|id| (key, id))).collect()
}

impl Key<'_> {
    /// Whether a name fits the rule.
    pub(crate) fn takes(self, graph: &Graph, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Pattern(pattern) => !pattern.is_known() || pattern.is_match(name),
            Self::Named(id) => graph.takes(id, &name.into()),
        }
    }

    /// Returns the id of the schema of such keys, or the schema if the graph does not have it.
    pub(crate) fn schema(self) -> Result<Id, Value> {
        match self {
            Self::Any => Err(json!({"type": "string"})),
            Self::Pattern(pattern) => Err(json!({"type": "string", "pattern": pattern.text})),
            Self::Named(id) => Ok(id),
        }
    }
}
