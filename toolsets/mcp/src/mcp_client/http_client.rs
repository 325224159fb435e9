//! [`HttpClient`], the HTTP client that rmcp uses.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::stream::{self, BoxStream, StreamExt};
use http::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::{RequestBuilder, Response};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
#[cfg(feature = "login")]
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse,
};
use serde::de::IgnoredAny;
use sse_stream::{Error as SseError, Sse, SseStream};
use tokio::sync::Semaphore;

use crate::lines::trimmed;
use crate::mcp_client::MAX_PENDING_RESPONSES;
use crate::mcp_client::discovery::{Discovery, is_discovery, same_id};
use crate::mcp_client::incoming::{Incoming, malformed, responds_to};
#[cfg(feature = "login")]
use crate::mcp_client::logins::{Logins, Missing, NoToken};

pub(crate) const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";

/// The header with the id of a session, and the one with the last event of a stream.
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The error codes of servers that do not respond with 404 when a session has expired. Any other
/// code is an error of the call, which may have run.
const SESSION_EXPIRED: [i32; 2] = [-32000, -32001];

/// The error codes that say that the request was refused, so that a call did not run.
const REFUSED: [ErrorCode; 4] = [
    ErrorCode::PARSE_ERROR,
    ErrorCode::INVALID_REQUEST,
    ErrorCode::METHOD_NOT_FOUND,
    ErrorCode::INVALID_PARAMS,
];

/// Maximum size of the body of an error response, and of the part that an error shows.
const MAX_ERROR_BYTES: usize = 64 * 1024;
const SHOWN_CHARS: usize = 200;

/// Maximum number of streams in a row that end at once and without a message.
const MAX_EMPTY_STREAMS: u32 = 5;

/// A stream that lived for this time did not end at once.
const LONG_STREAM: Duration = Duration::from_secs(10);

/// Delay before a stream is opened again after an empty one. It doubles with each further one.
const EMPTY_STREAM_DELAY: Duration = Duration::from_secs(1);

/// Bounds of the delay that a server may ask for before its stream is opened again, in ms.
const RETRY_DELAYS: (u64, u64) = (500, 60_000);

/// An HTTP client that accepts more than rmcp's own:
///
/// - A message that cannot be read, or that is too large, fails its request only. See
///   [`Incoming`].
/// - A response that says that the request was refused is an error of the call, which did not run.
/// - An error response without a request id fails the request. rmcp ignores such a response, and
///   the caller would wait until its timeout.
/// - A stream that a server ends again and again is opened with growing delays, and then no more.
/// - Errors do not show the URL, because its query may contain a secret.
/// - The number of responses that are being sent is limited.
#[derive(Clone)]
pub(crate) struct HttpClient {
    client: reqwest::Client,
    responses: Arc<Semaphore>,
    discovery: Discovery,
    max_bytes: usize,
    empty_streams: Arc<Mutex<u32>>,
    #[cfg(feature = "login")]
    logins: Option<Arc<Logins>>,
}

type Error = StreamableHttpError<reqwest::Error>;
type Posted = Result<StreamableHttpPostResponse, Error>;
type Events = BoxStream<'static, Result<Sse, SseError>>;
type Headers = HashMap<HeaderName, HeaderValue>;

impl HttpClient {
    pub(crate) fn new(client: reqwest::Client, discovery: Discovery, max_bytes: usize) -> Self {
        let responses = Arc::new(Semaphore::new(MAX_PENDING_RESPONSES));
        Self {
            client,
            responses,
            discovery,
            max_bytes,
            empty_streams: Arc::default(),
            #[cfg(feature = "login")]
            logins: None,
        }
    }

