//! The check whether a value fits a schema, without repairs or explanations.
//!
//! In: a token on a tape and a node of the graph. Out: [`Fits`], with three answers, because a value
//! may fit JSON Schema and still be read differently by serde:
//!
//! ```text
//! schema integer, maximum 9     5 → Yes     5.0 → Nearly     12 → No
//! union of integer and number   5 → Yes (an integer is meant, and serde tries it first)
//! union of number and integer   5 → Nearly (serde would take the number)
//! struct with the field `a`     {"a":1} → Yes     {"a":1,"b":2} → Nearly (`b` is listed)
//! ```
//!
//! Every text of a contract that is not plain is checked, so this is a hot path: it writes nothing,
//! and it caches results only where schemas or unions would multiply the work. Lowering and
//! comparing use it for example values and listed values.
//!
//! Begin with [`FitCheck::fits`]; [`number`] and [`text`] check scalars alone.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::limits::{CHECK_DEPTH, CHECK_MEMORY, CHECK_STEPS, CHECK_STEPS_EACH, TRIAL_STEPS};
use crate::reading::number::Decimal;
use crate::reading::tape::{Tape, TokenKind};
use crate::schema::graph::{Graph, Id, ListRule, Node, NumberRule, ObjectRule, Rest, TextRule};
use crate::schema::types::Types;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fits {
    No,
    /// Fits JSON Schema, but the type may read it differently: an integer written `5.0`, an
    /// undeclared field, a union that needs a further check.
    Nearly,
    Yes,
}

impl Fits {
    /// Returns the worse of two results; the second check runs only if the first fits.
    fn and(self, then: impl FnOnce() -> Self) -> Self {
        if self == Self::No { self } else { self.min(then()) }
    }

    /// Returns the result of a check with two answers.
    fn of(fits: bool) -> Self {
        if fits { Self::Yes } else { Self::No }
    }
}

/// The reason for a number that does not fit where any number fits.
pub(crate) const UNKEPT: &str =
    "it is too large, too close to zero, or an integer with more digits than are kept";

/// The reason for rejecting a value if the check exceeds its limits.
pub(super) const INVOLVED: &str = "the schema is too involved to hold a value to";

/// The check of texts against one graph.
pub(crate) struct FitCheck<'f> {
    graph: &'f Graph,
    /// Cached results, for checks that may be repeated often: members of unions inside unions, and
    /// all values once the work exceeds the usual amount.
    known: HashMap<(usize, usize, Id), Fits>,
    /// Number of unions around the current value.
    unions: usize,
    /// Number of nested checks.
    depth: usize,
    /// The remaining work: rules of nodes can refer to each other so often that a check would never
    /// end.
    left: usize,
    /// With less work left than this, all results are cached.
    usual: usize,
    /// The work limit was exceeded, so later results have no meaning.
    involved: bool,
}

impl<'f> FitCheck<'f> {
    /// Makes a check with the usual work limit of a text.
    pub(crate) fn new(graph: &'f Graph, tape: &Tape<'_>) -> Self {
        Self::within(graph, tape, CHECK_STEPS + CHECK_STEPS_EACH * size(tape))
    }

    /// Makes a check with a given work limit.
    pub(crate) fn within(graph: &'f Graph, tape: &Tape<'_>, left: usize) -> Self {
        let usual = left.saturating_sub(2_000 + 32 * size(tape));
        let known = HashMap::new();
        Self { graph, known, unions: 0, depth: 0, left, usual, involved: false }
    }

    /// Checks another text with the same work limit; `None` if it exceeds the limit.
    ///
    /// Values inside texts and values that were rewritten have tapes of their own.
    pub(super) fn aside<T>(
        &mut self,
        tape: &Tape<'_>,
        look: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        let mut other = Self::within(self.graph, tape, self.left);
        let found = look(&mut other);
        self.left = other.left;
        self.involved |= other.involved;
        (!other.involved).then_some(found)
    }

    /// Whether the work limit was exceeded and a value was assumed not to fit.
    pub(crate) fn is_involved(&self) -> bool {
        self.involved
    }

