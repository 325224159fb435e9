//! A faulty server over standard input and output, for tests.
//!
//! `odd MODE`: the mode selects the behaviour at the start. Each tool's name says its behaviour. The
//! file `ODD_FILE` gets a line for each event.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use std::fs::OpenOptions;
use std::io::{BufRead, Write};
use std::process::{Command, exit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    note("started");
    match mode.as_str() {
        "crashing" => {
            eprintln!("no licence for you");
            exit(3);
        }
        "with-a-child" => {
            let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
            note(&format!("child {}", child.id()));
            std::thread::spawn(move || child.wait());
        }
        _ => {}
    }
    let server = Arc::new(Server {
        mode,
        not_reading: AtomicBool::new(false),
        changed: Mutex::new(false),
        asking: Mutex::default(),
    });
    for line in std::io::stdin().lock().lines() {
        while server.not_reading.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let server = Arc::clone(&server);
        // Each message has its own thread, so that a slow call does not block others.
        std::thread::spawn(move || server.take(&message));
    }
    note("ended");
    if server.mode == "stubborn" {
        std::thread::sleep(Duration::from_secs(1000));
    }
}

/// The modes of a server that knows only the newest revision.
const MODERN: [&str; 3] = ["modern", "slow", "slow-and-deaf-to-initialize"];

struct Server {
    mode: String,
    /// The server does not read its input any more.
    not_reading: AtomicBool,
    changed: Mutex<bool>,
    /// The ids of the calls whose question has no answer yet.
    asking: Mutex<Vec<Value>>,
}

/// A question of every kind of field.
fn question() -> Value {
    json!({
        "message": "Where do you want to sit?",
        "requestedSchema": {
            "type": "object",
            "properties": {
                "row": {"type": "integer", "description": "From 1 to 20.", "minimum": 1, "maximum": 20},
                "side": {"type": "string", "enum": ["left", "right"], "default": "left"},
                "note": {"type": "string"},
            },
            "required": ["row", "side"],
        },
    })
}

