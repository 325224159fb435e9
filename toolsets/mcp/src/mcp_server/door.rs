//! Who may stay connected: connections and sessions, of which there are only so many.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// How long a newcomer waits before the next connection is ended for it.
const SOON: Duration = Duration::from_millis(50);

/// The connections of a server.
///
/// Whoever connects is let in. Once all places are taken, the connection that has been
/// waiting longest for its client makes room: first one that never sent a request, and
/// never one whose call runs. So clients that connect and say nothing shut nobody out.
pub(crate) struct Door {
    places: Arc<Semaphore>,
    seats: Mutex<HashMap<u64, Waiting>>,
    next: AtomicU64,
}

struct Waiting {
    /// It has sent a whole request, with the token.
    known: bool,
    /// How many calls of it run; with none it waits for its client.
    calls: usize,
    since: Instant,
    leave: CancellationToken,
}

impl Door {
    pub(crate) fn new(connections: usize) -> Arc<Self> {
        Arc::new(Self {
            places: Arc::new(Semaphore::new(connections)),
            seats: Mutex::default(),
            next: AtomicU64::new(0),
        })
    }

    fn seats(&self) -> MutexGuard<'_, HashMap<u64, Waiting>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection that was accepted; `None` once no more are given.
    pub(crate) async fn enter(self: &Arc<Self>) -> Option<Seat> {
        let place = loop {
            if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
                break place;
            }
            self.make_room();
            let freed = Arc::clone(&self.places).acquire_owned();
            if let Ok(place) = tokio::time::timeout(SOON, freed).await {
                break place.ok()?;
            }
        };
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let leave = CancellationToken::new();
        let waiting =
            Waiting { known: false, calls: 0, since: Instant::now(), leave: leave.clone() };
        self.seats().insert(id, waiting);
        Some(Seat { door: Arc::clone(self), id, leave, _place: place })
    }

    /// Ends the connection that has been waiting longest; whether one waited.
    pub(crate) fn make_room(&self) -> bool {
        let mut seats = self.seats();
        let waiting = seats.iter().filter(|(_, seat)| seat.calls == 0);
        let longest = waiting.min_by_key(|(_, seat)| (seat.known, seat.since)).map(|(id, _)| *id);
        let seat = longest.and_then(|id| seats.remove(&id));
        if let Some(seat) = &seat {
            seat.leave.cancel();
        }
        seat.is_some()
    }
}

/// The place of one connection, given free when it is dropped.
pub(crate) struct Seat {
    door: Arc<Door>,
    id: u64,
    leave: CancellationToken,
    _place: OwnedSemaphorePermit,
}

impl Seat {
    /// Until the connection has to make room for another.
    pub(crate) fn leave(&self) -> CancellationToken {
        self.leave.clone()
    }

    /// Its client has the token, and sent a whole request.
    pub(crate) fn is_known(&self) {
        self.change(|seat| {
            seat.known = true;
            seat.since = Instant::now();
        });
    }

    /// A call of its client begins, and ends when this is dropped.
    pub(crate) fn call(self: &Arc<Self>) -> Calling {
        self.change(|seat| seat.calls += 1);
        Calling(Arc::clone(self))
    }

    fn change(&self, change: impl FnOnce(&mut Waiting)) {
        if let Some(seat) = self.door.seats().get_mut(&self.id) {
            change(seat);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.door.seats().remove(&self.id);
    }
}

/// A call that runs over a connection.
pub(crate) struct Calling(Arc<Seat>);

impl Drop for Calling {
    fn drop(&mut self) {
        self.0.change(|seat| {
            seat.calls -= 1;
            seat.since = Instant::now();
        });
    }
}

/// When each session was used last, and how many of its calls run.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, (Instant, usize)>>);

impl Sessions {
    fn all(&self) -> MutexGuard<'_, HashMap<String, (Instant, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, id: &str) {
        self.all().insert(id.to_owned(), (Instant::now(), 0));
    }

    /// A call in a session begins, and ends when this is dropped; none in one that there
    /// is not.
    pub(crate) fn call(self: &Arc<Self>, id: &str) -> Option<Using> {
        let mut all = self.all();
        let (since, calls) = all.get_mut(id)?;
        *since = Instant::now();
        *calls += 1;
        Some(Using { sessions: Arc::clone(self), id: id.to_owned() })
    }

    /// The session that nobody has used for longest, of those that there still are.
    pub(crate) fn longest_idle(&self, is_there: impl Fn(&str) -> bool) -> Option<String> {
        let mut all = self.all();
        all.retain(|id, _| is_there(id));
        let idle = all.iter().filter(|(_, (_, calls))| *calls == 0);
        idle.min_by_key(|(_, (since, _))| *since).map(|(id, _)| id.clone())
    }
}

/// A call that runs in a session.
pub(crate) struct Using {
    sessions: Arc<Sessions>,
    id: String,
}

impl Drop for Using {
    fn drop(&mut self) {
        if let Some((since, calls)) = self.sessions.all().get_mut(&self.id) {
            *since = Instant::now();
            *calls = calls.saturating_sub(1);
        }
    }
}

/// A body, and what ends with it.
pub(crate) struct Until<B, G> {
    body: B,
    _guard: G,
}

impl<B, G> Until<B, G> {
    pub(crate) fn new(body: B, guard: G) -> Self {
        Self { body, _guard: guard }
    }
}

impl<B: Body + Unpin, G: Unpin> Body for Until<B, G> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
