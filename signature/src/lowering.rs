//! From a contract's schema to one that a dialect accepts, and the same for values.
//!
//! The input is one side of a contract and a dialect. The output is the lowered schema, its losses,
//! and a [`Renderer`] that converts example values to the same shape. Each dialect is a table of
//! rules (`dialect_rules`). `walk` goes through the [graph](crate::schema::graph) of the normal form and
//! applies the rules; `value` does the same for a value. `limit_checks` then checks the limits
//! of the provider. If the strict form is rejected, the loose one is tried, and finally an object
//! of any fields.

mod cycles;
pub(crate) mod dialect;
mod dialect_rules;
mod limit_checks;
pub(crate) mod overlap;
pub(crate) mod request;
mod unnamed_fields;
mod value;
mod walk;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::error::shortened_path;
use crate::error::{Fault, SchemaFault, Side};
use crate::lowering::dialect::{Dialect, Loss};
use crate::lowering::dialect_rules::{Rules, Weight};
use crate::lowering::limit_checks::{check, check_words};
use crate::lowering::unnamed_fields::pairs;
use crate::lowering::walk::Walk;
use crate::schema::graph::{Graph, Node, Rest, Schemas, Shape};
use crate::schema::types::Types;
use crate::schema::{Refusal, normal, object};

/// The keywords of one schema.
pub(crate) type Schema = Map<String, Value>;

/// Converts values to the shape of a lowered schema.
#[derive(Debug, Clone)]
pub(crate) struct Renderer {
    /// `None` if the dialect does not change values.
    plan: Option<Plan>,
    /// The field of the root that wraps the value.
    wrapper: Option<&'static str>,
}

#[derive(Debug, Clone)]
struct Plan {
    rules: &'static Rules,
    /// The graph of the normal form, including the wrapper.
    graph: Arc<Graph>,
}

impl Renderer {
    /// Converts a value to the shape of the lowered schema.
    pub(crate) fn render(&self, value: &Value) -> Result<Value, Fault> {
        // Before everything else: copying a value takes stack for each of its levels.
        value::check_depth(value)?;
        let wrapped = match self.wrapper {
            Some(name) => json!({ name: value }),
            None => value.clone(),
        };
        match &self.plan {
            Some(Plan { rules, graph }) => value::render(rules, graph, graph.root, &wrapped),
            None => Ok(wrapped),
        }
    }
}

/// Maximum number of bytes of a schema that is written into a description.
const LONGEST_TOLD: usize = 10_000;

/// The loss of a schema that could be strict but is not.
const NO_ROOM: &str =
    "is off: the request has no room for another strict tool, and those before it come first";

/// Returns a schema without changes; its values do not change either.
fn as_it_is(schema: Value, losses: Vec<Loss>, wrapper: Option<&'static str>) -> Parts {
    let renderer = Renderer { plan: None, wrapper };
    Parts { schema, losses, strict: false, weight: Weight::default(), renderer }
}

/// Checks a tool's name against the rules of a dialect.
pub(crate) fn check_name(dialect: Dialect, name: &str) -> Result<(), Refusal> {
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
    let with_letter = Rules::of(dialect).is_some_and(|rules| rules.starts_with_letter);
    if with_letter && !name.starts_with(starts) {
        return Err(Refusal::new(
            SchemaFault::Name,
            "$",
            "a tool's name starts with a letter or `_` there; rename it",
        ));
    }
    Ok(())
}

/// The side of a contract that is lowered.
pub(crate) struct Lowering<'a> {
    pub(crate) dialect: Dialect,
    pub(crate) side: Side,
    pub(crate) schema: &'a Value,
    /// Whether it has a Rust type.
    pub(crate) typed: bool,
    /// Whether the value is not an object, so that every dialect wraps it in a field.
    pub(crate) wrapped: bool,
    /// The name of that field, also where only this dialect needs it.
    pub(crate) wrapper: &'static str,
    /// Whether the request has room for another strict schema.
    pub(crate) may_be_strict: bool,
}

/// The result of lowering a schema.
pub(crate) struct Parts {
    pub(crate) schema: Value,
    pub(crate) losses: Vec<Loss>,
    pub(crate) strict: bool,
    pub(crate) weight: Weight,
    /// Converts values to the shape of the schema.
    pub(crate) renderer: Renderer,
}

