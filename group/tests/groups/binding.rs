//! Groups that are converted to plain tools.

use std::sync::{Arc, Mutex};

use toolwright_module::error::{Audience, Stage};
use toolwright_module::{Context, Effect};

use super::{custom, support};

#[tokio::test]
async fn a_bound_group_is_a_list_of_plain_tools() {
    let given = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&given);
    let tools = support::group().bind(100, move |name: &str, out: f64| {
        kept.lock().unwrap().push((name.to_owned(), out));
    });
    let names: Vec<_> = tools.iter().map(|tool| tool.contract().name()).collect();
    assert_eq!(names, ["get_weather", "stock_price", "say_hello", "fail", "add"]);
    assert_eq!(tools[0].effect(), Effect::Read);

    let cx = Context::default();
    let output = tools[0].call(r#"{"city": "Austin", "state": "TX"}"#, &cx).await.unwrap();
    assert_eq!(output.text, "It's currently 30 degrees in Austin, TX.");
    let renamed = tools[1].clone().named("price").unwrap();
    assert_eq!(
        renamed.call(r#"{"ticker": "AAPL"}"#, &cx).await.unwrap().text,
        "AAPL is currently trading at $100."
    );
    let output = tools[4].call(r#"{"a": 1, "b": 2}"#, &cx).await.unwrap();
    assert_eq!(output.value().unwrap().unwrap()["sum"], 3);
    let expected = [("get_weather".to_owned(), 101.234), ("price".to_owned(), 100.0)];
    assert_eq!(*given.lock().unwrap(), expected);

    let error = tools[0].call("{}", &cx).await.unwrap_err();
    assert_eq!((error.stage(), error.audience()), (Stage::Arguments, Audience::ModelMayRetry));
    let error = tools[3].call(r#"{"how": "refuse"}"#, &cx).await.unwrap_err();
    assert_eq!(error.audience(), Audience::ModelFinal);
    let error = tools[3].call(r#"{"how": "panic"}"#, &cx).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Panic);
    assert_eq!(given.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_bound_custom_tool_is_a_function_with_its_text_as_the_only_field() {
    let tools = custom::group().bind(7, |_: &str, _: f64| {});
    let shown: Vec<_> = tools[..3].iter().map(|tool| tool.contract().input()).collect();
    insta::assert_json_snapshot!(shown);

    let cx = Context::default();
    let output = tools[1].call(r#"{"input": "07:30"}"#, &cx).await.unwrap();
    assert_eq!(output.text, "At 7.");
    assert_eq!(tools[1].effect(), Effect::Read);
    let error = tools[1].call(r#"{"input": "31:00"}"#, &cx).await.unwrap_err();
    assert_eq!(error.for_model(), "input of `when` does not fit: there are 24 hours, from 0");
    let error = tools[1].call(r#"{"text": "07:30"}"#, &cx).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Arguments);
}

#[tokio::test]
async fn a_panic_of_the_binding_callback_is_an_error_of_its_call() {
    let tools = support::group().bind(7, |_: &str, _: f64| panic!("listener"));
    let call = tools[2].call(r#"{"name": "Kate"}"#, &Context::default()).await;
    assert_eq!(call.unwrap_err().stage(), Stage::Panic);
}
