//! How much work a value is to the type behind it.
//!
//! serde reads a union without a tag by trying its members one after the other, each from the
//! start and with all that is below. Where such a union holds itself, each level multiplies
//! the work by the number of members that are tried: forty levels never come to an end. What
//! would take too long is refused before the type sees it.

use std::collections::HashMap;

use crate::limits::{TYPE_STEPS, TYPE_STEPS_EACH};
use crate::reading::fit_check::{FitCheck, Fits};
use crate::reading::read_plan::ReadPlan;
use crate::reading::tape::{Tape, TokenKind};
use crate::schema::graph::{Graph, Id, Union};
use crate::schema::types::Types;

/// Why such a value is refused.
pub(super) const TOO_DEEP: &str =
    "its unions without a tag nest too deep to be read in time; nest it less";

/// Whether the type comes to an end with a value in time.
pub(super) fn is_affordable(plan: &ReadPlan, tape: &Tape<'_>, token: usize) -> bool {
    let graph = &plan.graph;
    if !graph.typed || plan.repeats == 0 {
        return true;
    }
    // All members at all levels: most values are affordable even so.
    let members = plan.repeats as u64;
    let all = members.saturating_pow(tape.depth()).saturating_mul(tape.len() as u64);
    if all <= TYPE_STEPS {
        return true;
    }
    let most = TYPE_STEPS + TYPE_STEPS_EACH * tape.len() as u64;
    let mut cost = Cost { graph, tape, exact: FitCheck::new(graph, tape), known: HashMap::new() };
    cost.of(token, graph.root) <= most
}

struct Cost<'f, 't> {
    graph: &'f Graph,
    tape: &'t Tape<'t>,
    exact: FitCheck<'f>,
    known: HashMap<(usize, Id), u64>,
}

impl Cost<'_, '_> {
    /// How many values are looked at to read one, each as often as it is.
    fn of(&mut self, token: usize, id: Id) -> u64 {
        if let Some(known) = self.known.get(&(token, id)) {
            return *known;
        }
        let node = self.graph.node(id);
        let cost = match &node.union {
            Some(union) => self.union(token, union),
            None => match self.tape.kind(token) {
                TokenKind::Object if node.types.has(Types::OBJECT) => self.object(token, id),
                TokenKind::List if node.types.has(Types::LIST) => self.list(token, id),
                _ => 1,
            },
        };
        self.known.insert((token, id), cost);
        cost
    }

    fn union(&mut self, token: usize, union: &Union) -> u64 {
        // It is kept as a whole before any member sees it.
        let mut cost = (self.tape.next(token) - token) as u64;
        let tag = union.tag.as_deref();
        for id in &union.members {
            let fits = self.exact.fits(self.tape, token, *id) != Fits::No;
            // With a tag, only the member that it names is looked at.
            if tag.is_none() || fits {
                cost = cost.saturating_add(self.of(token, *id));
            }
            if fits {
                break;
            }
        }
        cost
    }

    fn object(&mut self, token: usize, id: Id) -> u64 {
        let rule = &self.graph.node(id).object;
        let (tape, mut cost, mut hint) = (self.tape, 1_u64, 0);
        for (key, value) in tape.entries(token) {
            let name = tape.text(key);
            let below = match rule.field(&name, hint) {
                Some(index) => {
                    hint = index + 1;
                    rule.fields.get(index).map(|field| field.node)
                }
                None => rule.value_of(&name),
            };
            cost = cost.saturating_add(below.map_or(1, |below| self.of(value, below)));
        }
        cost
    }

    fn list(&mut self, token: usize, id: Id) -> u64 {
        let rule = &self.graph.node(id).list;
        let tape = self.tape;
        tape.items(token).enumerate().fold(1_u64, |cost, (index, item)| {
            let below = rule.item(index).flatten();
            cost.saturating_add(below.map_or(1, |below| self.of(item, below)))
        })
    }
}
