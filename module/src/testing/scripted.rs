use std::fmt;

use futures_core::future::BoxFuture;
use toolwright_signature::Dialect;

use crate::error::Result;
use crate::language_model::{Capabilities, LanguageModel, Reply, Request};

/// A model that answers what a closure says.
///
/// The closure sees the whole request, so a test can check what was sent.
///
/// ```
/// use toolwright_module::testing::Scripted;
/// use toolwright_module::{Error, LanguageModel, Message, Reply, Request, Stage};
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
}

impl<F> Scripted<F>
where
    F: Fn(&Request) -> Result<Reply> + Send + Sync + 'static,
{
    /// A model that answers what `answer` says.
    pub fn new(answer: F) -> Self {
        Self { answer, capabilities: Capabilities::new(Dialect::JsonSchema2020) }
    }

    /// The same model, claiming to be able to do this.
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
        Box::pin(async move { (self.answer)(request) })
    }
}

impl<F> fmt::Debug for Scripted<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").finish_non_exhaustive()
    }
}
