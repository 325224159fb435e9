//! The normal form: one notation for each rule, for schemas from any source.
//!
//! Begin with [`normal`]. The input is a checked schema with the keywords of JSON Schema 2020-12.
//! The output has the same meaning, and the [graph](super::graph) is made from it:
//!
//! ```text
//! {"allOf": [{"properties": {"a": {"type": "string"}}}, {"required": ["a"]}], "title": "A"}
//! → {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
//! ```
//!
//! In the normal form
//!
//! - definitions are at the root, under `$defs`, and all of them are used;
//! - a reference leads to a definition or to the root (`#`), and has at most a description and a
//!   default beside it;
//! - a union (`anyOf`, `oneOf`) has nothing beside it but these two: rules for all members are
//!   repeated in each member;
//! - `allOf` is merged; rules that cannot be merged stay in it, and only constrain;
//! - every other schema has a `type`, with at most one type besides null if that is object or
//!   array; `{}` is any value, `false` is no value;
//! - annotations are removed, except for description and default.
//!
//! Each schema takes two steps. [`Normal::gather`] puts all rules for a value together, and `merge`
//! merges two of them. [`Normal::finish`] then gives types, listed values and unions their one
//! notation. The three files use each other, because merging two objects gathers and finishes the
//! schemas of their fields.

mod finish;
mod merge;

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value, json};

use super::keywords::{DEFINITIONS, Keywords, Role, below, keyword as known, path_below, text};
use super::{free_name, plain_name, pointer_of, reference_to};
use crate::error::{Checked, SchemaFault, refuse, shown};
use crate::limits::{NORMAL_DEPTH, NORMAL_STEPS};

/// The fault and the fix of a schema that no value fits.
pub(crate) const NOTHING_FITS: &str =
    "no value fits; its parts contradict each other, so change or remove one";

/// Converts a schema with the keywords of 2020-12 to the normal form.
///
/// # Errors
///
/// The error has the path of a part that cannot be converted: a reference without a schema, a
/// part that no value fits, or a schema that exceeds the work limit.
pub(crate) fn normal(root: &Value) -> Checked<Value> {
    let mut normal = Normal {
        root,
        names: HashMap::new(),
        pointers: HashMap::new(),
        numbers: HashMap::new(),
        waiting: VecDeque::new(),
        closed: HashMap::new(),
        merging: Vec::new(),
        contradiction: None,
        steps: 0,
        depth: 0,
        infer: true,
    };
    normal.run()
}

/// The state of one conversion.
struct Normal<'a> {
    /// The schema to convert.
    root: &'a Value,
    /// The names of references, by the pointers that they lead to.
    names: HashMap<String, String>,
    /// The reverse of `names`.
    pointers: HashMap<String, String>,
    /// The last number used for each name that several definitions share.
    numbers: HashMap<String, usize>,
    /// Definitions that are used but not converted yet: pointer and name.
    waiting: VecDeque<(String, String)>,
    /// The references to a definition with a rule for its undeclared fields, and that rule.
    closed: HashMap<String, Value>,
    /// The references that are being merged.
    merging: Vec<String>,
    /// The first place where two parts excluded each other.
    contradiction: Option<String>,
    steps: usize,
    depth: usize,
    /// Whether a missing type is inferred. Not in a constraint, which may apply to values of other
    /// types.
    infer: bool,
}

impl<'a> Normal<'a> {
    /// Converts the root, and then every definition that is used.
    fn run(&mut self) -> Checked<Value> {
        let start = self.end_of_aliases(String::new(), "$")?;
        self.names.insert(start.clone(), "#".into());
        self.pointers.insert("#".into(), start.clone());
        let mut schema = self.node(self.at(&start), "$")?;
        if schema == false {
            let path = self.contradiction.as_deref().unwrap_or("$");
            return refuse(SchemaFault::Contradiction, path, NOTHING_FITS);
        }
        let mut definitions = Map::new();
        while let Some((pointer, name)) = self.waiting.pop_front() {
            let path = format!("#/{DEFINITIONS}/{name}");
            let definition = self.definition(&pointer, &reference_to(&name), &path)?;
            let definition = self.finish(definition, &path)?;
            definitions.insert(name, definition);
        }
        // Some definitions were merged and are not used any more.
        keep_used(&schema, &mut definitions);
        if let (false, Some(root)) = (definitions.is_empty(), schema.as_object_mut()) {
            root.insert(DEFINITIONS.into(), definitions.into());
        }
        Ok(schema)
    }

