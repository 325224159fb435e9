//! Evals that are used in odd ways: odd names, limits, folders and files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_evals::{Attempt, Case, Eval, Grade, Judge, Report, StoredRun, graders};
use toolwright_journal::Journal;
use toolwright_module::budget::{Budget, Ledger, Price};
use toolwright_module::model::Usage;
use toolwright_module::testing::Scripted;
use toolwright_module::{Cancellation, Context, Module, Reply, Request, Signature, from_fn};
use toolwright_orchestrator::Agent;

fn agent() -> Agent {
    Agent::new(Scripted::new(|_: &Request| Ok(Reply::text("Grüß dich!"))), []).unwrap()
}

fn passes() -> impl Module<Signature = Attempt> {
    graders::of(|_: &Attempt| Grade::pass())
}

/// An eval of this many cases, in a folder.
fn kept(cases: usize, folder: &Path) -> Eval {
    let cases = (0..cases).map(|nth| Case::new(format!("case {nth}"), "Grüße mich."));
    let eval = Eval::agent("greetings", agent()).with_cases(cases).with_grader("passes", passes());
    eval.with_concurrency(1).with_folder(folder)
}

fn attempts(folder: &Path) -> PathBuf {
    folder.join("attempts.jsonl")
}

#[tokio::test]
async fn a_line_that_a_crash_cut_inside_a_character_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    kept(2, folder.path()).run(&Context::default()).await.unwrap();
    let mut bytes = fs::read(attempts(folder.path())).unwrap();
    let cut = bytes.windows(2).rposition(|two| two == "ß".as_bytes()).unwrap() + 1;
    bytes.truncate(cut);
    fs::remove_file(folder.path().join("report.json")).unwrap();
    fs::write(attempts(folder.path()), bytes).unwrap();
    let report = kept(2, folder.path()).run(&Context::default()).await.unwrap();
    assert_eq!((report.outcomes.len(), report.left_out.len()), (2, 0));
    let text = fs::read_to_string(attempts(folder.path())).unwrap();
    assert_eq!(text.lines().count(), 3, "{text}");
}

#[tokio::test]
async fn two_evals_do_not_use_one_folder_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let waits = from_fn(async |_: Attempt| {
        tokio::time::sleep(Duration::from_secs(600)).await;
        Ok(Grade::pass())
    });
    let first = kept(1, folder.path()).with_grader("waits", waits);
    let (cx, other) = (Context::default(), Context::default());
    let mut first = Box::pin(first.run(&cx));
    tokio::select! {
        _ = &mut first => panic!("the grader waits"),
        () = tokio::time::sleep(Duration::from_millis(50)) => {}
    }
    let second = kept(1, folder.path()).run(&other).await.unwrap_err();
    assert!(second.to_string().contains("another eval uses the folder"), "{second}");
    drop(first);
    // The folder is free, but has the attempts of other graders.
    let third = kept(1, folder.path()).run(&other).await.unwrap_err();
    assert!(third.to_string().contains("results of another eval"), "{third}");
}

#[tokio::test]
async fn an_eval_whose_budget_is_spent_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let budget = |model_calls| Budget { model_calls: Some(model_calls), ..Budget::default() };
    let run = async |calls| {
        let eval = kept(5, folder.path()).with_budget(budget(calls));
        eval.run(&Context::default()).await.unwrap()
    };
    let first = run(2).await;
    assert_eq!((first.outcomes.len(), first.left_out.len()), (2, 3));
    // Three attempts are missing, and three calls pay for them.
    let second = run(3).await;
    assert_eq!((second.outcomes.len(), second.left_out.len()), (5, 0), "{second}");
    // It has ended, so it begins anew.
    assert_eq!(run(1).await.outcomes.len(), 1);
    assert_eq!(Report::load(folder.path().join("previous.json")).unwrap().outcomes.len(), 5);
}

