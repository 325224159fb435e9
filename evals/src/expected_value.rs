//! The values that a case accepts, and their comparison with a value that was made.
//!
//! In: a value as a user writes it, which may contain rules such as `{"$one_of": [1, 2]}`, and a value
//! from a model, read by its contract. Out: the differences, each with its path.
//!
//! The schema of the contract decides which values are equal:
//!
//! ```text
//! 5 and 5.0                            equal, as in JSON Schema
//! a field left out, and its default    equal
//! a field left out, and null           equal, if the field may be both
//! [1, 2] and [2, 1]                    equal under `uniqueItems`, which is a set
//! ```
//!
//! Begin with [`Rule::parse`] and [`differences`].

use std::fmt;

use regex::Regex;
use serde_json::{Map, Number, Value};

use crate::matching::matching;

/// Names of the rules, for errors.
const RULES: &str =
    "`$any`, `$contains`, `$exactly`, `$has`, `$matches`, `$one_of` and `$optional`";

/// Maximum number of differences that are listed.
const MOST: usize = 20;

/// Maximum number of steps from a schema to those that hold for the same value. A schema can refer to itself.
const STEPS: usize = 32;

/// Maximum number of steps down into a value to choose a member of a union. Each step may try all members
/// again, and the tag of a member is near its root.
const CHOICE_STEPS: usize = 8;

/// The values that are accepted at one place.
#[derive(Debug, Clone)]
pub(crate) enum Rule {
    Any,
    /// A text, number, boolean or null.
    Scalar(Value),
    List(Vec<Self>),
    Fields {
        fields: Vec<(String, Self)>,
        /// Whether further fields are accepted.
        others: bool,
    },
    Optional(Box<Self>),
    OneOf(Vec<Self>),
    Contains(String),
    Matches(Regex),
    /// A rule below which texts are compared as they are.
    Exactly(Box<Self>),
}

/// One difference between an expected value and another one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ValueDifference {
    /// The path, from `$`.
    pub(crate) path: String,
    pub(crate) expected: String,
    pub(crate) got: String,
}

impl fmt::Display for ValueDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, expected, got } = self;
        write!(f, "{path}: expected {expected}, got {got}")
    }
}

impl Rule {
    /// Reads a value with rules. The error is a sentence that names the place and the fix.
    pub(crate) fn parse(value: &Value) -> Result<Self, String> {
        Self::parse_at(value, "$")
    }

    fn parse_at(value: &Value, path: &str) -> Result<Self, String> {
        let fields = match value {
            Value::Object(fields) => fields,
            Value::Array(items) => {
                let items = items.iter().enumerate();
                let rule = |(at, item)| Self::parse_at(item, &format!("{path}[{at}]"));
                return items.map(rule).collect::<Result<_, _>>().map(Self::List);
            }
            scalar => return Ok(Self::Scalar(scalar.clone())),
        };
        let Some((name, value)) = fields.iter().find(|(name, _)| name.starts_with('$')) else {
            return Self::fields(fields, path, false);
        };
        let fault = |what: &str| Err(format!("`{name}` at {path} {what}"));
        if fields.len() > 1 {
            return fault(
                "is a rule, and stands beside other fields; write it as the only field, or put the object under `$exactly`",
            );
        }
        match (name.as_str(), value) {
            ("$any", Value::Bool(true)) => Ok(Self::Any),
            ("$any", _) => fault("needs the value true"),
            ("$exactly", value) => Ok(Self::Exactly(Box::new(Self::literal(value)))),
            ("$optional", value) => {
                Self::parse_at(value, path).map(|rule| Self::Optional(Box::new(rule)))
            }
            ("$has", Value::Object(fields)) => Self::fields(fields, path, true),
            ("$has", _) => fault("needs an object with the expected fields"),
            ("$one_of", Value::Array(values)) if !values.is_empty() => {
                let rules = values.iter().map(|value| Self::parse_at(value, path));
                rules.collect::<Result<_, _>>().map(Self::OneOf)
            }
            ("$one_of", _) => fault("needs a list of the accepted values"),
            ("$contains", Value::String(text)) => Ok(Self::Contains(text.clone())),
            ("$contains", _) => fault("needs a text"),
            ("$matches", Value::String(pattern)) => match Regex::new(pattern) {
                Ok(pattern) => Ok(Self::Matches(pattern)),
                Err(error) => fault(&format!("needs a regular expression: {error}")),
            },
            ("$matches", _) => fault("needs a regular expression"),
            _ => fault(&format!(
                "is not a rule; the rules are {RULES}; to expect a field of this name, put the object under `$exactly`"
            )),
        }
    }

