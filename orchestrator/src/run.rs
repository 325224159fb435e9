use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde::{Serialize, Serializer};
use serde_json::Value;
use toolwright_module::{
    Decision, Dialect, Ending, Finish, Limit, Message, Part, Reply, ReplyPart, Request, Spent,
    Tool, ToolCall, ToolChoice, ToolResult, Usage,
};
use toolwright_signature::Contract;

use crate::approval_policy::ApprovalPolicy;
use crate::choosing::Choosing;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::mistakes::{Mistake, Mistakes};
use crate::selector::{Selector, Selects};
use crate::state::{Phase, RunState, VERSION};
use crate::step::{Answer, AnswerKind, RunResult, Step, StepKind};
use crate::tools::{KnownTool, Tools};

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
/// use toolwright_module::{Reply, ToolCall, ToolResult};
/// use toolwright_orchestrator::{Answer, Limits, Run, StepKind};
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
///             Answer::model(step.number, Reply::calls([call]))
///         }
///         StepKind::CallModel(_) => Answer::model(step.number, Reply::text("It is noon.")),
///         // … and here it runs its tools.
///         StepKind::CallTools(calls) => {
///             let results = calls.iter().map(|call| ToolResult::new(call, "noon"));
///             Answer::tools(step.number, results)
///         }
///         StepKind::Done(result) => {
///             assert_eq!(result.answer, "It is noon.");
///             break;
///         }
///         _ => unreachable!("a step that this program does not know"),
///     };
///     run.apply(answer)?;
/// }
/// # Ok::<(), toolwright_orchestrator::Error>(())
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
    ids: HashSet<u64>,
}

impl Run {
    /// A run that has not begun.
    ///
    /// # Errors
    ///
    /// [`Error::DuplicateTool`].
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
            own_results: Vec::new(),
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
        Self { state, tools, contracts, selector: None, ids }
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
    pub fn resume(state: RunState, tools: &[Tool]) -> Result<Self> {
        // The prompt must not change, so neither may the order of the tools in it.
        let mut ordered: Vec<&Tool> = tools.iter().collect();
        ordered.sort_by_key(|tool| {
            state.tools.iter().position(|known| known.name == tool.contract().name())
        });
        let tools = Tools::of(ordered)?;
        for before in &*state.tools {
            match tools.known.iter().find(|now| now.name == before.name) {
                None => return Err(Error::MissingTool { name: before.name.clone() }),
                Some(now) if now != before => {
                    return Err(Error::ChangedTool { name: before.name.clone() });
                }
                Some(_) => {}
            }
        }
        let unknown = |now: &&KnownTool| state.tools.iter().all(|before| before.name != now.name);
        if let Some(added) = tools.known.iter().find(unknown) {
            return Err(Error::AddedTool { name: added.name.clone() });
        }
        state.check()?;
        let output = state.output.clone();
        let mut run = Self::of(state, Arc::new(tools));
        if let Some(output) = output {
            run.offer_finish(output)?;
        }
        run.make_selector()?;
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
    /// If the contract does not say what it returns, or the run has begun: the tools
    /// that a model was shown do not change.
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

    /// Says which calls wait for a person; none unless said. It holds for replies from
    /// now on.
    #[must_use]
    pub fn with_approval(mut self, policy: ApprovalPolicy) -> Self {
        self.state.approval = policy;
        self
    }

    /// Gives the run other limits, so that one that reached a limit of its budget or its
    /// time can go on.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.state.limits = limits;
        self
    }

    fn has_not_begun(&self) -> Result<()> {
        match self.state.step {
            0 => Ok(()),
            step => Err(Error::Begun { step }),
        }
    }

