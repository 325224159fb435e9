//! A reply that is still streaming: what its prefix already says.

use std::collections::BTreeMap;

use insta::assert_snapshot;
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolwright_signature::{Contract, Fault, Field, Partial};

#[derive(Deserialize, Serialize, Debug, PartialEq, Clone)]
struct Row {
    name: String,
    #[serde(default)]
    count: u32,
    state: Option<State>,
}

#[derive(Deserialize, Serialize, Debug, PartialEq, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum State {
    In,
    InProgress,
}

fn after(text: &str) -> Partial {
    let mut partial = Partial::new();
    partial.push(text);
    partial
}

fn row(name: &str, count: u32, state: Option<State>) -> Row {
    Row { name: name.into(), count, state }
}

/// What a field says after each prefix, without repetitions.
fn seen<T: DeserializeOwned + PartialEq>(text: &str, path: &str) -> Vec<Field<T>> {
    let mut partial = Partial::new();
    let mut seen = vec![partial.field(path)];
    for c in text.chars() {
        partial.push(c.encode_utf8(&mut [0; 4]));
        seen.push(partial.field(path));
    }
    seen.dedup();
    seen
}

fn fault_of<T: DeserializeOwned>(partial: &Partial, path: &str) -> Fault {
    match partial.field::<T>(path) {
        Field::Fault(fault) => fault,
        _ => panic!("no fault at {path}"),
    }
}

use Field::{Done, Partial as SoFar, Pending};

