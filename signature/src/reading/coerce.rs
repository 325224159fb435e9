//! Values of another type than the schema's that have only one meaning.
//!
//! In: a value that does not fit its node. Out: the value that it means, listed as a repair, or a
//! fault. This is the last level of the repair walk ([`Level::Coerce`]):
//!
//! ```text
//! "5", "+5"           →  5          "true", "False"    →  true, false
//! "", "null", "none"  →  null       "HIGH"             →  "high", if `high` is listed
//! "[1, 2,]"           →  [1,2]      "a"                →  ["a"], for a list of strings
//!
//! "1.000" for an integer     fault: one, or one thousand
//! "a, b" for a list          fault: one item, or two
//! ```
//!
//! Begin with [`RepairWalk::other_kind`] for a value of the wrong type, and with
//! [`RepairWalk::coerced_text`] for a text that breaks a rule. [`folded`] and [`is_nothing`] also
//! decide about names and absent fields.

use crate::limits::{LIST_WORDS, REPAIR_STEPS_EACH};
use crate::reading::fault_words::excerpt;
use crate::reading::fit_check::{Fits, number};
use crate::reading::lenient;
use crate::reading::number::Decimal;
use crate::reading::repair_walk::{At, Level, Path, RepairWalk};
use crate::reading::tape::{Tape, TokenKind};
use crate::schema::graph::Node;
use crate::schema::types::Types;

