//! Comparing unions and listed values: some member must accept each sent value.
//!
//! ```text
//! sent: integer or null     accepted: anyOf [integer, string]
//! → may be null, takes an integer or a string
//! ```
//!
//! A sent union is compared member by member ([`Comparing::each_member`]). For an accepted union,
//! one member must accept all sent values of a type ([`Comparing::some_member`]): two members that
//! accept them only together are reported as a difference. Sent values that are listed are checked
//! one by one ([`Comparing::values`]), as reading would check them.

use std::collections::HashSet;

use serde_json::Value;

use super::{Comparing, is_rule, takes_all};
use crate::limits::HOPS;
use crate::lowering::overlap::Overlap;
use crate::reading::fit_check::{Fits, canonical, number, text};
use crate::reading::pattern::Pattern;

use crate::schema::graph::{Id, Node, Shape};
use crate::schema::keywords::{Keywords, text as text_of};
use crate::schema::types::Types;

impl<'a> Comparing<'a> {
    /// Compares each member of the sent union.
    ///
    /// ```text
    /// sent: anyOf [A, B]     accepted: anyOf [C, D]
    /// → A with C, B with D; only if one of these fails, it is compared with the whole union
    /// ```
    pub(super) fn each_member(&mut self, members: &'a [Id], kinds: Types, takes: Id) -> bool {
        let twins = match self.takes.graph.shape(takes) {
            // A value of one member may fit others too.
            Shape::Union(members) if !self.is_one_of(takes) => members.as_slice(),
            _ => &[],
        };
        let some = std::mem::replace(&mut self.some, true);
        let mut fits = true;
        for (i, member) in members.iter().enumerate() {
            // Unions of the same origin have their members in the same order.
            let twin = twins.get(i);
            if twin.is_some_and(|twin| self.tries(*member, kinds, *twin)) {
                continue;
            }
            fits &= self.fit(*member, kinds, takes);
            if !fits && (self.trying || self.is_over()) {
                break;
            }
        }
        self.some = some;
        fits
    }

    /// Whether the receiver's union takes a value only if exactly one member does.
    pub(super) fn is_one_of(&self, takes: Id) -> bool {
        self.takes.words(takes).contains_key("oneOf")
    }

    /// Whether a value of some types could fit two members of a `oneOf`, which then excludes it.
    pub(super) fn may_exclude(&self, members: &[Id], own: Types, takes: Id) -> bool {
        let graph = &self.takes.graph;
        let meant = members.iter().filter(|id| graph.node(**id).types.meets(own));
        let meant: Vec<Id> = meant.copied().collect();
        self.is_one_of(takes) && (self.excludes_more || Overlap::new(self.takes, false).any(&meant))
    }

    /// Checks that for each type some member accepts all sent values.
    ///
    /// If none does, the report is as precise as possible: with one member that could be meant, its
    /// differences; otherwise the whole union.
    pub(super) fn some_member(
        &mut self,
        comes: Id,
        own: Types,
        kinds: Types,
        members: &'a [Id],
        takes: Id,
    ) -> bool {
        let parts = Types::EACH.into_iter().map(|part| part.common(own));
        let parts: Vec<Types> = parts.filter(|part| *part != Types::NONE).collect();
        if own != Types::ALL && parts.len() > 1 {
            return self.each_part(comes, &parts, takes);
        }
        let fits = |this: &mut Self, part| {
            !this.is_over() && members.iter().any(|member| this.tries(comes, part, *member))
        };
        if parts.iter().all(|part| fits(self, *part)) {
            return true;
        }
        if self.trying {
            return false;
        }
        let ours = self.comes.graph.node(comes);
        let mut near = members.iter().filter(|member| self.may_be_meant(ours, own, **member));
        // A value that only one member can accept is compared with that member.
        if let (Some(only), None) = (near.next(), near.next()) {
            return self.fit(comes, own, *only);
        }
        self.differ(|all| (all.may_be(comes, own, kinds), all.takes(takes)))
    }

    /// Compares each type of the sent values separately, because each may have a member of its own.
    fn each_part(&mut self, comes: Id, parts: &[Types], takes: Id) -> bool {
        let some = std::mem::replace(&mut self.some, true);
        let fits = parts.iter().fold(true, |fits, part| self.fit(comes, *part, takes) & fits);
        self.some = some;
        fits
    }

    /// Whether a member accepts the sent type, and no tag distinguishes them.
    ///
    /// ```text
    /// sent: {"kind": const "circle"}     member: {"kind": const "square"}     → not meant
    /// ```
    fn may_be_meant(&self, ours: &Node, own: Types, member: Id) -> bool {
        let theirs = self.takes.graph.node(member);
        if let Shape::Union(_) = theirs.shape {
            return true;
        }
        let apart = ours.object.described().any(|field| {
            let other = theirs.object.described_field(&field.name);
            let other = other.map(|other| self.takes.graph.node(other.node));
            let other = other.filter(|other| other.shape == Shape::Values);
            let ours = self.comes.graph.node(field.node);
            other.filter(|_| ours.shape == Shape::Values).is_some_and(|other| {
                let theirs = values_of(other);
                !ours.listed().into_iter().any(|one| theirs.contains(&canonical(one)))
            })
        });
        theirs.types.meets(own) && !apart
    }

