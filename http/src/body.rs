//! The body of a response: a text, bytes, an event stream or the evidence of a refusal, each
//! within the limits.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use reqwest::Url;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, LOCATION};

use crate::endpoint::shown_url;
use crate::error::{ErrorKind, HttpError, Refusal, Result};
use crate::headers::{request_id, retry_after, text};
use crate::limits::{Deadline, HttpLimits};
use crate::redact::Redactor;
use crate::sse::{is_gzip, not_utf8};
use crate::wait::in_time;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
const EVENT_STREAM: &[u8] = b"text/event-stream";
/// Number of bytes that are enough to distinguish an event stream from a page.
const ENOUGH: usize = 1 << 10;
/// Number of bytes of a refusal that are read after the cut, so that a secret across the cut
/// is found.
const MARGIN: usize = 16 * 1024;
/// Maximum length of a redirect's target that an error keeps, in bytes.
const MAX_LOCATION: usize = 2000;
/// Maximum memory reserved because of a `content-length`, in bytes.
const MAX_RESERVED: u64 = 1 << 20;

/// A response whose body is read within limits of size, silence and total time.
pub struct HttpResponse(Box<Parts>);

/// The parts of a response, in a box: each function on the way to the caller would move them, and
/// its future would have room for them.
struct Parts {
    inner: reqwest::Response,
    limits: HttpLimits,
    deadline: Deadline,
    redactor: Redactor,
    left: usize,
}

/// Body of the response to a request for an event stream.
#[derive(Debug)]
pub enum Streamed {
    /// Server-sent events, for an [`EventReader`](crate::EventReader).
    Events(EventBody),
    /// A whole reply or a page, in UTF-8 without a byte order mark. Some servers do not stream.
    Whole(Bytes),
}

/// Bytes of an event stream, as they arrive.
#[derive(Debug)]
pub struct EventBody {
    begun: Option<Bytes>,
    response: HttpResponse,
}

impl EventBody {
    /// Returns the next bytes, or `None` at the end of the body.
    ///
    /// No bytes are lost if the future is dropped.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Truncated`] if the connection breaks; [`ErrorKind::Silent`],
    /// [`ErrorKind::TooSlow`] or [`ErrorKind::TooLarge`] if a limit is reached.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>> {
        match self.begun.take() {
            Some(begun) => Ok(Some(begun)),
            None => self.response.chunk().await,
        }
    }
}

impl HttpResponse {
    pub(crate) fn new(
        inner: reqwest::Response,
        limits: HttpLimits,
        deadline: Deadline,
        redactor: Redactor,
    ) -> Self {
        Self(Box::new(Parts { inner, limits, deadline, redactor, left: limits.body }))
    }

