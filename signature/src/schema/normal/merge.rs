//! Merging two schemas that both apply, for `allOf` and for keywords beside a reference.
//!
//! Begin with [`Normal::merge`]:
//!
//! ```text
//! {"type": "integer", "minimum": 1} and {"type": "number", "minimum": 3}
//! → {"type": "integer", "minimum": 3}
//! {"pattern": "^a"} and {"pattern": "z$"}
//! → {"pattern": "^a", "allOf": [{"pattern": "z$"}]}
//! ```
//!
//! References are replaced by their targets, and a schema is merged into each member of a union.
//! How two values of one keyword are merged depends on its role ([`both`]). Two rules without a
//! common value give `false`; rules that cannot be merged are kept in `allOf`. Merging may multiply
//! schemas, so it counts every copy.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::{Map, Number, Value, json};

use super::super::keywords::{Keywords, Role, is_annotation, items, keyword as known};
use super::super::types::Types;
use super::Normal;
use crate::error::Checked;

/// Keywords that only have a meaning together.
const GROUPS: [&[&str]; 2] = [&["if", "then", "else"], &["contains", "minContains", "maxContains"]];

impl Normal<'_> {
    /// Returns the schema of values that fit both. Annotations of the first have priority.
    pub(super) fn merge(&mut self, a: Value, b: Value, path: &str) -> Checked<Value> {
        self.spend(path)?;
        // Merging two schemas that contain themselves would never end.
        let advice = "its parts nest too deep to be put together; make it flatter";
        let merged = self.deeper(path, advice, |normal| normal.merge_values(a, b, path))?;
        if merged == false {
            self.contradiction.get_or_insert_with(|| path.to_owned());
        }
        Ok(merged)
    }

    /// Returns the normal form of values that fit both.
    pub(super) fn merge_parts(&mut self, a: Value, b: Value, path: &str) -> Checked<Value> {
        let both = self.merge(a, b, path)?;
        self.finish(both, path)
    }

    /// Merges references, unions and plain schemas, in this order.
    fn merge_values(&mut self, a: Value, b: Value, path: &str) -> Checked<Value> {
        let (Value::Object(mut a), Value::Object(mut b)) = (a, b) else {
            return Ok(false.into());
        };
        if says_nothing(&b) {
            for (keyword, value) in b {
                a.entry(keyword).or_insert(value);
            }
            return Ok(a.into());
        }
        if says_nothing(&a) {
            b.extend(a);
            return Ok(b.into());
        }
        if a == b {
            return Ok(a.into());
        }
        if let Some(Value::String(reference)) = a.shift_remove("$ref") {
            let target = self.inlined_with(&reference, a, path)?;
            return self.merge(target, b.into(), path);
        }
        if let Some(Value::String(reference)) = b.shift_remove("$ref") {
            let target = self.inlined_with(&reference, b, path)?;
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

    /// Returns the target of a reference, with the annotations beside the reference.
    pub(super) fn inlined_with(
        &mut self,
        reference: &str,
        beside: Keywords,
        path: &str,
    ) -> Checked<Value> {
        let mut target = self.inlined(reference, path)?;
        if let Some(target) = target.as_object_mut() {
            target.extend(beside);
        }
        Ok(target)
    }

    /// Merges a schema into each member of a union.
    ///
    /// ```text
    /// anyOf [A, B] and C → anyOf [A and C, B and C]
    /// ```
    /// Descriptions and defaults of both stay beside the union. Members that no value fits any more
    /// are dropped.
    fn in_members(
        &mut self,
        keyword: &str,
        mut union: Keywords,
        mut other: Keywords,
        path: &str,
        union_first: bool,
    ) -> Checked<Value> {
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
    fn spend_copy(&mut self, map: &Keywords, path: &str) -> Checked {
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

    /// Merges two schemas without references and unions, keyword by keyword.
    fn merge_plain(&mut self, mut a: Keywords, mut b: Keywords, path: &str) -> Checked<Value> {
        let mut rest = Vec::new();
        rest.extend(apart_fields(&mut a, &mut b).map(Value::Object));
        self.merge_objects(&mut a, &mut b, path)?;
        self.merge_lists(&mut a, &mut b, path)?;
        for group in GROUPS {
            let has = |map: &Keywords| group.iter().any(|keyword| map.contains_key(*keyword));
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
            // A rule may be merged twice.
            rest.retain(|rule| !all.contains(rule));
            all.extend(rest);
        }
        Ok(a.into())
    }

    /// Merges the keywords of objects. The rule of each side for undeclared fields applies to fields
    /// that only the other side declares.
    ///
    /// ```text
    /// {"a": A, …others: R} and {"a": B, "c": C} → {"a": A and B, "c": C and R}
    /// ```
    fn merge_objects(&mut self, a: &mut Keywords, b: &mut Keywords, path: &str) -> Checked {
        let (rest_a, rest_b) = (rest_of(a), rest_of(b));
        let theirs = b.shift_remove("properties");
        let ours = match theirs {
            Some(_) => a.shift_remove("properties"),
            None => a.get_mut("properties").map(Value::take),
        };
        if ours.is_none() && theirs.is_none() {
            return self.merge_rest(a, b, path);
        }
        let [mut ours, mut theirs] = [ours, theirs].map(|fields| match fields {
            Some(Value::Object(fields)) => fields,
            _ => Map::new(),
        });
        for (name, property) in &mut ours {
            let other = theirs.get_mut(name).map(Value::take).or_else(|| rest_b.clone());
            if let Some(other) = other {
                *property = self.merge_parts(property.take(), other, &format!("{path}.{name}"))?;
            }
        }
        for (name, mut property) in theirs {
            if ours.contains_key(&name) {
                continue;
            }
            if let Some(rest) = rest_a.clone() {
                property = self.merge_parts(property, rest, &format!("{path}.{name}"))?;
            }
            ours.insert(name, property);
        }
        a.insert("properties".into(), ours.into());
        self.merge_rest(a, b, path)
    }

    /// Merges the other keywords of objects.
    fn merge_rest(&mut self, a: &mut Keywords, b: &mut Keywords, path: &str) -> Checked {
        let below = format!("{path}.*");
        for keyword in ["additionalProperties", "propertyNames"] {
            self.merge_schema(a, b, keyword, &below)?;
        }
        if a.contains_key("patternProperties")
            && let Some(Value::Object(theirs)) = b.shift_remove("patternProperties")
            && let Some(Value::Object(ours)) = a.get_mut("patternProperties")
        {
            for (pattern, schema) in theirs {
                match ours.get_mut(&pattern) {
                    Some(ours) => *ours = self.merge(ours.take(), schema, &below)?,
                    None => drop(ours.insert(pattern, schema)),
                }
            }
        }
        if a.contains_key("required")
            && let Some(Value::Array(mut theirs)) = b.shift_remove("required")
            && let Some(Value::Array(ours)) = a.get_mut("required")
        {
            let known: HashSet<&Value> = ours.iter().collect();
            theirs.retain(|name| !known.contains(name));
            ours.extend(theirs);
        }
        Ok(())
    }

    /// Merges the keywords of lists. A position that only one tuple has is merged with the other's
    /// items.
    fn merge_lists(&mut self, a: &mut Keywords, b: &mut Keywords, path: &str) -> Checked {
        let places = items(a, "prefixItems").len().max(items(b, "prefixItems").len());
        let mut first = Vec::new();
        for i in 0..places {
            let item = |map: &Keywords| {
                let item = items(map, "prefixItems").nth(i).or_else(|| map.get("items"));
                item.cloned().unwrap_or_else(|| json!({}))
            };
            first.push(self.merge_parts(item(a), item(b), &format!("{path}[{i}]"))?);
        }
        if places > 0 {
            b.shift_remove("prefixItems");
            a.insert("prefixItems".into(), first.into());
        }
        self.merge_schema(a, b, "items", &format!("{path}[]"))
    }

    /// Merges the schemas under one keyword.
    fn merge_schema(
        &mut self,
        a: &mut Keywords,
        b: &mut Keywords,
        keyword: &str,
        path: &str,
    ) -> Checked {
        let Some(theirs) = b.shift_remove(keyword) else {
            return Ok(());
        };
        let both = match a.get_mut(keyword) {
            Some(ours) => self.merge_parts(ours.take(), theirs, path)?,
            None => theirs,
        };
        a.insert(keyword.to_owned(), both);
        Ok(())
    }
}

/// Takes the rules for fields from one of two schemas, if they cannot be merged: one has patterns, and
/// a rule for undeclared fields would not apply to the same fields any more.
///
/// ```text
/// {"properties": {"c": C}, "additionalProperties": false} and {"patternProperties": {"^x": X}}
/// → both are kept: a field `x1` fits only the second
/// ```
fn apart_fields(a: &mut Keywords, b: &mut Keywords) -> Option<Keywords> {
    for map in [&mut *a, &mut *b] {
        if map.get("patternProperties") == Some(&json!({})) {
            map.shift_remove("patternProperties");
        }
    }
    const FIELDS: [&str; 3] = ["properties", "patternProperties", "additionalProperties"];
    let has = |map: &Keywords| FIELDS.iter().any(|keyword| map.contains_key(*keyword));
    let patterns = [&*a, &*b].iter().any(|map| map.contains_key("patternProperties"));
    if !(patterns && has(a) && has(b) && (rest_of(a).is_some() || rest_of(b).is_some())) {
        return None;
    }
    let take = |map: &mut Keywords| -> Keywords {
        FIELDS.iter().filter_map(|keyword| map.shift_remove_entry(*keyword)).collect()
    };
    let (mut first, mut second) = (take(a), take(b));
    // The declared fields stay where a model sees them.
    if !first.contains_key("properties") && second.contains_key("properties") {
        std::mem::swap(&mut first, &mut second);
    }
    let same = first == second;
    // One of the two has a rule for undeclared fields, so neither declares all fields.
    for part in [&mut first, &mut second] {
        part.entry("additionalProperties").or_insert(true.into());
    }
    a.extend(first);
    (!same).then_some(second)
}

/// Returns the rule for undeclared fields.
fn rest_of(map: &Keywords) -> Option<Value> {
    map.get("additionalProperties").filter(|rest| **rest != Value::Bool(true)).cloned()
}

/// Whether a schema has annotations only.
pub(super) fn says_nothing(map: &Keywords) -> bool {
    map.keys().all(|keyword| is_annotation(keyword))
}

/// Returns the keyword of a union.
pub(super) fn union_of(map: &Keywords) -> Option<&'static str> {
    ["anyOf", "oneOf"].into_iter().find(|keyword| map.contains_key(*keyword))
}

/// Two values of one keyword, merged.
enum Both {
    /// One value of the keyword has the effect of both.
    One(Value),
    /// No value fits both.
    None,
    /// Both have to be kept separately.
    Apart,
}

/// Merges two different values of a keyword.
fn both(keyword: &str, a: &Value, b: &Value) -> Both {
    let role = known(keyword).map(|known| known.role);
    match keyword {
        _ if role == Some(Role::Least) => further(a, b, Ordering::Less),
        _ if role == Some(Role::Most) => further(a, b, Ordering::Greater),
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
///
/// Of two lower bounds it is the larger one, of two upper bounds the smaller one.
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

/// Returns the types in both lists. Integers are numbers.
fn same_types(a: &Value, b: &Value) -> Both {
    let [in_a, in_b] =
        [a, b].map(|kinds| move |kind: &&str| Types::of_keyword(kinds).has(Types::named(kind)));
    let (a, b) = (types(a), types(b));
    let mut same: Vec<&str> = a.iter().copied().filter(in_b).collect();
    same.extend(b.into_iter().filter(in_a).filter(|kind| !a.contains(kind)));
    match same.as_slice() {
        [] => Both::None,
        [one] => Both::One((*one).into()),
        many => Both::One(json!(many)),
    }
}

/// Returns the listed values in both lists.
fn common(a: &Value, b: &Value) -> Both {
    let (Some(a), Some(b)) = (a.as_array(), b.as_array()) else {
        return Both::Apart;
    };
    let b: HashSet<&Value> = b.iter().collect();
    let same: Vec<_> = a.iter().filter(|value| b.contains(value)).cloned().collect();
    if same.is_empty() { Both::None } else { Both::One(same.into()) }
}

/// Returns the least common multiple of two whole steps.
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
