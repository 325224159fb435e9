//! The example `letter`: a typed answer in a conversation, over a workflow.

#[path = "../../../../examples/examples/common/letter.rs"]
mod example;

use std::sync::{Arc, Mutex};

use self::example::{Letter, agent, task, watched};
use super::memory::{End, Fate, Workflow};
use crate::restate::Restate;

async fn attempt(workflow: &Workflow, fate: Fate) -> (End<Letter>, Vec<Option<String>>) {
    let shown = Arc::new(Mutex::new(Vec::new()));
    let keeps = Arc::clone(&shown);
    let cx = watched(move |letter| {
        keeps.lock().unwrap().push(letter.text("to").so_far().map(str::to_owned));
    });
    let agent = agent().unwrap();
    let end = workflow.attempt(&Restate::default(), &agent, task(), &cx, fate).await;
    let shown = shown.lock().unwrap().clone();
    (end, shown)
}

#[tokio::test]
async fn a_typed_answer_in_a_conversation_is_shown_and_found_again() {
    let workflow = Workflow::default();
    // The process is killed after the first of the two letters is recorded.
    let killed_at = Some(5);
    let (end, shown) = attempt(&workflow, Fate { killed_at, ..Fate::default() }).await;
    assert!(matches!(end, End::Killed), "{end:?}");
    assert_eq!(shown.last(), Some(&Some("Ada Obi".to_owned())));
    for _ in 0..2 {
        let (end, shown) = attempt(&workflow, Fate::default()).await;
        let End::Finished(finished) = end else { panic!("{end:?}") };
        assert_eq!(finished.answer.lines, ["Your hinges are on", "their way."]);
        // Also of a reply that was found, so that the pieces read as the answer in each drive.
        assert_eq!(shown.last(), Some(&Some("Ada Obi".to_owned())));
    }
}
