//! Two versions of contracts whose schemas are built of constructs that no Rust type has.
//!
//! Each pair is a random schema and the same with one or two changes: `unevaluatedProperties` beside
//! references, patterns that overlap, listed lists and objects beside other keywords, fields that
//! ask for others, `if`, `not`, counts of `contains`, parts in `allOf`, `oneOf`, and optional fields
//! that may be null. Both directions are checked with all values of a list. A verdict that nothing
//! breaks must hold for each value that the sender's schema allows: the receiver's contract reads it,
//! and the validator `jsonschema` accepts what was read. Of one contract alone, the values that are
//! read must be those that the validator accepts.
//!
//! A normal run checks 1,500 pairs. The figures in `docs/contracts-in-ci.md` are those of:
//!
//! ```sh
//! CONSTRUCTS_PAIRS=40000 cargo test --release -p toolwright-signature --test main -- constructs:: --nocapture
//! ```
//!
//! A failure prints the number of its pair. `CONSTRUCTS_FIRST=NUMBER CONSTRUCTS_PAIRS=1` repeats it.

use std::slice::from_ref;

use jsonschema::Validator;
use serde_json::{Map, Value, json};
use toolwright_signature::{Contract, ContractChange, Dependent};

use crate::versions::{Dice, setting};

/// Names of fields; patterns below match some of them.
const NAMES: [&str; 4] = ["a", "b", "ab", "x"];
const PATTERNS: [&str; 5] = ["^a", "b$", "^ab", "^x", "^a|x"];

