//! Many calls at once under small ledgers, which wait for each other.
//!
//! Callers are cancelled, late and dropped while they wait. Ledgers are nested, some costs stay
//! unknown, some callers are in streams, and the program and its tool calls hold reservations of
//! their own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use toolwright_module::budget::{Budget, Exhausted, Ledger, LimitKind, Spent};
use toolwright_module::error::Stage;
use toolwright_module::model::{BoxFuture, Capabilities, Settings, Usage};
use toolwright_module::runner;
use toolwright_module::{
    Cancellation, Context, Dialect, Error, LanguageModel, Message, Reply, Request, Result, ToolCall,
};

use super::chance::Chance;

/// Time after which the calls count as hanging. Reservations of the program last 200 seconds.
const HANGS: Duration = Duration::from_secs(5_000);

/// The calls with one ledger and one largest cost. They are alike, so they begin in their order.
type Group = (usize, u64);

#[derive(Default)]
struct Seen {
    wrong: Vec<String>,
    /// The ledgers around each refused call, and its largest cost.
    refused: Vec<(Vec<Ledger>, u64)>,
    /// When each call of a group began, in the order of their questions.
    begun: HashMap<Group, Vec<Option<Instant>>>,
    ledgers: usize,
    served: u64,
    waited: u64,
}

/// A model that takes its time, and writes at most what it may.
struct Worker {
    seen: Arc<Mutex<Seen>>,
    seed: u64,
    group: Group,
    place: usize,
    asked: Instant,
}

impl LanguageModel for Worker {
    fn name(&self) -> &str {
        "worker"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        let mut chance = Chance::of(self.seed, "worker");
        let most = self.group.1;
        {
            let mut seen = self.seen.lock().unwrap();
            seen.served += 1;
            seen.waited += u64::from(self.asked.elapsed() > Duration::ZERO);
            seen.begun.get_mut(&self.group).unwrap()[self.place] = Some(Instant::now());
        }
        Box::pin(async move {
            match chance.weighed([60, 30, 10]) {
                0 => tokio::time::sleep(Duration::from_millis(chance.below(3_000))).await,
                1 => {}
                _ => tokio::task::yield_now().await,
            }
            let reply = Reply::text("ok");
            match chance.weighed([70, 8, 8, 7, 7]) {
                0 => Ok(reply.with_usage(Usage::new(1, chance.below(most / 3 + 1)))),
                1 => Ok(reply.with_usage(Usage::new(1, most))),
                2 => Ok(reply.with_usage(Usage::unknown())),
                3 => Err(Error::other("lost").at(Stage::Transport)),
                _ => Err(Error::other("refused").at(Stage::Provider)),
            }
        })
    }
}

/// A caller with its place in the tree of ledgers.
#[derive(Clone)]
struct Caller {
    seed: u64,
    cx: Context,
    /// The ledgers around it, the innermost one first, and the number of that one.
    chain: Vec<Ledger>,
    ledger: usize,
    /// The reservations of the tool calls around it: how many ledgers of the chain are below that of
    /// the tool call, and the tokens.
    around: Vec<(usize, u64)>,
    /// Whether the tool calls of this run hold reservations.
    tools_hold: bool,
    seen: Arc<Mutex<Seen>>,
}

