//! Messages, replies and settings: their stored forms, and how settings are combined.

use std::fmt::Debug;

use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use toolwright_module::message::{
    Audio, CallKind, Document, Image, Opaque, Part, Reasoning, ReplyPart, Source, Text, ToolResult,
    object_of,
};
use toolwright_module::model::{Effort, Finish, Setting, SettingSet, Settings, ToolChoice, Usage};
use toolwright_module::{Message, Reply, Request, ToolCall};

fn stays<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let json = serde_json::to_string(value).unwrap();
    let read: T = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
    assert_eq!(&read, value, "{json}");
    let read: T = serde_json::from_value(serde_json::to_value(value).unwrap()).unwrap();
    assert_eq!(&read, value, "{json}");
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((".{0,6}", inner), 0..4)
                .prop_map(|fields| fields.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

fn opaque() -> impl Strategy<Value = Option<Opaque>> {
    prop::option::of(
        ("[a-z-]{0,9}", json_value()).prop_map(|(name, value)| Opaque::new(name, value)),
    )
}

/// Sources as programs make them. A URL in the form of another kind is read as that kind.
fn source() -> impl Strategy<Value = Source> {
    prop_oneof![
        "(https?:|file:|data:|x)[ -~é]{0,20}"
            .prop_filter("bytes", |url| !url.contains(";base64,"))
            .prop_map(Source::Url),
        ("[a-z]{1,9}/[a-z.+-]{1,9}(;[a-z]{1,4}=[a-z0-9-]{1,4})?", any::<Vec<u8>>())
            .prop_map(|(media_type, data)| Source::Bytes { media_type, data: data.into() }),
        ("[a-z-]{0,9}", ".{0,12}").prop_map(|(provider, id)| Source::File { provider, id }),
    ]
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        ".{0,12}".prop_map(Part::Text),
        source().prop_map(|source| Image::from(source).into()),
        source().prop_map(|source| Document::from(source).into()),
        source().prop_map(|source| Audio::from(source).into()),
    ]
}

fn call() -> impl Strategy<Value = ToolCall> {
    (".{0,6}", ".{0,6}", ".{0,12}", any::<bool>(), opaque()).prop_map(
        |(id, name, arguments, custom, opaque)| {
            let mut call = ToolCall::new(id, name, arguments);
            if custom {
                call.kind = CallKind::Custom;
            }
            call.opaque = opaque.map(Box::new);
            call
        },
    )
}

fn text() -> impl Strategy<Value = Text> {
    (".{0,12}", opaque()).prop_map(|(text, opaque)| match opaque {
        Some(opaque) => Text::from(text).with_opaque(opaque),
        None => Text::from(text),
    })
}

fn reply_part() -> impl Strategy<Value = ReplyPart> {
    prop_oneof![
        text().prop_map(ReplyPart::Text),
        ("[a-z]{1,6}", ".{0,6}", json_value())
            .prop_map(|(provider, text, opaque)| Reasoning::new(provider, text, opaque))
            .prop_map(ReplyPart::Reasoning),
        call().prop_map(ReplyPart::Call),
        opaque().prop_map(|opaque| {
            ReplyPart::Other(opaque.unwrap_or_else(|| Opaque::new("p", json!(1))))
        }),
    ]
}

fn result() -> impl Strategy<Value = ToolResult> {
    let parts = prop::collection::vec(part(), 0..3);
    // `null` is stored as no value.
    let value = prop::option::of(json_value().prop_filter("null", |value| !value.is_null()));
    (call(), ".{0,12}", parts, value, any::<bool>()).prop_map(
        |(call, text, parts, value, failed)| {
            let mut result = ToolResult::new(&call, text).with_parts(parts);
            (result.value, result.failed) = (value, failed);
            result
        },
    )
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        ".{0,12}".prop_map(|text| Message::System { text }),
        prop::collection::vec(part(), 0..4).prop_map(|parts| Message::User { parts }),
        prop::collection::vec(reply_part(), 0..4).prop_map(|parts| Message::Assistant { parts }),
        result().prop_map(Message::Tool),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    let finish = prop_oneof![
        Just(Finish::Stop),
        Just(Finish::Length),
        Just(Finish::Paused),
        Just(Finish::Refused),
        ".{0,6}".prop_map(Finish::Other),
    ];
    let usage = any::<[u64; 5]>().prop_map(|[input, output, cached, written, reasoning]| {
        let usage = Usage {
            cached_tokens: cached,
            cache_written_tokens: written,
            ..Usage::new(input, output)
        };
        Usage { reasoning_tokens: reasoning, ..usage } + Usage::unknown()
    });
    (prop::collection::vec(reply_part(), 0..4), finish, usage)
        .prop_map(|(parts, finish, usage)| Reply::new(parts).with_finish(finish).with_usage(usage))
}

