//! Tests with generated streams of both APIs, read without a socket.
//!
//! There are three kinds:
//!
//! - streams for a known reply, in the many forms that servers use: they are read as that reply;
//! - streams whose events are dropped, repeated, moved and renamed: no piece is lost, changed or
//!   doubled;
//! - arbitrary bytes: the result does not depend on where they are cut.
//!
//! A run plays 2000 streams. For more:
//!
//! `FUZZ_RUNS=10000000 cargo test --release -p toolwright-openai --no-default-features --lib generated_streams`

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;
use toolwright_module::model::Settings;

use serde_json::{Value, json};
use toolwright_module::message::ReplyPart;
use toolwright_module::model::Delta;
use toolwright_module::{Message, Reply, Request};

use crate::{chat, responses};
use toolwright_module::provider::ProviderError;
use toolwright_module::provider::{Decoder, Reader};

/// A random number generator (SplitMix64). Each stream has its own seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % most.max(1) as u64).unwrap()
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

fn asked() -> Request {
    Request::new([Message::user("Hi!")])
        .with_settings(Settings::default().with_max_output_tokens(1 << 40))
}

/// The deltas and the result of a stream.
type Read = (Vec<Delta>, Result<Reply, ProviderError>);

fn read_with<D: Decoder>(decoder: D, chunks: impl Iterator<Item = Vec<u8>>) -> Read {
    let mut reader = Reader::new(decoder);
    let mut deltas = Vec::new();
    let mut drained = |reader: &mut Reader<D>| loop {
        match reader.next() {
            Ok(Some(delta)) => deltas.push(delta),
            Ok(None) => return Ok(()),
            Err(error) => return Err(error),
        }
    };
    for chunk in chunks {
        reader.push(chunk.into());
        if let Err(error) = drained(&mut reader) {
            return (deltas, Err(error));
        }
        if reader.is_over() {
            break;
        }
    }
    let ended = reader.end().and_then(|()| drained(&mut reader));
    let outcome = ended.and_then(|()| reader.finish());
    (deltas, outcome)
}

fn read(is_chat: bool, bytes: &[u8], chance: &mut Chance) -> Read {
    // The size of a chunk: from one byte to the whole stream.
    let most = *chance.pick(&[1, 2, 7, 64, 4096, 1 << 20]);
    let mut rest = bytes;
    let chunks = std::iter::from_fn(|| {
        let size = (1 + chance.below(most)).min(rest.len());
        let (chunk, more) = rest.split_at(size);
        rest = more;
        (!chunk.is_empty()).then(|| chunk.to_vec())
    });
    if is_chat {
        read_with(chat::Pieces::new(&asked(), &"openai-chat".into()), chunks)
    } else {
        read_with(
            responses::Pieces::new(responses::RequestInfo::of(
                &asked(),
                &crate::rules::Rules::of_model("m"),
            )),
            chunks,
        )
    }
}

fn shown((deltas, outcome): &Read) -> String {
    match outcome {
        Ok(reply) => format!("{deltas:?} {reply:?}"),
        Err(error) => format!("{deltas:?} {error:#}"),
    }
}

/// Writes events as bytes, with keep-alives and line ends of any form.
fn wire(events: &[Value], ends: bool, chance: &mut Chance) -> Vec<u8> {
    let end = *chance.pick(&["\n", "\n", "\r\n", "\r"]);
    let noise = chance.one_in(2);
    let mut text = String::new();
    if chance.one_in(8) {
        text.push('\u{feff}');
    }
    for event in events {
        if noise && chance.one_in(3) {
            let heartbeats = [": ping", "data:", "data: ", "event: keepalive", "id: 7", "retry: 5"];
            text += *chance.pick::<&str>(&heartbeats);
            text += end;
            text += end;
        }
        if let Some(kind) = event["type"].as_str() {
            text += &format!("event: {kind}{end}");
        }
        let event = event.to_string();
        // JSON may have a line end between any two tokens.
        match event.find(",\"") {
            Some(at) if noise && chance.one_in(5) => {
                text += &format!("data: {}{end}data:{}{end}{end}", &event[..=at], &event[at + 1..]);
            }
            _ => text += &format!("data: {event}{end}{end}"),
        }
    }
    if ends {
        text += "data: [DONE]";
        text += end;
        text += end;
    }
    text.into_bytes()
}

