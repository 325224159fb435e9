//! The drives of an agent at a terminal or for another program: one task, or a conversation. The runs
//! may be kept in a journal.

use std::cell::{Cell, RefCell};
use std::env;
use std::error::Error;
use std::io::ErrorKind;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use serde_json::{Value, json};
use toolwright_journal::{Journal, JournalError, RunStatus, RunSummary, home};
use toolwright_mcp::McpClient;
use toolwright_module::approval::Approval;
use toolwright_module::budget::LimitKind;
use toolwright_module::error::Stage;
use toolwright_module::{Cancellation, Context, Error as ModuleError, Message};
use toolwright_orchestrator::perform::with_decider;
use toolwright_orchestrator::{
    Agent, AwaitsApproval, Conversation, Ending, Finished, Run, RunState, Task,
};

use crate::agent::AgentMaker;
use crate::approve::decide;
use crate::fresh_tools::ToolsChanged;
use crate::input::Input;
use crate::keys::{MASKED, without_keys};
use crate::model::{Chosen, ledger};
use crate::record::Options;
use crate::runs;
use crate::show::{
    Screen, note, of_few_lines, quoted, say_json, say_theirs, summary, tell, visible,
};
use crate::signals::Interrupts;
use crate::task_lock::TaskLock;
use crate::texts::{in_words_of_run, read_file};

/// Maximum number of times that a run goes on with other tools.
const MAX_RENEWALS: u32 = 10;

/// The name of the metadata with the folder in which a run was started.
pub(crate) const FOLDER: &str = "folder";

/// The name of the metadata with the command that started a run.
pub(crate) const COMMAND: &str = "command";

/// The command of a run whose replies come from a recording.
const REPLAY: &str = "replay";

/// The name of the metadata with the options that shape the requests of a run, as JSON.
pub(crate) const OPTIONS: &str = "options";

/// What a user reads after a task that has failed or was cancelled.
const GOES_ON: &str = "(the conversation continues with what was said and done so far)";

/// What a user has to know whose run does not go on, although its account is the same.
pub(crate) const RENEWED: &str = "Another token or home folder counts as another account: set the \
     earlier one to go on, or begin anew";

/// An assistant, with the servers that it started.
pub(crate) struct Assistant {
    /// The agent with the present tools of the servers.
    pub(crate) agent: RefCell<Agent>,
    pub(crate) maker: AgentMaker,
    pub(crate) chosen: Chosen,
    pub(crate) options: Options,
    pub(crate) approves: bool,
    /// Whether it replays a recording, whose calls wait unless the user allows them with `--yes`.
    pub(crate) replays: bool,
    pub(crate) json: bool,
    pub(crate) journal: Option<Journal>,
    pub(crate) servers: Vec<McpClient>,
    pub(crate) interrupts: Interrupts,
    /// Number of runs that were started.
    pub(crate) started: Cell<u32>,
}

/// The end of one task.
pub(crate) enum End {
    /// It has a result.
    Finished(Box<Finished>),
    /// It failed. The error was printed.
    Failed {
        /// Whether the conversation can go on with what was done so far. The request may be what the
        /// model's server refuses, a person may still have to decide on a call, or another process may
        /// be at work.
        goes_on: bool,
    },
    /// The user ended it with Ctrl-C.
    Cancelled,
}

impl End {
    /// Returns whether the next task of a conversation follows this one.
    fn goes_on(&self) -> bool {
        !matches!(self, Self::Failed { goes_on: false })
    }

    /// Returns the exit code of a program with one task.
    #[must_use]
    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::Finished(finished) if finished.ending == Ending::Answered => ExitCode::SUCCESS,
            Self::Finished(_) => ExitCode::from(3),
            Self::Failed { .. } => ExitCode::FAILURE,
            Self::Cancelled => ExitCode::from(130),
        }
    }
}

/// A task to be carried out.
enum Work<'a> {
    /// A run in memory.
    Run(&'a mut Run),
    /// A run in the journal.
    Kept {
        journal: &'a Journal,
        id: &'a str,
        task: Task,
        metadata: Vec<(String, String)>,
        /// Whether it was begun by an earlier command with the same task.
        goes_on: bool,
    },
}

