//! A shop's assistant behind a page: two users, each with a million tokens a day, orders in SQLite, and
//! refunds that the user approves.
//!
//! `cargo run -p toolwright-examples --example service`

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};
use toolwright::agent::ApprovalPolicy;
use toolwright::journal::{BudgetFolder, Journal};
use toolwright::module::budget::{Budget, Ledger, Period};
use toolwright::openai::OpenAi;
use toolwright::prelude::*;
use toolwright::serve::{Caller, Rejection, Serve};

/// The user whose orders a tool may see.
struct User(String);

#[derive(Clone)]
struct Orders(Arc<Mutex<Connection>>);

#[toolset]
impl Orders {
    /// Find an order of the user.
    #[tool(effect = Read)]
    fn find_order(
        &self,
        #[context] user: &User,
        /// Number of the order.
        number: u32,
    ) -> Result<String> {
        self.with(|db| {
            let sql = "SELECT thing || ', ' || state FROM orders WHERE number = ?1 AND user = ?2";
            let found = db.query_row(sql, (number, &user.0), |row| row.get(0)).optional()?;
            found.ok_or_else(|| Error::retry(format!("The user has no order {number}.")))
        })
    }

    /// Pay the price of an order back.
    #[tool(effect = Irreversible)]
    fn refund(
        &self,
        #[context] user: &User,
        /// Number of the order.
        number: u32,
    ) -> Result<String> {
        self.with(|db| {
            let sql = "UPDATE orders SET state = 'refunded'
                WHERE number = ?1 AND user = ?2 AND state <> 'refunded'";
            match db.execute(sql, (number, &user.0))? {
                0 => Err(Error::retry(format!("There is nothing to refund for order {number}."))),
                _ => Ok(format!("Order {number} is refunded.")),
            }
        })
    }
}

impl Orders {
    fn open(path: &str) -> Result<Self> {
        let db = Connection::open(path)?;
        db.execute_batch(
            "CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, user, thing, state);
            INSERT OR IGNORE INTO orders VALUES (7, 'kate', 'a lamp', 'on its way'),
                (8, 'tom', 'a chair', 'delivered');",
        )?;
        Ok(Self(Arc::new(Mutex::new(db))))
    }

    fn with<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        work(&*self.0.lock().map_err(|_| Error::stop("a query has panicked"))?)
    }
}

/// Who a request comes from. A program of your own looks into its sessions.
async fn caller(request: Arc<http::request::Parts>) -> Result<Caller, Rejection> {
    match request.headers.get("authorization").map(|key| key.as_bytes()) {
        Some(b"Bearer kate-key") => Ok(Caller::new("kate")),
        Some(b"Bearer tom-key") => Ok(Caller::new("tom")),
        _ => Err(Rejection::unauthorized("send `authorization: Bearer kate-key`")),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = std::env::var("FOLDER").unwrap_or_else(|_| ".".to_owned());
    let orders = Orders::open(&format!("{folder}/orders.db"))?;
    let budgets = BudgetFolder::open(format!("{folder}/budgets"))?;
    let agent = Agent::new(OpenAi::from_env("gpt-4.1-mini")?, orders.tools()?)?
        .with_instructions(
            "You help the customers of a shop. Look an order up before you refund it.",
        )
        .with_approval(ApprovalPolicy::from_effect(Effect::Irreversible))?;
    let service = Serve::new(Journal::open(format!("{folder}/runs"))?, agent)
        .with_callers(caller)
        .with_context(move |caller| {
            let (budgets, user) = (budgets.clone(), caller.user().to_owned());
            async move {
                let limits = Budget { tokens: Some(1_000_000), ..Budget::default() };
                let budget = budgets.budget(&user, Period::Day, limits)?;
                let ledger = Ledger::default().with_shared_budget(budget);
                Ok(Context::default().with(User(user)).with_ledger(ledger))
            }
        })
        .start();

    let app = axum::Router::new().nest("/assistant", service.router());
    let port = std::env::var("PORT").unwrap_or_else(|_| "8080".to_owned());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("http://{}/assistant", listener.local_addr()?);
    let ends = async move {
        let _ = tokio::signal::ctrl_c().await;
        service.shutdown(Duration::from_secs(20)).await;
    };
    Ok(axum::serve(listener, app).with_graceful_shutdown(ends).await?)
}