impl Caller {
    fn run(self, deep: usize) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut chance = Chance::new(self.seed);
            tokio::time::sleep(Duration::from_millis(chance.below(2_000))).await;
            for _ in 0..1 + chance.below(4) {
                if !self.ask(&mut chance).await {
                    return;
                }
                if deep < 3 && chance.percent(15) {
                    self.below(&mut chance, deep).await;
                }
            }
        })
    }

    /// Runs agents below, with a ledger of their own.
    async fn below(&self, chance: &mut Chance, deep: usize) {
        let call = ToolCall::new("call_1", "below", "{}");
        let cx = runner::in_call(&self.cx, &call);
        let above = cx.ledger().unwrap();
        let mut around = self.around.clone();
        let most = 1 + chance.below(150);
        let held = (self.tools_hold && chance.percent(50))
            .then(|| above.reserve(Spent::model_call(Usage::new(0, most))).ok())
            .flatten();
        around.extend(held.as_ref().map(|_| (0, most)));
        around.iter_mut().for_each(|(below, _)| *below += 1);
        let own = runner::ledger(Some(above), "below", small(chance), Spent::default());
        let _last = runner::keep_last_call(above);
        let ledger = {
            let mut seen = self.seen.lock().unwrap();
            seen.ledgers += 1;
            seen.ledgers
        };
        let mut chain = self.chain.clone();
        chain.insert(0, own.clone());
        let callers = (0..1 + chance.below(5)).map(|_| Self {
            seed: chance.number(),
            cx: self.cx.clone().with_ledger(own.clone()),
            chain: chain.clone(),
            ledger,
            around: around.clone(),
            tools_hold: self.tools_hold,
            seen: Arc::clone(&self.seen),
        });
        let tasks: Vec<_> = callers.map(|caller| tokio::spawn(caller.run(deep + 1))).collect();
        for task in tasks {
            task.await.unwrap();
        }
        if let Some(held) = held {
            held.settle(Spent::default());
        }
    }

    /// Returns whether a call needs the reservation of a tool call around it, which is released only
    /// after the call has ended.
    fn needs_what_is_around(&self, need: u64) -> bool {
        self.chain.iter().enumerate().any(|(place, ledger)| {
            let held = self.around.iter().filter(|(below, _)| *below <= place);
            let held: u64 = held.map(|(_, most)| most).sum();
            let most = ledger.budget().output_tokens.unwrap_or(u64::MAX);
            held > 0 && ledger.spent().usage.output_tokens + held + need > most
        })
    }

    /// Asks once. Returns whether the caller goes on.
    async fn ask(&self, chance: &mut Chance) -> bool {
        let need = chance.pick(&[1, 5, 10, 10, 10, 30, 60, 100]);
        let after = Duration::from_millis(chance.below(4_000));
        let (mut cx, now, cancellation) =
            (self.cx.clone(), Instant::now(), Cancellation::default());
        let interrupted = chance.weighed([60, 13, 13, 14]);
        match interrupted {
            1 => cx = cx.with_cancellation(cancellation.clone()),
            2 => cx = cx.with_deadline((now + after).into_std()),
            _ => {}
        }
        let group = (self.ledger, need);
        let place = {
            let mut seen = self.seen.lock().unwrap();
            let group = seen.begun.entry(group).or_default();
            group.push(None);
            group.len() - 1
        };
        let is_hopeless = self.needs_what_is_around(need);
        let (seed, seen) = (chance.number(), Arc::clone(&self.seen));
        let worker = Worker { seen, seed, group, place, asked: now };
        let settings = Settings::default().with_max_output_tokens(need);
        let request = Request::new([Message::user("Go.")]).with_settings(settings);
        let asks = cx.ask(&worker, request, false);
        let ended = match interrupted {
            1 => tokio::select! {
                biased;
                ended = asks => Some(ended),
                () = async {
                    tokio::time::sleep(after).await;
                    cancellation.cancel();
                    std::future::pending::<()>().await;
                } => None,
            },
            3 => tokio::time::timeout(after, asks).await.ok(),
            _ => Some(asks.await),
        };
        if is_hopeless && now.elapsed() > Duration::ZERO {
            let text = format!("a call waited {:?} for a tool call around it", now.elapsed());
            self.seen.lock().unwrap().wrong.push(text);
        }
        self.check(ended, interrupted, (group, place), now.elapsed().saturating_sub(after))
    }

    /// Checks the end of a call. Returns whether the caller goes on.
    fn check(
        &self,
        ended: Option<Result<Reply>>,
        interrupted: usize,
        (group, place): (Group, usize),
        late: Duration,
    ) -> bool {
        let mut seen = self.seen.lock().unwrap();
        let overspent = self.chain.iter().find(|ledger| {
            let most = ledger.budget().output_tokens.unwrap_or(u64::MAX);
            ledger.committed().usage.output_tokens > most
        });
        if let Some(ledger) = overspent {
            seen.wrong.push(format!("{:?} of {:?}", ledger.committed(), ledger.budget()));
        }
        let Some(Err(error)) = ended else { return true };
        let waited = seen.begun[&group][place].is_none();
        if let Some(exhausted) = error.downcast_ref::<Exhausted>() {
            if exhausted.limit == LimitKind::OutputTokens {
                seen.refused.push((self.chain.clone(), group.1));
            }
            return false;
        }
        let may = match error.stage() {
            Stage::Cancelled => interrupted == 1,
            Stage::Limit => interrupted == 2,
            _ => !waited,
        };
        if waited && (!may || late > Duration::from_millis(10)) {
            seen.wrong.push(format!("{late:?} late, interrupted {interrupted}: {error:#}"));
        }
        true
    }
}

