//! The drives of an agent: to the end, as a stream, and for one step.

use toolwright_module::error::Stage;
use toolwright_module::event::{Ending, EventKind};
use toolwright_module::runner;
use toolwright_module::{Context, Error, Result};
use tracing::Instrument;

use super::reader::{Reader, Reads};
use super::{Agent, Core, is_same};
use crate::driver::{Driver, Judge};
use crate::error;
use crate::finished::Finished;
use crate::run::Run;
use crate::run_stream::RunStream;
use crate::task::Task;
use crate::telemetry::{self, Measured, Meter};
use crate::unfinished::Unfinished;

impl<O: Send + Sync + 'static> Agent<O> {
    /// Runs a task to its end.
    ///
    /// ```
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Reply};
    /// # use toolwright_orchestrator::{Agent, Ending};
    /// # let model = Scripted::new(|_| Ok(Reply::text("Hello.")));
    /// let agent = Agent::new(model, [])?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let finished = agent.run("Say hello.", &Context::default()).await?;
    /// assert_eq!((finished.answer.as_str(), finished.ending), ("Hello.", Ending::Answered));
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`start`](Self::start) and [`drive`](Self::drive).
    pub fn run<'a>(
        &'a self,
        task: impl Into<Task>,
        cx: &'a Context,
    ) -> impl Future<Output = Result<Finished<O>>> + Send + 'a {
        // Converted here, so that a wrong type gives one error and not one for each use. Boxed,
        // because the future moves.
        let run = self.start(task).map(Box::new);
        async move {
            let mut run = run.map_err(error::RunError::into_module)?;
            self.drive(&mut run, cx).await
        }
    }

    /// Runs a task as a stream of its events, with the result at the end.
    ///
    /// ```
    /// use futures_util::StreamExt;
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Reply};
    /// # use toolwright_module::event::EventKind;
    /// use toolwright_orchestrator::{Agent, Progress};
    ///
    /// # let model = Scripted::new(|_| Ok(Reply::text("Hello.")));
    /// let agent = Agent::new(model, [])?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let mut stream = agent.stream("Say hello.", &Context::default());
    /// let mut seen = String::new();
    /// while let Some(progress) = stream.next().await {
    ///     match progress? {
    ///         Progress::Event(event) => {
    ///             if let EventKind::TextDelta { text } = event.kind {
    ///                 seen.push_str(&text);
    ///             }
    ///         }
    ///         Progress::Finished(finished) => assert_eq!(finished.answer, seen),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Its errors are those of [`drive`](Self::drive). To keep the run itself, call `drive` with a
    /// context whose listener sends the events to a channel.
    #[must_use]
    pub fn stream(&self, task: impl Into<Task>, cx: &Context) -> RunStream<O> {
        let (agent, task) = (self.clone(), task.into());
        RunStream::new(cx.clone(), |cx| async move { agent.run(task, &cx).await })
    }

    /// Drives a run until it is done.
    ///
    /// If it fails, the run is at the step that failed. You can inspect it, store it, or drive it
    /// again. A call that was in progress is then made again if it reads or may be repeated. If it
    /// changes something, the next drive asks a person first ([`Run::unknown_outcome`]).
    ///
    /// A tool that blocks its thread (a long computation, a lock, `std::fs`) cannot be interrupted,
    /// not even by a deadline, and no other task runs on the thread. The event
    /// [`EventKind::ToolBlocked`](toolwright_module::event::EventKind::ToolBlocked) reports such a
    /// tool. Move its work to `tokio::task::spawn_blocking`.
    ///
    /// # Errors
    ///
    /// - An error of the model's provider.
    /// - [`Stage::Provider`] with [`Unfinished`] as its cause: the model refused, or stopped for a
    ///   reason that this version does not know.
    /// - [`Stage::Limit`] with [`Unfinished`] as its cause: the model repeated the same mistake too
    ///   often.
    /// - [`Stage::Approval`] with [`AwaitsApproval`](crate::AwaitsApproval) as its cause: a call
    ///   waits for a person, and there is no approver.
    /// - [`Unfinished`] as its cause, for a typed answer: the run ended without it, for example at a
    ///   limit ([`Stage::Limit`]).
    /// - [`RunError::OtherOutput`](error::RunError::OtherOutput) as its cause: the run is for another
    ///   type of answer.
    /// - [`Stage::Limit`]: the context's deadline passed, or a ledger of the context has too little
    ///   left.
    /// - A cancellation, and a tool's [`Error::stop`].
    ///
    /// Other errors of tools are sent to the model. If the answer is a text, a limit of the run itself is
    /// an [`Ending`].
    ///
    /// [`Error::stop`]: toolwright_module::Error::stop
    /// [`Stage::Provider`]: toolwright_module::error::Stage::Provider
    /// [`Stage::Limit`]: toolwright_module::error::Stage::Limit
    /// [`Stage::Approval`]: toolwright_module::error::Stage::Approval
    pub async fn drive(&self, run: &mut Run, cx: &Context) -> Result<Finished<O>> {
        let (finished, answer) = ended(self.drive_read(run, cx, false).await?)?;
        Ok(finished.with_answer(answer))
    }

    /// Drives a run for one step: one request to the model, one batch of calls, or the decisions on calls.
    /// Returns the result once the run has ended, and `None` before.
    ///
    /// It is for user interfaces and for loops that do something between two steps.
    ///
    /// ```
    /// # use toolwright_module::testing::SchemaDriven;
    /// # use toolwright_module::{Context, Signature, Tool, from_fn};
    /// # use toolwright_orchestrator::Agent;
    /// # /// Tell the time.
    /// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// # struct Time {}
    /// # impl Signature for Time { type Output = String; }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let time = Tool::new(from_fn(async |_: Time| Ok("noon".to_owned())))?;
    /// let agent = Agent::new(SchemaDriven::default(), [time])?;
    /// let mut run = agent.start("What time is it?")?;
    /// let (cx, mut steps) = (Context::default(), 1);
    /// while agent.step(&mut run, &cx).await?.is_none() {
    ///     steps += 1;
    /// }
    /// // A request, a call, and the request with the answer.
    /// assert_eq!(steps, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`drive`](Self::drive).
    pub async fn step(&self, run: &mut Run, cx: &Context) -> Result<Option<Finished<O>>> {
        let ended = self.drive_read(run, cx, true).await?;
        Ok(ended.map(|(finished, answer)| finished.with_answer(answer)))
    }

    /// Drives a run, and reads its answer. An ending without an answer is an error. Also returns the
    /// answer as a text.
    pub(super) async fn drive_read(
        &self,
        run: &mut Run,
        cx: &Context,
        only_one: bool,
    ) -> Result<Option<(Finished, O)>> {
        let Self { core, reader, validators } = self;
        // The run may be for another type of answer, or for an earlier form of this one.
        if let Reader::Output { contract, .. } = reader
            && !run.output().is_some_and(|output| is_same(output, contract))
        {
            let name = contract.name().to_owned();
            return Err(error::RunError::OtherOutput { name }.into_module());
        }
        let reads_any = run.output().is_some() || !validators.is_empty();
        let policy = core.policy.min(cx.policy());
        let mut reads = Reads { reader, validators, policy, value: None };
        let judge = reads_any.then_some(&mut reads as &mut dyn Judge);
        let Some(finished) = core.drive_steps(run, cx, judge, only_one).await? else {
            return Ok(None);
        };
        let answer = match (reader, finished.ending) {
            (Reader::Text(_), Ending::Refused | Ending::Stuck | Ending::Unclear) => None,
            (Reader::Text(of), _) => Some(of(finished.answer.clone())),
            (Reader::Output { .. }, Ending::Answered) => reads.value,
            (Reader::Output { .. }, _) => None,
        };
        match answer {
            Some(answer) => Ok(Some((finished, answer))),
            None => Err(Unfinished::error(cx.tool().unwrap_or(core.name()), finished)),
        }
    }
}

