//! The loop between a model and its tools, as a state machine.
mod applying;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;
use toolwright_module::approval::Decision;
use toolwright_module::budget::{LimitKind, Spent};
use toolwright_module::event::Ending;
use toolwright_module::message::{ReplyPart, ToolResult};
use toolwright_module::model::{ToolChoice, Usage};
use toolwright_module::{Dialect, Message, Policy, Request, Tool, ToolCall};
use toolwright_signature::Contract;

use crate::approval_policy::ApprovalPolicy;
use crate::error::{Result, RunError};
use crate::limits::Limits;
use crate::repaired_call::RepairedCall;
use crate::repeated_mistakes::Mistakes;
use crate::run::applying::{hash, text_of};
use crate::selector::Selector;
use crate::state::{DecidedCall, Phase, RunState, VERSION};
use crate::step::{RunResult, Step, StepKind, StepResult, StepResultKind};
use crate::tool_choosing::Choosing;
use crate::tools::Tools;

/// The loop between a model and its tools, as a value.
///
/// A run does nothing by itself. [`next`](Self::next) returns the next step, and
/// [`apply`](Self::apply) takes its result. There is no clock and no randomness in it, so the same
/// results give the same run. It serializes as [`RunState`]: store it at any step, and
/// [`resume`](Self::resume) it in another process.
///
/// [`ToolOrchestrator`](crate::ToolOrchestrator) drives a run on tokio. The example below drives
/// one by hand. With real tools, [`ToolResult::of`] makes the result for the model; if it returns
/// an error with the audience `Run`, end your loop with it:
///
/// ```
/// use toolwright_module::{Reply, ToolCall};
/// use toolwright_module::message::ToolResult;
/// use toolwright_orchestrator::{StepResult, Limits, Run, StepKind};
/// # use toolwright_module::{Signature, Tool, from_fn};
/// # /// Say the time.
/// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct GetTime {}
/// # impl Signature for GetTime { type Output = String; }
/// # let get_time = Tool::new(from_fn(async |_: GetTime| Ok("noon".to_owned())))?;
///
/// let mut run = Run::new("What time is it?", &[get_time], Limits::default())?;
/// loop {
///     let step = run.next();
///     let answer = match step.kind {
///         // Here a program asks its model …
///         StepKind::CallModel(request) if request.messages.len() == 1 => {
///             let call = ToolCall::new("call_1", "get_time", "{}");
///             StepResult::model(step.number, Reply::calls([call]))
///         }
///         StepKind::CallModel(_) => StepResult::model(step.number, Reply::text("It is noon.")),
///         // … and here it runs its tools.
///         StepKind::CallTools(calls) => {
///             let results = calls.iter().map(|call| ToolResult::new(call, "noon"));
///             StepResult::tools(step.number, results)
///         }
///         StepKind::Done(result) => {
///             assert_eq!(result.answer, "It is noon.");
///             break;
///         }
///         _ => unreachable!("a step that this program does not know"),
///     };
///     run.apply(answer)?;
/// }
/// # Ok::<(), toolwright_orchestrator::RunError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Run {
    state: RunState,
    tools: Arc<Tools>,
    /// The contracts of every request: the tools, and `finish` in a typed run.
    contracts: Arc<[Arc<Contract>]>,
    /// The selector and the conversation in its form, if tools are chosen by a selector.
    selector: Option<(Arc<Selector>, Vec<Arc<Message>>)>,
    /// The hashed ids of all calls so far. If two ids have the same hash, the later call gets a new
    /// id, which is harmless.
    ids: BTreeSet<u64>,
    /// The first call of the last reply without a result.
    next: Place,
    /// The indices of the tools in use, once there are too many names for a linear search.
    used: BTreeSet<usize>,
    /// How far selections and a person's arguments may be repaired. The driver sets it; it is not
    /// stored.
    policy: Policy,
}

/// The position of a call in the last reply, counted in parts and in calls.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    part: usize,
    call: usize,
}

