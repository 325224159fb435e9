use std::sync::Arc;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde::{Serialize, Serializer};
use toolwright_module::{
    Finish, Message, Part, Reply, ReplyPart, Request, Tool, ToolCall, ToolChoice, ToolResult, Usage,
};
use toolwright_signature::Contract;

use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::state::{Phase, RunState, VERSION};
use crate::step::{Answer, AnswerKind, Ending, RunResult, Step, StepKind};
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
    /// What the run itself answered to calls, until the driver tells of it.
    own_results: Vec<(ToolCall, ToolResult)>,
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
            iterations: 0,
            usage: Usage::default(),
            elapsed: Duration::ZERO,
            tools_used: Vec::new(),
        };
        let contracts = Arc::clone(&tools.contracts);
        Self { state, tools, contracts, own_results: Vec::new() }
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
        let contracts = Arc::clone(&tools.contracts);
        let tools = Arc::new(tools);
        let mut run = Self { state, tools, contracts, own_results: Vec::new() };
        if let Some(output) = output {
            run.offer_finish(output)?;
        }
        Ok(run)
    }

    /// Tells the model, before the task, how to go about it.
    ///
    /// For a run that has not begun: later, the prompt only grows at its end.
    #[must_use]
    pub fn with_instructions(mut self, instructions: impl Into<String>) -> Self {
        if self.state.step == 0 {
            self.state.messages.insert(0, Message::system(instructions));
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
        if self.state.step > 0 {
            return Err(Error::Begun { step: self.state.step });
        }
        self.offer_finish(contract)?;
        Ok(self)
    }

    fn offer_finish(&mut self, contract: Arc<Contract>) -> Result<()> {
        let finish = Arc::new(contract.finish()?);
        self.contracts = self.tools.contracts.iter().cloned().chain([finish]).collect();
        self.state.output = Some(contract);
        Ok(())
    }

    /// The contract whose output ends the run, if it is a typed one.
    pub(crate) fn output(&self) -> Option<&Contract> {
        self.state.output.as_deref()
    }

    /// What the run itself answered to calls of the last reply, such as of tools that
    /// do not exist; given once.
    pub(crate) fn take_own_results(&mut self) -> Vec<(ToolCall, ToolResult)> {
        std::mem::take(&mut self.own_results)
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
        self.state.usage
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
            Phase::Model => StepKind::CallModel(self.request(ToolChoice::Auto)),
            Phase::LastWord => StepKind::CallModel(self.request(ToolChoice::None)),
            Phase::Tools { results } => StepKind::CallTools(self.batch(results).cloned().collect()),
            Phase::Done(result) => StepKind::Done(result.clone()),
        };
        Step { number: self.state.step, kind }
    }

    fn request(&self, choice: ToolChoice) -> Request {
        let request = Request::new(self.state.messages.iter().cloned())
            .with_tools(Arc::clone(&self.contracts))
            .with_max_output_tokens(self.state.limits.max_output_tokens);
        if self.contracts.is_empty() { request } else { request.with_tool_choice(choice) }
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
    /// [`Error::WrongStep`] and [`Error::WrongAnswer`]; the run is then as it was.
    pub fn apply(&mut self, answer: Answer) -> Result<()> {
        let step = self.state.step;
        if answer.step != step {
            return Err(Error::WrongStep { expected: step, got: answer.step });
        }
        let wrong = |expected| Err(Error::WrongAnswer { step, expected });
        match (&self.state.phase, answer.kind) {
            (Phase::Model, AnswerKind::Model(reply)) => self.take_reply(reply),
            (Phase::LastWord, AnswerKind::Model(reply)) => self.take_last_word(reply),
            (Phase::Tools { results }, AnswerKind::Tools(answers)) => {
                if !self.is_answer(results, &answers) {
                    return wrong("one result for each of its calls, by id");
                }
                self.take_results(answers);
            }
            (Phase::Done(result), AnswerKind::Rejected(why)) => {
                if self.state.output.is_none() || result.ending != Ending::Answered {
                    return wrong("nothing: only the answer of a typed run can be rejected");
                }
                self.take_rejection(why);
            }
            (Phase::Model | Phase::LastWord, _) => return wrong("a model's reply"),
            (Phase::Tools { .. }, _) => return wrong("the results of its calls"),
            (Phase::Done(_), _) => return wrong("nothing: the run is done"),
        }
        // Saturating: whoever stores a run may hand back any number.
        self.state.step = self.state.step.saturating_add(1);
        self.state.usage += answer.nested_usage;
        self.state.elapsed = self.state.elapsed.saturating_add(answer.elapsed);
        Ok(())
    }

    /// Whether there is one result for each call of the batch, and no other.
    fn is_answer(&self, results: &[Option<ToolResult>], answers: &[ToolResult]) -> bool {
        let mut batch = self.batch(results);
        batch.clone().count() == answers.len()
            && batch.all(|call| answers.iter().any(|answer| answer.id == call.id))
    }

    fn take_reply(&mut self, mut reply: Reply) {
        self.state.usage += reply.usage;
        make_ids_unique(&mut reply.parts, &self.state.messages, self.state.step);
        let text = reply.to_text();
        let finish = reply.finish;
        let mut parts = reply.parts;
        if finish == Finish::Refused {
            // They will not be made, and a call without a result makes the
            // conversation unusable.
            parts.retain(|part| !matches!(part, ReplyPart::Call(_)));
        }
        self.say_parts(parts);
        if finish == Finish::Refused {
            return self.end(text, Ending::Refused);
        }
        if self.calls().next().is_none() {
            return self.take_text(text, &finish);
        }
        if let Some(output) = self.final_output(&finish) {
            return self.end(output, Ending::Answered);
        }
        let results: Vec<_> = self.calls().map(|call| self.answer_now(call, &finish)).collect();
        self.own_results = self
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
        self.state.phase = Phase::Tools { results };
        self.close_round();
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
        self.say(user(nudge));
        self.next_round();
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

    fn take_results(&mut self, answers: Vec<ToolResult>) {
        for answer in answers {
            let place = self.calls().position(|call| call.id == answer.id);
            if let (Some(place), Phase::Tools { results }) = (place, &mut self.state.phase)
                && let Some(slot) = results.get_mut(place)
            {
                *slot = Some(answer);
            }
        }
        self.close_round();
    }

    /// Goes on to the model once every call of the round has its result.
    fn close_round(&mut self) {
        let Phase::Tools { results } = &mut self.state.phase else {
            return;
        };
        if results.iter().any(Option::is_none) {
            return;
        }
        let results: Vec<ToolResult> = std::mem::take(results).into_iter().flatten().collect();
        for result in results {
            self.say(Message::Tool(result));
        }
        self.next_round();
    }

    fn next_round(&mut self) {
        self.state.iterations = self.state.iterations.saturating_add(1);
        if self.state.iterations < self.state.limits.max_iterations {
            self.state.phase = Phase::Model;
        } else if self.state.output.is_some() {
            // A typed run has no use for an answer in prose.
            self.end(String::new(), Ending::LimitReached);
        } else {
            self.say(user(
                "You have used up your tool calls. Answer the task now from what you know, without tools.",
            ));
            self.state.phase = Phase::LastWord;
        }
    }

    fn take_last_word(&mut self, reply: Reply) {
        self.state.usage += reply.usage;
        let text = reply.to_text();
        // Calls in it will not be made, and a call without a result makes the
        // conversation unusable.
        self.say_parts(vec![ReplyPart::Text(text.clone())]);
        let refused = reply.finish == Finish::Refused;
        self.end(text, if refused { Ending::Refused } else { Ending::LimitReached });
    }

    fn take_rejection(&mut self, why: String) {
        let last = self.state.messages.last().map(Arc::clone);
        if let Some(Message::Assistant { parts }) = last.as_deref() {
            for part in parts {
                if let ReplyPart::Call(call) = part {
                    self.say(Message::Tool(ToolResult::failed(call, why.clone())));
                }
            }
        }
        self.next_round();
    }

    fn say(&mut self, message: Message) {
        self.state.messages.push(Arc::new(message));
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
            self.say(Message::Assistant { parts });
        }
    }

    fn end(&mut self, answer: String, ending: Ending) {
        self.state.phase = Phase::Done(RunResult { answer, ending });
    }
}

