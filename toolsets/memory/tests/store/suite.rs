//! The suite that every store must pass. `fresh` returns an empty memory.

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use toolwright_memory::{Memory, MemoryLimits, MemorySearch, Metadata};
use toolwright_module::error::{Audience, Stage};

use crate::support::{call, metadata, retrieve, store, text};

const TASKS: usize = 64;

pub(crate) fn pass(runtime: &Runtime, fresh: impl Fn() -> Memory) {
    runtime.block_on(storing_replaces_everything_but_the_order(&fresh()));
    runtime.block_on(accesses_are_counted(&fresh()));
    runtime.block_on(updates_change_a_value_and_its_time(&fresh()));
    runtime.block_on(removals_report_what_they_removed(&fresh()));
    runtime.block_on(searches_look_in_the_selected_fields(&fresh()));
    runtime.block_on(invalid_patterns_are_reported(&fresh()));
    runtime.block_on(any_text_is_returned_unchanged(&fresh()));
    runtime.block_on(oversized_fields_are_rejected(&fresh()));
    runtime.block_on(a_full_memory_reports_it(&fresh()));
    runtime.block_on(a_search_respects_its_limits(&fresh()));
    runtime.block_on(no_update_is_lost(&fresh()));
    runtime.block_on(only_one_of_many_is_first(&fresh()));
    runtime.block_on(limits_hold_for_concurrent_calls(&fresh()));
    runtime.block_on(a_search_does_not_block_other_calls(&fresh()));
    super::model::agrees(runtime, &fresh(), 24);
}

async fn keys(memory: &Memory) -> Vec<String> {
    memory.list().await.unwrap()
}

async fn found(memory: &Memory, arguments: Value) -> Vec<String> {
    let input: MemorySearch = serde_json::from_value(arguments).unwrap();
    let found = memory.search(&input.pattern, input.in_keys, input.in_values).await.unwrap();
    found.into_iter().map(|one| one.key).collect()
}

async fn update(memory: &Memory, key: &str, value: &str) -> toolwright_module::Result<bool> {
    Ok(memory.update(key, value).await?.found)
}

async fn delete(memory: &Memory, key: &str) -> bool {
    memory.delete(key).await.unwrap().found
}

async fn clear(memory: &Memory) -> usize {
    memory.clear().await.unwrap().removed
}

async fn try_store(memory: &Memory, key: &str, value: &str) -> toolwright_module::Result<bool> {
    Ok(memory.store(key, value, None).await?.replaced)
}

