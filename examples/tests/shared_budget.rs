//! The example `shared_budget`: workers that share the budget of a tenant, also killed at random moments
//! and started again.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use toolwright_module::budget::{Budget, BudgetState, Money, Period, Spent};

use crate::common::program;

/// The limit of each tenant, in cents: 200 calls at their largest cost.
const LIMIT: u64 = 2_000;
/// The largest cost of a call.
const MOST: u64 = 10;
const LEASE: Duration = Duration::from_millis(500);

fn limits() -> Budget {
    Budget { money: Some(cents(LIMIT)), ..Budget::default() }
}

fn cents(cents: u64) -> Money {
    Money { micros: cents * 10_000 }
}

/// The server of the model. It charges for a call when it gets the call, whether or not the worker
/// lives to see the answer.
struct Server {
    address: SocketAddr,
    charges: Arc<Mutex<BTreeMap<String, Charged>>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Charged {
    cents: u64,
    calls: u64,
    /// Calls whose worker was gone before the answer.
    lost: u64,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, charges) = (listener.local_addr().unwrap(), Arc::<Mutex<_>>::default());
        let shared = Arc::clone(&charges);
        std::thread::spawn(move || {
            let number = AtomicU64::new(1);
            for stream in listener.incoming().flatten() {
                let charges = Arc::clone(&shared);
                let number = number.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || charge(&stream, &charges, number));
            }
        });
        Self { address, charges }
    }

    fn charged(&self, owner: &str) -> Charged {
        self.charges.lock().unwrap().get(owner).copied().unwrap_or_default()
    }
}

fn charge(mut stream: &TcpStream, charges: &Mutex<BTreeMap<String, Charged>>, number: u64) {
    let mut line = String::new();
    // A worker may be killed at any moment.
    if !BufReader::new(stream).read_line(&mut line).is_ok_and(|_| line.ends_with('\n')) {
        return;
    }
    let (owner, most) = line.trim_end().split_once(' ').unwrap();
    assert_eq!(most, MOST.to_string());
    let cost = 1 + number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % MOST;
    {
        let mut charges = charges.lock().unwrap();
        let charged = charges.entry(owner.to_owned()).or_default();
        charged.cents += cost;
        charged.calls += 1;
    }
    std::thread::sleep(Duration::from_millis(number % 20));
    let is_there = stream.set_nonblocking(true).is_ok() && stream.peek(&mut [0]).is_err();
    let _ = stream.set_nonblocking(false);
    if !is_there || writeln!(stream, "{cost}").is_err() {
        charges.lock().unwrap().entry(owner.to_owned()).or_default().lost += 1;
    }
}

/// The place of the budgets.
#[derive(Clone)]
enum Home {
    Folder(std::path::PathBuf),
    Database(String),
}

