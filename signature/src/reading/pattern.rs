//! Patterns of texts, as regular expressions.
//!
//! In: the `pattern` of a schema. Out: a [`Pattern`] to match texts and keys. Most patterns are a
//! sequence of character classes from start to end. They become a row of [`ClassRun`]s and are
//! matched without a regex engine, which would cost more than all other parts of reading:
//!
//! ```text
//! ^[A-Z]{2}-\d+$   →   A-Z, 2 to 2    "-", 1 to 1    0-9, 1 or more
//! ^[a-z]*a$        →   the engine, because the first class may take the last `a` too
//! ```
//!
//! Begin with [`Pattern::new`]. A pattern that the engine does not support matches everything,
//! unless the caller decides otherwise ([`Pattern::unknown_takes`]).

use regex_lite::Regex;

/// A pattern that must match some part of a text or a key.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// The pattern as the schema has it.
    pub(crate) text: String,
    /// The steps of a simple pattern, which are used instead of the engine.
    row: Option<Vec<ClassRun>>,
    /// `None` for a pattern that the engine does not support.
    regex: Option<Regex>,
    /// Whether an unsupported pattern matches.
    unknown_takes: bool,
}

impl Pattern {
    /// Compiles a pattern.
    pub(crate) fn new(text: &str) -> Self {
        let regex = Regex::new(text).ok();
        let row = regex.as_ref().and_then(|_| row(text));
        Self { text: text.to_owned(), row, regex, unknown_takes: true }
    }

    /// Sets the result of an unsupported pattern.
    pub(crate) fn unknown_takes(self, unknown_takes: bool) -> Self {
        Self { unknown_takes, ..self }
    }

    /// Whether the engine supports the pattern.
    pub(crate) fn is_known(&self) -> bool {
        self.regex.is_some()
    }

    /// Whether some part of a text matches.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        match &self.row {
            Some(row) => matches(row, text.as_bytes()),
            None => self.regex.as_ref().map_or(self.unknown_takes, |regex| regex.is_match(text)),
        }
    }
}

/// A class of ASCII characters, and its number of repetitions.
#[derive(Debug, Clone)]
struct ClassRun {
    /// One bit for each ASCII character.
    class: u128,
    fewest: usize,
    most: usize,
}

impl ClassRun {
    /// Whether a character is in the class.
    fn has(&self, byte: u8) -> bool {
        byte < 128 && self.class >> byte & 1 == 1
    }
}

/// Whether a whole text matches a row, each step taking as much as it can.
fn matches(row: &[ClassRun], text: &[u8]) -> bool {
    let mut rest = text;
    for step in row {
        let count = rest.iter().take(step.most).take_while(|byte| step.has(**byte)).count();
        if count < step.fewest {
            return false;
        }
        rest = rest.get(count..).unwrap_or_default();
    }
    rest.is_empty()
}

/// Returns the steps of a pattern from start to end, if each of them can be greedy without
/// affecting the next.
///
/// ```text
/// ^a+b$    →  a row: `a` cannot take the `b`
/// ^a*a$    →  no row: after `a*` nothing is left for the last `a`
/// ```
fn row(pattern: &str) -> Option<Vec<ClassRun>> {
    let mut rest = pattern.strip_prefix('^')?.strip_suffix('$')?.as_bytes();
    let mut steps: Vec<ClassRun> = Vec::new();
    while !rest.is_empty() {
        let (class, after) = class(rest)?;
        let (fewest, most, after) = count(after)?;
        steps.push(ClassRun { class, fewest, most });
        rest = after;
    }
    let greedy = steps.windows(2).all(|two| match two {
        [one, two] => one.fewest == one.most || one.class & two.class == 0 && two.fewest > 0,
        _ => true,
    });
    greedy.then_some(steps)
}

/// Parses one class; returns it and the pattern after it.
fn class(rest: &[u8]) -> Option<(u128, &[u8])> {
    match rest {
        [b'[', rest @ ..] => set(rest),
        [b'\\', escaped, rest @ ..] => Some((escape(*escaped)?, rest)),
        [plain, rest @ ..] if is_plain(*plain) => Some((1 << plain, rest)),
        _ => None,
    }
}

