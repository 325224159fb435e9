//! A schema graph with what is known of the type behind it: what a text is read against.
//!
//! It is made once with a contract. In goes a schema, out comes the plan that every text of the
//! contract is read by: straight into the type where serde refuses whatever the schema
//! refuses, and otherwise by a check against the graph first.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::reading::probe;
use crate::schema::graph::{Graph, Id, Node, Rest};
use crate::schema::normal;
use crate::schema::types::Types;

/// All that a contract knows about one side of it, ready to read.
#[derive(Debug)]
pub(crate) struct ReadPlan {
    pub(crate) graph: Graph,
    /// serde alone refuses whatever the schema refuses.
    pub(super) plain: bool,
    /// The type keeps what it reads before it knows what it is, so the short way does
    /// not see all of it. No schema tells; the first reading does.
    pub(super) buffered: AtomicBool,
    /// Maximum number of members of a union without a tag that holds itself; 0 without such
    /// a union.
    pub(super) repeats: usize,
    /// Whether the type takes other texts than those that the schema lists: one of
    /// [`NOT_ASKED`], [`KNOWN`] and [`FREE`].
    texts: AtomicU8,
}

/// Some texts are listed, and the type was not asked yet.
const NOT_ASKED: u8 = 0;
/// The type takes no text beside those that are listed.
const KNOWN: u8 = 1;
/// Some text is listed by the schema alone.
const FREE: u8 = 2;

impl ReadPlan {
    /// A schema without a normal form cannot be lowered, so no model is asked for it:
    /// then only the JSON of a text is checked.
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

    /// The root, references followed.
    pub(super) fn root(&self) -> Id {
        self.graph.target(self.graph.root)
    }

    #[inline]
    pub(super) fn node(&self, id: Id) -> &Node {
        self.graph.node(id)
    }

    /// The nodes that a value may be held to.
    fn all(&self) -> impl Iterator<Item = (Id, &Node)> {
        let root = self.root();
        let below = self.graph.all_below(root).into_iter().filter(move |id| *id != root);
        [root].into_iter().chain(below).map(|id| (id, self.node(id)))
    }

    /// Whether a text may go straight into the type.
    #[inline]
    pub(super) fn is_short(&self) -> bool {
        self.plain && !self.is_buffered() && self.texts.load(Ordering::Relaxed) == KNOWN
    }

    /// Whether serde alone refuses whatever the schema refuses, as far as the type was asked.
    pub(super) fn is_plain(&self) -> bool {
        self.plain && self.texts.load(Ordering::Relaxed) == KNOWN
    }

    /// Asks a type once whether it takes other texts than those that are listed.
    pub(super) fn ask<T: DeserializeOwned>(&self) {
        if self.plain && self.texts.load(Ordering::Relaxed) == NOT_ASKED {
            let texts = if probe::lists_are_enums::<T>(self) { KNOWN } else { FREE };
            self.texts.store(texts, Ordering::Relaxed);
        }
    }

    /// Whether a number without a value, which serde writes as null, would be no number here.
    pub(super) fn has_floats(&self) -> bool {
        self.all().any(|(_, node)| node.types.has(Types::NUMBER) && !node.takes_null())
    }

    /// Whether some place at or below a node lists its texts.
    pub(super) fn lists_below(&self, id: Id) -> bool {
        let below = self.graph.all_below(id);
        below.into_iter().chain([id]).any(|id| self.node(id).values.is_some())
    }

    /// Maximum number of members of a union without a tag that is below itself.
    fn most_repeats(&self) -> usize {
        let members = |(id, node): (Id, &Node)| {
            let union = node.union.as_ref().filter(|union| union.tag.is_none())?;
            self.graph.all_below(id).contains(&id).then_some(union.members.len())
        };
        self.all().filter_map(members).max().unwrap_or_default()
    }

    #[inline]
    pub(super) fn is_buffered(&self) -> bool {
        self.buffered.load(Ordering::Relaxed)
    }

    /// A contract closes an input without fields; the type behind it does not mind.
    fn open_root(&mut self) {
        if let Some(root) = self.graph.root_mut()
            && root.object.fields.is_empty()
            && root.object.patterns.is_empty()
            && matches!(root.object.rest, Rest::Closed)
        {
            root.object.rest = Rest::Open;
        }
    }

    /// Whether serde alone refuses what the schema refuses, but for what
    /// [`strict`](crate::reading::strict_serde) and [`probe`](crate::reading::probe) look after.
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
                        // serde takes a missing `Option` for `None`, required or not.
                        !(field.required && self.node(field.node).takes_null())
                    })
            })
    }
}

impl Node {
    fn is_plain(&self, is_root: bool) -> bool {
        let one_kind = [
            Types::NONE,
            Types::BOOLEAN,
            Types::INTEGER,
            Types::NUMBER,
            Types::TEXT,
            Types::LIST,
            Types::OBJECT,
        ]
        .contains(&self.types.without(Types::NULL));
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
