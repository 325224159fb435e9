//! Runs that the orchestrator drives: interrupted, stored, resumed and continued.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::budget::{Budget, Exhausted, Ledger, LimitKind, Price, Spent};
use toolwright_module::error::{Audience, Stage as Where};
use toolwright_module::event::{Ending, EventKind};
use toolwright_module::{Context, Contract, Error, Message, ToolCall};
use toolwright_orchestrator::{
    ApprovalPolicy, AwaitsApproval, Run, RunState, StepKind, StepResult, Unfinished,
};

use super::by_hand::Desk;
use super::cast::{
    CUT_OUTPUT, Cast, CountRooms, Kind, Meddler, Roles, Rooms, TestAgent, arguments, fall,
};
use super::chance::Chance;
use super::checks::{self, Drive};
use super::world::{TICK, World};

/// Time after which a hanging drive is cancelled.
const GIVES_UP: Duration = Duration::from_secs(3_000);
/// Time after which a drive counts as hanging.
const HANGS: Duration = Duration::from_secs(4_000);

/// The result of a finished run.
#[derive(Debug, PartialEq)]
struct Story {
    requests: Vec<String>,
    results: Vec<String>,
    state: Value,
}

/// The result of a simulated run.
pub(crate) struct Played {
    pub(crate) wrong: Vec<String>,
    pub(crate) trace: String,
}

/// Number of runs with the same participants.
pub(crate) const OF_ONE_CAST: u64 = 32;

/// Plays runs. Participants are reused, because making them takes longer than a run.
pub(crate) struct Stage {
    runtime: tokio::runtime::Runtime,
    world: Arc<World>,
    /// Participants, their seed, and their run without interruptions.
    scene: Option<(u64, Scene, Option<Story>)>,
    desk: Desk,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        Self { runtime, world: Arc::default(), scene: None, desk: Desk::new() }
    }

    /// Plays one run. If neither time nor money can influence it, it must equal its run without
    /// interruptions.
    pub(crate) fn play(&mut self, seed: u64, trace: bool) -> Played {
        // The other runs are driven by hand, which is faster.
        if !seed.is_multiple_of(4) {
            return self.desk.play(seed, trace);
        }
        let own = seed / OF_ONE_CAST;
        if self.scene.as_ref().is_none_or(|(other, ..)| *other != own) {
            self.world = Arc::default();
            let scene = Scene::new(&self.world, own);
            self.scene = Some((own, scene, None));
        }
        let Self { runtime, world, scene, .. } = self;
        let Some((_, scene, calm)) = scene else { unreachable!("made above") };
        let answers = if scene.free { own } else { seed };
        world.begins_anew(answers, false, trace);
        let wild = runtime.block_on(go(world, scene, seed));
        let (mut wrong, mut text) = world.take();
        if scene.free && wrong.is_empty() {
            if calm.is_none() {
                world.begins_anew(answers, true, trace);
                *calm = runtime.block_on(go(world, scene, seed));
                let (more, twin) = world.take();
                wrong.extend(more);
                text.push_str("\n--- without interruptions ---\n");
                text.push_str(&twin);
            }
            if wrong.is_empty() && wild != *calm {
                wrong.push("the run is another one without its interruptions".to_owned());
                text.push_str(&differences(wild.as_ref(), calm.as_ref()));
            }
        }
        Played { wrong, trace: text }
    }
}

fn differences(wild: Option<&Story>, calm: Option<&Story>) -> String {
    let (Some(wild), Some(calm)) = (wild, calm) else { return String::new() };
    let mut text = format!("results: {:?}\n{:?}\n", wild.results, calm.results);
    let count = wild.requests.len().max(calm.requests.len());
    let other = (0..count).find(|place| wild.requests.get(*place) != calm.requests.get(*place));
    if let Some(place) = other {
        let (one, two) = (wild.requests.get(place), calm.requests.get(place));
        text.push_str(&format!("request {place}:\n{one:?}\n{two:?}"));
    } else {
        text.push_str(&format!("state:\n{}\n{}", wild.state, calm.state));
    }
    text
}

/// A person who makes the same decision for the same call.
fn decides(world: &World, path: &str, call: &ToolCall) -> Decision {
    let at = format!("decide {path}>{}#{}", call.name, call.id);
    let mut chance = world.chance(&at);
    match chance.weighed([50, 25, 25]) {
        0 => Decision::Approve,
        1 => Decision::deny("Not today."),
        _ => {
            let text = format!("{:x}", chance.number());
            let mut valid = Chance::of(0, &at);
            loop {
                let arguments = arguments(&mut valid, &call.name);
                let field = ["task", "question", "what"]
                    .into_iter()
                    .find(|field| arguments.contains(&format!("\"{field}\":\"")));
                if let Some(field) = field {
                    let mut value: Value = serde_json::from_str(&arguments).unwrap();
                    value[field] = text.into();
                    break Decision::Edit { arguments: value.to_string() };
                }
            }
        }
    }
}

