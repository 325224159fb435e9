//! Whether a value fits a schema, as far as its shape and its plain bounds say.
//!
//! This finds the member of a union that a value belongs to; it does not read.

use std::cell::Cell;

use serde_json::Value;

use super::shape::{Pairs, Schema, Shape, Struct, has_type};
use super::value::same;
use crate::schema::resolve;

pub(crate) struct Fits<'a> {
    pub(crate) root: &'a Value,
    /// What may still be tried.
    pub(crate) left: Cell<usize>,
}

impl Fits<'_> {
    pub(crate) fn spend(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }

    pub(crate) fn fits(&self, schema: &Value, value: &Value) -> bool {
        self.behind(schema, value, &mut Vec::new())
    }

    /// Follows references and unions, each reference once on a way.
    fn behind<'b>(&'b self, schema: &'b Value, value: &Value, followed: &mut Vec<&'b str>) -> bool {
        let Value::Object(map) = schema else {
            return false;
        };
        if !self.spend() {
            return false;
        }
        match Shape::of(map) {
            Shape::Reference(reference) => {
                if followed.contains(&reference) {
                    return false;
                }
                followed.push(reference);
                let fits = resolve(self.root, reference)
                    .is_some_and(|target| self.behind(target, value, followed));
                followed.pop();
                fits
            }
            Shape::Union(members) => {
                members.iter().any(|member| self.behind(member, value, followed))
            }
            _ => self.plain(map, value),
        }
    }

    fn plain(&self, map: &Schema, value: &Value) -> bool {
        if map.contains_key("type") && !has_type_of(map, value) {
            return false;
        }
        match (Shape::of(map), value) {
            (Shape::Values(values), _) => values.iter().any(|known| same(known, value)),
            (Shape::Struct(this), Value::Object(fields)) => self.fields(map, this, fields),
            (Shape::Map(pairs), Value::Object(fields)) => {
                fields.iter().all(|(name, value)| self.pair(&pairs, name, value))
            }
            (Shape::Tuple(places), Value::Array(items)) => {
                let place = |(i, item)| {
                    let schema = places.get(i).or_else(|| map.get("items"));
                    schema.is_none_or(|schema| self.fits(schema, item))
                };
                self.length(map, items) && items.iter().enumerate().all(place)
            }
            (Shape::List(schema), Value::Array(items)) => {
                self.length(map, items)
                    && items.iter().all(|item| schema.is_none_or(|schema| self.fits(schema, item)))
            }
            (_, Value::String(text)) => {
                let length = text.chars().count() as f64;
                within(map, length, "minLength", "maxLength")
            }
            (_, Value::Number(number)) => self.number(map, number.as_f64().unwrap_or(f64::NAN)),
            _ => true,
        }
    }

    fn fields(&self, map: &Schema, this: Struct<'_>, fields: &Schema) -> bool {
        let required = map.get("required").and_then(Value::as_array).into_iter().flatten();
        if !required.filter_map(Value::as_str).all(|name| fields.contains_key(name)) {
            return false;
        }
        let pairs = this.pairs();
        let closed = map.get("additionalProperties") == Some(&Value::Bool(false));
        fields.iter().all(|(name, value)| {
            match (this.properties.and_then(|known| known.get(name)), &pairs) {
                (Some(schema), _) => self.fits(schema, value),
                (None, Some(pairs)) => self.pair(pairs, name, value),
                (None, None) => !closed,
            }
        })
    }

    fn pair(&self, pairs: &Pairs<'_>, name: &str, value: &Value) -> bool {
        pairs.kinds.iter().any(|(key, schema)| self.key(key, name) && self.fits(schema, value))
    }

    /// Whether a key may fit: patterns are not looked at.
    pub(crate) fn key(&self, schema: &Value, name: &str) -> bool {
        self.fits(schema, &name.into())
    }

    pub(crate) fn length(&self, map: &Schema, items: &[Value]) -> bool {
        within(map, items.len() as f64, "minItems", "maxItems")
    }

    fn number(&self, map: &Schema, number: f64) -> bool {
        let beyond = |keyword: &str, is: fn(&f64, &f64) -> bool| {
            map.get(keyword).and_then(Value::as_f64).is_some_and(|bound| is(&number, &bound))
        };
        within(map, number, "minimum", "maximum")
            && !beyond("exclusiveMinimum", f64::le)
            && !beyond("exclusiveMaximum", f64::ge)
    }
}

fn within(map: &Schema, number: f64, least: &str, most: &str) -> bool {
    let bound = |keyword: &str| map.get(keyword).and_then(Value::as_f64);
    bound(least).is_none_or(|least| number >= least)
        && bound(most).is_none_or(|most| number <= most)
}

fn has_type_of(map: &Schema, value: &Value) -> bool {
    match value {
        Value::Null => has_type(map, "null"),
        Value::Bool(_) => has_type(map, "boolean"),
        Value::String(_) => has_type(map, "string"),
        Value::Array(_) => has_type(map, "array"),
        Value::Object(_) => has_type(map, "object"),
        Value::Number(number) => {
            let whole = number.as_f64().is_some_and(|number| number.fract() == 0.0);
            has_type(map, "number") || whole && has_type(map, "integer")
        }
    }
}
