//! The rules for which calls wait for a person.
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use toolwright_module::Effect;

/// Rules for which calls wait for a person's approval. Default: no call waits.
///
/// ```
/// use toolwright_module::Effect;
/// use toolwright_orchestrator::ApprovalPolicy;
///
/// let policy = ApprovalPolicy::from_effect(Effect::Irreversible).with_tool("publish");
/// assert!(policy.awaits("delete_all", Effect::Irreversible));
/// assert!(policy.awaits("publish", Effect::Write));
/// assert!(!policy.awaits("rename", Effect::Write));
/// assert!(!ApprovalPolicy::default().awaits("delete_all", Effect::Irreversible));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ApprovalPolicy {
    /// Calls with this effect or a more severe one wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_effect: Option<Effect>,
    /// Calls of these tools wait, whatever their effect.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub tools: BTreeSet<String>,
}

impl ApprovalPolicy {
    /// Returns a policy by which calls with this effect or a more severe one wait.
    #[must_use]
    pub fn from_effect(effect: Effect) -> Self {
        Self { from_effect: Some(effect), tools: BTreeSet::new() }
    }

    /// Adds a tool whose calls wait.
    #[must_use]
    pub fn with_tool(mut self, name: impl Into<String>) -> Self {
        self.tools.insert(name.into());
        self
    }

    /// Returns whether a call of this tool waits.
    #[must_use]
    pub fn awaits(&self, tool: &str, effect: Effect) -> bool {
        self.from_effect.is_some_and(|from| effect >= from) || self.tools.contains(tool)
    }

    /// Returns a policy by which a call waits if it waits by this policy or by `other`.
    pub(crate) fn stricter(mut self, other: &Self) -> Self {
        self.from_effect = match (self.from_effect, other.from_effect) {
            (Some(own), Some(other)) => Some(own.min(other)),
            (own, other) => own.or(other),
        };
        self.tools.extend(other.tools.iter().cloned());
        self
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_waits_if_one_of_two_joined_policies_says_so() {
        let stored = ApprovalPolicy::default().with_tool("publish");
        let both = stored.stricter(&ApprovalPolicy::from_effect(Effect::Irreversible));
        assert!(both.awaits("publish", Effect::Write));
        assert!(both.awaits("delete_all", Effect::Irreversible));
        assert!(!both.awaits("rename", Effect::Write));
    }
}
