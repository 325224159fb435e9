//! Texts that models write instead of valid JSON or instead of the right value.
//!
//! Each line of a file in `corpus` is a text, the type it is read as, and the expected value or
//! error. A new case is a new line there.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use toolwright_signature::Policy;

use crate::corpus::{readers, same};

#[derive(Deserialize)]
struct Case {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    input: String,
    expect: String,
    value: Option<Value>,
    why: String,
}

impl Case {
    fn reader(&self) -> &str {
        match self.kind.as_str() {
            "Value" => "ValueOf",
            "Either" => "EitherOf",
            kind => kind,
        }
    }
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    files.sort();
    let texts: Vec<_> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    texts
        .iter()
        .flat_map(|text| text.lines())
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

#[test]
fn every_case_of_the_corpus_is_read_as_expected() {
    let readers = readers();
    let cases = cases();
    assert!(cases.len() >= 350, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let read = readers[case.reader()](&case.input, Policy::Coerce);
        let fits = match (&read, case.expect.as_str(), &case.value) {
            (Ok(reading), "value", Some(value)) => same(&reading.value, value),
            (Err(_), "error", None) => true,
            _ => false,
        };
        if !fits {
            let read = read.map(|reading| reading.value.to_string());
            wrong.push(format!(
                "{} {}: {} ({}): {read:?}",
                case.id, case.kind, case.input, case.why
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// A stricter policy reads less, and never a different value.
#[test]
fn a_stricter_policy_reads_the_same_value_or_fails() {
    let readers = readers();
    for case in cases() {
        let read = |policy| readers[case.reader()](&case.input, policy).ok();
        let [strict, repair, coerce] = [Policy::Strict, Policy::Repair, Policy::Coerce].map(read);
        for (less, more) in [(&strict, &repair), (&repair, &coerce)] {
            if let Some(less) = less {
                let more = more.as_ref().unwrap_or_else(|| panic!("{}: {}", case.id, case.input));
                assert!(same(&less.value, &more.value), "{}: {}", case.id, case.input);
            }
        }
    }
}

/// The strict policy lists no repairs but dropped fields.
#[test]
fn every_repair_is_listed() {
    let readers = readers();
    for case in cases() {
        let reader = &readers[case.reader()];
        let strict = reader(&case.input, Policy::Strict).ok();
        if let (Ok(read), None) = (reader(&case.input, Policy::Coerce), strict) {
            assert!(!read.repairs.is_empty(), "{}: {}", case.id, case.input);
        }
    }
}
