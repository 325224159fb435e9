//! Values that a schema allows.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::string::string_regex;
use serde_json::{Map, Number, Value, json};

/// Maximum number of references on the way to a value, for recursive types.
const DEPTH: usize = 3;

/// Maximum number of items or entries where the schema has no bound.
const MANY: usize = 3;

/// Values that fit a schema, as the crate generates it.
pub(crate) fn values(root: &Value) -> BoxedStrategy<Value> {
    values_if_any(root).expect("a schema that a finite value fits")
}

/// The same for a schema that may have no finite value.
pub(crate) fn values_if_any(root: &Value) -> Option<BoxedStrategy<Value>> {
    Generator { root }.any(root, DEPTH)
}

type Made = Option<BoxedStrategy<Value>>;

struct Generator<'a> {
    root: &'a Value,
}

impl Generator<'_> {
    /// Values of a schema with at most `depth` references; `None` if all have more.
    fn any(&self, schema: &Value, depth: usize) -> Made {
        let Value::Object(map) = schema else {
            return (schema == &Value::Bool(true)).then(anything);
        };
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            let target = self.root.pointer(reference.strip_prefix('#')?)?;
            return self.any(target, depth.checked_sub(1)?);
        }
        if let Some(value) = map.get("const") {
            return Some(Just(value.clone()).boxed());
        }
        if let Some(values) = map.get("enum").and_then(Value::as_array) {
            return Some(select(values.clone()).boxed());
        }
        let union = ["anyOf", "oneOf"].into_iter().find_map(|word| map.get(word)?.as_array());
        if let Some(members) = union {
            let member = one_of(members.iter().filter_map(|member| self.any(member, depth)))?;
            if !map.contains_key("properties") {
                return Some(member);
            }
            let own = self.object(map, depth)?;
            return Some((own, member).prop_map(|(own, member)| merged(own, member)).boxed());
        }
        match map.get("type") {
            Some(Value::String(kind)) => self.of_type(kind, map, depth),
            Some(Value::Array(kinds)) => {
                one_of(kinds.iter().filter_map(|kind| self.of_type(kind.as_str()?, map, depth)))
            }
            _ if map.contains_key("properties") => self.object(map, depth),
            _ => Some(anything()),
        }
    }

    fn of_type(&self, kind: &str, schema: &Map<String, Value>, depth: usize) -> Made {
        match kind {
            "null" => Some(Just(Value::Null).boxed()),
            "boolean" => Some(any::<bool>().prop_map(Value::from).boxed()),
            "integer" => Some(integer(schema)),
            "number" => Some(float(schema)),
            "string" => Some(text(schema)),
            "array" => self.list(schema, depth),
            "object" => self.object(schema, depth),
            other => panic!("no type of JSON Schema: {other}"),
        }
    }

    fn list(&self, schema: &Map<String, Value>, depth: usize) -> Made {
        if let Some(prefix) = schema.get("prefixItems").and_then(Value::as_array) {
            let items: Option<Vec<_>> = prefix.iter().map(|item| self.any(item, depth)).collect();
            return Some(items?.prop_map(Value::Array).boxed());
        }
        let least = length(schema, "minItems").unwrap_or(0);
        let most = length(schema, "maxItems").unwrap_or(least + MANY);
        let item = match schema.get("items") {
            Some(items) => self.any(items, depth),
            None => Some(anything()),
        };
        let Some(item) = item else {
            return (least == 0).then(|| Just(json!([])).boxed());
        };
        let distinct = schema.get("uniqueItems") == Some(&Value::Bool(true));
        let list = vec(item, least..=most).prop_map(move |mut items: Vec<Value>| {
            if distinct {
                let mut seen: Vec<Value> = Vec::new();
                items.retain(|item| {
                    !seen.contains(item) && {
                        seen.push(item.clone());
                        true
                    }
                });
            }
            Value::Array(items)
        });
        Some(list.boxed())
    }

    fn object(&self, schema: &Map<String, Value>, depth: usize) -> Made {
        let required = |name: &str| {
            let required = schema.get("required").and_then(Value::as_array);
            required.is_some_and(|required| required.iter().any(|one| one == name))
        };
        let mut fields = Vec::new();
        let own = schema.get("properties").and_then(Value::as_object);
        for (name, property) in own.into_iter().flatten() {
            let value = self.any(property, depth);
            fields.push(match (value, required(name)) {
                (Some(value), true) => named(name, value.prop_map(Some).boxed()),
                (Some(value), false) => named(name, proptest::option::of(value).boxed()),
                (None, false) => continue,
                (None, true) => return None,
            });
        }
        let further = self.further(schema, depth);
        let taken: Vec<String> = own.into_iter().flatten().map(|(name, _)| name.clone()).collect();
        let object = (fields, further).prop_map(move |(own, further)| {
            let own = own.into_iter().filter_map(|(name, value)| Some((name, value?)));
            let further = further.into_iter().filter(|(name, _)| !taken.contains(name));
            Value::Object(own.chain(further).collect())
        });
        Some(object.boxed())
    }

    /// The further fields of an object, by name.
    fn further(
        &self,
        schema: &Map<String, Value>,
        depth: usize,
    ) -> BoxedStrategy<Vec<(String, Value)>> {
        let least = length(schema, "minProperties").unwrap_or(0);
        let mut kinds = Vec::new();
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        for (pattern, values) in patterns.into_iter().flatten() {
            kinds.extend(
                self.any(values, depth).map(|value| (pattern_text(pattern), value).boxed()),
            );
        }
        if let Some(values) = schema.get("additionalProperties").filter(|values| **values != false)
        {
            let key = match schema.get("propertyNames") {
                Some(Value::Object(names)) => self
                    .any(&Value::Object(names.clone()), depth)
                    .expect("names")
                    .prop_map(|name| name.as_str().unwrap_or("x").to_owned())
                    .boxed(),
                _ => key(),
            };
            kinds.extend(self.any(values, depth).map(|value| (key, value).boxed()));
        }
        if kinds.is_empty() {
            return Just(Vec::new()).boxed();
        }
        vec(proptest::strategy::Union::new(kinds), least..=least + MANY).boxed()
    }
}

