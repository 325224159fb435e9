//! A reply that has only calls and results of tools of the server is not an answer: the model is
//! asked again.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_anthropic::Anthropic;
use toolwright_gemini::Gemini;
use toolwright_module::{Context, LanguageModel, Module, Predict, Signature};
use toolwright_orchestrator::Agent;

use crate::listener::Listener;

/// The second reply, which is also JSON, as a prediction expects it.
const ANSWER: &str = r#""Three.""#;

/// Add the numbers.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Add {
    numbers: Vec<u64>,
}

impl Signature for Add {
    type Output = String;
}

/// Each provider's model, and its replies without and with an answer.
fn providers(url: &str) -> [(Arc<dyn LanguageModel>, [Value; 2]); 2] {
    let anthropic = Anthropic::at(&format!("{url}/v1"), "claude-sonnet-4-5").unwrap();
    let message = |content: Value| {
        json!({
            "type": "message", "role": "assistant", "content": content,
            "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 2},
        })
    };
    let hosted = json!([
        {"type": "server_tool_use", "id": "s1", "name": "code_execution", "input": {"code": "1 + 2"}},
        {"type": "code_execution_tool_result", "tool_use_id": "s1", "content": {"stdout": "3"}},
    ]);
    let of_anthropic = [message(hosted), message(json!([{"type": "text", "text": ANSWER}]))];

    let gemini = Gemini::at(&format!("{url}/v1beta"), "gemini-3-flash").unwrap();
    let candidate = |parts: Value| {
        json!({
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2},
        })
    };
    let hosted = json!([
        {"executableCode": {"language": "PYTHON", "code": "print(1 + 2)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "3"}},
    ]);
    let of_gemini = [candidate(hosted), candidate(json!([{"text": ANSWER}]))];
    [(Arc::new(anthropic), of_anthropic), (Arc::new(gemini), of_gemini)]
}

#[tokio::test]
async fn an_agent_asks_again_and_the_hosted_parts_stay_in_the_conversation() {
    let server = Listener::start();
    for (model, replies) in providers(&server.url) {
        replies.into_iter().for_each(|reply| server.answer(reply));
        let agent = Agent::new(model, []).unwrap();
        let finished = agent.run("Add 1 and 2.", &Context::default()).await.unwrap();
        assert_eq!(finished.answer, ANSWER);
        let second = server.bodies().pop().unwrap().to_string();
        assert!(second.contains("1 + 2") && second.contains("Your answer was empty."), "{second}");
    }
}

#[tokio::test]
async fn a_prediction_asks_again() {
    let server = Listener::start();
    for (model, replies) in providers(&server.url) {
        replies.into_iter().for_each(|reply| server.answer(reply));
        let add = Predict::<Add>::new(model).unwrap();
        let answer = add.call(Add { numbers: vec![1, 2] }, &Context::default()).await;
        assert_eq!(answer.unwrap(), "Three.");
        assert_eq!(server.bodies().len(), 2);
    }
}
