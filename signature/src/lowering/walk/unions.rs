//! Lowering of unions, enums and constants.
//!
//! ```text
//! anyOf [A, anyOf [B, C]]          → anyOf [A, B, C]
//! enum [1, 2, 3], gemini           → {"type": "integer", "minimum": 1, "maximum": 3}
//! enum [1, 5], gemini              → {"type": "string", "enum": ["1", "5"]}, loss: written as text
//! anyOf [map, list of pairs], strict → an error: both would be lists of pairs
//! ```
//!
//! Two members that differ in the contract may look alike in a dialect, because a map becomes a
//! list and a tuple an object. [`Walk::apart`] rejects these: reading could not distinguish them.

use serde_json::{Map, Value, json};

use super::objects::nullable;
use super::{At, TOLD, Walk, typed};
use crate::error::{Checked, SchemaFault, refuse};
use crate::lowering::dialect_rules::Values;
use crate::lowering::overlap::Overlap;
use crate::lowering::unnamed_fields::pairs;
use crate::lowering::value::{Listed, listed_as};
use crate::schema::Keywords;
use crate::schema::graph::{Graph, Id, Node, Rest, Shape};
use crate::schema::keywords::has_type;
use crate::schema::types::Types;
use crate::wire_shapes::{self, FURTHER, KEY, VALUE};

impl Walk<'_> {
    /// Lowers a union, with nested unions flattened. `oneOf` becomes `anyOf` if the dialect does
    /// not have it, which is a loss if a value could fit two members.
    pub(super) fn union(&mut self, members: &[Id], at: At<'_>) -> Checked<Keywords> {
        let path = at.path;
        let mut lowered: Vec<Value> = Vec::new();
        for member in members {
            let member = self.among_others(|walk| walk.node(*member, path))?;
            // The dialect has only one kind of union, so nested ones are flattened.
            match member.get("anyOf").and_then(Value::as_array) {
                Some(inner) if member.as_object().is_some_and(|all| all.len() == 1) => {
                    lowered.extend(inner.iter().cloned());
                }
                _ => lowered.push(member),
            }
        }
        self.apart(members, path)?;
        let any = |is: &dyn Fn(&Node) -> bool| members.iter().any(|it| self.graph().may(*it, is));
        let empty_list = |node: &Node| node.shape == Shape::List && node.list.shortest == 0;
        if self.rules.closed && any(&is_map) && any(&empty_list) {
            let why = "is a list there: an empty map looks like an empty list";
            self.lose(path, "additionalProperties", why);
        }
        let one_of = at.map.contains_key("oneOf");
        if one_of && self.rules.keeps("oneOf") {
            return Ok(Map::from_iter([("oneOf".to_owned(), lowered.into())]));
        }
        if one_of && Overlap::new(self.schemas, self.rules.closed).any(members) {
            self.lose(path, "oneOf", "becomes `anyOf`: a value that fits two members is accepted");
        }
        Ok(Map::from_iter([("anyOf".to_owned(), lowered.into())]))
    }

    /// Rejects members that would look alike in this dialect.
    ///
    /// ```text
    /// tuple [A, B] and an open object: {"item_0": …, "item_1": …} fits both
    /// ```
    fn apart(&self, members: &[Id], path: &str) -> Checked {
        let graph = self.graph();
        let maps = self.rules.closed && members.iter().any(|member| graph.may(*member, is_map));
        if maps && members.iter().any(|member| takes_pairs(graph, *member)) {
            let advice = "a map is a list of keys and values there, and another member is such a list itself; give each a field of its own";
            return refuse(SchemaFault::Ambiguous, path, advice);
        }
        let taken = |form: &str, field: &str| {
            let advice = "and another member takes an object with that field; close it (`additionalProperties: false`), or give each a field of its own";
            refuse(SchemaFault::Ambiguous, path, format!("{form} `{field}` there, {advice}"))
        };
        for (i, member) in members.iter().enumerate() {
            let others = || members.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, it)| it);
            let is_taken = |field: &str, known: &dyn Fn(&str) -> bool| {
                others().any(|other| takes_object(graph, *other, field, known))
            };
            let first = wire_shapes::item(0);
            let tuple = |node: &Node| {
                let places = node.list.prefix.len();
                node.shape == Shape::Tuple && is_taken(&first, &|name| is_place(name, places))
            };
            if !self.rules.tuples && graph.may(*member, tuple) {
                return taken("a tuple is an object with the field", &first);
            }
            let further = |node: &Node| {
                let known =
                    |name: &str| name == FURTHER || node.object.described_field(name).is_some();
                node.shape == Shape::Struct
                    && !pairs(graph, node).is_empty()
                    && is_taken(FURTHER, &known)
            };
            if self.rules.closed && graph.may(*member, further) {
                return taken("further fields are sent under", FURTHER);
            }
        }
        Ok(())
    }

    /// Lowers `enum` and `const`.
    pub(super) fn values(&mut self, at: At<'_>) -> Checked<Keywords> {
        let At { map, path, .. } = at;
        let values = &at.node.listed();
        if self.rules.closed && values.iter().any(|value| holds_list(value)) {
            let advice = "one of its listed values contains a list; describe its items instead";
            return refuse(SchemaFault::Unsupported, path, advice);
        }
        match listed_as(self.rules, values, self.in_union) {
            Listed::AsTheyAre if self.rules.values == Values::Texts => {
                let is_empty = |value: &&Value| value.as_str().is_some_and(str::is_empty);
                if values.iter().any(is_empty) {
                    self.lose(path, keyword(map), NO_EMPTY_TEXT);
                }
                Ok(enum_of_texts(values))
            }
            Listed::AsTheyAre => {
                let own = ["type", "const", "enum"].into_iter();
                let own = own.filter_map(|word| Some((word.to_owned(), map.get(word)?.clone())));
                let mut out: Keywords = own.collect();
                if has_type(&out, "array") {
                    // OpenAI rejects a list without `items`.
                    out.insert("items".into(), json!({}));
                }
                Ok(out)
            }
            Listed::WrittenOut(parts) => match self.another(&parts, path)? {
                Value::Object(out) => Ok(out),
                _ => Ok(Map::new()),
            },
            Listed::Boolean(exact) => {
                if let (false, Some(only)) = (exact, values.iter().find(|value| !value.is_null())) {
                    self.told.push(format!("Always {only}."));
                    self.lose(path, keyword(map), TOLD);
                }
                Ok(with_null(json!({"type": "boolean"}), values))
            }
            Listed::Texts(texts) => {
                self.lose(path, keyword(map), "is written as text");
                Ok(with_null(json!({"type": "string", "enum": texts}), values))
            }
        }
    }
}

