//! AG-UI over real connections. `tests/ag_ui.sh` shows the same service to the real client.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_module::hook::Retry;
use toolwright_module::message::{Part, Reasoning, ReplyPart};
use toolwright_module::model::{Capabilities, Delta, LanguageModel, Reply, Request, Usage};
use toolwright_module::{
    Dialect, Effect, Error, Message, Result, Signature, Tool, ToolCall, from_fn,
};
use toolwright_orchestrator::{Agent, ApprovalPolicy};
use toolwright_serve::Home;

use crate::support::{Server, Stream, asked};

/// A model that does what the user asks for, in pieces.
#[derive(Clone, Default)]
struct Model {
    /// The tasks that failed once.
    failed: Arc<Mutex<BTreeSet<String>>>,
}

impl Model {
    fn is_first(&self, task: &str) -> bool {
        self.failed.lock().unwrap().insert(task.to_owned())
    }

    /// The pieces of the next reply, and the pause before each.
    fn reply(&self, request: &Request) -> (Vec<Result<Delta>>, Duration) {
        let fast = Duration::ZERO;
        if let Some(Message::Tool(result)) = request.messages.last().map(|message| &**message) {
            return (text(&format!("Result: {}", result.text)), fast);
        }
        let call = |name: &str, arguments: Value| (calls("", &[(name, arguments)]), fast);
        match &*asked(request) {
            "think" => {
                let mut pieces = vec![Ok(Delta::Reasoning("Let me ".to_owned()))];
                pieces.push(Ok(Delta::Reasoning("think.".to_owned())));
                pieces.extend(text("Hello Ann, how are you?"));
                if let Some(Ok(Delta::Done(reply))) = pieces.last_mut() {
                    let reasoning = Reasoning::new("small", "Let me think.", Value::Null);
                    reply.parts.insert(0, ReplyPart::Reasoning(reasoning));
                }
                (pieces, fast)
            }
            "unknown" => call("nope", json!({"name": "Ann"})),
            "misfit" => call("look_up", json!({"name": 7})),
            "look" => {
                // With pauses, so that pieces are not read at once.
                let pieces = calls("I look.", &[("look_up", json!({"name": "Ann"}))]);
                (pieces, Duration::from_millis(200))
            }
            "pay" => call("send_money", json!({"to": "Ann", "amount": 5})),
            "pay twice" => {
                let pay = |to: &str| ("send_money", json!({"to": to, "amount": 5}));
                (calls("", &[pay("Ann"), pay("Bob")]), fast)
            }
            "delegate" => call("helper", json!({"task": "pay"})),
            "count" => {
                let numbers: Vec<_> = (0..60).map(|number| number.to_string()).collect();
                (text(&numbers.join(" ")), Duration::from_millis(20))
            }
            "lose" if self.is_first("lose") => {
                let mut pieces = text("This is");
                pieces.pop();
                pieces.push(Err(Error::other("the connection was cut").retryable(true)));
                (pieces, Duration::from_millis(200))
            }
            "fail once" if self.is_first("fail once") => {
                let mut pieces = text("I will");
                pieces.pop();
                pieces.push(Err(Error::other("key sk-secret at db.internal")));
                (pieces, fast)
            }
            "fail" => (vec![Err(Error::other("key sk-secret at db.internal"))], fast),
            "look at this" => {
                let images = request.messages.iter().map(|message| match &**message {
                    Message::User { parts } => {
                        parts.iter().filter(|part| matches!(part, Part::Image(_))).count()
                    }
                    _ => 0,
                });
                (text(&format!("{} image", images.sum::<usize>())), fast)
            }
            other => (text(&format!("You said: {other}")), fast),
        }
    }
}

fn text(text: &str) -> Vec<Result<Delta>> {
    let words = text.split_inclusive(' ').map(|word| Ok(Delta::Text(word.to_owned())));
    let done = Delta::Done(Box::new(with_usage(Reply::text(text))));
    words.chain([Ok(done)]).collect()
}

/// The pieces of a reply with a text, if it is not empty, and calls. Like those of providers, a piece of a
/// call has its place among all parts of the reply.
fn calls(text: &str, calls: &[(&str, Value)]) -> Vec<Result<Delta>> {
    let mut pieces = Vec::new();
    let mut parts = Vec::new();
    if !text.is_empty() {
        pieces.push(Ok(Delta::Text(text.to_owned())));
        parts.push(ReplyPart::text(text));
    }
    for (name, arguments) in calls {
        let (index, arguments) = (parts.len(), arguments.to_string());
        for piece in [&arguments[..4], &arguments[4..]] {
            let (name, arguments) = ((*name).to_owned(), piece.to_owned());
            pieces.push(Ok(Delta::Call { index, name, arguments }));
        }
        parts.push(ReplyPart::Call(ToolCall::new("", *name, arguments)));
    }
    let mut reply = with_usage(Reply::text(""));
    reply.parts = parts;
    pieces.push(Ok(Delta::Done(Box::new(reply))));
    pieces
}

fn with_usage(mut reply: Reply) -> Reply {
    reply.usage = Usage::new(20, 5);
    reply.model = Some("small".to_owned());
    reply
}

