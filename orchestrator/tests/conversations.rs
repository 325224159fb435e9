//! Tasks with parts and histories, follow-ups after interruptions, and the tools and messages of
//! single rounds.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::approval::Decision;
use toolwright_module::budget::Budget;
use toolwright_module::error::Stage;
use toolwright_module::event::{Event, EventKind};
use toolwright_module::message::{Document, Image, Part, ReplyPart, ToolResult};
use toolwright_module::model::Usage;
use toolwright_module::{
    Contract, Effect, Message, Reply, Request, Signature, Tool, ToolCall, from_fn,
};
use toolwright_orchestrator::perform::{Replay, with_performer};
use toolwright_orchestrator::{
    ApprovalPolicy, Choosing, Edited, Ending, Limits, Run, RunError, RunState, StepKind,
    StepResult, Task, TaskAnswer,
};

use crate::support::{agent, call, calls, look, show, soon, tidy};

fn request(run: &Run) -> Request {
    match run.next().kind {
        StepKind::CallModel(request) => request,
        other => panic!("{other:?}"),
    }
}

fn started(task: impl Into<Task>) -> Result<Run, RunError> {
    Run::new(task, &[look(), tidy()], Limits::default())
}

fn asks(calls: &[(&str, &str)]) -> Message {
    let parts = calls.iter().map(|(id, name)| ReplyPart::Call(call(id, name, "a")));
    Message::Assistant { parts: parts.collect() }
}

fn result(id: &str, name: &str) -> Message {
    Message::Tool(ToolResult::new(&call(id, name, "a"), "ok"))
}

fn user(text: &str) -> Message {
    Message::User { parts: vec![Part::Text(text.to_owned())] }
}

#[test]
fn the_contract_of_a_task_is_that_of_its_text() {
    /// Carry out a task with tools of your own and tell what came of it.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[schemars(rename = "Task")]
    struct Text {
        /// What is to be done, with everything that must be known for it.
        task: String,
    }

    impl Signature for Text {
        type Output = TaskAnswer;
    }

    let task = Contract::of::<Task>().unwrap();
    assert_eq!(task, Contract::of::<Text>().unwrap());
    assert_eq!(task.fingerprint(), Contract::of::<Text>().unwrap().fingerprint());
}

#[test]
fn a_task_is_a_text_parts_or_messages() {
    let image = || Image::url("https://example.com/a.png");
    let messages = vec![user("Hello."), user("Are you there?")];
    let shared: Vec<Arc<Message>> = messages.iter().cloned().map(Arc::new).collect();
    let text = String::from("Go.");
    let tasks: Vec<(Task, usize)> = vec![
        ("Go.".into(), 1),
        ((&text).into(), 1),
        (text.into(), 1),
        (std::borrow::Cow::Borrowed("Go.").into(), 1),
        ([Part::from("Look at"), image().into()].into(), 1),
        (vec![Part::from("Look.")].into(), 1),
        (image().into(), 1),
        (Document::url("https://example.com/a.pdf").into(), 1),
        (Task::new("Look at this.").with_part(image()), 1),
        (Message::user("Go.").into(), 1),
        (user("Go.").into(), 1),
        ((&shared).into(), 2),
        (shared.as_slice().into(), 2),
        (shared.into(), 2),
        (messages.into(), 2),
    ];
    for (task, expected) in tasks {
        assert_eq!(started(task).unwrap().history().len(), expected);
    }
    let task = Task::new("Look at this.").with_part(image()).with_part("Now.");
    let parts = vec![Part::from("Look at this."), image().into(), "Now.".into()];
    assert_eq!(*started(task).unwrap().history()[0], Message::User { parts });
}

#[tokio::test]
async fn an_agent_answers_a_history_and_a_stream_does_too() {
    let (agent, asked) = agent([look()], [Reply::text("b"), Reply::text("c")]);
    let agent = agent.with_instructions("Be brief.");
    let history = vec![
        Message::System { text: "Be long.".to_owned() },
        user("Hello."),
        asks(&[("1", "gone")]),
        result("1", "gone"),
        Message::Assistant { parts: vec![ReplyPart::text("Hello!")] },
    ];
    let task = Task::new("And now?").with_history(history);
    let finished = agent.run(task.clone(), &soon()).await.unwrap();
    insta::assert_snapshot!(show(&finished.history), @r#"
    system: Be brief.
    user: Hello.
    assistant: 1 gone({"place":"a"})
    tool 1: ok
    assistant: Hello!
    user: And now?
    assistant: b
    "#);
    drop(agent.stream(task, &soon()));
    let error = agent.run(&finished.history, &soon()).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Setup);
    insta::assert_snapshot!(error, @"there is nothing to answer: the task is empty, and no message of the user or of a tool ends its history; add a text");
    assert_eq!(asked.requests().len(), 1);
}

