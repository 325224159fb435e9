//! Whether one schema accepts every value that another schema allows.
//!
//! Begin with [`Sides::differences`]. It gets the two schemas of one side of a call, and returns
//! one [`Difference`] for each rule that could reject a sent value:
//!
//! ```text
//! sent:     {"limit": {"type": "integer", "maximum": 255}}
//! accepted: {"limit": {"type": "integer", "maximum": 100}}
//! → $.limit: may be as high as 255, takes at most 100
//! ```
//!
//! Both schemas are converted to the normal form, which has one notation for each rule. Both graphs
//! are then walked together, and each pair of nodes is compared once ([`Comparing::fit`]). Schemas
//! may contain themselves: a pair that is met again below itself counts as fitting, until another
//! rule shows that it does not.
//!
//! | file | compares |
//! |---|---|
//! | `numbers` | bounds and steps |
//! | `texts` | patterns and formats, and all counts |
//! | `lists` | positions and items |
//! | `objects` | declared and undeclared fields |
//! | `unions` | members, and listed values one by one |
//! | `untyped` | schemas without a type, before they get one |
//! | `descriptions` | nothing: it writes both schemas in words for the report |
//!
//! `sent` and `comes` mean the schema of the sender, `accepted` and `takes` that of the receiver.
//! The submodules and this file use each other: each submodule adds methods to [`Comparing`] for
//! one kind of value, and the values below are compared by the common walk again.

mod descriptions;
mod lists;
mod numbers;
mod objects;
mod texts;
mod unions;
mod untyped;

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde_json::{Value, json};

pub(crate) use self::objects::ABSENT;
pub(crate) use self::untyped::retyped;
use crate::error::{Checked, Refusal, Side, cut, shortened_path, shown};
use crate::limits::{ANALYSIS_STEPS, REPORTED, WALK_DEPTH};
use crate::schema::graph::{Id, Schemas, Shape};
use crate::schema::keywords::{
    DEFINITIONS, Keywords, Role, below_mut, entries, is_annotation, keyword as known, text,
};
use crate::schema::types::Types;
use crate::schema::{is_object, normal, reference_to};
use crate::wire_shapes::RESULT;

/// One difference that keeps a contract from replacing another.
///
/// [`Contract::differences`](crate::Contract::differences) finds them. `{}` is one line for a
/// person: `input $.limit: ours: may be missing; theirs: is required`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The side of the contracts.
    pub side: Side,
    /// The path in the value, from `$`: `$.filters.year`, `$.tags[]` for each item of a list,
    /// `$.counts.*` for each value of a map.
    pub path: String,
    /// The rule of the contract on which `differences` was called.
    pub ours: String,
    /// The rule of the other contract.
    pub theirs: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { side, path, ours, theirs } = self;
        write!(f, "{side} {path}: ours: {ours}; theirs: {theirs}")
    }
}

/// The two schemas of one side of a call: the sender's (`comes`) and the receiver's (`takes`).
///
/// Of the input we are the sender, and the other contract's implementation is the receiver. Of the
/// output it is the other way round.
pub(crate) struct Sides<'a> {
    /// The side of the contracts: it decides which of the two schemas is ours.
    pub(crate) side: Side,
    /// The schema of the values that are sent.
    pub(crate) comes: &'a Value,
    /// The schema of the receiver.
    pub(crate) takes: &'a Value,
    /// Whether the receiver of an input reads it as we do, and so enforces formats and widths.
    pub(crate) reads_as_we_do: bool,
}

