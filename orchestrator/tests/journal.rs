//! Runs that are driven on with their journal: decisions by hand, larger limits, failures and hangs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::budget::{Budget, Ledger, LimitKind, Spent};
use toolwright_module::error::Stage;
use toolwright_module::hook::{AskNext, Hook};
use toolwright_module::model::{BoxFuture, Settings, Usage};
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Cancellation, Context, Effect, Error, LanguageModel, Message, Reply, Request, Result, Tool,
    ToolCall,
};
use toolwright_orchestrator::perform::{
    InMemory, Open, Outcome, OutcomeKind, Part, PartIdKind, PartKind, Perform, Performed, Record,
    Replay, Store, Work, with_performer,
};
use toolwright_orchestrator::{
    Agent, ApprovalPolicy, AwaitsApproval, Ending, Finished, Limits, Run, StepResult,
};

use crate::support::{self, Log, calls, tool};

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
fn payer(effect: Effect) -> (Agent, Log) {
    let log = Log::default();
    let paid = log.clone();
    let pay = tool("pay", effect, move |look| {
        paid.write(look.place);
        async { Ok("Paid.".to_owned()) }
    });
    let (model, _) = scripted([calls([("p", "pay", "5 euros")]), Reply::text("Done.")]);
    (Agent::new(model, [pay]).unwrap(), log)
}

fn kept(journal: &Replay<InMemory>) -> Context {
    with_performer(&Context::default(), journal.clone())
}

/// Runs the task from the records, as another program does.
async fn again(agent: &Agent, records: Vec<Record>) -> Finished {
    let cx = kept(&Replay::in_memory(records));
    agent.run("Pay.", &cx).await.unwrap()
}

/// Decides on the waiting call by hand.
fn decide(run: &mut Run, decision: Decision) {
    let decided = StepResult::decisions(run.next().number, [("p", decision)]);
    run.apply(decided).unwrap();
}

