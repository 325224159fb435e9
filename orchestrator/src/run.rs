//! The loop between a model and its tools, as a state machine.
mod applying;
mod approval;
mod compacting;
mod conversation;
mod sending;
mod strangers;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::de::IgnoredAny;
use serde::{Serialize, Serializer};
use toolwright_module::budget::{LimitKind, Spent};
use toolwright_module::event::Ending;
use toolwright_module::message::{CallIds, Part, ReplyPart, ToolResult};
use toolwright_module::model::{SettingSet, Settings, Usage};
use toolwright_module::{LanguageModel, Message, Policy, Request, Tool, ToolCall};
use toolwright_signature::Contract;

pub(crate) use self::approval::{edit_of, with_edits};
pub(crate) use self::compacting::Measured;
pub(crate) use self::sending::MOST_FOUND;
use self::sending::{Counted, CutResults};
pub use self::sending::{Edited, Offer};
use self::strangers::Strangers;
pub(crate) use self::strangers::{split, text_of as text_of_part};
use crate::approval_policy::ApprovalPolicy;
use crate::error::{Result, RunError};
use crate::limits::Limits;
use crate::pairing::calls_of;
use crate::perform::{self, Earlier};
use crate::repaired_call::RepairedCall;
use crate::repeated_mistakes::Mistakes;
use crate::run::applying::text_of;
use crate::selector::Selector;
use crate::state::{Phase, RunState, VERSION};
use crate::step::{RunResult, Step, StepKind, StepResult, StepResultKind};
use crate::task::Task;
use crate::tool_choosing::Choosing;
use crate::tool_set::{Compared, Resumed};
use crate::tools::Tools;

/// The loop between a model and its tools, as a value.
///
/// A run does nothing by itself. [`next`](Self::next) returns the next step, and
/// [`apply`](Self::apply) takes its result. There is no clock and no randomness in it, so the same
/// results give the same run. It serializes as [`RunState`]: store it at any step, and
/// [`resume`](Self::resume) it in another process.
///
/// [`Agent`](crate::Agent) drives a run on tokio. The example below drives
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
    /// The ids of all calls so far.
    ids: CallIds,
    /// The first call of the last reply without a result.
    next: NextCall,
    /// The indices of the tools that were called.
    used: BTreeSet<usize>,
    /// How far selections and a person's arguments may be repaired. The driver sets it; it is not
    /// stored.
    policy: Policy,
    /// The recorded parts of the run, if it is driven over a journal. The driver sets it; it is not
    /// stored.
    pub(crate) earlier: Option<Arc<Earlier>>,
    /// The tokens of the messages and the contracts, if the budget limits tokens.
    counted: Counted,
    contracts_tokens: OnceLock<u64>,
    /// Whether the length of each request is counted, for a compaction. The driver sets it; it is not
    /// stored.
    measures: bool,
    /// The results that are sent without their whole texts.
    cut: CutResults,
    /// The untrusted results of the conversation.
    strangers: Strangers,
    /// The number of requests when the rule for approvals judged the calls of the last reply.
    judged: Option<u64>,
}

/// The position of a call in the last reply, counted in parts and in calls.
#[derive(Debug, Clone, Copy, Default)]
struct NextCall {
    part: usize,
    call: usize,
}

/// The next step, like [`StepKind`], but borrowed.
pub(crate) enum Due<'a> {
    Model,
    /// The open calls, without a result.
    Tools(&'a [Option<ToolResult>]),
    Approval(Vec<ToolCall>),
    Done(RunResult),
}

impl Run {
    /// Returns a new run.
    ///
    /// # Errors
    ///
    /// - [`RunError::DuplicateTool`].
    /// - [`RunError::NoSuchTool`] if the limits name a tool that does not exist.
    /// - [`RunError::History`] if calls and results of the task's history do not match.
    /// - [`RunError::NothingToAnswer`] if the task is empty.
    pub fn new(task: impl Into<Task>, tools: &[Tool], limits: Limits) -> Result<Self> {
        Self::begin(task.into(), Arc::new(Tools::of(tools)?), limits)
    }