fn settings() -> impl Strategy<Value = Settings> {
    let effort = prop::sample::select(vec![Effort::Off, Effort::Minimal, Effort::Low, Effort::Max]);
    let sampling = (
        prop::option::of(0f32..2.0),
        prop::option::of(0f32..1.0),
        prop::option::of(any::<u64>()),
        prop::option::of(prop::collection::vec(".{0,4}", 0..3)),
        prop::option::of(effort),
        prop::option::of(any::<u64>()),
    );
    let rest = (
        prop::option::of(any::<bool>()),
        prop::option::of(any::<bool>()),
        prop::option::of(".{0,4}"),
        prop::option::of(prop::collection::btree_map(".{0,4}", ".{0,4}", 0..3)),
        prop::collection::vec(("[ab]", "[xy]", json_value()), 0..4),
    );
    (sampling, rest).prop_map(|(sampling, rest)| {
        let mut settings = Settings::default();
        (settings.temperature, settings.top_p, settings.seed, settings.stop, ..) = {
            let (temperature, top_p, seed, stop, effort, most) = sampling;
            (settings.effort, settings.max_output_tokens) = (effort, most);
            (temperature, top_p, seed, stop)
        };
        let (parallel, cache, user, metadata, extra) = rest;
        (settings.parallel_calls, settings.cache) = (parallel, cache);
        (settings.user, settings.metadata) = (user, metadata);
        extra.into_iter().fold(settings, |settings, (provider, name, value)| {
            settings.with_extra(provider, name, value)
        })
    })
}

fn choice() -> impl Strategy<Value = ToolChoice> {
    prop_oneof![
        Just(ToolChoice::Auto),
        Just(ToolChoice::None),
        Just(ToolChoice::Required),
        ".{0,6}".prop_map(ToolChoice::Tool),
    ]
}

proptest! {
    #[test]
    fn a_stored_message_is_read_as_it_was(message in message()) {
        stays(&message);
    }

    #[test]
    fn a_stored_reply_is_read_as_it_was(reply in reply()) {
        stays(&reply);
    }

    #[test]
    fn a_stored_request_is_read_as_it_was(
        messages in prop::collection::vec(message(), 0..3),
        settings in settings(),
        choice in choice(),
    ) {
        stays(&settings);
        let request = Request::new(messages.into_iter().map(Into::into));
        stays(&request.with_settings(settings).with_tool_choice(choice));
    }

    #[test]
    fn the_nearest_setting_wins(near in settings(), far in settings()) {
        let over = near.over(&far);
        let of = |settings: &Settings| serde_json::to_value(settings).unwrap();
        let (mut expected, near_json) = (of(&far), of(&near));
        for (name, value) in near_json.as_object().unwrap() {
            if name == "extra" {
                for (provider, fields) in value.as_object().unwrap() {
                    for (field, value) in fields.as_object().unwrap() {
                        expected["extra"][provider][field] = value.clone();
                    }
                }
            } else {
                expected[name] = value.clone();
            }
        }
        prop_assert_eq!(of(&over), expected);
        prop_assert_eq!(near.over(&Settings::default()), near.clone());
        prop_assert_eq!(Settings::default().over(&far), far);
        // All that a model supports stays; all else is named.
        let all = near.set();
        for setting in Setting::ALL.iter().copied().filter(|setting| all.has(*setting)) {
            let supported = SettingSet::ALL.without(setting);
            prop_assert_eq!(near.check(supported).unwrap_err().setting, setting);
            let (left, out) = near.clone().supported_by(supported);
            prop_assert_eq!(out, [setting]);
            prop_assert!(left.check(supported).is_ok());
            prop_assert_eq!(left.set(), all.without(setting));
        }
    }
}

#[test]
fn a_place_and_a_file_have_one_stored_form() {
    let sources = [
        (json!("https://example.com/a.png"), Source::Url("https://example.com/a.png".into())),
        // A provider rejects the scheme. A stored message keeps it.
        (json!("http:x"), Source::Url("http:x".into())),
        (json!("data:text/plain,Hi"), Source::Url("data:text/plain,Hi".into())),
        (json!("data:image/png;base64,%"), Source::Url("data:image/png;base64,%".into())),
        (
            json!("data:image/png;base64,AQID"),
            Source::Bytes { media_type: "image/png".into(), data: [1, 2, 3].into() },
        ),
        (
            json!("file-id:openai:file-1:2"),
            Source::File { provider: "openai".into(), id: "file-1:2".into() },
        ),
    ];
    for (stored, source) in sources {
        assert_eq!(serde_json::from_value::<Source>(stored.clone()).unwrap(), source);
        assert_eq!(serde_json::to_value(&source).unwrap(), stored);
    }
    let error = serde_json::from_value::<Source>(json!({"url": "a"})).unwrap_err();
    insta::assert_snapshot!(error, @"invalid type: map, expected an address, a `data:` URL or `file-id:PROVIDER:ID`");
}

