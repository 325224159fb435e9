//! Conversion of near-JSON to JSON.
//!
//! Only faults with one possible meaning are repaired. A text that was cut off is rejected, because
//! its end would be a guess, even for a single bracket. A quote that may belong to the inside of a
//! text is rejected too: as the end of the text, it would cut the text short.

use crate::limits::{TEXT_DEPTH, VAIN_BYTES, VAIN_SCANS};
use crate::reading::repair_walk::quoted;
use crate::reading::tape::{Tape, simple_escape, unescaped_unicode};

/// The fault of a comment that may be part of the string before it.
const INNER_QUOTE: &str =
    "this is a comment or a part of the string before it; escape the quotes inside a string";

/// The fault of a token that must not follow a string.
const AFTER_TEXT: &str =
    "`,` or the closing bracket is expected after a string; escape the quotes inside a string";

const LONE_QUOTE: &str =
    "this is a comment or a string without its first quote; write it without comments";

const BARE_VALUE: &str = "this is a comment or a value without quotes; write it without comments";

const ARITHMETIC: &str = "this is a comment or arithmetic; write the number alone";

const TOO_MANY: &str = "too many brackets open no value; give the value alone";

/// One kind of repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) path: String,
    pub(super) what: String,
}

/// The reason why a text has no meaning, or more than one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotJson {
    EndsEarly,
    /// There is an unexpected character, at an offset in bytes.
    Unclear {
        at: usize,
        what: &'static str,
    },
    /// There are several different values.
    Several,
    TooDeep,
    /// There is no JSON.
    Nothing,
}

type Repaired = (String, Vec<Note>);

/// Parses a text that is one value.
pub(super) fn value(text: &str) -> Result<Repaired, NotJson> {
    let mut parser = LenientParser::new(text, 0);
    parser.space(Place::Other)?;
    parser.value()?;
    parser.space(Place::Other)?;
    if parser.at < text.len() {
        return Err(parser.unclear("something follows the value"));
    }
    Ok(parser.found())
}

/// Facts about the schema that decide which text around a value belongs to it.
pub(super) struct Asked<'a> {
    /// Whether the value may be a list; otherwise a list beside an object is ignored.
    pub(super) lists: bool,
    /// Whether there is a field of a given name.
    pub(super) field: &'a dyn Fn(&str) -> bool,
}

/// Parses the value inside a text, which may have other text around it.
pub(super) fn document(text: &str, asked: &Asked<'_>) -> Result<Repaired, NotJson> {
    if let Some(at) = text.find('\0') {
        return Err(NotJson::Unclear { at, what: "a NUL cannot be part of a text" });
    }
    let note = |what: &str| Note { path: "$".into(), what: what.into() };
    if let Some(thoughts) = text.trim_start().strip_prefix("<think>") {
        // Drafts are not answers, and without an end everything after `<think>` is a draft.
        let (_, answer) = thoughts.split_once("</think>").ok_or(NotJson::EndsEarly)?;
        return match answer_in(answer, asked) {
            Ok((json, mut notes)) => {
                notes.insert(0, note("left out the thoughts before the value"));
                Ok((json, notes))
            }
            Err(NotJson::Unclear { at, what }) => {
                Err(NotJson::Unclear { at: at + text.len() - answer.len(), what })
            }
            Err(refusal) => Err(refusal),
        };
    }
    answer_in(text, asked)
}

fn answer_in(text: &str, asked: &Asked<'_>) -> Result<Repaired, NotJson> {
    let note = |what: &str| Note { path: "$".into(), what: what.into() };
    let inner = fenced(text).unwrap_or(text);
    let whole = value(inner);
    match whole {
        Ok((json, mut notes)) => {
            if inner.len() < text.len() {
                notes.insert(0, note("took the value out of a code fence"));
            }
            return Ok((json, notes));
        }
        Err(NotJson::EndsEarly | NotJson::TooDeep) if inner.trim().starts_with(['{', '[', '"']) => {
            return whole;
        }
        Err(_) => {}
    }
    if let Some(json) = escaped_once_more(inner.trim()) {
        return Ok((json, vec![note("took away a second layer of escapes")]));
    }
    let (json, mut notes) = among_words(text, asked, whole.err().unwrap_or(NotJson::Nothing))?;
    notes.insert(0, note("took the value out of the text around it"));
    Ok((json, notes))
}

