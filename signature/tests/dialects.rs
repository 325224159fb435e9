//! What each dialect makes of each type: the schema, what it lost, or why not.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test is a test too, which clippy.toml cannot know"
)]

mod judge;
mod zoo;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_signature::{Contract, Dialect, Loss, Lowered, Result, Signature, assert_fits};

use zoo::generate::values;
use zoo::{Bare, Echo, Specimen, Visitor};

/// One file per type: the tool that takes it, and the output a model is asked for.
struct Everywhere;

impl Visitor for Everywhere {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let echo = Contract::of::<Echo<T>>().unwrap();
        let mut text = String::new();
        let bare = Contract::of::<Bare<T>>();
        // What is no object is taken in a field.
        let (what, input) = match &bare {
            Ok(bare) => ("input", bare),
            Err(_) => ("input with it in a field", &echo),
        };
        tell(&mut text, what, input.input(), |dialect| input.lower(dialect));
        let output = echo.output_to_read().unwrap();
        tell(&mut text, "output", output, |dialect| echo.lower_output(dialect));
        insta::assert_snapshot!(case, text);
    }
}

/// The base schema is in the snapshots of `schemas.rs`: here stands what differs.
fn tell<'a>(
    text: &mut String,
    what: &str,
    base: &Value,
    lower: impl Fn(Dialect) -> Result<&'a Lowered>,
) {
    let mut told: Vec<(Value, Dialect)> = Vec::new();
    for dialect in Dialect::ALL {
        write!(text, "{what}, {dialect}: ").unwrap();
        let lowered = match lower(dialect) {
            Ok(lowered) => lowered,
            Err(error) => {
                writeln!(text, "{error}").unwrap();
                continue;
            }
        };
        let schema: Value = serde_json::from_str(lowered.schema.get()).unwrap();
        if schema == *base {
            text.push_str("as it is\n");
        } else if let Some((_, same)) = told.iter().find(|(known, _)| *known == schema) {
            writeln!(text, "as {same}").unwrap();
        } else {
            writeln!(text, "{schema:#}").unwrap();
            told.push((schema, dialect));
        }
        for loss in &lowered.losses {
            writeln!(text, "  lost {loss}").unwrap();
        }
    }
    text.push('\n');
}

#[test]
fn s25_every_type_in_every_dialect() {
    zoo::tour(&mut Everywhere);
}

/// What lowering hands out has an object at its root, and no provider refuses it.
struct Sound;

impl Visitor for Sound {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let mut contracts = vec![Contract::of::<Echo<T>>().unwrap()];
        contracts.extend(Contract::of::<Bare<T>>());
        for (contract, dialect) in
            contracts.iter().flat_map(|contract| Dialect::ALL.map(|dialect| (contract, dialect)))
        {
            for lowered in [contract.lower(dialect), contract.lower_output(dialect)] {
                let Ok(lowered) = lowered else { continue };
                let schema: Value = serde_json::from_str(lowered.schema.get()).unwrap();
                let faults = judge::faults(dialect, lowered.strict, &schema);
                assert!(faults.is_empty(), "{case}, {dialect}: {faults:#?}");
                let resolved = jsonschema::validator_for(&schema);
                assert!(resolved.is_ok(), "{case}, {dialect}: {:?}", resolved.err());
            }
        }
    }
}

#[test]
fn no_provider_refuses_a_lowered_schema() {
    zoo::tour(&mut Sound);
}

/// How many values of each type are brought to each dialect.
const VALUES: usize = 40;

/// A value in a dialect's shape is what its provider would let a model say.
struct Shaped;

impl Visitor for Shaped {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let contract = Contract::of::<Echo<T>>().unwrap();
        let values = values(contract.output_to_read().unwrap());
        let mut runner = TestRunner::deterministic();
        let values: Vec<_> =
            (0..VALUES).map(|_| values.new_tree(&mut runner).unwrap().current()).collect();
        for dialect in Dialect::ALL {
            // MCP shows what is written.
            if dialect != Dialect::Mcp
                && let Ok(lowered) = contract.lower_output(dialect)
            {
                let lower = |value: &Value| contract.lower_output_value(dialect, value);
                fit(case, lowered, &values, lower);
            }
            if let Ok(lowered) = contract.lower(dialect) {
                let lower = |value: &Value| contract.lower_value(dialect, &json!({"given": value}));
                fit(case, lowered, &values, lower);
            }
            let Ok(bare) = Contract::of::<Bare<T>>() else { continue };
            if let Ok(lowered) = bare.lower(dialect) {
                fit(case, lowered, &values, |value| bare.lower_value(dialect, value));
            }
        }
    }
}

fn fit(case: &str, lowered: &Lowered, values: &[Value], lower: impl Fn(&Value) -> Result<Value>) {
    let schema: Value = serde_json::from_str(lowered.schema.get()).unwrap();
    let judge = jsonschema::validator_for(&schema).unwrap();
    for value in values {
        let wire = lower(value).unwrap_or_else(|error| panic!("{case}: {error}\n{schema:#}"));
        if let Err(error) = judge.validate(&wire) {
            panic!("{case}: {error}: {wire}\n{schema:#}");
        }
    }
}

