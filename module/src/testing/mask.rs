//! Masks keys in recordings and other texts.

use std::collections::HashMap;
use std::ops::Range;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use crate::message::Source;

/// Prefixes of well-known keys, and the form of the rest.
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

/// Minimum number of characters after a prefix.
const SHORTEST: usize = 16;

/// Endings of the names of environment variables with secrets, in any case. An `S` or digits may
/// follow.
const SECRET_NAMES: [&str; 9] =
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "CRED", "CREDENTIAL"];

/// Names whose value is a secret in headers, JSON and queries. `_` counts as `-`.
const SECRET_FIELDS: [&str; 21] = [
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "apikey",
    "x-goog-api-key",
    "ocp-apim-subscription-key",
    "subscription-key",
    "x-auth-token",
    "auth-token",
    "authtoken",
    "private-token",
    "access-token",
    "accesstoken",
    "refresh-token",
    "id-token",
    "client-secret",
    "x-amz-security-token",
    "x-amz-signature",
    "x-goog-signature",
    "secret-key",
];

/// Names whose value is a secret in the query of a URL. Elsewhere they may be ordinary words.
const SECRET_PARAMETERS: [&str; 8] =
    ["token", "sig", "signature", "secret", "password", "passwd", "pwd", "auth"];

/// Schemes that may precede the value of an `Authorization` header.
const SCHEMES: [&str; 6] = ["bearer", "basic", "token", "apikey", "bot", "key"];

/// Maximum levels of JSON inside JSON strings that are searched. Arguments are one level. A result
/// that contains a server's answer is two.
const ESCAPED: usize = 2;

/// The replacement of a key.
const MASK: &str = "[secret]";

/// Replaces keys of a known form, the values of secret environment variables and other secrets by
/// `[secret]`.
///
/// Use it for logs, histories, error messages and pages. It is not a proof that a text has no secret:
/// a password is a word like any other.
///
/// ```
/// use toolwright_module::testing::Mask;
///
/// let mask = Mask::from_env_and(&["hunter2!"]);
/// let text = mask.masked("export KEY=sk-0123456789abcdef; login hunter2!");
/// assert_eq!(text, "export KEY=[secret]; login [secret]");
/// ```
// The value of a variable may be any word. In a recording, only text from outside is therefore
// searched: the password `assistant` must not mask a role.
#[derive(Clone)]
pub struct Mask {
    known: Vec<String>,
}

