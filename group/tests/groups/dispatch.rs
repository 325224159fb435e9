//! Dispatch: from calls to outcomes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Barrier;
use toolwright_group::{Custom, FailReason, Handle, Outcome, ToolGroup};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::message::CallKind;
use toolwright_module::model::BoxFuture;
use toolwright_module::{Context, Contract, Effect, Error, Result, Tool, ToolCall, ToolOutput};

use super::support::{call, group};

async fn run(call: ToolCall) -> Result<Outcome<f64>> {
    group().run(&call, &100, &Context::default()).await
}

#[tokio::test]
async fn a_handler_gets_arguments_and_context_and_returns_text_and_context() {
    let outcome = run(call("get_weather", r#"{"city": "Austin", "state": "TX"}"#)).await.unwrap();
    assert_eq!(outcome.id, "call_of_get_weather");
    assert_eq!(outcome.kind, CallKind::Function);
    assert_eq!(outcome.content, "It's currently 30 degrees in Austin, TX.");
    assert_eq!(outcome.context, Some(101.234));
    assert_eq!(outcome.fail_reason, None);
    assert!(outcome.error().is_none());
}

#[tokio::test]
async fn a_module_in_a_group_returns_no_context() {
    let outcome = run(call("add", r#"{"a": 2, "b": 3}"#)).await.unwrap();
    assert_eq!(outcome.content, r#"{"sum":5}"#);
    assert_eq!(outcome.context, None);
    assert_eq!(outcome.fail_reason, None);

    let outcome = run(call("add", r#"{"a": 13, "b": 3}"#)).await.unwrap();
    assert_eq!(outcome.fail_reason, Some(FailReason::ExplicitHandlerError));
    let outcome = run(call("add", r#"{"a": 13}"#)).await.unwrap();
    assert_eq!(outcome.fail_reason, Some(FailReason::InvalidArguments));
}

#[tokio::test]
async fn an_unknown_name_is_an_outcome() {
    let outcome = run(call("get_wether", "{}")).await.unwrap();
    assert_eq!(outcome.content, "Tool, `get_wether` not found.");
    assert_eq!(outcome.fail_reason, Some(FailReason::InvalidName));
    assert_eq!(outcome.context, None);
    assert!(outcome.error().is_some());

    let outcome = run(call(&"ü".repeat(1_000_000), "{}")).await.unwrap();
    assert!(outcome.content.len() < 200);
}

#[test]
fn names_that_differ_in_one_character_are_distinct() {
    let with = |length: usize, place: usize, letter: &str| {
        let mut name = "x".repeat(length);
        name.replace_range(place..=place, letter);
        name
    };
    let places: Vec<_> =
        (1..=26).flat_map(|length| (0..length).map(move |at| (length, at))).collect();
    assert!(ToolGroup::<(), ()>::new().get("add").is_none(), "nothing is in an empty group");

    let both = |&(length, at): &(usize, usize)| [with(length, at, "a"), with(length, at, "b")];
    let names: Vec<String> = places.iter().flat_map(both).collect();
    let schema = json!({"type": "object"});
    let contract = Contract::dynamic("any", "Do anything.", schema, None).unwrap();
    let any = Tool::dynamic(contract, Effect::Read, |_, _| async { Ok(ToolOutput::text_only("")) });
    let mut group = ToolGroup::<(), ()>::new();
    for name in &names {
        group = group.tool(any.clone().named(name).unwrap()).unwrap();
    }
    for (definition, name) in group.definitions().iter().zip(&names) {
        assert_eq!(definition.name(), name);
        assert_eq!(group.get(name).unwrap().name(), name);
    }
    for (length, at) in places {
        assert!(group.get(&with(length, at, "c")).is_none());
    }
    for unknown in ["", "x", "xxxxxxxx", "xxxxxxxxxxxxxxxx", "xxxxxxxxxxxxxxxxx"] {
        assert!(group.get(unknown).is_none(), "{unknown}");
    }
    assert!(group.tool(any.named(&names[100]).unwrap()).is_err(), "the name is taken");
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_an_outcome_and_the_handler_does_not_run() {
    for arguments in
        ["", "not JSON", "[]", r#"{"city": 100, "state": "CA"}"#, r#"{"city": "Austin"}"#]
    {
        let outcome = run(call("get_weather", arguments)).await.unwrap();
        assert_eq!(outcome.fail_reason, Some(FailReason::InvalidArguments), "{arguments}");
        assert!(outcome.content.starts_with("input of `get_weather` does not fit: $"));
        assert_eq!(outcome.context, None);
        let error = outcome.error().unwrap();
        assert_eq!(error.stage(), Stage::Arguments);
        assert_eq!(error.raw(), Some(arguments));
    }
}

#[tokio::test]
async fn errors_for_the_model_are_outcomes_and_others_are_not() {
    for (how, reported) in [("retry", "Not like this."), ("refuse", "Never.")] {
        let outcome = run(call("fail", &format!(r#"{{"how": "{how}"}}"#))).await.unwrap();
        assert_eq!(outcome.content, reported);
        assert_eq!(outcome.fail_reason, Some(FailReason::ExplicitHandlerError));
    }
    for (how, text) in [
        ("stop", "the disk is full"),
        ("io", "password=1234"),
        ("panic", "the tool panicked: out of range"),
        (
            "deeper",
            "input of `say_hello` does not fit: $.name: this field is missing; expected a string",
        ),
    ] {
        let error = run(call("fail", &format!(r#"{{"how": "{how}"}}"#))).await.unwrap_err();
        assert_eq!(error.to_string(), text);
        assert_eq!(error.stage() == Stage::Panic, how == "panic");
    }
}

#[tokio::test]
async fn a_function_called_as_a_custom_tool_is_an_error_for_the_program() {
    let error = run(ToolCall::custom("1", "say_hello", "Kate")).await.unwrap_err();
    insta::assert_snapshot!(error, @"`say_hello` is called as a custom tool and is a function; send its own definition");
}

/// Handlers start only when they are awaited. A waiting handler lets others run.
#[tokio::test]
async fn async_handlers_run_when_awaited_and_block_no_other() {
    #[derive(Deserialize, JsonSchema)]
    struct Wait {}

    impl Handle<(AtomicUsize, Barrier)> for Wait {
        async fn handle(
            self,
            (begun, barrier): &(AtomicUsize, Barrier),
            _cx: &Context,
        ) -> Result<(String, ())> {
            begun.fetch_add(1, Ordering::SeqCst);
            barrier.wait().await;
            Ok(("done".to_owned(), ()))
        }
    }

    let group = ToolGroup::<(AtomicUsize, Barrier)>::new().handler::<Wait>().unwrap();
    let (calls, cx) = ([call("wait", "{}")], Context::default());
    let cx_in = (AtomicUsize::new(0), Barrier::new(2));
    let dispatched = group.dispatch(&calls, &cx_in, &cx);
    assert_eq!(cx_in.0.load(Ordering::SeqCst), 0);
    // On one thread, the handler waits for the other task.
    let (outcomes, _) = futures_util::future::join(dispatched, cx_in.1.wait()).await;
    assert_eq!(outcomes[0].as_ref().unwrap().content, "done");
    assert_eq!(cx_in.0.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn calls_run_concurrently_with_results_in_call_order() {
    /// Wait for all the others, then say which one this was.
    #[derive(Deserialize, JsonSchema)]
    struct Meet {
        number: usize,
    }

    impl Handle<(Barrier, AtomicUsize), usize> for Meet {
        async fn handle(
            self,
            (barrier, done): &(Barrier, AtomicUsize),
            _cx: &Context,
        ) -> Result<(String, usize)> {
            // The barrier opens only if all calls run concurrently.
            barrier.wait().await;
            for _ in 0..10 - self.number {
                tokio::task::yield_now().await;
            }
            let place = done.fetch_add(1, Ordering::SeqCst);
            match self.number {
                3 => panic!("three"),
                4 => Err(Error::other("four")),
                number => Ok((format!("number {number}"), place)),
            }
        }
    }

    let group = ToolGroup::new().handler::<Meet>().unwrap();
    let calls: Vec<_> = (0..10)
        .map(|number| {
            ToolCall::new(number.to_string(), "meet", format!(r#"{{"number":{number}}}"#))
        })
        .collect();
    let cx_in = (Barrier::new(10), AtomicUsize::new(0));
    let outcomes = group.dispatch(&calls, &cx_in, &Context::default()).await;
    assert_eq!(cx_in.1.load(Ordering::SeqCst), 10);
    for (number, outcome) in outcomes.into_iter().enumerate() {
        match (number, outcome) {
            (3, Err(error)) => assert_eq!(error.stage(), Stage::Panic),
            (4, Err(error)) => assert_eq!(error.to_string(), "four"),
            (_, Ok(outcome)) => {
                assert_eq!(outcome.id, number.to_string());
                assert_eq!(outcome.content, format!("number {number}"));
                // The last call was the first to finish.
                assert_eq!(outcome.context, Some(9 - number));
            }
            (_, Err(error)) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn an_empty_list_of_calls_has_no_outcomes() {
    assert!(group().dispatch(&[], &1, &Context::default()).await.is_empty());
}

#[tokio::test]
async fn a_handler_gets_the_calls_context() {
    /// Say whether the call was cancelled.
    #[derive(Deserialize, JsonSchema)]
    struct Ask {}

    impl Handle for Ask {
        async fn handle(self, (): &(), cx: &Context) -> Result<(String, ())> {
            Ok((cx.is_cancelled().to_string(), ()))
        }
    }

    let group = Arc::new(ToolGroup::new().handler::<Ask>().unwrap());
    let cancellation = toolwright_module::Cancellation::default();
    let cx = Context::default().with_cancellation(cancellation.clone());
    cancellation.cancel();
    // The dispatch is `Send`.
    let task = tokio::spawn(async move { group.run(&call("ask", "{}"), &(), &cx).await });
    assert_eq!(task.await.unwrap().unwrap().content, "true");
}

#[tokio::test]
async fn an_outcome_becomes_a_message_of_the_conversation() {
    let weather = call("get_weather", r#"{"city": "Austin", "state": "TX"}"#);
    let result = run(weather.clone()).await.unwrap().into_result(&weather);
    assert_eq!((result.id.as_str(), result.failed), ("call_of_get_weather", false));
    let unknown = call("unknown", "{}");
    let result = run(unknown.clone()).await.unwrap().into_result(&unknown);
    assert_eq!((result.text.as_str(), result.failed), ("Tool, `unknown` not found.", true));
}

#[test]
fn a_stored_call_without_a_kind_is_a_function() {
    let stored = r#"{"id":"1","name":"add","arguments":"{}"}"#;
    let call: ToolCall = serde_json::from_str(stored).unwrap();
    assert_eq!(call, ToolCall::new("1", "add", "{}"));
    assert_eq!(serde_json::to_string(&call).unwrap(), stored);

    let custom = ToolCall::custom("1", "bio", "I am Kate.");
    let stored = serde_json::to_string(&custom).unwrap();
    assert_eq!(stored, r#"{"id":"1","name":"bio","arguments":"I am Kate.","kind":"custom"}"#);
    assert_eq!(serde_json::from_str::<ToolCall>(&stored).unwrap(), custom);
}

#[tokio::test]
async fn the_payload_of_a_panic_may_panic_when_dropped() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any("again");
        }
    }
    /// Blow up.
    #[derive(Deserialize, JsonSchema)]
    struct BlowUp {}
    impl Handle for BlowUp {
        async fn handle(self, _cx_in: &(), _cx: &Context) -> Result<(String, ())> {
            std::panic::panic_any(Bomb)
        }
    }
    let group = ToolGroup::new().handler::<BlowUp>().unwrap();
    let calls = [ToolCall::new("1", "blow_up", "{}"), ToolCall::new("2", "none", "{}")];
    let outcomes = group.dispatch(&calls, &(), &Context::default()).await;
    assert_eq!(outcomes[0].as_ref().unwrap_err().stage(), Stage::Panic);
    assert!(outcomes[1].is_ok());
}

#[tokio::test]
async fn an_error_about_a_long_text_is_short() {
    /// Yes or no.
    #[derive(Deserialize, JsonSchema)]
    enum Word {
        Yes,
        No,
    }
    impl Custom for Word {
        async fn handle(self, _cx_in: &(), _cx: &Context) -> Result<(String, ())> {
            let said = match self {
                Self::Yes => "yes",
                Self::No => "no",
            };
            Ok((said.to_owned(), ()))
        }
    }
    let group = ToolGroup::new().custom::<Word>().unwrap();
    let call = ToolCall::custom("1", "word", "x".repeat(1_000_000));
    let outcome = group.run(&call, &(), &Context::default()).await.unwrap();
    assert_eq!(outcome.fail_reason, Some(FailReason::InvalidArguments));
    assert!(outcome.content.len() < 400, "{} bytes", outcome.content.len());
}

/// Ask the same group again.
#[derive(Deserialize, JsonSchema)]
struct Again {}

type Itself = OnceLock<ToolGroup<Arc<Inner>>>;

#[derive(Default)]
struct Inner {
    group: Itself,
    deepest: AtomicUsize,
}

impl Handle<Arc<Inner>> for Again {
    async fn handle(self, inner: &Arc<Inner>, cx: &Context) -> Result<(String, ())> {
        inner.deepest.fetch_add(1, Ordering::Relaxed);
        let call = ToolCall::new("1", "again", "{}");
        let group = inner.group.get().unwrap();
        let again: BoxFuture<'_, _> = Box::pin(group.run(&call, inner, cx));
        Ok((again.await?.content, ()))
    }
}

#[tokio::test]
async fn a_group_that_calls_itself_reaches_a_limit() {
    let inner = Arc::new(Inner::default());
    let group = ToolGroup::new().handler::<Again>().unwrap();
    inner.group.set(group).ok().unwrap();
    let call = ToolCall::new("1", "again", "{}");
    let cx = Context::default();
    let error = inner.group.get().unwrap().run(&call, &inner, &cx).await.unwrap_err();
    assert_eq!((error.stage(), error.audience()), (Stage::Limit, Audience::Run));
    insta::assert_snapshot!(error, @"tools call each other more than 32 deep; does one call itself?");
    assert_eq!(inner.deepest.load(Ordering::Relaxed), 32);
}