impl Core {
    /// Drives a run to its end, or for one step, and returns every ending. Returns `None` if the run
    /// has not ended. If `judge` rejects an answer, the model gets its reason.
    pub(crate) async fn drive_steps(
        &self,
        run: &mut Run,
        cx: &Context,
        judge: Option<&mut dyn Judge>,
        only_one: bool,
    ) -> Result<Option<Finished>> {
        let name = cx.tool().unwrap_or(self.name());
        let below = runner::nested(cx)?;
        let span = telemetry::invoke_agent(name, &*self.model, run.task(), cx);
        let meter = Meter::start(Measured::Agent { name, model: &*self.model });
        cx.emit(|| EventKind::Started { agent: name.to_owned(), step: run.step() });
        let fits = run.check_tools(&self.known).and_then(|()| run.check_model(&*self.model));
        if let Err(error) = fits.map_err(error::RunError::into_module) {
            runner::mark_failed(&span, cx, &error);
            meter.end(Some(error.stage()), None);
            return Err(error);
        }
        run.add_approval(&self.approval);
        let mut driver = Driver::new(self, name, run, below);
        // Boxed, because agents below agents would otherwise use too much of the stack.
        let driven = Box::pin(driver.drive(judge, only_one));
        let result = driven.instrument(span.clone()).await;
        let failures = std::mem::take(&mut driver.failures);
        drop(driver);
        telemetry::spent(&span, run);
        let ending = result.as_ref().ok().and_then(|ended| ended.as_ref().map(|it| it.ending));
        meter.end(result.as_ref().err().map(Error::stage), ending);
        match result {
            Ok(None) => Ok(None),
            Ok(Some(result)) => {
                if let Some(limit) = result.limit {
                    let reason = format!("`{name}` has reached its limit of {limit}");
                    cx.emit(|| EventKind::LimitReached { limit, reason });
                }
                telemetry::answered(&span, &result.answer, cx);
                cx.emit(|| EventKind::Done {
                    answer: result.answer.clone(),
                    ending: result.ending,
                });
                Ok(Some(Finished::new(run, result, failures)))
            }
            Err(error) => {
                runner::mark_failed(&span, cx, &error);
                cx.emit(|| EventKind::Failed {
                    stage: error.stage(),
                    error: run.limits().cut_error(format!("{error:#}")),
                });
                Err(error)
            }
        }
    }
}

/// Returns the result of a drive to the end.
pub(super) fn ended<T>(result: Option<T>) -> Result<T> {
    result.ok_or_else(|| Error::stop("the run has not ended").at(Stage::Setup))
}
