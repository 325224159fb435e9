//! Values of every type of the zoo, written with the mistakes that models make. Reading returns
//! the value that was written, or an error, and never a different value.

use std::collections::HashSet;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use toolwright_signature::{Contract, Field, Partial, Policy, Repair};

use crate::zoo::{self, Bare, Echo, Specimen, Visitor};

/// Values of each type.
const VALUES: usize = 24;

const POLICIES: [Policy; 3] = [Policy::Strict, Policy::Repair, Policy::Coerce];

/// Texts that models put into arguments; each has characters with a meaning in JSON.
const PAYLOADS: [&str; 28] = [
    r##"<script src="//cdn.x/a.js"></script>"##,
    r##"<a href="#top" class="x y">up</a>"##,
    r##"<p class="/* x */">it's</p>"##,
    r##"a { color: "#fff", b: 'c' }"##,
    r##"a::after { content: "//"; }"##,
    r##"print("# hello")"##,
    r##"let x = ["a", "b"]; // two"##,
    r##"if (a == "}") { return "{"; }"##,
    r##"{"name": "x", "value": 1}"##,
    r##"[{"a": 1}, {"b": "c"},]"##,
    r##"a,b;c|"d","e""##,
    "line one\nline \"two\"\n",
    "# Title\n\n- a \"b\"\n- [c](https://x.y/z#d \"e\")\n",
    "```json\n{\"a\": 1}\n```",
    "<think>not {\"a\": 2}</think>",
    r##"https://a.b/c?d="e"&f=//g#h"##,
    r##"C:\new\table.txt"##,
    r##"\d+\s*"x""##,
    r##"say "hi", then "bye""##,
    r##"it's 'so' "##,
    r##""quoted""##,
    r##"/* a */ "b" // c"##,
    r##"`x` and `{y}`"##,
    r##"null"##,
    r##"N/A"##,
    r##"“a” and ‘b’"##,
    "tab\there",
    r##"key": "value"##,
];

/// One type, its values, and how a text is read as it.
pub(crate) struct Kind {
    pub(crate) name: String,
    tool: &'static str,
    /// The names of its fields, at any depth.
    fields: HashSet<String>,
    /// Each value as it is written, and as the type reads it.
    values: Vec<(Value, Value)>,
    read: Box<Read>,
    /// The value that serde alone reads from a text.
    plain: Box<Plain>,
}

type Read = dyn Fn(&str, Policy) -> Option<(Value, Vec<Repair>)>;

type Plain = dyn Fn(&str) -> Option<Value>;

/// Every type of the zoo, as an output, as an input, and as a field of an input.
pub(crate) fn kinds() -> Vec<Kind> {
    let mut collect =
        Collect { kinds: Vec::new(), runner: TestRunner::deterministic(), fields: HashSet::new() };
    zoo::tour(&mut collect);
    collect.kinds
}

struct Collect {
    kinds: Vec<Kind>,
    runner: TestRunner,
    /// The names of the fields of the type that is visited.
    fields: HashSet<String>,
}

impl Visitor for Collect {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let echo = Contract::of::<Echo<T>>().expect("the zoo is full of contracts");
        let schema = echo.output_to_read().expect("an echo has an output").clone();
        self.fields = HashSet::from(["given".to_owned()]);
        declared(&schema, &mut self.fields);
        let strategy = zoo::generate::values(&schema);
        let made: Vec<Value> = (0..VALUES)
            .filter_map(|_| Some(strategy.new_tree(&mut self.runner).ok()?.current()))
            .collect();
        let given = made.iter().map(|value| json!({ "given": value })).collect::<Vec<_>>();

        let answer = echo.clone();
        self.add(
            case,
            "answer",
            &made,
            move |text, policy| {
                let read = answer.read_output_with::<T>(text, policy).ok()?;
                Some((written(&read.value)?, read.repairs))
            },
            |text| written(&serde_json::from_str::<T>(text).ok()?),
        );
        self.add(
            case,
            "field",
            &given,
            move |text, policy| {
                let read = echo.read_with::<Echo<T>>(text, policy).ok()?;
                Some((written(&read.value)?, read.repairs))
            },
            |text| written(&serde_json::from_str::<Echo<T>>(text).ok()?),
        );
        if let Ok(bare) = Contract::of::<Bare<T>>() {
            self.add(
                case,
                "arguments",
                &made,
                move |text, policy| {
                    let read = bare.read_with::<Bare<T>>(text, policy).ok()?;
                    Some((written(&read.value)?, read.repairs))
                },
                |text| written(&serde_json::from_str::<Bare<T>>(text).ok()?),
            );
        }
    }
}

