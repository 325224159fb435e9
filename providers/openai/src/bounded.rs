//! How much a server may send, and in what encoding.

use std::error::Error as StdError;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE};

use crate::error::{Error, Result};

/// Maximum size of one reply, in bytes.
const MOST_REPLY: usize = 64 << 20;
/// What is enough to tell a stream from a page.
const ENOUGH: usize = 1 << 10;

/// The bytes of a body, as they arrive.
pub(crate) type Chunks = BoxStream<'static, Result<Bytes>>;

/// What a server that was asked for a stream sends.
pub(crate) enum Body {
    /// Server-sent events.
    Events(Chunks),
    /// A whole reply, or a page.
    Whole(Bytes),
}

/// A whole body of a size that can be kept.
pub(crate) async fn whole(response: Response, silence: Duration) -> Result<Bytes> {
    let (announced, encoding) = (announced(&response)?, encoding(&response));
    let body = if announced.is_some() {
        // Nothing has to be counted, which costs nothing.
        response.bytes().await.map_err(|error| Error::from_reqwest(error, silence))?
    } else {
        let mut chunks = counted(response.bytes_stream(), MOST_REPLY, silence);
        rest(Vec::new(), &mut chunks).await?
    };
    text(body, encoding)
}

/// A stream of a size that can be kept; or all that the server sends, if it does not stream.
pub(crate) async fn events(response: Response, silence: Duration) -> Result<Body> {
    announced(&response)?;
    let encoding = encoding(&response);
    let declared = is_event_stream(&response);
    let mut chunks = counted(response.bytes_stream(), MOST_REPLY, silence).boxed();
    if let Some(encoding) = encoding {
        return Err(Error::Encoding { what: encoding });
    }
    let mut first = Vec::new();
    // Some servers stream under another name, some do not stream at all, and some send a
    // compressed body without saying so.
    let enough = |first: &[u8]| {
        let needed = if declared { 2 } else { 9 };
        first.trim_ascii_start().len() >= needed || first.len() >= ENOUGH
    };
    while !enough(&first)
        && let Some(chunk) = chunks.next().await
    {
        let chunk = chunk?;
        // As most streams begin: nothing has to be copied.
        if declared && first.is_empty() && enough(&chunk) && !is_page(&chunk) {
            let begun = futures_util::stream::iter([Ok(chunk)]);
            return Ok(Body::Events(begun.chain(chunks).boxed()));
        }
        first.extend_from_slice(&chunk);
    }
    if declared && !is_page(&first) || begins_events(&first) || first.is_empty() {
        let begun = futures_util::stream::iter([Ok(Bytes::from(first))]);
        return Ok(Body::Events(begun.chain(chunks).boxed()));
    }
    Ok(Body::Whole(text(rest(first, &mut chunks).await?, None)?))
}

async fn rest(
    mut body: Vec<u8>,
    chunks: &mut (impl Stream<Item = Result<Bytes>> + Unpin),
) -> Result<Bytes> {
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk?);
    }
    Ok(body.into())
}

/// A body that is text, without a byte order mark.
fn text(body: Bytes, encoding: Option<String>) -> Result<Bytes> {
    if let Some(encoding) = encoding {
        return Err(Error::Encoding { what: encoding });
    }
    if std::str::from_utf8(&body).is_err() {
        return Err(Error::no_utf8(&body));
    }
    let marked = body.starts_with("\u{feff}".as_bytes());
    Ok(if marked { body.slice("\u{feff}".len()..) } else { body })
}

/// How much the server says that it will send.
fn announced(response: &Response) -> Result<Option<u64>> {
    let length = response.content_length();
    match length {
        Some(length) if length > MOST_REPLY as u64 => Err(too_large(MOST_REPLY)),
        _ => Ok(length),
    }
}

/// The encoding of a body that nobody asked to be encoded.
fn encoding(response: &Response) -> Option<String> {
    let encoding = response.headers().get(CONTENT_ENCODING)?.to_str().ok()?.trim();
    let plain = encoding.is_empty() || encoding.eq_ignore_ascii_case("identity");
    (!plain).then(|| format!("compressed with {encoding}"))
}

fn is_event_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes());
    let kind = kind.and_then(|kind| kind.get(..b"text/event-stream".len()));
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case(b"text/event-stream"))
}

fn begins_events(text: &[u8]) -> bool {
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text).trim_ascii_start();
    ["data:", "event:", "id:", "retry:", ":"].iter().any(|field| text.starts_with(field.as_bytes()))
}

/// Whether a body cannot be a stream of events, whatever its head calls it.
fn is_page(first: &[u8]) -> bool {
    is_gzip(first) || matches!(first.trim_ascii_start(), [b'{' | b'[' | b'<', ..])
}

/// Whether a body begins as gzip does.
pub(crate) fn is_gzip(body: &[u8]) -> bool {
    body.starts_with(&[0x1f, 0x8b])
}

fn too_large(most: usize) -> Error {
    Error::TooLarge { what: "one reply", most }
}

fn counted<S, B, E>(
    chunks: S,
    most: usize,
    silence: Duration,
) -> impl Stream<Item = Result<B>> + use<S, B, E>
where
    S: Stream<Item = Result<B, E>>,
    B: AsRef<[u8]>,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    let mut left = most;
    chunks.map(move |chunk| {
        let chunk = chunk.map_err(|error| typed(error.into(), silence))?;
        match left.checked_sub(chunk.as_ref().len()) {
            Some(less) => left = less,
            None => return Err(too_large(most)),
        }
        Ok(chunk)
    })
}

/// What broke while a body was read.
fn typed(error: Box<dyn StdError + Send + Sync>, silence: Duration) -> Error {
    match error.downcast::<reqwest::Error>() {
        Ok(error) => Error::from_reqwest(*error, silence),
        Err(source) => Error::Transport { source },
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    #[tokio::test]
    async fn a_reply_has_a_bound() {
        let chunks = stream::iter(["one", "two", "3", "4"]).map(Ok::<_, std::fmt::Error>);
        let heard: Vec<_> = counted(chunks, 7, Duration::ZERO).collect().await;
        assert!(matches!(&heard[..], [Ok("one"), Ok("two"), Ok("3"), Err(_)]));
    }
}