/// A wait for a person, which costs no time of the run.
struct Waits<'a>(&'a World, Instant);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.inner().waited += self.1.elapsed();
    }
}

/// Notes the decision to make a call again. It is the first one about arguments that were tampered
/// with.
fn calls_again(world: &World, key: String, call: &ToolCall) {
    let mut inner = world.inner();
    if inner.decided_on.get(&key) != Some(&call.arguments) {
        inner.decided.insert(key.clone(), Decision::CallAgain);
        inner.decided_on.insert(key, call.arguments.clone());
    }
}

async fn approves(world: Arc<World>, asked: Approval) -> Result<Decision, Error> {
    let _working = world.works();
    let path = checks::key(&asked.path);
    let at = format!("{path}>{}#{}", asked.call.name, asked.call.id);
    if asked.unknown {
        let key = if path.is_empty() { at[1..].to_owned() } else { at };
        calls_again(&world, key, &asked.call);
        return Ok(Decision::CallAgain);
    }
    let mut chance = world.chance(&format!("asked {at}"));
    let waits = path.is_empty().then(|| Waits(&world, Instant::now()));
    if chance.percent(50) {
        tokio::time::sleep(Duration::from_millis(chance.below(4_000))).await;
    }
    drop(waits);
    // For an agent below another, the model gets the error, which is not an interruption.
    if path.is_empty() && chance.percent(6) && world.interrupts(&format!("asked {at}")) {
        return Err(Error::other("nobody is there"));
    }
    if chance.percent(4) && world.interrupts(&format!("falls {at}")) {
        fall("the approver fell");
    }
    if chance.percent(8) && world.interrupts(&format!("edit {at}")) {
        return Ok(Decision::Edit { arguments: "{\"no\": ".to_owned() });
    }
    let decision = decides(&world, &path, &asked.call);
    let key = if path.is_empty() { at[1..].to_owned() } else { at };
    world.inner().decided.insert(key.clone(), decision.clone());
    world.inner().decided_on.insert(key, asked.call.arguments.clone());
    Ok(decision)
}

/// The kind of an interruption.
#[derive(Debug, Clone, Copy)]
enum Interruption {
    None,
    CancelAt(Duration),
    CancelAtEvent(usize),
    Drop(u64),
    Deadline(Duration),
}

/// Polls the work at most this many times, and then drops it and returns `None`.
async fn polled<T>(work: impl Future<Output = T>, times: Option<u64>) -> Option<T> {
    let mut left = times;
    let mut work = pin!(work);
    poll_fn(|cx| {
        match &mut left {
            Some(0) => return Poll::Ready(None),
            Some(left) => *left -= 1,
            None => {}
        }
        let polled = work.as_mut().poll(cx);
        if polled.is_pending() && left == Some(0) {
            return Poll::Ready(None);
        }
        polled.map(Some)
    })
    .await
}

struct Scene {
    agent: TestAgent,
    kind: Kind,
    /// The run before its first step.
    run: Run,
    roles: Roles,
    /// The ledgers above the run, if there are any.
    budgets: Option<[Budget; 2]>,
    price: Option<Price>,
    /// Whether neither time nor money can end the run, so that interruptions change nothing.
    free: bool,
    /// Whether a hook meddles with the calls.
    meddles: bool,
}

/// One run of a scene.
struct Play<'a> {
    world: &'a Arc<World>,
    scene: &'a Scene,
    ledgers: Option<[Ledger; 2]>,
}

impl Scene {
    fn new(world: &Arc<World>, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let free = chance.percent(50);
        let kind = chance.pick(&[Kind::Untyped, Kind::Untyped, Kind::Output, Kind::ReAct]);
        let price = Price::per_million(2.0, 9.0).with_cached(0.5);
        let counts = free || chance.percent(70);
        let price = (counts && (chance.percent(95) || free)).then_some(price);
        let mut cast =
            Cast { world: Arc::clone(world), chance, roles: Roles::new(), price, names: 0 };
        let agent = cast.agent(free, 0, !free, kind);
        let bound = !free && cast.chance.percent(50);
        let mut budget = || {
            let budget = cast.budget(4096);
            match budget.model_calls {
                _ if !bound => Budget::default(),
                Some(calls) => Budget { model_calls: Some(calls * 3), ..budget },
                None => budget,
            }
        };
        let budgets = [budget(), budget()];
        let budgets = counts.then_some(budgets);
        let run = begin(&agent, kind);
        let meddles = cast.chance.percent(40);
        let (roles, price) = (cast.roles, cast.price);
        Self { agent, kind, run, roles, budgets, price, free, meddles }
    }