#[test]
fn a_value_in_a_dialects_shape_fits_the_lowered_schema() {
    zoo::tour(&mut Shaped);
}

/// What becomes of each type, as a table.
#[derive(Default)]
struct Table {
    rows: String,
    losses: BTreeSet<String>,
    loose: Vec<(Dialect, String, String)>,
}

impl Visitor for Table {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let contract = Contract::of::<Echo<T>>().unwrap();
        write!(self.rows, "| {} |", case.replace('_', " ")).unwrap();
        for dialect in Dialect::ALL {
            let sides = [contract.lower(dialect), contract.lower_output(dialect)];
            let sides = sides.into_iter().collect::<Result<Vec<_>>>();
            let sides = sides.unwrap_or_else(|error| panic!("{case}, {dialect}: {error}"));
            let losses = || sides.iter().flat_map(|side| &side.losses);
            let cell = match losses().find(|loss| loss.keyword == "strict") {
                Some(loss) => {
                    let why = format!("at `{}`, {}", loss.path, loss.why);
                    self.loose.push((dialect, case.to_owned(), why));
                    "**not strict**".to_owned()
                }
                None => self.losses(losses()),
            };
            write!(self.rows, " {cell} |").unwrap();
        }
        self.rows.push('\n');
    }
}

impl Table {
    fn losses<'a>(&mut self, losses: impl Iterator<Item = &'a Loss>) -> String {
        let mut keywords = BTreeSet::new();
        for loss in losses {
            keywords.insert(format!("`{}`", loss.keyword));
            self.losses.insert(format!("`{}` {}", loss.keyword, loss.why));
        }
        if keywords.is_empty() {
            return "exact".to_owned();
        }
        format!("loss: {}", Vec::from_iter(keywords).join(", "))
    }

    fn text(&self) -> String {
        let mut text = String::from(
            "# Types and dialects\n\n\
            What becomes of each type when a contract is lowered, as a field of an input and as\n\
            an output. *Exact*: the provider holds a model to all that the type says. *Loss*:\n\
            something is not said there, or only in words; reading enforces it. *Not strict*: a\n\
            strict dialect cannot say it, so the whole contract is sent to the same provider\n\
            without `strict`, which is a listed loss as well.\n\n\
            The types stand in `signature/tests/zoo`. This page is written by a test:\n\
            `UPDATE_DOCS=1 cargo test -p toolwright-signature --test dialects`.\n\n",
        );
        let names = Dialect::ALL.map(Dialect::name);
        writeln!(text, "| type | {} |", names.join(" | ")).unwrap();
        writeln!(text, "|---|{}", "---|".repeat(names.len())).unwrap();
        text += &self.rows;
        text += "\n## Losses\n\n";
        for loss in &self.losses {
            writeln!(text, "- {loss}").unwrap();
        }
        text += "\n## Not strict\n\n";
        for (dialect, case, why) in &self.loose {
            writeln!(text, "- {}, {dialect}, {why}", case.replace('_', " ")).unwrap();
        }
        text
    }
}

/// The types that a strict dialect cannot say, and why no form was found.
const LOOSE: [(&str, &[Dialect], &str); 14] = [
    ("any_value", STRICT, ANY),
    ("map_of_any_value", STRICT, ANY),
    ("flattened_map_of_any_value", STRICT, ANY),
    ("union_of_a_map_and_pairs", STRICT, "a map is pairs there: which of the two was meant?"),
    ("map_of_lists", STRICT, "at the root: an empty list may be the map or its one entry"),
    ("recursive_struct", ANTHROPIC, RECURSION),
    ("recursive_union", ANTHROPIC, RECURSION),
    ("recursion_below_the_root", ANTHROPIC, RECURSION),
    ("mutual_recursion", ANTHROPIC, RECURSION),
    ("recursive_map", ANTHROPIC, RECURSION),
    ("recursive_union_without_a_tag", ANTHROPIC, RECURSION),
    ("recursive_union_with_a_tag_beside", ANTHROPIC, RECURSION),
    ("odd_names", ANTHROPIC, NAMES),
    ("map_with_look_alike_keys", ANTHROPIC, NAMES),
];
const STRICT: &[Dialect] = &[Dialect::OpenAiStrict, Dialect::Anthropic];
const ANTHROPIC: &[Dialect] = &[Dialect::Anthropic];
const ANY: &str = "objects must name their fields, and JSON in a text would be a value in hiding";
const RECURSION: &str = "recursion is refused by the provider";
const NAMES: &str = "the provider takes fields of plain names only";

#[test]
fn only_types_that_are_named_here_are_not_strict() {
    let mut table = Table::default();
    zoo::tour(&mut table);
    for (dialect, case, why) in &table.loose {
        let named = |(name, dialects, _): &(&str, &[Dialect], &str)| {
            name == case && dialects.contains(dialect)
        };
        assert!(LOOSE.iter().any(named), "{case}, {dialect}: {why}");
    }
    let count: usize = LOOSE.iter().map(|(_, dialects, _)| dialects.len()).sum();
    assert_eq!(table.loose.len(), count, "{:#?}", table.loose);
}

