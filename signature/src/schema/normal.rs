//! The normal form: one notation for each rule, for schemas from any source.
//!
//! The input is a checked schema with the keywords of JSON Schema 2020-12. The output has the same
//! meaning, and the [graph](super::graph) is made from it.
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

mod finish;
mod merge;

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value};

use super::keywords::{DEFINITIONS, Role, below, keyword as known};
use super::{free_name, percent_decoded, plain_name, reference_to};
use crate::error::{SchemaFault, shown};
use crate::limits::{NORMAL_DEPTH, NORMAL_STEPS};

/// The reason, the place and the fix for a rejected schema.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) fault: SchemaFault,
    pub(crate) path: String,
    pub(crate) advice: String,
}

impl Refusal {
    pub(crate) fn new(fault: SchemaFault, path: &str, advice: impl Into<String>) -> Self {
        Self { fault, path: path.to_owned(), advice: advice.into() }
    }
}

pub(crate) const NOTHING_FITS: &str =
    "no value fits; its parts contradict each other, so change or remove one";

/// Converts a schema with the keywords of 2020-12 to the normal form.
///
/// # Errors
///
/// The error has the path of a part that cannot be converted: a reference without a schema, a
/// part that no value fits, or a schema that exceeds the work limit.
pub(crate) fn normal(root: &Value) -> Result<Value, Refusal> {
    let mut normal = Normal {
        root,
        names: HashMap::new(),
        pointers: HashMap::new(),
        numbers: HashMap::new(),
        waiting: VecDeque::new(),
        merging: Vec::new(),
        contradiction: None,
        steps: 0,
        depth: 0,
        infer: true,
    };
    normal.run()
}

