//! Calls that wait for a person: by the approval policy, or because their outcome is not known.
use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;
use toolwright_module::approval::{Approval, Decision, WrongDecision};
use toolwright_module::{Effect, ToolCall};
use toolwright_signature::ContractError;

use crate::approval_policy::ApprovalPolicy;
use crate::error::{Result, RunError};
use crate::perform::EarlierCall;
use crate::run::Run;
use crate::state::{Decided, DecidedCall, Phase};

/// Approval by policy.
impl Run {
    /// Sets which calls wait for a person. Default: none.
    ///
    /// It replaces the run's policy, and applies to every call that was not made yet. A call that
    /// already waits continues to wait. An agent that drives the run adds its own policy; the
    /// stricter of both then applies.
    ///
    /// # Errors
    ///
    /// [`RunError::NoSuchTool`] if the policy names a tool that does not exist.
    pub fn with_approval(mut self, policy: ApprovalPolicy) -> Result<Self> {
        self.tools.check(&policy)?;
        self.state.approval = policy;
        self.require_approvals();
        Ok(self)
    }

    /// Adds a policy. A call waits if it waits by the run's own policy or by this one.
    pub(crate) fn add_approval(&mut self, policy: &ApprovalPolicy) {
        if policy.is_default() || self.state.approval == *policy {
            return;
        }
        self.state.approval = std::mem::take(&mut self.state.approval).stricter(policy);
        self.require_approvals();
    }

    /// Makes the calls wait that need approval and have no decision that allows them. Calls that
    /// wait already continue to wait.
    pub(super) fn require_approvals(&mut self) {
        // A call that was begun needs more than an approval.
        self.ask_about_begun();
        let none = ApprovalPolicy::default();
        let waits = matches!(self.state.phase, Phase::Tools { .. } | Phase::Approval { .. });
        if waits && self.state.approval != none {
            self.find_strangers();
        }
        let (results, awaits, begun, unknown) = match &mut self.state.phase {
            Phase::Tools { .. } if self.state.approval == none => return,
            Phase::Tools { results, begun } => (std::mem::take(results), Vec::new(), *begun, None),
            Phase::Approval { results, awaits, unknown } => {
                (std::mem::take(results), std::mem::take(awaits), None, unknown.take())
            }
            _ => return,
        };
        let already: HashSet<String> = awaits.into_iter().collect();
        let open = self.calls().zip(&results).filter(|(_, result)| result.is_none());
        let (mut awaits, mut reasons) = (Vec::new(), Vec::new());
        for (call, _) in open {
            let waits = self.awaits(call);
            if let Some(Some(reason)) = &waits {
                reasons.push((call.id.clone(), reason.clone()));
            }
            if waits.is_some() || already.contains(&call.id) {
                awaits.push(call.id.clone());
            }
        }
        for (id, reason) in reasons {
            self.state.reasons.entry(id).or_insert(reason);
        }
        self.state.phase = match awaits.as_slice() {
            [] => Phase::Tools { results, begun },
            _ => Phase::Approval { results, awaits, unknown },
        };
        self.find_next();
    }

    /// Returns whether a call needs a decision before it is made, and the reason if it is not that its
    /// tool always waits.
    fn awaits(&self, call: &ToolCall) -> Option<Option<String>> {
        if self.is_allowed(call) {
            return None;
        }
        // A call of an earlier drive waits if it waited then.
        let earlier = self.earlier_call(&call.id);
        if let Some(earlier) = earlier.filter(|earlier| earlier.is_settled()) {
            return earlier.is_decided.then_some(None);
        }
        let was_checked = earlier.is_some();
        let effect = self.tools.effect(&call.name)?;
        let reason = self.why_not_trusted(call, effect);
        let waits =
            was_checked || reason.is_some() || self.state.approval.awaits(&call.name, effect);
        waits.then_some(reason)
    }

    /// Returns whether a decision allows a call.
    fn is_allowed(&self, call: &ToolCall) -> bool {
        self.state.decisions.get(&call.id).is_some_and(|decided| decided.allows(call))
    }

    /// Returns whether a decision denies a call.
    pub(super) fn is_denied(&self, call: &ToolCall) -> bool {
        self.state.decisions.get(&call.id).is_some_and(|decided| decided.denies(call))
    }

    /// Returns what an earlier drive did with a call.
    pub(super) fn earlier_call(&self, id: &str) -> Option<&EarlierCall> {
        self.earlier.as_ref()?.calls.get(id)
    }