#[test]
fn the_page_on_dialects_says_what_lowering_does() {
    let mut table = Table::default();
    zoo::tour(&mut table);
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/dialects.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&page, table.text()).unwrap();
    }
    let written = std::fs::read_to_string(&page).unwrap_or_default();
    assert_eq!(written, table.text(), "run it with UPDATE_DOCS=1 and read the difference");
}

#[test]
fn a_signature_that_does_not_fit_is_told_so_in_a_test() {
    assert!(assert_fits::<Bare<zoo::Plain>>(Dialect::OpenAiStrict).is_empty());
    let losses = assert_fits::<Echo<zoo::Bounded>>(Dialect::OpenAiStrict);
    assert_eq!(
        losses[0].to_string(),
        "input $.given.code: `minLength` is said in the description only"
    );
    let panicked = std::panic::catch_unwind(|| {
        assert_fits::<Bare<zoo::Anything>>(Dialect::OpenAiStrict);
    });
    let text = *panicked.unwrap_err().downcast::<String>().unwrap();
    insta::assert_snapshot!(text, @"the input of `dialects::zoo::Bare<dialects::zoo::maps::Anything>` cannot be sent strict to openai-strict: input $.value: `strict` is off: any value at all; give it a type");
}

#[test]
fn lowering_is_done_once_and_kept() {
    let contract = Contract::of::<Echo<zoo::Nested>>().unwrap();
    for dialect in Dialect::ALL {
        let first = contract.lower(dialect).unwrap();
        assert!(std::ptr::eq(first, contract.lower(dialect).unwrap()));
        let clone = contract.clone();
        assert_eq!(clone.lower(dialect).unwrap().schema.get(), first.schema.get());
    }
}

#[test]
fn s74_s87_s100_s101_s103_the_mcp_form_names_describes_and_shows_both_sides() {
    let contract = Contract::of::<Bare<zoo::Documented>>().unwrap();
    let tool = contract.tool(Dialect::Mcp).unwrap();
    let keys: Vec<_> = tool.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["name", "description", "inputSchema", "outputSchema"]);
    assert_eq!(tool["inputSchema"], *contract.input());
    assert_eq!(tool["outputSchema"], *contract.output_to_write().unwrap());
    insta::assert_json_snapshot!(tool);
}

#[test]
fn the_mcp_form_has_the_title_that_a_type_gives_itself() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[schemars(title = "Weather, now")]
    struct GetWeather {}
    impl Signature for GetWeather {
        type Output = ();
    }
    let contract = Contract::of::<GetWeather>().unwrap();
    let tool = contract.tool(Dialect::Mcp).unwrap();
    let keys: Vec<_> = tool.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["name", "title", "description", "inputSchema", "outputSchema"]);
    assert_eq!(tool["title"], "Weather, now");
    let stored: Contract = serde_json::from_value(json!(contract)).unwrap();
    assert_eq!(stored.tool(Dialect::Mcp).unwrap(), tool);
    assert!(!tool["inputSchema"].to_string().contains("Weather"));
}

#[test]
fn gemini_wants_a_letter_first_whatever_was_lowered_under_another_name() {
    let contract = Contract::of::<Bare<zoo::Plain>>().unwrap();
    contract.lower(Dialect::Gemini).unwrap();
    let renamed = contract.named("3d_view").unwrap();
    renamed.lower(Dialect::Anthropic).unwrap();
    let error = renamed.lower(Dialect::Gemini).unwrap_err();
    insta::assert_snapshot!(error, @"`3d_view` does not fit gemini at $: a tool's name starts with a letter or `_` there; rename it");
}

/// A tool gives what is written, a model has to produce what is read.
#[test]
fn the_mcp_form_shows_what_is_written_and_the_others_what_is_read() {
    let contract = Contract::of::<Echo<zoo::TwoWays>>().unwrap();
    let properties = |dialect| {
        let lowered = contract.lower_output(dialect).unwrap();
        let schema: Value = serde_json::from_str(lowered.schema.get()).unwrap();
        schema["properties"].clone()
    };
    assert!(properties(Dialect::Mcp).get("written").is_some());
    assert!(properties(Dialect::Mcp).get("only_read").is_none());
    assert!(properties(Dialect::OpenAiStrict).get("read").is_some());
    assert!(properties(Dialect::OpenAiStrict).get("only_written").is_none());
}

#[test]
fn a_contract_without_an_output_cannot_be_asked_for_one() {
    let input = json!({"type": "object", "properties": {}});
    let contract = Contract::dynamic("ping", "", input, None).unwrap();
    let error = contract.lower_output(Dialect::OpenAiStrict).unwrap_err();
    insta::assert_snapshot!(error, @"the output schema of `ping` cannot be used at $: there is no output schema, so a model cannot be asked for the output");
    assert!(contract.tool(Dialect::Mcp).unwrap().get("outputSchema").is_none());
}
