//! Schemas whose meaning the normal form changes: those without a type, and those with closed parts.
//!
//! Reading infers a missing type from the other keywords, and so does the normal form. A validator
//! does not:
//!
//! ```text
//! {"minLength": 1}     reading: a text     a validator: a text of a length, or any other value
//! ```
//!
//! The functions here look at the schemas as they are.

use std::collections::HashMap;

use serde_json::Value;

use crate::limits::HOPS;
use crate::schema::keywords::{items, keyword as known, schemas_in};
use crate::schema::pointer_of;
use crate::schema::types::Types;

/// The words about a schema of [`closes_parts`].
pub(super) const CLOSES_PARTS: &str =
    "has `unevaluatedProperties` beside conditions or `oneOf`, which cannot be compared";

/// Whether a schema has `unevaluatedProperties` beside a condition or a `oneOf`, anywhere in it. The
/// normal form moves this rule into the parts: they then exclude each other where the schema's own
/// parts do not, and do not see fields that a condition declares.
pub(super) fn closes_parts(root: &Value) -> bool {
    let has = |keyword: &str| schemas_in(root).any(|(map, _)| map.contains_key(keyword));
    has("unevaluatedProperties") && ["oneOf", "dependentSchemas", "if"].into_iter().any(has)
}

/// Whether a `oneOf` in a schema may exclude more values than its normal form: a member without a
/// type accepts values of all types.
pub(super) fn excludes_more(root: &Value) -> bool {
    schemas_in(root).any(|(map, _)| items(map, "oneOf").any(|one| infers(root, one, HOPS)))
}

/// Returns the paths at which the sender's schema has no type and the receiver's has one, with the words
/// about both.
pub(crate) fn retyped(comes: &Value, takes: &Value) -> Vec<(String, String, String)> {
    if comes == takes {
        return Vec::new();
    }
    let typed = schemas_in(takes).filter_map(|(map, path)| Some((path, map.get("type")?)));
    let typed: HashMap<String, &Value> = typed.collect();
    let mut found: Vec<(String, String, String)> = Vec::new();
    for (map, path) in schemas_in(comes) {
        let is_new = !found.iter().any(|(known, ..)| *known == path);
        if let Some(kind) = typed.get(&path).filter(|_| is_new)
            && infers(comes, &Value::Object(map.clone()), HOPS)
        {
            found.push((path, "has no type".to_owned(), format!("has the type {kind}")));
        }
    }
    found
}

/// Whether the normal form infers a type for a schema: it has none, and a rule for some types.
fn infers(root: &Value, schema: &Value, hops: usize) -> bool {
    let Some(map) = schema.as_object().filter(|_| hops > 0) else { return hops == 0 };
    let infers_below = |part: &Value| infers(root, part, hops - 1);
    if ["type", "enum", "const"].iter().any(|keyword| map.contains_key(*keyword)) {
        return false;
    }
    let target = map.get("$ref").and_then(|to| root.pointer(&pointer_of(root, to)?));
    let unions = ["anyOf", "oneOf"].iter().filter(|union| map.contains_key(**union));
    let has_typed_part = target.is_some_and(|target| !infers_below(target))
        || items(map, "allOf").any(|part| !infers_below(part))
        || unions.into_iter().any(|union| !items(map, union).any(infers_below));
    let about = |of: Types| of != Types::NONE && of != Types::ALL;
    !has_typed_part && map.keys().any(|keyword| known(keyword).is_some_and(|known| about(known.of)))
}
