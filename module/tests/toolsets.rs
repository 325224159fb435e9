//! Toolsets: a plain struct that shares state and lists its tools.

use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::error::{Audience, Stage};
use toolwright_module::testing::SchemaDriven;
use toolwright_module::{
    Context, Dialect, Effect, LanguageModel, Message, Module, Request, Result, Signature, Tool,
    from_fn,
};

/// Does something.
#[derive(Serialize, Deserialize, JsonSchema)]
struct OperationOne {
    input: String,
}

impl Signature for OperationOne {
    type Output = String;
}

/// Does something else.
#[derive(Serialize, Deserialize, JsonSchema)]
struct OperationTwo {
    value: String,
    optional: Option<String>,
}

impl Signature for OperationTwo {
    type Output = String;
}

/// Not for models.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Reset {}

impl Signature for Reset {
    type Output = String;
}

/// The state that the tools of one instance share.
#[derive(Clone, Default)]
struct MyTools {
    done: Arc<Mutex<Vec<String>>>,
}

impl MyTools {
    fn tools(&self) -> Result<Vec<Tool>, toolwright_signature::ContractError> {
        let (one, two) = (self.clone(), self.clone());
        let one = from_fn(move |ask: OperationOne| {
            let done = one.record(ask.input);
            async move { Ok(done) }
        });
        let two = from_fn(move |ask: OperationTwo| {
            let done = two.record(ask.value + ask.optional.as_deref().unwrap_or("!"));
            async move { Ok(done) }
        });
        [Tool::new(one)?, Tool::new(two)?]
            .map(|tool| tool.prefixed("my_tools"))
            .into_iter()
            .collect()
    }

    /// A public module that `tools` does not list.
    fn reset(&self) -> impl Module<Signature = Reset> + use<> {
        let my = self.clone();
        from_fn(move |_: Reset| {
            my.done.lock().unwrap().clear();
            async { Ok(String::new()) }
        })
    }

    fn record(&self, what: String) -> String {
        let mut done = self.done.lock().unwrap();
        done.push(what);
        done.join(", ")
    }
}

fn names(tools: &[Tool]) -> Vec<&str> {
    tools.iter().map(Tool::name).collect()
}

async fn call(tool: &Tool, arguments: &str) -> String {
    tool.call(arguments, &Context::default()).await.unwrap().text
}

#[test]
fn the_tools_of_a_toolset_have_one_prefix_and_a_fixed_order() {
    let tools = MyTools::default().tools().unwrap();
    assert_eq!(names(&tools), ["my_tools_operation_one", "my_tools_operation_two"]);
    let two = tools[1].contract();
    assert_eq!(two.description(), "Does something else.");
    assert_eq!(two.input()["required"], serde_json::json!(["value"]));
}

/// Calls a tool and checks its answer.
async fn behaves(tool: &Tool) {
    for dialect in Dialect::ALL {
        let shown = tool.contract().tool(dialect).unwrap().to_string();
        assert!(shown.contains(tool.name()), "{dialect}: {shown}");
    }
    let cx = Context::default();
    for wrong in ["", "[]", "not JSON", r#"{"input": 1, "value": {}, "sql": []}"#] {
        let error = tool.call(wrong, &cx).await.unwrap_err();
        assert_eq!(error.stage(), Stage::Arguments, "{wrong}");
        assert_eq!(error.audience(), Audience::ModelMayRetry, "{wrong}");
        assert!(error.for_model().contains(tool.name()), "{}", error.for_model());
    }
    let request = Request::new([Message::user("Go.")]).with_tools([Arc::clone(tool.contract())]);
    let reply = SchemaDriven::default().generate(&request).await.unwrap();
    let arguments = &reply.tool_calls().next().unwrap().arguments;
    assert!(tool.call(arguments, &cx).await.unwrap().value().unwrap().is_some());
}

#[tokio::test]
async fn a_tool_of_a_toolset_is_an_ordinary_tool() {
    behaves(&query()).await;
    for tool in MyTools::default().tools().unwrap() {
        behaves(&tool).await;
    }
}

