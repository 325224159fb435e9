//! Two versions of contracts: what [`ContractChange::between`] says of thousands of mutated pairs.
//!
//! Each pair is a schema of the zoo, of `foreign` or of a recorded MCP server, once as it is or with
//! one change, and once with one or two changes more. It is the input and the output of a contract, so that both
//! directions are checked. A verdict that nothing breaks must hold for every generated value: the
//! receiver's contract reads it, and the validator `jsonschema` accepts what was read. A verdict
//! that something breaks is compared with the same values, for the rate of false alarms.
//!
//! A normal run checks 600 pairs. The figures in `docs/contracts-in-ci.md` are those of:
//!
//! ```sh
//! VERSIONS_PAIRS=12000 VERSIONS_VALUES=24 cargo test --release -p toolwright-signature --test main -- versions:: --nocapture
//! ```
//!
//! A failure prints the number of its pair. `VERSIONS_FIRST=NUMBER VERSIONS_PAIRS=1` repeats it.

use std::collections::BTreeMap;
use std::path::Path;

use jsonschema::Validator;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Map, Value, json};
use toolwright_signature::{
    ChangedRule, Contract, ContractChange, ContractChangeKind, Dependent, Dialect,
};

use crate::comparing::{SAID_TOO_LITTLE, changes, validator_if_valid};
use crate::zoo::generate::values_if_any;
use crate::zoo::mistakes::sloppy;
use crate::zoo::{self, Bare, Echo, Specimen, Visitor};

/// Schemas that can be the input and the output of a contract, by name.
#[derive(Default)]
struct Schemas(Vec<(String, Value)>);

impl Visitor for Schemas {
    fn visit<T: Specimen>(&mut self, case: &str) {
        for contract in [Contract::of::<Echo<T>>(), Contract::of::<Bare<T>>()].into_iter().flatten()
        {
            let tool = contract.tool(Dialect::Mcp).unwrap();
            self.0.push((case.to_owned(), tool["inputSchema"].clone()));
        }
    }
}

impl Schemas {
    fn all() -> Self {
        let mut all = Self::default();
        zoo::tour(&mut all);
        let of_zoo = all.0.len();
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        for (folder, at) in
            [("tests/foreign", "/schema"), ("../toolsets/mcp/tests/recorded", "/none")]
        {
            let mut files: Vec<_> =
                here.join(folder).read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
            files.retain(|file| file.extension().is_some_and(|end| end == "json"));
            files.sort();
            for file in files {
                let name = file.file_stem().unwrap().to_string_lossy().into_owned();
                let text = std::fs::read_to_string(&file).unwrap();
                let value: Value = serde_json::from_str(&text).unwrap();
                match &value["tools"] {
                    Value::Array(tools) => all.0.extend(tools.iter().flat_map(|tool| {
                        let schemas = ["inputSchema", "outputSchema"].map(|side| &tool[side]);
                        let schemas = schemas.into_iter().filter(|schema| schema.is_object());
                        schemas.map(|schema| (name.clone(), schema.clone()))
                    })),
                    _ => all.0.extend(value.pointer(at).map(|schema| (name, schema.clone()))),
                }
            }
        }
        // In the notation that contracts have.
        let read = |(name, schema)| {
            let schema = contract(&schema)?.input().clone();
            Some((name, schema))
        };
        let foreign = all.0.split_off(of_zoo);
        let foreign = foreign.into_iter().filter(|(_, schema)| is_generated(schema));
        Self(all.0.into_iter().chain(foreign).filter_map(read).collect())
    }
}

/// Whether the generator knows the formats and patterns of a schema that is not of the zoo.
fn is_generated(schema: &Value) -> bool {
    const FORMATS: [&str; 9] =
        ["date", "date-time", "time", "duration", "uuid", "email", "uri", "ipv4", "ipv6"];
    match schema {
        Value::Object(map) => map.iter().all(|(word, value)| match (word.as_str(), value) {
            ("format", Value::String(format)) => FORMATS.contains(&format.as_str()),
            ("pattern", Value::String(_)) | ("patternProperties", Value::Object(_)) => false,
            _ => is_generated(value),
        }),
        Value::Array(items) => items.iter().all(is_generated),
        _ => true,
    }
}

/// A contract that takes and returns the same values.
fn contract(schema: &Value) -> Option<Contract> {
    Contract::dynamic("take", "", schema.clone(), Some(schema.clone())).ok()
}

/// Numbers that depend only on the number of the pair.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % below as u64) as usize
    }
}

