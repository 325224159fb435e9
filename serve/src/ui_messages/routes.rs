use std::io;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::{StreamExt, stream};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::Value;

use super::conversation;
use super::request::read;
use super::writer::UiMessages;
use crate::caller::Caller;
use crate::core::{Core, causes};
use crate::error::ServeError;
use crate::protocol::Incoming;
use crate::recorded::MESSAGE;
use crate::routes::{Called, Shared, check_json, sent};
use crate::update::UpdateKind;
use crate::watched::{Position, Rest, Watched};

/// Returns the routes below the `api` of `DefaultChatTransport`.
pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/chat", post(send))
        .route("/chat/{conversation}/stream", get(resume))
        .route("/chat/{conversation}/messages", get(messages))
        .route("/chat/{conversation}/stop", post(stop))
}

/// An error, as a text: `useChat` shows the body of a response as the message of its error.
#[derive(Debug)]
struct Plain(ServeError);

impl<E: Into<ServeError>> From<E> for Plain {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Plain {
    fn into_response(self) -> Response {
        let text = self.0.to_string();
        let mut response = self.0.into_response();
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().remove(http::header::CONTENT_LENGTH);
        response.headers_mut().insert(CONTENT_TYPE, plain);
        *response.body_mut() = text.into();
        response
    }
}

type Result<T> = std::result::Result<T, Plain>;

/// The parameters in the address of the client's `api`.
#[derive(Debug, Deserialize)]
struct Parameters {
    /// The version of the package `ai`. Chunks that version 6 does not know are sent only if it is set.
    version: Option<u32>,
}

impl Parameters {
    fn is_seven(&self) -> Result<bool> {
        match self.version {
            None | Some(6) => Ok(false),
            Some(7) => Ok(true),
            Some(_) => {
                let reason =
                    "`version` must be 6 or 7: the version of the package `ai` in the page";
                Err(ServeError::request(reason).into())
            }
        }
    }
}

async fn send(
    State(core): State<Shared>,
    called: std::result::Result<Called, ServeError>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    let Called(caller) = called?;
    let is_seven = parameters.is_seven()?;
    check_json(&headers)?;
    let mut incoming = read(&body)?;
    if incoming.decisions.is_empty() {
        find(&core, &caller, &mut incoming).await?;
        let run = core.receive(&caller, incoming).await?;
        return Ok(stream_of(&core, run, UiMessages::new(is_seven)));
    }
    let answered: Vec<_> = incoming.decisions.iter().map(|it| it.question.clone()).collect();
    let writer = UiMessages::after(is_seven, answered.iter().map(String::as_str));
    // A client sends its answers again until its message has what followed from them, and another
    // page may have answered before. The stream says what was decided.
    if let Some(run) = core.last(&caller, &incoming.conversation).await? {
        let (asked, open) = questions(&run);
        if answered.iter().all(|question| asked.contains(question)) {
            incoming.decisions.retain(|it| open.contains(&it.question));
        }
        if incoming.decisions.is_empty() {
            return Ok(stream_of(&core, run, writer));
        }
    }
    let run = core.receive(&caller, incoming).await?;
    Ok(stream_of(&core, run, writer))
}

/// Finds out whether the service has the message that is to be replaced or answered again. It may not
/// have received it: then it is a new one.
async fn find(core: &Arc<Core>, caller: &Caller, incoming: &mut Incoming) -> Result<()> {
    let Some(said) = &mut incoming.message else { return Ok(()) };
    if !said.replaces {
        return Ok(());
    }
    let runs = core.conversation(caller, &incoming.conversation).await?;
    let is_known =
        runs.iter().any(|run| run.state().reader.metadata.get(MESSAGE) == said.id.as_ref());
    if is_known {
        if incoming.again.is_some() {
            incoming.message = None;
        }
    } else if incoming.earlier > runs.len() {
        return Err(ServeError::Forgotten { earlier: incoming.earlier }.into());
    } else if incoming.earlier == runs.len() {
        said.replaces = false;
        incoming.again = None;
    }
    Ok(())
}

/// Returns the ids of the questions that a run has asked, and of those that are open.
fn questions(run: &Watched) -> (Vec<String>, Vec<String>) {
    let (placed, _) = run.so_far();
    let asked = placed.into_iter().filter_map(|(update, _)| match update.kind {
        UpdateKind::ApprovalAsked(question) => Some(question.question),
        _ => None,
    });
    let asked = asked.collect();
    let open = run.state().reader.open.values().map(|it| it.question.question.clone()).collect();
    (asked, open)
}

/// Streams the last run of a conversation from its start, also if it has ended meanwhile: a client that
/// lost its connection lacks the rest, and does not say what it has.
async fn resume(
    State(core): State<Shared>,
    called: std::result::Result<Called, ServeError>,
    Query(parameters): Query<Parameters>,
    Path(conversation): Path<String>,
) -> Result<Response> {
    let Called(caller) = called?;
    let writer = UiMessages::new(parameters.is_seven()?);
    Ok(match core.last(&caller, &conversation).await? {
        Some(run) => stream_of(&core, run, writer),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

async fn messages(
    State(core): State<Shared>,
    called: std::result::Result<Called, ServeError>,
    Path(conversation): Path<String>,
) -> Result<Json<Vec<Value>>> {
    let Called(caller) = called?;
    let runs = core.conversation(&caller, &conversation).await?;
    let messages = runs.iter().flat_map(|run| {
        let (placed, rest) = run.so_far();
        let updates: Vec<_> = placed.into_iter().map(|(update, _)| update).collect();
        conversation::messages(&updates, rest == Rest::Waiting)
    });
    Ok(Json(messages.collect()))
}

/// Ends the last run of a conversation. The client's `stop` only closes its connection.
async fn stop(
    State(core): State<Shared>,
    called: std::result::Result<Called, ServeError>,
    Path(conversation): Path<String>,
) -> Result<StatusCode> {
    let Called(caller) = called?;
    if let Some(run) = core.last(&caller, &conversation).await? {
        core.stop(&caller, &run.id).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the response that streams a run. If the service ends before the run, the connection is cut,
/// so that the client knows that the message is not whole and can resume it.
fn stream_of(core: &Arc<Core>, run: Arc<Watched>, writer: UiMessages) -> Response {
    let updates = Box::pin(core.updates(Arc::clone(&run), Position::default(), true));
    let reading = (Arc::clone(core), run, updates, writer, false);
    let events =
        stream::unfold(reading, |(core, run, mut updates, mut writer, is_over)| async move {
            if is_over {
                return None;
            }
            let cut = |text: String| vec![Err(io::Error::other(text))];
            let (events, is_over) = match updates.next().await {
                Some(Ok(placed)) => {
                    let texts = placed.iter().flat_map(|(update, _)| writer.write(update));
                    (texts.map(Ok).collect(), writer.is_over())
                }
                Some(Err(error)) => {
                    tracing::warn!(error = %causes(&error), "a stream has ended early");
                    (cut(error.to_string()), true)
                }
                None if writer.has_stopped() || run.rest() == Rest::Waiting => {
                    (writer.write_end().into_iter().map(Ok).collect(), true)
                }
                None => (cut("the run has not ended".to_owned()), true),
            };
            Some((stream::iter(events), (core, run, updates, writer, is_over)))
        });
    let events = events.flatten().map(|text| text.map(|text: String| Event::default().data(text)));
    let mut response = sent(events);
    let header = HeaderName::from_static("x-vercel-ai-ui-message-stream");
    response.headers_mut().insert(header, HeaderValue::from_static("v1"));
    response
}
