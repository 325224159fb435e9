mod taking;

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
use crate::choosing::Choosing;
use crate::error::{Result, RunError};
use crate::limits::Limits;
use crate::mistakes::Mistakes;
use crate::repaired_call::RepairedCall;
use crate::run::taking::{hash, text_of};
use crate::selector::Selector;
use crate::state::{DecidedCall, Phase, RunState, VERSION};
use crate::step::{RunResult, Step, StepKind, StepResult, StepResultKind};
use crate::tools::Tools;

/// The loop between a model and its tools, as a value.
///
/// A run does nothing by itself: [`next`](Self::next) says what is to be done,
/// [`apply`](Self::apply) takes what came of it. There is no clock and no chance in
/// it, so the same answers give the same run. It serialises as [`RunState`]: store it
/// at any step, [`resume`](Self::resume) it in another process.
///
/// [`ToolOrchestrator`](crate::ToolOrchestrator) drives one on tokio. To drive one
/// yourself, as below; with real tools, what the model is told of a call is
/// [`ToolResult::of`], and an error of it whose audience is the run ends your loop:
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
    /// What every request sends: the tools, and `finish` where an output is asked for.
    contracts: Arc<[Arc<Contract>]>,
    /// Where tools are chosen by a selector: it, and the conversation as it is shown.
    selector: Option<(Arc<Selector>, Vec<Arc<Message>>)>,
    /// The ids of all calls so far, hashed: another call that happens to have the hash
    /// of one gets another id, and nothing else comes of it.
    ids: BTreeSet<u64>,
    /// The first call of the last reply that has no result.
    next: Place,
    /// The places of the tools in use, once there are too many to look through.
    used: BTreeSet<usize>,
    /// How far the driver lets selections and a person's arguments be repaired; not stored.
    policy: Policy,
}

/// Where a call stands in the last reply: counted in its parts, and in its calls.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    part: usize,
    call: usize,
}

/// What is to be done now, as [`StepKind`], without a copy of what is only read.
pub(crate) enum Due<'a> {
    Model,
    /// Calls, and the decisions on them, which may have other arguments.
    Tools(Vec<&'a ToolCall>, &'a BTreeMap<String, DecidedCall>),
    Approval(Vec<ToolCall>),
    Done(RunResult),
}

impl Run {
    /// A run that has not begun.
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

    /// A stored run, to go on where it was.
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
    /// # Errors
    ///
    /// If the tools are not those that the run began with, by name, description,
    /// schema and effect, or if the state contradicts itself. That a later version
    /// stored it is found out earlier, when its [`RunState`] is read.
    ///
    /// A call that waits for approval by the stored policy, and that no stored decision
    /// allows, is asked about again, whatever the stored phase says. See [`RunState`] for
    /// who may write the store.
    pub fn resume(state: RunState, tools: &[Tool]) -> Result<Self> {
        // The prompt must not change, so neither may the order of the tools in it.
        let places = state.tools.iter().enumerate();
        let places: HashMap<&str, usize> =
            places.map(|(place, known)| (known.name.as_str(), place)).collect();
        let mut ordered: Vec<&Tool> = tools.iter().collect();
        ordered.sort_by_key(|tool| places.get(tool.contract().name()));
        let tools = Tools::of(ordered)?;
        tools.are(&state.tools)?;
        state.check()?;
        let output = state.output.clone();
        let mut run = Self::of(state, Arc::new(tools));
        if let Some(output) = output {
            run.offer_finish(output)?;
        }
        run.make_selector()?;
        run.hold_back();
        Ok(run)
    }

    /// Tells the model, before the task, how to go about it.
    ///
    /// For a run that has not begun: later, the prompt only grows at its end.
    #[must_use]
    pub fn with_instructions(mut self, instructions: impl Into<String>) -> Self {
        if self.state.step == 0 {
            self.state.messages.insert(0, Message::system(instructions));
            self.show_all();
        }
        self
    }

    /// Makes it a typed run: it ends when the model calls `finish` with an output of
    /// this contract.
    ///
    /// # Errors
    ///
    /// If the contract does not say what it returns, a tool is called `finish`, or the run
    /// has begun: the tools that a model was shown do not change.
    pub fn with_output(mut self, contract: Arc<Contract>) -> Result<Self> {
        self.has_not_begun()?;
        self.offer_finish(contract)?;
        self.make_selector()?;
        Ok(self)
    }

    /// Says how the model chooses tools; [`Choosing::Calls`] unless said.
    ///
    /// # Errors
    ///
    /// If the run has begun, or the tools cannot stand together in one schema.
    pub fn with_choosing(mut self, choosing: Choosing) -> Result<Self> {
        self.has_not_begun()?;
        self.state.choosing = choosing;
        self.make_selector()?;
        Ok(self)
    }

