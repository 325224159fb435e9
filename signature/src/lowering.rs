//! From a contract's schema to one that a dialect accepts, and the same for values.
//!
//! Begin with [`Lowering::lower`]. The input is one side of a contract and a dialect. The output is
//! the lowered schema, its losses, and a [`Renderer`] that converts example values to the same
//! shape:
//!
//! ```text
//! contract:      {"counts": map of integers}        {"counts": {"a": 1}}
//! openai-strict: {"counts": list of key and value}  {"counts": [{"key": "a", "value": 1}]}
//! ```
//!
//! | file | part |
//! |---|---|
//! | `dialect` | the public types: dialects, lowered schemas, losses |
//! | `dialect_rules` | the table of what each dialect accepts, with sources |
//! | `walk` | schemas: goes through the [graph](crate::schema::graph) and applies the rules |
//! | `value` | example values: goes through the same graph |
//! | `unnamed_fields` | the fields of maps and open objects, for both walks |
//! | `overlap` | whether a value could fit two members of a union |
//! | `inline` | references written out where they are used, for MCP |
//! | `limit_checks` | the limits of the provider on a lowered schema |
//! | `request` | all schemas of a request, which share some limits |
//!
//! If the strict form of a schema is rejected, the loose one is tried, and finally an object of any
//! fields with the schema in its description. Only a schema that is invalid in every dialect is an
//! error.

pub(crate) mod dialect;
mod dialect_rules;
mod inline;
mod limit_checks;
pub(crate) mod overlap;
pub(crate) mod request;
mod unnamed_fields;
mod value;
mod walk;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::error::{Checked, Refusal, SchemaFault, Side, refuse, shortened_path};
use crate::lowering::dialect::{Dialect, Loss};
use crate::lowering::dialect_rules::{MCP_ROOT, Rules, Weight};
use crate::lowering::inline::inline;
use crate::lowering::limit_checks::{check, check_references};
use crate::lowering::unnamed_fields::pairs;
use crate::lowering::value::Renderer;
use crate::lowering::walk::Walk;
use crate::schema::graph::{Graph, Node, Rest, Schemas, Shape};
use crate::schema::keywords::has_type;
use crate::schema::types::Types;
use crate::schema::{below_mut, normal, object};

/// Maximum number of bytes of a schema that is written into a description.
const LONGEST_TOLD: usize = 10_000;

/// The loss of a schema that could be strict but is not.
const NO_ROOM: &str =
    "is off: the request has no room for another strict tool after the ones before it";

/// Keywords of a root that clients of MCP refuse: they pass the schema on to a model's API, which
/// takes a plain object there. See `lower_for_mcp` for `allOf` beside the fields of a foreign object.
const COMBINATORS: [&str; 7] = ["anyOf", "oneOf", "allOf", "not", "$ref", "enum", "const"];

/// Adds `properties` to each object without it, because some clients of MCP drop such a tool or field.
///
/// A foreign object below the root accepts any fields. With `properties` it would name all of them,
/// so that is said too.
fn fill(schema: &mut Value, typed: bool, is_root: bool) {
    let Some(map) = schema.as_object_mut() else { return };
    if has_type(map, "object") && !map.contains_key("properties") {
        let at = map.keys().position(|keyword| keyword == "type").map_or(0, |at| at + 1);
        map.shift_insert(at, "properties".into(), json!({}));
        let rules = ["additionalProperties", "patternProperties", "enum", "const", "$ref", "allOf"];
        if !typed && !is_root && !rules.iter().any(|rule| map.contains_key(*rule)) {
            map.insert("additionalProperties".into(), true.into());
        }
    }
    below_mut(map).into_iter().for_each(|below| fill(below, typed, false));
}

/// Checks a tool's name against the rules of a dialect.
///
/// Names that no provider accepts are rejected before, when the contract is made.
pub(crate) fn check_name(dialect: Dialect, name: &str) -> Checked {
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
    let with_letter = Rules::of(dialect).is_some_and(|rules| rules.starts_with_letter);
    if with_letter && !name.starts_with(starts) {
        let advice = "a tool's name must start with a letter or `_` there; rename it";
        return refuse(SchemaFault::Name, "$", advice);
    }
    Ok(())
}

/// The side of a contract that is lowered.
pub(crate) struct Lowering<'a> {
    /// The dialect to lower to.
    pub(crate) dialect: Dialect,
    /// The side, for the losses.
    pub(crate) side: Side,
    /// The public schema of that side.
    pub(crate) schema: &'a Value,
    /// Whether it has a Rust type.
    pub(crate) typed: bool,
    /// Whether the value is not an object, so that every dialect wraps it in a field.
    pub(crate) wrapped: bool,
    /// Whether the request has room for another strict schema.
    pub(crate) may_be_strict: bool,
}

/// The result of lowering a schema.
pub(crate) struct Parts {
    /// The schema to send.
    pub(crate) schema: Value,
    /// The rules that it does not express.
    pub(crate) losses: Vec<Loss>,
    /// Whether the provider guarantees that values fit.
    pub(crate) strict: bool,
    /// The part of a request's limits that it uses.
    pub(crate) weight: Weight,
    /// Converts values to the shape of the schema.
    pub(crate) renderer: Renderer,
}

