use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use toolwright_module::{Effect, Policy, Tool};
use toolwright_signature::Contract;

use crate::approval_policy::ApprovalPolicy;
use crate::error::{Result, RunError};
use crate::selector::Selector;

/// What a run knows of its tools: made once, shared by all runs of an orchestrator.
#[derive(Debug)]
pub(crate) struct Tools {
    places: BTreeMap<String, (usize, Effect, Policy)>,
    pub(crate) contracts: Arc<[Arc<Contract>]>,
    pub(crate) known: Arc<[KnownTool]>,
    /// Made once as well: of untyped runs, and of runs to one output.
    selector: OnceLock<Arc<Selector>>,
    typed_selector: OnceLock<(String, Arc<Selector>)>,
}

/// A tool as a stored run remembers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownTool {
    pub(crate) name: String,
    effect: Effect,
    fingerprint: String,
}

impl Tools {
    pub(crate) fn of<'a>(tools: impl IntoIterator<Item = &'a Tool>) -> Result<Self> {
        let (mut places, mut contracts, mut known) = (BTreeMap::new(), Vec::new(), Vec::new());
        for (place, tool) in tools.into_iter().enumerate() {
            let (contract, effect) = (tool.contract(), tool.effect());
            let name = contract.name().to_owned();
            if places.insert(name.clone(), (place, effect, tool.policy())).is_some() {
                return Err(RunError::DuplicateTool { name });
            }
            known.push(KnownTool { name, effect, fingerprint: contract.fingerprint() });
            contracts.push(Arc::clone(contract));
        }
        Ok(Self {
            places,
            contracts: contracts.into(),
            known: known.into(),
            selector: OnceLock::new(),
            typed_selector: OnceLock::new(),
        })
    }

    /// The selector of these tools, or of `contracts`, which has `finish` besides, where
    /// the run ends with an output.
    pub(crate) fn selector(
        &self,
        contracts: &[Arc<Contract>],
        output: Option<&Contract>,
    ) -> Result<Arc<Selector>> {
        let Some(output) = output.map(Contract::fingerprint) else {
            if let Some(selector) = self.selector.get() {
                return Ok(Arc::clone(selector));
            }
            let selector = Arc::new(Selector::new(contracts, false)?);
            return Ok(Arc::clone(self.selector.get_or_init(|| selector)));
        };
        match self.typed_selector.get() {
            Some((known, selector)) if *known == output => Ok(Arc::clone(selector)),
            _ => {
                let selector = Arc::new(Selector::new(contracts, true)?);
                // Others came first: then theirs is kept, and this made again each time.
                let _ = self.typed_selector.set((output, Arc::clone(&selector)));
                Ok(selector)
            }
        }
    }

    /// The tools of a typed run, `finish` at the end.
    pub(crate) fn typed(&self, output: &Contract) -> Result<Arc<[Arc<Contract>]>> {
        if self.has(Contract::FINISH) {
            return Err(RunError::ReservedTool);
        }
        let finish = Arc::new(output.finish()?);
        Ok(self.contracts.iter().cloned().chain([finish]).collect())
    }

    /// Whether these are the tools that a run knows, by name, effect and contract.
    pub(crate) fn are(&self, before: &[KnownTool]) -> Result<()> {
        for known in before {
            match self.known.iter().find(|now| now.name == known.name) {
                None => return Err(RunError::MissingTool { name: known.name.clone() }),
                Some(now) if now != known => {
                    return Err(RunError::ChangedTool { name: known.name.clone() });
                }
                Some(_) => {}
            }
        }
        let unknown = |now: &&KnownTool| before.iter().all(|known| known.name != now.name);
        match self.known.iter().find(unknown) {
            Some(added) => Err(RunError::AddedTool { name: added.name.clone() }),
            None => Ok(()),
        }
    }

    /// Whether every tool that `policy` names is there.
    pub(crate) fn check(&self, policy: &ApprovalPolicy) -> Result<()> {
        match policy.tools.iter().find(|name| !self.has(name)) {
            None => Ok(()),
            Some(name) => Err(RunError::NoSuchTool {
                name: name.clone(),
                tools: self.known.iter().map(|known| known.name.clone()).collect(),
            }),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).map(|(place, ..)| *place)
    }

    pub(crate) fn effect(&self, name: &str) -> Option<Effect> {
        self.places.get(name).map(|(_, effect, _)| *effect)
    }

    /// How far the arguments of a call may be repaired, as the tool itself says.
    pub(crate) fn policy(&self, name: &str) -> Policy {
        self.places.get(name).map_or(Policy::default(), |(.., policy)| *policy)
    }

    pub(crate) fn reads(&self, name: &str) -> bool {
        self.effect(name) == Some(Effect::Read)
    }
}
