//! [`Connections`], which limits the number of HTTP connections and closes idle ones.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Time that a new connection waits for a permit before a further idle connection is closed.
const CLOSE_INTERVAL: Duration = Duration::from_millis(50);

/// The connections of a server.
///
/// When the maximum is reached, a new connection closes an idle one: first those that have not
/// sent a request with the token, then the one that has been idle for longest. A connection with
/// a running call is not closed. Clients that connect and send nothing therefore cannot block
/// others.
pub(crate) struct Connections {
    permits: Arc<Semaphore>,
    states: Mutex<HashMap<u64, ConnectionState>>,
    next_id: AtomicU64,
}

struct ConnectionState {
    /// The client has sent a complete request with the token.
    authorized: bool,
    /// The number of running calls. With 0, the connection is idle.
    calls: usize,
    idle_since: Instant,
    closed: CancellationToken,
}

impl Connections {
    pub(crate) fn new(connections: usize) -> Arc<Self> {
        Arc::new(Self {
            permits: Arc::new(Semaphore::new(connections)),
            states: Mutex::default(),
            next_id: AtomicU64::new(0),
        })
    }

    fn states(&self) -> MutexGuard<'_, HashMap<u64, ConnectionState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a permit for a connection that was accepted.
    pub(crate) async fn acquire(self: &Arc<Self>) -> Option<ConnectionPermit> {
        let permit = loop {
            if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
                break permit;
            }
            self.close_idle();
            let freed = Arc::clone(&self.permits).acquire_owned();
            if let Ok(permit) = tokio::time::timeout(CLOSE_INTERVAL, freed).await {
                break permit.ok()?;
            }
        };
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let closed = CancellationToken::new();
        let state = ConnectionState {
            authorized: false,
            calls: 0,
            idle_since: Instant::now(),
            closed: closed.clone(),
        };
        self.states().insert(id, state);
        Some(ConnectionPermit { connections: Arc::clone(self), id, closed, _permit: permit })
    }

    /// Closes the connection that has been idle for longest. Returns whether there was one.
    pub(crate) fn close_idle(&self) -> bool {
        let mut states = self.states();
        let idle = states.iter().filter(|(_, state)| state.calls == 0);
        let longest = idle.min_by_key(|(_, state)| (state.authorized, state.idle_since));
        let longest = longest.map(|(id, _)| *id);
        let state = longest.and_then(|id| states.remove(&id));
        if let Some(state) = &state {
            state.closed.cancel();
        }
        state.is_some()
    }
}

/// The permit of one connection, which is released when it is dropped.
pub(crate) struct ConnectionPermit {
    connections: Arc<Connections>,
    id: u64,
    closed: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionPermit {
    /// The token that is cancelled when the connection must close.
    pub(crate) fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }

    /// Records that the client has sent a complete request with the token.
    pub(crate) fn set_authorized(&self) {
        self.change(|state| {
            state.authorized = true;
            state.idle_since = Instant::now();
        });
    }

    /// Counts a running call until the guard is dropped.
    pub(crate) fn call(self: &Arc<Self>) -> CallGuard {
        self.change(|state| state.calls += 1);
        CallGuard(Arc::clone(self))
    }

    fn change(&self, change: impl FnOnce(&mut ConnectionState)) {
        if let Some(state) = self.connections.states().get_mut(&self.id) {
            change(state);
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.connections.states().remove(&self.id);
    }
}

/// A running call of a connection.
pub(crate) struct CallGuard(Arc<ConnectionPermit>);

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.calls -= 1;
            state.idle_since = Instant::now();
        });
    }
}
