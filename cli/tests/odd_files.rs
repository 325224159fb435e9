//! Links, pipes and foreign files where the command opens a file: a clear error, or the file is left
//! alone, and nothing waits.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use toolwright_journal::Journal;

use crate::common::{Ran, program, says, server};
use crate::server::Server;

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Runs a command, and fails if it does not end.
fn run(command: &mut Command) -> Ran {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("it hangs: {command:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn asking(command: &str, server: &Server, journal: &Path) -> Command {
    let mut program = program(command);
    program.args(["--base-url", &server.base_url, "--model", "small", "--no-stream"]);
    program.arg("--journal").arg(journal);
    program
}

fn runs(journal: &Path, arguments: &[&str]) -> Ran {
    run(program("runs").arg("--journal").arg(journal).args(arguments))
}

#[test]
fn one_bad_file_hurts_no_other_run() {
    let folder = TempDir::new().unwrap();
    let journal = folder.path().join("runs");
    let model = server(&[says("Hello.")]);
    let ran = run(asking("run", &model, &journal).arg("Say hello."));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let id = Journal::open(&journal).unwrap().runs().unwrap()[0].id.clone();
    let file = journal.join(format!("{id}.journal"));
    // An open run, and what somebody made of it: renamed, cut in its state, of another version.
    let text = fs::read_to_string(&file).unwrap();
    let open: String = text.split_inclusive('\n').take(2).collect();
    fs::write(journal.join("renamed.journal"), &open).unwrap();
    fs::write(journal.join("foreign.journal"), "Dear diary,\n").unwrap();
    fs::write(journal.join("later.journal"), open.replacen("journal 1", "journal 9", 1)).unwrap();
    fs::write(journal.join("empty.journal"), "").unwrap();
    fs::write(journal.join("no-end.journal"), "toolwright-journal 1").unwrap();
    File::create(journal.join("huge.journal")).unwrap().set_len(1 << 42).unwrap();
    pipe(&journal.join("x.journal"));
    symlink("/dev/zero", journal.join("zero.journal")).unwrap();

    let listed = runs(&journal, &["list"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let line = |name: &str| {
        let line = listed.stdout.lines().find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("{name}: {}", listed.stdout)).to_owned()
    };
    assert!(line(&id).ends_with("Say hello."), "{}", listed.stdout);
    for (name, told) in [
        ("renamed", "rename it to"),
        ("foreign", "foreign.journal is damaged"),
        ("later", "toolwright-journal 9"),
        ("huge", "huge.journal has"),
        ("x ", "x.journal is a named pipe"),
        ("zero", "zero.journal is a symbolic link"),
    ] {
        let line = line(name);
        assert!(line.contains(" unreadable ") && line.contains(told), "{line}");
    }
    let model = server(&[says("Hello again.")]);
    let ran = run(asking("run", &model, &journal).arg("Say hello."));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Hello again.\n"), "{}", ran.stderr);
    for id in ["x", "zero", "renamed", "foreign", "huge"] {
        let shown = runs(&journal, &["show", id]);
        assert_eq!(shown.code, Some(1));
        assert!(shown.stderr.contains(&format!("{id}.journal")), "{}", shown.stderr);
    }
    // The run that changed last is one that can be read.
    assert_eq!(runs(&journal, &["show", "latest"]).code, Some(0));
}

#[test]
fn a_journal_that_others_can_look_into_is_reported_and_its_files_are_private() {
    let folder = TempDir::new().unwrap();
    for (mode, told) in [
        (0o700, ""),
        (0o755, "others can look into the journal"),
        (0o777, "others can write to the journal"),
    ] {
        let journal = folder.path().join(format!("{mode:o}"));
        fs::create_dir(&journal).unwrap();
        fs::set_permissions(&journal, Permissions::from_mode(mode)).unwrap();
        let model = server(&[says("Hello.")]);
        let ran = run(asking("run", &model, &journal).arg("Say hello."));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let advice = format!("run: chmod 700 {}", journal.display());
        for stderr in [ran.stderr, runs(&journal, &["list"]).stderr] {
            assert!(stderr.contains(told), "{stderr}");
            assert_eq!(stderr.contains(&advice), !told.is_empty(), "{stderr}");
        }
        for entry in fs::read_dir(&journal).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{:?}", entry.file_name());
        }
    }
}

#[test]
fn no_file_that_the_user_names_makes_the_command_wait() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    pipe(&at("pipe.json"));
    symlink("/dev/zero", at("zero.json")).unwrap();
    File::create(at("huge.json")).unwrap().set_len(1 << 42).unwrap();
    fs::create_dir(at("folder.json")).unwrap();
    for (name, told) in [
        ("pipe.json", "it is a named pipe"),
        ("zero.json", "it is a device"),
        ("folder.json", "it is a folder"),
        ("huge.json", "the maximum is"),
    ] {
        let file = at(name);
        fs::set_permissions(&file, Permissions::from_mode(0o700)).ok();
        let named = file.to_str().unwrap();
        let model = server(&[says("Hello.")]);
        let ask = |command: &str| {
            let mut program = program(command);
            program.args(["--base-url", &model.base_url, "--model", "small", "--no-journal"]);
            program
        };
        let fails = |command: &mut Command| {
            let ran = run(command);
            assert!(matches!(ran.code, Some(1 | 2)), "{command:?}: {}", ran.stderr);
            // The error for keys says first that others can read them.
            let is_named = ran.stderr.contains(name) || ran.stderr.contains("--schema");
            assert!(is_named && ran.stderr.contains(told), "{command:?}: {}", ran.stderr);
        };
        fails(ask("run").args(["--config", named, "Hi."]));
        if name != "zero.json" {
            fails(ask("run").args(["--key-file", named, "Hi."]));
        }
        fails(ask("run").args(["--schema", named, "Hi."]));
        fails(program("contract").args(["show", named]));
        fails(program("contract").args(["diff", named, named]));
        fails(program("mcp").args(["list", "true", "--lock", named]));
        fails(program("replay").args(["--no-journal", named]));
        if !matches!(name, "huge.json" | "folder.json") {
            fails(ask("run").args(["--tools", &format!("memory:{named}"), "Hi."]));
        }
        if !matches!(name, "huge.json" | "zero.json") {
            fails(ask("record").args(["--force", named, "Hi."]));
        }
    }
}

