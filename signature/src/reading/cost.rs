//! The amount of work that a value costs its type.
//!
//! In: a value on a tape and its plan. Out: whether serde can read it in reasonable time. serde reads
//! an untagged union by trying its members in order, each from the start and with everything below
//! it. If such a union contains itself, each level multiplies the work by the number of members: a
//! value with forty levels never finishes. Such a value is rejected before the type sees it.
//!
//! ```text
//! untagged: A { next: Self, a: u8 } | B { next: Self, b: u8 } | Leaf(i64)
//!
//! {"next":{"next":{"next":1,"b":1},"b":1},"b":1}
//!     each level is read as `A`, which fails at its end, and then as `B`: 2 · 2 · 2 leaves
//! ```
//!
//! Begin with [`is_affordable`]. Most values pass by a bound without a walk.

use std::collections::HashMap;

use crate::limits::{TYPE_STEPS, TYPE_STEPS_EACH};
use crate::reading::fit_check::{FitCheck, Fits};
use crate::reading::read_plan::ReadPlan;
use crate::reading::tape::{Tape, TokenKind};
use crate::schema::graph::{Graph, Id, Union};
use crate::schema::types::Types;

/// The reason for rejecting such a value.
pub(super) const TOO_DEEP: &str =
    "its unions without a tag nest too deep to be read in time; nest it less";

/// Whether the type can read a value in reasonable time.
///
/// Without an untagged union that contains itself, every value is.
pub(super) fn is_affordable(plan: &ReadPlan, tape: &Tape<'_>, token: usize) -> bool {
    let graph = &plan.graph;
    if !graph.typed || plan.repeats == 0 {
        return true;
    }
    // The upper bound, with all members at all levels: most values are within the limit even so.
    let members = plan.repeats as u64;
    let all = members.saturating_pow(tape.depth()).saturating_mul(tape.len() as u64);
    if all <= TYPE_STEPS {
        return true;
    }
    let most = TYPE_STEPS + TYPE_STEPS_EACH * tape.len() as u64;
    let mut cost = Cost { graph, tape, exact: FitCheck::new(graph, tape), known: HashMap::new() };
    cost.of(token, graph.root) <= most
}

/// The walk that counts the reads of a value.
struct Cost<'f, 't> {
    graph: &'f Graph,
    tape: &'t Tape<'t>,
    /// Decides which members serde would give up on.
    exact: FitCheck<'f>,
    /// The cost of each value that was counted already.
    known: HashMap<(usize, Id), u64>,
}

impl Cost<'_, '_> {
    /// Returns how many values are read for one value, counting repeated reads.
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

    /// Counts the members up to the first that fits, and the buffering before them.
    fn union(&mut self, token: usize, union: &Union) -> u64 {
        // serde buffers the whole value before it tries a member.
        let mut cost = (self.tape.next(token) - token) as u64;
        let tag = union.tag.as_deref();
        for id in &union.members {
            let fits = self.exact.fits(self.tape, token, *id) != Fits::No;
            // With a tag, only the member that it names is tried.
            if tag.is_none() || fits {
                cost = cost.saturating_add(self.of(token, *id));
            }
            if fits {
                break;
            }
        }
        cost
    }

    /// Counts an object and its fields.
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

    /// Counts a list and its items.
    fn list(&mut self, token: usize, id: Id) -> u64 {
        let rule = &self.graph.node(id).list;
        let tape = self.tape;
        tape.items(token).enumerate().fold(1_u64, |cost, (index, item)| {
            let below = rule.item(index).flatten();
            cost.saturating_add(below.map_or(1, |below| self.of(item, below)))
        })
    }
}
