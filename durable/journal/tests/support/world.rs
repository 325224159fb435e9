//! Agents and counters that the tests of the homes of runs share.
#![allow(dead_code, reason = "no home needs all of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::model::Usage;
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Context, Effect, LanguageModel, Message, Reply, Request, Result, Signature, Tool, ToolCall,
    from_fn,
};
use toolwright_orchestrator::Agent;

/// The task of most runs.
pub(crate) const TASK: &str = "Tidy up.";

/// Look at a place.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Look {
    /// Where to look.
    pub(crate) place: String,
}

impl Signature for Look {
    type Output = String;
}

/// What really happened.
#[derive(Debug, Clone, Default)]
pub(crate) struct World(Arc<[AtomicUsize; 4]>);

/// The number of questions, reads, writes and approvals.
pub(crate) type Counts = [usize; 4];

impl World {
    pub(crate) fn counts(&self) -> Counts {
        [0, 1, 2, 3].map(|what| self.0[what].load(Ordering::SeqCst))
    }

    pub(crate) fn add(&self, what: usize) {
        self.0[what].fetch_add(1, Ordering::SeqCst);
    }

    /// Returns a model whose reply depends on the conversation, and not on how often it was asked.
    pub(crate) fn model<const N: usize>(&self, said: [Reply; N]) -> impl LanguageModel + use<N> {
        let world = self.clone();
        Scripted::new(move |request: &Request| {
            world.add(0);
            let replied = |message: &&Arc<Message>| matches!(***message, Message::Assistant { .. });
            let nth = request.messages.iter().filter(replied).count();
            Ok(said[nth].clone().with_usage(Usage::new(10, 2)))
        })
    }

    /// Returns a tool that reads.
    pub(crate) fn look(&self) -> Tool {
        self.look_for(Duration::ZERO)
    }

    /// Returns a tool that reads for a while.
    pub(crate) fn look_for(&self, time: Duration) -> Tool {
        let world = self.clone();
        tool("look", Effect::Read, move |look| {
            world.add(1);
            async move {
                if !time.is_zero() {
                    tokio::time::sleep(time).await;
                }
                Ok(format!("{} is empty", look.place))
            }
        })
    }

    /// Returns a tool that writes.
    pub(crate) fn tidy(&self) -> Tool {
        let world = self.clone();
        tool("tidy", Effect::Write, move |look| {
            world.add(2);
            async move { Ok(format!("{} is tidy", look.place)) }
        })
    }

    /// Returns an agent with these tools that reads once and writes once.
    pub(crate) fn agent(&self, tools: [Tool; 2]) -> Agent {
        let said = [
            calls([("a", "look", "the hall")]),
            calls([("b", "tidy", "the hall")]),
            Reply::text("Done."),
        ];
        Agent::new(self.model(said), tools).unwrap()
    }

    /// Returns an agent that reads once and writes once.
    pub(crate) fn small(&self) -> Agent {
        self.agent([self.look(), self.tidy()])
    }

    /// Returns an agent with three reads side by side, two agents below side by side that read and
    /// write, and a write.
    pub(crate) fn house(&self) -> Agent {
        let below = |name: &str| {
            let said = [
                calls([("x", "look", name)]),
                calls([("y", "tidy", name)]),
                Reply::text(format!("The {name} is done.")),
            ];
            let agent = Agent::new(self.model(said), [self.look(), self.tidy()]).unwrap();
            // As one that reads, so that both run side by side.
            Tool::new(agent).unwrap().with_effect(Effect::Read).named(name).unwrap()
        };
        let task = |id: &str, name: &str| ToolCall::new(id, name, r#"{"task": "Do it."}"#);
        let said = [
            calls([("a", "look", "1"), ("b", "look", "2"), ("c", "look", "3")]),
            Reply::calls([task("h", "hall"), task("k", "kitchen")]),
            calls([("d", "tidy", "the rest")]),
            Reply::text("Done."),
        ];
        let tools = [self.look(), self.tidy(), below("hall"), below("kitchen")];
        Agent::new(self.model(said), tools).unwrap()
    }

    /// Returns a context whose approver lets calls be made again.
    pub(crate) fn cx(&self) -> Context {
        let world = self.clone();
        Context::default().with_approver(move |asked: Approval| {
            world.add(3);
            async move {
                assert!(asked.unknown);
                Ok(Decision::CallAgain)
            }
        })
    }
}

pub(crate) fn tool<F, Fut>(name: &str, effect: Effect, work: F) -> Tool
where
    F: Fn(Look) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String>> + Send + 'static,
{
    Tool::new(from_fn(work).with_effect(effect)).unwrap().named(name).unwrap()
}

pub(crate) fn call(id: &str, name: &str, place: &str) -> ToolCall {
    ToolCall::new(id, name, serde_json::json!({ "place": place }).to_string())
}

pub(crate) fn calls<const N: usize>(calls: [(&str, &str, &str); N]) -> Reply {
    Reply::calls(calls.map(|(id, name, place)| call(id, name, place)))
}
