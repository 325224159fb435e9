//! Generated streams of both APIs; see `providers/tests/streams.rs`.
//!
//! It is compiled into the library's tests, because streams without a socket are not public.

#[path = "../../tests/streams.rs"]
mod streams;

use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_module::model::Settings;
use toolwright_module::{Contract, Message, Request};

use self::streams::{
    Api, Call, Chance, Meant, Mixed, Read, cut, interleaved, mix, numbers, piece, play, read_with,
    wire,
};
use crate::{chat, responses};

#[test]
fn generated_streams_of_chat_completions_mean_what_was_written() {
    play(&Api {
        recorded: "chat",
        written: |meant, chance| {
            let events = chat_stream(meant, chance);
            wire(&events, true, chance)
        },
        mixed: |chance| mixed(true, chance),
        read: |chunks| read_with(chat::Pieces::new(&asked(), &"openai-chat".into()), chunks),
    });
}

#[test]
fn generated_streams_of_responses_mean_what_was_written() {
    play(&Api {
        recorded: "responses",
        written: |meant, chance| {
            let events = responses_stream(meant, chance);
            let ends = chance.one_in(2);
            wire(&events, ends, chance)
        },
        mixed: |chance| mixed(false, chance),
        read: |chunks| -> Read {
            let rules = crate::rules::Rules::of_model("m");
            read_with(responses::Pieces::new(responses::RequestInfo::of(&asked(), &rules)), chunks)
        },
    });
}

thread_local! {
    /// The tool `look` has a field, and `tidy` has none.
    static ASKED: Request = {
        let fields = json!({"place": {"type": "string"}});
        let tool = |name: &str, fields: Value| {
            let input = json!({"type": "object", "properties": fields});
            Arc::new(Contract::dynamic(name, "A tool.", input, None).unwrap())
        };
        Request::new([Message::user("Hi!")])
            .with_tools([tool("look", fields), tool("tidy", json!({}))])
            .with_settings(Settings::default().with_max_output_tokens(1 << 40))
    };
}

fn asked() -> Request {
    ASKED.with(Clone::clone)
}

/// Returns the content of a reply whose server leaves the thoughts before the text.
fn with_thoughts(meant: &Meant, chance: &mut Chance) -> String {
    let Meant { thoughts, text, .. } = meant;
    if thoughts.is_empty() {
        return text.clone();
    }
    let (open, close) = *chance.pick(&[
        ("<think>", "</think>"),
        ("\n<think>\n", "\n</think>\n\n"),
        ("[THINK]", "[/THINK]"),
    ]);
    // Thoughts that the model did not end, or that it began twice.
    match chance.below(4) {
        0 if text.is_empty() => format!("{open}{thoughts}"),
        1 => {
            let at = thoughts.find(' ').map_or(thoughts.len(), |at| at + 1);
            let (first, second) = thoughts.split_at(at);
            // The white space around thoughts is not part of them.
            match first.ends_with(' ') || second.is_empty() {
                true => format!("{open}{thoughts}{close}{text}"),
                false => format!("{open}{first}{close}{open}{second}{close}{text}"),
            }
        }
        _ => format!("{open}{thoughts}{close}{text}"),
    }
}

