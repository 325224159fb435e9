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
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(SPREAD);
    }
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.mix(u64::from_le_bytes(word));
        }
    }

    /// What a text ends with when it is hashed among others; here there is only one.
    fn write_u8(&mut self, _end: u8) {}

    fn finish(&self) -> u64 {
        // The map takes the lowest bits, and multiplying left the best at the top.
        self.0.rotate_left(26)
    }
}
