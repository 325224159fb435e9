//! The cost of a journal: a run of five steps with and without it, and 10,000 open runs.
//!
//! `cargo bench -p toolwright-journal`
//!
//! The runs of the first part take turns: without a journal, with one in a folder in memory (if the
//! system has `/dev/shm`), and with one on the disk. The model and the tool cost nothing, so the rest
//! is the loop and the journal. The second part starts 10,000 runs that wait for a person, lists
//! them, and continues one. The third part drives as many runs at once as the process may have open
//! files, up to 10,000.

// A benchmark may panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::alloc::System;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use toolwright_journal::Journal;
use toolwright_module::approval::Decision;
use toolwright_module::model::{BoxFuture, Capabilities};
use toolwright_module::{
    Context, Dialect, Effect, LanguageModel, Message, Reply, Request, Result, Signature, Tool,
    ToolCall, from_fn,
};
use toolwright_orchestrator::{Agent, ApprovalPolicy};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const STEPS: usize = 5;
const ROUNDS: usize = 15;
/// Runs in a turn.
const RUNS: usize = 40;
const OPEN: usize = 10_000;

/// Add two numbers.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

impl Signature for Add {
    type Output = i64;
}

/// A model that costs nothing: it asks for a sum in each step, and keeps no requests.
struct Adds;

impl LanguageModel for Adds {
    fn name(&self) -> &str {
        "adds"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        let replied = |message: &&Arc<Message>| matches!(***message, Message::Assistant { .. });
        let nth = request.messages.iter().filter(replied).count();
        let arguments = format!(r#"{{"a": {nth}, "b": 1}}"#);
        let reply = match nth {
            STEPS => Reply::text("The sum is 15."),
            _ => Reply::calls([ToolCall::new(format!("call_{nth}"), "add", arguments)]),
        };
        Box::pin(async { Ok(reply) })
    }
}

fn agent(effect: Effect, gate: Option<Arc<Gate>>) -> Agent {
    let add = from_fn(move |Add { a, b }: Add| {
        let gate = gate.clone();
        async move {
            if let Some(gate) = gate {
                gate.pass().await;
            }
            Ok(a + b)
        }
    });
    let add = Tool::new(add.with_effect(effect)).unwrap();
    Agent::new(Adds, [add]).unwrap()
}

/// A place where calls wait until it opens.
#[derive(Default)]
struct Gate {
    waiting: AtomicUsize,
    opened: tokio::sync::Notify,
}

impl Gate {
    async fn pass(&self) {
        let opened = self.opened.notified();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        opened.await;
    }
}

fn live() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let runtime = Runtime::new().unwrap();
    let memory = Path::new("/dev/shm").is_dir().then(|| tempfile::tempdir_in("/dev/shm").unwrap());
    let disk = tempfile::tempdir().unwrap();
    for effect in [Effect::Read, Effect::Write] {
        five_steps(&runtime, effect, memory.as_ref(), &disk);
    }
    let many = memory.as_ref().unwrap_or(&disk);
    ten_thousand_open(&runtime, &many.path().join("open"));
    driven_at_once(&runtime, &many.path().join("driven"));
}

/// Processor time and time of one run each: without a journal, in memory, and on the disk.
fn five_steps(runtime: &Runtime, effect: Effect, memory: Option<&TempDir>, disk: &TempDir) {
    let folders = [None, memory, Some(disk)];
    let name = |folder: &TempDir| folder.path().join(format!("{effect:?}"));
    let journals = folders.map(|folder| folder.map(|folder| Journal::open(name(folder)).unwrap()));
    let (agent, cx) = (agent(effect, None), Context::default());
    let (mut cpu, mut time) = ([const { Vec::new() }; 3], [const { Vec::new() }; 3]);
    for round in 0..ROUNDS {
        for (place, journal) in journals.iter().enumerate() {
            let (started, used) = (Instant::now(), ProcessTime::now());
            for run in 0..RUNS {
                let id = format!("{round}-{run}");
                let finished = runtime.block_on(async {
                    match journal {
                        Some(journal) => journal.drive(&agent, &id, "Add.", &cx).await,
                        None => agent.run("Add.", &cx).await,
                    }
                });
                assert_eq!(finished.unwrap().answer, "The sum is 15.");
            }
            let per_run = |time: Duration| time.as_secs_f64() * 1e6 / RUNS as f64;
            cpu[place].push(per_run(used.elapsed()));
            time[place].push(per_run(started.elapsed()));
        }
    }
    println!("a run of {STEPS} steps, calls with the effect {effect:?}:");
    for (place, name) in
        ["without a journal", "journal in memory", "journal on disk"].iter().enumerate()
    {
        if place > 0 && journals[place].is_none() {
            continue;
        }
        let (cpu, time) = (median(&mut cpu[place]), median(&mut time[place]));
        println!("  {name:18} {cpu:8.1} µs CPU, {time:8.1} µs");
    }
    let run = journals[2].as_ref().unwrap().run("0-0").unwrap();
    // The start and the result are written alone, and so is each part: nothing runs side by side.
    println!(
        "  {} records, each with one fsync: {:.1} for each step (a question and a call), besides 2 at the start (one of the folder) and 1 at the end; {} bytes",
        run.records,
        (run.records as f64 - 2.0 - 1.0) / STEPS as f64,
        run.bytes,
    );
}

