//! Several calls of one batch that wait for a person.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use toolwright_journal::{Journal, JournalError, RunStatus};
use toolwright_module::approval::Decision;
use toolwright_module::budget::{Cost, Ledger, Money, Price, Prices};
use toolwright_module::error::Stage;
use toolwright_module::{Context, Effect, LanguageModel, Message, Reply, Tool, ToolCall};
use toolwright_orchestrator::perform::{Part, PartKind, ReplayError};
use toolwright_orchestrator::{Agent, ApprovalPolicy, AwaitsApproval};

use crate::support::{TASK, World, calls, folder};

fn agent(world: &World) -> Agent {
    let said = [
        calls([("a", "tidy", "1"), ("b", "tidy", "2"), ("c", "tidy", "3"), ("d", "look", "4")]),
        Reply::text("Done."),
    ];
    Agent::new(world.model(said), [world.look(), world.tidy()])
        .unwrap()
        .with_approval(ApprovalPolicy::from_effect(Effect::Write))
        .unwrap()
}

#[tokio::test]
async fn all_waiting_calls_of_a_batch_are_listed_and_decided_in_any_order() {
    let (world, cx) = (World::default(), Context::default());
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        for drives_between in [false, true] {
            let folder = folder();
            let journal = Journal::open(folder.path()).unwrap();
            let error = journal.drive(&agent(&world), "run", TASK, &cx).await.unwrap_err();
            assert_eq!(error.stage(), Stage::Approval);
            let waiting = journal.run("run").unwrap().waiting;
            let ids: Vec<&str> = waiting.iter().map(|asked| asked.call.id.as_str()).collect();
            assert_eq!(ids, ["a", "b", "c"]);
            for (count, place) in order.into_iter().enumerate() {
                let decision = match place {
                    1 => Decision::deny("Not this one."),
                    _ => Decision::Approve,
                };
                journal.decide("run", &waiting[place], decision).unwrap();
                let run = journal.run("run").unwrap();
                assert_eq!(run.waiting.len(), 2 - count);
                if drives_between && count < 2 {
                    assert_eq!(run.status, RunStatus::Waiting);
                    let error = journal.drive(&agent(&world), "run", TASK, &cx).await.unwrap_err();
                    assert!(error.downcast_ref::<AwaitsApproval>().is_some(), "{error:#}");
                    assert_eq!(journal.run("run").unwrap().waiting.len(), 2 - count);
                }
            }
            let before = world.counts();
            let finished = journal.drive(&agent(&world), "run", TASK, &cx).await.unwrap();
            let after = world.counts();
            // Not the denied one.
            assert_eq!((after[1] - before[1], after[2] - before[2]), (1, 2));
            let Message::Tool(denied) = &*finished.history[3] else { panic!() };
            assert!(denied.text.contains("Not this one."), "{}", denied.text);
        }
    }
}

#[tokio::test]
async fn each_decision_can_be_replaced_until_the_run_is_driven() {
    let (world, cx, folder) = (World::default(), Context::default(), folder());
    let journal = Journal::open(folder.path()).unwrap();
    journal.drive(&agent(&world), "run", TASK, &cx).await.unwrap_err();
    let waiting = journal.run("run").unwrap().waiting;
    journal.decide("run", &waiting[0], Decision::Approve).unwrap();
    journal.decide("run", &waiting[1], Decision::Approve).unwrap();
    // A second person gets an error, and replaces it knowingly.
    for asked in &waiting[..2] {
        let error = journal.decide("run", asked, Decision::deny("No.")).unwrap_err();
        assert!(matches!(error, JournalError::Decided { .. }), "{error}");
        journal.replace_decision("Kate", "run", asked, Decision::deny("No.")).unwrap();
    }
    // There is nothing to replace yet.
    let error = journal.replace_decision("Kate", "run", &waiting[2], Decision::Approve);
    assert!(matches!(error, Err(JournalError::NotWaiting { .. })), "{error:?}");
    journal.decide("run", &waiting[2], Decision::Approve).unwrap();
    journal.drive(&agent(&world), "run", TASK, &cx).await.unwrap();
    assert_eq!(world.counts()[2], 1);
    journal.decide("run", &waiting[2], Decision::Approve).unwrap_err();
}

