//! A conversation that is longer than its model's context, against any server with OpenAI's Chat API.
//!
//! ```text
//! cargo run -p toolwright-examples --example endless -- --base-url http://127.0.0.1:8321/v1 --rounds 2000
//! ```
//!
//! In each round the user says something, and the model may call tools, whose results are long. Some
//! messages ask to keep a fact. The last one asks for facts. The agent shortens what is sent, so that it
//! fits into the window, and the facts stay word for word. The example `counting_server` is a server
//! for it.
//!
//! With `--journal FOLDER` or `--postgres URL` the conversation survives a crash: the same command goes
//! on with it. At the end, stdout has the counts, one `name: value` a line. The exit code is 1 if a fact
//! was lost, or if the server refused two requests in a row as too long.

use std::env;
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clap::Parser;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_cli::{note, say};
use toolwright_journal::Journal;
use toolwright_module::hook::{AskNext, Hook};
use toolwright_module::message::Part;
use toolwright_module::model::Settings;
use toolwright_module::{
    Context, Dialect, Effect, Message, Reply, Request, Signature, Tool, from_fn,
};
use toolwright_openai::OpenAi;
use toolwright_orchestrator::{Agent, Compaction, Finished, Limits, Run, Task};
use toolwright_postgres::{Runs, RunsError};

/// A conversation that is longer than its model's context.
#[derive(Parser)]
struct Args {
    /// URL of a server with OpenAI's Chat API, such as http://127.0.0.1:8321/v1. OPENAI_API_KEY is
    /// its key, if there is one
    #[arg(long)]
    base_url: String,
    /// Number of messages of the user
    #[arg(long, default_value_t = 200)]
    rounds: u64,
    /// Number of tokens that the model takes, the reply included
    #[arg(long, default_value_t = 32_000)]
    window: u64,
    /// Maximum number of tokens of a reply. A small window needs a small one
    #[arg(long, value_name = "TOKENS", default_value_t = Request::MAX_OUTPUT_TOKENS)]
    max_tokens: u64,
    /// Name of the model
    #[arg(long, default_value = "endless")]
    model: String,
    /// Keep the conversation in this folder, so that it survives a crash
    #[arg(long, value_name = "FOLDER", conflicts_with = "postgres")]
    journal: Option<PathBuf>,
    /// Keep the conversation in this database, so that it survives a crash
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// Request streams instead of whole replies
    #[arg(long)]
    stream: bool,
    /// Ask to keep a fact in every K-th round
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    keep_every: u64,
}

/// Number of facts that the last round asks for.
const ASKED: usize = 20;

/// The id of the run in a journal or a database.
const ID: &str = "endless";

/// How long a database waits for a worker that was killed.
const LEASE: Duration = Duration::from_secs(2);

/// How long the program waits after an error of the server.
const PAUSE: Duration = Duration::from_secs(1);

const INSTRUCTIONS: &str = "You are the assistant of an archive with many boxes and files. Look up what \
     you need with the tools, and answer in a few sentences.";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args = Args::parse();
    let script = Script { rounds: args.rounds, keep_every: args.keep_every };
    let counts = Arc::new(Counts::default());
    let agent = agent(&args, script, &counts)?;
    let all = Watch { counts: Arc::clone(&counts), is_own: false };
    let mut cx = Context::default().with_hook(all);
    if args.stream {
        // Replies are streamed if somebody listens.
        cx = cx.with_events(|_| ());
    }
    let finished = drive(&args, &agent, script, &cx, &counts).await?;
    Ok(report(&args, script, &counts, finished.as_ref()))
}

fn agent(args: &Args, script: Script, counts: &Arc<Counts>) -> Result<Agent, Box<dyn Error>> {
    let mut model = OpenAi::at(&args.base_url, &args.model)?;
    if let Ok(key) = env::var("OPENAI_API_KEY") {
        model = model.with_key(key)?;
    }
    let compaction = Compaction {
        window: Some(args.window),
        keep: Some(Arc::new(kept)),
        ..Compaction::default()
    };
    let limits = Limits {
        max_iterations: 5,
        // A result has at most a quarter of the window.
        max_result_bytes: usize::try_from(args.window)?,
        ..Limits::default()
    };
    let seen = Arc::clone(counts);
    let own = Watch { counts: Arc::clone(counts), is_own: true };
    let settings = Settings::default().with_max_output_tokens(args.max_tokens);
    let agent = Agent::new(model, tools()?)?
        .with_settings(settings)?
        .with_instructions(INSTRUCTIONS)
        .with_limits(limits)
        .with_compaction(compaction)?
        .with_hook(own)
        .with_next_task(move |run| {
            let round = round_of(run);
            seen.ends(round, run);
            (round < script.rounds).then(|| Task::new(script.says(round + 1)))
        });
    Ok(agent)
}