impl Dice {
    fn chance(&mut self, percent: usize) -> bool {
        self.roll(100) < percent
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len())].clone()
    }

    /// Up to `most` different ones.
    fn some<T: Clone + PartialEq>(&mut self, of: &[T], most: usize) -> Vec<T> {
        let mut some = Vec::new();
        for _ in 0..self.roll(most + 1) {
            let one = self.one(of);
            if !some.contains(&one) {
                some.push(one);
            }
        }
        some
    }

    fn number(&mut self) -> Value {
        let mut schema = json!({"type": self.one(&["integer", "number"])});
        for (word, values) in [
            ("minimum", [json!(0), json!(1), json!(2)]),
            ("maximum", [json!(1), json!(5), json!(7)]),
            ("exclusiveMinimum", [json!(0), json!(0.5), json!(1)]),
            ("multipleOf", [json!(1), json!(2), json!(0.5)]),
        ] {
            if self.chance(18) {
                schema[word] = self.one(&values);
            }
        }
        schema
    }

    fn text(&mut self) -> Value {
        let mut schema = json!({"type": "string"});
        if self.chance(25) {
            schema["minLength"] = self.one(&[json!(1), json!(2)]);
        }
        if self.chance(25) {
            schema["maxLength"] = self.one(&[json!(1), json!(2)]);
        }
        if self.chance(25) {
            schema["pattern"] = self.one(&[json!("^a"), json!("b$"), json!("^[a-z]+$")]);
        }
        schema
    }

    fn listed(&mut self) -> Value {
        let values = [
            json!(1),
            json!("a"),
            json!("ab"),
            json!(null),
            json!(5),
            json!({"a": 1}),
            json!({"a": 1, "b": 1}),
            json!({"b": 1}),
            json!([1]),
            json!([1, 2]),
            json!([]),
        ];
        let first = self.one(&values);
        let mut some = self.some(&values, 3);
        some.retain(|one| *one != first);
        some.push(first);
        json!({ "enum": some })
    }

    fn leaf(&mut self) -> Value {
        match self.roll(20) {
            0..8 => self.number(),
            8..12 => self.text(),
            12..15 => self.listed(),
            15..17 => json!({"type": ["integer", "null"]}),
            17 => json!({"type": ["string", "integer"]}),
            18 => json!({"type": "null"}),
            _ => json!({}),
        }
    }

    fn object(&mut self, depth: usize) -> Value {
        let mut schema = json!({"type": "object"});
        if self.chance(75) {
            let names = self.some(&NAMES, 3);
            let fields: Map<_, _> =
                names.into_iter().map(|name| (name.to_owned(), self.any(depth))).collect();
            schema["properties"] = fields.into();
        }
        if self.chance(25) {
            let patterns = self.some(&PATTERNS, 2);
            let fields: Map<_, _> =
                patterns.into_iter().map(|name| (name.to_owned(), self.any(depth))).collect();
            schema["patternProperties"] = fields.into();
        }
        if self.chance(45) {
            schema["additionalProperties"] = match self.roll(4) {
                0 => json!(true),
                1 => self.any(depth),
                _ => json!(false),
            };
        }
        if self.chance(45) {
            schema["required"] = json!(self.some(&NAMES, 2));
        }
        if self.chance(8) {
            schema["propertyNames"] = self.text();
        }
        if self.chance(15) {
            schema["dependentRequired"] = json!({self.one(&NAMES): [self.one(&NAMES)]});
        }
        if self.chance(6) {
            schema["dependentSchemas"] = json!({self.one(&NAMES): self.object(0)});
        }
        if self.chance(8) {
            schema["minProperties"] = self.one(&[json!(1), json!(2)]);
        }
        if self.chance(8) {
            schema["maxProperties"] = self.one(&[json!(1), json!(2)]);
        }
        if self.chance(10) {
            schema["unevaluatedProperties"] = self.one(&[json!(false), json!({"type": "integer"})]);
        }
        schema
    }

    fn list(&mut self, depth: usize) -> Value {
        let mut schema = json!({"type": "array"});
        if self.chance(40) {
            let count = 1 + self.roll(2);
            schema["prefixItems"] = (0..count).map(|_| self.any(depth)).collect();
        }
        if self.chance(40) {
            schema["items"] = if self.chance(30) { json!(false) } else { self.any(depth) };
        }
        for word in ["minItems", "maxItems"] {
            if self.chance(15) {
                schema[word] = self.one(&[json!(0), json!(1), json!(2)]);
            }
        }
        if self.chance(15) {
            schema["uniqueItems"] = json!(true);
        }
        if self.chance(30) {
            schema["contains"] = self.leaf();
        }
        for word in ["minContains", "maxContains"] {
            if self.chance(20) {
                schema[word] = self.one(&[json!(0), json!(1), json!(2)]);
            }
        }
        if self.chance(20) {
            schema["unevaluatedItems"] = self.one(&[json!(false), json!({"type": "integer"})]);
        }
        schema
    }

    /// Any schema with at most `depth` levels of parts.
    fn any(&mut self, depth: usize) -> Value {
        let Some(depth) = depth.checked_sub(1) else { return self.leaf() };
        match self.roll(100) {
            0..18 => self.leaf(),
            18..45 => self.object(depth),
            45..58 => self.list(depth),
            58..64 => json!({"$ref": self.one(&["#/$defs/A", "#/$defs/B"])}),
            64..70 => {
                let reference = json!({"$ref": self.one(&["#/$defs/A", "#/$defs/B"])});
                let mut schema = match self.roll(3) {
                    0 => reference,
                    1 => json!({"allOf": [reference]}),
                    _ => json!({"anyOf": [reference, self.object(0)]}),
                };
                schema["unevaluatedProperties"] =
                    self.one(&[json!(false), json!({"type": "integer"})]);
                schema
            }
            70..80 => json!({self.one(&["anyOf", "oneOf"]): [self.any(depth), self.any(depth)]}),
            80..88 => {
                let mut schema = self.any(depth);
                schema["allOf"] = (0..=self.roll(2)).map(|_| self.any(depth)).collect();
                schema
            }
            88..93 => {
                let mut schema = self.listed();
                for more in [self.object(0), self.list(0)] {
                    if let (Value::Object(more), true) = (more, self.chance(60)) {
                        let more = more.into_iter().filter(|(word, _)| word != "type");
                        schema.as_object_mut().unwrap().extend(more);
                    }
                }
                schema
            }
            _ => {
                let mut schema = self.object(depth);
                if self.chance(50) {
                    schema["not"] = self.condition();
                } else {
                    schema["if"] = self.condition();
                    schema["then"] = self.condition();
                    if self.chance(40) {
                        schema["else"] = self.condition();
                    }
                }
                schema
            }
        }
    }

    /// A schema as conditions have it.
    fn condition(&mut self) -> Value {
        let name = self.one(&NAMES);
        match self.roll(4) {
            0 | 1 => json!({"required": [name]}),
            2 => json!({"properties": {name: self.leaf()}}),
            _ => json!({"properties": {name: self.leaf()}, "required": [name]}),
        }
    }

    fn root(&mut self) -> Value {
        let mut v = self.any(3);
        while v.as_object().is_none_or(|v| v.len() < 2) {
            v = self.any(3);
        }
        json!({
            "type": "object",
            "properties": {"v": v},
            "required": ["v"],
            "additionalProperties": false,
            "$defs": {"A": self.object(0), "B": self.object(0)},
        })
    }

    /// Changes one of the schemas below the root.
    fn change(&mut self, root: &Value) -> Value {
        let mut root = root.clone();
        let mut places = places(&root);
        let text = root.to_string();
        let is_used = |place: &String| match place.strip_prefix("/$defs/") {
            Some(rest) => text.contains(&format!("#/$defs/{}", &rest[..1])),
            None => true,
        };
        places.retain(is_used);
        let place = self.one(&places);
        let Some(schema) = root.pointer_mut(&place) else { return root };
        let old = schema.take();
        // The definitions do not refer to each other.
        *schema = self.changed(old, usize::from(!place.starts_with("/$defs")));
        root
    }

    fn changed(&mut self, schema: Value, depth: usize) -> Value {
        let Value::Object(mut map) = schema else { return self.any(depth) };
        // A schema without a type gets one from its keywords.
        let words: Vec<_> = map.keys().filter(|word| *word != "type").cloned().collect();
        match self.roll(100) {
            0..30 if !words.is_empty() => drop(map.shift_remove(&self.one(&words))),
            0..65 => {
                let kind = map.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
                let more = match kind.as_str() {
                    "object" => self.object(depth),
                    "array" => self.list(depth),
                    "string" => self.text(),
                    "integer" | "number" => self.number(),
                    _ if self.chance(50) => self.object(depth),
                    _ => self.list(depth),
                };
                for (word, value) in more.as_object().cloned().unwrap_or_default() {
                    match (map.get_mut(&word), value) {
                        (_, _) if word == "type" => {}
                        (Some(Value::Object(own)), Value::Object(value))
                            if word.to_lowercase().ends_with("properties") =>
                        {
                            own.extend(value);
                        }
                        (_, value) if self.chance(60) => drop(map.insert(word, value)),
                        _ => {}
                    }
                }
            }
            65..72 => {
                let kind = map.get("type").and_then(Value::as_str).map(str::to_owned);
                if let Some(kind) = kind {
                    map.insert("type".into(), json!([kind, "null"]));
                } else if let Some(Value::Array(kinds)) = map.get("type") {
                    let kind = kinds[0].clone();
                    map.insert("type".into(), kind);
                }
            }
            72..80 => {
                let union = ["anyOf", "oneOf"].into_iter().find(|word| map.contains_key(*word));
                if let Some(union) = union {
                    let members = map.shift_remove(union).unwrap();
                    let other = if union == "anyOf" { "oneOf" } else { "anyOf" };
                    map.insert(other.into(), members);
                }
            }
            80..88 => return json!({"allOf": [map, self.any(depth)]}),
            _ => return self.any(depth),
        }
        map.into()
    }
}