/// Values that a schema allows: generated ones, and those with a mistake that still fit.
fn sample(schema: &Value, valid: &Validator, count: usize, seed: u64) -> Vec<Value> {
    let Some(values) = values_if_any(schema) else { return Vec::new() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut sampled = Vec::new();
    for values in [values.clone(), sloppy(values)] {
        for _ in 0..count / 2 {
            if let Ok(tree) = values.new_tree(&mut runner) {
                sampled.push(tree.current());
            }
        }
    }
    sampled.retain(|value| is_exact(value) && valid.is_valid(value));
    sampled
}

/// Whether each number is one that JSON keeps everywhere. Contracts ignore bounds beyond these.
fn is_exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            number.as_f64().is_none_or(|n| n.fract() != 0.0 || n.abs() < 9_007_199_254_740_992.0)
        }
        Value::Object(map) => map.values().all(is_exact),
        Value::Array(items) => items.iter().all(is_exact),
        _ => true,
    }
}

/// The schema of values with the named fields only: a sender is expected to send no others.
fn closed(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let mut map: Map<_, _> =
                map.iter().map(|(word, value)| (word.clone(), closed(value))).collect();
            if ["properties", "patternProperties"].iter().any(|word| map.contains_key(*word)) {
                map.entry("additionalProperties").or_insert(json!(false));
            }
            map.into()
        }
        Value::Array(items) => items.iter().map(closed).collect(),
        other => other.clone(),
    }
}

/// Whether the value has a field at its root or below that no part of the schema names.
fn has_unnamed(value: &Value, schema: &str) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            !schema.contains(&format!("{}:", json!(name))) || has_unnamed(value, schema)
        }),
        Value::Array(items) => items.iter().any(|item| has_unnamed(item, schema)),
        _ => false,
    }
}

/// What the verdicts on one kind of change were worth.
#[derive(Default)]
struct Kind {
    alone: usize,
    shown: usize,
    example: String,
}

#[derive(Default)]
struct Tally {
    pairs: usize,
    values: usize,
    kept: usize,
    breaking: usize,
    shown: usize,
    /// Breaking because a field would be ignored silently, which no validator reports.
    ignored: usize,
    /// Breaking, and the sender's schema allows no value that was generated.
    no_values: usize,
    kinds: BTreeMap<&'static str, Kind>,
    broken: Vec<String>,
}

impl Tally {
    /// Checks the verdict on one direction of a pair.
    fn check(
        &mut self,
        case: &str,
        seed: u64,
        rules: &[&ChangedRule],
        way: &Way<'_>,
        count: usize,
    ) {
        let (Some(valid), Some(takes)) =
            (validator_if_valid(&closed(way.sent)), validator_if_valid(way.taken))
        else {
            return;
        };
        let values = sample(way.sent, &valid, count, seed);
        self.values += values.len();
        let fails = |value: &Value| {
            let text = value.to_string();
            match (way.read)(&text) {
                Ok(read) if takes.is_valid(&read) => None,
                Ok(read) => Some(format!("{text} is read as {read}")),
                // What the old version did not read either is not lost.
                Err(_) if !(way.was_read)(&text) => None,
                Err(error) => Some(format!("{text}: {error}")),
            }
        };
        if rules.is_empty() {
            self.kept += 1;
            let failed = values.iter().find_map(fails);
            let known = |text: &String| {
                SAID_TOO_LITTLE.iter().any(|(of, part)| case.starts_with(of) && text.contains(part))
            };
            if let Some(failed) = failed.filter(|text| !known(text)) {
                self.broken.push(format!("{case} (VERSIONS_FIRST={seed}): {failed}"));
            }
            return;
        }
        self.breaking += 1;
        if values.is_empty() {
            self.no_values += 1;
            return;
        }
        let taken = way.taken.to_string();
        let shown = values.iter().any(|value| fails(value).is_some() || !takes.is_valid(value));
        let ignored = !shown && values.iter().any(|value| has_unnamed(value, &taken));
        self.shown += usize::from(shown);
        self.ignored += usize::from(ignored);
        if let ([rule], false) = (rules, ignored) {
            let kind = self.kinds.entry(kind(rule)).or_default();
            kind.alone += 1;
            kind.shown += usize::from(shown);
            if !shown && kind.example.is_empty() {
                kind.example =
                    format!("{case} {seed}: {}: {} / {}", rule.path, rule.before, rule.now);
            }
        }
    }

