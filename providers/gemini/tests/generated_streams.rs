//! Generated streams; see `providers/tests/streams.rs`.
//!
//! It is compiled into the library's tests, because streams without a socket are not public.

#[path = "../../tests/streams.rs"]
mod streams;

use serde_json::{Map, Value, json};
use toolwright_module::{Message, Request};

use self::streams::{
    Api, Call, Chance, Meant, Mixed, cut, mix, numbers, piece, play, read_with, wire,
};
use crate::reply::Chunks;

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
            read_with(Chunks::new(&request), chunks)
        },
    });
}

/// Generates the stream of a reply.
fn stream(meant: &mut Meant, chance: &mut Chance) -> Vec<Value> {
    let mut parts = Vec::new();
    for (text, is_thought) in [(&meant.thoughts, true), (&meant.text, false)] {
        for piece in cut(text, chance) {
            let mut part = json!({"text": piece});
            if is_thought {
                part["thought"] = true.into();
            }
            if chance.one_in(8) {
                part["thoughtSignature"] = "c2ln".into();
            }
            parts.push(part);
        }
    }
    if chance.one_in(4) {
        parts.push(json!({"text": "", "thoughtSignature": "c2ln"}));
    }
    // Without its last part, a call whose arguments come in pieces goes on.
    let (count, is_complete) = (meant.calls.len(), meant.is_complete);
    for (at, call) in meant.calls.iter_mut().enumerate() {
        let is_last = at + 1 == count;
        parts.extend(call_parts(call, is_last && (!is_complete || chance.one_in(4)), chance));
    }
    let mut events: Vec<Value> = Vec::new();
    for part in parts {
        match events.last_mut() {
            Some(event) if chance.one_in(4) => {
                let parts = &mut event["candidates"][0]["content"]["parts"];
                parts.as_array_mut().unwrap().push(part);
            }
            _ => {
                let content = json!({"parts": [part], "role": "model"});
                events.push(json!({
                    "candidates": [{"content": content}],
                    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1},
                }));
            }
        }
    }
    let mut last = json!({"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4}});
    if !meant.is_complete && chance.one_in(6) {
        last["promptFeedback"] = json!({"blockReason": "SAFETY"});
        events.push(last);
    } else {
        let bad = [
            "MAX_TOKENS",
            "MALFORMED_FUNCTION_CALL",
            "UNEXPECTED_TOOL_CALL",
            "TOO_MANY_TOOL_CALLS",
            "MALFORMED_RESPONSE",
            "SAFETY",
            "OTHER",
            "LANGUAGE",
            "FINISH_REASON_UNSPECIFIED",
            "NEW_REASON",
        ];
        let word = if meant.is_complete { "STOP" } else { *chance.pick::<&str>(&bad) };
        last["candidates"] = json!([{"finishReason": word}]);
        // The reason is beside the last content or follows it, and may be repeated as `STOP`.
        match events.last_mut() {
            Some(event) if chance.one_in(2) => {
                event["candidates"][0]["finishReason"] = json!(word);
                event["usageMetadata"] = last["usageMetadata"].take();
            }
            _ => events.push(last),
        }
        if chance.one_in(4) {
            events.push(json!({"candidates": [{"content": {}, "finishReason": "STOP"}]}));
        }
    }
    // The pieces of another candidate are not part of the reply.
    if chance.one_in(4) {
        let call = json!({"functionCall": {"name": "x", "args": {"x": 1}}});
        let other = json!({"index": 1, "content": {"parts": [{"text": "no"}, call]}, "finishReason": "STOP"});
        let at = chance.below(events.len());
        match events[at]["candidates"].as_array_mut() {
            Some(candidates) => candidates.push(other),
            None => events[at]["candidates"] = json!([other]),
        }
    }
    events
}

/// Returns the parts of a call, whose arguments are whole or in pieces. A call in pieces may lack its
/// end.
fn call_parts(call: &mut Call, lacks_end: bool, chance: &mut Chance) -> Vec<Value> {
    let start = |more: Value| {
        let mut start = json!({"id": call.id, "name": call.name});
        start.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"functionCall": start})
    };
    let Ok(value) = serde_json::from_str::<Value>(&call.arguments) else {
        let args =
            if call.arguments.is_empty() { json!({}) } else { json!({"args": call.arguments}) };
        return vec![start(args)];
    };
    call.arguments = value.to_string();
    let fields = value.as_object().filter(|fields| is_plain(&Value::Object((*fields).clone())));
    let Some(fields) = fields.filter(|_| lacks_end || chance.one_in(2)) else {
        return vec![start(json!({"args": value}))];
    };
    // Some of the fields may be whole, before the others.
    let whole = if chance.one_in(4) { chance.below(fields.len() + 1) } else { 0 };
    let given: Map<String, Value> = fields.clone().into_iter().take(whole).collect();
    let mut pieces = Vec::new();
    for (name, field) in fields.iter().skip(whole) {
        put(&format!("$.{name}"), field, &mut pieces, chance);
    }
    let mut parts = Vec::new();
    let mut begin = json!({"willContinue": true});
    if whole > 0 {
        begin["args"] = Value::Object(given.clone());
    }
    parts.push(start(begin));
    let kept = if lacks_end { chance.below(pieces.len() + 1) } else { pieces.len() };
    pieces.truncate(kept);
    let is_open = pieces.last().is_some_and(|piece| piece["willContinue"] == true);
    for piece in &pieces {
        match parts.last_mut() {
            Some(part) if chance.one_in(3) && part["functionCall"]["partialArgs"].is_array() => {
                part["functionCall"]["partialArgs"].as_array_mut().unwrap().push(piece.clone());
            }
            _ => {
                parts.push(json!({"functionCall": {"partialArgs": [piece], "willContinue": true}}))
            }
        }
    }
    // A string that goes on is cut off, even if the call ends.
    if !lacks_end || is_open && chance.one_in(2) {
        match parts.last_mut() {
            Some(part) if chance.one_in(2) && part["functionCall"]["partialArgs"].is_array() => {
                part["functionCall"]["willContinue"] = false.into();
            }
            _ => parts.push(json!({"functionCall": {}})),
        }
    }
    call.is_cut = lacks_end;
    if lacks_end {
        call.arguments = begun(given, &pieces);
    }
    parts
}

