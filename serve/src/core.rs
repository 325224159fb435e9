//! The core: its runs, who drives them, and who reads them.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::Stream;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use toolwright_journal::{RunStatus, RunSummary, home};
use toolwright_module::approval::Decision;
use toolwright_module::error::Stage;
use toolwright_module::event::Event;
use toolwright_module::message::{Message, Part};
use toolwright_module::model::BoxFuture;
use toolwright_module::{Cancellation, Context, Error};
use toolwright_orchestrator::perform::Record;
use toolwright_orchestrator::{Agent, Conversation, Task};

use crate::caller::{Caller, Callers};
use crate::error::{Result, ServeError};
use crate::home::{Home, is_taken};
use crate::live::LiveTexts;
use crate::protocol::{Answered, Incoming, Place, Said};
use crate::recorded::{CONVERSATION, MESSAGE, OpenQuestion, USER};
use crate::update::{Decided, Question};
use crate::watched::{Cursor, Drive, Left, Placed, Position, Rest, Watched};

/// How often runs are looked at that are driven elsewhere.
const LOOK: Duration = Duration::from_millis(200);

/// Every how many looks runs are looked at that change only if a person does something elsewhere.
const SLOW_LOOK: u64 = 3;

/// How long a decision waits for the end of a drive.
const MOST_WAIT: Duration = Duration::from_secs(5);

/// How many bytes a reader gets at once.
const BATCH: usize = 256 * 1024;

/// The longest id of a user, of a conversation and of a message, in bytes.
const LONGEST_NAME: usize = 200;

/// The metadata with the run before this one in its conversation, and the number of runs before it.
const AFTER: &str = "after";
const TURN: &str = "turn";

/// The agent of a core, whatever its answer is.
pub(crate) trait Drives: Send + Sync {
    /// Creates a run where another process could create it at the same time.
    fn start<'a>(
        &'a self,
        home: &'a Home,
        id: &'a str,
        task: &'a Task,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<(), Error>>;

    fn drive<'a>(
        &'a self,
        home: &'a Home,
        id: &'a str,
        task: Task,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// Returns the conversation with which the next run goes on.
    fn conversation<'a>(
        &'a self,
        id: &'a str,
        records: Vec<Record>,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<Conversation, Error>>;

    /// Takes the runs that no worker drives, and drives them.
    fn take_free<'a>(&'a self, core: &'a Arc<Core>) -> BoxFuture<'a, ()>;
}

impl<O: Serialize + DeserializeOwned + Send + Sync + 'static> Drives for Agent<O> {
    fn start<'a>(
        &'a self,
        home: &'a Home,
        id: &'a str,
        task: &'a Task,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(home.start(self, id, task, cx))
    }

    fn drive<'a>(
        &'a self,
        home: &'a Home,
        id: &'a str,
        task: Task,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move { home.drive(self, id, task, cx).await.map(drop) })
    }

    fn conversation<'a>(
        &'a self,
        id: &'a str,
        records: Vec<Record>,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<Conversation, Error>> {
        Box::pin(home::conversation(self, id, records, cx))
    }

    fn take_free<'a>(&'a self, core: &'a Arc<Core>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            #[cfg(feature = "postgres")]
            if let Some(runs) = core.home.postgres() {
                let room = core.options.most_drives.saturating_sub(core.here().len());
                if room == 0 {
                    return;
                }
                let taken = runs.take_free(room).await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "the database of the runs is away");
                    Vec::new()
                });
                for taken in taken {
                    let (core, agent) = (Arc::clone(core), self.clone());
                    let id = taken.id().to_owned();
                    let driving = core.driving_taken(&id);
                    tokio::spawn(async move {
                        let work = taken.drive(&agent, async |started| {
                            let caller = caller_of(&started.metadata);
                            core.context(&caller, &driving).await
                        });
                        let result = driving.with_live(work).await.map(drop);
                        driving.end(result);
                    });
                }
            }
            let _ = core;
        })
    }
}

/// What a program sets.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// How many runs this process drives at most that it takes over from others.
    #[cfg_attr(
        not(feature = "postgres"),
        allow(dead_code, reason = "only there runs are taken over")
    )]
    pub(crate) most_drives: usize,
    /// Whether readers see the errors of the service with their causes.
    pub(crate) shows_errors: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { most_drives: 64, shows_errors: false }
    }
}

