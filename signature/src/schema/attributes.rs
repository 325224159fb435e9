//! Check of the rules that attributes add to a Rust type, such as `range`, `length` and `default`.
//!
//! ```text
//! #[schemars(range(min = 5, max = 1))] days: u8   → `minimum` is 5 and `maximum` is 1, so no value fits
//! #[default = 20] with range(max = 12)            → the default 20 does not fit its own schema
//! ```
//!
//! Foreign schemas are not checked: their author is another person, and such a schema still has a
//! meaning. schemars itself drops a rule for another type, such as a `length` of an integer.

use serde_json::Value;

use super::graph::Graph;
use super::keywords::{DEFINITIONS, Keywords, schemas_in};
use super::normal;
use crate::error::{Checked, SchemaFault, refuse, shown};

/// Checks the schema of a type.
///
/// # Errors
///
/// The error has the path of the first rule that no value fits, or that the default breaks.
pub(crate) fn check_attributes(root: &Value) -> Checked {
    let definitions = root.get(DEFINITIONS);
    for (map, path) in schemas_in(root) {
        bounds(map, &path)?;
        default(map, definitions, &path)?;
    }
    Ok(())
}

/// Lower and upper bounds of the same count.
const BOUNDS: [(&str, &str); 7] = [
    ("minimum", "maximum"),
    ("minimum", "exclusiveMaximum"),
    ("exclusiveMinimum", "maximum"),
    ("exclusiveMinimum", "exclusiveMaximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
];

fn bounds(map: &Keywords, path: &str) -> Checked {
    for (low, high) in BOUNDS {
        let bound = |keyword: &str| map.get(keyword).and_then(Value::as_f64);
        let (Some(least), Some(most)) = (bound(low), bound(high)) else { continue };
        let exclusive = low.starts_with("exclusive") || high.starts_with("exclusive");
        if least > most || exclusive && least >= most {
            let advice = format!(
                "`{low}` is {} and `{high}` is {}, so no value fits; change one of them",
                map[low], map[high]
            );
            return refuse(SchemaFault::Contradiction, path, advice);
        }
    }
    Ok(())
}

/// A default of several parts may lack some of them, so only single values are checked.
fn default(map: &Keywords, definitions: Option<&Value>, path: &str) -> Checked {
    let single = |value: &&Value| value.is_string() || value.is_number() || value.is_boolean();
    let Some(value) = map.get("default").filter(single) else { return Ok(()) };
    let mut schema = map.clone();
    schema.extend(definitions.map(|all| (DEFINITIONS.to_owned(), all.clone())));
    // A schema without a normal form has an error of its own.
    let Ok(schema) = normal(&schema.into()) else { return Ok(()) };
    let graph = Graph::of(&schema);
    if graph.takes(graph.root, value) {
        return Ok(());
    }
    let advice = format!(
        "the default {} does not fit the schema of the field; change one of them",
        shown(&value.to_string())
    );
    refuse(SchemaFault::Contradiction, path, advice)
}
