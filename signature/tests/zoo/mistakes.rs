//! Values that nearly fit.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

/// Values with one mistake; a few still fit the schema.
pub(crate) fn sloppy(fitting: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    (fitting, any::<Index>(), mistakes())
        .prop_map(|(value, at, mistake)| {
            let mut value = value;
            let place = at.index(count(&value));
            if let Some(node) = nth(&mut value, &mut { place }) {
                mistake.make(node);
            }
            value
        })
        .boxed()
}

/// One change of one node of a value.
#[derive(Debug, Clone)]
enum Mistake {
    Put(Value),
    Wrap,
    Name,
    /// Drop the field or the item at this place.
    Drop(Index),
    /// Give the field at this place another name.
    Rename(Index),
    Add(String, Value),
    /// Repeat the last item.
    Repeat,
    Fraction,
    Times(i64),
    Uppercase,
    Stringify,
    Longer,
}

fn mistakes() -> BoxedStrategy<Mistake> {
    let values = vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(3.0),
        json!(256),
        json!(65_536),
        json!(4_294_967_296_u64),
        json!(1e20),
        json!(""),
        json!("text"),
        json!("1"),
        json!([]),
        json!({}),
        json!([null]),
        json!({"a": 1}),
    ];
    let name = select(vec!["unknown", "kind", "type", "_type", "value", "title", "0"]);
    prop_oneof![
        4 => select(values.clone()).prop_map(Mistake::Put),
        1 => Just(Mistake::Wrap),
        1 => Just(Mistake::Name),
        3 => any::<Index>().prop_map(Mistake::Drop),
        1 => any::<Index>().prop_map(Mistake::Rename),
        2 => (name, select(values)).prop_map(|(name, value)| Mistake::Add(name.into(), value)),
        1 => Just(Mistake::Repeat),
        1 => Just(Mistake::Fraction),
        1 => select(vec![-1, 1000, i64::MAX]).prop_map(Mistake::Times),
        1 => Just(Mistake::Uppercase),
        1 => Just(Mistake::Stringify),
        1 => Just(Mistake::Longer),
    ]
    .boxed()
}

impl Mistake {
    fn make(self, node: &mut Value) {
        match (self, &mut *node) {
            (Self::Put(value), _) => *node = value,
            (Self::Wrap, _) => *node = json!([node.take()]),
            (Self::Name, _) => *node = json!({"value": node.take()}),
            (Self::Drop(at), Value::Object(map)) if !map.is_empty() => {
                let name = map.keys().nth(at.index(map.len())).cloned().unwrap_or_default();
                map.shift_remove(&name);
            }
            (Self::Drop(at), Value::Array(list)) if !list.is_empty() => {
                list.remove(at.index(list.len()));
            }
            (Self::Rename(at), Value::Object(map)) if !map.is_empty() => {
                let name = map.keys().nth(at.index(map.len())).cloned().unwrap_or_default();
                if let Some(value) = map.shift_remove(&name) {
                    map.insert(name.to_uppercase(), value);
                }
            }
            (Self::Add(name, value), Value::Object(map)) => drop(map.insert(name, value)),
            (Self::Add(_, value), Value::Array(list)) => list.push(value),
            (Self::Repeat, Value::Array(list)) => list.extend(list.last().cloned()),
            (Self::Fraction, Value::Number(n)) => *node = json!(n.as_f64().unwrap_or(0.0) + 0.5),
            (Self::Times(by), Value::Number(n)) => {
                *node = match n.as_i64() {
                    Some(n) => json!(n.saturating_mul(by)),
                    None => json!(n.as_f64().unwrap_or(0.0) * by as f64),
                };
            }
            (Self::Uppercase, Value::String(text)) => *text = text.to_uppercase(),
            (Self::Longer, Value::String(text)) => text.push('x'),
            (Self::Stringify, _) => *node = node.to_string().into(),
            _ => *node = Value::Null,
        }
    }
}

/// The nodes of a value, itself included.
pub(crate) fn count(value: &Value) -> usize {
    1 + match value {
        Value::Object(map) => map.values().map(count).sum(),
        Value::Array(list) => list.iter().map(count).sum(),
        _ => 0,
    }
}

/// The node with this number.
pub(crate) fn nth<'a>(value: &'a mut Value, left: &mut usize) -> Option<&'a mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Object(map) => map.values_mut().find_map(|below| nth(below, left)),
        Value::Array(list) => list.iter_mut().find_map(|below| nth(below, left)),
        _ => None,
    }
}
