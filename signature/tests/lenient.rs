//! Texts that models write instead of valid JSON or instead of the right value.
//!
//! Each line of a file in `corpus` is a text, the type it is read as, and the expected value or
//! error. A new case is a new line there.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use toolwright_signature::{Contract, Policy};

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

/// Reads a text as an object that declares only the field `b`.
fn read(text: &str) -> Result<Value, String> {
    let input = json!({"type": "object", "properties": {"b": {}}});
    let contract = Contract::dynamic("find", "Find.", input, None).unwrap();
    contract.read(text).map_err(|error| error.to_string())
}

#[test]
fn a_text_with_one_meaning_is_repaired() {
    for (text, json) in [
        ("{'a': 'it\"s', b: True,}", r#"{"a":"it\"s","b":true}"#),
        ("```json\n{\"a\": 1}\n```", r#"{"a":1}"#),
        ("Sure! Here it is: {\"a\": [1]} Anything else?", r#"{"a":[1]}"#),
        ("{\"a\": 1 // one\n, /* two */ \"b\": 2}", r#"{"a":1,"b":2}"#),
        ("{\"a\": 1\n \"b\": 2}", r#"{"a":1,"b":2}"#),
        ("\u{feff}{\"a\": \"x\ty\"}", r#"{"a":"x\ty"}"#),
        ("{“a”: “x”}", r#"{"a":"x"}"#),
        ("{\"a\": +5, \"b\": .5, \"c\": None}", r#"{"a":5,"b":0.5,"c":null}"#),
        ("{\\\"a\\\": 1}", r#"{"a": 1}"#),
        ("{\"a\": 1}}", r#"{"a":1}"#),
        ("As [1] says: {\"a\": 1}", r#"{"a":1}"#),
        ("{placeholder} then {\"a\": 1}", r#"{"a":1}"#),
        ("{\"a\": 1} or again {\"a\": 1}", r#"{"a":1}"#),
        ("Note: {\"a\": 1}\nb: see there. c: 5", r#"{"a":1}"#),
        ("See https://a.b and issue #5: {\"a\": 1}", r#"{"a":1}"#),
        ("Here: {\"a\": 1} // was {\"a\": 2}", r#"{"a":1}"#),
        ("<think>{\"a\": 2} or {\"a\": ...</think>\n```json\n{\"a\": 1}\n```", r#"{"a":1}"#),
        ("<think>{\"a\": 2}</think> <think>{\"a\": 3}</think> So: {\"a\": 1}", r#"{"a":1}"#),
        ("\u{feff}<think budget=\"3\">{\"a\": 2}</think>{\"a\": 1}", r#"{"a":1}"#),
        ("<Thinking>{\"a\": 2}</thinking>\n{\"a\": 1}", r#"{"a":1}"#),
        ("[THINK]{\"a\": 2}[/THINK]{\"a\": 1}", r#"{"a":1}"#),
        (
            "<|channel|>analysis<|message|>{\"a\": 2}<|end|><|start|>assistant<|channel|>final<|message|>{\"a\": 1}",
            r#"{"a":1}"#,
        ),
        ("So:\n# {\"a\": 2}\n{\"a\": 1} /* {\"a\": 3} */ it is.", r#"{"a":1}"#),
        // A comment is one beyond doubt where no quote in it can end the text before it.
        ("{\"a\": \"x\" // note\n}", r#"{"a":"x"}"#),
        ("{\"a\": \"x\"// note\n}", r#"{"a":"x"}"#),
        ("{\"a\": \"x\", // not \"y\"\n\"b\": 1}", r#"{"a":"x","b":1}"#),
        ("{\"a\": 1 # it's one\n}", r#"{"a":1}"#),
        ("{'a': 1 // the users' own\n}", r#"{"a":1}"#),
        ("{\"a\": 7 // 7 days\n}", r#"{"a":7}"#),
        ("{\"a\": \"x // y\",}", r#"{"a":"x // y"}"#),
        ("{n} and {x | x > 0} and {\"a\": 1}", r#"{"a":1}"#),
    ] {
        let json: Value = serde_json::from_str(json).unwrap();
        assert_eq!(read(text), Ok(json), "{text}");
    }
    let (input, output) = (json!({"type": "object"}), json!({"type": "array"}));
    let contract = Contract::dynamic("count", "Count.", input, Some(output)).unwrap();
    for text in ["```\n[1, 2,]\n```", "[ // first\n1, # second\n2]"] {
        assert_eq!(contract.read_output::<Vec<u8>>(text).unwrap(), [1, 2], "{text}");
    }
}

#[test]
fn a_text_that_was_cut_off_is_an_error() {
    for text in [
        "{\"a\": 1",
        "{\"a\": [1, 2}",
        "{\"a\": \"x",
        "[1, 2",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\": 1,",
        "```json\n{\"a\": {\"b\": 1}",
        "Here: {\"a\": {\"b\": 1}",
        "{\"a\": 1 /* x",
        "{\"a\": \"\\u12",
        "[{\"a\": 1}, {\"a\": 2}",
        "{\"a\": {\"b\": 2}",
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains("the JSON text ends too early"), "{text}: {error}");
    }
}

/// Each of these is a text with unescaped quotes inside it: a person sees where it ends, and no
/// parser does.
#[test]
fn a_text_is_never_cut_at_a_quote_inside_it() {
    for inside in [
        // HTML, CSS, code, addresses, Markdown.
        r##"<script src="//cdn.x/a.js"></script>"##,
        r##"<a href="#top">up</a>"##,
        r##"<p class="/* x */">y</p>"##,
        r##"a { color: "#fff" }"##,
        r##"a { background: url("//x.y/z.png") }"##,
        r##"print("# hello")"##,
        r##"print("// hello")"##,
        r##"glob("/*.rs")"##,
        r##"x = "/* a */""##,
        r##"say "// no""##,
        r##"see [it]("#part")"##,
        r##"say "hi""##,
        r##"say "hi", then go"##,
        r##"say "hi": go"##,
        r##"say "hi"} then ]"##,
        r##"f(", ", x)"##,
        r##"f("}")"##,
        r##"f("]")"##,
        r##"f(":")"##,
        r##"f("", // none"##,
        r##"{"a": 1}"##,
        r##"{"a": "x"}"##,
        r##"["a", "b"]"##,
        r##""whole""##,
        r##"a " // b"##,
        r##"a " # b "##,
    ] {
        for quote in ['"', '\''] {
            let inside = inside.replace('"', &quote.to_string());
            let whole = [
                format!("{{{quote}b{quote}: {quote}{inside}{quote}}}"),
                format!("{{{quote}b{quote}: {quote}{inside}{quote}\n}}"),
                format!("{{{quote}b{quote}: {quote}{inside}{quote},\n \"c\": 1\n}}"),
                format!("{{\"c\": 1, {quote}b{quote}: [\n{quote}{inside}{quote}\n]\n}}"),
                format!("{{\"c\": [{quote}x{quote}, {quote}{inside}{quote},\n{quote}y{quote}]}}"),
                format!("{{{quote}{inside}{quote}: 1\n}}"),
                format!("{{{quote}{inside}{quote}\n: 1}}"),
                // The first quote is lost.
                format!("{{\"c\": [\n{inside}{quote}\n]}}"),
            ];
            for text in whole {
                // A text that is JSON as it stands has that one meaning.
                let json = text.replace('\'', "\"");
                if serde_json::from_str::<serde_json::Value>(&json).is_ok() {
                    continue;
                }
                let fenced = format!("```json\n{text}\n```");
                let among = format!("Here:\n{text}\nThat is all.");
                for text in [text, fenced, among] {
                    assert!(read(&text).is_err(), "{text}: {:?}", read(&text));
                }
            }
        }
    }
}

#[test]
fn an_error_names_the_quotes_to_escape() {
    for text in [
        "{\"a\": \"<a href=\"//x.y\">\"\n}",
        "{\"a\": \"say \"hi\"\"}",
        "{\"a\": [\"say \"hi\" # there\"\n]}",
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains("escape the quotes inside a string"), "{text}: {error}");
    }
}

#[test]
fn a_text_with_two_meanings_or_none_is_an_error() {
    for text in [
        "{\"a\": 1} {\"a\": 2}",
        "{}\"zoh\" # 3\n:[]}",
        "{\"a\": NaN}",
        "{\"a\": Infinity}",
        "{\"a\": word}",
        "{\"a\": 1,,}",
        "[1,,2]",
        "[1 2]",
        "{\"a\": \"x\" \"b\": 1}",
        "{\"a\": \"say \"hi\"\"}",
        "{'a': 'it's'}",
        "{\"a\": 007}",
        "{\"a\": 1_000}",
        "{\"a\": 0x1F}",
        "{\"a\": 1,000}",
        "{\"a\": \"\\d\"}",
        "{\"a\": 1}, \"b\": 2}",
        "\"a\": {\"b\": 1}}",
        "{\"a\" = 1}",
        "nothing",
        "{\"a\": (1)}",
        "{\"a\": [1, ...]}",
        "{\"a\": oops {\"n\": 5}}",
        "{\"a\": \"b\" + \"c\"}",
        "{\"a\": 5%}",
        "{\"a\": 1}\n\"b\": 2",
        "{\"a\": 1}\n\"c\": 2",
        "{\"a\": 1}\n'c': 2",
        "{\"a\": 1}\nb: 2",
        "{\"a\": 1}\nand b: \"x\",",
        "\"b\": 2\n{\"a\": 1}",
        "b: 2\n{\"a\": 1}",
        "{\"a\": 1} \"b\": 2 {\"a\": 1}",
        "{\"a\": 1}\nb: [2]",
        "{\"a\": 1}\nb: \"two\nlines\"",
        "// {\"a\": 1}",
        "/* {\"a\": 1} */",
        "# {\"a\": 1}",
        "None: // {\"a\": 1}",
        "/* {\"a\": 1}",
        "<think>{\"a\": 1}</think>",
        "<think>{\"a\": 1}",
        "<think>a</think>{\"a\": x}",
        // The thoughts began before the text, so this is a draft.
        "{\"a\": 1}</think>",
        "Maybe {\"a\": 1}</think>\nI cannot help.",
        "{\"a\": 2}</think>{\"a\": 1}",
        "<think>a <think>b</think> {\"a\": 2}</think>",
        "<think>a <think>b</think> {\"a\": 2}</think>{\"a\": 1}",
        "<thinking>{\"a\": 1}",
        "{`a`: 1} or {\"a\": 2}",
        "{\"a\": 2} not {`a`: 1}",
        "{&quot;a&quot;: 1} or {\"a\": 2}",
        "{‘a’: 1} or {\"a\": 2}",
        "{a (first): 1} or {\"a\": 2}",
        "{\"a\": `x`} or {\"a\": 2}",
        "{\"a\": 7 // 2\n}",
        "{\"a\": [#12,\n#13\n]}",
        "{\"a\": //host/page\n}",
        "{\"a\": \"echo \"}\"",
    ] {
        assert!(read(text).is_err(), "{text}: {:?}", read(text));
    }
}
