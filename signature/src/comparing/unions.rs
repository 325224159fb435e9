//! Unions and lists of values: each that may come is taken by some.

use std::cell::Cell;

use serde_json::Value;

use super::{Comparing, Values, behind, is_rule, kinds_of, numbers, takes_all};
use crate::limits::HOPS;
use crate::lowering::fits::Fits;
use crate::lowering::shape::{Schema, listed, members};
use crate::reading::pattern::Pattern;
use crate::schema::types::Types;

impl<'a> Comparing<'a> {
    /// Whatever member it is that comes, it is taken.
    pub(super) fn each_member(
        &mut self,
        members: &'a [Value],
        kinds: Types,
        takes: &'a Value,
    ) -> bool {
        let twins = takes.as_object().and_then(|takes| super::members(takes)).unwrap_or_default();
        let some = std::mem::replace(&mut self.some, true);
        let mut fits = true;
        for (i, member) in members.iter().enumerate() {
            // Unions of one origin have their members in one order.
            let twin = twins.get(i);
            if twin.is_some_and(|twin| self.tries(member, kinds, twin)) {
                continue;
            }
            fits &= self.fit(member, kinds, takes);
            if !fits && (self.trying || self.is_over()) {
                break;
            }
        }
        self.some = some;
        fits
    }

    /// Some member takes all that comes, of each type by itself.
    pub(super) fn some_member(
        &mut self,
        comes: &'a Value,
        own: Types,
        kinds: Types,
        members: &'a [Value],
        takes: &'a Value,
    ) -> bool {
        let parts: Vec<Types> = Types::EACH
            .into_iter()
            .map(|part| part.common(own))
            .filter(|part| *part != Types::NONE)
            .collect();
        if own != Types::ALL && parts.len() > 1 {
            return self.each_part(comes, &parts, takes);
        }
        let fits = |this: &mut Self, part| {
            !this.is_over() && members.iter().any(|member| this.tries(comes, part, member))
        };
        if parts.iter().all(|part| fits(self, *part)) {
            return true;
        }
        if self.trying {
            return false;
        }
        let ours = comes.as_object();
        let mut near = members.iter().filter(|member| self.may_be_meant(ours, own, member));
        // What is meant for one member alone differs from that one.
        if let (Some(only), None) = (near.next(), near.next()) {
            return self.fit(comes, own, only);
        }
        let takes = takes.as_object();
        self.differ(|all| {
            let comes = ours.map(|ours| all.may_be(ours, own, kinds));
            let comes = comes.unwrap_or_else(|| "may be any value".to_owned());
            (comes, takes.map(|takes| all.takes(takes)).unwrap_or_default())
        })
    }

    fn each_part(&mut self, comes: &'a Value, parts: &[Types], takes: &'a Value) -> bool {
        let some = std::mem::replace(&mut self.some, true);
        let mut fits = true;
        for part in parts {
            fits &= self.fit(comes, *part, takes);
        }
        self.some = some;
        fits
    }

    /// Whether a member is of the type that comes, and no tag tells them apart.
    fn may_be_meant(&self, ours: Option<&Schema>, own: Types, member: &'a Value) -> bool {
        let member = behind(self.takes, member).unwrap_or(member);
        let (Some(ours), Some(member)) = (ours, member.as_object()) else {
            return true;
        };
        if members(member).is_some() {
            return true;
        }
        let field = |name: &str| member.get("properties")?.get(name)?.as_object();
        let ours_of = |name: &str| ours.get("properties")?.get(name)?.as_object();
        let names = ours.get("properties").and_then(Value::as_object).into_iter().flatten();
        let apart = names.map(|(name, _)| name).any(|name| {
            let theirs = field(name).and_then(listed).map(Values::new);
            let ours = ours_of(name).and_then(listed);
            theirs.zip(ours).is_some_and(|(theirs, ours)| !ours.iter().any(|one| theirs.has(one)))
        });
        kinds_of(member).meets(own) && !apart
    }

    /// Each of some values is taken.
    pub(super) fn values(&mut self, values: Vec<&'a Value>, own: Types, takes: &'a Value) -> bool {
        // Where it says more than its values, each is looked at by itself.
        let says_more = |map: &Schema| map.keys().any(|keyword| is_rule(keyword, Types::ALL));
        let map = takes.as_object().filter(|map| !says_more(map));
        let known = map.and_then(listed).map(Values::new);
        let of_own = |value: &&Value| own.has(kind_of(value));
        let mut refused = Vec::new();
        for value in values.into_iter().filter(of_own) {
            let taken = match &known {
                // Beside its values, a schema may say what each of them has to be.
                Some(known) => {
                    known.has(value)
                        && takes.as_object().is_some_and(|map| self.has_form(map, value))
                }
                None => self.takes_value(takes, value),
            };
            if !taken {
                refused.push(value);
            }
        }
        let takes = takes.as_object();
        refused.is_empty()
            || self.differ(|all| {
                let takes =
                    takes.map_or_else(|| "takes nothing".to_owned(), |takes| all.takes(takes));
                (format!("may be {}", super::words::values(&refused)), takes)
            })
    }

    /// Whether a value is taken, as far as can be seen without reading it.
    pub(super) fn takes_value(&mut self, takes: &'a Value, value: &Value) -> bool {
        self.takes_behind(takes, value, HOPS)
    }

    fn takes_behind(&mut self, takes: &'a Value, value: &Value, hops: usize) -> bool {
        if takes_all(takes) {
            return true;
        }
        let Value::Object(map) = takes else {
            return false;
        };
        if hops == 0 || !self.spend(1) {
            return false;
        }
        if let Some(target) = behind(self.takes, takes) {
            return self.takes_behind(target, value, hops - 1);
        }
        if let Some(members) = members(map) {
            return members.iter().any(|member| self.takes_behind(member, value, hops - 1));
        }
        let own = kind_of(value);
        let ruled = map.keys().any(|keyword| keyword != "allOf" && is_rule(keyword, own));
        let parts = map.get("allOf").and_then(Value::as_array).into_iter().flatten();
        let fits = Fits { root: self.takes, left: Cell::new(1_000) };
        !ruled
            && fits.fits(takes, value)
            && self.has_form(map, value)
            && parts.into_iter().all(|part| self.takes_behind(part, value, hops - 1))
    }

    /// Whether a scalar has the form that is asked for, and is inside its bounds.
    fn has_form(&self, map: &Schema, value: &Value) -> bool {
        match value {
            Value::String(text) => {
                let length = text.chars().count() as u64;
                let count = |keyword: &str| map.get(keyword).and_then(Value::as_u64);
                let pattern = map.get("pattern").and_then(Value::as_str);
                let matches = |pattern: &str| {
                    Pattern::new(pattern).is_some_and(|pattern| pattern.is_match(text))
                };
                count("minLength").is_none_or(|least| length >= least)
                    && count("maxLength").is_none_or(|most| length <= most)
                    && pattern.is_none_or(matches)
                    && self.format(map).is_none_or(|format| format.fits(text))
            }
            Value::Number(number) => numbers::takes(map, number),
            _ => true,
        }
    }
}

/// The type of a value.
fn kind_of(value: &Value) -> Types {
    match value {
        Value::Null => Types::NULL,
        Value::Bool(_) => Types::BOOLEAN,
        // Which of the two it is, its schema says.
        Value::Number(_) => Types::INTEGER,
        Value::String(_) => Types::TEXT,
        Value::Array(_) => Types::LIST,
        Value::Object(_) => Types::OBJECT,
    }
}