    fn offer_finish(&mut self, contract: Arc<Contract>) -> Result<()> {
        let finish = Arc::new(contract.finish()?);
        self.contracts = self.tools.contracts.iter().cloned().chain([finish]).collect();
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

    /// What all model calls used, those below the tools included.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.state.spent.usage
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
    /// # use toolwright_orchestrator::{Answer, Limits, Run, StepKind};
    /// let mut run = Run::new("Say hello.", &[], Limits::default())?;
    /// run.apply(Answer::model(0, Reply::text("Hello.")))?;
    /// run.follow_up("And goodbye.")?;
    /// let StepKind::CallModel(request) = run.next().kind else { panic!() };
    /// assert_eq!(request.messages.len(), 3);
    /// # Ok::<(), toolwright_orchestrator::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotDone`].
    pub fn follow_up(&mut self, task: impl Into<String>) -> Result<()> {
        if !matches!(self.next().kind, StepKind::Done(_)) {
            return Err(Error::NotDone { step: self.state.step });
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
        let kind = match &self.state.phase {
            Phase::Model | Phase::LastWord { .. } => match self.refused() {
                None => StepKind::CallModel(self.request()),
                Some(limit) => StepKind::Done(self.at_limit(limit)),
            },
            Phase::Approval { results } => {
                StepKind::AwaitApproval(self.awaiting(results).cloned().collect())
            }
            Phase::Tools { results, edited } => {
                let calls = self.batch(results).cloned().map(|mut call| {
                    if let Some(arguments) = edited.get(&call.id) {
                        call.arguments.clone_from(arguments);
                    }
                    call
                });
                StepKind::CallTools(calls.collect())
            }
            Phase::Done(result) => StepKind::Done(result.clone()),
        };
        Step { number: self.state.step, kind }
    }

    /// What there is too little of to ask the model.
    fn refused(&self) -> Option<Limit> {
        let Limits { budget, max_time, .. } = &self.state.limits;
        if max_time.is_some_and(|time| self.state.elapsed >= time) {
            return Some(Limit::Time);
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
    fn at_limit(&self, limit: Limit) -> RunResult {
        let said = self.state.messages.iter().rev().find_map(|message| match &**message {
            Message::Assistant { parts } => Some(text_of(parts)),
            _ => None,
        });
        // Only calls are an output, and text is no answer where one was asked for.
        let typed = self.state.output.is_some();
        let answer = said.filter(|_| !typed).unwrap_or_default();
        RunResult { answer, ending: Ending::LimitReached, limit: Some(limit) }
    }

    fn request(&self) -> Request {
        let last = matches!(self.state.phase, Phase::LastWord { .. });
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

    /// Those of the last reply's calls that a person decides on.
    fn awaiting<'a>(
        &'a self,
        results: &'a [Option<ToolResult>],
    ) -> impl Iterator<Item = &'a ToolCall> + Clone {
        let open = self.calls().zip(results).filter(|(_, result)| result.is_none());
        open.map(|(call, _)| call).filter(|call| {
            let effect = self.tools.effect(&call.name);
            effect.is_some_and(|effect| self.state.approval.awaits(&call.name, effect))
        })
    }

    /// The calls of the model's last reply.
    fn calls(&self) -> impl Iterator<Item = &ToolCall> + Clone {
        let parts = match self.state.messages.last().map(|message| &**message) {
            Some(Message::Assistant { parts }) => parts.as_slice(),
            _ => &[],
        };
        parts.iter().filter_map(|part| match part {
            ReplyPart::Call(call) => Some(call),
            _ => None,
        })
    }

    /// The next calls that may run side by side: reads that follow one another, or
    /// one call of any other kind, so that changes happen in the model's order.
    fn batch<'a>(
        &'a self,
        results: &'a [Option<ToolResult>],
    ) -> impl Iterator<Item = &'a ToolCall> + Clone {
        let open = self.calls().zip(results).filter(|(_, result)| result.is_none());
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
    /// [`Error::WrongStep`], [`Error::WrongAnswer`] and, of a person's arguments,
    /// [`Error::WrongArguments`]; the run is then as it was.
    pub fn apply(&mut self, answer: Answer) -> Result<()> {
        let step = self.state.step;
        if answer.step != step {
            return Err(Error::WrongStep { expected: step, got: answer.step });
        }
        self.fits(&answer.kind)?;
        let Answer { kind, elapsed, spent, .. } = answer;
        // Saturating: whoever stores a run may hand back any number.
        self.state.step = step.saturating_add(1);
        self.state.elapsed = self.state.elapsed.saturating_add(elapsed);
        self.state.spent += spent.unwrap_or_else(|| match &kind {
            AnswerKind::Model(reply) => Spent::model_call(reply.usage),
            AnswerKind::Tools(results) => {
                results.iter().map(|_| Spent::tool_call()).fold(Spent::default(), |a, b| a + b)
            }
            _ => Spent::default(),
        });
        match kind {
            AnswerKind::Model(reply) => match &self.state.phase {
                Phase::LastWord { limit } => self.take_last_word(reply, *limit),
                _ => self.take_reply(reply),
            },
            AnswerKind::Tools(answers) => self.take_results(answers),
            AnswerKind::Decisions(decisions) => self.take_decisions(decisions),
            AnswerKind::Rejected(why) => self.take_rejection(&why),
            AnswerKind::Exhausted(limit) => self.state.phase = Phase::Done(self.at_limit(limit)),
        }
        Ok(())
    }

    /// Whether an answer is one to the present step.
    fn fits(&self, answer: &AnswerKind) -> Result<()> {
        fn is_each<'a>(
            mut calls: impl Iterator<Item = &'a ToolCall> + Clone,
            count: usize,
            has: impl Fn(&str) -> bool,
        ) -> bool {
            calls.clone().count() == count && calls.all(|call| has(&call.id))
        }
        let done = || "nothing: the run is done";
        let expected = match (&self.state.phase, answer) {
            (Phase::Model | Phase::LastWord { .. }, _) if self.refused().is_some() => done(),
            (
                Phase::Model | Phase::LastWord { .. },
                AnswerKind::Model(_) | AnswerKind::Exhausted(_),
            ) => return Ok(()),
            (Phase::Model | Phase::LastWord { .. }, _) => "a model's reply",
            (Phase::Tools { results, .. }, AnswerKind::Tools(answers)) => {
                let has = |id: &str| answers.iter().any(|answer| answer.id == id);
                if is_each(self.batch(results), answers.len(), has) {
                    return Ok(());
                }
                "one result for each of its calls, by id"
            }
            (Phase::Tools { .. }, _) => "the results of its calls",
            (Phase::Approval { results }, AnswerKind::Decisions(decisions)) => {
                let has = |id: &str| decisions.iter().any(|(decided, _)| decided == id);
                let mut calls = self.awaiting(results);
                if is_each(calls.clone(), decisions.len(), has) {
                    return calls.try_for_each(|call| self.check_edit(call, decisions));
                }
                "one decision for each of its calls, by id"
            }
            (Phase::Approval { .. }, _) => "a person's decisions",
            (Phase::Done(result), AnswerKind::Rejected(_)) => {
                if self.state.output.is_some() && result.ending == Ending::Answered {
                    return Ok(());
                }
                "nothing: only the answer of a typed run can be rejected"
            }
            (Phase::Done(_), _) => done(),
        };
        Err(Error::WrongAnswer { step: self.state.step, expected })
    }

    /// A person's arguments are held to the tool's schema at once: a person can mend
    /// them, the model could not.
    fn check_edit(&self, call: &ToolCall, decisions: &[(String, Decision)]) -> Result<()> {
        let edited = decisions.iter().find_map(|(id, decision)| match decision {
            Decision::Edit { arguments } if *id == call.id => Some(arguments),
            _ => None,
        });
        let contract = self.contracts.iter().find(|contract| contract.name() == call.name);
        if let (Some(arguments), Some(contract)) = (edited, contract) {
            contract
                .read::<Value>(arguments)
                .map_err(|source| Error::WrongArguments { id: call.id.clone(), source })?;
        }
        Ok(())
    }

    fn take_reply(&mut self, mut reply: Reply) {
        if let Some((selector, _)) = &self.selector {
            let selector = Arc::clone(selector);
            match self.selected(&selector, reply) {
                Some(selected) => reply = selected,
                None => return,
            }
        }
        if reply.finish == Finish::Refused {
            // They will not be made, and a call without a result makes the
            // conversation unusable.
            reply.parts.retain(|part| !matches!(part, ReplyPart::Call(_)));
        }
        self.make_ids_unique(&mut reply.parts);
        let text = reply.to_text();
        let finish = reply.finish;
        self.say_parts(reply.parts);
        if finish == Finish::Refused {
            return self.end(text, Ending::Refused);
        }
        if self.calls().next().is_none() {
            return self.take_text(text, &finish);
        }
        if let Some(output) = self.final_output(&finish) {
            return self.end(output, Ending::Answered);
        }
        let mut left = self.tool_calls_left();
        let results = self.calls().map(|call| {
            self.answer_now(call, &finish).or_else(|| match left.checked_sub(1) {
                Some(fewer) => {
                    left = fewer;
                    None
                }
                None => Some(ToolResult::failed(call, self.no_calls_left())),
            })
        });
        let results: Vec<_> = results.collect();
        self.state.own_results = self
            .calls()
            .zip(&results)
            .filter_map(|(call, result)| Some((call.clone(), result.clone()?)))
            .collect();
        let mut used = std::mem::take(&mut self.state.tools_used);
        for call in self.calls() {
            if self.tools.has(&call.name) && !used.contains(&call.name) {
                used.push(call.name.clone());
            }
        }
        self.state.tools_used = used;
        if self.awaiting(&results).next().is_some() {
            self.state.phase = Phase::Approval { results };
            return;
        }
        self.state.phase = Phase::Tools { results, edited: BTreeMap::new() };
        self.close_round();
    }

    /// A reply that selects a call, as one that makes it; `None` if the reply was dealt
    /// with.
    fn selected(&mut self, selector: &Selector, reply: Reply) -> Option<Reply> {
        let text = reply.to_text();
        if reply.finish == Finish::Refused {
            self.say_parts(vec![ReplyPart::Text(text.clone())]);
            self.end(text, Ending::Refused);
            return None;
        }
        let read = selector.read(&text);
        // A call that it made all the same is no selection, and nobody would answer it.
        let kept = |part: &ReplyPart| matches!(part, ReplyPart::Reasoning(_));
        let mut parts: Vec<ReplyPart> = reply.parts.into_iter().filter(kept).collect();
        let mistake = match read {
            Ok(Selects::Call { name, arguments }) => {
                // It gets an id of the run's own.
                parts.push(ReplyPart::Call(ToolCall::new("", name, arguments)));
                return Some(Reply::new(parts).with_usage(reply.usage));
            }
            Ok(Selects::Finish) => {
                parts.push(ReplyPart::Text(text));
                self.say_parts(parts);
                self.say_user("Now tell the user in one sentence or more what was done, and what the answer is.");
                self.state.phase = Phase::LastWord { limit: None };
                return None;
            }
            Err(_) if reply.finish == Finish::Length => format!(
                "Your answer was cut off after {} tokens. Give a shorter one.",
                self.state.limits.max_output_tokens,
            ),
            Err(_) if text.trim().is_empty() => "Your answer was empty.".to_owned(),
            Err(fault) => format!("That is no selection: {fault}."),
        };
        parts.push(ReplyPart::Text(text));
        self.say_parts(parts);
        self.nudge(&format!(
            "{mistake} Answer with one JSON object as told above, and nothing else."
        ));
        None
    }

    /// How many calls of tools the budget allows yet.
    fn tool_calls_left(&self) -> u64 {
        let allowed = self.state.limits.budget.tool_calls;
        allowed.map_or(u64::MAX, |allowed| allowed.saturating_sub(self.state.spent.tool_calls))
    }

    fn no_calls_left(&self) -> &'static str {
        if self.state.output.is_some() {
            "The call was not made: there are no tool calls left. Call `finish` with what you know."
        } else {
            "The call was not made: there are no tool calls left. Answer with what you know."
        }
    }

