//! The behaviour of each tool, with one caller.

use std::time::{Duration, Instant};

use crate::support::{call, metadata, retrieve, store, text};
use jiff::Timestamp;
use serde_json::{Value, json};
use toolwright_memory::{
    Cleared, Deleted, Found, Memory, MemoryClear, MemoryCount, MemoryDelete, MemoryGetMetadata,
    MemoryLimits, MemoryList, MemoryRetrieve, MemorySearch, MemoryStore, MemoryUpdate, Metadata,
    Search, Stored, Updated,
};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::{Context, Module};

#[tokio::test]
async fn store_overwrites_and_keeps_tags() {
    let memory = Memory::default();
    let arguments = r#"{"key": "color", "value": "blue", "tags": ["taste", "ui"]}"#;
    assert_eq!(
        text(&memory, "memory_store", arguments).await,
        "Stored memory 'color' successfully",
    );
    assert_eq!(metadata(&memory, "color").await.unwrap().tags, ["taste", "ui"],);
    retrieve(&memory, "color").await;

    let output =
        call(&memory, "memory_store", r#"{"key": "color", "value": "red"}"#).await.unwrap();
    assert_eq!(output.text, "Stored memory 'color' successfully");
    assert_eq!(output.value().unwrap(), Some(json!({"key": "color", "replaced": true})),);
    // Everything is replaced, not only the value.
    let after = metadata(&memory, "color").await.unwrap();
    assert!(after.tags.is_empty());
    assert_eq!((after.access_count, after.last_accessed_at), (0, None));
    assert_eq!(after.created_at, after.updated_at);
    assert_eq!(retrieve(&memory, "color").await.as_deref(), Some("red"));
}

#[tokio::test]
async fn retrieve_counts_an_access_and_returns_null_for_a_missing_key() {
    let memory = Memory::default();
    store(&memory, "color", "blue", &[]).await;
    let before = Timestamp::now();
    let hit = text(&memory, "memory_retrieve", r#"{"key": "color"}"#).await;
    assert_eq!(hit, "blue");
    text(&memory, "memory_retrieve", r#"{"key": "color"}"#).await;
    let known = metadata(&memory, "color").await.unwrap();
    assert_eq!(known.access_count, 2);
    assert!(known.last_accessed_at.unwrap() >= before);

    let miss = call(&memory, "memory_retrieve", r#"{"key": "Color"}"#).await.unwrap();
    assert_eq!(miss.text, "null");
    assert_eq!(miss.value().unwrap(), Some(Value::Null));
    assert_eq!(metadata(&memory, "color").await.unwrap().access_count, 2);
}

async fn keys_found(memory: &Memory, arguments: Value) -> Vec<String> {
    let output = call(memory, "memory_search", &arguments.to_string()).await;
    let found = output.unwrap().value().unwrap().unwrap();
    let found = found.as_array().unwrap().iter();
    found.map(|one| one["key"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn search_looks_in_keys_values_both_or_neither() {
    let memory = Memory::default();
    // The order of insertion differs from the sorted order.
    store(&memory, "zebra", "an animal", &["blue"]).await;
    store(&memory, "blue_car", "a vehicle", &[]).await;
    store(&memory, "sky", "is BLUE today", &[]).await;
    let both = json!({"pattern": "blue"});
    assert_eq!(keys_found(&memory, both).await, ["blue_car", "sky"]);
    let keys = json!({"pattern": "Blue", "in_values": false});
    assert_eq!(keys_found(&memory, keys).await, ["blue_car"]);
    let values = json!({"pattern": "blue", "in_keys": false});
    assert_eq!(keys_found(&memory, values).await, ["sky"]);
    let neither = json!({"pattern": "", "in_keys": false, "in_values": false});
    assert!(keys_found(&memory, neither).await.is_empty());
    let every = json!({"pattern": ""});
    assert_eq!(keys_found(&memory, every).await, ["zebra", "blue_car", "sky"],);
    let expression = json!({"pattern": r"^\w{3}$|mal$"});
    assert_eq!(keys_found(&memory, expression).await, ["zebra", "sky"]);
    assert_eq!(
        text(&memory, "memory_search", r#"{"pattern": "sky"}"#).await,
        r#"[{"key":"sky","value":"is BLUE today"}]"#,
    );
    assert_eq!(text(&memory, "memory_search", r#"{"pattern": "nothing"}"#).await, "[]",);
    // A search does not count as an access.
    assert_eq!(metadata(&memory, "sky").await.unwrap().access_count, 0);
}

/// Strict providers send null for missing arguments.
#[tokio::test]
async fn search_reads_null_flags_as_their_defaults() {
    let memory = Memory::default();
    store(&memory, "sky", "blue", &[]).await;
    let arguments = json!({"pattern": "BLUE", "in_keys": null, "in_values": null});
    assert_eq!(keys_found(&memory, arguments).await, ["sky"]);
}

#[tokio::test]
async fn search_keeps_the_order_of_insertion_after_changes() {
    let memory = Memory::default();
    for key in ["c", "a", "b"] {
        store(&memory, key, "", &[]).await;
    }
    store(&memory, "c", "replaced", &[]).await;
    text(&memory, "memory_update", r#"{"key": "a", "value": "new"}"#).await;
    let every = json!({"pattern": ""});
    assert_eq!(keys_found(&memory, every.clone()).await, ["c", "a", "b"]);
    // Removed and stored again, it is a new entry.
    text(&memory, "memory_delete", r#"{"key": "c"}"#).await;
    store(&memory, "c", "", &[]).await;
    assert_eq!(keys_found(&memory, every).await, ["a", "b", "c"]);
}

#[tokio::test]
async fn search_reports_what_is_wrong_with_a_pattern() {
    let memory = Memory::default();
    let mut errors = String::new();
    for pattern in ["(unclosed", "[z-a]", "*", r"(?<=look)behind", r"(a)\1", r"(\w{99}){99}"] {
        // An invalid pattern is an error even if nothing is searched.
        let arguments = json!({"pattern": pattern, "in_keys": false, "in_values": false});
        let error = call(&memory, "memory_search", &arguments.to_string()).await.unwrap_err();
        assert_eq!(error.audience(), Audience::ModelMayRetry, "{pattern}");
        assert_eq!(error.stage(), Stage::Arguments, "{pattern}");
        errors += &format!("{pattern}\n=> {}\n\n", error.for_model());
    }
    insta::assert_snapshot!("wrong_patterns", errors);
}

/// These patterns do not match, and would take very long with backtracking.
#[tokio::test]
async fn no_pattern_causes_backtracking() {
    let memory = Memory::default();
    store(&memory, "key", &format!("{}!", "a".repeat(100_000)), &[]).await;
    let started = Instant::now();
    for pattern in ["(a+)+$", "(a|aa)+$", "(a|a?)+b", "(.*)*x", r"(\w+\s?)+$"] {
        let arguments = json!({"pattern": pattern, "in_keys": false}).to_string();
        let found = text(&memory, "memory_search", &arguments).await;
        assert!(found == "[]", "{pattern}");
    }
    // Much longer than expected, and much shorter than with backtracking.
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn common_patterns_fit_the_size_limit() {
    let memory = Memory::default();
    store(&memory, "mail", "write to kate@example.org by 2026-11-21", &[]).await;
    for pattern in [
        r"\b\w+@\w+\.\w+\b",
        r"\d{4}-\d{2}-\d{2}",
        r"\w{5}",
        r"^.{1,200}$",
        "kate|frank|(?-i:Mail)",
    ] {
        let arguments = json!({"pattern": pattern});
        assert_eq!(keys_found(&memory, arguments).await, ["mail"], "{pattern}");
    }
}

#[tokio::test]
async fn a_huge_pattern_is_rejected_quickly_with_a_short_error() {
    let memory = Memory::default();
    let started = Instant::now();
    for pattern in [
        "((a{1000}){1000}){1000}",
        r"\w{20}",
        r"(\pL{999}){999}",
        &"(".repeat(100_000),
        &"[a".repeat(100_000),
        &"a".repeat(1_000_000),
        &format!("{}*", "a|".repeat(100_000)),
    ] {
        let arguments = json!({"pattern": pattern}).to_string();
        let error = call(&memory, "memory_search", &arguments).await.unwrap_err();
        assert_eq!(error.audience(), Audience::ModelMayRetry);
        assert!(error.for_model().len() < 500, "{:.500}", error.for_model());
    }
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn list_returns_sorted_keys_or_an_empty_list() {
    let memory = Memory::default();
    assert_eq!(text(&memory, "memory_list", "{}").await, "[]");
    for key in ["b", "a", "B", "ä", "10", "9"] {
        store(&memory, key, "", &[]).await;
    }
    assert_eq!(text(&memory, "memory_list", "{}").await, r#"["10","9","B","a","b","ä"]"#,);
    // Some providers send an empty text instead of `{}`.
    assert_eq!(text(&memory, "memory_list", "").await, text(&memory, "memory_list", "{}").await,);
}

#[tokio::test]
async fn update_changes_only_the_value_and_its_time() {
    let memory = Memory::default();
    store(&memory, "color", "blue", &["taste"]).await;
    retrieve(&memory, "color").await;
    let before = metadata(&memory, "color").await.unwrap();

    let arguments = r#"{"key": "color", "value": "green"}"#;
    assert_eq!(
        text(&memory, "memory_update", arguments).await,
        "Updated memory 'color' successfully",
    );
    let after = metadata(&memory, "color").await.unwrap();
    assert!(after.updated_at >= before.updated_at);
    let expected = Metadata { updated_at: after.updated_at, value_length: 5, ..before };
    assert_eq!(after, expected);
    assert_eq!(retrieve(&memory, "color").await.as_deref(), Some("green"));

    let miss = call(&memory, "memory_update", r#"{"key": "size", "value": "9"}"#).await.unwrap();
    assert_eq!(miss.text, "Memory 'size' not found");
    assert_eq!(miss.value().unwrap(), Some(json!({"key": "size", "found": false})),);
    assert_eq!(retrieve(&memory, "size").await, None);
}

#[tokio::test]
async fn a_second_delete_reports_not_found() {
    let memory = Memory::default();
    store(&memory, "color", "blue", &[]).await;
    let arguments = r#"{"key": "color"}"#;
    assert_eq!(
        text(&memory, "memory_delete", arguments).await,
        "Deleted memory 'color' successfully",
    );
    assert_eq!(retrieve(&memory, "color").await, None);
    assert_eq!(text(&memory, "memory_delete", arguments).await, "Memory 'color' not found",);
}

#[tokio::test]
async fn clear_removes_all_entries_and_reports_their_number() {
    let memory = Memory::default();
    assert_eq!(text(&memory, "memory_clear", "{}").await, "Cleared 0 memories");
    store(&memory, "a", "", &[]).await;
    assert_eq!(text(&memory, "memory_clear", "{}").await, "Cleared 1 memories");
    for key in ["a", "b", "c"] {
        store(&memory, key, "", &[]).await;
    }
    assert_eq!(text(&memory, "memory_clear", "{}").await, "Cleared 3 memories");
    assert_eq!(text(&memory, "memory_count", "{}").await, "0");
    assert_eq!(text(&memory, "memory_list", "{}").await, "[]");
}

#[tokio::test]
async fn count_follows_store_delete_and_clear() {
    let memory = Memory::default();
    let count = async || text(&memory, "memory_count", "{}").await;
    assert_eq!(count().await, "0");
    store(&memory, "a", "", &[]).await;
    store(&memory, "b", "", &[]).await;
    assert_eq!(count().await, "2");
    store(&memory, "a", "again", &[]).await;
    assert_eq!(count().await, "2");
    text(&memory, "memory_delete", r#"{"key": "a"}"#).await;
    text(&memory, "memory_delete", r#"{"key": "a"}"#).await;
    assert_eq!(count().await, "1");
    text(&memory, "memory_clear", "{}").await;
    assert_eq!(count().await, "0");
}

#[tokio::test]
async fn metadata_has_times_and_the_access_count() {
    let memory = Memory::default();
    let before = Timestamp::now();
    store(&memory, "greeting", "grüße 👋", &[]).await;
    let output = call(&memory, "memory_get_metadata", r#"{"key": "greeting"}"#).await.unwrap();
    let value = output.value().unwrap().unwrap();
    // The text for the model is the same object as JSON.
    assert_eq!(serde_json::from_str::<Value>(&output.text).unwrap(), value);
    let names: Vec<_> = value.as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        ["created_at", "updated_at", "access_count", "last_accessed_at", "tags", "value_length",],
    );
    for field in ["created_at", "updated_at"] {
        let time = value[field].as_str().unwrap();
        assert!(time.ends_with('Z'), "{time}");
        let time: Timestamp = time.parse().unwrap();
        assert!((before..=Timestamp::now()).contains(&time), "{time}");
    }
    assert_eq!(value["last_accessed_at"], Value::Null);
    assert_eq!(value["access_count"], 0);
    assert_eq!(value["tags"], json!([]));
    // Characters, not bytes.
    assert_eq!(value["value_length"], 7);

    retrieve(&memory, "greeting").await;
    let known = metadata(&memory, "greeting").await.unwrap();
    assert_eq!(known.access_count, 1);
    assert!(known.last_accessed_at.unwrap() >= known.created_at);
    // Metadata does not count as an access.
    assert_eq!(metadata(&memory, "greeting").await, Some(known));
    assert_eq!(text(&memory, "memory_get_metadata", r#"{"key": "missing"}"#).await, "null",);
}

#[tokio::test]
async fn store_accepts_json_with_tags() {
    let memory = Memory::default();
    let arguments = json!({
        "key": "user \"Kate\"\n",
        "value": "{\"likes\": [\"tea\"]}",
        "tags": ["people", "日本語", ""],
    });
    text(&memory, "memory_store", &arguments.to_string()).await;
    let known = metadata(&memory, "user \"Kate\"\n").await.unwrap();
    assert_eq!(known.tags, ["people", "日本語", ""]);
    let null = json!({"key": "plain", "value": "", "tags": null});
    text(&memory, "memory_store", &null.to_string()).await;
    let known = metadata(&memory, "plain").await.unwrap();
    assert!(known.tags.is_empty());
    assert_eq!(known.value_length, 0);
}

/// Calls every module from code, with Rust types.
#[tokio::test]
async fn each_memory_module_works_without_a_language_model() -> toolwright_module::Result<()> {
    let memory = Memory::default();
    let key = "color".to_owned();

    let input = MemoryStore { key: key.clone(), value: "blue".to_owned(), tags: None };
    let stored = MemoryStore::module(&memory).call(input, &Context::default()).await?;
    let replaced = false;
    assert_eq!(stored, Stored { key: key.clone(), replaced });

    let input = MemoryRetrieve { key: key.clone() };
    let value = MemoryRetrieve::module(&memory).call(input, &Context::default()).await?;
    assert_eq!(value.as_deref(), Some("blue"));

    let input = MemorySearch { pattern: "lor".to_owned(), in_keys: true, in_values: false };
    let found = MemorySearch::module(&memory).call(input, &Context::default()).await?;
    let value = "blue".to_owned();
    assert_eq!(found, [Found { key: key.clone(), value }]);

    let keys = MemoryList::module(&memory).call(MemoryList, &Context::default()).await?;
    assert_eq!(keys, ["color"]);

    let input = MemoryUpdate { key: key.clone(), value: "green".to_owned() };
    let updated = MemoryUpdate::module(&memory).call(input, &Context::default()).await?;
    let found = true;
    assert_eq!(updated, Updated { key: key.clone(), found });

    let input = MemoryGetMetadata { key: key.clone() };
    let known = MemoryGetMetadata::module(&memory).call(input, &Context::default()).await?;
    assert_eq!(known.unwrap().access_count, 1);

    let count = MemoryCount::module(&memory).call(MemoryCount, &Context::default()).await?;
    assert_eq!(count, 1);

    let input = MemoryDelete { key: key.clone() };
    let deleted = MemoryDelete::module(&memory).call(input, &Context::default()).await?;
    assert_eq!(deleted, Deleted { key, found });

    let cleared = MemoryClear::module(&memory).call(MemoryClear, &Context::default()).await?;
    assert_eq!(cleared, Cleared { removed: 0 });
    Ok(())
}

#[tokio::test]
async fn two_memories_do_not_share_entries() {
    let (one, two) = (Memory::default(), Memory::default());
    store(&one, "color", "blue", &[]).await;
    assert_eq!(retrieve(&two, "color").await, None);
    assert_eq!(text(&two, "memory_count", "{}").await, "0");
    text(&two, "memory_clear", "{}").await;
    assert_eq!(retrieve(&one, "color").await.as_deref(), Some("blue"));
}

#[tokio::test]
async fn clones_and_tools_listed_twice_share_entries() {
    let memory = Memory::default();
    let clone = memory.clone();
    let cx = Context::default();
    let earlier = crate::support::tool(&memory, "memory_count");
    store(&clone, "color", "blue", &[]).await;
    assert_eq!(retrieve(&memory, "color").await.as_deref(), Some("blue"));
    assert_eq!(earlier.call("{}", &cx).await.unwrap().text, "1");
    // The tools keep the entries alive when the memory itself is gone.
    drop((memory, clone));
    assert_eq!(earlier.call("{}", &cx).await.unwrap().text, "1");
}

#[tokio::test]
async fn storage_search_and_metadata_work_together() {
    let memory = Memory::default();
    store(&memory, "meeting", "Monday at nine", &["work"]).await;
    store(&memory, "dentist", "Monday at noon", &["health"]).await;
    let monday = json!({"pattern": "monday"});
    assert_eq!(keys_found(&memory, monday.clone()).await, ["meeting", "dentist"],);
    text(&memory, "memory_update", r#"{"key": "meeting", "value": "Tuesday"}"#).await;
    assert_eq!(keys_found(&memory, monday.clone()).await, ["dentist"]);
    retrieve(&memory, "dentist").await;
    let known = metadata(&memory, "dentist").await.unwrap();
    assert_eq!((known.access_count, known.value_length), (1, 14));
    text(&memory, "memory_delete", r#"{"key": "dentist"}"#).await;
    assert_eq!(metadata(&memory, "dentist").await, None);
    assert!(keys_found(&memory, monday).await.is_empty());
    assert_eq!(text(&memory, "memory_list", "{}").await, r#"["meeting"]"#);
}

#[tokio::test]
async fn debug_output_hides_the_entries() {
    let memory = Memory::default();
    store(&memory, "secret", "hunter2", &[]).await;
    let shown = format!("{memory:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("secret"), "{shown}");
}

/// A store that ignores `Break` does not change the result.
#[test]
fn entries_after_the_limit_are_not_kept() {
    let limits = MemoryLimits { found_bytes: 3, ..MemoryLimits::default() };
    let mut search = Search::new("", true, true, &limits).unwrap();
    for value in ["ab", "cd", "", "ef"] {
        let _ = search.show("", value);
    }
    assert_eq!(format!("{search:?}"), "Search { found: 1, .. }");
    assert!(search.finish().is_err());
}
