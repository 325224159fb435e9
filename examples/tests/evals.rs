//! An eval of an agent with ten cases, as a test.
use std::sync::Arc;

use serde_json::json;
use toolwright::evals::{CallMatching, Case, Eval, ExpectedCall, Judge, graders};
use toolwright::{Agent, Context, Result};

#[path = "evals/orders.rs"]
mod orders;

#[tokio::test]
async fn the_agent_knows_where_orders_are() -> Result<()> {
    let cases = [
        ("sent", "Where is order 1?", 1, "on its way"),
        ("delivered", "Has order 2 come?", 2, "delivered"),
        ("cancelled", "Is order 3 cancelled?", 3, "cancelled"),
        ("open", "When will you send order 4?", 4, "not been sent"),
        ("returned", "Did you get order 5 back?", 5, "returned"),
        ("short", "Order 6?", 6, "on its way"),
        ("rude", "WHERE IS MY ORDER 7!!", 7, "delivered"),
        ("German", "Wo ist Bestellung 8?", 8, "cancelled"),
        ("with a joke", "Is order 9 on the moon?", 9, "not been sent"),
        ("unknown", "Where is order 10?", 10, "no order"),
    ];
    let cases = cases.map(|(name, task, id, state)| {
        let call = ExpectedCall::new("get_order", json!({"id": id}));
        Case::new(name, task).expecting(state).expecting_calls([call])
    });
    let model = Arc::new(orders::model()); // Yours is `OpenAi::from_env("…")?`, for example.
    let judge = Judge::new(Arc::clone(&model), "The answer is polite, even if the user is not.")?;
    let report = Eval::agent("orders", Agent::new(model, [orders::GetOrder::tool()?])?)
        .with_cases(cases)
        .with_grader("calls", graders::makes_expected_calls(CallMatching::new()))
        .with_grader("state", graders::contains_expected())
        .with_grader("polite", judge)
        .run(&Context::default())
        .await?;
    report.assert_at_least(0.9);
    Ok(())
}
