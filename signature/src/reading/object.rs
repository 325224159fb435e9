//! Repairing objects: structs with declared fields, and maps whose keys are data.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::limits::{GUESS_DEPTH, NEAR_NAMES};
use crate::reading::coerce::{folded, is_nothing};
use crate::reading::fault_words::{counted, excerpt, expected, is_near, shortened};
use crate::reading::fit_check::{FitCheck, Fits};
use crate::reading::policy::NULL_FOR_DEFAULT;
use crate::reading::repair_walk::{At, Level, Path, RepairWalk};
use crate::reading::tape::{Tape, TokenKind};
use crate::schema::graph::{FieldRule, Graph, Node, ObjectRule, Rest};
use crate::schema::types::Types;
use crate::wire_shapes::FURTHER;

/// The field in which many systems name the type of an object; it is never a value.
pub(super) const TAG: &str = "_type";

/// Fields in which models and servers put arguments.
pub(super) const WRAPPERS: [&str; 8] =
    ["input", "arguments", "args", "parameters", "params", "kwargs", "tool_input", "action_input"];

/// Further fields in which models put arguments, with less certainty.
const AROUND: [&str; 7] = ["properties", "request", "result", "data", "body", "payload", "fields"];

/// The repair for an undeclared field.
pub(super) const UNASKED: &str = "left out a field that is not asked for";

const NOT_ASKED_FOR: &str = "which is not asked for";

/// The declared fields of an object's keys.
struct Plan<'t> {
    entries: Vec<Entry<'t>>,
    /// For each declared field, whether it is present.
    given: Vec<bool>,
}

struct Entry<'t> {
    key: usize,
    value: usize,
    name: Cow<'t, str>,
    field: Option<usize>,
}

/// Whether a value can be left out without loss.
pub(super) fn is_void(tape: &Tape<'_>, value: usize) -> bool {
    match tape.kind(value) {
        TokenKind::Null => true,
        TokenKind::List | TokenKind::Object => tape.next(value) == value + 1,
        _ => false,
    }
}

