//! `McpServer` over two streams, as over standard input and output.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{Lines, Seen, server, texts, tools};
use serde_json::{Value, json};
use toolwright_mcp::{McpServer, ServerLimits};
use toolwright_module::{Cancellation, Context};

fn seen() -> Arc<Seen> {
    Arc::default()
}

#[tokio::test]
async fn tools_list_returns_every_contract_in_order() {
    let mut lines = Lines::begun(server(&seen())).await;
    let listed = lines.request("tools/list", json!({})).await;
    insta::assert_json_snapshot!("tools_of_2025", listed);
    assert_eq!(listed, lines.request("tools/list", json!({})).await);

    let mut modern = Lines::modern(server(&seen()));
    let now = modern.request("tools/list", json!({})).await;
    assert_eq!(now["tools"], listed["tools"]);
    assert_eq!(now["resultType"], "complete");
    lines.end().await;
    modern.end().await;
}

#[tokio::test]
async fn a_served_tool_has_the_mcp_form_of_its_contract() {
    let mut lines = Lines::begun(server(&seen())).await;
    let listed = lines.request("tools/list", json!({})).await;
    for (tool, served) in tools(&seen()).iter().zip(listed["tools"].as_array().unwrap()) {
        let form = tool.contract().tool(toolwright_module::Dialect::Mcp).unwrap();
        let mut served = served.clone();
        served.as_object_mut().unwrap().remove("annotations").unwrap();
        assert_eq!(served, form);
        assert_eq!(served["inputSchema"]["type"], "object");
        assert!(served.get("outputSchema").is_none_or(|schema| schema["type"] == "object"));
    }
}

#[tokio::test]
async fn both_revisions_start_as_specified() {
    let mut lines = Lines::new(server(&seen()));
    let mut begun = Vec::new();
    let handshake = |version: &str| {
        json!({
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "client", "version": "1"},
        })
    };
    begun.push(lines.request("initialize", handshake("2025-11-25")).await);
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2026-07-28", "1999-01-01"] {
        let mut lines = Lines::new(server(&seen()));
        let answer = lines.request("initialize", handshake(version)).await;
        begun.push(json!({"asked": version, "given": answer["protocolVersion"]}));
    }
    let mut modern = Lines::modern(server(&seen()));
    begun.push(modern.request("server/discover", json!({})).await);
    insta::assert_json_snapshot!("begun", begun);
}

