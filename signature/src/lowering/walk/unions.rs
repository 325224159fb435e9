//! Unions, enums and constants.

use serde_json::{Map, Value, json};

use super::{Lowered, TOLD, Walk, typed};
use crate::error::SchemaFault;
use crate::lowering::overlap::Overlap;
use crate::lowering::rules::Values;
use crate::lowering::shape::{Schema, Shape, has_type, may, takes_object, takes_pairs};
use crate::lowering::value::{Listed, listed_as};
use crate::schema::Refusal;
use crate::wire_shapes::{self, FURTHER};

impl Walk<'_> {
    pub(super) fn union(&mut self, members: &[Value], map: &Schema, path: &str) -> Lowered<Schema> {
        let mut lowered: Vec<Value> = Vec::new();
        for member in members {
            let member = self.among_others(|walk| walk.node(member, path))?;
            // Two kinds of union are one there.
            match member.get("anyOf").and_then(Value::as_array) {
                Some(inner) if member.as_object().is_some_and(|all| all.len() == 1) => {
                    lowered.extend(inner.iter().cloned());
                }
                _ => lowered.push(member),
            }
        }
        self.apart(members, path)?;
        let maps = |map: &Schema| matches!(Shape::of(map), Shape::Map(_));
        let empty_list = |map: &Schema| {
            matches!(Shape::of(map), Shape::List(_)) && map.get("minItems").is_none_or(|n| *n == 0)
        };
        let any = |is: &dyn Fn(&Schema) -> bool| members.iter().any(|it| may(self.root, it, &is));
        if self.rules.closed && any(&maps) && any(&empty_list) {
            let why = "is a list there: if it is empty, it cannot be told from an empty list";
            self.lose(path, "additionalProperties", why);
        }
        let one_of = map.contains_key("oneOf");
        if one_of && self.rules.keeps.has("oneOf") {
            return Ok(Map::from_iter([("oneOf".to_owned(), lowered.into())]));
        }
        if one_of && Overlap::new(self.root, self.rules.closed).any(members) {
            self.lose(path, "oneOf", "became `anyOf`: members that overlap are not refused");
        }
        Ok(Map::from_iter([("anyOf".to_owned(), lowered.into())]))
    }

    /// Refuses members that would look alike in this dialect.
    fn apart(&self, members: &[Value], path: &str) -> Lowered<()> {
        let is = |of: &dyn Fn(&Shape<'_>) -> bool| -> usize {
            let of = |map: &Schema| of(&Shape::of(map));
            members.iter().filter(|member| may(self.root, member, &of)).count()
        };
        let maps = self.rules.closed && is(&|shape| matches!(shape, Shape::Map(_))) > 0;
        if maps && members.iter().any(|member| takes_pairs(self.root, member)) {
            return Err(Refusal::new(
                SchemaFault::Ambiguous,
                path,
                "a map is a list of keys and values there, and another member is such a list itself; give each a field of its own",
            ));
        }
        for (i, member) in members.iter().enumerate() {
            let others = || members.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, it)| it);
            let is_taken = |field: &str, known: &dyn Fn(&str) -> bool| {
                others().any(|other| takes_object(self.root, other, field, &known))
            };
            let tuple = |map: &Schema| match Shape::of(map) {
                Shape::Tuple(items) => {
                    is_taken(&wire_shapes::item(0), &|name| is_place(name, items.len()))
                }
                _ => false,
            };
            let first = wire_shapes::item(0);
            if !self.rules.tuples && may(self.root, member, &tuple) {
                return Err(Refusal::new(
                    SchemaFault::Ambiguous,
                    path,
                    format!(
                        "a tuple is an object with the field `{first}` there, and another member takes an object with that field; close it (`additionalProperties: false`), or give each a field of its own"
                    ),
                ));
            }
            let further = |map: &Schema| match Shape::of(map) {
                Shape::Struct(this) if this.pairs().is_some() => is_taken(FURTHER, &|name| {
                    name == FURTHER || this.properties.is_some_and(|own| own.contains_key(name))
                }),
                _ => false,
            };
            if self.rules.closed && may(self.root, member, &further) {
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
        values: &[&Value],
        map: &Schema,
        path: &str,
        told: &mut Vec<String>,
    ) -> Lowered<Schema> {
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
                // OpenAI refuses a list that does not say what is in it.
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
            Listed::WrittenOut(parts) => match self.node(&parts, path)? {
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

/// Whether it is the name of one of a tuple's places.
fn is_place(name: &str, places: usize) -> bool {
    (0..places).any(|i| wire_shapes::item(i) == name)
}

/// A list would be written as a tuple is, and not be the listed value any more.
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

/// Only where all are texts, or null.
fn enum_of_texts(values: &[&Value]) -> Schema {
    let texts: Vec<_> = values.iter().filter(|value| !value.is_null()).collect();
    if texts.is_empty() {
        return typed("null".into());
    }
    with_null(json!({"type": "string", "enum": texts}), values)
}

/// The schema, or null where null is listed.
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