/// The pointers of all schemas below the root.
fn places(schema: &Value) -> Vec<String> {
    fn walk(schema: &Value, at: &str, all: &mut Vec<String>) {
        all.push(at.to_owned());
        for (word, value) in schema.as_object().into_iter().flatten() {
            let at = format!("{at}/{word}");
            match (word.as_str(), value) {
                (
                    "properties" | "patternProperties" | "dependentSchemas" | "$defs",
                    Value::Object(named),
                ) => {
                    for (name, schema) in named {
                        walk(schema, &format!("{at}/{name}"), all);
                    }
                }
                ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(members)) => {
                    for (i, schema) in members.iter().enumerate() {
                        walk(schema, &format!("{at}/{i}"), all);
                    }
                }
                (
                    "items"
                    | "contains"
                    | "not"
                    | "if"
                    | "then"
                    | "else"
                    | "additionalProperties"
                    | "propertyNames"
                    | "unevaluatedProperties"
                    | "unevaluatedItems",
                    one,
                ) => walk(one, &at, all),
                _ => {}
            }
        }
    }
    let mut all = Vec::new();
    walk(schema, "", &mut all);
    all.remove(0);
    all
}

/// Values that tell the schemas apart: all small ones of the names and values above.
fn values() -> Vec<Value> {
    let scalars = [
        json!(null),
        json!(0),
        json!(1),
        json!(2),
        json!(5),
        json!(0.5),
        json!(""),
        json!("a"),
        json!("ab"),
        json!("b"),
        json!(true),
    ];
    let few = [json!(1), json!("a"), json!(null), json!(5)];
    let mut all = scalars.to_vec();
    all.extend([json!([]), json!({})]);
    for one in &scalars {
        all.push(json!([one]));
        all.extend(NAMES.iter().map(|name| json!({*name: one})));
    }
    for one in &few {
        for other in &few {
            all.push(json!([one, other]));
            for (i, name) in NAMES.iter().enumerate() {
                for second in &NAMES[i + 1..] {
                    all.push(json!({*name: one, *second: other}));
                }
            }
        }
    }
    let deep = [
        json!([1]),
        json!([1, 2]),
        json!(["a"]),
        json!([]),
        json!({}),
        json!({"a": 1}),
        json!({"b": 1}),
        json!({"a": 1, "b": 1}),
        json!({"a": null}),
        json!({"x": "a"}),
        json!({"a": 1, "b": null}),
    ];
    for one in &deep {
        all.extend(NAMES.iter().map(|name| json!({*name: one})));
        all.extend([json!([one]), json!([1, one])]);
    }
    all.extend([
        json!([1, 1, 1]),
        json!([1, 2, 5]),
        json!(["a", 1, "a"]),
        json!({"a": 1, "b": 1, "x": 1}),
        json!({"a": 1, "b": "a", "ab": 1}),
        json!({"a": 1, "ab": 1, "b": 1, "x": 1}),
    ]);
    all.into_iter().map(|value| json!({ "v": value })).collect()
}