#[test]
fn a_recording_is_not_written_through_a_link() {
    let folder = TempDir::new().unwrap();
    let (link, target) = (folder.path().join("run.json"), folder.path().join("precious.txt"));
    symlink(&target, &link).unwrap();
    let model = server(&[says("Hello.")]);
    let record = || {
        let mut command = program("record");
        command.args(["--base-url", &model.base_url, "--model", "small", "--no-journal"]);
        run(command.arg("--force").arg(&link).arg("Hi."))
    };
    // The link leads to nothing, and then to a file.
    let ran = record();
    assert!(ran.code == Some(1) && ran.stderr.contains("run.json"), "{}", ran.stderr);
    assert!(link.is_symlink() && !target.exists());
    fs::write(&target, "precious").unwrap();
    let ran = record();
    assert!(ran.code == Some(1) && ran.stderr.contains("a symbolic link"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    assert!(model.asked().is_empty());
}

#[test]
fn a_page_replaces_only_a_file() {
    let folder = TempDir::new().unwrap();
    let journal = folder.path().join("runs");
    let model = server(&[says("Hello.")]);
    assert_eq!(run(asking("run", &model, &journal).arg("Hi.")).code, Some(0));
    let target = folder.path().join("precious.txt");
    fs::write(&target, "precious").unwrap();
    let page = |name: &str| {
        let file = folder.path().join(name);
        runs(&journal, &["page", "latest", "-o", file.to_str().unwrap()])
    };
    symlink(&target, folder.path().join("link.html")).unwrap();
    pipe(&folder.path().join("pipe.html"));
    for name in ["link.html", "pipe.html"] {
        let ran = page(name);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains(name) && ran.stderr.contains("not a regular file"));
    }
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    assert_eq!(page("run.html").code, Some(0));
}

/// To change the permissions of what is no file or folder helps nobody.
#[test]
fn what_is_no_file_or_no_folder_is_named_and_not_changed() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let keys = folder.path().join("keys.toml");
    fs::create_dir(&keys).unwrap();
    fs::set_permissions(&keys, Permissions::from_mode(0o755)).unwrap();
    let model = server(&[says("Hello.")]);
    for (place, told) in [
        (Path::new("/dev/null"), "the journal /dev/null: it is a device, and not a folder".into()),
        (&file, format!("the journal {}: it is a file, and not a folder", file.display())),
    ] {
        let ran = run(asking("run", &model, place).arg("Say hello."));
        for ran in [ran, runs(place, &["list"])] {
            assert_eq!(ran.code, Some(1), "{}", ran.stderr);
            assert!(ran.stderr.contains(&told), "{}", ran.stderr);
            assert!(!ran.stderr.contains("chmod"), "{}", ran.stderr);
        }
    }
    for (place, kind) in [(keys.as_path(), "a folder"), (Path::new("/dev/null"), "a device")] {
        let told =
            format!("the key file {}: it is {kind}, and not a regular file", place.display());
        let mut command = asking("run", &model, &folder.path().join("runs"));
        let ran = run(command.arg("--key-file").arg(place).arg("Say hello."));
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains(&told), "{}", ran.stderr);
        assert!(!ran.stderr.contains("chmod"), "{}", ran.stderr);
        let ran = run(program("tools").arg("list").arg("--config").arg(place));
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains(&format!("it is {kind}")), "{}", ran.stderr);
        assert!(!ran.stderr.contains("chmod"), "{}", ran.stderr);
    }
    assert!(model.asked().is_empty());
}
