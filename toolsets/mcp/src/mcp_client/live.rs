//! One connection to a server, from its handshake to its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, Implementation,
    ListRootsRequestMethod, ProtocolVersion, SubscriptionFilter,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, NotificationContext,
    RequestContext, RunningService, RunningServiceCancellationToken, ServiceError,
};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::{ErrorData, Peer, RoleClient};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, RwLock, watch};
use tokio_util::task::AbortOnDropHandle;
use toolwright_http::{Redactor, with_causes};

use crate::error::{McpError, Result, Source};
use crate::mcp_client::McpClientBuilder;
use crate::mcp_client::builder::Home;
use crate::mcp_client::child::Told;
use crate::mcp_client::listing::Listing;

/// The revisions that have no handshake, the best first. Those that have one agree in it.
const MODERN: [ProtocolVersion; 1] = [ProtocolVersion::V_2026_07_28];

/// How long a server may take to end in good order.
const CLOSING: Duration = Duration::from_secs(6);

/// How long a list is left alone after it was asked for because it changed.
const PAUSE: Duration = Duration::from_secs(1);

/// A connection that was there, and may be still.
pub(crate) struct Live {
    peer: Peer<RoleClient>,
    pub(crate) since: Instant,
    /// Calls read it, and closing takes it.
    running: RwLock<Option<Running>>,
    stop: Mutex<Option<RunningServiceCancellationToken>>,
    lost: Arc<AtomicBool>,
    redactor: Redactor,
    /// It is listened to as long as it is there.
    _told: Option<Told>,
    _watching: AbortOnDropHandle<()>,
}

type Running = RunningService<RoleClient, Listener>;

/// Why a call has no result.
pub(crate) enum Fault {
    /// The server never saw it.
    NotRun(Source),
    /// It may have run.
    Lost(Source),
    /// The server said so.
    Told(String),
    /// It wants to know who asks.
    Unauthorized,
    /// What came is no answer to a call.
    Strange(&'static str),
}

impl Live {
    /// Connects, asks for the tools and holds them to the lock.
    pub(crate) async fn open(
        client: &McpClientBuilder,
        listing: &Arc<watch::Sender<Arc<Listing>>>,
    ) -> Result<Self> {
        let opening = Box::pin(Self::open_at_leisure(client, listing));
        let late = |_| McpError::Late { server: client.shown(), time: client.start_time };
        tokio::time::timeout(client.start_time, opening).await.map_err(late)?
    }

    async fn open_at_leisure(
        client: &McpClientBuilder,
        listing: &Arc<watch::Sender<Arc<Listing>>>,
    ) -> Result<Self> {
        let changed = Arc::new(Notify::new());
        let (running, told) = handshake(client, &changed).await?;
        let peer = running.peer().clone();
        let listed = client.list(&peer).await?;
        publish(listing, listed);
        let lost = Arc::new(AtomicBool::new(false));
        let watching =
            watch(peer.clone(), client.clone(), changed, Arc::clone(listing), Arc::clone(&lost));
        Ok(Self {
            peer,
            since: Instant::now(),
            stop: Mutex::new(Some(running.cancellation_token())),
            running: RwLock::new(Some(running)),
            lost,
            redactor: client.redactor(),
            _told: told,
            _watching: AbortOnDropHandle::new(tokio::spawn(watching)),
        })
    }

    pub(crate) fn is_up(&self) -> bool {
        !self.lost.load(Ordering::Relaxed) && !self.peer.is_transport_closed()
    }

    /// Whoever comes next connects anew.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Sends a call. Dropped before it ends, it is cancelled at the server.
    pub(crate) async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<CallToolResult, Fault> {
        let call = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let running = self.running.read().await;
        let Some(running) = running.as_ref() else {
            return Err(Fault::NotRun(Box::new(ServiceError::TransportClosed)));
        };
        // A server that comes back with a question is told that nobody answers, and goes on
        // without.
        running.call_tool(call).await.map_err(|error| fault(error).without_secrets(&self.redactor))
    }