fn cut(text: &str, chance: &mut Chance) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for char in text.chars() {
        piece.push(char);
        if chance.one_in(4) {
            pieces.push(std::mem::take(&mut piece));
        }
    }
    pieces.push(piece);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

const TEXTS: [&str; 5] =
    ["", "It is well.", "ä\u{2028}\r\n\n\"data: x\"", "{\"a\": [1]}", "\u{1F600}\\u0041 end"];
const ARGUMENTS: [&str; 7] = [
    "{}",
    r#"{"place": "hall"}"#,
    r#"{"a":{"b":[1,2.0,12345678901234567890123]},"a":"x"}"#,
    r#"{"text":"ä \"quoted\" \\ \n } {"}"#,
    r#"["a", {"b": null}]"#,
    "not JSON at all",
    "",
];

/// A call of the known reply.
#[derive(Clone, Debug)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

/// Generates the text and the calls of a reply.
fn known_reply(chance: &mut Chance) -> (String, Vec<Call>) {
    let text = (*chance.pick(&TEXTS)).to_owned();
    let calls = (0..chance.below(4)).map(|n| Call {
        id: format!("call_{n}"),
        name: (*chance.pick(&["look", "tidy", "look"])).to_owned(),
        arguments: (*chance.pick(&ARGUMENTS)).to_owned(),
    });
    (text, calls.collect())
}

/// Merges sequences in random order. The order within each sequence stays.
fn interleaved(mut of: Vec<Vec<Value>>, chance: &mut Chance) -> Vec<Value> {
    let mut all = Vec::new();
    of.iter_mut().for_each(|events| events.reverse());
    while !of.is_empty() {
        let at = chance.below(of.len());
        match of[at].pop() {
            Some(event) => all.push(event),
            None => drop(of.remove(at)),
        }
    }
    all
}

/// Generates a stream of Chat Completions for a text and calls.
fn chat_stream(text: &str, calls: &[Call], is_cut: bool, chance: &mut Chance) -> Vec<Value> {
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    let mut sequences =
        vec![cut(text, chance).into_iter().map(|piece| delta(json!({"content": piece}))).collect()];
    for (index, call) in calls.iter().enumerate() {
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
    // The finish reason and the usage may be anywhere; events after them still count.
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}});
    let bad = ["length", "network_error", "sensitive", "repetition_truncation", "new_reason"];
    let word = if is_cut { *chance.pick(&bad) } else { "stop" };
    let finish = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": word}]});
    for event in [finish, usage] {
        // What is undecided at the finish reason is text.
        let is_early = chance.one_in(3) && !text.contains("<think>");
        let at = if is_early { chance.below(events.len() + 1) } else { events.len() };
        events.insert(at, event);
    }
    // The pieces of another choice are not part of the reply.
    if chance.one_in(3) {
        let other = json!({"index": 1, "delta": {"content": "no", "tool_calls": [{"index": 0, "id": "x", "function": {"name": "x", "arguments": "{}"}}]}, "finish_reason": "stop"});
        for _ in 0..=chance.below(3) {
            let at = chance.below(events.len() + 1);
            match events.get_mut(at).and_then(|event| event["choices"].as_array_mut()) {
                Some(choices) if chance.one_in(2) => choices.insert(0, other.clone()),
                _ => events.insert(at, json!({"choices": [other]})),
            }
        }
    }
    events
}

