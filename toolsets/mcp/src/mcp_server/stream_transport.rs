//! [`StreamTransport`], the messages of a client over two streams.

use std::future::Future;
use std::pin::Pin;

use rmcp::RoleServer;
use rmcp::model::{ClientRequest, ErrorCode, ErrorData, GetMeta, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, Empty};
use toolwright_signature::readable_json;

use crate::lines::{Line, Lines, MessageScanner, trimmed};

/// A transport that reads lines itself, and writes with rmcp's transport.
///
/// rmcp's own transport ignores requests that it cannot parse, and their clients would wait until
/// their timeouts. This one responds to every request whose id can be found, replaces text that is
/// not Unicode, and ignores notifications before the first request: a client may send
/// `server/discover`, time out, cancel that request with a notification, and then start a
/// handshake. rmcp rejects a session that starts with a notification.
pub(crate) struct StreamTransport<R, W: AsyncWrite> {
    lines: Lines<R>,
    write: AsyncRwTransport<RoleServer, Empty, W>,
    max_bytes: usize,
    started: bool,
    /// A response that is being sent. It is kept here because `receive` may be dropped.
    sending: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<R, W> StreamTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// `max_bytes` is the maximum size of a request.
    pub(crate) fn new(read: R, write: W, max_bytes: usize) -> Self {
        let write = AsyncRwTransport::new_server(tokio::io::empty(), write);
        let lines = Lines::new(read, max_bytes);
        Self { lines, write, max_bytes, started: false, sending: None }
    }

    fn reject(&mut self, error: ErrorData, id: Option<Value>) {
        let id = id.and_then(|id| serde_json::from_value(id).ok());
        let sending = self.write.send(JsonRpcMessage::error(error, id));
        self.sending = Some(Box::pin(async {
            // A lost connection is noticed when the next message is received.
            let _ = sending.await;
        }));
    }

    /// Returns the message of a line. If it is not a message, starts to send the error, unless the
    /// line is a notification or not JSON, for which there is no response.
    fn message(&mut self, line: Line) -> Option<RxJsonRpcMessage<RoleServer>> {
        let line = match line {
            Line::Whole(line) => line,
            Line::Oversized(scan) => {
                tracing::warn!(max_bytes = self.max_bytes, "a message of a client is too large");
                let text =
                    format!("the request has more than {} bytes, the maximum", self.max_bytes);
                let is_request = scan.has_method() && scan.id().is_some();
                let is_response = scan.id().is_some() && !scan.has_method();
                if is_request || !(is_response || scan.is_notification()) {
                    self.reject(ErrorData::invalid_request(text, None), scan.id());
                }
                return None;
            }
        };
        let line = trimmed(&line);
        if line.is_empty() {
            return None;
        }
        match serde_json::from_slice(line) {
            Ok(message) => return Some(message),
            Err(error) => tracing::debug!(%error, "a message of a client cannot be read"),
        }
        let readable = readable_json(line);
        if let Ok(message) = serde_json::from_str(&readable) {
            return Some(message);
        }
        if let Some((error, id)) = unreadable(line) {
            self.reject(error, id);
        }
        None
    }
}

/// Returns the error for a message that cannot be read, and its id, unless it gets no response.
pub(crate) fn unreadable(message: &[u8]) -> Option<(ErrorData, Option<Value>)> {
    let scan = MessageScanner::of(message);
    if let Some(id) = scan.id().filter(|_| scan.has_method()) {
        let text = "the request is not valid JSON, or has more than 127 levels";
        return Some((ErrorData::new(ErrorCode::PARSE_ERROR, text, None), Some(id)));
    }
    // Text that is not JSON may be anything. A response to it may cause the next such text.
    let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(message).is_ok();
    let is_answerable = is_json && !scan.is_notification() && scan.id().is_none();
    is_answerable.then(|| (ErrorData::invalid_request("Invalid request", None), None))
}

impl<R, W> Transport<RoleServer> for StreamTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.write.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(sending) = &mut self.sending {
                sending.await;
                self.sending = None;
            }
            let line = match self.lines.next().await {
                Ok(line) => line?,
                Err(error) => {
                    tracing::warn!(%error, "the input of a client cannot be read");
                    return None;
                }
            };
            let Some(message) = self.message(line) else { continue };
            if let JsonRpcMessage::Request(message) = &message {
                self.started |= starts_session(&message.request);
            } else if !self.started {
                continue;
            }
            return Some(message);
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.write.close().await
    }
}

/// Returns whether a request selects the revision of the protocol.
fn starts_session(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::DiscoverRequest(_) | ClientRequest::PingRequest(_) => false,
        request => request.get_meta().protocol_version().is_some(),
    }
}
