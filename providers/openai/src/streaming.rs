use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt, try_unfold};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use toolwright_http::{Event, EventBody, EventReader};
use toolwright_module::Reply;
use toolwright_module::message::ReplyPart;
use toolwright_module::model::Delta;

use crate::error::{OpenAiError, Result};

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
    events: EventReader,
    decoding: Decoding<D>,
}

/// What the events of a stream have said.
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

    /// The next delta of the bytes that came; `None` if more are needed, or nothing that
    /// follows matters.
    pub(crate) fn next(&mut self) -> Result<Option<Delta>> {
        loop {
            if let Some(delta) = self.decoding.deltas.queue.pop_front() {
                return Ok(Some(delta));
            }
            if self.is_over() {
                return Ok(None);
            }
            let Some(event) = self.events.next()? else { return Ok(None) };
            self.decoding.take(event)?;
        }
    }

    /// Takes in that the body ended; deltas may follow.
    pub(crate) fn end(&mut self) -> Result<()> {
        if !self.is_over()
            && let Some(event) = self.events.end()?
        {
            match self.decoding.take(event) {
                // The body ended inside of it.
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

    /// Whether the model has ended; a broken stream does no harm any more.
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
            // A word after the end is no part of a reply.
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
                Err(OpenAiError::complaint(&said).unwrap_or_else(|| {
                    broken(serde::de::Error::custom("it is no event of the API"))
                }))
            }
        }
    }
}

struct State<D: Decoder> {
    body: EventBody,
    reader: Reader<D>,
    /// How long to wait for what may follow the model's end.
    wait: Duration,
    /// Until when a model that has ended is listened to.
    until: Option<Instant>,
}

/// The deltas of a stream; the last is [`Delta::Done`] or an error.
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
            match self.chunk().await {
                Ok(Some(chunk)) => self.reader.push(chunk),
                Err(error) if !self.reader.has_ended() => return Err(self.broken(error)),
                Ok(None) | Err(_) => self.reader.end()?,
            }
        }
        let reply = self.reader.finish()?;
        Ok((Delta::Done(Box::new(reply)), None))
    }

    /// The next bytes; not waited for without end where only the usage can come.
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

    /// An error with what came before it.
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
