//! From a value to its form in a dialect, by the same shapes as its schema.

use std::cell::Cell;

use serde_json::{Map, Number, Value, json};

use crate::error::{Fault, shown};
use crate::limits::{CHECK_STEPS, HOPS, TEXT_DEPTH};
use crate::lowering::fits::Fits;
use crate::lowering::rules::{Rules, Values};
use crate::lowering::shape::{Pairs, Schema, Shape, Struct, has_type, members};
use crate::schema::{is_deeper, resolve};
use crate::wire_shapes::{self, FURTHER, KEY, VALUE};

/// How a dialect says which values there are.
pub(crate) enum Listed {
    AsTheyAre,
    /// A schema of the normal form that says the same without listing what is refused.
    WrittenOut(Value),
    /// Whole numbers without a gap, or only one number: type, least and most.
    Range(&'static str, Number, Number),
    /// A boolean; whether it may be either.
    Boolean(bool),
    /// Numbers, as their texts.
    Texts(Vec<String>),
}

/// How a dialect says these values.
pub(crate) fn listed_as(rules: &Rules, values: &[&Value], in_union: bool) -> Listed {
    let complex = values.iter().any(|value| value.is_object() || value.is_array());
    match rules.values {
        Values::All => return Listed::AsTheyAre,
        Values::Scalars if !complex => return Listed::AsTheyAre,
        _ => {}
    }
    if complex {
        return by_kind(values);
    }
    let some: Vec<&Value> = values.iter().copied().filter(|value| !value.is_null()).collect();
    if some.iter().all(|value| value.is_string()) {
        return Listed::AsTheyAre;
    }
    if some.iter().all(|value| value.is_boolean()) {
        return Listed::Boolean(some.len() > 1);
    }
    if !some.iter().all(|value| value.is_number()) {
        return by_kind(values);
    }
    let mut runs = runs(&some);
    match (runs.len(), in_union) {
        (1, _) => runs.pop().map_or(Listed::AsTheyAre, |run| run.range()),
        (_, false) => Listed::Texts(some.iter().map(|value| value.to_string()).collect()),
        (_, true) => {
            let parts = runs.into_iter().map(|run| json!({"enum": run.0}));
            let null = values.iter().any(|value| value.is_null());
            let null = null.then(|| json!({"type": "null"}));
            Listed::WrittenOut(json!({"anyOf": parts.chain(null).collect::<Vec<_>>()}))
        }
    }
}

/// A member for each kind of value.
fn by_kind(values: &[&Value]) -> Listed {
    let mut parts: Vec<Value> = Vec::new();
    let kinds: [fn(&Value) -> bool; 3] = [Value::is_string, Value::is_number, Value::is_boolean];
    for is in kinds {
        let some: Vec<_> = values.iter().filter(|value| is(value)).collect();
        if !some.is_empty() {
            parts.push(json!({"type": kind_of(&some), "enum": some}));
        }
    }
    let complex = values.iter().filter(|value| value.is_object() || value.is_array());
    parts.extend(complex.map(|value| written_out(value)));
    if values.iter().any(|value| value.is_null()) {
        parts.push(json!({"type": "null"}));
    }
    Listed::WrittenOut(if parts.len() == 1 { parts.remove(0) } else { json!({"anyOf": parts}) })
}

fn kind_of(values: &[&&Value]) -> &'static str {
    match values {
        [first, ..] if first.is_string() => "string",
        [first, ..] if first.is_boolean() => "boolean",
        _ if values.iter().all(|value| value.is_i64() || value.is_u64()) => "integer",
        _ => "number",
    }
}

/// An object or list that is one value, as a schema with a constant for each part.
fn written_out(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let properties: Map<_, _> =
                map.iter().map(|(name, value)| (name.clone(), written_out(value))).collect();
            let required: Vec<_> = map.keys().collect();
            json!({
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            })
        }
        Value::Array(items) if items.is_empty() => json!({"type": "array", "maxItems": 0}),
        Value::Array(items) => {
            let parts: Vec<_> = items.iter().map(written_out).collect();
            json!({
                "type": "array",
                "prefixItems": parts,
                "minItems": items.len(),
                "maxItems": items.len(),
            })
        }
        scalar => {
            let kind = if scalar.is_null() { "null" } else { kind_of(&[&scalar]) };
            json!({"type": kind, "const": scalar})
        }
    }
}

/// Whole numbers without a gap, or one number that is not whole.
struct Run(Vec<Value>);

impl Run {
    fn range(self) -> Listed {
        let bound = |value: Option<&Value>| match value {
            Some(Value::Number(number)) => number.clone(),
            _ => Number::from(0),
        };
        let whole = self.0.iter().all(|value| value.is_i64() || value.is_u64());
        let kind = if whole { "integer" } else { "number" };
        Listed::Range(kind, bound(self.0.first()), bound(self.0.last()))
    }
}

