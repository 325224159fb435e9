//! `#[tool]` on functions.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use toolwright::module::error::{Audience, Stage};
use toolwright::prelude::*;
use toolwright::signature::{Contract, Dialect};
use toolwright::testing::Scripted;
use toolwright::{Effect, Tool};

fn schema(tool: &Tool) -> Value {
    tool.contract().tool(Dialect::JsonSchema2020).unwrap()
}

async fn text(
    tool: Result<Tool, toolwright::signature::ContractError>,
    arguments: Value,
) -> String {
    let output = tool.unwrap().call(&arguments.to_string(), &Context::default()).await;
    output.unwrap().text
}

/// Join names.
#[allow(clippy::needless_pass_by_value, reason = "parameters of tools are values")]
#[tool]
fn join(
    /// The first name.
    first: Arc<str>,
    /// The second name.
    second: Cow<'static, str>,
    /// Further names.
    others: Arc<[String]>,
    /// The last name.
    last: Option<Box<str>>,
) -> Cow<'static, str> {
    Cow::Owned(format!("{first} {second} {} {last:?}", others.join(" ")))
}

#[tokio::test]
async fn shared_texts_and_cows_are_texts() {
    let arguments = json!({"first": "a", "second": "b", "others": ["c", "d"], "last": "e"});
    assert_eq!(text(Join::tool(), arguments).await, "a b c d Some(\"e\")");
}

/// Say how the weather will be.
///
/// # Panics
///
/// A section for people.
#[tool]
async fn get_weather(
    /// City name, in English.
    city: String,
    /// Days from today.
    #[default = 1]
    days: u8,
) -> String {
    format!("Rain in {city} in {days} days.")
}

#[tokio::test]
async fn a_function_is_a_tool_a_signature_and_still_a_function() {
    let tool = GetWeather::tool().unwrap();
    assert_eq!(tool.name(), "get_weather");
    assert_eq!(tool.effect(), Effect::Write);
    assert_eq!(
        schema(&tool),
        json!({
            "name": "get_weather",
            "description": "Say how the weather will be.",
            "input_schema": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "City name, in English."},
                    "days": {
                        "type": "integer",
                        "description": "Days from today.",
                        "default": 1,
                        "minimum": 0,
                        "maximum": 255,
                    },
                },
                "required": ["city"],
            },
            "output_schema": {"type": "string"},
        }),
    );
    let rain = "Rain in Oslo in 1 days.";
    assert_eq!(text(Ok(tool), json!({"city": "Oslo"})).await, rain);
    assert_eq!(get_weather("Oslo".to_owned(), 1).await, rain);
    let input = GetWeather { city: "Oslo".to_owned(), days: 1 };
    assert_eq!(GetWeather::module().call(input, &Context::default()).await.unwrap(), rain);
}

