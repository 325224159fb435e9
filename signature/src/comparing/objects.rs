//! Comparing objects: each declared field, and then all undeclared fields.
//!
//! ```text
//! sent:     {"a": integer, "b": string}, nothing required
//! accepted: {"a": integer, "c": string}, "a" required, no other fields
//! → $.a: may be missing, is required
//! → $.b: may have this field, takes no such field
//! ```
//!
//! Begin with [`Comparing::objects`]. It runs five checks: missing fields, declared fields, fields
//! that match a pattern of the sender, all other fields, and fields that require others. Two
//! exceptions follow from reading: it leaves out a null for an optional field that does not accept
//! null, and it accepts a field under a similar name.

use std::collections::{HashMap, HashSet};

use super::Comparing;
use crate::error::{Side, shown};
use crate::reading::coerce::folded;
use crate::reading::pattern::Pattern;
use crate::schema::graph::{ANY_ID, Graph, Id, ObjectRule, Rest, Schemas};
use crate::schema::types::Types;

/// The words about a field that one of the two schemas does not have.
pub(crate) const ABSENT: [&str; 3] = [COMES_NOT, TAKEN_NOT, NOT_NAMED];
const COMES_NOT: &str = "has no such field";
const TAKEN_NOT: &str = "takes no such field";
const NOT_NAMED: &str = "does not name it";

/// The fields that an object may have.
///
/// ```text
/// {"properties": {"a": A}, "required": ["b"], "additionalProperties": B}
/// → declared: a; required: b; of any other name, and for b: values of B
/// ```
struct Fields<'a> {
    /// The rule in the graph.
    rule: &'a ObjectRule,
    /// The fields that are always present.
    required: HashSet<&'a str>,
    /// The schema of fields that no name or pattern matches; `None` if there are no such fields.
    rest: Option<Id>,
    /// Whether it declares fields and has no rule for others.
    silent: bool,
}

impl<'a> Fields<'a> {
    /// Returns the fields that the receiver accepts.
    fn of(schemas: &'a Schemas<'a>, id: Id) -> Self {
        let (rule, words) = (&schemas.graph.node(id).object, schemas.words(id));
        let lists = words.contains_key("properties") || words.contains_key("patternProperties");
        let required = rule.fields.iter().filter(|field| field.required);
        let (rest, silent) = match rule.rest {
            Rest::Open => (Some(ANY_ID), lists),
            Rest::Closed => (None, false),
            Rest::Of(id) => (Some(id), false),
        };
        Self { rule, required: required.map(|field| &*field.name).collect(), rest, silent }
    }

    /// Returns the fields of the sent object. A schema that declares fields and has no rule for
    /// others declares all of them.
    fn that_come(schemas: &'a Schemas<'a>, id: Id) -> Self {
        let fields = Self::of(schemas, id);
        Self { rest: fields.rest.filter(|_| !fields.silent), ..fields }
    }

    /// Returns the declared fields with their schemas, in order.
    fn named(&self) -> impl Iterator<Item = (&'a str, Id)> + use<'a> {
        self.rule.described().map(|field| (&*field.name, field.node))
    }

    /// Whether a field is declared.
    fn names(&self, name: &str) -> bool {
        self.rule.described_field(name).is_some()
    }

    /// Whether it has only declared fields.
    fn lists_all(&self) -> bool {
        self.rest.is_none() && self.rule.patterns.is_empty()
    }

    /// Returns the maximum number of fields.
    fn most(&self) -> usize {
        if self.lists_all() { self.named().count() } else { usize::MAX }
    }

    /// Returns the fields that the other side does not declare, by their folded names, because
    /// reading accepts similar names.
    ///
    /// ```text
    /// sent: `dueDate`     accepted: `due_date`     → a difference that names the other field
    /// ```
    fn nearly_named(&self, comes: &Self) -> HashMap<String, &'a str> {
        if comes.named().all(|(name, _)| self.names(name)) {
            return HashMap::new();
        }
        let others = self.named().filter(|(name, _)| !comes.names(name));
        others.map(|(name, _)| (folded(name), name)).collect()
    }

    /// Whether a field of this name may be present.
    fn may_have(&self, name: &str) -> bool {
        !self.lists_all() || self.names(name)
    }

