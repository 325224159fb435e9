use std::task::{Context, Poll};
use std::time::Duration;

use async_openai::Client;
use async_openai::error::OpenAIError;
use async_openai::middleware::{HttpRequestFactory, ReqwestService};
use futures_util::future::BoxFuture;
use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Response, StatusCode};
use serde_json::Value;
use tokio::time::timeout;
use tower::Service;
use tower::retry::Retry;

use crate::bounded::{self, Fault};
use crate::endpoint::Endpoint;
use crate::error::{Error, MOST_READ, Result, Said};
use crate::retry::Patience;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An HTTP client that gives up when the server is silent for too long.
pub(crate) fn http(endpoint: &Endpoint, silence: Duration) -> Result<reqwest::Client> {
    let mut client = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(silence)
        // A conversation is not sent to a place that nobody chose.
        .redirect(Policy::none());
    if endpoint.is_loopback() {
        // No proxy reaches what listens on this machine only.
        client = client.no_proxy();
    }
    client.build().map_err(|source| Error::Client { source })
}

/// async-openai's client on this crate's way of asking again and of failing.
///
/// With a `fault` it is one for a single stream, and there it is told what breaks it.
pub(crate) fn client(
    http: &reqwest::Client,
    endpoint: &Endpoint,
    silence: Duration,
    retries: u32,
    fault: Option<Fault>,
) -> Client<Endpoint> {
    let telling = Telling { inner: ReqwestService::new(http.clone()), silence, fault };
    Client::build(http.clone(), endpoint.clone())
        .with_http_service(Retry::new(Patience::new(retries), telling))
}

/// Turns every answer that is no success into an [`Error`] with all that is known.
///
/// async-openai would keep neither request id, nor `retry-after`, nor the body.
#[derive(Clone)]
struct Telling<S> {
    inner: S,
    silence: Duration,
    fault: Option<Fault>,
}

impl<S> Service<HttpRequestFactory> for Telling<S>
where
    S: Service<HttpRequestFactory, Response = Response, Error = OpenAIError>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Response>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let silence = self.silence;
        self.inner.poll_ready(cx).map_err(|error| Error::from_client(error, silence))
    }

    fn call(&mut self, request: HttpRequestFactory) -> Self::Future {
        let answer = self.inner.call(request);
        let (silence, fault) = (self.silence, self.fault.clone());
        Box::pin(async move {
            let response = answer.await.map_err(|error| Error::from_client(error, silence))?;
            // What is rare is boxed: it would make every call's future larger.
            if !response.status().is_success() {
                return Err(Box::pin(refusal(response, silence)).await);
            }
            match fault {
                Some(fault) => Box::pin(bounded::events(response, fault, silence)).await,
                None => bounded::whole(response),
            }
        })
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

/// How long the server asks to wait, where it says so in numbers.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name, unit: f64| {
        let wait: f64 = text(headers, name)?.trim().parse().ok()?;
        Duration::try_from_secs_f64(wait * unit).ok()
    };
    number("retry-after-ms", 0.001).or_else(|| number("retry-after", 1.0))
}
