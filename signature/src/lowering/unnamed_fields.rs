//! Keys and values of fields that have no name in the schema.

use serde_json::{Value, json};

use crate::schema::graph::{Graph, Id, Node, Shape};

/// What fields without a name of their own may be: a key beside the schema of its value, one
/// for each pattern of keys. Empty if there are none.
pub(crate) type Pairs<'g> = Vec<(Key<'g>, Id)>;

/// What a key has to be.
#[derive(Clone, Copy)]
pub(crate) enum Key<'g> {
    Any,
    Pattern(&'g crate::reading::pattern::Pattern),
    /// What the schema says of all keys.
    Named(Id),
}

/// The fields that an object may have beside its own.
pub(crate) fn pairs<'g>(graph: &Graph, node: &'g Node) -> Pairs<'g> {
    let object = &node.object;
    let is_some = |id: Id| *graph.shape(id) != Shape::Nothing;
    let patterns = object.patterns.iter().filter(|(_, id)| is_some(*id));
    let patterns = patterns.map(|(pattern, id)| (Key::Pattern(pattern), *id));
    let key = object.names.map_or(Key::Any, Key::Named);
    patterns.chain(object.rest.id().map(|id| (key, id))).collect()
}

impl Key<'_> {
    /// Whether a name may be such a key.
    pub(crate) fn takes(self, graph: &Graph, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Pattern(pattern) => !pattern.is_known() || pattern.is_match(name),
            Self::Named(id) => graph.takes(id, &name.into()),
        }
    }

    /// A schema of such keys, unless the graph has one.
    pub(crate) fn schema(self) -> Result<Id, Value> {
        match self {
            Self::Any => Err(json!({"type": "string"})),
            Self::Pattern(pattern) => Err(json!({"type": "string", "pattern": pattern.text})),
            Self::Named(id) => Ok(id),
        }
    }
}
