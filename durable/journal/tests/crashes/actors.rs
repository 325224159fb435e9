//! Models, tools, hooks and people whose answers depend on the seed and on the place in the run only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::budget::Budget;
use toolwright_module::error::Stage;
use toolwright_module::event::InCall;
use toolwright_module::hook::{AskNext, CallNext, Hook};
use toolwright_module::model::{BoxFuture, Capabilities, Usage};
use toolwright_module::{
    Context, Dialect, Effect, Error, LanguageModel, Message, Module, Reply, Request, Result,
    Signature, Tool, ToolCall, ToolOutput,
};
use toolwright_orchestrator::perform::value;
use toolwright_orchestrator::{Agent, ApprovalPolicy, Limits, Task};

pub(crate) const TASK: &str = "Go.";

/// A stream of pseudo-random numbers (splitmix64).
pub(crate) struct Chance(u64);

impl Chance {
    /// Returns an independent stream for each text.
    pub(crate) fn of(seed: u64, text: &str) -> Self {
        let mut hash = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xcbf2_9ce4_8422_2325;
        for byte in text.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Self(hash)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }

    /// Returns true in `cases` of a hundred cases.
    pub(crate) fn percent(&mut self, cases: u64) -> bool {
        self.below(100) < cases
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
}

/// What really happens, and what is wrong with it.
#[derive(Default)]
pub(crate) struct World(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    seed: u64,
    wrong: Vec<String>,
    /// The interruptions that were.
    interrupted: BTreeSet<String>,
    /// Whether somebody is there to decide.
    is_attended: bool,
    done: BTreeMap<String, u32>,
    asked: BTreeMap<String, u32>,
    /// What a person says of lost calls, from 0 to 9.
    says: u64,
    /// Whether a person said of a lost call that it happened, and whether one denied it.
    said: (bool, bool),
}

impl Inner {
    /// Returns whether the hook refuses a call.
    fn is_refused(&self, key: &str) -> bool {
        Chance::of(self.seed, &format!("hooks {key}")).percent(5)
    }

    fn fails(&self, key: &str, arguments: &str) -> bool {
        self.is_refused(key) || serde_json::from_str::<Look>(arguments).is_err()
    }
}

impl World {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    /// Resets everything for a run.
    pub(crate) fn begin(&self, seed: u64) {
        let is_attended = !Chance::of(seed, "attended").percent(20);
        *self.inner() = Inner { seed, is_attended, ..Inner::default() };
    }

    pub(crate) fn decides_on_lost(&self, says: u64) {
        self.inner().says = says;
    }

    pub(crate) fn said_of_lost(&self) -> (bool, bool) {
        self.inner().said
    }

    /// After a drive without an approver, there is one.
    pub(crate) fn comes_back(&self) {
        self.inner().is_attended = true;
    }

    pub(crate) fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.inner().wrong.push(what());
        }
    }

    pub(crate) fn take_wrong(&self) -> Vec<String> {
        std::mem::take(&mut self.inner().wrong)
    }

    /// Takes how often each part was done, and each lost call was asked about.
    pub(crate) fn take_done(&self) -> (BTreeMap<String, u32>, BTreeMap<String, u32>) {
        let mut inner = self.inner();
        (std::mem::take(&mut inner.done), std::mem::take(&mut inner.asked))
    }

    pub(crate) fn has_interruptions(&self) -> bool {
        !self.inner().interrupted.is_empty()
    }

    pub(crate) fn has_limits(&self) -> bool {
        is_limited(self.inner().seed)
    }

    fn chance(&self, text: &str) -> Chance {
        Chance::of(self.inner().seed, text)
    }

    /// Interrupts the drive at this place, the first time.
    fn interrupt(&self, at: &str) -> Result<()> {
        let mut inner = self.inner();
        if Chance::of(inner.seed, &format!("interrupts {at}")).percent(4)
            && inner.interrupted.insert(at.to_owned())
        {
            return Err(Error::stop(format!("interrupted at {at}")).at(Stage::Transport));
        }
        Ok(())
    }

    fn does(&self, key: String) {
        *self.inner().done.entry(key).or_default() += 1;
    }

    pub(crate) fn cx(self: &Arc<Self>) -> Context {
        let cx = Context::default();
        if !self.inner().is_attended {
            return cx;
        }
        let world = Arc::clone(self);
        cx.with_approver(move |asked: Approval| {
            let decision = world.decides(&asked);
            async move { Ok(decision) }
        })
    }

    fn decides(&self, asked: &Approval) -> Decision {
        let key = key(&asked.path, ["call", &*asked.call.id]);
        let mut inner = self.inner();
        let mut chance = Chance::of(inner.seed, &format!("decides {key}"));
        let first = match chance.below(10) {
            0..6 => Decision::Approve,
            6..8 if asked.call.name.starts_with("helper") => {
                Decision::Edit { arguments: r#"{"task": "Edited."}"#.to_owned() }
            }
            6..8 => Decision::Edit { arguments: r#"{"place": "edited"}"#.to_owned() },
            _ => Decision::deny("Not today."),
        };
        if !asked.unknown {
            return first;
        }
        *inner.asked.entry(key.clone()).or_default() += 1;
        match inner.says {
            0..6 => Decision::CallAgain,
            6 if asked.effect < Effect::Irreversible => Decision::Approve,
            // Such a call does not count for limits, and the note of an edit is missing.
            7 if !is_limited(inner.seed) && first == Decision::Approve => {
                inner.said.0 = true;
                match result(inner.seed, &key, &asked.call.arguments) {
                    Ok(text) if !inner.fails(&key, &asked.call.arguments) => {
                        Decision::Happened { result: text }
                    }
                    // A person cannot say that a call has failed.
                    _ => Decision::CallAgain,
                }
            }
            8 => {
                inner.said.1 = true;
                Decision::deny("Not again.")
            }
            _ => Decision::CallAgain,
        }
    }
}

/// Returns the id of a part without its number.
pub(crate) fn key<const N: usize>(path: &[InCall], own: [&str; N]) -> String {
    let above = path.iter().flat_map(|call| [&*call.tool, &*call.id]);
    serde_json::to_string(&above.chain(own).collect::<Vec<_>>()).unwrap()
}

/// Returns the result of a call.
fn result(seed: u64, key: &str, arguments: &str) -> Result<String> {
    let place = serde_json::from_str::<Look>(arguments).map(|look| look.place);
    let place = place.unwrap_or_default();
    let mut chance = Chance::of(seed, &format!("{key} {place}"));
    match chance.below(12) {
        0 => Err(Error::retry(format!("{place} is locked"))),
        1 => Err(Error::other("it broke")),
        // Longer than the results of some runs may be.
        2 => Ok(format!("{place} {}", "x".repeat(200))),
        number => Ok(format!("{place} has {number}")),
    }
}

/// Look at a place.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Look {
    /// Where to look.
    place: String,
}