    fn print(&self) {
        let Self { pairs, values, kept, breaking, shown, ignored, no_values, .. } = self;
        let unshown = breaking - shown - ignored - no_values;
        println!(
            "{pairs} pairs, {values} values, nothing breaks: {kept}, of these broken: {}; breaks: \
             {breaking}, of these shown: {shown}, ignored silently: {ignored}, without a value: \
             {no_values}, not shown: {unshown}",
            self.broken.len()
        );
        for (kind, Kind { alone, shown, example }) in &self.kinds {
            println!("{alone:>6} {:>6} not shown  {kind}  {example}", alone - shown);
        }
    }
}

/// One direction: the sender's schema, the receiver's, and how the receiver reads.
struct Way<'a> {
    sent: &'a Value,
    taken: &'a Value,
    read: &'a dyn Fn(&str) -> Result<Value, String>,
    was_read: &'a dyn Fn(&str) -> bool,
}

/// Returns the kind of change: the first one with a word of both rules.
fn kind(rule: &ChangedRule) -> &'static str {
    const KINDS: [(&str, &[&str]); 8] = [
        ("rules that cannot be compared", &["cannot be compared", "break a rule"]),
        ("names of fields", &["whose name"]),
        ("required and missing fields", &["is required", "may be missing"]),
        ("renamed and further fields", &["such field", "does not name", "calls it", "other field"]),
        (
            "bounds, counts and steps",
            &["at least", "at most", "bound", "less than", "more than", "twice", "multiple"],
        ),
        ("patterns and formats", &["that match", " like "]),
        ("null", &["null"]),
        ("listed values and unions", &["`", "one of", " or ", "takes 1", "nothing"]),
    ];
    let words = format!("{} / {}", rule.before, rule.now);
    let kind = KINDS.iter().find(|(_, parts)| parts.iter().any(|part| words.contains(part)));
    kind.map_or("types", |(kind, _)| kind)
}

pub(crate) fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn a_verdict_on_two_versions_is_true_of_their_values() {
    let schemas = Schemas::all();
    let count = setting("VERSIONS_VALUES", 10);
    let (first, pairs) = (setting("VERSIONS_FIRST", 0), setting("VERSIONS_PAIRS", 600));
    let mut tally = Tally::default();
    for number in (first..).take(pairs * 4) {
        if tally.pairs == pairs {
            break;
        }
        let seed = number as u64;
        let mut dice = Dice(seed);
        let (name, original) = &schemas.0[dice.roll(schemas.0.len())];
        let mut changed = |schema: &Value| {
            let mut all = changes(schema);
            (!all.is_empty()).then(|| all.swap_remove(dice.roll(all.len())))
        };
        // One change, two changes, or one change on each side.
        let Some((what, once)) = changed(original) else { continue };
        let more = if number % 3 == 0 { None } else { changed(&once) };
        let (mut case, old, new) = match (more, number % 3) {
            (Some((and, twice)), 1) => (format!("{name}, {what}, {and}"), original.clone(), twice),
            (Some((and, twice)), _) => (format!("{name}, {what} to {and}"), once, twice),
            (None, _) => (format!("{name}, {what}"), original.clone(), once),
        };
        let (Some(before), Some(now)) = (contract(&old), contract(&new)) else { continue };
        if validator_if_valid(&old).is_none() || validator_if_valid(&new).is_none() {
            continue;
        }
        tally.pairs += 1;
        let found =
            ContractChange::between(std::slice::from_ref(&before), std::slice::from_ref(&now));
        let rules = |dependent: Dependent| -> Vec<&ChangedRule> {
            let breaking = found.iter().filter(|change| change.breaks().contains(&dependent));
            let rules = breaking.filter_map(|change| match &change.kind {
                ContractChangeKind::NarrowerInput(rule) | ContractChangeKind::WiderOutput(rule) => {
                    Some(rule)
                }
                _ => None,
            });
            rules.collect()
        };
        case.push_str(", input");
        let input = Way {
            sent: before.input(),
            taken: now.input(),
            read: &|text| now.read(text).map_err(|error| error.to_string()),
            was_read: &|text| before.read::<Value>(text).is_ok(),
        };
        tally.check(&case, seed, &rules(Dependent::Inputs), &input, count);
        let output = Way {
            sent: now.output_to_write().unwrap(),
            taken: before.output_to_read().unwrap(),
            read: &|text| before.read_output(text).map_err(|error| error.to_string()),
            was_read: &|text| now.read_output::<Value>(text).is_ok(),
        };
        let case = case.replace(", input", ", output");
        tally.check(&case, seed, &rules(Dependent::Outputs), &output, count);
    }
    tally.print();
    assert_eq!(tally.pairs, pairs);
    assert!(tally.kept > pairs / 10 && tally.shown > pairs / 10, "the pairs show too little");
    assert!(tally.broken.is_empty(), "{}", tally.broken.join("\n"));
}