/// Generates a stream of Chat Completions.
fn chat_stream(meant: &mut Meant, chance: &mut Chance) -> Vec<Value> {
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    let field = *chance.pick(&["content", "reasoning_content", "reasoning"]);
    let content = match field {
        "content" => with_thoughts(meant, chance),
        _ => meant.text.clone(),
    };
    let mut said = Vec::new();
    if field != "content" {
        said.extend(cut(&meant.thoughts, chance).into_iter().map(|it| delta(json!({field: it}))));
    }
    said.extend(cut(&content, chance).into_iter().map(|it| delta(json!({"content": it}))));
    let mut sequences = vec![said];
    for (index, call) in meant.calls.iter().enumerate() {
        let begin = json!({"index": index, "id": call.id, "type": "function", "function": {"name": call.name}});
        let mut events = vec![delta(json!({"tool_calls": [begin]}))];
        let value = serde_json::from_str::<Value>(&call.arguments).ok();
        // Some servers send arguments as a value and not as a string.
        let value = value.filter(|value| format!("{value}") == call.arguments);
        if let Some(value) = value.filter(|_| chance.one_in(3)) {
            let piece = json!({"index": index, "function": {"arguments": value}});
            events.push(delta(json!({"tool_calls": [piece]})));
        } else {
            for piece in cut(&call.arguments, chance) {
                let mut piece = json!({"index": index, "function": {"arguments": piece}});
                if chance.one_in(4) {
                    piece["id"] = json!(call.id);
                }
                if chance.one_in(9) {
                    piece["function"]["name"] = Value::Null;
                }
                events.push(delta(json!({"tool_calls": [piece]})));
            }
        }
        sequences.push(events);
    }
    let mut events = interleaved(sequences, chance);
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}});
    // The finish reason and the usage may be anywhere; events after them still count.
    for event in chat_end(meant, chance).into_iter().chain([usage]) {
        // What is undecided at the finish reason is text.
        let is_early = chance.one_in(3) && (content == meant.text && !content.contains('<'));
        let at = if is_early { chance.below(events.len() + 1) } else { events.len() };
        meant.ends_last &= at == events.len() || event["usage"].is_object();
        events.insert(at, event);
    }
    // The pieces of another choice are not part of the reply. It would be one if it were the only.
    let is_chosen = events.first().is_some_and(|event| event["choices"][0].is_object());
    if is_chosen && chance.one_in(3) {
        let other = json!({"index": 1, "delta": {"content": "no", "tool_calls": [{"index": 0, "id": "x", "function": {"name": "x", "arguments": "{}"}}]}, "finish_reason": "stop"});
        for _ in 0..=chance.below(3) {
            let at = 1 + chance.below(events.len());
            match events.get_mut(at).and_then(|event| event["choices"].as_array_mut()) {
                Some(choices) if chance.one_in(2) => choices.insert(0, other.clone()),
                _ => events.insert(at, json!({"choices": [other]})),
            }
        }
    }
    events
}

/// Generates the events with the finish reason.
fn chat_end(meant: &mut Meant, chance: &mut Chance) -> Vec<Value> {
    let finish =
        |word: &str| json!({"choices": [{"index": 0, "delta": {}, "finish_reason": word}]});
    let is_called = !meant.calls.is_empty();
    if !meant.is_complete {
        let bad = [
            "length",
            "max_tokens",
            "model_length",
            "content_filter",
            "refusal",
            "network_error",
            "sensitive",
            "repetition_truncation",
            "insufficient_system_resource",
            "MALFORMED_FUNCTION_CALL",
            "function_call_filter: UNEXPECTED_TOOL_CALL",
            "new_reason",
        ];
        let mut events = vec![finish(chance.pick::<&str>(&bad))];
        // A gateway may add its own.
        events.extend(chance.one_in(4).then(|| finish("stop")));
        return events;
    }
    let is_object = |call: &Call| call.arguments.trim_start().starts_with(['{', '[']);
    match chance.below(8) {
        // A stop sequence may end a call anywhere.
        0 => {
            meant.cut_calls();
            vec![finish("stop_sequence")]
        }
        // The word of the model's server, behind a gateway.
        1 => {
            meant.cut_calls();
            let own = ["MAX_TOKENS", "length", "MALFORMED_FUNCTION_CALL", "stop_sequence"];
            let mut event = finish(if is_called { "tool_calls" } else { "stop" });
            event["choices"][0]["native_finish_reason"] = json!(chance.pick(&own));
            vec![event]
        }
        // Only `[DONE]` ends the reply, and only the arguments show the end of a call.
        2 if meant.calls.iter().all(|call| is_object(call) || call.arguments.is_empty()) => {
            meant.calls.iter_mut().for_each(|call| call.is_cut = !is_object(call));
            Vec::new()
        }
        3 if is_called => vec![finish(chance.pick::<&str>(&["tool_calls", "tool_use"]))],
        4 => vec![finish("stop"), finish("stop")],
        _ => vec![finish(chance.pick::<&str>(&["stop", "eos", "end_turn", "completed"]))],
    }
}

