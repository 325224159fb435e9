//! Descriptions of schemas in words, for the lines that report a difference.
//!
//! ```text
//! {"type": "string", "pattern": "^a"}           → a string that matches ^a
//! {"enum": ["a", "b"]}                          → one of `a`, `b`
//! {"properties": {"kind": {"const": "circle"}}} → an object with `kind` `circle`
//! ```
//!
//! Begin with [`Comparing::may_be`] and [`Comparing::takes`]. A description names a few values,
//! members and fields only, because it is one half of a line.

use serde_json::Value;

use super::{Comparing, takes_all};
use crate::error::shown;
use crate::limits::GUESS_DEPTH;
use crate::schema::graph::{FieldRule, Id, Node, Schemas, Shape};
use crate::schema::types::Types;

/// Maximum number of values or members that are named.
const MOST: usize = 8;

impl<'a> Comparing<'a> {
    /// Describes the sent values: the types `own`, if `kinds` were compared.
    ///
    /// ```text
    /// always an integer              is an integer
    /// one of several alternatives    may be an integer
    /// ```
    pub(super) fn may_be(&self, ours: Id, own: Types, kinds: Types) -> String {
        let words = of(self.comes, ours, own, GUESS_DEPTH);
        let only = !self.some && kinds != Types::NONE && own == self.comes.graph.node(ours).types;
        if only && own != Types::ALL { format!("is {words}") } else { format!("may be {words}") }
    }

    /// Describes the accepted values.
    pub(super) fn takes(&self, theirs: Id) -> String {
        format!("takes {}", of(self.takes, theirs, Types::ALL, GUESS_DEPTH))
    }

    /// Describes the values of a schema as a noun.
    pub(super) fn words(&self, schemas: &Schemas<'_>, schema: Id, kinds: Types) -> String {
        of(schemas, schema, kinds, GUESS_DEPTH)
    }
}

/// Describes the values of a schema that have some types, following at most `deep` references and
/// unions.
fn of(schemas: &Schemas<'_>, id: Id, kinds: Types, deep: usize) -> String {
    let graph = &schemas.graph;
    match graph.shape(id) {
        _ if takes_all(schemas, id) && kinds == Types::TEXT => "any text".to_owned(),
        _ if takes_all(schemas, id) && kinds == Types::ALL || deep == 0 => "any value".to_owned(),
        Shape::Reference(target) => of(schemas, *target, kinds, deep - 1),
        Shape::Union(members) => union(schemas, members, kinds, deep),
        Shape::Nothing => "nothing".to_owned(),
        _ => described(schemas, id, kinds),
    }
}

/// Lists the members of a union, each description once.
fn union(schemas: &Schemas<'_>, members: &[Id], kinds: Types, deep: usize) -> String {
    let mut all: Vec<String> = Vec::new();
    for member in members.iter().take(MOST) {
        let words = of(schemas, *member, kinds, deep - 1);
        if !all.contains(&words) {
            all.push(words);
        }
    }
    let more = if members.len() > MOST { " or others" } else { "" };
    all.join(" or ") + more
}

/// Describes a schema that is not a union: its listed values, or else each of its types.
fn described(schemas: &Schemas<'_>, id: Id, kinds: Types) -> String {
    let node = schemas.graph.node(id);
    let own = kinds.common(node.types);
    if node.shape == Shape::Values {
        return match node.listed().as_slice() {
            [one] => quoted(one),
            all => format!("one of {}", values(all)),
        };
    }
    if own == Types::ALL {
        return "any value".to_owned();
    }
    let number = if own.has(Types::NUMBER) { "a number" } else { "an integer" };
    let words = [
        (Types::TEXT, text(node)),
        (Types::INTEGER, number.to_owned()),
        (Types::BOOLEAN, "true or false".to_owned()),
        (Types::LIST, "a list".to_owned()),
        (Types::OBJECT, object(schemas, node)),
        (Types::NULL, "null".to_owned()),
    ];
    let words = words.into_iter().filter(|(kind, _)| own.meets(*kind)).map(|(_, words)| words);
    let words: Vec<_> = words.collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(" or ") }
}

/// Describes texts by their pattern.
fn text(node: &Node) -> String {
    match &node.text.pattern {
        Some(pattern) => format!("a string that matches {}", shown(&pattern.text)),
        None => "a string".to_owned(),
    }
}

/// Describes an object by its first required fields, with the value of each that has only one.
fn object(schemas: &Schemas<'_>, node: &Node) -> String {
    let required = || node.object.fields.iter().filter(|field| field.required);
    let tagged = |field: &FieldRule| {
        let values = schemas.graph.node(field.node).listed();
        match values.as_slice() {
            [only] => format!("`{}` {}", shown(&field.name), quoted(only)),
            _ => format!("`{}`", shown(&field.name)),
        }
    };
    let names: Vec<_> = required().take(4).map(tagged).collect();
    let more = if required().nth(4).is_some() { ", …" } else { "" };
    match names.as_slice() {
        [] => "an object".to_owned(),
        names => format!("an object with {}{more}", names.join(", ")),
    }
}

/// Lists the first values in backticks or as JSON, for one line.
///
/// ```text
/// `a`, `b`, 3, null, …
/// ```
pub(super) fn values(all: &[&Value]) -> String {
    let shown: Vec<_> = all.iter().take(MOST).map(|value| quoted(value)).collect();
    let more = if all.len() > MOST { ", …" } else { "" };
    shown.join(", ") + more
}

/// Returns a value as one short line, with a text in backticks.
fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{}`", shown(text)),
        other => shown(&other.to_string()),
    }
}
