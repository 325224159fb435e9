//! Output modes: the requests, and the parts of replies that are read as answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_module::error::Stage;
use toolwright_module::message::ReplyPart;
use toolwright_module::model::{Capabilities, Setting, SettingSet, Settings, ToolChoice};
use toolwright_module::predict::OutputMode;
use toolwright_module::testing::SchemaDriven;
use toolwright_module::{
    ChainOfThought, Context, Dialect, Module, Policy, Predict, Reply, Signature, ToolCall,
};

use crate::support::{
    Count, FindWords, SUMMARY, Summarize, calling, finish, plain, replies, structured, summarize,
};

const MODES: [OutputMode; 3] = [OutputMode::Schema, OutputMode::Tool, OutputMode::Prompted];

/// Fetch whatever there is.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Fetch {}

impl Signature for Fetch {
    type Output = Anything;
}

/// A type that OpenAI's strict schemas do not support.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Anything {
    found: Value,
}

#[tokio::test]
async fn the_models_capabilities_select_the_default_mode() {
    let both = Capabilities { tools: true, ..structured() };
    for (capabilities, chosen) in [
        (plain(), OutputMode::Prompted),
        (calling(), OutputMode::Tool),
        (structured(), OutputMode::Schema),
        (both, OutputMode::Schema),
    ] {
        assert_eq!(OutputMode::from(capabilities), chosen);
        for said in [None, Some(OutputMode::Schema), Some(OutputMode::Tool)] {
            let (model, asked) = replies(capabilities, [Reply::text(SUMMARY)]);
            let mut module = Predict::<Summarize>::new(model).unwrap();
            if let Some(mode) = said {
                module = module.with_output_mode(mode).unwrap();
            }
            module.call(summarize(), &Context::default()).await.unwrap();
            let request = &asked.requests()[0];
            let mode = said.unwrap_or(chosen);
            assert_eq!(request.output.is_some(), mode == OutputMode::Schema);
            assert_eq!(request.tools.len(), usize::from(mode == OutputMode::Tool));
            let forced = request.tool_choice == ToolChoice::Required;
            assert_eq!(forced, mode == OutputMode::Tool);
        }
    }
}

#[tokio::test]
async fn in_tool_mode_the_arguments_are_the_output() {
    let (model, asked) = replies(calling(), [finish(SUMMARY)]);
    let summary = Predict::<Summarize>::new(model)
        .unwrap()
        .call(summarize(), &Context::default())
        .await
        .unwrap();
    assert_eq!(summary.sentence, "It rained.");
    insta::assert_snapshot!(asked.shown());
}

