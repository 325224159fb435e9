use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::stream::{self, StreamExt};
use tokio::sync::Semaphore;

use super::{Capabilities, Delta, LanguageModel, Reply, Request, Settings};
use crate::error::Result;

/// A language model that answers a limited number of requests at the same time.
///
/// Further requests wait in the order in which they came. A streamed reply counts until its stream
/// ends or is dropped. Clones share the limit, so all agents with a clone do.
///
/// ```
/// use toolwright_module::model::ConcurrencyLimit;
/// use toolwright_module::testing::Scripted;
/// use toolwright_module::{LanguageModel, Reply};
///
/// let model = Scripted::new(|_| Ok(Reply::text("Hello.")));
/// let model = ConcurrencyLimit::new(model, 4);
/// assert_eq!(model.name(), "scripted");
/// ```
pub struct ConcurrencyLimit<M> {
    model: Arc<M>,
    permits: Arc<Semaphore>,
}

impl<M: LanguageModel> ConcurrencyLimit<M> {
    /// Returns a model that answers up to `requests` requests at the same time. Minimum: 1.
    pub fn new(model: M, requests: usize) -> Self {
        let permits = Semaphore::new(requests.clamp(1, Semaphore::MAX_PERMITS));
        Self { model: Arc::new(model), permits: Arc::new(permits) }
    }
}

impl<M> Clone for ConcurrencyLimit<M> {
    fn clone(&self) -> Self {
        Self { model: Arc::clone(&self.model), permits: Arc::clone(&self.permits) }
    }
}

impl<M: LanguageModel> LanguageModel for ConcurrencyLimit<M> {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn provider(&self) -> &str {
        self.model.provider()
    }

    fn service(&self) -> Option<&str> {
        self.model.service()
    }

    fn capabilities(&self) -> Capabilities {
        self.model.capabilities()
    }

    fn settings(&self) -> Option<&Settings> {
        self.model.settings()
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            // The semaphore is never closed, so this is always a permit.
            let _permit = self.permits.acquire().await;
            self.model.generate(request).await
        })
    }

    fn stream<'a>(&'a self, request: Request) -> BoxStream<'a, Result<Delta>> {
        let begin = async move {
            let permit = self.permits.acquire().await;
            self.model.stream(request).inspect(move |_| {
                let _held = &permit;
            })
        };
        stream::once(begin).flatten().boxed()
    }
}

impl<M: LanguageModel> fmt::Debug for ConcurrencyLimit<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConcurrencyLimit").field(&self.model.name()).finish()
    }
}