/// Without the contract in the question, as earlier versions recorded it, nobody could check the
/// arguments when they were recorded.
#[tokio::test]
async fn recorded_arguments_of_a_person_that_do_not_fit_are_reported_to_the_model() {
    let agent = || {
        let (agent, log) = payer(Effect::Write);
        (agent.with_approval(ApprovalPolicy::from_effect(Effect::Write)).unwrap(), log)
    };
    let (journal, wrong) = (Replay::in_memory([]), r#"{"place": 5, "why": "{"}"#);
    agent().0.run("Pay.", &kept(&journal)).await.unwrap_err();
    let mut records = journal.records();
    let Some(Record::Waiting(waiting)) = records.last() else { panic!("{records:?}") };
    let decision = Decision::Edit { arguments: wrong.to_owned() };
    let fault = waiting.check_edit(&decision).unwrap_err().to_string();
    assert!(fault.contains("$.place"), "{fault}");
    records.push(waiting.decided(decision, None));
    // The run goes on, and every later drive reads the same.
    for _ in 0..2 {
        let (agent, log) = agent();
        let journal = Replay::in_memory(records);
        let finished = agent.run("Pay.", &kept(&journal)).await.unwrap();
        assert_eq!(finished.answer, "Done.");
        let said = format!("{:?}", finished.history);
        assert!(said.contains("that the person gave instead do not fit the tool"), "{said}");
        assert!(log.entries().is_empty());
        records = journal.records();
    }
}

#[tokio::test]
async fn a_decision_by_hand_is_in_the_journal_after_the_next_drive() {
    for (decision, paid) in [
        (Decision::Approve, Some("5 euros")),
        (Decision::Edit { arguments: r#"{"place": "3 euros"}"#.to_owned() }, Some("3 euros")),
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
        let kept: Vec<Record> = journal.records().into_iter().take(3).collect();
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
        // The reply, two records of the lost payment, the question, the decision, and the next mark.
        records = journal.records()[..6 + 4 * attempt].to_vec();
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

#[tokio::test]
async fn a_run_that_was_exhausted_goes_on_with_larger_limits_and_its_journal() {
    let within = |calls| Limits {
        budget: Budget { output_tokens: Some(calls), ..Budget::default() },
        ..Limits::default()
    };
    let agent = || {
        let look = [calls([("a", "look", "attic")]), Reply::text("Done.")];
        let look = look.map(|reply| reply.with_usage(Usage::new(1, 60)));
        let (model, asked) = scripted(look);
        let agent = Agent::new(model, [support::look()]).unwrap();
        (agent.with_settings(Settings::default().with_max_output_tokens(60)).unwrap(), asked)
    };
    // The ledger refuses the second question: a hook asks for more than the run knows.
    let journal = Replay::in_memory([]);
    let cx = kept(&journal).with_hook(Longer);
    let (first, asked) = agent();
    let mut run = first.start("Look.").unwrap().with_limits(within(150));
    assert_eq!(first.drive(&mut run, &cx).await.unwrap().limit, Some(LimitKind::OutputTokens));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let exhausted = |record: &&Record| format!("{record:?}").contains("Exhausted");
    assert_eq!(journal.records().iter().filter(exhausted).count(), 1);

    let mut run = run.with_limits(within(155));
    assert_eq!(first.drive(&mut run, &cx).await.unwrap().ending, Ending::LimitReached);

    let mut run = run.with_limits(within(500));
    assert_eq!(first.drive(&mut run, &cx).await.unwrap().ending, Ending::Answered);

    // Another program has the same records.
    let (second, asked) = agent();
    let cx = kept(&Replay::in_memory(journal.records())).with_hook(Longer);
    for limits in [&[150, 155, 500][..], &[152, 500], &[500]] {
        let mut run = second.start("Look.").unwrap();
        let mut endings = Vec::new();
        for most in limits {
            run = run.with_limits(within(*most));
            endings.push(second.drive(&mut run, &cx).await.unwrap().ending);
        }
        // Only the last limit is large enough.
        assert_eq!(endings.pop(), Some(Ending::Answered), "{limits:?}");
        let reached = endings.iter().all(|ending| *ending == Ending::LimitReached);
        assert!(reached, "{limits:?}: {endings:?}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

/// Asks for replies of up to 100 tokens.
struct Longer;

impl Hook for Longer {
    fn name(&self) -> &str {
        "longer"
    }

    async fn model(&self, request: Request, next: AskNext<'_>) -> Result<Reply> {
        let longer = Settings::default().with_max_output_tokens(100);
        next.run(request.with_settings(longer)).await
    }
}

#[tokio::test]
async fn a_write_that_failed_is_made_again_without_a_question() {
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let pay = tool("pay", Effect::Irreversible, move |_| {
        let nth = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            match nth {
                0 => Err(Error::stop("the bank is closed")),
                _ => Ok("Paid.".to_owned()),
            }
        }
    });
    let (model, _) = scripted([calls([("p", "pay", "5 euros")]), Reply::text("Done.")]);
    let agent = Agent::new(model, [pay]).unwrap();
    let journal = Replay::in_memory([]);
    let mut run = agent.start("Pay.").unwrap();
    let error = agent.drive(&mut run, &kept(&journal)).await.unwrap_err();
    assert_eq!(error.to_string(), "the bank is closed");
    // In another program and in this one.
    let stored = journal.records();
    assert_eq!(again(&agent, stored).await.answer, "Done.");
    assert_eq!(agent.drive(&mut run, &kept(&journal)).await.unwrap().answer, "Done.");
    assert_eq!(tries.load(Ordering::SeqCst), 3);
    assert_eq!(again(&agent, journal.records()).await.answer, "Done.");
    assert_eq!(tries.load(Ordering::SeqCst), 3);
}

type Waits = fn(&Record) -> bool;

/// A place that waits before it appends a record of a kind.
#[derive(Clone, Default)]
struct Slow {
    /// Whether to wait for a record.
    waits: Arc<Mutex<Option<Waits>>>,
    kept: Arc<Mutex<Vec<Record>>>,
    waiting: Arc<Notify>,
    go_on: Arc<Notify>,
}

impl Store for Slow {
    fn append<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, std::result::Result<(), Open>> {
        Box::pin(async move {
            let waits = self.waits.lock().unwrap().is_some_and(|waits| waits(record));
            if waits {
                self.waiting.notify_one();
                self.go_on.notified().await;
            }
            self.kept.lock().unwrap().push(record.clone());
            Ok(())
        })
    }
}

#[tokio::test]
async fn a_call_that_was_cancelled_before_it_began_is_not_asked_about() {
    let (agent, log) = payer(Effect::Irreversible);
    let slow = Slow::default();
    *slow.waits.lock().unwrap() = Some(|record| matches!(record, Record::Begun { .. }));
    let cancellation = Cancellation::default();
    let cx = with_performer(&Context::default(), Replay::new([], slow.clone()));
    let cx = cx.with_cancellation(cancellation.clone());
    let cancels = async {
        slow.waiting.notified().await;
        cancellation.cancel();
        slow.go_on.notify_one();
    };
    let (ended, ()) = tokio::join!(agent.run("Pay.", &cx), cancels);
    assert_eq!(ended.unwrap_err().stage(), Stage::Cancelled);
    assert_eq!(log.entries().len(), 0);
    let records = slow.kept.lock().unwrap().clone();
    assert_eq!(again(&agent, records).await.answer, "Done.");
    assert_eq!(log.entries().len(), 1);
}

/// A store whose append of the begin of a call takes two seconds.
#[derive(Clone, Default)]
struct SlowBegin(Arc<Mutex<Vec<Record>>>);

impl Store for SlowBegin {
    fn append<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, std::result::Result<(), Open>> {
        Box::pin(async move {
            if matches!(record, Record::Begun { .. }) {
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            self.0.lock().unwrap().push(record.clone());
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_call_that_the_time_limit_forbade_counts() {
    let pay = || tool("pay", Effect::Write, |_| async { Ok("Paid.".to_owned()) });
    let limits = Limits { max_time: Some(Duration::from_secs(1)), ..Limits::default() };
    let said = || [calls([("p", "pay", "a")]), calls([("q", "pay", "b")]), Reply::text("Done.")];
    let (model, asked) = scripted(said());
    let agent = Agent::new(model, [pay()]).unwrap().with_limits(limits.clone());
    let (store, began) = (SlowBegin::default(), Instant::now());
    let cx = with_performer(&Context::default(), Replay::new([], store.clone()));
    let finished = agent.run("Pay.", &cx).await.unwrap();
    assert_eq!((finished.ending, finished.limit), (Ending::LimitReached, Some(LimitKind::Time)));
    assert_eq!((began.elapsed(), asked.load(Ordering::SeqCst)), (Duration::from_secs(2), 1));
    // The records have the time, so the run from them ends in the same way.
    let records = store.0.lock().unwrap().clone();
    assert_eq!(again(&agent, records).await, finished);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_call_that_was_cancelled_after_it_began_is_asked_about() {
    let began = Arc::new(Notify::new());
    let (begins, cancellation) = (Arc::clone(&began), Cancellation::default());
    let pay = tool("pay", Effect::Write, move |_| {
        begins.notify_one();
        std::future::pending()
    });
    let (model, _) = scripted([calls([("p", "pay", "5 euros")]), Reply::text("Done.")]);
    let agent = Agent::new(model, [pay]).unwrap();
    let journal = Replay::in_memory([]);
    let cx = kept(&journal).with_cancellation(cancellation.clone());
    let cancels = async {
        began.notified().await;
        cancellation.cancel();
    };
    let (ended, ()) = tokio::join!(agent.run("Pay.", &cx), cancels);
    assert_eq!(ended.unwrap_err().stage(), Stage::Cancelled);
    let cx = kept(&journal);
    let ended = timeout(Duration::from_secs(5), agent.run("Pay.", &cx)).await;
    let error = ended.expect("the call is not made again").unwrap_err();
    assert!(error.downcast_ref::<AwaitsApproval>().unwrap().unknown);
}

#[tokio::test]
async fn a_cost_below_an_agent_is_counted_once_when_the_run_is_driven_on() {
    let closed = Arc::new(AtomicBool::new(true));
    let agent = || {
        let closed = Arc::clone(&closed);
        let look = tool("look", Effect::Read, move |_| {
            let closed = closed.load(Ordering::SeqCst);
            async move { if closed { Err(Error::stop("closed")) } else { Ok("empty".to_owned()) } }
        });
        let said = [calls([("x", "look", "hall")]), Reply::text("It is empty.")];
        let (model, _) = scripted(said.map(|reply| reply.with_usage(Usage::new(10, 2))));
        let helper = Agent::new(model, [look]).unwrap();
        let helper = Tool::new(helper).unwrap().named("helper").unwrap();
        let task = ToolCall::new("h", "helper", r#"{"task": "Look."}"#);
        let said = [Reply::calls([task]), Reply::text("Done.")];
        let (model, _) = scripted(said.map(|reply| reply.with_usage(Usage::new(5, 1))));
        Agent::new(model, [helper]).unwrap()
    };
    let (journal, above) = (Replay::in_memory([]), Ledger::default());
    let cx = kept(&journal).with_ledger(above.clone());
    let mut run = agent().start("Look.").unwrap();
    for _ in 0..2 {
        let error = agent().drive(&mut run, &cx).await.unwrap_err();
        assert_eq!(error.to_string(), "closed");
    }
    closed.store(false, Ordering::SeqCst);
    let spent = agent().drive(&mut run, &cx).await.unwrap().spent;
    assert_eq!((spent.model_calls, spent.usage.input_tokens), (4, 30));
    // The calls that failed are calls, too.
    let above = above.committed();
    assert_eq!((above.model_calls, above.usage.input_tokens), (4, 30));

    // A replay counts the whole run, and charges nobody above it again.
    let above = Ledger::default();
    let cx = kept(&Replay::in_memory(journal.records())).with_ledger(above.clone());
    let replayed = agent().run("Look.", &cx).await.unwrap().spent;
    assert_eq!((replayed.model_calls, replayed.usage.input_tokens), (4, 30));
    assert_eq!(above.committed(), Spent::default());
}

#[tokio::test(start_paused = true)]
async fn an_append_that_hangs_ends_with_the_deadline() {
    let hangs: [Waits; 3] = [
        |record| matches!(record, Record::Ended { part, .. } if matches!(part.kind, PartIdKind::Ask { .. })),
        |record| matches!(record, Record::Begun { .. }),
        |record| matches!(record, Record::Ended { part, .. } if matches!(part.kind, PartIdKind::Call { .. })),
    ];
    for waits in hangs {
        let (agent, log) = payer(Effect::Write);
        let slow = Slow::default();
        *slow.waits.lock().unwrap() = Some(waits);
        let cx = with_performer(&Context::default(), Replay::new([], slow.clone()));
        let mut run = agent.start("Pay.").unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        let soon = cx.clone().with_deadline(deadline.into_std());
        let ended = timeout(Duration::from_secs(60), agent.drive(&mut run, &soon)).await;
        assert_eq!(ended.expect("no drive hangs").unwrap_err().stage(), Stage::Limit);
        // What had ended is appended by the next drive.
        *slow.waits.lock().unwrap() = None;
        assert_eq!(agent.drive(&mut run, &cx).await.unwrap().answer, "Done.");
        assert_eq!(log.entries().len(), 1);
    }
}

#[tokio::test]
async fn a_place_that_panics_ends_the_drive_with_an_error() {
    struct Falls;
    impl Store for Falls {
        fn append<'a>(&'a self, _: &'a Record) -> BoxFuture<'a, std::result::Result<(), Open>> {
            panic!("the disk fell")
        }
    }
    let (agent, _) = payer(Effect::Write);
    let cx = with_performer(&Context::default(), Replay::new([], Falls));
    let error = agent.run("Pay.", &cx).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Panic);
    insta::assert_snapshot!(error, @"the performer of the agent panicked; the run did not advance, so it can be driven again");
}

#[tokio::test]
async fn a_performer_that_loses_a_call_that_was_not_begun_ends_the_drive() {
    /// Says of every call that its outcome is not known.
    struct Forgets;
    impl Perform for Forgets {
        fn perform<'a>(&'a self, part: Part, work: Work<'a>) -> BoxFuture<'a, Performed> {
            match part.kind {
                PartKind::Call { .. } => Box::pin(async { Ok(Outcome::new(OutcomeKind::Unknown)) }),
                _ => work,
            }
        }
    }
    let (agent, log) = payer(Effect::Write);
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let cx = with_performer(&Context::default(), Forgets).with_approver(move |_: Approval| {
        let nth = counted.fetch_add(1, Ordering::SeqCst);
        assert!(nth < 100, "it is asked about without end");
        async { Ok(Decision::CallAgain) }
    });
    let error = agent.run("Pay.", &cx).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Journal);
    assert_eq!((asked.load(Ordering::SeqCst), log.entries().len()), (1, 0));
}
