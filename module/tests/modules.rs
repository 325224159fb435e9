//! Modules: code, language models, and both.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::error::Stage;
use toolwright_module::testing::{SchemaDriven, Scripted};
use toolwright_module::{
    AnyModule, ChainOfThought, Context, Contract, Dialect, Effect, Module, Predict, Reply, Request,
    Result, Signature, Tool, from_fn, from_fn_with,
};

use crate::support::DetectLanguage;

/// A caller that accepts any module of the signature.
async fn ask(module: &impl Module<Signature = DetectLanguage>) -> String {
    let input = DetectLanguage { text: "der Hund".to_owned() };
    module.call(input, &Context::default()).await.unwrap()
}

/// An implementation in code.
struct ByArticle;

impl Module for ByArticle {
    type Signature = DetectLanguage;

    async fn call(&self, input: DetectLanguage, _: &Context) -> Result<String> {
        let german = input.text.split(' ').any(|word| word == "der");
        Ok(if german { "German" } else { "unknown" }.to_owned())
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}

fn model(answer: &'static str) -> Scripted<impl Fn(&Request) -> Result<Reply> + Send + Sync> {
    Scripted::new(move |_: &Request| Ok(Reply::text(answer)))
}

fn by_model() -> Predict<DetectLanguage> {
    Predict::new(model(r#"{"result": "German"}"#)).unwrap()
}

fn by_thinking() -> ChainOfThought<DetectLanguage> {
    ChainOfThought::new(model(r#"{"reasoning": "`der` is an article.", "output": "German"}"#))
        .unwrap()
}

/// Code, with a model for unknown inputs.
struct Hybrid {
    code: ByArticle,
    model: AnyModule<DetectLanguage>,
}

impl Module for Hybrid {
    type Signature = DetectLanguage;

    async fn call(&self, input: DetectLanguage, cx: &Context) -> Result<String> {
        let again = DetectLanguage { text: input.text.clone() };
        match self.code.call(input, cx).await?.as_str() {
            "unknown" => self.model.call(again, cx).await,
            known => Ok(known.to_owned()),
        }
    }
}

fn hybrid() -> Hybrid {
    Hybrid { code: ByArticle, model: AnyModule::new(by_model()) }
}

fn everyone() -> Vec<(&'static str, AnyModule<DetectLanguage>)> {
    vec![
        ("code", AnyModule::new(ByArticle)),
        ("a closure", AnyModule::new(from_fn(async |_: DetectLanguage| Ok("German".to_owned())))),
        (
            "a closure with context",
            AnyModule::new(from_fn_with(async |input: DetectLanguage, cx: Context| {
                ByArticle.call(input, &cx).await
            })),
        ),
        ("a model", AnyModule::new(by_model())),
        ("a thinking model", AnyModule::new(by_thinking())),
        ("both", AnyModule::new(hybrid())),
        ("a shared one", AnyModule::new(Arc::new(ByArticle))),
        ("one erased twice", AnyModule::new(AnyModule::new(ByArticle))),
    ]
}

#[tokio::test]
async fn a_caller_cannot_distinguish_code_from_a_model() {
    for (who, module) in everyone() {
        assert_eq!(ask(&module).await, "German", "{who}");
    }
    // The same without type erasure.
    assert_eq!(ask(&ByArticle).await, "German");
    assert_eq!(ask(&by_model()).await, "German");
    assert_eq!(ask(&by_thinking()).await, "German");
    assert_eq!(ask(&hybrid()).await, "German");
}

/// Returns a module by its name in a configuration.
fn chosen(word: &str) -> AnyModule<DetectLanguage> {
    match word {
        "code" => AnyModule::new(ByArticle),
        "predict" => AnyModule::new(by_model()),
        "chain of thought" => AnyModule::new(by_thinking()),
        "hybrid" => AnyModule::new(hybrid()),
        other => panic!("no {other}"),
    }
}

#[tokio::test]
async fn a_module_can_be_chosen_at_run_time() {
    let mut definitions = Vec::new();
    for word in "code,predict,chain of thought,hybrid".split(',') {
        assert_eq!(ask(&chosen(word)).await, "German", "{word}");
        let tool = Tool::new(chosen(word)).unwrap();
        let output = tool.call(r#"{"text": "der Hund"}"#, &Context::default()).await.unwrap();
        assert_eq!(output.text, "German", "{word}");
        let definition = |dialect| tool.contract().tool(dialect).unwrap().to_string();
        definitions.push(Dialect::ALL.map(definition).join("\n"));
    }
    assert!(definitions.iter().all(|one| *one == definitions[0]));
    // The contract of a chain of thought does not contain its reasoning.
    assert!(!definitions[0].contains("reasoning"));
}

#[tokio::test]
async fn a_hybrid_calls_its_model_only_for_unknown_inputs() {
    let latin = DetectLanguage { text: "ave".to_owned() };
    let module = Hybrid {
        code: ByArticle,
        model: AnyModule::new(
            Predict::<DetectLanguage>::new(model(r#"{"result": "Latin"}"#)).unwrap(),
        ),
    };
    assert_eq!(module.call(latin, &Context::default()).await.unwrap(), "Latin");
    assert_eq!(ask(&module).await, "German");
}

#[tokio::test]
async fn modules_of_one_signature_are_equal_tools() {
    let cx = Context::default();
    let first = Tool::new(ByArticle).unwrap();
    for (who, module) in everyone() {
        let tool = Tool::new(module).unwrap();
        for dialect in Dialect::ALL {
            assert_eq!(
                tool.contract().tool(dialect).unwrap().to_string(),
                first.contract().tool(dialect).unwrap().to_string(),
                "{who}"
            );
        }
        assert_eq!(tool.contract().fingerprint(), first.contract().fingerprint(), "{who}");
        let output = tool.call(r#"{"text": "der Hund"}"#, &cx).await.unwrap();
        assert_eq!(output.text, "German", "{who}");
    }
}

#[tokio::test]
async fn a_tool_of_code_needs_no_model_in_tests() {
    let tool = Tool::new(ByArticle).unwrap();
    let output = tool.call(r#"{"text": "the dog"}"#, &Context::default()).await.unwrap();
    assert_eq!(output.text, "unknown");
}

#[test]
fn the_default_effect_is_write_and_that_of_a_predictor_is_read() {
    struct Silent;
    impl Module for Silent {
        type Signature = DetectLanguage;
        async fn call(&self, _: DetectLanguage, _: &Context) -> Result<String> {
            Ok(String::new())
        }
    }
    let closure = || from_fn(async |_: DetectLanguage| Ok(String::new()));
    assert_eq!(Silent.effect(), Effect::Write);
    assert_eq!(closure().effect(), Effect::Write);
    assert_eq!(hybrid().effect(), Effect::Write);
    assert_eq!(by_model().effect(), Effect::Read);
    assert_eq!(by_thinking().effect(), Effect::Read);

    // Wrappers return the effect of their module.
    let deletes = || closure().with_effect(Effect::Irreversible);
    assert_eq!(Arc::new(deletes()).effect(), Effect::Irreversible);
    assert_eq!(AnyModule::new(deletes()).effect(), Effect::Irreversible);
    assert_eq!(Tool::new(deletes()).unwrap().effect(), Effect::Irreversible);
    let careful = Tool::new(by_model()).unwrap().with_effect(Effect::Write);
    assert_eq!(careful.effect(), Effect::Write);
}

/// Answer with as many words as there are.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Nothing {}

impl Signature for Nothing {
    type Output = ();
}

#[tokio::test]
async fn a_signature_may_have_an_empty_input_and_output() {
    let code = from_fn(async |_: Nothing| Ok(()));
    let by_model = Predict::<Nothing>::new(SchemaDriven::default()).unwrap();
    code.call(Nothing {}, &Context::default()).await.unwrap();
    by_model.call(Nothing {}, &Context::default()).await.unwrap();
    let output = Tool::new(code).unwrap().call("{}", &Context::default()).await.unwrap();
    assert_eq!(output.text, "null");
}

#[tokio::test]
async fn each_tool_may_have_its_own_model_and_technique() {
    let tools = [
        Tool::new(by_model()).unwrap().named("by_model").unwrap(),
        Tool::new(by_thinking()).unwrap().named("by_thinking").unwrap(),
        Tool::new(ByArticle).unwrap().named("by_code").unwrap(),
    ];
    for tool in tools {
        let output = tool.call(r#"{"text": "der Hund"}"#, &Context::default()).await.unwrap();
        assert_eq!(output.text, "German", "{tool:?}");
    }
}

/// Rate how a text sounds.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Rate {
    text: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Rating {
    #[schemars(range(min = 1, max = 5))]
    stars: u8,
}

impl Signature for Rate {
    type Output = Rating;
}

/// The compiler checks the output type of code. An answer of a model or a server is checked against
/// the schema, including its limits.
#[tokio::test]
async fn a_foreign_output_is_checked_against_the_output_schema() {
    let rate = || Rate { text: "What a day!".to_owned() };
    for wrong in [r#"{"stars": 9}"#, r#"{"stars": "many"}"#, "{}", "five"] {
        let predict = Predict::<Rate>::new(model(wrong)).unwrap();
        let error = predict.call(rate(), &Context::default()).await.unwrap_err();
        assert_eq!(error.stage(), Stage::Validation, "{wrong}");
        // As a tool it has no output text, so the model above does not see the wrong output.
        let tool = Tool::new(predict).unwrap();
        let error = tool.call(r#"{"text": ""}"#, &Context::default()).await.unwrap_err();
        assert_eq!(error.stage(), Stage::Validation, "{wrong}");
        assert!(!error.for_model().contains("stars"), "{}", error.for_model());
    }
    let nine = r#"{"reasoning": "", "output": {"stars": 9}}"#;
    let error = ChainOfThought::<Rate>::new(model(nine))
        .unwrap()
        .call(rate(), &Context::default())
        .await
        .unwrap_err();
    assert_eq!(error.stage(), Stage::Validation);
    let predict = Predict::<Rate>::new(model(r#"{"stars": 5}"#)).unwrap();
    assert_eq!(predict.call(rate(), &Context::default()).await.unwrap(), Rating { stars: 5 });

    let contract = Contract::of::<Rate>().unwrap();
    let read = |answer| contract.read_output::<Rating>(answer);
    assert_eq!(read(r#"{"stars": 5}"#).unwrap(), Rating { stars: 5 });
    assert_eq!(
        read(r#"{"stars": 0}"#).unwrap_err().to_string(),
        "output of `rate` does not fit: $.stars: expected an integer from 1 to 5, got the number 0"
    );

    // The same for a schema without a Rust type.
    let described = contract.output_to_write().unwrap().clone();
    let input = serde_json::json!({"type": "object"});
    let remote = Contract::dynamic("rate", "Rate.", input, Some(described)).unwrap();
    let read = |answer| remote.read_output::<serde_json::Value>(answer);
    assert_eq!(read(r#"{"stars": 5}"#).unwrap(), serde_json::json!({"stars": 5}));
    assert!(read(r#"{"stars": 9}"#).is_err());
}

/// Only the edge knows the rules that a type does not enforce.
#[tokio::test]
async fn the_output_of_code_is_checked_by_its_tool_and_not_by_a_direct_call() {
    let rate = from_fn(|_: Rate| async { Ok(Rating { stars: 9 }) });
    let cx = Context::default();
    let given = rate.call(Rate { text: String::new() }, &cx).await.unwrap();
    assert_eq!(given, Rating { stars: 9 });
    let error = Tool::new(rate).unwrap().call(r#"{"text": ""}"#, &cx).await.unwrap_err();
    assert!(format!("{error:#}").contains("$.stars"), "{error:#}");
    let json = serde_json::to_string(&given).unwrap();
    assert!(Contract::of::<Rate>().unwrap().check_output(&json).is_err());
}