impl Server {
    fn take(&self, message: &Value) {
        let method = message["method"].as_str().unwrap_or_default();
        let id = &message["id"];
        let params = &message["params"];
        match method {
            "server/discover" if self.mode == "dying-at-discover" => exit(1),
            "server/discover" if self.mode == "deaf-to-discover" => {}
            "server/discover" if self.is_modern() => {
                if self.mode != "modern" {
                    std::thread::sleep(Duration::from_millis(2_500));
                }
                let result = json!({
                    "resultType": "complete",
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {"listChanged": true}},
                    "ttlMs": 0,
                    "cacheScope": "private",
                    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "odd", "version": "1"}},
                });
                answer(id, &result);
            }
            "initialize" if self.mode == "slow-and-deaf-to-initialize" => {}
            // A change before the subscription, of which the client gets no notification.
            "subscriptions/listen" if self.is_modern() => {
                *self.changed.lock().unwrap() = true;
                say(&json!({
                    "jsonrpc": "2.0",
                    "method": "notifications/subscriptions/acknowledged",
                    "params": {
                        "_meta": {"io.modelcontextprotocol/subscriptionId": id},
                        "notifications": {"toolsListChanged": true},
                    },
                }));
            }
            "initialize" if self.is_modern() => {
                // After the response to the request before.
                std::thread::sleep(Duration::from_secs(1));
                say(&json!({
                    "jsonrpc": "2.0",
                    "id": id,
                    "error": {"code": -32601, "message": "Method not found"},
                }));
            }
            "initialize" => {
                if self.mode == "chatty" {
                    println!("Welcome to the server!");
                    println!("{{starting}}");
                    println!("{{'level': 'info'}}");
                    println!("{}", json!({"level": "info", "msg": "started"}));
                }
                if self.mode == "nameless" {
                    let result = json!({
                        "protocolVersion": params["protocolVersion"],
                        "capabilities": {"tools": {}},
                    });
                    say(&json!({"jsonrpc": "2.0", "id": id, "error": null, "result": result}));
                    return;
                }
                note(&format!("elicitation {}", params["capabilities"]["elicitation"]));
                let result = json!({
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": match self.mode.as_str() {
                        "without-tools" => json!({"prompts": {}}),
                        _ => json!({"tools": {"listChanged": true}}),
                    },
                    "serverInfo": {"name": "odd/server", "version": "1"},
                    "instructions": "Handle with care.",
                });
                answer(id, &result);
            }
            "tools/list" if self.mode == "without-tools" => say(&json!({
                "jsonrpc": "2.0",
                "id": id,
                "error": {"code": -32601, "message": "Method not found"},
            })),
            "tools/list" => self.list(id, params),
            "tools/call" => self.call(id, params),
            "notifications/cancelled" => note("cancelled"),
            "" if *id == json!("question") => {
                let call = self.asking.lock().unwrap().remove(0);
                answer(&call, &said(&message["result"].to_string()));
            }
            "" if *id == json!("roots") => note(&format!("roots {}", message["error"]["code"])),
            _ if id.is_null() => {}
            _ => say(&json!({
                "jsonrpc": "2.0",
                "id": id,
                "error": {"code": -32601, "message": "Method not found"},
            })),
        }
    }

    fn is_modern(&self) -> bool {
        MODERN.contains(&&*self.mode)
    }

    fn list(&self, id: &Value, params: &Value) {
        match (self.mode.as_str(), params["cursor"].as_str()) {
            ("endless", cursor) => {
                let next = cursor.map_or(0, |cursor| cursor.parse::<u64>().unwrap()) + 1;
                answer(id, &json!({"tools": [], "nextCursor": next.to_string()}));
            }
            ("heavy", cursor) => {
                let next = cursor.map_or(0, |cursor| cursor.parse::<u64>().unwrap()) + 1;
                let mut heavy = tool(&format!("heavy_{next}"), &json!({"type": "object"}));
                heavy["description"] = json!("a".repeat(2_000_000));
                answer(id, &json!({"tools": [heavy], "nextCursor": next.to_string()}));
            }
            ("twice", _) => {
                let any = json!({"type": "object"});
                let nothing = json!({"type": "object", "properties": {}});
                let tools = [tool("same", &any), tool("same", &any), tool("two", &any)];
                let more = [tool("two", &nothing), tool("one", &any), tool("two", &any)];
                answer(id, &json!({ "tools": ([tools, more].concat()) }));
            }
            ("alike", _) => {
                let long = "long_".repeat(20);
                let names = ["a b", "a.b", "a_b", "3d", "\u{5de5}", "\u{5177}", &long];
                let tools = names.map(|name| tool(name, &json!({"type": "object"})));
                answer(id, &json!({ "tools": tools }));
            }
            ("dying-at-list", _) => {
                eprintln!("out of memory");
                exit(3);
            }
            ("listless", _) => answer(id, &json!({"tools": "none"})),
            ("circular", _) => answer(id, &json!({"tools": [], "nextCursor": "again"})),
            ("paged", None) => {
                let draft = json!({
                    "$schema": "http://json-schema.org/draft-07/schema#",
                    "type": "object",
                    "properties": {"at": {"type": "array", "items": [{"type": "number"}, {"type": "number"}]}},
                });
                let tools = [
                    tool("dotted.name", &draft),
                    tool("no-arguments", &json!({"type": "object", "properties": {}})),
                ];
                answer(id, &json!({"tools": tools, "nextCursor": "2"}));
            }
            ("paged", _) => {
                let text = tool("root-is-a-text", &json!({"type": "string"}));
                let hinted = json!({
                    "name": "hinted",
                    "inputSchema": {"type": "object"},
                    "annotations": {"readOnlyHint": true},
                    "icons": [{"src": "https://example.com/a.png"}],
                });
                let elsewhere = json!({
                    "type": "object",
                    "properties": {"at": {"$ref": "https://example.com/at.json"}},
                });
                let elsewhere = tool("leads-elsewhere", &elsewhere);
                let tools = json!([text, hinted, {"name": "no-schema"}, 7, elsewhere]);
                // Some servers send an empty cursor with the last page.
                answer(id, &json!({"tools": tools, "nextCursor": ""}));
            }
            _ => {
                let changed = *self.changed.lock().unwrap();
                let description = if changed { "Echo\u{200b} it all to me." } else { "Echo." };
                let text = json!({
                    "type": "object",
                    "properties": {"text": {"type": "string"}},
                    "required": ["text"],
                });
                let number = json!({
                    "type": "object",
                    "properties": {"n": {"type": "integer"}},
                    "required": ["n"],
                });
                let optional =
                    json!({"type": "object", "properties": {"text": {"type": "string"}}});
                let mut echo = tool("echo", &text);
                echo["description"] = json!(description);
                let mut structured = tool("structured", &text);
                structured["outputSchema"] = number;
                let others = [
                    "change",
                    "content",
                    "die",
                    "die_once",
                    "environment",
                    "fail",
                    "ask",
                    "ask_and_not_listen",
                    "ask_again_and_again",
                    "ask_for_roots",
                    "bad_text",
                    "data",
                    "garble",
                    "huge",
                    "long",
                    "nameless_error",
                    "nested",
                    "slow",
                    "never",
                    "pretty",
                    "process",
                    "refuse",
                    "two_at_once",
                    "wide",
                    "unknown",
                ];
                let others = others.map(|name| tool(name, &optional));
                let tools: Vec<Value> = [echo, structured].into_iter().chain(others).collect();
                answer(id, &json!({"tools": tools}));
            }
        }
    }

    fn call(&self, id: &Value, params: &Value) {
        let name = params["name"].as_str().unwrap_or_default();
        let text = params["arguments"]["text"].as_str().unwrap_or_default();
        note(name);
        match name {
            "echo" => answer(id, &said(text)),
            "structured" => {
                let mut result = said(text);
                if let Some(text) = text.strip_prefix("null beside ") {
                    result = said(text);
                    result["structuredContent"] = Value::Null;
                } else if let Ok(value) = serde_json::from_str::<Value>(text) {
                    result["structuredContent"] = value;
                    result["content"] = json!([]);
                }
                answer(id, &result);
            }
            "change" => {
                *self.changed.lock().unwrap() = true;
                say(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
                answer(id, &said("changed"));
            }
            "content" => answer(
                id,
                &json!({"content": [
                    {"type": "text", "text": "A house."},
                    {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
                    {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
                    {"type": "resource", "resource": {"uri": "a:b", "text": "A text."}},
                    {"type": "resource", "resource": {"uri": "a:c", "blob": "e30=", "mimeType": "application/json"}},
                    {"type": "resource", "resource": {"uri": "a:d", "blob": "iVBORw0K\r\nGgo=", "mimeType": "image/png"}},
                    {"type": "resource_link", "name": "readme", "uri": "file:///readme"},
                ]}),
            ),
            "die" => {
                eprintln!("I die");
                exit(9)
            }
            "never" => eprintln!("I wait"),
            "ask" if self.is_modern() && params["inputResponses"].is_null() => ask(id, "state 1"),
            "ask" if self.is_modern() => {
                let (seat, state) = (&params["inputResponses"]["seat"], &params["requestState"]);
                answer(id, &said(&format!("{seat} {state}")));
            }
            "ask_again_and_again" => ask(id, "state"),
            "ask" => {
                self.asking.lock().unwrap().push(id.clone());
                // With two calls, the question comes when both run.
                if text != "first" {
                    say(&json!({
                        "jsonrpc": "2.0",
                        "id": "question",
                        "method": "elicitation/create",
                        "params": question(),
                    }));
                }
            }
            "ask_and_not_listen" => {
                self.not_reading.store(true, Ordering::SeqCst);
                for id in 0..1_000_000 {
                    say(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
                }
            }
            "die_once" => {
                if notes().matches("die_once").count() == 1 {
                    exit(9);
                }
                answer(id, &said("alive"));
            }
            "environment" => {
                let names: Vec<String> =
                    std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
                answer(id, &said(&names.join("\n")));
            }
            "ask_for_roots" => {
                say(&json!({"jsonrpc": "2.0", "id": "roots", "method": "roots/list"}));
                answer(id, &said("asked"));
            }
            "fail" => answer(
                id,
                &json!({"content": [{"type": "text", "text": "no such day"}], "isError": true}),
            ),
            // Half an emoji, and bytes that are no characters.
            "bad_text" => {
                let text = format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"cut \ud83d"}},{{"type":"text","text":"bytes "#,
                );
                let mut line = text.into_bytes();
                line.extend_from_slice(b"\xff\0\"}]}}\n");
                let mut out = std::io::stdout().lock();
                out.write_all(&line).unwrap();
                out.flush().unwrap();
            }
            "data" => say(&json!({
                "jsonrpc": "2.0",
                "id": id,
                "error": {
                    "code": -32602,
                    "message": "Invalid params",
                    "data": {"reason": "unknown city Xanadu", "zmore": "a".repeat(5000)},
                },
            })),
            "huge" => answer(id, &said(&"a".repeat(20_000_000))),
            "nested" => println!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":{}{}}}}}"#,
                "[".repeat(500),
                "]".repeat(500)
            ),
            "slow" => {
                let token = &params["_meta"]["progressToken"];
                for step in 0..12 {
                    std::thread::sleep(Duration::from_millis(100));
                    let params = json!({"progressToken": token, "progress": step});
                    let method = "notifications/progress";
                    say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
                }
                answer(id, &said("slow"));
            }
            "garble" => println!("{{\"jsonrpc\": \"2.0\", oops"),
            "long" => answer(id, &said(&"a".repeat(text.parse().unwrap_or(1_000_000)))),
            "pretty" => {
                let message = json!({"jsonrpc": "2.0", "id": id, "result": said("pretty")});
                println!("{}", serde_json::to_string_pretty(&message).unwrap());
            }
            "two_at_once" => {
                let message = json!({"jsonrpc": "2.0", "id": id, "result": said("second")});
                let note = json!({"jsonrpc": "2.0", "method": "notifications/x", "params": {}});
                println!("{note}{message}");
            }
            "wide" => println!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":{{"wei":123456789012345678901234567890}}}}}}"#
            ),
            "process" => answer(id, &said(&std::process::id().to_string())),
            "refuse" => say(&json!({
                "jsonrpc": "2.0",
                "id": id,
                "error": {"code": -32602, "message": "the day is missing"},
            })),
            "nameless_error" => say(&json!({
                "jsonrpc": "2.0",
                "id": null,
                "error": {"code": -32700, "message": "the request cannot be read"},
            })),
            "unknown" => answer(id, &json!({"resultType": "riddle", "riddle": "?"})),
            _ => {}
        }
    }
}

/// Responds to a call with a question.
fn ask(id: &Value, state: &str) {
    let seat = json!({"method": "elicitation/create", "params": question()});
    let result = json!({
        "resultType": "input_required",
        "inputRequests": {"seat": seat},
        "requestState": state,
    });
    say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

fn tool(name: &str, input: &Value) -> Value {
    json!({"name": name, "description": format!("A tool, {name}."), "inputSchema": input})
}

fn said(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn answer(id: &Value, result: &Value) {
    let mut result = result.clone();
    if MODERN.contains(&&*std::env::args().nth(1).unwrap_or_default()) {
        result["resultType"] = json!("complete");
    }
    say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

fn say(message: &Value) {
    let mut out = std::io::stdout().lock();
    // The client may have disconnected.
    let _ = writeln!(out, "{message}").and_then(|()| out.flush());
}

fn note(what: &str) {
    let Some(path) = std::env::var_os("ODD_FILE") else { return };
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    // One write, because other threads write too.
    file.write_all(format!("{what}\n").as_bytes()).unwrap();
}

fn notes() -> String {
    std::env::var_os("ODD_FILE")
        .and_then(|path| std::fs::read_to_string(path).ok())
        .unwrap_or_default()
}
