//! The server's address, the headers of every request, and the check of both.

use std::fmt;
use std::sync::Arc;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use crate::error::{ErrorKind, Result, UrlFault};
use crate::redact::Redactor;

/// Names of headers that carry a secret.
const SECRET_HEADERS: [&str; 6] =
    ["authorization", "proxy-authorization", "cookie", "api-key", "x-api-key", "x-goog-api-key"];

/// Base URL of a server, and the headers of every request to it.
///
/// The URL must not contain a user name or a password, because URLs get into logs. A secret
/// header needs https unless the server is on this machine, because others on the network
/// could read the secret; [`with_plain_http`](Self::with_plain_http) allows it. Cloning costs one
/// reference count.
///
/// ```
/// use toolwright_http::{Endpoint, ErrorKind, UrlFault};
///
/// let endpoint = Endpoint::new("https://api.example.com/v1/")?.with_bearer("key", "sk-made-up")?;
/// assert_eq!(endpoint.base_url(), "https://api.example.com/v1");
/// let url = endpoint.url(["models", "a/b"], &[("limit", "2")])?;
/// assert_eq!(url.as_str(), "https://api.example.com/v1/models/a%2Fb?limit=2");
/// assert!(!format!("{endpoint:?}").contains("made-up"));
///
/// let plain = Endpoint::new("http://192.168.0.7/v1")?.with_bearer("key", "sk-made-up");
/// assert!(matches!(plain.unwrap_err().kind(), ErrorKind::Url(UrlFault::Plain)));
/// # Ok::<(), toolwright_http::HttpError>(())
/// ```
#[derive(Clone)]
pub struct Endpoint(Arc<Parts>);

#[derive(Clone)]
struct Parts {
    url: Url,
    loopback: bool,
    plain_http: bool,
    has_secret: bool,
    headers: HeaderMap,
    redactor: Redactor,
}

impl Endpoint {
    /// Creates an endpoint from the base URL of an API. [`url`](Self::url) appends paths.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Url`] if the text is not an http or https URL, or contains a user name, a
    /// password, a query or a fragment. The error does not show the URL, because people
    /// put keys into URLs.
    pub fn new(base_url: &str) -> Result<Self> {
        let endpoint = Self::exact(base_url)?;
        let mut parts = Arc::unwrap_or_clone(endpoint.0);
        if parts.url.query().is_some() || parts.url.fragment().is_some() {
            return Err(ErrorKind::Url(UrlFault::Query).into());
        }
        let path = parts.url.path().trim_end_matches('/').to_owned();
        parts.url.set_path(&path);
        Ok(Self(Arc::new(parts)))
    }

