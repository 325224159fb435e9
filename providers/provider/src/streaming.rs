//! The stream of a reply: server-sent events go in, [`Delta`]s and a [`Reply`] come out.
//!
//! A [`Decoder`] knows the events of one API. [`Reader`] parses the bytes; [`stream_of`] adds the
//! connection and its timeouts.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt, try_unfold};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use toolwright_http::{Event, EventBody, EventReader, Streamed, begins_events};
use toolwright_signature::{ends_in_half, has_lost_half, joined_halves};

use super::connection::{mark_lost_halves, readable, readable_body};
use super::error::server_error::is_bare_error;
use super::error::{ProviderError, Result};
use super::{Deltas, deltas_of};
use toolwright_module::model::{Delta, Reply, Usage};

/// Maximum time to wait for events after the end of the answer, such as the usage.
const USAGE_WAIT: Duration = Duration::from_secs(3);

/// The events of one API, converted to deltas and a reply.
///
/// ```
/// use bytes::Bytes;
/// use serde::Deserialize;
/// use toolwright_module::Reply;
/// use toolwright_module::model::Delta;
/// use toolwright_provider::{Decoder, Deltas, ProviderError, Reader, ReplyParts};
///
/// /// Reads `{"word": "…"}` until `[DONE]`.
/// #[derive(Default)]
/// struct Words {
///     parts: ReplyParts,
///     is_over: bool,
/// }
///
/// #[derive(Deserialize)]
/// struct Word<'e> {
///     word: &'e str,
/// }
///
/// impl Decoder for Words {
///     type Event<'e> = Word<'e>;
///
///     fn take(&mut self, event: Word<'_>, deltas: &mut Deltas) -> Result<(), ProviderError> {
///         self.parts.text(event.word.to_owned(), deltas);
///         Ok(())
///     }
///
///     fn done(&mut self, _: &mut Deltas) {
///         self.is_over = true;
///     }
///
///     fn has_ended(&self) -> bool {
///         self.is_over
///     }
///
///     fn finish(mut self) -> Result<Reply, ProviderError> {
///         match self.is_over {
///             true => Ok(Reply::new(self.parts.take())),
///             false => Err(ProviderError::truncated(self.so_far())),
///         }
///     }
///
///     fn so_far(&self) -> String {
///         self.parts.to_json()
///     }
/// }
///
/// let mut reader = Reader::new(Words::default());
/// reader.push(Bytes::from_static(b"data: {\"word\": \"Hi!\"}\n\ndata: [DONE]\n\n"));
/// assert_eq!(reader.next()?, Some(Delta::Text("Hi!".to_owned())));
/// reader.end()?;
/// assert_eq!(reader.finish()?.to_text(), "Hi!");
/// # Ok::<(), ProviderError>(())
/// ```
pub trait Decoder: Send + 'static {
    /// One event of the stream. It may borrow from the event's text.
    type Event<'e>: Deserialize<'e> + Send;

    /// Returns whether an event has nothing of the API, so that it may be an error of the server, or of
    /// a proxy before it, in another form than the API's. Default: no.
    fn may_be_error(event: &Self::Event<'_>) -> bool {
        let _ = event;
        false
    }

    /// Adds an event to the reply, and its pieces to `deltas`.
    ///
    /// # Errors
    ///
    /// The error that the server reports, or a reply that contradicts itself.
    fn take(&mut self, event: Self::Event<'_>, deltas: &mut Deltas) -> Result<()>;

    /// Adds the end mark `[DONE]`, and the pieces that waited for it to `deltas`. Default: nothing,
    /// for an API without it.
    fn done(&mut self, deltas: &mut Deltas) {
        let _ = deltas;
    }

    /// Returns whether the answer has ended. If the stream breaks later, it is not an error.
    fn has_ended(&self) -> bool;

    /// Returns whether later events cannot change the reply. Default: no.
    fn is_complete(&self) -> bool {
        false
    }

    /// Returns the reply.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Truncated`] if it is not complete, for example.
    fn finish(self) -> Result<Reply>;

    /// Returns the parts so far as JSON, for an error.
    fn so_far(&self) -> String;

    /// Returns the usage so far, for an error that the server reports. Default: unknown.
    fn usage(&self) -> Usage {
        Usage::unknown()
    }
}

