//! Evals of agents with scripted models.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_evals::{
    Attempt, CallMatching, Case, Eval, EvalError, ExpectedCall, Grade, GradedAttempt, Judge,
    Report, StoredRun, World, graders,
};
use toolwright_journal::Journal;
use toolwright_module::budget::{Budget, Ledger, Money, Price};
use toolwright_module::model::Usage;
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Context, Effect, LanguageModel, Message, Reply, Request, Result, Signature, Tool, ToolCall,
    from_fn, from_fn_with,
};
use toolwright_orchestrator::Agent;

/// Cancel an order.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct CancelOrder {
    id: u32,
}

impl Signature for CancelOrder {
    type Output = String;
}

#[derive(Clone, Default)]
struct Shop {
    orders: BTreeMap<u32, &'static str>,
}

fn shop() -> Shop {
    Shop { orders: [(7, "open"), (8, "open")].into() }
}

fn cancel_order() -> Tool {
    let cancel = from_fn_with(async |CancelOrder { id }, cx: Context| {
        World::<Shop>::of(&cx)?.change(|shop| shop.orders.insert(id, "cancelled"));
        Ok("done".to_owned())
    });
    Tool::new(cancel.with_effect(Effect::Irreversible)).unwrap()
}

/// Cancels the order in the task, and says so.
fn model() -> impl LanguageModel {
    Scripted::new(|request: &Request| {
        Ok(match request.messages.last().map(|last| &**last) {
            Some(Message::Tool(_)) => Reply::text("It is cancelled."),
            _ => {
                let id = if format!("{:?}", request.messages).contains("order 8") { 8 } else { 7 };
                let id = json!({ "id": id }).to_string();
                Reply::calls([ToolCall::new("1", "cancel_order", id)])
            }
        })
    })
}

fn agent() -> Agent {
    Agent::new(model(), [cancel_order()]).unwrap()
}

fn cases() -> [Case; 2] {
    [Case::new("seven", "Cancel order 7."), Case::new("eight", "Cancel order 8.")]
}

#[tokio::test]
async fn each_attempt_changes_a_world_of_its_own() {
    let only_its_order = graders::end_state(|shop: &Shop, attempt: &Attempt| {
        let cancelled = shop.orders.iter().filter(|(_, state)| **state == "cancelled");
        let ids: Vec<_> = cancelled.map(|(id, _)| id.to_string()).collect();
        Grade::from(ids.len() == 1 && attempt.case.input.contains(&ids[0]))
    });
    let report = Eval::agent("orders", agent())
        .with_cases(cases())
        .with_world(shop())
        .with_grader("only its order", only_its_order)
        .with_grader("asks", graders::asks_before(Effect::Irreversible))
        .with_repeats(2)
        .run(&Context::default())
        .await
        .unwrap();
    assert_eq!(report.outcomes.len(), 4);
    assert_eq!(report.score("only its order").unwrap().mean, 1.0);
    // Nobody was asked.
    assert_eq!(report.score("asks").unwrap().mean, 0.0);
    let call = &report.outcomes[0].calls[0];
    assert_eq!((&*call.tool, call.effect), ("cancel_order", Some(Effect::Irreversible)));
    assert_eq!(report.outcomes[0].rounds, 2);
    insta::assert_snapshot!(report);
}

#[tokio::test]
async fn a_killed_eval_makes_only_the_attempts_that_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let eval = |fails_after: usize| {
        let counted = Arc::clone(&count);
        let counts = graders::of(move |_: &Attempt| {
            counted.fetch_add(1, Ordering::Relaxed);
            Grade::pass()
        });
        let cases = (0..20).map(|nth| Case::new(format!("case {nth}"), "Cancel order 7."));
        Eval::agent("orders", agent())
            .with_cases(cases)
            .with_world(shop())
            .with_concurrency(1)
            .with_grader("counts", counts)
            .with_folder(folder.path())
            .with_progress(move |done, _, _| assert!(done <= fails_after, "killed"))
    };
    // The panic of the listener drops the eval in the middle, as a kill would.
    let first = tokio::spawn({
        let eval = eval(5);
        async move { eval.run(&Context::default()).await }
    });
    first.await.unwrap_err();
    let before = count.swap(0, Ordering::Relaxed);
    assert!((5..20).contains(&before), "{before}");
    let report = eval(20).run(&Context::default()).await.unwrap();
    assert_eq!(report.outcomes.len(), 20);
    report.assert_at_least(1.0);
    let after = count.swap(0, Ordering::Relaxed);
    assert!(after < 20 && before + after >= 20, "{before} {after}");
    // It has ended, so it begins anew.
    eval(20).run(&Context::default()).await.unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 20);
    let previous = Report::load(folder.path().join("previous.json")).unwrap();
    assert_eq!(previous.outcomes.len(), 20);
    for (file, begin) in [("again.json", "{"), ("again.xml", "<?xml"), ("again.html", "<!DOCTYPE")]
    {
        previous.save(folder.path().join(file)).unwrap();
        let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(text.starts_with(begin), "{file}: {}", &text[..20]);
    }

    // The runs are there, and can be graded like those of production.
    let journal = Journal::open(folder.path().join("runs")).unwrap();
    let runs = journal.runs().unwrap().into_iter().map(|run| {
        let entries = journal.entries(&run.id).unwrap();
        StoredRun::new(&run.id, entries, journal.tools(&run.id).unwrap())
    });
    let stored = Eval::agent("orders", agent())
        .with_grader("asks", graders::asks_before(Effect::Irreversible))
        .with_grader("says so", graders::contains("cancelled"))
        .grade_stored(runs, &Context::default())
        .await
        .unwrap();
    assert_eq!(stored.outcomes.len(), 20);
    assert_eq!(stored.score("says so").unwrap().mean, 1.0);
    assert_eq!(stored.score("asks").unwrap().mean, 0.0);
    assert_eq!(stored.outcomes[0].calls, previous.outcomes[0].calls);
}

