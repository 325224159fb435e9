//! Lowering of keywords that do not belong to the shape: kept if the dialect supports them,
//! otherwise written into the description as a loss.
//!
//! ```text
//! openai-strict: {"type": "string", "maxLength": 5, "description": "A code."}
//!              → {"type": "string", "description": "A code. maxLength: 5."}, loss: `maxLength`
//! ```
//!
//! Begin with [`Walk::words`]. Some keywords are replaced by others with the same effect: an
//! exclusive bound of integers becomes inclusive, and the number of entries of a map becomes the
//! number of items of its list.

use serde_json::{Value, json};

use super::{At, LEFT_OUT, LONGEST_TOLD, TOLD, Walk};
use crate::schema::Keywords;
use crate::schema::graph::{ObjectRule, Rest, Shape};
use crate::schema::keywords::{Role, has_type, keyword as known, text, texts};

impl Walk<'_> {
    /// Adds the keywords of a schema to its lowered form.
    pub(super) fn words(&mut self, at: At<'_>, out: &mut Keywords) {
        for (keyword, value) in at.map {
            match keyword.as_str() {
                "description" => {
                    out.insert("description".into(), value.clone());
                }
                "default" => self.default(at, value, out),
                // Each shape lowers its own keywords.
                _ => match known(keyword).map(|known| known.role) {
                    Some(Role::Shape | Role::Other) => {}
                    _ => self.constraint(at, keyword, value, out),
                },
            }
        }
        describe(out, &self.told);
    }

    fn default(&mut self, at: At<'_>, value: &Value, out: &mut Keywords) {
        let rendered = self.rendered(at.id, value);
        if self.rules.keeps("default") && (rendered.is_some() || !self.rules.closed) {
            out.insert("default".into(), rendered.unwrap_or_else(|| value.clone()));
        } else if !value.is_null() {
            self.told.push(format!("Default: {}.", rendered.as_ref().unwrap_or(value)));
        }
    }

    /// Adds one constraint to a lowered schema: unchanged, as another keyword, or as a sentence.
    fn constraint(&mut self, at: At<'_>, keyword: &str, value: &Value, out: &mut Keywords) {
        let map = at.map;
        let keyword = match (self.graph().shape(at.id), keyword) {
            // A map is lowered to a list, and a tuple to an object.
            (Shape::Map, "minProperties") if self.rules.closed => "minItems",
            (Shape::Map, "maxProperties") if self.rules.closed => "maxItems",
            (Shape::Tuple, "minItems" | "maxItems") if !self.rules.tuples => return,
            // Removes limits on the number of fields that have no effect.
            (Shape::Struct, "minProperties" | "maxProperties")
                if is_idle(keyword, value, &at.node.object) =>
            {
                return;
            }
            _ => keyword,
        };
        // If the root has to be an object, it must not have this keyword.
        let at_root = keyword == "not" && at.path == "$" && self.rules.object_root;
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
        self.tell(keyword, value, at.path);
    }

    /// Whether the dialect accepts a keyword with this value.
    fn keeps(&self, keyword: &str, value: &Value) -> bool {
        let text = value.as_str().unwrap_or("");
        self.rules.keeps(keyword)
            && match keyword {
                "format" => self.rules.keeps_format(text),
                "pattern" => !self.rules.patterns.iter().any(|bad| text.contains(bad)),
                "minItems" => value.as_f64().is_some_and(|n| n <= self.rules.min_items as f64),
                _ => true,
            }
    }

    /// Returns an inclusive bound for an exclusive one, which exists for integers only.
    ///
    /// ```text
    /// {"type": "integer", "exclusiveMinimum": 0} → {"minimum": 1}
    /// ```
    fn inclusive(&self, keyword: &str, value: &Value, map: &Keywords) -> Option<(String, Value)> {
        let (bound, step) = match keyword {
            "exclusiveMinimum" => ("minimum", 1),
            "exclusiveMaximum" => ("maximum", -1),
            _ => return None,
        };
        let whole = has_type(map, "integer") && !map.contains_key(bound);
        let next = value.as_i64().filter(|_| whole)?.checked_add(step)?;
        self.rules.keeps(bound).then(|| (bound.to_owned(), json!(next)))
    }

    /// Writes a rule into the description if the dialect has no keyword for it.
    pub(super) fn tell(&mut self, keyword: &str, value: &Value, path: &str) {
        let text = match keyword {
            "patternProperties" | "propertyNames" => keys(value),
            _ => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        };
        if text.len() > LONGEST_TOLD {
            self.lose(path, keyword, LEFT_OUT);
            return;
        }
        self.told.push(match keyword {
            "format" => format!("Format: {text}."),
            "patternProperties" | "propertyNames" => format!("Keys: {text}."),
            _ => format!("{keyword}: {text}."),
        });
        self.lose(path, keyword, TOLD);
    }
}

/// Describes the rule for the keys of a map, for a model.
///
/// ```text
/// {"^n": …, "^m": …}         → ^n or ^m
/// {"enum": ["a", "b"]}       → a, b
/// ```
fn keys(value: &Value) -> String {
    let Some(map) = value.as_object() else {
        return String::new();
    };
    match (map.get("enum"), text(map, "pattern")) {
        (Some(_), _) => texts(map, "enum").collect::<Vec<_>>().join(", "),
        (None, Some(pattern)) => pattern.to_owned(),
        _ if map.contains_key("type") => value.to_string(),
        _ => map.keys().map(String::as_str).collect::<Vec<_>>().join(" or "),
    }
}

/// Whether the named fields of a closed object already enforce the limit.
fn is_idle(keyword: &str, value: &Value, object: &ObjectRule) -> bool {
    let bound = value.as_u64().unwrap_or(0) as usize;
    match keyword {
        "minProperties" => bound <= object.fields.iter().filter(|field| field.required).count(),
        _ => matches!(object.rest, Rest::Closed) && bound >= object.described().count(),
    }
}

/// Appends sentences to the description of a schema.
pub(super) fn describe(schema: &mut Keywords, told: &[String]) {
    if told.is_empty() {
        return;
    }
    let own = text(schema, "description").filter(|own| !own.is_empty());
    let sentences: Vec<&str> = own.into_iter().chain(told.iter().map(String::as_str)).collect();
    schema.insert("description".into(), sentences.join(" ").into());
}
