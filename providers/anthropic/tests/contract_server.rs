//! Every feature in a request to a server that checks it against the official description.
//!
//! ```sh
//! CONTRACT_SERVER=contract_server.py cargo test -p toolwright-anthropic --test main \
//!     contract_server -- --ignored --nocapture
//! ```

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use serde_json::json;
use toolwright_anthropic::{Anthropic, ApiVersion, CacheTime};
use toolwright_module::message::{Document, Image, Opaque, Reasoning, ReplyPart, Text, ToolResult};
use toolwright_module::model::{Effort, Settings, ToolChoice};
use toolwright_module::{Contract, LanguageModel, Message, Request, ToolCall};

use crate::common::{hi, streamed};
use crate::requests::look;

/// A server that is stopped when the test ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

fn server(report: &str) -> (Server, String) {
    let script = env::var("CONTRACT_SERVER").expect("CONTRACT_SERVER=contract_server.py");
    let mut command = Command::new("python3");
    command.args([&script, "--reject", "--report", report]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (_, address) = line.trim().rsplit_once(' ').unwrap();
    (Server(child), format!("http://{address}/v1"))
}

/// A tool with optional fields, unions and a map, in several sizes.
fn tools(count: usize) -> Vec<Arc<Contract>> {
    let tool = |n| {
        let input = json!({
            "type": "object",
            "properties": {
                "id": {"type": "integer", "minimum": 1, "maximum": 9},
                "name": {"type": "string", "maxLength": 9, "pattern": "^a"},
                "either": {"anyOf": [{"type": "string"}, {"type": "number"}]},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            },
            "required": ["id"],
        });
        Arc::new(Contract::dynamic(&format!("tool_{n}"), "A tool.", input, None).unwrap())
    };
    (0..count).map(tool).chain([look()]).collect()
}

/// Requests that together have every kind of message, part and setting.
fn requests() -> Vec<(&'static str, Request)> {
    let image = Image::bytes("image/png", *b"\x89PNG");
    let pdf = Document::bytes("application/pdf", *b"%PDF");
    let text = Document::bytes("text/plain", *b"Sales rose.");
    let call = |id: &str| ToolCall::new(id, "look", r#"{"id": 1}"#);
    let own = |value| Opaque::new("anthropic", value);
    let thinking = json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"});
    let redacted = json!({"type": "redacted_thinking", "data": "c2ln"});
    let search = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rain"}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result", "url": "https://example.com", "title": "Rain", "encrypted_content": "abc"}]});
    let cited = json!({"citations": [{"type": "web_search_result_location", "url": "https://example.com", "title": "Rain", "encrypted_index": "i", "cited_text": "Rain."}]});
    let conversation = Request::new(
        [
            Message::System { text: "Be brief.".to_owned() },
            Message::User {
                parts: vec![
                    "What is this?".into(),
                    image.clone().into(),
                    Image::url("https://example.com/a.png").into(),
                    Image::file("anthropic", "file_1").into(),
                    pdf.clone().into(),
                    text.into(),
                    " ".into(),
                ],
            },
            Message::Assistant {
                parts: vec![
                    ReplyPart::Reasoning(Reasoning::new("anthropic", "Hm.", thinking)),
                    ReplyPart::Reasoning(Reasoning::new("anthropic", "", redacted)),
                    ReplyPart::Other(own(search)),
                    ReplyPart::Other(own(found)),
                    ReplyPart::text("\n\n"),
                    ReplyPart::Text(Text::from("It rains.").with_opaque(own(cited))),
                    ReplyPart::Call(call("toolu_1")),
                    ReplyPart::Call(call("functions.look:2")),
                    ReplyPart::Call(ToolCall::new("toolu_3", "no such tool!", "[1")),
                ],
            },
            Message::Tool(
                ToolResult::new(&call("toolu_1"), "true")
                    .with_parts([image.clone().into(), pdf.into()]),
            ),
            Message::User { parts: vec!["Quick!".into()] },
            Message::Tool(
                ToolResult::failed(&call("functions.look:2"), "Broken.").with_parts([image.into()]),
            ),
            Message::Tool(ToolResult::new(&call("toolu_3"), "")),
            Message::Assistant { parts: vec![ReplyPart::text(" ")] },
            Message::User { parts: vec!["And now?".into()] },
        ]
        .map(Arc::new),
    );
    let few = conversation.clone().with_tools(tools(2));
    let answer = json!({"type": "object", "properties": {"rains": {"type": "boolean"}, "mm": {"type": "number", "minimum": 0}}, "required": ["rains"]});
    let answer = Contract::dynamic("answer", "", json!({"type": "object"}), Some(answer)).unwrap();
    let answer = Arc::new(answer);
    let set = |request: &Request, settings: Settings| {
        request.clone().with_settings(settings.with_max_output_tokens(20_000))
    };
    let plain = Settings::default();
    let mut requests = vec![
        ("hi", hi()),
        ("a conversation", few.clone()),
        ("no tools any more", conversation.clone()),
        ("30 tools", conversation.clone().with_tools(tools(30))),
        ("an answer", hi().with_output(Arc::clone(&answer))),
        ("an answer after tools", few.clone().with_output(answer)),
        ("no cache", set(&few, plain.clone().with_cache(false))),
        (
            "stop texts and user",
            set(&few, plain.clone().with_stop(vec!["END".to_owned()]).with_user("u".to_owned())),
        ),
        ("service tier", set(&few, plain.clone().with_extra("anthropic", "service_tier", "auto"))),
        ("one call", set(&few, plain.clone().with_parallel_calls(false))),
    ];
    for choice in [ToolChoice::None, ToolChoice::Required, ToolChoice::Tool("look".to_owned())] {
        requests.push(("a choice", few.clone().with_tool_choice(choice)));
    }
    for effort in
        [Effort::Off, Effort::Minimal, Effort::Low, Effort::Medium, Effort::High, Effort::Max]
    {
        requests.push(("an effort", set(&few, plain.clone().with_effort(effort))));
        requests.push((
            "an effort, few tokens",
            few.clone().with_settings(plain.clone().with_effort(effort)),
        ));
    }
    requests
}

