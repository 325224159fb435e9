//! The GET requests of the tools: pages, redirects, retries, and the check of responses.

use std::collections::HashSet;
use std::time::SystemTime;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toolwright_http::reqwest::Url;
use toolwright_http::reqwest::header::{
    ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LINK,
};
use toolwright_http::{
    Deadline, ErrorKind, HttpRequest, HttpResponse, rate_limits, retry_after, with_causes,
};
use toolwright_module::Context;

use crate::failure::{Failure, Pause, Prefixes};
use crate::github::GitHub;
use crate::item::{Item, ItemPage, User};
use crate::repo::{Repo, is_login};
use crate::untrusted;

/// Maximum size of the part of a response that an error keeps, in bytes.
const MAX_RAW: usize = 16 << 10;
/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 3;
/// Maximum number of pages of a list.
const MAX_PAGES: u32 = 20;
/// Maximum number of items on a page of GitHub.
const PAGE: u32 = 100;
/// GitHub's JSON; plain JSON for servers that imitate GitHub; and text for endpoints without
/// JSON, such as `zen`.
const MEDIA: HeaderValue =
    HeaderValue::from_static("application/vnd.github+json, application/json;q=0.9, */*;q=0.1");
const API_VERSION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-github-api-version"), HeaderValue::from_static("2022-11-28"));

/// A response that is a success.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) text: String,
    /// Whether there is a next page, if the response has the header for it.
    next: Option<bool>,
}

/// A list from several pages.
pub(crate) struct ItemList {
    pub(crate) items: Vec<Item>,
    /// Whether all matching items up to the limit were found.
    pub(crate) complete: bool,
}

/// The requests. They are only GET requests to URLs below the base URL.
impl GitHub {
    /// Returns the repository in the arguments, or the default repository.
    pub(crate) fn repo(&self, named: Option<&str>) -> Result<Repo, Failure> {
        self.repo_if_any(named)?.ok_or_else(|| {
            Failure::Argument("name the repository in `repo`, as owner/name".to_owned())
        })
    }

    pub(crate) fn repo_if_any(&self, named: Option<&str>) -> Result<Option<Repo>, Failure> {
        let Some(named) = named else { return Ok(self.repo.clone()) };
        let fault = "`repo` must be owner/name, such as rust-lang/rust";
        Repo::parse(named).map(Some).map_err(|_| Failure::Argument(fault.to_owned()))
    }

    /// Returns the login for an argument. `@me` is the user of the token.
    pub(crate) async fn login(
        &self,
        what: &str,
        login: &str,
        cx: &Context,
    ) -> Result<String, Failure> {
        if login == "@me" {
            let reply = self.get(&["user"], &[], cx).await?;
            return Ok(reply.read::<User>()?.login);
        }
        let bot = login.strip_suffix("[bot]").or_else(|| login.strip_prefix("app/"));
        if is_login(bot.unwrap_or(login)) {
            return Ok(bot.map_or_else(|| login.to_owned(), |bot| format!("{bot}[bot]")));
        }
        let fault = format!("`{what}` must be a user's login, such as octocat");
        Err(Failure::Argument(fault))
    }

    /// Requests pages of issues or pull requests until `limit` items fit.
    ///
    /// The page number is a parameter of the request. The URL of the next page in the response is
    /// not used, because it could be any URL.
    pub(crate) async fn list(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        limit: u32,
        fits: Option<fn(&Item) -> bool>,
        cx: &Context,
    ) -> Result<ItemList, Failure> {
        // With a filter, only some items of a page fit, so the page is as large as possible.
        let size = if fits.is_some() { PAGE } else { limit.min(PAGE) };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let (mut items, mut seen) = (Vec::new(), HashSet::new());
        for page in 1..=MAX_PAGES {
            let (size, page) = (size.to_string(), page.to_string());
            let counted = [("per_page", size.as_str()), ("page", page.as_str())];
            let reply = self.get(path, &[query, &counted].concat(), cx).await?;
            let found: ItemPage = reply.read()?;
            let full = found.items.len().to_string() == size;
            let mut fresh = false;
            for item in found.items {
                // If the list changes between two pages, an item may be on both.
                if !seen.insert(item.number) {
                    continue;
                }
                fresh = true;
                if fits.is_none_or(|fits| fits(&item)) {
                    items.push(item);
                    if items.len() == limit {
                        return Ok(ItemList { items, complete: true });
                    }
                }
            }
            if !fresh || !reply.next.unwrap_or(full) {
                return Ok(ItemList { items, complete: !found.incomplete });
            }
        }
        Ok(ItemList { items, complete: false })
    }

    /// Sends a GET request, with retries.
    pub(crate) async fn get(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        cx: &Context,
    ) -> Result<Reply, Failure> {
        let url = self.http.endpoint().url(path, query);
        let url = url.map_err(|_| Failure::Argument("this is not a path of the API".to_owned()))?;
        let deadline = cx.deadline().map_or(Deadline::never(), Deadline::at);
        self.retry.run(deadline, || self.attempt(url.clone()), Failure::retry).await
    }

