//! The normal form as one typed graph.
//!
//! A [`Graph`] is made once from a schema in the [normal form](super::normal). Everything
//! that looks at values or compares schemas reads it:
//!
//! - [reading](crate::reading) checks, restores and repairs texts,
//! - [lowering](crate::lowering) brings schemas and example values to a dialect,
//! - [comparing](crate::comparing) looks at two graphs side by side.
//!
//! A node exists for each schema. [`Node::shape`] says how it is written, which lowering
//! repeats; all other fields say which values fit, with unions in unions made flat and
//! references followed. Lowering and comparing also need the words of a schema, such as its
//! description: they hold the normal form beside the graph ([`Schemas`]).

mod build;
mod circles;

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use self::build::Builder;
pub(crate) use self::circles::circles;
use super::types::Types;
use crate::limits::TRIAL_STEPS;
use crate::reading::date::Format;
use crate::reading::fit_check::{FitCheck, Fits};
use crate::reading::number::Decimal;
use crate::reading::pattern::Pattern;
use crate::reading::tape::Tape;

/// Number of a node in its [`Graph`].
pub(crate) type Id = usize;

/// The id of a node that takes any value, in every graph.
pub(crate) const ANY_ID: Id = Id::MAX;

/// All schemas below one root.
#[derive(Debug)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    pub(crate) root: Id,
    /// Whether a Rust type stands behind the schema: serde picks the first member of a union
    /// that fits, and drops fields it does not know.
    pub(crate) typed: bool,
    /// What references lead to: the root as `#`, definitions as `#/$defs/name`.
    targets: HashMap<String, Id>,
}

/// A graph with the schemas that its nodes were made from.
pub(crate) struct Schemas<'s> {
    pub(crate) graph: Graph,
    /// The normal form.
    pub(crate) root: &'s Value,
    sources: Vec<&'s Value>,
}

/// How a schema of the normal form is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Any value, or an object of any fields.
    Any,
    /// No value.
    Nothing,
    /// What the reference leads to; never another reference.
    Reference(Id),
    /// One of several, as they are written.
    Union(Vec<Id>),
    /// Values that are listed.
    Values,
    /// An object whose fields all have names.
    Struct,
    /// An object of any fields that fit.
    Map,
    /// A list with a schema for each place.
    Tuple,
    /// A list of any length.
    List,
    /// Text, number, boolean or null.
    Scalar,
}

impl Graph {
    /// Makes the graph of a schema in the normal form.
    pub(crate) fn of(normal: &Value) -> Self {
        Builder::new(normal).finish().graph
    }

    /// The node of an id, references followed.
    #[inline]
    pub(crate) fn node(&self, id: Id) -> &Node {
        let node = match self.nodes.get(id) {
            Some(node) if node.link == NO_LINK => Some(node),
            Some(node) => self.nodes.get(node.link as usize),
            None => None,
        };
        node.unwrap_or(&ANY)
    }

    /// How the schema of an id is written, references included.
    pub(crate) fn shape(&self, id: Id) -> &Shape {
        self.nodes.get(id).map_or(&Shape::Any, |node| &node.shape)
    }

    /// What a reference leads to; any other id itself.
    pub(crate) fn target(&self, id: Id) -> Id {
        match self.shape(id) {
            Shape::Reference(target) => *target,
            _ => id,
        }
    }

    /// The node that a reference of the normal form leads to.
    pub(crate) fn named(&self, reference: &str) -> Option<Id> {
        self.targets.get(reference).copied()
    }

    /// Changes every node.
    pub(crate) fn for_each(&mut self, change: impl FnMut(&mut Node)) {
        self.nodes.iter_mut().for_each(change);
    }

    pub(crate) fn root_mut(&mut self) -> Option<&mut Node> {
        let root = self.target(self.root);
        self.nodes.get_mut(root)
    }

