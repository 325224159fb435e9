//! A run that survives `kill -9`: every part of it is a row in a table of SQLite.
//!
//! Start it, kill it, and start it again with the same file: the run goes on where it was. A call
//! that was under way and that changes something is asked about.
//!
//! ```text
//! cargo run -p toolwright-examples --example stored_run -- run.db
//! ```
//!
//! The model is a script, so that the program needs no key. Environment variables make the
//! program kill itself at a chosen moment; a test of durability sets them.

#[path = "common/scripted_run.rs"]
mod scripted_run;

use std::env;
use std::error::Error;
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;
use scripted_run::{EchoModule, Script, approve, die_at, effect, ended, plan};
use toolwright_cli::say;
use toolwright_module::model::BoxFuture;
use toolwright_module::{Context, Tool};
use toolwright_orchestrator::Agent;
use toolwright_orchestrator::perform::{Open, Record, Replay, Store, with_performer};

/// The table of records. A row is on disk when its transaction has ended.
struct Table(Mutex<Connection>);

impl Table {
    fn open(path: &str) -> rusqlite::Result<Self> {
        let db = Connection::open(path)?;
        db.pragma_update(None, "journal_mode", "wal")?;
        db.pragma_update(None, "synchronous", "full")?;
        db.execute_batch("CREATE TABLE IF NOT EXISTS records (record TEXT NOT NULL)")?;
        Ok(Self(Mutex::new(db)))
    }

    fn records(&self) -> Result<Vec<Record>, Box<dyn Error>> {
        let db = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = db.prepare("SELECT record FROM records ORDER BY rowid")?;
        let texts = rows.query_map((), |row| row.get::<_, String>(0))?;
        texts.map(|text| Ok(serde_json::from_str(&text?)?)).collect()
    }
}

impl Store for Table {
    fn append<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<(), Open>> {
        Box::pin(async move {
            let text = serde_json::to_string(record)?;
            let db = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            db.execute("INSERT INTO records (record) VALUES (?1)", [text])?;
            drop(db);
            if let Some(name) = ended(record) {
                die_at("after", &name);
            }
            Ok(())
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = env::args().nth(1).or_else(|| env::var("WF").ok());
    let table = Table::open(&file.ok_or("give the file of the run, such as run.db")?)?;
    let tool = EchoModule { effect: effect(), prefix: String::new() };
    let model = Script { plan: plan()?, prefix: String::new() };
    let agent = Agent::new(model, [Tool::new(tool)?])?;

    // The outcomes so far come from the table, and new ones go to it. The rest is as without it.
    let replay = Replay::new(table.records()?, table);
    let cx = with_performer(&Context::default(), replay)
        .with_approver(|asked| approve(String::new(), asked));
    let finished = agent.run("Repeat the numbers.", &cx).await?;
    say(&serde_json::to_string(&finished.answer)?);
    Ok(())
}
