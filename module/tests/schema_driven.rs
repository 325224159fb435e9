//! The model that answers any schema with data that fits it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_module::message::ToolResult;
use toolwright_module::model::ToolChoice;
use toolwright_module::testing::SchemaDriven;
use toolwright_module::{
    ChainOfThought, Context, Contract, LanguageModel, Message, Module, Predict, Reply, Request,
    Signature, Tool, ToolCall, from_fn,
};

use crate::support::{Count, DetectLanguage, Summarize};

/// Give a value back.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(bound = "T: Serialize + DeserializeOwned")]
struct Echo<T> {
    value: T,
}

impl<T: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static> Signature for Echo<T> {
    type Output = T;

    fn name() -> std::borrow::Cow<'static, str> {
        "give_back".into()
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Status {
    /// Not begun.
    Open,
    InProgress,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Shape {
    Circle { radius: f64 },
    Square { side: f64 },
}

#[derive(Serialize, Deserialize, JsonSchema)]
enum Outside {
    Empty,
    Pair(u8, String),
    Named { status: Status },
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Loose {
    Number(i64),
    Text(String),
}

/// Its first variant is infinitely recursive.
#[derive(Serialize, Deserialize, JsonSchema)]
enum Expression {
    Sum(Box<Expression>, Box<Expression>),
    Negative(Box<Expression>),
    Number(i64),
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Node {
    name: String,
    children: Vec<Node>,
    next: Option<Box<Node>>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Bounded {
    #[schemars(range(min = 1, max = 5))]
    stars: u8,
    #[schemars(range(min = 10, max = 12))]
    port: u16,
    #[schemars(range(max = -3))]
    below: i32,
    #[schemars(range(min = 0.1, max = 0.2))]
    share: f64,
    #[schemars(range(max = 0.25))]
    small: f64,
    #[schemars(length(min = 6, max = 8))]
    word: String,
    #[schemars(length(max = 2))]
    short: String,
    #[schemars(length(min = 2))]
    pair: Vec<Status>,
    #[schemars(length(min = 1), inner(length(min = 5)))]
    words: Vec<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Formats {
    #[schemars(email)]
    email: String,
    #[schemars(url)]
    url: String,
    #[schemars(extend("format" = "date"))]
    date: String,
    #[schemars(extend("format" = "uuid"))]
    id: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Maps {
    counts: BTreeMap<String, u32>,
    by_status: HashMap<String, Vec<Shape>>,
    set: BTreeSet<u8>,
    nested: Option<BTreeMap<String, Option<Vec<Loose>>>>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Defaulted {
    #[serde(default)]
    optional: Option<String>,
    #[serde(default = "seven")]
    number: u8,
    flag: bool,
    nothing: (),
    tuple: (i8, String, bool),
    array: [u8; 3],
    letter: char,
    #[serde(flatten)]
    more: Flat,
    #[serde(flatten)]
    shape: Shape,
}

fn seven() -> u8 {
    7
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Flat {
    extra: Status,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Deep {
    one: Inner<Inner<Inner<Vec<Status>>>>,
    shapes: [Shape; 2],
    outside: Outside,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Inner<T> {
    inner: T,
}

/// Checks samples of a type: as an output, as an output after reasoning, and as an argument.
async fn fits<T>(who: &str)
where
    T: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static,
{
    let tool = Tool::new(from_fn(async |echo: Echo<T>| Ok(echo.value))).unwrap();
    let request = Request::new([]).with_tools([tool.contract().clone()]);
    let reply = SchemaDriven::default().generate(&request).await.unwrap();
    let call = reply.tool_calls().next().unwrap();
    let input: Echo<T> = match tool.contract().read(&call.arguments) {
        Ok(input) => input,
        Err(error) => panic!("{who}: {error:#}"),
    };
    tool.call(&call.arguments, &Default::default()).await.unwrap();

    let predict = Predict::<Echo<T>>::new(SchemaDriven::default()).unwrap().with_attempts(1);
    let think = ChainOfThought::<Echo<T>>::new(SchemaDriven::default()).unwrap().with_attempts(1);
    let again = Echo {
        value: predict
            .call(input, &Context::default())
            .await
            .unwrap_or_else(|error| panic!("{who}: {error:#}")),
    };
    think.call(again, &Context::default()).await.unwrap_or_else(|error| panic!("{who}: {error:#}"));
}

#[tokio::test]
async fn a_sample_deserializes_as_its_type() {
    fits::<()>("unit").await;
    fits::<bool>("bool").await;
    fits::<i64>("integer").await;
    fits::<u64>("natural number").await;
    fits::<f32>("number").await;
    fits::<String>("text").await;
    fits::<Option<String>>("optional").await;
    fits::<Vec<u8>>("list").await;
    fits::<Status>("enum").await;
    fits::<Shape>("union with a tag").await;
    fits::<Outside>("union with its tag outside").await;
    fits::<Loose>("union without a tag").await;
    fits::<Option<Shape>>("optional union").await;
    fits::<Expression>("recursive union").await;
    fits::<Node>("recursive struct").await;
    fits::<Bounded>("bounds").await;
    fits::<Formats>("formats").await;
    fits::<Maps>("maps").await;
    fits::<BTreeMap<String, Shape>>("map").await;
    fits::<Defaulted>("defaults and tuples").await;
    fits::<Deep>("nested").await;
    fits::<serde_json::Value>("anything").await;
}

/// Returns the sample of a type, as text.
async fn sampled<T: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static>() -> String {
    let contract = Contract::of::<Echo<T>>().unwrap();
    let request = Request::new([]).with_output(contract.into());
    SchemaDriven::default().generate(&request).await.unwrap().to_text()
}

#[tokio::test]
async fn a_sample_respects_the_limits_of_the_schema() {
    insta::assert_snapshot!(sampled::<Bounded>().await, @r#"{"stars":1,"port":10,"below":-3,"share":0.2,"small":0.25,"word":"textxx","short":"te","pair":["in-progress","in-progress"],"words":["textx"]}"#);
}

#[tokio::test]
async fn a_sample_of_a_recursive_type_ends_as_soon_as_it_can() {
    insta::assert_snapshot!(sampled::<Expression>().await, @r#"{"result":{"Number":0}}"#);
    insta::assert_snapshot!(sampled::<Node>().await, @r#"{"name":"text","children":[]}"#);
}

#[tokio::test]
async fn a_sample_fits_schemas_from_other_sources() {
    let samples = [
        (
            r#"{"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"b": {"const": 2}}, "required": ["b"]}]}"#,
            r#"{"a":0,"b":2}"#,
        ),
        (r#"{"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.4}"#, "0.2"),
        (r#"{"type": "integer", "minimum": 5, "multipleOf": 4}"#, "8"),
        (r#"{"type": "integer", "exclusiveMaximum": -2}"#, "-3"),
        (r#"{"type": "integer", "minimum": 1.5}"#, "2"),
        (r#"{"enum": ["b", "a"]}"#, r#""b""#),
        (r#"{"type": ["string", "null"]}"#, r#""text""#),
    ];
    for (schema, expected) in samples {
        let value: serde_json::Value = serde_json::from_str(schema).unwrap();
        let input = json!({"type": "object", "properties": {"it": value}, "required": ["it"]});
        let contract = Contract::dynamic("show", "", input, None).unwrap();
        let request = Request::new([]).with_tools([contract.into()]);
        let reply = SchemaDriven::default().generate(&request).await.unwrap();
        let call = reply.tool_calls().next().unwrap();
        assert_eq!(call.arguments, format!("{{\"it\":{expected}}}"), "{schema}");
    }
}

#[tokio::test]
async fn a_schema_without_a_sample_is_an_error() {
    let endless = json!({
        "type": "object",
        "properties": {"it": {"$ref": "#/$defs/Endless"}},
        "required": ["it"],
        "$defs": {"Endless": {"type": "object", "properties": {"it": {"$ref": "#/$defs/Endless"}}, "required": ["it"]}},
    });
    let contract = Contract::dynamic("show", "", endless, None).unwrap();
    let request = Request::new([]).with_tools([contract.into()]);
    let error = SchemaDriven::default().generate(&request).await.unwrap_err();
    assert!(error.to_string().starts_with("no sample value for the schema {"), "{error}");
    assert!(error.to_string().ends_with("script this model instead"), "{error}");
}

#[tokio::test]
async fn a_schema_with_too_many_choices_is_an_error() {
    let property = |number| {
        let name = format!("p{number}");
        json!({"type": "object", "required": [name], "properties": {name: {"$ref": "#/$defs/Endless"}}})
    };
    let schema = json!({
        "type": "object",
        "properties": {"it": {"$ref": "#/$defs/Endless"}},
        "required": ["it"],
        // The number of tries is five to the power of the references that are followed.
        "$defs": {"Endless": {"anyOf": (0..5).map(property).collect::<Vec<_>>()}},
    });
    let contract = Contract::dynamic("show", "", schema, None).unwrap();
    let request = Request::new([]).with_tools([contract.into()]);
    let error = SchemaDriven::default().generate(&request).await.unwrap_err();
    assert!(error.to_string().ends_with("script this model instead"), "{error}");
}

#[tokio::test]
async fn a_schema_with_huge_samples_is_an_error() {
    let (most, huge) = (10_000, u64::MAX);
    let sampled = async |it: serde_json::Value| {
        let input = json!({"type": "object", "properties": {"it": it}, "required": ["it"]});
        let contract = Contract::dynamic("show", "", input, None).unwrap();
        let request = Request::new([]).with_tools([contract.into()]);
        SchemaDriven::default().generate(&request).await
    };
    let list = |fewest, items| json!({"type": "array", "minItems": fewest, "items": items});
    for refused in [
        json!({"type": "string", "minLength": huge}),
        json!({"type": "string", "minLength": most + 1}),
        list(huge, json!(true)),
        list(huge, json!({"type": "null"})),
        list(most, list(2, json!(true))),
        (0..60).fold(json!(true), |inside, _| list(2, inside)),
    ] {
        let error = sampled(refused).await.unwrap_err().to_string();
        assert!(error.starts_with("no sample value for the schema {"), "{error}");
        assert!(error.ends_with("script this model instead"), "{error}");
    }
    sampled(json!({"type": "string", "minLength": most})).await.unwrap();
    sampled(list(most, json!({"type": "boolean"}))).await.unwrap();
}

#[tokio::test]
async fn the_model_calls_every_tool_once_and_then_answers() {
    let contracts = [
        Contract::of::<Count>().unwrap(),
        Contract::of::<DetectLanguage>().unwrap(),
        Contract::of::<Summarize>().unwrap(),
    ];
    let tools: Vec<_> = contracts.into_iter().map(std::sync::Arc::new).collect();
    let request = Request::new([Message::user("Go.")]).with_tools(tools);
    let model = SchemaDriven::default();
    let reply = model.generate(&request).await.unwrap();
    assert_eq!(model.generate(&request).await.unwrap(), reply);
    let calls: Vec<&ToolCall> = reply.tool_calls().collect();
    let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(names, ["count", "detect_language", "summarize"]);
    let ids: BTreeSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids.len(), 3);

    let mut answered = request.clone();
    answered.messages.extend(
        calls.iter().map(|call| std::sync::Arc::new(Message::Tool(ToolResult::new(call, "ok")))),
    );
    assert_eq!(model.generate(&answered).await.unwrap(), Reply::text("done"));
    let told_not_to = request.with_tool_choice(ToolChoice::None);
    assert_eq!(model.generate(&told_not_to).await.unwrap(), Reply::text("done"));
}

#[tokio::test]
async fn the_model_ends_a_typed_run_with_finish() {
    let task = Contract::of::<Summarize>().unwrap();
    let tools = [Contract::of::<Count>().unwrap().into(), task.finish().unwrap().into()];
    let request = Request::new([Message::user("Go.")]).with_tools(tools);
    let model = SchemaDriven::default();
    let first = model.generate(&request).await.unwrap();
    let call = first.tool_calls().next().unwrap();
    assert_eq!((first.tool_calls().count(), call.name.as_str()), (1, "count"));

    let mut answered = request;
    answered.messages.push(std::sync::Arc::new(Message::Tool(ToolResult::new(call, "3"))));
    let last = model.generate(&answered).await.unwrap();
    let finish = last.tool_calls().next().unwrap();
    assert_eq!(finish.name, "finish");
    let summary: crate::support::Summary = task.read_output(&finish.arguments).unwrap();
    assert_eq!(summary.sentence, "text");
}
