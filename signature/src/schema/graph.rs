//! The normal form as one typed graph.
//!
//! A [`Graph`] is made once from a schema in the [normal form](mod@super::normal). Every step that
//! checks values or compares schemas uses it:
//!
//! - [reading](crate::reading) checks, restores and repairs texts,
//! - [lowering](crate::lowering) converts schemas and example values to a dialect,
//! - [comparing](crate::comparing) walks two graphs together.
//!
//! Each schema has a node. [`Node::shape`] is its notation, which lowering reproduces. All other
//! fields describe the values that fit, with nested unions flattened and references resolved:
//!
//! ```text
//! {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}, where A is an object
//!
//! shape:  Union([reference to A, Scalar])     what lowering writes
//! types:  OBJECT or NULL                      what reading checks
//! object: the fields of A
//! ```
//!
//! Begin with [`Graph::node`] for the rules and [`Graph::shape`] for the notation. Lowering and
//! comparing also need annotations, such as the description, so they keep the normal form beside
//! the graph ([`Schemas`]).
//!
//! Rules hold compiled patterns, decimals and formats of `reading`, because they would otherwise
//! have two meanings.

mod build;
mod circles;

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde_json::Value;

use self::build::Builder;
pub(crate) use self::circles::circles;
use super::keywords::Keywords;
use super::types::Types;
use crate::reading::date::Format;
use crate::reading::number::Decimal;
use crate::reading::pattern::Pattern;

/// Number of a node in its [`Graph`].
pub(crate) type Id = usize;

/// The id of a node that accepts any value, in every graph.
pub(crate) const ANY_ID: Id = Id::MAX;

/// All schemas below one root.
#[derive(Debug)]
pub(crate) struct Graph {
    /// The nodes; an [`Id`] is a position in this list.
    nodes: Vec<Node>,
    /// The node of the root. It may be a reference.
    pub(crate) root: Id,
    /// Whether the schema has a Rust type: serde picks the first member of a union that fits, and
    /// drops unknown fields.
    pub(crate) typed: bool,
    /// The targets of references: the root as `#`, definitions as `#/$defs/name`.
    targets: HashMap<String, Id>,
}

/// A graph with the schemas that its nodes were made from.
pub(crate) struct Schemas<'s> {
    /// The graph of the normal form.
    pub(crate) graph: Graph,
    /// The schema of each node, by its id.
    sources: Vec<&'s Value>,
}

