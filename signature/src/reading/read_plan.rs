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
//!
//! `read_plan` and `probe` are a circle of files: the plan asks the probe for a fact about the type,
//! and the probe walks over the plan to find the places to look at.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::reading::probe;
use crate::schema::graph::{Graph, Id, Node, Rest};
use crate::schema::normal;
use crate::schema::types::Types;

/// The plan for one side of a contract.
#[derive(Debug)]
pub(crate) struct ReadPlan {
    pub(crate) graph: Graph,
    /// Whether serde enforces all rules of the schema.
    pub(super) plain: bool,
    /// Whether the type buffers values before it deserializes them, so that the fast path does not
    /// see all of them. The first reading finds out, because no schema contains this.
    pub(super) buffered: AtomicBool,
    /// Maximum number of members of an untagged union that contains itself; 0 without such a union.
    pub(super) repeats: usize,
    /// Whether the type accepts texts that the schema does not list: [`NOT_ASKED`], [`KNOWN`] or
    /// [`FREE`].
    texts: AtomicU8,
}

/// The schema lists texts, and the type was not asked yet.
const NOT_ASKED: u8 = 0;
/// The type accepts only the listed texts.
const KNOWN: u8 = 1;
/// Only the schema restricts some text, not the type.
const FREE: u8 = 2;

impl ReadPlan {
    /// A schema without a normal form cannot be lowered, so no model is asked for it. Then only the
    /// JSON syntax of a text is checked.
    pub(crate) fn of(schema: &Value, typed: bool) -> Self {
        let mut graph = Graph::of(&normal(schema).unwrap_or(Value::Bool(true)));
        graph.typed = typed;
        let mut plan = Self {
            graph,
            plain: false,
            buffered: AtomicBool::new(false),
            repeats: 0,
            texts: AtomicU8::new(KNOWN),
        };
        let lists = |(_, node): (Id, &Node)| node.values.is_some();
        if plan.all().any(lists) {
            plan.texts = AtomicU8::new(NOT_ASKED);
        }
        if typed {
            plan.open_root();
            plan.plain = plan.keeps_to_serde();
            plan.repeats = plan.most_repeats();
        }
        plan
    }

    /// Returns the root, with references resolved.
    pub(super) fn root(&self) -> Id {
        self.graph.target(self.graph.root)
    }

    /// Returns a node, with references resolved.
    #[inline]
    pub(super) fn node(&self, id: Id) -> &Node {
        self.graph.node(id)
    }

    /// Returns the nodes that a value may be checked against.
    fn all(&self) -> impl Iterator<Item = (Id, &Node)> {
        let root = self.root();
        let below = self.graph.all_below(root).into_iter().filter(move |id| *id != root);
        [root].into_iter().chain(below).map(|id| (id, self.node(id)))
    }

    /// Whether a text can be deserialized directly into the type.
    #[inline]
    pub(super) fn is_short(&self) -> bool {
        self.plain && !self.is_buffered() && self.texts.load(Ordering::Relaxed) == KNOWN
    }

    /// Whether serde enforces all rules of the schema, as far as the type was asked.
    pub(super) fn is_plain(&self) -> bool {
        self.plain && self.texts.load(Ordering::Relaxed) == KNOWN
    }

    /// Asks a type once whether it accepts texts that are not listed.
    ///
    /// The answer is kept, so later texts do not pay for it.
    pub(super) fn ask<T: DeserializeOwned>(&self) {
        if self.plain && self.texts.load(Ordering::Relaxed) == NOT_ASKED {
            let texts = if probe::lists_are_enums::<T>(self) { KNOWN } else { FREE };
            self.texts.store(texts, Ordering::Relaxed);
        }
    }

    /// Whether there is a float that must not be null. serde serializes `NaN` as null.
    pub(super) fn has_floats(&self) -> bool {
        self.all().any(|(_, node)| node.types.has(Types::NUMBER) && !node.takes_null())
    }

    /// Whether some place at or below a node lists its texts.
    pub(super) fn lists_below(&self, id: Id) -> bool {
        let below = self.graph.all_below(id);
        below.into_iter().chain([id]).any(|id| self.node(id).values.is_some())
    }

    /// Returns the maximum number of members of an untagged union that contains itself.
    fn most_repeats(&self) -> usize {
        let members = |(id, node): (Id, &Node)| {
            let union = node.union.as_ref().filter(|union| union.tag.is_none())?;
            self.graph.all_below(id).contains(&id).then_some(union.members.len())
        };
        self.all().filter_map(members).max().unwrap_or_default()
    }

    /// Whether a reading has found that the type buffers values.
    #[inline]
    pub(super) fn is_buffered(&self) -> bool {
        self.buffered.load(Ordering::Relaxed)
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
    /// [`strict`](crate::reading::strict_serde) and [`probe`] check.
    ///
    /// The root is a struct: maps keep the last of two equal keys, and unions need the closer
    /// check.
    fn keeps_to_serde(&self) -> bool {
        let root = self.node(self.root());
        let struct_or_nothing = root.types == Types::OBJECT && root.union.is_none();
        let fields_known =
            root.object.patterns.is_empty() && !matches!(root.object.rest, Rest::Of(_));
        struct_or_nothing
            && fields_known
            && self.all().all(|(id, node)| {
                node.is_plain(id == self.root())
                    && node.object.fields.iter().all(|field| {
                        // serde reads an absent `Option` as `None`, required or not.
                        !(field.required && self.node(field.node).takes_null())
                    })
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
