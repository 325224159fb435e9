//! From a value to its form in a dialect, with the same graph as its schema.
//!
//! The input is an example value in the contract's own shape. The output is the value that a model
//! would send ([`render`]). Reading reverses it.

use std::collections::HashMap;

use serde_json::{Map, Number, Value, json};

use crate::error::{Fault, shown};
use crate::limits::{CHECK_STEPS, HOPS, VALUE_DEPTH};
use crate::lowering::dialect_rules::{Rules, Values};
use crate::lowering::unnamed_fields::{Pairs, pairs};
use crate::reading::fit_check::{FitCheck, Fits};
use crate::reading::tape::{Tape, TokenKind};
use crate::schema::graph::{Graph, Id, Node, Shape};
use crate::schema::is_deeper;
use crate::schema::types::{TYPE_NAMES, Types};
use crate::wire_shapes::{self, FURTHER, KEY, VALUE};

/// The notation of listed values in a dialect.
pub(crate) enum Listed {
    AsTheyAre,
    /// A schema of the normal form with the same meaning, without lists that the dialect rejects.
    WrittenOut(Value),
    /// Consecutive integers, or a single number: type, minimum and maximum.
    Range(&'static str, Number, Number),
    /// A boolean; `true` if both values are listed.
    Boolean(bool),
    /// Numbers, as texts.
    Texts(Vec<String>),
}

/// Returns the notation of listed values in a dialect.
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

/// Returns a union with a member for each kind of value.
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

/// Returns the schema of one object or list, with a constant for each part.
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

/// Consecutive integers, or a single number with a fraction.
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

/// Converts a value to the shape of its lowered schema.
///
/// # Errors
///
/// The error has the path of a value that does not fit its schema, or that has no form in the
/// dialect.
pub(crate) fn render(
    rules: &'static Rules,
    graph: &Graph,
    id: Id,
    value: &Value,
) -> Result<Value, Fault> {
    check_depth(value)?;
    let text = value.to_string();
    // The innermost list may be empty, which adds one level.
    let tape = Tape::parse_to(&text, VALUE_DEPTH + 1).map_err(|_| too_deep("$"))?;
    let exact = FitCheck::new(graph, &tape);
    let (hops, in_union, left) = (0, false, CHECK_STEPS);
    Render { rules, graph, tape: &tape, exact, hops, in_union, left }.node(id, 0, "$")
}

pub(crate) fn check_depth(value: &Value) -> Result<(), Fault> {
    if is_deeper(value, VALUE_DEPTH) {
        return Err(too_deep("$"));
    }
    Ok(())
}

/// The conversion of one value. Its parts are tokens of a tape, as in reading.
struct Render<'a> {
    rules: &'static Rules,
    graph: &'a Graph,
    tape: &'a Tape<'a>,
    /// Checks whether a part fits a schema.
    exact: FitCheck<'a>,
    /// The number of references and unions since the value last changed.
    hops: usize,
    /// The same as when the schema was lowered.
    in_union: bool,
    /// Steps that are left.
    left: usize,
}

type Rendered = Result<Value, Fault>;

impl<'a> Render<'a> {
    fn node(&mut self, id: Id, token: usize, path: &str) -> Rendered {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || self.exact.is_involved() {
            let why = "its unions have more ways through them than can be tried";
            return Err(fault(path, why.to_owned()));
        }
        let container = matches!(self.tape.kind(token), TokenKind::List | TokenKind::Object);
        match self.graph.shape(id) {
            Shape::Nothing => Err(fault(path, "no value fits here".to_owned())),
            Shape::Reference(_) | Shape::Union(_) => self.hop(id, token, path),
            Shape::Values => self.listed(self.graph.node(id), token, path),
            shape if container => {
                let hops = std::mem::take(&mut self.hops);
                let rendered = self.below(shape, id, token, path);
                self.hops = hops;
                rendered
            }
            _ => self.as_it_is(id, token, path),
        }
    }

    fn value(&self, token: usize, path: &str) -> Rendered {
        serde_json::from_str(self.tape.whole(token)).map_err(|_| too_deep(path))
    }

    fn fits(&mut self, id: Id, token: usize) -> bool {
        self.exact.fits(self.tape, token, id) != Fits::No
    }