    /// Makes the calls wait that a rule names, with its reasons. It judges the calls of a reply once: a
    /// call that it did not name is made.
    ///
    /// A call of an earlier drive is not judged again, and a call with a decision that allows it is
    /// made.
    pub(crate) fn require_by(&mut self, rule: impl Fn(&Self, &ToolCall) -> Option<String>) {
        if self.judged == Some(self.state.asked) {
            return;
        }
        let (results, awaits) = match &self.state.phase {
            Phase::Tools { results, begun: None } => (results, &[][..]),
            Phase::Approval { results, awaits, unknown: None } => (results, &**awaits),
            _ => return,
        };
        let already: HashSet<&str> = awaits.iter().map(String::as_str).collect();
        let open = self.calls().zip(results).filter(|(_, result)| result.is_none());
        let (mut all, mut reasons) = (Vec::new(), Vec::new());
        for (call, _) in open {
            let earlier = self.earlier_call(&call.id);
            let may_judge = !self.is_allowed(call) && !earlier.is_some_and(EarlierCall::is_settled);
            let reason = may_judge.then(|| rule(self, call)).flatten();
            if reason.is_some() || already.contains(&*call.id) {
                all.push(call.id.clone());
            }
            reasons.extend(reason.map(|reason| (call.id.clone(), reason)));
        }
        self.judged = Some(self.state.asked);
        if reasons.is_empty() {
            return;
        }
        for (id, reason) in reasons {
            let known = self.state.reasons.entry(id).or_default();
            *known = if known.is_empty() { reason } else { format!("{reason}; {known}") };
        }
        if let Phase::Tools { results, .. } | Phase::Approval { results, .. } =
            &mut self.state.phase
        {
            let results = std::mem::take(results);
            self.state.phase = Phase::Approval { results, awaits: all, unknown: None };
        }
    }

    /// Returns why an open call waits for a person, if there is more to say than that its tool always
    /// waits. The text is for people.
    ///
    /// Example: ``its argument `to` is quoted from the result of `read_mail` ``.
    #[must_use]
    pub fn reason(&self, id: &str) -> Option<&str> {
        self.state.reasons.get(id).map(String::as_str)
    }

    /// Returns the decisions on calls of the run, by the ids of the calls.
    ///
    /// They are stored with the run. A call that waits for approval is made only if there is a
    /// decision that allows exactly this call.
    ///
    /// ```
    /// # use toolwright_module::{Effect, Reply, Signature, Tool, ToolCall, from_fn};
    /// # use toolwright_module::approval::{Approval, Decision, WrongDecision};
    /// # use toolwright_orchestrator::{StepResult, ApprovalPolicy, Limits, Run};
    /// # /// Delete everything.
    /// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// # struct DeleteAll {}
    /// # impl Signature for DeleteAll { type Output = String; }
    /// # let delete_all = from_fn(async |_: DeleteAll| Ok("All gone.".to_owned()));
    /// # let tools = [Tool::new(delete_all)?];
    /// let policy = ApprovalPolicy::default().with_tool("delete_all");
    /// let mut run = Run::new("Tidy up.", &tools, Limits::default())?.with_approval(policy)?;
    /// let call = ToolCall::new("call_1", "delete_all", "{}");
    /// run.apply(StepResult::model(0, Reply::calls([call])))?;
    /// run.apply(StepResult::decisions(1, [("call_1", Decision::deny("Keep it."))]))?;
    /// assert_eq!(run.decisions()["call_1"].decision, Decision::deny("Keep it."));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn decisions(&self) -> &BTreeMap<String, DecidedCall> {
        &self.state.decisions
    }

    /// Takes the decisions of the last step, if it was one of decisions.
    pub(crate) fn take_decided(&mut self) -> Vec<Decided> {
        std::mem::take(&mut self.state.decided)
    }

    /// Returns the decisions that [`take_decided`](Self::take_decided) takes.
    pub(crate) fn decided(&self) -> &[Decided] {
        &self.state.decided
    }

    /// Returns whether a call of an earlier drive was one of an agent.
    pub(crate) fn was_run(&self, id: &str) -> bool {
        self.earlier_call(id).is_some_and(|call| call.is_run)
    }

    /// Returns how often the outcome of a call was lost.
    pub(crate) fn lost(&self, id: &str) -> u32 {
        self.state.lost.get(id).copied().unwrap_or_default()
    }

    /// Checks a decision before it is recorded. One that cannot be applied must not be kept. New
    /// arguments are checked against the tool's schema now: the person can correct them, and the model
    /// could not.
    pub(crate) fn check_decision(&self, call: &ToolCall, decision: &Decision) -> Result<()> {
        if let Some(fault) = self.misfit(call, decision) {
            return Err(RunError::WrongArguments { id: call.id.clone(), fault });
        }
        self.check_suits(call, decision)
    }

    /// Checks each decision. A call that an earlier drive made is not judged again.
    pub(super) fn check_decisions<'a>(
        &self,
        calls: impl Iterator<Item = &'a ToolCall>,
        decisions: &[(String, Decision)],
    ) -> Result<()> {
        let decisions: HashMap<&str, &Decision> =
            decisions.iter().map(|(id, decision)| (id.as_str(), decision)).collect();
        for call in calls {
            match decisions.get(call.id.as_str()) {
                Some(decision) if self.was_made(&call.id) => self.check_suits(call, decision)?,
                Some(decision) => self.check_decision(call, decision)?,
                None => {}
            }
        }
        Ok(())
    }

    fn check_suits(&self, call: &ToolCall, decision: &Decision) -> Result<()> {
        let effect = self.tools.effect(&call.name).unwrap_or(Effect::Write);
        let unknown = self.unknown_outcome() == Some(&*call.id);
        let (path, call) = (Vec::new(), call.clone());
        let asked = Approval { path, call, effect, unknown, asked_before: 0, reason: None };
        match asked.check(decision) {
            // The tool's policy decides about new arguments, and may repair them.
            Ok(()) | Err(WrongDecision::Arguments(_)) => Ok(()),
            Err(reason) => Err(RunError::WrongDecision { id: asked.call.id, reason }),
        }
    }

    /// Returns whether an earlier drive began a call.
    pub(crate) fn was_made(&self, id: &str) -> bool {
        self.earlier_call(id).is_some_and(|call| call.is_made)
    }

    /// Returns the fault of a person's arguments that do not fit the tool.
    pub(crate) fn misfit(&self, call: &ToolCall, decision: &Decision) -> Option<ContractError> {
        let Decision::Edit { arguments } = decision else { return None };
        let at = self.tools.place(&call.name)?;
        let policy = self.policy_of(&call.name);
        self.tools.contracts.get(at)?.read_with::<Value>(arguments, policy).err()
    }
}