impl Assistant {
    /// Closes the servers properly. Without this, they would still end with this program.
    pub(crate) async fn close(self) {
        join_all(self.servers.into_iter().map(McpClient::close)).await;
    }

    /// Carries out one task. With a journal, goes on with a run of this task that was cut off in this
    /// folder with the same options, unless `anew`.
    ///
    /// # Errors
    ///
    /// If the task cannot be started, or a file cannot be written.
    pub(crate) async fn once(
        &self,
        prompt: String,
        anew: bool,
        input: Option<&Input>,
    ) -> Result<End, Box<dyn Error>> {
        let Some(journal) = &self.journal else {
            let mut run = self.agent.borrow().start(prompt)?;
            return self.carry_out(Work::Run(&mut run), input).await;
        };
        let held = match anew {
            true => None,
            false => Some(self.hold(journal, &prompt)?),
        };
        if held.is_some() {
            let here = folder();
            let asked = Task::from(Message::user(prompt.as_str()));
            for run in runs::open_runs(journal)? {
                // A journal of another program may not have this entry.
                let is_here = run.metadata.get(FOLDER).is_none_or(|folder| *folder == here);
                // The replies of a recording are not those of the user's model.
                let is_replay = run.metadata.get(COMMAND).is_some_and(|known| known == REPLAY);
                if !is_here || is_replay {
                    continue;
                }
                match journal.task(&run.id) {
                    Ok(task) if task == asked => {}
                    Ok(_) => continue,
                    // Another run is not hurt by it.
                    Err(error) => {
                        note(&format!("(run {} is left alone: {error})", visible(&run.id)));
                        continue;
                    }
                }
                // A run keeps the form of its answer, so this is another task for the user.
                // A limit is not part of the task.
                let options = options_of(&run).map(|options| Options {
                    max_model_calls: self.options.max_model_calls,
                    // The same place may have two names.
                    outside: self.options.outside.clone(),
                    ..options
                });
                let id = quoted(&run.id);
                if !options.clone().unwrap_or_default().has_same_places(&self.options) {
                    note(&format!(
                        "(run {id} of this task used other servers, folders, files or accounts, so \
                         this is a new run; `toolwright runs resume {id}` with the same ones goes on \
                         with it. {RENEWED})"
                    ));
                    continue;
                }
                if options.is_some_and(|options| options != self.options) {
                    note(&format!(
                        "(run {id} of this task has other options; `toolwright runs resume {id}` \
                         goes on with it)"
                    ));
                    continue;
                }
                note(&format!("(run {id} of this task goes on; --new begins another)"));
                let (id, metadata) = (&*run.id, Vec::new());
                let work = Work::Kept { journal, id, task: asked, metadata, goes_on: true };
                return self.carry_out(work, input).await;
            }
        }
        let command = if self.replays { REPLAY } else { "run" };
        let id = self.new_run();
        self.begin(journal, &id, command, prompt, Conversation::default(), input).await
    }

    /// Locks a task of this folder with these options, so that the same one is not paid twice.
    fn hold(&self, journal: &Journal, prompt: &str) -> Result<TaskLock, Box<dyn Error>> {
        // A limit is not part of the task.
        let options = Options { max_model_calls: None, ..self.options.clone() };
        let (here, options) = (folder(), serde_json::to_string(&options)?);
        let held = TaskLock::take(journal.folder(), &[&here, prompt, &options]);
        let held = held.map_err(|error| format!("{}: {error}", journal.folder().display()))?;
        let under_way = "this task is under way in another process in this folder; wait for it, or \
                         begin another with --new";
        Ok(held.ok_or(under_way)?)
    }

    /// Goes on with a run of the journal.
    ///
    /// # Errors
    ///
    /// There is no such run, or no journal.
    pub(crate) async fn resume(
        &self,
        id: &str,
        input: Option<&Input>,
    ) -> Result<End, Box<dyn Error>> {
        let journal = self.journal.as_ref().ok_or("there is no journal")?;
        let task = journal.task(id)?;
        note(&format!("(run {} goes on)", quoted(id)));
        let work = Work::Kept { journal, id, task, metadata: Vec::new(), goes_on: false };
        self.carry_out(work, input).await
    }

