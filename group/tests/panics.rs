//! Calls that panic when they are dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use schemars::JsonSchema;
use serde::Deserialize;
use toolwright_group::{Handle, ToolGroup};
use toolwright_module::{Context, Result, ToolCall};

/// Wait for ever.
#[derive(Deserialize, JsonSchema)]
struct Wait {}

/// A value that panics when it is dropped, and counts that.
struct Falling(Arc<AtomicUsize>);

impl Drop for Falling {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        panic!("the shelf fell");
    }
}

impl Handle<Arc<AtomicUsize>> for Wait {
    async fn handle(self, dropped: &Arc<AtomicUsize>, _: &Context) -> Result<(String, ())> {
        let _falling = Falling(Arc::clone(dropped));
        std::future::pending().await
    }
}

#[tokio::test]
async fn panics_of_dropped_calls_are_caught_one_by_one() {
    let group = ToolGroup::new().handler::<Wait>().unwrap();
    let calls = ["1", "2", "3"].map(|id| ToolCall::new(id, "wait", "{}"));
    let dropped = Arc::new(AtomicUsize::new(0));
    let cx = Context::default();
    let mut dispatch = Box::pin(group.dispatch(&calls, &dropped, &cx));
    assert!((&mut dispatch).now_or_never().is_none());
    drop(dispatch);
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
}
