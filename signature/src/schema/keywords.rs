//! The keywords of JSON Schema in one table: the value of each keyword, the types that it applies
//! to, and its role.
//!
//! The check of foreign schemas, the normal form, merging, the graph, lowering and comparing all
//! read it. To support a keyword, add a row to [`keyword`], and a field to the graph if reading has
//! to check it:
//!
//! ```text
//! "minLength" => (E::Count, TEXT, R::Least)    a count, for texts, the larger of two applies
//! ```
//!
//! [`below`] lists the schemas inside a schema. The value of a keyword that contains no schema,
//! such as `const` or `default`, is data and may only look like a schema.

use serde_json::{Map, Value, json};

use super::types::Types;

/// The keyword for definitions.
pub(crate) const DEFINITIONS: &str = "$defs";

/// The keywords of one schema, with their values.
pub(crate) type Keywords = Map<String, Value>;

/// Returns the text of a keyword.
pub(crate) fn text<'a>(map: &'a Keywords, keyword: &str) -> Option<&'a str> {
    map.get(keyword).and_then(Value::as_str)
}

/// Returns the items of a keyword whose value is a list.
pub(crate) fn items<'a>(map: &'a Keywords, keyword: &str) -> std::slice::Iter<'a, Value> {
    map.get(keyword).and_then(Value::as_array).map_or(&[][..], Vec::as_slice).iter()
}

/// Returns the texts of a keyword whose value is a list, such as `required`.
pub(crate) fn texts<'a>(
    map: &'a Keywords,
    keyword: &str,
) -> impl Iterator<Item = &'a str> + use<'a> {
    items(map, keyword).filter_map(Value::as_str)
}

/// Returns the entries of a keyword whose value is an object, such as `properties`.
pub(crate) fn entries<'a>(
    map: &'a Keywords,
    keyword: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    map.get(keyword).and_then(Value::as_object).into_iter().flatten()
}

/// Whether a schema names a type.
pub(crate) fn has_type(schema: &Keywords, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(many)) => many.iter().any(|one| one == kind),
        _ => false,
    }
}

/// Adds null to the types and the listed values of a schema.
pub(crate) fn add_null(map: &mut Keywords) {
    match map.get_mut("type") {
        Some(Value::Array(kinds)) if !kinds.iter().any(|kind| kind == "null") => {
            kinds.push("null".into());
        }
        Some(kind @ Value::String(_)) if kind != "null" => *kind = json!([kind.take(), "null"]),
        _ => {}
    }
    if let Some(Value::Array(values)) = map.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}

/// One keyword.
#[derive(Clone, Copy)]
pub(crate) struct Keyword {
    /// The kind of value that the keyword accepts.
    pub(crate) expects: Expects,
    /// The types of values that it applies to.
    pub(crate) of: Types,
    /// The effect on a value.
    pub(crate) role: Role,
}

/// The kind of value that a keyword accepts. Schemas in it are checked separately.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expects {
    /// Any value: data.
    Anything,
    /// The name of a type, or a list of them.
    Types,
    /// Any text.
    Text,
    /// A regular expression.
    Pattern,
    /// A boolean.
    Truth,
    /// Any number.
    Number,
    /// In draft 4 a boolean beside `minimum` or `maximum`.
    NumberOrTruth,
    /// A number above zero.
    Step,
    /// A whole number, zero or more.
    Count,
    /// A list of data.
    Values,
    /// In draft 3 a boolean in the property itself.
    NamesOrTruth,
    /// One schema.
    Schema,
    /// One schema; until 2019-09 also a list, for tuples.
    SchemaOrSchemas,
    /// A list of schemas.
    Schemas,
    /// A list of at least one schema.
    Members,
    /// Schemas by name.
    NamedSchemas,
    /// Schemas by regular expression.
    PatternSchemas,
    /// Lists of names, by name.
    NamedNames,
    /// Until 2019-09 both, under `dependencies`.
    NamedSchemasOrNames,
}

/// The role of a keyword.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Defines the shape of a value: its types, its parts, its alternatives.
    Shape,
    /// Constrains a value by itself: `pattern`, `multipleOf`.
    Constraint,
    /// Lower bound: of two, the larger one applies.
    Least,
    /// Upper bound: of two, the smaller one applies.
    Most,
    /// Constrains a value by another schema, and is kept unchanged.
    Rule,
    /// Describes a value without constraining it.
    Annotation,
    /// Describes the schema itself, or belongs to an older draft.
    Other,
}