/// Returns the inside of a code fence, if the whole text is one code fence.
fn fenced(text: &str) -> Option<&str> {
    let rest = text.trim().strip_prefix("```")?;
    let rest = rest.strip_suffix("```")?;
    if rest.contains("```") {
        return None;
    }
    let (language, body) = rest.split_once('\n').unwrap_or(("", rest));
    let word = |c: char| c.is_ascii_alphanumeric() || c.is_whitespace();
    Some(if language.chars().all(word) { body } else { rest })
}

/// Decodes the inside of a text: `{\"a\": 1}`.
fn escaped_once_more(text: &str) -> Option<String> {
    if !text.starts_with(['{', '[']) || !text.contains("\\\"") {
        return None;
    }
    let inner: String = serde_json::from_str(&format!("\"{text}\"")).ok()?;
    Tape::parse(&inner).is_ok().then_some(inner)
}

/// Returns the only object or list among words.
fn among_words(text: &str, asked: &Asked<'_>, refusal: NotJson) -> Result<Repaired, NotJson> {
    let mut found: Vec<(Repaired, usize)> = Vec::new();
    // The words before, between and after the values, without comments.
    let mut words = vec![String::new()];
    let mut brackets = false;
    let mut at = 0;
    let mut left = VAIN_BYTES + text.len().saturating_mul(VAIN_SCANS);
    while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
        if let Some(end) = comment(text, at) {
            at = end;
            continue;
        }
        if matches!(c, '{' | '[') {
            brackets = true;
            let mut parser = LenientParser::new(text, at);
            match parser.value() {
                Ok(()) => {
                    let start = std::mem::replace(&mut at, parser.at);
                    found.push((parser.found(), start));
                    words.push(String::new());
                    continue;
                }
                Err(refusal @ (NotJson::EndsEarly | NotJson::TooDeep)) => return Err(refusal),
                // A value that looks like JSON and cannot be parsed may be the intended one.
                Err(refusal) if looks_like_json(text.get(at..).unwrap_or_default(), asked) => {
                    return Err(refusal);
                }
                Err(_) => {
                    left = left.saturating_sub(parser.looked_at(at));
                    if left == 0 {
                        return Err(NotJson::Unclear { at, what: TOO_MANY });
                    }
                }
            }
        }
        words.last_mut().into_iter().for_each(|words| words.push(c));
        at += c.len_utf8();
    }
    let further = words.iter().enumerate().any(|(index, words)| {
        let list = found.get(index).is_some_and(|((json, _), _)| json.starts_with('['));
        names_a_field(words, list, asked)
    });
    if further {
        let at = found.first().map_or(0, |(_, start)| *start);
        return Err(NotJson::Unclear { at, what: "a further field stands outside of it" });
    }
    let objects = found.iter().any(|((json, _), _)| json.starts_with('{'));
    if objects && !asked.lists {
        // `[1]` is a note; a list of objects may be the intended value.
        found.retain(|((json, _), _)| json.contains('{'));
    }
    let differ = found.windows(2).any(|two| match two {
        [((one, _), _), ((two, _), _)] => one != two,
        _ => false,
    });
    if differ {
        return Err(NotJson::Several);
    }
    let Some((found, start)) = found.into_iter().next() else {
        return Err(if brackets { refusal } else { NotJson::Nothing });
    };
    let before = words.first().map_or("", String::as_str);
    let after = words.last().map_or("", String::as_str);
    // A further bracket may close a list of lists, whose opening bracket is missing.
    let in_list = found.0.starts_with('[') && after.trim_start().starts_with(']');
    let nested = ends_early(&found.0) && after.contains(['}', ']']) || in_list;
    if nested || is_part(before, after) {
        return Err(NotJson::Unclear { at: start, what: "it may be a part of something larger" });
    }
    Ok(found)
}

