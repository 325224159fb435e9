//! Values that servers send instead of the documented ones.

use toolwright_provider::lenient::{Arguments, Count, Piece, Str, Text, Words};

#[test]
fn a_text_is_read_from_any_value() {
    for (wire, text) in [
        (r#""plain""#, "plain"),
        ("null", ""),
        ("7", "7"),
        ("-7", "-7"),
        ("1.5", "1.5"),
        ("true", "true"),
        (r#"{"key": "color"}"#, r#"{"key":"color"}"#),
        (r#"[{"type": "text", "text": "one "}, "two", {"image": 1}]"#, "one two"),
    ] {
        assert_eq!(serde_json::from_str::<Text>(wire).unwrap().0, text, "{wire}");
        assert_eq!(serde_json::from_str::<Str<'_>>(wire).unwrap().0, text, "{wire}");
    }
}

#[test]
fn arguments_keep_the_json_of_any_value() {
    for (wire, text) in [
        (r#""{\"a\": 1}""#, r#"{"a": 1}"#),
        ("null", ""),
        (
            r#"{"a": 1.0, "b": 12345678901234567890123, "a": 2}"#,
            r#"{"a": 1.0, "b": 12345678901234567890123, "a": 2}"#,
        ),
        (r#"[{"a": 1}]"#, r#"[{"a": 1}]"#),
        ("7", "7"),
        ("true", "true"),
    ] {
        assert_eq!(serde_json::from_str::<Arguments>(wire).unwrap().0, text, "{wire}");
    }
}

#[test]
fn the_words_of_content_are_found_in_every_form() {
    for (wire, words) in [
        (r#""plain""#, Some("plain")),
        ("null", Some("")),
        ("7", Some("7")),
        (r#"{"type": "text", "text": "one"}"#, Some("one")),
        (r#"{"text": {"value": "one", "annotations": []}}"#, Some("one")),
        (r#"{"role": "model", "parts": [{"text": "one"}, {"text": " two"}]}"#, Some("one two")),
        (r#"[{"type": "text", "text": {"value": "one"}}, "two"]"#, Some("onetwo")),
        (r#"[{"type": "output_text", "text": ["one", {"text": "two"}]}]"#, Some("onetwo")),
        (r#"[{"type": "text", "content": "one"}]"#, Some("one")),
        (r#"["one", {"type": "image_url", "image_url": {"url": "x"}}]"#, Some("one")),
        ("[12345678901234567890123]", Some("12345678901234567890123")),
        (r#"{"text": 1.50}"#, Some("1.50")),
        (r#"[{"type": "text", "text": {"value": -0.0}}]"#, Some("-0.0")),
        (r#"{"type": "text"}"#, Some("")),
        (r#"{"text": "one", "content": "one"}"#, Some("one")),
        (r#"["one", {"type": "thinking", "thinking": "two"}]"#, Some("one")),
        (r#"{"text": "one", "content": "two"}"#, None),
        (r#"["one", {"type": "tool_result", "text": "two"}]"#, None),
        (r#"["one", {"type": "tool_use", "name": "look"}]"#, None),
        (r#"{"type": "image_url", "image_url": {"url": "x"}}"#, None),
        (r#"{"name": "Ada", "age": 36}"#, None),
        (r#"{"text": "Ada", "age": 36}"#, None),
        (r#"[{"type": "text", "text": {"said": "one"}}]"#, None),
        (r#"[{"said": "one"}]"#, None),
        (r#"{"text": "one", "text": "two"}"#, None),
        (r#"[{"type": "text", "text": {"value": "one", "value": "two"}}]"#, None),
        (r#"["one", {"type": "image_url", "image_url": {"url": "x", "url": "y"}}]"#, None),
    ] {
        let read = Words::read(wire).ok();
        assert_eq!(read.as_deref(), words, "{wire}");
    }
}

#[test]
fn a_value_that_is_not_a_count_is_not_an_error() {
    for (wire, count) in [
        ("7", Some(7)),
        ("7.0", Some(7)),
        ("0", Some(0)),
        ("-1", None),
        ("-1.5", None),
        ("1.5", None),
        ("1e30", None),
        ("4294967295", None),
        ("18446744073709551615", None),
        (r#""-3""#, None),
        (r#""1000000000000""#, None),
        ("null", None),
        ("true", None),
        (r#""7""#, Some(7)),
        (r#""n/a""#, None),
        (r#"{"a": 1}"#, None),
        ("[1]", None),
    ] {
        assert_eq!(serde_json::from_str::<Count>(wire).unwrap().0, count, "{wire}");
    }
}

#[test]
fn a_piece_is_a_text_or_thoughts_or_a_refusal_or_a_call() {
    let piece = |text: &str, thoughts: &str, refusal: &str, has_call| {
        let [text, thoughts, refusal] = [text, thoughts, refusal].map(str::to_owned);
        Some(Piece { text, thoughts, refusal, has_call })
    };
    for (wire, read) in [
        (r#""one""#, piece("one", "", "", false)),
        (r#"{"type": "Output_Text", "text": "one"}"#, piece("one", "", "", false)),
        (r#"{"type": "reasoning", "text": "one"}"#, piece("", "one", "", false)),
        (
            r#"{"type": "thinking", "thinking": ["one", {"text": "two"}]}"#,
            piece("", "onetwo", "", false),
        ),
        (r#"{"type": "text", "text": "one", "thinking": "two"}"#, piece("one", "two", "", false)),
        (
            r#"{"type": "message", "content": ["one", {"type": "thinking", "text": "two"}]}"#,
            piece("one", "two", "", false),
        ),
        (r#"{"type": "thinking", "signature": "a"}"#, piece("", "", "", false)),
        (r#"{"type": "refusal", "refusal": 1.50}"#, piece("", "", "1.50", false)),
        (r#"{"type": "ToolUse", "name": "look"}"#, piece("", "", "", true)),
        (r#"{"type": "image_url", "image_url": {"url": "x"}}"#, piece("", "", "", false)),
        (r#"{"type": "search_result", "text": "one"}"#, None),
        (r#"{"type": "text", "said": "one"}"#, None),
        (r#"{"said": "one"}"#, None),
    ] {
        assert_eq!(Piece::read(wire).ok(), read, "{wire}");
    }
}