impl LanguageModel for Model {
    fn name(&self) -> &str {
        "small"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(Dialect::JsonSchema2020);
        (capabilities.tools, capabilities.images) = (true, true);
        capabilities
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            match self.reply(request).0.pop() {
                Some(Ok(Delta::Done(reply))) => Ok(*reply),
                Some(Err(error)) => Err(error),
                _ => Err(Error::other("the reply has no end")),
            }
        })
    }

    fn stream<'a>(&'a self, request: Request) -> BoxStream<'a, Result<Delta>> {
        let (pieces, pause) = self.reply(&request);
        let pieces = stream::iter(pieces).then(move |piece| async move {
            tokio::time::sleep(pause).await;
            piece
        });
        pieces.boxed()
    }
}

/// Send money.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct SendMoney {
    to: String,
    amount: u32,
}

impl Signature for SendMoney {
    type Output = String;
}

/// Look somebody up.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct LookUp {
    name: String,
}

impl Signature for LookUp {
    type Output = String;
}

async fn server() -> Server {
    server_at(Home::memory()).await
}

async fn server_at(home: Home) -> Server {
    let pay = || {
        let pay = from_fn(async |input: SendMoney| Ok(format!("{} to {}", input.amount, input.to)));
        Tool::new(pay).unwrap().with_effect(Effect::Irreversible)
    };
    let look = from_fn(async |input: LookUp| Ok(format!("{} is here", input.name)));
    let asks = || ApprovalPolicy::from_effect(Effect::Irreversible);
    let helper = Agent::new(Model::default(), [pay()]).unwrap().with_approval(asks()).unwrap();
    let helper = Tool::new(helper).unwrap().named("helper").unwrap().with_effect(Effect::Read);
    let retry = Retry { wait: Duration::from_millis(1), ..Retry::default() };
    let agent = Agent::new(Model::default(), [pay(), Tool::new(look).unwrap(), helper]).unwrap();
    let agent = agent.with_approval(asks()).unwrap().with_hook(retry);
    Server::start(home, agent).await
}

/// Sends a message, or with `resume` an answer to a question.
async fn send(server: &Server, user: &str, text: &str, resume: Value) -> Vec<Value> {
    let messages = json!([{"id": format!("m-{text}"), "role": "user", "content": text}]);
    let mut body = json!({"threadId": text, "runId": "r", "messages": messages});
    if !resume.is_null() {
        body["resume"] = json!([resume]);
    }
    Stream::of(server.post(user, "/ag-ui", &body).send().await.unwrap()).all().await
}

fn end(events: &[Value]) -> &Value {
    events.last().unwrap()
}

#[tokio::test]
async fn a_question_is_answered_once_and_by_its_user() {
    let server = server().await;
    let events = send(&server, "kate", "pay", Value::Null).await;
    let interrupt = &end(&events)["outcome"]["interrupts"][0];
    assert_eq!(interrupt["reason"], "tool_call");
    let answer = |payload: Value| json!({"interruptId": interrupt["id"], "status": "resolved", "payload": payload});
    // The conversation of another user with the same name has no run.
    let body = json!({"threadId": "pay", "runId": "r", "messages": [], "resume": [answer(json!({"approved": true}))]});
    let (status, _) = Server::error(server.post("tom", "/ag-ui", &body)).await;
    assert_eq!(status, 404);

    let edited = answer(json!({"approved": true, "editedArgs": {"to": "Bob", "amount": 6}}));
    for _ in 0..2 {
        // The second time, the client had lost the answer.
        let events = send(&server, "kate", "pay", edited.clone()).await;
        let result = end(&events)["result"].as_str().unwrap();
        assert!(result.ends_with("6 to Bob"), "{events:#?}");
        // The first request to the model was counted in the answer before.
        assert_eq!(end(&events)["usage"][0]["inputTokens"], 20);
    }
    let messages =
        json!([{"id": "m", "role": "user", "content": "pay"}, {"id": "a", "role": "assistant"}]);
    let other = answer(json!({"approved": false}));
    let body = json!({"threadId": "pay", "runId": "r", "messages": messages, "resume": [other]});
    let (status, error) = Server::error(server.post("kate", "/ag-ui", &body)).await;
    assert_eq!(status, 409, "{error}");
}

#[tokio::test]
async fn a_stopped_run_and_a_failed_one() {
    let server = server().await;
    let messages = json!([{"id": "m", "role": "user", "content": "count"}]);
    let body =
        json!({"threadId": "count", "runId": "r", "messages": messages, "protocolVersion": "1.0"});
    let mut reader = Stream::of(server.post("kate", "/ag-ui", &body).send().await.unwrap());
    while reader.next().await.unwrap()["type"] != "TEXT_MESSAGE_CONTENT" {}
    let stop = server.post("kate", "/ag-ui/count/stop", &json!({})).send().await.unwrap();
    assert_eq!(stop.status(), 204);
    let events = reader.all().await;
    assert_eq!(end(&events)["outcome"], json!({"type": "cancelled"}));

    let events = send(&server, "kate", "fail", Value::Null).await;
    assert_eq!(end(&events)["type"], "RUN_ERROR");
    assert!(!json!(events).to_string().contains("secret"), "{events:#?}");
}

