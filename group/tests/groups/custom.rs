//! Custom tools, which take text.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Deserialize;
use toolwright_group::{Custom, FailReason, Format, ToolGroup};
use toolwright_module::message::CallKind;
use toolwright_module::{Context, Effect, Error, Result, ToolCall};

use super::support::{SayHello, call};

/// Write a short biography.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Bio(String);

impl Custom<i64, f64> for Bio {
    async fn handle(self, cx_in: &i64, _cx: &Context) -> Result<(String, f64)> {
        if self.0 == "secret" {
            return Err(Error::refuse("Not that one."));
        }
        Ok((format!("{} words", self.0.split(' ').count()), *cx_in as f64))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub(crate) struct Timestamp {
    hour: u8,
}

impl TryFrom<String> for Timestamp {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let hour = text.split(':').next().and_then(|hour| hour.parse().ok());
        Ok(Self { hour: hour.filter(|hour| *hour < 24).ok_or("there are 24 hours, from 0")? })
    }
}

impl Custom<i64, f64> for Timestamp {
    fn name() -> Cow<'static, str> {
        "when".into()
    }

    fn format() -> Option<Format> {
        Some(Format::Regex(r"\d{2}:\d{2}".into()))
    }

    fn effect() -> Effect {
        Effect::Read
    }

    async fn handle(self, _cx_in: &i64, _cx: &Context) -> Result<(String, f64)> {
        Ok((format!("At {}.", self.hour), 0.0))
    }
}

/// Choose a direction.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    Left,
    Right,
}

impl Custom<i64, f64> for Direction {
    fn format() -> Option<Format> {
        Some(Format::Lark(r#"start: "left" | "right""#.into()))
    }

    async fn handle(self, _cx_in: &i64, _cx: &Context) -> Result<(String, f64)> {
        Ok((format!("{self:?}"), 0.0))
    }
}

pub(crate) fn group() -> ToolGroup<i64, f64> {
    ToolGroup::new()
        .custom::<Bio>()
        .and_then(|group| group.custom::<Timestamp>())
        .and_then(|group| group.custom::<Direction>())
        .and_then(|group| group.handler::<SayHello>())
        .unwrap()
}

#[tokio::test]
async fn a_custom_tool_gets_its_text_unchanged() {
    let (group, cx) = (group(), Context::default());
    let calls = [
        ToolCall::custom("1", "bio", r#"{"not": "JSON to it"}"#),
        ToolCall::custom("2", "when", "07:30"),
        ToolCall::custom("3", "direction", "left"),
        call("say_hello", r#"{"name": "Kate"}"#),
    ];
    let outcomes = group.dispatch(&calls, &7, &cx).await;
    let outcomes: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
    let reported: Vec<_> = outcomes.iter().map(|outcome| outcome.content.as_str()).collect();
    assert_eq!(reported, ["4 words", "At 7.", "Left", "Message delivered to Kate."]);
    assert_eq!(outcomes[0].context, Some(7.0));
    assert_eq!(outcomes[0].kind, CallKind::Custom);
}

#[tokio::test]
async fn text_that_the_type_rejects_is_an_outcome() {
    let (group, cx) = (group(), Context::default());
    for (name, text, reported) in [
        ("when", "31:00", "input of `when` does not fit: there are 24 hours, from 0"),
        (
            "direction",
            "up",
            "input of `direction` does not fit: unknown variant `up`, expected `left` or `right`",
        ),
    ] {
        let outcome = group.run(&ToolCall::custom("1", name, text), &7, &cx).await.unwrap();
        assert_eq!(outcome.content, reported);
        assert_eq!(outcome.fail_reason, Some(FailReason::InvalidArguments));
        assert_eq!(outcome.kind, CallKind::Custom);
    }
    let outcome = group.run(&ToolCall::custom("1", "bio", "secret"), &7, &cx).await.unwrap();
    assert_eq!(outcome.fail_reason, Some(FailReason::ExplicitHandlerError));

    let error = group.run(&call("bio", "{}"), &7, &cx).await.unwrap_err();
    insta::assert_snapshot!(error, @"`bio` is called as a function and is a custom tool; send its own definition");
}

#[test]
fn the_pretty_form_of_a_custom_tool_omits_empty_fields() {
    let group = group();
    assert_eq!(group.get("when").unwrap().description(), "");
    assert_eq!(group.get("bio").unwrap().description(), "Write a short biography.");
    assert_eq!(group.get("bio").unwrap().format(), None);
    assert!(!group.get("bio").unwrap().strict());
    assert_eq!(group.get("bio").unwrap().kind(), CallKind::Custom);
    insta::assert_snapshot!(group.to_string());
}
