//! The exact prompts of `Predict` and `ChainOfThought`, and the reading of their answers.

use serde_json::json;
use toolwright_module::error::{Audience, Stage};
use toolwright_module::message::{Reasoning, ReplyPart};
use toolwright_module::model::Settings;
use toolwright_module::model::{Capabilities, Finish, Usage};
use toolwright_module::{
    ChainOfThought, Context, Contract, Message, Module, Predict, Reply, Signature, ToolCall,
};
use toolwright_signature::ContractChange;

use crate::support::{Count, FindWords, SUMMARY, Summarize, plain, replies, structured, summarize};

/// Sends one request and returns it.
async fn predicted<S: Signature>(capabilities: Capabilities, input: S, answer: &str) -> String {
    let (model, asked) = replies(capabilities, [Reply::text(answer)]);
    Predict::<S>::new(model).unwrap().call(input, &Context::default()).await.unwrap();
    asked.shown()
}

async fn thought<S: Signature>(capabilities: Capabilities, input: S, answer: &str) -> String {
    let (model, asked) = replies(capabilities, [Reply::text(answer)]);
    let module = ChainOfThought::<S>::new(model).unwrap();
    module.call(input, &Context::default()).await.unwrap();
    asked.shown()
}

#[tokio::test]
async fn the_prompt_of_predict_has_both_schemas() {
    insta::assert_snapshot!(predicted(plain(), summarize(), SUMMARY).await);
}

#[tokio::test]
async fn predict_sends_the_output_schema_beside_the_prompt_if_supported() {
    insta::assert_snapshot!(predicted(structured(), summarize(), SUMMARY).await);
}

