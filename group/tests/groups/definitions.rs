//! Definitions: names, descriptions, schemas and their defaults.

use std::borrow::Cow;
use std::cell::Cell;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolwright_group::{Definition, Handle, ToolGroup};
use toolwright_module::{Context, Dialect, Effect, Result, Tool};

use super::support::{GetStockPrice, GetWeather, SayHello, add, group, stock_schema};

/// Returns a group with one tool that does nothing.
macro_rules! only {
    ($tool:ident) => {
        ToolGroup::<(), ()>::new().handler::<$tool>().map(|group| group.definitions()[0].clone())
    };
}

macro_rules! handles_nothing {
    () => {
        async fn handle(self, (): &(), _cx: &Context) -> Result<(String, ())> {
            Ok((String::new(), ()))
        }
    };
}

#[test]
fn a_group_lists_effective_names_and_schemas_in_order() {
    let group = group();
    let names: Vec<_> = group.definitions().iter().map(Definition::name).collect();
    assert_eq!(names, ["get_weather", "stock_price", "say_hello", "fail", "add"]);
    assert!(group.get("GetWeather").is_none());
    assert_eq!(group.get("get_weather").unwrap().effect(), Effect::Read);
    assert_eq!(group.get("stock_price").unwrap().effect(), Effect::Write);
    insta::assert_json_snapshot!(group.get("get_weather").unwrap().schema());
    assert_eq!(*group.get("stock_price").unwrap().schema(), stock_schema());
    assert_eq!(
        format!("{group:?}"),
        r#"ToolGroup(["get_weather", "stock_price", "say_hello", "fail", "add"])"#
    );
}

#[test]
fn strict_is_false_by_default() {
    let group = group();
    assert!(!group.get("get_weather").unwrap().strict());
    assert!(group.get("stock_price").unwrap().strict());
    assert!(!group.get("add").unwrap().strict());
    assert!(Definition::output::<SayHello>().unwrap().with_strict(true).strict());
}

/// Everything that a handler overrides is in the definition of its type, as in that of its group.
#[test]
fn a_definition_without_a_group_is_that_of_the_group() {
    let group = group();
    for (definition, name) in [
        (<GetStockPrice as Handle<i64, f64>>::definition(), "stock_price"),
        (<GetWeather as Handle<i64, f64>>::definition(), "get_weather"),
        (<SayHello as Handle<i64, f64>>::definition(), "say_hello"),
    ] {
        let (definition, in_group) = (definition.unwrap(), group.get(name).unwrap());
        assert_eq!(definition.to_string(), in_group.to_string());
        assert_eq!(definition.strict(), in_group.strict());
        assert_eq!(definition.effect(), in_group.effect());
    }
    let cx = Context::default();
    let error = <GetWeather as Handle<i64, f64>>::read("{}", &cx).err().unwrap();
    assert!(error.to_string().contains("input of `get_weather` does not fit"), "{error}");
}

#[test]
fn an_explicit_name_precedes_the_generator_and_the_type() {
    assert_eq!(<GetStockPrice as Handle<i64, f64>>::name(), "stock_price");
    assert!(group().get("stock_price").is_some());
}

#[test]
fn the_name_generator_gets_the_types_name_and_precedes_it() {
    /// Ping.
    #[derive(Deserialize, JsonSchema)]
    struct PingServer {}

    impl Handle for PingServer {
        fn generate_name(type_name: &str) -> Cow<'static, str> {
            format!("my_{type_name}").into()
        }
        handles_nothing!();
    }
    assert_eq!(only!(PingServer).unwrap().name(), "my_PingServer");
    assert_eq!(PingServer::name(), "my_PingServer");
}

#[test]
fn an_empty_name_or_description_means_the_next_default() {
    /// From the comment.
    #[derive(Deserialize, JsonSchema)]
    struct Commented {}

    impl Handle for Commented {
        fn name() -> Cow<'static, str> {
            "".into()
        }
        fn description() -> Cow<'static, str> {
            "".into()
        }
        handles_nothing!();
    }
    let definition = only!(Commented).unwrap();
    assert_eq!((definition.name(), definition.description()), ("commented", "From the comment."));

    #[derive(Deserialize, JsonSchema)]
    struct NothingSaid {}

    impl Handle for NothingSaid {
        handles_nothing!();
    }
    assert_eq!(only!(NothingSaid).unwrap().description(), "Nothing said");
}

