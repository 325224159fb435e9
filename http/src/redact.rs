//! The removal of secrets from text, also where a server escaped them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Minimum length of a secret, in bytes.
///
/// Users often give a server that needs no key one such as `x`. To replace every `x` would
/// make its errors unreadable.
const MIN_SECRET: usize = 4;
/// Maximum number of backslashes before one character that are undone.
const MAX_BACKSLASHES: usize = 64;
/// Number of bytes after a cut that are searched, so that a secret across the cut is found.
const MARGIN: usize = 16 * 1024;

/// List of secrets that it replaces in text.
///
/// A server may repeat a key in its error, and may escape it. A secret is found in plain form,
/// with the escapes of JSON (`\/`, `\u0073`, at any level), of URLs (`%73`, also encoded
/// twice) and of HTML (`&#115;`, `&#x73;`, `&amp;`).
///
/// Secrets shorter than four bytes are not replaced.
///
/// ```
/// use toolwright_http::Redactor;
///
/// let redactor = Redactor::default().with_secret("key", "sk-made/up");
/// assert_eq!(redactor.redact("no such key: sk-made/up"), "no such key: [key]");
/// assert_eq!(redactor.redact(r#"{"key": "sk-made\/\u0075p"}"#), r#"{"key": "[key]"}"#);
/// assert_eq!(redactor.redact("?key=sk-made%2Fup"), "?key=[key]");
/// assert!(!format!("{redactor:?}").contains("made"));
/// ```
#[derive(Clone, Default)]
pub struct Redactor(Arc<Secrets>);

#[derive(Clone)]
struct Secrets {
    all: Vec<Secret>,
    /// Whether a byte may begin a secret, plain or escaped.
    may_begin: [bool; 256],
}

impl Default for Secrets {
    fn default() -> Self {
        let mut may_begin = [false; 256];
        b"\\%&".iter().for_each(|byte| may_begin[usize::from(*byte)] = true);
        Self { all: Vec::new(), may_begin }
    }
}

#[derive(Clone)]
struct Secret {
    text: String,
    shown: String,
}

impl Redactor {
    /// Adds a secret. It is replaced with its name in brackets.
    #[must_use]
    pub fn with_secret(&self, name: &str, secret: &str) -> Self {
        let is_known = self.0.all.iter().any(|known| known.text == secret);
        if secret.len() < MIN_SECRET || is_known {
            return self.clone();
        }
        let mut secrets = Secrets::clone(&self.0);
        secrets.all.push(Secret { text: secret.to_owned(), shown: format!("[{name}]") });
        // A secret that contains another one is replaced first.
        secrets.all.sort_by_key(|secret| std::cmp::Reverse(secret.text.len()));
        secrets.may_begin[usize::from(secret.as_bytes()[0])] = true;
        Self(Arc::new(secrets))
    }

    /// Returns the text with each secret replaced.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.0.all.is_empty() {
            return Cow::Borrowed(text);
        }
        let bytes = text.as_bytes();
        let (mut clean, mut kept, mut at) = (String::new(), 0, 0);
        while at < bytes.len() {
            if !self.0.may_begin[usize::from(bytes[at])] {
                at += 1;
                continue;
            }
            // An escape is undone from its beginning only.
            let inside = bytes[at] == b'\\' && at > 0 && bytes[at - 1] == b'\\';
            let found = (!inside).then(|| self.secret_at(&bytes[at..])).flatten();
            match found {
                Some((length, shown)) => {
                    clean.push_str(&text[kept..at]);
                    clean.push_str(shown);
                    at += length;
                    kept = at;
                }
                None => at += 1,
            }
        }
        if kept == 0 {
            return Cow::Borrowed(text);
        }
        clean.push_str(&text[kept..]);
        Cow::Owned(clean)
    }

    /// Returns the beginning of the text, with each secret replaced.
    ///
    /// The result has at most `max` bytes and is cut between characters. A secret across the
    /// cut is replaced as well.
    ///
    /// ```
    /// use toolwright_http::Redactor;
    ///
    /// let redactor = Redactor::default().with_secret("key", "sk-made-up");
    /// assert_eq!(redactor.redact_start("key sk-made-up", 8), "key [key");
    /// ```
    #[must_use]
    pub fn redact_start(&self, text: &str, max: usize) -> String {
        let seen = start(text, max.saturating_add(MARGIN));
        start(&self.redact(seen), max).to_owned()
    }

    /// Returns whether the text contains a secret, plain or escaped.
    #[must_use]
    pub fn finds_secret(&self, text: &str) -> bool {
        matches!(self.redact(text), Cow::Owned(_))
    }

    fn secret_at(&self, text: &[u8]) -> Option<(usize, &str)> {
        self.0.all.iter().find_map(|secret| {
            let length = spelled(text, &secret.text)?;
            Some((length, secret.shown.as_str()))
        })
    }
}

