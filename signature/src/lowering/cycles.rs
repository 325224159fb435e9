//! Definitions that contain themselves, found by strongly connected components.
//!
//! Dialects without recursion reject them; Gemini accepts them in optional fields only.

use std::collections::HashMap;

use serde_json::Value;

use crate::schema::graph::circles;
use crate::schema::{DEFINITIONS, below};

/// The definitions that lead back to themselves, with a number for each cycle.
///
/// The root is one of them: references to it are `#`.
#[derive(Debug, Default)]
pub(crate) struct Cycles {
    circles: HashMap<String, usize>,
    first: Option<String>,
}

impl Cycles {
    pub(crate) fn of(root: &Value) -> Self {
        let mut names = vec!["#".to_owned()];
        let mut schemas = vec![root];
        for (name, schema) in root.get(DEFINITIONS).and_then(Value::as_object).into_iter().flatten()
        {
            names.push(format!("#/{DEFINITIONS}/{name}"));
            schemas.push(schema);
        }
        let numbers: HashMap<&str, usize> =
            names.iter().enumerate().map(|(number, name)| (name.as_str(), number)).collect();
        let edges: Vec<Vec<usize>> =
            schemas.iter().map(|schema| references(schema, &numbers)).collect();
        let mut found = Self::default();
        for (circle, members) in circles(&edges).into_iter().enumerate() {
            for number in members {
                if let Some(name) = names.get(number) {
                    found.circles.insert(name.clone(), circle);
                }
            }
        }
        found.first = names.iter().find(|name| found.circles.contains_key(*name)).cloned();
        found
    }

    /// Returns the first definition that contains itself.
    pub(crate) fn first(&self) -> Option<&str> {
        self.first.as_deref()
    }

    /// Whether each of the two leads to the other.
    pub(crate) fn share(&self, one: &str, other: &str) -> bool {
        self.circles.get(one).is_some_and(|circle| self.circles.get(other) == Some(circle))
    }
}

/// Returns the definitions that a schema refers to; for a root, without the definitions below it.
fn references(schema: &Value, numbers: &HashMap<&str, usize>) -> Vec<usize> {
    let mut found = Vec::new();
    let mut waiting = vec![schema];
    while let Some(schema) = waiting.pop() {
        let Some(map) = schema.as_object() else {
            continue;
        };
        let reference = map.get("$ref").and_then(Value::as_str);
        found.extend(reference.and_then(|reference| numbers.get(reference)));
        let below = below(map).into_iter().filter(|(keyword, ..)| *keyword != DEFINITIONS);
        waiting.extend(below.map(|(_, _, schema)| schema));
    }
    found
}
