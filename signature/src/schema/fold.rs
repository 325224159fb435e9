//! Definitions of recursive types, each written once.
//!
//! schemars inlines a recursive type at its first use and refers to a definition below it. Folding
//! puts references in both places:
//!
//! ```text
//! {"properties": {"tree": {…, "items": ref Tree}}, "$defs": {"Tree": {…, "items": ref Tree}}}
//! → {"properties": {"tree": ref Tree},             "$defs": {"Tree": {…, "items": ref Tree}}}
//! ```
//!
//! If the root itself is such a copy, references to the definition become references to the root.

use serde_json::{Map, Value, json};

use super::{DEFINITIONS, Keywords, below_mut, redirect, reference_to};

/// Replaces copies of definitions by references to them.
///
/// schemars inlines a type at its first use and refers to a definition below it, so the same
/// bytes are written twice.
pub(crate) fn fold(root: &mut Value) {
    let Some(Value::Object(definitions)) = root.get(DEFINITIONS).cloned() else {
        return;
    };
    for (name, definition) in &definitions {
        let target = reference_to(name);
        if same(root, definition) {
            redirect(root, &|reference| (reference == target).then(|| "#".to_owned()));
            let Some(own) = root.get_mut(DEFINITIONS).and_then(Value::as_object_mut) else {
                continue;
            };
            own.shift_remove(name);
            if own.is_empty()
                && let Some(root) = root.as_object_mut()
            {
                root.shift_remove(DEFINITIONS);
            }
            // The definitions changed with the root, so their copies differ.
            return fold(root);
        }
    }
    let Some(map) = root.as_object_mut() else {
        return;
    };
    for node in below_mut(map) {
        // A definition itself is not a copy, but may contain copies of others.
        let own = definitions.values().any(|definition| definition == node);
        if own && let Some(map) = node.as_object_mut() {
            below_mut(map).into_iter().for_each(|node| replace(node, &definitions));
        } else {
            replace(node, &definitions);
        }
    }
}

/// Replaces a schema by a reference if it is a copy of a definition, otherwise the schemas below
/// it. A description that differs stays beside the reference.
fn replace(node: &mut Value, definitions: &Keywords) {
    for (name, definition) in definitions {
        if !same(node, definition) {
            continue;
        }
        let description = node.get("description").cloned();
        let mut folded = Map::from_iter([("$ref".to_owned(), json!(reference_to(name)))]);
        if let Some(text) = description.filter(|text| definition.get("description") != Some(text)) {
            folded.insert("description".into(), text);
        }
        *node = folded.into();
        return;
    }
    if let Some(map) = node.as_object_mut() {
        below_mut(map).into_iter().for_each(|node| replace(node, definitions));
    }
}

/// Whether two schemas are equal except for their annotations. Only for objects and unions:
/// smaller schemas may be equal by chance.
fn same(node: &Value, definition: &Value) -> bool {
    let (Value::Object(node), Value::Object(definition)) = (node, definition) else {
        return false;
    };
    let counted = |map: &Keywords| map.keys().filter(|keyword| !about_itself(keyword)).count();
    let large = ["properties", "oneOf", "anyOf", "items", "additionalProperties"];
    large.iter().any(|keyword| definition.contains_key(*keyword))
        && counted(node) == counted(definition)
        && definition
            .iter()
            .filter(|(keyword, _)| !about_itself(keyword))
            .all(|(keyword, value)| node.get(keyword) == Some(value))
}

/// Whether a keyword may differ between a definition and its copy.
fn about_itself(keyword: &str) -> bool {
    matches!(keyword, "description" | "title" | DEFINITIONS)
}
