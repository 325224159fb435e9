//! From a value to its form in a dialect, with the same graph as its schema.
//!
//! Begin with [`Renderer::render`]. The input is an example value in the contract's own shape. The output is the value
//! that a model would send, and reading reverses it:
//!
//! ```text
//! map          {"a": 1}              → [{"key": "a", "value": 1}]
//! tuple        [1, "x"]              → {"item_0": 1, "item_1": "x"}
//! other fields {"name": "n", "x": 1} → {"name": "n", "additional_properties": [{"key": "x", …}]}
//! number       3, of an enum         → "3", if the dialect lists texts only
//! ```
//!
//! The value is a [`Tape`] of tokens, as in reading, so that the check of reading ([`FitCheck`])
//! picks the member of a union. [`listed_as`] decides how listed values are written; the walk over
//! schemas asks it too, so that schemas and values agree.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::error::{Fault, shown};
use crate::limits::{CHECK_STEPS, HOPS, VALUE_DEPTH};
use crate::lowering::dialect_rules::{Rules, Values};
use crate::lowering::unnamed_fields::{Pairs, pairs};
use crate::reading::fit_check::{FitCheck, Fits, canonical};
use crate::reading::tape::{Tape, TokenKind};
use crate::schema::graph::{Graph, Id, Node, Shape};
use crate::schema::is_deeper;
use crate::schema::types::{TYPE_NAMES, Types, type_name};
use crate::wire_shapes::{self, FURTHER, KEY, VALUE};

/// The notation of listed values in a dialect.
pub(crate) enum Listed {
    AsTheyAre,
    /// A schema of the normal form with the same meaning, without lists that the dialect rejects.
    WrittenOut(Value),
    /// A boolean; `true` if both values are listed.
    Boolean(bool),
    /// Numbers, as texts.
    Texts(Vec<String>),
}

/// Returns the notation of listed values in a dialect.
///
/// ```text
/// ["a", "b"]       as they are, in every dialect
/// [1, 2, 3]        a range of integers, where only texts can be listed
/// [1, 5]           texts; in a union: two ranges, so that the members stay distinguishable
/// [{"a": 1}, "b"]  written out: a member for each object, and an enum of the rest
/// ```
pub(crate) fn listed_as(rules: &Rules, values: &[&Value], in_union: bool) -> Listed {
    let complex = values.iter().any(|value| value.is_object() || value.is_array());
    let some: Vec<&Value> = values.iter().copied().filter(|value| !value.is_null()).collect();
    let all = |is: fn(&Value) -> bool| some.iter().all(|value| is(value));
    match rules.values {
        Values::All => Listed::AsTheyAre,
        Values::Scalars if !complex => Listed::AsTheyAre,
        _ if complex => by_kind(values),
        _ if all(Value::is_string) => Listed::AsTheyAre,
        _ if all(Value::is_boolean) => Listed::Boolean(some.len() > 1),
        _ if !all(Value::is_number) => by_kind(values),
        _ => match (runs(&some).as_slice(), in_union) {
            ([run], _) => {
                let null = (some.len() < values.len()).then_some("null");
                let kinds: Vec<_> = [kind_of(run)].into_iter().chain(null).collect();
                let kinds = if null.is_some() { json!(kinds) } else { json!(kinds[0]) };
                let (least, most) = (run.first(), run.last());
                Listed::WrittenOut(json!({"type": kinds, "minimum": least, "maximum": most}))
            }
            (_, false) => Listed::Texts(some.iter().map(|value| value.to_string()).collect()),
            (runs, true) => {
                let null = (some.len() < values.len()).then(|| json!({"type": "null"}));
                let parts = runs.iter().map(|run| json!({"enum": run})).chain(null);
                Listed::WrittenOut(json!({"anyOf": parts.collect::<Vec<_>>()}))
            }
        },
    }
}

/// Returns a union with a member for each kind of value.
///
/// ```text
/// ["a", 1, {"x": 2}] → anyOf [enum ["a"], enum [1], {"x": const 2}]
/// ```
fn by_kind(values: &[&Value]) -> Listed {
    let mut parts: Vec<Value> = Vec::new();
    let kinds: [fn(&Value) -> bool; 3] = [Value::is_string, Value::is_number, Value::is_boolean];
    for is in kinds {
        let some: Vec<&Value> = values.iter().copied().filter(|value| is(value)).collect();
        if !some.is_empty() {
            let kind = kind_of(some.iter().copied());
            parts.push(json!({"type": kind, "enum": some}));
        }
    }
    let complex = values.iter().filter(|value| value.is_object() || value.is_array());
    parts.extend(complex.map(|value| written_out(value)));
    if values.iter().any(|value| value.is_null()) {
        parts.push(json!({"type": "null"}));
    }
    Listed::WrittenOut(if parts.len() == 1 { parts.remove(0) } else { json!({"anyOf": parts}) })
}

/// Returns the type of values of one kind: integers are numbers, if other numbers are among them.
fn kind_of<'v>(values: impl IntoIterator<Item = &'v Value>) -> &'static str {
    let names = values.into_iter().map(type_name);
    names.reduce(|one, other| if one == other { one } else { "number" }).unwrap_or("number")
}

/// Returns the schema of one object or list, with a constant for each part.
///
/// ```text
/// {"a": [1]} → object with required `a`, a tuple of the constant 1
/// ```
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
        scalar => json!({"type": type_name(scalar), "const": scalar}),
    }
}

