//! [`Session`], one connection to a server from its handshake to its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    FormElicitationCapability, Implementation, ListRootsRequestMethod, ProgressNotificationParam,
    ProtocolVersion, SubscriptionFilter,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, ClientServiceExt,
    NotificationContext, RequestContext, RunningService, RunningServiceCancellationToken,
    ServiceError,
};
#[cfg(feature = "login")]
use rmcp::transport::auth::AuthError;
#[cfg(feature = "http-client")]
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::{ErrorData, Peer, RoleClient};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, RwLock, watch};
use tokio_util::task::AbortOnDropHandle;
use toolwright_module::Context;
use toolwright_module::model::BoxFuture;

use crate::error::{McpError, Result, Source};
use crate::mcp_client::McpClientBuilder;
use crate::mcp_client::builder::TransportConfig;
use crate::mcp_client::child_process::Stderr;
use crate::mcp_client::discovery::Discovery;
use crate::mcp_client::listing::Listing;
use crate::mcp_client::questions::{Questions, Rounds};
use crate::mcp_client::secrets::Secrets;

/// The revisions without a handshake, in order of preference. The others are negotiated in it.
const WITHOUT_HANDSHAKE: [ProtocolVersion; 1] = [ProtocolVersion::V_2026_07_28];

/// Time to wait for the response to `server/discover` of a server that may be slow, and may not know
/// the request.
const PATIENT_DISCOVER_TIME: Duration = Duration::from_secs(10);

/// Timeout of closing a session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(6);

/// Time between the cancellation of a call and the end of the session. The cancellation is queued, and
/// a connection that ends drops what is queued.
const CANCEL_TIME: Duration = Duration::from_millis(200);

/// The last lines of a server's standard error may arrive this time after its end.
const LAST_LINES_TIME: Duration = Duration::from_millis(50);

/// Minimum time between two requests of the tool list after change notifications.
const LIST_INTERVAL: Duration = Duration::from_secs(1);

/// A session with a server, which may have been lost.
pub(crate) struct Session {
    peer: Peer<RoleClient>,
    pub(crate) since: Instant,
    /// Calls hold the read lock; closing takes the value.
    running: RwLock<Option<Running>>,
    stop: Mutex<Option<RunningServiceCancellationToken>>,
    lost: Arc<AtomicBool>,
    /// When the last call was dropped before its result.
    dropped: Mutex<Option<Instant>>,
    secrets: Secrets,
    /// The standard error of a child process.
    stderr: Stderr,
    /// Notified at each progress notification of the server.
    progress: Arc<Notify>,
    questions: Arc<Questions>,
    _watching: AbortOnDropHandle<()>,
}

pub(crate) type Running = RunningService<RoleClient, ServerMessages>;

/// The reason why a call has no result.
pub(crate) enum CallFailure {
    /// The server did not get the call.
    NotRun(Source),
    /// The connection was lost, and the call may have run.
    Lost(Source),
    /// The server responded with an error, or refused the request.
    ServerError(String),
    /// The server requires a token.
    Unauthorized,
    /// The login could not be renewed, so the call was not sent. The session goes on.
    #[cfg(feature = "login")]
    NoToken(Source),
    /// The server responded over HTTP without a result, and the call may have run.
    NoResult(String),
    /// The response is too large, cannot be read, or is not the result of a call. The fault, if it is
    /// known.
    Unreadable(Option<String>),
}

/// A call. If it is dropped before its end, it notes the time.
struct UnderWay<'a>(Option<&'a Mutex<Option<Instant>>>);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(dropped) = self.0 {
            *dropped.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
    }
}

impl Session {
    /// Connects, lists the tools and compares them with the lock file, within the start timeout.
    pub(crate) async fn open(
        client: &McpClientBuilder,
        listing: &Arc<watch::Sender<Arc<Listing>>>,
    ) -> Result<Self> {
        let stderr = Stderr::default();
        let opening = Box::pin(Self::open_without_timeout(client, listing, &stderr));
        let opened = tokio::time::timeout(client.start_time, opening).await;
        opened.unwrap_or_else(|_| {
            Err(McpError::late(&client.shown(), client.start_time, &stderr.text()))
        })
    }