/// Returns the end of the comment at an offset. The marks are also parts of words, so they
/// count only where a comment is certain: not in `https://` and not in `issue #5`.
fn comment(text: &str, at: usize) -> Option<usize> {
    let (before, rest) = text.split_at_checked(at)?;
    if !rest.starts_with(['/', '#']) {
        return None;
    }
    let line = || rest.find('\n').map_or(text.len(), |end| at + end);
    let apart = before.chars().next_back().is_none_or(|c| {
        c.is_whitespace() || matches!(c, '{' | '}' | '[' | ']' | ',' | '/' | '\u{feff}')
    });
    let before = before.trim_end_matches([' ', '\t', '\u{feff}']);
    if rest.starts_with("/*") && apart {
        let end = rest.get(2..).and_then(|rest| rest.find("*/"));
        Some(end.map_or(text.len(), |end| at + 2 + end + 2))
    } else if rest.starts_with("//") && apart
        || rest.starts_with('#') && (before.is_empty() || before.ends_with('\n'))
    {
        Some(line())
    } else {
        None
    }
}

/// Whether words contain a field, which would be lost with them: any name in quotes before a
/// colon, or a declared name before a colon and a value that fills the line.
fn names_a_field(words: &str, list_follows: bool, asked: &Asked<'_>) -> bool {
    // Names and the text after them may have Markdown marks.
    let is_mark = |c: char| matches!(c, '*' | '`') || c.is_whitespace();
    words.match_indices([':', '=']).any(|(at, sign)| {
        let (before, after) = words.split_at_checked(at).unwrap_or_default();
        let before = before.trim_end_matches(is_mark);
        if before.ends_with(['"', '”']) {
            return sign == ":";
        }
        if let Some(quoted) = before.strip_suffix('\'') {
            // An apostrophe is inside a word or after it, a quote before one.
            let opens = |(at, _): (usize, _)| {
                let before = quoted.get(..at).and_then(|before| before.chars().next_back());
                !before.is_some_and(char::is_alphanumeric)
            };
            return quoted.rmatch_indices('\'').next().is_some_and(opens);
        }
        let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
        let rest = before.trim_end_matches(part);
        let name = before.get(rest.len()..).unwrap_or_default();
        let after = after.get(1..).unwrap_or_default().trim_start_matches(['*', '`', ' ']);
        (asked.field)(name) && (is_value(after) || list_follows && after.trim().is_empty())
    })
}

/// Whether the rest of a line is a JSON scalar.
fn is_value(text: &str) -> bool {
    /// Enough to decide; a line may be as long as the text.
    const LONGEST: usize = 200;
    let line: String =
        text.chars().take(LONGEST).take_while(|c| !matches!(c, '\n' | '\r')).collect();
    match value(line.trim().trim_end_matches([',', ';', '}', ']'])) {
        Ok(_) => true,
        Err(refusal) => refusal == NotJson::EndsEarly && line.contains(['"', '\'', '“']),
    }
}

/// Whether there is text after a closing bracket. A surplus bracket may be in the wrong place, so
/// that the text after it belongs inside the value.
fn ends_early(json: &str) -> bool {
    let (mut quoted, mut escaped, mut closed) = (false, false, false);
    json.chars().any(|c| {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            _ if quoted || c.is_whitespace() => {}
            ',' if closed => return true,
            _ => closed = matches!(c, '}' | ']'),
        }
        false
    })
}

/// Whether the text around a value shows that it was part of another value.
fn is_part(before: &str, after: &str) -> bool {
    let before = before.trim_end();
    let key = before.strip_suffix(':').map(str::trim_end);
    if before.ends_with([',', '=', '"'])
        || key.is_some_and(|key| key.ends_with(['"', '\'', '`', '”']))
    {
        return true;
    }
    let only_closers = after.chars().all(|c| c.is_whitespace() || matches!(c, '}' | ']'));
    let closers = after.contains(['}', ']']);
    // A surplus bracket at the very end loses nothing.
    let harmless = only_closers && before.is_empty();
    // A quote at the very end starts a text that continues.
    let quoted = after.starts_with(['"', '”']);
    closers && !harmless || quoted || after.trim_start().starts_with(':') || goes_on(after)
}

