//! A hash that is the same in every release.

/// Returns the FNV-1a hash of texts in order, with 128 bits, for a key or a fingerprint in a store.
///
/// It is the same on every machine and in every version. The hashers of the standard library may change
/// between releases. It does not protect against an attacker.
#[must_use]
pub fn stable_hash<'a>(texts: impl IntoIterator<Item = &'a str>) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    // The separator distinguishes ("ab", "c") from ("a", "bc").
    let bytes = texts.into_iter().flat_map(|text| text.bytes().chain([0xff]));
    bytes.fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}