#[test]
fn an_explicit_description_precedes_the_schemas_and_the_comment() {
    assert_eq!(group().get("stock_price").unwrap().description(), "Say what a share costs.");

    /// The comment.
    #[derive(Deserialize, JsonSchema)]
    struct BySchema {}

    impl Handle for BySchema {
        fn schema() -> Option<Value> {
            Some(json!({"type": "object", "description": "The schema's."}))
        }
        handles_nothing!();
    }
    assert_eq!(only!(BySchema).unwrap().description(), "The schema's.");
    assert_eq!(BySchema::description(), "The schema's.");

    /// First line,
    /// second line.
    #[derive(Deserialize, JsonSchema)]
    struct ByComment {}

    impl Handle for ByComment {
        fn schema() -> Option<Value> {
            Some(json!({"type": "object"}))
        }
        handles_nothing!();
    }
    assert_eq!(only!(ByComment).unwrap().description(), "First line,\nsecond line.");
}

#[test]
fn an_explicit_schema_is_sent_unchanged() {
    let group = group();
    let stock = group.get("stock_price").unwrap();
    for _ in 0..2 {
        for dialect in Dialect::ALL {
            assert_eq!(stock.parameters(dialect).unwrap().schema.get(), stock_schema().to_string());
        }
        assert_eq!(stock.description(), "Say what a share costs.");
    }
}