    async fn post(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        token: Option<String>,
        headers: Headers,
    ) -> Posted {
        let request = self.client.post(uri).header(ACCEPT, format!("{EVENT_STREAM}, {JSON}"));
        let request = with_headers(request, session, token, headers).json(message);
        let response = request.send().await.map_err(client_error)?;
        let response = authorized(response)?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            let JsonRpcMessage::Request(request) = message else {
                return Ok(StreamableHttpPostResponse::Accepted);
            };
            // There is nothing to wait for: the result belongs into this response.
            let text = format!("HTTP {status}, without a result");
            if is_discovery(&request.request) {
                let error = ErrorData::invalid_request(text, None);
                let error = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
                return Ok(StreamableHttpPostResponse::Json(error, None));
            }
            return Err(no_result(text));
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let kind = kind_of(response.headers());
        if !status.is_success() {
            return self.refused(response, message, session.is_some()).await;
        }
        let id = response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok());
        let id = id.map(str::to_owned);
        let request = match message {
            JsonRpcMessage::Request(request) => Some(&request.id),
            _ => None,
        };
        if kind.starts_with(EVENT_STREAM) {
            let events = events(response, self.max_bytes);
            return Ok(StreamableHttpPostResponse::Sse(events, id));
        }
        let Some(request) = request else {
            // Only requests have a response. Some servers send something all the same.
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        // Some servers send JSON with another type. An endless stream is not waited for.
        let is_json = kind.starts_with(JSON);
        let body = match is_json {
            true => body_of(response, self.max_bytes).await,
            false => json_of(response, self.max_bytes).await,
        };
        let message = match body {
            Ok(body) => match response_of(&body, request) {
                Some(message) => message,
                None if memchr::memmem::find(&body, b"\"jsonrpc\"").is_some() => {
                    malformed(request.clone(), None)
                }
                None if is_json => {
                    return Err(no_result(format!(
                        "the response is not JSON-RPC: {}",
                        shown(&body)
                    )));
                }
                None => {
                    let kind = if kind.is_empty() { "none" } else { &*kind };
                    let text = format!(
                        "the response has the type {kind}, and not {JSON} or {EVENT_STREAM}{}",
                        said(&body)
                    );
                    return Err(no_result(text));
                }
            },
            Err(StreamableHttpError::ResponseBodyTooLarge { .. }) => {
                malformed(request.clone(), None)
            }
            Err(error) => return Err(error),
        };
        Ok(StreamableHttpPostResponse::Json(message, id))
    }