struct Normal<'a> {
    root: &'a Value,
    /// The names of references, by the pointers that they lead to.
    names: HashMap<String, String>,
    /// The reverse of `names`.
    pointers: HashMap<String, String>,
    /// The last number used for each name that several definitions share.
    numbers: HashMap<String, usize>,
    /// Definitions that are used but not converted yet: pointer and name.
    waiting: VecDeque<(String, String)>,
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
    fn run(&mut self) -> Result<Value, Refusal> {
        let start = self.end_of_aliases(String::new(), "$")?;
        self.names.insert(start.clone(), "#".into());
        self.pointers.insert("#".into(), start.clone());
        let mut schema = self.node(self.at(&start), "$")?;
        if schema == false {
            let path = self.contradiction.take();
            return Err(Refusal::new(
                SchemaFault::Contradiction,
                path.as_deref().unwrap_or("$"),
                NOTHING_FITS,
            ));
        }
        let mut definitions = Map::new();
        while let Some((pointer, name)) = self.waiting.pop_front() {
            let path = format!("#/{DEFINITIONS}/{name}");
            let definition = self.node(self.at(&pointer), &path)?;
            definitions.insert(name, definition);
        }
        // Some definitions were merged and are not used any more.
        keep_used(&schema, &mut definitions);
        if let (false, Some(root)) = (definitions.is_empty(), schema.as_object_mut()) {
            root.insert(DEFINITIONS.into(), definitions.into());
        }
        Ok(schema)
    }

    fn at(&self, pointer: &str) -> &'a Value {
        self.root.pointer(pointer).unwrap_or(&Value::Null)
    }

    fn spend(&mut self, path: &str) -> Result<(), Refusal> {
        self.steps += 1;
        if self.steps > NORMAL_STEPS {
            let advice = "the schema is too large once its parts are put together; split it";
            return Err(Refusal::new(SchemaFault::TooLarge, path, advice));
        }
        Ok(())
    }

    /// Returns the normal form of a schema, with a missing type inferred.
    fn node(&mut self, schema: &Value, path: &str) -> Result<Value, Refusal> {
        let gathered = self.gather(schema, path)?;
        self.finish(gathered, path)
    }

    /// Merges all rules of a schema for its value; types are unchanged.
    fn gather(&mut self, schema: &Value, path: &str) -> Result<Value, Refusal> {
        self.spend(path)?;
        let map = match schema {
            Value::Bool(true) => return Ok(Map::new().into()),
            Value::Bool(false) => return Ok(false.into()),
            Value::Object(map) => map,
            _ => {
                return Err(Refusal::new(
                    SchemaFault::Malformed,
                    path,
                    "a JSON Schema is an object or a boolean",
                ));
            }
        };
        if self.depth >= NORMAL_DEPTH {
            return Err(Refusal::new(
                SchemaFault::TooDeep,
                path,
                "it nests too deep; make it flatter",
            ));
        }
        self.depth += 1;
        let gathered = self.gather_map(map, path);
        self.depth -= 1;
        gathered
    }

    fn gather_map(&mut self, map: &Map<String, Value>, path: &str) -> Result<Value, Refusal> {
        let mut own = Map::new();
        let mut parts = Vec::new();
        for (keyword, value) in map {
            match keyword.as_str() {
                "$ref" | "$dynamicRef" => parts.push(self.reference(value, path)?),
                "anyOf" | "oneOf" | "allOf" => self.members(keyword, value, path, &mut parts)?,
                _ => self.keyword(keyword, value, path, &mut own)?,
            }
        }
        let mut whole = Value::Object(own);
        for part in parts {
            whole = self.merge(whole, part, path)?;
        }
        if let Some(rest) = map.get("unevaluatedProperties") {
            let rest = self.node(rest, path)?;
            close(&mut whole, &rest);
        }
        Ok(whole)
    }

    fn keyword(
        &mut self,
        keyword: &str,
        value: &Value,
        path: &str,
        own: &mut Map<String, Value>,
    ) -> Result<(), Refusal> {
        let normal = match (keyword, value) {
            ("properties" | "patternProperties", Value::Object(named)) => {
                self.named(keyword, named, path)?
            }
            ("dependentSchemas", Value::Object(named)) => {
                self.constraint(|normal| normal.named(keyword, named, path))?
            }
            ("items", one) => self.node(one, &format!("{path}[]"))?,
            ("prefixItems", Value::Array(list)) => {
                let item = |(i, item)| self.node(item, &format!("{path}[{i}]"));
                list.iter().enumerate().map(item).collect::<Result<Vec<_>, _>>()?.into()
            }
            ("additionalProperties" | "propertyNames", one) => {
                self.node(one, &format!("{path}.*"))?
            }
            _ => match known(keyword).filter(|known| known.role != Role::Other) {
                Some(known) if known.role == Role::Rule && known.holds_schemas() => {
                    self.constraint(|normal| normal.node(value, path))?
                }
                Some(known) if !known.holds_schemas() => value.clone(),
                _ => return Ok(()),
            },
        };
        own.insert(keyword.to_owned(), normal);
        Ok(())
    }

    fn named(
        &mut self,
        keyword: &str,
        named: &Map<String, Value>,
        path: &str,
    ) -> Result<Value, Refusal> {
        let mut all = Map::new();
        for (name, schema) in named {
            let below = match keyword {
                "properties" => format!("{path}.{name}"),
                "patternProperties" => format!("{path}.*"),
                _ => path.to_owned(),
            };
            all.insert(name.clone(), self.node(schema, &below)?);
        }
        Ok(all.into())
    }

    fn constraint<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.infer, false);
        let done = work(self);
        self.infer = before;
        done
    }

    fn members(
        &mut self,
        keyword: &str,
        value: &Value,
        path: &str,
        parts: &mut Vec<Value>,
    ) -> Result<(), Refusal> {
        let Some(members) = value.as_array().filter(|members| !members.is_empty()) else {
            return Err(Refusal::new(
                SchemaFault::Malformed,
                path,
                format!("`{keyword}` has no members; give it some"),
            ));
        };
        let mut gathered = Vec::new();
        for member in members {
            gathered.push(self.gather(member, path)?);
        }
        if keyword == "allOf" {
            parts.append(&mut gathered);
        } else {
            parts.push(serde_json::json!({ keyword: gathered }));
        }
        Ok(())
    }

    fn reference(&mut self, reference: &Value, path: &str) -> Result<Value, Refusal> {
        let pointer = self.pointer_of(reference).ok_or_else(|| leads_nowhere(path, reference))?;
        let pointer = self.end_of_aliases(pointer, path)?;
        let name = match self.names.get(&pointer) {
            Some(name) => name.clone(),
            None => self.name(pointer),
        };
        Ok(serde_json::json!({ "$ref": name }))
    }

    /// Names the target of a pointer under `$defs`, and schedules its conversion.
    fn name(&mut self, pointer: String) -> String {
        let last = pointer.rsplit('/').next().unwrap_or("");
        let last = plain_name(&last.replace("~1", "/").replace("~0", "~"));
        let last = if last.is_empty() { "definition".to_owned() } else { last };
        let number = self.numbers.entry(last.clone()).or_insert(1);
        let name = free_name(&last, number, |name| self.pointers.contains_key(&reference_to(name)));
        let reference = reference_to(&name);
        self.names.insert(pointer.clone(), reference.clone());
        self.pointers.insert(reference.clone(), pointer.clone());
        self.waiting.push_back((pointer, name));
        reference
    }

    /// Resolves aliases: definitions that consist of a reference only.
    fn end_of_aliases(&mut self, mut pointer: String, path: &str) -> Result<String, Refusal> {
        let mut seen = HashSet::new();
        loop {
            let target = self.at(&pointer);
            let at_root = pointer.is_empty();
            let Some(reference) = target.as_object().and_then(|map| alone(map, at_root)) else {
                return Ok(pointer);
            };
            self.spend(path)?;
            if !seen.insert(pointer) {
                return Err(Refusal::new(
                    SchemaFault::Circular,
                    path,
                    "the reference leads back to itself",
                ));
            }
            pointer = self.pointer_of(reference).ok_or_else(|| leads_nowhere(path, reference))?;
        }
    }

    /// Returns the JSON pointer of a reference, if it leads to a schema.
    fn pointer_of(&self, reference: &Value) -> Option<String> {
        let fragment = reference.as_str()?.strip_prefix('#')?;
        let leads = |fragment: &str| {
            let target = self.root.pointer(fragment);
            target.is_some_and(|target| target.is_object() || target.is_boolean())
        };
        if leads(fragment) {
            return Some(fragment.to_owned());
        }
        percent_decoded(fragment).filter(|decoded| leads(decoded))
    }

    /// Returns the target of a reference in the normal form, to be merged.
    fn inlined(&mut self, reference: &str, path: &str) -> Result<Value, Refusal> {
        if self.merging.iter().any(|merging| merging == reference) {
            let advice = format!(
                "`{}` is part of itself; refer to it from a property instead",
                shown(reference)
            );
            return Err(Refusal::new(SchemaFault::Circular, path, advice));
        }
        let pointer = self.pointers.get(reference).cloned().unwrap_or_default();
        self.merging.push(reference.to_owned());
        let target = self.gather(self.at(&pointer), path);
        self.merging.pop();
        target
    }
}

