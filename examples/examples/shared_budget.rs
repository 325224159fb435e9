//! A worker that spends the budget of a tenant, which it shares with other workers.
//!
//! Start several at the same time, kill any of them, and start it again: together they never spend more
//! than the limit, and they spend all of it.
//!
//! ```text
//! cargo run -p toolwright-examples --example shared_budget -- --folder budgets --limit 5
//! cargo run -p toolwright-examples --example shared_budget -- --limit 5 --postgres postgres://user:password@127.0.0.1/database
//! ```
//!
//! A call costs at most 0.10. The program ends when the rest of the budget is less than that, and prints
//! why no further call is made. The model is made up; `--server` names one that counts what it charges,
//! for tests.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use toolwright_cli::say;
use toolwright_module::budget::{Budget, Exhausted, Ledger, Money, Period, Price};
use toolwright_module::model::{BoxFuture, Capabilities, Settings, Usage};
use toolwright_module::{Context, Dialect, LanguageModel, Message, Reply, Request, Result};

/// Spends the budget of a tenant, together with other workers.
#[derive(Parser)]
struct Args {
    /// Who has the budget
    #[arg(long, default_value = "tenant=acme")]
    owner: String,
    /// How much may be spent in a month
    #[arg(long, value_name = "MONEY")]
    limit: f64,
    /// Keep the budget in this folder
    #[arg(long, conflicts_with = "postgres", required_unless_present = "postgres")]
    folder: Option<PathBuf>,
    /// Keep the budget in this database
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// Number of calls at the same time
    #[arg(long, default_value_t = 4)]
    parallel: usize,
    /// How long the others wait for the reservations of a worker that was killed
    #[arg(long, value_name = "MS", default_value_t = 2_000)]
    lease: u64,
    /// Address of a server that charges for the calls
    #[arg(long, value_name = "ADDRESS")]
    server: Option<String>,
}

/// The largest output of a call, in tokens. A token costs 0.01.
const MOST: u64 = 10;

/// A model that writes at most ten tokens.
struct Model {
    owner: String,
    server: Option<String>,
}

impl LanguageModel for Model {
    fn name(&self) -> &str {
        "made-up"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            let Some(server) = &self.server else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                return Ok(Reply::text("Hello.").with_usage(Usage::new(5, 3)));
            };
            let mut stream = TcpStream::connect(server).await?;
            stream.write_all(format!("{} {MOST}\n", self.owner).as_bytes()).await?;
            let mut written = String::new();
            stream.read_to_string(&mut written).await?;
            Ok(Reply::text("Hello.").with_usage(Usage::new(5, written.trim().parse()?)))
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let limits = Budget { money: Some(Money::new(args.limit)), ..Budget::default() };
    let ledger = Ledger::default().with_prices([("made-up", Price::per_million(0.0, 10_000.0))]);
    let (lease, owner) = (Duration::from_millis(args.lease), args.owner.clone());
    let ledger = match (&args.folder, &args.postgres) {
        (Some(folder), _) => {
            let budgets = toolwright_journal::BudgetFolder::open(folder)?.with_lease(lease);
            ledger.with_shared_budget(budgets.budget(owner, Period::Month, limits)?)
        }
        (None, url) => {
            let url = url.as_deref().unwrap_or_default();
            let budgets =
                toolwright_postgres::BudgetDatabase::connect(url).await?.with_lease(lease);
            ledger.with_shared_budget(budgets.budget(owner, Period::Month, limits)?)
        }
    };
    let cx = Context::default().with_ledger(ledger);
    let mut calls = JoinSet::new();
    for _ in 0..args.parallel {
        let (cx, owner, server) = (cx.clone(), args.owner.clone(), args.server.clone());
        calls.spawn(async move {
            let model = Model { owner, server };
            let settings = Settings::default().with_max_output_tokens(MOST);
            let request = Request::new([Message::user("Hello!")]).with_settings(settings);
            loop {
                if let Err(error) = cx.ask(&model, request.clone(), false).await {
                    return error;
                }
            }
        });
    }
    for error in calls.join_all().await {
        if error.downcast_ref::<Exhausted>().is_none() {
            return Err(error.into_std().into());
        }
        say(&error.to_string());
    }
    Ok(())
}