impl Mask {
    /// Masks keys of a known form, the values of the present secret variables of the environment,
    /// and these secrets. Secrets shorter than eight bytes are not masked.
    #[must_use]
    pub fn from_env_and(secrets: &[&str]) -> Self {
        let mut known: Vec<String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| is_secret(name))
            .map(|(_, value)| value)
            .chain(secrets.iter().map(|secret| (*secret).to_owned()))
            .map(|value| value.trim().to_owned())
            .filter(|value| value.len() >= 8)
            .flat_map(|value| {
                let escaped = |text: &String| {
                    let quoted = Value::from(text.as_str()).to_string();
                    Some(quoted[1..quoted.len() - 1].to_owned())
                };
                std::iter::successors(Some(value), escaped).take(1 + ESCAPED)
            })
            .collect();
        // Longest first, so that a value that starts with another one is masked whole.
        known.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        known.dedup();
        Self { known }
    }

    /// Returns the text as a recording would keep it.
    #[must_use]
    pub fn masked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.text(&mut text);
        text
    }

    /// Returns JSON of others as a recording would keep it. The names of fields are masked too.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolwright_module::testing::Mask;
    ///
    /// let mask = Mask::from_env_and(&[]);
    /// let account = json!({"user": "ada", "notes": ["sk-0123456789abcdef"]});
    /// assert_eq!(mask.masked_json(&account), json!({"user": "ada", "notes": ["[secret]"]}));
    /// ```
    #[must_use]
    pub fn masked_json(&self, value: &Value) -> Value {
        let mut value = value.clone();
        self.data(&mut value);
        value
    }

    /// Masks a recording or a part of one, except for fixed words such as roles.
    pub(super) fn apply(&self, value: &mut Value) {
        let contract = is_contract(value);
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item)),
            Value::Object(map) => {
                for (name, value) in map {
                    match name.as_str() {
                        // A model may call a name that is not a tool.
                        "name" if let Value::String(called) = value => {
                            if !contract {
                                keys(called, true)
                            }
                        }
                        "role" | "provider" | "finish" | "tool_choice" if value.is_string() => {}
                        "opaque" | "other" => self.data(value),
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

    /// Masks a JSON Schema. Its keywords and property names stay.
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

    /// Masks foreign JSON, including the names of its fields.
    fn data(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.data(item)),
            Value::Object(map) => {
                for (mut name, mut value) in std::mem::take(map) {
                    if let Value::String(text) = &mut value
                        && is_secret_field(&name)
                        && is_credential(text)
                    {
                        *text = MASK.to_owned();
                    }
                    self.text(&mut name);
                    self.data(&mut value);
                    map.insert(name, value);
                }
            }
            _ => {}
        }
    }

    fn text(&self, text: &mut String) {
        self.data_urls(text);
        // The longest secrets first, because a part of one may be a secret too.
        private_keys(text);
        for secret in &self.known {
            if text.contains(secret) {
                *text = text.replace(secret, MASK);
            }
        }
        passwords(text);
        fields(text);
        schemes(text);
        keys(text, false);
    }

    /// Masks the texts in `data:` URLs, as which text documents are stored.
    fn data_urls(&self, text: &mut String) {
        const BEGIN: &str = "data:";
        const BASE64: &str = ";base64,";
        let (mut masked, mut kept, mut from) = (String::new(), 0, 0);
        while let Some(at) = text[from..].find(BEGIN) {
            let start = from + at;
            from = start + BEGIN.len();
            let look = &text[from..text.floor_char_boundary(from + 2 * LOOK)];
            let Some((media_type, _)) = look.split_once(BASE64) else { continue };
            from += media_type.len() + BASE64.len();
            let is_data = |c: char| is_word(c) || "+/=".contains(c);
            let length = text[from..].find(|c| !is_data(c)).unwrap_or(text.len() - from);
            from += length;
            let changed = |text: &str| Some(self.masked(text)).filter(|masked| masked != text);
            let source = Source::Url(text[start..from].to_owned()).edited(changed);
            if let Some(url) = source.as_ref().and_then(Source::to_url) {
                masked.push_str(&text[kept..start]);
                masked.push_str(&url);
                kept = from;
            }
        }
        if kept > 0 {
            masked.push_str(&text[kept..]);
            *text = masked;
        }
    }
}

/// A request's `output` is a contract. A contract's `output` is a schema.
fn is_contract(value: &Value) -> bool {
    value.get("input").is_some_and(|input| input.is_object())
        && value.get("name").is_some_and(Value::is_string)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
    let one = name.strip_suffix('S').unwrap_or(name);
    let ends = |name: &str| SECRET_NAMES.iter().any(|part| name.ends_with(part));
    // The service may come last, as in AWS_BEARER_TOKEN_BEDROCK.
    ends(name)
        || ends(one)
        || one.rsplit_once('_').is_some_and(|(name, _)| name.contains('_') && ends(name))
}

/// The form of a key after its prefix.
#[derive(Clone, Copy)]
enum Body {
    /// Letters, digits, `-` and `_`.
    Long,
    /// Letters and digits at the start: ordinary words with such a prefix have separators.
    Solid,
    /// Capital letters and digits.
    Capital,
    /// `parts` parts with dots between them, each at least `shortest` long.
    Dotted { parts: usize, shortest: usize },
}

