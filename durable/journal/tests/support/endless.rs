//! A conversation that is longer than its model's context, for the tests of the homes of runs. A drive
//! of it can be cut off at any request.

use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use toolwright_module::error::ContextExceeded;
use toolwright_module::hook::{AskNext, Hook};
use toolwright_module::message::Part;
use toolwright_module::model::Usage;
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Dialect, Effect, Error, Message, Reply, Request, Result, Tool};
use toolwright_orchestrator::{Agent, Compaction, Finished, Limits, Run, Task};

use super::{call, tool};

/// Tokens that the model takes.
const WINDOW: u64 = 8_000;

/// A fact is said in every round whose number this divides.
const EVERY: usize = 5;

/// The conversation, and what its model got.
#[derive(Clone)]
pub(crate) struct Endless {
    rounds: usize,
    got: Arc<Mutex<Got>>,
    cut: Arc<Cut>,
}

#[derive(Default)]
struct Got {
    /// The tokens of each request, with the round in which it came.
    requests: Vec<(usize, u64)>,
    /// The last request of the agent itself.
    last: Vec<Arc<Message>>,
}

/// Cuts a drive off at a request: the drive then waits forever, and its program drops it.
#[derive(Default)]
struct Cut {
    /// Number of requests until then, and one more if the reply is lost. 0 is never.
    left: AtomicU64,
    loses_reply: AtomicU64,
    reached: Notify,
}

/// Returns the text of a round, counted from 1.
fn says(round: usize) -> String {
    match round.is_multiple_of(EVERY) {
        true => format!("Round {round}. Keep this: {}", fact(round)),
        false => format!("Round {round}. Look into room {round}."),
    }
}

fn fact(round: usize) -> String {
    format!("the code of box {round} is {}.", 10_007 * round)
}

fn text_of_user(message: &Message) -> String {
    let Message::User { parts } = message else { return String::new() };
    let text = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        _ => String::new(),
    };
    parts.iter().map(text).collect()
}

fn keep(message: &Message) -> Vec<String> {
    let text = text_of_user(message);
    text.split_once("Keep this: ").map(|(_, fact)| fact.to_owned()).into_iter().collect()
}

/// Returns the number of the last round in messages.
fn round_of(messages: &[Arc<Message>]) -> usize {
    let number = |message: &Arc<Message>| {
        let text = text_of_user(message);
        text.rsplit_once("Round ")?.1.split_once('.')?.0.parse().ok()
    };
    messages.iter().rev().find_map(number).unwrap()
}

fn tokens(request: &Request) -> u64 {
    request.most_usage(Dialect::JsonSchema2020).input_tokens.div_ceil(4)
}

/// A long result. Some are longer than the window.
fn look() -> Tool {
    tool("look", Effect::Read, async |look| {
        let number = look.place.len() * 31 + usize::from(look.place.as_bytes()[0]);
        let lines = if look.place.ends_with("00") { 2_000 } else { 10 + number % 90 };
        Ok(format!("{} has a chair and a table. ", look.place).repeat(lines))
    })
}

impl Endless {
    pub(crate) fn new(rounds: usize) -> Self {
        Self { rounds, got: Arc::default(), cut: Arc::default() }
    }

    /// The first task of the conversation.
    pub(crate) fn task(&self) -> String {
        says(1)
    }

    pub(crate) fn agent(&self) -> Agent {
        let (world, rounds) = (self.clone(), self.rounds);
        let model = Scripted::new(move |request: &Request| world.answer(request));
        let compaction = Compaction {
            window: Some(WINDOW + 4_096),
            keep: Some(Arc::new(keep)),
            ..Compaction::default()
        };
        let limits = Limits { max_result_bytes: 12_000, ..Limits::default() };
        Agent::new(model, [look()])
            .unwrap()
            .with_instructions("Be brief.")
            .with_limits(limits)
            .with_compaction(compaction)
            .unwrap()
            .with_next_task(move |run: &Run| {
                let round = round_of(run.history());
                (round < rounds).then(|| Task::new(says(round + 1)))
            })
    }

    pub(crate) fn cx(&self) -> Context {
        Context::default().with_hook(CutHook(Arc::clone(&self.cut)))
    }

