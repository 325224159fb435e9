//! The tools of a run: their names, contracts, effects and policies, and the check against a stored run.
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use toolwright_module::{Effect, Policy, Tool};
use toolwright_signature::Contract;

use crate::approval_policy::ApprovalPolicy;
use crate::error::{Result, RunError};
use crate::selector::Selector;

/// The tools of a run. They are prepared once, and all runs of an agent share them.
#[derive(Debug)]
pub(crate) struct Tools {
    places: BTreeMap<String, (usize, Effect, Policy)>,
    pub(crate) contracts: Arc<[Arc<Contract>]>,
    pub(crate) known: Arc<[KnownTool]>,
    /// Caches of the selector for untyped runs, and for runs with one output.
    selector: OnceLock<Arc<Selector>>,
    typed_selector: OnceLock<(String, Arc<Selector>)>,
}

/// The stored form of a tool, which identifies it.
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

    /// Returns the selector of these tools. For a typed run, `contracts` also has `finish`.
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
                // If the cell holds the selector for another output, this one is made again each
                // time.
                let _ = self.typed_selector.set((output, Arc::clone(&selector)));
                Ok(selector)
            }
        }
    }

    /// Returns the contracts of a typed run, with `finish` at the end.
    pub(crate) fn typed(&self, output: &Contract) -> Result<Arc<[Arc<Contract>]>> {
        if self.has(Contract::FINISH) {
            return Err(RunError::ReservedTool);
        }
        let finish = Arc::new(output.finish()?);
        Ok(self.contracts.iter().cloned().chain([finish]).collect())
    }

    /// Checks that these are the tools of a stored run, by name, effect and contract.
    pub(crate) fn check_same(&self, before: &[KnownTool]) -> Result<()> {
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

    /// Checks that every tool in `policy` exists.
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

    /// Returns the tool's own policy for repairs.
    pub(crate) fn policy(&self, name: &str) -> Policy {
        self.places.get(name).map_or(Policy::default(), |(.., policy)| *policy)
    }

    pub(crate) fn reads(&self, name: &str) -> bool {
        self.effect(name) == Some(Effect::Read)
    }
}
