//! The folder: locks, lists, decisions and deletion.

use std::fs::{self, OpenOptions};
use std::time::Duration;

use toolwright_journal::{Journal, JournalError, RunStatus};
use toolwright_module::approval::Decision;
use toolwright_module::error::Stage;
use toolwright_module::event::Ending;
use toolwright_module::{Context, Effect, Reply};
use toolwright_orchestrator::{Agent, ApprovalPolicy, AwaitsApproval};

use crate::support::{TASK, World, calls, drive, folder, journals, tool};

#[tokio::test]
async fn a_run_is_driven_once_at_a_time() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    drive(&journal, World::small).await.0.unwrap();
    let path = folder.path().join("run.journal");
    // As another process has it, which is not this journal.
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    file.lock().unwrap();
    let (result, counts) = drive(&journal, World::small).await;
    let error = result.unwrap_err();
    assert!(matches!(journals(&error), JournalError::Locked { .. }), "{error:#}");
    assert_eq!(counts, [0; 4]);
    assert!(matches!(journal.delete("run"), Err(JournalError::Locked { .. })));
    assert!(journal.delete_ended(Duration::ZERO).unwrap().is_empty());
    // It can be looked at.
    assert_eq!(journal.run("run").unwrap().status, RunStatus::Finished);
    drop(file);
    drive(&journal, World::small).await.0.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_drives_at_once_one_works_and_the_other_fails_or_gets_the_answer() {
    let folder = folder();
    for round in 0..50 {
        let (world, id) = (World::default(), format!("run {round}"));
        let drives = (0..2).map(|_| {
            let (world, id) = (world.clone(), id.clone());
            let journal = Journal::open(folder.path()).unwrap();
            tokio::spawn(async move {
                let (agent, cx) = (world.house(), world.cx());
                journal.drive(&agent, &id, TASK, &cx).await
            })
        });
        let mut done = 0;
        for drive in drives.collect::<Vec<_>>() {
            match drive.await.unwrap() {
                Ok(finished) => {
                    assert_eq!(finished.answer, "Done.");
                    done += 1;
                }
                Err(error) => {
                    assert!(matches!(journals(&error), JournalError::Locked { .. }), "{error:#}");
                }
            }
        }
        assert!(done > 0);
        assert_eq!(world.counts(), [10, 5, 3, 0]);
    }
}

/// Returns an agent whose write waits for a person.
pub(crate) fn asks(world: &World, effect: Effect) -> Agent {
    let writes = world.tidy().with_effect(effect);
    let said = [
        calls([("a", "look", "the hall")]),
        calls([("b", "tidy", "the hall")]),
        Reply::text("Done."),
    ];
    Agent::new(world.model(said), [world.look(), writes])
        .unwrap()
        .with_approval(ApprovalPolicy::from_effect(Effect::Write))
        .unwrap()
}

