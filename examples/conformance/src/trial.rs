//! [`Trial`]: one script on one provider.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::{Instant, sleep};
use toolwright_module::message::ReplyPart;
use toolwright_module::model::Delta;
use toolwright_module::{Context, Error, LanguageModel, Reply, Request, Tool};
use toolwright_orchestrator::{Agent, Finished, Task};
use toolwright_provider::ProviderError;

use crate::server::{ContractServer, Seen};
use crate::{Check, Provider, Wire};

/// Whether replies are requested whole or as a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Whole,
    Streamed,
}

/// One script on one provider, in one mode.
#[derive(Clone)]
pub(crate) struct Trial {
    pub(crate) model: Arc<dyn LanguageModel>,
    pub(crate) wire: Wire,
    pub(crate) mode: Mode,
    server: Arc<ContractServer>,
}

impl Trial {
    pub(crate) fn new(
        provider: &Provider,
        mode: Mode,
        server: &Arc<ContractServer>,
    ) -> Check<Self> {
        let model = (provider.model)(&server.url)?;
        Ok(Self { model, wire: provider.wire, mode, server: Arc::clone(server) })
    }

    /// Returns the trial with another provider on the same server.
    pub(crate) fn with_provider(&self, provider: &Provider) -> Check<Self> {
        Self::new(provider, self.mode, &self.server)
    }

    /// Asks the model, whole or streamed.
    ///
    /// The outer error is a fault of the provider: the pieces of a stream are not its reply.
    pub(crate) async fn ask(&self, request: Request) -> Check<Result<Reply, Error>> {
        match self.mode {
            Mode::Whole => Ok(self.model.generate(&request).await),
            Mode::Streamed => collect(&*self.model, request).await,
        }
    }

    /// Runs an agent with tools, whole or streamed.
    pub(crate) async fn run(
        &self,
        tools: impl IntoIterator<Item = Tool>,
        task: impl Into<Task>,
    ) -> Check<Finished> {
        let agent = Agent::new(Arc::clone(&self.model), tools)?;
        Ok(agent.run(task, &self.context()).await?)
    }

    /// Returns a context in which agents stream, if the trial does.
    pub(crate) fn context(&self) -> Context {
        match self.mode {
            Mode::Whole => Context::default(),
            Mode::Streamed => Context::default().with_events(|_| {}),
        }
    }

    /// Returns the requests so far, as soon as there are `count`.
    pub(crate) async fn seen(&self, count: usize) -> Check<Vec<Seen>> {
        let until = Instant::now() + Duration::from_secs(3);
        loop {
            let seen = self.server.seen()?;
            if seen.len() >= count || Instant::now() > until {
                return Ok(seen);
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Reads a stream to its end, and checks that its pieces are those of the reply.
async fn collect(model: &dyn LanguageModel, request: Request) -> Check<Result<Reply, Error>> {
    let mut stream = model.stream(request);
    let (mut text, mut reasoning) = (String::new(), String::new());
    let mut calls = BTreeMap::<usize, (String, String)>::new();
    let result = loop {
        match stream.next().await {
            None => return Err("the stream ends without a reply or an error".into()),
            Some(Ok(Delta::Text(piece))) => text += &piece,
            Some(Ok(Delta::Reasoning(piece))) => reasoning += &piece,
            Some(Ok(Delta::Call { index, name, arguments })) => {
                let call = calls.entry(index).or_default();
                call.0 = name;
                call.1 += &arguments;
            }
            Some(Ok(Delta::Done(reply))) => break Ok(*reply),
            Some(Ok(other)) => return Err(format!("an unknown piece: {other:?}").into()),
            Some(Err(error)) => break Err(error),
        }
    };
    if stream.next().await.is_some() {
        return Err("something follows the end of the stream".into());
    }
    let Ok(reply) = &result else { return Ok(result) };
    if reply.to_text() != text {
        return Err(format!("the pieces are {text:?}, the reply is {:?}", reply.to_text()).into());
    }
    let shown = reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Reasoning(reasoning) => Some(&*reasoning.text),
        _ => None,
    });
    let shown: String = shown.collect();
    if shown != reasoning {
        return Err(format!("the pieces of reasoning are {reasoning:?}, not {shown:?}").into());
    }
    let whole = reply.tool_calls().map(|call| (call.name.clone(), call.arguments.clone()));
    // A call without arguments has an empty object in the reply.
    let pieces = calls.into_values().map(|(name, arguments)| match arguments.is_empty() {
        true => (name, "{}".to_owned()),
        false => (name, arguments),
    });
    let (whole, pieces): (Vec<_>, Vec<_>) = (whole.collect(), pieces.collect());
    if whole != pieces {
        return Err(format!("the pieces of calls are {pieces:?}, not {whole:?}").into());
    }
    Ok(result)
}

/// Returns the error of a provider inside an error of a call.
pub(crate) fn own(error: &Error) -> Check<&ProviderError> {
    let own = error.downcast_ref::<ProviderError>();
    own.ok_or_else(|| format!("not a `ProviderError`: {error:#}").into())
}

/// Checks that two values are equal. `what` names them.
pub(crate) fn same<T: PartialEq<U> + std::fmt::Debug, U: std::fmt::Debug>(
    what: &str,
    is: T,
    expected: U,
) -> Check {
    match is == expected {
        true => Ok(()),
        false => Err(format!("{what} is {is:?}, expected {expected:?}").into()),
    }
}