#[tokio::test]
async fn the_waiting_calls_of_agents_side_by_side_are_all_listed() {
    let (world, cx, folder) = (World::default(), Context::default(), folder());
    let below = |name: &str| {
        let said = [calls([("x", "tidy", "1"), ("y", "tidy", "2")]), Reply::text("Done.")];
        let agent = Agent::new(world.model(said), [world.tidy()])
            .unwrap()
            .with_approval(ApprovalPolicy::from_effect(Effect::Write))
            .unwrap();
        Tool::new(agent).unwrap().with_effect(Effect::Read).named(name).unwrap()
    };
    let task = |id: &str, name: &str| ToolCall::new(id, name, r#"{"task": "Do it."}"#);
    let said = [Reply::calls([task("h", "hall"), task("k", "kitchen")]), Reply::text("Done.")];
    let agent = Agent::new(world.model(said), [below("hall"), below("kitchen")]).unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    journal.drive(&agent, "run", TASK, &cx).await.unwrap_err();
    let waiting = journal.run("run").unwrap().waiting;
    assert_eq!(waiting.len(), 4);
    for asked in waiting.iter().rev() {
        journal.decide("run", asked, Decision::Approve).unwrap();
    }
    assert_eq!(journal.drive(&agent, "run", TASK, &cx).await.unwrap().answer, "Done.");
    assert_eq!(world.counts()[2], 4);
}

/// Changes the records of a file, as something else could that knows its form.
fn forge(file: &Path, change: impl Fn(&mut Value)) {
    let text = fs::read_to_string(file).unwrap();
    let (format, lines) = text.split_once('\n').unwrap();
    let (mut forged, mut before) = (format!("{format}\n"), crc32fast::hash(format.as_bytes()));
    for line in lines.lines() {
        let json = line.splitn(3, ' ').nth(2).unwrap();
        let mut record: Value = serde_json::from_str(json).unwrap();
        change(&mut record["record"]);
        let json = record.to_string();
        let mut hasher = crc32fast::Hasher::new_with_initial(before);
        hasher.update(json.as_bytes());
        before = hasher.finalize();
        forged.push_str(&format!("{before:08x} {} {json}\n", json.len()));
    }
    fs::write(file, forged).unwrap();
}

#[tokio::test]
async fn a_question_that_is_not_about_the_call_that_would_be_made_is_damage() {
    let identity = |arguments: &str| {
        let call = ToolCall::new("a", "tidy", arguments);
        let effect = Effect::Write;
        let (unknown, contract, reason, is_checked) = (None, None, None, false);
        let kind = PartKind::Decide { call, effect, unknown, contract, reason, is_checked };
        json!(Part::new(Vec::new(), kind).identity())
    };
    let other = r#"{"what":"9"}"#;
    type Change<'a> = Box<dyn Fn(&mut Value) + 'a>;
    let others: [(&str, Change<'_>); 6] = [
        (
            "other arguments",
            Box::new(|asked| asked["approval"]["call"]["arguments"] = json!(other)),
        ),
        ("other arguments", Box::new(|asked| asked["approval"]["call"]["name"] = json!("look"))),
        (
            "asked for another call",
            Box::new(|asked| {
                asked["approval"]["call"]["arguments"] = json!(other);
                asked["identity"] = identity(other);
            }),
        ),
        ("key", Box::new(|asked| asked["approval"]["call"]["id"] = json!("b"))),
        ("key", Box::new(|asked| asked["approval"]["unknown"] = json!(true))),
        ("key", Box::new(|asked| asked["approval"]["path"] = json!([{"tool": "tidy", "id": "z"}]))),
    ];
    for (reason, change) in &others {
        let (world, cx, folder) = (World::default(), Context::default(), folder());
        let journal = Journal::open(folder.path()).unwrap();
        journal.drive(&agent(&world), "run", TASK, &cx).await.unwrap_err();
        let waiting = journal.run("run").unwrap().waiting;
        let first = |record: &mut Value| {
            if record["waiting"]["key"] == json!(r#"["decide","a"]"#) {
                change(&mut record["waiting"]);
            }
        };
        let file = folder.path().join("run.journal");
        let before = fs::read(&file).unwrap();
        forge(&file, |_| {});
        assert_eq!(fs::read(&file).unwrap(), before);
        forge(&file, first);
        let told = journal.run("run").unwrap_err();
        assert!(matches!(told, JournalError::Replay(ReplayError::Question { .. })), "{told}");
        assert!(told.to_string().contains(reason), "{reason}: {told}");
        // One bad run does not hurt the list.
        let runs = journal.runs().unwrap();
        assert_eq!((runs.len(), runs[0].status), (1, RunStatus::Unreadable));
        for asked in &waiting {
            let told = journal.decide("run", asked, Decision::Approve).unwrap_err();
            assert!(matches!(told, JournalError::Replay(ReplayError::Question { .. })), "{told}");
        }
        let told = journal.drive(&agent(&world), "run", TASK, &cx).await.unwrap_err();
        assert_eq!(told.stage(), Stage::Journal, "{told:#}");

        // Also if the question is changed after its decision.
        fs::write(&file, before).unwrap();
        for asked in &waiting {
            journal.decide("run", asked, Decision::Approve).unwrap();
        }
        forge(&file, first);
        let told = journal.drive(&agent(&world), "run", TASK, &cx).await.unwrap_err();
        assert_eq!(told.stage(), Stage::Journal, "{told:#}");
        assert_eq!(world.counts()[2], 0);
    }
}

/// Prices change while a run waits. What was paid does not.
#[tokio::test]
async fn the_money_of_a_call_is_that_of_the_prices_when_it_was_made() {
    let world = World::default();
    let model = || world.model([calls([("a", "tidy", "1")]), Reply::text("Done.")]);
    let agent = || {
        let agent = Agent::new(model(), [world.tidy()]).unwrap();
        agent.with_approval(ApprovalPolicy::from_effect(Effect::Write)).unwrap()
    };
    let name = model().name().to_owned();
    let priced = |dollars| Prices::default().with(&name, Price::per_million(dollars, 1.0));
    // Each reply has 10 tokens read and 2 written.
    for (later, cost) in [
        (priced(5.0), Cost::Known(Money { micros: 22 + 52 })),
        (Prices::default(), Cost::AtLeast(Money { micros: 22 })),
    ] {
        let folder = folder();
        let journal = Journal::open(folder.path()).unwrap();
        let at = |prices: &Prices| {
            Context::default().with_ledger(Ledger::default().with_prices(prices.clone()))
        };
        journal.drive(&agent(), "run", TASK, &at(&priced(2.0))).await.unwrap_err();
        let waiting = journal.run("run").unwrap().waiting;
        journal.decide("run", &waiting[0], Decision::Approve).unwrap();
        let finished = journal.drive(&agent(), "run", TASK, &at(&later)).await.unwrap();
        assert_eq!(finished.spent.cost(), cost);
        assert_eq!(journal.run("run").unwrap().spent.unwrap().cost(), cost);
    }
}
