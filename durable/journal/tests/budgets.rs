//! BudgetFolder in a folder.

use std::fs;
use std::path::Path;
use std::time::Duration;

use toolwright_journal::{BudgetFolder, FolderBudget, Journal, JournalError};
use toolwright_module::budget::{
    Budget, Exhausted, Ledger, LimitKind, Money, Period, Price, Reserving, SharedBudget, Spent,
};
use toolwright_module::error::Stage;
use toolwright_module::model::{Settings, Usage};
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Message, Reply, Request};

use crate::support::{TASK, World};

fn money(most: f64) -> Budget {
    Budget { money: Some(Money::new(most)), ..Budget::default() }
}

fn open(folder: &Path) -> FolderBudget {
    // A lease without end is one of a day.
    let budgets = BudgetFolder::open(folder).unwrap().with_lease(Duration::MAX);
    budgets.budget("tenant=acme", Period::Month, money(1.0)).unwrap()
}

fn one_cent() -> Spent {
    let mut spent = Spent::model_call(Usage::new(0, 1));
    spent.money = Money::new(0.01);
    spent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_with_many_handles_never_exceed_the_budget_and_use_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let ledger = Ledger::default()
            .with_prices([("scripted", Price::per_million(0.0, 10_000.0))])
            .with_shared_budget(open(folder.path()));
        let cx = Context::default().with_ledger(ledger);
        workers.spawn(async move {
            let model = Scripted::new(|_| Ok(Reply::text("Hi.").with_usage(Usage::new(1, 3))));
            let settings = Settings::default().with_max_output_tokens(10);
            let request = Request::new([Message::user("Hi!")]).with_settings(settings);
            let mut made = 0_u64;
            loop {
                match cx.ask(&model, request.clone(), false).await {
                    Ok(_) => made += 1,
                    Err(error) => {
                        assert!(error.downcast_ref::<Exhausted>().is_some(), "{error:#}");
                        return made;
                    }
                }
            }
        });
    }
    let made: u64 = workers.join_all().await.into_iter().sum();
    assert_eq!(made, 31);
    let state = open(folder.path()).state().await.unwrap();
    assert_eq!((state.spent.money, state.held), (Money::new(0.93), Spent::default()));
    // A journal may use the same folder, and nothing is left but the file and its lock.
    assert!(Journal::open(folder.path()).unwrap().runs().unwrap().is_empty());
    let mut names: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let name = "tenant%3dacme.month.budget";
    assert_eq!(names, ["lock", name, &format!("{name}-lock")]);
}

#[tokio::test]
async fn a_run_that_a_budget_has_ended_goes_on_when_there_is_room_again() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, budgets) =
        (Journal::open(folder.path()).unwrap(), BudgetFolder::open(folder.path()).unwrap());
    let world = World::default();
    let cx = |calls| {
        let limits = Budget { model_calls: Some(calls), ..Budget::default() };
        let budget = budgets.budget("user=ada", Period::Month, limits).unwrap();
        Context::default().with_ledger(Ledger::default().with_shared_budget(budget))
    };
    for _ in 0..2 {
        let error = journal.drive(&world.small(), "run", TASK, &cx(1)).await.unwrap_err();
        let exhausted = error.downcast_ref::<Exhausted>().unwrap();
        assert_eq!((exhausted.limit, exhausted.left), (LimitKind::ModelCalls, 0));
    }
    // As in the next period.
    let finished = journal.drive(&world.small(), "run", TASK, &cx(9)).await.unwrap();
    assert_eq!(finished.answer, "Done.");
    let budget = budgets.budget("user=ada", Period::Month, Budget::default()).unwrap();
    let state = budget.state().await.unwrap();
    // Each call of the run once.
    assert_eq!(state.spent.model_calls, finished.spent.model_calls);
    assert_eq!(state.held, Spent::default());
}

#[tokio::test]
async fn a_file_that_is_not_the_budget_is_an_error_and_no_call_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let budget = open(folder.path());
    assert_eq!(budget.reserve("a", one_cent()).await.unwrap(), Reserving::Reserved);
    let path = folder.path().join("tenant%3dacme.month.budget");
    let good = fs::read(&path).unwrap();
    let mut flipped = good.clone();
    let place = flipped.len() - 10;
    flipped[place] ^= 1;
    let cases: [(&[u8], &str); 5] = [
        (&flipped, "the checksum of a record is wrong"),
        (&good[..good.len() - 1], "it is empty"),
        (b"", "it is empty"),
        (b"{}\n", "it is not a journal"),
        (b"toolwright-journal 9\n", "has the format `toolwright-journal 9`"),
    ];
    for (bytes, expected) in cases {
        fs::write(&path, bytes).unwrap();
        let error = budget.reserve("b", one_cent()).await.unwrap_err();
        assert_eq!(error.stage(), Stage::Journal);
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    // The file of another owner.
    fs::write(&path, &good).unwrap();
    let other = BudgetFolder::open(folder.path()).unwrap();
    let other = other.budget("tenant=other", Period::Month, money(1.0)).unwrap();
    fs::copy(&path, folder.path().join("tenant%3dother.month.budget")).unwrap();
    let error = other.state().await.unwrap_err();
    assert!(matches!(error, JournalError::Budget { .. }));
    assert!(error.to_string().contains("it is the budget of `tenant=acme`; restore"), "{error}");
    #[cfg(unix)]
    {
        let elsewhere = folder.path().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        let error = budget.state().await.unwrap_err();
        assert!(matches!(error, JournalError::NotAFile { .. }), "{error}");
    }
}

#[test]
fn odd_owners_and_limits_are_errors_that_name_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let budgets = BudgetFolder::open(folder.path()).unwrap();
    let error =
        |owner: &str, limits| budgets.budget(owner, Period::Day, limits).unwrap_err().to_string();
    assert_eq!(error("", money(1.0)), "the budget of `` has no owner; name a user or a tenant");
    assert!(error(&"a".repeat(4_097), money(1.0)).contains("4097 bytes; the maximum is 4096"));
    let tools = Budget { tool_calls: Some(1), ..Budget::default() };
    assert!(error("a", tools).ends_with("limit them in the `Ledger`"));
    // Without a runtime, as with a journal. Any owner has a file in the folder.
    let long = "a".repeat(4_096);
    for owner in ["..", "/etc/passwd", "a\0", "CON", "é", &long] {
        let budget = budgets.budget(owner, Period::Day, money(1.0)).unwrap();
        let state = at_once(budget.state()).unwrap();
        assert_eq!(state.spent, Spent::default());
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 12);
}

/// Returns the output of a future that is ready at once.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut cx) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("it is not ready"),
    }
}