    pub(crate) fn begin(mut task: Task, tools: Arc<Tools>, limits: Limits) -> Result<Self> {
        if let Some(name) = limits.tools.keys().find(|name| !tools.has(name)) {
            return Err(tools.missing("limit", name));
        }
        let carried = *std::mem::take(&mut task.carried);
        let messages = conversation::begun(task)?;
        let state = RunState {
            version: VERSION,
            step: 0,
            phase: Phase::Model,
            task_at: task_at(&messages),
            earlier_tasks: 0,
            messages,
            tools: Arc::clone(&tools.hash),
            tool_set: None,
            output: None,
            settings: None,
            limits,
            approval: ApprovalPolicy::default(),
            choosing: Choosing::default(),
            iterations: 0,
            asked: 0,
            exhausted: 0,
            spent: Spent::default(),
            elapsed: Duration::ZERO,
            tools_used: Vec::new(),
            used_before: 0,
            mistakes: Mistakes::default(),
            decisions: BTreeMap::new(),
            decided: Vec::new(),
            reasons: BTreeMap::new(),
            lost: BTreeMap::new(),
            own_results: Vec::new(),
            repaired: Vec::new(),
            calls: BTreeMap::new(),
            offers: Vec::new(),
            found: carried.found,
            sent: carried.sent,
            summary: carried.summary,
            kept: carried.kept,
            compactions: Vec::new(),
            measured: carried.measured,
            window: carried.window,
        };
        // A conversation comes from a store of the program.
        if let Some(what) = state.sent.as_ref().and_then(|edited| edited.fault(&state.messages)) {
            return Err(RunError::History { what });
        }
        let mut run = Self::of(state, tools);
        if !run.state.found.is_empty() {
            run.make_contracts()?;
        }
        Ok(run)
    }

    fn of(state: RunState, tools: Arc<Tools>) -> Self {
        let contracts = Arc::clone(&tools.first);
        let sent = state.sent.iter().flat_map(|edited| &edited.by);
        let mut ids = CallIds::default();
        state.messages.iter().chain(sent).for_each(|message| ids.add(parts_of(message)));
        let used = state.tools_used.iter().filter_map(|name| tools.place(name)).collect();
        let (next, policy) = (NextCall::default(), Policy::default());
        let (selector, counted, contracts_tokens) = (None, Counted::default(), OnceLock::new());
        let mut cut = CutResults::default();
        state.messages.iter().for_each(|message| cut.add(message));
        let mut run = Self {
            state,
            tools,
            contracts,
            selector,
            ids,
            next,
            used,
            policy,
            earlier: None,
            counted,
            contracts_tokens,
            measures: false,
            cut,
            strangers: Strangers::default(),
            judged: None,
        };
        run.find_next();
        run
    }

    /// Remembers the ids of a message's calls, which later calls must not have.
    fn note_ids(&mut self, message: &Message) {
        self.ids.add(parts_of(message));
    }

    /// Resumes a stored run with these tools. Agents have
    /// [`Agent::resume`](crate::Agent::resume).
    ///
    /// ```
    /// # use toolwright_orchestrator::{Limits, Run, RunState};
    /// let run = Run::new("Say hello.", &[], Limits::default())?;
    /// let stored = serde_json::to_string(&run)?;
    ///
    /// let state: RunState = serde_json::from_str(&stored)?;
    /// let resumed = Run::resume(state, &[])?;
    /// assert_eq!(resumed.run.next(), run.next());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The tools may have changed since the run was stored: the changes are reported, and the model
    /// gets the current tools. Only an open call, which has no result yet, can be an obstacle.
    ///
    /// A call that waits by the stored policy, and that no stored decision allows, waits again,
    /// whatever the stored phase says. [`RunState`] says who may write to the store.
    ///
    /// # Errors
    ///
    /// - [`RunError::OpenCallTool`] if the tool of an open call was removed.
    /// - [`RunError::OpenCall`] if the tool changed, and cannot read the arguments of an open call.
    /// - [`RunError::OtherToolSet`] if the state has the tool set of other tools.
    /// - [`RunError::Corrupt`] if the state is inconsistent.
    ///
    /// A run stored by a later version fails earlier, when its [`RunState`] is deserialized.
    pub fn resume(state: RunState, tools: &[Tool]) -> Result<Resumed> {
        Self::resume_shared(state, Arc::new(Tools::of(tools)?))
    }

