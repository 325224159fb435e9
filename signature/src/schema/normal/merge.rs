//! Merging two schemas that both apply, for `allOf` and for keywords beside a reference.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::{Map, Number, Value, json};

use super::super::keywords::{Role, is_annotation, keyword as known};
use super::{Normal, Refusal};
use crate::error::SchemaFault;
use crate::limits::NORMAL_DEPTH;

/// Keywords that only have a meaning together.
const GROUPS: [&[&str]; 2] = [&["if", "then", "else"], &["contains", "minContains", "maxContains"]];

/// Maximum number of names that are searched one by one.
const FEW: usize = 8;

impl Normal<'_> {
    /// Returns the schema of values that fit both. Annotations of the first have priority.
    pub(super) fn merge(&mut self, a: Value, b: Value, path: &str) -> Result<Value, Refusal> {
        self.spend(path)?;
        // Merging two schemas that contain themselves would never end.
        if self.depth >= NORMAL_DEPTH {
            return Err(Refusal::new(
                SchemaFault::TooDeep,
                path,
                "its parts nest too deep to be put together; make it flatter",
            ));
        }
        self.depth += 1;
        let merged = self.merge_values(a, b, path);
        self.depth -= 1;
        if matches!(merged, Ok(Value::Bool(false))) {
            self.contradiction.get_or_insert_with(|| path.to_owned());
        }
        merged
    }

    fn merge_values(&mut self, a: Value, b: Value, path: &str) -> Result<Value, Refusal> {
        let (Value::Object(mut a), Value::Object(mut b)) = (a, b) else {
            return Ok(false.into());
        };
        if says_nothing(&b) {
            annotate(&mut a, b);
            return Ok(a.into());
        }
        if says_nothing(&a) {
            let own = std::mem::replace(&mut a, b);
            for (keyword, value) in own {
                a.insert(keyword, value);
            }
            return Ok(a.into());
        }
        if a == b {
            return Ok(a.into());
        }
        if let Some(Value::String(reference)) = a.shift_remove("$ref") {
            let mut target = self.inlined(&reference, path)?;
            override_annotations(&mut target, a);
            return self.merge(target, b.into(), path);
        }
        if let Some(Value::String(reference)) = b.shift_remove("$ref") {
            let mut target = self.inlined(&reference, path)?;
            override_annotations(&mut target, b);
            return self.merge(a.into(), target, path);
        }
        if let Some(keyword) = union_of(&a) {
            return self.in_members(keyword, a, b, path, true);
        }
        if let Some(keyword) = union_of(&b) {
            return self.in_members(keyword, b, a, path, false);
        }
        self.merge_plain(a, b, path)
    }

    /// Merges a schema into each member of a union.
    fn in_members(
        &mut self,
        keyword: &str,
        mut union: Map<String, Value>,
        mut other: Map<String, Value>,
        path: &str,
        union_first: bool,
    ) -> Result<Value, Refusal> {
        let mut told = Map::new();
        let order = if union_first { [&mut union, &mut other] } else { [&mut other, &mut union] };
        for map in order {
            for annotation in ["description", "default"] {
                if let Some(value) = map.shift_remove(annotation) {
                    told.entry(annotation).or_insert(value);
                }
            }
        }
        let Some(Value::Array(members)) = union.shift_remove(keyword) else {
            return Ok(other.into());
        };
        let mut merged = Vec::new();
        for member in members {
            self.spend_copy(&other, path)?;
            let member = self.merge(member, other.clone().into(), path)?;
            if member != Value::Bool(false) {
                merged.push(member);
            }
        }
        if merged.is_empty() {
            return Ok(false.into());
        }
        told.insert(keyword.to_owned(), merged.into());
        Ok(told.into())
    }

    /// Counts the cost of a copy, which grows with its size.
    fn spend_copy(&mut self, map: &Map<String, Value>, path: &str) -> Result<(), Refusal> {
        let mut waiting: Vec<&Value> = map.values().collect();
        while let Some(value) = waiting.pop() {
            self.spend(path)?;
            match value {
                Value::Object(map) => waiting.extend(map.values()),
                Value::Array(list) => waiting.extend(list),
                _ => {}
            }
        }
        Ok(())
    }

    fn merge_plain(
        &mut self,
        mut a: Map<String, Value>,
        mut b: Map<String, Value>,
        path: &str,
    ) -> Result<Value, Refusal> {
        if !self.merge_objects(&mut a, &mut b, path)? || !self.merge_lists(&mut a, &mut b, path)? {
            return Ok(false.into());
        }
        let mut rest = Vec::new();
        for group in GROUPS {
            let has =
                |map: &Map<String, Value>| group.iter().any(|keyword| map.contains_key(*keyword));
            if has(&a) && has(&b) {
                let taken = group.iter().filter_map(|keyword| b.shift_remove_entry(*keyword));
                rest.push(Value::Object(taken.collect()));
            }
        }
        for (keyword, theirs) in b {
            let Some(ours) = a.get(&keyword) else {
                a.insert(keyword, theirs);
                continue;
            };
            if *ours == theirs || matches!(keyword.as_str(), "description" | "default") {
                continue;
            }
            match both(&keyword, ours, &theirs) {
                Both::One(value) => {
                    a.insert(keyword, value);
                }
                Both::None => return Ok(false.into()),
                Both::Apart => rest.push(json!({ keyword: theirs })),
            }
        }
        if !rest.is_empty()
            && let Some(all) = a.entry("allOf").or_insert_with(|| json!([])).as_array_mut()
        {
            all.extend(rest);
        }
        Ok(a.into())
    }

    /// Merges the keywords of objects; returns whether any object may still fit.
    fn merge_objects(
        &mut self,
        a: &mut Map<String, Value>,
        b: &mut Map<String, Value>,
        path: &str,
    ) -> Result<bool, Refusal> {
        let (rest_a, rest_b) = (rest_of(a), rest_of(b));
        let Some(Value::Object(mut theirs)) = b.shift_remove("properties") else {
            if let Some(properties) = a.get_mut("properties").and_then(Value::as_object_mut) {
                self.restrict(properties, rest_b, path)?;
            }
            return self.merge_rest(a, b, path);
        };
        let mut merged = match a.shift_remove("properties") {
            Some(Value::Object(ours)) => ours,
            _ => Map::new(),
        };
        let mut known = Map::new();
        for (name, other) in std::mem::take(&mut theirs) {
            let Some(property) = merged.get_mut(&name) else {
                theirs.insert(name, other);
                continue;
            };
            let below = format!("{path}.{name}");
            let both = self.merge(property.take(), other, &below)?;
            known.insert(name, self.finish(both, &below)?);
        }
        self.restrict_but(&mut merged, rest_b, path, &known)?;
        self.restrict(&mut theirs, rest_a, path)?;
        for (name, property) in known {
            merged.insert(name, property);
        }
        merged.extend(theirs);
        a.insert("properties".into(), merged.into());
        self.merge_rest(a, b, path)
    }

    fn restrict(
        &mut self,
        properties: &mut Map<String, Value>,
        rest: Option<Value>,
        path: &str,
    ) -> Result<(), Refusal> {
        self.restrict_but(properties, rest, path, &Map::new())
    }

    /// Applies one side's rule for undeclared fields to the other side's fields, except `known`.
    fn restrict_but(
        &mut self,
        properties: &mut Map<String, Value>,
        rest: Option<Value>,
        path: &str,
        known: &Map<String, Value>,
    ) -> Result<(), Refusal> {
        let Some(rest) = rest else {
            return Ok(());
        };
        for (name, property) in properties {
            if !known.contains_key(name) {
                let below = format!("{path}.{name}");
                let both = self.merge(property.take(), rest.clone(), &below)?;
                *property = self.finish(both, &below)?;
            }
        }
        Ok(())
    }

    fn merge_rest(
        &mut self,
        a: &mut Map<String, Value>,
        b: &mut Map<String, Value>,
        path: &str,
    ) -> Result<bool, Refusal> {
        let below = format!("{path}.*");
        for keyword in ["additionalProperties", "propertyNames"] {
            self.merge_schema(a, b, keyword, &below)?;
        }
        if let (Some(Value::Object(ours)), Some(Value::Object(theirs))) =
            (a.get_mut("patternProperties"), b.get("patternProperties"))
        {
            let theirs = theirs.clone();
            for (pattern, schema) in theirs {
                match ours.get_mut(&pattern) {
                    Some(ours) => *ours = self.merge(ours.take(), schema, &below)?,
                    None => {
                        ours.insert(pattern, schema);
                    }
                }
            }
            b.shift_remove("patternProperties");
        }
        if let (Some(Value::Array(ours)), Some(Value::Array(theirs))) =
            (a.get_mut("required"), b.get("required"))
        {
            // A part has few names, and a set of all others would cost more for each part.
            let more: Vec<_> = if theirs.len() < FEW {
                theirs.iter().filter(|name| !ours.contains(name)).cloned().collect()
            } else {
                let known: HashSet<&Value> = ours.iter().collect();
                theirs.iter().filter(|name| !known.contains(name)).cloned().collect()
            };
            ours.extend(more);
            b.shift_remove("required");
        }
        Ok(true)
    }

    fn merge_lists(
        &mut self,
        a: &mut Map<String, Value>,
        b: &mut Map<String, Value>,
        path: &str,
    ) -> Result<bool, Refusal> {
        let below = format!("{path}[]");
        let (first_a, first_b) = (first_items(a), first_items(b));
        if first_a.is_empty() && first_b.is_empty() {
            self.merge_schema(a, b, "items", &below)?;
            return Ok(true);
        }
        let mut first = Vec::new();
        for i in 0..first_a.len().max(first_b.len()) {
            let item = |first: &[Value], map: &Map<String, Value>| {
                first.get(i).or_else(|| map.get("items")).cloned().unwrap_or_else(|| json!({}))
            };
            let (ours, theirs) = (item(&first_a, a), item(&first_b, b));
            let both = self.merge(ours, theirs, &format!("{path}[{i}]"))?;
            first.push(self.finish(both, &format!("{path}[{i}]"))?);
        }
        b.shift_remove("prefixItems");
        a.insert("prefixItems".into(), first.into());
        self.merge_schema(a, b, "items", &below)?;
        Ok(true)
    }

    fn merge_schema(
        &mut self,
        a: &mut Map<String, Value>,
        b: &mut Map<String, Value>,
        keyword: &str,
        path: &str,
    ) -> Result<(), Refusal> {
        let Some(theirs) = b.shift_remove(keyword) else {
            return Ok(());
        };
        let both = match a.get_mut(keyword) {
            Some(ours) => {
                let both = self.merge(ours.take(), theirs, path)?;
                self.finish(both, path)?
            }
            None => theirs,
        };
        a.insert(keyword.to_owned(), both);
        Ok(())
    }
}

