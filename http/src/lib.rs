//! HTTP client for providers and toolsets. They share it, so that the same rules for secrets,
//! limits and retries apply to all of them.
//!
//! A provider writes its request and reads its reply. This crate does the rest. It checks the URL,
//! protects the API key, and sends and retries the request. It limits the size of a response, the
//! time without data and the total time, and it reads server-sent events.
//!
//! ```no_run
//! use std::time::Duration;
//! use toolwright_http::{
//!     Client, Deadline, Endpoint, HttpError, EventReader, HttpLimits, HttpRequest, RetryPolicy, Streamed,
//! };
//!
//! # async fn ask() -> Result<(), toolwright_http::HttpError> {
//! let endpoint = Endpoint::new("https://api.example.com/v1")?.with_bearer("key", "sk-made-up")?;
//! let client = Client::new(endpoint, HttpLimits::default())?;
//!
//! let url = client.endpoint().url(["chat", "completions"], &[])?;
//! let request = HttpRequest::post_json(url, r#"{"stream": true}"#);
//! let deadline = Deadline::after(Duration::from_secs(600));
//! let attempt = || async { client.send(&request, deadline).await?.or_refusal().await };
//! let response = RetryPolicy::default().run(deadline, attempt, HttpError::retry).await?;
//!
//! match response.events().await? {
//!     Streamed::Whole(body) => println!("{} bytes", body.len()),
//!     Streamed::Events(mut body) => {
//!         let mut events = EventReader::default();
//!         while let Some(bytes) = body.chunk().await? {
//!             events.push(bytes);
//!             while let Some(event) = events.next()? {
//!                 println!("{}", event.data);
//!             }
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Map
//!
//! | file | content |
//! |---|---|
//! | `endpoint.rs` | [`Endpoint`]: the URL check, joining, the loopback rule, headers that carry secrets |
//! | `client.rs` | [`Client`] and [`HttpRequest`]: one attempt, with limits; a caller's own `reqwest::Client` |
//! | `request_body.rs` | [`RequestBody`]: bytes that requests share |
//! | `retry.rs` | [`RetryPolicy`]: when to retry, and how long to wait first |
//! | `limits.rs` | [`HttpLimits`] for silence and size; [`Deadline`] of a call |
//! | `wait.rs` | waiting for the connection and for bytes, within the limits |
//! | `body.rs` | [`HttpResponse`]: bodies within limits, refusals, event streams |
//! | `sse.rs` | [`EventReader`]: server-sent events from bytes, without a socket |
//! | `headers.rs` | [`retry_after`], [`rate_limits`]: response headers that many servers share |
//! | `redact.rs` | [`Redactor`]: replaces secrets in plain and escaped form |
//! | `error.rs` | [`HttpError`]: kind, status, whether to retry |
//!
//! # What it guarantees
//!
//! - A secret is not sent over plain http to another machine, or to a URL outside the endpoint.
//!   [`Client::send`] checks the URL, and redirects are not followed. A caller's own
//!   `reqwest::Client` keeps its own redirect policy.
//! - An error never shows a secret of the endpoint, in plain or escaped form, if the secret has at
//!   least four bytes. The body of a successful response is not redacted. Use
//!   [`Endpoint::redactor`] before you put that body into an error.
//! - Every response ends: [`HttpLimits::body`], [`HttpLimits::silence`] and [`Deadline`] apply to
//!   whole bodies, event streams and error responses.
//! - A request is not retried once its response has begun, unless
//!   [`RetryPolicy::begun_answers`] allows it.
//!
//! # TLS
//!
//! The features `rustls` and `native-tls` turn on the corresponding features of reqwest. Without
//! either of them, only plain http works.

mod body;
mod client;
mod endpoint;
mod error;
mod headers;
mod limits;
mod redact;
mod request_body;
mod retry;
mod sse;
mod wait;

pub use body::{EventBody, HttpResponse, Streamed, begins_events};
pub use client::{Client, HttpRequest};
pub use endpoint::{Endpoint, shown_url};
pub use error::{ErrorKind, HttpError, Refusal, UrlFault, with_causes};
pub use headers::{RateLimit, rate_limits, retry_after};
pub use limits::{Deadline, HttpLimits};
pub use redact::Redactor;
pub use request_body::RequestBody;
pub use retry::{Retry, RetryPolicy, is_retryable_status};
pub use sse::{Event, EventReader};
// Public functions take and return types of reqwest.
pub use reqwest;