    /// Returns the last conversation of this folder, if there is one, and the end of its last task if that
    /// had to be finished.
    async fn last_conversation(
        &self,
        input: &Input,
    ) -> Result<(Conversation, Option<End>), Box<dyn Error>> {
        let none = || (Conversation::default(), None);
        let journal = self.journal.as_ref().ok_or("--continue needs a journal")?;
        let here = folder();
        let is_chat = |metadata: &std::collections::BTreeMap<String, String>| {
            metadata.get(COMMAND).is_some_and(|command| command == "chat")
                && metadata.get(FOLDER) == Some(&here)
        };
        let last = journal.runs()?.into_iter().rev().find(|run| is_chat(&run.metadata));
        let Some(last) = last else {
            note("(there is no conversation of this folder; this is a new one)");
            return Ok(none());
        };
        if !options_of(&last).unwrap_or_default().has_same_places(&self.options) {
            note(&format!(
                "(the last conversation of this folder, run {}, used other servers, folders, files or \
                 accounts, so this is a new one. {RENEWED})",
                quoted(&last.id)
            ));
            return Ok(none());
        }
        let is_open = matches!(last.status, RunStatus::Open | RunStatus::Waiting);
        let end = match is_open {
            true => Some(self.resume(&last.id, Some(input)).await?),
            false => None,
        };
        if end.as_ref().is_some_and(|end| !end.goes_on()) {
            note("(this is a new conversation)");
            return Ok((Conversation::default(), end));
        }
        // The model is not asked, also if the run has failed or was cancelled.
        let said = self.conversation_of(journal, &last.id).await;
        let said = said.map_err(|error| format!("run {}: {error:#}", last.id))?;
        note(&match end {
            None | Some(End::Finished(_)) => {
                format!("(the conversation of run {} goes on)", quoted(&last.id))
            }
            Some(_) => GOES_ON.to_owned(),
        });
        Ok((said, end))
    }

    /// Returns the id of a run that begins now, and shows it.
    fn new_run(&self) -> String {
        self.started.set(self.started.get() + 1);
        let id = runs::new_id(self.started.get());
        note(&format!("(run {id})"));
        id
    }

    /// Returns the conversation of a run, whether it has finished or not.
    async fn conversation_of(
        &self,
        journal: &Journal,
        id: &str,
    ) -> toolwright_module::Result<Conversation> {
        let records = journal.entries(id)?.into_iter().map(|(_, record)| record).collect();
        let agent = self.agent.borrow().clone();
        let said = home::conversation(&agent, id, records, &Context::default()).await?;
        Ok(said.without_instructions())
    }

    async fn begin(
        &self,
        journal: &Journal,
        id: &str,
        command: &str,
        task: String,
        conversation: Conversation,
        input: Option<&Input>,
    ) -> Result<End, Box<dyn Error>> {
        let mut metadata: Vec<_> = runs::metadata(&task).into_iter().collect();
        metadata.push((FOLDER.to_owned(), folder()));
        metadata.push((COMMAND.to_owned(), command.to_owned()));
        metadata.push((OPTIONS.to_owned(), serde_json::to_string(&self.options)?));
        let task = Task::new(task).with_conversation(conversation);
        let work = Work::Kept { journal, id, task, metadata, goes_on: false };
        self.carry_out(work, input).await
    }

