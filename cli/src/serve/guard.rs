//! [`Guard`]: which requests the page answers.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use reqwest::StatusCode;
use reqwest::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue,
    ORIGIN, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use subtle::ConstantTimeEq;

use crate::journal::random;

/// The policy of all responses that have none of their own.
const NOTHING: &str =
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Lets only those requests through that come from the page itself, from a person who opens it, or from
/// a program of the user.
///
/// A page of a stranger in the user's browser can send requests to this machine too. It cannot hide its
/// `Origin`. With a name that leads to this machine it has the same origin, but then `Host` has this
/// name (DNS rebinding).
pub(super) struct Guard {
    address: SocketAddr,
    /// The names of this machine, in lower case and without a port.
    names: Vec<String>,
    token: Option<String>,
}

impl Guard {
    /// Returns the guard of an address. It has a token if others can reach the address, or if
    /// `needs_token`.
    pub(super) fn new(address: SocketAddr, needs_token: bool, names: Vec<String>) -> Arc<Self> {
        let is_here = address.ip().to_canonical().is_loopback();
        let token = (needs_token || !is_here).then(new_token);
        let mut names: Vec<_> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        names.push("localhost".to_owned());
        Arc::new(Self { address, names, token })
    }

    /// Returns the address that the user opens.
    pub(super) fn url(&self) -> String {
        let mut host = self.address;
        if host.ip().is_unspecified() {
            // A browser cannot open it, and this machine has it too.
            host.set_ip(match host.ip() {
                IpAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
                IpAddr::V6(_) => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
            });
        }
        match &self.token {
            None => format!("http://{host}/"),
            Some(token) => format!("http://{host}/?token={token}"),
        }
    }

    /// Puts the guard before all routes.
    pub(super) fn around(self: &Arc<Self>, app: Router) -> Router {
        let guard = Arc::clone(self);
        app.layer(middleware::from_fn(move |request: Request, next: Next| {
            let guard = Arc::clone(&guard);
            async move {
                let mut response = match guard.check(&request) {
                    Ok(cookie) => {
                        let mut response = next.run(request).await;
                        let headers = response.headers_mut();
                        headers.extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
                        response
                    }
                    Err(refused) => refused.into_response(),
                };
                harden(response.headers_mut());
                response
            }
        }))
    }

    /// Checks a request. Returns a cookie for the response, if the request has the token in its address.
    fn check(&self, request: &Request<Body>) -> Result<Option<HeaderValue>, Refused> {
        let headers = request.headers();
        let host = only(headers, &HOST)?.ok_or(Refused::HOST)?;
        if !self.is_ours(host) {
            return Err(Refused::HOST);
        }
        let path = request.uri().path();
        let is_page = path == "/" || path.ends_with("/page");
        match only(headers, &ORIGIN)? {
            // The page may be behind a proxy that encrypts.
            Some(origin) => {
                let of_host = ["http://", "https://"].map(|scheme| origin.strip_prefix(scheme));
                let is_same =
                    of_host.into_iter().flatten().any(|name| name.eq_ignore_ascii_case(host));
                if !is_same {
                    return Err(Refused::ORIGIN);
                }
            }
            // A browser leaves it out when it only reads.
            None => {
                let site = only(headers, &HeaderName::from_static("sec-fetch-site"))?;
                let is_own = site.is_none_or(|site| ["same-origin", "none"].contains(&site));
                if !is_own && !is_page {
                    return Err(Refused::ORIGIN);
                }
            }
        }
        let Some(token) = &self.token else { return Ok(None) };
        let is_token = |sent: &str| bool::from(sent.as_bytes().ct_eq(token.as_bytes()));
        let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let (name, mut cookies) = (self.cookie(), cookies.flat_map(|cookies| cookies.split(';')));
        let of_cookie = |cookie: &str| {
            cookie.trim().split_once('=').is_some_and(|(n, v)| n == name && is_token(v))
        };
        if cookies.any(of_cookie) {
            return Ok(None);
        }
        let query = request.uri().query().unwrap_or_default();
        let sent = query.split('&').find_map(|pair| pair.strip_prefix("token="));
        if path == "/" && sent.is_some_and(is_token) {
            let cookie = format!("{name}={token}; HttpOnly; SameSite=Strict; Path=/");
            return Ok(HeaderValue::from_str(&cookie).ok());
        }
        Err(Refused::TOKEN)
    }

    /// Returns whether a `Host` is this machine. An IP address cannot be a stranger's name for it.
    fn is_ours(&self, host: &str) -> bool {
        if host.parse::<SocketAddr>().is_ok() || host.parse::<IpAddr>().is_ok() {
            return true;
        }
        let is_v6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if is_v6.is_some_and(|host| host.parse::<IpAddr>().is_ok()) {
            return true;
        }
        let (name, port) = host.split_once(':').unwrap_or((host, "80"));
        let name = name.to_ascii_lowercase();
        port.parse::<u16>().is_ok() && self.names.contains(&name)
    }

    /// Returns the name of the cookie. The ports of a machine share their cookies.
    fn cookie(&self) -> String {
        format!("toolwright-{}", self.address.port())
    }
}

/// Returns a token that no one can guess.
fn new_token() -> String {
    let mut token = String::new();
    for byte in random() {
        let _ = write!(token, "{byte:02x}");
    }
    token
}

