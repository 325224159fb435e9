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
use tower::Service;
use tower::retry::Retry;

use crate::endpoint::Endpoint;
use crate::error::{Error, MOST_RAW, Result, Said, shortened};
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
pub(crate) fn client(
    http: &reqwest::Client,
    endpoint: &Endpoint,
    silence: Duration,
    retries: u32,
) -> Client<Endpoint> {
    let telling =
        Telling { inner: ReqwestService::new(http.clone()), endpoint: endpoint.clone(), silence };
    Client::build(http.clone(), endpoint.clone())
        .with_http_service(Retry::new(Patience::new(retries), telling))
}

/// Turns every answer that is no success into an [`Error`] with all that is known.
///
/// async-openai would keep neither request id, nor `retry-after`, nor the body.
#[derive(Clone)]
struct Telling<S> {
    inner: S,
    endpoint: Endpoint,
    silence: Duration,
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
        let (endpoint, silence) = (self.endpoint.clone(), self.silence);
        Box::pin(async move {
            let response = answer.await.map_err(|error| Error::from_client(error, silence))?;
            if response.status().is_success() {
                return Ok(response);
            }
            Err(refusal(response, &endpoint).await)
        })
    }
}

async fn refusal(mut response: Response, endpoint: &Endpoint) -> Error {
    let status = response.status();
    let headers = response.headers();
    let request_id = text(headers, "x-request-id").or_else(|| text(headers, "request-id"));
    let request_id = request_id.map(str::to_owned);
    let retry_after = retry_after(headers);
    let mut bytes = Vec::new();
    // A body that breaks off is no reason to forget the status.
    while let Ok(Some(chunk)) = response.chunk().await {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MOST_RAW {
            break;
        }
    }
    let body = String::from_utf8_lossy(&bytes).into_owned();
    let body = shortened(endpoint.without_key(body));
    let said = serde_json::from_str::<Value>(&body).map(|body| Said::of(&body));
    let (code, message) = match said {
        Ok(said) => (said.code, said.message),
        Err(_) => (None, None),
    };
    Error::Status {
        status: status.as_u16(),
        request_id,
        code,
        message: message.unwrap_or_else(|| in_words(status).to_owned()),
        retry_after,
        body,
    }
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
