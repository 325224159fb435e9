//! Replies of each kind: text, reasoning, the reasons to stop, and usage.

use serde_json::{Value, json};
use toolwright_module::message::ReplyPart;
use toolwright_module::model::{Finish, Usage};
use toolwright_module::{Message, Request};
use toolwright_orchestrator::Ending;

use super::{hi, reply};
use crate::script::{Saw, Script};
use crate::trial::{Trial, own, same};
use crate::{Check, Wire};

/// A reason to stop that no provider knows.
const UNKNOWN: &str = "new_reason";

pub(crate) fn all() -> Vec<Script> {
    vec![
        Script::new("text", [json!({"text": "Good day, 世界! 🦀"})], |trial| async move {
            let reply = reply(&trial, hi()).await?;
            same("the text", reply.to_text(), "Good day, 世界! 🦀")?;
            same("the finish", reply.finish, Finish::Stop)?;
            same("the model", reply.model.as_deref(), Some(trial.model.name()))?;
            Ok(Saw::Works)
        }),
        Script::new(
            "usage",
            [json!({"text": "Hi.", "usage": {"in": 1234, "out": 56}})],
            |trial| async move {
                same("the usage", reply(&trial, hi()).await?.usage, Usage::new(1234, 56))?;
                Ok(Saw::Works)
            },
        ),
        Script::new(
            "conversation",
            [json!({"text": "One."}), json!({"text": "Two."}), json!({"text": "Three."})],
            |trial| async move {
                let mut request = hi();
                for (round, said) in ["One.", "Two.", "Three."].into_iter().enumerate() {
                    let reply = reply(&trial, request.clone()).await?;
                    same("the text", reply.to_text(), said)?;
                    request.messages.push(Message::Assistant { parts: reply.parts }.into());
                    request.messages.push(Message::user(format!("Round {round}.")));
                }
                let seen = trial.seen(3).await?;
                let last = seen.last().map(|seen| seen.body.to_string()).unwrap_or_default();
                let order = ["Be brief.", "Hi!", "One.", "Round 0.", "Two.", "Round 1."];
                same("the order of texts", in_order(&last, &order), true)?;
                Ok(Saw::Works)
            },
        ),
        Script::with_steps(
            "reasoning",
            |wire, _| {
                // The server's Chat Completions have no field for it.
                let reasoning = (wire != Wire::OpenAiChat).then_some("Let me think.");
                vec![json!({"reasoning": reasoning, "text": "Done."})]
            },
            |trial| async move {
                if trial.wire == Wire::OpenAiChat {
                    reply(&trial, hi()).await?;
                    return Ok(Saw::Lacks("not in the API"));
                }
                let reply = reply(&trial, hi()).await?;
                let Some(ReplyPart::Reasoning(reasoning)) = reply.parts.first() else {
                    return Err(format!("no reasoning: {:?}", reply.parts).into());
                };
                same("the reasoning", &*reasoning.text, "Let me think.")?;
                same("the text", reply.to_text(), "Done.")?;
                Ok(Saw::Works)
            },
        ),
        Script::new(
            "length",
            [json!({"text": "The first half of", "finish": "length"})],
            |trial| async move {
                let reply = reply(&trial, hi()).await?;
                same("the finish", &reply.finish, &Finish::Length)?;
                same("the text", reply.to_text(), "The first half of")?;
                Ok(Saw::Works)
            },
        ),
        Script::new("refusal", [json!({"refusal": "I cannot help."})], |trial| async move {
            let reply = reply(&trial, hi()).await?;
            same("the finish", &reply.finish, &Finish::Refused)?;
            if trial.wire != Wire::Gemini {
                same("the text", reply.to_text(), "I cannot help.")?;
            }
            Ok(Saw::Works)
        }),
        Script::new(
            "content filter",
            [json!({"text": "The first half of", "finish": "filter"})],
            |trial| async move {
                same("the finish", reply(&trial, hi()).await?.finish, Finish::Refused)?;
                Ok(Saw::Works)
            },
        ),
        Script::with_steps(
            "an unknown reason to stop",
            |wire, _| vec![body(unknown(wire))],
            |trial| async move {
                let reply = reply(&trial, hi()).await?;
                let known = Finish::Other(UNKNOWN.to_owned());
                same("the finish", &reply.finish, &known)?;
                same("the text", reply.to_text(), "Half.")?;
                Ok(Saw::Works)
            },
        ),
        Script::with_steps(
            "a pause",
            |wire, _| {
                paused(wire).into_iter().map(body).chain([json!({"text": "Found."})]).collect()
            },
            |trial| async move {
                let finished = trial.run([], "Search the web.").await?;
                same("the ending", finished.ending, Ending::Answered)?;
                same("the answer", &*finished.answer, "Found.")?;
                if paused(trial.wire).is_none() {
                    return Ok(Saw::Lacks("not in the API"));
                }
                let seen = trial.seen(2).await?;
                let last = seen.last().map(|seen| seen.body.to_string()).unwrap_or_default();
                let back = ["Search the web.", "srvtoolu_1", "I search."];
                same("what goes back", back.iter().all(|part| last.contains(part)), true)?;
                Ok(Saw::Works)
            },
        ),
        Script::new("an empty reply", [json!({"empty": true})], |trial| async move {
            match trial.ask(hi()).await? {
                Ok(reply) => same("the parts", reply.parts, [])?,
                Err(error) => {
                    own(&error)?;
                }
            }
            Ok(Saw::Works)
        })
        .leaving_steps(),
        Script::new(
            "unknown fields",
            [json!({
                "reasoning": "Hm.", "text": "All well.",
                "extra": {"mood": {"good": [true, null]}, "x_provider": "x1", "service_tier": "on_demand"},
            })],
            |trial| async move {
                same("the text", reply(&trial, hi()).await?.to_text(), "All well.")?;
                Ok(Saw::Works)
            },
        ),
        Script::new("a long text in small pieces", [long(1)], long_text),
        Script::new("comments, CRLF and split writes", [long_split()], long_text),
    ]
}