#[test]
fn open_calls_of_a_history_are_answered_as_interrupted() {
    let history = vec![
        user("Go."),
        asks(&[("1", "look"), ("2", "tidy"), ("3", "sweep")]),
        result("2", "tidy"),
        user("Hello?"),
        asks(&[("4", "look")]),
    ];
    let run = started(history).unwrap();
    insta::assert_snapshot!(show(run.history()), @r#"
    user: Go.
    assistant: 1 look({"place":"a"}) | 2 tidy({"place":"a"}) | 3 sweep({"place":"a"})
    tool 2: ok
    tool 1 failed: The call was interrupted. Whether it took effect is not known.
    tool 3 failed: The call was interrupted. Whether it took effect is not known.
    user: Hello?
    assistant: 4 look({"place":"a"})
    tool 4 failed: The call was interrupted. Whether it took effect is not known.
    "#);

    let finish = Message::Assistant { parts: vec![ReplyPart::Call(call("5", "finish", "a"))] };
    let run = started(Task::new("Again.").with_history([user("Go."), finish])).unwrap();
    insta::assert_snapshot!(show(run.history()), @r#"
    user: Go.
    assistant: 5 finish({"place":"a"})
    tool 5: Accepted.
    user: Again.
    "#);
}

#[test]
fn a_history_that_no_provider_takes_is_refused() {
    let refused = [
        ("no call", vec![user("Go."), result("1", "look")]),
        ("twice", vec![asks(&[("1", "look")]), result("1", "look"), result("1", "look")]),
        ("same id", vec![asks(&[("1", "look")]), user("Go."), asks(&[("1", "look")])]),
        ("same id at once", vec![asks(&[("1", "look"), ("1", "look")])]),
        ("late", vec![asks(&[("1", "look")]), user("Go."), result("1", "look")]),
        ("no id", vec![asks(&[("", "look")])]),
        ("system", vec![user("Go."), Message::System { text: "Be brief.".to_owned() }]),
        ("answered", vec![user("Go."), Message::Assistant { parts: vec![ReplyPart::text("ok")] }]),
        ("instructions only", vec![Message::System { text: "Be brief.".to_owned() }]),
        ("empty", vec![]),
    ];
    let mut reported = String::new();
    for (what, history) in refused {
        let error = started(history).unwrap_err();
        assert!(matches!(error, RunError::History { .. } | RunError::NothingToAnswer));
        reported += &format!("{what}: {error}\n");
    }
    insta::assert_snapshot!(reported, @r"
    no call: the history cannot be continued: a result has no call before it; correct its messages
    twice: the history cannot be continued: a result has no call before it; correct its messages
    same id: the history cannot be continued: two calls have the same id; correct its messages
    same id at once: the history cannot be continued: two calls have the same id; correct its messages
    late: the history cannot be continued: a result has no call before it; correct its messages
    no id: the history cannot be continued: a call has no id; correct its messages
    system: the history cannot be continued: a system message is not at the start; correct its messages
    answered: there is nothing to answer: the task is empty, and no message of the user or of a tool ends its history; add a text
    instructions only: there is nothing to answer: the task is empty, and no message of the user or of a tool ends its history; add a text
    empty: there is nothing to answer: the task is empty, and no message of the user or of a tool ends its history; add a text
    ");
    assert!(matches!(started("").unwrap_err(), RunError::NothingToAnswer));
}

#[tokio::test]
async fn an_empty_task_of_a_model_is_sent_back() {
    let (inner, _) = agent([], [Reply::text("ok")]);
    let inner = toolwright_module::Tool::new(inner).unwrap();
    let ask =
        |id, task| Reply::calls([ToolCall::new(id, "task", format!(r#"{{"task":"{task}"}}"#))]);
    let (outer, _) = agent([inner], [ask("1", ""), ask("2", "Go."), Reply::text("ok")]);
    let finished = outer.run("Go.", &soon()).await.unwrap();
    insta::assert_snapshot!(show(&finished.history), @r#"
    user: Go.
    assistant: 1 task({"task":""})
    tool 1 failed: the task is empty; write what is to be done
    assistant: 2 task({"task":"Go."})
    tool 2: ok
    assistant: ok
    "#);
}

#[test]
fn ids_of_a_history_are_not_given_again() {
    let history = [user("Go."), asks(&[("a", "look")]), result("a", "look")];
    let mut run = started(Task::new("Again.").with_history(history)).unwrap();
    run.apply(StepResult::model(0, calls([("a", "look", "b")]))).unwrap();
    let StepKind::CallTools(calls) = run.next().kind else { panic!() };
    assert_ne!(calls[0].id, "a");
}

#[test]
fn a_follow_up_after_an_interruption_keeps_what_happened() {
    let mut run = started("Go.").unwrap();
    run.apply(StepResult::model(
        0,
        calls([("1", "look", "a"), ("2", "tidy", "b"), ("3", "x", "c")]),
    ))
    .unwrap();
    run.apply(StepResult::tools(1, [ToolResult::new(&call("1", "look", "a"), "empty")])).unwrap();
    run.follow_up("Stop. What did you do?").unwrap();
    insta::assert_snapshot!(show(run.history()), @r#"
    user: Go.
    assistant: 1 look({"place":"a"}) | 2 tidy({"place":"b"}) | 3 x({"place":"c"})
    tool 1: empty
    tool 2 failed: The call was interrupted. Whether it took effect is not known.
    tool 3 failed: There is no tool `x`. The tools are: look, tidy.
    user: Stop. What did you do?
    "#);
    assert_eq!(request(&run).messages, run.history());
    run.apply(StepResult::model(3, calls([("2", "look", "c")]))).unwrap();
    assert!(matches!(run.next().kind, StepKind::CallTools(calls) if calls[0].id != "2"));

    // Twice in a row, and after a reply that never came.
    run.follow_up("Stop.").unwrap();
    run.follow_up(Task::from(Message::user("Well?"))).unwrap();
    assert_eq!(request(&run).messages.len(), 10);
}

#[test]
fn a_follow_up_says_that_a_waiting_call_was_not_made() {
    let policy = ApprovalPolicy::from_effect(Effect::Write);
    let mut run = started("Go.").unwrap().with_approval(policy).unwrap();
    run.apply(StepResult::model(0, calls([("1", "look", "a"), ("2", "tidy", "b")]))).unwrap();
    assert!(matches!(run.next().kind, StepKind::AwaitApproval(_)));
    run.follow_up("Leave it.").unwrap();
    insta::assert_snapshot!(show(run.history()), @r#"
    user: Go.
    assistant: 1 look({"place":"a"}) | 2 tidy({"place":"b"})
    tool 1 failed: The call was not made: the user went on.
    tool 2 failed: The call was not made: the user went on.
    user: Leave it.
    "#);
    let state: RunState = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    assert_eq!(Run::resume(state, &[look(), tidy()]).unwrap().run.next(), run.next());
}

#[test]
fn a_refused_follow_up_changes_nothing() {
    let mut run = started("Go.").unwrap();
    run.apply(StepResult::model(0, calls([("1", "look", "a"), ("2", "tidy", "b")]))).unwrap();
    let before = serde_json::to_string(&run).unwrap();
    let again = Task::new("Again.").with_history([asks(&[("1", "look")])]);
    assert!(matches!(run.follow_up(again).unwrap_err(), RunError::History { .. }));
    assert!(matches!(run.follow_up("").unwrap_err(), RunError::NothingToAnswer));
    let system = Task::new("Go.").with_history([Message::system("Be brief.")]);
    assert!(matches!(run.follow_up(system).unwrap_err(), RunError::History { .. }));
    assert_eq!(serde_json::to_string(&run).unwrap(), before);
}

/// Checks that each call has its results right after its message, as providers require.
fn assert_paired(messages: &[Arc<Message>]) {
    let mut open: Vec<String> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for message in messages {
        match &**message {
            Message::Tool(result) => {
                let place = open.iter().position(|id| *id == result.id);
                open.remove(place.expect("a result has its call before it"));
            }
            other => {
                assert!(open.is_empty(), "no result: {open:?}");
                if let Message::Assistant { parts } = other {
                    open.extend(parts.iter().filter_map(|part| match part {
                        ReplyPart::Call(call) => Some(call.id.clone()),
                        _ => None,
                    }));
                }
                assert!(open.iter().all(|id| seen.insert(id.clone())), "one id, two calls");
            }
        }
    }
    assert!(open.is_empty(), "no result at the end: {open:?}");
}

fn any_message() -> impl Strategy<Value = Message> {
    let call = || {
        let id = prop::sample::select(vec!["1", "2", "3", "4", "5", "6", ""]);
        (id, prop::sample::select(vec!["look", "tidy", "sweep", "finish"]))
    };
    prop_oneof![
        3 => Just(user("Go.")),
        1 => Just(Message::System { text: "Be brief.".to_owned() }),
        1 => Just(Message::Assistant { parts: vec![ReplyPart::text("ok")] }),
        4 => prop::collection::vec(call(), 1..3).prop_map(|calls| asks(&calls)),
        4 => call().prop_map(|(id, name)| result(id, name)),
    ]
}

proptest! {
    #[test]
    fn any_history_is_refused_or_becomes_a_request_with_paired_calls(
        history in prop::collection::vec(any_message(), 0..9),
        task in prop::sample::select(vec!["", "Go on."]),
        later in prop::collection::vec(any_message(), 0..3),
    ) {
        match started(Task::new(task).with_history(history)) {
            Err(RunError::History { .. } | RunError::NothingToAnswer) => {}
            Err(other) => panic!("{other}"),
            Ok(mut run) => {
                assert_paired(&request(&run).messages);
                if run.follow_up(Task::new(task).with_history(later)).is_ok() {
                    assert_paired(&request(&run).messages);
                }
            }
        }
    }
}

fn shown(request: &Request) -> Vec<&str> {
    request.tools.iter().map(|tool| tool.name()).collect()
}

fn stored(run: &Run) -> Run {
    let state: RunState = serde_json::from_str(&serde_json::to_string(run).unwrap()).unwrap();
    let resumed = Run::resume(state, &[look(), tidy()]).unwrap();
    assert!(resumed.changes.is_empty());
    assert_eq!(resumed.run.next(), run.next());
    resumed.run
}

#[test]
fn a_model_gets_only_the_offered_tools_and_the_run_records_them() {
    let mut run = started("Go.").unwrap();
    assert_eq!(run.offered().collect::<Vec<_>>(), ["look", "tidy"]);
    run.offer(["tidy"]).unwrap();
    run.offer(["look"]).unwrap();
    assert_eq!(shown(&request(&run)), ["look"]);
    let mut run = stored(&run);
    run.apply(StepResult::model(0, calls([("1", "tidy", "a"), ("2", "look", "b")]))).unwrap();
    // An offer does not affect the calls that the model has made.
    run.offer(["tidy"]).unwrap();
    run.apply(StepResult::tools(1, [ToolResult::new(&call("2", "look", "b"), "ok")])).unwrap();
    insta::assert_snapshot!(show(run.history()), @r#"
    user: Go.
    assistant: 1 tidy({"place":"a"}) | 2 look({"place":"b"})
    tool 1 failed: The tool `tidy` is not available now. The tools are: look.
    tool 2: ok
    "#);
    assert_eq!(shown(&request(&run)), ["tidy"]);
    run.offer(["tidy", "look"]).unwrap();
    assert_eq!(shown(&request(&run)), ["look", "tidy"]);
    let offers = serde_json::to_value(run.offers()).unwrap();
    assert_eq!(
        offers,
        serde_json::json!([{"from": 1, "tools": ["look"]}, {"from": 2, "tools": ["tidy"]}, {"from": 4}])
    );
    run.offer(["tidy", "look"]).unwrap();
    assert_eq!(run.offers().len(), 3);

    let error = run.offer(["tody"]).unwrap_err();
    insta::assert_snapshot!(error, @"the offer names the tool `tody`, which does not exist; the tools are: look, tidy");
    run.offer([] as [&str; 0]).unwrap();
    assert!(request(&run).tools.is_empty());
}

#[test]
fn an_unchanged_offer_shares_its_contracts() {
    let mut run = started("Go.").unwrap();
    run.offer(["look"]).unwrap();
    let first = request(&run).tools;
    run.offer(["look"]).unwrap();
    assert!(Arc::ptr_eq(&first, &request(&run).tools));
}

#[test]
fn typed_and_selecting_runs_have_offers_too() {
    let contract = Arc::new(Contract::of::<Task>().unwrap());
    let mut run = started("Go.").unwrap().with_output(contract).unwrap();
    run.offer(["look"]).unwrap();
    assert_eq!(shown(&request(&run)), ["look", "finish"]);
    assert_eq!(run.offered().collect::<Vec<_>>(), ["look"]);

    let mut run = started("Go.").unwrap().with_choosing(Choosing::Selector).unwrap();
    run.offer(["look"]).unwrap();
    let run = stored(&run.with_instructions("Be brief."));
    let text = show(&request(&run).messages);
    assert!(text.contains("\"look\"") && !text.contains("\"tidy\""), "{text}");
    assert!(text.starts_with("system: Be brief."), "{text}");
}

#[tokio::test]
async fn a_filter_is_asked_before_each_question() {
    let said = [
        calls([("1", "tidy", "a")]),
        calls([("2", "look", "a")]),
        calls([("3", "tidy", "a")]),
        Reply::text("ok"),
    ];
    let (agent, asked) = agent([look(), tidy()], said);
    let agent = agent
        .with_filter(|run, tool, _| match tool.name() {
            "tidy" => run.tools_used().contains(&"look".to_owned()),
            _ => true,
        })
        .unwrap();
    let mut run = agent.start("Go.").unwrap();
    agent.drive(&mut run, &soon()).await.unwrap();
    let requests = asked.requests();
    let shown: Vec<_> = requests.iter().map(shown).collect();
    assert_eq!(shown, [vec!["look"], vec!["look"], vec!["look", "tidy"], vec!["look", "tidy"]]);
    insta::assert_snapshot!(show(&run.history()[2..3]), @"tool 1 failed: The tool `tidy` is not available now. The tools are: look.");
    assert_eq!(run.offers().len(), 2);
    assert_eq!(run.tools_used(), ["look", "tidy"]);
}

#[test]
fn an_edit_changes_what_is_sent_and_not_the_history() {
    let history = [user("One."), asks(&[("1", "look")]), result("1", "look"), user("Two.")];
    let task = Task::new("Three.").with_history(history);
    let mut run = started(task).unwrap().with_instructions("Be brief.");
    let whole = run.history().to_vec();
    run.edit_sent(4, [Message::user("[One was said.]")]).unwrap();
    insta::assert_snapshot!(show(&run.sent()), @r"
    system: Be brief.
    user: [One was said.]
    user: Two.
    user: Three.
    ");
    assert_eq!(request(&run).messages, *run.sent());
    // An edit of the edit, before and after its end.
    run.edit_sent(1, [] as [Arc<Message>; 0]).unwrap();
    assert_eq!(run.sent().len(), 4);
    run.edit_sent(2, [Message::system("Be very brief."), Message::user("[…]")]).unwrap();
    run.edit_sent(3, [Message::user("[One and two.]")]).unwrap();
    insta::assert_snapshot!(show(&run.sent()), @r"
    system: Be very brief.
    user: [One and two.]
    user: Three.
    ");
    assert_eq!(run.history(), whole);
    let mut run = stored(&run);
    run.apply(StepResult::model(0, calls([("2", "look", "a")]))).unwrap();
    let mut run = stored(&run);
    run.apply(StepResult::tools(1, [ToolResult::new(&call("2", "look", "a"), "ok")])).unwrap();
    insta::assert_snapshot!(show(&request(&run).messages), @r#"
    system: Be very brief.
    user: [One and two.]
    user: Three.
    assistant: 2 look({"place":"a"})
    tool 2: ok
    "#);
    assert_eq!(run.history().len(), whole.len() + 2);
}

#[test]
fn an_edit_that_parts_a_call_from_its_result_is_refused() {
    let history = [user("One."), asks(&[("1", "look"), ("2", "tidy")]), result("1", "look")];
    let mut run = started(Task::new("Two.").with_history(history)).unwrap();
    let before = serde_json::to_string(&run).unwrap();
    let refused: [(&str, usize, Vec<Message>); 8] = [
        ("after the call", 2, vec![]),
        ("after one result", 3, vec![]),
        ("too many", 9, vec![]),
        ("all", 5, vec![]),
        ("an open call", 4, vec![asks(&[("5", "look")])]),
        ("no call", 4, vec![result("5", "look")]),
        ("same id", 1, vec![asks(&[("1", "look")]), result("1", "look")]),
        ("late system", 1, vec![user("Go."), Message::System { text: "Be brief.".to_owned() }]),
    ];
    let mut reported = String::new();
    for (what, replaced, by) in refused {
        reported += &format!("{what}: {}\n", run.edit_sent(replaced, by).unwrap_err());
    }
    insta::assert_snapshot!(reported, @r"
    after the call: the conversation cannot be edited like this: it parts a call from its result; change the edit
    after one result: the conversation cannot be edited like this: it parts a call from its result; change the edit
    too many: the conversation cannot be edited like this: it replaces more messages than there are; change the edit
    all: the conversation cannot be edited like this: it leaves no message to send; change the edit
    an open call: the conversation cannot be edited like this: it parts a call from its result; change the edit
    no call: the conversation cannot be edited like this: a result has no call before it; change the edit
    same id: the conversation cannot be edited like this: two calls have the same id; change the edit
    late system: the conversation cannot be edited like this: a system message is not at the start; change the edit
    ");
    assert_eq!(serde_json::to_string(&run).unwrap(), before);
    run.edit_sent(4, [asks(&[("5", "look")]), result("5", "look")]).unwrap();

    // A stored edit is checked too.
    let mut edited: serde_json::Value = serde_json::to_value(&run).unwrap();
    edited["sent"]["replaced"] = 2.into();
    let state: RunState = serde_json::from_value(edited).unwrap();
    assert!(matches!(Run::resume(state, &[look(), tidy()]), Err(RunError::Corrupt { .. })));
}

#[tokio::test]
async fn an_editor_is_asked_before_each_question() {
    let said = [calls([("1", "look", "a")]), calls([("2", "look", "b")]), Reply::text("ok")];
    for choosing in [Choosing::Calls, Choosing::Selector] {
        let said: Vec<Reply> = match choosing {
            Choosing::Calls => said.to_vec(),
            _ => ["a", "b"]
                .map(|place| format!(r#"{{"selection": {{"action": "call_tool", "tool_name": "look", "tool_input": {{"place": "{place}"}}}}}}"#))
                .into_iter()
                .chain([r#"{"selection": {"action": "finish"}}"#.to_owned(), "ok".to_owned()])
                .map(Reply::text)
                .collect(),
        };
        let (agent, asked) = agent([look()], said);
        // Only the last two messages are kept, and a note.
        let agent = agent.with_choosing(choosing).unwrap().with_editor(|run| {
            let cut = run.sent().len().checked_sub(2).filter(|cut| *cut > 1)?;
            Some(Edited::new(cut, [Message::user("[…]")]))
        });
        let mut run = agent.start("Go.").unwrap();
        agent.drive(&mut run, &soon()).await.unwrap();
        assert_eq!(run.sent().len(), 4);
        let third = &asked.requests()[2];
        if choosing == Choosing::Calls {
            insta::assert_snapshot!(show(&third.messages), @r#"
            user: […]
            assistant: 2 look({"place":"b"})
            tool 2: b is empty
            "#);
        } else {
            assert_eq!(third.messages.len(), 4);
        }
        assert!(run.history().len() >= 6);
    }
}

#[tokio::test]
async fn an_editor_gets_the_usage_so_far() {
    let first = calls([("1", "look", "a")]).with_usage(Usage::new(900, 10));
    let (agent, asked) = agent([look()], [first, Reply::text("ok")]);
    let agent = agent.with_editor(|run| {
        (run.spent().usage.input_tokens > 500).then(|| Edited::new(1, [Message::user("[Go on.]")]))
    });
    agent.run("Go.", &soon()).await.unwrap();
    let sent: Vec<_> = asked.requests().iter().map(|request| show(&request.messages)).collect();
    assert!(sent[0].contains("Go.") && sent[1].contains("[Go on.]"), "{sent:?}");
}

#[tokio::test]
async fn an_edit_of_an_editor_that_parts_calls_ends_the_drive() {
    let (agent, _) = agent([look()], [calls([("1", "look", "a")])]);
    let agent = agent
        .with_editor(|run| (run.sent().len() > 1).then(|| Edited::new(2, [Message::user("[…]")])));
    let error = agent.run("Go.", &soon()).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Setup);
    insta::assert_snapshot!(error, @"the conversation cannot be edited like this: it parts a call from its result; change the edit");
}

proptest! {
    #[test]
    fn no_edit_and_no_offer_parts_a_call_from_its_result(
        acts in prop::collection::vec((0usize..12, prop::collection::vec(any_message(), 0..3), 0u8..5), 0..24),
        selects: bool,
    ) {
        // With a budget of tokens, debug builds compare the running sum with the request.
        let limits = Limits { budget: Budget { input_tokens: Some(1 << 40), ..Budget::default() }, ..Limits::default() };
        let run = started("Go.").unwrap().with_instructions("Be brief.");
        let mut run = run.with_limits(limits);
        if selects {
            run = run.with_choosing(Choosing::Selector).unwrap();
        }
        for (number, (place, by, act)) in acts.into_iter().enumerate() {
            match act {
                0 | 1 => match run.edit_sent(place, by) {
                    Ok(()) | Err(RunError::Edit { .. }) => {}
                    Err(other) => panic!("{other}"),
                },
                2 => run.offer(["look", "tidy"].iter().take(place % 3)).unwrap(),
                3 => run.follow_up("And now?").unwrap(),
                _ => {
                    let step = run.next();
                    let answer = match step.kind {
                        StepKind::CallModel(_) if selects => Reply::text("{}"),
                        StepKind::CallModel(_) => {
                            let id = number.to_string();
                            calls([(&id, "look", "a"), ("1", "tidy", "b")])
                        }
                        StepKind::CallTools(calls) => {
                            let results = calls.iter().map(|call| ToolResult::new(call, "ok"));
                            run.apply(StepResult::tools(step.number, results)).unwrap();
                            continue;
                        }
                        _ => continue,
                    };
                    run.apply(StepResult::model(step.number, answer)).unwrap();
                }
            }
            if number % 3 == 0 {
                run = stored(&run);
            }
            if let StepKind::CallModel(request) = run.next().kind {
                if !selects {
                    assert_paired(&request.messages);
                }
                assert_paired(&run.sent());
                let system = |message: &Arc<Message>| matches!(**message, Message::System { .. });
                assert!(system(&request.messages[0]));
                assert!(!request.messages[1..].iter().any(system));
            }
        }
    }
}

#[test]
fn edited_arguments_are_checked_by_their_own_tool_among_those_shown() {
    let counts = Tool::new(from_fn(async |_: Count| Ok(String::new()))).unwrap();
    let tools = [look(), tidy(), counts];
    let policy = ApprovalPolicy::default().with_tool("tidy");
    let run = Run::new("Go.", &tools, Limits::default()).unwrap();
    let mut run = run.with_approval(policy).unwrap();
    run.offer(["tidy", "count"]).unwrap();
    run.apply(StepResult::model(0, calls([("1", "tidy", "a")]))).unwrap();
    let edit = |text: &str| {
        StepResult::decisions(1, [("1", Decision::Edit { arguments: text.to_owned() })])
    };
    assert!(run.apply(edit(r#"{"n": 5}"#)).is_err());
    run.apply(edit(r#"{"place": "b"}"#)).unwrap();
}

/// Returns the first of these tasks that a run does not have yet.
fn first_new(tasks: &[&str], run: &Run) -> Option<Task> {
    let is_new = |task: &&&str| !run.history().contains(&Message::user(**task));
    tasks.iter().find(is_new).map(|task| Task::new(*task))
}

#[tokio::test]
async fn a_run_goes_on_with_the_next_task_of_its_agent_in_every_drive() {
    let said = || {
        [
            calls([("1", "look", "a")]),
            Reply::text("Empty."),
            // The last round of this task, without an answer.
            calls([("2", "look", "b")]),
            Reply::text(""),
            Reply::text("Empty too."),
        ]
    };
    let tasks = ["And b?", "And c?"];
    let next = move |run: &Run| first_new(&tasks, run);
    let limits = Limits { max_iterations: 1, ..Limits::default() };
    let journal = Replay::in_memory([]);
    let (agent, _) = agent([look()], said());
    let agent = agent.with_limits(limits.clone()).with_next_task(next);
    let (heard, dones) = listener();
    let cx = with_performer(&soon().with_events(heard), journal.clone());
    let finished = agent.run("Look at a.", &cx).await.unwrap();
    let expected = show(&finished.history);
    insta::assert_snapshot!(expected, @r#"
    user: Look at a.
    assistant: 1 look({"place":"a"})
    tool 1: a is empty
    user: You have used up your tool calls. Answer the task now from what you know, without tools.
    assistant: Empty.
    user: And b?
    assistant: 2 look({"place":"b"})
    tool 2: b is empty
    user: You have used up your tool calls. Answer the task now from what you know, without tools.
    user: And c?
    assistant: Empty too.
    "#);
    assert_eq!(dones(), ["Empty.", "", "Empty too."]);

    // From the records, without a model.
    let (agent, _) = crate::support::agent([look()], []);
    let agent = agent.with_limits(limits).with_next_task(next);
    let cx = with_performer(&soon(), Replay::in_memory(journal.records()));
    assert_eq!(agent.run("Look at a.", &cx).await.unwrap().history, finished.history);
}

/// Records tell two tasks apart also if their texts are equal.
#[tokio::test]
async fn equal_tasks_in_a_row_are_replayed_as_they_were() {
    let said = || {
        ["a", "b"].map(|place| [calls([(place, "look", place)]), Reply::text("Empty.")]).concat()
    };
    let next = |run: &Run| {
        let tasks = run.history().iter().filter(|it| **it == Message::user("Look.")).count();
        (tasks < 2).then(|| Task::new("Look."))
    };
    let limits = Limits { max_iterations: 1, ..Limits::default() };
    let journal = Replay::in_memory([]);
    let (agent, _) = agent([look()], said());
    let agent = agent.with_limits(limits.clone()).with_next_task(next);
    let finished = agent.run("Look.", &with_performer(&soon(), journal.clone())).await.unwrap();
    let (agent, _) = crate::support::agent([look()], []);
    let agent = agent.with_limits(limits).with_next_task(next);
    let cx = with_performer(&soon(), Replay::in_memory(journal.records()));
    let again = agent.run("Look.", &cx).await.unwrap();
    assert_eq!(show(&again.history), show(&finished.history));
}

#[tokio::test]
async fn there_is_no_next_task_after_a_limit_of_the_whole_run() {
    let budget = Budget { model_calls: Some(2), ..Budget::default() };
    let (agent, _) = agent([look()], [Reply::text("One."), Reply::text("Two.")]);
    let agent = agent
        .with_limits(Limits { budget, ..Limits::default() })
        .with_next_task(|run| Some(Task::new(format!("{} messages?", run.history().len()))));
    let finished = agent.run("Count.", &soon()).await.unwrap();
    assert_eq!(finished.ending, Ending::LimitReached);
    assert_eq!(finished.spent.model_calls, 2);
}

#[tokio::test]
async fn a_panic_or_an_empty_task_of_the_function_for_the_next_task_ends_the_drive() {
    let (agent, _) = agent([], [Reply::text("One."), Reply::text("Two.")]);
    let panics = agent.with_next_task(|_| panic!("a queue"));
    assert_eq!(panics.run("Go.", &soon()).await.unwrap_err().stage(), Stage::Panic);
    let empty = panics.with_next_task(|_| Some(Task::default()));
    assert_eq!(empty.run("Go.", &soon()).await.unwrap_err().stage(), Stage::Setup);
}

#[tokio::test]
async fn a_step_ends_before_the_next_task() {
    let (agent, _) = agent([], [Reply::text("One."), Reply::text("Two.")]);
    let agent = agent.with_next_task(|run| first_new(&["And then?"], run));
    let mut run = agent.start("Go.").unwrap();
    let mut steps = 0;
    while agent.step(&mut run, &soon()).await.unwrap().is_none() {
        steps += 1;
    }
    assert_eq!((run.history().len(), steps), (4, 1));
}

/// Returns a listener that keeps the answers of the events `Done`, and what it kept.
fn listener() -> (impl Fn(&Event) + Send + Sync, impl Fn() -> Vec<String>) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keeps = Arc::clone(&kept);
    let heard = move |event: &Event| {
        if let EventKind::Done { answer, .. } = &event.kind {
            keeps.lock().unwrap().push(answer.clone());
        }
    };
    (heard, move || kept.lock().unwrap().clone())
}

/// Count.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Count {
    n: u32,
}

impl Signature for Count {
    type Output = String;
}
