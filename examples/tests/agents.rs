//! Agents with a real toolset, on models of the test bench.

use crate::search;
use crate::tasks;
use std::sync::{Arc, Mutex};
use toolwright_module::model::Settings;

use crate::search::{
    ApiSearch, Document, Index, LlmSearch, SearchDocuments, SearchFilters, SmartSearch,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_memory::{Memory, MemoryRetrieve, MemoryStore};
use toolwright_module::testing::{Recording, Replay, SchemaDriven, Scripted};
use toolwright_module::{
    ChainOfThought, Context, Message, Module, Predict, Reply, Request, Result, Signature, Tool,
    ToolCall, from_fn,
};
use toolwright_orchestrator::{Agent, Choosing, Ending, ReAct};

/// Answer questions using available memory tools.
#[derive(Serialize, Deserialize, JsonSchema)]
struct QuestionAnswer {
    question: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Answered {
    answer: String,
}

impl Signature for QuestionAnswer {
    type Output = Answered;
}

/// Do one thing.
#[derive(Serialize, Deserialize, JsonSchema)]
struct OperationOne {
    input: String,
}

impl Signature for OperationOne {
    type Output = String;
}

/// Do another thing.
#[derive(Serialize, Deserialize, JsonSchema)]
struct OperationTwo {
    value: String,
    optional: Option<String>,
}

impl Signature for OperationTwo {
    type Output = String;
}

/// A toolset of one's own, whose tools share what has been done.
#[derive(Clone, Default)]
struct MyToolset(Arc<Mutex<Vec<String>>>);

impl MyToolset {
    fn record(&self, what: String) -> Result<String> {
        let mut done = self.0.lock().unwrap();
        done.push(what);
        Ok(done.join(", "))
    }

    fn tools(&self) -> Result<Vec<Tool>, toolwright_signature::ContractError> {
        let (first, second) = (self.clone(), self.clone());
        let one = from_fn(move |ask: OperationOne| {
            let done = first.record(ask.input);
            async { done }
        });
        let two = from_fn(move |ask: OperationTwo| {
            let done = second.record(ask.value + ask.optional.as_deref().unwrap_or("!"));
            async { done }
        });
        [Tool::new(one)?, Tool::new(two)?]
            .map(|tool| tool.prefixed("my_tools"))
            .into_iter()
            .collect()
    }
}

/// What a tool answered last, if the conversation ends with it.
fn answered(request: &Request) -> Option<&str> {
    match request.messages.last().map(|last| &**last) {
        Some(Message::Tool(result)) => Some(&result.text),
        _ => None,
    }
}

/// The seed's own: `DSPy::ReAct.new(MySignature, tools: toolset.class.to_tools)`.
#[tokio::test]
async fn the_tools_of_a_toolset_of_ones_own_drive_react() {
    let toolset = MyToolset::default();
    // It goes by what the tools answer: if one is not run, there is no output.
    let model = Scripted::new(|request: &Request| {
        let call = |name, arguments| Reply::calls([ToolCall::new("", name, arguments)]);
        Ok(match answered(request) {
            None => call("my_tools_operation_one", r#"{"input": "a"}"#),
            Some("a") => call("my_tools_operation_two", r#"{"value": "b"}"#),
            Some("a, b!") => call("finish", r#"{"answer": "a, b!"}"#),
            Some(other) => Reply::text(format!("I did not expect {other}.")),
        })
    });
    let agent = Agent::new(model, toolset.tools().unwrap()).unwrap();
    let react = ReAct::<QuestionAnswer>::new(agent).unwrap();
    let question = "What has been done?".to_owned();
    let task = react.task(&QuestionAnswer { question }).unwrap();
    let finished = react.agent().run(task, &Context::default()).await.unwrap();
    assert_eq!(finished.answer, Answered { answer: "a, b!".to_owned() });
    assert_eq!(finished.tools_used, ["my_tools_operation_one", "my_tools_operation_two"]);
    assert_eq!(*toolset.0.lock().unwrap(), ["a", "b!"]);
}

/// The seed's own step: `action` names the tool, `action_input` holds its arguments.
#[tokio::test]
async fn the_seeds_own_step_is_read_and_its_texts_become_enums() {
    let steps = [
        r#"{"thought": "It is urgent.", "action": "update_task", "action_input": {"priority": "critical", "status": "in-progress"}}"#,
        r#"{"thought": "That is all.", "action": "finish"}"#,
        "Done.",
    ];
    let said = Arc::new(Mutex::new(steps.into_iter()));
    let model = Scripted::new(move |_: &Request| {
        Ok(Reply::text(said.lock().unwrap().next().expect("one more step in the script")))
    });
    let agent = Agent::new(model, tasks::tools().unwrap()).unwrap();
    let agent = agent.with_choosing(Choosing::Selector).unwrap();
    let finished = agent.run("Hurry up.", &Context::default()).await.unwrap();
    assert_eq!((finished.answer.as_str(), finished.ending), ("Done.", Ending::Answered));
    let results: Vec<&str> = finished
        .history
        .iter()
        .filter_map(|message| match &**message {
            Message::Tool(result) => Some(&*result.text),
            _ => None,
        })
        .collect();
    assert_eq!(results, ["Updated to critical priority with in-progress status"]);
}

fn titles(found: &search::SearchResults) -> Vec<&str> {
    found.documents.iter().map(|document| &*document.title).collect()
}

fn index() -> Arc<Index> {
    let document = |title: &str, year| Document { title: title.to_owned(), year };
    Arc::new(Index(vec![document("Tax law", 2025), document("Levies", 1994)]))
}

fn tax(filters: Option<SearchFilters>) -> SearchDocuments {
    SearchDocuments { query: "tax".to_owned(), filters }
}

/// A model that says this, and what it was asked.
fn saying(
    reply: &'static str,
) -> (impl toolwright_module::LanguageModel, Arc<Mutex<Vec<Request>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    let model = Scripted::new(move |request: &Request| {
        kept.lock().unwrap().push(request.clone());
        Ok(Reply::text(reply))
    });
    (model, asked)
}

#[tokio::test]
async fn what_the_injected_model_says_is_what_the_search_finds() {
    let (model, asked) = saying(
        r#"{"reasoning": "There is one.", "output": {"documents": [{"title": "Made up", "year": 2024}], "total_count": 7}}"#,
    );
    let module = LlmSearch { predictor: ChainOfThought::new(model).unwrap() };
    let found = module.call(tax(None), &Context::default()).await.unwrap();
    assert_eq!((titles(&found), found.total_count), (vec!["Made up"], 7));
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 1);
    // It was asked for what the caller asked for.
    let last = format!("{:?}", asked[0].messages.last());
    assert!(last.contains("tax"), "{last}");
}

#[tokio::test]
async fn filters_that_are_left_out_are_null() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let module = from_fn(move |search: SearchDocuments| {
        kept.lock().unwrap().push(search.filters.map(|filters| filters.from_year));
        async { Ok(search::SearchResults { documents: vec![], total_count: 0 }) }
    });
    let tool = Tool::new(module).unwrap();
    let required = &tool.contract().input()["required"];
    assert_eq!(*required, serde_json::json!(["query"]));
    for arguments in [
        r#"{"query": "tax"}"#,
        r#"{"query": "tax", "filters": null}"#,
        r#"{"query": "tax", "filters": {}}"#,
        r#"{"query": "tax", "filters": {"from_year": 2000}}"#,
    ] {
        tool.call(arguments, &Context::default()).await.unwrap();
    }
    assert_eq!(*seen.lock().unwrap(), [None, None, Some(None), Some(Some(2000))]);
    // What is left out filters nothing.
    let search = Tool::new(ApiSearch { index: index() }).unwrap();
    let found = search.call(r#"{"query": "tax levies"}"#, &Context::default()).await.unwrap();
    assert!(found.text.contains(r#""total_count":2"#), "{}", found.text);
}

#[tokio::test]
async fn the_search_of_code_finds_what_stands_in_the_injected_index() {
    let empty = ApiSearch { index: Arc::new(Index(vec![])) };
    assert_eq!(empty.call(tax(None), &Context::default()).await.unwrap().total_count, 0);
    let module = ApiSearch { index: index() };
    assert_eq!(titles(&module.call(tax(None), &Context::default()).await.unwrap()), ["Tax law"]);
    let recent = SearchFilters { from_year: Some(2026) };
    assert_eq!(module.call(tax(Some(recent)), &Context::default()).await.unwrap().total_count, 0);
}

#[tokio::test]
async fn the_hybrid_looks_up_what_its_model_added_to_the_query() {
    let (model, asked) = saying(r#"{"expanded_query": "levies duties"}"#);
    let module = SmartSearch { index: index(), expander: Predict::new(model).unwrap() };
    // Neither alone finds both: the word of the caller one, the model's word the other.
    assert_eq!(
        titles(&module.call(tax(None), &Context::default()).await.unwrap()),
        ["Tax law", "Levies"]
    );
    assert_eq!(asked.lock().unwrap().len(), 1);
    // The documents are those of the index, and the filters are the caller's.
    let recent = SearchFilters { from_year: Some(2000) };
    assert_eq!(
        titles(&module.call(tax(Some(recent)), &Context::default()).await.unwrap()),
        ["Tax law"]
    );
}

#[tokio::test]
async fn react_answers_a_signature_with_memory_tools() {
    let memory = Memory::default();
    let (key, value) = ("color".to_owned(), "blue".to_owned());
    MemoryStore::module(&memory)
        .call(MemoryStore { key, value, tags: None }, &Context::default())
        .await
        .unwrap();

    let model = Scripted::new(|request: &Request| {
        let (name, arguments) = match request.messages.len() {
            2 => ("memory_retrieve", r#"{"key": "color"}"#),
            _ => ("finish", r#"{"answer": "Your color is blue."}"#),
        };
        Ok(Reply::calls([ToolCall::new(name, name, arguments)]))
    });
    let agent = Agent::new(model, memory.tools().unwrap()).unwrap();
    let react = ReAct::<QuestionAnswer>::new(agent).unwrap();
    let question = "What is my color?".to_owned();
    let task = react.task(&QuestionAnswer { question }).unwrap();
    let finished = react.agent().run(task, &Context::default()).await.unwrap();

    assert_eq!(finished.answer, Answered { answer: "Your color is blue.".to_owned() });
    assert_eq!(finished.tools_used, ["memory_retrieve"]);
    // Instructions, task, call, result, and `finish`.
    assert_eq!(finished.history.len(), 5);
}

#[tokio::test]
async fn an_agent_takes_a_toolset_as_it_is_and_every_tool_runs_on_its_own_schema() {
    let tools = Memory::default().tools().unwrap();
    let agent = Agent::new(SchemaDriven::default(), tools).unwrap();
    let finished = agent.run("Try everything.", &Context::default()).await.unwrap();
    assert_eq!(finished.tools_used.len(), 9);
    let failed = format!("{:?}", finished.history).matches("failed: true").count();
    assert_eq!(failed, 0, "{:#?}", finished.history);
}

#[tokio::test]
async fn the_committed_recording_replays_over_live_tools_to_its_end() {
    let recording = include_str!("../recordings/calls.json");
    let recording = Recording::parse(recording, "calls.json").unwrap();
    let exchanges = recording.exchanges.len();
    let first = recording.exchanges[0].reply.tool_calls().next();
    let stored = first.filter(|call| call.name == "memory_store").unwrap().arguments.clone();
    let replay = Arc::new(Replay::new(recording));
    let memory = Memory::default();
    let settings = Settings::default().with_max_output_tokens(512);
    let agent = Agent::new(Arc::clone(&replay), memory.tools().unwrap())
        .unwrap()
        .with_settings(settings)
        .unwrap();
    let prompt = "Store the key color with value blue, then tell me what you have stored.";
    let finished = agent.run(prompt, &Context::default()).await.unwrap();

    assert_eq!(finished.iterations as usize + 1, exchanges);
    assert_eq!(replay.left(), 0);
    // The model's words are old, the memory is not: what it asked for is stored. What it
    // asked for is its own affair, and may be another after the next recording.
    let stored: MemoryStore = serde_json::from_str(&stored).unwrap();
    let retrieve = MemoryRetrieve::module(&memory);
    let value =
        retrieve.call(MemoryRetrieve { key: stored.key }, &Context::default()).await.unwrap();
    assert_eq!(value, Some(stored.value));
}

#[tokio::test]
async fn the_committed_recording_of_a_selector_replays_over_live_tools_to_its_end() {
    let recording = include_str!("../recordings/selector.json");
    let recording = Recording::parse(recording, "selector.json").unwrap();
    let exchanges = recording.exchanges.len();
    let first: Value = serde_json::from_str(&recording.exchanges[0].reply.to_text()).unwrap();
    assert_eq!(first["selection"]["tool_name"], "memory_store");
    let stored: MemoryStore =
        serde_json::from_value(first["selection"]["tool_input"].clone()).unwrap();
    let replay = Arc::new(Replay::new(recording));
    let memory = Memory::default();
    let agent = Agent::new(Arc::clone(&replay), memory.tools().unwrap())
        .unwrap()
        .with_settings(Settings::default().with_max_output_tokens(512))
        .unwrap()
        .with_choosing(Choosing::Selector)
        .unwrap();
    let prompt = "Store the key color with value blue.";
    let finished = agent.run(prompt, &Context::default()).await.unwrap();

    // A question for each selection, to finish included, and one for the answer.
    assert_eq!(finished.iterations as usize + 2, exchanges);
    assert_eq!((replay.left(), finished.ending), (0, Ending::Answered));
    assert!(!finished.answer.is_empty() && finished.failures.is_empty());
    let retrieve = MemoryRetrieve::module(&memory);
    let value =
        retrieve.call(MemoryRetrieve { key: stored.key }, &Context::default()).await.unwrap();
    assert_eq!(value, Some(stored.value));
}
