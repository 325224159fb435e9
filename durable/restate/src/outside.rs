//! A run seen from outside, by the shared handlers of its workflow.

use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use toolwright_module::approval::{Approval, Decision, WrongDecision};
use toolwright_module::event::Event;

use crate::record::{Answer, CHUNKS, Chunk, Question, WAITING, chunk_key};

/// The most chunks that one call of [`events`] returns.
const PAGE: usize = 64;

/// A call that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Waiting {
    /// Call that waits; pass it on to [`Decide`].
    pub approval: Approval,
    /// Why the decision before was refused, for example because the new arguments were wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A person's decision on a call, as the input of a handler.
///
/// ```
/// use toolwright_restate::Decide;
///
/// let text = r#"{
///     "approval": {"path": [], "call": {"id": "1", "name": "send", "arguments": "{}"}, "effect": "write"},
///     "decision": {"deny": {"reason": "Not today."}}
/// }"#;
/// let decide: Decide = serde_json::from_str(text)?;
/// assert_eq!(decide.approval.call.name, "send");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decide {
    /// The call as [`waiting`] returned it: the decision holds for exactly what the person saw.
    pub approval: Approval,
    /// The decision.
    pub decision: Decision,
}

/// Events of a run, from a place on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Events {
    /// Events from the requested position on.
    pub events: Vec<Event>,
    /// The place after them, for the next call of [`events`].
    pub next: u64,
    /// Number of events that are missing because each of them was too large.
    pub left_out: u64,
    /// Whether older events are missing because the state keeps the last 1,024 parts.
    pub is_cut: bool,
    /// Whether the run has ended. There will be no more events.
    pub is_ended: bool,
}

/// Returns the calls of the run that wait for a decision. Call it in a shared handler.
///
/// ```no_run
/// use restate_sdk::prelude::*;
/// use toolwright_restate::Waiting;
///
/// async fn waiting(ctx: SharedWorkflowContext<'_>) -> HandlerResult<Json<Vec<Waiting>>> {
///     Ok(Json(toolwright_restate::waiting(&ctx).await?))
/// }
/// ```
///
/// # Errors
///
/// The state cannot be read.
pub async fn waiting(ctx: &SharedWorkflowContext<'_>) -> HandlerResult<Vec<Waiting>> {
    let mut waiting = Vec::new();
    for Question { promise, approval, refused } in questions(ctx).await? {
        if !is_decided(ctx, &promise).await? {
            waiting.push(Waiting { approval, refused });
        }
    }
    Ok(waiting)
}

/// Decides on a call that waits. The run continues with it.
///
/// New arguments that the tool does not take are refused by the run. The call waits again then, and
/// [`Waiting::refused`] has the reason.
///
/// ```no_run
/// use restate_sdk::prelude::*;
/// use toolwright_restate::Decide;
///
/// async fn decide(ctx: SharedWorkflowContext<'_>, decide: Json<Decide>) -> HandlerResult<()> {
///     toolwright_restate::decide(&ctx, decide.0).await
/// }
/// ```
///
/// # Errors
///
/// A [`TerminalError`] with the code 404 if the call does not wait, 409 if it was decided already,
/// and 400 if the decision does not suit it.
pub async fn decide(ctx: &SharedWorkflowContext<'_>, decide: Decide) -> HandlerResult<()> {
    let Decide { approval, decision } = decide;
    let failed = |code, reason: &str| {
        let text = format!("the call `{}` {reason}", approval.call.id);
        Err(TerminalError::new_with_code(code, text).into())
    };
    let questions = questions(ctx).await?;
    let Some(question) = questions.into_iter().find(|one| one.approval == approval) else {
        return failed(404, "does not wait for a decision; see what waits");
    };
    if is_decided(ctx, &question.promise).await? {
        return failed(409, "was decided already");
    }
    if let Err(reason) = approval.check(&decision) {
        return failed(400, &in_json(&reason));
    }
    ctx.resolve_promise(&question.promise, Json(Answer { approval, decision }));
    Ok(())
}

/// Returns why a decision does not suit its call, with the names that decisions have in JSON.
fn in_json(reason: &WrongDecision) -> String {
    match reason {
        WrongDecision::Irreversible => {
            "may have taken effect and is irreversible; decide `call_again`, `happened` or `deny`"
                .to_owned()
        }
        WrongDecision::NotMade => {
            "was not made, so it has no result; decide `approve`, `edit` or `deny`".to_owned()
        }
        reason => reason.to_string(),
    }
}

/// Returns the events of the run from a place on. Start with 0, and pass [`Events::next`] then.
///
/// The events of a part are there when the part is recorded. The texts of a reply are in
/// [`ModelReplied`](toolwright_module::event::EventKind::ModelReplied), not in pieces. Calls that
/// ran side by side during a crash may have their events twice.
///
/// ```no_run
/// use restate_sdk::prelude::*;
/// use toolwright_restate::Events;
///
/// async fn events(ctx: SharedWorkflowContext<'_>, from: u64) -> HandlerResult<Json<Events>> {
///     Ok(Json(toolwright_restate::events(&ctx, from).await?))
/// }
/// ```
///
/// # Errors
///
/// The state cannot be read.
pub async fn events(ctx: &SharedWorkflowContext<'_>, from: u64) -> HandlerResult<Events> {
    let mut found = Events { next: from, ..Events::default() };
    for _ in 0..PAGE {
        let chunk: Option<Json<Chunk>> = get(ctx, &chunk_key(found.next)).await?;
        let Some(Json(chunk)) = chunk.filter(|Json(chunk)| chunk.number >= found.next) else {
            break;
        };
        if chunk.number > found.next {
            found.is_cut = true;
            found.next = chunk.number - CHUNKS + 1;
            continue;
        }
        for event in chunk.events {
            found.events.push(serde_json::from_value(event).map_err(TerminalError::from_error)?);
        }
        found.left_out += chunk.left_out;
        found.is_ended = chunk.is_last;
        found.next += 1;
    }
    Ok(found)
}

async fn questions(ctx: &SharedWorkflowContext<'_>) -> HandlerResult<Vec<Question>> {
    let questions: Option<Json<Vec<Question>>> = get(ctx, WAITING).await?;
    Ok(questions.map(|Json(questions)| questions).unwrap_or_default())
}

/// With one lifetime for the context and the key, as the SDK wants it.
async fn get<'a, T: serde::de::DeserializeOwned + 'static>(
    ctx: &'a SharedWorkflowContext<'a>,
    key: &'a str,
) -> Result<Option<Json<T>>, TerminalError> {
    ctx.get(key).await
}

async fn is_decided<'a>(
    ctx: &'a SharedWorkflowContext<'a>,
    promise: &'a str,
) -> Result<bool, TerminalError> {
    Ok(ctx.peek_promise::<Json<Answer>>(promise).await?.is_some())
}
