//! Runs and their readers.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use futures_util::Stream;
use tokio::sync::watch;
use toolwright_journal::RunStatus;

use super::{AFTER, BATCH, Core, locked, prefix};
use crate::caller::Caller;
use crate::error::{Result, ServeError};
use crate::watched::{Cursor, Drive, Placed, Position, Rest, Watched};

impl Core {
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
    pub(super) async fn last_in(
        &self,
        user: &str,
        conversation: &str,
        prefix: &str,
    ) -> Result<u64> {
        let numbers = self.numbers(user, conversation, prefix).await?;
        Ok(numbers.last().copied().unwrap_or(0))
    }

    /// Returns the numbers of the runs of a conversation, sorted. Runs may have been deleted, so there may
    /// be any numbers.
    async fn numbers(&self, user: &str, conversation: &str, prefix: &str) -> Result<Vec<u64>> {
        let number = |id: &String| id.strip_prefix(prefix)?.parse().ok();
        let here: Vec<u64> = self.here().keys().filter_map(number).collect();
        let stored = self.home.ids(user, conversation, prefix).await?;
        let mut numbers: Vec<u64> = stored.iter().filter_map(number).chain(here).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    /// Returns the runs of a conversation in their order, without those that were replaced.
    pub(crate) async fn conversation(
        self: &Arc<Self>,
        caller: &Caller,
        conversation: &str,
    ) -> Result<Vec<Arc<Watched>>> {
        let prefix = prefix(&caller.user, conversation)?;
        let mut numbers = self.numbers(&caller.user, conversation, &prefix).await?;
        let Some(last) = numbers.pop() else { return Ok(Vec::new()) };
        // The others at once, so that their home reads the conversation once.
        let others = numbers.into_iter().map(|number| self.watched(&format!("{prefix}{number}")));
        let others: Vec<_> = others.collect();
        self.refresh(&others).await?;
        let mut others: HashMap<_, _> =
            others.into_iter().map(|run| (run.id.clone(), run)).collect();
        let mut runs = Vec::new();
        let mut next = Some(self.watch(&format!("{prefix}{last}")).await?);
        while let Some(run) = next {
            let after = run.state().reader.metadata.get(AFTER).cloned();
            runs.push(run);
            // What was deleted is not shown.
            next = after.and_then(|after| others.remove(&after));
            next = next.filter(|run| run.state().records() > 0);
        }
        runs.reverse();
        Ok(runs)
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

    pub(super) fn watched(&self, id: &str) -> Arc<Watched> {
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
    pub(super) async fn watch(self: &Arc<Self>, id: &str) -> Result<Arc<Watched>> {
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
    pub(super) async fn refresh(&self, all: &[Arc<Watched>]) -> Result<()> {
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
