//! [`Sessions`], the use of HTTP sessions: which are idle, and since when.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The time of the last use and the number of running calls of each session.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, (Instant, usize)>>);

impl Sessions {
    fn all(&self) -> MutexGuard<'_, HashMap<String, (Instant, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn start(&self, id: &str) {
        self.all().insert(id.to_owned(), (Instant::now(), 0));
    }

    /// Counts a running call of a session until the guard is dropped. Returns `None` if there is no
    /// such session.
    pub(crate) fn call(self: &Arc<Self>, id: &str) -> Option<SessionCallGuard> {
        let mut all = self.all();
        let (since, calls) = all.get_mut(id)?;
        *since = Instant::now();
        *calls += 1;
        Some(SessionCallGuard { sessions: Arc::clone(self), id: id.to_owned() })
    }

    /// Returns the session that has been idle for longest, of those that still exist.
    pub(crate) fn longest_idle(&self, exists: impl Fn(&str) -> bool) -> Option<String> {
        let mut all = self.all();
        all.retain(|id, _| exists(id));
        let idle = all.iter().filter(|(_, (_, calls))| *calls == 0);
        idle.min_by_key(|(_, (since, _))| *since).map(|(id, _)| id.clone())
    }
}

/// A running call of a session.
pub(crate) struct SessionCallGuard {
    sessions: Arc<Sessions>,
    id: String,
}

impl Drop for SessionCallGuard {
    fn drop(&mut self) {
        if let Some((since, calls)) = self.sessions.all().get_mut(&self.id) {
            *since = Instant::now();
            *calls = calls.saturating_sub(1);
        }
    }
}
