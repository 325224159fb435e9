//! The command at a terminal: spinner, colours, editing, history, Ctrl-C and questions.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rexpect::session::{PtySession, spawn_command};
use tempfile::TempDir;

use crate::common::{asking, call, run, says, server};
use crate::server::Server;

/// Time in milliseconds in which an expected text must be there.
const PATIENCE: u64 = 30_000;

/// A style of the terminal.
const STYLE: &str = "\u{1b}[";

fn at_terminal(mut command: Command) -> PtySession {
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR").env_remove("CLICOLOR");
    // Standard input is the terminal's.
    command.stdin(std::process::Stdio::inherit());
    spawn_command(command, Some(PATIENCE)).unwrap()
}

fn chat(server: &Server, folder: &Path) -> Command {
    let mut command = asking("chat", server);
    command.env("XDG_DATA_HOME", folder).args(["--tools", "memory"]);
    command
}

/// Waits until the server got this many requests.
fn until_asked(server: &Server, count: usize) {
    for _ in 0..1_000 {
        if server.asked().len() >= count {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the server got {} requests", server.asked().len());
}

fn type_in(session: &mut PtySession, text: &str) {
    session.send(text).unwrap();
    session.flush().unwrap();
}

fn ended(session: &PtySession, code: i32) {
    let status = session.process().wait().unwrap();
    assert_eq!(format!("{status:?}").split(", ").nth(1), Some(&*format!("{code})")), "{status:?}");
}

#[test]
fn a_terminal_has_a_spinner_and_colours_and_a_pipe_has_neither() {
    let replies = [call("memory_count", "{}"), says("None.")];
    let model = server(&replies);
    let mut command = asking("run", &model);
    command.arg("How many?");
    let mut session = at_terminal(command);
    let shown = session.exp_eof().unwrap();
    assert!(shown.contains("the model is thinking"), "{shown:?}");
    assert!(shown.contains(&format!("{STYLE}36m-> memory_count{STYLE}0m {{}}")), "{shown:?}");
    assert!(shown.contains("\u{1b}[2KNone.\r\n"), "{shown:?}");

    // The user wants no colours.
    let model = server(&replies);
    let mut command = asking("run", &model);
    command.arg("How many?").env("TERM", "xterm").env("NO_COLOR", "1");
    command.stdin(std::process::Stdio::inherit());
    let shown = spawn_command(command, Some(PATIENCE)).unwrap().exp_eof().unwrap();
    assert!(shown.contains("-> memory_count {}"), "{shown:?}");
    assert!(!shown.contains(&format!("{STYLE}36m")), "{shown:?}");

    let model = server(&replies);
    let ran = run(asking("run", &model).env("TERM", "xterm").arg("How many?"));
    assert!(!ran.stderr.contains('\u{1b}') && !ran.stderr.contains("thinking"), "{}", ran.stderr);
    assert_eq!(ran.stdout, "None.\n");

    let model = server(&replies);
    let mut command = asking("run", &model);
    command.args(["--json", "How many?"]);
    let shown = at_terminal(command).exp_eof().unwrap();
    assert!(!shown.contains("thinking"), "{shown:?}");
}

#[test]
fn a_line_can_be_edited_and_is_there_again_but_not_one_with_a_key() {
    let folder = TempDir::new().unwrap();
    let key = "sk-test-0123456789abcdefghij";
    let model = server(&[says("One."), says("Two."), says("Three."), says("Four.")]);
    let mut session = at_terminal(chat(&model, folder.path()));
    session.exp_string("> ").unwrap();
    // Backspace, twice.
    type_in(&mut session, "Say one.xy\u{7f}\u{7f}\r");
    session.exp_string("One.").unwrap();
    session.exp_string("> ").unwrap();
    type_in(&mut session, &format!("My key is {key}.\r"));
    session.exp_string("Two.").unwrap();
    session.exp_string("> ").unwrap();
    type_in(&mut session, "And with SECRET_WORD.\r");
    session.exp_string("Three.").unwrap();
    session.exp_string("> ").unwrap();
    session.send_control('d').unwrap();
    session.exp_eof().unwrap();
    ended(&session, 0);
    let asked = model.asked();
    let said = |place: usize| {
        asked[place]["messages"].as_array().unwrap().last().unwrap()["content"].clone()
    };
    assert_eq!((said(0), said(2)), ("Say one.".into(), "And with SECRET_WORD.".into()));

    let file = folder.path().join("toolwright/history");
    let kept = fs::read_to_string(&file).unwrap();
    assert!(kept.contains("Say one.") && kept.contains("SECRET_WORD"), "{kept}");
    assert!(!kept.contains(key), "{kept}");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o077, 0);

    // The next conversation has the lines, and the key of a variable is not kept either.
    let mut command = chat(&model, folder.path());
    command.env("SOME_TOKEN", "made-up-word-of-a-key");
    let mut session = at_terminal(command);
    session.exp_string("> ").unwrap();
    type_in(&mut session, "\u{1b}[A\u{1b}[A\r");
    session.exp_string("Four.").unwrap();
    session.exp_string("> ").unwrap();
    type_in(&mut session, "It is made-up-word-of-a-key\r");
    session.exp_string("Four.").unwrap();
    session.exp_string("> ").unwrap();
    session.send_control('d').unwrap();
    session.exp_eof().unwrap();
    let again = model.asked()[3]["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    assert_eq!(again, "Say one.");
    assert!(!fs::read_to_string(&file).unwrap().contains("made-up-word"));
}

#[test]
fn ctrl_c_ends_a_task_and_not_the_conversation() {
    let folder = TempDir::new().unwrap();
    let model = server(&[String::new(), says("Hello.")]);
    let mut session = at_terminal(chat(&model, folder.path()));
    session.exp_string("> ").unwrap();
    type_in(&mut session, "Wait for ever.\r");
    until_asked(&model, 1);
    session.send_control('c').unwrap();
    session.exp_string("cancelled after").unwrap();
    session.exp_string("> ").unwrap();
    type_in(&mut session, "Say hello.\r");
    session.exp_string("Hello.").unwrap();
    session.exp_string("> ").unwrap();
    session.send_control('d').unwrap();
    session.exp_eof().unwrap();
    ended(&session, 0);
    assert_eq!(model.asked().len(), 2);

    // At the prompt it discards the line, and twice it ends the conversation.
    let model = server(&[says("Hello.")]);
    let mut session = at_terminal(chat(&model, folder.path()));
    session.exp_string("> ").unwrap();
    type_in(&mut session, "Do not say");
    session.send_control('c').unwrap();
    session.exp_string("(Ctrl-C again or Ctrl-D ends the conversation)").unwrap();
    session.exp_string("> ").unwrap();
    type_in(&mut session, "Say hello.\r");
    session.exp_string("Hello.").unwrap();
    for _ in 0..2 {
        session.exp_string("> ").unwrap();
        session.send_control('c').unwrap();
    }
    session.exp_eof().unwrap();
    ended(&session, 0);
    let asked = model.asked();
    let said = asked[0]["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    assert_eq!((asked.len(), said), (1, "Say hello.".into()));

    // A task of `run` ends the program.
    let model = server(&[String::new()]);
    let mut command = asking("run", &model);
    command.arg("Wait for ever.");
    let mut session = at_terminal(command);
    session.exp_string("the model is thinking").unwrap();
    until_asked(&model, 1);
    session.send_control('c').unwrap();
    session.exp_string("cancelled after").unwrap();
    session.exp_eof().unwrap();
    ended(&session, 130);
}

#[test]
fn a_question_is_answered_at_the_terminal() {
    let stored = call("memory_store", r#"{"key":"color","value":"blue"}"#);
    for (answers, shown, made) in [
        (&["perhaps", "y"][..], "<- memory_clear", true),
        (&["n"], "The user denied this call.", false),
    ] {
        let model = server(&[stored.clone(), call("memory_clear", "{}"), says("Ready.")]);
        let mut command = asking("run", &model);
        command.args(["--approve", "Store it and clear."]).env("NO_COLOR", "1");
        let mut session = at_terminal(command);
        session.exp_string("memory_clear {} is irreversible").unwrap();
        for answer in answers {
            session.exp_string("allow it? y(es) n(o) e(dit) ").unwrap();
            type_in(&mut session, &format!("{answer}\r"));
        }
        session.exp_string("Ready.").unwrap();
        session.exp_eof().unwrap();
        ended(&session, 0);
        let asked = model.asked();
        let said = asked[2]["messages"].as_array().unwrap().last().unwrap().to_string();
        assert_eq!(!said.contains("denied"), made, "{shown}: {said}");
    }

    // Edited arguments.
    let model = server(&[call("memory_delete", r#"{"key":"colour"}"#), says("Ready.")]);
    let mut command = asking("run", &model);
    command.args(["--approve", "Delete it."]);
    let mut session = at_terminal(command);
    session.exp_string("allow it? ").unwrap();
    type_in(&mut session, "e\r");
    session.exp_string("arguments: ").unwrap();
    // Ctrl-U empties the line.
    type_in(&mut session, "\u{15}{\"key\": \"color\"}\r");
    session.exp_string("Ready.").unwrap();
    session.exp_eof().unwrap();
    let said = model.asked()[1]["messages"].to_string();
    assert!(said.contains("'color' not found") || said.contains("\"color\""), "{said}");
}
