//! [`Serve`] and [`Serving`]: an agent as a part of an axum service.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::request::Parts;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toolwright_module::Context;
use toolwright_orchestrator::Agent;

use crate::caller::{Caller, Callers};
use crate::core::{Core, Drives, Options};
use crate::error::Rejection;
use crate::home::Home;
use crate::routes;

/// Returns the routes of a service for one user, with a home for its runs. For several users, and to end
/// the service in an orderly way, use [`Serve`].
///
/// ```
/// use toolwright_orchestrator::Agent;
/// # use toolwright_module::testing::Scripted;
/// # use toolwright_module::Reply;
/// use toolwright_serve::{Home, router};
///
/// # let model = Scripted::new(|_| Ok(Reply::text("Hello.")));
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let agent = Agent::new(model, [])?;
/// let app = axum::Router::new().nest("/assistant", router(Home::memory(), agent));
/// # drop(app);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// It is not called in a tokio runtime.
pub fn router<O>(home: impl Into<Home>, agent: Agent<O>) -> Router
where
    O: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    Serve::new(home, agent).start().router()
}

/// A service that is not started yet: an agent, the home of its runs, and what the program says about
/// callers.
///
/// ```no_run
/// use std::time::Duration;
/// use axum::Router;
/// use toolwright_journal::Journal;
/// use toolwright_module::{Context, LanguageModel};
/// use toolwright_orchestrator::Agent;
/// use toolwright_serve::{Caller, Rejection, Serve};
///
/// /// The user of a run, for its tools.
/// struct User(String);
///
/// # async fn example(model: impl LanguageModel + 'static) -> Result<(), Box<dyn std::error::Error>> {
/// let agent = Agent::new(model, [])?;
/// let service = Serve::new(Journal::open("runs")?, agent)
///     .with_callers(async |request| match request.headers.get("x-user") {
///         Some(user) => Ok(Caller::new(String::from_utf8_lossy(user.as_bytes()))),
///         None => Err(Rejection::unauthorized("sign in first")),
///     })
///     .with_context(async |caller| Ok(Context::default().with(User(caller.user().to_owned()))))
///     .start();
///
/// let app = Router::new().nest("/assistant", service.router());
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
/// axum::serve(listener, app)
///     .with_graceful_shutdown(async move {
///         let _ = tokio::signal::ctrl_c().await;
///         service.shutdown(Duration::from_secs(20)).await;
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
pub struct Serve {
    home: Home,
    agent: Box<dyn Drives>,
    callers: Callers,
    options: Options,
}

impl Serve {
    /// Returns a service of this agent, whose runs are kept in this home. Until
    /// [`with_callers`](Self::with_callers), all requests come from the same user.
    pub fn new<O>(home: impl Into<Home>, agent: Agent<O>) -> Self
    where
        O: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        let (callers, options) = (Callers::default(), Options::default());
        Self { home: home.into(), agent: Box::new(agent), callers, options }
    }

    /// Sets the function that tells who a request comes from, or refuses it. It runs before anything
    /// else is done for a request.
    #[must_use]
    pub fn with_callers<F, Fut>(mut self, identify: F) -> Self
    where
        F: Fn(Arc<Parts>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Caller, Rejection>> + Send + 'static,
    {
        self.callers.identify = Arc::new(move |parts| Box::pin(identify(parts)));
        self
    }

    /// Sets the function that makes the context of a run: values for its tools, a ledger, a deadline.
    ///
    /// It gets the caller as stored with the run, because a run may go on at another worker, long after
    /// its request. Its events and cancellation are those of the service.
    #[must_use]
    pub fn with_context<F, Fut>(mut self, context: F) -> Self
    where
        F: Fn(Caller) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = toolwright_module::Result<Context>> + Send + 'static,
    {
        self.callers.context = Arc::new(move |caller| Box::pin(context(caller)));
        self
    }

    /// Sets the maximum number of runs that this process drives at once of those that it takes over from
    /// workers that are gone or from an earlier process. Others wait for room. At 0 it takes over none.
    /// Default: 64.
    #[must_use]
    pub fn with_most_drives(mut self, most: usize) -> Self {
        self.options.most_drives = most;
        self
    }

    /// Shows readers the errors of the service with their causes, which may name addresses, files and
    /// accounts. It is for programs whose user is their developer.
    #[must_use]
    pub fn with_shown_errors(mut self) -> Self {
        self.options.shows_errors = true;
        self
    }

    /// Starts the service: it goes on with the runs of earlier processes, and takes over those of workers
    /// that are gone.
    ///
    /// # Panics
    ///
    /// It is not called in a tokio runtime.
    #[must_use]
    pub fn start(self) -> Serving {
        let Self { home, agent, callers, options } = self;
        let core = Arc::new(Core::new(home, agent, callers, options));
        core.begin();
        Serving(core)
    }
}

impl fmt::Debug for Serve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve").field("home", &self.home).finish_non_exhaustive()
    }
}

/// A service that was [started](Serve::start). It ends when all its clones and routers are dropped.
#[derive(Clone)]
pub struct Serving(Arc<Core>);

impl Serving {
    /// Returns the routes, to be mounted into the program's own router.
    ///
    /// | route | what it does |
    /// |---|---|
    /// | `POST messages` | sends a message of the user, and streams the run |
    /// | `GET conversations` | the user's conversations |
    /// | `GET conversations/{id}` | the updates of a conversation so far |
    /// | `GET runs/{run}/updates` | streams a run, from the `last-event-id` on |
    /// | `POST runs/{run}/stop` | ends a run |
    /// | `POST runs/{run}/go-on` | drives a run again that stopped at an error |
    /// | `GET questions` | the open questions of the user |
    /// | `POST runs/{run}/questions/{question}` | answers a question |
    /// | `POST ag-ui` | answers a client of AG-UI |
    /// | `GET ag-ui/{id}/messages` | the messages of a conversation, for a client of AG-UI |
    /// | `POST chat` | answers `useChat` of the Vercel AI SDK |
    /// | `GET chat/{id}/stream` | streams the last run of a conversation, for `useChat` |
    /// | `GET chat/{id}/messages` | the messages of a conversation, for `useChat` |
    /// | `POST chat/{id}/stop` | ends the last run of a conversation |
    /// | `POST ag-ui/{id}/stop` | ends the run of a conversation |
    pub fn router(&self) -> Router {
        routes::router(&self.0)
    }

    /// Ends the service in an orderly way. New messages are refused. Runs that do not end within `grace`
    /// stop where they are; they go on at another worker, or when the program is started again. Streams
    /// end, and readers come back to where they were.
    pub async fn shutdown(&self, grace: Duration) {
        self.0.close(grace).await;
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").finish_non_exhaustive()
    }
}