impl Collect {
    fn add(
        &mut self,
        case: &str,
        place: &str,
        made: &[Value],
        read: impl Fn(&str, Policy) -> Option<(Value, Vec<Repair>)> + 'static,
        plain: impl Fn(&str) -> Option<Value> + 'static,
    ) {
        let mut values = Vec::new();
        for (number, value) in made.iter().enumerate() {
            let loaded = loaded(value, number, &|value| {
                let text = value.to_string();
                let (read, repairs) = read(&text, Policy::Strict)?;
                (repairs.is_empty() && plain(&text)? == read).then_some(read)
            });
            values.extend(loaded);
        }
        let tool = if place == "arguments" { "take" } else { "echo" };
        let name = format!("{case} as {place}");
        if !values.is_empty() {
            let (read, plain) = (Box::new(read), Box::new(plain));
            self.kinds.push(Kind { name, tool, fields: self.fields.clone(), values, read, plain });
        }
    }
}

/// The names of fields that a schema declares.
fn declared(schema: &Value, names: &mut HashSet<String>) {
    match schema {
        Value::Object(map) => {
            let properties = map.get("properties").and_then(Value::as_object);
            names.extend(properties.into_iter().flatten().map(|(name, _)| name.clone()));
            map.values().for_each(|below| declared(below, names));
        }
        Value::Array(items) => items.iter().for_each(|below| declared(below, names)),
        _ => {}
    }
}

/// A value with payloads for all texts without a rule, and the value that is read.
fn loaded(
    value: &Value,
    number: usize,
    read: &dyn Fn(&Value) -> Option<Value>,
) -> Option<(Value, Value)> {
    let mut best = (value.clone(), read(value)?);
    for place in 0..zoo::mistakes::count(value).min(12) {
        let mut changed = best.0.clone();
        let Some(node) = zoo::mistakes::nth(&mut changed, &mut { place }) else { continue };
        if !node.is_string() {
            continue;
        }
        *node = PAYLOADS[(number * 7 + place) % PAYLOADS.len()].into();
        let written = changed.clone();
        if let Some(read) = read(&changed)
            && alike(&written, &read)
        {
            best = (written, read);
        }
    }
    Some(best)
}

/// Whether the type keeps a text as it is.
fn alike(written: &Value, read: &Value) -> bool {
    fn texts<'a>(value: &'a Value, all: &mut Vec<&'a str>) {
        match value {
            Value::String(text) => all.push(text),
            Value::Array(items) => items.iter().for_each(|item| texts(item, all)),
            Value::Object(fields) => fields.values().for_each(|field| texts(field, all)),
            _ => {}
        }
    }
    let (mut one, mut two) = (Vec::new(), Vec::new());
    texts(written, &mut one);
    texts(read, &mut two);
    one.iter().filter(|text| PAYLOADS.contains(text)).all(|text| two.contains(text))
}

fn written<T: Specimen>(value: &T) -> Option<Value> {
    let mut written = serde_json::to_value(value).ok()?;
    super::reading::level(&mut written);
    Some(written)
}

/// Random numbers from a seed.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most.max(1)
    }

    fn one_in(&mut self, most: usize) -> bool {
        self.below(most) == 0
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// The allowed results of reading a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// The value, or an error.
    SameOrError,
    /// An error.
    Error,
    /// As `SameOrError`, and a dropped field is listed.
    ListedOrError,
}

/// How a writer makes mistakes, in tenths of the places where it may.
#[derive(Default)]
struct Habits {
    raw_quotes: usize,
    single_quotes: usize,
    raw_breaks: usize,
    comments: usize,
    quoting_comments: bool,
    trailing_commas: usize,
    bare_names: usize,
    python: usize,
    spread: bool,
}

struct Writer<'c> {
    habits: Habits,
    chance: &'c mut Chance,
    out: String,
    /// Whether a text has quotes without an escape.
    is_raw: bool,
    /// Where brackets, commas, colons and quotes stand, and whether a quote ends there.
    marks: Vec<(usize, bool)>,
}

const COMMENTS: [&str; 8] = [
    "// note\n",
    "# note\n",
    "/* note */",
    "// it's a note\n",
    "// TODO: {x}, [y]\n",
    "/* {1, [2 */",
    "# 3\n",
    "// see https://x.y/z#a\n",
];

