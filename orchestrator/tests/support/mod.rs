//! Signatures, tools and models that the tests share, and a readable form of conversations.

use std::fmt::Write as _;
use std::future::{Future, pending};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use toolwright_module::model::Settings;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::budget::Budget;
use toolwright_module::message::{Part, ReplyPart};
use toolwright_module::model::{BoxFuture, Capabilities};
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Context, Dialect, Effect, LanguageModel, Message, Reply, Request, Result, Signature, Tool,
    ToolCall, from_fn,
};
use toolwright_orchestrator::{Agent, Finished, Limits, ReAct, RunError};

/// Look at a place.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Look {
    /// Where to look.
    pub(crate) place: String,
}

impl Signature for Look {
    type Output = String;
}

/// Returns a tool with this name, effect and work.
pub(crate) fn tool<F, Fut>(name: &str, effect: Effect, work: F) -> Tool
where
    F: Fn(Look) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String>> + Send + 'static,
{
    let module = from_fn(work).with_effect(effect);
    Tool::new(module).unwrap().named(name).unwrap()
}

/// Returns a tool that reads.
pub(crate) fn look() -> Tool {
    tool("look", Effect::Read, async |look: Look| Ok(format!("{} is empty", look.place)))
}

/// Returns a tool that writes.
pub(crate) fn tidy() -> Tool {
    tool("tidy", Effect::Write, async |look: Look| Ok(format!("{} is tidy", look.place)))
}

/// Returns a call with a place as its argument.
pub(crate) fn call(id: &str, name: &str, place: &str) -> ToolCall {
    ToolCall::new(id, name, serde_json::json!({ "place": place }).to_string())
}

/// Returns a reply with these calls.
pub(crate) fn calls<const N: usize>(calls: [(&str, &str, &str); N]) -> Reply {
    Reply::calls(calls.map(|(id, name, place)| call(id, name, place)))
}

/// The requests that a model got.
#[derive(Clone, Default)]
pub(crate) struct Asked(Arc<Mutex<Vec<Request>>>);

impl Asked {
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.0.lock().unwrap().clone()
    }
}

/// Returns a model that gives these replies in order, and its requests.
pub(crate) fn replies(
    replies: impl IntoIterator<Item = Reply>,
) -> (impl LanguageModel + Clone, Asked) {
    let asked = Asked::default();
    let kept = asked.clone();
    let replies: Vec<Reply> = replies.into_iter().collect();
    let model = Scripted::new(move |request: &Request| -> Result<Reply> {
        let mut requests = kept.0.lock().unwrap();
        requests.push(request.clone());
        Ok(replies.get(requests.len() - 1).expect("one more reply in the script").clone())
    });
    (Arc::new(model), asked)
}

/// Returns an agent with these tools and a model that gives these replies.
pub(crate) fn agent(
    tools: impl IntoIterator<Item = Tool>,
    said: impl IntoIterator<Item = Reply>,
) -> (Agent, Asked) {
    let (model, asked) = replies(said);
    (Agent::new(model, tools).unwrap(), asked)
}

/// Returns a module on an agent with this model and these tools.
pub(crate) fn react<S: Signature>(
    model: impl LanguageModel,
    tools: impl IntoIterator<Item = Tool>,
) -> Result<ReAct<S>, RunError> {
    ReAct::new(Agent::new(model, tools)?)
}

/// Runs an input to its output.
pub(crate) async fn act<S: Signature>(
    react: &ReAct<S>,
    input: S,
    cx: &Context,
) -> Result<Finished<S::Output>> {
    react.agent().run(react.task(&input).unwrap(), cx).await
}

/// The number of calls in progress.
#[derive(Clone, Default)]
pub(crate) struct Working(Arc<AtomicUsize>);

impl Working {
    pub(crate) fn now(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn begin(&self) -> Begun {
        self.0.fetch_add(1, Ordering::SeqCst);
        Begun(self.clone())
    }

    pub(crate) async fn until(&self, n: usize) {
        while self.now() < n {
            tokio::task::yield_now().await;
        }
    }
}

pub(crate) struct Begun(Working);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A model that never answers, and counts its pending calls.
#[derive(Default)]
pub(crate) struct Silent(pub(crate) Working);

impl LanguageModel for Silent {
    fn name(&self) -> &str {
        "silent"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Dialect::JsonSchema2020)
    }

    fn generate<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async {
            let _begun = self.0.begin();
            pending().await
        })
    }
}

/// Returns limits with this budget. Use them with [`ten_tokens`].
pub(crate) fn within(budget: Budget) -> Limits {
    Limits { budget, ..Limits::default() }
}

/// Returns settings with at most ten output tokens per model call.
pub(crate) fn ten_tokens() -> Settings {
    Settings::default().with_max_output_tokens(10)
}

/// Runs a task, and fails instead of hanging.
pub(crate) async fn run(agent: &Agent) -> Finished {
    agent.run("Look after the house.", &soon()).await.unwrap()
}

/// Returns a context with a deadline, so that no test hangs.
pub(crate) fn soon() -> Context {
    Context::default().with_deadline(Instant::now() + Duration::from_secs(5))
}

/// Returns a conversation in a readable form.
pub(crate) fn show(history: &[Arc<Message>]) -> String {
    let mut text = String::new();
    for message in history {
        match &**message {
            Message::System { text: said } => writeln!(text, "system: {said}"),
            Message::User { parts } => {
                writeln!(text, "user: {}", parts.iter().map(part).collect::<String>())
            }
            Message::Assistant { parts } => {
                let said: Vec<String> = parts.iter().map(reply_part).collect();
                writeln!(text, "assistant: {}", said.join(" | "))
            }
            Message::Tool(result) => {
                let failed = if result.failed { " failed" } else { "" };
                writeln!(text, "tool {}{failed}: {}", result.id, result.text)
            }
            other => writeln!(text, "{other:?}"),
        }
        .unwrap();
    }
    text
}

fn part(part: &Part) -> String {
    match part {
        Part::Text(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

fn reply_part(part: &ReplyPart) -> String {
    match part {
        ReplyPart::Text(text) => text.to_string(),
        ReplyPart::Call(call) => format!("{} {}({})", call.id, call.name, call.arguments),
        ReplyPart::Reasoning(reasoning) => format!("[{}]", reasoning.text),
        other => format!("{other:?}"),
    }
}

/// A log of texts in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn write(&self, entry: impl Into<String>) {
        self.0.lock().unwrap().push(entry.into());
    }

    pub(crate) fn entries(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}
