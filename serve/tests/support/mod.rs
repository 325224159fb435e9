//! A service on its own port, a model that writes one word at a time when told to, and a client.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use toolwright_module::message::Part;
use toolwright_module::model::{Capabilities, Delta, LanguageModel, Reply, Request};
use toolwright_module::{Dialect, Message, Result};
use toolwright_orchestrator::Agent;
use toolwright_serve::{Caller, Home, Rejection, Serve, Serving};

type Script = dyn Fn(&Request) -> Result<Reply> + Send + Sync;

/// A model that writes word by word, each word after it was allowed.
#[derive(Clone)]
pub(crate) struct Slow {
    script: Arc<Script>,
    pub(crate) words: Arc<Semaphore>,
    pub(crate) requests: Arc<Mutex<Vec<Request>>>,
}

impl Slow {
    pub(crate) fn new(script: impl Fn(&Request) -> Result<Reply> + Send + Sync + 'static) -> Self {
        let words = Arc::new(Semaphore::new(0));
        Self { script: Arc::new(script), words, requests: Arc::default() }
    }

    /// A model that does not wait.
    pub(crate) fn fast(script: impl Fn(&Request) -> Result<Reply> + Send + Sync + 'static) -> Self {
        let slow = Self::new(script);
        slow.words.add_permits(1_000_000);
        slow
    }
}

impl LanguageModel for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(Dialect::JsonSchema2020);
        (capabilities.tools, capabilities.images) = (true, true);
        capabilities
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            self.requests.lock().unwrap().push(request.clone());
            (self.script)(request)
        })
    }

    fn stream<'a>(&'a self, request: Request) -> BoxStream<'a, Result<Delta>> {
        let reply = async move {
            let reply = self.generate(&request).await;
            let mut deltas: Vec<Result<Delta>> = Vec::new();
            if let Ok(reply) = &reply {
                let text = reply.to_text();
                deltas
                    .extend(text.split_inclusive(' ').map(|word| Ok(Delta::Text(word.to_owned()))));
            }
            deltas.push(reply.map(|reply| Delta::Done(Box::new(reply))));
            stream::iter(deltas)
        };
        stream::once(reply)
            .flatten()
            .then(move |delta| async move {
                self.words.acquire().await.unwrap().forget();
                delta
            })
            .boxed()
    }
}

/// The last text of the user.
pub(crate) fn asked(request: &Request) -> String {
    let user = |message: &Arc<Message>| match &**message {
        Message::User { parts } => match &parts[..] {
            [Part::Text(text), ..] => Some(text.clone()),
            _ => None,
        },
        _ => None,
    };
    request.messages.iter().rev().find_map(user).unwrap_or_default()
}

/// A service on a port.
pub(crate) struct Server {
    pub(crate) base: String,
    pub(crate) service: Serving,
    pub(crate) client: Client,
}

impl Server {
    pub(crate) async fn start(home: impl Into<Home>, agent: Agent) -> Self {
        Self::of(Serve::new(home, agent)).await
    }

    /// The user is in the header `x-user`.
    pub(crate) async fn of(serve: Serve) -> Self {
        let service = serve
            .with_callers(async |parts| match parts.headers.get("x-user") {
                Some(user) if user == "flood" => {
                    Err(Rejection::too_many_requests(Duration::from_millis(1_500)))
                }
                Some(user) => Ok(Caller::new(user.to_str().unwrap()).with("tenant", "acme")),
                None => Err(Rejection::unauthorized("sign in first")),
            })
            .start();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let app = service.router();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { base, service, client: Client::new() }
    }

    pub(crate) fn get(&self, user: &str, path: &str) -> RequestBuilder {
        self.client.get(format!("{}{path}", self.base)).header("x-user", user)
    }

    pub(crate) fn post(&self, user: &str, path: &str, body: &Value) -> RequestBuilder {
        self.client.post(format!("{}{path}", self.base)).header("x-user", user).json(body)
    }

    pub(crate) async fn json(&self, user: &str, path: &str) -> Value {
        let response = self.get(user, path).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        response.json().await.unwrap()
    }

    /// Says something, and reads the run.
    pub(crate) async fn say(&self, user: &str, conversation: &str, text: &str) -> Stream {
        let body = json!({"conversation": conversation, "text": text});
        Stream::of(self.post(user, "/messages", &body).send().await.unwrap())
    }

    /// Goes on reading a run.
    pub(crate) async fn resume(&self, user: &str, run: &str, position: &str) -> Stream {
        let request = self.get(user, &format!("/runs/{run}/updates"));
        Stream::of(request.header("last-event-id", position).send().await.unwrap())
    }

    /// The text of a failed request, with its status.
    pub(crate) async fn error(request: RequestBuilder) -> (u16, String) {
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let body: Value = response.json().await.unwrap();
        (status, body["error"].as_str().unwrap().to_owned())
    }
}

/// The server-sent events of a response.
pub(crate) struct Stream {
    response: Response,
    buffer: String,
    /// The id of the last event.
    pub(crate) position: String,
}

impl Stream {
    pub(crate) fn of(response: Response) -> Self {
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, buffer: String::new(), position: String::new() }
    }

    /// The next update, or `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        // Not for each piece: a stream that has nothing to say sends comments.
        let until = tokio::time::Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(end) = self.buffer.find("\n\n") {
                let event: String = self.buffer.drain(..end + 2).collect();
                let mut data = None;
                for line in event.lines() {
                    if let Some(id) = line.strip_prefix("id: ") {
                        id.clone_into(&mut self.position);
                    } else if let Some(json) = line.strip_prefix("data: ") {
                        data = Some(serde_json::from_str(json).unwrap());
                    }
                }
                match data {
                    Some(data) => return Some(data),
                    None => continue,
                }
            }
            let chunk = tokio::time::timeout_at(until, self.response.chunk());
            let chunk = chunk.await.expect("an update within 20 s").ok()??;
            self.buffer.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// Reads until an update of this kind.
    pub(crate) async fn until(&mut self, kind: &str) -> (Vec<Value>, Value) {
        let mut before = Vec::new();
        while let Some(update) = self.next().await {
            if update["update"] == kind {
                return (before, update);
            }
            before.push(update);
        }
        panic!("no `{kind}` after {before:#?}");
    }

    pub(crate) async fn all(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(update) = self.next().await {
            all.push(update);
        }
        all
    }
}

/// The text that a reader sees after these updates.
pub(crate) fn shown(updates: &[Value]) -> String {
    let (mut whole, mut reply) = (String::new(), String::new());
    for update in updates {
        match update["update"].as_str().unwrap() {
            "text" => reply.push_str(update["text"].as_str().unwrap()),
            "discarded" => reply.clear(),
            "replied" => whole.push_str(&std::mem::take(&mut reply)),
            _ => {}
        }
    }
    whole + &reply
}

/// The kinds of updates, where pieces of text in a row are one.
pub(crate) fn kinds(updates: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<_> =
        updates.iter().map(|update| update["update"].as_str().unwrap()).collect();
    kinds.dedup_by(|a, b| a == b && *a == "text");
    kinds
}