/// Calls that were begun.
impl Run {
    /// Marks the next call as begun, if it changes something. A call that was begun and has no result
    /// is not made again without a person's decision ([`unknown_outcome`](Self::unknown_outcome)).
    pub(crate) fn mark_begun(&mut self) {
        let Phase::Tools { results, .. } = &self.state.phase else { return };
        let effect = self.batch(results).next().and_then(|call| self.tools.effect(&call.name));
        if let Phase::Tools { begun, .. } = &mut self.state.phase {
            *begun = effect.filter(|effect| *effect >= Effect::Write);
        }
    }

    /// Removes the mark of [`mark_begun`](Self::mark_begun), for a call that is known to have ended.
    pub(crate) fn unmark_begun(&mut self) {
        if let Phase::Tools { begun, .. } = &mut self.state.phase {
            *begun = None;
        }
    }

    /// Returns whether the next call was begun and changes something.
    pub(crate) fn has_begun_call(&self) -> bool {
        matches!(self.state.phase, Phase::Tools { begun: Some(_), .. })
    }

    /// Waits for a person's decision on the next call, if it was begun and has no result.
    pub(crate) fn ask_about_begun(&mut self) {
        if self.has_begun_call() {
            self.ask_about_next();
        }
    }

    /// Waits for a person's decision on the next call, whose outcome is not known.
    pub(crate) fn ask_about_next(&mut self) {
        let Phase::Tools { results, .. } = &self.state.phase else { return };
        let Some(id) = self.batch(results).next().map(|call| call.id.clone()) else { return };
        let lost = self.state.lost.entry(id.clone()).or_default();
        *lost = lost.saturating_add(1);
        if let Phase::Tools { results, .. } = &mut self.state.phase {
            let results = std::mem::take(results);
            let (awaits, unknown) = (vec![id.clone()], Some(id));
            self.state.phase = Phase::Approval { results, awaits, unknown };
        }
    }

    /// Returns the id of the call that was begun and whose outcome is not known, if the run waits
    /// for a decision on one. [`Decision`] says what each decision means.
    #[must_use]
    pub fn unknown_outcome(&self) -> Option<&str> {
        match &self.state.phase {
            Phase::Approval { unknown, .. } => unknown.as_deref(),
            _ => None,
        }
    }
}

/// Returns the arguments that replace the model's by a person's decision.
pub(crate) fn edit_of<'a>(decided: &'a BTreeMap<String, DecidedCall>, id: &str) -> Option<&'a str> {
    match decided.get(id) {
        Some(DecidedCall { decision: Decision::Edit { arguments }, .. }) => Some(arguments),
        _ => None,
    }
}

/// Returns the calls with the arguments of a person's decisions.
pub(crate) fn with_edits(
    calls: &[&ToolCall],
    decided: &BTreeMap<String, DecidedCall>,
) -> Vec<ToolCall> {
    let edit = |call: &&ToolCall| {
        let mut call = ToolCall::clone(call);
        if let Some(arguments) = edit_of(decided, &call.id) {
            call.arguments = arguments.to_owned();
        }
        call
    };
    calls.iter().map(edit).collect()
}