const QUOTING_COMMENTS: [&str; 5] =
    ["// not \"x\"\n", "# \"a\": 1,\n", "/* \"b\" */", "// the \"best\", 'of' all\n", "// \"odd\n"];

impl Writer<'_> {
    fn tenth(&mut self, habit: usize) -> bool {
        habit > 0 && self.chance.below(10) < habit
    }

    fn mark(&mut self, c: char, ends: bool) {
        self.marks.push((self.out.len(), ends));
        self.out.push(c);
    }

    fn gap(&mut self) {
        if self.habits.spread && self.chance.one_in(3) {
            self.out.push_str("\n  ");
        }
        if self.tenth(self.habits.comments) {
            let all: &[&str] =
                if self.habits.quoting_comments { &QUOTING_COMMENTS } else { &COMMENTS };
            let comment = *self.chance.of(all);
            if !self.chance.one_in(4) {
                self.out.push(' ');
            }
            self.out.push_str(comment);
        }
    }

    fn text(&mut self, text: &str) {
        let single = self.tenth(self.habits.single_quotes);
        let quote = if single { '\'' } else { '"' };
        let raw = text.contains(quote) && self.tenth(self.habits.raw_quotes);
        let breaks = self.tenth(self.habits.raw_breaks);
        self.is_raw |= raw;
        self.mark(quote, false);
        for c in text.chars() {
            match c {
                '\\' => self.out.push_str("\\\\"),
                c if c == quote && !raw => self.out.extend(['\\', c]),
                '\n' if !breaks => self.out.push_str("\\n"),
                '\t' if !breaks => self.out.push_str("\\t"),
                c if c < ' ' && !matches!(c, '\n' | '\t') => {
                    self.out.push_str(&format!("\\u{:04x}", c as u32));
                }
                c => self.out.push(c),
            }
        }
        self.mark(quote, true);
    }

    fn name(&mut self, name: &str) {
        let plain = |c: char| c.is_ascii_alphabetic() || c == '_';
        if !name.is_empty() && name.chars().all(plain) && self.tenth(self.habits.bare_names) {
            self.out.push_str(name);
        } else {
            self.text(name);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                self.mark('[', false);
                self.gap();
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        self.comma();
                    }
                    self.value(item);
                    self.gap();
                }
                self.end(items.is_empty(), ']');
            }
            Value::Object(fields) => {
                self.mark('{', false);
                self.gap();
                for (at, (name, field)) in fields.iter().enumerate() {
                    if at > 0 {
                        self.comma();
                    }
                    self.name(name);
                    self.gap();
                    self.mark(':', false);
                    self.gap();
                    self.value(field);
                    self.gap();
                }
                self.end(fields.is_empty(), '}');
            }
            Value::Bool(word) if self.tenth(self.habits.python) => {
                self.out.push_str(if *word { "True" } else { "False" });
            }
            Value::Null if self.tenth(self.habits.python) => self.out.push_str("None"),
            other => self.out.push_str(&other.to_string()),
        }
    }

    fn comma(&mut self) {
        self.mark(',', false);
        self.gap();
    }

    fn end(&mut self, empty: bool, bracket: char) {
        if !empty && self.tenth(self.habits.trailing_commas) {
            self.comma();
        }
        self.mark(bracket, false);
    }
}

/// One text with mistakes, the value that was meant, and the allowed results.
struct Sent<'k> {
    text: String,
    meant: &'k Value,
    verdict: Verdict,
    /// The JSON without the mistakes of writing.
    clean: Option<Value>,
    /// The name that was written in place of a declared one.
    slip: Option<String>,
    /// Whether a value of the text, as far as it can be read, is one of `clean`. Not so with quotes
    /// inside a text, or with JSON inside a text.
    is_plain: bool,
}

impl Sent<'_> {
    /// Whether a value is what stands in the text: all of it, or with the entry of a map that
    /// only looks like a slip.
    fn says(&self, value: &Value) -> bool {
        let holds = |name: &String| {
            let name = format!("{}:", Value::from(name.as_str()));
            value.to_string().contains(&name)
        };
        self.clean.as_ref() == Some(value) || self.slip.as_ref().is_some_and(holds)
    }
}

