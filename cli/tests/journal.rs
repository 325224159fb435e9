//! The journal: the default folder, and runs that are killed and go on.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolwright_journal::{Journal, RunStatus};

use crate::common::{call, forge, program, run, run_with, says, server};
use crate::server::Server;

const STORE: &str = r#"{"key":"color","value":"blue"}"#;

fn asking(command: &str, server: &Server, folder: &Path) -> Command {
    let mut program = program(command);
    program.args(["--base-url", &server.base_url, "--model", "small", "--no-stream"]);
    program.env("XDG_DATA_HOME", folder);
    program
}

fn journal(folder: &Path) -> Journal {
    Journal::open(folder.join("toolwright/runs")).unwrap()
}

/// Starts a command that stores a color, and kills it at its next question. Returns the id of the
/// run.
fn cut_off(mut start: impl FnMut(&Server) -> Command, folder: &Path) -> String {
    let silent = server(&[call("memory_store", STORE), String::new()]);
    let mut child = start(&silent).stderr(std::process::Stdio::null()).spawn().unwrap();
    for _ in 0..1_000 {
        if silent.asked().len() == 2 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(silent.asked().len(), 2, "the second question did not come");
    child.kill().unwrap();
    child.wait().unwrap();
    journal(folder).runs().unwrap().last().unwrap().id.clone()
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn a_database_is_no_folder_and_no_folder_has_the_name_of_a_password() {
    let folder = folder();
    let url = "postgres://kate:Secret-77@127.0.0.1:1/d";
    let config = folder.path().join("config.toml");
    fs::write(&config, format!("journal = {url:?}\n")).unwrap();
    let config = config.to_str().unwrap();
    for named in [["--journal", url], ["--journal", "s3://Secret-77/d"], ["--config", config]] {
        for command in ["run", "chat"] {
            let mut program = program(command);
            program.args(["--base-url", "http://127.0.0.1:1", "--model", "small"]).args(named);
            if command == "run" {
                program.arg("Store it.");
            }
            let ran = run(program.current_dir(folder.path()));
            assert_eq!(ran.code, Some(1), "{}", ran.stderr);
            assert!(ran.stderr.contains("journal of this command is a folder"), "{}", ran.stderr);
            assert!(!ran.stderr.contains("Secret-77"), "{}", ran.stderr);
        }
    }
    for toolset in [format!("memory:{url}"), format!("files:{url}")] {
        let ran = run(program("tools").args(["list", "--tools", &toolset]));
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains("takes a path, and not a URL"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("Secret-77"), "{}", ran.stderr);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_killed_run_goes_on_with_the_same_task_in_the_same_folder() {
    let folder = folder();
    let folder = folder.path();
    let start = |task: &'static str| {
        move |server: &Server| {
            let mut command = asking("run", server, folder);
            command.arg(task);
            command
        }
    };
    let id = cut_off(start("Store it."), folder);
    let other = cut_off(start("Store something else."), folder);
    assert_ne!(id, other);

    // Not in another folder, and not if the user wants another run.
    let model = server(&[says("Elsewhere.")]);
    let ran = run(asking("run", &model, folder).current_dir(folder).arg("Store it."));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Elsewhere.\n"), "{}", ran.stderr);
    let model = server(&[says("Anew.")]);
    let ran = run(asking("run", &model, folder).args(["--new", "Store it."]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Anew.\n"), "{}", ran.stderr);

    let model = server(&[says("Stored.")]);
    let ran = run(asking("run", &model, folder).arg("Store it."));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Stored.\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("(run {id} of this task goes on; ")), "{}", ran.stderr);
    // The call has its result, so it is not made again.
    assert!(!ran.stderr.contains("memory_store"), "{}", ran.stderr);
    let asked = model.asked();
    let said = asked[0]["messages"].as_array().unwrap();
    assert_eq!((asked.len(), &said.last().unwrap()["role"]), (1, &json!("tool")));

    // The same task again is a new run.
    let model = server(&[says("Again.")]);
    let ran = run(asking("run", &model, folder).arg("Store it."));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Again.\n"), "{}", ran.stderr);
    assert_eq!(journal(folder).runs().unwrap().len(), 5);
}

#[test]
fn a_run_with_other_options_is_left_alone() {
    let folder = folder();
    let folder = folder.path();
    let start = |server: &Server| {
        let mut command = asking("run", server, folder);
        command.arg("Ada is 36.");
        command
    };
    let id = cut_off(start, folder);
    // Its answer would not have the form that the user asks for.
    let model = server(&[call("finish", r#"{"name":"Ada","age":36}"#)]);
    let mut command = asking("run", &model, folder);
    let ran = run(command.args(["--schema", "name, age int", "Ada is 36."]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stdout, "{\"name\":\"Ada\",\"age\":36}\n");
    let told = format!("(run {id} of this task has other options; `toolwright runs resume {id}` ");
    assert!(ran.stderr.contains(&told), "{}", ran.stderr);
    assert!(!ran.stderr.contains("goes on; --new"), "{}", ran.stderr);

    // Limits may change.
    let model = server(&[says("Stored.")]);
    let mut command = asking("run", &model, folder);
    let ran = run(command.args(["--max-time", "60", "Ada is 36."]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Stored.\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("(run {id} of this task goes on; ")), "{}", ran.stderr);
    let options = &journal(folder).run(&id).unwrap().metadata["options"];
    assert_eq!(options, r#"{"tools":["memory"]}"#);
}

/// The command of a server with a memory in this file.
fn remembering(file: &str) -> String {
    let program = env!("CARGO_BIN_EXE_toolwright");
    format!("{program} mcp serve --no-config --tools memory:{file}")
}

#[test]
fn a_run_goes_on_with_the_same_servers_only() {
    let home = folder();
    let home = home.path();
    let staging = remembering("staging.db");
    let production = remembering("production.db");
    fs::create_dir(home.join("here")).unwrap();
    fs::create_dir(home.join("there")).unwrap();
    let with = |server: &Server, servers: &[&str]| {
        let mut command = asking("run", server, home);
        command.current_dir(home.join("here")).args(["--tools", "none"]).args(servers);
        command.env("MCP_WORD", "hunter2-0123456789").arg("Drop it.");
        command
    };
    let first = ["--mcp", &staging];
    let id = cut_off(|server| with(server, &first), home);
    // Each of these is another server, or tools with other names.
    for servers in [
        &["--mcp", &production][..],
        &["--mcp", &format!("a={staging}")],
        &["--mcp", &staging, "--mcp-env", "MCP_WORD"],
        &["--mcp", &staging, "--mcp", &production],
        &["--mcp", &production, "--mcp", &staging],
        &["--mcp", &format!("sh -c 'exec {staging}'")],
    ] {
        let model = server(&[says("Anew.")]);
        let ran = run(&mut with(&model, servers));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Anew.\n"), "{}", ran.stderr);
        let told =
            format!("(run {id} of this task used other servers, folders, files or accounts, so");
        assert!(ran.stderr.contains(&told), "{servers:?}: {}", ran.stderr);
        assert!(!model.asked()[0].to_string().contains("call_memory_store"), "{servers:?}");
    }
    let resume = |servers: &[&str], folder: &str| {
        let model = server(&[says("Stored.")]);
        let mut command = program("runs");
        command.args(["resume", &id, "--base-url", &model.base_url, "--model", "small"]);
        command.args(["--no-stream", "--tools", "none"]).args(servers);
        command.current_dir(home.join(folder)).env("XDG_DATA_HOME", home);
        run(&mut command)
    };
    for (servers, folder) in
        [(&["--mcp", &production][..], "here"), (&first, "there"), (&[], "here")]
    {
        let ran = resume(servers, folder);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{servers:?} {}", ran.stderr);
        assert!(
            ran.stderr.contains("used other servers, folders, files or accounts"),
            "{}",
            ran.stderr
        );
    }
    let ran = resume(&first, "here");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Stored.\n"), "{}", ran.stderr);
    // The journal has no variable and no argument of a command.
    for run in journal(home).runs().unwrap() {
        let options = &run.metadata["options"];
        assert!(!options.contains("staging") && !options.contains("hunter2"), "{options}");
    }
}

#[test]
fn a_run_goes_on_with_the_same_home_folder_and_token_only() {
    let home = folder();
    let home = home.path();
    let server_of = remembering(home.join("it.db").to_str().unwrap());
    let with = |server: &Server, tools: &[&str], variable: &str, value: &str| {
        let mut command = asking("run", server, home);
        command.current_dir(home).args(tools).env(variable, value).arg("Drop it.");
        command
    };
    let (mcp, github) = (["--tools", "none", "--mcp", &server_of], ["--tools", "memory,github"]);
    let cases: [(&[&str], _, _, _); 3] = [
        (&mcp, "HOME", "first", "other"),
        (&github, "GH_TOKEN", "ghp_First", "ghp_Other"),
        (&github, "GITHUB_TOKEN", "ghp_First", ""),
    ];
    for (tools, variable, first, other) in cases {
        let value = |value: &str| match variable {
            "HOME" => home.join(value).to_str().unwrap().to_owned(),
            _ => value.to_owned(),
        };
        let (first, other) = (value(first), value(other));
        let id = cut_off(|server| with(server, tools, variable, &first), home);
        let model = server(&[says("Anew.")]);
        let ran = run(&mut with(&model, tools, variable, &other));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Anew.\n"), "{}", ran.stderr);
        let told = format!("(run {id} of this task used other servers, folders, files or accounts");
        assert!(ran.stderr.contains(&told), "{variable}: {}", ran.stderr);
        assert!(ran.stderr.contains("Another token or home folder counts as another account"));
        assert!(!model.asked()[0].to_string().contains("call_memory_store"), "{variable}");

        let model = server(&[says("Stored.")]);
        let ran = run(&mut with(&model, tools, variable, &first));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Stored.\n"), "{}", ran.stderr);
        let text = journal(home).run(&id).unwrap().metadata["options"].clone();
        assert!(!text.contains("ghp_"), "{text}");
    }
}

#[cfg(unix)]
#[test]
fn a_run_goes_on_with_the_same_folder_only_however_it_is_named() {
    let home = folder();
    let home = home.path();
    for name in ["a", "b"] {
        fs::create_dir(home.join(name)).unwrap();
    }
    let link = home.join("current");
    std::os::unix::fs::symlink(home.join("a"), &link).unwrap();
    let files = format!("memory,files:{}", link.display());
    let with = |server: &Server, tools: &str| {
        let mut command = asking("run", server, home);
        command.args(["--tools", tools, "Store it."]);
        command
    };
    let id = cut_off(|server| with(server, &files), home);
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(home.join("b"), &link).unwrap();
    let model = server(&[says("Anew.")]);
    let ran = run(&mut with(&model, &files));
    assert!(ran.stderr.contains(&format!("(run {id} of this task used other")), "{}", ran.stderr);
    let model = server(&[says("Stored.")]);
    let ran = run(&mut with(&model, &format!("memory,files:{}", home.join("a").display())));
    assert!(ran.stderr.contains("(run "), "{}", ran.stderr);
    assert_eq!(ran.stdout, "Stored.\n", "{}", ran.stderr);
}

#[test]
fn a_run_of_another_user_does_not_reach_the_files_of_this_one() {
    let (theirs, ours) = (folder(), folder());
    let files = format!("memory,files:{}", ours.path().display());
    let with = |server: &Server, home: &Path| {
        let mut command = asking("run", server, home);
        command.args(["--tools", &files, "Store it."]);
        command
    };
    let id = cut_off(|server| with(server, theirs.path()), theirs.path());
    // All but the secret of that user, which holds for the same path too.
    let name = format!("toolwright/runs/{id}.journal");
    let (from, to) = (theirs.path().join(&name), ours.path().join(&name));
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let refused = || {
        let model = server(&[says("Anew.")]);
        let ran = run(&mut with(&model, ours.path()));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Anew.\n"), "{}", ran.stderr);
        let told =
            format!("(run {id} of this task used other servers, folders, files or accounts, so");
        assert!(ran.stderr.contains(&told), "{}", ran.stderr);
        let mut command = program("runs");
        command.args(["resume", &id, "--base-url", &model.base_url, "--model", "small"]);
        command.args(["--tools", &files]).env("XDG_DATA_HOME", ours.path());
        let ran = run(&mut command);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
        assert!(ran.stderr.contains("or another user started it"), "{}", ran.stderr);
    };
    fs::copy(&from, &to).unwrap();
    refused();
    forge(&to, |record| {
        if record["started"].is_object() {
            record["started"]["metadata"] = json!({});
        }
    });
    refused();
    let ran = run(&mut with(&server(&[says("Stored.")]), theirs.path()));
    assert_eq!(ran.stdout, "Stored.\n", "{}", ran.stderr);
}

#[test]
fn a_conversation_goes_on_with_the_same_servers_only() {
    let home = folder();
    let home = home.path();
    let chat = |model: &Server, memory: &str, continues: bool| {
        let server = remembering(&home.join(memory).display().to_string());
        let mut command = asking("chat", model, home);
        command.args(["--tools", "none", "--mcp", &server]);
        let ran = run_with(command.args(continues.then_some("--continue")), "Go on.\n");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stderr
    };
    chat(&server(&[says("The staging table.")]), "staging.db", false);
    let model = server(&[says("Hello.")]);
    let told = chat(&model, "production.db", true);
    assert!(
        told.contains("used other servers, folders, files or accounts, so this is a new one"),
        "{told}"
    );
    assert!(!model.asked()[0].to_string().contains("staging table"));
    let model = server(&[says("Hello.")]);
    let told = chat(&model, "production.db", true);
    assert!(told.contains("goes on)"), "{told}");
}

#[test]
fn a_run_that_is_resumed_has_its_options_again() {
    let folder = folder();
    let folder = folder.path();
    let options = ["--tools", "memory,text", "--system", "Be brief.", "--schema", "color"];
    let start = |server: &Server| {
        let mut command = asking("run", server, folder);
        command.args(options).arg("Which color?");
        command
    };
    let id = cut_off(start, folder);
    let model = server(&[call("finish", r#"{"color":"blue"}"#)]);
    let resume = |model: &Server, id: &str| {
        let mut command = program("runs");
        command.args(["resume", id, "--base-url", &model.base_url, "--model", "small"]);
        run(command.args(["--no-stream", "--json"]).env("XDG_DATA_HOME", folder))
    };
    let ran = resume(&model, &id);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let last: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["result"]["output"], json!({"color": "blue"}));
    assert!(!ran.stderr.contains("removed"), "{}", ran.stderr);
    let asked = &model.asked()[0];
    // With `read_result` and `finish`.
    assert_eq!(asked["tools"].as_array().unwrap().len(), 9 + 8 + 1 + 1);
    assert!(asked["messages"].to_string().contains("Be brief."));

    let ran = resume(&model, "none");
    let last: Value = serde_json::from_str(ran.stdout.trim()).unwrap();
    assert_eq!((ran.code, &last["error"]["stage"]), (Some(1), &json!("setup")));
    assert!(last["error"]["text"].as_str().unwrap().starts_with("there is no run "), "{last}");
}

#[test]
fn a_task_that_another_process_carries_out_is_not_begun_again() {
    let folder = folder();
    let silent = server(&[String::new()]);
    let mut child = asking("run", &silent, folder.path())
        .arg("Wait.")
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while silent.asked().is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let model = server(&[says("Hello.")]);
    // The same task is not paid twice, unless the user says so. Another one is another run.
    let ran = run(asking("run", &model, folder.path()).arg("Wait."));
    let others = [&["--new", "Wait."][..], &["--system", "Be brief.", "Wait."], &["Go."]];
    let others = others.map(|task| run(asking("run", &model, folder.path()).args(task)));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("is under way in another process"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--new"), "{}", ran.stderr);
    for ran in others {
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Hello.\n"), "{}", ran.stderr);
    }
    assert_eq!(journal(folder.path()).runs().unwrap().len(), 4);
    // Its process is gone, so it goes on.
    let ran = run(asking("run", &model, folder.path()).arg("Wait."));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Hello.\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("of this task goes on"), "{}", ran.stderr);
}

#[test]
fn the_same_task_started_twice_at_once_is_paid_once() {
    let folder = folder();
    let silent = server(&[String::new()]);
    let start = || {
        let mut command = asking("run", &silent, folder.path());
        command.arg("Wait.").stderr(std::process::Stdio::null()).spawn().unwrap()
    };
    let mut children: Vec<_> = (0..4).map(|_| start()).collect();
    // All but one end at once.
    let mut ended = 0;
    for _ in 0..1_000 {
        ended = children.iter_mut().filter_map(|child| child.try_wait().unwrap()).count();
        if ended == 3 && silent.asked().len() == 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    for mut child in children {
        let _ = child.kill();
        child.wait().unwrap();
    }
    assert_eq!((ended, silent.asked().len()), (3, 1));
}

#[test]
fn a_conversation_goes_on_where_it_ended() {
    let folder = folder();
    let folder = folder.path();
    let chat = |model: &Server, arguments: &[&str], lines: &str| {
        let ran = run_with(asking("chat", model, folder).args(arguments), lines);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran
    };
    let model = server(&[says("Hello, Ada.")]);
    chat(&model, &[], "I am Ada.\n");
    let model = server(&[says("Ada.")]);
    let ran = chat(&model, &["--continue"], "Who am I?\n");
    assert_eq!(ran.stdout, "Ada.\n", "{}", ran.stderr);
    let text = model.asked()[0]["messages"].to_string();
    assert!(text.contains("I am Ada.") && text.contains("Hello, Ada."), "{text}");

    // A task that was cut off is finished first. A task of `run` is not part of a conversation.
    let model = server(&[says("Other.")]);
    run(asking("run", &model, folder).arg("Something else."));
    let lines = folder.join("lines");
    fs::write(&lines, "Store it.\n").unwrap();
    let start = |server: &Server| {
        let mut command = asking("chat", server, folder);
        command.stdin(fs::File::open(&lines).unwrap());
        command
    };
    cut_off(start, folder);
    let model = server(&[says("Stored."), says("Blue.")]);
    let ran = chat(&model, &["--continue"], "Which color?\n");
    assert_eq!(ran.stdout, "Stored.\nBlue.\n", "{}", ran.stderr);
    let text = model.asked()[1]["messages"].to_string();
    assert!(text.contains("Store it.") && text.contains("Stored."), "{text}");
    assert!(!text.contains("Ada"), "{text}");
    let runs = journal(folder).runs().unwrap();
    assert!(runs.iter().all(|run| run.status == RunStatus::Finished), "{runs:?}");

    // Without the option it begins anew.
    let model = server(&[says("Hello.")]);
    chat(&model, &[], "Hi.\n");
    assert!(!model.asked()[0]["messages"].to_string().contains("Store it."));
}

#[test]
fn a_conversation_goes_on_although_its_last_task_fails_again_or_was_cancelled() {
    let folder = folder();
    let folder = folder.path();
    let chat = |model: &Server, arguments: &[&str], lines: &str| {
        run_with(asking("chat", model, folder).args(arguments), lines)
    };
    chat(&server(&[says("Hello, Ada.")]), &[], "I am Ada.\n");
    let lines = folder.join("lines");
    fs::write(&lines, "Store it.\n").unwrap();
    let start = |server: &Server| {
        let mut command = asking("chat", server, folder);
        command.arg("--continue").stdin(fs::File::open(&lines).unwrap());
        command
    };
    cut_off(start, folder);
    let model = server(&["no JSON".to_owned(), says("Ada.")]);
    let ran = chat(&model, &["--continue"], "Who am I?\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "Ada.\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("continues with what was said and done"), "{}", ran.stderr);
    let text = model.asked().last().unwrap()["messages"].to_string();
    assert!(text.contains("I am Ada.") && text.contains("Store it."), "{text}");

    // A run that a person cancelled is not driven again.
    let id = cut_off(start, folder);
    journal(folder).cancel(&id).unwrap();
    let model = server(&[says("Still Ada.")]);
    let ran = chat(&model, &["--continue"], "And now?\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Still Ada.\n"), "{}", ran.stderr);
    assert_eq!(model.asked().len(), 1);
    let text = model.asked()[0]["messages"].to_string();
    assert!(text.contains("I am Ada.") && text.contains("And now?"), "{text}");

    // Of a run that another process drives, nobody knows what will be said.
    let silent = server(&[String::new()]);
    let mut child = start(&silent).stderr(std::process::Stdio::null()).spawn().unwrap();
    for _ in 0..1_000 {
        if silent.asked().len() == 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let model = server(&[says("New.")]);
    let ran = chat(&model, &["--continue"], "Hello?\n");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "New.\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("(this is a new conversation)"), "{}", ran.stderr);
    let text = model.asked()[0]["messages"].to_string();
    assert!(!text.contains("Store it."), "{text}");
}

#[test]
fn every_run_is_kept_by_default_for_this_user_only() {
    let folder = folder();
    let model = server(&[says("Hello.")]);
    let ran = run(asking("run", &model, folder.path()).args(["--json", "Say hello."]));
    let first: Value = serde_json::from_str(ran.stdout.lines().next().unwrap()).unwrap();
    let runs = journal(folder.path()).runs().unwrap();
    assert_eq!((runs.len(), &first["run"]), (1, &json!(runs[0].id)));
    let here = std::env::current_dir().unwrap().display().to_string();
    assert_eq!(runs[0].metadata["folder"], here);
    assert_eq!(runs[0].metadata["command"], "run");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;

        let made = fs::metadata(folder.path().join("toolwright")).unwrap();
        assert_eq!(made.permissions().mode() & 0o777, 0o700);
    }

    let named = folder.path().join("named");
    let ran = run(asking("run", &model, folder.path()).arg("--journal").arg(&named).arg("Hi."));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ran = run(asking("run", &model, folder.path()).args(["--no-journal", "Hi."]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(Journal::open(&named).unwrap().runs().unwrap().len(), 1);
    assert_eq!(journal(folder.path()).runs().unwrap().len(), 1);
}

#[test]
fn a_journal_that_cannot_be_made_is_an_error_with_advice() {
    let folder = folder();
    fs::write(folder.path().join("toolwright"), "a file").unwrap();
    let model = server(&[says("Hello.")]);
    let ran = run(asking("run", &model, folder.path()).arg("Hi."));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("use --journal or --no-journal"), "{}", ran.stderr);
    assert!(model.asked().is_empty());
}

#[test]
fn a_long_result_is_read_in_a_later_task_and_shown_without_keys() {
    let folder = folder();
    let folder = folder.path();
    let key = "sk-test-0123456789abcdef";
    let value = format!("{}the end is {key} here", "word ".repeat(20_000));
    let store = json!({"key": "log", "value": value}).to_string();
    let model = server(&[
        call("memory_store", &store),
        call("memory_retrieve", r#"{"key":"log"}"#),
        says("It is long."),
        call("read_result", r#"{"id":"call_memory_retrieve","search":"THE END"}"#),
        says("It ends."),
    ]);
    let ran = run_with(
        asking("chat", &model, folder).args(["--tools", "memory"]),
        "Look at the log.\nHow does it end?\n",
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "It is long.\nIt ends.\n"));
    let asked = model.asked();
    let told = |nth: usize| asked[nth]["messages"].as_array().unwrap().last().unwrap().to_string();
    let note = r#"read more with read_result {\"id\": \"call_memory_retrieve\"}]"#;
    assert!(told(2).contains(note), "{}", &told(2)[65_000..]);
    assert!(!told(2).contains("the end is"));
    assert!(told(4).contains(&format!("the end is {key} here")), "{}", told(4));
    // The second task is a run of its own, which holds the result of the first.
    let runs = journal(folder).runs().unwrap();
    assert_eq!(runs.len(), 2);
    for run_of in &runs {
        for command in ["show", "page"] {
            let mut program = program("runs");
            let ran = run(program.args([command, &run_of.id]).env("XDG_DATA_HOME", folder));
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            assert!(!ran.stdout.contains(key), "{command}");
            let says = match command {
                "show" => "bytes kept)",
                _ => "The run keeps 100,0",
            };
            let is_first = run_of.id == runs[0].id;
            assert_eq!(ran.stdout.contains(says), is_first, "{:.2000}", ran.stdout);
        }
    }
}
