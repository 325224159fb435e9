//! Runs the example programs as a user does: as processes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program, with no key and no proxy in its environment.
pub(crate) fn program(name: &str) -> Command {
    // `target` keeps a program whose source is gone.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name);
    assert!(source.is_dir() || source.with_extension("rs").exists(), "{name} is not an example");
    // Tests lie in target/…/deps, programs beside them in target/…/examples.
    let mut path: PathBuf = std::env::current_exe().expect("a test has a path");
    path.pop();
    path.pop();
    path.push("examples");
    path.push(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(path.exists(), "{} is not built; run `cargo test` without `--test`", path.display());
    let mut command = Command::new(path);
    for (variable, _) in std::env::vars_os() {
        // A test can never spend money, and never leaves this machine.
        let name = variable.to_string_lossy().to_ascii_uppercase();
        if name.contains("KEY")
            || name.contains("TOKEN")
            || name.contains("OPENAI")
            || name.ends_with("_PROXY")
        {
            command.env_remove(&variable);
        }
    }
    command
}

pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn run(command: &mut Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("programs print UTF-8");
    Ran { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}