    /// What a typed run ends with, if the last reply calls `finish` and nothing else.
    fn final_output(&self, finish: &Finish) -> Option<String> {
        self.state.output.as_ref()?;
        let mut calls = self.calls();
        let only = calls
            .next()
            .filter(|call| call.name == Contract::FINISH && !is_cut_off(call, finish))?;
        calls.next().is_none().then(|| only.arguments.clone())
    }

    /// A reply without calls: the answer, unless there is nothing in it or a typed
    /// run still waits for its output.
    fn take_text(&mut self, text: String, finish: &Finish) {
        if *finish == Finish::Length {
            return self.end(text, Ending::CutOff);
        }
        let nudge = if self.state.output.is_some() {
            "Call the tool `finish` with the answer, or another tool if you still need one."
        } else if text.trim().is_empty() {
            "Your answer was empty. Answer the task."
        } else {
            return self.end(text, Ending::Answered);
        };
        self.nudge(nudge);
    }

    /// Tells the model what was wrong with its answer, and goes on.
    fn nudge(&mut self, text: &str) {
        self.say_user(text);
        let mistake = Mistake {
            tool: String::new(),
            arguments: String::new(),
            text: text.to_owned(),
            times: 0,
        };
        self.next_round([mistake]);
    }

    /// What the run itself answers to a call, without anybody calling the tool.
    fn answer_now(&self, call: &ToolCall, finish: &Finish) -> Option<ToolResult> {
        let text = if is_cut_off(call, finish) {
            format!(
                "The call was cut off after {} tokens and was not made. Call again with shorter arguments.",
                self.state.limits.max_output_tokens,
            )
        } else if self.tools.has(&call.name) {
            return None;
        } else if call.name == Contract::FINISH && self.state.output.is_some() {
            "Not yet: call `finish` alone, once you have seen the other results.".to_owned()
        } else {
            let known: Vec<&str> = self.contracts.iter().map(|contract| contract.name()).collect();
            let known = match known.as_slice() {
                [] => "There are no tools: answer without them.".to_owned(),
                known => format!("The tools are: {}.", known.join(", ")),
            };
            format!("There is no tool `{}`. {known}", call.name)
        };
        Some(ToolResult::failed(call, text))
    }

