//! Restores the contract's own shape from the wire shapes of lowering.
//!
//! It reverses `lowering::value`, in every dialect. Both take their names from
//! [`wire_shapes`](crate::wire_shapes).

use std::collections::HashSet;

use crate::reading::repair_walk::{At, Level, Path, RepairWalk};
use crate::reading::tape::{Tape, TokenKind};
use crate::schema::graph::Node;
use crate::schema::types::Types;
use crate::wire_shapes::{self, KEY, VALUE};

impl RepairWalk<'_> {
    /// Restores a map from pairs, a tuple from an object, or a number or a boolean from a text of
    /// a dialect that lists texts only. Returns `None` if the value has no such shape.
    pub(super) fn restored(&mut self, at: At<'_>, node: &Node, level: Level) -> Option<bool> {
        match at.kind() {
            TokenKind::List if node.types.has(Types::OBJECT) && node.object.is_map() => {
                self.map_of_pairs(at, node, level)
            }
            TokenKind::Object if node.types.has(Types::LIST) && !node.list.prefix.is_empty() => {
                self.tuple(at, node, level)
            }
            TokenKind::Text | TokenKind::Escaped => self.listed_as_text(at, node),
            _ => None,
        }
    }

    fn map_of_pairs(&mut self, at: At<'_>, node: &Node, level: Level) -> Option<bool> {
        let pairs = pairs(at.tape, at.token)?;
        let mut seen = HashSet::new();
        self.out.push('{');
        let mut fits = true;
        for (index, (key, value)) in pairs.iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            let item = Path::Item(at.path, index);
            let path = Path::Field(&item, VALUE);
            fits &= self.entry(at.to(*value, &path), *key, node, level, &mut seen);
        }
        self.out.push('}');
        Some(fits && self.count_fits(at, node, pairs.len()))
    }

    /// Restores the further fields of a struct from pairs.
    pub(super) fn further(
        &mut self,
        at: At<'_>,
        node: &Node,
        level: Level,
        seen: &mut HashSet<String>,
    ) -> Option<bool> {
        let mut fits = true;
        for (index, (key, value)) in pairs(at.tape, at.token)?.into_iter().enumerate() {
            let item = Path::Item(at.path, index);
            let path = Path::Field(&item, VALUE);
            self.separate();
            fits &= self.entry(at.to(value, &path), key, node, level, seen);
        }
        Some(fits)
    }

    /// Restores a tuple from an object of `item_0`, `item_1`, … without other fields.
    fn tuple(&mut self, at: At<'_>, node: &Node, level: Level) -> Option<bool> {
        let entries: Vec<_> = at.tape.entries(at.token).collect();
        let of = |index: usize| {
            let name = wire_shapes::item(index);
            entries.iter().find(|(key, _)| at.tape.text(*key) == *name).map(|(_, value)| *value)
        };
        let items: Vec<usize> = (0..entries.len()).map_while(of).collect();
        let size = node.list.shortest..=node.list.longest;
        if items.len() != entries.len() || items.is_empty() || !size.contains(&items.len()) {
            return None;
        }
        let start = self.out.len();
        let mut fits = true;
        self.out.push('[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            let name = wire_shapes::item(index);
            let path = Path::Field(at.path, &name);
            fits &= match node.list.item(index) {
                Some(Some(id)) => self.value(at.to(*item, &path), id, level),
                Some(None) => self.keep(at.to(*item, &path)),
                None => self.fault(at, node, ""),
            };
        }
        self.out.push(']');
        Some(fits && self.among_items(at, node, start))
    }

    fn listed_as_text(&mut self, at: At<'_>, node: &Node) -> Option<bool> {
        let text = at.tape.text(at.token);
        let value = node.values.as_ref()?.iter().find(|value| {
            (value.is_number() || value.is_boolean()) && value.to_string() == *text
        })?;
        self.out.push_str(&value.to_string());
        Some(true)
    }

    /// Writes a comma before the next field of an object.
    pub(super) fn separate(&mut self) {
        if !self.out.ends_with('{') {
            self.out.push(',');
        }
    }
}

/// Returns the tokens of keys and values in a list of pairs: objects with a key, a value and no
/// other field.
fn pairs(tape: &Tape<'_>, list: usize) -> Option<Vec<(usize, usize)>> {
    if tape.kind(list) != TokenKind::List {
        return None;
    }
    tape.items(list).map(|item| pair(tape, item)).collect()
}

fn pair(tape: &Tape<'_>, item: usize) -> Option<(usize, usize)> {
    if tape.kind(item) != TokenKind::Object {
        return None;
    }
    let mut entries = tape.entries(item);
    let (one, two, none) = (entries.next()?, entries.next()?, entries.next());
    let of = |name: &str| [one, two].into_iter().find(|(key, _)| tape.text(*key) == name);
    let ((_, key), (_, value)) = (of(KEY)?, of(VALUE)?);
    (none.is_none() && tape.is_text(key)).then_some((key, value))
}
