//! The drives of this process.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use toolwright_journal::home;
use toolwright_module::error::Stage;
use toolwright_module::event::Event;
use toolwright_module::model::BoxFuture;
use toolwright_module::{Cancellation, Context, Error};
use toolwright_orchestrator::perform::Record;
use toolwright_orchestrator::{Agent, Conversation, Task};

use super::{Core, caller_of, locked};
use crate::caller::Caller;
use crate::error::{Result, ServeError};
use crate::home::{Home, is_taken};
use crate::live::LiveTexts;
use crate::watched::{Drive, Left, Watched};

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

/// A drive of this process.
pub(super) struct Here {
    pub(super) watched: Arc<Watched>,
    pub(super) cancellation: Cancellation,
    pub(super) is_over: watch::Sender<bool>,
}

/// A drive that has begun. It has ended when this is dropped.
pub(super) struct Driving {
    pub(super) core: Arc<Core>,
    pub(super) here: Arc<Here>,
    pub(super) live: Arc<LiveTexts>,
    pub(super) is_over: bool,
}

impl Core {
    pub(super) fn spawn(self: &Arc<Self>, driving: Driving, id: String, task: Task, cx: Context) {
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
        if let Some(runs) = self.home.postgres() {
            // A worker takes it, although it rests after an error.
            runs.wake(id).await?;
            watched.change(|state| state.drive = Drive::Elsewhere);
            return Ok(watched);
        }
        let records = self.home.records(id).await?.unwrap_or_default();
        let Some(Record::Started(started)) = records.first() else {
            return Err(ServeError::NoSuchRun { id: id.to_owned() });
        };
        let Some(driving) = self.driving(id) else { return Ok(watched) };
        let caller = caller_of(&started.metadata);
        let cx = match self.context(&caller, &driving).await {
            Ok(cx) => cx,
            Err(error) => {
                // Its readers are told, and its user may try again.
                driving.end(Err(Error::stop(format!("{error:#}"))));
                return Err(self.failed(error));
            }
        };
        let cx = cx.with_run(id, started.metadata.clone());
        self.spawn(driving, id.to_owned(), started.task(), cx);
        Ok(watched)
    }

    /// Returns the error of a request for an error of the agent or the context.
    pub(super) fn failed(&self, error: Error) -> ServeError {
        match self.options.shows_errors {
            true => ServeError::Shown { error: format!("{error:#}") },
            false => ServeError::Agent(error.into_std().into()),
        }
    }

    pub(super) async fn context(
        &self,
        caller: &Caller,
        driving: &Driving,
    ) -> Result<Context, Error> {
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
    pub(super) fn driving(self: &Arc<Self>, id: &str) -> Option<Driving> {
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
    pub(super) fn driving_taken(self: &Arc<Self>, id: &str) -> Driving {
        let here = self.not_yet_here(id);
        self.here().insert(id.to_owned(), Arc::clone(&here));
        self.begun(here)
    }

    pub(super) fn not_yet_here(&self, id: &str) -> Arc<Here> {
        let (cancellation, is_over) = (Cancellation::default(), watch::Sender::new(false));
        Arc::new(Here { watched: self.watched(id), cancellation, is_over })
    }

    pub(super) fn begun(self: &Arc<Self>, here: Arc<Here>) -> Driving {
        here.watched.change(|state| state.drive = Drive::Here);
        locked(&self.left).remove(&here.watched.id);
        let live = Arc::new(LiveTexts::new(&here.watched.id, &self.home));
        Driving { core: Arc::clone(self), here, live, is_over: false }
    }
}

impl Here {
    /// Waits until the run is stored, so that the next message of its conversation finds it. Returns
    /// whether this drive has stored it: it has not if another process was faster.
    pub(super) async fn begins(&self) -> bool {
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
    pub(super) async fn with_live<T>(&self, work: impl Future<Output = T>) -> T {
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

    pub(super) fn end(mut self, result: Result<(), Error>) {
        self.ends(result);
    }

    /// Ends a drive that never began.
    pub(super) fn leave(mut self) {
        self.is_over = true;
        self.make_room();
        self.here.watched.change(|state| state.drive = Drive::Unknown);
        self.here.is_over.send_replace(true);
    }

    /// Makes room for another drive of the run. Returns whether there was none.
    fn make_room(&self) -> bool {
        match self.core.here().entry(self.here.watched.id.clone()) {
            Entry::Occupied(place) if Arc::ptr_eq(place.get(), &self.here) => {
                place.remove();
                true
            }
            _ => false,
        }
    }

    pub(super) fn ends(&mut self, result: Result<(), Error>) {
        self.is_over = true;
        let Here { watched, is_over, .. } = &*self.here;
        let drive = match &result {
            Ok(()) => Drive::Nobody { error: None },
            Err(error) if is_taken(error) => Drive::Elsewhere,
            Err(error) if error.stage() == Stage::Approval => Drive::Nobody { error: None },
            Err(error) if error.stage() == Stage::Cancelled => Drive::Nobody { error: None },
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(run = watched.id, error, "a drive has failed");
                Drive::Nobody { error: Some(watched.state().reader.shown(error)) }
            }
        };
        if let Drive::Nobody { error: Some(error) } = &drive
            && !self.core.home.is_shared()
            && !watched.state().has_stopped()
        {
            let left = Left { error: error.clone(), records: watched.state().stored() };
            locked(&self.core.left).insert(watched.id.clone(), left);
        }
        let is_last = self.make_room();
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
