//! Whether the same value could fit two members of a union.
//!
//! ```text
//! [{"kind": const "circle", …}, {"kind": const "square", …}] → no: a required field keeps them apart
//! [{"type": "integer"}, {"type": "number"}]                  → yes: an integer fits both
//! ```
//!
//! A contract's schema has `oneOf` if no value can ([`say_one_of`]). Lowering reports a loss if one
//! can and the dialect only has `anyOf` ([`Overlap`]). The first reads the graph of a schema that is
//! not in the normal form yet: the answer becomes part of the public schema, from which the normal
//! form is made. That is safe, because such a graph lacks only rules that keep members further
//! apart, such as `allOf`.

use std::collections::HashSet;

use serde_json::Value;

use crate::limits::{ANALYSIS_STEPS, GUESS_DEPTH};
use crate::reading::fit_check::canonical;
use crate::schema::graph::{Id, ListRule, Node, ObjectRule, Rest, Schemas, Shape};
use crate::schema::keywords::schemas_in;
use crate::schema::types::Types;
use crate::schema::{Keywords, below, below_mut};

/// Replaces `anyOf` by `oneOf` if no value fits two of the members, so that a model and a
/// validator know that exactly one is intended. An optional value does not change.
pub(crate) fn say_one_of(schema: &mut Value) {
    // Most types have no such union, and need no graph for the answer.
    if !schemas_in(schema).any(|(map, _)| may_exclude(map)) {
        return;
    }
    let before = schema.clone();
    let schemas = Schemas::of(&before);
    let exclusive = |(union, members): (&Value, &[Id])| {
        let apart = union.as_object().is_some_and(may_exclude)
            && !Overlap::new(&schemas, false).any(members);
        apart.then_some(std::ptr::from_ref(union))
    };
    let exclusive: HashSet<_> = schemas.unions().filter_map(exclusive).collect();
    let mut waiting = vec![(schema, &before)];
    while let Some((schema, before)) = waiting.pop() {
        let (Some(map), Some(source)) = (schema.as_object_mut(), before.as_object()) else {
            continue;
        };
        let sources = below(source).into_iter().map(|(_, _, source)| source);
        if exclusive.contains(&std::ptr::from_ref(before)) {
            let all = std::mem::take(map).into_iter();
            map.extend(all.map(|(keyword, value)| match keyword.as_str() {
                "anyOf" => ("oneOf".to_owned(), value),
                _ => (keyword, value),
            }));
        }
        waiting.extend(below_mut(map).into_iter().zip(sources));
    }
}

/// Whether a schema is an `anyOf` of several members, and not only an optional value.
fn may_exclude(schema: &Keywords) -> bool {
    let members = schema.get("anyOf").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let is_null = |member: &Value| member.get("type").is_some_and(|kind| kind == "null");
    let nullable = members.len() == 2 && members.iter().any(is_null);
    members.len() > 1 && !nullable && schema.get("oneOf").is_none()
}

/// A bounded search for a value that fits two members. It answers yes when it gives up.
pub(crate) struct Overlap<'a> {
    /// The schemas that the members belong to.
    schemas: &'a Schemas<'a>,
    /// Whether objects accept only their named fields, even without `additionalProperties`.
    closed: bool,
    left: usize,
}

impl<'a> Overlap<'a> {
    /// Starts a search with all its steps left.
    pub(crate) fn new(schemas: &'a Schemas<'a>, closed: bool) -> Self {
        Self { schemas, closed, left: ANALYSIS_STEPS }
    }

    /// Whether the same value may fit two of the members.
    pub(crate) fn any(&mut self, members: &[Id]) -> bool {
        members.iter().enumerate().any(|(i, one)| {
            members.iter().skip(i + 1).any(|other| self.two(*one, *other, GUESS_DEPTH))
        })
    }

    /// Whether a value may fit both. Members of unions and targets of references are compared
    /// instead of these.
    fn two(&mut self, one: Id, other: Id, depth: usize) -> bool {
        if depth == 0 || self.left == 0 {
            return true;
        }
        self.left -= 1;
        let graph = &self.schemas.graph;
        if [one, other].iter().any(|id| *graph.shape(*id) == Shape::Nothing) {
            return false;
        }
        for (id, against) in [(one, other), (other, one)] {
            match graph.shape(id) {
                Shape::Reference(target) => return self.two(*target, against, depth - 1),
                Shape::Union(members) => {
                    return members.iter().any(|member| self.two(*member, against, depth));
                }
                Shape::Any if !self.schemas.words(id).contains_key("type") => return true,
                _ => {}
            }
        }
        self.plain(graph.node(one), graph.node(other), depth)
    }

    /// Compares two schemas that are not unions: by their listed values, or else by the types that
    /// both have. Rules for texts and numbers are not compared.
    fn plain(&mut self, a: &Node, b: &Node, depth: usize) -> bool {
        if a.values.is_some() && b.values.is_some() {
            let theirs: HashSet<_> = b.listed().into_iter().map(canonical).collect();
            return a.listed().into_iter().any(|value| theirs.contains(&canonical(value)));
        }
        match a.types.common(b.types) {
            Types::NONE => false,
            Types::OBJECT => self.objects(&a.object, &b.object, depth),
            Types::LIST => lists(&a.list, &b.list),
            _ => true,
        }
    }

    /// Whether no required field keeps the two apart.
    fn objects(&mut self, a: &ObjectRule, b: &ObjectRule, depth: usize) -> bool {
        if self.needs_too_much(a, b) || self.needs_too_much(b, a) {
            return false;
        }
        a.described().all(|one| match b.described_field(&one.name) {
            Some(other) if one.required || other.required => {
                self.two(one.node, other.node, depth - 1)
            }
            _ => true,
        })
    }

    /// Whether one requires a field that the other does not accept.
    ///
    /// ```text
    /// one requires `b`; the other has only `a` and is closed → no object fits both
    /// ```
    fn needs_too_much(&self, one: &ObjectRule, other: &ObjectRule) -> bool {
        let closed = match other.rest {
            Rest::Open => self.closed,
            Rest::Closed => true,
            Rest::Of(_) => false,
        };
        let mut needed = one.fields.iter().filter(|field| field.required);
        closed
            && other.patterns.is_empty()
            && needed.any(|field| other.described_field(&field.name).is_none())
    }
}

/// Whether the lengths of two lists overlap.
fn lists(a: &ListRule, b: &ListRule) -> bool {
    a.shortest <= b.longest && b.shortest <= a.longest
}
