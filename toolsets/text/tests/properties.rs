//! Properties that hold for any text.

use std::collections::BTreeSet;

use crate::support::{call, output};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A text of a few letters, so that lines repeat and match, with all kinds of line ends.
fn text() -> impl Strategy<Value = String> {
    let line = prop_oneof![4 => "[abB é1.-]{0,6}", 1 => "\\PC{0,8}"];
    let lines = prop::collection::vec((line, prop_oneof![Just("\n"), Just("\r\n")]), 0..12);
    (lines, "[ab]{0,2}").prop_map(|(lines, last)| {
        let whole: String = lines.into_iter().map(|(line, end)| line + end).collect();
        whole + &last
    })
}

fn pattern() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a", "B", "^a", "b$", "^$", "", "a|b", r"\d", r"\w+\s\w", "é", r"a{2}", "[^ab]", r"\b1",
        r"\Aa",
    ])
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

fn counts(text: &str) -> Value {
    call("text_wc", json!({"text": text})).unwrap().value().unwrap().unwrap()
}

proptest! {
    #[test]
    fn sorting_is_a_permutation_in_order(text in text(), reverse: bool, numeric: bool) {
        let sorted = output("text_sort_lines", json!({"text": text, "reverse": reverse, "numeric": numeric}));
        let (mut before, mut after) = (lines(&text), lines(&sorted));
        if !numeric {
            let in_order = if reverse { after.is_sorted_by(|a, b| a >= b) } else { after.is_sorted() };
            prop_assert!(in_order);
        }
        before.sort_unstable();
        after.sort_unstable();
        prop_assert_eq!(before, after);
        // The sort is stable: equal lines keep their order.
        let again = output("text_sort_lines", json!({"text": sorted, "reverse": reverse, "numeric": numeric}));
        prop_assert_eq!(again, sorted);
    }

    #[test]
    fn unique_keeps_first_occurrences(text in text()) {
        let unique = output("text_unique_lines", json!({"text": text}));
        let mut seen = BTreeSet::new();
        let first: Vec<&str> = lines(&text).into_iter().filter(|line| seen.insert(*line)).collect();
        prop_assert_eq!(lines(&unique), first);
        let sorted = output("text_unique_lines", json!({"text": text, "preserve_order": false}));
        prop_assert_eq!(lines(&sorted), seen.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn extracted_parts_join_to_the_text(text in text(), cut in -2_i64..15) {
        let extract = |start: i64, end: i64| {
            output("text_extract_lines", json!({"text": text, "start_line": start, "end_line": end}))
        };
        prop_assert_eq!(extract(1, i64::MAX), text.clone());
        prop_assert_eq!(extract(1, cut) + &extract(cut + 1, i64::MAX), text.clone());
    }

    #[test]
    fn kept_and_dropped_lines_are_the_whole_text(text in text(), pattern in pattern()) {
        let filter = |invert: bool| {
            output("text_filter_lines", json!({"text": text, "pattern": pattern, "invert": invert}))
        };
        let (kept, dropped) = (filter(false), filter(true));
        let (mut one, mut other) = (kept.split_inclusive('\n').peekable(), dropped.split_inclusive('\n').peekable());
        for line in text.split_inclusive('\n') {
            let next = if one.peek() == Some(&line) { one.next() } else { other.next() };
            prop_assert_eq!(next, Some(line));
        }
        prop_assert_eq!((one.next(), other.next()), (None, None));
    }

    #[test]
    fn the_three_search_tools_agree(text in text(), pattern in pattern()) {
        let grep = |more: &str, flag: bool| {
            let output = call("text_grep", json!({"text": text, "pattern": pattern, more: flag})).unwrap();
            output.value().unwrap().unwrap()
        };
        let found = grep("count_only", false);
        let filtered = output("text_filter_lines", json!({"text": text, "pattern": pattern}));
        let mut ended = filtered.clone();
        if !ended.is_empty() && !ended.ends_with('\n') {
            ended.push('\n');
        }
        prop_assert_eq!(found["lines"].as_str().unwrap(), ended);
        prop_assert_eq!(&found["count"], &json!(filtered.lines().count()));
        prop_assert_eq!(&found["count"], &grep("count_only", true)["count"]);
        // With case sensitivity, `text_rg` without context equals `text_grep`.
        let rg = call("text_rg", json!({"text": text, "pattern": pattern})).unwrap();
        prop_assert_eq!(rg.value().unwrap().unwrap(), grep("ignore_case", false));
    }

    #[test]
    fn context_has_exactly_the_lines_near_a_match(text in text(), pattern in pattern(), context in 0_usize..4) {
        let shown = output("text_rg", json!({"text": text, "pattern": pattern, "context": context}));
        let whole: Vec<&str> = text.split_inclusive('\n').collect();
        let line_by_line = regex::Regex::new(pattern).unwrap();
        let hits: Vec<usize> = (0..whole.len())
            .filter(|&at| line_by_line.is_match(whole[at].trim_end_matches(['\r', '\n'])))
            .collect();
        let mut expected = String::new();
        let mut last: Option<usize> = None;
        for at in (0..whole.len()).filter(|&at| hits.iter().any(|hit| hit.abs_diff(at) <= context)) {
            if context > 0 && last.is_some_and(|last| last + 1 < at) {
                expected += "--\n";
            }
            expected += whole[at];
            if !whole[at].ends_with('\n') {
                expected.push('\n');
            }
            last = Some(at);
        }
        if hits.is_empty() {
            expected = format!("No matches found for pattern '{pattern}'");
        }
        prop_assert_eq!(shown, expected);
    }

    #[test]
    fn counts_add_up_over_lines_and_the_summary_agrees(text in text()) {
        let whole = counts(&text);
        let sum = |field: &str| -> u64 {
            text.split_inclusive('\n').map(|line| counts(line)[field].as_u64().unwrap()).sum()
        };
        let summary = call("text_summarize_text", json!({"text": text})).unwrap();
        let summary = summary.value().unwrap().unwrap();
        for field in ["lines", "words", "characters"] {
            prop_assert_eq!(&whole[field], &json!(sum(field)));
            prop_assert_eq!(&whole[field], &summary[field]);
        }
    }
}
