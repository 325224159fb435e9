//! The settings: what each model takes, and the errors of what it does not.

use serde_json::{Value, json};
use toolwright_anthropic::{Anthropic, ApiVersion, Thinking};
use toolwright_module::model::{Effort, Setting, Settings, ToolChoice};
use toolwright_module::{LanguageModel, Request};

use crate::common::hi;
use crate::requests::{look, sent, unsent};

fn with(settings: Settings) -> Request {
    hi().with_settings(settings)
}

/// Returns `thinking` and `output_config` for an effort.
async fn thinking(name: &str, settings: Settings) -> (Value, Value) {
    let body = sent(&with(settings), name, |model| model).await;
    (body["thinking"].clone(), body["output_config"].clone())
}

#[tokio::test]
async fn effort_is_sent_in_the_form_of_the_model() {
    let large = Settings::default().with_max_output_tokens(100_000);
    for (effort, budget, word) in [
        (Effort::Minimal, 1024, "low"),
        (Effort::Low, 2048, "low"),
        (Effort::Medium, 8192, "medium"),
        (Effort::High, 16_384, "high"),
        (Effort::Max, 32_768, "max"),
    ] {
        let settings = large.clone().with_effort(effort);
        for name in ["claude-opus-4-6", "claude-fable-5-1", "claude-mythos-preview"] {
            let expected = (json!({"type": "adaptive"}), json!({"effort": word}));
            assert_eq!(thinking(name, settings.clone()).await, expected);
        }
        for name in ["claude-haiku-4-5", "claude-3-7-sonnet-latest", "smollm2"] {
            let expected = (json!({"type": "enabled", "budget_tokens": budget}), Value::Null);
            assert_eq!(thinking(name, settings.clone()).await, expected);
        }
    }
    // The budget leaves room for the answer.
    let small = Settings::default().with_effort(Effort::Max);
    let (config, _) = thinking("claude-haiku-4-5", small.clone()).await;
    assert_eq!(config["budget_tokens"], 3072);
    let form = |model: Anthropic| model.with_thinking(Thinking::Adaptive);
    assert_eq!(sent(&with(small), "smollm2", form).await["thinking"]["type"], "adaptive");
}

#[tokio::test]
async fn thinking_is_turned_off_where_the_model_thinks_by_itself() {
    let off = Settings::default().with_effort(Effort::Off);
    for name in ["claude-opus-5", "smollm2"] {
        let expected = (json!({"type": "disabled"}), Value::Null);
        assert_eq!(thinking(name, off.clone()).await, expected);
    }
    assert_eq!(thinking("claude-opus-4-7", off).await, (Value::Null, Value::Null));
    let none = thinking("claude-opus-5", Settings::default()).await;
    assert_eq!(none, (Value::Null, Value::Null));
}

#[tokio::test]
async fn what_does_not_go_with_thinking_is_an_error_before_the_request() {
    let thinks = Settings::default().with_effort(Effort::Low);
    let forced = with(thinks.clone()).with_tools([look()]).with_tool_choice(ToolChoice::Required);
    let error = unsent(&forced, "claude-haiku-4-5", |model| model).await;
    assert!(error.contains("use `ToolChoice::Auto`"), "{error}");
    // With adaptive thinking the API takes it.
    let body = sent(&forced, "claude-opus-4-6", |model| model).await;
    assert_eq!(body["tool_choice"]["type"], "any");
    for name in ["claude-haiku-4-5", "claude-opus-4-6"] {
        let warm = with(thinks.clone().with_temperature(0.5));
        let error = unsent(&warm, name, |model| model).await;
        assert!(error.contains("the temperature must be 1"), "{error}");
    }
    let tight = with(thinks.with_max_output_tokens(1024));
    let error = unsent(&tight, "claude-haiku-4-5", |model| model).await;
    assert!(error.contains("increase `max_output_tokens`"), "{error}");
}

#[tokio::test]
async fn newer_models_and_the_newer_version_have_no_temperature() {
    let warm = with(Settings::default().with_temperature(0.5).with_top_p(0.9));
    let body = sent(&warm, "claude-sonnet-4-6", |model| model).await;
    assert_eq!((&body["temperature"], &body["top_p"]), (&json!(0.5), &json!(0.9)));
    let new = |model: Anthropic| model.with_version(ApiVersion::V2026_10_21).unwrap();
    let errors = [
        unsent(&warm, "claude-opus-4-7", |model| model).await,
        unsent(&warm, "claude-sonnet-4-6", new).await,
    ];
    for error in errors {
        assert!(error.contains("does not support the setting `temperature`"), "{error}");
    }
}

#[tokio::test]
async fn other_settings_are_fields_or_errors() {
    let settings = Settings::default()
        .with_stop(vec!["END".to_owned()])
        .with_user("user-1".to_owned())
        .with_extra("anthropic", "service_tier", "standard_only")
        .with_extra("anthropic", "max_tokens", 7)
        .with_extra("openai", "verbosity", "low");
    let body = sent(&with(settings), "claude-sonnet-4-5", |model| model).await;
    insta::assert_json_snapshot!(body, @r#"
    {
      "model": "claude-sonnet-4-5",
      "messages": [
        {
          "role": "user",
          "content": [
            {
              "type": "text",
              "text": "Hi!",
              "cache_control": {
                "type": "ephemeral"
              }
            }
          ]
        }
      ],
      "stop_sequences": [
        "END"
      ],
      "metadata": {
        "user_id": "user-1"
      },
      "service_tier": "standard_only",
      "max_tokens": 7
    }
    "#);
    let seed = with(Settings::default().with_seed(7));
    let error = unsent(&seed, "claude-sonnet-4-5", |model| model).await;
    assert!(error.contains("the setting `seed`"), "{error}");
    let model = Anthropic::at("http://127.0.0.1:9/v1", "claude-sonnet-4-5").unwrap();
    assert!(!model.capabilities().settings.has(Setting::Metadata));
}