impl Signature for Look {
    type Output = String;
}

struct Does {
    world: Arc<World>,
    effect: Effect,
}

impl Module for Does {
    type Signature = Look;

    async fn call(&self, look: Look, cx: &Context) -> Result<String> {
        let path = cx.path();
        let (own, above) = path.split_last().unwrap();
        let key = key(above, ["call", &*own.id]);
        let mut chance = self.world.chance(&format!("pauses {key}"));
        for _ in 0..chance.below(3) {
            tokio::task::yield_now().await;
        }
        self.world.interrupt(&key)?;
        self.world.does(key.clone());
        for _ in 0..chance.below(3) {
            tokio::task::yield_now().await;
        }
        let arguments = serde_json::to_string(&look).unwrap();
        let seed = self.world.inner().seed;
        result(seed, &key, &arguments)
    }

    fn effect(&self) -> Effect {
        self.effect
    }
}

/// A module made of a value and of nothing else.
struct Rolls(Arc<World>);

/// Roll a die.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Roll {
    /// Where to roll it.
    place: String,
}

impl Signature for Roll {
    type Output = u64;
}

impl Module for Rolls {
    type Signature = Roll;

    async fn call(&self, _: Roll, cx: &Context) -> Result<u64> {
        let key = key(&cx.path(), ["value", "die"]);
        value(cx, "die", async {
            self.0.interrupt(&key)?;
            self.0.does(key.clone());
            Ok(self.0.chance(&key).below(6) + 1)
        })
        .await
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn has_parts(&self) -> bool {
        true
    }
}

/// A model that answers by the task and by the number of its replies so far.
#[derive(Clone)]
struct Speaker(Arc<World>);

impl LanguageModel for Speaker {
    fn name(&self) -> &str {
        "speaker"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move { Ok(self.says(request)) })
    }
}

