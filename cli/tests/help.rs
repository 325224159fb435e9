//! Help and completions.

use std::process::Command;

use crate::common::{program, run};

#[test]
fn every_command_has_help_with_examples() {
    let ran = run(&mut program("--help"));
    let listed = ran.stdout.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let commands = listed.lines().filter_map(|line| line.split_whitespace().next());
    let commands: Vec<&str> = commands.filter(|command| *command != "help").collect();
    assert!(commands.len() >= 9 && commands.contains(&"run"), "{commands:?}");
    assert!(
        ran.stdout.contains("Exit codes: 0 done, 1 failed, 2 wrong usage, 3 ended at a limit"),
        "{}",
        ran.stdout
    );
    for command in commands {
        let ran = run(program(command).arg("--help"));
        assert_eq!(ran.code, Some(0), "{command}: {}", ran.stderr);
        let examples = ran.stdout.split("Examples:\n").nth(1).expect(command);
        let example = examples.lines().next().unwrap();
        assert!(example.contains(&format!("toolwright {command}")), "{example}");
        assert!(!ran.stdout.contains('\u{1b}'), "{command}");
    }
    assert_eq!(run(&mut program("sing")).code, Some(2));
}

#[test]
fn completions_name_the_commands_and_options() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = run(program("completions").arg(shell));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        for word in ["replay", "completions", "max-model-calls"] {
            assert!(ran.stdout.contains(word), "{shell}: {word}");
        }
    }
    // The shell reads the script, and completes with it.
    let Ok(version) = Command::new("bash").arg("--version").output() else { return };
    assert!(version.status.success());
    let script = r#"
        eval "$("$0" completions bash)"
        COMP_WORDS=(toolwright re) COMP_CWORD=1
        _toolwright toolwright re toolwright
        echo "${COMPREPLY[@]}"
    "#;
    let bash = ["-c", script, env!("CARGO_BIN_EXE_toolwright")];
    let ran = run(Command::new("bash").args(bash));
    assert_eq!(ran.stdout, "record replay\n", "{}", ran.stderr);
}
