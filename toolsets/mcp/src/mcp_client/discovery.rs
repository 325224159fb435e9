//! [`Discovery`], the wait for a response to `server/discover`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, DiscoverRequestMethod, ErrorData, RequestId};
use rmcp::service::RxJsonRpcMessage;

/// The wait for the response to `server/discover`, which some older servers ignore.
///
/// rmcp waits ten seconds before it begins a handshake. After a shorter time, this gives rmcp the
/// response of a server that does not know the request.
#[derive(Clone, Default)]
pub(crate) struct Discovery {
    time: Duration,
    sent: Option<(RequestId, Instant)>,
    given_up: Option<RequestId>,
    /// The request of the handshake without a response.
    handshake: Option<RequestId>,
    /// When the late result came.
    late_since: Option<Instant>,
    /// Whether a request had no response in time, in any copy of this value.
    is_unanswered: Arc<AtomicBool>,
    /// Whether the server's result came after that, in any copy of this value.
    is_late: Arc<AtomicBool>,
}

impl Discovery {
    pub(crate) fn new(time: Duration) -> Self {
        Self { time, ..Self::default() }
    }

    /// Notes that a request is sent.
    pub(crate) fn sent(&mut self, request: &ClientRequest, id: &RequestId) {
        if is_discovery(request) {
            self.sent = Some((id.clone(), Instant::now()));
        } else if matches!(request, ClientRequest::InitializeRequest(_)) {
            self.handshake = Some(id.clone());
        }
    }

    /// Returns the rest of the time, if there is a request without a response. After a late result,
    /// it is that of the handshake, which the server may not know.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let since = match &self.sent {
            Some((_, since)) => *since,
            None => self.late_since.filter(|_| self.handshake.is_some())?,
        };
        Some(self.time.saturating_sub(since.elapsed()))
    }

    /// Returns the error response in place of the server's.
    pub(crate) fn give_up(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let (id, _) = self.sent.take()?;
        self.given_up = Some(id.clone());
        Some(self.error(id))
    }

    /// Returns the error response to a request, and notes that the server did not respond in time.
    pub(crate) fn error(&self, id: RequestId) -> RxJsonRpcMessage<RoleClient> {
        self.is_unanswered.store(true, Ordering::Relaxed);
        let error = ErrorData::method_not_found::<DiscoverRequestMethod>();
        RxJsonRpcMessage::<RoleClient>::error(error, Some(id))
    }

    /// Returns whether a response with this id may be passed on. A late one may not, but is noted
    /// if it is a result.
    pub(crate) fn takes(&mut self, id: &RequestId, is_result: bool) -> bool {
        self.sent.take_if(|(sent, _)| same_id(sent, id));
        let is_late = self.given_up.as_ref().is_some_and(|given_up| same_id(given_up, id));
        self.handshake.take_if(|handshake| same_id(handshake, id));
        if is_late && is_result {
            self.late_since = Some(Instant::now());
            self.is_late.store(true, Ordering::Relaxed);
        }
        !is_late
    }

    #[cfg(feature = "http-client")]
    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    pub(crate) fn is_unanswered(&self) -> bool {
        self.is_unanswered.load(Ordering::Relaxed)
    }

    /// Returns whether the server knows the request, but was slow.
    pub(crate) fn is_late(&self) -> bool {
        self.is_late.load(Ordering::Relaxed)
    }
}

pub(crate) fn is_discovery(request: &ClientRequest) -> bool {
    matches!(request, ClientRequest::DiscoverRequest(_))
}

/// Returns whether a response has the id of a request. Some servers send numbers as strings.
pub(crate) fn same_id(request: &RequestId, response: &RequestId) -> bool {
    request == response || request.to_string() == response.to_string()
}
