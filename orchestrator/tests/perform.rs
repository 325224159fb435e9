//! Runs whose parts a performer keeps: cut at every record, with lost outcomes, and with a performer
//! that fails.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use toolwright_module::approval::{Approval, Decision};
use toolwright_module::error::Stage;
use toolwright_module::message::ToolResult;
use toolwright_module::model::{BoxFuture, Usage};
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Context, Effect, Error, LanguageModel, Message, Reply, Request, Result, Tool, ToolCall,
};
use toolwright_orchestrator::perform::{
    self, Open, Outcome, OutcomeKind, Part, PartKind, Record, Replay, Store, with_performer,
};
use toolwright_orchestrator::{
    Agent, AwaitsApproval, Finished, Limits, Run, RunState, StepKind, StepResult, Task,
};

use crate::support::{Log, call, calls, look, replies, tool};

/// Counts what really happened.
#[derive(Clone, Default)]
struct Counts(Arc<[AtomicUsize; 3]>);

impl Counts {
    fn add(&self, what: usize) {
        self.0[what].fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the numbers of questions, reads and writes.
    fn all(&self) -> [usize; 3] {
        [0, 1, 2].map(|what| self.0[what].load(Ordering::SeqCst))
    }
}

/// Returns a model whose reply depends on the conversation, and not on how often it was asked.
fn scripted<const N: usize>(
    said: [Reply; N],
    asked: impl Fn() + Send + Sync + 'static,
) -> impl LanguageModel {
    Scripted::new(move |request: &Request| {
        asked();
        let replied = |message: &&Arc<Message>| matches!(***message, Message::Assistant { .. });
        let nth = request.messages.iter().filter(replied).count();
        Ok(said[nth].clone().with_usage(Usage::new(10, 2)))
    })
}

/// Returns an agent over an agent: two reads side by side, an agent below that reads and writes, and
/// a write.
fn house(counts: &Counts) -> Agent {
    let model = |counts: &Counts, said: [Reply; 3]| {
        let counts = counts.clone();
        scripted(said, move || counts.add(0))
    };
    let tools = |counts: &Counts| {
        let (reads, writes) = (counts.clone(), counts.clone());
        let look = tool("look", Effect::Read, move |look| {
            reads.add(1);
            async move { Ok(format!("{} is empty", look.place)) }
        });
        let tidy = tool("tidy", Effect::Write, move |look| {
            writes.add(2);
            async move { Ok(format!("{} is tidy", look.place)) }
        });
        [look, tidy]
    };
    let below = [
        calls([("x", "look", "the hall")]),
        calls([("y", "tidy", "the hall")]),
        Reply::text("The hall is done."),
    ];
    let helper = Agent::new(model(counts, below), tools(counts)).unwrap();
    let helper = Tool::new(helper).unwrap().named("helper").unwrap();
    let task = ToolCall::new("h", "helper", r#"{"task": "Do the hall."}"#);
    let mut first: Vec<ToolCall> =
        vec![call("a", "look", "the attic"), call("b", "look", "the bath")];
    first.push(task);
    let said = [
        Reply::calls(first),
        calls([("c", "tidy", "the cellar")]),
        Reply::text("The house is done."),
    ];
    let tools = tools(counts).into_iter().chain([helper]);
    Agent::new(model(counts, said), tools).unwrap()
}

/// Runs the house with a journal, and returns the result and the number of decisions.
async fn run(counts: &Counts, journal: &Replay<perform::InMemory>) -> (Finished, usize) {
    let asked = Arc::new(AtomicUsize::new(0));
    let asks = Arc::clone(&asked);
    let cx = with_performer(&Context::default(), journal.clone()).with_approver(
        move |approval: Approval| {
            assert!(approval.unknown);
            asks.fetch_add(1, Ordering::SeqCst);
            async { Ok(Decision::CallAgain) }
        },
    );
    let finished = house(counts).run("Do the house.", &cx).await.unwrap();
    (finished, asked.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_run_that_is_cut_after_any_record_ends_the_same_and_repeats_nothing() {
    let counts = Counts::default();
    let journal = Replay::in_memory([]);
    let (whole, asked) = run(&counts, &journal).await;
    assert_eq!((counts.all(), asked), ([6, 3, 2], 0));
    let records = journal.records();
    // Two marks of writes, six questions, three reads, two writes and the call of the helper.
    assert_eq!(records.len(), 14);
    for cut in 0..=records.len() {
        let (kept, counts) = (&records[..cut], Counts::default());
        let journal = Replay::in_memory(kept.to_vec());
        let (finished, asked) = run(&counts, &journal).await;
        assert_eq!(finished, whole, "after {cut} records");
        let ended = |record: &&Record| matches!(record, Record::Ended { .. });
        let begun_last = matches!(kept.last(), Some(Record::Begun { .. }));
        assert_eq!(asked, usize::from(begun_last), "after {cut} records");
        let made: usize = counts.all().iter().sum();
        // A finished call of the helper is one outcome more than its parts.
        let helper = |record: &&Record| matches!(record, Record::Ended { outcome: Outcome { kind: OutcomeKind::Called { result, .. }, .. }, .. } if result.id == "h");
        let had = kept.iter().filter(ended).count() - kept.iter().filter(helper).count();
        assert_eq!(made, 11 - had, "after {cut} records");
    }
}

#[tokio::test]
async fn the_records_of_another_run_are_refused() {
    let journal = Replay::in_memory([]);
    run(&Counts::default(), &journal).await;
    let cx = with_performer(&Context::default(), Replay::in_memory(journal.records()));
    let error = house(&Counts::default()).run("Do the garden.", &cx).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Journal);
    insta::assert_snapshot!(error, @r#"the run could not be recorded: the journal belongs to another run: its part ["ask","","0"] has another task or other arguments; use one journal for each run; fix the cause and drive the run again"#);

    let mut records = journal.records();
    let reply = records.iter().position(
        |record| matches!(record, Record::Ended { part, .. } if part.to_string() == r#"["ask","","0"]"#),
    );
    if let Record::Ended { outcome, .. } = &mut records[reply.unwrap()] {
        outcome.kind = OutcomeKind::Unknown;
    }
    let cx = with_performer(&Context::default(), Replay::in_memory(records));
    let error = house(&Counts::default()).run("Do the house.", &cx).await.unwrap_err();
    insta::assert_snapshot!(error, @"the journal has an outcome of another kind for a part of the run; it is the journal of another run");
}

/// A place that fails at one append, and keeps the others.
#[derive(Clone)]
struct Full {
    left: Arc<AtomicUsize>,
    kept: Arc<Mutex<Vec<Record>>>,
}

impl Store for Full {
    fn append<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<(), Open>> {
        Box::pin(async move {
            if self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
                return Err(std::io::Error::other("the disk is full").into());
            }
            self.kept.lock().unwrap().push(record.clone());
            Ok(())
        })
    }
}

#[tokio::test]
async fn a_performer_that_fails_ends_the_drive_and_no_model_sees_it() {
    let counts = Counts::default();
    let journal = Replay::in_memory([]);
    let (whole, _) = run(&counts, &journal).await;
    for fails_at in 0..14 {
        let full = Full { left: Arc::new(fails_at.into()), kept: Arc::default() };
        let kept = Arc::clone(&full.kept);
        let cx = with_performer(&Context::default(), Replay::new([], full));
        let error = house(&Counts::default()).run("Do the house.", &cx).await.unwrap_err();
        assert_eq!(error.stage(), Stage::Journal, "{error}");
        assert!(error.to_string().contains("the disk is full"), "{error}");
        let records = kept.lock().unwrap().clone();
        let (finished, _) = run(&Counts::default(), &Replay::in_memory(records)).await;
        assert_eq!(finished, whole, "after append {fails_at} failed");
    }
}

/// Returns an agent that pays once, and the log of its payments.
fn payer(effect: Effect) -> (Agent, Log) {
    let log = Log::default();
    let paid = log.clone();
    let pay = tool("pay", effect, move |look| {
        paid.write(look.place);
        async { Ok("Paid.".to_owned()) }
    });
    let model = scripted([calls([("p", "pay", "5 euros")]), Reply::text("Done.")], || ());
    (Agent::new(model, [pay]).unwrap(), log)
}

/// Returns the records of a run that was killed during its payment.
async fn killed_while_paying(effect: Effect) -> Vec<Record> {
    let journal = Replay::in_memory([]);
    let cx = with_performer(&Context::default(), journal.clone());
    payer(effect).0.run("Pay.", &cx).await.unwrap();
    journal.records()[..2].to_vec()
}

#[tokio::test]
async fn a_call_with_a_lost_outcome_follows_its_effect_and_the_decision() {
    let decided = async |effect: Effect, decision: Option<Decision>| {
        let (agent, log) = payer(effect);
        let mut cx = with_performer(
            &Context::default(),
            Replay::in_memory(killed_while_paying(effect).await),
        );
        if let Some(decision) = decision {
            cx = cx.with_approver(move |asked: Approval| {
                assert!(asked.unknown);
                let decision = decision.clone();
                async move { Ok(decision) }
            });
        }
        let ended = agent.run("Pay.", &cx).await.map(|finished| {
            let Message::Tool(ToolResult { text, .. }) = &*finished.history[2] else { panic!() };
            text.clone()
        });
        (ended.map_err(|error| error.to_string()), log.entries().len())
    };
    let paid = || Ok("Paid.".to_owned());
    // A read is in the records with its outcome, because it has no mark.
    assert_eq!(decided(Effect::Read, None).await, (paid(), 0));
    assert_eq!(decided(Effect::Write, Some(Decision::Approve)).await, (paid(), 1));
    assert_eq!(decided(Effect::Irreversible, Some(Decision::CallAgain)).await, (paid(), 1));
    assert_eq!(
        decided(Effect::Irreversible, Some(Decision::Happened { result: "Paid.".to_owned() }))
            .await,
        (paid(), 0)
    );
    let denied = decided(Effect::Write, Some(Decision::deny("Ask the bank."))).await;
    insta::assert_snapshot!(denied.0.unwrap(), @"Whether the call took effect is not known, and it is not made again: Ask the bank.");
    assert_eq!(denied.1, 0);
    let (refused, made) = decided(Effect::Irreversible, Some(Decision::Approve)).await;
    insta::assert_snapshot!(refused.unwrap_err(), @"the call `p` may have taken effect and is irreversible; decide `CallAgain`, `Happened` or `Deny`");
    assert_eq!(made, 0);
    let (waits, made) = decided(Effect::Write, None).await;
    insta::assert_snapshot!(waits.unwrap_err(), @"it is not known whether the call took effect; `pay` waits for a person's approval; record the decision with `decide` of the journal or database that has the run, or with `StepResult::decisions` in a run of your own, or give the context an approver; then drive the run again");
    assert_eq!(made, 0);
}

#[tokio::test]
async fn a_decision_in_the_journal_answers_a_call_of_an_agent_below() {
    let counts = Counts::default();
    let journal = Replay::in_memory([]);
    let (whole, _) = run(&counts, &journal).await;
    let records = journal.records();
    let below =
        |record: &Record| matches!(record, Record::Begun { part, .. } if !part.path.is_empty());
    let cut = records.iter().position(below).unwrap() + 1;
    let journal = Replay::in_memory(records[..cut].to_vec());
    let cx = with_performer(&Context::default(), journal.clone());
    let counts = Counts::default();
    let error = house(&counts).run("Do the house.", &cx).await.unwrap_err();
    let awaits = error.downcast_ref::<AwaitsApproval>().unwrap();
    assert_eq!((awaits.path.as_str(), awaits.unknown, counts.all()[2]), ("helper", true, 0));

    // A person decides, and the program adds the decision to the journal.
    let mut records = journal.records();
    let path = serde_json::from_str(r#"[{"tool": "helper", "id": "h"}]"#).unwrap();
    let call = awaits.calls[0].clone();
    let part = serde_json::json!({
        "path": Vec::<serde_json::Value>::clone(&path),
        "kind": PartKind::Decide { call, effect: Effect::Write, unknown: Some(0), contract: None, reason: None, is_checked: false },
    });
    let part: Part = serde_json::from_value(part).unwrap();
    let outcome = Outcome::new(OutcomeKind::Decided(Decision::CallAgain));
    records.push(Record::Ended { part: part.id(), identity: part.identity(), outcome });
    let cx = with_performer(&Context::default(), Replay::in_memory(records));
    let finished = house(&counts).run("Do the house.", &cx).await.unwrap();
    assert_eq!((finished, counts.all()[2]), (whole, 2));
}

#[tokio::test]
async fn an_agent_inside_of_code_is_performed_with_the_code_as_a_whole() {
    let questions = Arc::new(AtomicUsize::new(0));
    let agent = || {
        let asked = Arc::clone(&questions);
        let inner = Scripted::new(move |_| {
            asked.fetch_add(1, Ordering::SeqCst);
            Ok(Reply::text("It is empty."))
        });
        let inner = Arc::new(Agent::new(inner, []).unwrap());
        let module =
            toolwright_module::from_fn_with(move |look: crate::support::Look, cx: Context| {
                let inner = Arc::clone(&inner);
                async move { Ok(inner.run(look.place, &cx).await?.answer) }
            });
        let tool = Tool::new(module).unwrap();
        let (model, _) = replies([calls([("1", "look", "the attic")]), Reply::text("Done.")]);
        Agent::new(model, [tool]).unwrap()
    };
    let journal = Replay::in_memory([]);
    let cx = with_performer(&Context::default(), journal.clone());
    agent().run("Look.", &cx).await.unwrap();
    let kinds: Vec<String> = journal
        .records()
        .iter()
        .map(|record| match record {
            Record::Begun { part, .. } | Record::Ended { part, .. } => part.to_string(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(
        kinds,
        [r#"["ask","","0"]"#, r#"["call","1","0"]"#, r#"["call","1","0"]"#, r#"["ask","","1"]"#]
    );
    assert_eq!(questions.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_value_is_computed_once() {
    let journal = Replay::in_memory([]);
    let cx = with_performer(&Context::default(), journal.clone());
    let number = perform::value(&cx, "number", async { Ok(7_u64) }).await.unwrap();
    let again = perform::value(&cx, "number", async { Err(Error::other("again")) }).await;
    assert_eq!((number, again.unwrap()), (7_u64, 7_u64));
    let error = perform::value::<String>(&cx, "number", async { Ok(String::new()) }).await;
    assert_eq!(error.unwrap_err().stage(), Stage::Decoding);
    // A `Value` cannot have it.
    let long = || async { Ok(vec![u128::MAX, 1]) };
    let first = perform::value(&cx, "long", long()).await.unwrap();
    let again: Vec<u128> = perform::value(&cx, "long", async { Ok(Vec::new()) }).await.unwrap();
    assert_eq!((first, again), (vec![u128::MAX, 1], vec![u128::MAX, 1]));
    // A value whose field has the name of the record's own is not taken for one.
    let own = || async { Ok(serde_json::json!({"toolwright/json": "[1]"})) };
    let first = perform::value(&cx, "own", own()).await.unwrap();
    let again: serde_json::Value = perform::value(&cx, "own", own()).await.unwrap();
    assert_eq!((&first["toolwright/json"], &again), (&serde_json::json!("[1]"), &first));
    // Without a performer it is only the work.
    let plain = perform::value(&Context::default(), "number", async { Ok(8) }).await;
    assert_eq!(plain.unwrap(), 8);
}

#[test]
fn a_step_by_hand_takes_some_results_and_waits_for_the_others() {
    let mut run = Run::new("Go.", &[look()], Limits::default()).unwrap();
    let said = calls([("a", "look", "x"), ("b", "look", "y"), ("c", "look", "z")]);
    run.apply(StepResult::model(0, said)).unwrap();
    let result = |id: &str| ToolResult::new(&call(id, "look", ""), format!("{id} is done"));
    run.apply(StepResult::tools(1, [result("c"), result("a")])).unwrap();
    let StepKind::CallTools(left) = run.next().kind else { panic!() };
    assert_eq!((left.len(), left[0].id.as_str(), run.next().number), (1, "b", 1));
    for wrong in [vec![], vec![result("a")], vec![result("b"), result("b")], vec![result("d")]] {
        assert!(run.apply(StepResult::tools(1, wrong)).is_err());
    }
    let stored: RunState = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    let mut run = Run::resume(stored, &[look()]).unwrap().run;
    run.apply(StepResult::tools(1, [result("b")])).unwrap();
    let texts: Vec<String> = run.history()[2..]
        .iter()
        .map(|message| match &**message {
            Message::Tool(result) => result.text.clone(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, ["a is done", "b is done", "c is done"]);
}

#[tokio::test]
async fn a_decision_that_cannot_be_applied_is_not_recorded() {
    let (agent, log) = payer(Effect::Irreversible);
    let journal = Replay::in_memory(killed_while_paying(Effect::Irreversible).await);
    let asked = Arc::new(AtomicUsize::new(0));
    let cx = with_performer(&Context::default(), journal).with_approver(move |_: Approval| {
        let nth = asked.fetch_add(1, Ordering::SeqCst);
        async move {
            Ok([
                Decision::Approve,
                Decision::Edit { arguments: "{}".to_owned() },
                Decision::CallAgain,
            ][nth]
                .clone())
        }
    });
    for _ in 0..2 {
        agent.run("Pay.", &cx).await.unwrap_err();
    }
    agent.run("Pay.", &cx).await.unwrap();
    assert_eq!(log.entries().len(), 1);
}

#[tokio::test]
async fn two_drives_of_one_journal_do_not_make_a_call_twice() {
    let (agent, log) = payer(Effect::Irreversible);
    let cx = with_performer(&Context::default(), Replay::in_memory([]));
    let (one, other) = tokio::join!(agent.run("Pay.", &cx), agent.run("Pay.", &cx));
    assert!(one.is_ok() || other.is_ok());
    assert!(log.entries().len() <= 1, "{:?}", log.entries());
}

#[tokio::test]
async fn an_outcome_whose_append_failed_is_appended_by_the_next_drive() {
    let (agent, log) = payer(Effect::Write);
    // The question, the mark, and then the disk is full.
    let full = Full { left: Arc::new(2.into()), kept: Arc::default() };
    let kept = Arc::clone(&full.kept);
    let cx = with_performer(&Context::default(), Replay::new([], full));
    agent.run("Pay.", &cx).await.unwrap_err();
    agent.run("Pay.", &cx).await.unwrap();
    assert_eq!(log.entries().len(), 1);
    let ended = |record: &Record| matches!(record, Record::Ended { outcome, .. } if matches!(outcome.kind, OutcomeKind::Called { .. }));
    assert_eq!(kept.lock().unwrap().iter().filter(|record| ended(record)).count(), 1);
}

#[test]
fn a_stored_run_that_would_wait_forever_is_corrupt() {
    let mut run = Run::new("Go.", &[look()], Limits::default()).unwrap();
    run.apply(StepResult::model(0, calls([("a", "look", "x")]))).unwrap();
    let stored = serde_json::to_value(&run).unwrap();
    let result = serde_json::json!({"id": "a", "name": "look", "text": "ok"});
    for phase in [
        serde_json::json!({"tools": {"results": [result]}}),
        serde_json::json!({"approval": {"results": [result], "awaits": ["a"]}}),
    ] {
        let mut edited = stored.clone();
        edited["phase"] = phase;
        let state: RunState = serde_json::from_value(edited).unwrap();
        assert!(Run::resume(state, &[look()]).is_err());
    }
}

#[tokio::test]
async fn a_journal_knows_the_task_after_a_history_and_of_a_follow_up() {
    let agent = || {
        let model = Scripted::replies([Reply::text("Done."), Reply::text("Done again.")]);
        Agent::new(model, []).unwrap()
    };
    let task = |text: &str| Task::new(text).with_history([Message::user("Hello.")]);
    let journal = Replay::in_memory([]);
    let cx = with_performer(&Context::default(), journal.clone());
    let mut run = agent().start(task("Delete nothing.")).unwrap();
    agent().drive(&mut run, &cx).await.unwrap();
    run.follow_up("And then?").unwrap();
    agent().drive(&mut run, &cx).await.unwrap();

    let again = |first: &'static str, second: &'static str| {
        let cx = with_performer(&Context::default(), Replay::in_memory(journal.records()));
        async move {
            let mut run = agent().start(task(first)).unwrap();
            agent().drive(&mut run, &cx).await?;
            run.follow_up(second).unwrap();
            agent().drive(&mut run, &cx).await
        }
    };
    assert_eq!(again("Delete nothing.", "And then?").await.unwrap().answer, "Done.");
    assert_eq!(again("Delete all.", "And then?").await.unwrap_err().stage(), Stage::Journal);
    assert_eq!(again("Delete nothing.", "And now?").await.unwrap_err().stage(), Stage::Journal);
}

#[tokio::test]
async fn a_drive_from_many_records_lets_other_tasks_run() {
    let agent = || {
        let said = (0..100).map(|round| {
            Reply::calls([ToolCall::new(format!("c{round}"), "look", r#"{"place": "x"}"#)])
        });
        let model = Scripted::replies(said.chain([Reply::text("Done.")]).collect::<Vec<_>>());
        let limits = Limits { max_iterations: 1_000, ..Limits::default() };
        Agent::new(model, [look()]).unwrap().with_limits(limits)
    };
    let journal = Replay::in_memory([]);
    agent().run("Go.", &with_performer(&Context::default(), journal.clone())).await.unwrap();
    let cx = with_performer(&Context::default(), Replay::in_memory(journal.records()));
    let mut others = 0;
    let agent = agent();
    let mut drive = std::pin::pin!(agent.run("Go.", &cx));
    let finished = loop {
        tokio::select! {
            biased;
            finished = &mut drive => break finished.unwrap(),
            () = tokio::task::yield_now() => others += 1,
        }
    };
    assert_eq!(finished.answer, "Done.");
    assert!(others >= 10, "other tasks ran {others} times");
}

#[tokio::test]
async fn a_result_of_another_call_in_a_journal_is_refused() {
    let (agent, _) = payer(Effect::Read);
    let journal = Replay::in_memory([]);
    agent.run("Pay.", &with_performer(&Context::default(), journal.clone())).await.unwrap();
    let mut records = journal.records();
    for record in &mut records {
        if let Record::Ended { outcome, .. } = record
            && let OutcomeKind::Called { result, .. } = &mut outcome.kind
        {
            result.id = "another".to_owned();
        }
    }
    let cx = with_performer(&Context::default(), Replay::in_memory(records));
    assert_eq!(agent.run("Pay.", &cx).await.unwrap_err().stage(), Stage::Journal);
}

#[tokio::test]
async fn a_panic_of_a_filter_an_editor_or_a_validator_ends_the_drive_with_an_error() {
    let agent = || Agent::new(Scripted::replies([Reply::text("Yes.")]), []).unwrap();
    let panics = [
        Agent::new(Scripted::replies([]), [look()])
            .unwrap()
            .with_filter(|_, _, _| panic!("a filter"))
            .unwrap(),
        agent().with_editor(|_| panic!("an editor")),
        agent().with_validator(|_: &Task, _: &String| panic!("a validator")),
    ];
    for agent in panics {
        let error = agent.run("Go.", &Context::default()).await.unwrap_err();
        assert_eq!(error.stage(), Stage::Panic);
    }
}