/// Whether a schema is lowered as a map.
fn is_map(node: &Node) -> bool {
    node.shape == Shape::Map
}

/// Whether a list of pairs may fit: it could not be distinguished from a map.
fn takes_pairs(graph: &Graph, id: Id) -> bool {
    let pair = |node: &Node| {
        let own = |name: &&str| node.object.described_field(name).is_some();
        is_map(node) || node.shape == Shape::Struct && [KEY, VALUE].iter().all(own)
    };
    let is_pair = |id: &Id| graph.may(*id, pair);
    graph.may(id, |node| match node.shape {
        Shape::List => node.list.items.is_none_or(|items| is_pair(&items)),
        Shape::Tuple => node.list.prefix.iter().all(is_pair),
        _ => false,
    })
}

/// Whether an object may fit that has `field` and requires only names that `known` accepts: it
/// could not be distinguished from this dialect's form with these fields.
fn takes_object(graph: &Graph, id: Id, field: &str, known: &dyn Fn(&str) -> bool) -> bool {
    graph.may(id, |node| {
        let object = &node.object;
        let own = object.described_field(field).is_some();
        let mut needed = object.fields.iter().filter(|field| field.required);
        node.types.has(Types::OBJECT)
            && (own || !matches!(object.rest, Rest::Closed))
            && needed.all(|field| known(&field.name))
    })
}

/// Whether it is the name of a tuple's position.
fn is_place(name: &str, places: usize) -> bool {
    (0..places).any(|i| wire_shapes::item(i) == name)
}

/// Whether a value contains a list. It would be written as a tuple and no longer be listed.
fn holds_list(value: &Value) -> bool {
    match value {
        Value::Array(_) => true,
        Value::Object(map) => map.values().any(holds_list),
        _ => false,
    }
}

/// Returns the keyword that lists the values.
fn keyword(map: &Keywords) -> &'static str {
    if map.contains_key("const") { "const" } else { "enum" }
}

/// The loss of an empty text among the listed ones.
const NO_EMPTY_TEXT: &str = "lists no empty text there: any text is accepted in its place";

/// Returns the `enum` of values that are all texts or null. It cannot list an empty text, for which
/// there is another member.
///
/// ```text
/// ["", "fast"] → anyOf [enum ["fast"], a text that is described as empty]
/// ```
fn enum_of_texts(values: &[&Value]) -> Keywords {
    let texts = values.iter().filter_map(|value| value.as_str());
    let (empty, texts): (Vec<_>, Vec<_>) = texts.partition(|text| text.is_empty());
    let listed = json!({"type": "string", "enum": texts});
    let described = json!({"type": "string", "description": "Always an empty text."});
    match (empty.is_empty(), texts.is_empty()) {
        (true, true) => typed("null".into()),
        (true, false) => with_null(listed, values),
        (false, true) => with_null(described, values),
        (false, false) => with_null(json!({"anyOf": [listed, described]}), values),
    }
}

/// Returns the schema, nullable if null is listed.
fn with_null(schema: Value, values: &[&Value]) -> Keywords {
    let schema = match values.iter().any(|value| value.is_null()) {
        false => schema,
        // Such an enum lists texts only.
        true if schema.get("enum").is_some() => json!({"anyOf": [schema, {"type": "null"}]}),
        true => nullable(schema),
    };
    match schema {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
