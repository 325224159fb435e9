//! Arguments that mean harm: each gives the right result or an error that says why.
//!
//! A case is a line of `tests/hostile/*.jsonl`. `arguments` (or `raw`, as a model may write
//! them) are those of the call; `{"repeat": "a", "times": 3}` stands for `aaa`, and a list
//! of texts for all of them in one. `text` is what the model reads, `error` is in the error
//! that it reads, and `any` is for either; with `fragment` an error has to hold it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

mod support;

use std::alloc::System;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use support::{tool, wait};
use toolwright_module::Context;
use toolwright_module::error::{Audience, Stage};
use toolwright_text::{Limits, Text};

#[global_allocator]
static ALLOCATIONS: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Far above what a call takes, far below what it would without limits: the time that a
/// call may take by default, what one stretch of 32 KiB may take beyond it, and a machine
/// that has other work.
const LONGEST: Duration = Duration::from_secs(60);

/// What a call may allocate beside its arguments, whatever they are. All that it allocates
/// counts, also what is free again: this is no less than what it holds at any time.
const MOST: usize = 64 << 20;

/// What it may for each byte of its arguments: they are read, and cut into lines and words.
const FOR_A_BYTE: usize = 64;

/// A value with its repetitions written out.
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

#[test]
fn s146_hostile_arguments_do_no_harm() {
    let text = Text::default();
    let cases = cases();
    assert!(cases.len() >= 60, "{}", cases.len());
    for case in &cases {
        let name = case["case"].as_str().unwrap();
        let tool = tool(&text, case["tool"].as_str().unwrap());
        let arguments = match case["raw"].as_str() {
            Some(raw) => raw.to_owned(),
            None => expanded(&case["arguments"]).to_string(),
        };
        let (region, started) = (Region::new(ALLOCATIONS), Instant::now());
        let result = wait(tool.call(&arguments, &Context::default()));
        let (allocated, elapsed) = (region.change().bytes_allocated, started.elapsed());
        assert!(elapsed < LONGEST, "{name}: {elapsed:?}");
        let most = MOST + FOR_A_BYTE * arguments.len();
        assert!(allocated <= most, "{name}: {allocated} bytes for {}", arguments.len());
        let any = case["any"] == true;
        match result {
            Ok(output) => {
                assert!(output.text().len() <= Limits::default().max_output + 1024, "{name}");
                match case["text"].as_str() {
                    Some(expected) => assert_eq!(output.text(), expected, "{name}"),
                    None => assert!(any, "{name}: {:.200}", output.text()),
                }
            }
            Err(error) => {
                let told = error.for_model();
                assert_eq!(error.audience(), Audience::ModelMayRetry, "{name}: {error:#}");
                assert!(matches!(error.stage(), Stage::Arguments | Stage::Limit), "{name}");
                assert!(told.len() < 1000, "{name}: {told:.1000}");
                let expected = case["error"].as_str().or(case["fragment"].as_str());
                assert!(any || case["error"].is_string(), "{name}: {told}");
                assert!(told.contains(expected.unwrap_or_default()), "{name}: {told}");
            }
        }
    }
}
