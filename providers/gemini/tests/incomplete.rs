//! Calls of replies that were cut off are marked, so that nobody makes them.

use serde_json::{Value, json};
use toolwright_module::model::Finish;
use toolwright_module::{LanguageModel, Reply};

use crate::common::{Answer, Server, beside, hi, streamed};

/// Returns the reply of these chunks, whole and streamed.
async fn read(chunks: &[Value]) -> [Reply; 2] {
    let whole = Value::from(chunks.to_vec()).to_string();
    let stream: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    let server = Server::answering([Answer::json(whole), Answer::events(&stream, 64)]).await;
    let model = server.model();
    [model.generate(&hi()).await.unwrap(), streamed(&model, hi()).await.1.unwrap()]
}

fn chunk(call: &Value, reason: Option<&str>) -> Value {
    let parts = json!([{"functionCall": call}]);
    json!({"candidates": [{"content": {"parts": parts}, "finishReason": reason}],
        "usageMetadata": {"promptTokenCount": 1}})
}

fn end(reason: &str) -> Value {
    json!({"candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": reason}]})
}

#[tokio::test]
async fn a_call_is_complete_only_beside_stop() {
    for (reason, is_complete) in [
        ("STOP", true),
        ("MAX_TOKENS", false),
        ("MALFORMED_FUNCTION_CALL", false),
        ("UNEXPECTED_TOOL_CALL", false),
        ("MALFORMED_RESPONSE", false),
        ("TOO_MANY_TOOL_CALLS", false),
        ("MISSING_THOUGHT_SIGNATURE", false),
        ("OTHER", false),
        ("LANGUAGE", false),
        ("SAFETY", false),
        ("FINISH_REASON_UNSPECIFIED", false),
    ] {
        let calls = [json!({"name": "purge"}), json!({"name": "purge", "args": {"prefix": "t"}})];
        for call in calls {
            for reply in read(&[chunk(&call, None), end(reason)])
                .await
                .into_iter()
                .chain(read(&[chunk(&call, Some(reason))]).await)
            {
                let call = reply.tool_calls().next().unwrap();
                assert_eq!(!call.incomplete, is_complete, "{reason}: {call:?}");
            }
        }
    }
}

