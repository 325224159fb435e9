//! Lowering of lists and tuples.
//!
//! ```text
//! tuple, a dialect with tuples: {"type": "array", "prefixItems": [integer, string]}
//! tuple, a closed dialect:      {"type": "object", "properties": {"item_0": integer, "item_1": string}, …}
//! ```

use serde_json::{Map, Value, json};

use super::{At, Walk, type_like, typed};
use crate::error::{Checked, SchemaFault, refuse};
use crate::schema::Keywords;
use crate::schema::graph::ListRule;
use crate::wire_shapes;

impl Walk<'_> {
    /// Lowers a list of any length. Its items need a schema in most dialects.
    pub(super) fn list(&mut self, at: At<'_>) -> Checked<Keywords> {
        // Chat Completions rejects a list without `items`.
        let items = match at.node.list.items {
            Some(items) => self.node(items, &format!("{}[]", at.path))?,
            // A list that is always empty has no item type.
            None if at.node.list.longest == 0 => json!({"type": "null"}),
            None if self.rules.any => json!({}),
            None => {
                let advice = "it is a list of any values; give its items a type";
                return refuse(SchemaFault::Undescribed, at.path, advice);
            }
        };
        Ok(Map::from_iter([("type".to_owned(), type_like(at, "array")), ("items".into(), items)]))
    }

    /// Lowers a tuple: a list with a schema for each position, or an object with a field for each
    /// position if the dialect has no tuples.
    pub(super) fn tuple(&mut self, at: At<'_>) -> Checked<Keywords> {
        let (rule, path) = (&at.node.list, at.path);
        let mut lowered = Vec::new();
        for (i, item) in rule.prefix.iter().enumerate() {
            lowered.push(self.node(*item, &format!("{path}[{i}]"))?);
        }
        if self.rules.tuples {
            return self.places(lowered, at);
        }
        if goes_on(rule) {
            let advice = "it is a list with fixed first items and any number of others; put the others in a field of their own";
            return refuse(SchemaFault::Unsupported, path, advice);
        }
        if rule.shortest < rule.prefix.len() {
            let why = "always has all its items there: a shorter list cannot be expressed";
            self.lose(path, "prefixItems", why);
        }
        let fields: Map<_, _> =
            lowered.into_iter().enumerate().map(|(i, item)| (wire_shapes::item(i), item)).collect();
        let required: Value = fields.keys().cloned().collect();
        Ok(Map::from_iter([
            ("type".to_owned(), type_like(at, "object")),
            ("properties".into(), fields.into()),
            ("required".into(), required),
            ("additionalProperties".into(), false.into()),
        ]))
    }

    /// Returns a tuple as a list, with the rule for items after its positions.
    fn places(&mut self, items: Vec<Value>, at: At<'_>) -> Checked<Keywords> {
        let (rule, count) = (&at.node.list, items.len());
        let mut out = typed(type_like(at, "array"));
        out.insert("prefixItems".into(), items.into());
        if at.map.get("items") == Some(&Value::Bool(false)) {
            if self.rules.keeps("items") {
                out.insert("items".into(), false.into());
            } else {
                out.insert("maxItems".into(), count.into());
            }
        } else if let Some(rest) = rule.items.filter(|_| goes_on(rule)) {
            out.insert("items".into(), self.node(rest, &format!("{}[]", at.path))?);
        }
        Ok(out)
    }
}

/// Whether a tuple has a rule for items after its positions.
fn goes_on(rule: &ListRule) -> bool {
    rule.longest != rule.prefix.len() && rule.items.is_some()
}