#[tokio::test]
async fn predict_prompts_for_an_empty_input_and_a_number() {
    insta::assert_snapshot!(predicted(plain(), Count, r#"{"result": 3}"#).await);
    let structured = predicted(structured(), Count, r#"{"result": 3}"#).await;
    insta::assert_snapshot!("predict_sends_the_schema_of_a_number_beside_the_prompt", structured);
}

#[tokio::test]
async fn predict_prompts_for_a_list() {
    let input = FindWords { text: "a b".to_owned() };
    insta::assert_snapshot!(predicted(plain(), input, r#"{"result": ["a", "b"]}"#).await);
}

#[tokio::test]
async fn predict_adds_instructions_to_the_description() {
    let (model, asked) = replies(plain(), [Reply::text(SUMMARY)]);
    let module = Predict::<Summarize>::new(model)
        .unwrap()
        .with_instructions("Write as a sailor would.")
        .with_settings(Settings::default().with_max_output_tokens(99))
        .unwrap();
    let short = Summarize { words: Some(5), ..summarize() };
    module.call(short, &Context::default()).await.unwrap();
    insta::assert_snapshot!(asked.shown());
}

#[test]
fn the_contract_of_a_predictor_is_that_of_its_prompt() {
    let plain = Predict::<Summarize>::from_context().unwrap().contract();
    let typed = Contract::of::<Summarize>().unwrap();
    assert_eq!(ContractChange::between(&[typed], std::slice::from_ref(&plain)), []);
    let sailor = Predict::<Summarize>::from_context().unwrap();
    let sailor = sailor.with_instructions("Write as a sailor would.").contract();
    let reasoned = ChainOfThought::<Summarize>::from_context().unwrap().contract();
    // They are compared as a file has them.
    let stored = |contract: Contract| -> Contract {
        serde_json::from_str(&serde_json::to_string(&contract).unwrap()).unwrap()
    };
    let changes = |now: Contract| -> Vec<String> {
        let changes = ContractChange::between(&[stored(plain.clone())], &[stored(now)]);
        changes.iter().map(ToString::to_string).collect()
    };
    assert_eq!(changes(sailor), ["summarize: has another description"]);
    assert!(changes(reasoned).iter().any(|line| line.contains("output $.reasoning")));
}

#[tokio::test]
async fn chain_of_thought_prompts_for_reasoning_first() {
    let answer = format!(r#"{{"reasoning": "Wet.", "output": {SUMMARY}}}"#);
    insta::assert_snapshot!(thought(plain(), summarize(), &answer).await);
    let structured = thought(structured(), summarize(), &answer).await;
    insta::assert_snapshot!("chain_of_thought_sends_its_schema_beside_the_prompt", structured);
}

#[tokio::test]
async fn chain_of_thought_prompts_for_a_number() {
    let answer = r#"{"reasoning": "One, two, three.", "output": 3}"#;
    insta::assert_snapshot!(thought(plain(), Count, answer).await);
}

#[tokio::test]
async fn chain_of_thought_uses_instructions_and_returns_its_reasoning() {
    let answer = format!(r#"{{"reasoning": "Wet.", "output": {SUMMARY}}}"#);
    let (model, asked) = replies(plain(), [Reply::text(answer)]);
    let module = ChainOfThought::<Summarize>::new(model)
        .unwrap()
        .with_instructions("Write as a sailor would.");
    let answer = module.answer(summarize(), &Context::default()).await.unwrap().value;
    assert_eq!(answer.reasoning, "Wet.");
    assert_eq!(answer.output.topics, ["weather"]);
    assert!(asked.shown().contains("Write as a sailor would."));
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_sent_back_once_with_its_faults() {
    let wrong = r#"{"sentence": "It rained.", "topics": 7}"#;
    let (model, asked) = replies(plain(), [Reply::text(wrong), Reply::text(SUMMARY)]);
    let module = Predict::<Summarize>::new(model).unwrap();
    let summary = module.call(summarize(), &Context::default()).await.unwrap();
    assert_eq!(summary.topics, ["weather"]);

    let requests = asked.requests();
    assert_eq!(requests[1].messages[..2], requests[0].messages[..]);
    insta::assert_snapshot!(asked.shown());
}

#[tokio::test]
async fn chain_of_thought_sends_a_wrong_answer_back() {
    let wrong = format!(r#"{{"output": {SUMMARY}}}"#);
    let right = format!(r#"{{"reasoning": "Wet.", "output": {SUMMARY}}}"#);
    let (model, asked) = replies(structured(), [Reply::text(wrong), Reply::text(right)]);
    let module = ChainOfThought::<Summarize>::new(model).unwrap();
    module.call(summarize(), &Context::default()).await.unwrap();
    let [_, again] = &asked.requests()[..] else {
        panic!("asked {} times", asked.requests().len());
    };
    let last = serde_json::to_value(&again.messages[3]).unwrap();
    insta::assert_snapshot!(last["parts"][0]["text"].as_str().unwrap(), @"That answer cannot be used: output of `summarize` does not fit: $.reasoning: this field is missing; expected a string. Answer again, with JSON that fits the schema and nothing else.");
}

#[tokio::test]
async fn only_parts_that_providers_accept_are_sent_back() {
    let thinking = Reasoning::new("some-provider", "", json!({"signature": "abc"}));
    let with_a_call = Reply::new([
        ReplyPart::Reasoning(thinking.clone()),
        ReplyPart::text("I will look."),
        ReplyPart::Call(ToolCall::new("1", "look", "{}")),
    ]);
    let empty = Reply::text("");
    let (model, asked) = replies(plain(), [with_a_call, empty, Reply::text(SUMMARY)]);
    let module = Predict::<Summarize>::new(model).unwrap().with_attempts(3);
    module.call(summarize(), &Context::default()).await.unwrap();

    let requests = asked.requests();
    let said: Vec<_> = requests[2]
        .messages
        .iter()
        .filter_map(|message| match &**message {
            Message::Assistant { parts } => Some(parts.clone()),
            _ => None,
        })
        .collect();
    // Providers reject a call without a result, and a message without content.
    let kept = vec![ReplyPart::Reasoning(thinking), ReplyPart::text("I will look.")];
    assert_eq!(said, [kept]);
}

#[tokio::test]
async fn the_error_after_the_last_attempt_has_every_answer_and_the_whole_usage() {
    let wrong = |text: &str, input, output| Reply::text(text).with_usage(Usage::new(input, output));
    let (model, asked) = replies(plain(), [wrong("Rain!", 10, 1), wrong("More rain!", 20, 2)]);
    let module = Predict::<Summarize>::new(model).unwrap();
    let error = module.call(summarize(), &Context::default()).await.unwrap_err();
    assert_eq!(asked.requests().len(), 2);
    assert_eq!(error.stage(), Stage::Validation);
    assert_eq!(error.audience(), Audience::User);
    assert_eq!(error.usage(), Usage::new(30, 3));
    assert_eq!(error.raw(), Some("More rain!"));
    assert_eq!(error.raws().collect::<Vec<_>>(), ["Rain!", "More rain!"]);
    insta::assert_snapshot!(format!("{error:#}"), @r"
    output of `summarize` does not fit: $: not JSON: a value is expected at character 1, got `More rain!`
    stage: validation
    reply: Rain!
    reply: More rain!
    ");
}

#[tokio::test]
async fn attempts_can_be_set_to_at_least_one() {
    for (attempts, asked_times) in [(0, 1), (1, 1), (3, 3)] {
        let (model, asked) = replies(plain(), vec![Reply::text("no"); 3]);
        let module = Predict::<Summarize>::new(model).unwrap().with_attempts(attempts);
        module.call(summarize(), &Context::default()).await.unwrap_err();
        assert_eq!(asked.requests().len(), asked_times);
    }
}

#[tokio::test]
async fn a_refusal_is_not_retried() {
    let refusal =
        Reply::text("I do not do rain.").with_finish(Finish::Refused).with_usage(Usage::new(5, 6));
    let (model, asked) = replies(plain(), [refusal]);
    let module = Predict::<Summarize>::new(model).unwrap();
    let error = module.call(summarize(), &Context::default()).await.unwrap_err();
    assert_eq!(asked.requests().len(), 1);
    assert_eq!(error.stage(), Stage::Provider);
    assert_eq!(error.usage(), Usage::new(5, 6));
    insta::assert_snapshot!(error, @"the model refused to answer `summarize`: I do not do rain.");
}

#[tokio::test]
async fn a_reply_with_an_unknown_finish_reason_is_not_an_answer() {
    let other = Finish::Other("in_progress".to_owned());
    let said = Reply::text(SUMMARY).with_finish(other).with_usage(Usage::new(5, 6));
    let (model, asked) = replies(plain(), [said]);
    let error = Predict::<Summarize>::new(model)
        .unwrap()
        .call(summarize(), &Context::default())
        .await
        .unwrap_err();
    assert_eq!((error.stage(), error.raw()), (Stage::Provider, Some(SUMMARY)));
    assert_eq!((error.usage(), asked.requests().len()), (Usage::new(5, 6), 1));
    insta::assert_snapshot!(error, @r#"the model stopped with "in_progress", which this version does not know, so its answer to `summarize` may be incomplete; ask again or try another model"#);
}

#[tokio::test]
async fn a_cut_off_answer_is_not_retried_and_not_completed() {
    let cut =
        Reply::text(r#"{"sentence": "It"#).with_finish(Finish::Length).with_usage(Usage::new(5, 4));
    let (model, asked) = replies(plain(), [cut]);
    let module = Predict::<Summarize>::new(model)
        .unwrap()
        .with_settings(Settings::default().with_max_output_tokens(4))
        .unwrap();
    let error = module.call(summarize(), &Context::default()).await.unwrap_err();
    assert_eq!(asked.requests().len(), 1);
    assert_eq!(error.stage(), Stage::Limit);
    assert_eq!(error.raw(), Some(r#"{"sentence": "It"#));
    insta::assert_snapshot!(error, @"the answer to `summarize` was cut off after 4 tokens; allow more with `Settings::with_max_output_tokens`");

    // The server reports no token count. Valid JSON may still be cut off.
    let cut = Reply::text(SUMMARY).with_finish(Finish::Length);
    let (model, _) = replies(plain(), [cut]);
    let error = Predict::<Summarize>::new(model)
        .unwrap()
        .call(summarize(), &Context::default())
        .await
        .unwrap_err();
    assert_eq!(error.stage(), Stage::Limit);
    insta::assert_snapshot!(error, @"the answer to `summarize` was cut off; allow more with `Settings::with_max_output_tokens`");
}

#[tokio::test]
async fn a_call_without_a_model_fails_with_the_module_and_both_fixes() {
    let module = Predict::<Summarize>::from_context().unwrap();
    let error = module.call(summarize(), &Context::default()).await.unwrap_err();
    assert_eq!((error.stage(), error.audience()), (Stage::Setup, Audience::Run));
    insta::assert_snapshot!(error, @"`summarize` has no language model: make it with `new(model)`, or call it with `Context::with_model(model)`");
    let module = ChainOfThought::<Summarize>::from_context().unwrap();
    assert_eq!(
        module.call(summarize(), &Context::default()).await.unwrap_err().to_string(),
        error.to_string()
    );
}

#[tokio::test]
async fn the_model_of_a_module_precedes_that_of_the_context() {
    let other = r#"{"sentence": "Other.", "topics": []}"#;
    let cx = || {
        let (model, _) = replies(plain(), [Reply::text(other)]);
        Context::default().with_model(model)
    };
    let from_context = Predict::<Summarize>::from_context().unwrap();
    let summary = from_context.call(summarize(), &cx()).await.unwrap();
    assert_eq!(summary.sentence, "Other.");

    let (own, _) = replies(plain(), [Reply::text(SUMMARY)]);
    let own = Predict::<Summarize>::new(own).unwrap();
    let summary = own.call(summarize(), &cx()).await.unwrap();
    assert_eq!(summary.sentence, "It rained.");
}

#[tokio::test]
async fn an_answer_in_a_code_block_is_read() {
    let fenced = [
        SUMMARY.to_owned(),
        format!("\n\n{SUMMARY}\n"),
        format!("```json\n{SUMMARY}\n```"),
        format!("```\n{SUMMARY}\n```\n"),
        format!("```json {SUMMARY} ```"),
    ];
    for answer in fenced {
        let (model, _) = replies(plain(), [Reply::text(answer.clone())]);
        let module = Predict::<Summarize>::new(model).unwrap().with_attempts(1);
        let summary = module.call(summarize(), &Context::default()).await;
        assert_eq!(summary.unwrap().sentence, "It rained.", "{answer}");
    }
}

#[tokio::test]
async fn a_text_output_that_is_a_code_block_is_unchanged() {
    let (model, _) = replies(plain(), [Reply::text(r#"{"result": ["```", "a"]}"#)]);
    let module = Predict::<FindWords>::new(model).unwrap();
    let input = FindWords { text: String::new() };
    assert_eq!(module.call(input, &Context::default()).await.unwrap(), ["```", "a"]);
}

#[tokio::test]
async fn a_models_error_keeps_its_stage_and_the_usage_of_earlier_attempts() {
    use std::sync::atomic::{AtomicBool, Ordering};
    use toolwright_module::Error;
    use toolwright_module::testing::Scripted;

    let asked = AtomicBool::new(false);
    let model = Scripted::new(move |_| {
        if !asked.swap(true, Ordering::Relaxed) {
            return Ok(Reply::text("no JSON").with_usage(Usage::new(1, 2)));
        }
        Err(Error::other("connection lost")
            .at(Stage::Transport)
            .retryable(true)
            .with_raw("{\"cho")
            .with_usage(Usage::new(10, 0)))
    });
    let module = Predict::<Summarize>::new(model).unwrap();
    let error = module.call(summarize(), &Context::default()).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Transport);
    assert!(error.is_retryable());
    assert_eq!(error.usage(), Usage::new(11, 2));
    assert_eq!(error.raws().collect::<Vec<_>>(), ["no JSON", "{\"cho"]);
}
