//! Tools as data, and their comparison with the tools of a stored run.
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolwright_module::{Effect, Tool};
use toolwright_signature::{Contract, Difference, Side};

use crate::error::{Result, RunError};
use crate::run::Run;
use crate::tools::Tools;

/// The contracts and effects of an agent's tools, as data.
///
/// A stored run has only the [`hash`](Self::hash) of its tools. Store the tool set of each deploy
/// once, by its hash. After a later deploy, [`RunState::with_tool_set`](crate::RunState) gives it to
/// a stored run, so that [`resume`](crate::Agent::resume) can say what changed.
///
/// ```
/// # use toolwright_module::testing::SchemaDriven;
/// use toolwright_orchestrator::{Agent, RunState, ToolSet};
///
/// # let model = SchemaDriven::default();
/// let agent = Agent::new(model, [])?;
/// let stored_tools = serde_json::to_string(&agent.tool_set())?;
/// let stored_run = serde_json::to_string(&agent.start("Say hello.")?)?;
///
/// // After a deploy:
/// let state: RunState = serde_json::from_str(&stored_run)?;
/// let tools: ToolSet = serde_json::from_str(&stored_tools)?;
/// assert_eq!(state.tool_set_hash(), tools.hash());
/// let resumed = agent.resume(state.with_tool_set(tools))?;
/// assert!(resumed.changes.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSet {
    hash: String,
    tools: Vec<StoredTool>,
}

/// One tool of a [`ToolSet`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StoredTool {
    effect: Effect,
    contract: Arc<Contract>,
}

impl ToolSet {
    /// Returns the tool set of these tools. An agent has
    /// [`tool_set`](crate::Agent::tool_set).
    ///
    /// # Errors
    ///
    /// [`RunError::DuplicateTool`].
    pub fn of(tools: &[Tool]) -> Result<Self> {
        Ok(Tools::of(tools)?.tool_set())
    }

    pub(crate) fn new(hash: &str, tools: impl Iterator<Item = (Arc<Contract>, Effect)>) -> Self {
        let tools = tools.map(|(contract, effect)| StoredTool { effect, contract });
        Self { hash: hash.to_owned(), tools: tools.collect() }
    }

    /// Returns a hash of the names, effects and fingerprints. The order of the tools does not
    /// count.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Returns the names of the tools.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.contract.name())
    }

    /// Returns the contract of a tool.
    #[must_use]
    pub fn contract(&self, name: &str) -> Option<&Contract> {
        self.tool(name).map(|tool| &*tool.contract)
    }

    /// Returns the effect of a tool.
    #[must_use]
    pub fn effect(&self, name: &str) -> Option<Effect> {
        self.tool(name).map(|tool| tool.effect)
    }

    fn tool(&self, name: &str) -> Option<&StoredTool> {
        self.tools.iter().find(|tool| tool.contract.name() == name)
    }
}

/// A resumed run, and the differences between the tools it was stored with and the tools it has
/// now.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Resumed {
    /// Run that can be driven.
    pub run: Run,
    /// The differences. Empty in the normal case.
    pub changes: Vec<Change>,
}

/// A change since a run was stored. `{}` is one line for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// The texts of the tool changed, or its schemas in a compatible way: the current contract
    /// accepts every call of the stored one.
    Reworded {
        /// Name of the tool.
        tool: String,
    },
    /// The run was stored without this tool.
    Added {
        /// Name of the tool.
        tool: String,
    },
    /// The tool was removed. No open call needs it.
    Removed {
        /// Name of the tool.
        tool: String,
    },
    /// The schemas of the tool changed. The current contract accepts the arguments of the open calls.
    Schema {
        /// Name of the tool.
        tool: String,
        /// The differences, from the stored contract to the current one.
        differences: Vec<Difference>,
    },
    /// The effect of the tool changed.
    Effect {
        /// Name of the tool.
        tool: String,
        /// The stored effect.
        was: Effect,
        /// The current effect.
        is: Effect,
    },
    /// The output of a typed run changed. The current contract reads its answer.
    Output {
        /// The differences, from the stored contract to the current one. Empty if the new contract is
        /// compatible.
        differences: Vec<Difference>,
    },
    /// Something changed. The run has only the hash of its tools, and no [`ToolSet`] was given.
    Unknown,
}

