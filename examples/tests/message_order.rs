//! Agents at a server that refuses orders of messages, as Mistral's API and the chat templates of
//! many models do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_module::hook::{AskNext, Hook};
use toolwright_module::message::Image;
use toolwright_module::model::Settings;
use toolwright_module::{
    Context, Contract, Effect, Error, Message, Module, Predict, Reply, Request, Result, Signature,
    Tool, ToolOutput, from_fn,
};
use toolwright_openai::OpenAi;
use toolwright_orchestrator::Agent;
use toolwright_orchestrator::{Choosing, Limits, ReAct, StepResult, Task};

use crate::counting_server::turn_fault;

/// A server that gives these replies, and refuses what [`turn_fault`] refuses.
struct Server {
    base_url: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Server {
    fn start(replies: Vec<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        // Ends with the test process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, &replies, &kept);
            }
        });
        Self { base_url, asked }
    }

    fn model(&self) -> OpenAi {
        OpenAi::at(&self.base_url, "m").unwrap().with_connection(|c| Ok(c.with_retries(0))).unwrap()
    }

    /// The roles of the last request.
    fn roles(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let messages = asked.last().unwrap()["messages"].as_array().unwrap().clone();
        messages.iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
    }

    fn last(&self) -> Value {
        let asked = self.asked.lock().unwrap();
        asked.last().unwrap()["messages"].as_array().unwrap().last().unwrap()["content"].clone()
    }

    fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn answer(stream: TcpStream, replies: &[Value], asked: &Mutex<Vec<Value>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let header = line.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let refused = turn_fault(body["messages"].as_array().unwrap());
    let count = {
        let mut asked = asked.lock().unwrap();
        asked.push(body);
        asked.len()
    };
    let (status, reply) = match refused {
        None => (200, replies[(count - 1).min(replies.len() - 1)].to_string()),
        Some(message) => {
            let kind = "invalid_request_message_order";
            (400, json!({"object": "error", "message": message, "type": kind}).to_string())
        }
    };
    let head = format!(
        "HTTP/1.1 {status} Whatever\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        reply.len()
    );
    let mut writer = stream;
    let _ = writer.write_all(&[head.as_bytes(), reply.as_bytes()].concat());
}

fn said(text: &str) -> Value {
    ended(json!({"role": "assistant", "content": text}), "stop")
}

fn ended(message: Value, reason: &str) -> Value {
    json!({"choices": [{"index": 0, "message": message, "finish_reason": reason}]})
}

fn calls(count: usize) -> Value {
    let call = |at| {
        json!({"id": format!("call_{at}"), "type": "function",
            "function": {"name": "look", "arguments": "{}"}})
    };
    let calls: Vec<_> = (0..count).map(call).collect();
    ended(json!({"role": "assistant", "content": null, "tool_calls": calls}), "tool_calls")
}

/// Look out of the window.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Look {}

impl Signature for Look {
    type Output = String;
}

fn look() -> Tool {
    Tool::new(from_fn(async |_: Look| Ok("It rains.".to_owned())).with_effect(Effect::Read))
        .unwrap()
}

fn camera() -> Tool {
    let contract = Contract::of::<Look>().unwrap();
    Tool::dynamic(contract, Effect::Read, async |_, _| {
        let image = Image::bytes("image/png", vec![1, 2, 3]);
        Ok(ToolOutput::text_only("A picture.").with_parts([image.into()]))
    })
}

fn agent(server: &Server, tool: Tool) -> Agent {
    Agent::new(server.model(), [tool]).unwrap()
}

async fn answered(agent: &Agent, task: impl Into<Task>) -> String {
    agent.run(task, &Context::default()).await.unwrap().answer
}

#[tokio::test]
async fn the_note_at_the_last_iteration_follows_results() {
    for count in [1, 3] {
        let server = Server::start(vec![calls(count), said("Rain.")]);
        let agent =
            agent(&server, look()).with_limits(Limits { max_iterations: 1, ..Limits::default() });
        assert_eq!(answered(&agent, "Weather?").await, "Rain.");
        assert_eq!(server.roles()[count + 2..], ["assistant", "user"]);
    }
}

