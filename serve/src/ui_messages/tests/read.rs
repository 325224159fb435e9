//! Bodies of requests.

use insta::assert_snapshot;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;
use toolwright_module::approval::Decision;
use toolwright_module::message::{Audio, Document, Image, Part};

use super::*;
use crate::protocol::{Answered, Incoming, Said};
use crate::ui_messages::request::read;

fn user(id: &str, text: &str) -> Value {
    json!({ "id": id, "role": "user", "parts": [{ "type": "text", "text": text }] })
}

fn assistant(id: &str, parts: Value) -> Value {
    json!({ "id": id, "role": "assistant", "parts": parts })
}

fn body(messages: Value, trigger: &str, message_id: Option<&str>) -> String {
    let mut body = json!({ "id": "chat-1", "messages": messages, "trigger": trigger });
    if let Some(id) = message_id {
        body["messageId"] = json!(id);
    }
    body.to_string()
}

fn submitted(messages: Value) -> Incoming {
    read(body(messages, "submit-message", None).as_bytes()).unwrap()
}

fn said(id: &str, text: &str, replaces: bool) -> Option<Said> {
    let (id, parts) = (Some(id.to_owned()), vec![Part::from(text)]);
    Some(Said { id, parts, replaces, ..Said::default() })
}

#[test]
fn the_last_message_is_what_is_new() {
    let messages = json!([user("m1", "Hi"), assistant("a1", json!([])), user("m2", "And?")]);
    let incoming = submitted(messages);
    assert_eq!(incoming.conversation, "chat-1");
    assert_eq!(incoming.message, said("m2", "And?", false));
    assert_eq!((incoming.earlier, incoming.again), (1, None));
    assert_eq!(incoming.decisions, []);
}

#[test]
fn the_last_message_alone_is_enough() {
    let body = json!({ "id": "chat-1", "message": user("m2", "And?") }).to_string();
    let incoming = read(body.as_bytes()).unwrap();
    assert_eq!((incoming.message, incoming.earlier), (said("m2", "And?", false), 0));
}

#[test]
fn an_edited_message_replaces_the_earlier_one() {
    let messages = json!([user("m1", "Hi"), assistant("a1", json!([])), user("m2", "Or?")]);
    let body = body(messages, "submit-message", Some("m2"));
    assert_eq!(read(body.as_bytes()).unwrap().message, said("m2", "Or?", true));
}

#[test]
fn a_regenerated_answer_is_that_of_the_last_message() {
    let messages = json!([user("m1", "Hi"), assistant("a1", json!([])), user("m2", "And?")]);
    for message_id in [None, Some("a2"), Some("m2")] {
        let body = body(messages.clone(), "regenerate-message", message_id);
        let incoming = read(body.as_bytes()).unwrap();
        assert_eq!(incoming.again.as_deref(), Some("m2"));
        assert_eq!((incoming.message, incoming.earlier), (said("m2", "And?", true), 1));
    }
}

fn responded(approved: bool, reason: Option<&str>) -> Value {
    let mut approval = json!({ "id": "q1", "approved": approved });
    if let Some(reason) = reason {
        approval["reason"] = json!(reason);
    }
    let part = json!({
        "type": "dynamic-tool", "toolCallId": "t1", "toolName": "pay", "input": {},
        "state": "approval-responded", "approval": approval,
    });
    // A question that was not answered is left out.
    let open = json!({
        "type": "tool-pay", "toolCallId": "t2", "input": {},
        "state": "approval-requested", "approval": { "id": "q2" },
    });
    assistant("a1", json!([{ "type": "step-start" }, part, open]))
}

#[test]
fn answers_are_in_the_parts_of_calls() {
    let answer = |decision| vec![Answered { question: "q1".to_owned(), decision }];
    let cases = [
        (responded(true, None), Decision::Approve),
        (responded(false, Some("Not today.")), Decision::deny("Not today.")),
        (responded(false, Some(" ")), Decision::deny("The user refused this call.")),
    ];
    for (message, decision) in cases {
        let incoming = submitted(json!([user("m1", "Pay"), message]));
        assert_eq!(incoming.decisions, answer(decision));
        assert_eq!((incoming.message, incoming.earlier), (None, 1));
    }
    // The client names the message with the answers, which may not be the last.
    let messages = json!([user("m1", "Pay"), responded(true, None), user("m2", "And?")]);
    let named = read(body(messages.clone(), "submit-message", Some("a1")).as_bytes()).unwrap();
    assert_eq!((named.decisions, named.message), (answer(Decision::Approve), None));
    // With a new message, what is left of earlier answers does not count.
    let both = submitted(messages);
    assert_eq!(both.decisions, []);
    assert_eq!(both.message, said("m2", "And?", false));
}

#[test]
fn files_are_parts() {
    let file = |media_type: &str, url: &str| json!({ "type": "file", "mediaType": media_type, "url": url });
    let parts = json!([
        file("image/png", "data:image/png;base64,AQID"),
        file("image", "data:image/jpeg;base64,AQID"),
        file("image/*", "https://example.com/a.png"),
        file("text/plain", "data:text/plain;charset=utf-8;base64,SGk="),
        file("application/pdf", "https://example.com/a.pdf"),
        file("audio/mpeg", "data:audio/mpeg;base64,AQID"),
        { "type": "data-place", "data": { "lat": 1 } },
        { "type": "text", "text": "Look" },
    ]);
    let incoming = submitted(json!([{ "id": "m1", "role": "user", "parts": parts }]));
    let expected: [Part; 7] = [
        Image::bytes("image/png", [1, 2, 3]).into(),
        Image::bytes("image/jpeg", [1, 2, 3]).into(),
        Image::url("https://example.com/a.png").into(),
        Document::bytes("text/plain", *b"Hi").into(),
        Document::url("https://example.com/a.pdf").into(),
        Audio::bytes("audio/mpeg", [1, 2, 3]).into(),
        "Look".into(),
    ];
    assert_eq!(incoming.message.unwrap().parts, expected);
}