/// Writes one value with mistakes and compares what is read with it; returns how many times it
/// was read.
pub(crate) fn check(kinds: &[Kind], seed: u64) -> usize {
    let mut chance = Chance::new(seed);
    (0..3).for_each(|_| {
        chance.below(2);
    });
    let kind = chance.of(kinds);
    let Some(sent) = send(kind, &mut chance) else {
        return 0;
    };
    let text = &sent.text;
    let told = |what: &str, found: &dyn std::fmt::Debug| {
        format!("seed {seed}, {}: {what}: {found:?}\nmeant {}\ntext {text}", kind.name, sent.meant)
    };
    let mut stricter: Option<Value> = None;
    for policy in POLICIES {
        let Some((value, repairs)) = (kind.read)(text, policy) else {
            assert!(stricter.is_none(), "{}", told("a milder policy reads less", &stricter));
            continue;
        };
        if let Some(stricter) = &stricter {
            assert_eq!(*stricter, value, "{}", told("policies differ", &repairs));
        }
        stricter = Some(value.clone());
        // What is the type's own JSON as it stands has that one meaning.
        if (kind.plain)(text).as_ref() == Some(&value) && repairs.is_empty() || sent.says(&value) {
            continue;
        }
        match sent.verdict {
            Verdict::Error => panic!("{}", told("it was read", &(value, repairs))),
            Verdict::ListedOrError if value != *sent.meant => {
                let left_out = |repair: &Repair| repair.what.contains("left out a field");
                let listed = repairs.iter().any(left_out);
                assert!(listed, "{}", told("not listed", &(value, repairs)));
            }
            _ => assert_eq!(value, *sent.meant, "{}", told("changed", &repairs)),
        }
    }
    if let (Some(clean), true, true) = (&sent.clean, sent.is_plain, stricter.is_some()) {
        let partial = streamed(text, &mut chance);
        for path in paths(clean) {
            // A set has no order.
            if path.contains("[\"hashed\"]") {
                continue;
            }
            let Field::Done(mut done) = partial.field::<Value>(&path) else { continue };
            super::reading::level(&mut done);
            let answer = at(clean, &path);
            assert_eq!(Some(&done), answer, "{}", told("a streamed value changed", &path));
        }
    }
    POLICIES.len()
}

/// Returns what the text says after its last piece.
fn streamed(text: &str, chance: &mut Chance) -> Partial {
    let (mut partial, mut rest) = (Partial::new(), text);
    while !rest.is_empty() {
        let end = rest.ceil_char_boundary((1 + chance.below(40)).min(rest.len()));
        partial.push(&rest[..end]);
        rest = &rest[end..];
    }
    partial
}

/// The paths of a value, of its parts and of their parts.
fn paths(value: &Value) -> Vec<String> {
    let below = |path: &str, value: &Value| -> Vec<String> {
        match value {
            Value::Object(fields) => {
                fields.keys().map(|name| format!("{path}[{}]", Value::from(&**name))).collect()
            }
            Value::Array(items) => (0..items.len()).map(|n| format!("{path}[{n}]")).collect(),
            _ => Vec::new(),
        }
    };
    let mut all = vec!["$".to_owned()];
    for path in below("$", value).into_iter().take(8) {
        let more = at(value, &path).map(|value| below(&path, value)).unwrap_or_default();
        all.push(path);
        all.extend(more.into_iter().take(4));
    }
    all
}

/// Returns the value at a path of [`paths`].
fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let mut at = value;
    let mut rest = path.strip_prefix('$')?;
    while let Some(inside) = rest.strip_prefix('[') {
        let mut steps = serde_json::Deserializer::from_str(inside).into_iter::<Value>();
        at = match steps.next()?.ok()? {
            Value::String(name) => at.get(name.as_str())?,
            step => at.get(usize::try_from(step.as_u64()?).ok()?)?,
        };
        rest = inside.get(steps.byte_offset()..)?.strip_prefix(']')?;
    }
    Some(at)
}