    fn ledgers(&self) -> Option<[Ledger; 2]> {
        let [top, middle] = self.budgets?;
        let mut top = Ledger::new(top);
        if let Some(price) = self.price.clone() {
            top = top.with_prices([("speaker", price)]);
        }
        let middle =
            toolwright_module::runner::ledger(Some(&top), "team", middle, Spent::default());
        Some([top, middle])
    }
}

fn contract() -> &'static Arc<Contract> {
    static CONTRACT: OnceLock<Arc<Contract>> = OnceLock::new();
    CONTRACT.get_or_init(|| Arc::new(Contract::of::<CountRooms>().unwrap()))
}

async fn go(world: &Arc<World>, scene: &Scene, seed: u64) -> Option<Story> {
    let ledgers = scene.ledgers();
    let mut chance = Chance::of(seed, "interruptions");
    let approver = world.is_calm() || chance.percent(70);
    let play = Play { world, scene, ledgers };
    let story = Box::pin(play.perform(approver, &mut chance)).await;
    world.is_at_rest();
    story
}

fn begin(agent: &TestAgent, kind: Kind) -> Run {
    match kind {
        Kind::Untyped => agent.orchestrator.start("Go.").unwrap(),
        Kind::Output => {
            let run = agent.orchestrator.start("Go.").unwrap();
            run.with_output(Arc::clone(contract())).unwrap()
        }
        Kind::ReAct => {
            let react = agent.react.as_ref().unwrap();
            let run = react.agent().start(react.task(&CountRooms::new()).unwrap()).unwrap();
            run.with_approval(agent.approval.clone()).unwrap()
        }
    }
}

/// A finished drive: its answer, its ending and its limit.
type Finish = (String, Ending, Option<LimitKind>);

async fn drive(scene: &Scene, run: &mut Run, cx: &Context) -> Result<Finish, Error> {
    if scene.kind == Kind::ReAct {
        let finished = scene.agent.react.as_ref().unwrap().agent().drive(run, cx).await?;
        let answer = serde_json::to_string(&finished.answer).unwrap();
        return Ok((answer, Ending::Answered, None));
    }
    let finished = scene.agent.orchestrator.drive(run, cx).await?;
    Ok((finished.answer, finished.ending, finished.limit))
}

