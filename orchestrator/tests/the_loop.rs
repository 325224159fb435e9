//! The loop between a model and its tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use toolwright_module::model::Settings;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_module::approval::Decision;
use toolwright_module::budget::Ledger;
use toolwright_module::error::{Audience, Stage};
use toolwright_module::event::EventKind;
use toolwright_module::message::{Image, Opaque, Reasoning, ReplyPart};
use toolwright_module::model::{Finish, ToolChoice, Usage};
use toolwright_module::testing::SchemaDriven;
use toolwright_module::{
    ChainOfThought, Context, Dialect, Effect, Error, Message, Module, Predict, Reply, Request,
    Result, Signature, Tool, ToolCall, from_fn, from_fn_with, testing::Scripted,
};
use toolwright_orchestrator::{
    Agent, ApprovalPolicy, Ending, Limits, RunError as SetupError, StepResult, Task, Unfinished,
};

use crate::support::{Log, Look, agent, call, calls, look, replies, run, show, soon, tidy, tool};

#[tokio::test]
async fn a_plain_answer_ends_the_run() {
    let said = Reply::text("All is well.").with_usage(Usage::new(9, 4));
    let (agent, asked) = agent([look()], [said]);
    let finished = run(&agent).await;
    assert_eq!(finished.answer, "All is well.");
    assert_eq!(finished.ending, Ending::Answered);
    assert_eq!((finished.iterations, finished.spent.usage), (0, Usage::new(9, 4)));
    assert!(finished.tools_used.is_empty());
    insta::assert_snapshot!(show(&finished.history), @r"
    user: Look after the house.
    assistant: All is well.
    ");
    assert_eq!(asked.requests().len(), 1);
}

/// A model that reacts to the last result: it looks into each room, tidies those that need it, and
/// then answers.
fn housekeeper() -> impl toolwright_module::LanguageModel {
    let next = |room: &str| match room {
        "hall" => calls([("look-attic", "look", "attic")]),
        _ => Reply::text("All is tidy."),
    };
    Scripted::new(move |request: &Request| {
        Ok(match request.messages.last().map(|last| &**last) {
            Some(Message::Tool(result)) => match result.text.split_once(" is ").unwrap() {
                (room, "untidy") => calls([(&*format!("tidy-{room}"), "tidy", room)]),
                (room, _) => next(room),
            },
            _ => calls([("look-hall", "look", "hall")]),
        })
    })
}

#[tokio::test]
async fn each_choice_of_the_model_follows_from_the_tools_results() {
    for (untidy, expected) in [
        (&[][..], &["look hall", "look attic"][..]),
        (&["hall"], &["look hall", "tidy hall", "look attic"]),
        (&["attic"], &["look hall", "look attic", "tidy attic"]),
        (&["hall", "attic"], &["look hall", "tidy hall", "look attic", "tidy attic"]),
    ] {
        let log = Log::default();
        let (looks, tidies) = (log.clone(), log.clone());
        let look = tool("look", Effect::Read, move |Look { place }| {
            looks.write(format!("look {place}"));
            let state = if untidy.contains(&&*place) { "untidy" } else { "clean" };
            async move { Ok(format!("{place} is {state}")) }
        });
        let tidy = tool("tidy", Effect::Write, move |Look { place }| {
            tidies.write(format!("tidy {place}"));
            async move { Ok(format!("{place} is tidy")) }
        });
        let agent = Agent::new(housekeeper(), [look, tidy]).unwrap();
        let finished = run(&agent).await;
        assert_eq!(log.entries(), expected);
        assert_eq!(finished.iterations as usize, expected.len());
        assert_eq!(finished.answer, "All is tidy.");
    }
}

/// Three reads that end in a different order each time.
#[tokio::test]
async fn equal_replies_lead_to_equal_requests() {
    let mut played = Vec::new();
    for turn in 0..3 {
        let slow = tool("look", Effect::Read, move |look: Look| async move {
            for _ in 0..(look.place.len() + turn) % 3 {
                tokio::task::yield_now().await;
            }
            Ok(look.place)
        });
        let said = [
            calls([("1", "look", "a"), ("2", "look", "bb"), ("3", "look", "ccc")]),
            calls([("", "look", "d"), ("", "tidy", "e"), ("", "sweep", "f")]),
            Reply::text("ok"),
        ];
        let (agent, asked) = agent([slow, tidy()], said);
        let finished = run(&agent.with_instructions("Be brief.")).await;
        let requests = serde_json::to_string(&asked.requests()).unwrap();
        played.push((requests, show(&finished.history)));
    }
    assert_eq!(played[0], played[1]);
    assert_eq!(played[0], played[2]);
}

#[tokio::test]
async fn a_called_tool_gets_its_input_and_the_model_its_result() {
    let said = [
        Reply::new([
            ReplyPart::text("I will look."),
            ReplyPart::Call(call("c1", "look", "the hall")),
        ]),
        Reply::text("The hall is empty."),
    ];
    let (agent, asked) = agent([look()], said);
    let finished = run(&agent).await;
    assert_eq!((finished.iterations, &finished.tools_used[..]), (1, &["look".to_owned()][..]));
    insta::assert_snapshot!(show(&finished.history), @r#"
    user: Look after the house.
    assistant: I will look. | c1 look({"place":"the hall"})
    tool c1: the hall is empty
    assistant: The hall is empty.
    "#);
    assert_eq!(asked.requests()[1].messages[..], finished.history[..3]);
}

#[tokio::test]
async fn requests_have_every_tools_contract_in_order() {
    let (agent, asked) = agent([tidy(), look()], [Reply::text("ok")]);
    run(&agent).await;
    let request = &asked.requests()[0];
    let shown: Vec<_> = request.tools.iter().map(|tool| tool.tool(Dialect::Mcp).unwrap()).collect();
    insta::assert_json_snapshot!(shown);
    assert_eq!(request.tool_choice, ToolChoice::Auto);
}

#[tokio::test]
async fn instructions_precede_the_task() {
    let (agent, _) = agent([], [Reply::text("ok")]);
    let finished = run(&agent.with_instructions("Be brief.")).await;
    insta::assert_snapshot!(show(&finished.history), @r"
    system: Be brief.
    user: Look after the house.
    assistant: ok
    ");
}

#[tokio::test]
async fn reads_run_concurrently_with_results_in_call_order() {
    let (barrier, log) = (Arc::new(tokio::sync::Barrier::new(3)), Log::default());
    let heard = log.clone();
    let together = tool("look", Effect::Read, move |look: Look| {
        let (barrier, log) = (Arc::clone(&barrier), heard.clone());
        async move {
            // The barrier opens only if all calls run concurrently.
            barrier.wait().await;
            // The first call is the last to finish.
            for _ in 0..3 - look.place.len() {
                tokio::task::yield_now().await;
            }
            log.write(look.place.clone());
            Ok(look.place)
        }
    });
    let said =
        [calls([("1", "look", "a"), ("2", "look", "bb"), ("3", "look", "ccc")]), Reply::text("ok")];
    let (agent, _) = agent([together], said);
    let finished = run(&agent).await;
    assert_eq!(log.entries(), ["ccc", "bb", "a"]);
    insta::assert_snapshot!(show(&finished.history), @r#"
    user: Look after the house.
    assistant: 1 look({"place":"a"}) | 2 look({"place":"bb"}) | 3 look({"place":"ccc"})
    tool 1: a
    tool 2: bb
    tool 3: ccc
    assistant: ok
    "#);
}

/// A tool that writes its start and end to the log, and yields in between.
fn logged(name: &'static str, effect: Effect, log: &Log) -> Tool {
    let log = log.clone();
    tool(name, effect, move |look: Look| {
        let log = log.clone();
        async move {
            log.write(format!("begin {}", look.place));
            tokio::task::yield_now().await;
            log.write(format!("end {}", look.place));
            Ok(String::new())
        }
    })
}

#[tokio::test]
async fn writes_run_alone_in_call_order() {
    for effect in [Effect::Idempotent, Effect::Write, Effect::Irreversible] {
        let log = Log::default();
        let said = [calls([("1", "tidy", "a"), ("2", "tidy", "b")]), Reply::text("ok")];
        let (agent, _) = agent([logged("tidy", effect, &log)], said);
        run(&agent).await;
        assert_eq!(log.entries(), ["begin a", "end a", "begin b", "end b"], "{effect:?}");
    }
}

#[tokio::test]
async fn reads_and_writes_keep_their_order() {
    let log = Log::default();
    let tools = [logged("look", Effect::Read, &log), logged("tidy", Effect::Write, &log)];
    let said = [
        calls([
            ("1", "look", "a"),
            ("2", "look", "b"),
            ("3", "tidy", "c"),
            ("4", "look", "d"),
            ("5", "look", "e"),
        ]),
        Reply::text("ok"),
    ];
    let (agent, _) = agent(tools, said);
    let finished = run(&agent).await;
    let mut entries = log.entries();
    // Reads may end in any order.
    entries[2..4].sort();
    entries[8..].sort();
    assert_eq!(
        entries,
        [
            "begin a", "begin b", "end a", "end b", "begin c", "end c", "begin d", "begin e",
            "end d", "end e"
        ]
    );
    assert_eq!((finished.iterations, finished.tools_used.len()), (1, 2));
}

#[tokio::test]
async fn invalid_arguments_are_reported_and_can_be_corrected() {
    let wrong = Reply::calls([ToolCall::new("1", "look", r#"{"room": "hall"}"#)]);
    let said = [wrong, calls([("2", "look", "hall")]), Reply::text("Empty.")];
    let (agent, _) = agent([look()], said);
    let finished = run(&agent).await;
    insta::assert_snapshot!(show(&finished.history), @r#"
    user: Look after the house.
    assistant: 1 look({"room": "hall"})
    tool 1 failed: input of `look` does not fit: $.place: this field is missing; expected a string
    assistant: 2 look({"place":"hall"})
    tool 2: hall is empty
    assistant: Empty.
    "#);
}

#[tokio::test]
async fn an_unknown_tool_gets_the_list_of_tools() {
    let said = [calls([("1", "sweep", "x"), ("2", "look", "y")]), Reply::text("ok")];
    let (agent, _) = agent([look(), tidy()], said);
    let finished = run(&agent).await;
    insta::assert_snapshot!(show(&finished.history), @r#"
    user: Look after the house.
    assistant: 1 sweep({"place":"x"}) | 2 look({"place":"y"})
    tool 1 failed: There is no tool `sweep`. The tools are: look, tidy.
    tool 2: y is empty
    assistant: ok
    "#);
    assert_eq!(finished.tools_used, ["look"]);
}

#[tokio::test]
async fn a_call_answered_by_the_run_itself_has_events() {
    let said = [calls([("1", "sweep", "x"), ("2", "look", "y")]), Reply::text("ok")];
    let (agent, _) = agent([look()], said);
    let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = std::sync::Arc::clone(&heard);
    let cx = soon().with_events(move |event| {
        let line = match &event.kind {
            EventKind::ToolStarted { call } => format!("started {}", call.name),
            EventKind::ToolFinished { call, error, .. } => format!("{} {error:?}", call.name),
            _ => return,
        };
        kept.lock().unwrap().push(line);
    });
    agent.run("Look after the house.", &cx).await.unwrap();
    let heard = heard.lock().unwrap().join("\n");
    insta::assert_snapshot!(heard, @r#"
    started sweep
    sweep Some("There is no tool `sweep`. The tools are: look.")
    started look
    look None
    "#);
}

#[tokio::test]
async fn an_unknown_tool_without_any_tools_is_reported() {
    let (agent, _) = agent([], [calls([("1", "look", "x")]), Reply::text("ok")]);
    let finished = run(&agent).await;
    insta::assert_snapshot!(show(&finished.history[2..3]), @"tool 1 failed: There is no tool `look`. There are no tools: answer without them.");
}

/// A tool whose argument selects the kind of failure.
fn failing() -> Tool {
    tool("fail", Effect::Read, async |look: Look| match look.place.as_str() {
        "retry" => Err(Error::retry("name a room of this house")),
        "refuse" => Err(Error::refuse("the cellar is closed")),
        "other" => Err(std::io::Error::other("no route to 10.0.0.7"))?,
        "panic" => panic!("the shelf fell on 10.0.0.7"),
        _ => Err(Error::stop("the house burns")),
    })
}

#[tokio::test]
async fn the_model_gets_only_errors_meant_for_it() {
    let said = [
        calls([
            ("1", "fail", "retry"),
            ("2", "fail", "refuse"),
            ("3", "fail", "other"),
            ("4", "fail", "panic"),
            ("5", "look", "the hall"),
        ]),
        Reply::text("ok"),
    ];
    let (agent, _) = agent([failing(), look()], said);
    let log = Log::default();
    let heard = log.clone();
    let cx = soon().with_events(move |event| {
        if let EventKind::ToolFinished { call, error: Some(error), .. } = &event.kind {
            heard.write(format!("{}: {error}", call.id));
        }
    });
    let finished = agent.run("Go.", &cx).await.unwrap();
    insta::assert_snapshot!(show(&finished.history[2..]), @r"
    tool 1 failed: name a room of this house
    tool 2 failed: the cellar is closed
    tool 3 failed: The tool failed. The reason is not shown to you.
    tool 4 failed: The tool failed. The reason is not shown to you.
    tool 5: the hall is empty
    assistant: ok
    ");
    // The events have the whole errors, for the user.
    insta::assert_snapshot!(log.entries().join("\n"), @r"
    1: name a room of this house
    2: the cellar is closed
    3: no route to 10.0.0.7
    4: the tool panicked: the shelf fell on 10.0.0.7
    stage: panic
    ");
}

#[tokio::test]
async fn a_stop_waits_for_other_calls_and_the_run_can_be_continued() {
    let (log, stops) = (Log::default(), Arc::new(AtomicU32::new(1)));
    let left = Arc::clone(&stops);
    let stopping = tool("stop", Effect::Read, move |_| {
        let stop = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        async move {
            match stop {
                Ok(_) => Err(Error::stop("the house burns")),
                Err(_) => Ok("the fire is out".to_owned()),
            }
        }
    });
    let said =
        [calls([("1", "stop", "x"), ("2", "look", "a")]), Reply::text("The fire was put out.")];
    let (agent, asked) = agent([stopping, logged("look", Effect::Read, &log)], said);
    let mut run = agent.start("Go.").unwrap();
    let before = {
        let error = agent.drive(&mut run, &soon()).await.unwrap_err();
        assert_eq!(error.audience(), Audience::Run);
        assert_eq!(error.to_string(), "the house burns");
        serde_json::to_string(&run).unwrap()
    };
    assert_eq!(log.entries(), ["begin a", "end a"]);
    assert!(before.contains("\"tools\""));

    let finished = agent.drive(&mut run, &soon()).await.unwrap();
    assert_eq!(finished.answer, "The fire was put out.");
    assert_eq!(asked.requests().len(), 2);
    // A second drive of a finished run returns the same.
    assert_eq!(agent.drive(&mut run, &soon()).await.unwrap(), finished);
}

#[tokio::test]
async fn a_models_error_leaves_the_run_at_its_step() {
    let fails = AtomicU32::new(1);
    let model = Scripted::new(move |_: &Request| {
        match fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)) {
            Ok(_) => Err(Error::other("connection lost").at(Stage::Transport).retryable(true)),
            Err(_) => Ok(Reply::text("ok")),
        }
    });
    let agent = Agent::new(model, []).unwrap();
    let mut run = agent.start("Go.").unwrap();
    let error = agent.drive(&mut run, &soon()).await.unwrap_err();
    assert_eq!((error.stage(), error.is_retryable()), (Stage::Transport, true));
    assert_eq!(agent.drive(&mut run, &soon()).await.unwrap().answer, "ok");
}

fn ids(history: &[Arc<Message>]) -> (Vec<String>, Vec<String>) {
    let (mut called, mut answered) = (Vec::new(), Vec::new());
    for message in history {
        match &**message {
            Message::Assistant { parts } => {
                called.extend(parts.iter().filter_map(|part| match part {
                    ReplyPart::Call(call) => Some(call.id.clone()),
                    _ => None,
                }))
            }
            Message::Tool(result) => answered.push(result.id.clone()),
            _ => {}
        }
    }
    (called, answered)
}

#[tokio::test]
async fn missing_and_duplicate_ids_of_calls_are_replaced() {
    let said = [
        calls([("", "look", "a"), ("", "look", "b"), ("x", "look", "c"), ("x", "tidy", "d")]),
        // Some servers restart their numbers in every reply.
        calls([("x", "look", "e"), ("call_1_2", "look", "f"), ("", "look", "g")]),
        // This id equals one that would be generated for a call without an id.
        calls([("call_4_1", "look", "h"), ("", "look", "i")]),
        Reply::text("ok"),
    ];
    let (agent, _) = agent([look(), tidy()], said);
    let finished = run(&agent).await;
    let (called, answered) = ids(&finished.history);
    assert_eq!(called, answered);
    let unique: std::collections::HashSet<&String> = called.iter().collect();
    assert_eq!((called.len(), unique.len()), (9, 9));
    insta::assert_snapshot!(show(&finished.history));
}

#[tokio::test]
async fn a_generated_id_is_unique() {
    // The first reply is step 0, so its second call would get the id `call_0_1`.
    let said = [calls([("call_0_1", "look", "a"), ("", "look", "b")]), Reply::text("ok")];
    let (agent, _) = agent([look()], said);
    let finished = run(&agent).await;
    let (called, answered) = ids(&finished.history);
    assert_ne!(called[0], called[1]);
    assert_eq!(called, answered);
}

#[tokio::test]
async fn an_empty_answer_is_requested_again_and_not_sent_back() {
    let thinking = ReplyPart::Reasoning(Reasoning::new("p", "hm", serde_json::Value::Null));
    let said =
        [Reply::text("  "), Reply::new([]), Reply::new([thinking]), Reply::text("Now I know.")];
    let (agent, _) = agent([look()], said);
    let limits = Limits { max_same_failures: 4, ..Limits::default() };
    let finished = run(&agent.with_limits(limits)).await;
    assert_eq!((finished.answer.as_str(), finished.iterations), ("Now I know.", 3));
    insta::assert_snapshot!(show(&finished.history), @r"
    user: Look after the house.
    user: Your answer was empty. Answer the task.
    user: Your answer was empty. Answer the task.
    user: Your answer was empty. Answer the task.
    assistant: Now I know.
    ");
}

#[tokio::test]
async fn reasoning_is_sent_back_unchanged_and_in_place() {
    let opaque = serde_json::json!({"id": "rs_1", "encrypted_content": "…"});
    let reasoning = ReplyPart::Reasoning(Reasoning::new("some-provider", "Hm.", opaque));
    let parts = vec![
        reasoning.clone(),
        ReplyPart::text("First the hall."),
        reasoning,
        ReplyPart::Call(call("1", "look", "the hall")),
    ];
    let said = [Reply::new(parts.clone()), Reply::text("ok")];
    let (agent, asked) = agent([look()], said);
    run(&agent).await;
    assert_eq!(*asked.requests()[1].messages[1], Message::Assistant { parts });
}

#[tokio::test]
async fn a_refusal_is_an_error_with_the_models_text() {
    let refusal = Reply::new([
        ReplyPart::text("I do not enter houses."),
        ReplyPart::Call(call("1", "look", "a")),
    ]);
    let refusal = refusal.with_finish(Finish::Refused).with_usage(Usage::new(3, 4));
    let (agent, _) = agent([look()], [refusal]);
    let mut run = agent.start("Go.").unwrap();
    let error = agent.drive(&mut run, &soon()).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Provider);
    assert_eq!(error.usage(), Usage::new(3, 4));
    insta::assert_snapshot!(format!("{error:#}"), @r"
    the model refused the task; its reply says why
    stage: provider
    reply: I do not enter houses.
    ");
    // Calls of a refused reply are not made and not in the history.
    insta::assert_snapshot!(show(run.history()), @r"
    user: Go.
    assistant: I do not enter houses.
    ");
}

#[tokio::test]
async fn a_cut_off_call_is_not_made() {
    let cut = Reply::calls([
        call("1", "tidy", "the hall"),
        ToolCall::new("2", "tidy", r#"{"place": "the whole ho"#),
    ]);
    let said = [cut.with_finish(Finish::Length), Reply::text("ok")];
    let (agent, _) = agent([tidy()], said);
    let finished =
        run(&agent.with_settings(Settings::default().with_max_output_tokens(20)).unwrap()).await;
    insta::assert_snapshot!(show(&finished.history[1..]), @r#"
    assistant: 1 tidy({"place":"the hall"}) | 2 tidy({"place": "the whole ho)
    tool 1 failed: The call was cut off at the maximum length of a reply, so it was not made. Call again with shorter arguments.
    tool 2 failed: The call was cut off at the maximum length of a reply, so it was not made. Call again with shorter arguments.
    assistant: ok
    "#);
}

#[tokio::test]
async fn a_cut_off_answer_is_marked() {
    let cut = Reply::text("The hall is em").with_finish(Finish::Length);
    let (agent, asked) = agent([look()], [cut]);
    let finished =
        run(&agent.with_settings(Settings::default().with_max_output_tokens(4)).unwrap()).await;
    assert_eq!((finished.answer.as_str(), finished.ending), ("The hall is em", Ending::CutOff));
    assert_eq!(asked.requests()[0].max_output_tokens(), 4);
}

#[tokio::test]
async fn a_reply_with_an_unknown_finish_reason_is_not_an_answer() {
    for word in ["pause_turn", "queued", "in_progress", "cancelled", "odd"] {
        let other = Finish::Other(word.to_owned());
        for text in ["The hall is em", ""] {
            let said = Reply::text(text).with_finish(other.clone()).with_usage(Usage::new(3, 4));
            let (agent, asked) = agent([look()], [said]);
            let error = agent.run("Go.", &soon()).await.unwrap_err();
            assert_eq!((error.stage(), error.raw()), (Stage::Provider, Some(text)));
            assert_eq!((error.usage(), asked.requests().len()), (Usage::new(3, 4), 1));
            assert!(error.to_string().contains(word), "{error}");
            let unfinished = error.downcast_ref::<Unfinished>().unwrap();
            assert_eq!(unfinished.finished.ending, Ending::Unclear);
            assert_eq!(unfinished.finished.reason.as_deref(), Some(word));
        }
    }
    let said = Reply::text("Wait.").with_finish(Finish::Other("pause_turn".to_owned()));
    let (agent, _) = agent([look()], [said]);
    let error = agent.run("Go.", &soon()).await.unwrap_err();
    insta::assert_snapshot!(error, @r#"the model stopped with "pause_turn", which this version does not know, so the answer of `agent` may be incomplete; run it again or try another model"#);
}

#[tokio::test]
async fn calls_beside_an_unknown_finish_reason_are_not_made() {
    let said = Reply::calls([
        call("1", "look", "the hall"),
        ToolCall::new("2", "tidy", r#"{"place": "the whole ho"#),
    ]);
    let said = [said.with_finish(Finish::Other("TOOL_CALL".to_owned())), Reply::text("ok")];
    let (agent, _) = agent([look(), tidy()], said);
    insta::assert_snapshot!(show(&run(&agent).await.history[1..]), @r#"
    assistant: 1 look({"place":"the hall"}) | 2 tidy({"place": "the whole ho)
    tool 1 failed: The reply ended with "TOOL_CALL" and may be incomplete, so the call was not made. Call again.
    tool 2 failed: The reply ended with "TOOL_CALL" and may be incomplete, so the call was not made. Call again.
    assistant: ok
    "#);
}

/// A model that never stops calling.
fn restless() -> (Agent, crate::support::Asked) {
    let said = (0..100).map(|n| {
        Reply::new([
            ReplyPart::text(format!("{n} and on.")),
            ReplyPart::Call(call(&format!("c{n}"), "look", "on")),
        ])
    });
    agent([look()], said)
}

#[tokio::test]
async fn at_the_limit_the_model_gives_a_last_answer_that_is_marked() {
    let (agent, asked) = restless();
    let finished = run(&agent.with_limits(Limits { max_iterations: 2, ..Limits::default() })).await;
    assert_eq!(finished.ending, Ending::LimitReached);
    assert_eq!((finished.answer.as_str(), finished.iterations), ("2 and on.", 2));
    // Calls in the last answer are not made.
    insta::assert_snapshot!(show(&finished.history), @r#"
    user: Look after the house.
    assistant: 0 and on. | c0 look({"place":"on"})
    tool c0: on is empty
    assistant: 1 and on. | c1 look({"place":"on"})
    tool c1: on is empty
    user: You have used up your tool calls. Answer the task now from what you know, without tools.
    assistant: 2 and on.
    "#);
    let choices: Vec<_> =
        asked.requests().iter().map(|request| request.tool_choice.clone()).collect();
    assert_eq!(choices, [ToolChoice::Auto, ToolChoice::Auto, ToolChoice::None]);
    let tools: Vec<_> = asked.requests().iter().map(|request| request.tools.len()).collect();
    assert_eq!(tools, [1, 1, 1]);
}

#[tokio::test]
async fn the_default_limit_is_ten_iterations() {
    let (agent, asked) = restless();
    let finished = run(&agent).await;
    assert_eq!((finished.iterations, finished.ending), (10, Ending::LimitReached));
    assert_eq!(asked.requests().len(), 11);
    assert_eq!(ids(&finished.history).1.len(), 10);
}

#[tokio::test]
async fn the_loop_stays_within_its_limit_of_at_least_one_iteration() {
    for (limit, rounds) in [(0, 1), (1, 1), (2, 2), (7, 7)] {
        let (agent, asked) = restless();
        let finished =
            run(&agent.with_limits(Limits { max_iterations: limit, ..Limits::default() })).await;
        assert_eq!(finished.iterations, rounds, "{limit}");
        assert_eq!(asked.requests().len(), rounds as usize + 1, "{limit}");
    }
}

#[tokio::test]
async fn an_empty_or_refused_last_answer_leaves_no_empty_message() {
    let silent = [calls([("1", "look", "a")]), calls([("2", "look", "b")])];
    let (agent, _) = agent([look()], silent);
    let finished = run(&agent.with_limits(Limits { max_iterations: 1, ..Limits::default() })).await;
    assert_eq!((finished.answer.as_str(), finished.ending), ("", Ending::LimitReached));
    assert!(matches!(**finished.history.last().unwrap(), Message::User { .. }));

    let refusal = Reply::text("No.").with_finish(Finish::Refused);
    let (agent, _) = crate::support::agent([look()], [calls([("1", "look", "a")]), refusal]);
    let agent = agent.with_limits(Limits { max_iterations: 1, ..Limits::default() });
    let error = agent.run("Go.", &soon()).await.unwrap_err();
    assert_eq!((error.stage(), error.raw()), (Stage::Provider, Some("No.")));
}

#[tokio::test]
async fn the_state_of_a_run_can_be_inspected_at_every_step() {
    let (agent, _) = agent([look()], [calls([("1", "look", "a")]), Reply::text("ok")]);
    let mut run = agent.start("Go.").unwrap();
    assert_eq!((run.history().len(), run.iterations()), (1, 0));
    agent.drive(&mut run, &soon()).await.unwrap();
    assert_eq!((run.history().len(), run.iterations()), (4, 1));
    assert_eq!(run.tools_used(), ["look"]);
    assert!(run.elapsed() > std::time::Duration::ZERO);
}

#[test]
fn two_tools_with_the_same_name_are_rejected() {
    let twice = [look(), tidy().named("look").unwrap()];
    let error = Agent::new(SchemaDriven::default(), twice).unwrap_err();
    assert!(matches!(error, SetupError::DuplicateTool { .. }));
    insta::assert_snapshot!(error, @"two tools have the name `look`; rename one with `Tool::named`");
}

/// Ask a model about a place.
#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Guess {
    place: String,
}

impl Signature for Guess {
    type Output = String;
}

/// A model with this answer and usage.
fn priced(answer: &'static str, usage: Usage) -> impl toolwright_module::LanguageModel {
    Scripted::new(move |_: &Request| Ok(Reply::text(answer).with_usage(usage)))
}

#[tokio::test]
async fn models_of_tools_count_in_the_run() {
    let by_model = priced(r#"{"result": "dark"}"#, Usage::new(100, 1));
    let by_thinking = priced(r#"{"reasoning": "Hm.", "output": "dim"}"#, Usage::new(1000, 2));
    let with_context = from_fn_with(async |guess: Guess, cx: Context| {
        let model = priced(r#"{"result": "light"}"#, Usage::new(10000, 3));
        Predict::<Guess>::new(model)?.call(guess, &cx).await
    });
    let tools = [
        Tool::new(Predict::<Guess>::new(by_model).unwrap()).unwrap().named("one").unwrap(),
        Tool::new(ChainOfThought::<Guess>::new(by_thinking).unwrap())
            .unwrap()
            .named("two")
            .unwrap(),
        Tool::new(with_context).unwrap().named("three").unwrap(),
    ];
    let said = [
        calls([("1", "one", "a"), ("2", "two", "b"), ("3", "three", "c")])
            .with_usage(Usage::new(1, 10)),
        Reply::text("ok").with_usage(Usage::new(2, 20)),
    ];
    let (agent, _) = agent(tools, said);
    let ledger = Ledger::default();
    let cx = soon().with_ledger(ledger.clone());
    let finished = agent.run("Go.", &cx).await.unwrap();
    insta::assert_snapshot!(show(&finished.history[2..5]), @r"
    tool 1: dark
    tool 2: dim
    tool 3: light
    ");
    assert_eq!(finished.spent.usage, Usage::new(11103, 36));
    assert_eq!((ledger.spent().usage, ledger.spent().model_calls), (finished.spent.usage, 5));
}

#[tokio::test]
async fn a_tool_without_a_model_uses_the_agents() {
    let tool = Tool::new(Predict::<Guess>::from_context().unwrap()).unwrap();
    let model = Scripted::new(|request: &Request| {
        Ok(match (request.tools.is_empty(), request.messages.len()) {
            (true, _) => Reply::text(r#"{"result": "dark"}"#),
            (false, 1) => calls([("1", "guess", "a")]),
            (false, _) => Reply::text("ok"),
        })
    });
    let agent = Agent::new(model, [tool]).unwrap();
    let finished = run(&agent).await;
    insta::assert_snapshot!(show(&finished.history[2..3]), @"tool 1: dark");
}

#[tokio::test]
async fn an_agent_is_a_tool_of_another_agent() {
    let helper = |limit, said: Vec<Reply>| {
        let (model, _) = replies(said);
        let helper = Agent::new(model, [look()]).unwrap();
        let helper = helper.with_limits(Limits { max_iterations: limit, ..Limits::default() });
        Tool::new(helper).unwrap()
    };
    let price = |reply: Reply| reply.with_usage(Usage::new(1, 1));
    let tools = [
        helper(10, vec![price(calls([("1", "look", "a")])), price(Reply::text("It is empty."))])
            .named("helper")
            .unwrap()
            .described("Ask the helper."),
        helper(1, vec![price(calls([("1", "look", "a")])), price(Reply::text("Perhaps."))])
            .named("tired_helper")
            .unwrap(),
    ];
    let task = |id: &str, name: &str| ToolCall::new(id, name, r#"{"task": "Look at a."}"#);
    let said = [
        price(Reply::calls([task("1", "helper"), task("2", "tired_helper")])),
        price(Reply::text("ok")),
    ];
    let (agent, asked) = agent(tools, said);
    let finished = run(&agent).await;
    insta::assert_snapshot!(show(&finished.history[2..4]), @r"
    tool 1: It is empty.
    tool 2: Perhaps.
    (A limit was reached: this answer may not be complete.)
    ");
    assert_eq!(finished.spent.usage, Usage::new(6, 6));
    insta::assert_json_snapshot!(asked.requests()[0].tools[0].tool(Dialect::Mcp).unwrap());
}

#[tokio::test]
async fn a_stop_ends_every_run_above_and_a_refusal_does_not() {
    let nested = |said: Vec<Reply>| {
        let (model, _) = replies(said);
        let helper = Agent::new(model, [failing()]).unwrap();
        Tool::new(helper).unwrap().named("helper").unwrap()
    };
    let ask = || Reply::calls([ToolCall::new("1", "helper", r#"{"task": "Go."}"#)]);
    let stopping = nested(vec![calls([("1", "fail", "stop")])]);
    let (outer, _) = agent([stopping], [ask()]);
    let error = outer.run("Go.", &soon()).await.unwrap_err();
    assert_eq!((error.audience(), error.to_string().as_str()), (Audience::Run, "the house burns"));

    let refusing = nested(vec![Reply::text("No.").with_finish(Finish::Refused)]);
    let (outer, _) = agent([refusing], [ask(), Reply::text("ok")]);
    let finished = run(&outer).await;
    insta::assert_snapshot!(show(&finished.history[2..3]), @"tool 1 failed: The tool failed. The reason is not shown to you.");
}

#[tokio::test]
async fn an_agent_is_an_ordinary_module() {
    async fn ask(module: &impl Module<Signature = Task>) -> Result<String> {
        Ok(module.call(Task::new("Go."), &soon()).await?.answer)
    }
    let (agent, _) = agent([], [Reply::text("ok"), Reply::text("ok")]);
    assert_eq!(ask(&agent).await.unwrap(), "ok");
    assert_eq!(ask(&Arc::new(agent)).await.unwrap(), "ok");
}

#[tokio::test]
async fn every_tool_runs_on_what_its_own_schema_allows() {
    let agent = Agent::new(SchemaDriven::default(), [look(), tidy()]).unwrap();
    let finished = run(&agent).await;
    assert_eq!((finished.answer.as_str(), finished.tools_used.len()), ("done", 2));
}

#[tokio::test]
async fn a_run_with_other_tools_is_rejected() {
    let (other, _) = agent([look()], []);
    let (agent, _) = agent([tidy()], [calls([("1", "look", "a")])]);
    let mut run = other.start("Go.").unwrap();
    let error = agent.drive(&mut run, &soon()).await.unwrap_err();
    assert_eq!((error.stage(), error.audience()), (Stage::Setup, Audience::Run));
    insta::assert_snapshot!(error, @"the run and the agent that drives it differ in the tool `look`; resume the run with `Agent::resume`");
}

#[tokio::test]
async fn a_listener_gets_the_streamed_answer_and_every_call() {
    let said = [calls([("1", "look", "a")]), Reply::text("Done.")];
    let (agent, _) = agent([look()], said);
    let log = Log::default();
    let heard = log.clone();
    let cx = soon().with_events(move |event| {
        heard.write(match &event.kind {
            EventKind::TextDelta { text } => format!("text {text}"),
            EventKind::CallDelta { name, arguments, .. } => format!("{name}: {arguments}"),
            EventKind::ModelReplied { model, .. } => format!("{model} replied"),
            EventKind::ToolStarted { call } => format!("{} begins", call.name),
            EventKind::ToolFinished { call, text, .. } => format!("{} ends: {text}", call.name),
            EventKind::Started { agent, step } => format!("{agent} starts at {step}"),
            EventKind::Done { answer, ending } => format!("{ending:?}: {answer}"),
            other => format!("{other:?}"),
        });
    });
    agent.run("Go.", &cx).await.unwrap();
    assert_eq!(
        log.entries(),
        [
            "agent starts at 0",
            "look: {\"place\":\"a\"}",
            "scripted replied",
            "look begins",
            "look ends: a is empty",
            "text Done.",
            "scripted replied",
            "Answered: Done."
        ]
    );
}

#[tokio::test]
async fn events_have_results_as_cut_for_the_model() {
    let long = tool("long", Effect::Read, async |_| Ok("word ".repeat(100)));
    let (agent, _) = agent([long], [calls([("1", "long", "a")]), Reply::text("ok")]);
    let log = Log::default();
    let heard = log.clone();
    let cx = soon().with_events(move |event| {
        if let EventKind::ToolFinished { text, .. } = &event.kind {
            heard.write(text.clone());
        }
    });
    // The limit is too small for the note.
    let agent = agent.with_limits(Limits { max_result_bytes: 20, ..Limits::default() });
    let finished = agent.run("Go.", &cx).await.unwrap();
    insta::assert_snapshot!(show(&finished.history[2..3]), @r"
    tool 1: 
    [cut: 0 of 500 byte
    ");
    assert_eq!(log.entries(), ["\n[cut: 0 of 500 byte"]);
}

#[tokio::test]
async fn a_denial_applied_by_hand_is_an_event_of_the_next_drive() {
    let said = [calls([("1", "tidy", "a")]), calls([("2", "sweep", "a")]), Reply::text("ok")];
    let (agent, _) = agent([tidy()], said);
    let agent = agent.with_approval(ApprovalPolicy::from_effect(Effect::Write)).unwrap();
    let mut run = agent.start("Go.").unwrap();
    agent.drive(&mut run, &soon()).await.unwrap_err();
    let step = run.next().number;
    run.apply(StepResult::decisions(step, [("1", Decision::deny("Not now."))])).unwrap();

    let log = Log::default();
    let heard = log.clone();
    let cx = soon().with_events(move |event| match &event.kind {
        EventKind::ToolFinished { call, text, .. } => heard.write(format!("{}: {text}", call.id)),
        EventKind::Decided { id, decision } => heard.write(format!("{id}: {decision:?}")),
        _ => {}
    });
    let finished = agent.drive(&mut run, &cx).await.unwrap();
    insta::assert_snapshot!(log.entries().join("\n"), @r#"
    1: Deny { reason: "Not now." }
    2: There is no tool `sweep`. The tools are: tidy.
    "#);
    // The call was not made.
    assert!(finished.tools_used.is_empty());
}

fn paused() -> Reply {
    let search = Opaque::new("anthropic", json!({"type": "server_tool_use", "id": "s1"}));
    let parts = [ReplyPart::text("Let me look."), ReplyPart::Other(search)];
    Reply::new(parts).with_finish(Finish::Paused)
}

/// The provider runs a tool of its own. It continues with its reply, which must be unchanged.
#[tokio::test]
async fn a_paused_reply_goes_back_whole_and_counts_as_a_round() {
    let (agent, asked) = agent([look()], [paused(), paused(), Reply::text("All is well.")]);
    let finished = run(&agent).await;
    assert_eq!((finished.answer.as_str(), finished.iterations), ("All is well.", 2));
    let requests = asked.requests();
    for (request, before) in requests[1..].iter().zip(&requests) {
        let (last, messages) = request.messages.split_last().unwrap();
        assert_eq!(messages, before.messages);
        assert_eq!(**last, Message::Assistant { parts: paused().parts });
    }
}

#[tokio::test]
async fn a_reply_that_pauses_forever_ends_at_the_limit_of_rounds() {
    let (agent, asked) = agent([look()], (0..9).map(|_| paused()));
    let agent = agent.with_limits(Limits { max_iterations: 3, ..Limits::default() });
    let finished = run(&agent).await;
    assert_eq!((finished.ending, asked.requests().len()), (Ending::LimitReached, 4));
}

/// Gemini leaves out of its reply a call that it cannot read.
#[tokio::test]
async fn a_model_whose_call_could_not_be_read_is_told_and_calls_again() {
    let finish = Finish::Other("MALFORMED_FUNCTION_CALL".to_owned());
    let (agent, asked) =
        agent([look()], [Reply::new([]).with_finish(finish), Reply::text("All is well.")]);
    assert_eq!(run(&agent).await.answer, "All is well.");
    let told = &asked.requests()[1].messages;
    assert_eq!(
        told.last().unwrap(),
        &Message::user(
            "Your tool call could not be read, so it was not made. Call again, with arguments that are one JSON object."
        )
    );
}

/// Draw a plan of the house.
#[derive(Serialize, Deserialize, JsonSchema)]
struct DrawPlan {}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Plan {
    rooms: u8,
    image: Image,
}

impl Signature for DrawPlan {
    type Output = Plan;
}

fn draw_plan(bytes: usize) -> Tool {
    let plan = move |_: DrawPlan| async move {
        Ok(Plan { rooms: 3, image: Image::bytes("image/png", vec![0; bytes]) })
    };
    Tool::new(from_fn(plan)).unwrap()
}

/// The value for programs is complete, unless it is longer than a result may be.
#[tokio::test]
async fn an_image_in_a_tools_output_reaches_the_model_and_the_value_has_it_too() {
    for (bytes, kept) in [(3, true), (100, false)] {
        let plan = ToolCall::new("1", "draw_plan", "{}");
        let (agent, asked) = agent([draw_plan(bytes)], [Reply::calls([plan]), Reply::text("ok")]);
        run(&agent.with_limits(Limits { max_result_bytes: 100, ..Limits::default() })).await;
        let last = asked.requests()[1].messages.last().cloned().unwrap();
        let Message::Tool(result) = &*last else { panic!("{last:?}") };
        assert_eq!(result.text, r#"{"rooms":3,"image":"[image 1]"}"#);
        assert_eq!(result.parts, [Image::bytes("image/png", vec![0; bytes]).into()]);
        let complete = json!({"rooms": 3, "image": "data:image/png;base64,AAAA"});
        assert_eq!(result.value, kept.then_some(complete));
    }
}
