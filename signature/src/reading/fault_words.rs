//! The words of faults: the expected value and the one found, for the model to correct.
//!
//! In: a node of the graph, or a token. Out: a part of a sentence, short however large the value
//! is:
//!
//! ```text
//! expected(node)     an integer from 1 to 9
//!                    one of `low`, `high`
//!                    an object with `name`, `age` or null
//! got(tape, token)   the string "twelve"
//!                    an object with `nmae`, `age`, …
//! fault(…)           $.limit: expected an integer from 1 to 9, got the string "twelve"
//! ```
//!
//! Begin with [`fault`], [`expected`] and [`got`]. [`is_near`] finds typos.

use std::borrow::Cow;

use serde_json::Value;

use crate::error::{Fault, cut};
use crate::reading::number::Decimal;
use crate::reading::tape::{Tape, TokenKind};
use crate::schema::graph::{Graph, Node, NumberRule};
use crate::schema::types::Types;

/// Maximum number of characters quoted from a text.
const LONGEST: usize = 60;

/// Maximum number of values or members that are listed.
const MOST: usize = 20;

/// Quotes a text as one line, shortened.
///
/// ```text
/// say "hi"   →   "say \"hi\""
/// ```
pub(super) fn excerpt(text: &str) -> String {
    let cut = shortened(text);
    let mut quoted = String::from("\"");
    for c in cut.chars() {
        if c == '\'' { quoted.push(c) } else { quoted.extend(c.escape_debug()) }
    }
    quoted.push('"');
    quoted
}

/// Cuts a text from the model to [`LONGEST`] characters.
pub(super) fn shortened(text: &str) -> Cow<'_, str> {
    cut(text, LONGEST)
}