    /// Ends it as the specification says.
    pub(crate) async fn close(&self) {
        // Calls that run fail, and let go of it.
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(stop) = stop {
            stop.cancel();
        }
        let running = self.running.write().await.take();
        if let Some(mut running) = running {
            let _ = running.close_with_timeout(CLOSING).await;
        }
    }
}

/// Marks an answer that could not be understood, on its way through rmcp.
const STRANGE: &str = "toolwright/strange";

/// In the place of an answer that is none: without one its request would never end.
pub(crate) fn strange() -> ErrorData {
    ErrorData::internal_error("the answer was not understood", Some(json!({ STRANGE: true })))
}

impl Fault {
    fn without_secrets(self, redactor: &Redactor) -> Self {
        match self {
            Self::NotRun(source) => Self::NotRun(without_secrets(source, redactor)),
            Self::Lost(source) => Self::Lost(without_secrets(source, redactor)),
            Self::Told(text) => Self::Told(redactor.redact(&text).into_owned()),
            fault => fault,
        }
    }
}

fn fault(error: ServiceError) -> Fault {
    match error {
        ServiceError::McpError(data) if says(&data, STRANGE) => {
            Fault::Strange("the answer is none of a tool's")
        }
        // rmcp's own mark of a stream that ended before its answer.
        ServiceError::McpError(data) if says(&data, "io.modelcontextprotocol/transportClosed") => {
            Fault::Lost(Box::new(ServiceError::TransportClosed))
        }
        ServiceError::McpError(data) => Fault::Told(data.message.into_owned()),
        ServiceError::Cancelled { .. } => Fault::Told("The server cancelled the call.".to_owned()),
        ServiceError::TransportSend(failed) => {
            let http = failed.error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
            let not_run = match http {
                Some(StreamableHttpError::Client(error)) => error.is_connect(),
                Some(StreamableHttpError::HttpStatus(status)) => status.status == 429,
                Some(
                    StreamableHttpError::AuthRequired(_)
                    | StreamableHttpError::InsufficientScope(_),
                ) => return Fault::Unauthorized,
                Some(error) => matches!(error, StreamableHttpError::SessionExpired),
                // A child that did not take the whole line did not take the call.
                None => failed
                    .error
                    .downcast_ref::<std::io::Error>()
                    .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe),
            };
            let source = sending(failed.error);
            if not_run { Fault::NotRun(source) } else { Fault::Lost(source) }
        }
        ServiceError::UnexpectedResponse => Fault::Strange("the answer is none of a tool's"),
        ServiceError::InputRequiredRoundsExceeded { .. } => {
            Fault::Strange("the tool asks for input, and there is nobody to give it")
        }
        error => Fault::Lost(Box::new(error)),
    }
}

fn says(data: &ErrorData, mark: &str) -> bool {
    data.data.as_ref().is_some_and(|data| data.get(mark).is_some())
}

/// By the revision that has no handshake; by one that has if the server does not know it.
async fn handshake(
    client: &McpClientBuilder,
    changed: &Arc<Notify>,
) -> Result<(Running, Option<Told>)> {
    let auto = ClientLifecycleMode::Auto {
        preferred_versions: MODERN.to_vec(),
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    };
    let first = match begin(client, changed, auto).await {
        Err(error @ McpError::Connect { .. }) => error,
        outcome => return outcome,
    };
    // Some servers end, or answer with no JSON, at a question they do not know.
    begin(client, changed, ClientLifecycleMode::Initialize).await.map_err(|_| first)
}

