//! One attempt: made, and graded.

use std::io::ErrorKind;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use serde::Serialize;
use serde_json::Value;
use toolwright_journal::{Journal, JournalError};
use toolwright_module::__text::panic_text;
use toolwright_module::budget::{Budget, Exhausted, Ledger, Spent};
use toolwright_module::event::Ending;
use toolwright_module::testing::{Recording, RecordingError};
use toolwright_module::{AnyModule, Context, Module, runner};
use tracing::Instrument;

use crate::attempt::{Attempt, NoteTools, Seen, dollars, tokens};
use crate::case::{Case, CaseValue, file_of};
use crate::error::{EvalError, Result};
use crate::eval::{Recordings, SetWorld, Stored, Subject};
use crate::folder::Folder;
use crate::grade::{Grade, Verdict};
use crate::report::{GradedAttempt, LeftOut};
use crate::tape::{Misfit, Plays, Tape};
use crate::telemetry;

/// What came of an attempt.
pub(crate) enum Found {
    Graded(Box<GradedAttempt>),
    /// With what changed since the recording, if that is why.
    LeftOut(LeftOut, Option<Misfit>),
}

/// One attempt, with everything that it needs.
pub(crate) struct One<I: CaseValue, O: CaseValue> {
    pub(crate) case: Arc<Case<I, O>>,
    pub(crate) repeat: u32,
    pub(crate) subject: Subject<I, O>,
    pub(crate) graders: Vec<(String, AnyModule<Attempt<I, O>>)>,
    pub(crate) world: Option<Arc<SetWorld<I, O>>>,
    pub(crate) recordings: Option<Recordings>,
    pub(crate) folder: Option<Arc<Folder>>,
    pub(crate) ledger: Ledger,
    pub(crate) budget: Budget,
    /// The owner of the budget, as errors name it.
    pub(crate) owner: String,
    /// Why the budget allowed no further call, once it did not.
    pub(crate) exhausted: Arc<OnceLock<String>>,
    pub(crate) cx: Context,
}

impl<I: CaseValue, O: CaseValue> One<I, O> {
    /// Makes the attempt and grades it.
    pub(crate) async fn run(&self) -> Result<Found> {
        match self.until_ended(self.make()).await {
            Some(found) => found,
            None => Ok(self.ended()),
        }
    }

    async fn make(&self) -> Result<Found> {
        if let Some(reason) = self.why_not() {
            return Ok(self.left_out(reason, None));
        }
        let tape = match self.tape() {
            Ok(tape) => tape,
            Err(error) => return Ok(self.left_out(error.to_string(), None)),
        };
        let mut cx = self.cx.clone().with_ledger(self.ledger.child());
        if let Some(tape) = &tape {
            cx = cx.with_hook(Plays(Arc::clone(tape)));
        }
        if let Some(world) = &self.world {
            cx = world(cx, &self.case);
        }
        let (run, journal) = match &self.folder {
            Some(folder) => {
                let id = run_id(&self.case.name, self.repeat);
                folder.forget(&id)?;
                (Some(id), Some(folder.journal().clone()))
            }
            None => (None, None),
        };
        let attempt = self.attempt(&cx, run.clone().zip(journal)).await?;
        // A limit of the eval is no mistake of the agent, and neither is a recording of another agent.
        let reached = attempt.ending == Some(Ending::LimitReached);
        if (attempt.error.is_some() || reached)
            && let Some(reason) = self.why_not()
        {
            return Ok(self.left_out(reason, None));
        }
        if let Some(misfit) = tape.as_ref().and_then(|tape| tape.misfit()) {
            return Ok(self.left_out(misfit.reason.clone(), Some(misfit)));
        }
        let (grades, spent) = self.grade(&attempt, &cx).await;
        let failed = grades.iter().any(|grade| grade.verdict == Verdict::Error);
        if failed && let Some(reason) = self.why_not() {
            return Ok(self.left_out(reason, None));
        }
        if let Some(misfit) = tape.as_ref().and_then(|tape| tape.misfit()) {
            return Ok(self.left_out(misfit.reason.clone(), Some(misfit)));
        }
        if let Some((path, recording)) = tape.as_ref().and_then(|tape| tape.recorded())
            && attempt.error.is_none()
            && !failed
        {
            recording
                .save(path)
                .map_err(|source| EvalError::Recording { case: self.case.name.clone(), source })?;
        }
        let graded = graded(attempt, self.repeat, run, grades, &spent);
        if let Some(folder) = &self.folder {
            folder.keep(&self.case, &graded)?;
        }
        Ok(Found::Graded(Box::new(graded)))
    }

