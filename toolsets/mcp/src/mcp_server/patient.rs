use rmcp::RoleServer;
use rmcp::model::{ClientRequest, GetMeta, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// A transport that passes over what comes before anything was asked.
///
/// A client that asks which revisions there are, waits too little and goes on with a
/// handshake first takes its question back. To rmcp that is no way to begin.
pub(crate) struct Patient<T> {
    transport: T,
    begun: bool,
}

impl<T> Patient<T> {
    pub(crate) fn new(transport: T) -> Self {
        Self { transport, begun: false }
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
            let message = self.transport.receive().await?;
            if let JsonRpcMessage::Request(asked) = &message {
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

/// Whether a client that asks this has chosen its revision.
fn begins(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::DiscoverRequest(_) | ClientRequest::PingRequest(_) => false,
        request => request.get_meta().protocol_version().is_some(),
    }
}