    fn take_decisions(&mut self, decisions: Vec<(String, Decision)>) {
        let Phase::Approval { results } = &mut self.state.phase else { return };
        let mut results = std::mem::take(results);
        let mut edited = BTreeMap::new();
        let mut told = Vec::new();
        for (id, decision) in decisions {
            match decision {
                Decision::Deny { reason } => {
                    let calls = self.calls().zip(&mut results);
                    for (call, result) in calls.filter(|(call, _)| call.id == id) {
                        let text = format!("A person did not allow the call: {reason}");
                        let denied = ToolResult::failed(call, text);
                        told.push((call.clone(), denied.clone()));
                        *result = Some(denied);
                    }
                }
                Decision::Edit { arguments } => {
                    edited.insert(id, arguments);
                }
                // Whatever else a later version knows is not less careful than this.
                _ => {}
            }
        }
        self.state.own_results = told;
        self.state.phase = Phase::Tools { results, edited };
        self.close_round();
    }

    fn take_results(&mut self, answers: Vec<ToolResult>) {
        let limits = self.state.limits;
        for mut answer in answers {
            let place = self.calls().position(|call| call.id == answer.id);
            if let (Some(place), Phase::Tools { results, edited }) = (place, &mut self.state.phase)
                && let Some(slot) = results.get_mut(place)
            {
                if let Some(arguments) = edited.get(&answer.id) {
                    answer.text = format!(
                        "[A person changed the arguments to {arguments}]\n{}",
                        answer.text,
                    );
                }
                if let Cow::Owned(cut) = limits.cut(&answer.text) {
                    answer.text = cut;
                }
                *slot = Some(answer);
            }
        }
        self.close_round();
    }

