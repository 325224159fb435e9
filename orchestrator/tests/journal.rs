//! Runs that are driven on with their journal: decisions by hand, larger limits, failures and hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use toolwright_module::approval::{Approval, Decision};
use toolwright_module::error::Stage;
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, Effect, LanguageModel, Message, Reply, Request};
use toolwright_orchestrator::perform::{InMemory, Record, Replay, with_performer};
use toolwright_orchestrator::{
    ApprovalPolicy, AwaitsApproval, Finished, Run, StepResult, ToolOrchestrator,
};

use crate::support::{Log, calls, tool};

/// Returns a model whose reply depends on the conversation, and counts its questions.
fn scripted<const N: usize>(said: [Reply; N]) -> (impl LanguageModel, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let model = Scripted::new(move |request: &Request| {
        counted.fetch_add(1, Ordering::SeqCst);
        let replied = |message: &&Arc<Message>| matches!(***message, Message::Assistant { .. });
        Ok(said[request.messages.iter().filter(replied).count()].clone())
    });
    (model, asked)
}

/// Returns an agent that makes one call of `pay`, and the log of its payments.
fn payer(effect: Effect) -> (ToolOrchestrator, Log) {
    let log = Log::default();
    let paid = log.clone();
    let pay = tool("pay", effect, move |look| {
        paid.write(look.place);
        async { Ok("Paid.".to_owned()) }
    });
    let (model, _) = scripted([calls([("p", "pay", "5 euros")]), Reply::text("Done.")]);
    (ToolOrchestrator::new(model, [pay]).unwrap(), log)
}

fn kept(journal: &Replay<InMemory>) -> Context {
    with_performer(&Context::default(), journal.clone())
}

/// Runs the task from the records, as another program does.
async fn again(agent: &ToolOrchestrator, records: Vec<Record>) -> Finished {
    let cx = kept(&Replay::in_memory(records));
    agent.run("Pay.", &cx).await.unwrap()
}

/// Decides on the waiting call by hand.
fn decide(run: &mut Run, decision: Decision) {
    let decided = StepResult::decisions(run.next().number, [("p", decision)]);
    run.apply(decided).unwrap();
}

#[tokio::test]
async fn a_decision_by_hand_is_in_the_journal_after_the_next_drive() {
    for (decision, paid) in [
        (Decision::Approve, Some("5 euros")),
        (Decision::edit(r#"{"place": "3 euros"}"#), Some("3 euros")),
        (Decision::deny("Not today."), None),
    ] {
        let policed = || {
            let (agent, log) = payer(Effect::Write);
            (agent.with_approval(ApprovalPolicy::from_effect(Effect::Write)).unwrap(), log)
        };
        let (journal, (agent, log)) = (Replay::in_memory([]), policed());
        let (mut run, cx) = (agent.start("Pay.").unwrap(), kept(&journal));
        let error = agent.drive(&mut run, &cx).await.unwrap_err();
        assert!(error.downcast_ref::<AwaitsApproval>().is_some());
        decide(&mut run, decision);
        let whole = agent.drive(&mut run, &cx).await.unwrap();
        assert_eq!(log.entries(), Vec::from_iter(paid));

        // Nobody is asked, and nothing is paid again.
        let (agent, log) = policed();
        assert_eq!(again(&agent, journal.records()).await, whole);
        assert_eq!(log.entries().len(), 0);

        // Also after a crash right after the decision was kept.
        let kept: Vec<Record> = journal.records().into_iter().take(2).collect();
        let (agent, log) = policed();
        assert_eq!(again(&agent, kept).await, whole);
        assert_eq!(log.entries(), Vec::from_iter(paid));
    }
}

#[tokio::test]
async fn a_decision_by_hand_on_a_lost_outcome_makes_the_call_again() {
    let journal = Replay::in_memory([]);
    let (agent, _) = payer(Effect::Irreversible);
    agent.run("Pay.", &kept(&journal)).await.unwrap();

    // The program was killed during the payment, and again during the second one.
    let mut records = journal.records()[..2].to_vec();
    for attempt in 0..2 {
        let (agent, log) = payer(Effect::Irreversible);
        let journal = Replay::in_memory(records.clone());
        let (mut run, cx) = (agent.start("Pay.").unwrap(), kept(&journal));
        let error = agent.drive(&mut run, &cx).await.unwrap_err();
        assert!(error.downcast_ref::<AwaitsApproval>().unwrap().unknown);
        decide(&mut run, Decision::CallAgain);
        let whole = agent.drive(&mut run, &cx).await.unwrap();
        assert_eq!(log.entries().len(), 1, "attempt {attempt}");

        let (agent, log) = payer(Effect::Irreversible);
        assert_eq!(again(&agent, journal.records()).await.history, whole.history);
        assert_eq!(log.entries().len(), 0);
        // The question, two records of the lost payment, the decision, and the next mark.
        records = journal.records()[..5 + 3 * attempt].to_vec();
    }
}

#[tokio::test]
async fn a_decision_that_is_not_the_journals_is_refused() {
    let policy = || ApprovalPolicy::from_effect(Effect::Write);
    let (agent, _) = payer(Effect::Write);
    let agent = agent.with_approval(policy()).unwrap();
    let journal = Replay::in_memory([]);
    let approves = kept(&journal).with_approver(|_: Approval| async { Ok(Decision::Approve) });
    agent.run("Pay.", &approves).await.unwrap();

    let asks = Replay::in_memory(journal.records()[..1].to_vec());
    let mut run = agent.start("Pay.").unwrap();
    agent.drive(&mut run, &kept(&asks)).await.unwrap_err();
    decide(&mut run, Decision::deny("Not today."));
    let error = agent.drive(&mut run, &kept(&journal)).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Journal);
    insta::assert_snapshot!(error, @"the journal has another decision on the call `p` than the run; drive the run without a decision, and the journal's holds");
}