    fn as_it_is(&mut self, id: Id, token: usize, path: &str) -> Rendered {
        if self.fits(id, token) {
            return self.value(token, path);
        }
        let types = words(self.graph.node(id).types);
        let got = told(self.tape, token);
        Err(fault(path, format!("got {got}, expected {types} that fits its schema")))
    }

    /// Renders a value that may be a member of a union.
    fn among_others(&mut self, render: impl FnOnce(&mut Self) -> Rendered) -> Rendered {
        let outer = std::mem::replace(&mut self.in_union, true);
        let rendered = render(self);
        self.in_union = outer;
        rendered
    }

    fn below(&mut self, shape: &Shape, id: Id, token: usize, path: &str) -> Rendered {
        let (graph, tape) = (self.graph, self.tape);
        let node = graph.node(id);
        match (shape, tape.kind(token)) {
            (Shape::Struct, TokenKind::Object) => self.fields(node, token, path),
            (Shape::Map, TokenKind::Object) => {
                let entries = tape.entries(token).map(|(key, value)| (tape.text(key), value));
                self.map(&pairs(graph, node), entries, path)
            }
            (Shape::Tuple, TokenKind::List) => self.places(node, token, path),
            (Shape::List, TokenKind::List) if let Some(schema) = node.list.items => {
                let items = tape.items(token).enumerate();
                items.map(|(i, item)| self.node(schema, item, &format!("{path}[{i}]"))).collect()
            }
            _ => self.as_it_is(id, token, path),
        }
    }

    /// Follows a reference or a union to a schema of the same value, which may be circular.
    fn hop(&mut self, id: Id, token: usize, path: &str) -> Rendered {
        let hops = self.hops;
        self.hops += 1;
        let rendered = match self.graph.shape(id) {
            _ if hops >= HOPS => Err(fault(path, "its schema leads back to itself".to_owned())),
            Shape::Union(members) => self.union(members, token, path),
            _ => self.among_others(|this| this.node(this.graph.target(id), token, path)),
        };
        self.hops = hops;
        rendered
    }

    /// Renders the value as the first member that it fits and that has a form for it.
    fn union(&mut self, members: &[Id], token: usize, path: &str) -> Rendered {
        let mut first = None;
        for member in members {
            if !self.fits(*member, token) {
                continue;
            }
            match self.among_others(|this| this.node(*member, token, path)) {
                Ok(rendered) => return Ok(rendered),
                Err(fault) => first = first.or(Some(fault)),
            }
        }
        let got = told(self.tape, token);
        Err(first.unwrap_or_else(|| fault(path, format!("{got} fits no member of the union"))))
    }

    fn listed(&mut self, node: &Node, token: usize, path: &str) -> Rendered {
        let values = node.listed();
        let value = self.value(token, path)?;
        let Some(known) = values.iter().find(|known| same(known, &value)) else {
            let all: Vec<_> = values.iter().map(|value| value.to_string()).collect();
            let (got, all) = (told(self.tape, token), shown(&all.join(", ")));
            return Err(fault(path, format!("got {got}, expected one of {all}")));
        };
        match listed_as(self.rules, &values, self.in_union) {
            Listed::Texts(_) if !known.is_null() => Ok(known.to_string().into()),
            Listed::WrittenOut(parts) => {
                let graph = Graph::of(&parts);
                let exact = FitCheck::new(&graph, self.tape);
                Render { graph: &graph, exact, ..*self }.node(graph.root, token, path)
            }
            _ => Ok(value),
        }
    }

