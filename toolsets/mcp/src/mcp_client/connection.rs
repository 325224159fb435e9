//! [`Connection`], which connects again after the session was lost.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::Shared;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::task::AbortOnDropHandle;
use toolwright_module::model::BoxFuture;

use crate::error::{McpError, Result};
use crate::mcp_client::McpClientBuilder;
use crate::mcp_client::listing::Listing;
use crate::mcp_client::session::Session;

/// Maximum number of attempts to connect, one after another.
const MAX_ATTEMPTS: u32 = 5;

/// Delay after the first failed attempt. It doubles after each further one.
const FIRST_DELAY: Duration = Duration::from_millis(100);

/// Maximum delay.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// A session that was shorter than this counts as a failure, so the next attempt is delayed.
const SHORT_SESSION: Duration = Duration::from_secs(5);

/// A connection that many calls share. At most one attempt to connect runs at a time.
pub(crate) struct Connection {
    pub(crate) client: McpClientBuilder,
    state: Mutex<State>,
    /// The server's current tools.
    pub(crate) listing: Arc<watch::Sender<Arc<Listing>>>,
}

enum State {
    Up(Arc<Session>),
    Connecting(Attempt, AbortHandle),
    /// All attempts failed. Before `until` there is no further attempt.
    Down {
        error: Arc<McpError>,
        until: Instant,
        failures: u32,
    },
    Closed,
}

type Attempt = Shared<BoxFuture<'static, Result<Arc<Session>, Arc<McpError>>>>;

impl Connection {
    pub(crate) async fn open(client: McpClientBuilder) -> Result<Arc<Self>> {
        let listing = Arc::new(watch::Sender::new(Arc::default()));
        let session = Session::open(&client, &listing).await?;
        let state = Mutex::new(State::Up(Arc::new(session)));
        Ok(Arc::new(Self { client, state, listing }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the session, after connecting again if it was lost.
    ///
    /// # Errors
    ///
    /// The error of the last attempt. All waiting calls get it, and later calls until the delay
    /// has passed.
    pub(crate) async fn session(self: &Arc<Self>) -> Result<Arc<Session>, Arc<McpError>> {
        let attempt = 'attempt: {
            let mut state = self.state();
            let failures = match &*state {
                State::Up(session) if session.is_up() => return Ok(Arc::clone(session)),
                State::Down { error, until, .. } if Instant::now() < *until => {
                    return Err(Arc::clone(error));
                }
                State::Closed => return Err(Arc::new(McpError::Closed)),
                State::Connecting(attempt, _) => break 'attempt attempt.clone(),
                State::Up(session) => u32::from(session.since.elapsed() < SHORT_SESSION),
                State::Down { failures, .. } => *failures,
            };
            let (attempt, abort) = self.attempt(failures);
            *state = State::Connecting(attempt.clone(), abort);
            attempt
        };
        let session = attempt.await?;
        // `close` may have been called during the attempt.
        if matches!(*self.state(), State::Closed) {
            return Err(Arc::new(McpError::Closed));
        }
        Ok(session)
    }

    /// Starts an attempt in a task of its own, because any waiting call may be dropped.
    fn attempt(self: &Arc<Self>, failures: u32) -> (Attempt, AbortHandle) {
        let (client, listing) = (self.client.clone(), Arc::clone(&self.listing));
        // The task holds a weak reference, so that the attempt ends when the last client is
        // dropped.
        let connection = Arc::downgrade(self);
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let outcome = connect_with_retries(&client, &listing, failures).await;
            let outcome = outcome.map(Arc::new).map_err(Arc::new);
            if let Some(connection) = connection.upgrade() {
                connection.set_outcome(&outcome, failures);
            }
            outcome
        }));
        let abort = task.abort_handle();
        let ended = async move { task.await.unwrap_or_else(|_| Err(Arc::new(McpError::Closed))) };
        (ended.boxed().shared(), abort)
    }

    fn set_outcome(&self, outcome: &Result<Arc<Session>, Arc<McpError>>, failures: u32) {
        let mut state = self.state();
        if matches!(*state, State::Closed) {
            return;
        }
        *state = match outcome {
            Ok(session) => State::Up(Arc::clone(session)),
            Err(error) => {
                tracing::warn!(%error, "an MCP server is unavailable");
                let failures = failures.saturating_add(MAX_ATTEMPTS);
                let (error, until) = (Arc::clone(error), Instant::now() + delay(failures));
                State::Down { error, until, failures }
            }
        };
    }

    /// Closes the session. Later calls fail.
    pub(crate) async fn close(&self) {
        let state = std::mem::replace(&mut *self.state(), State::Closed);
        match state {
            State::Up(session) => session.close().await,
            State::Connecting(_, abort) => abort.abort(),
            State::Down { .. } | State::Closed => {}
        }
    }
}

/// Connects, with up to [`MAX_ATTEMPTS`] attempts.
async fn connect_with_retries(
    client: &McpClientBuilder,
    listing: &Arc<watch::Sender<Arc<Listing>>>,
    failures: u32,
) -> Result<Session> {
    let mut attempts = 0;
    loop {
        if failures + attempts > 0 {
            tokio::time::sleep(delay((failures + attempts).min(MAX_ATTEMPTS))).await;
        }
        match Session::open(client, listing).await {
            Ok(session) => return Ok(session),
            Err(error) if error.is_final() => return Err(error),
            Err(error) => {
                attempts += 1;
                tracing::debug!(%error, attempts, "connecting to an MCP server failed");
                if attempts >= MAX_ATTEMPTS {
                    return Err(error);
                }
            }
        }
    }
}

/// Returns the delay after a number of failures.
fn delay(failures: u32) -> Duration {
    let doubled = 2u32.saturating_pow(failures.saturating_sub(1));
    FIRST_DELAY.saturating_mul(doubled).min(MAX_DELAY)
}
