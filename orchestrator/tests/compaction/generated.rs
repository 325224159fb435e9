//! Random conversations: whatever they contain, what is sent has a legal order, no call without its
//! result, a prefix that only grows between two compactions, and what was asked to be kept; and it is
//! the same after a crash, a resume and a deploy.
//!
//! `COMPACTIONS=N` sets the number of conversations, and `COMPACTION_SEED=N` repeats one.

use std::sync::{Arc, Mutex};

use toolwright_module::error::ContextExceeded;
use toolwright_module::message::{Image, Part, Reasoning, ReplyPart};
use toolwright_module::model::{Settings, Usage};
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Effect, Error, Message, Reply, Request, Result, Tool, ToolCall};
use toolwright_orchestrator::perform::{PartIdKind, Record, Replay, with_performer};
use toolwright_orchestrator::{Agent, Compaction, Limits, Run, RunState, Task};

use super::{check, tokens};
use crate::simulation::chance::Chance;
use crate::support::{show, tool};

/// A conversation and its rules, which follow from a seed.
#[derive(Clone)]
struct World {
    seed: u64,
    window: u64,
    rules: Compaction,
    rounds: u64,
    counts: bool,
    gives_summaries: bool,
    tasks: usize,
}

impl World {
    fn of(seed: u64) -> Self {
        let mut chance = Chance::of(seed, "world");
        let window = 2500 + chance.below(12_000);
        let rules = Compaction {
            window: chance.percent(80).then_some(window),
            keep_rounds: chance.size(6),
            clears_results: chance.percent(60),
            keep: Some(Arc::new(facts)),
            ..Compaction::default()
        };
        Self {
            seed,
            window,
            rules,
            rounds: 10 + chance.below(90),
            counts: chance.percent(80),
            gives_summaries: chance.percent(70),
            tasks: chance.size(4),
        }
    }

    /// Returns the reply number `nth` of the conversation.
    fn reply(&self, nth: u64, request: &Request) -> Reply {
        let mut chance = Chance::of(self.seed, &format!("reply {nth}"));
        let mut parts = Vec::new();
        if chance.percent(30) {
            let reasoning = "Hm. ".repeat(chance.size(100));
            parts.push(ReplyPart::Reasoning(Reasoning::new(
                "p",
                reasoning,
                serde_json::json!(nth),
            )));
        }
        if nth >= self.rounds || chance.percent(10) {
            parts.push(ReplyPart::text(format!("Answer {nth}.")));
            return Reply::new(parts);
        }
        if chance.percent(30) {
            parts.push(ReplyPart::text("I go on. ".repeat(1 + chance.size(40))));
        }
        let names: Vec<&str> = request.tools.iter().map(|tool| tool.name()).collect();
        for call in 0..=chance.weighed([60, 20, 10, 10]) {
            let name =
                chance.pick(&["look", "tidy", "find_tools", "read_result", "hidden", "nothing"]);
            let name = if names.contains(&name) { name } else { "look" };
            let arguments = match name {
                "find_tools" => r#"{"query": "sweep the hidden floor"}"#.to_owned(),
                // A result of before, or one that there is not.
                "read_result" => {
                    let id = format!("call_{}_0", chance.below(nth + 1));
                    serde_json::json!({ "id": id, "from": chance.below(3000) }).to_string()
                }
                _ => {
                    let length = if chance.percent(5) { chance.size(800) } else { 4 };
                    serde_json::json!({"place": format!("{nth} {call} {}", "x".repeat(length))})
                        .to_string()
                }
            };
            parts.push(ReplyPart::Call(ToolCall::new("", name, arguments)));
        }
        Reply::new(parts)
    }
}

/// Returns what a message asks to keep, without the words that ask. What is kept can therefore not be
/// found again in a note or a summary.
fn facts(message: &Message) -> Vec<String> {
    let lines = super::keep_lines(message);
    lines.iter().filter_map(|line| line.strip_prefix("Keep this: ")).map(str::to_owned).collect()
}

