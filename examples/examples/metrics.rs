//! The metrics of agents, for Prometheus: tokens, money and durations by model, tool and ending.
//!
//! ```text
//! cargo run -p toolwright-examples --example metrics -- 127.0.0.1:9464
//! curl http://127.0.0.1:9464/metrics
//! ```
//!
//! The model is a script, so the program needs no key. It runs an agent three times, and then serves the
//! metrics until it is ended.

use opentelemetry_sdk::metrics::{Aggregation, Instrument, SdkMeterProvider, Stream};
use prometheus::{Registry, TextEncoder};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use toolwright::module::budget::{Ledger, Price};
use toolwright::module::{Reply, ToolCall, model::Usage};
use toolwright::prelude::*;
use toolwright::testing::Scripted;
use toolwright_cli::say;
use tracing_opentelemetry::MetricsLayer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Say how the weather will be.
#[tool(effect = Read)]
fn get_weather(
    /// City name, in English.
    city: &str,
) -> Result<String> {
    match city {
        "Oslo" => Ok("Rain.".to_owned()),
        _ => Err(Error::retry("only the weather in Oslo is known")),
    }
}

/// Gives the instruments the units and buckets of the conventions. `tracing` events have neither.
fn view(instrument: &Instrument) -> Option<Stream> {
    let name = instrument.name();
    let (unit, first, factor) = match name {
        "gen_ai.client.token.usage" => ("{token}", 1.0, 4.0),
        name if name.ends_with(".duration") => ("s", 0.01, 2.0),
        _ => return None,
    };
    let boundaries = (0..14).map(|nth| first * f64::powi(factor, nth)).collect();
    let buckets = Aggregation::ExplicitBucketHistogram { boundaries, record_min_max: true };
    Stream::builder().with_unit(unit).with_aggregation(buckets).build().ok()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // These lines are all that a program needs for its metrics. Another reader instead of the exporter
    // sends them to a collector.
    let registry = Registry::new();
    let exporter = opentelemetry_prometheus::exporter().with_registry(registry.clone());
    let exporter = exporter.scope_info_enabled(false).build()?;
    let meters = SdkMeterProvider::builder().with_reader(exporter).with_view(view).build();
    tracing_subscriber::registry().with(MetricsLayer::new(meters)).init();

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9464".to_owned());
    let listener = TcpListener::bind(address).await?;
    let cities = [("Oslo", "It rains."), ("Rome", "I do not know."), ("Oslo", "Still rain.")];
    for (city, answer) in cities {
        let prices = [("scripted", Price::per_million(0.4, 1.6))];
        let cx = Context::default().with_ledger(Ledger::default().with_prices(prices));
        let finished = forecaster(city, answer)?.run("How is the weather?", &cx).await?;
        say(&format!("{city}: {}", finished.answer));
    }
    say(&format!("http://{}/metrics", listener.local_addr()?));
    loop {
        let (stream, _) = listener.accept().await?;
        let (registry, metrics) = (registry.clone(), TextEncoder::new());
        tokio::spawn(async move {
            // A reader that goes away is no error of the program.
            let _ = answer(stream, metrics.encode_to_string(&registry.gather())).await;
        });
    }
}

/// Answers one request.
async fn answer(stream: TcpStream, metrics: prometheus::Result<String>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut request, mut line) = (String::new(), String::new());
    stream.read_line(&mut request).await?;
    while stream.read_line(&mut line).await? > 2 {
        line.clear();
    }
    let (status, body) = match (request.starts_with("GET /metrics "), metrics) {
        (true, Ok(metrics)) => ("200 OK", metrics),
        (true, Err(error)) => ("500 Internal Server Error", error.to_string()),
        (false, _) => ("404 Not Found", "the metrics are at /metrics\n".to_owned()),
    };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.get_mut().write_all(answer.as_bytes()).await?;
    stream.get_mut().shutdown().await
}

/// An agent whose model asks for the weather in a city, and then answers.
fn forecaster(city: &str, answer: &str) -> Result<Agent> {
    let arguments = format!(r#"{{"city": "{city}"}}"#);
    let replies = [
        Reply::calls([ToolCall::new("1", "get_weather", arguments)])
            .with_usage(Usage::new(200, 20)),
        Reply::text(answer).with_usage(Usage::new(250, 10)),
    ];
    let model = Scripted::replies(replies.map(|reply| reply.with_model("scripted-2026")));
    Ok(Agent::new(model, [GetWeather::tool()?])?.with_name("forecaster"))
}
