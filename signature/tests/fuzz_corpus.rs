//! The inputs that the fuzzers found, in every test run.
//!
//! The two ignored tests write the corpus; see CONTRIBUTING.md.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::fuzzed::{lowering, partial, reading};
use crate::zoo;

/// The committed corpus of a target: a text in JSON on each line.
fn packed(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fuzzed/{target}.jsonl"))
}

/// The folder of the fuzzer, with a file for each input.
fn unpacked(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../fuzz/corpus/{target}"))
}

/// The inputs of a target, as the fuzzer has them.
fn inputs(target: &str) -> Vec<Vec<u8>> {
    let corpus = fs::read_to_string(packed(target)).unwrap();
    corpus.lines().filter_map(|line| input(&serde_json::from_str(line).unwrap())).collect()
}

/// The bytes of a line; `None` if its type is no longer in the zoo.
fn input(line: &Value) -> Option<Vec<u8>> {
    if let Some(text) = line.as_str() {
        return Some(text.as_bytes().to_vec());
    }
    let (case, text) = (line[0].as_str()?, line[1].as_str()?);
    let number = reading::cases().iter().position(|known| known.name == case)?;
    Some([&[u8::try_from(number).unwrap()], text.as_bytes()].concat())
}

#[test]
fn partial_reading_holds_for_the_fuzz_corpus() {
    inputs("partial").iter().for_each(|input| partial::check(input));
}

#[test]
fn reading_holds_for_the_fuzz_corpus() {
    inputs("reading").iter().for_each(|input| reading::check(input));
}

#[test]
fn lowering_holds_for_the_fuzz_corpus() {
    inputs("lowering").iter().for_each(|input| lowering::check(input));
}

/// Writes the committed corpus, and values of the zoo, into the fuzzers' folders.
#[test]
#[ignore = "writes fuzz/corpus"]
fn give_to_the_fuzzers() {
    let mut runner = TestRunner::deterministic();
    for target in ["partial", "reading", "lowering"] {
        let mut inputs = if packed(target).exists() { inputs(target) } else { Vec::new() };
        for case in reading::cases() {
            let value = zoo::generate::values(&case.schema).new_tree(&mut runner).unwrap();
            let value = value.current();
            match target {
                "partial" => inputs.push(format!("{}{value}", 'a').into_bytes()),
                "lowering" => {
                    let field = json!({"type": "object", "properties": {"field": &case.schema}});
                    inputs.push(format!("{field}\n{}", json!({"field": value})).into_bytes());
                    inputs.push(format!("{}\n{value}", case.schema).into_bytes());
                }
                _ => {
                    for text in [value.to_string(), json!({"given": value}).to_string()] {
                        inputs.extend(input(&json!([case.name, text])));
                    }
                }
            }
        }
        fs::create_dir_all(unpacked(target)).unwrap();
        for (i, input) in inputs.iter().enumerate() {
            fs::write(unpacked(target).join(format!("start-{i}")), input).unwrap();
        }
    }
}

/// Maximum size of a committed corpus; the smallest inputs come first.
const PACKED: usize = 90_000;

/// Writes the minimised inputs of the fuzzers into the committed corpus.
#[test]
#[ignore = "reads fuzz/corpus and writes tests/fuzzed"]
fn take_from_the_fuzzers() {
    for target in ["partial", "reading", "lowering"] {
        let Ok(files) = fs::read_dir(unpacked(target)) else {
            continue;
        };
        let mut lines: Vec<String> = files
            .filter_map(|file| line(target, fs::read(file.unwrap().path()).unwrap()))
            .map(|line| format!("{line}\n"))
            .collect();
        lines.sort_by_key(|line| (line.len(), line.clone()));
        lines.dedup();
        let mut size = 0;
        lines.retain(|line| {
            size += line.len();
            size < PACKED
        });
        lines.sort();
        fs::write(packed(target), lines.concat()).unwrap();
    }
}

/// The line of an input; `None` if it is not UTF-8.
fn line(target: &str, mut input: Vec<u8>) -> Option<Value> {
    if target != "lowering" {
        *input.first_mut()? &= 0x7f;
    }
    if target == "lowering" {
        // Half of the fuzzer's inputs are not JSON.
        serde_json::Deserializer::from_slice(&input).into_iter::<Value>().next()?.ok()?;
    }
    if target != "reading" {
        return Some(String::from_utf8(input).ok()?.into());
    }
    let (number, text) = input.split_first()?;
    let case = reading::cases().get(usize::from(*number))?;
    Some(json!([case.name, std::str::from_utf8(text).ok()?]))
}