/// Whether a comma is followed by another value, not by words.
fn goes_on(after: &str) -> bool {
    let Some(rest) = after.trim_start().strip_prefix(',') else {
        return false;
    };
    let rest = rest.trim_start();
    let name = rest.trim_start_matches(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-'));
    let marks = ['"', '\'', '{', '[', '“', '-', '+', '.'];
    rest.starts_with(marks)
        || rest.starts_with(|c: char| c.is_ascii_digit())
        || name.trim_start().starts_with([':', '='])
}

/// Whether a bracket in a text was intended to open a value. If the value cannot be parsed, any
/// other value in the text is ambiguous.
fn looks_like_json(text: &str, asked: &Asked<'_>) -> bool {
    /// Enough to decide; the text may be full of brackets.
    const LONGEST: usize = 200;
    let mut chars = text.chars();
    let open = chars.next();
    let rest = chars.as_str().trim_start();
    let Some(next) = rest.chars().next() else {
        return true;
    };
    if matches!(next, '"' | '\'' | '“' | '{' | '[' | '}' | ']' | '/' | '\\' | ',') {
        return true;
    }
    match open {
        Some('{') => {
            // Words such as a placeholder have neither names nor quotes.
            let inside = rest.chars().take(LONGEST).take_while(|c| !matches!(c, '{' | '}'));
            inside.into_iter().any(|c| matches!(c, ':' | '=' | '"' | '“' | '`'))
        }
        _ => {
            let words = ["true", "false", "null", "True", "False", "None"];
            next.is_ascii_digit()
                || next == '-'
                || next == '`' && asked.lists
                || words.iter().any(|word| rest.starts_with(word))
        }
    }
}

/// The expected token after white space and comments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A value, which a model may have written without quotes.
    Value,
    Other,
}

/// The token before white space and comments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Text { quote: char, at: usize },
    Number { at: usize },
    Other,
}

struct LenientParser<'t> {
    text: &'t str,
    at: usize,
    out: String,
    /// The repairs: the first place and the number of each.
    notes: Vec<(&'static str, String, usize)>,
    path: Vec<String>,
    /// The last text or number.
    ended: Ended,
    /// The length of the rejected comment.
    refused: usize,
}

impl<'t> LenientParser<'t> {
    fn new(text: &'t str, at: usize) -> Self {
        let (out, notes, path) = (String::new(), Vec::new(), Vec::new());
        Self { text, at, out, notes, path, ended: Ended::Other, refused: 0 }
    }

    /// Returns the number of bytes scanned since a start.
    fn looked_at(&self, start: usize) -> usize {
        self.at.saturating_sub(start) + self.refused
    }

    fn found(self) -> Repaired {
        let notes = self.notes.into_iter().map(|(what, path, count)| Note {
            path,
            what: if count > 1 { format!("{what}, {count} times") } else { what.to_owned() },
        });
        (self.out, notes.collect())
    }

    fn note(&mut self, what: &'static str) {
        match self.notes.iter_mut().find(|(known, ..)| *known == what) {
            Some((_, _, count)) => *count += 1,
            None => self.notes.push((what, format!("${}", self.path.concat()), 1)),
        }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn unclear(&self, what: &'static str) -> NotJson {
        if self.at >= self.text.len() {
            return NotJson::EndsEarly;
        }
        NotJson::Unclear { at: self.at, what }
    }

    /// Makes the fault of an unexpected character after a text that may have ended too early.
    fn unclear_end(&self, what: &'static str) -> NotJson {
        let after_text = match self.ended {
            Ended::Text { at, .. } => self.text.get(at..self.at),
            Ended::Number { .. } | Ended::Other => None,
        };
        let after_text = after_text.is_some_and(|between| between.trim().is_empty());
        self.unclear(if after_text { AFTER_TEXT } else { what })
    }

    /// Skips white space and comments.
    fn space(&mut self, place: Place) -> Result<(), NotJson> {
        let start = self.at;
        loop {
            let rest = self.rest();
            let blank = |c: char| c.is_whitespace() || c == '\u{feff}';
            let trimmed = rest.trim_start_matches(blank);
            let blanks = rest.len() - trimmed.len();
            if rest.get(..blanks).is_some_and(|blanks| !blanks.trim_ascii().is_empty()) {
                self.note("left out white space that JSON does not know");
            }
            self.at += blanks;
            let length = if trimmed.starts_with("/*") {
                let inside = trimmed.get(2..).unwrap_or_default();
                inside.find("*/").map_or(trimmed.len() + 1, |end| end + 4)
            } else if trimmed.starts_with("//") || trimmed.starts_with('#') {
                trimmed.find('\n').unwrap_or(trimmed.len())
            } else {
                return Ok(());
            };
            let comment = trimmed.get(..length).unwrap_or(trimmed);
            if let Some(what) = self.doubt(comment, start, place) {
                self.refused = comment.len();
                return Err(self.unclear(what));
            }
            if length > trimmed.len() {
                return Err(NotJson::EndsEarly);
            }
            self.at += length;
            self.note("left out a comment");
        }
    }

    /// Returns the reason why an apparent comment may be part of a value. The white space before it
    /// begins at `start`.
    fn doubt(&self, comment: &str, start: usize, place: Place) -> Option<&'static str> {
        match self.ended {
            // `"<a href="//host/page">"`: the comment is the rest of the text.
            Ended::Text { quote, at } if at == start => {
                let after = self.rest().get(comment.len()..).unwrap_or_default();
                let glued = self.at == at;
                if comment.contains(quote) || glued && after.contains(quote) {
                    return Some(INNER_QUOTE);
                }
            }
            // `7 // 2`
            Ended::Number { at } if at == start => {
                let operand = comment.strip_prefix("//").unwrap_or_default().trim();
                let operand = operand.trim_end_matches([',', '}', ']']);
                let arithmetic = |c: char| c.is_ascii_digit() || " +-*/%.()".contains(c);
                if !operand.is_empty() && operand.chars().all(arithmetic) {
                    return Some(ARITHMETIC);
                }
            }
            _ => {}
        }
        let marks = |c| matches!(c, '/' | '#' | '*');
        let inside = comment.trim_start_matches(marks).trim_end_matches(marks);
        if has_lone_quote(inside) {
            return Some(LONE_QUOTE);
        }
        let word = inside.trim_end_matches([',', '\r']);
        let bare = place == Place::Value && !comment.starts_with("/*");
        (bare && !word.is_empty() && !word.contains(char::is_whitespace)).then_some(BARE_VALUE)
    }

