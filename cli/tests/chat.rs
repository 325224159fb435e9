//! `chat`: a conversation over a pipe.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{asking, call, lines, messages, program, run_with, says, server};
use crate::mcp_process as mcp;
use crate::server::Server;

fn chat(server: &Server) -> Command {
    asking("chat", server)
}

#[test]
fn every_line_is_a_task_of_one_conversation_with_one_memory() {
    let server = server(&[
        call("memory_store", r#"{"key":"color","value":"blue"}"#),
        says("Stored."),
        call("memory_retrieve", r#"{"key":"color"}"#),
        says("It is blue."),
    ]);
    // Empty lines are no tasks, and the last one may end without a line's end.
    let ran = run_with(&mut chat(&server), "Store it.\n\n  \nWhich color?");
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "Stored.\nIt is blue.\n"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("<- memory_retrieve blue"), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("2 model calls, 100 tokens in").count(), 2, "{}", ran.stderr);

    let asked = server.asked();
    assert_eq!(asked.len(), 4);
    let before = messages(&asked[1]);
    let second = messages(&asked[2]);
    assert_eq!(second[..before.len()], before);
    assert_eq!(second[before.len()]["content"], "Stored.");
    assert_eq!(second[before.len() + 1]["content"], "Which color?");
}

#[test]
fn a_task_that_fails_does_not_end_the_conversation_which_has_what_was_done() {
    let folder = TempDir::new().unwrap();
    for has_journal in [false, true] {
        let server = server(&[
            says("One."),
            call("memory_store", r#"{"key":"color","value":"blue"}"#),
            "no JSON".to_owned(),
            says("Three."),
        ]);
        let mut command = match has_journal {
            false => chat(&server),
            true => {
                let mut command = program("chat");
                command.args(["--base-url", &server.base_url, "--model", "small", "--no-stream"]);
                command.env("XDG_DATA_HOME", folder.path());
                command
            }
        };
        let ran = run_with(command.args(["--tools", "memory"]), "First.\nSecond.\nThird.\n");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "One.\nThree.\n"), "{}", ran.stderr);
        assert_eq!(ran.stderr.matches("error: ").count(), 1, "{}", ran.stderr);
        assert!(ran.stderr.contains("continues with what was said and done"), "{}", ran.stderr);

        let asked = server.asked();
        let last = messages(asked.last().unwrap());
        let roles: Vec<&Value> = last.iter().map(|message| &message["role"]).collect();
        // Some servers refuse a user's message after a result, so a reply may stand between the two.
        assert_eq!(roles[..5], ["user", "assistant", "user", "assistant", "tool"]);
        assert_eq!(last[2]["content"], "Second.");
        assert_eq!(last.last().unwrap()["content"], "Third.");
    }
}

#[test]
fn an_input_that_is_empty_is_a_conversation_that_is_over() {
    let server = server(&[says("Hello.")]);
    let ran = run_with(&mut chat(&server), "");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    assert!(server.asked().is_empty());
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_task_and_then_the_conversation() {
    let server = server(&[String::new(), says("Hello.")]);
    let mut child = chat(&server)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"Wait for ever.\n").unwrap();
    while server.asked().is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = child.id().to_string();
    let interrupt = || Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(interrupt().success());
    stdin.write_all(b"Say hello.\n").unwrap();
    let mut said = [0; 7];
    child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"Hello.\n");
    // At the prompt, which stdin still keeps open.
    assert!(interrupt().success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("cancelled after"), "{stderr}");
    assert_eq!(messages(&server.asked()[1]).len(), 1);
}

#[test]
fn json_of_a_task_that_fails_ends_with_the_error() {
    let server = server(&["no JSON".to_owned(), says("Hello.")]);
    let ran = run_with(chat(&server).arg("--json"), "One.\nTwo.\n");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let lines = lines(&ran.stdout);
    let ends: Vec<&Value> = lines.iter().filter(|line| line["event"].is_null()).collect();
    assert_eq!(ends.len(), 2);
    assert_eq!(ends[0]["error"]["stage"], "decoding");
    assert_eq!(ends[0]["error"]["spent"]["model_calls"], 1);
    assert_eq!(ends[1]["result"]["answer"], "Hello.");
    assert_eq!(lines.last(), Some(ends[1]));
}

#[cfg(unix)]
#[test]
fn a_server_that_dies_between_two_tasks_is_started_again() {
    let folder = TempDir::new().unwrap();
    let numbers = folder.path().join("theirs");
    let theirs = mcp::remembering(folder.path(), "theirs");
    let model = server(&[
        call("memory_store", r#"{"key":"color","value":"blue"}"#),
        says("Stored."),
        // This one may be on its way before the end is seen: then its end is not known.
        call("memory_count", "{}"),
        call("memory_retrieve", r#"{"key":"color"}"#),
        says("It is blue."),
    ]);
    let mut child = chat(&model)
        .args(["--tools", "text", "--mcp", &theirs])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut said = String::new();
    stdin.write_all(b"Store it.\n").unwrap();
    stdout.read_line(&mut said).unwrap();
    let first = mcp::numbers(&numbers)[0].to_string();
    assert!(Command::new("kill").args(["-KILL", &first]).status().unwrap().success());
    mcp::ended(&numbers);
    stdin.write_all(b"Which color?\n").unwrap();
    stdout.read_line(&mut said).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), said.as_str()),
        (Some(0), "Stored.\nIt is blue.\n"),
        "{stderr}"
    );
    assert!(stderr.contains("<- memory_retrieve blue"), "{stderr}");
    assert_eq!(mcp::numbers(&numbers).len(), 2);
    mcp::ended(&numbers);
}

#[test]
fn limits_hold_for_each_task_of_a_conversation() {
    let stores = call("memory_store", r#"{"key":"color","value":"blue"}"#);
    let server = server(&[stores.clone(), says("So far."), stores, says("Again.")]);
    let mut command = chat(&server);
    let ran = run_with(command.args(["--max-model-calls", "2"]), "One.\nTwo.\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "So far.\nAgain.\n"), "{}", ran.stderr);
    let said = "(the run reached its limit of model calls; the answer may be incomplete)";
    assert_eq!(ran.stderr.matches(said).count(), 2, "{}", ran.stderr);
}

#[test]
fn a_line_that_is_not_utf8_is_an_error_and_the_others_are_tasks() {
    let server = server(&[says("Hello.")]);
    let bytes = |command: &mut Command| {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"One.\ncaf\xe9\nThree.\n").unwrap();
        let output = child.wait_with_output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, stdout, stderr) = bytes(&mut chat(&server));
    assert_eq!((code, stdout.as_str()), (Some(1), "Hello.\nHello.\n"), "{stderr}");
    let told = "error: line 2 of standard input is not UTF-8 text: byte 4 is 0xe9; convert it";
    assert!(stderr.contains(told), "{stderr}");
    assert_eq!(server.asked().len(), 2);
    let (_, stdout, _) = bytes(chat(&server).arg("--json"));
    let all = lines(&stdout);
    assert!(all.iter().any(|line| line["error"]["stage"] == "setup"), "{stdout}");
}