async fn begin(
    client: &McpClientBuilder,
    changed: &Arc<Notify>,
    mode: ClientLifecycleMode,
) -> Result<(Running, Option<Told>)> {
    let listener = Listener { changed: Arc::clone(changed) };
    let most = client.max_message_bytes();
    let (outcome, said, told) = match &client.home {
        Home::Child(command) => {
            let (child, told) = command.start(most).map_err(|source| {
                let command = client.shown();
                McpError::Start { command, source }
            })?;
            let outcome = listener.serve_with_lifecycle(child, mode).await;
            if outcome.is_err() {
                // What it died of comes a moment after its end.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            (outcome, told.text(), Some(told))
        }
        Home::Web(address) => {
            let transport = address.transport(most)?;
            (listener.serve_with_lifecycle(transport, mode).await, String::new(), None)
        }
    };
    outcome.map(|running| (running, told)).map_err(|error| {
        let server = client.shown();
        if error.is_authorization_required() {
            McpError::Unauthorized { server }
        } else {
            McpError::connect(&server, &said, without_secrets(cause(error), &client.redactor()))
        }
    })
}

/// What there is to know, without what rmcp calls its parts.
fn cause(error: ClientInitializeError) -> Source {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => cause(*fallback),
        ClientInitializeError::TransportError { error, .. } => sending(error.error),
        error => Box::new(error),
    }
}

/// The error of an HTTP client, whose causes rmcp's own do not tell.
fn sending(error: Source) -> Source {
    match error.downcast::<StreamableHttpError<reqwest::Error>>() {
        Ok(error) => match *error {
            StreamableHttpError::Client(error) => Box::new(error),
            error => Box::new(error),
        },
        Err(error) => error,
    }
}

/// The error without what proves to the server that we may ask, should it have repeated it.
fn without_secrets(error: Source, redactor: &Redactor) -> Source {
    let text = with_causes(&*error);
    let shows = redactor.finds_secret(&text) || redactor.finds_secret(&format!("{error:?}"));
    if shows { redactor.redact(&text).into() } else { error }
}

/// Tells those who look at the list, if it is another.
fn publish(listing: &watch::Sender<Arc<Listing>>, listed: Listing) {
    listing.send_if_modified(|now| {
        let another = !now.same(&listed);
        *now = Arc::new(listed);
        another
    });
}

/// Asks for the tools again whenever the server says that they changed.
async fn watch(
    peer: Peer<RoleClient>,
    client: McpClientBuilder,
    changed: Arc<Notify>,
    listing: Arc<watch::Sender<Arc<Listing>>>,
    lost: Arc<AtomicBool>,
) {
    let told = peer.peer_info().is_some_and(|info| {
        let tools = info.capabilities.tools.as_ref();
        let modern = MODERN.contains(&info.protocol_version);
        modern && tools.and_then(|tools| tools.list_changed) == Some(true)
    });
    let news = async {
        if !told {
            return std::future::pending().await;
        }
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let Ok(mut news) = peer.listen(filter).await else {
            return std::future::pending().await;
        };
        while let Ok(Some(_)) = news.next().await {
            changed.notify_one();
        }
    };
    let mut news = std::pin::pin!(news);
    loop {
        tokio::select! {
            () = changed.notified() => match client.list(&peer).await {
                // Another connection may have taken its place.
                Ok(_) if lost.load(Ordering::Relaxed) => return,
                Ok(listed) => {
                    publish(&listing, listed);
                    // What changes meanwhile is seen together.
                    tokio::time::sleep(PAUSE).await;
                }
                // The calls that follow connect anew, and are told why if they cannot.
                Err(_) => return lost.store(true, Ordering::Relaxed),
            },
            // Nobody tells what changes from now on.
            () = &mut news => return lost.store(true, Ordering::Relaxed),
        }
    }
}

/// What this client has for a server: an ear.
pub(crate) struct Listener {
    changed: Arc<Notify>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let name = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), name)
    }

    /// None is declared. Left alone, this would answer with an empty list, which means that
    /// the server may use no folder.
    #[expect(deprecated, reason = "the newest revision has no roots, and older servers ask")]
    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListRootsRequestMethod>())
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}