/// Parser of a stream's bytes that does not need a socket or a clock; see [`Decoder`].
#[derive(Debug)]
pub struct Reader<D> {
    events: EventReader,
    decoding: Decoding<D>,
}

/// The state of a stream after its events so far.
#[derive(Debug)]
struct Decoding<D> {
    decoder: D,
    deltas: Deltas,
    is_over: bool,
    /// An event that ends with half a character, until the next event, which may have the other
    /// half. With it, whether the event is an error.
    half: Option<(String, bool)>,
    /// Whether half of a character was without the other half.
    has_lost_half: bool,
}

impl<D: Decoder> Reader<D> {
    /// Returns a reader at the beginning of a stream.
    pub fn new(decoder: D) -> Self {
        let decoding = Decoding {
            decoder,
            deltas: Deltas::default(),
            is_over: false,
            half: None,
            has_lost_half: false,
        };
        Self { events: EventReader::default(), decoding }
    }

    /// Adds bytes of the body.
    pub fn push(&mut self, bytes: Bytes) {
        self.events.push(bytes);
    }

    /// Returns the next delta, or `None` if it needs more bytes or the stream is over.
    ///
    /// # Errors
    ///
    /// The errors of [`Decoder::take`], [`ProviderError::Decoding`] and [`ProviderError::Reported`].
    #[expect(clippy::should_implement_trait, reason = "more bytes may follow after `None`")]
    pub fn next(&mut self) -> Result<Option<Delta>> {
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
    ///
    /// # Errors
    ///
    /// The errors of [`next`](Self::next).
    pub fn end(&mut self) -> Result<()> {
        if !self.is_over()
            && let Some(event) = self.events.end()?
        {
            match self.decoding.take(event) {
                // The body ended within the event.
                Err(ProviderError::Decoding { .. }) => {}
                taken => taken?,
            }
        }
        if !self.is_over() {
            self.decoding.take_half()?;
        }
        self.decoding.is_over = true;
        Ok(())
    }

    /// Returns whether later bytes cannot change the reply.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.decoding.is_over || self.decoding.decoder.is_complete()
    }

    fn has_ended(&self) -> bool {
        self.decoding.decoder.has_ended()
    }

    fn so_far(&self) -> String {
        self.decoding.decoder.so_far()
    }

    /// Returns the reply.
    ///
    /// # Errors
    ///
    /// The errors of [`Decoder::finish`].
    pub fn finish(self) -> Result<Reply> {
        let Decoding { decoder, has_lost_half, .. } = self.decoding;
        let mut reply = decoder.finish()?;
        if has_lost_half {
            mark_lost_halves(&mut reply);
        }
        Ok(reply)
    }
}

impl<D: Decoder> Decoding<D> {
    /// Adds an event, or keeps it until the next one if a character is cut between the two.
    fn take(&mut self, event: Event<'_>) -> Result<()> {
        let (data, is_error) = (event.data.trim(), event.name == "error");
        let mut data = Cow::Borrowed(data);
        if let Some((first, _)) = &mut self.half {
            if let Some((before, joined)) = joined_halves(first, &data) {
                (*first, data) = (before, Cow::Owned(joined));
            }
            self.take_half()?;
        }
        if ends_in_half(&data) {
            self.half = Some((data.into_owned(), is_error));
            return Ok(());
        }
        self.take_text(&data, is_error)
    }

    /// Adds the event that was kept.
    fn take_half(&mut self) -> Result<()> {
        match self.half.take() {
            Some((data, is_error)) => self.take_text(&data, is_error),
            None => Ok(()),
        }
    }

