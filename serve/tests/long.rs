//! Long conversations, and users with many of them.

use std::time::Instant;

use serde_json::{Value, json};
use toolwright_journal::Journal;
use toolwright_module::model::Reply;
use toolwright_module::{Effect, Signature, Tool, ToolCall, from_fn};
use toolwright_orchestrator::{Agent, ApprovalPolicy};
use toolwright_serve::Home;

use crate::support::{Server, Slow, asked};

/// Pay a bill.
#[derive(Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Pay {
    to: String,
}

impl Signature for Pay {
    type Output = String;
}

/// Returns an agent that answers "Pay." with a call that waits, and everything else with so many bytes.
fn agent(bytes: usize) -> Agent {
    let model = Slow::fast(move |request| match asked(request).as_str() {
        "Pay." => Ok(Reply::calls([ToolCall::new("1", "pay", r#"{"to": "Ann"}"#)])),
        text => Ok(Reply::text(format!("{text} {}", "a".repeat(bytes)))),
    });
    let pay = Tool::new(from_fn(async |_: Pay| Ok("Paid.".to_owned())).with_effect(Effect::Write));
    let policy = ApprovalPolicy::from_effect(Effect::Write);
    Agent::new(model, [pay.unwrap().named("pay").unwrap()]).unwrap().with_approval(policy).unwrap()
}

/// Returns the entries of all pages of a list, and the number of pages.
async fn pages(server: &Server, list: &str) -> (Vec<Value>, usize) {
    let (mut all, mut count, mut path) = (Vec::new(), 0, format!("/{list}"));
    loop {
        let mut page = server.json("kate", &path).await;
        all.append(page[list].as_array_mut().unwrap());
        count += 1;
        match page["next"].as_str() {
            Some(next) => path = format!("/{list}?after={next}"),
            None => return (all, count),
        }
    }
}

async fn lists_have_pages(home: impl Into<Home>) {
    let server = Server::start(home, agent(1)).await;
    for nth in 0..55 {
        server.say("kate", &format!("c {nth:02}"), "Hello.").await.all().await;
    }
    for nth in 0..52 {
        let body = json!({"conversation": format!("c {nth:02}"), "text": "Pay."});
        let sent = server.post("kate", "/messages", &body).send().await.unwrap();
        crate::support::Stream::of(sent).until("approval_asked").await;
    }
    server.say("tom", "c 00", "Hello.").await.all().await;
    let (conversations, count) = pages(&server, "conversations").await;
    assert_eq!((conversations.len(), count), (55, 2));
    let mut names: Vec<_> =
        conversations.iter().map(|listed| listed["conversation"].as_str().unwrap()).collect();
    // The last changed one is first.
    assert_eq!(names[0], "c 51");
    assert_eq!(conversations[0]["runs"], 2);
    assert_eq!(
        (&conversations[0]["title"], &conversations[0]["status"]),
        (&json!("Hello."), &json!("waiting"))
    );
    assert_eq!(
        (&conversations[54]["conversation"], &conversations[54]["runs"]),
        (&json!("c 52"), &json!(1))
    );
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 55);
    let (questions, count) = pages(&server, "questions").await;
    assert_eq!((questions.len(), count), (52, 2));
    assert_eq!(questions[0]["run"], "kate:c~2051:2");
    let wrong = server.get("kate", "/questions?after=no").send().await.unwrap();
    assert_eq!(wrong.status(), 400);
}

#[tokio::test]
async fn lists_have_pages_in_memory() {
    lists_have_pages(Home::memory()).await;
}

#[tokio::test]
async fn lists_have_pages_in_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    lists_have_pages(Journal::open(folder.path()).unwrap()).await;
}

#[tokio::test]
async fn calls_of_a_conversation_that_is_opened_again_have_ids_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let model = || {
        Slow::fast(|request| match request.messages.len() % 4 {
            // The server gives each call the same id.
            1 => Ok(Reply::calls([ToolCall::new("1", "look", r#"{"to": "Ann"}"#)])),
            _ => Ok(Reply::text("Done.")),
        })
    };
    let look = || {
        let look = Tool::new(from_fn(async |_: Pay| Ok("Seen.".to_owned())));
        Agent::new(model(), [look.unwrap().named("look").unwrap()]).unwrap()
    };
    let mut shown = Vec::new();
    {
        let server = Server::start(Journal::open(folder.path()).unwrap(), look()).await;
        for _ in 0..3 {
            shown.push(server.say("kate", "c1", "Look.").await.all().await);
        }
    }
    let server = Server::start(Journal::open(folder.path()).unwrap(), look()).await;
    let told = server.json("kate", "/conversations/c1").await;
    let id = |updates: &Value| {
        let mut called = updates.as_array().unwrap().iter();
        called.find(|update| update["update"] == "called").unwrap()["id"].clone()
    };
    let told: Vec<_> =
        told["runs"].as_array().unwrap().iter().map(|run| id(&run["updates"])).collect();
    let shown: Vec<_> = shown.into_iter().map(|updates| id(&json!(updates))).collect();
    assert_eq!(told, shown);
    assert!(told[0] != told[1] && told[1] != told[2]);
}

/// Prints what 300 messages and 2,000 conversations of a user cost.
#[tokio::test]
#[ignore = "takes a minute, and measures"]
async fn heavy_figures_of_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    let bytes = |folder: &std::path::Path| -> u64 {
        let files = std::fs::read_dir(folder).unwrap();
        files.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    };
    {
        let server = Server::start(journal.clone(), agent(500)).await;
        let began = Instant::now();
        for nth in 0..300 {
            let text = format!("{nth} {}", "q".repeat(500));
            server.say("kate", "long", &text).await.all().await;
        }
        println!("300 messages: {} bytes, written in {:?}", bytes(folder.path()), began.elapsed());
        let began = Instant::now();
        server.say("kate", "long", "The last one.").await.all().await;
        println!("one more message: {:?}", began.elapsed());
    }
    let server = Server::start(journal.clone(), agent(500)).await;
    let began = Instant::now();
    let told = server.json("kate", "/conversations/long").await;
    assert_eq!(told["runs"].as_array().unwrap().len(), 301);
    println!("the conversation is read in {:?}", began.elapsed());
    drop(server);

    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    {
        let server = Server::start(journal.clone(), agent(500)).await;
        for nth in 0..2_000 {
            server.say("kate", &format!("c{nth}"), "Hello.").await.all().await;
        }
    }
    let server = Server::start(journal, agent(500)).await;
    for list in ["conversations", "questions"] {
        let began = Instant::now();
        server.json("kate", &format!("/{list}")).await;
        println!("2,000 runs: {list} in {:?}", began.elapsed());
    }
}
