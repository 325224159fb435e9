//! Attempts that are killed, at every moment of their steps.

use std::sync::atomic::Ordering;

use toolwright_module::Reply;
use toolwright_orchestrator::{Agent, Limits};

use super::memory::{End, Fate, workflow};
use super::world::{World, calls};
use crate::restate::Restate;

/// Returns the number of moments of a run that is not interrupted.
async fn moments(world: &World) -> usize {
    let whole = workflow();
    whole.finished(&world.house(), &world.cx()).await;
    2 * whole.steps().len()
}

#[tokio::test]
async fn a_run_that_is_killed_at_any_moment_ends_the_same_and_repeats_nothing_recorded() {
    let world = World::default();
    let reference = workflow();
    let expected = reference.finished(&world.house(), &world.cx()).await;
    let names = world.names();
    assert_eq!(names.len(), world.log.lock().unwrap().len(), "everything was done once");
    for killed_at in 0..moments(&World::default()).await {
        let (world, workflow) = (World::default(), workflow());
        let fate = Fate { killed_at: Some(killed_at), ..Fate::default() };
        let restate = Restate::default();
        let end = workflow.attempt(&restate, &world.house(), "Tidy up.", &world.cx(), fate).await;
        assert!(matches!(end, End::Killed), "{killed_at}: {end:?}");
        let finished = workflow.finished(&world.house(), &world.cx()).await;
        assert_eq!(finished.answer, expected.answer, "{killed_at}");
        assert_eq!(finished.history, expected.history, "{killed_at}");
        assert_eq!(finished.spent.usage, expected.spent.usage, "{killed_at}");
        // A kill is before a record (even) or after it.
        let step = workflow.steps()[killed_at / 2].clone();
        for name in &names {
            let count = world.count(name);
            let asked = world.count(&format!("asked {name}"));
            if killed_at % 2 == 1 && !step.contains("begin") {
                let of_batch = name.starts_with("look ") && step.contains(r#""call","#);
                assert!(count == 1 || count == 2 && of_batch, "{killed_at}, {step}: {name}");
            }
            assert!((1..=2).contains(&count), "{killed_at}, {step}: {name} {count}");
            if name.starts_with("tidy ") {
                assert!(count <= 1 + asked, "{killed_at}, {step}: {name}");
            }
        }
        // Each event is there once. Two reads beside the killed one may be there twice.
        let count =
            |kind: &str| workflow.events().iter().filter(|event| event["event"] == kind).count();
        assert_eq!(count("done"), 3, "{killed_at}, {step}");
        assert_eq!(count("model_replied"), 10, "{killed_at}, {step}");
        assert!((10..=12).contains(&count("tool_finished")), "{killed_at}, {step}");
    }
}

#[tokio::test]
async fn a_run_that_is_killed_again_and_again_ends() {
    let world = World::default();
    let workflow = workflow();
    let mut kills = 0;
    loop {
        // A process that never lives for longer than a mark does not make the call.
        let fate = Fate { killed_at: Some(3), ..Fate::default() };
        let restate = Restate::default();
        match workflow.attempt(&restate, &world.house(), "Tidy up.", &world.cx(), fate).await {
            End::Killed => kills += 1,
            End::Finished(finished) => break assert_eq!(finished.answer, "Done."),
            end => panic!("{end:?}"),
        }
        assert!(kills < 100);
    }
    assert!(kills > 10, "{kills}");
    for name in ["tidy hall", "tidy kitchen", "tidy the rest"] {
        let (made, asked) = (world.count(name), world.count(&format!("asked {name}")));
        assert!((1..=1 + asked).contains(&made), "{name}: {made} times, {asked} questions");
    }
}

#[tokio::test]
async fn reads_run_side_by_side_up_to_the_limit() {
    for (most, expected) in [(1, 1), (2, 2), (8, 5)] {
        let (world, workflow) = (World::default(), workflow());
        let reads = ["1", "2", "3", "4", "5"].map(|id| (id, "look", id));
        let model = world.model("house", [calls(reads), Reply::text("Done.")]);
        let limits = Limits { max_parallel: most, ..Limits::default() };
        let agent = Agent::new(model, world.tools()).unwrap().with_limits(limits);
        workflow.finished(&agent, &world.cx()).await;
        assert_eq!(world.most_at_once.load(Ordering::SeqCst), expected);
    }
}