    /// Returns the schemas of all undeclared fields.
    fn patterns_and(&self, rest: Id) -> impl Iterator<Item = Id> + use<'a> {
        self.rule.patterns.iter().map(|(_, id)| *id).chain([rest])
    }
}

/// Whether no name matches both patterns, because they begin with different letters.
///
/// ```text
/// ^x- and ^y- → true     ^x- and -id$ → false, as far as is known
/// ```
fn are_apart(one: &str, other: &str) -> bool {
    /// Returns the letters that each match begins with.
    fn start(pattern: &str) -> Option<&str> {
        let rest = pattern.strip_prefix('^').filter(|rest| !rest.contains('|'))?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let end = rest.find(|c| !is_plain(c)).unwrap_or(rest.len());
        let optional = rest[end..].starts_with(['*', '?', '{']);
        rest.get(..end - usize::from(optional && end > 0))
    }
    match (start(one), start(other)) {
        (Some(one), Some(other)) => !one.starts_with(other) && !other.starts_with(one),
        _ => false,
    }
}

impl<'a> Comparing<'a> {
    /// Whether the receiver accepts all objects that are sent.
    pub(super) fn objects(&mut self, comes: Id, takes: Id) -> bool {
        let (mut comes, takes) =
            (Fields::that_come(self.comes, comes), Fields::of(self.takes, takes));
        if !self.spend(comes.required.len() + takes.required.len()) {
            return false;
        }
        // A field that reading may leave out is not certainly present.
        let rule = comes.rule;
        let may_be_left_out = |name: &str| self.may_be_left_out(name, rule, &takes);
        comes.required.retain(|name| !may_be_left_out(name));
        // Nor does it count towards the fewest fields.
        let left_out = match (rule.fewest, takes.rule.fewest) {
            (0, _) | (_, 0) => 0,
            _ => comes.named().filter(|(name, _)| may_be_left_out(name)).count(),
        };
        let least = rule.fewest.saturating_sub(left_out).max(comes.required.len());
        let own = (least, rule.most.min(comes.most()));
        let mut fits = self.counts(own, (takes.rule.fewest, takes.rule.most), "fields");
        let looks: [fn(&mut Self, &Fields<'a>, &Fields<'a>) -> bool; 5] =
            [Self::missing, Self::named, Self::patterns, Self::rest, Self::dependent];
        for look in looks {
            if fits || !self.trying {
                fits &= look(self, &comes, &takes);
            }
        }
        fits
    }

    /// Reports fields that the receiver requires and the sender may leave out.
    fn missing(&mut self, comes: &Fields<'a>, takes: &Fields<'a>) -> bool {
        let mut missing: Vec<_> = takes.required.difference(&comes.required).collect();
        // In an order that does not depend on hashing.
        missing.sort_unstable();
        for name in &missing {
            let known = comes.may_have(name);
            let words = if known { "may be missing" } else { COMES_NOT };
            self.below_field(name, |all| all.differ(|_| (words, "is required")));
        }
        missing.is_empty()
    }

    /// Compares each field that the sender declares or requires with all schemas that the receiver
    /// has for its name: that of the field, of each pattern that matches, or of undeclared fields.
    fn named(&mut self, comes: &Fields<'a>, takes: &Fields<'a>) -> bool {
        let patterns = &takes.rule.patterns;
        let mut fits = true;
        // A field that is required but not declared may have any value.
        let bare = comes.required.iter().filter(|name| !comes.names(name));
        let mut bare: Vec<&str> = bare.copied().collect();
        bare.sort_unstable();
        let bare = bare.into_iter().map(|name| (name, comes.rest.unwrap_or(ANY_ID)));
        let near = takes.nearly_named(comes);
        for (name, schema) in comes.named().chain(bare) {
            if self.comes.graph.node(schema).types == Types::NONE {
                continue;
            }
            if !self.spend(patterns.len() + 1) || self.is_over() || !fits && self.trying {
                return false;
            }
            fits &= self.below_field(name, |all| {
                // Another implementation may support a pattern that this one does not.
                let may_match = |pattern: &Pattern| !pattern.is_known() || pattern.is_match(name);
                let matching = patterns.iter().filter(|(pattern, _)| may_match(pattern));
                let mut known: Vec<Id> = matching.map(|(_, id)| *id).collect();
                known.extend(takes.rule.described_field(name).map(|field| field.node));
                if let Some(near) = near.get(&folded(name)).filter(|_| known.is_empty()) {
                    return all
                        .differ(|_| ("has this field", format!("calls it `{}`", shown(near))));
                }
                if known.is_empty() {
                    // It would be accepted and silently ignored.
                    let ignored =
                        takes.silent && all.side == Side::Input && !takes.required.contains(name);
                    let Some(rest) = takes.rest.filter(|_| !ignored) else {
                        let always = comes.required.contains(name);
                        let ours = if always { "has this field" } else { "may have this field" };
                        let theirs = if ignored { NOT_NAMED } else { TAKEN_NOT };
                        return all.differ(|_| (ours, theirs));
                    };
                    known.push(rest);
                }
                let kinds = all.kinds_that_come(name, takes);
                let mut fits = all.takes_name(name, takes);
                for takes in known {
                    fits &= all.fit(schema, kinds, takes);
                }
                fits
            });
        }
        fits
    }

