//! Drives of runs inside the `run` handler of a workflow.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use restate_sdk::endpoint::ServiceOptions;
use restate_sdk::prelude::*;
use toolwright_module::Context;
use toolwright_orchestrator::perform::Record;
use toolwright_orchestrator::{Agent, Finished, RunError, Task};

use crate::drive::Drive;
use crate::engine::Workflow;

/// Added to the timeouts, for the parts of an attempt around a question.
const MARGIN: Duration = Duration::from_secs(60);

type Listener = Arc<dyn Fn(&str, &Record) + Send + Sync>;

/// Drives runs in workflows of Restate. Each part of a run is a step of the workflow, which is
/// recorded before the run goes on.
///
/// ```no_run
/// use std::time::Duration;
///
/// use restate_sdk::prelude::*;
/// use toolwright_module::Context;
/// use toolwright_orchestrator::{Agent, Finished};
/// use toolwright_restate::{Decide, Events, Restate, Waiting};
///
/// struct Assistant {
///     agent: Agent,
///     restate: Restate,
/// }
///
/// #[restate_sdk::workflow]
/// impl Assistant {
///     /// Runs once for each id.
///     #[handler]
///     async fn run(&self, ctx: WorkflowContext<'_>, task: String) -> HandlerResult<Json<Finished>> {
///         let cx = Context::default();
///         Ok(Json(self.restate.drive(&ctx, &self.agent, task, &cx).await?))
///     }
///
///     /// What waits for a person?
///     #[handler]
///     async fn waiting(&self, ctx: SharedWorkflowContext<'_>) -> HandlerResult<Json<Vec<Waiting>>> {
///         Ok(Json(toolwright_restate::waiting(&ctx).await?))
///     }
///
///     #[handler]
///     async fn decide(&self, ctx: SharedWorkflowContext<'_>, decide: Json<Decide>) -> HandlerResult<()> {
///         toolwright_restate::decide(&ctx, decide.0).await
///     }
///
///     #[handler]
///     async fn events(&self, ctx: SharedWorkflowContext<'_>, from: u64) -> HandlerResult<Json<Events>> {
///         Ok(Json(toolwright_restate::events(&ctx, from).await?))
///     }
/// }
///
/// # fn serve(agent: Agent) {
/// // No request to the model takes longer than ten minutes.
/// let options = toolwright_restate::options(Duration::from_secs(600));
/// let assistant = Assistant { agent, restate: Restate::default() };
/// let endpoint = Endpoint::builder()
///     .bind(assistant.into_service_definition().options(options))
///     .build();
/// # }
/// ```
#[derive(Clone)]
pub struct Restate {
    /// Maximum length of the result of a call, in bytes of JSON. Default: 1 MiB.
    ///
    /// A longer result is not recorded. The model gets an error that says so. Images, documents and
    /// audio do not count. Their limit is that of the run,
    /// [`Limits::max_part_bytes`](toolwright_orchestrator::Limits::max_part_bytes), and at most
    /// 16 MiB: Restate refuses messages of more than 32 MiB by default. The whole text of a result that
    /// was cut does not count either. At most 8 MiB of its JSON are kept.
    pub max_result_bytes: u64,
    /// Gets each outcome of a part, with the id of the run, when it is recorded and before the run
    /// goes on.
    ///
    /// The listener runs on the task of the drive, so it should be quick. Parts that were recorded
    /// by an earlier attempt are not repeated.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use toolwright_orchestrator::perform::Record;
    /// use toolwright_restate::Restate;
    ///
    /// let restate = Restate {
    ///     listener: Some(Arc::new(|id, record| {
    ///         if let Record::Ended { part, .. } = record {
    ///             println!("{id}: {part}");
    ///         }
    ///     })),
    ///     ..Restate::default()
    /// };
    /// ```
    pub listener: Option<Listener>,
}

impl Default for Restate {
    fn default() -> Self {
        Self { max_result_bytes: 1 << 20, listener: None }
    }
}

impl Restate {
    /// Drives the run of this workflow to its end. After a crash Restate calls the handler again, and
    /// the run continues where it was.
    ///
    /// The key of the workflow is the id of the run. Await nothing else of `ctx` at the same time.
    /// Without an approver in `cx`, a call that waits for a person waits for [`decide`]. [`Restate`] has
    /// an example.
    ///
    /// # Errors
    ///
    /// An error that may go away is a retryable [`HandlerError`], and Restate tries again. Any other
    /// error is a [`TerminalError`] and ends the workflow. After a cancellation it has the code 409.
    ///
    /// [`decide`]: crate::decide
    pub async fn drive<O: Send + Sync + 'static>(
        &self,
        ctx: &WorkflowContext<'_>,
        agent: &Agent<O>,
        task: impl Into<Task> + Send,
        cx: &Context,
    ) -> HandlerResult<Finished<O>> {
        let mut run = agent.start(task).map_err(wrong_setup)?;
        let engine = Workflow(ctx);
        let (drive, cx, batches) = Drive::new(self, &engine, ctx.key(), cx);
        drive.until_end(agent.drive(&mut run, &cx), batches).await
    }
}

impl fmt::Debug for Restate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Restate")
            .field("max_result_bytes", &self.max_result_bytes)
            .finish_non_exhaustive()
    }
}

fn wrong_setup(error: RunError) -> TerminalError {
    TerminalError::new_with_code(400, error.to_string())
}

/// Returns options for the service of a workflow: the timeouts of Restate are above `longest`, which
/// is the longest time of a question to the model or of a tool call, with its retries.
///
/// Restate's defaults are one minute of inactivity and ten minutes until the attempt is aborted. A
/// longer question would be asked again and again.
///
/// ```
/// use std::time::Duration;
///
/// let options = toolwright_restate::options(Duration::from_secs(15 * 60))
///     .journal_retention(Duration::from_secs(7 * 24 * 60 * 60));
/// ```
#[must_use]
pub fn options(longest: Duration) -> ServiceOptions {
    let timeout = longest.saturating_add(MARGIN);
    ServiceOptions::new()
        .inactivity_timeout(timeout)
        .abort_timeout(timeout)
        // The state has the events. A drive does not read them.
        .enable_lazy_state(true)
}
