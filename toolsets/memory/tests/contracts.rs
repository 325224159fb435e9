//! The contracts of the tools, and the errors of invalid arguments.

use std::collections::HashSet;

use crate::support::{call, retrieve, store};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_memory::{
    Memory, MemoryClear, MemoryCount, MemoryDelete, MemoryGetMetadata, MemoryList, MemoryRetrieve,
    MemorySearch, MemoryStore, MemoryUpdate,
};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::{Contract, Dialect, Effect, Signature};
use toolwright_signature::{ContractError, Side};

const NAMES: [&str; 9] = [
    "memory_store",
    "memory_retrieve",
    "memory_search",
    "memory_list",
    "memory_update",
    "memory_delete",
    "memory_clear",
    "memory_count",
    "memory_get_metadata",
];

#[test]
fn the_nine_tools_are_listed_in_order() {
    let tools = Memory::default().tools().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool.contract().name()).collect();
    assert_eq!(names, NAMES);
}

/// Each tool has one signature, which sets its name.
#[test]
fn each_tool_has_its_own_signature() {
    let names = [
        MemoryStore::name(),
        MemoryRetrieve::name(),
        MemorySearch::name(),
        MemoryList::name(),
        MemoryUpdate::name(),
        MemoryDelete::name(),
        MemoryClear::name(),
        MemoryCount::name(),
        MemoryGetMetadata::name(),
    ];
    assert_eq!(names, NAMES);
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), NAMES.len());
}

/// Arguments have names, so a signature without field names is rejected.
#[test]
fn unnamed_parameters_are_rejected() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Unnamed(String, String);

    impl Signature for Unnamed {
        type Output = String;
    }

    let error = Contract::of::<Unnamed>().unwrap_err();
    assert!(matches!(error, ContractError::Schema { side: Side::Input, .. }), "{error}");
    for tool in Memory::default().tools().unwrap() {
        let input = tool.contract().input();
        assert_eq!(input["type"], "object");
        let properties = input["properties"].as_object().unwrap();
        for (name, property) in properties {
            let description = property["description"].as_str();
            assert!(description.is_some_and(|text| !text.is_empty()), "{name}");
        }
    }
}

#[test]
fn the_nine_contracts_match_their_snapshot() {
    let tools = Memory::default().tools().unwrap();
    let shown: Vec<Value> = tools
        .iter()
        .map(|tool| {
            let mut shown = tool.contract().tool(Dialect::JsonSchema2020).unwrap();
            shown["effect"] = json!(tool.effect());
            shown
        })
        .collect();
    insta::assert_json_snapshot!("nine_contracts", shown);
}

#[test]
fn every_dialect_says_everything() {
    for tool in Memory::default().tools().unwrap() {
        let contract = tool.contract();
        for dialect in Dialect::ALL {
            contract.tool(dialect).unwrap();
            for lowered in
                [contract.lower(dialect).unwrap(), contract.lower_output(dialect).unwrap()]
            {
                // Anthropic's dialect has no bounds of numbers; the description has them.
                let mut losses = lowered.losses.iter();
                let in_description =
                    |keyword| dialect == Dialect::Anthropic && keyword == "minimum";
                assert!(
                    losses.all(|loss| in_description(&loss.keyword)),
                    "{} {dialect}",
                    contract.name()
                );
                let schema: Value = serde_json::from_str(lowered.schema.get()).unwrap();
                assert_eq!(schema["type"], "object", "{} {dialect}", contract.name());
                jsonschema::draft202012::meta::validate(&schema).unwrap();
            }
        }
    }
}

#[test]
fn strict_openai_tools_are_held_in_a_snapshot() {
    let tools = Memory::default().tools().unwrap();
    let shown: Vec<Value> =
        tools.iter().map(|tool| tool.contract().tool(Dialect::OpenAiStrict).unwrap()).collect();
    insta::assert_json_snapshot!("nine_strict_tools", shown);
}

/// Outputs match the output schema, against which MCP clients validate them.
#[tokio::test]
async fn outputs_fit_their_own_schemas() {
    let memory = Memory::default();
    store(&memory, "color", "blue", &["taste"]).await;
    retrieve(&memory, "color").await;
    let calls = [
        ("memory_store", json!({"key": "size", "value": "9"})),
        ("memory_retrieve", json!({"key": "color"})),
        ("memory_retrieve", json!({"key": "missing"})),
        ("memory_search", json!({"pattern": ""})),
        ("memory_list", json!({})),
        ("memory_update", json!({"key": "size", "value": "10"})),
        ("memory_update", json!({"key": "missing", "value": ""})),
        ("memory_get_metadata", json!({"key": "color"})),
        ("memory_get_metadata", json!({"key": "size"})),
        ("memory_get_metadata", json!({"key": "missing"})),
        ("memory_count", json!({})),
        ("memory_delete", json!({"key": "size"})),
        ("memory_delete", json!({"key": "size"})),
        ("memory_clear", json!({})),
    ];
    for (name, arguments) in calls {
        let output = call(&memory, name, &arguments.to_string()).await.unwrap();
        let value = output.value().unwrap().unwrap();
        let tool = crate::support::tool(&memory, name);
        let schema = tool.contract().output_to_write().unwrap();
        let validator = jsonschema::validator_for(schema).unwrap();
        assert!(validator.is_valid(&value), "{name}: {value} in {schema}");
    }
}

#[test]
fn each_tool_has_its_effect() {
    let tools = Memory::default().tools().unwrap();
    let with = |effect: Effect| -> Vec<&str> {
        let tools = tools.iter().filter(|tool| tool.effect() == effect);
        tools.map(|tool| tool.contract().name()).collect()
    };
    assert_eq!(
        with(Effect::Read),
        ["memory_retrieve", "memory_search", "memory_list", "memory_count", "memory_get_metadata",],
    );
    assert_eq!(with(Effect::Idempotent), ["memory_store", "memory_update"]);
    assert_eq!(with(Effect::Irreversible), ["memory_delete", "memory_clear"]);
}

#[tokio::test]
async fn invalid_arguments_are_reported_and_change_nothing() {
    let memory = Memory::default();
    let mut errors = String::new();
    for (name, arguments) in [
        ("memory_store", r#"{"key": "color"}"#),
        ("memory_store", r#"{"key": "color", "value": ["blue"]}"#),
        ("memory_store", r#"{"key": "c", "value": "v", "tags": [{}]}"#),
        ("memory_store", r#"{"key": "color", "value": "bl"#),
        ("memory_search", r#"{"pattern": "a", "in_keys": "maybe"}"#),
        ("memory_list", "7"),
    ] {
        let error = call(&memory, name, arguments).await.unwrap_err();
        assert_eq!(error.audience(), Audience::ModelMayRetry, "{arguments}");
        assert_eq!(error.stage(), Stage::Arguments, "{arguments}");
        errors += &format!("{name} {arguments}\n=> {}\n\n", error.for_model());
    }
    insta::assert_snapshot!("wrong_arguments", errors);
    assert_eq!(crate::support::text(&memory, "memory_count", "{}").await, "0");
}