    fn fields(fields: &Map<String, Value>, path: &str, others: bool) -> Result<Self, String> {
        let rule = |(name, value): (&String, &Value)| {
            Self::parse_at(value, &with_field(path, name)).map(|rule| (name.clone(), rule))
        };
        let fields = fields.iter().map(rule).collect::<Result<_, _>>()?;
        Ok(Self::Fields { fields, others })
    }

    /// Returns the rule for one value, in which nothing is a rule.
    pub(crate) fn literal(value: &Value) -> Self {
        match value {
            Value::Array(items) => Self::List(items.iter().map(Self::literal).collect()),
            Value::Object(fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(name, value)| (name.clone(), Self::literal(value)));
                Self::Fields { fields: fields.collect(), others: false }
            }
            scalar => Self::Scalar(scalar.clone()),
        }
    }

    /// Returns the one value that the rule accepts, without its optional fields. `None` if it accepts several.
    pub(crate) fn value(&self) -> Option<Value> {
        match self {
            Self::Scalar(value) => Some(value.clone()),
            Self::Exactly(rule) => rule.value(),
            Self::List(rules) => rules.iter().map(Self::value).collect(),
            Self::Fields { fields, others: false } => {
                let given = fields.iter().filter(|(_, rule)| !rule.is_optional());
                let given = given.map(|(name, rule)| Some((name.clone(), rule.value()?)));
                given.collect::<Option<Map<_, _>>>().map(Value::Object)
            }
            _ => None,
        }
    }

    /// Whether the field may be left out.
    fn is_optional(&self) -> bool {
        match self {
            Self::Optional(_) => true,
            Self::OneOf(rules) => rules.iter().any(Self::is_optional),
            _ => false,
        }
    }

    /// Returns the rule in words.
    fn words(&self) -> String {
        match self {
            Self::Any => "any value".to_owned(),
            Self::Contains(text) => format!("a text with {}", Value::from(text.as_str())),
            Self::Matches(pattern) => format!("a text that matches `{pattern}`"),
            Self::Optional(rule) => format!("{} or no value", rule.words()),
            Self::OneOf(rules) => {
                let words: Vec<_> = rules.iter().map(Self::words).collect();
                format!("one of {}", words.join(", "))
            }
            Self::Exactly(rule) => rule.words(),
            Self::Scalar(value) => shown(value),
            Self::List(rules) => {
                let words: Vec<_> = rules.iter().map(Self::words).collect();
                cut(format!("[{}]", words.join(", ")))
            }
            Self::Fields { fields, others } => {
                let mut words: Vec<_> = fields
                    .iter()
                    .map(|(name, rule)| format!("{}: {}", Value::from(name.as_str()), rule.words()))
                    .collect();
                words.extend(others.then(|| "…".to_owned()));
                cut(format!("{{{}}}", words.join(", ")))
            }
        }
    }
}

/// Changes a text before it is compared.
pub(crate) type ChangeText = dyn Fn(&str) -> String + Send + Sync;

/// Returns the differences between a rule and a value, which the schema describes if there is one.
pub(crate) fn differences(
    rule: &Rule,
    got: &Value,
    schema: Option<&Value>,
    normalize: Option<&ChangeText>,
) -> Vec<ValueDifference> {
    let places = schema.map(|root| Places::of(root, [root], got)).unwrap_or_default();
    let mut comparing = Comparing { normalize, found: Vec::new() };
    comparing.compare(rule, got, &places, "$");
    comparing.found
}

struct Comparing<'n> {
    normalize: Option<&'n ChangeText>,
    found: Vec<ValueDifference>,
}

