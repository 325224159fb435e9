//! Repairing objects: structs with declared fields, and maps whose keys are data.
//!
//! In: an object on a tape and its rules. Out: the object as JSON with the schema's names, or
//! faults. With the fields `due_date` (required) and `tags` (optional):
//!
//! ```text
//! {"dueDate": "2026-11-23", "tags": null, "note": "x"}
//!     →  {"due_date":"2026-11-23","note":"x"}
//!        repairs: read "dueDate" as `due_date`, left out `tags`, left out `note`
//! {"due_date": "2026-11-23", "tag": ["a"]}
//!     →  fault: `tag` is a typo of `tags`, and leaving it out would lose its value
//! ```
//!
//! Fields that are not asked for stay in the JSON for the type, which may have an alias for one of
//! them, but not in the JSON that the model gets back.
//!
//! Begin with [`RepairWalk::object`]: it finds the declared fields ([`Plan`]), rejects objects
//! whose values would be lost, and then walks over the entries.
//!
//! `object`, `repair_walk`, `coerce`, `restore` and `union` are a circle of files: they are one
//! recursive walk over a value, divided by the kind of value.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::limits::{GUESS_DEPTH, NEAR_NAMES};
use crate::reading::coerce::{folded, is_nothing};
use crate::reading::document::CALLS;
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

/// Further fields in which models put answers, with less certainty.
const AROUND: [&str; 7] = ["properties", "request", "result", "data", "body", "payload", "fields"];

/// The repair for an undeclared field.
pub(super) const UNASKED: &str = "left out a field that is not asked for";

/// The end of a fault about an undeclared field.
const NOT_ASKED_FOR: &str = "which is not asked for";

/// An object whose keys are matched with the declared fields.
struct Plan<'t> {
    /// The entries in the order of the text.
    entries: Vec<Entry<'t>>,
    /// For each declared field, whether it is present.
    given: Vec<bool>,
}

/// One entry of an object: the tokens of its key and its value, and its name.
struct Entry<'t> {
    key: usize,
    value: usize,
    name: Cow<'t, str>,
    /// The index of the declared field; `None` for an undeclared one.
    field: Option<usize>,
}

/// Whether a value can be left out without loss: null, an empty list or an empty object.
pub(super) fn is_void(tape: &Tape<'_>, value: usize) -> bool {
    match tape.kind(value) {
        TokenKind::Null => true,
        TokenKind::List | TokenKind::Object => tape.next(value) == value + 1,
        _ => false,
    }
}

