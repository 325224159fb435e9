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
    /// Calls with this effect or a more severe one wait, if the model wrote them after it got an
    /// untrusted result. See [`with_after_untrusted`](Self::with_after_untrusted).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_untrusted: Option<Effect>,
    /// Calls with this effect or a more severe one wait, if their arguments quote an untrusted result.
    /// See [`with_quoting_untrusted`](Self::with_quoting_untrusted).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quoting_untrusted: Option<Effect>,
}

impl ApprovalPolicy {
    /// Returns a policy by which calls with this effect or a more severe one wait.
    #[must_use]
    pub fn from_effect(effect: Effect) -> Self {
        Self { from_effect: Some(effect), ..Self::default() }
    }

    /// Makes calls with this effect or a more severe one wait, if the model wrote them after it got a
    /// result of an [untrusted tool](toolwright_module::Tool::untrusted). Default: none wait for this.
    ///
    /// The whole conversation counts: the history of the task, and what a summary has replaced. Text
    /// between the marks of [`fence`](toolwright_module::untrusted::fence) in a message of the user
    /// counts too, and what a provider found with its own search. Results of calls of the same reply do
    /// not count, because the model had not seen them.
    ///
    /// [`Effect::Idempotent`] means every change: [`Effect::Write`] lets calls pass that change something
    /// and may be repeated, such as those that replace a file. So it stops every injected change,
    /// whatever the text says, at the price of a question for each.
    #[must_use]
    pub fn with_after_untrusted(mut self, effect: Effect) -> Self {
        self.after_untrusted = Some(effect);
        self
    }

    /// Makes calls with this effect or a more severe one wait, if their arguments have text of an
    /// untrusted result that is not in the messages of the user or the instructions. Default: none
    /// wait for this.
    ///
    /// Quoted are: a whole value of at least 12 letters and digits, 40 of them in a row inside a longer
    /// value, and words that name something, such as an address, a URL or its host, a file or the number
    /// of an account. White space, case, Markdown and the escapes of JSON, HTML and URLs make no
    /// difference. What a tool returned for such a quote counts as text of the same stranger.
    ///
    /// [`Effect::Idempotent`] means every change, and [`Effect::Read`] also what a read could send
    /// elsewhere, such as a web address.
    ///
    /// It asks less often than [`with_after_untrusted`](Self::with_after_untrusted), and it stops less:
    /// a text can tell the model to delete what the user named, or to write an address in other words.
    #[must_use]
    pub fn with_quoting_untrusted(mut self, effect: Effect) -> Self {
        self.quoting_untrusted = Some(effect);
        self
    }

    /// Adds a tool whose calls wait.
    #[must_use]
    pub fn with_tool(mut self, name: impl Into<String>) -> Self {
        self.tools.insert(name.into());
        self
    }

    /// Returns whether a call of this tool waits, whatever the model has read before.
    #[must_use]
    pub fn awaits(&self, tool: &str, effect: Effect) -> bool {
        self.from_effect.is_some_and(|from| effect >= from) || self.tools.contains(tool)
    }

    /// Returns a policy by which a call waits if it waits by this policy or by `other`.
    pub(crate) fn stricter(mut self, other: &Self) -> Self {
        let milder = |own: Option<Effect>, other: Option<Effect>| match (own, other) {
            (Some(own), Some(other)) => Some(own.min(other)),
            (own, other) => own.or(other),
        };
        self.from_effect = milder(self.from_effect, other.from_effect);
        self.after_untrusted = milder(self.after_untrusted, other.after_untrusted);
        self.quoting_untrusted = milder(self.quoting_untrusted, other.quoting_untrusted);
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
