//! The service with which the scripts in `tests` check real clients. What its model does is in the last
//! message of the user.
//!
//! It prints its address, and ends when its input does. Its runs are in memory, or where its argument says: in
//! the journal of a folder, or with the feature `postgres` in a database. The user is in the header `x-user`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use std::error::Error as StdError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::sleep;
use toolwright_journal::Journal;
use toolwright_module::hook::Retry;
use toolwright_module::message::{Part, Reasoning, ReplyPart};
use toolwright_module::model::{Capabilities, Delta, LanguageModel, Reply, Request, Usage};
use toolwright_module::{
    Dialect, Effect, Error, Message, Result, Signature, Tool, ToolCall, from_fn,
};
use toolwright_orchestrator::{Agent, ApprovalPolicy};
use toolwright_serve::{Caller, Home, Rejection, Serve};

/// Add two numbers.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

impl Signature for Add {
    type Output = i64;
}

/// Send money.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Pay {
    to: String,
    amount: u32,
}

impl Signature for Pay {
    type Output = String;
}

/// A model that does what the user says.
#[derive(Clone, Default)]
struct Obedient {
    /// The number of replies that broke off.
    broken: Arc<AtomicUsize>,
}

/// The last message of the user, and the results since.
fn asked(request: &Request) -> (String, Vec<String>) {
    let (mut asked, mut results) = (String::new(), Vec::new());
    for message in &request.messages {
        match &**message {
            Message::User { parts } => {
                results.clear();
                asked = parts
                    .iter()
                    .map(|part| match part {
                        Part::Text(text) => text.as_str(),
                        part => part.kind(),
                    })
                    .collect::<Vec<_>>()
                    .join(" ");
            }
            Message::Tool(result) => results.push(result.text.to_string()),
            _ => {}
        }
    }
    (asked, results)
}

fn call(nth: usize, name: &str, arguments: serde_json::Value) -> ReplyPart {
    ReplyPart::Call(ToolCall::new(format!("call-{nth}"), name, arguments.to_string()))
}

impl Obedient {
    fn reply(request: &Request) -> Result<Reply> {
        let (asked, results) = asked(request);
        let pay = |nth, to: &str| call(nth, "pay", json!({ "to": to, "amount": 5 }));
        let parts = match (asked.split(' ').next().unwrap_or_default(), &results[..]) {
            ("fail", _) => return Err(Error::stop("the key sk-secret was rejected")),
            (_, [_, ..]) => vec![ReplyPart::text(format!("Results: {}.", results.join("; ")))],
            ("add", _) => vec![call(1, "add", json!({ "a": 1, "b": 2 }))],
            ("wrong", _) => vec![call(1, "add", json!({ "a": "x" }))],
            ("pay", _) => vec![ReplyPart::text("I pay."), pay(1, "Ann")],
            ("two", _) => {
                vec![pay(1, "Ann"), pay(2, "Bob"), call(3, "add", json!({ "a": 1, "b": 2 }))]
            }
            ("below", _) => vec![call(1, "clerk", json!({ "task": "pay" }))],
            ("think", _) => {
                let thought = Reasoning::new("test", "They want me to think.", json!(null));
                vec![ReplyPart::Reasoning(thought), ReplyPart::text("I have thought.")]
            }
            _ => vec![ReplyPart::text(format!("You said: {asked}"))],
        };
        let usage = Usage { input_tokens: 100, output_tokens: 10, ..Usage::default() };
        Ok(Reply::new(parts).with_usage(usage).with_model("obedient"))
    }

    /// The pieces of a reply, each text word by word.
    fn pieces(reply: &Reply) -> Vec<Delta> {
        let mut pieces = Vec::new();
        for (index, part) in reply.parts.iter().enumerate() {
            match part {
                ReplyPart::Text(text) => {
                    pieces
                        .extend(text.split_inclusive(' ').map(|word| Delta::Text(word.to_owned())));
                }
                ReplyPart::Reasoning(thought) => {
                    pieces.push(Delta::Reasoning(thought.text.clone()))
                }
                ReplyPart::Call(call) => {
                    for piece in call.arguments.as_bytes().chunks(8) {
                        let arguments = String::from_utf8(piece.to_vec()).unwrap();
                        pieces.push(Delta::Call { index, name: call.name.clone(), arguments });
                    }
                }
                _ => {}
            }
        }
        pieces
    }
}