    async fn open_without_timeout(
        client: &McpClientBuilder,
        listing: &Arc<watch::Sender<Arc<Listing>>>,
        stderr: &Stderr,
    ) -> Result<Self> {
        let changed = Arc::new(Notify::new());
        let progress = Arc::new(Notify::new());
        let questions = Questions::new(client.shown(), client.has_questions, Arc::clone(&progress));
        let questions = Arc::new(questions);
        let handler = || ServerMessages {
            changed: Arc::clone(&changed),
            progress: Arc::clone(&progress),
            questions: Arc::clone(&questions),
        };
        let running = connect(client, handler, stderr).await?;
        let peer = running.peer().clone();
        // It keeps any number of bytes, and responses whose time is over.
        peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
        let listed = list(client, &peer, stderr).await?;
        publish(listing, listed);
        let lost = Arc::new(AtomicBool::new(false));
        let watching = watch_tools(
            peer.clone(),
            client.clone(),
            changed,
            Arc::clone(listing),
            Arc::clone(&lost),
        );
        Ok(Self {
            peer,
            since: Instant::now(),
            stop: Mutex::new(Some(running.cancellation_token())),
            running: RwLock::new(Some(running)),
            lost,
            dropped: Mutex::default(),
            secrets: client.secrets(),
            stderr: stderr.clone(),
            progress,
            questions,
            _watching: AbortOnDropHandle::new(tokio::spawn(watching)),
        })
    }

    pub(crate) fn is_up(&self) -> bool {
        !self.lost.load(Ordering::Relaxed) && !self.peer.is_transport_closed()
    }

    /// Marks the session as lost, so that the next call connects again.
    pub(crate) fn set_lost(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Sends a call. If the future is dropped, the call is cancelled at the server. Questions of the
    /// server are for the person of the context.
    pub(crate) async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        cx: &Context,
    ) -> Result<CallToolResult, CallFailure> {
        let mut call = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let _running = self.questions.begin(cx);
        let (questions, cx) = (Arc::clone(&self.questions), cx.clone());
        self.send(|running| {
            Box::pin(async move {
                let mut rounds = Rounds::default();
                loop {
                    match running.call_tool_once(call.clone()).await? {
                        CallToolResponse::Complete(result) => return Ok(result),
                        CallToolResponse::InputRequired(response) => {
                            (call.input_responses, call.request_state) =
                                rounds.answer(&questions, Some(&cx), response).await?;
                        }
                        _ => return Err(ServiceError::UnexpectedResponse),
                    }
                }
            })
        })
        .await
    }

    /// Sends a request. If the future is dropped, the request is cancelled at the server.
    pub(crate) async fn send<T>(
        &self,
        request: impl for<'a> FnOnce(&'a Running) -> BoxFuture<'a, Result<T, ServiceError>>,
    ) -> Result<T, CallFailure> {
        let running = self.running.read().await;
        let Some(running) = running.as_ref() else {
            return Err(CallFailure::NotRun(Box::new(ServiceError::TransportClosed)));
        };
        let mut under_way = UnderWay(Some(&self.dropped));
        let responded = request(running).await;
        under_way.0 = None;
        responded.map_err(|error| match call_failure(error).without_secrets(&self.secrets) {
            CallFailure::Lost(source) => CallFailure::Lost(self.stderr.added_to(source)),
            failure => failure,
        })
    }

    /// Waits for the next progress notification.
    pub(crate) async fn progress(&self) {
        self.progress.notified().await;
    }

    /// Returns the end of the standard error of a child process.
    pub(crate) fn stderr(&self) -> &Stderr {
        &self.stderr
    }

    /// Requests the tool list again. After an error the session counts as lost, so that no call is
    /// sent to a server whose tools are not those of the lock file.
    pub(crate) async fn refresh(
        &self,
        client: &McpClientBuilder,
        listing: &watch::Sender<Arc<Listing>>,
    ) -> Result<()> {
        let listed = list(client, &self.peer, &self.stderr).await;
        let listed = listed.inspect_err(|_| self.set_lost())?;
        if self.is_up() {
            publish(listing, listed);
        }
        Ok(())
    }

    /// Closes the session as the specification says.
    pub(crate) async fn close(&self) {
        let dropped = *self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = dropped.and_then(|at| CANCEL_TIME.checked_sub(at.elapsed())) {
            tokio::time::sleep(left).await;
        }
        // Cancelling makes running calls fail, which releases their read locks.
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(stop) = stop {
            stop.cancel();
        }
        let running = self.running.write().await.take();
        if let Some(mut running) = running {
            let _ = running.close_with_timeout(CLOSE_TIMEOUT).await;
        }
    }
}

/// The mark of [`malformed_response`] in the data of the error, which passes through rmcp.
const MALFORMED: &str = "toolwright/malformed";

/// The error that replaces a malformed response, so that its request ends.
pub(crate) fn malformed_response(fault: Option<&str>) -> ErrorData {
    ErrorData::internal_error("the response is malformed", Some(json!({ MALFORMED: fault })))
}

