//! A conversation that is longer than its model's context, in a database, cut off at random requests.

use crate::support::database;
use crate::support::endless::Endless;

#[tokio::test]
async fn a_conversation_that_is_cut_off_ends_like_one_that_is_not() {
    let Some(database) = database().await else { return };
    let calm = Endless::new(200);
    let expected = calm.to_the_end(0, 0, async |agent, cx| agent.run(calm.task(), cx).await).await;
    let (kept, runs) = (Endless::new(200), database.runs().await);
    let finished = kept
        .to_the_end(8, 0x9e37_79b9_7f4a_7c15, async |agent, cx| {
            runs.drive(agent, "endless", kept.task(), cx).await
        })
        .await;
    kept.check();
    assert_eq!(finished, expected);
}
