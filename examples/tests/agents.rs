//! Agents with a real toolset, on models of the test bench.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_memory::{Memory, MemoryRetrieve, MemoryRetrieveTool, MemoryStore, MemoryStoreTool};
use toolwright_module::testing::{Recording, Replay, SchemaDriven, Scripted};
use toolwright_module::{Context, Module, Reply, Request, Signature, ToolCall};
use toolwright_orchestrator::{Choosing, Ending, Limits, ReAct, ToolOrchestrator};

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

#[tokio::test]
async fn s10_s15_s17_react_answers_a_signature_with_memory_tools() {
    let memory = Memory::default();
    let (key, value) = ("color".to_owned(), "blue".to_owned());
    MemoryStoreTool::new(&memory).call(MemoryStore { key, value, tags: None }).await.unwrap();

    let model = Scripted::new(|request: &Request| {
        let (name, arguments) = match request.messages.len() {
            2 => ("memory_retrieve", r#"{"key": "color"}"#),
            _ => ("finish", r#"{"answer": "Your color is blue."}"#),
        };
        Ok(Reply::calls([ToolCall::new(name, name, arguments)]))
    });
    let agent = ReAct::<QuestionAnswer>::new(model, memory.tools().unwrap()).unwrap();
    let question = "What is my color?".to_owned();
    let reacted = agent.run(QuestionAnswer { question }, &Context::default()).await.unwrap();

    assert_eq!(reacted.output, Answered { answer: "Your color is blue.".to_owned() });
    assert_eq!(reacted.tools_used, ["memory_retrieve"]);
    // Instructions, task, call, result, and `finish`.
    assert_eq!(reacted.history.len(), 5);
}

#[tokio::test]
async fn s21_an_agent_takes_a_toolset_as_it_is_and_every_tool_runs_on_its_own_schema() {
    let tools = Memory::default().tools().unwrap();
    let agent = ToolOrchestrator::new(SchemaDriven::default(), tools).unwrap();
    let finished = agent.run("Try everything.", &Context::default()).await.unwrap();
    assert_eq!(finished.tools_used.len(), 9);
    let failed = format!("{:?}", finished.history).matches("failed: true").count();
    assert_eq!(failed, 0, "{:#?}", finished.history);
}

#[tokio::test]
async fn the_committed_recording_replays_over_live_tools_to_its_end() {
    let recording = include_str!("../recordings/assistant.json");
    let recording = Recording::parse(recording, "assistant.json").unwrap();
    let exchanges = recording.exchanges.len();
    let first = recording.exchanges[0].reply.tool_calls().next();
    let stored = first.filter(|call| call.name == "memory_store").unwrap().arguments.clone();
    let replay = Arc::new(Replay::new(recording));
    let memory = Memory::default();
    let limits = Limits::default().with_max_output_tokens(512);
    let agent = ToolOrchestrator::new(Arc::clone(&replay), memory.tools().unwrap())
        .unwrap()
        .with_limits(limits);
    let prompt = "Store the key color with value blue, then tell me what you have stored.";
    let finished = agent.run(prompt, &Context::default()).await.unwrap();

    assert_eq!(finished.iterations as usize + 1, exchanges);
    assert_eq!(replay.left(), 0);
    // The model's words are old, the memory is not: what it asked for is stored. What it
    // asked for is its own affair, and may be another after the next recording.
    let stored: MemoryStore = serde_json::from_str(&stored).unwrap();
    let retrieve = MemoryRetrieveTool::new(&memory);
    let value = retrieve.call(MemoryRetrieve { key: stored.key }).await.unwrap();
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
    let agent = ToolOrchestrator::new(Arc::clone(&replay), memory.tools().unwrap())
        .unwrap()
        .with_limits(Limits::default().with_max_output_tokens(512))
        .with_choosing(Choosing::Selector)
        .unwrap();
    let prompt = "Store the key color with value blue.";
    let finished = agent.run(prompt, &Context::default()).await.unwrap();

    // A question for each selection, to finish included, and one for the answer.
    assert_eq!(finished.iterations as usize + 2, exchanges);
    assert_eq!((replay.left(), finished.ending), (0, Ending::Answered));
    assert!(!finished.answer.is_empty() && finished.failures.is_empty());
    let retrieve = MemoryRetrieveTool::new(&memory);
    let value = retrieve.call(MemoryRetrieve { key: stored.key }).await.unwrap();
    assert_eq!(value, Some(stored.value));
}
