//! Tools: contracts, arguments, outputs and panics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::message::{Image, ToolResult};
use toolwright_module::{
    Context, Contract, Dialect, Effect, Error, Module, Request, Result, Signature, Tool, ToolCall,
    ToolOutput, from_fn,
};

use crate::support::{Count, DetectLanguage};

/// Say how the weather will be.
#[derive(Serialize, Deserialize, JsonSchema)]
struct GetWeather {
    /// City name, in English.
    city: String,
    /// Days from today.
    #[serde(default)]
    days: u8,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Weather {
    celsius: f64,
    rain: bool,
}

impl Signature for GetWeather {
    type Output = Weather;
}

fn get_weather() -> Tool {
    let weather = |_: GetWeather| async { Ok(Weather { celsius: 21.5, rain: true }) };
    Tool::new(from_fn(weather).with_effect(Effect::Read)).unwrap()
}

async fn call(tool: &Tool, arguments: &str) -> Result<ToolOutput> {
    tool.call(arguments, &Context::default()).await
}

#[test]
fn a_tool_has_the_contract_of_its_modules_signature() {
    let tool = get_weather();
    assert_eq!(**tool.contract(), Contract::of::<GetWeather>().unwrap());
    assert_eq!(tool.contract().name(), GetWeather::name());
    assert_eq!(tool.contract().description(), GetWeather::description());
    assert_eq!(tool.effect(), Effect::Read);
}

/// A contract has one type, whether it is of a type, a tool, a request, a store or a server.
#[test]
fn a_signature_a_tool_and_a_request_have_the_same_contract_type() {
    fn shown(contract: &Contract) -> String {
        contract.tool(Dialect::Mcp).unwrap().to_string()
    }
    let (signature, tool) = (Contract::of::<GetWeather>().unwrap(), get_weather());
    let request = Request::new([]).with_tools([Arc::clone(tool.contract())]);
    // The tool shares the contract, so both use one cache of lowered schemas.
    assert!(Arc::ptr_eq(&request.tools[0], tool.contract()));
    let text = serde_json::to_string(tool.contract()).unwrap();
    let stored: Contract = serde_json::from_str(&text).unwrap();
    let done = async |_, _| Ok(ToolOutput::text_only(""));
    let dynamic = Tool::dynamic(stored.clone(), Effect::Read, done);
    for contract in [&signature, &stored, &request.tools[0], dynamic.contract()] {
        assert_eq!(contract, &**tool.contract());
        assert_eq!(contract.fingerprint(), signature.fingerprint());
        assert_eq!(shown(contract), shown(&signature));
    }
}

#[test]
fn a_tool_serializes_in_the_form_of_mcp() {
    let tool = get_weather().contract().tool(Dialect::Mcp).unwrap();
    insta::assert_json_snapshot!(tool);
}

#[tokio::test]
async fn name_description_and_effect_of_a_tool_can_be_replaced() {
    let tool = get_weather()
        .named("forecast")
        .unwrap()
        .described("Look into the sky.")
        .with_effect(Effect::Irreversible);
    assert_eq!(tool.contract().name(), "forecast");
    assert_eq!(tool.contract().description(), "Look into the sky.");
    assert_eq!(tool.effect(), Effect::Irreversible);
    assert_eq!(tool.contract().input(), get_weather().contract().input());

    let output = call(&tool, r#"{"city": "Bonn"}"#).await.unwrap();
    assert_eq!(output.text, r#"{"celsius":21.5,"rain":true}"#);
    // Faults have the new name of the tool.
    let error = call(&tool, "{}").await.unwrap_err();
    insta::assert_snapshot!(error.for_model(), @"input of `forecast` does not fit: $.city: this field is missing; expected a string");
}

#[tokio::test]
async fn a_restricted_field_accepts_only_registered_names() {
    let tool = get_weather().allowing("city", ["Bonn", "Oslo"]).unwrap();
    assert_eq!(tool.contract().input()["properties"]["city"]["enum"], json!(["Bonn", "Oslo"]));
    assert!(call(&tool, r#"{"city": "Bonn"}"#).await.is_ok());
    let error = call(&tool, r#"{"city": "Rome"}"#).await.unwrap_err();
    insta::assert_snapshot!(error.for_model(), @r#"input of `get_weather` does not fit: $.city: expected one of `Bonn`, `Oslo`, got the string "Rome""#);
    assert!(get_weather().allowing("days", ["1"]).is_err());
}

#[test]
fn an_invalid_tool_name_is_rejected() {
    for name in ["", "two words", "straße"] {
        assert!(get_weather().named(name).is_err(), "{name}");
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_never_reach_the_module() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let tool = Tool::new(from_fn(move |_: GetWeather| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(Weather { celsius: 0.0, rain: false }) }
    }))
    .unwrap();

    let mut reported = Vec::new();
    for arguments in [
        "",
        "not JSON",
        "[]",
        r#"{"city": 7}"#,
        r#"{"city": "Bonn", "days": -1}"#,
        r#"{"city": "Bonn""#,
    ] {
        let error = call(&tool, arguments).await.unwrap_err();
        assert_eq!(error.stage(), Stage::Arguments);
        assert_eq!(error.audience(), Audience::ModelMayRetry);
        reported.push(format!("{arguments}\n  {}", error.for_model()));
    }
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    insta::assert_snapshot!(reported.join("\n"));

    call(&tool, r#"{"city": "Bonn"}"#).await.unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn the_user_sees_wrong_arguments_and_no_sentence_twice() {
    let error = call(&get_weather(), r#"{"city": 7}"#).await.unwrap_err();
    assert_eq!(error.raw(), Some(r#"{"city": 7}"#));
    insta::assert_snapshot!(format!("{error:#}"), @r#"
    input of `get_weather` does not fit: $.city: expected a string, got the number 7
    stage: arguments
    reply: {"city": 7}
    "#);
    let failure = error.into_std();
    assert!(std::error::Error::source(&failure).is_none());
}

#[tokio::test]
async fn a_signature_error_inside_a_module_is_not_an_argument_error() {
    let tool = Tool::new(from_fn(async |_: DetectLanguage| {
        let contract = Contract::of::<GetWeather>()?;
        let inner: GetWeather = contract.read("{}")?;
        Ok(inner.city)
    }))
    .unwrap();
    let error = call(&tool, r#"{"text": "x"}"#).await.unwrap_err();
    assert_eq!((error.stage(), error.audience()), (Stage::Module, Audience::User));
}

struct Panics(&'static str);

impl Module for Panics {
    type Signature = Count;

    async fn call(&self, _: Count, _: &Context) -> Result<u64> {
        match self.0 {
            "text" => panic!("the shelf fell"),
            "formatted" => panic!("the shelf {} fell", 3),
            "after waiting" => {
                tokio::task::yield_now().await;
                panic!("the shelf fell late")
            }
            _ => std::panic::panic_any(42_u8),
        }
    }
}

/// Calls a tool that panics, and returns the error. The panic hook is not changed.
async fn panicked(tool: Tool) -> String {
    let error = call(&tool, "{}").await.unwrap_err();
    assert_eq!(error.stage(), Stage::Panic);
    assert_eq!(error.audience(), Audience::User);
    assert!(!error.for_model().contains("shelf"));
    error.to_string()
}

#[tokio::test]
async fn a_panic_is_an_error_of_its_call() {
    let mut reported = Vec::new();
    for how in ["text", "formatted", "after waiting", "no text"] {
        reported.push(panicked(Tool::new(Panics(how)).unwrap()).await);
    }
    let before_the_future = from_fn(|_: Count| {
        assert!(std::hint::black_box(false), "the shelf fell early");
        async { Ok(1) }
    });
    reported.push(panicked(Tool::new(before_the_future).unwrap()).await);

    let contract = Contract::of::<Count>().unwrap();
    let dynamic = Tool::dynamic(contract, Effect::Read, |_, _| {
        assert!(std::hint::black_box(false), "the shelf was dynamic");
        async { Ok(ToolOutput::text_only("")) }
    });
    reported.push(panicked(dynamic).await);
    insta::assert_debug_snapshot!(reported, @r#"
    [
        "the tool panicked: the shelf fell",
        "the tool panicked: the shelf 3 fell",
        "the tool panicked: the shelf fell late",
        "the tool panicked: no message",
        "the tool panicked: the shelf fell early",
        "the tool panicked: the shelf was dynamic",
    ]
    "#);
}

/// Give a value that breaks when it is shown.
#[derive(Serialize, Deserialize, JsonSchema)]
struct BreakLate;

impl Signature for BreakLate {
    type Output = u8;

    fn render(_: &u8) -> Result<String, toolwright_signature::ContractError> {
        panic!("no words for it")
    }
}

#[tokio::test]
async fn a_panic_while_rendering_is_caught() {
    let tool = Tool::new(from_fn(async |_: BreakLate| Ok(1))).unwrap();
    let error = call(&tool, "{}").await.unwrap_err();
    assert_eq!(error.to_string(), "the tool panicked: no words for it");
}

#[tokio::test]
async fn an_output_has_its_text_immediately_and_its_value_on_demand() {
    let output = call(&get_weather(), r#"{"city": "Bonn"}"#).await.unwrap();
    assert_eq!(output.value().unwrap(), Some(json!({"celsius": 21.5, "rain": true})));
    assert_eq!(output.text, r#"{"celsius":21.5,"rain":true}"#);

    // A text is sent unchanged, and is a JSON value too.
    let tool = Tool::new(from_fn(async |_: DetectLanguage| Ok("\"Latin\"".to_owned()))).unwrap();
    let output = call(&tool, r#"{"text": "ave"}"#).await.unwrap();
    assert_eq!(output.text, "\"Latin\"");
    assert_eq!(output.value().unwrap(), Some(json!("\"Latin\"")));

    assert_eq!(ToolOutput::text_only("x").value().unwrap(), None);
    let given = ToolOutput::text_only("x").with_value(Value::Null);
    assert_eq!(given.value().unwrap(), Some(Value::Null));
}

/// Count by number.
#[derive(Serialize, Deserialize, JsonSchema)]
struct CountByPair;

impl Signature for CountByPair {
    type Output = Vec<std::collections::BTreeMap<String, u8>>;

    fn render(pairs: &Self::Output) -> Result<String, toolwright_signature::ContractError> {
        Ok(format!("{} pairs", pairs.len()))
    }
}

#[tokio::test]
async fn a_signature_can_render_its_output_as_a_sentence() {
    let tool = Tool::new(from_fn(async |_: CountByPair| Ok(vec![]))).unwrap();
    let output = call(&tool, "{}").await.unwrap();
    assert_eq!(output.text, "0 pairs");
    assert_eq!(output.value().unwrap(), Some(json!([])));
}

#[tokio::test]
async fn a_dynamic_tool_reads_its_arguments_itself() {
    let input = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let contract = Contract::dynamic("remote", "Ask far away.", input, None).unwrap();
    let tool = Tool::dynamic(contract, Effect::Idempotent, |arguments, _cx| async move {
        if arguments == "no" {
            return Err(Error::retry("say yes"));
        }
        let image = Image::url("https://example.com/sky.png");
        Ok(ToolOutput::text_only(arguments).with_parts([image.into()]))
    });
    assert_eq!(tool.effect(), Effect::Idempotent);
    let output = call(&tool, "anything").await.unwrap();
    assert_eq!((&*output.text, output.parts.len()), ("anything", 1));
    assert_eq!(output.value().unwrap(), None);
    assert_eq!(call(&tool, "no").await.unwrap_err().for_model(), "say yes");
}

/// As that of a typed tool, although no type makes it.
#[tokio::test]
async fn the_output_of_a_dynamic_tool_fits_its_contract() {
    let number =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    for (schema, value, text, fits) in [
        (&number, Some(json!({"n": 1})), "One.", true),
        (&number, Some(json!({"n": "one"})), r#"{"n": 1}"#, false),
        (&number, None, r#"{"n": 1}"#, true),
        (&number, None, r#"{"n": "one"}"#, false),
        (&number, None, "One.", false),
        (&number, None, "", false),
        (&json!({"type": "string"}), None, "One.", true),
        (&json!({"type": "string"}), None, "1", true),
        (&json!({"enum": ["yes", "no"]}), None, "yes", true),
        (&json!({"enum": ["yes", "no"]}), None, "maybe", false),
    ] {
        let input = json!({"type": "object", "properties": {}});
        let contract = Contract::dynamic("remote", "Ask.", input, Some(schema.clone())).unwrap();
        let given = value.clone();
        let tool = Tool::dynamic(contract, Effect::Read, move |_, _| {
            let output = ToolOutput::text_only(text);
            let output = match given.clone() {
                Some(value) => output.with_value(value),
                None => output,
            };
            async { Ok(output) }
        });
        let case = format!("{schema}, {value:?}, {text}");
        match call(&tool, "{}").await {
            Ok(output) => assert!(fits && output.text == text, "{case}"),
            Err(error) => assert!(!fits && error.stage() == Stage::Module, "{case}: {error:#}"),
        }
    }
    // Also one whose type enforces the schema elsewhere.
    let contract = Contract::of::<Count>().unwrap();
    let of = |text: &'static str| {
        Tool::dynamic(contract.clone(), Effect::Read, move |_, _| async move {
            Ok(ToolOutput::text_only(text))
        })
    };
    assert_eq!(call(&of("3"), "{}").await.unwrap().text, "3");
    let error = call(&of("three"), "{}").await.unwrap_err();
    assert!(format!("{error:#}").contains("output of `count` does not fit"), "{error:#}");
}

#[tokio::test]
async fn a_tool_without_fields_accepts_every_form_of_empty_arguments() {
    let tool = Tool::new(from_fn(async |_: Count| Ok(3))).unwrap();
    for arguments in ["", "  ", "{}", "null"] {
        assert_eq!(call(&tool, arguments).await.unwrap().text, "3", "{arguments:?}");
    }
}

/// Programs read the value; a text that says the same is enough for them.
#[tokio::test]
async fn a_result_has_a_value_only_if_its_text_is_not_the_value() {
    let of = |outcome| ToolResult::of(&ToolCall::new("1", "t", "{}"), outcome).0;
    let weather = of(call(&get_weather(), r#"{"city": "Kiel"}"#).await);
    assert_eq!((weather.text.as_str(), weather.value), (r#"{"celsius":21.5,"rain":true}"#, None));
    // A string is its own text, without quotes.
    let text = ToolOutput::text_only("Hi!").with_value(json!("Hi!"));
    assert_eq!(of(Ok(text)).value, None);
    let rain = json!({"celsius": 21.5, "rain": true});
    let told = ToolOutput::text_only("It rains.").with_value(rain.clone());
    assert_eq!(of(Ok(told)).value, Some(rain.clone()));
    let json = ToolOutput::text_only(rain.to_string()).with_value(rain);
    assert_eq!(of(Ok(json)).value, None);
    let failed = of(Err(Error::retry("No.")));
    assert_eq!((failed.value, failed.failed), (None, true));
}

#[tokio::test]
async fn a_small_float_has_the_same_digits_in_the_text_and_in_the_value() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Rate {
        #[schemars(range(max = 0.1))]
        most: f32,
    }

    impl Signature for Rate {
        type Output = Self;
    }

    let tool = Tool::new(from_fn(async |it: Rate| Ok(it))).unwrap();
    let output = call(&tool, r#"{"most": 0.1}"#).await.unwrap();
    assert_eq!(output.text, r#"{"most":0.1}"#);
    assert_eq!(output.value().unwrap(), Some(json!({"most": 0.1})));
}

/// The kinds of places in which serde writes an optional float.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
struct Measured {
    wind: Option<f64>,
    rain: Vec<Option<f32>>,
    by_hour: BTreeMap<u8, (String, Option<f64>)>,
    last: Option<Reading>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
enum Reading {
    Wind(Option<f64>),
    Both(f32, Option<f32>),
    Gust { from: Option<f64> },
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Measure {
    place: usize,
}

impl Signature for Measure {
    type Output = Measured;
}

/// `null` means that there is no value, so a number that JSON cannot express must not become `null`.
#[tokio::test]
async fn an_optional_float_that_json_cannot_express_is_an_error() {
    fn measured(place: usize) -> Measured {
        let none = Measured::default();
        let last = |reading| Measured { last: Some(reading), ..Measured::default() };
        let (nan, infinite) = (Some(f64::NAN), Some(f64::NEG_INFINITY));
        match place {
            0 => Measured { wind: nan, ..none },
            1 => Measured { rain: vec![None, Some(1.5), Some(f32::INFINITY)], ..none },
            2 => Measured { by_hour: [(7, (String::new(), infinite))].into(), ..none },
            3 => last(Reading::Wind(nan)),
            4 => last(Reading::Both(1.0, Some(f32::NAN))),
            5 => last(Reading::Gust { from: infinite }),
            _ => Measured { wind: Some(2.5), rain: vec![None, Some(0.1)], ..none },
        }
    }
    let tool = Tool::new(from_fn(async |it: Measure| Ok(measured(it.place)))).unwrap();
    for (place, says) in [
        "$.wind is NaN",
        "$.rain[2] is inf",
        "$.by_hour.7[1] is -inf",
        "$.last.Wind is NaN",
        "$.last.Both[1] is NaN",
        "$.last.Gust.from is -inf",
    ]
    .into_iter()
    .enumerate()
    {
        let error = call(&tool, &format!(r#"{{"place": {place}}}"#)).await.unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!((error.stage(), error.audience()), (Stage::Module, Audience::User));
    }
    let output = call(&tool, r#"{"place": 9}"#).await.unwrap();
    assert_eq!(output.text, r#"{"wind":2.5,"rain":[null,0.1],"by_hour":{},"last":null}"#);
}