    /// Whether reading may leave out a field of the sender, because it is null.
    fn may_be_left_out(&self, name: &str, comes: &ObjectRule, takes: &Fields<'a>) -> bool {
        let field = comes.described_field(name);
        field.is_some_and(|field| self.comes.graph.node(field.node).takes_null())
            && self.kinds_that_come(name, takes) != Types::ALL
    }

    /// Whether reading may leave out any field of the sent value, or below it.
    pub(super) fn leaves_out(&self, comes: Id, takes: Id) -> bool {
        let (from, to) = (&self.comes.graph, &self.takes.graph);
        let fields = |graph: &'a Graph, id: Id| {
            let nodes = graph.all_below(id).into_iter().chain([graph.target(id)]);
            nodes.flat_map(|id| graph.node(id).object.described())
        };
        let null = fields(from, comes).filter(|field| from.node(field.node).takes_null());
        let nulls: HashSet<&str> = null.map(|field| &*field.name).collect();
        !nulls.is_empty()
            && fields(to, takes).any(|field| {
                let dropped = !field.required && !to.node(field.node).takes_null();
                dropped && nulls.contains(&*field.name)
            })
    }

    /// Reading leaves out a null for an optional field that does not accept null.
    ///
    /// ```text
    /// sent: {"a": integer or null}     accepted: {"a": integer}, optional     → fits
    /// ```
    fn kinds_that_come(&self, name: &str, takes: &Fields<'a>) -> Types {
        let field = takes.rule.described_field(name).filter(|field| !field.required);
        let field = field.filter(|_| !self.in_part);
        let dropped = field.map(|field| self.takes.graph.node(field.node));
        if dropped.is_some_and(|node| !node.takes_null()) {
            Types::ALL.without(Types::NULL)
        } else {
            Types::ALL
        }
    }

    /// Checks the name of a declared field against the receiver's schema of names.
    fn takes_name(&mut self, name: &str, takes: &Fields<'a>) -> bool {
        let Some(names) = takes.rule.names else {
            return true;
        };
        self.takes_value(names, &name.into())
            || self.differ(|all| {
                let words = all.words(all.takes, names, Types::TEXT);
                ("has this field", format!("takes fields whose name is {words}"))
            })
    }

    /// Compares the fields that match a pattern of the sender: with the same pattern of the
    /// receiver and others that a name may match too, or else with each of its patterns and its rule
    /// for undeclared fields.
    fn patterns(&mut self, comes: &Fields<'a>, takes: &Fields<'a>) -> bool {
        let mut fits = true;
        for (pattern, schema) in &comes.rule.patterns {
            if !self.spend(takes.rule.fields.len() + takes.rule.patterns.len() + 1) {
                return false;
            }
            fits &= self.below(".*", |all| {
                let own = comes.rule.names.unwrap_or(ANY_ID);
                if !all.takes_names(own, Some(&pattern.text), takes) {
                    return false;
                }
                let mut others = takes.rule.patterns.iter();
                if let Some((_, same)) = others.find(|(other, _)| other.text == pattern.text) {
                    let own =
                        |text: &str| comes.rule.patterns.iter().any(|(own, _)| own.text == text);
                    let others = takes.rule.patterns.iter().filter(|(other, _)| {
                        // A pattern of both sides is compared for itself.
                        !own(&other.text) && !are_apart(&pattern.text, &other.text)
                    });
                    return all
                        .fit_all(*schema, [*same].into_iter().chain(others.map(|(_, id)| *id)));
                }
                let Some(rest) = takes.rest else {
                    return all.differ(|_| {
                        let words = format!("may have fields that match {}", shown(&pattern.text));
                        (words, "takes no such fields")
                    });
                };
                all.fit_all(*schema, takes.patterns_and(rest))
            });
            if !pattern.is_known() {
                continue;
            }
            let is_one = |name: &str| !comes.names(name) && pattern.is_match(name);
            fits &= self.unnamed(*schema, takes, is_one);
        }
        fits
    }

    /// Compares the names of undeclared fields.
    ///
    /// The same pattern fits without a look at the texts that it matches.
    fn takes_names(&mut self, own: Id, pattern: Option<&str>, takes: &Fields<'a>) -> bool {
        let Some(names) = takes.rule.names else {
            return true;
        };
        let words = self.takes.words(names);
        let same = pattern.is_some_and(|own| words.get("pattern").is_some_and(|one| one == own));
        let alone = words.keys().all(|keyword| matches!(keyword.as_str(), "type" | "pattern"));
        same && alone
            || self.tries(own, Types::TEXT, names)
            || self.differ(|all| {
                let own = match pattern {
                    Some(pattern) => format!("a string that matches {}", shown(pattern)),
                    None => all.words(all.comes, own, Types::TEXT),
                };
                let names = all.words(all.takes, names, Types::TEXT);
                let names = format!("takes fields whose name is {names}");
                (format!("may have fields whose name is {own}"), names)
            })
    }

    /// Compares the value of a field for each pattern that its name may match.
    fn fit_all(&mut self, comes: Id, takes: impl Iterator<Item = Id>) -> bool {
        takes.fold(true, |fits, takes| self.fit(comes, Types::ALL, takes) & fits)
    }

    /// Compares fields that only the receiver declares.
    ///
    /// A field of the sender that matches no name may still be one that the receiver declares, so
    /// its value has to fit that field too.
    fn unnamed(&mut self, comes: Id, takes: &Fields<'a>, may_come: impl Fn(&str) -> bool) -> bool {
        takes.named().filter(|(name, _)| may_come(name)).fold(true, |fits, (name, schema)| {
            let kinds = self.kinds_that_come(name, takes);
            self.below_field(name, |all| all.fit(comes, kinds, schema)) & fits
        })
    }

    /// Compares the fields that the sender neither declares nor matches by a pattern.
    fn rest(&mut self, comes: &Fields<'a>, takes: &Fields<'a>) -> bool {
        let Some(rest) = comes.rest else {
            return true;
        };
        let mut fits = self.below(".*", |all| {
            let Some(other) = takes.rest else {
                return all.differ(|_| ("may have any other field", "takes no other fields"));
            };
            let own = comes.rule.names.unwrap_or(ANY_ID);
            let names = all.takes_names(own, None, takes);
            names & all.fit_all(rest, takes.patterns_and(other))
        });
        let names = comes.rule.names.map(|names| {
            let may = |name: &&str| self.comes.graph.takes(names, &(*name).into());
            takes.named().map(|(name, _)| name).filter(may).collect::<HashSet<_>>()
        });
        let is_one = |name: &str| {
            !comes.names(name) && names.as_ref().is_none_or(|names| names.contains(name))
        };
        fits &= self.unnamed(rest, takes, is_one);
        fits
    }

    /// Reports fields that the receiver requires beside another one and the sender may leave out.
    fn dependent(&mut self, comes: &Fields<'a>, takes: &Fields<'a>) -> bool {
        let mut fits = true;
        for (name, needed) in &takes.rule.depends {
            if !comes.may_have(name) {
                continue;
            }
            let own = comes.rule.depends.iter().filter(|(own, _)| own == name);
            let own: HashSet<_> = own.flat_map(|(_, needed)| needed).map(String::as_str).collect();
            for other in needed.iter().map(String::as_str) {
                if !self.spend(1) {
                    return false;
                }
                let present = comes.required.contains(other)
                    || own.contains(other) && !self.may_be_left_out(other, comes.rule, takes);
                if present {
                    continue;
                }
                let words = || format!("is required beside `{}`", shown(name));
                fits &= self.below_field(other, |all| all.differ(|_| ("may be missing", words())));
            }
        }
        fits
    }
}
