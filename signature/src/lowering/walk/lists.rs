//! Lists and tuples.

use serde_json::{Map, Value, json};

use super::{Lowered, Walk, type_like};
use crate::error::SchemaFault;
use crate::lowering::shape::{Schema, goes_on, stops_early};
use crate::schema::Refusal;
use crate::wire_shapes;

impl Walk<'_> {
    pub(super) fn list(
        &mut self,
        items: Option<&Value>,
        map: &Schema,
        path: &str,
    ) -> Lowered<Schema> {
        // What is always empty holds nothing in particular.
        let empty = map.get("maxItems").and_then(Value::as_u64) == Some(0);
        let any = if empty { json!({"type": "null"}) } else { json!({}) };
        if !empty && items.is_none() && !self.rules.any {
            return Err(Refusal::new(
                SchemaFault::Undescribed,
                path,
                "a list of any values; give its items a type",
            ));
        }
        let path = format!("{path}[]");
        // Chat Completions refuses a list that does not say what is in it.
        let items = self.node(items.unwrap_or(&any), &path)?;
        Ok(Map::from_iter([("type".to_owned(), type_like(map, "array")), ("items".into(), items)]))
    }

    /// A list with a schema for each place; an object with a field for each, where the
    /// dialect has none.
    pub(super) fn tuple(&mut self, items: &[Value], map: &Schema, path: &str) -> Lowered<Schema> {
        let mut lowered = Vec::new();
        for (i, item) in items.iter().enumerate() {
            lowered.push(self.node(item, &format!("{path}[{i}]"))?);
        }
        if self.rules.tuples {
            return self.places(lowered, map, path);
        }
        if goes_on(map, items.len()) {
            return Err(Refusal::new(
                SchemaFault::Unsupported,
                path,
                "a list with its own first items and any number of others; put these in a field of their own",
            ));
        }
        if stops_early(map, items.len()) {
            self.lose(
                path,
                "prefixItems",
                "has all its items there: a shorter list cannot be said",
            );
        }
        let fields: Map<_, _> =
            lowered.into_iter().enumerate().map(|(i, item)| (wire_shapes::item(i), item)).collect();
        let required: Value = fields.keys().cloned().collect();
        Ok(Map::from_iter([
            ("type".to_owned(), type_like(map, "object")),
            ("properties".into(), fields.into()),
            ("required".into(), required),
            ("additionalProperties".into(), false.into()),
        ]))
    }

    fn places(&mut self, items: Vec<Value>, map: &Schema, path: &str) -> Lowered<Schema> {
        let count = items.len();
        let mut out = Map::from_iter([
            ("type".to_owned(), type_like(map, "array")),
            ("prefixItems".into(), items.into()),
        ]);
        match map.get("items") {
            Some(Value::Bool(false)) if self.rules.keeps.has("items") => {
                out.insert("items".into(), false.into());
            }
            Some(Value::Bool(false)) => {
                out.insert("maxItems".into(), count.into());
            }
            Some(rest) if goes_on(map, count) => {
                let rest = self.node(rest, &format!("{path}[]"))?;
                out.insert("items".into(), rest);
            }
            _ => {}
        }
        Ok(out)
    }
}
