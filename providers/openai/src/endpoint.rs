use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use async_openai::config::{Config, OPENAI_API_BASE, OpenAIConfig};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use crate::error::{Error, Result};

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
        bearer(key.expose_secret())?;
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
        Ok(Self(Arc::new(Parts { base, loopback, key, headers })))
    }

    pub(crate) fn with_key(&self, key: String) -> Result<Self> {
        let mut headers = self.0.headers.clone();
        headers.insert(AUTHORIZATION, bearer(&key)?);
        Ok(Self(Arc::new(Parts {
            base: self.0.base.clone(),
            loopback: self.0.loopback,
            key: key.into(),
            headers,
        })))
    }

    pub(crate) fn base(&self) -> &str {
        &self.0.base
    }

    pub(crate) fn is_loopback(&self) -> bool {
        self.0.loopback
    }

    /// The text without the key, should a server have sent it back.
    pub(crate) fn without_key(&self, text: String) -> String {
        let key = self.0.key.expose_secret();
        if key.is_empty() || !text.contains(key) {
            return text;
        }
        text.replace(key, "[key]")
    }
}

impl Config for Endpoint {
    fn headers(&self) -> HeaderMap {
        self.0.headers.clone()
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.0.base)
    }

    fn query(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }

    fn api_base(&self) -> &str {
        &self.0.base
    }

    fn api_key(&self) -> &SecretString {
        &self.0.key
    }
}

fn bearer(key: &str) -> Result<HeaderValue> {
    let mut value = header("the API key", &format!("Bearer {key}"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn header(what: &'static str, text: &str) -> Result<HeaderValue> {
    HeaderValue::from_str(text).map_err(|_| Error::Header { what })
}

/// The base URL without a slash at its end, and whether it is this machine's.
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
    let loopback =
        host == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    Ok((base_url.trim_end_matches('/').to_owned(), loopback))
}
