//! Helpers of the tests: calling a tool, and reading its output.

use std::sync::LazyLock;

use serde_json::Value;
use toolwright_module::{Context, Result, Tool, ToolOutput};
use toolwright_text::Text;

/// Runs `work` on this thread.
pub(crate) fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

pub(crate) fn tool(text: &Text, name: &str) -> Tool {
    let mut tools = text.tools().unwrap().into_iter();
    tools.find(|tool| tool.name() == name).unwrap_or_else(|| panic!("there is no {name}"))
}

/// Calls a tool of `text` as a model does.
pub(crate) fn call_in(text: &Text, name: &str, arguments: &Value) -> Result<ToolOutput> {
    wait(tool(text, name).call(&arguments.to_string(), &Context::default()))
}

/// Calls a tool with the default limits.
pub(crate) fn call(name: &str, arguments: Value) -> Result<ToolOutput> {
    // The tools are created once, because property tests make thousands of calls.
    static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| Text::default().tools().unwrap());
    let tool = TOOLS.iter().find(|tool| tool.name() == name).unwrap();
    wait(tool.call(&arguments.to_string(), &Context::default()))
}

/// Calls a tool and returns the text for the model.
pub(crate) fn output(name: &str, arguments: Value) -> String {
    call(name, arguments).unwrap().text
}