/// The schema of values that have declared fields only, where an object has no rule for others: a
/// sender is expected to send no others.
///
/// It is not enough by itself: it has no conditions, and the value has to fit the schema too.
fn closed(root: &Value, schema: &Value) -> Value {
    let members = alternatives(root, schema).into_iter().map(|parts| {
        let says = |word: &str| parts.iter().any(|part| part.get(word).is_some());
        let silent = (says("properties") || says("patternProperties"))
            && !says("additionalProperties")
            && !says("unevaluatedProperties");
        // Beside other parts, it does not see their fields.
        let alone = parts.len() == 1;
        let without = |part: Value| match part {
            Value::Object(mut part) => {
                // The schema itself has them too.
                for word in ["unevaluatedItems", "dependentSchemas"] {
                    part.shift_remove(word);
                }
                if !alone {
                    part.shift_remove("unevaluatedProperties");
                }
                part.into()
            }
            other => other,
        };
        let inferred = inferred(&parts);
        let parts: Vec<_> = parts.into_iter().map(without).chain(inferred).collect();
        let mut member = json!({ "allOf": parts });
        if silent {
            member["unevaluatedProperties"] = json!(false);
        }
        member
    });
    json!({"anyOf": members.collect::<Vec<_>>()})
}

/// The type that a contract infers if no part has one: that of its keywords.
fn inferred(parts: &[Value]) -> Option<Value> {
    let has =
        |words: &[&str]| parts.iter().any(|part| words.iter().any(|word| part.get(word).is_some()));
    const OBJECT: [&str; 10] = [
        "properties",
        "patternProperties",
        "additionalProperties",
        "unevaluatedProperties",
        "required",
        "propertyNames",
        "dependentRequired",
        "dependentSchemas",
        "minProperties",
        "maxProperties",
    ];
    const LIST: [&str; 9] = [
        "items",
        "prefixItems",
        "contains",
        "minContains",
        "maxContains",
        "unevaluatedItems",
        "minItems",
        "maxItems",
        "uniqueItems",
    ];
    const NUMBER: [&str; 4] = ["minimum", "maximum", "exclusiveMinimum", "multipleOf"];
    const TEXT: [&str; 3] = ["minLength", "maxLength", "pattern"];
    let kinds = [
        (has(&OBJECT), "object"),
        (has(&LIST), "array"),
        (has(&NUMBER), "number"),
        (has(&TEXT), "string"),
    ];
    let kinds: Vec<_> = kinds.into_iter().filter(|(has, _)| *has).map(|(_, kind)| kind).collect();
    let typed = has(&["type", "enum", "const"]) || kinds.is_empty();
    (!typed).then(|| json!({ "type": kinds }))
}

