//! The texts of a tool that an index reads.
use serde_json::Value;

/// Maximum depth of a schema that is read.
const DEEPEST: usize = 64;

/// Maximum number of schemas, names and values of a tool that are read.
const MOST_NODES: usize = 10_000;

/// Keywords whose value is a schema or a list of schemas.
const WITH_SCHEMAS: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "else",
    "if",
    "items",
    "oneOf",
    "prefixItems",
    "then",
    "unevaluatedProperties",
];

/// Keywords whose value does not describe what a tool does.
const WITHOUT_TEXTS: &[&str] = &[
    "default",
    "dependentRequired",
    "discriminator",
    "example",
    "examples",
    "not",
    "propertyNames",
    "required",
    "type",
];

/// What a text of a tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Name,
    Description,
    FieldName,
    FieldDescription,
    Value,
}

/// Calls `each` with the texts of a schema: names and descriptions of fields, and values.
///
/// The schema may be of any origin. An object below an unknown key counts as a field, so fields
/// without `properties` are read too. Everything else that is unknown is skipped.
pub(super) fn each_text(schema: &Value, each: &mut impl FnMut(Part, &str)) {
    Walk { left: MOST_NODES, each }.schema(schema, 0);
}

struct Walk<'e, F> {
    /// Number of schemas and values that may still be read.
    left: usize,
    each: &'e mut F,
}

impl<F: FnMut(Part, &str)> Walk<'_, F> {
    fn schema(&mut self, schema: &Value, depth: usize) {
        if depth > DEEPEST || !self.may_read() {
            return;
        }
        match schema {
            Value::Array(list) => list.iter().for_each(|schema| self.schema(schema, depth + 1)),
            Value::Object(keywords) => {
                for (keyword, value) in keywords {
                    self.keyword(keyword, value, depth + 1);
                }
            }
            _ => {}
        }
    }

    fn keyword(&mut self, keyword: &str, value: &Value, depth: usize) {
        match (keyword, value) {
            ("title" | "description", Value::String(text)) => {
                (self.each)(Part::FieldDescription, text);
            }
            ("const", value) => self.value(value),
            ("enum", Value::Array(values)) => values.iter().for_each(|value| self.value(value)),
            ("properties" | "patternProperties", Value::Object(fields)) => {
                for (name, field) in fields {
                    self.field(name, field, depth);
                }
            }
            ("$defs" | "definitions" | "dependentSchemas", Value::Object(schemas)) => {
                schemas.values().for_each(|schema| self.schema(schema, depth));
            }
            (keyword, schemas) if WITH_SCHEMAS.contains(&keyword) => self.schema(schemas, depth),
            (keyword, Value::Object(_)) if !WITHOUT_TEXTS.contains(&keyword) => {
                self.field(keyword, value, depth);
            }
            _ => {}
        }
    }

    fn field(&mut self, name: &str, schema: &Value, depth: usize) {
        if self.left > 0 {
            (self.each)(Part::FieldName, name);
            self.schema(schema, depth);
        }
    }

    fn value(&mut self, value: &Value) {
        if self.may_read() {
            match value {
                Value::String(text) => (self.each)(Part::Value, text),
                Value::Number(number) => (self.each)(Part::Value, &number.to_string()),
                // The values of an object or a list are not words of the tool.
                _ => {}
            }
        }
    }

    fn may_read(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(schema: &Value) -> Vec<(Part, String)> {
        let mut texts = Vec::new();
        each_text(schema, &mut |part, text| texts.push((part, text.to_owned())));
        texts
    }

    #[test]
    fn every_text_of_a_schema_is_read() {
        let schema = json!({
            "type": "object",
            "title": "Order",
            "required": ["not_read"],
            "properties": {
                "description": {"type": "string", "enum": ["red", 7, null], "default": "no"},
                "lines": {"type": "array", "items": {"anyOf": [
                    {"properties": {"unit": {"const": "kilo", "description": "Of weight."}}},
                    {"$ref": "#/$defs/Line"},
                ]}},
            },
            "$defs": {"Line": {"properties": {"price": {"type": ["number", "null"]}}}},
        });
        let expected = [
            (Part::FieldDescription, "Order"),
            (Part::FieldName, "description"),
            (Part::Value, "red"),
            (Part::Value, "7"),
            (Part::FieldName, "lines"),
            (Part::FieldName, "unit"),
            (Part::Value, "kilo"),
            (Part::FieldDescription, "Of weight."),
            (Part::FieldName, "price"),
        ];
        assert_eq!(texts(&schema), expected.map(|(part, text)| (part, text.to_owned())));
    }

    #[test]
    fn a_schema_of_another_form_is_read_as_far_as_possible() {
        let dict = json!({"type": "dict", "properties": {"ratio": {"type": "float"}, "odd": true}});
        assert_eq!(texts(&dict).len(), 2);
        let fields = json!({"city": {"type": "str", "description": "Where."}, "count": 3});
        let expected = [(Part::FieldName, "city"), (Part::FieldDescription, "Where.")];
        assert_eq!(texts(&fields), expected.map(|(part, text)| (part, text.to_owned())));
        let odd = json!({"properties": [1], "enum": "x", "description": 3, "anyOf": {"a": 1}});
        assert_eq!(texts(&odd), []);
        for other in [json!(null), json!("text"), json!([3, [], {}])] {
            assert_eq!(texts(&other), []);
        }
    }

    #[test]
    fn a_hostile_schema_is_read_in_part() {
        let mut deep = json!({"description": "end"});
        for _ in 0..500 {
            deep = json!({"properties": {"a": deep}});
        }
        assert_eq!(texts(&deep).len(), DEEPEST + 1);
        let values = json!({"enum": (0..100_000).collect::<Vec<_>>()});
        assert!(texts(&values).len() < MOST_NODES);
        let wide: serde_json::Map<_, _> =
            (0..100_000).map(|at| (at.to_string(), json!({}))).collect();
        assert!(texts(&json!({"properties": wide})).len() < MOST_NODES);
    }
}