/// Whether a character of a pattern stands for itself.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" -_:/@#=,;<>~!%&'\"".contains(&byte)
}

/// Returns the class of an escape. White space is left out: the engine knows more of it than ASCII.
fn escape(escaped: u8) -> Option<u128> {
    let digits = range(b'0', b'9');
    let letters = range(b'a', b'z') | range(b'A', b'Z');
    Some(match escaped {
        b'd' => digits,
        b'w' => digits | letters | 1 << b'_',
        b'.' | b'-' | b'+' | b'*' | b'?' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'^'
        | b'$' | b'|' | b'/' | b'\\' => 1 << escaped,
        _ => return None,
    })
}

/// Returns the class of all characters from `first` to `last`.
fn range(first: u8, last: u8) -> u128 {
    (first..=last).fold(0, |class, byte| class | 1 << byte)
}

/// Parses the text after an opening bracket, up to the closing one.
///
/// ```text
/// A-Z0-9_]   →   letters, digits and `_`
/// ^a]        →   left to the engine
/// ```
fn set(mut rest: &[u8]) -> Option<(u128, &[u8])> {
    let mut class = 0;
    let begins_range = |after: &[u8]| after.starts_with(b"-") && !after.starts_with(b"-]");
    loop {
        match rest {
            [b']', after @ ..] if class != 0 => return Some((class, after)),
            // An escape as the start of a range is rare, so it is not supported.
            [b'\\', _, after @ ..] if begins_range(after) => return None,
            [b'\\', escaped, after @ ..] => {
                class |= escape(*escaped)?;
                rest = after;
            }
            [first, b'-', last, after @ ..]
                if first.is_ascii_alphanumeric()
                    && last.is_ascii_alphanumeric()
                    && first <= last =>
            {
                class |= range(*first, *last);
                rest = after;
            }
            [b'-', after @ ..] if after.starts_with(b"]") => {
                class |= 1 << b'-';
                rest = after;
            }
            // Some characters have a special meaning when doubled.
            [plain, after @ ..]
                if b"_ .@:/#,+".contains(plain) || plain.is_ascii_alphanumeric() =>
            {
                if begins_range(after) {
                    return None;
                }
                class |= 1 << plain;
                rest = after;
            }
            _ => return None,
        }
    }
}

/// Parses the number of repetitions after a class; returns it and the pattern after it.
fn count(rest: &[u8]) -> Option<(usize, usize, &[u8])> {
    let (fewest, most, after) = match rest {
        [b'+', after @ ..] => (1, usize::MAX, after),
        [b'*', after @ ..] => (0, usize::MAX, after),
        [b'?', after @ ..] => (0, 1, after),
        [b'{', after @ ..] => braces(after)?,
        _ => return Some((1, 1, rest)),
    };
    // Lazy and possessive repetitions are left to the engine.
    (!matches!(after.first(), Some(b'?' | b'+' | b'*' | b'{'))).then_some((fewest, most, after))
}

/// Parses `2}`, `2,}` or `2,5}`.
fn braces(rest: &[u8]) -> Option<(usize, usize, &[u8])> {
    let end = rest.iter().position(|byte| *byte == b'}')?;
    let (inside, after) = (std::str::from_utf8(rest.get(..end)?).ok()?, rest.get(end + 1..)?);
    let number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<usize>().ok())?
    };
    let (fewest, most) = match inside.split_once(',') {
        Some((fewest, "")) => (number(fewest)?, usize::MAX),
        Some((fewest, most)) => (number(fewest)?, number(most)?),
        None => (number(inside)?, number(inside)?),
    };
    (fewest <= most).then_some((fewest, most, after))
}

#[cfg(test)]
mod tests {
    use super::row;

    #[test]
    fn the_usual_patterns_need_no_engine() {
        for pattern in [r"^[A-Z]{2}-\d+$", "^[a-zA-Z0-9_-]{1,4}$", r"^\+?\d{2,}$"] {
            assert!(row(pattern).is_some(), "{pattern}");
        }
        for pattern in ["^[a-z]*a$", "^[^a]$", "^a$|^b$", "^a+?$", "^(a)$", "a", "^.$", r"^\s$"] {
            assert!(row(pattern).is_none(), "{pattern}");
        }
    }
}
