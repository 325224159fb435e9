//! Messages of users, and the runs that they start.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolwright_module::Context;
use toolwright_module::message::{Message, Part};
use toolwright_orchestrator::Task;
use toolwright_orchestrator::perform::Record;

use super::{AFTER, Core, LONGEST_MESSAGE, TURN, is_own, locked, prefix};
use crate::caller::Caller;
use crate::error::{Result, ServeError};
use crate::home::is_taken;
use crate::protocol::{Incoming, Place, Said};
use crate::recorded::{CONVERSATION, MESSAGE, USER};
use crate::watched::{Rest, Watched};

impl Core {
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
    pub(super) async fn say(
        self: &Arc<Self>,
        caller: &Caller,
        prefix: &str,
        last: u64,
        conversation: &str,
        mut said: Said,
        earlier: usize,
    ) -> Result<Arc<Watched>> {
        if let Some(id) = &said.id
            && (id.len() > LONGEST_MESSAGE || id.contains('\0'))
        {
            let reason = format!(
                "the id of a message must have at most {LONGEST_MESSAGE} bytes, without NUL"
            );
            return Err(ServeError::Request { reason });
        }
        let (mut before, mut parts, mut turn) = (None, std::mem::take(&mut said.parts), 0);
        let (mut left, mut last, mut found) = (None, last, None);
        // A run that another process is about to create has a file, and no start yet.
        while last > 0 && found.is_none() {
            found = self.if_there(&format!("{prefix}{last}")).await?;
            last -= u64::from(found.is_none());
        }
        if let Some(watched) = found {
            let id = watched.id.clone();
            let metadata = watched.state().reader.metadata.clone();
            let is_same = said.id.is_some() && metadata.get(MESSAGE) == said.id.as_ref();
            if is_same && !said.replaces {
                return Ok(watched);
            }
            if watched.rest() != Rest::Over {
                return Err(ServeError::Busy { run: id });
            }
            before = Some((id, metadata));
            let can_go_on = watched.state().can_go_on();
            left = can_go_on.then_some(watched);
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
        let mut metadata = caller.values.clone();
        metadata.retain(|name, _| !is_own(name));
        metadata.insert(USER.to_owned(), caller.user.clone());
        metadata.insert(CONVERSATION.to_owned(), conversation.to_owned());
        metadata.insert(TURN.to_owned(), turn.to_string());
        metadata.extend(said.id.map(|id| (MESSAGE.to_owned(), id)));
        metadata.extend(before.iter().map(|(before, _)| (AFTER.to_owned(), before.clone())));
        let Some(driving) = self.driving(&id) else { return Err(ServeError::Busy { run: id }) };
        let prepared = async {
            let mut task = Task::from(parts);
            if let Some((before, _)) = &before {
                let records = self.home.records(before).await?.unwrap_or_default();
                let cx = Context::default();
                let before = self.agent.conversation(before, records, &cx).await;
                task = task.with_conversation(before.map_err(|error| self.failed(error))?);
            }
            let cx = self.context(caller, &driving).await;
            let cx = cx.map_err(|error| self.failed(error))?.with_run(&id, metadata);
            if let Some(left) = left {
                // The user goes on without it. It must not be driven again, by a worker or after a
                // restart.
                self.home.cancel(&left.id, None).await?;
                self.refresh(&[left]).await?;
            }
            let started = self.agent.start(&self.home, &id, &task, &cx).await;
            started.map_err(|error| match is_taken(&error) {
                // There is another one with its id.
                true => ServeError::Busy { run: id.clone() },
                false => self.failed(error),
            })?;
            Ok((task, cx))
        };
        let (task, cx) = match prepared.await {
            Ok(prepared) => prepared,
            Err(error) => {
                driving.leave();
                return Err(error);
            }
        };
        let here = Arc::clone(&driving.here);
        self.spawn(driving, id.clone(), task, cx);
        if !self.home.is_shared() && !here.begins().await {
            return Err(ServeError::Busy { run: id });
        }
        Ok(Arc::clone(&here.watched))
    }

    /// Finds the run of a message, from the last run of the conversation on.
    pub(super) async fn find_message(
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
    pub(super) async fn metadata(
        self: &Arc<Self>,
        id: &str,
    ) -> Result<Option<BTreeMap<String, String>>> {
        Ok(self.home.run(id).await?.map(|run| run.metadata))
    }

    pub(super) async fn if_there(self: &Arc<Self>, id: &str) -> Result<Option<Arc<Watched>>> {
        match self.watch(id).await {
            Ok(watched) => Ok(Some(watched)),
            Err(ServeError::NoSuchRun { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the parts of the user's message of a run.
    pub(super) async fn parts_of(&self, id: &str) -> Result<Vec<Part>> {
        let records = self.home.records(id).await?.unwrap_or_default();
        let Some(Record::Started(started)) = records.first() else { return Ok(Vec::new()) };
        Ok(match started.run.history().last().map(|message| &**message) {
            Some(Message::User { parts }) => parts.clone(),
            _ => Vec::new(),
        })
    }
}