    /// Returns how a value fits. A value that exceeds the work limit does not fit. A caller that
    /// negates the result therefore has to ask [`is_involved`](Self::is_involved).
    pub(crate) fn fits(&mut self, tape: &Tape<'_>, token: usize, id: Id) -> Fits {
        self.spend(1);
        if self.involved || self.depth >= CHECK_DEPTH {
            self.involved = true;
            return Fits::No;
        }
        // Members of unions inside unions, and all values once the work is unusual, are checked
        // again and again.
        let container = matches!(tape.kind(token), TokenKind::List | TokenKind::Object);
        let is_cached = self.left < self.usual || self.unions > 1 && container;
        // The address of a tape's source distinguishes tapes.
        let key = (tape.source.as_ptr() as usize, token, id);
        if is_cached && let Some(known) = self.known.get(&key) {
            return *known;
        }
        self.depth += 1;
        let fits = self.found(tape, token, id);
        self.depth -= 1;
        if is_cached {
            if self.known.len() >= CHECK_MEMORY {
                self.known.clear();
            }
            self.known.insert(key, fits);
        }
        if self.involved { Fits::No } else { fits }
    }

    /// Counts work, and gives up at the limit.
    fn spend(&mut self, cost: usize) {
        self.left = self.left.saturating_sub(cost);
        self.involved |= self.left == 0;
    }

    /// Checks a value against a node, without the cache.
    fn found(&mut self, tape: &Tape<'_>, token: usize, id: Id) -> Fits {
        let graph = self.graph;
        let node = graph.node(id);
        let fits = match &node.union {
            Some(_) if tape.kind(token) == TokenKind::Null && node.takes_null() => {
                return Fits::Yes;
            }
            Some(union) => self.union(tape, token, &union.members),
            None => self.value(tape, token, node),
        };
        if node.also.is_empty() && node.never.is_empty() {
            return fits;
        }
        fits.and(|| {
            let mut is = |id: &Id| self.fits(tape, token, *id) != Fits::No;
            Fits::of(node.also.iter().all(&mut is) && !node.never.iter().any(is))
        })
    }

    /// Checks a value against a node, except for its union and the rules beside it.
    pub(super) fn value(&mut self, tape: &Tape<'_>, token: usize, node: &Node) -> Fits {
        let kind = tape.kind(token);
        let fits = match kind {
            TokenKind::Null => return Fits::of(node.types.has(Types::NULL)),
            TokenKind::True | TokenKind::False => Fits::of(node.types.has(Types::BOOLEAN)),
            TokenKind::Number if node.types.meets(Types::NUMBER) => {
                number(tape.raw(token), node.types, &node.number)
            }
            TokenKind::Text | TokenKind::Escaped if node.types.has(Types::TEXT) => {
                if !node.text.is_free() {
                    self.spend(tape.raw(token).len() / BYTES);
                }
                Fits::of(text(&tape.text(token), &node.text))
            }
            TokenKind::List if node.types.has(Types::LIST) => self.list(tape, token, &node.list),
            TokenKind::Object if node.types.has(Types::OBJECT) => {
                self.object(tape, token, &node.object)
            }
            _ => Fits::No,
        };
        match &node.values {
            Some(values) => fits.and(|| {
                self.spend(tape.whole(token).len() / BYTES);
                Fits::of(is_among(tape, token, values))
            }),
            None => fits,
        }
    }

    /// Checks the items of a list, and then the list as a whole.
    fn list(&mut self, tape: &Tape<'_>, token: usize, rule: &ListRule) -> Fits {
        let (mut fits, mut count) = (Fits::Yes, 0);
        for item in tape.items(token) {
            fits = match rule.item(count) {
                Some(Some(id)) => fits.and(|| self.fits(tape, item, id)),
                Some(None) => fits.and(|| self.anything(tape, item)),
                None => Fits::No,
            };
            if fits == Fits::No {
                return fits;
            }
            count += 1;
        }
        let size = (rule.shortest..=rule.longest).contains(&count);
        fits.and(|| Fits::of(size && self.list_as_a_whole(tape, token, rule)))
    }

    /// Checks the rules of a list beyond its items.
    ///
    /// These are `uniqueItems` and `contains`, with their counts.
    pub(super) fn list_as_a_whole(
        &mut self,
        tape: &Tape<'_>,
        list: usize,
        rule: &ListRule,
    ) -> bool {
        if rule.unique {
            self.spend(tape.whole(list).len() / BYTES);
            if !all_differ(tape, list) {
                return false;
            }
        }
        rule.contains.is_none_or(|(id, fewest, most)| {
            let items = tape.items(list).filter(|item| self.fits(tape, *item, id) != Fits::No);
            (fewest..=most).contains(&items.count())
        })
    }

