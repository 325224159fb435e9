//! A schema as it is read against: flat, indexed, made once with the contract.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::reading::date::Format;
use crate::reading::number::Decimal;
use crate::reading::pattern::Pattern;
use crate::reading::probe;
use crate::schema::types::Types;

/// Where in a [`Form`] a node stands.
pub(super) type Id = usize;

/// All that a contract knows about one side of it, ready to read.
#[derive(Debug)]
pub(crate) struct Form {
    pub(super) nodes: Vec<Node>,
    pub(super) root: Id,
    /// A reference that leads back to itself without going down into the value: whether a
    /// value fits would depend on whether it fits.
    pub(super) circle: Option<String>,
    /// serde alone refuses whatever the schema refuses.
    pub(super) plain: bool,
    /// Made from a Rust type: serde picks the first member of a union that fits, and
    /// drops fields it does not know.
    pub(super) typed: bool,
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

/// Some texts are listed, and nobody has asked the type yet.
const NOT_ASKED: u8 = 0;
/// The type takes no text beside those that are listed.
const KNOWN: u8 = 1;
/// Some text is listed by the schema alone.
const FREE: u8 = 2;

impl Form {
    pub(super) fn new(nodes: Vec<Node>, root: Id, circle: Option<String>, typed: bool) -> Self {
        let texts = nodes.iter().any(|node| node.values.is_some());
        Self {
            nodes,
            root,
            circle,
            plain: false,
            typed,
            buffered: AtomicBool::new(false),
            repeats: 0,
            texts: AtomicU8::new(if texts { NOT_ASKED } else { KNOWN }),
        }
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
        let float = |node: &Node| node.kinds.has(Types::NUMBER) && !node.takes_null();
        self.nodes.iter().any(float)
    }

    /// Whether some place at or below a node lists its texts.
    pub(super) fn lists_below(&self, id: Id) -> bool {
        self.node(id).values.is_some() || self.any_below(id, |_, node| node.values.is_some())
    }

    /// Maximum number of members of a union without a tag that is below itself.
    pub(super) fn most_repeats(&self) -> usize {
        let members = |(id, node): (Id, &Node)| {
            let union = node.union.as_ref().filter(|union| union.tag.is_none())?;
            self.any_below(id, |below, _| below == id).then_some(union.members.len())
        };
        self.nodes.iter().enumerate().filter_map(members).max().unwrap_or_default()
    }

    /// Whether there is such a node below another one.
    fn any_below(&self, id: Id, is: impl Fn(Id, &Node) -> bool) -> bool {
        let mut seen = HashSet::new();
        let mut waiting = vec![id];
        while let Some(id) = waiting.pop() {
            let node = self.node(id);
            let rest = match node.object.rest {
                Rest::Of(id) => Some(id),
                Rest::Open | Rest::Closed => None,
            };
            let fields = node.object.fields.iter().map(|field| field.node);
            let patterns = node.object.patterns.iter().map(|(_, id)| *id).chain(rest);
            let items = node.list.prefix.iter().copied().chain(node.list.items);
            let members = node.union.iter().flat_map(|union| union.members.iter().copied());
            for below in fields.chain(patterns).chain(items).chain(members) {
                if is(below, self.node(below)) {
                    return true;
                }
                if seen.insert(below) {
                    waiting.push(below);
                }
            }
        }
        false
    }

    #[inline]
    pub(super) fn is_buffered(&self) -> bool {
        self.buffered.load(Ordering::Relaxed)
    }

    pub(super) fn node(&self, id: Id) -> &Node {
        self.nodes.get(id).unwrap_or(&ANY)
    }
}

/// What fits everywhere.
static ANY: Node = Node::any();

/// What one place of a value may hold.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) kinds: Types,
    /// The only values, of `enum` and `const`; null is said by `kinds`.
    pub(super) values: Option<Box<[Value]>>,
    pub(super) number: NumberRule,
    pub(super) text: TextRule,
    pub(super) list: ListRule,
    pub(super) object: ObjectRule,
    /// Everything else is of no meaning where there are members.
    pub(super) union: Option<Box<Union>>,
    /// What a value also has to fit.
    pub(super) also: Vec<Id>,
    /// What a value must not fit.
    pub(super) never: Vec<Id>,
}

