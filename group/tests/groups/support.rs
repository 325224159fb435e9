//! The tools of toolcall's examples, and some that fail.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_group::{Handle, ToolGroup};
use toolwright_module::{Context, Effect, Error, Result, Signature, ToolCall};

/// Say hello to somebody.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct SayHello {
    /// Whom to greet.
    pub(crate) name: String,
}

impl Handle<i64, f64> for SayHello {
    async fn handle(self, _cx_in: &i64, _cx: &Context) -> Result<(String, f64)> {
        Ok((format!("Message delivered to {}.", self.name), 0.0))
    }
}

/// Get the weather of a city.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetWeather {
    pub(crate) city: String,
    pub(crate) state: State,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub(crate) enum State {
    #[serde(rename = "CA")]
    California,
    #[serde(rename = "NY")]
    NewYork,
    #[serde(rename = "TX")]
    Texas,
}

impl Handle<i64, f64> for GetWeather {
    async fn handle(self, cx_in: &i64, _cx: &Context) -> Result<(String, f64)> {
        if self.city == "San Francisco" {
            return Err(Error::retry("Weather is unavailable in San Francisco."));
        }
        let (city, state) = (self.city, serde_json::to_value(self.state)?);
        let state = state.as_str().unwrap_or_default();
        Ok((format!("It's currently 30 degrees in {city}, {state}."), *cx_in as f64 + 1.234))
    }

    fn effect() -> Effect {
        Effect::Read
    }
}

/// A comment that is overridden.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetStockPrice {
    pub(crate) ticker: String,
}

impl Handle<i64, f64> for GetStockPrice {
    fn name() -> Cow<'static, str> {
        "stock_price".into()
    }

    fn generate_name(type_name: &str) -> Cow<'static, str> {
        format!("generated_{type_name}").into()
    }

    fn description() -> Cow<'static, str> {
        "Say what a share costs.".into()
    }

    fn schema() -> Option<Value> {
        Some(stock_schema())
    }

    fn strict() -> bool {
        true
    }

    async fn handle(self, _cx_in: &i64, _cx: &Context) -> Result<(String, f64)> {
        Ok((format!("{} is currently trading at $100.", self.ticker), 100.0))
    }
}

/// A schema with parts that generated ones do not have: a title, a description, an unusual order.
pub(crate) fn stock_schema() -> Value {
    json!({
        "title": "Stock",
        "required": ["ticker"],
        "additionalProperties": false,
        "description": "The schema's own.",
        "properties": {"ticker": {"type": "string", "examples": ["AAPL"]}},
        "type": "object",
    })
}

/// Fail in the way that is asked for.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Fail {
    pub(crate) how: String,
}

impl Handle<i64, f64> for Fail {
    async fn handle(self, _cx_in: &i64, _cx: &Context) -> Result<(String, f64)> {
        match self.how.as_str() {
            "retry" => Err(Error::retry("Not like this.")),
            "refuse" => Err(Error::refuse("Never.")),
            "stop" => Err(Error::stop("the disk is full")),
            "panic" => panic!("out of range"),
            // An argument error of an inner call. It does not concern this call's arguments.
            "deeper" => {
                let contract = toolwright_module::Contract::of_input::<SayHello>("", "")?;
                contract.read::<SayHello>("{}")?;
                Ok((String::new(), 0.0))
            }
            _ => Err(std::io::Error::other("password=1234").into()),
        }
    }
}

/// Add two numbers.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Add {
    pub(crate) a: i64,
    pub(crate) b: i64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Sum {
    pub(crate) sum: i64,
}

impl Signature for Add {
    type Output = Sum;
}

pub(crate) fn add() -> impl toolwright_module::Module<Signature = Add> {
    toolwright_module::from_fn(async |Add { a, b }: Add| {
        if a == 13 {
            return Err(Error::refuse("Not thirteen."));
        }
        Ok(Sum { sum: a + b })
    })
}

/// A group with all tools.
pub(crate) fn group() -> ToolGroup<i64, f64> {
    ToolGroup::new()
        .handler::<GetWeather>()
        .and_then(|group| group.handler::<GetStockPrice>())
        .and_then(|group| group.handler::<SayHello>())
        .and_then(|group| group.handler::<Fail>())
        .and_then(|group| group.module(add()))
        .unwrap()
}

pub(crate) fn call(name: &str, arguments: &str) -> ToolCall {
    ToolCall::new(format!("call_of_{name}"), name, arguments)
}
