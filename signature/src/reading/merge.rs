//! Two schemas as one: what fits the result fits both.

use serde_json::{Map, Value, json};

/// Where a merged schema keeps what could not be merged: a value has to fit it as well.
/// No keyword is written so.
pub(super) const ALSO: &str = "\u{0}also";

/// Whether a keyword says which values fit.
pub(super) fn constrains(keyword: &str) -> bool {
    const SILENT: [&str; 12] = [
        "title",
        "description",
        "default",
        "examples",
        "$schema",
        "$id",
        "$comment",
        "$defs",
        "definitions",
        "deprecated",
        "readOnly",
        "writeOnly",
    ];
    !SILENT.contains(&keyword)
}

/// `schema` with the constraints of `more`.
pub(super) fn merged(schema: &Map<String, Value>, more: &Map<String, Value>) -> Map<String, Value> {
    let mut out = schema.clone();
    for (keyword, value) in more.iter().filter(|(keyword, _)| constrains(keyword)) {
        match out.get_mut(keyword) {
            None => {
                out.insert(keyword.clone(), value.clone());
            }
            Some(own) if own == value => {}
            Some(own) => {
                if !join(keyword, own, value) {
                    let also = out.entry(ALSO).or_insert_with(|| json!([]));
                    if let Some(also) = also.as_array_mut() {
                        also.push(json!({ keyword: value }));
                    }
                }
            }
        }
    }
    out
}

/// Makes one value of two of the same keyword; false if it cannot.
fn join(keyword: &str, own: &mut Value, other: &Value) -> bool {
    match keyword {
        "properties" | "patternProperties" => both_maps(own, other),
        "required" | ALSO | "allOf" => union(own, other),
        "type" => types(own, other),
        "enum" => retain(own, other),
        "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" => {
            extreme(own, other, |own, other| own < other)
        }
        "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => {
            extreme(own, other, |own, other| own > other)
        }
        "additionalProperties"
        | "unevaluatedProperties"
        | "items"
        | "additionalItems"
        | "propertyNames" => both(own, other),
        "uniqueItems" => {
            *own = true.into();
            true
        }
        // A name that only one of the two knows is no constraint of the other.
        "format" => true,
        _ => false,
    }
}

fn both(own: &mut Value, other: &Value) -> bool {
    *own = match (&*own, other) {
        (Value::Bool(false), _) | (_, Value::Bool(false)) => Value::Bool(false),
        (Value::Bool(true), schema) | (schema, Value::Bool(true)) => schema.clone(),
        (one, two) => json!({ "allOf": [one, two] }),
    };
    true
}

fn both_maps(own: &mut Value, other: &Value) -> bool {
    let (Some(own), Some(other)) = (own.as_object_mut(), other.as_object()) else {
        return false;
    };
    for (name, schema) in other {
        match own.get_mut(name) {
            Some(known) if known == schema => {}
            Some(known) => {
                both(known, schema);
            }
            None => {
                own.insert(name.clone(), schema.clone());
            }
        }
    }
    true
}

fn union(own: &mut Value, other: &Value) -> bool {
    let (Some(own), Some(other)) = (own.as_array_mut(), other.as_array()) else {
        return false;
    };
    for item in other {
        if !own.contains(item) {
            own.push(item.clone());
        }
    }
    true
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_else(|| vec![value.clone()])
}

fn types(own: &mut Value, other: &Value) -> bool {
    let (mine, theirs) = (list(own), list(other));
    let mut kept: Vec<Value> = Vec::new();
    for kind in &mine {
        if theirs.contains(kind) || kind == "integer" && theirs.contains(&"number".into()) {
            kept.push(kind.clone());
        } else if kind == "number" && theirs.contains(&"integer".into()) {
            kept.push("integer".into());
        }
    }
    *own = if kept.len() == 1 { kept.remove(0) } else { kept.into() };
    true
}

fn retain(own: &mut Value, other: &Value) -> bool {
    let (Some(own), Some(other)) = (own.as_array_mut(), other.as_array()) else {
        return false;
    };
    own.retain(|value| other.contains(value));
    true
}

fn extreme(own: &mut Value, other: &Value, weaker: fn(f64, f64) -> bool) -> bool {
    let (Some(mine), Some(theirs)) = (own.as_f64(), other.as_f64()) else {
        return false;
    };
    if weaker(mine, theirs) {
        *own = other.clone();
    }
    true
}
