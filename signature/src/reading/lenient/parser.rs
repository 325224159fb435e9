//! The parser of near-JSON.
//!
//! In: a text and the offset of a value. Out: the value as exact JSON and its repairs, or a fault.
//! Unlike the [tokenizer](crate::reading::tokenizer), it is recursive and writes while it reads:
//!
//! ```text
//! {'a': .5, // half        →   {"a":0.5,"b":null}
//!   b: None,}
//! ```
//!
//! Most of its work is doubt: `//` and `#` may begin a comment, or may be a part of a text whose
//! quotes were not escaped. The last token ([`Ended`]) and the expected one decide.
//!
//! Begin with [`LenientParser::value`].

use crate::limits::TEXT_DEPTH;
use crate::reading::lenient::{NotJson, Repaired};
use crate::reading::policy::Repair;
use crate::reading::tape::{Tape, quoted};
use crate::reading::tokenizer::{simple_escape, unescaped_unicode};

/// The fault of a comment that may be part of the string before it.
const INNER_QUOTE: &str =
    "this is a comment or a part of the string before it; escape the quotes inside a string";

/// The fault of a token that must not follow a string.
const AFTER_TEXT: &str =
    "`,` or the closing bracket is expected after a string; escape the quotes inside a string";

/// The fault of a comment that contains the end of a string.
const LONE_QUOTE: &str =
    "this is a comment or a string without its first quote; write it without comments";

/// The fault of a comment where a value is expected: `"url": //host/page`.
const BARE_VALUE: &str = "this is a comment or a value without quotes; write it without comments";

/// The fault of a comment after a number: `7 // 2`.
const ARITHMETIC: &str = "this is a comment or arithmetic; write the number alone";

/// The fault of brackets around nothing but a comment: `{/* "prefix": "a" */}`.
const ONLY_COMMENT: &str =
    "there is only a comment between the brackets; write what it says as JSON, or nothing";

/// The token before white space and comments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// A text with its last quote before `at`.
    Text { quote: char, at: usize },
    /// A number that ends before `at`.
    Number { at: usize },
    /// Anything that cannot continue in a comment.
    Other,
}

/// The parser of one value, and its output so far.
pub(super) struct LenientParser<'t> {
    text: &'t str,
    /// The offset of the next character.
    pub(super) at: usize,
    /// The value as JSON.
    out: String,
    /// The repairs: the first place and the number of each.
    notes: Vec<(&'static str, String, usize)>,
    /// The steps from the root to the current value: `.a`, `[0]`.
    path: Vec<String>,
    /// The last text or number.
    ended: Ended,
    /// The length of the rejected comment.
    pub(super) refused: usize,
}

impl<'t> LenientParser<'t> {
    /// Makes a parser of the value that begins at `at`.
    pub(super) fn new(text: &'t str, at: usize) -> Self {
        let (out, notes, path) = (String::new(), Vec::new(), Vec::new());
        Self { text, at, out, notes, path, ended: Ended::Other, refused: 0 }
    }

    /// Parses a text that is one value, with nothing but white space and comments around it.
    pub(super) fn whole(mut self) -> Result<Repaired, NotJson> {
        self.space(false)?;
        self.value()?;
        self.space(false)?;
        if self.at < self.text.len() {
            return Err(self.unclear("something follows the value"));
        }
        Ok(self.found())
    }

    /// Returns the value and its repairs, one note for each kind.
    pub(super) fn found(self) -> Repaired {
        let notes = self.notes.into_iter().map(|(what, path, count)| Repair {
            path,
            what: if count > 1 { format!("{what}, {count} times") } else { what.to_owned() },
        });
        (self.out, notes.collect())
    }

    /// Records a repair of the current value.
    ///
    /// ```text
    /// left out a trailing comma, 3 times     one note, with the path of the first
    /// ```
    fn note(&mut self, what: &'static str) {
        match self.notes.iter_mut().find(|(known, ..)| *known == what) {
            Some((_, _, count)) => *count += 1,
            None => self.notes.push((what, format!("${}", self.path.concat()), 1)),
        }
    }

    /// Returns the text ahead.
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Returns the text ahead up to the first character that is not a `part`.
    fn ahead(&self, part: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        rest.get(..rest.find(|c| !part(c)).unwrap_or(rest.len())).unwrap_or_default()
    }

    /// Returns the next character.
    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Consumes one character.
    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Makes the fault of an unexpected character, or of a text that ends here.
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