/// The ways in which a value may fit: for each, the parts that have to fit together.
fn alternatives(root: &Value, schema: &Value) -> Vec<Vec<Value>> {
    let Value::Object(map) = schema else { return vec![vec![schema.clone()]] };
    let mut own = Map::new();
    let mut all = vec![Vec::new()];
    let product = |all: Vec<Vec<Value>>, more: Vec<Vec<Value>>| -> Vec<Vec<Value>> {
        let with = |one: &Vec<Value>| {
            let one = one.clone();
            more.iter().map(move |more| [one.as_slice(), more.as_slice()].concat()).collect()
        };
        all.iter().flat_map(|one| -> Vec<Vec<Value>> { with(one) }).collect()
    };
    for (word, value) in map {
        match (word.as_str(), value) {
            ("$ref", Value::String(reference)) => {
                let target = root.pointer(reference.trim_start_matches('#')).unwrap();
                all = product(all, alternatives(root, target));
            }
            ("allOf", Value::Array(parts)) => {
                for part in parts {
                    all = product(all, alternatives(root, part));
                }
            }
            ("anyOf" | "oneOf", Value::Array(members)) => {
                let members = members.iter().flat_map(|member| alternatives(root, member));
                all = product(all, members.collect());
            }
            ("not" | "if" | "then" | "else" | "$defs", _) => {}
            ("properties" | "patternProperties", Value::Object(named)) => {
                let named = named.iter().map(|(name, one)| (name.clone(), closed(root, one)));
                own.insert(word.clone(), Value::Object(named.collect()));
            }
            ("prefixItems", Value::Array(items)) => {
                own.insert(word.clone(), items.iter().map(|one| closed(root, one)).collect());
            }
            ("items" | "additionalProperties", one) => {
                own.insert(word.clone(), closed(root, one));
            }
            _ => drop(own.insert(word.clone(), value.clone())),
        }
    }
    if !own.is_empty() {
        all.iter_mut().for_each(|parts| parts.push(own.clone().into()));
    }
    all
}

/// What reading refuses although the schema allows it.
const STRICTER: [&str; 4] = [
    // An object with unknown fields only.
    "expected some of `",
    "write the name as it is asked for",
    // A value that two members fit.
    "and also",
    "would lose digits as a float",
];