/// Whether a value can be sent in pieces: no list and no object in it is empty.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().all(|field| is_plain(field) && !is_empty(field)),
        Value::Array(items) => items.iter().all(|item| is_plain(item) && !is_empty(item)),
        _ => true,
    }
}

fn is_empty(value: &Value) -> bool {
    matches!(value, Value::Object(fields) if fields.is_empty())
        || matches!(value, Value::Array(items) if items.is_empty())
}

/// Adds the pieces of a value at a path.
fn put(path: &str, value: &Value, pieces: &mut Vec<Value>, chance: &mut Chance) {
    let mut leaf = |name: &str, value: Value| pieces.push(json!({"jsonPath": path, name: value}));
    match value {
        Value::Null => leaf("nullValue", json!(chance.pick(&[Value::Null, "NULL_VALUE".into()]))),
        Value::Bool(yes) => leaf("boolValue", json!(yes)),
        Value::Number(number) => leaf("numberValue", json!(number)),
        Value::String(text) => {
            let mut all = cut(text, chance);
            // The last piece of a string may be without a text, or the only one.
            if all.is_empty() || chance.one_in(3) {
                all.push(String::new());
            }
            let count = all.len();
            for (at, text) in all.into_iter().enumerate() {
                let mut piece = json!({"jsonPath": path, "stringValue": text});
                if at + 1 < count {
                    piece["willContinue"] = true.into();
                }
                pieces.push(piece);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                put(&format!("{path}[{at}]"), item, pieces, chance);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let path = match chance.one_in(2) {
                    true => format!("{path}.{name}"),
                    false => format!("{path}['{name}']"),
                };
                put(&path, field, pieces, chance);
            }
        }
    }
}

/// Returns the JSON that pieces have begun: without what would close the last value.
fn begun(given: Map<String, Value>, pieces: &[Value]) -> String {
    let mut root = Value::Object(given);
    for piece in pieces {
        let path = piece["jsonPath"].as_str().unwrap();
        let mut at = &mut root;
        let steps = path.trim_start_matches('$').split(['.', '[', ']', '\'']);
        let steps: Vec<_> = steps.filter(|step| !step.is_empty()).collect();
        for step in steps {
            at = match step.parse::<usize>() {
                Ok(index) => {
                    if !at.is_array() {
                        *at = json!([]);
                    }
                    let items = at.as_array_mut().unwrap();
                    if index == items.len() {
                        items.push(Value::Null);
                    }
                    &mut items[index]
                }
                Err(_) => &mut at[step],
            };
        }
        match &piece["stringValue"] {
            Value::String(text) => {
                *at = format!("{}{text}", at.as_str().unwrap_or_default()).into();
            }
            _ => {
                let others = ["numberValue", "boolValue"].map(|name| piece[name].clone());
                *at = others.into_iter().find(|value| !value.is_null()).unwrap_or_default();
            }
        }
    }
    if is_empty(&root) {
        return String::new();
    }
    // Fields that came whole are closed.
    let closed = root.to_string();
    let closed = closed.strip_suffix('}').unwrap().to_owned();
    if pieces.is_empty() { closed } else { open(&root) }
}