pub(crate) struct Core {
    home: Home,
    agent: Box<dyn Drives>,
    pub(crate) callers: Callers,
    options: Options,
    /// The runs with readers or a drive.
    watched: Arc<Mutex<HashMap<String, Weak<Watched>>>>,
    /// The drives of this process.
    here: Mutex<HashMap<String, Arc<Here>>>,
    /// The runs that drives of this process have left without a record of their error.
    left: Mutex<HashMap<String, Left>>,
    /// Conversations in which a run is being created.
    creating: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
    /// Whether the service ends.
    closing: watch::Sender<bool>,
    /// Whether it has ended, so that all streams end.
    closed: watch::Sender<bool>,
}

/// A drive of this process.
struct Here {
    watched: Arc<Watched>,
    cancellation: Cancellation,
    is_over: watch::Sender<bool>,
}

/// A drive that has begun. It has ended when this is dropped.
struct Driving {
    core: Arc<Core>,
    here: Arc<Here>,
    live: Arc<LiveTexts>,
    is_over: bool,
}

impl Core {
    pub(crate) fn new(
        home: Home,
        agent: Box<dyn Drives>,
        callers: Callers,
        options: Options,
    ) -> Self {
        let watched = Arc::<Mutex<HashMap<String, Weak<Watched>>>>::default();
        let hears = Arc::clone(&watched);
        let home = home.heard(move |id, nth, record| {
            let watched = locked(&hears).get(id).and_then(Weak::upgrade);
            if let Some(watched) = watched {
                watched.change(|state| state.add(nth, record));
            }
        });
        Self {
            home,
            agent,
            callers,
            options,
            watched,
            here: Mutex::default(),
            left: Mutex::default(),
            creating: Mutex::default(),
            closing: watch::Sender::new(false),
            closed: watch::Sender::new(false),
        }
    }

