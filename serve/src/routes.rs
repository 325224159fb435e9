//! The routes of a service, in its own form.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::body::Bytes;
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::{Stream, StreamExt, stream};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toolwright_module::budget::Spent;
use toolwright_module::message::{Audio, Document, Image, Part, Source};

use crate::ag_ui;
use crate::caller::Caller;
use crate::core::{Core, causes};
use crate::error::{Result, ServeError};
use crate::page::Mark;
use crate::protocol::{Answered, Incoming, Said, Sent, readable};
use crate::recorded::{CONVERSATION, word};
use crate::ui_messages;
use crate::update::{Cost, Question, Update};
use crate::watched::{Placed, Position, Rest, Watched};

/// The largest body of a request, in bytes. Images and documents are in it.
const MOST_BODY: usize = 16 * 1024 * 1024;

/// How often a stream without updates says that it is alive, so that nothing between closes it.
const HEARTBEAT: Duration = Duration::from_secs(15);

pub(crate) type Shared = Arc<Core>;

pub(crate) fn router(core: &Shared) -> Router {
    Router::new()
        .route("/messages", post(say))
        .route("/conversations", get(conversations))
        .route("/conversations/{conversation}", get(conversation))
        .route("/runs/{run}/updates", get(updates))
        .route("/runs/{run}/stop", post(stop))
        .route("/runs/{run}/go-on", post(go_on))
        .route("/runs/{run}/questions/{question}", post(decide))
        .route("/questions", get(questions))
        .merge(ag_ui::routes())
        .merge(ui_messages::routes())
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .with_state(Arc::clone(core))
}

/// The body of `POST messages`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Say {
    conversation: String,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    attachments: Vec<Attached>,
    /// Whether the message replaces the one with its id, and everything after it. Without a text, the
    /// message is answered again.
    #[serde(default)]
    replaces: bool,
}

/// An image, a document or a sound that a user sends.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attached {
    /// An address, or a `data:` URL with the content.
    url: String,
    /// The media type, if the URL does not say it.
    #[serde(default)]
    media_type: Option<String>,
}

async fn say(
    State(core): State<Shared>,
    Called(caller): Called,
    Body(body): Body<Say>,
) -> Result<Response> {
    let Say { conversation, id, text, attachments, replaces } = body;
    let mut parts = Vec::new();
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    for attached in attachments {
        parts.push(attachment(&attached.url, attached.media_type.as_deref())?);
    }
    let said = Said { id, parts, replaces, ..Said::default() };
    let incoming = Incoming { conversation, message: Some(said), ..Incoming::default() };
    let run = core.receive(&caller, incoming).await?;
    Ok(stream_of(&core, run, Position::default()))
}

/// Returns the part of a message for an address, or for a `data:` URL with the content. The media type may
/// be only its beginning, such as `image` or `image/*`.
pub(crate) fn attachment(url: &str, media_type: Option<&str>) -> Result<Part> {
    let refused = |reason: &str| Err(ServeError::request(reason));
    let content = match url.strip_prefix("data:").map(|rest| rest.split_once(";base64,")) {
        Some(None) => return refused("the `data:` URL of an attachment must be in base64"),
        content => content.flatten(),
    };
    let is_whole = |kind: &&str| kind.contains('/') && !kind.ends_with('*');
    let of_url = content.map(|(kind, _)| kind);
    let whole = media_type.filter(is_whole).or(of_url).or(media_type).unwrap_or_default();
    let media_type = whole.split(';').next().unwrap_or_default().trim();
    let source = match content {
        Some((_, data)) => match Source::from_base64(media_type, data) {
            Some(source) => source,
            None => return refused("the base64 of an attachment is not valid"),
        },
        None if ["https:", "http:"].iter().any(|scheme| url.starts_with(scheme)) => {
            Source::Url(url.to_owned())
        }
        None => {
            return refused(
                "the URL of an attachment must begin with `data:`, `https:` or `http:`",
            );
        }
    };
    match media_type.split_once('/').map_or(media_type, |(kind, _)| kind) {
        "image" => Ok(Image::from(source).into()),
        "audio" => Ok(Audio::from(source).into()),
        "application" | "text" if media_type.contains('/') => Ok(Document::from(source).into()),
        _ => refused(
            "an attachment needs the media type of an image, a sound or a document, such as `image/png` or `application/pdf`",
        ),
    }
}

#[derive(Debug, Deserialize)]
struct After {
    after: Option<String>,
}