    /// Answers by the conversation only, so that a drive that goes on gets the same replies.
    fn answer(&self, request: &Request) -> Result<Reply> {
        let tokens = tokens(request);
        let mut got = self.got.lock().unwrap();
        if tokens > WINDOW {
            let exceeded = ContextExceeded::new(Some(tokens), Some(WINDOW));
            return Err(Error::other("too long").with_context_exceeded(exceeded));
        }
        let usage = Usage::new(tokens, 20);
        if request.tools.iter().all(|tool| tool.name() != "look") {
            return Ok(Reply::text(r#"{"summary": "Rooms were looked at."}"#).with_usage(usage));
        }
        let round = round_of(&request.messages);
        got.requests.push((round, tokens));
        got.last = request.messages.to_vec();
        let of_user = |message: &Arc<Message>| matches!(**message, Message::User { .. });
        let start = request.messages.iter().rposition(of_user).unwrap();
        let results = request.messages.len() - start;
        let reply = match results < 2 + 2 * (round % 3) {
            true => {
                let (id, place) = (format!("c{round}-{results}"), format!("room {round}"));
                Reply::calls([call(&id, "look", &place)])
            }
            false => Reply::text(format!("Round {round} is done. ").repeat(1 + round % 40)),
        };
        Ok(reply.with_usage(usage))
    }

    /// Drives the conversation to its end with `drive`, which is cut off this many times, at requests
    /// that follow from the seed.
    pub(crate) async fn to_the_end(
        &self,
        cuts: u64,
        mut seed: u64,
        drive: impl AsyncFn(&Agent, &Context) -> Result<Finished>,
    ) -> Finished {
        let most = u64::try_from(self.rounds).unwrap() * 3 / (cuts + 1);
        for _ in 0..cuts {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            self.cut.left.store(1 + seed % most, Ordering::SeqCst);
            self.cut.loses_reply.store(seed >> 32 & 1, Ordering::SeqCst);
            let (agent, cx) = (self.agent(), self.cx());
            tokio::select! {
                finished = drive(&agent, &cx) => return finished.unwrap(),
                () = self.cut.reached.notified() => {}
            }
        }
        self.cut.left.store(0, Ordering::SeqCst);
        drive(&self.agent(), &self.cx()).await.unwrap()
    }

    /// Checks the conversation at its end: every fact is in the last request, and requests have not
    /// grown.
    pub(crate) fn check(&self) {
        let got = self.got.lock().unwrap();
        let last = serde_json::to_string(&got.last).unwrap();
        assert!(last.contains("was shortened"), "no summary was made: {last}");
        let facts = (EVERY..=self.rounds).step_by(EVERY);
        let lost: Vec<usize> = facts.filter(|round| !last.contains(&fact(*round))).collect();
        assert_eq!(lost, [0; 0], "facts of these rounds are lost: {last}");
        let mean = |rounds: std::ops::Range<usize>| {
            let of_these = got.requests.iter().filter(|(round, _)| rounds.contains(round));
            let tokens: Vec<u64> = of_these.map(|(_, tokens)| *tokens).collect();
            tokens.iter().sum::<u64>() / u64::try_from(tokens.len()).unwrap()
        };
        let (middle, end) = (self.rounds / 2, self.rounds);
        let (middle, end) = (mean(middle - 20..middle + 20), mean(end - 40..end + 1));
        assert!(end < middle * 3 / 2, "requests grow from {middle} to {end} tokens");
    }
}

/// Cuts drives off.
struct CutHook(Arc<Cut>);

impl Hook for CutHook {
    fn name(&self) -> &str {
        "cut"
    }

    async fn model(&self, request: Request, next: AskNext<'_>) -> Result<Reply> {
        let cut = &self.0;
        let left = cut.left.load(Ordering::SeqCst);
        cut.left.store(left.saturating_sub(1), Ordering::SeqCst);
        if left != 1 {
            return next.run(request).await;
        }
        if cut.loses_reply.load(Ordering::SeqCst) == 1 {
            next.run(request).await?;
        }
        cut.reached.notify_one();
        pending().await
    }
}