#[test]
fn settings_of_a_handler_are_not_parameters() {
    for definition in group().definitions() {
        let parameters = definition.schema()["properties"].as_object().unwrap();
        for configuration in ["name", "strict", "schema", "description", "effect"] {
            // The type has a field of that name too.
            assert!(
                definition.name() == "say_hello" || !parameters.contains_key(configuration),
                "{configuration}"
            );
        }
    }
    let fields: Vec<_> = Definition::output::<GetWeather>().unwrap().schema()["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(fields, ["city", "state"]);
}

#[test]
fn the_pretty_form_is_the_type_name_around_the_definition() {
    insta::assert_snapshot!(group().get("get_weather").unwrap().to_string());
    let small = ToolGroup::<i64, f64>::new().handler::<SayHello>().unwrap().module(add()).unwrap();
    insta::assert_snapshot!("a_group", small.to_string());
}

#[test]
fn plain_data_has_a_definition_that_reads_replies() {
    let definition = Definition::output::<GetWeather>()
        .unwrap()
        .named("weather_query")
        .unwrap()
        .described("Where the weather is asked for.");
    assert_eq!(definition.name(), "weather_query");
    assert_eq!(definition.description(), "Where the weather is asked for.");
    let read: GetWeather = definition.read(r#"{"city": "Austin", "state": "TX"}"#).unwrap();
    assert_eq!(read.city, "Austin");
    let error = definition.read::<GetWeather>(r#"{"city": 100, "state": "TX"}"#).err().unwrap();
    assert!(error.for_model().contains("$.city"), "{error}");
}

#[test]
fn unambiguous_arguments_are_repaired_and_all_faults_listed() {
    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Order {
        count: u8,
        weight: u8,
        gift: bool,
        name: String,
    }
    let order = Definition::output::<Order>().unwrap();
    let read = r#"{"count": "3", "weight": 3.0, "gift": "true", "name": "Kate", "extra": 1}"#;
    let read: Order = order.read(read).unwrap();
    assert_eq!(read, Order { count: 3, weight: 3, gift: true, name: "Kate".to_owned() });
    let error = order.read::<Order>(r#"{"count": "three", "weight": 3, "name": 100}"#).unwrap_err();
    for path in ["$.count", "$.gift", "$.name"] {
        assert!(error.for_model().contains(path), "{path}: {}", error.for_model());
    }
}

#[test]
fn invalid_and_duplicate_names_are_rejected() {
    #[derive(Deserialize, JsonSchema)]
    struct Spaced {}

    impl Handle for Spaced {
        fn name() -> Cow<'static, str> {
            "two words".into()
        }
        handles_nothing!();
    }
    insta::assert_snapshot!(only!(Spaced).unwrap_err(), @"`two words` cannot be a tool's name: ' ' is not allowed; use only A-Z a-z 0-9 _ -");

    let add_named = |name| Tool::new(add()).unwrap().named(name).unwrap();
    let twice = group().tool(add_named("say_hello")).unwrap_err();
    insta::assert_snapshot!(twice, @"`say_hello` cannot be a tool's name: another tool of this group has it; give one of them another");
    assert!(group().tool(add_named("plus")).is_ok());
    assert!(group().handler::<SayHello>().is_err());
    assert!(group().module(add()).is_err());
}

#[test]
fn a_generic_type_needs_a_name() {
    #[derive(Deserialize, JsonSchema)]
    struct Fetch<T> {
        key: T,
    }

    impl Handle<(), String> for Fetch<String> {
        async fn handle(self, (): &(), _cx: &Context) -> Result<(String, String)> {
            Ok((String::new(), self.key))
        }
    }

    impl Handle<(), String> for Fetch<u8> {
        fn name() -> Cow<'static, str> {
            "fetch_number".into()
        }
        async fn handle(self, (): &(), _cx: &Context) -> Result<(String, String)> {
            Ok((String::new(), self.key.to_string()))
        }
    }
    assert!(ToolGroup::new().handler::<Fetch<String>>().is_err());
    assert!(ToolGroup::new().handler::<Fetch<u8>>().is_ok());

    // An explicit name is kept, even if it equals the type's own.
    impl Handle<(), String> for Fetch<bool> {
        fn name() -> Cow<'static, str> {
            "fetch".into()
        }
        async fn handle(self, (): &(), _cx: &Context) -> Result<(String, String)> {
            Ok((String::new(), self.key.to_string()))
        }
    }
    let group = ToolGroup::new().handler::<Fetch<bool>>().unwrap();
    assert!(group.get("fetch").is_some());
}

#[test]
fn arguments_that_are_not_an_object_are_rejected() {
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema counts")]
    struct List(Vec<String>);

    impl Handle for List {
        handles_nothing!();
    }
    insta::assert_snapshot!(only!(List).unwrap_err(), @"the input schema of `list` cannot be used at $: it is not an object; put the value in a field of a struct");
}

#[test]
fn a_schema_that_nests_too_deep_is_rejected_before_it_is_copied() {
    thread_local! {
        static LEVELS: Cell<u32> = const { Cell::new(0) };
    }

    #[derive(Deserialize, JsonSchema)]
    struct Deep {}

    impl Handle for Deep {
        fn schema() -> Option<Value> {
            let inmost = json!({"type": "object"});
            Some((0..LEVELS.get()).fold(inmost, |below, _| {
                // A macro would copy the nested value.
                let mut schema = json!({"type": "object"});
                schema["not"] = below;
                schema
            }))
        }
        handles_nothing!();
    }
    for levels in [50, 100, 127, 128, 129, 1_000] {
        LEVELS.set(levels);
        let made = only!(Deep);
        assert_eq!(made.is_ok(), levels == 50, "{levels}");
    }
    insta::assert_snapshot!(only!(Deep).unwrap_err(), @"the input schema of `deep` cannot be used at $: it nests too deep; make it flatter");
}

#[tokio::test]
async fn a_type_without_fields_accepts_an_empty_object_and_empty_text() {
    /// Ping.
    #[derive(Deserialize, JsonSchema)]
    struct Ping;

    impl Handle for Ping {
        async fn handle(self, (): &(), _cx: &Context) -> Result<(String, ())> {
            Ok(("pong".to_owned(), ()))
        }
    }
    let group = ToolGroup::new().handler::<Ping>().unwrap();
    for arguments in ["{}", ""] {
        let call = super::support::call("ping", arguments);
        let outcome = group.run(&call, &(), &Context::default()).await.unwrap();
        assert_eq!(outcome.content, "pong");
    }
}

#[test]
fn a_providers_form_is_cached_until_a_tool_is_added() {
    let group = ToolGroup::<i64, f64>::new().handler::<SayHello>().unwrap();
    let made = Cell::new(0);
    let make = |definitions: &[Definition]| -> Result<Box<RawValue>> {
        made.set(made.get() + 1);
        Ok(serde_json::value::to_raw_value(&definitions.len())?)
    };
    assert_eq!(group.wire_form("a", make).unwrap().get(), "1");
    assert_eq!(group.wire_form("a", make).unwrap().get(), "1");
    assert_eq!(made.get(), 1);
    assert_eq!(group.wire_form("b", make).unwrap().get(), "1");
    assert_eq!(made.get(), 2);
    let failed = group.wire_form("c", |_| Err("no"));
    assert_eq!(failed.unwrap_err(), "no");
    let group = group.module(add()).unwrap();
    assert_eq!(group.wire_form("a", make).unwrap().get(), "2");
}
