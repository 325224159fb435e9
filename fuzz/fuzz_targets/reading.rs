#![no_main]

#[path = "../../signature/tests/fuzzed/reading.rs"]
mod reading;
#[path = "../../signature/tests/zoo/mod.rs"]
mod zoo;

libfuzzer_sys::fuzz_target!(|input: &[u8]| reading::check(input));
