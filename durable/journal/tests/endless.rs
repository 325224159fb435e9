//! A conversation that is longer than its model's context, in a folder, cut off at random requests.

use std::time::Instant;

use toolwright_journal::Journal;

use crate::support::endless::Endless;
use crate::support::folder;

#[tokio::test]
async fn a_conversation_that_is_cut_off_ends_like_one_that_is_not() {
    let number = |name: &str, default| match std::env::var(name) {
        Ok(text) => text.parse().unwrap(),
        Err(_) => default,
    };
    let (rounds, cuts) = (number("ROUNDS", 200), number("CUTS", 8));
    let (calm, began) = (Endless::new(usize::try_from(rounds).unwrap()), Instant::now());
    let expected = calm.to_the_end(0, 0, async |agent, cx| agent.run(calm.task(), cx).await).await;
    calm.check();

    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let kept = Endless::new(usize::try_from(rounds).unwrap());
    let seed = number("SEED", 0x9e37_79b9_7f4a_7c15);
    let finished = kept
        .to_the_end(cuts, seed, async |agent, cx| {
            journal.drive(agent, "endless", kept.task(), cx).await
        })
        .await;
    kept.check();
    assert_eq!(finished, expected);
    println!("{rounds} rounds, {cuts} cuts, {:.1?}", began.elapsed());
}
