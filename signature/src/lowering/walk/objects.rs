//! Lowering of structs and maps.

use serde_json::{Map, Value, json};

use super::constraints::describe;
use super::{Lowered, Walk, type_like};
use crate::error::SchemaFault;
use crate::lowering::dialect_rules::{Names, Recursion};
use crate::lowering::unnamed_fields::{Pairs, pairs};
use crate::lowering::{Schema, required};
use crate::schema::graph::{FieldRule, Node, Rest, Shape};
use crate::schema::{Refusal, below};
use crate::wire_shapes::{FURTHER, KEY, VALUE};

impl Walk<'_> {
    pub(super) fn structure(
        &mut self,
        node: &Node,
        map: &Schema,
        path: &str,
        told: &mut Vec<String>,
    ) -> Lowered<Schema> {
        let further = pairs(self.graph(), node);
        if self.closes_all(node, &further, path) {
            return Err(self.no_any(map, path));
        }
        let mut properties = Map::new();
        let mut required = Vec::new();
        let mut unnamed = false;
        let at_root = path == "$";
        for field in node.object.described() {
            let name = &*field.name;
            let path = format!("{path}.{name}");
            if *self.graph().shape(field.node) == Shape::Nothing {
                if !self.rules.closed {
                    self.lose(&path, "properties", super::LEFT_OUT);
                }
                continue;
            }
            let lowered = self.field(field, &path)?;
            if !self.takes_name(name, at_root) {
                self.tell_field(name, &lowered, field.required, told, &path)?;
                unnamed = true;
                continue;
            }
            if self.is_required(field, &path) {
                required.push(Value::from(name));
            }
            properties.insert(name.to_owned(), lowered);
        }
        self.unknown(map, &properties, &mut required, path)?;
        if self.rules.closed && !further.is_empty() {
            if !map.contains_key("additionalProperties") {
                return Err(Refusal::new(
                    SchemaFault::Undescribed,
                    path,
                    "fields of patterns beside its own, and any others as well; say what the others are, or let none in (`additionalProperties: false`)",
                ));
            }
            properties.insert(FURTHER.into(), self.further(&further, &properties, path)?);
            required.push(FURTHER.into());
        }
        let mut out = Map::from_iter([
            ("type".to_owned(), type_like(map, "object")),
            ("properties".into(), properties.into()),
        ]);
        if !required.is_empty() || !self.rules.optional {
            out.insert("required".into(), required.into());
        }
        self.rest(node, map, &further, &mut out, told, path)?;
        if unnamed {
            // They become further fields.
            out.shift_remove("additionalProperties");
        }
        Ok(out)
    }

    /// Whether the dialect would close a foreign object that has no named fields. At the root, such
    /// an object is a tool without arguments; of a Rust type, it is a struct without fields.
    fn closes_all(&self, node: &Node, further: &Pairs<'_>, path: &str) -> bool {
        let nothing_said = matches!(node.object.rest, Rest::Open) && further.is_empty();
        let no_fields = node.object.described().next().is_none();
        self.rules.closed && !self.typed && path != "$" && no_fields && nothing_said
    }

    fn field(&mut self, field: &FieldRule, path: &str) -> Lowered {
        let lowered = self.node(field.node, path)?;
        if self.rules.optional || field.required {
            return Ok(lowered);
        }
        if !self.graph().takes_null(field.node) {
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
            self.lose(path, keyword, "cannot be told from null: absent is sent as null");
        }
        Ok(lowered)
    }

    fn is_required(&mut self, field: &FieldRule, path: &str) -> bool {
        if !self.rules.optional {
            return true;
        }
        if !field.required {
            return false;
        }
        let cyclic = self.rules.recursion == Recursion::Optional
            && self.leads_back(self.schemas.source(field.node));
        if cyclic {
            self.lose(path, "required", "is optional there, as all that leads back to itself");
        }
        !cyclic
    }

    /// Whether a property leads back to its definition, other than through properties of its own.
    fn leads_back(&self, property: &Value) -> bool {
        let mut waiting = vec![property];
        while let Some(schema) = waiting.pop() {
            let Some(map) = schema.as_object() else {
                continue;
            };
            if let Some(reference) = map.get("$ref").and_then(Value::as_str)
                && self.cycles.share(&self.here, reference)
            {
                return true;
            }
            let below = below(map).into_iter().filter(|(keyword, ..)| *keyword != "properties");
            waiting.extend(below.map(|(_, _, schema)| schema));
        }
        false
    }

    fn takes_name(&self, name: &str, at_root: bool) -> bool {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let any = match self.rules.field_names {
            Names::All => true,
            Names::Plain => false,
            Names::PlainAtRoot => !at_root,
        };
        any || !name.is_empty() && name.len() <= 64 && name.chars().all(plain)
    }

    /// Writes into the description of an object which names its properties must not have.
    fn tell_field(
        &mut self,
        name: &str,
        field: &Value,
        required: bool,
        told: &mut Vec<String>,
        path: &str,
    ) -> Lowered<()> {
        if self.rules.closed {
            let advice = "its name must be 1 to 64 characters of A-Z a-z 0-9 _ . -; rename it";
            return Err(Refusal::new(SchemaFault::Name, path, advice));
        }
        let kind = if required { "Required" } else { "Optional" };
        told.push(format!("{kind} field {}: {field}.", Value::from(name)));
        self.lose(path, "properties", super::TOLD);
        Ok(())
    }

    /// Returns the fields that are required but not declared.
    fn unknown(
        &self,
        map: &Schema,
        properties: &Schema,
        required: &mut Vec<Value>,
        path: &str,
    ) -> Lowered<()> {
        let all = map.get("required").and_then(Value::as_array).into_iter().flatten();
        let described = map.get("properties").and_then(Value::as_object);
        for name in all.filter_map(Value::as_str) {
            if properties.contains_key(name) || described.is_some_and(|all| all.contains_key(name))
            {
                continue;
            }
            if self.rules.closed {
                let advice = "it is required but not described; describe it under `properties`";
                return Err(Refusal::new(
                    SchemaFault::Undescribed,
                    &format!("{path}.{name}"),
                    advice,
                ));
            }
            required.push(name.into());
        }
        Ok(())
    }

    /// Lowers the rule for undeclared fields.
    fn rest(
        &mut self,
        node: &Node,
        map: &Schema,
        pairs: &Pairs<'_>,
        out: &mut Schema,
        told: &mut Vec<String>,
        path: &str,
    ) -> Lowered<()> {
        if self.rules.closed {
            out.insert("additionalProperties".into(), false.into());
            if let (true, Some(names)) = (pairs.is_empty(), map.get("propertyNames")) {
                self.tell("propertyNames", names, told, path);
            }
            return Ok(());
        }
        let below = format!("{path}.*");
        for keyword in ["patternProperties", "propertyNames"] {
            let Some(said) = map.get(keyword) else {
                continue;
            };
            if !self.rules.keeps.has(keyword) {
                self.tell(keyword, said, told, path);
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
        let folded = !self.rules.keeps.has("patternProperties");
        let rest = match (map.get("additionalProperties"), node.object.rest) {
            _ if folded && !pairs.is_empty() && map.contains_key("patternProperties") => {
                Some(self.value(pairs, &below)?)
            }
            (Some(Value::Object(any)), _) if any.is_empty() => Some(true.into()),
            (_, Rest::Of(id)) => Some(self.node(id, &below)?),
            (closed, _) => closed.cloned(),
        };
        out.extend(rest.map(|rest| ("additionalProperties".to_owned(), rest)));
        Ok(())
    }

    /// Returns the schema of a value for any kind of key.
    fn value(&mut self, pairs: &Pairs<'_>, path: &str) -> Lowered {
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
        Ok(match values.as_slice() {
            [one] => one.clone(),
            _ => json!({ "anyOf": values }),
        })
    }

    pub(super) fn map(
        &mut self,
        node: &Node,
        map: &Schema,
        path: &str,
        told: &mut Vec<String>,
    ) -> Lowered<Schema> {
        let pairs = pairs(self.graph(), node);
        if self.rules.closed {
            if let Some(name) = required(map).next() {
                let advice = "it is required but not described; describe it under `properties`";
                return Err(Refusal::new(
                    SchemaFault::Undescribed,
                    &format!("{path}.{name}"),
                    advice,
                ));
            }
            let items = self.pairs(&pairs, path)?;
            return Ok(Map::from_iter([
                ("type".to_owned(), type_like(map, "array")),
                ("items".into(), items),
            ]));
        }
        let mut out = Map::from_iter([("type".to_owned(), type_like(map, "object"))]);
        if path == "$" || map.contains_key("properties") {
            out.insert("properties".into(), json!({}));
        }
        out.extend(map.get("required").map(|required| ("required".into(), required.clone())));
        self.rest(node, map, &pairs, &mut out, told, path)?;
        Ok(out)
    }

    fn further(&mut self, pairs: &Pairs<'_>, own: &Schema, path: &str) -> Lowered {
        if pairs.iter().any(|(_, value)| *self.graph().shape(*value) == Shape::Any) {
            return Err(Refusal::new(
                SchemaFault::Undescribed,
                path,
                "fields of any name and value beside its own; give their values a type, or let none in (`additionalProperties: false`)",
            ));
        }
        let lists = pairs.iter().any(|(_, value)| self.graph().takes_list(*value));
        if own.contains_key(FURTHER) || lists {
            return Err(Refusal::new(
                SchemaFault::Ambiguous,
                path,
                format!(
                    "further fields stand under `{FURTHER}` there, and could not be told from one of that name; put them in a map of their own"
                ),
            ));
        }
        let items = self.pairs(pairs, path)?;
        Ok(json!({"type": "array", "items": items}))
    }

    /// Returns the schema of a key beside its value.
    fn pairs(&mut self, pairs: &Pairs<'_>, path: &str) -> Lowered {
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
        Ok(match kinds.as_slice() {
            [one] => one.clone(),
            _ => json!({ "anyOf": kinds }),
        })
    }
}

/// Returns the nullable form of a schema.
fn nullable(mut schema: Value) -> Value {
    let Some(map) = schema.as_object_mut() else {
        return schema;
    };
    let null = json!({"type": "null"});
    if let Some(members) = map.get_mut("anyOf").and_then(Value::as_array_mut) {
        members.push(null);
        return schema;
    }
    let simple = !map.contains_key("const") && !map.contains_key("$ref");
    if let (true, Some(kinds)) = (simple, map.get_mut("type")) {
        let mut list = match kinds.take() {
            Value::Array(list) => list,
            one => vec![one],
        };
        if !list.iter().any(|kind| kind == "null") {
            list.push("null".into());
        }
        *kinds = list.into();
        if let Some(values) = map.get_mut("enum").and_then(Value::as_array_mut) {
            values.push(Value::Null);
        }
        return schema;
    }
    let description = map.shift_remove("description");
    let mut union = json!({"anyOf": [schema, (null)]});
    if let (Some(Value::String(text)), Some(map)) = (description, union.as_object_mut()) {
        describe(map, &[text]);
    }
    union
}
