//! The stream of a reply: server-sent events go in, [`Delta`]s and a [`Reply`] come out.
//!
//! A [`Decoder`] knows the events of one API. [`Reader`] parses the bytes; [`deltas`] adds the
//! connection and its timeouts.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt, try_unfold};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use toolwright_http::{Event, EventBody, EventReader};
use toolwright_module::Reply;
use toolwright_module::model::Delta;
use toolwright_module::provider::{Deltas, deltas_of};

use crate::error::{OpenAiError, Result};

/// Maximum time to wait for events after the end of the answer, such as the usage.
const USAGE_WAIT: Duration = Duration::from_secs(3);

/// Converts the events of one API to deltas and a reply.
pub(crate) trait Decoder: Send + 'static {
    /// One event of the stream.
    type Event: DeserializeOwned + Send + 'static;

    /// Returns whether an event is an error without the usual field `error`.
    fn is_bare_error(event: &Self::Event) -> bool;

    /// Adds an event to the reply, and its pieces to `deltas`.
    fn take(&mut self, event: Self::Event, deltas: &mut Deltas) -> Result<()>;

    /// Adds the end mark `[DONE]`.
    fn done(&mut self);

    /// Returns whether the answer has ended. If the stream breaks later, it is not an error.
    fn has_ended(&self) -> bool;

    /// Returns whether later events cannot change the reply.
    fn is_complete(&self) -> bool;

    /// Returns the reply, or an error if it is not complete.
    fn finish(self) -> Result<Reply>;

    /// Returns the parts so far as JSON, for an error.
    fn so_far(&self) -> String;
}

/// Parser of a stream's bytes that does not need a socket or a clock.
pub(crate) struct Reader<D> {
    events: EventReader,
    decoding: Decoding<D>,
}

/// The state of a stream after its events so far.
struct Decoding<D> {
    decoder: D,
    deltas: Deltas,
    is_over: bool,
}

impl<D: Decoder> Reader<D> {
    pub(crate) fn new(decoder: D) -> Self {
        let decoding = Decoding { decoder, deltas: Deltas::default(), is_over: false };
        Self { events: EventReader::default(), decoding }
    }

    pub(crate) fn push(&mut self, bytes: Bytes) {
        self.events.push(bytes);
    }

    /// Returns the next delta, or `None` if it needs more bytes or the stream is over.
    pub(crate) fn next(&mut self) -> Result<Option<Delta>> {
        loop {
            if let Some(delta) = self.decoding.deltas.pop() {
                return Ok(Some(delta));
            }
            if self.is_over() {
                return Ok(None);
            }
            let Some(event) = self.events.next()? else { return Ok(None) };
            self.decoding.take(event)?;
        }
    }

    /// Ends the body. Deltas may follow.
    pub(crate) fn end(&mut self) -> Result<()> {
        if !self.is_over()
            && let Some(event) = self.events.end()?
        {
            match self.decoding.take(event) {
                // The body ended within the event.
                Err(OpenAiError::Decoding { .. }) => {}
                taken => taken?,
            }
        }
        self.decoding.is_over = true;
        Ok(())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.decoding.is_over || self.decoding.decoder.is_complete()
    }

    fn has_ended(&self) -> bool {
        self.decoding.decoder.has_ended()
    }

    fn so_far(&self) -> String {
        self.decoding.decoder.so_far()
    }

    pub(crate) fn finish(self) -> Result<Reply> {
        self.decoding.decoder.finish()
    }
}

impl<D: Decoder> Decoding<D> {
    fn take(&mut self, event: Event<'_>) -> Result<()> {
        let (data, is_error) = (event.data.trim(), event.name == "error");
        if data == "[DONE]" {
            self.decoder.done();
            self.is_over = true;
            return Ok(());
        }
        match self.take_json(data, is_error) {
            // Some servers leave out the empty line between two events.
            Err(OpenAiError::Decoding { .. }) if data.contains('\n') => {
                for line in data.lines().filter(|line| !line.trim().is_empty()) {
                    if line.trim() == "[DONE]" {
                        self.decoder.done();
                        self.is_over = true;
                        break;
                    }
                    self.take_json(line, is_error)?;
                }
                Ok(())
            }
            // Some servers send a word after the end, which is not part of the reply.
            Err(OpenAiError::Decoding { .. })
                if self.decoder.has_ended() && !data.starts_with('{') =>
            {
                Ok(())
            }
            taken => taken,
        }
    }