impl Sides<'_> {
    /// Returns the differences between the sent values and the accepted ones.
    pub(crate) fn differences(&self) -> Vec<Difference> {
        if self.comes == self.takes {
            return Vec::new();
        }
        let lost = |refusal: &Refusal| {
            let words = format!("is not a schema that can be compared: {}", refusal.advice);
            (words, "cannot be compared with it".to_owned())
        };
        let (comes, takes) = match (rules_of(self.comes), rules_of(self.takes)) {
            (Ok(comes), Ok(takes)) => (comes, takes),
            (Err(refusal), _) => {
                let (comes, takes) = lost(&refusal);
                return vec![difference(self.side, refusal.path, comes, takes)];
            }
            (_, Err(refusal)) => {
                let (takes, comes) = lost(&refusal);
                return vec![difference(self.side, refusal.path, comes, takes)];
            }
        };
        let (comes, mut takes) = (Schemas::of(&comes), Schemas::of(&takes));
        if self.side == Side::Input && !self.reads_as_we_do {
            // Reading enforces our formats and widths. Other implementations may treat them as
            // hints.
            takes.graph.drop_hints();
        }
        let (ours, theirs) = (comes.graph.root, takes.graph.root);
        let mut comparing = Comparing {
            side: self.side,
            comes: &comes,
            takes: &takes,
            path: "$".to_owned(),
            found: Vec::new(),
            trying: false,
            some: false,
            same: same_targets(comes.source(ours), takes.source(theirs)),
            in_part: false,
            excludes_more: untyped::excludes_more(self.takes),
            known: HashMap::new(),
            held: Vec::new(),
            level: 0,
            left: ANALYSIS_STEPS,
            depth: 0,
        };
        // If a protocol requires an object, an output of another type is wrapped in a field.
        let wrapped = self.side == Side::Output && !is_object(self.takes);
        let fits = match unwrapped(&comes).filter(|_| wrapped) {
            Some((inner, always)) => comparing.below_field(RESULT, |comparing| {
                if !always {
                    comparing.differ(|_| ("may be missing", "is required"));
                }
                comparing.fit(inner, Types::ALL, theirs)
            }),
            None => comparing.fit(ours, Types::ALL, theirs),
        };
        let Comparing { mut found, left, .. } = comparing;
        if found.is_empty() && [self.comes, self.takes].into_iter().any(untyped::closes_parts) {
            let words = |schema: &Value| match untyped::closes_parts(schema) {
                true => untyped::CLOSES_PARTS.to_owned(),
                false => "has other rules".to_owned(),
            };
            let (comes, takes) = (words(self.comes), words(self.takes));
            found.push(difference(self.side, "$".to_owned(), comes, takes));
        }
        // Never empty unless it was shown that all values fit.
        if left == 0 || !fits && found.is_empty() {
            let words = ["could not be compared in full", "is too large to be compared in full"];
            let [ours, theirs] = words.map(str::to_owned);
            found.push(difference(self.side, "$".to_owned(), ours, theirs));
        }
        found
    }
}

/// Returns the schema of the only field of an object, if it is that of a wrapped value, and
/// whether the field is required.
fn unwrapped(schemas: &Schemas<'_>) -> Option<(Id, bool)> {
    let root = schemas.graph.node(schemas.graph.root);
    let field = root.object.described_field(RESULT).filter(|_| root.types == Types::OBJECT)?;
    (root.object.described().count() == 1).then_some((field.node, field.required))
}

/// Inputs are sent by us; outputs are sent by them.
///
/// Both messages are shortened, and so is the path.
fn difference(side: Side, path: String, comes: String, takes: String) -> Difference {
    /// Maximum number of characters of one half: unions of unions make long ones.
    const LONGEST: usize = 300;
    let [comes, takes] = [comes, takes].map(|words| cut(&words, LONGEST).into_owned());
    let (ours, theirs) = match side {
        Side::Input => (comes, takes),
        Side::Output => (takes, comes),
    };
    Difference { side, path: shortened_path(path), ours, theirs }
}

/// Two nodes, and the types of values that the first one may allow: the sent node, these types, and
/// the accepted node. A union is compared type by type, so the types belong to the pair. The last
/// one is whether the accepted node is a part of `allOf`, or below one.
type Pair = (Id, Types, Id, bool);

/// The state of a pair.
#[derive(Clone, Copy)]
enum Known {
    /// It is being compared, since this level.
    Open(usize),
    /// It fits, if all pairs above it that are still being compared fit.
    Fits,
    /// It does not fit, and nothing that is shown later changes that.
    Differs,
}