fn user(text: &str) -> Message {
    Message::User { parts: vec![Part::Text(text.to_owned())] }
}

/// Whether a call's arguments stop in the middle: they are not completed by guessing.
fn is_cut_off(call: &ToolCall, finish: &Finish) -> bool {
    *finish == Finish::Length && serde_json::from_str::<IgnoredAny>(&call.arguments).is_err()
}

/// Gives a call another id if it has none or one that was used before: results are
/// paired with calls by id.
fn make_ids_unique(parts: &mut [ReplyPart], history: &[Arc<Message>], step: u64) {
    fn has(parts: &[ReplyPart], id: &str) -> bool {
        parts.iter().any(|part| matches!(part, ReplyPart::Call(call) if call.id == id))
    }
    for index in 0..parts.len() {
        let (before, rest) = parts.split_at_mut(index);
        let Some(ReplyPart::Call(call)) = rest.first_mut() else { continue };
        let taken = |id: &str| {
            has(before, id)
                || history.iter().any(|message| match &**message {
                    Message::Assistant { parts } => has(parts, id),
                    _ => false,
                })
        };
        if call.id.is_empty() || taken(&call.id) {
            call.id = format!("call_{step}_{index}");
            while taken(&call.id) {
                call.id.push('_');
            }
        }
    }
}

/// As a [`RunState`].
impl Serialize for Run {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.state.serialize(serializer)
    }
}
