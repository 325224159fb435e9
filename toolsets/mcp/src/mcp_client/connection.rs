//! A connection that is made again when it is lost.

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
use crate::mcp_client::live::Live;

/// How often in a row a server is tried, and what is waited after the first failure; twice
/// as long after each other.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(30);

/// A connection that ends sooner than this was none: the next waits.
const SHORT: Duration = Duration::from_secs(5);

/// Many calls, one connection, and one attempt to make it again at a time.
pub(crate) struct Connection {
    pub(crate) client: McpClientBuilder,
    state: Mutex<State>,
    /// What the server has now.
    pub(crate) listing: Arc<watch::Sender<Arc<Listing>>>,
}

enum State {
    Up(Arc<Live>),
    Connecting(Attempt, AbortHandle),
    /// Not tried again before then.
    Down {
        error: Arc<McpError>,
        until: Instant,
        failures: u32,
    },
    Closed,
}

type Attempt = Shared<BoxFuture<'static, Result<Arc<Live>, Arc<McpError>>>>;

impl Connection {
    pub(crate) async fn open(client: McpClientBuilder) -> Result<Arc<Self>> {
        let listing = Arc::new(watch::Sender::new(Arc::default()));
        let live = Live::open(&client, &listing).await?;
        let state = Mutex::new(State::Up(Arc::new(live)));
        Ok(Arc::new(Self { client, state, listing }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, made again if it was lost.
    ///
    /// # Errors
    ///
    /// Why it could not be, to all who wait for it and, for a while, to all who come.
    pub(crate) async fn live(self: &Arc<Self>) -> Result<Arc<Live>, Arc<McpError>> {
        let attempt = {
            let mut state = self.state();
            let failures = match &*state {
                State::Up(live) if live.is_up() => return Ok(Arc::clone(live)),
                State::Down { error, until, .. } if Instant::now() < *until => {
                    return Err(Arc::clone(error));
                }
                State::Closed => return Err(Arc::new(McpError::Closed)),
                State::Connecting(attempt, _) => Err(attempt.clone()),
                State::Up(live) => Ok(u32::from(live.since.elapsed() < SHORT)),
                State::Down { failures, .. } => Ok(*failures),
            };
            failures.map_or_else(
                |attempt| attempt,
                |failures| {
                    let (attempt, abort) = self.attempt(failures);
                    *state = State::Connecting(attempt.clone(), abort);
                    attempt
                },
            )
        };
        let live = attempt.await?;
        // It may have been closed meanwhile.
        if matches!(*self.state(), State::Closed) {
            return Err(Arc::new(McpError::Closed));
        }
        Ok(live)
    }

    /// On a task of its own: whoever waits for it may give up.
    fn attempt(self: &Arc<Self>, failures: u32) -> (Attempt, AbortHandle) {
        let (client, listing) = (self.client.clone(), Arc::clone(&self.listing));
        // Not the connection itself: with the last toolset ends the attempt.
        let connection = Arc::downgrade(self);
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let outcome = again(&client, &listing, failures).await;
            let outcome = outcome.map(Arc::new).map_err(Arc::new);
            if let Some(connection) = connection.upgrade() {
                connection.settle(&outcome, failures);
            }
            outcome
        }));
        let abort = task.abort_handle();
        let ended = async move { task.await.unwrap_or_else(|_| Err(Arc::new(McpError::Closed))) };
        (ended.boxed().shared(), abort)
    }

    fn settle(&self, outcome: &Result<Arc<Live>, Arc<McpError>>, failures: u32) {
        let mut state = self.state();
        if matches!(*state, State::Closed) {
            return;
        }
        *state = match outcome {
            Ok(live) => State::Up(Arc::clone(live)),
            Err(error) => {
                tracing::warn!(%error, "an MCP server is not there");
                let failures = failures.saturating_add(TRIES);
                let (error, until) = (Arc::clone(error), Instant::now() + pause(failures));
                State::Down { error, until, failures }
            }
        };
    }

    /// Ends it in good order, and for good.
    pub(crate) async fn close(&self) {
        let state = std::mem::replace(&mut *self.state(), State::Closed);
        match state {
            State::Up(live) => live.close().await,
            State::Connecting(_, abort) => abort.abort(),
            State::Down { .. } | State::Closed => {}
        }
    }
}

/// Tries until the server is there or patience ends.
async fn again(
    client: &McpClientBuilder,
    listing: &Arc<watch::Sender<Arc<Listing>>>,
    failures: u32,
) -> Result<Live> {
    let mut tries = 0;
    loop {
        if failures + tries > 0 {
            tokio::time::sleep(pause((failures + tries).min(TRIES))).await;
        }
        match Live::open(client, listing).await {
            Ok(live) => return Ok(live),
            Err(error) if error.is_final() => return Err(error),
            Err(error) => {
                tries += 1;
                tracing::debug!(%error, tries, "an MCP server did not answer");
                if tries >= TRIES {
                    return Err(error);
                }
            }
        }
    }
}

/// How long to wait after so many failures.
fn pause(failures: u32) -> Duration {
    let doubled = 2u32.saturating_pow(failures.saturating_sub(1));
    PAUSE.saturating_mul(doubled).min(LONGEST)
}
