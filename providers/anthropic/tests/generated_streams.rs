//! Generated streams; see `providers/tests/streams.rs`.
//!
//! It is compiled into the library's tests, because streams without a socket are not public.

#[path = "../../tests/streams.rs"]
mod streams;

use serde_json::{Value, json};
use toolwright_module::{Message, Request};

use self::streams::{
    Api, Call, Chance, Meant, Mixed, cut, interleaved, mix, numbers, piece, play, read_with, wire,
};
use crate::stream::Pieces;

#[test]
fn generated_streams_mean_what_was_written() {
    play(&Api {
        recorded: "",
        written: |meant, chance| {
            let events = stream(meant, chance);
            wire(&events, false, chance)
        },
        mixed,
        read: |chunks| {
            let request = Request::new([Message::user("Hi!")]);
            read_with(Pieces::new(&request), chunks)
        },
    });
}

fn delta(index: usize, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

/// Generates the stream of a reply.
fn stream(meant: &mut Meant, chance: &mut Chance) -> Vec<Value> {
    let mut blocks = Vec::new();
    if !meant.thoughts.is_empty() {
        blocks.push(thinking(blocks.len(), &meant.thoughts, chance));
    }
    // One text may be in several blocks.
    let at = meant.text.floor_char_boundary(chance.below(meant.text.len() + 1));
    let is_split = chance.one_in(3);
    let (first, second) = meant.text.split_at(if is_split { at } else { 0 });
    for part in [first, second].into_iter().filter(|part| !part.is_empty()) {
        blocks.push(text(blocks.len(), part, chance));
    }
    let (texts, count) = (blocks.len(), meant.calls.len());
    for (at, call) in meant.calls.iter_mut().enumerate() {
        let may_lack_end = at + 1 == count && (!meant.is_complete || chance.one_in(4));
        blocks.push(called(texts + at, call, may_lack_end, chance));
    }
    let start = json!({"type": "message_start", "message": {
        "type": "message", "role": "assistant", "model": "m", "content": [],
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }});
    let mut events = vec![start];
    // Blocks follow each other, but each piece names its block. Two parts of one text keep their order.
    match chance.one_in(4) && texts < 2 {
        true => events.extend(interleaved(blocks, chance)),
        false => events.extend(blocks.into_iter().flatten()),
    }
    events.extend(ends(meant, chance));
    if chance.one_in(4) {
        let at = chance.below(events.len());
        events.insert(at, json!({"type": "ping"}));
    }
    events
}

/// Generates the events after the last block.
fn ends(meant: &mut Meant, chance: &mut Chance) -> Vec<Value> {
    let bad = [
        json!("max_tokens"),
        json!("model_context_window_exceeded"),
        json!("pause_turn"),
        json!("compaction"),
        json!("refusal"),
        json!("malformed_tool_use"),
        json!("new_reason"),
        Value::Null,
    ];
    let word = match meant.is_complete {
        // A stop sequence may end a call anywhere.
        true if chance.one_in(6) => {
            meant.cut_calls();
            json!("stop_sequence")
        }
        true if meant.calls.is_empty() => json!("end_turn"),
        true => json!(chance.pick(&["end_turn", "tool_use"])),
        false => match chance.pick(&bad).clone() {
            // Without content, this word is the error of a conversation that is too long.
            word if word == bad[1] && meant.text.trim().is_empty() && meant.calls.is_empty() => {
                json!("max_tokens")
            }
            word => word,
        },
    };
    let end = |word: &Value| json!({"type": "message_delta", "delta": {"stop_reason": word, "stop_sequence": null}, "usage": {"output_tokens": 4}});
    let mut events = vec![end(&word)];
    // A gateway may add its own.
    if !word.is_null() && chance.one_in(6) {
        events.push(end(&json!("end_turn")));
    }
    events.push(json!({"type": "message_stop"}));
    events
}

fn begins(index: usize, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn stops(index: usize) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn thinking(index: usize, thoughts: &str, chance: &mut Chance) -> Vec<Value> {
    let mut events =
        vec![begins(index, json!({"type": "thinking", "thinking": "", "signature": ""}))];
    events.extend(
        cut(thoughts, chance)
            .into_iter()
            .map(|piece| delta(index, json!({"type": "thinking_delta", "thinking": piece}))),
    );
    events.push(delta(index, json!({"type": "signature_delta", "signature": "c2ln"})));
    events.push(stops(index));
    events
}

fn text(index: usize, text: &str, chance: &mut Chance) -> Vec<Value> {
    let mut pieces = cut(text, chance);
    // Some servers begin a block with its text, or send pieces of a block that never began.
    let begun = if chance.one_in(4) { pieces.remove(0) } else { String::new() };
    let mut events = Vec::new();
    if !begun.is_empty() || !chance.one_in(8) {
        events.push(begins(index, json!({"type": "text", "text": begun})));
    }
    events.extend(
        pieces.into_iter().map(|piece| delta(index, json!({"type": "text_delta", "text": piece}))),
    );
    if !chance.one_in(4) {
        events.push(stops(index));
    }
    events
}

/// Generates the events of a call, and says whether it may lack its end.
fn called(index: usize, call: &mut Call, may_lack_end: bool, chance: &mut Chance) -> Vec<Value> {
    let block = |input: Value| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input});
    let value = serde_json::from_str::<Value>(&call.arguments).ok();
    let value = value.filter(|value| format!("{value}") == call.arguments);
    let pieces = |text: &str, chance: &mut Chance| -> Vec<Value> {
        let pieces = cut(text, chance).into_iter();
        pieces
            .map(|it| delta(index, json!({"type": "input_json_delta", "partial_json": it})))
            .collect()
    };
    let mut events = Vec::new();
    match value.filter(|value| value != &json!({}) && chance.one_in(4)) {
        // Some servers begin a call with the whole input, and repeat it or `{}`.
        Some(value) => {
            events.push(begins(index, block(value)));
            match chance.below(4) {
                0 => events.extend(pieces(&call.arguments, chance)),
                1 => events.extend(pieces("{}", chance)),
                // Other input is not known to be whole.
                2 => {
                    call.arguments = r#"{"other": 1}"#.to_owned();
                    call.is_cut = true;
                    events.extend(pieces(&call.arguments, chance));
                }
                _ => {}
            }
        }
        // The API begins a call with `{}`.
        None => {
            events.push(begins(index, block(json!({}))));
            let has_piece = call.arguments != "{}" || chance.one_in(2);
            if chance.one_in(3) {
                events.push(delta(index, json!({"type": "input_json_delta", "partial_json": ""})));
            }
            if has_piece {
                events.extend(pieces(&call.arguments, chance));
            }
            if may_lack_end && chance.one_in(2) {
                // Without a piece or an end, the model may not have written its input.
                call.is_cut = !has_piece || call.arguments.is_empty();
                return events;
            }
        }
    }
    events.push(stops(index));
    events
}

