use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LINK, LOCATION,
};
use reqwest::redirect::Policy;
use reqwest::{Response, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;
use toolwright_module::{Context, Result as ModuleResult};

use crate::error::{Error, Result};
use crate::failure::{Failure, Pause, Words};
use crate::repo::{Repo, is_login};
use crate::untrusted;
use crate::wire::{Found, Item, User};

/// The most that one answer may have, in bytes.
const MOST_BODY: usize = 16 << 20;
/// The most of an answer that an error keeps.
const MOST_RAW: usize = 16 << 10;
/// Who asks for a longer pause than this is not asked again: the caller decides.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often an answer may lead on to another address.
const MOST_HOPS: usize = 3;
/// How many pages of a list are looked at.
const MOST_PAGES: u32 = 20;
/// How much a page of GitHub's holds at most.
const PAGE: u32 = 100;
/// GitHub's own kind of JSON; plain JSON for what stands in for it; text where there is
/// no JSON, as of `zen`.
const MEDIA: &str = "application/vnd.github+json, application/json;q=0.9, */*;q=0.1";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What the tools share: where to ask, with what, and how patiently.
///
/// It can send a GET below one address, and nothing else: there is no other method
/// here, and the token goes nowhere else.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    token: Option<Token>,
    repo: Option<Repo>,
    retries: u32,
    timeout: Duration,
}

/// A token, and the header that proves it.
#[derive(Clone)]
struct Token {
    text: String,
    header: HeaderValue,
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
        let (base, loopback) = checked("https://api.github.com")?;
        let timeout = Duration::from_secs(30);
        let http = http(loopback, timeout)?;
        Ok(Self { http, base, token: None, repo: None, retries: 2, timeout })
    }

    pub(crate) fn with_base_url(mut self, base_url: &str) -> Result<Self> {
        let (base, loopback) = checked(base_url)?;
        self.http = http(loopback, self.timeout)?;
        self.base = base;
        self.sendable()
    }

    pub(crate) fn with_token(mut self, token: &str) -> Result<Self> {
        // As if it were in the environment: a line end is easily copied with it.
        let text = token.trim();
        let graphic = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let header = HeaderValue::from_str(&format!("Bearer {text}")).ok();
        let Some(mut header) = header.filter(|_| graphic) else { return Err(Error::Token) };
        header.set_sensitive(true);
        self.token = Some(Token { text: text.to_owned(), header });
        self.sendable()
    }

    pub(crate) fn with_timeout(mut self, timeout: Duration) -> Result<Self> {
        self.http = http(is_loopback(&self.base), timeout)?;
        self.timeout = timeout;
        Ok(self)
    }

    pub(crate) fn with_repo(self, repo: &str) -> Result<Self> {
        Ok(Self { repo: Some(Repo::parse(repo)?), ..self })
    }

    pub(crate) fn with_retries(self, retries: u32) -> Self {
        Self { retries, ..self }
    }

    /// A token is not sent where everybody on the way can read it.
    fn sendable(self) -> Result<Self> {
        if self.token.is_some() && self.base.scheme() == "http" && !is_loopback(&self.base) {
            let fault = "a token is not sent over http://; use https://";
            return Err(Error::BaseUrl { fault });
        }
        Ok(self)
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
        let url = self.url(path, query)?;
        let mut used = 0;
        loop {
            let failure = match self.ask(url.clone()).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            let wait = match &failure {
                Failure::Limited { pause, .. } => Some(pause.wait()),
                Failure::Status { status: 500.., .. }
                | Failure::Page { status: 500.., .. }
                | Failure::Transport { again: true, .. } => {
                    Some(Duration::from_millis(500) * 2_u32.saturating_pow(used))
                }
                _ => None,
            };
            match wait.filter(|wait| used < self.retries && worth(*wait, cx)) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(failure),
            }
            used += 1;
        }
    }

    fn url(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Url, Failure> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        // It cannot be otherwise; a wall does not rest on that.
        if self.is_below(&url) {
            Ok(url)
        } else {
            Err(Failure::Argument("this is no path of the API".to_owned()))
        }
    }

    fn is_below(&self, url: &Url) -> bool {
        let base = self.base.path().trim_end_matches('/');
        let rest = url.path().strip_prefix(base);
        url.origin() == self.base.origin()
            && url.username().is_empty()
            && url.password().is_none()
            && rest.is_some_and(|rest| rest.starts_with('/'))
    }

    async fn ask(&self, mut url: Url) -> Result<Reply, Failure> {
        for _ in 0..=MOST_HOPS {
            let mut request = self
                .http
                .get(url.clone())
                .header(ACCEPT, MEDIA)
                .header("x-github-api-version", "2022-11-28");
            if let Some(token) = &self.token {
                request = request.header(AUTHORIZATION, token.header.clone());
            }
            let response = request.send().await.map_err(|error| self.transport(error))?;
            if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                return self.judge(response).await;
            }
            let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let to = location.and_then(|to| url.join(to).ok());
            match to {
                // A repository that moved: another path, the same place.
                Some(to) if self.is_below(&to) => url = to,
                to => {
                    let host = to.and_then(|to| to.host_str().map(str::to_owned));
                    return Err(Failure::Elsewhere { host });
                }
            }
        }
        Err(Failure::Circle)
    }

    async fn judge(&self, response: Response) -> Result<Reply, Failure> {
        let status = response.status();
        let code = status.as_u16();
        let headers = response.headers().clone();
        let next = headers.get(LINK).map(|link| {
            let link = String::from_utf8_lossy(link.as_bytes());
            link.contains("rel=\"next\"") || link.contains("rel=next")
        });
        let bytes = match self.body(response).await {
            Ok(bytes) => bytes,
            Err(failure) if status.is_success() => return Err(failure),
            // A body that breaks off is no reason to forget the status.
            Err(_) => Vec::new(),
        };
        let text = match String::from_utf8(bytes) {
            Ok(text) => self.without_token(text),
            Err(_) if status.is_success() => {
                let fault = "the answer is no text".to_owned();
                return Err(Failure::Parse { fault, body: String::new() });
            }
            Err(_) => String::new(),
        };
        if is_page(&headers, &text) {
            return Err(Failure::Page { status: code, body: start(&text) });
        }
        if status.is_success() {
            return Ok(Reply { status: code, text, next });
        }
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        let said = said(&body);
        let limited = code == 429
            || code == 403
                && (headers.contains_key("retry-after")
                    || number(&headers, "x-ratelimit-remaining") == Some(0)
                    || said
                        .as_ref()
                        .is_some_and(|said| said.to_lowercase().contains("rate limit")));
        let body = start(&text);
        if limited {
            return Err(Failure::Limited { pause: pause(&headers), body });
        }
        Err(Failure::Status { status: code, said, body })
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, Failure> {
        let too_large = || Failure::TooLarge { most: MOST_BODY };
        if response.content_length().is_some_and(|length| length > MOST_BODY as u64) {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.transport(error))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MOST_BODY {
                return Err(too_large());
            }
        }
        Ok(bytes)
    }

    fn transport(&self, error: reqwest::Error) -> Failure {
        let fault = if error.is_timeout() {
            "GitHub took too long to answer"
        } else if error.is_connect() {
            "GitHub cannot be reached"
        } else {
            "the connection to GitHub broke"
        };
        // Whoever waited this long once does not want to wait as long again.
        let again = !error.is_timeout();
        let detail = with_causes(&error.without_url());
        Failure::Transport { fault, detail: self.without_token(detail), again }
    }

    /// The text without the token, should a server have sent it back.
    fn without_token(&self, text: String) -> String {
        match &self.token {
            Some(token) if text.contains(&token.text) => text.replace(&token.text, "[token]"),
            _ => text,
        }
    }
}

