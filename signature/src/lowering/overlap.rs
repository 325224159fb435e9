//! Whether the same value could fit two members of a union.
//!
//! A contract's schema has `oneOf` if no value can. Lowering reports a loss if one can and the
//! dialect only has `anyOf`. It also reads schemas before the normal form, so it is the only part
//! that works on keywords instead of the graph.

use std::collections::HashSet;

use serde_json::Value;

use super::{Schema, has_type, listed, required};
use crate::limits::{ANALYSIS_STEPS, GUESS_DEPTH};
use crate::schema::types::TYPE_NAMES;
use crate::schema::{below_mut, resolve};

/// Replaces `anyOf` by `oneOf` if no value fits two of the members, so that a model and a
/// validator know that exactly one is intended. An optional value does not change.
pub(crate) fn say_one_of(schema: &mut Value) {
    let root = schema.clone();
    let mut waiting = vec![schema];
    while let Some(schema) = waiting.pop() {
        let Some(map) = schema.as_object_mut() else {
            continue;
        };
        let members = map.get("anyOf").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let nullable = members.len() == 2 && members.iter().any(|member| member["type"] == "null");
        if members.len() > 1
            && !nullable
            && !map.contains_key("oneOf")
            && !Overlap::new(&root, false).any(members)
        {
            let all = std::mem::take(map);
            map.extend(all.into_iter().map(|(keyword, value)| match keyword.as_str() {
                "anyOf" => ("oneOf".to_owned(), value),
                _ => (keyword, value),
            }));
        }
        waiting.extend(below_mut(map));
    }
}

pub(crate) struct Overlap<'a> {
    root: &'a Value,
    /// Whether objects accept only their named fields, even without `additionalProperties`.
    closed: bool,
    left: usize,
}

impl<'a> Overlap<'a> {
    pub(crate) fn new(root: &'a Value, closed: bool) -> Self {
        Self { root, closed, left: ANALYSIS_STEPS }
    }

    /// Whether the same value may fit two of the members.
    pub(crate) fn any(&mut self, members: &[Value]) -> bool {
        members.iter().enumerate().any(|(i, one)| {
            members.iter().skip(i + 1).any(|other| self.two(one, other, GUESS_DEPTH))
        })
    }

    fn two(&mut self, one: &Value, other: &Value, depth: usize) -> bool {
        if depth == 0 || self.left == 0 {
            return true;
        }
        self.left -= 1;
        let (Value::Object(a), Value::Object(b)) = (one, other) else {
            return *one != Value::Bool(false) && *other != Value::Bool(false);
        };
        for (map, against) in [(a, other), (b, one)] {
            if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
                let target = resolve(self.root, reference);
                return target.is_none_or(|target| self.two(target, against, depth - 1));
            }
            let union = map.get("anyOf").or_else(|| map.get("oneOf")).and_then(Value::as_array);
            if let Some(members) = union {
                return members.iter().any(|member| self.two(member, against, depth));
            }
            if !map.contains_key("type") && listed(map).is_none() {
                return true;
            }
        }
        self.plain(a, b, depth)
    }

    fn plain(&mut self, a: &Schema, b: &Schema, depth: usize) -> bool {
        if let (Some(ours), Some(theirs)) = (listed(a), listed(b)) {
            let theirs: HashSet<_> = theirs.into_iter().collect();
            return ours.iter().any(|value| theirs.contains(value));
        }
        let shared = |kind: &&str| {
            let has = |map| has_type(map, kind) || *kind == "integer" && has_type(map, "number");
            has(a) && has(b)
        };
        let shared: Vec<_> = TYPE_NAMES.iter().filter(|kind| shared(kind)).collect();
        match shared.as_slice() {
            [] => false,
            [kind] if **kind == "object" => self.objects(a, b, depth),
            [kind] if **kind == "array" => lists(a, b),
            _ => true,
        }
    }

    fn objects(&mut self, a: &Schema, b: &Schema, depth: usize) -> bool {
        if self.needs_too_much(a, b) || self.needs_too_much(b, a) {
            return false;
        }
        let (Some(ours), Some(theirs)) = (
            a.get("properties").and_then(Value::as_object),
            b.get("properties").and_then(Value::as_object),
        ) else {
            return true;
        };
        let needed: HashSet<_> = required(a).chain(required(b)).collect();
        let apart = ours.iter().any(|(name, one)| {
            needed.contains(name.as_str())
                && theirs.get(name).is_some_and(|other| !self.two(one, other, depth - 1))
        });
        !apart
    }

    /// Whether one requires a field that the other does not accept.
    fn needs_too_much(&self, one: &Schema, other: &Schema) -> bool {
        let rest = other.get("additionalProperties");
        let closed = *rest.unwrap_or(&Value::Bool(!self.closed)) == Value::Bool(false)
            && !other.contains_key("patternProperties");
        let known = other.get("properties").and_then(Value::as_object);
        closed && required(one).any(|name| known.is_none_or(|known| !known.contains_key(name)))
    }
}

/// Whether the lengths of two lists overlap.
fn lists(a: &Schema, b: &Schema) -> bool {
    let bound = |map: &Schema, keyword: &str| map.get(keyword).and_then(Value::as_u64);
    let apart = |a, b| bound(a, "maxItems").unwrap_or(u64::MAX) < bound(b, "minItems").unwrap_or(0);
    !(apart(a, b) || apart(b, a))
}