impl Comparing<'_> {
    fn compare(&mut self, rule: &Rule, got: &Value, places: &Places<'_>, path: &str) {
        match (rule, got) {
            (Rule::Any, _) => {}
            (Rule::Optional(rule), _) => self.compare(rule, got, places, path),
            (Rule::Exactly(rule), _) => {
                let normalize = self.normalize.take();
                self.compare(rule, got, places, path);
                self.normalize = normalize;
            }
            (Rule::OneOf(rules), _) => {
                if !rules.iter().any(|rule| self.fits(rule, got, places)) {
                    self.differ(path, rule.words(), shown(got));
                }
            }
            (Rule::Fields { fields, others }, Value::Object(given)) => {
                self.fields(fields, *others, given, places, path);
            }
            (Rule::List(rules), Value::Array(items)) => self.list(rules, items, places, path),
            (Rule::Scalar(Value::Number(number)), Value::Number(other))
                if same_number(number, other) => {}
            (Rule::Scalar(Value::String(text)), Value::String(other)) if self.same(text, other) => {
            }
            (Rule::Scalar(value), _) if value == got => {}
            (Rule::Contains(part), Value::String(text))
                if text.to_lowercase().contains(&part.to_lowercase()) => {}
            (Rule::Matches(pattern), Value::String(text)) if pattern.is_match(text) => {}
            _ => self.differ(path, rule.words(), shown(got)),
        }
    }

    fn fits(&self, rule: &Rule, got: &Value, places: &Places<'_>) -> bool {
        let mut trial = Comparing { normalize: self.normalize, found: Vec::new() };
        trial.compare(rule, got, places, "$");
        trial.found.is_empty()
    }

    fn same(&self, text: &str, other: &str) -> bool {
        match self.normalize {
            _ if text == other => true,
            Some(normalize) => normalize(text) == normalize(other),
            None => false,
        }
    }

    fn fields(
        &mut self,
        fields: &[(String, Rule)],
        others: bool,
        given: &Map<String, Value>,
        places: &Places<'_>,
        path: &str,
    ) {
        for (name, rule) in fields {
            let below = with_field(path, name);
            if let Some(got) = given.get(name) {
                self.compare(rule, got, &places.field(name, got), &below);
            } else if places.requires(name) {
                // It is not optional, whatever the rule says.
                let rule = if let Rule::Optional(rule) = rule { rule } else { rule };
                self.differ(&below, rule.words(), "no value".to_owned());
            } else if !self.may_be_left_out(rule, name, places) {
                self.differ(&below, rule.words(), "no value".to_owned());
            }
        }
        let is_expected = |name: &str| fields.iter().any(|(expected, _)| expected == name);
        for (name, got) in given {
            if !others && !is_expected(name) && !self.says_nothing(got, name, places) {
                self.differ(&with_field(path, name), "no value".to_owned(), shown(got));
            }
        }
    }

    /// Whether a field that was left out is what a rule accepts.
    fn may_be_left_out(&self, rule: &Rule, name: &str, places: &Places<'_>) -> bool {
        let fits = |value: &Value| self.fits(rule, value, &places.field(name, value));
        rule.is_optional()
            || match places.default_of(name) {
                Some(default) => fits(default),
                None => places.takes_null(name) && fits(&Value::Null),
            }
    }

    /// Whether a field has the value that it has when it is left out.
    fn says_nothing(&self, got: &Value, name: &str, places: &Places<'_>) -> bool {
        match places.default_of(name) {
            Some(default) => {
                // It is compared as a value, not as a text of a model.
                let strict = Self { normalize: None, found: Vec::new() };
                strict.fits(&Rule::literal(default), got, &places.field(name, got))
            }
            None => got.is_null() && !places.requires(name) && places.takes_null(name),
        }
    }

    fn list(&mut self, rules: &[Rule], items: &[Value], places: &Places<'_>, path: &str) {
        let fits = |rule: usize, item: usize| {
            let got = &items[item];
            self.fits(&rules[rule], got, &places.item(item, got))
        };
        if places.is_set() {
            let found = matching(rules.len(), items.len(), fits);
            for (rule, _) in rules.iter().zip(&found).filter(|(_, item)| item.is_none()) {
                self.differ(path, rule.words(), "no such item".to_owned());
            }
            for (at, item) in items.iter().enumerate() {
                if !found.contains(&Some(at)) {
                    self.differ(&format!("{path}[{at}]"), "no such item".to_owned(), shown(item));
                }
            }
            return;
        }
        if rules.len() != items.len() {
            let expected = Rule::List(rules.to_vec()).words();
            let got = cut(format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", ")));
            self.differ(path, expected, got);
            return;
        }
        for (at, (rule, item)) in rules.iter().zip(items).enumerate() {
            self.compare(rule, item, &places.item(at, item), &format!("{path}[{at}]"));
        }
    }

    fn differ(&mut self, path: &str, expected: String, got: String) {
        if self.found.len() < MOST {
            self.found.push(ValueDifference { path: path.to_owned(), expected, got });
        }
    }
}

