//! Values written as sloppily as models write them, and then damaged. Reading returns the value
//! that was written, or an error, and never a different value.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_signature::{Contract, Policy, Signature};

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug, Clone)]
struct Report {
    count: i64,
    share: f64,
    done: bool,
    text: String,
    level: Level,
    limit: Option<u8>,
    #[serde(default)]
    tags: Vec<String>,
    numbers: Vec<i32>,
    counts: BTreeMap<String, u16>,
    item: Item,
    items: Vec<Item>,
    shape: Shape,
    either: Either,
    pair: (String, i8),
}

impl Signature for Report {
    type Output = Vec<Item>;
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug, Clone)]
#[serde(rename_all = "kebab-case")]
enum Level {
    Low,
    InBetween,
    VeryHigh,
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug, Clone)]
struct Item {
    name: String,
    #[schemars(range(min = -9, max = 99))]
    quantity: i64,
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug, Clone)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Shape {
    Circle { radius: f64 },
    TallBox { height: f64, width: Option<f64> },
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug, Clone)]
#[serde(untagged)]
enum Either {
    Number(i64),
    Text(String),
    Item(Item),
}

fn text() -> impl Strategy<Value = String> {
    "[a-z ,:'\"{}\\[\\]\\\\/#0-9]{0,8}"
}

fn float() -> impl Strategy<Value = f64> {
    (-4000..4000_i32).prop_map(|eighths| f64::from(eighths) / 8.0)
}

fn item() -> impl Strategy<Value = Item> {
    (text(), -9..99_i64).prop_map(|(name, quantity)| Item { name, quantity })
}

prop_compose! {
    fn report()(
        (count, share, done, text) in (any::<i64>(), float(), any::<bool>(), text()),
        level in prop_oneof![Just(Level::Low), Just(Level::InBetween), Just(Level::VeryHigh)],
        limit in option::of(any::<u8>()),
        tags in vec(self::text(), 0..3),
        numbers in vec(any::<i32>(), 0..4),
        counts in btree_map("[a-z]{1,3}", any::<u16>(), 0..3),
        item in item(),
        items in vec(self::item(), 0..3),
        shape in prop_oneof![
            float().prop_map(|radius| Shape::Circle { radius }),
            (float(), option::of(float()))
                .prop_map(|(height, width)| Shape::TallBox { height, width }),
        ],
        either in prop_oneof![
            any::<i64>().prop_map(Either::Number),
            self::text().prop_map(Either::Text),
            self::item().prop_map(Either::Item),
        ],
        pair in (self::text(), any::<i8>()),
    ) -> Report {
        Report {
            count, share, done, text, level, limit, tags, numbers, counts, item, items, shape,
            either, pair,
        }
    }
}

/// The kinds of sloppiness; the number selects the values that have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    SingleQuotes,
    BareNames,
    TrailingCommas,
    Comments,
    Python,
    NumbersAsText,
    BooleansAsText,
    IntegersAsFloats,
    ContainersAsText,
    Capitals,
    Pairs,
    Positions,
    UnknownFields,
    Tags,
    SingleItems,
    NullAsText,
    NamesInCamelCase,
    RawControl,
}

const HABITS: [Habit; 18] = [
    Habit::SingleQuotes,
    Habit::BareNames,
    Habit::TrailingCommas,
    Habit::Comments,
    Habit::Python,
    Habit::NumbersAsText,
    Habit::BooleansAsText,
    Habit::IntegersAsFloats,
    Habit::ContainersAsText,
    Habit::Capitals,
    Habit::Pairs,
    Habit::Positions,
    Habit::UnknownFields,
    Habit::Tags,
    Habit::SingleItems,
    Habit::NullAsText,
    Habit::NamesInCamelCase,
    Habit::RawControl,
];

/// The text around the JSON.
#[derive(Debug, Clone, Copy)]
enum Around {
    Nothing,
    Fence,
    Words,
    Input,
    Call,
    Text,
    Twice,
}

const AROUND: [Around; 7] = [
    Around::Nothing,
    Around::Fence,
    Around::Words,
    Around::Input,
    Around::Call,
    Around::Text,
    Around::Twice,
];

struct Writer {
    habits: Vec<Habit>,
    /// Decides where a kind of sloppiness appears.
    seed: u64,
    out: String,
    /// Where in the text brackets, quotes, commas and colons stand.
    marks: Vec<usize>,
}