fn runs(values: &[&Value]) -> Vec<Run> {
    let mut whole: Vec<i64> = values.iter().filter_map(|value| value.as_i64()).collect();
    whole.sort_unstable();
    let mut runs: Vec<Run> = Vec::new();
    let mut last = None;
    for number in whole {
        match runs.last_mut() {
            Some(run) if last == number.checked_sub(1) => run.0.push(number.into()),
            _ => runs.push(Run(vec![number.into()])),
        }
        last = Some(number);
    }
    let others = values.iter().filter(|value| value.as_i64().is_none());
    runs.extend(others.map(|value| Run(vec![(*value).clone()])));
    runs
}

/// A value in the shape that its lowered schema asks for.
///
/// # Errors
///
/// With the place where the value does not fit its schema, or where the dialect has no
/// form for it.
pub(crate) fn render(
    rules: &'static Rules,
    root: &Value,
    schema: &Value,
    value: &Value,
) -> Result<Value, Fault> {
    check_depth(value)?;
    let fits = Fits { root, left: Cell::new(CHECK_STEPS) };
    let render = Render { rules, fits, hops: Cell::new(0), in_union: Cell::new(false) };
    render.node(schema, value, "$")
}

pub(crate) fn check_depth(value: &Value) -> Result<(), Fault> {
    if is_deeper(value, TEXT_DEPTH) {
        return Err(fault("$", "it nests too deep; make it flatter".to_owned()));
    }
    Ok(())
}

struct Render<'a> {
    rules: &'static Rules,
    fits: Fits<'a>,
    /// The references followed and unions entered since the value last changed.
    hops: Cell<usize>,
    /// As when the schema was lowered.
    in_union: Cell<bool>,
}

type Rendered = Result<Value, Fault>;