    /// Checks the fields of an object. Fields in the order of the schema are found without a
    /// search.
    fn object(&mut self, tape: &Tape<'_>, token: usize, rule: &ObjectRule) -> Fits {
        let mut fits = Fits::Yes;
        let (mut count, mut hint, mut required) = (0, 0, 0);
        for (key, value) in tape.entries(token) {
            count += 1;
            self.spend(1);
            let name = tape.text(key);
            if let Some(index) = rule.field(&name, hint)
                && let Some(field) = rule.fields.get(index)
            {
                hint = index + 1;
                required += usize::from(field.required);
                fits = fits.and(|| self.fits(tape, value, field.node));
            } else {
                fits = fits.and(|| self.undeclared(tape, key, &name, value, rule));
            }
            if fits == Fits::No {
                return fits;
            }
        }
        let all = rule.fields.iter().filter(|field| field.required).count();
        // Keys are unique, so the number of required keys shows whether all are present.
        let complete = required == all && (rule.fewest..=rule.most).contains(&count);
        fits.and(|| Fits::of(complete && (rule.depends.is_empty() || depends(tape, token, rule))))
    }

    /// Checks an entry without a declared field against the rules for keys and for other values.
    fn undeclared(
        &mut self,
        tape: &Tape<'_>,
        key: usize,
        name: &str,
        value: usize,
        rule: &ObjectRule,
    ) -> Fits {
        if let Some(names) = rule.names
            && self.fits(tape, key, names) == Fits::No
        {
            return Fits::No;
        }
        let mut fits = Fits::Yes;
        let mut matched = false;
        for (pattern, id) in &rule.patterns {
            if pattern.is_match(name) {
                matched = true;
                fits = fits.and(|| self.fits(tape, value, *id));
            }
        }
        if matched {
            return fits;
        }
        match rule.rest {
            Rest::Of(id) => self.fits(tape, value, id),
            Rest::Closed => Fits::No,
            // A type without fields ignores all fields.
            Rest::Open if rule.fields.is_empty() && !self.graph.typed => self.anything(tape, value),
            // It is not declared, so it is listed.
            Rest::Open => Fits::Nearly,
        }
    }

    /// Checks the members of a union. Several may fit; then serde has to take the intended one,
    /// which is the most specific.
    ///
    /// `Nearly` sends the value to the repair walk, which can say why several members are possible.
    fn union(&mut self, tape: &Tape<'_>, token: usize, members: &[Id]) -> Fits {
        let graph = self.graph;
        let (mut found, mut exact) = (0, 0);
        // The first member that fits at all, and the first that fits exactly.
        let (mut first, mut winner): (Option<Id>, Option<Id>) = (None, None);
        let mut fits = Fits::No;
        self.unions += 1;
        for id in members {
            let member = self.fits(tape, token, *id);
            if member == Fits::No || member == Fits::Nearly && tape.kind(token) == TokenKind::Number
            {
                fits = fits.max(member);
                continue;
            }
            found += 1;
            first = first.or(Some(*id));
            fits = member;
            if member == Fits::Yes {
                let own = specificity(graph.node(*id), tape, token);
                let best = winner.map(|best| specificity(graph.node(best), tape, token));
                if best.is_none_or(|best| own > best) {
                    (exact, winner) = (1, Some(*id));
                } else if best == Some(own) {
                    exact += 1;
                }
            }
        }
        self.unions -= 1;
        if tape.kind(token) == TokenKind::Number
            && let Some(winner) = winner.or(first)
            && is_rounded(graph, members, graph.node(winner), tape.raw(token))
        {
            return Fits::No;
        }
        match found {
            0 | 1 => fits,
            // Without a type, the value is its text, whichever member fits.
            _ if !self.graph.typed && winner.is_some() => Fits::Yes,
            // serde takes the first, so it has to be the intended one.
            _ if exact == 1 && winner == first => Fits::Yes,
            // Two members fit and have to be distinguished.
            _ => Fits::Nearly,
        }
    }

    /// Checks a value without a schema.
    fn anything(&mut self, tape: &Tape<'_>, token: usize) -> Fits {
        self.spend(tape.next(token) - token);
        anything(tape, token)
    }
}

/// Number of bytes of a text that count as one step.
const BYTES: usize = 16;

/// Returns the work of one check of a text.
fn size(tape: &Tape<'_>) -> usize {
    tape.len() + tape.source.len() / BYTES
}

