//! The example `durable_file`, killed at every boundary of its parts and started again, and killed at
//! random moments while it drives many runs at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolwright_journal::{Journal, RunStatus};

use crate::common::{program, run};

/// The parts of the run, in order.
const PARTS: [&str; 4] = ["llm-0", "a", "b", "llm-1"];

/// Number of runs that are driven at once.
const RUNS: usize = 64;

fn plan() -> String {
    let call = |id: &str| json!({"id": id, "tool": "echo", "args": {"i": id}});
    json!([{"Tools": [call("a"), call("b")]}, {"Answer": "Done."}]).to_string()
}

/// Runs the program until it ends. Returns its answer, how often it died, and its log.
fn to_the_end(folder: &Path, crash_at: &str, effect: &str) -> (String, u32, Vec<String>) {
    let (file, log) = (folder.join("runs/letter.journal"), folder.join("log"));
    for died in 0..3 {
        let mut program = program("durable_file");
        program.arg(&file).env("EXEC_LOG", &log).env("CRASH_AT", crash_at);
        let ran = run(program.env("EFFECT", effect).env("PLAN", plan()));
        if ran.code == Some(0) {
            let log = fs::read_to_string(&log).unwrap();
            return (ran.stdout, died, log.lines().map(str::to_owned).collect());
        }
        assert_eq!(ran.code, None, "{crash_at}: {}", ran.stderr);
    }
    panic!("{crash_at}: it dies again and again");
}

#[test]
fn a_journaled_run_goes_on_and_repeats_nothing_that_had_ended() {
    for effect in ["read", "idempotent", "write"] {
        for (place, part) in PARTS.into_iter().enumerate() {
            for when in ["before", "effect", "after"] {
                let folder = tempfile::tempdir().unwrap();
                let at = format!("{when}:{part}");
                let (answer, died, log) = to_the_end(folder.path(), &at, effect);
                assert_eq!((answer.trim(), died), ("\"Done.\"", 1), "{effect}, {at}");
                let count = |name: &str| log.iter().filter(|line| *line == name).count();
                // What was done, and not recorded, is done again.
                let twice = usize::from(when == "effect");
                assert_eq!(count(part), 1 + twice, "{effect}, {at}: {log:?}");
                // Calls that read run side by side, so a sibling may have been under way.
                let alone = effect != "read" || part.starts_with("llm");
                for other in PARTS.into_iter().filter(|other| *other != part) {
                    let most = if alone { 1 } else { 2 };
                    assert!((1..=most).contains(&count(other)), "{effect}, {at}: {log:?}");
                }
                let is_call = place == 1 || place == 2;
                let asks = effect == "write" && is_call && when != "after";
                let asked = count(&format!("asked:{part}"));
                assert_eq!(asked, usize::from(asks), "{effect}, {at}: {log:?}");
            }
        }
    }
}

/// Kills the program at random moments while it drives 64 runs with every kind of effect. `KILLS`
/// sets how often. Default: 1,000.
#[test]
#[ignore = "takes minutes"]
fn heavy_runs_that_are_killed_at_random_moments_end_once_and_right() {
    let number = |name: &str, default| match std::env::var(name) {
        Ok(text) => text.parse().unwrap(),
        Err(_) => default,
    };
    let (kills, mut seed) = (number("KILLS", 1_000), number("SEED", 0x9e37_79b9_7f4a_7c15));
    let (mut killed, mut rounds, began) = (0, 0, Instant::now());
    while killed < kills {
        rounds += 1;
        let folder = tempfile::tempdir().unwrap();
        let (file, log) = (folder.path().join("runs/r.journal"), folder.path().join("log"));
        let answers = loop {
            let mut program = program("durable_file");
            program.arg(&file).env("EXEC_LOG", &log).env("PLAN", plan()).env("STEP_MS", "2");
            program.env("RUNS", RUNS.to_string()).stdout(Stdio::piped());
            let mut child = program.spawn().unwrap();
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            if killed < kills {
                std::thread::sleep(Duration::from_micros(seed % 250_000));
                // The program may have ended before.
                let _ = child.kill();
            }
            let output = child.wait_with_output().unwrap();
            match output.status.code() {
                None => killed += 1,
                Some(code) => {
                    assert_eq!(code, 0);
                    break String::from_utf8(output.stdout).unwrap();
                }
            }
        };
        check(folder.path(), &answers, &fs::read_to_string(&log).unwrap());
    }
    let time = began.elapsed();
    println!(
        "{killed} kills in {rounds} sets of {RUNS} runs, {time:.0?}: every run ended once and right"
    );
}

/// Checks that each run has its answer, and that nothing with a recorded outcome was done again.
fn check(folder: &Path, answers: &str, log: &str) {
    let answers: BTreeMap<String, String> =
        answers.lines().map(|line| serde_json::from_str::<(_, _)>(line).unwrap()).collect();
    let (mut done, mut recorded) = (BTreeMap::<&str, usize>::new(), BTreeSet::new());
    let mut asked = BTreeMap::<&str, usize>::new();
    for line in log.lines() {
        if let Some(name) = line.strip_prefix("after:") {
            assert!(recorded.insert(name), "{name} was recorded twice");
        } else if let Some(name) = line.strip_prefix("asked:") {
            assert!(!recorded.contains(name), "{name} was asked about after it was recorded");
            *asked.entry(name).or_default() += 1;
        } else {
            assert!(!recorded.contains(line), "{line} was done after it was recorded");
            *done.entry(line).or_default() += 1;
        }
    }
    let journal = Journal::open(folder.join("runs")).unwrap();
    let runs = journal.runs().unwrap();
    assert_eq!(runs.len(), RUNS);
    for number in 0..RUNS {
        let id = format!("r-{number}");
        assert_eq!(answers[&id], format!("{id}/Done."));
        assert!(runs.iter().any(|run| run.id == id && run.status == RunStatus::Finished));
        for part in PARTS {
            let name = format!("{id}/{part}");
            let (times, questions) = (done.get(&*name), asked.get(&*name));
            let (times, questions) = (times.copied().unwrap_or(0), questions.copied().unwrap_or(0));
            assert!(times >= 1, "{name} was never done");
            let writes = number % 3 == 2 && !part.starts_with("llm");
            if writes {
                assert!(times <= 1 + questions, "{name}: {times} times, {questions} questions");
            } else {
                assert_eq!(questions, 0, "{name}");
            }
        }
        let kept: Value = serde_json::to_value(journal.records(&id).unwrap()).unwrap();
        let ended = |record: &&Value| record["ended"]["outcome"]["kind"].get("called").is_some();
        assert_eq!(kept.as_array().unwrap().iter().filter(ended).count(), 2, "{id}");
    }
}
