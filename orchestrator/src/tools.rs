//! The tools of a run: their names, contracts, effects and policies, and their hash.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use toolwright_module::{Effect, Policy, Tool};
use toolwright_signature::{Contract, stable_hash};

use crate::approval_policy::ApprovalPolicy;
use crate::error::{Result, RunError};
use crate::find_tools::FIND_TOOLS;
use crate::selector::Selector;
use crate::tool_set::ToolSet;

/// The tools of a run. They are prepared once, and all runs of an agent share them.
#[derive(Debug)]
pub(crate) struct Tools {
    places: BTreeMap<String, (usize, Effect, Policy)>,
    pub(crate) contracts: Contracts,
    /// The contracts that the model sees from the start: those that are not deferred.
    pub(crate) first: Contracts,
    /// The places of the deferred tools.
    deferred: BTreeSet<usize>,
    /// The places of the tools whose results strangers write.
    untrusted: BTreeSet<usize>,
    known: Vec<KnownTool>,
    /// Whether one of them is `read_result` of the agent.
    pub(crate) reads_results: bool,
    /// The hash of the names, effects and fingerprints, in which the order does not count.
    pub(crate) hash: Arc<str>,
    /// The selector for runs with the output of this fingerprint, or without one.
    selector: OnceLock<(Option<String>, Arc<Selector>)>,
    /// The output of typed runs, its `finish`, and all tools with it.
    typed: OnceLock<(Arc<Contract>, Arc<Contract>, Contracts)>,
}

/// The contracts of a request.
pub(crate) type Contracts = Arc<[Arc<Contract>]>;

/// What identifies a tool.
#[derive(Debug, PartialEq, Eq)]
struct KnownTool {
    name: String,
    effect: Effect,
    fingerprint: String,
}

