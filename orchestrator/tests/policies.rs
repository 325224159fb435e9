//! Policies for repairs of agents: where they apply, and where repairs are reported.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::approval::Decision;
use toolwright_module::event::EventKind;
use toolwright_module::message::{ReplyPart, ToolResult};
use toolwright_module::model::{BoxFuture, Capabilities};
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Context, Dialect, Effect, Error, LanguageModel, Message, Module, Policy, Predict, Reply,
    Request, Result, Signature, Tool, ToolCall, from_fn, from_fn_with,
};
use toolwright_orchestrator::{
    Agent, ApprovalPolicy, Limits, ReAct, Run, RunState, StepKind, StepResult,
};

use crate::support::{Asked, Look, agent, look, react, replies, run, show, soon, tidy, tool};

/// Count steps.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Step {
    counts: BTreeMap<String, u32>,
    fast: Option<bool>,
}

impl Signature for Step {
    type Output = String;
}

fn step() -> Tool {
    Tool::new(from_fn(async |step: Step| Ok(format!("{:?}", step.counts)))).unwrap()
}

fn said(arguments: &str) -> [Reply; 2] {
    [Reply::calls([ToolCall::new("1", "look", arguments)]), Reply::text("Done.")]
}

/// Like [`replies`], with a model whose provider has a strict dialect.
fn strict(replies: [Reply; 2]) -> (impl LanguageModel, Asked) {
    struct Strict<M>(M);
    impl<M: LanguageModel> LanguageModel for Strict<M> {
        fn name(&self) -> &str {
            self.0.name()
        }
        fn capabilities(&self) -> Capabilities {
            Capabilities::new(Dialect::OpenAiStrict)
        }
        fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
            self.0.generate(request)
        }
    }
    let (model, asked) = crate::support::replies(replies);
    (Strict(model), asked)
}

/// Returns the arguments of the calls in each request.
fn sent(asked: &Asked) -> Vec<Vec<String>> {
    let requests = asked.requests();
    requests.iter().map(|request| arguments(&request.messages)).collect()
}

fn arguments(messages: &[Arc<Message>]) -> Vec<String> {
    let parts = messages.iter().filter_map(|message| match &**message {
        Message::Assistant { parts } => Some(parts),
        _ => None,
    });
    let calls = parts.flatten().filter_map(|part| match part {
        ReplyPart::Call(call) => Some(call.arguments.clone()),
        _ => None,
    });
    calls.collect()
}

