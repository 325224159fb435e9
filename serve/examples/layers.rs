//! A page of another origin (CORS), and at most so many open requests and streams.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use tokio::sync::Semaphore;
use tower_http::cors::CorsLayer;

/// Adds both layers to an application. CORS is the outer one, so that the page can read a refusal.
pub(crate) fn with_layers(app: Router, page: HeaderValue, most_open: usize) -> Router {
    let headers = [AUTHORIZATION, CONTENT_TYPE, HeaderName::from_static("last-event-id")];
    let cors = CorsLayer::new()
        .allow_origin(page)
        .allow_methods([Method::GET, Method::POST])
        .allow_headers(headers);
    let room = Arc::new(Semaphore::new(most_open));
    app.layer(from_fn_with_state(room, limited)).layer(cors)
}

/// Refuses a request if too many are open. A stream is open until its last event.
async fn limited(State(room): State<Arc<Semaphore>>, request: Request, next: Next) -> Response {
    let Ok(permit) = room.try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "5")]).into_response();
    };
    let response = next.run(request).await;
    response.map(|body| {
        Body::from_stream(body.into_data_stream().map(move |piece| {
            let _held = &permit;
            piece
        }))
    })
}

fn main() {
    let app = with_layers(Router::new(), HeaderValue::from_static("https://shop.example"), 10_000);
    println!("{app:?}");
}
