//! Code that the programs without `async` share: prompts, types, tools and printing.
#![allow(dead_code, reason = "no program needs all of it")]

use std::borrow::Cow;

use async_openai::config::OpenAIConfig;
use async_openai::types::chat::{CreateChatCompletionRequest, CreateChatCompletionResponse};
use async_openai::types::responses::{CreateResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use toolwright_group::async_openai::ReplyExt;
use toolwright_group::blocking::{Context, Error, Handle, Result, ToolGroup};

pub(crate) const MODEL: &str = "gpt-4.1";

pub(crate) const OUTPUT_PROMPT: &str = r#"Name the entities of this text: "John and Kate ask whether 100 degrees are usual in San Francisco." In your first answer, by mistake, write the number as a JSON number and not as a text. Once you are told of it, do it right."#;
pub(crate) const TOOL_PROMPT: &str = "Say hello to John and to Kate.";
pub(crate) const GROUP_PROMPT: &str =
    "How is the weather in San Francisco, and what does a share of Apple cost?";

/// Blocking form of async-openai's client, which has only an async one.
pub(crate) struct Client {
    runtime: Runtime,
    client: async_openai::Client<OpenAIConfig>,
}

impl Client {
    /// Creates a client for the server in `OPENAI_BASE_URL`, or for OpenAI, with the key in
    /// `OPENAI_API_KEY`.
    pub(crate) fn new() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, client: async_openai::Client::new() })
    }

    pub(crate) fn chat(
        &self,
        request: CreateChatCompletionRequest,
    ) -> Result<CreateChatCompletionResponse> {
        Ok(self.runtime.block_on(self.client.chat().create(request))?)
    }

    pub(crate) fn respond(&self, request: CreateResponse) -> Result<Response> {
        Ok(self.runtime.block_on(self.client.responses().create(request))?)
    }
}

/// Entities in a text.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct EntitiesResponse {
    pub(crate) people: Vec<String>,
    pub(crate) places: Vec<String>,
    /// Numbers, as text.
    pub(crate) numbers: Vec<String>,
}

/// Entities in a text, and no other fields.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StrictEntitiesResponse {
    pub(crate) people: Vec<String>,
    pub(crate) places: Vec<String>,
    /// Numbers, as text.
    pub(crate) numbers: Vec<String>,
}

/// Say hello to somebody.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct SayHello {
    name: String,
}

impl Handle for SayHello {
    fn handle(self, (): &(), _cx: &Context) -> Result<(String, ())> {
        Ok((format!("Message delivered to {}.", self.name), ()))
    }
}

/// Say how the weather is in a city.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetWeather {
    city: String,
    state: State,
}

#[derive(Debug, Deserialize, JsonSchema)]
enum State {
    CA,
    NY,
    TX,
}

impl Handle<i64, f64> for GetWeather {
    fn handle(self, _asked: &i64, _cx: &Context) -> Result<(String, f64)> {
        if self.city == "San Francisco" {
            return Err(Error::retry("The station there is closed. Try another city near it."));
        }
        let Self { city, state } = self;
        Ok((format!("It's currently 30 degrees in {city}, {state:?}."), 1.234))
    }
}

/// A tool that sets its own name, description, schema and strictness.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct StockPrice {
    ticker: String,
}

impl Handle<i64, f64> for StockPrice {
    fn name() -> Cow<'static, str> {
        "get_stock_price".into()
    }

    fn description() -> Cow<'static, str> {
        "Look up what a share costs.".into()
    }

    fn schema() -> Option<Value> {
        Some(json!({
            "type": "object",
            "properties": {"ticker": {"type": "string", "description": "Such as AAPL."}},
            "required": ["ticker"],
            "additionalProperties": false,
        }))
    }

    fn strict() -> bool {
        true
    }

    fn handle(self, asked: &i64, _cx: &Context) -> Result<(String, f64)> {
        Ok((format!("{} is currently trading at ${asked}.", self.ticker), *asked as f64))
    }
}

/// Creates the group. Its tools get an `i64` from the program, and return an `f64` with each text.
pub(crate) fn group() -> Result<ToolGroup<i64, f64>> {
    Ok(ToolGroup::new().handler::<GetWeather>()?.handler::<StockPrice>()?)
}

/// Prints the text and the tool calls of a reply.
pub(crate) fn show(reply: &impl ReplyExt) {
    if let Some(text) = reply.text() {
        println!("model: {text}");
    }
    for call in reply.calls() {
        println!("model calls {} {}", call.name, call.arguments);
    }
}