fn send<'k>(kind: &'k Kind, chance: &mut Chance) -> Option<Sent<'k>> {
    let (value, meant) = chance.of(&kind.values);
    let mut verdict = Verdict::SameOrError;
    let mut value = value.clone();
    let mut slip = None;
    if chance.one_in(5) {
        slip = misspelt(&mut value, &kind.fields, chance);
    }
    if slip.is_some() {
        verdict = Verdict::ListedOrError;
    }
    let mut habits = Habits { spread: chance.one_in(2), ..Habits::default() };
    for _ in 0..chance.below(3) {
        let most = 1 + chance.below(10);
        match chance.below(8) {
            0 | 1 => habits.raw_quotes = most,
            2 => habits.single_quotes = most,
            3 => habits.raw_breaks = most,
            4 => habits.comments = most.min(5),
            5 => habits.trailing_commas = most,
            6 => habits.bare_names = most,
            _ => habits.python = most,
        }
    }
    habits.quoting_comments = chance.one_in(3);
    let mut writer =
        Writer { habits, chance, out: String::new(), is_raw: false, marks: Vec::new() };
    writer.value(&value);
    let (text, is_raw, marks) = (writer.out, writer.is_raw, writer.marks);
    // With the quotes inside it, it may be another value, and one that is JSON as it stands or
    // but for what is always put right.
    if is_raw && reads_as_json(&text) {
        return None;
    }
    let harm = chance.one_in(4);
    let text = if harm { damaged(text, &marks, chance) } else { text };
    if harm && (text.is_empty() || is_raw && reads_as_json(&text)) {
        return None;
    }
    let inside = chance.below(32);
    let mut clean = serde_json::from_str(&wrapped(kind.tool, &value.to_string(), inside)).ok();
    clean.iter_mut().for_each(super::reading::level);
    let text = around(kind, text, &mut verdict, (meant, is_raw || harm), (inside, chance))?;
    let is_plain = !is_raw && !harm && !matches!(inside, 6 | 8);
    Some(Sent { text, meant, verdict, clean, slip, is_plain })
}

/// Whether a text is JSON except for single quotes and trailing commas.
fn reads_as_json(text: &str) -> bool {
    let double = text.replace('\'', "\"");
    let plain: String = double.split_whitespace().collect::<Vec<_>>().join(" ");
    let plain = plain.replace(", }", "}").replace(",}", "}").replace(", ]", "]").replace(",]", "]");
    [text, &double, &plain].iter().any(|text| serde_json::from_str::<Value>(text).is_ok())
}

/// Writes one name with an extra letter, a missing letter or two swapped letters.
fn misspelt(value: &mut Value, declared: &HashSet<String>, chance: &mut Chance) -> Option<String> {
    let mut all = Vec::new();
    for place in 0..zoo::mistakes::count(value) {
        let node = zoo::mistakes::nth(value, &mut { place });
        if node.is_some_and(|node| node.as_object().is_some_and(|fields| !fields.is_empty())) {
            all.push(place);
        }
    }
    if all.is_empty() {
        return None;
    }
    let place = *chance.of(&all);
    let Some(Value::Object(fields)) = zoo::mistakes::nth(value, &mut { place }) else {
        return None;
    };
    let names: Vec<String> =
        fields.keys().filter(|name| declared.contains(*name)).cloned().collect();
    if names.is_empty() {
        return None;
    }
    let name = chance.of(&names).clone();
    let mut letters: Vec<char> = name.chars().collect();
    if letters.len() < 2 {
        return None;
    }
    let at = chance.below(letters.len() - 1);
    match chance.below(3) {
        0 => letters.insert(at, 'x'),
        1 => drop(letters.remove(at)),
        _ => letters.swap(at, at + 1),
    }
    let other: String = letters.into_iter().collect();
    if other == name || fields.contains_key(&other) {
        return None;
    }
    let renamed = std::mem::take(fields)
        .into_iter()
        .map(|(key, value)| (if key == name { other.clone() } else { key }, value));
    *fields = renamed.collect();
    Some(other)
}

/// Puts a field, a call or an object around a text, or leaves it as it is.
fn wrapped(tool: &str, text: &str, inside: usize) -> String {
    let encoded = Value::from(text);
    match inside {
        5 => format!("{{\"input\": {text}}}"),
        6 => format!("{{\"arguments\": {encoded}}}"),
        7 => format!("{{\"name\": \"{tool}\", \"arguments\": {text}}}"),
        8 => format!(
            "{{\"type\": \"function\", \"function\": {{\"name\": \"{tool}\", \"arguments\": {encoded}}}}}"
        ),
        9 => format!("{{\"tool_calls\": [{{\"name\": \"{tool}\", \"arguments\": {text}}}]}}"),
        10 => format!("{{\"{tool}\": {text}}}"),
        11 => format!("{{\"request\": {text}}}"),
        12 => format!("{{\"properties\": {text}}}"),
        13 => format!("{{\"result\": {text}}}"),
        _ => text.to_owned(),
    }
}

