//! [`Sessions`], the use of HTTP sessions: which are idle, and since when. [`OpenRequests`], the ids
//! of their requests without a response.

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
}

impl Sessions {
    fn all(&self) -> MutexGuard<'_, HashMap<String, SessionUse>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn start(&self, id: &str) {
        let new = SessionUse { since: Instant::now(), calls: 0, streams: 0 };
        self.all().insert(id.to_owned(), new);
    }

    /// Counts a request of a session until the guard is dropped: a running call, or a stream.
    /// Returns `None` if there is no such session.
    pub(crate) fn request(self: &Arc<Self>, id: &str, is_call: bool) -> Option<SessionGuard> {
        let mut all = self.all();
        let used = all.get_mut(id)?;
        used.since = Instant::now();
        *(if is_call { &mut used.calls } else { &mut used.streams }) += 1;
        Some(SessionGuard { sessions: Arc::clone(self), id: id.to_owned(), is_call })
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

/// A running request of a session.
pub(crate) struct SessionGuard {
    sessions: Arc<Sessions>,
    id: String,
    is_call: bool,
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        if let Some(used) = self.sessions.all().get_mut(&self.id) {
            used.since = Instant::now();
            let count = if self.is_call { &mut used.calls } else { &mut used.streams };
            *count = count.saturating_sub(1);
        }
    }
}

/// The requests of sessions that have no response yet, by session and id.
#[derive(Default)]
pub(crate) struct OpenRequests(Mutex<HashSet<(String, String)>>);

impl OpenRequests {
    /// Notes that a request is open until the guard is dropped. Returns `None` if its id is that of
    /// another open one.
    pub(crate) fn begin(self: &Arc<Self>, session: &str, id: &Value) -> Option<OpenRequest> {
        let key = (session.to_owned(), id.to_string());
        let is_new = self.all().insert(key.clone());
        is_new.then(|| OpenRequest { requests: Arc::clone(self), key })
    }

    fn all(&self) -> MutexGuard<'_, HashSet<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request without a response.
pub(crate) struct OpenRequest {
    requests: Arc<OpenRequests>,
    key: (String, String),
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.requests.all().remove(&self.key);
    }
}