    /// Sends a GET request once, and follows redirects below the base URL.
    async fn attempt(&self, mut url: Url) -> Result<Reply, Failure> {
        let deadline = Deadline::after(self.timeout);
        for _ in 0..=MAX_REDIRECTS {
            let (name, version) = API_VERSION;
            let request =
                HttpRequest::get(url).with_header(ACCEPT, MEDIA).with_header(name, version);
            let response = self.http.send(&request, deadline).await.map_err(transport)?;
            if !matches!(response.status(), 301 | 302 | 303 | 307 | 308) {
                return self.read(response).await;
            }
            match response.location() {
                // A repository that was renamed has another path of the same API.
                Some(to) if self.http.endpoint().contains(&to) => url = to,
                to => {
                    let host = to.and_then(|to| to.host_str().map(str::to_owned));
                    return Err(Failure::Redirected { host });
                }
            }
        }
        Err(Failure::RedirectLoop)
    }

    async fn read(&self, response: HttpResponse) -> Result<Reply, Failure> {
        let (code, is_success) = (response.status(), response.is_success());
        let headers = response.headers().clone();
        let next = headers.get(LINK).map(|link| {
            let link = String::from_utf8_lossy(link.as_bytes());
            link.contains("rel=\"next\"") || link.contains("rel=next")
        });
        let bytes = match response.bytes().await {
            Ok(bytes) => bytes,
            Err(error) if is_success => return Err(transport(error)),
            // The status is more useful than the error of a broken body.
            Err(_) => Default::default(),
        };
        let text = match std::str::from_utf8(&bytes) {
            // The server may repeat the token.
            Ok(text) => self.http.endpoint().redactor().redact(text).into_owned(),
            Err(_) if is_success => {
                let fault = "the response is not UTF-8 text".to_owned();
                return Err(Failure::Parse { fault, body: String::new() });
            }
            Err(_) => String::new(),
        };
        if is_page(&headers, &text) {
            return Err(Failure::Page { status: code, body: start(&text) });
        }
        if is_success {
            return Ok(Reply { status: code, text, next });
        }
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        let message = error_message(&body);
        let limited = code == 429
            || code == 403
                && (headers.contains_key("retry-after")
                    || exhausted_limit(&headers).is_some()
                    || message
                        .as_ref()
                        .is_some_and(|message| message.to_lowercase().contains("rate limit")));
        let body = start(&text);
        if limited {
            return Err(Failure::Limited { pause: pause(&headers), body });
        }
        Err(Failure::Status { status: code, message, body })
    }
}

impl Reply {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_str(&self.text).map_err(|error| {
            let fault = if error.is_data() {
                // The error of serde may quote untrusted text of the response.
                "a field of GitHub's response is missing or has another type".to_owned()
            } else {
                error.to_string()
            };
            Failure::Parse { fault, body: format!("{error}\n{}", start(&self.text)) }
        })
    }
}

/// Runs a tool's work until it is done or cancelled, and converts its failure.
pub(crate) async fn run<T>(
    prefixes: &Prefixes,
    cx: &Context,
    work: impl Future<Output = Result<T, Failure>>,
) -> toolwright_module::Result<T> {
    cx.until_cancelled(async { work.await.map_err(|failure| failure.into_error(prefixes)) }).await
}

fn pause(headers: &HeaderMap) -> Pause {
    if let Some(wait) = retry_after(headers) {
        return Pause::For(wait);
    }
    let reset = exhausted_limit(headers).flatten();
    let reset = reset.and_then(|moment| Timestamp::try_from(moment).ok());
    reset.map_or(Pause::Unknown, Pause::Until)
}

/// Returns the reset time of the rate limit, if no requests are left.
fn exhausted_limit(headers: &HeaderMap) -> Option<Option<SystemTime>> {
    let limits = rate_limits(headers);
    let own = limits.iter().find(|limit| limit.resource.is_empty())?;
    (own.remaining == Some(0)).then_some(own.reset)
}

/// Returns GitHub's error message, with those of up to three single faults.
fn error_message(body: &Value) -> Option<String> {
    let mut message = body["message"].as_str()?.to_owned();
    for error in body["errors"].as_array().into_iter().flatten().take(3) {
        let field = error["field"].as_str().zip(error["code"].as_str());
        let text = error["message"].as_str().or(error.as_str()).map(str::to_owned);
        if let Some(text) = text.or_else(|| field.map(|(field, code)| format!("{field} {code}"))) {
            message += &format!("; {text}");
        }
    }
    Some(untrusted::sentence(&message)).filter(|message| !message.is_empty())
}

fn is_page(headers: &HeaderMap, text: &str) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase());
    let text = text.trim_start().as_bytes();
    let begins = |tag: &[u8]| text.get(..tag.len()).is_some_and(|is| is.eq_ignore_ascii_case(tag));
    kind.is_some_and(|kind| kind.starts_with(b"text/html"))
        || begins(b"<!doctype html")
        || begins(b"<html")
}

/// Returns the part of a response that an error keeps.
fn start(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_RAW)].to_owned()
}

/// Converts an error of a request or of a body.
fn transport(error: toolwright_http::HttpError) -> Failure {
    let fault = match error.kind() {
        ErrorKind::TooLarge { max, .. } => return Failure::TooLarge { max: *max },
        ErrorKind::Silent { .. } | ErrorKind::TooSlow { .. } => "GitHub took too long to respond",
        ErrorKind::Connect { .. } => "GitHub cannot be reached",
        _ => "the connection to GitHub broke",
    };
    Failure::Transport { fault, detail: with_causes(&error), retry: error.retry() }
}
