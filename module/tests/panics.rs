//! Listeners, approvers and models that panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use toolwright_module::model::Settings;

use futures_util::stream::{self, StreamExt};
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::budget::{Budget, Ledger};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::model::{BoxFuture, BoxStream, Capabilities, Delta};
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Context, Dialect, Effect, LanguageModel, Message, Reply, Request, Result, ToolCall,
};

fn ask() -> Request {
    Request::new([Message::user("Hi!")])
        .with_settings(Settings::default().with_max_output_tokens(10))
}

#[tokio::test]
async fn a_panic_of_a_listener_affects_no_other_listener() {
    let heard = Arc::new(AtomicUsize::new(0));
    let hears = Arc::clone(&heard);
    let cx =
        Context::default().with_events(|_| panic!("the screen is gone")).with_events(move |_| {
            hears.fetch_add(1, Ordering::Relaxed);
        });
    let model = Scripted::new(|_: &Request| Ok(Reply::text("Hello there.")));
    let reply = cx.ask(&model, ask(), true).await.unwrap();
    assert_eq!(reply.to_text(), "Hello there.");
    // Two pieces of text and the reply.
    assert_eq!(heard.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn an_approver_that_panics_is_an_error_that_ends_the_run() {
    let approval = || Approval {
        path: Vec::new(),
        call: ToolCall::new("1", "burn", "{}"),
        effect: Effect::Write,
        unknown: false,
        asked_before: 0,
        reason: None,
    };
    let at_once = Context::default()
        .with_approver(|_| -> std::future::Ready<Result<Decision>> { panic!("nobody is there") });
    let later = Context::default().with_approver(|_| async {
        tokio::task::yield_now().await;
        panic!("nobody is there")
    });
    for cx in [at_once, later] {
        let error = toolwright_module::runner::approve(&cx, approval()).await.unwrap().unwrap_err();
        assert_eq!((error.stage(), error.audience()), (Stage::Panic, Audience::Run));
        assert_eq!(error.to_string(), "the approver panicked: nobody is there");
    }
}

/// A model that panics after some pieces.
struct Falls(usize);

impl LanguageModel for Falls {
    fn name(&self) -> &str {
        "falls"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        panic!("out of memory")
    }

    fn stream<'a>(&'a self, _: Request) -> BoxStream<'a, Result<Delta>> {
        let pieces = stream::repeat_with(|| Ok(Delta::Text("a".to_owned()))).take(self.0);
        pieces.chain(stream::once(async { panic!("out of memory") })).boxed()
    }
}

#[tokio::test]
async fn a_model_that_panics_is_an_error_and_keeps_what_was_reserved() {
    for stream in [false, true] {
        let ledger = Ledger::new(Budget { output_tokens: Some(10), ..Budget::default() });
        let cx = Context::default().with_ledger(ledger.clone()).with_events(|_| {});
        let error = cx.ask(&Falls(3), ask(), stream).await.unwrap_err();
        assert_eq!((error.stage(), error.audience()), (Stage::Panic, Audience::User));
        assert_eq!(error.to_string(), "the model panicked: out of memory");
        assert_eq!(ledger.committed().usage.output_tokens, 10);
    }
}