/// The notation of a schema in the normal form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Any value, or an object of any fields.
    Any,
    /// No value.
    Nothing,
    /// The target of a reference; never another reference.
    Reference(Id),
    /// A union, with its members in order.
    Union(Vec<Id>),
    /// A list of values.
    Values,
    /// An object with named fields.
    Struct,
    /// An object with any field names.
    Map,
    /// A list with a schema for each position.
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

    /// Returns the node of an id, with references resolved.
    pub(crate) fn node(&self, id: Id) -> &Node {
        self.nodes.get(self.target(id)).unwrap_or(&ANY)
    }

    /// Returns the shape of the schema of an id, without resolving references.
    pub(crate) fn shape(&self, id: Id) -> &Shape {
        self.nodes.get(id).map_or(&Shape::Any, |node| &node.shape)
    }

    /// Returns the target of a reference, or the id itself if it is not a reference.
    pub(crate) fn target(&self, id: Id) -> Id {
        match self.shape(id) {
            Shape::Reference(target) => *target,
            _ => id,
        }
    }

    /// Returns the node that a reference of the normal form leads to.
    pub(crate) fn named(&self, reference: &str) -> Option<Id> {
        self.targets.get(reference).copied()
    }

    /// Drops rules that only some readers check: formats of texts, widths of numbers.
    ///
    /// Comparing does so for inputs of a server, which may treat them as hints.
    pub(crate) fn drop_hints(&mut self) {
        for node in &mut self.nodes {
            node.text.format = None;
            let number = &mut node.number;
            (number.range, number.single, number.quick) = (None, false, None);
        }
    }

    /// Returns the only text that a field may contain, if there is only one: then it is a tag.
    pub(crate) fn tag_of(&self, field: &FieldRule) -> Option<&str> {
        let node = self.node(field.node);
        match node.values.as_deref()? {
            [Value::String(text)] if node.types == Types::TEXT => Some(text),
            _ => None,
        }
    }

    /// Returns the node of the root, to change it.
    pub(crate) fn root_mut(&mut self) -> Option<&mut Node> {
        let root = self.target(self.root);
        self.nodes.get_mut(root)
    }

    /// Returns the leaves of a union: its members that are not unions, including those of nested
    /// unions, each once. A schema that is not a union is its only leaf.
    ///
    /// ```text
    /// anyOf [A, anyOf [B, reference to anyOf [C, D]]] → A, B, C, D
    /// ```
    pub(crate) fn leaves(&self, id: Id) -> Vec<Id> {
        let mut leaves = Vec::new();
        let mut waiting = vec![id];
        // A circular reference has no further leaves.
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

    /// Whether a leaf satisfies `is` or accepts any value.
    pub(crate) fn may(&self, id: Id, is: impl Fn(&Node) -> bool) -> bool {
        let leaves = self.leaves(id).into_iter().map(|id| self.node(id));
        leaves.into_iter().any(|leaf| leaf.shape == Shape::Any || is(leaf))
    }

    /// Returns the nodes directly below one, references resolved: fields, items, members and rules.
    pub(crate) fn below(&self, id: Id) -> impl Iterator<Item = Id> {
        let node = self.node(id);
        let members = node.union.iter().flat_map(|union| &union.members).copied();
        node.fields().chain(node.parts()).chain(members).map(|id| self.target(id))
    }

    /// Returns the nodes directly below one as its schema is written: members of unions, items and
    /// rules, but not declared fields and targets of references.
    pub(crate) fn parts(&self, id: Id) -> impl Iterator<Item = Id> {
        let (members, node) = match self.shape(id) {
            Shape::Union(members) => (members.as_slice(), &ANY),
            Shape::Reference(_) => (&[][..], &ANY),
            _ => (&[][..], self.node(id)),
        };
        members.iter().copied().chain(node.parts())
    }

    /// Returns the nodes that contain themselves, each with the number of its circle.
    ///
    /// Dialects without recursion reject these. Unlike [`circle`](Self::circle), a step down into a
    /// field or an item counts too: a tree is recursive, and can be checked.
    pub(crate) fn recursive(&self) -> HashMap<Id, usize> {
        let edges = |id: Id| match self.shape(id) {
            Shape::Reference(target) => vec![*target],
            _ => self.parts(id).chain(self.node(id).fields()).collect(),
        };
        let edges: Vec<Vec<Id>> = (0..self.nodes.len()).map(edges).collect();
        let circles = circles(&edges).into_iter().enumerate();
        circles.flat_map(|(number, nodes)| nodes.into_iter().map(move |id| (id, number))).collect()
    }

    /// Returns the reference of the normal form that leads to a node.
    pub(crate) fn name(&self, id: Id) -> Option<&str> {
        self.targets.iter().find(|(_, target)| **target == id).map(|(name, _)| name.as_str())
    }

    /// Returns all nodes below one, each once. It includes the node only if it contains itself.
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

    /// Returns a reference that leads back to itself without a step down into the value, so that no
    /// value can be checked. Returns `$` if only the root does.
    ///
    /// ```text
    /// {"allOf": [{"$ref": "#"}]} or {"not": {"$ref": "#"}}
    /// ```
    pub(crate) fn circle(&self) -> Option<String> {
        let beside = |id: Id| {
            // Edges to a reference lead to its target.
            let node = if self.target(id) == id { self.node(id) } else { &ANY };
            let members = node.union.iter().flat_map(|union| &union.members);
            let parts = members.chain(&node.also).chain(&node.never);
            parts.map(|id| self.target(*id)).collect()
        };
        let edges: Vec<Vec<Id>> = (0..self.nodes.len()).map(beside).collect();
        let circle = circles(&edges).into_iter().next()?;
        let named = self.targets.iter().filter(|(name, id)| *name != "#" && circle.contains(id));
        Some(named.map(|(name, _)| name.as_str()).min().unwrap_or("$").to_owned())
    }
}

impl<'s> Schemas<'s> {
    /// Makes the graph of a schema in the normal form, and keeps the schema beside it.
    pub(crate) fn of(normal: &'s Value) -> Self {
        Builder::new(normal).finish()
    }

    /// Returns the schema that a node was made from.
    pub(crate) fn source(&self, id: Id) -> &'s Value {
        self.sources.get(id).copied().unwrap_or(&Value::Bool(true))
    }

    /// Returns the schemas that are unions, each with its members.
    pub(crate) fn unions(&self) -> impl Iterator<Item = (&'s Value, &[Id])> {
        self.sources.iter().enumerate().filter_map(|(id, source)| match self.graph.shape(id) {
            Shape::Union(members) => Some((*source, members.as_slice())),
            _ => None,
        })
    }

    /// Returns the keywords of a schema.
    pub(crate) fn words(&self, id: Id) -> &'s Keywords {
        static NONE: LazyLock<Keywords> = LazyLock::new(Keywords::new);
        self.source(id).as_object().unwrap_or(&NONE)
    }
}