impl RepairWalk<'_> {
    /// Reads an object. Each check runs even if an earlier one failed, so that a model gets all
    /// faults at once.
    ///
    /// ```text
    /// {"limit": "5", "note": "x"}   →   {"limit":5,"note":"x"}
    /// ```
    pub(super) fn object(&mut self, at: At<'_>, node: &Node) -> bool {
        let rule = &node.object;
        let mut plan = Plan::new(at.tape, at.token, rule);
        let mut seen = HashSet::new();
        let mut fits = self.near_names(at, rule, &mut plan);
        fits &= self.no_typos(at, rule, &plan);
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
            let field = entry.field.and_then(|index| rule.fields.get(index));
            fits &= match field {
                Some(field) => self.field(below, entry.key, field),
                None => self.undeclared(below, entry.key, node, &mut seen),
            };
            if !fits && self.trying {
                return false;
            }
            if counted && self.out.len() > start {
                names.push(field.map_or(&entry.name, |field| &field.name));
            }
        }
        fits &= self.missing(at, rule, &plan);
        self.out.push('}');
        fits && self.count_fits(at, node, names.len()) && self.depends(at, node, &names)
    }

    /// Reads a declared field; a value that means an absent field is left out.
    fn field(&mut self, at: At<'_>, key: usize, field: &FieldRule) -> bool {
        let node = self.graph.node(field.node);
        if !field.required && self.is_absent(at, node) {
            return true;
        }
        self.separate();
        if at.tape.text(key) == *field.name {
            self.out.push_str(at.tape.whole(key));
        } else {
            self.write_text(&field.name);
        }
        self.out.push(':');
        self.value(at, field.node)
    }

    /// Whether a value means an absent field. Strict dialects ask for every field, so null means an
    /// absent field unless the field is nullable. Models also write an empty text for it.
    ///
    /// ```text
    /// "tags": null   →  absent, if `tags` is optional and not nullable
    /// "tags": ""     →  absent, if the policy coerces and `tags` is not a text
    /// "tags": ""     →  kept, if `tags` is a text without a minimum length
    /// ```
    fn is_absent(&mut self, at: At<'_>, node: &Node) -> bool {
        if node.takes_null() || self.level < Level::Restore {
            return false;
        }
        if at.kind() == TokenKind::Null {
            self.repaired(at.path, NULL_FOR_DEFAULT.to_owned());
            return true;
        }
        if self.level < Level::Coerce || !at.tape.is_text(at.token) {
            return false;
        }
        let text = at.tape.text(at.token);
        let empty = is_nothing(&text) && !text.trim().eq_ignore_ascii_case("none");
        let fits = || FitCheck::new(self.graph, at.tape).value(at.tape, at.token, node);
        if !empty || node.types.has(Types::TEXT) && fits() != Fits::No {
            return false;
        }
        self.repaired(at.path, format!("read {} as left out", excerpt(&text)));
        true
    }

    /// Reads an entry without a declared field: a tag, further fields as pairs, a field that is not
    /// asked for, or an entry of a map.
    ///
    /// ```text
    /// "_type": "Task"                     a tag: no value, but listed
    /// "additional_properties": [{…}]      further fields as pairs
    /// "note": "x"                         not asked for: kept for the type, listed
    /// "2026": 1, for a map of integers    an entry
    /// ```
    fn undeclared(
        &mut self,
        at: At<'_>,
        key: usize,
        node: &Node,
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
            if self.level >= Level::Restore
                && name == FURTHER
                && self.has_pairs(rule)
                && let Some(fits) = self.further(at, node, seen)
            {
                return fits;
            }
            if matches!(rule.rest, Rest::Open) && rule.patterns.is_empty() {
                return self.unasked(at, key);
            }
        }
        self.separate();
        self.entry(at, key, node, seen)
    }

    /// Whether lowering puts further fields into a list, which is not a field itself.
    ///
    /// If a further field may be a list itself, `additional_properties` is such a field and not a
    /// wire shape.
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
    ///
    /// The type may have an alias for the field. It is not listed for a contract made at run time,
    /// whose caller gets all fields.
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
        self.separate();
        self.out.push_str(at.tape.whole(key));
        self.out.push(':');
        self.keep(at);
        if self.graph.typed {
            self.left_out.push(start..self.out.len());
        }
        true
    }

    /// Reads an entry whose key is data. `seen` has the keys before it.
    ///
    /// ```text
    /// "HIGH": "1", for keys `low` and `high` and integer values   →   "high":1
    /// ```
    pub(super) fn entry(
        &mut self,
        at: At<'_>,
        key: usize,
        node: &Node,
        seen: &mut HashSet<String>,
    ) -> bool {
        let rule = &node.object;
        let Some(name) = self.key(at, key, rule) else {
            return false;
        };
        if !seen.insert(name.clone()) || rule.field(&name, 0).is_some() {
            let got = format!("the key {}", excerpt(&name));
            return self.push_fault(at.path, "each key once".to_owned(), got, "it is there twice");
        }
        self.write_text(&name);
        self.out.push(':');
        let matching = rule.patterns.iter().filter(|(pattern, _)| pattern.is_match(&name));
        let matching: Vec<_> = matching.map(|(_, id)| *id).collect();
        match (matching.as_slice(), rule.rest) {
            ([first, others @ ..], _) => {
                let start = self.out.len();
                self.value(at, *first) && self.fits_all(at, &Node::any(), others, start)
            }
            ([], Rest::Of(id)) => self.value(at, id),
            ([], Rest::Open) => self.value(at, usize::MAX),
            ([], Rest::Closed) => self.refused_key(at, &name, rule),
        }
    }

    /// Returns the key of an entry in the schema's notation, such as `high` for `HIGH` if the keys
    /// are an enum.
    fn key(&mut self, at: At<'_>, key: usize, rule: &ObjectRule) -> Option<String> {
        let Some(names) = rule.names else {
            return Some(at.tape.text(key).into_owned());
        };
        let key_at = at.to(key, at.path);
        let Some(found) = self.attempt(key_at, names, self.level) else {
            let expected =
                format!("a key that is {}", expected(self.graph, self.graph.node(names)));
            let got = excerpt(&at.tape.text(key));
            self.push_fault(at.path, expected, got, "");
            return None;
        };
        let tape = Tape::parse(&found.json).ok()?;
        self.repairs.extend(found.repairs);
        Some(tape.text(0).into_owned())
    }

    /// Reports a key that no rule of a closed object allows.
    ///
    /// ```text
    /// $.colour: expected only `color`, `size`, got the field `colour`
    /// ```
    fn refused_key(&mut self, at: At<'_>, name: &str, rule: &ObjectRule) -> bool {
        let mut all = names_of(rule);
        let words = |text: &str| format!("keys that match {}", shortened(text));
        all.extend(rule.patterns.iter().map(|(pattern, _)| words(&pattern.text)));
        let expected = match all.as_slice() {
            [] => "no fields".to_owned(),
            all => format!("only {}", all.join(", ")),
        };
        self.push_fault(at.path, expected, format!("the field `{}`", shortened(name)), "")
    }

    /// Rejects undeclared fields whose names are close to that of an absent field: leaving one out
    /// would lose its value.
    ///
    /// ```text
    /// {"query": "tax", "limt": 5}   →   $.limt: expected `limit`, got `limt`: write the name as it
    ///                                  is asked for
    /// ```
    fn no_typos(&mut self, at: At<'_>, rule: &ObjectRule, plan: &Plan<'_>) -> bool {
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
                    let why = "write the name as it is asked for";
                    fits = self.misnamed(at, entry, format!("`{}`", field.name), why);
                }
            }
        }
        fits
    }

    /// Reports an undeclared field that may be a declared one under another name.
    fn misnamed(&mut self, at: At<'_>, entry: &Entry<'_>, expected: String, why: &str) -> bool {
        let got = format!("`{}`", shortened(&entry.name));
        self.push_fault(&Path::Field(at.path, &entry.name), expected, got, why)
    }

    /// Whether a non-empty object has any declared field. An object without one is wrapped, or
    /// meant for something else, and all its values would be ignored.
    ///
    /// ```text
    /// {"q": "tax"}   →   $: expected some of `query`, `limit`, or an empty object, got only `q`,
    ///                   which is not asked for
    /// ```
    fn says_something(&mut self, at: At<'_>, rule: &ObjectRule, plan: &Plan<'_>) -> bool {
        // A tag names the type of the object, but has no data.
        let graph = self.graph;
        let is_tag = |field: &FieldRule| graph.tag_of(field).is_some();
        let mut own = rule.fields.iter().enumerate().filter(|(_, field)| !is_tag(field)).peekable();
        if graph.typed && self.is_input && rule.is_free() && matches!(at.path, Path::Root(_)) {
            return self.says_nothing(at, plan);
        }
        if own.peek().is_none()
            || own.any(|(index, field)| field.required || plan.says(self.graph, rule, at, index))
        {
            return true;
        }
        // Without a type, the caller gets all fields.
        let tagged = rule.fields.iter().any(is_tag);
        let is_field = |name: &str, _: &Tape<'_>, _: usize| {
            rule.fields.iter().any(|field| folded(&field.name) == folded(name))
        };
        let lost = |entry: &&Entry<'_>| {
            self.graph.typed && !tagged
                || holds(at.tape, entry.value, &is_field, false, GUESS_DEPTH)
        };
        let Some(entry) = plan.unknown(at, rule).find(lost) else {
            return true;
        };
        let expected = format!("some of {}, or an empty object", names_of(rule).join(", "));
        let got = format!("only `{}`, {NOT_ASKED_FOR}", shortened(&entry.name));
        self.push_fault(at.path, expected, got, "")
    }

    /// Whether the arguments of a tool without fields have no value. A model that writes one means a
    /// part of what the tool does, or another tool.
    ///
    /// ```text
    /// {"key": "a"}   →   $: expected an empty object, got `key`, which is not asked for
    /// ```
    fn says_nothing(&mut self, at: At<'_>, plan: &Plan<'_>) -> bool {
        let says = |entry: &&Entry<'_>| {
            let is_text = at.tape.is_text(entry.value);
            let is_blank = is_text && at.tape.text(entry.value).trim().is_empty();
            let is_tag = is_text && entry.name == TAG;
            !is_blank && !is_tag && !is_void(at.tape, entry.value)
        };
        let Some(entry) = plan.entries.iter().find(says) else {
            return true;
        };
        let got = format!("`{}`, {NOT_ASKED_FOR}", shortened(&entry.name));
        self.push_fault(at.path, "an empty object".to_owned(), got, "")
    }

    /// Rejects an object with a declared field inside an undeclared one, if the object itself lacks
    /// the field or has another value in it. Both values may be meant.
    ///
    /// ```text
    /// {"dry_run": true, "filter": {"prefix": "tmp"}}
    /// {"path": "safe.txt", "arguments": {"path": "danger.txt"}}
    /// ```
    ///
    /// In arguments the field may have any name, and any other value in a wrapper counts. An answer
    /// may come from a newer program, whose new fields have values of their own, so only known names
    /// count there.
    fn holds_nothing_deeper(&mut self, at: At<'_>, rule: &ObjectRule, plan: &Plan<'_>) -> bool {
        let typed = self.graph.typed;
        // The caller of a contract made at run time gets all fields, but not in a wrapper.
        let around = |name: &str| {
            let is_known = WRAPPERS.contains(&name) || CALLS.contains(&name);
            is_known || typed && (self.is_input || AROUND.contains(&name))
        };
        let inside = |entry: &&Entry<'_>| {
            let is_wrapper = self.is_input && typed && WRAPPERS.contains(&&*entry.name);
            let is_other = |name: &str, tape: &Tape<'_>, value: usize| {
                let is_around = WRAPPERS.contains(&name) || CALLS.contains(&name);
                let name = folded(name);
                let field = rule.fields.iter().position(|field| folded(&field.name) == name);
                match field {
                    None => is_wrapper && !is_around && !is_void(tape, value),
                    Some(index) => match plan.says(self.graph, rule, at, index) {
                        false => typed,
                        true => !plan.has_value(at, index, tape.whole(value)),
                    },
                }
            };
            let is_list = at.tape.kind(entry.value) == TokenKind::List;
            is_wrapper && is_list && !is_void(at.tape, entry.value)
                || holds(at.tape, entry.value, &is_other, true, GUESS_DEPTH)
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
    ///
    /// ```text
    /// {"query": "tax"}               →   $.limit: this field is missing; expected an integer
    /// {"radius": 1}, `kind` is "circle"  →   {"radius":1,"kind":"circle"}, if the policy coerces
    /// ```
    fn missing(&mut self, at: At<'_>, rule: &ObjectRule, plan: &Plan<'_>) -> bool {
        let mut fits = true;
        // A tag alone does not show that a member of a union is meant.
        let telling = rule
            .fields
            .iter()
            .enumerate()
            .any(|(index, field)| {
                self.graph.tag_of(field).is_none() && plan.says(self.graph, rule, at, index)
            })
            // An undeclared field may be the tag under another name.
            && plan.undeclared().next().is_none();
        for (field, given) in rule.fields.iter().zip(&plan.given) {
            if *given || !field.required {
                continue;
            }
            let path = Path::Field(at.path, &field.name);
            if self.level == Level::Coerce
                && telling
                && let Some(only) = self.graph.tag_of(field)
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
            let mut unknown = plan.undeclared().take(NEAR_NAMES);
            let near = unknown.find(|entry| is_near(&field.name, &entry.name));
            let why = near.map(|entry| format!("there is `{}`", shortened(&entry.name)));
            let why = why.unwrap_or_default();
            fits = self.push_fault(&path, expected, "nothing".to_owned(), &why);
        }
        fits
    }

    /// Whether undeclared fields of an object agree with the tags of its fields that are unions:
    /// models write a tag one level too high.
    ///
    /// ```text
    /// {"kind": "circle", "shape": {"kind": "square", "side": 1}}
    ///     →   $.shape: …: `kind` above says that it is "circle"
    /// ```
    fn agrees_with_tags(&mut self, at: At<'_>, rule: &ObjectRule, plan: &Plan<'_>) -> bool {
        let graph = self.graph;
        let mut fits = true;
        for entry in plan.entries.iter().filter(|_| graph.typed) {
            let path = Path::Field(at.path, &entry.name);
            let below = at.to(entry.value, &path);
            let field = entry.field.and_then(|index| rule.fields.get(index));
            let Some((node, union)) = field.and_then(|field| {
                let node = graph.node(field.node);
                Some((node, node.union.as_ref()?))
            }) else {
                continue;
            };
            let tag = union.tag.as_deref().unwrap_or(TAG);
            let tags = plan.undeclared().filter(|above| above.name == TAG || above.name == tag);
            for above in tags.filter(|above| at.tape.is_text(above.value)) {
                let said = at.tape.text(above.value);
                if below.kind() == TokenKind::Object && self.contradicts(&said, below, union) {
                    let why = format!("`{}` above says that it is {}", above.name, excerpt(&said));
                    fits = self.fault(below, node, &why);
                }
            }
        }
        fits
    }

    /// Checks the number of fields that stay.
    pub(super) fn count_fits(&mut self, at: At<'_>, node: &Node, count: usize) -> bool {
        let rule = &node.object;
        if (rule.fewest..=rule.most).contains(&count) {
            return true;
        }
        self.fault(at, node, &format!("it has {}", counted(count, "field")))
    }

    /// Checks that each field in `names` has the fields that it asks for beside it.
    fn depends(&mut self, at: At<'_>, node: &Node, names: &[&str]) -> bool {
        match node.object.missed(|name| names.contains(&name)) {
            Some((name, other)) => self.fault(at, node, &format!("`{name}` asks for `{other}`")),
            None => true,
        }
    }

    /// Rejects a field that is present a second time under a similar name: choosing one of the two
    /// would be a guess.
    ///
    /// ```text
    /// {"due_date": "…", "dueDate": "…"}   →   $.dueDate: expected `due_date` alone, …
    /// ```
    fn said_once(&mut self, at: At<'_>, rule: &ObjectRule, plan: &Plan<'_>) -> bool {
        if !self.graph.typed || matches!(rule.rest, Rest::Of(_)) {
            return true;
        }
        let given = rule.fields.iter().zip(&plan.given).filter(|(_, given)| **given);
        let given: HashMap<String, &str> =
            given.map(|(field, _)| (folded(&field.name), &*field.name)).collect();
        let mut fits = true;
        for entry in plan.undeclared().filter(|entry| !is_void(at.tape, entry.value)) {
            if let Some(name) = given.get(&folded(&entry.name)) {
                let expected = format!("`{name}` alone, which is there too");
                fits = self.misnamed(at, entry, expected, "");
            }
        }
        fits
    }

    /// Finds declared fields under names in another case or with other separators.
    ///
    /// If the policy does not allow the repair, such a name is a fault: leaving it out would lose
    /// its value.
    ///
    /// ```text
    /// {"dueDate": "…"}                     →   read "dueDate" as `due_date`
    /// {"dueDate": "…", "DueDate": "…"}     →   neither: it is not clear which one is meant
    /// ```
    fn near_names(&mut self, at: At<'_>, rule: &ObjectRule, plan: &mut Plan<'_>) -> bool {
        // In a map such a name is a key of its own.
        if plan.undeclared().next().is_none() || matches!(rule.rest, Rest::Of(_)) {
            return true;
        }
        let mut fits = self.said_once(at, rule, plan);
        // The absent fields and the undeclared entries of each folded name.
        let mut alike: HashMap<String, (Vec<usize>, Vec<usize>)> = HashMap::new();
        for (index, field) in rule.fields.iter().enumerate() {
            if plan.given.get(index) == Some(&false) {
                alike.entry(folded(&field.name)).or_default().0.push(index);
            }
        }
        let entries = plan.entries.iter().enumerate().filter(|(_, entry)| entry.field.is_none());
        for (index, entry) in entries {
            if let Some((_, entries)) = alike.get_mut(&folded(&entry.name)) {
                entries.push(index);
            }
        }
        // Only one field and one entry of the same folded name certainly mean each other.
        let certain = |(fields, entries): (Vec<usize>, Vec<usize>)| match (&*fields, &*entries) {
            ([field], [entry]) => Some((*entry, *field)),
            _ => None,
        };
        let mut certain: Vec<_> = alike.into_values().filter_map(certain).collect();
        certain.sort_unstable();
        for (entry, index) in certain {
            let (Some(entry), Some(field)) = (plan.entries.get_mut(entry), rule.fields.get(index))
            else {
                continue;
            };
            if self.level < Level::Coerce {
                fits = self.misnamed(at, entry, format!("`{}`", field.name), "");
                continue;
            }
            entry.field = Some(index);
            plan.given.get_mut(index).into_iter().for_each(|given| *given = true);
            let what = format!("read {} as `{}`", excerpt(&entry.name), field.name);
            self.repaired(&Path::Field(at.path, &field.name), what);
        }
        fits
    }
}

