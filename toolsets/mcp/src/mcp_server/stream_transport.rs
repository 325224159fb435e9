//! [`StreamTransport`], rmcp's transport over two streams with two fixes.

use std::future::Future;
use std::pin::Pin;

use rmcp::RoleServer;
use rmcp::model::{ClientRequest, ErrorData, GetMeta, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use crate::mcp_server::line_limit::OVERSIZED;

/// A transport that responds to oversized requests, and that ignores notifications before the
/// first request.
///
/// A client may send `server/discover`, time out, cancel that request with a notification, and
/// then start a handshake. rmcp rejects a session that starts with a notification.
pub(crate) struct StreamTransport<T> {
    transport: T,
    max_bytes: usize,
    started: bool,
    /// A response that is being sent. It is kept here because `receive` may be dropped.
    sending: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<T> StreamTransport<T> {
    /// `max_bytes` is the maximum size of a request, for the error message.
    pub(crate) fn new(transport: T, max_bytes: usize) -> Self {
        Self { transport, max_bytes, started: false, sending: None }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for StreamTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.transport.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(sending) = &mut self.sending {
                sending.await;
                self.sending = None;
            }
            let message = self.transport.receive().await?;
            if let JsonRpcMessage::Request(message) = &message {
                if is_oversized(&message.request) {
                    let text =
                        format!("the request has more than {} bytes, the maximum", self.max_bytes);
                    let error = ErrorData::invalid_request(text, None);
                    let response = JsonRpcMessage::error(error, Some(message.id.clone()));
                    let sending = self.transport.send(response);
                    self.sending = Some(Box::pin(async {
                        // A lost connection is noticed when the next message is received.
                        let _ = sending.await;
                    }));
                    continue;
                }
                self.started |= starts_session(&message.request);
            } else if !self.started {
                continue;
            }
            return Some(message);
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await
    }
}

fn is_oversized(request: &ClientRequest) -> bool {
    matches!(request, ClientRequest::CustomRequest(custom) if custom.method == OVERSIZED)
}

/// Returns whether a request selects the revision of the protocol.
fn starts_session(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::DiscoverRequest(_) | ClientRequest::PingRequest(_) => false,
        request => request.get_meta().protocol_version().is_some(),
    }
}
