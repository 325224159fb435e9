//! Typed runs: `ReAct` and the tool `finish`.

use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::event::EventKind;
use toolwright_module::model::{Capabilities, Finish, SettingSet, Usage};
use toolwright_module::predict::Example;
use toolwright_module::testing::{Recorder, Recording, Replay, SchemaDriven, Scripted};
use toolwright_module::{
    Context, Dialect, Effect, LanguageModel, Message, Module, Reply, Signature, Tool, ToolCall,
};
use toolwright_orchestrator::{
    Agent, Ending, Limits, Progress, ReAct, Run, RunError, Task, Unfinished,
};

use crate::support::{Asked, act, calls, look, replies, show, soon, tidy};

/// Inspect a house.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Inspect {
    /// Its address.
    address: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct House {
    rooms: Vec<String>,
    state: State,
    people: Option<u8>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum State {
    Tidy,
    Untidy,
}

impl Signature for Inspect {
    type Output = House;
}

fn inspect() -> Inspect {
    Inspect { address: "Elm Street 1".to_owned() }
}

fn finish(id: &str, output: &str) -> Reply {
    Reply::calls([ToolCall::new(id, "finish", output)])
}

const OUTPUT: &str = r#"{"rooms": ["hall", "attic"], "state": "untidy", "people": 2}"#;

fn react<S: Signature>(said: impl IntoIterator<Item = Reply>) -> (ReAct<S>, Asked) {
    limited(said, Limits::default())
}

fn limited<S: Signature>(
    said: impl IntoIterator<Item = Reply>,
    limits: Limits,
) -> (ReAct<S>, Asked) {
    let (model, asked) = replies(said);
    let agent = Agent::new(model, [look(), tidy()]).unwrap().with_limits(limits);
    (ReAct::new(agent).unwrap(), asked)
}

fn start<S: Signature>(react: &ReAct<S>, input: &S) -> Run {
    react.agent().start(react.task(input).unwrap()).unwrap()
}

#[tokio::test]
async fn every_field_of_the_output_comes_from_finish() {
    let price = |reply: Reply| reply.with_usage(Usage::new(5, 1));
    let said = [price(calls([("1", "look", "hall")])), price(finish("2", OUTPUT))];
    let (agent, asked) = react::<Inspect>(said);
    let finished = act(&agent, inspect(), &soon()).await.unwrap();
    let house = House {
        rooms: vec!["hall".to_owned(), "attic".to_owned()],
        state: State::Untidy,
        people: Some(2),
    };
    assert_eq!(finished.answer, house);
    assert_eq!((finished.iterations, finished.spent.usage), (1, Usage::new(10, 2)));
    assert_eq!(finished.tools_used, ["look"]);
    insta::assert_snapshot!(show(&finished.history));

    let tools = &asked.requests()[0].tools;
    insta::assert_json_snapshot!(tools.last().unwrap().tool(Dialect::OpenAiStrict).unwrap());
}

/// Judge a house.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Judge {
    address: String,
}

/// The verdict on a house. Its description is a part of the tool `finish`.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Verdict {
    /// Whether somebody could live there.
    fit: bool,
}

impl Signature for Judge {
    type Output = Verdict;
}