/// Returns the quoted names of the first declared fields, for a fault.
fn names_of(rule: &ObjectRule) -> Vec<String> {
    rule.fields.iter().take(12).map(|field| format!("`{}`", field.name)).collect()
}

/// Whether a field for which `is_it` holds is in a value: in any object of it, or, with `wrapped`,
/// only in those that the names of wrappers lead to.
///
/// ```text
/// `query` in {"payload": [{"query": "tax"}]}   →   true: the values are inside
/// ```
fn holds(
    tape: &Tape<'_>,
    value: usize,
    is_it: &dyn Fn(&str, &Tape<'_>, usize) -> bool,
    wrapped: bool,
    left: usize,
) -> bool {
    if left == 0 {
        return false;
    }
    match tape.kind(value) {
        TokenKind::Object => tape.entries(value).any(|(key, inner)| {
            let name = tape.text(key);
            let leads = !wrapped || WRAPPERS.contains(&&*name) || CALLS.contains(&&*name);
            is_it(&name, tape, inner) || leads && holds(tape, inner, is_it, wrapped, left - 1)
        }),
        TokenKind::List => {
            tape.items(value).any(|item| holds(tape, item, is_it, wrapped, left - 1))
        }
        TokenKind::Text | TokenKind::Escaped => {
            let text = tape.text(value);
            text.trim_start().starts_with(['{', '['])
                && Tape::parse(&text).is_ok_and(|tape| holds(&tape, 0, is_it, wrapped, left - 1))
        }
        _ => false,
    }
}

impl<'t> Plan<'t> {
    /// Whether a declared field is present with the value of this JSON.
    fn has_value(&self, at: At<'_>, index: usize, json: &str) -> bool {
        let parsed = |json: &str| serde_json::from_str::<serde_json::Value>(json).ok();
        let wanted = parsed(json);
        self.entries.iter().filter(|entry| entry.field == Some(index)).any(|entry| {
            let given = at.tape.whole(entry.value);
            given == json || wanted.is_some() && parsed(given) == wanted
        })
    }

    /// Returns the entries without a declared field.
    fn undeclared(&self) -> impl Iterator<Item = &Entry<'t>> {
        self.entries.iter().filter(|entry| entry.field.is_none())
    }

    /// Returns the undeclared entries whose values would be lost.
    /// Tags, empty values and names that match a pattern of the schema are not among them.
    fn unknown<'a>(
        &'a self,
        at: At<'a>,
        rule: &'a ObjectRule,
    ) -> impl Iterator<Item = &'a Entry<'t>> {
        let is_pattern = |name: &str| rule.patterns.iter().any(|(known, _)| known.is_match(name));
        let open = self.undeclared().filter(|_| matches!(rule.rest, Rest::Open));
        open.filter(move |entry| {
            let tag = entry.name == TAG && at.tape.is_text(entry.value);
            !tag && !is_void(at.tape, entry.value) && !is_pattern(&entry.name)
        })
    }

    /// Whether a declared field is present with a value.
    ///
    /// Null, and an empty text for a field that is not a text, say nothing.
    fn says(&self, graph: &Graph, rule: &ObjectRule, at: At<'_>, index: usize) -> bool {
        let field = rule.fields.get(index).map(|field| graph.node(field.node));
        let takes_text = field.is_some_and(|node| node.types.has(Types::TEXT));
        let left_out = |value| match at.tape.kind(value) {
            TokenKind::Null => true,
            // Read as absent if the field is not a text.
            _ => !takes_text && at.tape.is_text(value) && is_nothing(&at.tape.text(value)),
        };
        self.given.get(index) == Some(&true)
            && self.entries.iter().any(|entry| entry.field == Some(index) && !left_out(entry.value))
    }

    /// Matches the keys of an object with the fields of exactly the same name.
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
