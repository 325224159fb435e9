//! The spans of a run and of an eval, sent to a server that speaks OTLP, such as Phoenix, Jaeger or a
//! collector.
//!
//! The models are scripts, so the program needs no key. OpenTelemetry's variable
//! `OTEL_EXPORTER_OTLP_ENDPOINT` names the server. The argument is the id of the run.

use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use toolwright::evals::{Case, Eval, graders};
use toolwright::module::budget::{Budget, Ledger, Price};
use toolwright::module::model::{BoxFuture, Capabilities, Usage};
use toolwright::module::{Dialect, LanguageModel, Reply, Request, ToolCall};
use toolwright::testing::Scripted;
use toolwright::{Tool, prelude::*};
use toolwright_cli::say;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

const TASK: &str = "Plan a Monday in Oslo: the weather, a museum, and a table for two.";

/// Say how the weather will be.
#[tool(effect = Read)]
fn get_weather(
    /// City name, in English.
    city: &str,
) -> String {
    format!("Rain in {city}.")
}

/// Find the museums that are open on a day.
#[tool(effect = Read)]
fn find_museums(
    /// City name, in English.
    city: &str,
    /// Day of the week.
    day: &str,
) -> Vec<String> {
    vec![format!("The museum of ships in {city}, open on {day} from 10 to 18")]
}

/// Book a table.
#[tool]
fn book_table(
    /// Number of guests.
    guests: u8,
    /// Hour of the day, from 0 to 23.
    hour: u8,
) -> Result<String> {
    match hour {
        18..=22 => Ok(format!("A table for {guests} at {hour}")),
        _ => Err(Error::retry(format!("closed at {hour}; the kitchen is open from 18 to 22"))),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    // These four lines are all that a program needs to send its spans.
    let exporter = SpanExporter::builder().with_http().build()?;
    let resource = Resource::builder().with_service_name("concierge").build();
    let spans = SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter);
    let spans = spans.build();
    let layer = tracing_opentelemetry::layer().with_tracer(spans.tracer("toolwright"));
    tracing_subscriber::registry().with(layer).init();

    let run = std::env::args().nth(1).unwrap_or_else(|| "monday-in-oslo".to_owned());
    let prices =
        [("gpt-4.1", Price::per_million(2.0, 8.0)), ("gpt-4.1-mini", Price::per_million(0.4, 1.6))];
    // Without `with_captured_content` the spans have no texts, only names and numbers.
    let cx = Context::default()
        .with_run(run.clone(), [("tenant", "acme")])
        .with_ledger(Ledger::new(Budget::default()).with_prices(prices))
        .with_captured_content(true);

    let answered = concierge()?.run(TASK, &cx).await;
    let graded = Eval::agents(format!("mondays of {run}"), async || concierge())
        .with_cases([Case::new("Oslo", TASK)])
        .with_grader("dines", graders::contains("two at 19"))
        .with_grader("in two rounds", graders::rounds_at_most(2))
        .run(&cx)
        .await;
    // Spans are sent in batches. This sends the last one.
    spans.shutdown()?;
    let finished = answered?;
    say(&finished.answer);
    say(graded?.to_string().trim_end());
    say(&format!("{} tokens in", finished.spent.usage.input_tokens));
    Ok(())
}

/// An agent with two tools and an agent below it.
fn concierge() -> Result<Agent> {
    let guide = Agent::new(
        Played::new(
            "gpt-4.1-mini",
            [
                (210, 24, Ok(&[("find_museums", r#"{"city": "Oslo", "day": "Monday"}"#)])),
                (265, 31, Err("The museum of ships is open until 18.")),
            ],
        ),
        [FindMuseums::tool()?],
    )?;
    let guide = Tool::new(guide)?.named("ask_guide")?.described("Ask a guide who knows the city.");
    let model = Played::new(
        "gpt-4.1",
        [
            (
                480,
                52,
                Ok(&[
                    // The quotes are wrong, so the arguments have to be repaired.
                    ("get_weather", "{'city': 'Oslo',}"),
                    ("ask_guide", r#"{"task": "Which museum in Oslo is open on Monday?"}"#),
                ]),
            ),
            // The restaurant is closed at that hour, so the call fails.
            (590, 22, Ok(&[("book_table", r#"{"guests": 2, "hour": 15}"#)])),
            (655, 22, Ok(&[("book_table", r#"{"guests": 2, "hour": 19}"#)])),
            (700, 41, Err("It rains. See the museum of ships until 18, and dine for two at 19.")),
        ],
    );
    Ok(Agent::new(model, [GetWeather::tool()?, guide, BookTable::tool()?])?.with_name("concierge"))
}

/// The tokens read and written, and the calls or the text.
type Line = (u64, u64, Result<&'static [(&'static str, &'static str)], &'static str>);

/// A model that reads its replies from a script, as slowly as a model writes.
struct Played {
    name: &'static str,
    script: Box<dyn LanguageModel>,
}

impl Played {
    fn new<const N: usize>(name: &'static str, script: [Line; N]) -> Self {
        let replies = script.into_iter().enumerate().map(|(line, (input, output, said))| {
            let reply = match said {
                Err(text) => Reply::text(text),
                Ok(calls) => {
                    Reply::calls(calls.iter().enumerate().map(|(nth, (tool, arguments))| {
                        ToolCall::new(format!("call_{line}_{nth}"), *tool, *arguments)
                    }))
                }
            };
            reply.with_usage(Usage::new(input, output)).with_model(format!("{name}-2026"))
        });
        Self { name, script: Box::new(Scripted::replies(replies)) }
    }
}

impl LanguageModel for Played {
    fn name(&self) -> &str {
        self.name
    }

    fn provider(&self) -> &str {
        "openai"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::OpenAiStrict)
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.script.generate(request).await
        })
    }
}
