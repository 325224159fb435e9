//! Keeps keys out of files.

use serde_json::Value;

/// How well-known keys begin, and what has to follow.
const KEYS: [(&str, Body); 33] = [
    ("sk-", Body::Long),
    ("github_pat_", Body::Long),
    ("glpat-", Body::Long),
    ("xoxa-", Body::Long),
    ("xoxb-", Body::Long),
    ("xoxe-", Body::Long),
    ("xoxp-", Body::Long),
    ("xoxr-", Body::Long),
    ("xoxs-", Body::Long),
    ("xapp-", Body::Long),
    ("AIza", Body::Long),
    ("nvapi-", Body::Long),
    ("ghp_", Body::Solid),
    ("gho_", Body::Solid),
    ("ghu_", Body::Solid),
    ("ghs_", Body::Solid),
    ("ghr_", Body::Solid),
    ("gsk_", Body::Solid),
    ("hf_", Body::Solid),
    ("npm_", Body::Solid),
    ("pplx-", Body::Solid),
    ("r8_", Body::Solid),
    ("rk_live_", Body::Solid),
    ("rk_test_", Body::Solid),
    ("sk_live_", Body::Solid),
    ("sk_test_", Body::Solid),
    ("whsec_", Body::Solid),
    ("xai-", Body::Solid),
    ("AKIA", Body::Capital),
    ("ASIA", Body::Capital),
    ("ya29.", Body::Dotted { parts: 1, shortest: 1 }),
    ("SG.", Body::Dotted { parts: 2, shortest: SHORTEST }),
    ("eyJ", Body::Dotted { parts: 3, shortest: 1 }),
];

/// Fewer characters after a prefix are no key.
const SHORTEST: usize = 16;

/// How a variable's name has to end, in any case, for its value to be a secret; an `S`
/// or a number may follow.
const SECRET_NAMES: [&str; 9] =
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "CRED", "CREDENTIAL"];

/// How deep JSON is looked for in a text in JSON: arguments are one, a result that
/// holds a server's answer is two.
const ESCAPED: usize = 2;

/// What stands where a key was.
const MASK: &str = "[secret]";

/// Replaces what has the form of a key, and what the environment calls a secret.
///
/// The latter may be any word, so only what comes from outside is searched: `assistant`
/// as a password must not unname a role.
#[derive(Clone)]
pub(super) struct Mask {
    known: Vec<String>,
}

impl Mask {
    pub(super) fn from_env() -> Self {
        let mut known: Vec<String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .map(|(name, value)| (name, value.trim().to_owned()))
            .filter(|(name, value)| is_secret(name) && value.len() >= 8)
            .flat_map(|(_, value)| {
                let escaped = |text: &String| {
                    let quoted = Value::from(text.as_str()).to_string();
                    Some(quoted[1..quoted.len() - 1].to_owned())
                };
                std::iter::successors(Some(value), escaped).take(1 + ESCAPED)
            })
            .collect();
        // The longest first: of two that begin alike, no end stays behind.
        known.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        known.dedup();
        Self { known }
    }

    /// Masks a recording or a part of one, but not the words that a program looks up.
    pub(super) fn apply(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item)),
            Value::Object(map) => {
                for (name, value) in map {
                    match name.as_str() {
                        "role" | "name" | "provider" | "finish" | "tool_choice"
                            if value.is_string() => {}
                        "opaque" => self.data(value),
                        "input" | "output" | "output_to_write" if !is_contract(value) => {
                            self.schema(value);
                        }
                        _ => self.apply(value),
                    }
                }
            }
            _ => {}
        }
    }

    /// A JSON Schema: its keywords and the names of properties stay.
    fn schema(&self, schema: &mut Value) {
        match schema {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.schema(item)),
            Value::Object(map) => {
                for (keyword, value) in map {
                    match (keyword.as_str(), value) {
                        ("type" | "format" | "required" | "dependentRequired", _) => {}
                        (
                            "properties" | "patternProperties" | "dependentSchemas" | "definitions"
                            | "$defs",
                            Value::Object(named),
                        ) => named.values_mut().for_each(|schema| self.schema(schema)),
                        ("default" | "const" | "enum" | "examples" | "$comment", value) => {
                            self.data(value)
                        }
                        (keyword, _) if keyword.starts_with('$') => {}
                        (_, value) => self.schema(value),
                    }
                }
            }
            _ => {}
        }
    }

    /// JSON of somebody else's: names are texts like any other.
    fn data(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.data(item)),
            Value::Object(map) => {
                for (mut name, mut value) in std::mem::take(map) {
                    self.text(&mut name);
                    self.data(&mut value);
                    map.insert(name, value);
                }
            }
            _ => {}
        }
    }

    fn text(&self, text: &mut String) {
        // First what is longest: a part of it may be a secret too.
        private_keys(text);
        for secret in &self.known {
            if text.contains(secret) {
                *text = text.replace(secret, MASK);
            }
        }
        passwords(text);
        keys(text);
    }
}

