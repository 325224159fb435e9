//! The command `toolwright`.

use std::process::ExitCode;

fn main() -> ExitCode {
    toolwright_cli::main()
}