impl RepairWalk<'_> {
    /// Reads a value of a type that the schema does not allow here: in the shape of a dialect, or
    /// coerced.
    ///
    /// A part that has reported its own fault is not reported a second time.
    pub(super) fn other_kind(&mut self, at: At<'_>, node: &Node) -> bool {
        if self.level >= Level::Restore
            && let Some(fits) = self.restored(at, node)
        {
            return fits;
        }
        if self.level < Level::Coerce {
            return self.fault(at, node, "");
        }
        let faults = self.faults.len() + self.more;
        let fits = match at.kind() {
            TokenKind::Text | TokenKind::Escaped => self.text_as_other(at, node),
            TokenKind::Null => false,
            _ => self.single(at, node),
        };
        let told = self.faults.len() + self.more > faults;
        fits || !told && self.fault(at, node, "")
    }

    /// Coerces a text that breaks the rules of a node for texts.
    ///
    /// ```text
    /// "HIGH"                  →  "high", if no other listed value is alike
    /// "2026-12-01 10:00z"     →  "2026-12-01T10:00:00Z", for a date-time
    /// "none"                  →  null, if the node is nullable
    /// ```
    pub(super) fn coerced_text(&mut self, at: At<'_>, found: &str, node: &Node) -> bool {
        if let Some(values) = &node.values {
            let texts = values.iter().filter_map(|value| value.as_str());
            let mut alike = texts.filter(|text| folded(text) == folded(found));
            if let (Some(one), None) = (alike.next(), alike.next()) {
                self.repaired(at.path, format!("read {} as {one:?}", excerpt(found)));
                return self.write_text(one);
            }
        } else if let Some(format) = node.text.format
            && let Some(normal) = format.normal(found)
            && crate::reading::fit_check::text(&normal, &node.text)
        {
            self.repaired(at.path, format!("read {} as {normal:?}", excerpt(found)));
            return self.write_text(&normal);
        }
        node.takes_null() && is_nothing(found) && self.null(at, found)
    }

    /// Reads a text as null.
    fn null(&mut self, at: At<'_>, found: &str) -> bool {
        self.repaired(at.path, format!("read {} as null", excerpt(found)));
        self.out.push_str("null");
        true
    }

    /// Reads a text as null, a boolean, a number, or as JSON of a list or an object.
    ///
    /// ```text
    /// "true"  →  true      "none"  →  null      "5"  →  5      "[1]"  →  [1]
    /// ```
    fn text_as_other(&mut self, at: At<'_>, node: &Node) -> bool {
        let text = at.tape.text(at.token);
        let trimmed = text.trim();
        if node.takes_null() && is_nothing(trimmed) {
            return self.null(at, trimmed);
        }
        if node.types.has(Types::BOOLEAN)
            && let Some(word) = ["true", "false"].iter().find(|w| trimmed.eq_ignore_ascii_case(w))
            && node.values.as_ref().is_none_or(|values| values.contains(&(*word == "true").into()))
        {
            self.repaired(at.path, format!("read the string {} as {word}", excerpt(&text)));
            self.out.push_str(word);
            return true;
        }
        if node.types.meets(Types::NUMBER) && self.text_as_number(at, trimmed, node) {
            return true;
        }
        let object = node.types.has(Types::OBJECT) && trimmed.starts_with(['{', '[']);
        let list = node.types.has(Types::LIST) && trimmed.starts_with(['{', '[']);
        if object || list {
            return self.text_as_json(at, trimmed, node);
        }
        node.types.has(Types::LIST) && self.single(at, node)
    }

    /// Reads a text as a number; returns false without a fault if it is not one.
    ///
    /// ```text
    /// "+5", " 5 "   →  5
    /// "5.0"         →  5, for an integer
    /// "1.000"       →  fault for an integer: it may be 1 or 1000
    /// ```
    fn text_as_number(&mut self, at: At<'_>, trimmed: &str, node: &Node) -> bool {
        let literal =
            trimmed.strip_prefix('+').filter(|rest| !rest.starts_with('-')).unwrap_or(trimmed);
        if Decimal::parse(literal).is_none()
            || number(literal, node.types, &node.number) == Fits::No
        {
            return false;
        }
        if !node.types.has(Types::NUMBER) && may_be_thousands(literal) {
            let (whole, _) = literal.split_once('.').unwrap_or_default();
            return self.fault(at, node, &format!("it may be {whole} or {whole}000"));
        }
        let start = self.out.len();
        let fits = self.number(at, literal, node);
        if fits {
            let read = self.out.get(start..).unwrap_or_default().to_owned();
            let text = excerpt(&at.tape.text(at.token));
            self.repaired(at.path, format!("read the string {text} as the number {read}"));
        }
        fits
    }

    /// Reads a list or an object that was written as a text.
    ///
    /// ```text
    /// "[1, 2]"      →  [1,2]
    /// "{'a': 1,}"   →  {"a":1}, and the repairs of the text inside
    /// ```
    fn text_as_json(&mut self, at: At<'_>, trimmed: &str, node: &Node) -> bool {
        let (json, notes) = match Tape::parse(trimmed) {
            Ok(_) => (trimmed.to_owned(), Vec::new()),
            Err(_) => lenient::value(trimmed).unwrap_or_default(),
        };
        let Ok(tape) = Tape::parse(&json) else {
            return false;
        };
        let what = match tape.kind(0) {
            TokenKind::List => "list",
            TokenKind::Object => "object",
            _ => return false,
        };
        self.steps += REPAIR_STEPS_EACH * tape.len();
        self.repaired(at.path, format!("read the string as the {what} that is written in it"));
        for note in notes {
            self.repaired(at.path, note.what);
        }
        self.node(At { tape: &tape, token: 0, path: at.path }, node)
    }

    /// Reads one value as a list of one. Not a text that may mean no item or several, and not inside
    /// another list, where the value may belong to that one.
    ///
    /// ```text
    /// "new"         →  ["new"]
    /// "new, open"   →  fault: it may be two items
    /// "n/a"         →  fault: it may be none
    /// ```
    fn single(&mut self, at: At<'_>, node: &Node) -> bool {
        let rule = &node.list;
        let inside_list = matches!(at.path, Path::Item(..));
        let Some(Some(id)) = rule.item(0) else {
            return false;
        };
        let item = self.graph.node(id);
        let list_of_lists = item.types.without(Types::NULL) == Types::LIST;
        let takes_one = node.types.has(Types::LIST)
            && rule.prefix.is_empty()
            && (rule.shortest..=rule.longest).contains(&1)
            && rule.contains.is_none();
        if !takes_one
            || inside_list
            || list_of_lists
            || at.tape.is_text(at.token) && may_be_several(&at.tape.text(at.token), item)
        {
            return false;
        }
        let path = Path::Item(at.path, 0);
        let Some(attempt) = self.attempt(at.to(at.token, &path), id, Level::Coerce) else {
            return false;
        };
        // An object must certainly be an item: it may be a list in another form.
        if at.kind() == TokenKind::Object && attempt.unknown > 0 {
            return false;
        }
        self.repaired(at.path, "read a single value as a list of one".to_owned());
        self.out.push('[');
        self.take(attempt);
        self.out.push(']');
        true
    }
}