impl Home {
    fn worker(&self, owner: &str, server: &Server, lease: Duration) -> Child {
        let mut command = program("shared_budget");
        match self {
            Self::Folder(folder) => command.arg("--folder").arg(folder),
            Self::Database(url) => command.args(["--postgres", url]),
        };
        // Without the currency.
        let (limit, lease) = ((LIMIT / 100).to_string(), lease.as_millis().to_string());
        let address = server.address.to_string();
        let arguments = ["--limit", &limit, "--lease", &lease, "--server", &address];
        command.args(arguments).args(["--owner", owner, "--parallel", "8"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    async fn state(&self, owner: &str) -> BudgetState {
        match self {
            Self::Folder(folder) => {
                let budgets = toolwright_journal::BudgetFolder::open(folder).unwrap();
                let budget = budgets.budget(owner, Period::Month, limits()).unwrap();
                budget.state().await.unwrap()
            }
            Self::Database(url) => {
                let budgets = toolwright_postgres::BudgetDatabase::connect(url).await.unwrap();
                let budget = budgets.budget(owner, Period::Month, limits()).unwrap();
                budget.state().await.unwrap()
            }
        }
    }
}

/// Lets workers spend one budget after another, and kills one of them at random moments. `check` looks at the stored amounts at any moment.
async fn spend(home: Home, workers: usize, kills: u64, check: impl AsyncFn(&str)) {
    let mut seed = std::env::var("SEED").map_or(0x9e37_79b9_7f4a_7c15, |it| it.parse().unwrap());
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let (server, began) = (Server::start(), Instant::now());
    let (mut killed, mut checks, mut budgets, mut sum) = (0, 0_u64, 0, Charged::default());
    // The first budget is spent without a kill, so that each cost is known.
    while budgets == 0 || killed < kills {
        let owner = format!("tenant={budgets}");
        let kills = if budgets == 0 { 0 } else { kills };
        let killed_before = killed;
        let mut running: Vec<Option<Child>> =
            (0..workers).map(|_| Some(home.worker(&owner, &server, LEASE))).collect();
        while running.iter().any(Option::is_some) {
            let wait = Instant::now() + Duration::from_millis(random(300));
            loop {
                check(&owner).await;
                checks += 1;
                assert!(server.charged(&owner).cents <= LIMIT, "{:?}", server.charged(&owner));
                if Instant::now() >= wait {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            if killed < kills {
                let place = usize::try_from(random(workers as u64)).unwrap();
                if let Some(mut child) = running[place].take() {
                    let _ = child.kill();
                    // It may have ended before.
                    running[place] = match ended(child) {
                        None => {
                            killed += 1;
                            Some(home.worker(&owner, &server, LEASE))
                        }
                        Some(()) => None,
                    };
                }
            }
            for place in &mut running {
                *place = place.take().and_then(|mut child| match child.try_wait().unwrap() {
                    None => Some(child),
                    Some(_) => ended(child).and(None),
                });
            }
        }
        // The last one may have been killed, and its lease goes on.
        tokio::time::sleep(LEASE + Duration::from_millis(100)).await;
        let (state, charged) = (home.state(&owner).await, server.charged(&owner));
        assert_eq!(state.held, Spent::default(), "something is left reserved");
        assert!(state.spent.money <= cents(LIMIT), "{state:?}");
        assert!(cents(charged.cents) <= state.spent.money, "{charged:?} {state:?}");
        // It was spent: another call could exceed it.
        assert!(state.spent.money > cents(LIMIT - MOST), "{state:?}");
        if killed == killed_before {
            assert_eq!(cents(charged.cents), state.spent.money, "{charged:?} {state:?}");
        }
        if budgets == 0 {
            println!("without a kill: {} calls in {:.1?}", charged.calls, began.elapsed() - LEASE);
        }
        sum.cents += charged.cents;
        sum.calls += charged.calls;
        sum.lost += charged.lost;
        budgets += 1;
    }
    println!(
        "{killed} kills of {workers} workers, {budgets} budgets of {}, {:.0?}: {} calls cost {}, {} of them were lost; {checks} checks",
        cents(LIMIT),
        began.elapsed(),
        sum.calls,
        cents(sum.cents),
        sum.lost,
    );
}

/// Waits for a worker. Returns `None` if it was killed.
fn ended(child: Child) -> Option<()> {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    output.status.code().map(|code| {
        assert_eq!(code, 0, "{stdout}{stderr}");
        assert!(stdout.contains("of 20.00 USD left to spend until"), "{stdout}");
    })
}

async fn in_a_folder(kills: u64) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::Folder(folder.path().join("budgets"));
    let look = home.clone();
    let check = async move |owner: &str| {
        let state = look.state(owner).await;
        assert!(state.spent.money.micros + state.held.money.micros <= cents(LIMIT).micros);
    };
    spend(home, 2, kills, check).await;
}

fn kills(default: u64) -> u64 {
    std::env::var("KILLS").map_or(default, |text| text.parse().unwrap())
}

#[tokio::test]
async fn two_processes_that_share_a_folder_never_exceed_a_budget_when_they_are_killed() {
    in_a_folder(4).await;
}

/// `KILLS` sets how often a worker is killed. Default: 100.
#[tokio::test]
#[ignore = "takes a minute"]
async fn heavy_budgets_in_a_folder_hold_when_workers_are_killed() {
    in_a_folder(kills(100)).await;
}

/// Returns the name of a schema, and a URL with it.
fn schema(server: &str, name: &str) -> (String, String) {
    let schema = format!("toolwright_budgets_{name}_{}", std::process::id());
    let and = if server.contains('?') { '&' } else { '?' };
    let url = format!("{server}{and}options=-csearch_path%3D{schema}");
    (schema, url)
}

async fn execute(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap();
}

/// `TOOLWRIGHT_POSTGRES_RESTART` names the program that kills the server and starts it again.
#[tokio::test]
#[ignore = "kills the database server: see durable/postgres/tests/server.sh"]
async fn heavy_budgets_in_a_database_hold_when_its_server_is_killed() {
    let (Ok(server), Ok(restart)) =
        (std::env::var("TOOLWRIGHT_POSTGRES"), std::env::var("TOOLWRIGHT_POSTGRES_RESTART"))
    else {
        println!("skipped: run durable/postgres/tests/server.sh");
        return;
    };
    let (schema, url) = schema(&server, "server");
    execute(&url, &format!("CREATE SCHEMA {schema}")).await;
    let (home, model, owner) = (Home::Database(url.clone()), Server::start(), "tenant=acme");
    let mut workers: Vec<Child> =
        (0..4).map(|_| home.worker(owner, &model, Duration::from_secs(60))).collect();
    let (mut kills, mut calls) = (0, 0);
    while workers.iter_mut().any(|worker| worker.try_wait().unwrap().is_none()) {
        assert!(model.charged(owner).cents <= LIMIT);
        // Each time that work has gone on, while there is enough to spend.
        if kills < 3 && model.charged(owner).calls >= calls + 40 {
            assert!(std::process::Command::new(&restart).status().unwrap().success());
            calls = model.charged(owner).calls;
            kills += 1;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // None of them has failed.
    for worker in workers {
        ended(worker).unwrap();
    }
    // Statements whose answers were lost were made again, and counted once.
    let (state, charged) = (home.state(owner).await, model.charged(owner));
    assert_eq!((kills, state.held), (3, Spent::default()));
    assert_eq!(state.spent.money, cents(charged.cents), "{charged:?}");
    assert_eq!(state.spent.model_calls, charged.calls);
    println!("{kills} kills of the server: {} calls cost {}", charged.calls, state.spent.money);
    execute(&url, &format!("DROP SCHEMA {schema} CASCADE")).await;
}

/// `KILLS` sets how often a worker is killed. Default: 1,000.
#[tokio::test]
#[ignore = "takes minutes, and needs a database: see durable/postgres/tests/server.sh"]
async fn heavy_budgets_in_a_database_hold_when_workers_are_killed() {
    let Ok(server) = std::env::var("TOOLWRIGHT_POSTGRES") else {
        println!("skipped: run durable/postgres/tests/server.sh");
        return;
    };
    let (schema, url) = schema(&server, "kills");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("CREATE SCHEMA {schema}")).await.unwrap();
    // No version of any row is above the limit or below zero, whether or not somebody looks at it.
    toolwright_postgres::BudgetDatabase::connect(&url).await.unwrap();
    let ceiling = format!(
        "ALTER TABLE toolwright_budgets ADD CHECK (spent_money + held_money <= {}
            AND spent_money >= 0 AND held_money >= 0)",
        cents(LIMIT).micros
    );
    client.batch_execute(&ceiling).await.unwrap();
    // What is held is the sum of the reservations.
    let sums = "SELECT count(*) FROM toolwright_budgets AS budget WHERE held_money <> (
        SELECT coalesce(sum(money), 0) FROM toolwright_reservations AS reservation
        WHERE reservation.owner = budget.owner AND NOT has_ended)";
    let has_failed = AtomicBool::new(false);
    let check = async |_: &str| {
        let wrong: i64 = client.query_one(sums, &[]).await.unwrap().get(0);
        has_failed.fetch_or(wrong != 0, Ordering::Relaxed);
    };
    spend(Home::Database(url), 4, kills(1_000), check).await;
    assert!(!has_failed.into_inner(), "the reservations and what is held differ");
    client.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.unwrap();
}