/// The schemas that describe one value: all of them hold.
///
/// Without a contract there are none, and then no two different values are equal, except for numbers.
#[derive(Default)]
struct Places<'s> {
    root: Option<&'s Value>,
    here: Vec<&'s Map<String, Value>>,
}

impl<'s> Places<'s> {
    fn of(root: &'s Value, schemas: impl IntoIterator<Item = &'s Value>, got: &Value) -> Self {
        let mut here = Vec::new();
        for schema in schemas {
            collect(root, schema, got, STEPS, &mut here);
        }
        Self { root: Some(root), here }
    }

    /// Returns the schemas of a field.
    fn field(&self, name: &str, got: &Value) -> Self {
        let Some(root) = self.root else { return Self::default() };
        let below = self.here.iter().filter_map(|schema| {
            let own = schema.get("properties").and_then(|fields| fields.get(name));
            own.or_else(|| schema.get("additionalProperties"))
        });
        Self::of(root, below, got)
    }

    /// Returns the schemas of an item.
    fn item(&self, at: usize, got: &Value) -> Self {
        let Some(root) = self.root else { return Self::default() };
        let below = self.here.iter().filter_map(|schema| {
            let own = schema.get("prefixItems").and_then(|items| items.get(at));
            own.or_else(|| schema.get("items"))
        });
        Self::of(root, below, got)
    }

    fn own(&self, name: &str) -> impl Iterator<Item = &'s Value> {
        let properties = self.here.iter().filter_map(|schema| schema.get("properties"));
        properties.filter_map(move |fields| fields.get(name))
    }

    /// Returns the default of a field.
    fn default_of(&self, name: &str) -> Option<&'s Value> {
        self.own(name).find_map(|schema| {
            let referred = || self.root.and_then(|root| target(root, schema));
            schema.get("default").or_else(|| referred()?.get("default"))
        })
    }

    fn requires(&self, name: &str) -> bool {
        let required = self.here.iter().filter_map(|schema| schema.get("required")?.as_array());
        required.flatten().any(|required| required == name)
    }

    fn takes_null(&self, name: &str) -> bool {
        self.root.is_some_and(|root| self.own(name).any(|schema| takes_null(root, schema, STEPS)))
    }

    /// Whether the order of items has no meaning.
    fn is_set(&self) -> bool {
        self.here.iter().any(|schema| schema.get("uniqueItems") == Some(&Value::Bool(true)))
    }
}

/// Returns the schema that a reference leads to.
fn target<'s>(root: &'s Value, schema: &Value) -> Option<&'s Value> {
    root.pointer(schema.get("$ref")?.as_str()?.strip_prefix('#')?)
}

/// Collects the schemas that hold for a value: of a union, the first member that the value may fit.
fn collect<'s>(
    root: &'s Value,
    schema: &'s Value,
    got: &Value,
    steps: usize,
    here: &mut Vec<&'s Map<String, Value>>,
) {
    let (Some(map), Some(steps)) = (schema.as_object(), steps.checked_sub(1)) else { return };
    here.push(map);
    let all = map.get("allOf").and_then(Value::as_array).into_iter().flatten();
    let unions = ["anyOf", "oneOf"].into_iter().filter_map(|union| map.get(union)?.as_array());
    let chosen = unions.filter_map(|union| {
        union.iter().find(|member| may_fit(root, member, got, CHOICE_STEPS)).or(union.first())
    });
    for schema in target(root, schema).into_iter().chain(all).chain(chosen) {
        collect(root, schema, got, steps, here);
    }
}