impl Render<'_> {
    fn node(&self, schema: &Value, value: &Value, path: &str) -> Rendered {
        if !self.fits.spend() {
            return Err(fault(
                path,
                "its unions have more ways through them than can be tried".into(),
            ));
        }
        let Value::Object(map) = schema else {
            return Err(fault(path, "no value fits here".to_owned()));
        };
        if value.is_null() && has_type(map, "null") && !matches!(Shape::of(map), Shape::Values(_)) {
            return Ok(Value::Null);
        }
        match (Shape::of(map), value) {
            (Shape::Reference(_) | Shape::Union(_), _) => self.hop(map, value, path),
            (Shape::Values(values), _) => self.listed(&values, value, path),
            (shape, Value::Object(_) | Value::Array(_)) => {
                let hops = self.hops.take();
                let rendered = self.below(&shape, schema, map, value, path);
                self.hops.set(hops);
                rendered
            }
            _ if self.fits.fits(schema, value) => Ok(value.clone()),
            _ => Err(misfit(path, map, value)),
        }
    }

    /// Renders what may be one of several.
    fn among_others(&self, render: impl FnOnce() -> Rendered) -> Rendered {
        let outer = self.in_union.replace(true);
        let rendered = render();
        self.in_union.set(outer);
        rendered
    }

    fn below(
        &self,
        shape: &Shape<'_>,
        schema: &Value,
        map: &Schema,
        value: &Value,
        path: &str,
    ) -> Rendered {
        match (shape, value) {
            (Shape::Struct(this), Value::Object(fields)) => self.fields(this, fields, path),
            (Shape::Map(pairs), Value::Object(fields)) => self.map(pairs, fields, path),
            (Shape::Tuple(places), Value::Array(items)) => self.places(places, map, items, path),
            (Shape::List(Some(schema)), Value::Array(items)) => {
                let item = |(i, item)| self.node(schema, item, &format!("{path}[{i}]"));
                items.iter().enumerate().map(item).collect()
            }
            _ if self.fits.fits(schema, value) => Ok(value.clone()),
            _ => Err(misfit(path, map, value)),
        }
    }

    /// Follows what leads to the schema of the same value, which may lead back to itself.
    fn hop(&self, map: &Schema, value: &Value, path: &str) -> Rendered {
        let hops = self.hops.replace(self.hops.get() + 1);
        let rendered = if hops >= HOPS {
            Err(fault(path, "its schema leads back to itself".to_owned()))
        } else if let Shape::Reference(reference) = Shape::of(map) {
            let target = resolve(self.fits.root, reference).unwrap_or(&Value::Null);
            self.among_others(|| self.node(target, value, path))
        } else {
            self.union(members(map).unwrap_or_default(), value, path)
        };
        self.hops.set(hops);
        rendered
    }

    /// The first member that the value fits and has a form in.
    fn union(&self, members: &[Value], value: &Value, path: &str) -> Rendered {
        let mut first = None;
        for member in members.iter().filter(|member| self.fits.fits(member, value)) {
            match self.among_others(|| self.node(member, value, path)) {
                Ok(rendered) => return Ok(rendered),
                Err(fault) => first = first.or(Some(fault)),
            }
        }
        let none = || fault(path, format!("{} fits no member of the union", told(value)));
        Err(first.unwrap_or_else(none))
    }

    fn listed(&self, values: &[&Value], value: &Value, path: &str) -> Rendered {
        let Some(known) = values.iter().find(|known| same(known, value)) else {
            let all: Vec<_> = values.iter().map(|value| value.to_string()).collect();
            let all = shown(&all.join(", "));
            return Err(fault(path, format!("got {}, expected one of {all}", told(value))));
        };
        match listed_as(self.rules, values, self.in_union.get()) {
            Listed::Texts(_) if !known.is_null() => Ok(known.to_string().into()),
            Listed::WrittenOut(parts) => self.node(&parts, value, path),
            _ => Ok(value.clone()),
        }
    }

    fn fields(&self, this: &Struct<'_>, fields: &Schema, path: &str) -> Rendered {
        let mut out = Map::new();
        for (name, property) in this.properties.into_iter().flatten() {
            let below = format!("{path}.{name}");
            match fields.get(name) {
                Some(field) => {
                    out.insert(name.clone(), self.node(property, field, &below)?);
                }
                None if this.requires(name) => {
                    return Err(fault(path, format!("missing field `{}`", shown(name))));
                }
                None if !self.rules.optional && *property != Value::Bool(false) => {
                    out.insert(name.clone(), Value::Null);
                }
                None => {}
            }
        }
        let known = |name: &String| this.properties.is_some_and(|known| known.contains_key(name));
        let further = fields.iter().filter(|(name, _)| !known(name));
        let pairs = this.pairs();
        if !self.rules.closed {
            for (name, value) in further {
                out.insert(name.clone(), self.further(pairs.as_ref(), name, value, path)?);
            }
            return Ok(out.into());
        }
        let further: Schema = further.map(|(name, value)| (name.clone(), value.clone())).collect();
        match (pairs, further.keys().next()) {
            (Some(pairs), _) => {
                out.insert(FURTHER.into(), self.map(&pairs, &further, path)?);
            }
            (None, Some(name)) => {
                let name = shown(name);
                return Err(fault(path, format!("the field `{name}` is not described")));
            }
            (None, None) => {}
        }
        Ok(out.into())
    }

    fn further(
        &self,
        pairs: Option<&Pairs<'_>>,
        name: &str,
        value: &Value,
        path: &str,
    ) -> Rendered {
        let Some(pairs) = pairs else {
            return Ok(value.clone());
        };
        let below = format!("{path}.{name}");
        let several = pairs.kinds.len() > 1;
        let mut first = None;
        for (_, schema) in pairs.kinds.iter().filter(|(key, _)| self.fits.key(key, name)) {
            let render = || self.node(schema, value, &below);
            let rendered = if several { self.among_others(render) } else { render() };
            match rendered {
                Ok(rendered) => return Ok(rendered),
                Err(fault) => first = first.or(Some(fault)),
            }
        }
        let none = || fault(&below, format!("`{}` is no key here", shown(name)));
        Err(first.unwrap_or_else(none))
    }

    fn map(&self, pairs: &Pairs<'_>, fields: &Schema, path: &str) -> Rendered {
        let mut out = Map::new();
        let mut list = Vec::new();
        for (name, value) in fields {
            let value = self.further(Some(pairs), name, value, path)?;
            if self.rules.closed {
                list.push(json!({KEY: name, VALUE: value}));
            } else {
                out.insert(name.clone(), value);
            }
        }
        Ok(if self.rules.closed { list.into() } else { out.into() })
    }

    fn places(&self, places: &[Value], map: &Schema, items: &[Value], path: &str) -> Rendered {
        let whole = self.rules.tuples || items.len() == places.len();
        if !whole || !self.fits.length(map, items) {
            let message = format!("expected a list of {}, got {}", places.len(), items.len());
            return Err(fault(path, message));
        }
        let mut out = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let schema = places.get(i).or_else(|| map.get("items"));
            let below = format!("{path}[{i}]");
            out.push(
                schema
                    .map_or_else(|| Ok(item.clone()), |schema| self.node(schema, item, &below))?,
            );
        }
        if self.rules.tuples {
            return Ok(out.into());
        }
        let out: Map<_, _> =
            out.into_iter().enumerate().map(|(i, item)| (wire_shapes::item(i), item)).collect();
        Ok(out.into())
    }
}

/// Whether two values are the same to JSON Schema: 1 is 1.0.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() != b.is_f64() => {
            a.as_f64() == b.as_f64()
        }
        _ => one == other,
    }
}

fn misfit(path: &str, map: &Schema, value: &Value) -> Fault {
    let kind = map.get("type").map_or_else(|| "a value".to_owned(), Value::to_string);
    let kind = kind.replace('"', "").replace(',', " or ").replace(['[', ']'], "");
    fault(path, format!("got {}, expected {kind} that fits its schema", told(value)))
}

fn told(value: &Value) -> String {
    shown(&value.to_string())
}

fn fault(path: &str, message: String) -> Fault {
    Fault::of_sentence(path.to_owned(), &message)
}