/// Says where it asks, never with what.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitHub")
            .field("base_url", &self.base.as_str())
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

/// Whether a pause is short enough, and somebody still waits at its end.
fn worth(wait: Duration, cx: &Context) -> bool {
    let in_time = cx.deadline().is_none_or(|deadline| Instant::now() + wait < deadline);
    wait <= LONGEST_PAUSE && in_time
}

fn pause(headers: &HeaderMap) -> Pause {
    if let Some(seconds) = number(headers, "retry-after") {
        return Pause::For(Duration::from_secs(seconds));
    }
    let used_up = number(headers, "x-ratelimit-remaining") == Some(0);
    let reset = number(headers, "x-ratelimit-reset").filter(|_| used_up);
    let reset = reset.and_then(|reset| Timestamp::from_second(i64::try_from(reset).ok()?).ok());
    reset.map_or(Pause::Unknown, Pause::Until)
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
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

fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

fn http(loopback: bool, timeout: Duration) -> Result<reqwest::Client> {
    let mut client = reqwest::Client::builder()
        .user_agent(concat!("toolwright-github/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT.min(timeout))
        .timeout(timeout)
        // They are followed by hand, where the token may go.
        .redirect(Policy::none());
    if loopback {
        // No proxy reaches what listens on this machine only.
        client = client.no_proxy();
    }
    client.build().map_err(|source| Error::Client { source })
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The base URL, and whether it is this machine's.
fn checked(base_url: &str) -> Result<(Url, bool)> {
    let refused = |fault| Err(Error::BaseUrl { fault });
    let Ok(url) = Url::parse(base_url) else {
        return refused("it is no address; one looks like https://github.example.com/api/v3");
    };
    if !matches!(url.scheme(), "http" | "https") {
        return refused("it does not begin with http:// or https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refused("it holds a name or a password; give the token with `with_token`");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return refused("it holds `?` or `#`; end it before them");
    }
    let loopback = is_loopback(&url);
    Ok((url, loopback))
}