/// Returns the entry of a keyword; `None` for an unknown one.
pub(crate) fn keyword(name: &str) -> Option<Keyword> {
    use {Expects as E, Role as R};
    const NUMBER: Types = Types::NUMBER;
    const TEXT: Types = Types::TEXT;
    const LIST: Types = Types::LIST;
    const OBJECT: Types = Types::OBJECT;
    const ALL: Types = Types::ALL;
    let (expects, of, role) = match name {
        "type" => (E::Types, ALL, R::Shape),
        "enum" => (E::Values, ALL, R::Shape),
        "const" => (E::Anything, ALL, R::Shape),
        "anyOf" | "oneOf" => (E::Members, ALL, R::Shape),
        "properties" => (E::NamedSchemas, OBJECT, R::Shape),
        "patternProperties" => (E::PatternSchemas, OBJECT, R::Shape),
        "additionalProperties" | "propertyNames" | "unevaluatedProperties" => {
            (E::Schema, OBJECT, R::Shape)
        }
        "required" => (E::NamesOrTruth, OBJECT, R::Shape),
        "items" => (E::SchemaOrSchemas, LIST, R::Shape),
        "prefixItems" => (E::Schemas, LIST, R::Shape),
        "minimum" => (E::Number, NUMBER, R::Least),
        "maximum" => (E::Number, NUMBER, R::Most),
        "exclusiveMinimum" => (E::NumberOrTruth, NUMBER, R::Least),
        "exclusiveMaximum" => (E::NumberOrTruth, NUMBER, R::Most),
        "multipleOf" => (E::Step, NUMBER, R::Constraint),
        "minLength" => (E::Count, TEXT, R::Least),
        "maxLength" => (E::Count, TEXT, R::Most),
        "pattern" => (E::Pattern, TEXT, R::Constraint),
        "contentEncoding" | "contentMediaType" => (E::Text, TEXT, R::Constraint),
        // OpenAPI has formats of numbers too.
        "format" => (E::Text, TEXT.with(NUMBER), R::Constraint),
        "minItems" => (E::Count, LIST, R::Least),
        "maxItems" => (E::Count, LIST, R::Most),
        "uniqueItems" => (E::Truth, LIST, R::Constraint),
        "minProperties" => (E::Count, OBJECT, R::Least),
        "maxProperties" => (E::Count, OBJECT, R::Most),
        "dependentRequired" => (E::NamedNames, OBJECT, R::Constraint),
        "allOf" => (E::Members, ALL, R::Rule),
        "not" | "if" | "then" | "else" => (E::Schema, ALL, R::Rule),
        "contains" | "unevaluatedItems" => (E::Schema, LIST, R::Rule),
        "minContains" | "maxContains" => (E::Count, LIST, R::Rule),
        "dependentSchemas" => (E::NamedSchemas, OBJECT, R::Rule),
        "contentSchema" => (E::Schema, TEXT, R::Rule),
        "description" => (E::Text, ALL, R::Annotation),
        "default" => (E::Anything, ALL, R::Annotation),
        "$schema" | "$id" | "$ref" | "$anchor" | "$dynamicRef" | "$dynamicAnchor"
        | "$recursiveRef" | "title" => (E::Text, ALL, R::Other),
        DEFINITIONS | "definitions" => (E::NamedSchemas, ALL, R::Other),
        "nullable" => (E::Truth, ALL, R::Other),
        "additionalItems" => (E::Schema, ALL, R::Other),
        "dependencies" => (E::NamedSchemasOrNames, ALL, R::Other),
        _ => return None,
    };
    Some(Keyword { expects, of, role })
}

/// Whether a keyword has a role.
pub(crate) fn has_role(name: &str, role: Role) -> bool {
    keyword(name).is_some_and(|known| known.role == role)
}

/// Whether a keyword is an annotation.
pub(crate) fn is_annotation(name: &str) -> bool {
    has_role(name, Role::Annotation)
}

/// Whether the value of a keyword is a count.
pub(super) fn is_count(name: &str) -> bool {
    keyword(name).is_some_and(|known| known.expects == Expects::Count)
}

impl Keyword {
    /// Whether the value contains schemas.
    pub(crate) fn holds_schemas(self) -> bool {
        self.holds_one() || self.holds_list() || self.holds_named()
    }