impl RepairWalk<'_> {
    pub(super) fn object(&mut self, at: At<'_>, node: &Node, level: Level) -> bool {
        let rule = &node.object;
        let mut plan = Plan::new(at.tape, at.token, rule);
        let mut seen = HashSet::new();
        let mut fits = self.near_names(at, rule, &mut plan, level);
        fits &= self.no_slips(at, rule, &plan);
        fits &= self.says_something(at, rule, &plan);
        fits &= self.holds_nothing_deeper(at, rule, &plan);
        fits &= self.agrees_with_tags(at, rule, &plan);
        self.out.push('{');
        // The fields that stay; a value that means an absent field is left out.
        let mut names: Vec<&str> = Vec::new();
        let counted = rule.fewest > 0 || rule.most < usize::MAX || !rule.depends.is_empty();
        for entry in &plan.entries {
            let path = Path::Field(at.path, &entry.name);
            let below = at.to(entry.value, &path);
            let start = self.out.len();
            fits &= match entry.field.and_then(|index| rule.fields.get(index)) {
                Some(field) => self.field(below, entry.key, field, level),
                None => self.undeclared(below, entry.key, node, level, &mut seen),
            };
            if !fits && self.trying {
                return false;
            }
            if counted && self.out.len() > start {
                let declared = entry.field.and_then(|index| rule.fields.get(index));
                names.push(declared.map_or(&entry.name, |field| &field.name));
            }
        }
        fits &= self.missing(at, rule, &plan, level);
        self.out.push('}');
        fits && self.count_fits(at, node, names.len()) && self.depends(at, node, &names)
    }

    /// Reads a declared field; a value that means an absent field is left out.
    fn field(&mut self, at: At<'_>, key: usize, field: &FieldRule, level: Level) -> bool {
        let node = self.graph.node(field.node);
        if !field.required && self.is_absent(at, node, level) {
            return true;
        }
        self.separate();
        if at.tape.text(key) == *field.name {
            self.out.push_str(at.tape.whole(key));
        } else {
            self.write_text(&field.name);
        }
        self.out.push(':');
        self.value(at, field.node, level)
    }

    /// Whether a value means an absent field. Strict dialects ask for every field, so null means an
    /// absent field unless the field is nullable. Models also write an empty text for it.
    fn is_absent(&mut self, at: At<'_>, node: &Node, level: Level) -> bool {
        if node.takes_null() || level < Level::Restore {
            return false;
        }
        if at.kind() == TokenKind::Null {
            self.repaired(at.path, NULL_FOR_DEFAULT.to_owned());
            return true;
        }
        if level < Level::Coerce || !at.tape.is_text(at.token) {
            return false;
        }
        let text = at.tape.text(at.token);
        let empty = is_nothing(&text) && !text.trim().eq_ignore_ascii_case("none");
        if !empty || self.takes(at, node) {
            return false;
        }
        self.repaired(at.path, format!("read {} as left out", excerpt(&text)));
        true
    }

    fn takes(&self, at: At<'_>, node: &Node) -> bool {
        let texts = |node: &Node| node.types.has(Types::TEXT);
        texts(node)
            && FitCheck::new(self.graph, at.tape).fits_node(at.tape, at.token, node) != Fits::No
    }

    fn undeclared(
        &mut self,
        at: At<'_>,
        key: usize,
        node: &Node,
        level: Level,
        seen: &mut HashSet<String>,
    ) -> bool {
        let rule = &node.object;
        let name = at.tape.text(key);
        if self.graph.typed && rule.is_free() {
            // A struct without fields ignores all fields.
            let tag = name == TAG && at.tape.is_text(at.token);
            return if tag { self.leave_out(at, key) } else { self.unasked(at, key) };
        }
        if !rule.fields.is_empty() {
            if name == TAG && at.tape.is_text(at.token) && !matches!(rule.rest, Rest::Of(_)) {
                if self.graph.typed {
                    self.repaired(at.path, UNASKED.to_owned());
                }
                // If any field is allowed, it may be an entry of a map: the type decides.
                return matches!(rule.rest, Rest::Closed) || self.leave_out(at, key);
            }
            if level >= Level::Restore
                && name == FURTHER
                && self.has_pairs(rule)
                && let Some(fits) = self.further(at, node, level, seen)
            {
                return fits;
            }
            if matches!(rule.rest, Rest::Open) && rule.patterns.is_empty() {
                return self.unasked(at, key);
            }
        }
        self.separate();
        self.entry(at, key, node, level, seen)
    }

    /// Whether lowering puts further fields into a list, which is not a field itself.
    fn has_pairs(&self, rule: &ObjectRule) -> bool {
        let rest = match rule.rest {
            Rest::Of(id) => Some(id),
            Rest::Closed if !rule.patterns.is_empty() => None,
            Rest::Closed | Rest::Open => return false,
        };
        let mut values = rule.patterns.iter().map(|(_, id)| *id).chain(rest);
        !values.any(|id| self.graph.node(id).types.has(Types::LIST))
    }

    /// Reads an undeclared field: it is kept unchanged, and listed.
    fn unasked(&mut self, at: At<'_>, key: usize) -> bool {
        self.unknown += 1;
        if self.graph.typed {
            self.repaired(at.path, UNASKED.to_owned());
        }
        self.leave_out(at, key)
    }

    /// Writes a field for the type only, not for the model.
    fn leave_out(&mut self, at: At<'_>, key: usize) -> bool {
        let start = self.out.len();
        let fits = self.pass_on(at, key);
        if self.graph.typed {
            self.left_out.push(start..self.out.len());
        }
        fits
    }

    fn pass_on(&mut self, at: At<'_>, key: usize) -> bool {
        self.separate();
        self.out.push_str(at.tape.whole(key));
        self.out.push(':');
        self.keep(at)
    }

    /// Reads an entry whose key is data.
    pub(super) fn entry(
        &mut self,
        at: At<'_>,
        key: usize,
        node: &Node,
        level: Level,
        seen: &mut HashSet<String>,
    ) -> bool {
        let rule = &node.object;
        let Some(name) = self.key(at, key, rule, level) else {
            return false;
        };
        if !seen.insert(name.clone()) || rule.field(&name, 0).is_some() {
            let got = format!("the key {}", excerpt(&name));
            return self.push_fault(at.path, "each key once".to_owned(), got, "it is there twice");
        }
        self.write_text(&name);
        self.out.push(':');
        let matching = rule.patterns.iter().find(|(pattern, _)| pattern.is_match(&name));
        match (matching.map(|(_, id)| *id), rule.rest) {
            (Some(id), _) | (None, Rest::Of(id)) => self.value(at, id, level),
            (None, Rest::Open) => self.value(at, usize::MAX, level),
            (None, Rest::Closed) => self.refused_key(at, &name, rule),
        }
    }

    /// Returns the key of an entry in the schema's notation.
    fn key(&mut self, at: At<'_>, key: usize, rule: &ObjectRule, level: Level) -> Option<String> {
        let Some(names) = rule.names else {
            return Some(at.tape.text(key).into_owned());
        };
        let key_at = at.to(key, at.path);
        let Some(found) = self.attempt(key_at, names, level) else {
            let expected =
                format!("a key that is {}", expected(self.graph, self.graph.node(names)));
            let got = excerpt(&at.tape.text(key));
            self.push_fault(at.path, expected, got, "");
            return None;
        };
        let Ok(tape) = Tape::parse(&found.json) else {
            return None;
        };
        self.repairs.extend(found.repairs);
        Some(tape.text(0).into_owned())
    }

    fn refused_key(&mut self, at: At<'_>, name: &str, rule: &ObjectRule) -> bool {
        let known: Vec<_> =
            rule.fields.iter().take(12).map(|field| format!("`{}`", field.name)).collect();
        let patterns: Vec<_> = rule
            .patterns
            .iter()
            .map(|(pattern, _)| format!("keys that match {}", shortened(&pattern.text)))
            .collect();
        let all = [known, patterns].concat();
        let expected = if all.is_empty() {
            "no fields".to_owned()
        } else {
            format!("only {}", all.join(", "))
        };
        let got = format!("the field `{}`", shortened(name));
        self.push_fault(at.path, expected, got, "")
    }

    /// Rejects undeclared fields whose names are close to that of an absent field: leaving one out
    /// would lose its value.
    fn no_slips(&mut self, at: At<'_>, rule: &ObjectRule, plan: &Plan<'_>) -> bool {
        // A name that is much longer than every declared one is not a typo.
        let longest = rule.fields.iter().map(|field| field.name.len()).max().unwrap_or_default();
        let unknown = plan.unknown(at, rule).filter(|entry| entry.name.len() <= 2 * longest + 8);
        let unknown: Vec<&Entry<'_>> = unknown.take(NEAR_NAMES).collect();
        if unknown.is_empty() {
            return true;
        }
        let mut fits = true;
        // A required field that is absent is a fault by itself, which names the typo.
        for (index, field) in rule.fields.iter().enumerate().filter(|(_, field)| !field.required) {
            if plan.says(self.graph, rule, at, index) {
                continue;
            }
            for entry in &unknown {
                let (asked, said) = (folded(&field.name), folded(&entry.name));
                let same = asked == said;
                // A name that differs only by case and separators was handled before; of several
                // such names, it is unclear which one is meant.
                let rivals = || unknown.iter().filter(|other| folded(&other.name) == said).count();
                let near = is_near(&field.name, &entry.name) || is_near(&asked, &said);
                if same && rivals() > 1 || !same && near {
                    let path = Path::Field(at.path, &entry.name);
                    let expected = format!("`{}`", field.name);
                    let got = format!("`{}`", shortened(&entry.name));
                    fits =
                        self.push_fault(&path, expected, got, "write the name as it is asked for");
                }
            }
        }
        fits
    }

    /// Whether a non-empty object has any declared field. An object without one is wrapped, or
    /// meant for something else, and all its values would be ignored.
    fn says_something(&mut self, at: At<'_>, rule: &ObjectRule, plan: &Plan<'_>) -> bool {
        // A tag names the type of the object, but has no data.
        let mut own =
            rule.fields.iter().enumerate().filter(|(_, field)| field.only.is_none()).peekable();
        if own.peek().is_none()
            || own.any(|(index, field)| field.required || plan.says(self.graph, rule, at, index))
        {
            return true;
        }
        // Without a type, the caller gets all fields.
        let tagged = rule.fields.iter().any(|field| field.only.is_some());
        let lost = |entry: &&Entry<'_>| {
            self.graph.typed && !tagged || holds_a_field(at.tape, entry.value, rule, GUESS_DEPTH)
        };
        let Some(entry) = plan.unknown(at, rule).find(lost) else {
            return true;
        };
        let known: Vec<_> =
            rule.fields.iter().take(12).map(|field| format!("`{}`", field.name)).collect();
        let expected = format!("some of {}, or an empty object", known.join(", "));
        let got = format!("only `{}`, {NOT_ASKED_FOR}", shortened(&entry.name));
        self.push_fault(at.path, expected, got, "")
    }

    /// Whether no absent field is inside an undeclared field of the object, as in
    /// `{"dry_run": true, "arguments": {"prefix": "tmp"}}`.
    fn holds_nothing_deeper(&mut self, at: At<'_>, rule: &ObjectRule, plan: &Plan<'_>) -> bool {
        if !self.graph.typed {
            return true;
        }
        let around = |name: &str| WRAPPERS.contains(&name) || AROUND.contains(&name);
        let absent = |name: &str| {
            let name = folded(name);
            let field = rule.fields.iter().position(|field| folded(&field.name) == name);
            field.is_some_and(|index| !plan.says(self.graph, rule, at, index))
        };
        let inside = |entry: &&Entry<'_>| {
            let holds = |tape: &Tape<'_>, object| {
                tape.entries(object).any(|(key, _)| absent(&tape.text(key)))
            };
            match at.tape.kind(entry.value) {
                TokenKind::Object => holds(at.tape, entry.value),
                TokenKind::Text | TokenKind::Escaped => {
                    let text = at.tape.text(entry.value);
                    let tape = Tape::parse(&text).ok();
                    tape.is_some_and(|tape| tape.kind(0) == TokenKind::Object && holds(&tape, 0))
                }
                _ => false,
            }
        };
        let found = plan.unknown(at, rule).filter(|entry| around(&entry.name)).find(inside);
        let Some(entry) = found else {
            return true;
        };
        let path = Path::Field(at.path, &entry.name);
        let expected = "all fields side by side".to_owned();
        let got = format!("some of them inside `{}`", entry.name);
        self.push_fault(&path, expected, got, "")
    }

    /// Reports required fields that are absent.
    fn missing(&mut self, at: At<'_>, rule: &ObjectRule, plan: &Plan<'_>, level: Level) -> bool {
        let mut fits = true;
        // A tag alone does not show that a member of a union is meant.
        let telling = rule
            .fields
            .iter()
            .enumerate()
            .any(|(index, field)| field.only.is_none() && plan.says(self.graph, rule, at, index))
            // An undeclared field may be the tag under another name.
            && plan.entries.iter().all(|entry| entry.field.is_some());
        for (field, given) in rule.fields.iter().zip(&plan.given) {
            if *given || !field.required {
                continue;
            }
            let path = Path::Field(at.path, &field.name);
            if level == Level::Coerce
                && telling
                && let Some(only) = &field.only
            {
                self.separate();
                self.write_text(&field.name);
                self.out.push(':');
                self.write_text(only);
                self.repaired(&path, format!("put in {}, the only value", excerpt(only)));
                continue;
            }
            if self.trying {
                return false;
            }
            let expected = expected(self.graph, self.graph.node(field.node));
            let unknown = plan.entries.iter().filter(|entry| entry.field.is_none());
            let near = unknown.take(64).find(|entry| is_near(&field.name, &entry.name));
            let why = near.map(|entry| format!("there is `{}`", shortened(&entry.name)));
            let why = why.unwrap_or_default();
            fits = self.push_fault(&path, expected, "nothing".to_owned(), &why);
        }
        fits
    }

    /// Whether undeclared fields of an object agree with the tags of its fields that are unions:
    /// models write a tag one level too high.
    fn agrees_with_tags(&mut self, at: At<'_>, rule: &ObjectRule, plan: &Plan<'_>) -> bool {
        if !self.graph.typed || plan.entries.iter().all(|entry| entry.field.is_some()) {
            return true;
        }
        let graph = self.graph;
        let mut fits = true;
        for entry in &plan.entries {
            let field = entry.field.and_then(|index| rule.fields.get(index));
            if let Some(field) = field
                && let Some(union) = &graph.node(field.node).union
                && at.tape.kind(entry.value) == TokenKind::Object
            {
                let path = Path::Field(at.path, &entry.name);
                let below = at.to(entry.value, &path);
                let tag = union.tag.as_deref().unwrap_or(TAG);
                let above = plan.entries.iter().filter(|other| {
                    other.field.is_none()
                        && (other.name == TAG || other.name == tag)
                        && at.tape.is_text(other.value)
                });
                for other in above {
                    let said = at.tape.text(other.value);
                    if self.contradicts(&said, below, union) {
                        let why =
                            format!("`{}` above says that it is {}", other.name, excerpt(&said));
                        fits = self.fault(below, graph.node(field.node), &why);
                    }
                }
            }
        }
        fits
    }

    pub(super) fn count_fits(&mut self, at: At<'_>, node: &Node, count: usize) -> bool {
        let rule = &node.object;
        if (rule.fewest..=rule.most).contains(&count) {
            return true;
        }
        self.fault(at, node, &format!("it has {}", counted(count, "field")))
    }

    fn depends(&mut self, at: At<'_>, node: &Node, names: &[&str]) -> bool {
        let given = |name: &String| names.contains(&name.as_str());
        let missed = node.object.depends.iter().find_map(|(name, others)| {
            let other = others.iter().find(|other| !given(other))?;
            given(name).then(|| format!("`{name}` asks for `{other}`"))
        });
        missed.is_none_or(|why| self.fault(at, node, &why))
    }

    /// Whether no field is present a second time under a similar name: which of the two is meant
    /// would be a guess.
    fn said_once(&mut self, at: At<'_>, rule: &ObjectRule, plan: &Plan<'_>) -> bool {
        if !self.graph.typed || matches!(rule.rest, Rest::Of(_)) {
            return true;
        }
        let given = rule.fields.iter().zip(&plan.given).filter(|(_, given)| **given);
        let given: HashMap<String, &str> =
            given.map(|(field, _)| (folded(&field.name), &*field.name)).collect();
        let mut fits = true;
        let unknown = plan.entries.iter().filter(|entry| entry.field.is_none());
        for entry in unknown.filter(|entry| !is_void(at.tape, entry.value)) {
            if let Some(name) = given.get(&folded(&entry.name)) {
                let path = Path::Field(at.path, &entry.name);
                let expected = format!("`{name}` alone, which is there too");
                let got = format!("`{}`", shortened(&entry.name));
                fits = self.push_fault(&path, expected, got, "");
            }
        }
        fits
    }

    /// Finds declared fields under names in another case or with other separators.
    ///
    /// If the policy does not allow the repair, such a name is a fault: leaving it out would lose
    /// its value.
    fn near_names(
        &mut self,
        at: At<'_>,
        rule: &ObjectRule,
        plan: &mut Plan<'_>,
        level: Level,
    ) -> bool {
        if plan.entries.iter().all(|entry| entry.field.is_some()) {
            return true;
        }
        // In a map it is a key of its own.
        if matches!(rule.rest, Rest::Of(_)) {
            return true;
        }
        let mut fits = self.said_once(at, rule, plan);
        if plan.given.iter().all(|given| *given) {
            return fits;
        }
        let free: Vec<(usize, String)> = rule
            .fields
            .iter()
            .enumerate()
            .filter(|(index, _)| plan.given.get(*index) == Some(&false))
            .map(|(index, field)| (index, folded(&field.name)))
            .collect();
        let free: HashMap<String, Vec<usize>> =
            free.into_iter().fold(HashMap::new(), |mut free, (index, name)| {
                free.entry(name).or_insert_with(Vec::new).push(index);
                free
            });
        let unknown: Vec<(usize, String)> = plan
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.field.is_none())
            .map(|(index, entry)| (index, folded(&entry.name)))
            .filter(|(_, name)| free.contains_key(name))
            .collect();
        let mut rivals: HashMap<&str, usize> = HashMap::new();
        for (_, name) in &unknown {
            *rivals.entry(name).or_default() += 1;
        }
        for (entry_index, name) in &unknown {
            let fields = free.get(name).map_or(&[][..], Vec::as_slice);
            let rivals = rivals.get(name.as_str()).copied();
            if let ([index], Some(1)) = (fields, rivals)
                && let (Some(entry), Some(given), Some(field)) = (
                    plan.entries.get_mut(*entry_index),
                    plan.given.get_mut(*index),
                    rule.fields.get(*index),
                )
            {
                if level < Level::Coerce {
                    let (expected, path) =
                        (format!("`{}`", field.name), Path::Field(at.path, &entry.name));
                    let got = format!("`{}`", shortened(&entry.name));
                    fits = self.push_fault(&path, expected, got, "");
                    continue;
                }
                entry.field = Some(*index);
                *given = true;
                let what = format!("read {} as `{}`", excerpt(&entry.name), field.name);
                self.repaired(&Path::Field(at.path, &field.name), what);
            }
        }
        fits
    }
}

