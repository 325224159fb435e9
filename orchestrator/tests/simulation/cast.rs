//! The participants of a run: models with random replies, tools with random behaviour, and agents
//! of both.
//!
//! A reply or a result follows from the seed and the request, so a repeated request gets the same
//! answer. Only interruptions, such as a lost connection or a stop, are not repeated.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use toolwright_module::model::Settings;

use futures_util::future::join;
use futures_util::stream::{self, StreamExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_module::budget::{Budget, Money, Price};
use toolwright_module::error::Stage;
use toolwright_module::hook::{AskNext, CallNext, Hook};
use toolwright_module::message::ReplyPart;
use toolwright_module::model::{
    BoxFuture, BoxStream, Capabilities, Delta, Finish, ToolChoice, Usage,
};
use toolwright_module::{
    Context, Dialect, Effect, Error, LanguageModel, Message, Module, Reply, Request, Result,
    Signature, Tool, ToolCall, ToolOutput,
};
use toolwright_orchestrator::{Agent, ApprovalPolicy, Choosing, Limits, ReAct, Task, TaskAnswer};

use super::chance::{Chance, mix};
use super::checks;
use super::world::World;

/// Do something.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Act {
    what: String,
    n: u32,
}

/// Do something, for a reason.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ActWhy {
    what: String,
    n: u32,
    why: String,
}

impl Signature for ActWhy {
    type Output = Deed;

    fn render(deed: &Deed) -> Result<String, toolwright_signature::ContractError> {
        Ok(deed.text.clone())
    }
}

/// What came of it, and perhaps something that goes off when it is dropped.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Deed {
    text: String,
    #[serde(skip)]
    _bomb: Bomb,
}

#[derive(Debug, Default)]
struct Bomb(bool);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 {
            fall("the output fell");
        }
    }
}

impl Signature for Act {
    type Output = Deed;

    fn render(deed: &Deed) -> Result<String, toolwright_signature::ContractError> {
        Ok(deed.text.clone())
    }
}

/// Count the rooms.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CountRooms {
    question: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Rooms {
    rooms: u8,
}

impl Signature for CountRooms {
    type Output = Rooms;
}

impl CountRooms {
    pub(crate) fn new() -> Self {
        Self { question: "How many?".to_owned() }
    }
}

/// Panics without running the hook, which would print.
pub(crate) fn fall(why: &str) -> ! {
    std::panic::resume_unwind(Box::new(why.to_owned()))
}

async fn takes(chance: &mut Chance) {
    match chance.weighed([40, 25, 35]) {
        0 => {}
        1 => {
            for _ in 0..=chance.below(3) {
                tokio::task::yield_now().await;
            }
        }
        _ => tokio::time::sleep(Duration::from_millis(1 + chance.below(2_500))).await,
    }
}

/// The form of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Untyped,
    /// A typed run of the untyped driver, whose output is checked by the simulation.
    Output,
    ReAct,
}

/// An agent, with the values that the checks need.
pub(crate) struct TestAgent {
    pub(crate) orchestrator: Agent,
    /// The same agent as a typed one, if the run is typed.
    pub(crate) react: Option<ReAct<CountRooms>>,
    pub(crate) limits: Limits,
    pub(crate) approval: ApprovalPolicy,
}

/// The limits of each agent that is a tool, by name.
pub(crate) type Roles = BTreeMap<String, Limits>;

pub(crate) struct Cast {
    pub(crate) world: Arc<World>,
    pub(crate) chance: Chance,
    pub(crate) roles: Roles,
    pub(crate) price: Option<Price>,
    pub(crate) names: u32,
}

impl Cast {
    fn name(&mut self, kind: &str) -> String {
        self.names += 1;
        format!("{kind}_{}", self.names)
    }

