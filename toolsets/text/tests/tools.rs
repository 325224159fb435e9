//! The behaviour of each tool, as the model sees it.

use std::time::Duration;

use crate::support::{call, call_in, output, tool, wait};
use serde_json::json;
use toolwright_module::error::{Audience, Stage};
use toolwright_module::{Cancellation, Context, Module};
use toolwright_text::{
    Counts, Frequency, Matches, Summary, Text, TextExtractLines, TextFilterLines, TextGrep,
    TextLimits, TextRg, TextSortLines, TextSummarizeText, TextUniqueLines, TextWc,
};

const FRUIT: &str = "apple\nBanana\ncherry\nbanana split\n";

#[test]
fn grep_returns_matching_lines_in_any_case() {
    let grep = |pattern| output("text_grep", json!({"text": FRUIT, "pattern": pattern}));
    assert_eq!(grep("banana"), "Banana\nbanana split\n");
    assert_eq!(grep("^.pp"), "apple\n");
    assert_eq!(grep(""), FRUIT);
    assert_eq!(grep("x+y"), "No matches found for pattern 'x+y'");
    // The output has the pattern in the model's spelling.
    assert_eq!(grep("it's"), "No matches found for pattern 'it's'");
    let case = json!({"text": FRUIT, "pattern": "banana", "ignore_case": false});
    assert_eq!(output("text_grep", case), "banana split\n");
}

#[test]
fn grep_keeps_line_ends_and_adds_a_missing_one() {
    let grep = |text, pattern| output("text_grep", json!({"text": text, "pattern": pattern}));
    assert_eq!(grep("a\nb", "b"), "b\n");
    assert_eq!(grep("a\r\nb\r\n", "a$"), "a\r\n");
    assert_eq!(grep("a\n\n\nb\n", "^$"), "\n\n");
    // There is no line after the last newline, and an empty text has no lines.
    assert_eq!(grep("a\n", "^$"), "No matches found for pattern '^$'");
    assert_eq!(grep("", ""), "No matches found for pattern ''");
    assert_eq!(grep("\n", ""), "\n");
}

#[test]
fn grep_counts_lines_and_not_matches() {
    let count = |text: &str, pattern| {
        output("text_grep", json!({"text": text, "pattern": pattern, "count_only": true}))
    };
    assert_eq!(count("a a a\nb\na\n", "a"), "Found 2 matches for pattern 'a'");
    assert_eq!(count("a", "a"), "Found 1 matches for pattern 'a'");
    assert_eq!(count("a", "b"), "Found 0 matches for pattern 'b'");
    assert_eq!(count("", "b"), "Found 0 matches for pattern 'b'");
    let output = call("text_grep", json!({"text": "a\n", "pattern": "a", "count_only": true}));
    let value = output.unwrap().value().unwrap().unwrap();
    assert_eq!(value, json!({"pattern": "a", "count": 1, "lines": null}));
}

#[test]
fn wc_counts_lines_words_and_characters() {
    let wc = |text| output("text_wc", json!({"text": text}));
    assert_eq!(wc("Hello world\n!"), "Lines: 2, Words: 3, Characters: 13");
    assert_eq!(wc(""), "Lines: 0, Words: 0, Characters: 0");
    // A newline at the end adds no line.
    assert_eq!(wc("a\n"), "Lines: 1, Words: 1, Characters: 2");
    assert_eq!(wc("a\n\n"), "Lines: 2, Words: 1, Characters: 3");
    assert_eq!(wc("\n"), "Lines: 1, Words: 0, Characters: 1");
    // Characters are code points, not bytes and not grapheme clusters.
    assert_eq!(wc("grüße 👋🏽"), "Lines: 1, Words: 2, Characters: 8");
    assert_eq!(wc("e\u{301}\r\n"), "Lines: 1, Words: 1, Characters: 4");
    assert_eq!(wc("a\u{a0}b\u{2003}c\td"), "Lines: 1, Words: 4, Characters: 7");
}

#[test]
fn wc_returns_the_part_of_the_first_flag() {
    let wc = |lines, words, chars| {
        let text = "Hello world\n!";
        let flags =
            json!({"text": text, "lines_only": lines, "words_only": words, "chars_only": chars});
        output("text_wc", flags)
    };
    assert_eq!(wc(true, false, false), "Lines: 2");
    assert_eq!(wc(false, true, false), "Words: 3");
    assert_eq!(wc(false, false, true), "Characters: 13");
    assert_eq!(wc(true, true, true), "Lines: 2");
    assert_eq!(wc(false, true, true), "Words: 3");
}