    /// Returns the HTTP status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.0.inner.status().as_u16()
    }

    /// Returns whether the status is a success: 200 to 299.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.0.inner.status().is_success()
    }

    /// Returns the headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.0.inner.headers()
    }

    /// Returns the target of a redirect, or `None` if there is no `location` that is a URL.
    #[must_use]
    pub fn location(&self) -> Option<Url> {
        self.0.inner.url().join(text(self.headers(), LOCATION.as_str())?).ok()
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>> {
        let chunk = in_time(self.0.inner.chunk(), &self.0.limits, self.0.deadline).await?;
        let chunk = chunk.map_err(|error| match error.is_timeout() {
            // Only a client of the caller's own has this timeout.
            true => ErrorKind::Silent { after: self.0.limits.silence }.into(),
            false => HttpError::from_reqwest(error, None, &self.0.redactor),
        })?;
        let length = chunk.as_ref().map_or(0, Bytes::len);
        self.0.left = self.0.left.checked_sub(length).ok_or_else(|| self.too_large())?;
        Ok(chunk)
    }

    /// Returns the whole body.
    ///
    /// # Errors
    ///
    /// The errors of [`EventBody::chunk`]. If `content-length` is larger than allowed, the
    /// error comes before any byte is read.
    pub async fn bytes(mut self) -> Result<Bytes> {
        self.check_length()?;
        self.rest(Bytes::new()).await
    }

    /// Returns the whole body as UTF-8, without a byte order mark.
    ///
    /// # Errors
    ///
    /// The errors of [`bytes`](Self::bytes), and [`ErrorKind::Encoding`] if the body is
    /// compressed or is not UTF-8.
    pub async fn text(mut self) -> Result<Bytes> {
        self.check_length()?;
        let encoding = self.encoding();
        let body = self.rest(Bytes::new()).await?;
        match encoding {
            Some(encoding) => Err(encoding),
            None => utf8(body),
        }
    }

    /// Returns an event stream, or the whole body if the server does not stream.
    ///
    /// The first bytes decide. The header `content-type` is not enough: some servers stream
    /// with another content type, some do not stream, and some send a compressed body without
    /// the header for it.
    ///
    /// # Errors
    ///
    /// The errors of [`text`](Self::text).
    pub async fn events(mut self) -> Result<Streamed> {
        self.check_length()?;
        if let Some(encoding) = self.encoding() {
            return Err(encoding);
        }
        let declared = self.declares_events();
        let enough = |first: &[u8]| {
            let needed = if declared { 2 } else { 9 };
            first.trim_ascii_start().len() >= needed || first.len() >= ENOUGH
        };
        let mut first = Bytes::new();
        while !enough(&first)
            && let Some(chunk) = self.chunk().await?
        {
            first = joined(first, chunk);
        }
        if declared && !is_page(&first) || begins_events(&first) || first.is_empty() {
            return Ok(Streamed::Events(EventBody { begun: Some(first), response: self }));
        }
        utf8(self.rest(first).await?).map(Streamed::Whole)
    }

    /// Returns the response if its status is a success, and otherwise the error for it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Status`], with the beginning of the body. If the body breaks or is slow,
    /// the error has the bytes that arrived.
    pub async fn or_refusal(self) -> Result<Self> {
        match self.is_success() {
            true => Ok(self),
            // The box keeps this rare case from making the future of every call larger.
            false => Err(Box::pin(self.refusal()).await),
        }
    }

    /// Returns the error [`ErrorKind::Status`] for the response, with the beginning of its
    /// body. It waits for the body no longer than [`HttpLimits::silence`].
    async fn refusal(mut self) -> HttpError {
        let location = self.location().map(|url| shown_url(&url));
        let location = location.filter(|_| self.0.inner.status().is_redirection());
        let mut bytes = Vec::new();
        let most = self.0.limits.refusal.saturating_add(MARGIN);
        // A body that arrives a byte at a time must not delay the error.
        let soon = Deadline::after(self.0.limits.silence);
        self.0.deadline = self.0.deadline.or_earlier(soon);
        while bytes.len() < most
            && let Ok(Some(chunk)) = self.chunk().await
        {
            bytes.extend_from_slice(&chunk);
        }
        let clean = |text: &str, most| self.0.redactor.redact_start(text, most);
        let headers = self.headers();
        let refusal = Refusal {
            status: self.status(),
            reason: self.0.inner.status().canonical_reason(),
            request_id: request_id(headers).map(|id| clean(id, usize::MAX)),
            retry_after: retry_after(headers),
            location: location.map(|location| clean(&location, MAX_LOCATION)),
            body: clean(&String::from_utf8_lossy(&bytes), self.0.limits.refusal),
        };
        ErrorKind::Status(refusal).into()
    }

    async fn rest(&mut self, first: Bytes) -> Result<Bytes> {
        // Most bodies arrive as one piece, which is not copied.
        let mut one = first;
        while one.is_empty() {
            match self.chunk().await? {
                Some(chunk) => one = chunk,
                None => return Ok(one),
            }
        }
        let Some(second) = self.chunk().await? else { return Ok(one) };
        let announced = self.0.inner.content_length().unwrap_or_default().min(MAX_RESERVED);
        let mut all = Vec::with_capacity(usize::try_from(announced).unwrap_or_default());
        all.extend_from_slice(&one);
        all.extend_from_slice(&second);
        while let Some(chunk) = self.chunk().await? {
            all.extend_from_slice(&chunk);
        }
        Ok(all.into())
    }

    fn check_length(&self) -> Result<()> {
        let announced = self.0.inner.content_length();
        match announced.is_some_and(|length| length > self.0.limits.body as u64) {
            true => Err(self.too_large()),
            false => Ok(()),
        }
    }

    fn too_large(&self) -> HttpError {
        ErrorKind::TooLarge { what: "one reply", max: self.0.limits.body }.into()
    }

    /// Returns the error for a compressed body. The request did not allow compression.
    fn encoding(&self) -> Option<HttpError> {
        let encoding = text(self.headers(), CONTENT_ENCODING.as_str())?;
        let plain = encoding.is_empty() || encoding.eq_ignore_ascii_case("identity");
        let shown = || self.0.redactor.redact_start(encoding, 100);
        (!plain).then(|| {
            let what = Cow::Owned(format!("compressed with {}", shown()));
            ErrorKind::Encoding { what }.into()
        })
    }

    fn declares_events(&self) -> bool {
        let kind = self.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes());
        let kind = kind.and_then(|kind| kind.get(..EVENT_STREAM.len()));
        kind.is_some_and(|kind| kind.eq_ignore_ascii_case(EVENT_STREAM))
    }
}

/// Shows the status, without headers and body.
impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpResponse").field("status", &self.status()).finish_non_exhaustive()
    }
}

fn joined(first: Bytes, second: Bytes) -> Bytes {
    match first.is_empty() {
        true => second,
        false => [first, second].concat().into(),
    }
}

fn utf8(body: Bytes) -> Result<Bytes> {
    if std::str::from_utf8(&body).is_err() {
        return Err(not_utf8(&body));
    }
    let marked = body.starts_with(BYTE_ORDER_MARK);
    Ok(if marked { body.slice(BYTE_ORDER_MARK.len()..) } else { body })
}

/// Returns whether a body begins as server-sent events do, with one of their fields or a comment.
///
/// ```
/// use toolwright_http::begins_events;
///
/// assert!(begins_events(b"data: {}\n\n") && !begins_events(b"{}"));
/// ```
#[must_use]
pub fn begins_events(text: &[u8]) -> bool {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).trim_ascii_start();
    ["data:", "event:", "id:", "retry:", ":"].iter().any(|field| text.starts_with(field.as_bytes()))
}

/// Returns whether a body is not an event stream, although its `content-type` says so.
fn is_page(first: &[u8]) -> bool {
    is_gzip(first) || matches!(first.trim_ascii_start(), [b'{' | b'[' | b'<', ..])
}
