//! Rewriting a schema into what a dialect accepts.

pub(crate) mod dialect;
mod limits;

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::lowering::dialect::{Dialect, Loss};
use crate::lowering::limits::check;
use crate::schema::{below_mut, resolve};

/// Keywords that OpenAI's strict mode takes as they are.
const STRICT_KEEPS: [&str; 12] = [
    "type",
    "description",
    "enum",
    "const",
    "pattern",
    "multipleOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minItems",
    "maxItems",
];

/// Values of `format` that OpenAI's strict mode knows.
const STRICT_FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// Bounds that OpenAI's strict mode refuses: the description carries them.
const STRICT_TOLD: [&str; 5] =
    ["minLength", "maxLength", "uniqueItems", "minProperties", "maxProperties"];

/// Keywords that say nothing about which values fit.
const SILENT: [&str; 7] =
    ["title", "examples", "$schema", "$comment", "deprecated", "readOnly", "writeOnly"];

/// One lowering: what it is of, and what it lost so far.
pub(crate) struct Lowering<'a> {
    pub(crate) contract: &'a str,
    pub(crate) dialect: Dialect,
    /// The schema, an object at its root; references in it start there.
    pub(crate) root: &'a Value,
    pub(crate) losses: Vec<Loss>,
}

impl Lowering<'_> {
    pub(crate) fn lower(&mut self) -> Result<Value> {
        let lowered = match self.dialect {
            Dialect::JsonSchema2020 | Dialect::Mcp => return Ok(self.root.clone()),
            Dialect::OpenAiLoose => self.loose_root(self.root)?,
            Dialect::OpenAiStrict => self.strict(self.root, "$")?,
        };
        check(&lowered, self.dialect)
            .map_err(|refusal| self.error(&refusal.path, refusal.advice))?;
        Ok(lowered)
    }

    fn loose_root(&mut self, schema: &Value) -> Result<Value> {
        for combinator in ["oneOf", "anyOf", "allOf", "enum", "not"] {
            if schema.get(combinator).is_some() {
                return Err(self.error(
                    "$",
                    format!("`{combinator}` is not accepted at the root; put the union in a field"),
                ));
            }
        }
        let mut schema = schema.clone();
        if let Some(root) = schema.as_object_mut() {
            root.entry("properties").or_insert_with(|| json!({}));
        }
        add_missing_items(&mut schema);
        Ok(schema)
    }

    fn strict(&mut self, schema: &Value, path: &str) -> Result<Value> {
        let Some(map) = schema.as_object() else {
            return Err(self.error(path, "any value at all; give the field a type".into()));
        };
        let mut out = Map::new();
        let mut told = Vec::new();
        for (keyword, value) in map {
            match keyword.as_str() {
                "properties" | "required" | "additionalProperties" => {}
                "items" => {
                    out.insert("items".into(), self.strict(value, &format!("{path}[]"))?);
                }
                "anyOf" | "oneOf" => {
                    let members = self.strict_members(keyword, value, map, path)?;
                    out.insert("anyOf".into(), members);
                }
                "$defs" => {
                    let mut definitions = Map::new();
                    for (name, definition) in value.as_object().into_iter().flatten() {
                        let path = format!("#/$defs/{name}");
                        definitions.insert(name.clone(), self.strict(definition, &path)?);
                    }
                    out.insert("$defs".into(), definitions.into());
                }
                "$ref" => {
                    out.insert("$ref".into(), value.clone());
                }
                "format" => {
                    if value.as_str().is_some_and(|format| STRICT_FORMATS.contains(&format)) {
                        out.insert("format".into(), value.clone());
                    } else {
                        told.push(format!("Format: {}.", plain(value)));
                        self.lose(path, keyword, "is said in the description only");
                    }
                }
                "default" => told.push(format!("Default: {value}.")),
                _ if STRICT_KEEPS.contains(&keyword.as_str()) => {
                    out.insert(keyword.clone(), value.clone());
                }
                _ if STRICT_TOLD.contains(&keyword.as_str()) => {
                    told.push(format!("{keyword}: {value}."));
                    self.lose(path, keyword, "is said in the description only");
                }
                _ if SILENT.contains(&keyword.as_str()) => {}
                _ => {
                    return Err(self.error(
                        path,
                        format!("`{keyword}` has no form there; restate the type without it, or send the loose dialect"),
                    ));
                }
            }
        }
        if may_be(map, "object") {
            self.strict_object(map, &mut out, path)?;
        }
        if may_be(map, "array") && !out.contains_key("items") {
            return Err(self.error(path, "a list of any values; give its items a type".into()));
        }
        let typed = ["type", "anyOf", "$ref"].iter().any(|keyword| out.contains_key(*keyword));
        if !typed && !infer_type(&mut out) {
            return Err(self.error(path, "any value at all; give the field a type".into()));
        }
        describe(&mut out, &told);
        // A reference may have nothing beside it.
        if out.len() > 1
            && path != "$"
            && let Some(target) = out.shift_remove("$ref")
        {
            out.insert("anyOf".into(), json!([{ "$ref": target }]));
        }
        Ok(Value::Object(out))
    }

    /// Every property required, those that were optional nullable, nothing else let in.
    fn strict_object(
        &mut self,
        map: &Map<String, Value>,
        out: &mut Map<String, Value>,
        path: &str,
    ) -> Result<()> {
        if !matches!(map.get("additionalProperties"), None | Some(Value::Bool(false))) {
            return Err(self.error(
                path,
                "a map with free keys; use a list of key and value, or send the loose dialect"
                    .into(),
            ));
        }
        let mut properties = Map::new();
        for (name, property) in
            map.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let path = format!("{path}.{name}");
            let mut lowered = self.strict(property, &path)?;
            if !is_required(map, name) {
                if !accepts_null(self.root, property) {
                    lowered = nullable(lowered);
                } else if property.get("default").is_some() {
                    // Only an optional field that takes null can tell null from absent.
                    self.lose(&path, "default", "cannot be told from null: absent is sent as null");
                }
            }
            properties.insert(name.clone(), lowered);
        }
        out.insert("required".into(), properties.keys().cloned().collect());
        out.insert("properties".into(), properties.into());
        out.insert("additionalProperties".into(), false.into());
        Ok(())
    }

    fn strict_members(
        &mut self,
        keyword: &str,
        members: &Value,
        map: &Map<String, Value>,
        path: &str,
    ) -> Result<Value> {
        if path == "$" {
            return Err(self.error(path, "a union at the root; put it in a field".into()));
        }
        // Closed, neither the struct nor a member would let the other's fields in.
        if may_be(map, "object") {
            return Err(self.error(
                path,
                "a union flattened into a struct; give it a field of its own".into(),
            ));
        }
        let members = members.as_array().map_or(&[][..], Vec::as_slice);
        if keyword == "oneOf" && !has_tag(members) {
            self.lose(path, keyword, "became `anyOf`: members that overlap are not refused");
        }
        members.iter().map(|member| self.strict(member, path)).collect()
    }

    fn lose(&mut self, path: &str, keyword: &str, why: &'static str) {
        self.losses.push(Loss { path: path.to_owned(), keyword: keyword.to_owned(), why });
    }

    fn error(&self, path: &str, advice: String) -> Error {
        Error::Lowering {
            contract: self.contract.to_owned(),
            dialect: self.dialect,
            path: path.to_owned(),
            advice,
        }
    }
}