impl Speaker {
    fn says(&self, request: &Request) -> Reply {
        let asked = request.messages.iter().find(|said| matches!(***said, Message::User { .. }));
        let task = serde_json::to_string(&asked).unwrap();
        let nth = replies(request);
        let mut chance = self.0.chance(&format!("says {task} {nth}"));
        let usage = Usage::new(10 + chance.below(5), chance.below(5));
        if request.tools.is_empty() || chance.below(6) < nth {
            let text = chance.pick(&["Done.", "Perhaps.", "All of it."]);
            return Reply::text(text).with_usage(usage);
        }
        let count = 1 + chance.below(4);
        let calls = (0..count).map(|place| {
            let names: Vec<&str> = request.tools.iter().map(|tool| tool.name()).collect();
            let name = match chance.below(20) {
                0 => "ghost",
                _ => names[chance.below(names.len() as u64) as usize],
            };
            let id = match chance.below(12) {
                0 => String::new(),
                1 => "same".to_owned(),
                _ => format!("c{nth}{place}"),
            };
            let number = chance.below(1_000);
            let arguments = match chance.below(15) {
                0 => r#"{"wrong": 1}"#.to_owned(),
                _ if name.starts_with("helper") => format!(r#"{{"task": "Task {number}."}}"#),
                _ => format!(r#"{{"place": "{number}"}}"#),
            };
            ToolCall::new(id, name, arguments)
        });
        Reply::calls(calls.collect::<Vec<_>>()).with_usage(usage)
    }
}

fn replies(request: &Request) -> u64 {
    let replied = |message: &&Arc<Message>| matches!(***message, Message::Assistant { .. });
    request.messages.iter().filter(replied).count() as u64
}

/// Counts questions, and pauses and interrupts them.
struct Watches(Arc<World>);

impl Hook for Watches {
    fn name(&self) -> &str {
        "watches"
    }

    async fn model(&self, request: Request, next: AskNext<'_>) -> Result<Reply> {
        let key = key(&next.cx().path(), ["ask", "", &replies(&request).to_string()]);
        let mut chance = self.0.chance(&format!("pauses {key}"));
        for _ in 0..chance.below(3) {
            tokio::task::yield_now().await;
        }
        self.0.interrupt(&key)?;
        self.0.does(key);
        next.run(request).await
    }

    async fn tool(&self, arguments: String, next: CallNext<'_>) -> Result<ToolOutput> {
        let path = next.cx().path();
        let (own, above) = path.split_last().unwrap();
        let key = key(above, ["call", &*own.id]);
        if self.0.inner().is_refused(&key) {
            return Err(Error::retry("the hook says no"));
        }
        next.run(arguments).await
    }
}

/// The agents, which all seeds share.
pub(crate) struct Cast {
    pub(crate) world: Arc<World>,
    agents: Vec<Agent>,
}

fn is_limited(seed: u64) -> bool {
    Chance::of(seed, "limited").percent(40)
}

impl Cast {
    pub(crate) fn new() -> Self {
        let world = Arc::<World>::default();
        let does = |name: &str, effect| {
            let world = Arc::clone(&world);
            Tool::new(Does { world, effect }).unwrap().named(name).unwrap()
        };
        let simple = || {
            vec![
                does("look", Effect::Read),
                does("note", Effect::Idempotent),
                does("tidy", Effect::Write),
                does("burn", Effect::Irreversible),
                Tool::new(Rolls(Arc::clone(&world))).unwrap(),
            ]
        };
        let agent = |tools: Vec<Tool>, effect| {
            let policy = match effect {
                None => ApprovalPolicy::default(),
                Some(effect) => ApprovalPolicy::from_effect(effect),
            };
            Agent::new(Speaker(Arc::clone(&world)), tools)
                .unwrap()
                .with_hook(Watches(Arc::clone(&world)))
                .with_limits(Limits { max_iterations: 4, max_parallel: 2, ..Limits::default() })
                .with_approval(policy)
                .unwrap()
                .with_validator(|_: &Task, answer: &String| match answer.as_str() {
                    "Perhaps." => Err(Error::retry("Be sure.")),
                    _ => Ok(()),
                })
        };
        let below = |agent: Agent, name: &str, effect| {
            Tool::new(agent).unwrap().with_effect(effect).named(name).unwrap()
        };
        let mut agents = Vec::new();
        for policy in [None, Some(Effect::Write), Some(Effect::Irreversible)] {
            agents.push(agent(simple(), policy));
            let deep = below(agent(simple(), None), "helper_deep", Effect::Read);
            let middle = agent([simple(), vec![deep]].concat(), policy);
            let reads = below(middle, "helper_reads", Effect::Read);
            let writes = below(agent(simple(), policy), "helper_writes", Effect::Write);
            agents.push(agent([simple(), vec![reads, writes]].concat(), policy));
        }
        Self { world, agents }
    }

    /// Returns the agent of a seed.
    pub(crate) fn agent(&self, seed: u64) -> Agent {
        let mut chance = Chance::of(seed, "agent");
        let agent = chance.pick(&self.agents);
        let mut limits = Limits {
            max_iterations: 1 + chance.below(6) as u32,
            max_parallel: 1 + chance.below(4) as usize,
            max_result_bytes: chance.pick(&[100, 65_536]),
            ..Limits::default()
        };
        if is_limited(seed) {
            let mut budget = Budget::default();
            // Agents side by side share the budget, and which of them gets the rest of it depends on
            // their order.
            let has_helpers = agent.tools().iter().any(|tool| tool.name().starts_with("helper"));
            match chance.below(3) {
                _ if has_helpers => {}
                0 => budget.model_calls = Some(1 + chance.below(8)),
                1 => budget.tool_calls = Some(chance.below(8)),
                _ => budget.input_tokens = Some(chance.below(5_000)),
            }
            limits.budget = budget;
            limits.max_calls_per_reply = 1 + chance.below(3) as usize;
            limits = limits.with_tool("look", chance.below(3));
        }
        agent.with_limits(limits)
    }
}