    pub(crate) fn budget(&mut self, output: u64) -> Budget {
        let chance = &mut self.chance;
        let mut budget = Budget::default();
        if chance.percent(35) {
            budget.model_calls = Some(chance.below(9));
        }
        if chance.percent(35) {
            budget.tool_calls = Some(chance.below(9));
        }
        if chance.percent(25) {
            budget.input_tokens = Some(chance.below(30_000));
        }
        if chance.percent(25) {
            budget.output_tokens = Some(chance.below(output * 12));
        }
        if chance.percent(25) {
            budget.money = Some(Money { micros: chance.below(60_000) });
        }
        budget
    }

    /// Returns limits. With `free` they never end the run by time or budget.
    pub(crate) fn limits(&mut self, free: bool, deep: usize) -> (Limits, Settings) {
        let rounds = if deep == 0 { &[0, 1, 2, 3, 4, 6][..] } else { &[1, 1, 2, 3] };
        let output = self.chance.pick(&[64, 4096]);
        let mut limits = Limits {
            max_iterations: self.chance.pick(rounds),
            max_parallel: self.chance.pick(&[0, 1, 2, 3, 8]),
            max_same_failures: self.chance.pick(&[1, 2, 3]),
            max_result_bytes: self.chance.pick(&[0, 60, 200, 65_536, 65_536]),
            max_calls_per_reply: self.chance.pick(&[0, 1, 2, 3, 128, 128, 128]),
            ..Limits::default()
        };
        if self.chance.percent(35) {
            let time = Duration::from_millis(self.chance.below(3_000));
            limits.tool_time = Some(time);
        }
        let (bounded, timed) = (self.chance.percent(50), self.chance.percent(25));
        if !free && bounded {
            limits.budget = self.budget(output);
        }
        if !free && timed {
            let time = Duration::from_millis(self.chance.below(15_000));
            limits.max_time = Some(time);
        }
        (limits, Settings::default().with_max_output_tokens(output))
    }

    /// Returns an agent whose tools may be agents, `deep` levels below the top. It `may_hang` if
    /// something above ends it.
    pub(crate) fn agent(
        &mut self,
        free: bool,
        deep: usize,
        may_hang: bool,
        kind: Kind,
    ) -> TestAgent {
        let (limits, settings) = self.limits(free, deep);
        let model_may_hang = may_hang || limits.max_time.is_some();
        let tool_may_hang = model_may_hang || limits.tool_time.is_some();
        // A typed agent that is a tool never waits for approval.
        let asks = deep == 0 || kind != Kind::ReAct;
        let mut approval = if asks { self.approval() } else { ApprovalPolicy::default() };
        let count = if deep == 0 { self.chance.size(7) } else { self.chance.size(4) };
        let mut tools = Vec::new();
        for _ in 0..count {
            let effect = match self.chance.weighed([60, 10, 20, 10]) {
                0 => Effect::Read,
                1 => Effect::Idempotent,
                2 => Effect::Write,
                _ => Effect::Irreversible,
            };
            let kind = if deep < 3 { self.chance.weighed([75, 17, 8]) } else { 0 };
            let name = self.name(["act", "helper", "asker"][kind]);
            let awaits = awaits(&approval, &name, effect);
            let player = Player {
                world: Arc::clone(&self.world),
                name: name.clone(),
                effect,
                awaits,
                limits: limits.clone(),
            };
            let tool = match kind {
                0 => {
                    let model = self.model(Vec::new(), false, tool_may_hang, deep + 1);
                    Tool::new(Actor { player, model, may_hang: tool_may_hang })
                }
                1 => {
                    let agent = self.agent(false, deep + 1, tool_may_hang, Kind::Untyped);
                    self.roles.insert(name.clone(), agent.limits);
                    Tool::new(Helper { player, agent: agent.orchestrator })
                }
                _ => {
                    let agent = self.agent(false, deep + 1, tool_may_hang, Kind::ReAct);
                    self.roles.insert(name.clone(), agent.limits);
                    Tool::new(Asker { player, agent: agent.react.unwrap() })
                }
            };
            tools.push(tool.unwrap().named(&name).unwrap());
        }
        let names: Vec<_> = tools.iter().map(|tool| tool.name().to_owned()).collect();
        // A policy with an unknown tool would be rejected.
        approval.tools.retain(|name| names.contains(name));
        let streaming = self.chance.percent(70);
        let model = Arc::new(self.model(names, deep == 0, model_may_hang, deep));
        let choosing = if kind != Kind::ReAct && self.chance.percent(if deep == 0 { 25 } else { 4 })
        {
            Choosing::Selector
        } else {
            Choosing::Calls
        };
        let orchestrator = Agent::new(Arc::clone(&model), tools.clone())
            .unwrap()
            .with_limits(limits.clone())
            .with_settings(settings.clone())
            .unwrap()
            .with_approval(approval.clone())
            .unwrap()
            .with_streaming(streaming)
            .with_choosing(choosing)
            .unwrap();
        let orchestrator = if self.chance.percent(30) {
            orchestrator.with_instructions("Be brief.")
        } else {
            orchestrator
        };
        let react = (kind == Kind::ReAct).then(|| {
            let agent = Agent::new(model, tools).unwrap().with_limits(limits.clone());
            ReAct::new(agent.with_settings(settings).unwrap()).unwrap()
        });
        TestAgent { orchestrator, react, limits, approval }
    }

