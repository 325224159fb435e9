//! Retries: an answer that does not fit is sent back with its faults.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_module::budget::{Budget, Ledger};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::message::{Opaque, ReplyPart};
use toolwright_module::model::{Capabilities, Finish, Usage};
use toolwright_module::{
    ChainOfThought, Context, Error, Message, Module, Predict, Reply, Signature, ToolCall,
};

use crate::support::{SUMMARY, Summarize, calling, finish, plain, replies, structured, summarize};

/// An answer with two faults.
const WRONG: &str = r#"{"sentence": 5, "topics": {"a": 1}}"#;

async fn asked_again(capabilities: Capabilities, answers: [Reply; 2]) -> String {
    let (model, asked) = replies(capabilities, answers);
    let module = Predict::<Summarize>::new(model).unwrap();
    assert_eq!(module.call(summarize(), &Context::default()).await.unwrap().topics, ["weather"]);
    let [one, two] = &asked.requests()[..] else { panic!("asked twice") };
    // The old messages are unchanged; the new ones follow.
    let same = one.messages.len();
    assert_eq!(one.messages[..], two.messages[..same]);
    assert_eq!((&one.tools, &one.output), (&two.tools, &two.output));
    let added = two.messages[same..].iter().cloned();
    crate::support::show(&toolwright_module::Request::new(added))
}

#[tokio::test]
async fn all_faults_are_sent_back_in_every_mode() {
    let text = || [Reply::text(WRONG), Reply::text(SUMMARY)];
    insta::assert_snapshot!("again_prompted", asked_again(plain(), text()).await);
    insta::assert_snapshot!("again_beside_a_schema", asked_again(structured(), text()).await);
    // Providers reject a call without a result.
    let calls = [finish(WRONG), finish(SUMMARY)];
    insta::assert_snapshot!("again_by_calling", asked_again(calling(), calls).await);
    // A text answer in tool mode has no call to pair a result with.
    insta::assert_snapshot!("again_by_calling_after_text", asked_again(calling(), text()).await);
}

#[tokio::test]
async fn a_call_of_another_tool_is_sent_back_as_a_fault() {
    let other = || ToolCall::new("call_1", "summarize\n", SUMMARY);
    let right = || ToolCall::new("call_2", "finish", SUMMARY);
    let alone = [Reply::calls([other()]), finish(SUMMARY)];
    insta::assert_snapshot!("again_after_another_tool", asked_again(calling(), alone).await);
    let both = [Reply::calls([other(), right()]), finish(SUMMARY)];
    insta::assert_snapshot!("again_after_another_tool_too", asked_again(calling(), both).await);
}

#[tokio::test]
async fn two_different_answers_are_rejected_and_both_calls_get_a_result() {
    let one = ToolCall::new("call_1", "finish", SUMMARY);
    let other = ToolCall::new("call_2", "finish", SUMMARY.replace("rained", "snowed"));
    let answers = [Reply::calls([one, other]), finish(SUMMARY)];
    insta::assert_snapshot!(asked_again(calling(), answers).await);
}

#[tokio::test]
async fn the_same_answer_twice_in_other_spacing_is_one_answer() {
    let one = ToolCall::new("call_1", "finish", SUMMARY);
    let value: serde_json::Value = serde_json::from_str(SUMMARY).unwrap();
    let other = ToolCall::new("call_2", "finish", format!("{value:#}"));
    let (model, asked) = replies(calling(), [Reply::calls([one, other])]);
    Predict::<Summarize>::new(model).unwrap().call(summarize(), &Context::default()).await.unwrap();
    assert_eq!(asked.requests().len(), 1);
}

#[tokio::test]
async fn a_custom_call_is_not_sent_back() {
    let custom = ToolCall::custom("call_1", "finish", "text");
    let parts = [ReplyPart::text("Look:"), ReplyPart::Call(custom)];
    let (model, asked) = replies(calling(), [Reply::new(parts), finish(SUMMARY)]);
    Predict::<Summarize>::new(model).unwrap().call(summarize(), &Context::default()).await.unwrap();
    let again = &asked.requests()[1].messages[2..];
    assert!(matches!(&*again[0], Message::Assistant { parts } if parts.len() == 1));
    assert!(matches!(&*again[1], Message::User { .. }));
    assert_eq!(again.len(), 2);
}

fn costing(text: &str, input: u64) -> Reply {
    Reply::text(text).with_usage(Usage::new(input, 1))
}

