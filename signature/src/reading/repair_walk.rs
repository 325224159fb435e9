//! The slow walk over a text and its graph.
//!
//! In: a token on a tape, a node, and the repairs that are allowed ([`Level`]). Out: the value as
//! JSON that serde can read, with its repairs; or its faults. Each part is checked, restored from
//! the shape of a dialect, coerced if it has only one possible meaning, and written:
//!
//! ```text
//! {"limit": "5", "tags": "new"}   →   {"limit":5,"tags":["new"]}
//!     $.limit: read the string "5" as the number 5
//!     $.tags: read a single value as a list of one
//! {"limit": "many"}               →   $.limit: expected an integer, got the string "many"
//! ```
//!
//! Begin with [`RepairWalk::value`]. Functions return whether the value fits and write to
//! [`RepairWalk::out`]; after a fault the output has no meaning, and the walk only continues to
//! find further faults. Members of unions are tried with [`RepairWalk::attempt`], which records no
//! faults, and the result is added with [`RepairWalk::take`].

use std::fmt;
use std::mem::{replace, take};
use std::ops::Range;

use crate::error::Fault;
use crate::limits::{REPAIR_STEPS, REPAIR_STEPS_EACH, REPAIRS, REPORTED, WALK_DEPTH};
use crate::reading::fault_words::{expected, expected_by, fault, got, shortened};
use crate::reading::fit_check::{
    FitCheck, Fits, INVOLVED, UNKEPT, anything, is_among, number, text,
};
use crate::reading::number::Decimal;
use crate::reading::policy::Repair;
use crate::reading::tape::{Tape, TokenKind, quoted};
use crate::schema::graph::{Graph, Id, Node};
use crate::schema::types::Types;
use crate::wire_shapes;

/// The repairs that are allowed for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// No repairs.
    Exact,
    /// The shapes that dialects ask for.
    Restore,
    /// Also values of another type with only one possible meaning.
    Coerce,
}

/// The path to a value, from the root.
#[derive(Clone, Copy)]
pub(super) enum Path<'p> {
    /// The path of the whole value: `$`, or `$.arguments` inside a wrapper.
    Root(&'p str),
    /// A parent and the name of a field.
    Field(&'p Path<'p>, &'p str),
    /// A parent and the index of an item.
    Item(&'p Path<'p>, usize),
}

/// Writes a path as faults have it: `$.rows[2].name`, `$["a.b"]`.
impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(root) => f.write_str(root),
            Self::Field(parent, name) => {
                let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
                if !name.is_empty() && name.chars().all(plain) {
                    return write!(f, "{parent}.{}", shortened(name));
                }
                write!(f, "{parent}[{:?}]", shortened(name))
            }
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// A value: its text, its token in the text, and its path from the root.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) tape: &'a Tape<'a>,
    pub(super) token: usize,
    pub(super) path: &'a Path<'a>,
}

impl<'a> At<'a> {
    pub(super) fn kind(self) -> TokenKind {
        self.tape.kind(self.token)
    }

    /// Returns another value of the same text.
    pub(super) fn to(self, token: usize, path: &'a Path<'a>) -> Self {
        Self { token, path, ..self }
    }
}

/// The state of a walk: its results and its output so far.
pub(super) struct RepairWalk<'f> {
    pub(super) graph: &'f Graph,
    /// Whether the value is a tool's arguments, and not an answer.
    pub(super) is_input: bool,
    /// The repairs that are allowed.
    pub(super) level: Level,
    /// Cached results for the whole text, and its address in memory: texts inside it are
    /// temporary, and must not be mistaken for each other.
    pub(super) exact: FitCheck<'f>,
    source: usize,
    /// The value as JSON; without meaning after a fault.
    pub(super) out: String,
    pub(super) faults: Vec<Fault>,
    /// Number of faults that are not listed.
    pub(super) more: usize,
    pub(super) repairs: Vec<Repair>,
    /// Number of repairs that are not listed.
    pub(super) more_repairs: usize,
    /// Number of undeclared fields that have a value.
    pub(super) unknown: usize,
    /// Their ranges in `out`. The type may have an alias for one of them, so serde gets them, but
    /// they are not sent to the model.
    pub(super) left_out: Vec<Range<usize>>,
    /// Whether the value is only tried, so that faults are not recorded.
    pub(super) trying: bool,
    /// Remaining steps: a union of unions could be tried too many times.
    pub(super) steps: usize,
    /// Number of values around the current one.
    pub(super) depth: usize,
}