/// Drives the conversation to its end. Returns `None` if the server refused two requests in a row: a
/// request that is too long although the agent has shortened it ends a drive.
async fn drive(
    args: &Args,
    agent: &Agent,
    script: Script,
    cx: &Context,
    counts: &Counts,
) -> Result<Option<Finished>, Box<dyn Error>> {
    let task = || script.says(1);
    let (mut run, began) = (agent.start(task())?, Instant::now());
    // The round in which the last drive failed.
    let mut failed = None;
    loop {
        let finished = match (&args.journal, &args.postgres) {
            (None, None) => agent.drive(&mut run, cx).await,
            (Some(folder), _) => Journal::open(folder)?.drive(agent, ID, task(), cx).await,
            (None, Some(url)) => {
                let runs = Runs::connect(url, ID).await?.with_lease(LEASE);
                runs.drive(agent, ID, task(), cx).await
            }
        };
        match finished {
            Ok(finished) => return Ok(Some(finished)),
            Err(error) if error.context_exceeded().is_some() => {
                note(&format!("a drive ended: {error}"));
                if counts.locked().was_refused_twice {
                    return Ok(None);
                }
            }
            // A database waits until the lease of a killed worker has ended.
            Err(error) if is_locked(&error) && began.elapsed() < LEASE * 3 => {
                tokio::time::sleep(LEASE / 10).await;
            }
            // The server may be back soon. In a folder or a database, the next start goes on, too.
            Err(error) if error.is_retryable() && failed != Some(counts.rounds()) => {
                note(&format!("a drive failed, and is tried again: {error}"));
                failed = Some(counts.rounds());
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(error.into_std().into()),
        }
    }
}

fn is_locked(error: &toolwright_module::Error) -> bool {
    matches!(error.downcast_ref(), Some(RunsError::Locked { .. }))
}

/// What the user says in each round.
#[derive(Clone, Copy)]
struct Script {
    rounds: u64,
    keep_every: u64,
}

impl Script {
    /// Returns the text of a round, counted from 1. The last one asks for facts.
    fn says(self, round: u64) -> String {
        let start = format!("Round {round}.");
        let facts = self.facts();
        if round == self.rounds && !facts.is_empty() {
            let asked: Vec<String> =
                asked(&facts).map(|round| format!("What is the code of box {round}?")).collect();
            return format!("{start} {}", asked.join(" "));
        }
        if round.is_multiple_of(self.keep_every) {
            return format!("{start} {KEEP} {}.", fact(round));
        }
        match number([round, 1], 4) {
            0 => format!("{start} What is in the file of box {round}?"),
            1 => format!("{start} Which files mention the harbour, and which the lighthouse?"),
            2 => {
                let pasted = words(round, number([round, 2], 3_000));
                format!("{start} This is what I found myself: {pasted} What do you think of it?")
            }
            _ => format!("{start} Go on, please."),
        }
    }

    /// Returns the rounds that ask to keep a fact.
    fn facts(self) -> Vec<u64> {
        (1..self.rounds).filter(|round| round.is_multiple_of(self.keep_every)).collect()
    }
}

/// What stands before a fact that the user asks to keep.
const KEEP: &str = "Keep this:";

/// Returns a fact, which no other text contains.
fn fact(round: u64) -> String {
    format!("the code of box {round} is {}", code(round))
}

fn code(round: u64) -> usize {
    10_000 + number([round, 3], 90_000)
}

/// Returns the facts of the last question: at most some, from all of the conversation.
fn asked(facts: &[u64]) -> impl Iterator<Item = u64> {
    let step = facts.len().div_ceil(ASKED).max(1);
    facts.iter().step_by(step).copied()
}

/// Returns the facts that a message of the user asks to keep.
fn kept(message: &Message) -> Vec<String> {
    let text = text_of_user(message);
    text.split_once(KEEP).map(|(_, fact)| fact.trim().to_owned()).into_iter().collect()
}

/// Returns the text of a message of the user. Another message has none here.
fn text_of_user(message: &Message) -> String {
    let Message::User { parts } = message else { return String::new() };
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Returns the number of the current round.
fn round_of(run: &Run) -> u64 {
    let round = |message: &Arc<Message>| {
        text_of_user(message).strip_prefix("Round ")?.split_once('.')?.0.parse().ok()
    };
    run.history().iter().rev().find_map(round).unwrap_or(0)
}

/// Read a page of a file of the archive.
#[derive(Serialize, Deserialize, JsonSchema)]
struct ReadFile {
    path: String,
    /// Number of the page.
    #[schemars(range(min = 1, max = 500))]
    page: u32,
}

/// List the files of a box.
#[derive(Serialize, Deserialize, JsonSchema)]
struct ListFiles {
    /// Number of the box.
    #[schemars(range(min = 1, max = 5000))]
    number: u32,
}

/// Search all files for words.
#[derive(Serialize, Deserialize, JsonSchema)]
struct SearchFiles {
    words: String,
    /// Maximum number of lines.
    #[schemars(range(min = 1, max = 100))]
    most: u32,
}

impl Signature for ReadFile {
    type Output = String;
}

impl Signature for ListFiles {
    type Output = String;
}

impl Signature for SearchFiles {
    type Output = String;
}

/// Returns the tools. What they return depends on their input only.
fn tools() -> toolwright_module::Result<Vec<Tool>> {
    let read = from_fn(async |ask: ReadFile| {
        let page = u64::from(ask.page);
        // One page in fifty is longer than the window.
        let most = if ask.page.is_multiple_of(50) { 200_000 } else { 6_000 };
        Ok(words(page, most / 20 + number((&ask.path, page), most)))
    });
    let list = from_fn(async |ask: ListFiles| {
        let files = (0..5 + ask.number % 30).map(|file| format!("box-{}/{file}.txt", ask.number));
        Ok(files.collect::<Vec<_>>().join("\n"))
    });
    let search = from_fn(async |ask: SearchFiles| {
        let lines = (0..ask.most.clamp(1, 100)).map(|line| {
            let seed = number((&ask.words, line), 1_000_000);
            format!("file {seed}: {}", words(u64::try_from(seed).unwrap_or(0), 60))
        });
        Ok(lines.collect::<Vec<_>>().join("\n"))
    });
    Ok(vec![
        Tool::new(read.with_effect(Effect::Read))?,
        Tool::new(list.with_effect(Effect::Read))?,
        Tool::new(search.with_effect(Effect::Read))?,
    ])
}

/// Returns a text of about this length, which depends on the seed.
fn words(seed: u64, bytes: usize) -> String {
    const WORDS: [&str; 12] = [
        "harbour",
        "lighthouse",
        "rain",
        "letter",
        "captain",
        "the",
        "of",
        "in",
        "winter",
        "boat",
        "nobody",
        "returned",
    ];
    let (mut text, mut place) = (String::with_capacity(bytes + 12), seed);
    while text.len() < bytes {
        text.push_str(WORDS[number(place, WORDS.len())]);
        text.push(if number(place, 12) == 0 { '\n' } else { ' ' });
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
    }
    text
}

/// Returns a number below `most` that depends on the seed only.
fn number(seed: impl Hash, most: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    seed.hash(&mut hasher);
    let most = u64::try_from(most).unwrap_or(u64::MAX).max(1);
    usize::try_from(hasher.finish() % most).unwrap_or(0)
}

/// What is counted. The largest request and the refused ones are those of this process.
#[derive(Default)]
struct Counts(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    /// The state of the run at the end of each round.
    rounds: Vec<RoundEnd>,
    compactions: usize,
    /// The largest request, by the server's count or by an estimate, and in bytes.
    largest: (u64, u64),
    refused: u64,
    was_refused: bool,
    was_refused_twice: bool,
    has_estimates: bool,
    /// The last request of the agent itself, as JSON.
    last_request: String,
}

/// The state of the run at the end of a round.
#[derive(Clone, Copy, Default)]
struct RoundEnd {
    requests: u64,
    /// The tokens of all requests so far, by the server's count.
    tokens: u64,
    /// An estimate of the tokens of the next request.
    estimate: u64,
}

impl Counts {
    fn locked(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of rounds that have ended.
    fn rounds(&self) -> usize {
        self.locked().rounds.len()
    }

    /// Notes the end of a round. A drive from records comes to the same rounds again.
    fn ends(&self, round: u64, run: &Run) {
        let spent = run.spent();
        let end = RoundEnd {
            requests: spent.model_calls,
            tokens: spent.usage.input_tokens,
            estimate: bytes_of(&Request::new(run.sent().iter().cloned())).div_ceil(4),
        };
        let mut counted = self.locked();
        counted.compactions = run.compactions().len();
        let place = usize::try_from(round).unwrap_or(usize::MAX).saturating_sub(1);
        counted.rounds.truncate(place);
        counted.rounds.push(end);
        if round.is_multiple_of(100) {
            let (requests, compactions) = (end.requests, counted.compactions);
            note(&format!("round {round}: {requests} requests, {compactions} compactions"));
        }
    }
}

/// Counts the requests: all, or those of the agent itself without those for summaries.
struct Watch {
    counts: Arc<Counts>,
    is_own: bool,
}

impl Hook for Watch {
    fn name(&self) -> &str {
        "watch"
    }

    async fn model(&self, request: Request, next: AskNext<'_>) -> toolwright_module::Result<Reply> {
        let bytes = bytes_of(&request);
        let sent = self.is_own.then(|| serde_json::to_string(&request.messages));
        let reply = next.run(request).await;
        let is_refused = |error: &toolwright_module::Error| error.context_exceeded().is_some();
        let is_refused = reply.as_ref().err().is_some_and(is_refused);
        let mut counted = self.counts.locked();
        if self.is_own {
            counted.was_refused_twice |= counted.was_refused && is_refused;
            counted.was_refused = is_refused;
            if let (Some(sent), false) = (sent, is_refused) {
                counted.last_request = sent?;
            }
            return reply;
        }
        counted.refused += u64::from(is_refused);
        if let Ok(reply) = &reply {
            let is_known = !reply.usage.incomplete && reply.usage.input_tokens > 0;
            counted.has_estimates |= !is_known;
            let tokens = if is_known { reply.usage.input_tokens } else { bytes.div_ceil(4) };
            counted.largest = (counted.largest.0.max(tokens), counted.largest.1.max(bytes));
        }
        reply
    }
}

/// Returns the bytes of a request: its texts, its tools and a little for each message.
fn bytes_of(request: &Request) -> u64 {
    request.most_usage(Dialect::JsonSchema2020).input_tokens
}

/// Prints the counts, and returns the exit code.
fn report(args: &Args, script: Script, counts: &Counts, finished: Option<&Finished>) -> ExitCode {
    let counted = counts.locked();
    if counted.rounds.is_empty() && finished.is_some() {
        note("this conversation has ended before; remove it to begin another");
    }
    let answer = finished.map_or("", |finished| &*finished.answer);
    let facts = script.facts();
    let is_lost = |round: &&u64| !counted.last_request.contains(&fact(**round));
    // A run that had already ended made no request in this process.
    let lost = match counted.last_request.is_empty() {
        true => 0,
        false => facts.iter().filter(is_lost).count(),
    };
    let asked: Vec<u64> = asked(&facts).collect();
    let answered = asked.iter().filter(|round| answer.contains(&code(**round).to_string()));
    let end = counted.rounds.last().copied().unwrap_or_default();
    say(&format!("rounds: {}", counted.rounds.len()));
    say(&format!("requests: {}", end.requests));
    say(&format!("compactions: {}", counted.compactions));
    say(&format!("largest request: {}", counted.largest.0));
    say(&format!("largest request bytes: {}", counted.largest.1));
    say(&format!("tokens are estimates: {}", counted.has_estimates));
    say(&format!("window: {}", args.window));
    say(&format!("refused requests: {}", counted.refused));
    say(&format!("refused twice in a row: {}", counted.was_refused_twice));
    say(&format!("facts: {}", facts.len()));
    say(&format!("lost facts: {lost}"));
    say(&format!("asked facts: {}", asked.len()));
    say(&format!("answered facts: {}", answered.count()));
    for (name, tenth) in [("first", 0), ("middle", 5), ("last", 9)] {
        let mean = mean_of(&counted.rounds, tenth);
        say(&format!("mean request tokens of the {name} tenth: {mean}"));
    }
    match lost == 0 && !counted.was_refused_twice {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Returns the mean number of tokens of the requests in a tenth of the rounds.
fn mean_of(rounds: &[RoundEnd], tenth: usize) -> u64 {
    let place = |tenth: usize| rounds.len() * tenth / 10;
    let ends = &rounds[place(tenth)..place(tenth + 1)];
    let before = place(tenth).checked_sub(1).map(|place| rounds[place]).unwrap_or_default();
    let Some(last) = ends.last() else { return 0 };
    if last.tokens == 0 {
        let count = u64::try_from(ends.len()).unwrap_or(1);
        return ends.iter().map(|end| end.estimate).sum::<u64>() / count;
    }
    (last.tokens - before.tokens) / (last.requests - before.requests).max(1)
}
