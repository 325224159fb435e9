//! The example `durable_postgres` as two workers, of which one is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolwright_postgres::{RunStatus, Runs};

use crate::support::{VARIABLE, database, until};

/// The parts of the run. Those of one line run side by side if they read.
const WAVES: [&[&str]; 5] = [&["llm-0"], &["a", "b", "c"], &["llm-1"], &["d"], &["llm-2"]];

/// Number of runs that are worked on at once.
const RUNS: usize = 64;

fn plan() -> String {
    let call = |id: &str| json!({"id": id, "tool": "echo", "args": {"i": id}});
    let calls = [call("a"), call("b"), call("c")];
    json!([{"Tools": calls}, {"Tools": [call("d")]}, {"Answer": "Done."}]).to_string()
}

/// Starts a worker.
fn worker(url: &str, id: &str, log: &Path, variables: &[(&str, &str)]) -> Child {
    // Tests lie in target/…/deps, programs beside them in target/…/examples.
    let mut path: PathBuf = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push(format!("examples/durable_postgres{}", std::env::consts::EXE_SUFFIX));
    assert!(path.exists(), "{} is not built; run `cargo test` without `--test`", path.display());
    Command::new(path)
        .arg(id)
        .env(VARIABLE, url)
        .env("EXEC_LOG", log)
        .env("PLAN", plan())
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for a worker. Returns its exit code, which is `None` if it was killed, and its output.
fn wait(worker: Child) -> (Option<i32>, String) {
    let output = worker.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[tokio::test]
async fn of_two_workers_one_is_killed_at_each_boundary_and_the_other_goes_on() {
    let Some(database) = database().await else { return };
    let (mut boundaries, mut lost, began) = (0, 0, Instant::now());
    for effect in ["read", "idempotent", "write"] {
        for wave in WAVES {
            for part in wave {
                for when in ["before", "effect", "after"] {
                    let at = format!("{when}:{part}");
                    let kill = |lease: &'static str| {
                        kill_one_at(&database.url, effect, wave, part, when, &at, lease)
                    };
                    // On a busy machine a living worker may lose a short lease, and a part is done
                    // again. With a long one this cannot be the reason.
                    let fails = |lease| std::panic::catch_unwind(|| kill(lease)).is_err();
                    if fails("400") {
                        lost += 1;
                        if fails("5000") {
                            kill("30000");
                        }
                    }
                    boundaries += 1;
                }
            }
        }
    }
    println!("{boundaries} of 63 boundaries in {:.0?}, {lost} again", began.elapsed());
}

fn kill_one_at(
    url: &str,
    effect: &str,
    wave: &[&str],
    part: &str,
    when: &str,
    at: &str,
    lease: &str,
) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let id = format!("{when}-{part}-{lease}");
    let variables = [("CRASH_AT", at), ("EFFECT", effect), ("LEASE_MS", lease), ("STEP_MS", "5")];
    let workers = [0, 1].map(|_| worker(url, &id, &log, &variables));
    let ended = workers.map(wait);
    let killed = ended.iter().filter(|(code, _)| code.is_none()).count();
    assert_eq!(killed, 1, "{effect}, {at}: {ended:?}");
    let answered = ("\"Done.\"", Some(0));
    let answers = ended.iter().filter(|(code, text)| (text.trim(), *code) == answered).count();
    assert_eq!(answers, 1, "{effect}, {at}: {ended:?}");

    let log = fs::read_to_string(&log).unwrap();
    let count = |name: &str| log.lines().filter(|line| *line == name).count();
    for other in WAVES.into_iter().flatten().copied() {
        let most = if other == part {
            // What was done, and not recorded, is done again.
            let times = 1 + usize::from(when == "effect");
            assert_eq!(count(other), times, "{effect}, {at}: {log}");
            continue;
        } else if wave.contains(&other) && when != "after" && effect == "read" {
            // It may have been under way.
            2
        } else {
            1
        };
        assert!((1..=most).contains(&count(other)), "{effect}, {at}, {other}: {log}");
    }
    let asks = effect == "write" && when != "after" && !part.starts_with("llm");
    assert_eq!(log.matches("asked:").count(), usize::from(asks), "{effect}, {at}: {log}");
    assert_eq!(count(&format!("asked:{part}")), usize::from(asks), "{effect}, {at}: {log}");
}