    /// Grades a stored run.
    pub(crate) async fn grade_stored(&self, attempt: Attempt<I, O>) -> Found {
        if let Some(reason) = self.why_not() {
            return self.left_out(reason, None);
        }
        let Some((grades, spent)) = self.until_ended(self.grade(&attempt, &self.cx)).await else {
            return self.ended();
        };
        let failed = grades.iter().any(|grade| grade.verdict == Verdict::Error);
        if failed && let Some(reason) = self.why_not() {
            return self.left_out(reason, None);
        }
        let stored = Some(self.case.name.clone());
        Found::Graded(Box::new(graded(attempt, 0, stored, grades, &spent)))
    }

    /// Waits for the work, which may never end by itself. Returns `None` if the eval was cancelled or has
    /// reached its deadline.
    async fn until_ended<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        /// Later than any useful deadline, and small enough for a timer.
        const ONE_YEAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);

        let work = self.cx.until_cancelled(async { Ok(work.await) });
        let Some(deadline) = self.cx.deadline() else { return work.await.ok() };
        let deadline = deadline.min(Instant::now() + ONE_YEAR);
        tokio::time::timeout_at(deadline.into(), work).await.ok()?.ok()
    }

    fn ended(&self) -> Found {
        let reason = self.why_not();
        self.left_out(reason.unwrap_or_else(|| "the eval has ended".to_owned()), None)
    }

    /// Grades an attempt, and notes whether the budget of the eval allowed that. Returns the cost, too.
    async fn grade(&self, attempt: &Attempt<I, O>, cx: &Context) -> (Vec<Grade>, Spent) {
        let seen = Arc::new(Seen::default());
        let ledger = self.ledger.child();
        let noted = Arc::clone(&seen);
        let cx =
            cx.clone().with_ledger(ledger.clone()).with_events(move |event| noted.event(event));
        let grades = grade(&self.graders, attempt, &cx, |error| {
            let exhausted = error.downcast_ref::<Exhausted>();
            if exhausted.is_some_and(|one| runner::is_exhausted_by(&self.ledger, one)) {
                let _ = self.exhausted.set(error.to_string());
            }
        });
        let grades = grades.await;
        // A grader that is an agent ends at the limit without an error.
        if let Some(reason) = seen.limit_of(&self.owner) {
            let _ = self.exhausted.set(reason);
        }
        (grades, ledger.spent())
    }

    /// Makes an attempt.
    ///
    /// # Errors
    ///
    /// [`EvalError::Run`]: a full disk, for example, is not a mistake of the agent.
    async fn attempt(
        &self,
        cx: &Context,
        stored: Option<(String, Journal)>,
    ) -> Result<Attempt<I, O>> {
        let seen = Arc::new(Seen::default());
        let ledger = self.ledger.child();
        let noted = Arc::clone(&seen);
        let cx = cx
            .clone()
            .with_ledger(ledger.clone())
            .with_hook(NoteTools(Arc::clone(&seen)))
            .with_events(move |event| noted.event(event));
        let stored = stored.map(|(id, journal)| Stored { journal, id });
        let began = Instant::now();
        let input = self.case.input.clone();
        let output = AssertUnwindSafe((self.subject)(input, stored, cx)).catch_unwind().await;
        let mut attempt = Attempt::empty((*self.case).clone());
        attempt.seconds = began.elapsed().as_secs_f64();
        match output {
            Ok(Ok(output)) => attempt.output = Some(output),
            Ok(Err(error))
                if self.folder.is_some() && error.downcast_ref::<JournalError>().is_some() =>
            {
                let (case, reason) = (self.case.name.clone(), format!("{error:#}"));
                return Err(EvalError::Run { case, reason });
            }
            Ok(Err(error)) => attempt.error = Some(format!("{error:#}")),
            Err(panic) => attempt.error = Some(format!("it panicked: {}", panic_text(panic))),
        }
        if let Some(reason) = seen.limit_of(&self.owner) {
            let _ = self.exhausted.set(reason);
        }
        seen.add_to(&mut attempt);
        attempt.set_cost(ledger.spent());
        Ok(attempt)
    }

    /// Returns why no further attempt is made.
    fn why_not(&self) -> Option<String> {
        if self.cx.is_cancelled() {
            return Some("the eval was cancelled".to_owned());
        }
        if self.cx.deadline().is_some_and(|deadline| deadline <= Instant::now()) {
            return Some("the eval has reached its deadline".to_owned());
        }
        if let Some(reason) = self.exhausted.get() {
            return Some(reason.clone());
        }
        let (limit, _) =
            self.budget.refuses(self.ledger.spent(), Spent::model_call(Default::default()))?;
        Some(format!("the eval has reached its limit of {limit}"))
    }

    pub(crate) fn left_out(&self, reason: String, misfit: Option<Misfit>) -> Found {
        Found::LeftOut(LeftOut::new(&self.case.name, self.repeat, reason), misfit)
    }

    /// Returns the recording of the case, or the place for it.
    fn tape(&self) -> Result<Option<Arc<Tape>>> {
        let path = |folder| file_of(folder, &self.case.name, self.repeat, "json");
        let tape = match &self.recordings {
            None => return Ok(None),
            Some(Recordings::Make(folder)) => {
                std::fs::create_dir_all(folder)
                    .map_err(|source| EvalError::Write { path: folder.clone(), source })?;
                Tape::record(path(folder))
            }
            Some(Recordings::Play(folder)) => {
                let case = &self.case.name;
                let unusable = |source| match source {
                    RecordingError::Read { source, .. } if source.kind() == ErrorKind::NotFound => {
                        EvalError::NoRecording { folder: folder.clone() }
                    }
                    source => EvalError::Recording { case: case.clone(), source },
                };
                Tape::replay(Recording::load(path(folder)).map_err(unusable)?)
            }
        };
        Ok(Some(Arc::new(tape)))
    }
}

