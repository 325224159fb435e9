use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::stream::{self, StreamExt};

use super::{Capabilities, Delta, LanguageModel, Reply, Request, SettingSet, Settings};
use crate::error::{Audience, ContextExceeded, Error, Result, Stage};
use crate::usage::Usage;

/// A language model that asks other models in order until one of them replies.
///
/// The next model is asked if the error is retryable or its stage is
/// [`Transport`](Stage::Transport), [`Provider`](Stage::Provider) or [`Decoding`](Stage::Decoding).
/// This includes a conversation that is [longer than the model's
/// context](Error::context_exceeded), because the next model may have a larger one. A stream falls back
/// only before its first piece. Each failure is logged; the error is that of the
/// last model. If the conversation was too long for one of the models, the error says so, so that an agent
/// can shorten it.
///
/// The models may be of different providers. Agents and predictors check their schemas for each,
/// and a provider leaves out what only another one understands, such as signed reasoning. Media by
/// a file id of one provider cannot be sent to another.
///
/// Name, provider and service are those of the first model, and so is the price, unless the same service
/// has one for the name that the server reports. The reply's usage contains the failed attempts. A budget
/// in money should therefore have the highest price of all models under the first one's name.
///
/// ```
/// use toolwright_module::error::Stage;
/// use toolwright_module::model::Fallback;
/// use toolwright_module::testing::Scripted;
/// use toolwright_module::{Error, LanguageModel, Message, Reply, Request};
///
/// let first = Scripted::new(|_| Err(Error::other("overloaded").at(Stage::Provider)));
/// let second = Scripted::new(|_| Ok(Reply::text("Hello.")));
/// let model = Fallback::new(first).or(second);
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let reply = model.generate(&Request::new([Message::user("Hi!")])).await?;
/// assert_eq!(reply.to_text(), "Hello.");
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Fallback {
    first: Arc<dyn LanguageModel>,
    others: Vec<Arc<dyn LanguageModel>>,
    capabilities: Capabilities,
    settings: Option<Settings>,
}

impl Fallback {
    /// Returns a model that asks this one first.
    pub fn new(model: impl LanguageModel) -> Self {
        let (capabilities, settings) = (model.capabilities(), model.settings().cloned());
        Self { first: Arc::new(model), others: Vec::new(), capabilities, settings }
    }

    /// Adds a model that is asked if those before it fail. The capabilities are then those that all
    /// models have, with the dialects of all.
    #[must_use]
    pub fn or(mut self, model: impl LanguageModel) -> Self {
        self.capabilities = common(self.capabilities, model.capabilities());
        self.settings = with_larger_maximum(self.settings, model.settings());
        self.others.push(Arc::new(model));
        self
    }
}

/// Returns the capabilities that both models have.
fn common(ours: Capabilities, theirs: Capabilities) -> Capabilities {
    let settings = ours.settings.iter().filter(|setting| theirs.settings.has(*setting));
    let all = theirs.dialects().chain(ours.dialects());
    Capabilities {
        structured_output: ours.structured_output && theirs.structured_output,
        tools: ours.tools && theirs.tools,
        images: ours.images && theirs.images,
        documents: ours.documents && theirs.documents,
        audio: ours.audio && theirs.audio,
        settings: settings.fold(SettingSet::NONE, SettingSet::with),
        ..all.fold(Capabilities::new(ours.dialect), Capabilities::with_other_dialect)
    }
}

/// Returns the settings of the first model, with the larger maximum of output tokens: a ledger
/// reserves it.
fn with_larger_maximum(first: Option<Settings>, other: Option<&Settings>) -> Option<Settings> {
    let set = |settings: Option<&Settings>| settings.and_then(|set| set.max_output_tokens);
    let (ours, theirs) = (set(first.as_ref()), set(other));
    if ours.is_none() && theirs.is_none() {
        return first;
    }
    let most = |tokens: Option<u64>| tokens.unwrap_or(Request::MAX_OUTPUT_TOKENS);
    let larger = most(ours).max(most(theirs));
    Some(first.unwrap_or_default().with_max_output_tokens(larger))
}