    fn here(&self) -> MutexGuard<'_, HashMap<String, Arc<Here>>> {
        locked(&self.here)
    }

    /// Begins to look after the runs of earlier processes and of other workers.
    pub(crate) fn begin(self: &Arc<Self>) {
        tokio::spawn(look_after(Arc::downgrade(self)));
        let core = Arc::downgrade(self);
        tokio::spawn(async move {
            let Some(core) = core.upgrade() else { return };
            if let Err(error) = core.go_on_with_interrupted().await {
                tracing::error!(error = %causes(&error), "cannot go on with the runs of before");
            }
        });
    }

    async fn go_on_with_interrupted(self: &Arc<Self>) -> Result<()> {
        for id in self.home.interrupted().await? {
            if let Err(error) = self.go_on(&id).await {
                tracing::warn!(run = id, error = %causes(&error), "cannot go on with a run");
            }
        }
        Ok(())
    }

    /// Ends the core: no run begins, those that do not end within `grace` stop where they are, and
    /// the streams end.
    pub(crate) async fn close(&self, grace: Duration) {
        self.closing.send_replace(true);
        let all_over = async |wait: Duration| {
            let until = Instant::now() + wait;
            let mut over: Vec<_> =
                self.here().values().map(|here| here.is_over.subscribe()).collect();
            for over in &mut over {
                let _ = tokio::time::timeout_at(until, over.wait_for(|over| *over)).await;
            }
        };
        all_over(grace).await;
        self.here().values().for_each(|here| here.cancellation.cancel());
        // A tool that blocks its thread cannot be ended.
        all_over(MOST_WAIT).await;
        self.closed.send_replace(true);
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    // Requests.

    /// Does what a request asks for, and returns the run to read.
    pub(crate) async fn receive(
        self: &Arc<Self>,
        caller: &Caller,
        incoming: Incoming,
    ) -> Result<Arc<Watched>> {
        if self.is_closing() {
            return Err(ServeError::Closing);
        }
        let prefix = prefix(&caller.user, &incoming.conversation)?;
        let lock = {
            let mut creating = locked(&self.creating);
            creating.retain(|_, lock| lock.strong_count() > 0);
            let entry = creating.entry(prefix.clone()).or_default();
            let lock = entry.upgrade().unwrap_or_default();
            *entry = Arc::downgrade(&lock);
            lock
        };
        let _one_at_a_time = lock.lock().await;
        let last = self.last_in(&caller.user, &incoming.conversation, &prefix).await?;
        let last_id = format!("{prefix}{last}");
        for answered in incoming.decisions {
            self.decide_in(caller, &last_id, answered).await?;
        }
        match (incoming.message, incoming.again) {
            (Some(said), _) => {
                self.say(caller, &prefix, last, &incoming.conversation, said, incoming.earlier)
                    .await
            }
            (None, Some(again)) => {
                let said = Said { id: Some(again), replaces: true, ..Said::default() };
                self.say(caller, &prefix, last, &incoming.conversation, said, 0).await
            }
            (None, None) if last > 0 => self.watch(&last_id).await,
            (None, None) => Err(ServeError::request("the request has no message of the user")),
        }
    }

    /// Starts a run for a message of the user, or finds it.
    async fn say(
        self: &Arc<Self>,
        caller: &Caller,
        prefix: &str,
        last: u64,
        conversation: &str,
        mut said: Said,
        earlier: usize,
    ) -> Result<Arc<Watched>> {
        if let Some(id) = &said.id
            && (id.len() > LONGEST_NAME || id.contains('\0'))
        {
            let reason =
                format!("the id of a message must have at most {LONGEST_NAME} bytes, without NUL");
            return Err(ServeError::Request { reason });
        }
        let (mut before, mut parts, mut turn) = (None, std::mem::take(&mut said.parts), 0);
        if last > 0 {
            let id = format!("{prefix}{last}");
            let watched = self.watch(&id).await?;
            let metadata = watched.state().reader.metadata.clone();
            let is_same = said.id.is_some() && metadata.get(MESSAGE) == said.id.as_ref();
            if is_same && !said.replaces {
                return Ok(watched);
            }
            if self.rest(&watched) != Rest::Over {
                return Err(ServeError::Busy { run: id });
            }
            before = Some((id, metadata));
        }
        if let (Place::After(after), Some((_, metadata))) = (&said.place, &before)
            && !(said.replaces || after.is_some() && metadata.get(MESSAGE) == after.as_ref())
        {
            if self.find_message(before.clone(), said.id.as_ref()).await?.is_some() {
                said.replaces = true;
            } else if let Some(run) = self.find_message(before.clone(), after.as_ref()).await? {
                before = Some(run);
            }
        }
        if said.replaces {
            let Some(run) = self.find_message(before, said.id.as_ref()).await? else {
                let id = said.id.unwrap_or_default();
                let reason = format!("the conversation has no message `{id}` of the user");
                return Err(ServeError::request(reason));
            };
            if parts.is_empty() {
                parts = self.parts_of(&run.0).await?;
            }
            before = match run.1.get(AFTER) {
                Some(after) => {
                    let Some(found) = self.metadata(after).await? else {
                        return Err(ServeError::Forgotten { earlier: earlier.max(1) });
                    };
                    Some((after.clone(), found))
                }
                None => None,
            };
        }
        if let Some((_, metadata)) = &before {
            turn = metadata.get(TURN).and_then(|turn| turn.parse().ok()).unwrap_or(0) + 1;
        }
        if !said.replaces && earlier > turn {
            return Err(ServeError::Forgotten { earlier });
        }
        if parts.is_empty() {
            return Err(ServeError::request("the message of the user is empty"));
        }
        let id = format!("{prefix}{}", last + 1);
        let Some(driving) = self.driving(&id) else { return Err(ServeError::Busy { run: id }) };
        let mut task = Task::from(parts);
        if let Some((before, _)) = &before {
            let records = self.home.records(before).await?.unwrap_or_default();
            let cx = Context::default();
            let before = self
                .agent
                .conversation(before, records, &cx)
                .await
                .map_err(|error| self.failed(error))?;
            task = task.with_conversation(before);
        }
        let mut metadata = caller.values.clone();
        metadata.retain(|name, _| !is_own(name));
        metadata.insert(USER.to_owned(), caller.user.clone());
        metadata.insert(CONVERSATION.to_owned(), conversation.to_owned());
        metadata.insert(TURN.to_owned(), turn.to_string());
        metadata.extend(said.id.map(|id| (MESSAGE.to_owned(), id)));
        metadata.extend(before.map(|(before, _)| (AFTER.to_owned(), before)));
        let cx = self
            .context(caller, &driving)
            .await
            .map_err(|error| self.failed(error))?
            .with_run(&id, metadata);
        let started = self.agent.start(&self.home, &id, &task, &cx).await;
        started.map_err(|error| match is_taken(&error) {
            // There is another one with its id.
            true => ServeError::Busy { run: id.clone() },
            false => self.failed(error),
        })?;
        let here = Arc::clone(&driving.here);
        self.spawn(driving, id.clone(), task, cx);
        if !self.home.is_shared() && !here.begins().await {
            return Err(ServeError::Busy { run: id });
        }
        Ok(Arc::clone(&here.watched))
    }

    /// Finds the run of a message, from the last run of the conversation on.
    async fn find_message(
        self: &Arc<Self>,
        mut run: Option<(String, BTreeMap<String, String>)>,
        message: Option<&String>,
    ) -> Result<Option<(String, BTreeMap<String, String>)>> {
        while let Some((id, metadata)) = run {
            if message.is_some() && metadata.get(MESSAGE) == message {
                return Ok(Some((id, metadata)));
            }
            run = match metadata.get(AFTER) {
                Some(after) => self.metadata(after).await?.map(|found| (after.clone(), found)),
                None => None,
            };
        }
        Ok(None)
    }

    /// Returns the metadata of a run, unless it was deleted.
    async fn metadata(self: &Arc<Self>, id: &str) -> Result<Option<BTreeMap<String, String>>> {
        let watched = self.if_there(id).await?;
        Ok(watched.map(|watched| watched.state().reader.metadata.clone()))
    }

    async fn if_there(self: &Arc<Self>, id: &str) -> Result<Option<Arc<Watched>>> {
        match self.watch(id).await {
            Ok(watched) => Ok(Some(watched)),
            Err(ServeError::NoSuchRun { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the parts of the user's message of a run.
    async fn parts_of(&self, id: &str) -> Result<Vec<Part>> {
        let records = self.home.records(id).await?.unwrap_or_default();
        let Some(Record::Started(started)) = records.first() else { return Ok(Vec::new()) };
        Ok(match started.run.history().last().map(|message| &**message) {
            Some(Message::User { parts }) => parts.clone(),
            _ => Vec::new(),
        })
    }

    fn spawn(self: &Arc<Self>, driving: Driving, id: String, task: Task, cx: Context) {
        let core = Arc::clone(self);
        tokio::spawn(async move {
            let work = core.agent.drive(&core.home, &id, task, &cx);
            let result = driving.with_live(work).await;
            driving.end(result);
        });
    }

    /// Drives a run that nobody drives: after a crash, an error or a decision.
    pub(crate) async fn go_on(self: &Arc<Self>, id: &str) -> Result<Arc<Watched>> {
        if self.is_closing() {
            return Err(ServeError::Closing);
        }
        let watched = self.watch(id).await?;
        #[cfg(feature = "postgres")]
        if self.home.postgres().is_some() {
            // A worker takes it.
            watched.change(|state| state.drive = Drive::Elsewhere);
            return Ok(watched);
        }
        let Some(driving) = self.driving(id) else { return Ok(watched) };
        let records = self.home.records(id).await?.unwrap_or_default();
        let Some(Record::Started(started)) = records.first() else {
            return Err(ServeError::NoSuchRun { id: id.to_owned() });
        };
        let caller = caller_of(&started.metadata);
        let cx = self.context(&caller, &driving).await.map_err(|error| self.failed(error))?;
        let cx = cx.with_run(id, started.metadata.clone());
        self.spawn(driving, id.to_owned(), started.task(), cx);
        Ok(watched)
    }

    /// Returns the error of a request for an error of the agent or the context.
    fn failed(&self, error: Error) -> ServeError {
        match self.options.shows_errors {
            true => ServeError::Shown { error: format!("{error:#}") },
            false => ServeError::Agent(error.into_std().into()),
        }
    }

    async fn context(&self, caller: &Caller, driving: &Driving) -> Result<Context, Error> {
        let cx = (self.callers.context)(caller.clone()).await?;
        let (watched, live) = (Arc::clone(&driving.here.watched), Arc::clone(&driving.live));
        let cx = cx.with_cancellation(driving.here.cancellation.clone());
        Ok(cx.with_events(move |event: &Event| {
            if watched.change(|state| state.hear(event)) {
                live.add(event);
            }
        }))
    }

    /// Begins a drive of this process, unless there is one.
    fn driving(self: &Arc<Self>, id: &str) -> Option<Driving> {
        let here = self.not_yet_here(id);
        match self.here().entry(id.to_owned()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(place) => drop(place.insert(Arc::clone(&here))),
        }
        Some(self.begun(here))
    }

    /// Begins a drive of a run that was taken. If the process has another drive of it, that one can
    /// record nothing more.
    #[cfg(feature = "postgres")]
    fn driving_taken(self: &Arc<Self>, id: &str) -> Driving {
        let here = self.not_yet_here(id);
        self.here().insert(id.to_owned(), Arc::clone(&here));
        self.begun(here)
    }

    fn not_yet_here(&self, id: &str) -> Arc<Here> {
        let (cancellation, is_over) = (Cancellation::default(), watch::Sender::new(false));
        Arc::new(Here { watched: self.watched(id), cancellation, is_over })
    }

    fn begun(self: &Arc<Self>, here: Arc<Here>) -> Driving {
        here.watched.change(|state| state.drive = Drive::Here);
        locked(&self.left).remove(&here.watched.id);
        let live = Arc::new(LiveTexts::new(&here.watched.id, &self.home));
        Driving { core: Arc::clone(self), here, live, is_over: false }
    }

    // Questions.

    /// Answers a question of a run.
    pub(crate) async fn decide(
        self: &Arc<Self>,
        caller: &Caller,
        run: &str,
        answered: Answered,
    ) -> Result<Arc<Watched>> {
        self.check_owner(caller, run)?;
        self.decide_in(caller, run, answered).await
    }

    async fn decide_in(
        self: &Arc<Self>,
        caller: &Caller,
        run: &str,
        answered: Answered,
    ) -> Result<Arc<Watched>> {
        let Answered { question, decision } = answered;
        let watched = self.watch(run).await?;
        let until = Instant::now() + MOST_WAIT;
        loop {
            let open = watched
                .state()
                .reader
                .open
                .values()
                .find(|open| open.question.question == question)
                .cloned();
            let Some(OpenQuestion { waiting, .. }) = open else {
                return Err(ServeError::NotOpen { question });
            };
            let decision = Decision::from(decision.clone());
            let result = self.home.decide_as(&caller.user, run, &waiting.approval, decision).await;
            match result {
                Ok(()) => break,
                // The drive that asked has not ended yet, or another call of the run is being decided.
                Err(error) if error.is_locked() && Instant::now() < until => {
                    sleep(Duration::from_millis(20)).await;
                }
                Err(error @ ServeError::Decision { .. }) => return Err(error),
                Err(error) => {
                    self.refresh(&[Arc::clone(&watched)]).await?;
                    let is_open = watched
                        .state()
                        .reader
                        .open
                        .values()
                        .any(|open| open.question.question == question);
                    return Err(if is_open { error } else { ServeError::NotOpen { question } });
                }
            }
        }
        self.refresh(&[Arc::clone(&watched)]).await?;
        if watched.state().reader.open.is_empty() {
            self.go_on(run).await?;
        }
        Ok(watched)
    }

    /// Returns the open questions of a user.
    pub(crate) async fn questions(self: &Arc<Self>, caller: &Caller) -> Result<Vec<Question>> {
        let mut questions = Vec::new();
        for run in self.home.runs_with(USER, &caller.user).await? {
            if !run.waiting.is_empty() {
                let watched = self.watch(&run.id).await?;
                let state = watched.state();
                questions.extend(state.reader.open.values().map(|open| open.question.clone()));
            }
        }
        Ok(questions)
    }

    /// Returns the runs of a user.
    pub(crate) async fn runs(&self, caller: &Caller) -> Result<Vec<RunSummary>> {
        self.home.runs_with(USER, &caller.user).await
    }

    /// Ends a run for good.
    pub(crate) async fn stop(self: &Arc<Self>, caller: &Caller, run: &str) -> Result<Arc<Watched>> {
        self.check_owner(caller, run)?;
        let watched = self.watch(run).await?;
        let here = self.here().get(run).cloned();
        if let Some(here) = here {
            here.cancellation.cancel();
            let mut over = here.is_over.subscribe();
            let _ = tokio::time::timeout(MOST_WAIT, over.wait_for(|over| *over)).await;
        }
        self.home.cancel(run).await?;
        self.refresh(&[Arc::clone(&watched)]).await?;
        Ok(watched)
    }

    /// Checks that a run is one of the caller. The runs of others are not there.
    fn check_owner(&self, caller: &Caller, run: &str) -> Result<()> {
        match run.strip_prefix(&escaped(&caller.user)).is_some_and(|rest| rest.starts_with(':')) {
            true => Ok(()),
            false => Err(ServeError::NoSuchRun { id: run.to_owned() }),
        }
    }

    // Readers.

    /// Returns a run of the caller, for a reader.
    pub(crate) async fn read(self: &Arc<Self>, caller: &Caller, run: &str) -> Result<Arc<Watched>> {
        self.check_owner(caller, run)?;
        self.watch(run).await
    }

    /// Returns the last run of a conversation, if there is one.
    pub(crate) async fn last(
        self: &Arc<Self>,
        caller: &Caller,
        conversation: &str,
    ) -> Result<Option<Arc<Watched>>> {
        let prefix = prefix(&caller.user, conversation)?;
        match self.last_in(&caller.user, conversation, &prefix).await? {
            0 => Ok(None),
            last => self.watch(&format!("{prefix}{last}")).await.map(Some),
        }
    }

    /// Returns the number of the last run of a conversation. A run that has just begun here may not be
    /// stored yet.
    async fn last_in(&self, user: &str, conversation: &str, prefix: &str) -> Result<u64> {
        let number = |id: &String| id.strip_prefix(prefix)?.parse().ok();
        let here = self.here().keys().filter_map(number).max().unwrap_or(0);
        let stored = self.home.ids(user, conversation, prefix).await?;
        // Runs may have been deleted, so there may be any numbers.
        Ok(stored.iter().filter_map(number).max().unwrap_or(0).max(here))
    }

    /// Returns the runs of a conversation in their order, without those that were replaced.
    pub(crate) async fn conversation(
        self: &Arc<Self>,
        caller: &Caller,
        conversation: &str,
    ) -> Result<Vec<Arc<Watched>>> {
        let mut runs = Vec::new();
        let mut next = self.last(caller, conversation).await?;
        while let Some(run) = next {
            let after = run.state().reader.metadata.get(AFTER).cloned();
            runs.push(run);
            next = match after {
                // What was deleted is not shown.
                Some(after) => self.if_there(&after).await?,
                None => None,
            };
        }
        runs.reverse();
        Ok(runs)
    }

    /// Whether more updates of a run follow.
    pub(crate) fn rest(&self, watched: &Watched) -> Rest {
        watched.state().rest()
    }

    /// Returns the updates of a run, from a position on. The stream ends when the run has ended, and
    /// with `until_asked` also when it waits for a person.
    pub(crate) fn updates(
        self: &Arc<Self>,
        watched: Arc<Watched>,
        from: Position,
        until_asked: bool,
    ) -> impl Stream<Item = Result<Vec<Placed>>> + Send + use<> {
        struct Reads {
            core: Arc<Core>,
            watched: Arc<Watched>,
            changes: watch::Receiver<u64>,
            closing: watch::Receiver<bool>,
            closed: watch::Receiver<bool>,
            cursor: Cursor,
            is_over: bool,
        }
        let reads = Reads {
            changes: watched.changes(),
            closing: self.closing.subscribe(),
            closed: self.closed.subscribe(),
            core: Arc::clone(self),
            watched,
            cursor: Cursor::at(from),
            is_over: false,
        };
        futures_util::stream::unfold(reads, move |mut reads| async move {
            loop {
                if reads.is_over {
                    return None;
                }
                // Before the state is read, so that no change is missed.
                reads.changes.mark_unchanged();
                if reads.watched.state().has_gap() {
                    let refreshed = reads.core.refresh(&[Arc::clone(&reads.watched)]).await;
                    if let Err(error) = refreshed {
                        reads.is_over = true;
                        return Some((Err(error), reads));
                    }
                }
                let (placed, rest, has_gap) = {
                    let state = reads.watched.state();
                    let (placed, rest) = reads.cursor.next(&state, BATCH);
                    (placed, rest, state.has_gap())
                };
                // With a gap, the end may be in it.
                reads.is_over =
                    !has_gap && (rest == Rest::Over || until_asked && rest == Rest::Waiting);
                if !placed.is_empty() {
                    return Some((Ok(placed), reads));
                }
                if reads.is_over {
                    return None;
                }
                let parked = reads.closing.wait_for(|closing| *closing);
                tokio::select! {
                    _ = reads.changes.changed() => {}
                    _ = parked, if reads.watched.state().drive != Drive::Here => return None,
                    _ = reads.closed.wait_for(|closed| *closed) => return None,
                }
            }
        })
    }

    fn watched(&self, id: &str) -> Arc<Watched> {
        let mut all = locked(&self.watched);
        if let Some(found) = all.get(id).and_then(Weak::upgrade) {
            return found;
        }
        if all.len() >= 64 && all.len().is_power_of_two() {
            all.retain(|_, watched| watched.strong_count() > 0);
        }
        let watched = Arc::new(Watched::new(id, self.options.shows_errors));
        all.insert(id.to_owned(), Arc::downgrade(&watched));
        watched
    }

    /// Returns a run with the records that it has now.
    async fn watch(self: &Arc<Self>, id: &str) -> Result<Arc<Watched>> {
        let watched = self.watched(id);
        let mut changes = watched.changes();
        let is_beginning = || {
            let state = watched.state();
            state.drive == Drive::Here && state.records() == 0
        };
        while is_beginning() && changes.changed().await.is_ok() {}
        let is_here = {
            let state = watched.state();
            state.drive == Drive::Here && state.records() > 0 && !state.has_gap()
        };
        if !is_here {
            self.refresh(&[Arc::clone(&watched)]).await?;
        }
        let is_there = {
            let state = watched.state();
            state.records() > 0 || state.drive == Drive::Here
        };
        match is_there {
            true => Ok(watched),
            false => Err(ServeError::NoSuchRun { id: id.to_owned() }),
        }
    }

    /// Reads what is new in runs from the home.
    async fn refresh(&self, all: &[Arc<Watched>]) -> Result<()> {
        let known = all.iter().map(|watched| watched.known());
        for news in self.home.news(known.collect()).await? {
            let found = all.iter().find(|watched| watched.id == news.known.id);
            let Some(watched) = found else { continue };
            let here = self.here().get(&watched.id).cloned();
            let is_here = here.is_some();
            if let Some(here) = here
                && news.status == RunStatus::Failed
            {
                // It was stopped at another worker. What it would do now could not be recorded.
                here.cancellation.cancel();
            }
            let is_changed = {
                let left = locked(&self.left).get(&watched.id).cloned();
                watched.state().take_news(news, is_here, left)
            };
            if is_changed {
                watched.change(|_| ());
            }
        }
        Ok(())
    }
}

impl Here {
    /// Waits until the run is stored, so that the next message of its conversation finds it. Returns
    /// whether this drive has stored it: it has not if another process was faster.
    async fn begins(&self) -> bool {
        let mut changes = self.watched.changes();
        loop {
            changes.mark_unchanged();
            {
                let state = self.watched.state();
                match state.drive {
                    Drive::Here if state.records() == 0 && !state.has_gap() => {}
                    Drive::Elsewhere => return false,
                    _ => return true,
                }
            }
            if changes.changed().await.is_err() {
                return true;
            }
        }
    }
}

impl Driving {
    /// Does the work of the drive, and stores what models write for readers at other workers.
    async fn with_live<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                result = &mut work => {
                    self.live.clear().await;
                    return result;
                }
                () = self.live.store(|| self.here.watched.state().is_live()) => {}
            }
        }
    }

    fn end(mut self, result: Result<(), Error>) {
        self.ends(result);
    }

    fn ends(&mut self, result: Result<(), Error>) {
        self.is_over = true;
        let Here { watched, is_over, .. } = &*self.here;
        let drive = match &result {
            Ok(()) => Drive::Nobody { error: None },
            Err(error) if is_taken(error) => Drive::Elsewhere,
            Err(error) if matches!(error.stage(), Stage::Approval) => Drive::Nobody { error: None },
            Err(error) if error.stage() == Stage::Cancelled => Drive::Nobody { error: None },
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(run = watched.id, error, "a drive has failed");
                Drive::Nobody { error: Some(watched.state().reader.shown(error)) }
            }
        };
        if let Drive::Nobody { error: Some(error) } = &drive
            && !self.core.home.is_shared()
        {
            let left = Left { error: error.clone(), records: watched.state().stored() };
            locked(&self.core.left).insert(watched.id.clone(), left);
        }
        let is_last = match self.core.here().entry(watched.id.clone()) {
            Entry::Occupied(place) if Arc::ptr_eq(place.get(), &self.here) => {
                place.remove();
                true
            }
            _ => false,
        };
        watched.change(|state| {
            // Records that no drive of ours wrote: it was cancelled, decided on or driven elsewhere.
            if !state.is_done() {
                state.want_look();
            }
            if is_last {
                state.drive = drive;
                state.end_live();
            }
        });
        is_over.send_replace(true);
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        if !self.is_over {
            self.ends(Err(Error::stop("the drive was dropped or panicked")));
        }
    }
}

