//! The program in `docs/serve.md` with CORS and a limit of open streams.

use http::HeaderValue;
use serde_json::json;
use tokio::net::TcpListener;
use toolwright_module::model::Reply;
use toolwright_orchestrator::Agent;
use toolwright_serve::{Home, Serve};

use crate::support::Slow;

#[path = "../examples/layers.rs"]
#[allow(dead_code, reason = "its `main` is not called here")]
mod program;

#[tokio::test]
async fn a_page_of_another_origin_may_read_and_a_third_stream_is_refused() {
    let model = Slow::new(|_| Ok(Reply::text("Hello.")));
    let words = model.words.clone();
    let service = Serve::new(Home::memory(), Agent::new(model, []).unwrap()).start();
    let page = HeaderValue::from_static("https://shop.example");
    let app = program::with_layers(service.router(), page, 2);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    let client = reqwest::Client::new();
    let say = |conversation: &str| {
        let body = json!({"conversation": conversation, "text": "Hi"});
        let request = client.post(format!("{base}/messages")).json(&body);
        request.header("origin", "https://shop.example").send()
    };
    let (one, two) = (say("1").await.unwrap(), say("2").await.unwrap());
    assert_eq!((one.status(), two.status()), (http::StatusCode::OK, http::StatusCode::OK));
    let third = say("3").await.unwrap();
    assert_eq!(third.status(), http::StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(third.headers()["access-control-allow-origin"], "https://shop.example");
    assert_eq!(third.headers()["retry-after"], "5");
    // There is room again after a stream.
    words.add_permits(100);
    one.text().await.unwrap();
    assert_eq!(say("3").await.unwrap().status(), http::StatusCode::OK);
}