impl Lowering<'_> {
    /// Returns the first form that the provider accepts: strict, loose, and finally an object of
    /// any fields with the schema in its description.
    pub(crate) fn lower(&self) -> Checked<Parts> {
        let base = match self.wrapped {
            true => object([(self.side.wrapper(), self.schema.clone())]),
            false => self.schema.clone(),
        };
        let rules = match Rules::of(self.dialect) {
            Some(rules) => rules,
            None if self.dialect == Dialect::Mcp => return self.lower_for_mcp(base),
            None => {
                check_references(&base)?;
                // Fails if the value could not be read afterwards.
                normal(&base)?;
                return Ok(self.as_it_is(base, Vec::new()));
            }
        };
        // An invalid schema is rejected in every form.
        let plain = normal(&base)?;
        let mut losses = Vec::new();
        if rules.strict {
            let why = match self.may_be_strict.then(|| self.lower_by(rules, &plain)) {
                Some(Ok(parts)) => return Ok(parts),
                Some(Err(Refusal { fault, path, advice })) => {
                    self.loss(fault, &path, "strict", format!("is off: {advice}"))
                }
                None => self.loss(SchemaFault::TooLarge, "$", "strict", NO_ROOM),
            };
            losses.push(why);
        }
        match self.lower_by(rules.otherwise.unwrap_or(rules), &plain) {
            Ok(parts) => {
                losses.extend(parts.losses);
                Ok(Parts { losses, ..parts })
            }
            Err(refusal) => Ok(self.told_only(&base, refusal, losses)),
        }
    }

    /// Returns the schema as it is, except where clients drop the tool: a root with combinators
    /// becomes a plain object, references are written out, and each object has `properties`.
    fn lower_for_mcp(&self, base: Value) -> Checked<Parts> {
        check_references(&base)?;
        let plain = normal(&base)?;
        // MCP's conformance suite requires that further rules of an object stay as they were written.
        let is_object =
            base.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
        let is_kept = |keyword: &str| keyword == "allOf" && is_object && !self.typed;
        let is_refused = |keyword: &&str| base.get(*keyword).is_some() && !is_kept(keyword);
        let mut parts = match COMBINATORS.iter().any(is_refused) {
            false => self.as_it_is(base, Vec::new()),
            true => self
                .lower_by(&MCP_ROOT, &plain)
                .unwrap_or_else(|refusal| self.told_only(&base, refusal, Vec::new())),
        };
        // The values are not changed, except for the wrapper.
        parts.renderer.plan = None;
        parts.losses.extend(inline(&mut parts.schema, self.side));
        fill(&mut parts.schema, self.typed, true);
        Ok(parts)
    }

    /// Returns a schema without changes; its values do not change either, except for the wrapper.
    fn as_it_is(&self, schema: Value, losses: Vec<Loss>) -> Parts {
        let wrapper = self.wrapped.then(|| self.side.wrapper());
        let renderer = Renderer { plan: None, wrapper };
        Parts { schema, losses, strict: false, weight: Weight::default(), renderer }
    }

    /// Returns an object of any fields, with the schema in its description.
    fn told_only(
        &self,
        base: &Value,
        Refusal { fault, path, advice }: Refusal,
        mut losses: Vec<Loss>,
    ) -> Parts {
        let mut open = json!({"type": "object", "properties": {}});
        let text = base.to_string();
        let what = if text.len() <= LONGEST_TOLD {
            open["description"] = format!("JSON of this schema: {text}").into();
            "are written only in the description"
        } else {
            "are left out"
        };
        losses.push(self.loss(fault, &path, "properties", format!("{what}: {advice}")));
        self.as_it_is(open, losses)
    }

    /// Lowers the normal form by one table of rules: strict or loose.
    fn lower_by(&self, rules: &'static Rules, plain: &Value) -> Checked<Parts> {
        let must_wrap = self.must_wrap(rules, plain)?;
        let wrapper = (self.wrapped || must_wrap).then(|| self.side.wrapper());
        let schema = match must_wrap {
            true => object([(self.side.wrapper(), plain.clone())]),
            false => plain.clone(),
        };
        let schemas = Schemas::of(&schema);
        let mut walk = Walk::new(rules, &schemas, self.side, self.typed);
        let lowered = walk.lower()?;
        let losses = std::mem::take(&mut walk.losses);
        let weight = check(&lowered, rules)?;
        let graph = Arc::new(schemas.graph);
        let renderer = Renderer { plan: Some((rules, graph)), wrapper };
        Ok(Parts { schema: lowered, losses, strict: rules.strict, weight, renderer })
    }

    /// Returns the loss of a whole form, with the fault that caused it.
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
    ///
    /// ```text
    /// input {"anyOf": [A, B]} → {"input": anyOf [A, B]}
    /// map with values of type list, closed → an error: a list may be the map or the value of `input`
    /// ```
    fn must_wrap(&self, rules: &Rules, root: &Value) -> Checked<bool> {
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
                    return self.looks_alike();
                }
            }
            Shape::Union(members) => {
                let known = |node: &Node| match node.shape {
                    Shape::Map => further(node, Types::LIST.with(Types::OBJECT)),
                    _ => node.object.described_field(self.side.wrapper()).is_some(),
                };
                if members.iter().any(|member| graph.may(*member, known)) {
                    return self.looks_alike();
                }
            }
            _ => {}
        }
        Ok(true)
    }

    /// Returns the error of a root that needs the wrapper, but may look like a wrapped value
    /// already.
    fn looks_alike<T>(&self) -> Checked<T> {
        let advice = format!(
            "it is not a plain object there, so it needs a field `{}`, which it may already have; put it in a field of a struct",
            self.side.wrapper()
        );
        refuse(SchemaFault::Ambiguous, "$", advice)
    }
}
