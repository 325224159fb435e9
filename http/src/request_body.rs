//! [`RequestBody`], and how it is sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// The body of a request: one piece of bytes, or several that are sent one after the other.
///
/// Requests that share a large part, such as the definitions of the same tools, share its bytes.
/// Cloning does not copy them.
///
/// ```
/// use bytes::Bytes;
/// use toolwright_http::RequestBody;
///
/// let tools = Bytes::from_static(b"[]");
/// let _body = RequestBody::from_iter([Bytes::from("{\"tools\":"), tools, Bytes::from("}")]);
/// ```
#[derive(Debug, Clone)]
pub struct RequestBody(Pieces);

#[derive(Debug, Clone)]
enum Pieces {
    One(Bytes),
    Many(Arc<[Bytes]>),
}

impl From<Bytes> for RequestBody {
    fn from(bytes: Bytes) -> Self {
        Self(Pieces::One(bytes))
    }
}

impl From<Vec<u8>> for RequestBody {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<String> for RequestBody {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for RequestBody {
    fn from(text: &'static str) -> Self {
        Bytes::from(text).into()
    }
}

impl FromIterator<Bytes> for RequestBody {
    fn from_iter<I: IntoIterator<Item = Bytes>>(pieces: I) -> Self {
        Self(Pieces::Many(pieces.into_iter().collect()))
    }
}

impl From<RequestBody> for reqwest::Body {
    fn from(body: RequestBody) -> Self {
        match body.0 {
            Pieces::One(bytes) => bytes.into(),
            Pieces::Many(pieces) => {
                let left = pieces.iter().map(|piece| piece.len() as u64).sum();
                Self::wrap(Frames { pieces, next: 0, left })
            }
        }
    }
}

/// The pieces that are not sent yet.
struct Frames {
    pieces: Arc<[Bytes]>,
    next: usize,
    /// Their number of bytes.
    left: u64,
}

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.get(self.next).cloned();
        if let Some(piece) = &piece {
            self.next += 1;
            self.left -= piece.len() as u64;
        }
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
