//! A worker of a service on PostgreSQL, for the test that kills it.
//!
//! Its model writes slowly, and something else each time. Its tool adds a row to a table.
//!
//! Env: `TOOLWRIGHT_POSTGRES`, the URL of the database; `PORT`; `LEASE` in milliseconds.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use axum::Router;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::sleep;
use tokio_postgres::NoTls;
use toolwright_module::message::ReplyPart;
use toolwright_module::model::{Capabilities, Delta, LanguageModel, Reply, Request};
use toolwright_module::{
    Context, Dialect, Effect, Error as ModuleError, Message, Result, Signature, Tool, ToolCall,
    from_fn_with,
};
use toolwright_orchestrator::{Agent, ApprovalPolicy};
use toolwright_postgres::Runs;
use toolwright_serve::{Caller, Rejection, Serve};

/// Write a row.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct WriteRow {
    /// The row.
    row: String,
}

impl Signature for WriteRow {
    type Output = String;
}

/// A model that writes 30 words, each after 5 ms.
struct Author(AtomicU64);

impl Author {
    fn reply(&self, request: &Request) -> Reply {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        let words: Vec<String> = (0..30).map(|word| format!("{number:x}.{word}")).collect();
        let text = ReplyPart::text(words.join(" "));
        match request.messages.last().map(|message| &**message) {
            Some(Message::Tool(_)) => Reply::new([text]),
            _ => {
                let arguments = json!({"row": format!("{number:x}")}).to_string();
                Reply::new([text, ReplyPart::Call(ToolCall::new("", "write_row", arguments))])
            }
        }
    }
}

impl LanguageModel for Author {
    fn name(&self) -> &str {
        "author"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(Dialect::JsonSchema2020);
        capabilities.tools = true;
        capabilities
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move { Ok(self.reply(request)) })
    }

    fn stream<'a>(&'a self, request: Request) -> BoxStream<'a, Result<Delta>> {
        let reply = self.reply(&request);
        let text = reply.to_text();
        let words: Vec<_> = text.split_inclusive(' ').map(str::to_owned).collect();
        let deltas = words.into_iter().map(Delta::Text).chain([Delta::Done(Box::new(reply))]);
        stream::iter(deltas.collect::<Vec<_>>())
            .then(async |delta| {
                sleep(Duration::from_millis(5)).await;
                Ok(delta)
            })
            .boxed()
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let url = std::env::var("TOOLWRIGHT_POSTGRES")?;
    let port: u16 = std::env::var("PORT")?.parse()?;
    let lease = Duration::from_millis(std::env::var("LEASE")?.parse()?);
    let database = url.clone();
    let write = from_fn_with(move |input: WriteRow, cx: Context| {
        let (database, key) = (database.clone(), cx.idempotency_key().unwrap_or_default());
        async move {
            let (client, connection) =
                tokio_postgres::connect(&database, NoTls).await.map_err(ModuleError::retry)?;
            tokio::spawn(connection);
            let sql = "INSERT INTO written (key, line) VALUES ($1, $2)";
            client.execute(sql, &[&key, &input.row]).await.map_err(ModuleError::retry)?;
            // Time to be killed in, after the effect.
            sleep(Duration::from_millis(30)).await;
            Ok("written".to_owned())
        }
    });
    let tool = Tool::new(write)?.with_effect(Effect::Irreversible);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let author = Author(AtomicU64::new(since.as_micros() as u64));
    let agent = Agent::new(author, [tool])?
        .with_approval(ApprovalPolicy::from_effect(Effect::Irreversible))?;
    let runs = Runs::connect(&url, "author").await?.with_lease(lease);
    let service = Serve::new(runs, agent)
        .with_callers(async |parts| match parts.headers.get("x-user") {
            Some(user) => Ok(Caller::new(String::from_utf8_lossy(user.as_bytes()))),
            None => Err(Rejection::unauthorized("say who you are in `x-user`")),
        })
        .start();
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    axum::serve(listener, Router::new().merge(service.router())).await?;
    Ok(())
}