/// Generates a stream of Responses.
fn responses_stream(meant: &mut Meant, chance: &mut Chance) -> Vec<Value> {
    // How events refer to the call: by item and index, item, index, or index and a new id.
    let naming = chance.below(4);
    // Which events have the arguments: all of them, or one kind.
    let place = chance.below(7);
    let has = |wanted: usize| place == 0 || place == wanted || place == 6 && wanted < 3;
    let mut sequences = Vec::new();
    let (item, at) = (json!("msg_1"), meant.calls.len());
    let is_item = chance.one_in(2);
    let content = if is_item { meant.text.clone() } else { with_thoughts(meant, chance) };
    let thoughts = is_item && !meant.thoughts.is_empty();
    // ChatGPT's own endpoint ends with an empty output.
    let is_empty = (place < 4 || place == 6) && chance.one_in(2);
    let mut output = Vec::new();
    let mut ended = Vec::new();
    for (index, call) in meant.calls.iter().enumerate() {
        let item_id = format!("fc_{index}");
        let item = |arguments: &str| json!({"type": "function_call", "id": item_id, "call_id": call.id, "name": call.name, "arguments": arguments});
        let name = |mut event: Value, chance: &mut Chance| {
            if naming != 1 {
                event["output_index"] = json!(index);
            }
            match naming {
                0 | 1 => event["item_id"] = json!(item_id),
                3 => event["item_id"] = json!(format!("made_up_{}", chance.next())),
                _ => {}
            }
            event
        };
        let mut events = vec![
            json!({"type": "response.output_item.added", "output_index": index, "item": item("")}),
        ];
        if has(1) {
            for piece in cut(&call.arguments, chance) {
                let event =
                    json!({"type": "response.function_call_arguments.delta", "delta": piece});
                events.push(name(event, chance));
            }
        }
        if has(2) {
            let event = json!({"type": "response.function_call_arguments.done", "arguments": call.arguments});
            events.push(name(event, chance));
        }
        let whole = if has(3) { call.arguments.as_str() } else { "" };
        let is_done = has(3) || chance.one_in(2);
        if is_done {
            let mut event = json!({"type": "response.output_item.done", "item": item(whole)});
            event["output_index"] = json!(index);
            events.push(event);
        }
        ended.push(has(2) || is_done);
        output.push(item(if has(4) || has(5) { call.arguments.as_str() } else { "" }));
        sequences.push(events);
    }
    for (call, has_ended) in meant.calls.iter_mut().zip(ended) {
        // The tool has a field, so nothing is a call without an end.
        let is_begun =
            call.arguments.is_empty() || call.arguments == "{}" && is_empty && !has_ended;
        call.is_cut = call.name == "look" && is_begun;
    }
    let message = json!({"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": content}]});
    if !content.is_empty() {
        let mut events: Vec<Value> = Vec::new();
        if !chance.one_in(4) {
            events.extend(cut(&content, chance).into_iter().map(|piece| {
                json!({"type": "response.output_text.delta", "item_id": item, "output_index": at, "content_index": 0, "delta": piece})
            }));
        }
        events.push(json!({"type": "response.output_text.done", "item_id": item, "output_index": at, "content_index": 0, "text": content}));
        sequences.push(events);
        output.push(message);
    }
    if thoughts {
        let item = json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": meant.thoughts}]});
        let mut events: Vec<Value> = Vec::new();
        if chance.one_in(2) {
            events.extend(cut(&meant.thoughts, chance).into_iter().map(|piece| {
                json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": at + 1, "delta": piece})
            }));
        }
        events.push(
            json!({"type": "response.output_item.done", "output_index": at + 1, "item": item}),
        );
        sequences.push(events);
        output.push(item);
    }
    let mut events = interleaved(sequences, chance);
    if is_empty {
        output.clear();
    }
    let mut response =
        json!({"status": "completed", "usage": {"input_tokens": 3, "output_tokens": 4}});
    if !meant.is_complete {
        let reasons = ["max_output_tokens", "content_filter", "new_reason"];
        let details = json!({"reason": chance.pick(&reasons)});
        match chance.below(3) {
            // Only the item, or the details, say that it was cut off.
            0 if !output.is_empty() && output.iter().any(|item| item["type"] != "reasoning") => {
                let items: Vec<_> =
                    output.iter_mut().filter(|item| item["type"] != "reasoning").collect();
                let last = items.into_iter().next_back().unwrap();
                last["status"] = json!(chance.pick(&["incomplete", "in_progress"]));
            }
            1 => response["incomplete_details"] = details,
            _ => {
                response["status"] = json!("incomplete");
                response["incomplete_details"] = details;
            }
        }
    }
    response["output"] = json!(output);
    let kind = format!("response.{}", response["status"].as_str().unwrap());
    events.push(json!({"type": kind, "response": response}));
    events
}

