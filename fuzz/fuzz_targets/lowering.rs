#![no_main]

#[path = "../../signature/tests/fuzzed/lowering.rs"]
mod lowering;

libfuzzer_sys::fuzz_target!(|input: &[u8]| lowering::check(input));