#[tokio::test]
#[ignore = "needs the contract server: set CONTRACT_SERVER to its path"]
async fn every_feature_is_as_the_api_describes_it() {
    let report = env::temp_dir().join(format!("toolwright-anthropic-{}.jsonl", std::process::id()));
    let (_running, url) = server(report.to_str().unwrap());
    let names =
        ["claude-haiku-4-5", "claude-sonnet-4-0", "claude-opus-4-6", "claude-opus-5-5", "smollm2"];
    let mut sent = 0;
    for name in names {
        for version in [ApiVersion::V2023_06_01, ApiVersion::V2026_10_21] {
            let model = Anthropic::at(&url, name)
                .unwrap()
                .with_connection(|c| Ok(c.with_retries(0)))
                .unwrap();
            let model = model.with_key("sk-made-up").unwrap().with_version(version).unwrap();
            let search =
                json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 2});
            let full = model
                .clone()
                .with_cache_time(CacheTime::Hour)
                .with_citations(true)
                .with_server_tool(search)
                .with_server_tool(json!({"type": "web_fetch_20250910", "name": "web_fetch"}))
                .with_server_tool(json!({"type": "code_execution_20250825", "name": "code_execution"}))
                .with_server_tool(json!({"type": "memory_20250818", "name": "memory"}))
                .with_server_tool(json!({"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}))
                .with_tool_field("look", "defer_loading", true)
                .with_beta("context-management-2025-06-27")
                .unwrap();
            for model in [model, full] {
                for (what, request) in requests() {
                    let whole = model.generate(&request).await;
                    let reply =
                        whole.unwrap_or_else(|error| panic!("{name} {version} {what}: {error:#}"));
                    let (_, stream) = streamed(&model, request).await;
                    assert_eq!(stream.unwrap().parts, reply.parts);
                    sent += 2;
                }
            }
            // Only old models in the old version have a temperature.
            let warm = hi().with_settings(Settings::default().with_temperature(0.5));
            let has_it = version == ApiVersion::V2023_06_01 && name != "claude-opus-5-5";
            let model = Anthropic::at(&url, name).unwrap().with_key("sk-made-up").unwrap();
            let model = model.with_version(version).unwrap();
            assert_eq!(model.generate(&warm).await.is_ok(), has_it, "{name} {version}");
            sent += usize::from(has_it);
        }
    }
    let report = std::fs::read_to_string(report).unwrap();
    let lines: Vec<serde_json::Value> =
        report.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let warnings: std::collections::BTreeSet<_> = lines
        .iter()
        .flat_map(|line| line["violations"].as_array().unwrap())
        .map(|fault| format!("{} {}", fault["level"], fault["rule"]))
        .collect();
    println!("{sent} requests, {} in the report: {warnings:?}", lines.len());
    assert_eq!(lines.len(), sent);
}
