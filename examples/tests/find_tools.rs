//! The program that finds tools, line by line.

#[allow(dead_code, reason = "this test feeds its program")]
use std::io::Write;
use std::process::{Output, Stdio};

use crate::common::program;
use serde_json::{Value, json};

fn run(arguments: &[&str], lines: &[u8]) -> Output {
    let mut command = program("find_tools");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let lines = lines.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(&lines).unwrap());
    let ran = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    ran
}

/// Returns the answers to the queries, and what is on stderr.
fn answers(arguments: &[&str], lines: &[u8]) -> (Vec<Value>, String) {
    let ran = run(arguments, lines);
    let out = String::from_utf8(ran.stdout).unwrap();
    let answers = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (answers, String::from_utf8(ran.stderr).unwrap())
}

fn lines(lines: &[Value]) -> Vec<u8> {
    lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
}

#[test]
fn tools_are_found_by_their_places() {
    let city = json!({"type": "dict", "properties": {"city": {"type": "string"}}});
    let coin = json!({"type": "dict", "properties": {"coin": {"type": "tuple", "enum": ["BTC"]}}});
    let input = lines(&[
        json!({"name": "get", "description": "Get the weather.", "schema": city}),
        json!({"name": "get", "description": "Get the price.", "schema": coin}),
        json!({"name": "get", "description": "Get the price.", "schema": coin}),
        json!({"id": "a", "query": "the weather in my city"}),
        json!({"id": {"any": 1}, "query": "price of BTC"}),
        json!({"id": 3, "query": "nothing of this"}),
    ]);
    let (found, errors) = answers(&["--top", "2"], &input);
    let expected = json!([
        {"id": "a", "found": [0]},
        {"id": {"any": 1}, "found": [1, 2]},
        {"id": 3, "found": []},
    ]);
    assert_eq!(json!(found), expected);
    assert_eq!(errors, "");
}

#[test]
fn odd_tools_are_read_as_far_as_possible() {
    let input = [
        r#"{"name": "alpha"}"#,
        r#"{"description": "bravo", "schema": "no schema"}"#,
        r#"{"name": null, "description": ["charlie"], "schema": null}"#,
        r#"{"name": 4, "schema": {"delta": {"type": "float"}}}"#,
        r#"{"name": "five", "parameters": {"type": "dict", "properties": {"echo": {"default": NaN}}}}"#,
        r#"{'name': 'foxtrot',}"#,
        r#"{"name": "query", "query": "golf"}"#,
        "",
        r#"{"query": "alpha"}"#,
        r#"{"id": 2, "query": "bravo charlie"}"#,
        r#"{"id": 3, "query": "delta echo"}"#,
        r#"{"id": 4, "query": ["foxtrot"], "more": 1}"#,
        r#"{"id": 5}"#,
        r#"{"name": "hotel"}"#,
        r#"{"id": 6, "query": "hotel"}"#,
    ];
    let (found, errors) = answers(&[], format!("\u{feff}{}", input.join("\r\n")).as_bytes());
    let expected = json!([
        {"id": null, "found": [0]},
        {"id": 2, "found": [1, 2]},
        {"id": 3, "found": [3, 4]},
        {"id": 4, "found": [5]},
        {"id": 5, "found": []},
        {"id": 6, "found": [7]},
    ]);
    assert_eq!(json!(found), expected);
    assert_eq!(errors, "");
}

#[test]
fn a_line_that_cannot_be_read_is_reported_with_its_number() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut input = format!("{{\"name\": \"alpha\"}}\nno json\n\n[1]\n{deep}\n").into_bytes();
    input.extend(
        b"{\"name\": \"bravo \xff\"}\n{\"id\": 1, \"query\": \"bravo\"}\n{\"id\": 2, \"que",
    );
    let (found, errors) = answers(&[], &input);
    assert_eq!(found[0], json!({"id": 1, "found": [4]}));
    assert_eq!(found.len(), 2);
    assert_eq!(found[1]["id"], json!(null));
    let error = found[1]["error"].as_str().unwrap();
    assert!(error.starts_with("line 8: this is not JSON: "), "{error}");
    let starts: Vec<&str> = errors.lines().map(|line| &line[..line.len().min(29)]).collect();
    let expected = [
        "line 2: this is not JSON: exp",
        "line 4: this is not a JSON ob",
        "line 5: this is not JSON: rec",
    ];
    assert_eq!(starts, expected, "{errors}");
}

#[test]
fn no_input_is_no_output() {
    assert_eq!(answers(&[], b""), (Vec::new(), String::new()));
    let (found, _) = answers(&["--top", "0"], br#"{"id": 1, "query": "alpha"}"#);
    assert_eq!(found, [json!({"id": 1, "found": []})]);
}