    fn value(&mut self) -> Result<(), NotJson> {
        match self.peek() {
            Some('{') => self.object(),
            Some('[') => self.list(),
            Some('"' | '\'' | '“') => {
                let text = self.quoted()?;
                self.out.push_str(&quoted(&text));
                Ok(())
            }
            Some('-' | '+' | '.' | '0'..='9') => self.number(),
            _ => self.word(),
        }
    }

    fn open(&mut self, bracket: char) -> Result<(), NotJson> {
        if self.path.len() >= TEXT_DEPTH {
            return Err(NotJson::TooDeep);
        }
        self.bump();
        self.out.push(bracket);
        self.space(if bracket == '[' { Place::Value } else { Place::Other })
    }

    fn close(&mut self, bracket: char) {
        self.bump();
        self.out.push(bracket);
    }

    fn list(&mut self) -> Result<(), NotJson> {
        self.open('[')?;
        let mut count = 0;
        while self.peek() != Some(']') {
            self.path.push(format!("[{count}]"));
            self.value()?;
            self.path.pop();
            self.space(Place::Other)?;
            count += 1;
            if !self.comma(']')? {
                break;
            }
        }
        self.expect_end(']')
    }

    fn object(&mut self) -> Result<(), NotJson> {
        self.open('{')?;
        while self.peek() != Some('}') {
            let key = self.key()?;
            self.out.push_str(&quoted(&key));
            self.space(Place::Other)?;
            if self.peek() != Some(':') {
                return Err(self.unclear("`:` is expected after a name"));
            }
            self.bump();
            self.out.push(':');
            self.space(Place::Value)?;
            self.path.push(format!(".{key}"));
            let is_text = matches!(self.peek(), Some('"' | '\'' | '“'));
            self.value()?;
            self.path.pop();
            let end = self.at;
            self.space(Place::Other)?;
            let more = self.comma('}')? || self.at > end && !is_text && self.missing_comma();
            if !more {
                break;
            }
        }
        self.expect_end('}')
    }

    fn expect_end(&mut self, bracket: char) -> Result<(), NotJson> {
        match self.peek() {
            Some(c) if c == bracket => {
                self.close(bracket);
                Ok(())
            }
            // The end of the container: the end of the value is missing, and maybe more.
            Some('}' | ']') => Err(NotJson::EndsEarly),
            _ => Err(self.unclear_end("`,` or the closing bracket is expected")),
        }
    }