    pub(crate) fn resume_shared(mut state: RunState, tools: Arc<Tools>) -> Result<Resumed> {
        state.check()?;
        let set = state.tool_set.take();
        let compared = Compared::of(&state.tools, set.as_deref(), &tools)?;
        check_open_calls(&state, &compared, &tools)?;
        let changes = compared.changes;
        state.tools = Arc::clone(&tools.hash);
        let mut run = Self::of(state, tools);
        run.make_contracts()?;
        run.require_approvals();
        run.ask_about_begun();
        Ok(Resumed { run, changes })
    }

    /// Sets instructions for the model, as a system message at the start. They replace the system
    /// message of a history.
    ///
    /// They have an effect only before the first step. After it the prompt only grows at its end.
    #[must_use]
    pub fn with_instructions(mut self, instructions: impl Into<String>) -> Self {
        if self.state.step == 0 {
            let replaced = self.state.messages.first().is_some_and(|first| is_system(first));
            let instructions = Message::system(instructions);
            if let Some(edited) = &mut self.state.sent
                && edited.replaced > 0
            {
                edited.replaced += usize::from(!replaced);
                let replaced = edited.by.first().is_some_and(|first| is_system(first));
                edited.by.splice(..usize::from(replaced), [Arc::clone(&instructions)]);
            }
            self.state.messages.splice(..usize::from(replaced), [instructions]);
            self.state.task_at += usize::from(!replaced);
            for offer in &mut self.state.offers {
                offer.from += usize::from(!replaced);
            }
            self.show_all();
            // The messages have moved.
            self.strangers.forget();
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

    /// Returns the parts of the current task: the message of the user that the run began with, or
    /// that of the last follow-up.
    pub(crate) fn task(&self) -> &[Part] {
        match self.state.messages.get(self.state.task_at).map(|task| &**task) {
            Some(Message::User { parts }) => parts,
            _ => self.first_task(),
        }
    }

    /// Returns a hash of the current task and its number, by which records tell the tasks of a run
    /// apart. Two tasks may have the same text.
    pub(crate) fn task_hash(&self) -> u64 {
        let task = serde_json::to_string(self.task()).unwrap_or_default();
        match self.state.earlier_tasks {
            0 => perform::hash([&*task]),
            earlier => perform::hash([&*task, &*earlier.to_string()]),
        }
    }

    /// Returns the current task, with the conversation before it.
    pub(crate) fn as_task(&self) -> Task {
        Task::after(&self.state.messages[..self.state.task_at], self.task())
    }

    /// Returns the parts of the first message of the user.
    fn first_task(&self) -> &[Part] {
        let first = self.state.messages.iter().find_map(|message| match &**message {
            Message::User { parts } => Some(parts),
            _ => None,
        });
        first.map_or(&[], |parts| parts)
    }

    /// Returns the number of requests to the model.
    pub(crate) fn asked(&self) -> u64 {
        self.state.asked
    }

    /// Returns how often a limit forbade the next request.
    pub(crate) fn exhausted(&self) -> u32 {
        self.state.exhausted
    }

    /// Passes over an outcome of the next request that a smaller limit forbade.
    pub(crate) fn pass_exhausted(&mut self) {
        self.state.exhausted = self.state.exhausted.saturating_add(1);
    }

    /// Returns the model's last message, for [`due_calls`](Self::due_calls).
    pub(crate) fn last_message(&self) -> Option<Arc<Message>> {
        self.state.messages.last().cloned()
    }

    /// Returns the next calls, as they are in `said`, the model's last message. They do not borrow
    /// the run, which changes while they are made.
    pub(crate) fn due_calls<'m>(&self, said: &'m Message) -> impl Iterator<Item = &'m ToolCall> {
        let results = match &self.state.phase {
            Phase::Tools { results, .. } => results.as_slice(),
            _ => &[],
        };
        self.batch_of(parts_of(said), results)
    }