/// The state of one comparison.
struct Comparing<'a> {
    side: Side,
    /// The schemas of the sent values.
    comes: &'a Schemas<'a>,
    /// The schemas of the receiver.
    takes: &'a Schemas<'a>,
    /// The path of the current value, from `$`.
    path: String,
    /// The differences so far, each once.
    found: Vec<Difference>,
    /// Whether only the result is needed, without the differences.
    trying: bool,
    /// Whether the sent value is one of several alternatives.
    some: bool,
    /// The references whose targets are the same on both sides.
    same: HashSet<String>,
    /// Whether the receiver's schema is a part of `allOf`. Reading does not leave out nulls for it.
    in_part: bool,
    /// Whether a `oneOf` of the receiver may exclude more than its normal form does.
    excludes_more: bool,
    /// The results of pairs that were compared before, or are being compared.
    known: HashMap<Pair, Known>,
    /// The pairs that are assumed to fit, in the order they were met.
    held: Vec<Pair>,
    /// Number of fields and items above.
    level: usize,
    left: usize,
    depth: usize,
}

impl<'a> Comparing<'a> {
    /// Whether `takes` accepts all values of the types `kinds` that `comes` allows.
    ///
    /// A pair that is still being compared counts as fitting if the walk went a step down into the
    /// value since then: the values of a recursive type are finite, so each level is compared with
    /// the same rules.
    fn fit(&mut self, comes: Id, kinds: Types, takes: Id) -> bool {
        if takes_all(self.takes, takes) {
            return true;
        }
        if !self.spend(1) || self.is_over() {
            return false;
        }
        let pair = (comes, kinds, takes, self.in_part);
        match self.known.get(&pair) {
            // A union that is a member of itself: without a step down, nothing is shown.
            Some(Known::Open(level)) if *level == self.level => {
                return self.differ(|_| ("cannot be compared", "leads back to itself"));
            }
            Some(Known::Open(_) | Known::Fits) => return true,
            // To report the differences, compare again.
            Some(Known::Differs) if self.trying => return false,
            _ => {}
        }
        if self.depth >= WALK_DEPTH {
            return self
                .differ(|_| ("nests too deeply to be compared", "cannot be compared with it"));
        }
        let mark = self.held.len();
        self.known.insert(pair, Known::Open(self.level));
        self.held.push(pair);
        self.depth += 1;
        let fits = self.look(comes, kinds, takes);
        self.depth -= 1;
        if fits {
            self.known.insert(pair, Known::Fits);
        } else {
            for rested_on_it in self.held.drain(mark..) {
                self.known.remove(&rested_on_it);
            }
            self.known.insert(pair, Known::Differs);
        }
        fits
    }

    /// Compares a pair that is not known yet. References and unions of the sender come first, then
    /// listed values, then unions of the receiver. What is left on both sides is a node with rules
    /// for values of its types.
    fn look(&mut self, comes: Id, kinds: Types, takes: Id) -> bool {
        let (from, to) = (&self.comes.graph, &self.takes.graph);
        let (ours, theirs) = (from.node(comes), to.node(takes));
        match from.shape(comes) {
            Shape::Reference(target) => return self.fit(*target, kinds, takes),
            Shape::Nothing => return true,
            _ => {}
        }
        if let Shape::Reference(target) = to.shape(takes) {
            return self.fit(comes, kinds, *target);
        }
        if let Shape::Union(members) = &ours.shape {
            let (one, other) = (self.comes.source(comes), self.takes.source(takes));
            // Members that are compared one by one may overlap.
            if self.is_one_of(takes) && !self.excludes_more && alike(one, other, &self.same) {
                return !self.leaves_out(comes, takes)
                    || self.differ(|_| ("may have a null that is left out", ONE_OF));
            }
            return self.each_member(members, kinds, takes);
        }
        let own = kinds.common(ours.types);
        if own == Types::NONE {
            return true;
        }
        let values = match ours.shape {
            Shape::Values => Some(self.listed(comes)),
            _ => all_of(own).filter(|_| matches!(theirs.shape, Shape::Values | Shape::Union(_))),
        };
        match (&theirs.shape, values) {
            (Shape::Nothing, _) => {
                self.differ(|all| (all.may_be(comes, own, kinds), "takes nothing"))
            }
            (_, Some(values)) => self.values(values, own, takes),
            (Shape::Union(members), None) if self.may_exclude(members, own, takes) => {
                self.differ(|_| ("may fit several alternatives", ONE_OF))
            }
            (Shape::Union(members), None) => self.some_member(comes, own, kinds, members, takes),
            _ => self.plain(comes, own, kinds, takes),
        }
    }

