//! Pseudo-random numbers: the same seed gives the same numbers on every machine.

/// A stream of numbers (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns an independent stream for each text.
    pub(crate) fn of(seed: u64, text: &str) -> Self {
        Self(mix(seed, text))
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.number() % end.max(1)
    }

    pub(crate) fn size(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    /// Returns true in `cases` of a hundred cases.
    pub(crate) fn percent(&mut self, cases: u64) -> bool {
        self.below(100) < cases
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.size(from.len())].clone()
    }

    /// Returns the index of a random weight.
    pub(crate) fn weighed<const N: usize>(&mut self, weights: [u64; N]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (place, weight) in weights.into_iter().enumerate() {
            match left.checked_sub(weight) {
                Some(less) => left = less,
                None => return place,
            }
        }
        N - 1
    }
}

/// Returns FNV-1a over the text, starting from the seed.
pub(crate) fn mix(seed: u64, text: &str) -> u64 {
    let mut hash = seed ^ 0xcbf2_9ce4_8422_2325;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash
}
