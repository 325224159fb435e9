//! What providers reject, taken from their documents and written independently of the code
//! under test.

use std::collections::HashSet;

use serde_json::{Map, Value};
use toolwright_signature::Dialect;

const OPENAI_STRICT: [&str; 18] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "$ref",
    "$defs",
    "description",
    "pattern",
    "format",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
];
const OPENAI_FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];
const ANTHROPIC: [&str; 13] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "$ref",
    "$defs",
    "description",
    "default",
    "pattern",
];
const GEMINI: [&str; 15] = [
    "$defs",
    "$ref",
    "type",
    "format",
    "description",
    "enum",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "anyOf",
    "properties",
    "required",
];

/// The reasons for which a provider would reject a schema, sent strict or not.
pub(crate) fn faults(dialect: Dialect, strict: bool, schema: &Value) -> Vec<String> {
    let dialect = match dialect {
        Dialect::OpenAiStrict if !strict => Dialect::OpenAiLoose,
        other => other,
    };
    let mut judge = Judge { dialect, strict, root: schema, faults: Vec::new(), sums: (0, 0) };
    judge.root();
    judge.every();
    if judge.sums.0 >= 24 || judge.sums.1 >= 16 {
        judge.faults.push(format!("{:?} optional fields and unions", judge.sums));
    }
    judge.faults
}

/// The reasons for which a provider would reject the tools of one request, each with whether it
/// is strict.
pub(crate) fn faults_of_request(dialect: Dialect, tools: &[(bool, Value)]) -> Vec<String> {
    let mut faults = Vec::new();
    let (mut strict_tools, mut optional, mut unions) = (0, 0, 0);
    for (strict, schema) in tools {
        faults.extend(self::faults(dialect, *strict, schema));
        if dialect == Dialect::Anthropic && *strict {
            let mut judge =
                Judge { dialect, strict: true, root: schema, faults: Vec::new(), sums: (0, 0) };
            judge.every();
            strict_tools += 1;
            optional += judge.sums.0;
            unions += judge.sums.1;
        }
    }
    if strict_tools > 20 || optional > 24 || unions > 16 {
        faults.push(format!(
            "{strict_tools} strict tools, {optional} optional fields, {unions} unions"
        ));
    }
    let most = match dialect {
        Dialect::OpenAiStrict | Dialect::OpenAiLoose => 128,
        Dialect::Gemini => 512,
        _ => usize::MAX,
    };
    if tools.len() > most {
        faults.push(format!("{} tools", tools.len()));
    }
    faults
}

struct Judge<'a> {
    dialect: Dialect,
    strict: bool,
    root: &'a Value,
    faults: Vec<String>,
    /// Optional fields, and fields with a union.
    sums: (usize, usize),
}

