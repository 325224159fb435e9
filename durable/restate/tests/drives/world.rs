//! Agents, and counts of what they really did.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

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

/// Look at a place.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Look {
    /// Where to look.
    pub(crate) place: String,
}

impl Signature for Look {
    type Output = String;
}

/// What really happened, in order: `ask 0`, `look 1`, `tidy 1`, `asked tidy`.
#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    pub(crate) log: Arc<Mutex<Vec<String>>>,
    pub(crate) at_once: Arc<AtomicUsize>,
    pub(crate) most_at_once: Arc<AtomicUsize>,
}

impl World {
    pub(crate) fn note(&self, what: String) {
        self.log.lock().unwrap().push(what);
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.log.lock().unwrap().iter().filter(|noted| *noted == what).count()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = self.log.lock().unwrap().clone();
        names.sort();
        names.dedup();
        names
    }

    /// Returns a model whose reply depends on the conversation, and not on how often it was asked.
    pub(crate) fn model<const N: usize>(
        &self,
        name: &str,
        said: [Reply; N],
    ) -> impl LanguageModel + use<N> {
        let (world, name) = (self.clone(), name.to_owned());
        Scripted::new(move |request: &Request| {
            let replied = |message: &&Arc<Message>| matches!(***message, Message::Assistant { .. });
            let nth = request.messages.iter().filter(replied).count();
            world.note(format!("ask {name} {nth}"));
            Ok(said[nth].clone().with_usage(Usage::new(10, 2)))
        })
    }

    pub(crate) fn tool(&self, name: &str, effect: Effect) -> Tool {
        let (world, named) = (self.clone(), name.to_owned());
        let work = move |look: Look| {
            let (world, name) = (world.clone(), named.clone());
            async move {
                let now = world.at_once.fetch_add(1, Ordering::SeqCst) + 1;
                world.most_at_once.fetch_max(now, Ordering::SeqCst);
                tokio::task::yield_now().await;
                world.at_once.fetch_sub(1, Ordering::SeqCst);
                world.note(format!("{name} {}", look.place));
                Result::Ok(format!("{} is fine", look.place))
            }
        };
        Tool::new(from_fn(work).with_effect(effect)).unwrap().named(name).unwrap()
    }

    pub(crate) fn tools(&self) -> [Tool; 2] {
        [self.tool("look", Effect::Read), self.tool("tidy", Effect::Write)]
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
            let agent = Agent::new(self.model(name, said), self.tools()).unwrap();
            // As one that reads, so that both are in one batch.
            Tool::new(agent).unwrap().with_effect(Effect::Read).named(name).unwrap()
        };
        let task = |id: &str, name: &str| ToolCall::new(id, name, r#"{"task": "Do it."}"#);
        let said = [
            calls([("a", "look", "1"), ("b", "look", "2"), ("c", "look", "3")]),
            Reply::calls([task("h", "hall"), task("k", "kitchen")]),
            calls([("d", "tidy", "the rest")]),
            Reply::text("Done."),
        ];
        let [look, tidy] = self.tools();
        let tools = [look, tidy, below("hall"), below("kitchen")];
        Agent::new(self.model("house", said), tools).unwrap()
    }

    /// Returns a context whose approver lets calls be made again.
    pub(crate) fn cx(&self) -> Context {
        let world = self.clone();
        Context::default().with_approver(move |asked: Approval| {
            let arguments: Look = serde_json::from_str(&asked.call.arguments).unwrap();
            world.note(format!("asked {} {}", asked.call.name, arguments.place));
            async move {
                assert!(asked.unknown);
                Ok(Decision::CallAgain)
            }
        })
    }
}

pub(crate) fn calls<const N: usize>(calls: [(&str, &str, &str); N]) -> Reply {
    Reply::calls(calls.map(|(id, name, place)| {
        ToolCall::new(id, name, serde_json::json!({ "place": place }).to_string())
    }))
}
