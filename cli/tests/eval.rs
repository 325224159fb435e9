//! `eval`: cases of a file, models side by side, recordings, folders, and stored runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{call, program, run, says, server};
use crate::server::Server;

const COLORS: &str = "\
name: colors
tools: [memory]
concurrency: 1
cases:
- name: blue
  input: Store the color blue.
  expected: blue
  calls:
  - {tool: memory_store, arguments: {key: color, value: blue}}
- name: count
  input: Count the entries.
  expected: none
graders:
  calls: {makes_expected_calls: {in_order: true}}
  answer: contains_expected
  clears nothing: {never_calls: [memory_clear]}
";

fn file(folder: &TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("eval.yaml");
    fs::write(&path, text).unwrap();
    path
}

fn eval(file: &Path, server: &Server) -> Command {
    let mut program = program("eval");
    program.arg(file).args(["--base-url", &server.base_url, "--model", "small", "--no-config"]);
    program
}

/// The replies of a model that does what the cases ask.
fn good() -> Vec<String> {
    vec![
        call("memory_store", r#"{"key": "color", "value": "blue"}"#),
        says("It is blue."),
        call("memory_count", "{}"),
        says("There are none."),
    ]
}

fn report(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn attempts_are_graded_and_share_no_memory() {
    let (folder, server) = (tempfile::tempdir().unwrap(), server(&good()));
    let json = folder.path().join("report.json");
    let ran = run(eval(&file(&folder, COLORS), &server).args(["--report"]).arg(&json));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("colors (small): 2 of 2 attempts pass, "), "{}", ran.stdout);
    // The memory of the first attempt is not that of the second.
    let last = server.asked()[3]["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["content"], "0");
    let report = report(&json);
    assert_eq!(report["outcomes"][0]["calls"][0]["tool"], "memory_store");
    assert_eq!(report["outcomes"][1]["grades"][0]["verdict"], "skip");

    let ran = run(eval(&file(&folder, COLORS), &server).args(["--json", "--case", "count"]));
    let line: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(line["report"]["outcomes"].as_array().unwrap().len(), 1);
}

#[test]
fn a_threshold_that_is_not_met_is_another_exit_code_than_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    for (thresholds, code, text) in [
        ("at_least: 0.5", 0, ""),
        ("at_least: 0.6", 4, "error: fewer than 60.0 % of the attempts pass\n"),
        ("scores_at_least: {answer: 0.9}", 4, "the mean score of `answer` is lower than 0.9"),
    ] {
        let mut replies = good();
        replies[3] = says("Two.");
        let server = server(&replies);
        let file = file(&folder, &format!("{COLORS}{thresholds}\n"));
        let ran = run(&mut eval(&file, &server));
        assert_eq!(ran.code, Some(code), "{thresholds}: {}", ran.stderr);
        assert!(ran.stderr.contains(text), "{}", ran.stderr);
        assert!(ran.stdout.contains("the output does not contain `none`: Two."), "{}", ran.stdout);
    }
    let nobody = server(&good());
    let ran = run(eval(&file(&folder, COLORS), &nobody).args(["--case", "green"]));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("there are: blue, count"), "{}", ran.stderr);
    let ran = run(program("eval").arg(file(&folder, COLORS)).args(["--report", "report.txt"]));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

#[test]
fn a_fault_of_the_file_has_a_line() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to, fault) in [
        ("tools:", "tool:", "line 2: unknown field"),
        ("  input: Count", "  task: Count", "line 11: unknown field"),
        ("- name: count", "- name: blue", "line 10: two cases have the name `blue`"),
        ("contains_expected", "contains_expectd", "line 15: unknown variant"),
        ("{makes_expected_calls: {in_order: true}}", "{matches: '('}", "line 14: "),
        ("arguments: {key: color", "arguments: {key: {$one: 1}", "line 9: `$one` at $.key"),
        ("name: colors", "at_least: 80", "line 1: 80 is not a share; write a number from 0 to 1"),
        ("name: colors", "scores_at_least: {answr: 1}", "line 1: there is no grader `answr`"),
        ("[memory]", "[memry]", "tools: there is no such toolset"),
        ("  input: Count", "  name: Count", "line 11: duplicate mapping key: name\n"),
        ("[memory_clear]", "memory_clear", "line 16: expected a list, such as [one, two]"),
        ("contains_expected", "{near_expected: -1}", "line 15: write a number of at least 0"),
        (
            "contains_expected",
            "{judge: {rubric: R, pass_mark: 70}}",
            "line 15: a judge gives at most",
        ),
        (
            "contains_expected",
            "{judge: The answer is polite.}",
            "line 15: expected fields, such as",
        ),
        ("contains_expected", "[contains_expected]", "line 15: "),
        (
            "{makes_expected_calls: {in_order: true}}",
            "{makes_expected_calls: {order: 1}}",
            "line 14: ",
        ),
    ] {
        assert!(COLORS.contains(from), "{from}");
        let path = file(&folder, &COLORS.replacen(from, to, 1));
        let ran = run(&mut eval(&path, &server(&good())));
        let expected = format!("error: {}: {fault}", path.display());
        assert_eq!(ran.code, Some(1), "{to}: {}", ran.stderr);
        assert!(ran.stderr.contains(&expected), "{to}: {}", ran.stderr);
    }
}