#[tokio::test]
async fn attempts_of_two_versions_of_an_agent_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let run = async |instructions: &str, calls| {
        let model =
            Scripted::new(|request: &Request| Ok(Reply::text(request.messages[0].to_text())));
        let agent = Agent::new(model, []).unwrap().with_instructions(instructions);
        let budget = Budget { model_calls: Some(calls), ..Budget::default() };
        let eval = Eval::agent("greetings", agent)
            .with_cases((0..5).map(|nth| Case::new(format!("case {nth}"), "Greet me.")))
            .with_grader("passes", passes())
            .with_concurrency(1)
            .with_folder(folder.path())
            .with_budget(budget);
        let report = eval.run(&Context::default()).await.unwrap();
        let outputs = report.outcomes.iter().map(|one| one.output.as_str().unwrap().to_owned());
        outputs.collect::<Vec<_>>()
    };
    assert_eq!(run("Be brief.", 2).await, ["Be brief."; 2]);
    assert_eq!(run("Be polite.", 3).await, ["Be polite."; 3]);
    // The attempts of the first version are still there.
    assert_eq!(run("Be brief.", 3).await, ["Be brief."; 5]);
}

#[tokio::test]
async fn a_run_that_cannot_be_stored_is_not_the_fault_of_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let breaks = move || {
        let _ = fs::remove_dir_all(&runs);
        std::future::ready(Ok(agent()))
    };
    let eval = Eval::agents("greetings", breaks)
        .with_cases([Case::new("a", "Go.")])
        .with_grader("passes", passes())
        .with_folder(folder.path());
    let error = eval.run(&Context::default()).await.unwrap_err().to_string();
    assert!(error.contains("the run of the case `a` cannot be stored"), "{error}");
    let kept = fs::read_to_string(attempts(folder.path())).unwrap();
    assert!(!kept.contains("journal"), "{kept}");
}

/// Wait for a very long time.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Wait {}

impl Signature for Wait {
    type Output = String;
}

#[tokio::test]
async fn a_module_that_never_ends_is_left_out_at_the_deadline() {
    let never = from_fn(async |_: Wait| std::future::pending().await);
    let eval = Eval::module("waits", never)
        .with_cases([Case::new("one", Wait {}), Case::new("two", Wait {})])
        .with_grader("passes", graders::of(|_: &Attempt<Wait>| Grade::pass()));
    let cx = Context::default().with_deadline(Instant::now() + Duration::from_millis(50));
    let report = tokio::time::timeout(Duration::from_secs(20), eval.run(&cx)).await;
    let report = report.expect("the eval ends at its deadline").unwrap();
    let reasons: Vec<_> = report.left_out.iter().map(|left| &*left.reason).collect();
    assert_eq!(reasons, ["the eval has reached its deadline"; 2]);
}

#[tokio::test]
async fn a_grader_that_never_ends_is_left_out_when_the_eval_is_cancelled() {
    let never = from_fn(async |_: Attempt| std::future::pending().await);
    let eval = Eval::agent("waits", agent())
        .with_cases([Case::new("one", "Go.")])
        .with_grader("never", never);
    let cancellation = Cancellation::default();
    let cx = Context::default().with_cancellation(cancellation.clone());
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        cancellation.cancel();
    });
    let report = tokio::time::timeout(Duration::from_secs(20), eval.run(&cx)).await;
    let report = report.expect("the eval ends when it is cancelled").unwrap();
    assert_eq!(report.left_out[0].reason, "the eval was cancelled");
}

