//! MCP servers as processes whose numbers are known.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The command that starts our server with these arguments, after its number went to a
/// file.
pub(crate) fn serve(file: &Path, arguments: &[&str]) -> String {
    let program = env!("CARGO_BIN_EXE_toolwright");
    tell_number(file, &[&[program, "mcp", "serve", "--no-config"], arguments].concat())
}

/// The command that starts a program, after its number went to a file.
pub(crate) fn tell_number(file: &Path, command: &[&str]) -> String {
    let shell = ["sh", "-c", r#"echo $$ >> "$0"; exec "$@""#, text(file.as_os_str())];
    shlex::try_join(shell.into_iter().chain(command.iter().copied())).unwrap()
}

/// The numbers of the processes that were started, once there is one.
pub(crate) fn numbers(file: &Path) -> Vec<u32> {
    wait(|| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let numbers: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
        (!numbers.is_empty()).then_some(numbers)
    })
}

/// Waits until all of them are gone.
pub(crate) fn ended(file: &Path) {
    for number in numbers(file) {
        wait(|| (!is_there(number)).then_some(()));
    }
}

pub(crate) fn is_there(number: u32) -> bool {
    // One that only waits to be counted has ended.
    let state = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..1000 {
        if let Some(seen) = look() {
            return seen;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it does not happen");
}

fn text(text: &OsStr) -> &str {
    text.to_str().unwrap()
}

/// The command of a server with a memory in this file, and where its number goes.
pub(crate) fn remembering(folder: &Path, name: &str) -> String {
    let memory = folder.join(name).with_extension("db");
    serve(&folder.join(name), &["--tools", &format!("memory:{}", memory.display())])
}
