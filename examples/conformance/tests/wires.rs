//! The form of a reply in each API, and the calls and results in a body.

use serde_json::{Value, json};
use toolwright_conformance::Wire;

/// A piece of a reply.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    Text(String),
    /// Reasoning. The marks of its values are those of the provider.
    Reasoning {
        text: String,
        value: String,
    },
    Call {
        id: String,
        name: String,
        arguments: String,
        value: String,
    },
    /// A part that only the provider understands.
    Other {
        value: String,
    },
}

/// Returns a whole reply with these pieces. `number` makes ids unique.
pub(crate) fn reply(wire: Wire, number: usize, pieces: &[Piece]) -> Value {
    match wire {
        Wire::OpenAiChat => chat(pieces),
        Wire::OpenAiResponses => responses(number, pieces),
        Wire::Anthropic => anthropic(number, pieces),
        Wire::Gemini => gemini(pieces),
    }
}

fn chat(pieces: &[Piece]) -> Value {
    let mut message = json!({"role": "assistant", "content": null});
    let (mut text, mut reasoning, mut calls) = (String::new(), String::new(), Vec::new());
    for piece in pieces {
        match piece {
            Piece::Text(piece) => text += piece,
            Piece::Reasoning { text, .. } => reasoning += text,
            Piece::Call { id, name, arguments, .. } => calls.push(json!({
                "id": id, "type": "function", "function": {"name": name, "arguments": arguments},
            })),
            Piece::Other { .. } => {}
        }
    }
    if !text.is_empty() || calls.is_empty() {
        message["content"] = text.into();
    }
    if !reasoning.is_empty() {
        message["reasoning_content"] = reasoning.into();
    }
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    })
}

fn responses(number: usize, pieces: &[Piece]) -> Value {
    let output = pieces.iter().enumerate().map(|(at, piece)| match piece {
        Piece::Text(text) => json!({
            "type": "message", "id": format!("msg_{number}_{at}"), "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
        Piece::Reasoning { text, value } => json!({
            "type": "reasoning", "id": format!("rs_{number}_{at}"),
            "summary": [{"type": "summary_text", "text": text}], "encrypted_content": value,
        }),
        Piece::Call { id, name, arguments, .. } => json!({
            "type": "function_call", "id": format!("fc_{number}_{at}"), "call_id": id,
            "name": name, "arguments": arguments, "status": "completed",
        }),
        Piece::Other { value } => json!({
            "type": "web_search_call", "id": format!("ws_{number}_{at}"), "status": "completed",
            "action": {"type": "search", "query": value},
        }),
    });
    json!({
        "id": format!("resp_{number}"), "object": "response", "created_at": 1, "model": "m",
        "status": "completed", "output": output.collect::<Vec<_>>(),
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    })
}

fn anthropic(number: usize, pieces: &[Piece]) -> Value {
    let mut content = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Text(text) => content.push(json!({"type": "text", "text": text})),
            Piece::Reasoning { text, value } if at % 2 == 0 => {
                content.push(json!({"type": "thinking", "thinking": text, "signature": value}))
            }
            Piece::Reasoning { text, value } => {
                content.push(json!({"type": "redacted_thinking", "data": format!("{text}{value}")}))
            }
            Piece::Call { id, name, arguments, .. } => content.push(json!({
                "type": "tool_use", "id": id, "name": name, "input": object(arguments),
            })),
            Piece::Other { value } => {
                let id = format!("srvtoolu_{number}_{at}");
                content.push(json!({
                    "type": "server_tool_use", "id": id, "name": "web_search",
                    "input": {"query": value},
                }));
                content.push(json!({
                    "type": "web_search_tool_result", "tool_use_id": id, "content": [],
                }));
            }
        }
    }
    let has_calls = pieces.iter().any(|piece| matches!(piece, Piece::Call { .. }));
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": if has_calls { "tool_use" } else { "end_turn" }, "stop_sequence": null,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    })
}

fn gemini(pieces: &[Piece]) -> Value {
    let parts = pieces.iter().map(|piece| match piece {
        Piece::Text(text) => json!({"text": text}),
        // The text of a thought need not go back, but the signature must.
        Piece::Reasoning { value, .. } => {
            json!({"text": "I think.", "thought": true, "thoughtSignature": value})
        }
        Piece::Call { id, name, arguments, value } => json!({
            "functionCall": {"id": id, "name": name, "args": object(arguments)},
            "thoughtSignature": value,
        }),
        Piece::Other { value } => {
            json!({"executableCode": {"language": "PYTHON", "code": value}})
        }
    });
    json!({
        "candidates": [{"index": 0, "finishReason": "STOP",
            "content": {"role": "model", "parts": parts.collect::<Vec<_>>()}}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        "modelVersion": "m",
    })
}

/// Returns arguments as an object, for an API whose arguments are one.
fn object(arguments: &str) -> Value {
    let value = serde_json::from_str(arguments).ok();
    value.filter(Value::is_object).unwrap_or_else(|| json!({"text": arguments}))
}

/// A call or a result in a body: its id, which some APIs may leave out, and the value with its mark.
pub(crate) struct Paired<'a> {
    pub(crate) id: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    pub(crate) value: &'a Value,
}