/// Rates how specific a scalar's match is: of two members, the more restrictive one is meant.
///
/// ```text
/// "low" in an enum    4      5 for an integer   1
/// "low" as any text   0      5 for a float      0
/// ```
pub(super) fn specificity(node: &Node, tape: &Tape<'_>, token: usize) -> u8 {
    let listed = if node.values.is_some() { 4 } else { 0 };
    match tape.kind(token) {
        TokenKind::Number => {
            let integer = !tape.raw(token).contains(['.', 'e', 'E']);
            listed + u8::from(integer != node.types.has(Types::NUMBER))
        }
        TokenKind::Text | TokenKind::Escaped => {
            let formal = node.text.format.is_some() || node.text.pattern.is_some();
            listed + if formal { 1 } else { 0 }
        }
        _ => listed,
    }
}

/// Checks a value without a schema. A number that no common type can represent would be rounded
/// silently.
pub(super) fn anything(tape: &Tape<'_>, token: usize) -> Fits {
    let range = token..tape.next(token);
    let mut numbers = range.filter(|token| tape.kind(*token) == TokenKind::Number);
    Fits::of(numbers.all(|token| is_common(tape.raw(token))))
}

/// Whether a number fits into one of `i64`, `u64` and `f64`.
pub(super) fn is_common(literal: &str) -> bool {
    let integer = !literal.contains(['.', 'e', 'E']);
    if integer {
        return literal.len() < 19
            || literal.parse::<i64>().is_ok()
            || literal.parse::<u64>().is_ok();
    }
    literal.parse::<f64>().is_ok_and(f64::is_finite) && !vanishes(literal)
}

/// Whether a number is so near to zero that it becomes zero.
fn vanishes(literal: &str) -> bool {
    let mantissa = literal.split(['e', 'E']).next().unwrap_or_default();
    literal.parse() == Ok(0.0) && mantissa.contains(|c| matches!(c, '1'..='9'))
}

/// Whether a 64-bit float represents an integer exactly.
pub(super) fn is_whole_float(literal: &str) -> bool {
    let digits = literal.parse::<f64>().map(|number| format!("{number:.0}"));
    digits.is_ok_and(|digits| Decimal::parse(&digits) == Decimal::parse(literal))
}

/// Whether a float would round an integer although another member of the union accepts
/// integers.
///
/// 9007199254740993 fits a float in JSON Schema, but the float is 9007199254740992.
pub(super) fn is_rounded(graph: &Graph, members: &[Id], winner: &Node, literal: &str) -> bool {
    let whole = |id: &Id| {
        let kinds = graph.node(*id).types;
        kinds.has(Types::INTEGER) && !kinds.has(Types::NUMBER)
    };
    winner.types.has(Types::NUMBER)
        && !literal.contains(['.', 'e', 'E'])
        && !is_whole_float(literal)
        && members.iter().any(whole)
}

/// Checks a number against a node that accepts numbers.
///
/// ```text
/// 5       integer   →  Yes
/// 5.0     integer   →  Nearly: serde wants `5`
/// 0.1     decimal   →  Yes: a float gives the same digits back
/// 1e-999  number    →  No: it would become zero
/// ```
pub(crate) fn number(literal: &str, kinds: Types, rule: &NumberRule) -> Fits {
    let integer = !literal.contains(['.', 'e', 'E']);
    let any_number = kinds.has(Types::NUMBER);
    // The schema of a decimal accepts numbers and texts: the number is read as a float.
    let is_decimal = any_number && kinds.has(Types::TEXT) && !rule.float;
    // A float represents every integer of 15 digits.
    let is_exact = match integer {
        true => literal.len() < 16 && literal != "-0",
        false => any_number && !is_decimal,
    };
    if is_exact
        && let Some((low, high)) = rule.quick
        && literal.parse::<f64>().is_ok_and(|n| low < n && n < high && (integer || n != 0.0))
    {
        return Fits::Yes;
    }
    let Some(decimal) = Decimal::parse(literal) else {
        return Fits::No;
    };
    // A value without a schema is kept in 64 bits.
    if kinds == Types::ALL && !is_common(literal) {
        return Fits::No;
    }
    if !(any_number || decimal.is_integral()) || !rule.fits(&decimal, literal) || vanishes(literal)
    {
        return Fits::No;
    }
    // A decimal gets an integer of 64 bits as it is, and every other number as a float.
    if is_decimal && !(integer && is_common(literal)) && !survives(literal, &decimal) {
        return Fits::No;
    }
    // The type may not be a float, so every digit may matter.
    if any_number && !rule.float && integer && !is_common(literal) && !is_whole_float(literal) {
        return Fits::No;
    }
    // Without a type for larger integers, an integer has 64 bits.
    if !any_number && rule.range.is_none() && !decimal.integer().is_some_and(|n| is_common(&n)) {
        return Fits::No;
    }
    if any_number || integer && literal != "-0" { Fits::Yes } else { Fits::Nearly }
}

