//! A schema's graph with the facts about its Rust type: the plan for reading texts.
//!
//! In: one side's schema, and later its type. Out: a [`ReadPlan`], which decides how texts are read.
//! If serde enforces all rules of the schema, texts are deserialized directly into the type.
//! Otherwise they are checked against the graph first:
//!
//! ```text
//! { limit: u8 }                       plain: serde knows the range
//! { limit: u8 } with maximum 9        checked: serde would accept 10
//! { state: State } with an enum       plain, once the type was asked whether it lists its texts
//! a map, a union, a format            checked
//! ```
//!
//! Begin with [`ReadPlan::of`]. It is made once for a contract; the facts that only the type knows
//! are asked at the first reading ([`ReadPlan::ask`]) and kept.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU8, Ordering};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::limits::PROBED_PLACES;
use crate::reading::strict_serde::{self, Asked};
use crate::schema::graph::{Graph, Id, Node, Rest};
use crate::schema::normal;
use crate::schema::types::Types;

/// The plan for one side of a contract.
#[derive(Debug)]
pub(crate) struct ReadPlan {
    pub(crate) graph: Graph,
    /// How texts are read: [`NOT_ASKED`], [`PLAIN`] or [`CHECKED`].
    state: AtomicU8,
    /// Maximum number of members of an untagged union that contains itself; 0 without such a union.
    pub(super) repeats: usize,
}

/// The schema lists texts, and the type was not asked yet whether it accepts others.
const NOT_ASKED: u8 = 0;
/// serde enforces all rules of the schema.
const PLAIN: u8 = 1;
/// Texts are checked against the graph.
const CHECKED: u8 = 2;

impl ReadPlan {
    /// A schema without a normal form cannot be lowered, so no model is asked for it. Then only the
    /// JSON syntax of a text is checked.
    pub(crate) fn of(schema: &Value, typed: bool) -> Self {
        let mut graph = Graph::of(&normal(schema).unwrap_or(Value::Bool(true)));
        graph.typed = typed;
        let mut plan = Self { graph, state: AtomicU8::new(CHECKED), repeats: 0 };
        if typed {
            plan.open_root();
            plan.repeats = plan.most_repeats();
            if plan.keeps_to_serde() {
                let lists = plan.all().any(|(_, node)| node.values.is_some());
                plan.state = AtomicU8::new(if lists { NOT_ASKED } else { PLAIN });
            }
        }
        plan
    }

    /// Makes every text be checked: the schema has rules that the type does not enforce.
    pub(super) fn check_always(&self) {
        self.state.store(CHECKED, Ordering::Relaxed);
    }

    /// Returns the nodes that a value may be checked against.
    fn all(&self) -> impl Iterator<Item = (Id, &Node)> {
        let root = self.graph.target(self.graph.root);
        let below = self.graph.all_below(root).into_iter().filter(move |id| *id != root);
        [root].into_iter().chain(below).map(|id| (id, self.graph.node(id)))
    }

    /// Whether serde enforces all rules of the schema, as far as the type was asked.
    pub(super) fn is_plain(&self) -> bool {
        self.state.load(Ordering::Relaxed) == PLAIN
    }

    /// Reads a text of a plain contract in one pass; `None` means that it needs a further check.
    #[inline]
    pub(super) fn read_plain<T: DeserializeOwned>(&self, wire: &str) -> Option<T> {
        if !self.is_plain() {
            return None;
        }
        let asked = Asked::default();
        let read = strict_serde::read(wire, &asked);
        if asked.buffered.get() {
            self.check_always();
        }
        read
    }

    /// Asks a type once whether it accepts texts that are not listed.
    ///
    /// The answer is kept, so later texts do not pay for it.
    pub(super) fn ask<T: DeserializeOwned>(&self) {
        if self.state.load(Ordering::Relaxed) == NOT_ASKED {
            let state = if self.lists_are_enums::<T>() { PLAIN } else { CHECKED };
            self.state.store(state, Ordering::Relaxed);
        }
    }

