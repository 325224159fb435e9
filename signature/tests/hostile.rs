//! Hostile replies: an error or the right value, and never a panic, a stack overflow or a guess.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_signature::{Contract, ContractError, Dialect, Policy, Signature};

#[derive(Serialize, Deserialize, JsonSchema, Debug)]
struct Note {
    text: String,
    #[serde(default)]
    number: f64,
    #[serde(default)]
    any: Value,
    #[serde(default)]
    counts: BTreeMap<String, u8>,
}

impl Signature for Note {
    type Output = Vec<Value>;
}

#[derive(Serialize, Deserialize, JsonSchema, Debug)]
struct Ping;

impl Signature for Ping {
    type Output = Nest;
}

#[derive(Serialize, Deserialize, JsonSchema, Debug)]
struct Nest(Vec<Nest>);

fn read(wire: &str) -> Result<Note, ContractError> {
    let note = Contract::of::<Note>().unwrap().read(wire);
    if let Err(error) = &note {
        assert!(matches!(error, ContractError::Reading { .. }), "{error:?}");
    }
    note
}

#[test]
fn deep_nesting_is_an_error_and_not_a_stack_overflow() {
    const DEPTH: usize = 1_000_000;
    let open = "[".repeat(DEPTH);
    let closed = format!("{open}{}", "]".repeat(DEPTH));
    let objects = r#"{"a":"#.repeat(DEPTH);
    for deep in [&open, &closed, &objects] {
        assert!(read(deep).is_err());
        assert!(read(&format!(r#"{{"text": "", "any": {deep}}}"#)).is_err());
        let ping = Contract::of::<Ping>().unwrap();
        assert!(ping.read::<Ping>(deep).is_err());
        assert!(ping.read_output::<Nest>(deep).is_err());
        assert!(ping.read_output::<Nest>(&format!(r#"{{"result": {deep}}}"#)).is_err());
        assert!(serde_json::from_str::<Contract>(deep).is_err());
    }
}

#[test]
fn deep_nesting_in_an_unknown_field_is_skipped_or_rejected() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let wire = format!(r#"{{"text": "kept", "other": {deep}}}"#);
    if let Ok(note) = read(&wire) {
        assert_eq!(note.text, "kept");
    }
}

#[test]
fn values_at_the_maximum_depth_are_read_and_dropped() {
    let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
    let note = read(&format!(r#"{{"text": "", "any": {deep}}}"#)).unwrap();
    drop(note);
    let ping = Contract::of::<Ping>().unwrap();
    assert!(ping.read_output::<Nest>(&deep).is_ok());
}

#[test]
fn a_schema_that_nests_too_deep_to_be_stored_is_rejected() {
    let nested = |levels: usize| {
        (0..levels).fold(json!({"type": "string"}), |schema, _| {
            let mut object = json!({"type": "object", "properties": {}, "required": ["a"]});
            object["properties"]["a"] = schema;
            object
        })
    };
    let deep = nested(49);
    let contract = Contract::dynamic("deep", "", deep.clone(), Some(deep.clone())).unwrap();
    // The strict dialect accepts far fewer levels, and reports that.
    for dialect in Dialect::ALL.into_iter().filter(|dialect| *dialect != Dialect::OpenAiStrict) {
        contract.lower(dialect).unwrap();
        contract.lower_output(dialect).unwrap();
    }
    let stored = serde_json::to_string(&contract).unwrap();
    assert!(serde_json::from_str::<Contract>(&stored).is_ok());

    let refused = |input, output| Contract::dynamic("deep", "", input, Some(output)).unwrap_err();
    insta::assert_snapshot!(refused(nested(200), json!({})), @"the input schema of `deep` cannot be used at $: it nests too deep; make it flatter");
    insta::assert_snapshot!(refused(deep, nested(200)), @"the output schema of `deep` cannot be used at $: it nests too deep; make it flatter");
}

#[test]
fn a_schema_built_by_code_far_too_deep_is_rejected_on_a_small_stack() {
    let refused = || {
        let deep = || (0..200_000).fold(json!({}), |schema, _| Value::Array(vec![schema]));
        let flat = || json!({"type": "object"});
        for (name, input, output) in
            [("deep", flat(), deep()), ("deep", deep(), flat()), ("no name", deep(), deep())]
        {
            assert!(Contract::dynamic(name, "", input, Some(output)).is_err());
        }
    };
    std::thread::Builder::new().stack_size(256 * 1024).spawn(refused).unwrap().join().unwrap();
}

#[test]
fn a_long_chain_of_references_takes_no_stack() {
    let follow = || {
        let to = |i: usize| json!({"$ref": format!("#/$defs/d{i}")});
        let mut definitions: serde_json::Map<_, _> =
            (0..10_000).map(|i| (format!("d{i}"), to(i + 1))).collect();
        definitions.insert("d10000".into(), json!({"type": "string"}));
        let schema = json!({"type": "object", "properties": {"a": to(0)}, "$defs": definitions});
        let contract = Contract::dynamic("chain", "", schema, None).unwrap();
        for dialect in Dialect::ALL {
            contract.lower(dialect).unwrap();
        }
        assert_eq!(contract.read::<Value>(r#"{"a": null}"#).unwrap(), json!({}));
    };
    std::thread::Builder::new().stack_size(256 * 1024).spawn(follow).unwrap().join().unwrap();
}

#[test]
fn escaped_nul_bytes_are_text_and_bare_ones_are_an_error() {
    assert_eq!(read(r#"{"text": "a\u0000b"}"#).unwrap().text, "a\0b");
    assert!(read("{\"text\": \"a\0b\"}").is_err());
    assert!(read("\0").is_err());
    assert!(read("{\"text\": \"\"}\0").is_err());
}

#[test]
fn lone_surrogates_are_refused_and_pairs_are_read() {
    assert_eq!(read(r#"{"text": "\ud83d\ude00"}"#).unwrap().text, "😀");
    for lone in [r"\ud800", r"\udc00", r"\ud800x", r"\ud800\u0041"] {
        assert!(read(&format!(r#"{{"text": "{lone}"}}"#)).is_err(), "{lone}");
        assert!(read(&format!(r#"{{"text": "", "any": "{lone}"}}"#)).is_err(), "{lone}");
    }
}

/// A server that cut a character in half left U+FFFD, so the answer is not the one that was meant. A
/// model may also write U+FFFD itself.
#[test]
fn only_half_a_character_in_an_answer_is_listed() {
    let names = json!({"type": "array", "items": {"type": "string"}});
    let output = json!({"type": "object", "properties": {"names": names}});
    let input = json!({"type": "object"});
    let contract = Contract::dynamic("list", "List.", input, Some(output)).unwrap();
    for lost in ["\u{fffd}", "\\ufffd", "\\uFFFD"] {
        let text = format!(r#"{{"names": ["Ada", "Bo{lost}"]}}"#);
        let reading = contract.read_cut_output::<Value>(&text, Policy::Strict).unwrap();
        let listed: Vec<_> = reading.repairs.iter().map(ToString::to_string).collect();
        assert_eq!(listed, ["$.names[1]: kept U+FFFD for a character that was cut in half"]);
        assert!(contract.read_cut_output::<Value>(&text, Policy::Exact).is_err());
        let written = contract.read_output_with::<Value>(&text, Policy::Exact).unwrap();
        assert_eq!((&written.value["names"][1], written.repairs.len()), (&json!("Bo\u{fffd}"), 0));
    }
    let whole = contract.read_cut_output::<Value>(r#"{"names": ["\ud83d\ude00"]}"#, Policy::Exact);
    assert!(whole.unwrap().repairs.is_empty());
}

#[test]
fn a_number_too_large_for_its_type_is_refused() {
    assert!(read(r#"{"text": "", "number": 1e999}"#).is_err());
    assert!(read(r#"{"text": "", "any": -1e999}"#).is_err());
    assert!(read(r#"{"text": "", "counts": {"a": 256}}"#).is_err());
    assert!(read(r#"{"text": "", "counts": {"a": 99999999999999999999999999}}"#).is_err());
    assert!(read(r#"{"text": "", "number": NaN}"#).is_err());
    let zero = read(r#"{"text": "", "number": -0}"#).unwrap();
    assert_eq!(zero.number, 0.0);
}

/// Taking either of two values for one field would be a guess.
#[test]
fn a_field_given_twice_is_refused() {
    let error = read(r#"{"text": "a", "text": "b"}"#).unwrap_err();
    insta::assert_snapshot!(error, @"input of `note` does not fit: $: field `text` is given twice; give it once");
    // Also where the text needs more than one pass.
    assert!(read(r#"{"text": "a", "number": null, "text": "b"}"#).is_err());
}

#[test]
fn ten_megabytes_are_read_and_an_error_about_them_is_short() {
    let long = "x".repeat(10_000_000);
    let note = read(&format!(r#"{{"text": "{long}"}}"#)).unwrap();
    assert_eq!(note.text.len(), long.len());

    for wire in [
        format!(r#"{{"text": "", "number": "{long}"}}"#),
        format!(r#"{{"text": "", "counts": {{"{long}": -1}}}}"#),
    ] {
        let error = read(&wire).unwrap_err();
        assert!(error.to_string().len() < 10_000, "{} bytes", error.to_string().len());
    }
    let ping = Contract::of::<Ping>().unwrap();
    let error = ping.read::<Ping>(&format!(r#"["{long}"]"#)).unwrap_err();
    assert!(error.to_string().len() < 10_000);
}

#[test]
fn a_message_is_cut_between_characters() {
    for length in 990..1010 {
        let long = "ä€😀".repeat(length);
        let error = read(&format!(r#"{{"text": "", "number": "{long}"}}"#)).unwrap_err();
        assert!(error.to_string().ends_with("😀…\""), "{error}");
    }
}

/// Each level could be read in eight ways, so all of them together in 8 to the power of the depth.
#[test]
fn a_union_that_is_its_own_member_is_read_quickly() {
    let members = vec![json!({"$ref": "#/$defs/a"}); 8];
    let schema = json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a"}, "b": {"type": "string"}},
        "$defs": {"a": {"anyOf": members}},
    });
    let contract = Contract::dynamic("a", "", schema, None).unwrap();
    let start = Instant::now();
    let read: Value = contract.read(r#"{"a": {"a": [{}]}, "b": null}"#).unwrap();
    // Far more than it takes, and far less than trying all of them.
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(read, json!({"a": {"a": [{}]}}));
}

#[test]
fn a_byte_order_mark_and_control_characters_do_not_panic() {
    for wire in ["\u{feff}{}", "\u{2028}", "{}{}", "-", "\"", "\\", "tru", "[,]", "{\"a\"}", "nul"]
    {
        assert!(read(wire).is_err(), "{wire:?}");
    }
}

/// Two members fit at each of 100 levels: without a cache, reading tries 2 to the power of 100.
#[test]
fn a_recursive_union_is_not_tried_in_every_combination() {
    let member = |name: &str| {
        json!({
            "type": "object",
            "properties": {"below": {"$ref": "#/$defs/tree"}, (name): {"type": "integer"}},
        })
    };
    let schema = json!({
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/tree"}},
        "$defs": {"tree": {"anyOf": [member("a"), member("b"), {"type": "null"}]}},
    });
    let contract = Contract::dynamic("tree", "", schema, None).unwrap();
    let nested = |leaf: &str| {
        let (open, close) = (r#"{"below":"#.repeat(100), "}".repeat(100));
        format!(r#"{{"tree": {open}{leaf}{close}}}"#)
    };
    for leaf in ["null", "{}", "1", r#"{"a": "1"}"#, r#"{"a": 1, "b": 1}"#, r#""null""#] {
        let start = Instant::now();
        let _ = contract.read::<Value>(&nested(leaf));
        assert!(start.elapsed() < Duration::from_secs(20), "{leaf}: {:?}", start.elapsed());
    }
    assert!(contract.read::<Value>(&nested("null")).is_ok());
}

/// The time grows linearly with the text.
#[test]
fn a_large_text_full_of_mistakes_is_read_quickly() {
    const MANY: usize = 100_000;
    let numbered = |of: &dyn Fn(usize) -> String| (0..MANY).map(of).collect::<String>();
    // Each bracket may begin a comment up to the end of the line.
    let one_line = |open: &str| format!("x {}\n) {{\"text\": \"\"}}", open.repeat(MANY));
    let cases = [
        (
            "pairs",
            format!(
                r#"{{"text": "", "counts": [{}]}}"#,
                numbered(&|i| { format!(r#"{{"key": "k{i}", "value": "1"}},"#) })
            ),
        ),
        (
            "keys",
            format!(r#"{{"text": "", "counts": {{{}}}}}"#, numbered(&|i| format!("k{i}: '1',"))),
        ),
        ("unknown", format!(r#"{{{} "text": ""}}"#, numbered(&|i| format!(r#""k{i}": 1,"#)))),
        (
            "near",
            format!(
                r#"{{{} "text": ""}}"#,
                numbered(&|i| format!(r#""Te-{}xt": 1,"#, "-".repeat(i % 50)))
            ),
        ),
        (
            "faults",
            format!(r#"{{"text": "", "counts": {{{}}}}}"#, numbered(&|i| format!("k{i}: [],"))),
        ),
        ("brackets", format!("{}{{\"text\": \"\"}}", "{x ".repeat(MANY))),
        ("notes", format!("{}{{\"text\": \"\"}}", "[1] ".repeat(MANY))),
        ("quotes", "\\\"".repeat(MANY)),
        ("strings", format!("{{\"text\": {}", "\"a\" ".repeat(MANY))),
        ("comments", format!("{}{{\"text\": \"\"}}", "/* { */".repeat(MANY))),
        ("hashes", one_line("{#")),
        ("list hashes", one_line("[#")),
        ("words", one_line("{# a ")),
        ("list words", one_line("[# a ")),
        ("names", one_line("{a # b ")),
        ("fences", "```\n".repeat(MANY)),
        ("digits", format!(r#"{{"text": "", "number": {}}}"#, "1".repeat(MANY))),
        ("exponent", format!(r#"{{"text": "", "counts": {{"a": 1e{}}}}}"#, "9".repeat(MANY))),
        ("escapes", format!(r#"{{"text": "{}"}}"#, r"\u00e4".repeat(MANY))),
    ];
    for (name, text) in cases {
        let start = Instant::now();
        let _ = read(&text);
        // A debug build reads a megabyte in a small part of this.
        assert!(start.elapsed() < Duration::from_secs(60), "{name}: {:?}", start.elapsed());
    }
}

#[test]
fn json_in_a_text_in_a_text_is_read_with_a_limit() {
    let mut text = r#"{"text": "kept"}"#.to_owned();
    for _ in 0..12 {
        text = json!(text).to_string();
    }
    assert!(read(&text).is_err());
    assert_eq!(read(&json!(r#"{"text": "kept"}"#).to_string()).unwrap().text, "kept");
}

/// `cargo test --release -p toolwright-signature --test main -- --ignored heavy`
#[test]
#[ignore = "heavy: it needs a gigabyte of memory"]
fn heavy_a_hundred_megabytes_are_read() {
    let long = "x".repeat(100_000_000);
    for text in [
        format!(r#"{{"text": "{long}"}}"#),
        format!("{{'text': '{long}',}}"),
        format!("```json\n{{\"text\": \"{long}\"}}\n```"),
        format!(r#"{{"input": {{"text": "{long}"}}}}"#),
    ] {
        let start = Instant::now();
        assert_eq!(read(&text).unwrap().text.len(), long.len());
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    }
    let error = read(&format!(r#"{{"text": "{long}"#)).unwrap_err();
    assert!(error.to_string().len() < 1_000);
    let numbers = format!(r#"{{"text": "", "counts": [{}1]}}"#, "1,".repeat(50_000_000));
    assert!(read(&numbers).is_err());
}