impl Lowering<'_> {
    /// Returns the first form that the provider accepts: strict, loose, and finally an object of
    /// any fields with the schema in its description.
    pub(crate) fn lower(&self) -> Result<Parts, Refusal> {
        let wrapper = self.wrapped.then_some(self.wrapper);
        let base = match wrapper {
            Some(name) => object([(name, self.schema.clone())]),
            None => self.schema.clone(),
        };
        let Some(rules) = Rules::of(self.dialect) else {
            check_words(&base)?;
            // Fails if the value could not be read afterwards.
            normal(&base)?;
            return Ok(as_it_is(base, Vec::new(), wrapper));
        };
        // An invalid schema is rejected in every form.
        let plain = normal(&base)?;
        let mut losses = Vec::new();
        if rules.strict {
            let why = match self.may_be_strict.then(|| self.lower_by(rules, &plain, wrapper)) {
                Some(Ok(parts)) => return Ok(parts),
                Some(Err(Refusal { fault, path, advice })) => {
                    self.loss(fault, &path, "strict", format!("is off: {advice}"))
                }
                None => self.loss(SchemaFault::TooLarge, "$", "strict", NO_ROOM),
            };
            losses.push(why);
        }
        match self.lower_by(rules.otherwise.unwrap_or(rules), &plain, wrapper) {
            Ok(parts) => {
                losses.extend(parts.losses);
                Ok(Parts { losses, ..parts })
            }
            Err(Refusal { fault, path, advice }) => {
                let mut open = json!({"type": "object", "properties": {}});
                let text = base.to_string();
                let what = if text.len() <= LONGEST_TOLD {
                    open["description"] = format!("JSON of this schema: {text}").into();
                    "are said in the description only"
                } else {
                    "are left out"
                };
                losses.push(self.loss(fault, &path, "properties", format!("{what}: {advice}")));
                Ok(as_it_is(open, losses, wrapper))
            }
        }
    }

    fn lower_by(
        &self,
        rules: &'static Rules,
        plain: &Value,
        wrapper: Option<&'static str>,
    ) -> Result<Parts, Refusal> {
        let (schema, wrapper) = match self.must_wrap(rules, plain)? {
            true => (object([(self.wrapper, plain.clone())]), Some(self.wrapper)),
            false => (plain.clone(), wrapper),
        };
        let schemas = Schemas::of(&schema);
        let mut walk = Walk::new(rules, &schemas, self.side, self.typed);
        let lowered = walk.lower()?;
        let losses = std::mem::take(&mut walk.losses);
        let weight = check(&lowered, rules)?;
        let graph = Arc::new(schemas.graph);
        let renderer = Renderer { plan: Some(Plan { rules, graph }), wrapper };
        Ok(Parts { schema: lowered, losses, strict: rules.strict, weight, renderer })
    }

    fn loss(
        &self,
        fault: SchemaFault,
        path: &str,
        keyword: &str,
        why: impl Into<Cow<'static, str>>,
    ) -> Loss {
        let (path, keyword) = (shortened_path(path.to_owned()), keyword.to_owned());
        Loss { side: self.side, path, keyword, why: why.into(), fault: Some(fault) }
    }

    /// Whether the root is a union or not an object in the dialect, so that it needs a field of its
    /// own. It fails if a wrapped value could not be distinguished from an unwrapped one.
    fn must_wrap(&self, rules: &Rules, root: &Value) -> Result<bool, Refusal> {
        let graph = &Graph::of(root);
        let node = graph.node(graph.root);
        let further = |node: &Node, types: Types| {
            pairs(graph, node).iter().any(|(_, value)| graph.node(*value).types.meets(types))
        };
        match graph.shape(graph.root) {
            _ if !rules.object_root => return Ok(false),
            Shape::Struct | Shape::Any => return Ok(false),
            Shape::Map if !rules.closed => return Ok(false),
            Shape::Map => {
                // Even an empty list is ambiguous: it may be the map, or the value of its only
                // entry. If there are only patterns, the entry of another key may have any value.
                let open = matches!(node.object.rest, Rest::Open);
                if open || further(node, Types::LIST) {
                    return Err(self.looks_alike());
                }
            }
            Shape::Union(members) => {
                let known = |node: &Node| match node.shape {
                    Shape::Map => further(node, Types::LIST.with(Types::OBJECT)),
                    _ => node.object.described_field(self.wrapper).is_some(),
                };
                if members.iter().any(|member| graph.may(*member, known)) {
                    return Err(self.looks_alike());
                }
            }
            _ => {}
        }
        Ok(true)
    }

    fn looks_alike(&self) -> Refusal {
        let advice = format!(
            "it is not a plain object there, so it needs a field `{}`, which it may already have; put it in a field of a struct",
            self.wrapper
        );
        Refusal::new(SchemaFault::Ambiguous, "$", advice)
    }
}

/// Returns the values of `const` or `enum`.
pub(crate) fn listed(schema: &Schema) -> Option<Vec<&Value>> {
    if let Some(only) = schema.get("const") {
        return Some(vec![only]);
    }
    Some(schema.get("enum")?.as_array()?.iter().collect())
}

/// Whether a schema names a type.
pub(crate) fn has_type(schema: &Schema, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(many)) => many.iter().any(|one| one == kind),
        _ => false,
    }
}

/// Returns the fields that a schema requires.
pub(crate) fn required(schema: &Schema) -> impl Iterator<Item = &str> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}