/// Whether `type` is, or includes, `kind`; an object may also show by its properties.
pub(crate) fn may_be(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(many)) => many.iter().any(|one| one == kind),
        _ => kind == "object" && schema.contains_key("properties"),
    }
}

pub(crate) fn is_required(object: &Map<String, Value>, property: &str) -> bool {
    object
        .get("required")
        .and_then(Value::as_array)
        .is_some_and(|required| required.iter().any(|name| name == property))
}

/// Whether null fits a schema of this root, as far as its plain keywords say.
pub(crate) fn accepts_null(root: &Value, schema: &Value) -> bool {
    let mut waiting = vec![schema];
    // Each reference once: what leads back to itself adds nothing.
    let mut followed = HashSet::new();
    while let Some(schema) = waiting.pop() {
        let Some(map) = schema.as_object() else {
            if schema == &Value::Bool(true) {
                return true;
            }
            continue;
        };
        let other_type = map.contains_key("type") && !may_be(map, "null");
        let other_value = map.get("const").is_some_and(|value| !value.is_null())
            || map
                .get("enum")
                .and_then(Value::as_array)
                .is_some_and(|values| !values.contains(&Value::Null));
        if other_type || other_value {
            continue;
        }
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            if followed.insert(reference) {
                // What leads nowhere excludes nothing.
                waiting.push(resolve(root, reference).unwrap_or(&Value::Bool(true)));
            }
        } else if let Some(members) = members(map) {
            waiting.extend(members);
        } else {
            return true;
        }
    }
    false
}

