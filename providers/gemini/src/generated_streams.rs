//! Generated streams, read without a socket: each must end in a reply or an error.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_module::model::Delta;
use toolwright_module::provider::Reader;
use toolwright_module::{Message, Reply, Request};

use crate::Result;
use crate::reply::Chunks;

fn reader() -> Reader<Chunks> {
    Reader::new(Chunks::new(&Request::new([Message::user("Hi!")])))
}

/// Reads a stream in packets of this size.
fn read(stream: &[u8], size: usize) -> Result<(Vec<Delta>, Reply)> {
    let (mut reader, mut deltas) = (reader(), Vec::new());
    for packet in stream.chunks(size) {
        reader.push(Bytes::copy_from_slice(packet));
        while let Some(delta) = reader.next()? {
            deltas.push(delta);
        }
    }
    reader.end()?;
    while let Some(delta) = reader.next()? {
        deltas.push(delta);
    }
    Ok((deltas, reader.finish()?))
}

/// A value that the API would not send somewhere.
fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-zA-Z$.\\[\\]0\"\\\\]{0,6}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([{}])),
    ]
}

fn part() -> impl Strategy<Value = Value> {
    let path = prop_oneof![Just("$.a"), Just("$.a.b"), Just("$.c[0]"), Just("$.c[1]"), Just("$.d")];
    let value = prop_oneof![
        Just(json!({"stringValue": "é\""})),
        Just(json!({"stringValue": "é", "willContinue": true})),
        Just(json!({"numberValue": 1.50})),
        Just(json!({"boolValue": true})),
        Just(json!({"nullValue": null})),
        Just(json!({})),
    ];
    let piece = (path, value).prop_map(|(path, mut piece)| {
        piece["jsonPath"] = json!(path);
        piece
    });
    prop_oneof![
        Just(json!({"text": "a"})),
        Just(json!({"text": "b", "thought": true})),
        Just(json!({"text": "", "thoughtSignature": "c2ln"})),
        Just(json!({"functionCall": {"name": "f", "willContinue": true}})),
        Just(json!({"functionCall": {"name": "g", "args": {"x": 1}}})),
        Just(json!({"functionCall": {}})),
        (prop::collection::vec(piece, 0..3), any::<bool>()).prop_map(|(pieces, more)| {
            json!({"functionCall": {"partialArgs": pieces, "willContinue": more}})
        }),
        Just(json!({"executableCode": {"code": "1"}})),
    ]
}

fn event() -> impl Strategy<Value = Value> {
    let reason = prop_oneof![
        4 => Just(None),
        2 => Just(Some("STOP")),
        1 => Just(Some("MAX_TOKENS")),
        1 => Just(Some("MALFORMED_FUNCTION_CALL")),
        1 => Just(Some("NEW")),
    ];
    let place = prop_oneof![
        Just("/candidates"),
        Just("/candidates/0"),
        Just("/candidates/0/content"),
        Just("/candidates/0/content/parts"),
        Just("/candidates/0/content/parts/0"),
        Just("/candidates/0/content/parts/0/functionCall"),
        Just("/candidates/0/content/parts/0/functionCall/partialArgs"),
        Just("/candidates/0/content/parts/0/functionCall/partialArgs/0/jsonPath"),
        Just("/candidates/0/finishReason"),
        Just("/usageMetadata"),
    ];
    let damage = prop::option::weighted(0.1, (place, odd()));
    (prop::collection::vec(part(), 0..3), reason, damage).prop_map(|(parts, reason, damage)| {
        let candidate = json!({"content": {"parts": parts}, "finishReason": reason});
        let mut event =
            json!({"candidates": [candidate], "usageMetadata": {"promptTokenCount": 1}});
        if let Some((place, odd)) = damage
            && let Some(damaged) = event.pointer_mut(place)
        {
            *damaged = odd;
        }
        event
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_stream_ends_in_the_same_way_in_packets_of_any_size(
        events in prop::collection::vec(event(), 0..8),
        size in 1_usize..40,
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        if let Some(cut) = cut && !stream.is_empty() {
            stream.truncate(stream.floor_char_boundary(cut.index(stream.len())));
        }
        let (whole, packets) = (read(stream.as_bytes(), 1 << 20), read(stream.as_bytes(), size));
        match (&whole, packets) {
            (Ok(whole), Ok(packets)) => prop_assert_eq!(whole, &packets),
            (Err(whole), Err(packets)) => {
                prop_assert_eq!(whole.to_string(), packets.to_string());
            }
            (whole, packets) => prop_assert!(false, "{:?} and {:?}", whole, packets),
        }
        let Ok((deltas, reply)) = whole else { return Ok(()) };
        let texts: String = deltas
            .iter()
            .filter_map(|delta| match delta {
                Delta::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        prop_assert_eq!(texts, reply.to_text());
        for call in reply.tool_calls() {
            prop_assert!(!call.id.is_empty() && !call.name.is_empty());
            prop_assert!(call.incomplete || reply.finish.is_complete());
            // A complete call is JSON: it was not closed by this crate.
            prop_assert!(call.incomplete || serde_json::from_str::<Value>(&call.arguments).is_ok());
        }
    }
}
