//! The example `stored_run`, killed at every boundary of its parts and started again.

use std::path::Path;

use serde_json::json;

use crate::common::{program, run};

/// The parts of the run, in order.
const PARTS: [&str; 4] = ["llm-0", "a", "b", "llm-1"];

/// Runs the program until it ends. Returns its answer, how often it died, and its log.
fn to_the_end(folder: &Path, crash_at: &str, effect: &str) -> (String, u32, Vec<String>) {
    let call = |id: &str| json!({"id": id, "tool": "echo", "args": {"i": id}});
    let plan = json!([{"Tools": [call("a"), call("b")]}, {"Answer": "Done."}]).to_string();
    let (db, log) = (folder.join("run.db"), folder.join("log"));
    for died in 0..3 {
        let mut program = program("stored_run");
        program.arg(&db).env("EXEC_LOG", &log).env("CRASH_AT", crash_at);
        let ran = run(program.env("EFFECT", effect).env("PLAN", &plan));
        if ran.code == Some(0) {
            let log = std::fs::read_to_string(&log).unwrap();
            return (ran.stdout, died, log.lines().map(str::to_owned).collect());
        }
        assert_eq!(ran.code, None, "{crash_at}: {}", ran.stderr);
    }
    panic!("{crash_at}: it dies again and again");
}

#[test]
fn a_killed_program_goes_on_and_repeats_nothing_that_had_ended() {
    for effect in ["read", "write"] {
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
                let alone = effect == "write" || part.starts_with("llm");
                for other in PARTS.into_iter().filter(|other| *other != part) {
                    let most = if alone || when == "after" { 1 } else { 2 };
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