#[tokio::test]
async fn notes_after_empty_answers_join_the_users_message() {
    let thought = json!({"role": "assistant", "content": "", "reasoning_content": "Hm."});
    for empty in [said(""), said(" \n"), ended(thought, "stop")] {
        let server = Server::start(vec![empty, said("Rain.")]);
        assert_eq!(answered(&agent(&server, look()), "Weather?").await, "Rain.");
        assert_eq!(server.roles(), ["user"]);
        let text = server.last();
        assert!(text.as_str().unwrap().starts_with("Weather?\n\n"), "{text}");
    }
    // After results, the note follows them.
    let server = Server::start(vec![calls(1), said(""), said("Rain.")]);
    assert_eq!(answered(&agent(&server, look()), "Weather?").await, "Rain.");
    assert_eq!(server.roles(), ["user", "assistant", "tool", "assistant", "user"]);
}

#[tokio::test]
async fn an_image_in_a_result_and_a_note_after_it_are_one_message() {
    let server = Server::start(vec![calls(2), said("Rain.")]);
    let agent =
        agent(&server, camera()).with_limits(Limits { max_iterations: 1, ..Limits::default() });
    assert_eq!(answered(&agent, "Weather?").await, "Rain.");
    assert_eq!(server.roles(), ["user", "assistant", "tool", "tool", "assistant", "user"]);
    let content = server.last();
    let kinds: Vec<_> = content.as_array().unwrap().iter().map(|part| &part["type"]).collect();
    assert_eq!(kinds, ["text", "image_url", "text", "image_url", "text"]);
}

#[tokio::test]
async fn a_user_goes_on_after_a_step_that_failed() {
    let server = Server::start(vec![calls(1), json!({"no": "reply"}), said("Rain.")]);
    let agent = agent(&server, look());
    let mut run = agent.start("Weather?").unwrap();
    agent.drive(&mut run, &Context::default()).await.unwrap_err();
    run.follow_up("Still there?").unwrap();
    assert_eq!(agent.drive(&mut run, &Context::default()).await.unwrap().answer, "Rain.");
    assert_eq!(server.roles(), ["user", "assistant", "tool", "assistant", "user"]);

    // Before any reply, and with calls that were not made.
    let server = Server::start(vec![said("Rain.")]);
    let agent = self::agent(&server, look());
    let mut run = agent.start("Weather?").unwrap();
    run.follow_up("In Paris, I mean.").unwrap();
    assert_eq!(agent.drive(&mut run, &Context::default()).await.unwrap().answer, "Rain.");
    let mut run = agent.start("Weather?").unwrap();
    let call = toolwright_module::ToolCall::new("a", "look", "{}");
    run.apply(StepResult::model(0, Reply::calls([call]))).unwrap();
    run.follow_up("Never mind.").unwrap();
    assert_eq!(agent.drive(&mut run, &Context::default()).await.unwrap().answer, "Rain.");
    assert_eq!(server.roles(), ["user", "assistant", "tool", "assistant", "user"]);
}

#[tokio::test]
async fn a_validators_text_follows_an_answer() {
    let server = Server::start(vec![calls(1), said("Perhaps."), said("Yes.")]);
    let agent = agent(&server, look()).with_validator(|_: &Task, answer: &String| {
        let ok = answer == "Yes.";
        ok.then_some(()).ok_or_else(|| Error::retry("Answer with `Yes.` or `No.`"))
    });
    assert_eq!(answered(&agent, "Does it rain?").await, "Yes.");
}

/// Adds messages to each request.
struct Adds(Vec<Arc<Message>>);

impl Hook for Adds {
    fn name(&self) -> &str {
        "adds"
    }

    async fn model(&self, mut request: Request, next: AskNext<'_>) -> Result<Reply> {
        request.messages.extend(self.0.iter().cloned());
        next.run(request).await
    }
}