impl CallFailure {
    fn without_secrets(self, secrets: &Secrets) -> Self {
        match self {
            Self::NotRun(source) => Self::NotRun(secrets.redact_error(source)),
            Self::Lost(source) => Self::Lost(secrets.redact_error(source)),
            Self::ServerError(text) => Self::ServerError(secrets.redact(text)),
            Self::NoResult(text) => Self::NoResult(secrets.redact(text)),
            Self::Unreadable(fault) => Self::Unreadable(fault.map(|fault| secrets.redact(fault))),
            Self::Unauthorized => Self::Unauthorized,
            #[cfg(feature = "login")]
            Self::NoToken(source) => Self::NoToken(secrets.redact_error(source)),
        }
    }
}

fn call_failure(error: ServiceError) -> CallFailure {
    let closed = || CallFailure::Lost("the connection ended before the result".into());
    match error {
        ServiceError::McpError(data) if has_mark(&data, MALFORMED) => {
            let fault = data.data.as_ref().and_then(|data| data.get(MALFORMED)?.as_str());
            CallFailure::Unreadable(fault.map(str::to_owned))
        }
        // rmcp's mark of a stream that ended before the response.
        ServiceError::McpError(data)
            if has_mark(&data, "io.modelcontextprotocol/transportClosed") =>
        {
            closed()
        }
        ServiceError::TransportClosed => closed(),
        ServiceError::McpError(data) => CallFailure::ServerError(text_of(data)),
        ServiceError::Cancelled { .. } => {
            CallFailure::ServerError("The server cancelled the call.".to_owned())
        }
        ServiceError::TransportSend(failed) => send_failure(failed.error),
        ServiceError::UnexpectedResponse => CallFailure::Unreadable(None),
        ServiceError::InputRequiredRoundsExceeded { .. } => CallFailure::ServerError(
            "The tool kept asking the user, and accepted no answer.".to_owned(),
        ),
        error => CallFailure::Lost(Box::new(error)),
    }
}

/// Maximum number of characters of an error's data that the model gets.
const MAX_DATA_CHARS: usize = 2000;

/// Returns the message of an error with its data, which may say what the message does not.
fn text_of(error: ErrorData) -> String {
    let message = error.message.into_owned();
    let data = match error.data {
        None | Some(Value::Null) => return message,
        Some(Value::String(text)) => text,
        Some(data) => data.to_string(),
    };
    // Some servers repeat the message in the data.
    if data.trim().is_empty() || message.contains(&data) {
        return message;
    }
    let mut chars = data.chars();
    let start: String = chars.by_ref().take(MAX_DATA_CHARS).collect();
    let more = if chars.next().is_some() { "…" } else { "" };
    format!("{message}: {start}{more}")
}

/// The failure of a request that could not be sent.
fn send_failure(error: Source) -> CallFailure {
    #[cfg(feature = "http-client")]
    if let Some(http) = error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        let not_run = match http {
            StreamableHttpError::Client(error) => error.is_connect(),
            StreamableHttpError::HttpStatus(status) => matches!(status.status, 425 | 429),
            StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) => {
                return CallFailure::Unauthorized;
            }
            #[cfg(feature = "login")]
            StreamableHttpError::Auth(_) => return CallFailure::NoToken(without_wrapper(error)),
            StreamableHttpError::UnexpectedServerResponse(text) => {
                return CallFailure::NoResult(text.clone().into_owned());
            }
            error => matches!(error, StreamableHttpError::SessionExpired),
        };
        let source = without_wrapper(error);
        return if not_run { CallFailure::NotRun(source) } else { CallFailure::Lost(source) };
    }
    // A child process that did not read the whole line did not run the call.
    match error.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
        Some(std::io::ErrorKind::BrokenPipe) => CallFailure::NotRun(error),
        _ => CallFailure::Lost(error),
    }
}

fn has_mark(data: &ErrorData, mark: &str) -> bool {
    data.data.as_ref().is_some_and(|data| data.get(mark).is_some())
}

