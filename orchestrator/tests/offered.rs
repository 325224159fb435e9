//! The tools of an agent, and their form in requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_module::model::{Capabilities, Fallback};
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Contract, Dialect, Effect, LanguageModel, Reply, Signature, Tool, ToolCall, ToolOutput,
};
use toolwright_orchestrator::{Agent, Choosing, RunError as SetupError, Task};

use crate::support::{look, react, replies, run, tidy};

fn model(dialect: Dialect) -> impl LanguageModel {
    let capabilities = Capabilities { tools: true, ..Capabilities::new(dialect) };
    Scripted::new(|_| Ok(Reply::text("Done."))).with_capabilities(capabilities)
}

fn taking(name: &str, input: Value) -> Tool {
    let contract = Contract::dynamic(name, "", input, None).unwrap();
    Tool::dynamic(contract, Effect::Read, |text, _| async move { Ok(ToolOutput::text_only(text)) })
}

/// Tools with schemas that some strict dialect does not support.
fn awkward() -> Vec<Tool> {
    let tree = json!({"$ref": "#/$defs/tree"});
    let node = json!({"type": "object", "properties": {"below": {"type": "array", "items": tree}}});
    let property =
        |name: &str, schema: Value| json!({"type": "object", "properties": {name: schema}});
    vec![
        taking("anything", property("value", json!({}))),
        taking("free_form", property("value", json!({"type": "object"}))),
        taking(
            "recursive",
            json!({"type": "object", "properties": {"tree": tree}, "$defs": {"tree": node}}),
        ),
        taking("odd_name", property("filter[id]", json!({"type": "string"}))),
        taking("plain", property("value", json!({"type": "string"}))),
    ]
}

#[tokio::test]
async fn any_tool_can_be_offered_and_its_losses_are_listed() {
    for dialect in Dialect::ALL {
        for choosing in [Choosing::Calls, Choosing::Selector] {
            let agent = Agent::new(model(dialect), awkward()).unwrap();
            let agent = agent.with_choosing(choosing).unwrap();
            let losses = agent.losses();
            let mut loose: Vec<&str> = losses
                .iter()
                .filter(|(_, loss)| loss.keyword == "strict")
                .map(|(tool, _)| tool.as_str())
                .collect();
            loose.dedup();
            let expected: &[&str] = match (dialect, choosing) {
                (Dialect::OpenAiStrict | Dialect::Anthropic, Choosing::Selector) => {
                    &["select_tool"]
                }
                (Dialect::OpenAiStrict, _) => &["anything", "free_form"],
                (Dialect::Anthropic, _) => &["anything", "free_form", "recursive", "odd_name"],
                _ => &[],
            };
            assert_eq!(loose, expected, "{dialect}, {choosing:?}");
        }
    }
}

/// Returns the number of tools that an agent defers because there are too many.
fn deferred<O: Send + Sync + 'static>(agent: &Agent<O>) -> usize {
    agent.losses().iter().filter(|(_, loss)| loss.keyword == "tools").count()
}

#[test]
fn an_agent_with_too_many_tools_defers_them() {
    let tools = |count: usize| -> Vec<Tool> {
        (0..count).map(|i| look().named(&format!("look_{i}")).unwrap()).collect()
    };
    let new = |dialect, count| deferred(&Agent::new(model(dialect), tools(count)).unwrap());
    assert_eq!(new(Dialect::OpenAiLoose, 128), 0);
    assert_eq!(new(Dialect::JsonSchema2020, 1_000), 0);
    assert_eq!(new(Dialect::OpenAiLoose, 129), 129 - 16);

    // The last one is `finish`.
    let react = |count| {
        let react = react::<Task>(model(Dialect::OpenAiStrict), tools(count)).unwrap();
        deferred(react.agent())
    };
    assert_eq!([react(127), react(128)], [0, 128 - 16]);
}

#[test]
fn strict_tools_are_chosen_for_the_whole_request_and_the_others_listed() {
    let tools: Vec<Tool> = (0..25).map(|i| look().named(&format!("look_{i}")).unwrap()).collect();
    let agent = Agent::new(model(Dialect::Anthropic), tools).unwrap();
    let loose: Vec<String> = agent.losses().into_iter().map(|(tool, _)| tool).collect();
    assert_eq!(loose, ["look_20", "look_21", "look_22", "look_23", "look_24"]);
}

/// End the task.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Finish {
    place: String,
}

impl Signature for Finish {
    type Output = String;
}

fn finish() -> Tool {
    look().named("finish").unwrap()
}

#[tokio::test]
async fn a_tool_named_finish_is_ordinary_in_an_untyped_run() {
    let call = || Reply::calls([ToolCall::new("1", "finish", r#"{"place": "hall"}"#)]);
    let (model, asked) = replies([call(), Reply::text("Done.")]);
    let agent = Agent::new(model, [finish(), tidy()]).unwrap();
    let finished = run(&agent).await;
    assert_eq!(
        (finished.answer.as_str(), &*finished.tools_used),
        ("Done.", &["finish".to_owned()][..])
    );
    assert_eq!(asked.requests()[0].tools[0].name(), "finish");

    let selects = r#"{"selection": {"action": "call_tool", "tool_name": "finish", "tool_input": {"place": "hall"}}}"#;
    let ends = r#"{"selection": {"action": "finish"}}"#;
    let (model, _) = replies([selects, ends, "Done."].map(Reply::text));
    let agent = Agent::new(model, [finish(), tidy()]).unwrap();
    let finished = run(&agent.with_choosing(Choosing::Selector).unwrap()).await;
    assert_eq!(
        (finished.answer.as_str(), &*finished.tools_used),
        ("Done.", &["finish".to_owned()][..])
    );
}

#[test]
fn a_typed_run_reserves_the_name_finish() {
    let error = react::<Task>(model(Dialect::OpenAiLoose), [finish()]).unwrap_err();
    assert!(matches!(error, SetupError::ReservedTool), "{error:?}");
    let agent = Agent::new(model(Dialect::OpenAiLoose), [finish()]).unwrap();
    let output = Contract::of::<Finish>().unwrap();
    let error = agent.start("Tidy up.").unwrap().with_output(output.into()).unwrap_err();
    assert!(matches!(error, SetupError::ReservedTool), "{error:?}");
}

#[test]
fn a_fallback_is_checked_in_the_dialect_of_each_model() {
    let tools: Vec<Tool> = (0..200).map(|i| look().named(&format!("look_{i}")).unwrap()).collect();
    let agent = |dialects: [Dialect; 2]| {
        let [first, second] = dialects.map(model);
        Agent::new(Fallback::new(first).or(second), tools.clone())
    };
    let deferred = |dialects| deferred(&agent(dialects).unwrap());
    assert_eq!(deferred([Dialect::Anthropic, Dialect::Gemini]), 0);
    assert_eq!(deferred([Dialect::Anthropic, Dialect::OpenAiStrict]), 200 - 16);
}
