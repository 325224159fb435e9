#![no_main]

#[path = "../../signature/tests/fuzzed/partial.rs"]
mod partial;

libfuzzer_sys::fuzz_target!(|input: &[u8]| partial::check(input));