/// A text that is longer than a buffer.
fn long(chunk: u32) -> Value {
    json!({"text": "Wort für Wort. ".repeat(400), "chunk": chunk})
}

fn long_split() -> Value {
    let mut step = long(100);
    step["fault"] = json!({"kind": "comments"});
    step
}

async fn long_text(trial: Trial) -> Check<Saw> {
    let reply = reply(&trial, Request::new([Message::user("Tell me much.")])).await?;
    same("the text", reply.to_text(), "Wort für Wort. ".repeat(400))?;
    // Both modes cost the same.
    same("the usage", reply.usage, Usage::new(7, 5))?;
    Ok(Saw::Works)
}

/// Returns whether the parts are in the text in this order.
fn in_order(text: &str, parts: &[&str]) -> bool {
    let mut places = parts.iter().map(|part| text.find(part));
    places.all(|place| place.is_some()) && parts.iter().map(|part| text.find(part)).is_sorted()
}

/// A step with this reply, in the form of the API.
fn body(body: Value) -> Value {
    json!({"fault": {"kind": "http", "status": 200, "body": body}})
}

/// A whole reply with an unknown reason to stop.
fn unknown(wire: Wire) -> Value {
    match wire {
        Wire::OpenAiChat => json!({
            "id": "c", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Half."},
                "finish_reason": UNKNOWN}],
        }),
        Wire::OpenAiResponses => json!({
            "id": "r", "object": "response", "model": "m", "status": "incomplete",
            "incomplete_details": {"reason": UNKNOWN},
            "output": [{"type": "message", "id": "m", "role": "assistant", "status": "incomplete",
                "content": [{"type": "output_text", "text": "Half.", "annotations": []}]}],
        }),
        Wire::Anthropic => message(json!([{"type": "text", "text": "Half."}]), UNKNOWN),
        Wire::Gemini => json!({
            "candidates": [{"index": 0, "finishReason": UNKNOWN,
                "content": {"role": "model", "parts": [{"text": "Half."}]}}],
        }),
    }
}

/// A whole reply that pauses, if the API has that.
fn paused(wire: Wire) -> Option<Value> {
    let content = json!([
        {"type": "text", "text": "I search."},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search",
            "input": {"query": "crabs"}},
    ]);
    (wire == Wire::Anthropic).then(|| message(content, "pause_turn"))
}

fn message(content: Value, stop_reason: &str) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": stop_reason, "stop_sequence": null,
        "usage": {"input_tokens": 7, "output_tokens": 5},
    })
}