impl Play<'_> {
    async fn perform(&self, mut approver: bool, chance: &mut Chance) -> Option<Story> {
        let Self { world, scene, .. } = *self;
        let mut run = scene.run.clone();
        // A run that starts without a policy. The policy of its agent applies.
        if !scene.free && scene.kind != Kind::ReAct && chance.percent(30) {
            run = run.with_approval(ApprovalPolicy::default()).unwrap();
        }
        let mut tasks = world.chance("tasks").below(3);
        let (mut results, mut last_reported) = (Vec::new(), Vec::new());
        let mut begun = run.history().len().saturating_sub(1);
        let mut number = 0;
        loop {
            number += 1;
            if number > 25 && !scene.free {
                // A call hangs in every drive, or always exceeds its time.
                return None;
            }
            if number > 60 {
                world.wrong("driven on again and again");
                return None;
            }
            let interruption = match chance.weighed([40, 20, 10, 20, 10]) {
                _ if world.is_calm() || number > 10 => Interruption::None,
                1 => Interruption::CancelAt(Duration::from_millis(chance.below(9_000))),
                2 => Interruption::CancelAtEvent(1 + chance.size(25)),
                3 => Interruption::Drop(1 + chance.below(20)),
                4 => Interruption::Deadline(Duration::from_millis(chance.below(6_000))),
                _ => Interruption::None,
            };
            let before = run.clone();
            let outcome = self.one_drive(&mut run, approver, interruption).await;
            check_run(world, scene, &before, &run, begun);
            self.check_spent(&run);
            last_reported.extend(reported(world));
            if !world.is_calm() && chance.percent(15) {
                run = resumed(world, scene, &run);
            }
            if !world.is_calm() && chance.percent(15) {
                run = tampered(world, scene, &run, chance);
            }
            let finish = match outcome {
                None => continue,
                Some(Ok(finish)) => {
                    if scene.kind == Kind::Output
                        && finish.1 == Ending::Answered
                        && let Err(fault) = contract().read_output::<Rooms>(&finish.0)
                    {
                        let answer = StepResult::rejected(run.next().number, fault.to_string());
                        run.apply(answer).unwrap();
                        continue;
                    }
                    let again = self.one_drive(&mut run, approver, Interruption::None).await;
                    let same = matches!(&again, Some(Ok(again)) if *again == finish);
                    world.check(same, || format!("what was done is not done again: {again:?}"));
                    finish
                }
                Some(Err(error)) => {
                    if let Some(unfinished) = error.downcast_ref::<Unfinished>() {
                        (
                            unfinished.finished.answer.clone(),
                            unfinished.finished.ending,
                            unfinished.finished.limit,
                        )
                    } else if let Some(awaits) = error.downcast_ref::<AwaitsApproval>() {
                        world.check(!approver, || "an approver was not asked".to_owned());
                        if awaits.path.is_empty() {
                            // The decisions as the run has them now, after a possible edit.
                            if let StepKind::AwaitApproval(calls) = run.next().kind {
                                decide(world, &mut run, &calls, chance);
                            }
                        } else {
                            approver = true;
                        }
                        continue;
                    } else if error.downcast_ref::<Exhausted>().is_some()
                        || (error.stage() == Where::Setup && !error.to_string().contains("apply"))
                    {
                        // The run cannot continue: a ledger above is exhausted or has no price.
                        let may = !scene.free;
                        world.check(may, || format!("a run without budgets ends with {error:#}"));
                        return None;
                    } else {
                        world.check(!world.is_calm(), || format!("a calm run fails: {error:#}"));
                        continue;
                    }
                }
            };
            results.push(format!("{finish:?}"));
            if scene.kind != Kind::ReAct || finish.1 != Ending::Answered {
                check_end(world, &run, &finish, begun);
            }
            check_reported(world, &run, &last_reported);
            if tasks == 0 {
                break;
            }
            tasks -= 1;
            run.follow_up(format!("And then? {tasks}")).unwrap();
            begun = run.history().len() - 1;
        }
        let mut state = serde_json::to_value(&run).unwrap();
        state["spent"].take();
        without_repetitions(&mut state);
        let mut requests = std::mem::take(&mut world.inner().requests);
        // An interrupted model call is repeated.
        requests.dedup();
        Some(Story { requests, results, state })
    }

    /// Drives once. Returns `None` if the drive was dropped.
    async fn one_drive(
        &self,
        run: &mut Run,
        approver: bool,
        interruption: Interruption,
    ) -> Option<Result<Finish, Error>> {
        let Self { world, scene, .. } = *self;
        world.note(|| format!("DRIVE from step {}, {interruption:?}", run.next().number));
        let (mut cancel_at, mut event, mut polls) = (GIVES_UP, None, None);
        let mut cx = Context::default();
        match interruption {
            Interruption::None => {}
            Interruption::CancelAt(time) => cancel_at = time,
            Interruption::CancelAtEvent(number) => event = Some(number),
            Interruption::Drop(times) => polls = Some(times),
            Interruption::Deadline(time) => {
                cx = cx.with_deadline((Instant::now() + time).into_std());
            }
        }
        cx = cx.with_cancellation(world.drives(event));
        if let Some([_, middle]) = &self.ledgers {
            cx = cx.with_ledger(middle.clone());
        }
        if approver {
            let world = Arc::clone(world);
            cx = cx.with_approver(move |asked| approves(Arc::clone(&world), asked));
        }
        if scene.meddles {
            cx = cx.with_hook(Meddler(Arc::clone(world)));
        }
        let hearing = Arc::clone(world);
        let falls =
            !world.is_calm() && world.chance(&format!("falls {interruption:?}")).percent(15);
        if falls {
            cx = cx.with_events(|_| fall("the listener fell"));
        }
        cx = cx.with_events(move |event| hearing.heard(event));

        let (began, elapsed) = (Instant::now(), run.elapsed());
        let limits = run.limits().clone();
        let asked = world.inner().questions;
        let outcome = {
            let mut driving = pin!(polled(drive(scene, run, &cx), polls));
            let cancelling = async {
                tokio::time::sleep(cancel_at).await;
                world.cancel();
                std::future::pending::<()>().await;
            };
            let mut cancelling = pin!(cancelling);
            let both = poll_fn(|cx| {
                if let Poll::Ready(outcome) = driving.as_mut().poll(cx) {
                    return Poll::Ready(outcome);
                }
                let _ = cancelling.as_mut().poll(cx);
                Poll::Pending
            });
            match tokio::time::timeout(HANGS, both).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    world.wrong("the drive hangs");
                    return None;
                }
            }
        };
        world.note(|| format!("DRIVEN: {outcome:?}"));
        world.is_at_rest();
        let now = Instant::now();
        let took = now - began;
        let (waited, cancelled) = {
            let inner = world.inner();
            (inner.waited, inner.cancelled_at)
        };
        // Every timeout occurs in time.
        let steps = run.next().number as u32 + 2;
        if let Some(time) = limits.max_time {
            let most = time.saturating_sub(elapsed) + waited + TICK * steps;
            world.check(took <= most, || format!("took {took:?}, {most:?} were allowed"));
            let most = time + TICK * steps;
            let elapsed = run.elapsed();
            world.check(elapsed <= most, || format!("{elapsed:?} of {time:?} elapsed"));
        }
        if let Interruption::Deadline(time) = interruption {
            world
                .check(took <= time + TICK, || format!("took {took:?}, the deadline was {time:?}"));
        }
        if let Some(at) = cancelled {
            let late = now - at;
            world.check(late <= TICK, || format!("went on for {late:?} after it was cancelled"));
        }
        let counted = run.elapsed().saturating_sub(elapsed);
        world.check(counted <= took, || format!("{counted:?} of {took:?} counted as elapsed"));
        if outcome.as_ref().is_some_and(Result::is_ok) {
            let off = took.saturating_sub(counted + waited);
            world.check(off <= TICK * steps, || format!("{off:?} of {took:?} do not count"));
        }
        check_error(world, scene, &outcome, approver, interruption);

        let drive = match &outcome {
            None => Drive::Dropped,
            Some(Ok(_)) => Drive::Done,
            Some(Err(error)) if error.downcast_ref::<Unfinished>().is_some() => Drive::Done,
            Some(Err(_)) => Drive::Failed,
        };
        let events = world.inner().events.clone();
        if let Err(what) = checks::reported(&events, drive) {
            world.wrong(what);
        }
        check_budgets(world, scene, &events);
        let (bombs, after) = (world.inner().bombs, "the tool panicked after its call");
        let fell = events.iter().filter(|event| match &event.kind {
            EventKind::ToolFinished { error: Some(error), .. } => error.starts_with(after),
            _ => false,
        });
        let fell = fell.count();
        world.check(fell <= bombs, || format!("{fell} of {bombs} outputs fell"));
        if matches!(drive, Drive::Done) && outcome.as_ref().is_some_and(Result::is_ok) {
            // Every model call has an event, unless something inside was dropped.
            let reported =
                events.iter().filter(|it| matches!(it.kind, EventKind::ModelReplied { .. }));
            let (reported, asked) = (reported.count() as u64, world.inner().questions - asked);
            world.check(reported <= asked, || format!("{reported} replies to {asked} questions"));
        }
        outcome
    }

    /// Checks that each cost is counted once in every ledger above.
    fn check_spent(&self, run: &Run) {
        let world = self.world;
        let unknown = world.inner().unknown;
        let (real, beyond, questions, executed, overshoots, cancelled) = {
            let inner = world.inner();
            // A model call that was cancelled before it was sent counts.
            let cancelled = inner.was_cancelled;
            (
                inner.spent,
                inner.beyond,
                inner.questions,
                inner.executed,
                inner.overshoots,
                cancelled,
            )
        };
        let own = run.spent();
        within(world, "the run", run.limits().budget, own, beyond);
        let Some(ledgers) = &self.ledgers else {
            // A dropped model call counts in full.
            let all = own.usage.input_tokens >= real.usage.input_tokens
                && own.usage.output_tokens >= real.usage.output_tokens;
            world.check(all, || format!("the run counts {:?} of {:?}", own.usage, real.usage));
            return;
        };
        for ledger in ledgers {
            let spent = ledger.spent();
            within(world, "a ledger above", ledger.budget(), spent, beyond);
            let tokens = [LimitKind::InputTokens, LimitKind::OutputTokens, LimitKind::Money];
            let exact = tokens.into_iter().all(|limit| {
                let (spent, least) = (limit.of(spent), limit.of(real));
                (least..=least.saturating_add(limit.of(unknown.0))).contains(&spent)
            });
            // Nobody reports the usage of a model call that was dropped, and some errors do not.
            let may_be_marked = unknown.0.usage.incomplete
                || world.inner().has_failed
                || spent.model_calls > real.model_calls;
            let marked = match spent.usage.incomplete {
                true => may_be_marked,
                false => !unknown.0.usage.incomplete,
            };
            world.check(exact && marked, || {
                format!("a ledger above counts {spent:?} of {real:?} and {unknown:?}")
            });
            let calls = spent.model_calls;
            let fits = calls == questions || (cancelled && calls > questions);
            world.check(fits, || format!("a ledger above counts {calls} of {questions} questions"));
            world.check(executed <= spent.tool_calls, || {
                format!("a ledger above counts {} of {executed} calls", spent.tool_calls)
            });
            // Dropped calls count in full: the ledger keeps their reservations.
            let committed = ledger.committed();
            world.check(own == committed, || {
                format!("the run counts {own:?}, a ledger above {committed:?}")
            });
            // So do calls with unreported usage.
            let kept = tokens.into_iter().all(|limit| {
                let most = limit.of(real).saturating_add(limit.of(unknown.1));
                !ledgers.iter().any(|it| counts_tokens(&it.budget())) || limit.of(committed) >= most
            });
            world.check(kept, || format!("{committed:?} is less than {real:?} and {unknown:?}"));
        }
        let reported = world.inner().reported_overshoots;
        // Without a budget above there is no reservation to exceed.
        let counts = ledgers.iter().any(|ledger| counts_tokens(&ledger.budget()));
        let fits = reported == overshoots || !counts;
        world.check(fits && reported <= overshoots, || {
            format!("{reported} of {overshoots} overshoots reported")
        });
    }
}

