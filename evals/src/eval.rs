//! Evals: cases, graders, and the attempts between them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::task::JoinSet;
use toolwright_journal::Journal;
use toolwright_module::__text::panic_text;
use toolwright_module::budget::{Budget, Spent};
use toolwright_module::{AnyModule, Context, Module, Signature, runner};
use toolwright_orchestrator::Agent;
use toolwright_signature::stable_hash;
use tracing::{Instrument, Span};

use crate::attempt::Attempt;
use crate::case::{Case, CaseValue, check_names};
use crate::error::{EvalError, RECORD, Result};
use crate::folder::Folder;
use crate::one_attempt::{Found, One, run_id};
use crate::report::{GradedAttempt, Report};
use crate::stored::StoredRun;
use crate::telemetry;
use crate::world::World;

/// Default of the number of attempts at the same time.
const CONCURRENCY: usize = 8;

/// An eval: cases, an agent or a module that attempts them, and graders.
///
/// ```
/// use toolwright_evals::{Case, Eval, graders};
/// use toolwright_module::testing::Scripted;
/// use toolwright_module::{Context, Reply};
/// use toolwright_orchestrator::Agent;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let model = Scripted::new(|_| Ok(Reply::text("Hello, Ada!")));
/// let report = Eval::agent("greetings", Agent::new(model, [])?)
///     .with_cases([Case::new("ada", "Greet Ada.").expecting("Ada")])
///     .with_grader("names the user", graders::contains_expected())
///     .run(&Context::default())
///     .await?;
/// report.assert_at_least(1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Each attempt has a context of its own, below the one that [`run`](Self::run) gets.
pub struct Eval<I: CaseValue = String, O: CaseValue = String> {
    name: String,
    subject: Subject<I, O>,
    version: Option<Arc<Version>>,
    cases: Vec<Arc<Case<I, O>>>,
    graders: Vec<(String, AnyModule<Attempt<I, O>>)>,
    repeats: u32,
    concurrency: usize,
    budget: Budget,
    world: Option<Arc<SetWorld<I, O>>>,
    recordings: Option<Recordings>,
    folder: Option<PathBuf>,
    progress: Option<Arc<OnProgress>>,
}

pub(crate) type Subject<I, O> = Arc<
    dyn Fn(I, Option<Stored>, Context) -> BoxFuture<'static, toolwright_module::Result<O>>
        + Send
        + Sync,
>;
pub(crate) type SetWorld<I, O> = dyn Fn(Context, &Case<I, O>) -> Context + Send + Sync;
/// Returns a hash of an agent as it is now, and `None` for a module.
type Version = dyn Fn() -> BoxFuture<'static, Option<String>> + Send + Sync;
type OnProgress = dyn Fn(usize, usize, &GradedAttempt) + Send + Sync;

/// The folder with the recordings.
#[derive(Clone)]
pub(crate) enum Recordings {
    Make(PathBuf),
    Play(PathBuf),
}

/// The place of an attempt's run.
pub(crate) struct Stored {
    pub(crate) journal: Journal,
    pub(crate) id: String,
}

impl<O: CaseValue> Eval<String, O> {
    /// Returns an eval of an agent. The input of a case is the text of its task.
    pub fn agent(name: impl Into<String>, agent: Agent<O>) -> Self {
        Self::agents(name, move || std::future::ready(Ok(agent.clone())))
    }

    /// Returns an eval of agents: this function makes one for each attempt. Use it if the tools have a
    /// state of their own, such as a memory, that attempts must not share.
    ///
    /// ```
    /// use toolwright_evals::{Case, Eval, graders};
    /// use toolwright_module::testing::Scripted;
    /// use toolwright_module::{Context, Reply};
    /// use toolwright_orchestrator::Agent;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let agent = async || Ok(Agent::new(Scripted::new(|_| Ok(Reply::text("Hello!"))), [])?);
    /// let report = Eval::agents("greetings", agent)
    ///     .with_cases([Case::new("ada", "Greet Ada.")])
    ///     .with_grader("greets", graders::contains("hello"))
    ///     .run(&Context::default())
    ///     .await?;
    /// report.assert_at_least(1.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn agents<F>(name: impl Into<String>, agent: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = toolwright_module::Result<Agent<O>>> + Send + 'static,
    {
        let agent = Arc::new(agent);
        let current = Arc::clone(&agent);
        let version = move || -> BoxFuture<'static, Option<String>> {
            let current = Arc::clone(&current);
            Box::pin(async move { version_of(&current().await.ok()?) })
        };
        let mut eval = Self::of(name.into(), move |task: String, stored, cx| {
            let agent = Arc::clone(&agent);
            Box::pin(async move {
                let agent = agent().await?;
                let finished = match stored {
                    Some(Stored { journal, id }) => journal.drive(&agent, &id, task, &cx).await?,
                    None => agent.run(task, &cx).await?,
                };
                Ok(finished.answer)
            })
        });
        eval.version = Some(Arc::new(version));
        eval
    }
}