impl Tools {
    pub(crate) fn of<'a>(tools: impl IntoIterator<Item = &'a Tool>) -> Result<Self> {
        let (mut places, mut contracts, mut known) = (BTreeMap::new(), Vec::new(), Vec::new());
        let (mut deferred, mut untrusted) = (BTreeSet::new(), BTreeSet::new());
        for (place, tool) in tools.into_iter().enumerate() {
            let (contract, effect) = (tool.contract(), tool.effect());
            let name = contract.name().to_owned();
            if places.insert(name.clone(), (place, effect, tool.policy())).is_some() {
                return Err(RunError::DuplicateTool { name });
            }
            if tool.is_deferred() {
                deferred.insert(place);
            }
            if tool.is_untrusted() {
                untrusted.insert(place);
            }
            known.push(KnownTool { name, effect, fingerprint: contract.fingerprint() });
            contracts.push(Arc::clone(contract));
        }
        // Nobody could find them.
        if !places.contains_key(FIND_TOOLS) {
            deferred.clear();
        }
        let contracts: Contracts = contracts.into();
        let first = match deferred.is_empty() {
            true => Arc::clone(&contracts),
            false => {
                let places = contracts.iter().enumerate();
                let first = places.filter(|(place, _)| !deferred.contains(place));
                first.map(|(_, contract)| Arc::clone(contract)).collect()
            }
        };
        Ok(Self {
            places,
            contracts,
            first,
            deferred,
            untrusted,
            hash: hash_of(&known),
            known,
            reads_results: false,
            selector: OnceLock::new(),
            typed: OnceLock::new(),
        })
    }

    /// Returns the selector of these tools. For a typed run, `contracts` also has `finish`.
    pub(crate) fn selector(
        &self,
        contracts: &[Arc<Contract>],
        output: Option<&Contract>,
    ) -> Result<Arc<Selector>> {
        let output = output.map(Contract::fingerprint);
        if let Some((known, selector)) = self.selector.get()
            && *known == output
        {
            return Ok(Arc::clone(selector));
        }
        let selector = Arc::new(Selector::new(contracts, output.is_some())?);
        // If the cell holds the selector for another output, this one is made again each time.
        let _ = self.selector.set((output, Arc::clone(&selector)));
        Ok(selector)
    }

    /// Returns whether the model has to find a tool before it sees it.
    pub(crate) fn is_deferred(&self, name: &str) -> bool {
        self.place(name).is_some_and(|place| self.deferred.contains(&place))
    }

    /// Returns whether strangers write the results of a tool.
    pub(crate) fn is_untrusted(&self, name: &str) -> bool {
        self.place(name).is_some_and(|place| self.untrusted.contains(&place))
    }

    /// Returns the contracts of the deferred tools.
    pub(crate) fn deferred(&self) -> impl Iterator<Item = &Arc<Contract>> {
        self.deferred.iter().filter_map(|place| self.contracts.get(*place))
    }

    /// Returns the contracts of a typed run: these tools, with `finish` at the end.
    pub(crate) fn typed(&self, shown: Contracts, output: &Arc<Contract>) -> Result<Contracts> {
        if self.has(Contract::FINISH) {
            return Err(RunError::ReservedTool);
        }
        let with = |finish: &Arc<Contract>| shown.iter().chain([finish]).cloned().collect();
        if let Some((_, finish, all)) = self.typed.get().filter(|it| Arc::ptr_eq(&it.0, output)) {
            let is_all = Arc::ptr_eq(&shown, &self.first);
            return Ok(if is_all { Arc::clone(all) } else { with(finish) });
        }
        let finish = Arc::new(output.finish()?);
        let contracts: Contracts = with(&finish);
        if Arc::ptr_eq(&shown, &self.first) {
            // An agent has one output. Runs with another one make their contracts themselves.
            let _ = self.typed.set((Arc::clone(output), finish, Arc::clone(&contracts)));
        }
        Ok(contracts)
    }

    /// Checks that these are the tools of a run, by name, effect and contract.
    pub(crate) fn check_same(&self, of_the_run: &Self) -> Result<()> {
        if self.hash == of_the_run.hash {
            return Ok(());
        }
        let differs = |one: &Self, known: &KnownTool| one.known(&known.name) != Some(known);
        let of_both = of_the_run.known.iter().filter(|known| differs(self, known));
        let mut all = of_both.chain(self.known.iter().filter(|known| differs(of_the_run, known)));
        let name = all.next().map_or_else(String::new, |known| known.name.clone());
        Err(RunError::OtherTools { name })
    }

    pub(crate) fn tool_set(&self) -> ToolSet {
        let contracts = self.contracts.iter().cloned();
        ToolSet::new(&self.hash, contracts.zip(self.known.iter().map(|known| known.effect)))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.known.iter().map(|known| known.name.as_str())
    }

    fn known(&self, name: &str) -> Option<&KnownTool> {
        self.known.get(self.place(name)?)
    }

    pub(crate) fn contract(&self, name: &str) -> Option<&Arc<Contract>> {
        self.contracts.get(self.place(name)?)
    }

    /// Checks that every tool in `policy` exists.
    pub(crate) fn check(&self, policy: &ApprovalPolicy) -> Result<()> {
        match policy.tools.iter().find(|name| !self.has(name)) {
            None => Ok(()),
            Some(name) => Err(self.missing("approval policy", name)),
        }
    }

    /// Returns the error of a name that is not a tool.
    pub(crate) fn missing(&self, named_by: &'static str, name: &str) -> RunError {
        let tools = self.names().map(str::to_owned).collect();
        RunError::NoSuchTool { named_by, name: name.to_owned(), tools }
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

/// Returns the hash of tools, independent of their order. Like a fingerprint, it is the same on
/// every machine and in every version.
fn hash_of(known: &[KnownTool]) -> Arc<str> {
    let mut sorted: Vec<&KnownTool> = known.iter().collect();
    sorted.sort_by_key(|known| &known.name);
    let effects: Vec<String> =
        sorted.iter().map(|known| (known.effect as u8).to_string()).collect();
    let texts = sorted.iter().zip(&effects);
    let texts = texts.flat_map(|(known, effect)| [&*known.name, effect, &*known.fingerprint]);
    format!("{:032x}", stable_hash(texts)).into()
}