async fn updates(
    State(core): State<Shared>,
    Called(caller): Called,
    Path(run): Path<String>,
    Query(After { after }): Query<After>,
    headers: HeaderMap,
) -> Result<Response> {
    // A page that comes back by itself sends the header, which is newer than its address.
    let header = headers.get("last-event-id").map(|id| String::from_utf8_lossy(id.as_bytes()));
    let from = match header.map(std::borrow::Cow::into_owned).or(after) {
        Some(text) if !text.is_empty() => text.parse().map_err(|()| {
            ServeError::request("the `last-event-id` is not one of this service; leave it out")
        })?,
        _ => Position::default(),
    };
    let run = core.read(&caller, &run).await?;
    if !run.state().has(from) {
        // The reader would wait for records that never come.
        let reason = "the `last-event-id` is of another run, which was deleted; leave it out";
        return Err(ServeError::request(reason));
    }
    Ok(stream_of(&core, run, from))
}

/// Returns the response that streams a run in the service's own form.
fn stream_of(core: &Shared, run: Arc<Watched>, from: Position) -> Response {
    let events = core.updates(run, from, false).flat_map(|batch| {
        stream::iter(match batch {
            Ok(placed) => placed.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        })
    });
    let events = events.map(|placed| {
        let (update, position) = placed?;
        let data = serde_json::to_string(&update).unwrap_or_default();
        Ok(Event::default().id(position.to_string()).data(data))
    });
    response(events)
}

/// Returns a response that streams events. An error ends it; the reader comes back with its position.
pub(crate) fn response(events: impl Stream<Item = Result<Event>> + Send + 'static) -> Response {
    let events = events
        .take_while(|event| {
            if let Err(error) = event {
                tracing::warn!(error = %causes(error), "a stream has ended early");
            }
            std::future::ready(event.is_ok())
        })
        .filter_map(|event| std::future::ready(event.ok().map(Ok::<_, Infallible>)));
    sent(events)
}

/// Returns a response that streams events. An error cuts its connection.
pub(crate) fn sent<E: Into<axum::BoxError>>(
    events: impl Stream<Item = Result<Event, E>> + Send + 'static,
) -> Response {
    let alive = KeepAlive::new().interval(HEARTBEAT);
    let mut response = Sse::new(events).keep_alive(alive).into_response();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // nginx would hold the stream back.
    let buffering = HeaderName::from_static("x-accel-buffering");
    headers.insert(buffering, HeaderValue::from_static("no"));
    response
}

async fn stop(
    State(core): State<Shared>,
    Called(caller): Called,
    Path(run): Path<String>,
) -> Result<Json<Done>> {
    core.stop(&caller, &run).await?;
    Ok(Json(Done { run }))
}

async fn go_on(
    State(core): State<Shared>,
    Called(caller): Called,
    Path(run): Path<String>,
) -> Result<Json<Done>> {
    let watched = core.read(&caller, &run).await?;
    if watched.state().can_go_on() {
        core.go_on(&run).await?;
    } else if watched.rest() == Rest::Over {
        return Err(ServeError::Over { run });
    }
    Ok(Json(Done { run }))
}

async fn decide(
    State(core): State<Shared>,
    Called(caller): Called,
    Path((run, question)): Path<(String, String)>,
    Body(sent): Body<Sent>,
) -> Result<Json<Done>> {
    core.decide(&caller, &run, Answered { question, decision: sent.into() }).await?;
    Ok(Json(Done { run }))
}

/// The answer to a request that changed a run.
#[derive(Debug, Serialize)]
struct Done {
    run: String,
}

