//! Calls that are cancelled: dropped, by the context, and by a deadline.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use toolwright_module::error::Stage;
use toolwright_module::{Cancellation, Context, Error};
use toolwright_orchestrator::Agent;

use super::hi;
use crate::script::{Saw, Script};
use crate::trial::{Mode, Trial, same};
use crate::{Check, Wire};

/// Time after which a call is cancelled.
const AFTER: Duration = Duration::from_millis(300);
/// Maximum time for the end of a cancelled call.
const SOON: Duration = Duration::from_millis(1000);

/// A reply that takes more than two seconds. Streamed, it has an event every 200 milliseconds.
fn slow(_: Wire, mode: Mode) -> Vec<Value> {
    let wait = match mode {
        Mode::Whole => 2200,
        Mode::Streamed => 0,
    };
    let text = "Slowly, word by word, and then some more.";
    vec![json!({"text": text, "chunk": 1, "delay_ms": 200, "first_delay_ms": wait})]
}

pub(crate) fn all() -> Vec<Script> {
    vec![
        Script::with_steps("a dropped reply", slow, |trial| async move {
            // A streamed one is dropped before its first piece, or after it.
            let dropped = timeout(AFTER, trial.ask(hi())).await;
            same("whether the reply was early", dropped.is_ok(), false)?;
            Ok(Saw::Works)
        }),
        Script::with_steps("a dropped stream", slow, |trial| async move {
            let mut stream = trial.model.stream(hi());
            let first = timeout(Duration::from_secs(5), stream.next()).await?;
            first.ok_or("the stream is empty")??;
            drop(stream);
            // The server notices it only if the connection is closed.
            let seen = trial.seen(1).await?;
            let is_closed = seen.first().is_some_and(|seen| seen.client_closed);
            same("whether the connection is closed", is_closed, true)?;
            Ok(Saw::Works)
        }),
        Script::with_steps("a cancelled call", slow, |trial| async move {
            let (cx, cancel) = cancelling(&trial);
            let is_streamed = trial.mode == Mode::Streamed;
            let ask = async {
                let result = cx.ask(&*trial.model, hi(), is_streamed).await;
                (result.err(), Instant::now())
            };
            let (end, at) = tokio::join!(ask, cancel);
            ended(end, at, Stage::Cancelled)
        }),
        Script::with_steps("a cancelled agent", slow, |trial| async move {
            let (cx, cancel) = cancelling(&trial);
            let (end, at) = tokio::join!(run(&trial, &cx), cancel);
            ended(end?, at, Stage::Cancelled)
        }),
        Script::with_steps("an agent after its deadline", slow, |trial| async move {
            let at = Instant::now() + AFTER;
            let cx = trial.context().with_deadline(at.into_std());
            ended(run(&trial, &cx).await?, at, Stage::Limit)
        }),
    ]
    .into_iter()
    .map(Script::leaving_steps)
    .collect()
}

/// Returns a context, and a future that cancels it and returns the moment.
fn cancelling(trial: &Trial) -> (Context, impl Future<Output = Instant> + use<>) {
    let cancellation = Cancellation::default();
    let cx = trial.context().with_cancellation(cancellation.clone());
    let cancel = async move {
        sleep(AFTER).await;
        cancellation.cancel();
        Instant::now()
    };
    (cx, cancel)
}

/// An error, and the moment at which the call ended.
type End = (Option<Error>, Instant);

async fn run(trial: &Trial, cx: &Context) -> Check<End> {
    let agent = Agent::new(trial.model.clone(), [])?;
    let result = agent.run("Hi!", cx).await;
    Ok((result.err(), Instant::now()))
}

/// Checks that a call ended soon after a moment.
fn ended((error, end): End, at: Instant, stage: Stage) -> Check<Saw> {
    let error = error.ok_or("the call did not end")?;
    same("the stage", error.stage(), stage)?;
    same("whether it ended soon", end < at + SOON, true)?;
    Ok(Saw::Works)
}