fn counts_tokens(budget: &Budget) -> bool {
    let Budget { input_tokens, output_tokens, money, .. } = budget;
    input_tokens.is_some() || output_tokens.is_some() || money.is_some()
}

fn check_error(
    world: &World,
    scene: &Scene,
    outcome: &Option<Result<Finish, Error>>,
    approver: bool,
    interruption: Interruption,
) {
    let Some(Err(error)) = outcome else { return };
    let text = format!("{error:#}");
    let cancelled = world.inner().cancelled_at.is_some();
    let may = if error.downcast_ref::<Unfinished>().is_some() {
        true
    } else if error.downcast_ref::<Exhausted>().is_some() {
        !scene.free
    } else {
        match error.stage() {
            Where::Cancelled => cancelled && error.audience() == Audience::Run,
            Where::Limit => matches!(interruption, Interruption::Deadline(_)),
            Where::Approval => !approver || text.contains("correct them"),
            Where::Transport => !world.is_calm(),
            Where::Panic => {
                let fell = [
                    "the approver panicked: the approver fell",
                    "the model panicked: the model fell",
                    "the hook `meddler` panicked: the hook fell",
                ];
                !world.is_calm() && fell.contains(&text.lines().next().unwrap_or_default())
            }
            Where::Module => {
                ["the house burns", "nobody is there", "the hook stops", "the hook failed"]
                    .contains(&&*text)
            }
            Where::Setup => text.contains("with_prices"),
            _ => false,
        }
    };
    world.check(may, || format!("the drive fails with {text}"));
}