fn one_of(members: impl Iterator<Item = BoxedStrategy<Value>>) -> Made {
    let members: Vec<_> = members.collect();
    (!members.is_empty()).then(|| proptest::strategy::Union::new(members).boxed())
}

fn named(
    name: &str,
    value: BoxedStrategy<Option<Value>>,
) -> BoxedStrategy<(String, Option<Value>)> {
    (Just(name.to_owned()), value).boxed()
}

fn merged(own: Value, member: Value) -> Value {
    match (own, member) {
        (Value::Object(mut own), Value::Object(member)) => {
            own.extend(member);
            Value::Object(own)
        }
        (_, member) => member,
    }
}

fn length(schema: &Map<String, Value>, word: &str) -> Option<usize> {
    schema.get(word)?.as_u64()?.try_into().ok()
}

fn integer(schema: &Map<String, Value>) -> BoxedStrategy<Value> {
    let bound = |word: &str| schema.get(word).and_then(Value::as_i64);
    let low = bound("minimum").or(bound("exclusiveMinimum").map(|low| low + 1)).unwrap_or(i64::MIN);
    let high =
        bound("maximum").or(bound("exclusiveMaximum").map(|high| high - 1)).unwrap_or(i64::MAX);
    let step = bound("multipleOf").unwrap_or(1);
    let nasty = [0, 1, -1, 9, 10, low, high, 1 << 31, 1 << 53, (1 << 53) + 1, -(1 << 53) - 1];
    let nasty: Vec<i64> = nasty.into_iter().filter(|n| (low..=high).contains(n)).collect();
    let (near, far) = (low.max(-1000)..=high.min(1000), low..=high);
    let not = schema.get("not").and_then(|not| not.get("const")).and_then(Value::as_i64);
    prop_oneof![select(nasty), near, far]
        .prop_map(move |n| n / step * step)
        .prop_filter("not what it must not be", move |n| Some(*n) != not)
        .prop_map(Value::from)
        .boxed()
}

