use std::collections::VecDeque;
use std::time::Duration;

use async_openai::error::OpenAIError;
use async_openai::types::stream::StreamResponse;
use futures_util::stream::{self, BoxStream, StreamExt, try_unfold};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};
use toolwright_module::{Delta, Reply, ReplyPart};

use crate::bounded::Fault;
use crate::error::{Error, Result};

/// How long to wait for the usage of a model that has ended.
const USAGE_WAIT: Duration = Duration::from_secs(3);

/// Makes deltas and a reply of one API's events.
pub(crate) trait Decoder: Send + 'static {
    /// One event of the stream.
    type Event: DeserializeOwned + Send + 'static;

    /// Takes an event in; what it brought goes to `deltas`.
    fn take(&mut self, event: Self::Event, deltas: &mut Deltas) -> Result<()>;

    /// Whether the model has ended; a broken stream does no harm any more.
    fn has_ended(&self) -> bool;

    /// Whether nothing that follows can matter.
    fn is_complete(&self) -> bool;

    /// The reply, or what is missing from it.
    fn finish(self) -> Result<Reply>;

    /// What came so far, for an error.
    fn so_far(&self) -> String;
}

/// What a stream has to tell, until it is asked.
#[derive(Default)]
pub(crate) struct Deltas {
    queue: VecDeque<Delta>,
    deaf: bool,
}

impl Deltas {
    /// For a whole reply, whose pieces nobody waits for.
    pub(crate) fn deaf() -> Self {
        Self { deaf: true, ..Self::default() }
    }

    pub(crate) fn tell(&mut self, delta: impl FnOnce() -> Delta) {
        if !self.deaf {
            self.queue.push_back(delta());
        }
    }
}

struct State<D: Decoder> {
    events: StreamResponse<D::Event>,
    decoder: D,
    deltas: Deltas,
    fault: Fault,
    silence: Duration,
    /// Until when a model that has ended is listened to.
    until: Option<Instant>,
}

/// The deltas of a stream; the last is [`Delta::Done`] or an error.
pub(crate) fn deltas<D: Decoder>(
    events: StreamResponse<D::Event>,
    decoder: D,
    fault: Fault,
    silence: Duration,
) -> BoxStream<'static, Result<Delta>> {
    let deltas = Deltas::default();
    let state = State { events, decoder, deltas, fault, silence, until: None };
    try_unfold(Some(state), |state| async move {
        match state {
            Some(state) => state.step().await.map(Some),
            None => Ok(None),
        }
    })
    .boxed()
}

/// The deltas of a reply that came whole although it was asked for piece by piece.
pub(crate) fn whole(reply: Reply) -> BoxStream<'static, Result<Delta>> {
    let delta = |(index, part): (usize, &ReplyPart)| match part {
        ReplyPart::Text(text) => Some(Delta::Text(text.clone())),
        ReplyPart::Reasoning(reasoning) => Some(Delta::Reasoning(reasoning.text.clone())),
        ReplyPart::Call(call) => {
            Some(Delta::Call { index, name: call.name.clone(), arguments: call.arguments.clone() })
        }
        _ => None,
    };
    let mut deltas: Vec<_> = reply.parts.iter().enumerate().filter_map(delta).map(Ok).collect();
    deltas.push(Ok(Delta::Done(Box::new(reply))));
    stream::iter(deltas).boxed()
}

impl<D: Decoder> State<D> {
    async fn step(mut self) -> Result<(Delta, Option<Self>)> {
        loop {
            if let Some(delta) = self.deltas.queue.pop_front() {
                return Ok((delta, Some(self)));
            }
            if self.decoder.is_complete() {
                break;
            }
            match self.next().await {
                Some(Ok(event)) => self.decoder.take(event, &mut self.deltas)?,
                Some(Err(_)) if self.decoder.has_ended() => break,
                Some(Err(error)) => return Err(self.broken(error)),
                None => break,
            }
        }
        let reply = self.decoder.finish()?;
        Ok((Delta::Done(Box::new(reply)), None))
    }

    /// The next event; not waited for without end where only the usage can come.
    async fn next(&mut self) -> Option<Result<D::Event, OpenAIError>> {
        if !self.decoder.has_ended() {
            return self.events.next().await;
        }
        let wait = USAGE_WAIT.min(self.silence);
        let until = *self.until.get_or_insert_with(|| Instant::now() + wait);
        if Instant::now() > until {
            return None;
        }
        timeout_at(until, self.events.next()).await.unwrap_or_default()
    }

    fn broken(&self, error: OpenAIError) -> Error {
        // async-openai keeps only the text of what breaks a stream.
        let fault = match error {
            OpenAIError::StreamError(_) => self.fault.take(),
            _ => None,
        };
        let is_known = fault.is_some();
        match fault.unwrap_or_else(|| Error::from_client(error, self.silence)) {
            Error::Transport { source } => {
                Error::Truncated { raw: self.decoder.so_far(), source: Some(source) }
            }
            Error::Truncated { source, .. } if is_known => {
                Error::Truncated { raw: self.decoder.so_far(), source }
            }
            error => error,
        }
    }
}