    /// Returns the outcome of a response whose status is not a success.
    async fn refused(
        &self,
        response: Response,
        message: &ClientJsonRpcMessage,
        in_session: bool,
    ) -> Posted {
        let status = response.status();
        let retry_after = response.headers().get(http::header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let by_status = || HttpStatusError::new(status.as_u16(), retry_after);
        if matches!(status, StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS) {
            return Err(by_status().into());
        }
        if status == StatusCode::UNAUTHORIZED {
            return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(String::new())));
        }
        let body = body_of(response, MAX_ERROR_BYTES).await.unwrap_or_default();
        let error = match Incoming::read(&body) {
            Incoming::Message(message) => match *message {
                JsonRpcMessage::Error(error) => Some(error),
                _ => None,
            },
            _ => None,
        };
        let is_refusal = status.is_client_error()
            && !matches!(
                status,
                StatusCode::NOT_FOUND | StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT
            );
        let mut is_call = false;
        if let JsonRpcMessage::Request(request) = message {
            let error_of = |error: ErrorData| {
                let error = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
                Ok(StreamableHttpPostResponse::Json(error, None))
            };
            let refusal = || format!("the server refused the request with {status}{}", said(&body));
            // A server that does not know the request may respond with any of these.
            let is_unknown = status.is_client_error() && status != StatusCode::FORBIDDEN;
            if is_discovery(&request.request) && !in_session && is_unknown {
                let error = error.map(|error| error.error);
                return error_of(
                    error.unwrap_or_else(|| ErrorData::invalid_request(refusal(), None)),
                );
            }
            is_call = matches!(request.request, ClientRequest::CallToolRequest(_));
            let is_forbidden = status == StatusCode::FORBIDDEN;
            if is_call && is_refusal && (error.is_none() || is_forbidden) {
                return error_of(ErrorData::invalid_request(refusal(), None));
            }
        }
        if let Some(error) = error.filter(|_| status != StatusCode::FORBIDDEN) {
            return Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), None));
        }
        if status.is_server_error() && !is_call {
            return Err(by_status().into());
        }
        let redirected = match status.is_redirection() {
            true => ", a redirect to an address that is not followed",
            false => "",
        };
        Err(no_result(format!("HTTP {status}{redirected}{}", said(&body))))
    }

    /// Waits before a stream is opened after empty ones.
    ///
    /// # Errors
    ///
    /// An error after which rmcp does not open it again, if there were too many.
    async fn pause(&self) -> Result<(), Error> {
        let empty = *self.empty_streams.lock().unwrap_or_else(PoisonError::into_inner);
        if empty >= MAX_EMPTY_STREAMS {
            tracing::debug!("an MCP server ends its event stream each time; it stays closed");
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if let Some(doublings) = empty.checked_sub(1) {
            tokio::time::sleep(EMPTY_STREAM_DELAY.saturating_mul(1 << doublings)).await;
        }
        Ok(())
    }

    /// Counts a stream that ends at once and without a message.
    fn counted(&self, events: Events) -> Events {
        let counter = Arc::clone(&self.empty_streams);
        let state = (events, counter, Instant::now(), false);
        stream::unfold(state, |(mut events, counter, since, mut has_message)| async move {
            let event = events.next().await;
            has_message |= matches!(&event, Some(Ok(event)) if event.data.is_some());
            if has_message || event.is_none() {
                let mut empty = counter.lock().unwrap_or_else(PoisonError::into_inner);
                let is_empty = !has_message && since.elapsed() < LONG_STREAM;
                *empty = if is_empty { *empty + 1 } else { 0 };
            }
            event.map(|event| (event, (events, counter, since, has_message)))
        })
        .boxed()
    }
}