/// Connects with a revision without a handshake, or with a handshake if the server requires one.
async fn connect(
    client: &McpClientBuilder,
    handler: impl Fn() -> ServerMessages,
    stderr: &Stderr,
) -> Result<Running> {
    let auto = || ClientLifecycleMode::Auto {
        preferred_versions: WITHOUT_HANDSHAKE.to_vec(),
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    };
    let discovery = Discovery::new(client.discover_time);
    // A server that required a handshake gets it first when the connection is made again.
    let (first, second) = match client.is_legacy.load(Ordering::Relaxed) {
        true => (ClientLifecycleMode::Initialize, auto()),
        false => (auto(), ClientLifecycleMode::Initialize),
    };
    let mut outcome = connect_with(client, handler(), stderr, first, &discovery).await;
    // Some servers end, or respond with invalid JSON, if they do not know the first request.
    outcome = match outcome {
        Err(error @ McpError::Connect { .. }) if !discovery.is_late() => {
            let again = connect_with(client, handler(), stderr, second, &discovery).await;
            again.map_err(|_| error)
        }
        outcome => outcome,
    };
    outcome = match outcome {
        // It knows the request and may know no handshake, so nothing else is to be tried.
        Err(McpError::Connect { .. }) if discovery.is_late() => {
            let mode =
                ClientLifecycleMode::Discover { preferred_versions: WITHOUT_HANDSHAKE.to_vec() };
            let patient = Discovery::new(client.start_time);
            connect_with(client, handler(), stderr, mode, &patient).await
        }
        // Or it is slow, and knows no handshake.
        Err(error @ McpError::Connect { .. }) if discovery.is_unanswered() => {
            let patient = Discovery::new(PATIENT_DISCOVER_TIME);
            let again = connect_with(client, handler(), stderr, auto(), &patient).await;
            again.map_err(|_| error)
        }
        outcome => outcome,
    };
    if let Ok(running) = &outcome {
        let version = running.peer().peer_info().map(|info| info.protocol_version.clone());
        let is_legacy = version.is_some_and(|version| !WITHOUT_HANDSHAKE.contains(&version));
        client.is_legacy.store(is_legacy, Ordering::Relaxed);
    }
    outcome
}

async fn connect_with(
    client: &McpClientBuilder,
    handler: ServerMessages,
    stderr: &Stderr,
    mode: ClientLifecycleMode,
    discovery: &Discovery,
) -> Result<Running> {
    let max_bytes = client.max_message_bytes();
    let (outcome, hint) = match &client.transport {
        TransportConfig::ChildProcess(command) => {
            let child = command.start(max_bytes, discovery.clone(), stderr).map_err(|source| {
                let command = client.shown();
                McpError::Start { command, source }
            })?;
            let outcome = handler.serve_with_lifecycle(child, mode).await;
            if outcome.is_err() {
                tokio::time::sleep(LAST_LINES_TIME).await;
            }
            (outcome, "")
        }
        #[cfg(feature = "http-client")]
        TransportConfig::Http(address) => {
            let transport = address.transport(max_bytes, discovery.clone())?;
            let outcome = handler.serve_with_lifecycle(transport, mode).await;
            let hint = match &outcome {
                Err(_) => address.hint().await,
                Ok(_) => "",
            };
            (outcome, hint)
        }
    };
    outcome.map_err(|error| {
        if error.is_authorization_required() {
            client.unauthorized()
        } else {
            let server = client.shown();
            let source = client.secrets().redact_error(cause(error));
            McpError::connect(&server, &stderr.text(), hint, source)
        }
    })
}

/// Returns the cause of rmcp's error, without its wrappers.
fn cause(error: ClientInitializeError) -> Source {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => cause(*fallback),
        ClientInitializeError::TransportError { error, .. } => without_wrapper(error.error),
        // rmcp shows the whole response in its form for debugging.
        ClientInitializeError::ExpectedInitResponse(_)
        | ClientInitializeError::ExpectedInitResult(_) => {
            "the response to `initialize` has no valid protocol version, or lacks a field".into()
        }
        error => Box::new(error),
    }
}

/// Removes the wrapper of rmcp's HTTP errors, which does not return the source of the error.
#[cfg(feature = "http-client")]
fn without_wrapper(error: Source) -> Source {
    match error.downcast::<StreamableHttpError<reqwest::Error>>() {
        Ok(error) => match *error {
            StreamableHttpError::Client(error) => Box::new(error),
            // The text of a failed renewal.
            #[cfg(feature = "login")]
            StreamableHttpError::Auth(AuthError::TokenRefreshFailed(text)) => text.into(),
            error => Box::new(error),
        },
        Err(error) => error,
    }
}

#[cfg(not(feature = "http-client"))]
fn without_wrapper(error: Source) -> Source {
    error
}

/// Lists the tools. The error has the standard error of a child process.
async fn list(
    client: &McpClientBuilder,
    peer: &Peer<RoleClient>,
    stderr: &Stderr,
) -> Result<Listing> {
    match client.list(peer).await {
        Err(McpError::Listing { server, source }) => {
            tokio::time::sleep(LAST_LINES_TIME).await;
            Err(McpError::Listing { server, source: stderr.added_to(source) })
        }
        listed => listed,
    }
}

