//! `McpServer` as a process.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

#[test]
fn standard_output_has_only_messages_and_the_process_ends_with_its_input() {
    // Tests lie in target/…/deps, examples beside them in target/…/examples.
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples");
    path.push(format!("clients{}", std::env::consts::EXE_SUFFIX));
    assert!(path.exists(), "{} is not built; run `cargo test` without `--test`", path.display());
    let piped = Stdio::piped;
    let mut process =
        Command::new(path).stdin(piped()).stdout(piped()).stderr(piped()).spawn().unwrap();

    let handshake = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "client", "version": "1"},
    });
    let call = |how: &str| json!({"name": "fail", "arguments": {"how": how}});
    let mut input = process.stdin.take().unwrap();
    for (id, (method, params)) in [
        ("initialize", handshake),
        ("tools/list", json!({})),
        ("tools/call", call("panic")),
        ("tools/call", call("other")),
    ]
    .into_iter()
    .enumerate()
    {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(input, "{message}").unwrap();
        writeln!(input, "this is not a message").unwrap();
    }
    drop(input);

    let ended = process.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let mut answered: Vec<u64> = String::from_utf8(ended.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect(line)["id"].as_u64().unwrap())
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, [0, 1, 2, 3]);
    // The panic is reported on standard error.
    assert!(String::from_utf8(ended.stderr).unwrap().contains("at the disco"));
}