/// Checks the budgets of the agents against the events below each.
fn check_budgets(world: &World, scene: &Scene, events: &[toolwright_module::event::Event]) {
    let beyond = world.inner().beyond;
    let calls = world.inner().calls.clone();
    for started in events {
        let (EventKind::Started { .. }, Some(own)) = (&started.kind, started.path.last()) else {
            continue;
        };
        let Some(limits) = scene.roles.get(&own.tool) else { continue };
        let mut spent = Spent::default();
        for event in events.iter().filter(|event| event.path.starts_with(&started.path)) {
            if let EventKind::ModelReplied { reply, money, .. } = &event.kind {
                let mut call = Spent::model_call(reply.usage);
                call.money = money.unwrap_or_default();
                spent += call;
            }
        }
        let calls = calls.iter().filter(|call| call.starts_with(&started.path));
        spent.tool_calls = calls.count() as u64 - 1;
        within(world, &own.tool, limits.budget, spent, beyond);
    }
}

fn within(world: &World, whose: &str, budget: Budget, spent: Spent, beyond: Spent) {
    for limit in [
        LimitKind::ModelCalls,
        LimitKind::ToolCalls,
        LimitKind::InputTokens,
        LimitKind::OutputTokens,
        LimitKind::Money,
    ] {
        if let Some(allowed) = budget.allows(limit) {
            let (spent, beyond) = (limit.of(spent), limit.of(beyond));
            world.check(spent <= allowed.saturating_add(beyond), || {
                format!("{whose} spent {spent} of {allowed} {limit}, {beyond} beyond its word")
            });
        }
    }
}

