//! BudgetDatabase that several workers share.

use std::time::{Duration, SystemTime};

use tokio_postgres::error::SqlState;
use toolwright_module::budget::{
    Budget, BudgetState, Exhausted, Ledger, LimitKind, Money, Period, Price, Reserving,
    SharedBudget, Spent,
};
use toolwright_module::model::{Settings, Usage};
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Message, Reply, Request};
use toolwright_postgres::{BudgetDatabase, DatabaseBudget, RunsError};

use crate::support::{Database, database};

fn money(most: f64) -> Budget {
    Budget { money: Some(Money::new(most)), ..Budget::default() }
}

/// The cost of a call in cents.
fn cents(cents: u64) -> Spent {
    let mut spent = Spent::model_call(Usage::new(1_000, cents));
    spent.money = Money { micros: cents * 10_000 };
    spent
}

impl Database {
    async fn budgets(&self) -> BudgetDatabase {
        BudgetDatabase::connect(&self.url).await.unwrap()
    }

    /// Ends the leases of all reservations, as if their workers were dead.
    async fn end_reservations(&self) {
        let past =
            "UPDATE toolwright_reservations SET ends_at = clock_timestamp() - interval '1 s'";
        self.execute(past).await;
    }
}

async fn reserve(budget: &DatabaseBudget, key: &str, most: Spent) -> Option<BudgetState> {
    match budget.reserve(key, most).await.unwrap() {
        Reserving::Reserved => None,
        Reserving::Full(state) => Some(*state),
    }
}

async fn amounts(budget: &DatabaseBudget) -> (u64, u64) {
    let state = budget.state().await.unwrap();
    (state.spent.usage.output_tokens, state.held.usage.output_tokens)
}

#[tokio::test]
async fn a_call_counts_from_its_reservation_on_and_then_with_its_cost() {
    let Some(database) = database().await else { return };
    let budgets = database.budgets().await;
    let acme = budgets.budget("tenant=acme", Period::Day, money(1.0)).unwrap();
    assert_eq!(amounts(&acme).await, (0, 0));
    assert_eq!(reserve(&acme, "a", cents(60)).await, None);
    // The answer to the first attempt may have been lost.
    assert_eq!(reserve(&acme, "a", cents(60)).await, None);
    let full = reserve(&acme, "b", cents(60)).await.unwrap();
    assert_eq!((full.held, full.spent), (cents(60), Spent::default()));
    acme.settle("a", cents(15)).await.unwrap();
    // The second time changes nothing, and so does an unknown key.
    acme.settle("a", cents(15)).await.unwrap();
    acme.settle("x", cents(15)).await.unwrap();
    assert_eq!(amounts(&acme).await, (15, 0));
    // The rest to the last cent, and then only what costs nothing.
    assert_eq!(reserve(&acme, "b", cents(85)).await, None);
    assert!(reserve(&acme, "c", cents(1)).await.is_some());
    assert_eq!(reserve(&acme, "c", Spent::default()).await, None);
    // More than the whole budget does not fit into a new period either.
    let other = budgets.budget("tenant=other", Period::Day, money(1.0)).unwrap();
    assert!(reserve(&other, "d", cents(101)).await.is_some());
    assert_eq!(reserve(&other, "d", cents(100)).await, None);
    // Another period of the same owner is another budget.
    let month = budgets.budget("tenant=acme", Period::Month, money(1.0)).unwrap();
    assert_eq!(amounts(&month).await, (0, 0));
}

#[tokio::test]
async fn each_limit_holds() {
    let Some(database) = database().await else { return };
    let budgets = database.budgets().await;
    let call = Spent::model_call(Usage::new(10, 3));
    let limits = [
        Budget { model_calls: Some(3), ..Budget::default() },
        Budget { input_tokens: Some(39), ..Budget::default() },
        Budget { output_tokens: Some(9), ..Budget::default() },
        Budget { tokens: Some(39), ..Budget::default() },
        Budget { model_calls: Some(9), output_tokens: Some(9), ..money(0.0) },
    ];
    for (place, limits) in limits.into_iter().enumerate() {
        let budget = budgets.budget(format!("user={place}"), Period::Day, limits).unwrap();
        for nth in 0..3 {
            assert_eq!(reserve(&budget, &format!("{place}-{nth}"), call).await, None);
        }
        assert!(reserve(&budget, &format!("{place}-3"), call).await.is_some(), "{limits:?}");
    }
}

