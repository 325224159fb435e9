use std::collections::VecDeque;
use std::time::{Duration, Instant};

use async_openai::error::OpenAIError;
use async_openai::types::stream::StreamResponse;
use futures_util::stream::{BoxStream, StreamExt, try_unfold};
use serde::de::DeserializeOwned;
use toolwright_module::{Delta, Reply};

use crate::error::{Error, Result};

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
    silence: Duration,
    heard: Instant,
}

/// The deltas of a stream; the last is [`Delta::Done`] or an error.
pub(crate) fn deltas<D: Decoder>(
    events: StreamResponse<D::Event>,
    decoder: D,
    silence: Duration,
) -> BoxStream<'static, Result<Delta>> {
    let state =
        State { events, decoder, deltas: Deltas::default(), silence, heard: Instant::now() };
    try_unfold(Some(state), |state| async move {
        match state {
            Some(state) => state.step().await.map(Some),
            None => Ok(None),
        }
    })
    .boxed()
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
            match self.events.next().await {
                Some(Ok(event)) => {
                    self.heard = Instant::now();
                    self.decoder.take(event, &mut self.deltas)?;
                }
                Some(Err(_)) if self.decoder.has_ended() => break,
                Some(Err(error)) => return Err(self.broken(error)),
                None => break,
            }
        }
        let reply = self.decoder.finish()?;
        Ok((Delta::Done(Box::new(reply)), None))
    }

    fn broken(&self, error: OpenAIError) -> Error {
        match Error::from_client(error, self.silence) {
            // async-openai keeps only the text of what broke. The clock knows better.
            Error::Transport { .. } if self.heard.elapsed() >= self.silence => {
                Error::Timeout { after: self.silence }
            }
            Error::Transport { source } => {
                Error::Truncated { raw: self.decoder.so_far(), source: Some(source) }
            }
            error => error,
        }
    }
}
