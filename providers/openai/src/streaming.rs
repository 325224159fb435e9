use std::collections::VecDeque;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt, try_unfold};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use toolwright_module::{Delta, Reply, ReplyPart};

use crate::bounded::Chunks;
use crate::error::{Error, Result};
use crate::sse::{Events, Message};

/// How long to wait for what may follow the model's end, such as the usage.
const USAGE_WAIT: Duration = Duration::from_secs(3);

/// Makes deltas and a reply of one API's events.
pub(crate) trait Decoder: Send + 'static {
    /// One event of the stream.
    type Event: DeserializeOwned + Send + 'static;

    /// Whether an event is an error without the usual form, to be read for its words.
    fn is_complaint(event: &Self::Event) -> bool;

    /// Takes an event in; what it brought goes to `deltas`.
    fn take(&mut self, event: Self::Event, deltas: &mut Deltas) -> Result<()>;

    /// Takes in that the server said `[DONE]`.
    fn done(&mut self);

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

/// Reads a stream's bytes; needs no socket and no clock.
pub(crate) struct Reader<D> {
    events: Events,
    decoder: D,
    deltas: Deltas,
    is_over: bool,
}

impl<D: Decoder> Reader<D> {
    pub(crate) fn new(decoder: D) -> Self {
        Self { events: Events::default(), decoder, deltas: Deltas::default(), is_over: false }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.events.push(bytes);
    }

    /// The next delta of the bytes that came; `None` if more are needed, or nothing that
    /// follows matters.
    pub(crate) fn next(&mut self) -> Result<Option<Delta>> {
        loop {
            if let Some(delta) = self.deltas.queue.pop_front() {
                return Ok(Some(delta));
            }
            if self.is_over() {
                return Ok(None);
            }
            let Some(message) = self.events.next()? else { return Ok(None) };
            self.take(&message)?;
        }
    }

    /// Takes in that the body ended; deltas may follow.
    pub(crate) fn end(&mut self) -> Result<()> {
        if !self.is_over()
            && let Some(message) = self.events.last()?
        {
            match self.take(&message) {
                // The body ended inside of it.
                Err(Error::Decoding { .. }) => {}
                taken => taken?,
            }
        }
        self.is_over = true;
        Ok(())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over || self.decoder.is_complete()
    }

    pub(crate) fn finish(self) -> Result<Reply> {
        self.decoder.finish()
    }

    fn take(&mut self, message: &Message) -> Result<()> {
        let data = message.data.trim();
        if data == "[DONE]" {
            self.decoder.done();
            self.is_over = true;
            return Ok(());
        }
        match self.take_json(data, message.is_error) {
            // Some servers leave out the empty line between two events.
            Err(Error::Decoding { .. }) if data.contains('\n') => {
                for line in data.lines().filter(|line| !line.trim().is_empty()) {
                    if line.trim() == "[DONE]" {
                        self.decoder.done();
                        self.is_over = true;
                        break;
                    }
                    self.take_json(line, message.is_error)?;
                }
                Ok(())
            }
            // A word after the end is no part of a reply.
            Err(Error::Decoding { .. }) if self.decoder.has_ended() && !data.starts_with('{') => {
                Ok(())
            }
            taken => taken,
        }
    }

    fn take_json(&mut self, data: &str, is_error: bool) -> Result<()> {
        let broken = |source| Error::Decoding { source, raw: data.to_owned() };
        // Serde would read a list as an object's fields, in their order.
        let is_object = data.trim_start().starts_with('{');
        let event = match is_object && !is_error {
            true => Some(serde_json::from_str::<D::Event>(data).map_err(broken)?),
            false => None,
        };
        match event.filter(|event| !D::is_complaint(event)) {
            Some(event) => self.decoder.take(event, &mut self.deltas),
            None => {
                let said: Value = serde_json::from_str(data).map_err(broken)?;
                Err(Error::complaint(&said).unwrap_or_else(|| {
                    broken(serde::de::Error::custom("it is no event of the API"))
                }))
            }
        }
    }
}

/// When to stop listening.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    /// How long the server may be silent.
    pub(crate) silence: Duration,
    /// How long one answer may take in all.
    pub(crate) max_time: Duration,
    /// When that is over; `None` if it never is.
    pub(crate) deadline: Option<Instant>,
}

impl Patience {
    pub(crate) fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Does the work until the time is over.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        match self.deadline {
            None => Ok(work.await),
            Some(deadline) => timeout_at(deadline, work).await.map_err(|_| self.too_slow("")),
        }
    }

    pub(crate) fn too_slow(&self, raw: impl Into<String>) -> Error {
        Error::TooSlow { after: self.max_time, raw: raw.into() }
    }
}

struct State<D: Decoder> {
    chunks: Chunks,
    reader: Reader<D>,
    patience: Patience,
    /// Until when a model that has ended is listened to.
    until: Option<Instant>,
}

/// The deltas of a stream; the last is [`Delta::Done`] or an error.
pub(crate) fn deltas<D: Decoder>(
    chunks: Chunks,
    decoder: D,
    patience: Patience,
) -> BoxStream<'static, Result<Delta>> {
    let state = State { chunks, reader: Reader::new(decoder), patience, until: None };
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
            match self.reader.next() {
                Ok(Some(delta)) => {
                    // It goes on after its end: what may follow is waited for anew.
                    self.until = None;
                    return Ok((delta, Some(self)));
                }
                Ok(None) if self.reader.is_over() => break,
                Ok(None) => {}
                Err(error) => return Err(self.broken(error)),
            }
            // Also of a server that never makes anybody wait.
            if self.patience.is_over() {
                return Err(self.patience.too_slow(self.reader.decoder.so_far()));
            }
            match self.chunk().await {
                Some(Ok(chunk)) => self.reader.push(&chunk),
                Some(Err(_)) if self.reader.decoder.has_ended() => self.reader.end()?,
                Some(Err(error)) => return Err(self.broken(error)),
                None => self.reader.end()?,
            }
        }
        let reply = self.reader.finish()?;
        Ok((Delta::Done(Box::new(reply)), None))
    }

    /// The next bytes; not waited for without end where only the usage can come.
    async fn chunk(&mut self) -> Option<Result<bytes::Bytes>> {
        if self.reader.decoder.has_ended() {
            let wait = USAGE_WAIT.min(self.patience.silence);
            let until = *self.until.get_or_insert_with(|| Instant::now() + wait);
            if Instant::now() > until {
                return None;
            }
            return timeout_at(until, self.chunks.next()).await.unwrap_or_default();
        }
        match self.patience.during(self.chunks.next()).await {
            Ok(chunk) => chunk,
            Err(error) => Some(Err(error)),
        }
    }

    /// An error with what came before it.
    fn broken(&self, error: Error) -> Error {
        match error {
            Error::Transport { source } => {
                Error::Truncated { raw: self.reader.decoder.so_far(), source: Some(source) }
            }
            Error::Truncated { source, .. } => {
                Error::Truncated { raw: self.reader.decoder.so_far(), source }
            }
            Error::TooSlow { .. } => self.patience.too_slow(self.reader.decoder.so_far()),
            error => error,
        }
    }
}