#[tokio::test]
async fn the_tools_of_one_instance_share_only_its_state() {
    let mine = MyTools::default();
    let (tools, yours) = (mine.tools().unwrap(), MyTools::default().tools().unwrap());
    assert_eq!(call(&tools[0], r#"{"input": "a"}"#).await, "a");
    assert_eq!(call(&tools[1], r#"{"value": "b", "optional": "c"}"#).await, "a, bc");
    assert_eq!(call(&yours[1], r#"{"value": "b"}"#).await, "b!");
    // A second list has tools of the same instance.
    assert_eq!(call(&mine.tools().unwrap()[0], r#"{"input": "d"}"#).await, "a, bc, d");
}

#[tokio::test]
async fn a_method_that_a_toolset_does_not_list_is_not_a_tool() {
    let mine = MyTools::default();
    let tools = mine.tools().unwrap();
    assert!(!names(&tools).iter().any(|name| name.contains("reset") || name.contains("record")));
    call(&tools[0], r#"{"input": "a"}"#).await;
    mine.reset().call(Reset {}, &Context::default()).await.unwrap();
    assert_eq!(call(&tools[0], r#"{"input": "b"}"#).await, "b");
}

/// Query the database.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Query {
    sql: String,
}

impl Signature for Query {
    type Output = String;
}

fn query() -> Tool {
    let query = from_fn(async |query: Query| Ok(query.sql)).with_effect(Effect::Read);
    Tool::new(query).unwrap()
}

#[tokio::test]
async fn a_prefix_changes_only_the_name() {
    let tool = query().prefixed("db").unwrap();
    assert_eq!(tool.name(), "db_query");
    assert_eq!(
        (tool.contract().description(), tool.effect()),
        ("Query the database.", Effect::Read)
    );
    assert_eq!(call(&tool, r#"{"sql": "SELECT 1"}"#).await, "SELECT 1");
    // An explicit name may have the prefix or not.
    let search = query().named("custom_search").unwrap();
    assert_eq!(search.name(), "custom_search");
    assert_eq!(search.prefixed("db").unwrap().name(), "db_custom_search");
}

#[test]
fn a_prefix_that_makes_an_invalid_name_is_rejected() {
    let long = "x".repeat(60);
    for (prefix, reported) in [
        ("", "it is empty; give it 1 to 64 characters of A-Z a-z 0-9 _ -"),
        ("my tools", "' ' is not allowed; use only A-Z a-z 0-9 _ -"),
        (long.as_str(), "it has 66 characters, providers accept 64; shorten it"),
    ] {
        let error = query().prefixed(prefix).unwrap_err();
        assert!(error.to_string().contains(reported), "{error}");
    }
}

#[test]
fn an_agent_is_given_some_tools_of_a_toolset_by_their_names() {
    let tools = MyTools::default().tools().unwrap();
    let allowed = ["my_tools_operation_two"];
    let some: Vec<Tool> = tools.into_iter().filter(|tool| allowed.contains(&tool.name())).collect();
    assert_eq!(names(&some), allowed);
}

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Priority {
    Low,
    Medium,
    High,
    Critical,
}

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Status {
    Pending,
    InProgress,
    Completed,
}

/// The value as it is on the wire.
fn wire(value: impl Serialize) -> Result<String> {
    Ok(serde_json::to_value(value)?.as_str().unwrap_or_default().to_owned())
}

/// Change priority and status of a task.
#[derive(Serialize, Deserialize, JsonSchema)]
struct UpdateTask {
    priority: Priority,
    status: Status,
}

impl Signature for UpdateTask {
    type Output = String;
}

/// The descriptions are those of the seed.
#[tokio::test]
async fn update_task_returns_the_updated_fields() {
    let update = from_fn(async |UpdateTask { priority, status }: UpdateTask| {
        Ok(format!("Updated to {} priority with {} status", wire(priority)?, wire(status)?))
    });
    let tool = Tool::new(update).unwrap();
    let said = call(&tool, r#"{"priority": "critical", "status": "in-progress"}"#).await;
    assert_eq!(said, "Updated to critical priority with in-progress status");
}

/// Create a task.
#[derive(Serialize, Deserialize, JsonSchema)]
struct CreateTask {
    task: TaskRequest,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct TaskRequest {
    title: String,
    description: String,
    status: Status,
    metadata: TaskMetadata,
    assignees: Vec<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct TaskMetadata {
    id: String,
    priority: Priority,
    tags: Vec<String>,
    estimated_hours: Option<f64>,
}

impl Signature for CreateTask {
    type Output = String;
}

/// The descriptions are those of the seed.
#[tokio::test]
async fn create_task_reads_nested_structs() {
    let create = from_fn(async |CreateTask { task }: CreateTask| {
        assert!(task.metadata.estimated_hours.is_none());
        Ok(format!("Created: {} ({})", task.title, wire(task.status)?))
    });
    let arguments = r#"{"task": {"title": "Write", "description": "A page.", "status": "pending",
        "metadata": {"id": "1", "priority": "low", "tags": []}, "assignees": ["Kate"]}}"#;
    assert_eq!(call(&Tool::new(create).unwrap(), arguments).await, "Created: Write (pending)");
}
