//! What a drive needs of Restate. The tests have it in memory.

use futures_util::future::BoxFuture;
use restate_sdk::prelude::*;
use serde::Serialize;

use crate::record::{Answer, Stored};

/// The work of a step. If it ends with an error, the attempt has ended and Restate tries again.
pub(crate) type Step = BoxFuture<'static, HandlerResult<Stored>>;

/// The journal and the state of a workflow. One method is awaited at a time. An error means that the
/// workflow was cancelled.
pub(crate) trait Engine: Sync {
    /// Returns the recorded result of a step, or does it and records its result.
    fn run(
        &self,
        name: &str,
        step: Step,
    ) -> impl Future<Output = Result<Stored, TerminalError>> + Send;

    /// Waits for a promise of this name.
    fn decision(&self, name: &str) -> impl Future<Output = Result<Answer, TerminalError>> + Send;

    fn set(&self, key: &str, value: impl Serialize + Send + 'static);

    fn clear(&self, key: &str);
}

/// Restate's context.
pub(crate) struct Workflow<'a>(pub(crate) &'a WorkflowContext<'a>);

impl Engine for Workflow<'_> {
    async fn run(&self, name: &str, step: Step) -> Result<Stored, TerminalError> {
        let step = || async { step.await.map(Json) };
        let Json(stored) = self.0.run(step).name(name).await?;
        Ok(stored)
    }

    async fn decision(&self, name: &str) -> Result<Answer, TerminalError> {
        let Json(answer) = promise(self.0, name).await?;
        Ok(answer)
    }

    fn set(&self, key: &str, value: impl Serialize + Send + 'static) {
        self.0.set(key, Json(value));
    }

    fn clear(&self, key: &str) {
        self.0.clear(key);
    }
}

/// With one lifetime for the context and the name, as the SDK wants it.
async fn promise<'a>(
    ctx: &'a WorkflowContext<'a>,
    name: &'a str,
) -> Result<Json<Answer>, TerminalError> {
    ctx.promise(name).await
}