    /// Whether every list of texts in a plain schema is an enum in `T`, which serde enforces. It may
    /// also come from an attribute of a `String`, which accepts any text. The schema is the same, so
    /// the type reads a text that leads to each such place only:
    ///
    /// ```text
    /// struct Task { levels: Vec<Level> }    {"levels": [""]}: it asks for the variant of an enum
    /// ```
    ///
    /// Also `false` if this cannot be determined, such as behind the first position of a tuple. The
    /// schema is then checked, which is always correct.
    fn lists_are_enums<T: DeserializeOwned>(&self) -> bool {
        /// The field of a struct, or the first item of a list or a tuple.
        type Step<'p> = Option<&'p str>;
        let root = self.graph.target(self.graph.root);
        let mut seen = HashSet::from([root]);
        let mut waiting: Vec<(Id, Vec<Step<'_>>)> = vec![(root, Vec::new())];
        let mut places = 0;
        while let Some((id, path)) = waiting.pop() {
            let node = self.graph.node(id);
            if node.list.prefix.iter().skip(1).any(|id| self.lists_below(*id)) {
                return false;
            }
            let fields = node.object.fields.iter().map(|field| (Some(&*field.name), field.node));
            let first = node.list.prefix.first().or(node.list.items.as_ref());
            for (step, below) in fields.chain(first.map(|id| (None, *id))) {
                let mut path = path.clone();
                path.push(step);
                if self.graph.node(below).values.is_some() {
                    places += 1;
                    let json = path.iter().rev().fold(json!(""), |below, step| match step {
                        Some(name) => json!({ *name: below }),
                        None => json!([below]),
                    });
                    let asked = strict_serde::asks::<T>(&json.to_string());
                    if places > PROBED_PLACES || !asked.variant.get() {
                        return false;
                    }
                } else if seen.insert(below) {
                    waiting.push((below, path));
                }
            }
        }
        true
    }

    /// Whether there may be a float. serde serializes `NaN` as null.
    pub(super) fn has_floats(&self) -> bool {
        self.all().any(|(_, node)| node.types.has(Types::NUMBER))
    }

    /// Whether some place at or below a node lists its texts.
    fn lists_below(&self, id: Id) -> bool {
        let below = self.graph.all_below(id);
        below.into_iter().chain([id]).any(|id| self.graph.node(id).values.is_some())
    }

    /// Returns the maximum number of members of an untagged union that contains itself.
    fn most_repeats(&self) -> usize {
        let members = |(id, node): (Id, &Node)| {
            let union = node.union.as_ref().filter(|union| union.tag.is_none())?;
            self.graph.all_below(id).contains(&id).then_some(union.members.len())
        };
        self.all().filter_map(members).max().unwrap_or_default()
    }

    /// Opens the root: a contract closes an input without fields, but its type accepts any fields.
    ///
    /// serde ignores the fields of a call without arguments, so a model may send some.
    fn open_root(&mut self) {
        if let Some(root) = self.graph.root_mut()
            && root.object.fields.is_empty()
            && root.object.patterns.is_empty()
            && matches!(root.object.rest, Rest::Closed)
        {
            root.object.rest = Rest::Open;
        }
    }

    /// Whether serde enforces all rules of the schema, except for those that
    /// [`strict_serde`] checks.
    ///
    /// The root is a struct: maps keep the last of two equal keys, and unions need the closer
    /// check.
    fn keeps_to_serde(&self) -> bool {
        let root = self.graph.node(self.graph.root);
        // serde reads an absent `Option` as `None`, required or not.
        let optional = |id: Id| self.graph.node(id).takes_null();
        root.types == Types::OBJECT
            && self.all().all(|(_, node)| {
                let mut fields = node.object.fields.iter();
                node.is_plain(std::ptr::eq(node, root))
                    && !fields.any(|field| field.required && optional(field.node))
            })
    }
}

impl Node {
    /// Whether serde enforces all rules of this node, but not those of the nodes below it.
    fn is_plain(&self, is_root: bool) -> bool {
        let kinds = self.types.without(Types::NULL);
        let one_kind =
            kinds == Types::NONE || kinds == Types::INTEGER || Types::EACH.contains(&kinds);
        let values = self.values.as_deref().unwrap_or_default();
        let list = &self.list;
        let tuple = list.closed && list.shortest == list.prefix.len();
        let free_list = list.shortest == 0 && list.longest == usize::MAX && list.prefix.is_empty();
        let object = &self.object;
        let is_struct = matches!(object.rest, Rest::Open | Rest::Closed)
            && object.patterns.is_empty()
            && object.names.is_none()
            && object.depends.is_empty()
            && object.fewest == 0
            && object.most == usize::MAX
            && (is_root || !object.fields.is_empty());
        one_kind
            && self.union.is_none()
            && self.also.is_empty()
            && self.never.is_empty()
            && values.iter().all(Value::is_string)
            && (!self.types.meets(Types::NUMBER) || self.number.implied)
            && self.text.is_free()
            && (!self.types.has(Types::LIST)
                || ((tuple || free_list) && !list.unique && list.contains.is_none()))
            && (!self.types.has(Types::OBJECT) || is_struct)
    }
}
