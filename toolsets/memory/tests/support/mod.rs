//! Helpers of the tests: calling a tool, and reading its output.

use toolwright_memory::{Memory, Metadata};
use toolwright_module::{Context, Result, Tool, ToolOutput};

/// Runs `work` on this thread.
pub(crate) fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

/// Calls a tool of `memory` as a model does.
pub(crate) async fn call(memory: &Memory, name: &str, arguments: &str) -> Result<ToolOutput> {
    tool(memory, name).call(arguments, &Context::default()).await
}

/// Calls a tool and returns the text for the model.
pub(crate) async fn text(memory: &Memory, name: &str, arguments: &str) -> String {
    let output = call(memory, name, arguments).await.unwrap();
    output.text
}

pub(crate) fn tool(memory: &Memory, name: &str) -> Tool {
    let mut tools = memory.tools().unwrap().into_iter();
    tools.find(|tool| tool.contract().name() == name).unwrap()
}

pub(crate) async fn store(memory: &Memory, key: &str, value: &str, tags: &[&str]) {
    let tags = tags.iter().map(|&tag| tag.to_owned()).collect();
    memory.store(key, value, Some(tags)).await.unwrap();
}

pub(crate) async fn retrieve(memory: &Memory, key: &str) -> Option<String> {
    memory.retrieve(key).await.unwrap()
}

pub(crate) async fn metadata(memory: &Memory, key: &str) -> Option<Metadata> {
    memory.get_metadata(key).await.unwrap()
}