#[test]
fn a_plain_text_is_stored_as_a_string_and_one_with_data_as_an_object() {
    let plain = json!({"text": "Hi!"});
    assert_eq!(serde_json::to_value(ReplyPart::text("Hi!")).unwrap(), plain);
    let signed = Text::from("Hi!").with_opaque(Opaque::new("gemini", json!({"signature": "s"})));
    let stored = serde_json::to_value(ReplyPart::Text(signed)).unwrap();
    insta::assert_snapshot!(stored, @r#"{"text":{"text":"Hi!","opaque":{"provider":"gemini","value":{"signature":"s"}}}}"#);
    let error = serde_json::from_value::<Text>(json!({"text": "Hi!", "opaqe": 1})).unwrap_err();
    insta::assert_snapshot!(error, @"unknown field `opaqe`, expected `text` or `opaque`");
}

#[test]
fn a_number_that_json_cannot_hold_is_no_setting() {
    for number in [f32::NAN, f32::INFINITY] {
        let error = Settings::default().with_top_p(number).check(SettingSet::ALL).unwrap_err();
        assert_eq!(error.setting, Setting::TopP);
        assert_eq!(error.to_string(), "the setting `top_p` is not a finite number");
    }
}

#[test]
fn an_unknown_setting_is_named() {
    let error = serde_json::from_str::<Settings>(r#"{"temprature": 1}"#).unwrap_err().to_string();
    assert!(
        error.starts_with("unknown field `temprature`, expected one of `temperature`"),
        "{error}"
    );
}

#[test]
fn a_url_that_looks_like_a_file_stays_a_url() {
    for url in ["file-id:openai:file-1", "url:x", "https://example.com/a.png"] {
        let source = Source::Url(url.to_owned());
        let json = serde_json::to_string(&source).unwrap();
        assert_eq!(serde_json::from_str::<Source>(&json).unwrap(), source);
    }
}

/// Replies that were stored before calls were marked.
#[test]
fn the_calls_of_a_stored_reply_that_was_cut_off_are_incomplete() {
    let stored = serde_json::json!({
        "parts": [{"call": {"id": "1", "name": "purge", "arguments": "{}"}}],
        "finish": "length",
    });
    let reply: Reply = serde_json::from_value(stored).unwrap();
    assert!(reply.tool_calls().all(|call| call.incomplete));
}

#[test]
fn a_malformed_call_is_known_in_every_spelling() {
    for (word, is_malformed) in [
        ("MALFORMED_FUNCTION_CALL", true),
        ("malformed_function_call", true),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", true),
        ("FinishReason.UNEXPECTED_TOOL_CALL", true),
        ("MalformedResponse", true),
        ("malformed-model-output", true),
        ("invalid_tool_call", true),
        ("TOO_MANY_TOOL_CALLS", false),
        ("tool_call", false),
        ("", false),
    ] {
        assert_eq!(Finish::Other(word.to_owned()).is_malformed_call(), is_malformed, "{word}");
    }
}

/// A server that parses the whole request would refuse it, and every later one.
#[test]
fn arguments_that_a_server_cannot_parse_are_sent_as_a_text() {
    let lists = |depth: usize| format!("{{\"a\":{}1{}}}", "[".repeat(depth), "]".repeat(depth));
    for (arguments, is_sent) in [
        (r#"{"place":1e300}"#.to_owned(), true),
        (r#"{"place":12345678901234567890123}"#.to_owned(), true),
        (r#"{"place":1e400}"#.to_owned(), false),
        (r#"{"place":[-1e400]}"#.to_owned(), false),
        (lists(60), true),
        (lists(120), false),
        (lists(130), false),
    ] {
        let in_place = object_of(&arguments);
        assert_eq!(in_place.is_none(), is_sent, "{arguments}");
        // The messages of a request are a few levels around the arguments.
        let sent = in_place.as_deref().unwrap_or(&arguments);
        let body = format!("{}{sent}{}", "[".repeat(10), "]".repeat(10));
        assert!(serde_json::from_str::<Value>(&body).is_ok(), "{body}");
    }
}

/// A stored run has megabytes of texts, and a failed test or a log shows them.
#[test]
fn a_result_is_shown_without_its_long_texts() {
    let call = ToolCall::new("1", "look", "{}");
    let mut result = ToolResult::new(&call, "word ".repeat(100_000));
    result.whole = Some("word ".repeat(1_000_000).into());
    result.value = Some(serde_json::json!({"words": "word ".repeat(100_000)}));
    let shown = format!("{result:?}");
    assert!(shown.len() < 4_000, "{} bytes", shown.len());
    assert!(shown.contains("word word …"), "{shown}");
    let short = ToolResult::new(&call, "The hall is empty.");
    assert!(format!("{short:?}").contains("\"The hall is empty.\""));
}