#[tokio::test]
async fn a_waiting_call_is_listed_and_decided_from_elsewhere() {
    let folder = folder();
    let cx = Context::default();
    for (decision, writes) in [
        (Decision::Approve, 1),
        (Decision::deny("Not today."), 0),
        (Decision::Edit { arguments: r#"{"place": "the attic"}"#.to_owned() }, 1),
    ] {
        let journal = Journal::open(folder.path()).unwrap();
        let world = World::default();
        let agent = asks(&world, Effect::Write);
        for _ in 0..2 {
            let error = journal.drive(&agent, "run", TASK, &cx).await.unwrap_err();
            assert_eq!(error.stage(), Stage::Approval);
            assert!(error.downcast_ref::<AwaitsApproval>().is_some());
        }
        let run = &journal.runs().unwrap()[0];
        // The start, a question, a read, a question, and the call that waits: once.
        assert_eq!((run.status, run.records), (RunStatus::Waiting, 5));
        let waiting = &run.waiting[0];
        assert_eq!((waiting.call.id.as_str(), waiting.effect), ("b", Effect::Write));

        // A person sees exactly this call, and no other.
        let mut other = waiting.clone();
        other.call.arguments = r#"{"place": "the cellar"}"#.to_owned();
        let error = journal.decide("run", &other, decision.clone()).unwrap_err();
        assert!(matches!(error, JournalError::NotWaiting { .. }), "{error}");
        let wrong = Decision::Edit { arguments: "{".to_owned() };
        let error = journal.decide("run", waiting, wrong).unwrap_err();
        assert!(matches!(error, JournalError::Decision { .. }), "{error}");

        // The first decision is a mistake. It is replaced before the run is driven.
        journal.decide("run", waiting, Decision::deny("A mistake.")).unwrap();
        assert_eq!(journal.run("run").unwrap().status, RunStatus::Open);
        let error = journal.decide("run", waiting, decision.clone()).unwrap_err();
        assert!(matches!(error, JournalError::Decided { by: None, .. }), "{error}");
        journal.replace_decision("Kate", "run", waiting, decision).unwrap();
        let error = journal.decide_as("Tom", "run", waiting, Decision::Approve).unwrap_err();
        assert!(error.to_string().contains("decided already by Kate"), "{error}");
        let finished = journal.drive(&agent, "run", TASK, &cx).await.unwrap();
        assert_eq!((finished.answer.as_str(), world.counts()), ("Done.", [3, 1, writes, 0]));
        let error = journal.decide("run", waiting, Decision::Approve).unwrap_err();
        assert!(matches!(error, JournalError::Decided { .. }), "{error}");
        let error = journal.replace_decision("Kate", "run", waiting, Decision::Approve);
        assert!(matches!(error, Err(JournalError::Decided { .. })), "{error:?}");
        let run = journal.run("run").unwrap();
        assert_eq!((run.status, run.ending), (RunStatus::Finished, Some(Ending::Answered)));
        journal.delete("run").unwrap();
    }
}

#[tokio::test]
async fn edited_arguments_that_do_not_fit_are_refused() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let (world, cx) = (World::default(), Context::default());
    let agent = asks(&world, Effect::Write);
    journal.drive(&agent, "run", TASK, &cx).await.unwrap_err();
    let waiting = journal.run("run").unwrap().waiting.remove(0);
    let wrong = || Decision::Edit { arguments: r#"{"place": 7, "why": 1}"#.to_owned() };
    let before = journal.run("run").unwrap();
    let error = journal.decide("run", &waiting, wrong()).unwrap_err();
    assert!(error.to_string().contains("$.place"), "{error}");
    assert_eq!(journal.run("run").unwrap(), before);
    journal.decide("run", &waiting, Decision::deny("A mistake.")).unwrap();
    journal.replace_decision("Kate", "run", &waiting, wrong()).unwrap_err();
    journal.replace_decision("Kate", "run", &waiting, Decision::Approve).unwrap();
    assert_eq!(journal.drive(&agent, "run", TASK, &cx).await.unwrap().answer, "Done.");
    assert_eq!(world.counts(), [3, 1, 1, 0]);
}

#[tokio::test]
async fn a_cancelled_run_is_not_open_and_can_be_driven_again() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let (world, cx) = (World::default(), Context::default());
    let agent = asks(&world, Effect::Write);
    journal.drive(&agent, "run", TASK, &cx).await.unwrap_err();
    journal.cancel("run").unwrap();
    let run = journal.run("run").unwrap();
    assert_eq!(run.status, RunStatus::Failed);
    journal.cancel("run").unwrap();
    assert_eq!(journal.run("run").unwrap(), run);
    assert!(matches!(journal.cancel("another"), Err(JournalError::NoSuchRun { .. })));
    let error = journal.drive(&agent, "run", TASK, &cx).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Approval);
}

/// The second person looks at an old list.
#[tokio::test]
async fn a_decision_does_not_reopen_a_run_that_was_cancelled() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let (world, cx) = (World::default(), Context::default());
    let agent = asks(&world, Effect::Irreversible);
    journal.drive(&agent, "run", TASK, &cx).await.unwrap_err();
    let waiting = journal.run("run").unwrap().waiting;
    journal.cancel("run").unwrap();
    let run = journal.run("run").unwrap();
    assert_eq!((run.status, run.waiting.len()), (RunStatus::Failed, 0));
    let error = journal.decide("run", &waiting[0], Decision::Approve).unwrap_err();
    assert!(error.to_string().contains("drive it again"), "{error}");
    assert_eq!(journal.run("run").unwrap(), run);
    // Driven again, it asks again, and then the same decision holds.
    for _ in 0..2 {
        journal.drive(&agent, "run", TASK, &cx).await.unwrap_err();
        let again = journal.run("run").unwrap();
        assert_eq!((again.status, &again.waiting), (RunStatus::Waiting, &waiting));
    }
    assert_eq!(world.counts()[2], 0);
    journal.decide("run", &waiting[0], Decision::Approve).unwrap();
    assert_eq!(journal.drive(&agent, "run", TASK, &cx).await.unwrap().answer, "Done.");
}