fn first_items(map: &Map<String, Value>) -> Vec<Value> {
    map.get("prefixItems").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Returns the rule for undeclared fields; `None` if there are patterns.
fn rest_of(map: &Map<String, Value>) -> Option<Value> {
    if map.contains_key("patternProperties") {
        return None;
    }
    map.get("additionalProperties").filter(|rest| **rest != Value::Bool(true)).cloned()
}

pub(super) fn says_nothing(map: &Map<String, Value>) -> bool {
    map.keys().all(|keyword| is_annotation(keyword))
}

pub(super) fn union_of(map: &Map<String, Value>) -> Option<&'static str> {
    ["anyOf", "oneOf"].into_iter().find(|keyword| map.contains_key(*keyword))
}

/// Adds annotations that a schema does not have yet.
fn annotate(map: &mut Map<String, Value>, annotations: Map<String, Value>) {
    for (keyword, value) in annotations {
        map.entry(keyword).or_insert(value);
    }
}

fn override_annotations(schema: &mut Value, annotations: Map<String, Value>) {
    if let Some(map) = schema.as_object_mut() {
        map.extend(annotations);
    }
}

enum Both {
    /// One value of the keyword has the effect of both.
    One(Value),
    /// No value fits both.
    None,
    /// Both have to be kept separately.
    Apart,
}