/// Returns the reference of a schema that has no other rule. The type of an object root does not
/// count.
fn alone(map: &Map<String, Value>, at_root: bool) -> Option<&Value> {
    let reference = map.get("$ref").or_else(|| map.get("$dynamicRef"))?;
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

/// Sets `additionalProperties` of an object, if it has none.
fn close(schema: &mut Value, rest: &Value) {
    let Some(map) = schema.as_object_mut() else {
        return;
    };
    if map.contains_key("$ref") {
        return;
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(members) = map.get_mut(keyword).and_then(Value::as_array_mut) {
            members.iter_mut().for_each(|member| close(member, rest));
            return;
        }
    }
    map.entry("additionalProperties").or_insert_with(|| rest.clone());
}

/// Keeps the definitions that a schema uses, directly or indirectly.
pub(crate) fn keep_used(root: &Value, definitions: &mut Map<String, Value>) {
    let prefix = format!("#/{DEFINITIONS}/");
    let mut used = HashSet::new();
    let mut waiting = vec![root];
    while let Some(schema) = waiting.pop() {
        let Some(map) = schema.as_object() else {
            continue;
        };
        let reference = map.get("$ref").and_then(Value::as_str);
        if let Some(name) = reference.and_then(|reference| reference.strip_prefix(&prefix))
            && used.insert(name.to_owned())
        {
            waiting.extend(definitions.get(name));
        }
        waiting.extend(below(map).into_iter().map(|(_, _, schema)| schema));
    }
    definitions.retain(|name, _| used.contains(name));
}

pub(crate) fn leads_nowhere(path: &str, reference: &Value) -> Refusal {
    let reference = shown(&reference.to_string());
    Refusal::new(
        SchemaFault::Unresolved,
        path,
        format!(
            "the reference {reference} leads nowhere in this schema; put what it means under `$defs`"
        ),
    )
}