    /// Creates an endpoint from the URL of one resource. The path and a query stay unchanged.
    ///
    /// # Errors
    ///
    /// The errors of [`new`](Self::new), but a query and a fragment are allowed.
    pub fn exact(url: &str) -> Result<Self> {
        let url = Url::parse(url).map_err(|_| ErrorKind::Url(UrlFault::NotAUrl))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ErrorKind::Url(UrlFault::Scheme).into());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ErrorKind::Url(UrlFault::Credentials).into());
        }
        let loopback = is_loopback(&url);
        let (headers, redactor) = (HeaderMap::new(), Redactor::default());
        let (plain_http, has_secret) = (false, false);
        Ok(Self(Arc::new(Parts { url, loopback, plain_http, has_secret, headers, redactor })))
    }

    /// Allows secrets in plain http, for a network that nobody else can read, such as that of a
    /// cluster. It applies to headers that are set after it.
    ///
    /// ```
    /// let endpoint = toolwright_http::Endpoint::new("http://vllm.models.svc/v1")?
    ///     .with_plain_http()
    ///     .with_bearer("key", "sk-made-up")?;
    /// assert!(endpoint.has_secret());
    /// # Ok::<(), toolwright_http::HttpError>(())
    /// ```
    #[must_use]
    pub fn with_plain_http(self) -> Self {
        let mut parts = Arc::unwrap_or_clone(self.0);
        parts.plain_http = true;
        Self(Arc::new(parts))
    }

    /// Sets the header `authorization: Bearer …`. Errors show `name` instead of the token.
    ///
    /// # Errors
    ///
    /// The errors of [`with_secret_header`](Self::with_secret_header).
    pub fn with_bearer(self, name: &str, token: &str) -> Result<Self> {
        let endpoint = self.with_secret_header(name, AUTHORIZATION, &format!("Bearer {token}"))?;
        Ok(endpoint.with_secret(name, token))
    }

    /// Sets a header whose value is a secret. Errors show `name` instead of the secret.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Header`] if the value has a character that is not allowed in a header.
    /// [`ErrorKind::Url`] if the endpoint is plain http, not on this machine, and without
    /// [`with_plain_http`](Self::with_plain_http).
    pub fn with_secret_header(self, name: &str, header: HeaderName, value: &str) -> Result<Self> {
        let endpoint = self.with_value(name, header, value)?.with_secret(name, value);
        let parts = &endpoint.0;
        if parts.url.scheme() == "http" && !parts.loopback && !parts.plain_http {
            return Err(ErrorKind::Url(UrlFault::Plain).into());
        }
        let mut parts = Arc::unwrap_or_clone(endpoint.0);
        parts.has_secret = true;
        Ok(Self(Arc::new(parts)))
    }

    /// Sets a header of every request.
    ///
    /// The value of `authorization`, `proxy-authorization`, `cookie`, `api-key`, `x-api-key` and
    /// `x-goog-api-key` is a secret, as in [`with_secret_header`](Self::with_secret_header).
    ///
    /// # Errors
    ///
    /// The errors of [`with_secret_header`](Self::with_secret_header).
    pub fn with_header(self, name: HeaderName, value: &str) -> Result<Self> {
        if SECRET_HEADERS.contains(&name.as_str()) {
            let shown = name.to_string();
            return self.with_secret_header(&shown, name, value);
        }
        let shown = name.to_string();
        self.with_value(&shown, name, value)
    }

    fn with_value(self, shown: &str, name: HeaderName, value: &str) -> Result<Self> {
        let value = HeaderValue::from_str(value);
        let mut value = value.map_err(|_| ErrorKind::Header { name: shown.to_owned() })?;
        // A header of any name may hold a secret.
        value.set_sensitive(true);
        let mut parts = Arc::unwrap_or_clone(self.0);
        parts.headers.insert(name, value);
        Ok(Self(Arc::new(parts)))
    }

    /// Adds a secret that errors must not show, such as one in a query. They show `name`.
    #[must_use]
    pub fn with_secret(self, name: &str, secret: &str) -> Self {
        let mut parts = Arc::unwrap_or_clone(self.0);
        parts.redactor = parts.redactor.with_secret(name, secret.trim());
        Self(Arc::new(parts))
    }

    /// Returns the base URL with path segments and a query appended.
    ///
    /// Segments and query are percent-encoded: a slash in a segment becomes `%2F`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Url`] if a segment is empty, `.` or `..`.
    pub fn url<S: AsRef<str>>(
        &self,
        segments: impl IntoIterator<Item = S>,
        query: &[(&str, &str)],
    ) -> Result<Url> {
        let mut url = self.0.url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty();
            for segment in segments {
                let segment = segment.as_ref();
                if matches!(segment, "" | "." | "..") {
                    return Err(ErrorKind::Url(UrlFault::Outside).into());
                }
                path.push(segment);
            }
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        match self.contains(&url) {
            true => Ok(url),
            false => Err(ErrorKind::Url(UrlFault::Outside).into()),
        }
    }

    /// Returns whether the URL is the base URL or below it: the same scheme, host and port,
    /// no user name or password, and a path that begins with the path of the base URL.
    ///
    /// ```
    /// use toolwright_http::Endpoint;
    ///
    /// let endpoint = Endpoint::new("https://example.com/v1")?;
    /// let contains = |url: &str| endpoint.contains(&url.parse().unwrap());
    /// assert!(contains("https://example.com/v1/models"));
    /// assert!(!contains("https://example.com/v2/models"));
    /// assert!(!contains("https://example.com.evil.example/v1/models"));
    /// # Ok::<(), toolwright_http::HttpError>(())
    /// ```
    #[must_use]
    pub fn contains(&self, url: &Url) -> bool {
        let base = &self.0.url;
        let rest = url.path().strip_prefix(base.path().trim_end_matches('/'));
        // The origins, without a copy of them.
        url.scheme() == base.scheme()
            && url.host() == base.host()
            && url.port_or_known_default() == base.port_or_known_default()
            && url.username().is_empty()
            && url.password().is_none()
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns the base URL without a slash at its end.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.0.url.as_str().trim_end_matches('/')
    }

    /// Returns the URL without the parts that may contain a secret; see [`shown_url`].
    #[must_use]
    pub fn shown(&self) -> String {
        shown_without(&self.0.url, &self.0.redactor)
    }

    /// Returns the whole URL.
    #[must_use]
    pub fn as_url(&self) -> &Url {
        &self.0.url
    }

    /// Returns whether the server is on this machine: `localhost`, `127.0.0.0/8` or `::1`, also written
    /// `::ffff:127.0.0.1`.
    ///
    /// ```
    /// use toolwright_http::Endpoint;
    ///
    /// assert!(Endpoint::new("http://LOCALHOST:8080/")?.is_loopback());
    /// assert!(Endpoint::new("http://[::ffff:127.0.0.1]/")?.is_loopback());
    /// assert!(!Endpoint::new("http://localhost.example.com/")?.is_loopback());
    /// # Ok::<(), toolwright_http::HttpError>(())
    /// ```
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.0.loopback
    }

    /// Returns whether requests have a secret header.
    #[must_use]
    pub fn has_secret(&self) -> bool {
        self.0.has_secret
    }

    /// Returns the headers of every request.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.0.headers
    }

    /// Returns the redactor that replaces the endpoint's secrets in text.
    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        &self.0.redactor
    }
}