/// Checks a run between two drives.
fn check_run(world: &World, scene: &Scene, before: &Run, run: &Run, begun: usize) {
    let history = run.history();
    world.check(history.starts_with(before.history()), || {
        "the history changed in its middle".to_owned()
    });
    if let Err(what) = checks::pairs(history, false) {
        world.wrong(format!("a history with {what}"));
    }
    if let Err(what) = checks::bounded(history, run.limits().max_calls_per_reply) {
        world.wrong(what);
    }
    let most = run.limits().max_iterations.max(1);
    let rounds = run.iterations();
    world.check(rounds <= most, || format!("{rounds} rounds, {most} are allowed"));
    let counted = checks::count_rounds(&history[begun + 1..]);
    world.check(counted == rounds as usize, || {
        format!("{rounds} rounds are reported, the history has {counted}")
    });
    let events = world.inner().events.clone();
    let replied = events.iter().filter(|event| event.path.is_empty());
    let replied = replied.filter(|event| matches!(event.kind, EventKind::ModelReplied { .. }));
    let (replied, most) = (replied.count() as u32, 2 * most + 2);
    world.check(replied <= most, || format!("{replied} replies in {rounds} rounds"));
    let same = run.limits().max_same_failures.max(1);
    let (last, earlier) = checks::same_failures(run, &history[begun + 1..]);
    let stuck = matches!(run.next().kind, StepKind::Done(done) if done.ending == Ending::Stuck);
    world.check(earlier < same && (last < same || stuck), || {
        format!("failed {last}, before {earlier} times in a row; {same} are allowed")
    });
    if scene.agent.limits.max_result_bytes > 80 {
        let most = scene.agent.limits.max_result_bytes;
        for message in history {
            if let Message::Tool(result) = &**message {
                let own = result.text.starts_with("There is no tool")
                    || result.text.starts_with("The call was not allowed: ");
                let fits = own || result.text.len() <= most || result.failed;
                world.check(fits, || format!("a result of {} bytes", result.text.len()));
            }
        }
    }
}

/// Checks the end of a task.
fn check_end(world: &World, run: &Run, finish: &Finish, begun: usize) {
    let (_, ending, limit) = finish;
    let StepKind::Done(result) = run.next().kind else {
        return world.wrong("the run is not done");
    };
    let is_piece = *ending == Ending::Answered && result.answer == CUT_OUTPUT;
    world.check(!is_piece, || "a piece of an output is the answer".to_owned());
    world.check((result.ending, result.limit) == (*ending, *limit), || {
        format!("{result:?} is not {finish:?}")
    });
    world.check(limit.is_some() == (*ending == Ending::LimitReached), || {
        format!("{ending:?} with {limit:?}")
    });
    let (limits, spent) = (run.limits(), run.spent());
    let reached = match limit {
        None => true,
        Some(LimitKind::Iterations) => run.iterations() >= limits.max_iterations.max(1),
        Some(LimitKind::Time) => limits.max_time.is_some_and(|time| run.elapsed() + TICK >= time),
        Some(LimitKind::ToolCalls) => {
            limits.budget.tool_calls.is_some_and(|allowed| spent.tool_calls >= allowed)
        }
        Some(LimitKind::ModelCalls) => {
            limits.budget.model_calls.is_some_and(|allowed| spent.model_calls >= allowed)
        }
        Some(other) => limits.budget.allows(*other).is_some(),
    };
    world.check(reached, || format!("{limit:?} is not reached: {spent:?} of {limits:?}"));
    if *ending == Ending::Stuck {
        let same = limits.max_same_failures.max(1);
        let (last, _) = checks::same_failures(run, &run.history()[begun + 1..]);
        // The mistake may also be an answer that could not be used.
        let nudged = matches!(run.history().last().map(|said| &**said), Some(Message::User { .. }));
        world.check(last >= same || nudged, || format!("stuck after {last} of {same}"));
    }
}

/// Returns the text and the failure of each finished call, in order.
fn reported(world: &World) -> Vec<(String, String, bool)> {
    let inner = world.inner();
    let top = inner.events.iter().filter(|event| event.path.is_empty());
    let reported = top.filter_map(|event| match &event.kind {
        EventKind::ToolFinished { call, text, .. } => {
            let decided = inner.decided.get(&format!("{}#{}", call.name, call.id));
            let edited = matches!(decided, Some(Decision::Edit { .. }));
            Some((call.id.clone(), text.clone(), edited))
        }
        _ => None,
    });
    reported.collect()
}

/// Checks that every result in the history has an event with the same text.
fn check_reported(world: &World, run: &Run, reported: &[(String, String, bool)]) {
    for message in run.history() {
        let Message::Tool(result) = &**message else { continue };
        // A denied call is not made; its decision has an event.
        let decided = format!("{}#{}", result.name, result.id);
        let denied = matches!(world.inner().decided.get(&decided), Some(Decision::Deny { .. }));
        if result.name == "finish" || denied {
            continue;
        }
        let last = reported.iter().rev().find(|(id, ..)| *id == result.id);
        let fits = last.is_some_and(|(_, text, edited)| *edited || *text == result.text);
        world.check(fits, || format!("the result of {} was reported as {last:?}", result.id));
    }
}