    fn approval(&mut self) -> ApprovalPolicy {
        let mut policy = ApprovalPolicy::default();
        if self.chance.percent(25) {
            policy = ApprovalPolicy::from_effect(self.chance.pick(&[
                Effect::Read,
                Effect::Write,
                Effect::Irreversible,
            ]));
        }
        if self.chance.percent(15) {
            policy = policy.with_tool(format!("act_{}", self.names + 1));
        }
        policy
    }

    fn model(&mut self, tools: Vec<String>, top: bool, may_hang: bool, deep: usize) -> Speaker {
        Speaker {
            world: Arc::clone(&self.world),
            name: self.name("model"),
            tools,
            top,
            may_hang,
            deep,
            price: self.price.clone(),
        }
    }
}

/// Returns whether calls of a tool wait for approval. An independent implementation for the checks.
pub(crate) fn awaits(policy: &ApprovalPolicy, tool: &str, effect: Effect) -> bool {
    let weight = |effect| match effect {
        Effect::Read => 0,
        Effect::Idempotent => 1,
        Effect::Write => 2,
        Effect::Irreversible => 3,
    };
    policy.tools.contains(tool)
        || policy.from_effect.is_some_and(|from| weight(effect) >= weight(from))
}

/// The state that every tool has.
struct Player {
    world: Arc<World>,
    name: String,
    effect: Effect,
    awaits: bool,
    limits: Limits,
}

impl Player {
    fn begins(&self, arguments: &impl Serialize, cx: &Context) -> super::world::Call {
        let arguments = serde_json::to_string(arguments).unwrap();
        self.world.check(!arguments.contains(CUT_OFF), || "an incomplete call is made".to_owned());
        let reads = self.effect == Effect::Read;
        self.world.begins(&cx.path(), reads, self.awaits, &arguments, &self.limits)
    }
}

struct Actor {
    player: Player,
    model: Speaker,
    may_hang: bool,
}

impl Module for Actor {
    type Signature = Act;

    fn effect(&self) -> Effect {
        self.player.effect
    }