/// Shows the URL as [`shown_url`] does, and the names of the headers without their values.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.0.headers.keys().map(HeaderName::as_str).collect();
        f.debug_struct("Endpoint")
            .field("url", &self.shown())
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}

/// Returns a URL as logs and errors show it, without the parts that may contain a secret: no user name,
/// password, query and fragment, and `[hidden]` for each segment of the path that may be a key.
///
/// A segment is shown if it consists of lower-case words and short numbers, as `v1` and `us-central1` do.
///
/// ```
/// use toolwright_http::shown_url;
///
/// let shown = |url: &str| shown_url(&url.parse().unwrap());
/// assert_eq!(shown("https://api.example.com/openai/v1?key=x"), "https://api.example.com/openai/v1");
/// let hook = "https://hooks.example.com/services/T000/B000/XXXX";
/// assert_eq!(shown(hook), "https://hooks.example.com/services/[hidden]/[hidden]/[hidden]");
/// ```
#[must_use]
pub fn shown_url(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // It fails only for URLs that cannot have a user name, such as `file:` URLs.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    let shown = |segment| if is_plain(segment) { segment } else { "[hidden]" };
    let path: Vec<&str> = url.path().split('/').map(shown).collect();
    let path = path.join("/");
    url.set_path(&path);
    url.into()
}

/// Returns a URL as [`shown_url`] does, also without secrets that have a slash.
pub(crate) fn shown_without(url: &Url, redactor: &Redactor) -> String {
    match Url::parse(&redactor.redact(url.as_str())) {
        Ok(url) => shown_url(&url),
        // The secret was in the host.
        Err(_) => "[hidden]".to_owned(),
    }
}

/// Returns whether a segment of a path is too plain to be a key.
fn is_plain(segment: &str) -> bool {
    // Tokens are longer than words, and mix letters with many digits.
    let is_word = |word: &str| {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let is_short = word.len() <= if digits == 0 { 16 } else { 8 };
        is_short && (digits <= 3 || digits == word.len())
    };
    let is_known =
        |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b':' | b'@');
    segment.len() <= 32
        && segment.bytes().all(is_known)
        && segment.split(|c: char| !c.is_ascii_alphanumeric()).all(is_word)
}

/// Returns whether a URL points to this machine: `localhost`, `127.0.0.0/8` or `::1`, also
/// written `::ffff:127.0.0.1`.
fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback())
}