#[test]
fn a_grader_whose_settings_have_defaults_needs_only_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let text = COLORS.replace("{makes_expected_calls: {in_order: true}}", "makes_expected_calls");
    let ran = run(&mut eval(&file(&folder, &text), &server(&good())));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("  calls: 100.0 %"), "{}", ran.stdout);
}

#[test]
fn a_case_may_have_several_facts() {
    let folder = tempfile::tempdir().unwrap();
    let text = "\
cases: [{name: order, input: Where is it?, metadata: {facts: [on its way, Friday]}}]
graders: {facts: {contains_all: facts}}
";
    let ran = run(&mut eval(&file(&folder, text), &server(&[says("It is on its way.")])));
    assert!(ran.stdout.contains("  facts: 50.0 %"), "{} {}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("does not contain `Friday`"), "{}", ran.stdout);
}

#[test]
fn a_recorded_eval_needs_no_model() {
    let (folder, server) = (tempfile::tempdir().unwrap(), server(&good()));
    let (file, recordings) = (file(&folder, COLORS), folder.path().join("recordings"));
    let replay = || {
        let mut program = program("eval");
        program.arg(&file).arg("--no-config").arg("--recordings").arg(&recordings);
        program
    };
    let ran = run(&mut replay());
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("set TOOLWRIGHT_RECORD=1"), "{}", ran.stderr);

    let record = run(eval(&file, &server)
        .arg("--recordings")
        .arg(&recordings)
        .env("TOOLWRIGHT_RECORD", "1"));
    assert_eq!(record.code, Some(0), "{}", record.stderr);
    let replayed = run(&mut replay());
    assert_eq!((replayed.code, replayed.stdout), (Some(0), record.stdout), "{}", replayed.stderr);
    assert_eq!(server.asked().len(), 4);
}