#[derive(Debug, Serialize)]
struct Questions {
    questions: Vec<Question>,
    /// The parameter `after` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

async fn questions(
    State(core): State<Shared>,
    Called(caller): Called,
    Query(after): Query<After>,
) -> Result<Json<Questions>> {
    let (questions, next) = core.questions(&caller, after.mark()?).await?;
    Ok(Json(Questions { questions, next: next.map(|next| next.to_string()) }))
}

impl After {
    /// Returns the place after which a page begins.
    fn mark(self) -> Result<Option<Mark>> {
        let wrong =
            |()| ServeError::request("`after` is not the `next` of another page; leave it out");
        self.after
            .filter(|text| !text.is_empty())
            .map(|text| text.parse().map_err(wrong))
            .transpose()
    }
}

/// A conversation in a list.
#[derive(Debug, Serialize)]
struct Listed {
    conversation: String,
    /// The beginning of its first message.
    title: String,
    /// When its last run changed, in milliseconds since 1970.
    changed: u64,
    runs: usize,
    /// `open`, `waiting`, `finished` or `failed`: the state of its last run.
    status: String,
    cost: Cost,
}

#[derive(Debug, Serialize)]
struct Conversations {
    conversations: Vec<Listed>,
    /// The parameter `after` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

async fn conversations(
    State(core): State<Shared>,
    Called(caller): Called,
    Query(after): Query<After>,
) -> Result<Json<Conversations>> {
    let (found, next) = core.conversations(&caller, after.mark()?).await?;
    let conversations = found.into_iter().filter_map(|runs| {
        let (first, last) = (runs.first()?, runs.last()?);
        let changed = runs.iter().map(|run| run.changed).max().unwrap_or(last.changed);
        let since = changed.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut spent = Spent::default();
        runs.iter().for_each(|run| spent += run.spent.unwrap_or_default());
        Some(Listed {
            conversation: last.metadata.get(CONVERSATION)?.clone(),
            title: first.task.clone().unwrap_or_default(),
            changed: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            runs: runs.len(),
            status: word(&last.status),
            cost: crate::recorded::cost(spent),
        })
    });
    let (conversations, next) = (conversations.collect(), next.map(|next| next.to_string()));
    Ok(Json(Conversations { conversations, next }))
}

/// A run of a conversation, as far as it is.
#[derive(Debug, Serialize)]
struct Told {
    run: String,
    /// Where a reader is that has these updates.
    position: String,
    /// `open`, `waiting` or `over`.
    rest: &'static str,
    updates: Vec<Update>,
}

#[derive(Debug, Serialize)]
struct Conversation {
    runs: Vec<Told>,
}

async fn conversation(
    State(core): State<Shared>,
    Called(caller): Called,
    Path(conversation): Path<String>,
) -> Result<Json<Conversation>> {
    let runs = core.conversation(&caller, &conversation).await?;
    let told = runs.into_iter().map(|run| {
        let (placed, rest) = run.so_far();
        let position = placed.last().map(|(_, position)| *position).unwrap_or_default();
        let updates = placed.into_iter().map(|(update, _): Placed| update).collect();
        Told { run: run.id.clone(), position: position.to_string(), rest: rest.word(), updates }
    });
    Ok(Json(Conversation { runs: told.collect() }))
}

/// The caller of a request.
pub(crate) struct Called(pub(crate) Caller);

impl FromRequestParts<Shared> for Called {
    type Rejection = ServeError;

    async fn from_request_parts(parts: &mut Parts, core: &Shared) -> Result<Self> {
        let caller = (core.callers.identify)(Arc::new(parts.clone())).await?;
        Ok(Self(caller))
    }
}

/// The body of a request, as JSON.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ServeError;

    async fn from_request(request: Request, state: &S) -> Result<Self> {
        // Its limits and its headers are those of the request.
        let (headers, limits) = (request.headers().clone(), request.extensions().clone());
        let read = async {
            let body = Bytes::from_request(request, state).await?;
            let body = match readable(&body) {
                Cow::Borrowed(_) => body,
                Cow::Owned(json) => json.into(),
            };
            let mut request = Request::new(body.into());
            (*request.headers_mut(), *request.extensions_mut()) = (headers, limits);
            Json::from_request(request, state).await
        };
        match read.await {
            Ok(Json(body)) => Ok(Self(body)),
            Err(rejection) => Err(wrong_body(&rejection)),
        }
    }
}

/// Checks that the body of a request is JSON, by its header. A form of another site can send any body, but
/// not this header.
pub(crate) fn check_json(headers: &HeaderMap) -> Result<()> {
    let content_type = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    match content_type.to_ascii_lowercase().starts_with(b"application/json") {
        true => Ok(()),
        false => Err(ServeError::request("the header `content-type` must be `application/json`")),
    }
}

fn wrong_body(rejection: &JsonRejection) -> ServeError {
    // The body is the client's own, so it may read what is wrong with it.
    ServeError::request(rejection.body_text())
}

impl IntoResponse for ServeError {
    fn into_response(self) -> Response {
        let status = self.status();
        if status.is_server_error() {
            tracing::error!(error = %causes(&self), "a request has failed");
        }
        let body = Json(serde_json::json!({ "error": self.to_string() }));
        let mut response = (status, body).into_response();
        if let Some(wait) = self.retry_after() {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs()));
        }
        response
    }
}