/// Whether a float represents a number exactly.
fn survives(literal: &str, decimal: &Decimal) -> bool {
    let float = literal.parse::<f64>().ok().filter(|float| float.is_finite());
    float.and_then(|float| Decimal::parse(&float.to_string())).is_some_and(|read| read == *decimal)
}

/// Whether a text fits its rules; lengths are in characters.
pub(crate) fn text(text: &str, rule: &TextRule) -> bool {
    if rule.is_free() {
        return true;
    }
    let bounded = rule.shortest > 0 || rule.longest < usize::MAX;
    let long_enough = !bounded || (rule.shortest..=rule.longest).contains(&text.chars().count());
    long_enough
        && rule.pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
        && rule.format.is_none_or(|format| format.fits(text))
}

/// Whether a value is in a list of values.
///
/// Numbers are equal whatever their notation: `1.0` is among `[1]`.
pub(super) fn is_among(tape: &Tape<'_>, token: usize, values: &[Value]) -> bool {
    match tape.kind(token) {
        TokenKind::Text | TokenKind::Escaped => {
            let text = tape.text(token);
            values.iter().any(|value| value.as_str() == Some(&*text))
        }
        TokenKind::Number => {
            // Equal decimals are equal floats, which are compared much faster.
            let (number, float) = (Decimal::parse(tape.raw(token)), tape.raw(token).parse().ok());
            let near = values.iter().filter(|value| value.is_number() && value.as_f64() == float);
            near.into_iter().any(|value| Decimal::parse(&value.to_string()) == number)
        }
        _ => {
            let found = form(tape, token);
            values.iter().any(|value| canonical(value) == found)
        }
    }
}

/// Whether all items of a list are different.
fn all_differ(tape: &Tape<'_>, list: usize) -> bool {
    let mut seen = HashSet::new();
    tape.items(list).all(|item| seen.insert(form(tape, item)))
}

/// Returns the [`canonical`] text of a value.
fn form(tape: &Tape<'_>, token: usize) -> String {
    match tape.kind(token) {
        TokenKind::Number => format!("{:?}", Decimal::parse(tape.raw(token))),
        _ => serde_json::from_str(tape.whole(token))
            .map(|value| canonical(&value))
            .unwrap_or_default(),
    }
}

/// Returns the same text for equal values, regardless of their notation.
///
/// ```text
/// {"b": 1.0, "a": 2} and {"a": 2, "b": 1}   →   the same text
/// ```
pub(crate) fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> =
                map.iter().map(|(key, value)| (key, canonical(value))).collect();
            entries.sort_unstable();
            format!("object {entries:?}")
        }
        Value::Array(items) => {
            format!("list {:?}", items.iter().map(canonical).collect::<Vec<_>>())
        }
        Value::Number(number) => format!("{:?}", Decimal::parse(&number.to_string())),
        other => other.to_string(),
    }
}

impl Graph {
    /// Whether a small value fits, by the rules of JSON Schema.
    ///
    /// It is for names and listed values: the number of steps is small.
    pub(crate) fn takes(&self, id: Id, value: &Value) -> bool {
        let text = value.to_string();
        let fits = |tape| FitCheck::within(self, &tape, TRIAL_STEPS).fits(&tape, 0, id);
        Tape::parse(&text).is_ok_and(|tape| fits(tape) != Fits::No)
    }
}

impl ObjectRule {
    /// Returns a field that is present and another that it asks for and that is absent.
    pub(super) fn missed(&self, given: impl Fn(&str) -> bool) -> Option<(&str, &str)> {
        self.depends.iter().filter(|(name, _)| given(name)).find_map(|(name, others)| {
            let other = others.iter().find(|other| !given(other))?;
            Some((name.as_str(), other.as_str()))
        })
    }
}

/// Whether every field that a present one asks for is present too.
fn depends(tape: &Tape<'_>, object: usize, rule: &ObjectRule) -> bool {
    let keys: HashSet<_> = tape.entries(object).map(|(key, _)| tape.text(key)).collect();
    rule.missed(|name| keys.contains(name)).is_none()
}
