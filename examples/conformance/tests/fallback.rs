//! An agent whose first provider fails in the middle of a run goes on with the second one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_conformance::PROVIDERS;
use toolwright_module::model::Fallback;
use toolwright_module::{Context, Signature, Tool, from_fn};
use toolwright_orchestrator::Agent;

use crate::listener::Listener;
use crate::wires::{self, Piece};

/// Look up a word.
#[derive(Serialize, Deserialize, JsonSchema)]
struct LookUp {
    word: String,
}

impl Signature for LookUp {
    type Output = String;
}

#[tokio::test]
async fn a_run_goes_on_with_another_provider_if_the_first_fails() {
    for first in PROVIDERS {
        for second in PROVIDERS {
            let (calls, answers) = (Listener::start(), Listener::start());
            let call = Piece::Call {
                id: "call_1".to_owned(),
                name: "look_up".to_owned(),
                arguments: r#"{"word":"ash"}"#.to_owned(),
                value: "signature".to_owned(),
            };
            calls.answer(wires::reply(first.wire, 1, &[call]));
            answers.answer(wires::reply(second.wire, 2, &[Piece::Text("A tree.".to_owned())]));
            let model = Fallback::new((first.model)(&calls.url).unwrap())
                .or((second.model)(&answers.url).unwrap());
            let look_up = Tool::new(from_fn(async |_: LookUp| Ok("ash: a tree".to_owned())));
            let agent = Agent::new(model, [look_up.unwrap()]).unwrap();
            let finished = agent.run("What is an ash?", &Context::default()).await.unwrap();

            let pair = format!("{}, then {}", first.name, second.name);
            assert_eq!(finished.answer, "A tree.", "{pair}");
            let body = answers.body().unwrap();
            let (calls, results) = wires::pairs(second.wire, &body);
            assert_eq!((calls.len(), results.len()), (1, 1), "{pair}: {body}");
            assert!(body.to_string().contains("ash: a tree"), "{pair}: {body}");
        }
    }
}