/// Generates events of calls and texts that contradict each other.
fn mixed(is_chat: bool, chance: &mut Chance) -> Mixed {
    let mut events = Vec::new();
    for _ in 0..1 + chance.below(24) {
        let number = events.len();
        let index = chance
            .pick(&[json!(0), json!(1), json!(2), json!("1"), Value::Null, json!(-1)])
            .clone();
        let id = chance.pick(&[json!("a"), json!("b"), json!(""), Value::Null, json!(7)]).clone();
        let name = chance.pick(&[json!("look"), json!("tidy"), json!(""), Value::Null]).clone();
        let event = match (is_chat, chance.below(5)) {
            (true, 0) => json!({"choices": [{"index": 0, "delta": {"content": piece(number)}}]}),
            (true, 1) => {
                json!({"choices": [{"index": 0, "delta": {"function_call": {"name": name, "arguments": piece(number)}}, "finish_reason": Value::Null}]})
            }
            (true, 2) => {
                json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})
            }
            (true, _) => {
                json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": piece(number)}}]}}]})
            }
            (false, 0) => json!({"type": "response.output_text.delta", "delta": piece(number)}),
            (false, 1) => {
                json!({"type": "response.output_item.added", "output_index": index, "item": {"type": "function_call", "id": id, "call_id": format!("call_{number}"), "name": name, "arguments": ""}})
            }
            (false, _) => {
                json!({"type": "response.function_call_arguments.delta", "item_id": id, "output_index": index, "delta": piece(number)})
            }
        };
        events.push(event);
    }
    mix(&mut events, chance);
    let (mut text, mut arguments) = (Vec::new(), Vec::new());
    for event in &events {
        let said = &event["choices"][0]["delta"];
        text.extend(said["content"].as_str().into_iter().flat_map(numbers));
        let delta = event["delta"].as_str().unwrap_or_default();
        let is_text = event["type"] == "response.output_text.delta";
        if is_text { &mut text } else { &mut arguments }.extend(numbers(delta));
        let pieces = [
            said["function_call"]["arguments"].as_str(),
            said["tool_calls"][0]["function"]["arguments"].as_str(),
        ];
        arguments.extend(pieces.into_iter().flatten().flat_map(numbers));
    }
    events.push(match is_chat {
        true => json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
        false => json!({"type": "response.completed", "response": {"status": "completed"}}),
    });
    Mixed { bytes: wire(&events, true, chance), text, arguments }
}