/// Shows the number of secrets.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("secrets", &self.0.all.len()).finish()
    }
}

/// Returns the first `max` bytes of a text, cut between characters.
fn start(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Returns the length of the secret at the beginning of the text, plain or escaped.
fn spelled(text: &[u8], secret: &str) -> Option<usize> {
    if text.starts_with(secret.as_bytes()) {
        return Some(secret.len());
    }
    let mut rest = text;
    for wanted in secret.chars() {
        rest = without_char(rest, wanted)?;
    }
    Some(text.len() - rest.len())
}

/// Returns the text after the wanted character, which may be escaped.
fn without_char(text: &[u8], wanted: char) -> Option<&[u8]> {
    let mut utf8 = [0; 4];
    let plain = wanted.encode_utf8(&mut utf8).as_bytes();
    match text.first()? {
        b'\\' => {
            let escapes = text.iter().take(MAX_BACKSLASHES).take_while(|b| **b == b'\\').count();
            let rest = &text[escapes..];
            if wanted == '\\' {
                // `escapes` counts all backslashes, this one included.
                return Some(rest);
            }
            if let Some(rest) = rest.strip_prefix(b"u")
                && let Some((digits, rest)) = rest.split_at_checked(4)
                && number(digits, 16) == Some(u32::from(wanted))
            {
                return Some(rest);
            }
            rest.strip_prefix(plain)
        }
        b'%' if wanted != '%' || text.starts_with(b"%25") => {
            plain.iter().try_fold(text, |text, byte| without_percent(text, *byte))
        }
        b'&' => without_entity(text, wanted).or_else(|| text.strip_prefix(plain)),
        _ => text.strip_prefix(plain),
    }
}

/// Returns the text after the wanted byte, percent-encoded once or more often.
fn without_percent(text: &[u8], wanted: u8) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"%")?;
    // Encoded again, `%2F` is `%252F`.
    while wanted != b'%' || rest.starts_with(b"2525") {
        match rest.strip_prefix(b"25") {
            Some(again) => rest = again,
            None => break,
        }
    }
    let (digits, rest) = rest.split_at_checked(2)?;
    (number(digits, 16) == Some(u32::from(wanted))).then_some(rest)
}

/// Returns the text after the wanted character, which is an HTML entity.
fn without_entity(text: &[u8], wanted: char) -> Option<&[u8]> {
    let end = memchr::memchr(b';', &text[..text.len().min(12)])?;
    let (name, rest) = (&text[1..end], &text[end + 1..]);
    let is_wanted = match (name, wanted) {
        ([b'#', b'x' | b'X', digits @ ..], _) => number(digits, 16) == Some(u32::from(wanted)),
        ([b'#', digits @ ..], _) => number(digits, 10) == Some(u32::from(wanted)),
        (b"amp", '&') | (b"lt", '<') | (b"gt", '>') | (b"quot", '"') | (b"apos", '\'') => true,
        _ => false,
    };
    is_wanted.then_some(rest)
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let digits = std::str::from_utf8(digits).ok()?;
    // `from_str_radix` accepts a sign.
    digits.starts_with(|c: char| c.is_ascii_alphanumeric()).then_some(())?;
    u32::from_str_radix(digits, radix).ok()
}