fn small(chance: &mut Chance) -> Budget {
    let mut budget = Budget::default();
    if chance.percent(70) {
        budget.output_tokens = Some(20 + chance.below(400));
    }
    if chance.percent(15) {
        budget.model_calls = Some(1 + chance.below(20));
    }
    budget
}

/// The program holds a part of the budget now and then.
async fn holds(mut chance: Chance, ledger: Ledger) {
    for _ in 0..chance.below(4) {
        tokio::time::sleep(Duration::from_millis(chance.below(3_000))).await;
        let most = Spent::model_call(Usage::new(0, 1 + chance.below(150)));
        let Ok(reserved) = ledger.reserve(most) else { continue };
        let time = chance.pick(&[10, 500, 2_000, 200_000]);
        tokio::time::sleep(Duration::from_millis(time)).await;
        match chance.weighed([60, 30, 10]) {
            0 => drop(reserved.settle(Spent::default())),
            1 => drop(reserved.settle(Spent::model_call(Usage::new(0, 1)))),
            _ => drop(reserved),
        }
    }
}

/// Plays one run of many callers. Returns what is wrong, and how many calls were served and waited.
async fn play(seed: u64) -> (Vec<String>, u64, u64) {
    let mut chance = Chance::of(seed, "waiting");
    let top =
        Ledger::new(Budget { output_tokens: Some(20 + chance.below(600)), ..Budget::default() });
    let child = top.child();
    let seen = Arc::new(Mutex::new(Seen { ledgers: 2, ..Seen::default() }));
    let stream = runner::in_stream(Context::default());
    let tools_hold = chance.percent(30);
    let callers = (0..2 + chance.below(30)).map(|_| {
        let below = chance.percent(30);
        let chain = if below { vec![child.clone(), top.clone()] } else { vec![top.clone()] };
        // All calls in a stream of its own number are polled by themselves here.
        let cx = match chance.weighed([70, 20, 10]) {
            0 => Context::default(),
            1 => stream.clone(),
            _ => runner::in_stream(stream.clone()),
        };
        let (cx, ledger) = (cx.with_ledger(chain[0].clone()), usize::from(below));
        Caller {
            seed: chance.number(),
            cx,
            chain,
            ledger,
            around: Vec::new(),
            tools_hold,
            seen: Arc::clone(&seen),
        }
    });
    let mut tasks: Vec<_> = callers.map(|caller| tokio::spawn(caller.run(0))).collect();
    let holds_long = chance.percent(30);
    if holds_long {
        tasks.push(tokio::spawn(holds(Chance::new(chance.number()), top.clone())));
    }
    let all = async {
        for task in tasks {
            task.await.unwrap();
        }
    };
    let ended = tokio::time::timeout(HANGS, all).await;
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    if ended.is_err() {
        seen.wrong.push("the calls hang".to_owned());
        return (seen.wrong, seen.served, seen.waited);
    }
    // A call is refused only if it does not fit into what is left in the end. A call that waited for
    // the program, for a tool call, or for a stream around it, may have given up.
    for (chain, need) in seen.refused {
        let fits = chain.iter().all(|ledger| {
            let most = ledger.budget().output_tokens.unwrap_or(u64::MAX);
            ledger.committed().usage.output_tokens + need <= most
        });
        if fits && !holds_long && !tools_hold {
            seen.wrong.push(format!("a call of {need} tokens was refused, and fits"));
        }
    }
    for ((ledger, need), begun) in &seen.begun {
        let begun: Vec<_> = begun.iter().flatten().collect();
        if !begun.is_sorted() {
            seen.wrong.push(format!("calls of {need} tokens in ledger {ledger} passed each other"));
        }
    }
    (seen.wrong, seen.served, seen.waited)
}

#[test]
fn calls_that_wait_are_served_in_order_never_overspend_and_never_hang() {
    let runs = super::number("SIMULATION_RUNS").unwrap_or(super::RUNS) / 20;
    let first = super::number("SIMULATION_FIRST").unwrap_or(0);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    let (mut served, mut waited) = (0, 0);
    for seed in first..first + runs.max(1) {
        let (wrong, some, late) = runtime.block_on(play(seed));
        assert!(wrong.is_empty(), "run {seed}:\n{}", wrong.join("\n"));
        (served, waited) = (served + some, waited + late);
    }
    println!("{served} calls were served, {waited} of them waited");
    assert!(waited * 10 > served, "{waited} of {served} calls waited");
}