/// Applies a person's decisions to a stored run.
fn decide(world: &World, run: &mut Run, calls: &[ToolCall], chance: &mut Chance) {
    let number = run.next().number;
    if chance.percent(30) {
        let before = serde_json::to_string(run).unwrap();
        let wrong = calls
            .iter()
            .map(|call| (call.id.clone(), Decision::Edit { arguments: "{\"no\": ".to_owned() }));
        let refused = run.apply(StepResult::decisions(number, wrong)).is_err();
        let same = before == serde_json::to_string(run).unwrap();
        world.check(refused && same, || "edits that do not fit changed the run".to_owned());
    }
    let unknown = run.unknown_outcome().map(ToOwned::to_owned);
    let is_unknown = |call: &ToolCall| unknown.as_deref() == Some(&*call.id);
    let decision = |call: &ToolCall| match is_unknown(call) {
        true => Decision::CallAgain,
        false => decides(world, "", call),
    };
    let decisions: Vec<(String, Decision)> =
        calls.iter().map(|call| (call.id.clone(), decision(call))).collect();
    for (call, (_, decision)) in calls.iter().zip(&decisions) {
        if is_unknown(call) {
            calls_again(world, format!("{}#{}", call.name, call.id), call);
            continue;
        }
        let key = format!("{}#{}", call.name, call.id);
        world.inner().decided.insert(key.clone(), decision.clone());
        world.inner().decided_on.insert(key, call.arguments.clone());
    }
    world.note(|| format!("DECIDED {decisions:?}"));
    if let Err(error) = run.apply(StepResult::decisions(number, decisions)) {
        world.wrong(format!("decisions are refused: {error}"));
    }
}

/// Removes what interruptions change: questions about calls that were under way, the numbers of
/// steps, which count them, the time, and the order of the tools used.
fn without_repetitions(state: &mut Value) {
    state["step"].take();
    // A batch that was interrupted keeps the results that it had. The rest takes its time again.
    state["elapsed"].take();
    state.as_object_mut().unwrap().remove("lost");
    // Reads that run side by side may end in any order.
    let mut used: Vec<String> = serde_json::from_value(state["tools_used"].take()).unwrap();
    used.sort();
    state["tools_used"] = used.into();
    if let Some(decisions) = state.get_mut("decisions").and_then(Value::as_object_mut) {
        decisions.retain(|_, decided| decided["decision"] != "call_again");
        decisions.values_mut().for_each(|decided| drop(decided["step"].take()));
        if decisions.is_empty() {
            state["decisions"].take();
        }
    }
    if state["decisions"].is_null() {
        state.as_object_mut().unwrap().remove("decisions");
    }
}

/// Stores and resumes the run.
fn resumed(world: &World, scene: &Scene, run: &Run) -> Run {
    let text = serde_json::to_string(run).unwrap();
    let state: RunState = serde_json::from_str(&text).unwrap();
    let resumed = scene.agent.orchestrator.resume(state).unwrap();
    world.check(resumed.changes.is_empty(), || "the tools are taken for others".to_owned());
    let resumed = resumed.run;
    if text.contains("\"begun\":") {
        // A call that was under way when the run was stored is asked about.
        let asks = resumed.unknown_outcome().is_some();
        world.check(asks, || "a call that was begun is not asked about".to_owned());
    } else {
        let same = resumed.next() == run.next();
        world.check(same, || "another step after it was stored".to_owned());
        let again = serde_json::to_string(&resumed).unwrap();
        world.check(again == text, || "another state after it was stored".to_owned());
    }
    world.note(|| "RESUMED".to_owned());
    resumed
}

/// Stores and resumes the run, with an edit that would skip an approval.
fn tampered(world: &World, scene: &Scene, run: &Run, chance: &mut Chance) -> Run {
    let mut stored = serde_json::to_value(run).unwrap();
    let kind = chance.weighed([2, 1, 1]);
    if let Some(waits) = stored["phase"].get("approval").cloned() {
        // The phase after a decision, without the decision.
        stored["phase"] = serde_json::json!({"tools": {"results": waits["results"]}});
    }
    if !scene.free && scene.kind != Kind::ReAct && kind > 0 {
        stored.as_object_mut().unwrap().remove("approval");
    }
    if !scene.free && kind == 2 {
        let results = stored["phase"]["tools"]["results"].as_array().cloned().unwrap_or_default();
        let open = results.iter().position(Value::is_null);
        let said = stored["messages"].as_array_mut().unwrap().last_mut().unwrap();
        let mut calls = said.get_mut("parts").and_then(Value::as_array_mut).into_iter().flatten();
        let mut calls = calls.by_ref().filter_map(|part| part.get_mut("call"));
        if let Some(call) = open.and_then(|place| calls.nth(place))
            && call["name"].as_str().is_some_and(|name| name.starts_with("act"))
        {
            call["arguments"] = r#"{"what":"another","n":7}"#.into();
        }
    }
    world.note(|| format!("TAMPERED {kind}"));
    let state: RunState = serde_json::from_value(stored).unwrap();
    Run::resume(state, scene.agent.orchestrator.tools()).unwrap().run
}