/// A model can stand behind the same signature.
#[tokio::test]
async fn a_signature_of_a_function_is_like_any_other() {
    let model = Scripted::new(|_| Ok(toolwright::module::Reply::text(r#"{"result": "Sun"}"#)));
    let predict = Predict::<GetWeather>::new(model).unwrap();
    let input = GetWeather { city: "Rome".to_owned(), days: 2 };
    assert_eq!(predict.call(input, &Context::default()).await.unwrap(), "Sun");
    assert_eq!(Contract::of::<GetWeather>().unwrap().name(), "get_weather");
}

/// A unit of temperature.
#[data]
#[derive(Copy, PartialEq, Default)]
#[serde(rename_all = "lowercase")]
enum Unit {
    /// Degrees Celsius.
    #[default]
    Celsius,
    /// Degrees Fahrenheit.
    Fahrenheit,
}

/// Show what it got.
#[tool(name = "show-all", effect = Read, derive(Debug, Clone, PartialEq))]
#[allow(clippy::too_many_arguments)]
fn show(
    /// A text.
    text: &str,
    /// Words.
    words: &[String],
    /// A unit.
    #[default]
    unit: &Unit,
    /// An optional text.
    maybe: Option<&str>,
    /// Optional words.
    list: Option<&[String]>,
    /// An optional unit.
    other: Option<&Unit>,
    /// A text with a default.
    #[default = "x"]
    default: &str,
    /// A value with a default.
    #[default = Unit::Fahrenheit]
    with: Unit,
    /// Named otherwise.
    #[serde(rename = "type")]
    r#type: u8,
    /// With bounds.
    #[schemars(range(min = 1, max = 9))]
    mut few: u32,
) -> String {
    few += 1;
    format!(
        "{text} {words:?} {unit:?} {maybe:?} {list:?} {other:?} {default} {with:?} {type} {few}"
    )
}

#[tokio::test]
async fn parameters_may_borrow_and_their_attributes_belong_to_the_fields() {
    let tool = Show::tool().unwrap();
    assert_eq!((tool.name(), tool.effect()), ("show-all", Effect::Read));
    let fields = &schema(&tool)["input_schema"]["properties"];
    assert_eq!(fields["default"]["default"], "x");
    assert_eq!(fields["unit"]["default"], "celsius");
    assert_eq!(fields["with"]["default"], "fahrenheit");
    assert_eq!(fields["few"]["maximum"], 9);
    assert!(fields["type"].is_object() && fields.get("r#type").is_none());
    let shortest = json!({"text": "a", "words": ["b"], "type": 3, "few": 4});
    assert_eq!(
        text(Ok(tool.clone()), shortest).await,
        r#"a ["b"] Celsius None None None x Fahrenheit 3 5"#,
    );
    let all = json!({
        "text": "a", "words": [], "unit": "celsius", "maybe": "c", "list": ["d"],
        "other": "fahrenheit", "default": "e", "with": "celsius", "type": 3, "few": 4,
    });
    assert_eq!(
        text(Ok(tool), all.clone()).await,
        r#"a [] Celsius Some("c") Some(["d"]) Some(Fahrenheit) e Celsius 3 5"#,
    );
    let input: Show = serde_json::from_value(all).unwrap();
    assert_eq!(input, input.clone());
}

/// Parameters whose names are those of the generated code.
#[tool]
#[allow(clippy::used_underscore_binding)]
fn names(
    /// A number.
    input: u8,
    /// A number.
    output: u8,
    /// A number.
    value0: u8,
    #[context] error: &Unit,
    /// A number.
    toolset: u8,
    _: &Context,
    /// A number.
    cx: u8,
) -> Result<u8> {
    assert_eq!(*error, Unit::Celsius);
    Ok(input + output + value0 + toolset + cx)
}

#[tokio::test]
async fn no_name_of_a_parameter_is_taken() {
    let arguments = json!({"input": 1, "output": 2, "value0": 3, "toolset": 4, "cx": 5});
    let cx = Context::default().with(Unit::Celsius);
    let output = Names::tool().unwrap().call(&arguments.to_string(), &cx).await.unwrap();
    assert_eq!(output.text, "15");
}

trait Store: Send + Sync {
    fn first(&self) -> u32;
}

struct Numbers(u32);

impl Store for Numbers {
    fn first(&self) -> u32 {
        self.0
    }
}

/// Read a number.
#[tool]
async fn with_values(
    #[context] store: &dyn Store,
    #[context] added: Option<&Numbers>,
    cx: &Context,
) -> u32 {
    assert!(!cx.is_cancelled());
    store.first() + added.map_or(0, |added| added.0)
}

#[tokio::test]
async fn values_come_from_the_context() {
    let tool = WithValues::tool().unwrap();
    let error = tool.call("{}", &Context::default()).await.unwrap_err();
    assert_eq!((error.stage(), error.audience()), (Stage::Setup, Audience::Run));
    let text = error.to_string();
    assert!(text.starts_with("`with_values` needs a value of type `dyn "), "{text}");
    assert!(text.ends_with("Store` in its context; add one with `Context::with`"), "{text}");

    let store: Arc<dyn Store> = Arc::new(Numbers(7));
    let cx = Context::default().with(store);
    assert_eq!(tool.call("{}", &cx).await.unwrap().text, "7");
    let cx = cx.with(Numbers(1));
    assert_eq!(tool.call("{}", &cx).await.unwrap().text, "8");
}

struct Odd;

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("odd")
    }
}

/// Fail with an error of ours.
#[tool]
fn ours() -> Result<()> {
    Err(Error::retry("again"))
}

/// Fail with an error of the standard library.
#[tool]
fn standard() -> std::io::Result<()> {
    Err(std::io::Error::other("disk"))
}

/// Fail with a text.
#[tool]
fn with_text() -> Result<u8, String> {
    Err("secret".to_owned())
}

/// Fail with what has a text.
#[tool]
async fn displayed() -> std::result::Result<u8, Odd> {
    Err(Odd)
}

/// Fail to write.
#[tool]
fn formatted() -> fmt::Result {
    Err(fmt::Error)
}

/// Do nothing.
#[tool]
fn nothing() {}

#[tokio::test]
async fn each_kind_of_error_reaches_those_whom_it_is_for() {
    let cx = Context::default();
    let error = Ours::tool().unwrap().call("{}", &cx).await.unwrap_err();
    assert_eq!((error.audience(), &*error.for_model()), (Audience::ModelMayRetry, "again"));
    let error = Standard::tool().unwrap().call("{}", &cx).await.unwrap_err();
    assert!(error.downcast_ref::<std::io::Error>().is_some());
    let error = WithText::tool().unwrap().call("{}", &cx).await.unwrap_err();
    assert_eq!((error.audience(), error.to_string()), (Audience::User, "secret".to_owned()));
    assert!(!error.for_model().contains("secret"));
    let error = Displayed::tool().unwrap().call("{}", &cx).await.unwrap_err();
    assert_eq!(error.to_string(), "odd");
    assert!(Formatted::tool().unwrap().call("{}", &cx).await.is_err());
    assert_eq!(Nothing::tool().unwrap().call("{}", &cx).await.unwrap().text, "null");
}

const ABOUT: &str = "Look something up.";

/// For people.
#[tool(
    description = ABOUT,
    signature = SearchWeb,
    render = |found| format!("{} found", found.len()),
    effect = Idempotent,
)]
pub(crate) fn search(
    /// Words to look for.
    words: BTreeMap<String, u8>,
) -> Vec<String> {
    words.into_keys().collect()
}