/// Generates events of blocks that contradict each other.
fn mixed(chance: &mut Chance) -> Mixed {
    let mut events = Vec::new();
    for number in 0..1 + chance.below(24) {
        let index = chance.pick(&[json!(0), json!(1), json!(2), json!("1"), Value::Null]).clone();
        let id = chance.pick(&[json!("a"), json!("b"), json!(""), Value::Null]).clone();
        let name = chance.pick(&[json!("look"), json!("tidy"), json!("look")]).clone();
        let mut event = match chance.below(8) {
            0 => begins(0, json!({"type": "text", "text": ""})),
            1 => begins(0, json!({"type": "tool_use", "id": id, "name": name, "input": {}})),
            2 => begins(0, json!({"type": "thinking", "thinking": ""})),
            3 => stops(0),
            4 | 5 => delta(0, json!({"type": "input_json_delta", "partial_json": piece(number)})),
            6 => delta(0, json!({"type": "thinking_delta", "thinking": "b"})),
            _ => delta(0, json!({"type": "text_delta", "text": piece(number)})),
        };
        event["index"] = index;
        events.push(event);
    }
    mix(&mut events, chance);
    let (mut text, mut arguments) = (Vec::new(), Vec::new());
    for event in &events {
        text.extend(event["delta"]["text"].as_str().into_iter().flat_map(numbers));
        arguments.extend(event["delta"]["partial_json"].as_str().into_iter().flat_map(numbers));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}));
    events.push(json!({"type": "message_stop"}));
    Mixed { bytes: wire(&events, false, chance), text, arguments }
}