/// The next step, like [`StepKind`], but borrowed.
pub(crate) enum Due<'a> {
    Model,
    /// The calls, and the decisions on them, which may replace arguments.
    Tools(Vec<&'a ToolCall>, &'a BTreeMap<String, DecidedCall>),
    Approval(Vec<ToolCall>),
    Done(RunResult),
}

impl Run {
    /// Returns a new run.
    ///
    /// # Errors
    ///
    /// [`RunError::DuplicateTool`].
    pub fn new(task: impl Into<String>, tools: &[Tool], limits: Limits) -> Result<Self> {
        Ok(Self::begin(task.into(), Arc::new(Tools::of(tools)?), limits))
    }

    pub(crate) fn begin(task: String, tools: Arc<Tools>, limits: Limits) -> Self {
        let state = RunState {
            version: VERSION,
            step: 0,
            phase: Phase::Model,
            messages: vec![Message::user(task)],
            tools: Arc::clone(&tools.known),
            output: None,
            limits,
            approval: ApprovalPolicy::default(),
            choosing: Choosing::default(),
            iterations: 0,
            spent: Spent::default(),
            elapsed: Duration::ZERO,
            tools_used: Vec::new(),
            mistakes: Mistakes::default(),
            decisions: BTreeMap::new(),
            decided: Vec::new(),
            own_results: Vec::new(),
            repaired: Vec::new(),
        };
        Self::of(state, tools)
    }

    fn of(state: RunState, tools: Arc<Tools>) -> Self {
        let contracts = Arc::clone(&tools.contracts);
        let ids = state.messages.iter().flat_map(|message| match &**message {
            Message::Assistant { parts } => parts.as_slice(),
            _ => &[],
        });
        let ids = ids.filter_map(|part| match part {
            ReplyPart::Call(call) => Some(hash(&call.id)),
            _ => None,
        });
        let ids = ids.collect();
        let (next, used, policy) = (Place::default(), BTreeSet::new(), Policy::default());
        let mut run = Self { state, tools, contracts, selector: None, ids, next, used, policy };
        run.find_next();
        run
    }

    /// Resumes a stored run.
    ///
    /// ```
    /// # use toolwright_orchestrator::{Limits, Run, RunState};
    /// let run = Run::new("Say hello.", &[], Limits::default())?;
    /// let stored = serde_json::to_string(&run)?;
    ///
    /// let state: RunState = serde_json::from_str(&stored)?;
    /// let resumed = Run::resume(state, &[])?;
    /// assert_eq!(resumed.next(), run.next());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The tools differ from those that the run started with, in name, description, schema or
    /// effect. Or the state is inconsistent. A run stored by a later version fails earlier, when
    /// its [`RunState`] is deserialized.
    ///
    /// A call that waits by the stored policy, and that no stored decision allows, waits again,
    /// whatever the stored phase says. [`RunState`] says who may write to the store.
    pub fn resume(state: RunState, tools: &[Tool]) -> Result<Self> {
        // The prompt must stay the same, and so must the order of the tools in it.
        let places = state.tools.iter().enumerate();
        let places: HashMap<&str, usize> =
            places.map(|(place, known)| (known.name.as_str(), place)).collect();
        let mut ordered: Vec<&Tool> = tools.iter().collect();
        ordered.sort_by_key(|tool| places.get(tool.contract().name()));
        let tools = Tools::of(ordered)?;
        tools.check_same(&state.tools)?;
        state.check()?;
        let output = state.output.clone();
        let mut run = Self::of(state, Arc::new(tools));
        if let Some(output) = output {
            run.offer_finish(output)?;
        }
        run.make_selector()?;
        run.require_approvals();
        Ok(run)
    }

    /// Sets instructions for the model, as a system message before the task.
    ///
    /// They have an effect only before the first step. After it the prompt only grows at its end.
    #[must_use]
    pub fn with_instructions(mut self, instructions: impl Into<String>) -> Self {
        if self.state.step == 0 {
            self.state.messages.insert(0, Message::system(instructions));
            self.show_all();
        }
        self
    }