impl<'f> RepairWalk<'f> {
    /// Makes the walk over the value of one text.
    pub(super) fn new(graph: &'f Graph, tape: &Tape<'_>, is_input: bool, level: Level) -> Self {
        Self {
            graph,
            is_input,
            level,
            exact: FitCheck::new(graph, tape),
            source: tape.source.as_ptr() as usize,
            out: String::with_capacity(tape.source.len()),
            faults: Vec::new(),
            more: 0,
            repairs: Vec::new(),
            more_repairs: 0,
            unknown: 0,
            left_out: Vec::new(),
            trying: false,
            steps: REPAIR_STEPS + REPAIR_STEPS_EACH * tape.len(),
            depth: 0,
        }
    }

    /// Reads a value as a node; returns whether it fits.
    ///
    /// A union that fits exactly is kept; any other is left to [`RepairWalk::union`].
    pub(super) fn value(&mut self, at: At<'_>, id: Id) -> bool {
        let graph = self.graph;
        let node = graph.node(id);
        let start = self.out.len();
        if self.steps == 0 || self.depth >= WALK_DEPTH {
            return self.fault(at, node, "it can be read in too many ways");
        }
        self.steps -= 1;
        self.depth += 1;
        let fits = match &node.union {
            // Checked first, because trying all members of nested unions would take exponential
            // time.
            Some(_) if self.is_exact(at, id) => self.keep(at),
            Some(union) => self.union(at, node, union),
            None => self.node(at, node),
        };
        self.depth -= 1;
        fits && self.beside(at, node, start)
    }

    /// Whether a value needs no repair.
    ///
    /// A text inside a text has a tape of its own, so its results are not cached with those of the
    /// whole text.
    pub(super) fn is_exact(&mut self, at: At<'_>, id: Id) -> bool {
        let fits = if at.tape.source.as_ptr() as usize == self.source {
            Some(self.exact.fits(at.tape, at.token, id))
        } else {
            self.exact.aside(at.tape, |exact| exact.fits(at.tape, at.token, id))
        };
        fits == Some(Fits::Yes)
    }

    /// Checks the further rules for a value: `allOf` and `not`.
    ///
    /// They are checked on the value that was written, because a repair may make it fit.
    fn beside(&mut self, at: At<'_>, node: &Node, start: usize) -> bool {
        let fits = self.fits_all(at, node, &node.also, start);
        if !fits || node.never.is_empty() {
            return fits;
        }
        let look = |exact: &mut FitCheck<'_>, tape: &Tape<'_>| {
            node.never.iter().any(|id| exact.fits(tape, 0, *id) != Fits::No)
        };
        match self.look_back(start, look) {
            None => self.fault(at, node, INVOLVED),
            Some(true) => self.fault(at, node, "it is just what is excluded"),
            Some(false) => true,
        }
    }

    /// Checks the value that was written since `start` against further schemas: those of `allOf`, or
    /// of the other patterns that a key matches.
    pub(super) fn fits_all(
        &mut self,
        at: At<'_>,
        node: &Node,
        others: &[Id],
        start: usize,
    ) -> bool {
        if others.is_empty() {
            return true;
        }
        let look = |exact: &mut FitCheck<'_>, tape: &Tape<'_>| {
            others.iter().copied().find(|id| exact.fits(tape, 0, *id) == Fits::No)
        };
        match self.look_back(start, look) {
            None => self.fault(at, node, INVOLVED),
            Some(Some(missed)) => self.fault(at, self.graph.node(missed), ""),
            Some(None) => true,
        }
    }

    /// Checks the value that was written since `start`; `None` if that exceeds the work limit.
    fn look_back<T>(
        &mut self,
        start: usize,
        look: impl FnOnce(&mut FitCheck<'f>, &Tape<'_>) -> T,
    ) -> Option<T> {
        let written = self.out.get(start..).unwrap_or_default();
        let tape = Tape::parse(written).ok()?;
        self.exact.aside(&tape, |exact| look(exact, &tape))
    }

    /// Reads a value of a node without a union.
    pub(super) fn node(&mut self, at: At<'_>, node: &Node) -> bool {
        if node.is_any() {
            return self.any(at, node);
        }
        match at.kind() {
            TokenKind::Null if node.takes_null() => self.keep(at),
            TokenKind::True | TokenKind::False if node.types.has(Types::BOOLEAN) => {
                self.listed(at, node)
            }
            TokenKind::Number if node.types.meets(Types::NUMBER) => {
                let literal = at.tape.raw(at.token);
                self.number(at, literal, node)
            }
            TokenKind::Text | TokenKind::Escaped if node.types.has(Types::TEXT) => {
                self.text(at, node)
            }
            TokenKind::List | TokenKind::Object if node.values.is_some() => self.listed(at, node),
            TokenKind::List if node.types.has(Types::LIST) => self.list(at, node),
            TokenKind::Object if node.types.has(Types::OBJECT) => self.object(at, node),
            _ => self.other_kind(at, node),
        }
    }

