//! The program that reads a corpus, as a process.

use crate::common;
use std::io::Write;
use std::process::Stdio;

use insta::assert_snapshot;

fn answers(lines: &[u8]) -> String {
    let mut child = common::program("read_corpus")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_line_of_a_corpus_is_answered_by_a_line() {
    let lines = [
        r#"{"id": 1, "type": "Count", "input": "{\"n\": \"5.0\"}"}"#,
        r#"{"id": "a", "type": "Task", "input": "{'title': 't', 'priority': 'HIGH'}"}"#,
        r#"{"id": 2, "type": "When", "input": "{\"at\": \"2026-11-21t21:00:00+01:00\"}"}"#,
        r#"{"id": 3, "type": "Value", "input": "{\"value\": 5.5}"}"#,
        r#"{"id": 4, "type": "Nums", "input": "{\"nums\": [1, 2}"}"#,
        r#"{"id": 5, "type": "Order", "input": "{\"id\": 1, \"name\": \"x\"}"}"#,
        r#"{"id": 6, "type": "Nothing", "input": ""}"#,
        r#"{"id": 7, "type": "Empty", "input": ""}"#,
        "not a line of a corpus",
    ];
    let mut bytes = lines.join("\n").into_bytes();
    bytes.extend(b"\n{\"id\": 8, \"type\": \"Text\", \"input\": \"{\\\"s\\\": \\\"\xff\\\"}\"}\n");
    assert_snapshot!(answers(&bytes), @r#"
    {"id":1,"value":{"n":5}}
    {"id":"a","value":{"title":"t","priority":"high","status":"pending"}}
    {"id":2,"value":{"at":"2026-11-21T20:00:00Z","day":null}}
    {"id":3,"value":{"value":5.5}}
    {"id":4,"error":"input of `nums` does not fit: $: the JSON text ends too early, after 15 characters; write it again, whole"}
    {"id":5,"error":"input of `order` does not fit: $.item: this field is missing; expected an object with `name`, `qty`"}
    {"id":6,"error":"there is no type `Nothing`"}
    {"id":7,"value":{}}
    {"id":null,"error":"not a line of a corpus: expected ident at line 1 column 2"}
    {"id":8,"error":"not a line of a corpus: invalid unicode code point at line 1 column 48"}
    "#);
}
