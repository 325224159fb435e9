//! Replies that may be incomplete: no call of them is made, whatever their arguments are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::event::Ending;
use toolwright_module::message::ReplyPart;
use toolwright_module::model::Finish;
use toolwright_module::{Effect, Message, Reply, Signature, Tool, ToolCall, from_fn};
use toolwright_orchestrator::{Agent, Choosing, Limits, Unfinished};

use crate::support::{act, agent, react, replies, run, show, soon};

/// Delete files. Without a prefix, all of them.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Purge {
    prefix: Option<String>,
}

impl Signature for Purge {
    type Output = String;
}

/// Returns a tool whose calls are counted.
fn purge() -> (Tool, Arc<AtomicUsize>) {
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let purge = from_fn(move |_: Purge| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok("All files are gone.".to_owned()) }
    });
    (Tool::new(purge.with_effect(Effect::Irreversible)).unwrap(), made)
}

fn other(word: &str) -> Finish {
    Finish::Other(word.to_owned())
}

/// The reasons after which a run goes on.
fn bad() -> Vec<Finish> {
    let words = [
        "network_error",
        "sensitive",
        "repetition_truncation",
        "insufficient_system_resource",
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "OTHER",
        "TOOL_CALL",
        "tool_calls ",
        "",
    ];
    [Finish::Length, Finish::Paused].into_iter().chain(words.map(other)).collect()
}