/// Returns the value of a header that a request has at most once: of two, a proxy may check another one.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Refused> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    match (first.map(HeaderValue::to_str), values.next()) {
        (None, _) => Ok(None),
        (Some(Ok(value)), None) => Ok(Some(value)),
        _ => Err(Refused::HEADER),
    }
}

fn harden(headers: &mut HeaderMap) {
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(NOTHING));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
struct Refused(StatusCode, &'static str);

impl Refused {
    const HOST: Self = Self(
        StatusCode::MISDIRECTED_REQUEST,
        "the header Host is not a name of this machine; open the address that the command printed, or \
         allow the name with --host",
    );
    const ORIGIN: Self =
        Self(StatusCode::FORBIDDEN, "the request comes from another page than that of this server");
    const TOKEN: Self = Self(
        StatusCode::UNAUTHORIZED,
        "open the address with the token that the command printed when it started",
    );
    const HEADER: Self =
        Self(StatusCode::BAD_REQUEST, "the request has a header twice, or one that is not text");
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, axum::Json(serde_json::json!({ "error": self.1 }))).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(address: &str, names: &[&str]) -> Arc<Guard> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Guard::new(address.parse().unwrap(), false, names)
    }

    fn request(path: &str, headers: &[(&str, &str)]) -> Request<Body> {
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn a_host_is_a_name_of_this_machine() {
        let guard = guard("127.0.0.1:7117", &["Box.example"]);
        for host in [
            "127.0.0.1:7117",
            "127.0.0.1",
            "localhost:9000",
            "LOCALHOST",
            "[::1]:7117",
            "[::1]",
            "box.example:443",
        ] {
            assert_eq!(guard.check(&request("/", &[("host", host)])), Ok(None), "{host}");
        }
        for host in [
            "",
            "evil.example:7117",
            "localhost.evil.example",
            "127.0.0.1.evil.example:7117",
            "localhost:x",
            "a@localhost",
            "[::1]x",
            "evil.example:7117, localhost",
        ] {
            assert_eq!(guard.check(&request("/", &[("host", host)])), Err(Refused::HOST), "{host}");
        }
        assert_eq!(guard.check(&request("/", &[])), Err(Refused::HOST));
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(guard.check(&request("/", &two)), Err(Refused::HEADER));
    }

    #[test]
    fn an_origin_is_that_of_the_page() {
        let guard = guard("127.0.0.1:7117", &[]);
        let of = |path, headers: &[(&str, &str)]| {
            let all = [&[("host", "localhost:7117")], headers].concat();
            guard.check(&request(path, &all))
        };
        for origin in ["http://localhost:7117", "https://localhost:7117"] {
            assert_eq!(of("/api/messages", &[("origin", origin)]), Ok(None), "{origin}");
        }
        for origin in [
            "null",
            "",
            "http://localhost:3000",
            "http://127.0.0.1:7117",
            "http://localhost:7117.evil",
        ] {
            let found = of("/api/messages", &[("origin", origin)]);
            assert_eq!(found, Err(Refused::ORIGIN), "{origin}");
        }
        // A person may follow a link to the page, but no page reads the conversations.
        assert_eq!(of("/", &[("sec-fetch-site", "cross-site")]), Ok(None));
        let read = of("/api/conversations", &[("sec-fetch-site", "cross-site")]);
        assert_eq!(read, Err(Refused::ORIGIN));
        let read = of("/api/conversations", &[("sec-fetch-site", "same-origin")]);
        assert_eq!(read, Ok(None));
    }

    #[test]
    fn other_machines_need_the_token_once() {
        assert_eq!(guard("[::1]:80", &[]).url(), "http://[::1]/".replace("]/", "]:80/"));
        let guard = guard("0.0.0.0:7117", &[]);
        let url = guard.url();
        let token = url.strip_prefix("http://127.0.0.1:7117/?token=").unwrap();
        assert!(token.len() == 64 && token.chars().all(|char| char.is_ascii_hexdigit()), "{token}");
        let host = ("host", "192.0.2.7:7117");
        let check = |path: &str, more: &[(&str, &str)]| {
            guard.check(&request(path, &[&[host], more].concat()))
        };
        assert_eq!(check("/", &[]), Err(Refused::TOKEN));
        assert_eq!(check("/?token=", &[]), Err(Refused::TOKEN));
        assert_eq!(check(&format!("/?token={}", "0".repeat(64)), &[]), Err(Refused::TOKEN));
        // It would be in logs and links.
        assert_eq!(check(&format!("/api/questions?token={token}"), &[]), Err(Refused::TOKEN));
        let cookie = check(&format!("/?token={token}"), &[]).unwrap().unwrap();
        let cookie = cookie.to_str().unwrap();
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
        let sent = format!("other=1; {}", cookie.split(';').next().unwrap());
        assert_eq!(check("/api/questions", &[("cookie", &sent)]), Ok(None));
        assert_eq!(
            check("/api/questions", &[("cookie", "toolwright-7117=0")]),
            Err(Refused::TOKEN)
        );
        let needs = Guard::new("127.0.0.1:1".parse().unwrap(), true, Vec::new());
        assert!(needs.url().contains("token="));
    }
}