    /// Replaces the limits, so that a run that reached a limit of its budget or its time can
    /// continue. If the model was already asked for its last answer, use
    /// [`follow_up`](Self::follow_up) instead.
    ///
    /// A stored run keeps its own limits, whatever limits the agent has that
    /// [resumes](crate::Agent::resume) or drives it. A home of runs, such as the journal, calls this
    /// method with the limits of the agent before it continues a run, so that the limits of a new
    /// version of the program apply.
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

    /// Sets the settings of the model calls, such as the temperature. Default: the model's own.
    ///
    /// # Errors
    ///
    /// [`RunError::Setting`] for a number that is not finite, which no stored run can contain. Which
    /// settings the model supports is checked by the driver.
    pub fn with_settings(mut self, settings: impl Into<Arc<Settings>>) -> Result<Self> {
        let settings = settings.into();
        settings.check(SettingSet::ALL)?;
        self.state.settings = Some(settings);
        Ok(self)
    }

    /// Checks that a model supports the run's settings, and takes the images and files of the user.
    /// A stored run may be driven by another model than before.
    pub(crate) fn check_model(&self, model: &dyn LanguageModel) -> Result<()> {
        let capabilities = model.capabilities();
        if let Some(settings) = &self.state.settings {
            settings.check(capabilities.settings)?;
        }
        let parts = self.state.messages.iter().flat_map(|message| match &**message {
            Message::User { parts } => parts.as_slice(),
            _ => &[],
        });
        match parts.into_iter().find(|part| !capabilities.takes(part)) {
            Some(part) => Err(RunError::UnsupportedPart { kind: part.kind() }),
            None => Ok(()),
        }
    }

    /// Returns the maximum number of tokens in one reply.
    pub(super) fn max_output_tokens(&self) -> u64 {
        let set = self.state.settings.as_ref().and_then(|settings| settings.max_output_tokens);
        set.unwrap_or(Request::MAX_OUTPUT_TOKENS)
    }

    fn has_not_begun(&self) -> Result<()> {
        match self.state.step {
            0 => Ok(()),
            step => Err(RunError::Begun { step }),
        }
    }

    /// Returns the contract of a typed run.
    pub(crate) fn output(&self) -> Option<&Arc<Contract>> {
        self.state.output.as_ref()
    }

    /// Returns the results that [`take_own_results`](Self::take_own_results) takes.
    pub(crate) fn own_results(&self) -> &[(ToolCall, ToolResult)] {
        &self.state.own_results
    }

    /// Takes the run's own results for calls of the last reply, such as those of unknown tools.
    pub(crate) fn take_own_results(&mut self) -> Vec<(ToolCall, ToolResult)> {
        std::mem::take(&mut self.state.own_results)
    }

    /// Checks that these are the tools that the run started with.
    pub(crate) fn check_tools(&self, now: &Arc<Tools>) -> Result<()> {
        if Arc::ptr_eq(now, &self.tools) { Ok(()) } else { now.check_same(&self.tools) }
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

    /// Returns the run as it is stored.
    #[must_use]
    pub fn state(&self) -> &RunState {
        &self.state
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
    pub(crate) fn charge(&mut self, spent: Spent) {
        self.state.spent += spent;
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
            Due::Tools(results) => {
                let calls: Vec<&ToolCall> = self.batch(results).collect();
                StepKind::CallTools(with_edits(&calls, &self.state.decisions))
            }
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
            Phase::Tools { results, .. } => Due::Tools(results),
            Phase::Done(result) => Due::Done(result.clone()),
        }
    }

    /// Returns the limit that forbids another request to the model.
    fn exhausted_limit(&self) -> Option<LimitKind> {
        let Limits { budget, max_time, .. } = &self.state.limits;
        if max_time.is_some_and(|time| self.state.elapsed >= time) {
            return Some(LimitKind::Time);
        }
        let usage = if self.counts_tokens() { self.most_usage() } else { Usage::default() };
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
            Phase::Model if self.has_one_request_left() => Some(Some(LimitKind::ModelCalls)),
            _ => None,
        }
    }