/// Generates a stream of Responses for a text and calls.
fn responses_stream(text: &str, calls: &[Call], is_cut: bool, chance: &mut Chance) -> Vec<Value> {
    // How events refer to the call: by item and index, item, index, or index and a new id.
    let naming = chance.below(4);
    // Which events have the arguments: all of them, or one kind.
    let place = chance.below(7);
    let has = |wanted: usize| place == 0 || place == wanted || place == 6 && wanted < 3;
    let mut sequences = Vec::new();
    let (item, at) = (json!("msg_1"), calls.len());
    if !text.is_empty() {
        let mut events: Vec<Value> = Vec::new();
        if !chance.one_in(4) {
            events.extend(cut(text, chance).into_iter().map(|piece| {
                json!({"type": "response.output_text.delta", "item_id": item, "output_index": at, "content_index": 0, "delta": piece})
            }));
        }
        events.push(json!({"type": "response.output_text.done", "item_id": item, "output_index": at, "content_index": 0, "text": text}));
        sequences.push(events);
    }
    let mut output = Vec::new();
    for (index, call) in calls.iter().enumerate() {
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
        if has(3) || chance.one_in(2) {
            let mut event = json!({"type": "response.output_item.done", "item": item(whole)});
            event["output_index"] = json!(index);
            events.push(event);
        }
        output.push(item(if has(4) || has(5) { call.arguments.as_str() } else { "" }));
        sequences.push(events);
    }
    let mut events = interleaved(sequences, chance);
    // ChatGPT's own endpoint ends with an empty output.
    let is_empty = (place < 4 || place == 6) && chance.one_in(2);
    if is_empty {
        output.clear();
    } else if !text.is_empty() {
        output.push(json!({"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": text}]}));
    }
    let usage = json!({"input_tokens": 3, "output_tokens": 4});
    let details =
        is_cut.then(|| json!({"reason": *chance.pick(&["max_output_tokens", "new_reason"])}));
    let status = if is_cut { "incomplete" } else { "completed" };
    events.push(json!({"type": format!("response.{status}"), "response": {"status": status, "incomplete_details": details, "output": output, "usage": usage}}));
    events
}