    /// The nodes that are no union, of which a value fits one: those of unions in unions among
    /// them, each once. A schema that is no union is its only leaf.
    pub(crate) fn leaves(&self, id: Id) -> Vec<Id> {
        let mut leaves = Vec::new();
        let mut waiting = vec![id];
        // What leads back to itself adds nothing.
        let mut followed = HashSet::new();
        while let Some(id) = waiting.pop() {
            match self.shape(id) {
                Shape::Reference(target) => {
                    if followed.insert(*target) {
                        waiting.push(*target);
                    }
                }
                Shape::Union(members) => waiting.extend(members.iter().rev()),
                _ => leaves.push(id),
            }
        }
        leaves
    }

    /// Whether some value that `is` knows may fit, or any value at all.
    pub(crate) fn may(&self, id: Id, is: impl Fn(&Node) -> bool) -> bool {
        let leaves = self.leaves(id).into_iter().map(|id| self.node(id));
        leaves.into_iter().any(|leaf| leaf.shape == Shape::Any || is(leaf))
    }

    /// Whether null fits.
    pub(crate) fn takes_null(&self, id: Id) -> bool {
        self.node(id).types.has(Types::NULL)
    }

    /// Whether a list may fit.
    pub(crate) fn takes_list(&self, id: Id) -> bool {
        self.node(id).types.has(Types::LIST)
    }

    /// Whether a small value fits, as JSON Schema has it.
    pub(crate) fn takes(&self, id: Id, value: &Value) -> bool {
        let text = value.to_string();
        let exact = |tape: &Tape<'_>| FitCheck::within(self, tape, TRIAL_STEPS);
        let fits = |tape: &Tape<'_>| exact(tape).fits(tape, 0, id) != Fits::No;
        Tape::parse(&text).is_ok_and(|tape| fits(&tape))
    }

    /// The nodes directly below one, references followed: fields, items, members and rules.
    pub(crate) fn below(&self, id: Id) -> impl Iterator<Item = Id> {
        let node = self.node(id);
        let fields = node.object.fields.iter().map(|field| field.node);
        let rest = node.object.rest.id();
        let patterns = node.object.patterns.iter().map(|(_, id)| *id).chain(rest);
        let items = node.list.prefix.iter().copied().chain(node.list.items);
        let members = node.union.iter().flat_map(|union| union.members.iter().copied());
        let contains = node.list.contains.map(|(id, ..)| id);
        let rules = node.also.iter().chain(&node.never).copied().chain(contains);
        let rules = rules.chain(node.object.names);
        let parts = fields.chain(patterns).chain(items).chain(members);
        parts.chain(rules).map(|id| self.target(id))
    }

    /// All nodes below one, each once; itself only if it contains itself.
    pub(crate) fn all_below(&self, id: Id) -> Vec<Id> {
        let mut seen = HashSet::new();
        let (mut found, mut waiting) = (Vec::new(), vec![id]);
        while let Some(id) = waiting.pop() {
            for below in self.below(id) {
                if seen.insert(below) {
                    found.push(below);
                    waiting.push(below);
                }
            }
        }
        found
    }

    /// A reference that leads back to itself without a step down into the value: whether a
    /// value fits would depend on whether it fits. `$` if only the root does.
    pub(crate) fn circle(&self) -> Option<String> {
        let beside = |id: Id| {
            // What leads to a reference leads to its target.
            let node = if self.target(id) == id { self.node(id) } else { &ANY };
            let members = node.union.iter().flat_map(|union| &union.members);
            let parts = members.chain(&node.also).chain(&node.never);
            parts.map(|id| self.target(*id)).collect()
        };
        let edges: Vec<Vec<Id>> = (0..self.nodes.len()).map(beside).collect();
        let circle = circles(&edges).into_iter().next()?;
        let mut names: Vec<_> = self
            .targets
            .iter()
            .filter(|(_, id)| circle.contains(id))
            .map(|(name, _)| name)
            .collect();
        names.sort_unstable();
        let name = names.into_iter().find(|name| *name != "#");
        Some(name.map_or("$", String::as_str).to_owned())
    }
}

