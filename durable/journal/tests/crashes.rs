//! Random runs that are cut off after each of their records and go on from there.
//!
//! A run follows from its seed: what the models say and what the tools return depends on the seed and
//! on the place in the run, and not on the order of the calls. A run that was cut off must therefore
//! end like the one that was not.

mod actors;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Instant;

use toolwright_journal::Journal;
use toolwright_module::model::BoxFuture;
use toolwright_module::{Context, Result};
use toolwright_orchestrator::perform::{
    Open, OutcomeKind, PartId, PartIdKind, Record, Replay, Store, with_performer,
};
use toolwright_orchestrator::{Agent, AwaitsApproval, Finished, Unfinished};

use actors::{Cast, Chance, TASK, World, key};

/// More drives than any run needs.
const MOST_DRIVES: u32 = 60;

/// A place that keeps a number of records, and then crashes.
#[derive(Clone, Default)]
struct Disk(Arc<Inner>);

#[derive(Default)]
struct Inner {
    kept: Mutex<Vec<Record>>,
    room: AtomicU64,
    has_crashed: AtomicBool,
}

impl Disk {
    fn new(records: &[Record], room: Option<u64>) -> Self {
        let disk = Self::default();
        *disk.0.kept.lock().unwrap() = records.to_vec();
        disk.0.room.store(room.unwrap_or(u64::MAX), Ordering::Relaxed);
        disk
    }

    fn records(&self) -> Vec<Record> {
        self.0.kept.lock().unwrap().clone()
    }
}

impl Store for Disk {
    fn append<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<(), Open>> {
        Box::pin(async move {
            let room = self.0.room.load(Ordering::Relaxed);
            if room == 0 {
                self.0.has_crashed.store(true, Ordering::Relaxed);
                return std::future::pending().await;
            }
            self.0.room.store(room - 1, Ordering::Relaxed);
            self.0.kept.lock().unwrap().push(record.clone());
            Ok(())
        })
    }
}

/// The end of a run, as far as it can be compared.
#[derive(Debug, Clone, PartialEq)]
enum End {
    Finished(Box<Finished>),
    Unfinished(String),
}

impl End {
    /// Returns the end, or `None` after an interruption: the run has to be driven again.
    fn of(result: Result<Finished>, world: &World) -> Option<Self> {
        match result {
            Ok(finished) => Some(Self::Finished(Box::new(finished))),
            Err(error) if error.downcast_ref::<Unfinished>().is_some() => {
                Some(Self::Unfinished(format!("{error:#}")))
            }
            Err(error) => {
                let text = format!("{error:#}");
                let is_ours = error.downcast_ref::<AwaitsApproval>().is_some()
                    || text.starts_with("interrupted");
                world.check(is_ours, || format!("the drive fails with {text}"));
                world.comes_back();
                None
            }
        }
    }

    /// Returns the end without what a person's word about a lost call changes.
    fn without_spent(mut self) -> Self {
        if let Self::Finished(finished) = &mut self {
            finished.spent = Default::default();
            finished.failures.clear();
            finished.tools_used.clear();
        }
        self
    }
}

/// Polls a drive until it ends, or until its disk crashes. The work never waits for anything else.
fn until_crash<T>(work: impl Future<Output = T>, disk: &Disk) -> Option<T> {
    let mut work = pin!(work);
    let mut cx = std::task::Context::from_waker(Waker::noop());
    for _ in 0..1_000_000 {
        if let Poll::Ready(ended) = work.as_mut().poll(&mut cx) {
            return Some(ended);
        }
        if disk.0.has_crashed.load(Ordering::Relaxed) {
            return None;
        }
    }
    panic!("the drive hangs");
}

