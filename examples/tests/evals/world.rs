//! An eval whose tools change a world.
use std::collections::BTreeMap;

use toolwright::evals::{Attempt, Case, Eval, Grade, World, graders};
use toolwright::testing::SchemaDriven;
use toolwright::{Agent, Context, Result, tool};

#[derive(Clone, Default)]
struct Shop {
    cancelled: BTreeMap<u32, String>,
}

/// Cancel an order.
#[tool]
fn cancel_order(
    /// Number of the order.
    id: u32,
    /// Why, in a few words.
    reason: String,
    cx: &Context,
) -> Result<String> {
    World::<Shop>::of(cx)?.change(|shop| shop.cancelled.insert(id, reason));
    Ok("The order is cancelled.".to_owned())
}

#[tokio::test]
async fn one_order_is_cancelled() -> Result<()> {
    let agent = Agent::new(SchemaDriven::default(), [CancelOrder::tool()?])?;
    let one_cancelled =
        graders::end_state(|shop: &Shop, _: &Attempt| Grade::from(shop.cancelled.len() == 1));
    let report = Eval::agent("cancelling", agent)
        .with_cases([Case::new("one", "Cancel my order.")])
        .with_world(Shop::default())
        .with_grader("cancels one order", one_cancelled)
        .run(&Context::default())
        .await?;
    report.assert_at_least(1.0);
    Ok(())
}