impl LanguageModel for Obedient {
    fn name(&self) -> &str {
        "obedient"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(Dialect::JsonSchema2020);
        (capabilities.tools, capabilities.images) = (true, true);
        capabilities
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async { Self::reply(request) })
    }

    fn stream<'a>(&'a self, request: Request) -> BoxStream<'a, Result<Delta>> {
        let reply = async move {
            let reply = Self::reply(&request);
            let (asked, _) = asked(&request);
            let wait = Duration::from_millis(if asked.starts_with("slow") { 100 } else { 1 });
            let mut pieces: Vec<_> = reply.iter().flat_map(Self::pieces).map(Ok).collect();
            let is_odd = || self.broken.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
            // Every second reply to these words breaks off. It is asked for again, or the run stops.
            let breaks_off = match asked.split(' ').next() {
                Some("lose") if is_odd() => Some(true),
                Some("stumble") if is_odd() => Some(false),
                _ => None,
            };
            match breaks_off {
                Some(is_retryable) => {
                    pieces.truncate(2);
                    let error = Error::other("the connection was lost").retryable(is_retryable);
                    pieces.push(Err(error));
                }
                None => pieces.push(reply.map(|reply| Delta::Done(Box::new(reply)))),
            }
            stream::iter(pieces).then(move |piece| async move {
                sleep(wait).await;
                piece
            })
        };
        stream::once(reply).flatten().boxed()
    }
}

fn agent(payments: &Arc<Mutex<Vec<String>>>) -> Result<Agent, Box<dyn StdError>> {
    let add = Tool::new(from_fn(async |Add { a, b }: Add| Ok(a + b)))?.with_effect(Effect::Read);
    let payments = Arc::clone(payments);
    let pay = from_fn(move |Pay { to, amount }: Pay| {
        let paid = format!("{amount} to {to}");
        payments.lock().unwrap().push(paid.clone());
        async move { Ok(format!("paid {paid}")) }
    });
    let pay = Tool::new(pay)?.with_effect(Effect::Irreversible);
    let policy = || ApprovalPolicy::from_effect(Effect::Irreversible);
    let clerk = Agent::new(Obedient::default(), [pay.clone()])?.with_approval(policy())?;
    // Its own calls wait, so the call of the agent need not.
    let clerk = Tool::new(clerk)?.named("clerk")?.with_effect(Effect::Read);
    let retry = Retry { wait: Duration::from_millis(1), ..Retry::default() };
    let agent = Agent::new(Obedient::default(), [add, pay, clerk])?;
    Ok(agent.with_approval(policy())?.with_hook(retry))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn StdError>> {
    let payments = Arc::<Mutex<Vec<String>>>::default();
    let home = match std::env::args().nth(1) {
        #[cfg(feature = "postgres")]
        Some(url) if url.starts_with("postgres://") => {
            toolwright_postgres::Runs::connect(&url, "clients").await?.into()
        }
        Some(folder) => Journal::open(folder)?.into(),
        None => Home::memory(),
    };
    let service = Serve::new(home, agent(&payments)?)
        .with_callers(async |parts| match parts.headers.get("x-user") {
            Some(user) => Ok(Caller::new(String::from_utf8_lossy(user.as_bytes()))),
            None => Err(Rejection::unauthorized("sign in first")),
        })
        .start();
    let paid = get(async move || payments.lock().unwrap().join("\n"));
    let app = Router::new().nest("/api", service.router()).route("/payments", paid);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, app).await });
    // The thread that waits for the end of the input must not hold up the service.
    let read = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    tokio::task::spawn_blocking(read).await??;
    Ok(())
}
