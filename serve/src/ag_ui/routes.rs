//! The routes of AG-UI.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::response::sse::Event;
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::{FutureExt, StreamExt, stream};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::input::read;
use super::writer::{AgUi, messages};
use crate::caller::Caller;
use crate::core::causes;
use crate::error::{Result, ServeError};
use crate::protocol::{Answered, Incoming};
use crate::routes::{Called, Shared, check_json, response};
use crate::update::{Decided, Update, UpdateKind};
use crate::watched::{Position, Rest, Watched};

pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/ag-ui", post(run))
        .route("/ag-ui/{conversation}/messages", get(conversation))
        .route("/ag-ui/{conversation}/stop", post(stop))
}

/// Answers a request of a client: a message of the user, answers to questions, or the last request
/// again.
async fn run(
    State(core): State<Shared>,
    Called(caller): Called,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response> {
    check_json(&headers)?;
    let body = body.map_err(|rejection| ServeError::request(rejection.body_text()))?;
    let mut input = read(&body).map_err(ServeError::request)?;
    let incoming = std::mem::take(&mut input.incoming);
    let has_answer = input.has_answer;
    let mut writer = AgUi::new(&incoming.conversation, input);
    let watched = receive(&core, &caller, incoming).await?;
    let last = updates(&watched).pop().map(|last| last.kind);
    if let Some(UpdateKind::Stopped { can_go_on: true, .. }) = last {
        core.go_on(&watched.id).await?;
    }

    let is_stop = |update: &Update| matches!(update.kind, UpdateKind::Stopped { .. });
    // The run went on after these.
    let mut stops = updates(&watched).iter().filter(|update| is_stop(update)).count();
    let mut updates = core.updates(Arc::clone(&watched), Position::default(), true).boxed().fuse();
    let mut first = Vec::new();
    if has_answer || stops > 0 {
        // The client gets all that is there as messages.
        let mut next = Some(updates.next().await);
        while let Some(Some(placed)) = next {
            for (update, _) in placed? {
                writer.absorb(&update);
                stops = stops.saturating_sub(usize::from(is_stop(&update)));
            }
            next = match stops {
                0 => updates.next().now_or_never(),
                _ => Some(updates.next().await),
            };
        }
        first = writer.begin(next.is_some() && watched.rest() != Rest::Open);
    }
    let events = stream::unfold((writer, updates), move |(mut writer, mut updates)| {
        let watched = Arc::clone(&watched);
        async move {
            if writer.is_over() {
                return None;
            }
            let events = match updates.next().await {
                Some(Ok(placed)) => {
                    placed.iter().flat_map(|(update, _)| writer.write(update)).collect()
                }
                Some(Err(error)) => {
                    tracing::warn!(error = %causes(&error), "a stream has ended early");
                    writer.fail(&error.to_string(), "unavailable")
                }
                None if watched.rest() == Rest::Open => {
                    writer.fail(&ServeError::Closing.to_string(), "restarting")
                }
                None => writer.rest(),
            };
            Some((events, (writer, updates)))
        }
    });
    let events = stream::once(std::future::ready(first)).chain(events).flat_map(stream::iter);
    Ok(response(events.map(|event| Ok(Event::default().data(event)))))
}

/// Gives a request to the core. A decision that was made before is not made again, so that a client may
/// repeat a request whose answer it has lost.
async fn receive(core: &Shared, caller: &Caller, mut incoming: Incoming) -> Result<Arc<Watched>> {
    loop {
        let question = match core.receive(caller, incoming.clone()).await {
            Err(ServeError::NotOpen { question }) => question,
            result => return result,
        };
        let is_it = |answered: &&Answered| answered.question == question;
        let answered = incoming.decisions.iter().find(is_it);
        let answered = answered.map(|answered| Decided::from(&answered.decision));
        let run = core.last(caller, &incoming.conversation).await?;
        let decided = run.and_then(|run| decision_on(&updates(&run), &question));
        if decided.is_none() || decided != answered {
            return Err(ServeError::NotOpen { question });
        }
        incoming.decisions.retain(|answered| answered.question != question);
    }
}

/// Returns the messages of a conversation, for a page that is opened again.
async fn conversation(
    State(core): State<Shared>,
    Called(caller): Called,
    Path(conversation): Path<String>,
) -> Result<Json<Value>> {
    let runs = core.conversation(&caller, &conversation).await?;
    let rest = runs.last().map_or(Rest::Over, |run| run.rest()).word();
    let updates: Vec<_> = runs.iter().map(|run| updates(run)).collect();
    Ok(Json(json!({ "messages": messages(updates.iter().map(Vec::as_slice)), "rest": rest })))
}

/// Ends the run of a conversation. A client that only closes its connection leaves it alone.
async fn stop(
    State(core): State<Shared>,
    Called(caller): Called,
    Path(conversation): Path<String>,
) -> Result<StatusCode> {
    if let Some(run) = core.last(&caller, &conversation).await? {
        core.stop(&caller, &run.id).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the updates of a run so far.
fn updates(run: &Watched) -> Vec<Update> {
    run.so_far().0.into_iter().map(|(update, _)| update).collect()
}

/// Returns the decision on a question.
fn decision_on(updates: &[Update], question: &str) -> Option<Decided> {
    let mut asked = None;
    updates.iter().find_map(|update| match (&update.kind, &asked) {
        (UpdateKind::ApprovalAsked(of), _) if of.question == question => {
            asked = Some((&update.path, &of.id));
            None
        }
        (UpdateKind::Decided { id, decision, .. }, Some(asked)) if *asked == (&update.path, id) => {
            Some(decision.clone())
        }
        _ => None,
    })
}