    async fn call(&self, act: Act, cx: &Context) -> Result<Deed> {
        let _call = self.player.begins(&act, cx);
        let world = &self.player.world;
        let mut chance = world.chance(&format!("{} {} {}", self.player.name, act.what, act.n));
        let done = |text: String| Ok(Deed { text, _bomb: Bomb::default() });
        let kind = chance.weighed([34, 12, 5, 5, 4, 4, 5, 6, 18, 4, 3]);
        if kind != 0 {
            takes(&mut chance).await;
        }
        match kind {
            0 | 1 => done(format!("{} is done", act.what)),
            2 => Err(Error::retry("say it in another way")),
            3 => Err(Error::refuse("that is closed")),
            4 => Err(std::io::Error::other("no route to 10.0.0.7"))?,
            5 => {
                if world.interrupts(&format!("stop {}", checks::key(&cx.path()))) {
                    return Err(Error::stop("the house burns"));
                }
                done("the fire is out".to_owned())
            }
            6 => fall("the shelf fell"),
            7 if self.may_hang => pending().await,
            7 => {
                tokio::time::sleep(Duration::from_secs(20)).await;
                done("late".to_owned())
            }
            8 => {
                let ask =
                    |n: u32| Request::new([Message::user(format!("aside: {} {n}", act.what))]);
                let own = chance.percent(50);
                let model: &dyn LanguageModel = match cx.model() {
                    Some(model) if !own => &**model,
                    _ => &self.model,
                };
                let stream = chance.percent(30);
                if chance.percent(50) {
                    return done(cx.ask(model, ask(0), stream).await?.to_text());
                }
                let (one, two) =
                    join(cx.ask(model, ask(1), stream), cx.ask(model, ask(2), false)).await;
                done(format!("{} {}", one?.to_text(), two?.to_text()))
            }
            9 => {
                world.inner().bombs += 1;
                Ok(Deed { text: "ticking".to_owned(), _bomb: Bomb(true) })
            }
            _ => done("word ".repeat(10 + chance.size(300))),
        }
    }
}

struct Helper {
    player: Player,
    agent: Agent,
}

impl Module for Helper {
    type Signature = Task;

    fn effect(&self) -> Effect {
        self.player.effect
    }

    async fn call(&self, task: Task, cx: &Context) -> Result<TaskAnswer> {
        let _call = self.player.begins(&task, cx);
        self.agent.call(task, cx).await
    }
}

struct Asker {
    player: Player,
    agent: ReAct<CountRooms>,
}

impl Module for Asker {
    type Signature = CountRooms;

    fn effect(&self) -> Effect {
        self.player.effect
    }

    async fn call(&self, input: CountRooms, cx: &Context) -> Result<Rooms> {
        let _call = self.player.begins(&input, cx);
        self.agent.call(input, cx).await
    }
}

/// A model with random replies.
pub(crate) struct Speaker {
    world: Arc<World>,
    name: String,
    tools: Vec<String>,
    top: bool,
    may_hang: bool,
    deep: usize,
    price: Option<Price>,
}

/// Returns a hash of a request.
fn digest(request: &Request) -> u64 {
    let mut hash = request.messages.len() as u64;
    let first = request.messages.iter().find(|said| matches!(***said, Message::User { .. }));
    let last = request.messages.iter().rev().take(2);
    for message in first.into_iter().chain(last) {
        hash = mix(hash, &checks::message(message));
    }
    mix(hash, &format!("{:?} {}", request.tool_choice, request.output.is_some()))
}