impl Body {
    /// Returns the length of the key in `rest`. If there is no key, returns how far no key with
    /// this prefix can begin, so that the search can skip it.
    fn length(self, rest: &str) -> Result<usize, usize> {
        let run = |of: fn(char) -> bool| rest.find(|c| !of(c)).unwrap_or(rest.len());
        let begins = |of: fn(&u8) -> bool| rest.bytes().take(SHORTEST).filter(of).count();
        let word = |long: usize| match long < SHORTEST {
            true => Err(0),
            false => Ok(run(is_word)),
        };
        match self {
            Self::Long => word(begins(|&c| is_word(c.into()))),
            Self::Solid => word(begins(u8::is_ascii_alphanumeric)),
            Self::Capital => word(begins(|c| c.is_ascii_uppercase() || c.is_ascii_digit())),
            Self::Dotted { parts, shortest } => {
                let first = run(is_word);
                let mut end = 0;
                for part in 0..parts {
                    let length = rest[end..].find(|c| !is_word(c)).unwrap_or(rest.len() - end);
                    let more = part + 1 < parts;
                    if length < shortest || more && !rest[end + length..].starts_with('.') {
                        // A key that begins in the first part would have the same parts after it,
                        // so it fails too.
                        return Err(first);
                    }
                    end += length + usize::from(more);
                }
                let dotted = run(|c| is_word(c) || c == '.');
                // The key may be at the end of a sentence.
                let length = rest[..dotted].trim_end_matches('.').len();
                if length < SHORTEST { Err(first) } else { Ok(length) }
            }
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// Masks each secret that `next` finds. `next` gets the text and the position from which to search.
fn mask_each(text: &mut String, mut next: impl FnMut(&str, usize) -> Option<Range<usize>>) {
    let (mut masked, mut from) = (String::new(), 0);
    while let Some(secret) = next(text, from) {
        masked.push_str(&text[from..secret.start]);
        masked.push_str(MASK);
        from = secret.end;
    }
    if from > 0 {
        masked.push_str(&text[from..]);
        *text = masked;
    }
}

/// Masks keys by their form. In names only random-looking keys are masked, because a name may have
/// the same prefix.
fn keys(text: &mut String, random: bool) {
    for (prefix, body) in KEYS {
        mask_each(text, |text, mut from| {
            loop {
                let start = from + text[from..].find(prefix)?;
                from = start + prefix.len();
                let sure = is_random(&text[from..]);
                let glued = sure && matches!(body, Body::Solid);
                if (sure || !random) && starts_word(&text[..start], prefix, glued) {
                    match body.length(&text[from..]) {
                        Ok(length) => return Some(start..from + length),
                        // A prefix with a dot may start before the end of the skipped part.
                        Err(passed) => from += passed.saturating_sub(prefix.len()),
                    }
                }
            }
        });
    }
}

/// Whether the text begins with a random mix of lower case, upper case and digits.
fn is_random(rest: &str) -> bool {
    let start = || rest.bytes().take(2 * SHORTEST).take_while(|&c| is_word(c.into()));
    start().any(|c| c.is_ascii_lowercase())
        && start().any(|c| c.is_ascii_uppercase())
        && start().any(|c| c.is_ascii_digit())
}

/// Whether `prefix` starts a word after `before`: `task-force` contains `sk-` in a word. If
/// `glued`, the prefix need not start a word.
///
/// Texts contain JSON, URLs and terminal output. The letters of an escape sequence there are not
/// part of the word: in `\nsk-` the word is `sk-`, in `\npm_` it is `pm_`.
fn starts_word(before: &str, prefix: &str, glued: bool) -> bool {
    // Eight characters are longer than any escape sequence.
    let letters = before.bytes().rev().take(8).take_while(u8::is_ascii_alphanumeric).count();
    let (rest, run) = before.split_at(before.len() - letters);
    let hex = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    match (rest.chars().next_back(), run.len()) {
        (Some('\\'), 0) => !prefix.starts_with(['b', 'f', 'n', 'r', 't', 'u']),
        (_, 0) => true,
        _ if glued => true,
        (Some('\\'), 1) => run.starts_with(['b', 'f', 'n', 'r', 't']),
        (Some('\\'), 5) => run.starts_with('u') && hex(&run[1..]),
        (Some('%'), 2) => hex(run),
        (Some('[' | ';'), _) => run.strip_suffix('m').is_some_and(hex),
        _ => false,
    }
}

/// Masks the password in `scheme://user:password@host`.
fn passwords(text: &mut String) {
    // JSON may escape slashes.
    for slashes in ["://", r":\/\/"] {
        mask_each(text, |text, mut from| {
            loop {
                from += text[from..].find(slashes)? + slashes.len();
                let ends = |c: char| c.is_whitespace() || "/?#\"<>".contains(c);
                let address = text[from..].split(ends).next().unwrap_or_default();
                let Some((login, _)) = address.rsplit_once('@') else { continue };
                match login.split_once(':') {
                    Some((user, password)) if !password.is_empty() => {
                        let start = from + user.len() + 1;
                        return Some(start..start + password.len());
                    }
                    // A token in place of user and password.
                    None if login.len() >= SHORTEST && is_credential(login) => {
                        return Some(from..from + login.len());
                    }
                    _ => {}
                }
            }
        });
    }
}

/// Number of bytes of a value that are checked to decide whether it is a secret.
const LOOK: usize = 64;

/// Whether a value looks like a key: keys are long or contain digits.
fn is_credential(value: &str) -> bool {
    let value = &value[..value.floor_char_boundary(LOOK)];
    let digits = value.bytes().any(|byte| byte.is_ascii_digit());
    // Variable names are long too, but contain dots or underscores.
    let word = |c: char| c.is_ascii_alphanumeric() || "+/=-~".contains(c);
    let long = value.len() >= SHORTEST && value.chars().all(word);
    value.len() >= 8 && (digits || long) && !value.contains("://") && !value.contains(MASK)
}

fn is_secret_field(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    SECRET_FIELDS.contains(&name.as_str())
}

/// Returns the length of the value at the start of `rest`.
fn value_length(rest: &str) -> usize {
    let ends = |c: char| c.is_whitespace() || c.is_control() || "\"'`\\&,;<>(){}[]|#".contains(c);
    rest.find(ends).unwrap_or(rest.len())
}

/// Returns the length of the spaces and quotes before a value. Quotes may be escaped.
fn before_value(rest: &str) -> usize {
    let mut left = rest;
    loop {
        let quote = left.trim_start_matches('\\');
        left = match left.chars().next() {
            Some(' ' | '\t' | '"' | '\'' | '`') => &left[1..],
            Some('\\') if quote.starts_with(['"', '\'']) => quote,
            _ => return rest.len() - left.len(),
        };
    }
}

/// Masks the values of headers, fields and parameters with the name of a secret.
fn fields(text: &mut String) {
    mask_each(text, |text, mut from| {
        loop {
            let at = from + text[from..].find([':', '='])?;
            from = at + 1;
            let Some((name, query)) = name_before(&text[..at], text[at..].starts_with('=')) else {
                continue;
            };
            let mut start = from + if query { 0 } else { before_value(&text[from..]) };
            let mut rest = &text[start..];
            let mut sure = query;
            let scheme = SCHEMES.iter().find(|scheme| {
                rest.get(..scheme.len()).is_some_and(|it| it.eq_ignore_ascii_case(scheme))
                    && rest[scheme.len()..].starts_with(' ')
            });
            if let Some(scheme) = scheme
                && name.ends_with("authorization")
            {
                start += scheme.len() + 1 + before_value(&rest[scheme.len() + 1..]);
                rest = &text[start..];
                sure = value_length(&rest[..rest.floor_char_boundary(LOOK)]) >= 8;
            }
            let known = SECRET_FIELDS.contains(&name.as_str());
            let parameter = SECRET_PARAMETERS.contains(&name.as_str());
            let secret = match name.as_str() {
                "key" => query,
                _ => known || (parameter && text[at..].starts_with('=')),
            };
            let look = &rest[..rest.floor_char_boundary(LOOK)];
            let look = &look[..value_length(look)];
            let surely = sure && name != "key" && !look.is_empty() && !look.starts_with('$');
            if secret && (surely || is_credential(look)) {
                return Some(start..start + value_length(rest));
            }
        }
    });
}

/// Returns the name before `=` or `:` in lower case, and whether it is a query parameter.
fn name_before(before: &str, equals: bool) -> Option<(String, bool)> {
    let end = before.trim_end_matches([' ', '\t']).trim_end_matches(['"', '\'', '`', '\\']);
    let length = end.bytes().rev().take_while(|&byte| is_word(byte.into())).take(40).count();
    let (before_name, name) = end.split_at(end.len() - length);
    if !(3..40).contains(&length) {
        return None;
    }
    let name = name.to_ascii_lowercase().replace('_', "-");
    // `&` may be escaped in JSON and HTML.
    let (name, escaped) = match name.strip_prefix("u0026") {
        Some(rest) if before_name.ends_with('\\') => (rest.to_owned(), true),
        _ => (name, false),
    };
    let begins = before_name.ends_with(['?', '&', '#']) || before_name.ends_with("&amp;");
    Some((name, equals && end.len() == before.len() && (begins || escaped)))
}

/// Masks the values after `Bearer` and `Basic`.
fn schemes(text: &mut String) {
    for scheme in ["Bearer ", "bearer ", "BEARER ", "Basic ", "basic ", "BASIC "] {
        let basic = scheme.eq_ignore_ascii_case("basic ");
        mask_each(text, |text, mut from| {
            loop {
                let at = from + text[from..].find(scheme)?;
                from = at + scheme.len();
                if !starts_word(&text[..at], scheme, false) {
                    continue;
                }
                let rest = text[from..].trim_start_matches(' ');
                let start = text.len() - rest.len();
                let token = |c: char| is_word(c) || "._~+/=".contains(c);
                let look = &rest[..rest.floor_char_boundary(4 * LOOK)];
                let look = &look[..look.find(|c| !token(c)).unwrap_or(look.len())];
                let look = look.trim_end_matches('.');
                let secret = if basic { is_login(look) } else { is_token(look) };
                if secret {
                    let end = rest.find(|c| !token(c)).unwrap_or(rest.len());
                    return Some(start..start + rest[..end].trim_end_matches('.').len());
                }
            }
        });
    }
}

/// Whether the text after `bearer` is a token and not an ordinary word.
fn is_token(value: &str) -> bool {
    let inner = value.get(1..).unwrap_or_default().bytes();
    let mixed = inner.clone().any(|byte| byte.is_ascii_uppercase())
        && inner.clone().any(|byte| byte.is_ascii_lowercase());
    value.len() >= SHORTEST || is_credential(value) || (value.len() >= 8 && mixed)
}

/// Whether the text is `user:password` in Base64, or begins so.
fn is_login(value: &str) -> bool {
    let value = value.trim_end_matches('=').replace('-', "+").replace('_', "/");
    // Padding is gone, and the value may be cut anywhere.
    let whole = if value.len() % 4 == 1 { &value[..value.len() - 1] } else { &value };
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone);
    let login = GeneralPurpose::new(&STANDARD, config).decode(whole);
    login.is_ok_and(|login| login.contains(&b':') && !login.iter().any(u8::is_ascii_control))
}

const DASHES: &str = "-----";

/// Masks private keys, from `-----BEGIN … PRIVATE KEY-----` to the end.
fn private_keys(text: &mut String) {
    const BEGIN: &str = "-----BEGIN ";
    if !text.contains(BEGIN) {
        return;
    }
    let ends = private_key_ends(text);
    // No truncated key begins before this position.
    let mut barren = 0;
    mask_each(text, |text, mut from| {
        loop {
            let start = from + text[from..].find(BEGIN)?;
            from = start + BEGIN.len();
            let (kind, body) = text[from..].split_once(DASHES)?;
            let at = from + kind.len() + DASHES.len();
            if !is_private_key(kind) {
                continue;
            }
            let ends = ends.get(kind).map(Vec::as_slice).unwrap_or_default();
            if let Some(end) = ends.get(ends.partition_point(|&(begins, _)| begins < at)) {
                return Some(start..end.1);
            }
            if at >= barren {
                match cut_off(body) {
                    Ok(length) => return Some(start..at + length),
                    Err(passed) => barren = at + passed,
                }
            }
        }
    });
}

/// Returns the positions of `-----END … PRIVATE KEY-----` for each kind of key.
fn private_key_ends(text: &str) -> HashMap<String, Vec<(usize, usize)>> {
    const END: &str = "-----END ";
    let mut ends: HashMap<_, Vec<_>> = HashMap::new();
    for (begins, _) in text.match_indices(END) {
        let after = begins + END.len();
        if let Some((kind, _)) = text[after..].split_once(DASHES)
            && is_private_key(kind)
        {
            let place = (begins, after + kind.len() + DASHES.len());
            ends.entry(kind.to_owned()).or_default().push(place);
        }
    }
    ends
}

fn is_private_key(kind: &str) -> bool {
    let is_kind = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == ' ';
    kind.contains("PRIVATE KEY") && kind.chars().all(is_kind)
}

/// Returns the length of a truncated private key in `body`. If there is no long line, returns the
/// length in which there is no key.
fn cut_off(body: &str) -> Result<usize, usize> {
    let is_data = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    let is_key = |c: char| is_data(c) || c.is_whitespace() || "\\:,-".contains(c);
    let run = &body[..body.find(|c| !is_key(c)).unwrap_or(body.len())];
    // The quote after the key may be escaped with a backslash.
    let key = run.trim_end_matches('\\');
    let has_lines = key.split(|c| !is_data(c)).any(|line| line.len() >= 2 * SHORTEST);
    if has_lines { Ok(key.len()) } else { Err(run.len()) }
}