    /// Checks that each of some values is accepted.
    ///
    /// All rejected values are reported in one line.
    pub(super) fn values(&mut self, values: Vec<&'a Value>, own: Types, takes: Id) -> bool {
        let theirs = self.takes.graph.node(takes);
        // If there are further rules, each value is compared separately.
        let says_more = self.takes.words(takes).keys().any(|word| is_rule(word, Types::ALL));
        let listed = theirs.shape == Shape::Values && !says_more;
        let known = listed.then(|| values_of(theirs));
        let can_match = !has_unknown_pattern(self.takes.words(takes));
        let of_own = |value: &&Value| own.meets(Types::of_value(value));
        let refused = values.into_iter().filter(of_own).filter(|value| match &known {
            // A list of values may have further rules for each of them.
            Some(known) => {
                !(known.contains(&canonical(value)) && can_match && has_form(theirs, value))
            }
            None => !self.takes_value(takes, value),
        });
        let refused: Vec<_> = refused.collect();
        refused.is_empty()
            || self.differ(|all| {
                let values = format!("may be {}", super::descriptions::values(&refused));
                (values, all.takes(takes))
            })
    }

    /// Whether a value is accepted, as far as this is known without reading it.
    pub(super) fn takes_value(&mut self, takes: Id, value: &Value) -> bool {
        self.judged(takes, value, HOPS) == Some(true)
    }

    /// Returns whether one value is accepted, following at most `hops` references and unions; `None` if
    /// that is not certain, because of rules that cannot be checked.
    fn judged(&mut self, takes: Id, value: &Value, hops: usize) -> Option<bool> {
        if takes_all(self.takes, takes) {
            return Some(true);
        }
        if hops == 0 || !self.spend(1) {
            return None;
        }
        let graph = &self.takes.graph;
        match graph.shape(takes) {
            Shape::Reference(target) => return self.judged(*target, value, hops - 1),
            Shape::Union(members) => {
                let count = |verdicts: &[Option<bool>], verdict| {
                    verdicts.iter().filter(|one| **one == Some(verdict)).count()
                };
                let verdicts = members.iter().map(|member| self.judged(*member, value, hops - 1));
                let verdicts: Vec<_> = verdicts.collect();
                let (taken, refused) = (count(&verdicts, true), count(&verdicts, false));
                // A value that two members of a `oneOf` take is refused too, but not certainly.
                let is_taken = match self.is_one_of(takes) {
                    true => taken == 1 && refused == members.len() - 1 && !self.excludes_more,
                    false => taken > 0,
                };
                return (is_taken || refused == members.len()).then_some(is_taken);
            }
            _ => {}
        }
        if !graph.takes(takes, value) {
            return (!is_large(value)).then_some(false);
        }
        let (words, own) = (self.takes.words(takes), Types::of_value(value));
        let ruled = words.keys().any(|keyword| keyword != "allOf" && is_rule(keyword, own))
            || value.is_string() && has_unknown_pattern(words);
        // A `oneOf` below is not checked by the graph.
        let may_exclude = (value.is_array() || value.is_object())
            && graph.all_below(takes).into_iter().any(|id| self.is_one_of(id));
        let mut parts = graph.node(takes).also.iter();
        let is_taken = !ruled
            && !may_exclude
            && parts.all(|part| self.judged(*part, value, hops - 1) == Some(true));
        is_taken.then_some(true)
    }
}

/// Returns the listed values of a node, in their canonical form.
fn values_of(node: &Node) -> HashSet<String> {
    node.listed().into_iter().map(canonical).collect()
}

/// Whether the check of a value could end at its limit of work, which is no answer.
pub(super) fn is_large(value: &Value) -> bool {
    /// Number of bytes.
    const LARGE: usize = 500;
    matches!(value, Value::Array(_) | Value::Object(_)) && value.to_string().len() > LARGE
}

/// Whether a scalar fits its format and its bounds.
fn has_form(node: &Node, value: &Value) -> bool {
    match value {
        Value::String(found) => text(found, &node.text),
        Value::Number(found) => number(&found.to_string(), node.types, &node.number) != Fits::No,
        _ => true,
    }
}

/// Whether there is a pattern that cannot be matched here.
fn has_unknown_pattern(words: &Keywords) -> bool {
    text_of(words, "pattern").is_some_and(|pattern| !Pattern::new(pattern).is_known())
}