#[tokio::test]
async fn a_failed_run_goes_on_if_its_message_is_sent_again() {
    let server = server().await;
    let events = send(&server, "kate", "fail once", Value::Null).await;
    assert_eq!(end(&events)["type"], "RUN_ERROR");
    let events = send(&server, "kate", "fail once", Value::Null).await;
    assert_eq!(end(&events)["result"], "You said: fail once", "{events:#?}");
}

#[tokio::test]
async fn a_conversation_is_opened_again() {
    let server = server().await;
    send(&server, "kate", "delegate", Value::Null).await;
    let opened = server.json("kate", "/ag-ui/delegate/messages").await;
    assert_eq!(opened["rest"], "waiting");
    let body = json!({"threadId": "delegate", "runId": "r2", "messages": opened["messages"]});
    let mut reader = Stream::of(server.post("kate", "/ag-ui", &body).send().await.unwrap());
    let events = reader.all().await;
    let types: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types[1..4], ["SUBAGENT_STARTED", "MESSAGES_SNAPSHOT", "SUBAGENT_FINISHED"]);
    assert_eq!(events[2]["messages"], opened["messages"]);
    assert!(end(&events)["outcome"]["interrupts"][0]["subagentRunId"].is_string(), "{events:#?}");
    assert_eq!(server.json("tom", "/ag-ui/delegate/messages").await["messages"], json!([]));
}

#[tokio::test]
async fn every_call_is_there_once_and_has_a_result() {
    let server = server().await;
    for text in ["look", "unknown", "misfit"] {
        let events = send(&server, "kate", text, Value::Null).await;
        for kind in ["TOOL_CALL_START", "TOOL_CALL_RESULT"] {
            let found = events.iter().filter(|event| event["type"] == kind);
            assert_eq!(found.count(), 1, "{text}: {events:#?}");
        }
    }
}

#[tokio::test]
async fn a_client_goes_back_to_an_earlier_message() {
    let server = server().await;
    let user = |id: &str| json!({"id": id, "role": "user", "content": format!("message {id}")});
    let answer = json!({"id": "a", "role": "assistant", "content": "An answer"});
    let send = async |messages: Value| {
        let body = json!({"threadId": "back", "runId": "r", "messages": messages});
        let mut reader = Stream::of(server.post("kate", "/ag-ui", &body).send().await.unwrap());
        assert_eq!(end(&reader.all().await)["type"], "RUN_FINISHED");
        let opened = server.json("kate", "/ag-ui/back/messages").await;
        let messages = opened["messages"].as_array().unwrap().iter();
        let said = messages.filter(|message| message["role"] == "user");
        said.map(|message| message["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(send(json!([user("1")])).await, ["1"]);
    assert_eq!(send(json!([user("1"), answer, user("2")])).await, ["1", "2"]);
    assert_eq!(
        send(json!([user("1"), answer, user("2"), answer, user("3")])).await,
        ["1", "2", "3"]
    );
    // The second message was edited, and is a new one.
    assert_eq!(send(json!([user("1"), answer, user("2b")])).await, ["1", "2b"]);
    // It is answered again after another one.
    assert_eq!(
        send(json!([user("1"), answer, user("2b"), answer, user("3b")])).await,
        ["1", "2b", "3b"]
    );
    assert_eq!(send(json!([user("1"), answer, user("2b")])).await, ["1", "2b"]);
    // A page that does not have the conversation goes on with it.
    assert_eq!(send(json!([user("4")])).await, ["1", "2b", "4"]);
    assert_eq!(send(json!([user("4"), answer, user("5")])).await, ["1", "2b", "4", "5"]);
    // The first message is answered again.
    assert_eq!(send(json!([user("1")])).await, ["1"]);
}

/// The database that `tests/ag_ui.sh` names, or memory.
async fn home() -> Home {
    #[cfg(feature = "postgres")]
    if let Ok(url) = std::env::var("TOOLWRIGHT_POSTGRES") {
        return toolwright_postgres::Runs::connect(&url, "clients").await.unwrap().into();
    }
    Home::memory()
}

/// Shows the service to the real clients, which are programs beside this test.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by tests/ag_ui.sh"]
async fn heavy_the_real_clients() {
    let folder = std::path::PathBuf::from(std::env::var_os("AG_UI_FOLDER").unwrap());
    let run = async |program: &str, arguments: &[&str]| {
        let server = server_at(home().await).await;
        let mut node = std::process::Command::new("node");
        node.arg(folder.join(program)).arg(&server.base).args(arguments).current_dir(&folder);
        let status = tokio::task::spawn_blocking(move || node.status()).await.unwrap().unwrap();
        assert!(status.success(), "{program}");
    };
    run("service.mjs", &["answers", "@ag-ui/client"]).await;
    run("service.mjs", &["answers", "@ag-ui/client-before-1"]).await;
    run("copilot.mjs", &[]).await;
}