/// Search orders.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct SearchOrders {
    text: String,
    #[serde(default)]
    page: u32,
}

impl Signature for SearchOrders {
    type Output = Vec<u32>;
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Found {
    id: u32,
}

/// The end of a typed run is not a call, and the contract of a stored run is that of a live one.
#[tokio::test]
async fn expected_calls_of_a_typed_agent_are_the_same_live_and_stored() {
    let model = Scripted::new(|request: &Request| {
        Ok(match request.messages.last().map(|last| &**last) {
            Some(Message::Tool(_)) => {
                // The first answer does not fit, and the model has to correct it.
                let answer = match request.messages.len() {
                    ..4 => r#"{"id": "x"}"#,
                    _ => r#"{"id": 7}"#,
                };
                Reply::calls([ToolCall::new("2", "finish", answer)])
            }
            _ => {
                let arguments = json!({"text": "Ada", "page": 0}).to_string();
                Reply::calls([ToolCall::new("1", "search_orders", arguments)])
            }
        })
    });
    let search = from_fn(async |_: SearchOrders| Ok(vec![7])).with_effect(Effect::Read);
    let tools = [Tool::new(search).unwrap()];
    let agent = Agent::new(model, tools).unwrap().answering::<Found>().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let call = ExpectedCall::new("search_orders", json!({"text": "Ada"}));
    let case = Case::<String, Found>::new("ada", "Find Ada's order.").expecting_calls([call]);
    let eval = Eval::agent("search", agent.clone())
        .with_cases([case.clone()])
        .with_grader("calls", graders::makes_expected_calls(CallMatching::new()))
        .with_folder(folder.path());
    let live = eval.run(&Context::default()).await.unwrap();
    live.assert_at_least(1.0);
    assert_eq!(live.outcomes[0].rounds, 3);

    let journal = Journal::open(folder.path().join("runs")).unwrap();
    let run = journal.runs().unwrap().remove(0);
    let entries = journal.entries(&run.id).unwrap();
    let stored = StoredRun::new(&run.id, entries, journal.tools(&run.id).unwrap());
    let mut case = case;
    case.name = run.id;
    let report = Eval::agent("search", agent)
        .with_cases([case])
        .with_grader("calls", graders::makes_expected_calls(CallMatching::new()))
        .grade_stored([stored], &Context::default())
        .await
        .unwrap();
    report.assert_at_least(1.0);
}

#[tokio::test]
async fn what_fails_is_in_the_report() {
    let model = Scripted::new(|request: &Request| {
        let asked = format!("{:?}", request.messages);
        assert!(!asked.contains("panic"), "the model panics");
        match asked.contains("fail") {
            true => Err(toolwright_module::Error::other("no network")),
            false => Ok(Reply::text("Yes.")),
        }
    });
    let cases = [Case::new("one", "fail"), Case::new("two", "panic"), Case::new("three", "Go.")];
    let broken = graders::of(|attempt: &Attempt| {
        assert_ne!(attempt.case.name, "three", "the grader panics");
        Grade::pass()
    });
    let report = Eval::agent("faults", Agent::new(model, []).unwrap())
        .with_cases(cases)
        .with_grader("broken", broken)
        .run(&Context::default())
        .await
        .unwrap();
    assert_eq!(report.pass_rate().unwrap().mean, 0.0);
    insta::assert_snapshot!(report);
}

#[tokio::test]
async fn a_budget_leaves_attempts_out_and_is_not_the_fault_of_the_agent() {
    let cases = (0..10).map(|nth| Case::new(format!("case {nth}"), "Cancel order 7."));
    let budget = Budget { model_calls: Some(7), ..Budget::default() };
    let report = Eval::agent("orders", agent())
        .with_cases(cases)
        .with_world(shop())
        .with_concurrency(1)
        .with_budget(budget)
        .with_grader("says so", graders::contains("cancelled"))
        .run(&Context::default())
        .await
        .unwrap();
    assert_eq!((report.outcomes.len(), report.left_out.len()), (3, 7));
    assert!(report.outcomes.iter().all(|one| one.passed()), "{report}");
    std::panic::catch_unwind(|| report.assert_at_least(0.1)).unwrap_err();
}

#[tokio::test]
async fn a_budget_of_money_leaves_attempts_out_too() {
    // Seven calls fit the budget.
    let usage = Usage::new(1_000, 0);
    let model = Scripted::new(move |_| Ok(Reply::text("It is cancelled.").with_usage(usage)));
    let prices = [(model.name().to_owned(), Price::per_million(150.0, 0.0))];
    let cases = (0..10).map(|nth| Case::new(format!("case {nth}"), "Cancel order 7."));
    let budget = Budget { money: Some(Money::new(1.0)), ..Budget::default() };
    let report = Eval::agent("orders", Agent::new(model, []).unwrap())
        .with_cases(cases)
        .with_concurrency(1)
        .with_budget(budget)
        .with_grader("says so", graders::contains("cancelled"))
        .run(&Context::default().with_ledger(Ledger::default().with_prices(prices)))
        .await
        .unwrap();
    assert!(report.outcomes.iter().all(|one| one.passed()), "{report}");
    assert_eq!((report.outcomes.len(), report.left_out.len()), (7, 3), "{report}");
    let reason = &report.left_out[0].reason;
    assert!(reason.starts_with("`the eval orders` has 0.00 USD of 1.00 USD left"), "{report}");
}

#[tokio::test]
async fn a_budget_that_a_grader_uses_up_is_not_the_fault_of_the_agent() {
    let said = || Scripted::new(|_: &Request| Ok(Reply::text(r#"{"reason": "Yes.", "score": 9}"#)));
    let cases = (0..4).map(|nth| Case::new(format!("case {nth}"), "Go."));
    // Each attempt takes two calls: that of the agent and that of the judge.
    let budget = Budget { model_calls: Some(3), ..Budget::default() };
    let report = Eval::agent("judged", Agent::new(said(), []).unwrap())
        .with_cases(cases)
        .with_concurrency(1)
        .with_budget(budget)
        .with_grader("judge", Judge::new(said(), "It is good.").unwrap())
        .run(&Context::default())
        .await
        .unwrap();
    assert_eq!((report.outcomes.len(), report.left_out.len()), (1, 3), "{report}");
    assert!(report.outcomes[0].passed(), "{report}");
}

#[tokio::test]
async fn an_attempt_that_cannot_be_prepared_is_left_out_and_does_not_disappear() {
    let report = Eval::agent("orders", agent())
        .with_cases(cases())
        .with_world_of(|case| match case.name.as_str() {
            "seven" => panic!("no shop"),
            _ => shop(),
        })
        .with_grader("says so", graders::contains("cancelled"))
        .run(&Context::default())
        .await
        .unwrap();
    assert_eq!(report.outcomes.len(), 1);
    assert_eq!(report.left_out[0].reason, "it panicked: no shop");
    std::panic::catch_unwind(|| report.assert_at_least(0.5)).unwrap_err();
}

#[tokio::test]
async fn a_recording_stays_if_a_grader_fails() {
    let folder = tempfile::tempdir().unwrap();
    let eval = |judge: fn() -> Result<Reply>| {
        Eval::agent("orders", agent())
            .with_cases([Case::new("seven", "Cancel order 7.")])
            .with_world(shop())
            .with_grader("judge", Judge::new(Scripted::new(move |_| judge()), "Polite.").unwrap())
            .with_new_recordings(folder.path())
    };
    let content = || Ok(Reply::text(r#"{"reason": "Short.", "score": 8}"#));
    eval(content).run(&Context::default()).await.unwrap().assert_at_least(1.0);
    let file = folder.path().join("seven.json");
    let before = std::fs::read_to_string(&file).unwrap();
    let broken = || Err(toolwright_module::Error::other("no network"));
    let report = eval(broken).run(&Context::default()).await.unwrap();
    assert!(!report.outcomes[0].passed());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
}

#[tokio::test]
async fn a_case_with_the_name_of_a_repeat_is_an_error() {
    let cases = [Case::new("one", "Go."), Case::new("one, repeat 2", "Go.")];
    let ran = Eval::agent("orders", agent())
        .with_cases(cases)
        .with_repeats(2)
        .with_grader("any", graders::contains(""))
        .run(&Context::default())
        .await;
    assert!(matches!(ran, Err(EvalError::Names { name }) if name == "one, repeat 2"));
}

#[tokio::test]
async fn an_eval_without_cases_or_graders_is_an_error() {
    let none = Eval::<String, String>::agent("none", agent()).run(&Context::default()).await;
    assert!(matches!(none, Err(EvalError::Empty { what: "graders", .. })));
    let twice = [Case::new("one", "Go."), Case::new("one", "Go again.")];
    let twice = Eval::agent("twice", agent())
        .with_cases(twice)
        .with_grader("any", graders::contains(""))
        .run(&Context::default())
        .await;
    assert_eq!(
        twice.unwrap_err().to_string(),
        "two cases have the name `one`; give each case a name of its own"
    );
}

#[tokio::test]
async fn a_module_is_evaluated_by_typed_values() -> Result<()> {
    let module = from_fn_with(async |CancelOrder { id }, _| Ok(format!("cancelled {id}")));
    let report = Eval::module("module", module)
        .with_cases([
            Case::new("one", CancelOrder { id: 7 }).expecting("cancelled 7"),
            Case::new("two", CancelOrder { id: 8 }).expecting("cancelled 7"),
        ])
        .with_grader("equal", graders::equals_expected())
        .run(&Context::default())
        .await?;
    report.assert_at_least(0.5);
    let reason = &report.outcomes[1].grades[0].reason;
    assert_eq!(reason, r#"$: expected "cancelled 7", got "cancelled 8""#);
    Ok(())
}

/// A model that nobody may ask.
fn no_model() -> impl LanguageModel {
    Scripted::new(|_: &Request| -> Result<Reply> { panic!("the model was asked") })
}

#[tokio::test]
async fn a_recorded_eval_asks_no_model_and_names_the_contract_that_changed() {
    let folder = tempfile::tempdir().unwrap();
    let eval = |agent: Agent| {
        let polite = Judge::new(no_model(), "The answer is polite.").unwrap();
        Eval::agent("orders", agent)
            .with_cases(cases())
            .with_world(shop())
            .with_grader("says so", graders::contains("cancelled"))
            .with_grader("polite", polite)
    };
    let judge = Scripted::new(|_: &Request| Ok(Reply::text(r#"{"reason": "Short.", "score": 8}"#)));
    let cx = Context::default();
    let recorded = Eval::agent("orders", agent())
        .with_cases(cases())
        .with_world(shop())
        .with_grader("says so", graders::contains("cancelled"))
        .with_grader("polite", Judge::new(judge, "The answer is polite.").unwrap())
        .with_new_recordings(folder.path())
        .run(&cx)
        .await
        .unwrap();
    recorded.assert_at_least(1.0);

    let replayed = Agent::new(no_model(), [cancel_order()]).unwrap();
    let replayed = eval(replayed).with_recordings(folder.path()).run(&cx).await.unwrap();
    let same = |report: &Report| {
        let what = |one: &GradedAttempt| {
            (one.output.clone(), one.calls.clone(), one.grades.clone(), one.tokens, one.rounds)
        };
        report.outcomes.iter().map(what).collect::<Vec<_>>()
    };
    assert_eq!(same(&replayed), same(&recorded));

    // A tool with another contract.
    let cancel = from_fn_with(async |CancelOrderSoon { .. }, _| Ok("done".to_owned()));
    let cancel = Tool::new(cancel).unwrap().named("cancel_order").unwrap();
    let changed = Agent::new(no_model(), [cancel]).unwrap();
    let changed = eval(changed).with_recordings(folder.path()).run(&cx).await.unwrap();
    insta::assert_snapshot!(changed);

    // A case that was not recorded.
    let more = Agent::new(no_model(), [cancel_order()]).unwrap();
    let more = eval(more)
        .with_cases([Case::new("nine", "Cancel order 9.")])
        .with_recordings(folder.path())
        .run(&cx)
        .await
        .unwrap();
    assert_eq!(more.left_out.len(), 1);
    assert!(more.left_out[0].reason.contains("set TOOLWRIGHT_RECORD=1"), "{more}");
}

/// Cancel an order.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct CancelOrderSoon {
    id: u32,
    /// Why.
    #[schemars(length(max = 80))]
    reason: String,
}

impl Signature for CancelOrderSoon {
    type Output = String;
}