/// One attempt of each kind of request.
impl HttpClient {
    async fn post_once(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        token: Option<String>,
        headers: Headers,
    ) -> Posted {
        let is_response = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let permit = is_response.then(|| self.responses.try_acquire());
        if let Some(Err(_)) = permit {
            return Err(StreamableHttpError::ControlRequestTimeout);
        }
        let posting = self.post(uri, message, session, token, headers);
        let posted = match discovery_id(message) {
            None => posting.await?,
            Some(id) => match tokio::time::timeout(self.discovery.time(), posting).await {
                Ok(posted) => posted?,
                Err(_) => StreamableHttpPostResponse::Json(self.discovery.error(id), None),
            },
        };
        match posted {
            StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), _)
                if error.id.is_none()
                    && session.is_some()
                    && SESSION_EXPIRED.contains(&error.error.code.0) =>
            {
                tracing::debug!(error = %error.error.message, "the session has expired");
                Err(StreamableHttpError::SessionExpired)
            }
            StreamableHttpPostResponse::Json(JsonRpcMessage::Error(mut error), session)
                if error.id.is_none() =>
            {
                match message {
                    JsonRpcMessage::Request(request) if REFUSED.contains(&error.error.code) => {
                        error.id = Some(request.id.clone());
                        Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), session))
                    }
                    _ => Err(no_result(error.error.message)),
                }
            }
            posted => Ok(posted),
        }
    }

    async fn delete_once(
        &self,
        uri: &str,
        session: &str,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), Error> {
        let request = self.client.delete(uri);
        let request = with_headers(request, Some(session), token, headers);
        let response = request.send().await.map_err(client_error)?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Ok(()),
            _ => response.error_for_status().map(drop).map_err(client_error),
        }
    }

    async fn get_once(
        &self,
        uri: &str,
        session: Option<&str>,
        last_event_id: Option<&str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<Events, Error> {
        self.pause().await?;
        let request = self.client.get(uri).header(ACCEPT, EVENT_STREAM);
        let request = match last_event_id {
            Some(id) => request.header(LAST_EVENT_ID, id),
            None => request,
        };
        let request = with_headers(request, session, token, headers);
        let response = authorized(request.send().await.map_err(client_error)?)?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => {
                return Err(StreamableHttpError::ServerDoesNotSupportSse);
            }
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                return Err(HttpStatusError::new(status.as_u16(), None).into());
            }
            _ => {}
        }
        let response = response.error_for_status().map_err(client_error)?;
        let kind = kind_of(response.headers());
        if !kind.starts_with(EVENT_STREAM) {
            return Err(StreamableHttpError::UnexpectedContentType(Some(kind)));
        }
        Ok(self.counted(events(response, self.max_bytes)))
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Posted {
        let session = session.as_deref();
        let token = self.token(token).await?;
        let posted = self.post_once(&uri, &message, session, token.clone(), headers.clone()).await;
        match self.next_token(token, posted.as_ref().err()).await? {
            None => posted,
            token => self.noted(self.post_once(&uri, &message, session, token, headers).await),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), Error> {
        let token = self.token(token).await?;
        self.delete_once(&uri, &session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event_id: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<Events, Error> {
        let (session, last) = (session.as_deref(), last_event_id.as_deref());
        let token = self.token(token).await?;
        let got = self.get_once(&uri, session, last, token.clone(), headers.clone()).await;
        match self.next_token(token, got.as_ref().err()).await? {
            None => got,
            token => self.noted(self.get_once(&uri, session, last, token, headers).await),
        }
    }
}

/// The token of a login.
#[cfg(feature = "login")]
impl HttpClient {
    pub(crate) fn with_logins(self, logins: Option<Arc<Logins>>) -> Self {
        Self { logins, ..self }
    }

    /// Returns the token for a request: that of the login, or the one that was set.
    async fn token(&self, token: Option<String>) -> Result<Option<String>, Error> {
        match &self.logins {
            Some(logins) => logins.token().await.map_err(no_token),
            None => Ok(token),
        }
    }

    /// Returns the token for a second attempt, if the first one was rejected and can be renewed.
    async fn next_token(
        &self,
        sent: Option<String>,
        error: Option<&Error>,
    ) -> Result<Option<String>, Error> {
        let Some(logins) = &self.logins else { return Ok(None) };
        match (error, sent) {
            (Some(StreamableHttpError::AuthRequired(_)), Some(sent)) => {
                logins.renewed(&sent).await.map(Some).map_err(no_token)
            }
            (Some(StreamableHttpError::InsufficientScope(error)), Some(_)) => {
                logins.set_missing_scopes(&error.www_authenticate_header);
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Notes why the second attempt failed.
    fn noted<T>(&self, outcome: Result<T, Error>) -> Result<T, Error> {
        match (&outcome, &self.logins) {
            (Err(StreamableHttpError::AuthRequired(_)), Some(logins)) => {
                logins.set_missing(Missing::Rejected);
            }
            (Err(StreamableHttpError::InsufficientScope(error)), Some(logins)) => {
                logins.set_missing_scopes(&error.www_authenticate_header);
            }
            _ => {}
        }
        outcome
    }
}

/// Without the feature, the token is the one that was set.
#[cfg(not(feature = "login"))]
impl HttpClient {
    async fn token(&self, token: Option<String>) -> Result<Option<String>, Error> {
        Ok(token)
    }

    async fn next_token(
        &self,
        _sent: Option<String>,
        _error: Option<&Error>,
    ) -> Result<Option<String>, Error> {
        Ok(None)
    }

    fn noted<T>(&self, outcome: Result<T, Error>) -> Result<T, Error> {
        outcome
    }
}

#[cfg(feature = "login")]
fn no_token(error: NoToken) -> Error {
    match error {
        NoToken::Missing(_) => {
            StreamableHttpError::AuthRequired(AuthRequiredError::new(String::new()))
        }
        NoToken::Failed(error) => {
            StreamableHttpError::Auth(AuthError::TokenRefreshFailed(error.to_string()))
        }
    }
}

fn discovery_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) if is_discovery(&request.request) => {
            Some(request.id.clone())
        }
        _ => None,
    }
}

fn with_headers(
    request: RequestBuilder,
    session: Option<&str>,
    token: Option<String>,
    headers: Headers,
) -> RequestBuilder {
    let request =
        headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
    let request = match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    };
    match session {
        Some(session) => request.header(SESSION_ID, session),
        None => request,
    }
}

/// Fails if the server requires a token or other rights.
fn authorized(response: Response) -> Result<Response, Error> {
    let challenge = response.headers().get(WWW_AUTHENTICATE);
    let Some(challenge) = challenge.and_then(|value| value.to_str().ok()).map(str::to_owned) else {
        return Ok(response);
    };
    match response.status() {
        StatusCode::UNAUTHORIZED => {
            Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)))
        }
        StatusCode::FORBIDDEN => Err(StreamableHttpError::InsufficientScope(
            InsufficientScopeError::new(challenge, None),
        )),
        _ => Ok(response),
    }
}