const PIECES: [&str; 4] = ["{}", "", r#"{"prefix": "t"}"#, "null"];

#[tokio::test]
async fn no_call_of_an_incomplete_reply_is_made_even_if_its_arguments_are_json() {
    for finish in bad() {
        for piece in PIECES {
            let (tool, made) = purge();
            let cut = Reply::calls([
                ToolCall::new("1", "purge", r#"{"prefix": "tmp/"}"#),
                ToolCall::new("2", "purge", piece),
            ]);
            let said = [cut.with_finish(finish.clone()), Reply::text("ok")];
            let (agent, asked) = agent([tool], said);
            let finished = run(&agent).await;
            assert_eq!((finished.answer.as_str(), made.load(Ordering::SeqCst)), ("ok", 0));
            assert!(finished.tools_used.is_empty(), "{finish:?}");
            let sent = &asked.requests()[1].messages;
            for result in &sent[sent.len() - 2..] {
                let Message::Tool(result) = &**result else { panic!("{finish:?}: {result:?}") };
                assert!(result.failed && result.text.contains("was not made"), "{}", result.text);
                if let Finish::Other(word) = &finish {
                    assert!(result.text.contains(word.as_str()), "{}", result.text);
                }
            }
        }
    }
}

/// The finish reason may come from a program's own model, which does not mark its calls.
#[tokio::test]
async fn the_finish_reason_counts_even_if_the_calls_are_not_marked() {
    let (tool, made) = purge();
    let mut cut = Reply::calls([ToolCall::new("1", "purge", "{}")]);
    cut.finish = Finish::Length;
    let (agent, _) = agent([tool], [cut, Reply::text("ok")]);
    run(&agent).await;
    assert_eq!(made.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_marked_call_is_not_made_and_the_others_are() {
    let (tool, made) = purge();
    let mut reply = Reply::calls([
        ToolCall::new("1", "purge", r#"{"prefix": "tmp/"}"#),
        ToolCall::new("2", "purge", r#"{"prefix": "tm"}"#),
    ]);
    if let ReplyPart::Call(call) = &mut reply.parts[1] {
        call.incomplete = true;
    }
    let (agent, _) = agent([tool], [reply, Reply::text("ok")]);
    insta::assert_snapshot!(show(&run(&agent).await.history[2..]), @r"
    tool 1: All files are gone.
    tool 2 failed: The call was cut off, so it was not made. Call again with complete arguments.
    assistant: ok
    ");
    assert_eq!(made.load(Ordering::SeqCst), 1);
}

/// A selector's call is a text, in which the server may have cut a character.
#[tokio::test]
async fn a_selection_with_half_a_character_is_not_made() {
    for (is_cut, count) in [(true, 0), (false, 1)] {
        let (tool, made) = purge();
        let input = r#"{"prefix": "t\ufffd"}"#;
        let text = format!(
            r#"{{"selection": {{"action": "call_tool", "tool_name": "purge", "tool_input": {input}}}}}"#
        );
        let mut selection = Reply::text(text);
        selection.has_lost_half = is_cut;
        let end = Reply::text(r#"{"selection": {"action": "finish"}}"#);
        let (agent, _) = agent([tool], [selection, end, Reply::text("ok")]);
        let finished = run(&agent.with_choosing(Choosing::Selector).unwrap()).await;
        let shown = show(&finished.history);
        assert_eq!((&*finished.answer, made.load(Ordering::SeqCst)), ("ok", count), "{shown}");
    }
}

#[tokio::test]
async fn a_refused_call_of_an_unknown_tool_gets_the_names() {
    let (tool, _) = purge();
    let unknown = Reply::calls([ToolCall::new("1", "list_files", "{}")]);
    let said = [unknown.with_finish(other("UNEXPECTED_TOOL_CALL")), Reply::text("ok")];
    let (agent, _) = agent([tool], said);
    let history = show(&run(&agent).await.history);
    assert!(history.contains("There is no tool `list_files`. The tools are: purge."), "{history}");
}

#[tokio::test]
async fn a_call_that_could_not_be_read_is_no_end_in_any_spelling() {
    for word in [
        "MALFORMED_FUNCTION_CALL",
        "malformed_function_call",
        "function_call_filter: MALFORMED_FUNCTION_CALL",
        "FinishReason.MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "MALFORMED_RESPONSE",
        "malformed_tool_use",
        "MalformedFunctionCall",
    ] {
        for parts in [vec![], vec![ReplyPart::text("print(default_api.purge(")]] {
            let (tool, made) = purge();
            let said = [Reply::new(parts).with_finish(other(word)), Reply::text("ok")];
            let (agent, _) = agent([tool], said);
            assert_eq!(run(&agent).await.answer, "ok", "{word}");
            assert_eq!(made.load(Ordering::SeqCst), 0);
        }
    }
}

#[tokio::test]
async fn a_model_that_is_always_cut_off_ends_stuck_or_at_the_limit() {
    for differ in [false, true] {
        let (tool, made) = purge();
        let said = (0..20).map(move |n| {
            let prefix = if differ { n } else { 0 };
            let call =
                ToolCall::new(format!("c{n}"), "purge", format!(r#"{{"prefix": "{prefix}"}}"#));
            Reply::calls([call]).with_finish(Finish::Length)
        });
        let (agent, asked) = agent([tool], said);
        let agent = agent.with_limits(Limits { max_iterations: 5, ..Limits::default() });
        let ending = match agent.run("Go.", &soon()).await {
            Ok(finished) => finished.ending,
            Err(error) => error.downcast_ref::<Unfinished>().unwrap().finished.ending,
        };
        let (expected, requests) =
            if differ { (Ending::LimitReached, 6) } else { (Ending::Stuck, 3) };
        assert_eq!((ending, asked.requests().len()), (expected, requests));
        assert_eq!(made.load(Ordering::SeqCst), 0);
    }
}

/// Find a person.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Find {}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Found {
    name: Option<String>,
    age: Option<u8>,
}

impl Signature for Find {
    type Output = Found;
}

#[tokio::test]
async fn a_piece_of_an_answer_is_never_the_answer_of_a_typed_agent() {
    let whole = || Reply::calls([ToolCall::new("w", "finish", r#"{"name": "Ada", "age": 36}"#)]);
    for finish in bad() {
        for piece in ["{}", r#"{"name": "Ada"}"#] {
            let cut = Reply::calls([ToolCall::new("c", "finish", piece)]);
            let (model, _) = replies([cut.with_finish(finish.clone()), whole()]);
            let agent = react::<Find>(model, []).unwrap();
            let finished = act(&agent, Find {}, &soon()).await.unwrap();
            assert_eq!(finished.answer, Found { name: Some("Ada".into()), age: Some(36) });
        }
    }
    // One of two equal calls is marked.
    let mut twice = Reply::calls(["1", "2"].map(|id| ToolCall::new(id, "finish", "{}")));
    if let ReplyPart::Call(call) = &mut twice.parts[1] {
        call.incomplete = true;
    }
    let (model, _) = replies([twice, whole()]);
    let agent = react::<Find>(model, []).unwrap();
    assert_eq!(act(&agent, Find {}, &soon()).await.unwrap().answer.age, Some(36));
}

#[tokio::test]
async fn a_selection_of_an_incomplete_reply_is_not_made() {
    let selects =
        r#"{"selection": {"action": "call_tool", "tool_name": "purge", "tool_input": {}}}"#;
    for finish in bad() {
        let (tool, made) = purge();
        let said = [
            Reply::text(selects).with_finish(finish.clone()),
            Reply::text(r#"{"selection": {"action": "finish"}}"#),
            Reply::text("ok"),
        ];
        let (model, _) = replies(said);
        let agent = Agent::new(model, [tool]).unwrap();
        let agent = agent.with_choosing(Choosing::Selector).unwrap();
        assert_eq!(agent.run("Go.", &soon()).await.unwrap().answer, "ok", "{finish:?}");
        assert_eq!(made.load(Ordering::SeqCst), 0, "{finish:?}");
    }
}

#[tokio::test]
async fn the_error_of_a_refusal_without_a_text_has_the_providers_reason() {
    let mut refusal = Reply::new([]).with_finish(Finish::Refused);
    refusal.reason = Some("PROHIBITED_CONTENT".to_owned());
    let (agent, _) = agent([], [refusal]);
    let error = agent.run("Go.", &soon()).await.unwrap_err();
    let unfinished = error.downcast_ref::<Unfinished>().unwrap();
    assert_eq!(unfinished.finished.reason.as_deref(), Some("PROHIBITED_CONTENT"));
    insta::assert_snapshot!(error, @r#"the model or its provider refused the task of `agent` without a text, for the reason "PROHIBITED_CONTENT"; change the task, or try another model"#);

    let silent = Reply::new([]).with_finish(Finish::Refused);
    let (agent, _) = crate::support::agent([], [silent]);
    let error = agent.run("Go.", &soon()).await.unwrap_err();
    insta::assert_snapshot!(error, @"the model or its provider refused the task of `agent` and gave no reason; change the task, or try another model");
}
