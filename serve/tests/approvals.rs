//! Questions to people, and their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_journal::Journal;
use toolwright_module::model::Reply;
use toolwright_module::{Effect, Message, Signature, Tool, ToolCall, from_fn};
use toolwright_orchestrator::{Agent, ApprovalPolicy};
use toolwright_serve::Home;

use crate::support::{Server, Slow, Stream, shown};

/// Send money.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct SendMoney {
    /// To whom.
    to: String,
    /// How much.
    amount: u32,
}

impl Signature for SendMoney {
    type Output = String;
}

/// An agent that sends money, and the number of times that it did.
pub(crate) fn payer() -> (Agent, Arc<AtomicUsize>) {
    let sent = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&sent);
    let send = from_fn(move |input: SendMoney| {
        counts.fetch_add(1, Ordering::SeqCst);
        async move { Ok(format!("{} sent to {}", input.amount, input.to)) }
    });
    let tool = Tool::new(send).unwrap().with_effect(Effect::Irreversible);
    let model = Slow::fast(|request| {
        Ok(match request.messages.last().map(|message| &**message) {
            Some(Message::Tool(result)) => Reply::text(format!("Result: {}", result.text)),
            _ => {
                let arguments = json!({"to": "Ann", "amount": 5}).to_string();
                Reply::calls([ToolCall::new("", "send_money", arguments)])
            }
        })
    });
    let agent = Agent::new(model, [tool]).unwrap();
    (agent.with_approval(ApprovalPolicy::from_effect(Effect::Irreversible)).unwrap(), sent)
}

