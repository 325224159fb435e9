use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Where each name stands in the group.
pub(crate) type ByName = HashMap<Box<str>, usize, BuildHasherDefault<NameHasher>>;

/// Hashes short texts quickly, eight bytes at a time.
///
/// The standard hasher guards against keys chosen to collide. These keys are the
/// program's own; a model only looks names up.
#[derive(Default)]
pub(crate) struct NameHasher(u64);

impl NameHasher {
    fn mix(&mut self, word: u64) {
        // The golden ratio: odd, and its bits are all over the place.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        // A product's lower bits know nothing of a factor's higher ones, so the upper half
        // is folded in: a map takes a name's place from one end and its tag from the other.
        let product = u128::from(self.0 ^ word) * u128::from(SPREAD);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        match bytes.last_chunk() {
            Some(last) => {
                bytes.as_chunks().0.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
                // Overlaps the one before: a shorter rest would have to be copied.
                self.mix(u64::from_le_bytes(*last));
            }
            None => self.mix(bytes.iter().fold(1, |word, byte| word << 8 | u64::from(*byte))),
        }
    }

    /// What a text ends with when it is hashed among others; here there is only one.
    fn write_u8(&mut self, _end: u8) {}

    fn finish(&self) -> u64 {
        self.0
    }
}