#[tokio::test]
async fn a_hook_adds_messages_of_the_user_and_of_the_system() {
    let added = || vec![Message::system("Be brief."), Message::user("Hurry.")];
    let (mut both, mut users) = (added(), added());
    both.reverse();
    users.remove(0);
    for messages in [added(), both, users] {
        let server = Server::start(vec![calls(1), said(""), said("Rain.")]);
        let agent = agent(&server, look())
            .with_instructions("You watch the weather.")
            .with_hook(Adds(messages));
        assert_eq!(answered(&agent, "Weather?").await, "Rain.");
        let roles = server.roles();
        assert_eq!(roles.iter().filter(|role| *role == "system").count(), 1);
        assert_eq!(server.count(), 3);
    }
}

#[tokio::test]
async fn a_history_may_begin_with_the_model() {
    let server = Server::start(vec![said("Rain.")]);
    let task = Task::new("Weather?").with_history([Message::assistant("How can I help?")]);
    assert_eq!(answered(&agent(&server, look()), task).await, "Rain.");
    assert_eq!(server.roles(), ["user", "assistant", "user"]);
}

#[tokio::test]
async fn a_summary_in_place_of_earlier_messages_may_stand_before_the_users() {
    let server = Server::start(vec![said("Hello."), said("Bye.")]);
    let agent = agent(&server, look()).with_instructions("Be kind.");
    let mut run = agent.start("Say hello.").unwrap();
    agent.drive(&mut run, &Context::default()).await.unwrap();
    run.follow_up("And goodbye.").unwrap();
    run.edit_sent(3, [Message::user("[You have said hello.]")]).unwrap();
    assert_eq!(agent.drive(&mut run, &Context::default()).await.unwrap().answer, "Bye.");
    assert_eq!(server.roles(), ["system", "user"]);
    assert_eq!(server.last(), "[You have said hello.]\n\nAnd goodbye.");
}

/// Say whether it rains.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Rains {
    /// The place.
    place: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Wet {
    wet: bool,
}

impl Signature for Rains {
    type Output = Wet;
}

#[tokio::test]
async fn typed_agents_and_predictors_ask_again() {
    let input = || Rains { place: "Paris".into() };
    let finish = json!({"id": "f", "type": "function",
        "function": {"name": "finish", "arguments": r#"{"wet":true}"#}});
    let finish = ended(json!({"role": "assistant", "tool_calls": [finish]}), "tool_calls");
    let server = Server::start(vec![calls(1), said("It does."), said(""), finish]);
    let react = ReAct::<Rains>::new(agent(&server, look())).unwrap();
    assert_eq!(react.call(input(), &Context::default()).await.unwrap(), Wet { wet: true });

    for structured in [true, false] {
        let wet = said(r#"{"wet":true}"#);
        let server = Server::start(vec![said("It does."), said(""), wet]);
        let model = server.model().with_structured_output(structured);
        let predict = Predict::<Rains>::new(model).unwrap().with_attempts(4);
        let read = predict.call(input(), &Context::default()).await;
        assert_eq!(read.unwrap(), Wet { wet: true });
    }
}

#[tokio::test]
async fn a_model_without_calls_chooses_tools_by_text() {
    let call = r#"{"selection":{"action":"call_tool","tool_name":"look","tool_input":{}}}"#;
    let finish = r#"{"selection":{"action":"finish"}}"#;
    let server = Server::start(vec![said(call), said(""), said(finish), said("Rain.")]);
    let agent = agent(&server, look()).with_choosing(Choosing::Selector).unwrap();
    assert_eq!(answered(&agent, "Weather?").await, "Rain.");
}

#[tokio::test]
async fn the_maximum_of_tokens_has_the_name_that_the_server_reads() {
    let server = Server::start(vec![said("Rain.")]);
    let settings = Settings::default().with_max_output_tokens(7);
    let agent = agent(&server, look()).with_settings(settings).unwrap();
    answered(&agent, "Weather?").await;
    let asked = server.asked.lock().unwrap();
    assert_eq!((&asked[0]["max_tokens"], asked[0].get("max_completion_tokens")), (&json!(7), None));
}
