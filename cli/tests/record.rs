//! `record` and `replay`.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{asking, call, program, run, says, server};
use crate::server::Server;

const TASK: &str = "Store it.";

fn record(server: &Server, file: &std::path::Path) -> Command {
    let mut command = asking("record", server);
    command.arg(file);
    command
}

#[test]
fn a_recorded_run_is_replayed_with_live_tools_and_its_own_options() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("run.json");
    let finish = r#"{"stored": "true"}"#;
    let replies = [
        call("memory_store", r#"{"key":"color","value":"blue"}"#),
        call("memory_count", "{}"),
        call("finish", finish),
    ];
    let model = server(&replies);
    let options = ["--schema", "stored bool", "--system", "Be brief.", "--tools", "text,memory"];
    let ran = run(record(&model, &file).args(options).arg(TASK));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "{\"stored\":true}\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("recorded in "), "{}", ran.stderr);
    assert_eq!(model.asked()[0]["temperature"], 0.0);

    let replay = |arguments: &[&str]| {
        run(program("replay").arg(&file).args(["--no-journal", "--yes"]).args(arguments))
    };
    let ran = replay(&[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "{\"stored\":true}\n"), "{}", ran.stderr);
    let how = "replaying a run recorded with small and the options --schema --system; the tools run live\n";
    assert!(ran.stderr.starts_with(how), "{}", ran.stderr);
    assert!(ran.stderr.contains("<- memory_count 1"), "{}", ran.stderr);
    // Other tools are other requests.
    let ran = replay(&["--tools", "text"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("error: "), "{}", ran.stderr);
}

#[test]
fn a_recording_chooses_no_folder_and_no_server() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a.txt"), "Rain.").unwrap();
    let file = folder.path().join("run.json");
    let model = server(&[call("file_read", r#"{"path":"a.txt"}"#), says("Rain.")]);
    let tools = format!("files:{}", folder.path().display());
    let ran = run(record(&model, &file).args(["--tools", &tools, TASK]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);

    let replay = |arguments: &[&str]| {
        run(program("replay").arg(&file).args(["--no-journal", "--yes"]).args(arguments))
    };
    let ran = replay(&[]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("name them with --tools and --mcp"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("file_read"), "{}", ran.stderr);
    let ran = replay(&["--tools", &tools]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Rain.\n"), "{}", ran.stderr);

    // A forged recording, which lists such toolsets as harmless, is refused too.
    let mut forged: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let memory = format!("memory:{}", folder.path().join("evil.db").display());
    for toolset in [tools.as_str(), &memory, "github"] {
        forged["metadata"] = serde_json::json!({ "tools": [toolset] });
        fs::write(&file, forged.to_string()).unwrap();
        let ran = replay(&[]);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("name them with --tools and --mcp"), "{}", ran.stderr);
    }
    assert!(!folder.path().join("evil.db").exists());
}

#[test]
fn keys_of_a_file_and_of_any_variable_are_masked() {
    let folder = TempDir::new().unwrap();
    let (file, keys) = (folder.path().join("run.json"), folder.path().join("keys.toml"));
    fs::write(&keys, "SOME_SERVICE = \"plain-words-of-a-file\"").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let task = "Say plain-words-of-a-file, plain-words-of-a-variable and plain-words-of-bedrock.";
    let server = server(&[says(task)]);
    let mut command = record(&server, &file);
    command.arg("--key-file").arg(&keys).args(["--key-env", "LLM_AUTH", task]);
    command.env("LLM_AUTH", "plain-words-of-a-variable");
    command.env("AWS_BEARER_TOKEN_BEDROCK", "plain-words-of-bedrock");
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let written = fs::read_to_string(&file).unwrap();
    assert!(!written.contains("plain-words") && written.contains("[secret]"), "{written}");
    let said = "with [secret] in place of what may be a key (";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
}

/// The tools of a replay run live.
#[test]
fn a_call_with_a_masked_text_is_not_replayed() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("run.json");
    let key = format!("sk-{}", "a-tutorial-for-everyone");
    let arguments = format!(r#"{{"key":"about","value":"{key}"}}"#);
    let model = server(&[call("memory_store", &arguments), says("Done.")]);
    let ran = run(record(&model, &file).args(["--tools", "memory", TASK]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ran = run(program("replay").arg(&file).args(["--no-journal", "--yes"]));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("a call in it has [secret] in place of"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("memory_store"), "{}", ran.stderr);
}

#[test]
fn a_key_is_sent_to_the_address_it_was_given_for_and_written_nowhere() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("run.json");
    let key = "sk-test-0123456789abcdefghij";
    let server = server(&[says("Hello.")]);
    let ran = run(record(&server, &file)
        .env("SOME_KEY", key)
        .args(["--key-env", "SOME_KEY", "--system", &format!("Use {key}.")])
        .arg(format!("My key is {key}.")));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.contains("My key is [secret]."), "{written}");
    assert!(!written.contains(key) && !ran.stderr.contains(key));
    let written: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(written["metadata"]["system"], "Use [secret].");
}

#[test]
fn a_recording_that_cannot_be_written_is_found_out_before_the_model_is_asked() {
    let server = server(&[says("Hello.")]);
    let ran = run(record(&server, "no/such/folder/run.json".as_ref()).arg("Hi."));
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.stderr, "error: there is no folder no/such/folder\n");

    let folder = TempDir::new().unwrap();
    let file = folder.path().join("run.json");
    fs::write(&file, "{}").unwrap();
    let ran = run(record(&server, &file).arg("Hi."));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.ends_with("run.json exists; --force overwrites it\n"), "{}", ran.stderr);
    let ran = run(record(&server, folder.path()).args(["--force", "Hi."]));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(server.asked().is_empty());
    let ran = run(record(&server, &file).args(["--force", "Hi."]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn a_run_that_fails_is_recorded_as_far_as_it_came() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("run.json");
    let server = server(&[call("memory_count", "{}"), "no JSON".to_owned()]);
    let ran = run(record(&server, &file).arg("Hi."));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(fs::read_to_string(&file).unwrap().contains("memory_count"));
}

#[test]
fn a_file_that_is_no_recording_is_refused() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("run.json");
    let ran = run(program("replay").arg(&file));
    assert!(ran.stderr.contains("cannot read the recording"), "{}", ran.stderr);
    fs::write(&file, r#"{"version":1,"model":"m","exchanges":[]}"#).unwrap();
    let ran = run(program("replay").arg(&file));
    assert!(ran.stderr.contains("has no recorded task"), "{}", ran.stderr);
}

#[test]
fn a_replay_that_waits_does_not_go_on_as_a_run_of_the_same_task() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("run.json");
    let recorded = server(&[call("memory_clear", "{}"), says("Cleared.")]);
    let ran = run(record(&recorded, &file).arg("Look."));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);

    let at_home = |mut command: Command| {
        command.env("XDG_DATA_HOME", folder.path()).current_dir(folder.path());
        run(&mut command)
    };
    let mut replay = program("replay");
    replay.arg(&file);
    let ran = at_home(replay);
    assert!(ran.stderr.contains("waits for a person's approval"), "{}", ran.stderr);

    let own = server(&[says("Nothing to do.")]);
    let mut command = program("run");
    command.args(["--base-url", &own.base_url, "--model", "small", "--no-stream", "Look."]);
    let ran = at_home(command);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Nothing to do.\n"), "{}", ran.stderr);
}