/// A request's `output` is a contract, a contract's is a schema.
fn is_contract(value: &Value) -> bool {
    value.get("input").is_some_and(|input| input.is_object())
        && value.get("name").is_some_and(Value::is_string)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
    let one = name.strip_suffix('S').unwrap_or(name);
    SECRET_NAMES.iter().any(|part| name.ends_with(part) || one.ends_with(part))
}

/// What follows a key's prefix.
#[derive(Clone, Copy)]
enum Body {
    /// Letters, digits, `-` and `_`.
    Long,
    /// Letters and digits at first: after such a prefix, words have gaps.
    Solid,
    /// Capitals and digits.
    Capital,
    /// Parts with dots between; so many of them, so long.
    Dotted { parts: usize, shortest: usize },
}

impl Body {
    /// How much of `rest` belongs to the key, if it is one.
    fn length(self, rest: &str) -> Option<usize> {
        let run = |of: fn(char) -> bool| rest.find(|c| !of(c)).unwrap_or(rest.len());
        let word = run(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        match self {
            Self::Long => (word >= SHORTEST).then_some(word),
            Self::Solid => (run(|c| c.is_ascii_alphanumeric()) >= SHORTEST).then_some(word),
            Self::Capital => {
                let capital = run(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
                (capital >= SHORTEST).then_some(word)
            }
            Self::Dotted { parts, shortest } => {
                let dotted = run(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
                // A sentence may end after a key.
                let dotted = rest[..dotted].trim_end_matches('.');
                let long = dotted.split('.').take(parts).filter(|part| part.len() >= shortest);
                (dotted.len() >= SHORTEST && long.count() == parts).then_some(dotted.len())
            }
        }
    }
}

fn keys(text: &mut String) {
    for (prefix, body) in KEYS {
        let mut from = 0;
        while let Some(found) = text[from..].find(prefix) {
            let start = from + found;
            from = start + prefix.len();
            if let Some(length) = body.length(&text[from..])
                && starts_word(&text[..start], prefix)
            {
                text.replace_range(start..from + length, MASK);
                from = start + MASK.len();
            }
        }
    }
}

/// Whether `prefix` begins a word after `before`: `task-force` holds `sk-`.
///
/// Texts hold JSON, addresses and what terminals print. There the letters of an escape
/// belong to no word: in `\nsk-` the word is `sk-`, in `\npm_` it is `pm_`.
fn starts_word(before: &str, prefix: &str) -> bool {
    let rest = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric());
    let run = &before[rest.len()..];
    let hex = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    match (rest.chars().next_back(), run.len()) {
        (Some('\\'), 0) => !prefix.starts_with(['b', 'f', 'n', 'r', 't', 'u']),
        (_, 0) => true,
        (Some('\\'), 1) => run.starts_with(['b', 'f', 'n', 'r', 't']),
        (Some('\\'), 5) => run.starts_with('u') && hex(&run[1..]),
        (Some('%'), 2) => hex(run),
        (Some('[' | ';'), _) => run.strip_suffix('m').is_some_and(hex),
        _ => false,
    }
}

/// The password in `scheme://user:password@host`.
fn passwords(text: &mut String) {
    // Some write JSON with escaped slashes.
    for slashes in ["://", r":\/\/"] {
        let mut from = 0;
        while let Some(found) = text[from..].find(slashes) {
            from += found + slashes.len();
            let ends = |c: char| c.is_whitespace() || "/?#\"<>".contains(c);
            let address = text[from..].split(ends).next().unwrap_or_default();
            let login = address.rsplit_once('@').and_then(|(login, _)| login.split_once(':'));
            if let Some((user, password)) = login
                && !password.is_empty()
            {
                let start = from + user.len() + 1;
                text.replace_range(start..start + password.len(), MASK);
                from = start + MASK.len();
            }
        }
    }
}

/// `-----BEGIN … PRIVATE KEY-----`, to its end.
fn private_keys(text: &mut String) {
    const BEGIN: &str = "-----BEGIN ";
    const DASHES: &str = "-----";
    let mut from = 0;
    while let Some(found) = text[from..].find(BEGIN) {
        let start = from + found;
        from = start + BEGIN.len();
        let Some((kind, body)) = text[from..].split_once(DASHES) else { return };
        let is_kind = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == ' ';
        if !(kind.contains("PRIVATE KEY") && kind.chars().all(is_kind)) {
            continue;
        }
        let closing = format!("-----END {kind}-----");
        let length = match body.find(&closing) {
            Some(end) => end + closing.len(),
            None => cut_off(body),
        };
        if length > 0 {
            let end = from + kind.len() + DASHES.len() + length;
            text.replace_range(start..end, MASK);
            from = start + MASK.len();
        }
    }
}

/// How much of `body` is a private key without its end: none if it has no long line.
fn cut_off(body: &str) -> usize {
    let is_data = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    let is_key = |c: char| is_data(c) || c.is_whitespace() || "\\:,-".contains(c);
    let run = &body[..body.find(|c| !is_key(c)).unwrap_or(body.len())];
    // A quote after it may have a backslash of its own.
    let run = run.trim_end_matches('\\');
    let has_lines = run.split(|c| !is_data(c)).any(|line| line.len() >= 2 * SHORTEST);
    if has_lines { run.len() } else { 0 }
}
