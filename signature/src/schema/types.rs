//! The types of JSON, as a set.
//!
//! Every step uses it to ask for the types of values that a schema describes:
//!
//! ```text
//! Types::of_keyword(["integer", "null"])   INTEGER | NULL
//! Types::NUMBER.has(Types::INTEGER)        true: every integer is a number
//! Types::INTEGER.meets(Types::NUMBER)      true: some numbers are integers
//! ```

use serde_json::Value;

/// The names of the types, as messages list them.
pub(crate) const TYPE_NAMES: [&str; 7] =
    ["string", "number", "integer", "boolean", "object", "array", "null"];

/// Returns the name of the type of a value.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The types of JSON, as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Types(u8);

impl Types {
    /// No type: no value fits.
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const NULL: Self = Self(1);
    pub(crate) const BOOLEAN: Self = Self(2);
    /// Numbers without a fraction.
    pub(crate) const INTEGER: Self = Self(4);
    /// Every number, integers too.
    pub(crate) const NUMBER: Self = Self(4 | 8);
    /// The type `string`.
    pub(crate) const TEXT: Self = Self(16);
    /// The type `array`.
    pub(crate) const LIST: Self = Self(32);
    pub(crate) const OBJECT: Self = Self(64);
    /// Every type: any value fits.
    pub(crate) const ALL: Self = Self(127);

    /// The types of values one by one; a number may be an integer or not.
    pub(crate) const EACH: [Self; 6] =
        [Self::NULL, Self::BOOLEAN, Self::NUMBER, Self::TEXT, Self::LIST, Self::OBJECT];

    /// Returns the type of a name, or none for a name that JSON Schema does not know.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            "string" => Self::TEXT,
            "array" => Self::LIST,
            "object" => Self::OBJECT,
            _ => Self::NONE,
        }
    }

    /// Returns the types under a `type` keyword: one name, or a list of them.
    pub(crate) fn of_keyword(kind: &Value) -> Self {
        let names = kind.as_array().map_or(std::slice::from_ref(kind), Vec::as_slice);
        let names = names.iter().filter_map(Value::as_str);
        names.fold(Self::NONE, |types, name| types.with(Self::named(name)))
    }

    /// Returns the type of a value. A number may have a fraction or not.
    pub(crate) fn of_value(value: &Value) -> Self {
        match type_name(value) {
            "integer" => Self::NUMBER,
            name => Self::named(name),
        }
    }

    /// Whether all types of the other set are in this one.
    pub(crate) fn has(self, kinds: Self) -> bool {
        self.0 & kinds.0 == kinds.0
    }

    /// Whether the two sets have a type in common.
    pub(crate) fn meets(self, kinds: Self) -> bool {
        self.0 & kinds.0 != 0
    }

    /// Returns the types of both sets.
    #[must_use]
    pub(crate) const fn with(self, kinds: Self) -> Self {
        Self(self.0 | kinds.0)
    }

    /// Returns the types that are in both sets.
    #[must_use]
    pub(crate) fn common(self, kinds: Self) -> Self {
        Self(self.0 & kinds.0)
    }

    /// Returns the types that are not in the other set.
    #[must_use]
    pub(crate) fn without(self, kinds: Self) -> Self {
        Self(self.0 & !kinds.0)
    }
}
