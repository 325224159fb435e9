//! Two workers on one database, of which one is killed again and again.
//!
//! It needs a server: set `TOOLWRIGHT_POSTGRES`, or run `COMMAND='cargo test -p toolwright-serve --features
//! postgres --test postgres -- --ignored --nocapture' durable/postgres/tests/server.sh`.

#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_postgres::NoTls;

/// How many conversations are going on at once.
const AT_ONCE: usize = 8;

/// A small generator, so that a run can be repeated.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

struct Worker {
    url: String,
    port: u16,
    child: Child,
}

fn start(url: &str, port: u16) -> Child {
    // Tests lie in target/…/deps, programs beside them in target/…/examples.
    let mut path: PathBuf = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push(format!("examples/two_workers{}", std::env::consts::EXE_SUFFIX));
    assert!(path.exists(), "{} is not built; run `cargo test` without `--test`", path.display());
    Command::new(path)
        .env("TOOLWRIGHT_POSTGRES", url)
        .env("PORT", port.to_string())
        .env("LEASE", "1000")
        .spawn()
        .unwrap()
}

impl Worker {
    fn new(url: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { url: url.to_owned(), port, child: start(url, port) }
    }

    fn kill_and_restart(&mut self) {
        // SIGKILL on Unix.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = start(&self.url, self.port);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Takes the whole events out of a buffer after a chunk: their ids and their data.
fn events(buffer: &mut Vec<u8>, chunk: &[u8]) -> Vec<(String, Value)> {
    buffer.extend_from_slice(chunk);
    let mut events = Vec::new();
    while let Some(end) = buffer.windows(2).position(|two| two == b"\n\n") {
        let event: Vec<u8> = buffer.drain(..end + 2).collect();
        let event = String::from_utf8(event).unwrap();
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
        if let Some(data) = field("data: ") {
            let id = field("id: ").unwrap_or_default().to_owned();
            events.push((id, serde_json::from_str(data).unwrap()));
        }
    }
    events
}

/// A user with one conversation: sends a message, reads, and answers questions, at whatever worker is
/// there.
struct User {
    name: String,
    ports: [u16; 2],
    client: Client,
    random: Random,
    database: Arc<tokio_postgres::Client>,
}

impl User {
    /// Returns the text that the reader saw, and that a new reader sees at the end.
    async fn converse(mut self) -> (String, String) {
        let body = json!({"conversation": "c", "id": "m", "text": "Write."});
        let (mut shown, mut reply) = (String::new(), String::new());
        let (mut run, mut position, mut buffer) = (None::<String>, String::new(), Vec::new());
        let mut is_done = false;
        while !is_done {
            let base = self.base();
            let request = match &run {
                // The same message again, until it is known that it arrived.
                None => self.client.post(format!("{base}/messages")).json(&body),
                Some(run) => {
                    let request = self.client.get(format!("{base}/runs/{run}/updates"));
                    request.header("last-event-id", &position)
                }
            };
            let response = request.header("x-user", &self.name).send().await;
            let Ok(mut response) = response else {
                sleep(Duration::from_millis(50)).await;
                continue;
            };
            let status = response.status();
            if !status.is_success() {
                assert!(!status.is_client_error(), "{status}: {:?}", response.text().await);
                sleep(Duration::from_millis(50)).await;
                continue;
            }
            buffer.clear();
            // A reader that hangs shows a lost update.
            while let Ok(Ok(Some(chunk))) =
                tokio::time::timeout(Duration::from_secs(40), response.chunk()).await
            {
                for (id, update) in events(&mut buffer, &chunk) {
                    position = id;
                    match update["update"].as_str().unwrap() {
                        "started" => run = Some(update["run"].as_str().unwrap().to_owned()),
                        "text" => reply.push_str(update["text"].as_str().unwrap()),
                        "discarded" => reply.clear(),
                        "replied" => shown.push_str(&std::mem::take(&mut reply)),
                        "approval_asked" => self.answer(&update).await,
                        "done" => is_done = true,
                        _ => {}
                    }
                }
            }
        }
        (shown, self.whole().await)
    }

    /// The same as a client of AG-UI: it sends its messages again when its connection is lost.
    async fn converse_in_ag_ui(mut self) -> (String, String) {
        let said = json!({"id": "m", "role": "user", "content": "Write."});
        let (mut messages, mut resume) = (vec![said], Value::Null);
        let mut buffer = Vec::new();
        loop {
            let mut body = json!({"threadId": "c", "runId": "r", "messages": messages});
            if resume.is_array() {
                body["resume"] = resume.clone();
            }
            let base = self.base();
            let request = self.client.post(format!("{base}/ag-ui")).json(&body);
            let Ok(mut response) = request.header("x-user", &self.name).send().await else {
                sleep(Duration::from_millis(50)).await;
                continue;
            };
            let status = response.status();
            if !status.is_success() {
                assert!(!status.is_client_error(), "{status}: {:?}", response.text().await);
                sleep(Duration::from_millis(50)).await;
                continue;
            }
            buffer.clear();
            while let Ok(Ok(Some(chunk))) =
                tokio::time::timeout(Duration::from_secs(40), response.chunk()).await
            {
                for (_, event) in events(&mut buffer, &chunk) {
                    let id = &event["messageId"];
                    match event["type"].as_str().unwrap() {
                        "RUN_STARTED" => resume = Value::Null,
                        "MESSAGES_SNAPSHOT" => {
                            messages = event["messages"].as_array().unwrap().clone();
                        }
                        "TEXT_MESSAGE_START" if messages.iter().all(|it| it["id"] != *id) => {
                            messages.push(json!({"id": id, "role": "assistant", "content": ""}));
                        }
                        "TEXT_MESSAGE_CONTENT" => {
                            let message = messages.iter_mut().find(|it| it["id"] == *id).unwrap();
                            let text = message["content"].as_str().unwrap().to_owned();
                            message["content"] = json!(text + event["delta"].as_str().unwrap());
                        }
                        "TOOL_CALL_START" => {
                            let mut of = messages.iter_mut();
                            let message =
                                of.find(|it| it["id"] == event["parentMessageId"]).unwrap();
                            let function = json!({"arguments": ""});
                            let call = json!({"id": event["toolCallId"], "function": function});
                            message["toolCalls"] = json!([call]);
                        }
                        "TOOL_CALL_ARGS" => {
                            let calls =
                                messages.iter_mut().filter_map(|it| it["toolCalls"].get_mut(0));
                            let mut calls = calls.filter(|it| it["id"] == event["toolCallId"]);
                            let call = calls.next().unwrap();
                            let arguments = &mut call["function"]["arguments"];
                            let text = arguments.as_str().unwrap().to_owned();
                            *arguments = json!(text + event["delta"].as_str().unwrap());
                        }
                        "RUN_FINISHED" if event["outcome"]["type"] == "interrupt" => {
                            resume = self.resume(&event["outcome"]["interrupts"], &messages).await;
                        }
                        "RUN_FINISHED" => {
                            let of_model = messages.iter().filter(|it| it["role"] == "assistant");
                            let shown = of_model.filter_map(|it| it["content"].as_str()).collect();
                            return (shown, self.whole().await);
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// The answers to the questions of a run of AG-UI.
    async fn resume(&self, interrupts: &Value, messages: &[Value]) -> Value {
        let mut resume = Vec::new();
        for interrupt in interrupts.as_array().unwrap() {
            let payload = match interrupt["metadata"]["toolwright"]["unknown"] == true {
                false => json!({"approved": true}),
                true => {
                    match self.is_written(&arguments_of(messages, &interrupt["toolCallId"])).await {
                        false => json!({"callAgain": true}),
                        true => json!({"happened": "written"}),
                    }
                }
            };
            let id = &interrupt["id"];
            resume.push(json!({"interruptId": id, "status": "resolved", "payload": payload}));
        }
        json!(resume)
    }

    /// Whether a call was made that was under way when its worker was killed.
    async fn is_written(&self, arguments: &str) -> bool {
        // A worker that lost its lease may be about to write.
        sleep(Duration::from_millis(300)).await;
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let sql = "SELECT count(*) FROM written WHERE line = $1";
        let row = arguments["row"].as_str().unwrap();
        let count: i64 = self.database.query_one(sql, &[&row]).await.unwrap().get(0);
        count > 0
    }

    fn base(&mut self) -> String {
        let port = self.ports[usize::try_from(self.random.below(2)).unwrap()];
        format!("http://127.0.0.1:{port}")
    }

    /// Answers a question until a worker has heard it.
    async fn answer(&mut self, question: &Value) {
        let (run, id) = (question["run"].as_str().unwrap(), question["question"].as_str().unwrap());
        loop {
            let decision = match question["unknown"].as_bool() {
                Some(true) => {
                    match self.is_written(question["arguments"].as_str().unwrap()).await {
                        false => json!("call_again"),
                        true => json!({"happened": {"result": "written"}}),
                    }
                }
                _ => json!("approve"),
            };
            let path = format!("{}/runs/{run}/questions/{id}", self.base());
            let request = self.client.post(path).header("x-user", &self.name).json(&decision);
            match request.send().await {
                // 409: it was heard, and the answer was lost with its worker.
                Ok(response) if response.status().is_success() || response.status() == 409 => {
                    return;
                }
                Ok(response) if response.status().is_client_error() => {
                    panic!("{}: {:?}", response.status(), response.text().await)
                }
                _ => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// The text that a new reader sees.
    async fn whole(&mut self) -> String {
        loop {
            let path = format!("{}/conversations/c", self.base());
            let request = self.client.get(path).header("x-user", &self.name);
            if let Ok(response) = request.send().await
                && response.status().is_success()
                && let Ok(told) = response.json::<Value>().await
            {
                let runs = told["runs"].as_array().unwrap();
                assert_eq!(runs.len(), 1, "a message was sent twice");
                let updates = runs[0]["updates"].as_array().unwrap();
                let texts = updates.iter().filter(|update| update["update"] == "text");
                return texts.map(|update| update["text"].as_str().unwrap()).collect();
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The arguments of a call in the messages of a client.
fn arguments_of(messages: &[Value], call: &Value) -> String {
    let calls = messages.iter().filter_map(|it| it["toolCalls"].as_array()).flatten();
    let call = calls.into_iter().find(|it| it["id"] == *call).unwrap();
    call["function"]["arguments"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL and some minutes; see the top of the file"]
async fn heavy_readers_and_questions_survive_workers_that_are_killed() {
    let server = std::env::var("TOOLWRIGHT_POSTGRES").expect("the URL of a server");
    let (kills, seed) = (number("KILLS", 200), number("SEED", 1));
    let schema = format!("toolwright_serve_{}", std::process::id());
    let and = if server.contains('?') { '&' } else { '?' };
    let url = format!("{server}{and}options=-csearch_path%3D{schema}");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let create = format!(
        "CREATE SCHEMA {schema};
        CREATE TABLE {schema}.written (key text NOT NULL, line text NOT NULL)"
    );
    client.batch_execute(&create).await.unwrap();
    let database = Arc::new(client);

    let mut workers = [Worker::new(&url), Worker::new(&url)];
    let ports = [workers[0].port, workers[1].port];
    let (stops, talks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut users = Vec::new();
    for place in 0..AT_ONCE {
        let (stops, talks, database) = (stops.clone(), talks.clone(), database.clone());
        users.push(tokio::spawn(async move {
            let mut results = Vec::new();
            let mut random = Random(seed.wrapping_mul(7919) + place as u64 + 1);
            while !stops.load(Ordering::Relaxed) {
                let nth = talks.fetch_add(1, Ordering::Relaxed);
                let name = format!("user-{nth}");
                random.below(2);
                let (client, random) = (Client::new(), random.clone());
                let database = database.clone();
                let user = User { name: name.clone(), ports, client, random, database };
                let seen = match nth % 2 {
                    0 => user.converse().await,
                    _ => user.converse_in_ag_ui().await,
                };
                results.push((name, seen));
            }
            results
        }));
    }
    let (mut random, began) = (Random(seed + 1_000_003), Instant::now());
    for _ in 0..kills {
        sleep(Duration::from_millis(200 + random.below(600))).await;
        let place = usize::try_from(random.below(2)).unwrap();
        workers[place].kill_and_restart();
    }
    stops.store(true, Ordering::Relaxed);
    let mut all = BTreeMap::new();
    for user in users {
        all.extend(user.await.unwrap());
    }
    let rows = database.query("SELECT line FROM written", &[]).await.unwrap();
    let lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let different: BTreeSet<_> = lines.iter().collect();
    println!(
        "{} conversations, {kills} kills, {} rows, {:.0?}",
        all.len(),
        lines.len(),
        began.elapsed()
    );
    database.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.unwrap();
    for (name, (shown, whole)) in &all {
        assert_eq!(shown, whole, "{name} saw another text than a new reader");
        assert_eq!(shown.matches(".29").count(), 2, "{name} saw {shown}");
    }
    assert_eq!(different.len(), lines.len(), "a row was written twice");
    assert_eq!(lines.len(), all.len(), "a row for each conversation");
}