/// Returns the arguments of a call, mostly valid ones.
pub(crate) fn arguments(chance: &mut Chance, tool: &str) -> String {
    let text = format!("{:x}", chance.number());
    if chance.percent(12) {
        let odd = ["", "{}", "{\"what\"", "[]", "null", "{\"what\": 3, \"n\": \"x\"}", "no"];
        return chance.pick(&odd).to_owned();
    }
    if tool.starts_with("helper") {
        return json!({ "task": text }).to_string();
    }
    if tool.starts_with("asker") {
        return json!({ "question": text }).to_string();
    }
    if tool == "finish" {
        return chance
            .pick(&[r#"{"rooms": 3}"#, r#"{"rooms": 3}"#, r#"{"rooms": "x"}"#, "{}"])
            .to_owned();
    }
    // Some calls are repeated.
    let what = if chance.percent(30) { chance.pick(&["a", "b"]).to_owned() } else { text };
    json!({ "what": what, "n": 1 }).to_string()
}

/// Returns a random reply of a model with these tools.
pub(crate) fn says(chance: &mut Chance, tools: &[String], typed: bool, deep: usize) -> Reply {
    let fewer = deep as u64 * 14;
    match chance.weighed([22 + fewer, 5, 2, 3, 60 - fewer, 8]) {
        0 if typed && chance.percent(80) => {
            Reply::calls([ToolCall::new("f", "finish", arguments(chance, "finish"))])
        }
        0 => Reply::text(format!("It is {:x}.", chance.below(1000))),
        1 => Reply::text(chance.pick(&["", "  "])),
        2 => {
            let refusal = Reply::text("I do not do that.").with_finish(Finish::Refused);
            if chance.percent(50) {
                refusal
            } else {
                let mut call = call(chance, tools, typed);
                if let ReplyPart::Call(call) = &mut call {
                    call.arguments = cut_arguments(&call.name);
                }
                Reply::new([call]).with_finish(Finish::Refused)
            }
        }
        3 => Reply::text("It is the ha").with_finish(Finish::Length),
        4 => {
            let most = if chance.percent(6) { 12 } else { 4 };
            let count = 1 + chance.size(most);
            let mut parts = Vec::new();
            if chance.percent(25) {
                parts.push(ReplyPart::text("Let me see."));
            }
            parts.extend((0..count).map(|_| call(chance, tools, typed)));
            let reply = Reply::new(parts);
            if chance.percent(12) { cut_off(chance, reply) } else { reply }
        }
        _ => Reply::new([]).with_finish(Finish::Other("odd".to_owned())),
    }
}

/// The text in the arguments of calls that must not be made.
pub(crate) const CUT_OFF: &str = "CUT_OFF";

/// The output in calls of `finish` that must not be the answer.
pub(crate) const CUT_OUTPUT: &str = r#"{"rooms":77}"#;

/// Returns arguments that fit their tool, for a call that must not be made.
fn cut_arguments(tool: &str) -> String {
    match tool {
        "finish" => CUT_OUTPUT.to_owned(),
        tool if tool.starts_with("helper") => json!({ "task": CUT_OFF }).to_string(),
        tool if tool.starts_with("asker") => json!({ "question": CUT_OFF }).to_string(),
        _ => json!({ "what": CUT_OFF, "n": 1 }).to_string(),
    }
}

/// Returns a way to end that does not show that the reply is whole. Not a pause: it adds a round
/// without a message, which the checks could not count.
fn bad_finish(chance: &mut Chance) -> Finish {
    let words = ["odd", "network_error", "MALFORMED_FUNCTION_CALL"];
    match chance.weighed([70, 30]) {
        0 => Finish::Length,
        _ => Finish::Other(chance.pick(&words).to_owned()),
    }
}

/// Ends a reply in a bad way, or marks one of its calls. The arguments of these calls are whole or
/// cut off.
fn cut_off(chance: &mut Chance, mut reply: Reply) -> Reply {
    let one = chance.percent(25).then(|| chance.size(reply.parts.len()));
    for (place, part) in reply.parts.iter_mut().enumerate() {
        let ReplyPart::Call(call) = part else { continue };
        if one.is_some_and(|one| one != place) {
            continue;
        }
        call.arguments = cut_arguments(&call.name);
        if chance.percent(30) {
            let cut = call.arguments.len() / 2;
            call.arguments.truncate(call.arguments.floor_char_boundary(cut));
        }
        call.incomplete = one.is_some();
    }
    if one.is_some() { reply } else { reply.with_finish(bad_finish(chance)) }
}

fn call(chance: &mut Chance, tools: &[String], typed: bool) -> ReplyPart {
    let name = match chance.weighed([88, 4, if typed { 12 } else { 2 }]) {
        0 if !tools.is_empty() => chance.pick(tools),
        2 => "finish".to_owned(),
        _ => chance.pick(&["sweep", ""]).to_owned(),
    };
    let own = format!("c{:x}", chance.below(1 << 20));
    let id = chance.pick(&["", "a", "b", "call_0_0", "call_1_1_", &own, &own, &own]).to_owned();
    ReplyPart::Call(ToolCall::new(id, name.clone(), arguments(chance, &name)))
}

/// Returns a random reply of a model that selects from these tools.
pub(crate) fn selects(chance: &mut Chance, tools: &[String], deep: usize) -> Reply {
    let fewer = deep as u64 * 12;
    let finish = match chance.weighed([90, 8, 2]) {
        0 => Finish::Stop,
        1 => bad_finish(chance),
        _ => Finish::Refused,
    };
    let text = match chance.weighed([50 - fewer, 22 + fewer, 28]) {
        0 if !tools.is_empty() => {
            let tool = chance.pick(tools);
            let input = match finish {
                Finish::Stop => arguments(chance, &tool),
                _ => cut_arguments(&tool),
            };
            let input = if input.starts_with('{') && input.ends_with('}') { input } else { "{}".to_owned() };
            format!(r#"{{"selection":{{"action":"call_tool","tool_name":"{tool}","tool_input":{input}}}}}"#)
        }
        0 | 1 => {
            let input = match finish {
                Finish::Stop => arguments(chance, "finish"),
                _ => CUT_OUTPUT.to_owned(),
            };
            chance
                .pick(&[
                    r#"{"selection":{"action":"finish"}}"#.to_owned(),
                    format!(r#"{{"selection":{{"action":"finish","tool_input":{input}}}}}"#),
                ])
                .clone()
        }
        _ => chance
            .pick(&[
                "I think it is noon.",
                "",
                " ",
                "{",
                "{}",
                "null",
                r#"{"selection":{"action":"dance"}}"#,
                r#"{"selection":{"action":"call_tool"}}"#,
                r#"{"selection":{"action":"call_tool","tool_name":"sweep","tool_input":{}}}"#,
                r#"{"selection":{"action":"call_tool","tool_name":"finish","tool_input":{"rooms":3}}}"#,
                "```json\n{\"selection\":{\"action\":\"finish\"}}\n```",
            ])
            .to_owned(),
    };
    let mut reply = Reply::text(text).with_finish(finish);
    if chance.percent(8) {
        reply.parts.push(call(chance, tools, false));
    }
    reply
}

impl Speaker {
    async fn answers(&self, request: &Request) -> Result<Reply> {
        let world = &self.world;
        world.asked(&self.name, self.top && !is_aside(request), request);
        let _working = world.works();
        let digest = digest(request);
        world.note(|| {
            let last = request.messages.last().map(|said| checks::message(said));
            format!(
                "  {} is asked ({}, {:?}) {last:?}",
                self.name,
                request.messages.len(),
                request.tool_choice
            )
        });
        let mut chance = world.chance(&format!("{} {digest}", self.name));
        takes(&mut chance).await;
        if chance.percent(3) {
            if self.may_hang {
                return pending().await;
            }
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
        let lost = if self.top && !is_aside(request) {
            chance.percent(9) && world.interrupts(&format!("lost {digest}"))
        } else {
            chance.percent(3)
        };
        let most = request.most_usage(Dialect::JsonSchema2020);
        if lost && chance.percent(25) {
            fall("the model fell");
        }
        let usage = match chance.weighed([50, 30, 10, 10, 10]) {
            0 => Usage::new(1 + chance.below(20), 1 + chance.below(20)),
            1 => {
                let read = chance.below(most.input_tokens + 1);
                Usage {
                    cached_tokens: chance.below(read + 1),
                    ..Usage::new(read, chance.below(most.output_tokens + 1))
                }
            }
            2 => Usage::default(),
            // The server reports no usage, or a part of it.
            3 if chance.percent(50) => Usage::unknown(),
            3 => Usage::new(chance.below(most.input_tokens * 2), 0) + Usage::unknown(),
            _ => Usage::new(
                chance.below(most.input_tokens * 2),
                chance.below(most.output_tokens * 2),
            ),
        };
        if lost {
            let error = Error::other("connection lost").at(Stage::Transport).retryable(true);
            world.note(|| format!("  {} loses its connection", self.name));
            return Err(match chance.weighed([30, 30, 40]) {
                0 => error.with_usage(usage),
                1 => error.with_usage(Usage::default()),
                // The cost is unknown and counts in full.
                _ => error,
            });
        }
        let reply = if is_aside(request) {
            Reply::text("aside")
        } else if request.output.is_some() {
            selects(&mut chance, &self.tools, self.deep)
        } else {
            let typed = request.tools.iter().any(|tool| tool.name() == "finish");
            let last = request.tool_choice == ToolChoice::None || chance.percent(5);
            if last && chance.percent(70) {
                Reply::text("Enough.")
            } else {
                says(&mut chance, &self.tools, typed, self.deep)
            }
        };
        Ok(reply.with_usage(usage))
    }

    fn reported(&self, request: &Request, reply: &Result<Reply>) {
        self.world.inner().has_failed |= reply.is_err();
        let usage = reply.as_ref().map_or_else(Error::usage, |reply| reply.usage);
        self.world.reported(
            usage,
            request.most_usage(Dialect::JsonSchema2020),
            self.price.as_ref(),
        );
    }
}

/// A hook that fails: before a call and after it, with errors and panics. It also repeats and
/// answers calls.
pub(crate) struct Meddler(pub(crate) Arc<World>);

impl Hook for Meddler {
    fn name(&self) -> &str {
        "meddler"
    }

    async fn model(&self, request: Request, next: AskNext<'_>) -> Result<Reply> {
        let path = checks::key(&next.cx().path());
        let at = format!("meddles {path} {}", digest(&request));
        // The error ends a drive of the top agent. Below, it is the error of a tool.
        let may = |what: &str| !path.is_empty() || self.0.interrupts(&format!("{what} {at}"));
        let failed = || Err(Error::other("the hook failed"));
        match self.0.chance(&at).weighed([74, 5, 3, 5, 13]) {
            1 if may("before") => failed(),
            2 if may("falls") => fall("the hook fell"),
            3 if may("after") => next.run(request).await.and_then(|_| failed()),
            4 => match next.run(request.clone()).await {
                Err(error) if error.is_retryable() => next.run(request).await,
                ended => ended,
            },
            _ => next.run(request).await,
        }
    }

    async fn tool(&self, arguments: String, next: CallNext<'_>) -> Result<ToolOutput> {
        let at = format!("meddles {} {arguments}", checks::key(&next.cx().path()));
        match self.0.chance(&at).weighed([75, 6, 4, 6, 5, 4]) {
            1 => Err(Error::retry("the hook wants it in another way")),
            2 => fall("the hook fell"),
            3 => next.run(arguments).await.and_then(|_| Err(Error::other("the hook failed"))),
            4 => Ok(ToolOutput::text_only("the hook knows it")),
            5 if self.0.interrupts(&at) => Err(Error::stop("the hook stops")),
            _ => next.run(arguments).await,
        }
    }
}

fn is_aside(request: &Request) -> bool {
    matches!(request.messages.as_slice(), [only] if checks::message(only).starts_with("user: aside"))
}

impl LanguageModel for Speaker {
    fn name(&self) -> &str {
        "speaker"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            let reply = self.answers(request).await;
            self.reported(request, &reply);
            reply
        })
    }

    fn stream<'a>(&'a self, request: Request) -> BoxStream<'a, Result<Delta>> {
        let reply = async move {
            let reply = self.answers(&request).await;
            let text = reply.as_ref().map(Reply::to_text).unwrap_or_default();
            let pieces: Vec<_> =
                text.split_inclusive(' ').map(|piece| Delta::Text(piece.to_owned())).collect();
            let pieces = stream::iter(pieces).then(async |piece| {
                tokio::task::yield_now().await;
                Ok(piece)
            });
            let done = async move {
                self.reported(&request, &reply);
                reply.map(|reply| Delta::Done(Box::new(reply)))
            };
            pieces.chain(stream::once(done))
        };
        stream::once(reply).flatten().boxed()
    }
}
