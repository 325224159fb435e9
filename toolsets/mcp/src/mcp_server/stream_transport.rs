//! [`StreamTransport`], the messages of a client over two streams.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;

use rmcp::RoleServer;
use rmcp::model::{
    ClientNotification, ClientRequest, ErrorData, GetExtensions, GetMeta, JsonRpcMessage, RequestId,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, Empty};

use crate::lines::{Line, Lines, trimmed};
use crate::mcp_server::request::{Request, unreadable};

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
    /// The requests without a response.
    open: HashSet<RequestId>,
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
        Self { lines, write, max_bytes, started: false, open: HashSet::new(), sending: None }
    }

    fn reject(&mut self, error: ErrorData, id: Option<Value>) {
        let id = id.and_then(|id| serde_json::from_value(id).ok());
        let sending = self.write.send(JsonRpcMessage::error(error, id));
        self.sending = Some(Box::pin(async {
            // A lost connection is noticed when the next message is received.
            let _ = sending.await;
        }));
    }

    /// Notes that a request is open, or that it was cancelled. Returns `false` for a request whose id
    /// is that of an open one: of two responses with one id, the client could not know whose they are.
    fn opens(&mut self, message: &RxJsonRpcMessage<RoleServer>) -> bool {
        match message {
            JsonRpcMessage::Request(request) => {
                if self.open.insert(request.id.clone()) {
                    return true;
                }
                let text = "the field `id` is that of a request without a response yet";
                let id = serde_json::to_value(&request.id).ok();
                self.reject(ErrorData::invalid_request(text, None), id);
                false
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open.remove(id);
                }
                true
            }
            _ => true,
        }
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
        let Request { text, arguments } = match Request::read(line) {
            Ok(request) => request,
            Err((error, id)) => {
                self.reject(error, id);
                return None;
            }
        };
        match serde_json::from_str::<RxJsonRpcMessage<RoleServer>>(&text) {
            Ok(mut message) => {
                if let (JsonRpcMessage::Request(request), Some(arguments)) =
                    (&mut message, arguments)
                {
                    request.request.extensions_mut().insert(arguments);
                }
                return Some(message);
            }
            Err(error) => tracing::debug!(%error, "a message of a client cannot be read"),
        }
        if let Some((error, id)) = unreadable(&text) {
            self.reject(error, id);
        }
        None
    }
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
        let id = match &item {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        if let Some(id) = id {
            self.open.remove(id);
        }
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
            if !self.opens(&message) {
                continue;
            }
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