    /// Returns the listed values of the sender that fit the further rules beside them.
    fn listed(&self, comes: Id) -> Vec<&'a Value> {
        let graph = &self.comes.graph;
        let ours = graph.node(comes);
        let fits = |value: &Value| {
            ours.also.iter().all(|part| graph.takes(*part, value) || unions::is_large(value))
        };
        ours.listed().into_iter().filter(|value| fits(value)).collect()
    }

    /// Compares nodes that are not unions or references, where `comes` is not a list of values.
    ///
    /// Types that only the sender has are reported first. Then the rules for each common type are
    /// compared.
    fn plain(&mut self, comes: Id, own: Types, kinds: Types, takes: Id) -> bool {
        let (ours, theirs) = (self.comes.graph.node(comes), self.takes.graph.node(takes));
        let over = own.without(theirs.types);
        if theirs.shape == Shape::Values {
            return self.differ(|all| (all.may_be(comes, own, kinds), all.takes(takes)));
        }
        let mut fits = true;
        if over != Types::NONE {
            // A number that may have a fraction is a number, whatever other types are allowed.
            let over = if over.meets(Types::NUMBER) { over.with(Types::NUMBER) } else { over };
            let over = over.common(own);
            fits = self.differ(|all| {
                let words = match over == own || own == Types::ALL {
                    true => all.may_be(comes, own, kinds),
                    false => all.may_be(comes, over, Types::NONE),
                };
                (words, all.takes(takes))
            });
            if self.trying || own == Types::ALL {
                return false;
            }
        }
        let own = own.without(over.common(Types::NUMBER)).common(theirs.types);
        let integer = !own.has(Types::NUMBER);
        let mut look = |is: Types, look: &dyn Fn(&mut Self) -> bool| {
            if own.meets(is) && (fits || !self.trying) {
                fits &= look(self);
            }
        };
        look(Types::NUMBER, &|all| all.numbers(&ours.number, &theirs.number, integer));
        look(Types::TEXT, &|all| all.texts(comes, takes));
        look(Types::LIST, &|all| all.lists(&ours.list, &theirs.list));
        look(Types::OBJECT, &|all| all.objects(comes, takes));
        look(Types::ALL, &|all| all.rules(comes, own, takes));
        fits
    }

    /// Compares the rules that can only be compared for equality.
    ///
    /// These are `not`, `if`, `contains` and the like, and the members of `allOf`. A member of
    /// `allOf` that the sender does not repeat may still follow from its other rules.
    fn rules(&mut self, comes: Id, own: Types, takes: Id) -> bool {
        let (from, to) = (self.comes, self.takes);
        let (ours, theirs) = (from.words(comes), to.words(takes));
        let parts = &from.graph.node(comes).also;
        if to.graph.node(takes).also.is_empty()
            && !theirs.keys().any(|keyword| is_rule(keyword, own))
        {
            return true;
        }
        // Equal rules may judge the value differently once a null is left out.
        let same = !self.leaves_out(comes, takes);
        let mut fits = true;
        let outer = std::mem::replace(&mut self.in_part, true);
        for part in &to.graph.node(takes).also {
            if !self.spend(parts.len()) {
                fits = false;
                break;
            }
            let is_part = |own: &Id| alike(from.source(*own), to.source(*part), &self.same);
            if !(same && parts.iter().any(is_part)) {
                fits &= self.fit(comes, own, *part);
            }
        }
        self.in_part = outer;
        let known = &self.same;
        let equal = |keyword: &str| match (ours.get(keyword), theirs.get(keyword)) {
            (Some(ours), Some(theirs)) => alike(ours, theirs, known),
            (ours, theirs) => ours.is_none() && theirs.is_none(),
        };
        let alike = |keyword: &str| match keyword {
            _ if !same => false,
            "contains" | "minContains" | "maxContains" => contains_as_many(ours, theirs, known),
            // It is about the items that no other keyword is about.
            "unevaluatedItems" => {
                let others = ["prefixItems", "items", "contains", "allOf", "if", "then", "else"];
                equal(keyword) && others.into_iter().all(equal)
            }
            _ => equal(keyword),
        };
        let apart = theirs
            .keys()
            .filter(|keyword| *keyword != "allOf" && is_rule(keyword, own) && !alike(keyword));
        let apart: Vec<_> = apart.map(|keyword| format!("`{keyword}`")).collect();
        if !apart.is_empty() {
            fits = self.differ(|_| {
                let words = format!("has {}, which cannot be compared", apart.join(", "));
                ("may break a rule", words)
            });
        }
        fits
    }

    /// Compares the nodes below, with one more step on the path.
    ///
    /// `step` is `.name` for a field and `[]` for an item.
    fn below(&mut self, step: &str, look: impl FnOnce(&mut Self) -> bool) -> bool {
        let length = self.path.len();
        let some = std::mem::replace(&mut self.some, false);
        if !self.trying {
            self.path.push_str(step);
        }
        self.level += 1;
        let fits = look(self);
        self.level -= 1;
        self.path.truncate(length);
        self.some = some;
        fits
    }

    /// Compares a field of an object, whose name may be of any length.
    fn below_field(&mut self, name: &str, look: impl FnOnce(&mut Self) -> bool) -> bool {
        let step = if self.trying { String::new() } else { format!(".{}", shown(name)) };
        self.below(&step, look)
    }

    /// Returns whether the schemas fit, without reporting differences.
    fn tries(&mut self, comes: Id, kinds: Types, takes: Id) -> bool {
        let before = std::mem::replace(&mut self.trying, true);
        let fits = self.fit(comes, kinds, takes);
        self.trying = before;
        fits
    }

    /// Reports a difference: the sender's rule and the receiver's.
    fn differ<C: Into<String>, T: Into<String>>(
        &mut self,
        words: impl FnOnce(&Self) -> (C, T),
    ) -> bool {
        if !self.trying && !self.is_over() {
            let (comes, takes) = words(self);
            let told = difference(self.side, self.path.clone(), comes.into(), takes.into());
            if !self.found.contains(&told) {
                self.found.push(told);
            }
        }
        false
    }

    /// Whether the work or the list of differences has reached its limit.
    fn is_over(&self) -> bool {
        self.left == 0 || self.found.len() >= REPORTED
    }

    /// Counts work; returns false if none is left, and the comparison then reports that it gave up.
    fn spend(&mut self, steps: usize) -> bool {
        self.left = self.left.saturating_sub(steps);
        self.left > 0
    }
}