/// Drives a run from these records until it ends or its disk crashes. Returns its records too.
fn go_on(
    world: &Arc<World>,
    agent: &Agent,
    records: &[Record],
    room: Option<u64>,
    keeps_replay: bool,
) -> (Option<End>, Vec<Record>) {
    let disk = Disk::new(records, room);
    let mut replay = Replay::new(records.to_vec(), disk.clone());
    for _ in 0..MOST_DRIVES {
        let cx = with_performer(&world.cx(), replay.clone());
        let Some(result) = until_crash(agent.run(TASK, &cx), &disk) else {
            return (None, disk.records());
        };
        if let Some(end) = End::of(result, world) {
            return (Some(end), disk.records());
        }
        // In the same program, or in another one.
        if !keeps_replay {
            replay = Replay::new(disk.records(), disk.clone());
        }
    }
    world.check(false, || "driven on and on".to_owned());
    (None, disk.records())
}

/// What the records say before a drive.
#[derive(Default)]
struct Before {
    ended: BTreeSet<String>,
    /// The calls whose outcome is not known, by the key without the attempt.
    lost: BTreeSet<String>,
}

impl Before {
    fn of(records: &[Record]) -> Self {
        let mut before = Self::default();
        // The part of the call, as the world notes it: without its attempt.
        let call = |part: &PartId| -> Option<String> {
            match &part.kind {
                PartIdKind::Call { call, .. } | PartIdKind::Decide { call, unknown: Some(_) } => {
                    Some(key(&part.path, ["call", call]))
                }
                _ => None,
            }
        };
        for record in records {
            match record {
                Record::Begun { part, .. } => before.lost.extend(call(part)),
                Record::Failed { part, .. } => {
                    call(part).map(|call| before.lost.remove(&call));
                }
                Record::Ended { outcome, .. } if outcome.kind == OutcomeKind::Unknown => {}
                Record::Ended { part, outcome, .. } => {
                    if !matches!(outcome.kind, OutcomeKind::Decided(_)) {
                        before.ended.insert(call(part).unwrap_or_else(|| part.to_string()));
                    }
                    call(part).map(|call| before.lost.remove(&call));
                }
                _ => {}
            }
        }
        before
    }
}

/// Checks what a drive did, after records.
fn check(world: &World, records: &[Record], is_end: bool) {
    let before = Before::of(records);
    let (done, asked) = world.take_done();
    for (key, times) in &done {
        world.check(!before.ended.contains(key), || format!("{key} had ended, and was done again"));
        let most = if world.has_interruptions() { 2 } else { 1 };
        world.check(*times <= most, || format!("{key} was done {times} times in one drive"));
    }
    for (key, times) in &asked {
        world.check(before.lost.contains(key), || {
            format!("{key} was not lost, and was asked about")
        });
        world.check(*times == 1, || format!("{key} was asked about {times} times"));
    }
    if is_end && !world.has_limits() {
        for key in &before.lost {
            world.check(asked.contains_key(key), || format!("{key} was lost, and not asked about"));
        }
    }
}