/// Puts something around a text.
fn around(
    kind: &Kind,
    text: String,
    verdict: &mut Verdict,
    (meant, is_raw): (&Value, bool),
    (inside, chance): (usize, &mut Chance),
) -> Option<String> {
    Some(match inside {
        0 => format!("```json\n{text}\n```"),
        1 => format!("Here it is:\n```\n{text}\n```\nAnything else?"),
        2 => format!("Sure! {text} I hope this helps."),
        3 => format!("<think>It may be {{\"a\": 1}}.</think>\n{text}"),
        4 => format!("<tool_call>{text}</tool_call>"),
        5..=13 => wrapped(kind.tool, &text, inside),
        14 => Value::from(text).to_string(),
        15 if !is_raw && text.starts_with('{') && meant.is_object() => {
            let (_, other) = chance.of(&kind.values);
            // Two that differ; what differs for the type alone may well be the same.
            let same = serde_json::from_str::<Value>(&text).ok()? == *other;
            if other.is_object() && text.starts_with('{') && !same {
                let read = (kind.read)(&text, Policy::Coerce);
                if read.is_some_and(|(read, _)| read == *other) {
                    return None;
                }
                *verdict = Verdict::Error;
            }
            format!("Either {text} or {other}.")
        }
        // A rival that cannot be read.
        16 if !is_raw && text.starts_with('{') => {
            *verdict = Verdict::Error;
            format!("{text}\nor\n{{`x`: `y`}}")
        }
        17 if !is_raw && text.starts_with('{') => {
            *verdict = Verdict::Error;
            format!("Not {{\"x\": `y`}} but {text}")
        }
        // Drafts before the answer, whole or cut off.
        18..=20 => {
            let (other, _) = chance.of(&kind.values);
            let other = other.to_string();
            let draft = match inside {
                18 => format!("Maybe {other}?"),
                19 => other[..other.floor_char_boundary(chance.below(other.len()))].to_owned(),
                _ => format!("{other}\n{text}"),
            };
            // A mark inside it would end it there.
            if draft.contains("think>") {
                return None;
            }
            let (open, close) = *chance.of(&[
                ("<think>", "</think>"),
                ("<think>\n", "\n</think>\n\n"),
                ("<thinking>", "</thinking>"),
                ("[THINK]", "[/THINK]"),
                ("◁think▷", "◁/think▷"),
            ]);
            match chance.below(4) {
                // Without an end, all of it is a draft.
                0 => {
                    *verdict = Verdict::Error;
                    format!("{open}{draft}")
                }
                1 => format!("{open}{draft}{close}{open}{other}{close}{text}"),
                2 => {
                    let end = text.floor_char_boundary(1 + chance.below(text.len()));
                    // The beginning of a number or word may be another one.
                    if !text.starts_with(['{', '[', '"']) || is_raw {
                        return None;
                    }
                    format!("{open}{draft}{close}{}", &text[..end])
                }
                _ => format!("{open}{draft}{close}{text}"),
            }
        }
        // A text that was cut off anywhere.
        21 if !is_raw && text.starts_with(['{', '[', '"']) => {
            text[..text.floor_char_boundary(1 + chance.below(text.len()))].to_owned()
        }
        // A call of another tool beside the answer.
        22 | 23 => {
            let (other, _) = chance.of(&kind.values);
            let call = format!("{{\"name\": \"other_tool\", \"arguments\": {other}}}");
            match (inside, chance.one_in(2)) {
                (22, true) => format!("<tool_call>{call}</tool_call>\n{text}"),
                (22, false) => format!("{text}\n<tool_call>{call}</tool_call>"),
                (_, true) => format!("{text}\n{call}"),
                (_, false) => format!("{call}\n{text}"),
            }
        }
        _ => text,
    })
}

/// Removes an end, a bracket, a quote, a comma or a colon, or adds one.
fn damaged(text: String, marks: &[(usize, bool)], chance: &mut Chance) -> String {
    if marks.is_empty() {
        return text;
    }
    let (at, ends) = *chance.of(marks);
    let mut damaged = text;
    match chance.below(3) {
        0 => damaged.truncate(at),
        // Before the quote that ends a text, it would be a part of that text.
        1 if !ends => damaged.insert(at, *chance.of(&['"', '{', '}', '[', ']', ',', ':', '\''])),
        // Two numbers without a comma between them are another number.
        _ if damaged.as_bytes()[at] == b',' && glues_digits(&damaged, at) => {}
        _ => drop(damaged.remove(at)),
    }
    damaged
}

fn glues_digits(text: &str, comma: usize) -> bool {
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit() || c == '.');
    digit(text[..comma].chars().next_back()) && digit(text[comma + 1..].chars().next())
}