    /// Sets which calls wait for a person. Default: none.
    ///
    /// It takes the place of the run's policy, and holds for every call that was not made
    /// yet; a call that waits already goes on waiting. An agent that drives the run adds
    /// its own policy, so that the stricter of both holds.
    ///
    /// # Errors
    ///
    /// [`RunError::NoSuchTool`] if the policy names one.
    pub fn with_approval(mut self, policy: ApprovalPolicy) -> Result<Self> {
        self.tools.check(&policy)?;
        self.state.approval = policy;
        self.hold_back();
        Ok(self)
    }

    /// Holds the run to this policy as well as to its own.
    pub(crate) fn hold_to(&mut self, policy: &ApprovalPolicy) {
        if policy.is_default() || self.state.approval == *policy {
            return;
        }
        self.state.approval = std::mem::take(&mut self.state.approval).stricter(policy);
        self.hold_back();
    }

    /// Makes those calls wait that wait by the policy and that no decision allows: in
    /// their order, besides those that wait already.
    fn hold_back(&mut self) {
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

    /// Whether a call may not be made before somebody decides on it.
    fn awaits(&self, call: &ToolCall) -> bool {
        let decided = || self.state.decisions.get(&call.id);
        let effect = self.tools.effect(&call.name);
        effect.is_some_and(|effect| self.state.approval.awaits(&call.name, effect))
            && !decided().is_some_and(|decided| decided.allows(call))
    }

    /// Gives the run other limits, so that one that reached a limit of its budget or its
    /// time can go on. One that was asked for its last word already has only that left;
    /// then [`follow_up`](Self::follow_up) goes on. A stored run keeps its own limits,
    /// whatever those of the agent are that drives it.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.state.limits = limits;
        // It still waits for its question to the model.
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

    /// The contract whose output ends the run, if it is a typed one.
    pub(crate) fn output(&self) -> Option<&Contract> {
        self.state.output.as_deref()
    }

    /// What the run itself answered to calls of the last reply, such as of tools that
    /// do not exist; given once.
    pub(crate) fn take_own_results(&mut self) -> Vec<(ToolCall, ToolResult)> {
        std::mem::take(&mut self.state.own_results)
    }

    /// Whether these are the tools that the run began with.
    pub(crate) fn check_tools(&self, now: &Arc<Tools>) -> Result<()> {
        if Arc::ptr_eq(now, &self.tools) { Ok(()) } else { now.are(&self.state.tools) }
    }

    /// What was decided since this was asked last, by the call's id.
    pub(crate) fn take_decided(&mut self) -> Vec<(String, Decision)> {
        let ids = std::mem::take(&mut self.state.decided).into_iter();
        let decided = ids.filter_map(|id| {
            let decision = self.state.decisions.get(&id)?.decision.clone();
            Some((id, decision))
        });
        decided.collect()
    }

    /// The decisions on calls of the run, by the calls' ids.
    ///
    /// They are stored with the run. A call that waits for approval is made only if there
    /// is one that allows exactly this call.
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

    /// Says how far selections and a person's arguments may be repaired from now on.
    pub(crate) fn read_by(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// The stricter policy of the tool and of whoever drives the run.
    fn policy_of(&self, tool: &str) -> Policy {
        self.tools.policy(tool).min(self.policy)
    }

    /// Whether the model calls tools by its provider's calls, each held to its own schema.
    pub(crate) fn calls_natively(&self) -> bool {
        self.selector.is_none()
    }

    /// The calls whose arguments had to be repaired, as the model wrote them; the answer of
    /// a typed run is the call of `finish`.
    #[must_use]
    pub fn repaired(&self) -> &[RepairedCall] {
        &self.state.repaired
    }

    /// The conversation so far.
    #[must_use]
    pub fn history(&self) -> &[Arc<Message>] {
        &self.state.messages
    }

    /// How many rounds of tool calls there were.
    #[must_use]
    pub fn iterations(&self) -> u32 {
        self.state.iterations
    }

    /// What the run came to, everything below the tools included.
    #[must_use]
    pub fn spent(&self) -> Spent {
        self.state.spent
    }

    /// What bounds the run.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.state.limits
    }

    /// Counts what a step came to that has no answer, because it failed.
    pub fn charge(&mut self, spent: Spent) {
        self.state.spent += spent;
    }

    /// Asks a run that is done for something more, in the same conversation. It has all
    /// its iterations for that; what it came to counts on.
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
    /// [`RunError::NotDone`].
    pub fn follow_up(&mut self, task: impl Into<String>) -> Result<()> {
        if !matches!(self.next().kind, StepKind::Done(_)) {
            return Err(RunError::NotDone { step: self.state.step });
        }
        // The call that ended a typed run has no result yet, and a call without one
        // makes the conversation unusable.
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

    /// How long the steps took, as their answers say.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.state.elapsed
    }

    /// The names of the tools that were called, each once, in order of first use.
    #[must_use]
    pub fn tools_used(&self) -> &[String] {
        &self.state.tools_used
    }

    /// What is to be done now. Asking again gives the same step.
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

    /// The number of the present step.
    pub(crate) fn step(&self) -> u64 {
        self.state.step
    }

    pub(crate) fn due(&self) -> Due<'_> {
        match &self.state.phase {
            Phase::Model | Phase::LastWord { .. } => match self.refused() {
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

    /// What there is too little of to ask the model.
    fn refused(&self) -> Option<LimitKind> {
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

    /// What the run ends with where it cannot go on: the last thing that the model said.
    fn at_limit(&self, limit: LimitKind) -> RunResult {
        let said = self.state.messages.iter().rev().find_map(|message| match &**message {
            Message::Assistant { parts } => Some(text_of(parts)),
            _ => None,
        });
        // Only calls are an output, and text is no answer where one was asked for.
        let typed = self.state.output.is_some();
        let answer = said.filter(|_| !typed).unwrap_or_default();
        RunResult { answer, ending: Ending::LimitReached, limit: Some(limit), reason: None }
    }

    /// Whether the next question is the last one, and because of which limit.
    pub(super) fn last_word(&self) -> Option<Option<LimitKind>> {
        match self.state.phase {
            Phase::LastWord { limit } => Some(limit),
            // The one question that a budget allows is for the answer.
            Phase::Model if self.has_one_question_left() => Some(Some(LimitKind::ModelCalls)),
            _ => None,
        }
    }

    /// A typed run answers by a call, so it may make one with its last question.
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
        // The tools stay in the prompt, so that what was cached stays so.
        let none = last && !self.contracts.is_empty();
        if none { request.with_tool_choice(ToolChoice::None) } else { request }
    }

    /// Those of the last reply's calls that have these ids, which are in their order.
    fn awaited<'a>(&'a self, ids: &'a [String]) -> impl Iterator<Item = &'a ToolCall> + Clone {
        let mut ids = ids.iter().peekable();
        self.calls().filter(move |call| ids.next_if(|id| **id == call.id).is_some())
    }

    /// The calls of the model's last reply.
    fn calls(&self) -> impl Iterator<Item = &ToolCall> + Clone {
        calls_of(self.last_parts())
    }

    /// The parts of the model's last reply.
    fn last_parts(&self) -> &[ReplyPart] {
        match self.state.messages.last().map(|message| &**message) {
            Some(Message::Assistant { parts }) => parts,
            _ => &[],
        }
    }

    /// Looks for the first call of the last reply that has no result.
    fn find_next(&mut self) {
        self.next = Place::default();
        self.go_on();
    }

    /// Goes on to the next call without a result: no call is looked at twice.
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

    /// The next calls that may run side by side: reads that follow one another, or
    /// one call of any other kind, so that changes happen in the model's order.
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

    /// Takes the answer to the step that [`next`](Self::next) gave.
    ///
    /// # Errors
    ///
    /// [`RunError::WrongStep`], [`RunError::WrongAnswer`] and, of a person's arguments,
    /// [`RunError::WrongArguments`]; the run is then as it was.
    pub fn apply(&mut self, answer: StepResult) -> Result<()> {
        let step = self.state.step;
        if answer.step != step {
            return Err(RunError::WrongStep { expected: step, got: answer.step });
        }
        self.fits(&answer.kind)?;
        let StepResult { kind, elapsed, spent, .. } = answer;
        let last_word = self.last_word();
        // Of the answer before: whoever drives by hand has no use for them.
        self.state.own_results.clear();
        self.state.decided.clear();
        // Saturating: whoever stores a run may hand back any number.
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

    /// The usage of a reply as the budget counts it. What a server did not report counts
    /// as the most that the request can take: unknown is not zero.
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

    /// Whether an answer is one to the present step.
    fn fits(&self, answer: &StepResultKind) -> Result<()> {
        let done = || "nothing: the run is done";
        let expected = match (&self.state.phase, answer) {
            (Phase::Model | Phase::LastWord { .. }, _) if self.refused().is_some() => done(),
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

    /// A person's arguments are held to the tool's schema at once: a person can mend
    /// them, the model could not.
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

/// Whether these are the ids of the calls, each once, in any order.
fn is_each<'a, 'b>(
    calls: impl Iterator<Item = &'a ToolCall> + Clone,
    ids: impl ExactSizeIterator<Item = &'b str> + Clone,
) -> bool {
    // In their order, as drivers answer.
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

/// The arguments that a person gave for a call instead of the model's.
pub(crate) fn edit_of<'a>(decided: &'a BTreeMap<String, DecidedCall>, id: &str) -> Option<&'a str> {
    match decided.get(id) {
        Some(DecidedCall { decision: Decision::Edit { arguments }, .. }) => Some(arguments),
        _ => None,
    }
}

/// The calls as they are made.
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

/// As a [`RunState`].
impl Serialize for Run {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.state.serialize(serializer)
    }
}