/// The words about a `oneOf` of the receiver.
const ONE_OF: &str = "takes a value that fits exactly one of its alternatives";

/// Whether the schema has no rule that a value could break.
fn takes_all(schemas: &Schemas<'_>, id: Id) -> bool {
    matches!(schemas.source(id), Value::Bool(true)) || *schemas.source(id) == json!({})
}

/// Whether a keyword is a rule about values of some types: such rules are compared for equality.
/// `contentSchema` is ignored, because nothing decodes texts.
fn is_rule(keyword: &str, types: Types) -> bool {
    let rule = known(keyword).filter(|known| known.role == Role::Rule);
    keyword != "contentSchema" && rule.is_some_and(|rule| types.meets(rule.of))
}

/// Whether a list with the first rules contains as many items of a kind as the second rules ask for.
/// Without `contains`, its counts have no meaning.
fn contains_as_many(comes: &Keywords, takes: &Keywords, same: &HashSet<String>) -> bool {
    let Some(kind) = takes.get("contains") else {
        return true;
    };
    let count = |map: &Keywords, keyword: &str| map.get(keyword).and_then(Value::as_f64);
    let least = |map| count(map, "minContains").unwrap_or(1.0);
    let most = |map| count(map, "maxContains").unwrap_or(f64::INFINITY);
    comes.get("contains").is_some_and(|own| alike(own, kind, same))
        && least(comes) >= least(takes)
        && most(comes) <= most(takes)
}

