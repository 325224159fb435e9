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
use crate::schema::keywords::{Keywords, below, items, keyword as known, path_below};
use crate::schema::pointer_of;
use crate::schema::types::Types;

/// The words about a schema of [`closes_parts`].
pub(super) const CLOSES_PARTS: &str =
    "has `unevaluatedProperties` beside conditions or `oneOf`, which cannot be compared";

/// Whether a schema has `unevaluatedProperties` beside a condition or a `oneOf`, anywhere in it. The
/// normal form moves this rule into the parts: they then exclude each other where the schema's own
/// parts do not, and do not see fields that a condition declares.
pub(super) fn closes_parts(root: &Value) -> bool {
    let has = |keyword: &str| any_schema(root, |map| map.contains_key(keyword));
    has("unevaluatedProperties") && ["oneOf", "dependentSchemas", "if"].into_iter().any(has)
}

/// Whether a `oneOf` in a schema may exclude more values than its normal form: a member without a
/// type accepts values of all types.
pub(super) fn excludes_more(root: &Value) -> bool {
    any_schema(root, |map| items(map, "oneOf").any(|one| infers(root, one, HOPS)))
}

/// Returns the paths at which the sender's schema has no type and the receiver's has one, with the words
/// about both.
pub(crate) fn retyped(comes: &Value, takes: &Value) -> Vec<(String, String, String)> {
    if comes == takes {
        return Vec::new();
    }
    let mut typed = HashMap::new();
    each_schema(takes, |map, path| {
        if let Some(kind) = map.get("type") {
            typed.insert(path.to_owned(), kind.clone());
        }
    });
    let mut found: Vec<(String, String, String)> = Vec::new();
    each_schema(comes, |map, path| {
        let is_new = !found.iter().any(|(known, ..)| known == path);
        if let Some(kind) = typed.get(path).filter(|_| is_new)
            && infers(comes, &Value::Object(map.clone()), HOPS)
        {
            let takes = format!("has the type {kind}");
            found.push((path.to_owned(), "has no type".to_owned(), takes));
        }
    });
    found
}

/// Whether some schema in another one fits.
fn any_schema(root: &Value, fits: impl Fn(&Keywords) -> bool) -> bool {
    let mut any = false;
    each_schema(root, |map, _| any |= fits(map));
    any
}

/// Visits a schema and all schemas below it, with their paths.
fn each_schema<'s>(root: &'s Value, mut look: impl FnMut(&'s Keywords, &str)) {
    let mut waiting = vec![(root, "$".to_owned())];
    while let Some((schema, path)) = waiting.pop() {
        let Some(map) = schema.as_object() else { continue };
        look(map, &path);
        let parts = below(map).into_iter();
        waiting.extend(parts.map(|(keyword, name, part)| (part, path_below(&path, keyword, name))));
    }
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