    /// Reads a value without a schema: unchanged, if no digit would be lost.
    ///
    /// Numbers beyond 64 bits are rejected: the caller would get a rounded one.
    fn any(&mut self, at: At<'_>, node: &Node) -> bool {
        if anything(at.tape, at.token) == Fits::No {
            return self.fault(at, node, "it holds a number with more than 64 bits");
        }
        self.keep(at)
    }

    /// Writes a value unchanged.
    pub(super) fn keep(&mut self, at: At<'_>) -> bool {
        self.out.push_str(at.tape.whole(at.token));
        true
    }

    /// Writes a value unchanged if it is one of the listed values.
    fn listed(&mut self, at: At<'_>, node: &Node) -> bool {
        match &node.values {
            Some(values) if !is_among(at.tape, at.token, values) => self.fault(at, node, ""),
            _ => self.keep(at),
        }
    }

    /// Writes a number, in the form that serde accepts for integers.
    ///
    /// ```text
    /// 5.0 for an integer   →  5
    /// 300 for a u8         →  fault, with the range of the type
    /// ```
    pub(super) fn number(&mut self, at: At<'_>, literal: &str, node: &Node) -> bool {
        let fits = number(literal, node.types, &node.number);
        let is_among = |values| Tape::parse(literal).is_ok_and(|tape| is_among(&tape, 0, values));
        let listed = node.values.as_deref().is_none_or(is_among);
        match fits {
            Fits::Yes if listed => self.out.push_str(literal),
            Fits::Nearly if listed => {
                let digits = Decimal::parse(literal).and_then(|number| number.integer());
                self.out.push_str(digits.as_deref().unwrap_or(literal));
            }
            _ if self.trying => return false,
            _ => {
                let expected = expected_by(self.graph, node, node.number.overflows(literal));
                // Otherwise the fault would say that a number is expected and found.
                let is_expected = match literal.contains(['.', 'e', 'E']) {
                    true => expected == "a number",
                    false => matches!(&*expected, "a number" | "an integer"),
                };
                let why = if is_expected { UNKEPT } else { "" };
                return self.push_fault(at.path, expected, got(at.tape, at.token), why);
            }
        }
        true
    }

    /// Reads a text that has to fit its rules.
    fn text(&mut self, at: At<'_>, node: &Node) -> bool {
        let found = at.tape.text(at.token);
        let fits = match &node.values {
            Some(values) => is_among(at.tape, at.token, values),
            None => text(&found, &node.text),
        };
        if fits {
            return self.keep(at);
        }
        if self.level == Level::Coerce && self.coerced_text(at, &found, node) {
            return true;
        }
        let why = node.text.format.and_then(|format| format.why_not(&found));
        self.fault(at, node, why.unwrap_or_default())
    }

    /// Reads a list.
    pub(super) fn list(&mut self, at: At<'_>, node: &Node) -> bool {
        let items: Vec<usize> = at.tape.items(at.token).collect();
        self.items(at, node, &items)
    }

    /// Reads the items of a list, or of a tuple that is an object of `item_0`, `item_1`, ….
    pub(super) fn items(&mut self, at: At<'_>, node: &Node, items: &[usize]) -> bool {
        let rule = &node.list;
        let (start, mut fits) = (self.out.len(), true);
        self.out.push('[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            let name = wire_shapes::item(index);
            let path = match at.kind() {
                TokenKind::Object => Path::Field(at.path, &name),
                _ => Path::Item(at.path, index),
            };
            let below = at.to(*item, &path);
            fits &= match rule.item(index) {
                Some(Some(id)) => self.value(below, id),
                Some(None) => self.any(below, &Node::any()),
                None => self.fault(below, node, "the list has to end before this"),
            };
            if !fits && self.trying {
                return false;
            }
        }
        self.out.push(']');
        if fits && !(rule.shortest..=rule.longest).contains(&items.len()) {
            return self.fault(at, node, "");
        }
        fits && self.among_items(at, node, start)
    }