    /// Reads a comma; returns whether another value follows it.
    fn comma(&mut self, bracket: char) -> Result<bool, NotJson> {
        if self.peek() != Some(',') {
            return Ok(false);
        }
        self.bump();
        self.space(if bracket == ']' { Place::Value } else { Place::Other })?;
        if self.peek() == Some(bracket) {
            self.note("left out a trailing comma");
            return Ok(false);
        }
        self.out.push(',');
        Ok(true)
    }

    /// Between two fields, after a value that is not a text, the meaning is certain.
    fn missing_comma(&mut self) -> bool {
        if self.peek() != Some('"') {
            return false;
        }
        let name = self.rest().get(1..).unwrap_or_default();
        let end = name.find(['"', '\\', '\n']);
        let after = end.and_then(|end| name.get(end..)).and_then(|rest| rest.strip_prefix('"'));
        if !after.is_some_and(|after| after.trim_start().starts_with(':')) {
            return false;
        }
        self.note("put in a comma between two fields");
        self.out.push(',');
        true
    }

    fn key(&mut self) -> Result<String, NotJson> {
        if let Some('"' | '\'' | '“') = self.peek() {
            return self.quoted();
        }
        let rest = self.rest();
        let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '-');
        let name = rest.get(..rest.find(|c| !part(c)).unwrap_or(rest.len())).unwrap_or_default();
        if name.is_empty() || name.starts_with('-') {
            return Err(self.unclear("a name is expected"));
        }
        self.at += name.len();
        self.note("put a name in quotes");
        Ok(name.to_owned())
    }

    /// Reads a text in quotes of any kind.
    fn quoted(&mut self) -> Result<String, NotJson> {
        let open = self.bump();
        let end = match open {
            Some('“') => '”',
            Some(quote) => quote,
            None => return Err(NotJson::EndsEarly),
        };
        if end != '"' {
            self.note("read other quotes as double quotes");
        }
        let mut text = String::new();
        loop {
            match self.bump() {
                None => return Err(NotJson::EndsEarly),
                Some(c) if c == end => break,
                Some('\\') => text.push(self.escape()?),
                Some(c) => {
                    if c < ' ' {
                        self.note("escaped a control character");
                    }
                    text.push(c);
                }
            }
        }
        self.ended = Ended::Text { quote: end, at: self.at };
        Ok(text)
    }

    fn escape(&mut self) -> Result<char, NotJson> {
        let rest = self.rest();
        if rest.starts_with('u') {
            let Some((c, length)) = unescaped_unicode(rest) else {
                let early = rest.len() < 11 && !rest.contains(['"', '\'', '”']);
                let what = "this escape stands for no character";
                return Err(if early { NotJson::EndsEarly } else { self.unclear(what) });
            };
            self.at += length;
            return Ok(c);
        }
        let c = self.bump();
        if let Some(plain) = c.and_then(|c| simple_escape(u8::try_from(c).ok()?)) {
            return Ok(plain);
        }
        Ok(match c {
            Some('\'') => {
                self.note("took the backslash off a single quote");
                '\''
            }
            None => return Err(NotJson::EndsEarly),
            // A backslash that was not doubled here is not doubled elsewhere either: `C:\new`.
            Some(_) => return Err(self.unclear("this escape stands for no character")),
        })
    }

    fn number(&mut self) -> Result<(), NotJson> {
        let rest = self.rest();
        let part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '+' | '-' | '_');
        let literal = rest.get(..rest.find(|c| !part(c)).unwrap_or(rest.len())).unwrap_or_default();
        if rest.get(literal.len()..).is_some_and(|rest| rest.starts_with(['/', '#'])) {
            // A number of another language, or arithmetic: `7//2` is not 7.
            return Err(self.unclear("this is not a number"));
        }
        if Tape::parse(literal).is_ok() {
            self.out.push_str(literal);
        } else {
            let (sign, digits) = match literal.strip_prefix('-') {
                Some(digits) => ("-", digits),
                None => ("", literal.strip_prefix('+').unwrap_or(literal)),
            };
            let zero = if digits.starts_with('.') { "0" } else { "" };
            let more = if digits.ends_with('.') { "0" } else { "" };
            let exact = format!("{sign}{zero}{digits}{more}");
            if digits.starts_with(['+', '-']) || digits == "." || Tape::parse(&exact).is_err() {
                return Err(self.unclear("this is not a number"));
            }
            self.note("wrote a number as JSON has it");
            self.out.push_str(&exact);
        }
        self.at += literal.len();
        self.ended = Ended::Number { at: self.at };
        Ok(())
    }

    fn word(&mut self) -> Result<(), NotJson> {
        let rest = self.rest();
        let part = |c: char| c.is_alphanumeric() || c == '_';
        let word = rest.get(..rest.find(|c| !part(c)).unwrap_or(rest.len())).unwrap_or_default();
        let json = match word {
            "true" | "false" | "null" => word,
            "True" | "TRUE" => "true",
            "False" | "FALSE" => "false",
            "None" | "NULL" | "Null" | "undefined" => "null",
            _ => return Err(self.unclear("a value is expected")),
        };
        if json != word {
            self.note("read a word of another language");
        }
        self.at += word.len();
        self.out.push_str(json);
        Ok(())
    }
}

