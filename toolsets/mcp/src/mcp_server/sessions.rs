//! [`Sessions`], the use of HTTP sessions: which are idle, since when, and the ids of their requests
//! without a response.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The use of each session.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, SessionUse>>);

struct SessionUse {
    /// The last time that the session was used.
    since: Instant,
    calls: usize,
    /// The number of open streams of notifications.
    streams: usize,
    /// The ids of the requests that have no response yet, as JSON.
    open: HashSet<String>,
}

/// The id of a request is that of another one without a response.
pub(crate) struct IdInUse;

impl Sessions {
    fn all(&self) -> MutexGuard<'_, HashMap<String, SessionUse>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn start(&self, id: &str) {
        let new = SessionUse { since: Instant::now(), calls: 0, streams: 0, open: HashSet::new() };
        self.all().insert(id.to_owned(), new);
    }

    /// Counts a message of a session until the guard is dropped: a running call, or a stream. `id` is
    /// that of a request. Returns `None` if there is no such session.
    ///
    /// # Errors
    ///
    /// The id is in use: of two responses with one id, the client could not know whose they are.
    pub(crate) fn begin(
        self: &Arc<Self>,
        session: &str,
        is_call: bool,
        id: Option<&Value>,
    ) -> Result<Option<SessionGuard>, IdInUse> {
        let mut all = self.all();
        let Some(used) = all.get_mut(session) else { return Ok(None) };
        let id = id.map(Value::to_string);
        if id.clone().is_some_and(|id| !used.open.insert(id)) {
            return Err(IdInUse);
        }
        used.since = Instant::now();
        *(if is_call { &mut used.calls } else { &mut used.streams }) += 1;
        let (sessions, session) = (Arc::clone(self), session.to_owned());
        Ok(Some(SessionGuard { sessions, session, is_call, id }))
    }

    /// Returns the session that has been idle for longest, of those that still exist and have no
    /// running call. A session with a stream is the last choice.
    pub(crate) fn longest_idle(&self, exists: impl Fn(&str) -> bool) -> Option<String> {
        let mut all = self.all();
        all.retain(|id, _| exists(id));
        let idle = all.iter().filter(|(_, used)| used.calls == 0);
        idle.min_by_key(|(_, used)| (used.streams > 0, used.since)).map(|(id, _)| id.clone())
    }

    /// Removes and returns the sessions that have been idle for this time.
    pub(crate) fn expired(&self, time: Duration) -> Vec<String> {
        let mut all = self.all();
        let is_expired = |used: &SessionUse| {
            used.calls == 0 && used.streams == 0 && used.since.elapsed() >= time
        };
        all.extract_if(|_, used| is_expired(used)).map(|(id, _)| id).collect()
    }
}

/// A running call of a session, or an open stream.
pub(crate) struct SessionGuard {
    sessions: Arc<Sessions>,
    session: String,
    is_call: bool,
    id: Option<String>,
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        if let Some(used) = self.sessions.all().get_mut(&self.session) {
            used.since = Instant::now();
            if let Some(id) = &self.id {
                used.open.remove(id);
            }
            let count = if self.is_call { &mut used.calls } else { &mut used.streams };
            *count = count.saturating_sub(1);
        }
    }
}