#[test]
fn a_text_grows_until_its_quote() {
    let expected = vec![
        Pending,
        SoFar(String::new()),
        SoFar("T".into()),
        SoFar("Ta".into()),
        Done("Ta".into()),
    ];
    assert_eq!(seen::<String>(r#"{"title": "Ta"}"#, "title"), expected);
    assert_eq!(after(r#"{"title": "Ta"#).text("title"), SoFar("Ta"));
}

#[test]
fn a_growing_text_is_borrowed_without_a_copy() {
    let partial = after(r#"{"title": "Ta"#);
    let lent = partial.text("title").so_far().unwrap();
    assert!(partial.as_str().as_bytes().as_ptr_range().contains(&lent.as_ptr()));
}

#[test]
fn half_an_escape_is_not_shown() {
    let text = r#"{"s": "a\n\u00e9\ud83d\ude00\"z"}"#;
    let expected = ["", "a", "a\n", "a\né", "a\né😀", "a\né😀\"", "a\né😀\"z"];
    let mut expected: Vec<_> = expected.into_iter().map(|text| SoFar(text.into())).collect();
    expected.insert(0, Pending);
    expected.push(Done("a\né😀\"z".to_owned()));
    assert_eq!(seen::<String>(text, "s"), expected);
}

#[test]
fn a_number_is_pending_until_it_ends() {
    assert_eq!(seen::<u32>(r#"{"n": 125}"#, "n"), [Pending, Done(125)]);
    assert_eq!(seen::<f64>(r#"[-1.5e+3 ]"#, "[0]"), [Pending, Done(-1500.0)]);
    assert_eq!(seen::<bool>(r#"{"b": true}"#, "b"), [Pending, Done(true)]);
    assert_eq!(seen::<Option<bool>>(r#"{"b": null}"#, "b"), [Pending, Done(None)]);
}

#[test]
fn an_enum_is_pending_until_its_quote() {
    let text = r#"{"state": "in-progress"}"#;
    assert_eq!(seen::<State>(text, "state"), [Pending, Done(State::InProgress)]);
    assert_eq!(seen::<Option<State>>(text, "state"), [Pending, Done(Some(State::InProgress))]);
}

#[test]
fn a_union_without_a_tag_is_pending_until_its_end() {
    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(untagged)]
    enum Either {
        Known(State),
        Text(String),
        One { a: u8, b: Option<u8> },
    }
    let text = r#"["in-progress", "in-court", {"a": 1, "b": 2}]"#;
    assert_eq!(seen::<Either>(text, "[0]"), [Pending, Done(Either::Known(State::InProgress))]);
    assert_eq!(seen::<Either>(text, "[1]"), [Pending, Done(Either::Text("in-court".into()))]);
    assert_eq!(seen::<Either>(text, "[2]"), [Pending, Done(Either::One { a: 1, b: Some(2) })]);
}

#[test]
fn a_value_of_any_type_and_a_character_are_pending_until_their_end() {
    let text = r#"{"a": "b"}"#;
    assert_eq!(seen::<Value>(text, "$"), [Pending, Done(json!({"a": "b"}))]);
    assert_eq!(seen::<char>(text, "a"), [Pending, Done('b')]);
    let raw = after(text).field::<Box<RawValue>>("$").so_far().unwrap();
    assert_eq!(raw.get(), text);
}

#[test]
fn a_partial_list_has_the_items_so_far() {
    let expected =
        vec![Pending, SoFar(vec![]), SoFar(vec![1]), SoFar(vec![1, 22]), Done(vec![1, 22, 3])];
    assert_eq!(seen::<Vec<u8>>("[1, 22, 3]", "$"), expected);
    let texts: Vec<String> = after(r#"["a", "b"#).field("$").so_far().unwrap();
    assert_eq!(texts, ["a", "b"]);
    let pairs = seen::<(String, u8)>(r#"{"pair": ["a", 1 ]}"#, "pair");
    assert_eq!(pairs, [Pending, SoFar(("a".into(), 1)), Done(("a".into(), 1))]);
}

#[test]
fn a_partial_object_has_the_fields_so_far_if_the_others_are_optional() {
    let expected = vec![
        Pending,
        SoFar(row("", 0, None)),
        SoFar(row("a", 0, None)),
        SoFar(row("a", 12, None)),
        SoFar(row("a", 12, Some(State::InProgress))),
        Done(row("a", 12, Some(State::InProgress))),
    ];
    let text = r#"{"name": "a", "count": 12, "state": "in-progress"}"#;
    assert_eq!(seen::<Row>(text, "$"), expected);

    // Without its name there is no row yet, but the list of those before it.
    let text = r#"{"rows": [{"name": "a"}, {"count": 1, "name": "b"#;
    let rows = seen::<Vec<Row>>(text, "rows");
    assert_eq!(rows.last().unwrap(), &SoFar(vec![row("a", 0, None), row("b", 1, None)]));
    assert!(rows.contains(&SoFar(vec![row("a", 0, None)])));
    assert!(matches!(seen::<Row>(text, "rows[1]")[..], [Pending, SoFar(_), SoFar(_)]));
}

#[test]
fn a_complete_item_that_does_not_fit_is_a_fault() {
    let rows = after(r#"{"rows": [{"name": "a"}, {"name": "b", "state": "out", "#);
    assert_eq!(rows.field::<Vec<Row>>("rows"), Pending);
    assert_eq!(rows.field::<Row>("rows[0]"), Done(row("a", 0, None)));
}

#[test]
fn a_partial_map_has_the_entries_so_far_for_keys_of_every_type() {
    let text = r#"{"1": "a", "-2": "b", "3": "c"#;
    let numbers: BTreeMap<i8, String> = after(text).field("$").so_far().unwrap();
    assert_eq!(numbers, BTreeMap::from([(1, "a".into()), (-2, "b".into()), (3, "c".into())]));
    let text = r#"{"true": 1, "false": 2, "#;
    let booleans: BTreeMap<bool, u8> = after(text).field("$").so_far().unwrap();
    assert_eq!(booleans, BTreeMap::from([(true, 1), (false, 2)]));
    let text = r#"{"in-progress": {"in": 1"#;
    #[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord, Debug)]
    #[serde(rename_all = "kebab-case")]
    enum Key {
        In,
        InProgress,
    }
    let enums: BTreeMap<Key, BTreeMap<Key, u8>> = after(text).field("$").so_far().unwrap();
    assert_eq!(enums, BTreeMap::from([(Key::InProgress, BTreeMap::new())]));
}

#[test]
fn a_missing_field_is_absent_once_its_object_is_complete() {
    let text = r#"{"a": {"b": 1}, "c": null}"#;
    assert_eq!(seen::<Option<u8>>(text, "a.x"), [Pending, Done(None)]);
    assert_eq!(after(text).field::<Option<u8>>("c.d[2].e"), Done(None));
    assert_eq!(after("[1").field::<Option<u8>>("[2]"), Pending);
    assert_eq!(after("[1]").field::<Option<u8>>("[2]"), Done(None));
    let partial = after(text);
    assert_snapshot!(fault_of::<u8>(&partial, "a.x"), @"$.a.x: expected a value, got none");
    assert!(matches!(partial.text("x"), Field::Fault(_)));
}

#[test]
fn paths_are_those_of_faults() {
    let text = r#"{"a.b": [{"[0]": "dot"}], "": "empty", "a\"b": "quote", "$": "dollar", "a": {"ä": [[1]]}}"#;
    let partial = after(text);
    for (path, expected) in [
        (r#"["a.b"][0]["[0]"]"#, "dot"),
        (r#"$["a.b"][0]["[0]"]"#, "dot"),
        (r#"$[""]"#, "empty"),
        (r#"["a\"b"]"#, "quote"),
        (r#"["a\u0022b"]"#, "quote"),
        (r#"$["$"]"#, "dollar"),
        ("$.$", "dollar"),
    ] {
        assert_eq!(partial.text(path), Done(expected), "{path}");
    }
    assert_eq!(partial.field::<u8>("a.ä[0][0]"), Done(1));
    assert_eq!(partial.field::<Value>("$"), partial.field::<Value>(""));
    for bad in ["a.", "a..b", ".", "a[", "a[x]", "a[-1]", "a[+1]", "[]", "a[\"b\"", "a[0]b"] {
        let fault = fault_of::<Value>(&partial, bad);
        assert!(fault.message.contains("a path such as"), "{bad}: {fault}");
        assert!(matches!(Partial::new().text(bad), Field::Fault(_)), "{bad}");
    }
}

#[test]
fn a_value_of_the_wrong_type_is_a_fault() {
    let text = r#"{"rows": [{"name": "a"}, {"name": 5}], "title": "Ta", "n": 300"#;
    let partial = after(text);
    let shown: Vec<String> = [
        fault_of::<Vec<Row>>(&partial, "rows"),
        fault_of::<u8>(&partial, "title"),
        fault_of::<u8>(&partial, "title.sub"),
        fault_of::<u8>(&partial, "rows.first"),
        fault_of::<u8>(&partial, "$[3]"),
        fault_of::<u8>(&after(&format!("{text}}}")), "n"),
    ]
    .iter()
    .map(ToString::to_string)
    .collect();
    assert_snapshot!(shown.join("\n"), @r#"
    $.rows[1].name: invalid type: integer `5`, expected a string
    $.title: invalid type: string "Ta", expected u8
    $.title.sub: expected an object, got a text
    $.rows.first: expected an object, got a list
    $[3]: expected a list, got an object
    $.n: invalid value: integer `300`, expected u8
    "#);
    assert_eq!(partial.field::<u8>("n"), Pending);
    assert_eq!(after(r#"{"n": 1"#).text("n").so_far(), None);
}

#[test]
fn text_around_the_json_is_skipped() {
    for (before, after_it) in [
        ("", "\n\n"),
        ("```json\n", "\n```\nDoes this help? {not}"),
        ("Sure, here it is:\n\n```\n", "\n```"),
        ("\u{feff} ", "}]"),
        ("See [1]: ", ""),
        ("As [the docs] and {name} [ß] say [12]:\n", ""),
    ] {
        let partial = after(&format!("{before}{{\"a\": [1]}}{after_it}"));
        assert_eq!(partial.field::<Vec<u8>>("a"), Done(vec![1]));
        assert!(partial.is_done() && partial.fault().is_none());
    }
    for (text, list) in
        [("[1]", "[1]"), ("So:\n[12]", "[12]"), ("So: [1, 2]", "[1,2]"), ("So: []", "[]")]
    {
        let list: Vec<u8> = serde_json::from_str(list).unwrap();
        assert_eq!(after(text).field("$"), Done(list), "{text}");
    }
    let nothing = after("I cannot help with that.");
    assert_eq!(nothing.field::<Value>("$"), Pending);
    assert!(nothing.fault().is_none() && !nothing.is_done());
}

#[test]
fn brackets_inside_a_quoted_answer_are_its_own() {
    for text in [
        r#"'<think>not {"a": 2}</think>'"#,
        "\"not {'a': 2}\"",
        "```json\n'not [2]'\n```",
        "<think>{\"a\": 1}</think>\n'not {\"a\": 2}'",
    ] {
        assert_eq!(seen::<Value>(text, "$"), [Field::Pending], "{text}");
    }
}

#[test]
fn a_draft_in_thoughts_is_skipped_as_in_the_whole_text() {
    let contract = object_contract();
    for (text, age) in [
        (
            "<think>maybe {\"name\":\"Bob\",\"age\":1}</think>\n{\"name\":\"Ada\",\"age\":36}",
            Some(36),
        ),
        ("<think>{\"age\":1}</think><think>{\"age\":2}</think>So: {\"age\":36}", Some(36)),
        ("<thinking a=\"b\">{\"age\":1}</thinking>{\"age\":36}", Some(36)),
        ("[THINK]{\"age\":1}[/THINK]```json\n{\"age\":36}\n```", Some(36)),
        ("// {\"age\":1}\n{\"age\":36}", Some(36)),
        ("Here: /* {\"age\":1} **/ {\"age\":36}", Some(36)),
        ("# {\"age\":1}\n{\"age\":36}", Some(36)),
        ("See https://a.b/#x and issue #5: {\"age\":36}", Some(36)),
        ("<think>{\"age\":1}", None),
        ("<think>{\"age\":1}</thin", None),
    ] {
        let whole = contract.read_output::<Value>(text).ok();
        assert_eq!(whole.and_then(|value| value["age"].as_u64()), age, "{text}");
        let seen = seen::<u64>(text, "age");
        let expected = age.map_or(vec![Pending], |age| vec![Pending, Done(age)]);
        assert_eq!(seen, expected, "{text}");
    }
}

fn object_contract() -> Contract {
    let fields = json!({"age": {"type": "integer"}, "name": {"type": "string"}});
    let output = json!({"type": "object", "properties": fields});
    Contract::dynamic("find", "Find.", json!({"type": "object"}), Some(output)).unwrap()
}

#[test]
fn a_syntax_error_is_reported_and_complete_fields_stay() {
    let cases = [
        r#"{"a": 1, "b": tru!"#,
        r#"{"a": 1, "b": 01, "#,
        r#"{"a": 1, "b": 1.e5, "#,
        r#"{"a": 1, "b": -, "#,
        r#"{"a": 1, "b": NaN"#,
        r#"{"a": 1, "b": [1, ]"#,
        r#"{"a": 1, "b": [1 2"#,
        r#"{"a": 1, "b": [}"#,
        r#"{"a": 1, "b": {]"#,
        r#"{"a": 1, "b": {"c" 1"#,
        r#"{"a": 1, "b": {"c": 1 "d""#,
        r#"{"a": 1, }"#,
        r#"{"a": 1, 'b'"#,
        r#"{"a": 1, "b": 'c'"#,
        "{\"a\": 1, \"b\": \"c\nd",
        "{\"a\": 1, \"b\": \"c\0d",
        r#"{"a": 1, "b": "\x"#,
        r#"{"a": 1, "b": "\u12g"#,
        r#"{"a": 1, "b": "\ud83dx"#,
        r#"{"a": 1, "b": "\ud83d\n"#,
        r#"{"a": 1, "b": "\ud83d\u0041"#,
        r#"{"a": 1, "b": "\ude00"#,
        r#"{"a": 1, "b": {"c.d": [{}, {"x": 1, "x""#,
        r#"{"a": 1, "b": {"c.d": [{}, {"x": 1, "\u0078""#,
        r#"{"a": 1, "b": ü"#,
        r#"{"a": 1, "b": // two"#,
    ];
    let mut shown = String::new();
    for case in cases {
        let mut partial = after(case);
        let fault = partial.fault().unwrap().clone();
        let printed = case.replace('\n', "\\n").replace('\0', "\\0");
        shown.push_str(&format!("{printed:<44} {fault}\n"));
        for path in ["b", "c"] {
            assert!(matches!(partial.field::<Value>(path), Field::Fault(_)), "{case}");
        }
        // More text does not repair it.
        partial.push("}}]]}\"}");
        assert_eq!(partial.fault(), Some(&fault));
        assert_eq!(partial.field::<u8>("a"), Done(1), "{case}");
    }
    assert_snapshot!(shown);
}

#[test]
fn fields_of_a_large_object_are_found() {
    let entry = |i: u32| format!(r#""k\u0065y{i}": {{"n": {i}}}, "#);
    let mut partial = after("{");
    for i in 0..40 {
        partial.push(&entry(i));
        partial.push(r#""ke"#);
        assert_eq!(partial.field::<u32>(&format!("key{i}.n")), Done(i));
        assert_eq!(partial.field::<u32>("key0.n"), Done(0));
        assert_eq!(partial.field::<u32>("ke"), Pending);
        partial.push(&format!("{i}\": 0, "));
    }
    assert!(partial.fault().is_none());
    partial.push(r#""key7""#);
    assert!(partial.fault().is_some());
}

#[test]
fn deep_nesting_is_a_fault_and_not_a_stack_overflow() {
    const DEPTH: usize = 1_000_000;
    for open in ["[", r#"{"a":"#, "[[{\"a\":["] {
        let partial = after(&open.repeat(DEPTH));
        assert!(partial.fault().is_some());
        assert!(matches!(partial.field::<Value>("$"), Field::Fault(_)));
    }
    // The maximum depth of `serde_json`, and one level more.
    let nest = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for depth in [1, 126, 127, 128] {
        let whole = serde_json::from_str::<Value>(&nest(depth)).ok();
        assert_eq!(after(&nest(depth)).field("$").so_far(), whole, "{depth}");
    }
    #[derive(Deserialize, PartialEq, Debug)]
    struct Nest(Vec<Nest>);
    assert!(matches!(after(&"[".repeat(127)).field::<Nest>("$"), SoFar(_)));
}

#[test]
fn a_huge_text_is_read_in_tiny_pieces() {
    let mut partial = after(r#"{"text": ""#);
    for _ in 0..1_000_000 {
        partial.push("0123456789\\n");
        assert!(matches!(partial.text("text"), SoFar(_)));
    }
    assert_eq!(partial.text("text").so_far().unwrap().len(), 11_000_000);
}

// ---- properties

fn values() -> impl Strategy<Value = Value> {
    let text = prop_oneof![any::<String>(), "[a-c\"\\\\/\u{0}\n😀é]{0,12}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no others", |x| x.is_finite()).prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 25, move |inner| {
        let fields = proptest::collection::vec((text.clone(), inner.clone()), 0..25);
        prop_oneof![
            proptest::collection::vec(inner, 0..8).prop_map(Value::from),
            fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// An object with any value, as JSON in one of many spellings.
fn spelled() -> impl Strategy<Value = (Value, String)> {
    let root = values().prop_map(|value| json!({"value": value}));
    (root, any::<u64>()).prop_map(|(value, seed)| {
        let mut text = String::new();
        spell(&value, &mut Dice(seed), &mut text);
        (value, text)
    })
}

struct Dice(u64);

impl Dice {
    fn one_in(&mut self, n: u64) -> bool {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33).is_multiple_of(n)
    }
}

fn spell(value: &Value, dice: &mut Dice, out: &mut String) {
    let space = |dice: &mut Dice, out: &mut String| {
        while dice.one_in(4) {
            out.push_str(if dice.one_in(2) { " " } else { "\r\n\t" });
        }
    };
    space(dice, out);
    match value {
        Value::Object(fields) => {
            out.push('{');
            for (i, (name, field)) in fields.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                space(dice, out);
                spell_text(name, dice, out);
                space(dice, out);
                out.push(':');
                spell(field, dice, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                spell(item, dice, out);
            }
            out.push(']');
        }
        Value::String(text) => spell_text(text, dice, out),
        other => out.push_str(&other.to_string()),
    }
    space(dice, out);
}

fn spell_text(text: &str, dice: &mut Dice, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        if dice.one_in(5) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else if c == '/' && dice.one_in(2) {
            out.push_str("\\/");
        } else {
            let quoted = Value::from(c.to_string()).to_string();
            out.push_str(&quoted[1..quoted.len() - 1]);
        }
    }
    out.push('"');
}

/// Every value below, with its path.
fn leaves(path: &str, value: &Value, into: &mut Vec<(String, Value)>) {
    into.push((path.to_owned(), value.clone()));
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                leaves(&format!("{path}[{}]", Value::from(name.as_str())), field, into);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                leaves(&format!("{path}[{i}]"), item, into);
            }
        }
        _ => {}
    }
}

/// The text in pieces that end anywhere.
fn pieces(text: &str, mut seed: u64) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let end = rest.ceil_char_boundary(((seed >> 33) % 20) as usize).min(rest.len());
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// What a value of any kind says so far: a text grows, any other value is complete or pending.
#[derive(Debug, PartialEq)]
enum Seen {
    Not,
    Text(String),
    Whole(Value),
}

fn look(partial: &Partial, path: &str) -> Seen {
    match (partial.field::<Value>(path), partial.field::<String>(path)) {
        (Done(value), _) => Seen::Whole(value),
        (Pending, SoFar(text)) => {
            assert_eq!(partial.text(path), SoFar(text.as_str()));
            Seen::Text(text)
        }
        (Pending, Pending) => Seen::Not,
        other => panic!("{path}: {other:?}"),
    }
}

/// Compares what a prefix says with a shorter prefix and with the whole.
fn hold(path: &str, before: &Seen, now: &Seen, whole: &Value) {
    match (before, now) {
        (_, Seen::Whole(value)) => assert_eq!(value, whole, "{path}"),
        (Seen::Not, Seen::Not) => {}
        (_, Seen::Text(text)) => {
            let shorter = match before {
                Seen::Text(before) => before,
                Seen::Not => "",
                Seen::Whole(_) => panic!("{path} was done"),
            };
            assert!(text.starts_with(shorter), "{path}: {shorter:?} then {text:?}");
            assert!(whole.as_str().unwrap().starts_with(text), "{path}: {text:?}");
        }
        _ => panic!("{path}: {before:?} then {now:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_prefix_agrees_with_the_whole((value, text) in spelled(), seed in any::<u64>()) {
        prop_assert_eq!(&serde_json::from_str::<Value>(&text).unwrap(), &value);
        let mut paths = Vec::new();
        leaves("$", &value, &mut paths);
        let mut seen: Vec<Seen> = paths.iter().map(|_| Seen::Not).collect();
        let mut partial = Partial::new();
        for piece in pieces(&text, seed) {
            partial.push(piece);
            prop_assert!(partial.fault().is_none(), "{:?}", partial.fault());
            for ((path, whole), before) in paths.iter().zip(&mut seen) {
                let now = look(&partial, path);
                hold(path, before, &now, whole);
                *before = now;
            }
        }
        prop_assert!(partial.is_done());
        prop_assert_eq!(partial.as_str(), &text);
        for ((path, whole), seen) in paths.iter().zip(seen) {
            prop_assert_eq!(seen, Seen::Whole(whole.clone()), "{}", path);
        }
    }

    /// If the whole text can be read, no field had another value before. Otherwise the caller hears
    /// that the text is void.
    #[test]
    fn no_done_field_differs_from_the_whole_text(
        parts in proptest::collection::vec(answer_parts(), 1..7),
        seed in any::<u64>(),
    ) {
        let text = parts.concat();
        let contract = object_contract();
        let mut partial = Partial::new();
        for piece in pieces(&text, seed) {
            partial.push(piece);
        }
        if let Ok(whole) = contract.read_output::<Value>(&text) {
            for field in ["age", "name"] {
                if let Done(value) = partial.field::<Value>(field) {
                    prop_assert_eq!(Some(&value), whole.get(field), "{} of {}", field, text);
                }
            }
        }
    }

    #[test]
    fn the_rows_of_a_partial_list_only_grow(rows in rows(), seed in any::<u64>()) {
        let text = json!({"rows": rows}).to_string();
        let mut partial = Partial::new();
        let mut most = 0;
        for piece in pieces(&text, seed) {
            partial.push(piece);
            let (so_far, done) = match partial.field::<Vec<Row>>("rows") {
                Pending => continue,
                SoFar(rows) => (rows, false),
                Done(rows) => (rows, true),
                Field::Fault(fault) => panic!("{fault}"),
            };
            prop_assert!(so_far.len() >= most);
            most = so_far.len();
            let (newest, before) = so_far.split_last().map_or((None, &[][..]), |(a, b)| (Some(a), b));
            prop_assert_eq!(before, &rows[..before.len()]);
            if let Some(newest) = newest {
                let whole = &rows[before.len()];
                prop_assert!(whole.name.starts_with(&newest.name));
                prop_assert!(newest.count == 0 || newest.count == whole.count);
                prop_assert!(newest.state.is_none() || newest.state == whole.state);
            }
            prop_assert!(!done || so_far == rows);
        }
        prop_assert_eq!(most, rows.len());
    }

    #[test]
    fn text_that_serde_json_rejects_is_rejected(tokens in proptest::collection::vec(tokens(), 0..14), seed in any::<u64>()) {
        // The space ends a number; which bracket begins the JSON is another question.
        let text = format!("{} ", tokens.concat());
        let text = text.find(['{', '[']).map_or(text.as_str(), |start| &text[start..]);
        let mut partial = Partial::new();
        for piece in pieces(text, seed) {
            partial.push(piece);
        }
        let root = text.find(['{', '[']).map_or("", |start| &text[start..]);
        let whole = serde_json::Deserializer::from_str(root).into_iter::<Value>().next();
        match whole {
            _ if partial.fault().is_some_and(|fault| fault.message.contains("twice")) => {}
            None => prop_assert!(!partial.is_done() && partial.fault().is_none()),
            Some(Ok(value)) => prop_assert_eq!(partial.field("$"), Done(value)),
            Some(Err(error)) if error.is_eof() => {
                prop_assert!(!partial.is_done() && partial.fault().is_none(), "{}", text);
            }
            Some(Err(error)) if error.to_string().contains("out of range") => {}
            Some(Err(error)) => {
                prop_assert!(partial.fault().is_some(), "{}: {}", text, error);
                prop_assert!(!partial.is_done());
            }
        }
    }
}

/// Parts of an answer with drafts: any sequence of them may be written.
fn answer_parts() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "<think>",
        "</think>",
        "<thinking>",
        "</thinking>",
        "<think a=\"{\">",
        "[THINK]",
        "[/THINK]",
        "<|channel|>analysis<|message|>",
        "<|end|>",
        "<|channel|>final<|message|>",
        "{\"age\":1}",
        "{\"age\":2}",
        "{\"name\":\"Ada\",\"age\":36}",
        "{\"age\":",
        "}",
        "```json\n",
        "\n```",
        "\n",
        " ",
        "Here: ",
        "[1] ",
        "{name} ",
        "// ",
        "/* ",
        "*/",
        "# ",
        "\u{feff}",
        "{\"age\":1} ",
        "\n{\"age\":1}\n",
    ])
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let state = prop_oneof![Just(None), Just(Some(State::In)), Just(Some(State::InProgress))];
    let row = (any::<String>(), any::<u32>(), state);
    proptest::collection::vec(row.prop_map(|(name, count, state)| Row { name, count, state }), 0..6)
}

fn tokens() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "{", "}", "[", "]", "[1,", "{\"k\":", ",", ":", "\"", "\"a\"", "\"b\":", "\\", "\\n",
        "\\u00e9", "\\ud83d", "\\ude00", "1", "0", "-", "e", ".", "+", "true", "false", "null",
        "nul", " ", "\n", "é", "\u{0}", "x",
    ])
}