/// One version of a contract.
struct Version {
    schema: Value,
    contract: Contract,
    valid: Validator,
    closed: Validator,
}

impl Version {
    fn new(schema: Value) -> Option<Self> {
        let contract = Contract::dynamic("take", "", schema.clone(), Some(schema.clone())).ok()?;
        let validator = |schema: &Value| jsonschema::draft202012::new(schema).ok();
        let closed = validator(&closed(&schema, &schema))?;
        let valid = validator(&schema)?;
        Some(Self { schema, contract, valid, closed })
    }

    fn read(&self, input: bool, value: &Value) -> Result<Value, String> {
        let text = value.to_string();
        if input {
            self.contract.read(&text).map_err(|error| error.to_string())
        } else {
            self.contract.read_output(&text).map_err(|error| error.to_string())
        }
    }
}

/// A value that the sender may send and the receiver does not take.
fn contradiction(
    sender: &Version,
    receiver: &Version,
    input: bool,
    values: &[Value],
) -> Option<String> {
    values.iter().find_map(|value| {
        if !(sender.valid.is_valid(value) && sender.closed.is_valid(value)) {
            return None;
        }
        match receiver.read(input, value) {
            Ok(read) if receiver.valid.is_valid(&read) => None,
            Ok(read) => Some(format!("{value} is read as {read}")),
            // What the sender's version did not read either is not lost.
            Err(_) if sender.read(input, value).is_err() => None,
            Err(error)
                if receiver.valid.is_valid(value)
                    && STRICTER.iter().any(|words| error.contains(words)) =>
            {
                None
            }
            Err(error) => Some(format!("{value}: {error}")),
        }
    })
}

#[test]
fn a_verdict_on_two_versions_holds_for_all_constructs() {
    let values = values();
    let (first, pairs) = (setting("CONSTRUCTS_FIRST", 0), setting("CONSTRUCTS_PAIRS", 1_500));
    let (mut done, mut kept, mut breaking, mut shown, mut empty) = (0, 0, 0, 0, 0);
    let mut broken = Vec::new();
    for number in (first..).take(pairs * 10) {
        if done == pairs {
            break;
        }
        let mut dice = Dice(number as u64);
        let old = dice.root();
        let mut new = dice.change(&old);
        if dice.chance(40) {
            new = dice.change(&new);
        }
        if old == new {
            continue;
        }
        let (Some(old), Some(new)) = (Version::new(old), Version::new(new)) else { continue };
        done += 1;
        let found = ContractChange::between(from_ref(&old.contract), from_ref(&new.contract));
        for (sender, receiver, side, input) in
            [(&old, &new, Dependent::Inputs, true), (&new, &old, Dependent::Outputs, false)]
        {
            let breaks = found.iter().any(|change| change.breaks().contains(&side));
            let failed = contradiction(sender, receiver, input, &values);
            if breaks {
                breaking += 1;
                shown += usize::from(failed.is_some());
                let sent =
                    |value: &Value| sender.valid.is_valid(value) && sender.closed.is_valid(value);
                empty += usize::from(!values.iter().any(sent));
                continue;
            }
            kept += 1;
            if let Some(failed) = failed {
                broken.push(format!(
                    "CONSTRUCTS_FIRST={number}, {side}: {failed}\n  sent:  {}\n  taken: {}",
                    sender.schema, receiver.schema
                ));
            }
        }
    }
    println!(
        "{done} pairs, {} values for each; nothing breaks: {kept}, of these broken: {}; breaks: \
         {breaking}, of these shown: {shown}, without a value: {empty}",
        values.len(),
        broken.len()
    );
    assert_eq!(done, pairs);
    let few: Vec<_> = broken.iter().take(20).map(String::as_str).collect();
    assert!(broken.is_empty(), "{} of {pairs}:\n{}", broken.len(), few.join("\n"));
    assert!(kept > pairs / 10 && shown > pairs / 10, "the pairs show too little");
}