    fn take_json(&mut self, data: &str, is_error: bool) -> Result<()> {
        let broken = |source| OpenAiError::Decoding { source, raw: data.to_owned() };
        // For serde, a list is also a struct: its items are the fields, in their order.
        let is_object = data.trim_start().starts_with('{');
        let event = match is_object && !is_error {
            true => Some(serde_json::from_str::<D::Event>(data).map_err(broken)?),
            false => None,
        };
        match event.filter(|event| !D::is_bare_error(event)) {
            Some(event) => self.decoder.take(event, &mut self.deltas),
            None => {
                let value: Value = serde_json::from_str(data).map_err(broken)?;
                Err(OpenAiError::bare_error(&value).unwrap_or_else(|| {
                    broken(serde::de::Error::custom("it is not an event of the API"))
                }))
            }
        }
    }
}

struct State<D: Decoder> {
    body: EventBody,
    reader: Reader<D>,
    /// Maximum time to wait for the next event after the end of the answer.
    wait: Duration,
    /// The moment at which that time is over.
    until: Option<Instant>,
}

/// Returns the deltas of a stream. The last one is [`Delta::Done`] or an error.
pub(crate) fn deltas<D: Decoder>(
    body: EventBody,
    decoder: D,
    silence: Duration,
) -> BoxStream<'static, Result<Delta>> {
    let wait = USAGE_WAIT.min(silence);
    let state = State { body, reader: Reader::new(decoder), wait, until: None };
    try_unfold(Some(state), |state| async move {
        match state {
            Some(state) => state.step().await.map(Some),
            None => Ok(None),
        }
    })
    .boxed()
}

/// Returns the deltas of a whole reply, for a server that does not stream.
pub(crate) fn whole(reply: Reply) -> BoxStream<'static, Result<Delta>> {
    stream::iter(deltas_of(reply).into_iter().map(Ok)).boxed()
}

impl<D: Decoder> State<D> {
    async fn step(mut self) -> Result<(Delta, Option<Self>)> {
        loop {
            match self.reader.next() {
                Ok(Some(delta)) => {
                    // An event after the end of the answer restarts the wait.
                    self.until = None;
                    return Ok((delta, Some(self)));
                }
                Ok(None) if self.reader.is_over() => break,
                Ok(None) => {}
                Err(error) => return Err(self.broken(error)),
            }
            match self.chunk().await {
                Ok(Some(chunk)) => self.reader.push(chunk),
                Err(error) if !self.reader.has_ended() => return Err(self.broken(error)),
                Ok(None) | Err(_) => self.reader.end()?,
            }
        }
        let reply = self.reader.finish()?;
        Ok((Delta::Done(Box::new(reply)), None))
    }

    /// Returns the next bytes. After the end of the answer it waits only for `wait`.
    async fn chunk(&mut self) -> Result<Option<Bytes>> {
        if !self.reader.has_ended() {
            return Ok(self.body.chunk().await?);
        }
        let until = *self.until.get_or_insert_with(|| Instant::now() + self.wait);
        if Instant::now() > until {
            return Ok(None);
        }
        match timeout_at(until, self.body.chunk()).await {
            Ok(chunk) => Ok(chunk?),
            Err(_) => Ok(None),
        }
    }

    /// Adds the parts so far to an error.
    fn broken(&self, error: OpenAiError) -> OpenAiError {
        let raw = || self.reader.so_far();
        match error {
            OpenAiError::Transport { source } => {
                OpenAiError::Truncated { raw: raw(), source: Some(source) }
            }
            OpenAiError::Truncated { source, .. } => OpenAiError::Truncated { raw: raw(), source },
            OpenAiError::TooSlow { after, .. } => OpenAiError::TooSlow { after, raw: raw() },
            error => error,
        }
    }
}