    /// Carries out one line after the other, all in one conversation. With a journal, each line is a
    /// run. If `continues`, it goes on after the last conversation in the journal.
    ///
    /// # Errors
    ///
    /// If a task cannot be started, or a file cannot be written.
    pub(crate) async fn converse(
        &self,
        continues: bool,
        input: &Input,
    ) -> Result<ExitCode, Box<dyn Error>> {
        let mut code = ExitCode::SUCCESS;
        let (mut said, before) = match continues {
            true => self.last_conversation(input).await?,
            false => (Conversation::default(), None),
        };
        if matches!(before, Some(End::Failed { .. })) {
            code = ExitCode::FAILURE;
        }
        if input.is_terminal() {
            note("(one task per line; Ctrl-C ends a task, Ctrl-D the conversation)");
        }
        let mut so_far: Option<Run> = None;
        loop {
            let task = match input.task(self.interrupts.next()).await {
                Ok(Some(task)) => task,
                Ok(None) => break,
                // The lines after it can be read.
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    self.report(&error);
                    code = ExitCode::FAILURE;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if task.trim().is_empty() {
                continue;
            }
            let mut goes_on = true;
            let end = match &self.journal {
                Some(journal) => {
                    let id = self.new_run();
                    let begun = self.begin(journal, &id, "chat", task, said.clone(), Some(input));
                    let end = begun.await?;
                    match &end {
                        End::Finished(finished) => {
                            said = finished.conversation().without_instructions();
                        }
                        end if end.goes_on() => match self.conversation_of(journal, &id).await {
                            Ok(conversation) => said = conversation,
                            Err(error) => {
                                note(&of_few_lines(&format!("error: {}", text_of(&error, false))));
                                goes_on = false;
                            }
                        },
                        _ => {}
                    }
                    end
                }
                None => {
                    let mut run = match &so_far {
                        None => self.agent.borrow().start(task)?,
                        Some(before) => self.follow_up(before.clone(), task)?,
                    };
                    let end = self.carry_out(Work::Run(&mut run), Some(input)).await?;
                    if end.goes_on() {
                        so_far = Some(run);
                    }
                    end
                }
            };
            if !matches!(end, End::Finished(_)) {
                note(match goes_on && end.goes_on() {
                    true => GOES_ON,
                    false => {
                        "(the conversation continues without this task; changes by its tools remain)"
                    }
                });
            }
            if matches!(end, End::Failed { .. }) {
                code = ExitCode::FAILURE;
            }
        }
        Ok(code)
    }

    /// Reports a task that cannot be read.
    fn report(&self, error: &std::io::Error) {
        match self.json {
            true => tell(&json!({"error": {"stage": "setup", "text": error.to_string()}})),
            false => note(&format!("error: {error}; the conversation continues without this line")),
        }
    }

    /// Continues a run with another task.
    ///
    /// The limits are for one task, but a run counts all its tasks. The limits are therefore raised
    /// by the amounts used so far.
    fn follow_up(&self, mut run: Run, task: String) -> Result<Run, Box<dyn Error>> {
        run.follow_up(task)?;
        let mut limits = self.maker.limits.clone();
        if let Some(calls) = &mut limits.budget.model_calls {
            *calls = calls.saturating_add(run.spent().model_calls);
        }
        if let Some(time) = &mut limits.max_time {
            *time = time.saturating_add(run.elapsed());
        }
        Ok(run.with_limits(limits))
    }

    /// Drives a run to its end and prints the result.
    async fn carry_out(
        &self,
        work: Work<'_>,
        input: Option<&Input>,
    ) -> Result<End, Box<dyn Error>> {
        let (kept, goes_on) = match &work {
            Work::Kept { id, goes_on, .. } => (Some((*id).to_owned()), *goes_on),
            Work::Run(_) => (None, false),
        };
        if let (true, Some(id)) = (self.json, &kept) {
            tell(&json!({ "run": id }));
        }
        self.interrupts.forget();
        let screen = Arc::new(Screen::new(!self.json));
        let (cancellation, ledger) = (Cancellation::default(), ledger(self.chosen.prices.as_ref()));
        let started = Instant::now();
        let mut work = work;
        let mut renewals = 0;
        let finished = loop {
            let agent = self.agent.borrow().clone();
            let cx = self
                .context(input, &screen)
                .with_cancellation(cancellation.clone())
                .with_ledger(ledger.clone());
            let running = async {
                match &mut work {
                    Work::Run(run) => agent.drive(run, &cx).await,
                    Work::Kept { journal, id, task, metadata, .. } => {
                        let cx = cx.clone().with_run(*id, metadata.clone());
                        journal.drive(&agent, id, task.clone(), &cx).await
                    }
                }
            };
            let mut running = Box::pin(running);
            let finished = tokio::select! {
                finished = &mut running => finished,
                () = self.interrupts.next() => {
                    // The run stops and returns an error with the stage `Cancelled`.
                    cancellation.cancel();
                    running.as_mut().await
                }
            };
            drop(running);
            let changed = matches!(
                &finished,
                Err(error) if error.downcast_ref::<ToolsChanged>().is_some()
            );
            if !changed || renewals == MAX_RENEWALS {
                break finished;
            }
            renewals += 1;
            self.renew(&mut work)?;
        };
        screen.rest();
        screen.end_line();
        if let (true, Some(id), Err(error)) = (goes_on, &kept, &finished)
            && is_locked(error)
        {
            return Err(format!(
                "run {} of this task is under way in another process; wait for it, or begin another \
                 with --new",
                quoted(id)
            )
            .into());
        }
        // Save the replies after a failure too, because they cost money.
        if let Some(path) = self.chosen.save_recording(&self.options.without_places())? {
            let masked = read_file(path).map_or(0, |text| text.matches(MASKED).count());
            let masked = match masked {
                0 => String::new(),
                places => format!(", with {MASKED} in place of what may be a key ({places} times)"),
            };
            note(&format!("recorded in {}{masked}", path.display()));
        }
        let cost = summary(ledger.spent(), started.elapsed());
        let finished = finished.and_then(|finished| Ok((self.read(&finished)?, finished)));
        if self.json {
            tell(&match &finished {
                Ok((output, finished)) => result(finished, output.as_ref()),
                Err(error) => json!({"error": {
                    "stage": error.stage(),
                    "text": without_keys(&text_of(error, self.replays)),
                    "spent": ledger.spent(),
                    "cost": ledger.spent().cost().to_string(),
                }}),
            });
        }
        Ok(match finished {
            Ok((output, finished)) => {
                match output {
                    _ if self.json => {}
                    Some(output) => say_json(&output),
                    None if !self.maker.streams => say_theirs(&finished.answer),
                    None => {}
                }
                if finished.ending != Ending::Answered {
                    note(&format!("({}; the answer may be incomplete)", ended(&finished)));
                    if finished.limit == Some(LimitKind::Iterations) {
                        note("(--max-model-calls allows more)");
                    }
                }
                note(&cost);
                End::Finished(Box::new(finished))
            }
            Err(error) if error.stage() == Stage::Cancelled => {
                note(&format!("cancelled after {cost}"));
                if let Some(id) = &kept {
                    let id = quoted(id);
                    note(&format!("(run {id} stays open; the same task here goes on with it)"));
                }
                End::Cancelled
            }
            Err(error) => {
                if !self.json {
                    note(&of_few_lines(&format!("error: {}", text_of(&error, self.replays))));
                }
                let waits = error.downcast_ref::<AwaitsApproval>().is_some();
                match &kept {
                    Some(id) if waits => {
                        let id = quoted(id);
                        note(&format!(
                            "(run {id} waits; at a terminal, `toolwright runs resume {id}` asks for the decision)"
                        ));
                    }
                    // On a full disk, the journal may not even have the start of the run.
                    Some(id) if !is_locked(&error) && self.has(id) => {
                        note(&format!("(run {} is kept)", quoted(id)));
                    }
                    _ => {}
                }
                let goes_on = !waits && !is_locked(&error) && !error.is_request_refused();
                End::Failed { goes_on }
            }
        })
    }

    /// Reads the answer of a run with a structured answer.
    fn read(&self, finished: &Finished) -> toolwright_module::Result<Option<Value>> {
        let Some(output) = &self.maker.output else { return Ok(None) };
        if finished.ending != Ending::Answered {
            let text = format!("{}, without an answer", ended(finished));
            return Err(ModuleError::stop(text).at(Stage::Limit));
        }
        // The answer of a run that began without this schema does not fit it.
        output
            .read_output(&finished.answer)
            .map(Some)
            .map_err(|error| ModuleError::stop(error).at(Stage::Decoding))
    }

    /// Makes the agent again with the present tools of the servers, for a run that goes on with it.
    fn renew(&self, work: &mut Work<'_>) -> Result<(), Box<dyn Error>> {
        let agent = self.maker.agent(&self.servers)?;
        note("(the tools of a server changed; the run goes on with the present ones)");
        if let Work::Run(run) = work {
            let state: RunState = serde_json::from_value(serde_json::to_value(&**run)?)?;
            **run = agent.resume(state)?.run;
        }
        *self.agent.borrow_mut() = agent;
        Ok(())
    }

    /// Returns whether the journal has the run.
    fn has(&self, id: &str) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.run(id).is_ok())
    }

    /// Creates the context, which shows events and asks the user for approvals.
    fn context(&self, input: Option<&Input>, screen: &Arc<Screen>) -> Context {
        let (json, screen) = (self.json, Arc::clone(screen));
        let cx = Context::default()
            .with_events(move |event| if json { tell(event) } else { screen.show(event) });
        let Some(input) = input.filter(|_| self.approves) else { return cx };
        let (input, agent) = (input.clone(), self.agent.borrow().clone());
        // Who decides at this terminal, for the page of the run.
        let cx = runs::user().map_or(cx.clone(), |user| with_decider(&cx, user));
        cx.with_approver(move |asked: Approval| {
            let (input, agent) = (input.clone(), agent.clone());
            async move {
                let mut tools = agent.tools().iter();
                let tool = tools.find(|tool| tool.name() == asked.call.name);
                let tool = tool.ok_or(ModuleError::stop(
                    "the call that waits for approval names an unknown tool",
                ))?;
                let decided = decide(&input, tool.contract(), &asked).await?;
                decided.ok_or(ModuleError::stop("the user ended the run").at(Stage::Cancelled))
            }
        })
    }
}