/// The node that accepts any value.
static ANY: Node = Node::any();

/// The rules for one place of a value.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// The notation of the schema; the other fields are its rules.
    pub(crate) shape: Shape,
    /// The types of values that fit.
    pub(crate) types: Types,
    /// The values of `enum` and `const`, if there are any; `types` says whether null is among them.
    pub(crate) values: Option<Box<[Value]>>,
    /// The rule for numbers. This and the next three apply to values of their type only.
    pub(crate) number: NumberRule,
    /// The rule for texts.
    pub(crate) text: TextRule,
    /// The rule for lists.
    pub(crate) list: ListRule,
    /// The rule for objects.
    pub(crate) object: ObjectRule,
    /// The members, if there are any. The other fields then have no meaning.
    pub(crate) union: Option<Box<Union>>,
    /// Further schemas that a value must fit.
    pub(crate) also: Vec<Id>,
    /// Schemas that a value must not fit.
    pub(crate) never: Vec<Id>,
}

impl Node {
    /// The rules that every value fits.
    pub(crate) const fn any() -> Self {
        Self {
            shape: Shape::Any,
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

    /// The rules that no value fits.
    fn none() -> Self {
        Self { types: Types::NONE, ..Self::any() }
    }

    /// Whether there are no rules.
    pub(crate) fn is_any(&self) -> bool {
        self.types == Types::ALL
            && self.values.is_none()
            && self.union.is_none()
            && self.also.is_empty()
            && self.never.is_empty()
            && self.object.is_free()
            && self.list.items.is_none()
    }

    /// Returns the schemas of declared fields.
    fn fields(&self) -> impl Iterator<Item = Id> {
        self.object.fields.iter().map(|field| field.node)
    }

    /// Returns the schemas of items, undeclared fields and keys, and the rules for the whole value.
    fn parts(&self) -> impl Iterator<Item = Id> {
        let Self { object, list, also, never, .. } = self;
        let patterns = object.patterns.iter().map(|(_, id)| *id).chain(object.rest.id());
        let items = list.prefix.iter().copied().chain(list.items);
        let rules = also.iter().chain(never).copied().chain(list.contains.map(|(id, ..)| id));
        patterns.chain(items).chain(rules).chain(object.names)
    }

    /// Whether null fits.
    pub(crate) fn takes_null(&self) -> bool {
        self.types.has(Types::NULL)
    }

    /// Returns the listed values, including null.
    pub(crate) fn listed(&self) -> Vec<&Value> {
        let null = (self.values.is_some() && self.takes_null()).then_some(&Value::Null);
        self.values.iter().flatten().chain(null).collect()
    }
}

/// The bounds of a number. They are decimals, because `f64` does not distinguish large integers.
#[derive(Debug, Clone, Default)]
pub(crate) struct NumberRule {
    /// `minimum`.
    pub(crate) least: Option<Decimal>,
    /// `maximum`.
    pub(crate) greatest: Option<Decimal>,
    /// `exclusiveMinimum`.
    pub(crate) above: Option<Decimal>,
    /// `exclusiveMaximum`.
    pub(crate) below: Option<Decimal>,
    /// `multipleOf`.
    pub(crate) step: Option<Decimal>,
    /// The range of the Rust integer type.
    pub(crate) range: Option<(Decimal, Decimal)>,
    /// Whether the type is `f32`: a larger number would become infinite.
    pub(crate) single: bool,
    /// Whether the type is a float, which rounds.
    pub(crate) float: bool,
    /// Whether serde enforces this rule by itself.
    pub(crate) implied: bool,
    /// Numbers between these two certainly fit: most do, and need no further check.
    pub(crate) quick: Option<(f64, f64)>,
}

impl NumberRule {
    /// Computes the field `quick`; `None` if there is no such range.
    pub(crate) fn quick(&self) -> Option<(f64, f64)> {
        let (range_low, range_high) = self.range.clone().unzip();
        let largest = if self.single { f64::from(f32::MAX) } else { f64::MAX };
        let lows = [&self.least, &range_low, &self.above].into_iter().flatten();
        let highs = [&self.greatest, &range_high, &self.below].into_iter().flatten();
        let low = lows.map(Decimal::approximate).fold(-largest, f64::max);
        let high = highs.map(Decimal::approximate).fold(largest, f64::min);
        self.step.is_none().then_some((low, high))
    }

    /// Whether a number fits all bounds.
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

/// The rules for a text. Lengths are in characters.
#[derive(Debug, Clone)]
pub(crate) struct TextRule {
    /// The minimum length.
    pub(crate) shortest: usize,
    /// The maximum length.
    pub(crate) longest: usize,
    /// The compiled pattern; `None` also for one that the regex engine does not support.
    pub(crate) pattern: Option<Pattern>,
    /// The format; `None` also for one that reading does not check.
    pub(crate) format: Option<Format>,
}

impl TextRule {
    /// Whether there are no rules.
    pub(crate) fn is_free(&self) -> bool {
        self.shortest == 0
            && self.longest == usize::MAX
            && self.pattern.is_none()
            && self.format.is_none()
    }
}

/// The rules for a list: a tuple has a prefix.
#[derive(Debug, Clone)]
pub(crate) struct ListRule {
    /// The schemas of the first positions.
    pub(crate) prefix: Vec<Id>,
    /// The schema of all items after the prefix.
    pub(crate) items: Option<Id>,
    /// Whether there are no items after the prefix.
    pub(crate) closed: bool,
    pub(crate) shortest: usize,
    pub(crate) longest: usize,
    /// Whether no two items may be equal.
    pub(crate) unique: bool,
    /// The schema of some items, with their minimum and maximum number.
    pub(crate) contains: Option<(Id, usize, usize)>,
}

impl ListRule {
    /// Returns the schema of an item; `None` if there must not be an item at `index`.
    pub(crate) fn item(&self, index: usize) -> Option<Option<Id>> {
        match self.prefix.get(index) {
            Some(id) => Some(Some(*id)),
            None if self.closed => None,
            None => Some(self.items),
        }
    }
}

/// The rules for an object.
#[derive(Debug, Clone)]
pub(crate) struct ObjectRule {
    /// The declared and the required fields.
    pub(crate) fields: Vec<FieldRule>,
    /// The position of each field, for objects with many fields.
    pub(crate) index: Option<HashMap<Box<str>, usize>>,
    /// The rule for fields that no name and no pattern matches.
    pub(crate) rest: Rest,
    /// The schema of all keys.
    pub(crate) names: Option<Id>,
    /// The schemas of undeclared fields by patterns of their names; all matches apply.
    pub(crate) patterns: Vec<(Pattern, Id)>,
    /// The minimum number of fields.
    pub(crate) fewest: usize,
    /// The maximum number of fields.
    pub(crate) most: usize,
    /// Fields that require other fields.
    pub(crate) depends: Vec<(String, Vec<String>)>,
}

impl ObjectRule {
    /// Whether there are no rules.
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

    /// Returns the schema for the value of an undeclared key, if there is one.
    pub(crate) fn value_of(&self, name: &str) -> Option<Id> {
        let matching = self.patterns.iter().find(|(pattern, _)| pattern.is_match(name));
        match (matching, self.rest) {
            (Some((_, id)), _) => Some(*id),
            (None, Rest::Of(id)) => Some(id),
            (None, Rest::Open | Rest::Closed) => None,
        }
    }

    /// Whether its keys are data.
    pub(crate) fn is_map(&self) -> bool {
        self.fields.is_empty() && (!self.patterns.is_empty() || matches!(self.rest, Rest::Of(_)))
    }

    /// Returns the position of a field. The hint helps, because most texts keep the schema's order.
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

/// The rule for undeclared fields.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rest {
    /// No rule.
    Open,
    Closed,
    Of(Id),
}

impl Rest {
    /// Returns the schema of undeclared fields, if there is one.
    pub(crate) fn id(self) -> Option<Id> {
        match self {
            Self::Of(id) => Some(id),
            Self::Open | Self::Closed => None,
        }
    }
}

/// The rule for one named field.
#[derive(Debug, Clone)]
pub(crate) struct FieldRule {
    /// The name.
    pub(crate) name: Box<str>,
    /// The schema of its value.
    pub(crate) node: Id,
    /// Whether it has to be present.
    pub(crate) required: bool,
    /// Whether the field is declared; a field that is only required follows the rule of undeclared
    /// fields.
    pub(crate) described: bool,
}

/// The members of a union, flattened.
#[derive(Debug, Clone)]
pub(crate) struct Union {
    /// The leaves, except null.
    pub(crate) members: Vec<Id>,
    /// The field that has values of its own in each member that is an object.
    pub(crate) tag: Option<Box<str>>,
}
