use std::collections::HashSet;
use std::fmt;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toolwright_http::reqwest::Url;
use toolwright_http::reqwest::header::{
    ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LINK, USER_AGENT,
};
use toolwright_http::{
    Deadline, Endpoint, ErrorKind, Limits, Request, Response, RetryPolicy, UrlFault, rate_limits,
    retry_after, with_causes,
};
use toolwright_module::{Context, Result as ModuleResult};

use crate::error::{GitHubError, Result};
use crate::failure::{Failure, Pause, Words};
use crate::repo::{Repo, is_login};
use crate::untrusted;
use crate::wire::{Found, Item, User};

const GITHUB: &str = "https://api.github.com";
/// Maximum size of one answer, in bytes.
const MOST_BODY: usize = 16 << 20;
/// Maximum size of the part of an answer that an error keeps.
const MOST_RAW: usize = 16 << 10;
/// How often an answer may lead on to another address.
const MOST_HOPS: usize = 3;
/// How many pages of a list are looked at.
const MOST_PAGES: u32 = 20;
/// How much a page of GitHub's holds at most.
const PAGE: u32 = 100;
/// GitHub's own kind of JSON; plain JSON for what stands in for it; text where there is
/// no JSON, as of `zen`.
const MEDIA: HeaderValue =
    HeaderValue::from_static("application/vnd.github+json, application/json;q=0.9, */*;q=0.1");
const API_VERSION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-github-api-version"), HeaderValue::from_static("2022-11-28"));
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What the tools share: where to ask, with what, and how patiently.
///
/// It can send a GET below one address, and nothing else: there is no other method
/// here, and the token goes nowhere else.
#[derive(Clone)]
pub(crate) struct Client {
    http: toolwright_http::Client,
    /// The endpoint has it too; this one is for another endpoint.
    token: Option<String>,
    repo: Option<Repo>,
    retry: RetryPolicy,
    /// Maximum time of one attempt, from its start to the last byte of its answer.
    timeout: Duration,
}

/// An answer that is a success.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) text: String,
    /// Whether there is a next page, where the answer says so.
    next: Option<bool>,
}

/// A list from several pages.
pub(crate) struct Listed {
    pub(crate) items: Vec<Item>,
    /// Whether nothing was left out that belongs to what was asked.
    pub(crate) complete: bool,
}

impl Client {
    pub(crate) fn new() -> Result<Self> {
        let timeout = Duration::from_secs(30);
        let http = toolwright_http::Client::new(endpoint(GITHUB, None)?, limits(timeout));
        // A request only reads, so that an answer that broke off may be asked for again.
        let retry = RetryPolicy::default().with_begun_answers(true);
        Ok(Self { http: http.map_err(refused)?, token: None, repo: None, retry, timeout })
    }

    pub(crate) fn with_base_url(mut self, base_url: &str) -> Result<Self> {
        let endpoint = endpoint(base_url, self.token.as_deref())?;
        self.http = self.http.with_endpoint(endpoint).map_err(refused)?;
        Ok(self)
    }