    fn take_text(&mut self, data: &str, is_error: bool) -> Result<()> {
        if data == "[DONE]" {
            self.decoder.done(&mut self.deltas);
            self.is_over = true;
            return Ok(());
        }
        match self.take_json(data, is_error) {
            // Some servers leave out the empty line between two events.
            Err(ProviderError::Decoding { .. }) if data.contains('\n') => {
                let mut lines = data.lines().map(str::trim).filter(|line| !line.is_empty());
                while !self.is_over
                    && let Some(line) = lines.next()
                {
                    self.take_text(line, is_error)?;
                }
                Ok(())
            }
            // Some servers send a word after the end, which is not part of the reply.
            Err(ProviderError::Decoding { .. })
                if self.decoder.has_ended() && !data.starts_with('{') =>
            {
                Ok(())
            }
            taken => taken,
        }
    }

    fn take_json(&mut self, data: &str, is_error: bool) -> Result<()> {
        let readable = readable(data);
        self.has_lost_half |= matches!(readable, Cow::Owned(_)) && has_lost_half(&readable);
        let data = &*readable;
        let broken = |source| ProviderError::Decoding { source, raw: data.to_owned() };
        // For serde, a list is also a struct: its items are the fields, in their order.
        let is_object = data.trim_start().starts_with('{');
        let event = match is_object && !is_error {
            true => Some(serde_json::from_str::<D::Event<'_>>(data).map_err(broken)?),
            false => None,
        };
        match event.filter(|event| !(D::may_be_error(event) && is_bare_error(data))) {
            Some(event) => self.decoder.take(event, &mut self.deltas),
            None => {
                let value: Value = serde_json::from_str(data).map_err(broken)?;
                let error = ProviderError::bare_error(&value, self.decoder.usage());
                Err(error.unwrap_or_else(|| {
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

/// Returns the deltas of a response. The last one is [`Delta::Done`] or an error.
///
/// `whole` reads the body of a server that does not stream. `silence` is the maximum time without a byte.
///
/// # Errors
///
/// The errors of `whole`.
pub(crate) fn stream_of<D: Decoder>(
    response: Streamed,
    decoder: D,
    silence: Duration,
    whole: impl FnOnce(&[u8]) -> Result<Reply>,
) -> Result<BoxStream<'static, Result<Delta>>> {
    let body = match response {
        Streamed::Events(body) => body,
        Streamed::Whole(body) => {
            return Ok(
                stream::iter(deltas_of(whole(&readable_body(body))?).into_iter().map(Ok)).boxed()
            );
        }
    };
    let wait = USAGE_WAIT.min(silence);
    let state = State { body, reader: Reader::new(decoder), wait, until: None };
    let deltas = try_unfold(Some(state), |state| async move {
        match state {
            Some(state) => state.step().await.map(Some),
            None => Ok(None),
        }
    });
    Ok(deltas.boxed())
}

/// Reads the body of a reply that was not asked for as a stream: with `whole`, or with the decoder if the
/// server streams all the same.
///
/// # Errors
///
/// The errors of `whole` and of the [`Reader`].
pub fn read_reply<D: Decoder>(
    body: &[u8],
    decoder: impl FnOnce() -> D,
    whole: impl FnOnce(&[u8]) -> Result<Reply>,
) -> Result<Reply> {
    if !begins_events(body) {
        return whole(body);
    }
    let mut reader = Reader::new(decoder());
    reader.push(Bytes::copy_from_slice(body));
    let read = |reader: &mut Reader<D>| {
        while reader.next()?.is_some() {}
        reader.end()?;
        while reader.next()?.is_some() {}
        Ok(())
    };
    read(&mut reader).map_err(|error| broken(error, &reader))?;
    reader.finish()
}

/// Adds the parts so far to an error.
fn broken<D: Decoder>(mut error: ProviderError, reader: &Reader<D>) -> ProviderError {
    match &mut error {
        ProviderError::Http { raw, .. } | ProviderError::Truncated { raw, .. } => {
            *raw = reader.so_far();
        }
        ProviderError::Unclear { raw, .. } if raw.is_empty() => *raw = reader.so_far(),
        _ => {}
    }
    error
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
                Err(error) => return Err(broken(error, &self.reader)),
            }
            match self.chunk().await {
                Ok(Some(chunk)) => self.reader.push(chunk),
                Err(error) if !self.reader.has_ended() => return Err(broken(error, &self.reader)),
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
}