impl Node {
    pub(super) const fn any() -> Self {
        Self {
            kinds: Types::ALL,
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

    pub(super) fn is_any(&self) -> bool {
        self.kinds == Types::ALL
            && self.values.is_none()
            && self.union.is_none()
            && self.also.is_empty()
            && self.never.is_empty()
            && self.object.is_free()
            && self.list.items.is_none()
    }

    /// Whether null is a value here.
    pub(super) fn takes_null(&self) -> bool {
        self.kinds.has(Types::NULL)
    }

    /// The one text that fits, if there is only one value and it is a text.
    pub(super) fn only_text(&self) -> Option<&str> {
        match self.values.as_deref()? {
            [Value::String(text)] if self.kinds == Types::TEXT => Some(text),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct NumberRule {
    pub(super) least: Option<Decimal>,
    pub(super) greatest: Option<Decimal>,
    pub(super) above: Option<Decimal>,
    pub(super) below: Option<Decimal>,
    pub(super) step: Option<Decimal>,
    /// The integers that the type behind it holds.
    pub(super) range: Option<(Decimal, Decimal)>,
    /// A number of 32 bits: a larger one would become infinite.
    pub(super) single: bool,
    /// A float is behind it, which rounds.
    pub(super) float: bool,
    /// serde refuses by itself whatever this refuses.
    pub(super) implied: bool,
    /// The integers that certainly fit: most do, and need no closer look.
    pub(super) quick: Option<(i64, i64)>,
    /// The same for numbers with a fraction: between these, and not equal to them.
    pub(super) quick_fraction: Option<(f64, f64)>,
}

impl NumberRule {
    pub(super) fn quick(&self) -> Option<(i64, i64)> {
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

    pub(super) fn quick_fraction(&self) -> Option<(f64, f64)> {
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
    pub(super) fn fits(&self, number: &Decimal, literal: &str) -> bool {
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

#[derive(Debug)]
pub(super) struct TextRule {
    pub(super) shortest: usize,
    pub(super) longest: usize,
    pub(super) pattern: Option<Pattern>,
    pub(super) format: Option<Format>,
}

impl TextRule {
    pub(super) fn is_free(&self) -> bool {
        self.shortest == 0
            && self.longest == usize::MAX
            && self.pattern.is_none()
            && self.format.is_none()
    }
}

#[derive(Debug)]
pub(super) struct ListRule {
    pub(super) prefix: Vec<Id>,
    pub(super) items: Option<Id>,
    /// Nothing after the prefix.
    pub(super) closed: bool,
    pub(super) shortest: usize,
    pub(super) longest: usize,
    pub(super) unique: bool,
    /// What some items have to be: which, at least and at most how many.
    pub(super) contains: Option<(Id, usize, usize)>,
}

impl ListRule {
    /// What an item has to be; `None` if nothing may stand there.
    pub(super) fn item(&self, index: usize) -> Option<Option<Id>> {
        match self.prefix.get(index) {
            Some(id) => Some(Some(*id)),
            None if self.closed => None,
            None => Some(self.items),
        }
    }
}

#[derive(Debug)]
pub(super) struct ObjectRule {
    pub(super) fields: Vec<Field>,
    /// Where each field is, for objects with many.
    pub(super) index: Option<HashMap<Box<str>, usize>>,
    pub(super) rest: Rest,
    /// What a key has to be.
    pub(super) names: Option<Id>,
    pub(super) patterns: Vec<(Pattern, Id)>,
    pub(super) fewest: usize,
    pub(super) most: usize,
    /// Which fields ask for which others.
    pub(super) depends: Vec<(String, Vec<String>)>,
}

impl ObjectRule {
    /// Anything may stand in it.
    pub(super) fn is_free(&self) -> bool {
        self.fields.is_empty()
            && matches!(self.rest, Rest::Open)
            && self.names.is_none()
            && self.patterns.is_empty()
            && self.fewest == 0
            && self.most == usize::MAX
            && self.depends.is_empty()
    }

    /// What the value of a key that is not declared has to be, where that is said.
    pub(super) fn value_of(&self, name: &str) -> Option<Id> {
        let matching = self.patterns.iter().find(|(pattern, _)| pattern.is_match(name));
        match (matching, self.rest) {
            (Some((_, id)), _) => Some(*id),
            (None, Rest::Of(id)) => Some(id),
            (None, Rest::Open | Rest::Closed) => None,
        }
    }

    /// Its keys are data.
    pub(super) fn is_map(&self) -> bool {
        self.fields.is_empty() && (!self.patterns.is_empty() || matches!(self.rest, Rest::Of(_)))
    }

    /// The field of a name; most texts have the fields in the order of the schema.
    #[inline]
    pub(super) fn field(&self, name: &str, hint: usize) -> Option<usize> {
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
pub(super) enum Rest {
    /// Nothing is said of it.
    Open,
    Closed,
    Of(Id),
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: Box<str>,
    pub(super) node: Id,
    pub(super) required: bool,
    /// The one text it may hold, if there is only one: a tag.
    pub(super) only: Option<Box<str>>,
}

#[derive(Debug)]
pub(super) struct Union {
    pub(super) members: Vec<Id>,
    /// Each member that is an object fixes this field to values of its own.
    pub(super) tag: Option<Box<str>>,
}