    pub(crate) fn with_token(mut self, token: &str) -> Result<Self> {
        // As if it were in the environment: a line end is easily copied with it.
        let token = token.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(GitHubError::Token);
        }
        let endpoint = endpoint(self.http.endpoint().base_url(), Some(token))?;
        self.http = self.http.with_endpoint(endpoint).map_err(refused)?;
        self.token = Some(token.to_owned());
        Ok(self)
    }

    pub(crate) fn with_timeout(mut self, timeout: Duration) -> Result<Self> {
        self.http = self.http.with_limits(limits(timeout)).map_err(refused)?;
        Ok(Self { timeout, ..self })
    }

    pub(crate) fn with_repo(self, repo: &str) -> Result<Self> {
        Ok(Self { repo: Some(Repo::parse(repo)?), ..self })
    }

    pub(crate) fn with_retries(self, retries: u32) -> Self {
        Self { retry: self.retry.with_retries(retries), ..self }
    }

    /// The repository that was named, or the toolset's own.
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

    /// The login that an argument names; `@me` is whose token it is.
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

    /// Asks for pages of issues or pull requests until there are `limit` that fit.
    ///
    /// Pages are counted here: an address that the server gives for the next one is not
    /// followed.
    pub(crate) async fn list(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        limit: u32,
        fits: Option<fn(&Item) -> bool>,
        cx: &Context,
    ) -> Result<Listed, Failure> {
        // Of what is filtered here, a page should bring enough.
        let size = if fits.is_some() { PAGE } else { limit.min(PAGE) };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let (mut items, mut seen) = (Vec::new(), HashSet::new());
        for page in 1..=MOST_PAGES {
            let (size, page) = (size.to_string(), page.to_string());
            let counted = [("per_page", size.as_str()), ("page", page.as_str())];
            let reply = self.get(path, &[query, &counted].concat(), cx).await?;
            let found: Found = reply.read()?;
            let full = found.items.len().to_string() == size;
            let mut fresh = false;
            for item in found.items {
                // A list that changes between pages shows some twice.
                if !seen.insert(item.number) {
                    continue;
                }
                fresh = true;
                if fits.is_none_or(|fits| fits(&item)) {
                    items.push(item);
                    if items.len() == limit {
                        return Ok(Listed { items, complete: true });
                    }
                }
            }
            if !fresh || !reply.next.unwrap_or(full) {
                return Ok(Listed { items, complete: !found.incomplete });
            }
        }
        Ok(Listed { items, complete: false })
    }

    /// Asks once, or again where GitHub wants a short pause or is out of order.
    pub(crate) async fn get(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        cx: &Context,
    ) -> Result<Reply, Failure> {
        let url = self.http.endpoint().url(path, query);
        let url = url.map_err(|_| Failure::Argument("this is no path of the API".to_owned()))?;
        let deadline = cx.deadline().map_or(Deadline::never(), Deadline::at);
        self.retry.run(deadline, || self.ask(url.clone()), Failure::retry).await
    }

    async fn ask(&self, mut url: Url) -> Result<Reply, Failure> {
        let deadline = Deadline::after(self.timeout);
        for _ in 0..=MOST_HOPS {
            let (name, version) = API_VERSION;
            let request = Request::get(url).with_header(ACCEPT, MEDIA).with_header(name, version);
            let response = self.http.send(&request, deadline).await.map_err(transport)?;
            if !matches!(response.status(), 301 | 302 | 303 | 307 | 308) {
                return self.judge(response).await;
            }
            match response.location() {
                // A repository that moved: another path, the same place.
                Some(to) if self.http.endpoint().contains(&to) => url = to,
                to => {
                    let host = to.and_then(|to| to.host_str().map(str::to_owned));
                    return Err(Failure::Elsewhere { host });
                }
            }
        }
        Err(Failure::Circle)
    }

    async fn judge(&self, response: Response) -> Result<Reply, Failure> {
        let (code, is_success) = (response.status(), response.is_success());
        let headers = response.headers().clone();
        let next = headers.get(LINK).map(|link| {
            let link = String::from_utf8_lossy(link.as_bytes());
            link.contains("rel=\"next\"") || link.contains("rel=next")
        });
        let bytes = match response.bytes().await {
            Ok(bytes) => bytes,
            Err(error) if is_success => return Err(transport(error)),
            // A body that breaks off is no reason to forget the status.
            Err(_) => Default::default(),
        };
        let text = match std::str::from_utf8(&bytes) {
            // Should a server have sent the token back.
            Ok(text) => self.http.endpoint().redactor().redact(text).into_owned(),
            Err(_) if is_success => {
                let fault = "the answer is no text".to_owned();
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
        let said = said(&body);
        let limited = code == 429
            || code == 403
                && (headers.contains_key("retry-after")
                    || used_up(&headers).is_some()
                    || said
                        .as_ref()
                        .is_some_and(|said| said.to_lowercase().contains("rate limit")));
        let body = start(&text);
        if limited {
            return Err(Failure::Limited { pause: pause(&headers), body });
        }
        Err(Failure::Status { status: code, said, body })
    }
}

/// Says where it asks, never with what.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitHub")
            .field("base_url", &self.http.endpoint().as_url().as_str())
            .field("token", &self.token.is_some())
            .field("repo", &self.repo.as_ref().map(|repo| format!("{}/{}", repo.owner, repo.name)))
            .finish_non_exhaustive()
    }
}

impl Reply {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_str(&self.text).map_err(|error| {
            let fault = if error.is_data() {
                // Its words may be those of the answer, which nobody vouches for.
                "something is missing in GitHub's answer or is of another kind".to_owned()
            } else {
                error.to_string()
            };
            Failure::Parse { fault, body: format!("{error}\n{}", start(&self.text)) }
        })
    }
}