#[tokio::test]
async fn an_irreversible_call_with_an_unknown_outcome_needs_more_than_an_approval() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let cx = Context::default();
    let said = || [calls([("b", "tidy", "the hall")]), Reply::text("Done.")];
    let agent = |breaks: bool| {
        let work = move |_| async move {
            if breaks { std::future::pending().await } else { Ok("tidy".to_owned()) }
        };
        let tidy = tool("tidy", Effect::Irreversible, work);
        Agent::new(World::default().model(said()), [tidy]).unwrap()
    };
    let agent_that_hangs = agent(true);
    let drive = journal.drive(&agent_that_hangs, "run", TASK, &cx);
    tokio::time::timeout(Duration::from_millis(200), drive).await.unwrap_err();
    let error = journal.drive(&agent(false), "run", TASK, &cx).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Approval, "{error:#}");
    let waiting = journal.run("run").unwrap().waiting.remove(0);
    assert!(waiting.unknown);
    for decision in [Decision::Approve, Decision::Edit { arguments: "{}".to_owned() }] {
        let error = journal.decide("run", &waiting, decision).unwrap_err();
        assert!(matches!(error, JournalError::Decision { .. }), "{error}");
    }
    journal
        .decide("run", &waiting, Decision::Happened { result: "It is tidy.".to_owned() })
        .unwrap();
    let finished = journal.drive(&agent(false), "run", TASK, &cx).await.unwrap();
    assert!(format!("{:?}", finished.history).contains("It is tidy."));
}

#[tokio::test]
async fn a_call_of_an_agent_below_is_decided_from_elsewhere() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let (world, cx) = (World::default(), Context::default());
    let below = toolwright_module::Tool::new(asks(&world, Effect::Write)).unwrap();
    let below = below.named("helper").unwrap();
    let task = toolwright_module::ToolCall::new("h", "helper", r#"{"task": "Do it."}"#);
    let said = [Reply::calls([task]), Reply::text("All done.")];
    let agent = Agent::new(world.model(said), [below]).unwrap();
    let error = journal.drive(&agent, "run", TASK, &cx).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Approval);
    let waiting = journal.run("run").unwrap().waiting.remove(0);
    assert_eq!((waiting.path.len(), waiting.call.id.as_str()), (1, "b"));
    let wrong = Decision::Edit { arguments: r#"{"room": "the hall"}"#.to_owned() };
    let error = journal.decide("run", &waiting, wrong).unwrap_err();
    assert!(error.to_string().contains("needs arguments that fit its tool"), "{error}");
    journal.decide("run", &waiting, Decision::Approve).unwrap();
    let finished = journal.drive(&agent, "run", TASK, &cx).await.unwrap();
    assert_eq!((finished.answer.as_str(), world.counts()), ("All done.", [5, 1, 1, 0]));
}

#[tokio::test]
async fn ended_runs_are_deleted_by_age_and_open_ones_stay() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let (world, cx) = (World::default(), Context::default());
    let agent = world.small();
    for id in ["../up", "Up", "up", "wïth ümläuts", &"long".repeat(1_000)] {
        journal.drive(&agent, id, TASK, &cx).await.unwrap();
    }
    let waits = asks(&world, Effect::Write);
    journal.drive(&waits, "waits", TASK, &cx).await.unwrap_err();
    fs::write(folder.path().join("br%4fken.journal"), "nonsense\n").unwrap();
    // Files of others are not looked at, and neither is a run that never began.
    fs::write(folder.path().join("letter.txt"), "Dear").unwrap();
    fs::write(folder.path().join("torn.journal"), "toolwr").unwrap();

    let runs = journal.runs().unwrap();
    let status = |id: &str| runs.iter().find(|run| run.id == id).map(|run| run.status);
    assert_eq!(runs.len(), 7);
    assert_eq!(status("../up"), Some(RunStatus::Finished));
    assert_eq!(status("waits"), Some(RunStatus::Waiting));
    assert_eq!(status("brOken"), Some(RunStatus::Unreadable));
    assert_eq!(status(&"long".repeat(1_000)), Some(RunStatus::Finished));
    assert!(matches!(journal.run("torn"), Err(JournalError::NoSuchRun { .. })));
    assert!(matches!(journal.records("no"), Err(JournalError::NoSuchRun { .. })));
    assert!(matches!(journal.delete("no"), Err(JournalError::NoSuchRun { .. })));

    assert!(journal.delete_ended(Duration::from_secs(60)).unwrap().is_empty());
    assert_eq!(journal.delete_ended(Duration::ZERO).unwrap().len(), 5);
    let left: Vec<_> = journal.runs().unwrap().into_iter().map(|run| run.id).collect();
    assert_eq!(left.len(), 2);
    journal.delete("brOken").unwrap();
    // The id can be used again.
    let world = World::default();
    journal.drive(&world.small(), "up", TASK, &cx).await.unwrap();
    assert_eq!(world.counts(), [3, 1, 1, 0]);
}