/// Looks for runs to take over, and at runs that are driven elsewhere, until the service is gone.
async fn look_after(core: Weak<Core>) {
    let mut count: u64 = 0;
    loop {
        {
            let Some(core) = core.upgrade() else { return };
            if core.is_closing() {
                return;
            }
            core.agent.take_free(&core).await;
            let all: Vec<_> = locked(&core.watched).values().filter_map(Weak::upgrade).collect();
            count += 1;
            // A person may decide or stop at another worker.
            let is_slow_look = count.is_multiple_of(SLOW_LOOK);
            let is_due = |watched: &Arc<Watched>| {
                let state = watched.state();
                match state.drive {
                    Drive::Here if is_slow_look && core.home.is_shared() => true,
                    Drive::Elsewhere | Drive::Unknown => watched.has_readers(),
                    Drive::Here => state.has_gap() && watched.has_readers(),
                    Drive::Nobody { .. } => {
                        (state.has_gap() || is_slow_look) && watched.has_readers()
                    }
                }
            };
            let all: Vec<_> = all.into_iter().filter(is_due).collect();
            if !all.is_empty()
                && let Err(error) = core.refresh(&all).await
            {
                tracing::warn!(error = %causes(&error), "cannot look at runs that are driven elsewhere");
            }
        }
        sleep(LOOK).await;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the caller whose run has these metadata.
fn caller_of(metadata: &BTreeMap<String, String>) -> Caller {
    let mut values = metadata.clone();
    let user = values.get(USER).cloned().unwrap_or_default();
    values.retain(|name, _| !is_own(name));
    Caller { user, values }
}

/// Returns whether the service sets these metadata, and not the program.
fn is_own(name: &str) -> bool {
    [USER, CONVERSATION, MESSAGE, AFTER, TURN].contains(&name)
}

/// Returns the beginning of the ids of the runs of a conversation.
fn prefix(user: &str, conversation: &str) -> Result<String> {
    for (what, name) in [("user", user), ("conversation", conversation)] {
        if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
            let reason =
                format!("the id of the {what} must have 1 to {LONGEST_NAME} bytes, without NUL");
            return Err(ServeError::Request { reason });
        }
    }
    Ok(format!("{}:{}:", escaped(user), escaped(conversation)))
}

/// Returns a name without the characters that part the ids of runs, or that an address cannot have.
fn escaped(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'@' => {
                escaped.push(char::from(byte));
            }
            byte => drop(write!(escaped, "~{byte:02x}")),
        }
    }
    escaped
}

/// Returns an error with its causes.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

/// What a person decided, as the home stores it.
impl Answered {
    pub(crate) fn new(question: impl Into<String>, decision: Decided) -> Self {
        Self { question: question.into(), decision }
    }
}