#[tokio::test]
async fn repaired_arguments_are_sent_back_and_the_prompt_only_grows() {
    let written = "{'place': 'hall',}";
    let calls = Reply::calls([
        ToolCall::new("1", "look", written),
        ToolCall::new("2", "tidy", r#"{"place": "hall"}"#),
        ToolCall::new("3", "tidy", "```json\n{\"place\": \"attic\"}\n```"),
        ToolCall::new("4", "tidy", "[1"),
    ]);
    let more = Reply::calls([ToolCall::new("5", "look", r#"{"place": "b", "why": 1}"#)]);
    let (agent, asked) = agent([look(), tidy()], [calls, more, Reply::text("Done.")]);
    let finished = run(&agent).await;
    let last = sent(&asked).pop().unwrap();
    assert_eq!(
        last,
        [
            r#"{"place":"hall"}"#,
            r#"{"place": "hall"}"#,
            r#"{"place":"attic"}"#,
            "[1",
            r#"{"place":"b"}"#,
        ]
    );
    for two in asked.requests().windows(2) {
        let before = two[0].messages.len();
        assert_eq!(two[1].messages[..before], two[0].messages[..]);
    }
    let repaired: Vec<_> = finished
        .repaired
        .iter()
        .map(|one| (one.call.id.as_str(), one.call.arguments.as_str()))
        .collect();
    assert_eq!(
        repaired,
        [
            ("1", written),
            ("3", "```json\n{\"place\": \"attic\"}\n```"),
            ("5", r#"{"place": "b", "why": 1}"#),
        ]
    );
    assert_eq!(finished.failures.len(), 1);
    assert_eq!(arguments(&finished.history), last);
}

#[tokio::test]
async fn repaired_arguments_are_sent_back_in_the_requested_shape() {
    // In a strict dialect a map is a list of pairs, and every field is required.
    let written = r#"{"counts": [{"key": "a", "value": "1"}], "fast": null}"#;
    let calls = Reply::calls([ToolCall::new("1", "step", written)]);
    let (model, asked) = strict([calls, Reply::text("Done.")]);
    let agent = Agent::new(model, [step()]).unwrap();
    let finished = run(&agent).await;
    assert_eq!(show(&finished.history).lines().nth(2), Some(r#"tool 1: {"a": 1}"#));
    let read = r#"{"counts":[{"key":"a","value":1}],"fast":null}"#;
    assert_eq!(sent(&asked)[1], [read]);
}

#[tokio::test]
async fn repairs_are_in_events_even_if_the_tool_fails() {
    let failing = tool("look", Effect::Read, async |_: Look| Err(Error::retry("Not now.")));
    let (agent, asked) = agent([failing], said("{'place': 'hall'}"));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heard);
    let cx = soon().with_events(move |event| {
        if let EventKind::ToolFinished { call, repairs, .. } = &event.kind {
            let text = serde_json::to_string(event).unwrap();
            let read: toolwright_module::event::Event = serde_json::from_str(&text).unwrap();
            assert_eq!(read, *event);
            let repairs: Vec<String> = repairs.iter().map(ToString::to_string).collect();
            kept.lock().unwrap().push((call.arguments.clone(), repairs.join("; ")));
        }
    });
    let finished = agent.run("Go.", &cx).await.unwrap();
    let repairs = "$: read other quotes as double quotes, 2 times".to_owned();
    assert_eq!(*heard.lock().unwrap(), [("{'place': 'hall'}".to_owned(), repairs)]);
    assert_eq!((finished.failures.len(), finished.repaired.len()), (1, 1));
    assert_eq!(sent(&asked)[1], [r#"{"place":"hall"}"#]);
}

#[tokio::test]
async fn the_strictest_policy_of_tool_agent_and_context_applies() {
    let written = r#"{"place": "hall", "why": "rest"}"#;
    for strict in 0..4 {
        let policy = |at| if at == strict { Policy::Exact } else { Policy::Coerce };
        let (agent, asked) = agent([look().with_policy(policy(0))], said(written));
        let agent = agent.with_policy(policy(1));
        let finished = agent.run("Go.", &soon().with_policy(policy(2))).await.unwrap();
        let refused = strict < 3;
        assert_eq!(finished.failures.len(), usize::from(refused));
        assert_eq!(finished.repaired.len(), usize::from(!refused));
        if refused {
            let reported = show(&asked.requests()[1].messages);
            assert!(
                reported.contains("$.why: this needs a repair, and none is allowed here"),
                "{reported}"
            );
            assert_eq!(sent(&asked)[1], [written]);
        }
    }
}

#[tokio::test]
async fn agents_and_predictors_below_inherit_the_stricter_policy() {
    /// Judge a place.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Judge {
        place: String,
    }
    impl Signature for Judge {
        type Output = u32;
    }
    for strict in [false, true] {
        let answers =
            Scripted::replies([r#"{"result": "5"}"#, r#"{"result": 5}"#].map(Reply::text));
        let judge = Arc::new(Predict::<Judge>::new(answers).unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let judge = from_fn_with(move |input: Judge, cx: Context| {
            let (judge, kept) = (Arc::clone(&judge), Arc::clone(&kept));
            async move {
                let answer = judge.answer(input, &cx).await?;
                kept.lock().unwrap().push(answer.repairs.len());
                Ok(answer.value)
            }
        });
        let judging = Reply::calls([
            ToolCall::new("1", "judge", r#"{"place": "hall"}"#),
            ToolCall::new("2", "look", "{'place': 'hall'}"),
        ]);
        let (below, _) = agent([look(), Tool::new(judge).unwrap()], [judging, Reply::text("ok")]);
        let below = Tool::new(below).unwrap().named("helper").unwrap();
        let ask = Reply::calls([ToolCall::new("h", "helper", r#"{"task": "Judge."}"#)]);
        let (above, _) = agent([below], [ask, Reply::text("ok")]);
        let above = if strict { above.with_policy(Policy::Strict) } else { above };
        let failed = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&failed);
        let cx = soon().with_events(move |event| {
            if let EventKind::ToolFinished { error: Some(_), .. } = &event.kind {
                *counted.lock().unwrap() += 1;
            }
        });
        above.run("Go.", &cx).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), [usize::from(!strict)]);
        assert_eq!(*failed.lock().unwrap(), usize::from(strict));
    }
}

/// Find a room.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Find {
    what: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Found {
    rooms: u32,
}

impl Signature for Find {
    type Output = Found;
}

#[tokio::test]
async fn the_answer_of_a_typed_run_is_stored_repaired() {
    let finish = || Reply::calls([ToolCall::new("1", "finish", "{'rooms': '3'}")]);
    let (model, asked) =
        replies([finish(), Reply::calls([ToolCall::new("2", "finish", r#"{"rooms": 4}"#)])]);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heard);
    let cx = soon().with_events(move |event| {
        if let EventKind::AnswerRepaired { name, repairs } = &event.kind {
            kept.lock().unwrap().push((name.clone(), repairs.len()));
        }
    });
    let react = react::<Find>(model, []).unwrap();
    let find = Find { what: "doors".to_owned() };
    let agent = react.agent();
    let mut run = agent.start(react.task(&find).unwrap()).unwrap();
    let finished = agent.drive(&mut run, &cx).await.unwrap();
    assert_eq!(finished.answer, Found { rooms: 3 });
    assert_eq!(finished.repaired[0].call.arguments, "{'rooms': '3'}");
    assert_eq!(*heard.lock().unwrap(), [("find".to_owned(), 2)]);
    // The repairs are the same in the history, after storing, and after a follow-up.
    let stored = serde_json::to_string(&run).unwrap();
    let state: RunState = serde_json::from_str(&stored).unwrap();
    let mut run = Run::resume(state, agent.tools()).unwrap().run;
    assert_eq!(run.repaired(), finished.repaired);
    let again = agent.drive(&mut run, &cx).await.unwrap();
    assert_eq!((again.answer, again.repaired.len()), (Found { rooms: 3 }, 1));
    run.follow_up("Once more.").unwrap();
    let third = agent.drive(&mut run, &cx).await.unwrap();
    assert_eq!(third.answer, Found { rooms: 4 });
    assert_eq!(sent(&asked)[1], [r#"{"rooms":3}"#]);

    // With a strict policy the answer is sent back instead.
    let (model, asked) =
        replies([finish(), Reply::calls([ToolCall::new("2", "finish", r#"{"rooms": 4}"#)])]);
    let agent = Agent::new(model, []).unwrap().with_policy(Policy::Strict);
    let react = ReAct::new(agent).unwrap();
    assert_eq!(react.call(find, &Context::default()).await.unwrap(), Found { rooms: 4 });
    let reported = show(&asked.requests()[1].messages);
    assert!(reported.contains("output of `find` does not fit: $: not JSON"), "{reported}");
}

#[tokio::test]
async fn a_stored_run_driven_by_hand_sends_back_the_same() {
    let tools = [look(), tidy()];
    let mut run = Run::new("Go.", &tools, Limits::default()).unwrap();
    let calls = [
        ToolCall::new("1", "tidy", "{'place': 'a'}"),
        ToolCall::new("2", "tidy", "{'place': 'b'}"),
    ];
    run.apply(StepResult::model(0, Reply::calls(calls))).unwrap();
    for _ in 0..2 {
        let state: RunState = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
        run = Run::resume(state, &tools).unwrap().run;
        let step = run.next();
        let StepKind::CallTools(calls) = step.kind else { panic!("no calls") };
        let call = &calls[0];
        assert!(call.arguments.contains('\''));
        let outcome = tools[1].call(&call.arguments, &Context::default()).await;
        let answer = StepResult::tools(step.number, [ToolResult::of(call, outcome).0]);
        let answer: StepResult =
            serde_json::from_str(&serde_json::to_string(&answer).unwrap()).unwrap();
        run.apply(answer).unwrap();
    }
    let StepKind::CallModel(request) = run.next().kind else { panic!("no question") };
    assert_eq!(arguments(&request.messages), [r#"{"place":"a"}"#, r#"{"place":"b"}"#]);
    // Repairs are stored once, with the original call.
    assert_eq!(run.repaired().len(), 2);
    assert!(request.messages.iter().all(|message| match &**message {
        Message::Tool(result) => result.repaired.is_none(),
        _ => true,
    }));
}

#[tokio::test]
async fn a_persons_arguments_do_not_replace_the_models_in_the_history() {
    let (agent, asked) = agent([look().with_policy(Policy::Repair)], said(r#"{"place": "hall"}"#));
    let agent = agent.with_approval(ApprovalPolicy::from_effect(Effect::Read)).unwrap();
    let mut run = agent.start("Go.").unwrap();
    agent.drive(&mut run, &soon()).await.unwrap_err();
    let edit = |arguments: &str| {
        let decision = Decision::Edit { arguments: arguments.to_owned() };
        StepResult::decisions(run.next().number, [("1", decision)])
    };
    // The tool's policy applies to them in `apply`.
    let mut strict = run.clone();
    strict.apply(edit(r#"{"place": 5}"#)).unwrap_err();
    let answer = edit("{'place': 'attic'}");
    run.apply(answer).unwrap();
    let finished = agent.drive(&mut run, &soon()).await.unwrap();
    assert_eq!(sent(&asked)[1], [r#"{"place": "hall"}"#]);
    assert_eq!(finished.repaired[0].call.arguments, "{'place': 'attic'}");
}

#[tokio::test]
async fn an_output_that_does_not_fit_its_schema_is_an_error_for_the_user() {
    /// Rate a place.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Rate {
        place: String,
    }
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Rating {
        #[schemars(range(max = 5))]
        stars: u8,
    }
    impl Signature for Rate {
        type Output = Rating;
    }
    let rate = Tool::new(from_fn(async |_: Rate| Ok(Rating { stars: 9 }))).unwrap();
    let rating = Reply::calls([ToolCall::new("1", "rate", r#"{"place": "hall"}"#)]);
    let (agent, asked) = agent([rate], [rating, Reply::text("Done.")]);
    let finished = run(&agent).await;
    let error = &finished.failures[0].error;
    assert!(error.starts_with("output of `rate` does not fit: $.stars: "), "{error}");
    let reported = show(&asked.requests()[1].messages);
    assert!(
        reported.contains("tool 1 failed: The tool failed. The reason is not shown to you."),
        "{reported}"
    );
}

#[tokio::test]
async fn a_name_in_a_models_own_notation_is_repaired_and_listed() {
    for name in ["functions.look", "functions.look:0", "default_api:look", "tools/look"] {
        let said = [
            Reply::calls([
                ToolCall::new("1", name, r#"{"place": "hall"}"#),
                ToolCall::new("2", name, "{'place': 'attic'}"),
            ]),
            Reply::text("Done."),
        ];
        let (agent, asked) = agent([look()], said);
        let finished = run(&agent).await;
        assert_eq!(finished.tools_used, ["look"], "{name}");
        let repairs = finished.repaired.iter().map(|repaired| {
            (repaired.call.name.as_str(), repaired.call.id.as_str(), repaired.repairs.len())
        });
        assert_eq!(repairs.collect::<Vec<_>>(), [(name, "1", 1), (name, "2", 2)]);
        let what = &finished.repaired[0].repairs[0].what;
        assert_eq!(*what, format!("read the tool {name:?} as `look`"));
        let sent = format!("{:?}", asked.requests()[1].messages);
        assert!(!sent.contains(name), "{sent}");
    }
}

#[tokio::test]
async fn a_name_is_not_repaired_for_another_tool_or_against_the_policy() {
    let call = |name: &str| {
        [Reply::calls([ToolCall::new("1", name, r#"{"place": "hall"}"#)]), Reply::text("Done.")]
    };
    for name in
        ["functions.sweep", "files.look", "functions.", "look.functions", "functions.look.x"]
    {
        let finished = run(&agent([look()], call(name)).0).await;
        assert!(finished.tools_used.is_empty() && finished.repaired.is_empty(), "{name}");
    }
    let strict = look().with_policy(Policy::Strict);
    let finished = run(&agent([strict], call("functions.look")).0).await;
    assert!(finished.tools_used.is_empty());
}
