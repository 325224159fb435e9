use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use async_openai::config::{Config, OPENAI_API_BASE, OpenAIConfig};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use crate::error::{Error, Result};

/// The variable of the environment that holds the key.
pub(crate) const KEY: &str = "OPENAI_API_KEY";

/// Where requests go and what proves that they may.
///
/// async-openai's own configuration makes its headers at every call and panics over a
/// key that is no header. Here they are made once, and checked.
#[derive(Clone)]
pub(crate) struct Endpoint(Arc<Parts>);

struct Parts {
    base: String,
    loopback: bool,
    key: SecretString,
    headers: HeaderMap,
}

impl Endpoint {
    /// A server that is told nothing but the requests.
    pub(crate) fn at(base_url: &str) -> Result<Self> {
        Self::new(base_url, SecretString::default(), HeaderMap::new())
    }

    pub(crate) fn of(config: &OpenAIConfig) -> Result<Self> {
        let key = config.api_key().clone();
        if !key.expose_secret().is_empty() {
            bearer(key.expose_secret())?;
        }
        header("the organization's id", config.org_id())?;
        // The project's id cannot be looked at, and async-openai unwraps over it.
        let headers = catch_unwind(AssertUnwindSafe(|| config.headers()));
        let mut headers = headers.map_err(|_| Error::Header { what: "the project's id" })?;
        if key.expose_secret().is_empty()
            && headers.get(AUTHORIZATION).is_some_and(|value| value == "Bearer ")
        {
            headers.remove(AUTHORIZATION);
        }
        // Any of them may be a secret of its own.
        for value in headers.values_mut() {
            value.set_sensitive(true);
        }
        let base = match config.api_base() {
            "" => OPENAI_API_BASE,
            base => base,
        };
        Self::new(base, key, headers)
    }

    fn new(base_url: &str, key: SecretString, headers: HeaderMap) -> Result<Self> {
        let (base, loopback) = checked(base_url)?;
        Self::sendable(Parts { base, loopback, key, headers })
    }

    /// The endpoint, unless a key would go over a network where anybody can read it.
    fn sendable(parts: Parts) -> Result<Self> {
        let is_plain = parts.base.starts_with("http://") && !parts.loopback;
        if is_plain && is_keyed(&parts.headers) {
            return Err(Error::BaseUrl {
                fault: "it is plain http beyond this machine, where anybody on the way could read the API key; use https",
            });
        }
        Ok(Self(Arc::new(parts)))
    }

    pub(crate) fn with_key(&self, key: String) -> Result<Self> {
        let mut headers = self.0.headers.clone();
        headers.insert(AUTHORIZATION, bearer(&key)?);
        Self::sendable(Parts {
            base: self.0.base.clone(),
            loopback: self.0.loopback,
            key: key.into(),
            headers,
        })
    }

    pub(crate) fn base(&self) -> &str {
        &self.0.base
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.0.base)
    }

    pub(crate) fn headers(&self) -> HeaderMap {
        self.0.headers.clone()
    }

    /// Whether requests prove who asks.
    pub(crate) fn has_key(&self) -> bool {
        is_keyed(&self.0.headers)
    }

    pub(crate) fn is_loopback(&self) -> bool {
        self.0.loopback
    }

    /// The text without the key, should a server have sent it back.
    pub(crate) fn without_key(&self, text: String) -> String {
        redacted(&text, self.0.key.expose_secret()).unwrap_or(text)
    }
}

/// The text with `[key]` for the key, if it is in there.
fn redacted(text: &str, key: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let (mut clean, mut kept, mut at) = (String::new(), 0, 0);
    while at < bytes.len() {
        let inside_escape = at > 0 && bytes[at] == b'\\' && bytes[at - 1] == b'\\';
        match said(&bytes[at..], key).filter(|_| !inside_escape) {
            Some(length) => {
                clean.push_str(&text[kept..at]);
                clean.push_str("[key]");
                at += length;
                kept = at;
            }
            None => at += 1,
        }
    }
    if kept == 0 {
        return None;
    }
    clean.push_str(&text[kept..]);
    Some(clean)
}

/// How much of the text's beginning says the key, however often JSON escaped it.
fn said(text: &[u8], key: &str) -> Option<usize> {
    let mut rest = text;
    for wanted in key.bytes() {
        let escapes = rest.iter().take_while(|byte| **byte == b'\\').count();
        rest = &rest[escapes..];
        if wanted == b'\\' {
            // Its own escapes are gone already.
            (escapes > 0).then_some(())?;
        } else if escapes > 0
            && let Some((b'u', digits)) = rest.split_first()
            && let Some((digits, more)) = digits.split_at_checked(4)
            && is_number_of(digits, wanted)
        {
            rest = more;
        } else {
            rest = rest.strip_prefix(&[wanted])?;
        }
    }
    Some(text.len() - rest.len()).filter(|length| *length > 0)
}

fn is_number_of(digits: &[u8], wanted: u8) -> bool {
    let digits = std::str::from_utf8(digits).ok();
    digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) == Some(u32::from(wanted))
}

/// Whether the headers hold a key, in OpenAI's own place or in one of other servers.
fn is_keyed(headers: &HeaderMap) -> bool {
    ["authorization", "api-key", "x-api-key"].iter().any(|name| headers.contains_key(*name))
}

fn bearer(key: &str) -> Result<HeaderValue> {
    if key.trim().is_empty() {
        return Err(Error::MissingKey { variable: KEY });
    }
    let mut value = header("the API key", &format!("Bearer {key}"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn header(what: &'static str, text: &str) -> Result<HeaderValue> {
    HeaderValue::from_str(text).map_err(|_| Error::Header { what })
}

/// The base URL as it is asked, without a slash at its end, and whether it is this machine's.
fn checked(base_url: &str) -> Result<(String, bool)> {
    let refused = |fault| Err(Error::BaseUrl { fault });
    let Ok(url) = Url::parse(base_url) else {
        return refused("it is no address; one looks like http://127.0.0.1:8080/v1");
    };
    if !matches!(url.scheme(), "http" | "https") {
        return refused("it does not begin with http:// or https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refused("it holds a name or a password; give the key with `with_key`");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return refused("it holds `?` or `#`; end it before them");
    }
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let loopback = host == "localhost"
        || address.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
    Ok((url.as_str().trim_end_matches('/').to_owned(), loopback))
}