/// Logs a failure that the caller does not see.
fn note(error: &Error, next: &dyn LanguageModel) {
    tracing::warn!(%error, next = next.name(), "a model failed; the next one is asked");
}

fn falls_back(error: &Error) -> bool {
    let elsewhere = matches!(error.stage(), Stage::Transport | Stage::Provider | Stage::Decoding);
    error.audience() != Audience::Run && (elsewhere || error.is_retryable())
}

impl LanguageModel for Fallback {
    fn name(&self) -> &str {
        self.first.name()
    }

    fn provider(&self) -> &str {
        self.first.provider()
    }

    fn service(&self) -> Option<&str> {
        self.first.service()
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn settings(&self) -> Option<&Settings> {
        self.settings.as_ref()
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            let mut failed = Failed::default();
            let mut ended = self.first.generate(request).await;
            for model in &self.others {
                match ended {
                    Err(error) if falls_back(&error) => {
                        note(&error, &**model);
                        failed.add(&error);
                    }
                    ended => return failed.added_to(ended),
                }
                ended = model.generate(request).await;
            }
            failed.added_to(ended)
        })
    }

    fn stream<'a>(&'a self, request: Request) -> BoxStream<'a, Result<Delta>> {
        let began = async move {
            let (mut failed, mut model) = (Failed::default(), &self.first);
            let mut others = self.others.iter();
            loop {
                let mut deltas = model.stream(request.clone());
                match (deltas.next().await, others.next()) {
                    (Some(Err(error)), Some(other)) if falls_back(&error) => {
                        note(&error, &**other);
                        failed.add(&error);
                        model = other;
                    }
                    (first, _) => {
                        let deltas = stream::iter(first).chain(deltas);
                        return deltas.map(move |delta| match delta {
                            Ok(Delta::Done(reply)) => {
                                Ok(Delta::Done(Box::new(failed.added_to_reply(*reply))))
                            }
                            Err(error) => Err(failed.added_to_error(error)),
                            delta => delta,
                        });
                    }
                }
            }
        };
        stream::once(began).flatten().boxed()
    }
}

/// Returns the usage of a failed call. A provider that rejected it used nothing.
fn usage_of(error: &Error) -> Usage {
    error.known_usage().unwrap_or_else(|| match error.stage() {
        Stage::Setup | Stage::Provider => Usage::default(),
        _ => Usage::unknown(),
    })
}

/// What is known of the calls that failed before the last one.
#[derive(Clone, Copy, Default)]
struct Failed {
    usage: Usage,
    /// The largest context for which the conversation was too long: it needs the least shortening.
    exceeded: Option<ContextExceeded>,
}

impl Failed {
    fn add(&mut self, error: &Error) {
        self.usage += usage_of(error);
        self.exceeded = self.with_larger(error);
    }

    fn with_larger(&self, error: &Error) -> Option<ContextExceeded> {
        let both = self.exceeded.into_iter().chain(error.context_exceeded());
        both.max_by_key(|exceeded| exceeded.window)
    }

    fn added_to(self, ended: Result<Reply>) -> Result<Reply> {
        ended.map(|reply| self.added_to_reply(reply)).map_err(|error| self.added_to_error(error))
    }

    fn added_to_reply(self, mut reply: Reply) -> Reply {
        reply.usage += self.usage;
        reply
    }

    fn added_to_error(self, error: Error) -> Error {
        let error = match self.with_larger(&error) {
            Some(exceeded) => error.with_context_exceeded(exceeded),
            None => error,
        };
        if self.usage == Usage::default() {
            return error;
        }
        let usage = usage_of(&error) + self.usage;
        error.with_usage(usage)
    }
}

impl fmt::Debug for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = std::iter::once(&self.first).chain(&self.others).map(|model| model.name());
        f.debug_tuple("Fallback").field(&names.collect::<Vec<_>>()).finish()
    }
}
