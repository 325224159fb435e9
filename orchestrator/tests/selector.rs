//! Tools chosen by JSON selections.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_module::error::Stage;
use toolwright_module::message::ReplyPart;
use toolwright_module::model::{Finish, ToolChoice};
use toolwright_module::testing::SchemaDriven;
use toolwright_module::{
    Dialect, Effect, LanguageModel, Message, Policy, Reply, Signature, Tool, ToolCall,
};
use toolwright_orchestrator::{
    Agent, Choosing, Ending, Finished, Limits, ReAct, Run, RunState, StepKind, StepResult,
};

use crate::support::{Asked, Look, act, look, replies, run, show, soon, tidy, tool};

fn call(tool: &str, place: &str) -> Reply {
    let input = json!({ "place": place });
    let selection = json!({"action": "call_tool", "tool_name": tool, "tool_input": input});
    Reply::text(json!({ "selection": selection }).to_string())
}

fn finish() -> Reply {
    Reply::text(r#"{"selection": {"action": "finish"}}"#)
}

fn agent(said: impl IntoIterator<Item = Reply>) -> (Agent, Asked) {
    let (model, asked) = replies(said);
    let agent = Agent::new(model, [look(), tidy()]).unwrap();
    (agent.with_choosing(Choosing::Selector).unwrap(), asked)
}

#[tokio::test]
async fn a_selection_prompt_has_task_tools_and_history() {
    let (agent, asked) = agent([call("look", "hall"), finish(), Reply::text("It is empty.")]);
    let finished = run(&agent.with_instructions("Be brief.")).await;
    assert_eq!((finished.answer.as_str(), finished.ending), ("It is empty.", Ending::Answered));
    assert_eq!((finished.iterations, &finished.tools_used[..]), (1, &["look".to_owned()][..]));

    let requests = asked.requests();
    // The first request, and then only the messages that each request adds.
    insta::assert_snapshot!(show(&requests[0].messages));
    for two in requests.windows(2) {
        let before = two[0].messages.len();
        assert_eq!(two[1].messages[..before], two[0].messages[..]);
    }
    insta::assert_snapshot!(show(&requests[2].messages[2..]), @r#"
    assistant: {"selection":{"action":"call_tool","tool_name":"look","tool_input":{"place":"hall"}}}
    user: `look` answered:
    hall is empty

    Answer with the next call, or finish if the task is done.
    assistant: {"selection": {"action": "finish"}}
    user: Now tell the user in one sentence or more what was done, and what the answer is.
    "#);
    // The requests have no tools, but an output schema with the input of each tool.
    let output = requests[0].output.as_ref().unwrap();
    insta::assert_json_snapshot!(output.output_to_read().unwrap());
    assert!(requests.iter().all(|request| request.tools.is_empty()));
    assert!(requests[1].output.is_some() && requests[2].output.is_none());
    assert_eq!(requests[2].tool_choice, ToolChoice::Auto);

    // The stored history has the form of native calls.
    insta::assert_snapshot!(show(&finished.history), @r#"
    system: Be brief.
    user: Look after the house.
    assistant: call_0_0 look({"place":"hall"})
    tool call_0_0: hall is empty
    assistant: {"selection": {"action": "finish"}}
    user: Now tell the user in one sentence or more what was done, and what the answer is.
    assistant: It is empty.
    "#);
}

/// No request follows the final answer, so the last tool is not called.
#[tokio::test]
async fn finish_ends_the_loop() {
    let (agent, asked) =
        agent([call("look", "hall"), finish(), Reply::text("Empty."), call("tidy", "hall")]);
    let finished = run(&agent).await;
    assert_eq!((finished.answer.as_str(), finished.ending), ("Empty.", Ending::Answered));
    // A selection, `finish`, and the answer, which has no output schema.
    let asked = asked.requests();
    let selects: Vec<bool> = asked.iter().map(|request| request.output.is_some()).collect();
    assert_eq!(selects, [true, true, false]);
    assert_eq!((finished.iterations, &finished.tools_used[..]), (1, &["look".to_owned()][..]));

    // A typed run ends with the input of `finish`, without another request.
    let output = json!({"clean": true, "remarks": []});
    let selection = json!({"selection": {"action": "finish", "tool_input": output}});
    let (model, asked) = replies([Reply::text(selection.to_string()), call("tidy", "hall")]);
    let typed = selecting(model, [look(), tidy()]);
    let finished = act(&typed, Judge { room: "hall".to_owned() }, &soon()).await.unwrap();
    assert_eq!((asked.requests().len(), finished.tools_used.len()), (1, 0));
    assert!(finished.answer.clean);
}

#[tokio::test]
async fn the_selectors_schema_lowers_for_every_provider() {
    let (agent, asked) = agent([finish(), Reply::text("ok")]);
    run(&agent).await;
    let requests = asked.requests();
    let output = requests[0].output.as_ref().unwrap();
    for dialect in Dialect::ALL {
        output.lower_output(dialect).unwrap();
    }
    insta::assert_snapshot!(output.lower_output(Dialect::OpenAiStrict).unwrap().schema.get());
}

#[tokio::test]
async fn a_wrong_selection_is_sent_back_with_its_faults() {
    let said = [
        Reply::text("I think I will look into the hall."),
        Reply::text(""),
        Reply::text(r#"{"selection": {"action": "dance"}}"#),
        call("sweep", "hall"),
        Reply::text(
            r#"{"selection": {"action": "call_tool", "tool_name": "look", "tool_input": {"room": 5}}}"#,
        ),
        Reply::text(r#"{"selection": {"action": "call_tool", "tool_na"#)
            .with_finish(Finish::Length),
        // A code fence and a trailing comma are repaired.
        Reply::text(
            "```json\n{\"selection\": {\"action\": \"call_tool\", \"tool_name\": \"look\", \"tool_input\": {\"place\": \"hall\"},}}\n```",
        ),
        finish(),
        Reply::text("ok"),
    ];
    let (agent, _) = agent(said);
    let finished = run(&agent).await;
    insta::assert_snapshot!(show(&finished.history));
    assert_eq!((finished.answer.as_str(), finished.iterations), ("ok", 7));
    assert_eq!(finished.tools_used, ["look"]);
}

/// Runs an agent whose model answers with this text first.
async fn selects(said: &str) -> (Finished, Asked) {
    let (agent, asked) = agent([Reply::text(said), finish(), Reply::text("ok")]);
    (run(&agent).await, asked)
}

#[tokio::test]
async fn a_selection_is_read_in_every_known_form() {
    for said in [
        r#"{"selection": {"action": "call_tool", "tool_name": "look", "action_input": {"place": "hall"}}}"#,
        r#"{"selection": {"action": "call_tool", "tool_name": "look", "arguments": {"place": "hall"}}}"#,
        r#"{"selection": {"action": "call_tool", "tool_name": "look", "input": {"place": "hall"}}}"#,
        r#"{"selection": {"action": "call_tool", "tool_name": "look", "parameters": {"place": "hall"}}}"#,
        r#"{"selection": {"action": "call_tool", "tool_name": "look", "tool_input": null, "input": {"place": "hall"}}}"#,
        r#"{"selection": "{\"action\": \"call_tool\", \"tool_name\": \"look\", \"tool_input\": {\"place\": \"hall\"}}"}"#,
        // The form of the ADR, without the outer object.
        r#"{"action": "call_tool", "tool_name": "look", "tool_input": {"place": "hall"}}"#,
        r#"{"action": "use_tool", "tool_name": "look", "tool_input": {"place": "hall"}}"#,
        r#"{"tool_name": "look", "tool_input": {"place": "hall"}}"#,
        // The step of a ReAct prompt.
        r#"{"thought": "I need to look.", "action": "look", "action_input": {"place": "hall"}}"#,
        r#"{"thought": "I need to look.", "action": "Look", "action_input": {"place": "hall"}}"#,
        r#"{"action": "look", "tool_name": "look", "tool_input": {"place": "hall"}}"#,
        // A native call as text.
        r#"{"name": "look", "arguments": {"place": "hall"}}"#,
        r#"{"type": "function", "id": "1", "name": "look", "arguments": "{\"place\": \"hall\"}"}"#,
        r#"{"toolName": "look", "toolInput": {"place": "hall"}, "note": null}"#,
        "Here:\n```json\n{'action': 'look', 'action_input': {'place': 'hall'}}\n```",
    ] {
        let (finished, _) = selects(said).await;
        assert_eq!(finished.tools_used, ["look"], "{said}\n{}", show(&finished.history));
        let calls: Vec<&ToolCall> =
            finished.history.iter().flat_map(|said| calls_of(said)).collect();
        let [call] = calls[..] else { panic!("{said}") };
        let arguments: serde_json::Value = serde_json::from_str(&call.arguments).unwrap();
        assert_eq!(arguments, json!({"place": "hall"}), "{said}");
        assert!(show(&finished.history).contains("hall is empty"), "{said}");
        // The repairs of any other form are listed, with the original text.
        assert_eq!(finished.repaired[0].call.arguments, said);
        assert!(!finished.repaired[0].repairs.is_empty());
    }
    let (finished, _) = selects(&call("look", "hall").to_text()).await;
    assert!(finished.repaired.is_empty());
}

fn calls_of(message: &Message) -> Vec<&ToolCall> {
    let Message::Assistant { parts } = message else { return Vec::new() };
    let calls = parts.iter().filter_map(|part| match part {
        ReplyPart::Call(call) => Some(call),
        _ => None,
    });
    calls.collect()
}

#[tokio::test]
async fn unknown_fields_of_a_selection_are_reported_and_not_dropped() {
    let mut reported = Vec::new();
    for said in [
        r#"{"selection": {"action": "call_tool", "tool_name": "look", "place": "hall"}}"#,
        r#"{"action": "look", "place": "hall"}"#,
        r#"{"action": "call_tool", "tool_name": "look", "tool_inputs": {"place": "hall"}}"#,
        r#"{"selection": {"action": "call_tool", "tool_name": "look"}, "tool_input": {"place": "hall"}}"#,
        r#"{"action": "look", "tool_input": {"place": "a"}, "arguments": {"place": "b"}}"#,
        r#"{"action": "look", "tool_name": "tidy", "tool_input": {"place": "a"}}"#,
        r#"{"action": "dance", "tool_name": "look", "tool_input": {"place": "a"}}"#,
        r#"{"action": "finish", "tool_name": "tidy", "tool_input": {"place": "a"}}"#,
        r#"{"action": "look", "action_input": {"place": "a"}, "final_answer": "It is empty."}"#,
        r#"{"type": "function", "function": {"name": "look", "arguments": {"place": "hall"}}}"#,
        r#"{"tool_calls": [{"name": "look", "arguments": {"place": "hall"}}]}"#,
        r#"{"action": "call_tool", "tool_input": {"place": "a"}, "tool_input": {"place": "b"}}"#,
        r#"{"action": "call_tool", "tool_input": {"place": "a"}}"#,
        r#"{"action": ["look"]}"#,
        r#"{"selection": ["look"]}"#,
        "{}",
        r#"["look"]"#,
    ] {
        let (finished, _) = selects(said).await;
        assert!(finished.tools_used.is_empty(), "{said}");
        let answer = show(&finished.history[2..3]);
        let answer = answer.strip_prefix("user: That is not a valid selection: ").expect(said);
        let rest = " Answer with one JSON object as described above, and nothing else.";
        reported.push(format!("{said}\n  {}", answer.trim_end().strip_suffix(rest).expect(said)));
    }
    insta::assert_snapshot!(reported.join("\n"));
    // The run lists the existing tools for an unknown one. A tool reports the faults of its
    // arguments.
    let (finished, _) = selects(r#"{"action": "sweep", "action_input": {"place": "hall"}}"#).await;
    assert!(
        show(&finished.history).contains("There is no tool `sweep`. The tools are: look, tidy.")
    );
    let (finished, _) = selects(r#"{"action": "look", "action_input": ["hall"]}"#).await;
    assert!(show(&finished.history).contains("input of `look` does not fit: $"));
}

#[tokio::test]
async fn a_call_with_words_after_it_is_not_made() {
    let call = call("look", "hall").to_text();
    for said in [
        format!("I could do {call} but I will not."),
        format!("For example: {call}\n\nBut first, which prefix?"),
        format!("```json\n{call}\n```\nShall I?"),
    ] {
        let (finished, _) = selects(&said).await;
        assert!(finished.tools_used.is_empty(), "{said}");
        assert!(show(&finished.history).contains("there is text after it"), "{said}");
    }
    for said in [format!("I look around: {call}"), format!("<answer>{call}</answer>.")] {
        assert_eq!(selects(&said).await.0.tools_used, ["look"], "{said}");
    }
    // The end of a run is not a call.
    let finish = r#"{"selection": {"action": "finish"}} I am done."#;
    assert_eq!(selects(finish).await.0.ending, Ending::Answered);
}

#[tokio::test]
async fn the_thought_of_a_selection_is_stored_but_not_sent_back() {
    let said =
        r#"{"thought": "I look.", "action": "look", "action_input": {"place": "hall", "n": 1.10}}"#;
    let (finished, asked) = selects(said).await;
    insta::assert_snapshot!(show(&finished.history[1..3]), @r#"
    assistant: I look. | call_0_1 look({"place":"hall"})
    tool call_0_1: hall is empty
    "#);
    insta::assert_snapshot!(show(&asked.requests()[1].messages[2..3]), @r#"assistant: {"selection":{"action":"call_tool","tool_name":"look","tool_input":{"place":"hall"}}}"#);
}

#[tokio::test]
async fn a_duplicate_field_of_a_selection_is_a_mistake() {
    let said = r#"{"selection": "{\"action\":\"call_tool\",\"tool_name\":\"look\",\"tool_input\":{\"place\":\"hall\"},\"tool_input\":{\"place\":\"attic\"}}"}"#;
    let (finished, _) = selects(said).await;
    let shown = show(&finished.history);
    assert!(!shown.contains("is empty"), "{shown}");
    assert!(shown.contains("twice"), "{shown}");
}

fn selecting(model: impl LanguageModel, tools: impl IntoIterator<Item = Tool>) -> ReAct<Judge> {
    let agent = Agent::new(model, tools).unwrap();
    ReAct::new(agent.with_choosing(Choosing::Selector).unwrap()).unwrap()
}

#[tokio::test]
async fn a_typed_run_finishes_in_every_form_too() {
    for said in [
        r#"{"action": "finish", "tool_input": {"clean": true, "remarks": []}}"#,
        r#"{"action": "finish", "final_answer": {"clean": true, "remarks": []}}"#,
        r#"{"thought": "Done.", "action": "Finish", "action_input": {"clean": true, "remarks": []}}"#,
        r#"{"tool_name": "finish", "arguments": {"clean": "true", "remarks": []}}"#,
    ] {
        let (model, _) = replies([Reply::text(said)]);
        let agent = selecting(model, [look()]);
        let finished = act(&agent, Judge { room: "hall".to_owned() }, &soon()).await.unwrap();
        assert_eq!(finished.answer, Judgement { clean: true, remarks: vec![] }, "{said}");
        assert_eq!(finished.repaired[0].call.name, "finish");
    }
}

#[tokio::test]
async fn the_policy_applies_to_selections() {
    let exact = call("look", "hall").to_text();
    let flat = r#"{"action": "call_tool", "tool_name": "look", "tool_input": {"place": "hall"}}"#;
    let fenced = format!("```json\n{exact}\n```");
    let coerced = r#"{"selection": {"action": "CALL_TOOL", "tool_name": "look", "tool_input": {"place": "hall"}}}"#;
    for (policy, read) in [
        (Policy::Exact, [true, false, false, false]),
        (Policy::Strict, [true, false, false, false]),
        (Policy::Repair, [true, true, true, false]),
        (Policy::Coerce, [true, true, true, true]),
    ] {
        for (said, read) in [&exact, flat, &fenced, coerced].into_iter().zip(read) {
            let (agent, _) = agent([Reply::text(said), finish(), Reply::text("ok")]);
            let finished = run(&agent.with_policy(policy)).await;
            assert_eq!(finished.tools_used.len(), usize::from(read), "{policy:?} {said}");
            let (model, _) = replies([Reply::text(said), finish(), Reply::text("ok")]);
            let agent = Agent::new(model, [look().with_policy(policy)]).unwrap();
            let finished = run(&agent.with_choosing(Choosing::Selector).unwrap()).await;
            assert_eq!(finished.tools_used.len(), usize::from(read), "{policy:?} {said}");
        }
    }
}

#[tokio::test]
async fn the_selector_lists_tools_in_the_form_of_mcp() {
    let (_, asked) = selects(&finish().to_text()).await;
    let first = show(&asked.requests()[0].messages[..1]);
    let tools: Vec<serde_json::Value> =
        first.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let tools: Vec<_> = tools.into_iter().filter(|tool| tool.get("name").is_some()).collect();
    for (tool, shown) in [look(), tidy()].iter().zip(&tools) {
        let mut mcp = tool.contract().tool(Dialect::Mcp).unwrap();
        mcp.as_object_mut().unwrap().retain(|key, _| shown.get(key).is_some());
        assert_eq!(*shown, mcp);
        let keys: Vec<&String> = shown.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["name", "description", "inputSchema"]);
    }
    assert_eq!(tools.len(), 2);
}

#[tokio::test]
async fn native_calls_beside_a_selection_are_not_made() {
    let calling = Reply::calls([ToolCall::new("1", "tidy", r#"{"place": "hall"}"#)]);
    let (agent, _) = agent([calling, finish(), Reply::text("ok")]);
    let finished = run(&agent).await;
    assert!(finished.tools_used.is_empty());
    insta::assert_snapshot!(show(&finished.history[1..]), @r#"
    user: Your answer was empty. Answer with one JSON object as described above, and nothing else.
    assistant: {"selection": {"action": "finish"}}
    user: Now tell the user in one sentence or more what was done, and what the answer is.
    assistant: ok
    "#);
}

#[tokio::test]
async fn a_missing_final_answer_is_requested_again() {
    let (agent, _) = agent([finish(), Reply::text(" "), finish(), Reply::text("At last.")]);
    assert_eq!(run(&agent).await.answer, "At last.");
    let odd = finish().with_finish(Finish::Other("odd".to_owned()));
    let (agent, _) = self::agent([odd]);
    assert!(agent.run("Go.", &soon()).await.unwrap_err().to_string().contains("\"odd\""));
    let odd = Reply::text("At la").with_finish(Finish::Other("odd".to_owned()));
    let (agent, _) = self::agent([finish(), odd]);
    assert!(agent.run("Go.", &soon()).await.unwrap_err().to_string().contains("\"odd\""));
    let refused = Reply::text("No.").with_finish(Finish::Refused);
    let (agent, _) = self::agent([refused]);
    let error = agent.run("Go.", &soon()).await.unwrap_err();
    assert_eq!((error.stage(), error.raw()), (Stage::Provider, Some("No.")));
}

#[tokio::test]
async fn at_the_limit_a_selecting_model_gives_a_last_answer() {
    let (agent, asked) = agent([call("look", "a"), Reply::text("Perhaps.")]);
    let finished = run(&agent.with_limits(Limits { max_iterations: 1, ..Limits::default() })).await;
    assert_eq!((finished.answer.as_str(), finished.ending), ("Perhaps.", Ending::LimitReached));
    assert!(asked.requests()[1].output.is_none());
}

/// Judge a room.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Judge {
    room: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Judgement {
    clean: bool,
    remarks: Vec<String>,
}

impl Signature for Judge {
    type Output = Judgement;
}

#[tokio::test]
async fn a_typed_run_ends_with_the_input_of_finish() {
    let said = [
        call("look", "hall"),
        Reply::text(r#"{"selection": {"action": "finish", "tool_input": {"clean": "maybe"}}}"#),
        Reply::text(
            r#"{"selection": {"action": "finish", "tool_input": {"clean": true, "remarks": []}}}"#,
        ),
    ];
    let (model, asked) = replies(said);
    let agent = selecting(model, [look()]);
    let finished = act(&agent, Judge { room: "hall".to_owned() }, &soon()).await.unwrap();
    assert_eq!(finished.answer, Judgement { clean: true, remarks: vec![] });
    insta::assert_snapshot!(show(&asked.requests()[2].messages));
}

#[tokio::test]
async fn a_schema_driven_model_makes_valid_selections() {
    let agent = Agent::new(SchemaDriven::default(), [look(), tidy()]).unwrap();
    let agent = agent.with_choosing(Choosing::Selector).unwrap();
    let limits = Limits { max_iterations: 2, max_same_failures: 9, ..Limits::default() };
    let finished = run(&agent.with_limits(limits)).await;
    assert_eq!(finished.tools_used, ["look"]);
}

#[test]
fn a_stored_selecting_run_continues_with_equal_requests() {
    let tools = [look(), tidy()];
    let begin = || {
        let run = Run::new("Go.", &tools, Limits::default()).unwrap();
        run.with_choosing(Choosing::Selector).unwrap().with_instructions("Be brief.")
    };
    let script = [call("look", "a"), call("tidy", "b"), finish(), Reply::text("ok")];
    let requests = |stored: bool| {
        let (mut run, mut replies, mut asked) = (begin(), script.iter(), Vec::new());
        loop {
            if stored {
                let text = serde_json::to_string(&run).unwrap();
                let state: RunState = serde_json::from_str(&text).unwrap();
                run = Run::resume(state, &tools).unwrap().run;
            }
            let step = run.next();
            let answer = match step.kind {
                StepKind::CallModel(request) => {
                    asked.push(serde_json::to_string(&request).unwrap());
                    StepResult::model(step.number, replies.next().unwrap().clone())
                }
                StepKind::CallTools(calls) => StepResult::tools(
                    step.number,
                    calls
                        .iter()
                        .map(|call| toolwright_module::message::ToolResult::new(call, "done")),
                ),
                _ => return asked,
            };
            run.apply(answer).unwrap();
        }
    };
    assert_eq!(requests(true), requests(false));
}

#[test]
fn the_schema_of_a_selection_supports_recursive_inputs() {
    /// Draw a tree.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Draw {
        tree: Tree,
    }
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Tree {
        branches: Vec<Tree>,
    }
    impl Signature for Draw {
        type Output = String;
    }
    let draw = toolwright_module::from_fn(async |_: Draw| Ok(String::new()));
    let draw = toolwright_module::Tool::new(draw).unwrap();
    let other = tool("look", Effect::Read, async |_: Look| Ok(String::new()));
    let run = Run::new("Go.", &[other, draw], Limits::default()).unwrap();
    let run = run.with_choosing(Choosing::Selector).unwrap();
    let StepKind::CallModel(request) = run.next().kind else { panic!("no question") };
    let output: Arc<_> = request.output.unwrap();
    for dialect in [Dialect::JsonSchema2020, Dialect::OpenAiStrict, Dialect::Mcp] {
        output.lower_output(dialect).unwrap();
    }
}