    /// Skips white space and comments. `before_value` means that a value follows, which a model may
    /// have written without quotes.
    fn space(&mut self, before_value: bool) -> Result<(), NotJson> {
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
            if let Some(what) = self.doubt(comment, start, before_value) {
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
    ///
    /// ```text
    /// "<a href="//x.y">"       the rest of a text whose quotes were not escaped
    /// 7 // 2                   arithmetic
    /// "url": //host/page       a value without quotes
    /// ```
    fn doubt(&self, comment: &str, start: usize, before_value: bool) -> Option<&'static str> {
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
        let bare = before_value && !comment.starts_with("/*");
        (bare && !word.is_empty() && !word.contains(char::is_whitespace)).then_some(BARE_VALUE)
    }

    /// Parses one value and leaves `at` after it.
    pub(super) fn value(&mut self) -> Result<(), NotJson> {
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

    /// Parses an opening bracket and the space after it. A comment in place of all values may have
    /// the values.
    fn open(&mut self, bracket: char) -> Result<(), NotJson> {
        if self.path.len() >= TEXT_DEPTH {
            return Err(NotJson::TooDeep);
        }
        self.bump();
        self.out.push(bracket);
        let start = self.at;
        self.space(bracket == '[')?;
        let between = self.text.get(start..self.at).unwrap_or_default();
        if matches!(self.peek(), Some('}' | ']')) && between.contains(['/', '#']) {
            return Err(self.unclear(ONLY_COMMENT));
        }
        Ok(())
    }

    /// Parses a list; a comma may follow the last item.
    fn list(&mut self) -> Result<(), NotJson> {
        self.open('[')?;
        let mut count = 0;
        while self.peek() != Some(']') {
            self.path.push(format!("[{count}]"));
            self.value()?;
            self.path.pop();
            self.space(false)?;
            count += 1;
            if !self.comma(']')? {
                break;
            }
        }
        self.expect_end(']')
    }

    /// Parses an object; a comma may follow the last field, and one between two lines may be
    /// missing.
    fn object(&mut self) -> Result<(), NotJson> {
        self.open('{')?;
        while self.peek() != Some('}') {
            let key = self.key()?;
            self.out.push_str(&quoted(&key));
            self.space(false)?;
            if self.peek() != Some(':') {
                return Err(self.unclear("`:` is expected after a name"));
            }
            self.bump();
            self.out.push(':');
            self.space(true)?;
            self.path.push(format!(".{key}"));
            let is_text = matches!(self.peek(), Some('"' | '\'' | '“'));
            self.value()?;
            self.path.pop();
            let end = self.at;
            self.space(false)?;
            let more = self.comma('}')? || self.at > end && !is_text && self.missing_comma();
            if !more {
                break;
            }
        }
        self.expect_end('}')
    }

    /// Parses the closing bracket of a list or an object.
    fn expect_end(&mut self, bracket: char) -> Result<(), NotJson> {
        match self.peek() {
            Some(c) if c == bracket => {
                self.bump();
                self.out.push(bracket);
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
        self.space(bracket == ']')?;
        if self.peek() == Some(bracket) {
            self.note("left out a trailing comma");
            return Ok(false);
        }
        self.out.push(',');
        Ok(true)
    }

    /// Puts in a comma if a field follows; returns whether one does. After a value that is not a
    /// text, the meaning is certain.
    ///
    /// ```text
    /// {"a": 1
    ///  "b": 2}     →   {"a":1,"b":2}
    /// ```
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

    /// Returns a key, with or without quotes.
    ///
    /// ```text
    /// "a", 'a', a, $a, a-b   →   keys      -a   →   fault
    /// ```
    fn key(&mut self) -> Result<String, NotJson> {
        if let Some('"' | '\'' | '“') = self.peek() {
            return self.quoted();
        }
        let name = self.ahead(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | '-'));
        if name.is_empty() || name.starts_with('-') {
            return Err(self.unclear("a name is expected"));
        }
        self.at += name.len();
        self.note("put a name in quotes");
        Ok(name.to_owned())
    }

    /// Reads a text in quotes of any kind.
    ///
    /// ```text
    /// 'it"s'   →   it"s
    /// “a”      →   a
    /// ```
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

    /// Returns the character of the escape after a backslash.
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

    /// Parses a number: `+5`, `.5` and `5.` have one meaning, `007` and `1,000` do not.
    fn number(&mut self) -> Result<(), NotJson> {
        let literal = self.ahead(|c| c.is_alphanumeric() || matches!(c, '.' | '+' | '-' | '_'));
        if self.rest().get(literal.len()..).is_some_and(|rest| rest.starts_with(['/', '#'])) {
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

    /// Parses `true`, `false` or `null`, also as Python and JavaScript write them.
    ///
    /// ```text
    /// True, TRUE → true      None, NULL, undefined → null      NaN, yes → fault
    /// ```
    fn word(&mut self) -> Result<(), NotJson> {
        let word = self.ahead(|c| c.is_alphanumeric() || c == '_');
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
///
/// ```text
/// it's one        →  false: an apostrophe
/// , "b"           →  false
/// x", "b"         →  true: the first quote ends a text before the comment
/// ```
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