/// Returns how a run without a whole answer ended.
fn ended(finished: &Finished) -> String {
    match (finished.ending, finished.limit) {
        (Ending::LimitReached, Some(limit)) => format!("the run reached its limit of {limit}"),
        (Ending::LimitReached, None) => "the run reached a limit".to_owned(),
        (Ending::CutOff, _) => {
            "the model reached the maximum length of a reply; --max-output-tokens allows more"
                .to_owned()
        }
        (Ending::Refused, _) => "the model refused the task".to_owned(),
        (Ending::Stuck, _) => "the model repeated the same mistake too often".to_owned(),
        _ => "the model stopped for a reason that this version does not know".to_owned(),
    }
}

/// Returns the text of an error for the user of the command.
fn text_of(error: &ModuleError, replays: bool) -> String {
    // Its own text is for programs.
    let Some(awaits) = error.downcast_ref::<AwaitsApproval>() else {
        return in_words_of_run(&format!("{error:#}"));
    };
    let more = match replays {
        true => "; --yes allows every call of the recording",
        false => "",
    };
    format!(
        "{}; the command asks for it only at a terminal, without --json{more}",
        visible(&awaits.summary())
    )
}

/// Returns the last object of a finished run, for `--json`.
fn result(finished: &Finished, output: Option<&Value>) -> Value {
    let failures = finished.failures.iter();
    let failures = failures
        .map(|failure| json!({"call": failure.call, "error": in_words_of_run(&failure.error)}));
    let mut result = json!({"result": {
        "answer": finished.answer,
        "ending": finished.ending,
        "limit": finished.limit,
        "iterations": finished.iterations,
        "spent": finished.spent,
        "cost": finished.spent.cost().to_string(),
        "tools_used": finished.tools_used,
        "failures": failures.collect::<Vec<_>>(),
    }});
    if let Some(output) = output {
        result["result"]["output"] = output.clone();
    }
    result
}

/// Returns the options of a run. A run of another program has none.
pub(crate) fn options_of(run: &RunSummary) -> Option<Options> {
    serde_json::from_str(run.metadata.get(OPTIONS)?).ok()
}

/// Returns the present folder.
pub(crate) fn folder() -> String {
    env::current_dir().map(|folder| folder.display().to_string()).unwrap_or_default()
}

fn is_locked(error: &ModuleError) -> bool {
    matches!(error.downcast_ref(), Some(JournalError::Locked { .. }))
}