#[tokio::test]
async fn an_exhausted_ledger_ends_the_attempts_early_with_all_answers() {
    let answers = [costing("one", 10), costing("two", 20), costing(SUMMARY, 30)];
    // The usage of two attempts plus the reservation of a third exceeds the budget.
    let output = Budget { output_tokens: Some(2 + 4096 - 1), ..Budget::default() };
    for budget in [Budget { model_calls: Some(2), ..Budget::default() }, output] {
        let (model, asked) = replies(plain(), answers.clone());
        let module = Predict::<Summarize>::new(model).unwrap().with_attempts(9);
        let ledger = Ledger::new(budget);
        let cx = Context::default().with_ledger(ledger.child());
        let error: Error = module.call(summarize(), &cx).await.unwrap_err();
        assert_eq!((error.stage(), error.audience()), (Stage::Limit, Audience::Run));
        assert_eq!(error.raws().collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(error.usage(), Usage::new(30, 2));
        assert_eq!((asked.requests().len(), ledger.spent().usage), (2, Usage::new(30, 2)));
    }
    // With a larger budget there is a third attempt.
    let (model, _) = replies(plain(), answers);
    let module = Predict::<Summarize>::new(model).unwrap().with_attempts(9);
    let budget =
        Budget { model_calls: Some(3), output_tokens: Some(2 + 4096), ..Budget::default() };
    let cx = Context::default().with_ledger(Ledger::new(budget));
    module.call(summarize(), &cx).await.unwrap();
}

#[tokio::test]
async fn an_error_keeps_the_calls_unchanged() {
    let other = Reply::calls([
        ToolCall::new("call_1", "look", "{}"),
        ToolCall::new("call_2", "finish", SUMMARY),
    ]);
    let (model, _) = replies(calling(), [finish(WRONG), other, Reply::text("I give up.")]);
    let module = ChainOfThought::<Summarize>::new(model).unwrap().with_attempts(3);
    let error = module.call(summarize(), &Context::default()).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Validation);
    let look = format!("look({{}})\nfinish({SUMMARY})");
    assert_eq!(error.raws().collect::<Vec<_>>(), [WRONG, &look, "I give up."]);
}