#[tokio::test]
async fn in_tool_mode_the_arguments_begin_with_reasoning() {
    let answer = format!(r#"{{"reasoning": "Wet.", "output": {SUMMARY}}}"#);
    let (model, asked) = replies(calling(), [finish(&answer)]);
    let module = ChainOfThought::<Summarize>::new(model).unwrap();
    let thought = module.answer(summarize(), &Context::default()).await.unwrap().value;
    assert_eq!(thought.reasoning, "Wet.");
    insta::assert_snapshot!(asked.shown());
}

#[tokio::test]
async fn an_output_that_is_not_an_object_is_one_argument() {
    let (model, asked) = replies(calling(), [finish(r#"{"result": ["a"]}"#)]);
    let module = Predict::<FindWords>::new(model).unwrap();
    let words = module.call(FindWords { text: "a".to_owned() }, &Context::default()).await.unwrap();
    assert_eq!(words, ["a"]);
    insta::assert_snapshot!(asked.shown());
}

#[tokio::test]
async fn in_schema_mode_without_support_the_prompt_has_the_schema() {
    let (model, asked) = replies(plain(), [Reply::text(SUMMARY)]);
    let module = Predict::<Summarize>::new(model).unwrap();
    let module = module.with_output_mode(OutputMode::Schema).unwrap();
    module.call(summarize(), &Context::default()).await.unwrap();
    insta::assert_snapshot!(asked.shown());
}

#[tokio::test]
async fn a_prompt_has_the_plain_schema_in_every_dialect() {
    let (model, asked) = replies(structured(), [Reply::text(SUMMARY)]);
    let module = Predict::<Summarize>::new(model).unwrap();
    let module = module.with_output_mode(OutputMode::Prompted).unwrap();
    module.call(summarize(), &Context::default()).await.unwrap();
    insta::assert_snapshot!(asked.shown());
}

#[tokio::test]
async fn every_mode_reads_json_with_words_around_it() {
    let said = [
        SUMMARY.to_owned(),
        format!("Here you are:\n```json\n{SUMMARY}\n```"),
        SUMMARY.replace(r#"["weather"]"#, r#""weather""#),
    ];
    for mode in MODES {
        for answer in &said {
            let (model, _) = replies(calling(), [Reply::text(answer.clone())]);
            let module = Predict::<Summarize>::new(model).unwrap().with_attempts(1);
            let module = module.with_output_mode(mode).unwrap();
            let summary = module.call(summarize(), &Context::default()).await.unwrap();
            assert_eq!(summary.topics, ["weather"], "{mode:?}: {answer}");
        }
    }
}

#[tokio::test]
async fn half_a_character_in_an_answer_is_listed_and_not_exact() {
    for mode in [OutputMode::Schema, OutputMode::Prompted] {
        for policy in [Policy::Exact, Policy::Coerce] {
            let mut said = Reply::text(SUMMARY.replace("rained", "\u{fffd}"));
            said.has_lost_half = true;
            let (model, _) = replies(calling(), [said]);
            let module = Predict::<Summarize>::new(model).unwrap().with_policy(policy);
            let module = module.with_output_mode(mode).unwrap().with_attempts(1);
            let answer = module.answer(summarize(), &Context::default()).await;
            if policy == Policy::Exact {
                assert!(answer.is_err());
                continue;
            }
            let repairs: Vec<_> = answer.unwrap().repairs.iter().map(ToString::to_string).collect();
            assert_eq!(repairs, ["$.sentence: kept U+FFFD for a character that was cut in half"]);
        }
    }
}

/// Only what a server cut in half is another character than the model wrote.
#[tokio::test]
async fn a_character_that_the_model_wrote_itself_is_no_repair() {
    for mode in MODES {
        for character in ["\u{fffd}", r"\ufffd"] {
            let text = SUMMARY.replace("rained", character);
            let said = if mode == OutputMode::Tool { finish(&text) } else { Reply::text(text) };
            let (model, _) = replies(calling(), [said]);
            let module = Predict::<Summarize>::new(model).unwrap().with_policy(Policy::Exact);
            let module = module.with_output_mode(mode).unwrap().with_attempts(1);
            let answer = module.answer(summarize(), &Context::default()).await.unwrap();
            assert_eq!((&*answer.value.sentence, answer.repairs.len()), ("It \u{fffd}.", 0));
        }
    }
}

#[tokio::test]
async fn a_repeated_call_with_text_around_it_is_the_answer() {
    let call = || ReplyPart::Call(ToolCall::new("call_1", "finish", SUMMARY));
    let text = || ReplyPart::text(r#"Not {"sentence": "this."}"#.to_owned());
    for parts in [vec![text(), call()], vec![call(), text()], vec![call(), call()]] {
        let (model, _) = replies(calling(), [Reply::new(parts)]);
        let module = Predict::<Summarize>::new(model).unwrap().with_attempts(1);
        assert_eq!(
            module.call(summarize(), &Context::default()).await.unwrap().sentence,
            "It rained."
        );
    }
}

#[tokio::test]
async fn a_schema_driven_model_has_an_output_in_every_mode() {
    for mode in [OutputMode::Schema, OutputMode::Tool] {
        let count = Predict::<Count>::new(SchemaDriven::default()).unwrap();
        count.with_output_mode(mode).unwrap().call(Count, &Context::default()).await.unwrap();
        let count = ChainOfThought::<Count>::new(SchemaDriven::default()).unwrap();
        count.with_output_mode(mode).unwrap().call(Count, &Context::default()).await.unwrap();
    }
}

#[tokio::test]
async fn an_output_without_a_strict_schema_is_still_requested() {
    let strict = || replies(structured(), [Reply::text(r#"{"found": {"a": [1]}}"#)]).0;
    let in_mode = |mode| Predict::<Fetch>::from_context().unwrap().with_output_mode(mode).unwrap();
    for mode in [OutputMode::Schema, OutputMode::Tool, OutputMode::Prompted] {
        let module = in_mode(mode).with_model(strict()).unwrap();
        assert_eq!(
            module.call(Fetch {}, &Context::default()).await.unwrap().found,
            json!({"a": [1]})
        );
        // The model of a context is known only in the call.
        let cx = Context::default().with_model(strict());
        let output = in_mode(mode).call(Fetch {}, &cx).await.unwrap();
        assert_eq!(output.found, json!({"a": [1]}));
    }
}

#[tokio::test]
async fn each_model_of_a_context_is_asked_in_its_own_mode() {
    let module = Predict::<Summarize>::from_context().unwrap();
    let loose = Capabilities::new(Dialect::JsonSchema2020);
    for (capabilities, reply) in [
        (structured(), Reply::text(SUMMARY)),
        (calling(), finish(SUMMARY)),
        (loose, Reply::text(SUMMARY)),
        (structured(), Reply::text(SUMMARY)),
    ] {
        let (model, asked) = replies(capabilities, [reply]);
        let cx = Context::default().with_model(model);
        module.call(summarize(), &cx).await.unwrap();
        let request = &asked.requests()[0];
        let mode = OutputMode::from(capabilities);
        assert_eq!(request.output.is_some(), mode == OutputMode::Schema);
        assert_eq!(request.tools.len(), usize::from(mode == OutputMode::Tool));
    }
}

#[tokio::test]
async fn a_clone_may_have_its_own_model_mode_and_instructions() {
    let (own, asked) = replies(plain(), vec![Reply::text(SUMMARY); 2]);
    let (other, asked_other) = replies(plain(), [finish(SUMMARY)]);
    let module = Predict::<Summarize>::new(own).unwrap();
    let once = module.clone().with_instructions("Be short.").with_model(other).unwrap();
    let once = once.with_output_mode(OutputMode::Tool).unwrap();

    module.call(summarize(), &Context::default()).await.unwrap();
    once.call(summarize(), &Context::default()).await.unwrap();
    module.call(summarize(), &Context::default()).await.unwrap();
    let [before, after] = &asked.requests()[..] else { panic!("asked twice") };
    assert_eq!(before, after);
    let shown = asked_other.shown();
    assert!(shown.contains("Be short.") && shown.contains("finish"), "{shown}");
}

#[tokio::test]
async fn settings_that_the_model_does_not_support_are_an_error_of_the_predictor() {
    let some = SettingSet::NONE.with(Setting::Seed).with(Setting::MaxOutputTokens);
    let settings = Settings::default().with_temperature(0.0).with_seed(7);
    let (model, asked) =
        replies(Capabilities { settings: some, ..plain() }, [Reply::text(SUMMARY)]);
    let module = Predict::<Summarize>::new(model).unwrap();
    let error = module.clone().with_settings(settings.clone()).unwrap_err();
    insta::assert_snapshot!(error, @"the model does not support the setting `temperature`; leave it out, or call `Settings::supported_by` to leave out all that it does not support");
    let (rest, left_out) = settings.clone().supported_by(some);
    assert_eq!(left_out, [Setting::Temperature]);
    module
        .with_settings(rest.clone())
        .unwrap()
        .call(summarize(), &Context::default())
        .await
        .unwrap();
    assert_eq!(asked.requests()[0].settings.as_deref(), Some(&rest));

    // A model of the context is checked at the call.
    let (model, asked) = replies(Capabilities { settings: some, ..plain() }, []);
    let module = Predict::<Summarize>::from_context().unwrap().with_settings(settings).unwrap();
    let error = module.call(summarize(), &Context::default().with_model(model)).await.unwrap_err();
    assert_eq!((error.stage(), asked.requests().len()), (Stage::Setup, 0));
}
