//! Keeps keys out of files.

use serde_json::Value;

/// How well-known keys begin.
const PREFIXES: [&str; 14] = [
    "sk-",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "gsk_",
    "xai-",
];

/// Fewer characters after a prefix are no key.
const SHORTEST: usize = 16;

/// What a value from the environment must have to be taken for a secret.
const SECRET_NAMES: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];

/// What stands where a key was.
const MASK: &str = "[secret]";

/// Replaces what looks like a key, and what the environment says is one.
#[derive(Clone)]
pub(super) struct Mask {
    known: Vec<String>,
}

impl Mask {
    pub(super) fn from_env() -> Self {
        let named = |name: &str| SECRET_NAMES.iter().any(|part| name.ends_with(part));
        let mut known: Vec<String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, value)| named(name) && value.len() >= 8)
            .flat_map(|(_, value)| {
                // Arguments are JSON inside a text: there it is written with escapes.
                let escaped = Value::from(value.as_str()).to_string();
                let escaped = escaped[1..escaped.len() - 1].to_owned();
                [value, escaped]
            })
            .collect();
        // The longest first: of two that begin alike, no end stays behind.
        known.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        known.dedup();
        Self { known }
    }

    pub(super) fn apply(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(masked) = self.text(text) {
                    *text = masked;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item)),
            Value::Object(map) => {
                for (name, mut value) in std::mem::take(map) {
                    self.apply(&mut value);
                    map.insert(self.text(&name).unwrap_or(name), value);
                }
            }
            _ => {}
        }
    }

    /// The text without keys, if it had any.
    fn text(&self, text: &str) -> Option<String> {
        let mut masked = text.to_owned();
        for secret in &self.known {
            masked = masked.replace(secret, MASK);
        }
        for prefix in PREFIXES {
            let mut from = 0;
            while let Some(found) = masked[from..].find(prefix) {
                let start = from + found;
                let body = &masked[start + prefix.len()..];
                let length = body
                    .find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))
                    .unwrap_or(body.len());
                // `task-force` holds `sk-`, but a key starts a word.
                let starts_word = !masked[..start].ends_with(|c: char| c.is_ascii_alphanumeric());
                let end = start + prefix.len() + length;
                if length >= SHORTEST && starts_word {
                    masked.replace_range(start..end, MASK);
                    from = start + MASK.len();
                } else {
                    from = start + prefix.len();
                }
            }
        }
        (masked != text).then_some(masked)
    }
}