#[tokio::test]
async fn an_empty_reply_is_not_an_answer_even_if_all_fields_are_optional() {
    for capabilities in [plain(), structured(), calling()] {
        for nothing in [Reply::new([]), Reply::text(" "), Reply::text("null"), finish("")] {
            let (model, _) = replies(capabilities, [nothing.clone(), nothing]);
            let module = Predict::<FindName>::new(model).unwrap();
            let error = module
                .call(FindName { text: String::new() }, &Context::default())
                .await
                .unwrap_err();
            assert_eq!(error.stage(), Stage::Validation);
        }
        // A call is accepted even if text was requested.
        let (model, _) = replies(capabilities, [finish(r#"{"name": "Kate"}"#)]);
        let module = Predict::<FindName>::new(model).unwrap();
        let found =
            module.call(FindName { text: String::new() }, &Context::default()).await.unwrap();
        assert_eq!(found, Found { name: Some("Kate".to_owned()) });
    }
}

/// Find the name of whoever complains.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct FindName {
    text: String,
}

/// Every object fits this output.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Found {
    name: Option<String>,
}

impl Signature for FindName {
    type Output = Found;
}

fn find_name() -> FindName {
    FindName { text: "Kate complains.".to_owned() }
}

fn deletes(arguments: &str) -> ToolCall {
    ToolCall::new("call_1", "delete_accounts", arguments)
}

#[tokio::test]
async fn a_call_of_a_nonexistent_tool_is_not_an_answer() {
    for capabilities in [plain(), structured(), calling()] {
        for arguments in ["{}", r#"{"name": "everybody"}"#] {
            let reply = Reply::calls([deletes(arguments)]);
            let (model, _) = replies(capabilities, [reply.clone(), reply.clone()]);
            let module = Predict::<FindName>::new(model).unwrap();
            let error = module.call(find_name(), &Context::default()).await.unwrap_err();
            assert_eq!(error.stage(), Stage::Validation);
            let raw = format!("delete_accounts({arguments})");
            assert_eq!(error.raws().collect::<Vec<_>>(), [&raw, &raw]);

            // A stream has the same error.
            let (model, _) = replies(capabilities, [reply.clone(), reply]);
            let module = Predict::<FindName>::new(model).unwrap();
            let cx = Context::default();
            let mut stream = module.stream(find_name(), &cx);
            let mut last = None;
            while let Some(event) = stream.next().await {
                last = Some(event);
            }
            let streamed = last.unwrap().unwrap_err();
            assert_eq!(format!("{streamed:#}"), format!("{error:#}"));
        }
    }
}

#[tokio::test]
async fn a_model_that_calls_a_nonexistent_tool_is_asked_for_text() {
    let said = || [Reply::calls([deletes("{}")]), Reply::text(SUMMARY)];
    insta::assert_snapshot!(asked_again(plain(), said()).await, @r#"
    tools: [], Auto
    output: not given
    at most 4096 tokens

    === user
    That answer cannot be used: for `summarize` there are no tools, and "delete_accounts" was called. Answer again, with JSON that fits the schema and nothing else.
    "#);
    assert_eq!(asked_again(plain(), said()).await, asked_again(structured(), said()).await);
}

#[tokio::test]
async fn text_is_the_answer_even_beside_calls() {
    let with_call = |text: &str| {
        Reply::new([ReplyPart::text(text.to_owned()), ReplyPart::Call(deletes(SUMMARY))])
    };
    for capabilities in [plain(), structured()] {
        let (model, asked) = replies(capabilities, [with_call(r#"{"name": "Kate"}"#)]);
        let module = Predict::<FindName>::new(model).unwrap();
        let found = module.call(find_name(), &Context::default()).await.unwrap();
        assert_eq!((found.name.as_deref(), asked.requests().len()), (Some("Kate"), 1));

        // Invalid text is not an answer, and the call does not replace it.
        let (model, asked) = replies(capabilities, [with_call("I look."), Reply::text("{}")]);
        let module = Predict::<FindName>::new(model).unwrap();
        assert_eq!(module.call(find_name(), &Context::default()).await.unwrap().name, None);
        assert_eq!(asked.requests().len(), 2);
    }
}

#[tokio::test]
async fn many_wrong_calls_get_short_results() {
    let calls = (0..500).map(|n| ToolCall::new(n.to_string(), "w".repeat(1000), "{}"));
    let (model, asked) = replies(calling(), [Reply::calls(calls), finish(SUMMARY)]);
    Predict::<Summarize>::new(model).unwrap().call(summarize(), &Context::default()).await.unwrap();
    let sent_back: usize = asked.requests()[1]
        .messages
        .iter()
        .map(|message| match &**message {
            Message::Tool(result) => result.text.len(),
            _ => 0,
        })
        .sum();
    assert!(sent_back < 20_000, "{sent_back} bytes");
}

fn paused(parts: impl IntoIterator<Item = ReplyPart>) -> Reply {
    Reply::new(parts).with_finish(Finish::Paused).with_usage(Usage::new(1, 1))
}

/// A pause is no attempt: the model gets its reply back as it is, and continues.
#[tokio::test]
async fn a_paused_reply_is_sent_back_whole_and_is_no_attempt() {
    let parts = || {
        let search = Opaque::new("anthropic", json!({"type": "server_tool_use", "id": "s1"}));
        [ReplyPart::text("Let me look."), ReplyPart::Other(search)]
    };
    let (model, asked) = replies(plain(), [paused(parts()), Reply::text(SUMMARY)]);
    let module = Predict::<Summarize>::new(model).unwrap().with_attempts(1);
    assert_eq!(module.call(summarize(), &Context::default()).await.unwrap().topics, ["weather"]);
    let [one, two] = &asked.requests()[..] else { panic!("asked twice") };
    let (last, before) = two.messages.split_last().unwrap();
    assert_eq!(before, one.messages);
    assert_eq!(**last, Message::Assistant { parts: parts().into() });
}

#[tokio::test]
async fn a_reply_that_pauses_forever_is_an_error() {
    let endless = (0..40).map(|_| paused([ReplyPart::text("Hm.")]));
    let (model, asked) = replies(plain(), endless);
    let module = Predict::<Summarize>::new(model).unwrap();
    let error = module.call(summarize(), &Context::default()).await.unwrap_err();
    assert_eq!((error.stage(), asked.requests().len()), (Stage::Provider, 33));
    assert_eq!(error.usage(), Usage::new(33, 33));
    insta::assert_snapshot!(error, @"the model paused its answer to `summarize` 32 times and did not end it; ask again or request less");
}

/// Gemini leaves out of its reply a call that it cannot read.
#[tokio::test]
async fn a_model_whose_call_could_not_be_read_is_told_and_answers_again() {
    let finish = Finish::Other("MALFORMED_FUNCTION_CALL".to_owned());
    let broken = Reply::new([]).with_finish(finish);
    let (model, asked) = replies(plain(), [broken, Reply::text(SUMMARY)]);
    let module = Predict::<Summarize>::new(model).unwrap();
    module.call(summarize(), &Context::default()).await.unwrap();
    let told = format!("{:?}", asked.requests()[1].messages.last());
    assert!(told.contains("could not be read"), "{told}");
}

/// Finish reasons that do not show that a reply is whole.
fn bad() -> Vec<Finish> {
    let words = ["network_error", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "odd", ""];
    let others = words.map(|word| Finish::Other(word.to_owned()));
    [Finish::Length, Finish::Refused, Finish::Paused].into_iter().chain(others).collect()
}

/// Find a person.
#[derive(Serialize, Deserialize, JsonSchema)]
struct FindPerson {}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Person {
    name: Option<String>,
    age: Option<u8>,
}

impl Signature for FindPerson {
    type Output = Person;
}

/// A piece of the answer may fit its schema. It is an error or is asked for again.
#[tokio::test]
async fn a_piece_of_an_answer_is_never_the_answer_in_any_mode() {
    let whole = r#"{"name": "Ada", "age": 36}"#;
    for finish_reason in bad() {
        for piece in ["{}", r#"{"name": "Ada"}"#] {
            let called = [finish(piece), finish(whole)];
            let text = || [Reply::text(piece), Reply::text(whole)];
            for (capabilities, [cut, whole]) in
                [(plain(), text()), (structured(), text()), (calling(), called)]
            {
                let cut = cut.with_finish(finish_reason.clone());
                let (model, _) = replies(capabilities, [cut, whole]);
                let module = Predict::<FindPerson>::new(model).unwrap();
                if let Ok(found) = module.call(FindPerson {}, &Context::default()).await {
                    assert_eq!(found.age, Some(36), "{finish_reason:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn an_answer_in_an_incomplete_call_is_asked_for_again() {
    let mut cut = finish(r#"{"name": "Ada"}"#);
    if let ReplyPart::Call(call) = &mut cut.parts[0] {
        call.incomplete = true;
    }
    let (model, asked) = replies(calling(), [cut, finish(r#"{"name": "Ada", "age": 36}"#)]);
    let module = Predict::<FindPerson>::new(model).unwrap();
    assert_eq!(module.call(FindPerson {}, &Context::default()).await.unwrap().age, Some(36));
    let told = format!("{:?}", asked.requests()[1].messages.last());
    assert!(told.contains("was cut off"), "{told}");
}

#[tokio::test]
async fn the_calls_of_a_paused_reply_get_a_result() {
    let cut = paused([ReplyPart::Call(ToolCall::new("1", "finish", "{}"))]);
    let (model, asked) = replies(calling(), [cut, finish(r#"{"age": 36}"#)]);
    let module = Predict::<FindPerson>::new(model).unwrap();
    assert_eq!(module.call(FindPerson {}, &Context::default()).await.unwrap().age, Some(36));
    let requests = asked.requests();
    let Message::Tool(result) = &**requests[1].messages.last().unwrap() else {
        panic!("no result")
    };
    assert!(result.failed && result.text.contains("was not made"), "{}", result.text);
}

#[tokio::test]
async fn the_error_of_a_refusal_without_a_text_has_the_providers_reason() {
    let mut refusal = Reply::new([]).with_finish(Finish::Refused);
    refusal.reason = Some("SAFETY".to_owned());
    let (model, _) = replies(plain(), [refusal]);
    let module = Predict::<FindPerson>::new(model).unwrap();
    let error = module.call(FindPerson {}, &Context::default()).await.unwrap_err();
    insta::assert_snapshot!(error, @"the model refused to answer `find_person`: SAFETY");
}

#[tokio::test]
async fn finish_in_a_models_own_notation_is_the_answer() {
    let call = ToolCall::new("1", "functions.finish", r#"{"age": 36}"#);
    let (model, _) = replies(calling(), [Reply::calls([call])]);
    let module = Predict::<FindPerson>::new(model).unwrap();
    assert_eq!(module.call(FindPerson {}, &Context::default()).await.unwrap().age, Some(36));
}
