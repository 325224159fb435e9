//! Policies for repairs, and the places that report repairs.

use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_group::{Custom, Definition, FailReason, Handle, Outcome, ToolGroup};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::event::EventKind;
use toolwright_module::message::ToolResult;
use toolwright_module::predict::{OutputMode, PredictEvent};
use toolwright_module::testing::Scripted;
use toolwright_module::{
    ChainOfThought, Context, Contract, Effect, Error, Module, Policy, Predict, Reply, Result,
    Signature, Tool, ToolCall, ToolOutput, from_fn,
};

/// Wait.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Wait {
    seconds: Option<u32>,
}

impl Signature for Wait {
    type Output = u32;
}

impl Handle for Wait {
    async fn handle(self, (): &(), _cx: &Context) -> Result<(String, ())> {
        match self.seconds {
            Some(13) => Err(Error::retry("Not 13.")),
            seconds => Ok((format!("{seconds:?}"), ())),
        }
    }
}

fn wait() -> Tool {
    Tool::new(from_fn(async |wait: Wait| Ok(wait.seconds.unwrap_or_default()))).unwrap()
}

/// A text for each policy, which is the strictest one that allows it.
const TEXTS: [(Policy, &str); 4] = [
    (Policy::Exact, r#"{"seconds": 3}"#),
    (Policy::Strict, r#"{"seconds": 3, "why": "rest"}"#),
    (Policy::Repair, "{'seconds': 3}"),
    (Policy::Coerce, r#"{"seconds": "3"}"#),
];

const POLICIES: [Policy; 4] = [Policy::Exact, Policy::Strict, Policy::Repair, Policy::Coerce];

async fn read_under(tool: &Tool, cx: &Context) -> Vec<bool> {
    let mut read = Vec::new();
    for (_, text) in TEXTS {
        read.push(match tool.call(text, cx).await {
            Ok(output) => {
                assert_eq!(output.text, "3");
                true
            }
            Err(error) => {
                assert_eq!((error.stage(), error.audience()), ARGUMENTS);
                false
            }
        });
    }
    read
}

const ARGUMENTS: (Stage, Audience) = (Stage::Arguments, Audience::ModelMayRetry);

#[tokio::test]
async fn the_strictest_policy_of_tool_and_context_applies() {
    for own in POLICIES {
        for set in POLICIES {
            let tool = wait().with_policy(own).named("pause").unwrap().described("Pause.");
            let read = read_under(&tool, &Context::default().with_policy(set)).await;
            let expected = TEXTS.map(|(needed, _)| needed <= own.min(set));
            assert_eq!(read, expected, "{own:?} {set:?}");
        }
    }
    assert_eq!(read_under(&wait(), &Context::default()).await, [true; 4]);
    assert_eq!(wait().policy(), Policy::Coerce);
}

#[tokio::test]
async fn policies_of_groups_and_handlers_apply() {
    /// Wait, and mean it.
    #[derive(Deserialize, JsonSchema)]
    struct WaitExactly {
        seconds: u32,
    }
    impl Handle for WaitExactly {
        async fn handle(self, (): &(), _cx: &Context) -> Result<(String, ())> {
            Ok((self.seconds.to_string(), ()))
        }
        fn policy() -> Policy {
            Policy::Exact
        }
    }
    let group = || {
        let group = ToolGroup::<(), ()>::new().handler::<Wait>().unwrap();
        let group = group.handler::<WaitExactly>().unwrap();
        group.tool(wait().named("pause").unwrap().with_policy(Policy::Strict)).unwrap()
    };
    let own =
        [("wait", Policy::Coerce), ("wait_exactly", Policy::Exact), ("pause", Policy::Strict)];
    for set in POLICIES {
        let (group, bound) =
            (group().with_policy(set), group().with_policy(set).bind((), |_, ()| {}));
        for ((name, own), tool) in own.iter().zip(&bound) {
            for (needed, text) in TEXTS {
                let (call, cx) = (ToolCall::new("1", *name, text), Context::default());
                let outcome = group.run(&call, &(), &cx).await.unwrap();
                let reads = needed <= set.min(*own);
                let refused = outcome.fail_reason == Some(FailReason::InvalidArguments);
                assert_eq!(!refused, reads, "{name} {set:?} {text}");
                assert_eq!(tool.call(text, &cx).await.is_ok(), reads, "{name} {set:?} {text}");
            }
        }
    }
    assert_eq!(group().get("wait_exactly").unwrap().policy(), Policy::Exact);
}

#[tokio::test]
async fn a_forbidden_repair_is_an_error_with_its_path_and_remedy() {
    let tool = wait().with_policy(Policy::Exact);
    let mut reported = Vec::new();
    for (_, text) in TEXTS.into_iter().skip(1) {
        reported
            .push(tool.call(text, &Context::default()).await.unwrap_err().for_model().into_owned());
    }
    insta::assert_snapshot!(reported.join("\n"), @r#"
    input of `wait` does not fit: $.why: this needs a repair, and none is allowed here (left out a field that is not asked for); write it as the schema says
    input of `wait` does not fit: $: not JSON: a name in double quotes is expected at character 2, got `\'seconds\': 3}`
    input of `wait` does not fit: $.seconds: expected an integer of at least 0 or null, got the string "3"
    "#);
}

#[tokio::test]
async fn repairs_are_in_the_output_the_error_and_the_result() {
    let cx = Context::default();
    let output = wait().call("{'seconds': '3',}", &cx).await.unwrap();
    let repaired = output.repaired.as_ref().unwrap();
    assert_eq!(repaired.json, r#"{"seconds":3}"#);
    let repairs: Vec<String> = repaired.repairs.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(repairs.join("\n"), @r#"
    $: read other quotes as double quotes, 2 times
    $: left out a trailing comma
    $.seconds: read the string "3" as the number 3
    "#);
    let call = ToolCall::new("1", "wait", "{'seconds': '3',}");
    let (result, error) = ToolResult::of(&call, Ok(output));
    assert_eq!(result.repaired.as_ref().unwrap().json, r#"{"seconds":3}"#);
    assert!(error.is_none());
    let stored = serde_json::to_string(&result).unwrap();
    assert_eq!(serde_json::from_str::<ToolResult>(&stored).unwrap(), result);

    // Without repairs nothing is listed. Nulls that a dialect asks for are not repairs.
    for text in [r#"{"seconds": 3}"#, r#"{"seconds": null}"#, "{}", ""] {
        assert_eq!(wait().call(text, &cx).await.unwrap().repaired, None, "{text:?}");
    }

    let failing = from_fn(async |_: Wait| Err::<u32, _>(Error::retry("Later.")));
    let error = Tool::new(failing).unwrap().call("{'seconds': 3}", &cx).await.unwrap_err();
    assert_eq!(error.repaired().unwrap().json, r#"{"seconds":3}"#);
    let (result, _) = ToolResult::of(&call, Err(error));
    assert!(result.failed && result.repaired.is_some());
    let panicking = from_fn(async |_: Wait| -> Result<u32> { panic!("no") });
    let error = Tool::new(panicking).unwrap().call("{'seconds': 3}", &cx).await.unwrap_err();
    assert!(error.stage() == Stage::Panic && error.repaired().is_some());
    // Only repairs of the call's own arguments.
    let nested = from_fn_nested();
    let error = nested.call(r#"{"seconds": 3}"#, &cx).await.unwrap_err();
    assert_eq!(error.repaired(), None);
}

/// A tool that passes up the error of another tool with repaired arguments.
fn from_fn_nested() -> Tool {
    let inner = from_fn(async |_: Wait| Err::<u32, _>(Error::retry("Later.")));
    let inner = Tool::new(inner).unwrap();
    let outer = toolwright_module::from_fn_with(move |_: Wait, cx: Context| {
        let inner = inner.clone();
        async move { inner.call("{'seconds': 3}", &cx).await.map(|_| 0) }
    });
    Tool::new(outer).unwrap()
}

#[tokio::test]
async fn repairs_are_in_the_outcome_whether_the_call_failed_or_not() {
    let group = ToolGroup::<(), ()>::new().handler::<Wait>().unwrap();
    let picture = from_fn(async |_: Wait| Err::<u32, _>(Error::other("no disk")));
    let group = group.tool(Tool::new(picture).unwrap().named("fail").unwrap()).unwrap();
    let run = async |name: &str, text: &str| {
        let call = ToolCall::new("1", name, text);
        let outcome = group.run(&call, &(), &Context::default()).await;
        (outcome.unwrap_or_else(|error| Outcome::of_error(&call, error)), call)
    };
    for (name, text, reason) in [
        ("wait", "{'seconds': 3}", None),
        ("wait", "{'seconds': 13}", Some(FailReason::ExplicitHandlerError)),
        ("fail", "{'seconds': 3}", Some(FailReason::OtherError)),
    ] {
        let (outcome, call) = run(name, text).await;
        assert_eq!(outcome.fail_reason, reason);
        let json = text.replace('\'', "\"").replace(": ", ":");
        assert_eq!(outcome.repaired().unwrap().json, json);
        assert_eq!(outcome.into_result(&call).repaired.unwrap().json, json);
    }
    let (clean, _) = run("wait", r#"{"seconds": 3}"#).await;
    assert_eq!(clean.repaired(), None);
    let (unread, _) = run("wait", "[").await;
    assert_eq!(unread.repaired(), None);
}

#[tokio::test]
async fn a_bound_custom_tool_is_read_by_the_policy() {
    /// Note something.
    #[derive(Deserialize, JsonSchema)]
    struct Note(String);
    impl Custom for Note {
        async fn handle(self, (): &(), _cx: &Context) -> Result<(String, ())> {
            Ok((self.0, ()))
        }
    }
    let group = || ToolGroup::<(), ()>::new().custom::<Note>().unwrap();
    let text = r#"{"input": 5}"#;
    let cx = Context::default();
    let lenient = group().bind((), |_, ()| {}).remove(0);
    assert_eq!(
        lenient.call("{'input': 'a'}", &cx).await.unwrap().repaired.unwrap().json,
        r#"{"input":"a"}"#
    );
    let strict = group().with_policy(Policy::Strict).bind((), |_, ()| {}).remove(0);
    assert!(strict.call(text, &cx).await.is_err());
    assert!(strict.call("{'input': 'a'}", &cx).await.is_err());
}

#[tokio::test]
async fn a_dynamic_tool_gets_repaired_arguments() {
    let contract = || {
        let input = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        Contract::dynamic("remote", "Ask far away.", input, None).unwrap()
    };
    let echo = || {
        Tool::dynamic(contract(), Effect::Irreversible, async |arguments, _| {
            Ok(ToolOutput::text_only(arguments))
        })
    };
    let cx = Context::default();
    let output = echo().call(r#"{"n": 5}"#, &cx).await.unwrap();
    assert_eq!((&*output.text, output.repaired), (r#"{"n": 5}"#, None));
    let output = echo().call(r#"{"n": "5"}"#, &cx).await.unwrap();
    assert_eq!((&*output.text, output.repaired.is_some()), (r#"{"n":5}"#, true));
    // The handler may accept more than the schema, unless a policy is set.
    assert_eq!(echo().call("anything", &cx).await.unwrap().text, "anything");
    for text in [r#"{"n": "5"}"#, "anything", "{'n': 5}"] {
        let error = echo().with_policy(Policy::Exact).call(text, &cx).await.unwrap_err();
        assert_eq!((error.stage(), error.audience()), ARGUMENTS);
        let below = cx.clone().with_policy(Policy::Strict);
        assert!(echo().call(text, &below).await.is_err());
    }
}

#[test]
fn a_definition_reads_by_its_policy() {
    let definition = Definition::output::<Wait>().unwrap();
    assert_eq!(definition.read::<Wait>("{'seconds': 3}").unwrap().seconds, Some(3));
    let strict = definition.with_policy(Policy::Strict);
    assert!(strict.read::<Wait>("{'seconds': 3}").is_err());
}

/// Count the words.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct CountWords {
    text: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Counted {
    words: u32,
}

impl Signature for CountWords {
    type Output = Counted;
}

fn input() -> CountWords {
    CountWords { text: "It rained.".to_owned() }
}

fn heard() -> (Context, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heard);
    let cx = Context::default().with_events(move |event| {
        if let EventKind::AnswerRepaired { name, repairs } = &event.kind {
            let repairs: Vec<String> = repairs.iter().map(ToString::to_string).collect();
            kept.lock().unwrap().push(format!("{name}: {}", repairs.join("; ")));
        }
    });
    (cx, heard)
}

#[tokio::test]
async fn a_predictor_returns_its_repairs() {
    let model = || Scripted::new(|_| Ok(Reply::text(r#"{"words": "2"}"#)));
    let (cx, heard) = heard();
    let count = Predict::<CountWords>::new(model()).unwrap();
    let answer = count.answer(input(), &cx).await.unwrap();
    assert_eq!((answer.value, answer.repairs.len()), (Counted { words: 2 }, 1));
    assert_eq!(count.call(input(), &cx).await.unwrap(), Counted { words: 2 });
    let mut stream = count.stream(input(), &cx);
    while let Some(event) = stream.next().await {
        if let PredictEvent::Done(output) = event.unwrap() {
            assert_eq!((output.words, stream.repairs().len()), (2, 1));
        }
    }
    let said = r#"count_words: $.words: read the string "2" as the number 2"#;
    assert_eq!(*heard.lock().unwrap(), [said; 3]);

    let model =
        Scripted::new(|_| Ok(Reply::text(r#"{"reasoning": "2.", "output": {"words": "2"}}"#)));
    let answer = ChainOfThought::<CountWords>::new(model).unwrap().answer(input(), &cx).await;
    assert_eq!(answer.unwrap().repairs[0].path, "$.output.words");
}

#[tokio::test]
async fn an_answer_with_forbidden_repairs_is_sent_back() {
    let replies = || Scripted::replies([r#"{"words": "2"}"#, r#"{"words": 2}"#].map(Reply::text));
    for context in [false, true] {
        let (mut cx, heard) = heard();
        let mut count = Predict::<CountWords>::new(replies()).unwrap();
        if context {
            cx = cx.with_policy(Policy::Strict);
        } else {
            count = count.with_policy(Policy::Strict);
        }
        let answer = count.answer(input(), &cx).await.unwrap();
        assert_eq!((answer.value, answer.repairs.len()), (Counted { words: 2 }, 0));
        assert!(heard.lock().unwrap().is_empty());
    }
    let one = Scripted::replies([Reply::text(r#"{"words": "2"}"#)]);
    let think = ChainOfThought::<CountWords>::new(one).unwrap();
    let think = think.with_policy(Policy::Repair).with_attempts(1);
    let think = think.with_output_mode(OutputMode::Prompted).unwrap();
    assert_eq!(
        think.call(input(), &Context::default()).await.unwrap_err().stage(),
        Stage::Validation
    );
}

/// Rate a meal.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Rate {
    meal: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Rating {
    #[schemars(range(min = 1, max = 5))]
    stars: u8,
    #[serde(default)]
    remarks: Vec<String>,
}

impl Signature for Rate {
    type Output = Rating;
}

#[tokio::test]
async fn a_modules_output_is_checked_against_its_schema() {
    let rate = || {
        let rate = from_fn(async |rate: Rate| {
            let stars = u8::try_from(rate.meal.len()).unwrap_or_default();
            Ok(Rating { stars, remarks: Vec::new() })
        });
        Tool::new(rate).unwrap()
    };
    let cx = Context::default();
    let text = |meal: &str| json!({ "meal": meal }).to_string();
    let output = rate().call(&text("soup"), &cx).await.unwrap();
    assert_eq!(output.text, r#"{"stars":4,"remarks":[]}"#);
    let error = rate().call(&text("porridge"), &cx).await.unwrap_err();
    assert_eq!((error.stage(), error.audience()), (Stage::Module, Audience::User));
    assert_eq!(
        error.to_string(),
        "output of `rate` does not fit: $.stars: expected an integer from 1 to 5, got the number 8"
    );
    assert_eq!(error.for_model(), "The tool failed. The reason is not shown to you.");

    let group = ToolGroup::<(), ()>::new().tool(rate()).unwrap();
    let call = ToolCall::new("1", "rate", text("porridge"));
    let error = group.run(&call, &(), &cx).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Module);
}

/// serde writes NaN as null, which the schema does not allow.
#[tokio::test]
async fn a_float_that_is_not_a_number_is_an_error() {
    /// Divide two numbers.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Divide {
        a: f64,
        b: f64,
    }
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Quotient {
        quotient: f64,
        rest: Option<f64>,
    }
    impl Signature for Divide {
        type Output = Quotient;
    }
    let divide =
        from_fn(async |divide: Divide| Ok(Quotient { quotient: divide.a / divide.b, rest: None }));
    let divide = Tool::new(divide).unwrap();
    let cx = Context::default();
    let output = divide.call(r#"{"a":1,"b":2}"#, &cx).await.unwrap();
    assert_eq!(output.text, r#"{"quotient":0.5,"rest":null}"#);
    let error = divide.call(r#"{"a":0,"b":0}"#, &cx).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "output of `divide` does not fit: $.quotient: expected a number, got null"
    );
}

#[tokio::test]
async fn lists_and_renamed_fields_of_outputs_are_checked() {
    /// Roll dice.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Roll {
        dice: usize,
    }
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Die {
        #[serde(rename(serialize = "rolled"))]
        #[schemars(range(max = 6))]
        eyes: usize,
    }
    impl Signature for Roll {
        type Output = Vec<Die>;
    }
    let roll = from_fn(async |roll: Roll| Ok((1..=roll.dice).map(|eyes| Die { eyes }).collect()));
    let roll = Tool::new(roll).unwrap();
    let cx = Context::default();
    let output = roll.call(r#"{"dice": 2}"#, &cx).await.unwrap();
    assert_eq!(output.text, r#"[{"rolled":1},{"rolled":2}]"#);
    let error = roll.call(r#"{"dice": 7}"#, &cx).await.unwrap_err();
    assert!(error.to_string().contains("$[6].rolled: "), "{error}");
}

#[tokio::test]
async fn a_name_in_a_models_own_notation_is_repaired_and_listed() {
    /// Roll a die.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Roll {
        sides: usize,
    }
    impl Signature for Roll {
        type Output = usize;
    }
    let group =
        || ToolGroup::<(), ()>::new().module(from_fn(async |it: Roll| Ok(it.sides))).unwrap();
    let call = |name: &str| ToolCall::new("1", name, "{'sides': 6}");
    let cx = Context::default();
    let outcome = group().run(&call("functions.roll"), &(), &cx).await.unwrap();
    let repairs = &outcome.repaired().unwrap().repairs;
    assert_eq!(repairs[0].what, "read the tool \"functions.roll\" as `roll`");
    assert_eq!((outcome.content.as_str(), repairs.len()), ("6", 2));

    let strict = group().with_policy(Policy::Strict);
    for (group, name) in [(strict, "functions.roll"), (group(), "functions.bowl")] {
        let outcome = group.run(&call(name), &(), &cx).await.unwrap();
        assert_eq!(outcome.fail_reason, Some(FailReason::InvalidName));
    }
}
