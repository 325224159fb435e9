//! Restores the contract's own shape from the wire shapes of lowering.
//!
//! In: a value in the shape that a dialect asks for. Out: the value in the shape of the type. It
//! reverses `lowering::value`, in every dialect, and is not a repair. Both take their names from
//! [`wire_shapes`].
//!
//! ```text
//! [{"key": "a", "value": 1}]     →  {"a":1}     a map
//! {"item_0": 1, "item_1": "x"}   →  [1,"x"]     a tuple
//! "5", if the enum lists 5       →  5           a listed number or boolean
//! ```
//!
//! Begin with [`RepairWalk::restored`].

use std::collections::HashSet;

use crate::reading::repair_walk::{At, Path, RepairWalk};
use crate::reading::tape::{Tape, TokenKind};
use crate::schema::graph::Node;
use crate::schema::types::Types;
use crate::wire_shapes::{self, KEY, VALUE};

impl RepairWalk<'_> {
    /// Restores a map from pairs, a tuple from an object, or a number or a boolean from a text of
    /// a dialect that lists texts only. Returns `None` if the value has no such shape.
    pub(super) fn restored(&mut self, at: At<'_>, node: &Node) -> Option<bool> {
        match at.kind() {
            TokenKind::List if node.types.has(Types::OBJECT) && node.object.is_map() => {
                self.map_of_pairs(at, node)
            }
            TokenKind::Object if node.types.has(Types::LIST) && !node.list.prefix.is_empty() => {
                self.tuple(at, node)
            }
            TokenKind::Text | TokenKind::Escaped => self.listed_as_text(at, node),
            _ => None,
        }
    }

    /// Restores a map from a list of pairs.
    fn map_of_pairs(&mut self, at: At<'_>, node: &Node) -> Option<bool> {
        let start = self.out.len();
        self.out.push('{');
        let Some(fits) = self.further(at, node, &mut HashSet::new()) else {
            self.out.truncate(start);
            return None;
        };
        self.out.push('}');
        Some(fits && self.count_fits(at, node, at.tape.items(at.token).count()))
    }

    /// Restores the entries of a map, or the further fields of a struct, from pairs. Returns `None`
    /// and writes nothing if the value is not a list of pairs. `seen` has the keys before them.
    pub(super) fn further(
        &mut self,
        at: At<'_>,
        node: &Node,
        seen: &mut HashSet<String>,
    ) -> Option<bool> {
        let mut fits = true;
        for (index, (key, value)) in pairs(at.tape, at.token)?.into_iter().enumerate() {
            let item = Path::Item(at.path, index);
            let path = Path::Field(&item, VALUE);
            self.separate();
            fits &= self.entry(at.to(value, &path), key, node, seen);
        }
        Some(fits)
    }

    /// Restores a tuple from an object of `item_0`, `item_1`, … without other fields.
    ///
    /// ```text
    /// {"item_0": 1, "item_1": "x"}   →  [1,"x"]
    /// {"item_0": 1, "name": "x"}     →  not a tuple
    /// ```
    fn tuple(&mut self, at: At<'_>, node: &Node) -> Option<bool> {
        let count = at.tape.entries(at.token).count();
        let of = |index: usize| at.tape.field(at.token, &wire_shapes::item(index));
        let items: Vec<usize> = (0..count).map_while(of).collect();
        let size = node.list.shortest..=node.list.longest;
        let is_tuple = items.len() == count && !items.is_empty() && size.contains(&count);
        is_tuple.then(|| self.items(at, node, &items))
    }

    /// Restores a listed number or boolean from its text.
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
    let pair = |item| {
        let (key, value) = (tape.field(item, KEY)?, tape.field(item, VALUE)?);
        let alone = tape.kind(item) == TokenKind::Object && tape.entries(item).nth(2).is_none();
        (alone && tape.is_text(key)).then_some((key, value))
    };
    (tape.kind(list) == TokenKind::List).then(|| tape.items(list).map(pair).collect())?
}
