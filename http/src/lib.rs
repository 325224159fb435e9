//! HTTP for providers and toolsets: the parts that every one of them needs and that must
//! not differ between them.
//!
//! A provider writes its request and reads its reply. This crate does what is between:
//! it checks the address, protects the key, sends the request, retries it, limits the
//! answer in size, silence and total time, and reads server-sent events.
//!
//! ```no_run
//! use std::time::Duration;
//! use toolwright_http::{
//!     Client, Deadline, Endpoint, HttpError, EventReader, Limits, Request, RetryPolicy, Streamed,
//! };
//!
//! # async fn ask() -> Result<(), toolwright_http::HttpError> {
//! let endpoint = Endpoint::new("https://api.example.com/v1")?.with_bearer("key", "sk-made-up")?;
//! let client = Client::new(endpoint, Limits::default())?;
//!
//! let url = client.endpoint().url(["chat", "completions"], &[])?;
//! let request = Request::post_json(url, r#"{"stream": true}"#);
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
//! | `client.rs` | [`Client`] and [`Request`]: one attempt, with limits; a caller's own `reqwest::Client` |
//! | `retry.rs` | [`RetryPolicy`]: pauses, `retry-after`, deadlines |
//! | `limits.rs` | [`Limits`] of silence and size; [`Deadline`] of a call |
//! | `body.rs` | [`Response`]: bodies within limits, refusals, streams of events |
//! | `sse.rs` | [`EventReader`]: server-sent events out of bytes, without a socket |
//! | `headers.rs` | [`request_id`], [`retry_after`], [`rate_limits`] |
//! | `redact.rs` | [`Redactor`]: secrets replaced in every escaped form |
//! | `error.rs` | [`HttpError`]: kind, status, what to retry |
//!
//! # What it guarantees
//!
//! - No secret goes over plain http beyond this machine, or to another place than the
//!   endpoint: redirects are not followed and [`Client::send`] checks the URL. A
//!   `reqwest::Client` of the caller's own keeps its own redirect policy.
//! - No error shows a secret of the endpoint that has at least four bytes, in plain or
//!   escaped form. The body of a success is not changed: use [`Endpoint::redactor`] where it
//!   gets into an error.
//! - No answer is endless: [`Limits::body`], [`Limits::silence`] and [`Deadline`] hold for
//!   whole bodies, streams and refusals.
//! - No answer that has begun is asked for again, unless
//!   [`RetryPolicy::with_begun_answers`] allows it.
//!
//! # TLS
//!
//! The features `rustls` and `native-tls` turn on reqwest's. Without one of them, only
//! plain http works.

mod body;
mod client;
mod endpoint;
mod error;
mod headers;
mod limits;
mod redact;
mod retry;
mod sse;

pub use body::{EventBody, Response, Streamed};
pub use client::{Client, Request};
pub use endpoint::{Endpoint, is_loopback};
pub use error::{ErrorKind, HttpError, Refusal, UrlFault, with_causes};
pub use headers::{RateLimit, rate_limits, request_id, retry_after};
pub use limits::{Deadline, Limits};
pub use redact::Redactor;
pub use retry::{Retry, RetryPolicy, is_retryable_status};
pub use sse::{Event, EventReader};
// Their types are in the interface.
pub use reqwest;
