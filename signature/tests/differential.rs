//! Generated texts: values of the zoo with the mistakes that models make.
//!
//! `DIFFERENTIAL_CASES=4000000 cargo test --release -p toolwright-signature --test main -- differential:: --nocapture`

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::fuzzed::differential::{check, kinds};

/// Default number of texts; each is read under three policies.
const CASES: u64 = 4_000;

/// Maximum number of findings that are printed.
const PRINTED: usize = 25;

fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn a_text_with_mistakes_is_read_as_the_value_it_was_written_from_or_rejected() {
    let kinds = kinds();
    let first = asked("DIFFERENTIAL_FIRST").unwrap_or_default();
    let cases = asked("DIFFERENTIAL_CASES").unwrap_or(CASES);
    let start = Instant::now();
    let (mut read, mut found) = (0, Vec::new());
    for seed in first..first + cases {
        let before = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| check(&kinds, seed))) {
            Ok(times) => read += times,
            Err(said) => {
                let said = said.downcast_ref::<String>().cloned().unwrap_or_default();
                found.push(if said.is_empty() { format!("seed {seed}: a panic") } else { said });
            }
        }
        if before.elapsed().as_secs() >= 5 {
            found.push(format!("seed {seed} took {:?}", before.elapsed()));
        }
        if found.len() >= PRINTED {
            break;
        }
    }
    println!("{} kinds, {cases} texts, {read} times read, {:?}", kinds.len(), start.elapsed());
    assert!(found.is_empty(), "{} findings\n{}", found.len(), found.join("\n\n"));
}