/// Numbers in the range of `f32`, because no schema distinguishes it from `f64`.
fn float(schema: &Map<String, Value>) -> BoxedStrategy<Value> {
    if schema.contains_key("pattern") {
        // Decimals that are read from numbers too hold 28 digits.
        return (any::<i32>(), 0..4_i32)
            .prop_map(|(n, digits)| json!(f64::from(n) / 10_f64.powi(digits)))
            .boxed();
    }
    let bound = |word: &str| schema.get(word).and_then(Value::as_f64);
    let above = bound("exclusiveMinimum").map(|low| low + 1e-9);
    let low = bound("minimum").or(above).unwrap_or(-3e38);
    let high = bound("maximum").unwrap_or(3e38);
    let nasty = [0.0, -0.0, 1.0, -1.0, 0.1, 1.5, 1e21, 1e-7, 3e38, 9_007_199_254_740_993.0, 5e-324];
    let nasty: Vec<f64> = nasty.into_iter().filter(|n| (low..=high).contains(n)).collect();
    let fraction = prop_oneof![select(nasty), low.max(-1e6)..=high.min(1e6), low..=high]
        .prop_map(|n| Number::from_f64(n).map_or(Value::Null, Value::Number));
    let whole = (low.max(-100.0) as i64)..=(high.min(100.0) as i64);
    let whole = whole.prop_filter("in its bounds", move |n| (low..=high).contains(&(*n as f64)));
    prop_oneof![3 => fraction, 1 => whole.prop_map(Value::from)].boxed()
}

/// Texts that look like other values.
const NASTY: [&str; 32] = [
    "",
    " ",
    "a",
    "null",
    "true",
    "false",
    "0",
    "-1",
    "3.5",
    "1e5",
    "NaN",
    "{}",
    "[]",
    "\"",
    r#"{"a": 1}"#,
    r#"["a"]"#,
    r#""quoted""#,
    "```json\n{}\n```",
    "// no comment",
    "key",
    "value",
    "_type",
    "in-progress",
    "Open",
    "a,b",
    "2024-02-29",
    "\n\t",
    "\u{0}",
    "é",
    "🦀",
    "ß ſ",
    "\u{2028}",
];

fn text(schema: &Map<String, Value>) -> BoxedStrategy<Value> {
    let least = length(schema, "minLength").unwrap_or(0);
    let most = length(schema, "maxLength");
    let text = if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
        pattern_text(pattern)
    } else if let Some(format) = schema.get("format").and_then(Value::as_str) {
        format_text(format)
    } else {
        let (least, most) = (least, most.unwrap_or(least + 8));
        let fits = move |text: &str| (least..=most).contains(&text.chars().count());
        let nasty: Vec<&str> = NASTY.into_iter().filter(|text| fits(text)).collect();
        let wild = vec(any::<char>(), least..=most).prop_map(|text| text.into_iter().collect());
        let tame = vec(prop::char::range('a', 'z'), least..=most);
        let tame = tame.prop_map(|text| text.into_iter().collect::<String>());
        match nasty.is_empty() {
            true => prop_oneof![tame, wild].boxed(),
            false => prop_oneof![select(nasty).prop_map(str::to_owned), tame, wild].boxed(),
        }
    };
    text.prop_map(Value::from).boxed()
}

/// Names, most of them with a special meaning.
fn key() -> BoxedStrategy<String> {
    let nasty = select(vec![
        "key",
        "value",
        "input",
        "result",
        "_type",
        "item_0",
        "item_1",
        "additional_properties",
        "arguments",
        "",
        " ",
        "a",
        "0",
        "null",
        "$ref",
        "a/b~c",
        "é",
        "🦀",
    ]);
    prop_oneof![
        nasty.prop_map(str::to_owned),
        "[a-z]{1,6}",
        vec(any::<char>(), 0..4).prop_map(|key| key.into_iter().collect::<String>())
    ]
    .boxed()
}

