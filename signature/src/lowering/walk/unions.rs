//! Lowering of unions, enums and constants.

use serde_json::{Map, Value, json};

use super::{Lowered, TOLD, Walk, typed};
use crate::error::SchemaFault;
use crate::lowering::dialect_rules::Values;
use crate::lowering::overlap::Overlap;
use crate::lowering::unnamed_fields::pairs;
use crate::lowering::value::{Listed, listed_as};
use crate::lowering::{Schema, has_type};
use crate::schema::Refusal;
use crate::schema::graph::{Graph, Id, Node, Rest, Shape};
use crate::schema::types::Types;
use crate::wire_shapes::{self, FURTHER, KEY, VALUE};

impl Walk<'_> {
    pub(super) fn union(&mut self, members: &[Id], map: &Schema, path: &str) -> Lowered<Schema> {
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
            let why = "is a list there: if it is empty, it cannot be told from an empty list";
            self.lose(path, "additionalProperties", why);
        }
        let one_of = map.get("oneOf").and_then(Value::as_array);
        if one_of.is_some() && self.rules.keeps.has("oneOf") {
            return Ok(Map::from_iter([("oneOf".to_owned(), lowered.into())]));
        }
        let closed = self.rules.closed;
        if one_of.is_some_and(|members| Overlap::new(self.schemas.root, closed).any(members)) {
            self.lose(path, "oneOf", "became `anyOf`: members that overlap are not refused");
        }
        Ok(Map::from_iter([("anyOf".to_owned(), lowered.into())]))
    }

    /// Rejects members that would look alike in this dialect.
    fn apart(&self, members: &[Id], path: &str) -> Lowered<()> {
        let graph = self.graph();
        let maps = self.rules.closed && members.iter().any(|member| graph.may(*member, is_map));
        if maps && members.iter().any(|member| takes_pairs(graph, *member)) {
            return Err(Refusal::new(
                SchemaFault::Ambiguous,
                path,
                "a map is a list of keys and values there, and another member is such a list itself; give each a field of its own",
            ));
        }
        for (i, member) in members.iter().enumerate() {
            let others = || members.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, it)| it);
            let is_taken = |field: &str, known: &dyn Fn(&str) -> bool| {
                others().any(|other| takes_object(graph, *other, field, known))
            };
            let tuple = |node: &Node| {
                let places = node.list.prefix.len();
                node.shape == Shape::Tuple
                    && is_taken(&wire_shapes::item(0), &|name| is_place(name, places))
            };
            let first = wire_shapes::item(0);
            if !self.rules.tuples && graph.may(*member, tuple) {
                return Err(Refusal::new(
                    SchemaFault::Ambiguous,
                    path,
                    format!(
                        "a tuple is an object with the field `{first}` there, and another member takes an object with that field; close it (`additionalProperties: false`), or give each a field of its own"
                    ),
                ));
            }
            let further = |node: &Node| {
                let known =
                    |name: &str| name == FURTHER || node.object.described_field(name).is_some();
                node.shape == Shape::Struct
                    && !pairs(graph, node).is_empty()
                    && is_taken(FURTHER, &known)
            };
            if self.rules.closed && graph.may(*member, further) {
                return Err(Refusal::new(
                    SchemaFault::Ambiguous,
                    path,
                    format!(
                        "further fields stand under `{FURTHER}` there, and another member takes an object with that field; close it (`additionalProperties: false`), or give each a field of its own"
                    ),
                ));
            }
        }
        Ok(())
    }

    pub(super) fn values(
        &mut self,
        node: &Node,
        map: &Schema,
        path: &str,
        told: &mut Vec<String>,
    ) -> Lowered<Schema> {
        let values = &node.listed();
        if self.rules.closed && values.iter().any(|value| holds_list(value)) {
            let advice = "a list among the values it may have; describe its items instead";
            return Err(Refusal::new(SchemaFault::Unsupported, path, advice));
        }
        let as_it_is = || {
            let mut out = typed(map.get("type").cloned().unwrap_or_else(|| json!("string")));
            for keyword in ["const", "enum"] {
                out.extend(map.get(keyword).map(|value| (keyword.to_owned(), value.clone())));
            }
            if has_type(&out, "array") {
                // OpenAI rejects a list without `items`.
                out.insert("items".into(), json!({}));
            }
            out
        };
        match listed_as(self.rules, values, self.in_union) {
            Listed::AsTheyAre => {
                if self.rules.values == Values::Texts {
                    return Ok(enum_of_texts(values));
                }
                let mut out = as_it_is();
                if !map.contains_key("type") {
                    out.shift_remove("type");
                }
                Ok(out)
            }
            Listed::WrittenOut(parts) => match self.another(&parts, path)? {
                Value::Object(out) => Ok(out),
                _ => Ok(as_it_is()),
            },
            Listed::Range(kind, least, most) => {
                Ok(with_null(json!({"type": kind, "minimum": least, "maximum": most}), values))
            }
            Listed::Boolean(exact) => {
                if let (false, Some(only)) = (exact, values.iter().find(|value| !value.is_null())) {
                    told.push(format!("Always {only}."));
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

fn keyword(map: &Schema) -> &'static str {
    if map.contains_key("const") { "const" } else { "enum" }
}

/// Returns the `enum` of values that are all texts or null.
fn enum_of_texts(values: &[&Value]) -> Schema {
    let texts: Vec<_> = values.iter().filter(|value| !value.is_null()).collect();
    if texts.is_empty() {
        return typed("null".into());
    }
    with_null(json!({"type": "string", "enum": texts}), values)
}

/// Returns the schema, nullable if null is listed.
fn with_null(schema: Value, values: &[&Value]) -> Schema {
    let Value::Object(mut map) = schema else {
        return Map::new();
    };
    if !values.iter().any(|value| value.is_null()) {
        return map;
    }
    if !map.contains_key("enum") && !has_type(&map, "null") {
        let kind = map.get("type").cloned().unwrap_or_default();
        map.insert("type".into(), json!([kind, "null"]));
        return map;
    }
    Map::from_iter([("anyOf".to_owned(), json!([map, {"type": "null"}]))])
}