    /// Returns the schema at a pointer.
    fn at(&self, pointer: &str) -> &'a Value {
        self.root.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// Counts a schema, and fails beyond the limit.
    fn spend(&mut self, path: &str) -> Checked {
        self.steps += 1;
        if self.steps > NORMAL_STEPS {
            let advice = "the schema is too large once its parts are put together; split it";
            return refuse(SchemaFault::TooLarge, path, advice);
        }
        Ok(())
    }

    /// Runs a step one level deeper.
    fn deeper(
        &mut self,
        path: &str,
        advice: &str,
        step: impl FnOnce(&mut Self) -> Checked<Value>,
    ) -> Checked<Value> {
        if self.depth >= NORMAL_DEPTH {
            return refuse(SchemaFault::TooDeep, path, advice);
        }
        self.depth += 1;
        let done = step(self);
        self.depth -= 1;
        done
    }

    /// Returns the normal form of a schema, with a missing type inferred.
    fn node(&mut self, schema: &Value, path: &str) -> Checked<Value> {
        let gathered = self.gather(schema, path)?;
        self.finish(gathered, path)
    }

    /// Merges all rules of a schema for its value; types are unchanged.
    ///
    /// ```text
    /// {"$ref": "#/$defs/A", "minimum": 1}, where A is {"type": "integer"}
    /// → {"type": "integer", "minimum": 1}
    /// ```
    /// A reference without other rules stays a reference.
    fn gather(&mut self, schema: &Value, path: &str) -> Checked<Value> {
        self.spend(path)?;
        match schema {
            Value::Bool(true) => Ok(json!({})),
            Value::Bool(false) => Ok(false.into()),
            Value::Object(map) => {
                self.deeper(path, "it nests too deep; make it flatter", |normal| {
                    normal.gather_map(map, path)
                })
            }
            _ => refuse(SchemaFault::Malformed, path, "a JSON Schema is an object or a boolean"),
        }
    }

    /// Merges the keywords of a schema with its references, unions and `allOf`.
    fn gather_map(&mut self, map: &Keywords, path: &str) -> Checked<Value> {
        let mut own = Map::new();
        let mut parts = Vec::new();
        for (keyword, value) in map {
            match keyword.as_str() {
                "$ref" => parts.push(self.reference(value, path)?),
                "anyOf" | "oneOf" | "allOf" => self.members(keyword, value, path, &mut parts)?,
                _ => {
                    let normal = self.keyword(keyword, value, path)?;
                    own.extend(normal.map(|normal| (keyword.clone(), normal)));
                }
            }
        }
        let mut whole = Value::Object(own);
        for part in parts {
            whole = self.merge(whole, part, path)?;
        }
        if let Some(rest) = map.get("unevaluatedProperties") {
            let rest = self.node(rest, path)?;
            whole = self.closed(whole, &rest, path)?;
        }
        if let Some(whole) = whole.as_object_mut() {
            items_of_unevaluated(whole);
        }
        Ok(whole)
    }