#[test]
fn errors_say_what_to_send() {
    let file = |media_type: &str, url: &str| {
        let part = json!({ "type": "file", "mediaType": media_type, "url": url });
        let message = json!({ "id": "m1", "role": "user", "parts": [part] });
        body(json!([message]), "submit-message", None)
    };
    let hi = || user("m1", "Hi");
    let cases = [
        "no json".to_owned(),
        json!({ "messages": [hi()] }).to_string(),
        json!({ "id": "", "messages": [hi()] }).to_string(),
        body(json!([]), "submit-message", None),
        body(json!([hi()]), "resume-stream", None),
        body(json!([hi()]), "submit-message", Some("m9")),
        body(json!([hi(), assistant("a1", json!([]))]), "submit-message", None),
        body(json!([hi(), assistant("a1", json!([]))]), "regenerate-message", Some("a1")),
        body(json!([user("", "Hi")]), "submit-message", None),
        body(json!([user("m1", "")]), "submit-message", None),
        file("image/png", "blob:https://example.com/1"),
        file("image/png", "file:///etc/passwd"),
        file("image/png", "data:image/png,abc"),
        file("image/png", "data:image/png;base64,***"),
        file("video/mp4", "data:video/mp4;base64,AQID"),
        file("", ""),
    ];
    let errors = cases.map(|body| read(body.as_bytes()).unwrap_err().to_string());
    assert_snapshot!(errors.join("\n"), @r#"
    the body is not that of the AI SDK's `DefaultChatTransport`: expected ident at line 1 column 2; send `id`, `messages`, `trigger` and `messageId`
    the body is not that of the AI SDK's `DefaultChatTransport`: missing field `id` at line 1 column 78; send `id`, `messages`, `trigger` and `messageId`
    `id` is empty; it names the conversation
    `messages` is empty; send the messages of the conversation, or the last one as `message`
    the body is not that of the AI SDK's `DefaultChatTransport`: unknown variant `resume-stream`, expected `submit-message` or `regenerate-message` at line 1 column 117; send `id`, `messages`, `trigger` and `messageId`
    `messageId` is `m9`, and no message has this id
    the last message is of the assistant and answers no question; send a message of the user, or tool parts in the state `approval-responded` (results of tools that run in the page are not supported)
    the last message must be of the user when an answer is regenerated
    the last message has no `id`; `useChat` gives each message one
    the last message has neither text nor files
    the file in part 1 of the last message: the URL of an attachment must begin with `data:`, `https:` or `http:`
    the file in part 1 of the last message: the URL of an attachment must begin with `data:`, `https:` or `http:`
    the file in part 1 of the last message: the `data:` URL of an attachment must be in base64
    the file in part 1 of the last message: the base64 of an attachment is not valid
    the file in part 1 of the last message: an attachment needs the media type of an image, a sound or a document, such as `image/png` or `application/pdf`
    the file in part 1 of the last message: the URL of an attachment must begin with `data:`, `https:` or `http:`
    "#);
}

fn any_part() -> impl Strategy<Value = Value> {
    let kinds =
        vec!["text", "file", "step-start", "dynamic-tool", "tool-pay", "data-x", "reasoning"];
    let urls = vec!["", "data:,", "data:;base64,AQID", "https://", "data:image/png;base64,*"];
    let types = vec!["", "image", "image/*", "text/plain", "video/mp4", "/"];
    let states = vec!["approval-responded", "approval-requested", "output-available", "done"];
    let approval = prop::option::of((any::<Option<bool>>(), any::<bool>()));
    (select(kinds), select(urls), select(types), select(states), approval).prop_map(
        |(kind, url, media_type, state, approval)| {
            let approval = approval.map(|(approved, is_automatic)| {
                json!({ "id": "q1", "approved": approved, "isAutomatic": is_automatic })
            });
            json!({
                "type": kind, "url": url, "mediaType": media_type, "state": state, "text": url,
                "approval": approval,
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_conversation_is_read_or_refused(
        messages in vec((select(vec!["user", "assistant", "system"]), vec(any_part(), 0..4)), 0..5),
        trigger in select(vec!["submit-message", "regenerate-message"]),
        named in prop::option::of(0..5_usize),
    ) {
        let messages: Vec<_> = messages.into_iter().enumerate().map(|(nth, (role, parts))| {
            json!({ "id": format!("m{nth}"), "role": role, "parts": parts })
        }).collect();
        let users = messages.iter().filter(|message| message["role"] == "user").count();
        let named = named.map(|nth| format!("m{nth}"));
        let body = body(json!(messages), trigger, named.as_deref());
        let Ok(incoming) = read(body.as_bytes()) else { return Ok(()) };
        // There is one thing to do.
        prop_assert_ne!(incoming.message.is_some(), !incoming.decisions.is_empty());
        match incoming.message {
            Some(said) => {
                prop_assert_eq!(incoming.earlier, users - 1);
                prop_assert_eq!(incoming.again.is_some(), trigger == "regenerate-message");
                prop_assert!(!said.parts.is_empty() || incoming.again.is_some());
                prop_assert_eq!(&said.id, &incoming.again.or_else(|| said.id.clone()));
            }
            None => prop_assert_eq!((incoming.earlier, incoming.again), (users, None)),
        }
    }
}
