//! The rules of lowering: what every dialect makes of one small schema, or of one small type.
//!
//! A rule is a file in `rules/`: the rule in words (`about`), a schema that shows it, values
//! that fit the schema (`values`) and values that do not (`wrong`). Its snapshot has what each
//! dialect makes of the schema and of the values. The tests in `foreign.rs` check the same
//! files as they check all schemas.

use std::fmt::Write;
use std::panic::catch_unwind;

use serde_json::Value;
use toolwright_signature::{Contract, ContractError, Dialect, Lowered};

use crate::foreign::{Case, cases_of};

#[test]
fn every_rule_of_lowering_holds() {
    check_all(cases_of("rules").into_iter().map(|case| {
        let text = told(&case);
        (case.name, text)
    }));
}

/// The rule, and what every dialect makes of its schema and values.
fn told(Case { about, contract, values, .. }: &Case) -> String {
    let mut text = format!("{about}\n\n{}", lowered(contract));
    for value in values {
        let rendered = rendered(contract, value);
        if !rendered.is_empty() {
            write!(text, "\nValue {}\n{rendered}", shown(value, 0, 6)).unwrap();
        }
    }
    text
}

/// Compares each text with the snapshot of its name, and fails once for all that differ.
pub(crate) fn check_all(texts: impl Iterator<Item = (String, String)>) {
    let differs = |(name, text): &(String, String)| catch_unwind(|| hold(name, text)).is_err();
    let failed: Vec<_> = texts.filter(differs).map(|(name, _)| name).collect();
    assert!(failed.is_empty(), "these rules changed: {}", failed.join(", "));
}

/// Compares a text with the snapshot of this name.
pub(crate) fn hold(name: &str, text: &str) {
    insta::with_settings!({
        snapshot_path => "snapshots/rules",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(name, text);
    });
}

/// What every dialect makes of the input, and of the output if there is one.
pub(crate) fn lowered(contract: &Contract) -> String {
    let mut text = side(|dialect| contract.lower(dialect));
    if contract.output_to_read().is_some() {
        let output = side(|dialect| contract.lower_output(dialect));
        let same = output == text.replace("loss: input ", "loss: output ");
        let output = if same { "as the input\n" } else { &output };
        write!(text, "\nOutput\n{output}").unwrap();
    }
    text
}

/// The schema and the losses of each dialect; dialects that agree stand together.
fn side<'a>(lower: impl Fn(Dialect) -> Result<&'a Lowered, ContractError>) -> String {
    grouped(|dialect| match lower(dialect) {
        Ok(lowered) => {
            let schema: Value = serde_json::from_str(lowered.schema.get()).unwrap();
            let mut text = shown(&schema, 2, 0);
            for loss in &lowered.losses {
                write!(text, "\nloss: {loss}").unwrap();
            }
            let strict = if lowered.strict { " (strict)" } else { "" };
            Some((format!("{dialect}{strict}"), text))
        }
        Err(error) => Some((dialect.to_string(), format!("error: {error}"))),
    })
}

/// The value in the shape of each dialect that does not take it as it is.
fn rendered(contract: &Contract, value: &Value) -> String {
    grouped(|dialect| {
        let wire = contract.lower_value(dialect, value).ok()?;
        (wire != *value).then(|| (dialect.to_string(), shown(&wire, 2, 0)))
    })
}

fn grouped(text_of: impl Fn(Dialect) -> Option<(String, String)>) -> String {
    let mut groups: Vec<(Vec<String>, String)> = Vec::new();
    for (dialect, text) in Dialect::ALL.into_iter().filter_map(text_of) {
        match groups.iter_mut().find(|(_, known)| *known == text) {
            Some((dialects, _)) => dialects.push(dialect),
            None => groups.push((vec![dialect], text)),
        }
    }
    let groups = groups.into_iter().map(|(dialects, text)| {
        let text = text.replace('\n', "\n  ");
        format!("{}:\n  {text}\n", dialects.join(", "))
    });
    groups.collect()
}

/// Maximum width of a value on one line.
const WIDTH: usize = 96;

/// JSON on one line where it fits, and otherwise with a line for each part. The text before it
/// on its first line takes `before` columns.
pub(crate) fn shown(value: &Value, indent: usize, before: usize) -> String {
    let line = value.to_string();
    let parts: Vec<(String, &Value)> = match value {
        Value::Object(map) => {
            map.iter().map(|(name, below)| (format!("{name:?}: "), below)).collect()
        }
        Value::Array(items) => items.iter().map(|below| (String::new(), below)).collect(),
        _ => Vec::new(),
    };
    if parts.is_empty() || indent + before + line.len() <= WIDTH {
        return line;
    }
    let part = |(name, below): (String, &Value)| {
        let text = shown(below, indent + 2, name.len());
        format!("  {name}{}", text.replace('\n', "\n  "))
    };
    let parts: Vec<_> = parts.into_iter().map(part).collect();
    let [open, close] = if value.is_object() { ["{", "}"] } else { ["[", "]"] };
    format!("{open}\n{}\n{close}", parts.join(",\n"))
}
