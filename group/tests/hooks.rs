//! Calls of a group inside the hooks of their context.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_group::{Custom, FailReason, Handle, ToolGroup};
use toolwright_module::error::Stage;
use toolwright_module::hook::{CallNext, Hook, Retry, redact, refuse};
use toolwright_module::{
    Context, Effect, Error, Policy, Result, Signature, ToolCall, ToolOutput, from_fn,
};

/// Count the letters of a word.
#[derive(Deserialize, JsonSchema)]
struct Letters {
    word: String,
}

impl Handle<AtomicU32, usize> for Letters {
    async fn handle(self, calls: &AtomicU32, _: &Context) -> Result<(String, usize)> {
        let letters = self.word.len();
        match (calls.fetch_add(1, Ordering::Relaxed), letters) {
            (0, 9..) => Err(Error::other("busy").retryable(true)),
            (_, 0) => Err(Error::retry("give a word")),
            _ => Ok((format!("{} has {letters}", self.word), letters)),
        }
    }

    fn effect() -> Effect {
        Effect::Read
    }
}

/// Note a text.
#[derive(Deserialize, JsonSchema)]
struct Note(String);

impl Custom<AtomicU32, usize> for Note {
    async fn handle(self, calls: &AtomicU32, _: &Context) -> Result<(String, usize)> {
        calls.fetch_add(1, Ordering::Relaxed);
        Ok((format!("noted: {}", self.0), self.0.len()))
    }
}

/// Reverse a text.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Reverse {
    text: String,
}

impl Signature for Reverse {
    type Output = String;
}

fn group() -> ToolGroup<AtomicU32, usize> {
    let reverse = from_fn(async |reverse: Reverse| Ok(reverse.text.chars().rev().collect()));
    let group = ToolGroup::new().handler::<Letters>().unwrap();
    group.custom::<Note>().unwrap().module(reverse).unwrap()
}

fn calls() -> [ToolCall; 3] {
    [
        ToolCall::new("1", "letters", "{'word': 'secret'}"),
        ToolCall::custom("2", "note", "a secret"),
        ToolCall::new("3", "reverse", r#"{"text": "terces"}"#),
    ]
}

#[tokio::test]
async fn every_kind_of_call_passes_the_hooks_and_keeps_its_value() {
    let cx = Context::default().with_hook(redact(|text| match text.contains("secret") {
        true => Cow::Owned(text.replace("secret", "[word]")),
        false => Cow::Borrowed(text),
    }));
    let made = AtomicU32::new(0);
    let outcomes = group().dispatch(&calls(), &made, &cx).await;
    let outcomes: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
    let told = outcomes.iter().map(|outcome| (outcome.content.as_str(), outcome.context));
    let expected = [("[word] has 6", Some(6)), ("noted: a [word]", Some(8)), ("[word]", None)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert_eq!(outcomes[0].repaired().unwrap().json, r#"{"word":"secret"}"#);
    assert_eq!((outcomes[1].id.as_str(), made.load(Ordering::Relaxed)), ("2", 2));
}

#[tokio::test]
async fn a_refused_call_does_not_reach_its_handler() {
    let cx = Context::default().with_hook(refuse(|name, effect, text| {
        text.contains("secret").then(|| format!("no {name}, {effect:?}"))
    }));
    let made = AtomicU32::new(0);
    let outcomes = group().dispatch(&calls(), &made, &cx).await;
    let outcomes: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
    assert_eq!(outcomes[0].content, "no letters, Read");
    assert_eq!(outcomes[1].content, "no note, Write");
    assert_eq!(outcomes[1].fail_reason, Some(FailReason::ExplicitHandlerError));
    assert_eq!((outcomes[1].context, made.load(Ordering::Relaxed)), (None, 0));
    assert_eq!(outcomes[2].content, "secret");
}

#[tokio::test]
async fn failures_have_the_same_reasons_inside_hooks() {
    let cx = Context::default().with_hook(Retry {
        retries: 1,
        wait: Duration::from_millis(1),
        ..Retry::default()
    });
    let group = group().with_policy(Policy::Strict);
    let run = async |arguments: &str| {
        let call = ToolCall::new("1", "letters", arguments);
        group.run(&call, &AtomicU32::new(0), &cx).await
    };
    let reason = async |arguments: &str| run(arguments).await.unwrap().fail_reason;
    assert_eq!(reason("{'word': 'a'}").await, Some(FailReason::InvalidArguments));
    assert_eq!(reason("{}").await, Some(FailReason::InvalidArguments));
    assert_eq!(reason(r#"{"word": ""}"#).await, Some(FailReason::ExplicitHandlerError));
    // The first run fails and the second one succeeds.
    let outcome = run(r#"{"word": "hippopotamus"}"#).await.unwrap();
    assert_eq!((outcome.content.as_str(), outcome.context), ("hippopotamus has 12", Some(12)));

    let cx = Context::default();
    let call = ToolCall::new("1", "letters", r#"{"word": "hippopotamus"}"#);
    let error = group.run(&call, &AtomicU32::new(0), &cx).await.unwrap_err();
    assert_eq!(error.to_string(), "busy");
}

/// Answers each call, and panics for some.
struct Answers;

impl Hook for Answers {
    fn name(&self) -> &str {
        "answers"
    }

    async fn tool(&self, arguments: String, next: CallNext<'_>) -> Result<ToolOutput> {
        assert!(next.contract.name() != "note", "no notes");
        next.run(arguments).await?;
        Ok(ToolOutput::text_only(format!("answered {}", next.contract.name())))
    }
}

/// Calls twice, the second time without a word, and answers itself after an error.
struct Twice;

impl Hook for Twice {
    fn name(&self) -> &str {
        "twice"
    }

    async fn tool(&self, arguments: String, next: CallNext<'_>) -> Result<ToolOutput> {
        next.run(arguments).await?;
        let again = next.run(r#"{"word": ""}"#.to_owned()).await;
        Ok(again.unwrap_or_else(|_| ToolOutput::text_only("no word")))
    }
}

#[tokio::test]
async fn a_run_that_failed_leaves_no_value_of_the_run_before() {
    let cx = Context::default().with_hook(Twice);
    let call = ToolCall::new("1", "letters", r#"{"word": "four"}"#);
    let outcome = group().run(&call, &AtomicU32::new(0), &cx).await.unwrap();
    assert_eq!((outcome.content.as_str(), outcome.context), ("no word", None));
}

#[tokio::test]
async fn a_bound_group_passes_each_hook_once() {
    let (cx, made) = (Context::default().with_hook(Answers), AtomicU32::new(0));
    let outcomes = group().dispatch(&calls(), &made, &cx).await;
    let [Ok(letters), Err(note), Ok(reverse)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!((letters.content.as_str(), letters.context), ("answered letters", Some(6)));
    assert_eq!((note.stage(), reverse.content.as_str()), (Stage::Panic, "answered reverse"));

    let (group, sum) = (group(), std::sync::Arc::new(AtomicU32::new(0)));
    // The group can be bound for each request. The contracts are shared.
    for nth in 1..=2 {
        let added = std::sync::Arc::clone(&sum);
        let tools = group.bind(AtomicU32::new(0), move |_, letters: usize| {
            added.fetch_add(letters as u32, Ordering::Relaxed);
        });
        assert!(std::ptr::eq(&**tools[0].contract(), &**group.get("letters").unwrap().contract()));
        let output = tools[0].call(r#"{"word": "four"}"#, &cx).await.unwrap();
        assert_eq!((&*output.text, sum.load(Ordering::Relaxed)), ("answered letters", 4 * nth));
    }
}
