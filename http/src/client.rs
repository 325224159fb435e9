//! One attempt: a [`HttpRequest`] goes in, a [`HttpResponse`] or an [`HttpError`] comes out.

use std::fmt;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Method, Url};

use crate::body::HttpResponse;
use crate::endpoint::Endpoint;
use crate::error::{ErrorKind, HttpError, Result, UrlFault};
use crate::limits::{Deadline, HttpLimits};
use crate::request_body::RequestBody;
use crate::wait::in_time;

/// A request that can be sent more than once.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<RequestBody>,
}

impl HttpRequest {
    /// Creates a `GET` request.
    #[must_use]
    pub fn get(url: Url) -> Self {
        Self { method: Method::GET, url, headers: HeaderMap::new(), body: None }
    }

    /// Creates a `POST` request with a JSON body.
    #[must_use]
    pub fn post_json(url: Url, body: impl Into<RequestBody>) -> Self {
        Self { method: Method::POST, url, headers: HeaderMap::new(), body: Some(body.into()) }
    }

    /// Sets a header. It replaces a header of the endpoint with the same name.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}

/// HTTP client for one [`Endpoint`].
///
/// [`send`](Self::send) makes one attempt; a [`RetryPolicy`](crate::RetryPolicy) repeats it.
/// The client does not follow redirects, because a secret or a conversation must not go to a
/// server that the caller did not choose. It does not use a proxy for a server on this
/// machine. Cloning is cheap and shares the connections. It needs the tokio runtime.
///
/// ```no_run
/// use std::time::Duration;
/// use toolwright_http::{Client, Deadline, Endpoint, HttpError, HttpLimits, HttpRequest, RetryPolicy};
///
/// # async fn ask() -> Result<(), toolwright_http::HttpError> {
/// let endpoint = Endpoint::new("https://api.example.com/v1")?.with_bearer("key", "sk-made-up")?;
/// let client = Client::new(endpoint, HttpLimits::default())?;
/// let request = HttpRequest::get(client.endpoint().url(["models"], &[])?);
/// let deadline = Deadline::after(Duration::from_secs(60));
/// let attempt = || async { client.send(&request, deadline).await?.or_refusal().await };
/// let response = RetryPolicy::default().run(deadline, attempt, HttpError::retry).await?;
/// println!("{} bytes", response.text().await?.len());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    is_own: bool,
    endpoint: Endpoint,
    limits: HttpLimits,
}

impl Client {
    /// Creates a client for an endpoint.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Client`] if the system's certificates cannot be read.
    pub fn new(endpoint: Endpoint, limits: HttpLimits) -> Result<Self> {
        let http = http(&endpoint, &limits)?;
        Ok(Self { http, is_own: true, endpoint, limits })
    }

    /// Sets the `reqwest::Client` to use, for proxies, certificates or a shared pool.
    /// Default: a client that this crate creates.
    ///
    /// The redirect policy, the proxies and the connect timeout of that client then apply.
    /// Turn redirects off unless every server that they lead to may get the request.
    /// The limits of silence, deadline and size still hold.
    #[must_use]
    pub fn with_http(self, http: reqwest::Client) -> Self {
        Self { http, is_own: false, ..self }
    }

    /// Sets the endpoint. The connections are kept if the server is the same.
    ///
    /// # Errors
    ///
    /// The error of [`new`](Self::new).
    pub fn with_endpoint(self, endpoint: Endpoint) -> Result<Self> {
        let same = self.endpoint.as_url().origin() == endpoint.as_url().origin();
        let http = match same || !self.is_own {
            true => self.http,
            false => http(&endpoint, &self.limits)?,
        };
        Ok(Self { http, endpoint, ..self })
    }

    /// Sets the limits. The connections are kept unless [`HttpLimits::connect`] changes.
    ///
    /// # Errors
    ///
    /// The error of [`new`](Self::new).
    pub fn with_limits(self, limits: HttpLimits) -> Result<Self> {
        let http = match self.limits.connect == limits.connect || !self.is_own {
            true => self.http,
            false => http(&self.endpoint, &limits)?,
        };
        Ok(Self { http, limits, ..self })
    }

    /// Returns the endpoint.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> &HttpLimits {
        &self.limits
    }

    /// Sends a request once and returns the response.
    ///
    /// The response may have any status; [`HttpResponse::or_refusal`] turns one that is not a
    /// success into an error.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Url`] if the URL is not within the endpoint. [`ErrorKind::Connect`],
    /// [`ErrorKind::Transport`], [`ErrorKind::Silent`] or [`ErrorKind::TooSlow`] if no
    /// response begins in time.
    pub async fn send(&self, request: &HttpRequest, deadline: Deadline) -> Result<HttpResponse> {
        if !self.endpoint.contains(&request.url) {
            return Err(ErrorKind::Url(UrlFault::Outside).into());
        }
        let answer = in_time(self.execute(request), &self.limits, deadline).await?;
        let redactor = self.endpoint.redactor();
        let answer = answer.map_err(|error| {
            let is_silence = error.is_timeout() && !error.is_connect();
            match is_silence {
                // Only a client of the caller's own has this timeout.
                true => ErrorKind::Silent { after: self.limits.silence }.into(),
                false => HttpError::from_reqwest(error, Some(&self.endpoint), redactor),
            }
        })?;
        Ok(HttpResponse::new(answer, self.limits, deadline, redactor.clone()))
    }

    /// Not `async`, so that the future of each call has no room for the request of `reqwest`.
    fn execute(
        &self,
        HttpRequest { method, url, headers, body }: &HttpRequest,
    ) -> impl Future<Output = reqwest::Result<reqwest::Response>> + use<> {
        // `reqwest::RequestBuilder` would copy each header once more.
        let mut sent = reqwest::Request::new(method.clone(), url.clone());
        *sent.headers_mut() = self.endpoint.headers().clone();
        for (name, value) in headers {
            sent.headers_mut().insert(name.clone(), value.clone());
        }
        if let Some(body) = body {
            let json = HeaderValue::from_static("application/json");
            sent.headers_mut().entry(CONTENT_TYPE).or_insert(json);
            *sent.body_mut() = Some(body.clone().into());
        }
        self.http.execute(sent)
    }
}

/// Shows the endpoint and the limits, without secrets.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("endpoint", &self.endpoint)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

fn http(endpoint: &Endpoint, limits: &HttpLimits) -> Result<reqwest::Client> {
    let mut client = reqwest::Client::builder()
        .connect_timeout(limits.connect)
        .redirect(Policy::none())
        // Another crate may turn these features of `reqwest` on. A size limit is for the bytes that
        // arrive, and a reply that is compressed without a request for it has its own error.
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate();
    if endpoint.is_loopback() {
        // A proxy cannot reach a server that listens on this machine only.
        client = client.no_proxy();
    }
    client.build().map_err(|source| HttpError::new(ErrorKind::Client, source))
}
