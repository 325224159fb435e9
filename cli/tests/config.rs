//! The configuration file and the key file.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::common::{program, run, says, server};

fn with(folder: &Path) -> Command {
    let mut command = program("run");
    command.env("XDG_CONFIG_HOME", folder);
    command
}

fn write(folder: &Path, name: &str, text: &str) {
    let folder = folder.join("toolwright");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), text).unwrap();
}

#[test]
fn the_file_has_defaults_and_the_command_line_wins() {
    let folder = TempDir::new().unwrap();
    let server = server(&[says("Hello.")]);
    let text = format!(
        "model = \"small\"\nbase-url = \"{}\"\nno-stream = true\ntools = [\"text\"]\n\
         system = \"Be brief.\"\nno-journal = true\nmax-output-tokens = 77\n",
        server.base_url
    );
    write(folder.path(), "config.toml", &text);
    let ran = run(with(folder.path()).arg("Hi."));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Hello.\n"), "{}", ran.stderr);
    let ran = run(with(folder.path()).args(["--tools", "memory", "--system", "Be kind.", "Hi."]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let asked = server.asked();
    // With `read_result`.
    assert_eq!(asked[0]["tools"].as_array().unwrap().len(), 8 + 1);
    assert_eq!(asked[0]["max_tokens"], 77);
    assert!(asked[0]["messages"].to_string().contains("Be brief."));
    assert_eq!(asked[1]["tools"].as_array().unwrap().len(), 9 + 1);
    assert!(asked[1]["messages"].to_string().contains("Be kind."));

    // The same file by its name, and none.
    let file = folder.path().join("toolwright/config.toml");
    let ran = run(program("run").arg("--config").arg(&file).arg("Hi."));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ran = run(with(folder.path()).args(["--no-config", "--no-journal", "--offline", "Hi."]));
    assert!(ran.stderr.contains("--offline asks no model"), "{}", ran.stderr);
    let ran = run(Command::new(env!("CARGO_BIN_EXE_toolwright"))
        .args(["tools", "list", "--json", "--config"])
        .arg(&file));
    assert_eq!(ran.stdout.lines().count(), 8, "{}", ran.stderr);
}

#[test]
fn a_fault_of_the_file_is_named() {
    let folder = TempDir::new().unwrap();
    for (text, said) in [
        ("modle = \"small\"", "unknown field `modle`"),
        ("max-time = \"long\"", "line 1, max-time: invalid type: string, expected a nonzero u64"),
        (
            "no-stream = true\nmax-model-calls = 0",
            "line 2, max-model-calls: invalid value: integer `0`",
        ),
        ("tools = [\"mail\"]", "there is no such toolset"),
        ("temperature = -5.0", "temperature: write a number of at least 0"),
        ("model = \"groq\"", "name a model of groq"),
        ("model =", "config.toml"),
    ] {
        write(folder.path(), "config.toml", text);
        let ran = run(with(folder.path()).args(["--no-journal", "Hi."]));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
        assert!(ran.stderr.contains(said), "{text}: {}", ran.stderr);
    }
    // A secret in the file does not get into the error.
    for text in [
        "OPENAI_API_KEY = \"sk-secret\"",
        "mcp = \"server --token sk-secret\"",
        "mcp = [\"server --token sk-secret",
        "mcp = [\"server --token sk-secret\", 1]",
        "model = sk-secret",
        "system = 'sk-secret",
        "\"sk-secret",
    ] {
        write(folder.path(), "config.toml", text);
        for json in [&[][..], &["--json"]] {
            let ran = run(with(folder.path()).args(json).args(["--no-journal", "Hi."]));
            assert_eq!(ran.code, Some(1), "{}", ran.stderr);
            assert!(!(ran.stdout + &ran.stderr).contains("secret"), "{text}");
        }
    }
    let ran = run(program("run").args(["--config", "no/such.toml", "Hi."]));
    assert!(ran.stderr.contains("the configuration no/such.toml: No such file"), "{}", ran.stderr);
}

#[cfg(unix)]
#[test]
fn a_key_file_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;

    let folder = TempDir::new().unwrap();
    let key = "made-up-0123456789";
    write(folder.path(), "keys.toml", &format!("SOME_KEY = \"{key}\"\n"));
    let file = folder.path().join("toolwright/keys.toml");
    let server = server(&[says("Hello.")]);
    let mut command = with(folder.path());
    command.args(["--base-url", &server.base_url, "--model", "small", "--no-stream"]);
    command.args(["--key-env", "SOME_KEY", "--no-journal", "Hi."]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(1));
    let said = format!("others can read the key file {0}; run: chmod 600 {0}", file.display());
    assert!(ran.stderr.contains(&said), "{}", ran.stderr);
    assert!(server.asked().is_empty());

    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let ran = run(&mut command);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Hello.\n"), "{}", ran.stderr);
    assert!(server.heads()[0].contains(&format!("Bearer {key}")), "{:?}", server.heads());
    assert!(!ran.stderr.contains(key), "{}", ran.stderr);
    // The environment wins.
    let ran = run(command.env("SOME_KEY", "of-the-environment"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(server.heads()[1].contains("Bearer of-the-environment"), "{:?}", server.heads());

    // The key is not in the error of a file that cannot be read.
    fs::write(&file, format!("SOME_KEY = {key}\n")).unwrap();
    let ran = run(command.env_remove("SOME_KEY"));
    assert!(ran.stderr.contains("is not valid; write lines such as"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("made-up"), "{}", ran.stderr);
}

#[test]
fn without_a_key_the_options_that_help_are_named() {
    let ran = run(program("run").args(["--no-journal", "--model", "anthropic", "Hi."]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    let said = "there is no API key: set ANTHROPIC_API_KEY, or write it to the file of --key-file;";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
}

#[cfg(unix)]
#[test]
fn the_key_file_is_for_local_servers_and_github_too() {
    use std::os::unix::fs::PermissionsExt;

    let folder = TempDir::new().unwrap();
    let keys = "OPENAI_API_KEY = \"made-up-0123456789\"\nGH_TOKEN = \"of\\u0007nobody\"\n";
    write(folder.path(), "keys.toml", keys);
    let file = folder.path().join("toolwright/keys.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let server = server(&[says("Hello.")]);
    let mut command = with(folder.path());
    command.args(["--base-url", &server.base_url, "--model", "small", "--no-stream"]);
    let ran = run(command.args(["--no-journal", "Hi."]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(server.heads()[0].contains("Bearer made-up-0123456789"), "{:?}", server.heads());

    // The token is the one in the file, which is not valid.
    let list = |tools: &str| {
        let mut command = program("tools");
        run(command.env("XDG_CONFIG_HOME", folder.path()).args(["list", "--tools", tools]))
    };
    let ran = list("github");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("token") && !ran.stderr.contains("nobody"), "{}", ran.stderr);
    assert_eq!(list("memory").code, Some(0));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(list("github").stderr.contains("chmod 600"));
    assert_eq!(list("memory").code, Some(0));
}

#[cfg(unix)]
#[test]
fn a_configuration_that_others_can_change_is_refused() {
    use std::os::unix::fs::PermissionsExt;

    let folder = TempDir::new().unwrap();
    let made = folder.path().join("made");
    let command = format!("touch {}", made.display());
    write(folder.path(), "config.toml", &format!("mcp = [\"{command}\"]\nno-journal = true\n"));
    let inner = folder.path().join("toolwright");
    let file = inner.join("config.toml");
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let tools = |folder: &Path| {
        let mut command = program("tools");
        command.env("XDG_CONFIG_HOME", folder).arg("list");
        run(&mut command)
    };
    for (path, wrong, right) in [
        (&file, 0o664, 0o644),
        (&file, 0o646, 0o600),
        (&inner, 0o775, 0o755),
        (&inner, 0o757, 0o700),
    ] {
        mode(path, wrong);
        for ran in [tools(folder.path()), run(with(folder.path()).arg("Hi."))] {
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
            let said = "others can change the configuration ";
            assert!(ran.stderr.contains(said), "{}", ran.stderr);
            assert!(ran.stderr.contains("run: chmod go-w "), "{}", ran.stderr);
        }
        assert!(!made.exists());
        mode(path, right);
    }
    // A link to a file of others is no way around.
    let (other, mine) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let target = other.path().join("c.toml");
    fs::write(&target, format!("mcp = [\"{command}\"]\n")).unwrap();
    mode(&target, 0o666);
    fs::create_dir(mine.path().join("toolwright")).unwrap();
    std::os::unix::fs::symlink(&target, mine.path().join("toolwright/config.toml")).unwrap();
    let ran = tools(mine.path());
    assert!(ran.stderr.contains("others can change the configuration "), "{}", ran.stderr);
    assert!(!made.exists());
    // With its owner's own permissions it is used. The command in it does not start a server.
    let ran = tools(folder.path());
    assert!(made.exists() && ran.stderr.contains("--mcp touch"), "{}", ran.stderr);
}