const NUMBERS: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n";

#[test]
fn rg_is_case_sensitive_and_shows_no_names_or_numbers() {
    let rg = |pattern| output("text_rg", json!({"text": FRUIT, "pattern": pattern}));
    assert_eq!(rg("anana"), "Banana\nbanana split\n");
    assert_eq!(rg("Banana"), "Banana\n");
    assert_eq!(rg("(?i)BANANA"), "Banana\nbanana split\n");
    assert_eq!(rg("BANANA"), "No matches found for pattern 'BANANA'");
}

#[test]
fn rg_shows_each_context_line_once() {
    let rg = |pattern, context: i64| {
        output("text_rg", json!({"text": NUMBERS, "pattern": pattern, "context": context}))
    };
    assert_eq!(rg("^three$", 1), "two\nthree\nfour\n");
    assert_eq!(rg("^(three|nine)$", 1), "two\nthree\nfour\n--\neight\nnine\nten\n");
    // Adjacent groups are joined.
    assert_eq!(rg("^(two|five)$", 1), "one\ntwo\nthree\nfour\nfive\nsix\n");
    assert_eq!(rg("^(two|four)$", 1), "one\ntwo\nthree\nfour\nfive\n");
    assert_eq!(rg("^(one|ten)$", 1), "one\ntwo\n--\nnine\nten\n");
    assert_eq!(rg("^six$", i64::MAX), NUMBERS);
    // Without context there are no groups. A negative context means 0.
    for context in [0, -1, i64::MIN] {
        assert_eq!(rg("^(one|ten)$", context), "one\nten\n");
    }
    assert_eq!(rg("zero", 3), "No matches found for pattern 'zero'");
}

#[test]
fn rg_shows_empty_lines_and_a_last_line_without_a_newline() {
    let rg =
        |text, pattern| output("text_rg", json!({"text": text, "pattern": pattern, "context": 1}));
    assert_eq!(rg("\n\na\n\n\n\nb", "[ab]"), "\na\n\n--\n\nb\n");
    assert_eq!(rg("a\n\nb", "a"), "a\n\n");
    assert_eq!(rg("a\nb", "a"), "a\nb\n");
}

#[test]
fn extract_counts_lines_from_one_and_includes_both_ends() {
    let extract = |start: i64, end: Option<i64>| {
        output(
            "text_extract_lines",
            json!({"text": "a\nb\nc", "start_line": start, "end_line": end}),
        )
    };
    assert_eq!(extract(1, Some(2)), "a\nb\n");
    assert_eq!(extract(2, Some(3)), "b\nc");
    assert_eq!(extract(2, None), "b\n");
    assert_eq!(extract(3, None), "c");
    // A start below 1 means 1, an end after the last line means the last line.
    assert_eq!(extract(0, None), "a\n");
    assert_eq!(extract(i64::MIN, Some(1)), "a\n");
    assert_eq!(extract(2, Some(i64::MAX)), "b\nc");
    // The range has no lines.
    for (start, end) in [(4, None), (4, Some(9)), (3, Some(2)), (1, Some(0)), (-3, Some(-1))] {
        assert_eq!(extract(start, end), "", "{start} {end:?}");
    }
    assert_eq!(output("text_extract_lines", json!({"text": "", "start_line": 1})), "");
    let ends = json!({"text": "a\r\n\nb\r\n", "start_line": 1, "end_line": 2});
    assert_eq!(output("text_extract_lines", ends), "a\r\n\n");
}

#[test]
fn filter_keeps_or_drops_matching_lines_in_any_case() {
    let filter = |text: &str, pattern, invert| {
        output("text_filter_lines", json!({"text": text, "pattern": pattern, "invert": invert}))
    };
    assert_eq!(filter(FRUIT, "BANANA", false), "Banana\nbanana split\n");
    assert_eq!(filter(FRUIT, "BANANA", true), "apple\ncherry\n");
    assert_eq!(filter(FRUIT, "zebra", false), "");
    assert_eq!(filter(FRUIT, "zebra", true), FRUIT);
    assert_eq!(filter(FRUIT, "", true), "");
    // Lines are unchanged.
    assert_eq!(filter("a\r\nb", "b", false), "b");
    assert_eq!(filter("a\r\nb", "b", true), "a\r\n");
    assert_eq!(filter("", "a", true), "");
}

