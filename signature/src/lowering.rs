//! Rewriting a schema into what a dialect accepts, and values with it.

mod cycles;
pub(crate) mod dialect;
pub(crate) mod fits;
mod limits;
mod overlap;
mod rules;
pub(crate) mod shape;
mod value;
mod walk;

use serde_json::{Value, json};

use crate::error::{Fault, Side};
use crate::lowering::dialect::{Dialect, Loss};
use crate::lowering::limits::{check, check_words};
use crate::lowering::rules::Rules;
use crate::lowering::shape::{Shape, may, members, takes_list};
use crate::lowering::walk::Walk;
use crate::schema::{Refusal, normal, object};

/// How values are brought to the shape of a lowered schema.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    /// `None` where the dialect takes values as they are.
    plan: Option<Plan>,
    /// The one field of the root that holds the value.
    wrapper: Option<&'static str>,
}

#[derive(Debug, Clone)]
struct Plan {
    rules: &'static Rules,
    /// In the normal form, with the wrapper around it.
    schema: Value,
}

impl Form {
    /// A value in the shape of the lowered schema.
    pub(crate) fn render(&self, value: &Value) -> Result<Value, Fault> {
        // First of all: copying a value takes stack for each of its levels.
        value::check_depth(value)?;
        let wrapped = match self.wrapper {
            Some(name) => json!({ name: value }),
            None => value.clone(),
        };
        match &self.plan {
            Some(plan) => value::render(plan.rules, &plan.schema, &plan.schema, &wrapped),
            None => Ok(wrapped),
        }
    }
}

/// Whether a dialect takes a tool of this name.
pub(crate) fn check_name(dialect: Dialect, name: &str) -> Result<(), Refusal> {
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
    let with_letter = Rules::of(dialect).is_some_and(|rules| rules.starts_with_letter);
    if with_letter && !name.starts_with(starts) {
        return Err(Refusal::new(
            "$",
            "a tool's name starts with a letter or `_` there; rename it",
        ));
    }
    Ok(())
}

/// What is lowered: one side of a contract.
pub(crate) struct Lowering<'a> {
    pub(crate) dialect: Dialect,
    pub(crate) side: Side,
    pub(crate) schema: &'a Value,
    /// Whether a Rust type stands behind it.
    pub(crate) typed: bool,
    /// Whether the value is no object, so that it stands in a field in every dialect.
    pub(crate) wrapped: bool,
    /// The field it stands in then, or where only this dialect asks for it.
    pub(crate) wrapper: &'static str,
}

impl Lowering<'_> {
    /// The schema, what was lost, and how values follow it.
    pub(crate) fn lower(&self) -> Result<(Value, Vec<Loss>, Form), Refusal> {
        let wrapper = self.wrapped.then_some(self.wrapper);
        let base = match wrapper {
            Some(name) => object([(name, self.schema.clone())]),
            None => self.schema.clone(),
        };
        let Some(rules) = Rules::of(self.dialect) else {
            check_words(&base)?;
            // Nobody could read what comes back.
            normal(&base)?;
            return Ok((base, Vec::new(), Form { plan: None, wrapper }));
        };
        let plain = normal(&base)?;
        let (schema, wrapper) = match self.must_wrap(rules, &plain)? {
            true => (object([(self.wrapper, plain)]), Some(self.wrapper)),
            false => (plain, wrapper),
        };
        let mut walk = Walk::new(rules, &schema, self.side, self.typed);
        let lowered = walk.lower()?;
        let losses = std::mem::take(&mut walk.losses);
        check(&lowered, rules)?;
        Ok((lowered, losses, Form { plan: Some(Plan { rules, schema }), wrapper }))
    }

    /// Whether the root is no object there, or a union, so that it needs a field of its
    /// own; refused where what came back could not be told from what is wrapped.
    fn must_wrap(&self, rules: &Rules, root: &Value) -> Result<bool, Refusal> {
        let Some(map) = root.as_object().filter(|_| rules.object_root) else {
            return Ok(false);
        };
        match Shape::of(map) {
            Shape::Struct(_) => return Ok(false),
            Shape::Any | Shape::Map(_) if !rules.closed => return Ok(false),
            Shape::Any => return Ok(false),
            Shape::Map(pairs) => {
                // Even an empty list: it may be the map's, or that of its one entry. Where
                // only patterns are described, an entry of another name may be anything.
                let open = !map.contains_key("additionalProperties");
                if open || pairs.kinds.iter().any(|(_, value)| takes_list(root, value)) {
                    return Err(self.looks_alike());
                }
            }
            _ => {
                let known = |map: &shape::Schema| match Shape::of(map) {
                    Shape::Map(pairs) => pairs.kinds.iter().any(|(_, value)| {
                        takes_list(root, value)
                            || may(root, value, &|map| shape::has_type(map, "object"))
                    }),
                    _ => map.get("properties").is_some_and(|own| own.get(self.wrapper).is_some()),
                };
                let alternatives = members(map).unwrap_or_default();
                if alternatives.iter().any(|member| may(root, member, &known)) {
                    return Err(self.looks_alike());
                }
            }
        }
        Ok(true)
    }

    fn looks_alike(&self) -> Refusal {
        let advice = format!(
            "it is no plain object there and has to stand in a field `{}`, which it may have itself; put it in a field of a struct",
            self.wrapper
        );
        Refusal::new("$", advice)
    }
}
