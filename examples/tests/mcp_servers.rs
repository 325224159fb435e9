//! The tools of real MCP servers, called by a model: see `toolsets/mcp/tests/servers.sh`.

#[path = "../../toolsets/mcp/tests/servers/real.rs"]
mod real;

use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use real::{
    Case, EVERYTHING, Expected, FILESYSTEM, HTTP, Kind, MEMORY, PYTHON, PYTHON_2025, Real, closes,
    connect, soon,
};
use toolwright_module::message::ToolResult;
use toolwright_module::model::Capabilities;
use toolwright_module::testing::Scripted;
use toolwright_module::{Context, LanguageModel, Message, Reply, Tool, ToolCall};
use toolwright_orchestrator::{Agent, Limits};
use toolwright_signature::Dialect;

/// A default that null hides is lost in the strict dialect, and listed as lost: this is what
/// becomes of it (see `lowering.rs`).
const LOST: (&str, &str) = ("int 7 None True", "int 7 None None");

/// A model that makes these calls, one a turn, as it would write them for its provider.
fn model(tools: &[Tool], cases: &[Case], dialect: Dialect) -> impl LanguageModel {
    let call = |(index, case): (usize, &Case)| {
        let tool = tools.iter().find(|tool| tool.name() == case.tool).unwrap();
        let written = tool.contract().lower_value(dialect, &case.arguments);
        // What does not fit the tool is sent as it is.
        let arguments = written.ok().filter(|_| case.is_sent());
        let arguments = arguments.unwrap_or_else(|| case.arguments.clone()).to_string();
        Reply::calls([ToolCall::new(format!("call_{index}"), &*case.tool, arguments)])
    };
    let mut replies: Vec<Reply> = cases.iter().enumerate().map(call).collect();
    replies.push(Reply::text("done"));
    let next = AtomicUsize::new(0);
    Scripted::new(move |_| Ok(replies[next.fetch_add(1, Ordering::Relaxed)].clone()))
        .with_capabilities(Capabilities { tools: true, ..Capabilities::new(dialect) })
}

/// Whether the model was told what the server says.
fn is_expected(case: &Case, result: &ToolResult, dialect: Dialect) -> bool {
    let shown = format!("{} {:?}", result.text, result.parts);
    match &case.expected {
        Expected::Refused(part) => result.failed && shown.contains(part),
        Expected::Fails(part) => result.failed && shown.contains(part),
        Expected::Answer(part, _) if part == LOST.0 && dialect == Dialect::OpenAiStrict => {
            !result.failed && shown.contains(LOST.1)
        }
        // What the server wrote for models is shown to them, and not the value beside it.
        Expected::Answer(part, value) => {
            let beside = value.as_ref().is_some_and(|value| value.to_string().contains(part));
            !result.failed && (shown.contains(part) || beside)
        }
    }
}

/// Has a model call all tools that its provider can be sent, and says which it cannot.
async fn calls_them_all(kind: Kind, dialect: Dialect) -> Vec<String> {
    let real = Real::new(kind);
    let client = if kind.http { real.client() } else { real.overheard() };
    let remote = connect(client, kind).await;
    let (tools, refused): (Vec<Tool>, Vec<Tool>) =
        remote.tools().into_iter().partition(|tool| tool.contract().lower(dialect).is_ok());
    let names: Vec<&str> = tools.iter().map(Tool::name).collect();
    let cases = Case::all(kind.name, &names);
    let script = || model(&tools, &cases, dialect);
    for tool in &refused {
        // Found when an agent is made.
        let with_it = tools.iter().chain([tool]).cloned();
        let error = Agent::new(script(), with_it).unwrap_err().to_string();
        assert!(error.contains(&format!("`{}`", tool.name())), "{error}");
    }

    let limits = Limits { max_iterations: 1000, max_same_failures: 1000, ..Limits::default() };
    let agent = Agent::new(script(), tools.clone()).unwrap().with_limits(limits);
    let cx = Context::default();
    let finished = soon(kind, agent.run("Call them all.", &cx)).await.unwrap();
    assert_eq!(finished.answer, "done");
    let results = finished.history.iter().filter_map(|message| match &**message {
        Message::Tool(result) => Some(result),
        _ => None,
    });
    let results: Vec<&ToolResult> = results.collect();
    assert_eq!(results.len(), cases.len(), "{kind}, {dialect}");
    let mut wrong = String::new();
    for (case, result) in cases.iter().zip(results) {
        if !is_expected(case, result, dialect) {
            writeln!(wrong, "{} {}: {result:?}", case.tool, case.arguments).unwrap();
        }
    }
    assert_eq!(wrong, "", "{kind}, {dialect}");
    let sent = cases.iter().filter(|case| case.is_sent()).count();
    if !kind.http {
        assert_eq!(real.sent("tools/call"), sent, "{kind}, {dialect}");
    }
    assert_eq!(finished.tools_used, names, "{kind}, {dialect}");
    let refusals = cases.len() - sent;
    println!("{kind}, {dialect}: {} tools, {sent} calls, {refusals} refusals", tools.len());
    closes(&real, remote).await;
    refused.iter().map(|tool| tool.name().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the servers of toolsets/mcp/tests/servers.sh"]
async fn a_model_of_any_provider_calls_every_tool_that_its_provider_can_be_sent() {
    let mut refused = String::new();
    for kind in [EVERYTHING, MEMORY, FILESYSTEM, PYTHON] {
        for dialect in [Dialect::OpenAiStrict, Dialect::Anthropic, Dialect::Gemini] {
            for tool in calls_them_all(kind, dialect).await {
                writeln!(refused, "{dialect}: {tool}").unwrap();
            }
        }
    }
    // What holds itself or is any value at all is sent without `strict`.
    assert_eq!(refused, "");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the servers of toolsets/mcp/tests/servers.sh"]
async fn a_model_that_takes_any_schema_calls_every_tool_however_the_server_is_reached() {
    for kind in HTTP.into_iter().chain([PYTHON_2025, PYTHON]) {
        assert_eq!(calls_them_all(kind, Dialect::JsonSchema2020).await, [""; 0], "{kind}");
    }
}