/// The members of a union.
pub(crate) fn members(schema: &Map<String, Value>) -> Option<&Vec<Value>> {
    schema.get("anyOf").or_else(|| schema.get("oneOf"))?.as_array()
}

fn nullable(mut schema: Value) -> Value {
    let Some(map) = schema.as_object_mut() else {
        return schema;
    };
    if let Some(members) = map.get_mut("anyOf").and_then(Value::as_array_mut) {
        members.push(json!({"type": "null"}));
        return schema;
    }
    let simple = !map.contains_key("const") && !map.contains_key("$ref");
    if let (true, Some(kinds)) = (simple, map.get_mut("type")) {
        let mut list = match kinds.take() {
            Value::Array(list) => list,
            one => vec![one],
        };
        list.push("null".into());
        *kinds = list.into();
        if let Some(values) = map.get_mut("enum").and_then(Value::as_array_mut) {
            values.push(Value::Null);
        }
        return schema;
    }
    let description = map.shift_remove("description");
    let mut union = json!({"anyOf": [schema, {"type": "null"}]});
    if let (Some(text), Some(map)) = (description, union.as_object_mut()) {
        map.insert("description".into(), text);
    }
    union
}

/// Whether each member fixes a property of the same name to its own value.
fn has_tag(members: &[Value]) -> bool {
    let tags = |member: &Value| -> Vec<String> {
        let properties = member.get("properties").and_then(Value::as_object);
        let fixed = properties.into_iter().flatten().filter(|(_, p)| p.get("const").is_some());
        fixed.map(|(name, _)| name.clone()).collect()
    };
    let Some((first, rest)) = members.split_first() else {
        return true;
    };
    tags(first).iter().any(|tag| rest.iter().all(|member| tags(member).contains(tag)))
        || members.iter().all(|member| member.get("const").is_some())
}

/// Gives `enum` and `const` without a type the type of their values.
fn infer_type(schema: &mut Map<String, Value>) -> bool {
    let values = match (schema.get("const"), schema.get("enum")) {
        (Some(value), _) => std::slice::from_ref(value),
        (None, Some(Value::Array(values))) => values.as_slice(),
        _ => return false,
    };
    let mut kinds: Vec<Value> = Vec::new();
    for value in values {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) | Value::Object(_) => return false,
        };
        if !kinds.iter().any(|known| known == kind) {
            kinds.push(kind.into());
        }
    }
    let kind = if kinds.len() == 1 { kinds.remove(0) } else { Value::Array(kinds) };
    schema.shift_insert(0, "type".into(), kind);
    true
}

fn describe(schema: &mut Map<String, Value>, told: &[String]) {
    if told.is_empty() {
        return;
    }
    let mut text = schema.get("description").and_then(Value::as_str).unwrap_or("").to_owned();
    for sentence in told {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(sentence);
    }
    schema.insert("description".into(), text.into());
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Chat Completions refuses an array that does not say what is in it.
fn add_missing_items(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else {
        return;
    };
    if may_be(map, "array") && !map.contains_key("items") && !map.contains_key("prefixItems") {
        map.insert("items".into(), json!({}));
    }
    below_mut(map).into_iter().for_each(add_missing_items);
}
