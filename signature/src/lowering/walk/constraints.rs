//! Lowering of keywords that do not belong to the shape: kept if the dialect supports them,
//! otherwise written into the description as a loss.

use serde_json::{Value, json};

use super::{LEFT_OUT, LONGEST_TOLD, Lowered, TOLD, Walk};
use crate::lowering::{Schema, has_type};
use crate::schema::graph::{Id, Shape};
use crate::schema::keywords::{Role, keyword as known};

impl Walk<'_> {
    /// Adds the keywords of a schema to its lowered form.
    pub(super) fn words(
        &mut self,
        id: Id,
        map: &Schema,
        out: &mut Schema,
        mut told: Vec<String>,
        path: &str,
    ) -> Lowered<()> {
        for (keyword, value) in map {
            match keyword.as_str() {
                "description" => {
                    out.insert("description".into(), value.clone());
                }
                "default" => self.default(id, value, out, &mut told),
                // Each shape lowers its own keywords.
                _ => match known(keyword).map(|known| known.role) {
                    Some(Role::Shape | Role::Other) => {}
                    _ => self.constraint((keyword, value), (id, map), out, &mut told, path),
                },
            }
        }
        describe(out, &told);
        Ok(())
    }

    fn default(&mut self, id: Id, value: &Value, out: &mut Schema, told: &mut Vec<String>) {
        let rendered = self.rendered(id, value);
        if self.rules.keeps.has("default") && (rendered.is_some() || !self.rules.closed) {
            out.insert("default".into(), rendered.unwrap_or_else(|| value.clone()));
        } else if !value.is_null() {
            told.push(format!("Default: {}.", rendered.as_ref().unwrap_or(value)));
        }
    }

    fn constraint(
        &mut self,
        (keyword, value): (&str, &Value),
        (id, map): (Id, &Schema),
        out: &mut Schema,
        told: &mut Vec<String>,
        path: &str,
    ) {
        let keyword = match (self.graph().shape(id), keyword) {
            // A map is lowered to a list, and a tuple to an object.
            (Shape::Map, "minProperties") if self.rules.closed => "minItems",
            (Shape::Map, "maxProperties") if self.rules.closed => "maxItems",
            (Shape::Tuple, "minItems" | "maxItems") if !self.rules.tuples => return,
            // Removes limits on the number of fields that have no effect.
            (Shape::Struct, "minProperties" | "maxProperties") if is_idle(keyword, value, map) => {
                return;
            }
            _ => keyword,
        };
        // If the root has to be an object, it must not have this keyword.
        let at_root = keyword == "not" && path == "$" && self.rules.object_root;
        if self.keeps(keyword, value) && !at_root {
            out.insert(keyword.to_owned(), value.clone());
            return;
        }
        if let Some((keyword, value)) = self.inclusive(keyword, value, map) {
            out.entry(keyword).or_insert(value);
            return;
        }
        // The bytes of a number do not matter to a model.
        let of_number = keyword == "format" && !has_type(map, "string") && map.contains_key("type");
        if of_number || *value == false || keyword == "minItems" && *value == 0 {
            return;
        }
        self.tell(keyword, value, told, path);
    }

    fn keeps(&self, keyword: &str, value: &Value) -> bool {
        let text = value.as_str().unwrap_or("");
        self.rules.keeps.has(keyword)
            && match keyword {
                "format" => self.rules.formats.has(text),
                "pattern" => !self.rules.patterns.iter().any(|bad| text.contains(bad)),
                "minItems" => value.as_f64().is_some_and(|n| n <= self.rules.min_items as f64),
                _ => true,
            }
    }

    /// Returns an inclusive bound for an exclusive one, which exists for integers only.
    fn inclusive(&self, keyword: &str, value: &Value, map: &Schema) -> Option<(String, Value)> {
        let (bound, step) = match keyword {
            "exclusiveMinimum" => ("minimum", 1),
            "exclusiveMaximum" => ("maximum", -1),
            _ => return None,
        };
        let whole = has_type(map, "integer") && !map.contains_key(bound);
        let next = value.as_i64().filter(|_| whole)?.checked_add(step)?;
        self.rules.keeps.has(bound).then(|| (bound.to_owned(), json!(next)))
    }

    /// Writes a rule into the description if the dialect has no keyword for it.
    pub(super) fn tell(
        &mut self,
        keyword: &str,
        value: &Value,
        told: &mut Vec<String>,
        path: &str,
    ) {
        let text = match keyword {
            "patternProperties" | "propertyNames" => keys(value),
            _ => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        };
        if text.len() > LONGEST_TOLD {
            self.lose(path, keyword, LEFT_OUT);
            return;
        }
        told.push(match keyword {
            "format" => format!("Format: {text}."),
            "patternProperties" | "propertyNames" => format!("Keys: {text}."),
            _ => format!("{keyword}: {text}."),
        });
        self.lose(path, keyword, TOLD);
    }
}

/// Describes the rule for the keys of a map, for a model.
fn keys(value: &Value) -> String {
    let named = |map: &Schema| map.keys().cloned().collect::<Vec<_>>().join(" or ");
    let plain = |value: &Value| value.as_str().map(str::to_owned);
    match (value.get("enum").and_then(Value::as_array), value.get("pattern")) {
        (Some(values), _) => values.iter().filter_map(plain).collect::<Vec<_>>().join(", "),
        (None, Some(Value::String(pattern))) => pattern.clone(),
        _ if value.get("type").is_some() => value.to_string(),
        _ => value.as_object().map(named).unwrap_or_default(),
    }
}

/// Whether the named fields of a closed object already enforce the limit.
fn is_idle(keyword: &str, value: &Value, map: &Schema) -> bool {
    let count = |keyword: &str| match map.get(keyword) {
        Some(Value::Array(list)) => list.len() as u64,
        Some(Value::Object(map)) => map.len() as u64,
        _ => 0,
    };
    let closed = map.get("additionalProperties") == Some(&Value::Bool(false));
    let bound = value.as_u64().unwrap_or(0);
    match keyword {
        "minProperties" => bound <= count("required"),
        _ => closed && bound >= count("properties"),
    }
}

pub(super) fn describe(schema: &mut Schema, told: &[String]) {
    if told.is_empty() {
        return;
    }
    let mut text = schema.get("description").and_then(Value::as_str).unwrap_or("").to_owned();
    for sentence in told {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(sentence);
    }
    schema.insert("description".into(), text.into());
}