#[tokio::test]
async fn results_have_a_structured_value_and_text() {
    for mut lines in [Lines::begun(server(&seen())).await, Lines::modern(server(&seen()))] {
        let results = json!({
            "a number": lines.call("add", json!({"a": 2, "b": 3})).await,
            "a sentence and a value": lines.call("store_note", json!({"title": "Oslo"})).await,
            "a text": lines.call("hello", json!({})).await,
            "pictures": lines.call("picture", json!({})).await,
            "a value as text": lines.call("promise", json!({"text": r#"{"n": 3}"#})).await,
        });
        let version = if results["a number"].get("resultType").is_some() { 2026 } else { 2025 };
        insta::assert_json_snapshot!(format!("results_of_{version}"), results);
    }
}

#[tokio::test]
async fn missing_arguments_and_repairable_arguments_are_accepted() {
    let mut lines = Lines::begun(server(&seen())).await;
    let hello = lines.request("tools/call", json!({"name": "hello"})).await;
    assert_eq!(texts(&hello), ["Hello!"]);
    let sum = lines.call("add", json!({"a": "2", "b": 3.0})).await;
    assert_eq!(sum["structuredContent"], json!({"result": 5}));
}

#[tokio::test]
async fn invalid_arguments_and_failures_reach_the_model_without_secrets() {
    let mut lines = Lines::begun(server(&seen())).await;
    let mut outcomes = Vec::new();
    for (name, arguments) in [
        ("add", json!({"a": 2000, "b": "x"})),
        ("add", json!({})),
        ("fail", json!({"how": "retry"})),
        ("fail", json!({"how": "refuse"})),
        ("fail", json!({"how": "other"})),
        ("fail", json!({"how": "stop"})),
        ("fail", json!({"how": "panic"})),
        ("fail", json!({"how": "panic_on_drop"})),
        ("fail", json!({"how": "panic_in_panic"})),
        ("promise", json!({"text": "no number"})),
        ("promise", json!({"text": r#"{"n": "many"}"#})),
    ] {
        let result = lines.call(name, arguments.clone()).await;
        assert_eq!(result["isError"], true, "{arguments}: {result}");
        assert!(result.get("structuredContent").is_none(), "{result}");
        assert!(!result.to_string().contains("secret-7"), "{result}");
        outcomes.push(format!("{name} {arguments}\n  {}", texts(&result).join("\n  ")));
    }
    insta::assert_snapshot!("failures", outcomes.join("\n"));
    // The server still works.
    assert_eq!(texts(&lines.call("hello", json!({})).await), ["Hello!"]);
}

#[tokio::test]
async fn unknown_tools_and_malformed_requests_get_protocol_errors() {
    let mut lines = Lines::begun(server(&seen())).await;
    let mut outcomes = Vec::new();
    let long = "x".repeat(10_000);
    for (method, params) in [
        ("tools/call", json!({"name": "unknown", "arguments": {}})),
        ("tools/call", json!({"name": long})),
        ("tools/call", json!({"name": "add", "arguments": [1, 2]})),
        ("tools/call", json!({"name": 7})),
        ("tools/call", json!({})),
        ("tools/list", json!({"cursor": "mine"})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "a"})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": "file:///etc/passwd"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "a"}, "argument": {"name": "a", "value": "b"}}),
        ),
        ("logging/setLevel", json!({"level": "debug"})),
        ("tools/sing", json!({})),
    ] {
        let error = lines.request(method, params.clone()).await;
        let shown: String = params.to_string().chars().take(60).collect();
        let message = error["message"].as_str().unwrap_or_else(|| panic!("{method}: {error}"));
        let message: String = message.chars().take(60).collect();
        outcomes.push(format!("{method} {shown}\n  {} {message}", error["code"]));
    }
    insta::assert_snapshot!("protocol_errors", outcomes.join("\n"));
    assert_eq!(lines.request("ping", json!({})).await, json!({}));
}

#[tokio::test]
async fn invalid_lines_do_not_end_the_connection() {
    let mut lines = Lines::begun(
        server(&seen())
            .with_limits(ServerLimits { max_message_bytes: 1000, ..ServerLimits::default() }),
    )
    .await;
    for line in ["", "{", "null", "\u{1}", "{\"jsonrpc\": \"2.0\"", "tools/list", "\u{feff}{"] {
        lines.line(line).await;
    }
    lines.line(&format!("\"{}\"", "x".repeat(5000))).await;
    lines.write_bytes(b"\xff\xfe\n").await;
    let id = lines.send("tools/call", json!({"name": "hello"})).await;
    // A line that is JSON but not a message may get an error without an id.
    let answer = loop {
        let message = lines.receive().await.unwrap();
        if message["id"] == id {
            break message;
        }
        assert_eq!(message["error"]["code"], -32600, "{message}");
    };
    assert_eq!(texts(&answer["result"]), ["Hello!"]);
    lines.end().await;
}

#[tokio::test]
async fn every_request_with_an_id_gets_a_response() {
    let mut lines = Lines::begun(server(&seen())).await;
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    for (line, ok) in [
        (&br#"{"jsonrpc":"2.0","id":101,"method":"tools/call","params":{"name":"hello","arguments":{"x":"\ud83d"}}}"#[..], true),
        (b"{\"jsonrpc\":\"2.0\",\"id\":101,\"method\":\"tools/call\",\"params\":{\"name\":\"hello\",\"arguments\":{\"x\":\"\0\"}}}", true),
        (b"{\"jsonrpc\":\"2.0\",\"id\":101,\"method\":\"tools/call\",\"params\":{\"name\":\"hello\",\"arguments\":{},\"_meta\":{\"x\":\"\xff\"}}}", true),
        (format!(r#"{{"jsonrpc":"2.0","id":101,"method":"tools/call","params":{{"name":"hello","arguments":{{"x":{deep}}}}}}}"#).as_bytes(), false),
        (br#"{"jsonrpc":"2.0","id":101,"method":"tools/call","params":{oops}}"#, false),
        (br#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"hello"},"id":101"#, false),
        (br#"{"jsonrpc":"2.0","id":101,"method":"\udc00"}"#, false),
    ] {
        lines.write_bytes(line).await;
        lines.write_bytes(b"\n").await;
        let answer = lines.receive().await.unwrap();
        let shown = String::from_utf8_lossy(line);
        assert_eq!(answer["id"], 101, "{shown}: {answer}");
        assert_eq!(answer["result"].is_object(), ok, "{shown}: {answer}");
    }
    assert_eq!(texts(&lines.call("hello", json!({})).await), ["Hello!"]);
    lines.end().await;
}

/// Each would be another call than the one that was meant.
#[tokio::test]
async fn arguments_that_cannot_be_read_exactly_are_refused() {
    let mut lines = Lines::begun(server(&seen())).await;
    for (name, arguments, fault) in [
        ("store_note", r#"{"title": "a", "title": "b"}"#, "field `title` is given twice"),
        ("store_note", r#"{"title": "a", "\u0074itle": "a"}"#, "field `title` is given twice"),
        ("promise", r#"{"text": "a", "x": {"y": 1, "y": 1}}"#, "field `y` is given twice"),
        ("add", r#"{"a": 18446744073709551617}"#, "18446744073709551617"),
    ] {
        let params = format!(r#"{{"name": "{name}", "arguments": {arguments}}}"#);
        lines
            .line(&format!(
                r#"{{"jsonrpc":"2.0","id":101,"method":"tools/call","params":{params}}}"#
            ))
            .await;
        let answer = lines.receive().await.unwrap();
        assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(101), &json!(true)));
        assert!(texts(&answer["result"])[0].contains(fault), "{answer}");
    }
    let mut refusals = Vec::new();
    for params in [
        &br#"{"name":"store_note","arguments":{"title":"a"},"arguments":{"title":"b"}}"#[..],
        br#"{"name":"hello","name":"store_note","arguments":{"title":"b"}}"#,
        b"{\"name\":\"store_note\",\"arguments\":{\"title\":\"M\xfcller\"}}",
        b"{\"name\":\"store_note\",\"arguments\":{\"title\":\"a\",\"M\xfcller\":1}}",
        br#"{"name":"hello","args":{"title":"b"}}"#,
        br#"{"name":"hello","arguments":{},"input":"{\"title\":\"b\"}"}"#,
        br#"{"name":"hello","arguments":null,"parameters":[{"title":"b"}]}"#,
    ] {
        let head = br#"{"jsonrpc":"2.0","id":101,"method":"tools/call","params":"#;
        lines.write_bytes(&[head, params, b"}\n"].concat()).await;
        let answer = lines.receive().await.unwrap();
        assert_eq!(answer["id"], 101, "{answer}");
        refusals.push(answer["error"].to_string());
    }
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    {"code":-32600,"message":"the request has a duplicate field `arguments`; give it once"}
    {"code":-32600,"message":"the request has a duplicate field `name`; give it once"}
    {"code":-32602,"message":"the arguments have bytes that are not UTF-8; send the request as UTF-8"}
    {"code":-32602,"message":"the arguments have bytes that are not UTF-8; send the request as UTF-8"}
    {"code":-32602,"message":"the call has `args` and no arguments; send them as `arguments`"}
    {"code":-32602,"message":"the call has `input` and no arguments; send them as `arguments`"}
    {"code":-32602,"message":"the call has `parameters` and no arguments; send them as `arguments`"}
    "#);
    for params in [
        r#"{"name":"hello","_meta":{"a":1},"task":{"ttl":1},"inputResponses":{"a":{}},"requestState":"a"}"#,
        r#"{"name":"hello","args":{},"input":"","parameters":null}"#,
    ] {
        lines
            .line(&format!(
                r#"{{"jsonrpc":"2.0","id":101,"method":"tools/call","params":{params}}}"#
            ))
            .await;
        let answer = lines.receive().await.unwrap();
        assert_eq!(texts(&answer["result"]), ["Hello!"], "{answer}");
    }
    // Where nothing was replaced, the arguments may have this character.
    let note = lines.call("store_note", json!({"title": "\u{fffd}"})).await;
    assert_eq!(note["structuredContent"]["title"], "\u{fffd}");
    lines.end().await;
}

/// Half of a character becomes U+FFFD where text is shown. A call with it would be another one.
#[tokio::test]
async fn arguments_that_were_cut_inside_a_character_are_refused() {
    let mut lines = Lines::begun(server(&seen())).await;
    for (name, arguments, field) in [
        ("store_note", r#"{"title": "cut \ud83d"}"#, "$.title"),
        ("store_note", r#"{"title": "\uDE00"}"#, "$.title"),
        ("store_note", r#"{"title": "a \ufffd", "\ud83d": 1}"#, "$"),
        ("promise", r#"{"text": "a", "x": [{"y": "\uFffd"}, {"y": "\ud83d"}]}"#, "$.x[1].y"),
    ] {
        let params = format!(r#"{{"name": "{name}", "arguments": {arguments}}}"#);
        let head = r#"{"jsonrpc":"2.0","id":101,"method":"tools/call","params""#;
        lines.line(&format!("{head}:{params}}}")).await;
        let answer = lines.receive().await.unwrap();
        assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(101), &json!(true)));
        let text = texts(&answer["result"])[0].to_owned();
        let fault = format!("{field}: the text was cut inside a character; send it whole");
        assert!(text.contains(&fault), "{text}");
    }
    // The character that stands for a half may be sent, in any spelling.
    for title in ["\u{fffd}", r"\ufffd", r"\uFFFD", r"\uFffd"] {
        let params = format!(
            r#"{{"name": "store_note", "arguments": {{"title": "{title} \ud83d\ude00"}}}}"#
        );
        let head = r#"{"jsonrpc":"2.0","id":101,"method":"tools/call","params""#;
        lines.line(&format!("{head}:{params}}}")).await;
        let answer = lines.receive().await.unwrap();
        assert_eq!(answer["result"]["structuredContent"]["title"], "\u{fffd} \u{1f600}");
    }
    // Elsewhere in the request it changes nothing.
    let params = r#"{"name": "store_note", "_meta": {"a": "\ud83d"}, "arguments": {"title": "a"}}"#;
    lines
        .line(&format!(r#"{{"jsonrpc":"2.0","id":101,"method":"tools/call","params":{params}}}"#))
        .await;
    let answer = lines.receive().await.unwrap();
    assert_eq!(answer["result"]["structuredContent"]["title"], "a");
    lines.end().await;
}

#[tokio::test]
async fn requests_that_are_not_json_rpc_2_get_the_error_that_it_names() {
    let mut lines = Lines::begun(server(&seen())).await;
    for (line, id, fault) in [
        (r#"{"jsonrpc":"1.0","id":101,"method":"ping"}"#, json!(101), "`jsonrpc`"),
        (r#"{"id":"a","method":"ping"}"#, json!("a"), "`jsonrpc`"),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, Value::Null, "`id`"),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, Value::Null, "`id`"),
        (r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"ping"}"#, Value::Null, "`id`"),
        (r#"{"jsonrpc":"2.0","id":101,"method":["ping"]}"#, json!(101), "`method`"),
        (r#"{"jsonrpc":"2.0"}"#, Value::Null, "`method`"),
        (r#"[{"jsonrpc":"2.0","id":101,"method":"ping"}]"#, Value::Null, "an object"),
    ] {
        lines.line(line).await;
        let answer = lines.receive().await.unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(-32600)), "{line}");
        let text = answer["error"]["message"].as_str().unwrap();
        assert!(text.contains(fault), "{line}: {text}");
    }
    lines.line(r#"{"jsonrpc":"1.0","method":"notifications/x"}"#).await;
    assert!(lines.end().await.is_empty());
}

#[tokio::test]
async fn an_id_that_is_open_is_refused_and_may_be_used_again_later() {
    for modern in [false, true] {
        let seen = seen();
        let mut lines = match modern {
            false => Lines::begun(server(&seen)).await,
            true => Lines::modern(server(&seen)),
        };
        let params = json!({"name": "wait", "arguments": {}});
        let id = lines.send("tools/call", params).await;
        seen.started.notified().await;
        let again = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        lines.line(&again.to_string()).await;
        let answer = lines.receive().await.unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32600)));
        lines.notify("notifications/cancelled", json!({"requestId": id})).await;
        seen.ended.notified().await;
        for name in ["hello", "hello"] {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "client", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            let params =
                if modern { json!({"name": name, "_meta": meta}) } else { json!({"name": name}) };
            let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
            lines.line(&call.to_string()).await;
            assert_eq!(texts(&lines.receive().await.unwrap()["result"]), ["Hello!"]);
        }
        assert!(lines.end().await.is_empty());
    }
}

#[tokio::test]
async fn a_request_may_have_several_lines_and_a_line_several_requests() {
    let mut lines = Lines::begun(server(&seen())).await;
    let call = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "hello"}});
    lines.line(&serde_json::to_string_pretty(&call(101)).unwrap()).await;
    assert_eq!(texts(&lines.receive().await.unwrap()["result"]), ["Hello!"]);
    lines.line(&format!("{}{}", call(102), call(103))).await;
    for _ in 0..2 {
        assert_eq!(texts(&lines.receive().await.unwrap()["result"]), ["Hello!"]);
    }
    lines.end().await;
}

/// The request's id may be anywhere in the request.
#[tokio::test]
async fn an_oversized_request_gets_an_error_response() {
    let large = "x".repeat(5 << 20);
    let check = async |lines: &mut Lines, id: u64| {
        let answer = lines.receive().await.unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32600)));
        let text = answer["error"]["message"].as_str().unwrap();
        assert_eq!(text, "the request has more than 4194304 bytes, the maximum");
    };
    let mut lines = Lines::begun(server(&seen())).await;
    let params = json!({"name": "hello", "arguments": {"text": large}});
    let id = lines.send("tools/call", params.clone()).await;
    check(&mut lines, id).await;
    // Some clients write the id last.
    let last = json!({"method": "tools/call", "params": params, "jsonrpc": "2.0", "id": 77});
    lines.line(&last.to_string()).await;
    check(&mut lines, 77).await;
    lines.notify("notifications/x", json!({"text": large})).await;
    assert_eq!(texts(&lines.call("hello", json!({})).await), ["Hello!"]);
    lines.end().await;

    // As the first message, in both revisions.
    for mut lines in [Lines::new(server(&seen())), Lines::modern(server(&seen()))] {
        let id = lines.send("tools/call", params.clone()).await;
        check(&mut lines, id).await;
        lines.end().await;
    }
}

/// The id may be anywhere at the top level, and nowhere else. Only requests get a response.
#[tokio::test]
async fn the_id_of_an_oversized_message_is_found() {
    let long = "x".repeat(100);
    let tricky = r#"{\"id\": 7} \\"#;
    let mut lines = Lines::new(
        server(&seen())
            .with_limits(ServerLimits { max_message_bytes: 60, ..ServerLimits::default() }),
    );
    let mut expected = Vec::new();
    for (message, id) in [
        (format!(r#"{{"jsonrpc":"2.0","id":5,"method":"m","params":["{long}"]}}"#), Some(json!(5))),
        (
            format!(r#"{{"method":"m","params":{{"id":1,"a":"{tricky}{long}"}}, "id" : "x\"y"}}"#),
            Some(json!("x\"y")),
        ),
        (format!(r#" {{"params":[{{"id":3}},"{long}"],"id":-1,"method":"m"}} "#), Some(json!(-1))),
        (format!(r#"{{"id":1,"result":"{long}"}}"#), None),
        (format!(r#"{{"result":"{long}","id":1"#), None),
        (format!(r#"{{"method":"notifications/x","params":"{long}"}}"#), None),
        (format!(r#"{{"id":[1],"method":"m","params":"{long}"}}"#), Some(Value::Null)),
        (format!(r#"{{"id":"{long}{long}{long}","method":"m"}}"#), Some(Value::Null)),
        (format!(r#"[{{"id":1,"method":"m","params":"{long}"}}]"#), Some(Value::Null)),
        (format!("\"{long}\""), Some(Value::Null)),
    ] {
        lines.line("a").await;
        lines.line(&message).await;
        expected.extend(id);
    }
    let answers = lines.end().await;
    let ids: Vec<Value> = answers.iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, expected);
    assert!(answers.iter().all(|answer| answer["error"]["code"] == -32600), "{answers:?}");
}

fn ping(id: u64) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string()
}

#[tokio::test]
async fn a_request_may_have_as_many_bytes_as_the_limit_says() {
    let mut lines = Lines::begun(
        server(&seen())
            .with_limits(ServerLimits { max_message_bytes: 300, ..ServerLimits::default() }),
    )
    .await;
    lines.line(&format!("{:300}", ping(101))).await;
    assert_eq!(lines.receive().await.unwrap()["result"], json!({}));
    lines.line(&format!("{:301}", ping(102))).await;
    assert_eq!(lines.receive().await.unwrap()["error"]["code"], -32600);
    // A last line without its end is not a message.
    lines.write_bytes(ping(103).as_bytes()).await;
    assert!(lines.end().await.is_empty());
}

#[tokio::test]
async fn a_message_that_does_not_end_takes_no_other_with_it() {
    let begin = "{\"jsonrpc\": \"2.0\",";
    let long = format!("{begin}\n{}", "x".repeat(290));
    for text in [
        &format!("{begin}\n"),
        &format!("{begin}\n \"params\": {{"),
        &format!("{begin}\n{{starting}}\nready\n"),
        // Text that only looks like the beginning of a message.
        "{starting",
        // More lines than the limit allows.
        &long,
    ] {
        let mut lines = Lines::begun(
            server(&seen())
                .with_limits(ServerLimits { max_message_bytes: 300, ..ServerLimits::default() }),
        )
        .await;
        lines.line(text).await;
        lines.line(&ping(101)).await;
        assert_eq!(lines.receive().await.unwrap()["id"], 101, "{text}");
        assert!(lines.end().await.is_empty(), "{text}");
    }
}

#[tokio::test]
async fn a_line_has_several_messages_only_if_all_of_it_is_messages() {
    let call = |id: u64| {
        let arguments = json!({"text": "}{ } {"});
        let params = json!({"name": "hello", "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    let mut lines = Lines::begun(server(&seen())).await;
    lines.line(&format!("{}{}", call(101), ping(102))).await;
    lines.line(&format!("{} \t{} {}", ping(103), call(104), ping(105))).await;
    let mut ids = BTreeSet::new();
    for _ in 0..5 {
        ids.insert(lines.receive().await.unwrap()["id"].as_u64().unwrap());
    }
    assert!(ids.into_iter().eq(101..=105));
    for rest in ["{\"level\":1}".to_owned(), ping(107) + "x", "{".to_owned()] {
        lines.line(&format!("{}{rest}", call(106))).await;
        assert_eq!(lines.receive().await.unwrap()["error"]["code"], -32700, "{rest}");
    }
    assert!(lines.end().await.is_empty());
}

#[tokio::test]
async fn the_server_ends_when_the_client_disconnects() {
    assert!(Lines::new(server(&seen())).end().await.is_empty());
    assert!(Lines::begun(server(&seen())).await.end().await.is_empty());

    // A request before the disconnect gets a response.
    let mut lines = Lines::begun(server(&seen())).await;
    let id = lines.send("tools/call", json!({"name": "hello"})).await;
    let rest = lines.end().await;
    assert_eq!((rest.len(), &rest[0]["id"]), (1, &json!(id)));
}

#[tokio::test]
async fn messages_before_the_first_request_are_ignored() {
    let mut lines = Lines::new(server(&seen()));
    lines.notify("notifications/initialized", json!({})).await;
    lines.line(r#"{"jsonrpc": "2.0", "id": 1, "result": {}}"#).await;
    assert_eq!(lines.request("ping", json!({})).await, json!({}));
    assert_eq!(lines.request("tools/list", json!({})).await["code"], -32602);

    // A client that sends `server/discover`, times out and starts a handshake.
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let id = lines.send("server/discover", json!({"_meta": meta})).await;
    lines.notify("notifications/cancelled", json!({"requestId": id})).await;
    assert_eq!(lines.receive().await.unwrap()["id"], id);
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "client", "version": "1"},
    });
    assert_eq!(lines.request("initialize", params).await["protocolVersion"], "2025-11-25");
    assert_eq!(texts(&lines.call("hello", json!({})).await), ["Hello!"]);
    lines.end().await;
}

#[tokio::test]
async fn each_of_200_concurrent_calls_gets_one_response() {
    for mut lines in [
        Lines::begun(
            server(&seen())
                .with_limits(ServerLimits { max_parallel: 8, ..ServerLimits::default() }),
        )
        .await,
        Lines::modern(
            server(&seen())
                .with_limits(ServerLimits { max_parallel: 8, ..ServerLimits::default() }),
        ),
    ] {
        let mut asked = BTreeSet::new();
        for a in 0..200 {
            let params = json!({"name": "add", "arguments": {"a": a, "b": 0}});
            asked.insert((lines.send("tools/call", params).await, a));
        }
        let mut answered = BTreeSet::new();
        while answered.len() < 200 {
            let answer = lines.receive().await.unwrap();
            let sum = answer["result"]["structuredContent"]["result"].as_i64().unwrap();
            assert!(answered.insert((answer["id"].as_u64().unwrap(), sum)), "{answer}");
        }
        assert_eq!(answered, asked);
        assert!(lines.end().await.is_empty());
    }
}

#[tokio::test]
async fn a_cancelled_call_is_stopped_and_gets_no_response() {
    for modern in [false, true] {
        let seen = seen();
        let mut lines = match modern {
            false => Lines::begun(server(&seen)).await,
            true => Lines::modern(server(&seen)),
        };
        let id = lines.send("tools/call", json!({"name": "wait", "arguments": {}})).await;
        seen.started.notified().await;
        let reason = json!({"requestId": id, "reason": "changed my mind"});
        lines.notify("notifications/cancelled", reason).await;
        seen.ended.notified().await;
        // Cancelling an unknown request is ignored.
        lines.notify("notifications/cancelled", json!({"requestId": 999})).await;
        assert_eq!(texts(&lines.call("hello", json!({})).await), ["Hello!"]);
        assert!(lines.end().await.is_empty());
        assert_eq!(seen.cancelled.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn a_disconnect_cancels_running_calls() {
    let seen = seen();
    let mut lines = Lines::begun(server(&seen)).await;
    lines.send("tools/call", json!({"name": "wait", "arguments": {}})).await;
    seen.started.notified().await;
    let ended = tokio::spawn(lines.end());
    seen.ended.notified().await;
    ended.await.unwrap();
}

#[tokio::test]
async fn progress_is_sent_on_request_increases_and_ends_with_the_response() {
    for mut lines in [Lines::begun(server(&seen())).await, Lines::modern(server(&seen()))] {
        let arguments = json!({"times": 3});
        let params =
            json!({"name": "tell", "arguments": arguments, "_meta": {"progressToken": "p"}});
        let id = lines.send("tools/call", params).await;
        let mut received = Vec::new();
        loop {
            let message = lines.receive().await.unwrap();
            assert!(!message.to_string().contains("secret-7"), "{message}");
            if message["id"] == id {
                break;
            }
            assert_eq!(message["method"], "notifications/progress");
            assert_eq!(message["params"]["progressToken"], "p");
            let message = &message["params"];
            received.push((message["progress"].as_f64(), message["message"].clone()));
        }
        let inner = || json!("inner started");
        assert_eq!(received, [(Some(1.0), inner()), (Some(2.0), inner()), (Some(3.0), inner())]);
        // Without a progress token there are no notifications.
        lines.call("tell", arguments).await;
        assert!(lines.end().await.is_empty());
    }
}

#[tokio::test]
async fn a_call_after_its_timeout_gets_an_error_and_is_cancelled() {
    let seen = seen();
    let server = server(&seen).with_limits(ServerLimits {
        tool_time: Duration::from_millis(20),
        ..ServerLimits::default()
    });
    let mut lines = Lines::begun(server).await;
    let result = lines.call("wait", json!({})).await;
    assert_eq!(result["isError"], true);
    assert_eq!(texts(&result), ["`wait` did not end in time. Ask for less, or call again later."]);
    lines.end().await;
}

#[tokio::test]
async fn calls_wait_in_a_queue_and_a_cancelled_one_frees_its_permit() {
    let seen = seen();
    let mut lines = Lines::begun(
        server(&seen).with_limits(ServerLimits { max_parallel: 1, ..ServerLimits::default() }),
    )
    .await;
    let waits = lines.send("tools/call", json!({"name": "wait", "arguments": {}})).await;
    seen.started.notified().await;
    let hello = lines.send("tools/call", json!({"name": "hello", "arguments": {}})).await;
    // A call in the queue does not run: the second one is cancelled before it starts.
    let second = lines.send("tools/call", json!({"name": "wait", "arguments": {}})).await;
    lines.notify("notifications/cancelled", json!({"requestId": second})).await;
    lines.notify("notifications/cancelled", json!({"requestId": waits})).await;
    let answer = lines.receive().await.unwrap();
    assert_eq!(answer["id"], hello);
    lines.end().await;
    assert_eq!(seen.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn calls_above_the_rate_limit_are_rejected() {
    let server = server(&seen()).with_limits(ServerLimits {
        max_rate: (2, Duration::from_secs(3600)),
        ..ServerLimits::default()
    });
    let mut lines = Lines::begun(server).await;
    for _ in 0..2 {
        assert_eq!(texts(&lines.call("hello", json!({})).await), ["Hello!"]);
    }
    let result = lines.call("hello", json!({})).await;
    assert_eq!(result["isError"], true);
    assert_eq!(texts(&result), ["Too many calls: wait 1800 s, then call again."]);
}

#[tokio::test]
async fn an_oversized_result_is_replaced_with_an_error() {
    let mut lines = Lines::begun(
        server(&seen())
            .with_limits(ServerLimits { max_result_bytes: 5, ..ServerLimits::default() }),
    )
    .await;
    let result = lines.call("hello", json!({})).await;
    assert_eq!(texts(&result), ["The result has 6 bytes and the maximum is 5. Request less."]);
    assert_eq!(lines.call("add", json!({"a": 1, "b": 1})).await["isError"], false);
}

#[tokio::test]
async fn a_shutdown_lets_running_calls_finish_over_streams() {
    let shutdown = Cancellation::default();
    let all = Cancellation::default();
    let seen = seen();
    let server = server(&seen)
        .with_shutdown(shutdown.clone())
        .with_context(Context::default().with_cancellation(all.clone()));
    let mut lines = Lines::begun(server).await;
    let running = lines.send("tools/call", json!({"name": "wait", "arguments": {}})).await;
    seen.started.notified().await;
    shutdown.cancel();
    // New calls are rejected; the running one continues.
    let refused = loop {
        let result = lines.call("hello", json!({})).await;
        if result["isError"] == true {
            break result;
        }
    };
    assert_eq!(texts(&refused), ["The server is shutting down."]);
    all.cancel();
    let answer = lines.receive().await.unwrap();
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(running), &json!(true)));
    assert_eq!(lines.receive().await, None);
    lines.serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_without_requests_can_be_shut_down() {
    let shutdown = Cancellation::default();
    let lines = Lines::new(server(&seen()).with_shutdown(shutdown.clone()));
    shutdown.cancel();
    lines.serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_call_has_the_servers_context_and_its_own_path() {
    let (sender, mut paths) = tokio::sync::mpsc::unbounded_channel();
    let cx = Context::default().with_events(move |event| {
        let _ = sender.send(event.path.clone());
    });
    let mut lines = Lines::begun(server(&seen()).with_context(cx)).await;
    lines.call("tell", json!({"times": 1})).await;
    let path = paths.recv().await.unwrap();
    assert_eq!(path.iter().map(|call| call.tool.as_str()).collect::<Vec<_>>(), ["tell"]);
}

#[tokio::test]
async fn a_bound_group_can_be_served() {
    use toolwright_group::{Handle, ToolGroup};
    use toolwright_module::Result;

    /// Scale a number.
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Scale {
        number: i64,
    }

    impl Handle<i64, i64> for Scale {
        async fn handle(self, factor: &i64, _cx: &Context) -> Result<(String, i64)> {
            Ok((format!("{} times {factor}", self.number), self.number * factor))
        }
    }

    let (sender, mut products) = tokio::sync::mpsc::unbounded_channel();
    let group = ToolGroup::new().handler::<Scale>().unwrap();
    let tools = group.bind(7, move |name, product: i64| {
        let _ = sender.send((name.to_owned(), product));
    });
    let mut lines = Lines::begun(McpServer::new("group", "1", tools).unwrap()).await;
    let result = lines.call("scale", json!({"number": 6})).await;
    assert_eq!(texts(&result), ["6 times 7"]);
    assert!(result.get("structuredContent").is_none(), "{result}");
    assert_eq!(products.recv().await, Some(("scale".to_owned(), 42)));
}

#[test]
fn two_tools_with_the_same_name_are_rejected() {
    let twice = tools(&seen()).into_iter().chain(tools(&seen()));
    let error = McpServer::new("test", "1", twice).unwrap_err();
    assert_eq!(error.to_string(), "two tools have the name `add`; rename one with `Tool::named`");
}

#[tokio::test]
async fn an_rmcp_client_lists_and_calls_tools() {
    use rmcp::ServiceExt;
    use rmcp::model::CallToolRequestParams;

    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(ours);
    let serving = tokio::spawn(server(&seen()).serve(read, write));
    let client = ().serve(theirs).await.unwrap();
    let listed = client.list_all_tools().await.unwrap();
    let names: Vec<&str> = listed.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["add", "store_note", "hello", "fail", "wait", "tell", "picture", "promise"]);
    let arguments = json!({"title": "Oslo"}).as_object().cloned().unwrap();
    let call = CallToolRequestParams::new("store_note").with_arguments(arguments);
    let result = client.call_tool(call).await.unwrap();
    assert_eq!(
        result.structured_content,
        Some(json!({"title": "Oslo", "replaced": false})) as Option<Value>
    );
    client.cancel().await.unwrap();
    serving.await.unwrap().unwrap();
}
