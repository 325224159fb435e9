//! The four clients of the same run, and their common data.

use toolwright_module::Context;
use toolwright_openai::OpenAi;
use toolwright_orchestrator::Agent;
use toolwright_signature::Dialect;

use crate::add::{Add, Sum, add};
use crate::by_hand::{Byot, Reqwest, Typed};

/// Tool steps in a run; the server counts them.
pub(crate) const STEPS: usize = 5;

const TASK: &str = "Add up all numbers from one to six.";

pub(crate) const NAMES: [&str; 4] =
    ["reqwest + serde", "async-openai byot", "async-openai typed", "toolwright"];

pub(crate) struct Clients {
    reqwest: Reqwest,
    byot: Byot,
    typed: Typed,
    agent: Agent,
}

impl Clients {
    pub(crate) fn new(base_url: &str) -> Self {
        let tool = add();
        let definition = tool.contract().tool(Dialect::OpenAiLoose).unwrap();
        let model = OpenAi::at(base_url, "bench").unwrap();
        Self {
            reqwest: Reqwest::new(base_url, &definition),
            byot: Byot::new(base_url, &definition),
            typed: Typed::new(base_url, &definition),
            agent: Agent::new(model, [tool]).unwrap(),
        }
    }

    /// Makes a run with the client at this index of [`NAMES`].
    pub(crate) async fn run(&self, client: usize) {
        let answer = match client {
            0 => self.reqwest.run(TASK).await,
            1 => self.byot.run(TASK).await,
            2 => self.typed.run(TASK).await,
            _ => self.agent.run(TASK, &Context::default()).await.unwrap().answer,
        };
        assert_eq!(answer, "The sum is 21.");
    }
}

/// Dispatch by hand: calls a tool by its name, with JSON arguments.
pub(crate) fn dispatch_by_hand(name: &str, arguments: &str) -> String {
    match name {
        "add" => {
            let Add { a, b } = serde_json::from_str(arguments).unwrap();
            serde_json::to_string(&Sum { sum: a + b }).unwrap()
        }
        other => panic!("no tool {other}"),
    }
}

pub(crate) const ARGUMENTS: &str = r#"{"a": 20, "b": 1}"#;