async fn storing_replaces_everything_but_the_order(memory: &Memory) {
    let before = Timestamp::now();
    store(memory, "color", "grüße 👋", &["taste", "ui", "日本語", ""]).await;
    store(memory, "size", "9", &[]).await;
    let known = metadata(memory, "color").await.unwrap();
    assert_eq!(known.tags, ["taste", "ui", "日本語", ""]);
    assert_eq!((known.access_count, known.last_accessed_at), (0, None));
    assert_eq!(known.created_at, known.updated_at);
    // A database may store microseconds only.
    assert!(before.as_microsecond() <= known.created_at.as_microsecond());
    assert!(known.created_at <= Timestamp::now());
    assert_eq!(known.value_length, 7);
    // The model gets RFC 3339 in UTC.
    let shown = text(memory, "memory_get_metadata", r#"{"key": "color"}"#).await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let time = shown["created_at"].as_str().unwrap();
    assert!(time.ends_with('Z') && time.parse::<Timestamp>().unwrap() == known.created_at);

    retrieve(memory, "color").await;
    update(memory, "color", "green").await.unwrap();
    assert!(try_store(memory, "color", "red").await.unwrap());
    let after = metadata(memory, "color").await.unwrap();
    let expected = Metadata {
        created_at: after.updated_at,
        updated_at: after.updated_at,
        access_count: 0,
        last_accessed_at: None,
        tags: vec![],
        value_length: 3,
    };
    assert_eq!(after, expected);
    assert!(after.created_at >= known.created_at);
    assert_eq!(found(memory, json!({"pattern": ""})).await, ["color", "size"]);
    // Removed and stored again, it is a new entry.
    assert!(delete(memory, "color").await);
    assert!(!try_store(memory, "color", "red").await.unwrap());
    assert_eq!(found(memory, json!({"pattern": ""})).await, ["size", "color"]);
    assert_eq!(keys(memory).await, ["color", "size"]);
    assert_eq!(
        text(memory, "memory_store", r#"{"key": "color", "value": "blue"}"#).await,
        "Stored memory 'color' successfully",
    );
}

async fn accesses_are_counted(memory: &Memory) {
    store(memory, "color", "blue", &[]).await;
    let before = Timestamp::now();
    for _ in 0..3 {
        assert_eq!(retrieve(memory, "color").await.as_deref(), Some("blue"));
    }
    let known = metadata(memory, "color").await.unwrap();
    assert_eq!(known.access_count, 3);
    let last = known.last_accessed_at.unwrap();
    assert!(before.as_microsecond() <= last.as_microsecond() && last <= Timestamp::now());
    // None of these calls counts as an access, and neither does a missing key.
    found(memory, json!({"pattern": "blue"})).await;
    keys(memory).await;
    assert_eq!(retrieve(memory, "Color").await, None);
    assert_eq!(metadata(memory, "color").await, Some(known));
    assert_eq!(metadata(memory, "Color").await, None);
    assert_eq!(text(memory, "memory_retrieve", r#"{"key": "Color"}"#).await, "null");
    assert_eq!(text(memory, "memory_get_metadata", r#"{"key": "Color"}"#).await, "null");
}

async fn updates_change_a_value_and_its_time(memory: &Memory) {
    store(memory, "color", "blue", &["taste"]).await;
    retrieve(memory, "color").await;
    let before = metadata(memory, "color").await.unwrap();
    let arguments = r#"{"key": "color", "value": "green"}"#;
    let said = text(memory, "memory_update", arguments).await;
    assert_eq!(said, "Updated memory 'color' successfully");
    let after = metadata(memory, "color").await.unwrap();
    assert!(after.updated_at >= before.updated_at);
    let expected = Metadata { updated_at: after.updated_at, value_length: 5, ..before };
    assert_eq!(after, expected);
    assert_eq!(retrieve(memory, "color").await.as_deref(), Some("green"));
    let said = text(memory, "memory_update", r#"{"key": "size", "value": "9"}"#).await;
    assert_eq!(said, "Memory 'size' not found");
    assert_eq!(keys(memory).await, ["color"]);
}

async fn removals_report_what_they_removed(memory: &Memory) {
    assert_eq!(text(memory, "memory_list", "{}").await, "[]");
    assert_eq!(text(memory, "memory_clear", "{}").await, "Cleared 0 memories");
    for key in ["a", "b", "c"] {
        store(memory, key, key, &[]).await;
    }
    retrieve(memory, "a").await;
    assert_eq!(text(memory, "memory_count", "{}").await, "3");
    let arguments = r#"{"key": "a"}"#;
    assert_eq!(text(memory, "memory_delete", arguments).await, "Deleted memory 'a' successfully");
    assert_eq!(text(memory, "memory_delete", arguments).await, "Memory 'a' not found");
    assert_eq!(retrieve(memory, "a").await, None);
    assert_eq!(text(memory, "memory_count", "{}").await, "2");
    // A key that is stored again starts with no accesses.
    store(memory, "a", "a", &[]).await;
    assert_eq!(metadata(memory, "a").await.unwrap().access_count, 0);
    retrieve(memory, "b").await;
    assert_eq!(text(memory, "memory_clear", "{}").await, "Cleared 3 memories");
    assert_eq!(text(memory, "memory_count", "{}").await, "0");
    for key in ["b", "c", "d"] {
        store(memory, key, key, &[]).await;
        assert_eq!(metadata(memory, key).await.unwrap().access_count, 0);
    }
}

async fn searches_look_in_the_selected_fields(memory: &Memory) {
    // The order of insertion differs from the sorted order.
    store(memory, "zebra", "an animal", &["blue"]).await;
    store(memory, "blue_car", "a vehicle", &[]).await;
    store(memory, "sky", "is BLUE today", &[]).await;
    let search = async |arguments| found(memory, arguments).await;
    assert_eq!(search(json!({"pattern": "blue"})).await, ["blue_car", "sky"]);
    assert_eq!(search(json!({"pattern": "Blue", "in_values": false})).await, ["blue_car"]);
    assert_eq!(search(json!({"pattern": "blue", "in_keys": false})).await, ["sky"]);
    let neither = json!({"pattern": "", "in_keys": false, "in_values": false});
    assert!(search(neither).await.is_empty());
    assert_eq!(search(json!({"pattern": ""})).await, ["zebra", "blue_car", "sky"]);
    assert_eq!(search(json!({"pattern": r"^\w{3}$|mal$"})).await, ["zebra", "sky"]);
    // Every store uses the same regex engine with Unicode, and not the patterns of a database.
    store(memory, "100%_sure", "ÄRGER\nund Öl", &[]).await;
    assert_eq!(search(json!({"pattern": "ärger"})).await, ["100%_sure"]);
    assert_eq!(search(json!({"pattern": "%_"})).await, ["100%_sure"]);
    let (text_end, line_end) = ("ärger$", "(?m)ärger$");
    assert!(search(json!({"pattern": text_end})).await.is_empty());
    assert_eq!(search(json!({"pattern": line_end})).await, ["100%_sure"]);
    assert_eq!(
        text(memory, "memory_search", r#"{"pattern": "sky"}"#).await,
        r#"[{"key":"sky","value":"is BLUE today"}]"#,
    );
}

async fn invalid_patterns_are_reported(memory: &Memory) {
    for (pattern, message) in [
        ("(unclosed", "`pattern` is not a regular expression"),
        (r"(\w{99}){99}", "`pattern` is too large"),
    ] {
        let arguments = json!({"pattern": pattern}).to_string();
        let error = call(memory, "memory_search", &arguments).await.unwrap_err();
        assert_eq!(error.audience(), Audience::ModelMayRetry);
        assert!(error.for_model().starts_with(message), "{}", error.for_model());
    }
}

async fn any_text_is_returned_unchanged(memory: &Memory) {
    let longest = "ß".repeat(MemoryLimits::KEY_BYTES / 2);
    let texts = [
        "",
        " ",
        "\0",
        "a",
        "a\0b",
        "a\0c",
        "é",
        "e\u{301}",
        "'; DROP TABLE memory; --",
        "\"\\%_?$1",
        "line\r\nbreak\u{2028}",
        "\u{feff}\u{202e}\u{fffe}\u{10ffff}",
        "👩‍👩‍👧",
        "-9223372036854775809",
        "null",
        &longest,
    ];
    for text in texts {
        store(memory, text, text, &[text, "\0", text]).await;
    }
    for text in texts {
        assert_eq!(retrieve(memory, text).await.as_deref(), Some(text));
        let known = metadata(memory, text).await.unwrap();
        assert_eq!((known.access_count, known.value_length), (1, text.chars().count()));
        assert_eq!(known.tags, [text, "\0", text]);
    }
    assert_eq!(found(memory, json!({"pattern": ""})).await, texts);
    assert_eq!(found(memory, json!({"pattern": r"\x00"})).await, ["\0", "a\0b", "a\0c"]);
    let mut sorted = texts.map(str::to_owned);
    sorted.sort();
    assert_eq!(keys(memory).await, sorted);
    for text in texts {
        assert!(update(memory, text, &text.repeat(2)).await.unwrap());
        assert_eq!(retrieve(memory, text).await, Some(text.repeat(2)));
    }
    for text in texts {
        assert!(delete(memory, text).await);
    }
    assert_eq!(clear(memory).await, 0);

    let large = "0123456789abcdeé".repeat(100_000);
    store(memory, "large", &large, &[]).await;
    assert_eq!(retrieve(memory, "large").await, Some(large));
    assert_eq!(metadata(memory, "large").await.unwrap().value_length, 1_600_000);
}

async fn oversized_fields_are_rejected(memory: &Memory) {
    let small =
        memory.clone().with_limits(MemoryLimits { value_bytes: 3, ..MemoryLimits::default() });
    store(memory, "kept", "long enough", &[]).await;
    let key = "k".repeat(MemoryLimits::KEY_BYTES + 1);
    let many = vec!["tag"; MemoryLimits::TAGS + 1];
    let mut messages = Vec::new();
    for (name, arguments) in [
        ("memory_store", json!({"key": key, "value": ""})),
        ("memory_store", json!({"key": "k", "value": "", "tags": many})),
        ("memory_store", json!({"key": "k", "value": "", "tags": ["", key]})),
        ("memory_store", json!({"key": "k", "value": "four"})),
        ("memory_update", json!({"key": "kept", "value": "four"})),
    ] {
        let error = call(&small, name, &arguments.to_string()).await.unwrap_err();
        assert_eq!(error.audience(), Audience::ModelMayRetry);
        assert_eq!(error.stage(), Stage::Arguments);
        messages.push(error.for_model().into_owned());
    }
    assert_eq!(
        messages,
        [
            "`key` has 1025 bytes and the maximum is 1024; use a shorter one",
            "`tags` has 101 tags and the maximum is 100; use fewer",
            "`tags` has 1025 bytes and the maximum is 1024; use shorter tags",
            "`value` has 4 bytes and the maximum is 3; shorten it, or store it in parts under several keys",
            "`value` has 4 bytes and the maximum is 3; shorten it, or store it in parts under several keys",
        ],
    );
    assert_eq!(keys(memory).await, ["kept"]);
    // A key that is too long cannot exist, so reading it is not an error.
    assert_eq!(retrieve(memory, &key).await, None);
    assert!(!delete(memory, &key).await);
    assert!(!update(memory, &key, "").await.unwrap());
    assert_eq!(metadata(memory, &key).await, None);
    assert_eq!(retrieve(memory, "kept").await.as_deref(), Some("long enough"));
    let tags: Vec<String> = (0..MemoryLimits::TAGS).map(|tag| tag.to_string()).collect();
    small.store("k", "abc", Some(tags.clone())).await.unwrap();
    assert_eq!(metadata(memory, "k").await.unwrap().tags, tags);
}

async fn a_full_memory_reports_it(memory: &Memory) {
    let two = memory.clone().with_limits(MemoryLimits { entries: 2, ..MemoryLimits::default() });
    store(&two, "a", "", &[]).await;
    store(&two, "b", "", &[]).await;
    let error = try_store(&two, "c", "").await.unwrap_err();
    assert_eq!((error.audience(), error.stage()), (Audience::ModelMayRetry, Stage::Limit));
    assert_eq!(
        error.for_model(),
        "the memory is full: the maximum is 2 entries; delete entries that are not needed, then try again",
    );
    assert_eq!(keys(memory).await, ["a", "b"]);
    assert!(try_store(&two, "a", "replaced").await.unwrap());
    assert!(delete(&two, "b").await);
    assert!(!try_store(&two, "c", "").await.unwrap());
    clear(memory).await;

    // The bytes of keys, values and tags count.
    let ten = memory.clone().with_limits(MemoryLimits { bytes: 10, ..MemoryLimits::default() });
    store(&ten, "é", "12345", &["t", "ag"]).await;
    let error = try_store(&ten, "b", "").await.unwrap_err();
    assert_eq!(
        error.for_model(),
        "the memory is full: the maximum is 10 bytes; delete entries that are not needed, then try again",
    );
    assert!(update(&ten, "é", "123456").await.is_err());
    assert_eq!(retrieve(memory, "é").await.as_deref(), Some("12345"));
    assert!(update(&ten, "é", "1234").await.unwrap());
    assert!(!try_store(&ten, "b", "").await.unwrap());
    assert!(try_store(&ten, "é", "1234567").await.unwrap());
    assert!(try_store(&ten, "b", "1").await.is_err());
    assert!(delete(&ten, "é").await);
    assert!(try_store(&ten, "b", "123456789").await.unwrap());
    assert_eq!(clear(&ten).await, 1);
    assert!(!try_store(&ten, "c", "123456789").await.unwrap());

    // A memory above its limits can be read, and accepts changes that do not make it larger.
    let five = memory.clone().with_limits(MemoryLimits {
        bytes: 5,
        entries: 0,
        ..MemoryLimits::default()
    });
    assert_eq!(retrieve(&five, "c").await.as_deref(), Some("123456789"));
    assert!(update(&five, "c", "12345678").await.unwrap());
    assert!(try_store(&five, "c", "87654321").await.unwrap());
    assert!(update(&five, "c", "123456789").await.is_err());
    assert!(delete(&five, "c").await);
    assert!(try_store(&five, "d", "").await.is_err());
}

async fn a_search_respects_its_limits(memory: &Memory) {
    for number in 0..5 {
        store(memory, &number.to_string(), "12345", &["tag"]).await;
    }
    let all = json!({"pattern": ""}).to_string();
    let limits = MemoryLimits { found_entries: 5, found_bytes: 30, ..MemoryLimits::default() };
    let enough = memory.clone().with_limits(limits);
    assert_eq!(found(&enough, json!({"pattern": ""})).await.len(), 5);
    for limits in
        [MemoryLimits { found_entries: 4, ..limits }, MemoryLimits { found_bytes: 29, ..limits }]
    {
        let memory = memory.clone().with_limits(limits);
        let error = call(&memory, "memory_search", &all).await.unwrap_err();
        assert_eq!((error.audience(), error.stage()), (Audience::ModelMayRetry, Stage::Limit));
        let (entries, bytes) = (limits.found_entries, limits.found_bytes);
        assert_eq!(
            error.for_model(),
            format!(
                "the result exceeds the maximum of {entries} entries or {bytes} bytes; use a pattern that matches less, or list the keys and retrieve single entries"
            ),
        );
        let less = json!({"pattern": "[01]", "in_values": false});
        assert_eq!(found(&memory, less).await, ["0", "1"]);
        // Other calls still work on the same connections.
        assert_eq!(text(&memory, "memory_count", "{}").await, "5");
    }
    // More than one batch of a store.
    for number in 0..40 {
        store(memory, &format!("large {number}"), &"12345".repeat(5_000), &[]).await;
    }
    let few = memory.clone().with_limits(limits);
    for _ in 0..3 {
        assert!(call(&few, "memory_search", &all).await.is_err());
        assert_eq!(text(&few, "memory_count", "{}").await, "45");
    }
    assert_eq!(found(memory, json!({"pattern": ""})).await.len(), 45);
}

/// Runs `work` in many concurrent tasks and returns their results.
async fn race<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    work: impl Fn(usize) -> F,
) -> Vec<T> {
    let mut tasks = JoinSet::new();
    for number in 0..TASKS {
        tasks.spawn(work(number));
    }
    tasks.join_all().await
}

async fn no_update_is_lost(memory: &Memory) {
    const ROUNDS: usize = 8;
    store(memory, "shared", "0", &[]).await;
    race(|task| {
        let memory = memory.clone();
        async move {
            for round in 0..ROUNDS {
                let key = format!("{task}-{round}");
                store(&memory, &key, &key, &[&key]).await;
                assert!(update(&memory, &key, &format!("{key} twice")).await.unwrap());
                assert_eq!(retrieve(&memory, &key).await, Some(format!("{key} twice")));
                assert!(retrieve(&memory, "shared").await.is_some());
                assert!(update(&memory, "shared", &key).await.unwrap());
            }
        }
    })
    .await;
    let known = metadata(memory, "shared").await.unwrap();
    assert_eq!(known.access_count, (TASKS * ROUNDS) as u64);
    assert_eq!(keys(memory).await.len(), TASKS * ROUNDS + 1);
    let written = found(memory, json!({"pattern": "^[0-9]+-[0-9]+ twice$", "in_keys": false}));
    assert_eq!(written.await.len(), TASKS * ROUNDS);
    // Times follow the order of insertion.
    let mut earlier = Timestamp::MIN;
    for key in found(memory, json!({"pattern": ""})).await {
        let known = metadata(memory, &key).await.unwrap();
        assert!(known.created_at >= earlier && known.updated_at >= known.created_at);
        earlier = known.created_at;
    }
}

async fn only_one_of_many_is_first(memory: &Memory) {
    for _ in 0..3 {
        let stored = race(|task| {
            let memory = memory.clone();
            async move { try_store(&memory, "contended", &task.to_string()).await.unwrap() }
        });
        assert_eq!(stored.await.into_iter().filter(|replaced| !replaced).count(), 1);
        let deleted = race(|_| {
            let memory = memory.clone();
            async move { delete(&memory, "contended").await }
        });
        assert_eq!(deleted.await.into_iter().filter(|found| *found).count(), 1);
    }
    // Every entry is removed by exactly one clear, or is still there.
    let cleared = race(|task| {
        let memory = memory.clone();
        async move {
            store(&memory, &task.to_string(), "", &[]).await;
            if task % 8 == 0 { clear(&memory).await } else { 0 }
        }
    });
    assert_eq!(cleared.await.iter().sum::<usize>() + clear(memory).await, TASKS);
}

async fn limits_hold_for_concurrent_calls(memory: &Memory) {
    let entries = MemoryLimits { entries: 20, ..MemoryLimits::default() };
    // Each entry has two bytes of key and two of value.
    let bytes = MemoryLimits { bytes: 20 * 4, ..MemoryLimits::default() };
    for limits in [entries, bytes] {
        let stored = race(|task| {
            let memory = memory.clone().with_limits(limits);
            async move { try_store(&memory, &(task + 10).to_string(), "ab").await.is_ok() }
        });
        assert_eq!(stored.await.into_iter().filter(|stored| *stored).count(), 20);
        assert_eq!(clear(memory).await, 20);
    }
}

/// Other calls work while a search matches an expensive pattern.
pub(crate) async fn a_search_does_not_block_other_calls(memory: &Memory) {
    // It never matches, and the engine visits each character two hundred times.
    let mut random = 1_u32;
    let value = (0..1 << 17).map(|_| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if random >> 31 == 0 { 'a' } else { 'b' }
    });
    let pattern = "a[ab]{200}[c-z]".to_owned();
    store(memory, "large", &value.collect::<String>(), &[]).await;
    store(memory, "small", "b", &[]).await;
    let searched = memory.clone();
    let searching = tokio::spawn(async move { searched.search(&pattern, false, true).await });
    tokio::task::yield_now().await;
    assert_eq!(retrieve(memory, "large").await.map(|value| value.len()), Some(1 << 17));
    assert!(update(memory, "small", "changed").await.unwrap());
    assert_eq!(found(memory, json!({"pattern": "chang"})).await, ["small"]);
    assert!(delete(memory, "small").await);
    assert!(!searching.is_finished(), "the pattern is not expensive enough for this test");
    // The search ends after the current entry.
    searching.abort();
}