#[test]
fn unique_keeps_each_line_once() {
    let unique = |text: &str| output("text_unique_lines", json!({"text": text}));
    assert_eq!(unique("b\na\nb\nc\na"), "b\na\nc\n");
    assert_eq!(unique(""), "");
    assert_eq!(unique("\n\n"), "\n");
    // Line ends are ignored; white space and case are not.
    assert_eq!(unique("a\r\na\na"), "a\n");
    assert_eq!(unique("a\na \nA"), "a\na \nA\n");
    let sorted = json!({"text": "b\na\nb\nÄ\nZ", "preserve_order": false});
    assert_eq!(output("text_unique_lines", sorted), "Z\na\nb\nÄ\n");
}

#[test]
fn sort_orders_by_bytes_or_by_the_leading_number() {
    let sort = |text: &str, reverse, numeric| {
        output("text_sort_lines", json!({"text": text, "reverse": reverse, "numeric": numeric}))
    };
    assert_eq!(sort("b\na\nB\nä\n10\n9", false, false), "10\n9\nB\na\nb\nä\n");
    assert_eq!(sort("b\na\nc\n", true, false), "c\nb\na\n");
    assert_eq!(sort("10 x\n9 y\n-1.5 z\nw\n", false, true), "-1.5 z\nw\n9 y\n10 x\n");
    assert_eq!(sort("10\n9\n1e2\n.5", true, true), "1e2\n10\n9\n.5\n");
    // Equal numbers keep their order, in reverse too.
    assert_eq!(sort("1 c\n1 a\n0\n1 b", false, true), "0\n1 c\n1 a\n1 b\n");
    assert_eq!(sort("1 c\n1 a\n0\n1 b", true, true), "1 c\n1 a\n1 b\n0\n");
    assert_eq!(sort("x\n-0\n0\n", false, true), "x\n-0\n0\n");
    assert_eq!(sort("b\r\na", false, false), "a\nb\n");
    assert_eq!(sort("", false, false), "");
}