/// The result of a call follows from its place alone, so that it is the same after a crash.
fn result(seed: u64, place: &str) -> Result<String> {
    let mut chance = Chance::of(seed, place);
    let length = match chance.weighed([50, 30, 15, 5]) {
        0 => 5,
        1 => 400,
        2 => 3000,
        _ => 30_000,
    };
    let mut text = "word ".repeat(chance.size(length) + 1);
    if chance.percent(15) {
        text.push_str(&format!("\nKeep this: {place} is {}.\nmore", chance.number()));
    }
    if chance.percent(5) { Err(Error::retry(text)) } else { Ok(text) }
}

fn tools(seed: u64, version: &str) -> Vec<Tool> {
    let of =
        |name: &str, effect: Effect| {
            tool(name, effect, move |look: crate::support::Look| async move {
                result(seed, &look.place)
            })
        };
    let hidden = of("hidden", Effect::Read).described(&format!("Sweep the floor {version}."));
    vec![of("look", Effect::Read), of("tidy", Effect::Idempotent), hidden.deferred()]
}

type Requests = Arc<Mutex<Vec<Vec<Arc<Message>>>>>;

/// Returns an agent of this world whose server has already answered `answered` requests.
fn agent(world: &World, rules: Option<Compaction>, version: &str, requests: &Requests) -> Agent {
    let (server, asked) = (world.clone(), Arc::clone(requests));
    let model = Scripted::new(move |request: &Request| {
        let tokens = tokens(request);
        if tokens > server.window {
            let exceeded = ContextExceeded::new(Some(tokens), Some(server.window));
            return Err(Error::other("too long").with_context_exceeded(exceeded));
        }
        let usage = if server.counts { Usage::new(tokens, 20) } else { Usage::unknown() };
        if request.tools.is_empty() {
            let good = server.gives_summaries;
            let text = if good { r#"{"summary": "They worked."}"# } else { "I cannot." };
            return Ok(Reply::text(text).with_usage(usage));
        }
        check(&request.messages);
        let mut asked = asked.lock().unwrap();
        let nth = asked.len() as u64;
        asked.push(request.messages.to_vec());
        Ok(server.reply(nth, request).with_usage(usage))
    });
    let (tasks, seed) = (world.tasks, world.seed);
    let limits = Limits { max_iterations: 5000, max_same_failures: 5000, ..Limits::default() };
    let agent = Agent::new(model, tools(world.seed, version))
        .unwrap()
        .with_limits(limits)
        .with_settings(Settings::default().with_max_output_tokens(300))
        .unwrap()
        .with_instructions("Be brief.")
        .with_next_task(move |run: &Run| {
            let users = run.history().iter().filter(|it| matches!(***it, Message::User { .. }));
            let number = users.count();
            let image = Part::from(Image::url("https://example.com/a.png"));
            let text =
                Part::from(format!("Task {number}.\nKeep this: task {number} of {seed}.\nGo."));
            let parts = if number == 2 { vec![text, image] } else { vec![text] };
            (number <= tasks).then(|| Task::from(vec![Message::user_parts(parts)]))
        });
    match rules {
        Some(rules) => agent.with_compaction(rules).unwrap(),
        None => agent,
    }
}

/// The end of a drive: it ended well, or the conversation cannot be made short enough.
fn ended(driven: Result<impl Sized>) -> bool {
    match driven {
        Ok(_) => true,
        Err(error) => {
            assert!(error.context_exceeded().is_some(), "{error:#}");
            false
        }
    }
}

async fn play(seed: u64) -> (usize, bool) {
    let world = World::of(seed);
    let requests = Requests::default();
    let agent_now = agent(&world, Some(world.rules.clone()), "now", &requests);
    let journal = Replay::in_memory([]);
    let cx = with_performer(&Context::default(), journal.clone());
    let mut run = agent_now.start("Task 0.\nKeep this: task 0.").unwrap();
    let fits = ended(agent_now.drive(&mut run, &cx).await);
    let sent = requests.lock().unwrap().clone();
    // Facts, and the prefix rule.
    let mut said: Vec<String> = Vec::new();
    let mut asked = sent.iter();
    for message in run.history() {
        if matches!(**message, Message::Assistant { .. })
            && let Some(request) = asked.next()
        {
            let text = show(request);
            for fact in &said {
                assert!(text.contains(fact), "lost: {fact}");
            }
        }
        said.extend(facts(message));
    }
    let compacted: Vec<u64> = run.compactions().iter().map(|made| made.request).collect();
    for (nth, pair) in sent.windows(2).enumerate() {
        let grows = pair[1].starts_with(&pair[0]);
        assert!(grows || compacted.contains(&(nth as u64 + 1)), "request {} changed", nth + 1);
    }
    let records = journal.records();
    let mut chance = Chance::of(seed, "crash");
    // Killed after some records, and driven again by the same program.
    let kept = chance.size(records.len() + 1);
    let replies = |records: &[Record]| {
        let is_reply = |record: &&Record| matches!(record, Record::Ended { part, .. } if matches!(part.kind, PartIdKind::Ask { .. }));
        records.iter().filter(is_reply).count()
    };
    let again = Requests::default();
    *again.lock().unwrap() = sent[..replies(&records[..kept])].to_vec();
    let same = agent(&world, Some(world.rules.clone()), "now", &again);
    let cx = with_performer(&Context::default(), Replay::in_memory(records[..kept].to_vec()));
    let mut resumed = same.start("Task 0.\nKeep this: task 0.").unwrap();
    assert_eq!(ended(same.drive(&mut resumed, &cx).await), fits);
    assert_eq!(*again.lock().unwrap(), sent, "after {kept} of {} records", records.len());
    assert_eq!(resumed.compactions(), run.compactions());
    // A deploy with other rules and another contract of a tool.
    let other = chance.percent(50).then(|| World::of(seed + 1).rules);
    let later = Requests::default();
    *later.lock().unwrap() = sent[..replies(&records[..kept])].to_vec();
    let deployed = agent(&world, other, "later", &later);
    let cx = with_performer(&Context::default(), Replay::in_memory(records[..kept].to_vec()));
    let mut resumed = deployed.start("Task 0.\nKeep this: task 0.").unwrap();
    ended(deployed.drive(&mut resumed, &cx).await);
    // Stored after some steps, and resumed without records.
    let stored = Requests::default();
    let agent_now = agent(&world, Some(world.rules.clone()), "now", &stored);
    let mut run = agent_now.start("Task 0.\nKeep this: task 0.").unwrap();
    let every = 1 + chance.size(7);
    for step in 1.. {
        let stepped = agent_now.step(&mut run, &Context::default()).await;
        if !ended(stepped.as_ref().map(|_| ()).map_err(|error| {
            Error::other("too long").with_context_exceeded(error.context_exceeded().unwrap())
        })) || stepped.is_ok_and(|end| end.is_some())
        {
            break;
        }
        if step % every == 0 {
            let text = serde_json::to_string(&run).unwrap();
            let state: RunState = serde_json::from_str(&text).unwrap();
            run = agent_now.resume(state).unwrap().run;
        }
    }
    assert_eq!(*stored.lock().unwrap(), sent, "with a resume after each {every} steps");
    (compacted.len(), fits)
}

#[test]
fn every_random_conversation_keeps_its_order_and_its_facts() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    if let Some(seed) = number("COMPACTION_SEED") {
        println!("{:?}", runtime.block_on(play(seed)));
        return;
    }
    let (mut made, mut whole) = (0, 0);
    let all = number("COMPACTIONS").unwrap_or(150);
    for seed in 0..all {
        let played =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(play(seed))));
        let (compactions, fits) = played.unwrap_or_else(|panic| {
            eprintln!("COMPACTION_SEED={seed}");
            std::panic::resume_unwind(panic)
        });
        made += compactions;
        whole += u64::from(fits);
    }
    println!("{all} conversations, {made} compactions, {whole} fitted");
    assert!(made as u64 > all && whole * 10 > all * 8, "{made} compactions, {whole} fitted");
}
