//! Lowering of structs and maps.
//!
//! ```text
//! struct, closed: {"a": integer, "b": string (optional)}
//!               → {"a": integer, "b": string or null}, both required, `additionalProperties: false`
//! map, closed:    {"additionalProperties": integer}
//!               → list of {"key": string, "value": integer}
//! ```
//!
//! A closed dialect accepts named fields only. A map becomes a list of pairs there, and further
//! fields of a struct become such a list in a field of their own. The names of these fields are in
//! [`wire_shapes`](crate::wire_shapes).

use serde_json::{Map, Value, json};

use super::constraints::describe;
use super::{At, LEFT_OUT, TOLD, Walk, no_any, type_like, typed};
use crate::error::{Checked, SchemaFault, refuse};
use crate::lowering::dialect_rules::{Names, Recursion};
use crate::lowering::unnamed_fields::{Pairs, pairs};
use crate::schema::Keywords;
use crate::schema::graph::{FieldRule, Id, Rest, Shape};
use crate::schema::keywords::add_null;
use crate::schema::types::Types;
use crate::wire_shapes::{FURTHER, KEY, VALUE};

impl Walk<'_> {
    /// Lowers an object with declared fields.
    pub(super) fn structure(&mut self, at: At<'_>) -> Checked<Keywords> {
        let further = pairs(self.graph(), at.node);
        if self.closes_all(at, &further) {
            return no_any(at);
        }
        let mut properties = Map::new();
        let mut required = Vec::new();
        let mut unnamed = false;
        for field in at.node.object.described() {
            let name = &*field.name;
            let path = format!("{}.{name}", at.path);
            if *self.graph().shape(field.node) == Shape::Nothing {
                if !self.rules.closed {
                    self.lose(&path, "properties", LEFT_OUT);
                }
                continue;
            }
            let lowered = self.field(field, &path)?;
            if !self.takes_name(name) {
                self.tell_field(field, &lowered, &path)?;
                unnamed = true;
                continue;
            }
            if self.is_required(field, &path) {
                required.push(Value::from(name));
            }
            properties.insert(name.to_owned(), lowered);
        }
        for field in at.node.object.fields.iter().filter(|field| !field.described) {
            self.check_described(field, at.path)?;
            required.push(Value::from(&*field.name));
        }
        if self.rules.closed && !further.is_empty() {
            if matches!(at.node.object.rest, Rest::Open) {
                let advice = "it accepts fields of patterns beside its own, and any others as well; describe the others, or exclude them (`additionalProperties: false`)";
                return refuse(SchemaFault::Undescribed, at.path, advice);
            }
            properties.insert(FURTHER.into(), self.further(&further, &properties, at.path)?);
            required.push(FURTHER.into());
        }
        let mut out = typed(type_like(at, "object"));
        out.insert("properties".into(), properties.into());
        if !required.is_empty() || !self.rules.optional {
            out.insert("required".into(), required.into());
        }
        self.rest(at, &further, &mut out)?;
        if unnamed {
            // They become further fields.
            out.shift_remove("additionalProperties");
        }
        Ok(out)
    }

    /// Whether the dialect would close a foreign object that has no named fields. At the root, such
    /// an object is a tool without arguments; of a Rust type, it is a struct without fields.
    ///
    /// Such a schema means any fields, and closing it would allow none.
    fn closes_all(&self, at: At<'_>, further: &Pairs<'_>) -> bool {
        let object = &at.node.object;
        let nothing_said = matches!(object.rest, Rest::Open) && further.is_empty();
        let no_fields = object.described().next().is_none();
        self.rules.closed && !self.typed && at.path != "$" && no_fields && nothing_said
    }

    /// Lowers the schema of a field. If all fields are required, an optional one becomes nullable.
    ///
    /// ```text
    /// optional "limit": {"type": "integer"} → {"type": ["integer", "null"]}
    /// ```
    fn field(&mut self, field: &FieldRule, path: &str) -> Checked<Value> {
        let lowered = self.node(field.node, path)?;
        if self.rules.optional || field.required {
            return Ok(lowered);
        }
        if !self.graph().node(field.node).takes_null() {
            return Ok(nullable(lowered));
        }
        // Only a nullable field can distinguish null from absent. A type that accepts both treats
        // them the same, unless it has a default; for a schema without a type it is unknown.
        let default = self.schemas.words(field.node).get("default");
        let told_apart = match default {
            Some(default) => !default.is_null(),
            None => !self.typed,
        };
        if told_apart {
            let keyword = if default.is_some() { "default" } else { "required" };
            let why =
                "does not distinguish absent from null there: an absent field is sent as null";
            self.lose(path, keyword, why);
        }
        Ok(lowered)
    }

    /// Whether a field is required in the dialect: all are if it has no optional fields. Gemini
    /// accepts recursion in optional fields only.
    fn is_required(&mut self, field: &FieldRule, path: &str) -> bool {
        if !self.rules.optional {
            return true;
        }
        if !field.required {
            return false;
        }
        let cyclic = self.rules.recursion == Recursion::Optional && self.leads_back(field.node);
        if cyclic {
            self.lose(path, "required", "becomes optional there, because the field is recursive");
        }
        !cyclic
    }

    /// Whether a property leads back to its definition, other than through properties of its own.
    fn leads_back(&self, property: Id) -> bool {
        let here = self.recursive.get(&self.here);
        let mut waiting = vec![property];
        while let Some(id) = waiting.pop() {
            if let Shape::Reference(target) = self.graph().shape(id)
                && here.is_some_and(|here| self.recursive.get(target) == Some(here))
            {
                return true;
            }
            waiting.extend(self.graph().parts(id));
        }
        false
    }

    /// Whether the dialect accepts the name of a field.
    fn takes_name(&self, name: &str) -> bool {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let any = match self.rules.field_names {
            Names::All => true,
            Names::NotEmpty => return !name.is_empty(),
            Names::Plain => false,
        };
        any || !name.is_empty() && name.len() <= 64 && name.chars().all(plain)
    }

    /// Writes into the description of an object which names its properties must not have.
    ///
    /// ```text
    /// a field "first name", anthropic without `strict` → Required field "first name": {"type":"string"}.
    /// ```
    fn tell_field(&mut self, field: &FieldRule, lowered: &Value, path: &str) -> Checked {
        if self.rules.closed {
            let advice = "its name must be 1 to 64 characters of A-Z a-z 0-9 _ . -; rename it";
            return refuse(SchemaFault::Name, path, advice);
        }
        let kind = if field.required { "Required" } else { "Optional" };
        self.told.push(format!("{kind} field {}: {lowered}.", Value::from(&*field.name)));
        self.lose(path, "properties", TOLD);
        Ok(())
    }

    /// Rejects a field that is required but not declared, if the dialect closes objects.
    fn check_described(&self, field: &FieldRule, path: &str) -> Checked {
        if self.rules.closed {
            let advice = "it is required but not described; describe it under `properties`";
            return refuse(SchemaFault::Undescribed, &format!("{path}.{}", field.name), advice);
        }
        Ok(())
    }

    /// Lowers the rule for undeclared fields.
    fn rest(&mut self, at: At<'_>, pairs: &Pairs<'_>, out: &mut Keywords) -> Checked {
        let At { node, map, path, .. } = at;
        if self.rules.closed {
            out.insert("additionalProperties".into(), false.into());
            if let (true, Some(names)) = (pairs.is_empty(), map.get("propertyNames")) {
                self.tell("propertyNames", names, path);
            }
            return Ok(());
        }
        let below = format!("{path}.*");
        for keyword in ["patternProperties", "propertyNames"] {
            let Some(said) = map.get(keyword) else {
                continue;
            };
            if !self.rules.keeps(keyword) {
                self.tell(keyword, said, path);
            } else if keyword == "patternProperties" {
                let mut lowered = Map::new();
                for (pattern, schema) in &node.object.patterns {
                    lowered.insert(pattern.text.clone(), self.node(*schema, &below)?);
                }
                out.insert(keyword.into(), lowered.into());
            } else if let Some(names) = node.object.names {
                out.insert(keyword.into(), self.node(names, &below)?);
            }
        }
        let folded = !self.rules.keeps("patternProperties");
        let rest = match node.object.rest {
            _ if folded && !pairs.is_empty() && !node.object.patterns.is_empty() => {
                Some(self.value(pairs, &below)?)
            }
            Rest::Of(id) if self.schemas.words(id).is_empty() => Some(true.into()),
            Rest::Of(id) => Some(self.node(id, &below)?),
            Rest::Closed => Some(false.into()),
            Rest::Open => None,
        };
        out.extend(rest.map(|rest| ("additionalProperties".to_owned(), rest)));
        Ok(())
    }

    /// Returns the schema of a value for any kind of key.
    fn value(&mut self, pairs: &Pairs<'_>, path: &str) -> Checked<Value> {
        let mut values: Vec<Value> = Vec::new();
        for (_, value) in pairs {
            let value = match pairs.len() {
                1 => self.node(*value, path)?,
                _ => self.among_others(|walk| walk.node(*value, path))?,
            };
            if !values.contains(&value) {
                values.push(value);
            }
        }
        Ok(one_or_any(values))
    }

    /// Lowers a map: to a list of pairs if the dialect closes objects.
    pub(super) fn map(&mut self, at: At<'_>) -> Checked<Keywords> {
        let (map, pairs) = (at.map, pairs(self.graph(), at.node));
        if self.rules.closed {
            if let Some(field) = at.node.object.fields.first() {
                self.check_described(field, at.path)?;
            }
            let items = self.pairs(&pairs, at.path)?;
            let list = [("type".to_owned(), type_like(at, "array")), ("items".into(), items)];
            return Ok(Map::from_iter(list));
        }
        let mut out = typed(type_like(at, "object"));
        if at.path == "$" || map.contains_key("properties") {
            out.insert("properties".into(), json!({}));
        }
        out.extend(map.get("required").map(|required| ("required".into(), required.clone())));
        self.rest(at, &pairs, &mut out)?;
        Ok(out)
    }

    /// Returns the schema of the field that holds all undeclared fields.
    ///
    /// ```text
    /// {"properties": {"a": A}, "additionalProperties": B}
    /// → {"properties": {"a": A, "additional_properties": list of {"key", "value": B}}}
    /// ```
    fn further(&mut self, pairs: &Pairs<'_>, own: &Keywords, path: &str) -> Checked<Value> {
        if pairs.iter().any(|(_, value)| *self.graph().shape(*value) == Shape::Any) {
            let advice = "it accepts fields of any name and value beside its own; give their values a type, or exclude them (`additionalProperties: false`)";
            return refuse(SchemaFault::Undescribed, path, advice);
        }
        let takes_list = |id: Id| self.graph().node(id).types.has(Types::LIST);
        let lists = pairs.iter().any(|(_, value)| takes_list(*value));
        if own.contains_key(FURTHER) || lists {
            let advice = format!(
                "further fields are sent under `{FURTHER}` there, and look like a field of that name; put them in a map of their own"
            );
            return refuse(SchemaFault::Ambiguous, path, advice);
        }
        let items = self.pairs(pairs, path)?;
        Ok(json!({"type": "array", "items": items}))
    }

    /// Returns the schema of a key beside its value.
    fn pairs(&mut self, pairs: &Pairs<'_>, path: &str) -> Checked<Value> {
        let path = format!("{path}.*");
        let mut kinds = Vec::new();
        for (key, value) in pairs {
            let key = match key.schema() {
                Ok(names) => self.node(names, &path)?,
                Err(key) => self.another(&key, &path)?,
            };
            let value = self.node(*value, &path)?;
            kinds.push(json!({
                "type": "object",
                "properties": {KEY: key, VALUE: value},
                "required": [KEY, VALUE],
                "additionalProperties": false,
            }));
        }
        Ok(one_or_any(kinds))
    }
}

/// Returns the only schema, or a union of all.
fn one_or_any(mut schemas: Vec<Value>) -> Value {
    if schemas.len() == 1 { schemas.remove(0) } else { json!({ "anyOf": schemas }) }
}

/// Returns the nullable form of a schema.
pub(super) fn nullable(mut schema: Value) -> Value {
    let Some(map) = schema.as_object_mut() else {
        return schema;
    };
    let null = json!({"type": "null"});
    if let Some(members) = map.get_mut("anyOf").and_then(Value::as_array_mut) {
        members.push(null);
        return schema;
    }
    if map.contains_key("type") && !map.contains_key("const") {
        add_null(map);
        return schema;
    }
    let description = map.shift_remove("description");
    let mut union = json!({"anyOf": [schema, (null)]});
    if let (Some(Value::String(text)), Some(map)) = (description, union.as_object_mut()) {
        describe(map, &[text]);
    }
    union
}