impl<'s> Schemas<'s> {
    /// Makes the graph of a schema in the normal form, and keeps the schema beside it.
    pub(crate) fn of(normal: &'s Value) -> Self {
        Builder::new(normal).finish()
    }

    /// The schema that a node was made from.
    pub(crate) fn source(&self, id: Id) -> &'s Value {
        self.sources.get(id).copied().unwrap_or(&Value::Bool(true))
    }

    /// The keywords of a schema.
    pub(crate) fn words(&self, id: Id) -> &'s Map<String, Value> {
        static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        self.source(id).as_object().unwrap_or(&NONE)
    }
}

/// The link of a node that is no reference.
const NO_LINK: u32 = u32::MAX;

/// What fits everywhere.
static ANY: Node = Node::any();

/// What one place of a value may hold.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// How the schema is written; the other fields say what it means.
    pub(crate) shape: Shape,
    /// What a reference leads to, or [`NO_LINK`]: as in `shape`, but beside `types` in memory,
    /// because every look at a value asks for both.
    link: u32,
    pub(crate) types: Types,
    /// The only values, of `enum` and `const`; null is said by `types`.
    pub(crate) values: Option<Box<[Value]>>,
    pub(crate) number: NumberRule,
    pub(crate) text: TextRule,
    pub(crate) list: ListRule,
    pub(crate) object: ObjectRule,
    /// Everything else is of no meaning where there are members.
    pub(crate) union: Option<Box<Union>>,
    /// What a value also has to fit.
    pub(crate) also: Vec<Id>,
    /// What a value must not fit.
    pub(crate) never: Vec<Id>,
}

impl Node {
    pub(crate) const fn any() -> Self {
        Self {
            shape: Shape::Any,
            link: NO_LINK,
            types: Types::ALL,
            values: None,
            number: NumberRule {
                least: None,
                greatest: None,
                above: None,
                below: None,
                step: None,
                range: None,
                single: false,
                float: false,
                implied: true,
                quick: None,
                quick_fraction: None,
            },
            text: TextRule { shortest: 0, longest: usize::MAX, pattern: None, format: None },
            list: ListRule {
                prefix: Vec::new(),
                items: None,
                closed: false,
                shortest: 0,
                longest: usize::MAX,
                unique: false,
                contains: None,
            },
            object: ObjectRule {
                fields: Vec::new(),
                index: None,
                rest: Rest::Open,
                names: None,
                patterns: Vec::new(),
                fewest: 0,
                most: usize::MAX,
                depends: Vec::new(),
            },
            union: None,
            also: Vec::new(),
            never: Vec::new(),
        }
    }

    pub(crate) fn is_any(&self) -> bool {
        self.types == Types::ALL
            && self.values.is_none()
            && self.union.is_none()
            && self.also.is_empty()
            && self.never.is_empty()
            && self.object.is_free()
            && self.list.items.is_none()
    }

    /// Drops what a schema hints at and only some readers check: formats of texts, widths of
    /// numbers.
    pub(crate) fn drop_hints(&mut self) {
        self.text.format = None;
        let number = std::mem::take(&mut self.number);
        self.number =
            NumberRule { range: None, single: false, quick: None, quick_fraction: None, ..number };
    }

    /// Whether null is a value here.
    pub(crate) fn takes_null(&self) -> bool {
        self.types.has(Types::NULL)
    }

    /// The values that are listed, null among them.
    pub(crate) fn listed(&self) -> Vec<&Value> {
        let null = (self.values.is_some() && self.takes_null()).then_some(&Value::Null);
        self.values.iter().flatten().chain(null).collect()
    }