/// Splits numbers into runs of consecutive integers. A number with a fraction is a run of its own:
/// `3, 1, 2, 7, 0.5` → `[1, 2, 3], [7], [0.5]`.
fn runs(values: &[&Value]) -> Vec<Vec<Value>> {
    let mut whole: Vec<i64> = values.iter().filter_map(|value| value.as_i64()).collect();
    whole.sort_unstable();
    let runs = whole.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    let runs = runs.map(|run| run.iter().map(|number| json!(number)).collect());
    let others = values.iter().filter(|value| value.as_i64().is_none());
    runs.chain(others.map(|value| vec![(*value).clone()])).collect()
}

/// Converts values to the shape of a lowered schema. Cloning it is cheap.
#[derive(Debug, Clone)]
pub(crate) struct Renderer {
    /// The rules of the accepted form and the graph of the normal form, including the wrapper;
    /// `None` if the dialect does not change values.
    pub(crate) plan: Option<(&'static Rules, Arc<Graph>)>,
    /// The field of the root that wraps the value.
    pub(crate) wrapper: Option<&'static str>,
}

impl Renderer {
    /// Converts a value to the shape of the lowered schema.
    pub(crate) fn render(&self, value: &Value) -> Result<Value, Fault> {
        // Before everything else: copying a value takes stack for each of its levels.
        if is_deeper(value, VALUE_DEPTH) {
            return Err(too_deep("$"));
        }
        let wrapped = match self.wrapper {
            Some(name) => json!({ name: value }),
            None => value.clone(),
        };
        match &self.plan {
            Some((rules, graph)) => render(rules, graph, graph.root, &wrapped),
            None => Ok(wrapped),
        }
    }
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
    if is_deeper(value, VALUE_DEPTH) {
        return Err(too_deep("$"));
    }
    let text = value.to_string();
    // The innermost list may be empty, which adds one level.
    let tape = Tape::parse_to(&text, VALUE_DEPTH + 1).map_err(|_| too_deep("$"))?;
    let exact = FitCheck::new(graph, &tape);
    let (hops, in_union, left) = (0, false, CHECK_STEPS);
    Render { rules, graph, tape: &tape, exact, hops, in_union, left }.node(id, 0, "$")
}

/// The conversion of one value. Its parts are tokens of a tape, as in reading.
struct Render<'a> {
    /// The rules that the schema was lowered by.
    rules: &'static Rules,
    /// The graph of the normal form.
    graph: &'a Graph,
    /// The tokens of the value.
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

/// The value in the dialect, or the path and reason of a part without a form.
type Rendered = Result<Value, Fault>;

impl<'a> Render<'a> {
    /// Renders one part by its schema.
    fn node(&mut self, id: Id, token: usize, path: &str) -> Rendered {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || self.exact.is_involved() {
            let why = "its unions have too many combinations to try";
            return Err(fault(path, why));
        }
        let container = matches!(self.tape.kind(token), TokenKind::List | TokenKind::Object);
        match self.graph.shape(id) {
            Shape::Nothing => Err(fault(path, "no value fits here")),
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

    /// Returns a part as it is in the text.
    fn value(&self, token: usize, path: &str) -> Rendered {
        serde_json::from_str(self.tape.whole(token)).map_err(|_| too_deep(path))
    }

    /// Whether a part fits a schema, or is too costly to check.
    fn fits(&mut self, id: Id, token: usize) -> bool {
        self.exact.fits(self.tape, token, id) != Fits::No
    }

    /// Returns a part without changes, if it fits its schema.
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

    /// Renders an object or a list by the shape of its schema. One of another type than its schema
    /// is an error.
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
    ///
    /// The hops are counted from the last step down, so a long list is not a long chain.
    fn hop(&mut self, id: Id, token: usize, path: &str) -> Rendered {
        let hops = self.hops;
        self.hops += 1;
        let rendered = match self.graph.shape(id) {
            _ if hops >= HOPS => Err(fault(path, "its schema leads back to itself")),
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

    /// Renders one of the listed values.
    fn listed(&mut self, node: &Node, token: usize, path: &str) -> Rendered {
        let values = node.listed();
        let value = self.value(token, path)?;
        let Some(known) = values.iter().find(|known| canonical(known) == canonical(&value)) else {
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

    /// Renders an object with declared fields. In a dialect without optional fields, an absent one
    /// is null.
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
        let mut further = entries.filter(|(name, _)| !is_known(name)).peekable();
        let pairs = pairs(self.graph, node);
        match further.peek() {
            _ if self.rules.closed && !pairs.is_empty() => {
                out.insert(FURTHER.into(), self.map(&pairs, further, path)?);
            }
            Some((name, _)) if self.rules.closed => {
                return Err(fault(path, format!("the field `{}` is not described", shown(name))));
            }
            _ if pairs.is_empty() => {
                for (name, value) in further {
                    out.insert(name.into_owned(), self.value(value, path)?);
                }
            }
            _ => {
                if let Value::Object(more) = self.map(&pairs, further, path)? {
                    out.extend(more);
                }
            }
        }
        Ok(out.into())
    }

    /// Renders the value of an undeclared field, by the first rule that accepts its name and has a
    /// form for it.
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
        let none = || fault(&below, format!("`{}` is not an allowed key", shown(name)));
        Err(first.unwrap_or_else(none))
    }

    /// Renders undeclared fields: as a list of pairs if the dialect closes objects.
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

    /// Renders a tuple: as an object with a field for each position if the dialect has no tuples.
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

/// Returns a part of the value for a message.
fn told(tape: &Tape<'_>, token: usize) -> String {
    shown(tape.whole(token))
}

/// Returns the fault of a value that nests too deeply.
fn too_deep(path: &str) -> Fault {
    fault(path, "it nests too deep; make it flatter")
}

/// Returns the fault of a part.
fn fault(path: &str, message: impl AsRef<str>) -> Fault {
    Fault::of_sentence(path.to_owned(), message.as_ref())
}