fn open(value: &Value) -> String {
    let last = |of: Option<&Value>| of.map(|last| (last.to_string(), open(last)));
    let (ends, last) = match value {
        Value::Object(fields) => ("}", last(fields.values().next_back())),
        Value::Array(items) => ("]", last(items.last())),
        Value::String(_) => ("\"", None),
        _ => ("", None),
    };
    let whole = value.to_string();
    let whole = whole.strip_suffix(ends).unwrap();
    match last {
        Some((closed, open)) => format!("{}{open}", whole.strip_suffix(&closed).unwrap()),
        None => whole.to_owned(),
    }
}

/// Generates parts that contradict each other, some of them with values of other types.
fn mixed(chance: &mut Chance) -> Mixed {
    let mut events = Vec::new();
    for number in 0..1 + chance.below(24) {
        let path = *chance.pick(&["$.a", "$.a.b", "$.c[0]", "$.c[1]", "$.d", "$['e f']"]);
        let name = chance.pick(&[json!("f"), json!("g"), json!(""), Value::Null]).clone();
        let more = chance.one_in(2);
        let part = match chance.below(8) {
            0 | 1 => json!({"text": piece(number)}),
            2 => json!({"text": "b", "thought": true}),
            3 => json!({"functionCall": {"name": name, "args": {"x": piece(number)}}}),
            4 => json!({"functionCall": {"name": name, "willContinue": more}}),
            5 => json!({"functionCall": {}}),
            _ => {
                let text =
                    json!({"jsonPath": path, "stringValue": piece(number), "willContinue": more});
                let others = [
                    json!({"jsonPath": path, "numberValue": 1.50}),
                    json!({"jsonPath": path, "nullValue": null}),
                    json!({"jsonPath": path}),
                ];
                let pieces = match chance.one_in(4) {
                    true => vec![text, chance.pick(&others).clone()],
                    false => vec![text],
                };
                json!({"functionCall": {"partialArgs": pieces, "willContinue": chance.one_in(2)}})
            }
        };
        let mut event = json!({"candidates": [{"content": {"parts": [part]}}]});
        if chance.one_in(8) {
            let words = ["STOP", "MAX_TOKENS", "MALFORMED_FUNCTION_CALL", "NEW"];
            event["candidates"][0]["finishReason"] = json!(chance.pick(&words));
        }
        events.push(event);
    }
    mix(&mut events, chance);
    if chance.one_in(3) {
        let at = chance.below(events.len());
        damage(&mut events[at], chance);
    }
    let (mut text, mut arguments) = (Vec::new(), Vec::new());
    for event in &events {
        let parts = &event["candidates"][0]["content"]["parts"];
        for part in parts.as_array().into_iter().flatten() {
            text.extend(part["text"].as_str().into_iter().flat_map(numbers));
            let call = &part["functionCall"];
            arguments.extend(call["args"]["x"].as_str().into_iter().flat_map(numbers));
            for piece in call["partialArgs"].as_array().into_iter().flatten() {
                arguments.extend(piece["stringValue"].as_str().into_iter().flat_map(numbers));
            }
        }
    }
    events.push(json!({
        "candidates": [{"finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 1},
    }));
    Mixed { bytes: wire(&events, false, chance), text, arguments }
}

/// Puts a value into an event that the API would not send there, and that has no piece.
fn damage(event: &mut Value, chance: &mut Chance) {
    let part = "/candidates/0/content/parts/0";
    let places = [
        "/candidates/0/finishReason".to_owned(),
        format!("{part}/functionCall/name"),
        format!("{part}/functionCall/willContinue"),
        format!("{part}/functionCall/partialArgs/0/jsonPath"),
        format!("{part}/functionCall/partialArgs/0/willContinue"),
        format!("{part}/thought"),
    ];
    let odd = [
        Value::Null,
        json!(true),
        json!(-7),
        json!("$.[]0\"\\"),
        json!([]),
        json!({}),
        json!([{}]),
    ];
    if let Some(damaged) = event.pointer_mut(chance.pick::<String>(&places)) {
        damaged.clone_from(chance.pick(&odd));
    }
}