/// Returns the error of a response without a result.
fn no_result(text: impl Into<Cow<'static, str>>) -> Error {
    StreamableHttpError::UnexpectedServerResponse(text.into())
}

fn client_error(error: reqwest::Error) -> Error {
    StreamableHttpError::Client(error.without_url())
}

/// Returns the media type of a response in lower case, or an empty text.
pub(crate) fn kind_of(headers: &HeaderMap) -> String {
    let kind = headers.get(CONTENT_TYPE).map(|kind| String::from_utf8_lossy(kind.as_bytes()));
    kind.unwrap_or_default().trim().to_ascii_lowercase()
}

async fn body_of(mut response: Response, max_bytes: usize) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(client_error)? {
        if body.len() + chunk.len() > max_bytes {
            return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: max_bytes });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Returns the body of a response that is not of the type JSON. If it does not begin like JSON, only
/// its first part.
async fn json_of(mut response: Response, max_bytes: usize) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(client_error)? {
        body.extend_from_slice(&chunk);
        if !matches!(trimmed(&body).first(), None | Some(b'{' | b'[')) {
            break;
        }
        if body.len() > max_bytes {
            return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: max_bytes });
        }
    }
    Ok(body)
}

/// Returns the response to this request in a body, or the first other message. A response to another
/// request is an error, because no further response follows.
fn response_of(body: &[u8], request: &RequestId) -> Option<ServerJsonRpcMessage> {
    let messages = Incoming::read_all(body).into_iter().filter_map(|incoming| match incoming {
        Incoming::Message(message) => Some(*message),
        Incoming::Ignored | Incoming::Nameless => None,
    });
    let mut messages: Vec<ServerJsonRpcMessage> = messages.collect();
    let answers = |message: &ServerJsonRpcMessage| {
        responds_to(message).is_some_and(|id| same_id(request, id))
    };
    if let Some(place) = messages.iter().position(answers) {
        return Some(messages.swap_remove(place));
    }
    let message = (!messages.is_empty()).then(|| messages.swap_remove(0))?;
    let is_of_another = responds_to(&message).is_some();
    Some(if is_of_another {
        malformed(request.clone(), Some("it is that of another request"))
    } else {
        message
    })
}

/// Returns the beginning of a body for an error, or nothing.
fn said(body: &[u8]) -> String {
    match &*shown(body) {
        "" => String::new(),
        text => format!(": {text}"),
    }
}

fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let mut chars = text.trim().chars().filter(|c| !c.is_control());
    let start: String = chars.by_ref().take(SHOWN_CHARS).collect();
    if chars.next().is_some() { start + "…" } else { start }
}