impl Writer {
    fn has(&mut self, habit: Habit) -> bool {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.habits.contains(&habit) && self.seed >> 63 == 1
    }

    fn mark(&mut self, c: char) {
        self.marks.push(self.out.len());
        self.out.push(c);
    }

    fn quoted(&mut self, text: &str) {
        let single = self.has(Habit::SingleQuotes);
        let quote = if single { '\'' } else { '"' };
        self.mark(quote);
        for c in text.chars() {
            match c {
                '\\' => self.out.push_str("\\\\"),
                c if c == quote => self.out.extend(['\\', c]),
                c => self.out.push(c),
            }
        }
        self.mark(quote);
    }

    fn name(&mut self, name: &str, is_data: bool) {
        if !is_data && self.has(Habit::BareNames) {
            self.out.push_str(name);
        } else {
            self.quoted(name);
        }
    }

    fn value(&mut self, value: &Value, place: &str) {
        let data = matches!(place, "text" | "name" | "tag" | "first" | "either" | "item_0");
        match value {
            Value::Null if place != "width" && self.has(Habit::NullAsText) => self.quoted("null"),
            Value::Null => self.word("null", "None"),
            Value::Bool(true) if self.has(Habit::BooleansAsText) => self.quoted("True"),
            Value::Bool(true) => self.word("true", "True"),
            Value::Bool(false) if self.has(Habit::BooleansAsText) => self.quoted(" FALSE"),
            Value::Bool(false) => self.word("false", "False"),
            Value::Number(number) => {
                let mut literal = number.to_string();
                if number.is_i64() && place != "either" && self.has(Habit::IntegersAsFloats) {
                    literal.push_str(".0");
                }
                if place != "either" && self.has(Habit::NumbersAsText) {
                    self.quoted(&literal);
                } else {
                    self.out.push_str(&literal);
                }
            }
            Value::String(text) if !data && self.has(Habit::Capitals) => {
                self.quoted(&text.to_uppercase().replace(['-', '_'], " "));
            }
            Value::String(text) => self.quoted(text),
            Value::Array(items) => self.list(items, place),
            Value::Object(fields) => self.object(fields, place),
        }
    }

    fn word(&mut self, json: &str, python: &str) {
        let word = if self.has(Habit::Python) { python } else { json };
        self.out.push_str(word);
    }

    /// A list or an object inside a text.
    fn inside_text(&mut self, value: &Value) -> bool {
        let as_text = self.has(Habit::ContainersAsText);
        if as_text {
            let mut inner =
                Self { out: String::new(), marks: Vec::new(), habits: Vec::new(), ..*self };
            inner.value(value, "inside");
            self.quoted(&inner.out.clone());
        }
        as_text
    }

    fn list(&mut self, items: &[Value], place: &str) {
        if place == "pair" && self.has(Habit::Positions) {
            let fields = items.iter().enumerate();
            let fields = fields.map(|(at, item)| (format!("item_{at}"), item.clone())).collect();
            return self.object(&fields, "first");
        }
        if place == "numbers" && items.len() == 1 && self.has(Habit::SingleItems) {
            return self.value(&items[0], "number");
        }
        if self.inside_text(&Value::from(items)) {
            return;
        }
        let below = match place {
            "tags" => "tag",
            "pair" => "first",
            _ => "item",
        };
        self.mark('[');
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.comma();
            }
            self.value(item, below);
        }
        self.end(items.is_empty(), ']');
    }

    fn object(&mut self, fields: &serde_json::Map<String, Value>, place: &str) {
        let is_map = place == "counts";
        if is_map && self.has(Habit::Pairs) {
            let pairs = fields.iter().map(|(key, value)| json!({"key": key, "value": value}));
            return self.list(&pairs.collect::<Vec<_>>(), "pairs");
        }
        if !matches!(place, "" | "either") && self.inside_text(&Value::Object(fields.clone())) {
            return;
        }
        self.mark('{');
        let more = !is_map && !matches!(place, "first" | "either" | "pairs" | "item");
        if more && self.has(Habit::Tags) {
            self.name("_type", false);
            self.mark(':');
            self.out.push_str(" 'Thing', ".replace('\'', "\"").as_str());
        }
        for (at, (name, value)) in fields.iter().enumerate() {
            if at > 0 {
                self.comma();
            }
            self.name(name, is_map);
            self.mark(':');
            self.out.push(' ');
            let at = if place == "pairs" || name == "key" { "text" } else { name.as_str() };
            self.value(value, if place == "either" { "either" } else { at });
        }
        if more && !fields.is_empty() && self.has(Habit::UnknownFields) {
            self.comma();
            self.name("explanation", false);
            self.mark(':');
            self.out.push_str(" [\"because\", {}]");
        }
        self.end(fields.is_empty(), '}');
    }

    fn comma(&mut self) {
        self.mark(',');
        self.out.push(' ');
        if self.has(Habit::Comments) {
            self.out.push_str("/* [1, {\"a\": 2} */ ");
        }
    }

    fn end(&mut self, empty: bool, bracket: char) {
        if !empty && self.has(Habit::TrailingCommas) {
            self.out.push(',');
        }
        self.mark(bracket);
    }
}