    /// Goes on to the model once every call of the round has its result.
    fn close_round(&mut self) {
        let Phase::Tools { results, .. } = &mut self.state.phase else {
            return;
        };
        if results.iter().any(Option::is_none) {
            return;
        }
        let results: Vec<ToolResult> = std::mem::take(results).into_iter().flatten().collect();
        let failed = self.calls().zip(&results).filter(|(_, result)| result.failed);
        let mistakes: Vec<Mistake> =
            failed.map(|(call, result)| mistake(call, &result.text)).collect();
        for result in results {
            self.say(Arc::new(Message::Tool(result)));
        }
        self.next_round(mistakes);
    }

    fn next_round(&mut self, mistakes: impl IntoIterator<Item = Mistake>) {
        self.state.iterations = self.state.iterations.saturating_add(1);
        let most = self.state.limits.max_same_failures;
        if let Some(mistake) = self.state.mistakes.take_round(mistakes, most) {
            let what = match mistake.tool.as_str() {
                "" => "an answer that could not be used".to_owned(),
                tool => format!("the same call of `{tool}`"),
            };
            let answer = format!("{} rounds in a row made {what}: {}", mistake.times, mistake.text);
            return self.end(answer, Ending::Stuck);
        }
        let budget = &self.state.limits.budget;
        let spent = &self.state.spent;
        let typed = self.state.output.is_some();
        // The last question is for the answer.
        let one_left = budget.model_calls.is_some_and(|most| most <= spent.model_calls + 1);
        let limit = if self.state.iterations >= self.state.limits.max_iterations {
            Some(Limit::Iterations)
        } else if typed {
            // It answers by a call, so it may still make one.
            None
        } else if self.tool_calls_left() == 0 {
            Some(Limit::ToolCalls)
        } else if one_left {
            Some(Limit::ModelCalls)
        } else {
            None
        };
        match limit {
            None => self.state.phase = Phase::Model,
            // A typed run has no use for an answer in prose.
            Some(limit) if typed => self.state.phase = Phase::Done(self.at_limit(limit)),
            Some(limit) => {
                self.say_user(
                    "You have used up your tool calls. Answer the task now from what you know, without tools.",
                );
                self.state.phase = Phase::LastWord { limit: Some(limit) };
            }
        }
    }