    /// Returns an object with `additionalProperties`, if it has none.
    ///
    /// A union is closed in each member, because the normal form has nothing beside a union. A value
    /// that fits several members of an `anyOf` may have the fields of all of them, so these together are
    /// further members. Instead of the target of a reference, a further definition is closed: it may
    /// contain itself.
    fn closed(&mut self, schema: Value, rest: &Value, path: &str) -> Checked<Value> {
        self.spend(path)?;
        let Value::Object(mut map) = schema else {
            return Ok(schema);
        };
        if let Some(reference) = text(&map, "$ref") {
            let reference = self.closed_reference(reference, rest);
            map.insert("$ref".into(), reference.into());
            return Ok(map.into());
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(mut members)) = map.get_mut(keyword).map(Value::take) {
                if keyword == "anyOf" {
                    let together = self.together(&members, path);
                    members.extend(together);
                }
                let members = members.into_iter().map(|member| self.closed(member, rest, path));
                map.insert(keyword.to_owned(), members.collect::<Checked<Vec<_>>>()?.into());
                return Ok(map.into());
            }
        }
        map.entry("additionalProperties").or_insert_with(|| rest.clone());
        Ok(map.into())
    }

    /// Returns the schemas of values that fit several members of a union. It leaves out unions with many
    /// members, and members that cannot be merged.
    ///
    /// A member with a rule of its own for undeclared fields already takes all that it has in common
    /// with others.
    fn together(&mut self, members: &[Value], path: &str) -> Vec<Value> {
        /// Maximum number of members. Their number of combinations grows fast.
        const MOST: u32 = 4;
        let members: Vec<&Value> = members.iter().filter(|one| self.is_open(one, path)).collect();
        let count = u32::try_from(members.len()).ok().filter(|count| *count <= MOST).unwrap_or(0);
        let several = (1_u32..1 << count).filter(|set| set.count_ones() > 1);
        let several = several.filter_map(|set| {
            let chosen = members.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
            let all = chosen.map(|(_, member)| (*member).clone());
            all.map(Ok).reduce(|a, b| self.merge(a?, b?, path)).and_then(Checked::ok)
        });
        several.filter(|together| *together != Value::Bool(false)).collect()
    }

    /// Whether a schema has no rule for undeclared fields.
    fn is_open(&mut self, schema: &Value, path: &str) -> bool {
        let target = match schema["$ref"].as_str() {
            Some(reference) => self.inlined(reference, path),
            None => Ok(schema.clone()),
        };
        target.is_ok_and(|target| target.get("additionalProperties").is_none())
    }

    /// Returns the reference to a definition that has a rule for its undeclared fields.
    fn closed_reference(&mut self, reference: &str, rest: &Value) -> String {
        // It has a rule already.
        if self.closed.contains_key(reference) {
            return reference.to_owned();
        }
        let pointer = self.pointers.get(reference).cloned().unwrap_or_default();
        // Not the pointer of any schema.
        let key = format!("{rest}{pointer}");
        if let Some(known) = self.names.get(&key) {
            return known.clone();
        }
        let name = self.name_of(&pointer);
        let reference = reference_to(&name);
        self.names.insert(key, reference.clone());
        self.pointers.insert(reference.clone(), pointer.clone());
        self.closed.insert(reference.clone(), rest.clone());
        self.waiting.push_back((pointer, name));
        reference
    }

    /// Returns the value of a keyword with its schemas in the normal form; `None` for a keyword that
    /// the normal form does not have.
    fn keyword(&mut self, keyword: &str, value: &Value, path: &str) -> Checked<Option<Value>> {
        let known = known(keyword).filter(|known| known.role != Role::Other);
        let Some(known) = known.filter(|_| keyword != "unevaluatedProperties") else {
            return Ok(None);
        };
        let outer = self.infer;
        self.infer &= known.role != Role::Rule;
        let normal = match value {
            _ if !known.holds_schemas() => Ok(value.clone()),
            Value::Array(list) => {
                let item = |(i, item)| self.node(item, &format!("{path}[{i}]"));
                list.iter().enumerate().map(item).collect()
            }
            Value::Object(named) if known.holds_named() => {
                let entry = |(name, schema): (&String, _)| {
                    let below = path_below(path, keyword, Some(name));
                    Ok((name.clone(), self.node(schema, &below)?))
                };
                named.iter().map(entry).collect()
            }
            one => self.node(one, &path_below(path, keyword, None)),
        };
        self.infer = outer;
        normal.map(Some)
    }

    /// Gathers the members of `allOf` as parts to merge, and a union as one part.
    fn members(
        &mut self,
        keyword: &str,
        value: &Value,
        path: &str,
        parts: &mut Vec<Value>,
    ) -> Checked {
        let Some(members) = value.as_array().filter(|members| !members.is_empty()) else {
            let advice = format!("`{keyword}` has no members; add at least one");
            return refuse(SchemaFault::Malformed, path, advice);
        };
        let gathered = members.iter().map(|member| self.gather(member, path));
        let gathered = gathered.collect::<Checked<Vec<_>>>()?;
        match keyword {
            "allOf" => parts.extend(gathered),
            _ => parts.push(json!({ keyword: gathered })),
        }
        Ok(())
    }

    /// Returns a reference in the normal form. Its target is converted once, under `$defs`.
    fn reference(&mut self, reference: &Value, path: &str) -> Checked<Value> {
        let pointer = self.pointer_of(reference, path)?;
        let pointer = self.end_of_aliases(pointer, path)?;
        let name = match self.names.get(&pointer) {
            Some(name) => name.clone(),
            None => self.name(pointer),
        };
        Ok(json!({ "$ref": name }))
    }

    /// Names the target of a pointer under `$defs`, and schedules its conversion.
    ///
    /// ```text
    /// "/$defs/A" → "#/$defs/A"        "/properties/a" → "#/$defs/a", or "#/$defs/a_2" if `a` is taken
    /// ```
    fn name(&mut self, pointer: String) -> String {
        let name = self.name_of(&pointer);
        let reference = reference_to(&name);
        self.names.insert(pointer.clone(), reference.clone());
        self.pointers.insert(reference.clone(), pointer.clone());
        self.waiting.push_back((pointer, name));
        reference
    }

    /// Returns a name for a definition that no other has.
    fn name_of(&mut self, pointer: &str) -> String {
        let last = pointer.rsplit('/').next().unwrap_or("");
        let last = plain_name(&last.replace("~1", "/").replace("~0", "~"));
        let last = if last.is_empty() { "definition".to_owned() } else { last };
        let number = self.numbers.entry(last.clone()).or_insert(1);
        free_name(&last, number, |name| self.pointers.contains_key(&reference_to(name)))
    }

    /// Resolves aliases: definitions that consist of a reference only.
    ///
    /// ```text
    /// A: {"$ref": "#/$defs/B"}, B: {"type": "object"}: a reference to A leads to B
    /// ```
    fn end_of_aliases(&mut self, mut pointer: String, path: &str) -> Checked<String> {
        let mut seen = HashSet::new();
        loop {
            let target = self.at(&pointer);
            let at_root = pointer.is_empty();
            let Some(reference) = target.as_object().and_then(|map| alone(map, at_root)) else {
                return Ok(pointer);
            };
            self.spend(path)?;
            if !seen.insert(pointer) {
                return refuse(SchemaFault::Circular, path, "the reference leads back to itself");
            }
            pointer = self.pointer_of(reference, path)?;
        }
    }

    /// Returns the JSON pointer of a reference, or an error if it leads nowhere.
    fn pointer_of(&self, reference: &Value, path: &str) -> Checked<String> {
        pointer_of(self.root, reference).map_or_else(|| leads_nowhere(path, reference), Ok)
    }

    /// Returns the target of a reference in the normal form, to be merged.
    ///
    /// A reference that is merged into itself would never end, and is an error.
    fn inlined(&mut self, reference: &str, path: &str) -> Checked<Value> {
        if self.merging.iter().any(|merging| merging == reference) {
            let name = shown(reference);
            let advice = format!("`{name}` is part of itself; refer to it from a property instead");
            return refuse(SchemaFault::Circular, path, advice);
        }
        let pointer = self.pointers.get(reference).cloned().unwrap_or_default();
        self.merging.push(reference.to_owned());
        let target = self.definition(&pointer, reference, path);
        self.merging.pop();
        target
    }

    /// Merges all rules of the target of a reference.
    fn definition(&mut self, pointer: &str, reference: &str, path: &str) -> Checked<Value> {
        let target = self.gather(self.at(pointer), path)?;
        match self.closed.get(reference).cloned() {
            Some(rest) => self.closed(target, &rest, path),
            None => Ok(target),
        }
    }
}