fn ten_thousand_open(runtime: &Runtime, folder: &Path) {
    let journal = Journal::open(folder).unwrap();
    let agent = agent(Effect::Write, None)
        .with_approval(ApprovalPolicy::from_effect(Effect::Write))
        .unwrap();
    let before = live();
    let started = Instant::now();
    runtime.block_on(async {
        for first in (0..OPEN).step_by(100) {
            let mut runs = JoinSet::new();
            for run in first..first + 100 {
                let (journal, agent) = (journal.clone(), agent.clone());
                runs.spawn(async move {
                    let tenant = format!("tenant {}", run % 7);
                    let cx = Context::default().with_run("", [("tenant", tenant)]);
                    journal.drive(&agent, &format!("run-{run}"), "Add.", &cx).await.unwrap_err();
                });
            }
            runs.join_all().await;
        }
    });
    let (time, kept) = (started.elapsed(), live().saturating_sub(before));
    println!("{OPEN} runs that wait for a person, in {}:", folder.display());
    println!("  started in {time:.1?}; the process keeps {kept} bytes for all of them");
    let before = live();
    let started = Instant::now();
    let runs = journal.runs().unwrap();
    let (time, size) = (started.elapsed(), live().saturating_sub(before));
    assert_eq!(runs.len(), OPEN);
    println!("  listed in {time:.1?}; the list has {} bytes for each run", size / OPEN);
    let started = Instant::now();
    let found = journal.runs_with("tenant", "tenant 3").unwrap().len();
    println!("  {found} found by their metadata in {:.1?}", started.elapsed());
    let mut times = Vec::new();
    for run in 0..50 {
        let id = format!("run-{}", run * 101);
        let waiting = &journal.run(&id).unwrap().waiting[0];
        let started = Instant::now();
        journal.decide(&id, waiting, Decision::Approve).unwrap();
        let cx = Context::default();
        runtime.block_on(journal.drive(&agent, &id, "Add.", &cx)).unwrap_err();
        times.push(started.elapsed().as_secs_f64() * 1e6);
    }
    println!("  decided, and driven to the next question, in {:.0} µs", median(&mut times));
}

fn driven_at_once(runtime: &Runtime, folder: &Path) {
    let journal = Journal::open(folder).unwrap();
    let gate = Arc::new(Gate::default());
    let agent = agent(Effect::Read, Some(Arc::clone(&gate)));
    let most = std::fs::read_to_string("/proc/self/limits").ok().and_then(|limits| {
        let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
        line.split_whitespace().nth(3)?.parse::<usize>().ok()
    });
    let count = most.unwrap_or(1_024).saturating_sub(200).min(OPEN);
    let before = live();
    let mut runs = JoinSet::new();
    for run in 0..count {
        let (journal, agent) = (journal.clone(), agent.clone());
        let drive = async move {
            let cx = Context::default();
            journal.drive(&agent, &format!("run-{run}"), "Add.", &cx).await
        };
        runs.spawn_on(drive, runtime.handle());
    }
    while gate.waiting.load(Ordering::SeqCst) < count {
        std::thread::sleep(Duration::from_millis(5));
    }
    let size = live().saturating_sub(before);
    println!("{count} runs driven at once: {} bytes each, with one open file each", size / count);
    runtime.block_on(runs.shutdown());
}
