//! The command at a terminal: spinner, colours, editing, history, Ctrl-C and questions.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rexpect::session::{PtySession, spawn_command};
use tempfile::TempDir;
use toolwright_journal::Journal;

use crate::common::{asking, call, call_two, forge, program, run, says, server};
use crate::server::Server;

/// Time in milliseconds in which an expected text must be there.
const PATIENCE: u64 = 30_000;

/// A style of the terminal.
const STYLE: &str = "\u{1b}[";

/// The kind of most terminals.
const TERM: &str = "xterm-256color";

fn at_terminal(mut command: Command, term: &str) -> PtySession {
    command.env("TERM", term).env_remove("NO_COLOR").env_remove("CLICOLOR");
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
    let mut session = at_terminal(command, TERM);
    let shown = session.exp_eof().unwrap();
    assert!(shown.contains("the model is thinking"), "{shown:?}");
    assert!(shown.contains(&format!("{STYLE}36m-> memory_count{STYLE}0m {{}}")), "{shown:?}");
    assert!(shown.contains("\u{1b}[2K| None.\r\n"), "{shown:?}");

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
    let shown = at_terminal(command, TERM).exp_eof().unwrap();
    assert!(!shown.contains("thinking"), "{shown:?}");
}

#[test]
fn a_line_can_be_edited_and_is_there_again_but_not_one_with_a_key() {
    let folder = TempDir::new().unwrap();
    let key = "sk-test-0123456789abcdefghij";
    let model = server(&[says("One."), says("Two."), says("Three."), says("Four.")]);
    let mut session = at_terminal(chat(&model, folder.path()), TERM);
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
    let mut session = at_terminal(command, TERM);
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
    let mut session = at_terminal(chat(&model, folder.path()), TERM);
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
    let mut session = at_terminal(chat(&model, folder.path()), TERM);
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
    let mut session = at_terminal(command, TERM);
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
        command.args(["--ask", "Store it and clear."]).env("NO_COLOR", "1");
        let mut session = at_terminal(command, TERM);
        session.exp_string("a call waits for your decision (it is irreversible):").unwrap();
        session.exp_string("| memory_clear {}").unwrap();
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
    command.args(["--ask", "Delete it."]);
    let mut session = at_terminal(command, TERM);
    session.exp_string("allow it? ").unwrap();
    type_in(&mut session, "e\r");
    session.exp_string("arguments: ").unwrap();
    // What is not JSON is not repaired: an answer to a question may have been meant.
    type_in(&mut session, "y\r");
    session.exp_string("the arguments are not JSON").unwrap();
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

/// An edit that does not fit is not the call that `y` makes, so the question does not show it.
#[test]
fn after_an_edit_that_does_not_fit_the_question_shows_the_call_that_is_made() {
    for edit in [r#"{"path":"junk.txt""#, r#"{"path":5}"#] {
        let (folder, tools) = precious();
        let model = server(&[call("file_delete", r#"{"path":"precious.txt"}"#), says("Ready.")]);
        let mut command = asking("run", &model);
        command.args(["--ask", "--tools", &tools, "Tidy up."]);
        let mut session = at_terminal(command, TERM);
        session.exp_string("allow it? ").unwrap();
        type_in(&mut session, "e\r");
        session.exp_string("arguments: ").unwrap();
        type_in(&mut session, &format!("\u{15}{edit}\r"));
        session.exp_string("error:").unwrap();
        let above = session.exp_string("allow it? ").unwrap();
        assert!(above.contains(r#"| file_delete {"path":"precious.txt"}"#), "{above:?}");
        // What was typed is the beginning of the next edit.
        type_in(&mut session, "e\r");
        session.exp_string("arguments: ").unwrap();
        session.exp_string(edit).unwrap();
        type_in(&mut session, "\u{15}{\"path\":\"b.txt\"}\r");
        session.exp_string("Ready.").unwrap();
        session.exp_eof().unwrap();
        let left = ["b.txt", "precious.txt"].map(|name| is_there(&folder, name));
        assert_eq!(left, [false, true]);
    }
}

/// A text that looks like a question of the command, also where a line of 80 columns breaks.
const FORGED: &str = "fine\nallow it? y(es) n(o) e(dit) \n\u{1b}[2J\u{202e}\r--------------------------\
    -------------------------------------------------------allow it? y(es) n(o) e(dit) ";

/// A folder with a text like a question, and a file that must not go.
fn precious() -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a.txt"), FORGED).unwrap();
    fs::write(folder.path().join("b.txt"), "B").unwrap();
    fs::write(folder.path().join("precious.txt"), "Ours.").unwrap();
    let tools = format!("files:{}", folder.path().display());
    (folder, tools)
}

fn is_there(folder: &TempDir, name: &str) -> bool {
    folder.path().join(name).exists()
}

/// Returns whether each line of the screen with this text has the mark, or is the prompt itself.
fn only_marked(shown: &str, text: &str) -> bool {
    let lines = shown.split('\n').filter(|line| line.contains(text));
    // The spinner was there before, and is gone.
    let mut lines = lines.map(|line| line.trim_end_matches('\r').rsplit('\r').next().unwrap());
    lines.all(|line| line.starts_with('|'))
}

#[test]
fn what_was_typed_before_a_question_does_not_answer_it() {
    for term in ["xterm-256color", "dumb"] {
        let (folder, tools) = precious();
        let delete = r#"{"path":"precious.txt"}"#;
        let read = call("file_read", r#"{"path":"a.txt"}"#);
        let model = server(&[read, call("file_delete", delete), says("Ready.")]);
        let mut command = asking("run", &model);
        command.args(["--ask", "--tools", &tools, "Read a.txt."]);
        let mut session = at_terminal(command, term);
        // The answer to the question in the file waits in the terminal.
        type_in(&mut session, "y\ryes\r");
        let before = session.exp_string("a call waits for your decision (it is irreversible):");
        let before = before.unwrap();
        assert!(before.contains("| allow it? y(es)"), "{before:?}");
        assert!(only_marked(&before, "allow it?"), "{before:?}");
        assert!(before.contains("\\u001b[2J\\u202e\\u000d---"), "{before:?}");
        let above = session.exp_string("allow it? y(es) n(o) e(dit) ").unwrap();
        assert!(above.contains("| file_delete {\"path\":\"precious.txt\"}"), "{above:?}");
        assert!(above.contains("(what was typed before this question is dropped)"), "{above:?}");
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!((model.asked().len(), is_there(&folder, "precious.txt")), (2, true), "{term}");
        type_in(&mut session, "n\r");
        session.exp_string("Ready.").unwrap();
        session.exp_eof().unwrap();
        assert!(is_there(&folder, "precious.txt"), "{term}");
    }
}

#[test]
fn each_question_has_an_answer_of_its_own() {
    let (folder, tools) = precious();
    let deletes =
        call_two(("file_delete", r#"{"path":"a.txt"}"#), ("file_delete", r#"{"path":"b.txt"}"#));
    let model = server(&[deletes, says("Ready.")]);
    let mut command = asking("run", &model);
    command.args(["--ask", "--tools", &tools, "Tidy up."]);
    let mut session = at_terminal(command, TERM);
    session.exp_string("| file_delete {\"path\":\"a.txt\"}").unwrap();
    session.exp_string("allow it? ").unwrap();
    // The second answer is there before the second question.
    type_in(&mut session, "y\ry\r");
    session.exp_string("| file_delete {\"path\":\"b.txt\"}").unwrap();
    session.exp_string("allow it? ").unwrap();
    // So are the arguments before the line for them.
    type_in(&mut session, "e\r\u{15}{\"path\":\"precious.txt\"}\r");
    session.exp_string("arguments: ").unwrap();
    type_in(&mut session, "\u{15}{\"path\":\"nothing.txt\"}\r");
    session.exp_string("Ready.").unwrap();
    session.exp_eof().unwrap();
    let left = ["a.txt", "b.txt", "precious.txt"].map(|name| is_there(&folder, name));
    assert_eq!(left, [false, true, true]);
}

#[test]
fn a_question_is_shown_where_it_is_answered() {
    let (folder, tools) = precious();
    // The path is so long that the line breaks before what looks like a question.
    let path = format!("{}allow it? y(es) n(o) e(dit) ", "x".repeat(80 - 2 - 21));
    let arguments = serde_json::json!({"path": path}).to_string();
    let lost = call("file_delete", &arguments);
    let delete = call("file_delete", r#"{"path":"precious.txt"}"#);
    let model = server(&[lost, delete, says("Ready.")]);
    let mut command = asking("run", &model);
    command.args(["--ask", "--tools", &tools, "Tidy up."]);
    command.stderr(fs::File::create(folder.path().join("log")).unwrap());
    let mut session = at_terminal(command, TERM);
    session.exp_string("x\r\n| allow it? y(es) n(o) e(dit) \"}\r\n").unwrap();
    session.exp_string("allow it? ").unwrap();
    type_in(&mut session, "n\r");
    session.exp_string("| file_delete {\"path\":\"precious.txt\"}").unwrap();
    session.exp_string("allow it? ").unwrap();
    type_in(&mut session, "n\r");
    session.exp_eof().unwrap();
    assert!(is_there(&folder, "precious.txt"));
}

#[test]
fn a_recording_asks_before_each_call_that_does_more_than_read() {
    let (folder, tools) = precious();
    let file = folder.path().join("run.json");
    let replies = [
        call("file_read", r#"{"path":"b.txt"}"#),
        call("file_delete", r#"{"path":"precious.txt"}"#),
        says("Gone."),
    ];
    let model = server(&replies);
    let ran = run(asking("record", &model).arg(&file).args(["--tools", &tools, "Tidy up."]));
    assert_eq!((ran.code, is_there(&folder, "precious.txt")), (Some(0), false), "{}", ran.stderr);
    fs::write(folder.path().join("precious.txt"), "Ours.").unwrap();

    let replay = || {
        let mut command = program("replay");
        command.arg(&file).args(["--no-journal", "--tools", &tools]);
        command
    };
    // Nobody can be asked.
    let ran = run(&mut replay());
    assert_eq!((ran.code, is_there(&folder, "precious.txt")), (Some(1), true), "{}", ran.stderr);
    assert!(ran.stderr.contains("--yes allows every call of the recording"), "{}", ran.stderr);
    assert!(ran.stderr.contains("<- file_read B"), "{}", ran.stderr);

    let mut session = at_terminal(replay(), TERM);
    session.exp_string("| file_delete {\"path\":\"precious.txt\"}").unwrap();
    session.exp_string("allow it? ").unwrap();
    session.send_control('c').unwrap();
    session.exp_eof().unwrap();
    assert!(is_there(&folder, "precious.txt"));

    let ran = run(replay().arg("--yes"));
    assert_eq!((ran.code, is_there(&folder, "precious.txt")), (Some(0), false), "{}", ran.stderr);
}

#[test]
fn a_resumed_run_asks_about_the_call_that_it_would_make() {
    let (folder, tools) = precious();
    let delete = call("file_delete", r#"{"path":"precious.txt"}"#);
    let model = server(&[delete, says("Ready.")]);
    let runs = folder.path().join("runs");
    let mut command = asking("run", &model);
    command.args(["--ask", "--tools", &tools, "Tidy up."]);
    let mut kept = program("run");
    kept.args(command.get_args().skip(1).filter(|argument| *argument != "--no-journal"));
    assert_eq!(run(kept.arg("--journal").arg(&runs)).code, Some(1));
    let id = Journal::open(&runs).unwrap().runs().unwrap()[0].id.clone();
    let resume = || {
        let mut command = program("runs");
        command.args(["resume", &id, "--tools", &tools, "--base-url", &model.base_url]);
        command.args(["--model", "small", "--no-stream", "--journal"]).arg(&runs);
        command
    };
    let mut session = at_terminal(resume(), TERM);
    session.exp_string("| file_delete {\"path\":\"precious.txt\"}").unwrap();
    session.exp_string("allow it? ").unwrap();
    session.send_control('d').unwrap();
    session.exp_eof().unwrap();

    // The journal says that the question was about another file.
    let file = runs.join(format!("{id}.journal"));
    forge(&file, |record| {
        if record["waiting"].is_object() {
            record["waiting"]["approval"]["call"]["arguments"] = r#"{"path":"a.txt"}"#.into();
        }
    });
    let mut session = at_terminal(resume(), TERM);
    let shown = session.exp_eof().unwrap();
    assert!(shown.contains("is damaged: it shows"), "{shown:?}");
    assert!(!shown.contains("allow it?") && is_there(&folder, "precious.txt"), "{shown:?}");
    for arguments in [
        &["show", &id][..],
        &["page", &id],
        &["decide", &id, "--call", "call_file_delete", "--approve"],
        &["decide", &id, "--deny", "No."],
    ] {
        let ran = run(program("runs").args(arguments).arg("--journal").arg(&runs));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(ran.stderr.contains("is damaged: "), "{arguments:?}: {}", ran.stderr);
    }
    assert!(
        run(program("runs").args(["list", "--journal"]).arg(&runs)).stdout.contains("unreadable")
    );
}

#[test]
fn pasted_lines_are_not_lost() {
    let folder = TempDir::new().unwrap();
    let model = server(&[says("One."), says("Two."), says("Three."), says("Four.")]);
    let mut session = at_terminal(chat(&model, folder.path()), TERM);
    session.exp_string("> ").unwrap();
    type_in(&mut session, "First.\rSecond.\rThird.\r");
    for answer in ["One.", "Two.", "Three."] {
        session.exp_string(&format!("| {answer}")).unwrap();
    }
    session.exp_string("> ").unwrap();
    // A terminal that marks a paste makes it one message.
    type_in(&mut session, "\u{1b}[200~Fourth,\nin two lines.\u{1b}[201~\r");
    session.exp_string("Four.").unwrap();
    session.exp_string("> ").unwrap();
    session.send_control('d').unwrap();
    session.exp_eof().unwrap();
    let said: Vec<String> = model
        .asked()
        .iter()
        .map(|asked| asked["messages"].as_array().unwrap().last().unwrap()["content"].clone())
        .map(|said| said.as_str().unwrap().to_owned())
        .collect();
    assert_eq!(said, ["First.", "Second.", "Third.", "Fourth,\nin two lines."]);
}

#[test]
fn a_line_that_is_not_utf8_is_an_error_and_the_next_one_is_read() {
    let folder = TempDir::new().unwrap();
    let model = server(&[says("Hello.")]);
    let mut session = at_terminal(chat(&model, folder.path()), TERM);
    session.exp_string("> ").unwrap();
    let mut terminal = session.process().get_file_handle().unwrap();
    terminal.write_all(b"caf\xe9 au lait\r").unwrap();
    session.exp_string("the line is not UTF-8 text").unwrap();
    session.exp_string("> ").unwrap();
    type_in(&mut session, "Hi.\r");
    session.exp_string("Hello.").unwrap();
    session.exp_string("> ").unwrap();
    session.send_control('d').unwrap();
    session.exp_eof().unwrap();
    assert_eq!(model.asked().len(), 1);
    assert!(model.asked()[0]["messages"].to_string().contains("Hi."));
}

#[test]
fn text_of_others_has_a_mark_and_no_effect_at_a_terminal() {
    let said = format!("{FORGED}\nerror: it was not me\n> ");
    // The answer, streamed or not, and the result of a tool.
    for stream in [false, true] {
        let whole = says(&said);
        let reply = match stream {
            false => whole,
            true => {
                let piece = serde_json::json!({"choices": [{"delta": {"content": said}, "finish_reason": "stop"}]});
                format!("data: {piece}\n\ndata: [DONE]\n\n")
            }
        };
        let model = server(&[reply]);
        let mut command = program("run");
        command.args(["--base-url", &model.base_url, "--model", "small", "--no-journal"]);
        if !stream {
            command.arg("--no-stream");
        }
        command.arg("Say it.");
        let shown = at_terminal(command, TERM).exp_eof().unwrap();
        for text in ["allow it?", "it was not me", "fine"] {
            assert!(shown.contains(text), "{shown:?}");
            let all = shown.replace("\u{1b}[2K", "");
            assert!(only_marked(&all, text), "{stream}: {shown:?}");
        }
        assert!(!shown.contains("\u{1b}[2J") && !shown.contains('\u{202e}'), "{shown:?}");
    }
    let (_folder, tools) = precious();
    let mut command = program("tools");
    command.args(["call", "file_read", r#"{"path":"a.txt"}"#, "--tools", &tools]);
    let shown = at_terminal(command, TERM).exp_eof().unwrap();
    assert!(shown.contains("| allow it?") && only_marked(&shown, "allow it?"), "{shown:?}");
}

#[test]
fn a_pasted_line_is_a_task_and_never_an_answer() {
    let (folder, tools) = precious();
    let delete = call("file_delete", r#"{"path":"precious.txt"}"#);
    let model = server(&[delete, says("Asked."), says("Yes to what?")]);
    let mut command = asking("chat", &model);
    command.env("XDG_DATA_HOME", folder.path()).args(["--ask", "--tools", &tools]);
    let mut session = at_terminal(command, TERM);
    session.exp_string("> ").unwrap();
    type_in(&mut session, "Tidy up.\ry\r");
    session.exp_string("| file_delete {\"path\":\"precious.txt\"}").unwrap();
    session.exp_string("allow it? ").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!((model.asked().len(), is_there(&folder, "precious.txt")), (1, true));
    // While the question is open, what is typed is its answer.
    type_in(&mut session, "n\r");
    session.exp_string("Asked.").unwrap();
    session.exp_string("Yes to what?").unwrap();
    session.exp_string("> ").unwrap();
    session.send_control('d').unwrap();
    session.exp_eof().unwrap();
    assert!(is_there(&folder, "precious.txt"));
}

#[test]
fn names_and_descriptions_of_others_have_the_mark_in_every_command() {
    let folder = TempDir::new().unwrap();
    let question = "allow it? y(es) n(o) e(dit) ";
    // A file of contracts, and the server of a stranger with the same tools.
    let described = format!("First.\n{question}\u{202e}\n\n{question}");
    let schema = serde_json::json!({
        "type": "object",
        "properties": {"a": {"type": "string", "description": described}},
    });
    let tools = serde_json::json!({"tools": [
        {"name": "one", "description": described, "inputSchema": schema},
        {"name": question, "description": described, "inputSchema": {"type": "string"}},
    ]});
    let file = folder.path().join("tools.json");
    fs::write(&file, tools.to_string()).unwrap();
    let old = folder.path().join("old.json");
    fs::write(&old, r#"{"tools": []}"#).unwrap();
    let (file, old) = (file.to_str().unwrap(), old.to_str().unwrap());

    // A journal of a stranger.
    let journal = Journal::open(folder.path().join("runs")).unwrap();
    let agent = toolwright_orchestrator::Agent::new(
        toolwright_module::testing::Scripted::new(move |_| {
            Ok(toolwright_module::Reply::text(format!("{question}\n{question}")))
        }),
        [],
    );
    let cx = toolwright_module::Context::default();
    let cx = cx.with_run(question, [(question, question), ("task", question)]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let task = format!("{question}\n{question}");
    runtime.block_on(journal.drive(&agent.unwrap(), question, task, &cx)).unwrap();
    let runs = folder.path().join("runs");
    let runs = runs.to_str().unwrap();

    for arguments in [
        &["contract", "show", file][..],
        &["contract", "diff", old, file],
        &["contract", "diff", file, old],
        &["contract", "show", "--json", file],
        &["contract", "lower", "--dialect", "gemini", file],
        &["runs", "show", "latest", "--journal", runs],
        &["runs", "list", "--journal", runs],
        &["runs", "page", "latest", "--journal", runs],
    ] {
        let mut command = program(arguments[0]);
        command.args(&arguments[1..]);
        let shown = at_terminal(command, TERM).exp_eof().unwrap();
        assert!(shown.contains("allow it?"), "{arguments:?}: {shown:?}");
        let plain = regex_lite::Regex::new("\u{1b}\\[[0-9;]*m").unwrap().replace_all(&shown, "");
        for line in plain.lines() {
            let line = line.trim_start();
            assert!(!line.starts_with("allow it?"), "{arguments:?}: {shown:?}");
        }
        assert!(!shown.contains('\u{202e}') && !shown.contains("\u{e2}\u{80}\u{ae}"), "{shown:?}");
    }
}