/// Returns the reference of a schema that has no other rule. The type of an object root does not
/// count.
fn alone(map: &Keywords, at_root: bool) -> Option<&Value> {
    let reference = map.get("$ref")?;
    let idle = |keyword: &str| {
        at_root
            && (keyword == "description"
                || keyword == "type" && map.get(keyword) == Some(&Value::from("object")))
    };
    let speaks = |keyword: &String| {
        known(keyword).is_some_and(|known| known.role != Role::Other) && !idle(keyword)
    };
    (!map.keys().any(speaks)).then_some(reference)
}

/// Replaces `unevaluatedItems` by `items`, if no keyword but `prefixItems` is about items.
fn items_of_unevaluated(map: &mut Keywords) {
    let others = ["items", "contains", "allOf", "anyOf", "oneOf", "if", "then", "else"];
    if others.iter().any(|keyword| map.contains_key(*keyword)) {
        return;
    }
    if let Some(rest) = map.shift_remove("unevaluatedItems") {
        map.insert("items".into(), rest);
    }
}

/// Keeps the definitions that a schema uses, directly or indirectly.
///
/// The order of the definitions does not change.
pub(crate) fn keep_used(root: &Value, definitions: &mut Keywords) {
    let prefix = format!("#/{DEFINITIONS}/");
    let mut used = HashSet::new();
    let mut waiting = vec![root];
    while let Some(schema) = waiting.pop() {
        let Some(map) = schema.as_object() else {
            continue;
        };
        let reference = text(map, "$ref");
        if let Some(name) = reference.and_then(|reference| reference.strip_prefix(&prefix))
            && used.insert(name.to_owned())
        {
            waiting.extend(definitions.get(name));
        }
        waiting.extend(below(map).into_iter().map(|(_, _, schema)| schema));
    }
    definitions.retain(|name, _| used.contains(name));
}

/// Returns the error of a reference without a target.
pub(crate) fn leads_nowhere<T>(path: &str, reference: &Value) -> Checked<T> {
    let reference = shown(&reference.to_string());
    let advice = "leads nowhere in this schema; put its target under `$defs`";
    refuse(SchemaFault::Unresolved, path, format!("the reference {reference} {advice}"))
}