    fn fields(&mut self, node: &Node, token: usize, path: &str) -> Rendered {
        let tape = self.tape;
        let entries = tape.entries(token).map(|(key, value)| (tape.text(key), value));
        let given: HashMap<_, _> = entries.clone().collect();
        let mut out = Map::new();
        for field in node.object.described() {
            let name = &*field.name;
            let below = format!("{path}.{name}");
            match given.get(name) {
                Some(value) => {
                    out.insert(name.to_owned(), self.node(field.node, *value, &below)?);
                }
                None if field.required => {
                    return Err(fault(path, format!("missing field `{}`", shown(name))));
                }
                None if !self.rules.optional && *self.graph.shape(field.node) != Shape::Nothing => {
                    out.insert(name.to_owned(), Value::Null);
                }
                None => {}
            }
        }
        let is_known = |name: &str| node.object.described_field(name).is_some();
        let further = entries.filter(|(name, _)| !is_known(name));
        let pairs = pairs(self.graph, node);
        if !self.rules.closed {
            for (name, value) in further {
                let value = match pairs.is_empty() {
                    true => self.value(value, path)?,
                    false => self.further(&pairs, &name, value, path)?,
                };
                out.insert(name.into_owned(), value);
            }
            return Ok(out.into());
        }
        let mut further = further.peekable();
        match further.peek() {
            Some((name, _)) if pairs.is_empty() => {
                return Err(fault(path, format!("the field `{}` is not described", shown(name))));
            }
            _ if pairs.is_empty() => {}
            _ => {
                out.insert(FURTHER.into(), self.map(&pairs, further, path)?);
            }
        }
        Ok(out.into())
    }

    fn further(&mut self, pairs: &Pairs<'_>, name: &str, token: usize, path: &str) -> Rendered {
        let below = format!("{path}.{name}");
        let mut first = None;
        for (key, schema) in pairs {
            if !key.takes(self.graph, name) {
                continue;
            }
            let rendered = match pairs.len() {
                1 => self.node(*schema, token, &below),
                _ => self.among_others(|this| this.node(*schema, token, &below)),
            };
            match rendered {
                Ok(rendered) => return Ok(rendered),
                Err(fault) => first = first.or(Some(fault)),
            }
        }
        let none = || fault(&below, format!("`{}` is not a key here", shown(name)));
        Err(first.unwrap_or_else(none))
    }

    fn map<N: AsRef<str>>(
        &mut self,
        pairs: &Pairs<'_>,
        entries: impl Iterator<Item = (N, usize)>,
        path: &str,
    ) -> Rendered {
        let mut out = Map::new();
        let mut list = Vec::new();
        for (name, value) in entries {
            let name = name.as_ref();
            let value = self.further(pairs, name, value, path)?;
            if self.rules.closed {
                list.push(json!({KEY: name, VALUE: value}));
            } else {
                out.insert(name.to_owned(), value);
            }
        }
        Ok(if self.rules.closed { list.into() } else { out.into() })
    }

    fn places(&mut self, node: &Node, token: usize, path: &str) -> Rendered {
        let (rule, tape) = (&node.list, self.tape);
        let (places, count) = (rule.prefix.len(), tape.items(token).count());
        let whole = self.rules.tuples || count == places;
        if !whole || !(rule.shortest..=rule.longest).contains(&count) {
            return Err(fault(path, format!("expected a list of {places}, got {count}")));
        }
        let mut out = Vec::new();
        for (i, item) in tape.items(token).enumerate() {
            let schema = rule.prefix.get(i).copied().or(rule.items);
            let below = format!("{path}[{i}]");
            out.push(match schema {
                Some(schema) => self.node(schema, item, &below)?,
                None => self.value(item, path)?,
            });
        }
        if self.rules.tuples {
            return Ok(out.into());
        }
        let named = out.into_iter().enumerate().map(|(i, item)| (wire_shapes::item(i), item));
        Ok(Value::Object(named.collect()))
    }
}

/// Whether two values are equal in JSON Schema: 1 equals 1.0.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() != b.is_f64() => {
            a.as_f64() == b.as_f64()
        }
        _ => one == other,
    }
}

/// Returns the names of types for a message.
fn words(types: Types) -> String {
    if types == Types::ALL {
        return "a value".to_owned();
    }
    let is_one = |name: &&str| {
        types.has(Types::named(name)) && !(*name == "integer" && types.has(Types::NUMBER))
    };
    TYPE_NAMES.into_iter().filter(is_one).collect::<Vec<_>>().join(" or ")
}

fn told(tape: &Tape<'_>, token: usize) -> String {
    shown(tape.whole(token))
}

fn too_deep(path: &str) -> Fault {
    fault(path, "it nests too deep; make it flatter".to_owned())
}

fn fault(path: &str, message: String) -> Fault {
    Fault::of_sentence(path.to_owned(), &message)
}