    /// Whether the value may be a schema.
    fn holds_one(self) -> bool {
        matches!(self.expects, Expects::Schema | Expects::SchemaOrSchemas)
    }

    /// Whether the value may be a list of schemas.
    fn holds_list(self) -> bool {
        matches!(self.expects, Expects::SchemaOrSchemas | Expects::Schemas | Expects::Members)
    }

    /// Whether the value is an object of schemas by name.
    pub(crate) fn holds_named(self) -> bool {
        use Expects::{NamedSchemas, NamedSchemasOrNames, PatternSchemas};
        matches!(self.expects, NamedSchemas | PatternSchemas | NamedSchemasOrNames)
    }
}

/// Returns the schemas directly below one, each with its keyword and, if it has one, its name.
///
/// A value that is not of the kind in the table is skipped: a foreign schema may have any value.
pub(crate) fn below(schema: &Keywords) -> Vec<(&str, Option<&str>, &Value)> {
    let mut all = Vec::new();
    for (name, value) in schema {
        let (name, Some(known)) = (name.as_str(), keyword(name)) else {
            continue;
        };
        match value {
            Value::Array(list) if known.holds_list() => {
                all.extend(list.iter().map(|below| (name, None, below)));
            }
            Value::Object(named) if known.holds_named() => {
                all.extend(named.iter().map(|(key, below)| (name, Some(key.as_str()), below)));
            }
            one if known.holds_one() && !one.is_array() => all.push((name, None, one)),
            _ => {}
        }
    }
    all
}

/// Returns the schemas directly below one, to change them.
pub(crate) fn below_mut(schema: &mut Keywords) -> Vec<&mut Value> {
    let mut all = Vec::new();
    for (name, value) in schema {
        let Some(known) = keyword(name) else {
            continue;
        };
        match value {
            one if known.holds_one() && !one.is_array() => all.push(one),
            Value::Array(list) if known.holds_list() => all.extend(list),
            Value::Object(named) if known.holds_named() => all.extend(named.values_mut()),
            _ => {}
        }
    }
    all
}

/// Returns a copy of a schema in which each schema directly below it is replaced with the result of `to`,
/// which gets the keyword and the schema. Returns `None` as soon as `to` does.
pub(crate) fn map_below(
    schema: &Keywords,
    mut to: impl FnMut(&str, &Value) -> Option<Value>,
) -> Option<Keywords> {
    let mut mapped = Map::new();
    for (name, value) in schema {
        let new = match (keyword(name), value) {
            (Some(known), Value::Array(list)) if known.holds_list() => {
                list.iter().map(|below| to(name, below)).collect::<Option<Vec<_>>>()?.into()
            }
            (Some(known), Value::Object(named)) if known.holds_named() => {
                let new = named.iter().map(|(key, below)| Some((key.clone(), to(name, below)?)));
                new.collect::<Option<Keywords>>()?.into()
            }
            (Some(known), one) if known.holds_one() && !one.is_array() => to(name, one)?,
            _ => value.clone(),
        };
        mapped.insert(name.clone(), new);
    }
    Some(mapped)
}

/// Returns the path of a schema below another, in the values that they describe.
///
/// ```text
/// $.a, "properties", "b" → $.a.b        $.a, "items" → $.a[]        $.a, "anyOf" → $.a
/// ```
pub(crate) fn path_below(path: &str, keyword: &str, name: Option<&str>) -> String {
    match (keyword, name) {
        ("properties", Some(name)) => format!("{path}.{name}"),
        ("$defs" | "definitions", Some(name)) => format!("#/{keyword}/{name}"),
        ("items" | "prefixItems", None) => format!("{path}[]"),
        ("additionalProperties" | "patternProperties" | "propertyNames", _) => format!("{path}.*"),
        _ => path.to_owned(),
    }
}

/// Returns a schema and all schemas below it, each with its path.
pub(crate) fn schemas_in(root: &Value) -> impl Iterator<Item = (&Keywords, String)> {
    let mut waiting = vec![(root, "$".to_owned())];
    std::iter::from_fn(move || {
        loop {
            let (schema, path) = waiting.pop()?;
            if let Some(map) = schema.as_object() {
                let parts = below(map).into_iter().rev();
                let with_path = |(keyword, name, part)| (part, path_below(&path, keyword, name));
                waiting.extend(parts.map(with_path));
                return Some((map, path));
            }
        }
    })
}