    fn take_last_word(&mut self, reply: Reply, limit: Option<Limit>) {
        let text = reply.to_text();
        // Calls in it will not be made, and a call without a result makes the
        // conversation unusable.
        self.say_parts(vec![ReplyPart::Text(text.clone())]);
        let ending = match (&reply.finish, limit) {
            (Finish::Refused, _) => Ending::Refused,
            (_, Some(_)) => Ending::LimitReached,
            (Finish::Length, None) => Ending::CutOff,
            (_, None) if text.trim().is_empty() => {
                // It said that it knows the answer.
                self.state.phase = Phase::Model;
                return self.nudge("Your answer was empty. Answer the task.");
            }
            (_, None) => Ending::Answered,
        };
        let limit = limit.filter(|_| ending == Ending::LimitReached);
        self.state.phase = Phase::Done(RunResult { answer: text, ending, limit });
    }

    fn take_rejection(&mut self, why: &str) {
        let rejected: Vec<ToolCall> = self.calls().cloned().collect();
        let mistakes: Vec<Mistake> = rejected.iter().map(|call| mistake(call, why)).collect();
        for call in rejected {
            self.say(Arc::new(Message::Tool(ToolResult::failed(&call, why))));
        }
        self.next_round(mistakes);
    }

    fn say(&mut self, message: Arc<Message>) {
        if let Some((selector, shown)) = &mut self.selector {
            shown.push(selector.show(&message));
        }
        self.state.messages.push(message);
    }

    fn say_user(&mut self, text: &str) {
        self.say(Arc::new(Message::User { parts: vec![Part::Text(text.to_owned())] }));
    }
    /// Keeps what the model said, unless there is no text and no call in it: providers
    /// refuse an empty message.
    fn say_parts(&mut self, parts: Vec<ReplyPart>) {
        let says_something = parts.iter().any(|part| match part {
            ReplyPart::Text(text) => !text.trim().is_empty(),
            ReplyPart::Call(_) => true,
            _ => false,
        });
        if says_something {
            self.say(Arc::new(Message::Assistant { parts }));
        }
    }

    fn end(&mut self, answer: String, ending: Ending) {
        self.state.phase = Phase::Done(RunResult { answer, ending, limit: None });
    }

    /// Gives a call another id if it has none or one that was used before: results are
    /// paired with calls by id.
    fn make_ids_unique(&mut self, parts: &mut [ReplyPart]) {
        let step = self.state.step.saturating_sub(1);
        // Made only if needed: an id made up here must not be one that a later call
        // brings along.
        let mut given: Option<HashSet<u64>> = None;
        for index in 0..parts.len() {
            let Some(ReplyPart::Call(call)) = parts.get(index) else { continue };
            let mut own = hash(&call.id);
            if call.id.is_empty() || self.ids.contains(&own) {
                let given = given.get_or_insert_with(|| {
                    let calls = parts.iter().filter_map(|part| match part {
                        ReplyPart::Call(call) => Some(hash(&call.id)),
                        _ => None,
                    });
                    calls.collect()
                });
                let mut id = format!("call_{step}_{index}");
                own = hash(&id);
                while self.ids.contains(&own) || given.contains(&own) {
                    id.push('_');
                    own = hash(&id);
                }
                if let Some(ReplyPart::Call(call)) = parts.get_mut(index) {
                    call.id = id;
                }
            }
            self.ids.insert(own);
        }
    }
}

fn hash(id: &str) -> u64 {
    // Without the chance of a `RandomState`: a run that is resumed must go the same way.
    let mut hasher = DefaultHasher::new();
    hasher.write(id.as_bytes());
    hasher.finish()
}

fn text_of(parts: &[ReplyPart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        ReplyPart::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn mistake(call: &ToolCall, text: &str) -> Mistake {
    Mistake {
        tool: call.name.clone(),
        arguments: call.arguments.clone(),
        text: text.to_owned(),
        times: 0,
    }
}

/// Whether a call's arguments stop in the middle: they are not completed by guessing.
fn is_cut_off(call: &ToolCall, finish: &Finish) -> bool {
    *finish == Finish::Length && serde_json::from_str::<IgnoredAny>(&call.arguments).is_err()
}

/// As a [`RunState`].
impl Serialize for Run {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.state.serialize(serializer)
    }
}