/// Returns all values of types that have only a few.
fn all_of(kinds: Types) -> Option<Vec<&'static Value>> {
    static NULL: Value = Value::Null;
    static TRUTHS: [Value; 2] = [Value::Bool(false), Value::Bool(true)];
    let few = Types::NULL.with(Types::BOOLEAN).has(kinds);
    let null = kinds.has(Types::NULL).then_some(&NULL);
    let truths = TRUTHS.iter().filter(|_| kinds.has(Types::BOOLEAN));
    few.then(|| truths.chain(null).collect())
}

/// Whether two schemas have the same rules, and each reference the same target on both sides.
fn alike(one: &Value, other: &Value, same: &HashSet<String>) -> bool {
    let rules = |schema: &Value| {
        let mut rules = schema.clone();
        rules.as_object_mut().map(|map| map.shift_remove(DEFINITIONS));
        rules
    };
    let mut used = HashSet::new();
    references(one, &mut used);
    used.into_iter().all(|name| same.contains(name)) && rules(one) == rules(other)
}

/// Returns the normal form of a schema without its descriptions and defaults.
fn rules_of(schema: &Value) -> Checked<Value> {
    let mut rules = normal(schema)?;
    drop_words(&mut rules);
    Ok(rules)
}

/// Removes the annotations of a schema, and of all schemas below it.
fn drop_words(schema: &mut Value) {
    if let Some(map) = schema.as_object_mut() {
        map.retain(|keyword, _| !is_annotation(keyword));
        below_mut(map).into_iter().for_each(drop_words);
    }
}

/// Whether two schemas have the same rules, and differ in words only. It is not certain for schemas
/// that have no normal form.
pub(crate) fn same_rules(one: &Value, other: &Value) -> bool {
    let (Ok(one), Ok(other)) = (rules_of(one), rules_of(other)) else {
        return false;
    };
    same_targets(&one, &other).contains("#")
}

/// Returns the references that have the same target in both schemas, and below it too.
fn same_targets(one: &Value, other: &Value) -> HashSet<String> {
    let targets = |schema: &Value| -> HashMap<String, Value> {
        let all = schema.as_object().into_iter().flat_map(|map| entries(map, DEFINITIONS));
        let all = all.map(|(name, schema)| (reference_to(name), schema.clone()));
        all.chain([("#".to_owned(), schema.clone())]).collect()
    };
    let (one, other) = (targets(one), targets(other));
    let mut same: HashSet<String> =
        one.keys().filter(|name| other.contains_key(*name)).cloned().collect();
    let mut users: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut waiting: Vec<&str> = Vec::new();
    for (name, schema) in &one {
        let mut used = HashSet::new();
        references(schema, &mut used);
        for used in used {
            users.entry(used).or_default().push(name);
        }
        let others = other.get(name).is_some_and(|other| alike(schema, other, &same));
        if !others {
            waiting.push(name);
        }
    }
    while let Some(name) = waiting.pop() {
        if same.remove(name) {
            waiting.extend(users.get(name).into_iter().flatten());
        }
    }
    same
}

/// Collects the references in a schema or in the value of a keyword, without those of definitions.
fn references<'s>(value: &'s Value, all: &mut HashSet<&'s str>) {
    match value {
        Value::Object(map) => {
            all.extend(text(map, "$ref"));
            let parts = map.iter().filter(|(keyword, _)| *keyword != DEFINITIONS);
            parts.for_each(|(_, part)| references(part, all));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, all)),
        _ => {}
    }
}
