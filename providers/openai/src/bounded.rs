//! How much a server may send, and how a stream's faults are remembered.

use std::error::Error as StdError;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::stream::{Stream, StreamExt, TryStreamExt};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Body, Response};
use serde::de::Error as _;

use crate::error::{Error, Result};

/// The most that one reply may have, in bytes.
const MOST_REPLY: usize = 64 << 20;
/// The most that one line of a stream may have.
const MOST_LINE: usize = 4 << 20;
/// The most that is handed on at once, where lines are short.
///
/// eventsource-stream moves what it has not read yet at every line.
const PIECE: usize = 4 << 10;
/// What is enough to tell a stream from a page.
const ENOUGH: usize = 1 << 10;

type BoxError = Box<dyn StdError + Send + Sync>;

/// What broke a stream.
///
/// async-openai keeps only the text of it, and not even all of that.
#[derive(Clone, Default)]
pub(crate) struct Fault(Arc<Mutex<Option<Error>>>);

impl Fault {
    fn set(&self, error: Error) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    pub(crate) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A whole reply of a size that can be kept.
pub(crate) fn whole(response: Response) -> Result<Response> {
    match announced(&response)? {
        // Nothing has to be counted, which costs nothing.
        Some(_) => Ok(response),
        None => Ok(with_body(Body::wrap_stream(counted(response.bytes_stream(), MOST_REPLY)))),
    }
}

/// A stream of a size that can be kept, whose lines arrive whole.
///
/// What is no stream is [`Error::Decoding`] with all of it.
pub(crate) async fn events(
    response: Response,
    fault: Fault,
    silence: Duration,
) -> Result<Response> {
    announced(&response)?;
    let declared = is_event_stream(&response);
    let mut chunks = Box::pin(counted(response.bytes_stream(), MOST_REPLY));
    let mut first = Vec::new();
    if !declared {
        // Some servers stream under another name, and some do not stream at all.
        let known = |first: &[u8]| first.trim_ascii_start().len() >= 6 || first.len() >= ENOUGH;
        while !known(&first)
            && let Some(chunk) = chunks.next().await
        {
            first.extend_from_slice(&chunk.map_err(|error| typed(error, silence))?);
        }
        if !first.is_empty() && !begins_events(&first) {
            while let Some(chunk) = chunks.next().await {
                first.extend_from_slice(&chunk.map_err(|error| typed(error, silence))?);
            }
            let source = serde_json::Error::custom("it is no stream of events");
            return Err(Error::Decoding { source, raw: String::from_utf8_lossy(&first).into() });
        }
    }
    let lines = Lines { held: first, ..Lines::new(chunks, MOST_LINE) };
    Ok(with_body(Body::wrap_stream(lines.map_err(move |error| {
        let text = error.to_string();
        fault.set(typed(error, silence));
        text
    }))))
}

/// How much the server says that it will send.
fn announced(response: &Response) -> Result<Option<u64>> {
    let length = response.content_length();
    match length {
        Some(length) if length > MOST_REPLY as u64 => Err(too_large("one reply", MOST_REPLY)),
        _ => Ok(length),
    }
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

/// A response of which only the body counts any more: its head has been judged.
fn with_body(body: Body) -> Response {
    Response::from(http::Response::new(body))
}

fn too_large(what: &'static str, most: usize) -> Error {
    Error::TooLarge { what, most }
}

/// What broke while a body was read.
fn typed(error: BoxError, silence: Duration) -> Error {
    let error = match error.downcast::<Error>() {
        Ok(error) => return *error,
        Err(error) => error,
    };
    match error.downcast::<reqwest::Error>() {
        Ok(error) => Error::from_reqwest(*error, silence),
        Err(source) => Error::Transport { source },
    }
}

fn counted<S, B, E>(chunks: S, most: usize) -> impl Stream<Item = Result<B, BoxError>>
where
    S: Stream<Item = Result<B, E>>,
    B: AsRef<[u8]>,
    E: Into<BoxError>,
{
    let mut left = most;
    chunks.map(move |chunk| {
        let chunk = chunk.map_err(Into::into)?;
        match left.checked_sub(chunk.as_ref().len()) {
            Some(less) => left = less,
            None => return Err(too_large("one reply", most).into()),
        }
        Ok(chunk)
    })
}

/// A stream cut after line ends only.
///
/// eventsource-stream begins a line anew with every chunk that does not end it.
struct Lines<S> {
    chunks: S,
    most: usize,
    held: Vec<u8>,
    /// Up to here `held` was handed on.
    at: usize,
    /// From `at` to here there is no line end.
    seen: usize,
}

impl<S> Lines<S> {
    fn new(chunks: S, most: usize) -> Self {
        Self { chunks, most, held: Vec::new(), at: 0, seen: 0 }
    }

    /// As many whole lines as make a piece, or one that is longer.
    fn piece(&mut self) -> Option<Vec<u8>> {
        let near = self.held.len().min(self.at + PIECE).max(self.seen);
        let last = self.held[self.seen..near].iter().rposition(ends_line);
        let end = match last {
            Some(last) => Some(self.seen + last),
            None => self.held[near..].iter().position(ends_line).map(|first| near + first),
        };
        let Some(end) = end else {
            self.held.drain(..self.at);
            (self.at, self.seen) = (0, self.held.len());
            return None;
        };
        let piece = self.held[self.at..=end].to_vec();
        (self.at, self.seen) = (end + 1, end + 1);
        Some(piece)
    }
}

impl<S, B> Stream for Lines<S>
where
    S: Stream<Item = Result<B, BoxError>> + Unpin,
    B: AsRef<[u8]> + From<Vec<u8>>,
{
    type Item = Result<B, BoxError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(piece) = this.piece() {
                return Poll::Ready(Some(Ok(piece.into())));
            }
            if this.held.len() > this.most {
                let error = too_large("one line of a stream", this.most);
                return Poll::Ready(Some(Err(error.into())));
            }
            match ready!(this.chunks.poll_next_unpin(cx)) {
                Some(Ok(chunk)) => {
                    let bytes = chunk.as_ref();
                    let is_whole = bytes.last().is_some_and(ends_line) && bytes.len() <= PIECE;
                    // As most chunks are: nothing has to be copied.
                    if is_whole && this.held.is_empty() {
                        return Poll::Ready(Some(Ok(chunk)));
                    }
                    this.held.extend_from_slice(bytes);
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if this.held.is_empty() => return Poll::Ready(None),
                None => {
                    this.seen = 0;
                    return Poll::Ready(Some(Ok(std::mem::take(&mut this.held).into())));
                }
            }
        }
    }
}

fn ends_line(byte: &u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    type Pieces = Vec<Result<Vec<u8>, BoxError>>;

    async fn cut(chunks: impl IntoIterator<Item = Vec<u8>>) -> Pieces {
        let chunks = stream::iter(chunks).map(Ok);
        Lines::new(chunks, 3 * PIECE).take(10_000).collect().await
    }

    async fn pieces(chunks: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
        cut(chunks).await.into_iter().map(Result::unwrap).collect()
    }

    #[tokio::test]
    async fn nothing_is_lost_however_it_is_cut() {
        let long = "x".repeat(PIECE + 7);
        let text = format!("a\n\nb\r\n{long}\nc\r{}d", "\n".repeat(2 * PIECE)).into_bytes();
        for size in [1, 2, 7, PIECE - 1, PIECE + 1, 10 * PIECE] {
            let pieces = pieces(text.chunks(size).map(<[u8]>::to_vec)).await;
            assert_eq!(pieces.concat(), text);
            let (last, whole) = pieces.split_last().unwrap();
            assert_eq!(last, b"d");
            for piece in whole {
                assert!(piece.last().is_some_and(ends_line), "{size}");
                assert!(piece.len() <= PIECE || piece.starts_with(b"xxx"), "{size}");
            }
        }
    }

    #[tokio::test]
    async fn a_line_has_a_bound() {
        let just = vec![b'x'; 3 * PIECE];
        assert_eq!(pieces([just.clone()]).await, std::slice::from_ref(&just));
        let mut pieces = cut([just, b"x".to_vec()]).await;
        let error = pieces.swap_remove(0).unwrap_err();
        assert!(
            matches!(*error.downcast().unwrap(), Error::TooLarge { most, .. } if most == 3 * PIECE)
        );
    }

    #[tokio::test]
    async fn a_reply_has_a_bound() {
        let chunks = stream::iter(["one", "two", "3", "4"]).map(Ok::<_, BoxError>);
        let heard: Vec<_> = counted(chunks, 7).collect().await;
        assert!(matches!(&heard[..], [Ok("one"), Ok("two"), Ok("3"), Err(_)]));
    }
}
