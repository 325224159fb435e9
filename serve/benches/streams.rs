//! 1,000 open streams, beside a bare handler of axum that sends the same words.
//!
//! `cargo bench -p toolwright-serve --bench streams`. Env: `STREAMS`, `SECONDS`, and `PAUSE` between two
//! words of a stream in milliseconds.
//!
//! Each word has the time when it was written. The server is a process of its own, which is this program
//! with an argument, so that its memory can be read. Linux only.

use std::convert::Infallible;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::response::sse::{Event, Sse};
use axum::routing::post;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::{Instant, interval, sleep};
use toolwright_module::model::{Capabilities, Delta, LanguageModel, Reply, Request};
use toolwright_module::{Dialect, Error, Result};
use toolwright_orchestrator::Agent;
use toolwright_serve::{Caller, Home, Rejection, Serve};

/// How many words a stream has. No one ends during the measurement.
const WORDS: usize = 1_000_000;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn pause() -> Duration {
    Duration::from_millis(number("PAUSE", 50))
}

fn now() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros()
}

/// A word with the time, in a form that is found again in any stream.
fn word() -> String {
    format!("<{:020}> ", now())
}

/// Words at regular times.
fn words() -> BoxStream<'static, String> {
    let times = stream::unfold(interval(pause()), async |mut times| {
        times.tick().await;
        Some((word(), times))
    });
    times.take(WORDS).boxed()
}

struct Clock;

impl LanguageModel for Clock {
    fn name(&self) -> &str {
        "clock"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async { Err(Error::stop("it only streams")) })
    }

    fn stream<'a>(&'a self, _: Request) -> BoxStream<'a, Result<Delta>> {
        words().map(|word| Ok(Delta::Text(word))).boxed()
    }
}

/// Serves until it is killed.
async fn serve(kind: &str) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let app = match kind {
        "bare" => {
            let events = || async {
                Sse::new(words().map(|word| Ok::<_, Infallible>(Event::default().data(word))))
            };
            Router::new().route("/messages", post(events))
        }
        _ => Serve::new(Home::memory(), Agent::new(Clock, [])?)
            .with_callers(async |parts| match parts.headers.get("x-user") {
                Some(user) => Ok(Caller::new(String::from_utf8_lossy(user.as_bytes()))),
                None => Err(Rejection::unauthorized("who is it?")),
            })
            .start()
            .router(),
    };
    Ok(axum::serve(listener, app).await?)
}

struct Server {
    child: Child,
    base: String,
}

impl Server {
    fn start(kind: &str) -> std::io::Result<Self> {
        let program = std::env::current_exe()?;
        let mut child = Command::new(program).arg(kind).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        Ok(Self { child, base: format!("http://{}", line.trim()) })
    }

    /// Resident memory in kB, and user and system time in seconds.
    fn used(&self) -> (f64, f64) {
        let read = |name: &str| {
            std::fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap_or_default()
        };
        let status = read("status");
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = memory.and_then(|text| text.trim().strip_suffix(" kB")?.trim().parse().ok());
        let stat = read("stat");
        let ticks = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
        let ticks: f64 = ticks.filter_map(|text| text.parse::<f64>().ok()).sum();
        (memory.unwrap_or_default(), ticks / 100.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a reader measures: the age of each word in microseconds.
async fn read(
    kind: String,
    client: reqwest::Client,
    base: String,
    user: usize,
    counts: Arc<AtomicUsize>,
    end: Instant,
) -> Vec<u32> {
    let text = "What time is it?";
    let (path, body) = match &*kind {
        "ag-ui" => {
            let messages = json!([{"id": "1", "role": "user", "content": text}]);
            ("ag-ui", json!({"threadId": "c", "runId": "r", "messages": messages}))
        }
        _ => ("messages", json!({"conversation": "c", "text": text})),
    };
    let request = client.post(format!("{base}/{path}")).header("x-user", user.to_string());
    let Ok(mut response) = request.json(&body).send().await else { return Vec::new() };
    let (mut ages, mut rest) = (Vec::new(), Vec::new());
    let mut is_counted = false;
    while let Ok(Ok(Some(chunk))) = tokio::time::timeout_at(end, response.chunk()).await {
        let now = now();
        rest.extend_from_slice(&chunk);
        while let Some(begin) = rest.iter().position(|byte| *byte == b'<') {
            let Some(digits) = rest.get(begin + 1..begin + 22) else { break };
            let word =
                digits.strip_suffix(b">").and_then(|digits| std::str::from_utf8(digits).ok());
            if let Some(time) = word.and_then(|digits| digits.parse::<u128>().ok()) {
                ages.push(u32::try_from(now.saturating_sub(time)).unwrap_or(u32::MAX));
                if !is_counted {
                    is_counted = true;
                    counts.fetch_add(1, Ordering::Relaxed);
                }
            }
            rest.drain(..=begin);
        }
        if rest.len() > 64 {
            let cut = rest.len() - 64;
            rest.drain(..cut);
        }
    }
    // The first words were written while the streams were opened.
    ages.split_off(ages.len() / 4)
}

async fn measure(kind: &str) -> std::io::Result<()> {
    let (streams, seconds) = (number("STREAMS", 1_000), number("SECONDS", 15));
    let server = Server::start(kind)?;
    let client = reqwest::Client::new();
    let counts = Arc::new(AtomicUsize::new(0));
    let read_one = |user: usize, seconds: u64| {
        let end = Instant::now() + Duration::from_secs(seconds);
        let (kind, base) = (kind.to_owned(), server.base.clone());
        tokio::spawn(read(kind, client.clone(), base, user, counts.clone(), end))
    };
    // One stream first, so that what all share is there.
    let _ = read_one(usize::MAX, 2).await;
    counts.store(0, Ordering::Relaxed);
    let (before, _) = server.used();
    let streams = usize::try_from(streams).unwrap_or(usize::MAX);
    let readers: Vec<_> = (0..streams).map(|user| read_one(user, seconds)).collect();
    sleep(Duration::from_secs(seconds.saturating_sub(4))).await;
    let (first, at) = (server.used(), Instant::now());
    sleep(Duration::from_secs(3)).await;
    let (second, open) = (server.used(), counts.load(Ordering::Relaxed));
    let cpu = (second.1 - first.1) / at.elapsed().as_secs_f64();
    let mut ages = Vec::new();
    for reader in readers {
        ages.extend(reader.await.unwrap_or_default());
    }
    ages.sort_unstable();
    let at = |share: f64| {
        let place = (ages.len() as f64 * share) as usize;
        f64::from(ages.get(place).copied().unwrap_or_default()) / 1_000.0
    };
    println!(
        "{kind:>6}: {open} of {streams} streams, {:.1} kB each, {} words, latency p50 {:.2} ms, p99 {:.2} ms, max {:.1} ms, CPU {:.0} %",
        (second.0 - before) / streams as f64,
        ages.len(),
        at(0.5),
        at(0.99),
        at(0.999_999),
        cpu * 100.0,
    );
    Ok(())
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1).as_deref() {
        Some(kind @ ("bare" | "serve" | "ag-ui")) => serve(kind).await,
        _ => {
            measure("bare").await?;
            measure("serve").await?;
            measure("ag-ui").await?;
            Ok(())
        }
    }
}
