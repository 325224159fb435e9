//! The model calls of an attempt: recorded, or answered from a recording.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use toolwright_module::error::Stage;
use toolwright_module::hook::{AskNext, Hook};
use toolwright_module::model::{Capabilities, LanguageModel, Reply, Request};
use toolwright_module::testing::{Recording, Replay};
use toolwright_module::{Contract, Error, Result};
use toolwright_signature::ContractChange;

use crate::error::RECORD;

/// The model calls of one attempt and its graders.
pub(crate) struct Tape {
    mode: Mode,
    did: Mutex<Did>,
}

enum Mode {
    /// Ask the model, and keep its replies for this file.
    Record(PathBuf),
    Replay {
        replay: Replay,
        contracts: Vec<Vec<Arc<Contract>>>,
    },
}

#[derive(Default)]
struct Did {
    model: Option<String>,
    exchanges: Vec<(Request, Reply)>,
    answered: usize,
    misfit: Option<Misfit>,
}

/// Why a recording no longer fits.
#[derive(Debug, Clone)]
pub(crate) struct Misfit {
    /// The error.
    pub(crate) reason: String,
    /// The changed contracts, in words, by their names.
    pub(crate) changes: BTreeMap<String, Vec<String>>,
}

impl Tape {
    pub(crate) fn record(path: PathBuf) -> Self {
        Self { mode: Mode::Record(path), did: Mutex::default() }
    }

    pub(crate) fn replay(recording: Recording) -> Self {
        let contracts = recording.exchanges.iter().map(|one| contracts_of(&one.request)).collect();
        let mode = Mode::Replay { replay: Replay::new(recording), contracts };
        Self { mode, did: Mutex::default() }
    }

    fn did<T>(&self, change: impl FnOnce(&mut Did) -> T) -> T {
        change(&mut self.did.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns why the recording did not fit, if it did not.
    pub(crate) fn misfit(&self) -> Option<Misfit> {
        self.did(|did| did.misfit.clone())
    }

    /// Returns the recording and its path, if the attempt was recorded.
    pub(crate) fn recorded(&self) -> Option<(&PathBuf, Recording)> {
        let Mode::Record(path) = &self.mode else { return None };
        let recording = self.did(|did| {
            let model = did.model.clone().unwrap_or_default();
            Recording::new(model, std::mem::take(&mut did.exchanges))
        });
        Some((path, recording))
    }

    async fn answer(&self, request: Request, next: AskNext<'_>) -> Result<Reply> {
        let (replay, contracts) = match &self.mode {
            Mode::Record(_) => {
                let reply = next.run(request.clone()).await?;
                self.did(|did| {
                    did.model.get_or_insert_with(|| next.model.name().to_owned());
                    did.exchanges.push((request, reply.clone()));
                });
                return Ok(reply);
            }
            Mode::Replay { replay, contracts } => (replay, contracts),
        };
        let reply = replay.generate(&request).await.map_err(|error| {
            let at = self.did(|did| did.answered);
            let before = contracts.get(at).or(contracts.last());
            let changes = before.map(|before| changes(before, &contracts_of(&request)));
            let changes = changes.unwrap_or_default();
            let reason = reason(&error, &changes);
            self.did(|did| {
                did.misfit.get_or_insert(Misfit { reason: reason.clone(), changes });
            });
            Error::stop(reason).at(Stage::Setup)
        })?;
        self.did(|did| did.answered += 1);
        // The reply passes the hooks, the ledger and the listeners like one of the model itself.
        let recorded = RecordedReply {
            name: next.model.name().to_owned(),
            provider: next.model.provider().to_owned(),
            service: next.model.service().map(ToOwned::to_owned),
            capabilities: next.model.capabilities(),
            reply,
        };
        let mut next = next;
        next.model = &recorded;
        next.run(request).await
    }
}

/// The hook of a tape.
pub(crate) struct Plays(pub(crate) Arc<Tape>);

impl Hook for Plays {
    fn name(&self) -> &str {
        "recording"
    }

    async fn model(&self, request: Request, next: AskNext<'_>) -> Result<Reply> {
        self.0.answer(request, next).await
    }
}

fn contracts_of(request: &Request) -> Vec<Arc<Contract>> {
    request.tools.iter().chain(&request.output).cloned().collect()
}

fn changes(before: &[Arc<Contract>], now: &[Arc<Contract>]) -> BTreeMap<String, Vec<String>> {
    let owned = |contracts: &[Arc<Contract>]| -> Vec<Contract> {
        contracts.iter().map(|contract| (**contract).clone()).collect()
    };
    let mut changes = BTreeMap::<String, Vec<String>>::new();
    for change in ContractChange::between(&owned(before), &owned(now)) {
        changes.entry(change.contract.clone()).or_default().push(change.to_string());
    }
    changes
}

/// Returns why a recording does not fit. The changes are in the report, so their texts are not in it.
fn reason(error: &Error, changes: &BTreeMap<String, Vec<String>>) -> String {
    let names: Vec<_> = changes.keys().map(|name| format!("`{name}`")).collect();
    let changed = match names.len() {
        0 => return error.to_string(),
        1 => "the contract",
        _ => "the contracts",
    };
    format!(
        "{changed} {} changed since the recording; to record the cases again, set {RECORD}=1 and run the eval with a real model",
        names.join(", ")
    )
}

/// One recorded reply, as a model.
struct RecordedReply {
    name: String,
    provider: String,
    service: Option<String>,
    capabilities: Capabilities,
    reply: Reply,
}

impl LanguageModel for RecordedReply {
    fn name(&self) -> &str {
        &self.name
    }

    fn provider(&self) -> &str {
        &self.provider
    }

    fn service(&self) -> Option<&str> {
        self.service.as_deref()
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn generate<'a>(&'a self, _request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async { Ok(self.reply.clone()) })
    }
}