    /// Returns whether the budget allows one more request. A typed run answers by a call, so it
    /// needs no last request without tools.
    pub(super) fn has_one_request_left(&self) -> bool {
        let most = self.state.limits.budget.model_calls;
        let asked = self.state.spent.model_calls;
        self.state.output.is_none() && most.is_some_and(|most| most <= asked.saturating_add(1))
    }

    /// Returns the calls of the last reply with these ids. The ids are in the order of the calls.
    fn awaited<'a>(&'a self, ids: &'a [String]) -> impl Iterator<Item = &'a ToolCall> + Clone {
        let mut ids = ids.iter().peekable();
        self.calls().filter(move |call| ids.next_if(|id| **id == call.id).is_some())
    }

    /// Returns the calls of the model's last reply.
    fn calls(&self) -> impl Iterator<Item = &ToolCall> + Clone {
        self.state.last_calls()
    }

    /// Returns the parts of the model's last reply.
    fn last_parts(&self) -> &[ReplyPart] {
        self.state.messages.last().map_or(&[], |message| parts_of(message))
    }

    /// Sets `next` to the first call of the last reply without a result.
    fn find_next(&mut self) {
        self.next = NextCall::default();
        self.go_on();
    }

    /// Advances `next` to the next call without a result. No call is visited twice.
    fn go_on(&mut self) {
        let mut next = self.next;
        let Phase::Tools { results, .. } = &self.state.phase else { return };
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
        self.batch_of(self.last_parts(), results)
    }

    /// Returns the next calls, as they are in `parts`, those of the last reply.
    fn batch_of<'m>(
        &self,
        parts: &'m [ReplyPart],
        results: &[Option<ToolResult>],
    ) -> impl Iterator<Item = &'m ToolCall> + Clone {
        let NextCall { part, call } = self.next;
        let calls = calls_of(parts.get(part..).unwrap_or_default());
        let results = results.get(call..).unwrap_or_default();
        let open = calls.zip(results).filter(|(_, result)| result.is_none());
        let reads = |call: &ToolCall| self.tools.reads(&call.name);
        let mut before = None;
        open.map(|(call, _)| call).enumerate().map_while(move |(place, call)| {
            // The first call matters only if there is a second, and most replies make one.
            let follows = match before.replace(call) {
                None => true,
                Some(before) => (place > 1 || reads(before)) && reads(call),
            };
            follows.then_some(call)
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
        // The results of some calls keep the step open for the others.
        if !self.is_partial(&kind) {
            // Saturating, because a stored run may contain any number.
            self.state.step = step.saturating_add(1);
        }
        self.state.elapsed = self.state.elapsed.saturating_add(elapsed);
        self.state.spent += spent.unwrap_or_else(|| match &kind {
            StepResultKind::Model(reply) => Spent::model_call(self.counted(reply.usage)),
            StepResultKind::Tools(results) => {
                results.iter().map(|_| Spent::tool_call()).fold(Spent::default(), |a, b| a + b)
            }
            _ => Spent::default(),
        });
        match kind {
            StepResultKind::Model(reply) => {
                self.measure(reply.usage);
                self.state.asked = self.state.asked.saturating_add(1);
                self.state.exhausted = 0;
                match last_word {
                    Some(limit) => self.take_last_word(reply, limit),
                    None => self.take_reply(reply),
                }
            }
            StepResultKind::Tools(answers) => self.take_results(answers),
            StepResultKind::Decisions(decisions) => self.take_decisions(decisions),
            StepResultKind::Rejected(why) => self.take_rejection(&why),
            StepResultKind::Exhausted(limit) => match self.state.phase {
                Phase::Tools { .. } => self.take_forbidden(limit),
                _ => {
                    self.pass_exhausted();
                    self.state.phase = Phase::Done(self.at_limit(limit));
                }
            },
        }
        self.count_messages();
        Ok(())
    }

    /// Returns the usage of a reply for the budget. Unreported counts are replaced by the largest
    /// possible ones, because unknown is not zero.
    fn counted(&self, reported: Usage) -> Usage {
        if !reported.incomplete || !self.counts_tokens() {
            return reported;
        }
        let most = self.most_usage();
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
            (Phase::Tools { results, .. }, StepResultKind::Tools(answers)) => {
                let ids = answers.iter().map(|answer| answer.id.as_str());
                if are_some(self.batch(results), ids) {
                    return Ok(());
                }
                "results of its open calls, one for each and by id"
            }
            (Phase::Tools { .. }, StepResultKind::Exhausted(_)) => return Ok(()),
            (Phase::Tools { .. }, _) => "the results of its calls",
            (Phase::Approval { awaits, .. }, StepResultKind::Decisions(decisions)) => {
                let ids = decisions.iter().map(|(id, _)| id.as_str());
                if ids.len() == awaits.len() && are_some(self.awaited(awaits), ids) {
                    return self.check_decisions(self.awaited(awaits), decisions);
                }
                "one decision for each of its calls, by id"
            }
            (Phase::Approval { .. }, _) => "a person's decisions",
            (Phase::Done(result), StepResultKind::Rejected(_)) => {
                if result.ending == Ending::Answered {
                    return Ok(());
                }
                "nothing: only an answer can be rejected"
            }
            (Phase::Done(_), _) => done(),
        };
        Err(RunError::WrongAnswer { step: self.state.step, expected })
    }

    /// Returns whether these are the results of only some of the step's calls.
    fn is_partial(&self, answer: &StepResultKind) -> bool {
        match (&self.state.phase, answer) {
            (Phase::Tools { results, .. }, StepResultKind::Tools(answers)) => {
                self.batch(results).nth(answers.len()).is_some()
            }
            _ => false,
        }
    }
}

