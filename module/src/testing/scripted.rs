//! A model whose replies come from a closure.
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::stream::{self, StreamExt};

use crate::error::{Error, Result, Stage};
use crate::model::{Capabilities, Delta, LanguageModel, Reply, Request};
use crate::testing::words::words;

/// A model whose replies come from a closure.
///
/// The closure gets the whole request, so a test can check what was sent. The model takes
/// no schemas by default, so predictors put their schema into the prompt
/// ([`OutputMode::Prompted`](crate::predict::OutputMode::Prompted)). Change that with
/// [`with_capabilities`](Scripted::with_capabilities).
///
/// ```
/// use toolwright_module::testing::Scripted;
/// use toolwright_module::{Error, LanguageModel, Message, Reply, Request};
/// use toolwright_module::error::Stage;
///
/// let model = Scripted::new(|request| match request.messages.len() {
///     1 => Ok(Reply::text("first")),
///     _ => Err(Error::other("connection lost").at(Stage::Transport).retryable(true)),
/// });
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let reply = model.generate(&Request::new([Message::user("Hi.")])).await?;
/// assert_eq!(reply.to_text(), "first");
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Scripted<F> {
    answer: F,
    capabilities: Capabilities,
    requests: Mutex<Vec<Request>>,
}

impl Scripted<()> {
    /// Returns a model that gives these replies in order, and an error after the last.
    ///
    /// ```
    /// # use toolwright_module::testing::Scripted;
    /// # use toolwright_module::{LanguageModel, Message, Reply, Request};
    /// let model = Scripted::replies([Reply::text("one"), Reply::text("two")]);
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let question = Request::new([Message::user("Count.")]);
    /// assert_eq!(model.generate(&question).await?.to_text(), "one");
    /// assert_eq!(model.generate(&question).await?.to_text(), "two");
    /// assert!(model.generate(&question).await.is_err());
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replies(
        replies: impl IntoIterator<Item = Reply>,
    ) -> Scripted<impl Fn(&Request) -> Result<Reply> + Send + Sync + 'static> {
        let replies: Vec<Reply> = replies.into_iter().collect();
        let next = AtomicUsize::new(0);
        Scripted::new(move |_| {
            let reply = replies.get(next.fetch_add(1, Ordering::Relaxed)).cloned();
            reply.ok_or_else(|| {
                let text =
                    format!("the script has {} replies and was asked for one more", replies.len());
                Error::stop(text).at(Stage::Setup)
            })
        })
    }
}

impl<F> Scripted<F>
where
    F: Fn(&Request) -> Result<Reply> + Send + Sync + 'static,
{
    /// Returns a model with the replies of `answer`.
    pub fn new(answer: F) -> Self {
        let all = super::all_capabilities();
        let capabilities = Capabilities { structured_output: false, tools: false, ..all };
        Self { answer, capabilities, requests: Mutex::default() }
    }

    /// Returns the requests so far, in order.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolwright_module::testing::Scripted;
    /// use toolwright_module::{LanguageModel, Message, Reply, Request};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let model = Arc::new(Scripted::replies([Reply::text("Hello.")]));
    /// // An agent or a predictor gets a clone of the `Arc`.
    /// model.generate(&Request::new([Message::user("Hi!")])).await?;
    /// assert_eq!(model.requests()[0].messages, [Message::user("Hi!")]);
    /// # Ok::<(), toolwright_module::Error>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn answer(&self, request: &Request) -> Result<Reply> {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.push(request.clone());
        drop(requests);
        (self.answer)(request)
    }

    /// Sets the model's capabilities.
    #[must_use]
    pub fn with_capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }
}

impl<F> LanguageModel for Scripted<F>
where
    F: Fn(&Request) -> Result<Reply> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        "scripted"
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move { self.answer(request) })
    }

    /// Streams the reply word by word.
    fn stream<'a>(&'a self, request: Request) -> BoxStream<'a, Result<Delta>> {
        stream::once(async move { words(self.answer(&request)) }).flatten().boxed()
    }
}

impl<F> fmt::Debug for Scripted<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").finish_non_exhaustive()
    }
}