/// Whether a number may be thousands with a separator: `1.000` is one thousand in many countries.
fn may_be_thousands(literal: &str) -> bool {
    let digits = literal.trim_start_matches('-');
    digits.split_once('.').is_some_and(|(whole, fraction)| {
        fraction == "000" && whole.len() < 4 && !whole.starts_with('0')
    })
}

/// Whether a text may mean no item, or more than one.
///
/// A listed text is one item, whatever it looks like.
fn may_be_several(text: &str, item: &Node) -> bool {
    let listed = item.values.as_ref().is_some_and(|values| values.contains(&text.into()));
    let trimmed = text.trim();
    let texts = item.types.has(Types::TEXT);
    !listed
        && (is_nothing(trimmed)
            || trimmed.starts_with(['[', '-', '*', '•']) && trimmed.parse::<f64>().is_err()
            || texts && (says_none(trimmed) || says_several(trimmed)))
}

/// Whether a text says in words that there is no item.
fn says_none(text: &str) -> bool {
    const WORDS: &str = "n/a, na, n.a, nil, no, none, nothing, nobody, no one, null, undefined, \
        unspecified, unknown, empty, not applicable, not available, not specified, not provided, \
        not set, tbd";
    let word = text.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    word.is_empty() || WORDS.split(", ").any(|known| known == word)
}

/// Whether a text is a list of several items: with a separator, with a word between the last two,
/// in quotes or brackets, or with a mark before each item.
///
/// ```text
/// a, b    a and b    #a #b    "a", "b"    →  true
/// salt water                              →  false
/// ```
fn says_several(text: &str) -> bool {
    const SEPARATORS: [char; 11] = [',', ';', '\n', '\t', '|', '•', '·', '،', '、', '，', '；'];
    const WORDS: [&str; 9] = ["and", "or", "und", "oder", "et", "ou", "&", "+", "/"];
    if text.contains(SEPARATORS) || text.starts_with(['(', '{', '"', '\'', '`', '“', '<']) {
        return true;
    }
    let words: Vec<&str> = text.split_whitespace().take(LIST_WORDS).collect();
    let inner = words.get(1..words.len().saturating_sub(1)).unwrap_or_default();
    let joined = inner.iter().any(|word| WORDS.contains(&word.to_lowercase().as_str()));
    let marked =
        |word: &&str| word.starts_with(['#', '@']) || word.contains("://") || word.contains('@');
    joined || words.len() > 1 && words.iter().all(marked)
}

/// Whether a text means that there is no value.
pub(super) fn is_nothing(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || text.eq_ignore_ascii_case("null") || text.eq_ignore_ascii_case("none")
}

/// Removes from a name or a listed text the parts that models often change: case, and the
/// separators between words. A separator between digits may be a sign or a point, so it stays.
///
/// ```text
/// dueDate, due_date, Due-Date   →   duedate
/// v1.2-3, -5                    →   v1.2-3, -5
/// ```
pub(crate) fn folded(text: &str) -> String {
    let text: Vec<char> = text.trim().chars().collect();
    let around = |at: Option<usize>| at.and_then(|at| text.get(at)).copied();
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.iter().enumerate() {
        if matches!(c, ' ' | '_' | '-') {
            let sides = [around(at.checked_sub(1)), around(Some(at + 1))];
            let between = sides.iter().all(|c| c.is_some_and(char::is_alphanumeric));
            if between && sides.iter().any(|c| c.is_some_and(char::is_alphabetic)) {
                continue;
            }
        }
        out.extend(c.to_lowercase());
    }
    out
}