async fn decide(server: &Server, user: &str, question: &Value, decision: &Value) -> (u16, Value) {
    let (run, id) = (question["run"].as_str().unwrap(), question["question"].as_str().unwrap());
    let path = format!("/runs/{run}/questions/{id}");
    let response = server.post(user, &path, decision).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn a_call_waits_for_its_user_and_is_made_once() {
    let (agent, sent) = payer();
    let server = Server::start(Home::memory(), agent).await;
    let mut reader = server.say("kate", "c1", "Pay Ann.").await;
    let (_, question) = reader.until("approval_asked").await;
    assert_eq!(question["name"], "send_money");
    assert_eq!(question["effect"], "irreversible");
    assert_eq!(question["schema"]["properties"]["amount"]["type"], "integer");
    let listed = server.json("kate", "/questions").await;
    assert_eq!(listed["questions"][0]["question"], question["question"]);
    assert_eq!(server.json("tom", "/questions").await, json!({"questions": []}));

    // Nobody answers another user's question.
    let approve = json!("approve");
    assert_eq!(decide(&server, "tom", &question, &approve).await.0, 404);
    assert_eq!(sent.load(Ordering::SeqCst), 0);
    // Two clicks are one decision.
    let (one, two) = tokio::join!(
        decide(&server, "kate", &question, &approve),
        decide(&server, "kate", &question, &approve),
    );
    let mut statuses = [one.0, two.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    let (before, done) = reader.until("done").await;
    assert_eq!(done["answer"], "Result: 5 sent to Ann");
    let decided = before.iter().find(|update| update["update"] == "decided").unwrap();
    assert_eq!((&decided["decision"], &decided["by"]), (&json!("approve"), &json!("kate")));
    assert_eq!(sent.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_decision_denies_or_edits_and_must_fit() {
    let (agent, sent) = payer();
    let server = Server::start(Home::memory(), agent).await;
    let mut reader = server.say("kate", "c1", "Pay Ann.").await;
    let (_, question) = reader.until("approval_asked").await;
    let wrong = json!({"edit": {"arguments": {"to": "Ann", "amount": "a lot"}}});
    let (status, error) = decide(&server, "kate", &question, &wrong).await;
    assert_eq!(status, 422);
    insta::assert_snapshot!(error["error"].as_str().unwrap());
    let (status, error) = decide(&server, "kate", &question, &json!("call_again")).await;
    assert_eq!(status, 422, "{error}");
    let edit = json!({"edit": {"arguments": {"to": "Bob", "amount": 1}}});
    assert_eq!(decide(&server, "kate", &question, &edit).await.0, 200);
    let (_, done) = reader.until("done").await;
    assert!(done["answer"].as_str().unwrap().contains("1 sent to Bob"), "{done}");
    assert_eq!(sent.load(Ordering::SeqCst), 1);

    let mut reader = server.say("kate", "c2", "Pay Ann.").await;
    let (_, question) = reader.until("approval_asked").await;
    let deny = json!({"deny": {"reason": "She was paid."}});
    assert_eq!(decide(&server, "kate", &question, &deny).await.0, 200);
    let (_, done) = reader.until("done").await;
    assert!(done["answer"].as_str().unwrap().contains("She was paid."), "{done}");
    assert_eq!(sent.load(Ordering::SeqCst), 1);
}

/// Pay an amount of the smallest unit of a currency.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct PayExactly {
    /// How much.
    amount: u128,
}

impl Signature for PayExactly {
    type Output = String;
}

/// An agent that pays an amount that no float has.
pub(crate) fn exact_payer() -> Agent {
    let pay = from_fn(async |input: PayExactly| Ok(format!("{} paid", input.amount)));
    let tool = Tool::new(pay).unwrap().with_effect(Effect::Irreversible);
    let model = Slow::fast(|request| {
        Ok(match request.messages.last().map(|message| &**message) {
            Some(Message::Tool(result)) => Reply::text(format!("Result: {}", result.text)),
            _ => Reply::calls([ToolCall::new("", "pay_exactly", r#"{"amount": 5}"#)]),
        })
    });
    let agent = Agent::new(model, [tool]).unwrap();
    agent.with_approval(ApprovalPolicy::from_effect(Effect::Irreversible)).unwrap()
}

#[tokio::test]
async fn the_numbers_of_a_person_keep_their_digits() {
    let server = Server::start(Home::memory(), exact_payer()).await;
    let mut reader = server.say("kate", "c1", "Pay.").await;
    let (_, question) = reader.until("approval_asked").await;
    let (run, id) = (question["run"].as_str().unwrap(), question["question"].as_str().unwrap());
    let body = r#"{"edit": {"arguments": {"amount": 12345678901234567890123}}}"#;
    let path = format!("/runs/{run}/questions/{id}");
    let request = server.post("kate", &path, &Value::Null).body(body);
    assert_eq!(request.send().await.unwrap().status(), 200);
    let (_, done) = reader.until("done").await;
    let answer = done["answer"].as_str().unwrap();
    assert!(answer.contains("12345678901234567890123 paid"), "{answer}");
}

#[tokio::test]
async fn arguments_with_a_field_twice_are_refused() {
    let (agent, sent) = payer();
    let server = Server::start(Home::memory(), agent).await;
    let mut reader = server.say("kate", "c1", "Pay Ann.").await;
    let (_, question) = reader.until("approval_asked").await;
    let (run, id) = (question["run"].as_str().unwrap(), question["question"].as_str().unwrap());
    let path = format!("/runs/{run}/questions/{id}");
    let body = r#"{"edit": {"arguments": {"to": "Ann", "to": "Eve", "amount": 1}}}"#;
    let (status, error) = Server::error(server.post("kate", &path, &Value::Null).body(body)).await;
    assert_eq!(status, 422, "{error}");
    assert!(error.contains("`to`"), "{error}");
    assert_eq!(sent.load(Ordering::SeqCst), 0);
}

/// A program with UTF-16 texts may cut one inside a character.
#[tokio::test]
async fn half_a_character_is_replaced_in_a_message_and_refused_in_arguments() {
    let (agent, sent) = payer();
    let server = Server::start(Home::memory(), agent).await;
    let half = r"Pay Ann \ud83d";
    let body = format!(r#"{{"conversation": "c1", "text": "{half}"}}"#);
    let request = server.post("kate", "/messages", &Value::Null).body(body);
    let mut reader = Stream::of(request.send().await.unwrap());
    let (before, question) = reader.until("approval_asked").await;
    assert_eq!(before[0]["text"], "Pay Ann \u{fffd}");

    let (run, id) = (question["run"].as_str().unwrap(), question["question"].as_str().unwrap());
    let path = format!("/runs/{run}/questions/{id}");
    let body = format!(r#"{{"edit": {{"arguments": {{"to": "{half}", "amount": 1}}}}}}"#);
    let request = server.post("kate", &path, &Value::Null).body(body);
    let (status, error) = Server::error(request).await;
    assert_eq!(
        (status, &*error),
        (422, "a text in the arguments was cut inside a character; send it whole")
    );
    // Bytes that are not UTF-8 are no character at all.
    let body = b"{\"edit\": {\"arguments\": {\"to\": \"Ann \xff\", \"amount\": 1}}}".to_vec();
    let request = server.post("kate", &path, &Value::Null).body(body);
    assert_eq!(Server::error(request).await.0, 400);
    assert_eq!(sent.load(Ordering::SeqCst), 0);

    let body = format!(
        r#"{{"id": "c2", "messages": [
            {{"id": "m1", "role": "user", "parts": [{{"type": "text", "text": "{half}"}}]}}
        ]}}"#
    );
    let request = server.post("kate", "/chat", &Value::Null).body(body);
    assert_eq!(request.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_question_is_answered_on_another_day_in_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let journal = || Journal::open(folder.path()).unwrap();
    let (agent, _) = payer();
    let before = Server::start(journal(), agent).await;
    let mut reader = before.say("kate", "c1", "Pay Ann.").await;
    reader.until("approval_asked").await;
    let position = reader.position.clone();
    before.service.shutdown(std::time::Duration::from_millis(200)).await;
    drop(before);

    let (agent, sent) = payer();
    let after = Server::start(journal(), agent).await;
    let listed = after.json("kate", "/questions").await;
    let question = listed["questions"][0].clone();
    let run = question["run"].as_str().unwrap();
    let mut reader = after.resume("kate", run, &position).await;
    assert_eq!(decide(&after, "kate", &question, &json!("approve")).await.0, 200);
    let updates = reader.all().await;
    assert_eq!(shown(&updates), "Result: 5 sent to Ann");
    assert_eq!(sent.load(Ordering::SeqCst), 1);
    assert_eq!(decide(&after, "kate", &question, &json!("approve")).await.0, 409);
}

#[tokio::test]
async fn a_run_that_waits_is_stopped_and_asks_nobody_any_more() {
    let (agent, sent) = payer();
    let server = Server::start(Home::memory(), agent).await;
    let mut reader = server.say("kate", "c1", "Pay Ann.").await;
    let (_, question) = reader.until("approval_asked").await;
    let path = format!("/runs/{}/stop", question["run"].as_str().unwrap());
    assert_eq!(server.post("kate", &path, &json!({})).send().await.unwrap().status(), 200);
    assert_eq!(reader.all().await.last().unwrap()["update"], "stopped");
    assert_eq!(decide(&server, "kate", &question, &json!("approve")).await.0, 409);
    assert_eq!(server.json("kate", "/questions").await, json!({"questions": []}));
    assert_eq!(server.json("kate", "/conversations/c1").await["runs"][0]["rest"], "over");
    let (_, again) = server.say("kate", "c1", "Pay Ann.").await.until("approval_asked").await;
    assert_ne!(again["question"], question["question"]);
    assert_eq!(sent.load(Ordering::SeqCst), 0);
}