impl<I: CaseValue + Signature<Output = O>, O: CaseValue> Eval<I, O> {
    /// Returns an eval of a module. The input of a case is a value of its signature.
    ///
    /// A module made with [`from_fn_with`](toolwright_module::from_fn_with) may do anything with an
    /// input: build an agent for it, give it images, or call another program.
    pub fn module(name: impl Into<String>, module: impl Module<Signature = I>) -> Self {
        let module = Arc::new(module);
        Self::of(name.into(), move |input: I, _, cx| {
            let module = Arc::clone(&module);
            Box::pin(async move { module.call(input, &cx).await })
        })
    }
}

impl<I: CaseValue, O: CaseValue> Eval<I, O> {
    fn of(
        name: String,
        subject: impl Fn(I, Option<Stored>, Context) -> BoxFuture<'static, toolwright_module::Result<O>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self {
            name,
            subject: Arc::new(subject),
            version: None,
            cases: Vec::new(),
            graders: Vec::new(),
            repeats: 1,
            concurrency: CONCURRENCY,
            budget: Budget::default(),
            world: None,
            recordings: None,
            folder: None,
            progress: None,
        }
    }

    /// Adds cases. [`Case::load`] reads them from a file.
    #[must_use]
    pub fn with_cases(mut self, cases: impl IntoIterator<Item = Case<I, O>>) -> Self {
        self.cases.extend(cases.into_iter().map(Arc::new));
        self
    }

    /// Adds a grader. An attempt passes if every grader lets it pass. [`graders`](crate::graders) has
    /// some, and [`Judge`](crate::Judge) asks a language model.
    #[must_use]
    pub fn with_grader(
        mut self,
        name: impl Into<String>,
        grader: impl Module<Signature = Attempt<I, O>>,
    ) -> Self {
        self.graders.push((name.into(), AnyModule::new(grader)));
        self
    }

    /// Sets how often each case is attempted. Default: once.
    #[must_use]
    pub fn with_repeats(mut self, repeats: u32) -> Self {
        self.repeats = repeats.max(1);
        self
    }

    /// Sets the number of attempts at the same time. Default: 8.
    #[must_use]
    pub fn with_concurrency(mut self, attempts: usize) -> Self {
        self.concurrency = attempts.max(1);
        self
    }

    /// Sets what the whole eval may cost, graders included. At the limit, the remaining attempts are left
    /// out, and the report says so. An eval that goes on after a crash has the whole budget again.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Starts each attempt with a copy of this state, which tools and graders find as a [`World`].
    #[must_use]
    pub fn with_world<W: Clone + Send + Sync + 'static>(self, state: W) -> Self {
        self.with_world_of(move |_| state.clone())
    }

    /// Starts each attempt with the state that this function returns for its case.
    #[must_use]
    pub fn with_world_of<W: Send + Sync + 'static>(
        mut self,
        state: impl Fn(&Case<I, O>) -> W + Send + Sync + 'static,
    ) -> Self {
        self.world = Some(Arc::new(move |cx, case| cx.with(World::new(state(case)))));
        self
    }

    /// Answers model calls from the recordings in this folder, one file for each case. No model is asked:
    /// the attempts cost nothing and are the same every time. It holds for graders too.
    ///
    /// To make the recordings, run the eval with the environment variable `TOOLWRIGHT_RECORD=1` and a real
    /// model. Keys are masked as in [`Recording::save`](toolwright_module::testing::Recording::save).
    ///
    /// If a request differs from the recorded one, the attempt is left out, and the report says which
    /// contracts changed.
    #[must_use]
    pub fn with_recordings(self, folder: impl Into<PathBuf>) -> Self {
        match std::env::var_os(RECORD).is_some_and(|value| value == "1") {
            true => self.with_new_recordings(folder),
            false => Self { recordings: Some(Recordings::Play(folder.into())), ..self },
        }
    }

    /// Records the model calls of each case in this folder, in place of earlier recordings. If the agent or
    /// a grader fails, an earlier recording stays as it is.
    #[must_use]
    pub fn with_new_recordings(mut self, folder: impl Into<PathBuf>) -> Self {
        self.recordings = Some(Recordings::Make(folder.into()));
        self
    }

    /// Stores the eval in this folder: each graded attempt, the runs of an agent, and the report in
    /// `report.json` and [`report.html`](Report::to_html). The page has links to the pages of the runs that
    /// do not pass, and a comparison with the previous report.
    ///
    /// If the eval is killed or leaves attempts out, for example because its budget is spent, the next
    /// [`run`](Self::run) makes the attempts that are missing. Those that were under way begin again, and so
    /// do those of an agent with other instructions, tools, settings or limits. The folder does not know
    /// whether the model or the code of a tool has changed since: delete it then.
    ///
    /// An eval that has made all attempts begins anew, and its report moves to `previous.json`. Only one eval
    /// at a time uses a folder.
    #[must_use]
    pub fn with_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Sets a function that gets each graded attempt, with the number of attempts that have ended and that
    /// of all.
    #[must_use]
    pub fn with_progress(
        mut self,
        progress: impl Fn(usize, usize, &GradedAttempt) + Send + Sync + 'static,
    ) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }

    fn check(&self) -> Result<()> {
        let empty = |what, method| EvalError::Empty { name: self.name.clone(), what, method };
        if self.graders.is_empty() {
            return Err(empty("graders", "with_grader"));
        }
        let mut known = HashSet::new();
        match self.graders.iter().find(|(name, _)| !known.insert(name)) {
            Some((name, _)) => Err(EvalError::Graders { name: name.clone() }),
            None => Ok(()),
        }
    }

    /// Attempts every case, grades the attempts and returns the report.
    ///
    /// # Errors
    ///
    /// The eval cannot be run: it has no cases or graders, two of them have the same name, or its folder
    /// cannot be used. What goes wrong in an attempt is in the report.
    pub async fn run(&self, cx: &Context) -> Result<Report> {
        self.check()?;
        if self.cases.is_empty() {
            let (what, method) = ("cases", "with_cases");
            return Err(EvalError::Empty { name: self.name.clone(), what, method });
        }
        check_names(self.cases.iter().map(|case| &**case))?;
        let attempts = self.attempts();
        let mut runs = HashSet::new();
        if let Some((case, _)) =
            attempts.iter().find(|(case, repeat)| !runs.insert(run_id(&case.name, *repeat)))
        {
            return Err(EvalError::Names { name: case.name.clone() });
        }
        // It ends with this function, also if the caller drops it.
        let _lock = self.folder.as_deref().map(Folder::lock).transpose()?;
        let folder = match &self.folder {
            Some(path) => {
                let version = match &self.version {
                    Some(version) => version().await,
                    None => None,
                };
                let version = version.unwrap_or_default();
                Some(Arc::new(Folder::open(path, &self.name, &self.grader_names(), version)?))
            }
            None => None,
        };
        let owner = format!("the eval {}", self.name);
        let ledger = runner::ledger(cx.ledger(), &owner, self.budget, Spent::default());
        let exhausted = Arc::new(OnceLock::new());
        let all = attempts.len();
        let mut found: Vec<Option<Found>> = Vec::new();
        let mut waiting = VecDeque::new();
        for (at, (case, repeat)) in attempts.into_iter().enumerate() {
            found.push(None);
            if let Some(folder) = &folder
                && let Some(known) = folder.known(&case, repeat)
            {
                found[at] = Some(Found::Graded(Box::new(known)));
                continue;
            }
            let one = One {
                case,
                repeat,
                subject: Arc::clone(&self.subject),
                graders: self.graders.clone(),
                world: self.world.clone(),
                recordings: self.recordings.clone(),
                folder: folder.clone(),
                ledger: ledger.clone(),
                budget: self.budget,
                owner: owner.clone(),
                exhausted: Arc::clone(&exhausted),
                cx: cx.clone(),
            };
            waiting.push_back((at, one));
        }
        let attempt = |(at, one): (usize, One<I, O>)| {
            let (around, eval) = (Span::current(), self.name.clone());
            async move {
                let span = telemetry::attempt(&around, &eval, &one.case.name, one.repeat);
                let found =
                    AssertUnwindSafe(one.run()).catch_unwind().instrument(span.clone()).await;
                let found = found.unwrap_or_else(|panic| {
                    Ok(one.left_out(format!("it panicked: {}", panic_text(panic)), None))
                });
                if let Ok(Found::Graded(graded)) = &found {
                    telemetry::attempted(&span, graded);
                }
                (at, found)
            }
        };
        let mut ended = found.iter().flatten().count();
        let mut work = JoinSet::new();
        loop {
            // They begin in the order of the cases.
            while work.len() < self.concurrency
                && let Some(one) = waiting.pop_front()
            {
                work.spawn(attempt(one));
            }
            let Some(joined) = work.join_next().await else { break };
            let (at, result) = match joined {
                Ok(joined) => joined,
                // Panics of an attempt are caught, so this is one of a destructor.
                Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                // The runtime is shutting down, so nobody waits for the report.
                Err(_) => continue,
            };
            let result = result?;
            ended += 1;
            if let (Some(progress), Found::Graded(graded)) = (&self.progress, &result) {
                progress(ended, all, graded);
            }
            found[at] = Some(result);
        }
        let report = self.report(found.into_iter().flatten());
        if let Some(folder) = &folder {
            folder.end(&report)?;
        }
        Ok(report)
    }

    /// Grades stored runs, for example those of production. A case with the id of a run as its name says
    /// what is expected of it; a run without one is a case with its task as the input.
    ///
    /// Stored runs have no [`World`]. The [budget](Self::with_budget) limits what the graders cost.
    ///
    /// ```
    /// # use toolwright_evals::{Case, Eval, StoredRun, graders};
    /// # use toolwright_journal::Journal;
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{Context, Reply};
    /// # use toolwright_orchestrator::Agent;
    /// # let folder = tempfile::tempdir()?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let agent = || Agent::new(Scripted::new(|_| Ok(Reply::text("Hello."))), []);
    /// # let cx = Context::default();
    /// let journal = Journal::open(folder.path())?;
    /// # journal.drive(&agent()?, "greeting", "Say hello.", &cx).await?;
    /// let runs = journal.runs()?.into_iter().map(|run| {
    ///     Ok(StoredRun::new(&run.id, journal.entries(&run.id)?, journal.tools(&run.id)?))
    /// });
    /// let runs = runs.collect::<Result<Vec<_>, toolwright_journal::JournalError>>()?;
    /// let eval = Eval::agent("greetings", agent()?).with_grader("hello", graders::contains("hello"));
    /// eval.grade_stored(runs, &cx).await?.assert_at_least(1.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A run cannot be read, its task does not fit as an input of this eval, or two cases have the same
    /// name.
    pub async fn grade_stored(
        &self,
        runs: impl IntoIterator<Item = StoredRun>,
        cx: &Context,
    ) -> Result<Report> {
        self.check()?;
        check_names(self.cases.iter().map(|case| &**case))?;
        let owner = format!("the eval {}", self.name);
        let ledger = runner::ledger(cx.ledger(), &owner, self.budget, Spent::default());
        let exhausted = Arc::new(OnceLock::new());
        let known: HashMap<&str, &Arc<Case<I, O>>> =
            self.cases.iter().map(|case| (case.name.as_str(), case)).collect();
        let mut found = Vec::new();
        for run in runs {
            let case = match known.get(run.id()) {
                Some(case) => Arc::clone(case),
                None => {
                    let task = Value::String(run.task()?);
                    let input: I = serde_json::from_value(task).map_err(|error| {
                        let (id, reason) = (run.id().to_owned(), error.to_string());
                        EvalError::StoredRun { id, reason }
                    })?;
                    Arc::new(Case::new(run.id(), input))
                }
            };
            let attempt = run.attempt((*case).clone())?;
            let span = telemetry::attempt(&Span::current(), &self.name, &case.name, 0);
            let one = One {
                case,
                repeat: 0,
                subject: Arc::clone(&self.subject),
                graders: self.graders.clone(),
                world: None,
                recordings: None,
                folder: None,
                ledger: ledger.clone(),
                budget: self.budget,
                owner: owner.clone(),
                exhausted: Arc::clone(&exhausted),
                cx: cx.clone(),
            };
            let graded = one.grade_stored(attempt).instrument(span.clone()).await;
            if let Found::Graded(graded) = &graded {
                telemetry::attempted(&span, graded);
            }
            found.push(graded);
        }
        Ok(self.report(found))
    }

    fn attempts(&self) -> Vec<(Arc<Case<I, O>>, u32)> {
        let repeats = |case: &Arc<Case<I, O>>| {
            let case = Arc::clone(case);
            (0..self.repeats).map(move |repeat| (Arc::clone(&case), repeat))
        };
        self.cases.iter().flat_map(repeats).collect()
    }

    fn grader_names(&self) -> Vec<String> {
        self.graders.iter().map(|(name, _)| name.clone()).collect()
    }

    fn report(&self, found: impl IntoIterator<Item = Found>) -> Report {
        let mut report = Report::new(self.name.clone(), self.grader_names());
        for one in found {
            match one {
                Found::Graded(graded) => report.outcomes.push(*graded),
                Found::LeftOut(left, misfit) => {
                    if let Some(misfit) = misfit {
                        report.add_misfit(&left.case, misfit);
                    }
                    report.left_out.push(left);
                }
            }
        }
        report
    }
}

/// Returns a hash of what a run of an agent begins with: the instructions, the tools, the type of the answer,
/// the settings and the limits.
fn version_of<O: CaseValue>(agent: &Agent<O>) -> Option<String> {
    let run = agent.start("Begin.").ok()?;
    let state = serde_json::to_string(run.state()).ok()?;
    Some(format!("{:032x}", stable_hash([state.as_str()])))
}