/// Plays one seed: the run without a crash, and a run for a crash after each of its records. Returns
/// the number of crashes from which it went on.
fn play(cast: &Cast, seed: u64) -> (u64, Vec<String>) {
    let world = &cast.world;
    let agent = cast.agent(seed);
    world.begin(seed);
    let (calm, all) = go_on(world, &agent, &[], None, false);
    check(world, &[], true);
    let Some(calm) = calm else { return (0, world.take_wrong()) };
    let mut crashes = 0;
    for cut in 0..all.len() {
        let mut chance = Chance::of(seed, &format!("crash {cut}"));
        let mut records = all[..cut].to_vec();
        world.begin(seed);
        // The records of a run that was cut off do not say what a person will say now.
        world.decides_on_lost(chance.below(10));
        for crash in 0.. {
            let before = records.clone();
            let again = crash < 3 && chance.percent(40);
            let room = again.then(|| chance.below(8));
            let keeps = chance.percent(30);
            let (end, now) = go_on(world, &agent, &before, room, keeps);
            crashes += 1;
            world.check(now.starts_with(&before), || "the records changed".to_owned());
            check(world, &before, end.is_some());
            records = now;
            let Some(end) = end else {
                if room.is_none() {
                    break;
                }
                continue;
            };
            match world.said_of_lost() {
                // Not even the same conversation.
                (_, true) => {}
                (true, false) => {
                    let same = end.clone().without_spent() == calm.clone().without_spent();
                    world.check(same, || format!("after a word of a person:\n{end:?}\n{calm:?}"));
                }
                _ => {
                    world.check(end == calm, || format!("another end:\n{end:?}\n{calm:?}"));
                }
            }
            // All of it is there now.
            let (found, same) = go_on(world, &agent, &records, None, false);
            let (done, _) = world.take_done();
            world.check(found == Some(end) && same == records, || "another replay".to_owned());
            world.check(done.is_empty(), || format!("a replay did {done:?}"));
            break;
        }
        let wrong = world.take_wrong();
        if !wrong.is_empty() {
            return (crashes, [vec![format!("cut after record {cut}")], wrong].concat());
        }
    }
    (crashes, world.take_wrong())
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// Plays seeds on all processors until there were this many crashes.
fn play_many(crashes: u64, play: impl Fn(&Cast, u64) -> (u64, Vec<String>) + Sync) {
    let began = Instant::now();
    if let Some(seed) = number("CRASH_SEED") {
        let (_, wrong) = play(&Cast::new(), seed);
        assert!(wrong.is_empty(), "seed {seed}:\n{}", wrong.join("\n"));
        return;
    }
    let first = number("CRASH_FIRST").unwrap_or(0);
    let (next, count) = (AtomicU64::new(first), AtomicU64::new(0));
    let failed = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let cast = Cast::new();
                while count.load(Ordering::Relaxed) < crashes && failed.lock().unwrap().is_empty() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let (more, wrong) = play(&cast, seed);
                    count.fetch_add(more, Ordering::Relaxed);
                    if !wrong.is_empty() {
                        failed.lock().unwrap().push((seed, wrong));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    if let Some((seed, wrong)) = failed.iter().min() {
        panic!("seed {seed}:\n{}\nrepeat it with CRASH_SEED={seed}", wrong.join("\n"));
    }
    let (seeds, count) = (next.into_inner() - first, count.into_inner());
    println!("{count} crashes in {seeds} runs, {:.1?}", began.elapsed());
}

#[test]
fn a_run_that_is_cut_off_after_any_record_ends_like_one_that_is_not() {
    play_many(number("CRASHES").unwrap_or(500), play);
}

/// Plays one seed in a folder: the file of the run, cut after each of its records.
fn play_in_a_folder(cast: &Cast, seed: u64) -> (u64, Vec<String>) {
    let world = &cast.world;
    let agent = cast.agent(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let folder = crate::support::folder();
    let file = folder.path().join("run.journal");
    let journal = Journal::open(folder.path()).unwrap();
    let to_the_end = || {
        runtime.block_on(async {
            for _ in 0..MOST_DRIVES {
                let cx: Context = world.cx();
                let end = journal.drive(&agent, "run", TASK, &cx).await;
                if let Some(end) = End::of(end, world) {
                    return Some(end);
                }
            }
            None
        })
    };
    world.begin(seed);
    let calm = to_the_end();
    world.take_done();
    let all = std::fs::read(&file).unwrap();
    let lines: Vec<usize> =
        all.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    let mut crashes = 0;
    for cut in lines {
        std::fs::write(&file, &all[..cut]).unwrap();
        world.begin(seed);
        let records = journal.records("run").unwrap();
        let end = to_the_end();
        crashes += 1;
        check(world, &records, true);
        world.check(end == calm, || format!("another end after byte {cut}:\n{end:?}\n{calm:?}"));
        let again = to_the_end();
        // A run without an answer has no result in the journal, and ends the same again.
        world.check(again == end, || "another replay".to_owned());
        let (done, _) = world.take_done();
        world.check(done.is_empty(), || format!("a replay did {done:?}"));
        let wrong = world.take_wrong();
        if !wrong.is_empty() {
            return (crashes, wrong);
        }
    }
    (crashes, world.take_wrong())
}

#[test]
fn the_file_of_a_run_that_is_cut_after_any_record_goes_on() {
    play_many(number("FILE_CRASHES").unwrap_or(60), play_in_a_folder);
}