    /// The one text that fits, if there is only one value and it is a text.
    pub(crate) fn only_text(&self) -> Option<&str> {
        match self.values.as_deref()? {
            [Value::String(text)] if self.types == Types::TEXT => Some(text),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct NumberRule {
    pub(crate) least: Option<Decimal>,
    pub(crate) greatest: Option<Decimal>,
    pub(crate) above: Option<Decimal>,
    pub(crate) below: Option<Decimal>,
    pub(crate) step: Option<Decimal>,
    /// The integers that the type behind it holds.
    pub(crate) range: Option<(Decimal, Decimal)>,
    /// A number of 32 bits: a larger one would become infinite.
    pub(crate) single: bool,
    /// A float is behind it, which rounds.
    pub(crate) float: bool,
    /// serde refuses by itself whatever this refuses.
    pub(crate) implied: bool,
    /// The integers that certainly fit: most do, and need no closer look.
    pub(crate) quick: Option<(i64, i64)>,
    /// The same for numbers with a fraction: between these, and not equal to them.
    pub(crate) quick_fraction: Option<(f64, f64)>,
}

impl NumberRule {
    pub(crate) fn quick(&self) -> Option<(i64, i64)> {
        let (range_low, range_high) = self.range.clone().unzip();
        let ends =
            |bounds: [&Option<Decimal>; 2], open: &Option<Decimal>, strict: i64, outer: i64| {
                let closed = bounds.into_iter().flatten().map(|bound| bound.as_i64(outer));
                let open = open.iter().map(|bound| Some(bound.as_i64(outer)? + strict));
                closed.chain(open).collect::<Option<Vec<i64>>>()
            };
        let lows = ends([&self.least, &range_low], &self.above, 1, i64::MIN + 1)?;
        let highs = ends([&self.greatest, &range_high], &self.below, -1, i64::MAX - 1)?;
        let low = lows.into_iter().max().unwrap_or(i64::MIN);
        let high = highs.into_iter().min().unwrap_or(i64::MAX);
        self.step.is_none().then_some((low, high))
    }

    pub(crate) fn quick_fraction(&self) -> Option<(f64, f64)> {
        if self.step.is_some() {
            return None;
        }
        let (range_low, range_high) = self.range.clone().unzip();
        let float = |bound: &Decimal| bound.to_string().parse::<f64>().ok();
        let largest = if self.single { f64::from(f32::MAX) } else { f64::MAX };
        let lows = [&self.least, &range_low, &self.above].into_iter().flatten().map(float);
        let highs = [&self.greatest, &range_high, &self.below].into_iter().flatten().map(float);
        let low = lows.collect::<Option<Vec<_>>>()?.into_iter().fold(-largest, f64::max);
        let high = highs.collect::<Option<Vec<_>>>()?.into_iter().fold(largest, f64::min);
        Some((low, high))
    }

    /// Whether a number is inside all bounds.
    pub(crate) fn fits(&self, number: &Decimal, literal: &str) -> bool {
        let in_range =
            self.range.as_ref().is_none_or(|(low, high)| low <= number && number <= high);
        self.least.as_ref().is_none_or(|least| least <= number)
            && self.greatest.as_ref().is_none_or(|greatest| number <= greatest)
            && self.above.as_ref().is_none_or(|above| above < number)
            && self.below.as_ref().is_none_or(|below| number < below)
            && in_range
            && self.step.as_ref().is_none_or(|step| number.is_multiple_of(step))
            && (!self.single || literal.parse::<f32>().is_ok_and(f32::is_finite))
            && literal.parse::<f64>().is_ok_and(f64::is_finite)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct TextRule {
    pub(crate) shortest: usize,
    pub(crate) longest: usize,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) format: Option<Format>,
}

impl TextRule {
    pub(crate) fn is_free(&self) -> bool {
        self.shortest == 0
            && self.longest == usize::MAX
            && self.pattern.is_none()
            && self.format.is_none()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ListRule {
    pub(crate) prefix: Vec<Id>,
    pub(crate) items: Option<Id>,
    /// Nothing after the prefix.
    pub(crate) closed: bool,
    pub(crate) shortest: usize,
    pub(crate) longest: usize,
    pub(crate) unique: bool,
    /// What some items have to be: which, at least and at most how many.
    pub(crate) contains: Option<(Id, usize, usize)>,
}

impl ListRule {
    /// What an item has to be; `None` if nothing may stand there.
    pub(crate) fn item(&self, index: usize) -> Option<Option<Id>> {
        match self.prefix.get(index) {
            Some(id) => Some(Some(*id)),
            None if self.closed => None,
            None => Some(self.items),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ObjectRule {
    pub(crate) fields: Vec<FieldRule>,
    /// Where each field is, for objects with many.
    pub(crate) index: Option<HashMap<Box<str>, usize>>,
    pub(crate) rest: Rest,
    /// What a key has to be.
    pub(crate) names: Option<Id>,
    pub(crate) patterns: Vec<(Pattern, Id)>,
    pub(crate) fewest: usize,
    pub(crate) most: usize,
    /// Which fields ask for which others.
    pub(crate) depends: Vec<(String, Vec<String>)>,
}

impl ObjectRule {
    /// Anything may stand in it.
    pub(crate) fn is_free(&self) -> bool {
        self.fields.is_empty()
            && matches!(self.rest, Rest::Open)
            && self.names.is_none()
            && self.patterns.is_empty()
            && self.fewest == 0
            && self.most == usize::MAX
            && self.depends.is_empty()
    }

    /// The fields that have a schema of their own.
    pub(crate) fn described(&self) -> impl Iterator<Item = &FieldRule> {
        self.fields.iter().filter(|field| field.described)
    }

    /// The field of a name, if it has a schema of its own.
    pub(crate) fn described_field(&self, name: &str) -> Option<&FieldRule> {
        let field = self.fields.get(self.field(name, 0)?)?;
        field.described.then_some(field)
    }

    /// What the value of a key that is not declared has to be, where that is said.
    pub(crate) fn value_of(&self, name: &str) -> Option<Id> {
        let matching = self.patterns.iter().find(|(pattern, _)| pattern.is_match(name));
        match (matching, self.rest) {
            (Some((_, id)), _) => Some(*id),
            (None, Rest::Of(id)) => Some(id),
            (None, Rest::Open | Rest::Closed) => None,
        }
    }

    /// Its keys are data.
    pub(crate) fn is_map(&self) -> bool {
        self.fields.is_empty() && (!self.patterns.is_empty() || matches!(self.rest, Rest::Of(_)))
    }

    /// The field of a name; most texts have the fields in the order of the schema.
    #[inline]
    pub(crate) fn field(&self, name: &str, hint: usize) -> Option<usize> {
        if self.fields.get(hint).is_some_and(|field| *field.name == *name) {
            return Some(hint);
        }
        match &self.index {
            Some(index) => index.get(name).copied(),
            None => self.fields.iter().position(|field| *field.name == *name),
        }
    }
}

/// What a field that is not declared has to be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rest {
    /// Nothing is said of it.
    Open,
    Closed,
    Of(Id),
}

impl Rest {
    /// The schema of other fields, where there is one.
    pub(crate) fn id(self) -> Option<Id> {
        match self {
            Self::Of(id) => Some(id),
            Self::Open | Self::Closed => None,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct FieldRule {
    pub(crate) name: Box<str>,
    pub(crate) node: Id,
    pub(crate) required: bool,
    /// Whether the schema describes it; one that is only required may hold what others may.
    pub(crate) described: bool,
    /// The one text it may hold, if there is only one: a tag.
    pub(crate) only: Option<Box<str>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Union {
    pub(crate) members: Vec<Id>,
    /// Each member that is an object fixes this field to values of its own.
    pub(crate) tag: Option<Box<str>>,
}