    /// Makes this a typed run: it ends when the model calls `finish` with an output of this
    /// contract.
    ///
    /// # Errors
    ///
    /// The contract has no output schema, a tool has the name `finish`, or the run has passed its
    /// first step. The tools in a model's prompt do not change.
    pub fn with_output(mut self, contract: Arc<Contract>) -> Result<Self> {
        self.has_not_begun()?;
        self.offer_finish(contract)?;
        self.make_selector()?;
        Ok(self)
    }

    /// Sets how the model requests tools. Default: [`Choosing::Calls`].
    ///
    /// # Errors
    ///
    /// The run has passed its first step, or the tools cannot be combined in one schema.
    pub fn with_choosing(mut self, choosing: Choosing) -> Result<Self> {
        self.has_not_begun()?;
        self.state.choosing = choosing;
        self.make_selector()?;
        Ok(self)
    }

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
    fn require_approvals(&mut self) {
        let none = ApprovalPolicy::default();
        let (results, awaits) = match &mut self.state.phase {
            Phase::Tools { .. } if self.state.approval == none => return,
            Phase::Tools { results } => (std::mem::take(results), Vec::new()),
            Phase::Approval { results, awaits } => {
                (std::mem::take(results), std::mem::take(awaits))
            }
            _ => return,
        };
        let already: HashSet<String> = awaits.into_iter().collect();
        let waits = |call: &ToolCall| already.contains(&call.id) || self.awaits(call);
        let open = self.calls().zip(&results).filter(|(_, result)| result.is_none());
        let held = open.filter(|(call, _)| waits(call)).map(|(call, _)| call.id.clone());
        let awaits: Vec<String> = held.collect();
        self.state.phase = match awaits.as_slice() {
            [] => Phase::Tools { results },
            _ => Phase::Approval { results, awaits },
        };
        self.find_next();
    }

    /// Returns whether a call needs a decision before it is made.
    fn awaits(&self, call: &ToolCall) -> bool {
        let decided = || self.state.decisions.get(&call.id);
        let effect = self.tools.effect(&call.name);
        effect.is_some_and(|effect| self.state.approval.awaits(&call.name, effect))
            && !decided().is_some_and(|decided| decided.allows(call))
    }

