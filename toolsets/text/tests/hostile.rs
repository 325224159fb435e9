//! Hostile arguments: each call must have the right result or a helpful error, within limits of
//! time and memory.
//!
//! A case is a line of `tests/hostile/*.jsonl`. `arguments` are the arguments of the call, or `raw`
//! is their text. In them, `{"repeat": "a", "times": 3}` means `aaa`, and a list of texts is
//! joined. `text` is the expected text for the model, and `error` a part of the expected error.
//! With `any`, both a result and an error are allowed; `fragment` is a part of that error.
#![cfg(test)]

use std::alloc::System;
use std::fs;
use std::path::Path;
use std::time::Duration;

use cpu_time::ThreadTime;
use serde_json::Value;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::{Context, Tool};
use toolwright_text::{Text, TextLimits};

#[global_allocator]
static ALLOCATIONS: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Maximum processor time of a call: the default limit, the time of one stretch of 32 KiB beyond it,
/// and a reserve for a slow machine.
const MAX_TIME: Duration = Duration::from_secs(60);

/// The time limit of the calls that end before it on any machine, so that a busy one changes no result.
const LONG: Duration = Duration::from_secs(600);

/// Maximum number of bytes that a call allocates, without those for its arguments. Freed memory
/// counts too, so this is an upper bound of the memory in use.
const MAX_BYTES: usize = 64 << 20;

/// Maximum number of bytes allocated for each byte of the arguments, which are parsed and split
/// into lines and words.
const MAX_BYTES_PER_BYTE: usize = 64;

/// Expands the repetitions of a value.
fn expanded(value: &Value) -> Value {
    let Value::Object(fields) = value else { return value.clone() };
    let field = |(name, value): (&String, &Value)| (name.clone(), text(value));
    Value::Object(fields.iter().map(field).collect())
}

fn text(value: &Value) -> Value {
    match value {
        Value::Object(one) => {
            let times = usize::try_from(one["times"].as_u64().unwrap()).unwrap();
            Value::from(one["repeat"].as_str().unwrap().repeat(times))
        }
        Value::Array(parts) => {
            let parts = parts.iter().map(text);
            Value::from(parts.map(|part| part.as_str().unwrap().to_owned()).collect::<String>())
        }
        other => other.clone(),
    }
}

fn cases() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let lines: Vec<String> = files.map(|file| fs::read_to_string(file).unwrap()).collect();
    let lines = lines.iter().flat_map(|text| text.lines());
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn tool(text: &Text, name: &str) -> Tool {
    let mut tools = text.tools().unwrap().into_iter();
    tools.find(|tool| tool.name() == name).unwrap_or_else(|| panic!("there is no {name}"))
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

#[test]
fn hostile_arguments_stay_within_time_and_memory() {
    let (text, patient) = (Text::default(), TextLimits { max_time: LONG, ..TextLimits::default() });
    let patient = Text::default().with_limits(patient);
    let cases = cases();
    assert!(cases.len() >= 60, "{}", cases.len());
    for case in &cases {
        let name = case["case"].as_str().unwrap();
        let is_endless = case["fragment"] == "took too long";
        let tool = tool(if is_endless { &text } else { &patient }, case["tool"].as_str().unwrap());
        let arguments = match case["raw"].as_str() {
            Some(raw) => raw.to_owned(),
            None => expanded(&case["arguments"]).to_string(),
        };
        let (region, started) = (Region::new(ALLOCATIONS), ThreadTime::now());
        let result = wait(tool.call(&arguments, &Context::default()));
        let (allocated, elapsed) = (region.change().bytes_allocated, started.elapsed());
        assert!(elapsed < MAX_TIME, "{name}: {elapsed:?}");
        let max_bytes = MAX_BYTES + MAX_BYTES_PER_BYTE * arguments.len();
        assert!(allocated <= max_bytes, "{name}: {allocated} bytes for {}", arguments.len());
        let any = case["any"] == true;
        match result {
            Ok(output) => {
                assert!(output.text.len() <= TextLimits::default().max_output + 1024, "{name}");
                match case["text"].as_str() {
                    Some(expected) => assert_eq!(output.text, expected, "{name}"),
                    None => assert!(any, "{name}: {:.200}", output.text),
                }
            }
            Err(error) => {
                let message = error.for_model();
                assert_eq!(error.audience(), Audience::ModelMayRetry, "{name}: {error:#}");
                assert!(matches!(error.stage(), Stage::Arguments | Stage::Limit), "{name}");
                assert!(message.len() < 1000, "{name}: {message:.1000}");
                let expected = case["error"].as_str().or(case["fragment"].as_str());
                assert!(any || case["error"].is_string(), "{name}: {message}");
                assert!(message.contains(expected.unwrap_or_default()), "{name}: {message}");
            }
        }
    }
}