#[test]
fn summary_of_a_text() {
    let summarize = |text: &str| output("text_summarize_text", json!({"text": text}));
    insta::assert_snapshot!(
        summarize("The quick brown fox.\nThe lazy dog, the end!\nFox? Fox; DOG\n"),
        @r"
    Text Summary:
      Lines: 3
      Words: 12
      Characters: 58
      Average line length: 19.33
      Average word length: 3.83
      Most frequent words:
        the: 3
        fox: 3
        dog: 2
        quick: 1
        brown: 1
    "
    );
    insta::assert_snapshot!(summarize(""), @r"
    Text Summary:
      Lines: 0
      Words: 0
      Characters: 0
      Average line length: 0
      Average word length: 0
    ");
    insta::assert_snapshot!(summarize(" \n"), @r"
    Text Summary:
      Lines: 1
      Words: 0
      Characters: 2
      Average line length: 2.0
      Average word length: 0
    ");
    // Words with fewer than three characters are not listed.
    insta::assert_snapshot!(summarize("a be\nto be"), @r"
    Text Summary:
      Lines: 2
      Words: 4
      Characters: 10
      Average line length: 5.0
      Average word length: 1.75
    ");
}

#[test]
fn summary_counts_words_of_every_script() {
    let text = "Café, café; CAFÉ naïve_1 日本語 日本語 cafe\u{301} don't";
    let output = call("text_summarize_text", json!({"text": text})).unwrap();
    let words = output.value().unwrap().unwrap()["most_frequent_words"].clone();
    assert_eq!(
        words,
        json!([
            {"word": "café", "count": 3},
            {"word": "日本語", "count": 2},
            {"word": "naïve_1", "count": 1},
            {"word": "cafe\u{301}", "count": 1},
            {"word": "dont", "count": 1},
        ]),
    );
}

/// The three tools with a pattern use the same syntax.
#[test]
fn patterns_support_unicode_and_never_match_across_lines() {
    for (pattern, text, found) in [
        (r"^\w+$", "café\nca fe\n日本\n", "café\n日本\n"),
        (r"\bé", "é\naé\n", "é\n"),
        ("STRASSE", "Strasse\nStraße\n", "Strasse\n"),
        ("ÄRGER", "ärger\n", "ärger\n"),
        (r"a\sb", "a\nb\na b\n", "a b\n"),
        ("a[^x]b", "a\nb\na-b\n", "a-b\n"),
        ("(?s)a.*b", "a\nb\nab\n", "ab\n"),
        (r"\Aa\z", "a\nab\na\n", "a\na\n"),
        (r"b\z", "ab\r\nba\r\n", "ab\r\n"),
        ("a|^$", "\nb\na\n", "\na\n"),
        (r"\p{Greek}", "abc\nλ\n", "λ\n"),
        (r"(?x) a b # c", "ab\n", "ab\n"),
    ] {
        for name in ["text_grep", "text_filter_lines", "text_rg"] {
            // The other two tools ignore case.
            let pattern =
                if name == "text_rg" { format!("(?i){pattern}") } else { pattern.to_owned() };
            let result = call(name, json!({"text": text, "pattern": pattern}));
            match result {
                Ok(output) => assert_eq!(output.text, found, "{name} {pattern}"),
                Err(error) => panic!("{name} {pattern}: {}", error.for_model()),
            }
        }
    }
}

#[test]
fn an_invalid_pattern_is_an_error_for_the_model() {
    let mut all = String::new();
    let deep = format!("{}a{}", "(".repeat(300), ")".repeat(300));
    for pattern in [
        "(unclosed",
        "[z-a]",
        "*",
        r"(?<=look)behind",
        r"(a)\1",
        r"a\nb",
        "a)(b",
        r"(\w{99}){99}",
        &deep,
    ] {
        for (name, more) in [
            ("text_grep", "ignore_case"),
            ("text_grep", "count_only"),
            ("text_rg", ""),
            ("text_filter_lines", ""),
        ] {
            let mut arguments = json!({"text": "", "pattern": pattern});
            if !more.is_empty() {
                arguments[more] = json!(true);
            }
            let error = call(name, arguments).unwrap_err();
            assert_eq!(error.audience(), Audience::ModelMayRetry, "{name} {pattern}");
            assert_eq!(error.stage(), Stage::Arguments, "{name} {pattern}");
            if name == "text_rg" {
                all += &format!("{pattern:.40}\n=> {}\n\n", error.for_model());
            }
        }
    }
    insta::assert_snapshot!("wrong_patterns", all);
}

#[test]
fn each_limit_error_names_the_fix() {
    let small = TextLimits { max_input: 20, max_output: 6, ..TextLimits::default() };
    let text = Text::default().with_limits(small);
    let long = "abcdefghijklmnopqrstuvwxyz";
    let mut all = String::new();
    let lines = "abc\nabd\nabe\n";
    for (name, arguments) in [
        ("text_wc", json!({"text": long})),
        ("text_grep", json!({"text": lines, "pattern": "a"})),
        ("text_rg", json!({"text": lines, "pattern": "d", "context": 1})),
        ("text_extract_lines", json!({"text": lines, "start_line": 1, "end_line": 2})),
        ("text_filter_lines", json!({"text": lines, "pattern": "a"})),
        ("text_filter_lines", json!({"text": lines, "pattern": "x", "invert": true})),
        ("text_unique_lines", json!({"text": lines})),
        ("text_sort_lines", json!({"text": lines})),
    ] {
        let error = call_in(&text, name, &arguments).unwrap_err();
        assert_eq!(error.audience(), Audience::ModelMayRetry, "{name}");
        assert_eq!(error.stage(), Stage::Limit, "{name}");
        all += &format!("{name}: {}\n", error.for_model());
    }
    let hurried = Text::default()
        .with_limits(TextLimits { max_time: Duration::ZERO, ..TextLimits::default() });
    for tool in hurried.tools().unwrap() {
        let arguments = json!({"text": "a", "pattern": "a", "start_line": 1});
        let error = call_in(&hurried, tool.name(), &arguments).unwrap_err();
        assert_eq!(error.stage(), Stage::Limit, "{}", tool.name());
        if tool.name() == "text_grep" {
            all += &format!("{}: {}\n", tool.name(), error.for_model());
        }
    }
    insta::assert_snapshot!("limits", all);
    // Counting has no limit, and a result of exactly the maximum size is allowed.
    let count = json!({"text": lines, "pattern": "a", "count_only": true});
    assert_eq!(
        call_in(&text, "text_grep", &count).unwrap().text,
        "Found 3 matches for pattern 'a'"
    );
    let fits = json!({"text": "abcde", "pattern": "a"});
    assert_eq!(call_in(&text, "text_grep", &fits).unwrap().text, "abcde\n");
    let forever = Text::default()
        .with_limits(TextLimits { max_time: Duration::MAX, ..TextLimits::default() });
    assert_eq!(call_in(&forever, "text_grep", &fits).unwrap().text, "abcde\n");
}

#[test]
fn a_call_that_is_cancelled_or_past_its_deadline_ends() {
    let cancellation = Cancellation::default();
    let cx = Context::default().with_cancellation(cancellation.clone());
    let wc = tool(&Text::default(), "text_wc");
    assert!(wait(wc.call(r#"{"text": "a"}"#, &cx)).is_ok());
    cancellation.cancel();
    let error = wait(wc.call(r#"{"text": "a"}"#, &cx)).unwrap_err();
    assert_eq!((error.stage(), error.audience()), (Stage::Cancelled, Audience::Run));
    let late = Context::default().with_deadline(std::time::Instant::now());
    let error = wait(wc.call(r#"{"text": "a"}"#, &late)).unwrap_err();
    assert_eq!(error.stage(), Stage::Limit);
}

/// Calls every module from code, with Rust types.
#[test]
fn each_text_module_works_without_a_language_model() {
    let tools = Text::default();
    let text = || "b 2\na 10\na 10\n".to_owned();
    let pattern = || "A".to_owned();

    let input = TextGrep { text: text(), pattern: pattern(), ignore_case: true, count_only: false };
    let found = wait(TextGrep::module(&tools).call(input, &Context::default())).unwrap();
    let lines = Some("a 10\na 10\n".to_owned());
    assert_eq!(found, Matches { pattern: pattern(), count: 2, lines });

    let input = TextWc { text: text(), lines_only: false, words_only: true, chars_only: false };
    let counts = wait(TextWc::module(&tools).call(input, &Context::default())).unwrap();
    assert_eq!(counts, Counts { lines: None, words: Some(6), characters: None });

    let input = TextRg { text: text(), pattern: "b".to_owned(), context: 1 };
    let found = wait(TextRg::module(&tools).call(input, &Context::default())).unwrap();
    assert_eq!((found.count, found.lines.as_deref()), (1, Some("b 2\na 10\n")));

    let input = TextExtractLines { text: text(), start_line: 2, end_line: None };
    assert_eq!(
        wait(TextExtractLines::module(&tools).call(input, &Context::default())).unwrap(),
        "a 10\n"
    );

    let input = TextFilterLines { text: text(), pattern: pattern(), invert: true };
    assert_eq!(
        wait(TextFilterLines::module(&tools).call(input, &Context::default())).unwrap(),
        "b 2\n"
    );

    let input = TextUniqueLines { text: text(), preserve_order: true };
    assert_eq!(
        wait(TextUniqueLines::module(&tools).call(input, &Context::default())).unwrap(),
        "b 2\na 10\n"
    );

    let input = TextSortLines { text: text(), reverse: false, numeric: false };
    assert_eq!(
        wait(TextSortLines::module(&tools).call(input, &Context::default())).unwrap(),
        "a 10\na 10\nb 2\n"
    );

    let input = TextSummarizeText { text: "abc abc".to_owned() };
    let summary = wait(TextSummarizeText::module(&tools).call(input, &Context::default())).unwrap();
    let expected = Summary {
        lines: 1,
        words: 2,
        characters: 7,
        average_line_length: 7.0,
        average_word_length: 3.0,
        most_frequent_words: vec![Frequency { word: "abc".to_owned(), count: 2 }],
    };
    assert_eq!(summary, expected);
}

#[test]
fn a_line_starts_with_a_number_or_counts_as_zero() {
    let sorted = |lines: [&str; 2]| {
        let arguments = json!({"text": lines.join("\n") + "\n", "numeric": true});
        output("text_sort_lines", arguments)
    };
    // Lines with equal numbers keep their order.
    let equal = |line: &str, number: &str| {
        for lines in [[line, number], [number, line]] {
            assert_eq!(sorted(lines), lines.join("\n") + "\n");
        }
    };
    for (line, number) in [
        ("3 apples", "3"),
        ("  \t-2.5e1x", "-25"),
        ("+.5", "0.5"),
        ("7.", "7"),
        ("1e", "1"),
        ("1e+", "1"),
        ("0x10", "0"),
        ("1_000", "1"),
        ("1e999", "2e999"),
        ("-0", "0"),
    ] {
        equal(line, number);
    }
    for line in ["", "-", "+-1", ".", ".e5", "e5", "NaN", "inf", "infinity", "apples 3", "٣"] {
        equal(line, "0");
    }
    assert_eq!(sorted(["2", "-1e1"]), "-1e1\n2\n");
}