/// Describes the value at a token.
///
/// ```text
/// [1, 2]                             →  a list of 2
/// {"a": 1, "b": 2, "c": 3, "d": 4}   →  an object with `a`, `b`, `c`, …
/// ```
pub(super) fn got(tape: &Tape<'_>, token: usize) -> String {
    match tape.kind(token) {
        TokenKind::Null => "null".to_owned(),
        TokenKind::True => "true".to_owned(),
        TokenKind::False => "false".to_owned(),
        TokenKind::Number => format!("the number {}", shortened(tape.raw(token))),
        TokenKind::Text | TokenKind::Escaped => {
            format!("the string {}", excerpt(&tape.text(token)))
        }
        TokenKind::List => match tape.items(token).count() {
            0 => "an empty list".to_owned(),
            n => format!("a list of {n}"),
        },
        TokenKind::Object if tape.entries(token).next().is_none() => "an empty object".to_owned(),
        TokenKind::Object => {
            let names = tape.entries(token).map(|(key, _)| format!("`{}`", brief(&tape.text(key))));
            let more = if tape.entries(token).nth(3).is_some() { ", …" } else { "" };
            format!("an object with {}{more}", names.take(3).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Quotes a name in a list of names.
///
/// ```text
/// a_very_long_field_name   →   a_very_long_fiel…
/// ```
fn brief(name: &str) -> String {
    cut(name, 16).chars().flat_map(char::escape_debug).collect()
}

/// Makes a fault from the value that is expected and the one that was found. `why` adds a reason.
pub(crate) fn fault(path: String, expected: String, got: String, why: &str) -> Fault {
    let message = match (got.as_str(), why) {
        ("nothing", "") => format!("this field is missing; expected {expected}"),
        ("nothing", why) => format!("this field is missing ({why}); expected {expected}"),
        (got, "") => format!("expected {expected}, got {got}"),
        (got, why) => format!("expected {expected}, got {got}: {why}"),
    };
    Fault { path, expected, got, message }
}

/// Describes the values that a node accepts.
pub(super) fn expected(graph: &Graph, node: &Node) -> String {
    expected_by(graph, node, false)
}

/// Describes the values that a node accepts; `in_full` includes the range of a large integer type,
/// for a number outside it.
pub(super) fn expected_by(graph: &Graph, node: &Node, in_full: bool) -> String {
    let mut all = Vec::new();
    match &node.union {
        Some(union) => {
            for id in union.members.iter().take(MOST) {
                push_new(&mut all, expected_alone(graph, graph.node(*id), in_full));
            }
        }
        None => push_new(&mut all, expected_alone(graph, node, in_full)),
    }
    if node.takes_null() && !all.iter().any(|words| words.ends_with("null")) {
        push_new(&mut all, "null".to_owned());
    }
    all.join(" or ")
}

/// Adds words that are not there yet.
fn push_new(all: &mut Vec<String>, words: String) {
    if !words.is_empty() && !all.contains(&words) {
        all.push(words);
    }
}

/// Describes the values that a node accepts, without its union and null.
///
/// A schema that nothing fits is described as "nothing here".
fn expected_alone(graph: &Graph, node: &Node, in_full: bool) -> String {
    if node.is_any() {
        return "any value".to_owned();
    }
    if let Some(values) = &node.values {
        return listed(values);
    }
    let kinds = node.types;
    let mut all = Vec::new();
    if kinds.has(Types::TEXT) {
        all.push(text(node));
    }
    if kinds.meets(Types::NUMBER) {
        let what = if kinds.has(Types::NUMBER) { "a number" } else { "an integer" };
        all.push(format!("{what}{}", bounds(&node.number, in_full)));
    }
    if kinds.has(Types::BOOLEAN) {
        all.push("true or false".to_owned());
    }
    if kinds.has(Types::LIST) {
        all.push(list(node));
    }
    if kinds.has(Types::OBJECT) {
        all.push(object(graph, node));
    }
    if all.is_empty() && !kinds.has(Types::NULL) {
        all.push("nothing here".to_owned());
    }
    all.join(" or ")
}

/// Describes listed values: `one of \`low\`, \`high\``.
///
/// ```text
/// ["low"]          →  `low`
/// ["low", "high"]  →  one of `low`, `high`
/// ```
fn listed(values: &[Value]) -> String {
    let shown = |value: &Value| match value {
        Value::String(text) => format!("`{}`", shortened(text)),
        other => shortened(&other.to_string()).into_owned(),
    };
    let more = if values.len() > MOST { ", …" } else { "" };
    match values {
        [] => String::new(),
        [one] => shown(one),
        some => {
            let shown: Vec<_> = some.iter().take(MOST).map(shown).collect();
            format!("one of {}{more}", shown.join(", "))
        }
    }
}

/// Describes the texts of a node: its format, its length and its pattern.
fn text(node: &Node) -> String {
    let rule = &node.text;
    let mut words = rule.format.map_or("a string", super::date::Format::words).to_owned();
    if let Some(range) = range_words(rule.shortest, rule.longest) {
        let plural = plural(rule.shortest, rule.longest);
        words.push_str(&format!(" of {range} character{plural}"));
    }
    if let Some(pattern) = &rule.pattern {
        words.push_str(&format!(" that matches {}", shortened(&pattern.text)));
    }
    words
}

/// Describes the lists of a node: their length.
fn list(node: &Node) -> String {
    match range_words(node.list.shortest, node.list.longest) {
        Some(range) => format!("a list of {range}"),
        None => "a list".to_owned(),
    }
}

/// Describes the objects of a node by up to four required fields, or else by their number of fields.
///
/// ```text
/// required `kind` ("a") and `id`  →  an object with `kind` "a", `id`
/// at least one field              →  an object with at least 1 field
/// ```
fn object(graph: &Graph, node: &Node) -> String {
    let rule = &node.object;
    let required = rule.fields.iter().filter(|field| field.required);
    let more = if required.clone().count() > 4 { ", …" } else { "" };
    let names: Vec<_> = required
        .take(4)
        .map(|field| match graph.tag_of(field) {
            Some(tag) => format!("`{}` \"{}\"", brief(&field.name), brief(tag)),
            None => format!("`{}`", brief(&field.name)),
        })
        .collect();
    match (names.is_empty(), range_words(rule.fewest, rule.most)) {
        (false, _) => format!("an object with {}{more}", names.join(", ")),
        (true, Some(range)) => {
            format!("an object with {range} field{}", plural(rule.fewest, rule.most))
        }
        (true, None) => "an object".to_owned(),
    }
}

/// Returns the plural `s` of a noun after [`range_words`].
fn plural(least: usize, most: usize) -> &'static str {
    if most == 1 || most == usize::MAX && least == 1 { "" } else { "s" }
}

/// Returns a range of counts in words: `at least 2`, `1 to 3`; `None` if any count is allowed.
fn range_words(least: usize, most: usize) -> Option<String> {
    Some(match (least, most) {
        (0, usize::MAX) => return None,
        (least, usize::MAX) => format!("at least {least}"),
        (0, most) => format!("at most {most}"),
        (least, most) if least == most => format!("exactly {least}"),
        (least, most) => format!("{least} to {most}"),
    })
}

/// Describes the bounds of a number, with a leading space: ` from 1 to 9 and a multiple of 3`.
fn bounds(rule: &NumberRule, in_full: bool) -> String {
    let mut words = String::new();
    // Large ranges are described only for numbers outside them.
    let small = |high: &Decimal| high.approximate() < 65_536.0;
    let range = rule.range.as_ref().filter(|(_, high)| in_full || small(high));
    let low = rule.least.as_ref().or(range.map(|range| &range.0));
    let high = rule.greatest.as_ref().or(range.map(|range| &range.1));
    let mut say = |text: String| {
        words.push_str(if words.is_empty() { " " } else { " and " });
        words.push_str(&text);
    };
    match (low, high) {
        (Some(low), Some(high)) => say(format!("from {low} to {high}")),
        (Some(low), None) => say(format!("of at least {low}")),
        (None, Some(high)) => say(format!("of at most {high}")),
        (None, None) => {}
    }
    let more: [(&str, &Option<Decimal>); 3] =
        [("greater than", &rule.above), ("less than", &rule.below), ("a multiple of", &rule.step)];
    for (what, bound) in more {
        if let Some(bound) = bound {
            say(format!("{what} {bound}"));
        }
    }
    words
}

impl NumberRule {
    /// Whether an integer is too large or too small for the Rust type.
    pub(super) fn overflows(&self, literal: &str) -> bool {
        let range = Decimal::parse(literal).zip(self.range.as_ref());
        range.is_some_and(|(number, (low, high))| number < *low || *high < number)
    }
}

/// Returns a count with its noun: `1 field`, `2 fields`.
pub(super) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", plural(count, count))
}

/// Whether one name may be a typo of the other: one letter added, removed or replaced, or two
/// adjacent letters swapped. Long names may have two such differences.
///
/// ```text
/// limt, limti, limits → limit      due_dat → due_date
/// id → it: too short to be sure
/// ```
pub(super) fn is_near(name: &str, other: &str) -> bool {
    let (name, other) = (name.to_lowercase(), other.to_lowercase());
    let (length, others) = (name.chars().count(), other.chars().count());
    let slips = if length > 5 { 2 } else { 1 };
    (3..=64).contains(&length)
        && length.abs_diff(others) <= slips
        && strsim::osa_distance(&name, &other) <= slips
}
