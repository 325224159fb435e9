use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::redirect::Policy;
use reqwest::{Response, StatusCode};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::endpoint::Endpoint;
use crate::error::{Error, MOST_READ, Result, Said};
use crate::retry;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An HTTP client that gives up when the server is silent for too long.
pub(crate) fn http(endpoint: &Endpoint, silence: Duration) -> Result<reqwest::Client> {
    let mut client = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(silence)
        // Neither a conversation nor a key is sent to a place that nobody chose.
        .redirect(Policy::none());
    if endpoint.is_loopback() {
        // No proxy reaches what listens on this machine only.
        client = client.no_proxy();
    }
    client.build().map_err(|source| Error::Client { source })
}

/// How requests are sent.
pub(crate) struct Line<'a> {
    pub(crate) http: &'a reqwest::Client,
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) silence: Duration,
    pub(crate) retries: u32,
}

impl Line<'_> {
    /// Sends a request, again where that may help, and returns the response of a success.
    ///
    /// async-openai would keep neither request id, nor `retry-after`, nor the body of an
    /// error, and only the text of what breaks a stream.
    pub(crate) async fn post(&self, path: &str, body: Bytes) -> Result<Response> {
        let url = self.endpoint.url(path);
        let mut used = 0;
        loop {
            let request = self.http.post(&url).headers(self.endpoint.headers());
            let request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
            let error = match request.send().await {
                Ok(response) if response.status().is_success() => return Ok(response),
                // What is rare is boxed: it would make every call's future larger.
                Ok(response) => Box::pin(refusal(response, self.silence)).await,
                Err(error) => Error::from_reqwest(error, self.silence),
            };
            match retry::wait(&error, used).filter(|_| used < self.retries) {
                Some(wait) => sleep(wait).await,
                None => return Err(error),
            }
            used += 1;
        }
    }
}

async fn refusal(mut response: Response, silence: Duration) -> Error {
    let status = response.status();
    let headers = response.headers();
    let request_id = text(headers, "x-request-id").or_else(|| text(headers, "request-id"));
    let request_id = request_id.map(str::to_owned);
    let retry_after = retry_after(headers);
    let elsewhere = status.is_redirection().then(|| elsewhere(&response)).flatten();
    let mut bytes = Vec::new();
    let reading = async {
        // A body that breaks off or drips is no reason to forget the status.
        while let Ok(Some(chunk)) = response.chunk().await {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MOST_READ {
                break;
            }
        }
    };
    let _ = timeout(silence, reading).await;
    let body = String::from_utf8_lossy(&bytes).into_owned();
    let said = serde_json::from_str::<Value>(&body).map(|body| Said::of(&body));
    let (code, message) = match said {
        Ok(said) => (said.code, said.message),
        Err(_) => (None, None),
    };
    let mut message = message.unwrap_or_else(|| in_words(status).to_owned());
    if let Some(address) = elsewhere {
        message += &format!(" to {address}");
    }
    Error::Status { status: status.as_u16(), request_id, code, message, retry_after, body }
}

/// Where a redirect leads: a base URL, if it leads to the same API.
fn elsewhere(response: &Response) -> Option<String> {
    let mut url = response.url().join(text(response.headers(), "location")?).ok()?;
    url.set_query(None);
    url.set_fragment(None);
    // It fails where an address has no place for them.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    let address = url.as_str();
    let base =
        ["/chat/completions", "/responses"].iter().find_map(|path| address.strip_suffix(path));
    Some(base.unwrap_or(address).to_owned())
}

/// What to say where the body says nothing, as with a proxy's page.
fn in_words(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or("no reason given")
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// How long the server asks to wait, in numbers or until a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name, unit: f64| {
        let wait: f64 = text(headers, name)?.trim().parse().ok()?;
        Duration::try_from_secs_f64(wait * unit).ok()
    };
    let date = || {
        let date = httpdate::parse_http_date(text(headers, "retry-after")?.trim()).ok()?;
        // What is over needs no wait.
        Some(date.duration_since(SystemTime::now()).unwrap_or_default())
    };
    number("retry-after-ms", 0.001).or_else(|| number("retry-after", 1.0)).or_else(date)
}
