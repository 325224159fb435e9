//! JSON text of other programs that `serde_json` does not read.

use std::borrow::Cow;

use serde_json::Value;
use toolwright_signature::{ends_in_half, has_lost_half, joined_halves, lost_half, readable_json};

#[test]
fn text_that_serde_json_reads_is_unchanged() {
    for json in [
        r#"{"a": "\ud83d\ude00 \\ud83d \\\\ud83d", "b": "é\n\u0000"}"#,
        "[\n\t1]",
        "",
        "\"",
        "\\",
        "[\"\\u12",
        r#"["\\"]"#,
    ] {
        assert!(matches!(readable_json(json.as_bytes()), Cow::Borrowed(text) if text == json));
    }
}

#[test]
fn halves_of_characters_and_bad_bytes_are_replaced() {
    for (json, value) in [
        (&br#""\ud83d""#[..], "\u{fffd}"),
        (br#""\uDE00\ud83d""#, "\u{fffd}\u{fffd}"),
        (br#""\ud83d\ud83d\ude00x""#, "\u{fffd}\u{1f600}x"),
        (br#""\\\ud83d\n""#, "\\\u{fffd}\n"),
        (br#""\ud83d\u0041""#, "\u{fffd}A"),
        (b"\"a\x80b\0\x1f\"", "a\u{fffd}b\0\u{1f}"),
    ] {
        let text = readable_json(json);
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), value, "{text}");
    }
}

#[test]
fn the_character_that_stands_for_a_half_may_be_sent_itself() {
    for json in [
        r#"["\ufffd"]"#,
        r#"["\uFFFD"]"#,
        r#"["\uFffd"]"#,
        "[\"\u{fffd}\"]",
        r#"["\\uFffd \\ud83d"]"#,
    ] {
        let readable = readable_json(json.as_bytes());
        assert!(!has_lost_half(&readable), "{readable}");
        let values = [&readable, json].map(|json| serde_json::from_str::<Value>(json).unwrap());
        assert_eq!(values[0], values[1]);
        assert_eq!(lost_half(&readable), None);
    }
    for (json, path) in [
        (r#""\udE00""#, "$"),
        (r#"["\\\ud83d"]"#, "$[0]"),
        (r#"{"a": 1, "b": {"c\ud83d": 1}}"#, "$.b"),
        (r#"{"a": [{}, {"c": "\uFffd \ud83d"}]}"#, "$.a[1].c"),
    ] {
        let readable = readable_json(json.as_bytes());
        assert!(has_lost_half(&readable), "{json}");
        assert_eq!(lost_half(&readable).as_deref(), Some(path), "{json}");
    }
}

#[test]
fn only_halves_that_belong_together_are_joined() {
    assert!(ends_in_half(r#"{"a":"\ud83d","b":1}"#));
    for json in [r#"["\ud83d a"]"#, r#"["\\ud83d"]"#, r#"["\ud83d\ude00"]"#, r#"["\ude00"]"#] {
        assert!(!ends_in_half(json), "{json}");
    }
    assert_eq!(joined_halves(r#"["\ud83d"]"#, r#"["a\ude00"]"#), None);
    assert_eq!(joined_halves(r#"["\ud83d"]"#, "[1]"), None);
}
