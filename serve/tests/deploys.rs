//! A deploy whose agent has other tools, while readers are attached, and results that are much too long.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_journal::Journal;
use toolwright_module::message::ReplyPart;
use toolwright_module::model::Reply;
use toolwright_module::{Effect, Message, Signature, Tool, ToolCall, from_fn};
use toolwright_orchestrator::{Agent, ApprovalPolicy};
use toolwright_serve::Home;

use crate::support::{Server, Slow, kinds};

/// Pay somebody.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Pay {
    to: String,
}

impl Signature for Pay {
    type Output = String;
}

/// A model that calls `pay`, and repeats what the tool says.
fn model() -> Slow {
    Slow::fast(|request| {
        Ok(match request.messages.last().map(|message| &**message) {
            Some(Message::Tool(result)) => {
                Reply::text(result.text.chars().take(40).collect::<String>())
            }
            _ => {
                let call = ToolCall::new("1", "pay", r#"{"to": "Ann"}"#);
                Reply::new(vec![ReplyPart::Call(call)])
            }
        })
    })
}

fn pay(result: impl Fn() -> String + Clone + Send + Sync + 'static) -> Tool {
    let pay = from_fn(move |_: Pay| {
        let result = result();
        async move { Ok(result) }
    });
    Tool::new(pay).unwrap().with_effect(Effect::Irreversible)
}

fn agent(tools: impl IntoIterator<Item = Tool>) -> Agent {
    let asks = ApprovalPolicy::from_effect(Effect::Irreversible);
    Agent::new(model(), tools).unwrap().with_approval(asks).unwrap()
}

#[tokio::test]
async fn a_deploy_without_the_tool_of_an_open_call_says_so_and_the_next_one_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    let old = Server::start(journal.clone(), agent([pay(|| "Paid.".to_owned())])).await;
    let mut reader = old.say("kate", "c1", "Pay Ann.").await;
    let (_, asked) = reader.until("approval_asked").await;
    let run = asked["run"].as_str().unwrap().to_owned();
    old.service.shutdown(Duration::ZERO).await;
    assert!(reader.next().await.is_none());

    // The reader comes back to a service without the tool, and the user approves.
    let without = Server::start(journal.clone(), agent([])).await;
    let mut reader = without.resume("kate", &run, &reader.position).await;
    let path = format!("/runs/{run}/questions/{}", asked["question"].as_str().unwrap());
    let answer = without.post("kate", &path, &json!("approve")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let (_, stopped) = reader.until("stopped").await;
    assert_eq!(stopped["can_go_on"], true);
    without.service.shutdown(Duration::ZERO).await;

    // The next deploy has it again.
    let new = Server::start(journal, agent([pay(|| "Paid.".to_owned())])).await;
    let mut reader = new.resume("kate", &run, &reader.position).await;
    let path = format!("/runs/{run}/go-on");
    let answer = new.post("kate", &path, &json!({})).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let updates = reader.all().await;
    assert_eq!(kinds(&updates).last(), Some(&"done"), "{updates:#?}");
}

/// The most memory that this process has had, in MB.
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() / 1024
}

#[tokio::test]
#[ignore = "it needs half a GB of memory"]
async fn heavy_a_result_of_100_mb_is_cut_in_each_protocol() {
    let huge = || pay(|| "x".repeat(100 * 1024 * 1024)).with_effect(Effect::Read);
    let folder = tempfile::tempdir().unwrap();
    let homes = [Home::memory(), Journal::open(folder.path()).unwrap().into()];
    for home in homes {
        let server = Server::start(home, agent([huge()])).await;
        let said = |id: &str| json!([{"id": "u", "role": "user", "content": id, "parts": [{"type": "text", "text": id}]}]);
        let requests: [(&str, Value); 3] = [
            ("/messages", json!({"conversation": "own", "text": "Pay."})),
            ("/ag-ui", json!({"threadId": "ag-ui", "runId": "r", "messages": said("Pay.")})),
            ("/chat?version=7", json!({"id": "chat", "messages": said("Pay.")})),
        ];
        for (path, body) in requests {
            let before = most_memory();
            let response = server.post("kate", path, &body).send().await.unwrap();
            assert_eq!(response.status(), 200);
            let sent = response.bytes().await.unwrap().len();
            println!(
                "{path}: {sent} bytes were sent; most memory {before} MB, then {} MB",
                most_memory()
            );
            assert!(sent < 200_000, "{path}: {sent}");
        }
    }
    let bytes: u64 = std::fs::read_dir(folder.path())
        .unwrap()
        .filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len()))
        .sum();
    println!("the journal has {bytes} bytes");
}
