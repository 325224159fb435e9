//! Random sequences of calls are compared with a simple model, which is a list.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolwright_memory::Memory;
use toolwright_module::Context;

#[derive(Debug, Clone)]
enum Op {
    Store(String, String, Option<Vec<String>>),
    Retrieve(String),
    Search(String, bool, bool),
    List,
    Update(String, String),
    Delete(String),
    Clear,
    Count,
    GetMetadata(String),
}

impl Op {
    fn call(&self) -> (&'static str, Value) {
        match self {
            Self::Store(key, value, tags) => {
                ("memory_store", json!({"key": key, "value": value, "tags": tags}))
            }
            Self::Retrieve(key) => ("memory_retrieve", json!({"key": key})),
            Self::Search(words, in_keys, in_values) => (
                "memory_search",
                json!({
                    "pattern": regex::escape(words),
                    "in_keys": in_keys,
                    "in_values": in_values,
                }),
            ),
            Self::List => ("memory_list", json!({})),
            Self::Update(key, value) => ("memory_update", json!({"key": key, "value": value})),
            Self::Delete(key) => ("memory_delete", json!({"key": key})),
            Self::Clear => ("memory_clear", json!({})),
            Self::Count => ("memory_count", json!({})),
            Self::GetMetadata(key) => ("memory_get_metadata", json!({"key": key})),
        }
    }
}

/// A list of entries.
#[derive(Default)]
struct Model(Vec<Entry>);

struct Entry {
    key: String,
    value: String,
    tags: Vec<String>,
    accesses: u64,
}

impl Model {
    fn find(&mut self, key: &str) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| entry.key == key)
    }

    /// Returns the expected value of the tool. Metadata has no times.
    fn apply(&mut self, op: Op) -> Value {
        match op {
            Op::Store(key, value, tags) => {
                let new =
                    Entry { key: key.clone(), value, tags: tags.unwrap_or_default(), accesses: 0 };
                let replaced = match self.find(&key) {
                    Some(entry) => {
                        *entry = new;
                        true
                    }
                    None => {
                        self.0.push(new);
                        false
                    }
                };
                json!({"key": key, "replaced": replaced})
            }
            Op::Retrieve(key) => json!(self.find(&key).map(|entry| {
                entry.accesses += 1;
                entry.value.clone()
            })),
            Op::Search(words, in_keys, in_values) => {
                let words = words.to_lowercase();
                let hit = |text: &str| text.to_lowercase().contains(&words);
                let found = self.0.iter().filter(|entry| {
                    (in_keys && hit(&entry.key)) || (in_values && hit(&entry.value))
                });
                found.map(|entry| json!({"key": entry.key, "value": entry.value})).collect()
            }
            Op::List => {
                let mut keys: Vec<_> = self.0.iter().map(|entry| entry.key.clone()).collect();
                keys.sort();
                json!(keys)
            }
            Op::Update(key, value) => {
                let entry = self.find(&key);
                let found = entry.is_some();
                if let Some(entry) = entry {
                    entry.value = value;
                }
                json!({"key": key, "found": found})
            }
            Op::Delete(key) => {
                let found = self.find(&key).is_some();
                self.0.retain(|entry| entry.key != key);
                json!({"key": key, "found": found})
            }
            Op::Clear => json!({"removed": std::mem::take(&mut self.0).len()}),
            Op::Count => json!(self.0.len()),
            Op::GetMetadata(key) => json!(self.find(&key).map(|entry| json!({
                "access_count": entry.accesses,
                "tags": entry.tags,
                "value_length": entry.value.chars().count(),
            }))),
        }
    }
}

/// A few short keys, so that they are often equal.
fn key() -> impl Strategy<Value = String> {
    "[abAB\0]{0,2}"
}

fn value() -> impl Strategy<Value = String> {
    "[abABéÉ.* \0]{0,5}"
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (key(), value(), proptest::option::of(proptest::collection::vec("[xy]", 0..3)))
            .prop_map(|(key, value, tags)| Op::Store(key, value, tags)),
        4 => key().prop_map(Op::Retrieve),
        4 => ("[abÉ.*]{0,2}", any::<bool>(), any::<bool>())
            .prop_map(|(words, keys, values)| Op::Search(words, keys, values)),
        2 => Just(Op::List),
        3 => (key(), value()).prop_map(|(key, value)| Op::Update(key, value)),
        3 => key().prop_map(Op::Delete),
        1 => Just(Op::Clear),
        2 => Just(Op::Count),
        4 => key().prop_map(Op::GetMetadata),
    ]
}

/// Checks the order of the times and removes them.
fn without_times(mut value: Value) -> Value {
    if let Some(known) = value.as_object_mut() {
        let mut time = |field| {
            let time = known.shift_remove(field).unwrap();
            time.as_str().map(|time| time.parse::<jiff::Timestamp>().unwrap())
        };
        let (created, updated) = (time("created_at").unwrap(), time("updated_at").unwrap());
        let accessed = time("last_accessed_at");
        assert!(created <= updated);
        assert!(accessed.is_none_or(|accessed| created <= accessed));
        assert_eq!(accessed.is_some(), known["access_count"] != 0);
    }
    value
}

/// Tries `cases` sequences on `memory`, which is cleared before each.
pub(crate) fn agrees(runtime: &Runtime, memory: &Memory, cases: u32) {
    let tools = memory.tools().unwrap();
    let cx = Context::default();
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let checked = runner.run(&proptest::collection::vec(op(), 0..60), |ops| {
        let mut model = Model::default();
        runtime.block_on(async {
            let from_nothing = std::iter::once(Op::Clear);
            for (place, op) in from_nothing.chain(ops).enumerate() {
                let (name, arguments) = op.call();
                let tool = tools.iter().find(|tool| tool.name() == name).unwrap();
                let output = tool.call(&arguments.to_string(), &cx).await.unwrap();
                let mut value = output.value().unwrap().unwrap();
                if matches!(op, Op::GetMetadata(_)) {
                    value = without_times(value);
                }
                let expected = model.apply(op.clone());
                // The number of entries of the previous sequence is not checked.
                if place > 0 {
                    prop_assert_eq!(value, expected, "{:?}", op);
                }
            }
            Ok(())
        })
    });
    checked.unwrap();
}
