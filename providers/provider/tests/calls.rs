//! The calls of a whole reply: those that stand twice, and those that the server has made itself.

use std::collections::BTreeSet;

use serde_json::json;
use toolwright_module::ToolCall;
use toolwright_module::message::{Opaque, ReplyPart};
use toolwright_module::model::{Finish, Usage};
use toolwright_provider::complete_reply;

fn call(arguments: impl Into<String>) -> ReplyPart {
    ReplyPart::Call(ToolCall::new("c1", "look", arguments))
}

fn made(parts: Vec<ReplyPart>) -> Vec<ToolCall> {
    let reply = complete_reply(parts, 0, Finish::Stop, Usage::new(1, 1)).unwrap();
    reply.tool_calls().cloned().collect()
}

#[test]
fn a_call_that_stands_twice_is_made_once() {
    let again = [r#"{"a":1,"b":[2.5]}"#, r#" {"b": [2.50], "a": 1}"#];
    assert_eq!(made(again.map(call).into()).len(), 1);
    for others in [
        [r#"{"a":1}"#, r#"{"a":2}"#],
        [r#"{"a":1}"#, r#"{"a":1.0}"#],
        [r#"{"a":12345678901234567890123}"#, r#"{"a":12345678901234567890124}"#],
        ["not JSON", "no JSON"],
    ] {
        assert_eq!(made(others.map(call).into()).len(), 2, "{others:?}");
    }
    // A server that gives all calls the same id. Comparing each with each would take seconds.
    let many = (0..20_000).map(|nth| call(json!({ "a": nth, "b": "x".repeat(50) }).to_string()));
    let made = made(many.collect());
    let ids: BTreeSet<&str> = made.iter().map(|call| &*call.id).collect();
    assert_eq!((made.len(), ids.len()), (20_000, 20_000));
}

/// Another try would make the call again, so the error does not advise it.
#[test]
fn a_call_whose_result_is_in_the_reply_is_an_error() {
    let result = Opaque::new("x", json!({"type": "tool_result", "tool_use_id": "c1"}));
    let parts = vec![call("{}"), ReplyPart::Other(result)];
    let error = complete_reply(parts, 0, Finish::Stop, Usage::new(1, 1)).unwrap_err();
    let text = error.to_string();
    assert!(text.ends_with("turn the server's own tools off"), "{text}");
    assert!(!text.contains("try again"), "{text}");
}