    /// Replaces the limits, so that a run that reached a limit of its budget or its time can
    /// continue. If the model was already asked for its last answer, use
    /// [`follow_up`](Self::follow_up) instead. A stored run keeps its own limits, whatever limits
    /// the agent has that drives it.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.state.limits = limits;
        // Without a reply at the end, the run still waits for one.
        let said = matches!(
            self.state.messages.last().map(|last| &**last),
            Some(Message::Assistant { .. })
        );
        if let Phase::Done(RunResult { limit: Some(limit), .. }) = &self.state.phase
            && *limit != LimitKind::Iterations
            && !said
        {
            self.state.phase = Phase::Model;
        }
        self
    }

    fn has_not_begun(&self) -> Result<()> {
        match self.state.step {
            0 => Ok(()),
            step => Err(RunError::Begun { step }),
        }
    }

    fn offer_finish(&mut self, contract: Arc<Contract>) -> Result<()> {
        self.contracts = self.tools.typed(&contract)?;
        self.state.output = Some(contract);
        Ok(())
    }

    fn make_selector(&mut self) -> Result<()> {
        self.selector = match self.state.choosing {
            Choosing::Calls => None,
            Choosing::Selector => {
                let selector =
                    self.tools.selector(&self.contracts, self.state.output.as_deref())?;
                let shown = selector.show_all(&self.state.messages);
                Some((selector, shown))
            }
        };
        Ok(())
    }

    fn show_all(&mut self) {
        if let Some((selector, shown)) = &mut self.selector {
            *shown = selector.show_all(&self.state.messages);
        }
    }

    /// Returns the contract of a typed run.
    pub(crate) fn output(&self) -> Option<&Contract> {
        self.state.output.as_deref()
    }

    /// Takes the run's own results for calls of the last reply, such as those of unknown tools.
    pub(crate) fn take_own_results(&mut self) -> Vec<(ToolCall, ToolResult)> {
        std::mem::take(&mut self.state.own_results)
    }

    /// Checks that these are the tools that the run started with.
    pub(crate) fn check_tools(&self, now: &Arc<Tools>) -> Result<()> {
        if Arc::ptr_eq(now, &self.tools) { Ok(()) } else { now.check_same(&self.state.tools) }
    }

    /// Takes the decisions since the last call of this method, with the ids of the calls.
    pub(crate) fn take_decided(&mut self) -> Vec<(String, Decision)> {
        let ids = std::mem::take(&mut self.state.decided).into_iter();
        let decided = ids.filter_map(|id| {
            let decision = self.state.decisions.get(&id)?.decision.clone();
            Some((id, decision))
        });
        decided.collect()
    }

    /// Returns the decisions on calls of the run, by the ids of the calls.
    ///
    /// They are stored with the run. A call that waits for approval is made only if there is a
    /// decision that allows exactly this call.
    ///
    /// ```
    /// # use toolwright_module::{Effect, Reply, Signature, Tool, ToolCall, from_fn};
    /// # use toolwright_module::approval::Decision;
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

    /// Sets how far selections and a person's arguments may be repaired.
    pub(crate) fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Returns the stricter policy of the tool and the driver.
    fn policy_of(&self, tool: &str) -> Policy {
        self.tools.policy(tool).min(self.policy)
    }

    /// Returns whether the model uses its provider's tool calls, which have schemas of their own.
    pub(crate) fn calls_natively(&self) -> bool {
        self.selector.is_none()
    }

    /// Returns the calls whose arguments had to be repaired, as the model wrote them. The answer of
    /// a typed run is its call of `finish`.
    #[must_use]
    pub fn repaired(&self) -> &[RepairedCall] {
        &self.state.repaired
    }

    /// Returns the conversation so far.
    #[must_use]
    pub fn history(&self) -> &[Arc<Message>] {
        &self.state.messages
    }

    /// Returns the number of rounds of tool calls.
    #[must_use]
    pub fn iterations(&self) -> u32 {
        self.state.iterations
    }

    /// Returns the cost of the run, including everything below its tools.
    #[must_use]
    pub fn spent(&self) -> Spent {
        self.state.spent
    }

    /// Returns the limits of the run.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.state.limits
    }

    /// Adds the cost of a step that failed and so has no result.
    pub fn charge(&mut self, spent: Spent) {
        self.state.spent += spent;
    }

    /// Gives a finished run another task in the same conversation. The rounds start again at zero.
    /// The cost does not.
    ///
    /// ```
    /// # use toolwright_module::Reply;
    /// # use toolwright_orchestrator::{StepResult, Limits, Run, StepKind};
    /// let mut run = Run::new("Say hello.", &[], Limits::default())?;
    /// run.apply(StepResult::model(0, Reply::text("Hello.")))?;
    /// run.follow_up("And goodbye.")?;
    /// let StepKind::CallModel(request) = run.next().kind else { panic!() };
    /// assert_eq!(request.messages.len(), 3);
    /// # Ok::<(), toolwright_orchestrator::RunError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RunError::NotDone`] if the run has not finished.
    pub fn follow_up(&mut self, task: impl Into<String>) -> Result<()> {
        if !matches!(self.next().kind, StepKind::Done(_)) {
            return Err(RunError::NotDone { step: self.state.step });
        }
        // The call that ended a typed run has no result yet, and providers reject a call without a
        // result.
        let ended = matches!(self.state.phase, Phase::Done(_));
        let open: Vec<ToolCall> = if ended { self.calls().cloned().collect() } else { Vec::new() };
        for call in open {
            self.say(Arc::new(Message::Tool(ToolResult::new(&call, "Accepted."))));
        }
        self.say(Message::user(task));
        self.state.iterations = 0;
        self.state.mistakes.clear();
        self.state.phase = Phase::Model;
        self.state.step = self.state.step.saturating_add(1);
        Ok(())
    }

    /// Returns the duration of all steps, as reported in their results.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.state.elapsed
    }

    /// Returns the names of the tools that were called, each once, in order of first use.
    #[must_use]
    pub fn tools_used(&self) -> &[String] {
        &self.state.tools_used
    }

    /// Returns the current step. Repeated calls return the same step.
    #[must_use]
    pub fn next(&self) -> Step {
        let kind = match self.due() {
            Due::Model => StepKind::CallModel(self.request()),
            Due::Tools(calls, decided) => StepKind::CallTools(with_edits(&calls, decided)),
            Due::Approval(calls) => StepKind::AwaitApproval(calls),
            Due::Done(result) => StepKind::Done(result),
        };
        Step { number: self.step(), kind }
    }

    /// Returns the number of the current step.
    pub(crate) fn step(&self) -> u64 {
        self.state.step
    }

    pub(crate) fn due(&self) -> Due<'_> {
        match &self.state.phase {
            Phase::Model | Phase::LastWord { .. } => match self.exhausted_limit() {
                None => Due::Model,
                Some(limit) => Due::Done(self.at_limit(limit)),
            },
            Phase::Approval { awaits, .. } => {
                Due::Approval(self.awaited(awaits).cloned().collect())
            }
            Phase::Tools { results } => {
                Due::Tools(self.batch(results).collect(), &self.state.decisions)
            }
            Phase::Done(result) => Due::Done(result.clone()),
        }
    }

    /// Returns the limit that forbids another request to the model.
    fn exhausted_limit(&self) -> Option<LimitKind> {
        let Limits { budget, max_time, .. } = &self.state.limits;
        if max_time.is_some_and(|time| self.state.elapsed >= time) {
            return Some(LimitKind::Time);
        }
        let counts_tokens = budget.input_tokens.is_some() || budget.output_tokens.is_some();
        let usage = if counts_tokens {
            self.request().most_usage(Dialect::JsonSchema2020)
        } else {
            Usage::default()
        };
        let most = Spent::model_call(usage);
        budget.refuses(self.state.spent, most).map(|(limit, _)| limit)
    }

    /// Returns the result of a run that reached a limit. Its answer is the model's last text.
    fn at_limit(&self, limit: LimitKind) -> RunResult {
        let said = self.state.messages.iter().rev().find_map(|message| match &**message {
            Message::Assistant { parts } => Some(text_of(parts)),
            _ => None,
        });
        // The output of a typed run is the arguments of a call, so text is not an answer there.
        let typed = self.state.output.is_some();
        let answer = said.filter(|_| !typed).unwrap_or_default();
        RunResult { answer, ending: Ending::LimitReached, limit: Some(limit), reason: None }
    }

    /// Returns the limit of the last request, if the next request is the last one.
    pub(super) fn last_word(&self) -> Option<Option<LimitKind>> {
        match self.state.phase {
            Phase::LastWord { limit } => Some(limit),
            // If the budget allows one more request, it is for the answer.
            Phase::Model if self.has_one_question_left() => Some(Some(LimitKind::ModelCalls)),
            _ => None,
        }
    }

    /// Returns whether the budget allows one more request. A typed run answers by a call, so it
    /// needs no last request without tools.
    pub(super) fn has_one_question_left(&self) -> bool {
        let most = self.state.limits.budget.model_calls;
        let asked = self.state.spent.model_calls;
        self.state.output.is_none() && most.is_some_and(|most| most <= asked.saturating_add(1))
    }

    pub(crate) fn request(&self) -> Request {
        let last = self.last_word().is_some();
        if let Some((selector, shown)) = &self.selector {
            let request = Request::new(shown.iter().cloned())
                .with_max_output_tokens(self.state.limits.max_output_tokens);
            let asked = || Arc::clone(&selector.asked);
            return if last { request } else { request.with_output(asked()) };
        }
        let request = Request::new(self.state.messages.iter().cloned())
            .with_tools(Arc::clone(&self.contracts))
            .with_max_output_tokens(self.state.limits.max_output_tokens);
        // The tools stay in the request, so that the provider's prompt cache stays valid.
        let none = last && !self.contracts.is_empty();
        if none { request.with_tool_choice(ToolChoice::None) } else { request }
    }

    /// Returns the calls of the last reply with these ids. The ids are in the order of the calls.
    fn awaited<'a>(&'a self, ids: &'a [String]) -> impl Iterator<Item = &'a ToolCall> + Clone {
        let mut ids = ids.iter().peekable();
        self.calls().filter(move |call| ids.next_if(|id| **id == call.id).is_some())
    }

    /// Returns the calls of the model's last reply.
    fn calls(&self) -> impl Iterator<Item = &ToolCall> + Clone {
        calls_of(self.last_parts())
    }

    /// Returns the parts of the model's last reply.
    fn last_parts(&self) -> &[ReplyPart] {
        match self.state.messages.last().map(|message| &**message) {
            Some(Message::Assistant { parts }) => parts,
            _ => &[],
        }
    }

    /// Sets `next` to the first call of the last reply without a result.
    fn find_next(&mut self) {
        self.next = Place::default();
        self.go_on();
    }

    /// Advances `next` to the next call without a result. No call is visited twice.
    fn go_on(&mut self) {
        let mut next = self.next;
        let Phase::Tools { results } = &self.state.phase else { return };
        let parts = self.last_parts();
        while results.get(next.call).is_some_and(Option::is_some) {
            next.call += 1;
            while let Some(part) = parts.get(next.part) {
                next.part += 1;
                if matches!(part, ReplyPart::Call(_)) {
                    break;
                }
            }
        }
        self.next = next;
    }

    /// Returns the next calls that may run concurrently: consecutive reads, or one call of another
    /// effect. Changes then happen in the model's order.
    fn batch<'a>(
        &'a self,
        results: &'a [Option<ToolResult>],
    ) -> impl Iterator<Item = &'a ToolCall> + Clone {
        let Place { part, call } = self.next;
        let calls = calls_of(self.last_parts().get(part..).unwrap_or_default());
        let results = results.get(call..).unwrap_or_default();
        let open = calls.zip(results).filter(|(_, result)| result.is_none());
        let mut all_read = true;
        open.map(|(call, _)| call).enumerate().map_while(move |(place, call)| {
            let follows = all_read;
            all_read &= self.tools.reads(&call.name);
            (place == 0 || (follows && all_read)).then_some(call)
        })
    }

    /// Applies the result of the step that [`next`](Self::next) returned.
    ///
    /// # Errors
    ///
    /// [`RunError::WrongStep`], [`RunError::WrongAnswer`], and [`RunError::WrongArguments`] for the
    /// arguments of a person. The run is unchanged then.
    pub fn apply(&mut self, answer: StepResult) -> Result<()> {
        let step = self.state.step;
        if answer.step != step {
            return Err(RunError::WrongStep { expected: step, got: answer.step });
        }
        self.fits(&answer.kind)?;
        let StepResult { kind, elapsed, spent, .. } = answer;
        let last_word = self.last_word();
        // These are of the previous result, and only drivers that emit events read them.
        self.state.own_results.clear();
        self.state.decided.clear();
        // Saturating, because a stored run may contain any number.
        self.state.step = step.saturating_add(1);
        self.state.elapsed = self.state.elapsed.saturating_add(elapsed);
        self.state.spent += spent.unwrap_or_else(|| match &kind {
            StepResultKind::Model(reply) => Spent::model_call(self.counted(reply.usage)),
            StepResultKind::Tools(results) => {
                results.iter().map(|_| Spent::tool_call()).fold(Spent::default(), |a, b| a + b)
            }
            _ => Spent::default(),
        });
        match kind {
            StepResultKind::Model(reply) => match last_word {
                Some(limit) => self.take_last_word(reply, limit),
                None => self.take_reply(reply),
            },
            StepResultKind::Tools(answers) => self.take_results(answers),
            StepResultKind::Decisions(decisions) => self.take_decisions(decisions),
            StepResultKind::Rejected(why) => self.take_rejection(&why),
            StepResultKind::Exhausted(limit) => {
                self.state.phase = Phase::Done(self.at_limit(limit))
            }
        }
        Ok(())
    }

    /// Returns the usage of a reply for the budget. Unreported counts are replaced by the largest
    /// possible ones, because unknown is not zero.
    fn counted(&self, reported: Usage) -> Usage {
        let budget = &self.state.limits.budget;
        let counts = budget.input_tokens.is_some() || budget.output_tokens.is_some();
        if !reported.incomplete || !counts {
            return reported;
        }
        let most = self.request().most_usage(Dialect::JsonSchema2020);
        let mut counted = reported;
        counted.input_tokens = most.input_tokens.max(reported.input_tokens);
        counted.output_tokens = most.output_tokens.max(reported.output_tokens);
        counted
    }

    /// Checks that an answer has the kind that the current step expects.
    fn fits(&self, answer: &StepResultKind) -> Result<()> {
        let done = || "nothing: the run is done";
        let expected = match (&self.state.phase, answer) {
            (Phase::Model | Phase::LastWord { .. }, _) if self.exhausted_limit().is_some() => {
                done()
            }
            (
                Phase::Model | Phase::LastWord { .. },
                StepResultKind::Model(_) | StepResultKind::Exhausted(_),
            ) => return Ok(()),
            (Phase::Model | Phase::LastWord { .. }, _) => "a model's reply",
            (Phase::Tools { results }, StepResultKind::Tools(answers)) => {
                let ids = answers.iter().map(|answer| answer.id.as_str());
                if is_each(self.batch(results), ids) {
                    return Ok(());
                }
                "one result for each of its calls, by id"
            }
            (Phase::Tools { .. }, _) => "the results of its calls",
            (Phase::Approval { awaits, .. }, StepResultKind::Decisions(decisions)) => {
                let ids = decisions.iter().map(|(id, _)| id.as_str());
                if is_each(self.awaited(awaits), ids) {
                    return self.check_edits(self.awaited(awaits), decisions);
                }
                "one decision for each of its calls, by id"
            }
            (Phase::Approval { .. }, _) => "a person's decisions",
            (Phase::Done(result), StepResultKind::Rejected(_)) => {
                if self.state.output.is_some() && result.ending == Ending::Answered {
                    return Ok(());
                }
                "nothing: only the answer of a typed run can be rejected"
            }
            (Phase::Done(_), _) => done(),
        };
        Err(RunError::WrongAnswer { step: self.state.step, expected })
    }

    /// Checks a person's arguments against the tool's schema now. The person can correct them; the
    /// model could not.
    fn check_edits<'a>(
        &self,
        calls: impl Iterator<Item = &'a ToolCall>,
        decisions: &[(String, Decision)],
    ) -> Result<()> {
        let edits = decisions.iter().filter_map(|(id, decision)| match decision {
            Decision::Edit { arguments } => Some((id.as_str(), arguments)),
            _ => None,
        });
        let edits: HashMap<&str, &String> = edits.collect();
        for call in calls {
            let contract = self.tools.place(&call.name).and_then(|at| self.contracts.get(at));
            if let (Some(arguments), Some(contract)) = (edits.get(call.id.as_str()), contract) {
                contract
                    .read_with::<Value>(arguments, self.policy_of(&call.name))
                    .map(drop)
                    .map_err(|fault| RunError::WrongArguments { id: call.id.clone(), fault })?;
            }
        }
        Ok(())
    }
}

fn calls_of(parts: &[ReplyPart]) -> impl Iterator<Item = &ToolCall> + Clone {
    parts.iter().filter_map(|part| match part {
        ReplyPart::Call(call) => Some(call),
        _ => None,
    })
}

/// Returns whether these are the ids of the calls, each once, in any order.
fn is_each<'a, 'b>(
    calls: impl Iterator<Item = &'a ToolCall> + Clone,
    ids: impl ExactSizeIterator<Item = &'b str> + Clone,
) -> bool {
    // Drivers answer in order, so this is the common case.
    if calls.clone().map(|call| call.id.as_str()).eq(ids.clone()) {
        return true;
    }
    let count = ids.len();
    let ids: HashSet<&str> = ids.collect();
    let mut found = 0;
    let mut all = calls.inspect(|_| found += 1);
    let all = all.all(|call| ids.contains(call.id.as_str()));
    all && found == count && ids.len() == count
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

/// Serializes the run as its [`RunState`].
impl Serialize for Run {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.state.serialize(serializer)
    }
}