#[tokio::test]
async fn a_dead_workers_reservation_counts_in_full_and_a_late_worker_corrects_it() {
    let Some(database) = database().await else { return };
    let budgets = database.budgets().await;
    let acme = budgets.budget("tenant=acme", Period::Day, money(1.0)).unwrap();
    for key in ["dead", "late"] {
        assert_eq!(reserve(&acme, key, cents(40)).await, None);
    }
    acme.renew("late").await.unwrap();
    database.end_reservations().await;
    acme.renew("late").await.unwrap();
    // The next one who needs what is left finds it.
    let full = reserve(&acme, "c", cents(40)).await.unwrap();
    assert_eq!((full.spent, full.held), (cents(40), cents(40)));
    database.end_reservations().await;
    assert_eq!(amounts(&acme).await, (80, 0));
    acme.renew("late").await.unwrap();
    acme.settle("late", cents(10)).await.unwrap();
    acme.settle("late", cents(10)).await.unwrap();
    assert_eq!(amounts(&acme).await, (50, 0));
    assert_eq!(reserve(&acme, "c", cents(40)).await, None);
    // A day later, the row of the dead one is removed. What it counts for stays.
    let day = "UPDATE toolwright_reservations SET ends_at = ends_at - interval '25 hours' WHERE key = 'dead'";
    database.execute(day).await;
    database.budgets().await;
    assert_eq!(database.number("SELECT count(*) FROM toolwright_reservations").await, 1);
    assert_eq!(amounts(&acme).await, (50, 40));
}

#[tokio::test]
async fn each_period_of_the_servers_calendar_has_its_own_amount() {
    let Some(database) = database().await else { return };
    let budgets = database.budgets().await;
    for period in [Period::Day, Period::Month] {
        let budget = budgets.budget("user=ada", period, money(1.0)).unwrap();
        assert_eq!(reserve(&budget, "before", cents(90)).await, None);
        assert_eq!(reserve(&budget, "dead", cents(10)).await, None);
        let now = SystemTime::now();
        assert_eq!(budget.state().await.unwrap().until, period.around(now).end);
        // What was reserved in the period before is settled there.
        let earlier = format!(
            "ALTER TABLE toolwright_reservations DROP CONSTRAINT toolwright_reservations_owner_period_since_fkey;
            UPDATE toolwright_budgets SET since = since - interval '1 {period}' WHERE period = '{period}';
            UPDATE toolwright_reservations SET since = since - interval '1 {period}' WHERE period = '{period}';
            ALTER TABLE toolwright_reservations ADD FOREIGN KEY (owner, period, since) REFERENCES toolwright_budgets ON DELETE CASCADE"
        );
        database.execute(&earlier).await;
        assert_eq!(amounts(&budget).await, (0, 0));
        assert_eq!(reserve(&budget, "now", cents(100)).await, None);
        budget.settle("before", cents(30)).await.unwrap();
        database.end_reservations().await;
        assert_eq!(amounts(&budget).await, (100, 0));
        let of = |column| {
            format!(
                "SELECT {column} FROM toolwright_budgets WHERE period = '{period}' ORDER BY since LIMIT 1"
            )
        };
        assert_eq!(database.number(&of("spent_output_tokens")).await, 40);
        assert_eq!(database.number(&of("held_output_tokens")).await, 0);
        database.execute("DELETE FROM toolwright_budgets").await;
        assert_eq!(database.number("SELECT count(*) FROM toolwright_reservations").await, 0);
    }
    // Also in a session with another time zone.
    let url = format!("{}%20-ctimezone%3DPacific/Kiritimati", database.url);
    let budgets = BudgetDatabase::connect(&url).await.unwrap();
    for period in [Period::Day, Period::Month] {
        let budget = budgets.budget("user=ada", period, money(1.0)).unwrap();
        assert_eq!(reserve(&budget, &period.to_string(), cents(1)).await, None);
        let state = budget.state().await.unwrap();
        assert_eq!((state.until, state.held), (period.around(SystemTime::now()).end, cents(1)));
    }
}