/// A stream for a known reply is read as that reply.
fn known_reply_is_read(chance: &mut Chance) {
    let is_chat = chance.one_in(2);
    let (text, calls) = known_reply(chance);
    if text.is_empty() && calls.is_empty() {
        return;
    }
    let is_cut = chance.one_in(3);
    // Thoughts that a server leaves before the text. White space between them goes with them.
    let is_plain = text.is_empty() || text.starts_with(char::is_alphanumeric);
    let thoughts = *chance.pick(&["", "", "Hm.", "Maybe </thin 4?", "a <think> b"]);
    let thoughts = if is_plain { thoughts } else { "" };
    let content = match (thoughts, chance.one_in(2)) {
        ("", _) => text.clone(),
        (_, true) => format!("<think>{thoughts}</think>{text}"),
        (_, false) => format!("\n<think>\n{thoughts}\n</think>\n\n{text}"),
    };
    let events = match is_chat {
        true => chat_stream(&content, &calls, is_cut, chance),
        false => responses_stream(&content, &calls, is_cut, chance),
    };
    let ends = is_chat || chance.one_in(2);
    let bytes = wire(&events, ends, chance);
    let (deltas, outcome) = read(is_chat, &bytes, chance);
    let shown = || String::from_utf8_lossy(&bytes).into_owned();
    let reply = outcome.unwrap_or_else(|error| panic!("{error:?}\n{}", shown()));
    assert_eq!(reply.to_text(), text, "{}", shown());
    let streamed: String = deltas
        .iter()
        .filter_map(|delta| match delta {
            Delta::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(streamed, text, "{}", shown());
    let reasoning = reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Reasoning(reasoning) => Some(reasoning.text.as_str()),
        _ => None,
    });
    assert_eq!(reasoning.collect::<String>(), thoughts, "{}", shown());
    let streamed: String = deltas
        .iter()
        .filter_map(|delta| match delta {
            Delta::Reasoning(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(streamed, thoughts, "{}", shown());
    let mut streamed: BTreeMap<usize, String> = BTreeMap::new();
    for delta in &deltas {
        if let Delta::Call { index, arguments, .. } = delta {
            *streamed.entry(*index).or_default() += arguments;
        }
    }
    // Arguments that only the last event has are not in a delta.
    let is_known = |arguments: &String| {
        arguments.is_empty() || calls.iter().any(|call| call.arguments == *arguments)
    };
    assert!(streamed.values().all(is_known), "{}", shown());
    assert!(!reply.usage.incomplete && reply.usage.output_tokens == 4, "{}", shown());
    let mut read: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    assert_eq!(reply.finish.is_complete(), !is_cut, "{}", shown());
    for call in reply.tool_calls() {
        assert_eq!(call.incomplete, is_cut, "{}", shown());
        let known = read.insert(&call.id, (&call.name, &call.arguments));
        assert!(known.is_none(), "{}", shown());
    }
    assert_eq!(read.len(), calls.len(), "{}", shown());
    for call in &calls {
        // Missing arguments of a complete call are read as `{}`.
        let is_none = call.arguments.is_empty() && !is_cut;
        let wanted = if is_none { "{}" } else { call.arguments.as_str() };
        let read = read.get(call.id.as_str());
        assert_eq!(read, Some(&(call.name.as_str(), wanted)), "{}", shown());
    }
}

/// A piece with a number, by which it is found in the reply.
fn piece(number: usize) -> String {
    format!("<{number}>")
}

fn numbers(text: &str) -> Vec<usize> {
    let numbers = text.split(['<', '>']).filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().unwrap()).collect()
}

/// Every piece is in the reply once, whole and in order, for any order of the events.
fn no_piece_is_lost(chance: &mut Chance) {
    let is_chat = chance.one_in(2);
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
    // Drops, swaps and repeats some events. The expected pieces are those after that.
    for _ in 0..chance.below(4) {
        let (from, to) = (chance.below(events.len()), chance.below(events.len()));
        match chance.below(3) {
            0 if events.len() > 1 => drop(events.remove(from)),
            1 => events.swap(from, to),
            _ => events.insert(to, events[from].clone()),
        }
    }
    let wanted = |events: &[Value]| -> (String, Vec<usize>) {
        let (mut text, mut arguments) = (String::new(), Vec::new());
        for event in events {
            let said = &event["choices"][0]["delta"];
            text += said["content"].as_str().unwrap_or_default();
            let from_text = event["type"] == "response.output_text.delta";
            let delta = event["delta"].as_str().unwrap_or_default();
            if from_text {
                text += delta;
            }
            let pieces = [
                said["function_call"]["arguments"].as_str(),
                said["tool_calls"][0]["function"]["arguments"].as_str(),
                Some(delta).filter(|_| !from_text),
            ];
            arguments.extend(pieces.into_iter().flatten().flat_map(numbers));
        }
        (text, arguments)
    };
    let (text, mut arguments) = wanted(&events);
    events.push(match is_chat {
        true => json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
        false => json!({"type": "response.completed", "response": {"status": "completed"}}),
    });
    let bytes = wire(&events, true, chance);
    let shown = || String::from_utf8_lossy(&bytes).into_owned();
    let reply = match read(is_chat, &bytes, chance).1 {
        Ok(reply) => reply,
        Err(ProviderError::Empty { .. }) if text.is_empty() && arguments.is_empty() => return,
        // The random names and ids contradict each other.
        Err(ProviderError::Unclear {
            fault: "one call has two names" | "two of its calls may be one call",
            ..
        }) => {
            return;
        }
        // A name is missing: the error contains the parts.
        Err(ProviderError::Unclear { raw, .. }) => {
            Reply::new(serde_json::from_str::<Vec<_>>(&raw).unwrap())
        }
        Err(error) => panic!("{error:?}\n{}", shown()),
    };
    assert_eq!(reply.to_text(), text, "{}", shown());
    let mut found = Vec::new();
    let mut ids = Vec::new();
    let is_whole = reply.tool_calls().all(|call| !call.name.is_empty());
    for call in reply.tool_calls() {
        ids.extend(Some(&call.id).filter(|_| is_whole));
        if call.arguments == "{}" {
            continue;
        }
        found.extend(numbers(&call.arguments));
    }
    found.sort_unstable();
    arguments.sort_unstable();
    // A call in both forms of the API counts once.
    let is_twice = is_chat && found.len() < arguments.len();
    if is_twice {
        found.dedup();
        arguments.dedup();
    }
    assert_eq!(found, arguments, "{}", shown());
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), ids.iter().any(|id| id.is_empty())), (count, false), "{}", shown());
}