/// Returns the calls and the results of a body.
pub(crate) fn pairs(wire: Wire, body: &Value) -> (Vec<Paired<'_>>, Vec<Paired<'_>>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    match wire {
        Wire::OpenAiChat => {
            for message in each(&body["messages"]) {
                for call in each(&message["tool_calls"]) {
                    calls.push(Paired {
                        id: call["id"].as_str(),
                        name: call["function"]["name"].as_str(),
                        value: call,
                    });
                }
                if message["role"] == "tool" {
                    results.push(Paired {
                        id: message["tool_call_id"].as_str(),
                        name: None,
                        value: message,
                    });
                }
            }
        }
        Wire::OpenAiResponses => {
            for item in each(&body["input"]) {
                let paired = Paired {
                    id: item["call_id"].as_str(),
                    name: item["name"].as_str(),
                    value: item,
                };
                match item["type"].as_str() {
                    Some("function_call") => calls.push(paired),
                    Some("function_call_output") => results.push(paired),
                    _ => {}
                }
            }
        }
        Wire::Anthropic => {
            for block in each(&body["messages"]).flat_map(|message| each(&message["content"])) {
                match block["type"].as_str() {
                    Some("tool_use") => {
                        calls.push(Paired {
                            id: block["id"].as_str(),
                            name: block["name"].as_str(),
                            value: block,
                        });
                    }
                    Some("tool_result") => {
                        results.push(Paired {
                            id: block["tool_use_id"].as_str(),
                            name: None,
                            value: block,
                        });
                    }
                    _ => {}
                }
            }
        }
        Wire::Gemini => {
            for part in each(&body["contents"]).flat_map(|content| each(&content["parts"])) {
                let (call, result) = (&part["functionCall"], &part["functionResponse"]);
                if call.is_object() {
                    calls.push(Paired {
                        id: call["id"].as_str(),
                        name: call["name"].as_str(),
                        value: call,
                    });
                }
                if result.is_object() {
                    results.push(Paired {
                        id: result["id"].as_str(),
                        name: result["name"].as_str(),
                        value: result,
                    });
                }
            }
        }
    }
    (calls, results)
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Returns whether an API accepts an id of a call.
pub(crate) fn accepts(wire: Wire, id: &str) -> bool {
    let most = match wire {
        Wire::OpenAiChat => 40,
        Wire::OpenAiResponses | Wire::Anthropic | Wire::Gemini => 64,
    };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !id.is_empty() && id.len() <= most && id.bytes().all(fits)
}

/// Returns whether an API accepts the name of a called tool, which the model may have made up.
pub(crate) fn accepts_name(wire: Wire, name: &str) -> bool {
    let (most, more) = match wire {
        Wire::OpenAiChat | Wire::OpenAiResponses => (64, "_-"),
        Wire::Anthropic => (128, "_-"),
        Wire::Gemini => (128, "_-.:"),
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
    (1..=most).contains(&name.len()) && name.chars().all(fits)
}

/// Returns whether everything of the provider goes back to it. Servers with Chat Completions differ
/// in the reasoning that they want back.
pub(crate) fn keeps(wire: Wire) -> bool {
    wire != Wire::OpenAiChat
}

/// Returns whether the calls and texts of a message keep their order. Chat Completions has one text
/// and a list of calls.
pub(crate) fn mixes(wire: Wire) -> bool {
    wire != Wire::OpenAiChat
}

/// Checks the rules of an API about turns, and that no message of the model is empty.
pub(crate) fn check_turns(wire: Wire, body: &Value) {
    let (turns, content) = match wire {
        Wire::OpenAiResponses => (&body["input"], "content"),
        Wire::Gemini => (&body["contents"], "parts"),
        Wire::OpenAiChat | Wire::Anthropic => (&body["messages"], "content"),
    };
    let turns: Vec<_> = each(turns).collect();
    for turn in &turns {
        let is_model = ["assistant", "model"].iter().any(|role| turn["role"] == *role);
        let is_empty = match &turn[content] {
            // OpenAI accepts an empty text.
            Value::String(text) => text.is_empty() && wire == Wire::Anthropic,
            Value::Array(parts) => parts.is_empty(),
            _ => each(&turn["tool_calls"]).next().is_none(),
        };
        assert!(!is_model || !is_empty, "an empty message: {body}");
    }
    if matches!(wire, Wire::Anthropic | Wire::Gemini) {
        assert_eq!(turns.first().map(|turn| &turn["role"]), Some(&json!("user")), "{body}");
        for pair in turns.windows(2) {
            // Gemini takes a message of the user after the results of calls.
            let may_repeat = wire == Wire::Gemini && pair[0]["role"] == "user";
            let repeats = pair[0]["role"] == pair[1]["role"];
            assert!(!repeats || may_repeat, "two turns of one role: {body}");
        }
    }
}