/// Returns the events of a response, in the form that rmcp reads.
fn events(response: Response, max_bytes: usize) -> Events {
    let mut limit = EventLimit { max_bytes, bytes: 0, last: 0 };
    let mut text = Utf8::default();
    let bytes = response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(|error| std::io::Error::other(error.without_url()))?;
        limit.add(&chunk)?;
        Ok::<_, std::io::Error>(std::io::Cursor::new(text.add(&chunk)))
    });
    // The last event of some servers has no empty line, and a reader then drops it. Its message counts
    // if it is whole: a part of a JSON object is never one.
    let is_end = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&is_end);
    let end = stream::once(async move {
        ended.store(true, Ordering::Relaxed);
        Ok(std::io::Cursor::new(b"\n\n".to_vec()))
    });
    let readable = move |event: Result<Sse, SseError>| match event {
        Ok(event) if is_end.load(Ordering::Relaxed) && !is_whole(&event) => Vec::new(),
        Ok(event) => readable(event).into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    };
    SseStream::from_bytes_stream(bytes.chain(end)).map(readable).flat_map(stream::iter).boxed()
}

fn is_whole(event: &Sse) -> bool {
    let data = event.data.as_deref().unwrap_or_default();
    serde_json::from_slice::<IgnoredAny>(trimmed(data.as_bytes())).is_ok()
}

/// Returns an event with a message that rmcp reads, or without data. If it has several messages, each
/// gets an event.
fn readable(mut event: Sse) -> Vec<Sse> {
    let (least, most) = RETRY_DELAYS;
    event.retry = event.retry.map(|retry| retry.clamp(least, most));
    let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
    let data = event.data.take().filter(|_| is_message).unwrap_or_default();
    let messages = Incoming::read_all(data.as_bytes()).into_iter().filter_map(|incoming| {
        let Incoming::Message(message) = incoming else { return None };
        let data = serde_json::to_string(&message).ok();
        Some(Sse { data, ..event.clone() })
    });
    let events: Vec<Sse> = messages.collect();
    if events.is_empty() { vec![event] } else { events }
}

/// The size of the current event of a stream.
struct EventLimit {
    max_bytes: usize,
    bytes: usize,
    last: u8,
}

impl EventLimit {
    fn add(&mut self, chunk: &[u8]) -> std::io::Result<()> {
        for &byte in chunk {
            // An empty line ends an event.
            let is_end = |byte| matches!(byte, b'\n' | b'\r');
            self.bytes = if is_end(byte) && is_end(self.last) { 0 } else { self.bytes + 1 };
            self.last = byte;
        }
        match self.bytes > self.max_bytes {
            true => {
                let text = format!("an event has more than {} bytes", self.max_bytes);
                Err(std::io::Error::new(std::io::ErrorKind::InvalidData, text))
            }
            false => Ok(()),
        }
    }
}

/// The conversion of chunks to UTF-8, with U+FFFD for other bytes.
#[derive(Default)]
struct Utf8 {
    /// The beginning of a character whose rest is in the next chunk.
    rest: Vec<u8>,
}

impl Utf8 {
    fn add(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.rest);
        bytes.extend_from_slice(chunk);
        let mut text = Vec::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.extend_from_slice(chunk.valid().as_bytes());
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && is_beginning(invalid) {
                self.rest = invalid.to_vec();
            } else if !invalid.is_empty() {
                text.extend_from_slice("\u{fffd}".as_bytes());
            }
        }
        text
    }
}

/// Returns whether the bytes are the beginning of a longer character.
fn is_beginning(bytes: &[u8]) -> bool {
    let length = match bytes.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => 0,
    };
    bytes.len() < length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_in_two_chunks_are_whole_and_other_bytes_are_replaced() {
        let mut utf8 = Utf8::default();
        let mut text = Vec::new();
        for chunk in [&b"a\xf0"[..], b"\x9f", b"\x98\x80", b"b\xffc\xe2\x82", b"d"] {
            text.extend(utf8.add(chunk));
        }
        assert_eq!(String::from_utf8(text).unwrap(), "a\u{1f600}b\u{fffd}c\u{fffd}d");
    }
}
