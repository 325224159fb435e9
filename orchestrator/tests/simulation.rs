//! Thousands of random runs, with properties that every one must have, whatever its models, tools,
//! people and clock do.
//!
//! The clock is tokio's paused clock, so a hanging tool takes no time. A run follows from its seed.
//! A failure prints the seed and the command that repeats it.

mod by_hand;
mod cast;
pub(crate) mod chance;
mod checks;
mod driven;
mod waiting;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use driven::{OF_ONE_CAST, Played, Stage};

/// Default number of runs.
const RUNS: u64 = 10_000;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

fn play(stage: &mut Stage, seed: u64, trace: bool) -> Played {
    let played = catch_unwind(AssertUnwindSafe(|| stage.play(seed, trace)));
    played.unwrap_or_else(|panic| {
        *stage = Stage::new();
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Played { wrong: vec![format!("a panic came out: {text:?}")], trace: String::new() }
    })
}

#[test]
fn every_random_run_satisfies_every_check() {
    if let Some(seed) = number("SIMULATION_SEED") {
        let played = play(&mut Stage::new(), seed, true);
        println!("{}", played.trace);
        assert!(played.wrong.is_empty(), "run {seed}:\n{}", played.wrong.join("\n"));
        return;
    }
    let runs = number("SIMULATION_RUNS").unwrap_or(RUNS);
    let first = number("SIMULATION_FIRST").unwrap_or(0);
    let (next, failed) = (AtomicU64::new(first), AtomicBool::new(false));
    let failures = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut stage = Stage::new();
                while !failed.load(Ordering::Relaxed) {
                    let begin = next.fetch_add(OF_ONE_CAST, Ordering::Relaxed);
                    if begin >= first + runs {
                        return;
                    }
                    for seed in begin..begin + OF_ONE_CAST {
                        let played = play(&mut stage, seed, false);
                        if !played.wrong.is_empty() {
                            failed.store(true, Ordering::Relaxed);
                            failures.lock().unwrap().push((seed, played.wrong));
                            break;
                        }
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    if let Some((seed, wrong)) = failures.first() {
        panic!(
            "run {seed} of {runs}:\n{}\nplay it again:\nSIMULATION_SEED={seed} cargo test -p toolwright-orchestrator --test main -- simulation:: --nocapture",
            wrong.join("\n"),
        );
    }
}
