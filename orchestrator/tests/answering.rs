//! Agents with typed answers: their tasks, their validators, and the pieces of their answers.

use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::event::EventKind;
use toolwright_module::hook::{AskNext, Hook};
use toolwright_module::model::Request;
use toolwright_module::{Error, Message, Reply, Result, Signature, Tool, ToolCall};
use toolwright_orchestrator::{Agent, Progress, ReAct, RunError, Task, Unfinished};
use toolwright_signature::{Field, Partial};

use crate::support::{calls, look, replies, show, soon, tidy};

/// A letter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Letter {
    to: String,
    lines: Vec<String>,
}

fn letter(to: &str) -> String {
    format!(r#"{{"to": "{to}", "lines": ["Dear friend,", "hello."]}}"#)
}

fn finish(id: &str, answer: &str) -> Reply {
    Reply::calls([ToolCall::new(id, "finish", answer)])
}

#[tokio::test]
async fn a_conversation_has_a_typed_answer() {
    let (model, asked) = replies([calls([("1", "look", "desk")]), finish("2", &letter("Ada"))]);
    let agent = Agent::new(model, [look()]).unwrap().answering::<Letter>().unwrap();
    let before = [Message::user("Whom do you know?"), Message::assistant("Ada.")];
    let task = Task::new("Write to her.").with_history(before);
    let finished = agent.run(task, &soon()).await.unwrap();
    assert_eq!((finished.answer.to.as_str(), finished.iterations), ("Ada", 1));
    insta::assert_snapshot!(show(&asked.requests()[0].messages), @r"
    user: Whom do you know?
    assistant: Ada.
    user: Write to her.
    ");
    assert_eq!(agent.output().unwrap().name(), "letter");
}

#[tokio::test]
async fn one_agent_can_answer_in_several_types() {
    let said = [Reply::text("Hi."), finish("1", &letter("Ada")), finish("2", r#"{"result": [3]}"#)];
    let (model, _) = replies(said);
    let agent = Agent::new(model, [look()]).unwrap();
    let letters = agent.answering::<Letter>().unwrap();
    let numbers = letters.answering::<Vec<u32>>().unwrap();
    assert_eq!(agent.run("Hello.", &soon()).await.unwrap().answer, "Hi.");
    assert_eq!(letters.run("To Ada.", &soon()).await.unwrap().answer.to, "Ada");
    assert_eq!(numbers.run("Count.", &soon()).await.unwrap().answer, [3]);
    assert!(agent.output().is_none());
}

#[tokio::test]
async fn a_run_is_driven_only_by_an_agent_with_its_type() {
    let (model, _) = replies([]);
    let agent = Agent::new(model, [look()]).unwrap();
    let letters = agent.answering::<Letter>().unwrap();
    let numbers = letters.answering::<Vec<u32>>().unwrap();
    for mut run in [agent.start("Go.").unwrap(), numbers.start("Go.").unwrap()] {
        let error = letters.drive(&mut run, &soon()).await.unwrap_err();
        let other: &RunError = error.downcast_ref().unwrap();
        assert!(matches!(other, RunError::OtherOutput { name } if name == "letter"), "{other}");
    }
}

#[tokio::test]
async fn a_typed_answer_that_never_fits_is_an_error() {
    let (model, _) = replies((0..9).map(|n| finish(&n.to_string(), "{}")));
    let agent = Agent::new(model, []).unwrap().with_name("clerk").answering::<Letter>().unwrap();
    let error = agent.run("Write.", &soon()).await.unwrap_err();
    let unfinished: &Unfinished = error.downcast_ref().unwrap();
    assert_eq!(unfinished.name, "clerk");
}

#[tokio::test]
async fn a_validator_gets_the_task_with_its_conversation_and_the_value() {
    let (model, asked) = replies([finish("1", &letter("Bob")), finish("2", &letter("Ada"))]);
    let agent = Agent::new(model, []).unwrap().answering::<Letter>().unwrap();
    let agent = agent.with_validator(|task: &Task, letter: &Letter| {
        assert_eq!((task.task.as_str(), task.history().len()), ("Write to her.", 2));
        if letter.to == "Ada" { Ok(()) } else { Err(Error::retry("Who is that?")) }
    });
    let before = [Message::user("Whom do you know?"), Message::assistant("Ada.")];
    let task = Task::new("Write to her.").with_history(before);
    assert_eq!(agent.run(task, &soon()).await.unwrap().answer.to, "Ada");
    let told = show(&asked.requests()[1].messages[4..]);
    assert_eq!(told, "tool 1 failed: Who is that? Call `finish` again.\n");
}

/// Write a letter.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Write {
    to: String,
}

impl Signature for Write {
    type Output = Letter;
}

#[tokio::test]
async fn a_validator_of_a_signature_gets_the_last_input_of_the_conversation() {
    let said = ["Ada", "Ada", "Bob"].map(|to| finish(to, &letter(to)));
    let (model, _) = replies(said);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keeps = Arc::clone(&seen);
    let react = ReAct::<Write>::new(Agent::new(model, []).unwrap()).unwrap();
    let react = react.with_validator(move |write: &Write, letter: &Letter| {
        keeps.lock().unwrap().push(format!("{} {}", write.to, letter.to));
        Ok(())
    });
    let task = |to: &str| react.task(&Write { to: to.to_owned() }).unwrap();
    let agent = react.agent();
    let mut run = agent.start(task("Ada").with_history([Message::user("Hello.")])).unwrap();
    agent.drive(&mut run, &soon()).await.unwrap();
    run.follow_up("Shorter, please.").unwrap();
    agent.drive(&mut run, &soon()).await.unwrap();
    run.follow_up(task("Bob")).unwrap();
    agent.drive(&mut run, &soon()).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["Ada Ada", "Ada Ada", "Bob Bob"]);
}

#[tokio::test]
async fn a_run_without_an_input_says_how_to_start_it() {
    let (model, _) = replies([finish("1", &letter("Ada"))]);
    let react = ReAct::<Write>::new(Agent::new(model, []).unwrap()).unwrap();
    let react = react.with_validator(|_: &Write, _: &Letter| Ok(()));
    let error = react.agent().run("Write to Ada.", &soon()).await.unwrap_err();
    insta::assert_snapshot!(error, @"no message of the run is an input of `write`; start it with a task of `ReAct::task`");
}

#[tokio::test]
async fn a_typed_agent_is_a_tool_with_json_as_its_text() {
    let (model, _) = replies([finish("1", r#"{"to": "Ada", "lines": []}"#)]);
    let agent = Agent::new(model, []).unwrap().answering::<Letter>().unwrap();
    let tool = Tool::new(agent).unwrap().named("clerk").unwrap();
    let output = tool.call(r#"{"task": "Write."}"#, &soon()).await.unwrap();
    assert_eq!(output.text, r#"{"to": "Ada", "lines": []}"#);
}

/// Returns the pieces of the answers and of the calls that a run emits.
async fn pieces<O: Send + Sync + 'static>(agent: &Agent<O>) -> Vec<String> {
    let mut stream = agent.stream("Write to Ada.", &soon());
    let mut pieces = Vec::new();
    while let Some(progress) = stream.next().await {
        let Progress::Event(event) = progress.unwrap() else { continue };
        match event.kind {
            EventKind::AnswerDelta { at, text } => pieces.push(format!("{at} {text}")),
            EventKind::CallDelta { index, name, arguments } => {
                pieces.push(format!("{index} {name} {arguments}"));
            }
            EventKind::TextDelta { text } => pieces.push(text),
            _ => {}
        }
    }
    pieces
}

#[tokio::test]
async fn partial_reads_a_typed_answer_while_the_model_writes_it() {
    // The first answer does not fit, so the model writes another one.
    let (model, _) = replies([finish("1", r#"{"to": 3}"#), finish("2", &letter("Ada"))]);
    let agent = Agent::new(model, []).unwrap().answering::<Letter>().unwrap();
    let mut stream = agent.stream("Write to Ada.", &soon());
    let (mut partial, mut to, mut finished) = (Partial::new(), Vec::new(), None);
    while let Some(progress) = stream.next().await {
        match progress.unwrap() {
            Progress::Event(event) => {
                if let EventKind::AnswerDelta { at, text } = event.kind {
                    if at == 0 {
                        partial = Partial::new();
                    }
                    partial.push(&text);
                    to.push(partial.field::<String>("to"));
                }
            }
            Progress::Finished(done) => finished = Some(done.answer),
            _ => {}
        }
    }
    let finished = finished.unwrap();
    assert!(to.len() > 3, "{to:?}");
    assert_eq!(to.last(), Some(&Field::Done("Ada".to_owned())));
    assert!(partial.is_done());
    assert_eq!(partial.field::<Vec<String>>("lines"), Field::Done(finished.lines));
}

#[tokio::test]
async fn calls_have_deltas_and_only_the_answer_of_a_typed_run_is_one() {
    let both = || {
        [
            Reply::calls([
                ToolCall::new("1", "look", r#"{"place": "desk"}"#),
                ToolCall::new("2", "tidy", r#"{"place":"hall"}"#),
            ]),
            finish("3", r#"{"result": 4}"#),
        ]
    };
    let (model, _) = replies(both());
    let typed = Agent::new(model, [look(), tidy()]).unwrap().answering::<u32>().unwrap();
    insta::assert_debug_snapshot!(pieces(&typed).await);

    // A tool of this name is an ordinary one in a run that answers with text.
    let own = look().named("finish").unwrap();
    let call = Reply::calls([ToolCall::new("1", "finish", r#"{"place":"desk"}"#)]);
    let (model, _) = replies([call, Reply::text("Done.")]);
    let text = Agent::new(model, [own]).unwrap();
    assert_eq!(pieces(&text).await, [r#"0 finish {"place":"desk"}"#, "Done."]);
    let (model, _) = replies([finish("1", r#"{"result": 4}"#)]);
    let quiet = Agent::new(model, []).unwrap().with_streaming(false).answering::<u32>().unwrap();
    assert!(pieces(&quiet).await.is_empty());
}

/// Asks again and returns the second reply.
struct Twice;

impl Hook for Twice {
    fn name(&self) -> &str {
        "twice"
    }

    async fn model(&self, request: Request, next: AskNext<'_>) -> Result<Reply> {
        next.run(request.clone()).await?;
        next.run(request).await
    }
}

#[tokio::test]
async fn an_answer_that_a_hook_asks_for_again_begins_at_zero() {
    let (model, _) = replies([finish("1", r#"{"result":3}"#), finish("2", r#"{"result":4}"#)]);
    let agent = Agent::new(model, []).unwrap().answering::<u32>().unwrap().with_hook(Twice);
    assert_eq!(pieces(&agent).await, [r#"0 {"result":3}"#, r#"0 {"result":4}"#]);
}
