//! The words of faults: the expected value and the one found, for the model to correct.

use std::borrow::Cow;

use serde_json::Value;

use crate::reading::number::Decimal;
use crate::reading::tape::{Tape, TokenKind};
use crate::schema::graph::{Graph, Id, Node, NumberRule};
use crate::schema::types::Types;

/// Maximum number of characters quoted from a text.
const LONGEST: usize = 60;

/// Maximum number of values or members that are listed.
const MOST: usize = 20;

/// Quotes a text as one line, shortened.
pub(super) fn excerpt(text: &str) -> String {
    let cut = shortened(text);
    let mut quoted = String::from("\"");
    for c in cut.chars() {
        if c == '\'' { quoted.push(c) } else { quoted.extend(c.escape_debug()) }
    }
    quoted.push('"');
    quoted
}

pub(super) fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

pub(super) fn kind_words(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::Null => "null",
        TokenKind::True | TokenKind::False => "boolean",
        TokenKind::Number => "number",
        TokenKind::Text | TokenKind::Escaped => "string",
        TokenKind::List => "list",
        TokenKind::Object => "object",
    }
}

/// Describes the value at a token.
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
        TokenKind::Object => {
            let keys: Vec<_> = tape.entries(token).take(4).map(|(key, _)| tape.text(key)).collect();
            let more = if tape.entries(token).count() > 3 { ", …" } else { "" };
            match keys.as_slice() {
                [] => "an empty object".to_owned(),
                keys => {
                    let keys: Vec<_> =
                        keys.iter().take(3).map(|key| format!("`{}`", brief(key))).collect();
                    format!("an object with {}{more}", keys.join(", "))
                }
            }
        }
    }
}

/// Quotes a name in a list of names.
fn brief(name: &str) -> String {
    const BRIEF: usize = 16;
    let mut out: String = name.chars().take(BRIEF).flat_map(char::escape_debug).collect();
    if name.chars().count() > BRIEF {
        out.push('…');
    }
    out
}

/// Describes the values that a node accepts.
pub(super) fn expected(graph: &Graph, node: &Node) -> String {
    expected_by(graph, node, false)
}

/// Describes them with the range of a large integer type, for a number outside it.
pub(super) fn expected_in_full(graph: &Graph, node: &Node) -> String {
    expected_by(graph, node, true)
}

fn expected_by(graph: &Graph, node: &Node, in_full: bool) -> String {
    let mut all = Vec::new();
    match &node.union {
        Some(union) => {
            for id in union.members.iter().take(MOST) {
                push_new(&mut all, expected_alone(graph.node(*id), in_full));
            }
        }
        None => push_new(&mut all, expected_alone(node, in_full)),
    }
    if node.takes_null() && !all.iter().any(|words| words.ends_with("null")) {
        push_new(&mut all, "null".to_owned());
    }
    all.join(" or ")
}

fn push_new(all: &mut Vec<String>, words: String) {
    if !words.is_empty() && !all.contains(&words) {
        all.push(words);
    }
}

fn expected_alone(node: &Node, in_full: bool) -> String {
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
        all.push(object(node));
    }
    if all.is_empty() && !kinds.has(Types::NULL) {
        all.push("nothing here".to_owned());
    }
    all.join(" or ")
}

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

fn text(node: &Node) -> String {
    let rule = &node.text;
    let mut words = rule.format.map_or("a string", super::date::Format::words).to_owned();
    if let Some(range) = range_words(rule.shortest, rule.longest) {
        let one = rule.longest == 1 || rule.longest == usize::MAX && rule.shortest == 1;
        words.push_str(&format!(" of {range} character{}", if one { "" } else { "s" }));
    }
    if let Some(pattern) = &rule.pattern {
        words.push_str(&format!(" that matches {}", shortened(&pattern.text)));
    }
    words
}

fn list(node: &Node) -> String {
    match range_words(node.list.shortest, node.list.longest) {
        Some(range) => format!("a list of {range}"),
        None => "a list".to_owned(),
    }
}

fn object(node: &Node) -> String {
    let rule = &node.object;
    let required: Vec<_> = rule.fields.iter().filter(|field| field.required).collect();
    let some = if required.is_empty() { Vec::new() } else { required };
    let names: Vec<_> = some
        .iter()
        .take(4)
        .map(|field| match node_of_tag(field.only.as_deref()) {
            Some(tag) => format!("`{}` {tag}", brief(&field.name)),
            None => format!("`{}`", brief(&field.name)),
        })
        .collect();
    let more = if some.len() > 4 { ", …" } else { "" };
    match (names.is_empty(), range_words(rule.fewest, rule.most)) {
        (false, _) => format!("an object with {}{more}", names.join(", ")),
        (true, Some(range)) => {
            let one = rule.most == 1 || rule.most == usize::MAX && rule.fewest == 1;
            format!("an object with {range} field{}", if one { "" } else { "s" })
        }
        (true, None) => "an object".to_owned(),
    }
}

fn node_of_tag(only: Option<&str>) -> Option<String> {
    only.map(|text| format!("\"{}\"", brief(text)))
}

fn range_words(least: usize, most: usize) -> Option<String> {
    Some(match (least, most) {
        (0, usize::MAX) => return None,
        (least, usize::MAX) => format!("at least {least}"),
        (0, most) => format!("at most {most}"),
        (least, most) if least == most => format!("exactly {least}"),
        (least, most) => format!("{least} to {most}"),
    })
}

fn bounds(rule: &NumberRule, in_full: bool) -> String {
    let mut words = String::new();
    // Large ranges are described only for numbers outside them.
    let small = |high: &Decimal| high.as_i64(0).is_some_and(|n| n < 1 << 16);
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
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Whether one name may be a typo of the other: one letter added, removed or replaced, or two
/// adjacent letters swapped. Long names may have two such differences.
pub(super) fn is_near(name: &str, other: &str) -> bool {
    let (name, other) = (name.to_lowercase(), other.to_lowercase());
    let (length, others) = (name.chars().count(), other.chars().count());
    let slips = if length > 5 { 2 } else { 1 };
    (3..=64).contains(&length)
        && length.abs_diff(others) <= slips
        && strsim::osa_distance(&name, &other) <= slips
}

/// Describes a member of a union, for advice.
pub(super) fn member(graph: &Graph, id: Id) -> String {
    expected(graph, graph.node(id))
}