/// Returns the id of an attempt's run.
pub(crate) fn run_id(case: &str, repeat: u32) -> String {
    if repeat == 0 { case.to_owned() } else { format!("{case}, repeat {}", repeat + 1) }
}

pub(crate) async fn grade<I: CaseValue, O: CaseValue>(
    graders: &[(String, AnyModule<Attempt<I, O>>)],
    attempt: &Attempt<I, O>,
    cx: &Context,
    failed: impl Fn(&toolwright_module::Error),
) -> Vec<Grade> {
    let mut grades = Vec::with_capacity(graders.len());
    for (name, grader) in graders {
        let span = telemetry::evaluate(name);
        let call = AssertUnwindSafe(grader.call(attempt.clone(), cx)).catch_unwind();
        let grade = match call.instrument(span.clone()).await {
            Ok(Ok(grade)) => grade.checked(),
            Ok(Err(error)) => {
                failed(&error);
                Grade::error(format!("the grader failed: {error:#}"))
            }
            Err(panic) => Grade::error(format!("the grader panicked: {}", panic_text(panic))),
        };
        telemetry::evaluated(&span, name, &grade, cx);
        grades.push(grade);
    }
    grades
}

pub(crate) fn graded<I: CaseValue, O: CaseValue>(
    attempt: Attempt<I, O>,
    repeat: u32,
    run: Option<String>,
    grades: Vec<Grade>,
    spent: &Spent,
) -> GradedAttempt {
    let (grading_dollars, grading_cost_is_known) = dollars(spent);
    GradedAttempt {
        case: attempt.case.name,
        repeat,
        run,
        input: value(&attempt.case.input),
        expected: attempt.case.expected.as_ref().map_or(Value::Null, value),
        output: attempt.output.as_ref().map_or(Value::Null, value),
        error: attempt.error,
        calls: attempt.calls,
        ending: attempt.ending,
        rounds: attempt.rounds,
        tokens: attempt.tokens,
        dollars: attempt.dollars,
        cost_is_known: attempt.cost_is_known,
        grading_tokens: tokens(spent),
        grading_dollars,
        grading_cost_is_known,
        seconds: attempt.seconds,
        metadata: attempt.case.metadata,
        grades,
    }
}

fn value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_else(|error| Value::String(error.to_string()))
}
