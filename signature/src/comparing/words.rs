//! What comes and what is taken, in words that a person can act on.

use serde_json::Value;

use super::{Comparing, behind, kinds_of, takes_all};
use crate::error::shown;
use crate::limits::GUESS_DEPTH;
use crate::lowering::shape::{Schema, listed, members, required};
use crate::schema::types::Types;

/// So many values, fields or members are named.
const MOST: usize = 8;

impl<'a> Comparing<'a> {
    /// What comes: `own` of it, where `kinds` were asked for.
    pub(super) fn may_be(&self, ours: &Schema, own: Types, kinds: Types) -> String {
        let words = described(self.comes, ours, own, GUESS_DEPTH);
        let only = !self.some && kinds != Types::NONE && own == kinds_of(ours);
        if only && own != Types::ALL { format!("is {words}") } else { format!("may be {words}") }
    }

    /// What it is that takes it.
    pub(super) fn takes(&self, theirs: &Schema) -> String {
        format!("takes {}", described(self.takes, theirs, Types::ALL, GUESS_DEPTH))
    }

    /// What the values of a schema are, as a noun.
    pub(super) fn words(&self, root: &Value, schema: &Value, kinds: Types) -> String {
        of(root, schema, kinds, GUESS_DEPTH)
    }
}

fn of(root: &Value, schema: &Value, kinds: Types, deep: usize) -> String {
    if takes_all(schema) && kinds == Types::ALL || deep == 0 {
        return "any value".to_owned();
    }
    match (behind(root, schema), schema) {
        (Some(target), _) => of(root, target, kinds, deep - 1),
        (None, Value::Object(map)) => described(root, map, kinds, deep),
        (None, Value::Bool(true)) if kinds == Types::TEXT => "any text".to_owned(),
        (None, _) => "nothing".to_owned(),
    }
}

fn described(root: &Value, map: &Schema, kinds: Types, deep: usize) -> String {
    if let Some(members) = members(map) {
        let mut all: Vec<String> = Vec::new();
        for member in members.iter().take(MOST) {
            let words = of(root, member, kinds, deep.saturating_sub(1));
            if !all.contains(&words) {
                all.push(words);
            }
        }
        let more = if members.len() > MOST { " or others" } else { "" };
        return all.join(" or ") + more;
    }
    let own = kinds.common(kinds_of(map));
    if let Some(listed) = listed(map) {
        return match listed.as_slice() {
            [one] => quoted(one),
            all => format!("one of {}", values(all)),
        };
    }
    if own == Types::ALL {
        return "any value".to_owned();
    }
    let number = if own.has(Types::NUMBER) { "a number" } else { "an integer" };
    let words = [
        (Types::TEXT, text(map)),
        (Types::INTEGER, number.to_owned()),
        (Types::BOOLEAN, "true or false".to_owned()),
        (Types::LIST, "a list".to_owned()),
        (Types::OBJECT, object(map)),
        (Types::NULL, "null".to_owned()),
    ];
    let words = words.into_iter().filter(|(kind, _)| own.meets(*kind)).map(|(_, words)| words);
    let words: Vec<_> = words.collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(" or ") }
}

fn text(map: &Schema) -> String {
    match map.get("pattern").and_then(Value::as_str) {
        Some(pattern) => format!("a string that matches {}", shown(pattern)),
        None => "a string".to_owned(),
    }
}

fn object(map: &Schema) -> String {
    let property = |name: &str| map.get("properties")?.get(name)?.as_object();
    let tagged = |name: &str| match property(name).and_then(listed).as_deref() {
        Some([only]) => format!("`{}` {}", shown(name), quoted(only)),
        _ => format!("`{}`", shown(name)),
    };
    let names: Vec<_> = required(map).take(4).map(tagged).collect();
    let more = if required(map).nth(4).is_some() { ", …" } else { "" };
    match names.as_slice() {
        [] => "an object".to_owned(),
        names => format!("an object with {}{more}", names.join(", ")),
    }
}

/// Some values, one after the other.
pub(super) fn values(all: &[&Value]) -> String {
    let shown: Vec<_> = all.iter().take(MOST).map(|value| quoted(value)).collect();
    let more = if all.len() > MOST { ", …" } else { "" };
    shown.join(", ") + more
}

fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{}`", shown(text)),
        other => shown(&other.to_string()),
    }
}