#[tokio::test]
async fn a_recorded_run_replays_from_a_file() {
    let (model, _) = replies([calls([("1", "look", "hall")]), finish("2", r#"{"fit": true}"#)]);
    let recorder = Arc::new(Recorder::new(model));
    let agent = crate::support::react::<Judge>(Arc::clone(&recorder), [look(), tidy()]).unwrap();
    let input = Judge { address: "Elm Street 1".to_owned() };
    act(&agent, input.clone(), &soon()).await.unwrap();
    let recording = recorder.recording();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("react_of_a_file.json");
    recording.save(&path).unwrap();
    let loaded = Recording::load(&path).unwrap();
    assert_eq!(loaded, recording);

    let replay = Replay::new(loaded).with_capabilities(recorder.capabilities());
    let agent = crate::support::react::<Judge>(replay, [look(), tidy()]).unwrap();
    let again = act(&agent, input, &soon()).await.unwrap();
    assert_eq!(again.answer, Verdict { fit: true });
}

/// The orchestrator's driver makes the same requests for a run of `ReAct`, and `ReAct` has no code
/// that advances a run.
#[tokio::test]
async fn react_has_no_loop_of_its_own() {
    let said = || [calls([("1", "look", "hall"), ("2", "sweep", "hall")]), finish("3", OUTPUT)];
    let sent = |asked: Asked| serde_json::to_string(&asked.requests()).unwrap();
    let (typed, by_react) = react::<Inspect>(said());
    let typed_run = act(&typed, inspect(), &soon()).await.unwrap();

    let (typed, _) = react::<Inspect>([]);
    let mut run = start(&typed, &inspect());
    let (model, by_orchestrator) = replies(said());
    let orchestrator = Agent::new(model, [look(), tidy()]).unwrap();
    let finished = orchestrator.drive(&mut run, &soon()).await.unwrap();
    assert_eq!(sent(by_orchestrator), sent(by_react));
    assert_eq!(finished.history, typed_run.history);
    assert_eq!((finished.iterations, finished.tools_used), (1, typed_run.tools_used));

    let source = include_str!("../src/react.rs");
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    for line in code {
        for moves in ["loop ", "while ", ".next()", ".apply(", ".generate(", ".ask("] {
            assert!(!line.contains(moves), "{line}");
        }
    }
}

#[tokio::test]
async fn an_answer_in_prose_gets_a_request_for_finish() {
    let said = [Reply::text("It has two rooms."), finish("1", OUTPUT)];
    let (agent, _) = react::<Inspect>(said);
    let finished = act(&agent, inspect(), &soon()).await.unwrap();
    assert_eq!(finished.answer.people, Some(2));
    insta::assert_snapshot!(show(&finished.history[2..4]), @r"
    assistant: It has two rooms.
    user: Call the tool `finish` with the answer, or another tool if you still need one.
    ");
}

#[tokio::test]
async fn an_output_written_as_text_is_the_answer_if_it_fits_exactly() {
    let (agent, asked) = react::<Inspect>([Reply::text(format!("\n{OUTPUT}\n"))]);
    let finished = act(&agent, inspect(), &soon()).await.unwrap();
    assert_eq!((finished.answer.people, asked.requests().len()), (Some(2), 1));

    // These may be something else than the answer.
    for text in ["[]", "\"tidy\"", "{}", &format!("For example:\n{OUTPUT}"), r#"{"rooms": ["a"]}"#]
    {
        let (agent, asked) = react::<Inspect>([Reply::text(text), finish("1", OUTPUT)]);
        act(&agent, inspect(), &soon()).await.unwrap();
        assert_eq!(asked.requests().len(), 2, "{text}");
    }
}

#[tokio::test]
async fn finish_beside_other_calls_does_not_end_the_run() {
    let early = Reply::calls([
        crate::support::call("1", "look", "hall"),
        ToolCall::new("2", "finish", r#"{"rooms": [], "state": "tidy"}"#),
    ]);
    let (agent, _) = react::<Inspect>([early, finish("3", OUTPUT)]);
    let finished = act(&agent, inspect(), &soon()).await.unwrap();
    assert_eq!(finished.answer.rooms.len(), 2);
    assert_eq!(finished.tools_used, ["look"]);
    insta::assert_snapshot!(show(&finished.history[2..]), @r#"
    assistant: 1 look({"place":"hall"}) | 2 finish({"rooms": [], "state": "tidy"})
    tool 1: hall is empty
    tool 2 failed: Not yet: call `finish` alone, once you have seen the other results.
    assistant: 3 finish({"rooms": ["hall", "attic"], "state": "untidy", "people": 2})
    "#);
}

#[tokio::test]
async fn finish_repeated_in_one_reply_ends_the_run_only_with_equal_answers() {
    let twice = |second: &str| {
        Reply::calls([ToolCall::new("1", "finish", OUTPUT), ToolCall::new("2", "finish", second)])
    };
    let (agent, asked) = react::<Inspect>([twice(OUTPUT)]);
    let finished = act(&agent, inspect(), &soon()).await.unwrap();
    assert_eq!((finished.answer.people, asked.requests().len()), (Some(2), 1));
    let spaced = OUTPUT.replace(": ", ":\n  ");
    let (agent, asked) = react::<Inspect>([twice(&spaced)]);
    act(&agent, inspect(), &soon()).await.unwrap();
    assert_eq!(asked.requests().len(), 1, "the same answer in other spacing");
    // Each call gets a result if the history is continued.
    let (agent, asked) = crate::support::agent([look(), tidy()], [Reply::text("ok")]);
    let task = Task::new("Again.").with_history(finished.history);
    agent.run(task, &soon()).await.unwrap();
    let sent = asked.requests().remove(0).messages;
    insta::assert_snapshot!(show(&sent[3..]), @r"
    tool 1: Accepted.
    tool 2: Accepted.
    user: Again.
    ");

    let (agent, _) = react::<Inspect>([twice(r#"{"rooms": []}"#), finish("3", OUTPUT)]);
    let finished = act(&agent, inspect(), &soon()).await.unwrap();
    assert_eq!(finished.answer.people, Some(2));
    insta::assert_snapshot!(show(&finished.history[3..5]), @r"
    tool 1 failed: The calls of `finish` differ. Call `finish` once, with the whole answer.
    tool 2 failed: The calls of `finish` differ. Call `finish` once, with the whole answer.
    ");
}

#[tokio::test]
async fn an_output_that_does_not_fit_is_sent_back_with_its_faults() {
    let said = [
        finish("1", r#"{"rooms": "hall"}"#),
        finish("2", r#"{"rooms": [], "state": "on fire"}"#),
        finish("3", "The house is tidy."),
        finish("4", OUTPUT),
    ];
    let (agent, _) = react::<Inspect>(said);
    let finished = act(&agent, inspect(), &soon()).await.unwrap();
    assert_eq!((finished.answer.people, finished.iterations), (Some(2), 3));
    insta::assert_snapshot!(show(&finished.history[2..]));
}

#[tokio::test]
async fn a_cut_off_finish_is_requested_again() {
    let cut = finish("1", r#"{"rooms": ["hall", "att"#).with_finish(Finish::Length);
    let (agent, _) = react::<Inspect>([cut, finish("2", OUTPUT)]);
    let finished = act(&agent, inspect(), &soon()).await.unwrap();
    assert_eq!(finished.answer.rooms, ["hall", "attic"]);
    assert!(
        show(&finished.history)
            .contains("tool 1 failed: The call was cut off at the maximum length")
    );
}

#[tokio::test]
async fn a_typed_run_at_its_limit_fails_with_the_whole_run() {
    let said = (0..9).map(|n| {
        calls([(&*format!("a{n}"), "look", "hall"), (&*format!("b{n}"), "tidy", "hall")])
            .with_usage(Usage::new(1, 1))
    });
    let (agent, asked) =
        limited::<Inspect>(said, Limits { max_iterations: 3, ..Limits::default() });
    let error = act(&agent, inspect(), &soon()).await.unwrap_err();
    assert_eq!((error.stage(), error.audience()), (Stage::Limit, Audience::User));
    assert_eq!(error.usage(), Usage::new(3, 3));
    insta::assert_snapshot!(error, @"`inspect` has no output after 3 iterations; raise `max_iterations`, or look at its history for what it is missing");

    let unfinished: &Unfinished = error.downcast_ref().unwrap();
    assert_eq!(unfinished.finished.ending, Ending::LimitReached);
    assert_eq!((unfinished.name.as_str(), unfinished.finished.iterations), ("inspect", 3));
    assert_eq!(unfinished.finished.tools_used, ["look", "tidy"]);
    assert_eq!(unfinished.finished.history.len(), 2 + 3 * 3);
    // A last answer in prose would be useless, so it is not requested.
    assert_eq!(asked.requests().len(), 3);
}

#[tokio::test]
async fn a_rejected_output_counts_as_an_iteration() {
    let said = (0..9).map(|n| finish(&n.to_string(), "{}"));
    let (agent, asked) =
        limited::<Inspect>(said, Limits { max_iterations: 2, ..Limits::default() });
    let error = act(&agent, inspect(), &soon()).await.unwrap_err();
    assert_eq!(asked.requests().len(), 2);
    let unfinished: &Unfinished = error.downcast_ref().unwrap();
    let Message::Tool(last) = &**unfinished.finished.history.last().unwrap() else {
        panic!("no result")
    };
    assert!(last.failed && last.text.contains("$.rooms: this field is missing"), "{last:?}");
}

#[tokio::test]
async fn a_cut_off_answer_in_prose_fails_with_its_own_advice() {
    let cut = Reply::text("The house has").with_finish(Finish::Length);
    let (agent, _) = react::<Inspect>([cut]);
    let error = act(&agent, inspect(), &soon()).await.unwrap_err();
    assert_eq!((error.stage(), error.raw()), (Stage::Limit, Some("The house has")));
    insta::assert_snapshot!(error, @"`inspect` has no output after 0 iterations; its answer was cut off: raise the maximum with `Settings::with_max_output_tokens`");
}

#[tokio::test]
async fn a_refusal_of_a_typed_run_is_an_error() {
    let (agent, _) = react::<Inspect>([Reply::text("No.").with_finish(Finish::Refused)]);
    let error = act(&agent, inspect(), &soon()).await.unwrap_err();
    assert_eq!((error.stage(), error.raw()), (Stage::Provider, Some("No.")));
}

/// List the rooms of a house.
#[derive(Serialize, Deserialize, JsonSchema)]
struct ListRooms {}

impl Signature for ListRooms {
    type Output = Vec<String>;
}

/// Describe a house.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Describe {}

impl Signature for Describe {
    type Output = String;
}

#[tokio::test]
async fn an_output_that_is_not_an_object_is_requested_as_one() {
    let (agent, asked) = react::<ListRooms>([finish("1", r#"{"result": ["hall"]}"#)]);
    assert_eq!(agent.call(ListRooms {}, &Context::default()).await.unwrap(), ["hall"]);
    let finish_tool = asked.requests()[0].tools.last().unwrap().clone();
    insta::assert_snapshot!(finish_tool.input(), @r#"{"type":"object","properties":{"result":{"type":"array","items":{"type":"string"}}},"required":["result"]}"#);

    let (agent, _) = react::<Describe>([finish("1", r#"{"result": "Tidy."}"#)]);
    assert_eq!(agent.call(Describe {}, &Context::default()).await.unwrap(), "Tidy.");
}

#[tokio::test]
async fn a_typed_agent_is_an_ordinary_module_and_tool() {
    let (agent, _) = react::<Describe>([finish("1", r#"{"result": "Tidy."}"#)]);
    assert_eq!(agent.effect(), Effect::Write);
    let tool = Tool::new(agent).unwrap();
    assert_eq!(tool.contract().name(), "describe");
    assert_eq!(tool.call("{}", &soon()).await.unwrap().text, "Tidy.");
}

#[tokio::test]
async fn an_unfinished_typed_agent_is_an_ordinary_error_of_its_caller() {
    let (inner, _) = react::<Describe>((0..10).map(|_| Reply::text("Hm.")));
    let ask = Reply::calls([ToolCall::new("1", "describe", "{}")]);
    let (outer, _) = crate::support::agent([Tool::new(inner).unwrap()], [ask, Reply::text("ok")]);
    let finished = crate::support::run(&outer).await;
    insta::assert_snapshot!(show(&finished.history[2..3]), @"tool 1 failed: The tool failed. The reason is not shown to you.");
}

#[tokio::test]
async fn a_failed_run_can_be_continued() {
    let (agent, _) = react::<Describe>([finish("1", r#"{"result": "Tidy."}"#)]);
    let broken = Scripted::new(|_| Err(toolwright_module::Error::other("connection lost")));
    let broken = crate::support::react::<Describe>(broken, [look(), tidy()]).unwrap();
    let mut run = start(&broken, &Describe {});
    broken.agent().drive(&mut run, &soon()).await.unwrap_err();
    assert_eq!(agent.agent().drive(&mut run, &soon()).await.unwrap().answer, "Tidy.");
}

#[tokio::test]
async fn sample_data_passes_through_a_typed_run() {
    let agent =
        crate::support::react::<Inspect>(SchemaDriven::default(), [look(), tidy()]).unwrap();
    let finished = act(&agent, inspect(), &soon()).await.unwrap();
    assert_eq!(finished.tools_used, ["look", "tidy"]);
    assert_eq!(finished.answer.state, State::Tidy);
}

#[test]
fn schema_rules_without_a_guarantee_are_listed_at_construction() {
    /// Fetch whatever there is.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Fetch {}

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Anything {
        found: serde_json::Value,
    }

    impl Signature for Fetch {
        type Output = Anything;
    }

    let strict = Scripted::new(|_| Ok(Reply::text("")))
        .with_capabilities(Capabilities::new(Dialect::OpenAiStrict));
    let agent = crate::support::react::<Fetch>(strict, []).unwrap();
    let (tool, loss) = &agent.agent().losses()[0];
    assert_eq!((&**tool, &*loss.path, &*loss.keyword), ("finish", "$.found", "strict"));
}

/// Inspect a house, as it was asked for in an earlier version.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Inspect")]
struct InspectBefore {
    address: String,
}

impl Signature for InspectBefore {
    type Output = Vec<String>;
}

#[tokio::test]
async fn a_run_with_another_output_is_rejected() {
    let (before, _) = react::<InspectBefore>([]);
    let mut run = start(&before, &InspectBefore { address: "Elm Street 1".to_owned() });
    let (now, asked) = react::<Inspect>([]);
    let error = now.agent().drive(&mut run, &soon()).await.unwrap_err();
    insta::assert_snapshot!(error, @"the run does not end with the current answer of the type `inspect`; if an agent with this type started it, resume it with `Agent::resume`; otherwise use the agent that started it");
    assert!(asked.requests().is_empty());
}

#[tokio::test]
async fn a_typed_agent_has_the_settings_of_an_agent() {
    let (model, asked) = replies([finish("1", OUTPUT)]);
    let house = House { rooms: vec!["hall".to_owned()], state: State::Tidy, people: None };
    let agent = Agent::new(model, [look(), tidy()])
        .unwrap()
        .with_instructions("Be brief.")
        .with_name("inspector")
        .with_streaming(false)
        .with_filter(|_, tool, _| tool.effect() == Effect::Read)
        .unwrap();
    let react = ReAct::<Inspect>::new(agent).unwrap();
    let react = react.with_examples([Example::new(inspect(), house)]).unwrap();
    let mut stream = react.agent().stream(react.task(&inspect()).unwrap(), &soon());
    let (mut names, mut answer) = (Vec::new(), None);
    while let Some(progress) = stream.next().await {
        match progress.unwrap() {
            Progress::Event(event) => match event.kind {
                EventKind::Started { agent, .. } => names.push(agent),
                EventKind::TextDelta { .. } => panic!("not streamed"),
                _ => {}
            },
            Progress::Finished(finished) => answer = Some(finished.answer),
            _ => {}
        }
    }
    assert_eq!((names, answer.unwrap().people), (vec!["inspector".to_owned()], Some(2)));
    let request = &asked.requests()[0];
    let tools: Vec<&str> = request.tools.iter().map(|tool| tool.name()).collect();
    assert_eq!(tools, ["look", "finish"]);
    insta::assert_snapshot!(show(&request.messages));
}

/// Rate a hotel.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Rate {}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Rating {
    #[schemars(range(min = 1, max = 5))]
    stars: u8,
}

impl Signature for Rate {
    type Output = Rating;
}

#[test]
fn an_example_that_does_not_fit_is_rejected() {
    let (agent, _) = react::<Rate>([]);
    let error = agent.with_examples([Example::new(Rate {}, Rating { stars: 6 })]).unwrap_err();
    insta::assert_snapshot!(error, @"output of `rate` does not fit: $.stars: expected an integer from 1 to 5, got the number 6");
}

#[tokio::test]
async fn an_agent_can_have_another_model() {
    let (untyped, _) = crate::support::agent([look()], []);
    let (model, _) = replies([Reply::text("ok")]);
    let untyped = untyped.with_model(model).unwrap();
    assert_eq!(untyped.run("Go.", &soon()).await.unwrap().answer, "ok");

    // A model that lacks a setting of the agent, and one whose provider takes fewer tools.
    let settings = toolwright_module::model::Settings::default().with_seed(7);
    let seeded = untyped.with_settings(settings).unwrap();
    let plain =
        Capabilities { settings: SettingSet::NONE, ..Capabilities::new(Dialect::JsonSchema2020) };
    let plain = Scripted::new(|_| Ok(Reply::text(""))).with_capabilities(plain);
    assert!(matches!(seeded.with_model(plain).unwrap_err(), RunError::Setting(_)));
}