/// Whether a comment contains the end of a text that does not begin in it.
fn has_lone_quote(comment: &str) -> bool {
    if comment.matches(['"', '“', '”']).count() % 2 == 1 {
        return true;
    }
    // An apostrophe is between letters, or at the end of a word before another word.
    let mut quotes = 0;
    let mut ends = false;
    let mut before = ' ';
    let mut chars = comment.chars().peekable();
    while let Some(c) = chars.next() {
        let after = chars.peek().copied().unwrap_or(',');
        if c == '\'' && !(before.is_alphanumeric() && after.is_alphanumeric()) {
            quotes += 1;
            ends |= matches!(after, ',' | ']' | '}' | ':' | '\r');
        }
        before = c;
    }
    ends && quotes % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, NotJson> {
        let asked = Asked { lists: false, field: &|name| name == "b" };
        document(text, &asked).map(|(json, _)| json)
    }

    #[test]
    fn what_has_one_meaning_is_put_right() {
        for (text, json) in [
            ("{'a': 'it\"s', b: True,}", r#"{"a":"it\"s","b":true}"#),
            ("```json\n{\"a\": 1}\n```", r#"{"a":1}"#),
            ("```\n[1, 2,]\n```", "[1,2]"),
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
            ("So:\n# {\"a\": 2}\n{\"a\": 1} /* {\"a\": 3} */ it is.", r#"{"a":1}"#),
            // A comment is one beyond doubt where no quote in it can end the text before it.
            ("{\"a\": \"x\" // note\n}", r#"{"a":"x"}"#),
            ("{\"a\": \"x\"// note\n}", r#"{"a":"x"}"#),
            ("{\"a\": \"x\", // not \"y\"\n\"b\": 1}", r#"{"a":"x","b":1}"#),
            ("{\"a\": 1 # it's one\n}", r#"{"a":1}"#),
            ("{'a': 1 // the users' own\n}", r#"{"a":1}"#),
            ("[ // first\n1, # second\n2]", "[1,2]"),
            ("{\"a\": 7 // 7 days\n}", r#"{"a":7}"#),
            ("{\"a\": \"x // y\",}", r#"{"a":"x // y"}"#),
            ("{n} and {x | x > 0} and {\"a\": 1}", r#"{"a":1}"#),
        ] {
            assert_eq!(read(text).as_deref(), Ok(json), "{text}");
        }
    }

    #[test]
    fn what_was_cut_off_stays_so() {
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
            assert_eq!(read(text), Err(NotJson::EndsEarly), "{text}");
        }
    }

    /// Each of these is a text with quotes inside it that nobody escaped: an editor shows where
    /// it ends, and no parser does.
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
                    format!(
                        "{{\"c\": [{quote}x{quote}, {quote}{inside}{quote},\n{quote}y{quote}]}}"
                    ),
                    format!("{{{quote}{inside}{quote}: 1\n}}"),
                    format!("{{{quote}{inside}{quote}\n: 1}}"),
                    // The first quote is lost.
                    format!("{{\"c\": [\n{inside}{quote}\n]}}"),
                ];
                for text in whole {
                    // What is JSON as it stands has that one meaning.
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
            let Err(NotJson::Unclear { what, .. }) = read(text) else {
                panic!("{text}: {:?}", read(text));
            };
            assert!(what.contains("escape the quotes inside a string"), "{text}: {what}");
        }
    }

    #[test]
    fn what_has_two_meanings_or_none_is_refused() {
        for text in [
            "{\"a\": 1} {\"a\": 2}",
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
}