impl Judge<'_> {
    fn say(&mut self, what: &str, node: &Map<String, Value>) {
        self.faults.push(format!("{what}: {}", Value::Object(node.clone())));
    }

    fn root(&mut self) {
        let Some(root) = self.root.as_object() else {
            self.faults.push("not an object".to_owned());
            return;
        };
        if let Err(error) = jsonschema::draft202012::meta::validate(self.root) {
            self.faults.push(format!("not JSON Schema 2020-12: {error}"));
        }
        if root.get("type") != Some(&"object".into()) {
            self.say("the root is no object", root);
        }
        let plain = self.dialect != Dialect::JsonSchema2020;
        for keyword in ["anyOf", "oneOf", "allOf", "enum", "not", "$ref"] {
            let adds_rules = self.dialect == Dialect::Mcp
                && keyword == "allOf"
                && properties(root).next().is_some();
            if plain && !adds_rules && root.contains_key(keyword) {
                self.say("a combinator at the root", root);
            }
        }
        if matches!(self.dialect, Dialect::OpenAiLoose | Dialect::OpenAiStrict)
            && !root.contains_key("properties")
        {
            self.say("no properties at the root", root);
        }
        if self.dialect == Dialect::Anthropic && self.strict && self.is_recursive() {
            self.say("recursion", root);
        }
        if self.dialect == Dialect::Anthropic && !properties(root).all(|(name, _)| is_plain(name)) {
            self.say("a field's name", root);
        }
    }

    fn every(&mut self) {
        let mut waiting = vec![self.root];
        while let Some(schema) = waiting.pop() {
            let Some(node) = schema.as_object() else {
                continue;
            };
            self.sound(node);
            match self.dialect {
                Dialect::OpenAiStrict => self.openai_strict(node),
                Dialect::OpenAiLoose => self.with_items(node),
                Dialect::Anthropic if self.strict => {
                    self.anthropic(node);
                    let required = node.get("required").and_then(Value::as_array);
                    self.sums.0 += properties(node).count() - required.map_or(0, Vec::len);
                    self.sums.1 += properties(node).filter(|(_, schema)| is_union(schema)).count();
                }
                Dialect::Gemini => self.gemini(node),
                Dialect::Mcp
                    if types(node).contains(&"object") && !node.contains_key("properties") =>
                {
                    self.say("an object without properties", node);
                }
                _ => {}
            }
            waiting.extend(below(node));
        }
    }

    fn sound(&mut self, node: &Map<String, Value>) {
        if let Some(reference) = node.get("$ref") {
            let pointer = reference.as_str().and_then(|reference| reference.strip_prefix('#'));
            if pointer.and_then(|pointer| self.root.pointer(pointer)).is_none() {
                self.say("a reference that leads nowhere", node);
            }
        }
        for kind in types(node) {
            if !["string", "number", "integer", "boolean", "object", "array", "null"]
                .contains(&kind)
            {
                self.say("an unknown type", node);
            }
        }
        if node.get("enum").and_then(Value::as_array).is_some_and(Vec::is_empty) {
            self.say("an empty enum", node);
        }
        let required = node.get("required").and_then(Value::as_array).into_iter().flatten();
        let mut seen = HashSet::new();
        if !required.map(Value::to_string).all(|name| seen.insert(name)) {
            self.say("required twice", node);
        }
    }

    fn openai_strict(&mut self, node: &Map<String, Value>) {
        let known = |keyword: &&String| {
            OPENAI_STRICT.contains(&keyword.as_str())
                || ["minItems", "maxItems"].contains(&keyword.as_str())
        };
        if !node.keys().all(|keyword| known(&keyword)) {
            self.say("an unknown keyword", node);
        }
        if types(node).is_empty() && !node.contains_key("anyOf") && !node.contains_key("$ref") {
            self.say("no type", node);
        }
        if node.contains_key("$ref") && node.len() > 1 {
            self.say("words beside a reference", node);
        }
        self.with_items(node);
        self.closed(node);
        if types(node).contains(&"object") {
            let names: Value = properties(node).map(|(name, _)| name.clone()).collect();
            if node.get("required") != Some(&names) {
                self.say("not all required", node);
            }
        }
        self.text(node, &OPENAI_FORMATS, &["(?=", "(?!", "(?<=", "(?<!"]);
    }

    fn anthropic(&mut self, node: &Map<String, Value>) {
        let known = |keyword: &String| {
            ANTHROPIC.contains(&keyword.as_str())
                || keyword == "format"
                || keyword == "minItems" && node.get("minItems").and_then(Value::as_u64) <= Some(1)
        };
        if !node.keys().all(known) {
            self.say("an unknown keyword", node);
        }
        self.closed(node);
        if !properties(node).all(|(name, _)| is_plain(name)) {
            self.say("a field's name", node);
        }
        let known: Vec<_> = properties(node).map(|(name, _)| name.as_str()).collect();
        let mut required = node.get("required").and_then(Value::as_array).into_iter().flatten();
        if !required.all(|name| name.as_str().is_some_and(|name| known.contains(&name))) {
            self.say("required and not described", node);
        }
        let mut values = node.get("enum").and_then(Value::as_array).into_iter().flatten();
        if values.any(|value| value.is_object() || value.is_array()) {
            self.say("objects in an enum", node);
        }
        let formats = [&OPENAI_FORMATS[..], &["uri"]].concat();
        let bad = ["(?=", "(?!", "(?<", r"\b", r"\B", r"\1", r"\2", r"\3"];
        self.text(node, &formats, &bad);
    }

    fn gemini(&mut self, node: &Map<String, Value>) {
        let known = |keyword: &String| {
            GEMINI.contains(&keyword.as_str()) || keyword == "additionalProperties"
        };
        if !node.keys().all(known) {
            self.say("an unknown keyword", node);
        }
        if node.contains_key("$ref") && node.keys().any(|keyword| !keyword.starts_with('$')) {
            self.say("words beside a reference", node);
        }
        let mut values = node.get("enum").and_then(Value::as_array).into_iter().flatten();
        if !values.all(Value::is_string) {
            self.say("an enum of other than texts", node);
        }
        let mut values = node.get("enum").and_then(Value::as_array).into_iter().flatten();
        if values.any(|value| value == "") || properties(node).any(|(name, _)| name.is_empty()) {
            self.say("an empty text", node);
        }
    }

    fn with_items(&mut self, node: &Map<String, Value>) {
        let says = node.contains_key("items") || node.contains_key("prefixItems");
        if types(node).contains(&"array") && !says {
            self.say("a list without items", node);
        }
    }

    fn closed(&mut self, node: &Map<String, Value>) {
        let object = types(node).contains(&"object") || node.contains_key("properties");
        let closed = node.get("additionalProperties") == Some(&Value::Bool(false));
        if object && !(closed && node.contains_key("properties")) {
            self.say("an open object", node);
        }
    }

    fn text(&mut self, node: &Map<String, Value>, formats: &[&str], patterns: &[&str]) {
        let word = |keyword| node.get(keyword).and_then(Value::as_str);
        if word("format").is_some_and(|format| !formats.contains(&format)) {
            self.say("an unknown format", node);
        }
        if word("pattern").is_some_and(|text| patterns.iter().any(|bad| text.contains(bad))) {
            self.say("a pattern", node);
        }
    }

    fn is_recursive(&self) -> bool {
        let references = |schema: &Value| -> Vec<String> {
            let mut found = Vec::new();
            let mut waiting = vec![schema];
            while let Some(node) = waiting.pop().and_then(Value::as_object) {
                found.extend(node.get("$ref").and_then(Value::as_str).map(str::to_owned));
                waiting.extend(below(node));
            }
            found
        };
        let all = references(self.root);
        all.iter().any(|start| {
            let mut seen = HashSet::new();
            let mut waiting = vec![start.clone()];
            while let Some(next) = waiting.pop() {
                let target = self.root.pointer(next.trim_start_matches('#'));
                for reference in target.map(references).unwrap_or_default() {
                    if reference == *start {
                        return true;
                    }
                    if seen.insert(reference.clone()) {
                        waiting.push(reference);
                    }
                }
            }
            false
        })
    }
}

fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(plain)
}

fn types(node: &Map<String, Value>) -> Vec<&str> {
    match node.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn is_union(schema: &Value) -> bool {
    schema.get("anyOf").is_some() || schema["type"].is_array()
}

fn properties(node: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    node.get("properties").and_then(Value::as_object).into_iter().flatten()
}

/// The schemas directly below one.
fn below(node: &Map<String, Value>) -> Vec<&Value> {
    let mut all = Vec::new();
    for (keyword, value) in node {
        match (keyword.as_str(), value) {
            ("properties" | "$defs" | "patternProperties", Value::Object(named)) => {
                all.extend(named.values());
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(list)) => all.extend(list),
            ("items" | "additionalProperties" | "propertyNames" | "not" | "if" | "then", one) => {
                all.push(one);
            }
            _ => {}
        }
    }
    all
}