/// A type beside the function `search`, whose default signature would have this name.
struct Search;

#[tokio::test]
async fn arguments_change_what_a_model_sees() {
    let _ = Search;
    let tool = SearchWeb::tool().unwrap();
    assert_eq!((tool.name(), tool.effect()), ("search", Effect::Idempotent));
    assert_eq!(tool.contract().description(), ABOUT);
    assert_eq!(text(Ok(tool), json!({"words": {"a": 1}})).await, "1 found");
}

#[tokio::test]
async fn a_tool_may_stand_in_a_function() {
    /// Add one.
    #[tool(effect = Read)]
    fn increment(
        /// A number.
        to: i64,
    ) -> i64 {
        to + 1
    }
    assert_eq!(text(Increment::tool(), json!({"to": 1})).await, "2");
}

/// A facade by another name.
mod renamed {
    use toolwright as tw;

    /// A point.
    #[tw::data(crate = tw)]
    #[derive(PartialEq)]
    pub(super) struct Point {
        /// Where.
        pub(super) x: u8,
    }

    /// Move a point.
    #[tw::tool(crate = tw)]
    pub(super) fn shift(
        /// The point.
        mut point: Point,
    ) -> Point {
        point.x += 1;
        point
    }
}

#[tokio::test]
async fn a_renamed_facade_works() {
    assert_eq!(text(renamed::Shift::tool(), json!({"point": {"x": 1}})).await, r#"{"x":2}"#);
}

/// What `cfg` leaves out.
#[tool]
#[cfg(any())]
fn left_out(
    /// A type that does not exist.
    what: Missing,
) {
}

/// What nobody describes is a warning, which is allowed here.
#[tool]
#[allow(deprecated)]
fn silent(quiet: u8) -> u8 {
    quiet
}

#[test]
fn a_field_without_description_has_none() {
    let tool = Silent::tool().unwrap();
    assert_eq!(schema(&tool)["input_schema"]["properties"]["quiet"].get("description"), None);
}

/// Types of fields that the attributes must not ask for traits.
mod untold {
    use std::borrow::Cow;

    use toolwright::prelude::*;

    /// A type without any trait but `Default`.
    #[derive(Debug, Clone, Default)]
    pub(super) struct Bare;

    /// A type with a parameter.
    #[data]
    pub(super) struct Boxed<T> {
        /// What it holds.
        pub(super) held: T,
    }

    /// A type that borrows.
    #[data]
    pub(super) struct Lent<'a> {
        /// A text.
        pub(super) text: Cow<'a, str>,
    }

    /// A type of itself.
    #[data]
    pub(super) struct Tree {
        /// Its branches.
        pub(super) branches: Vec<Self>,
        /// More of them.
        pub(super) more: Vec<Tree>,
        /// What no text has.
        #[serde(skip)]
        pub(super) bare: Bare,
        /// What `cfg` leaves out.
        #[cfg(any())]
        pub(super) missing: Missing,
    }

    /// What `cfg` leaves out.
    #[data]
    #[cfg(any())]
    pub(super) struct LeftOut {
        missing: Missing,
    }
}

/// Count branches.
#[tool]
fn count(
    /// A tree, in a box.
    tree: untold::Boxed<untold::Tree>,
    /// What no model writes.
    #[serde(skip)]
    bare: Option<&untold::Bare>,
) -> usize {
    assert!(bare.is_none());
    let tree = tree.held;
    assert!(matches!(tree.bare, untold::Bare));
    let lent = untold::Lent { text: "a".into() };
    lent.text.len() + tree.branches.len() + tree.more.len()
}

#[tokio::test]
async fn types_whose_traits_are_not_known_are_left_to_the_derives() {
    let empty = json!({"branches": [], "more": []});
    let tree = json!({"branches": [empty], "more": []});
    let arguments = json!({"tree": {"held": tree}});
    assert_eq!(text(Count::tool(), arguments).await, "2");
}