fn both(keyword: &str, a: &Value, b: &Value) -> Both {
    match known(keyword).map(|known| known.role) {
        Some(Role::Least) => return further(a, b, Ordering::Less),
        Some(Role::Most) => return further(a, b, Ordering::Greater),
        _ => {}
    }
    match keyword {
        "type" => same_types(a, b),
        "const" => Both::None,
        "enum" => common(a, b),
        "uniqueItems" => Both::One((a == true || b == true).into()),
        "multipleOf" => common_multiple(a, b),
        "allOf" => {
            let all = [a, b].into_iter().filter_map(Value::as_array).flatten().cloned();
            Both::One(all.collect())
        }
        _ => Both::Apart,
    }
}

/// Returns the stricter bound.
fn further(a: &Value, b: &Value, when: Ordering) -> Both {
    let (Some(x), Some(y)) = (a.as_f64(), b.as_f64()) else {
        return Both::Apart;
    };
    Both::One(if x.partial_cmp(&y) == Some(when) { b.clone() } else { a.clone() })
}

/// Returns the types of a `type` as a list.
pub(super) fn types(kind: &Value) -> Vec<&str> {
    match kind {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn same_types(a: &Value, b: &Value) -> Both {
    let (a, b) = (types(a), types(b));
    let has =
        |list: &[&str], kind| list.contains(&kind) || kind == "integer" && list.contains(&"number");
    let mut same: Vec<&str> = a.iter().copied().filter(|kind| has(&b, kind)).collect();
    same.extend(b.iter().copied().filter(|kind| has(&a, kind) && !a.contains(kind)));
    match same.as_slice() {
        [] => Both::None,
        [one] => Both::One((*one).into()),
        many => Both::One(json!(many)),
    }
}

fn common(a: &Value, b: &Value) -> Both {
    let (Some(a), Some(b)) = (a.as_array(), b.as_array()) else {
        return Both::Apart;
    };
    let b: HashSet<&Value> = b.iter().collect();
    let same: Vec<_> = a.iter().filter(|value| b.contains(value)).cloned().collect();
    if same.is_empty() { Both::None } else { Both::One(same.into()) }
}

fn common_multiple(a: &Value, b: &Value) -> Both {
    let (Some(x), Some(y)) = (a.as_u64(), b.as_u64()) else {
        return Both::Apart;
    };
    let (mut divisor, mut rest) = (x, y);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    match x.checked_div(divisor).and_then(|x| x.checked_mul(y)) {
        Some(multiple) => Both::One(Number::from(multiple).into()),
        None => Both::Apart,
    }
}