#[test]
fn a_folder_that_cannot_be_made_is_a_clear_error() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for place in [file.clone(), file.join("below")] {
        let error = Journal::open(place).unwrap_err();
        assert!(matches!(error, JournalError::Io { .. }), "{error:?}");
    }
}

/// The user `root` may write everywhere, so the test ends early then.
#[cfg(unix)]
#[tokio::test]
async fn a_folder_that_must_not_be_written_can_be_listed() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    drive(&journal, World::small).await.0.unwrap();
    let allow = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(&folder.path().join("run.journal"), 0o444);
    allow(folder.path(), 0o555);
    let is_root = fs::write(folder.path().join("probe"), "").is_ok();
    if !is_root {
        let journal = Journal::open(folder.path()).unwrap();
        assert_eq!(journal.run("run").unwrap().status, RunStatus::Finished);
        let (world, cx) = (World::default(), Context::default());
        for id in ["run", "new"] {
            let error = journal.drive(&world.small(), id, TASK, &cx).await.unwrap_err();
            assert!(matches!(journals(&error), JournalError::ReadOnly { .. }), "{error:#}");
        }
        assert!(matches!(journal.delete("run"), Err(JournalError::ReadOnly { .. })));
        assert_eq!(world.counts(), [0; 4]);
    }
    allow(folder.path(), 0o755);
}

#[cfg(unix)]
#[test]
fn a_new_folder_is_for_this_user_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let new = folder.path().join("a/b");
    Journal::open(&new).unwrap();
    assert_eq!((mode(&new), mode(&folder.path().join("a"))), (0o700, 0o700));
    // The permissions of a folder that exists are its owner's choice.
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    Journal::open(&new).unwrap();
    assert_eq!(mode(&new), 0o755);
}

#[tokio::test]
async fn a_call_that_never_began_has_no_result() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let (world, cx) = (World::default(), Context::default());
    let agent = asks(&world, Effect::Write);
    journal.drive(&agent, "run", TASK, &cx).await.unwrap_err();
    let waiting = journal.run("run").unwrap().waiting.remove(0);
    assert!(!waiting.unknown);
    let happened = Decision::Happened { result: "It is tidy.".to_owned() };
    let error = journal.decide("run", &waiting, happened.clone()).unwrap_err();
    assert!(matches!(error, JournalError::Decision { .. }), "{error}");
    assert!(error.to_string().contains("was not made"), "{error}");
    // It cannot be made again, either.
    let error = journal.decide("run", &waiting, Decision::CallAgain).unwrap_err();
    assert!(error.to_string().contains("was not made"), "{error}");
    journal.decide_as("Kate", "run", &waiting, Decision::deny("No.")).unwrap();
    let error = journal.replace_decision("Kate", "run", &waiting, happened.clone()).unwrap_err();
    assert!(matches!(error, JournalError::Decision { .. }), "{error}");
    // Nor does an approver give it one.
    let cx = Context::default().with_approver(move |_| {
        let happened = happened.clone();
        async move { Ok(happened) }
    });
    let error = journal.drive(&agent, "another", TASK, &cx).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Approval, "{error:#}");
    assert!(error.to_string().contains("was not made"), "{error}");
}

#[tokio::test]
async fn a_second_question_about_a_call_is_not_the_first_one() {
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    let cx = Context::default();
    let said = || [calls([("b", "tidy", "the hall")]), Reply::text("Done.")];
    let agent = || {
        let hang = |_| std::future::pending::<toolwright_module::Result<String>>();
        let tidy = tool("tidy", Effect::Irreversible, hang);
        Agent::new(World::default().model(said()), [tidy]).unwrap()
    };
    let cut_off = async || {
        let agent = agent();
        let drive = journal.drive(&agent, "run", TASK, &cx);
        tokio::time::timeout(Duration::from_millis(200), drive).await.unwrap_err();
    };
    let question = async || {
        let error = journal.drive(&agent(), "run", TASK, &cx).await.unwrap_err();
        assert_eq!(error.stage(), Stage::Approval, "{error:#}");
        journal.run("run").unwrap().waiting.remove(0)
    };
    cut_off().await;
    let first = question().await;
    journal.decide("run", &first, Decision::CallAgain).unwrap();
    cut_off().await;
    let second = question().await;
    assert!(first.unknown && second.unknown);
    assert_ne!(first, second);
    // Somebody who still has the first one does not answer the second.
    let error = journal.decide("run", &first, Decision::CallAgain).unwrap_err();
    assert!(matches!(error, JournalError::Decided { .. }), "{error}");
    journal.decide("run", &second, Decision::deny("Enough.")).unwrap();
}