fn written(report: &Report, habits: &[Habit], seed: u64) -> (String, Vec<usize>) {
    let mut writer =
        Writer { habits: habits.to_vec(), seed, out: String::new(), marks: Vec::new() };
    writer.value(&json!(report), "");
    (writer.out, writer.marks)
}

fn wrapped(text: &str, around: Around) -> String {
    match around {
        Around::Nothing => text.to_owned(),
        Around::Fence => format!("```json\n{text}\n```\n"),
        Around::Words => format!("Here is what you asked for.\n\n{text}\n\nAnything else?"),
        Around::Input => format!("{{\"input\": {text}}}"),
        Around::Call => format!("{{\"name\": \"report\", \"arguments\": {}}}", json!(text)),
        Around::Text => json!(text).to_string(),
        Around::Twice => format!("{text}\n{text}"),
    }
}

thread_local! {
    static CONTRACT: Contract = Contract::of::<Report>().unwrap();
}

fn read(text: &str, policy: Policy) -> Option<Report> {
    CONTRACT.with(|contract| contract.read_with(text, policy).ok().map(|reading| reading.value))
}

fn habits() -> impl Strategy<Value = Vec<Habit>> {
    vec(proptest::sample::select(&HABITS[..]), 0..4)
}

proptest! {
    #[test]
    fn a_sloppily_written_value_is_read_as_the_value(
        report in report(),
        habits in habits(),
        around in proptest::sample::select(&AROUND[..]),
        seed in any::<u64>(),
    ) {
        let (text, _) = written(&report, &habits, seed);
        let text = wrapped(&text, around);
        for policy in [Policy::Strict, Policy::Repair, Policy::Coerce] {
            if let Some(read) = read(&text, policy) {
                prop_assert_eq!(&read, &report, "{}", text);
            }
        }
    }

    /// One kind of sloppiness alone leaves one meaning, so the value must be read.
    #[test]
    fn each_kind_of_sloppiness_alone_is_read(
        report in report(),
        habit in proptest::sample::select(&HABITS[..]),
        around in proptest::sample::select(&AROUND[..]),
        seed in any::<u64>(),
    ) {
        let (text, _) = written(&report, &[habit], seed);
        prop_assert_eq!(read(&text, Policy::Coerce), Some(report.clone()), "{}", text);
        let (text, _) = written(&report, &[], seed);
        let text = wrapped(&text, around);
        prop_assert_eq!(read(&text, Policy::Coerce), Some(report.clone()), "{}", text);
    }

    #[test]
    fn a_text_that_is_cut_off_is_an_error(
        report in report(),
        habits in habits(),
        around in proptest::sample::select(&AROUND[..]),
        seed in any::<u64>(),
    ) {
        let (text, _) = written(&report, &habits, seed);
        let text = wrapped(&text, around);
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            let cut = &text[..end];
            if let Some(read) = read(cut, Policy::Coerce) {
                // Only the end of the text around the JSON is missing.
                prop_assert!(!matches!(around, Around::Nothing | Around::Input | Around::Call | Around::Text), "{}", cut);
                prop_assert_eq!(&read, &report, "{}", cut);
            }
        }
    }

    #[test]
    fn a_missing_bracket_quote_comma_or_colon_never_changes_the_value(
        report in report(),
        habits in habits(),
        seed in any::<u64>(),
    ) {
        let (text, marks) = written(&report, &habits, seed);
        for mark in marks {
            let mut damaged = text.clone();
            damaged.remove(mark);
            if let Some(read) = read(&damaged, Policy::Coerce) {
                prop_assert_eq!(&read, &report, "{}", damaged);
            }
        }
    }
}