/// Runs a tool's work until it is done or cancelled, and tells its failure in its words.
pub(crate) async fn told<T>(
    words: &Words,
    cx: &Context,
    work: impl Future<Output = Result<T, Failure>>,
) -> ModuleResult<T> {
    cx.until_cancelled(async { work.await.map_err(|failure| failure.told(words)) }).await
}

fn pause(headers: &HeaderMap) -> Pause {
    if let Some(wait) = retry_after(headers) {
        return Pause::For(wait);
    }
    let reset = used_up(headers).flatten();
    let reset = reset.and_then(|moment| Timestamp::try_from(moment).ok());
    reset.map_or(Pause::Unknown, Pause::Until)
}

/// Whether nothing is left of the rate limit, and when there is again.
fn used_up(headers: &HeaderMap) -> Option<Option<SystemTime>> {
    let limits = rate_limits(headers);
    let own = limits.iter().find(|limit| limit.resource.is_empty())?;
    (own.remaining == Some(0)).then_some(own.reset)
}

/// What GitHub says of a failure: its sentence and those on the single faults.
fn said(body: &Value) -> Option<String> {
    let mut said = body["message"].as_str()?.to_owned();
    for error in body["errors"].as_array().into_iter().flatten().take(3) {
        let field = error["field"].as_str().zip(error["code"].as_str());
        let text = error["message"].as_str().or(error.as_str()).map(str::to_owned);
        if let Some(text) = text.or_else(|| field.map(|(field, code)| format!("{field} {code}"))) {
            said += &format!("; {text}");
        }
    }
    Some(untrusted::sentence(&said)).filter(|said| !said.is_empty())
}

fn is_page(headers: &HeaderMap, text: &str) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase());
    let text = text.trim_start().as_bytes();
    let begins = |tag: &[u8]| text.get(..tag.len()).is_some_and(|is| is.eq_ignore_ascii_case(tag));
    kind.is_some_and(|kind| kind.starts_with(b"text/html"))
        || begins(b"<!doctype html")
        || begins(b"<html")
}

/// As much of an answer as an error keeps.
fn start(text: &str) -> String {
    text[..text.floor_char_boundary(MOST_RAW)].to_owned()
}

/// The base URL, and what every request carries.
fn endpoint(base_url: &str, token: Option<&str>) -> Result<Endpoint> {
    let agent = concat!("toolwright-github/", env!("CARGO_PKG_VERSION"));
    let endpoint = Endpoint::new(base_url).and_then(|url| url.with_header(USER_AGENT, agent));
    let endpoint = endpoint.and_then(|endpoint| match token {
        Some(token) => endpoint.with_bearer("token", token),
        None => Ok(endpoint),
    });
    endpoint.map_err(refused)
}

fn limits(timeout: Duration) -> Limits {
    let limits = Limits::default().with_connect(CONNECT_TIMEOUT.min(timeout));
    limits.with_silence(timeout).with_body(MOST_BODY)
}

/// What is wrong with how the client is set up, in the words of this toolset.
fn refused(error: toolwright_http::HttpError) -> GitHubError {
    let fault = match error.kind() {
        ErrorKind::Url(UrlFault::NotAUrl) => {
            "it is not a URL; use one like https://github.example.com/api/v3"
        }
        ErrorKind::Url(UrlFault::Scheme) => "it does not begin with http:// or https://",
        ErrorKind::Url(UrlFault::Credentials) => {
            "it holds a name or a password; give the token with `with_token`"
        }
        ErrorKind::Url(UrlFault::Query) => "it holds `?` or `#`; end it before them",
        ErrorKind::Url(UrlFault::Plain) => "a token is not sent over http://; use https://",
        ErrorKind::Header { .. } => return GitHubError::Token,
        _ => return GitHubError::Client { source: error },
    };
    GitHubError::BaseUrl { fault }
}

/// Why there is no answer, or not all of it.
fn transport(error: toolwright_http::HttpError) -> Failure {
    let fault = match error.kind() {
        ErrorKind::TooLarge { max, .. } => return Failure::TooLarge { most: *max },
        ErrorKind::Silent { .. } | ErrorKind::TooSlow { .. } => "GitHub took too long to answer",
        ErrorKind::Connect => "GitHub cannot be reached",
        _ => "the connection to GitHub broke",
    };
    Failure::Transport { fault, detail: with_causes(&error), retry: error.retry() }
}