/// Stores the listing, and notifies its receivers if it differs from the previous one.
fn publish(listing: &watch::Sender<Arc<Listing>>, listed: Listing) {
    listing.send_if_modified(|now| {
        let differs = !now.same(&listed);
        *now = Arc::new(listed);
        differs
    });
}

/// Requests the tool list again after each change notification of the server.
async fn watch_tools(
    peer: Peer<RoleClient>,
    client: McpClientBuilder,
    changed: Arc<Notify>,
    listing: Arc<watch::Sender<Arc<Listing>>>,
    lost: Arc<AtomicBool>,
) {
    let can_subscribe = peer.peer_info().is_some_and(|info| {
        let tools = info.capabilities.tools.as_ref();
        let has_subscriptions = WITHOUT_HANDSHAKE.contains(&info.protocol_version);
        has_subscriptions && tools.and_then(|tools| tools.list_changed) == Some(true)
    });
    let subscription = async {
        if !can_subscribe {
            return std::future::pending().await;
        }
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        // A change before the subscription may come in place of its acknowledgement, or not at all.
        let mut events = match peer.listen(filter.clone()).await {
            Err(ServiceError::UnexpectedResponse) => peer.listen(filter).await,
            listening => listening,
        };
        let Ok(events) = &mut events else {
            return std::future::pending().await;
        };
        changed.notify_one();
        while let Ok(Some(_)) = events.next().await {
            changed.notify_one();
        }
    };
    let mut subscription = std::pin::pin!(subscription);
    loop {
        tokio::select! {
            () = changed.notified() => match client.list(&peer).await {
                // A newer session may already have replaced this one.
                Ok(_) if lost.load(Ordering::Relaxed) => return,
                Ok(listed) => {
                    publish(&listing, listed);
                    // Changes during this interval cause only one further request.
                    tokio::time::sleep(LIST_INTERVAL).await;
                }
                // The next call connects again, and gets the error if that fails.
                Err(_) => return lost.store(true, Ordering::Relaxed),
            },
            // The subscription ended, so later changes would not be noticed.
            () = &mut subscription => return lost.store(true, Ordering::Relaxed),
        }
    }
}

/// The handler of the server's notifications and questions.
pub(crate) struct ServerMessages {
    changed: Arc<Notify>,
    progress: Arc<Notify>,
    questions: Arc<Questions>,
}

impl ClientHandler for ServerMessages {
    fn get_info(&self) -> ClientConfig {
        let name = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = self
            .questions
            .are_declared
            .then(|| ElicitationCapability::new().with_form(FormElicitationCapability::default()));
        ClientConfig::new(capabilities, name)
    }

    async fn create_elicitation(
        &self,
        question: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let info = context.peer.peer_info();
        let is_legacy =
            info.is_some_and(|info| !WITHOUT_HANDSHAKE.contains(&info.protocol_version));
        if is_legacy {
            return Ok(self.questions.ask_person_of_only_call(question).await);
        }
        // Newer servers ask in the response to a request. rmcp passes on those of prompts and
        // resources, which no person waits for.
        Ok(ElicitResult::new(ElicitationAction::Decline))
    }

    /// Responds with an error, because this client has no roots. rmcp's default responds with an
    /// empty list, which means that the server may not use any folder.
    #[expect(deprecated, reason = "the newest revision has no roots, and older servers ask")]
    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListRootsRequestMethod>())
    }

    async fn on_progress(
        &self,
        _params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        // rmcp chooses the token of a request, so it is not known which call makes progress.
        self.progress.notify_waiters();
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::McpClient;

    /// A server that starts slowly and refuses the handshake.
    const SLOW: &str = r#"
        sleep 0.6
        while read -r line; do
            id=${line#*\"id\":}
            id=${id%%[,\}]*}
            case $line in
            *server/discover*)
                body='"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}' ;;
            *'"initialize"'*)
                body='"error":{"code":-32022,"message":"the initialize handshake is not accepted"}' ;;
            *tools/list*)
                body='"result":{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}' ;;
            *) continue ;;
            esac
            printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$body"
        done
    "#;

    #[tokio::test]
    async fn a_server_that_starts_slowly_has_the_start_time() {
        let client = |start| {
            let mut client = McpClient::stdio("sh", ["-c", SLOW]);
            client.discover_time = Duration::from_millis(100);
            client.with_start_time(start)
        };
        client(Duration::from_secs(20)).connect().await.unwrap();
        let error = client(Duration::from_secs(1)).connect().await.unwrap_err();
        assert!(matches!(error, McpError::Late { .. }), "{error}");
    }
}
