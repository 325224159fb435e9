//! Tool calls: one, several at once, wrong ones, and the choice of a tool.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_module::message::ReplyPart;
use toolwright_module::model::{Finish, ToolChoice};
use toolwright_module::{Message, Request, Signature, Tool, from_fn};
use toolwright_orchestrator::{Agent, Compaction, Ending};

use super::{hi, reply};
use crate::script::{Saw, Script};
use crate::trial::{Mode, Trial, own, same};
use crate::{Check, Wire};

/// Say how the weather is.
#[derive(Serialize, Deserialize, JsonSchema)]
struct GetWeather {
    /// City name, in English.
    city: String,
}

impl Signature for GetWeather {
    type Output = String;
}

/// Plan a trip.
#[derive(Serialize, Deserialize, JsonSchema)]
struct PlanTrip {
    /// The stops, in order.
    stops: Vec<Stop>,
    /// Money for the trip, if it is limited.
    budget: Option<f64>,
    pace: Pace,
    /// How to travel.
    by: Transport,
    /// Notes by name.
    notes: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Stop {
    city: String,
    nights: u8,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Pace {
    Slow,
    Fast,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Transport {
    Train { class: u8 },
    OnFoot,
}

impl Signature for PlanTrip {
    type Output = String;
}

/// A tool that counts its calls.
fn get_weather() -> Check<(Tool, Arc<AtomicUsize>)> {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let tool = Tool::new(from_fn(move |GetWeather { city }: GetWeather| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move { Ok(format!("Rain in {city}.")) }
    }))?;
    Ok((tool, calls))
}

fn call(city: &str) -> Value {
    json!({"name": "get_weather", "arguments": {"city": city}})
}

const THOUGHTS: [&str; 3] = ["Think twice.", "Rain in Oslo.", "Think again."];
const QUESTION: &str = "How is the weather?";

/// Runs an agent to its answer, and checks the number of calls of its tool.
async fn answered(trial: &Trial, calls: usize) -> Check {
    let (tool, counted) = get_weather()?;
    let finished = trial.run([tool], QUESTION).await?;
    same("the ending", finished.ending, Ending::Answered)?;
    same("the answer", &*finished.answer, "It rains.")?;
    same("the number of calls", counted.load(Ordering::Relaxed), calls)
}

/// Checks that the last request has these texts in this order.
async fn sent(trial: &Trial, requests: usize, texts: &[&str]) -> Check {
    let seen = trial.seen(requests).await?;
    same("the number of requests", seen.len(), requests)?;
    let body = seen.last().map(|seen| seen.body.to_string()).unwrap_or_default();
    let places: Vec<_> = texts.iter().map(|text| body.find(text)).collect();
    match places.iter().all(Option::is_some) && places.is_sorted() {
        true => Ok(()),
        false => Err(format!("{texts:?} are at {places:?} in {body}").into()),
    }
}

/// Returns the steps of a conversation that an API refuses in its own words.
fn too_long(wire: Wire, _: Mode) -> Vec<Value> {
    let body = match wire {
        Wire::OpenAiChat | Wire::OpenAiResponses => json!({"error": {
            "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please reduce the length of the messages.",
            "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded",
        }}),
        Wire::Anthropic => json!({"type": "error", "error": {
            "type": "invalid_request_error",
            "message": "prompt is too long: 9000 tokens > 8192 maximum",
        }}),
        Wire::Gemini => json!({"error": {
            "code": 400, "status": "INVALID_ARGUMENT",
            "message": "The input token count (9000) exceeds the maximum number of tokens allowed (8192).",
        }}),
    };
    let refused = json!({"fault": {"kind": "http", "status": 400, "body": body}});
    let calls = ["Oslo", "Paris", "Rome"].map(|city| json!({"calls": [call(city)]}));
    let summary = json!({"text": json!({"summary": "It rained in Oslo."}).to_string()});
    calls.into_iter().chain([refused, summary, json!({"text": "It rains."})]).collect()
}

pub(crate) fn all() -> Vec<Script> {
    let rains = || json!({"text": "It rains."});
    vec![
        Script::new("one call", [json!({"calls": [call("Oslo")]}), rains()], |trial| async move {
            answered(&trial, 1).await?;
            sent(&trial, 2, &[QUESTION, "Oslo", "Rain in Oslo."]).await?;
            Ok(Saw::Works)
        }),
        Script::new(
            "tools on demand",
            [
                json!({"calls": [{"name": "find_tools", "arguments": {"query": "weather in a city"}}]}),
                json!({"calls": [call("Oslo")]}),
                rains(),
            ],
            |trial| async move {
                let (tool, counted) = get_weather()?;
                let mut tools = Vec::new();
                for nth in 0..999 {
                    let other = Tool::new(from_fn(async |_: GetWeather| Ok(String::new())))?;
                    tools.push(other.named(&format!("plan_{nth}"))?.described("Plan a trip."));
                }
                tools.insert(500, tool);
                let finished = trial.run(tools.into_iter().map(Tool::deferred), QUESTION).await?;
                same("the answer", &*finished.answer, "It rains.")?;
                same("the number of calls", counted.load(Ordering::Relaxed), 1)?;
                let seen = trial.seen(3).await?;
                let sizes: Vec<_> = seen.iter().map(|it| it.body.to_string().len()).collect();
                // All tools would be 200,000.
                match sizes.iter().all(|size| *size < 8_000) {
                    true => Ok(Saw::Works),
                    false => Err(format!("the requests have {sizes:?} bytes").into()),
                }
            },
        ),
        Script::with_steps("a conversation that is too long", too_long, |trial| async move {
            let (tool, counted) = get_weather()?;
            let agent = Agent::new(Arc::clone(&trial.model), [tool])?
                .with_compaction(Compaction { keep_rounds: 1, ..Compaction::default() })?;
            let mut run = agent.start(QUESTION)?;
            let finished = agent.drive(&mut run, &trial.context()).await?;
            same("the answer", &*finished.answer, "It rains.")?;
            same("the number of calls", counted.load(Ordering::Relaxed), 3)?;
            same("the compactions", run.compactions().len(), 1)?;
            // Three calls, the refused request, the summary, and the request that is short enough.
            sent(&trial, 6, &[QUESTION, "It rained in Oslo.", "Rome", "Rain in Rome."]).await?;
            let last = trial.seen(6).await?.pop().map(|seen| seen.body.to_string());
            match last.is_some_and(|body| !body.contains("Rain in Oslo.")) {
                true => Ok(Saw::Works),
                false => Err("the last request has what the summary replaces".into()),
            }
        }),
        Script::new(
            "parallel calls",
            [json!({"calls": [call("Oslo"), call("Rome"), call("Oslo")]}), rains()],
            |trial| async move {
                answered(&trial, 3).await?;
                sent(&trial, 2, &[QUESTION, "Oslo", "Rome", "Rain in Oslo.", "Rain in Rome."])
                    .await?;
                Ok(Saw::Works)
            },
        ),
        Script::new(
            "rounds of calls",
            [
                json!({"text": "First Oslo.", "calls": [call("Oslo")]}),
                json!({"calls": [call("Rome")]}),
                rains(),
            ],
            |trial| async move {
                answered(&trial, 2).await?;
                let texts = [QUESTION, "First Oslo.", "Rain in Oslo.", "Rome", "Rain in Rome."];
                sent(&trial, 3, &texts).await?;
                Ok(Saw::Works)
            },
        ),
        Script::new(
            "the round trip of reasoning",
            [
                json!({"reasoning": "Think twice.", "text": "First Oslo.", "calls": [call("Oslo")]}),
                json!({"reasoning": "Think again.", "calls": [call("Rome")]}),
                rains(),
            ],
            |trial| async move {
                answered(&trial, 2).await?;
                // The id or the signature of each reasoning, and its text where that goes back.
                let (opaque, kept): (&[&str], &[&str]) = match trial.wire {
                    Wire::OpenAiChat => return Ok(Saw::Lacks("not in the API")),
                    Wire::OpenAiResponses => (&["rs_1", "rs_2"], &THOUGHTS),
                    Wire::Anthropic => (&["c2ln"], &THOUGHTS),
                    Wire::Gemini => (&["c2ln"], &["Oslo", "Rain in Oslo."]),
                };
                sent(&trial, 3, opaque).await?;
                sent(&trial, 3, kept).await?;
                Ok(Saw::Works)
            },
        ),
        Script::new(
            "wrong arguments, then corrected",
            [
                json!({"calls": [{"name": "get_weather", "arguments": {"town": "Oslo"}}]}),
                json!({"calls": [call("Oslo")]}),
                rains(),
            ],
            |trial| async move {
                answered(&trial, 1).await?;
                Ok(Saw::Works)
            },
        ),
        Script::new(
            "arguments that are not JSON",
            [
                json!({"calls": [{"name": "get_weather", "arguments": "{\"city\": \"Oslo\", \"x\""}]}),
                json!({"calls": [call("Oslo")]}),
                rains(),
            ],
            |trial| async move {
                answered(&trial, 1).await?;
                Ok(Saw::Works)
            },
        ),
        Script::new(
            "arguments that are cut off",
            [
                // The first call of a reply that was cut off is not made either.
                json!({"calls": [call("Bergen"), {"name": "get_weather", "arguments": "{\"city\": \"Os"}],
                    "finish": "length"}),
                json!({"calls": [call("Oslo")]}),
                rains(),
            ],
            |trial| async move {
                answered(&trial, 1).await?;
                Ok(Saw::Works)
            },
        ),
        Script::new(
            "an unknown tool",
            [
                json!({"calls": [{"name": "forget_everything", "arguments": {}}]}),
                json!({"calls": [call("Oslo")]}),
                rains(),
            ],
            |trial| async move {
                answered(&trial, 1).await?;
                Ok(Saw::Works)
            },
        ),
        Script::new(
            "a call without arguments",
            [json!({"calls": [{"name": "get_weather", "arguments": {}}]})],
            |trial| async move {
                let (tool, _) = get_weather()?;
                let request = hi().with_tools([Arc::clone(tool.contract())]);
                let reply = reply(&trial, request).await?;
                let arguments: Vec<_> = reply.tool_calls().map(|call| &*call.arguments).collect();
                same("the arguments", arguments, ["{}"])?;
                Ok(Saw::Works)
            },
        ),
        Script::new(
            "a call in pieces of one character",
            [json!({"chunk": 1, "calls": [
                {"name": "get_weather", "arguments": {"city": "Tromsø \"north\" \\ 🦀\n"}}]})],
            |trial| async move {
                let (tool, _) = get_weather()?;
                let request = hi().with_tools([Arc::clone(tool.contract())]);
                let reply = reply(&trial, request).await?;
                same("the finish", &reply.finish, &Finish::Stop)?;
                let calls: Vec<_> = reply.tool_calls().collect();
                let [call] = calls[..] else { return Err(format!("{calls:?}").into()) };
                let arguments: GetWeather = serde_json::from_str(&call.arguments)?;
                same("the city", &*arguments.city, "Tromsø \"north\" \\ 🦀\n")?;
                Ok(Saw::Works)
            },
        ),
        Script::new("a forced call", [json!({"calls": [call("Oslo")]})], |trial| async move {
            choose(&trial, ToolChoice::Required).await
        })
        .leaving_steps(),
        Script::new(
            "a forced call of one tool",
            [json!({"calls": [call("Oslo")]})],
            |trial| async move { choose(&trial, ToolChoice::Tool("get_weather".to_owned())).await },
        )
        .leaving_steps(),
        Script::new("no call allowed", [json!({"text": "No."})], |trial| async move {
            choose(&trial, ToolChoice::None).await
        })
        .leaving_steps(),
        Script::new(
            "many tools, of every type",
            [json!({"calls": [{"name": "plan_trip", "arguments": {
                "stops": [{"city": "Oslo", "nights": 2}], "budget": null, "pace": "slow",
                "by": {"kind": "train", "class": 2}, "notes": {}}}]})],
            |trial| async move {
                let plan = Tool::new(from_fn(async |_: PlanTrip| Ok(String::new())))?;
                let mut tools = vec![Arc::clone(plan.contract())];
                for number in 0..24 {
                    let (tool, _) = get_weather()?;
                    let tool = tool.named(&format!("get_weather_{number}"))?;
                    tools.push(Arc::clone(tool.contract()));
                }
                let reply = reply(&trial, hi().with_tools(tools)).await?;
                let names: Vec<_> = reply.tool_calls().map(|call| &*call.name).collect();
                same("the calls", names, ["plan_trip"])?;
                Ok(Saw::Works)
            },
        ),
        Script::new(
            "a broken stream within arguments",
            [json!({"calls": [call("Oslo")], "fault": {"kind": "truncate", "after": 3}})],
            |trial| async move {
                let (tool, _) = get_weather()?;
                let request = hi().with_tools([Arc::clone(tool.contract())]);
                match trial.ask(request).await? {
                    // Gemini sends a call in one event, and the end of the reply is in it.
                    Ok(reply) => {
                        let calls: Vec<_> = reply.tool_calls().collect();
                        let is_whole =
                            matches!(calls[..], [call] if call.arguments.contains("Oslo"));
                        same("whether the call is whole", is_whole, true)?;
                    }
                    Err(error) => {
                        own(&error)?;
                    }
                }
                Ok(Saw::Works)
            },
        )
        .leaving_steps(),
    ]
}

/// Sends a request with a choice. A provider may lack it, but must not drop it.
async fn choose(trial: &Trial, choice: ToolChoice) -> Check<Saw> {
    let (tool, _) = get_weather()?;
    let is_none = choice == ToolChoice::None;
    let named = match &choice {
        ToolChoice::Tool(name) => Some(name.clone()),
        _ => None,
    };
    let request = Request::new([Message::user(QUESTION)])
        .with_tools([Arc::clone(tool.contract())])
        .with_tool_choice(choice);
    let is_able = is_none || trial.model.capabilities().tools;
    match trial.ask(request).await? {
        Ok(_) if !is_able => Err("the model drops the choice".into()),
        Ok(reply) => {
            let has_call = reply.parts.iter().any(|part| matches!(part, ReplyPart::Call(_)));
            same("whether there is a call", has_call, !is_none)?;
            let seen = trial.seen(1).await?;
            let body = seen.first().map(|seen| seen.body.clone()).unwrap_or_default();
            let choice = ["tool_choice", "toolConfig"].iter().find_map(|name| body.get(name));
            let choice = choice.ok_or("the body has no choice")?.to_string();
            let is_named = named.is_none_or(|name| choice.contains(&name));
            same("whether the choice names the tool", is_named, true)?;
            Ok(Saw::Works)
        }
        Err(error) if !is_able => {
            own(&error)?;
            Ok(Saw::Lacks("a typed error"))
        }
        Err(error) => Err(error.into()),
    }
}