/// Whether a value has the type, the required fields and the tags of a schema. Whether it breaks another
/// rule makes no difference for the choice of a member.
fn may_fit(root: &Value, schema: &Value, got: &Value, steps: usize) -> bool {
    let (Some(map), Some(steps)) = (schema.as_object(), steps.checked_sub(1)) else {
        // It is not known, so it may.
        return schema != &Value::Bool(false);
    };
    if let Some(target) = target(root, schema)
        && !may_fit(root, target, got, steps)
    {
        return false;
    }
    let is_type = |kind: &Value| match kind.as_str() {
        Some("null") => got.is_null(),
        Some("boolean") => got.is_boolean(),
        Some("string") => got.is_string(),
        Some("array") => got.is_array(),
        Some("object") => got.is_object(),
        Some("number") => got.is_number(),
        Some("integer") => {
            got.is_i64() || got.is_u64() || got.as_f64().is_some_and(|float| float.fract() == 0.0)
        }
        _ => true,
    };
    let fits_type = match map.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is_type),
        Some(kind) => is_type(kind),
        None => true,
    };
    let fits_values = map.get("const").is_none_or(|value| value == got)
        && map.get("enum").and_then(Value::as_array).is_none_or(|values| values.contains(got));
    let fits_fields = got.as_object().is_none_or(|given| {
        let required = map.get("required").and_then(Value::as_array).into_iter().flatten();
        let mut required = required.filter_map(Value::as_str);
        let fields = map.get("properties").and_then(Value::as_object).into_iter().flatten();
        required.all(|name| given.contains_key(name))
            && fields
                .filter_map(|(name, schema)| Some((schema, given.get(name)?)))
                .all(|(schema, got)| may_fit(root, schema, got, steps))
    });
    let members = |union: &str| map.get(union).and_then(Value::as_array);
    let fits_one = |union: &str| {
        members(union).is_none_or(|all| all.iter().any(|member| may_fit(root, member, got, steps)))
    };
    fits_type
        && fits_values
        && fits_fields
        && fits_one("anyOf")
        && fits_one("oneOf")
        && members("allOf").is_none_or(|all| all.iter().all(|part| may_fit(root, part, got, steps)))
}

/// Whether a schema lists null among its types or values.
fn takes_null(root: &Value, schema: &Value, steps: usize) -> bool {
    let Some(steps) = steps.checked_sub(1) else { return false };
    let list = |keyword: &str| schema.get(keyword).and_then(Value::as_array).into_iter().flatten();
    let kind = schema.get("type");
    kind.is_some_and(|kind| kind == "null")
        || list("type").any(|kind| kind == "null")
        || schema.get("const").is_some_and(Value::is_null)
        || list("anyOf").chain(list("oneOf")).any(|member| takes_null(root, member, steps))
        || target(root, schema).is_some_and(|target| takes_null(root, target, steps))
}

/// Whether two numbers are equal, as in JSON Schema: 5 and 5.0 are.
fn same_number(one: &Number, other: &Number) -> bool {
    match (integer(one), integer(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one.as_f64() == other.as_f64(),
        _ => false,
    }
}

/// Returns a number that is an integer, without rounding.
fn integer(number: &Number) -> Option<i128> {
    /// Floats up to here are exact as an `i128`.
    const LARGEST: f64 = 1e38;

    let whole = number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
    whole.or_else(|| {
        let float = number.as_f64()?;
        (float.fract() == 0.0 && float.abs() < LARGEST).then_some(float as i128)
    })
}

/// Returns a path with one more field: `$.title`, `$["a.b"]`.
fn with_field(path: &str, name: &str) -> String {
    if name.is_empty() || name.contains(['.', '[', ']', '"']) {
        format!("{path}[{}]", Value::from(name))
    } else {
        format!("{path}.{name}")
    }
}

/// Returns a value as JSON, cut to one line of a usual length.
pub(crate) fn shown(value: &Value) -> String {
    cut(value.to_string())
}

fn cut(mut text: String) -> String {
    const LONGEST: usize = 200;

    if let Some((end, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(end);
        text.push('…');
    }
    text
}