#[test]
fn a_recorded_judge_and_recorded_settings_need_no_model() {
    let folder = tempfile::tempdir().unwrap();
    let text = "\
temperature: 0.5
cases: [{name: hello, input: Say hello.}]
graders:
  polite: {judge: {rubric: The answer is polite.}}
";
    let server = server(&[says("Hello!"), says(r#"{"reason": "It is.", "score": 9}"#)]);
    let (file, recordings) = (file(&folder, text), folder.path().join("recordings"));
    let record = run(eval(&file, &server)
        .arg("--recordings")
        .arg(&recordings)
        .env("TOOLWRIGHT_RECORD", "1"));
    assert_eq!(record.code, Some(0), "{} {}", record.stdout, record.stderr);
    let replayed =
        run(program("eval").arg(&file).arg("--no-config").arg("--recordings").arg(&recordings));
    assert_eq!((replayed.code, replayed.stdout), (Some(0), record.stdout), "{}", replayed.stderr);
}

#[test]
fn models_are_compared_case_by_case() {
    let folder = tempfile::tempdir().unwrap();
    let bad = vec![says("No."), says("There are none.")];
    let server = server(&[good(), bad].concat());
    let json = folder.path().join("report.json");
    let ran = run(eval(&file(&folder, COLORS), &server)
        .args(["--model", "large/2", "--report"])
        .arg(&json));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let rows: Vec<&str> =
        ran.stdout.lines().skip_while(|line| !line.starts_with("model")).collect();
    assert!(rows[1].starts_with("small    100.0 % (95 %: "), "{}", ran.stdout);
    assert!(rows[2].starts_with("large/2  50.0 % (95 %: "), "{}", ran.stdout);
    assert!(rows[1].contains("unknown"), "{}", rows[1]);
    assert!(ran.stdout.contains("large/2 beside small: 2 cases: -50.0 points"), "{}", ran.stdout);
    assert!(ran.stdout.contains("  worse: blue"), "{}", ran.stdout);
    assert_eq!(report(&folder.path().join("report.large-2.json"))["name"], "colors (large/2)");

    // A threshold that is missed has the name of its model.
    let text = format!("{COLORS}at_least: 0.9\n");
    let ran =
        run(eval(&file(&folder, &text), &crate::common::server(&good()))
            .args(["--model", "large/2"]));
    assert!(ran.stderr.contains("error: large/2: fewer than 90.0 %"), "{}", ran.stderr);

    // Two models do not write the same files.
    let ran = run(eval(&file(&folder, COLORS), &server).args([
        "--model",
        "Small",
        "--report",
        "report.json",
    ]));
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("the files of Small and small would have the same names"),
        "{}",
        ran.stderr
    );

    // One of them is the baseline of another eval.
    let baseline = folder.path().join("report.small.json");
    let server = crate::common::server(&good());
    let ran = run(eval(&file(&folder, COLORS), &server).arg("--baseline").arg(&baseline));
    assert!(ran.stdout.contains("2 cases: +0.0 points"), "{}", ran.stdout);
}

#[test]
fn a_killed_eval_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    let server = server(&[&good()[..3], &[String::new()]].concat());
    let mut child = eval(&file(&folder, COLORS), &server)
        .arg("--folder")
        .arg(&kept)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..1000 {
        if server.asked().len() == 4 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let server = crate::common::server(&good()[2..]);
    let ran = run(eval(&file(&folder, COLORS), &server).arg("--folder").arg(&kept));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("2 of 2 attempts pass"), "{}", ran.stdout);
    // The first case was not attempted again.
    assert_eq!(server.asked().len(), 2);
}

#[test]
fn stored_runs_are_graded_without_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let (server, journal) = (server(&good()), folder.path().join("runs"));
    let mut ask = program("run");
    ask.args(["--base-url", &server.base_url, "--model", "small", "--no-stream", "--no-config"]);
    let ran = run(ask.arg("--journal").arg(&journal).arg("Store the color blue."));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);

    let text = "graders:\n  brief: {rounds_at_most: 1}\n  blue: {contains: BLUE}\n";
    let ran = run(program("eval").arg(file(&folder, text)).arg("--stored").arg(&journal));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("eval: 0 of 1 attempts pass"), "{}", ran.stdout);
    assert!(ran.stdout.contains("the model replied 2 times, more than 1"), "{}", ran.stdout);
    assert!(ran.stdout.contains("  blue: 100.0 %"), "{}", ran.stdout);

    // The budget holds for judges. The model has no price, so nothing may be asked of it.
    let text = "graders: {polite: {judge: {rubric: It is polite.}}}\n";
    let asked = server.asked().len();
    let ran = run(eval(&file(&folder, text), &server)
        .arg("--stored")
        .arg(&journal)
        .args(["--budget", "0"]));
    assert_eq!(server.asked().len(), asked, "{} {}", ran.stdout, ran.stderr);
}

#[test]
fn a_judge_is_the_model_itself_or_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let text = "\
cases: [{name: hello, input: Say hello.}]
graders:
  polite: {judge: {rubric: The answer is polite., pass_mark: 8}}
";
    let server = server(&[says("Hello!"), says(r#"{"reason": "No name.", "score": 7}"#)]);
    let ran = run(&mut eval(&file(&folder, text), &server));
    assert!(ran.stdout.contains("polite: No name."), "{} {}", ran.stdout, ran.stderr);
    assert!(server.asked()[1].to_string().contains("The answer is polite."));

    let other = text.replace("pass_mark: 8", "model: large");
    let ran = run(&mut eval(&file(&folder, &other), &server));
    assert_eq!(server.asked().last().unwrap()["model"], "large", "{}", ran.stderr);
}

#[test]
fn an_attempt_has_nobody_to_ask() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(eval(&file(&folder, COLORS), &server(&good())).arg("--ask"));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("use the grader `asks_before`"), "{}", ran.stderr);
}