    /// Checks the rules for a list as a whole.
    fn among_items(&mut self, at: At<'_>, node: &Node, start: usize) -> bool {
        if !node.list.unique && node.list.contains.is_none() {
            return true;
        }
        match self.look_back(start, |exact, tape| exact.list_as_a_whole(tape, 0, &node.list)) {
            Some(true) => true,
            None => self.fault(at, node, INVOLVED),
            Some(false) if node.list.unique => self.fault(at, node, "an item is there twice"),
            Some(false) => self.fault(at, node, ""),
        }
    }

    /// Records a fault; `why` adds a reason to the expected value and the one found.
    pub(super) fn fault(&mut self, at: At<'_>, node: &Node, why: &str) -> bool {
        if self.trying || self.is_full() {
            return false;
        }
        let expected = expected(self.graph, node);
        let got = got(at.tape, at.token);
        self.push_fault(at.path, expected, got, why)
    }

    /// Whether the list of faults is full; further faults are only counted.
    fn is_full(&mut self) -> bool {
        let full = self.faults.len() >= REPORTED;
        self.more += usize::from(full);
        full
    }

    /// Records a fault, unless the value is only tried; returns false.
    ///
    /// Only a limited number of faults is listed; further ones are counted.
    pub(super) fn push_fault(
        &mut self,
        path: &Path<'_>,
        expected: String,
        got: String,
        why: &str,
    ) -> bool {
        if self.trying || self.is_full() {
            return false;
        }
        // A value that was only tried did not report the reason.
        let why = if why.is_empty() && self.exact.is_involved() { INVOLVED } else { why };
        self.faults.push(fault(path.to_string(), expected, got, why));
        false
    }

    /// Records a repair.
    pub(super) fn repaired(&mut self, path: &Path<'_>, what: String) {
        if self.repairs.len() < REPAIRS {
            self.repairs.push(Repair { path: path.to_string(), what });
        } else {
            self.more_repairs += 1;
        }
    }

    /// Tries to read a value; returns the result without recording faults.
    ///
    /// The output and the repairs so far are put aside, so that a failed attempt leaves no trace.
    pub(super) fn attempt(&mut self, at: At<'_>, id: Id, level: Level) -> Option<Attempt> {
        let outer = (
            take(&mut self.out),
            take(&mut self.repairs),
            take(&mut self.left_out),
            take(&mut self.unknown),
            replace(&mut self.trying, true),
            replace(&mut self.level, level),
        );
        let fits = self.value(at, id);
        let attempt = Attempt {
            json: take(&mut self.out),
            repairs: take(&mut self.repairs),
            left_out: take(&mut self.left_out),
            unknown: self.unknown,
            level,
        };
        (self.out, self.repairs, self.left_out, self.unknown, self.trying, self.level) = outer;
        fits.then_some(attempt)
    }

    /// Adds the result of an attempt to the output.
    pub(super) fn take(&mut self, attempt: Attempt) -> bool {
        let start = self.out.len();
        let moved = |left_out: Range<usize>| left_out.start + start..left_out.end + start;
        self.left_out.extend(attempt.left_out.into_iter().map(moved));
        self.out.push_str(&attempt.json);
        self.repairs.extend(attempt.repairs);
        self.unknown += attempt.unknown;
        true
    }

    /// Returns the value without the fields left out; `None` if there are none.
    ///
    /// That is the JSON which the model gets back in place of its own.
    pub(super) fn without_left_out(&self) -> Option<String> {
        self.left_out.first()?;
        let mut json = String::with_capacity(self.out.len());
        let mut done = 0;
        for Range { start, end } in self.left_out.iter().cloned() {
            push_after(&mut json, self.out.get(done..start).unwrap_or_default());
            done = done.max(end);
        }
        push_after(&mut json, self.out.get(done..).unwrap_or_default());
        Some(json)
    }

    /// Writes a text.
    pub(super) fn write_text(&mut self, text: &str) -> bool {
        self.out.push_str(&quoted(text));
        true
    }
}

/// Appends the text after a field that was left out. The text begins with a comma, even if
/// that field was the first one.
fn push_after(json: &mut String, rest: &str) {
    let first = json.ends_with('{');
    json.push_str(if first { rest.strip_prefix(',').unwrap_or(rest) } else { rest });
}

/// The result of trying to read a value.
pub(super) struct Attempt {
    pub(super) json: String,
    pub(super) repairs: Vec<Repair>,
    /// Number of undeclared fields that have a value.
    pub(super) unknown: usize,
    /// Their ranges in `json`.
    left_out: Vec<Range<usize>>,
    /// The repairs that were allowed.
    pub(super) level: Level,
}