/// Whether a value around the fields of an object contains one of them.
fn holds_a_field(tape: &Tape<'_>, value: usize, rule: &ObjectRule, left: usize) -> bool {
    if left == 0 {
        return false;
    }
    let below = |value| holds_a_field(tape, value, rule, left - 1);
    match tape.kind(value) {
        TokenKind::List => tape.items(value).any(below),
        TokenKind::Object => tape.entries(value).any(|(key, value)| {
            let name = folded(&tape.text(key));
            rule.fields.iter().any(|field| folded(&field.name) == name) || below(value)
        }),
        TokenKind::Text | TokenKind::Escaped if tape.raw(value).trim_start().starts_with('{') => {
            let text = tape.text(value);
            Tape::parse(&text).is_ok_and(|tape| holds_a_field(&tape, 0, rule, left - 1))
        }
        _ => false,
    }
}

impl<'t> Plan<'t> {
    /// Returns the undeclared fields that would be lost.
    fn unknown<'a>(
        &'a self,
        at: At<'a>,
        rule: &'a ObjectRule,
    ) -> impl Iterator<Item = &'a Entry<'t>> {
        let open = matches!(rule.rest, Rest::Open);
        self.entries.iter().filter(move |entry| {
            open && entry.field.is_none()
                && !(entry.name == TAG && at.tape.is_text(entry.value))
                && !is_void(at.tape, entry.value)
                && !rule.patterns.iter().any(|(pattern, _)| pattern.is_match(&entry.name))
        })
    }

    /// Whether a declared field is present with a value.
    fn says(&self, graph: &Graph, rule: &ObjectRule, at: At<'_>, index: usize) -> bool {
        let field = rule.fields.get(index).map(|field| graph.node(field.node));
        let takes_text = field.is_some_and(|node| node.types.has(Types::TEXT));
        let left_out = |value| match at.tape.kind(value) {
            TokenKind::Null => true,
            // Read as absent if the field is not a text.
            _ => !takes_text && at.tape.is_text(value) && is_nothing(&at.tape.text(value)),
        };
        self.given.get(index) == Some(&true)
            && self
                .entries
                .iter()
                .filter(|entry| entry.field == Some(index))
                .any(|entry| !left_out(entry.value))
    }

    fn new(tape: &Tape<'t>, object: usize, rule: &ObjectRule) -> Self {
        let mut given = vec![false; rule.fields.len()];
        let mut hint = 0;
        let entries = tape.entries(object).map(|(key, value)| {
            let name = tape.text(key);
            let field = rule.field(&name, hint);
            if let Some(index) = field {
                hint = index + 1;
                if let Some(given) = given.get_mut(index) {
                    *given = true;
                }
            }
            Entry { key, value, name, field }
        });
        let entries = entries.collect();
        Self { entries, given }
    }
}