impl Change {
    /// Returns the change of a typed run's output. The model writes the output, so the current contract
    /// is the one that reads.
    pub(crate) fn output(was: &Contract, is: &Contract) -> Self {
        let mut differences = is.differences(was);
        differences.retain(|difference| difference.side == Side::Output);
        for Difference { ours, theirs, .. } in &mut differences {
            std::mem::swap(ours, theirs);
        }
        Self::Output { differences }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |all: &[Difference]| {
            let all = all.iter().map(|Difference { side, path, ours, theirs, .. }| {
                format!("{side} {path}: before: {ours}; now: {theirs}")
            });
            all.collect::<Vec<_>>().join("; ")
        };
        match self {
            Self::Reworded { tool } => write!(f, "`{tool}`: changed, and still fits"),
            Self::Added { tool } => write!(f, "`{tool}`: added"),
            Self::Removed { tool } => write!(f, "`{tool}`: removed"),
            Self::Schema { tool, differences } => write!(f, "`{tool}`: {}", list(differences)),
            Self::Effect { tool, was, is } => {
                write!(f, "`{tool}`: the effect was {was:?} and is {is:?}")
            }
            Self::Output { differences } if differences.is_empty() => {
                f.write_str("the texts of the output changed")
            }
            Self::Output { differences } => write!(f, "the output: {}", list(differences)),
            Self::Unknown => f.write_str("the tools changed"),
        }
    }
}

/// The comparison of a stored run's tools with the current ones.
pub(crate) struct Compared<'a> {
    before: Option<&'a ToolSet>,
    now: &'a Tools,
    pub(crate) changes: Vec<Change>,
}

impl<'a> Compared<'a> {
    pub(crate) fn of(hash: &str, set: Option<&'a ToolSet>, now: &'a Tools) -> Result<Self> {
        let mut compared = Self { before: None, now, changes: Vec::new() };
        match set {
            _ if *hash == *now.hash => {}
            Some(set) if set.hash == hash => {
                compared.before = Some(set);
                compared.contracts(set);
            }
            Some(_) => return Err(RunError::OtherToolSet),
            None => compared.changes.push(Change::Unknown),
        }
        Ok(compared)
    }

    fn contracts(&mut self, set: &ToolSet) {
        for StoredTool { effect, contract: was } in &set.tools {
            let tool = was.name().to_owned();
            let Some(is) = self.now.contract(&tool) else {
                self.changes.push(Change::Removed { tool });
                continue;
            };
            if let Some(is) = self.now.effect(&tool).filter(|is| is != effect) {
                self.changes.push(Change::Effect { tool: tool.clone(), was: *effect, is });
            }
            if was.fingerprint() == is.fingerprint() {
                continue;
            }
            let differences = was.differences(is);
            self.changes.push(if differences.is_empty() {
                Change::Reworded { tool }
            } else {
                Change::Schema { tool, differences }
            });
        }
        let names = self.now.names().filter(|name| set.contract(name).is_none());
        self.changes.extend(names.map(|name| Change::Added { tool: name.to_owned() }));
    }

    /// Returns the stored contract of a tool if the current one may not read the same arguments.
    pub(crate) fn may_not_read(&self, name: &str) -> Option<Option<&Contract>> {
        let changed = self.changes.iter().any(|change| match change {
            Change::Schema { tool, .. } => tool == name,
            Change::Unknown => true,
            _ => false,
        });
        changed.then(|| self.before.and_then(|before| before.contract(name)))
    }
}