fn pattern_text(pattern: &str) -> BoxedStrategy<String> {
    match pattern {
        // Keys that are numbers: their type is not known here.
        r"^\d+$" => (0..=127_u8).prop_map(|n| n.to_string()).boxed(),
        r"^-?\d+$" => any::<i8>().prop_map(|n| n.to_string()).boxed(),
        _ if pattern.starts_with("^[0-9]{4}-") => {
            let (day, time) = (format_text("date"), clock());
            (day, time).prop_map(|(day, time)| format!("{day}T{time}")).boxed()
        }
        _ if pattern.contains("([01][0-9]|2[0-3]):") => clock(),
        // Decimals: 28 digits at most, and a number has no sign of zero.
        _ if pattern.starts_with(r"^-?\d+(\.\d+)?") => {
            (any::<i32>(), 0..=99_u8).prop_map(|(n, cents)| format!("{n}.{cents:02}")).boxed()
        }
        // Versions: each number has 64 bits.
        _ if pattern.starts_with(r"^(0|[1-9]\d*)\.(0|") => regex(
            "(0|[1-9][0-9]{0,9})\\.(0|[1-9][0-9]{0,9})\\.(0|[1-9]{1,9})(-[a-z]{1,5}(\\.[1-9][0-9]{0,5})?)?",
        ),
        _ => {
            let bare =
                pattern.trim_start_matches('^').trim_end_matches('$').replace(r"\d", "[0-9]");
            string_regex(&bare).unwrap_or_else(|error| panic!("{pattern}: {error}")).boxed()
        }
    }
}

fn clock() -> BoxedStrategy<String> {
    (0..24_u8, 0..60_u8, 0..60_u8, select(vec!["", ".5", ".123456789"]))
        .prop_map(|(hour, minute, second, rest)| format!("{hour:02}:{minute:02}:{second:02}{rest}"))
        .boxed()
}

fn format_text(format: &str) -> BoxedStrategy<String> {
    let day = || {
        (1..=9999_u16, 1..=12_u8, 1..=28_u8)
            .prop_map(|(year, month, day)| format!("{year:04}-{month:02}-{day:02}"))
            .boxed()
    };
    match format {
        "date" => day(),
        "date-time" => (day(), clock(), select(vec!["Z", "+00:00", "-05:30", "+14:00"]))
            .prop_map(|(day, time, zone)| format!("{day}T{time}{zone}"))
            .boxed(),
        "time" => clock().prop_map(|time| time + "Z").boxed(),
        // RFC 3339 wants minutes between hours and seconds.
        "duration" => (1..1000_u16, 1..60_u8, 1..60_u8)
            .prop_map(|(hours, minutes, seconds)| format!("PT{hours}H{minutes}M{seconds}S"))
            .boxed(),
        "uuid" => any::<u128>().prop_map(|n| uuid::Uuid::from_u128(n).to_string()).boxed(),
        "email" => regex("[a-z]{1,8}(\\.[a-z]{1,8})?@[a-z]{1,8}\\.(org|com)"),
        "uri" => regex("https?://[a-z]{1,8}\\.(org|com)(/[a-z0-9]{1,5}){1,2}(\\?[a-z]=[0-9])?"),
        "ipv4" => any::<std::net::Ipv4Addr>().prop_map(|ip| ip.to_string()).boxed(),
        "ipv6" => any::<std::net::Ipv6Addr>().prop_map(|ip| ip.to_string()).boxed(),
        other => panic!("the generator does not know the format {other}"),
    }
}

fn regex(pattern: &str) -> BoxedStrategy<String> {
    string_regex(pattern).expect("a pattern").boxed()
}

/// Any JSON, to a small depth.
fn anything() -> BoxedStrategy<Value> {
    let nothing = Map::new();
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        integer(&nothing),
        float(&nothing),
        text(&nothing),
    ];
    leaf.prop_recursive(2, 8, 3, |below| {
        prop_oneof![
            vec(below.clone(), 0..3).prop_map(Value::Array),
            vec((key(), below), 0..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
    .boxed()
}

/// The simplest form of a failed value that still fails.
pub(crate) fn smallest(
    mut tree: Box<dyn ValueTree<Value = Value>>,
    fails: impl Fn(&Value) -> bool,
) -> Value {
    let mut smallest = tree.current();
    let mut left = 500;
    let mut simpler = tree.simplify();
    while simpler && left > 0 {
        left -= 1;
        let value = tree.current();
        simpler = if fails(&value) {
            smallest = value;
            tree.simplify()
        } else {
            tree.complicate()
        };
    }
    smallest
}
