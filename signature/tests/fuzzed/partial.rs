//! Any text in pieces: each prefix agrees with the whole, and no part is taken back.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use toolwright_signature::{Field, Partial};

/// The first byte says how the rest is cut into pieces.
pub(crate) fn check(input: &[u8]) {
    let Some((seed, text)) = input.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let mut whole = Partial::new();
    whole.push(text);
    agrees_with_serde_json(&whole, text);

    let paths = paths(&whole);
    let mut before: Vec<_> = paths.iter().map(|_| Said::default()).collect();
    let mut partial = Partial::new();
    for piece in pieces(text, u64::from(seed & 0x7f)) {
        partial.push(piece);
        for (path, before) in paths.iter().zip(&mut before) {
            let now = Said::of(&partial, path);
            now.only_grew(before, path);
            *before = now;
        }
    }
    assert_eq!(partial.fault(), whole.fault());
    assert_eq!(partial.as_str(), whole.as_str());
    for path in &paths {
        assert_eq!(partial.field::<Value>(path), whole.field::<Value>(path), "{path}");
        assert_eq!(partial.text(path), whole.text(path), "{path}");
    }
    // The text is a path as well.
    let _ = (whole.text(text), whole.field::<Option<Growing>>(text));
}

/// What is asked of each path after each piece.
#[derive(Debug, Default, PartialEq)]
struct Said {
    whole: Option<Value>,
    text: Option<String>,
    texts: Option<Vec<String>>,
    map: Option<BTreeMap<String, String>>,
    growing: Option<Growing>,
}

/// A struct of optional fields.
#[derive(Deserialize, Debug, Default, PartialEq)]
#[serde(default)]
struct Growing {
    a: Option<String>,
    b: Vec<Growing>,
    c: Option<State>,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum State {
    In,
    InProgress,
}

impl Said {
    fn of(partial: &Partial, path: &str) -> Self {
        let whole = match partial.field(path) {
            Field::Done(value) => Some(value),
            Field::Partial(value) => panic!("{path}: half of something: {value:?}"),
            _ => None,
        };
        Self {
            whole,
            text: partial.field(path).so_far(),
            texts: partial.field(path).so_far(),
            map: partial.field(path).so_far(),
            growing: partial.field(path).so_far(),
        }
    }

    fn only_grew(&self, before: &Self, path: &str) {
        if before.whole.is_some() {
            return assert_eq!(self, before, "{path} was done");
        }
        let starts = |now: &String, before: &String| now.starts_with(before);
        if let (Some(now), Some(before)) = (&self.text, &before.text) {
            assert!(starts(now, before), "{path}: {before:?} then {now:?}");
        }
        if let (Some(now), Some(before)) = (&self.texts, &before.texts) {
            assert!(now.len() >= before.len(), "{path}: {before:?} then {now:?}");
            assert!(now.iter().zip(before).all(|(now, before)| starts(now, before)));
        }
        if let (Some(now), Some(before)) = (&self.map, &before.map) {
            let grew = |(key, before)| now.get(key).is_some_and(|now| starts(now, before));
            assert!(before.iter().all(grew), "{path}: {before:?} then {now:?}");
        }
        if let (Some(now), Some(before)) = (&self.growing, &before.growing) {
            assert!(before.c.is_none() || now.c == before.c, "{path}");
            assert!(now.b.len() >= before.b.len(), "{path}");
        }
    }
}

fn agrees_with_serde_json(partial: &Partial, text: &str) {
    if let Some(fault) = partial.fault() {
        assert!(!partial.is_done());
        // serde_json accepts a key that is there twice.
        if fault.message.contains("twice") {
            return;
        }
    }
    let (before, root) = text.split_at(text.find(['{', '[']).unwrap_or(text.len()));
    // Among words a bracket may be one of theirs, which serde_json does not know.
    if !root.is_empty() && !before.trim().is_empty() {
        return;
    }
    let first = |text| serde_json::Deserializer::from_str(text).into_iter::<Value>().next();
    match first(root) {
        None => assert!(partial.fault().is_none() && !partial.is_done()),
        Some(Ok(value)) => assert_eq!(partial.field("$"), Field::Done(value)),
        // It looks at the four digits of an escape only when they are there.
        Some(Err(error)) if error.is_eof() && partial.fault().is_some() => {
            let longer = format!("{root}0000");
            assert!(first(&longer).is_some_and(|read| read.is_err_and(|error| !error.is_eof())));
        }
        Some(Err(error)) if error.is_eof() => assert!(!partial.is_done(), "{error}"),
        // It sees at once that no number will come of `1..`, or of `1e999`.
        Some(Err(_)) => assert!(!matches!(partial.field::<Value>("$"), Field::Done(_))),
    }
}

/// Some paths of values in the text.
fn paths(partial: &Partial) -> Vec<String> {
    const MOST: usize = 12;
    let mut paths = vec!["$".to_owned(), "a".to_owned(), "a[0]".to_owned(), "b[1].a".to_owned()];
    let Field::Done(value) = partial.field::<Value>("$") else {
        return paths;
    };
    let mut waiting = vec![("$".to_owned(), &value)];
    while let Some((path, value)) = waiting.pop().filter(|_| paths.len() < MOST) {
        match value {
            Value::Object(fields) => {
                waiting.extend(fields.iter().map(|(name, field)| {
                    (format!("{path}[{}]", Value::from(name.as_str())), field)
                }))
            }
            Value::Array(items) => {
                let item = |(i, item)| (format!("{path}[{i}]"), item);
                waiting.extend(items.iter().enumerate().map(item));
            }
            _ => {}
        }
        paths.push(path);
    }
    paths
}

fn pieces(text: &str, mut seed: u64) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // The longer, the larger: each costs as much as all before it.
        let most = 12 + text.len() as u64 / 100;
        let end = rest.ceil_char_boundary(((seed >> 33) % most) as usize);
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}