#[tokio::test]
async fn many_calls_of_many_workers_never_exceed_the_budget_and_use_all_of_it() {
    let Some(database) = database().await else { return };
    let ceiling = "ALTER TABLE toolwright_budgets ADD CHECK (spent_money + held_money <= 1000000)";
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..4 {
        let budgets = database.budgets().await;
        if worker == 0 {
            database.execute(ceiling).await;
        }
        let acme = budgets.budget("tenant=acme", Period::Month, money(1.0)).unwrap();
        let ledger = Ledger::default()
            .with_prices([("scripted", Price::per_million(0.0, 10_000.0))])
            .with_shared_budget(acme);
        let cx = Context::default().with_ledger(ledger);
        for _ in 0..8 {
            let cx = cx.clone();
            workers.spawn(async move {
                let model = Scripted::new(|_| Ok(Reply::text("Hi.").with_usage(Usage::new(1, 3))));
                let settings = Settings::default().with_max_output_tokens(10);
                let request = Request::new([Message::user("Hi!")]).with_settings(settings);
                for made in 0_u64.. {
                    match cx.ask(&model, request.clone(), false).await {
                        Ok(_) => {}
                        Err(error) => {
                            let exhausted = error.downcast_ref::<Exhausted>().unwrap();
                            assert_eq!(exhausted.limit, LimitKind::Money);
                            assert_eq!(exhausted.owner, "`tenant=acme`");
                            return made;
                        }
                    }
                }
                0
            });
        }
    }
    let made: u64 = workers.join_all().await.into_iter().sum();
    // 31 calls cost 0.93, and another one may cost 0.10.
    assert_eq!(made, 31);
    let acme = database.budgets().await.budget("tenant=acme", Period::Month, money(1.0)).unwrap();
    let state = acme.state().await.unwrap();
    assert_eq!((state.spent.money, state.held), (Money::new(0.93), Spent::default()));
    assert_eq!(database.number("SELECT count(*) FROM toolwright_reservations").await, 0);
}

#[tokio::test]
async fn odd_owners_and_limits_are_errors_that_name_the_fix() {
    let Some(database) = database().await else { return };
    let budgets = database.budgets().await.with_lease(Duration::ZERO);
    let error =
        |owner: &str, limits| budgets.budget(owner, Period::Day, limits).unwrap_err().to_string();
    assert_eq!(error("", money(1.0)), "the budget of `` has no owner; name a user or a tenant");
    assert!(error("a\0", money(1.0)).contains("NUL"));
    assert!(error(&"a".repeat(1_001), money(1.0)).contains("1001 bytes; the maximum is 1000"));
    let tools = Budget { tool_calls: Some(1), ..Budget::default() };
    assert!(error("a", tools).ends_with("limit them in the `Ledger`"));
    // Amounts that no column holds are as good as the largest one.
    let budget = budgets.budget("'; --", Period::Day, money(f64::INFINITY)).unwrap();
    let mut most = cents(1);
    most.money.micros = u64::MAX;
    assert_eq!(reserve(&budget, "a", most).await, None);
    budget.settle("a", most).await.unwrap();
    assert!(budget.state().await.unwrap().spent.money.micros > 1 << 49);
    // BudgetDatabase without a limit count only.
    let budget = budgets.budget("free", Period::Day, Budget::default()).unwrap();
    assert_eq!(reserve(&budget, "b", cents(5)).await, None);
}

#[tokio::test]
async fn without_the_tables_and_with_those_of_another_version_the_error_says_so() {
    let Some(database) = database().await else { return };
    let budget = database.budgets().await.budget("a", Period::Day, money(1.0)).unwrap();
    database.execute("UPDATE toolwright_budgets_version SET version = 9").await;
    let error = BudgetDatabase::connect(&database.url).await.unwrap_err();
    assert!(matches!(error, RunsError::Version { found: 9, known: 1 }), "{error}");
    database.execute("DROP TABLE toolwright_reservations").await;
    let error = budget.reserve("a", cents(1)).await.unwrap_err();
    let Some(RunsError::Database { source }) = error.downcast_ref() else { panic!("{error:#}") };
    assert_eq!(source.code(), Some(&SqlState::UNDEFINED_TABLE));
}