/// Gateways with this API send the words of others, in any case and with any separators.
#[tokio::test]
async fn a_word_in_another_spelling_is_that_word() {
    for (word, finish, is_complete) in [
        ("stop", Finish::Stop, true),
        ("tool_calls", Finish::Stop, true),
        ("Stop_Sequence", Finish::Stop, false),
        ("max_tokens", Finish::Length, false),
        ("MaxTokens", Finish::Length, false),
        ("length", Finish::Length, false),
        ("safety", Finish::Refused, false),
        ("prohibited-content", Finish::Refused, false),
    ] {
        let call = json!({"name": "purge"});
        // A later `stop` in any spelling does not replace a word for an incomplete reply.
        for chunks in [vec![chunk(&call, Some(word))], vec![chunk(&call, Some(word)), end("stop")]]
        {
            for reply in read(&chunks).await {
                let call = reply.tool_calls().next().unwrap();
                assert_eq!(reply.finish, finish, "{word}");
                assert_eq!(!call.incomplete, is_complete, "{word}: {call:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_call_whose_streamed_arguments_were_to_continue_is_incomplete() {
    let piece =
        |more: bool| json!([{"jsonPath": "$.prefix", "stringValue": "tm", "willContinue": more}]);
    let begun = || json!({"name": "purge", "willContinue": true});
    let cases = [
        // Nothing ends the call.
        (vec![begun()], false),
        (vec![begun(), json!({"partialArgs": piece(false), "willContinue": true})], false),
        (vec![begun(), json!({"partialArgs": piece(true), "willContinue": true})], false),
        (vec![json!({"name": "purge", "args": {"prefix": "t"}, "willContinue": true})], false),
        // The call ends and its string does not.
        (vec![begun(), json!({"partialArgs": piece(true)})], false),
        (
            vec![begun(), json!({"partialArgs": piece(true), "willContinue": true}), json!({})],
            false,
        ),
        // Another call begins.
        (vec![begun(), json!({"name": "look", "args": {}})], false),
        // Another value follows, and nothing ends the string.
        (
            vec![
                begun(),
                json!({"partialArgs": [piece(true)[0], {"jsonPath": "$.dry", "boolValue": true}]}),
            ],
            false,
        ),
        (
            vec![
                begun(),
                json!({"partialArgs": piece(true), "willContinue": true}),
                json!({"partialArgs": [{"jsonPath": "$.dry", "boolValue": true}], "willContinue": true}),
                json!({}),
            ],
            false,
        ),
        // The string ends after another value.
        (
            vec![
                begun(),
                json!({"partialArgs": [piece(true)[0], {"jsonPath": "$.dry", "boolValue": true}, piece(false)[0]], "willContinue": true}),
                json!({}),
            ],
            true,
        ),
        // The two ends that are recorded.
        (vec![begun(), json!({"partialArgs": piece(false)})], true),
        (
            vec![begun(), json!({"partialArgs": piece(false), "willContinue": true}), json!({})],
            true,
        ),
        (vec![begun(), json!({})], true),
    ];
    for (calls, is_complete) in cases {
        let mut chunks: Vec<_> = calls.iter().map(|call| chunk(call, None)).collect();
        chunks.push(end("STOP"));
        for reply in read(&chunks).await {
            assert_eq!(reply.finish, Finish::Stop);
            let call = reply.tool_calls().next().unwrap();
            assert_eq!(!call.incomplete, is_complete, "{calls:?}: {call:?}");
        }
    }
}

#[tokio::test]
async fn a_later_stop_does_not_make_a_call_complete() {
    let chunks = [chunk(&json!({"name": "purge"}), Some("MAX_TOKENS")), end("STOP")];
    for reply in read(&chunks).await {
        assert!(reply.tool_calls().all(|call| call.incomplete));
    }
}

#[tokio::test]
async fn a_blocked_reply_has_the_apis_reason() {
    let blocked = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 1}});
    for reply in read(&[blocked]).await {
        assert_eq!(
            (reply.finish, reply.reason.as_deref()),
            (Finish::Refused, Some("PROHIBITED_CONTENT"))
        );
    }
    let mut filtered = end("SAFETY");
    filtered["candidates"][0]["finishMessage"] = json!("It was unsafe.");
    for reply in read(&[filtered]).await {
        assert_eq!(reply.reason.as_deref(), Some("SAFETY: It was unsafe."));
    }
}

#[tokio::test]
async fn a_piece_of_arguments_with_two_values_is_unclear() {
    let piece = json!({"jsonPath": "$.dry", "boolValue": false, "stringValue": ""});
    let chunks = [chunk(&json!({"name": "purge", "partialArgs": [piece]}), None), end("STOP")];
    let server = Server::answering([Answer::json(Value::from(chunks.to_vec()).to_string())]).await;
    let error = server.model().generate(&hi()).await.unwrap_err();
    assert!(error.to_string().contains("two values"), "{error}");
}

/// A server that cuts a text inside a character sends half of it. The API's texts have U+FFFD for it.
#[tokio::test]
async fn a_call_with_half_a_character_in_its_arguments_is_incomplete() {
    let partial = |path: &str| json!({"name": "purge", "partialArgs": [{"jsonPath": "$.path", "stringValue": path}]});
    let whole = |path: &str| json!({"name": "purge", "args": {"path": path}});
    for (path, is_complete) in [("HALF", false), ("\u{fffd}", true), ("\u{1f600}", true)] {
        for call in [partial(path), whole(path)] {
            let chunk = chunk(&call, Some("STOP")).to_string().replace("HALF", "\\ud83d");
            let server = Server::answering([
                Answer::json(&*chunk),
                Answer::json(format!("[{chunk}]")),
                Answer::events(&format!("data: {chunk}\n\n"), 64),
            ])
            .await;
            let model = server.model();
            let replies = [
                model.generate(&hi()).await.unwrap(),
                model.generate(&hi()).await.unwrap(),
                streamed(&model, hi()).await.1.unwrap(),
            ];
            for reply in replies {
                let call = reply.tool_calls().next().unwrap();
                assert_eq!(!call.incomplete, is_complete, "{call:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_reply_that_breaks_after_its_reason_but_within_more_content_is_cut_off() {
    let text = |text: &str, reason: Option<&str>| json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": reason}]});
    for (chunks, is_whole) in [
        (vec![text("It is", Some("STOP")), text(" not", None)], false),
        (vec![text("It is", Some("STOP")), chunk(&json!({"name": "purge"}), None)], false),
        (vec![text("It is", Some("STOP")), text(" not", Some("STOP"))], true),
        (vec![text("It is", Some("STOP"))], true),
    ] {
        let events: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
        let server = Server::answering([Answer::events(&events, 4096).then_reset()]).await;
        let reply = streamed(&server.model(), hi()).await.1;
        assert_eq!(reply.is_ok(), is_whole, "{events}: {reply:?}");
    }
}

/// A gateway may report a blocked prompt beside its usual reason.
#[tokio::test]
async fn a_call_beside_a_blocked_prompt_is_incomplete() {
    let blocked = || json!({"promptFeedback": {"blockReason": "SAFETY"}});
    let mut beside = chunk(&json!({"name": "purge", "args": {}}), Some("STOP"));
    beside["promptFeedback"] = blocked()["promptFeedback"].clone();
    let call = |reason| chunk(&json!({"name": "purge", "args": {}}), reason);
    for chunks in [
        vec![beside],
        vec![blocked(), call(Some("STOP"))],
        vec![call(None), blocked(), end("STOP")],
        vec![call(None), blocked(), end("MAX_TOKENS")],
    ] {
        for reply in read(&chunks).await {
            assert_eq!(reply.finish, Finish::Refused, "{chunks:?}");
            assert!(reply.reason.as_deref().is_some_and(|why| why.contains("SAFETY")));
            assert!(reply.tool_calls().all(|call| call.incomplete || !reply.finish.is_complete()));
        }
    }
}

/// The reply has these parts as they are written.
async fn of_parts(parts: &str, beside: &str) -> [toolwright_module::Result<Reply>; 2] {
    ended(parts, &format!(r#""finishReason":"STOP"{beside}"#)).await
}

async fn ended(parts: &str, end: &str) -> [toolwright_module::Result<Reply>; 2] {
    let chunk = format!(r#"{{"candidates":[{{"content":{{"parts":[{parts}]}},{end}}}]}}"#);
    let server = Server::answering([
        Answer::json(&*chunk),
        Answer::events(&format!("data: {chunk}\n\n"), 64),
    ])
    .await;
    let model = server.model();
    [model.generate(&hi()).await, streamed(&model, hi()).await.1]
}

#[tokio::test]
async fn a_part_with_a_field_twice_is_an_error() {
    for part in [
        r#"{"functionCall":{"name":"purge","args":{"prefix":"safe"}},"functionCall":{"name":"purge"}}"#,
        r#"{"functionCall":{"name":"look","name":"purge","args":{}}}"#,
        r#"{"text":"one","text":"two"}"#,
        r#"{"thought":true,"text":"one","thought":false}"#,
        r#"{"text":"one","thoughtSignature":"a","thoughtSignature":"b"}"#,
        r#"{"inlineData":{"mimeType":"image/png","data":"AQID","data":"BAUG"}}"#,
        r#"{"functionCall":{"name":"look","partialArgs":[{"jsonPath":"$.n","numberValue":1,"numberValue":2}]}}"#,
        r#"{"functionCall":{"name":"look","args":{"n":1,"n":2},"partialArgs":[{"jsonPath":"$.m","boolValue":true}]}}"#,
    ] {
        for reply in of_parts(part, "").await {
            assert!(reply.is_err(), "{part}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn arguments_under_another_name_are_read_or_the_call_is_not_made() {
    let read = Some(r#"{"prefix":"t"}"#);
    for (call, arguments) in [
        (r#"{"name":"purge","arguments":{"prefix":"t"}}"#, read),
        (r#"{"name":"purge","parameters":{"prefix":"t"}}"#, read),
        (r#"{"name":"purge","args":{},"input":{"prefix":"t"}}"#, read),
        (r#"{"name":"purge","kwargs":{"prefix":"t"}}"#, None),
        (r#"{"name":"purge"}"#, Some("{}")),
    ] {
        for reply in of_parts(&format!(r#"{{"functionCall":{call}}}"#), "").await {
            let reply = reply.unwrap();
            let made = reply.tool_calls().find(|call| !call.incomplete);
            assert_eq!(made.map(|call| &*call.arguments), arguments, "{call}");
        }
    }
}

#[tokio::test]
async fn a_call_beside_which_its_arguments_may_stand_is_not_made() {
    for (args, beside, is_made) in beside::calls() {
        let mut call = json!({"name": "purge", "args": args});
        call.as_object_mut().unwrap().extend(beside);
        for reply in of_parts(&json!({"functionCall": call}).to_string(), "").await {
            let reply = reply.unwrap();
            let made = reply.tool_calls().find(|call| !call.incomplete);
            assert_eq!(made.is_some(), is_made, "{call}");
        }
    }
    // Gateways spell the fields of pieces as the API's own description does.
    for call in [
        r#"{"name":"purge","args":{},"partial_args":[{"json_path":"$.prefix","string_value":"a"}]}"#,
        r#"{"name":"purge","args":{"prefix":"a"},"will_continue":true}"#,
    ] {
        for reply in of_parts(&format!(r#"{{"functionCall":{call}}}"#), "").await {
            let made = reply.is_ok_and(|reply| reply.tool_calls().any(|call| !call.incomplete));
            assert!(!made, "{call}");
        }
    }
}

/// A gateway that runs the tools itself sends the results, too.
#[tokio::test]
async fn a_call_with_its_result_in_the_reply_is_not_made_again() {
    for (call, result, is_read) in [
        (r#"{"name":"purge","args":{}}"#, r#"{"name":"purge","response":{}}"#, false),
        (r#"{"id":"1","name":"purge"}"#, r#"{"id":"1","name":"purge","response":{}}"#, false),
        (r#"{"id":"1","name":"purge"}"#, r#"{"id":"2","name":"purge","response":{}}"#, true),
        (r#"{"name":"purge","args":{}}"#, r#"{"name":"look","response":{}}"#, true),
    ] {
        let parts = format!(
            r#"{{"functionCall":{call}}},{{"functionResponse":{result}}},{{"text":"Done."}}"#
        );
        for reply in of_parts(&parts, "").await {
            assert_eq!(reply.is_ok(), is_read, "{reply:?}");
        }
    }
}

/// Some servers count from 1. Of several candidates, the one with the index 0 is the reply.
#[tokio::test]
async fn the_only_candidate_is_the_reply_whatever_its_index() {
    let candidate = |index: u64| json!({"index": index, "content": {"parts": [{"text": format!("{index}")}]}, "finishReason": "STOP"});
    for (indexes, text) in [(vec![1], "1"), (vec![1, 0], "0"), (vec![2, 1], "2")] {
        let candidates: Vec<_> = indexes.into_iter().map(candidate).collect();
        let body = json!({"candidates": candidates}).to_string();
        let events = Answer::events(&format!("data: {body}\n\n"), 64);
        let server = Server::answering([Answer::json(body), events]).await;
        let model = server.model();
        for reply in [model.generate(&hi()).await, streamed(&model, hi()).await.1] {
            assert_eq!(reply.unwrap().to_text(), text);
        }
    }
    // What is shown cannot be taken back.
    let event = |candidate: Value| format!("data: {}\n\n", json!({"candidates": [candidate]}));
    let events = [candidate(1), candidate(0)].map(event).concat();
    let server = Server::answering([Answer::events(&events, 64)]).await;
    let reply = streamed(&server.model(), hi()).await.1;
    assert!(reply.unwrap_err().to_string().contains("after another one"));
}

/// A filter, or a call that the server could not read, may be told only there.
#[tokio::test]
async fn a_call_beside_a_mark_of_a_filter_or_a_fault_is_not_made() {
    let call = r#"{"functionCall":{"name":"purge","args":{}}}"#;
    for (beside, is_made) in [
        (r#""safetyRatings":[{"category":"HATE","blocked":true}]"#, false),
        (r#""safetyRatings":[{"category":"HATE","blocked":false}]"#, true),
        (r#""finishMessage":"Malformed function call: print(default_api.purge(""#, false),
        (r#""finishMessage":"Unexpected tool call: purge""#, false),
        (r#""finishMessage":"Model generated function call(s).""#, true),
    ] {
        for reply in of_parts(call, &format!(",{beside}")).await {
            let reply = reply.unwrap();
            let call = reply.tool_calls().next().unwrap();
            assert_eq!(!call.incomplete && reply.finish.is_complete(), is_made, "{beside}");
            let says_why = reply.reason.as_deref().is_some_and(|why| why.contains("HATE"));
            assert_eq!(says_why, reply.finish == Finish::Refused, "{beside}");
        }
    }
}

#[tokio::test]
async fn a_call_inside_a_thought_is_not_made_and_keeps_its_mark() {
    let part = r#"{"thought":true,"functionCall":{"name":"purge","args":{}}}"#;
    for reply in of_parts(part, "").await {
        let reply = reply.unwrap();
        let call = reply.tool_calls().next().unwrap();
        let opaque = call.opaque.as_ref().map(|opaque| &opaque.value);
        assert!(call.incomplete && opaque.is_some_and(|fields| fields["thought"] == true));
    }
}

/// A server that sends a call again at the end must not have it made twice.
#[tokio::test]
async fn a_call_that_stands_twice_is_one_call() {
    let call = r#"{"functionCall":{"id":"1","name":"purge","args":{"prefix":"t"}}}"#;
    for reply in of_parts(&format!("{call},{call}"), "").await {
        assert_eq!(reply.unwrap().tool_calls().count(), 1);
    }
    let call = r#"{"function_call":{"name":"purge","args":{"prefix":"t"}}}"#;
    for reply in of_parts(call, "").await {
        assert_eq!(reply.unwrap().tool_calls().count(), 1, "the name in Protobuf");
    }
}

#[tokio::test]
async fn a_reply_that_ended_for_a_call_or_did_not_end_is_an_error() {
    let text = r#"{"text":"I delete it now."}"#;
    for word in ["tool_calls", "error", "failed", "cancelled"] {
        for reply in ended(text, &format!(r#""finishReason":"{word}""#)).await {
            assert!(reply.is_err(), "{word}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn a_call_with_two_sets_of_arguments_is_not_whole() {
    for (other, is_whole) in [
        (json!({"prefix": "b"}), false),
        (json!({"prefix": "a"}), true),
        (json!({}), true),
        (Value::Null, true),
    ] {
        let call = json!({"name": "purge", "args": {"prefix": "a"}, "arguments": other});
        for reply in read(&[chunk(&call, Some("STOP"))]).await {
            let call = reply.tool_calls().next().unwrap();
            assert_eq!(call.incomplete, !is_whole, "{other}: {call:?}");
        }
    }
}

/// Part of an answer must not be lost because a gateway has another name for it.
#[tokio::test]
async fn a_text_under_another_name_is_an_error() {
    for (part, answer) in [
        (r#"{"text":"but no."}"#, Some("Yes, but no.")),
        (r#"{"text":"but no.","type":"text"}"#, Some("Yes, but no.")),
        (r#"{"content":"but no."}"#, None),
        (r#"{"value":"but no."}"#, None),
        (r#"{"Text":"but no."}"#, None),
        (r#"{"text":"","content":"but no."}"#, None),
        (r#"{"parts":[{"text":"but no."}]}"#, None),
        (r#"{"said":"but no."}"#, None),
        (r#"{"text":"but no.","type":"tool_result"}"#, None),
        (r#"{"text":"hm","type":"thinking"}"#, Some("Yes, ")),
        (r#"{"text":"hm","thought":true}"#, Some("Yes, ")),
        (r#"{"thoughtSignature":"c2ln"}"#, Some("Yes, ")),
        (r#"{"text":"","thoughtSignature":"c2ln"}"#, Some("Yes, ")),
        (r#"{"inlineData":{"mimeType":"image/png","data":"AAAA"}}"#, Some("Yes, ")),
        (r#"{"hologram":{"depth":3}}"#, Some("Yes, ")),
    ] {
        for reply in of_parts(&format!(r#"{{"text":"Yes, "}},{part}"#), "").await {
            let found = reply.ok().map(|reply| reply.to_text());
            assert_eq!(found.as_deref(), answer, "{part}");
        }
    }
}

#[tokio::test]
async fn content_that_is_not_a_list_of_parts_is_an_error() {
    for content in [r#""Yes.""#, r#"{"text":"Yes."}"#, r#"{"content":"Yes."}"#, r#"["Yes."]"#] {
        let chunk = format!(r#"{{"candidates":[{{"content":{content},"finishReason":"STOP"}}]}}"#);
        let events = format!("data: {chunk}\n\n");
        let server = Server::answering([Answer::json(chunk), Answer::events(&events, 64)]).await;
        let model = server.model();
        for reply in [model.generate(&hi()).await, streamed(&model, hi()).await.1] {
            assert!(reply.is_err(), "{content}: {reply:?}");
        }
    }
}

/// The total decides whether a gateway counts the thoughts in the answer.
#[tokio::test]
async fn thoughts_count_once() {
    for (total, written) in [(json!(150), 50), (json!(190), 90), (Value::Null, 90)] {
        let mut chunk = end("STOP");
        chunk["candidates"][0]["content"]["parts"][0]["text"] = json!("a");
        chunk["usageMetadata"] = json!({"promptTokenCount": 100, "candidatesTokenCount": 50,
            "thoughtsTokenCount": 40, "totalTokenCount": total});
        for reply in read(&[chunk.clone()]).await {
            let found = (reply.usage.output_tokens, reply.usage.reasoning_tokens);
            assert_eq!((found, reply.usage.incomplete), ((written, 40), false), "{total}");
        }
    }
}

#[tokio::test]
async fn arguments_with_too_many_levels_are_the_models_to_correct() {
    let deep = (0..400).fold(json!(1), |value, _| json!({"prefix": value}));
    for name in ["args", "arguments"] {
        for beside in [json!({}), json!({"trace": "t-1"})] {
            let mut call = json!({"name": "purge", name: deep});
            call.as_object_mut().unwrap().extend(beside.as_object().unwrap().clone());
            for reply in read(&[chunk(&call, Some("STOP"))]).await {
                let call = reply.tool_calls().next().unwrap();
                assert_eq!((&*call.name, call.incomplete), ("purge", false));
                assert_eq!(call.arguments, deep.to_string());
            }
        }
    }
}
