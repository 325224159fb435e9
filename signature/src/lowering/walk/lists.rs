//! Lowering of lists and tuples.

use serde_json::{Map, Value, json};

use super::{Lowered, Walk, type_like};
use crate::error::SchemaFault;
use crate::lowering::Schema;
use crate::schema::Refusal;
use crate::schema::graph::{ListRule, Node};
use crate::wire_shapes;

impl Walk<'_> {
    pub(super) fn list(&mut self, node: &Node, map: &Schema, path: &str) -> Lowered<Schema> {
        let below = format!("{path}[]");
        // Chat Completions rejects a list without `items`.
        let items = match node.list.items {
            Some(items) => self.node(items, &below)?,
            // A list that is always empty has no item type.
            None if node.list.longest == 0 => json!({"type": "null"}),
            None if self.rules.any => json!({}),
            None => {
                let advice = "a list of any values; give its items a type";
                return Err(Refusal::new(SchemaFault::Undescribed, path, advice));
            }
        };
        Ok(Map::from_iter([("type".to_owned(), type_like(map, "array")), ("items".into(), items)]))
    }

    /// Lowers a tuple: a list with a schema for each position, or an object with a field for each
    /// position if the dialect has no tuples.
    pub(super) fn tuple(&mut self, node: &Node, map: &Schema, path: &str) -> Lowered<Schema> {
        let rule = &node.list;
        let mut lowered = Vec::new();
        for (i, item) in rule.prefix.iter().enumerate() {
            lowered.push(self.node(*item, &format!("{path}[{i}]"))?);
        }
        if self.rules.tuples {
            return self.places(lowered, rule, map, path);
        }
        if goes_on(rule) {
            return Err(Refusal::new(
                SchemaFault::Unsupported,
                path,
                "a list with its own first items and any number of others; put these in a field of their own",
            ));
        }
        if rule.shortest < rule.prefix.len() {
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

    fn places(
        &mut self,
        items: Vec<Value>,
        rule: &ListRule,
        map: &Schema,
        path: &str,
    ) -> Lowered<Schema> {
        let count = items.len();
        let mut out = Map::from_iter([
            ("type".to_owned(), type_like(map, "array")),
            ("prefixItems".into(), items.into()),
        ]);
        if map.get("items") == Some(&Value::Bool(false)) {
            if self.rules.keeps.has("items") {
                out.insert("items".into(), false.into());
            } else {
                out.insert("maxItems".into(), count.into());
            }
        } else if let Some(rest) = rule.items.filter(|_| goes_on(rule)) {
            let rest = self.node(rest, &format!("{path}[]"))?;
            out.insert("items".into(), rest);
        }
        Ok(out)
    }
}

/// Whether a tuple has a rule for items after its positions.
fn goes_on(rule: &ListRule) -> bool {
    rule.longest != rule.prefix.len() && rule.items.is_some()
}