/// The recorded streams of servers.
fn recorded() -> Vec<(bool, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams");
    let mut all = Vec::new();
    for (is_chat, name) in [(true, "chat"), (false, "responses")] {
        for file in fs::read_dir(folder.join(name)).unwrap() {
            all.push((is_chat, fs::read(file.unwrap().path()).unwrap()));
        }
    }
    all
}

/// The result for any bytes does not depend on where they are cut.
fn result_does_not_depend_on_cuts(recorded: &[(bool, Vec<u8>)], chance: &mut Chance) {
    let (is_chat, bytes) = chance.pick(recorded);
    let mut bytes = bytes.clone();
    bytes.truncate(if chance.one_in(2) { 1500 } else { bytes.len() });
    for _ in 0..chance.below(6) {
        let at = chance.below(bytes.len() + 1);
        let end = (at + chance.below(40)).min(bytes.len());
        match chance.below(7) {
            0 => drop(bytes.drain(at..end)),
            1 => {
                let again = bytes[at..end].to_vec();
                let to = chance.below(bytes.len() + 1);
                bytes.splice(to..to, again);
            }
            2 => bytes.insert(at, chance.next().to_le_bytes()[0]),
            3 => {
                let words: [&[u8]; 12] = [
                    b"\n\n",
                    b"\r",
                    b"data:",
                    b"data: [DONE]\n\n",
                    b"null",
                    b"[]",
                    b"{}",
                    b"\"",
                    b"-1",
                    b"\xff\xfe",
                    b"\xef\xbb\xbf",
                    b"1e999",
                ];
                let word = *chance.pick(&words);
                bytes.splice(at..at, word.iter().copied());
            }
            4 if at < end => bytes[at] ^= 1 << chance.below(8),
            5 => {
                let (_, other) = chance.pick(recorded);
                let from = chance.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            _ => bytes = (0..chance.below(300)).map(|_| chance.next().to_le_bytes()[0]).collect(),
        }
    }
    let first = shown(&read(*is_chat, &bytes, chance));
    let second = shown(&read(*is_chat, &bytes, chance));
    assert_eq!(first, second, "{:?}", String::from_utf8_lossy(&bytes));
}

#[test]
fn generated_streams_are_read_without_losing_or_changing_a_piece() {
    let number = |name, or: u64| env::var(name).map_or(or, |number| number.parse().unwrap());
    let (first, runs) = (number("FUZZ_FIRST", 0), number("FUZZ_RUNS", 2000));
    let recorded = recorded();
    let mut kinds = [0_u64; 3];
    for seed in first..first + runs {
        let mut chance = Chance(seed);
        let kind = chance.below(3);
        kinds[kind] += 1;
        let run = std::panic::AssertUnwindSafe(|| match kind {
            0 => known_reply_is_read(&mut chance),
            1 => no_piece_is_lost(&mut chance),
            _ => result_does_not_depend_on_cuts(&recorded, &mut chance),
        });
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("FUZZ_FIRST={seed} FUZZ_RUNS=1 plays it again");
            std::panic::resume_unwind(panic);
        }
    }
    println!(
        "{runs} streams: {} of known replies, {} with mixed events, {} of arbitrary bytes",
        kinds[0], kinds[1], kinds[2]
    );
}