#[tokio::test]
async fn a_budget_limits_the_graders_of_stored_runs() {
    let prices = [("scripted", Price::per_million(2.5, 10.0))];
    let ledger = Ledger::new(Budget::default()).with_prices(prices);
    let (folder, cx) = (tempfile::tempdir().unwrap(), Context::default().with_ledger(ledger));
    let journal = Journal::open(folder.path()).unwrap();
    for run in ["a", "b", "c"] {
        journal.drive(&agent(), run, "Say hello.", &cx).await.unwrap();
    }
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let model = Scripted::new(move |_: &Request| {
        counted.fetch_add(1, Ordering::Relaxed);
        let judgement = Reply::text(r#"{"reason": "It is.", "score": 9}"#);
        Ok(judgement.with_usage(Usage::new(1_000, 100)))
    });
    let runs = || {
        let run = |id: &&str| {
            StoredRun::new(*id, journal.entries(id).unwrap(), journal.tools(id).unwrap())
        };
        ["a", "b", "c"].iter().map(run).collect::<Vec<_>>()
    };
    let eval = Eval::agent("greetings", agent())
        .with_grader("polite", Judge::new(model, "It is polite.").unwrap())
        .with_budget(Budget { model_calls: Some(1), ..Budget::default() });
    let report = eval.grade_stored(runs(), &cx).await.unwrap();
    assert_eq!((report.outcomes.len(), report.left_out.len()), (1, 2), "{report}");
    let graded = &report.outcomes[0];
    assert_eq!((graded.grading_tokens, graded.grading_dollars), (1_100, Some(0.0035)));
    assert!(graded.grading_cost_is_known && report.to_html(None).contains("graders: 1,100"));
    assert_eq!(asked.load(Ordering::Relaxed), 1);

    let twice = eval.with_cases([Case::new("a", "One."), Case::new("a", "Two.")]);
    let error = twice.grade_stored(runs(), &cx).await.unwrap_err();
    assert!(error.to_string().contains("two cases have the name `a`"), "{error}");
}

#[tokio::test]
async fn any_number_of_attempts_at_the_same_time_is_allowed() {
    for attempts in [0, 10_000, usize::MAX] {
        let eval = Eval::agent("greetings", agent())
            .with_cases((0..20).map(|nth| Case::new(format!("{nth}"), "Go.")))
            .with_concurrency(attempts)
            .with_grader("passes", passes());
        eval.run(&Context::default()).await.unwrap().assert_at_least(1.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn attempts_begin_in_the_order_of_the_cases() {
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&order);
    let notes = graders::of(move |attempt: &Attempt| {
        seen.lock().unwrap().push(attempt.case.name.clone());
        Grade::pass()
    });
    let names: Vec<_> = (0..200).map(|nth| format!("case {nth}")).collect();
    let cases = names.iter().map(|name| Case::new(name, "Go."));
    let eval = Eval::agent("greetings", agent()).with_cases(cases).with_grader("notes", notes);
    eval.with_concurrency(1).run(&Context::default()).await.unwrap();
    assert_eq!(*order.lock().unwrap(), names);
}

#[tokio::test]
async fn names_of_cases_may_be_odd() {
    let (folder, recordings) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let long = "long ".repeat(100);
    let names = [
        "a/b",
        "a\\b",
        "../up",
        ".",
        "..",
        "nul",
        "NUL",
        "con",
        "Name",
        "name",
        "na\0me",
        "na\nme",
        " name",
        "name ",
        "name.2",
        "Größe",
        "🦀",
        &long,
        &format!("{long}2"),
        "*",
        "a:b",
        "~",
        "~2f",
    ];
    let eval = || {
        let cases = names.iter().map(|name| Case::new(*name, format!("Greet {name}.")));
        Eval::agent("names", agent()).with_cases(cases).with_grader("passes", passes())
    };
    let recorded = eval().with_folder(folder.path()).with_new_recordings(recordings.path());
    recorded.run(&Context::default()).await.unwrap().assert_at_least(1.0);
    assert_eq!(fs::read_dir(recordings.path()).unwrap().count(), names.len());
    let replayed = eval().with_recordings(recordings.path());
    let report = replayed.run(&Context::default()).await.unwrap();
    report.assert_at_least(1.0);
    assert_eq!(report.outcomes.len(), names.len());
}

#[tokio::test]
async fn a_recording_that_cannot_be_read_leaves_only_its_case_out() {
    let folder = tempfile::tempdir().unwrap();
    let eval = || {
        let cases = ["cut", "later", "whole", "missing"].map(|name| Case::new(name, "Go."));
        Eval::agent("greetings", agent()).with_cases(cases).with_grader("passes", passes())
    };
    eval().with_new_recordings(folder.path()).run(&Context::default()).await.unwrap();
    let change = |name: &str, change: fn(String) -> String| {
        let path = folder.path().join(name);
        fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
    };
    change("cut.json", |text| text[..text.len() / 2].to_owned());
    change("later.json", |text| text.replace("\"version\": 1", "\"version\": 99"));
    fs::remove_file(folder.path().join("missing.json")).unwrap();
    let eval = eval().with_recordings(folder.path());
    let report = eval.run(&Context::default()).await.unwrap();
    let made: Vec<_> = report.outcomes.iter().map(|one| &*one.case).collect();
    assert_eq!(made, ["whole"]);
    let text = report.to_string();
    let reasons = [
        "not attempted: cut: the recording of the case `cut` cannot be used",
        "later.json has version 99",
        "not attempted: missing: there is no recording of it in ",
    ];
    assert!(reasons.iter().all(|reason| text.contains(reason)), "{text}");
}

#[test]
fn files_of_cases_may_come_from_other_systems() {
    let folder = tempfile::tempdir().unwrap();
    let load = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        Case::<String>::load(&path)
            .map_err(|error| error.to_string().replace(&path.display().to_string(), "FILE"))
    };
    let names = |cases: Vec<Case>| cases.into_iter().map(|case| case.name).collect::<Vec<_>>();
    let lines = "\u{feff}{\"name\": \"a\", \"input\": \"A\"}\r\n\r\n{\"name\": \"b\", \"input\": \"B\"}\r\n";
    assert_eq!(names(load("a.jsonl", lines).unwrap()), ["a", "b"]);
    let yaml = "\u{feff}- &one\r\n  name: a\r\n  input: &text A\r\n- name: b\r\n  input: *text\r\n";
    let cases = load("a.yaml", yaml).unwrap();
    assert_eq!(cases[1].input, "A");
    assert_eq!(names(load("empty.jsonl", "").unwrap()), [""; 0]);
    let faults = [
        (
            "b.jsonl",
            "{\"name\": \"a\", \"input\": \"A\"}\n{\"name\": 3}\n",
            "cannot read the cases in FILE, line 2: invalid type: integer `3`, expected a string",
        ),
        (
            "b.json",
            "[\n{\"name\": \"a\"}]",
            "cannot read the cases in FILE, line 2, column 13: missing field `input`",
        ),
        (
            "b.yaml",
            "- name: a\n  input: A\n- name: b\n  inputs: B\n",
            "cannot read the cases in FILE, line 4: unknown field `inputs`, expected one of name, input, expected, calls, metadata",
        ),
        (
            "c.jsonl",
            "{\"name\": \"a\", \"input\": \"A\"}\n{\"name\": \"a\", \"input\": \"B\"}\n",
            "two cases have the name `a`; give each case a name of its own",
        ),
        (
            "e.yaml",
            "- name: a\n  name: b\n  input: A\n",
            "cannot read the cases in FILE, line 2: duplicate mapping key: name",
        ),
        (
            "d.txt",
            "",
            "cannot tell what FILE contains; give it the ending .jsonl, .json, .yaml or .yml",
        ),
    ];
    for (name, text, fault) in faults {
        assert_eq!(load(name, text).unwrap_err(), fault);
    }
    // A small file that is large in memory.
    let mut bomb = "- name: a\n  input: A\n  metadata:\n    a0: &a0 x\n".to_owned();
    for nth in 1..9 {
        let before = format!("*a{}, ", nth - 1).repeat(9);
        bomb.push_str(&format!("    a{nth}: &a{nth} [{before}]\n"));
    }
    let fault = load("bomb.yaml", &bomb).unwrap_err();
    assert!(fault.ends_with("too many values; write JSON lines instead (.jsonl)"), "{fault}");
}

#[tokio::test]
#[should_panic(expected = "90 is not a share; write a number from 0 to 1")]
async fn a_share_is_not_a_percentage() {
    let eval = Eval::agent("greetings", agent()).with_cases([Case::new("a", "Go.")]);
    let report = eval.with_grader("passes", passes()).run(&Context::default()).await.unwrap();
    report.assert_at_least(90.0);
}

#[tokio::test]
#[should_panic(expected = "there is no grader `pass`; there are: passes")]
async fn a_score_of_a_grader_that_does_not_exist_is_an_error() {
    let eval = Eval::agent("greetings", agent()).with_cases([Case::new("a", "Go.")]);
    let report = eval.with_grader("passes", passes()).run(&Context::default()).await.unwrap();
    report.assert_score_at_least("pass", 0.5);
}
