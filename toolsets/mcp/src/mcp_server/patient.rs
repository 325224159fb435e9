use std::future::Future;
use std::pin::Pin;

use rmcp::RoleServer;
use rmcp::model::{ClientRequest, ErrorData, GetMeta, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use crate::mcp_server::bounded::OVERSIZED;

/// A transport that passes over what comes before anything was asked, and answers requests
/// that were too large to be kept.
///
/// A client that asks which revisions there are, waits too little and goes on with a
/// handshake first takes its question back. To rmcp that is no way to begin.
pub(crate) struct Patient<T> {
    transport: T,
    most: usize,
    begun: bool,
    /// An answer on its way: whoever waits for a message may stop waiting meanwhile.
    answering: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<T> Patient<T> {
    /// `most` is how many bytes a request may have.
    pub(crate) fn new(transport: T, most: usize) -> Self {
        Self { transport, most, begun: false, answering: None }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Patient<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.transport.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(answering) = &mut self.answering {
                answering.await;
                self.answering = None;
            }
            let message = self.transport.receive().await?;
            if let JsonRpcMessage::Request(asked) = &message {
                if is_oversized(&asked.request) {
                    let most = self.most;
                    let text =
                        format!("the request has more than {most} bytes, which is too large");
                    let error = ErrorData::invalid_request(text, None);
                    let answer = JsonRpcMessage::error(error, Some(asked.id.clone()));
                    let sending = self.transport.send(answer);
                    self.answering = Some(Box::pin(async {
                        // A connection that is lost is noticed where messages come from.
                        let _ = sending.await;
                    }));
                    continue;
                }
                self.begun |= begins(&asked.request);
            } else if !self.begun {
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

/// Whether a client that asks this has chosen its revision.
fn begins(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::DiscoverRequest(_) | ClientRequest::PingRequest(_) => false,
        request => request.get_meta().protocol_version().is_some(),
    }
}