/// Kills one of two workers at random moments while they work on 64 runs with every kind of effect,
/// and starts it again. `KILLS` sets how often. Default: 1,000.
#[tokio::test]
#[ignore = "takes minutes"]
async fn heavy_workers_that_are_killed_at_random_moments_end_each_run_once_and_right() {
    let number = |name: &str, default| match std::env::var(name) {
        Ok(text) => text.parse().unwrap(),
        Err(_) => default,
    };
    let (kills, mut seed) = (number("KILLS", 1_000), number("SEED", 0x9e37_79b9_7f4a_7c15));
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let (mut killed, mut sets, began) = (0, 0, Instant::now());
    while killed < kills {
        let Some(database) = database().await else { return };
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let runs = RUNS.to_string();
        let variables = [("RUNS", runs.as_str()), ("LEASE_MS", "500"), ("STEP_MS", "2")];
        let start = || worker(&database.url, "r", &log, &variables);
        let mut workers = [Some(start()), Some(start())];
        let mut answers = Vec::new();
        sets += 1;
        while workers.iter().any(Option::is_some) {
            let wait_for = if killed < kills { random(500) } else { 20 };
            std::thread::sleep(Duration::from_millis(wait_for));
            if killed < kills {
                let chosen = usize::try_from(random(2)).unwrap();
                if let Some(mut child) = workers[chosen].take() {
                    // It may have ended before.
                    let _ = child.kill();
                    match wait(child) {
                        (None, _) => {
                            killed += 1;
                            workers[chosen] = Some(start());
                        }
                        (code, text) => {
                            assert_eq!(code, Some(0));
                            answers.push(text);
                        }
                    }
                }
            }
            for place in &mut workers {
                if let Some(mut child) = place.take() {
                    match child.try_wait().unwrap() {
                        None => *place = Some(child),
                        Some(status) => {
                            assert_eq!(status.code(), Some(0));
                            answers.push(wait(child).1);
                        }
                    }
                }
            }
        }
        for answers in answers {
            check(&database.url, &answers, &fs::read_to_string(&log).unwrap()).await;
        }
    }
    let time = began.elapsed();
    println!(
        "{killed} kills in {sets} sets of {RUNS} runs, {time:.0?}: every run ended once and right"
    );
}

/// Kills the server at random moments while two workers work on 64 runs, and starts it again.
/// `TOOLWRIGHT_POSTGRES_RESTART` names the program that does so.
#[tokio::test]
#[ignore = "kills the server"]
async fn heavy_a_server_that_is_killed_ends_no_drive_and_loses_nothing() {
    let Some(database) = database().await else { return };
    let Ok(restart) = std::env::var("TOOLWRIGHT_POSTGRES_RESTART") else {
        println!("skipped: run tests/server.sh");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (log, runs) = (folder.path().join("log"), RUNS.to_string());
    let variables = [("RUNS", runs.as_str()), ("LEASE_MS", "30000"), ("STEP_MS", "2000")];
    let mut workers = [0, 1].map(|_| worker(&database.url, "r", &log, &variables));
    let began = Instant::now();
    // When a worker has every run.
    until("the first question of each run", async || {
        let log = fs::read_to_string(&log).unwrap_or_default();
        log.matches("/llm-0").count() >= RUNS
    })
    .await;
    let mut kills = 0;
    while workers.iter_mut().any(|worker| worker.try_wait().unwrap().is_none()) {
        if kills < 5 {
            assert!(Command::new(&restart).status().unwrap().success());
            kills += 1;
        }
        // Longer than the pause between two tries.
        std::thread::sleep(Duration::from_secs(3));
    }
    let time = began.elapsed();
    let log = fs::read_to_string(&log).unwrap();
    assert!(!log.contains("asked:"), "no worker died");
    for worker in workers {
        let (code, answers) = wait(worker);
        assert_eq!(code, Some(0));
        check(&database.url, &answers, &log).await;
    }
    let again = database.number("SELECT count(*) FROM toolwright_runs WHERE lease > 2").await;
    assert_eq!(again, 0, "drives ended, and began again");
    println!("{kills} kills of the server under {RUNS} runs, {time:.0?}: no drive ended");
}

/// Checks that each run has its answer, and that nothing with a recorded outcome was done again.
async fn check(url: &str, answers: &str, log: &str) {
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
    for (place, effect) in ["Read", "Idempotent", "Write"].into_iter().enumerate() {
        let runs = Runs::connect(url, effect).await.unwrap();
        let listed = runs.runs().await.unwrap();
        assert_eq!(listed.len(), (RUNS + 2 - place) / 3);
        for number in (place..RUNS).step_by(3) {
            let id = format!("r-{number}");
            assert_eq!(answers[&id], format!("{id}/Done."));
            let run = listed.iter().find(|run| run.id == id).unwrap();
            assert_eq!((run.status, &run.worker), (RunStatus::Finished, &None));
            for part in WAVES.into_iter().flatten() {
                let name = format!("{id}/{part}");
                let count = |counts: &BTreeMap<&str, usize>| counts.get(&*name).copied();
                let times = count(&done).unwrap_or_else(|| panic!("{name} was never done"));
                let questions = count(&asked).unwrap_or_default();
                if effect == "Write" && !part.starts_with("llm") {
                    assert!(times <= 1 + questions, "{name}: {times} times, {questions} questions");
                } else {
                    assert_eq!(questions, 0, "{name}");
                }
            }
            let kept: Value = serde_json::to_value(runs.records(&id).await.unwrap()).unwrap();
            let ended = |kind: &str| {
                let of_kind =
                    |record: &&Value| record["ended"]["outcome"]["kind"].get(kind).is_some();
                let records = kept.as_array().unwrap().iter().filter(of_kind);
                let keys: Vec<&str> =
                    records.filter_map(|record| record["ended"]["key"].as_str()).collect();
                (keys.len(), keys.iter().collect::<BTreeSet<_>>().len())
            };
            assert_eq!((ended("called"), ended("reply")), ((4, 4), (3, 3)), "{id}");
        }
    }
}