/// Checks, for each call without a result, that its tool exists and can read its arguments.
fn check_open_calls(state: &RunState, compared: &Compared<'_>, tools: &Tools) -> Result<()> {
    for (call, arguments) in state.open_calls() {
        let (id, tool) = (call.id.clone(), call.name.clone());
        let Some(is) = tools.contract(&tool) else {
            // The run itself answers calls of unknown tools, so none of them waits.
            if compared.changes.is_empty() {
                return Err(RunError::Corrupt {
                    what: "a call waits for a tool that does not exist",
                });
            }
            let tools = tools.names().map(str::to_owned).collect();
            return Err(RunError::OpenCallTool { id, tool, tools });
        };
        let Some(was) = compared.may_not_read(&tool) else { continue };
        let policy = tools.policy(&tool);
        // If the stored contract could not read them either, the mistake is the model's.
        if was.is_none_or(|was| was.read_with::<IgnoredAny>(arguments, policy).is_ok()) {
            let read = is.read_with::<IgnoredAny>(arguments, policy);
            read.map_err(|fault| RunError::OpenCall { id, tool, fault: Box::new(fault) })?;
        }
    }
    Ok(())
}

/// Returns the index of the last message of the user, which is the task. Results of calls may follow it.
pub(crate) fn task_at(messages: &[Arc<Message>]) -> usize {
    let is_user = |message: &Arc<Message>| matches!(**message, Message::User { .. });
    messages.iter().rposition(is_user).unwrap_or_else(|| messages.len().saturating_sub(1))
}

pub(crate) fn is_system(message: &Message) -> bool {
    matches!(message, Message::System { .. })
}

/// Returns the parts of a reply. Another message has none.
fn parts_of(message: &Message) -> &[ReplyPart] {
    match message {
        Message::Assistant { parts } => parts,
        _ => &[],
    }
}

/// Returns whether these are ids of the calls, at least one, each at most once, in any order.
fn are_some<'a, 'b>(
    calls: impl Iterator<Item = &'a ToolCall>,
    mut ids: impl ExactSizeIterator<Item = &'b str>,
) -> bool {
    let mut open: HashSet<&str> = calls.map(|call| call.id.as_str()).collect();
    ids.len() > 0 && ids.all(|id| open.remove(id))
}

/// Serializes the run as its [`RunState`].
impl Serialize for Run {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.state.serialize(serializer)
    }
}
